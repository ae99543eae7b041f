/* runner: see runner.h. The spawn is a vfork: the shim is small, but the copy of page tables still costs more than
 * everything else here.
 *
 * Promises: the child has descriptors 0, 1, 2 and no others, a session and group of its own, default signals, its
 * limits, and dies with the shim. Between vfork and execve the child shares our memory, so it only makes system calls
 * and writes one errno.
 *
 * What can't be started ends like in a shell: 127 not found, 126 found and not to be run. */
#include "exec/runner.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sched.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "exec/sandbox.h"
#include "exec/process_tree.h"
#include "io/fsx.h"

struct runner_limit {
    int resource;
    rlim_t value;
};
struct runner_plan { /* everything the child needs, made before vfork */
    char *const *argv, *const *envp;
    char **shell_argv; /* for a file without an interpreter line */
    char paths[64][512];
    size_t n_paths;
    int work_fd, null_fd, out_fd;
    int mount_fd, user_fd; /* namespaces to enter; -1: none */
    const int *procs;
    unsigned n_procs;
    struct runner_limit limits[4];
    size_t n_limits;
    pid_t parent;
    volatile int error;
};

static void plan_paths(struct runner_plan *plan)
{
    const char *program = plan->argv[0];
    plan->n_paths = 0;
    if (strchr(program, '/')) {
        snprintf(plan->paths[plan->n_paths++], sizeof plan->paths[0], "%s", program);
        return;
    }
    struct str rest = STR("/usr/local/bin:/usr/bin:/bin"), dir;
    for (char *const *entry = plan->envp; *entry; entry++)
        if (strncmp(*entry, "PATH=", 5) == 0)
            rest = str_of(*entry + 5);
    while (program[0] && plan->n_paths < sizeof plan->paths / sizeof *plan->paths && str_cut(&rest, ':', &dir)) {
        int n = snprintf(plan->paths[plan->n_paths], sizeof plan->paths[0], "%.*s%s%s", STR_ARG(dir),
            dir.len > 0 ? "/" : "", program);
        if (n > 0 && (size_t)n < sizeof plan->paths[0])
            plan->n_paths++;
    }
}

static void plan_limits(struct runner_plan *plan, const struct job_limits *limits, bool memory_by_group)
{
    const struct runner_limit rows[] = {
        { RLIMIT_AS, memory_by_group ? 0 : (rlim_t)limits->memory_bytes },
        { RLIMIT_CPU, (rlim_t)limits->cpu_s },
        { RLIMIT_NOFILE, (rlim_t)limits->files },
        { RLIMIT_FSIZE, (rlim_t)(limits->file_bytes > 0 ? limits->file_bytes : limits->disk_bytes) },
    };
    plan->n_limits = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].value > 0)
            plan->limits[plan->n_limits++] = rows[i];
}

static void child_exec(struct runner_plan *plan)
{
    int fault = ENOENT; /* set in the plan only at the end: a successful execve must leave no error behind */
    for (size_t i = 0; i < plan->n_paths; i++) {
        execve(plan->paths[i], plan->argv, plan->envp);
        int error = errno;
        if (error == ENOEXEC) {
            plan->shell_argv[1] = plan->paths[i];
            execve("/bin/sh", plan->shell_argv, plan->envp);
            error = errno;
        }
        if (error != ENOENT && error != ENOTDIR)
            fault = error;
        if (error != ENOENT && error != ENOTDIR && error != EACCES)
            break;
    }
    plan->error = fault;
}

static bool child_limits(const struct runner_plan *plan)
{
    bool ok = true;
    for (size_t i = 0; i < plan->n_limits; i++) {
        struct rlimit limit = { plan->limits[i].value, plan->limits[i].value };
        /* above what we have: that holds */
        ok &= setrlimit((__rlimit_resource_t)plan->limits[i].resource, &limit) == 0 || errno == EPERM;
    }
    return ok;
}

/* child_begin: the first steps of every child: it dies with the shim, and is in the job's cgroup before it does
 * anything. */
static bool child_begin(const struct runner_plan *plan)
{
    setsid();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    bool ok = getppid() == plan->parent; /* the shim may have died before the line above */
    for (unsigned i = 0; i < plan->n_procs; i++)
        ok &= write(plan->procs[i], "0", 1) == 1;
    return ok && dup2(plan->null_fd, 0) == 0 && dup2(plan->out_fd, 1) == 1 && dup2(plan->out_fd, 2) == 2;
}

/* Only system calls from here to execve: memory is the parent's. */
static _Noreturn void child_main(struct runner_plan *plan)
{
    bool ok = child_begin(plan) && child_limits(plan);
    ok = ok && (plan->user_fd < 0 || setns(plan->user_fd, CLONE_NEWUSER) == 0) &&
         (plan->mount_fd < 0 || setns(plan->mount_fd, CLONE_NEWNS) == 0);
    ok = ok && fchdir(plan->work_fd) == 0 && close_range(3, ~0U, 0) == 0;
    if (ok)
        child_exec(plan);
    else
        plan->error = errno;
    _exit(127);
}

static __attribute__((noinline)) pid_t plan_spawn(struct runner_plan *plan)
{
    pid_t pid = vfork();
    if (pid == 0)
        child_main(plan);
    return pid;
}

/* sandbox_exec: in the job's process of a sandbox. Its memory is its own, so it writes a failure to the log itself. */
static void sandbox_exec(void *order)
{
    struct runner_plan *plan = order;
    if (close_range(3, ~0U, 0) == 0 && child_limits(plan))
        child_exec(plan);
    else
        plan->error = errno;
    const char *why = plan->error == ENOENT ? "there is no such program" : strerrordesc_np(plan->error);
    printf("[weir: can't run '%.300s': %s]\n", plan->argv[0], why);
    fflush(stdout);
    _exit(plan->error == ENOENT ? 127 : 126);
}

static pid_t plan_fork(const struct runner_plan *plan, int (*main)(void *order), void *order)
{
    pid_t pid = fork();
    if (pid == 0)
        _exit(child_begin(plan) ? main(order) : 126);
    return pid;
}

static pid_t plan_sandbox(struct runner_plan *plan, struct runner *runner, const struct runner_place *place)
{
    const struct view none = VIEW_NONE;
    int fds[2];
    if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) < 0)
        return -1;
    struct sandbox sandbox = { .dir = place->dir,
        .view = place->view ? place->view : &none,
        .verdict_fd = fds[1],
        .run = sandbox_exec,
        .plan = plan };
    runner->verdict_fd = fds[0];
    pid_t pid = plan_fork(plan, sandbox_main, &sandbox);
    close(fds[1]);
    return pid;
}

static bool runner_pipe(struct runner *runner, int *out_write)
{
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) < 0)
        return false;
    runner->pipe_fd = fds[0];
    *out_write = fds[1];
    return fcntl(fds[0], F_SETFL, O_NONBLOCK) == 0; /* this end only: the job's must block */
}

/* limits_hold: false: the job is strict and a limit can't be enforced here. Any other job runs without the limit, and
 * its log says so. */
static bool limits_hold(const struct job *job, const struct cgroup *group, struct log_file *log)
{
    bool pids = job->limits.pids <= 0 || group->pids, memory = job->limits.memory_bytes <= 0 || group->memory;
    if (job->strict && (!pids || !memory)) {
        log_file_note(log,
            "[weir: sandbox: strict isn't possible here, and nothing weaker is run: this machine gives us no cgroup to "
            "limit %s: run the "
            "executor as root, or in a cgroup of its own (systemd: Delegate=yes)]\n",
            pids     ? "memory"
            : memory ? "processes"
                     : "processes and memory");
        return false;
    }
    if (!pids)
        log_file_note(log, "[weir: no limit on processes: this machine gives us no cgroup for it]\n");
    if (!memory)
        log_file_note(
            log, "[weir: the memory limit is one on address space: this machine gives us no cgroup for it]\n");
    return true;
}

static void plan_fill(struct runner_plan *plan, const struct job *job, const struct runner *runner,
    const struct runner_place *place, int out_fd)
{
    const struct view *view = place->view;
    plan->argv = job->argv;
    plan->envp = job->envp;
    plan->work_fd = view && view->work_fd >= 0 ? view->work_fd : place->work_fd;
    plan->mount_fd = view ? view->mount_fd : -1;
    plan->user_fd = view ? view->user_fd : -1;
    plan->null_fd = place->null_fd;
    plan->out_fd = out_fd;
    plan->procs = runner->group.procs;
    plan->n_procs = runner->group.n;
    plan->parent = getpid();
    plan->error = 0;
    plan_paths(plan);
    plan_limits(plan, &job->limits, runner->group.memory);
}

/* runner_began: records the main process. fault: errno of the fork or of the execve in it; 0: the job runs. */
static bool runner_began(struct runner *runner, pid_t pid, int fault)
{
    if (pid > 0) {
        runner->pid = pid;
        runner->all_ended = false;
    }
    if (fault == 0) {
        runner->pidfd = pidfd_open(pid, 0);
        return true;
    }
    if (pid > 0)
        runner_reap(runner);
    while (!runner->all_ended)
        runner_kill(runner);
    return false;
}

static bool runner_open(struct runner *runner, struct log_file *log, int *out_fd)
{
    *runner = RUNNER_NONE;
    runner->all_ended = true;
    if (runner_pipe(runner, out_fd))
        return true;
    log_file_note(log, "[weir: can't make a pipe: %s]\n", strerrordesc_np(errno));
    runner_close(runner);
    return false;
}

bool runner_fork(struct runner *runner, int (*main)(void *order), void *order, int null_fd, struct log_file *log)
{
    int out_fd = -1;
    if (!runner_open(runner, log, &out_fd))
        return false;
    struct runner_plan plan = { .null_fd = null_fd, .out_fd = out_fd, .parent = getpid() };
    pid_t pid = plan_fork(&plan, main, order);
    int fault = pid < 0 ? errno : 0;
    close(out_fd);
    if (runner_began(runner, pid, fault))
        return true;
    log_file_note(log, "[weir: can't fork: %s]\n", strerrordesc_np(fault));
    runner_close(runner);
    return false;
}

bool runner_start(
    struct runner *runner, const struct job *job, const struct runner_place *place, struct log_file *log, int *out_exit)
{
    static struct runner_plan plan; /* too large for the stack, and there is one job at a time */
    int out_fd = -1;
    *out_exit = 126;
    if (!runner_open(runner, log, &out_fd))
        return false;
    cgroup_open(&runner->group, &job->limits, place->dir);
    if (!limits_hold(job, &runner->group, log)) {
        close(out_fd);
        runner_close(runner);
        return false;
    }
    size_t n = 0;
    while (job->argv[n])
        n++;
    char **shell_argv = mem_alloc((n + 2) * sizeof *shell_argv); /* sh FILE, then the arguments */
    memcpy(shell_argv + 1, job->argv, (n + 1) * sizeof *shell_argv);
    static char sh[] = "sh";
    shell_argv[0] = sh;
    plan.shell_argv = shell_argv;
    plan_fill(&plan, job, runner, place, out_fd);
    pid_t pid = job->strict ? plan_sandbox(&plan, runner, place) : plan_spawn(&plan);
    int fault = pid < 0 ? errno : plan.error;
    if (plan.user_fd >= 0)
        /* entering a user namespace cleared the flag in the memory that the child shared with us, and took our /proc
         * files from us */
        prctl(PR_SET_DUMPABLE, 1);
    close(out_fd);
    mem_free(shell_argv);
    if (runner_began(runner, pid, fault))
        return true;
    *out_exit = fault == ENOENT ? 127 : 126;
    log_file_note(log, "[weir: can't run '%.300s': %s]\n", job->argv[0],
        fault == ENOENT ? "there is no such program" : strerrordesc_np(fault));
    runner_close(runner);
    return false;
}

void runner_signal(struct runner *runner, int signo)
{
    if (runner->pid > 0 && !runner->all_ended) {
        if (!runner->main_ended)
            kill(-runner->pid, signo);
        process_tree_signal(getpid(), signo, runner->main_ended ? 0 : runner->pid);
        if (signo != SIGKILL)
            process_tree_signal(getpid(), SIGCONT, 0);
    }
}

void runner_reap(struct runner *runner)
{
    struct rusage usage;
    int status;
    pid_t pid;
    while ((pid = wait4(-1, &status, WNOHANG, &usage)) > 0 || (pid < 0 && errno == EINTR)) {
        if (pid < 0)
            continue;
        if (pid == runner->pid) {
            int verdict;
            runner->main_ended = true;
            bool told = runner->verdict_fd >= 0 &&
                        read(runner->verdict_fd, &verdict, sizeof verdict) == (ssize_t)sizeof verdict;
            runner->wait_status = told ? verdict : status;
        }
        runner->cpu_us += ((int64_t)usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000 + usage.ru_utime.tv_usec +
                          usage.ru_stime.tv_usec;
        int64_t rss_bytes = (int64_t)usage.ru_maxrss * 1024;
        if (rss_bytes > runner->max_rss_bytes)
            runner->max_rss_bytes = rss_bytes;
    }
    runner->all_ended = pid < 0 && errno == ECHILD;
}

void runner_kill(struct runner *runner)
{
    cgroup_kill(&runner->group);
    if (!runner->main_ended && runner->pid > 0)
        kill(-runner->pid, SIGKILL);
    process_tree_signal(getpid(), SIGKILL, 0);
    runner_reap(runner);
}

void runner_close(struct runner *runner)
{
    ASSERT(runner->pid == 0 || runner->all_ended);
    fsx_close(runner->pidfd);
    fsx_close(runner->pipe_fd);
    fsx_close(runner->verdict_fd);
    runner->pidfd = runner->pipe_fd = runner->verdict_fd = -1;
    runner->pid = 0;
    cgroup_close(&runner->group);
}
