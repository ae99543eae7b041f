/* executor_process: see executor_process.h. Between fork and exec only calls that are safe there are made: argv,
 * environment and files are ready before. It fails by log lines: a server without its executor still serves. */
#include "server/executor_process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/when.h"
#include "io/clock.h"
#include "io/fsx.h"
#include "io/log.h"
#include "server/server_name.h"

enum { ARGV_MAX = 4096, RETRY_MIN_MS = 100, RETRY_MAX_MS = 10000, STEADY_MS = 30000, LOOK_MS = 2000 };

extern char **environ;

static void executor_process_start(struct executor_process *process);

/* --- its arguments and environment --- */

struct arguments {
    struct arena *arena;
    char **items;
    size_t n;
};

static void argument_add(struct arguments *arguments, struct str text)
{
    if (arguments->n < ARGV_MAX)
        arguments->items[arguments->n++] = str_dupz(arguments->arena, text);
}

static void option_add(struct arguments *arguments, const char *option, struct str value)
{
    argument_add(arguments, str_of(option));
    argument_add(arguments, value);
}

static void arguments_make(struct executor_process *process, const struct conf *conf)
{
    struct arena *arena = &process->arena;
    struct arguments a = { .arena = arena, .items = ARENA_ARRAY(arena, char *, ARGV_MAX + 1) };
    argument_add(&a, STR("weir"));
    argument_add(&a, STR("executor"));
    argument_add(&a, STR("--beside"));
    option_add(&a, "--server", str_fmt(arena, "unix:%.*s", STR_ARG(conf->socket)));
    option_add(&a, "--data", str_of(process->dir));
    option_add(&a, "--slots", str_fmt(arena, "%lld", (long long)conf->slots));
    option_add(&a, "--grace", str_of(duration_format(conf->grace_ms).z));
    option_add(&a, "--log-limit", str_of(size_format(conf->log.limit_bytes).z));
    if (setting_given(conf, "name"))
        option_add(&a, "--name", conf->name);
    if (conf->zone.len > 0)
        option_add(&a, "--zone", conf->zone);
    for (size_t i = 0; i < conf->labels.n; i++)
        option_add(&a, "--label",
            str_fmt(arena, "%.*s=%.*s", STR_ARG(conf->labels.items[i].name), STR_ARG(conf->labels.items[i].value)));
    if (setting_given(conf, "containers.command"))
        option_add(&a, "--container", conf->containers.command);
    for (size_t i = 0; i < conf->containers.options.n; i++)
        option_add(&a, "--container-option", conf->containers.options.items[i]);
    process->argv = a.items;
    process->arguments = 0;
    for (size_t i = 0; i < a.n; i++)
        process->arguments = process->arguments * 31 + str_hash(str_of(a.items[i]));
}

/* environment_make: ours, without what would make it ask another server or show a token. */
static void environment_make(struct executor_process *process)
{
    static const char *const left_out[] = { "WEIR_SERVER=", "WEIR_TOKEN=", "WEIR_TOKEN_FILE=" };
    size_t n = 0, k = 0;
    while (environ[n] != NULL)
        n++;
    process->envp = ARENA_ARRAY(&process->arena, char *, n + 1);
    for (size_t i = 0; i < n; i++) {
        bool out = false;
        for (size_t j = 0; j < sizeof left_out / sizeof *left_out; j++)
            out |= strncmp(environ[i], left_out[j], strlen(left_out[j])) == 0;
        if (!out)
            process->envp[k++] = environ[i];
    }
}

/* --- its identity --- */

/* start_ticks: when a process began; together with its pid it names one process for ever. 0: there is none. */
static unsigned long long start_ticks(pid_t pid)
{
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = '\0';
    const char *at = strrchr(text, ')'); /* the name may hold anything */
    unsigned long long ticks = 0;
    for (int field = 2; at != NULL && field < 22; field++)
        at = strchr(at + 1, ' ');
    if (at != NULL)
        ticks = strtoull(at + 1, NULL, 10);
    return ticks;
}

static void pid_write(const struct executor_process *process)
{
    char text[128];
    struct err err = { 0 };
    int n = snprintf(text, sizeof text, "%ld %llu %llu\n", (long)process->pid, start_ticks(process->pid),
        (unsigned long long)process->arguments);
    if (!fsx_replace(process->pid_file, (struct str){ text, (size_t)n }, 0600, &err))
        log_warn("executor.pid_file", "error=%s", log_quote(str_of(err.text)).z);
}

/* pid_read: the executor that an earlier server started; 0: that process has ended. */
static pid_t pid_read(struct executor_process *process, uint64_t *out_arguments)
{
    struct arena arena = { 0 };
    struct err err = { 0 };
    struct str text;
    long pid = 0;
    unsigned long long ticks = 0, arguments = 0;
    if (!fsx_read(process->pid_file, 200, &arena, &text, &err) ||
        sscanf(text.ptr, "%ld %llu %llu", &pid, &ticks, &arguments) != 3)
        pid = 0;
    arena_release(&arena);
    *out_arguments = arguments;
    return pid > 0 && ticks != 0 && start_ticks((pid_t)pid) == ticks ? (pid_t)pid : 0;
}

static bool lock_is_held(const struct executor_process *process)
{
    char path[4096];
    if (snprintf(path, sizeof path, "%s/lock", process->dir) >= (int)sizeof path)
        return false;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return false;
    bool held = flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK;
    close(fd);
    return held;
}

/* --- its life --- */

static void watch_end(struct executor_process *process)
{
    if (process->pidfd < 0)
        return;
    loop_remove(process->loop, &process->watch);
    close(process->pidfd);
    process->pidfd = -1;
    process->pid = 0;
}

static void retry_later(struct executor_process *process)
{
    int64_t distance = RETRY_MIN_MS;
    for (unsigned i = 0; i < process->failures && distance < RETRY_MAX_MS; i++)
        distance *= 2;
    loop_arm(
        process->loop, &process->retry, loop_now(process->loop) + (distance < RETRY_MAX_MS ? distance : RETRY_MAX_MS));
    process->failures++;
}

static void executor_ended(struct loop_fd *watch, uint32_t events)
{
    struct executor_process *process = watch->owner;
    int status = 0;
    (void)events;
    if (process->child && waitpid(process->pid, &status, WNOHANG) == 0)
        return;
    log_event("executor.ended", "pid=%ld status=%d signal=%d", (long)process->pid,
        WIFEXITED(status) ? WEXITSTATUS(status) : -1, WIFSIGNALED(status) ? WTERMSIG(status) : 0);
    watch_end(process);
    if (process->stopping) {
        if (process->ended != NULL)
            process->ended(process->owner);
        return;
    }
    if (loop_now(process->loop) - process->started_ms > STEADY_MS)
        process->failures = 0;
    if (process->wanted)
        retry_later(process);
}

static bool watch_begin(struct executor_process *process, pid_t pid, bool child)
{
    process->pidfd = pidfd_open(pid, 0);
    if (process->pidfd < 0)
        return false;
    fcntl(process->pidfd, F_SETFD, FD_CLOEXEC);
    process->pid = pid;
    process->child = child;
    process->started_ms = loop_now(process->loop);
    process->watch = (struct loop_fd){ .fd = process->pidfd, .ready = executor_ended, .owner = process };
    loop_add(process->loop, &process->watch, EPOLLIN);
    return true;
}

/* child_main: after fork. */
static _Noreturn void child_main(const struct executor_process *process, int null_fd, int log_fd)
{
    sigset_t none;
    sigemptyset(&none);
    setsid();
    umask(process->umask);
    setrlimit(RLIMIT_NOFILE, &process->files);
    signal(SIGPIPE, SIG_DFL);
    signal(SIGXFSZ, SIG_DFL);
    dup2(null_fd, STDIN_FILENO);
    dup2(log_fd, STDOUT_FILENO);
    dup2(log_fd, STDERR_FILENO);
    close_range(3, ~0u, 0);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execve("/proc/self/exe", process->argv, process->envp);
    _exit(127);
}

static void executor_spawn(struct executor_process *process)
{
    int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int log_fd = open(process->log_file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    pid_t pid = null_fd >= 0 && log_fd >= 0 ? fork() : -1;
    if (pid == 0)
        child_main(process, null_fd, log_fd);
    int fault = errno;
    if (null_fd >= 0)
        close(null_fd);
    if (log_fd >= 0)
        close(log_fd);
    if (pid < 0 || !watch_begin(process, pid, true)) {
        log_error("executor.start", "error=%s", log_quote(str_of(strerrordesc_np(fault))).z);
        retry_later(process);
        return;
    }
    pid_write(process);
    log_event("executor.started", "pid=%ld log=%s", (long)pid, process->log_file);
}

/* executor_adopt: the executor that an earlier server left. It is replaced (its tasks stay) when its arguments aren't
 * those that this server would give. */
static void executor_adopt(struct executor_process *process)
{
    uint64_t arguments;
    pid_t pid = pid_read(process, &arguments);
    if (pid == 0 || !watch_begin(process, pid, false)) {
        log_warn("executor.foreign", "dir=%s note=\"another executor works there; it is left alone\"", process->dir);
        loop_arm(process->loop, &process->retry, loop_now(process->loop) + LOOK_MS);
        return;
    }
    if (arguments == process->arguments) {
        log_event("executor.found", "pid=%ld", (long)pid);
        return;
    }
    log_event("executor.replaced", "pid=%ld note=\"slots or other settings changed; its tasks run on\"", (long)pid);
    pidfd_send_signal(process->pidfd, SIGTERM, NULL, 0);
}

static void executor_process_start(struct executor_process *process)
{
    if (process->pid != 0 || !process->wanted || process->stopping)
        return;
    if (lock_is_held(process))
        executor_adopt(process);
    else
        executor_spawn(process);
}

static void retry_due(struct loop_timer *timer)
{
    executor_process_start(timer->owner);
}

void executor_process_open(struct executor_process *out, struct loop *loop, mode_t mask, struct rlimit files)
{
    *out = (struct executor_process){ .loop = loop, .umask = mask, .files = files, .pidfd = -1 };
    out->retry = (struct loop_timer){ .due = retry_due, .owner = out };
}

void executor_process_set(struct executor_process *process, const struct conf *conf)
{
    uint64_t before = process->arguments;
    arena_release(&process->arena);
    process->wanted = conf->slots > 0;
    process->dir = str_dupz(&process->arena, str_fmt(&process->arena, "%.*s/executor", STR_ARG(conf->data)));
    process->log_file = str_dupz(&process->arena, str_fmt(&process->arena, "%.*s/executor.log", STR_ARG(conf->data)));
    process->pid_file = str_dupz(&process->arena, str_fmt(&process->arena, "%.*s/executor.pid", STR_ARG(conf->data)));
    arguments_make(process, conf);
    environment_make(process);
    if (!process->wanted) {
        if (lock_is_held(process))
            log_warn("executor.unwanted",
                "dir=%s note=\"slots is 0, but an executor of an earlier server still works there\"", process->dir);
        return;
    }
    if (process->pid != 0 && before != process->arguments) {
        log_event("executor.replaced", "pid=%ld note=\"slots or other settings changed; its tasks run on\"",
            (long)process->pid);
        process->failures = 0;
        pidfd_send_signal(process->pidfd, SIGTERM, NULL, 0);
        return;
    }
    executor_process_start(process);
}

bool executor_process_interrupt(struct executor_process *process, void (*ended)(void *owner), void *owner)
{
    process->stopping = true;
    loop_disarm(process->loop, &process->retry);
    if (process->pid == 0)
        return false;
    process->ended = ended;
    process->owner = owner;
    return pidfd_send_signal(process->pidfd, SIGINT, NULL, 0) == 0;
}

void executor_process_release(struct executor_process *process)
{
    if (process->loop == NULL)
        return;
    loop_disarm(process->loop, &process->retry);
    watch_end(process);
    arena_release(&process->arena);
}
