#include "rig.h"

#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/waiters.h"

static void engine_up(struct rig *rig)
{
    struct err err = { 0 };
    struct store_config config = { .url = NULL, .data_dir = rig->dir, .create = true };
    char url[128];
    snprintf(url, sizeof url, "sqlite://%s", rig->dir);
    config.url = rig->url ? rig->url : url;
    rig->store = store_open(&config, &err);
    if (!rig->store)
        fail_msg("store_open: %s", err.text);
    struct engine_config engine = { .store = rig->store,
        .lease_ms = 3000,
        .site = { .semaphores = { rig->semaphores, rig->n_semaphores } },
        .server_name = str_of(rig->name ? rig->name : "rig"),
        .batch = rig->batch,
        .many = 2,
        .keys_ms = rig->keys_ms,
        .silent_ms = rig->silent_ms };
    rig->engine = engine_new(&engine, rig->wall, rig->boot, &err);
    if (!rig->engine)
        fail_msg("engine_new: %s", err.text);
}

static void engine_down(struct rig *rig)
{
    engine_free(rig->engine);
    rig->store->ops->close(rig->store);
}

void rig_open(struct rig *rig)
{
    rig->wall = INT64_C(1800000000000);
    rig->boot = 1000000;
    snprintf(rig->dir, sizeof rig->dir, "%s/weir-rig-XXXXXX", rig->under ? rig->under : "/tmp");
    assert_non_null(mkdtemp(rig->dir));
    engine_up(rig);
}

int64_t rig_database_ask(const char *url, const char *statement)
{
    PGconn *conn = PQconnectdb(url);
    PGresult *result = PQexec(conn, statement);
    ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
        fail_msg("%s: %s", statement, PQerrorMessage(conn));
    int64_t number = PQntuples(result) > 0 ? strtoll(PQgetvalue(result, 0, 0), NULL, 10) : 0;
    PQclear(result);
    PQfinish(conn);
    return number;
}

static void url_make(const char *name, char *out, size_t n)
{
    const char *host = getenv("WEIR_TEST_POSTGRES");
    if (!host)
        fail_msg("run this by test/lib/postgres.py, which starts a PostgreSQL and sets WEIR_TEST_POSTGRES");
    snprintf(out, n, "postgresql:///%s?host=%s&user=weir", name, host);
}

void rig_database(const char *name, char *out_url, size_t n)
{
    char admin[200], text[120];
    url_make("postgres", admin, sizeof admin);
    snprintf(text, sizeof text, "CREATE DATABASE %s TEMPLATE template0 ENCODING 'UTF8'", name);
    rig_database_ask(admin, text);
    url_make(name, out_url, n);
}

void rig_join(struct rig *rig, const struct rig *first)
{
    char path[128], key[256];
    rig->wall = first->wall;
    rig->boot = first->boot;
    rig->url = first->url;
    snprintf(rig->dir, sizeof rig->dir, "/tmp/weir-rig-XXXXXX");
    assert_non_null(mkdtemp(rig->dir));
    snprintf(path, sizeof path, "%s/verify.key", first->dir);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    size_t n = fread(key, 1, sizeof key, f);
    fclose(f);
    snprintf(path, sizeof path, "%s/verify.key", rig->dir);
    assert_non_null(f = fopen(path, "wb"));
    assert_int_equal(fwrite(key, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
    engine_up(rig);
}

static void remove_dir(const char *dir)
{
    char path[4096];
    static const char *const files[] = { "weir.db", "weir.db-wal", "weir.db-shm", "lock", "verify.key", "ballast" };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, files[i]);
        unlink(path);
    }
    rmdir(dir);
}

void rig_close(struct rig *rig)
{
    engine_down(rig);
    remove_dir(rig->dir);
    arena_release(&rig->arena);
}

void rig_restart(struct rig *rig)
{
    engine_down(rig);
    engine_up(rig);
}

struct command *rig_new(struct rig *rig, enum command_kind kind)
{
    struct command *command = ARENA_NEW(&rig->arena, struct command);
    command->kind = kind;
    command->arena = &rig->arena;
    command->actor = (struct actor){ STR("test"), STR("default") };
    return command;
}

void rig_turn(struct rig *rig, struct command **commands, size_t n)
{
    struct err err = { 0 };
    struct list_node *at;
    while ((at = list_take_first(&rig->answered)))
        continue; /* so that a command may be used again */
    rig->boot++;
    rig->wall++;
    if (!engine_turn(rig->engine, commands, n, rig->wall, rig->boot, &rig->answered, &rig->next, &err))
        fail_msg("turn: %s", err.text);
}

void rig_pass(struct rig *rig, int64_t ms)
{
    int64_t until = rig->boot + ms;
    while (rig->next <= until) { /* the engine is woken when it asked to be */
        int64_t step = rig->next > rig->boot ? rig->next - rig->boot : 1;
        rig->boot += step;
        rig->wall += step;
        rig_turn(rig, NULL, 0);
        if (rig->boot > until)
            return;
    }
    rig->wall += until - rig->boot;
    rig->boot = until;
}

struct command *rig_one(struct rig *rig, struct command *command)
{
    rig_turn(rig, &command, 1);
    return command;
}

static void refs_read(struct rig *rig, struct task_def *def, enum edge_kind kind, struct str text)
{
    struct str one;
    while (str_cut(&text, ',', &one)) {
        struct task_ref *ref = &def->refs[def->n_refs++];
        *ref = (struct task_ref){ .kind = kind, .path = str_fmt(&rig->arena, "%.*s/depends/0", STR_ARG(def->path)) };
        int64_t n;
        bool by_id = one.len && one.ptr[0] == '#';
        assert_true(str_to_i64(by_id ? str_sub(one, 1, one.len) : one, &n));
        if (by_id)
            ref->id = n;
        else
            ref->index = (size_t)n;
    }
}

static int64_t number(struct str s)
{
    int64_t n;
    assert_true(str_to_i64(s, &n));
    return n;
}

static void field_read(struct rig *rig, struct task_def *def, struct str key, struct str value)
{
    if (str_eqz(key, "kind"))
        def->kind = class_kind_find(value);
    else if (str_eqz(key, "depends"))
        refs_read(rig, def, EDGE_DEPENDS, value);
    else if (str_eqz(key, "after"))
        refs_read(rig, def, EDGE_AFTER, value);
    else if (str_eqz(key, "cancels"))
        refs_read(rig, def, EDGE_CANCELS, value);
    else if (str_eqz(key, "prio"))
        def->prio = number(value);
    else if (str_eqz(key, "queue"))
        def->queue = value;
    else if (str_eqz(key, "unique"))
        def->unique = value;
    else if (str_eqz(key, "conc"))
        def->concurrency = value;
    else if (str_eqz(key, "attempts"))
        def->attempts_max = number(value);
    else if (str_eqz(key, "at"))
        def->not_before = rig->wall + number(value);
    else if (str_eqz(key, "on"))
        def->retry_on = str_eqz(value, "failed") ? RETRY_FAILED : 0;
    else if (str_eqz(key, "sem")) {
        struct str one;
        while (str_cut(&value, ',', &one))
            def->semaphores[def->n_semaphores++] = one;
    } else if (str_eqz(key, "label")) {
        struct str name;
        assert_true(str_cut(&value, ':', &name));
        def->labels[def->n_labels++] = (struct label){ name, value };
    } else {
        fail_msg("unknown word %.*s", STR_ARG(key));
    }
}

struct command *rig_enqueue_command(struct rig *rig, const char *const *tasks, size_t n)
{
    struct command *command = rig_new(rig, CMD_ENQUEUE);
    struct task_def *defs = ARENA_ARRAY(&rig->arena, struct task_def, n + 1);
    for (size_t i = 0; i < n; i++) {
        struct str rest = str_dup(&rig->arena, str_of(tasks[i])), word;
        struct task_def *def = &defs[i];
        *def = (struct task_def){ .queue = STR("default"),
            .kind = KIND_COMMAND,
            .body = STR("{}"),
            .attempts_max = 3,
            .backoff_ms = 5000,
            .retry_on = RETRY_LOST | RETRY_TEMPORARY | RETRY_KILLED,
            .path = str_fmt(&rig->arena, "/tasks/%zu", i) };
        def->refs = ARENA_ARRAY(&rig->arena, struct task_ref, 64 + strlen(tasks[i]) / 2);
        def->semaphores = ARENA_ARRAY(&rig->arena, struct str, 8);
        def->labels = ARENA_ARRAY(&rig->arena, struct label, 8);
        assert_true(str_cut(&rest, ' ', &def->name));
        while (str_cut(&rest, ' ', &word)) {
            struct str key;
            assert_true(str_cut(&word, '=', &key));
            field_read(rig, def, key, word);
        }
    }
    command->in.enqueue.defs = defs;
    command->in.enqueue.n_defs = n;
    return command;
}

int64_t rig_enqueue(struct rig *rig, const char *const *tasks, size_t n)
{
    struct command *command = rig_one(rig, rig_enqueue_command(rig, tasks, n));
    if (command->err.code)
        fail_msg("enqueue: %s", command->err.text);
    return command->out.enqueue.tasks[0].task.id;
}

int64_t rig_executor(struct rig *rig, const char *name, const char *label)
{
    struct command *command = rig_new(rig, CMD_REGISTER);
    struct executor *executor = &command->in.reg.executor;
    executor->name = str_dup(&rig->arena, str_of(name));
    executor->slots = 1000;
    executor->kinds = ~0u;
    if (label) {
        struct str value = str_dup(&rig->arena, str_of(label)), key;
        assert_true(str_cut(&value, ':', &key));
        executor->labels = ARENA_ARRAY(&rig->arena, struct label, 1);
        executor->labels[0] = (struct label){ key, value };
        executor->n_labels = 1;
    }
    rig_one(rig, command);
    assert_int_equal(command->err.code, 0);
    return command->out.reg.id;
}

struct command *rig_poll_command(
    struct rig *rig, int64_t executor, int64_t free, int64_t seq, const struct fence *renew, size_t n_renew)
{
    struct command *command = rig_new(rig, CMD_POLL);
    command->in.poll.executor = executor;
    command->in.poll.free = free;
    command->in.poll.seq = seq;
    command->in.poll.renew = ARENA_ARRAY(&rig->arena, struct renew_item, n_renew + 1);
    for (size_t i = 0; i < n_renew; i++)
        command->in.poll.renew[i].fence = renew[i];
    command->in.poll.n_renew = n_renew;
    return command;
}

struct command *rig_poll(struct rig *rig, int64_t executor, int64_t free)
{
    return rig_one(rig, rig_poll_command(rig, executor, free, -1, NULL, 0));
}

enum err_code rig_finish(struct rig *rig, struct fence fence, int64_t exit, int64_t signal)
{
    struct command *command = rig_new(rig, CMD_FINISH);
    struct finish_item *item = ARENA_NEW(&rig->arena, struct finish_item);
    *item = (struct finish_item){
        .fence = fence, .exit = exit, .signal = signal, .cpu_ms = 1, .max_rss_bytes = 1, .log_bytes = 0
    };
    item->hash[0] = (uint8_t)(exit + 1);
    item->hash[1] = (uint8_t)(signal + 1);
    item->hash[2] = 1;
    command->in.finish.items = item;
    command->in.finish.n_items = 1;
    rig_one(rig, command);
    return item->code;
}

struct task rig_task(struct rig *rig, int64_t id)
{
    struct task task;
    struct err err = { 0 };
    bool found = false;
    if (!rig->store->ops->load_task(rig->store, &rig->arena, id, &task, &found, &err) || !found)
        fail_msg("task %lld: %s", (long long)id, err.text);
    return task;
}

char rig_state(struct rig *rig, int64_t id)
{
    return state_letter(rig_task(rig, id).state);
}

uint64_t rig_incarnation(struct rig *rig)
{
    struct store_head head;
    struct err err = { 0 };
    assert_true(rig->store->ops->load_head(rig->store, &head, &err));
    return head.incarnation;
}

const char *rig_states(struct rig *rig, int64_t first, size_t n)
{
    char *letters = ARENA_ARRAY(&rig->arena, char, n + 1);
    for (size_t i = 0; i < n; i++)
        letters[i] = rig_state(rig, first + (int64_t)i);
    return letters;
}

enum err_code rig_order(struct rig *rig, enum command_kind kind, int64_t task)
{
    struct command *command = rig_new(rig, kind);
    command->in.task.task = task;
    command->in.task.reason = STR("the test says so");
    return rig_one(rig, command)->err.code;
}

void rig_pause(struct rig *rig, const char *lane, bool pause)
{
    struct command *command = rig_new(rig, CMD_LANE_PAUSE);
    command->in.pause.lane = str_of(lane);
    command->in.pause.pause = pause;
    command->in.pause.reason = STR("maintenance");
    rig_one(rig, command);
    assert_int_equal(command->err.code, 0);
}

struct fence rig_granted(const struct command *poll)
{
    assert_int_equal(poll->out.poll.n_grants, 1);
    return poll->out.poll.grants[0].fence;
}

struct rig_largest rig_follow(struct rig *rig, int64_t seq)
{
    struct rig_largest most = { 0 };
    for (int i = 0; i < 1000 && (i == 0 || rig->next <= rig->boot); i++) {
        if (i || seq == engine_seq(rig->engine))
            rig_turn(rig, NULL, 0);
        int64_t events = engine_seq(rig->engine) - seq;
        size_t nodes = rig->engine->slice.nodes.n, bytes = rig->engine->turn_arena.used_bytes;
        seq += events;
        if (events > most.events)
            most.events = events;
        if (nodes > most.nodes)
            most.nodes = nodes;
        if (bytes > most.bytes)
            most.bytes = bytes;
    }
    return most;
}

void rig_not_larger(const char *what, const struct rig_largest *small, const struct rig_largest *large)
{
    if (large->events <= small->events && large->nodes <= small->nodes + 4 && large->bytes <= small->bytes * 5 / 4)
        return;
    fail_msg("%s: a turn of %lld events, %zu rows and %zu bytes became one of %lld, %zu and %zu", what,
        (long long)small->events, small->nodes, small->bytes, (long long)large->events, large->nodes, large->bytes);
}
