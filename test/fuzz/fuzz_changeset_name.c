/* Names of change sets: what is accepted formats back to the same bytes; of two names the order of the parsed parts,
 * the order of their sort keys and the order of a walk over the texts are one. The input is two names, a newline
 * between them. */
#include "fuzz.h"
#include "text/changeset_name.h"

#define SHAPES(X) \
    X(refused) X(accepted) X(two) X(by_movetype) X(by_digits) X(by_tai) X(by_name) X(equal) X(label) X(digits) X(ahead)
FUZZ_SHAPES(SHAPES)

static bool name_take(struct str text, struct changeset_name *out)
{
    struct err err = { 0 };
    struct buf buf;
    if (!changeset_name_parse(text, out, &err)) {
        SEEN(refused);
        HOLDS(err.code == ERR_invalid && err.text[0] && str_is_utf8(str_of(err.text)));
        return false;
    }
    SEEN(accepted);
    SEEN_IF(digits, out->n_digits > 0);
    HOLDS(text.len <= CHANGESET_NAME_BYTES_MAX);
    buf_init(&buf, 1000);
    changeset_name_format(&buf, out);
    HOLDS(str_eq(buf_str(&buf), text));
    buf_release(&buf);
    HOLDS(changeset_priority(out) >= 0 && changeset_priority(out) <= 999);
    bool in_time = changeset_name_check_time(out, 1795000000000000000, &err);
    SEEN_IF(ahead, !in_time);
    HOLDS(in_time == (tai64n_compare(out->tai, tai64n_from_ns(1795000060000000000)) <= 0));
    return true;
}

/* part_at: the n-th part of a name, from its text. */
static struct str part_at(struct str text, int n)
{
    struct str part = { 0 };
    for (int i = 0; i <= n; i++)
        str_cut(&text, '_', &part);
    return part;
}

static int sign(int n)
{
    return (n > 0) - (n < 0);
}

static int texts_compare(struct str a, struct str b)
{
    static const char types[] = "RBEMBFDC";
    struct str prio_a = part_at(a, 4), prio_b = part_at(b, 4);
    long digits[2] = { 0, 0 };
    for (size_t i = 2; i < prio_a.len; i++)
        digits[0] = digits[0] * 10 + prio_a.ptr[i] - '0';
    for (size_t i = 2; i < prio_b.len; i++)
        digits[1] = digits[1] * 10 + prio_b.ptr[i] - '0';
    const char *rank_a = memmem(types, 8, prio_a.ptr, 2), *rank_b = memmem(types, 8, prio_b.ptr, 2);
    if (rank_a != rank_b) {
        SEEN(by_movetype);
        return rank_a < rank_b ? -1 : 1;
    }
    if (digits[0] != digits[1]) {
        SEEN(by_digits);
        return digits[0] > digits[1] ? -1 : 1;
    }
    int order = str_cmp(part_at(a, 1), part_at(b, 1));
    if (order != 0) {
        SEEN(by_tai);
        return sign(order);
    }
    order = str_cmp(a, b);
    SEEN_IF(by_name, order != 0);
    SEEN_IF(equal, order == 0);
    return sign(order);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct str text = { (const char *)bytes, len }, first = { 0 }, second;
    struct changeset_name a, b;
    struct tai64n tai;
    if (tai64n_parse(text, &tai)) {
        SEEN(label);
        HOLDS(str_eqz(text, tai64n_format(tai).z));
        int64_t ns;
        HOLDS(!tai64n_to_ns(tai, &ns) || tai64n_compare(tai, tai64n_from_ns(ns)) == 0);
    }
    second = text;
    str_cut(&second, '\n', &first);
    bool both = name_take(first, &a);
    both &= name_take(second, &b);
    if (!both)
        return 0;
    SEEN(two);
    int order = texts_compare(first, second);
    HOLDS(changeset_name_compare(&a, &b) == order && changeset_name_compare(&b, &a) == -order);
    struct buf key_a, key_b;
    buf_init(&key_a, 1000);
    buf_init(&key_b, 1000);
    changeset_name_key(&key_a, &a);
    changeset_name_key(&key_b, &b);
    HOLDS(sign(str_cmp(buf_str(&key_a), buf_str(&key_b))) == order);
    buf_release(&key_a);
    buf_release(&key_b);
    return 0;
}
