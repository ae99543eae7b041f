/* shim_handle: see shim_handle.h.
 *
 * Promises: the job record is complete before START is sent; at most one shim per directory lives, by a lock that the
 * shim inherits and holds until it is dead, however it dies; records read from a directory count only if fence and hash
 * match.
 *
 * A shim that can't be spawned or reached costs its job (reported as lost), never the agent. */
#include "exec/shim/shim_handle.h"

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
#include "exec/agent/agent.h"
#include "exec/container.h"
#include "exec/process_tree.h"
#include "io/clock.h"
#include "io/fsx.h"
#include "io/log.h"

static void shim_handle_hear(struct shim_handle *handle);

/* --- the directory --- */

static bool shim_handle_open_files(struct shim_handle *handle, struct err *err)
{
    struct agent *agent = handle->agent;
    char name[16];
    snprintf(name, sizeof name, "%u", handle->number);
    if (mkdirat(agent->shims_fd, name, 0700) < 0 && errno != EEXIST)
        return err_set(err, ERR_io, "%s/shims/%s: %s", agent->dir, name, strerrordesc_np(errno));
    handle->dir_fd = openat(agent->shims_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    handle->job_fd = openat(handle->dir_fd, "job", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    handle->log_fd = openat(handle->dir_fd, "log", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    handle->status_fd = openat(handle->dir_fd, "status", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (handle->dir_fd < 0 || handle->job_fd < 0 || handle->log_fd < 0 || handle->status_fd < 0)
        return err_set(err, ERR_io, "%s/shims/%s: %s", agent->dir, name, strerrordesc_np(errno));
    return true;
}

struct shim_handle *shim_handle_new(struct agent *agent, unsigned number, struct err *err)
{
    struct shim_handle *handle = mem_alloc(sizeof *handle);
    *handle = (struct shim_handle){ .agent = agent,
        .number = number,
        .dir_fd = -1,
        .job_fd = -1,
        .log_fd = -1,
        .status_fd = -1,
        .conn = { .fd = -1 } };
    buf_init(&handle->upload.list, (size_t)2 << 20);
    size_t size = strlen(agent->dir) + 32;
    handle->dir = mem_alloc(size);
    snprintf(handle->dir, size, "%s/shims/%u", agent->dir, number);
    if (!shim_handle_open_files(handle, err)) {
        shim_handle_free(handle);
        return NULL;
    }
    agent->handles = mem_realloc(agent->handles, (agent->n_handles + 1) * sizeof *agent->handles);
    agent->handles[agent->n_handles++] = handle;
    return handle;
}

static void shim_handle_disconnect(struct shim_handle *handle)
{
    if (handle->conn.fd < 0)
        return;
    loop_remove(handle->agent->loop, &handle->conn);
    close(handle->conn.fd);
    handle->conn.fd = -1;
    handle->pid = 0;
}

void shim_handle_free(struct shim_handle *handle)
{
    report_forget(handle);
    shim_handle_disconnect(handle);
    const int fds[] = { handle->dir_fd, handle->job_fd, handle->log_fd, handle->status_fd };
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
        fsx_close(fds[i]);
    send_forget(handle);
    arena_release(&handle->upload.arena);
    buf_release(&handle->upload.list);
    mem_free(handle->dir);
    mem_free(handle);
}

/* --- the shim --- */

static void shim_handle_ready(struct loop_fd *watch, uint32_t epoll_events)
{
    (void)epoll_events;
    shim_handle_hear(watch->owner);
}

static void shim_handle_connect(struct shim_handle *handle, int fd)
{
    handle->conn = (struct loop_fd){ fd, shim_handle_ready, handle };
    loop_add(handle->agent->loop, &handle->conn, EPOLLIN);
}

/* The path of the directory may be longer than a socket address allows; through /proc it is always short. */
static void shim_handle_address(const struct shim_handle *handle, struct sockaddr_un *out)
{
    *out = (struct sockaddr_un){ .sun_family = AF_UNIX };
    snprintf(out->sun_path, sizeof out->sun_path, "/proc/self/fd/%d/sock", handle->dir_fd);
}

static int shim_handle_lock(const struct shim_handle *handle)
{
    int fd = openat(handle->dir_fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static int shim_handle_listen(const struct shim_handle *handle)
{
    struct sockaddr_un address;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    shim_handle_address(handle, &address);
    unlinkat(handle->dir_fd, "sock", 0);
    if (fd >= 0 && (bind(fd, (struct sockaddr *)&address, sizeof address) < 0 || listen(fd, 4) < 0)) {
        close(fd);
        return -1;
    }
    return fd;
}

static int spawn_shim(const struct shim_handle *handle, const int fds[SHIM_FD_COUNT], pid_t *out)
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
    posix_spawn_file_actions_adddup2(&actions, 0, 2); /* a shim outlives us: it must not keep our terminal or pipe */
    for (int i = SHIM_FD_DIR; i < SHIM_FD_COUNT; i++)
        posix_spawn_file_actions_adddup2(&actions, fds[i], i);
    char weir[] = "weir", shim[] = "shim";
    char *const argv[] = { weir, shim, handle->dir, NULL };
    int fault = posix_spawn(out, "/proc/self/exe", &actions, &attributes, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    return fault;
}

/* fd_high: moves a descriptor above those that the shim gets, so that no adddup2 overwrites one that is still
 * needed. */
static int fd_high(int fd)
{
    int high = fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, SHIM_FD_COUNT) : -1;
    fsx_close(fd);
    return high;
}

static bool shim_handle_spawn(struct shim_handle *handle, struct err *err)
{
    int pair[2] = { -1, -1 }, fds[SHIM_FD_COUNT];
    pid_t pid = 0;
    fds[SHIM_FD_DIR] = fd_high(openat(handle->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    fds[SHIM_FD_LOCK] = fd_high(shim_handle_lock(handle));
    fds[SHIM_FD_LISTEN] = fds[SHIM_FD_LOCK] >= 0 ? fd_high(shim_handle_listen(handle)) : -1;
    int fault = socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0 ? errno : 0;
    fds[SHIM_FD_AGENT] = fd_high(pair[1]);
    for (int i = SHIM_FD_DIR; i < SHIM_FD_COUNT && fault == 0; i++)
        fault = fds[i] < 0 ? errno : 0;
    if (fault == 0)
        fault = spawn_shim(handle, fds, &pid);
    for (int i = SHIM_FD_DIR; i < SHIM_FD_COUNT; i++)
        fsx_close(fds[i]);
    if (fault != 0) {
        fsx_close(pair[0]);
        return err_set(err, ERR_io, "%s: a shim can't be started: %s", handle->dir, strerrordesc_np(fault));
    }
    shim_handle_connect(handle, pair[0]);
    handle->pid = pid;
    handle->state = HANDLE_IDLE;
    return true;
}

/* --- the job --- */

static void shim_handle_take_job(struct shim_handle *handle, const struct job *job)
{
    handle->task = job->task;
    memset(handle->fence, 0, sizeof handle->fence);
    memcpy(handle->fence, job->fence.ptr, job->fence.len);
    handle->upload.wanted = job->artifacts != NULL;
    handle->contained = job->container != NULL;
    handle->applies = job->applies;
    handle->holds = job->holds;
    handle->grace_ms = job->grace_ms;
    handle->signalled = 0;
    handle->lease_told_ms = handle->started_us = 0;
    handle->log_bytes = handle->stored = handle->durable = handle->settle_bytes = 0;
    send_forget(handle);
    handle->adopted = handle->probe = handle->log_dead = handle->alone = handle->told = false;
    handle->bare = 0;
    handle->upload.resent = false;
    handle->tries = 0;
    handle->finish_at_ms = 0;
    handle->inline_from = -1;
}

/* lease_times: when the shim has to end a job whose lease isn't renewed: early enough that the job is dead before the
 * lease expires. */
static void lease_times(const struct shim_handle *handle, int64_t *out_at, int64_t *out_grace)
{
    const struct agent *agent = handle->agent;
    int64_t grace = handle->grace_ms < agent->lease_ms / 5 ? handle->grace_ms : agent->lease_ms / 5;
    *out_grace = grace;
    *out_at = agent->heard_ms + agent->lease_ms - agent->lease_ms / 8 - grace;
}

bool shim_handle_start(struct shim_handle *handle, int64_t task, struct str fence, const json_t *spec, struct err *err)
{
    struct agent *agent = handle->agent;
    struct job job;
    struct buf record;
    if (handle->conn.fd < 0 && !shim_handle_spawn(handle, err))
        return false;
    struct place place = agent_place(agent, handle);
    kind_job(spec, task, fence, &place, &agent->scratch, &job);
    buf_init(&record, JOB_BYTES_MAX);
    job_pack(&job, &record);
    if (record.full) {
        job = (struct job){ .task = task,
            .fence = fence,
            .refusal = STR("the task's command and environment are over 64 MiB"),
            .refusal_exit = 126 };
        job_pack(&job, &record);
    }
    struct shim_message message = { .kind = MESSAGE_START, .bytes = (int64_t)record.len };
    bool ok = pwrite(handle->job_fd, record.ptr, record.len, 0) == (ssize_t)record.len;
    buf_release(&record);
    shim_handle_take_job(handle, &job);
    if (job.holds)
        lease_times(handle, &message.at_ms, &message.grace_ms);
    handle->lease_told_ms = message.at_ms;
    if (!ok)
        return err_set(err, ERR_io, "%s/job: %s", handle->dir, strerrordesc_np(errno));
    if (!shim_message_send(handle->conn.fd, &message))
        return err_set(err, ERR_io, "%s: the shim doesn't listen: %s", handle->dir, strerrordesc_np(errno));
    handle->state = HANDLE_RUNNING;
    handle->started_us = clock_boot_us();
    return true;
}

void shim_handle_signal(struct shim_handle *handle, int signo, int64_t grace_ms, enum outcome outcome)
{
    if ((handle->state != HANDLE_RUNNING && handle->state != HANDLE_DROPPED) || handle->conn.fd < 0)
        return;
    if (handle->signalled == SIGKILL || (handle->signalled != 0 && signo != SIGKILL && outcome == OUTCOME_none))
        return;
    handle->signalled = signo;
    struct shim_message message = { .kind = MESSAGE_SIGNAL, .signo = signo, .grace_ms = grace_ms, .outcome = outcome };
    shim_message_send(handle->conn.fd, &message); /* a shim that is gone is noticed by the end of its connection */
}

bool shim_handle_needs_lease(const struct shim_handle *handle)
{
    return handle->state == HANDLE_RUNNING && (handle->holds || handle->signalled != 0) && handle->conn.fd >= 0;
}

void shim_handle_lease(struct shim_handle *handle)
{
    if (!shim_handle_needs_lease(handle))
        return;
    struct shim_message message = { .kind = MESSAGE_LEASE };
    lease_times(handle, &message.at_ms, &message.grace_ms);
    if (message.at_ms < handle->lease_told_ms + handle->agent->lease_ms / 10)
        return; /* the deadline has moved too little for a message */
    handle->lease_told_ms = message.at_ms;
    shim_message_send(handle->conn.fd, &message);
}

void shim_handle_drop(struct shim_handle *handle)
{
    report_forget(handle);
    if (handle->state == HANDLE_RUNNING) {
        handle->state = HANDLE_DROPPED;
        shim_handle_signal(handle, SIGKILL, 0, OUTCOME_none);
    } else if (handle->state == HANDLE_ENDED || handle->state == HANDLE_SETTLING) {
        shim_handle_release(handle);
    }
}

void shim_handle_release(struct shim_handle *handle)
{
    report_forget(handle);
    uint32_t released = 1;
    ssize_t n = pwrite(handle->job_fd, &released, sizeof released, JOB_RELEASED_AT);
    if (n < 0 || (handle->log_bytes > 0 && ftruncate(handle->log_fd, 0) < 0))
        log_warn("handle.release", "dir=%s error=\"%s\"", handle->dir, strerrordesc_np(errno));
    handle->fence[0] = '\0';
    handle->state = handle->conn.fd >= 0 ? HANDLE_IDLE : HANDLE_EMPTY;
    handle->idle_since_ms = loop_now(handle->agent->loop);
}

void shim_handle_retire(struct shim_handle *handle)
{
    shim_handle_disconnect(handle);
    handle->state = HANDLE_EMPTY;
}

/* --- messages of the shim --- */

static void shim_handle_ended(struct shim_handle *handle, const struct status *status)
{
    if (handle->state == HANDLE_DROPPED) {
        shim_handle_release(handle);
        return;
    }
    if (handle->started_us != 0)
        agent_timed(handle->agent, handle->started_us);
    handle->status = *status;
    handle->log_bytes = status->log_bytes;
    handle->state = HANDLE_ENDED;
    send_begin(handle);
    report_log(handle);
}

static bool shim_handle_read_status(const struct shim_handle *handle, struct status *out)
{
    *out = (struct status){ 0 };
    return pread(handle->status_fd, out, sizeof *out, 0) >= (ssize_t)offsetof(struct status, reason) &&
           status_fits(out, str_of(handle->fence));
}

/* A container isn't a child of its client, which is dead: the container program has to remove it. We don't wait for
 * that. */
static void shim_handle_remove_container(struct shim_handle *handle)
{
    bool known = handle->contained && handle->agent->container;
    int io_fd = known ? openat(handle->dir_fd, "io", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
    int null_fd = io_fd >= 0 ? open("/dev/null", O_RDWR | O_CLOEXEC) : -1;
    if (null_fd >= 0 && container_remove(handle->agent->container, io_fd, null_fd, environ) > 0)
        log_event("container.removed", "task=%lld", (long long)handle->task);
    fsx_close(io_fd);
    fsx_close(null_fd);
}

/* shim_handle_lost: the shim is dead and hasn't recorded its job's end: kill what is left of the job, then report it
 * lost. */
static void shim_handle_lost(struct shim_handle *handle)
{
    struct agent *agent = handle->agent;
    struct stat st;
    struct status status;
    log_warn("shim.lost", "dir=%s task=%lld", handle->dir, (long long)handle->task);
    if (!process_tree_kill_marked(handle->fence))
        log_error("shim.leftover", "dir=%s task=%lld", handle->dir, (long long)handle->task);
    pid_t *known = ARENA_ARRAY(&agent->scratch, pid_t, agent->n_handles + 1);
    for (size_t i = 0; i < agent->n_handles; i++)
        known[i] = agent->handles[i]->pid;
    process_tree_kill_strays(known, agent->n_handles);
    shim_handle_remove_container(handle);
    if (!shim_handle_read_status(handle, &status))
        status = (struct status){ .task = handle->task };
    status.state = STATUS_ENDED;
    status.exit = status.signo = -1;
    status.outcome = OUTCOME_lost;
    status.finished_ms = clock_wall_ms();
    status.log_bytes = fstat(handle->log_fd, &st) == 0 ? (int64_t)st.st_size : 0;
    shim_handle_ended(handle, &status);
}

static void shim_handle_gone(struct shim_handle *handle)
{
    struct status status;
    shim_handle_disconnect(handle);
    if (handle->state == HANDLE_IDLE)
        handle->state = HANDLE_EMPTY;
    if (handle->state != HANDLE_RUNNING && handle->state != HANDLE_DROPPED)
        return;
    if (shim_handle_read_status(handle, &status) && status.state == STATUS_ENDED)
        shim_handle_ended(handle, &status);
    else
        shim_handle_lost(handle);
}

/* HELLO has news only for an adopted shim: its job ended while there was no agent, or never started. */
static void shim_handle_hello(struct shim_handle *handle, const struct shim_message *message)
{
    if (handle->state != HANDLE_RUNNING || handle->signalled != 0)
        return;
    if (!status_fits(&message->status, str_of(handle->fence))) {
        if (handle->adopted)
            shim_handle_release(handle); /* an earlier agent died between writing the record and START: never started */
        return;
    }
    if (message->status.state == STATUS_ENDED) {
        shim_handle_ended(handle, &message->status);
    } else {
        handle->log_bytes = message->bytes;
        report_log(handle);
    }
}

/* Reads one message: the loop calls again while there are more. */
static void shim_handle_hear(struct shim_handle *handle)
{
    struct shim_message message;
    int heard = shim_message_read(handle->conn.fd, &message);
    bool mine = handle->state == HANDLE_RUNNING || handle->state == HANDLE_DROPPED;
    if (heard >= 0)
        handle->unheard = false;
    if (heard == 0) {
        shim_handle_gone(handle);
    } else if (heard > 0 && message.kind == MESSAGE_HELLO) {
        shim_handle_hello(handle, &message);
    } else if (heard > 0 && message.kind == MESSAGE_LOG && handle->state == HANDLE_RUNNING) {
        handle->log_bytes = message.bytes;
        report_log(handle);
    } else if (heard > 0 && message.kind == MESSAGE_ENDED && mine &&
               status_fits(&message.status, str_of(handle->fence))) {
        shim_handle_ended(handle, &message.status);
    }
}

/* --- after a restart --- */

static bool shim_handle_read_job(struct shim_handle *handle)
{
    struct stat st;
    struct job job;
    struct job_head head;
    struct err err = { .code = ERR_none };
    if (fstat(handle->job_fd, &st) < 0 || st.st_size < (off_t)sizeof head || (uint64_t)st.st_size > JOB_BYTES_MAX)
        return false;
    char *bytes = mem_alloc((size_t)st.st_size);
    bool ok = pread(handle->job_fd, bytes, (size_t)st.st_size, 0) == st.st_size;
    if (ok) {
        memcpy(&head, bytes, sizeof head);
        ok = head.released == 0 &&
             job_unpack((struct str){ bytes, (size_t)st.st_size }, &handle->agent->scratch, &job, &err);
    }
    if (ok)
        shim_handle_take_job(handle, &job);
    mem_free(bytes);
    return ok;
}

static int shim_handle_call(const struct shim_handle *handle)
{
    struct sockaddr_un address;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    shim_handle_address(handle, &address);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) < 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static void shim_handle_adopt(struct shim_handle *handle)
{
    bool job = shim_handle_read_job(handle);
    int lock = -1, fd = -1;
    /* Either we get the lock (the shim is dead) or the shim accepts us; one that is just ending may refuse the
     * connection before it releases the lock. */
    for (int64_t until = clock_boot_ms() + 5000; lock < 0 && fd < 0 && clock_boot_ms() < until;) {
        lock = shim_handle_lock(handle);
        fd = lock < 0 ? shim_handle_call(handle) : -1;
        if (lock < 0 && fd < 0)
            usleep(2000);
    }
    handle->probe = handle->adopted = true;
    if (PLANT(jobs_not_adopted)) {
        close(fd);
        fd = -1;
    }
    if (fd >= 0) {
        handle->state = job ? HANDLE_RUNNING : HANDLE_IDLE; /* HELLO will correct it */
        handle->unheard = true; /* a shim that is ending for want of an agent must get no job */
        shim_handle_connect(handle, fd);
        log_event("shim.adopted", "dir=%s task=%lld", handle->dir, (long long)(job ? handle->task : 0));
    } else if (job) {
        struct status status;
        bool known = shim_handle_read_status(handle, &status), ended = known && status.state == STATUS_ENDED;
        if (PLANT(jobs_not_adopted))
            ended = false;
        handle->state = HANDLE_RUNNING;
        if (ended)
            shim_handle_ended(handle, &status);
        else if (known)
            shim_handle_lost(handle);
        else
            shim_handle_release(handle); /* never started */
    }
    fsx_close(lock);
}

bool shim_handle_find_all(struct agent *agent, struct err *err)
{
    DIR *dir = fsx_folder(agent->shims_fd, ".");
    if (!dir)
        return err_set(err, ERR_io, "%s/shims: %s", agent->dir, strerrordesc_np(errno));
    bool ok = true;
    for (struct dirent *entry; ok && (entry = fsx_entry(dir));) {
        uint64_t number;
        if (!str_to_u64(str_of(entry->d_name), &number) || number > 1000000)
            continue;
        struct shim_handle *handle = shim_handle_new(agent, (unsigned)number, err);
        ok = handle != NULL;
        if (ok)
            shim_handle_adopt(handle);
    }
    closedir(dir);
    return ok;
}
