/* archives: repositories whose commits are told to the server late, twice, in any order or not at all, by hooks that
 * may fail and by a look that comes round; people who give gaps up, run tasks by hand, remove archives and add them
 * again. */
#include <string.h>

#include "engine/definition.h"
#include "world.h"

enum { REPEAT_MS = 3000, COMMIT_IN_1000 = 25 };

#define RUNS " command: 'true', retry: {backoff: 1s}}\n"

static const struct flow {
    const char *yaml, *tasks;
} flows[] = {
    { NULL, "" },
    { "- {name: a, depends: [PREV]," RUNS "- {name: b, depends: [a], cancels: [PREV]," RUNS, "a b" },
    { "- {name: read, lock: shared," RUNS "- {name: look, lock: shared," RUNS "- {name: write, lock: exclusive," RUNS,
        "read look write" },
    { "- {name: a, depends: [{task: PREV, on: success}]," RUNS "- {name: b, depends: [a], allow_failure: true," RUNS
      "- {name: c, depends: [b], after: ['PREV:b']," RUNS,
        "a b c" },
    { "- {name: nightly, schedule: '* * * * *'," RUNS "- {name: a, cancels: [PREV]," RUNS, "a" },
    { "- {name: by-hand, detached: true, lock: exclusive," RUNS "- {name: after-hand, depends: [by-hand]," RUNS
      "- {name: a," RUNS,
        "a" },
    { "- {name: a, comand: x}\n", "WORKFLOW" },
    { "- {name: a, paths: ['x/**'], cancels: [PREV]," RUNS "- {name: b, depends: [a], semaphores: [one]," RUNS
      "- {name: read, depends: [b], lock: shared," RUNS,
        "a b read" },
    { "semaphores: {one: 2}\ntasks:\n"
      "  - {name: b, semaphores: [one, two]," RUNS "  - {name: write, lock: exclusive, depends: [PREV]," RUNS
      "  - {name: nightly, schedule: '*/2 * * * *'," RUNS,
        "b write" },
    { "semaphores: {one: 1}\ntasks:\n  - {name: b, semaphores: [one], depends: [PREV], priority: 1," RUNS, "b" },
    { "- {name: a, lock: exclusive, cancels: [PREV]," RUNS
      "- {name: b, depends: [a], lock: shared, cancels: [PREV]," RUNS,
        "a b" },
    { "- {name: f, after: ['PREV:read', 'PREV:gone']," RUNS "- {name: read, lock: shared, depends: [f]," RUNS,
        "f read" },
    { "- {name: write, lock: exclusive," RUNS "- {name: only, lock: exclusive, unique: '{archive}/only'," RUNS
      /* `only` may be an earlier one's */
      "- {name: b, depends: [only]," RUNS "- {name: COMMIT, depends: ['PREV:write']}\n",
        "write b" },
    { "- {name: a, depends: ['PREV:c']," RUNS "- {name: only, depends: [a], unique: '{archive}/only'," RUNS
      "- {name: c, depends: [only], cancels: ['PREV:b']," RUNS,
        "a c" },
};
enum { FLOWS = sizeof flows / sizeof *flows, FLOW_LOOP = 1 };

static const bool untouched[8], touched[8] = { true, true, true, true, true, true, true, true };

static struct definition *definition_of(int flow)
{
    static struct definition *read[FLOWS]; /* once in a process */
    if (!flows[flow].yaml)
        return NULL;
    struct definition_file file = { STR("_workflows/w.yaml"), str_of(flows[flow].yaml) };
    if (!read[flow])
        read[flow] = definition_read(&file, 1, STR(""));
    ASSERT(read[flow]->valid == (strcmp(flows[flow].tasks, "WORKFLOW") != 0));
    return read[flow];
}

const struct definition *flow_definition(int flow)
{
    return definition_of(flow);
}

const char *flow_tasks(int flow)
{
    return flows[flow].tasks;
}

void repositories_open(struct world *w)
{
    static const struct {
        const char *name;
        enum archive_kind kind;
    } kinds[] = { { "x", ARCHIVE_EXTERNAL }, { "g", ARCHIVE_GIT } };
    w->n_repositories = w->flat ? 0 : choose(&w->choices, REPOSITORIES_MAX + 1);
    if (w->changesets && !w->n_repositories)
        w->n_repositories = 1;
    w->looping = w->n_repositories > 0 && choose(&w->choices, 8) == 7;
    for (size_t i = 0; i < w->n_repositories; i++)
        w->repositories[i] =
            (struct repository){ .name = kinds[i].name, .kind = kinds[i].kind, .asked = w->boot - REPEAT_MS };
    if (w->n_repositories)
        w->wall += (int64_t)choose(&w->choices, 60) * 1000; /* minutes begin at other times */
}

struct repository *repository_of(struct world *w, int64_t lane)
{
    const struct lane *row = map_find(&w->store->lanes, (uint64_t)lane + 1);
    for (size_t i = 0; row && row->kind == LANE_ARCHIVE && i < w->n_repositories; i++)
        if (str_eqz(row->name, w->repositories[i].name))
            return &w->repositories[i];
    return NULL;
}

/* --- commits --- */

static void revision_send(struct world *w, size_t repository, int64_t rev)
{
    struct repository *repo = &w->repositories[repository];
    struct commit *commit = &repo->commits[rev];
    struct command *command = command_new(w, commit->skipped ? CMD_ARCHIVE_SKIP : CMD_REVISION);
    commit->sent = w->boot;
    if (commit->skipped) {
        command->in.archive.name = str_of(repo->name);
        command->in.archive.rev = rev;
        command->in.archive.reason = STR("it never was");
    } else {
        struct revision *row = &command->in.revision.row;
        command->in.revision.archive = str_of(repo->name);
        *row = (struct revision){ .rev = rev, .author = STR("ann"), .message = STR("work") };
        if (repo->kind == ARCHIVE_GIT)
            row->ident = str_fmt(&w->arena, "commit-%lld", (long long)rev);
        if (commit->prev) {
            int64_t *prevs = ARENA_NEW(&w->arena, int64_t);
            *prevs = commit->prev;
            row->prevs = prevs;
            row->n_prevs = 1;
        }
        if (commit->cause)
            command->in.revision.cause = str_fmt(&w->arena, "%lld", (long long)commit->cause);
        command->in.revision.definition = definition_of(commit->flow);
        command->in.revision.touched = commit->touched ? touched : untouched;
    }
    int server = several(w) && repo->kind != ARCHIVE_GIT ? server_choose(w) : 0;
    /* it is followed, by one of them */
    if (several(w) && repo->kind == ARCHIVE_GIT)
        duty_under(w, command, DUTY_watch, &server);
    if (server < 0)
        return;
    trace(w, "somebody tells of %s@%lld%s", repo->name, (long long)rev, commit->skipped ? ": it never was" : "");
    send_to(w, command, OWNER_REVISION - (int)repository * 100 - (int)rev, server);
}

static void commit_make(struct world *w, struct repository *repo, int64_t cause)
{
    if (repo->n >= REVISIONS_MAX)
        return;
    struct commit *commit = &repo->commits[++repo->n];
    *commit = (struct commit){ .flow = w->looping ? FLOW_LOOP : (int)choose(&w->choices, FLOWS),
        .cause = cause,
        .touched = !chance(&w->choices, 300) };
    if (repo->kind == ARCHIVE_EXTERNAL && repo->n > 2 && chance(&w->choices, 200))
        commit->prev = repo->n - 2;
    if (repo->kind == ARCHIVE_EXTERNAL && !cause && chance(&w->choices, 100))
        commit->skipped = true;
    /* no hook runs: it is found by the look that comes round */
    if (commit->skipped || chance(&w->choices, 200))
        commit->sent = w->boot;
    else
        revision_send(w, (size_t)(repo - w->repositories), repo->n);
}

void job_commits(struct world *w, int64_t id)
{
    const struct task *task = store_task(w, id);
    struct repository *repo = task && task->rev ? repository_of(w, task->lane) : NULL;
    if (!repo || w->healing || !chance(&w->choices, w->looping ? 900 : 60) || (w->looping && task->rev < repo->n))
        return;
    trace(w, "the job of task %lld commits to %s", (long long)id, repo->name);
    commit_make(w, repo, id);
}

void archive_commit(struct world *w, int repository, int64_t cause)
{
    struct repository *repo = &w->repositories[repository];
    if (!w->healing && !w->looping)
        commit_make(w, repo, cause);
}

struct command *run_command(struct world *w)
{
    static const char *const names[] = { "by-hand", "a", "nightly", "write" };
    if (!w->n_repositories)
        return NULL;
    struct repository *repo = &w->repositories[choose(&w->choices, w->n_repositories)];
    struct command *command = command_new(w, CMD_RUN);
    command->in.run.archive = str_of(repo->name);
    command->in.run.task = str_of(names[choose(&w->choices, 4)]);
    command->in.run.rev = repo->n && chance(&w->choices, 300) ? 1 + (int64_t)choose(&w->choices, (uint64_t)repo->n) : 0;
    command->in.run.reason = STR("by hand");
    trace(w, "somebody runs %s@%lld:%.*s", repo->name, (long long)command->in.run.rev, STR_ARG(command->in.run.task));
    return command;
}

/* --- steps --- */

static void archive_send(struct world *w, size_t repository, enum command_kind kind)
{
    struct repository *repo = &w->repositories[repository];
    struct command *command = command_new(w, kind);
    if (kind == CMD_ARCHIVE_ADD) {
        command->in.archive_add.name = str_of(repo->name);
        command->in.archive_add.archive = (struct archive){ .kind = repo->kind, .url = STR("there") };
    } else {
        command->in.archive.name = str_of(repo->name);
        command->in.archive.reason = STR("sim");
    }
    repo->asked = w->boot;
    trace(w, "somebody %s archive %s", kind == CMD_ARCHIVE_ADD ? "adds" : "removes", repo->name);
    send_command(w, command, OWNER_ARCHIVE - (int)repository);
}

/* A look at the repository tells of them in their order, one after the other, as the watcher does; posts come in any
 * order. */
static void repository_look(struct world *w, size_t repository)
{
    struct repository *repo = &w->repositories[repository];
    for (int64_t rev = 1; rev <= repo->n; rev++) {
        if (repo->commits[rev].told)
            continue;
        if (w->boot - repo->commits[rev].sent > REPEAT_MS)
            revision_send(w, repository, rev);
        if (repo->kind != ARCHIVE_EXTERNAL)
            return;
    }
}

void repositories_step(struct world *w)
{
    for (size_t i = 0; i < w->n_repositories; i++) {
        struct repository *repo = &w->repositories[i];
        if (!repo->added && w->boot - repo->asked > REPEAT_MS)
            archive_send(w, i, CMD_ARCHIVE_ADD);
        if (repo->added)
            repository_look(w, i);
        if (w->healing)
            continue;
        if (!(w->looping && repo->n) && chance(&w->choices, COMMIT_IN_1000))
            commit_make(w, repo, 0);
        if (repo->added && chance(&w->choices, 1))
            archive_send(w, i, CMD_ARCHIVE_REMOVE);
    }
}

bool repositories_told(const struct world *w)
{
    for (size_t i = 0; i < w->n_repositories; i++)
        for (int64_t rev = 1; rev <= w->repositories[i].n; rev++)
            if (!w->repositories[i].commits[rev].told)
                return false;
    return true;
}

/* --- answers --- */

static void revision_told(struct world *w, struct repository *repo, int64_t rev, const struct command *command)
{
    struct commit *commit = &repo->commits[rev];
    const struct revision *row = &command->out.revision.row;
    if (command->err.code == ERR_not_found)
        repo->added = false; /* it was removed: somebody adds it again */
    if (command->err.code && (command->kind != CMD_ARCHIVE_SKIP || command->err.code != ERR_conflict))
        return;
    /* known: somebody was faster; or beyond the youngest: later */
    if (command->kind == CMD_ARCHIVE_SKIP && command->err.code) {
        int64_t lane = 0;
        MAP_EACH (&w->store->lanes, l)
            if (str_eqz(((const struct lane *)l->value)->name, repo->name))
                lane = ((const struct lane *)l->value)->id;
        const struct archive *archive = map_find(&w->store->archives, (uint64_t)lane);
        commit->told = memstore_revision(w->store, lane, rev) || (archive && rev < archive->next);
        return;
    }
    if (command->kind == CMD_REVISION && row->rev && row->rev != rev)
        world_fail(w, "R6 a revision was answered with another's number", 0);
    if (command->kind == CMD_REVISION && command->status == 200)
        MARK(w, revision_again);
    commit->told = true;
}

void repository_answer(struct world *w, struct command *command)
{
    int owner = (int)(intptr_t)command->owner;
    if (owner <= OWNER_REVISION) {
        int number = OWNER_REVISION - owner;
        revision_told(w, &w->repositories[number / 100], number % 100, command);
        return;
    }
    struct repository *repo = &w->repositories[OWNER_ARCHIVE - owner];
    if (command->kind == CMD_ARCHIVE_ADD && !command->err.code)
        repo->added = true;
    if (command->kind == CMD_ARCHIVE_REMOVE && !command->err.code) {
        repo->added = false;
        repo->asked = w->boot - REPEAT_MS + (int64_t)choose(&w->choices, 3000);
    }
}
