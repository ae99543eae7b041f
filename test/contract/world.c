/* world: what the store's contract tests stand on. See world.h. */
#include "world.h"

#include <ctype.h>
#include <ftw.h>
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/task_state.h"
#include "store/pack.h"

static void sqlite_url(const char *dir, char *out, size_t size)
{
    snprintf(out, size, "sqlite://%s", dir);
}

static void nothing_drop(const char *dir)
{
    (void)dir;
}

/* The folder's database: test/lib/postgres.py has started a server and says where its socket is. */
static void database_name(const char *dir, char *out, size_t size)
{
    snprintf(out, size, "t%s", dir);
    for (char *at = out; *at; at++)
        if (!isalnum((unsigned char)*at))
            *at = '_';
}

static void postgres_do(const char *before, const char *name, const char *behind)
{
    char url[160], text[200];
    snprintf(url, sizeof url, "postgresql:///postgres?host=%s&user=weir", getenv("WEIR_TEST_POSTGRES"));
    snprintf(text, sizeof text, "%s \"%s\" %s", before, name, behind);
    PGconn *conn = PQconnectdb(url);
    PGresult *result = PQexec(conn, text);
    if (PQresultStatus(result) != PGRES_COMMAND_OK)
        fail_msg("%s: %s", text, PQerrorMessage(conn));
    PQclear(result);
    PQfinish(conn);
}

static void postgres_url(const char *dir, char *out, size_t size)
{
    char name[64];
    database_name(dir, name, sizeof name);
    if (!getenv("WEIR_TEST_POSTGRES"))
        fail_msg("run this by test/lib/postgres.py, which starts a PostgreSQL and sets WEIR_TEST_POSTGRES");
    postgres_do("CREATE DATABASE", name, "TEMPLATE template0 ENCODING 'UTF8'");
    snprintf(out, size, "postgresql:///%s?host=%s&user=weir", name, getenv("WEIR_TEST_POSTGRES"));
}

static void postgres_drop(const char *dir)
{
    char name[64];
    database_name(dir, name, sizeof name);
    postgres_do("DROP DATABASE IF EXISTS", name, "WITH (FORCE)");
}

static const struct backend backends[] = {
    { "sqlite", sqlite_url, nothing_drop },
    { "postgres", postgres_url, postgres_drop },
};

const struct backend *backend_chosen(void)
{
    const char *name = getenv("WEIR_TEST_STORE");
    for (size_t i = 0; i < sizeof backends / sizeof backends[0]; i++)
        if (!name || strncmp(name, backends[i].name, strlen(backends[i].name)) == 0)
            return &backends[i];
    fail_msg("WEIR_TEST_STORE=%s is no store of this suite", name);
    return NULL;
}

void world_dir_make(char *out)
{
    snprintf(out, 64, "/tmp/weir-contract.XXXXXX");
    assert_non_null(mkdtemp(out));
}

static int entry_remove(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

void world_dir_remove(const char *dir)
{
    nftw(dir, entry_remove, 16, FTW_DEPTH | FTW_PHYS);
}

struct store_config world_config(const struct world *w, bool create)
{
    return (struct store_config){ .url = w->url, .data_dir = w->dir, .create = create };
}

static void world_open(struct world *w, bool create)
{
    struct store_config config = world_config(w, create);
    w->err = (struct err){ 0 };
    MUST(w, w->store = store_open(&config, &w->err));
    MUST(w, w->reader = reader_open(&config, &w->err));
    MUST(w, OPS(w)->load_head(w->store, &w->head, &w->err));
}

void world_make(struct world *w)
{
    memset(w, 0, sizeof *w);
    world_dir_make(w->dir);
    backend_chosen()->url(w->dir, w->url, sizeof w->url);
    buf_init(&w->packed, 16 << 20);
    w->events = mem_alloc(sizeof *w->events * WORLD_EVENTS_MAX);
    w->now = 1763200000000;
    world_open(w, true);
}

static void world_shut(struct world *w)
{
    reader_close(w->reader);
    if (w->store)
        OPS(w)->close(w->store);
    w->reader = NULL, w->store = NULL;
}

void world_reopen(struct world *w)
{
    world_shut(w);
    world_open(w, false);
}

void world_release(struct world *w)
{
    world_shut(w);
    arena_release(&w->arena);
    buf_release(&w->packed);
    mem_free(w->events);
    backend_chosen()->drop(w->dir);
    world_dir_remove(w->dir);
}

void turn_begin(struct world *w)
{
    w->c = (struct changes){ 0 };
    w->n_events = 0;
    w->now += 7;
    MUST(w, OPS(w)->begin(w->store, &w->err));
}

void turn_event(struct world *w, struct event event)
{
    assert_true(w->n_events < WORLD_EVENTS_MAX);
    w->events[w->n_events++] = event;
}

bool turn_try(struct world *w)
{
    struct store_head before = w->head;
    w->err = (struct err){ 0 };
    buf_reset(&w->packed);
    if (w->n_events) {
        w->c.history.turn = ++w->head.turn;
        pack_events(&w->packed, w->events, w->n_events);
        w->c.history.first_seq = w->head.seq + 1;
        w->c.history.time = w->head.time = w->now;
        w->head.seq += (int64_t)w->n_events;
    }
    w->c.history.events = buf_str(&w->packed);
    w->c.head = w->head;
    if (OPS(w)->commit(w->store, &w->c, &w->err))
        return true;
    w->head = before;
    return false;
}

void turn_end(struct world *w)
{
    MUST(w, turn_try(w));
}

void str_same(struct str a, struct str b)
{
    if (!str_eq(a, b))
        fail_msg("\"%.*s\" is not \"%.*s\"", STR_ARG(a), STR_ARG(b));
}

struct task task_sample(struct world *w, int64_t id, int64_t salt)
{
    int64_t n = salt * 100;
    return (struct task){
        .id = id,
        .lane = n + 1,
        .rev = n + 2,
        .name = str_fmt(&w->arena, "name-%lld", (long long)salt),
        .variant = str_fmt(&w->arena, "os=%lld", (long long)salt),
        .run = n + 3,
        .state = salt % 2 ? STATE_X : STATE_A,
        .ending = salt % 2 ? STATE_T : STATE_NONE,
        .waits = n + 4,
        .out = n + 5,
        .holds = (unsigned)n + 6,
        .marks = (unsigned)n % 8,
        .class_id = n + 7,
        .prio = salt % 2 ? -n : n,
        .vt = n + 8,
        .grant = n + 9,
        .attempts = n + 10,
        .not_before = n + 11,
        .spec = n + 12,
        .created = n + 13,
        .ready = n + 14,
        .started = n + 15,
        .finished = n + 16,
        .outcome = salt % 2 ? OUTCOME_lost : OUTCOME_cancelled,
        .reason = str_fmt(&w->arena, "because %lld \xc3\xa9", (long long)salt),
        .cause = n + 17,
        .last_turn = n + 18,
        .unique = str_fmt(&w->arena, "key/%lld", (long long)salt),
        .ins = n + 19,
        .base = n + 20,
    };
}

void task_same(const struct task *a, const struct task *b)
{
    assert_int_equal(a->id, b->id);
    assert_int_equal(a->lane, b->lane);
    assert_int_equal(a->rev, b->rev);
    str_same(a->name, b->name);
    str_same(a->variant, b->variant);
    assert_int_equal(a->run, b->run);
    assert_int_equal(a->state, b->state);
    assert_int_equal(a->ending, b->ending);
    assert_int_equal(a->waits, b->waits);
    assert_int_equal(a->out, b->out);
    assert_int_equal(a->holds, b->holds);
    assert_int_equal(a->marks, b->marks);
    assert_int_equal(a->class_id, b->class_id);
    assert_int_equal(a->prio, b->prio);
    assert_int_equal(a->vt, b->vt);
    assert_int_equal(a->grant, b->grant);
    assert_int_equal(a->attempts, b->attempts);
    assert_int_equal(a->not_before, b->not_before);
    assert_int_equal(a->spec, b->spec);
    assert_int_equal(a->created, b->created);
    assert_int_equal(a->ready, b->ready);
    assert_int_equal(a->started, b->started);
    assert_int_equal(a->finished, b->finished);
    assert_int_equal(a->outcome, b->outcome);
    str_same(a->reason, b->reason);
    assert_int_equal(a->cause, b->cause);
    assert_int_equal(a->last_turn, b->last_turn);
    str_same(a->unique, b->unique);
    assert_int_equal(a->ins, b->ins);
    assert_int_equal(a->base, b->base);
}

struct attempt attempt_sample(int64_t task, int64_t grant, int64_t salt)
{
    struct attempt a = {
        .task = task,
        .grant = grant,
        .number = salt + 1,
        .executor = salt + 2,
        .started = salt + 3,
        .finished = salt + 4,
        .exit = salt % 256,
        .signal = -1,
        .outcome = OUTCOME_failed,
        .cpu_ms = salt + 5,
        .max_rss_bytes = salt + 6,
        .log_bytes = salt + 7,
    };
    memset(a.finish_hash, (int)salt + 1, sizeof a.finish_hash);
    a.poll_seq = (INT64_C(1) << 50) + salt;
    return a;
}

void attempt_same(const struct attempt *a, const struct attempt *b)
{
    assert_int_equal(a->task, b->task);
    assert_int_equal(a->grant, b->grant);
    assert_int_equal(a->number, b->number);
    assert_int_equal(a->executor, b->executor);
    assert_int_equal(a->started, b->started);
    assert_int_equal(a->finished, b->finished);
    assert_int_equal(a->exit, b->exit);
    assert_int_equal(a->signal, b->signal);
    assert_int_equal(a->outcome, b->outcome);
    assert_int_equal(a->cpu_ms, b->cpu_ms);
    assert_int_equal(a->max_rss_bytes, b->max_rss_bytes);
    assert_int_equal(a->log_bytes, b->log_bytes);
    assert_memory_equal(a->finish_hash, b->finish_hash, sizeof a->finish_hash);
    /* kept while it runs */
    assert_true(a->finished ? a->poll_seq == -1 || b->poll_seq == -1 : a->poll_seq == b->poll_seq);
    assert_true(a->finished || a->forgotten == b->forgotten);
}

void life_begin(struct world *w, struct life *life)
{
    struct task_class class = { .id = 1, .key = STR("all"), .tenant = STR("default"), .kind = KIND_COMMAND };
    const struct task_class *classes[] = { &class };
    const struct lane *lanes[] = { &life->lane };
    *life = (struct life){ .lane = { .id = 1, .kind = LANE_QUEUE, .tenant = STR("default"), .name = STR("default") } };
    turn_begin(w);
    w->c.classes.at = classes, w->c.classes.n = 1;
    w->c.lanes.at = lanes, w->c.lanes.n = 1;
    turn_event(w, (struct event){ .kind = EVENT_started, .actor = STR("test") });
    turn_end(w);
}

static void life_event(struct world *w, struct life *life, struct task *task, enum event_kind kind,
    enum task_state from, enum task_state to)
{
    int64_t turn = w->head.turn + 1; /* the one being built */
    turn_event(w, (struct event){ .kind = kind,
                      .task = task->id,
                      .lane = 1,
                      .from = from,
                      .to = to,
                      .actor = STR("test"),
                      .grant = task->grant,
                      .prev_turn = task->last_turn });
    if (from)
        life->lane.counts[from]--;
    life->lane.counts[to]++;
    task->last_turn = turn;
    task->state = to;
}

/* A random legal move; P to X and back take grants along. */
static enum task_state move_choose(struct rng *rng, enum task_state from)
{
    enum task_state to = STATE_NONE;
    for (int tries = 0; tries < 100; tries++) {
        to = (enum task_state)(1 + rng_below(rng, STATE_COUNT - 1));
        if (move_legal(from, to))
            return to;
    }
    return STATE_NONE;
}

static void life_move(struct world *w, struct life *life, struct task *task, enum task_state to, struct attempt *add,
    size_t *n_add, struct attempt *change, size_t *n_change)
{
    enum task_state from = task->state;
    if (to == STATE_X) {
        task->grant++;
        add[(*n_add)++] = (struct attempt){
            .task = task->id, .grant = task->grant, .number = task->grant, .executor = 1, .started = w->now
        };
    } else if (from == STATE_X) {
        change[*n_change] = attempt_sample(task->id, task->grant, task->grant);
        change[*n_change].started = change[*n_change].finished = w->now;
        (*n_change)++;
    }
    life_event(w, life, task, EVENT_move, from, to);
}

void life_turn(struct world *w, struct life *life, struct rng *rng, size_t n_new, size_t n_moves)
{
    const struct lane **lanes = ARENA_NEW(&w->arena, const struct lane *);
    const struct task **fresh = ARENA_ARRAY(&w->arena, const struct task *, n_new + 1);
    const struct task **changed = ARENA_ARRAY(&w->arena, const struct task *, n_moves + 1);
    const struct task **in = ARENA_ARRAY(&w->arena, const struct task *, n_moves + 1),
                      **gone = ARENA_ARRAY(&w->arena, const struct task *, n_moves + 1);
    struct attempt *add = ARENA_ARRAY(&w->arena, struct attempt, n_moves + 1),
                   *change = ARENA_ARRAY(&w->arena, struct attempt, n_moves + 1);
    turn_begin(w);
    size_t old = life->n;
    while (life->n + n_new > life->cap) { /* rows keep their place while a turn points at them */
        life->cap = life->cap ? life->cap * 2 : 64;
        struct task *grown = ARENA_ARRAY(&w->arena, struct task, life->cap);
        if (life->n)
            memcpy(grown, life->tasks, life->n * sizeof *grown);
        life->tasks = grown;
    }
    for (size_t i = 0; i < n_new; i++) {
        struct task *task = &life->tasks[life->n++];
        *task = (struct task){ .id = w->head.next_task++,
            .lane = 1,
            .name = STR("job"),
            .class_id = 1,
            .prio = (int64_t)rng_below(rng, 3),
            .vt = (int64_t)rng_below(rng, 50),
            .created = w->now,
            .spec = 1 };
        life_event(w, life, task, EVENT_created, STATE_NONE, STATE_Q);
        fresh[w->c.tasks_new.n++] = task;
    }
    for (size_t i = 0; i < n_moves && old; i++) {
        struct task *task = &life->tasks[rng_below(rng, old)];
        enum task_state from = task->state,
                        to = task->last_turn == w->head.turn + 1 ? STATE_NONE : move_choose(rng, from);
        if (!to)
            continue;
        life_move(w, life, task, to, add, &w->c.attempts_new.n, change, &w->c.attempts_changed.n);
        if (from == STATE_P)
            gone[w->c.ready_remove.n++] = task;
        if (to == STATE_P)
            in[w->c.ready_add.n++] = task;
        changed[w->c.tasks_changed.n++] = task;
    }
    *lanes = &life->lane;
    w->c.lanes.at = lanes, w->c.lanes.n = 1;
    w->c.tasks_new.at = fresh, w->c.tasks_changed.at = changed;
    w->c.ready_add.at = in, w->c.ready_remove.at = gone;
    w->c.attempts_new.at = add, w->c.attempts_changed.at = change;
}
