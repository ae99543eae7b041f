/* mask: the secret never comes out, however it is written and cut; everything else does, byte for byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "exec/base64.h"
#include "exec/mask.h"

static const char secret[] = "0f1e2d3c4b5a69788796a5b4c3d2e1f0";

static void keep(void *owner, struct str bytes)
{
    buf_add(owner, bytes.ptr, bytes.len);
}

/* in pieces of `step` bytes */
static struct buf masked(struct str text, size_t step)
{
    struct mask mask = { 0 };
    struct buf out;
    buf_init(&out, 1 << 20);
    mask_set(&mask, str_of(secret));
    for (size_t at = 0; at < text.len; at += step)
        mask_add(&mask, str_sub(text, at, at + step < text.len ? at + step : text.len), keep, &out);
    mask_end(&mask, keep, &out);
    return out;
}

static void check(const char *text, const char *wanted)
{
    for (size_t step = 1; step <= strlen(text); step++) {
        struct buf out = masked(str_of(text), step);
        assert_string_equal(out.ptr, wanted);
        buf_release(&out);
    }
}

static void every_form_in_every_cut(void **state)
{
    (void)state;
    char text[400], hex[100], percent[200];
    check("plain 0f1e2d text\n", "plain 0f1e2d text\n");
    snprintf(text, sizeof text, "weirjob_I-1-1_%s\n", secret);
    check(text, "weirjob_I-1-1_***\n");
    snprintf(text, sizeof text, "%s%s0f1e%s0f1e2d3", secret, secret, secret);
    check(text, "******0f1e***0f1e2d3");
    for (size_t i = 0; secret[i]; i++) {
        snprintf(hex + 2 * i, sizeof hex - 2 * i, "%02x", (unsigned)secret[i]);
        snprintf(percent + 3 * i, sizeof percent - 3 * i, "%%%02X", (unsigned)secret[i]);
    }
    snprintf(text, sizeof text, "a %s b %s c", hex, percent);
    check(text, "a *** b *** c");
}

static void base64_wherever_it_begins(void **state)
{
    (void)state;
    for (size_t before = 0; before < 6; before++) {
        char plain[200];
        struct buf text;
        snprintf(plain, sizeof plain, "%.*s%s end", (int)before, "xyzxyz", secret);
        buf_init(&text, 1000);
        base64_add(&text, str_of(plain));
        for (size_t step = 1; step <= text.len; step++) {
            struct buf out = masked(buf_str(&text), step);
            assert_non_null(strstr(out.ptr, "***"));
            assert_true(out.len < text.len - 36); /* but for what its neighbours share */
            buf_release(&out);
        }
        buf_release(&text);
    }
}

static void nothing_else_is_changed(void **state)
{
    (void)state;
    struct rng rng;
    rng_seed(&rng, 7);
    for (int round = 0; round < 3000; round++) { /* much of it beginnings of the secret */
        char text[300];
        size_t n = 0;
        while (n < 200) {
            size_t len = rng_below(&rng, 31);
            memcpy(text + n, secret, len);
            n += len;
            text[n++] = (char)rng_below(&rng, 256);
        }
        if (memmem(text, n, secret, strlen(secret)) != NULL)
            continue;
        struct buf out = masked((struct str){ text, n }, 1 + rng_below(&rng, 60));
        assert_int_equal(out.len, n);
        assert_memory_equal(out.ptr, text, n);
        buf_release(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(every_form_in_every_cut),
        cmocka_unit_test(base64_wherever_it_begins), cmocka_unit_test(nothing_else_is_changed) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
