/* task_body: what reading posted tasks shares with resolving their references (task_ref.c). */
#ifndef WEIR_API_TASK_BODY_H
#define WEIR_API_TASK_BODY_H

#include "api/call.h"
#include "text/task_doc.h"

/* refs_resolve: depends, after and cancels of all tasks, once their names are known. Names that are used twice and
 * names that no task of the call has are faults. A `depends` that doesn't say `on` is an `after` where the other, of
 * the same call, has allow_failure. */
void refs_resolve(struct arena *arena, struct task_body *body, const struct task_links *links, struct err *err);

#endif
