/* Numbers, times, durations, sizes, packed numbers, UTF-8: what is read is written back and read again as the same. */
#include "base/when.h"
#include "fuzz.h"

#define SHAPES(X) X(integer) X(varint) X(time) X(duration) X(size) X(utf8) X(not_utf8)
FUZZ_SHAPES(SHAPES)

static void numbers(struct str s)
{
    struct buf buf;
    int64_t i, i_back;
    uint64_t u, u_back;
    buf_init(&buf, 64);
    if (str_to_i64(s, &i)) {
        SEEN(integer);
        buf_add_i64(&buf, i);
        HOLDS(str_to_i64(buf_str(&buf), &i_back) && i_back == i);
    }
    buf_reset(&buf);
    if (str_to_u64(s, &u)) {
        buf_add_u64(&buf, u);
        HOLDS(str_to_u64(buf_str(&buf), &u_back) && u_back == u);
    }
    buf_reset(&buf);
    struct str rest = s;
    while (str_cut_varint(&rest, &u)) {
        SEEN(varint);
        size_t taken = s.len - rest.len;
        buf_add_varint(&buf, u);
        HOLDS(str_eq(buf_str(&buf), str_sub(s, 0, taken))); /* one form only */
        buf_reset(&buf);
        s = rest;
    }
    buf_release(&buf);
}

static void texts(struct str s)
{
    int64_t ms, back;
    uint64_t bytes, bytes_back;
    if (when_parse(s, &ms)) {
        SEEN(time);
        HOLDS(when_parse(str_of(when_format(ms).z), &back) && back == ms);
    }
    if (duration_parse(s, &ms)) {
        SEEN(duration);
        HOLDS(ms >= 0 && duration_parse(str_of(duration_format(ms).z), &back) && back == ms);
        HOLDS(strlen(duration_human(ms).z) < sizeof(struct when_text));
    }
    if (size_parse(s, &bytes)) {
        SEEN(size);
        HOLDS(size_parse(str_of(size_format(bytes).z), &bytes_back) && bytes_back == bytes);
    }
}

static void views(struct str s)
{
    static const struct str words[] = { { "depends", 7 }, { "after", 5 }, { "cancels", 7 }, { "not_before", 10 } };
    struct str closest = str_closest(s, words, 4), head, rest = s;
    bool known = false;
    for (size_t i = 0; i < 4; i++) {
        known = known || closest.ptr == words[i].ptr;
    }
    HOLDS(!closest.len || known);
    HOLDS(str_chars(s) <= s.len);
    SEEN_IF(utf8, str_is_utf8(s));
    SEEN_IF(not_utf8, !str_is_utf8(s));
    size_t total = 0;
    while (str_cut(&rest, ',', &head)) {
        total += head.len + 1;
        HOLDS(str_index(head, ',') < 0);
    }
    HOLDS(total == s.len || total == s.len + 1 || !s.len);
    /* UTF-8 that is cut anywhere is whole on both sides or on neither */
    if (s.len < 2000 && str_is_utf8(s)) {
        for (size_t i = 0; i <= s.len; i++) {
            HOLDS(str_is_utf8(str_sub(s, 0, i)) == str_is_utf8(str_sub(s, i, s.len)));
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct str s = { (const char *)bytes, len };
    numbers(s);
    texts(s);
    views(s);
    return 0;
}
