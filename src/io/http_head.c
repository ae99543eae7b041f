/* http_head: the reader of a request's line and headers (see http_head.h): a table of states, each of which takes the
 * bytes that are its.
 *
 * Promises that the result depends on the bytes alone, not on the pieces in which they came: a state decides by the
 * next byte.
 *
 * Refusals are filled into err in the client's words; its code decides the status. */
#include "io/http_head.h"

#include <string.h>
#include <strings.h>

enum head_state {
    HEAD_START,
    HEAD_EMPTY_LF,
    HEAD_METHOD,
    HEAD_TARGET,
    HEAD_VERSION,
    HEAD_LINE_CR,
    HEAD_LINE_LF,
    HEAD_FIELD,
    HEAD_NAME,
    HEAD_BLANKS,
    HEAD_VALUE,
    HEAD_VALUE_LF,
    HEAD_END_LF,
    HEAD_DONE
};

/* One row per 16 bytes; the sums of enum http_byte. */
/* clang-format off */
const uint8_t http_bytes[256] = {
    0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, /* 0x00 */
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, /* 0x10 */
    2, 7, 6, 3, 7, 7, 7, 7, 6, 6, 7, 7, 6, 7, 7, 6, /* 0x20 */
    7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 6, 6, 6, 6, 6, 6, /* 0x30 */
    6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, /* 0x40 */
    7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 6, 6, 6, 7, 7, /* 0x50 */
    7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, /* 0x60 */
    7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 6, 7, 6, 7, 0, /* 0x70 */
    6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, /* 0x80 */
    6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, /* 0x90 */
    6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, /* 0xa0 */
    6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, /* 0xb0 */
    6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, /* 0xc0 */
    6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, /* 0xd0 */
    6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, /* 0xe0 */
    6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, /* 0xf0 */
};
/* clang-format on */

/* A host and its port, or an address in brackets. */
static bool host_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("-._~:[]%!$&'()*+;=", c));
}

static bool str_is(struct str s, struct str lower)
{
    return s.len == lower.len && strncasecmp(s.ptr, lower.ptr, s.len) == 0;
}

/* --- the headers that decide about framing --- */

static bool field_host(struct http_head *head, struct str value, struct err *err)
{
    if (head->has_host)
        return err_set(err, ERR_bad_request, "the request has more than one Host header");
    for (size_t i = 0; i < value.len; i++)
        if (!host_byte(value.ptr[i]))
            return err_set(err, ERR_bad_request, "the Host header holds a byte that no host has (0x%02x)",
                (unsigned char)value.ptr[i]);
    head->has_host = true;
    return true;
}

static bool field_length(struct http_head *head, struct str value, struct err *err)
{
    if (head->has_length)
        return err_set(err, ERR_bad_request, "the request has more than one Content-Length header");
    if (head->chunked)
        return err_set(err, ERR_bad_request, "the request has both Content-Length and Transfer-Encoding");
    for (size_t i = 0; i < value.len; i++)
        if (value.ptr[i] < '0' || value.ptr[i] > '9')
            return err_set(err, ERR_bad_request, "the Content-Length isn't a number");
    if (value.len == 0 || !str_to_u64(value, &head->length))
        return err_set(err, ERR_bad_request, "the Content-Length isn't a number that can be");
    head->has_length = true;
    return true;
}

static bool field_transfer(struct http_head *head, struct str value, struct err *err)
{
    if (head->has_length)
        return err_set(err, ERR_bad_request, "the request has both Content-Length and Transfer-Encoding");
    if (head->chunked)
        return err_set(err, ERR_bad_request, "the request has more than one Transfer-Encoding header");
    if (head->minor == 0)
        return err_set(err, ERR_bad_request, "HTTP/1.0 has no Transfer-Encoding");
    if (!str_is(value, STR("chunked")))
        return err_set(err, ERR_not_implemented, "the only Transfer-Encoding taken is 'chunked', once");
    head->chunked = true;
    return true;
}

static bool field_content_coding(struct http_head *head, struct str value, struct err *err)
{
    (void)err;
    head->compressed = head->compressed || !str_is(value, STR("identity"));
    return true;
}

static bool field_connection(struct http_head *head, struct str value, struct err *err)
{
    (void)err;
    struct str option;
    while (str_cut(&value, ',', &option))
        if (str_is(str_trim(option), STR("close")))
            head->close = true;
    return true;
}

static bool field_expect(struct http_head *head, struct str value, struct err *err)
{
    (void)err;
    head->expects_continue = head->minor > 0 && str_is(value, STR("100-continue"));
    return true;
}

static const struct {
    struct str name;
    bool (*take)(struct http_head *head, struct str value, struct err *err);
} framing[] = {
    { { "host", 4 }, field_host },
    { { "expect", 6 }, field_expect },
    { { "connection", 10 }, field_connection },
    { { "content-length", 14 }, field_length },
    { { "content-encoding", 16 }, field_content_coding },
    { { "transfer-encoding", 17 }, field_transfer },
};

static bool field_take(struct http_head *head, const char *bytes, struct err *err)
{
    if (head->n_fields == HTTP_HEADERS_MAX)
        return err_set(err, ERR_headers_too_large, "the request has more than %d headers", HTTP_HEADERS_MAX);
    struct http_field *field = &head->fields[head->n_fields++];
    const char *value = bytes + field->value_at;
    while (field->value_len > 0 && (value[field->value_len - 1] == ' ' || value[field->value_len - 1] == '\t'))
        field->value_len--;
    struct str name = { bytes + field->name_at, field->name_len };
    for (size_t i = 0; i < sizeof framing / sizeof *framing; i++)
        if (str_is(name, framing[i].name))
            return framing[i].take(head, (struct str){ value, field->value_len }, err);
    return true;
}

static bool head_check(const struct http_head *head, struct err *err)
{
    if (head->minor > 0 && !head->has_host)
        return err_set(err, ERR_bad_request, "the request has no Host header");
    if (head->compressed)
        return err_set(err, ERR_unsupported_media, "the body has a Content-Encoding; send it as it is");
    return true;
}

/* --- the states --- */

static bool fault_byte(const char *where, char byte, struct err *err)
{
    if (byte == '\n')
        return err_set(err, ERR_bad_request, "a line of the head ends with LF alone; it must be CR LF");
    return err_set(
        err, ERR_bad_request, "%s holds a byte that HTTP doesn't allow there (0x%02x)", where, (unsigned char)byte);
}

/* One empty line before a request is forgiven, as RFC 9112 asks. */
static bool read_start(struct http_head *head, const char *bytes, size_t len, struct err *err)
{
    (void)len;
    (void)err;
    head->line_at = head->at;
    if (bytes[head->at] == '\r' && head->at == 0) {
        head->at++;
        head->state = HEAD_EMPTY_LF;
    } else {
        head->state = HEAD_METHOD;
    }
    return true;
}

static bool read_lf(struct http_head *head, const char *bytes, enum head_state next, struct err *err)
{
    if (bytes[head->at] != '\n')
        return err_set(err, ERR_bad_request, "a CR in the head isn't followed by LF");
    head->at++;
    head->state = (uint8_t)next;
    return true;
}

static bool read_empty_lf(struct http_head *head, const char *bytes, size_t len, struct err *err)
{
    (void)len;
    return read_lf(head, bytes, HEAD_START, err);
}

static bool read_method(struct http_head *head, const char *bytes, size_t len, struct err *err)
{
    uint32_t at = head->at, end = head->line_at + HTTP_METHOD_MAX + 1;
    end = len < end ? (uint32_t)len : end;
    while (at < end && http_byte_is(bytes[at], HTTP_BYTE_TOKEN))
        at++;
    head->at = at;
    if (at - head->line_at > HTTP_METHOD_MAX)
        return err_set(err, ERR_bad_request, "the request's method is over %d bytes", HTTP_METHOD_MAX);
    if (at == len)
        return true;
    if (bytes[at] != ' ' || at == head->line_at)
        return fault_byte("the request's method", bytes[at], err);
    head->method_len = at - head->line_at;
    head->target_at = head->at = at + 1;
    head->state = HEAD_TARGET;
    return true;
}

static bool read_target(struct http_head *head, const char *bytes, size_t len, struct err *err)
{
    uint32_t at = head->at, end = head->line_at + HTTP_LINE_MAX;
    end = len < end ? (uint32_t)len : end;
    while (at < end && http_byte_is(bytes[at], HTTP_BYTE_TARGET))
        at++;
    head->at = at;
    if (at == head->line_at + HTTP_LINE_MAX)
        return err_set(err, ERR_uri_too_long, "the request's first line is over %d bytes", HTTP_LINE_MAX);
    if (at == len)
        return true;
    if (bytes[at] == '\r')
        return err_set(err, ERR_bad_request, "the request's first line has no version");
    if (bytes[at] != ' ' || at == head->target_at)
        return fault_byte("the request's target", bytes[at], err);
    head->target_len = at - head->target_at;
    head->mark = head->at = at + 1;
    head->state = HEAD_VERSION;
    return true;
}

static bool read_version(struct http_head *head, const char *bytes, size_t len, struct err *err)
{
    static const char form[] = "HTTP/d.d";
    for (; head->at < len && head->at - head->mark < sizeof form - 1; head->at++) {
        char wanted = form[head->at - head->mark], c = bytes[head->at];
        if (head->at - head->line_at >= HTTP_LINE_MAX)
            return err_set(err, ERR_uri_too_long, "the request's first line is over %d bytes", HTTP_LINE_MAX);
        if (wanted == 'd' ? c < '0' || c > '9' : c != wanted)
            return err_set(
                err, ERR_bad_request, "the request's first line doesn't end with a version such as HTTP/1.1");
    }
    if (head->at - head->mark < sizeof form - 1)
        return true;
    head->major = (uint8_t)(bytes[head->mark + 5] - '0');
    head->minor = (uint8_t)(bytes[head->mark + 7] - '0');
    if (head->major != 1)
        return err_set(
            err, ERR_version_not_supported, "HTTP %u.%u isn't spoken here, only 1.1 is", head->major, head->minor);
    head->state = HEAD_LINE_CR;
    return true;
}

static bool read_line_cr(struct http_head *head, const char *bytes, size_t len, struct err *err)
{
    (void)len;
    if (bytes[head->at] != '\r')
        return fault_byte("the end of the request's first line", bytes[head->at], err);
    head->at++;
    head->state = HEAD_LINE_LF;
    return true;
}

static bool read_line_lf(struct http_head *head, const char *bytes, size_t len, struct err *err)
{
    (void)len;
    head->fields_at = head->at + 1;
    return read_lf(head, bytes, HEAD_FIELD, err);
}

/* The first byte of a line decides: a header, the end, or something that only looks like a header. */
static bool read_field(struct http_head *head, const char *bytes, size_t len, struct err *err)
{
    (void)len;
    char c = bytes[head->at];
    if (c == ' ' || c == '\t')
        return err_set(err, ERR_bad_request, "a header is folded over two lines");
    head->mark = head->at;
    head->state = c == '\r' ? HEAD_END_LF : HEAD_NAME;
    head->at += c == '\r';
    return true;
}

/* The CR LF of the last line counts too: what stands before it has to leave room. */
enum { FIELDS_END = HTTP_HEADER_BYTES_MAX - 1 };

static bool fields_fit(const struct http_head *head, struct err *err)
{
    if (head->at - head->fields_at >= FIELDS_END)
        return err_set(err, ERR_headers_too_large, "the headers are over %d bytes", HTTP_HEADER_BYTES_MAX);
    return true;
}

static size_t fields_end(const struct http_head *head, size_t len)
{
    size_t end = (size_t)head->fields_at + FIELDS_END;
    return len < end ? len : end;
}

static bool read_name(struct http_head *head, const char *bytes, size_t len, struct err *err)
{
    size_t at = head->at, end = fields_end(head, len);
    while (at < end && http_byte_is(bytes[at], HTTP_BYTE_TOKEN))
        at++;
    head->at = (uint32_t)at;
    if (!fields_fit(head, err))
        return false;
    if (at == len)
        return true;
    if (bytes[at] == '\r')
        return err_set(err, ERR_bad_request, "a header has no colon");
    if (bytes[at] != ':' || at == head->mark)
        return fault_byte("a header's name", bytes[at], err);
    if (head->n_fields < HTTP_HEADERS_MAX) {
        struct http_field *field = &head->fields[head->n_fields];
        field->name_at = head->mark;
        field->name_len = (uint32_t)at - head->mark;
    }
    head->at++;
    head->state = HEAD_BLANKS;
    return true;
}

static bool read_blanks(struct http_head *head, const char *bytes, size_t len, struct err *err)
{
    size_t at = head->at, end = fields_end(head, len);
    while (at < end && (bytes[at] == ' ' || bytes[at] == '\t'))
        at++;
    head->at = head->mark = (uint32_t)at;
    if (!fields_fit(head, err))
        return false;
    if (at < len)
        head->state = HEAD_VALUE;
    return true;
}

static bool read_value(struct http_head *head, const char *bytes, size_t len, struct err *err)
{
    size_t at = head->at, end = fields_end(head, len);
    while (at < end && http_byte_is(bytes[at], HTTP_BYTE_VALUE))
        at++;
    head->at = (uint32_t)at;
    if (!fields_fit(head, err))
        return false;
    if (at == len)
        return true;
    if (bytes[at] != '\r')
        return fault_byte("a header's value", bytes[at], err);
    if (head->n_fields < HTTP_HEADERS_MAX) {
        head->fields[head->n_fields].value_at = head->mark;
        head->fields[head->n_fields].value_len = (uint32_t)at - head->mark;
    }
    head->at++;
    head->state = HEAD_VALUE_LF;
    return true;
}

static bool read_value_lf(struct http_head *head, const char *bytes, size_t len, struct err *err)
{
    (void)len;
    return read_lf(head, bytes, HEAD_FIELD, err) && field_take(head, bytes, err);
}

static bool read_end_lf(struct http_head *head, const char *bytes, size_t len, struct err *err)
{
    (void)len;
    return read_lf(head, bytes, HEAD_DONE, err) && head_check(head, err);
}

/* Each is called with at least one byte to read. */
static bool (*const states[])(struct http_head *head, const char *bytes, size_t len, struct err *err) = {
    [HEAD_START] = read_start,
    [HEAD_EMPTY_LF] = read_empty_lf,
    [HEAD_METHOD] = read_method,
    [HEAD_TARGET] = read_target,
    [HEAD_VERSION] = read_version,
    [HEAD_LINE_CR] = read_line_cr,
    [HEAD_LINE_LF] = read_line_lf,
    [HEAD_FIELD] = read_field,
    [HEAD_NAME] = read_name,
    [HEAD_BLANKS] = read_blanks,
    [HEAD_VALUE] = read_value,
    [HEAD_VALUE_LF] = read_value_lf,
    [HEAD_END_LF] = read_end_lf,
};
_Static_assert(sizeof states / sizeof *states == HEAD_DONE, "every state reads");

void http_head_begin(struct http_head *head)
{
    memset(head, 0, offsetof(struct http_head, fields));
}

enum http_step http_head_read(struct http_head *head, const char *bytes, size_t len, struct err *err)
{
    while (head->state != HEAD_DONE) {
        if (head->at >= len)
            return HTTP_MORE;
        if (!states[head->state](head, bytes, len, err))
            return HTTP_BAD;
    }
    return HTTP_DONE;
}

struct str http_head_method(const struct http_head *head, const char *bytes)
{
    return (struct str){ bytes + head->line_at, head->method_len };
}

struct str http_head_target(const struct http_head *head, const char *bytes)
{
    return (struct str){ bytes + head->target_at, head->target_len };
}

struct str http_head_find(const struct http_head *head, const char *bytes, struct str name)
{
    for (uint32_t i = 0; i < head->n_fields; i++) {
        const struct http_field *field = &head->fields[i];
        if (str_is((struct str){ bytes + field->name_at, field->name_len }, name))
            return (struct str){ bytes + field->value_at, field->value_len };
    }
    return (struct str){ 0 };
}
