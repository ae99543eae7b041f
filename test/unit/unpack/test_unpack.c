/* Tarballs that are taken: of every form and layer, with their hash, within limits; bombs; the life of the child. */
#include "world.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <sodium.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "io/clock.h"
#include "io/loop.h"
#include "probes.h"

const char *world_program;

#define META_MANY "##movetype\nEM\n##target\nt\n##files\na\nd/e/f.sh\nd/g\n##removed\nold\n##ours\nkept\n"

static void tarball_many(struct buf *out)
{
    put_file(out, "lroot/a", "content of a");
    tarball_put(out, (struct tar_put){ .name = "lroot/d/", .type = '5' });
    tarball_put(out, (struct tar_put){ .name = "lroot/d/e/f.sh",
                         .mode = 0755,
                         .data = STR("#!/bin/sh\n"),
                         .uid = "\x80\xff\xff\xff\xff\xff\xff\xff" });
    put_file(out, "meta", META_MANY); /* in any order */
    put_file(out, "lroot/d/g", "");
    tarball_end(out);
}

static void file_check(const struct world *world, const char *path, const char *content, unsigned mode)
{
    char full[500], bytes[500] = "";
    struct stat st;
    snprintf(full, sizeof full, "%s/%s", world->dir, path);
    int fd = open(full, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(st.st_mode, S_IFREG | mode);
    assert_int_equal(st.st_uid, getuid()); /* row 43: its owner in the tarball doesn't count */
    assert_int_equal(st.st_nlink, 1);
    assert_int_equal(read(fd, bytes, sizeof bytes - 1), (ssize_t)strlen(content));
    assert_string_equal(bytes, content);
    close(fd);
}

static void many_check(const struct world *world, struct str bytes, bool is_extract)
{
    const struct unpack_result *result = &world->result;
    unsigned char hash[UNPACK_HASH_BYTES];
    crypto_hash_sha256(hash, (const unsigned char *)bytes.ptr, bytes.len);
    assert_memory_equal(result->sha256, hash, sizeof hash);
    assert_int_equal(result->tarball_bytes, bytes.len);
    assert_int_equal(result->n_files, 3);
    assert_int_equal(result->n_bytes, 22);
    assert_true(str_eqz(result->files[1].path, "d/e/f.sh") && result->files[1].is_executable);
    assert_true(str_eqz(result->files[2].path, "d/g") && !result->files[2].is_executable && result->files[2].size == 0);
    assert_true(str_eqz(result->meta.file->text, META_MANY));
    assert_int_equal(result->meta.movetype, MOVE_EM);
    struct walked walked = world_look(world);
    assert_int_equal(walked.n_files, is_extract ? 4 : 0);
    if (!is_extract)
        return;
    assert_int_equal(walked.n_folders, 3);
    file_check(world, "meta", META_MANY, 0644);
    file_check(world, "lroot/a", "content of a", 0644);
    file_check(world, "lroot/d/e/f.sh", "#!/bin/sh\n", 0755);
    file_check(world, "lroot/d/g", "", 0644);
}

/* RQ3: plain, and one layer of each kind. */
static void takes_every_layer(void **state)
{
    (void)state;
    static const char *const filters[] = { NULL, "gzip", "xz", "zstd" };
    for (size_t i = 0; i < COUNT_OF(filters); i++)
        for (int is_extract = 0; is_extract < 2; is_extract++) {
            struct world world;
            struct buf plain, out;
            buf_init(&plain, SIZE_MAX);
            buf_init(&out, SIZE_MAX);
            world_open(&world);
            tarball_many(&plain);
            if (filters[i] != NULL)
                tarball_compress(&out, filters[i], buf_str(&plain));
            else
                buf_add_str(&out, buf_str(&plain));
            mode_t before = umask(077); /* modes don't depend on it */
            if (!world_run(&world, buf_str(&out), is_extract))
                fail_msg("%s: %s", filters[i] ? filters[i] : "plain", world.err.text);
            umask(before);
            many_check(&world, buf_str(&out), is_extract);
            buf_release(&plain);
            buf_release(&out);
            world_close(&world);
        }
}

/* Names by ustar's prefix, by pax and by GNU's long names; a pax size that agrees; a global comment; row 46: an archive
 * in an archive is a file. */
static void takes_every_form(void **state)
{
    (void)state;
    struct world world;
    struct buf out, inner;
    buf_init(&out, SIZE_MAX);
    buf_init(&inner, SIZE_MAX);
    world_open(&world);
    tarball_many(&inner);
    tarball_pax(&out, 'g', "comment", STR("0123456789abcdef"));
    put_file(&out, "meta", "##movetype\nDC\n##target\nt\n##files\np/q\nl/o/n/g\n\xc3\xa4\nA\xcc\x88\nx.tar\n");
    tarball_put(&out, (struct tar_put){ .name = "q", .prefix = "lroot/p", .data = STR("1") });
    tarball_long_name(&out, STR("lroot/l/o/n/g"));
    tarball_put(&out, (struct tar_put){ .name = "lroot/x", .data = STR("22"), .is_gnu = true, .prefix = "ignored" });
    tarball_pax(&out, 'x', "path", STR("lroot/\xc3\xa4"));
    put_file(&out, "lroot/x", "333");
    tarball_pax(&out, 'x', "size", STR("4"));
    put_file(&out, "lroot/A\xcc\x88", "4444"); /* decomposed: stays as it is */
    tarball_put(&out, (struct tar_put){ .name = "lroot/x.tar", .data = buf_str(&inner) });
    tarball_end(&out);
    for (int i = 0; i < 8; i++)
        tarball_end(&out); /* padding */
    if (!world_run(&world, buf_str(&out), true))
        fail_msg("%s", world.err.text);
    file_check(&world, "lroot/p/q", "1", 0644);
    file_check(&world, "lroot/l/o/n/g", "22", 0644);
    file_check(&world, "lroot/\xc3\xa4", "333", 0644);
    file_check(&world, "lroot/A\xcc\x88", "4444", 0644);
    assert_int_equal(world_look(&world).n_files, 6);
    buf_release(&out);
    buf_release(&inner);
    world_close(&world);
}

/* command_run: a shell command in the folder; its exit status. */
__attribute__((format(printf, 2, 3))) static int command_run(const char *folder, const char *fmt, ...)
{
    char words[1000], line[2000];
    va_list args;
    va_start(args, fmt);
    vsnprintf(words, sizeof words, fmt, args);
    va_end(args);
    snprintf(line, sizeof line, "cd %s && { %s; } >/dev/null 2>&1", folder, words);
    return system(line);
}

/* What tar(1) and Python write, in each of their formats. */
static void takes_what_programs_write(void **state)
{
    (void)state;
    static const char *const commands[] = { "tar --format=ustar -cf x.tar meta lroot",
        "tar --format=gnu -cf x.tar lroot meta", "tar --format=oldgnu -cf x.tar meta lroot",
        "tar --format=posix -cf x.tar meta lroot/*", "tar --format=posix -czf x.tar meta lroot",
        "tar --format=gnu --numeric-owner --owner=4294967294 -cf x.tar meta lroot",
        ("python3 -c 'import tarfile; t = tarfile.open(\"x.tar\", \"w:xz\"); t.add(\"meta\"); t.add(\"lroot\"); "
         "t.close()'") };
    const char *tmp = getenv("TMPDIR");
    struct changeset_limits limits = world_limits;
    char folder[200], path[300];
    snprintf(folder, sizeof folder, "%s/programs.XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(folder));
    assert_int_equal(
        command_run(folder, "N=$(printf %%090d 7); A=$(printf '\\303\\244'); mkdir -p lroot/d/$N && echo 1 >lroot/a && "
                            "echo 22 >lroot/d/$N/$A && chmod 755 lroot/a && "
                            "printf '##movetype\\nDC\\n##target\\nt\\n##files\\na\\nd/%%s/%%s\\n' $N $A >meta"),
        0);
    limits.path_bytes = 1000;
    for (size_t i = 0; i < COUNT_OF(commands); i++) {
        struct world world;
        assert_int_equal(command_run(folder, "%s", commands[i]), 0);
        world_open(&world);
        snprintf(path, sizeof path, "%s/x.tar", folder);
        world.order.limits = &limits;
        world.order.tarball_fd = open(path, O_RDONLY | O_CLOEXEC);
        if (!unpack_extract(&world.order, world.dir_fd, &world.arena, &world.result, &world.err))
            fail_msg("%s: %s", commands[i], world.err.text);
        close(world.order.tarball_fd);
        assert_int_equal(world.result.n_files, 2);
        assert_int_equal(command_run(folder, "diff -r lroot %s/lroot && cmp meta %s/meta", world.dir, world.dir), 0);
        world_close(&world);
    }
    assert_int_equal(command_run(folder, "rm -r lroot meta x.tar"), 0);
    assert_int_equal(rmdir(folder), 0);
}

/* A rollback has a meta alone; what the caller knows of its name and CSID is checked, too. */
static void takes_rollbacks(void **state)
{
    (void)state;
    struct world world;
    struct buf out;
    struct changeset_name name = { .movetype = MOVE_RB };
    buf_init(&out, SIZE_MAX);
    world_open(&world);
    put_file(&out, "meta", "##movetype\nRB\n##target\nt\n##dependencies\nc-1\n");
    tarball_end(&out);
    world.order.name = &name;
    world.order.csid = STR("c-2");
    assert_true(world_run(&world, buf_str(&out), true));
    assert_int_equal(world_look(&world).n_files, 1);
    assert_int_equal(world.result.meta.dependencies.n, 1);
    struct err err = { 0 };
    assert_true(walk_remove(world.dir_fd, &err));
    name.movetype = MOVE_DC;
    world.order.csid = STR("c-1");
    assert_false(world_run(&world, buf_str(&out), true));
    assert_int_equal(world.err.n_items, 2); /* all faults at once */
    assert_string_equal(world.err.text, "##movetype is RB, but the name says DC");
    buf_release(&out);
    world_close(&world);
}

/* --- bombs (row 45) --- */

/* bomb_check: refused in little time, by a child whose memory is limited; nothing is left on disk. */
static void bomb_check(struct str bytes, bool is_extract, const char *text)
{
    struct world world;
    struct rusage before, after;
    world_open(&world);
    getrusage(RUSAGE_CHILDREN, &before);
    assert_false(world_run(&world, bytes, is_extract));
    getrusage(RUSAGE_CHILDREN, &after);
    assert_int_equal(world.err.code, ERR_body_too_large);
    assert_non_null(strstr(world.err.text, text));
    assert_true(world.result.confined.has_memory_limit);
    long cpu_ms = (after.ru_utime.tv_sec - before.ru_utime.tv_sec) * 1000 +
                  (after.ru_utime.tv_usec - before.ru_utime.tv_usec) / 1000;
    assert_true(cpu_ms < 3000);
    struct walked walked = world_look(&world);
    assert_int_equal(walked.n_files + walked.n_folders, 0);
    world_close(&world);
}

static void bombs_cost_their_limit(void **state)
{
    (void)state;
    static const char *const filters[] = { "gzip", "xz", "zstd" };
    struct buf head, out;
    buf_init(&head, SIZE_MAX);
    buf_init(&out, SIZE_MAX);
    put_file(&head, "meta", META_A);
    size_t meta = head.len;
    tarball_header(&head, (struct tar_put){ .name = "lroot/a", .size = "00002000000" }); /* 512 KiB announced */
    for (size_t i = 0; i < COUNT_OF(filters); i++) {
        buf_reset(&out);
        tarball_bomb(&out, filters[i], buf_str(&head), (uint64_t)64 << 20);
        bomb_check(buf_str(&out), true, "more than 100000 bytes in all files");
        /* zeros behind the end instead of a file */
        buf_reset(&out);
        tarball_bomb(&out, filters[i], str_sub(buf_str(&head), 0, meta), (uint64_t)64 << 20);
        bomb_check(buf_str(&out), false, "zeros behind the end of the archive");
    }
    buf_release(&head);
    buf_release(&out);
}

/* The stream has a limit of its own, whatever the entries are: extended headers, again and again. */
static void headers_have_a_limit(void **state)
{
    (void)state;
    struct buf plain, out, comment;
    buf_init(&plain, SIZE_MAX);
    buf_init(&out, SIZE_MAX);
    buf_init(&comment, SIZE_MAX);
    while (comment.len < 60000)
        buf_add_z(&comment, "0123456789");
    for (int i = 0; i < 200; i++)
        tarball_pax(&plain, 'g', "comment", buf_str(&comment));
    put_file(&plain, "meta", META_A);
    put_file(&plain, "lroot/a", "x");
    tarball_end(&plain);
    tarball_compress(&out, "gzip", buf_str(&plain));
    bomb_check(buf_str(&out), false, "bytes unpacked (changesets.limits.unpacked)");
    bomb_check(buf_str(&plain), true, "bytes unpacked (changesets.limits.unpacked)");
    buf_release(&plain);
    buf_release(&out);
    buf_release(&comment);
}

/* --- the same bytes (row 53) --- */

struct swapper {
    int fd;
    size_t len;
    atomic_bool stop;
};

/* swap_run: somebody writes to the file while it is read. */
static void *swap_run(void *owner)
{
    struct swapper *swapper = owner;
    for (unsigned n = 0; !atomic_load(&swapper->stop); n++) {
        char byte = (char)('a' + n % 26);
        ssize_t written = pwrite(swapper->fd, &byte, 1, (off_t)(2048 + n % (swapper->len - 4096)));
        assert_true(written == 1);
    }
    return NULL;
}

/* The file changes while it is read: the hash is that of the files that were written, whichever they are. */
static void hashes_what_is_used(void **state)
{
    (void)state;
    struct buf out, again;
    char bytes[60000];
    unsigned n_taken = 0;
    memset(bytes, 'x', sizeof bytes);
    buf_init(&out, SIZE_MAX);
    buf_init(&again, SIZE_MAX);
    put_file(&out, "meta", META_A);
    tarball_put(&out, (struct tar_put){ .name = "lroot/a", .data = { bytes, sizeof bytes } });
    tarball_end(&out);
    for (int i = 0; i < 20; i++) {
        struct world world;
        struct swapper swapper = { .len = out.len };
        pthread_t thread;
        world_open(&world);
        swapper.fd = world.order.tarball_fd = tarball_file(buf_str(&out));
        assert_int_equal(pthread_create(&thread, NULL, swap_run, &swapper), 0);
        bool good = unpack_extract(&world.order, world.dir_fd, &world.arena, &world.result, &world.err);
        atomic_store(&swapper.stop, true);
        pthread_join(thread, NULL);
        close(swapper.fd);
        if (good) { /* put together again, what was written is what was hashed */
            char path[300], got[sizeof bytes];
            unsigned char hash[UNPACK_HASH_BYTES];
            snprintf(path, sizeof path, "%s/lroot/a", world.dir);
            int fd = open(path, O_RDONLY | O_CLOEXEC);
            assert_int_equal(read(fd, got, sizeof got), sizeof got);
            close(fd);
            buf_reset(&again);
            put_file(&again, "meta", META_A);
            tarball_put(&again, (struct tar_put){ .name = "lroot/a", .data = { got, sizeof got } });
            tarball_end(&again);
            crypto_hash_sha256(hash, (unsigned char *)again.ptr, again.len);
            assert_memory_equal(hash, world.result.sha256, sizeof hash);
            n_taken++;
        }
        world_close(&world);
    }
    assert_true(n_taken > 0);
    struct world world; /* a caller that names a hash gets those bytes or none */
    unsigned char other[UNPACK_HASH_BYTES] = { 1 };
    world_open(&world);
    world.order.sha256 = other;
    assert_false(world_run(&world, buf_str(&out), true));
    assert_int_equal(world.err.code, ERR_corrupt);
    assert_int_equal(world_look(&world).n_files, 0);
    buf_release(&out);
    buf_release(&again);
    world_close(&world);
}

/* --- the child's life --- */

static unsigned n_children(void)
{
    return waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD ? 0 : 1;
}

static unsigned n_descriptors(void)
{
    unsigned n = 0;
    DIR *folder = opendir("/proc/self/fd");
    assert_non_null(folder);
    while (readdir(folder) != NULL)
        n++;
    closedir(folder);
    return n;
}

static void leaves_nothing_behind(void **state)
{
    (void)state;
    unsigned before = n_descriptors();
    struct world world;
    struct buf out;
    buf_init(&out, SIZE_MAX);
    world_open(&world);
    tarball_many(&out);
    assert_true(world_run(&world, buf_str(&out), true));
    assert_false(world_run(&world, buf_str(&out), true)); /* not empty any more */
    assert_string_equal(world.err.text, "the directory for a change set isn't empty");
    assert_int_equal(world_look(&world).n_files, 4); /* and what is there stays */
    world.err = (struct err){ .arena = &world.arena };
    world.order.program = "/nonexistent/weir";
    assert_false(world_run(&world, buf_str(&out), false));
    assert_int_equal(world.err.code, ERR_io);
    world.err = (struct err){ .arena = &world.arena };
    world.order.program = "/bin/true";
    assert_false(world_run(&world, buf_str(&out), false));
    assert_string_equal(world.err.text, "the process that unpacks ended too early (exit 0)");
    buf_release(&out);
    world_close(&world);
    assert_int_equal(n_children(), 0);
    assert_int_equal(n_descriptors(), before);
}

static unsigned n_done;

static void job_done(struct unpack_job *job)
{
    n_done++;
    loop_stop(job->owner);
}

/* Three at a time beside a loop; one that would take for ever is stopped. */
static void runs_beside_a_loop(void **state)
{
    (void)state;
    struct loop *loop = loop_new();
    struct unpack_job jobs[3], endless;
    struct err err = { 0 };
    struct buf out;
    char order[LIE_BYTES + 1];
    snprintf(order, sizeof order, "LIE %-*d", LIE_BYTES - 4, LIE_stays);
    buf_init(&out, SIZE_MAX);
    tarball_many(&out);
    for (int i = 0; i < 3; i++) {
        jobs[i] = (struct unpack_job){
            .order = { .tarball_fd = tarball_file(buf_str(&out)), .limits = &world_limits, .program = world_program },
            .dir_fd = -1,
            .done = job_done,
            .owner = loop
        };
        assert_true(unpack_start(&jobs[i], loop, &err));
    }
    endless = (struct unpack_job){
        .order = { .tarball_fd = tarball_file(str_of(order)), .limits = &world_limits, .program = world_program },
        .dir_fd = -1,
        .done = job_done,
        .owner = loop
    };
    assert_true(unpack_start(&endless, loop, &err));
    while (n_done < 3)
        loop_run(loop);
    for (int i = 0; i < 3; i++) {
        assert_true(jobs[i].is_good && jobs[i].result.n_files == 3);
        close(jobs[i].order.tarball_fd);
        unpack_release(&jobs[i]);
    }
    int64_t began = clock_boot_ms();
    unpack_stop(&endless);
    assert_true(clock_boot_ms() - began < 10000);
    assert_false(endless.is_good);
    assert_string_equal(endless.err.text, "unpacking was stopped");
    close(endless.order.tarball_fd);
    unpack_release(&endless);
    buf_release(&out);
    loop_free(loop);
    assert_int_equal(n_children(), 0);
}

int main(int argc, char **argv)
{
    world_program = argc > 1 ? argv[1] : NULL;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_every_layer),
        cmocka_unit_test(takes_every_form),
        cmocka_unit_test(takes_what_programs_write),
        cmocka_unit_test(takes_rollbacks),
        cmocka_unit_test(bombs_cost_their_limit),
        cmocka_unit_test(headers_have_a_limit),
        cmocka_unit_test(hashes_what_is_used),
        cmocka_unit_test(leaves_nothing_behind),
        cmocka_unit_test(runs_beside_a_loop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
