/* trap: a library for LD_PRELOAD that makes calls fail: the K-th that touches a file below a folder, once or from then
 * on; the K-th allocation.
 *
 *   TRAP_ROLE=serve            only in processes whose first argument is this
 *   TRAP_DIR=FOLDER            files below it count, others don't
 *   TRAP_CALL=write,fsync,...  which calls count (write: write, pwrite, writev; sync: fsync, fdatasync; truncate;
 * rename; open) TRAP_AT=K TRAP_ERRNO=N TRAP_STICKY=0|1 TRAP_MALLOC=K TRAP_STICKY  the K-th allocation since TRAP_GO
 * appeared gives NULL TRAP_GO=FILE               nothing counts before this file is there (looked up at each call until
 * it is) TRAP_TELL=FILE             `CALL FILE-NAME` of what failed, or the number of calls counted so far, is written
 * there
 */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static bool active, sticky, going;
static char dir[512], go[512], tell[512], calls[128];
static long at, malloc_at;
static int fault;
static atomic_long counted, allocated;
static size_t dir_len;

static void copy(char *out, size_t size, const char *name)
{
    const char *value = getenv(name);
    size_t n = value ? strlen(value) : 0;
    if (n >= size)
        n = size - 1;
    if (n)
        memcpy(out, value, n);
    out[n] = '\0';
}

__attribute__((constructor)) static void trap_read(void)
{
    char line[256] = "", role[64];
    int fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/cmdline", O_RDONLY | O_CLOEXEC, 0);
    ssize_t n = fd >= 0 ? read(fd, line, sizeof line - 2) : 0;
    if (fd >= 0)
        close(fd);
    copy(role, sizeof role, "TRAP_ROLE");
    copy(dir, sizeof dir, "TRAP_DIR");
    copy(go, sizeof go, "TRAP_GO");
    copy(tell, sizeof tell, "TRAP_TELL");
    copy(calls, sizeof calls, "TRAP_CALL");
    dir_len = strlen(dir);
    at = getenv("TRAP_AT") ? atol(getenv("TRAP_AT")) : 0;
    malloc_at = getenv("TRAP_MALLOC") ? atol(getenv("TRAP_MALLOC")) : 0;
    fault = getenv("TRAP_ERRNO") ? atoi(getenv("TRAP_ERRNO")) : EIO;
    sticky = getenv("TRAP_STICKY") && *getenv("TRAP_STICKY") == '1';
    active = n > 0 && strcmp(line + strlen(line) + 1, role) == 0;
}

static bool trap_going(void)
{
    if (!going)
        going = !*go || syscall(SYS_faccessat, AT_FDCWD, go, F_OK) == 0;
    return going;
}

static void trap_tell(const char *call, const char *path, long k)
{
    char line[800];
    int n = snprintf(line, sizeof line, "%ld %s %s\n", k, call, path);
    int fd = *tell ? (int)syscall(SYS_openat, AT_FDCWD, tell, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
    if (fd >= 0) {
        syscall(SYS_write, fd, line, (size_t)n);
        syscall(SYS_close, fd);
    }
}

/* true: this call fails; errno is set */
static bool trap_path(const char *call, const char *path)
{
    if (strncmp(path, dir, dir_len) != 0 || !strstr(calls, call) || !trap_going())
        return false;
    long k = atomic_fetch_add(&counted, 1) + 1;
    if (k == at || (sticky && k > at)) {
        if (k == at)
            trap_tell(call, path, k);
        errno = fault;
        return true;
    }
    return false;
}

static bool trap_fd(const char *call, int fd)
{
    char link[64], path[512];
    if (!active || !at || !dir_len)
        return false;
    int kept = errno;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    errno = kept;
    if (n <= 0)
        return false;
    path[n] = '\0';
    return trap_path(call, path);
}

ssize_t write(int fd, const void *bytes, size_t n)
{
    return trap_fd("write", fd) ? -1 : syscall(SYS_write, fd, bytes, n);
}
ssize_t pwrite(int fd, const void *bytes, size_t n, off_t offset)
{
    return trap_fd("write", fd) ? -1 : syscall(SYS_pwrite64, fd, bytes, n, offset);
}
ssize_t pwrite64(int fd, const void *bytes, size_t n, off64_t offset)
{
    return trap_fd("write", fd) ? -1 : syscall(SYS_pwrite64, fd, bytes, n, offset);
}
ssize_t writev(int fd, const struct iovec *parts, int n)
{
    return trap_fd("write", fd) ? -1 : syscall(SYS_writev, fd, parts, n);
}
int fsync(int fd)
{
    return trap_fd("sync", fd) ? -1 : (int)syscall(SYS_fsync, fd);
}
int fdatasync(int fd)
{
    return trap_fd("sync", fd) ? -1 : (int)syscall(SYS_fdatasync, fd);
}
int ftruncate(int fd, off_t size)
{
    return trap_fd("truncate", fd) ? -1 : (int)syscall(SYS_ftruncate, fd, size);
}
int ftruncate64(int fd, off64_t size)
{
    return trap_fd("truncate", fd) ? -1 : (int)syscall(SYS_ftruncate, fd, size);
}
int rename(const char *from, const char *to)
{
    return active && at && trap_path("rename", to) ? -1 : (int)syscall(SYS_rename, from, to);
}
int renameat(int from_fd, const char *from, int to_fd, const char *to)
{
    return trap_fd("rename", to_fd) ? -1 : (int)syscall(SYS_renameat, from_fd, from, to_fd, to);
}

/* --- memory --- */

extern void *__libc_malloc(size_t n);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *old, size_t n);

static bool trap_memory(void)
{
    if (!active || !malloc_at || !trap_going())
        return false;
    long k = atomic_fetch_add(&allocated, 1) + 1;
    if (k != malloc_at && !(sticky && k > malloc_at))
        return false;
    if (k == malloc_at)
        trap_tell("malloc", "-", k);
    errno = ENOMEM;
    return true;
}
void *malloc(size_t n)
{
    return trap_memory() ? NULL : __libc_malloc(n);
}
void *calloc(size_t n, size_t size)
{
    return trap_memory() ? NULL : __libc_calloc(n, size);
}
void *realloc(void *old, size_t n)
{
    return trap_memory() ? NULL : __libc_realloc(old, n);
}

__attribute__((destructor)) static void trap_end(void)
{
    if (active && at && dir_len)
        trap_tell("total", "-", atomic_load(&counted));
    if (active && malloc_at)
        trap_tell("allocated", "-", atomic_load(&allocated));
}
