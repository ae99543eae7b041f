/* The pure core by tables and properties. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "base/rng.h"
#include "core/graph.h"
#include "core/settle.h"
#include "core/task_state.h"
#include "core/verdict.h"
#include "core/why.h"

/* ARCHITECTURE.md section 3 and ENGINE.md, written out again: from, and every letter it may go to. */
static void test_the_table_of_moves(void **state)
{
    (void)state;
    static const struct {
        char from;
        const char *to;
    } table[] = { { 'Q', "SFAT" }, { 'S', "PDFAT" }, { 'P', "XSAT" }, { 'X', "DFTAPS" }, { 'D', "" }, { 'F', "PS" },
        { 'T', "PS" }, { 'A', "PS" } };
    static const char letters[] = "QSPXDFTA";
    for (size_t i = 0; i < 8; i++)
        for (size_t k = 0; k < 8; k++)
            assert_int_equal(move_legal(state_of_letter(table[i].from), state_of_letter(letters[k])),
                strchr(table[i].to, letters[k]) != NULL);
    for (size_t k = 0; k < 8; k++)
        assert_int_equal(move_legal(STATE_NONE, state_of_letter(letters[k])), letters[k] == 'Q');
    assert_int_equal(state_of_letter('Z'), STATE_NONE);
    assert_string_equal(state_word(STATE_A), "abandoned");
}

static void test_the_table_of_ends(void **state)
{
    (void)state;
    enum { DEFAULTS = RETRY_LOST | RETRY_TEMPORARY | RETRY_KILLED };
    static const struct {
        struct attempt_end end;
        unsigned on;
        int64_t attempts, max;
        char to;
        enum outcome outcome;
        int64_t wait;
    } table[] = {
        { { 0, -1, OUTCOME_none }, DEFAULTS, 1, 3, 'D', OUTCOME_done, 0 },
        { { 99, -1, OUTCOME_none }, DEFAULTS, 1, 3, 'D', OUTCOME_skipped, 0 },
        { { 100, -1, OUTCOME_none }, DEFAULTS | RETRY_FAILED, 1, 3, 'F', OUTCOME_permanent, 0 },
        { { 111, -1, OUTCOME_none }, DEFAULTS, 1, 3, 'S', OUTCOME_temporary, 5000 },
        { { 111, -1, OUTCOME_none }, DEFAULTS, 2, 3, 'S', OUTCOME_temporary, 10000 },
        { { 111, -1, OUTCOME_none }, DEFAULTS, 3, 3, 'F', OUTCOME_temporary, 0 },
        { { 1, -1, OUTCOME_none }, DEFAULTS, 1, 3, 'F', OUTCOME_failed, 0 },
        { { 255, -1, OUTCOME_none }, DEFAULTS | RETRY_FAILED, 1, 3, 'S', OUTCOME_failed, 5000 },
        { { -1, 15, OUTCOME_none }, DEFAULTS, 1, 3, 'T', OUTCOME_cancelled, 0 },
        { { -1, 1, OUTCOME_none }, DEFAULTS, 1, 3, 'A', OUTCOME_cancelled, 0 },
        { { -1, 9, OUTCOME_none }, DEFAULTS, 1, 3, 'P', OUTCOME_killed, 0 },
        { { -1, 11, OUTCOME_none }, DEFAULTS, 3, 3, 'F', OUTCOME_killed, 0 },
        { { -1, 9, OUTCOME_none }, 0, 1, 3, 'F', OUTCOME_killed, 0 },
        { { -1, -1, OUTCOME_lost }, DEFAULTS, 1, 3, 'P', OUTCOME_lost, 0 },
        { { -1, -1, OUTCOME_lost }, DEFAULTS, 3, 3, 'F', OUTCOME_lost, 0 },
        { { -1, 15, OUTCOME_timeout }, DEFAULTS, 1, 3, 'T', OUTCOME_timeout, 0 },
        { { -1, 15, OUTCOME_timeout }, DEFAULTS | RETRY_TIMEOUT, 1, 3, 'S', OUTCOME_timeout, 5000 },
        { { 0, -1, OUTCOME_failed }, DEFAULTS, 1, 3, 'F', OUTCOME_failed, 0 },
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct spec spec = { .attempts_max = table[i].max, .retry_on = table[i].on };
        struct verdict verdict = verdict_of(&table[i].end, &spec, table[i].attempts);
        assert_int_equal(state_letter(verdict.to), table[i].to);
        assert_int_equal(verdict.outcome, table[i].outcome);
        assert_int_equal(verdict.wait_ms, table[i].wait);
    }
}

static void test_back_off_is_monotone_and_capped(void **state)
{
    (void)state;
    for (int64_t first = 0; first < 400000; first += 7919)
        for (int64_t n = 1; n < 80; n++) {
            assert_true(backoff_ms(first, n + 1) >= backoff_ms(first, n));
            assert_true(backoff_ms(first, n) <= (first > BACKOFF_MAX_MS ? first : BACKOFF_MAX_MS));
            assert_true(backoff_ms(first, n) > 0);
        }
}

/* --- circles --- */

static bool reaches(size_t n, const struct graph_arc *arcs, size_t n_arcs, size_t from, size_t to)
{
    bool seen[16] = { false };
    for (size_t round = 0; round <= n; round++)
        for (size_t i = 0; i < n_arcs; i++)
            if (arcs[i].from == from || seen[arcs[i].from])
                seen[arcs[i].to] = true;
    return seen[to];
}

static void test_a_circle_is_found_if_there_is_one(void **state)
{
    (void)state;
    struct rng rng;
    rng_seed(&rng, 7);
    size_t with = 0, without = 0;
    for (int round = 0; round < 3000; round++) {
        struct arena arena = { 0 };
        struct graph_arc arcs[20];
        size_t n = 2 + rng_below(&rng, 8), n_arcs = rng_below(&rng, 14), *cycle;
        for (size_t i = 0; i < n_arcs; i++)
            arcs[i] = (struct graph_arc){ rng_below(&rng, n), rng_below(&rng, n) };
        bool any = false;
        for (size_t v = 0; v < n; v++)
            any |= reaches(n, arcs, n_arcs, v, v);
        size_t length = graph_cycle(n, arcs, n_arcs, &arena, &cycle);
        assert_int_equal(length > 0, any);
        for (size_t i = 0; i < length; i++) { /* it is a real one */
            bool arc = false;
            for (size_t k = 0; k < n_arcs; k++)
                arc |= arcs[k].from == cycle[i] && arcs[k].to == cycle[(i + 1) % length];
            assert_true(arc);
        }
        if (any)
            with++;
        else
            without++;
        arena_release(&arena);
    }
    assert_true(with > 300 && without > 300); /* the generator makes both shapes */
}

/* --- settling against a naive oracle --- */

static bool no_task(void *owner, struct arena *arena, int64_t id, struct task *out, bool *out_found, struct err *err)
{
    (void)owner, (void)arena, (void)id, (void)out, (void)err;
    *out_found = false;
    return true;
}
static const struct lane lane_zero = { .id = 0 }, lane_one = { .id = 1, .kind = LANE_QUEUE };
static const struct lane *a_lane(void *owner, int64_t id)
{
    (void)owner;
    return id ? &lane_one : &lane_zero;
}
static const struct spec *a_spec(void *owner, int64_t id, struct err *err)
{
    static const struct spec spec = { .attempts_max = 1 };
    (void)owner, (void)id, (void)err;
    return &spec;
}
static bool is_there(void *owner, int64_t class_id)
{
    (void)owner;
    return class_id != 0;
}
static const struct rows empty = { .task = no_task, .lane = a_lane, .spec = a_spec, .class_there = is_there };

enum { N_MAX = 24 };
struct oracle {
    size_t n;
    enum edge_kind edge[N_MAX][N_MAX]; /* [waiter][pred] */
    char state[N_MAX];
};

static void oracle_settle(struct oracle *o)
{
    for (bool moved = true; moved;) {
        moved = false;
        for (size_t w = 0; w < o->n; w++) {
            if (o->state[w] != 'S')
                continue;
            bool ready = true, doomed = false;
            for (size_t p = 0; p < o->n; p++) {
                if (o->edge[w][p] == EDGE_AFTER)
                    ready &= o->state[p] == 'D' || o->state[p] == 'F';
                if (o->edge[w][p] == EDGE_DEPENDS)
                    ready &= o->state[p] == 'D', doomed |= o->state[p] == 'F';
            }
            if (!doomed && !ready)
                continue;
            o->state[w] = doomed ? 'F' : 'P';
            moved = true;
        }
    }
}

static void test_counting_agrees_with_searching(void **state)
{
    (void)state;
    struct rng rng;
    rng_seed(&rng, 42);
    size_t fails = 0;
    for (int round = 0; round < 1500; round++) {
        struct arena arena = { 0 };
        struct err err = { 0 };
        struct slice slice = { 0 };
        struct node *nodes[N_MAX];
        struct oracle o = { .n = 2 + rng_below(&rng, N_MAX - 2) };
        slice_init(&slice, &arena, &empty, 1000, 1, &err);
        struct because because = { .actor = STR("test") };
        for (size_t i = 0; i < o.n; i++) {
            nodes[i] = slice_create(
                &slice, &(struct task){ .id = (int64_t)i + 1, .lane = 1, .class_id = 1, .spec = 1 }, &because);
            o.state[i] = 'S';
        }
        uint64_t density = 1 + rng_below(&rng, 6);
        for (size_t w = 1; w < o.n; w++)
            for (size_t p = 0; p < w; p++) {
                if (rng_below(&rng, 10) >= density)
                    continue;
                o.edge[w][p] = rng_below(&rng, 3) ? EDGE_DEPENDS : EDGE_AFTER;
                slice_edge_add(&slice, nodes[w], nodes[p], o.edge[w][p]);
            }
        for (size_t i = 0; i < o.n; i++)
            task_consider(&slice, nodes[i]);
        slice_settle(&slice);
        oracle_settle(&o);
        for (;;) {
            size_t pending[N_MAX], n_pending = 0;
            for (size_t i = 0; i < o.n; i++) {
                assert_int_equal(state_letter(nodes[i]->row.state), o.state[i]);
                if (o.state[i] == 'P')
                    pending[n_pending++] = i;
            }
            if (n_pending == 0)
                break;
            size_t i = pending[rng_below(&rng, n_pending)];
            bool good = rng_below(&rng, 4) != 0;
            slice_move(&slice, nodes[i], STATE_X, &because);
            task_end(&slice, nodes[i], good ? STATE_D : STATE_F, good ? OUTCOME_done : OUTCOME_failed, &because);
            slice_settle(&slice);
            o.state[i] = good ? 'D' : 'F';
            fails += !good;
            oracle_settle(&o);
        }
        for (size_t i = 0; i < o.n; i++)
            assert_true(state_ended(nodes[i]->row.state)); /* nothing is left waiting */
        int64_t sum = 0;
        const struct lane *lane = slice_lane(&slice, 1);
        for (size_t s = 0; s < STATE_COUNT; s++)
            sum += lane->counts[s];
        assert_int_equal(sum, (int64_t)o.n);
        assert_int_equal(lane->counts[STATE_D] + lane->counts[STATE_F], (int64_t)o.n);
        slice_release(&slice);
        arena_release(&arena);
    }
    assert_true(fails > 1000);
}

/* --- who can be started takes slots --- */

enum { OF_SERVED = 1, OF_UNSERVED = 2 };
static const struct slot the_slot = { .id = 1, .limit = 1 };
static const struct slot *a_slot(void *owner, int64_t id)
{
    (void)owner, (void)id;
    return &the_slot;
}
static const struct spec *slot_spec(void *owner, int64_t id, struct err *err)
{
    static const int64_t one = 1;
    static const struct spec with = { .attempts_max = 1, .slots = &one, .n_slots = 1 }, without = { .attempts_max = 1 };
    (void)owner, (void)err;
    return id ? &with : &without;
}
static bool no_holds(void *owner, struct arena *arena, enum hold_kind kind, int64_t key, size_t n, struct hold **out,
    size_t *out_n, struct err *err)
{
    (void)owner, (void)arena, (void)kind, (void)key, (void)n, (void)err;
    *out = NULL;
    *out_n = 0;
    return true;
}
static bool is_served(void *owner, int64_t class_id)
{
    return class_id == OF_SERVED || (*(bool *)owner && class_id == OF_UNSERVED);
}

static struct node *slot_task(struct slice *slice, int64_t id, int64_t class_id, bool slot)
{
    struct node *node = slice_create(slice, &(struct task){ .id = id, .lane = 1, .class_id = class_id, .spec = slot },
        &(struct because){ .cause = 0 });
    task_consider(slice, node);
    slice_settle(slice);
    return node;
}

/* Two tasks that want one slot, or none: where they stand, and when the class of the second rows is served from then
 * on. */
static void test_a_slot_is_for_who_can_be_started(void **state)
{
    (void)state;
    static const struct {
        int64_t first, second; /* classes */
        bool slot;
        const char *before, *after;
    } table[] = {
        { OF_SERVED, OF_SERVED, true, "PS", "PS" },
        { OF_UNSERVED, OF_SERVED, true, "EP", "SP" },
        { OF_SERVED, OF_UNSERVED, true, "PE", "PS" },
        { OF_UNSERVED, OF_UNSERVED, true, "EE", "PS" },
        { OF_UNSERVED, OF_UNSERVED, false, "PP", "PP" },
        { 0, OF_UNSERVED, true, "DE", "DP" },
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct arena arena = { 0 };
        struct slice slice = { 0 };
        struct err err = { 0 };
        bool come = false;
        const struct rows rows = { .owner = &come,
            .task = no_task,
            .lane = a_lane,
            .spec = slot_spec,
            .slot = a_slot,
            .holds_of = no_holds,
            .class_there = is_there,
            .served = is_served };
        slice_init(&slice, &arena, &rows, 1000, 1, &err);
        slice.looks_left = 100;
        struct node *first = slot_task(&slice, 1, table[i].first, table[i].slot),
                    *nodes[] = { first, slot_task(&slice, 2, table[i].second, table[i].slot) };
        for (int round = 0; round < 2; round++) {
            for (size_t k = 0; k < 2; k++) {
                bool waits = (nodes[k]->row.holds & 1u << HOLD_executor) != 0;
                assert_int_equal(
                    waits ? 'E' : state_letter(nodes[k]->row.state), (round ? table[i].after : table[i].before)[k]);
            }
            come = true;
            for (size_t k = 0; k < 2; k++)
                task_consider(&slice, nodes[k]);
            slice_settle(&slice);
        }
        come = false; /* and it is gone again: who has the slot gives it back */
        for (size_t k = 0; k < 2; k++)
            task_unserved(&slice, nodes[k]);
        slice_settle(&slice);
        for (size_t k = 0; k < 2; k++) {
            bool gone = (k ? table[i].second : table[i].first) == OF_UNSERVED && table[i].slot;
            if (gone && nodes[k]->row.holds & 1u << HOLD_held)
                fail_msg("row %zu: task %zu keeps its slot", i, k);
        }
        assert_true(slice_slot(&slice, 1)->used <= 1);
        slice_release(&slice);
        arena_release(&arena);
    }
}

/* --- why --- */

static const struct why_condition *reason(const struct why *why, const char *kind)
{
    for (size_t i = 0; i < why->n_conditions; i++)
        if (strcmp(why->conditions[i].kind, kind) == 0)
            return &why->conditions[i];
    return NULL;
}

static void test_why_names_every_reason(void **state)
{
    (void)state;
    struct arena arena = { 0 };
    struct why why;
    struct label linux_ = { STR("os"), STR("linux") };
    struct task_class class_ = { .id = 1, .kind = KIND_COMMAND, .labels = &linux_, .n_labels = 1 };
    struct executor plain = { .id = 1, .kinds = 1u << KIND_COMMAND, .state = EXECUTOR_ACTIVE }, fitting = plain;
    fitting.labels = &linux_;
    fitting.n_labels = 1;
    struct lane all = { .name = STR("all") }, lane = {
        .id = 1, .name = STR("q"), .paused_since = 500, .paused_by = STR("uid:0"), .paused_reason = STR("upgrade")
    };
    struct why_pred preds[] = { { .id = 7, .key = STR("q:7"), .state = STATE_X, .kind = EDGE_DEPENDS },
        { .id = 8, .key = STR("q:8"), .state = STATE_D, .kind = EDGE_DEPENDS },
        { .id = 9, .key = STR("q:9"), .state = STATE_P, .kind = EDGE_AFTER } };
    struct str holder = STR("q:3");
    struct why_slot slots[] = {
        { .slot = { .name = STR("pdf"), .limit = 1, .used = 1 }, .since = 700, .holders = &holder, .n_holders = 1 }
    };
    struct why_facts facts = { .task = { .id = 10, .state = STATE_S, .created = 100, .not_before = 9000 },
        .preds = preds,
        .n_preds = 3,
        .lane = &lane,
        .all = &all,
        .slots = slots,
        .n_slots = 1,
        .class_ = &class_,
        .now = 1000 };
    why_explain(&facts, &arena, &why);
    assert_int_equal(why.verdict, WHY_NEVER); /* nobody has the label */
    assert_int_equal(why.n_conditions, 6);
    assert_true(str_eqz(reason(&why, "dependency")->holder, "q:7"));
    assert_true(str_eqz(reason(&why, "precursor")->holder, "q:9"));
    assert_int_equal(reason(&why, "not_before")->until, 9000);
    assert_true(str_eqz(reason(&why, "pause")->holder, "uid:0"));
    assert_int_equal(reason(&why, "pause")->since, 500);
    assert_true(str_eqz(reason(&why, "semaphore")->holder, "q:3"));
    assert_non_null(reason(&why, "executor"));

    assert_true(class_fits(&class_, &fitting) && !class_fits(&class_, &plain));
    facts.crew = (struct why_crew){ .fit = 1, .live = 1, .active = 1, .open = 1 };
    why_explain(&facts, &arena, &why);
    assert_int_equal(why.verdict, WHY_WAITING);
    assert_null(reason(&why, "executor"));
    facts.crew.live = facts.crew.open = 0;
    why_explain(&facts, &arena, &why);
    assert_non_null(reason(&why, "executor"));

    facts.preds[1].untold = true; /* done, but very many wait for it */
    facts.preds[0].state = STATE_D;
    why_explain(&facts, &arena, &why);
    assert_true(str_eqz(reason(&why, "dependency")->holder, "q:8"));
    assert_true(str_starts(reason(&why, "dependency")->detail, STR("q:8 has ended; ")));

    struct why_facts pending = { .task = { .state = STATE_P },
        .class_ = &class_,
        .crew = { .fit = 1, .live = 1, .active = 1, .open = 1 },
        .now = 1000 };
    why_explain(&pending, &arena, &why);
    assert_int_equal(why.n_conditions, 1);
    assert_string_equal(why.conditions[0].kind, "executor");
    /* it has come, and those who waited go on in batches */
    struct hold hold = { .kind = HOLD_executor, .key = 1, .since = 600 };
    pending.task.state = STATE_S;
    pending.holds = &hold;
    pending.n_holds = 1;
    why_explain(&pending, &arena, &why);
    assert_int_equal(why.n_conditions, 1);
    assert_string_equal(why.conditions[0].kind, "executor");
    assert_int_equal(why.conditions[0].since, 600);
    pending.n_holds = 0;
    pending.task.state = STATE_X;
    why_explain(&pending, &arena, &why);
    assert_int_equal(why.verdict, WHY_RUNNING);
    assert_int_equal(why.n_conditions, 0);
    pending.task.state = STATE_D;
    why_explain(&pending, &arena, &why);
    assert_int_equal(why.verdict, WHY_ENDED);
    arena_release(&arena);
}

static void test_why_of_change_sets(void **state)
{
    (void)state;
    struct arena arena = { 0 };
    struct why why;
    struct task_class class_ = { .id = 1, .tenant = STR("default"), .kind = KIND_APPLY };
    struct why_pred preds[] = {
        { .id = 7, .key = STR("docs:CS7"), .state = STATE_S, .kind = EDGE_AFTER, .path = STR("a/b") }
    };
    struct hold hold = { .kind = HOLD_rollback, .key = 9, .since = 600 };
    struct str rollback = STR("docs:RB9");
    struct why_facts facts = {
        .task = { .id = 10, .name = STR("CS10"), .state = STATE_S, .marks = MARK_CHANGESET | MARK_UNAPPROVED },
        .preds = preds,
        .n_preds = 1,
        .holds = &hold,
        .rollbacks = &rollback,
        .n_holds = 1,
        .class_ = &class_,
        .crew = { .fit = 1, .live = 1, .active = 1, .open = 1 },
        .now = 1000
    };
    why_explain(&facts, &arena, &why);
    assert_int_equal(why.n_conditions, 3);
    assert_true(
        str_eqz(reason(&why, "precursor")->detail, "docs:CS7 has to leave the queue; it is staged; both have a/b"));
    assert_true(str_eqz(reason(&why, "approval")->remedy, "weir cs approve CS10 --ticket TICKET"));
    assert_true(str_eqz(reason(&why, "rollback")->holder, "docs:RB9"));
    assert_true(str_eqz(reason(&why, "rollback")->remedy, "weir why docs:RB9"));

    struct why_facts pending = { .task = { .id = 11, .state = STATE_P, .marks = MARK_CHANGESET },
        .class_ = &class_,
        .crew = { .fit = 1, .live = 1, .active = 1, .open = 1 },
        .applying = STR("docs:CS8"),
        .applying_since = 700 };
    why_explain(&pending, &arena, &why);
    assert_int_equal(why.n_conditions, 1); /* not a free slot: it couldn't take one */
    assert_true(str_eqz(reason(&why, "target")->holder, "docs:CS8"));
    assert_int_equal(reason(&why, "target")->since, 700);
    pending.crew = (struct why_crew){ 0 };
    why_explain(&pending, &arena, &why);
    assert_non_null(reason(&why, "executor"));
    assert_true(str_eqz(
        reason(&why, "executor")->remedy, "start one that applies change sets: weir executor --server URL --apply"));
    arena_release(&arena);
}

static void test_why_names_gaps_and_locks(void **state)
{
    (void)state;
    struct arena arena = { 0 };
    struct why why;
    struct why_facts facts = { .task = { .id = 10, .rev = 3, .state = STATE_Q, .created = 100 },
        .lane_name = STR("docs"),
        .gap = { .rev = 2, .missing = true, .posted = true } };
    why_explain(&facts, &arena, &why);
    assert_int_equal(why.verdict, WHY_WAITING);
    assert_int_equal(why.n_conditions, 1);
    const struct why_condition *gap = reason(&why, "gap");
    assert_non_null(gap);
    assert_true(str_eqz(gap->holder, "docs@2"));
    assert_true(str_eqz(gap->remedy, "post revision 2, or give it up: weir archive skip docs 2 --reason TEXT"));
    static const struct {
        int64_t end, known[8]; /* newest first */
        bool unread;
        const char *wanted;
    } gaps[] = {
        { 3, { 1 }, false, "revision 2 of docs is missing: nobody has told of it yet" },
        { 8, { 4, 3, 1 }, false, "revision 2 of docs is missing, and so are 5 to 7: nobody has told of them yet" },
        { 6, { 4, 3, 1 }, false, "revision 2 of docs is missing, and so is 5: nobody has told of them yet" },
        { 1000001, { 0 }, false,
            "revision 2 of docs is missing, and so are 3 to 1000000: nobody has told of them yet" },
        { 17, { 15, 13, 11, 9, 7, 6, 3, 1 }, false,
            "revision 2 of docs is missing, and so are 4 to 5, 8, 10, 12 and 2 more: "
            "nobody has told of them yet" },
        { 7, { 5, 3 }, false, "revision 2 of docs is missing, and so are 4 and 6: nobody has told of them yet" },
        { 5, { 4, 3 }, true, "revision 2 of docs is missing, and perhaps more: nobody has told of them yet" },
    };
    for (size_t i = 0; i < sizeof gaps / sizeof gaps[0]; i++) {
        struct revision known[8] = { 0 };
        size_t n = 0;
        while (n < 8 && gaps[i].known[n] > 0) {
            known[n].rev = gaps[i].known[n];
            n++;
        }
        struct why_facts wide = facts;
        wide.gap.unread = gaps[i].unread;
        why_gap_ranges(&wide.gap, known, n, gaps[i].end);
        why_explain(&wide, &arena, &why);
        assert_string_equal(str_dupz(&arena, reason(&why, "gap")->detail), gaps[i].wanted);
    }
    facts.gap.posted = false; /* of a repository: nobody posts it */
    why_explain(&facts, &arena, &why);
    assert_true(str_ends(reason(&why, "gap")->remedy, STR("weir archive show docs tells what keeps it from that")));
    facts.gap.missing = false; /* it is known and comes next */
    why_explain(&facts, &arena, &why);
    assert_true(str_eqz(reason(&why, "gap")->remedy, "it goes on by itself"));

    struct why_pred preds[] = { { .id = 7, .key = STR("docs@2:x"), .state = STATE_X, .kind = EDGE_AFTER, .lock = true },
        { .id = 8, .key = STR("docs@1:x"), .state = STATE_D, .kind = EDGE_AFTER, .lock = true } };
    struct why_facts locked = { .task = { .id = 10, .state = STATE_S, .created = 100 }, .preds = preds, .n_preds = 2 };
    why_explain(&locked, &arena, &why);
    assert_int_equal(why.n_conditions, 1);
    assert_true(str_eqz(reason(&why, "lock")->holder, "docs@2:x"));
    arena_release(&arena);
}

static void test_which_executor_fits(void **state)
{
    (void)state;
    struct label two[] = { { STR("cc"), STR("gcc") }, { STR("os"), STR("a") } };
    struct task_class class_ = { .kind = KIND_SCRIPT, .zone = STR("eu"), .labels = two, .n_labels = 2 };
    struct executor e = { .kinds = 1u << KIND_SCRIPT, .zone = STR("eu"), .labels = two, .n_labels = 2 };
    assert_true(class_fits(&class_, &e));
    e.n_labels = 1;
    assert_false(class_fits(&class_, &e));
    e.n_labels = 2;
    e.zone = STR("us");
    assert_false(class_fits(&class_, &e));
    class_.zone = (struct str){ 0 };
    assert_true(class_fits(&class_, &e)); /* a task without a zone runs in any */
    e.kinds = 1u << KIND_DATA;
    assert_false(class_fits(&class_, &e));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_table_of_moves),
        cmocka_unit_test(test_the_table_of_ends),
        cmocka_unit_test(test_back_off_is_monotone_and_capped),
        cmocka_unit_test(test_a_circle_is_found_if_there_is_one),
        cmocka_unit_test(test_counting_agrees_with_searching),
        cmocka_unit_test(test_a_slot_is_for_who_can_be_started),
        cmocka_unit_test(test_why_names_every_reason),
        cmocka_unit_test(test_why_of_change_sets),
        cmocka_unit_test(test_why_names_gaps_and_locks),
        cmocka_unit_test(test_which_executor_fits),
    };
    return cmocka_run_group_tests_name("core", tests, NULL, NULL);
}
