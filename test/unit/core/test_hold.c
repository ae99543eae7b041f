/* A kind of hold is a row, a file and a test: hold_tide.def is the row, this is the other two. All of core is built
 * with it here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/hold.h"
#include "core/settle.h"

/* --- what its file would have --- */

static int64_t high_water; /* its time */

bool hold_tide_closed(struct slice *slice, struct node *node, int64_t *out_key)
{
    *out_key = node->row.lane;
    return slice->now < high_water;
}

void hold_tide_explain(struct explain *x)
{
    if (x->facts->now >= high_water)
        return;
    struct why_condition *c = explain_add(x, "tide", x->facts->task.created);
    c->until = high_water;
    c->detail = STR("the water is low");
    c->remedy = STR("weir tow");
}

/* --- its test --- */

static bool no_task(void *owner, struct arena *arena, int64_t id, struct task *out, bool *out_found, struct err *err)
{
    (void)owner, (void)arena, (void)id, (void)out, (void)err;
    *out_found = false;
    return true;
}
static bool no_holds(void *owner, struct arena *arena, enum hold_kind kind, int64_t key, size_t n, struct hold **out,
    size_t *out_n, struct err *err)
{
    (void)owner, (void)arena, (void)kind, (void)key, (void)n, (void)out, (void)err;
    *out_n = 0;
    return true;
}
static const struct lane *a_lane(void *owner, int64_t id)
{
    static const struct lane all = { .id = 0 }, one = { .id = 1, .kind = LANE_QUEUE };
    (void)owner;
    return id ? &one : &all;
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

static void test_a_new_kind_holds_and_lets_go(void **state)
{
    (void)state;
    struct arena arena = { 0 };
    struct slice slice = { 0 };
    struct err err = { 0 };
    struct hold first;
    const struct rows rows = {
        .task = no_task, .lane = a_lane, .spec = a_spec, .holds_of = no_holds, .class_there = is_there
    };
    high_water = 5000;
    slice_init(&slice, &arena, &rows, 1000, 1, &err);
    struct node *node =
        slice_create(&slice, &(struct task){ .id = 7, .lane = 1, .class_id = 1 }, &(struct because){ .cause = 0 });
    task_consider(&slice, node);
    slice_settle(&slice);
    assert_int_equal(node->row.state, STATE_S);
    assert_int_equal(node->row.holds, 1u << HOLD_tide);
    /* found by its key, for whoever lifts it */
    assert_int_equal(slice_holds_first(&slice, HOLD_tide, 1, 1, &first), 1);
    assert_int_equal(first.task, 7);

    struct why why;
    struct why_facts facts = { .task = node->row, .now = slice.now };
    why_explain(&facts, &arena, &why);
    assert_int_equal(why.verdict, WHY_WAITING);
    assert_int_equal(why.n_conditions, 1);
    assert_string_equal(why.conditions[0].kind, "tide");
    assert_int_equal(hold_of_word("tide"), HOLD_tide); /* as the simulator asks */

    high_water = 0;
    task_consider(&slice, node);
    slice_settle(&slice);
    assert_int_equal(node->row.state, STATE_P);
    assert_int_equal(node->row.holds, 0);
    assert_int_equal(slice_holds_first(&slice, HOLD_tide, 1, 1, &first), 0);
    slice_release(&slice);
    arena_release(&arena);
}

static void test_an_end_takes_a_new_kind_away(void **state)
{
    (void)state;
    struct arena arena = { 0 };
    struct slice slice = { 0 };
    struct err err = { 0 };
    const struct rows rows = {
        .task = no_task, .lane = a_lane, .spec = a_spec, .holds_of = no_holds, .class_there = is_there
    };
    high_water = 5000;
    slice_init(&slice, &arena, &rows, 1000, 1, &err);
    struct node *node =
        slice_create(&slice, &(struct task){ .id = 7, .lane = 1, .class_id = 1 }, &(struct because){ .cause = 0 });
    task_consider(&slice, node);
    slice_settle(&slice);
    assert_true(hold_has(node, HOLD_tide));
    task_stop(&slice, node, STATE_T, &(struct because){ .actor = STR("somebody") });
    assert_int_equal(node->row.holds, 0);
    slice_holds_pack(&slice);
    assert_int_equal(slice.holds_add.n, 0);
    slice_release(&slice);
    arena_release(&arena);
}

/* The words are found whole, and nobody else's. */
static void test_words(void **state)
{
    (void)state;
    static const struct {
        const char *word;
        enum hold_kind kind;
    } table[] = {
        { "not_before", HOLD_time },
        { "pause", HOLD_pause },
        { "semaphore", HOLD_slot },
        { "concurrency", HOLD_slot },
        { "quota", HOLD_slot },
        { "executor", HOLD_executor },
        { "dependency", HOLD_none },
        { "lock", HOLD_none },
        { "sema", HOLD_none },
        { "", HOLD_none },
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        assert_int_equal(hold_of_word(table[i].word), table[i].kind);
}

/* What lifts a hold, and who may force it, stands in the manual as it stands in the table. */
static void test_the_manual_has_every_word(void **state)
{
    (void)state;
    static char manual[1 << 20];
    char path[4096];
    snprintf(path, sizeof path, "%s/doc/manual.md", getenv("WEIR_ROOT") ? getenv("WEIR_ROOT") : "..");
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    manual[fread(manual, 1, sizeof manual - 1, file)] = 0;
    fclose(file);
    for (enum hold_kind kind = 1; kind < HOLD_tide; kind++) {
        const struct hold_rule *rule = hold_rule(kind);
        char words[256], word[64];
        if (!rule->words)
            continue;
        snprintf(words, sizeof words, "%s ", rule->words);
        for (char *at = words, *end; (end = strchr(at, ' ')); at = end + 1) {
            char row[512];
            snprintf(word, sizeof word, "%.*s", (int)(end - at), at);
            snprintf(row, sizeof row, "| `%s` | %s | %s |", word, rule->lifted, rule->forced ? rule->forced : "nobody");
            if (!strstr(manual, row))
                fail_msg("doc/manual.md has no row '%s'", row);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_new_kind_holds_and_lets_go),
        cmocka_unit_test(test_an_end_takes_a_new_kind_away),
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_the_manual_has_every_word),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
