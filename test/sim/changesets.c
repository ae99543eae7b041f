/* changesets: worlds in which change sets are submitted, approved, cancelled, retried and rolled back while executors,
 * servers and the network fail (--changesets). Each archive has a model of its branch: a number of the newest commit,
 * and for each change set the commit that applied it. A job commits at some moment between its start and its end. It
 * looks for the CSID before, and again when somebody else has committed since it began. It may not know what became of
 * its commit, and it never commits when its lease is over. What must hold is in changesets_check.c. */
#include <stdlib.h>
#include <string.h>

#include "text/conf_value.h"
#include "world.h"

enum { SUBMIT_IN_1000 = 25, APPROVE_MS = 2500, LEASE_MARGIN_MS = 600, SETS_LIMIT = 7 };

/* --- submitters --- */

void changesets_open(struct world *w)
{
    w->flat = false;
    w->faults.restore = 0; /* repositories aren't put back with the store */
    static const unsigned approvals[] = { 0, 1u << MOVE_EM, 1u << MOVE_EM | 1u << MOVE_RB, 1u << MOVE_BF };
    w->approval = approvals[choose(&w->choices, 4)];
    for (size_t i = 0; i < w->n_executors; i++)
        w->executors[i].applies = i == 0 || chance(&w->choices, 500);
}

struct conf_changesets changesets_conf(const struct world *w)
{
    struct conf_changesets conf;
    conf_changesets_default(&conf);
    conf.approval = w->approval;
    if (w->changesets)
        conf.rollback_limit = SETS_LIMIT;
    return conf;
}

struct sim_set *set_of_task(struct world *w, const struct task *task)
{
    bool is = task && task->marks & MARK_CHANGESET && str_starts(task->name, STR("cs"));
    size_t number = is ? strtoull(str_dupz(&w->arena, task->name) + 2, NULL, 10) : SETS_MAX;
    return number < w->n_sets ? &w->sets[number] : NULL;
}

static struct str paths_text(struct world *w, unsigned files)
{
    struct str text = { 0 };
    for (int p = 0; p < SET_PATHS; p++)
        if (files & 1u << p)
            text = str_fmt(&w->arena, "%.*s%sp%d", STR_ARG(text), text.len ? "\n" : "", p);
    return text;
}

/* Some of the change sets of the same target whose task somebody was told of. */
static uint64_t sets_choose(struct world *w, const struct sim_set *of, size_t most, bool rollbacks)
{
    uint64_t chosen = 0;
    for (size_t k = 0; k < most && of->number > 0; k++) {
        const struct sim_set *set = &w->sets[choose(&w->choices, (uint64_t)of->number)];
        if (set->task && set->repository == of->repository && (rollbacks || set->movetype != MOVE_RB))
            chosen |= UINT64_C(1) << set->number;
    }
    return chosen;
}

static struct str *csids_of(struct world *w, uint64_t sets, size_t *out_n)
{
    struct str *list = ARENA_ARRAY(&w->arena, struct str, SETS_MAX);
    *out_n = 0;
    for (size_t i = 0; i < w->n_sets; i++)
        if (sets >> i & 1)
            list[(*out_n)++] = w->sets[i].csid;
    return list;
}

static void set_choose(struct world *w, struct sim_set *set)
{
    static const int64_t prios[MOVE_COUNT] = { 0, 0, 300, 600, 900 };
    struct choices *c = &w->choices;
    set->repository = (int)choose(c, w->n_repositories);
    set->movetype = (enum movetype)(MOVE_DC + choose(c, 3));
    if (chance(c, 150) && (set->depends = sets_choose(w, set, 2, true)))
        set->movetype = MOVE_RB;
    set->prio = prios[set->movetype] + (int64_t)choose(c, 3);
    set->tai = w->boot / 1000 + (int64_t)choose(c, 8); /* labels don't agree with the order of arrival */
    set->ticket = chance(c, 400);
    set->approve_at = w->boot + (int64_t)choose(c, 8000);
    if (set->movetype == MOVE_RB) {
        set->overlapping = chance(c, 250);
        return;
    }
    set->files = chance(c, 500) ? 1u << choose(c, SET_PATHS) : 1 + (unsigned)choose(c, (1u << SET_PATHS) - 1);
    set->depends = chance(c, 400) ? sets_choose(w, set, 2, false) : 0;
    set->precursors = chance(c, 100) ? sets_choose(w, set, 1, false) : 0;
    if (set->precursors)
        MARK(w, set_precursor_brought);
}

static struct command *submit_command(struct world *w, const struct sim_set *set)
{
    struct command *command = command_new(w, CMD_CHANGESET);
    struct changeset_def *def = &command->in.changeset.def;
    unsigned removed = set->files & 1u << set->number % SET_PATHS; /* some of them are removals */
    *def = (struct changeset_def){ .target = str_of(w->repositories[set->repository].name),
        .csid = set->csid,
        .name = str_fmt(&w->arena, "%.*s_name", STR_ARG(set->csid)),
        .movetype = set->movetype,
        .prio = set->prio,
        .tai = set->tai,
        .files = paths_text(w, set->files & ~removed),
        .removed = paths_text(w, removed),
        .submitter = STR("ann"),
        .ticket = set->ticket ? STR("T-1") : STR(""),
        .body = STR("{}"),
        .overlapping = set->overlapping };
    def->depends = csids_of(w, set->depends, &def->n_depends);
    def->precursors = csids_of(w, set->precursors, &def->n_precursors);
    if (set->movetype != MOVE_RB)
        def->hash[0] = 1, def->hash[1] = (uint8_t)set->number;
    return command;
}

static void submit(struct world *w)
{
    struct sim_set *set = &w->sets[w->n_sets];
    *set =
        (struct sim_set){ .number = (int)w->n_sets, .csid = str_fmt(&w->arena, "cs%zu", w->n_sets), .undone_by = -1 };
    set_choose(w, set);
    set->needs_ticket = w->approval >> set->movetype & 1;
    w->n_sets++;
    set->command = submit_command(w, set);
    struct command *command = ARENA_NEW(&w->arena, struct command);
    *command = *set->command;
    command->idempotency.key = str_fmt(&w->arena, "cs%d", set->number);
    command->idempotency.route = STR("changesets");
    command->idempotency.body_hash[0] = 7;
    trace(w, "ann submits %.*s to %s: %s, files %x, depends %llx", STR_ARG(set->csid),
        w->repositories[set->repository].name, movetype_name(set->movetype), set->files,
        (unsigned long long)set->depends);
    call_new(w, command);
}

/* The same tarball once more, by somebody who doesn't know the key: one change set answers for both. */
static void submit_again(struct world *w)
{
    const struct sim_set *set = w->n_sets ? &w->sets[choose(&w->choices, w->n_sets)] : NULL;
    if (!set || set->movetype == MOVE_RB)
        return;
    struct command *command = ARENA_NEW(&w->arena, struct command);
    *command = *set->command;
    send_command(w, command, OWNER_ORDER);
}

static void approve_send(struct world *w, struct sim_set *set)
{
    struct command *command = command_new(w, CMD_APPROVE);
    command->actor.name = STR("bob");
    command->in.approve.csid = set->csid;
    command->in.approve.ticket = STR("T-2");
    set->approve_at = w->boot + APPROVE_MS;
    set->approved = true;
    trace(w, "bob approves %.*s", STR_ARG(set->csid));
    send_command(w, command, OWNER_ORDER);
}

/* Somebody ends or retries one, more often than any task. */
static void order_send(struct world *w, enum command_kind kind)
{
    const struct sim_set *set = w->n_sets ? &w->sets[choose(&w->choices, w->n_sets)] : NULL;
    if (!set || !set->task)
        return;
    struct command *command = command_new(w, kind);
    command->in.task.task = set->task;
    command->in.task.reason = STR("sim");
    trace(w, "a client says %s %.*s", kind == CMD_CANCEL ? "cancel" : "retry", STR_ARG(set->csid));
    send_command(w, command, OWNER_ORDER);
}

void changesets_step(struct world *w)
{
    for (size_t i = 0; i < w->n_sets; i++) {
        struct sim_set *set = &w->sets[i];
        const struct task *task = set->task ? store_task(w, set->task) : NULL;
        if (task && task->marks & MARK_UNAPPROVED && !state_ended(task->state) && w->boot > set->approve_at)
            approve_send(w, set);
    }
    if (w->healing)
        return;
    if (w->n_sets < SETS_MAX && w->n_calls < CALLS_MAX && chance(&w->choices, SUBMIT_IN_1000))
        submit(w);
    if (chance(&w->choices, 3))
        submit_again(w);
    if (chance(&w->choices, 4))
        order_send(w, CMD_CANCEL);
    if (chance(&w->choices, 8))
        order_send(w, CMD_RETRY);
    for (size_t i = 0; i < w->n_repositories; i++)
        if (chance(&w->choices, 5))
            w->repositories[i].head++; /* somebody commits past the queue */
}

void changeset_answer(struct world *w, const struct command *command)
{
    const struct changeset_def *def = &command->in.changeset.def;
    struct sim_set *set = &w->sets[strtoull(str_dupz(&w->arena, def->csid) + 2, NULL, 10)];
    if (command->err.code == ERR_invalid)
        w->repositories[set->repository].added = false; /* it was removed: somebody adds it again */
    if (command->err.code)
        return;
    if (!str_eq(command->out.changeset.csid, set->csid))
        world_fail(w, "RQ1 a change set was answered with another's CSID", command->out.changeset.task);
    if (set->task && set->task != command->out.changeset.task)
        world_fail(w, "RQ1 one content became two change sets", command->out.changeset.task);
    if (command->out.changeset.existing)
        MARK(w, set_replayed);
    set->task = command->out.changeset.task;
}

/* --- jobs --- */

static bool set_is_there(const struct sim_set *set)
{
    if (PLANT(csid_unlooked))
        return false;
    return set->revision != 0;
}

void apply_begin(struct world *w, struct sim_executor *e, struct job *job, const struct grant *grant)
{
    struct sim_set *set = set_of_task(w, &grant->task);
    struct apply *apply = &job->apply;
    (void)e;
    if (!set)
        world_fail(w, "RQ24 a change set was granted that nobody submitted", grant->task.id);
    *apply = (struct apply){ .set = set, .base = w->repositories[set->repository].head };
    for (size_t i = 0; i < grant->n_undoes; i++)
        apply->undoes |= UINT64_C(1) << strtoull(str_dupz(&w->arena, grant->undoes[i].csid) + 2, NULL, 10);
    if (set_is_there(set)) {
        job->exit = 0, job->signal = -1;
        MARK(w, set_found);
        return;
    }
    bool external = w->repositories[set->repository].kind == ARCHIVE_EXTERNAL;
    if (job->exit == 99 && (!external || apply->undoes))
        job->exit = 111; /* whoever said so: it isn't in the repository */
    if (chance(&w->choices, 400))
        job->exit = 0, job->signal = -1;
    if (job->exit == 0 && set->movetype == MOVE_RB && !apply->undoes)
        job->exit = 99; /* nothing to commit */
    if (job->exit != 0)
        return;
    apply->commit_at = w->boot + 1 + (int64_t)choose(&w->choices, (uint64_t)(job->ends_at - w->boot));
    /* of a rollback: what it undid would have to be known before another one runs */
    apply->blind = !w->healing && set->movetype != MOVE_RB && chance(&w->choices, 100);
}

/* The branch has one more commit. */
static void branch_commit(struct world *w, struct sim_set *set, uint64_t undoes)
{
    struct repository *repo = &w->repositories[set->repository];
    set->revision = ++repo->head;
    set->undid = undoes;
    for (size_t i = 0; i < w->n_sets; i++) {
        if (!(undoes >> i & 1))
            continue;
        for (size_t k = 0; k < w->n_sets; k++) /* of a rollback: what it had undone is applied again */
            if (w->sets[i].undid >> k & 1 && w->sets[k].undone_by == (int)i)
                w->sets[k].undone_by = -1;
        w->sets[i].undone_by = set->number;
    }
}

void apply_step(struct world *w, struct sim_executor *e, struct job *job)
{
    struct apply *apply = &job->apply;
    struct sim_set *set = apply->set;
    int64_t lease = e->lease_from + LEASE_MS - LEASE_MARGIN_MS;
    if (!set || job->ended)
        return;
    if (w->boot >= lease && job->ends_at > w->boot) { /* it is ended before its lease is */
        job->ends_at = w->boot;
        job->exit = -1, job->signal = 9;
        return;
    }
    if (!apply->commit_at || w->boot < apply->commit_at || job->ends_at < apply->commit_at)
        return;
    apply->commit_at = 0;
    if (w->repositories[set->repository].head != apply->base)
        MARK(w, set_pushed_out);
    if (set_is_there(set))
        return; /* out of date, or swapped: by an earlier attempt of its own */
    trace(w, "executor %d commits %.*s", e->index, STR_ARG(set->csid));
    check_commit(w, e, job);
    branch_commit(w, set, apply->undoes);
    archive_commit(w, set->repository, job->fence.task);
}

/* What was ordered to end, or was ended, looks into the repository before it says how it ended. */
void apply_end(struct world *w, struct job *job)
{
    struct apply *apply = &job->apply;
    if (!apply->set)
        return;
    bool good = job->exit == 0 && job->signal < 0, blind = apply->blind && !apply->ordered;
    if (apply->set->revision && !blind)
        apply->revision = apply->set->revision;
    else if (good && blind && apply->set->revision)
        job->exit = 111; /* the answer of its commit is lost, and the repository is away */
    else if (good)
        job->exit = -1, job->signal = 9;
    if (apply->revision && apply->ordered)
        MARK(w, set_found_cancelled);
}
