/* verify: is the history as it was written? Asks the server, or walks a data directory itself. */
#include <string.h>

#include "base/buf.h"
#include "base/when.h"
#include "cli/command.h"
#include "cli/session.h"
#include "cli/task_text.h"
#include "store/store.h"

static int report_print(struct session *s, const json_t *report)
{
    bool ok = json_is_true(json_object_get(report, "ok"));
    const json_t *head = json_object_get(report, "head");
    if (s->json) {
        session_print(s, report);
        return ok ? 0 : 1;
    }
    enum paint paint = ok ? PAINT_GREEN : PAINT_RED;
    printf("%s%s%s  %lld turns, %lld events, head %lld:%s\n", paint_on(&s->term, paint), ok ? "ok" : "FAULT",
        paint_off(&s->term, paint), (long long)field_i64(report, "turns", 0), (long long)field_i64(report, "events", 0),
        (long long)field_i64(head, "seq", 0), term_safe_z(&s->arena, field_z(head, "hash")));
    if (ok && json_object_get(report, "logs"))
        printf("    %lld logs (%s), %lld kept files (%s)\n    database %s\n", (long long)field_i64(report, "logs", 0),
            size_format((uint64_t)field_i64(report, "log_bytes", 0)).z, (long long)field_i64(report, "files", 0),
            size_format((uint64_t)field_i64(report, "file_bytes", 0)).z,
            term_safe_z(&s->arena, field_z(report, "database")));
    if (field_i64(report, "logs_unnoted", 0) > 0)
        session_note(s,
            "%lld logs were only read, not compared: their hash isn't noted (just sealed, still open, or of an older "
            "version)",
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
        return usage_error(s->options.spec, "--witness: '%s' isn't SEQ:HASH with %d hexadecimal digits", witness,
            2 * STORE_HASH_BYTES);
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
    json_t *document = json_pack("{s:b, s:I, s:I, s:{s:I, s:s}}", "ok", report.ok, "turns", (json_int_t)report.turns,
        "events", (json_int_t)report.events, "head", "seq", (json_int_t)report.head_seq, "hash",
        store_hash_format(report.head_hash).z);
    json_t *more = json_pack("{s:s, s:I, s:I, s:I, s:I, s:s*, s:I, s:I}", "database", report.database, "logs",
        (json_int_t)report.logs, "log_bytes", (json_int_t)report.log_bytes, "logs_unnoted",
        (json_int_t)report.logs_unnoted, "logs_short", (json_int_t)report.logs_short, "log_missing",
        report.logs_short > 0 ? report.log_missing : NULL, "files", (json_int_t)report.files, "file_bytes",
        (json_int_t)report.file_bytes);
    if (!wish.quick)
        json_object_update(document, more);
    json_decref(more);
    if (!report.ok)
        json_object_set_new(document, "fault", json_string(report.fault));
    int status = report_print(s, document);
    json_decref(document);
    return status;
}

int verify_command(struct session *s)
{
    const char *data = option_get(&s->options, "data");
    if (data)
        return verify_offline(s, data);
    if (option_get(&s->options, "store"))
        return usage_error(s->options.spec, "--store needs --data too: the directory with the key of the history");
    const char *path = session_query(s, "/v1/verify", "witness", option_get(&s->options, "witness"));
    json_t *report = session_get(s, session_query(s, path, "quick", option_get(&s->options, "quick") ? "1" : NULL));
    if (!report) {
        if (s->err.code == ERR_unreachable)
            fputs("  a data directory is checked without a server: weir verify --data DIR\n", stderr);
        return s->status;
    }
    int status = report_print(s, report);
    json_decref(report);
    return status;
}
