/* cgroup: see cgroup.h. Everything here is best effort: a step that fails leaves the limit off and says so through
 * `memory` and `pids`. */
#include "exec/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "io/fsx.h"

/* Where controllers of version 1 and the tree of version 2 are mounted, in the order tried. */
static const char *const cgroup_roots_v2[] = { "/sys/fs/cgroup", "/sys/fs/cgroup/unified" };

enum { LEFT_TRIES = 100 };

static bool file_write(const char *dir, const char *name, const char *text)
{
    char path[600];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? write(fd, text, strlen(text)) : -1;
    fsx_close(fd);
    return n == (ssize_t)strlen(text);
}

static bool file_write_number(const char *dir, const char *name, int64_t number)
{
    char text[32];
    snprintf(text, sizeof text, "%" PRId64, number);
    return file_write(dir, name, text);
}

/* Our own group in the hierarchy whose line in /proc/self/cgroup has this controller list ("" is version 2). */
static bool own_path(const char *controller, char *out, size_t size)
{
    FILE *file = fopen("/proc/self/cgroup", "re");
    char line[512];
    bool found = false;
    while (file && !found && fgets(line, sizeof line, file)) {
        char *list = strchr(line, ':');
        char *path = list ? strchr(list + 1, ':') : NULL;
        if (!path)
            continue;
        *path++ = '\0';
        path[strcspn(path, "\n")] = '\0';
        found = strcmp(list + 1, controller) == 0;
        if (found)
            snprintf(out, size, "%s", strcmp(path, "/") == 0 ? "" : path);
    }
    if (file)
        fclose(file);
    return found;
}

static void group_kill(const char *group)
{
    char path[600], line[32];
    if (file_write(group, "cgroup.kill", "1"))
        return;
    snprintf(path, sizeof path, "%s/cgroup.procs", group);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file)) {
        pid_t pid = (pid_t)strtol(line, NULL, 10);
        if (pid > 1 && pid != getpid())
            kill(pid, SIGKILL);
    }
    if (file)
        fclose(file);
}

/* group_renew: a group that an earlier job of this very shim left behind (the shim was killed): emptied, and made
 * again. The name is the shim's alone, so nobody else's processes are in it. */
static bool group_renew(const char *path)
{
    for (int i = 0; i < LEFT_TRIES; i++) {
        if (rmdir(path) == 0 || errno == ENOENT)
            return mkdir(path, 0755) == 0;
        group_kill(path);
        nanosleep(&(struct timespec){ .tv_nsec = 10 * 1000 * 1000 }, NULL);
    }
    return false;
}

/* group_make: beneath this group of the hierarchy at root. */
static const char *group_make(struct cgroup *group, const char *root, const char *above, const char *name)
{
    char *path = group->paths[group->n];
    int n = snprintf(path, sizeof group->paths[0], "%s%s/weir-%s", root, above, name);
    if (n < 0 || (size_t)n >= sizeof group->paths[0] ||
        (mkdir(path, 0755) < 0 && (errno != EEXIST || !group_renew(path)))) {
        path[0] = '\0';
        return NULL;
    }
    char procs[600];
    snprintf(procs, sizeof procs, "%s/cgroup.procs", path);
    group->procs[group->n] = open(procs, O_WRONLY | O_CLOEXEC);
    if (group->procs[group->n] < 0) {
        rmdir(path);
        path[0] = '\0';
        return NULL;
    }
    group->n++;
    return path;
}

/* group_v2: beneath this group, with all the limits that are asked for, or with any of them. Controllers that aren't
 * given on there are asked for; a group with processes of its own refuses that. */
static bool group_v2(struct cgroup *group, const struct job_limits *limits, const char *root, const char *above,
    const char *name, bool any)
{
    char base[400];
    snprintf(base, sizeof base, "%s%s", root, above);
    if (!any) {
        file_write(base, "cgroup.subtree_control", "+memory");
        file_write(base, "cgroup.subtree_control", "+pids");
    }
    const char *path = group_make(group, root, above, name);
    if (!path)
        return false;
    group->memory = limits->memory_bytes > 0 && file_write_number(path, "memory.max", limits->memory_bytes);
    group->pids = limits->pids > 0 && file_write_number(path, "pids.max", limits->pids);
    bool all = group->memory == (limits->memory_bytes > 0) && group->pids == (limits->pids > 0);
    if (all || (any && (group->memory || group->pids)))
        return true;
    cgroup_close(group);
    return false;
}

/* open_v2: beneath our own group, else beside it (what systemd gives a user), else at the top (root, on a machine whose
 * service manager gave us no group to divide). */
static bool open_v2(struct cgroup *group, const struct job_limits *limits, const char *name)
{
    for (size_t i = 0; i < sizeof cgroup_roots_v2 / sizeof *cgroup_roots_v2; i++) {
        char probe[128], own[300], beside[300];
        const char *root = cgroup_roots_v2[i];
        snprintf(probe, sizeof probe, "%s/cgroup.controllers", root);
        if (access(probe, F_OK) != 0 || !own_path("", own, sizeof own))
            continue;
        snprintf(beside, sizeof beside, "%s", own);
        char *slash = strrchr(beside, '/');
        if (slash)
            *slash = '\0';
        if (group_v2(group, limits, root, own, name, false) || group_v2(group, limits, root, beside, name, false) ||
            group_v2(group, limits, root, "", name, false) || group_v2(group, limits, root, own, name, true))
            return true;
    }
    return false;
}

/* open_v1: each limit in the hierarchy of its controller. */
static bool open_v1(struct cgroup *group, const char *controller, const char *file, int64_t limit, const char *name)
{
    char root[128], own[300];
    snprintf(root, sizeof root, "/sys/fs/cgroup/%s", controller);
    const char *path = limit > 0 && own_path(controller, own, sizeof own) ? group_make(group, root, own, name) : NULL;
    return path && file_write_number(path, file, limit);
}

void cgroup_open(struct cgroup *group, const struct job_limits *limits, const char *dir)
{
    struct stat st;
    char name[64];
    *group = (struct cgroup){ .procs = { -1, -1 } };
    if ((limits->memory_bytes <= 0 && limits->pids <= 0) || stat(dir, &st) < 0)
        return;
    snprintf(name, sizeof name, "%" PRIx64 "-%" PRIx64, (uint64_t)st.st_dev, (uint64_t)st.st_ino);
    if (open_v2(group, limits, name))
        return;
    group->memory = open_v1(group, "memory", "memory.limit_in_bytes", limits->memory_bytes, name);
    if (group->memory)
        /* only where swap is counted */
        file_write_number(group->paths[0], "memory.memsw.limit_in_bytes", limits->memory_bytes);
    group->pids = open_v1(group, "pids", "pids.max", limits->pids, name);
}

bool cgroup_over_memory(const struct cgroup *group)
{
    static const char *const names[] = { "memory.events", "memory.oom_control" }; /* of version 2, of version 1 */
    bool over = false;
    for (unsigned i = 0; group->memory && i < group->n; i++)
        for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
            char path[600], line[100];
            snprintf(path, sizeof path, "%s/%s", group->paths[i], names[k]);
            FILE *file = fopen(path, "re");
            while (file && fgets(line, sizeof line, file))
                over |= strncmp(line, "oom_kill ", 9) == 0 && strtol(line + 9, NULL, 10) > 0;
            if (file)
                fclose(file);
        }
    return over;
}

void cgroup_kill(struct cgroup *group)
{
    for (unsigned i = 0; i < group->n; i++)
        group_kill(group->paths[i]);
}

void cgroup_close(struct cgroup *group)
{
    for (unsigned i = 0; i < group->n; i++) {
        close(group->procs[i]);
        rmdir(group->paths[i]);
        group->paths[i][0] = '\0';
        group->procs[i] = -1;
    }
    group->n = 0;
    group->memory = group->pids = false;
}
