/* The directories, the lock, FIFOs and PID files, and one job file: its text and how it moves. RQ numbers are those of
 * SEEDS.md. */
#include "yard.h"

#include <errno.h>
#include <sys/file.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

#include "spool/control.h"
#include "spool/job_file.h"

#define NAME "c1_4000000069190000000000aa_1_host_DC_ada"
#define META "##movetype\nDC\n##target\ndocs\n##files\na\n##odd\n kept  as it is\n"

static struct yard yard;

/* After so many calls the process is gone: a crash between two steps. */
static int renames_left = -1;
static unsigned renames;
int __real_renameat(int from_dir, const char *from, int to_dir, const char *to);
int __real_renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags);
int __wrap_renameat(int from_dir, const char *from, int to_dir, const char *to);
int __wrap_renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags);

static void rename_count(void)
{
    renames++;
    if (renames_left == 0)
        _exit(42);
    renames_left -= renames_left > 0;
}

int __wrap_renameat(int from_dir, const char *from, int to_dir, const char *to)
{
    rename_count();
    return __real_renameat(from_dir, from, to_dir, to);
}

int __wrap_renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags)
{
    rename_count();
    return __real_renameat2(from_dir, from, to_dir, to, flags);
}

static int set_up(void **state)
{
    (void)state;
    renames_left = -1;
    yard_make(&yard);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    yard_drop(&yard);
    return 0;
}

static const struct event events[] = {
    { .kind = EVENT_move,
        .from = STATE_Q,
        .to = STATE_S,
        .time = 1763500002007,
        .actor = { "engine", 6 },
        .reason = { "two\nlines", 9 } },
    { .kind = EVENT_executor, .time = 1763500002000 },
    { .kind = EVENT_created, .to = STATE_Q, .time = 1763500001000, .actor = { "uid:7 x", 7 } },
};

static void put(enum task_state state, const char *text)
{
    struct err err = { 0 };
    struct job_place place;
    enum spool_folder to = folder_of_state(state);
    if (!job_find(&yard.folders, NAME, to, &place, &err) ||
        !job_put(&yard.folders, NAME, &place, to, str_of(text), 1763500002007, &err))
        fail_msg("%s", err.text);
}

static void rq13_the_directories_are_made_for_the_owner_alone(void **state)
{
    static const char *const names[] = { "tmp", "data", "prequeue", "queue", "staging", "pending", "run", "done",
        "fail", "term", "abandon", "ctrl", "corrupt" };
    struct folders again;
    struct err err = { 0 };
    struct stat st;
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        assert_int_equal(lstat(yard_path(&yard, names[i], ""), &st), 0);
        assert_int_equal(st.st_mode, S_IFDIR | 0700);
    }
    assert_true(folders_open(&again, yard.base, &err)); /* they may be there */
    folders_close(&again);
    assert_int_equal(chmod(yard_path(&yard, "run", ""), 0777), 0);
    assert_false(folders_open(&again, yard.base, &err));
    assert_int_equal(err.code, ERR_forbidden);
    assert_non_null(strstr(err.text, "run can be written by others"));
    folders_close(&again);
    assert_int_equal(rmdir(yard_path(&yard, "run", "")), 0);
    char link[512], at[512];
    snprintf(at, sizeof at, "%s/run", yard.base);
    snprintf(link, sizeof link, "%s/tmp", yard.base);
    assert_int_equal(symlink(link, at), 0); /* a link isn't a directory of ours */
    assert_false(folders_open(&again, yard.base, &err));
    folders_close(&again);
}

static void rq16_one_process_owns_a_base(void **state)
{
    struct control one, two;
    struct err err = { 0 };
    char text[64];
    (void)state;
    yard_write(&yard, "ctrl", "queue.pid", "1\n"); /* stale: that process has nothing to do with it */
    assert_true(control_open(&one, &yard.folders, STR("server one (pid 7)"), &err));
    assert_false(control_open(&two, &yard.folders, STR("server two"), &err));
    assert_int_equal(err.code, ERR_conflict);
    assert_non_null(strstr(err.text, "in use by server one (pid 7)"));
    control_close(&two, &yard.folders);
    snprintf(text, sizeof text, "%ld\n", (long)getpid());
    yard_says(&yard, "ctrl", "prequeue.pid", text);
    yard_says(&yard, "ctrl", "queue.pid", text);
    yard_says(&yard, "ctrl", "exec.pid", text);
    int fd = open(yard_path(&yard, "ctrl", "exec.pid"), O_RDONLY);
    assert_int_equal(flock(fd, LOCK_SH | LOCK_NB), -1); /* its writer lives */
    close(fd);
    control_close(&one, &yard.folders);
    assert_int_equal(yard_count(&yard, "ctrl", "prequeue.pid"), 0);
    assert_int_equal(yard_count(&yard, "ctrl", "queue.pid"), 0);
    assert_true(control_open(&two, &yard.folders, STR("server two"), &err));
    control_close(&two, &yard.folders);
}

static void rq16_a_fifo_never_blocks_and_what_is_in_its_way_goes(void **state)
{
    struct control control;
    struct err err = { 0 };
    struct stat st;
    (void)state;
    yard_write(&yard, "ctrl", "prequeue_fifo", "a file\n");
    assert_int_equal(symlink("/etc/passwd", yard_path(&yard, "ctrl", "queue_fifo")), 0);
    assert_int_equal(symlink("/etc/passwd", yard_path(&yard, "ctrl", "exec.pid")), 0);
    assert_int_equal(mkfifo(yard_path(&yard, "ctrl", "lock"), 0600), 0);
    assert_true(control_open(&control, &yard.folders, STR("me"), &err));
    assert_int_equal(yard_count(&yard, "corrupt", "prequeue_fifo.4"), 2); /* and its .why */
    assert_int_equal(yard_count(&yard, "corrupt", "queue_fifo.4"), 2);
    assert_int_equal(yard_count(&yard, "corrupt", "exec.pid.4"), 2);
    assert_int_equal(yard_count(&yard, "corrupt", "lock.4"), 2);
    assert_int_equal(lstat(yard_path(&yard, "ctrl", "queue_fifo"), &st), 0);
    assert_true(S_ISFIFO(st.st_mode));
    assert_false(control_drain(&control, DAEMON_PREQUEUE));
    int fd = open(yard_path(&yard, "ctrl", "prequeue_fifo"), O_WRONLY); /* a writer doesn't wait */
    assert_true(fd >= 0);
    for (int i = 0; i < 40; i++)
        assert_int_equal(write(fd, "go", 2), 2);
    close(fd);
    assert_true(control_drain(&control, DAEMON_PREQUEUE));
    assert_false(control_drain(&control, DAEMON_PREQUEUE));
    control_close(&control, &yard.folders);
}

static void a_job_file_is_the_meta_and_three_sections(void **state)
{
    struct err err = { 0 };
    struct buf text;
    const struct job_facts facts = {
        .csid = STR("c1"), .state = STATE_S, .events = events, .n_events = 3, .precursors = STR("c0\n")
    };
    (void)state;
    buf_init(&text, 10000);
    assert_true(job_text(&text, STR(META), &facts, &err));
    assert_string_equal(text.ptr, META "##precursors\nc0\n##csid\nc1\n##state\nS\n##history\n"
                                       "40000000691cdfeb00000000 Q uid:7-x\n"
                                       "40000000691cdfec006acfc0 S engine two lines\n");
    struct str before = { strdup(text.ptr), text.len };
    buf_reset(&text);
    assert_true(job_text(&text, before, &facts, &err)); /* of itself it makes itself */
    assert_true(str_eq(buf_str(&text), before));
    free((char *)(uintptr_t)before.ptr);
    buf_release(&text);
    buf_init(&text, 100);
    assert_false(job_text(&text, STR(META), &facts, &err));
    assert_int_equal(err.code, ERR_body_too_large);
    buf_release(&text);
}

static void rq13_state_is_the_directory(void **state)
{
    static const enum task_state walk[] = { STATE_Q, STATE_S, STATE_S, STATE_P, STATE_X, STATE_P, STATE_X, STATE_D };
    static const char *const names[] = { "queue", "staging", "staging", "pending", "run", "pending", "run", "done" };
    (void)state;
    for (size_t i = 0; i < sizeof walk / sizeof *walk; i++) {
        char text[16];
        snprintf(text, sizeof text, "text %zu\n", i);
        put(walk[i], text);
        assert_int_equal(strlen(yard_where(&yard, NAME)), 1);
        yard_says(&yard, names[i], NAME, text);
    }
    assert_int_equal(yard_count(&yard, "tmp", ""), 0);
}

/* rq21: at every moment a reader sees one whole file in one place; the next start goes on from any of them. */
static void rq21_a_crash_between_two_steps_leaves_one_whole_file(void **state)
{
    (void)state;
    put(STATE_S, "old\n");
    for (int n = 0; n < 3; n++) {
        fflush(NULL);
        pid_t pid = fork();
        if (pid == 0) {
            renames_left = n;
            put(STATE_P, "new\n");
            _exit(0);
        }
        int status = 0;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(WEXITSTATUS(status), n < 2 ? 42 : 0); /* two renames */
        assert_string_equal(yard_where(&yard, NAME), n < 2 ? "S" : "P");
        yard_says(&yard, n < 2 ? "staging" : "pending", NAME, n == 0 ? "old\n" : "new\n");
    }
    yard_write(&yard, "tmp", "left", "half");
    struct err err = { 0 };
    assert_true(tmp_clear(&yard.folders, &err));
    assert_int_equal(yard_count(&yard, "tmp", ""), 0);
    put(STATE_D, "end\n");
    yard_says(&yard, "done", NAME, "end\n");
}

static void a_first_job_file_takes_one_rename_and_comes_from_prequeue(void **state)
{
    (void)state;
    renames = 0;
    put(STATE_Q, "first\n");
    assert_int_equal(renames, 1);
    assert_int_equal(unlink(yard_path(&yard, "queue", NAME)), 0);
    yard_write(&yard, "prequeue", NAME, "");
    put(STATE_Q, "taken\n"); /* what was taken from prequeue/ isn't in it any more */
    assert_false(yard_has(&yard, "prequeue", NAME));
    yard_says(&yard, "queue", NAME, "taken\n");
}

static void r23_what_is_foreign_goes_to_corrupt_and_is_never_followed(void **state)
{
    char outside[512], target[512];
    struct stat st;
    (void)state;
    snprintf(outside, sizeof outside, "%s/outside", yard.dir);
    FILE *file = fopen(outside, "w");
    assert_non_null(file);
    fputs("mine", file);
    fclose(file);
    put(STATE_S, "ours\n");
    assert_int_equal(symlink(outside, yard_path(&yard, "pending", NAME)), 0);
    assert_int_equal(mkdir(yard_path(&yard, "run", NAME), 0700), 0);
    assert_int_equal(link(outside, yard_path(&yard, "done", NAME)), 0);
    assert_int_equal(mkfifo(yard_path(&yard, "fail", NAME), 0600), 0);
    yard_write(&yard, "abandon", NAME, "a second one");
    assert_int_equal(symlink(outside, yard_path(&yard, "tmp", NAME)), 0);
    if (geteuid() == 0)
        assert_int_equal(mknod(yard_path(&yard, "term", NAME), S_IFCHR | 0600, makedev(1, 3)), 0);
    put(STATE_P, "new\n");
    assert_string_equal(yard_where(&yard, NAME), "P");
    yard_says(&yard, "pending", NAME, "new\n");
    assert_int_equal(yard_count(&yard, "corrupt", NAME), geteuid() == 0 ? 12 : 10);
    snprintf(target, sizeof target, "%s", outside);
    file = fopen(target, "r");
    char text[8] = { 0 };
    assert_int_equal(fread(text, 1, 7, file), 4);
    fclose(file);
    assert_string_equal(text, "mine");
    assert_int_equal(lstat(outside, &st), 0);
    assert_int_equal(st.st_nlink, 2); /* the other link stands in corrupt/ */
}

static void entries_that_cant_be_read_as_job_files(void **state)
{
    const char *why = NULL;
    struct stat st;
    size_t n = 0;
    char name[300];
    struct err err = { 0 };
    (void)state;
    yard_write(&yard, "prequeue", "large", "0123456789");
    assert_null(entry_read(&yard.folders, FOLDER_PREQUEUE, "large", 9, &n, &st, &why));
    assert_non_null(why);
    char *bytes = entry_read(&yard.folders, FOLDER_PREQUEUE, "large", 10, &n, &st, &why);
    assert_non_null(bytes);
    assert_int_equal(n, 10);
    mem_free(bytes);
    assert_null(entry_read(&yard.folders, FOLDER_PREQUEUE, "none", 10, &n, &st, &why));
    assert_null(why);
    assert_int_equal(mkfifo(yard_path(&yard, "prequeue", "fifo"), 0600), 0);
    assert_int_equal(entry_open(&yard.folders, FOLDER_PREQUEUE, "fifo", &st, &why), -1); /* and it doesn't wait */
    assert_string_equal(why, "not a regular file");
    memset(name, 0xfe, 255); /* the longest name there is, not UTF-8 */
    name[255] = '\0';
    yard_write(&yard, "prequeue", name, "");
    assert_true(corrupt_move(&yard.folders, FOLDER_PREQUEUE, name, STR("no name"), &err));
    assert_false(yard_has(&yard, "prequeue", name));
    assert_int_equal(yard_count(&yard, "corrupt", "\xfe\xfe"), 2);
    assert_true(corrupt_move(&yard.folders, FOLDER_PREQUEUE, "gone", STR("no name"), &err)); /* nothing to move */
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(rq13_the_directories_are_made_for_the_owner_alone),
        TEST(rq16_one_process_owns_a_base),
        TEST(rq16_a_fifo_never_blocks_and_what_is_in_its_way_goes),
        TEST(a_job_file_is_the_meta_and_three_sections),
        TEST(rq13_state_is_the_directory),
        TEST(rq21_a_crash_between_two_steps_leaves_one_whole_file),
        TEST(a_first_job_file_takes_one_rename_and_comes_from_prequeue),
        TEST(r23_what_is_foreign_goes_to_corrupt_and_is_never_followed),
        TEST(entries_that_cant_be_read_as_job_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
