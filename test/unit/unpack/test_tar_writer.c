/* What text/tar_writer writes, the strict reader of change sets takes, whatever the paths' lengths; and its padding. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "text/tar_writer.h"
#include "unpack/tar_reader.h"

#define PATH_MAX_BYTES 1024 /* changesets.limits.path */

struct seen {
    char path[2048];
    uint64_t size, got;
    bool folder, executable, ended;
    char first, last;
    unsigned n;
};

static bool on_begin(void *owner, const struct tar_entry *entry, struct err *err)
{
    struct seen *seen = owner;
    (void)err;
    assert_true(entry->path.len < sizeof seen->path);
    memcpy(seen->path, entry->path.ptr, entry->path.len);
    seen->path[entry->path.len] = '\0';
    seen->size = entry->size;
    seen->folder = entry->is_folder;
    seen->executable = entry->is_executable;
    seen->got = 0;
    seen->n++;
    return true;
}

static bool on_bytes(void *owner, struct str bytes, struct err *err)
{
    struct seen *seen = owner;
    (void)err;
    if (seen->got == 0)
        seen->first = bytes.ptr[0];
    seen->last = bytes.ptr[bytes.len - 1];
    seen->got += bytes.len;
    return true;
}

static bool on_end(void *owner, struct err *err)
{
    struct seen *seen = owner;
    (void)err;
    seen->ended = true;
    return true;
}

static bool to_buf(void *owner, struct str bytes)
{
    buf_add_str(owner, bytes);
    return true;
}

static void read_back(const struct buf *bytes, struct seen *seen)
{
    struct tar_reader reader;
    struct tar_events events = { on_begin, on_bytes, on_end, seen };
    struct err err = { .code = ERR_none };
    tar_reader_init(&reader, &events);
    if (!tar_reader_feed(&reader, buf_str(bytes), &err) || !tar_reader_end(&reader, &err))
        fail_msg("%s", err.text);
    tar_reader_release(&reader);
}

/* RQ3: every length of a path that a change set may carry, in few long parts and in many short ones. */
static void every_length(void **state)
{
    (void)state;
    static const size_t parts[] = { 1, 9, 99, 100, 101, 154, 155, 255 };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        for (size_t len = 1; len <= PATH_MAX_BYTES; len++) {
            char path[PATH_MAX_BYTES + 16] = "lroot/";
            size_t n = 6;
            for (size_t at = 0; at < len; at++)
                path[n++] = at % (parts[i] + 1) == parts[i] && at + 1 < len ? '/' : (char)('a' + at % 26);
            struct buf out;
            struct seen seen = { 0 };
            struct tar_writer tar;
            buf_init(&out, SIZE_MAX);
            tar_writer_init(&tar, to_buf, &out);
            bool executable = len % 2 == 0;
            assert_true(tar_writer_file(&tar, (struct str){ path, n }, 3, executable));
            assert_true(tar_writer_write(&tar, STR("abc")) && tar_writer_end(&tar) && tar_writer_finish(&tar));
            assert_int_equal(out.len % TAR_BLOCK, 0);
            read_back(&out, &seen);
            assert_string_equal(seen.path, path);
            assert_true(seen.n == 1 && seen.size == 3 && seen.got == 3 && !seen.folder && seen.ended);
            assert_int_equal(seen.executable, executable);
            tar_writer_release(&tar);
            buf_release(&out);
        }
}

static void every_padding(void **state)
{
    (void)state;
    static const size_t sizes[] = { 0, 1, 511, 512, 513, 1023, 1024, 100000 };
    char *bytes = malloc(100000);
    memset(bytes, 'x', 100000);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct buf out;
        struct seen seen = { 0 };
        struct tar_writer tar;
        buf_init(&out, SIZE_MAX);
        tar_writer_init(&tar, to_buf, &out);
        assert_true(tar_writer_folder(&tar, STR("lroot")));
        assert_true(tar_writer_file(&tar, STR("lroot/f"), sizes[i], false));
        for (size_t at = 0; at < sizes[i]; at += 1000)
            assert_true(
                tar_writer_write(&tar, (struct str){ bytes + at, sizes[i] - at < 1000 ? sizes[i] - at : 1000 }));
        assert_true(tar_writer_end(&tar));
        assert_true(tar_writer_file(&tar, STR("meta"), 2, false) && tar_writer_write(&tar, STR("ok")));
        assert_true(tar_writer_end(&tar) && tar_writer_finish(&tar));
        read_back(&out, &seen);
        assert_int_equal(seen.n, 3);
        assert_string_equal(seen.path, "meta");
        assert_true(seen.first == 'o' && seen.last == 'k' && seen.got == 2);
        tar_writer_release(&tar);
        buf_release(&out);
    }
    free(bytes);
}

static bool to_little(void *owner, struct str bytes)
{
    size_t *left = owner;
    if (bytes.len > *left)
        return false;
    *left -= bytes.len;
    return true;
}

/* whoever takes the bytes may say no at any of them */
static void stops(void **state)
{
    (void)state;
    char path[900];
    memset(path, 'p', sizeof path);
    for (size_t room = 0; room < 3584; room += 512) {
        size_t left = room;
        struct tar_writer tar;
        tar_writer_init(&tar, to_little, &left);
        bool good = tar_writer_file(&tar, (struct str){ path, sizeof path }, 1, false) &&
                    tar_writer_write(&tar, STR("a")) && tar_writer_end(&tar) && tar_writer_finish(&tar);
        assert_false(good); /* header, pax of two blocks, header, data, end mark: seven blocks */
        tar_writer_release(&tar);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_length),
        cmocka_unit_test(every_padding),
        cmocka_unit_test(stops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
