/* From workflow files to tasks and edges: the Ark document's own example edge for edge, and what SEEDS and ENGINE
 * decide about the rest. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/rng.h"
#include "core/expand.h"
#include "core/graph.h"
#include "text/glob.h"
#include "text/workflow.h"

struct known { /* a task that some revision has */
    int64_t rev;
    struct str name;
    bool skipped;
};

struct world { /* an archive: what its revisions have, and the state of its lock */
    struct arena arena;
    struct known *known;
    size_t n_known, cap_known;
    struct expand_lock lock;
    const char *touched; /* the path that the next revision touches; NULL: asks nobody */
    struct expansion out;
    int64_t rev;
};

static int64_t world_earlier(void *context, struct str name, int64_t upto, bool ran)
{
    const struct world *world = context;
    int64_t found = 0;
    for (size_t i = 0; i < world->n_known; i++) {
        const struct known *known = &world->known[i];
        if (known->rev <= upto && known->rev > found && str_eq(known->name, name) && !(ran && known->skipped))
            found = known->rev;
    }
    return found;
}

static bool world_touched(void *context, const struct workflow_task *task)
{
    struct world *world = context;
    struct globs globs = { ARENA_ARRAY(&world->arena, struct glob, task->paths.n), task->paths.n };
    for (size_t i = 0; i < globs.n; i++)
        assert_null(glob_parse(task->paths.items[i], &world->arena, &globs.items[i]));
    return globs_match(&globs, str_of(world->touched));
}

static struct workflow *workflow_of(struct world *world, const char *yaml)
{
    struct workflow *workflow = ARENA_NEW(&world->arena, struct workflow);
    struct diags diags = { .arena = &world->arena };
    struct diag_file *file = ARENA_NEW(&world->arena, struct diag_file);
    *file = (struct diag_file){ STR("w.yaml"), str_of(yaml) };
    struct workflow_source source = { file, NULL };
    struct workflow_input input = { .sources = &source, .n_sources = 1 };
    if (!workflow_parse(&input, &world->arena, &diags, workflow))
        fail_msg(
            "%u:%u: %.*s", diags.items[0].place.line, diags.items[0].place.column, STR_ARG(diags.items[0].message));
    return workflow;
}

static void world_expand(struct world *world, const struct workflow *workflow, int64_t rev, const int64_t *prevs,
    size_t n_prevs, const char *run)
{
    struct str name = str_of(run);
    struct expand_input input = { .workflow = workflow,
        .rev = rev,
        .prevs = prevs,
        .n_prevs = n_prevs,
        .earlier = world_earlier,
        .touched = world->touched != NULL ? world_touched : NULL,
        .context = world,
        .lock = world->lock,
        .run = run != NULL ? &name : NULL,
        .n_run = run != NULL };
    expand(&input, &world->arena, &world->out);
    world->rev = rev;
    for (size_t i = 0; i < world->out.n_tasks && run == NULL; i++)
        *ARENA_PUSH(&world->arena, world->known, world->n_known, world->cap_known) =
            (struct known){ rev, world->out.tasks[i].name, world->out.tasks[i].skipped };
    world->lock = world->out.lock;
}

static void world_commit(struct world *world, const char *yaml)
{
    int64_t prev = world->rev;
    world_expand(world, workflow_of(world, yaml), prev + 1, &prev, prev > 0, NULL);
}

/* check_edges: in the notation of the document: "rev-1:a <-- rev-2:b" (depends), "<~~" (after), "<!=" (cancels), "<##"
 * (lock). */
static void check_edges(struct world *world, const char *wanted)
{
    struct buf text;
    buf_init(&text, 1 << 20);
    buf_add_z(&text, "");
    for (size_t i = 0; i < world->out.n_edges; i++) {
        const struct expand_edge *edge = &world->out.edges[i];
        const char *arrow = edge->lock                   ? "<##"
                            : edge->kind == EDGE_DEPENDS ? "<--"
                            : edge->kind == EDGE_AFTER   ? "<~~"
                                                         : "<!=";
        buf_addf(&text, "%lld:%.*s %s %.*s\n", (long long)edge->other.rev, STR_ARG(edge->other.name), arrow,
            STR_ARG(world->out.tasks[edge->task].name));
    }
    if (!str_eqz(buf_str(&text), wanted))
        fail_msg("wanted:\n%sgot:\n%.*s", wanted, STR_ARG(buf_str(&text)));
    buf_release(&text);
}

static void check_tasks(struct world *world, const char *wanted)
{
    struct buf text;
    buf_init(&text, 1 << 20);
    for (size_t i = 0; i < world->out.n_tasks; i++)
        buf_addf(&text, "%s%.*s%s", i == 0 ? "" : " ", STR_ARG(world->out.tasks[i].name),
            world->out.tasks[i].skipped ? "(skipped)" : "");
    if (!str_eqz(buf_str(&text), wanted))
        fail_msg("wanted:\n%s\ngot:\n%.*s", wanted, STR_ARG(buf_str(&text)));
    buf_release(&text);
}

static const char *const document =
    "- name: indexing\n  depends:\n    - PREV\n- name: build-PDF\n  depends:\n    - indexing\n  cancels:\n    - PREV\n";

static void test_the_document_edge_for_edge(void **state)
{
    (void)state;
    struct world world = { 0 };
    world_commit(&world, "[]"); /* rev 1 has no workflow yet */
    check_tasks(&world, "COMMIT");
    check_edges(&world, "");
    world_commit(&world, document);
    check_tasks(&world, "COMMIT indexing build-PDF");
    check_edges(&world, "1:COMMIT <~~ COMMIT\n" /* rev-1:committed <-- rev-2:committed */
                        "2:COMMIT <-- indexing\n"
                        "2:indexing <-- build-PDF\n");
    world_commit(&world, document);
    check_edges(&world, "2:COMMIT <~~ COMMIT\n"
                        "3:COMMIT <-- indexing\n"
                        "2:indexing <~~ indexing\n"
                        "3:indexing <-- build-PDF\n"
                        "2:build-PDF <!= build-PDF\n");
    arena_release(&world.arena);
}

static void test_commit_and_prev(void **state)
{
    (void)state;
    struct world world = { 0 };
    world_commit(&world, "- name: a\n- name: b\n");
    check_edges(&world, "1:COMMIT <-- a\n1:COMMIT <-- b\n");
    world_commit(&world, "- name: b\n");
    /* a is found in rev 1, two revisions before; success and finished the other way round; COMMIT waits for more */
    world_commit(&world, "- name: COMMIT\n  depends: [PREV:b, {task: PREV:a, on: success}]\n"
                         "- name: a\n  depends: [{task: PREV, on: success}, {task: b, on: finished}]\n- name: b\n  "
                         "after: [PREV, COMMIT]\n");
    check_edges(&world, "2:COMMIT <~~ COMMIT\n2:b <~~ COMMIT\n1:a <-- COMMIT\n"
                        "3:COMMIT <-- a\n1:a <-- a\n3:b <~~ a\n"
                        "2:b <~~ b\n3:COMMIT <-- b\n");
    arena_release(&world.arena);
}

static void test_the_stronger_of_two_edges_is_kept(void **state)
{
    (void)state;
    struct world world = { 0 };
    world_commit(&world,
        "- name: a\n- name: b\n  depends: [a]\n  after: [a]\n- name: c\n  after: [a, {task: b}]\n  depends: [a]\n");
    check_edges(&world, "1:COMMIT <-- a\n1:a <-- b\n1:a <-- c\n1:b <~~ c\n");
    arena_release(&world.arena);
}

static void test_allow_failure(void **state)
{
    (void)state;
    struct world world = { 0 };
    world_commit(&world,
        "- {name: a, allow_failure: true}\n- {name: b, depends: a}\n- {name: c, depends: {task: a, on: success}}\n");
    check_edges(&world, "1:COMMIT <-- a\n1:COMMIT <-- b\n1:a <~~ b\n1:a <-- c\n");
    arena_release(&world.arena);
}

static void test_a_merge_waits_for_each_parent(void **state)
{
    (void)state;
    struct world world = { 0 };
    const char *yaml = "- {name: a, depends: [PREV], cancels: ['PREV:b']}\n- name: b\n";
    world_commit(&world, yaml);
    world_commit(&world, yaml);
    world_commit(&world, yaml);
    static const int64_t parents[] = { 3, 1 }, same[] = { 3, 3 };
    world_expand(&world, workflow_of(&world, yaml), 4, parents, 2, NULL);
    check_edges(&world, "3:COMMIT <~~ COMMIT\n1:COMMIT <~~ COMMIT\n4:COMMIT <-- a\n3:a <~~ a\n1:a <~~ a\n3:b <!= "
                        "a\n1:b <!= a\n4:COMMIT <-- b\n");
    world_expand(&world, workflow_of(&world, yaml), 5, same, 2, NULL);
    check_edges(&world, "3:COMMIT <~~ COMMIT\n5:COMMIT <-- a\n3:a <~~ a\n3:b <!= a\n5:COMMIT <-- b\n");
    arena_release(&world.arena);
}

static void test_the_shorthand(void **state)
{
    (void)state;
    struct world world = { 0 };
    world_commit(&world, "workflow: [A, {parallel: [B, C]}, D]\njobs: {A: , B: , C: , D: }\n");
    check_edges(&world, "1:COMMIT <-- A\n1:A <-- B\n1:A <-- C\n1:B <-- D\n1:C <-- D\n");
    arena_release(&world.arena);
}

static void test_what_commits_create(void **state)
{
    (void)state;
    struct world world = { 0 };
    /* The Executor Queue document's example: B is detached, C comes only after B. */
    const char *yaml = "workflow: [B, C]\njobs:\n  A: {detached: true}\n  B: {detached: true}\n  C:\n  D: {on: "
                       "{message: m}}\n  E: {depends: D}\n"
                       "  F: {after: A}\n  G: {schedule: '0 3 * * *'}\n  H: {on: [commit, {message: m}]}\n  I: "
                       "{depends: [C, F]}\n  J: {on: manual, "
                       "depends: F}\n";
    world_commit(&world, yaml);
    check_tasks(&world, "COMMIT F H");
    check_edges(&world, "1:COMMIT <-- F\n1:COMMIT <-- H\n");
    static const struct {
        const char *name, *tasks, *edges;
    } runs[] = {
        { "A", "A", "1:COMMIT <-- A\n" },
        { "B", "B C I", "1:COMMIT <-- B\n1:B <-- C\n1:C <-- I\n1:F <-- I\n" },
        { "D", "D E", "1:COMMIT <-- D\n1:D <-- E\n" },
        { "F", "F", "1:COMMIT <-- F\n" },
        { "J", "J", "1:F <-- J\n" },
    };
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        world_expand(&world, workflow_of(&world, yaml), 1, NULL, 0, runs[i].name);
        check_tasks(&world, runs[i].tasks);
        check_edges(&world, runs[i].edges);
    }
    arena_release(&world.arena);
}

static void test_paths(void **state)
{
    (void)state;
    struct world world = { 0 };
    const char *yaml = "- {name: pdf, paths: ['docs/**'], depends: index, cancels: PREV, lock: exclusive}\n- {name: "
                       "index, depends: PREV}\n";
    world.touched = "docs/a";
    world_commit(&world, yaml);
    check_tasks(&world, "COMMIT pdf index");
    world.touched = "src/a";
    world_commit(&world, yaml);
    check_tasks(&world, "COMMIT pdf(skipped) index");
    /* no cancels, no lock */
    check_edges(&world, "1:COMMIT <~~ COMMIT\n2:index <-- pdf\n2:COMMIT <-- index\n1:index <~~ index\n");
    world.touched = "docs/b";
    world_commit(&world, yaml);
    check_edges(&world,
        "2:COMMIT <~~ COMMIT\n3:index <-- pdf\n1:pdf <!= pdf\n3:COMMIT <-- index\n2:index <~~ index\n1:pdf <## pdf\n");
    arena_release(&world.arena);
}

static void test_locks(void **state)
{
    (void)state;
    struct world world = { 0 };
    const char *readers = "- {name: r1, lock: shared}\n- {name: r2, lock: shared}\n- {name: free}\n",
               *writer = "- {name: w, lock: exclusive}\n";
    world_commit(&world, readers);
    check_edges(&world, "1:COMMIT <-- r1\n1:COMMIT <-- r2\n1:COMMIT <-- free\n");
    world_commit(&world, writer);
    check_edges(&world, "1:COMMIT <~~ COMMIT\n2:COMMIT <-- w\n1:r1 <## w\n1:r2 <## w\n");
    world_commit(&world, writer);
    check_edges(&world, "2:COMMIT <~~ COMMIT\n3:COMMIT <-- w\n2:w <## w\n");
    world_commit(&world, readers);
    check_edges(
        &world, "3:COMMIT <~~ COMMIT\n4:COMMIT <-- r1\n4:COMMIT <-- r2\n4:COMMIT <-- free\n3:w <## r1\n3:w <## r2\n");
    /* within a revision: by depth, then by place; what waits anyway gets no second edge */
    world_commit(&world, "- {name: last, lock: shared, depends: w}\n- {name: w, lock: exclusive, depends: r}\n- {name: "
                         "r, lock: shared}\n- "
                         "{name: s, lock: shared}\n");
    check_edges(&world, "4:COMMIT <~~ COMMIT\n5:w <-- last\n5:r <-- w\n5:COMMIT <-- r\n5:COMMIT <-- s\n"
                        "3:w <## r\n3:w <## s\n4:r1 <## w\n4:r2 <## w\n5:s <## w\n");
    world_commit(&world, "- {name: w, lock: exclusive, after: PREV}\n");
    check_edges(&world, "5:COMMIT <~~ COMMIT\n6:COMMIT <-- w\n5:w <~~ w\n5:last <## w\n");
    arena_release(&world.arena);
}

/* Strict order for everything, as ENGINE.md says. */
static void test_exclusive_by_default(void **state)
{
    (void)state;
    struct world world = { 0 };
    const char *yaml = "defaults: {lock: exclusive}\ntasks: [{name: a}, {name: b}]\n";
    world_commit(&world, yaml);
    world_commit(&world, yaml);
    check_edges(&world, "1:COMMIT <~~ COMMIT\n2:COMMIT <-- a\n2:COMMIT <-- b\n1:b <## a\n2:a <## b\n");
    arena_release(&world.arena);
}

/* random_yaml: tasks that wait for earlier-numbered ones in all ways, with locks, triggers and cancels of earlier
 * revisions. */
static const char *random_yaml(struct arena *arena, struct rng *rng)
{
    struct buf yaml;
    buf_init(&yaml, 1 << 20);
    uint64_t n = rng_below(rng, 12);
    buf_add_z(&yaml, n == 0 ? "[]" : "");
    static const char *const locks[] = { "none", "shared", "exclusive" };
    for (uint64_t i = 0; i < n; i++) {
        uint64_t at = n - 1 - i; /* what is waited for stands below */
        buf_addf(&yaml, "- name: t%llu\n  lock: %s\n  allow_failure: %s\n%s", (unsigned long long)at,
            locks[rng_below(rng, 3)], rng_below(rng, 4) == 0 ? "true" : "false",
            rng_below(rng, 6) == 0 ? "  detached: true\n" : "");
        buf_add_z(&yaml, "  depends: [");
        for (uint64_t k = 0; k < at; k++)
            if (rng_below(rng, 4) == 0)
                buf_addf(&yaml, "{task: '%st%llu', on: %s}, ", rng_below(rng, 4) == 0 ? "PREV:" : "",
                    (unsigned long long)k, rng_below(rng, 2) == 0 ? "success" : "finished");
        buf_add_z(&yaml, "]\n  after: [");
        for (uint64_t k = 0; k < at; k++)
            if (rng_below(rng, 6) == 0)
                buf_addf(&yaml, "'%st%llu', ", rng_below(rng, 2) == 0 ? "PREV:" : "", (unsigned long long)k);
        buf_addf(&yaml, "]\n%s", rng_below(rng, 3) == 0 ? "  cancels: [PREV]\n" : "");
    }
    const char *text = str_dupz(arena, buf_str(&yaml));
    buf_release(&yaml);
    return text;
}

/* What must hold whatever the workflow: no circle, locks apart, COMMIT before all, and nothing waits for what isn't
 * there. */
static void world_check(struct world *world)
{
    const struct expansion *out = &world->out;
    size_t n = out->n_tasks, n_arcs = 0;
    struct graph_arc *arcs = ARENA_ARRAY(&world->arena, struct graph_arc, out->n_edges + 1);
    for (size_t i = 0; i < out->n_edges; i++) {
        const struct expand_edge *edge = &out->edges[i];
        assert_true(edge->task < n && edge->other.rev <= world->rev && edge->other.rev > 0);
        assert_int_equal(world_earlier(world, edge->other.name, edge->other.rev, false), edge->other.rev);
        for (size_t k = 0; k < i; k++) /* no edge twice */
            assert_false(out->edges[k].task == edge->task && out->edges[k].kind == edge->kind &&
                         out->edges[k].other.rev == edge->other.rev &&
                         str_eq(out->edges[k].other.name, edge->other.name));
        for (size_t k = 0; k < n && edge->other.rev == world->rev && edge->kind != EDGE_CANCELS; k++)
            if (str_eq(out->tasks[k].name, edge->other.name))
                arcs[n_arcs++] = (struct graph_arc){ edge->task, k };
    }
    size_t *cycle = NULL;
    assert_int_equal(graph_cycle(n, arcs, n_arcs, &world->arena, &cycle), 0);
    bool *before = ARENA_ARRAY(&world->arena, bool, n *n + 1); /* before[a * n + b]: a waits for b */
    for (size_t i = 0; i < n_arcs; i++)
        before[arcs[i].from * n + arcs[i].to] = true;
    for (size_t m = 0; m < n; m++)
        for (size_t a = 0; a < n; a++)
            for (size_t b = 0; b < n; b++)
                before[a * n + b] = before[a * n + b] || (before[a * n + m] && before[m * n + b]);
    for (size_t a = 1; a < n; a++) {
        assert_true(before[a * n]);
        for (size_t b = 1; b < a; b++) {
            enum workflow_lock x = out->tasks[a].def->lock, y = out->tasks[b].def->lock;
            if ((x == WORKFLOW_LOCK_EXCLUSIVE && y != WORKFLOW_LOCK_NONE) ||
                (y == WORKFLOW_LOCK_EXCLUSIVE && x != WORKFLOW_LOCK_NONE))
                assert_true(before[a * n + b] || before[b * n + a]);
        }
    }
}

static void test_random_workflows(void **state)
{
    (void)state;
    struct rng rng;
    rng_seed(&rng, 23);
    size_t edges = 0;
    for (int round = 0; round < 400; round++) {
        struct world world = { 0 };
        for (int rev = 0; rev < 6; rev++) {
            world_commit(&world, random_yaml(&world.arena, &rng));
            world_check(&world);
            edges += world.out.n_edges;
        }
        arena_release(&world.arena);
    }
    assert_true(edges > 10000);
}

static void test_many_tasks(void **state)
{
    (void)state;
    struct world world = { 0 };
    struct buf yaml;
    buf_init(&yaml, 1 << 20);
    for (int i = 0; i < 5000; i++)
        buf_addf(&yaml, "- {name: t%d%s}\n", i, i == 0 ? "" : ", depends: [t0], lock: shared");
    world_commit(&world, str_dupz(&world.arena, buf_str(&yaml)));
    assert_int_equal(world.out.n_tasks, 5001);
    assert_int_equal(world.out.n_edges, 5000);
    assert_int_equal(world.out.lock.n_shared, 4999);
    world_commit(&world, "- {name: w, lock: exclusive}\n");
    assert_int_equal(world.out.n_edges, 2 + 4999);
    buf_release(&yaml);
    arena_release(&world.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_document_edge_for_edge),
        cmocka_unit_test(test_commit_and_prev),
        cmocka_unit_test(test_the_stronger_of_two_edges_is_kept),
        cmocka_unit_test(test_allow_failure),
        cmocka_unit_test(test_a_merge_waits_for_each_parent),
        cmocka_unit_test(test_the_shorthand),
        cmocka_unit_test(test_what_commits_create),
        cmocka_unit_test(test_paths),
        cmocka_unit_test(test_locks),
        cmocka_unit_test(test_exclusive_by_default),
        cmocka_unit_test(test_random_workflows),
        cmocka_unit_test(test_many_tasks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
