/* power: a library for LD_PRELOAD that writes down what a server does to the files below a folder, in order: writes
 * with their bytes, syncs, truncations, new names, renames, removals. power.py makes from it what could be on the disk
 * after a power cut at any moment.
 *
 *   POWER_DIR=FOLDER  POWER_LOG=FILE  POWER_ROLE=serve
 * A record: kind (1 byte), inode (8), number (8), length of a (4), length of b (4), a, b; in the order of the machine.
 * Calls are done one at a time (a lock is held around each), so that the order is the true one. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char dir[512];
static size_t dir_len;
static int out = -1;

__attribute__((constructor)) static void power_read(void)
{
    char line[256] = "";
    int fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/cmdline", O_RDONLY | O_CLOEXEC, 0);
    ssize_t n = fd >= 0 ? read(fd, line, sizeof line - 2) : 0;
    if (fd >= 0)
        close(fd);
    const char *role = getenv("POWER_ROLE"), *path = getenv("POWER_LOG"), *folder = getenv("POWER_DIR");
    if (n <= 0 || !role || !path || !folder || strcmp(line + strlen(line) + 1, role) != 0)
        return;
    snprintf(dir, sizeof dir, "%s", folder);
    dir_len = strlen(dir);
    out = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

static bool inside(const char *path)
{
    return out >= 0 && strncmp(path, dir, dir_len) == 0 && (path[dir_len] == '/' || path[dir_len] == '\0');
}

static bool path_of(int fd, char *path, size_t size)
{
    char link[64];
    int kept = errno;
    if (out < 0)
        return false;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, size - 1);
    errno = kept;
    path[n > 0 ? n : 0] = '\0';
    return n > 0 && inside(path);
}

static void path_at(int fd, const char *name, char *path, size_t size)
{
    char folder[512] = "";
    if (*name == '/' || out < 0)
        snprintf(path, size, "%s", name);
    else if (fd == AT_FDCWD)
        snprintf(path, size, "%s/%s", getcwd(folder, sizeof folder) ? folder : "", name);
    else
        snprintf(path, size, "%s/%s", path_of(fd, folder, sizeof folder) ? folder : "", name);
}

static void put(char kind, uint64_t inode, uint64_t number, const void *a, uint32_t na, const void *b, uint32_t nb)
{
    char head[25];
    head[0] = kind;
    memcpy(head + 1, &inode, 8);
    memcpy(head + 9, &number, 8);
    memcpy(head + 17, &na, 4);
    memcpy(head + 21, &nb, 4);
    struct iovec parts[3] = { { head, sizeof head }, { (void *)(uintptr_t)a, na }, { (void *)(uintptr_t)b, nb } };
    int kept = errno;
    syscall(SYS_writev, out, parts, 3);
    errno = kept;
}

static uint64_t inode_of(int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 ? st.st_ino : 0;
}

static int opened(int fd, int flags)
{
    char path[512];
    if (fd >= 0 && (flags & (O_CREAT | O_TRUNC)) && path_of(fd, path, sizeof path)) {
        put('C', inode_of(fd), 0, path, (uint32_t)strlen(path), NULL, 0);
        if (flags & O_TRUNC)
            put('T', inode_of(fd), 0, NULL, 0, NULL, 0);
    }
    return fd;
}

#define OPEN(name, first, call)                                              \
    {                                                                        \
        va_list list;                                                        \
        va_start(list, flags);                                               \
        mode_t mode = (flags & (O_CREAT | O_TMPFILE)) ? va_arg(list, mode_t) : 0; \
        va_end(list);                                                        \
        pthread_mutex_lock(&lock);                                           \
        int fd = opened((int)(call), flags);                                 \
        pthread_mutex_unlock(&lock);                                         \
        return fd;                                                           \
    }
int open(const char *path, int flags, ...) OPEN(open, path,
    syscall(SYS_openat, AT_FDCWD, path, flags, mode)) int open64(const char *path, int flags, ...) OPEN(open64, path,
    syscall(SYS_openat, AT_FDCWD, path, flags, mode)) int openat(int at, const char *path, int flags, ...)
    OPEN(openat, at, syscall(SYS_openat, at, path, flags, mode)) int openat64(int at, const char *path, int flags, ...)
        OPEN(openat64, at, syscall(SYS_openat, at, path, flags, mode))

            int mkostemp(char *name, int flags)
{
    size_t n = strlen(name);
    for (unsigned i = (unsigned)getpid() % 997; n >= 6; i++) {
        char end[16];
        snprintf(end, sizeof end, "%06u", i % 1000000);
        memcpy(name + n - 6, end, 6);
        int fd = open(name, flags | O_RDWR | O_CREAT | O_EXCL, 0600);
        if (fd >= 0 || errno != EEXIST)
            return fd;
    }
    errno = EINVAL;
    return -1;
}

int mkostemp64(char *name, int flags)
{
    return mkostemp(name, flags);
}

static ssize_t written(int fd, const void *bytes, ssize_t n, off_t at)
{
    char path[512];
    if (n > 0 && path_of(fd, path, sizeof path))
        put('W', inode_of(fd), (uint64_t)(at >= 0 ? at : lseek(fd, 0, SEEK_CUR) - n), bytes, (uint32_t)n, NULL, 0);
    return n;
}
ssize_t write(int fd, const void *bytes, size_t n)
{
    if (out < 0)
        return syscall(SYS_write, fd, bytes, n);
    pthread_mutex_lock(&lock);
    ssize_t done = written(fd, bytes, syscall(SYS_write, fd, bytes, n), -1);
    pthread_mutex_unlock(&lock);
    return done;
}
ssize_t pwrite(int fd, const void *bytes, size_t n, off_t at)
{
    pthread_mutex_lock(&lock);
    ssize_t done = written(fd, bytes, syscall(SYS_pwrite64, fd, bytes, n, at), at);
    pthread_mutex_unlock(&lock);
    return done;
}
ssize_t pwrite64(int fd, const void *bytes, size_t n, off64_t at)
{
    return pwrite(fd, bytes, n, at);
}

static int synced(int fd, long call)
{
    char path[512];
    pthread_mutex_lock(&lock);
    int done = (int)syscall(call, fd);
    if (done == 0 && path_of(fd, path, sizeof path)) {
        struct stat st;
        bool folder = fstat(fd, &st) == 0 && S_ISDIR(st.st_mode);
        put(folder ? 'D' : 'S', inode_of(fd), 0, path, (uint32_t)strlen(path), NULL, 0);
    }
    pthread_mutex_unlock(&lock);
    return done;
}
int fsync(int fd)
{
    return synced(fd, SYS_fsync);
}
int fdatasync(int fd)
{
    return synced(fd, SYS_fdatasync);
}
int ftruncate(int fd, off_t size)
{
    char path[512];
    pthread_mutex_lock(&lock);
    int done = (int)syscall(SYS_ftruncate, fd, size);
    if (done == 0 && path_of(fd, path, sizeof path))
        put('T', inode_of(fd), (uint64_t)size, NULL, 0, NULL, 0);
    pthread_mutex_unlock(&lock);
    return done;
}
int ftruncate64(int fd, off64_t size)
{
    return ftruncate(fd, size);
}
int renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned flags)
{
    char a[1100], b[1100];
    pthread_mutex_lock(&lock);
    path_at(from_fd, from, a, sizeof a);
    path_at(to_fd, to, b, sizeof b);
    int done = (int)syscall(SYS_renameat2, from_fd, from, to_fd, to, flags);
    if (done == 0 && inside(b))
        put('R', 0, flags, a, (uint32_t)strlen(a), b, (uint32_t)strlen(b));
    pthread_mutex_unlock(&lock);
    return done;
}
int renameat(int from_fd, const char *from, int to_fd, const char *to)
{
    return renameat2(from_fd, from, to_fd, to, 0);
}
int rename(const char *from, const char *to)
{
    return renameat2(AT_FDCWD, from, AT_FDCWD, to, 0);
}
int unlinkat(int fd, const char *name, int flags)
{
    char path[1100];
    pthread_mutex_lock(&lock);
    path_at(fd, name, path, sizeof path);
    int done = (int)syscall(SYS_unlinkat, fd, name, flags);
    if (done == 0 && inside(path))
        put('U', 0, 0, path, (uint32_t)strlen(path), NULL, 0);
    pthread_mutex_unlock(&lock);
    return done;
}
int unlink(const char *name)
{
    return unlinkat(AT_FDCWD, name, 0);
}
int mkdirat(int fd, const char *name, mode_t mode)
{
    char path[1100];
    pthread_mutex_lock(&lock);
    path_at(fd, name, path, sizeof path);
    int done = (int)syscall(SYS_mkdirat, fd, name, mode);
    if (done == 0 && inside(path))
        put('M', 0, mode, path, (uint32_t)strlen(path), NULL, 0);
    pthread_mutex_unlock(&lock);
    return done;
}
int mkdir(const char *name, mode_t mode)
{
    return mkdirat(AT_FDCWD, name, mode);
}
