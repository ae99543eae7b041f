/* apply_program: a target's own program, in the folder with the files, or for a rollback in an empty one.
 *
 * It tells the revision as `revision=R` in WEIR_OUTPUT. What it commits itself it must find again by WEIR_CSID: it may
 * be run a second time after a crash. Exit 99 says that it was applied already: whoever started us looks. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "exec/apply/apply_work.h"
#include "io/fsx.h"

static bool variable_put(struct apply_work *work, const char *name, struct str value)
{
    return setenv(name, str_dupz(work->arena, value), 1) == 0;
}

/* list_write: the CSIDs to undo, newest first, one a line. */
static bool list_write(struct apply_work *work, const char *path)
{
    struct buf text;
    buf_init(&text, ORDER_BYTES_MAX);
    for (size_t i = 0; i < work->order->n_undoes; i++)
        buf_addf(&text, "%.*s\n", STR_ARG(work->order->undoes[i].csid));
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    bool good = fd >= 0 && fsx_write_all(fd, buf_str(&text)) == 0;
    fsx_close(fd);
    buf_release(&text);
    return good;
}

static bool program_place(struct apply_work *work, const char *cs_dir)
{
    const struct apply_order *order = work->order;
    char here[PATH_MAX];
    if (!getcwd(here, sizeof here))
        return false;
    struct str base = str_of(here);
    bool good = variable_put(work, "WEIR_CSID", order->csid) && variable_put(work, "WEIR_TARGET", order->target) &&
                variable_put(work, "WEIR_MOVETYPE", order->movetype) &&
                variable_put(work, "WEIR_TICKET", order->ticket) && unsetenv("WEIR_REASON") == 0;
    if (order->rollback) {
        struct str list = str_fmt(work->arena, "%.*s/rollback", STR_ARG(base));
        return good && list_write(work, "rollback") && variable_put(work, "WEIR_ROLLBACK", list) &&
               mkdir("empty", 0700) == 0 && chdir("empty") == 0;
    }
    struct str dir = str_fmt(work->arena, "%.*s/%s", STR_ARG(base), cs_dir);
    mkdir("cs/lroot", 0700); /* of one that only removes */
    return good && variable_put(work, "WEIR_CS_DIR", dir) && chdir("cs/lroot") == 0;
}

/* In the child: execvp, and errno to the pipe if that fails. */
static _Noreturn void program_exec(const struct apply_work *work, int fault_fd)
{
    sigset_t none;
    sigemptyset(&none);
    signal(SIGTERM, SIG_DFL);
    signal(SIGHUP, SIG_DFL);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execvp(work->order->program[0], work->order->program);
    int fault = errno;
    ssize_t n = write(fault_fd, &fault, sizeof fault);
    _exit(n > 0 ? 127 : 126);
}

static int program_ended(struct apply_work *work, int status)
{
    if (WIFEXITED(status))
        return WEXITSTATUS(status);
    work_tell(work, TELL_SIGNAL, str_fmt(work->arena, "%d", WTERMSIG(status)));
    return APPLY_FAILED;
}

int program_run(struct apply_work *work, const char *cs_dir)
{
    int pipe_fds[2], fault = 0, status = 0;
    struct str why;
    /* TERM and HUP go to all processes of the job: the program decides how it ends, and we tell it. */
    signal(SIGTERM, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    work_tell(work, TELL_PROGRAM, (struct str){ 0 });
    if (pipe2(pipe_fds, O_CLOEXEC) < 0 || !program_place(work, cs_dir)) {
        why = str_fmt(work->arena, "the program's folder can't be made: %s", strerrordesc_np(errno));
        work_tell(work, TELL_REASON, why);
        return APPLY_LATER;
    }
    pid_t pid = fork();
    if (pid == 0)
        program_exec(work, pipe_fds[1]);
    close(pipe_fds[1]);
    ssize_t n = pid > 0 ? read(pipe_fds[0], &fault, sizeof fault) : 0;
    close(pipe_fds[0]);
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (pid < 0 || n == sizeof fault) {
        why = str_fmt(work->arena, "the program '%s' of the target can't be run: %s", work->order->program[0],
            strerrordesc_np(pid < 0 ? errno : fault));
        printf("[weir: %.*s]\n", STR_ARG(why));
        fflush(stdout);
        work_tell(work, TELL_REASON, why);
        return pid < 0 ? APPLY_LATER : APPLY_NEVER;
    }
    return program_ended(work, status);
}
