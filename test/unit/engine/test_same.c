/* SQLite and PostgreSQL: the same commands give the same events, in the same order, since every order is the engine's
 * own. Runs under test/lib/postgres.py. */
#include <stdio.h>

#include "base/buf.h"
#include "rig.h"
#include "store/read.h"

/* One end frees several slots and lets several tasks go: what moves, in the order of the history. */
static const char *moves(struct rig *rig, const char *url)
{
    struct event *events;
    size_t n;
    int64_t last;
    struct err err = { 0 };
    struct buf text;
    (void)rig_executor(rig, "e", NULL);
    /* numbers of slots go against their names */
    int64_t id = ENQUEUE(rig, "one sem=d", "two sem=c", "three sem=b", "four sem=a");
    for (int64_t i = 0; i < 4; i++)
        rig_order(rig, CMD_CANCEL, id + i);
    id = ENQUEUE(rig, "holder sem=d,b,a,c", "wb sem=b", "wd sem=d", "wa sem=a", "wc sem=c", "after after=0",
        "depends depends=0", "both sem=a,b prio=5");
    rig_order(rig, CMD_CANCEL, id);
    rig_order(rig, CMD_RETRY, id);
    rig_order(rig, CMD_CANCEL, id + 7);
    rig_order(rig, CMD_CANCEL, id + 1);
    struct reader *reader = reader_open(&(struct store_config){ .url = url, .data_dir = rig->dir }, &err);
    assert_non_null(reader);
    assert_true(reader_events(reader, &rig->arena, 0, 0, 1000, &events, &n, &last, &err));
    buf_init(&text, SIZE_MAX);
    for (size_t i = 0; i < n; i++)
        if (events[i].task)
            buf_addf(&text, "%s %lld %d %d\n", event_kind_name(events[i].kind), (long long)events[i].task,
                (int)events[i].from, (int)events[i].to);
    const char *out = str_dupz(&rig->arena, buf_str(&text));
    buf_release(&text);
    reader_close(reader);
    return out;
}

static void test_both_stores_give_the_same_events(void **state)
{
    struct rig lite = { 0 }, shared = { 0 };
    char urls[2][200];
    (void)state;
    rig_database("same", urls[0], sizeof urls[0]);
    shared.url = urls[0];
    rig_open(&shared);
    rig_open(&lite);
    snprintf(urls[1], sizeof urls[1], "sqlite://%s", lite.dir);
    assert_string_equal(moves(&shared, urls[0]), moves(&lite, urls[1]));
    rig_close(&lite);
    rig_close(&shared);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_both_stores_give_the_same_events) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
