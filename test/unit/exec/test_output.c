/* Outputs as JSON, base64 by the RFC's own examples, the spool's limit and mark. */
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
#include "exec/spool.h"

static void outputs(void **state)
{
    (void)state;
    static const struct {
        const char *text, *json;
        size_t left;
    } rows[] = {
        { "a=1\nb=2\n", "{\"a\":\"1\",\"b\":\"2\"}", 0 },
        { "a=1", "{\"a\":\"1\"}", 0 },
        { "a=1\na=2\n", "{\"a\":\"2\"}", 0 },
        { "  name \t= value \n", "{\"name\":\" value \"}", 0 },
        { "a=b=c\r\n", "{\"a\":\"b=c\"}", 0 },
        { "none\n=x\n\n\nk=\n", "{\"k\":\"\"}", 2 },
        { "q=\"\\\n", "{\"q\":\"\\\"\\\\\"}", 0 },
        { "", "{}", 0 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct buf out;
        size_t left;
        buf_init(&out, 1 << 20);
        struct json json = json_to(&out);
        output_put(str_of(rows[i].text), &json, &left);
        assert_string_equal(out.ptr, rows[i].json);
        assert_int_equal(left, rows[i].left);
        buf_release(&out);
    }
}

static void base64(void **state)
{
    (void)state;
    static const char *const rows[][2] = { { "", "" }, { "f", "Zg==" }, { "fo", "Zm8=" }, { "foo", "Zm9v" }, { "foob", "Zm9vYg==" },
        { "\xff\xfe\xfb", "//77" } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct buf out;
        buf_init(&out, 100);
        buf_add_z(&out, "");
        base64_add(&out, str_of(rows[i][0]));
        assert_true(str_eqz(buf_str(&out), rows[i][1]));
        buf_release(&out);
    }
}

static void spool_limit(void **state)
{
    (void)state;
    FILE *file = tmpfile();
    assert_non_null(file);
    struct spool spool;
    char text[200] = "";
    spool_open(&spool, fileno(file), 10);
    spool_add(&spool, STR("12345"));
    spool_add(&spool, STR("6789abc"));
    spool_add(&spool, STR("def"));
    spool_close(&spool);
    ssize_t n = pread(fileno(file), text, sizeof text - 1, 0);
    assert_string_equal(text, "123456789a\n[weir: log cut at 10 bytes, 5 bytes dropped]\n");
    assert_int_equal((uint64_t)n, spool.bytes);
    fclose(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(outputs), cmocka_unit_test(base64), cmocka_unit_test(spool_limit) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
