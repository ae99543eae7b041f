/* Log lines and terminals: what is quoted, what is cut, what a terminal gets and what a file gets. */
#include "bed.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "io/log.h"
#include "io/tty.h"

static void quotes(void **state)
{
    (void)state;
    assert_string_equal(log_quote(STR("plain-1.2")).z, "plain-1.2");
    assert_string_equal(log_quote(STR("")).z, "\"\"");
    assert_string_equal(log_quote(STR("two words")).z, "\"two words\"");
    assert_string_equal(log_quote(STR("a\"b\\c\nd\te\x01")).z, "\"a\\\"b\\\\c\\nd\\te\\x01\"");
    assert_string_equal(log_quote(STR("gr\xc3\xbc\xc3\x9f" "e")).z, "gr\xc3\xbc\xc3\x9f" "e");
    assert_string_equal(log_quote(STR("bad\xff")).z, "\"bad\\xff\"");
    char many[1000];
    for (size_t offset = 0; offset < 4; offset++) {
        memset(many, 'a', offset);
        for (size_t i = offset; i + 1 < sizeof many; i += 2)
            memcpy(many + i, "\xc3\xa4", 2);
        size_t len = offset + (sizeof many - offset) / 2 * 2;
        struct log_quoted quoted = log_quote((struct str){ many, len });
        struct str s = str_of(quoted.z);
        assert_true(s.len < sizeof quoted.z && str_ends(s, STR("...\"")) && str_is_utf8(s));
    }
}

/* captured: what `write_some` leaves on stderr. */
static size_t captured(void (*write_some)(void), char *out, size_t size)
{
    int ends[2], old = dup(STDERR_FILENO);
    assert_int_equal(pipe(ends), 0);
    dup2(ends[1], STDERR_FILENO);
    close(ends[1]);
    write_some();
    dup2(old, STDERR_FILENO);
    close(old);
    size_t n = 0;
    ssize_t got;
    while (n + 1 < size && (got = read(ends[0], out + n, size - 1 - n)) > 0)
        n += (size_t)got;
    close(ends[0]);
    out[n] = '\0';
    return n;
}

static void write_lines(void)
{
    char lengthy[4000];
    memset(lengthy, 'x', sizeof lengthy - 1);
    lengthy[sizeof lengthy - 1] = '\0';
    log_debug("test.quiet", "n=%d", 1);
    log_event("test.one", "n=%d text=%s", 1, "a\nb");
    log_warn("test.two", "text=%s", lengthy);
    log_set_level(LOG_ERROR_);
    log_warn("test.three", "n=3");
    log_error("test.four", "n=4");
    log_set_level(LOG_INFO_);
}

static void log_lines(void **state)
{
    (void)state;
    static char out[10000];
    captured(write_lines, out, sizeof out);
    assert_int_equal(count_of(out, "\n"), 3);
    assert_memory_equal(out, "test.one time=20", 16);
    assert_non_null(strstr(out, "Z level=info n=1 text=a b\n"));
    assert_non_null(strstr(out, "xxx...\ntest.four time="));
    assert_non_null(strstr(out, "level=error n=4\n"));
}

static void clips(void **state)
{
    (void)state;
    struct str s = STR("\x1b[31mgr\xc3\xbc" "n\x1b[0m!");
    assert_int_equal(tty_width(s), 5);
    assert_true(str_eqz(tty_clip(s, 3), "\x1b[31mgr\xc3\xbc"));
    assert_true(str_eq(tty_clip(s, 5), s));
    assert_int_equal(tty_clip(s, 0).len, 5);
    assert_int_equal(tty_width(STR("\x1b[3")), 0);
    assert_int_equal(tty_width(STR("\x1b")), 1);
}

static void plain_progress(void **state)
{
    (void)state;
    int ends[2];
    char out[200] = "";
    assert_int_equal(pipe(ends), 0);
    assert_false(tty_is(ends[1]) || tty_colour(ends[1], false) || tty_raw_on(ends[1]));
    struct tty_progress progress;
    tty_progress_begin(&progress, ends[1]);
    tty_progress_show(&progress, STR("1 of 3"));
    tty_progress_show(&progress, STR("2 of 3")); /* too soon */
    tty_progress_clear(&progress);
    tty_progress_end(&progress, STR("3 of 3"));
    assert_true(read(ends[0], out, sizeof out - 1) > 0);
    assert_string_equal(out, "1 of 3\n3 of 3\n");
    close(ends[0]);
    close(ends[1]);
}

static void on_a_terminal(void **state)
{
    (void)state;
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    if (master < 0 || grantpt(master) != 0 || unlockpt(master) != 0)
        skip();
    int slave = open(ptsname(master), O_RDWR | O_NOCTTY);
    assert_true(slave >= 0);
    struct winsize size = { .ws_row = 10, .ws_col = 6 };
    assert_int_equal(ioctl(slave, TIOCSWINSZ, &size), 0);
    assert_int_equal(tty_size(slave).columns, 6);
    assert_int_equal(tty_size(slave).rows, 10);
    setenv("TERM", "xterm", 1);
    unsetenv("NO_COLOR");
    assert_true(tty_colour(slave, false));
    assert_false(tty_colour(slave, true));
    setenv("NO_COLOR", "1", 1);
    assert_false(tty_colour(slave, false));
    setenv("NO_COLOR", "", 1);
    assert_true(tty_colour(slave, false));
    setenv("TERM", "dumb", 1);
    assert_false(tty_colour(slave, false));

    struct tty_progress progress;
    char out[200] = "";
    tty_progress_begin(&progress, slave);
    tty_progress_show(&progress, STR("1234567890"));
    tty_progress_end(&progress, STR("end"));
    size_t n = 0;
    while (!strstr(out, "end")) {
        ssize_t got = read(master, out + n, sizeof out - 1 - n);
        assert_true(got > 0);
        n += (size_t)got;
    }
    assert_memory_equal(out, "\r12345\x1b[0m\x1b[K\r\x1b[Kend", 18);

    struct termios before, raw, after;
    tcgetattr(slave, &before);
    assert_true(tty_raw_on(slave));
    assert_true(tty_raw_on(slave));
    tcgetattr(slave, &raw);
    assert_int_equal(raw.c_lflag & (ICANON | ECHO), 0);
    assert_true(raw.c_lflag & ISIG);
    tty_raw_off();
    tty_raw_off();
    tcgetattr(slave, &after);
    assert_int_equal(after.c_lflag, before.c_lflag);
    close(slave);
    close(master);
}

static void sizes_without_a_terminal(void **state)
{
    (void)state;
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    setenv("COLUMNS", "100", 1);
    setenv("LINES", "x", 1);
    assert_int_equal(tty_size(fd).columns, 100);
    assert_int_equal(tty_size(fd).rows, 24);
    unsetenv("COLUMNS");
    assert_int_equal(tty_size(fd).columns, 80);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quotes),         cmocka_unit_test(log_lines),     cmocka_unit_test(clips),
        cmocka_unit_test(plain_progress), cmocka_unit_test(on_a_terminal), cmocka_unit_test(sizes_without_a_terminal),
    };
    return cmocka_run_group_tests_name("io-tty", tests, NULL, NULL);
}
