/* confine: see confine.h. The filter is written out as the kernel's own instructions: thirty of them don't need a
 * library. A step that the kernel has and that fails all the same is an error: then nothing is unpacked. */
#include "unpack/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool confine_fail(const char *what, struct err *err)
{
    return err_set(
        err, ERR_unavailable, "the process that unpacks can't be confined: %s: %s", what, strerrordesc_np(errno));
}

bool confine_parent(int64_t parent_pid)
{
    return prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == parent_pid;
}

/* --- Landlock --- */

/* Of ABI 1 to 7, whatever the headers of the machine that this was built on know. */
#define FS_ABI_1 ((1ULL << 13) - 1)
#define FS_REFER (1ULL << 13)     /* ABI 2 */
#define FS_TRUNCATE (1ULL << 14)  /* ABI 3 */
#define FS_IOCTL_DEV (1ULL << 15) /* ABI 5 */
#define NET_TCP 3ULL              /* ABI 4: bind and connect */
#define SCOPES 3ULL               /* ABI 6: abstract sockets and signals */

struct ruleset { /* struct landlock_ruleset_attr of ABI 6 */
    uint64_t fs, net, scoped;
};

static bool landlock_apply(int dir_fd, int *out_abi, struct err *err)
{
    long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    *out_abi = 0;
    if (abi < 1)
        return true; /* not in this kernel, or not switched on */
    struct ruleset rules = { .fs = FS_ABI_1 };
    rules.fs |= abi >= 2 ? FS_REFER : 0;
    rules.fs |= abi >= 3 ? FS_TRUNCATE : 0;
    rules.fs |= abi >= 5 ? FS_IOCTL_DEV : 0;
    rules.net = abi >= 4 ? NET_TCP : 0;
    rules.scoped = abi >= 6 ? SCOPES : 0;
    size_t size = abi >= 6 ? sizeof rules : abi >= 4 ? offsetof(struct ruleset, scoped) : offsetof(struct ruleset, net);
    int fd = (int)syscall(SYS_landlock_create_ruleset, &rules, size, 0);
    if (fd < 0)
        return confine_fail("Landlock", err);
    struct landlock_path_beneath_attr beneath = { .parent_fd = dir_fd,
        .allowed_access = LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_DIR };
    bool good = (dir_fd < 0 || syscall(SYS_landlock_add_rule, fd, LANDLOCK_RULE_PATH_BENEATH, &beneath, 0) == 0) &&
                syscall(SYS_landlock_restrict_self, fd, 0) == 0;
    int fault = errno;
    close(fd);
    errno = fault;
    *out_abi = good ? (int)abi : 0;
    return good || confine_fail("Landlock", err);
}

/* --- limits --- */

static bool limit_set(int resource, rlim_t value, const char *what, struct err *err)
{
    struct rlimit limit = { value, value }, now;
    if (getrlimit((__rlimit_resource_t)resource, &now) == 0 && now.rlim_max < value)
        limit = (struct rlimit){ now.rlim_max, now.rlim_max };
    return setrlimit((__rlimit_resource_t)resource, &limit) == 0 || confine_fail(what, err);
}

#if !defined(WEIR_SANITIZED)
/* mapped_bytes: what the process has mapped now: program, libraries, the stack. */
static uint64_t mapped_bytes(void)
{
    char text[64] = "";
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    if (fd >= 0)
        close(fd);
    uint64_t pages = 0;
    struct str rest = { text, n > 0 ? (size_t)n : 0 }, head = { 0 };
    str_cut(&rest, ' ', &head);
    if (!str_to_u64(head, &pages))
        pages = 1 << 16; /* no /proc: 256 MiB are more than it ever is */
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}
#endif

static bool limits_apply(const struct confine_order *order, struct confined *out, struct err *err)
{
    out->has_memory_limit = false;
#if !defined(WEIR_SANITIZED)
    if (!limit_set(RLIMIT_AS, mapped_bytes() + order->memory_bytes, "memory", err))
        return false;
    out->has_memory_limit = true;
#endif
    return limit_set(RLIMIT_CPU, (rlim_t)order->cpu_s, "CPU time", err) &&
           limit_set(RLIMIT_FSIZE, order->file_bytes, "length of files", err) &&
           limit_set(RLIMIT_NOFILE, 16, "open files", err) && limit_set(RLIMIT_CORE, 0, "core file", err);
}

static bool rights_drop(struct err *err)
{
    struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct none[2] = { { 0 }, { 0 } };
    return (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0 &&
               syscall(SYS_capset, &head, none) == 0) ||
           confine_fail("privileges", err);
}

/* --- seccomp --- */

#if !defined(WEIR_SANITIZED)
#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#endif
#endif

#if defined(ARCHITECTURE)
static const int always[] = {
    SYS_read,
    SYS_write,
    SYS_close,
    SYS_lseek,
    SYS_fstat,
    SYS_munmap,
    SYS_mremap,
    SYS_madvise,
    SYS_brk,
    SYS_futex,
    SYS_getrandom,
    SYS_clock_gettime,
    SYS_gettimeofday,
    SYS_sched_yield,
    SYS_rt_sigreturn,
    SYS_rt_sigprocmask,
    SYS_restart_syscall,
    SYS_getpid,
    SYS_gettid,
    SYS_tgkill, /* abort; where Landlock scopes signals, it reaches nobody else */
    SYS_exit,
    SYS_exit_group,
};
static const int without_exec[] = { SYS_mmap, SYS_mprotect }; /* only if the memory can't be executed */
static const int with_tree[] = { SYS_openat, SYS_openat2, SYS_mkdirat };

enum { FILTER_MAX = 128 };

struct filter {
    struct sock_filter code[FILTER_MAX];
    unsigned short n;
};

static void filter_add(struct filter *filter, struct sock_filter instruction)
{
    ASSERT(filter->n < FILTER_MAX);
    filter->code[filter->n++] = instruction;
}

static void filter_load(struct filter *filter, size_t at)
{
    filter_add(filter, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)at));
}

static void filter_return(struct filter *filter, unsigned action)
{
    filter_add(filter, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action));
}

static void filter_allow(struct filter *filter, const int *calls, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        filter_add(filter, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)calls[i], 0, 1));
        filter_return(filter, SECCOMP_RET_ALLOW);
    }
}

/* filter_make: other machine's calls and unknown calls end the process; mmap and mprotect are allowed without
 * PROT_EXEC, which is in the lower half of the third argument. */
static void filter_make(struct filter *filter, bool has_tree)
{
    filter_load(filter, offsetof(struct seccomp_data, arch));
    filter_add(filter, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCHITECTURE, 1, 0));
    filter_return(filter, SECCOMP_RET_KILL_PROCESS);
    filter_load(filter, offsetof(struct seccomp_data, nr));
    filter_allow(filter, always, sizeof always / sizeof always[0]);
    if (has_tree)
        filter_allow(filter, with_tree, sizeof with_tree / sizeof with_tree[0]);
    for (size_t i = 0; i < sizeof without_exec / sizeof without_exec[0]; i++) {
        filter_add(filter, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)without_exec[i], 0, 4));
        filter_load(filter, offsetof(struct seccomp_data, args[2]));
        filter_add(filter, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 1, 0));
        filter_return(filter, SECCOMP_RET_ALLOW);
        filter_return(filter, SECCOMP_RET_KILL_PROCESS);
    }
    filter_return(filter, SECCOMP_RET_KILL_PROCESS);
}

static bool seccomp_apply(bool has_tree, bool *out_has, struct err *err)
{
    struct filter filter = { .n = 0 };
    filter_make(&filter, has_tree);
    struct sock_fprog program = { filter.n, filter.code };
    *out_has = false;
    if (prctl(PR_GET_SECCOMP, 0, 0, 0, 0) < 0)
        return true; /* not in this kernel */
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) < 0)
        return errno == EINVAL || confine_fail("seccomp", err); /* EINVAL: the kernel has no filters */
    *out_has = true;
    return true;
}
#else
static bool seccomp_apply(bool has_tree, bool *out_has, struct err *err)
{
    (void)has_tree;
    (void)err;
    *out_has = false;
    return true;
}
#endif

bool confine_process(const struct confine_order *order, struct confined *out, struct err *err)
{
    return rights_drop(err) && limits_apply(order, out, err) &&
           landlock_apply(order->dir_fd, &out->landlock_abi, err) &&
           seccomp_apply(order->dir_fd >= 0, &out->has_seccomp, err);
}
