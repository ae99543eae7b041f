/* at_least: reads that wait until the store has come to a turn: ?at_least=N on any GET.
 *
 * Who wrote through one server was told the turn (Weir-Turn) and reads at least that much through another. Waiting calls are looked at when
 * a turn was committed here, and every CHECK_MS for what others committed; one look at the store serves all. A call that waits has read
 * nothing yet: its handler runs when the turn is there.
 *
 * After AT_LEAST_MS the answer is 503 not_yet, and what the store had come to. */
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

/* turn_reached: what is known here is enough for most; else the store is asked. */
static bool turn_reached(struct api *api, int64_t wanted, int64_t *out_turn, struct err *err)
{
    struct store_head head;
    *out_turn = engine_time(api->config.engine);
    if (*out_turn >= wanted)
        return true;
    if (!reader_head(api->config.reader, &head, err))
        return false;
    *out_turn = head.turn > *out_turn ? head.turn : *out_turn;
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

void at_least_check(struct api *api, bool ask)
{
    struct err err = { .code = ERR_none };
    int64_t turn = 0, now = loop_now(api->config.loop);
    if (api->waiting.n == 0)
        return;
    bool read = turn_reached(api, ask ? INT64_MAX : 0, &turn, &err);
    for (struct list_node *node = api->waiting.first, *next; node != NULL; node = next) {
        next = node->next; /* a handler answers its own call and touches no other */
        struct waiting *waiting = CONTAINER_OF(node, struct waiting, node);
        struct call *call = waiting->call;
        if (read && turn >= waiting->turn)
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
    at_least_check(api, true);
    if (api->waiting.n > 0)
        loop_arm(api->config.loop, timer, loop_now(api->config.loop) + CHECK_MS);
}

bool at_least_met(struct call *call)
{
    struct api *api = call->api;
    int64_t wanted = 0, turn = 0;
    if (call->request->query.len == 0)
        return true;
    if (!call_param_i64(call, "at_least", 0, INT64_MAX, &wanted) || (wanted > 0 && !turn_reached(api, wanted, &turn, &call->err))) {
        call_problem(call);
        return false;
    }
    if (turn >= wanted) {
        call->turn = turn > call->turn ? turn : call->turn;
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
