/* process: see process.h. Owns the child's life: no path leaves a child, a zombie or a descriptor behind. */
#include "unpack/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sodium.h>
#include <spawn.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io/clock.h"

enum { CHUNK_BYTES = 1 << 16 };

extern char **environ;

struct process {
    const struct process_order *order;
    struct process_result *result;
    struct err *err;
    pid_t pid;
    int pid_fd, in_fd, out_fd; /* -1: closed */
    int64_t deadline_ms;
    crypto_hash_sha256_state hash;
    char chunk[CHUNK_BYTES];
    size_t n_chunk, at_chunk;
    bool is_bad; /* the file can't be read: err says so */
};

static void fd_close(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* fd_high: a copy above those that the child gets, so that no adddup2 overwrites one that is still needed. */
static int fd_high(int fd)
{
    return fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, CHILD_FD_COUNT) : -1;
}

/* spawn_child: a program of ours with an environment of nothing: the child parses hostile bytes, and what the server's
 * environment holds is none of its business. */
static int spawn_child(const struct process_order *order, const int fds[CHILD_FD_COUNT], pid_t *out)
{
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_t actions;
    sigset_t none, all;
    struct arena arena = { 0 };
    char weir[] = "weir", unpack[] = "unpack", *argv[CHILD_ARGUMENTS + 3] = { weir, unpack };
#if defined(WEIR_SANITIZED)
    char **environment = environ; /* the sanitizers' options */
#else
    char *nothing[] = { NULL }, **environment = nothing;
#endif
    child_order_format(&order->child, &arena, argv + 2);
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawn_file_actions_init(&actions);
#if !defined(WEIR_SANITIZED)
    posix_spawn_file_actions_addopen(&actions, CHILD_FD_STDERR, "/dev/null", O_WRONLY, 0);
#endif
    for (int i = 0; i < CHILD_FD_COUNT; i++)
        if (fds[i] >= 0)
            posix_spawn_file_actions_adddup2(&actions, fds[i], i);
    int fault = posix_spawn(out, order->program, &actions, &attributes, argv, environment);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    arena_release(&arena);
    return fault;
}

static bool process_start(struct process *process)
{
    const struct process_order *order = process->order;
    int in[2] = { -1, -1 }, out[2] = { -1, -1 }, fds[CHILD_FD_COUNT] = { -1, -1, -1, -1 };
    int fault = 0;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, in) < 0 || pipe2(out, O_CLOEXEC) < 0)
        fault = errno;
    process->in_fd = in[0];
    process->out_fd = out[0];
    fds[CHILD_FD_TARBALL] = fd_high(in[1]);
    fds[CHILD_FD_REPORT] = fd_high(out[1]);
    fds[CHILD_FD_DIR] = order->child.is_extract ? fd_high(order->dir_fd) : -1;
    if (fault == 0 &&
        (fds[CHILD_FD_TARBALL] < 0 || fds[CHILD_FD_REPORT] < 0 || (order->child.is_extract && fds[CHILD_FD_DIR] < 0) ||
            fcntl(out[0], F_SETFL, O_NONBLOCK) < 0 || shutdown(in[0], SHUT_RD) < 0))
        fault = errno;
    if (fault == 0)
        fault = spawn_child(order, fds, &process->pid);
    fd_close(&in[1]);
    fd_close(&out[1]);
    for (int i = 0; i < CHILD_FD_COUNT; i++)
        fd_close(&fds[i]);
    if (fault != 0)
        return err_set(process->err, ERR_io, "the process that unpacks can't be started: %s", strerrordesc_np(fault));
    process->pid_fd = pidfd_open(process->pid, 0); /* ours until it is reaped, so the number is its */
    return true;
}

/* --- bytes to the child --- */

/* chunk_fill: the next bytes of the file; false at its end, or when it can't be read. */
static bool chunk_fill(struct process *process)
{
    struct process_result *result = process->result;
    ssize_t n;
    do {
        n = pread(process->order->tarball_fd, process->chunk, CHUNK_BYTES, (off_t)result->n_fed);
    } while (n < 0 && errno == EINTR);
    if (n < 0) {
        process->is_bad = true;
        return err_set(process->err, ERR_io, "the tarball can't be read: %s", strerrordesc_np(errno));
    }
    process->n_chunk = (size_t)n;
    process->at_chunk = 0;
    result->n_fed += (uint64_t)n;
    crypto_hash_sha256_update(&process->hash, (const unsigned char *)process->chunk, (unsigned long long)n);
    return n > 0;
}

/* child_feed: as much as the child takes now. A child that reads no more has ended, or is about to. */
static void child_feed(struct process *process)
{
    while (process->in_fd >= 0) {
        if (process->at_chunk == process->n_chunk && !chunk_fill(process)) {
            process->result->is_fed = !process->is_bad;
            fd_close(&process->in_fd);
            return;
        }
        ssize_t n = send(process->in_fd, process->chunk + process->at_chunk, process->n_chunk - process->at_chunk,
            MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EAGAIN)
            return;
        if (n < 0 && errno != EINTR) {
            fd_close(&process->in_fd);
            return;
        }
        process->at_chunk += n > 0 ? (size_t)n : 0;
    }
}

/* --- reports from the child --- */

/* child_hear: true while it has more to say. */
static bool child_hear(struct process *process)
{
    for (;;) {
        char *room = buf_reserve(&process->result->reports, 4096);
        if (room == NULL) {
            process->result->end = PROCESS_TALKATIVE;
            return false;
        }
        ssize_t n = read(process->out_fd, room, 4096);
        if (n > 0)
            buf_commit(&process->result->reports, (size_t)n);
        else if (n == 0 || (errno != EAGAIN && errno != EINTR))
            return false;
        else if (errno == EAGAIN)
            return true;
    }
}

static int wait_ms(const struct process *process)
{
    int64_t left = process->deadline_ms - clock_boot_ms();
    return left < 0 ? 0 : left > 60000 ? 60000 : (int)left;
}

/* child_attend: until the child closes its reports, or has to be killed. */
static void child_attend(struct process *process)
{
    for (;;) {
        struct pollfd polled[] = { { process->out_fd, POLLIN, 0 }, { process->in_fd, POLLOUT, 0 },
            { process->order->stop_fd, POLLIN, 0 } };
        int n = poll(polled, 3, wait_ms(process));
        if (n > 0 && polled[2].revents != 0)
            process->result->end = PROCESS_STOPPED;
        else if (wait_ms(process) == 0)
            process->result->end = PROCESS_TIMEOUT;
        if (process->result->end != PROCESS_EXITED)
            return;
        if (n > 0 && polled[1].revents != 0)
            child_feed(process);
        if (process->is_bad || (n > 0 && polled[0].revents != 0 && !child_hear(process)))
            return;
    }
}

/* child_reap: one that closed its reports exits at once; any other is killed. */
static void child_reap(struct process *process)
{
    struct process_result *result = process->result;
    siginfo_t info = { 0 };
    struct pollfd polled[] = { { process->pid_fd, POLLIN, 0 }, { process->order->stop_fd, POLLIN, 0 } };
    bool ended = result->end == PROCESS_EXITED && !process->is_bad && process->pid_fd >= 0 &&
                 poll(polled, 2, wait_ms(process)) > 0 && polled[0].revents != 0;
    if (!ended && (process->pid_fd < 0 || pidfd_send_signal(process->pid_fd, SIGKILL, NULL, 0) < 0))
        kill(process->pid, SIGKILL); /* not reaped yet, so it is still the child's number */
    int waited;
    do {
        waited = waitid(P_PID, (id_t)process->pid, &info, WEXITED);
    } while (waited < 0 && errno == EINTR);
    if (waited == 0 && result->end == PROCESS_EXITED) {
        if (!ended)
            result->end = PROCESS_TIMEOUT;
        else if (info.si_code != CLD_EXITED)
            result->end = PROCESS_SIGNALLED;
        result->status = info.si_status;
    } /* else somebody else has reaped it (the executor's agent reaps all): its last report says how it ended */
}

bool process_run(const struct process_order *order, struct process_result *out, struct err *err)
{
    struct process process = { .order = order, .result = out, .err = err, .pid_fd = -1, .in_fd = -1, .out_fd = -1 };
    *out = (struct process_result){ .end = PROCESS_EXITED };
    buf_init(&out->reports, order->report_bytes_max);
    process.deadline_ms = clock_boot_ms() + order->timeout_ms;
    crypto_hash_sha256_init(&process.hash);
    bool good = process_start(&process);
    if (good) {
        child_attend(&process);
        fd_close(&process.in_fd);
        child_reap(&process);
    }
    crypto_hash_sha256_final(&process.hash, out->sha256);
    fd_close(&process.in_fd);
    fd_close(&process.out_fd);
    fd_close(&process.pid_fd);
    if (good && !process.is_bad)
        return true;
    buf_release(&out->reports);
    return false;
}
