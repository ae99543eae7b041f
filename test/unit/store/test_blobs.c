/* blobs: pieces become files under their hash; what isn't sealed isn't there; nothing survives a crash half. */
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "store/blobs/blobs.h"

#define ABC "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" /* of "abc" */

static const struct upload one = { 1, 1, { "acme", 4 }, "a", 0 }, plain = { .name = "k" };

static char *folder_new(void)
{
    static char path[64];
    snprintf(path, sizeof path, "/tmp/weir-blobs-XXXXXX");
    return mkdtemp(path);
}

static int entry_remove(const char *path, const struct stat *st, int kind, struct FTW *place)
{
    (void)st, (void)kind, (void)place;
    return remove(path);
}

static void folder_remove(const char *path)
{
    nftw(path, entry_remove, 16, FTW_DEPTH | FTW_PHYS);
}

static void pieces_become_a_blob(void **state)
{
    (void)state;
    struct err err = { 0 };
    const char *folder = folder_new();
    struct blobs *blobs = blobs_open(folder, &err);
    struct blob blob, found;
    assert_non_null(blobs);
    assert_true(blobs_append(blobs, &one, 0, STR("a"), 100, &err));
    assert_true(blobs_append(blobs, &one, 1, STR("xx"), 100, &err));
    assert_true(blobs_append(blobs, &one, 1, STR("bc"), 100, &err)); /* again: the newer bytes count */
    assert_false(blobs_find(blobs, str_of(ABC), &found, &err));
    assert_int_equal(err.code, ERR_not_found);
    err.code = ERR_none;
    assert_true(blobs_seal(blobs, &one, &blob, &err));
    assert_string_equal(blob.hex, ABC);
    assert_int_equal(blob.bytes, 3);
    assert_true(blobs_find(blobs, str_of(ABC), &found, &err) && found.bytes == 3);
    struct buf out;
    buf_init(&out, 100);
    assert_true(blobs_read(blobs, ABC, 1, 50, &out, &err));
    assert_true(str_eqz(buf_str(&out), "bc"));
    buf_release(&out);
    assert_false(blobs_seal(blobs, &one, &blob, &err)); /* it is one no more */
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
    assert_false(blobs_append(blobs, &plain, 5, STR("x"), 100, &err));
    assert_true(err.code == ERR_log_gap && err.expected == 0);
    assert_false(blobs_append(blobs, &plain, 0, STR("12345"), 4, &err));
    assert_int_equal(err.code, ERR_body_too_large);
    assert_false(blobs_append(blobs, &(struct upload){ .name = "../k" }, 0, STR("1"), 4, &err));
    assert_false(blobs_append(blobs, &(struct upload){ .task = 1 }, 0, STR("1"), 4, &err));
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
    assert_true(blobs_append(blobs, &plain, 0, STR("abc"), 100, &err));
    blobs_close(blobs);
    blobs = blobs_open(folder, &err);
    assert_false(blobs_append(blobs, &plain, 3, STR("d"), 100, &err));
    assert_true(err.code == ERR_log_gap && err.expected == 0);
    assert_true(blobs_append(blobs, &plain, 0, STR("abc"), 100, &err));
    assert_true(blobs_seal(blobs, &plain, &blob, &err));
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
    assert_true(blobs_append(blobs, &plain, 0, STR("abc"), 100, &err) && blobs_seal(blobs, &plain, &blob, &err));
    assert_int_equal(blobs_sweep(blobs, 3600, wants, NULL), 0); /* too young: its finish may be on the way */
    assert_int_equal(blobs_sweep(blobs, -10, wants, blobs), 0);
    assert_int_equal(blobs_sweep(blobs, -10, wants, NULL), 1);
    assert_false(blobs_find(blobs, str_of(ABC), &blob, &err));
    blobs_close(blobs);
    folder_remove(folder);
}

/* --- nothing that comes later changes what was hashed --- */

enum { RACE_BYTES = 300000, RACE_ROUNDS = 60 };

struct race {
    struct blobs *blobs;
    struct upload upload;
    atomic_bool stop;
    char fill;
};

static void *pieces_come(void *argument)
{
    struct race *race = argument;
    static char bytes[2][4096];
    char *piece = bytes[race->fill & 1];
    memset(piece, race->fill, sizeof bytes[0]);
    while (!atomic_load(&race->stop)) {
        struct err err = { 0 };
        (void)blobs_append(race->blobs, &race->upload, 0, (struct str){ piece, sizeof bytes[0] }, RACE_BYTES, &err);
    }
    return NULL;
}

static void assert_content(struct blobs *blobs, const char *hex, int64_t bytes)
{
    struct buf out;
    struct err err = { 0 };
    unsigned char digest[crypto_hash_sha256_BYTES];
    char found[BLOB_HEX + 1];
    buf_init(&out, RACE_BYTES + 1);
    assert_true(blobs_read(blobs, hex, 0, RACE_BYTES, &out, &err));
    assert_int_equal(out.len, bytes);
    crypto_hash_sha256(digest, (const unsigned char *)out.ptr, out.len);
    sodium_bin2hex(found, sizeof found, digest, sizeof digest);
    assert_string_equal(found, hex);
    buf_release(&out);
}

/* Two tenants send the same file while pieces of another content keep coming for both uploads: each blob has the bytes
 * of its name. */
static void a_seal_is_of_what_it_took(void **state)
{
    (void)state;
    struct err err = { 0 };
    const char *folder = folder_new();
    struct blobs *blobs = blobs_open(folder, &err);
    struct race races[2] = { { blobs, { 1, 1, STR("acme"), "a", 0 }, false, 'x' },
        { blobs, { 2, 1, STR("bolt"), "a", 0 }, false, 'y' } };
    pthread_t threads[2];
    char *whole = malloc(RACE_BYTES);
    struct blob blob;
    memset(whole, 'a', RACE_BYTES);
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, pieces_come, &races[i]);
    for (int round = 0; round < RACE_ROUNDS; round++) {
        const struct upload *upload = &races[round & 1].upload;
        assert_true(blobs_append(blobs, upload, 0, (struct str){ whole, RACE_BYTES }, RACE_BYTES, &err));
        if (!blobs_seal(blobs, upload, &blob, &err)) {
            err = (struct err){ 0 };
            continue;
        }
        assert_content(blobs, blob.hex, blob.bytes);
    }
    for (int i = 0; i < 2; i++) {
        atomic_store(&races[i].stop, true);
        pthread_join(threads[i], NULL);
    }
    free(whole);
    blobs_close(blobs);
    folder_remove(folder);
}

static void a_blob_is_never_replaced(void **state)
{
    (void)state;
    struct err err = { 0 };
    const char *folder = folder_new();
    char path[PATH_MAX];
    struct stat before, after;
    struct blobs *blobs = blobs_open(folder, &err);
    struct blob blob;
    struct timespec old[2] = { { 1000, 0 }, { 1000, 0 } };
    snprintf(path, sizeof path, "%s/blobs/ba/" ABC, folder);
    assert_true(blobs_append(blobs, &one, 0, STR("abc"), 100, &err) && blobs_seal(blobs, &one, &blob, &err));
    assert_int_equal(utimensat(AT_FDCWD, path, old, 0), 0);
    assert_int_equal(stat(path, &before), 0);
    assert_true(blobs_append(blobs, &plain, 0, STR("abc"), 100, &err) && blobs_seal(blobs, &plain, &blob, &err));
    assert_int_equal(stat(path, &after), 0);
    assert_true(after.st_ino == before.st_ino && after.st_mtime > before.st_mtime); /* the same file, used now */
    assert_int_equal(truncate(path, 2), 0);
    assert_true(blobs_append(blobs, &plain, 0, STR("abc"), 100, &err));
    assert_false(blobs_seal(blobs, &plain, &blob, &err)); /* damaged: said, not hidden */
    assert_int_equal(err.code, ERR_corrupt);
    blobs_close(blobs);
    folder_remove(folder);
}

/* --- what attempts have sent --- */

static size_t sealed_of(struct blobs *blobs, int64_t task, int64_t grant, struct upload_seal *out)
{
    struct buf list;
    struct err err = { 0 };
    buf_init(&list, SIZE_MAX);
    assert_true(blobs_sealed(blobs, task, grant, &list, &err));
    size_t n = list.len / sizeof *out;
    if (n > 0)
        memcpy(out, list.ptr, sizeof *out);
    buf_release(&list);
    return n;
}

static int64_t waiting_of(struct blobs *blobs, const char *tenant)
{
    int64_t bytes = -1;
    struct err err = { 0 };
    assert_true(blobs_waiting(blobs, str_of(tenant), &bytes, &err));
    return bytes;
}

static void seals_are_remembered(void **state)
{
    (void)state;
    struct err err = { 0 };
    const char *folder = folder_new();
    struct blobs *blobs = blobs_open(folder, &err);
    struct upload_seal seal;
    struct blob blob;
    char path[PATH_MAX];
    const struct upload late = { 1, 2, { "acme", 4 }, "a", 0 };
    assert_true(blobs_append(blobs, &one, 0, STR("ab"), 100, &err) && blobs_seal(blobs, &one, &blob, &err));
    /* again: the newest counts */
    assert_true(blobs_append(blobs, &one, 0, STR("abc"), 100, &err) && blobs_seal(blobs, &one, &blob, &err));
    assert_true(blobs_append(blobs, &late, 0, STR("half"), 100, &err));
    assert_int_equal(sealed_of(blobs, 1, 1, &seal), 1);
    assert_int_equal(waiting_of(blobs, "acme"), 3 + 4);
    assert_int_equal(waiting_of(blobs, "other"), 0);
    blobs_close(blobs);
    snprintf(path, sizeof path, "%s/blobs/sealed/1-1", folder);
    FILE *torn = fopen(path, "a");
    assert_true(torn != NULL && fputs("ba7816bf 11", torn) > 0);
    fclose(torn);
    blobs = blobs_open(folder, &err);
    assert_int_equal(sealed_of(blobs, 1, 1, &seal), 1);
    assert_true(strcmp(seal.blob.hex, ABC) == 0 && seal.blob.bytes == 3 && strcmp(seal.name, "a") == 0);
    assert_int_equal(sealed_of(blobs, 1, 2, &seal), 0); /* another attempt of the task has sealed nothing */
    assert_int_equal(waiting_of(blobs, "acme"), 3);
    const struct upload more = { 1, 1, { "acme", 4 }, "b", 0 };
    assert_true(blobs_append(blobs, &more, 0, STR("x"), 100, &err) && blobs_seal(blobs, &more, &blob, &err));
    blobs_close(blobs);
    blobs = blobs_open(folder, &err); /* a line that a crash cut off spoils none that comes after it */
    assert_int_equal(sealed_of(blobs, 1, 1, &seal), 2);
    blobs_forget(blobs, 1, 1);
    assert_int_equal(sealed_of(blobs, 1, 1, &seal), 0);
    assert_true(blobs_find(blobs, str_of(ABC), &blob, &err)); /* the file stays */
    blobs_close(blobs);
    folder_remove(folder);
}

static void uploads_go_with_their_attempt(void **state)
{
    (void)state;
    struct err err = { 0 };
    const char *folder = folder_new();
    struct blobs *blobs = blobs_open(folder, &err);
    struct buf grants;
    buf_init(&grants, SIZE_MAX);
    assert_true(blobs_append(blobs, &one, 0, STR("abc"), 100, &err));
    const struct upload other = { 1, 12, { "acme", 4 }, "a", 0 };
    assert_true(blobs_append(blobs, &other, 0, STR("defg"), 100, &err));
    assert_true(blobs_grants(blobs, &grants, &err) && grants.len == 2 * sizeof(struct upload_grant));
    blobs_forget(blobs, 1, 1);
    assert_int_equal(waiting_of(blobs, "acme"), 4); /* not that of grant 12 */
    assert_true(blobs_append(blobs, &other, 4, STR("h"), 100, &err));
    assert_false(blobs_append(blobs, &one, 3, STR("d"), 100, &err));
    assert_true(err.code == ERR_log_gap && err.expected == 0);
    for (int i = 0; i < UPLOADS_MAX; i++) {
        struct upload many = { 7, 1, { "acme", 4 }, "", 0 };
        snprintf(many.name, sizeof many.name, "%d", i);
        assert_true(blobs_append(blobs, &many, 0, STR("x"), 100, &err));
    }
    assert_false(blobs_append(blobs, &(struct upload){ 7, 1, { "acme", 4 }, "over", 0 }, 0, STR("x"), 100, &err));
    assert_int_equal(err.code, ERR_too_many);
    struct upload little = { 8, 1, { "tiny", 4 }, "a", 5 };
    assert_true(blobs_append(blobs, &little, 0, STR("1234"), 100, &err));
    assert_false(blobs_append(blobs, &little, 4, STR("56"), 100, &err));
    assert_int_equal(err.code, ERR_quota_full);
    /* what takes the place of bytes counts once */
    assert_true(blobs_append(blobs, &little, 0, STR("12345"), 100, &err));
    buf_release(&grants);
    blobs_close(blobs);
    folder_remove(folder);
}

static int file_of(const char *folder, const char *name, const char *text)
{
    char path[200];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    return fd;
}

static int file_unnamed(const char *folder, const char *text)
{
    int fd = open(folder, O_RDWR | O_TMPFILE, 0600);
    if (fd < 0)
        return -1; /* this file system has none */
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    return fd;
}

static bool is_there(struct blobs *blobs, const char *hex)
{
    struct blob found;
    struct err err = { 0 };
    return blobs_find(blobs, str_of(hex), &found, &err);
}

static bool want_none(const char *hex, void *owner)
{
    (void)hex, (void)owner;
    return false;
}

/* A file is kept before anybody knows whether it will be named: it goes again with the last that holds it, unless one
 * of them, or an attempt, keeps it; one that was there before always stays. */
static void a_file_is_held(void **state)
{
    (void)state;
    struct err err = { 0 };
    const char *folder = folder_new();
    struct blobs *blobs = blobs_open(folder, &err);
    unsigned char abc[32];
    sodium_hex2bin(abc, sizeof abc, ABC, 64, NULL, NULL, NULL);
    int own = file_unnamed(folder, "abc"), others = file_of(folder, "other", "abc"),
        wrong = file_of(folder, "wrong", "abd");
    struct blob_source source = { own >= 0 ? own : others, own >= 0, abc };
    const struct blob_source copied = { others, false, abc }, changed = { wrong, false, abc };
    struct blob_hold first, second, third;
    struct blob blob;

    assert_true(blobs_keep(blobs, &source, &first, &err));
    assert_string_equal(first.blob.hex, ABC);
    assert_int_equal(first.blob.bytes, 3);
    assert_true(is_there(blobs, ABC));
    blobs_settle(blobs, &first, false);
    assert_false(is_there(blobs, ABC));

    assert_true(blobs_keep(blobs, &copied, &first, &err)); /* two hold it: the second one's end decides */
    assert_true(blobs_keep(blobs, &copied, &second, &err));
    blobs_settle(blobs, &first, false);
    assert_true(is_there(blobs, ABC));
    blobs_settle(blobs, &second, false);
    assert_false(is_there(blobs, ABC));

    assert_true(blobs_keep(blobs, &copied, &first, &err)); /* one of two keeps it, whichever ends first */
    assert_true(blobs_keep(blobs, &copied, &second, &err));
    blobs_settle(blobs, &first, true);
    blobs_settle(blobs, &second, false);
    assert_true(is_there(blobs, ABC));
    assert_true(blobs_keep(blobs, &copied, &third, &err)); /* it was there before */
    assert_int_equal(third.stamp, 0);
    blobs_settle(blobs, &third, false);
    assert_true(is_there(blobs, ABC));
    assert_int_equal(blobs_sweep(blobs, -10, want_none, NULL), 1);

    assert_true(blobs_keep(blobs, &copied, &first, &err)); /* an attempt seals the same bytes meanwhile */
    assert_true(blobs_append(blobs, &one, 0, STR("abc"), 100, &err));
    assert_true(blobs_seal(blobs, &one, &blob, &err));
    blobs_settle(blobs, &first, false);
    assert_true(is_there(blobs, ABC));
    assert_int_equal(blobs_sweep(blobs, -10, want_none, NULL), 1);

    assert_false(blobs_keep(blobs, &changed, &first, &err)); /* other bytes than were checked */
    assert_int_equal(err.code, ERR_corrupt);
    assert_false(is_there(blobs, ABC));
    char uploads[200];
    snprintf(uploads, sizeof uploads, "%s/blobs/new", folder);
    assert_int_equal(rmdir(uploads), 0); /* empty: nothing is left of all this */
    blobs_close(blobs);
    close(others);
    close(wrong);
    if (own >= 0)
        close(own);
    folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_is_held),
        cmocka_unit_test(pieces_become_a_blob),
        cmocka_unit_test(refuses_what_does_not_fit),
        cmocka_unit_test(a_restart_forgets_half_files),
        cmocka_unit_test(sweeps_what_nobody_wants),
        cmocka_unit_test(a_seal_is_of_what_it_took),
        cmocka_unit_test(a_blob_is_never_replaced),
        cmocka_unit_test(seals_are_remembered),
        cmocka_unit_test(uploads_go_with_their_attempt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
