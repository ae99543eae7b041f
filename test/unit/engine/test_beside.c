/* Two engines on one PostgreSQL whose turns overlap (decision 0016): what a turn meets that another began before it and
 * ended within it. Run by test/lib/postgres.py, which starts the database. */
#include <stdlib.h>
#include <string.h>

#include "pair.h"

static struct {
    const struct store_ops *real;
    struct store_ops ops;
    struct store_shared_ops shared;
    void (*beside)(void); /* once, before the next claim reads */
    struct pair *pair;
    struct fence fence;
} claim;

static bool ready_beside(struct store *store, struct arena *arena, int64_t class_id, size_t n, struct ready_row **out,
    size_t *out_n, struct err *err)
{
    void (*beside)(void) = claim.beside;
    claim.beside = NULL;
    if (beside)
        beside();
    return claim.real->ready_first(store, arena, class_id, n, out, out_n, err);
}

static void claim_plant(struct rig *rig, void (*beside)(void))
{
    claim.real = rig->store->ops;
    claim.ops = *rig->store->ops;
    claim.ops.ready_first = ready_beside;
    claim.beside = beside;
    rig->store->ops = &claim.ops;
}

static uint64_t narrow_turns(struct rig *rig)
{
    struct engine_counters counters;
    engine_counters(rig->engine, &counters);
    return counters.narrow;
}

/* Both know of each other, and have numbers for turns of their own. */
static void pair_warm(struct pair *pair)
{
    for (int i = 0; i < 3; i++) {
        rig_pass(&pair->a, 1100);
        pair->b.boot = pair->a.boot;
        pair->b.wall = pair->a.wall;
        rig_pass(&pair->b, 0);
    }
}

/* Nothing is due, and nothing that had to be wide is so near that a turn wouldn't be narrow. */
static void pair_rest(struct pair *pair)
{
    rig_pass(&pair->a, 600);
    rig_pass(&pair->b, 600);
}

static void gives_up(void)
{
    assert_int_equal(rig_finish(&claim.pair->a, claim.fence, -1, 9), ERR_none);
}

/* In the middle of b's turn a ends the task's first attempt; b grants it anew. a's news, which b takes over later, are
 * older than b's grant. */
static void test_older_news_do_not_end_a_grant_of_our_own(void **state)
{
    struct pair pair;
    (void)state;
    pair_open(&pair);
    pair_warm(&pair);
    int64_t ea = rig_executor(&pair.a, "ea", NULL), eb = rig_executor(&pair.b, "eb", NULL),
            task = ENQUEUE(&pair.a, "t attempts=5");
    pair_rest(&pair);
    claim.pair = &pair;
    claim.fence = rig_granted(rig_poll(&pair.a, ea, 1));
    rig_turn(&pair.b, NULL, 0);
    claim_plant(&pair.b, gives_up);
    uint64_t before = narrow_turns(&pair.b);
    struct command *poll = rig_poll(&pair.b, eb, 1);
    pair.b.store->ops = claim.real;
    assert_int_equal(narrow_turns(&pair.b), before + 1);
    assert_int_equal(poll->out.poll.n_grants, 1);
    assert_int_equal(poll->out.poll.grants[0].fence.grant, claim.fence.grant + 1);
    rig_turn(&pair.b, NULL, 0); /* takes over what a did */
    assert_int_equal(rig_state(&pair.b, task), 'X');
    rig_pass(&pair.b, 20000); /* nobody hears of it any more: b must know that it gave it out */
    if (rig_state(&pair.b, task) == 'X')
        fail_msg("b has forgotten its own grant");
    pair_close(&pair);
}

static struct command *taken;

static void takes(void)
{
    taken = rig_poll(&claim.pair->a, claim.fence.task, 1); /* the executor's number stands there */
}

/* Both claim at once: each gets another task, in the order of rank among those that are left. */
static void test_claims_pass_over_each_other(void **state)
{
    struct pair pair;
    (void)state;
    pair_open(&pair);
    pair_warm(&pair);
    int64_t ea = rig_executor(&pair.a, "ea", NULL), eb = rig_executor(&pair.b, "eb", NULL),
            first = ENQUEUE(&pair.a, "1", "2", "3");
    pair_rest(&pair);
    rig_turn(&pair.a, NULL, 0);
    claim.pair = &pair;
    claim.fence = (struct fence){ .task = ea };
    uint64_t a = narrow_turns(&pair.a), b = narrow_turns(&pair.b);
    claim_plant(&pair.b, takes);
    struct command *poll = rig_poll(&pair.b, eb, 2);
    pair.b.store->ops = claim.real;
    assert_int_equal(narrow_turns(&pair.a), a + 1);
    assert_int_equal(narrow_turns(&pair.b), b + 1);
    assert_int_equal(rig_granted(taken).task, first);
    assert_int_equal(poll->out.poll.n_grants, 2);
    assert_int_equal(poll->out.poll.grants[0].fence.task, first + 1);
    assert_string_equal(rig_states(&pair.a, first, 3), "XXX");
    rig_turn(&pair.b, NULL, 0);
    rig_turn(&pair.a, NULL, 0);
    struct lane **lanes;
    size_t n;
    struct err err = { 0 };
    assert_true(pair.a.store->ops->load_lanes(pair.a.store, &pair.a.arena, &lanes, &n, &err));
    for (size_t i = 0; i < n; i++)
        if (lanes[i]->counts[STATE_P] || lanes[i]->counts[STATE_X] == 1 || lanes[i]->counts[STATE_X] == 2)
            fail_msg("lane %lld miscounts", (long long)lanes[i]->id);
    pair_close(&pair);
}

/* --- what a turn meets that another has begun before it and ended within it --- */

/* b's turn asks for nothing before it begins: rows are locked one by one, after what a does then. */
static bool expect_little(struct store *store, const struct turn_needs *needs, struct err *err)
{
    struct turn_needs less = *needs;
    less.n_tasks = less.n_preds = less.n_grants = 0;
    return claim.real->shared->expect(store, &less, err);
}

static bool begin_beside(struct store *store, struct err *err)
{
    void (*beside)(void) = claim.beside;
    claim.beside = NULL;
    bool ok = claim.real->begin(store, err);
    if (beside)
        beside();
    return ok;
}

static bool commit_beside(struct store *store, const struct changes *changes, struct err *err)
{
    void (*beside)(void) = claim.beside;
    claim.beside = NULL;
    if (beside)
        beside();
    return claim.real->commit(store, changes, err);
}

static void begin_plant(struct pair *pair, void (*beside)(void))
{
    claim.pair = pair;
    claim.real = pair->b.store->ops;
    claim.ops = *pair->b.store->ops;
    claim.ops.begin = begin_beside;
    claim.shared = *claim.real->shared;
    claim.shared.expect = expect_little;
    claim.ops.shared = &claim.shared;
    claim.beside = beside;
    pair->b.store->ops = &claim.ops;
}

static void reports(void)
{
    assert_int_equal(rig_finish(&claim.pair->a, claim.fence, 0, -1), ERR_none);
}

static void test_a_result_told_to_two_servers_at_once_counts_at_both(void **state)
{
    struct pair pair;
    (void)state;
    pair_open(&pair);
    pair_warm(&pair);
    int64_t e = rig_executor(&pair.b, "e", NULL), task = ENQUEUE(&pair.b, "t");
    rig_turn(&pair.a, NULL, 0); /* wide: a class has an executor since */
    pair_rest(&pair);
    claim.fence = rig_granted(rig_poll(&pair.b, e, 1));
    rig_turn(&pair.a, NULL, 0);
    uint64_t before = narrow_turns(&pair.b);
    begin_plant(&pair, reports);
    assert_int_equal(rig_finish(&pair.b, claim.fence, 0, -1), ERR_none);
    pair.b.store->ops = claim.real;
    assert_int_equal(narrow_turns(&pair.b), before + 1);
    assert_int_equal(rig_state(&pair.b, task), 'D');
    pair_close(&pair);
}

static int64_t worker;

static void begins_anew(void)
{
    gives_up();
    claim.fence = rig_granted(rig_poll(&claim.pair->a, worker, 1));
}

/* b ends a grant that it hasn't heard of: what a did comes to it later, and is older. */
static void test_who_ends_a_grant_of_a_moment_ago_knows_of_it(void **state)
{
    struct pair pair;
    (void)state;
    pair_open(&pair);
    pair_warm(&pair);
    worker = rig_executor(&pair.a, "e", NULL);
    int64_t task = ENQUEUE(&pair.a, "t attempts=5");
    pair_rest(&pair);
    claim.fence = rig_granted(rig_poll(&pair.a, worker, 1));
    rig_turn(&pair.b, NULL, 0);
    begin_plant(&pair, begins_anew);
    assert_int_equal(rig_order(&pair.b, CMD_CANCEL, task), ERR_none);
    pair.b.store->ops = claim.real;
    assert_int_equal(claim.fence.grant, 2);
    rig_turn(&pair.b, NULL, 0);
    struct command *poll = rig_one(&pair.b, rig_poll_command(&pair.b, worker, 0, 9, &claim.fence, 1));
    assert_int_equal(poll->out.poll.n_cancels, 1);
    assert_int_equal(poll->out.poll.cancels[0].fence.grant, 2);
    pair_close(&pair);
}

static int64_t made;

static void makes(void)
{
    made = ENQUEUE(&claim.pair->a, "other unique=u sem=s");
}

static void pair_used(struct pair *pair) /* names that are new are made by wide turns */
{
    pair_open(pair);
    int64_t e = rig_executor(&pair->a, "e", NULL);
    ENQUEUE(&pair->a, "first sem=s");
    assert_int_equal(rig_finish(&pair->a, rig_granted(rig_poll(&pair->a, e, 1)), 0, -1), ERR_none);
    pair_warm(pair);
    rig_poll(&pair->a, e, 0);
    pair_rest(pair);
}

static void test_a_unique_task_is_made_by_one_of_two(void **state)
{
    struct pair pair;
    (void)state;
    pair_used(&pair);
    begin_plant(&pair, makes);
    claim.ops.begin = claim.real->begin;
    claim.ops.commit = commit_beside; /* when b has looked for the key */
    int64_t task = ENQUEUE(&pair.b, "one unique=u");
    pair.b.store->ops = claim.real;
    assert_int_equal(task, made);
    assert_int_equal(rig_state(&pair.a, made), 'P');
    pair_close(&pair);
}

static void test_a_slot_is_taken_by_one_of_two(void **state)
{
    struct pair pair;
    (void)state;
    pair_used(&pair);
    uint64_t a = narrow_turns(&pair.a), b = narrow_turns(&pair.b);
    begin_plant(&pair, makes);
    int64_t task = ENQUEUE(&pair.b, "one sem=s");
    pair.b.store->ops = claim.real;
    assert_int_equal(narrow_turns(&pair.a), a + 1);
    assert_int_equal(narrow_turns(&pair.b), b + 1);
    if (task >= made)
        fail_msg("b's turn began first: %lld, %lld", (long long)task, (long long)made);
    assert_int_equal(rig_state(&pair.a, made), 'P');
    assert_int_equal(rig_state(&pair.a, task), 'S');
    pair_close(&pair);
}

static int64_t token;

static bool load_tokens_beside(struct store *store, struct arena *arena, int64_t after, size_t most,
    struct token ***out, size_t *out_n, struct err *err)
{
    bool ok = claim.real->load_tokens(store, arena, after, most, out, out_n, err);
    if (token)
        return ok;
    struct command *create = rig_new(&claim.pair->a, CMD_TOKEN_CREATE);
    create->in.token_create.token =
        (struct token){ .name = STR("ci"), .tenant = STR("default"), .scopes = 1, .hash = { 1 } };
    assert_int_equal(rig_one(&claim.pair->a, create)->err.code, ERR_none);
    token = create->out.token_create.id;
    return ok;
}

static void test_a_token_made_while_a_server_starts_is_good_there(void **state)
{
    struct pair pair;
    struct err err = { 0 };
    (void)state;
    pair_open(&pair);
    begin_plant(&pair, NULL);
    claim.ops.load_tokens = load_tokens_beside;
    engine_free(pair.b.engine);
    struct engine_config config = { .store = pair.b.store, .lease_ms = 3000, .server_name = STR("b") };
    assert_non_null(pair.b.engine = engine_new(&config, pair.b.wall, pair.b.boot, &err));
    assert_true(token > 0);
    struct command *post = rig_enqueue_command(&pair.b, (const char *const[]){ "t" }, 1);
    post->token = token;
    assert_int_equal(rig_one(&pair.b, post)->err.code, ERR_none);
    pair.b.store->ops = claim.real;
    pair_close(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_older_news_do_not_end_a_grant_of_our_own),
        cmocka_unit_test(test_claims_pass_over_each_other),
        cmocka_unit_test(test_a_result_told_to_two_servers_at_once_counts_at_both),
        cmocka_unit_test(test_who_ends_a_grant_of_a_moment_ago_knows_of_it),
        cmocka_unit_test(test_a_unique_task_is_made_by_one_of_two),
        cmocka_unit_test(test_a_slot_is_taken_by_one_of_two),
        cmocka_unit_test(test_a_token_made_while_a_server_starts_is_good_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
