/* cost KIND N | cost: what a kind of command costs the engine and its store (SQLite), in instructions: bench/cost.py
 * runs it under callgrind, which counts only while cost_measured runs, with N and with 4 N, and compares.
 *
 * Everything before that is made ready: tasks that wait, polls, finishes. Without arguments: lists the kinds, each with
 * what it may cost: `linear` (N are worked on) or `flat` (N are there, one is worked on). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/grants.h"
#include "engine/tenants.h"
#include "rig.h"

enum { SETTLE_MS = 100, LEASE_MS = 3000 }; /* the rig's */

struct cost {
    struct rig rig;
    size_t n;
    struct command **commands; /* of the turn that is measured; turns that follow from it count too */
    size_t n_commands;
    void (*other)(struct cost *c); /* instead of a turn: what an engine does beside turns */
};

/* --- making ready --- */

static void put(struct cost *c, struct command *command)
{
    if (!c->commands)
        c->commands = ARENA_ARRAY(&c->rig.arena, struct command *, c->n + 8);
    c->commands[c->n_commands++] = command;
}

/* The form with the number in place of each '%'. */
static const char *text(struct cost *c, const char *form, size_t i)
{
    char number[24], *out = ARENA_ARRAY(&c->rig.arena, char, strlen(form) + 4 * sizeof number), *at = out;
    snprintf(number, sizeof number, "%zu", i);
    for (; *form; form++) {
        size_t len = *form == '%' ? strlen(number) : 1;
        memcpy(at, *form == '%' ? number : form, len);
        at += len;
    }
    return out;
}

/* n tasks of the form, in which % is their number. */
static struct command *tasks(struct cost *c, const char *form, size_t n)
{
    const char **all = ARENA_ARRAY(&c->rig.arena, const char *, n);
    for (size_t i = 0; i < n; i++)
        all[i] = text(c, form, i);
    return rig_enqueue_command(&c->rig, all, n);
}

static void quiet(struct cost *c)
{
    for (int i = 0; c->rig.next <= c->rig.boot && i < 10000; i++)
        rig_turn(&c->rig, NULL, 0);
}

static int64_t posted(struct cost *c, const char *form, size_t n)
{
    struct command *command = rig_one(&c->rig, tasks(c, form, n));
    if (command->err.code)
        fail_msg("%s: %s", form, command->err.text);
    quiet(c);
    return command->out.enqueue.tasks[0].task.id;
}

static void order(struct cost *c, enum command_kind kind, int64_t task)
{
    struct command *command = rig_new(&c->rig, kind);
    command->in.task.task = task;
    command->in.task.reason = STR("measured");
    put(c, command);
}

static struct command *lane_pause(struct cost *c, const char *lane, bool on)
{
    struct command *command = rig_new(&c->rig, CMD_LANE_PAUSE);
    command->in.pause.lane = str_of(lane);
    command->in.pause.pause = on;
    command->in.pause.reason = STR("measured");
    return command;
}

/* All that is pending is granted; a finish of all of it is returned. */
static struct command *granted(struct cost *c, size_t n, const char *executor, int64_t exit)
{
    struct command *finish = rig_new(&c->rig, CMD_FINISH);
    struct finish_item *items = ARENA_ARRAY(&c->rig.arena, struct finish_item, n + 1);
    int64_t id = rig_executor(&c->rig, executor, NULL);
    size_t have = 0;
    while (have < n) {
        struct command *poll = rig_poll(&c->rig, id, 1000);
        if (poll->out.poll.n_grants == 0)
            fail_msg("%zu of %zu were granted", have, n);
        for (size_t i = 0; i < poll->out.poll.n_grants; i++, have++)
            items[have] = (struct finish_item){ .fence = poll->out.poll.grants[i].fence,
                .exit = exit,
                .signal = -1,
                .cpu_ms = 1,
                .max_rss_bytes = 1,
                .outputs = STR("{\"a\": 1}"),
                .hash = { 1 } };
    }
    finish->in.finish.items = items;
    finish->in.finish.n_items = n;
    return finish;
}

/* --- kinds: linear --- */

static void enqueue(struct cost *c)
{
    put(c, tasks(c, "t%", c->n));
}
static void queues(struct cost *c)
{
    put(c, tasks(c, "t% queue=q%", c->n));
}
static void semaphores(struct cost *c)
{
    put(c, tasks(c, "t% sem=one,five", c->n));
}
static void concurrency(struct cost *c)
{
    put(c, tasks(c, "t% sem=one conc=k%", c->n));
}
static void unique(struct cost *c)
{
    put(c, tasks(c, "t% unique=u%", c->n));
}

static void fan_out(struct cost *c)
{
    char form[64];
    snprintf(form, sizeof form, "t%% depends=#%lld", (long long)posted(c, "first", 1));
    put(c, tasks(c, form, c->n));
}

/* One task that comes after n others. */
static void fan_in(struct cost *c)
{
    struct buf form;
    int64_t id = posted(c, "t%", c->n);
    buf_init(&form, SIZE_MAX);
    buf_addf(&form, "last after=");
    for (size_t i = 0; i < c->n; i++)
        buf_addf(&form, "%s#%lld", i ? "," : "", (long long)id + (long long)i);
    put(c, rig_enqueue_command(&c->rig, (const char *const[]){ str_dupz(&c->rig.arena, buf_str(&form)) }, 1));
    buf_release(&form);
}

/* n tasks that wait for one go when it ends. */
static void release(struct cost *c)
{
    posted(c, "first", 1);
    struct command *end = granted(c, 1, "e", 0);
    char form[64];
    snprintf(form, sizeof form, "t%% depends=#%lld", (long long)end->in.finish.items[0].fence.task);
    posted(c, form, c->n);
    put(c, end);
}

static void one_by_one(struct cost *c)
{
    for (size_t i = 0; i < c->n; i++)
        put(c, tasks(c, "t% sem=one,five", 1));
}

static void raise_limit(struct cost *c)
{
    posted(c, "t% sem=wide", c->n);
    struct command *site = rig_new(&c->rig, CMD_SITE);
    c->rig.semaphores[2].limit = 1000000;
    site->in.site.conf = (struct site_conf){ .semaphores = { c->rig.semaphores, c->rig.n_semaphores }, .silent = ~1U };
    put(c, site);
}

/* n tasks wait for an executor, with slots for all of them; it comes. */
static void executor_comes(struct cost *c)
{
    posted(c, "t% conc=k% label=os:x", c->n);
    struct command *command = rig_new(&c->rig, CMD_REGISTER);
    static struct label label = { { "os", 2 }, { "x", 1 } };
    command->in.reg.executor =
        (struct executor){ .name = STR("x"), .slots = 1, .kinds = ~0u, .labels = &label, .n_labels = 1 };
    put(c, command);
}

/* n pending tasks with slots lose their last executor. */
static void executor_goes(struct cost *c)
{
    int64_t id = rig_executor(&c->rig, "x", "os:x");
    posted(c, "t% conc=k% label=os:x", c->n);
    struct command *command = rig_new(&c->rig, CMD_EXECUTOR_STATE);
    command->in.executor_state.executor = id;
    command->in.executor_state.state = EXECUTOR_PAUSED;
    put(c, command);
}

/* The same, while n tasks without slots are pending: they aren't looked at. */
static void executor_goes_among(struct cost *c)
{
    posted(c, "t% label=os:x", c->n);
    c->n = 1;
    executor_goes(c);
}

static void give_way(struct cost *c)
{
    int64_t holder = posted(c, "h sem=one", 1);
    posted(c, "t% queue=q sem=one", c->n);
    posted(c, "last sem=one", 1);
    rig_one(&c->rig, lane_pause(c, "q", true));
    order(c, CMD_CANCEL, holder);
}

static void resume(struct cost *c)
{
    rig_one(&c->rig, lane_pause(c, "q", true));
    posted(c, "t% queue=q", c->n);
    put(c, lane_pause(c, "q", false));
}

static void claim(struct cost *c)
{
    posted(c, "t%", c->n);
    int64_t id = rig_executor(&c->rig, "e", NULL);
    for (size_t i = 0; i < c->n; i += 500)
        put(c, rig_poll_command(&c->rig, id, 500, (int64_t)i + 1, NULL, 0));
}

/* n tenants with a task each, so as many classes, and an executor that serves all of them. */
static void claim_classes(struct cost *c)
{
    int64_t id = rig_executor(&c->rig, "e", NULL);
    for (size_t i = 0; i < c->n; i++) {
        struct command *command = tasks(c, "t%", 1);
        command->actor.tenant = str_of(text(c, "tenant%", i));
        if (rig_one(&c->rig, command)->err.code)
            fail_msg("%s", command->err.text);
    }
    put(c, rig_poll_command(&c->rig, id, (int64_t)c->n, 1, NULL, 0));
}

static void finish(struct cost *c)
{
    posted(c, "t%", c->n);
    put(c, granted(c, c->n, "e", 0));
}

/* Each of n executors brings the end of one task. */
static void finish_each(struct cost *c)
{
    posted(c, "t%", c->n);
    for (size_t i = 0; i < c->n; i++) {
        int64_t id = rig_executor(&c->rig, text(c, "e%", i), NULL);
        struct command *poll = rig_poll(&c->rig, id, 1), *end = rig_new(&c->rig, CMD_FINISH);
        end->in.finish.items = ARENA_NEW(&c->rig.arena, struct finish_item);
        end->in.finish.items[0] = (struct finish_item){
            .fence = poll->out.poll.grants[0].fence, .signal = -1, .cpu_ms = 1, .max_rss_bytes = 1, .hash = { 1 }
        };
        end->in.finish.n_items = 1;
        put(c, end);
    }
}

/* n tasks end with outputs, and n that depend on them are claimed in the same turn. */
static void hand_on(struct cost *c)
{
    size_t n = c->n;
    const char **all = ARENA_ARRAY(&c->rig.arena, const char *, 2 * n);
    for (size_t i = 0; i < n; i++) {
        all[i] = text(c, "a%", i);
        all[n + i] = text(c, "b% depends=%", i);
    }
    rig_one(&c->rig, rig_enqueue_command(&c->rig, all, 2 * n));
    struct command *ends = granted(c, n, "e", 0);
    put(c, ends);
    put(c, rig_poll_command(&c->rig, rig_executor(&c->rig, "f", NULL), (int64_t)(n < 1000 ? n : 1000), 1, NULL, 0));
}

static void cancel(struct cost *c)
{
    int64_t id = posted(c, "t% sem=one,five", c->n);
    for (size_t i = 0; i < c->n; i++)
        order(c, CMD_CANCEL, id + (int64_t)i);
}

static void retry(struct cost *c)
{
    int64_t id = posted(c, "t% sem=one", c->n);
    for (size_t i = 0; i < c->n; i++)
        rig_order(&c->rig, CMD_CANCEL, id + (int64_t)i);
    for (size_t i = 0; i < c->n; i++)
        order(c, CMD_RETRY, id + (int64_t)i);
}

/* n pairs: the newer one of each puts an end to the older one when it is ready. */
static void supersede(struct cost *c)
{
    size_t n = c->n;
    const char **all = ARENA_ARRAY(&c->rig.arena, const char *, n);
    int64_t id = posted(c, "t%", n);
    for (size_t i = 0; i < n; i++)
        all[i] = text(c, "u% cancels=#%", (size_t)id + i);
    put(c, rig_enqueue_command(&c->rig, all, n));
}

/* n tasks that all put an end to the same one. */
static void supersede_one(struct cost *c)
{
    char form[64];
    snprintf(form, sizeof form, "t%% cancels=#%lld", (long long)posted(c, "first", 1));
    put(c, tasks(c, form, c->n));
}

/* A poll that names n jobs whose ends it brings. */
static void finish_named(struct cost *c)
{
    posted(c, "t%", c->n);
    struct command *ends = granted(c, c->n, "e", 0);
    struct fence *fences = ARENA_ARRAY(&c->rig.arena, struct fence, c->n);
    for (size_t i = 0; i < c->n; i++)
        fences[i] = ends->in.finish.items[i].fence;
    struct command *poll = rig_poll_command(&c->rig, rig_executor(&c->rig, "e", NULL), 0, 1, fences, c->n);
    poll->in.poll.finishes = ends->in.finish.items;
    poll->in.poll.n_finishes = c->n;
    put(c, poll);
}

/* n revisions of an archive, told in one turn. */
static void revisions(struct cost *c)
{
    struct command *add = rig_new(&c->rig, CMD_ARCHIVE_ADD);
    add->in.archive_add.name = STR("a");
    add->in.archive_add.archive.kind = ARCHIVE_EXTERNAL;
    rig_one(&c->rig, add);
    for (size_t i = 0; i < c->n; i++) {
        struct command *command = rig_new(&c->rig, CMD_REVISION);
        command->in.revision.archive = STR("a");
        command->in.revision.row.rev = (int64_t)i + 1;
        put(c, command);
    }
}

/* A revision with this workflow, made by now; prev 0: of the one before it. The number of its last task. */
static int64_t revision(struct cost *c, int64_t rev, int64_t prev, const char *yaml)
{
    struct command *command = rig_new(&c->rig, CMD_REVISION);
    struct definition_file file = { STR("_workflows/w.yaml"), str_of(yaml) };
    command->in.revision.archive = STR("a");
    command->in.revision.row = (struct revision){ .rev = rev, .prevs = &prev, .n_prevs = prev != 0 };
    command->in.revision.definition = definition_read(&file, 1, STR(""));
    if (rig_one(&c->rig, command)->err.code)
        fail_msg("revision %lld: %s", (long long)rev, command->err.text);
    definition_release(command->in.revision.definition);
    quiet(c);
    return c->rig.engine->head.next_task - 1;
}

static void archive_add(struct cost *c)
{
    struct command *add = rig_new(&c->rig, CMD_ARCHIVE_ADD);
    add->in.archive_add.name = STR("a");
    add->in.archive_add.archive.kind = ARCHIVE_EXTERNAL;
    rig_one(&c->rig, add);
}

/* n tasks that depend on one that is cancelled: they fail with it. */
static void cancel_dependents(struct cost *c)
{
    char form[64];
    int64_t first = posted(c, "first at=1000000", 1);
    snprintf(form, sizeof form, "t%% depends=#%lld", (long long)first);
    posted(c, form, c->n);
    order(c, CMD_CANCEL, first);
}

/* n tasks of an archive behind one that is stopped before it ran: by PREV, and by the archive's lock. */
static void stop_prev(struct cost *c)
{
    static const char yaml[] = "- {name: a, after: [PREV], command: 'true'}\n";
    archive_add(c);
    revision(c, 1, 0, yaml);
    (void)granted(c, 1, "e", 0);
    order(c, CMD_CANCEL, revision(c, 2, 0, yaml));
    for (size_t i = 0; i < c->n; i++)
        revision(c, 3 + (int64_t)i, 2, yaml);
}

static void stop_lock(struct cost *c)
{
    static const char alone[] = "- {name: w, lock: exclusive, command: 'true'}\n";
    archive_add(c);
    revision(c, 1, 0, alone);
    (void)granted(c, 1, "e", 0);
    order(c, CMD_CANCEL, revision(c, 2, 0, alone));
    for (size_t i = 0; i < c->n; i++)
        revision(c, 3 + (int64_t)i, 0, "- {name: r, lock: shared, command: 'true'}\n");
}

/* A task that is ready and supersedes a chain of n. */
static void supersede_chain(struct cost *c)
{
    int64_t id = posted(c, "t at=1000000", 1);
    for (size_t i = 1; i < c->n; i++)
        id = posted(c, text(c, "t at=1000000 cancels=#%", (size_t)id), 1);
    put(c, tasks(c, text(c, "new cancels=#%", (size_t)id), 1));
}

/* A task of a revision with n that depend on it, all of which failed with it. */
static void retry_revision(struct cost *c)
{
    struct buf yaml;
    buf_init(&yaml, SIZE_MAX);
    buf_addf(&yaml, "- {name: first, command: 'true'}\n");
    for (size_t i = 0; i < c->n; i++)
        buf_addf(&yaml, "- {name: t%zu, depends: [first], command: 'true'}\n", i);
    archive_add(c);
    int64_t first = revision(c, 1, 0, str_dupz(&c->rig.arena, buf_str(&yaml))) - (int64_t)c->n;
    buf_release(&yaml);
    if (rig_order(&c->rig, CMD_CANCEL, first))
        fail_msg("the first one of the revision can't be cancelled");
    quiet(c);
    order(c, CMD_RETRY, first);
}

/* n revisions, each of which waits for the success of the one before it: all of them failed with the first. */
static void revisions_fail(struct cost *c, const char *yaml)
{
    archive_add(c);
    int64_t first = revision(c, 1, 0, yaml);
    for (size_t i = 1; i < c->n; i++)
        revision(c, 1 + (int64_t)i, 0, yaml);
    if (rig_order(&c->rig, CMD_CANCEL, first))
        fail_msg("the first one of the revisions can't be cancelled");
    quiet(c);
    order(c, CMD_RETRY, first);
}

static void retry_prev(struct cost *c)
{
    revisions_fail(c, "- {name: a, depends: [{task: PREV, on: success}], command: 'true'}\n");
}

static void retry_locked(struct cost *c)
{
    revisions_fail(c, "- {name: a, lock: exclusive, depends: [{task: PREV, on: success}], command: 'true'}\n");
}

/* The loop stands still: all who were heard lately are heard now, with all their jobs. */
static void keep(struct cost *c)
{
    leases_keep(c->rig.engine, c->rig.boot);
}

static void keep_leases(struct cost *c)
{
    posted(c, "t%", c->n);
    (void)granted(c, c->n, "e", 0);
    c->other = keep;
}

static void lapse(struct cost *c)
{
    posted(c, "t%", c->n);
    (void)granted(c, c->n, "e", 0);
    rig_pass(&c->rig, LEASE_MS - SETTLE_MS / 2);
}

static void prune(struct cost *c)
{
    posted(c, "t%", c->n);
    rig_one(&c->rig, granted(c, c->n, "e", 0));
    struct command *command = rig_new(&c->rig, CMD_PRUNE);
    command->in.prune.before = c->rig.wall + 100000;
    put(c, command);
}

/* --- kinds: flat --- */

static struct command *archive(struct cost *c, size_t i)
{
    struct command *command = rig_new(&c->rig, CMD_ARCHIVE_ADD);
    command->in.archive_add.name = str_of(text(c, "a%", i));
    command->in.archive_add.archive.kind = ARCHIVE_EXTERNAL;
    return command;
}

static void among_archives(struct cost *c)
{
    for (size_t i = 0; i < c->n; i++)
        rig_one(&c->rig, archive(c, i));
    put(c, archive(c, c->n));
}

static void among_executors(struct cost *c)
{
    for (size_t i = 0; i < c->n; i++)
        rig_executor(&c->rig, text(c, "e%", i), NULL);
    put(c, tasks(c, "t%", 1));
    put(c, rig_poll_command(&c->rig, rig_executor(&c->rig, "e0", NULL), 1, 1, NULL, 0));
}

/* n kinds of tasks that this executor can't start: a poll, and an executor that comes. */
static void among_classes(struct cost *c)
{
    posted(c, "t% label=os:x%", c->n);
    put(c, tasks(c, "t%", 1));
    put(c, rig_poll_command(&c->rig, rig_executor(&c->rig, "e", NULL), 1, 1, NULL, 0));
}

static void executor_among_classes(struct cost *c)
{
    posted(c, "t% label=os:x%", c->n);
    struct command *command = rig_new(&c->rig, CMD_REGISTER);
    command->in.reg.executor = (struct executor){ .name = STR("new"), .slots = 1, .kinds = ~0u };
    put(c, command);
}

static void pause_among_slots(struct cost *c)
{
    posted(c, "t% conc=k%", c->n);
    posted(c, "u% conc=k%", c->n);
    put(c, lane_pause(c, "q", true));
}

static void among_waiters(struct cost *c)
{
    int64_t holder = posted(c, "h sem=one", 1);
    posted(c, "t% sem=one", c->n);
    order(c, CMD_CANCEL, holder);
}

static const struct {
    const char *name, *may;
    void (*ready)(struct cost *c);
} kinds[] = {
    { "enqueue", "linear", enqueue },
    { "queues", "linear", queues },
    { "semaphores", "linear", semaphores },
    { "concurrency", "linear", concurrency },
    { "unique", "linear", unique },
    { "fan-out", "linear", fan_out },
    { "fan-in", "linear", fan_in },
    { "release", "linear", release },
    { "one-by-one", "linear", one_by_one },
    { "raise", "linear", raise_limit },
    { "give-way", "linear", give_way },
    { "executor-comes", "linear", executor_comes },
    { "executor-goes", "linear", executor_goes },
    { "executor-among-classes", "linear", executor_among_classes },
    { "resume", "linear", resume },
    { "claim", "linear", claim },
    { "claim-classes", "linear", claim_classes },
    { "finish", "linear", finish },
    { "finish-each", "linear", finish_each },
    { "hand-on", "linear", hand_on },
    { "cancel", "linear", cancel },
    { "retry", "linear", retry },
    { "supersede", "linear", supersede },
    { "supersede-one", "linear", supersede_one },
    { "finish-named", "linear", finish_named },
    { "revisions", "linear", revisions },
    { "cancel-dependents", "linear", cancel_dependents },
    { "stop-prev", "linear", stop_prev },
    { "stop-lock", "linear", stop_lock },
    { "supersede-chain", "linear", supersede_chain },
    { "retry-revision", "linear", retry_revision },
    { "retry-prev", "linear", retry_prev },
    { "retry-locked", "linear", retry_locked },
    { "keep-leases", "linear", keep_leases },
    { "lapse", "linear", lapse },
    { "prune", "linear", prune },
    { "among-archives", "flat", among_archives },
    { "among-executors", "flat", among_executors },
    { "among-classes", "flat", among_classes },
    { "executor-goes-among", "flat", executor_goes_among },
    { "pause-among-slots", "flat", pause_among_slots },
    { "among-waiters", "flat", among_waiters },
};

void cost_measured(struct cost *c);

__attribute__((noinline)) void cost_measured(struct cost *c) /* callgrind counts what happens in here */
{
    if (c->other)
        c->other(c);
    else
        rig_turn(&c->rig, c->commands, c->n_commands);
    if (!c->other)
        rig_pass(&c->rig, SETTLE_MS); /* what follows from it */
}

int main(int argc, char **argv)
{
    size_t n_kinds = sizeof kinds / sizeof *kinds, kind = 0;
    for (size_t i = 0; argc == 1 && i < n_kinds; i++)
        printf("%s\t%s\n", kinds[i].name, kinds[i].may);
    if (argc == 1)
        return 0;
    while (argc == 3 && kind < n_kinds && strcmp(kinds[kind].name, argv[1]) != 0)
        kind++;
    if (argc != 3 || kind == n_kinds) {
        fprintf(stderr, "usage: cost KIND N\n");
        return 2;
    }
    struct cost c = { .n = (size_t)strtoul(argv[2], NULL, 10),
        .rig = { .semaphores = { { STR("one"), 1 }, { STR("five"), 5 }, { STR("wide"), 1 } }, .n_semaphores = 3 } };
    rig_open(&c.rig);
    rig_executor(&c.rig, "serves", NULL); /* so that slots are taken */
    kinds[kind].ready(&c);
    cost_measured(&c);
    for (size_t i = 0; i < c.n_commands; i++)
        if (c.commands[i]->err.code)
            fail_msg("%s: %s", kinds[kind].name, c.commands[i]->err.text);
    rig_close(&c.rig);
    return 0;
}
