/* sandbox: see sandbox.h. Three processes: the outermost waits outside; the first in the new pid namespace builds the
 * root and waits for the job, and when it exits the kernel kills all others in there; the third is the job.
 *
 * As root the job keeps its user and loses every capability; otherwise a user namespace gives us the right to mount,
 * and the job none. */
#include "exec/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PATH_BYTES = 4096 }; /* of paths; the shim's directory is checked to be far shorter */

static _Noreturn void refuse(const char *what)
{
    printf("[weir: sandbox: strict isn't possible here, and nothing weaker is run: %s: %s]\n", what,
        strerrordesc_np(errno));
    fflush(stdout);
    _exit(SANDBOX_REFUSED);
}

/* --- the root --- */

/* System folders, read-only; of /etc only what programs need and nobody keeps secret. What isn't there is left out. */
static const char *const shown[] = {
    "usr",
    "bin",
    "sbin",
    "lib",
    "lib32",
    "lib64",
    "libx32",
    "opt",
    "etc/alternatives",
    "etc/bash.bashrc",
    "etc/ca-certificates",
    "etc/fonts",
    "etc/gitconfig",
    "etc/group",
    "etc/host.conf",
    "etc/hosts",
    "etc/inputrc",
    "etc/java",
    "etc/ld.so.cache",
    "etc/ld.so.conf",
    "etc/ld.so.conf.d",
    "etc/locale.alias",
    "etc/localtime",
    "etc/login.defs",
    "etc/mime.types",
    "etc/nsswitch.conf",
    "etc/os-release",
    "etc/passwd",
    "etc/perl",
    "etc/profile",
    "etc/protocols",
    "etc/python3",
    "etc/services",
    "etc/ssl/certs",
    "etc/ssl/openssl.cnf",
    "etc/terminfo",
    "etc/texmf",
    "etc/timezone",
};
static const char *const devices[] = { "dev/null", "dev/zero", "dev/full", "dev/random", "dev/urandom" };
/* Parts of /proc that a user 0 could write to, or that tell about the machine. */
static const char *const proc_read_only[] = { "proc/sys", "proc/irq", "proc/bus", "proc/fs", "proc/sysrq-trigger" };
static const char *const proc_hidden[] = { "proc/kcore", "proc/keys", "proc/timer_list", "proc/kmsg", "proc/kallsyms",
    "proc/sched_debug" };

/* folders_make: every folder that leads to a path, and with `all` the last part too. */
static void folders_make(const char *path, bool all)
{
    char copy[2 * PATH_BYTES];
    snprintf(copy, sizeof copy, "%s", path);
    for (char *at = copy + 1; *at != '\0'; at++) {
        if (*at != '/')
            continue;
        *at = '\0';
        mkdir(copy, 0755);
        *at = '/';
    }
    if (all)
        mkdir(copy, 0755);
}

static void bind_at(const char *from, const char *to, unsigned long long attributes)
{
    struct mount_attr attr = { .attr_set = attributes };
    if (mount(from, to, NULL, MS_BIND | MS_REC, NULL) < 0)
        refuse(from);
    if (mount_setattr(AT_FDCWD, to, AT_RECURSIVE, &attr, sizeof attr) < 0)
        refuse(to);
}

/* show: a file or folder of the host at its place in the new root; links are made as they are. */
static void show(const char *root, const char *name, unsigned long long attributes)
{
    char from[PATH_BYTES], to[PATH_BYTES], target[PATH_BYTES];
    struct stat st;
    snprintf(from, sizeof from, "/%s", name);
    snprintf(to, sizeof to, "%.3900s/%s", root, name);
    if (lstat(from, &st) < 0)
        return;
    folders_make(to, S_ISDIR(st.st_mode));
    if (S_ISLNK(st.st_mode)) {
        ssize_t n = readlink(from, target, sizeof target - 1);
        target[n > 0 ? n : 0] = '\0';
        if (n <= 0 || symlink(target, to) < 0)
            refuse(from);
        return;
    }
    if (!S_ISDIR(st.st_mode)) {
        int fd = open(to, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
        if (fd < 0)
            refuse(to);
        close(fd);
    }
    bind_at(from, to, attributes);
}

static void proc_make(const char *root)
{
    char path[PATH_BYTES], null[PATH_BYTES];
    struct mount_attr attr = { .attr_set = MOUNT_ATTR_RDONLY };
    snprintf(path, sizeof path, "%.3900s/proc", root);
    mkdir(path, 0555);
    if (mount("proc", path, "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
        refuse("/proc");
    for (size_t i = 0; i < sizeof proc_read_only / sizeof *proc_read_only; i++) {
        snprintf(path, sizeof path, "%.3900s/%s", root, proc_read_only[i]);
        if (access(path, F_OK) == 0 && (mount(path, path, NULL, MS_BIND | MS_REC, NULL) < 0 ||
                                           mount_setattr(AT_FDCWD, path, AT_RECURSIVE, &attr, sizeof attr) < 0))
            refuse(proc_read_only[i]);
    }
    snprintf(null, sizeof null, "%.3900s/dev/null", root);
    for (size_t i = 0; i < sizeof proc_hidden / sizeof *proc_hidden; i++) {
        snprintf(path, sizeof path, "%.3900s/%s", root, proc_hidden[i]);
        if (access(path, F_OK) == 0 && mount(null, path, NULL, MS_BIND, NULL) < 0)
            refuse(proc_hidden[i]);
    }
}

static void dev_make(const char *root)
{
    static const char *const links[][2] = { { "/proc/self/fd", "dev/fd" }, { "/proc/self/fd/0", "dev/stdin" },
        { "/proc/self/fd/1", "dev/stdout" }, { "/proc/self/fd/2", "dev/stderr" } };
    char path[PATH_BYTES];
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++)
        show(root, devices[i], MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
    for (size_t i = 0; i < sizeof links / sizeof *links; i++) {
        snprintf(path, sizeof path, "%.3900s/%s", root, links[i][1]);
        if (symlink(links[i][0], path) < 0)
            refuse(links[i][1]);
    }
    snprintf(path, sizeof path, "%.3900s/dev/shm", root);
    mkdir(path, 0777);
    chmod(path, 01777);
}

static void root_make(const struct sandbox *sandbox)
{
    static const char *const own[] = { "tmp", "var/tmp", "run" };
    static const char *const parts[] = { "work", "io" };
    char root[PATH_BYTES], path[PATH_BYTES], to[2 * PATH_BYTES];
    snprintf(root, sizeof root, "%s/root", sandbox->dir);
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        refuse("/");
    if (mount("tmpfs", root, "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=1g,nr_inodes=200k") < 0)
        refuse(root);
    for (size_t i = 0; i < sizeof shown / sizeof *shown; i++)
        show(root, shown[i], MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        snprintf(to, sizeof to, "%.3900s/%s", root, own[i]);
        folders_make(to, true);
        chmod(to, 01777);
    }
    dev_make(root);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        snprintf(path, sizeof path, "%s/%s", sandbox->dir, parts[i]);
        snprintf(to, sizeof to, "%s%s", root, path);
        folders_make(to, true);
        bind_at(path, to, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
    }
    proc_make(root);
    snprintf(to, sizeof to, "%.3900s/.host", root);
    mkdir(to, 0700);
    if (chdir(root) < 0 || syscall(SYS_pivot_root, ".", ".host") < 0 || chdir("/") < 0)
        refuse("pivot_root");
    if (umount2("/.host", MNT_DETACH) < 0)
        refuse("umount");
    rmdir("/.host");
}

/* --- what else is its own --- */

static void network_make(void)
{
    struct ifreq request = { .ifr_flags = IFF_UP };
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    memcpy(request.ifr_name, "lo", 3);
    if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &request) < 0)
        refuse("loopback");
    close(fd);
}

static void rights_drop(void)
{
    struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct none[2] = { { 0 }, { 0 } };
    for (int cap = 0; cap < 64; cap++)
        prctl(PR_CAPBSET_DROP, cap, 0, 0, 0); /* those that don't exist fail */
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0 ||
        syscall(SYS_capset, &head, none) < 0)
        refuse("capabilities");
}

/* --- the processes --- */

static _Noreturn void job_main(const struct sandbox *sandbox)
{
    char work[PATH_BYTES];
    snprintf(work, sizeof work, "%s/work", sandbox->dir);
    setsid();
    for (int signo = 1; signo < NSIG; signo++)
        signal(signo, SIG_DFL);
    if (chdir(work) < 0)
        refuse(work);
    rights_drop();
    sandbox->run(sandbox->plan);
    _exit(SANDBOX_REFUSED);
}

static _Noreturn void init_main(const struct sandbox *sandbox)
{
    int status = 0;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (sethostname("sandbox", 7) < 0)
        refuse("host name");
    network_make();
    root_make(sandbox);
    pid_t job = fork();
    if (job == 0)
        job_main(sandbox);
    if (job < 0)
        refuse("fork");
    for (pid_t pid; (pid = wait(&status)) != job;)
        if (pid < 0 && errno != EINTR)
            break;
    ssize_t n = write(sandbox->verdict_fd, &status, sizeof status);
    _exit(n == (ssize_t)sizeof status ? 0 : SANDBOX_REFUSED); /* and the kernel kills everything else in here */
}

int sandbox_main(void *order)
{
    const struct sandbox *sandbox = order;
    const struct view *view = sandbox->view;
    int status = 0;
    if (strlen(sandbox->dir) > PATH_BYTES / 4) {
        errno = ENAMETOOLONG;
        refuse(sandbox->dir);
    }
    for (int signo = 1; signo < NSIG; signo++)
        signal(signo, SIG_IGN); /* signals to the job aren't for us */
    signal(SIGCHLD, SIG_DFL);
    if (view->user_fd >= 0 && setns(view->user_fd, CLONE_NEWUSER) < 0)
        refuse("the checkout's user namespace");
    if (view->user_fd < 0 && geteuid() != 0 && (errno = namespace_user()) != 0)
        refuse("user namespace");
    if (view->mount_fd >= 0 && setns(view->mount_fd, CLONE_NEWNS) < 0)
        refuse("the checkout's mounts");
    if (unshare(CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS) < 0)
        refuse("namespaces");
    pid_t init = fork();
    if (init == 0)
        init_main(sandbox);
    if (init < 0)
        refuse("fork");
    close(sandbox->verdict_fd);
    while (waitpid(init, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(status) ? WEXITSTATUS(status) : SANDBOX_REFUSED;
}
