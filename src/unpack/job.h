/* job: what unpack.c does on the thread of an unpack_job. Private to the room. */
#ifndef WEIR_UNPACK_JOB_H
#define WEIR_UNPACK_JOB_H

#include "unpack/unpack.h"

bool unpack_job_run(struct unpack_job *job);

#endif
