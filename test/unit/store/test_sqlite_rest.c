/* rest: a task's packed column gives back what was packed; bytes that were cut or changed are refused, or mean another
 * task, without harm.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "store/sqlite/query.h"

static int64_t number_any(struct rng *rng)
{
    return rng_below(rng, 3) ? (int64_t)rng_below(rng, 300)
                             : (int64_t)(rng_u64(rng) >> (2 + rng_below(rng, 60))) * (rng_below(rng, 8) ? 1 : -1);
}

static struct task task_any(struct rng *rng)
{
    static const struct str words[] = { { 0 }, { "superseded", 10 }, { "a\0b\xff", 4 } };
    return (struct task){
        .waits = number_any(rng),
        .ins = number_any(rng),
        .out = number_any(rng),
        .holds = (unsigned)rng_below(rng, 32),
        .marks = (unsigned)rng_below(rng, 8),
        .class_id = number_any(rng),
        .prio = number_any(rng),
        .vt = number_any(rng),
        .grant = number_any(rng),
        .not_before = number_any(rng),
        .spec = number_any(rng),
        .attempts = number_any(rng),
        .base = number_any(rng),
        .created = number_any(rng),
        .ready = number_any(rng),
        .started = number_any(rng),
        .finished = number_any(rng),
        .cause = number_any(rng),
        .last_turn = number_any(rng),
        .outcome = (enum outcome)rng_below(rng, OUTCOME_COUNT),
        .ending = (enum task_state)rng_below(rng, STATE_COUNT),
        .reason = words[rng_below(rng, 3)],
        .unique = words[rng_below(rng, 3)],
    };
}

static void task_same(struct task a, struct task b)
{
    assert_true(str_eq(a.reason, b.reason) && str_eq(a.unique, b.unique));
    a.reason = b.reason = a.unique = b.unique = (struct str){ 0 };
    assert_memory_equal(&a, &b, sizeof a);
}

static void comes_back_as_it_was(void **state)
{
    struct rng rng = { 0 };
    struct buf packed;
    (void)state;
    rng_seed(&rng, 7);
    buf_init(&packed, 4096);
    for (int i = 0; i < 20000; i++) {
        struct task task = i ? task_any(&rng) : (struct task){ 0 }, back = { 0 };
        buf_reset(&packed);
        task_pack(&packed, &task);
        assert_true(task_unpack(buf_str(&packed), &back));
        task_same(task, back);
        for (size_t len = 0; len < packed.len; len++) /* a row that was cut off never passes for a whole one */
            assert_false(task_unpack(str_sub(buf_str(&packed), 0, len), &back));
        packed.ptr[rng_below(&rng, packed.len)] ^= (char)(1 << rng_below(&rng, 8));
        if (task_unpack(buf_str(&packed), &back))
            assert_true(back.reason.len + back.unique.len <= packed.len && back.outcome < OUTCOME_COUNT &&
                        back.ending < STATE_COUNT);
    }
    buf_release(&packed);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(comes_back_as_it_was) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
