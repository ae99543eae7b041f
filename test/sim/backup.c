/* backup: the store is copied while work goes on, and the copy is put back later. What happened between the two is
 * unknown to it; the executors of that time still run its jobs and report them, and what they say must have no effect:
 * no fence is ever issued twice (R25). */
#include <string.h>

#include "store/pack.h"
#include "world.h"

struct issued {
    uint64_t *incarnations;
    size_t n, cap;
};

/* A grant was made: its fence is new in the whole history, whatever was put back in between. */
void fence_issue(struct world *w, int64_t task, int64_t grant)
{
    uint64_t key = (uint64_t)task * 100000 + (uint64_t)grant, incarnation = w->store->head.incarnation;
    struct issued *issued = map_find(&w->fences, key);
    if (!issued)
        map_put(&w->fences, key, issued = ARENA_NEW(&w->arena, struct issued));
    for (size_t i = 0; i < issued->n; i++)
        if (issued->incarnations[i] == incarnation)
            world_fail(w, "R25 a fence was issued twice", task);
    *ARENA_PUSH(&w->arena, issued->incarnations, issued->n, issued->cap) = incarnation;
}

static void backup_take(struct world *w)
{
    memstore_keep(&w->backup.store, w->store, &w->store->arena);
    w->backup.known = w->known;
    for (size_t i = 0; i < w->n_calls; i++)
        w->backup.known.answered[i] = w->calls[i].answered;
    w->backup.taken = true;
    trace(w, "a backup is taken");
}

/* As a restore does it: a new incarnation, told in the history; what runs counts as begun; numbers of executors go on
 * elsewhere. */
static void incarnation_renew(struct world *w)
{
    struct memstore *m = w->store;
    struct event event = { .kind = EVENT_incarnation, .actor = STR("restore") };
    struct buf packed;
    buf_init(&packed, 4096);
    pack_events(&packed, &event, 1);
    *ARENA_PUSH(&m->arena, m->turns, m->n_turns, m->cap_turns) =
        (struct turn_row){ m->head.turn + 1, m->head.seq + 1, w->wall, str_dup(&m->arena, buf_str(&packed)) };
    buf_release(&packed);
    m->head.turn++;
    m->head.seq++;
    m->head.incarnation = 0x5eed + ++w->backup.restored;
    m->head.next_executor += 1000 * (int64_t)w->backup.restored;
    for (size_t i = 0; i < m->n_attempts && !PLANT(copies_forget); i++)
        if (!m->attempts[i].finished && m->attempts[i].poll_seq >= 0)
            m->attempts[i].forgotten = true;
}

/* Clients ask again for what they had been told since; what they refer to and isn't there any more they leave out. */
static void calls_again(struct world *w)
{
    for (size_t i = 0; i < w->n_calls; i++) {
        struct call *call = &w->calls[i];
        call->answered = w->backup.known.answered[i] || call->once;
        if (!call->answered)
            call->n_ids = 0;
        struct command *command = call->command;
        for (size_t d = 0; command->kind == CMD_ENQUEUE && d < command->in.enqueue.n_defs && !call->answered; d++) {
            struct task_def *def = &command->in.enqueue.defs[d];
            for (size_t r = 0; r < def->n_refs; r++)
                if (def->refs[r].id && !store_task(w, def->refs[r].id))
                    def->refs[r--] = def->refs[--def->n_refs];
        }
    }
}

static void repositories_again(struct world *w)
{
    for (size_t i = 0; i < w->n_repositories; i++) {
        w->repositories[i].added = false;
        for (int64_t rev = 1; rev <= w->repositories[i].n; rev++)
            w->repositories[i].commits[rev].told = false;
    }
}

static void backup_restore(struct world *w)
{
    for (size_t i = 0; i < SERVERS_MAX; i++) {
        w->at = &w->servers[i];
        if (w->at->engine)
            server_crash(w);
    }
    w->at = w->servers;
    trace(w, "the backup is put back");
    MARK(w, restored);
    for (size_t i = 0; i < w->n_executors; i++)
        for (size_t k = 0; k < JOBS_MAX; k++)
            if (w->executors[i].jobs[k].used)
                MARK(w, restored_live);
    memstore_keep(w->store, &w->backup.store, &w->store->arena);
    w->known = w->backup.known;
    memset(w->before, 0, sizeof w->before);
    incarnation_renew(w);
    memset(w->duties, 0, sizeof w->duties);
    for (size_t i = 0; i < w->store->n_duties; i++)
        for (int k = 0; k < DUTY_COUNT; k++)
            if (str_eqz(w->store->duties[i].name, engine_duty_name((enum duty_kind)k)))
                w->duties[k].epoch = w->store->duties[i].epoch, w->duties[k].holder = w->store->duties[i].holder;
    mail_forget(w);
    calls_again(w);
    repositories_again(w);
}

void backup_step(struct world *w)
{
    if (w->healing || !chance(&w->choices, w->faults.restore))
        return;
    if (w->backup.taken && chance(&w->choices, 500))
        backup_restore(w);
    else
        backup_take(w);
}

void backup_close(struct world *w)
{
    memstore_drop(&w->backup.store);
    map_release(&w->fences);
}
