/* verify: is the history as it was written? Asks the server, or walks a data directory itself. */
#include <string.h>

#include "base/buf.h"
#include "base/when.h"
#include "cmd/command.h"
#include "cmd/session.h"
#include "cmd/task_text.h"
#include "store/store.h"

enum { VERIFY_PATH_CAP = 4096 };

static const struct option_spec verify_options[] = {
    { "data", 0, "DIR", "check this data directory, without a server", OPTION_NON_EMPTY, NULL },
    { "store", 0, "URL", "with --data: the store is there (postgresql://...) and DIR has its verify.key", OPTION_NON_EMPTY, NULL },
    { "quick", 0, NULL, "only the chain of events and the rows: not the database's own check, logs and kept files", 0, NULL },
    { "witness", 0, "SEQ:HASH", "the event SEQ must have been sealed with HASH, as an earlier verify printed it", OPTION_NON_EMPTY, NULL },
    { 0 },
};
static const char *const verify_examples[] = { "check a copy of the data", "weir verify --data /backup/weir", NULL };
const struct command_spec verify_spec = {
    .name = "verify",
    .operands = "",
    .summary = "check that nothing was changed or damaged",
    .description =
        "Runs the database's own check (SQLite: whole where no server runs, else in steps; PostgreSQL: amcheck, where it is installed), "
        "follows the chain of hashes over all events and compares it with the rows, reads every log and hashes every kept file again. "
        "Exit 0: all is as it was written; 1: a fault, named. "
        "Keep the printed head (SEQ:HASH) elsewhere: with --witness it also tells an older copy of the whole store.",
    .options = verify_options,
    .flags = COMMAND_CLIENT,
    .examples = verify_examples,
};

static int report_print(struct session *s, const json_t *report)
{
    bool ok = json_is_true(json_object_get(report, "ok"));
    const json_t *head = json_object_get(report, "head");
    if (s->json) {
        session_print(s, report);
        return ok ? 0 : 1;
    }
    enum paint paint = ok ? PAINT_GREEN : PAINT_RED;
    printf("%s%s%s  %lld turns, %lld events, head %lld:%s\n", paint_on(&s->term, paint), ok ? "ok" : "FAULT", paint_off(&s->term, paint),
        (long long)field_i64(report, "turns", 0), (long long)field_i64(report, "events", 0), (long long)field_i64(head, "seq", 0),
        term_safe_z(&s->arena, field_z(head, "hash")));
    if (ok && json_object_get(report, "logs"))
        printf("    %lld logs (%s), %lld kept files (%s)\n    database %s\n", (long long)field_i64(report, "logs", 0),
            size_format((uint64_t)field_i64(report, "log_bytes", 0)).z, (long long)field_i64(report, "files", 0),
            size_format((uint64_t)field_i64(report, "file_bytes", 0)).z, term_safe_z(&s->arena, field_z(report, "database")));
    if (field_i64(report, "logs_unnoted", 0) > 0)
        session_note(s, "%lld logs were only read, not compared: their hash isn't noted (just sealed, still open, or of an older version)",
            (long long)field_i64(report, "logs_unnoted", 0));
    if (field_i64(report, "logs_short", 0) > 0)
        session_note(s, "warning: %lld logs lack bytes (a power cut takes what wasn't durable); the first: %s",
            (long long)field_i64(report, "logs_short", 0), term_safe_z(&s->arena, field_z(report, "log_missing")));
    if (!ok)
        fprintf(stderr, "weir verify: %s\n",
            term_safe_z(&s->arena, *field_z(report, "fault") ? field_z(report, "fault") : "the history was changed"));
    return ok ? 0 : 1;
}

static void progress_tell(void *owner, const char *part, int64_t done)
{
    (void)owner;
    fprintf(stderr, "\r\033[K%s: %lld", part, (long long)done);
    fflush(stderr);
}

static int verify_offline(struct session *s, const char *data)
{
    struct store_config config = { .url = option_get(&s->options, "store"), .data_dir = data };
    struct verify_report report = { 0 };
    uint8_t witness_hash[STORE_HASH_BYTES] = { 0 };
    int64_t witness_seq = 0;
    const char *witness = option_get(&s->options, "witness");
    if (witness && !store_witness_parse(str_of(witness), &witness_seq, witness_hash))
        return usage_error(&verify_spec, "--witness: '%s' isn't SEQ:HASH with %d hexadecimal digits", witness, 2 * STORE_HASH_BYTES);
    s->err = (struct err){ .arena = &s->arena };
    const struct verify_wish wish = { .witness_seq = witness_seq,
        .witness_hash = witness_hash,
        .quick = option_get(&s->options, "quick") != NULL,
        .tell = s->term.tty && !s->json ? progress_tell : NULL,
        .owner = s };
    bool read = store_verify_all(&config, &wish, &report, &s->err);
    if (wish.tell)
        fputs("\r\033[K", stderr);
    if (!read)
        return session_store_fail(s);
    json_t *document = json_pack("{s:b, s:I, s:I, s:{s:I, s:s}}", "ok", report.ok, "turns", (json_int_t)report.turns, "events",
        (json_int_t)report.events, "head", "seq", (json_int_t)report.head_seq, "hash",
        store_hash_format(report.head_hash).z);
    if (!wish.quick) {
        json_object_set_new(document, "database", json_string(report.database));
        json_object_set_new(document, "logs", json_integer((json_int_t)report.logs));
        json_object_set_new(document, "log_bytes", json_integer((json_int_t)report.log_bytes));
        json_object_set_new(document, "logs_unnoted", json_integer((json_int_t)report.logs_unnoted));
        json_object_set_new(document, "logs_short", json_integer((json_int_t)report.logs_short));
        if (report.logs_short > 0)
            json_object_set_new(document, "log_missing", json_string(report.log_missing));
        json_object_set_new(document, "files", json_integer((json_int_t)report.files));
        json_object_set_new(document, "file_bytes", json_integer((json_int_t)report.file_bytes));
    }
    if (!report.ok)
        json_object_set_new(document, "fault", json_string(report.fault));
    int status = report_print(s, document);
    json_decref(document);
    return status;
}

int verify_main(int argc, char **argv)
{
    struct session s;
    int status = session_open(&s, &verify_spec, argc, argv);
    if (status != OPTIONS_RUN)
        return status;
    const char *data = option_get(&s.options, "data");
    if (data)
        return session_close(&s, verify_offline(&s, data));
    if (option_get(&s.options, "store"))
        return session_close(&s, usage_error(&verify_spec, "--store needs --data too: the directory with the key of the history"));
    struct buf path;
    buf_init(&path, VERIFY_PATH_CAP);
    buf_add_z(&path, "/v1/verify");
    session_query(&s, &path, "witness", option_get(&s.options, "witness"));
    session_query(&s, &path, "quick", option_get(&s.options, "quick") ? "1" : NULL);
    json_t *report = session_get(&s, path.ptr);
    buf_release(&path);
    if (!report) {
        if (s.err.code == ERR_unreachable)
            fputs("  a data directory is checked without a server: weir verify --data DIR\n", stderr);
        return session_close(&s, s.status);
    }
    status = report_print(&s, report);
    json_decref(report);
    return session_close(&s, status);
}
