/* apply_git_ref: the branch's step from one commit to the next, compared and swapped.
 *
 * git locks a branch by the file refs/heads/BRANCH.lock, made by whoever writes it and renamed over the branch. A
 * process that is killed between leaves the file, and nobody can write the branch any more. So a process of weir
 * holds, while it swaps, also a lock of the kernel's on the repository's folder, which goes with the process: whoever
 * has that lock knows that no living process of weir made the file. If the file then names a commit of weir's that
 * would follow the branch's tip, or is empty and a minute old, it is removed. Weir's own is never empty: it is made
 * with its text (lock_make). Any other is somebody else's: a temporary failure that names the file.
 *
 * Fails with unavailable (locked), io, corrupt. */
#include "source/apply_git.h"

#include "io/fsx.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LOCK_WAIT_MS 5000
#define STALE_WAIT_MS 1000 /* a living git holds the file for milliseconds */
#define STEP_MS 20
#define EMPTY_STALE_S 60

struct swap_paths {
    const char *branch, *lock, *folder; /* the branch's file, BRANCH.lock, and the folder with both */
    const char *temporary;              /* what becomes the lock: written under the folder's lock only */
};

static bool folder_lock(struct apply *apply, int *out_fd, struct err *err)
{
    struct str place = source_place(apply->source);
    struct arena arena = { 0 };
    int fd = open(str_dupz(&arena, place), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    arena_release(&arena);
    if (fd < 0)
        return err_set(err, errno == ENOENT ? ERR_unavailable : ERR_io, "%.*s: %s", STR_ARG(place), strerror(errno));
    for (int waited = 0; flock(fd, LOCK_EX | LOCK_NB) != 0; waited += STEP_MS) {
        if ((errno == EWOULDBLOCK || errno == EINTR) && waited < LOCK_WAIT_MS) {
            poll(NULL, 0, STEP_MS);
            continue;
        }
        close(fd);
        return err_set(err, ERR_unavailable, "%.*s: another process of weir has been writing the branch for %d s",
            STR_ARG(place), LOCK_WAIT_MS / 1000);
    }
    *out_fd = fd;
    return true;
}

/* is_ours: does the lock's text name a commit of weir's that follows the tip? */
static bool is_ours(struct apply *apply, struct str text, const git_oid *old)
{
    git_commit *commit = NULL;
    git_oid oid;
    struct arena arena = { 0 };
    struct apply_revision revision = { 0 };
    text = str_trim(text);
    bool ours = false;
    if (text.len == GIT_OID_HEXSZ && git_oid_fromstrn(&oid, text.ptr, text.len) == 0 &&
        git_commit_lookup(&commit, apply_git_of(apply)->git->repo, &oid) == 0) {
        apply_git_trailers(&arena, str_of(git_commit_message(commit)), &revision);
        bool first = git_commit_parentcount(commit) == 0;
        bool follows = first ? git_oid_is_zero(old) : git_oid_equal(git_commit_parent_id(commit, 0), old);
        ours = revision.csid.len > 0 && follows;
    }
    git_commit_free(commit);
    arena_release(&arena);
    return ours;
}

/* lock_heal: removes the file that a dead process of weir left. */
static bool lock_heal(struct apply *apply, const char *path, const git_oid *old)
{
    char text[64];
    struct stat st;
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT;
    ssize_t n = read(fd, text, sizeof text);
    bool known = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid();
    close(fd);
    bool ours = n > 0 ? is_ours(apply, (struct str){ text, (size_t)n }, old)
                      : n == 0 && st.st_mtime + EMPTY_STALE_S < time(NULL);
    return known && ours && unlink(path) == 0;
}

/* lock_make: BRANCH.lock, with its text from the first moment on, so that one that a killed process leaves names the
 * commit. The file is written beside the references, where git looks for none, and gets its second name when it is
 * whole. */
static int lock_make(const char *temporary, const char *path, const git_oid *new)
{
    char text[GIT_OID_HEXSZ + 2];
    git_oid_tostr(text, GIT_OID_HEXSZ + 1, new);
    text[GIT_OID_HEXSZ] = '\n';
    if (unlink(temporary) != 0 && errno != ENOENT)
        return errno;
    int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0)
        return errno;
    int fault = fsx_write_all(fd, (struct str){ text, GIT_OID_HEXSZ + 1 });
    if (fault == 0 && fsync(fd) != 0)
        fault = errno;
    close(fd);
    if (fault == 0 && link(temporary, path) != 0)
        fault = errno;
    unlink(temporary);
    return fault;
}

/* log_add: the repository's own record of the branch, where it keeps one; the commit stands without it. */
static void log_add(struct git_source *git, const git_oid *new)
{
    git_reflog *log = NULL;
    git_signature *who = NULL;
    if ((git_repository_is_bare(git->repo) || git_reference_ensure_log(git->repo, git->ref) == 0) &&
        git_reference_has_log(git->repo, git->ref) == 1 && git_reflog_read(&log, git->repo, git->ref) == 0 &&
        git_signature_now(&who, "weir", "weir@localhost") == 0 && git_reflog_append(log, new, who, "weir") == 0)
        git_reflog_write(log);
    git_signature_free(who);
    git_reflog_free(log);
}

/* branch_step: from one commit to the next, as git does it: lock, compare, rename. The step of a branch that isn't a
 * file of its own (it is packed), and the first commit of one, are libgit2's. */
static int branch_step(struct git_source *git, const struct swap_paths *paths, const git_oid *old, const git_oid *new)
{
    git_oid now;
    int fault = lock_make(paths->temporary, paths->lock, new);
    if (fault != 0) {
        errno = fault;
        return fault == EEXIST ? GIT_ELOCKED : GIT_ERROR;
    }
    int code = git_reference_name_to_id(&now, git->repo, git->ref);
    if (code == 0 && !git_oid_equal(&now, old))
        code = GIT_EMODIFIED;
    if (code != 0 || rename(paths->lock, paths->branch) != 0) {
        fault = errno;
        unlink(paths->lock);
        errno = fault;
        return code != 0 ? code : GIT_ERROR;
    }
    struct err ignored = { 0 };
    fsx_sync_dir(paths->folder, &ignored); /* the rename has happened: a commit whose sync failed is found again */
    log_add(git, new);
    return 0;
}

static int branch_write(struct git_source *git, const struct swap_paths *paths, const git_oid *old, const git_oid *new)
{
    git_reference *ref = NULL;
    git_oid now;
    struct stat st;
    apply_git_errors_clear();
    if (!git_oid_is_zero(old) && lstat(paths->branch, &st) == 0 && S_ISREG(st.st_mode))
        return branch_step(git, paths, old, new);
    if (git_oid_is_zero(old) && git_reference_name_to_id(&now, git->repo, git->ref) == 0)
        return GIT_EMODIFIED;
    int code = git_oid_is_zero(old) ? git_reference_create(&ref, git->repo, git->ref, new, 0, "weir")
                                    : git_reference_create_matching(&ref, git->repo, git->ref, new, 1, old, "weir");
    git_reference_free(ref);
    return code;
}

/* locked_swap: while the folder's lock is held. */
static bool locked_swap(
    struct apply *apply, const git_oid *old, const git_oid *new, enum apply_git_swapped *out, struct err *err)
{
    struct git_source *git = apply_git_of(apply)->git;
    struct str place = source_place(apply->source);
    struct arena arena = { 0 };
    const char *branch = str_fmt(&arena, "%.*s/%s", STR_ARG(place), git->ref).ptr;
    const struct swap_paths paths = {
        .branch = branch,
        .lock = str_fmt(&arena, "%s.lock", branch).ptr,
        .folder = str_fmt(&arena, "%.*s", (int)(strrchr(branch, '/') - branch), branch).ptr,
        .temporary = str_fmt(&arena, "%.*s/weir-branch.tmp", STR_ARG(place)).ptr,
    };
    bool healed = false;
    int code = branch_write(git, &paths, old, new);
    for (int waited = 0; code == GIT_ELOCKED && (waited < STALE_WAIT_MS || !healed); waited += STEP_MS) {
        if (waited >= STALE_WAIT_MS) {
            if (!lock_heal(apply, paths.lock, old))
                break;
            healed = true;
        }
        poll(NULL, 0, STEP_MS);
        code = branch_write(git, &paths, old, new);
    }
    bool moved = code == GIT_EMODIFIED || code == GIT_EEXISTS || code == GIT_ENOTFOUND;
    *out = moved ? APPLY_GIT_MOVED : APPLY_GIT_SWAPPED;
    bool good = code == 0 || moved;
    if (code == GIT_ELOCKED)
        err_set(err, ERR_unavailable, "%s: the branch is locked; if no git process is at work there, remove this file",
            paths.lock);
    else if (!good)
        apply_git_fail(apply, code, err, "writing the branch");
    arena_release(&arena);
    return good;
}

bool apply_git_swap(
    struct apply *apply, const git_oid *old, const git_oid *new, enum apply_git_swapped *out, struct err *err)
{
    int fd;
    if (!folder_lock(apply, &fd, err))
        return false;
    bool good = locked_swap(apply, old, new, out, err);
    close(fd);
    return good;
}
