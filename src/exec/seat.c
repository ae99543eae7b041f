/* seat: see seat.h.
 *
 * Promises: the job record is complete before START is said; at most one live shim per directory, by a lock that the
 * shim inherits and holds until it is dead, however that comes; what is read back from a directory is believed only
 * when fence and hash fit.
 *
 * A shim that can't be spawned or spoken to costs its job (reported as lost), never the agent. */
#include "exec/seat.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/plant.h"
#include "exec/agent.h"
#include "exec/container.h"
#include "exec/tree.h"
#include "io/clock.h"
#include "io/log.h"

static void seat_hear(struct seat *seat);

/* --- the directory --- */

static bool seat_open_files(struct seat *seat, struct err *err)
{
    struct agent *agent = seat->agent;
    char name[16];
    snprintf(name, sizeof name, "%u", seat->number);
    if (mkdirat(agent->shims_fd, name, 0700) < 0 && errno != EEXIST)
        return err_set(err, ERR_io, "%s/shims/%s: %s", agent->dir, name, strerrordesc_np(errno));
    seat->dir_fd = openat(agent->shims_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    seat->job_fd = openat(seat->dir_fd, "job", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    seat->log_fd = openat(seat->dir_fd, "log", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    seat->status_fd = openat(seat->dir_fd, "status", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (seat->dir_fd < 0 || seat->job_fd < 0 || seat->log_fd < 0 || seat->status_fd < 0)
        return err_set(err, ERR_io, "%s/shims/%s: %s", agent->dir, name, strerrordesc_np(errno));
    return true;
}

struct seat *seat_new(struct agent *agent, unsigned number, struct err *err)
{
    struct seat *seat = mem_alloc(sizeof *seat);
    *seat = (struct seat){ .agent = agent,
        .number = number,
        .dir_fd = -1,
        .job_fd = -1,
        .log_fd = -1,
        .status_fd = -1,
        .conn = { .fd = -1 } };
    buf_init(&seat->kept_list, (size_t)2 << 20);
    size_t size = strlen(agent->dir) + 32;
    seat->dir = mem_alloc(size);
    snprintf(seat->dir, size, "%s/shims/%u", agent->dir, number);
    if (!seat_open_files(seat, err)) {
        seat_free(seat);
        return NULL;
    }
    agent->seats = mem_realloc(agent->seats, (agent->n_seats + 1) * sizeof *agent->seats);
    agent->seats[agent->n_seats++] = seat;
    return seat;
}

static void seat_disconnect(struct seat *seat)
{
    if (seat->conn.fd < 0)
        return;
    loop_remove(seat->agent->loop, &seat->conn);
    close(seat->conn.fd);
    seat->conn.fd = -1;
    seat->pid = 0;
}

void seat_free(struct seat *seat)
{
    report_forget(seat);
    seat_disconnect(seat);
    const int fds[] = { seat->dir_fd, seat->job_fd, seat->log_fd, seat->status_fd };
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    send_forget(seat);
    arena_release(&seat->kept_arena);
    buf_release(&seat->kept_list);
    mem_free(seat->dir);
    mem_free(seat);
}

/* --- the shim --- */

static void seat_ready(struct loop_fd *watch, uint32_t epoll_events)
{
    (void)epoll_events;
    seat_hear(watch->owner);
}

static void seat_connect(struct seat *seat, int fd)
{
    seat->conn = (struct loop_fd){ fd, seat_ready, seat };
    loop_add(seat->agent->loop, &seat->conn, EPOLLIN);
}

/* A socket's path may be longer than an address holds; through /proc it is always short. */
static void seat_address(const struct seat *seat, struct sockaddr_un *out)
{
    *out = (struct sockaddr_un){ .sun_family = AF_UNIX };
    snprintf(out->sun_path, sizeof out->sun_path, "/proc/self/fd/%d/sock", seat->dir_fd);
}

static int seat_lock(const struct seat *seat)
{
    int fd = openat(seat->dir_fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static int seat_listen(const struct seat *seat)
{
    struct sockaddr_un address;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    seat_address(seat, &address);
    unlinkat(seat->dir_fd, "sock", 0);
    if (fd >= 0 && (bind(fd, (struct sockaddr *)&address, sizeof address) < 0 || listen(fd, 4) < 0)) {
        close(fd);
        return -1;
    }
    return fd;
}

static int spawn_shim(const struct seat *seat, const int fds[SHIM_FD_COUNT], pid_t *out)
{
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_t actions;
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDWR, 0);
    posix_spawn_file_actions_adddup2(&actions, 0, 1);
    posix_spawn_file_actions_adddup2(&actions, 0, 2); /* it outlives us: it must not keep our terminal or pipe open */
    for (int i = SHIM_FD_DIR; i < SHIM_FD_COUNT; i++)
        posix_spawn_file_actions_adddup2(&actions, fds[i], i);
    char weir[] = "weir", shim[] = "shim";
    char *const argv[] = { weir, shim, seat->dir, NULL };
    int fault = posix_spawn(out, "/proc/self/exe", &actions, &attributes, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    return fault;
}

/* Moved out of the way: none of them may stand where another is to go in the shim. */
static int fd_high(int fd)
{
    int high = fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, SHIM_FD_COUNT) : -1;
    if (fd >= 0)
        close(fd);
    return high;
}

static bool seat_spawn(struct seat *seat, struct err *err)
{
    int pair[2] = { -1, -1 }, fds[SHIM_FD_COUNT];
    pid_t pid = 0;
    fds[SHIM_FD_DIR] = fd_high(openat(seat->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    fds[SHIM_FD_LOCK] = fd_high(seat_lock(seat));
    fds[SHIM_FD_LISTEN] = fds[SHIM_FD_LOCK] >= 0 ? fd_high(seat_listen(seat)) : -1;
    int fault = socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0 ? errno : 0;
    fds[SHIM_FD_AGENT] = fd_high(pair[1]);
    for (int i = SHIM_FD_DIR; i < SHIM_FD_COUNT && fault == 0; i++)
        fault = fds[i] < 0 ? errno : 0;
    if (fault == 0)
        fault = spawn_shim(seat, fds, &pid);
    for (int i = SHIM_FD_DIR; i < SHIM_FD_COUNT; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    if (fault != 0) {
        if (pair[0] >= 0)
            close(pair[0]);
        return err_set(err, ERR_io, "%s: a shim can't be started: %s", seat->dir, strerrordesc_np(fault));
    }
    seat_connect(seat, pair[0]);
    seat->pid = pid;
    seat->state = SEAT_IDLE;
    return true;
}

/* --- the job --- */

static void seat_take_job(struct seat *seat, const struct job *job)
{
    seat->task = job->task;
    memset(seat->fence, 0, sizeof seat->fence);
    memcpy(seat->fence, job->fence.ptr, job->fence.len);
    seat->wants = job->artifacts != NULL;
    seat->contained = job->container != NULL;
    seat->holds = job->holds;
    seat->grace_ms = job->grace_ms;
    seat->signalled = 0;
    seat->lease_told_ms = seat->started_us = 0;
    seat->spool_bytes = seat->stored = seat->durable = seat->settle_bytes = 0;
    send_forget(seat);
    seat->adopted = seat->probe = seat->log_dead = seat->alone = seat->told = false;
    seat->bare = 0;
    seat->resent = false;
    seat->tries = 0;
    seat->finish_at_ms = 0;
    seat->inline_from = -1;
}

/* When to begin to end a job that can't be renewed: early enough that it is dead before the lease is. */
static void lease_times(const struct seat *seat, int64_t *out_at, int64_t *out_grace)
{
    const struct agent *agent = seat->agent;
    int64_t grace = seat->grace_ms < agent->lease_ms / 5 ? seat->grace_ms : agent->lease_ms / 5;
    *out_grace = grace;
    *out_at = agent->heard_ms + agent->lease_ms - agent->lease_ms / 8 - grace;
}

bool seat_start(struct seat *seat, int64_t task, struct str fence, const json_t *spec, struct err *err)
{
    struct agent *agent = seat->agent;
    struct job job;
    struct buf record;
    if (seat->conn.fd < 0 && !seat_spawn(seat, err))
        return false;
    struct place place = agent_place(agent, seat);
    target_job(spec, task, fence, &place, &agent->scratch, &job);
    buf_init(&record, JOB_BYTES_MAX);
    job_pack(&job, &record);
    if (record.full) {
        job = (struct job){ .task = task,
            .fence = fence,
            .refusal = STR("the task's command and environment are over 64 MiB"),
            .refusal_exit = 126 };
        job_pack(&job, &record);
    }
    struct wire message = { .kind = WIRE_START, .bytes = (int64_t)record.len };
    bool ok = pwrite(seat->job_fd, record.ptr, record.len, 0) == (ssize_t)record.len;
    buf_release(&record);
    seat_take_job(seat, &job);
    if (job.holds)
        lease_times(seat, &message.at_ms, &message.grace_ms);
    seat->lease_told_ms = message.at_ms;
    if (!ok)
        return err_set(err, ERR_io, "%s/job: %s", seat->dir, strerrordesc_np(errno));
    if (!wire_send(seat->conn.fd, &message))
        return err_set(err, ERR_io, "%s: the shim doesn't listen: %s", seat->dir, strerrordesc_np(errno));
    seat->state = SEAT_RUNNING;
    seat->started_us = clock_boot_us();
    return true;
}

void seat_signal(struct seat *seat, int signo, int64_t grace_ms, enum outcome outcome)
{
    if ((seat->state != SEAT_RUNNING && seat->state != SEAT_DROPPED) || seat->conn.fd < 0)
        return;
    if (seat->signalled == SIGKILL || (seat->signalled != 0 && signo != SIGKILL && outcome == OUTCOME_none))
        return;
    seat->signalled = signo;
    struct wire message = { .kind = WIRE_SIGNAL, .signo = signo, .grace_ms = grace_ms, .outcome = outcome };
    wire_send(seat->conn.fd, &message); /* a shim that is gone is noticed by the end of its connection */
}

bool seat_needs_lease(const struct seat *seat)
{
    return seat->state == SEAT_RUNNING && (seat->holds || seat->signalled != 0) && seat->conn.fd >= 0;
}

void seat_lease(struct seat *seat)
{
    if (!seat_needs_lease(seat))
        return;
    struct wire message = { .kind = WIRE_LEASE };
    lease_times(seat, &message.at_ms, &message.grace_ms);
    if (message.at_ms < seat->lease_told_ms + seat->agent->lease_ms / 10)
        return; /* not worth a message */
    seat->lease_told_ms = message.at_ms;
    wire_send(seat->conn.fd, &message);
}

void seat_drop(struct seat *seat)
{
    report_forget(seat);
    if (seat->state == SEAT_RUNNING) {
        seat->state = SEAT_DROPPED;
        seat_signal(seat, SIGKILL, 0, OUTCOME_none);
    } else if (seat->state == SEAT_ENDED || seat->state == SEAT_SETTLING) {
        seat_release(seat);
    }
}

void seat_release(struct seat *seat)
{
    report_forget(seat);
    uint32_t released = 1;
    ssize_t n = pwrite(seat->job_fd, &released, sizeof released, JOB_RELEASED_AT);
    if (n < 0 || (seat->spool_bytes > 0 && ftruncate(seat->log_fd, 0) < 0))
        log_warn("seat.release", "dir=%s error=\"%s\"", seat->dir, strerrordesc_np(errno));
    seat->fence[0] = '\0';
    seat->state = seat->conn.fd >= 0 ? SEAT_IDLE : SEAT_EMPTY;
    seat->idle_since_ms = loop_now(seat->agent->loop);
}

void seat_retire(struct seat *seat)
{
    seat_disconnect(seat);
    seat->state = SEAT_EMPTY;
}

/* --- what the shim says --- */

static void seat_ended(struct seat *seat, const struct status *status)
{
    if (seat->state == SEAT_DROPPED) {
        seat_release(seat);
        return;
    }
    if (seat->started_us != 0)
        agent_timed(seat->agent, seat->started_us);
    seat->status = *status;
    seat->spool_bytes = status->log_bytes;
    seat->state = SEAT_ENDED;
    send_begin(seat);
    report_log(seat);
}

static bool seat_read_status(const struct seat *seat, struct status *out)
{
    *out = (struct status){ 0 };
    return pread(seat->status_fd, out, sizeof *out, 0) >= (ssize_t)offsetof(struct status, reason) &&
           status_fits(out, str_of(seat->fence));
}

/* A container isn't a child of the client that is dead now: its program ends it, while we go on. */
static void seat_remove_container(struct seat *seat)
{
    bool known = seat->contained && seat->agent->container;
    int io_fd = known ? openat(seat->dir_fd, "io", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
    int null_fd = io_fd >= 0 ? open("/dev/null", O_RDWR | O_CLOEXEC) : -1;
    if (null_fd >= 0 && container_remove(seat->agent->container, io_fd, null_fd, environ) > 0)
        log_event("container.removed", "task=%lld", (long long)seat->task);
    if (io_fd >= 0)
        close(io_fd);
    if (null_fd >= 0)
        close(null_fd);
}

/* seat_lost: the shim is dead and its job isn't known to have ended: nothing of it may live on. */
static void seat_lost(struct seat *seat)
{
    struct agent *agent = seat->agent;
    struct stat st;
    struct status status;
    log_warn("shim.lost", "dir=%s task=%lld", seat->dir, (long long)seat->task);
    if (!tree_kill_marked(seat->fence))
        log_error("shim.leftover", "dir=%s task=%lld", seat->dir, (long long)seat->task);
    pid_t *known = ARENA_ARRAY(&agent->scratch, pid_t, agent->n_seats + 1);
    for (size_t i = 0; i < agent->n_seats; i++)
        known[i] = agent->seats[i]->pid;
    tree_kill_strays(known, agent->n_seats);
    seat_remove_container(seat);
    if (!seat_read_status(seat, &status))
        status = (struct status){ .task = seat->task };
    status.state = STATUS_ENDED;
    status.exit = status.signo = -1;
    status.outcome = OUTCOME_lost;
    status.finished_ms = clock_wall_ms();
    status.log_bytes = fstat(seat->log_fd, &st) == 0 ? (int64_t)st.st_size : 0;
    seat_ended(seat, &status);
}

static void seat_gone(struct seat *seat)
{
    struct status status;
    seat_disconnect(seat);
    if (seat->state == SEAT_IDLE)
        seat->state = SEAT_EMPTY;
    if (seat->state != SEAT_RUNNING && seat->state != SEAT_DROPPED)
        return;
    if (seat_read_status(seat, &status) && status.state == STATUS_ENDED)
        seat_ended(seat, &status);
    else
        seat_lost(seat);
}

/* Only an adopted seat hears a HELLO with news: the job ended while there was no agent, or the shim never got to it. */
static void seat_hello(struct seat *seat, const struct wire *message)
{
    if (seat->state != SEAT_RUNNING || seat->signalled != 0)
        return;
    if (!status_fits(&message->status, str_of(seat->fence))) {
        if (seat->adopted)
            seat_release(seat); /* an earlier agent died between the record and START: never started */
        return;
    }
    if (message->status.state == STATUS_ENDED) {
        seat_ended(seat, &message->status);
    } else {
        seat->spool_bytes = message->bytes;
        report_log(seat);
    }
}

/* One message a call: the loop comes again while there are more. */
static void seat_hear(struct seat *seat)
{
    struct wire message;
    int heard = wire_read(seat->conn.fd, &message);
    bool mine = seat->state == SEAT_RUNNING || seat->state == SEAT_DROPPED;
    if (heard >= 0)
        seat->unheard = false;
    if (heard == 0) {
        seat_gone(seat);
    } else if (heard > 0 && message.kind == WIRE_HELLO) {
        seat_hello(seat, &message);
    } else if (heard > 0 && message.kind == WIRE_LOG && seat->state == SEAT_RUNNING) {
        seat->spool_bytes = message.bytes;
        report_log(seat);
    } else if (heard > 0 && message.kind == WIRE_ENDED && mine && status_fits(&message.status, str_of(seat->fence))) {
        seat_ended(seat, &message.status);
    }
}

/* --- after a restart --- */

static bool seat_read_job(struct seat *seat)
{
    struct stat st;
    struct job job;
    struct job_head head;
    struct err err = { .code = ERR_none };
    if (fstat(seat->job_fd, &st) < 0 || st.st_size < (off_t)sizeof head || (uint64_t)st.st_size > JOB_BYTES_MAX)
        return false;
    char *bytes = mem_alloc((size_t)st.st_size);
    bool ok = pread(seat->job_fd, bytes, (size_t)st.st_size, 0) == st.st_size;
    if (ok) {
        memcpy(&head, bytes, sizeof head);
        ok = head.released == 0 &&
             job_unpack((struct str){ bytes, (size_t)st.st_size }, &seat->agent->scratch, &job, &err);
    }
    if (ok)
        seat_take_job(seat, &job);
    mem_free(bytes);
    return ok;
}

static int seat_call_shim(const struct seat *seat)
{
    struct sockaddr_un address;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    seat_address(seat, &address);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) < 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static void seat_adopt(struct seat *seat)
{
    bool job = seat_read_job(seat);
    int lock = -1, fd = -1;
    /* Either the lock or the shim answers; a shim that is just ending may refuse us before it gives the lock back. */
    for (int64_t until = clock_boot_ms() + 5000; lock < 0 && fd < 0 && clock_boot_ms() < until;) {
        lock = seat_lock(seat);
        fd = lock < 0 ? seat_call_shim(seat) : -1;
        if (lock < 0 && fd < 0)
            usleep(2000);
    }
    seat->probe = seat->adopted = true;
    if (fd >= 0 && PLANT(jobs_not_adopted)) {
        close(fd);
        fd = -1;
    }
    if (fd >= 0) {
        seat->state = job ? SEAT_RUNNING : SEAT_IDLE; /* HELLO tells the truth */
        seat->unheard = true;                         /* it may be ending, for want of an agent: then it takes no job */
        seat_connect(seat, fd);
        log_event("shim.adopted", "dir=%s task=%lld", seat->dir, (long long)(job ? seat->task : 0));
    } else if (job) {
        struct status status;
        bool known = seat_read_status(seat, &status);
        seat->state = SEAT_RUNNING;
        if (known && status.state == STATUS_ENDED && !PLANT(jobs_not_adopted))
            seat_ended(seat, &status);
        else if (known)
            seat_lost(seat);
        else
            seat_release(seat); /* never started */
    }
    if (lock >= 0)
        close(lock);
}

bool seat_find_all(struct agent *agent, struct err *err)
{
    int fd = openat(agent->shims_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (!dir) {
        if (fd >= 0)
            close(fd);
        return err_set(err, ERR_io, "%s/shims: %s", agent->dir, strerrordesc_np(errno));
    }
    bool ok = true;
    for (struct dirent *entry; ok && (entry = readdir(dir));) {
        uint64_t number;
        if (!str_to_u64(str_of(entry->d_name), &number) || number > 1000000)
            continue;
        struct seat *seat = seat_new(agent, (unsigned)number, err);
        ok = seat != NULL;
        if (ok)
            seat_adopt(seat);
    }
    closedir(dir);
    return ok;
}
