/* spool: a scan of prequeue/ that is asked for by a call. */
#include "spool/spool.h"

#include "api/answer.h"
#include "api/call.h"

/* scan_release: the call goes before its scan has ended; or the spool has gone before both. */
static void scan_release(struct call *call)
{
    if (call->state != NULL && call->api->spool != NULL)
        spool_scan_cancel(call->api->spool, call->state);
    call->state = NULL;
}

static bool scan_answer(struct call *call, const struct spool_counts *counts)
{
    ANSWER_RETURN(200, ANSWER_SpoolScanned);
}

static void scan_done(struct spool_scan *scan)
{
    struct call *call = scan->owner;
    call->state = NULL;
    if (scan->err.code == ERR_none) {
        scan_answer(call, &scan->counts);
        return;
    }
    err_set(&call->err, scan->err.code, "%s", scan->err.text);
    call_problem(call);
}

bool serve_spool_scan(struct call *call)
{
    struct spool_scan *scan = ARENA_NEW(&call->arena, struct spool_scan);
    *scan = (struct spool_scan){ .done = scan_done, .owner = call };
    if (call->api->spool == NULL)
        return call_refuse(call, ERR_conflict, "this server has no spool (changesets.base: none)");
    if (!spool_scan(call->api->spool, scan, &call->err))
        return call_problem(call);
    call->state = scan;
    call->on_release = scan_release;
    return true;
}
