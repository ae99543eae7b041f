/* Spawning, reaping and killing in this very process, which is made a subreaper; the working directory emptied of what
 * is hard to remove.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "exec/runner.h"
#include "exec/workdir.h"

static char top[] = "/tmp/weir-runner-XXXXXX";
static int top_fd, work_fd, null_fd;

static int set_up(void **state)
{
    (void)state;
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (!mkdtemp(top))
        return -1;
    top_fd = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    work_fd = workdir_open(top_fd, "work");
    return work_fd < 0 ? -1 : 0;
}

static int tear_down(void **state)
{
    (void)state;
    bool clean = workdir_clean(top_fd, "work", &work_fd);
    close(work_fd);
    close(top_fd);
    close(null_fd);
    char path[64];
    snprintf(path, sizeof path, "%s/work", top);
    return clean && rmdir(path) == 0 && rmdir(top) == 0 ? 0 : -1;
}

static void nap(void)
{
    nanosleep(&(struct timespec){ .tv_nsec = 2000000 }, NULL);
}

struct ran {
    bool started;
    int exit, wait_status;
    char text[4096];
};

static struct ran run(char *const *argv, char *const *envp)
{
    struct ran ran = { 0 };
    struct log_file log;
    struct runner runner;
    FILE *file = tmpfile();
    char *words[8] = { NULL }, *vars[8] = { NULL };
    for (size_t i = 0; argv[i]; i++)
        words[i] = argv[i];
    for (size_t i = 0; envp[i]; i++)
        vars[i] = envp[i];
    struct job job = { .argv = words, .envp = vars, .fence = STR("f") };
    log_file_open(&log, fileno(file), 1 << 20);
    const struct runner_place place = { .work_fd = work_fd, .null_fd = null_fd, .dir = "/" };
    ran.started = runner_start(&runner, &job, &place, &log, &ran.exit);
    while (ran.started && !runner.main_ended) {
        runner_reap(&runner);
        nap();
    }
    while (!runner.all_ended) {
        runner_kill(&runner);
        nap();
    }
    while (ran.started && log_file_pump(&log, runner.pipe_fd, 1 << 20) == LOG_FILE_MORE)
        ;
    ran.wait_status = runner.wait_status;
    if (ran.started)
        runner_close(&runner);
    ssize_t n = pread(fileno(file), ran.text, sizeof ran.text - 1, 0);
    ran.text[n > 0 ? n : 0] = '\0';
    fclose(file);
    assert_true(waitpid(-1, NULL, WNOHANG) < 0); /* ECHILD: nobody is left */
    return ran;
}

static char path_env[] = "PATH=/nowhere:/etc/passwd:/usr/bin:/bin";
static char *plain_env[] = { path_env, NULL };

static void ends(void **state)
{
    (void)state;
    char sh[] = "sh", c[] = "-c", seven[] = "echo out; echo err >&2; exit 7", kill9[] = "kill -9 $$",
         background[] = "setsid sleep 1000 & (setsid sleep 1000 &) ; echo gone";
    char *argv[] = { sh, c, seven, NULL };
    struct ran ran = run(argv, plain_env);
    assert_true(ran.started && WIFEXITED(ran.wait_status));
    assert_int_equal(WEXITSTATUS(ran.wait_status), 7);
    assert_string_equal(ran.text, "out\nerr\n");
    argv[2] = kill9;
    ran = run(argv, plain_env);
    assert_true(WIFSIGNALED(ran.wait_status) && WTERMSIG(ran.wait_status) == SIGKILL);
    argv[2] = background;
    ran = run(argv, plain_env);
    assert_int_equal(ran.wait_status, 0);
    assert_string_equal(ran.text, "gone\n");
}

static void not_started(void **state)
{
    (void)state;
    char missing[] = "no-such-program", file[] = "/etc/passwd", empty[] = "", dir[] = "/";
    char *argv[] = { missing, NULL };
    struct ran ran = run(argv, plain_env);
    assert_false(ran.started);
    assert_int_equal(ran.exit, 127);
    assert_string_equal(ran.text, "[weir: can't run 'no-such-program': there is no such program]\n");
    argv[0] = file;
    ran = run(argv, plain_env);
    assert_int_equal(ran.exit, 126);
    argv[0] = dir;
    ran = run(argv, plain_env);
    assert_int_equal(ran.exit, 126);
    argv[0] = empty;
    ran = run(argv, plain_env);
    assert_int_equal(ran.exit, 127);
}

/* A file without an interpreter line runs by sh, as in a shell. */
static void no_interpreter(void **state)
{
    (void)state;
    int fd = openat(work_fd, "plain", O_WRONLY | O_CREAT | O_CLOEXEC, 0700);
    assert_int_equal(write(fd, "echo \"$1-$2\"\n", 13), 13);
    close(fd);
    char prog[] = "./plain", a[] = "a", b[] = "b";
    char *argv[] = { prog, a, b, NULL };
    struct ran ran = run(argv, plain_env);
    assert_true(ran.started);
    assert_string_equal(ran.text, "a-b\n");
}

static void directory(void **state)
{
    (void)state;
    char sh[] = "sh", c[] = "-c",
         mess[] = "mkdir a; touch a/x .h; chmod 0 a; ln -s /etc l; mkfifo f; i=0; while [ $i -lt 200 ]; do mkdir d; cd "
                  "d; i=$((i+1)); done";
    char *argv[] = { sh, c, mess, NULL };
    assert_int_equal(run(argv, plain_env).wait_status, 0);
    assert_true(workdir_clean(top_fd, "work", &work_fd));
    char none[] = "[ -z \"$(ls -A)\" ] && [ -e /etc/passwd ]", gone[] = "rmdir ../work";
    argv[2] = none;
    assert_int_equal(run(argv, plain_env).wait_status, 0);
    argv[2] = gone;
    assert_int_equal(run(argv, plain_env).wait_status, 0);
    assert_true(workdir_clean(top_fd, "work", &work_fd));
    argv[2] = none;
    assert_int_equal(run(argv, plain_env).wait_status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(ends), cmocka_unit_test(not_started),
        cmocka_unit_test(no_interpreter), cmocka_unit_test(directory) };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
