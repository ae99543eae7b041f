/* log: the bytes that a task wrote, as they were written; following them while it runs.
 *
 * On a terminal colours pass and every other control sequence is dropped; elsewhere the bytes are untouched. With
 * --json they are text in a document, of LOG_JSON_MAX bytes at most. A follower that loses the server asks again from
 * the byte it stands at, for RECONNECT_MS at most. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/session.h"
#include "cli/task_text.h"
#include "io/clock.h"

enum { LOG_PIECE_CAP = 4 << 20, RECONNECT_MS = 30000, RECONNECT_STEP_MS = 250, LOG_JSON_MAX = 64 << 20 };

struct log_stream {
    struct session *session;
    struct term_filter filter;
    int64_t attempt; /* which one is followed; 0: the last one, not known yet */
    uint64_t taken;  /* bytes of the log seen */
    struct buf text; /* --json: all of them */
    bool broken_pipe;
};

static bool log_write(struct log_stream *stream, struct str bytes)
{
    if (fwrite(bytes.ptr, 1, bytes.len, stdout) != bytes.len || fflush(stdout) != 0)
        stream->broken_pipe = true;
    return !stream->broken_pipe;
}

static bool log_piece(struct str bytes, void *owner)
{
    struct log_stream *stream = owner;
    stream->taken += bytes.len;
    if (stream->session->json) {
        buf_add(&stream->text, bytes.ptr, bytes.len);
        return !stream->text.full;
    }
    if (!stream->session->term.tty || option_given(&stream->session->options, "raw"))
        return log_write(stream, bytes);
    struct buf clean;
    buf_init(&clean, LOG_PIECE_CAP);
    term_filter_add(&stream->filter, bytes, &clean);
    bool ok = log_write(stream, buf_str(&clean));
    buf_release(&clean);
    return ok;
}

static const char *log_path(struct session *s, int64_t attempt, uint64_t offset, bool tail)
{
    const char *path = session_task_path(s, s->options.operands[0], "/log");
    uint64_t size = 0;
    if (attempt > 0)
        path = session_query_i64(s, path, "attempt", attempt);
    if (tail && option_size(&s->options, "tail", &size) && option_given(&s->options, "tail"))
        path = session_query_i64(s, path, "tail", (int64_t)size);
    else if (offset > 0)
        path = session_query_i64(s, path, "offset", (int64_t)offset);
    return session_query(s, path, "follow", option_given(&s->options, "follow") ? "1" : NULL);
}

/* log_ask: one request; true: it was answered to its end. */
static bool log_ask(struct session *s, struct log_stream *stream, uint64_t offset, bool tail)
{
    return session_stream(s, log_path(s, stream->attempt, offset, tail), log_piece, stream);
}

/* attempt_ended: whether the attempt that is followed has ended; the newest one is chosen if none was. false also when
 * nobody answers. */
static bool attempt_ended(struct session *s, struct log_stream *stream)
{
    json_t *task = session_look(s, session_task_path(s, s->options.operands[0], ""));
    const json_t *attempts = json_object_get(task, "attempts");
    bool ended = false;
    for (size_t i = json_array_size(attempts); i > 0; i--) { /* the newest of that number */
        const json_t *attempt = json_array_get(attempts, i - 1);
        int64_t number = field_i64(attempt, "number", 0);
        if (stream->attempt == 0)
            stream->attempt = number;
        if (number != stream->attempt)
            continue;
        ended = *field_z(attempt, "finished") != '\0';
        break;
    }
    if (json_array_size(attempts) == 0)
        ended = letter_ended(task_letter(task)); /* it never ran and never will */
    json_decref(task);
    return ended;
}

/* log_follow: asks until the attempt has ended and was asked about once more after that: a server that stops ends its
 * streams in order, so the end of an answer isn't the end of the log. With --tail the place in the log isn't known, so
 * the first answer is the last. */
static void log_follow(struct session *s, struct log_stream *stream, uint64_t offset)
{
    int64_t give_up = clock_boot_ms() + RECONNECT_MS;
    bool heard = false;
    for (;;) {
        uint64_t seen = stream->taken;
        bool ended = attempt_ended(s, stream);
        bool answered = log_ask(s, stream, offset + stream->taken, false);
        heard = heard || answered || stream->taken > 0;
        if (ended || !heard || stream->broken_pipe || (answered && s->status != 0))
            return;
        int64_t now = clock_boot_ms();
        if (answered || stream->taken > seen)
            give_up = now + RECONNECT_MS;
        if (now >= give_up)
            return;
        poll(NULL, 0, RECONNECT_STEP_MS);
    }
}

/* document_begin: the task and the attempt that is to be read: the one that was asked for, or the last one so far.
 * NULL: reported. */
static json_t *document_begin(struct session *s, struct log_stream *stream)
{
    json_t *task = session_get(s, session_task_path(s, s->options.operands[0], "")), *document = NULL;
    const json_t *attempts = json_object_get(task, "attempts");
    if (!task)
        return NULL;
    if (stream->attempt == 0)
        stream->attempt = field_i64(json_array_get(attempts, json_array_size(attempts) - 1), "number", 0);
    document = json_pack("{s:I, s:s, s:o}", "task", (json_int_t)field_i64(task, "id", 0), "key",
        task_key(&s->arena, task), "attempt", stream->attempt ? json_integer(stream->attempt) : json_null());
    json_decref(task);
    return document;
}

static void document_print(struct session *s, json_t *document, const struct log_stream *stream)
{
    json_object_set_new(document, "bytes", json_integer((json_int_t)stream->taken));
    json_object_set_new(document, "log", session_string(buf_str(&stream->text)));
    session_print(s, document);
}

/* log_read: the whole answer; a failure is reported, unless nobody reads the output any more. */
static int log_read(struct session *s, struct log_stream *stream, uint64_t offset)
{
    bool tail = option_given(&s->options, "tail");
    if (option_given(&s->options, "follow") && !tail)
        log_follow(s, stream, offset);
    else
        log_ask(s, stream, offset, tail);
    if (s->status == 0 && stream->taken > 0 && !stream->broken_pipe && !stream->text.full && !tail)
        log_ask(s, stream, offset + stream->taken, false); /* should bytes be missing, this is refused and says so */
    if (stream->text.full)
        return session_err(s, ERR_body_too_large,
            "more than %d MiB don't go into a document: ask for less with --tail, or without --json",
            LOG_JSON_MAX >> 20);
    int status = s->status;
    if (status != 0 && !stream->broken_pipe)
        session_fail(s);
    return status;
}

int log_command(struct session *s)
{
    int64_t attempt = 1, offset = 0;
    uint64_t size;
    if (!option_i64(&s->options, "attempt", 1, INT32_MAX, &attempt) ||
        !option_i64(&s->options, "offset", 0, INT64_MAX, &offset) || !option_size(&s->options, "tail", &size))
        return EXIT_USAGE;
    if (option_given(&s->options, "tail") && option_given(&s->options, "offset"))
        return usage_error(s->options.spec, "--tail and --offset exclude each other");
    if (s->json && option_given(&s->options, "follow"))
        return usage_error(s->options.spec, "--follow and --json exclude each other: a document has an end");
    struct log_stream stream = { .session = s };
    stream.attempt = option_given(&s->options, "attempt") ? attempt : 0;
    buf_init(&stream.text, LOG_JSON_MAX);
    json_t *document = s->json ? document_begin(s, &stream) : NULL;
    int status = s->json && !document ? s->status : log_read(s, &stream, (uint64_t)offset);
    if (document && status == 0)
        document_print(s, document, &stream);
    if (!s->json && s->term.color && stream.taken > 0)
        fputs("\033[0m", stdout); /* whatever colour the log left on */
    json_decref(document);
    buf_release(&stream.text);
    return status;
}
