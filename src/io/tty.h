/* tty: what a terminal is and can do, for the command line; plain text where there is none. */
#ifndef WEIR_IO_TTY_H
#define WEIR_IO_TTY_H

#include "base/str.h"

struct tty_size {
    unsigned columns, rows;
};
bool tty_is(int fd);
struct tty_size tty_size(int fd); /* the terminal's, else COLUMNS and LINES, else 80 x 24 */

/* tty_colour: a terminal, not TERM=dumb, NO_COLOR not set, and nobody said --no-color. */
bool tty_colour(int fd, bool no_color_option);

/* tty_raw_on: keys come one by one and unechoed, signals from keys (^C) stay; false when fd is no terminal. The old state is restored by
 * tty_raw_off (async-signal-safe), and at exit. One terminal at a time. */
bool tty_raw_on(int fd);
void tty_raw_off(void);

/* tty_width: characters that s takes on a terminal; escape sequences take none. tty_clip: the longest part that fits. */
size_t tty_width(struct str s);
struct str tty_clip(struct str s, size_t columns);

/* A line that is written over and over (on a terminal), or now and then (elsewhere: when it has changed, every 2 s at most). */
struct tty_progress {
    int fd;
    bool terminal, shown;
    int64_t printed_ms; /* boot time */
    uint64_t printed_hash;
};
void tty_progress_begin(struct tty_progress *out, int fd);
void tty_progress_show(struct tty_progress *progress, struct str line);
void tty_progress_clear(struct tty_progress *progress);                /* takes the line away, before other output */
void tty_progress_end(struct tty_progress *progress, struct str last); /* the last line stays; empty: none */

#endif
