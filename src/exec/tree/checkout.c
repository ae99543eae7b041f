/* checkout: see checkout.h.
 *
 * Promises: a job never writes to a tree of the cache; what it writes goes to layer/ or work/ of its own shim and is
 * removed after the job.
 *
 * An overlay is tried for every job: a failed try costs two system calls, and shows more than a test at start would. */
#include "exec/tree/checkout.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "exec/tree/copy.h"
#include "exec/tree/tree_cache.h"
#include "exec/workdir.h"
#include "io/fsx.h"

enum { VIEW_FDS = 4 };

static void say(const char *line)
{
    printf("[weir: %s]\n", line);
    fflush(stdout);
}

static bool file_put(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    fsx_close(fd);
    return ok;
}

int namespace_user(void)
{
    char map[64];
    uid_t uid = geteuid();
    gid_t gid = getegid();
    if (unshare(CLONE_NEWUSER) < 0)
        return errno;
    snprintf(map, sizeof map, "%u %u 1\n", (unsigned)uid, (unsigned)uid);
    if (!file_put("/proc/self/uid_map", map))
        return errno;
    snprintf(map, sizeof map, "%u %u 1\n", (unsigned)gid, (unsigned)gid);
    if (!file_put("/proc/self/setgroups", "deny") || !file_put("/proc/self/gid_map", map))
        return errno;
    return 0;
}

/* layer_open: an empty folder for what the job changes. */
static bool layer_open(int dir_fd)
{
    int fd = workdir_open(dir_fd, "layer");
    bool ok = fd >= 0 && workdir_clean(dir_fd, "layer", &fd) && mkdirat(fd, "upper", 0755) == 0 &&
              mkdirat(fd, "work", 0700) == 0;
    fsx_close(fd);
    return ok;
}

/* view_mount: the overlay on DIR/work, in namespaces of our own. 0, or the fault: then nothing has been mounted. */
static int view_mount(const char *dir, int tree_fd)
{
    char options[600], path[4096], tree[4096];
    bool root = geteuid() == 0;
    snprintf(path, sizeof path, "/proc/self/fd/%d", tree_fd);
    ssize_t n = readlink(path, tree, sizeof tree - 1);
    if (n < 0)
        return errno;
    tree[n] = '\0';
    int fault = root ? 0 : namespace_user();
    if (fault != 0)
        return fault;
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return errno;
    /* Through /proc: names with commas and colons are then no trouble. Opened after unshare: the kernel wants them of
     * this namespace. */
    int lower = open(tree, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    snprintf(path, sizeof path, "%s/layer/upper", dir);
    int upper = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    snprintf(path, sizeof path, "%s/layer/work", dir);
    int layer = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    snprintf(path, sizeof path, "%s/work", dir);
    /* volatile: an unmount would otherwise sync the whole file system. */
    snprintf(options, sizeof options,
        "lowerdir=/proc/self/fd/%d,upperdir=/proc/self/fd/%d,workdir=/proc/self/fd/%d,volatile,%s", lower, upper, layer,
        root ? "redirect_dir=on" : "userxattr");
    fault = lower < 0 || upper < 0 || layer < 0 || mount("overlay", path, "overlay", MS_NOSUID | MS_NODEV, options) < 0
                ? errno
                : 0;
    fsx_close(lower);
    fsx_close(upper);
    fsx_close(layer);
    return fault;
}

static bool view_send(int out, const struct view *view)
{
    const int fds[VIEW_FDS] = { view->work_fd, view->mount_fd, view->lock_fd, view->user_fd };
    size_t n = view->user_fd >= 0 ? VIEW_FDS : VIEW_FDS - 1;
    union {
        struct cmsghdr head;
        char space[CMSG_SPACE(sizeof fds)];
    } control = { .space = { 0 } };
    char byte = 'v';
    struct iovec part = { &byte, 1 };
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.space, .msg_controllen = CMSG_SPACE(n * sizeof(int))
    };
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(n * sizeof(int));
    memcpy(CMSG_DATA(head), fds, n * sizeof(int));
    return sendmsg(out, &message, MSG_NOSIGNAL) == 1;
}

bool checkout_receive(int in, struct view *out, char *reason, size_t size)
{
    union {
        struct cmsghdr head;
        char space[CMSG_SPACE(VIEW_FDS * sizeof(int))];
    } control;
    char text[256] = "";
    struct iovec part = { text, sizeof text - 1 };
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.space, .msg_controllen = sizeof control.space
    };
    *out = VIEW_NONE;
    reason[0] = '\0';
    ssize_t got = recvmsg(in, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got > 1)
        snprintf(reason, size, "%s", text);
    if (got != 1)
        return false;
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    if (head == NULL || head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS)
        return false;
    size_t n = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    int *const to[VIEW_FDS] = { &out->work_fd, &out->mount_fd, &out->lock_fd, &out->user_fd };
    for (size_t i = 0; i < n && i < VIEW_FDS; i++)
        memcpy(to[i], CMSG_DATA(head) + i * sizeof(int), sizeof(int));
    return n >= VIEW_FDS - 1;
}

void view_close(struct view *view)
{
    int *const fds[] = { &view->work_fd, &view->mount_fd, &view->user_fd, &view->lock_fd };
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++) {
        fsx_close(*fds[i]);
        *fds[i] = -1;
    }
}

static bool view_make(int dir_fd, const char *dir, int tree_fd, int lock_fd, int out)
{
    char path[4096];
    if (!layer_open(dir_fd))
        return false;
    int fault = view_mount(dir, tree_fd);
    if (fault != 0)
        return false;
    snprintf(path, sizeof path, "%s/work", dir);
    struct view view = { .work_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), .lock_fd = lock_fd, .user_fd = -1 };
    view.mount_fd = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
    if (geteuid() != 0)
        view.user_fd = open("/proc/self/ns/user", O_RDONLY | O_CLOEXEC);
    return view.work_fd >= 0 && view.mount_fd >= 0 && view_send(out, &view);
}

/* work_fill: copies the tree into work/ instead of making a view, in the shim's own namespaces. */
static bool work_fill(int dir_fd, int tree_fd, struct err *err)
{
    int work_fd = workdir_open(dir_fd, "work");
    bool good =
        work_fd >= 0 ? copy_content(tree_fd, work_fd, err) : err_set(err, ERR_io, "work/: %s", strerrordesc_np(errno));
    fsx_close(work_fd);
    return good;
}

int checkout_main(const struct job *job, int dir_fd, const char *dir, int out)
{
    const struct tree_request *from = &job->checkout;
    struct err err = { .code = ERR_none };
    int tree_fd = -1, lock_fd = -1;
    umask(022);
    if (mkdirat(dir_fd, "../../trees", 0711) < 0 && errno != EEXIST)
        err_set(&err, ERR_io, "trees/: %s", strerrordesc_np(errno));
    int cache_fd = openat(dir_fd, "../../trees", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool good =
        cache_fd >= 0 && tree_cache_take(cache_fd, from, TREE_CACHE_LIMITS_USUAL, say, &tree_fd, &lock_fd, &err);
    if (good && !from->copy && view_make(dir_fd, dir, tree_fd, lock_fd, out))
        return 0;
    if (from->copy)
        umask(0); /* a container's user may be any, and must be able to write; the shim's folder is ours alone */
    if (good && work_fill(dir_fd, tree_fd, &err))
        return 0;
    const char *why = err.code != ERR_none ? err.text : strerrordesc_np(errno);
    char reason[250];
    printf("[weir: revision %lld of '%.*s' can't be checked out: %s]\n", (long long)from->rev, STR_ARG(from->archive),
        why);
    fflush(stdout);
    snprintf(reason, sizeof reason, "can't be checked out: %.200s", why);
    if (send(out, reason, strlen(reason), MSG_NOSIGNAL) < 0)
        return CHECKOUT_FAILED; /* the log says it */
    return err.code == ERR_invalid || err.code == ERR_body_too_large ? CHECKOUT_NEVER : CHECKOUT_FAILED;
}
