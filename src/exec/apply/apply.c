/* apply: see apply.h. */
#include "exec/apply/apply.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "exec/apply/apply_work.h"
#include "io/clock.h"
#include "io/fsx.h"
#include "text/utf8.h"

enum { PROGRAM_GRACE_MS = 3000, LOOK_AGAIN_MS = 500, LOOK_MS = 60000 };
enum { EXIT_NO_ORDER = 64, TOLD_BYTES_MAX = 64 << 10, REASON_BYTES = 900 };

struct apply_job {
    struct arena arena;
    struct apply_order order;
    struct apply_talk talk;
    const char *input, *output, *reason;
    sigset_t signals;
    pid_t pid; /* of the work; also its group */
    int status;
    int ordered;                            /* TERM or HUP; 0: none */
    struct str base, told_reason, revision; /* that the work has told; empty: it hasn't */
    bool program;                           /* the target's own program was begun */
    int program_signal;
};

/* --- what is left for the agent --- */

static void reason_write(const struct apply_job *job, struct str reason)
{
    char text[REASON_BYTES + 1];
    size_t n = reason.len < REASON_BYTES ? reason.len : REASON_BYTES;
    int fd = n > 0 ? open(job->reason, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600) : -1;
    if (fd < 0)
        return;
    memcpy(text, reason.ptr, n);
    for (size_t i = 0; i < n; i++)
        if (char_is_control(text[i]))
            text[i] = ' ';
    n = utf8_fault((struct str){ text, n }); /* a character that was cut, or isn't one */
    fsx_write_all(fd, (struct str){ text, n });
    close(fd);
}

static int end_with(const struct apply_job *job, int status, struct str reason)
{
    reason_write(job, reason);
    return status;
}

static int end_done(struct apply_job *job, struct str revision)
{
    int fd = open(job->output, O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC);
    struct str line = str_fmt(&job->arena, "\nrevision=%.*s\n", STR_ARG(revision));
    int fault = fd < 0 ? errno : fsx_write_all(fd, line);
    fsx_close(fd);
    if (fault == 0)
        return APPLY_DONE;
    return end_with(job, APPLY_LATER,
        str_fmt(&job->arena, "it was applied as %.*s, and that can't be written: %s", STR_ARG(revision),
            strerrordesc_np(fault)));
}

static _Noreturn void end_by(const struct apply_job *job, int signo, struct str reason)
{
    reason_write(job, reason);
    signal(signo, SIG_DFL);
    sigprocmask(SIG_UNBLOCK, &job->signals, NULL);
    raise(signo);
    _exit(128 + signo);
}

/* --- is it in the repository? --- */

enum look { LOOK_FOUND, LOOK_NOT, LOOK_UNKNOWN };

static enum look look_once(struct apply_job *job, struct err *err)
{
    const struct apply_order *order = &job->order;
    struct source_ident base = order->base, found_as;
    bool found = false, known = order->has_base;
    if (order->kind != ARCHIVE_SVN && order->kind != ARCHIVE_GIT)
        return LOOK_NOT; /* nowhere to look */
    if (!known && job->base.len > 0)
        known = ident_read(order->kind, job->base, &base);
    if (!known)
        return LOOK_NOT; /* no base was recorded, so nothing was committed */
    if (!work_find(order, &job->arena, base, &found, &found_as, err))
        return apply_is_temporary(err) ? LOOK_UNKNOWN : LOOK_NOT;
    if (found)
        job->revision = ident_text(&job->arena, order->kind, found_as);
    return found ? LOOK_FOUND : LOOK_NOT;
}

/* Until it is known, or `until`. With an order to end there is no limit: whoever has ordered it kills us when the grace
 * is over, and the next grant looks. */
static enum look look(struct apply_job *job, int64_t until)
{
    enum look seen;
    struct err err = { .arena = &job->arena };
    while ((seen = look_once(job, &err)) == LOOK_UNKNOWN && (job->ordered || clock_boot_ms() < until)) {
        err = (struct err){ .arena = &job->arena };
        nanosleep(&(struct timespec){ .tv_nsec = LOOK_AGAIN_MS * 1000000L }, NULL);
    }
    if (seen == LOOK_UNKNOWN)
        job->told_reason =
            str_fmt(&job->arena, "it isn't known whether it was committed: %.*s", STR_ARG(str_of(err.text)));
    return seen;
}

/* --- the work --- */

static void told_read(struct apply_job *job, int fd)
{
    static char text[TOLD_BYTES_MAX];
    size_t len = 0;
    ssize_t n;
    while (len < sizeof text && ((n = read(fd, text + len, sizeof text - len)) > 0 || (n < 0 && errno == EINTR)))
        len += n > 0 ? (size_t)n : 0;
    struct str rest = { text, len }, line;
    while (str_cut(&rest, '\n', &line)) {
        struct str value = str_dup(&job->arena, str_sub(line, 1, line.len));
        int64_t number = 0;
        if (line.len == 0)
            continue;
        if (line.ptr[0] == TELL_BASE && job->base.len == 0)
            job->base = value;
        else if (line.ptr[0] == TELL_REVISION)
            job->revision = value;
        else if (line.ptr[0] == TELL_REASON)
            job->told_reason = value;
        else if (line.ptr[0] == TELL_SIGNAL && str_to_i64(value, &number))
            job->program_signal = (int)number;
        job->program |= line.ptr[0] == TELL_PROGRAM;
    }
}

static _Noreturn void work_child(struct apply_job *job, int tell_fd, pid_t parent)
{
    struct apply_work work = { .order = &job->order, .talk = job->talk, .tell_fd = tell_fd, .arena = &job->arena };
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(APPLY_LATER);
    setpgid(0, 0);
    sigprocmask(SIG_UNBLOCK, &job->signals, NULL);
    _exit(work_run(&work));
}

static void work_stop(struct apply_job *job)
{
    kill(-job->pid, SIGKILL);
    kill(job->pid, SIGKILL); /* it may not have made its group yet */
}

/* work_wait: until the work has ended. TERM and HUP end it: at once, or when the target's program has had its grace. */
static void work_wait(struct apply_job *job, int told_fd)
{
    int64_t kill_at = 0;
    while (waitpid(job->pid, &job->status, WNOHANG) != job->pid) {
        int64_t left = kill_at ? kill_at - clock_boot_ms() : 60000;
        left = left > 0 ? left : 0;
        struct timespec until = { .tv_sec = left / 1000, .tv_nsec = left % 1000 * 1000000 };
        int signo = sigtimedwait(&job->signals, NULL, &until);
        if (signo == SIGTERM || signo == SIGHUP) {
            job->ordered = job->ordered ? job->ordered : signo;
            told_read(job, told_fd);
            if (!job->program)
                work_stop(job);
            else if (kill_at == 0)
                kill_at = clock_boot_ms() + PROGRAM_GRACE_MS;
        } else if (kill_at && clock_boot_ms() >= kill_at) {
            work_stop(job);
        }
    }
    kill(-job->pid, SIGKILL); /* hooks and others that it has left */
    told_read(job, told_fd);
}

static int work_judge(struct apply_job *job)
{
    bool exited = WIFEXITED(job->status);
    int status = exited ? WEXITSTATUS(job->status) : -1, signo = exited ? job->program_signal : WTERMSIG(job->status);
    if (!job->ordered && (signo == SIGTERM || signo == SIGHUP))
        job->ordered = signo; /* it got the signal before us */
    if (job->revision.len > 0)
        return end_done(job, job->revision);
    if (exited && !job->ordered && !signo && (status == APPLY_DONE || status == APPLY_LATER || !job->program))
        return end_with(job, status, job->told_reason);
    enum look seen = look(job, 0);
    if (seen == LOOK_FOUND)
        return end_done(job, job->revision);
    if (seen == LOOK_UNKNOWN)
        return end_with(job, APPLY_LATER, job->told_reason);
    if (job->ordered)
        end_by(job, job->ordered, STR("it isn't in the repository"));
    if (signo)
        end_by(job, signo, job->told_reason);
    if (status == APPLY_SKIPPED && job->order.kind != ARCHIVE_EXTERNAL)
        return end_with(job, APPLY_LATER,
            STR("the program says that it was applied already (exit 99), but it isn't in the repository"));
    return end_with(job, status, job->told_reason);
}

static int job_run(struct apply_job *job)
{
    int fds[2];
    pid_t self = getpid();
    if (pipe2(fds, O_CLOEXEC) < 0 || fcntl(fds[0], F_SETFL, O_NONBLOCK) < 0)
        return end_with(job, APPLY_LATER, str_fmt(&job->arena, "no pipe can be had: %s", strerrordesc_np(errno)));
    fflush(stdout);
    job->pid = fork();
    if (job->pid == 0)
        work_child(job, fds[1], self);
    if (job->pid < 0)
        return end_with(job, APPLY_LATER, str_fmt(&job->arena, "no process can be had: %s", strerrordesc_np(errno)));
    setpgid(job->pid, job->pid);
    close(fds[1]);
    work_wait(job, fds[0]);
    close(fds[0]);
    return work_judge(job);
}

/* look_run: the change set has ended otherwise unless it is in the repository. */
static int look_run(struct apply_job *job)
{
    enum look seen = look(job, clock_boot_ms() + LOOK_MS);
    if (seen == LOOK_FOUND)
        return end_done(job, job->revision);
    if (seen == LOOK_UNKNOWN)
        return end_with(job, APPLY_LATER, job->told_reason);
    end_by(job, SIGTERM, STR("it isn't in the repository"));
}

static bool job_open(struct apply_job *job)
{
    *job = (struct apply_job){ .input = getenv("WEIR_INPUT"),
        .output = getenv("WEIR_OUTPUT"),
        .reason = getenv("WEIR_REASON"),
        .talk = { getenv("WEIR_SERVER"), getenv("WEIR_TOKEN"), getenv("WEIR_FENCE"), getenv("WEIR_TASK_ID") } };
    sigemptyset(&job->signals);
    sigaddset(&job->signals, SIGTERM);
    sigaddset(&job->signals, SIGHUP);
    sigaddset(&job->signals, SIGCHLD);
    sigprocmask(SIG_BLOCK, &job->signals, NULL);
    return job->input && job->output && job->reason && job->talk.server && job->talk.token && job->talk.fence &&
           job->talk.task;
}

int apply_main(void)
{
    static struct apply_job job;
    struct str text;
    if (!job_open(&job)) {
        fprintf(stderr, "weir apply: this command is for the executor alone\n");
        return EXIT_NO_ORDER;
    }
    struct err err = { .arena = &job.arena };
    int status;
    if (!fsx_read(job.input, ORDER_BYTES_MAX, &job.arena, &text, &err) ||
        !order_read(text, &job.arena, &job.order, &err))
        status = end_with(&job, APPLY_NEVER, str_of(err.text));
    else
        status = job.order.look ? look_run(&job) : job_run(&job);
    arena_release(&job.arena);
    return status;
}
