/* problem: errors as RFC 9457 problem+json: type, title, status, detail, code, and every fault of a bad document. */
#include <stdio.h>

#include "api/answer.h"
#include "api/call.h"

RENDERER(fault_render, Fault, struct json *json, const struct err_item *item)

void problem_render(struct buf *out, const struct err *err)
{
    char type[80];
    snprintf(type, sizeof type, "urn:weir:error:%s", err_name(err->code));
    buf_reset(out);
    struct json writer = json_to(out), *json = &writer;
    ANSWER_WRITE(ANSWER_Problem);
}
