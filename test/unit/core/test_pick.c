/* Which pending task is granted next, as tables: each class is a list of tasks in order, as the engine reads them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/pick.h"

static void test_priority_then_virtual_time_then_number(void **state)
{
    (void)state;
    static const struct ready_row in_order[] = {
        { .task = 9, .prio = 5, .vt = 900 },
        { .task = 8, .prio = 1, .vt = 10 },
        { .task = 3, .prio = 1, .vt = 20 },
        { .task = 4, .prio = 1, .vt = 20 },
        { .task = 1, .prio = 0, .vt = INT64_MIN },
        { .task = 2, .prio = 0, .vt = INT64_MAX },
        { .task = 7, .prio = -3, .vt = 0 },
    };
    size_t n = sizeof in_order / sizeof *in_order;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < n; k++) {
            const struct ready_row *a = &in_order[i], *b = &in_order[k];
            assert_int_equal(ready_order(a, b), i < k ? -1 : i > k);
            assert_ptr_equal(ready_earlier(a, b), i < k ? a : b);
        }
    assert_ptr_equal(ready_earlier(in_order, NULL), in_order);
    assert_ptr_equal(ready_earlier(NULL, in_order), in_order);
    assert_null(ready_earlier(NULL, NULL));
}

static void test_a_row_has_what_its_task_has(void **state)
{
    (void)state;
    struct task task = { .id = 7, .prio = -2, .vt = 31 };
    struct ready_row row = ready_row_of(&task);
    assert_int_equal(row.task, 7);
    assert_int_equal(row.prio, -2);
    assert_int_equal(row.vt, 31);
}

enum { CLASSES = 4, TASKS = 4 };

struct class_tasks {
    struct ready_row rows[TASKS]; /* ended by one without a number */
    size_t taken;
};

static const struct ready_row *class_head(const struct class_tasks *tasks)
{
    return tasks->taken < TASKS && tasks->rows[tasks->taken].task ? &tasks->rows[tasks->taken] : NULL;
}

static const struct {
    const char *name;
    struct class_tasks classes[CLASSES];
    int64_t expected[CLASSES * TASKS + 1];
} cases[] = {
    { .name = "no class" },
    { "one class keeps its order", { { .rows = { { 3, 1, 5 }, { 1, 0, 0 }, { 2, 0, 1 } } } }, { 3, 1, 2 } },
    { "an empty class between two", { { .rows = { { 2, 0, 2 } } }, { .taken = 0 }, { .rows = { { 1, 0, 1 } } } },
        { 1, 2 } },
    { "interleaved by virtual time",
        { { .rows = { { 1, 0, 10 }, { 4, 0, 40 }, { 7, 0, 70 } } }, { .rows = { { 2, 0, 20 }, { 5, 0, 50 } } },
            { .rows = { { 3, 0, 30 }, { 6, 0, 60 } } } },
        { 1, 2, 3, 4, 5, 6, 7 } },
    { "a priority behind a head waits for that head only",
        { { .rows = { { 1, 9, 99 }, { 2, 0, 1 } } }, { .rows = { { 3, 8, 0 }, { 4, 7, 0 } } } }, { 1, 3, 4, 2 } },
    { "equal but for the number",
        { { .rows = { { 4, 1, 7 }, { 8, 1, 7 } } }, { .rows = { { 2, 1, 7 }, { 6, 1, 7 } } },
            { .rows = { { 1, 1, 7 }, { 9, 1, 7 } } }, { .rows = { { 3, 1, 7 }, { 5, 1, 7 }, { 7, 1, 7 } } } },
        { 1, 2, 3, 4, 5, 6, 7, 8, 9 } },
    { "one class is used up while others go on",
        { { .rows = { { 5, 0, 5 } } }, { .rows = { { 1, 0, 1 }, { 2, 0, 2 }, { 6, 0, 6 }, { 8, 0, 8 } } },
            { .rows = { { 3, 0, 3 } } }, { .rows = { { 4, 0, 4 }, { 7, 0, 7 } } } },
        { 1, 2, 3, 4, 5, 6, 7, 8 } },
};

static void test_classes_are_merged_by_their_first_tasks(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct class_tasks classes[CLASSES];
        struct picks picks = { 0 };
        struct arena arena = { 0 };
        for (size_t k = 0; k < CLASSES; k++) {
            classes[k] = cases[i].classes[k];
            if (class_head(&classes[k]))
                picks_add(&picks, &arena, class_head(&classes[k]), &classes[k]);
        }
        const struct pick *first;
        size_t n = 0;
        for (; (first = picks_first(&picks)); n++) {
            struct class_tasks *tasks = first->supply;
            if (first->head.task != cases[i].expected[n])
                fail_msg("%s: task %lld comes at %zu", cases[i].name, (long long)first->head.task, n);
            tasks->taken++;
            picks_replace(&picks, class_head(tasks));
        }
        if (cases[i].expected[n])
            fail_msg("%s: only %zu tasks", cases[i].name, n);
        arena_release(&arena);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_priority_then_virtual_time_then_number),
        cmocka_unit_test(test_a_row_has_what_its_task_has),
        cmocka_unit_test(test_classes_are_merged_by_their_first_tasks),
    };
    return cmocka_run_group_tests_name("pick", tests, NULL, NULL);
}
