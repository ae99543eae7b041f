/* tty: terminals, for the command line (see tty.h).
 *
 * Promises that the terminal is left as it was found, also when the program exits from the middle of something.
 *
 * A terminal that refuses to be asked is treated as no terminal; output that can't be written is dropped: it was only progress. */
#include "io/tty.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "io/clock.h"

enum { TTY_PLAIN_MS = 2000, TTY_COLUMNS_MAX = 10000 };

bool tty_is(int fd)
{
    return isatty(fd) == 1;
}

static unsigned tty_env_number(const char *name, unsigned otherwise)
{
    uint64_t n;
    const char *text = getenv(name);
    return text && str_to_u64(str_of(text), &n) && n > 0 && n <= TTY_COLUMNS_MAX ? (unsigned)n : otherwise;
}

struct tty_size tty_size(int fd)
{
    struct winsize size = { 0 };
    if (ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0)
        return (struct tty_size){ size.ws_col, size.ws_row };
    return (struct tty_size){ tty_env_number("COLUMNS", 80), tty_env_number("LINES", 24) };
}

bool tty_colour(int fd, bool no_color_option)
{
    const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
    if (no_color_option || (no_color && *no_color) || (term && strcmp(term, "dumb") == 0))
        return false;
    return tty_is(fd);
}

static struct termios tty_saved;
static volatile int tty_raw_fd = -1;

bool tty_raw_on(int fd)
{
    static bool registered;
    struct termios raw;
    if (tty_raw_fd >= 0 || tcgetattr(fd, &tty_saved) != 0)
        return tty_raw_fd == fd && fd >= 0;
    raw = tty_saved;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    if (!registered) {
        registered = true;
        if (atexit(tty_raw_off) != 0)
            return false;
    }
    if (tcsetattr(fd, TCSAFLUSH, &raw) != 0)
        return false;
    tty_raw_fd = fd;
    return true;
}

void tty_raw_off(void)
{
    int fd = tty_raw_fd;
    tty_raw_fd = -1;
    if (fd >= 0)
        tcsetattr(fd, TCSADRAIN, &tty_saved);
}

/* tty_step: bytes of the next thing in s (a character, or an escape sequence), and how many columns it takes. */
static size_t tty_step(struct str s, size_t *out_columns)
{
    size_t n = 1;
    *out_columns = 1;
    if (s.ptr[0] == '\x1b' && s.len > 1 && s.ptr[1] == '[') {
        *out_columns = 0;
        for (n = 2; n < s.len && (unsigned char)s.ptr[n] < 0x40; n++)
            ;
        return n < s.len ? n + 1 : n;
    }
    while (n < s.len && ((unsigned char)s.ptr[n] & 0xc0) == 0x80)
        n++;
    return n;
}

size_t tty_width(struct str s)
{
    size_t width = 0, columns;
    while (s.len > 0) {
        size_t n = tty_step(s, &columns);
        width += columns;
        s = str_sub(s, n, s.len);
    }
    return width;
}

struct str tty_clip(struct str s, size_t columns)
{
    size_t at = 0, width = 0, more;
    while (at < s.len) {
        size_t n = tty_step(str_sub(s, at, s.len), &more);
        if (width + more > columns)
            break;
        width += more;
        at += n;
    }
    return str_sub(s, 0, at);
}

static void tty_put(int fd, struct str s)
{
    while (s.len > 0) {
        ssize_t n = write(fd, s.ptr, s.len);
        if (n <= 0)
            return;
        s = str_sub(s, (size_t)n, s.len);
    }
}

void tty_progress_begin(struct tty_progress *out, int fd)
{
    *out = (struct tty_progress){ .fd = fd, .terminal = tty_is(fd) };
}

void tty_progress_show(struct tty_progress *progress, struct str line)
{
    if (progress->terminal) {
        size_t columns = tty_size(progress->fd).columns;
        tty_put(progress->fd, STR("\r"));
        tty_put(progress->fd, tty_clip(line, columns - 1)); /* the last column would wrap */
        tty_put(progress->fd, STR("\x1b[0m\x1b[K"));
        progress->shown = true;
        return;
    }
    int64_t now = clock_boot_ms();
    uint64_t hash = str_hash(line);
    if (progress->shown && (hash == progress->printed_hash || now - progress->printed_ms < TTY_PLAIN_MS))
        return;
    tty_put(progress->fd, line);
    tty_put(progress->fd, STR("\n"));
    progress->shown = true;
    progress->printed_ms = now;
    progress->printed_hash = hash;
}

void tty_progress_clear(struct tty_progress *progress)
{
    if (progress->terminal && progress->shown)
        tty_put(progress->fd, STR("\r\x1b[K"));
    if (progress->terminal)
        progress->shown = false;
}

void tty_progress_end(struct tty_progress *progress, struct str last)
{
    tty_progress_clear(progress);
    if (last.len > 0 && (progress->terminal || !progress->shown || str_hash(last) != progress->printed_hash)) {
        tty_put(progress->fd, last);
        tty_put(progress->fd, STR("\n"));
    }
}
