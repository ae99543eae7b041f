/* tai64n: TAI64N labels. Owns the one form of a label: what tai64n_parse takes, tai64n_format writes. See tai64n.h for
 * why leap seconds don't count. */
#include "text/tai64n.h"

#include "base/err.h"

#define SECOND_NS 1000000000

struct tai64n tai64n_from_ns(int64_t unix_ns)
{
    int64_t seconds = unix_ns / SECOND_NS, rest = unix_ns % SECOND_NS;
    if (rest < 0) { /* before 1970: the nanoseconds count forwards, too */
        seconds--;
        rest += SECOND_NS;
    }
    return (struct tai64n){ TAI64N_EPOCH + (uint64_t)seconds, (uint32_t)rest };
}

bool tai64n_to_ns(struct tai64n tai, int64_t *out_ns)
{
    int64_t seconds = (int64_t)(tai.seconds - TAI64N_EPOCH), ns;
    if (seconds < 0) /* towards zero first: the smallest int64_t has a part of a second below it */
        return !__builtin_mul_overflow(seconds + 1, SECOND_NS, &ns) &&
               !__builtin_add_overflow(ns, (int64_t)tai.nanoseconds - SECOND_NS, out_ns);
    return !__builtin_mul_overflow(seconds, SECOND_NS, &ns) &&
           !__builtin_add_overflow(ns, (int64_t)tai.nanoseconds, out_ns);
}

/* hex_read: lower case only, as every tool writes it; 16 digits at most. */
static bool hex_read(struct str text, uint64_t *out)
{
    uint64_t n = 0;
    for (size_t i = 0; i < text.len; i++) {
        int digit = text.ptr[i] >= 'A' && text.ptr[i] <= 'F' ? -1 : hex_digit(text.ptr[i]);
        if (digit < 0)
            return false;
        n = n << 4 | (uint64_t)digit;
    }
    *out = n;
    return true;
}

bool tai64n_parse(struct str text, struct tai64n *out)
{
    uint64_t seconds, nanoseconds;
    if (text.len != TAI64N_CHARS || !hex_read(str_sub(text, 0, 16), &seconds) ||
        !hex_read(str_sub(text, 16, TAI64N_CHARS), &nanoseconds))
        return false;
    if (seconds >> 63 != 0 || nanoseconds >= SECOND_NS) /* labels from 2^63 on are reserved */
        return false;
    *out = (struct tai64n){ seconds, (uint32_t)nanoseconds };
    return true;
}

struct tai64n_text tai64n_format(struct tai64n tai)
{
    static const char digits[] = "0123456789abcdef";
    struct tai64n_text text = { .z = "" };
    ASSERT(tai.seconds >> 63 == 0 && tai.nanoseconds < SECOND_NS);
    for (size_t i = 0; i < 16; i++)
        text.z[i] = digits[tai.seconds >> (60 - 4 * i) & 15];
    for (size_t i = 0; i < 8; i++)
        text.z[16 + i] = digits[tai.nanoseconds >> (28 - 4 * i) & 15];
    return text;
}

int tai64n_compare(struct tai64n a, struct tai64n b)
{
    if (a.seconds != b.seconds)
        return a.seconds < b.seconds ? -1 : 1;
    return (a.nanoseconds > b.nanoseconds) - (a.nanoseconds < b.nanoseconds);
}

bool tai64n_is_ahead(struct tai64n tai, int64_t now_ns, int64_t ahead_ns)
{
    int64_t last;
    return !__builtin_add_overflow(now_ns, ahead_ns, &last) && tai64n_compare(tai, tai64n_from_ns(last)) > 0;
}
