/* process_tree: one pass over /proc fills a table of (pid, parent, group); everything else works on that table.
 *
 * Promises never to signal pid 1, this process, or a process that isn't a descendant in the table. A process that ended
 * between the pass and the signal is no fault. If /proc can't be read the table is empty. */
#include "exec/process_tree.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/arena.h"
#include "io/fsx.h"

struct process_row {
    pid_t pid, parent, group;
    bool chosen;
};
struct process_tree {
    struct arena arena;
    struct process_row *rows;
    size_t n, cap;
};

/* "PID (any name) S PPID PGRP ...": the name may hold anything, so the last bracket counts. */
static bool row_read(int proc, const char *pid, struct process_row *out)
{
    char path[32], text[512];
    snprintf(path, sizeof path, "%.16s/stat", pid);
    if (!fsx_read_text(proc, path, 0, text, sizeof text))
        return false;
    const char *end = strrchr(text, ')');
    if (!end || end[1] != ' ' || end[2] == '\0')
        return false;
    char *rest;
    out->parent = (pid_t)strtol(end + 3, &rest, 10);
    out->group = (pid_t)strtol(rest, NULL, 10);
    out->pid = (pid_t)strtol(pid, NULL, 10);
    out->chosen = false;
    return true;
}

static void process_tree_read(struct process_tree *tree)
{
    DIR *proc = opendir("/proc");
    if (!proc)
        return;
    for (struct dirent *entry; (entry = readdir(proc));) {
        struct process_row row;
        if (isdigit((unsigned char)entry->d_name[0]) && row_read(dirfd(proc), entry->d_name, &row))
            *ARENA_PUSH(&tree->arena, tree->rows, tree->n, tree->cap) = row;
    }
    closedir(proc);
}

static int row_compare(const void *a, const void *b)
{
    pid_t left = ((const struct process_row *)a)->pid, right = ((const struct process_row *)b)->pid;
    return (left > right) - (left < right);
}

static void process_tree_choose(struct process_tree *tree, pid_t root)
{
    if (tree->n > 0)
        qsort(tree->rows, tree->n, sizeof *tree->rows, row_compare);
    /* Parents mostly have smaller pids and so come first; a second pass finds the rest, and so on until nothing
     * changes. */
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t i = 0; i < tree->n; i++) {
            struct process_row *row = &tree->rows[i];
            if (row->chosen)
                continue;
            struct process_row key = { .pid = row->parent };
            const struct process_row *parent = bsearch(&key, tree->rows, tree->n, sizeof key, row_compare);
            if (row->parent == root || (parent && parent->chosen))
                row->chosen = changed = true;
        }
    }
}

size_t process_tree_signal(pid_t root, int signo, pid_t spare)
{
    struct process_tree tree = { 0 };
    size_t n = 0;
    process_tree_read(&tree);
    process_tree_choose(&tree, root);
    for (size_t i = 0; i < tree.n; i++) {
        struct process_row *row = &tree.rows[i];
        if (row->chosen && row->pid > 1 && row->pid != getpid() && (spare == 0 || row->group != spare))
            n += kill(row->pid, signo) == 0;
    }
    arena_release(&tree.arena);
    return n;
}

/* By its command line: "sh .../hooks/post-receive", "weir notify ARCHIVE REV". */
static bool row_is_hook(const struct process_row *row)
{
    char path[32], text[1024];
    snprintf(path, sizeof path, "/proc/%d/cmdline", (int)row->pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    fsx_close(fd);
    if (n <= 0)
        return false;
    text[n] = '\0';
    size_t first = strlen(text);
    if (first + 1 < (size_t)n && strcmp(text + first + 1, "notify") == 0)
        return true;
    return memmem(text, (size_t)n, "hooks/post-", 11) != NULL;
}

bool process_tree_has_hook(pid_t root)
{
    struct process_tree tree = { 0 };
    bool found = false;
    process_tree_read(&tree);
    process_tree_choose(&tree, root);
    for (size_t i = 0; i < tree.n && !found; i++)
        found = tree.rows[i].chosen && row_is_hook(&tree.rows[i]);
    arena_release(&tree.arena);
    return found;
}

static bool environ_has(int proc, const char *pid, const char *mark, char *space, size_t size)
{
    char path[32];
    snprintf(path, sizeof path, "%.16s/environ", pid);
    int fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    size_t len = 0;
    for (ssize_t n; len < size && (n = read(fd, space + len, size - len)) > 0;)
        len += (size_t)n;
    close(fd);
    size_t mark_len = strlen(mark) + 1; /* with its NUL: the value must match to its end */
    for (const char *at = space, *end = space + len; at < end;) {
        const char *next = memchr(at, '\0', (size_t)(end - at));
        if (!next)
            return false;
        if ((size_t)(next - at) + 1 == mark_len && memcmp(at, mark, mark_len) == 0)
            return true;
        at = next + 1;
    }
    return false;
}

static size_t kill_marked_once(const char *mark, char *space, size_t size)
{
    size_t n = 0;
    DIR *proc = opendir("/proc");
    if (!proc)
        return 0;
    for (struct dirent *entry; (entry = readdir(proc));) {
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
        if (pid > 1 && pid != getpid() && environ_has(dirfd(proc), entry->d_name, mark, space, size))
            n += kill(pid, SIGKILL) == 0;
    }
    closedir(proc);
    return n;
}

bool process_tree_kill_marked(const char *fence)
{
    enum { ROUNDS = 200, ENVIRON_MAX = 1 << 20 };
    char mark[256];
    snprintf(mark, sizeof mark, "WEIR_FENCE=%s", fence);
    char *space = mem_alloc(ENVIRON_MAX);
    size_t left = 1;
    for (int i = 0; i < ROUNDS && left > 0; i++) {
        left = kill_marked_once(mark, space, ENVIRON_MAX);
        if (left > 0)
            nanosleep(&(struct timespec){ .tv_nsec = 10 * 1000 * 1000 }, NULL);
    }
    mem_free(space);
    return left == 0;
}

void process_tree_kill_strays(const pid_t *known, size_t n)
{
    struct process_tree tree = { 0 };
    process_tree_read(&tree);
    for (size_t i = 0; i < tree.n; i++) {
        bool stray = tree.rows[i].parent == getpid();
        for (size_t k = 0; k < n && stray; k++)
            stray = known[k] != tree.rows[i].pid;
        if (stray)
            kill(tree.rows[i].pid, SIGKILL);
    }
    arena_release(&tree.arena);
}
