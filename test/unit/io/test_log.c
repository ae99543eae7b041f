/* Log lines: what is quoted, what is cut. */
#include "bed.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/log.h"

static void quotes(void **state)
{
    (void)state;
    assert_string_equal(log_quote(STR("plain-1.2")).z, "plain-1.2");
    assert_string_equal(log_quote(STR("")).z, "\"\"");
    assert_string_equal(log_quote(STR("two words")).z, "\"two words\"");
    assert_string_equal(log_quote(STR("a\"b\\c\nd\te\x01")).z, "\"a\\\"b\\\\c\\nd\\te\\x01\"");
    assert_string_equal(log_quote(STR("gr\xc3\xbc\xc3\x9f"
                                      "e"))
                            .z,
        "gr\xc3\xbc\xc3\x9f"
        "e");
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

/* A file that is bounded: the newest lines are in it, those before in the one beside it, and no more. */
static void log_bounded(void **state)
{
    (void)state;
    char dir[] = "/tmp/weir-log-XXXXXX", path[64], older[64];
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/x.log", dir);
    snprintf(older, sizeof older, "%s/x.log.1", dir);
    int kept = dup(STDERR_FILENO), fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    dup2(fd, STDERR_FILENO);
    close(fd);
    log_bound(path, 4096);
    for (int i = 100; i < 580; i++)
        log_event("test.bound", "n=%d", i);
    log_bound("", 0);
    dup2(kept, STDERR_FILENO);
    close(kept);
    struct stat st;
    static char text[10000];
    assert_true(stat(older, &st) == 0 && st.st_size > 4096 && st.st_size < 4096 + 100);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    assert_true(n > 0 && n <= 4096);
    assert_non_null(strstr(text, "n=579\n"));
    unlink(path);
    unlink(older);
    assert_int_equal(rmdir(dir), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(quotes), cmocka_unit_test(log_lines),
        cmocka_unit_test(log_bounded) };
    return cmocka_run_group_tests_name("io-log", tests, NULL, NULL);
}
