/* changeset_name: the file name of a change set, CSID_TAI_PID_HOST_PRIO_EXTRA, and the order of change sets.
 *
 *   c-17_400000006745f2c41d3a5b80_812_node-a_BF5_ada
 *
 * No part is empty, and no part but the whole has a '_'. TAI is a TAI64N label (text/tai64n.h), PID a number, HOST and
 * EXTRA letters, digits, '.' and '-', PRIO the move type and at most two digits. The longest name leaves room for the
 * endings that the spool adds in corrupt/ (".TAI64N.why") within the 255 bytes of a file name.
 *
 * Parsing is strict: what is accepted formats back to the same bytes. Views point into the text that was parsed. */
#ifndef WEIR_TEXT_CHANGESET_NAME_H
#define WEIR_TEXT_CHANGESET_NAME_H

#include "base/buf.h"
#include "text/changeset.h"
#include "text/tai64n.h"

#define CHANGESET_PID_MAX INT32_MAX
#define CHANGESET_HOST_CHARS_MAX 64
#define CHANGESET_EXTRA_CHARS_MAX 48
#define CHANGESET_NAME_BYTES_MAX \
    (CSID_CHARS_MAX + TAI64N_CHARS + 10 + CHANGESET_HOST_CHARS_MAX + 4 + CHANGESET_EXTRA_CHARS_MAX + 5)
#define CHANGESET_AHEAD_NS 60000000000 /* how far the clock of a submitter may be ahead of the server's */

struct changeset_name {
    struct str csid;
    struct tai64n tai;
    int64_t pid;
    struct str host;
    enum movetype movetype;
    int urgency;  /* the digits of PRIO as a number; without digits 0 */
    int n_digits; /* how many there are: BF, BF5 and BF05 are three names */
    struct str extra;
};

/* changeset_name_parse: false with code invalid, in words that name the part; whether TAI is ahead of the clock is
 * for changeset_name_check_time. */
bool changeset_name_parse(struct str text, struct changeset_name *out, struct err *err);
bool changeset_name_check_time(const struct changeset_name *name, int64_t now_ns, struct err *err);
void changeset_name_format(struct buf *out, const struct changeset_name *name);

/* changeset_name_part: any text made into a HOST (max: CHANGESET_HOST_CHARS_MAX) or EXTRA: other characters than
 * letters, digits, '.' and '-' become '-', one for a character; cut at max; of nothing it makes "-". */
struct str changeset_name_part(struct arena *arena, struct str text, size_t max);

/* changeset_name_compare: the order in which change sets are taken: move type (RB, EM, BF, DC), digits (larger first),
 * TAI (earlier first), the bytes of the name. Zero only for equal names. */
int changeset_name_compare(const struct changeset_name *a, const struct changeset_name *b);

/* changeset_name_key: text that sorts bytewise as changeset_name_compare does; ends in the name itself. */
void changeset_name_key(struct buf *out, const struct changeset_name *name);

int changeset_priority(const struct changeset_name *name); /* of its task: 900 RB, 600 EM, 300 BF, 0 DC, plus digits */

#endif
