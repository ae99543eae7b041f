/* wait_for_commit: calls that wait until this server has a commit of the store, or has the store itself again.
 *
 * ?at_least=N on any GET: a client that wrote through one server got the number of the commit (Weir-Turn), and reads at
 * least that commit through another one. This server answers partly from its engine's memory, so the engine must have
 * taken the commit over too. Waiting calls are checked when it has; every CHECK_MS one read of the store's newest
 * commit, for all of them, finds out whether the engine must be woken. A waiting call has read nothing yet: its handler
 * runs when the commit is here. After COMMIT_MS the answer is 503 not_yet with the newest commit that is here.
 *
 * call_follows: a call with a token or tenant that this server doesn't know, though another server may have just made
 * it, waits for the newest commit that a read after its arrival finds, and is then served from the beginning. All such
 * calls together cost one read every CHECK_MS: strangers can't load the store with them, and how long they wait tells
 * nothing about the token.
 *
 * call_misses: a call that comes while the connection to the store is lost waits for it, STORE_MS at most, and not at
 * all once a turn has waited in vain: a client whose write was acknowledged isn't told a moment later that the store
 * can't be read. call_missed: a read that loses the connection on its way is served once more, also when a lock in the
 * database stopped it: after that lock's time. */
#include <inttypes.h>

#include "api/call.h"
#include "base/plant.h"
#include "io/clock.h"

enum { HELD_MAX = 1000 }; /* at most so many reads wait for a lock in the database; others are refused */
enum { COMMIT_MS = 10000, CHECK_MS = 25, STORE_MS = 4000 };
enum { AGAIN_MS = 3000 }; /* a read that failed after more than this isn't retried */

#define TURN_UNKNOWN INT64_MAX /* the next read of the store's newest commit sets it */

struct waiting {
    struct list_node node; /* api->waits.calls, in the order of their deadlines */
    struct call *call;
    int64_t turn, deadline_ms;
    bool held;  /* for a lock in the database: until its deadline */
    bool asked; /* the read of the newest commit that is under way began after this call came */
};

static void waiting_released(struct call *call)
{
    struct waiting *waiting = call->state;
    list_remove(&call->api->waits.calls, &waiting->node);
}

static void head_take(struct api *api, const struct store_head *head)
{
    if (head->commit > engine_time(api->config.engine))
        engine_wake(api->config.engine);
    for (struct list_node *node = api->waits.calls.first; node != NULL; node = node->next) {
        struct waiting *waiting = CONTAINER_OF(node, struct waiting, node);
        if (waiting->turn == TURN_UNKNOWN && waiting->asked && waiting->call->stage == CALL_FOLLOWS)
            waiting->turn = head->commit;
    }
}

/* Other servers may have committed since. With read threads the answer comes later (head_looked). */
static bool engine_follow(struct api *api, struct err *err)
{
    struct store_head head;
    api->waits.looked_ms = loop_now(api->config.loop);
    if (api->read_threads != NULL && chore_runs(api->waits.head_chore))
        return true;
    for (struct list_node *node = api->waits.calls.first; node != NULL; node = node->next)
        CONTAINER_OF(node, struct waiting, node)->asked = true;
    if (chore_begin(api, api->waits.head_chore))
        return true;
    if (!reader_head(api->config.reader, &head, err))
        return false;
    head_take(api, &head);
    return true;
}

/* --- what the loop has threads read for it --- */

static bool head_look(struct api *own, struct arena *arena, void *out)
{
    struct err ignored = { .code = ERR_none };
    (void)arena;
    return reader_head(own->config.reader, out, &ignored);
}

static void head_looked(struct api *api, void *out)
{
    head_take(api, out);
    wait_for_commit_check(api);
}

static bool store_connect(struct api *own, struct arena *arena, void *out)
{
    struct reader **reader = out;
    (void)own, (void)arena;
    return reader_present(*reader);
}

static void store_connected(struct api *api, void *out)
{
    (void)out;
    wait_for_commit_check(api);
}

bool store_there(struct api *api)
{
    if (api->read_threads == NULL)
        return reader_present(api->config.reader);
    if (chore_runs(api->waits.reader_chore))
        return false;
    return reader_there(api->config.reader) || !chore_begin(api, api->waits.reader_chore);
}

void wait_for_commit_begin(struct api *api)
{
    api->waits.head_chore = chore_new(head_look, head_looked, &api->waits.head);
    api->waits.reader_chore = chore_new(store_connect, store_connected, &api->config.reader);
    api->waits.site_chore = chore_new(site_look, site_looked, &api->waits.site);
}

void wait_for_commit_end(struct api *api)
{
    chore_free(api->waits.head_chore);
    chore_free(api->waits.reader_chore);
    chore_free(api->waits.site_chore);
}

static void waiting_resume(struct waiting *waiting, int64_t turn)
{
    struct call *call = waiting->call;
    list_remove(&call->api->waits.calls, &waiting->node);
    call->on_release = NULL;
    call->state = NULL;
    call->turn = turn;
    if (call->stage != CALL_KNOWN)
        call_serve(call);
    else if (auth_stands(call))
        call_handle(call);
}

static void waiting_begin(struct call *call, int64_t turn, int64_t ms)
{
    struct api *api = call->api;
    struct waiting *waiting = ARENA_NEW(&call->arena, struct waiting);
    int64_t now = loop_now(api->config.loop);
    *waiting = (struct waiting){ .call = call, .turn = turn, .deadline_ms = now + ms };
    call->state = waiting;
    call->on_release = waiting_released;
    list_append(&api->waits.calls, &waiting->node);
    if (api->waits.check.node.pos == 0)
        loop_arm(api->config.loop, &api->waits.check, now + CHECK_MS);
}

/* store_missed: the store can't be read now, or the tenants aren't read yet, and waiting may help. */
static bool store_missed(struct api *api)
{
    bool current = api->read_threads == NULL || tenants_current(api);
    if (!current)
        (void)chore_begin(api, api->waits.site_chore);
    return (!store_there(api) || !current) && engine_health(api->config.engine) == ENGINE_OK && !api->closing;
}

bool call_misses(struct call *call)
{
    if (call->stage != CALL_ASKS || !store_missed(call->api))
        return false;
    call->stage = CALL_MISSES;
    engine_wake(call->api->config.engine); /* it may not have noticed yet */
    waiting_begin(call, TURN_UNKNOWN, STORE_MS);
    return true;
}

bool call_missed(struct call *call)
{
    bool read = call->stage == CALL_KNOWN && call->err.code == ERR_unavailable && str_eqz(call->request->method, "GET");
    if (!read || call->again || call->submitted || call->streams || !reader_is_shared(call->api->config.reader) ||
        call->api->closing || (call->reading.since > 0 && clock_boot_ms() - call->reading.since >= AGAIN_MS))
        return false;
    if (call->on_release != NULL)
        call->on_release(call);
    call->on_release = NULL;
    call->state = NULL;
    call->again = true;
    call->err = (struct err){ .arena = &call->arena };
    buf_reset(&call->out);
    call->out.full = false;
    call->stage = CALL_ASKS;
    int64_t held_ms = reader_held_until(call->api->config.reader) - clock_boot_ms();
    if (held_ms > 0 && call->api->waits.calls.n < HELD_MAX) {
        call->stage = CALL_MISSES;
        waiting_begin(call, TURN_UNKNOWN, held_ms + 1);
        ((struct waiting *)call->state)->held = true;
        return true;
    }
    call_serve(call);
    return true;
}

void wait_for_commit_check(struct api *api)
{
    int64_t turn = engine_time(api->config.engine), now = loop_now(api->config.loop);
    bool back = api->waits.calls.n > 0 && !store_missed(api);
    for (struct list_node *node = api->waits.calls.first, *next; node != NULL; node = next) {
        next = node->next; /* a handler answers its own call and touches no other */
        struct waiting *waiting = CONTAINER_OF(node, struct waiting, node);
        struct call *call = waiting->call;
        if (turn >= waiting->turn ||
            (call->stage == CALL_MISSES && ((back && !waiting->held) || now >= waiting->deadline_ms)))
            waiting_resume(waiting, turn);
        else if (api->closing)
            call_refuse(call, ERR_unavailable, "the server is stopping");
        else if (now >= waiting->deadline_ms && waiting->turn == TURN_UNKNOWN)
            call_refuse(call, ERR_unavailable,
                "the store can't be read, so the token or tenant of this request can't be checked");
        else if (now >= waiting->deadline_ms) {
            call->turn = turn; /* now, not when the call came */
            call_refuse(call, ERR_not_yet, "turn %" PRId64 " isn't here after %d s: the newest is %" PRId64,
                waiting->turn, COMMIT_MS / 1000, turn);
        }
    }
}

void wait_for_commit_due(struct loop_timer *timer)
{
    struct api *api = timer->owner;
    struct err ignored = { .code = ERR_none }; /* a store that can't be read is as one that isn't there yet */
    if (api->waits.calls.n > 0)
        (void)engine_follow(api, &ignored);
    wait_for_commit_check(api);
    if (api->waits.calls.n > 0)
        loop_arm(api->config.loop, timer, loop_now(api->config.loop) + CHECK_MS);
}

bool call_follows(struct call *call)
{
    struct api *api = call->api;
    struct err ignored = { .code = ERR_none };
    if (call->stage > CALL_MISSES || !reader_is_shared(api->config.reader))
        return false;
    if (PLANT(token_unfollowed))
        return false;
    call->stage = CALL_FOLLOWS;
    waiting_begin(call, TURN_UNKNOWN, COMMIT_MS);
    struct waiting *waiting = call->state;
    if (loop_now(api->config.loop) - api->waits.looked_ms < CHECK_MS || !engine_follow(api, &ignored) ||
        waiting->turn > engine_time(api->config.engine))
        return true;
    waiting_released(call); /* this server has the newest commit already */
    call->on_release = NULL;
    call->state = NULL;
    return false;
}

bool wait_for_commit(struct call *call)
{
    struct api *api = call->api;
    int64_t wanted = 0, turn = engine_time(api->config.engine);
    call->stage = CALL_KNOWN;
    if (call->request->query.len == 0)
        return true;
    if (!call_param_i64(call, "at_least", 0, INT64_MAX - 1, &wanted) ||
        (wanted > turn && !engine_follow(api, &call->err)))
        return call_problem(call);
    if (turn >= wanted) {
        call->turn = turn;
        return true;
    }
    waiting_begin(call, wanted, COMMIT_MS);
    return false;
}
