/* base64: bytes as text, standard alphabet with padding; for the last log bytes inside a finish. */
#ifndef WEIR_EXEC_BASE64_H
#define WEIR_EXEC_BASE64_H

#include "base/buf.h"

void base64_add(struct buf *out, struct str bytes);

#endif
