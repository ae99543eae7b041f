/* blobs: pieces become files under their hash; what isn't sealed isn't there; nothing survives a crash half. */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "store/blobs.h"

#define ABC "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" /* of "abc" */

static char *folder_new(void)
{
    static char path[64];
    snprintf(path, sizeof path, "/tmp/weir-blobs-XXXXXX");
    return mkdtemp(path);
}

static void folder_remove(const char *path)
{
    char command[PATH_MAX];
    snprintf(command, sizeof command, "%s", path);
    const char *const left[] = { ("blobs/ba/" ABC), "blobs/ba", "blobs/new", "blobs", "" };
    for (size_t i = 0; i < sizeof left / sizeof *left; i++) {
        snprintf(command, sizeof command, "%s/%s", path, left[i]);
        remove(command);
    }
}

static void pieces_become_a_blob(void **state)
{
    (void)state;
    struct err err = { 0 };
    const char *folder = folder_new();
    struct blobs *blobs = blobs_open(folder, &err);
    struct blob blob, found;
    assert_non_null(blobs);
    assert_true(blobs_append(blobs, "1-1-a", 0, STR("a"), 100, &err));
    assert_true(blobs_append(blobs, "1-1-a", 1, STR("xx"), 100, &err));
    assert_true(blobs_append(blobs, "1-1-a", 1, STR("bc"), 100, &err)); /* again: the newer bytes count */
    assert_false(blobs_find(blobs, str_of(ABC), &found, &err));
    assert_int_equal(err.code, ERR_not_found);
    err.code = ERR_none;
    assert_true(blobs_seal(blobs, "1-1-a", &blob, &err));
    assert_string_equal(blob.hex, ABC);
    assert_int_equal(blob.bytes, 3);
    assert_true(blobs_find(blobs, str_of(ABC), &found, &err) && found.bytes == 3);
    struct buf out;
    buf_init(&out, 100);
    assert_true(blobs_read(blobs, ABC, 1, 50, &out, &err));
    assert_true(str_eqz(buf_str(&out), "bc"));
    buf_release(&out);
    assert_false(blobs_seal(blobs, "1-1-a", &blob, &err)); /* it is one no more */
    blobs_close(blobs);
    folder_remove(folder);
}

static void refuses_what_does_not_fit(void **state)
{
    (void)state;
    struct err err = { 0 };
    const char *folder = folder_new();
    struct blobs *blobs = blobs_open(folder, &err);
    struct blob blob;
    assert_false(blobs_append(blobs, "k", 5, STR("x"), 100, &err));
    assert_true(err.code == ERR_log_gap && err.expected == 0);
    assert_false(blobs_append(blobs, "k", 0, STR("12345"), 4, &err));
    assert_int_equal(err.code, ERR_body_too_large);
    assert_false(blobs_append(blobs, "../k", 0, STR("1"), 4, &err));
    assert_false(blobs_append(blobs, "", 0, STR("1"), 4, &err));
    assert_false(blobs_find(blobs, STR("../../etc/passwd"), &blob, &err));
    assert_int_equal(err.code, ERR_not_found);
    blobs_close(blobs);
    folder_remove(folder);
}

static void a_restart_forgets_half_files(void **state)
{
    (void)state;
    struct err err = { 0 };
    const char *folder = folder_new();
    struct blobs *blobs = blobs_open(folder, &err);
    struct blob blob;
    assert_true(blobs_append(blobs, "k", 0, STR("abc"), 100, &err));
    blobs_close(blobs);
    blobs = blobs_open(folder, &err);
    assert_false(blobs_append(blobs, "k", 3, STR("d"), 100, &err));
    assert_true(err.code == ERR_log_gap && err.expected == 0);
    assert_true(blobs_append(blobs, "k", 0, STR("abc"), 100, &err));
    assert_true(blobs_seal(blobs, "k", &blob, &err));
    blobs_close(blobs);
    blobs = blobs_open(folder, &err);
    assert_true(blobs_find(blobs, str_of(ABC), &blob, &err));
    blobs_close(blobs);
    folder_remove(folder);
}

static bool wants(const char *hex, void *owner)
{
    return owner != NULL && strcmp(hex, ABC) == 0;
}

static void sweeps_what_nobody_wants(void **state)
{
    (void)state;
    struct err err = { 0 };
    const char *folder = folder_new();
    struct blobs *blobs = blobs_open(folder, &err);
    struct blob blob;
    assert_true(blobs_append(blobs, "k", 0, STR("abc"), 100, &err) && blobs_seal(blobs, "k", &blob, &err));
    assert_int_equal(blobs_sweep(blobs, 3600, wants, NULL), 0); /* too young: its finish may be on the way */
    assert_int_equal(blobs_sweep(blobs, -10, wants, blobs), 0);
    assert_int_equal(blobs_sweep(blobs, -10, wants, NULL), 1);
    assert_false(blobs_find(blobs, str_of(ABC), &blob, &err));
    blobs_close(blobs);
    folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_become_a_blob),
        cmocka_unit_test(refuses_what_does_not_fit),
        cmocka_unit_test(a_restart_forgets_half_files),
        cmocka_unit_test(sweeps_what_nobody_wants),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
