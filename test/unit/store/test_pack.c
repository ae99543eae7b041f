/* pack: any events come back as they were; strings that repeat cost nothing; any other bytes are refused without harm.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "store/pack.h"

static const struct str words[] = { { "", 0 }, { "anna", 4 }, { "executor:box", 12 }, { "because\0of NUL", 14 },
    { "\xff\xfe", 2 } };

static int64_t number_any(struct rng *rng)
{
    switch (rng_below(rng, 5)) {
    case 0:
        return 0;
    case 1:
        return INT64_MAX;
    case 2:
        return INT64_MIN;
    case 3:
        return (int64_t)rng_below(rng, 1000);
    default:
        return (int64_t)rng_u64(rng);
    }
}

static struct event event_any(struct rng *rng)
{
    return (struct event){
        .kind = (enum event_kind)(1 + rng_below(rng, EVENT_KIND_COUNT - 1)),
        .task = number_any(rng),
        .lane = number_any(rng),
        .from = (enum task_state)rng_below(rng, STATE_COUNT),
        .to = (enum task_state)rng_below(rng, STATE_COUNT),
        .attempt = number_any(rng),
        .grant = number_any(rng),
        .actor = words[rng_below(rng, 5)],
        .reason = words[rng_below(rng, 5)],
        .subject = words[rng_below(rng, 5)],
        .cause = number_any(rng),
        .prev_turn = number_any(rng),
    };
}

static void event_same(const struct event *a, const struct event *b)
{
    assert_int_equal(a->kind, b->kind);
    assert_true(a->task == b->task && a->lane == b->lane && a->attempt == b->attempt && a->grant == b->grant);
    assert_true(a->cause == b->cause && a->prev_turn == b->prev_turn);
    assert_int_equal(a->from, b->from);
    assert_int_equal(a->to, b->to);
    assert_true(str_eq(a->actor, b->actor) && str_eq(a->reason, b->reason) && str_eq(a->subject, b->subject));
}

static void events_come_back(void **state)
{
    struct rng rng;
    struct arena arena = { 0 };
    struct buf buf;
    (void)state;
    rng_seed(&rng, 1);
    buf_init(&buf, 1 << 20);
    for (int round = 0; round < 300; round++) {
        struct event in[40], *out;
        size_t n = 1 + rng_below(&rng, 40), n_out;
        for (size_t i = 0; i < n; i++)
            in[i] = event_any(&rng);
        buf_reset(&buf);
        pack_events(&buf, in, n);
        assert_true(unpack_events(buf_str(&buf), 1000, 77, &arena, &out, &n_out));
        assert_int_equal(n_out, n);
        for (size_t i = 0; i < n; i++) {
            event_same(&out[i], &in[i]);
            assert_int_equal(out[i].seq, 1000 + (int64_t)i);
            assert_int_equal(out[i].time, 77);
        }
        arena_reset(&arena);
    }
    buf_release(&buf);
    arena_release(&arena);
}

static void a_bulk_enqueue_is_small(void **state)
{
    static struct event events[2000];
    struct buf buf;
    (void)state;
    buf_init(&buf, 1 << 20);
    for (int i = 0; i < 1000; i++) {
        events[2 * i] = (struct event){
            .kind = EVENT_created, .task = 1000000 + i, .lane = 7, .to = STATE_Q, .actor = STR("token:a-long-name")
        };
        events[2 * i + 1] = (struct event){ .kind = EVENT_move,
            .task = 1000000 + i,
            .lane = 7,
            .from = STATE_Q,
            .to = STATE_S,
            .actor = STR("token:a-long-name") };
    }
    pack_events(&buf, events, 2000);
    assert_true(buf.len < 1000 * 8);
    buf_release(&buf);
}

static void damaged_bytes_are_harmless(void **state)
{
    struct rng rng;
    struct arena arena = { 0 };
    struct buf buf;
    struct event in[20], *out;
    size_t n, taken = 0;
    (void)state;
    rng_seed(&rng, 2);
    buf_init(&buf, 1 << 20);
    for (int i = 0; i < 20; i++)
        in[i] = event_any(&rng);
    pack_events(&buf, in, 20);
    char *copy = mem_alloc(buf.len); /* exactly as long: a read past the end is seen */
    for (int round = 0; round < 20000; round++) {
        size_t len = rng_below(&rng, 4) ? buf.len : rng_below(&rng, buf.len);
        memcpy(copy, buf.ptr, len);
        for (uint64_t flips = rng_below(&rng, 4); flips && len; flips--)
            copy[rng_below(&rng, len)] = (char)rng_u64(&rng);
        taken += unpack_events((struct str){ copy, len }, 1, 1, &arena, &out, &n);
        arena_reset(&arena);
    }
    assert_true(taken < 20000);
    for (size_t len = 0; len < buf.len; len++) /* a part is never a whole */
        assert_false(unpack_events((struct str){ buf.ptr, len }, 1, 1, &arena, &out, &n));
    buf_add_char(&buf, 0);
    assert_false(unpack_events(buf_str(&buf), 1, 1, &arena, &out, &n)); /* nor is more */
    char huge[] = { 1, (char)0xff, (char)0xff, (char)0xff, (char)0xff, (char)0xff, (char)0xff, (char)0xff, (char)0xff,
        1, 2, 0 };
    /* a number isn't believed */
    assert_false(unpack_events((struct str){ huge, sizeof huge }, 1, 1, &arena, &out, &n));
    mem_free(copy);
    buf_release(&buf);
    arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_come_back),
        cmocka_unit_test(a_bulk_enqueue_is_small),
        cmocka_unit_test(damaged_bytes_are_harmless),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
