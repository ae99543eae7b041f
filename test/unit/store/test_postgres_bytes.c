/* Logs and kept files in PostgreSQL: the rules of logs.h and blobs.h hold, and two servers on one store see the same.
 * Run by test/lib/postgres.py, which starts the database. */
#include <inttypes.h>
#include <pthread.h>
#include <sodium.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <libpq-fe.h>

#include "io/clock.h"
#include "store/blobs/blobs.h"
#include "store/logs/logs.h"
#include "world.h"

enum { GRANT = 3, MIB = 1 << 20 };

struct pair { /* two servers on one store */
    struct world w;
    char dir[64];
    struct logs *logs[2];
    struct blobs *blobs[2];
    struct rng rng;
};

static struct store_config config_of(struct pair *p, int server)
{
    struct store_config config = world_config(&p->w, false);
    if (server)
        config.data_dir = p->dir;
    return config;
}

static void pair_open(struct pair *p)
{
    setenv("WEIR_TEST_STORE", "postgres", 1);
    world_make(&p->w);
    world_dir_make(p->dir);
    rng_seed(&p->rng, 1);
    for (int i = 0; i < 2; i++) {
        struct store_config config = config_of(p, i);
        p->logs[i] = logs_open_store(&config, &p->w.err);
        p->blobs[i] = blobs_open_store(&config, &p->w.err);
        if (!p->logs[i] || !p->blobs[i])
            fail_msg("%s", p->w.err.text);
    }
}

static void pair_close(struct pair *p)
{
    for (int i = 0; i < 2; i++) {
        logs_close(p->logs[i]);
        blobs_close(p->blobs[i]);
    }
    world_dir_remove(p->dir);
    world_release(&p->w);
}

static void fill(int64_t task, int64_t offset, char *out, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = (char)((((uint64_t)offset + i) * 0x9e3779b97f4a7c15u >> 40) + (uint64_t)task);
}

static enum err_code append(
    struct logs *logs, int64_t task, int64_t offset, size_t n, struct log_position *out, int64_t *out_expected)
{
    char *bytes = mem_alloc(n + 1);
    struct err err = { 0 };
    fill(task, offset, bytes, n);
    bool ok = logs_append(logs, task, GRANT, offset, (struct str){ bytes, n }, out, &err);
    mem_free(bytes);
    *out_expected = err.expected;
    return ok ? ERR_none : err.code;
}

static void expect(struct logs *logs, int64_t task, int64_t offset, size_t max, int64_t size)
{
    struct buf got;
    struct err err = { 0 };
    int64_t left = size > offset ? size - offset : 0;
    size_t want = (uint64_t)left < max ? (size_t)left : max;
    char *bytes = mem_alloc(want + 1);
    fill(task, offset, bytes, want);
    buf_init(&got, max + 1);
    if (!logs_read(logs, task, GRANT, offset, max, &got, &err))
        fail_msg("task %" PRId64 ": %s", task, err.text);
    assert_int_equal(got.len, want);
    assert_memory_equal(want ? got.ptr : "", bytes, want);
    mem_free(bytes);
    buf_release(&got);
}

static int64_t size_of(struct logs *logs, int64_t task)
{
    int64_t size = -1;
    struct err err = { 0 };
    if (!logs_size(logs, task, GRANT, &size, &err))
        fail_msg("%s", err.text);
    return size;
}

/* An attempt has ended, and bytes of its log are missing: they are taken, up to where it ends, and no more; then it is
 * sealed. */
static void ends_where_it_said(void **state)
{
    (void)state;
    struct pair p = { 0 };
    struct log_position position;
    int64_t expected;
    pair_open(&p);
    assert_int_equal(append(p.logs[0], 7, 0, 700, &position, &expected), ERR_none);
    logs_expect(p.logs[0], 7, GRANT, 900);
    assert_int_equal(append(p.logs[0], 7, 700, 100, &position, &expected), ERR_none);
    assert_int_equal(append(p.logs[0], 7, 800, 101, &position, &expected), ERR_already_ended);
    assert_int_equal(append(p.logs[0], 7, 800, 100, &position, &expected), ERR_none);
    assert_int_equal(append(p.logs[0], 7, 900, 1, &position, &expected), ERR_already_ended);
    assert_int_equal(append(p.logs[0], 8, 0, 2000, &position, &expected), ERR_none);
    logs_wait(p.logs[0]);
    assert_int_equal(append(p.logs[1], 7, 900, 1, &position, &expected), ERR_already_ended);
    expect(p.logs[1], 7, 0, 2000, 900);
    pair_close(&p);
}

/* Chunks that overlap, repeat and run ahead, small and large, and reads in between. */
static void offsets(void **state)
{
    (void)state;
    enum { TASKS = 30, STEPS = 1500 };
    struct pair p = { 0 };
    int64_t sizes[TASKS] = { 0 };
    pair_open(&p);
    for (int step = 0; step < STEPS; step++) {
        int64_t task = (int64_t)rng_below(&p.rng, TASKS), *size = &sizes[task], expected;
        int64_t offset = rng_below(&p.rng, 3) ? *size : (int64_t)rng_below(&p.rng, (uint64_t)*size + 200);
        size_t n = (size_t)rng_below(&p.rng, rng_below(&p.rng, 100) ? 3000 : 700000);
        struct log_position position;
        if (rng_below(&p.rng, 8) == 0) {
            expect(p.logs[0], task, offset, n, *size);
            continue;
        }
        enum err_code code = append(p.logs[0], task, offset, n, &position, &expected);
        if (offset > *size) {
            assert_int_equal(code, ERR_log_gap);
            assert_int_equal(expected, *size);
            continue;
        }
        assert_int_equal(code, ERR_none);
        *size = offset + (int64_t)n > *size ? offset + (int64_t)n : *size;
        assert_int_equal(position.stored, *size);
        assert_true(position.durable <= position.stored);
    }
    logs_wait(p.logs[0]);
    for (int64_t task = 0; task < TASKS; task++)
        for (int i = 0; i < 2; i++) {
            assert_int_equal(size_of(p.logs[i], task), sizes[task]);
            expect(p.logs[i], task, 0, 8 * MIB, sizes[task]);
        }
    pair_close(&p);
}

struct open_logs {
    struct logs *logs;
    int64_t n;
};

static void count_open(void *owner, int64_t task, int64_t grant)
{
    struct open_logs *open = owner;
    struct err err = { 0 };
    int64_t bytes;
    assert_true(logs_size(open->logs, task, grant, &bytes, &err)); /* as the engine does when it starts */
    open->n += bytes > 0;
}

static int64_t open_of(struct logs *logs)
{
    struct open_logs open = { .logs = logs };
    logs_each_open(logs, count_open, &open);
    return open.n;
}

/* A log that begins through one server and goes on through the other, and what the first then says. */
static void two_servers(void **state)
{
    (void)state;
    struct pair p = { 0 };
    struct log_position position;
    int64_t expected;
    pair_open(&p);
    assert_int_equal(append(p.logs[0], 1, 0, 1000, &position, &expected), ERR_none);
    logs_wait(p.logs[0]);
    assert_int_equal(append(p.logs[1], 1, 1500, 10, &position, &expected), ERR_log_gap);
    assert_int_equal(expected, 1000);
    assert_int_equal(append(p.logs[1], 1, 500, 2 * MIB, &position, &expected), ERR_none); /* half of it again */
    logs_wait(p.logs[1]);
    assert_int_equal(append(p.logs[0], 1, 500 + 2 * MIB, 100, &position, &expected), ERR_none);
    logs_wait(p.logs[0]);
    for (int i = 0; i < 2; i++)
        expect(p.logs[i], 1, 0, 4 * MIB, 600 + 2 * MIB);
    /* The first believes that it knows the end; the second has gone on: nothing mixes, the sender is told and sends
     * again. */
    assert_int_equal(append(p.logs[1], 1, 600 + 2 * MIB, 50, &position, &expected), ERR_none);
    logs_wait(p.logs[1]);
    assert_int_equal(append(p.logs[0], 1, 600 + 2 * MIB, 80, &position, &expected), ERR_none);
    logs_wait(p.logs[0]);
    assert_int_equal(append(p.logs[0], 1, 680 + 2 * MIB, 1, &position, &expected), ERR_outcome_unknown);
    assert_int_equal(append(p.logs[0], 1, 680 + 2 * MIB, 1, &position, &expected), ERR_log_gap);
    assert_int_equal(expected, 650 + 2 * MIB);
    assert_int_equal(append(p.logs[0], 1, 650 + 2 * MIB, 50, &position, &expected), ERR_none);
    logs_wait(p.logs[0]);
    expect(p.logs[1], 1, 2 * MIB, MIB, 700 + 2 * MIB);
    assert_int_equal(open_of(p.logs[1]), 1);
    logs_seal(p.logs[1], 1, GRANT);
    logs_seal(p.logs[1], 77, GRANT); /* wrote nothing */
    logs_wait(p.logs[1]);
    assert_int_equal(open_of(p.logs[0]), 0);
    assert_int_equal(append(p.logs[1], 1, 700 + 2 * MIB, 1, &position, &expected), ERR_already_ended);
    assert_int_equal(append(p.logs[1], 1, 690 + 2 * MIB, 10, &position, &expected), ERR_none); /* again */
    struct err err = { 0 };
    assert_false(logs_append(p.logs[1], 1, GRANT, 690 + 2 * MIB, STR("other"), &position, &err));
    assert_int_equal(err.code, ERR_log_mismatch);
    logs_remove(p.logs[0], 1, GRANT);
    assert_int_equal(size_of(p.logs[0], 1), 0);
    expect(p.logs[0], 1, 0, 100, 0);
    logs_wait(p.logs[0]);
    assert_int_equal(size_of(p.logs[1], 1), 0);
    pair_close(&p);
}

static bool wants(const char *hex, void *owner)
{
    return owner != NULL && hex[0] != '\0';
}

/* A statement of somebody else's; the first number of its answer. */
static int64_t ask(PGconn *conn, const char *text)
{
    PGresult *result = PQexec(conn, text);
    ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
        fail_msg("%s: %s", text, PQerrorMessage(conn));
    int64_t number = PQntuples(result) > 0 ? strtoll(PQgetvalue(result, 0, 0), NULL, 10) : 0;
    PQclear(result);
    return number;
}

/* Seals and removals that the database refuses, for whatever reason, are done as soon as it doesn't. `refuse` and
 * `allow` are what somebody else does meanwhile. */
static void removals_wait_out(const char *refuse, const char *allow)
{
    enum { LOGS = 4 };
    struct pair p;
    struct log_position position;
    int64_t expected, until;
    pair_open(&p);
    PGconn *conn = PQconnectdb(p.w.url), *watch = PQconnectdb(p.w.url);
    for (int64_t task = 1; task <= 2 * LOGS; task++)
        assert_int_equal(append(p.logs[0], task, 0, 1000, &position, &expected), ERR_none);
    logs_wait(p.logs[0]);
    ask(conn, refuse);
    for (int64_t task = 1; task <= LOGS; task++)
        logs_remove(p.logs[0], task, GRANT);
    for (int64_t task = LOGS + 1; task <= 2 * LOGS; task++)
        logs_seal(p.logs[0], task, GRANT);
    for (until = clock_boot_ms() + 2500; clock_boot_ms() < until;) /* long enough to be refused */
        usleep(20000);
    assert_int_equal(ask(watch, "SELECT count(*) FROM pg_class WHERE relname = 'log'"), 1);
    ask(conn, allow);
    for (until = clock_boot_ms() + 40000; clock_boot_ms() < until; usleep(20000))
        if (ask(watch, "SELECT count(*) FROM log") == LOGS &&
            ask(watch, "SELECT count(*) FROM log WHERE sealed = 0") == 0)
            break;
    assert_int_equal(ask(watch, "SELECT count(*) FROM log"), LOGS);
    assert_int_equal(ask(watch, "SELECT count(*) FROM log_chunk"), LOGS);
    assert_int_equal(ask(watch, "SELECT count(*) FROM log WHERE sealed = 2"), LOGS); /* to be noted */
    PQfinish(conn);
    PQfinish(watch);
    pair_close(&p);
}

/* Waits until this server has hashed a log with so many bytes. */
static void sealed_await(struct logs *logs, int64_t task, int64_t bytes, bool grown)
{
    struct log_sealed got = { 0 };
    uint8_t hash[LOG_HASH_BYTES];
    char *text = mem_alloc((size_t)bytes);
    for (int64_t until = clock_boot_ms() + 20000; clock_boot_ms() < until && logs_sealed(logs, &got, 1) == 0;)
        usleep(10000);
    fill(task, 0, text, (size_t)bytes);
    crypto_generichash(hash, sizeof hash, (const unsigned char *)text, (size_t)bytes, NULL, 0);
    mem_free(text);
    assert_int_equal(got.seal.task, task);
    assert_int_equal(got.seal.bytes, bytes);
    assert_memory_equal(got.seal.hash, hash, sizeof hash);
    assert_int_equal(got.grown, grown);
}

static void noted_put(PGconn *conn, const struct log_sealed *sealed)
{
    char text[256], hex[2 * LOG_HASH_BYTES + 1];
    sodium_bin2hex(hex, sizeof hex, sealed->seal.hash, LOG_HASH_BYTES);
    snprintf(text, sizeof text,
        "INSERT INTO log_seal (task, grant_no, bytes, hash) VALUES (%" PRId64 ", %d, %" PRId64 ", '\\x%s')",
        sealed->seal.task, GRANT, sealed->seal.bytes, hex);
    ask(conn, text);
}

/* A sealed log is hashed: one that went through this server, one that another server took, one that gets bytes after it
 * was noted; and one that isn't as it was noted is not. */
static void sealed_logs_are_hashed(void **state)
{
    (void)state;
    struct pair p;
    struct log_position position;
    struct log_sealed got;
    int64_t expected;
    pair_open(&p);
    PGconn *conn = PQconnectdb(p.w.url);
    assert_int_equal(append(p.logs[0], 1, 0, 3 * MIB + 5, &position, &expected), ERR_none);
    logs_wait(p.logs[0]);
    assert_int_equal(append(p.logs[0], 1, 3 * MIB + 5, 100, &position, &expected), ERR_none);
    logs_seal(p.logs[0], 1, GRANT);
    sealed_await(p.logs[0], 1, 3 * MIB + 105, false);
    assert_int_equal(ask(conn, "SELECT sealed FROM log WHERE task = 1"), 2);
    assert_int_equal(logs_sealed(p.logs[0], &got, 1), 1);
    assert_false(logs_noted(p.logs[0], &got, 1));
    logs_wait(p.logs[0]);
    for (int64_t until = clock_boot_ms() + 20000;
         clock_boot_ms() < until && ask(conn, "SELECT sealed FROM log WHERE task = 1") != 1;)
        usleep(10000);
    assert_int_equal(ask(conn, "SELECT sealed FROM log WHERE task = 1"), 1);

    for (int64_t task = 2; task <= 3; task++) {
        assert_int_equal(append(p.logs[0], task, 0, 2 * MIB + 7, &position, &expected), ERR_none);
        logs_wait(p.logs[0]);
        logs_seal(p.logs[1], task, GRANT);
        sealed_await(p.logs[1], task, 2 * MIB + 7, false);
        assert_int_equal(logs_sealed(p.logs[1], &got, 1), 1);
        if (task == 3)
            got.seal.hash[0] ^= 1;
        noted_put(conn, &got);
        assert_false(logs_noted(p.logs[1], &got, 1));
        /* it doesn't know of the seal */
        assert_int_equal(append(p.logs[0], task, 2 * MIB + 7, 50, &position, &expected), ERR_none);
        logs_wait(p.logs[0]);
        if (task == 2) {
            sealed_await(p.logs[0], task, 2 * MIB + 57, true);
            assert_int_equal(logs_sealed(p.logs[0], &got, 1), 1);
            assert_false(logs_noted(p.logs[0], &got, 1));
        }
    }
    /* behind the one that isn't believed */
    assert_int_equal(append(p.logs[0], 4, 0, 9, &position, &expected), ERR_none);
    logs_seal(p.logs[0], 4, GRANT);
    sealed_await(p.logs[0], 4, 9, false);
    PQfinish(conn);
    pair_close(&p);
}

static void removals_are_never_dropped(void **state)
{
    (void)state;
    removals_wait_out("CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS "
                      "'BEGIN RAISE EXCEPTION ''no'' USING ERRCODE = ''55P03''; END';"
                      /* a lock that took too long */
                      "CREATE TRIGGER no BEFORE UPDATE OR DELETE ON log FOR EACH ROW EXECUTE FUNCTION no()",
        "DROP TRIGGER no ON log");
    removals_wait_out("CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS "
                      "'BEGIN RAISE EXCEPTION ''no'' USING ERRCODE = ''53100''; END';"
                      /* a full disk */
                      "CREATE TRIGGER no BEFORE UPDATE OR DELETE ON log FOR EACH ROW EXECUTE FUNCTION no()",
        "DROP TRIGGER no ON log");
    /* refused for good */
    removals_wait_out("ALTER TABLE log_chunk RENAME TO elsewhere", "ALTER TABLE elsewhere RENAME TO log_chunk");
}

static void kept_files(void **state)
{
    (void)state;
    enum { BYTES = 5 * MIB + 12345 };
    struct pair p = { 0 };
    struct blob blob, found;
    struct err err = { 0 };
    struct buf out;
    char *bytes = mem_alloc(BYTES);
    int64_t waiting;
    fill(1, 0, bytes, BYTES);
    pair_open(&p);
    const struct upload one = { 1, 1, STR("acme"), "a", 0 }, two = { 2, 1, STR("acme"), "b", 0 };
    for (int64_t at = 0, n = 0; at < BYTES; at += 100003, n++) { /* pieces come to either server */
        struct str piece = { bytes + at, (size_t)(BYTES - at < 100003 ? BYTES - at : 100003) };
        if (!blobs_append(p.blobs[n % 2], &one, at, piece, BYTES, &err))
            fail_msg("piece at %lld: %s", (long long)at, err.text);
        assert_true(blobs_append(p.blobs[(n + 1) % 2], &one, at, piece, BYTES, &err)); /* and again, to the other one */
    }
    assert_false(blobs_append(p.blobs[1], &one, BYTES + 10, STR("x"), 2 * BYTES, &err));
    assert_true(err.code == ERR_log_gap && err.expected == BYTES);
    assert_true(blobs_waiting(p.blobs[1], STR("acme"), &waiting, &err) && waiting == BYTES);
    struct upload little = one;
    little.room = BYTES;
    assert_false(blobs_append(p.blobs[1], &little, BYTES, STR("x"), 2 * BYTES, &err));
    assert_int_equal(err.code, ERR_quota_full);
    assert_true(blobs_append(p.blobs[1], &little, BYTES - 1, (struct str){ bytes + BYTES - 1, 1 }, BYTES, &err));
    assert_true(blobs_seal(p.blobs[0], &one, &blob, &err) && blob.bytes == BYTES);
    assert_true(blobs_find(p.blobs[1], str_of(blob.hex), &found, &err) && found.bytes == BYTES);
    buf_init(&out, BYTES);
    for (int64_t at = 0; at < BYTES; at += 300000)
        assert_true(blobs_read(p.blobs[1], blob.hex, at, 300000, &out, &err));
    assert_int_equal(out.len, BYTES);
    assert_memory_equal(out.ptr, bytes, BYTES);
    assert_true(blobs_read(p.blobs[1], blob.hex, BYTES, 10, &out, &err) && out.len == BYTES);
    /* The same bytes again, through the other. */
    assert_true(blobs_append(p.blobs[1], &two, 0, (struct str){ bytes, BYTES }, BYTES, &err) &&
                blobs_seal(p.blobs[1], &two, &found, &err));
    assert_string_equal(found.hex, blob.hex);
    assert_false(blobs_seal(p.blobs[1], &two, &found, &err));
    assert_int_equal(blobs_sweep(p.blobs[0], 3600, wants, NULL), 0); /* too young */
    assert_int_equal(blobs_sweep(p.blobs[0], -10, wants, &p), 0);
    assert_int_equal(blobs_sweep(p.blobs[0], -10, wants, NULL), 1);
    assert_false(blobs_find(p.blobs[1], str_of(blob.hex), &found, &err));
    assert_int_equal(err.code, ERR_not_found);
    assert_false(blobs_read(p.blobs[1], blob.hex, 0, 10, &out, &err));
    buf_release(&out);
    mem_free(bytes);
    pair_close(&p);
}

struct pieces {
    struct blobs *blobs;
    struct upload upload;
    atomic_bool stop;
};

static void *pieces_come(void *argument)
{
    struct pieces *pieces = argument;
    char other[5000];
    memset(other, 'y', sizeof other);
    while (!atomic_load(&pieces->stop)) {
        struct err err = { 0 };
        (void)blobs_append(pieces->blobs, &pieces->upload, 0, (struct str){ other, sizeof other }, MIB, &err);
    }
    return NULL;
}

/* Pieces go on coming to one server while the other one seals: what became a blob has the bytes of its name. What was
 * sealed is known at both, and forgotten at both. */
static void seals_and_pieces(void **state)
{
    (void)state;
    enum { BYTES = 600000, ROUNDS = 15 };
    struct pair p = { 0 };
    struct err err = { 0 };
    struct buf out;
    char *bytes = mem_alloc(BYTES);
    pthread_t thread;
    memset(bytes, 'a', BYTES);
    pair_open(&p);
    struct pieces pieces = { .blobs = p.blobs[1], .upload = { 5, 3, STR("acme"), "a", 0 } };
    buf_init(&out, BYTES + 1);
    pthread_create(&thread, NULL, pieces_come, &pieces);
    for (int i = 0; i < ROUNDS; i++) {
        struct blob blob;
        unsigned char digest[crypto_hash_sha256_BYTES];
        char hex[BLOB_HEX + 1];
        err = (struct err){ 0 };
        if (!blobs_append(p.blobs[0], &pieces.upload, 0, (struct str){ bytes, BYTES }, MIB, &err) ||
            !blobs_seal(p.blobs[0], &pieces.upload, &blob, &err))
            continue;
        buf_reset(&out);
        assert_true(blobs_read(p.blobs[1], blob.hex, 0, BYTES, &out, &err));
        crypto_hash_sha256(digest, (const unsigned char *)out.ptr, out.len);
        sodium_bin2hex(hex, sizeof hex, digest, sizeof digest);
        assert_string_equal(hex, blob.hex);
    }
    atomic_store(&pieces.stop, true);
    pthread_join(thread, NULL);
    buf_reset(&out);
    assert_true(blobs_sealed(p.blobs[1], 5, 3, &out, &err) && out.len == sizeof(struct upload_seal));
    buf_reset(&out);
    assert_true(blobs_grants(p.blobs[1], &out, &err) && out.len == sizeof(struct upload_grant));
    blobs_forget(p.blobs[1], 5, 3);
    buf_reset(&out);
    assert_true(blobs_sealed(p.blobs[0], 5, 3, &out, &err) && blobs_grants(p.blobs[0], &out, &err) && out.len == 0);
    buf_release(&out);
    mem_free(bytes);
    pair_close(&p);
}

static void seal_commit(struct world *w, const struct log_seal *seal)
{
    struct log_seal one = *seal;
    turn_begin(w);
    w->c.logs.seals.at = &one, w->c.logs.seals.n = 1;
    turn_event(w, (struct event){ .kind = EVENT_noted, .actor = STR("server") });
    turn_end(w);
}

/* Server 1 has hashed a log that it sealed, server 0 hashes it with bytes that came later and notes that first: the
 * hash of fewer bytes doesn't replace it, and the history agrees with the rows. */
static void a_longer_hash_stays(void **state)
{
    (void)state;
    struct pair p = { 0 };
    struct log_position position;
    struct log_sealed shorter, longer;
    struct log_seal got;
    struct verify_report report = { 0 };
    int64_t expected;
    bool found;
    pair_open(&p);
    PGconn *conn = PQconnectdb(p.w.url);
    assert_int_equal(append(p.logs[0], 4, 0, 100, &position, &expected), ERR_none);
    logs_wait(p.logs[0]);
    logs_seal(p.logs[1], 4, GRANT);
    sealed_await(p.logs[1], 4, 100, false);
    assert_int_equal(append(p.logs[0], 4, 100, 30, &position, &expected), ERR_none); /* it doesn't know of the seal */
    sealed_await(p.logs[0], 4, 130, false);
    assert_int_equal(logs_sealed(p.logs[1], &shorter, 1), 1);
    assert_int_equal(logs_sealed(p.logs[0], &longer, 1), 1);
    seal_commit(&p.w, &longer.seal);
    seal_commit(&p.w, &shorter.seal);
    MUST(&p.w, p.w.store->ops->load_log_seal(p.w.store, 4, GRANT, &got, &found, &p.w.err));
    assert_true(found);
    assert_int_equal(got.bytes, 130);
    assert_memory_equal(got.hash, longer.seal.hash, sizeof got.hash);
    assert_false(logs_noted(p.logs[1], &shorter, 1));
    logs_wait(p.logs[1]);
    assert_int_equal(ask(conn, "SELECT sealed FROM log WHERE task = 4"), 2); /* until its whole length is noted */
    struct store_config config = config_of(&p, 0);
    MUST(&p.w, store_verify_at(&config, 0, NULL, &report, &p.w.err));
    if (!report.ok)
        fail_msg("%s", report.fault);
    PQfinish(conn);
    pair_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ends_where_it_said),
        cmocka_unit_test(offsets),
        cmocka_unit_test(two_servers),
        cmocka_unit_test(sealed_logs_are_hashed),
        cmocka_unit_test(a_longer_hash_stays),
        cmocka_unit_test(removals_are_never_dropped),
        cmocka_unit_test(kept_files),
        cmocka_unit_test(seals_and_pieces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
