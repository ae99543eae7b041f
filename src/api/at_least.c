/* at_least: reads that wait until this server has come to a commit of the store: ?at_least=N on any GET.
 *
 * Who wrote through one server was told the number of the commit (Weir-Turn) and reads at least that much through another. What this server
 * answers from memory must be as new as what it reads: so its engine has to have taken the commit over. Waiting calls are looked at when
 * it has; when only the store is ahead, which is looked up every CHECK_MS for all of them at once, the engine is woken. A call that waits
 * has read nothing yet: its handler runs when the commit is there.
 *
 * After AT_LEAST_MS the answer is 503 not_yet, and what this server had come to. */
#include <inttypes.h>

#include "api/call.h"

enum { AT_LEAST_MS = 10000, CHECK_MS = 25 };

struct waiting {
    struct list_node node; /* api->waiting, in the order of their deadlines */
    struct call *call;
    int64_t turn, deadline_ms;
};

static void waiting_released(struct call *call)
{
    struct waiting *waiting = call->state;
    list_remove(&call->api->waiting, &waiting->node);
}

/* The store may be ahead of the engine by what other servers committed without a word to us. */
static bool engine_follow(struct api *api, struct err *err)
{
    struct store_head head;
    if (!reader_head(api->config.reader, &head, err))
        return false;
    if (head.commit > engine_time(api->config.engine))
        engine_wake(api->config.engine);
    return true;
}

static void waiting_resume(struct waiting *waiting, int64_t turn)
{
    struct call *call = waiting->call;
    list_remove(&call->api->waiting, &waiting->node);
    call->on_release = NULL;
    call->state = NULL;
    call->turn = turn;
    call->route->handler(call);
}

void at_least_check(struct api *api)
{
    int64_t turn = engine_time(api->config.engine), now = loop_now(api->config.loop);
    for (struct list_node *node = api->waiting.first, *next; node != NULL; node = next) {
        next = node->next; /* a handler answers its own call and touches no other */
        struct waiting *waiting = CONTAINER_OF(node, struct waiting, node);
        struct call *call = waiting->call;
        if (turn >= waiting->turn)
            waiting_resume(waiting, turn);
        else if (api->closing)
            call_refuse(call, ERR_unavailable, "the server is stopping");
        else if (now >= waiting->deadline_ms)
            call_refuse(call, ERR_not_yet, "turn %" PRId64 " isn't here after %d s: the newest is %" PRId64, waiting->turn,
                AT_LEAST_MS / 1000, turn);
    }
}

void at_least_due(struct loop_timer *timer)
{
    struct api *api = timer->owner;
    struct err ignored = { .code = ERR_none }; /* a store that can't be read is as one that isn't there yet */
    at_least_check(api);
    if (api->waiting.n == 0)
        return;
    (void)engine_follow(api, &ignored);
    loop_arm(api->config.loop, timer, loop_now(api->config.loop) + CHECK_MS);
}

bool at_least_met(struct call *call)
{
    struct api *api = call->api;
    int64_t wanted = 0, turn = engine_time(api->config.engine);
    if (call->request->query.len == 0)
        return true;
    if (!call_param_i64(call, "at_least", 0, INT64_MAX, &wanted) || (wanted > turn && !engine_follow(api, &call->err))) {
        call_problem(call);
        return false;
    }
    if (turn >= wanted) {
        call->turn = turn;
        return true;
    }
    struct waiting *waiting = ARENA_NEW(&call->arena, struct waiting);
    int64_t now = loop_now(api->config.loop);
    *waiting = (struct waiting){ .call = call, .turn = wanted, .deadline_ms = now + AT_LEAST_MS };
    call->state = waiting;
    call->on_release = waiting_released;
    list_append(&api->waiting, &waiting->node);
    if (api->waiting_check.node.pos == 0)
        loop_arm(api->config.loop, &api->waiting_check, now + CHECK_MS);
    return false;
}
