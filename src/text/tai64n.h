/* tai64n: moments as TAI64N labels: 24 hex digits, the first 16 of them seconds, the rest nanoseconds. Labels of one
 * form, so that they sort bytewise in the order of time.
 *
 * A label is 2^62 + 10 + UNIX seconds, as libtai without a table of leap seconds, daemontools and its tai64nlocal write
 * and read it. True TAI is 37 s ahead of UTC since 2017; a table of leap seconds would have to be kept up to date on
 * every machine, two machines with different tables would disagree about the order of two change sets, and the common
 * tools would show times 27 s off. The price: a label written in a leap second equals one of the second before. */
#ifndef WEIR_TEXT_TAI64N_H
#define WEIR_TEXT_TAI64N_H

#include "base/str.h"

#define TAI64N_CHARS 24
#define TAI64N_EPOCH (((uint64_t)1 << 62) + 10) /* the label of 1970-01-01T00:00:00Z */

struct tai64n {
    uint64_t seconds; /* the label, below 2^63 */
    uint32_t nanoseconds;
};

struct tai64n_text {
    char z[TAI64N_CHARS + 1];
};

struct tai64n tai64n_from_ns(int64_t unix_ns);          /* nanoseconds since 1970, UTC; may be negative */
bool tai64n_to_ns(struct tai64n tai, int64_t *out_ns);  /* false: beyond what an int64_t can hold (1677 to 2262) */
bool tai64n_parse(struct str text, struct tai64n *out); /* 24 digits, lower case; nothing before or after them */
struct tai64n_text tai64n_format(struct tai64n tai);
int tai64n_compare(struct tai64n a, struct tai64n b);

/* tai64n_is_ahead: is it more than ahead_ns after now? */
bool tai64n_is_ahead(struct tai64n tai, int64_t now_ns, int64_t ahead_ns);

#endif
