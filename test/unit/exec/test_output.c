/* Outputs as JSON, base64 by the RFC's own examples, the log file's limit and mark. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "exec/base64.h"
#include "exec/output.h"
#include "exec/log_file.h"

static void outputs(void **state)
{
    (void)state;
    static const struct {
        const char *text, *json;
        size_t left, len; /* len 0: as long as the text is */
    } rows[] = {
        { "a=1\nb=2\n", "{\"a\":\"1\",\"b\":\"2\"}", 0, 0 },
        { "a=1", "{\"a\":\"1\"}", 0, 0 },
        { "a=1\na=2\n", "{\"a\":\"2\"}", 0, 0 },
        { "  name \t= value \n", "{\"name\":\" value \"}", 0, 0 },
        { "a=b=c\r\n", "{\"a\":\"b=c\"}", 0, 0 },
        { "none\n=x\n\n\nk=\n", "{\"k\":\"\"}", 2, 0 },
        { "q=\"\\\n", "{\"q\":\"\\\"\\\\\"}", 0, 0 },
        { "", "{}", 0, 0 },
        { "a\0b=1\nc=\0\n", "{\"c\":\"\\u0000\"}", 1, 10 },
        { "\xff=1\n\xfe=2\n\xc3\xa4=3\n", "{\"\xc3\xa4\":\"3\"}", 2, 0 },
        { "k=\xff\n", "{\"k\":\"\xef\xbf\xbd\"}", 0, 0 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct buf out;
        size_t left;
        buf_init(&out, 1 << 20);
        struct json json = json_to(&out);
        output_put((struct str){ rows[i].text, rows[i].len ? rows[i].len : strlen(rows[i].text) }, &json, &left);
        assert_string_equal(out.ptr, rows[i].json);
        assert_int_equal(left, rows[i].left);
        buf_release(&out);
    }
}

/* What isn't UTF-8 grows when it is told: a value that the server would refuse for its length isn't told at all. */
static void output_grows(void **state)
{
    (void)state;
    static char text[OUTPUT_BYTES_MAX];
    struct buf out;
    size_t left;
    for (size_t bytes = 21000; bytes < 24000; bytes += 2000) {
        memset(text, 0xff, bytes);
        memcpy(text, "v=", 2);
        buf_init(&out, OUTPUT_JSON_MAX);
        struct json json = json_to(&out);
        output_put((struct str){ text, bytes }, &json, &left);
        assert_false(out.full);
        assert_int_equal(left, (bytes - 2) * 3 > OUTPUT_VALUE_BYTES_MAX);
        buf_release(&out);
    }
}

static void found_by_name(void **state)
{
    (void)state;
    struct str text = STR("a=1\nrevision = 7 \nrevisions=8\n\nrevision=r=9\r\nb");
    assert_true(str_eqz(output_find(text, STR("revision")), "r=9"));
    assert_true(str_eqz(output_find(text, STR("a")), "1"));
    assert_int_equal(output_find(text, STR("b")).len, 0);
    assert_int_equal(output_find(STR(""), STR("b")).len, 0);
}

static void base64(void **state)
{
    (void)state;
    static const char *const rows[][2] = { { "", "" }, { "f", "Zg==" }, { "fo", "Zm8=" }, { "foo", "Zm9v" },
        { "foob", "Zm9vYg==" }, { "\xff\xfe\xfb", "//77" } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct buf out;
        buf_init(&out, 100);
        buf_add_z(&out, "");
        base64_add(&out, str_of(rows[i][0]));
        assert_true(str_eqz(buf_str(&out), rows[i][1]));
        buf_release(&out);
    }
}

static void log_file_limit(void **state)
{
    (void)state;
    FILE *file = tmpfile();
    assert_non_null(file);
    struct log_file log;
    char text[200] = "";
    log_file_open(&log, fileno(file), 10);
    log_file_add(&log, STR("12345"));
    log_file_add(&log, STR("6789abc"));
    log_file_add(&log, STR("def"));
    log_file_close(&log);
    ssize_t n = pread(fileno(file), text, sizeof text - 1, 0);
    assert_string_equal(text, "123456789a\n[weir: log cut at 10 bytes, 5 bytes dropped]\n");
    assert_int_equal((uint64_t)n, log.bytes);
    fclose(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(outputs), cmocka_unit_test(output_grows),
        cmocka_unit_test(found_by_name), cmocka_unit_test(base64), cmocka_unit_test(log_file_limit) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
