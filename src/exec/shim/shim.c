/* shim: one poll loop around one runner.
 *
 * Promises: `status` is RUNNING before the job's first instruction, and ENDED before the agent gets the message; a job
 * has ended only when waitpid reports no child, so no process of it lives; the next job starts in an empty directory.
 * Deadlines (time-out, grace, lease) are boot time, so they hold through a suspend and without an agent.
 *
 * Without an agent the shim goes on while a job runs and exits when the job has ended; a later agent reads the record.
 * If the shim itself is killed, the kernel kills the job's main process, and the agent reports the job as lost. */
#include "exec/shim/shim.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/when.h"
#include "exec/tree/checkout.h"
#include "exec/container.h"
#include "exec/disk.h"
#include "exec/artifacts.h"
#include "exec/output.h"
#include "exec/runner.h"
#include "exec/shim/job_files.h"
#include "exec/process_tree.h"
#include "exec/shim/shim_message.h"
#include "exec/workdir.h"
#include "io/clock.h"
#include "io/fsx.h"
#include "text/utf8.h"

enum { LOG_TELL_MS = 40, SWEEP_MS = 5, PUMP_BYTES = 1 << 20, CONTAINER_WAIT_MS = 20000, HOOK_WAIT_MS = 2000 };
/* disk use is measured every DISK_MS, but for at most one part in DISK_SHARE of the time */
enum { DISK_MS = 250, DISK_SHARE = 20 };
enum { CONTAINER_FAILED = 125, CONTAINER_SIGNAL = 128 }; /* exit statuses of the container program */
static const uint64_t LOG_TELL_BYTES = 256 << 10;

enum shim_state { SHIM_IDLE, SHIM_RUNNING, SHIM_ENDED };
enum shim_clock { CLOCK_TIMEOUT, CLOCK_KILL, CLOCK_LEASE, CLOCK_TELL, CLOCK_SWEEP, CLOCK_DISK, CLOCK_COUNT };

struct shim {
    const char *dir; /* its directory, absolute */
    int dir_fd, listen_fd, agent_fd, timer_fd, null_fd;
    int job_fd, status_fd, log_fd, work_fd;
    enum shim_state state;
    struct arena arena;
    struct buf record;
    struct job job;
    struct job_files files;
    struct runner runner;
    struct log_file log;
    struct status status;
    bool checking_out; /* the runner runs the checkout; the job comes after it */
    int view_in;       /* socket on which the checkout sends the view; -1: none */
    struct view view;
    bool ending;         /* a signal was sent: descendants have until CLOCK_KILL as well */
    bool killing;        /* everything left is to die now */
    bool artifacts_left; /* keep/ may hold files of an earlier job */
    bool ended_untold;
    int64_t hook_until; /* boot ms; 0: no hook was seen */
    int64_t lease_grace_ms;
    uint64_t told_bytes;
    int64_t at[CLOCK_COUNT]; /* boot ms; 0: not set */
    int64_t armed_at;
};

/* --- clocks --- */

/* shim_arm: a timer that is armed for an earlier time stays as it is and is set again when it fires: a stream of short
 * jobs with a time-out arms it once. */
static void shim_arm(struct shim *shim, enum shim_clock which, int64_t at)
{
    shim->at[which] = at;
    if (at == 0 || (shim->armed_at != 0 && shim->armed_at <= at))
        return;
    struct itimerspec when = { .it_value = { .tv_sec = at / 1000, .tv_nsec = at % 1000 * 1000000 } };
    timerfd_settime(shim->timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
    shim->armed_at = at;
}

static void shim_rearm(struct shim *shim)
{
    shim->armed_at = 0;
    for (int i = 0; i < CLOCK_COUNT; i++)
        shim_arm(shim, (enum shim_clock)i, shim->at[i]);
}

/* --- talking to the agent --- */

static void shim_lose_agent(struct shim *shim)
{
    fsx_close(shim->agent_fd);
    shim->agent_fd = -1;
}

static void shim_tell(struct shim *shim, enum shim_message_kind kind)
{
    if (shim->agent_fd < 0)
        return;
    struct shim_message message = { .kind = kind, .bytes = (int64_t)shim->log.bytes };
    if (kind != MESSAGE_LOG)
        message.status = shim->status;
    bool sent = shim_message_send(shim->agent_fd, &message);
    if (!sent && errno != EAGAIN) {
        shim_lose_agent(shim);
    } else if (kind == MESSAGE_ENDED) {
        shim->ended_untold = !sent; /* sent again when the agent has read its queue */
    } else if (kind == MESSAGE_LOG) {
        shim->told_bytes = sent ? shim->log.bytes : shim->told_bytes;
        shim_arm(shim, CLOCK_TELL, sent ? 0 : clock_boot_ms() + LOG_TELL_MS);
    }
}

static void shim_accept(struct shim *shim)
{
    int fd = accept4(shim->listen_fd, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0)
        return;
    shim_lose_agent(shim); /* the directory's lock allows one agent: the newer connection is the living one's */
    shim->agent_fd = fd;
    shim_tell(shim, MESSAGE_HELLO);
}

/* --- the end of a job --- */

/* A killed container client leaves its container behind; only the container program can remove that. */
static void shim_remove_container(struct shim *shim)
{
    pid_t pid = container_remove(shim->job.container, shim->files.io_fd, shim->null_fd, shim->job.envp);
    int64_t until = clock_boot_ms() + CONTAINER_WAIT_MS;
    while (pid > 0 && waitpid(pid, NULL, WNOHANG) == 0 && clock_boot_ms() < until)
        nanosleep(&(struct timespec){ .tv_nsec = 5 * 1000 * 1000 }, NULL);
}

/* shim_verdict: how the main process ended. A container program reports a signal of the job as 128 plus its number, and
 * its own failure as 125: if there was no container, the image is the trouble, and a retry may help. */
static void shim_verdict(struct shim *shim)
{
    int status = shim->runner.wait_status;
    struct status *out = &shim->status;
    out->exit = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    out->signo = WIFSIGNALED(status) ? WTERMSIG(status) : -1;
    if (!shim->job.container)
        return;
    if (out->exit > CONTAINER_SIGNAL && out->exit < CONTAINER_SIGNAL + 32) {
        out->signo = out->exit - CONTAINER_SIGNAL;
        out->exit = -1;
    } else if (out->exit == CONTAINER_FAILED && !shim->ending && !container_made(shim->files.io_fd)) {
        log_file_note(&shim->log, "[weir: there was no container: the image can't be had, or %.100s refused it]\n",
            shim->job.container);
        out->outcome = OUTCOME_temporary;
    }
}

static void shim_write_status(struct shim *shim)
{
    struct status status = shim->status;
    ssize_t n = pwrite(shim->status_fd, &status, sizeof status, 0);
    (void)n; /* on a full disk the agent still gets the message; only a restarted one would report the job lost */
}

/* shim_reason: sets the text that the server gets with the end. People read it on terminals, so it is UTF-8 without
 * control characters, whatever a path in it holds. */
__attribute__((format(printf, 2, 3))) static void shim_reason(struct shim *shim, const char *fmt, ...)
{
    char *reason = shim->status.reason;
    va_list args;
    va_start(args, fmt);
    vsnprintf(reason, sizeof shim->status.reason, fmt, args);
    va_end(args);
    for (char *c = reason; *c != '\0'; c++)
        if (char_is_control(*c))
            *c = '?';
    size_t good = utf8_fault(str_of(reason)); /* where a character was cut, or isn't one */
    reason[good] = '\0';
}

static void shim_ended(struct shim *shim)
{
    struct status *status = &shim->status;
    output_check(shim->dir_fd, &shim->log);
    const char *missing = NULL;
    if (shim->job.artifacts)
        missing = artifacts_collect(shim->dir_fd, shim->view.work_fd >= 0 ? shim->view.work_fd : shim->work_fd,
            shim->job.artifacts, &shim->log);
    if (cgroup_over_memory(&shim->runner.group)) {
        struct when_text limit = size_format((uint64_t)shim->job.limits.memory_bytes);
        log_file_note(&shim->log,
            "[weir: the job was over its memory limit of %s, and the kernel killed a process of it]\n", limit.z);
        shim_reason(shim, "over its memory limit of %s", limit.z);
    } else if (missing && status->reason[0] == '\0') {
        shim_reason(shim, "artifact '%s': there is no such file", missing);
    }
    log_file_close(&shim->log);
    status->state = STATUS_ENDED;
    status->finished_ms = clock_wall_ms();
    status->cpu_us = shim->runner.cpu_us;
    status->max_rss_bytes = shim->runner.max_rss_bytes;
    status->log_bytes = (int64_t)shim->log.bytes;
    shim_write_status(shim);
    shim->state = SHIM_ENDED;
    memset(shim->at, 0, sizeof shim->at);
    shim_tell(shim, MESSAGE_ENDED);
    runner_close(&shim->runner);
    view_close(&shim->view);
    workdir_clean(shim->dir_fd, "work", &shim->work_fd);
    if (shim->job.checkout.kind != ARCHIVE_NONE)
        workdir_remove(shim->dir_fd, "layer");
    arena_reset(&shim->arena);
}

/* --- its start --- */

static void shim_begin_job(struct shim *shim)
{
    int exit_status = 126;
    struct runner_place place = {
        .work_fd = shim->work_fd, .null_fd = shim->null_fd, .dir = shim->dir, .view = &shim->view
    };
    shim->checking_out = false;
    if (shim->job.strict)
        mkdirat(shim->dir_fd, "root", 0700); /* the sandbox mounts its root there, in its own namespace */
    if (runner_start(&shim->runner, &shim->job, &place, &shim->log, &exit_status)) {
        shim->status.pid = (int32_t)shim->runner.pid;
        return;
    }
    shim->status.exit = exit_status;
    shim_ended(shim);
}

static int checkout_child(void *order)
{
    const struct shim *shim = order;
    return checkout_main(&shim->job, shim->dir_fd, shim->dir, shim->view_in);
}

/* shim_begin_checkout: starts the checkout as a process of its own: signals, time-out and log work as for the job. */
static void shim_begin_checkout(struct shim *shim)
{
    int pair[2];
    bool ok = socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0;
    shim->checking_out = ok;
    shim->view_in = ok ? pair[1] : -1; /* the child's end until it is forked */
    ok = ok && runner_fork(&shim->runner, checkout_child, shim, shim->null_fd, &shim->log);
    fsx_close(shim->view_in);
    shim->view_in = shim->checking_out ? pair[0] : -1;
    if (ok) {
        shim->status.pid = (int32_t)shim->runner.pid;
        return;
    }
    fsx_close(shim->view_in);
    shim->view_in = -1;
    shim->checking_out = false;
    shim->status.outcome = OUTCOME_temporary;
    shim_ended(shim);
}

/* shim_checked_out: the checkout's process has ended. true: the job was started, or its end was reported. */
static bool shim_checked_out(struct shim *shim)
{
    int status = shim->runner.wait_status;
    char reason[REASON_MAX + 1];
    bool viewed = checkout_receive(shim->view_in, &shim->view, reason, sizeof reason);
    close(shim->view_in);
    shim->view_in = -1;
    shim->checking_out = false;
    if (!viewed)
        view_close(&shim->view);
    if (shim->ending)
        return false; /* a signal ended it: the caller reports that */
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
        runner_close(&shim->runner);
        shim->killing = false;
        shim_begin_job(shim);
        return true;
    }
    bool never = WIFEXITED(status) && WEXITSTATUS(status) == CHECKOUT_NEVER;
    shim_reason(shim, "%s", reason);
    if (!never && (!WIFEXITED(status) || WEXITSTATUS(status) != CHECKOUT_FAILED))
        log_file_note(&shim->log, "[weir: the checkout ended with %s %d]\n",
            WIFEXITED(status) ? "exit status" : "signal", WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
    /* the repository may be back at the next attempt */
    shim->status.outcome = never ? OUTCOME_permanent : OUTCOME_temporary;
    shim_ended(shim);
    return true;
}

/* shim_spares_hook: a job that has committed may end before the repository's hook, in the background, has named it to
 * the server as the cause: a hook gets HOOK_WAIT_MS for that. */
static bool shim_spares_hook(struct shim *shim)
{
    int64_t now = clock_boot_ms();
    if (shim->runner.all_ended || shim->killing || !process_tree_has_hook(getpid()))
        return false;
    if (shim->hook_until == 0)
        shim->hook_until = now + HOOK_WAIT_MS;
    return now < shim->hook_until;
}

/* shim_settle: called whenever a process may have ended: kills what outlives the main process, and reports the job's
 * end when no process is left. */
static void shim_settle(struct shim *shim)
{
    struct runner *runner = &shim->runner;
    runner_reap(runner);
    if (!runner->all_ended && runner->main_ended && runner->pidfd >= 0) {
        close(runner->pidfd); /* it would stay readable for ever */
        runner->pidfd = -1;
    }
    shim->killing |= runner->main_ended && !shim->ending && !shim_spares_hook(shim);
    if (shim->killing && !runner->all_ended)
        runner_kill(runner);
    if (!runner->all_ended) {
        if (runner->main_ended || shim->killing)
            shim_arm(shim, CLOCK_SWEEP, clock_boot_ms() + SWEEP_MS);
        return;
    }
    if (shim->job.container && (shim->ending || WIFSIGNALED(runner->wait_status)))
        shim_remove_container(shim);
    while (runner->pipe_fd >= 0 && log_file_pump(&shim->log, runner->pipe_fd, PUMP_BYTES) == LOG_FILE_MORE)
        ;
    if (shim->checking_out && shim_checked_out(shim))
        return;
    shim_verdict(shim);
    shim_ended(shim);
}

/* shim_end: sends TERM or HUP with a grace, or KILL. The first call's outcome counts; another can only shorten the
 * grace. */
static void shim_end(struct shim *shim, int signo, int64_t grace_ms, uint32_t outcome)
{
    if (shim->state != SHIM_RUNNING || shim->killing)
        return;
    int64_t kill_at = clock_boot_ms() + (grace_ms > 0 ? grace_ms : 0);
    if (outcome != OUTCOME_none && shim->status.outcome == OUTCOME_none)
        shim->status.outcome = outcome;
    shim->ending = true;
    if (signo == SIGKILL) {
        shim->killing = true;
        shim_settle(shim);
        return;
    }
    runner_signal(&shim->runner, signo);
    if (shim->at[CLOCK_KILL] == 0 || kill_at < shim->at[CLOCK_KILL])
        shim_arm(shim, CLOCK_KILL, kill_at);
}

/* shim_look_disk: no common file system can limit a folder, so the shim measures it while the job runs. */
static void shim_look_disk(struct shim *shim)
{
    static const char *const places[] = { "work", "layer", "io", NULL };
    int64_t began = clock_boot_ms(), limit = shim->job.limits.disk_bytes;
    if (shim->state != SHIM_RUNNING || shim->killing)
        return;
    if (disk_over(shim->dir_fd, places, limit)) {
        log_file_note(&shim->log, "[weir: the job has more than its limit of %lld MiB on disk: killed]\n",
            (long long)(limit >> 20));
        shim_end(shim, SIGKILL, 0, OUTCOME_failed);
        return;
    }
    int64_t took = clock_boot_ms() - began;
    shim_arm(shim, CLOCK_DISK, began + (took * DISK_SHARE > DISK_MS ? took * DISK_SHARE : DISK_MS));
}

/* --- messages --- */

static bool shim_read_record(struct shim *shim, int64_t bytes, struct err *err)
{
    buf_reset(&shim->record);
    char *space = bytes > 0 ? buf_reserve(&shim->record, (size_t)bytes) : NULL;
    ssize_t n = space ? pread(shim->job_fd, space, (size_t)bytes, 0) : -1;
    if (n != bytes)
        return err_set(err, ERR_io, "the job record can't be read");
    buf_commit(&shim->record, (size_t)n);
    return job_unpack(buf_str(&shim->record), &shim->arena, &shim->job, err);
}

static void shim_begin_status(struct shim *shim)
{
    shim->status = (struct status){
        .magic = STATUS_MAGIC,
        .state = STATUS_RUNNING,
        .exit = -1,
        .signo = -1,
        .task = shim->job.task,
        .started_ms = clock_wall_ms(),
    };
    memcpy(shim->status.fence, shim->job.fence.ptr, shim->job.fence.len);
    shim_write_status(shim);
}

/* token_secret: the secret part of the job's token, behind the last '_'; the fence before it isn't secret. */
static struct str token_secret(const struct job *job)
{
    for (char **entry = job->envp; *entry; entry++)
        if (strncmp(*entry, "WEIR_TOKEN=", 11) == 0) {
            struct str token = str_of(*entry + 11);
            return str_sub(token, (size_t)(str_rindex(token, '_') + 1), token.len);
        }
    return (struct str){ 0 };
}

static void shim_start(struct shim *shim, const struct shim_message *message)
{
    struct err err = { .code = ERR_none };
    if (shim->state == SHIM_RUNNING)
        return; /* our agent never sends it while a job runs */
    if (!shim_read_record(shim, message->bytes, &err))
        _exit(70); /* the agent reports the job lost; without the record we can't report anything about it */
    struct job *job = &shim->job;
    shim->ending = shim->killing = shim->ended_untold = false;
    shim->hook_until = 0;
    shim->told_bytes = 0;
    if (ftruncate(shim->log_fd, 0) < 0)
        _exit(70);
    log_file_open(&shim->log, shim->log_fd, job->log_bytes_max);
    mask_set(&shim->log.mask, token_secret(job));
    if (job->note.len > 0)
        log_file_note(&shim->log, "%.*s", STR_ARG(job->note));
    shim_begin_status(shim);
    shim->runner = RUNNER_NONE;
    if (shim->artifacts_left)
        artifacts_forget(shim->dir_fd);
    shim->artifacts_left = job->artifacts != NULL;
    if (job->refusal.len > 0 || !job_files_put(&shim->files, job, shim->work_fd)) {
        bool refused = job->refusal.len > 0;
        log_file_note(&shim->log, "[weir: %.*s%s]\n",
            STR_ARG(refused ? job->refusal : STR("can't write the job's files: ")),
            refused ? "" : strerrordesc_np(errno));
        shim->status.exit = refused ? (int32_t)job->refusal_exit : 126;
        shim_ended(shim);
        return;
    }
    shim->state = SHIM_RUNNING;
    if (job->checkout.kind != ARCHIVE_NONE)
        shim_begin_checkout(shim);
    else
        shim_begin_job(shim);
    if (shim->state != SHIM_RUNNING)
        return;
    if (job->limits.disk_bytes > 0)
        shim_arm(shim, CLOCK_DISK, clock_boot_ms() + DISK_MS);
    if (job->timeout_ms > 0)
        shim_arm(shim, CLOCK_TIMEOUT, clock_boot_ms() + job->timeout_ms);
    if (message->at_ms > 0) {
        shim->lease_grace_ms = message->grace_ms;
        shim_arm(shim, CLOCK_LEASE, message->at_ms);
    }
}

static void shim_lease(struct shim *shim, const struct shim_message *message)
{
    if (shim->state != SHIM_RUNNING)
        return;
    shim->lease_grace_ms = message->grace_ms;
    shim_arm(shim, CLOCK_LEASE, message->at_ms);
}

static void shim_signal(struct shim *shim, const struct shim_message *message)
{
    shim_end(shim, message->signo, message->grace_ms, message->outcome);
}

static void (*const shim_messages[])(struct shim *, const struct shim_message *) = {
    [MESSAGE_START] = shim_start,
    [MESSAGE_SIGNAL] = shim_signal,
    [MESSAGE_LEASE] = shim_lease,
};

static void shim_hear(struct shim *shim)
{
    struct shim_message message;
    int heard = shim_message_read(shim->agent_fd, &message);
    if (heard == 0)
        shim_lose_agent(shim);
    else if (heard > 0 && message.kind < sizeof shim_messages / sizeof *shim_messages && shim_messages[message.kind])
        shim_messages[message.kind](shim, &message);
}

/* --- the loop --- */

static void shim_pump(struct shim *shim)
{
    struct runner *runner = &shim->runner;
    if (log_file_pump(&shim->log, runner->pipe_fd, PUMP_BYTES) == LOG_FILE_END) {
        close(runner->pipe_fd); /* every writer has closed it; the job may still run */
        runner->pipe_fd = -1;
    }
    uint64_t fresh = shim->log.bytes - shim->told_bytes;
    if (fresh >= LOG_TELL_BYTES)
        shim_tell(shim, MESSAGE_LOG);
    else if (fresh > 0 && shim->at[CLOCK_TELL] == 0)
        shim_arm(shim, CLOCK_TELL, clock_boot_ms() + LOG_TELL_MS);
}

static void shim_due(struct shim *shim)
{
    uint64_t count;
    ssize_t n = read(shim->timer_fd, &count, sizeof count);
    (void)n;
    int64_t now = clock_boot_ms(), due[CLOCK_COUNT];
    for (int i = 0; i < CLOCK_COUNT; i++) {
        due[i] = shim->at[i] != 0 && shim->at[i] <= now;
        shim->at[i] = due[i] ? 0 : shim->at[i];
    }
    if (due[CLOCK_TELL])
        shim_tell(shim, MESSAGE_LOG);
    if (due[CLOCK_TIMEOUT])
        shim_end(shim, SIGTERM, shim->job.grace_ms, OUTCOME_timeout);
    if (due[CLOCK_LEASE])
        shim_end(shim, SIGTERM, shim->lease_grace_ms, OUTCOME_lost);
    if (due[CLOCK_KILL])
        shim_end(shim, SIGKILL, 0, OUTCOME_none);
    if (due[CLOCK_DISK])
        shim_look_disk(shim);
    if (due[CLOCK_SWEEP] && shim->state == SHIM_RUNNING)
        shim_settle(shim);
    shim_rearm(shim);
}

static void shim_turn(struct shim *shim)
{
    bool running = shim->state == SHIM_RUNNING;
    enum { AT_PIPE, AT_PID, AT_TIMER, AT_LISTEN, AT_AGENT, AT_COUNT };
    struct pollfd fds[AT_COUNT] = {
        [AT_PIPE] = { .fd = running ? shim->runner.pipe_fd : -1, .events = POLLIN },
        [AT_PID] = { .fd = running ? shim->runner.pidfd : -1, .events = POLLIN },
        [AT_TIMER] = { .fd = shim->timer_fd, .events = POLLIN },
        [AT_LISTEN] = { .fd = shim->listen_fd, .events = POLLIN },
        [AT_AGENT] = { .fd = shim->agent_fd, .events = (short)(POLLIN | (shim->ended_untold ? POLLOUT : 0)) },
    };
    if (poll(fds, AT_COUNT, -1) < 0)
        return;
    if (fds[AT_PIPE].revents)
        shim_pump(shim);
    if (fds[AT_PID].revents)
        shim_settle(shim);
    if (fds[AT_TIMER].revents)
        shim_due(shim);
    if (fds[AT_AGENT].revents & POLLOUT)
        shim_tell(shim, MESSAGE_ENDED);
    if (fds[AT_LISTEN].revents)
        shim_accept(shim);
    else if (fds[AT_AGENT].revents & (POLLIN | POLLHUP | POLLERR))
        shim_hear(shim);
}

static bool shim_open(struct shim *shim, const char *dir)
{
    *shim = (struct shim){ .dir = dir,
        .dir_fd = SHIM_FD_DIR,
        .listen_fd = SHIM_FD_LISTEN,
        .agent_fd = SHIM_FD_AGENT,
        .view = VIEW_NONE,
        .view_in = -1 };
    for (int fd = SHIM_FD_DIR; fd < SHIM_FD_COUNT; fd++)
        if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
            return false;
    close_range(SHIM_FD_COUNT, ~0U, 0);
    buf_init(&shim->record, JOB_BYTES_MAX);
    shim->runner = RUNNER_NONE;
    shim->artifacts_left = true; /* an earlier shim may have left some */
    shim->null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    shim->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    shim->job_fd = openat(shim->dir_fd, "job", O_RDONLY | O_CLOEXEC);
    shim->status_fd = openat(shim->dir_fd, "status", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    shim->log_fd = openat(shim->dir_fd, "log", O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    job_files_open(&shim->files, shim->dir_fd);
    shim->work_fd = workdir_open(shim->dir_fd, "work");
    const int needed[] = { shim->null_fd, shim->timer_fd, shim->job_fd, shim->status_fd, shim->log_fd,
        shim->files.io_fd, shim->work_fd };
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        if (needed[i] < 0)
            return false;
    return workdir_clean(shim->dir_fd, "work", &shim->work_fd);
}

int shim_main(const char *dir)
{
    static struct shim shim;
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0 || chdir("/") < 0 || !shim_open(&shim, dir)) {
        fprintf(stderr, "weir shim: %s: %s (this command is for the executor alone)\n", dir, strerrordesc_np(errno));
        return 71;
    }
    /* Once for all jobs: no signal stays ignored or blocked because our parent did so, and no core is dumped. */
    static const char
        /* a sigaction as the kernel has it, all zero; the C library hides two signals that may be ignored too */
        by_default[64];
    for (int signo = 1; signo < NSIG; signo++)
        syscall(SYS_rt_sigaction, signo, by_default, NULL, (size_t)8);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
    shim_tell(&shim, MESSAGE_HELLO);
    while (shim.agent_fd >= 0 || shim.state == SHIM_RUNNING)
        shim_turn(&shim);
    arena_release(&shim.arena);
    buf_release(&shim.record);
    return 0;
}
