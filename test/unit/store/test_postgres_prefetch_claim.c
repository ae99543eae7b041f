/* Claims that are prefetched beside the turns (prefetch_claim.c): taken only while they are what ready_first would
 * bring. Run by test/lib/postgres.py, which starts the database. */
#include <libpq-fe.h>
#include <stdio.h>

#include "io/clock.h"
#include "store/postgres/postgres.h"
#include "world.h"

enum { TASKS = 1200, CLAIM = 250, CLASS = 7 };

struct scene {
    struct world w;
    struct task tasks[TASKS + 1];
    int64_t next; /* the first id that is pending */
};

static struct prefetch_claim *claim_of(struct scene *s)
{
    return &postgres_of(s->w.store)->prefetch_claim;
}

/* A machine that is slow enough makes the store go without: then there is nothing to see here. */
static bool asked(struct scene *s)
{
    const struct prefetch_claim *claim = claim_of(s);
    return claim->asked || !claim->pg.conn || claim->pg.lost;
}

static void sql(struct scene *s, const char *text)
{
    PGconn *conn = PQconnectdb(s->w.url);
    PGresult *result = PQexec(conn, text);
    if (PQresultStatus(result) != PGRES_COMMAND_OK && PQresultStatus(result) != PGRES_TUPLES_OK)
        fail_msg("%s: %s", text, PQerrorMessage(conn));
    PQclear(result);
    PQfinish(conn);
}

/* Until the database has read the rows. */
static void claim_wait(struct scene *s)
{
    PGconn *conn = PQconnectdb(s->w.url);
    char text[160];
    int64_t until = clock_boot_ms() + 60000;
    snprintf(text, sizeof text,
        "SELECT 1 FROM pg_stat_activity WHERE pid = %d AND (state <> 'idle' OR query NOT LIKE 'COMMIT%%')",
        claim_of(s)->pg.conn ? PQbackendPID(claim_of(s)->pg.conn) : 0);
    for (int left = 1; left;) {
        PGresult *result = PQexec(conn, text);
        assert_int_equal(PQresultStatus(result), PGRES_TUPLES_OK);
        left = PQntuples(result);
        PQclear(result);
        assert_true(clock_boot_ms() < until);
    }
    PQfinish(conn);
}

/* Begins a turn and claims; the caller ends it. */
static void claim_begin(struct scene *s, const struct task **gone, int64_t first)
{
    struct world *w = &s->w;
    struct ready_row *rows;
    size_t n;
    turn_begin(w);
    MUST(w, OPS(w)->ready_first(w->store, &w->arena, CLASS, CLAIM, &rows, &n, &w->err));
    assert_int_equal(n, CLAIM);
    for (size_t i = 0; i < n; i++) {
        struct task row;
        bool found;
        assert_int_equal(rows[i].task, first == s->next ? first + (int64_t)i : i ? s->next + (int64_t)i - 1 : first);
        MUST(w, OPS(w)->load_task(w->store, &w->arena, rows[i].task, &row, &found, &w->err));
        assert_true(found);
        task_same(&row, &s->tasks[rows[i].task - 1]);
        gone[i] = &s->tasks[rows[i].task - 1];
    }
    w->c.ready_remove.at = w->c.tasks_changed.at = gone, w->c.ready_remove.n = w->c.tasks_changed.n = n;
    for (size_t i = 0; i < n; i++)
        s->tasks[gone[i]->id - 1].state = STATE_X;
}

static void claim(struct scene *s)
{
    const struct task *gone[CLAIM];
    claim_begin(s, gone, s->next);
    turn_end(&s->w);
    s->next += CLAIM;
}

/* A turn that changes nothing of what is pending. */
static void other_turn(struct scene *s)
{
    turn_begin(&s->w);
    turn_event(&s->w, (struct event){ .kind = EVENT_executor, .subject = STR("somebody"), .actor = STR("somebody") });
    turn_end(&s->w);
}

static void scene_make(struct scene *s)
{
    const struct task *add[TASKS];
    world_make(&s->w);
    for (int64_t i = 0; i <= TASKS; i++) {
        s->tasks[i] = task_sample(&s->w, i + 1, 1);
        s->tasks[i].rev = 0;
        s->tasks[i].class_id = CLASS;
        s->tasks[i].prio = i == TASKS;
        s->tasks[i].vt = i;
        s->tasks[i].state = STATE_P;
    }
    for (size_t i = 0; i < TASKS; i++)
        add[i] = &s->tasks[i];
    turn_begin(&s->w);
    s->w.c.tasks_new.at = s->w.c.ready_add.at = add, s->w.c.tasks_new.n = s->w.c.ready_add.n = TASKS;
    turn_end(&s->w);
    s->next = 1;
    claim(s);
    assert_false(claim_of(s)->asked);
    other_turn(s);
    assert_true(asked(s));
    claim_wait(s);
}

static void a_prefetch_is_taken_and_the_next_one_follows(void **state)
{
    struct scene s;
    (void)state;
    scene_make(&s);
    for (int i = 0; i < 2; i++) {
        claim(&s);
        assert_false(claim_of(&s)->asked);
        assert_int_equal(claim_of(&s)->misses, 0);
        assert_true(claim_of(&s)->pg.exchanged || !claim_of(&s)->pg.conn); /* its answer was read */
        other_turn(&s);
        assert_true(asked(&s));
        other_turn(&s); /* and stays true */
        assert_true(asked(&s));
    }
    world_release(&s.w);
}

static void what_a_turn_of_our_own_makes_pending_comes_first(void **state)
{
    struct scene s;
    const struct task *gone[CLAIM], *add[] = { &s.tasks[TASKS] };
    (void)state;
    scene_make(&s);
    turn_begin(&s.w);
    s.w.c.tasks_new.at = s.w.c.ready_add.at = add, s.w.c.tasks_new.n = s.w.c.ready_add.n = 1;
    turn_end(&s.w);
    assert_false(claim_of(&s)->asked);
    claim_begin(&s, gone, TASKS + 1);
    turn_end(&s.w);
    other_turn(&s);
    assert_false(claim_of(&s)->asked); /* the last one was in vain: not at once again */
    world_release(&s.w);
}

static void a_task_that_has_changed_is_read_anew(void **state)
{
    struct scene s;
    (void)state;
    scene_make(&s);
    struct task *changed = &s.tasks[s.next + 2];
    const struct task *rows[] = { changed };
    changed->ending = STATE_T, changed->reason = STR("to be stopped");
    turn_begin(&s.w);
    s.w.c.tasks_changed.at = rows, s.w.c.tasks_changed.n = 1;
    turn_end(&s.w);
    claim(&s);
    world_release(&s.w);
}

static void after_a_turn_of_another_server_everything_is_read_anew(void **state)
{
    struct scene s;
    (void)state;
    scene_make(&s);
    unsigned had = claim_of(&s)->asked;
    sql(&s, "DELETE FROM ready WHERE task = 251; UPDATE head SET tick = tick + 1");
    other_turn(&s); /* also with a turn of our own in between */
    s.next++;
    claim(&s);
    assert_int_equal(claim_of(&s)->misses, had);
    world_release(&s.w);
}

static void rows_that_were_moved_are_found_in_the_second_try(void **state)
{
    struct scene s;
    const struct task *gone[CLAIM];
    (void)state;
    scene_make(&s);
    sql(&s, "UPDATE ready SET vt = vt"); /* as VACUUM FULL may do */
    sql(&s, "UPDATE task SET run = run");
    claim_begin(&s, gone, s.next);
    bool had = claim_of(&s)->pg.conn;
    assert_int_equal(turn_try(&s.w), !had);
    for (int i = 0; had && i < CLAIM; i++)
        s.tasks[gone[i]->id - 1].state = STATE_P;
    s.next += had ? 0 : CLAIM;
    claim(&s);
    world_release(&s.w);
}

static void a_connection_that_is_lost_is_not_missed(void **state)
{
    struct scene s;
    char text[100];
    (void)state;
    scene_make(&s);
    snprintf(text, sizeof text, "SELECT pg_terminate_backend(%d)", PQbackendPID(claim_of(&s)->pg.conn));
    sql(&s, text);
    claim(&s);
    other_turn(&s);
    claim(&s);
    world_release(&s.w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_prefetch_is_taken_and_the_next_one_follows),
        cmocka_unit_test(what_a_turn_of_our_own_makes_pending_comes_first),
        cmocka_unit_test(a_task_that_has_changed_is_read_anew),
        cmocka_unit_test(after_a_turn_of_another_server_everything_is_read_anew),
        cmocka_unit_test(rows_that_were_moved_are_found_in_the_second_try),
        cmocka_unit_test(a_connection_that_is_lost_is_not_missed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
