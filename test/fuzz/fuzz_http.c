/* The reader of requests: heads, bodies in chunks, targets.
 *
 * A connection's bytes give the same requests and the same refusal in whatever pieces they come; what was accepted,
 * written again, reads as the same; what is accepted has one opinion about the body's end, a clean path and decodes;
 * what is refused has a reason. */
#include "fuzz.h"
#include "io/client.h"
#include "io/http_chunked.h"
#include "io/http_head.h"
#include "io/http_target.h"

#define SHAPES(X) \
    X(target) \
    X(target_refused) X(query) X(escapes) X(head) X(head_refused) X(length) X(chunked) X(unfinished) X(whole_body) \
    X(body_refused) \
        X(second)
FUZZ_SHAPES(SHAPES)

/* What a stream of bytes means: a line per request, then why it ended. */
struct meaning {
    struct buf text;
    size_t at; /* bytes used by complete requests */
};

static void head_tell(struct meaning *meaning, const struct http_head *head, const char *bytes)
{
    struct str method = http_head_method(head, bytes), target = http_head_target(head, bytes);
    buf_addf(&meaning->text, "%u.%u %d %d %d %d %llu ", head->major, head->minor, head->has_length, head->chunked,
        head->close, head->expects_continue, (unsigned long long)head->length);
    buf_add_str(&meaning->text, method);
    buf_add_char(&meaning->text, ' ');
    buf_add_str(&meaning->text, target);
    for (unsigned i = 0; i < head->n_fields; i++) {
        const struct http_field *field = &head->fields[i];
        buf_add_char(&meaning->text, '\n');
        buf_add(&meaning->text, bytes + field->name_at, field->name_len);
        buf_add_char(&meaning->text, ':');
        buf_add(&meaning->text, bytes + field->value_at, field->value_len);
    }
    buf_add_char(&meaning->text, '\n');
}

/* A client's connection, fed piece by piece as the server is. */
struct feed {
    struct http_head head;
    struct http_chunked chunked;
    struct err err;
    bool in_body, over;
    size_t begin, body_at, body_len; /* the body: read up to body_at */
    struct meaning meaning;
};

static void feed_begin(struct feed *feed)
{
    feed->in_body = false;
    feed->begin = feed->meaning.at;
    http_head_begin(&feed->head);
}

static void feed_refuse(struct feed *feed)
{
    HOLDS(feed->err.code != ERR_none && feed->err.text[0]);
    buf_addf(&feed->meaning.text, "%s: %s", err_name(feed->err.code), feed->err.text);
    feed->over = true;
}

static void feed_head(struct feed *feed, const char *bytes, size_t len, bool *out_more)
{
    const char *from = bytes + feed->begin;
    enum http_step step = http_head_read(&feed->head, from, len - feed->begin, &feed->err);
    *out_more = step == HTTP_DONE;
    if (step == HTTP_BAD)
        feed_refuse(feed);
    if (step != HTTP_DONE)
        return;
    HOLDS(feed->head.at <= HTTP_HEAD_MAX && feed->head.n_fields <= HTTP_HEADERS_MAX);
    HOLDS(!(feed->head.has_length && feed->head.chunked)); /* never two opinions about where the body ends */
    head_tell(&feed->meaning, &feed->head, from);
    feed->in_body = true;
    feed->chunked = (struct http_chunked){ 0 };
    feed->body_at = feed->begin + feed->head.at;
    feed->body_len = 0;
}

static void feed_body(struct feed *feed, const char *bytes, size_t len, bool *out_more)
{
    enum http_step step = HTTP_MORE;
    *out_more = false;
    if (!feed->head.chunked) {
        if (len - feed->body_at < feed->head.length)
            return;
        buf_add(&feed->meaning.text, bytes + feed->body_at, (size_t)feed->head.length);
        feed->body_at += (size_t)feed->head.length;
        step = HTTP_DONE;
    }
    while (step == HTTP_MORE && feed->body_at < len) {
        struct str piece;
        size_t used;
        step = http_chunked_read(&feed->chunked, bytes + feed->body_at, len - feed->body_at, &used, &piece, &feed->err);
        if (step == HTTP_BAD) {
            feed_refuse(feed);
            return;
        }
        HOLDS(used > 0 && used <= len - feed->body_at);
        buf_add_str(&feed->meaning.text, piece);
        feed->body_at += used;
    }
    if (step != HTTP_DONE)
        return;
    buf_add_char(&feed->meaning.text, '\n');
    feed->meaning.at = feed->body_at;
    *out_more = feed->meaning.at < len;
    feed_begin(feed);
}

static void feed_give(struct feed *feed, const char *bytes, size_t len)
{
    for (bool more = true; more && !feed->over;) {
        if (feed->in_body)
            feed_body(feed, bytes, len, &more);
        else
            feed_head(feed, bytes, len, &more);
    }
}

/* step 0: all at once; 1: byte by byte; else: pieces of changing length. */
static void feed_all(struct feed *feed, struct str text, unsigned step)
{
    memset(feed, 0, sizeof *feed);
    buf_init(&feed->meaning.text, SIZE_MAX);
    feed_begin(feed);
    for (size_t at = 0; at < text.len && !feed->over;) {
        size_t n = step == 0 ? text.len : step == 1 ? 1 : 1 + (at * 7 + step) % step;
        at += n < text.len - at ? n : text.len - at;
        feed_give(feed, text.ptr, at);
    }
}

/* Written again, from its meaning alone. */
static void head_write(struct buf *out, const struct http_head *head, const char *bytes)
{
    struct str method = http_head_method(head, bytes), target = http_head_target(head, bytes);
    buf_addf(out, "%.*s %.*s HTTP/%u.%u\r\n", STR_ARG(method), STR_ARG(target), head->major, head->minor);
    for (unsigned i = 0; i < head->n_fields; i++) {
        const struct http_field *field = &head->fields[i];
        buf_add(out, bytes + field->name_at, field->name_len);
        buf_add_z(out, ":");
        buf_add(out, bytes + field->value_at, field->value_len);
        buf_add_z(out, "\r\n");
    }
    buf_add_z(out, "\r\n");
}

static void head_round_trip(struct str text)
{
    static struct http_head head, again;
    struct err err = { 0 };
    http_head_begin(&head);
    if (http_head_read(&head, text.ptr, text.len, &err) != HTTP_DONE)
        return;
    struct buf written;
    struct meaning first = { 0 }, second = { 0 };
    buf_init(&written, SIZE_MAX);
    buf_init(&first.text, SIZE_MAX);
    buf_init(&second.text, SIZE_MAX);
    head_write(&written, &head, text.ptr);
    http_head_begin(&again);
    HOLDS(http_head_read(&again, written.ptr, written.len, &err) == HTTP_DONE && again.at == written.len);
    head_tell(&first, &head, text.ptr);
    head_tell(&second, &again, written.ptr);
    HOLDS(str_eq(buf_str(&first.text), buf_str(&second.text)));
    buf_release(&written);
    buf_release(&first.text);
    buf_release(&second.text);
}

/* Any bytes, sent in chunks as a stream does, are those bytes. */
static void chunks_round_trip(struct str text)
{
    struct buf written, read;
    size_t open = SIZE_MAX;
    buf_init(&written, SIZE_MAX);
    buf_init(&read, SIZE_MAX);
    for (size_t at = 0; at < text.len; at += 1 + at % 37) {
        http_chunk_open(&written, &open);
        buf_add_str(&written, str_sub(text, at, at + 1 + at % 37));
        if (at % 3 == 0)
            http_chunk_close(&written, &open);
    }
    http_chunk_close(&written, &open);
    buf_add_z(&written, HTTP_CHUNK_LAST);
    struct http_chunked chunked = { 0 };
    struct err err = { 0 };
    enum http_step step = HTTP_MORE;
    for (size_t at = 0; step == HTTP_MORE;) {
        struct str piece;
        size_t used;
        step = http_chunked_read(&chunked, written.ptr + at, written.len - at, &used, &piece, &err);
        buf_add_str(&read, piece);
        at += used;
        HOLDS(step != HTTP_BAD && (step == HTTP_DONE) == (at == written.len));
    }
    HOLDS(str_eq(buf_str(&read), text));
    buf_release(&written);
    buf_release(&read);
}

static void connection(struct str text)
{
    static struct feed whole, pieces;
    feed_all(&whole, text, 0);
    for (unsigned step = 1; step < 4; step++) {
        feed_all(&pieces, text, step * step);
        HOLDS(str_eq(buf_str(&whole.meaning.text), buf_str(&pieces.meaning.text)));
        HOLDS(whole.over == pieces.over && whole.meaning.at == pieces.meaning.at && whole.in_body == pieces.in_body);
        buf_release(&pieces.meaning.text);
    }
    bool first = whole.meaning.at > 0 || whole.in_body;
    SEEN_IF(head, first);
    SEEN_IF(head_refused, whole.over && !whole.in_body);
    SEEN_IF(body_refused, whole.over && whole.in_body);
    SEEN_IF(unfinished, !whole.over && whole.meaning.at < text.len);
    SEEN_IF(whole_body, whole.meaning.at > 0 && whole.body_at > whole.head.at);
    SEEN_IF(second, whole.meaning.at > 0 && whole.meaning.at < text.len && whole.in_body);
    SEEN_IF(length, whole.in_body && whole.head.has_length);
    SEEN_IF(chunked, whole.in_body && whole.head.chunked);
    buf_release(&whole.meaning.text);
    head_round_trip(text);
}

static void round_trip(struct arena *arena, struct str text)
{
    struct str encoded = client_encode(arena, text), decoded;
    bool decodes = http_decode(arena, encoded, false, &decoded);
    HOLDS(decodes == (str_index(text, '\0') < 0)); /* NUL is the one byte that is never taken */
    HOLDS(!decodes || str_eq(decoded, text));
    for (size_t i = 0; i < encoded.len; i++)
        HOLDS(encoded.ptr[i] > ' ' && encoded.ptr[i] < 0x7f && !strchr("/?#&=+\"", encoded.ptr[i]));
}

static bool climbs(struct str path)
{
    struct str part;
    while (str_cut(&path, '/', &part))
        if (str_eqz(part, ".."))
            return true;
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct str text = { (const char *)bytes, len }, path, query, decoded;
    struct arena arena = { 0 };
    struct err err = { 0 };
    if (http_target_parse(&arena, STR("GET"), text, &path, &query, &err)) {
        HOLDS(path.len > 0 && path.ptr[0] == '/' && str_index(path, '\0') < 0 && !climbs(path) && str_is_utf8(path));
        SEEN(target);
        SEEN_IF(query, query.len > 0);
        SEEN_IF(escapes, str_index(text, '%') >= 0);
        HOLDS(http_decode(&arena, query, true, &decoded) && str_index(decoded, '\0') < 0);
    } else {
        HOLDS(err.code != ERR_none && err.text[0]);
        SEEN(target_refused);
    }
    round_trip(&arena, text);
    connection(text);
    chunks_round_trip(text);
    arena_release(&arena);
    return 0;
}
