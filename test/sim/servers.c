/* servers: several servers on one store: they crash and come back, stand still for longer than the lease of their
 * duties, lose the store or the answer of a commit, and have clocks of their own. Hints between them are lost or come
 * late. What must hold of that, besides what holds of every turn (check, watch):
 *   - a duty's epoch has one holder, the next epoch is taken by the server whose turn it is, and nobody else acts under
 * it;
 *   - never do two servers take a duty for theirs at the same moment;
 *   - while one server is well, nothing that is due stays undone for longer than BOUND_MS: the duties of the others are
 * taken over;
 *   - a server that is well has taken over a commit of another one within READ_MS, told of it or not. */
#include <stdio.h>
#include <string.h>

#include "engine/shared/shared.h"
#include "world.h"

enum { BOUND_MS = 5000, READ_MS = 1500, WELL_MS = 2000 };

bool several(const struct world *w)
{
    return w->n_servers > 1;
}

/* --- lives --- */

static struct world *world_beside; /* of turn_beside: there is one in a process */

/* Another server's turn, in the middle of a narrow one: whatever is compared with the store before that one is compared
 * with what it finds now. */
static void turn_beside(struct memport *port)
{
    struct world *w = world_beside;
    struct server *outer = w->at,
                  *other =
                      &w->servers[((size_t)outer->index + 1 + choose(&w->choices, w->n_servers - 1)) % w->n_servers];
    (void)port;
    if (!other->engine || other->port->in_turn || other->stalled_until > w->boot || other->away_until > w->boot)
        return;
    bool anew = w->anew;
    unsigned looked = w->looked_before;
    outer->overtaken = true;
    w->wall -= outer->wall_ahead;
    w->at = other;
    mail_hasten(w, other);
    trace(w, "  beside it:");
    w->depth++;
    server_turn(w);
    w->depth--;
    w->at = outer;
    w->wall += outer->wall_ahead;
    w->anew = anew;
    w->looked_before = looked;
    w->seq_before = w->store->head.seq;
    w->commit_before = w->store->head.commit;
    watch_before(w);
}

void servers_open(struct world *w, size_t n)
{
    static const unsigned most[] = { 10, 10, 10, 3, 400, 300, 3, 800 };
    static const size_t turns[] = { 500, 20, 3 };
    unsigned *rates = &w->shared_faults.cut;
    _Static_assert(sizeof most / sizeof *most == sizeof(struct shared_faults) / sizeof(unsigned), "a rate for each");
    w->n_servers = n + choose(&w->choices, SERVERS_MAX + 1 - n);
    for (size_t i = 0; i < sizeof most / sizeof *most; i++)
        rates[i] = choose(&w->choices, 2) ? (unsigned)choose(&w->choices, most[i] + 1) : 0;
    size_t turns_max = turns[choose(&w->choices, 3)];
    bool skewed = choose(&w->choices, 4) == 3;
    for (size_t i = 0; i < w->n_servers; i++) {
        struct server *s = &w->servers[i];
        *s = (struct server){
            .index = (int)i, .name = { 's', (char)('1' + i) }, .port = &s->shared, .hint_at = INT64_MAX
        };
        memport_open(&s->shared, w->store, (int)i);
        s->shared.turns_max = turns_max;
        s->boot_ahead = (int64_t)choose(&w->choices, 1000000);
        s->wall_ahead = skewed ? (int64_t)choose(&w->choices, 4000) : 0;
    }
    w->clocks_differ = skewed;
    world_beside = w;
    w->store->beside = turn_beside;
}

int server_choose(struct world *w)
{
    return several(w) ? (int)choose(&w->choices, w->n_servers) : 0;
}

static void clock_set(struct world *w, struct server *s)
{
    static const int64_t ahead[] = { 0, 2000, -2000, 3600000, -3600000, 86400000, -86400000 };
    s->wall_ahead = ahead[choose(&w->choices, sizeof ahead / sizeof *ahead)];
    w->clocks_differ |= s->wall_ahead != 0;
    trace(w, "the clock of %s is %lld ms ahead", s->name, (long long)s->wall_ahead);
}

static void mishap(struct world *w, struct server *s)
{
    if (chance(&w->choices, w->shared_faults.clock))
        clock_set(w, s);
    if (!s->engine)
        return;
    if (chance(&w->choices, w->faults.crash_server)) {
        server_crash(w);
        return;
    }
    if (chance(&w->choices, w->faults.stall)) {
        s->stalled_until = w->boot + LEASE_MS / 6 + (int64_t)choose(&w->choices, 8) * LEASE_MS / 2;
        if (s->stalled_until - w->boot > COORD_LEASE_MS)
            MARK(w, frozen_long);
        trace(w, "%s stands still until %lld", s->name, (long long)(s->stalled_until - 1000000));
    }
    if (chance(&w->choices, w->shared_faults.away)) {
        s->away_until = w->boot + (int64_t)choose(&w->choices, 3 * LEASE_MS);
        MARK(w, store_away);
        trace(w, "%s can't reach the store until %lld", s->name, (long long)(s->away_until - 1000000));
    }
}

void servers_step(struct world *w)
{
    for (size_t i = 0; i < w->n_servers; i++) {
        struct server *s = w->at = &w->servers[i];
        s->port->away = s->away_until > w->boot;
        if (!s->engine && s->back_at <= w->boot && !s->port->away)
            server_start(w);
        if (!w->healing)
            mishap(w, s);
        if (s->stalled_until > w->boot || s->away_until > w->boot || !s->engine)
            s->well_since = w->boot;
    }
}

void servers_heal(struct world *w)
{
    for (size_t i = 0; i < w->n_servers; i++) {
        struct server *s = &w->servers[i];
        s->stalled_until = s->away_until = 0;
        s->port->away = false;
        s->wall_ahead = 0;
    }
}

/* --- reads that wait for a commit --- */

void read_begin(struct world *w, int64_t commit, int from)
{
    int server = server_choose(w);
    if (server == from || !w->servers[server].engine || w->n_reads == READS_MAX)
        return;
    w->reads[w->n_reads].commit = commit;
    w->reads[w->n_reads].since = w->boot;
    w->reads[w->n_reads++].server = server;
}

static void check_reads(struct world *w)
{
    for (size_t i = 0; i < w->n_reads; i++) {
        const struct server *s = &w->servers[w->reads[i].server];
        bool there = s->engine && s->engine->head.commit >= w->reads[i].commit;
        if (there && w->boot > w->reads[i].since)
            MARK(w, read_waited);
        if (there || !s->engine) {
            w->reads[i--] = w->reads[--w->n_reads];
            continue;
        }
        int64_t since = s->well_since > w->reads[i].since ? s->well_since : w->reads[i].since;
        if (w->boot - since > READ_MS)
            world_fail(w, "a read waits for a commit that its server doesn't take over", w->reads[i].commit);
    }
}

/* --- duties --- */

static const struct duty *duty_row(const struct world *w, enum duty_kind duty)
{
    for (size_t i = 0; i < w->store->n_duties; i++)
        if (str_eqz(w->store->duties[i].name, engine_duty_name(duty)))
            return &w->store->duties[i];
    return NULL;
}

static int64_t duty_sure(const struct world *w, const struct server *s, enum duty_kind duty)
{
    return s->engine ? coord_epoch(s->engine->shared->coord, duty, w->boot + s->boot_ahead) : 0;
}

void duty_under(struct world *w, struct command *command, enum duty_kind duty, int *out_server)
{
    *out_server = -1;
    for (size_t i = 0; i < w->n_servers; i++) {
        int64_t epoch = duty_sure(w, &w->servers[i], duty);
        if (!epoch || w->servers[i].stalled_until > w->boot)
            continue;
        command->under.duty = duty;
        command->under.epoch = epoch;
        *out_server = (int)i;
    }
}

bool duty_had(const struct world *w, enum duty_kind duty)
{
    return !several(w) || coord_holds(w->at->engine->shared->coord, duty);
}

bool duty_acted(const struct world *w, enum duty_kind duty)
{
    return !several(w) ||
           (duty_had(w, duty) && w->at->epochs[duty] == w->at->engine->shared->coord->rows[duty].duty.epoch);
}

/* After a turn: w->duties is as it was before it. */
static void check_duties(struct world *w)
{
    struct server *s = w->at;
    for (int k = 0; k < DUTY_COUNT; k++) {
        const struct duty *row = duty_row(w, (enum duty_kind)k);
        int64_t epoch = row ? row->epoch : 0, was = w->duties[k].epoch;
        if (epoch < was || epoch > was + 1)
            world_fail(w, "an epoch of a duty was passed over, or came back", k);
        if (epoch == was && epoch && !str_eq(row->holder, w->duties[k].holder) && row->holder.len)
            world_fail(w, "an epoch of a duty has two holders", k);
        if (epoch > was && !str_eqz(row->holder, s->name))
            world_fail(w, "a duty was taken in the turn of another", k);
        if (epoch > was)
            trace(w, "  %s takes %s, epoch %lld", s->name, engine_duty_name((enum duty_kind)k), (long long)epoch);
        if (epoch > was && was && !str_eq(row->holder, w->duties[k].holder))
            MARK(w, duty_taken);
        int64_t own = s->engine && coord_holds(s->engine->shared->coord, (size_t)k)
                          ? s->engine->shared->coord->rows[k].duty.epoch
                          : 0;
        if (s->epochs[k] && own != s->epochs[k])
            MARK(w, duty_back);
        s->epochs[k] = own;
        w->duties[k].epoch = epoch;
        w->duties[k].holder = row ? row->holder : (struct str){ 0 };
    }
}

/* Nobody acts under an epoch that is over. */
static void check_under(struct world *w, struct command **commands, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct command *command = commands[i];
        if (!command->under.epoch)
            continue;
        bool good = w->duties[command->under.duty].epoch == command->under.epoch &&
                    str_eqz(w->duties[command->under.duty].holder, w->at->name);
        if (command->err.code == ERR_stale_fence)
            MARK(w, epoch_refused);
        else if (!command->err.code && !good)
            world_fail(w, "what was sent under an epoch that is over was accepted", command->under.duty);
    }
}

static void check_sole(struct world *w)
{
    for (int k = 0; k < DUTY_COUNT; k++) {
        size_t sure = 0;
        for (size_t i = 0; i < w->n_servers; i++)
            sure += duty_sure(w, &w->servers[i], (enum duty_kind)k) != 0;
        if (sure > 1)
            world_fail(w, "two servers take a duty for theirs", k);
    }
}

/* --- a turn --- */

void turn_before(struct world *w)
{
    struct memport *port = w->at->port;
    w->anew = w->at->engine->shared->stale || w->at->engine->head.incarnation != w->store->head.incarnation;
    w->at->overtaken = false;
    w->seq_before = w->store->head.seq;
    w->commit_before = w->store->head.commit;
    port->too_far = false;
    w->looked_before = port->n_looked;
    if (w->healing)
        return;
    if (chance(&w->choices, w->shared_faults.cut))
        port->fault = MEM_CUT;
    if (chance(&w->choices, w->shared_faults.answer_lost))
        port->fault = MEM_ANSWER_LOST;
    port->reads_left = chance(&w->choices, w->shared_faults.cut_reading) ? 1 + (unsigned)choose(&w->choices, 12) : 0;
    port->aside = chance(&w->choices, w->shared_faults.beside) ? 1 + (unsigned)choose(&w->choices, 5) : 0;
}

static void hints_send(struct world *w)
{
    for (size_t i = 0; i < w->n_servers; i++) {
        struct server *other = &w->servers[i];
        if (other == w->at || !other->engine)
            continue;
        if (!w->healing && chance(&w->choices, w->shared_faults.hint_lost)) {
            MARK(w, hint_lost);
            continue;
        }
        int64_t at = w->boot + 1 + (int64_t)choose(&w->choices, 10);
        if (!w->healing && chance(&w->choices, w->shared_faults.hint_late))
            at += (int64_t)choose(&w->choices, 3000);
        if (at < other->hint_at)
            other->hint_at = at;
    }
}

void turn_after(struct world *w, struct command **commands, size_t n, bool ok)
{
    struct server *s = w->at;
    s->port->reads_left = 0;
    if (s->port->n_looked > w->looked_before && ok)
        MARK(w, answer_lost);
    if (s->port->too_far)
        MARK(w, too_far);
    if (s->engine->tally->narrow > s->narrow_before)
        MARK(w, narrow);
    if (s->engine->tally->widened > s->widened_before)
        MARK(w, widened);
    s->narrow_before = s->engine->tally->narrow;
    s->widened_before = s->engine->tally->widened;
    check_under(w, commands, n);
    check_duties(w);
    if (w->store->head.seq > w->seq_before)
        hints_send(w);
    if (!ok || s->engine->shared->stale) {
        s->well_since = w->boot;
        return;
    }
    check_caches(w);
    s->seen_commit = s->engine->shared->taken.commit;
    for (size_t i = 0; i < n; i++)
        if (commands[i]->kind == CMD_ENQUEUE && !commands[i]->err.code)
            read_begin(w, s->engine->head.commit, s->index);
}

/* --- what must not last --- */

static void lasts(struct world *w, size_t kind, const char *what, int64_t about)
{
    struct lasting *lasting = &w->lasting[kind];
    if (!about || lasting->about != about)
        *lasting = (struct lasting){ .since = w->boot, .about = about };
    for (size_t i = 0; about && i < w->n_servers; i++) {
        int64_t since = w->servers[i].well_since > lasting->since ? w->servers[i].well_since : lasting->since;
        if (w->servers[i].engine && w->boot - since > BOUND_MS)
            world_fail(w, what, about);
    }
}

static int64_t parked_awake(const struct world *w)
{
    for (size_t i = 0; i < w->store->n_holds; i++) {
        const struct hold *hold = &w->store->holds[i];
        const struct lane *lane = hold->kind == HOLD_pause ? map_find(&w->store->lanes, (uint64_t)hold->key + 1) : NULL;
        if (hold->kind == HOLD_pause && (!lane || !lane->paused_since))
            return hold->task;
    }
    return 0;
}

static int64_t revision_due(const struct world *w)
{
    MAP_EACH (&w->store->archives, a) {
        const struct archive *archive = a->value;
        if (!archive->removed && archive->next <= archive->youngest &&
            memstore_revision(w->store, archive->lane, archive->next))
            return archive->lane * 1000 + archive->next;
    }
    return 0;
}

static int64_t time_due(const struct world *w, int64_t wall)
{
    for (size_t i = 0; i < w->store->n_holds; i++)
        if (w->store->holds[i].kind == HOLD_time && w->store->holds[i].key <= wall)
            return w->store->holds[i].task;
    return 0;
}

static int64_t schedule_due(const struct world *w, int64_t wall)
{
    for (size_t i = 0; i < w->store->n_schedules; i++)
        if (w->store->schedules[i].next <= wall)
            return w->store->schedules[i].lane;
    return 0;
}

static int64_t lease_lapsed(const struct world *w)
{
    for (size_t i = 0; i < w->store->n_attempts; i++) {
        const struct attempt *is = &w->store->attempts[i];
        const struct watch *watch = &w->known.watches[is->task];
        int64_t heard = 0;
        for (size_t k = 0; k < w->n_servers; k++)
            if (watch->possibly[k] > heard)
                heard = watch->possibly[k];
        if (!is->finished && watch->grant == is->grant && w->boot - heard > LEASE_MS)
            return is->task;
    }
    return 0;
}

/* A pending task, and a poll that waits at a server that is well. */
static int64_t work_beside(const struct world *w)
{
    for (size_t i = 0; i < w->n_executors; i++)
        for (size_t k = 0; k < w->n_servers; k++) {
            const struct sim_executor *e = &w->executors[i];
            const struct command *poll = e->parked[k];
            const struct executor *row = poll ? map_find(&w->store->executors, (uint64_t)poll->in.poll.executor) : NULL;
            if (!row || row->state != EXECUTOR_ACTIVE || poll->in.poll.free <= 0 ||
                w->boot - w->servers[k].well_since < WELL_MS)
                continue;
            if (executor_full(w, row))
                continue;
            MAP_EACH (&w->store->tasks, t) {
                const struct task *task = t->value;
                if (task->state == STATE_P && executor_fits(w, e, task) && !lane_shut(w, task->lane) &&
                    !target_busy(w, task))
                    return task->id;
            }
        }
    return 0;
}

/* A duty whose holder is gone, stands still, or can't reach the store. */
static int64_t duty_left(const struct world *w)
{
    for (int k = 0; k < DUTY_COUNT; k++) {
        const struct duty *row = duty_row(w, (enum duty_kind)k);
        bool acts = false;
        for (size_t i = 0; row && i < w->n_servers; i++)
            acts |=
                str_eqz(row->holder, w->servers[i].name) && w->servers[i].engine && w->servers[i].well_since < w->boot;
        if (!acts)
            return k + 1 + (row ? row->epoch * DUTY_COUNT : 0); /* whoever took it over may be gone again */
    }
    return 0;
}

static void check_lasting(struct world *w)
{
    int64_t wall = INT64_MAX; /* of the clock that is behind all others */
    for (size_t i = 0; i < w->n_servers; i++)
        if (w->wall + w->servers[i].wall_ahead < wall)
            wall = w->wall + w->servers[i].wall_ahead;
    lasts(w, 0, "I10 parked in a lane that isn't paused, and nobody lets it go on", parked_awake(w));
    lasts(w, 1, "I10 a revision that is due isn't opened by anybody", revision_due(w));
    lasts(w, 2, "I10 a time has come and nobody sees it", time_due(w, wall));
    lasts(w, 3, "I14 a slot of a schedule isn't fired by anybody", schedule_due(w, wall));
    lasts(w, 4, "R9 a lapsed lease is noticed by nobody", lease_lapsed(w));
    lasts(w, 5, "R8 a pending task beside an executor that waits for work elsewhere", work_beside(w));
    lasts(w, 6, "R12 a duty isn't taken over", duty_left(w));
    lasts(w, 7, "a pending task that nobody can start keeps its slots", unserved_holds(w));
    lasts(w, 8, "I10 a task waits for an executor that is there", served_waits(w));
    lasts(w, 9, "I10 who waits for what has ended is told by nobody", tells_left(w));
}

void servers_turns(struct world *w)
{
    size_t first = choose(&w->choices, w->n_servers);
    for (size_t i = 0; i < w->n_servers; i++) {
        struct server *s = w->at = &w->servers[(first + i) % w->n_servers];
        if (!s->engine || s->stalled_until > w->boot)
            continue;
        if (!s->n_inbox && s->next_turn > w->boot && s->hint_at > w->boot)
            continue;
        if (s->hint_at <= w->boot)
            s->hint_at = INT64_MAX;
        server_turn(w);
    }
    check_reads(w);
    check_sole(w);
    check_lasting(w);
}
