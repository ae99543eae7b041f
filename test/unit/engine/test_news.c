/* Two engines on one PostgreSQL: what one has changed is told to the other as what changed, and only that is read. Run
 * by test/lib/postgres.py, which starts the database. */
#include <stdio.h>
#include <stdlib.h>

#include "engine/engine.h"
#include "rig.h"

enum { MANY = 40 };

static struct {
    struct rig a, b;
    char url[200];
    const struct store_ops *real;
    struct store_ops ops;
    size_t tokens_read; /* by b, while it is watched */
} pair;

static void pair_open(void)
{
    static int databases;
    char name[20];
    snprintf(name, sizeof name, "news%d", ++databases);
    pair.a = pair.b = (struct rig){ 0 };
    rig_database(name, pair.url, sizeof pair.url);
    pair.a.url = pair.url;
    pair.a.name = "a";
    pair.b.name = "b";
    rig_open(&pair.a);
    rig_join(&pair.b, &pair.a);
}

static void pair_close(void)
{
    pair.b.store->ops = pair.real ? pair.real : pair.b.store->ops;
    pair.real = NULL;
    rig_close(&pair.b);
    rig_close(&pair.a);
}

static bool load_tokens_counted(struct store *store, struct arena *arena, int64_t after, size_t most,
    struct token ***out, size_t *out_n, struct err *err)
{
    bool ok = pair.real->load_tokens(store, arena, after, most, out, out_n, err);
    pair.tokens_read += ok ? *out_n : 0;
    return ok;
}

static void reads_watch(void)
{
    pair.real = pair.b.store->ops;
    pair.ops = *pair.real;
    pair.ops.load_tokens = load_tokens_counted;
    pair.b.store->ops = &pair.ops;
    pair.tokens_read = 0;
}

static int64_t token_make(struct rig *rig, const char *name, uint8_t mark)
{
    struct command *create = rig_new(rig, CMD_TOKEN_CREATE);
    create->in.token_create.token =
        (struct token){ .name = str_of(name), .tenant = STR("default"), .scopes = 1, .hash = { mark } };
    assert_int_equal(rig_one(rig, create)->err.code, ERR_none);
    return create->out.token_create.id;
}

static void token_take_back(struct rig *rig, const char *name)
{
    struct command *revoke = rig_new(rig, CMD_TOKEN_REVOKE);
    revoke->in.token_revoke.name = str_of(name);
    assert_int_equal(rig_one(rig, revoke)->err.code, ERR_none);
}

static enum err_code post_with(struct rig *rig, int64_t token)
{
    struct command *post = rig_enqueue_command(rig, (const char *const[]){ "t" }, 1);
    post->token = token;
    return rig_one(rig, post)->err.code;
}

static void test_one_token_is_read_however_many_there_are(void **state)
{
    char name[16];
    (void)state;
    pair_open();
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "t%d", i);
        token_make(&pair.a, name, (uint8_t)(i + 1));
    }
    rig_turn(&pair.b, NULL, 0);
    reads_watch();
    int64_t id = token_make(&pair.a, "new", 100);
    assert_int_equal(post_with(&pair.b, id), ERR_none);
    assert_int_equal(pair.tokens_read, 1);
    token_take_back(&pair.a, "new");
    pair.tokens_read = 0;
    assert_int_equal(post_with(&pair.b, id), ERR_unauthorized);
    if (pair.tokens_read > 1)
        fail_msg("%zu rows were read", pair.tokens_read);
    pair_close();
}

static void test_a_name_that_is_used_again_is_another_token(void **state)
{
    struct token found;
    (void)state;
    pair_open();
    int64_t first = token_make(&pair.a, "ci", 1);
    rig_turn(&pair.b, NULL, 0);
    token_take_back(&pair.a, "ci"); /* b hears of all three at once */
    token_make(&pair.a, "ci", 2);
    token_take_back(&pair.a, "ci");
    int64_t last = token_make(&pair.a, "ci", 3);
    assert_int_equal(post_with(&pair.b, last), ERR_none);
    assert_int_equal(post_with(&pair.b, first), ERR_unauthorized);
    assert_true(engine_token(pair.b.engine, (const uint8_t[32]){ 3 }, &pair.b.arena, &found) && found.id == last);
    assert_false(engine_token(pair.b.engine, (const uint8_t[32]){ 1 }, &pair.b.arena, &found));
    assert_false(engine_token(pair.b.engine, (const uint8_t[32]){ 2 }, &pair.b.arena, &found));
    token_take_back(&pair.b, "ci");
    assert_int_equal(post_with(&pair.a, last), ERR_unauthorized);
    assert_false(engine_has_tokens(pair.a.engine));
    pair_close();
}

static int64_t archive_add(struct rig *rig, const char *name)
{
    struct command *add = rig_new(rig, CMD_ARCHIVE_ADD);
    add->in.archive_add.name = str_of(name);
    add->in.archive_add.archive.kind = ARCHIVE_EXTERNAL;
    assert_int_equal(rig_one(rig, add)->err.code, ERR_none);
    return add->out.archive.archive.lane;
}

static void test_an_archive_is_told_by_itself(void **state)
{
    int64_t lanes[ARCHIVE_NEWS_MAX];
    char name[16];
    bool all;
    (void)state;
    pair_open();
    archive_add(&pair.a, "first");
    rig_turn(&pair.b, NULL, 0);
    engine_archive_news(pair.b.engine, lanes, &all);
    int64_t lane = archive_add(&pair.a, "second");
    rig_turn(&pair.b, NULL, 0);
    assert_int_equal(engine_archive_news(pair.b.engine, lanes, &all), 1);
    assert_false(all);
    assert_int_equal(lanes[0], lane);
    assert_int_equal(engine_archive_news(pair.b.engine, lanes, &all), 0); /* once */
    for (int i = 0; i <= ARCHIVE_NEWS_MAX; i++) {
        snprintf(name, sizeof name, "a%d", i);
        archive_add(&pair.a, name);
    }
    rig_turn(&pair.b, NULL, 0);
    engine_archive_news(pair.b.engine, lanes, &all);
    assert_true(all); /* too many to name */
    pair_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_token_is_read_however_many_there_are),
        cmocka_unit_test(test_a_name_that_is_used_again_is_another_token),
        cmocka_unit_test(test_an_archive_is_told_by_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
