/* apply_work: see apply_work.h.
 *
 * The order of things is what makes a change set one commit: look for it behind the oldest recorded base; read the
 * head; record it as the base, durably; only then commit, against that head. Whoever comes later looks behind that
 * base. */
#include "exec/apply/apply_work.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/fsx.h"
#include "text/utf8.h"
#include "unpack/unpack.h"

void work_tell(const struct apply_work *work, char what, struct str text)
{
    char line[TELL_BYTES_MAX + 2];
    size_t n = text.len < TELL_BYTES_MAX ? text.len : TELL_BYTES_MAX;
    line[0] = what;
    if (n > 0)
        memcpy(line + 1, text.ptr, n);
    for (size_t i = 1; i <= n; i++)
        if (line[i] == '\n' || line[i] == '\0')
            line[i] = ' ';
    line[n + 1] = '\n';
    fsx_write_all(work->tell_fd, (struct str){ line, n + 2 });
}

static int work_end(const struct apply_work *work, int status, struct str reason)
{
    printf("[weir: %.*s]\n", STR_ARG(reason));
    fflush(stdout);
    work_tell(work, TELL_REASON, reason);
    return status;
}

static int work_failed(const struct apply_work *work, const struct err *err, bool temporary)
{
    return work_end(work, temporary ? APPLY_LATER : APPLY_NEVER, str_of(err->text));
}

static int work_done(const struct apply_work *work, const char *how, struct source_ident revision)
{
    struct str text = ident_text(work->arena, work->order->kind, revision);
    printf("[weir: %s %.*s]\n", how, STR_ARG(text));
    fflush(stdout);
    work_tell(work, TELL_REVISION, text);
    return APPLY_DONE;
}

bool work_find(const struct apply_order *order, struct arena *arena, struct source_ident base, bool *out_found,
    struct source_ident *out, struct err *err)
{
    struct apply *place = apply_open(order->kind, order->url, order->branch, order->path, err);
    *out_found = false;
    bool good = place && apply_find(place, arena, order->csid, base, out_found, out, err);
    apply_close(place);
    return good;
}

/* --- the files --- */

static int tarball_open(struct err *err)
{
    int fd = open(".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0) {
        fd = open("tarball", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        unlink("tarball");
    }
    if (fd < 0)
        err_set(err, ERR_io, "the tarball can't be written: %s", strerrordesc_np(errno));
    return fd;
}

/* files_get: the unpacked tarball in cs/. The status of the failure, or APPLY_DONE. */
static int files_get(struct apply_work *work, struct unpack_result *out)
{
    const struct apply_order *order = work->order;
    struct err err = { .arena = work->arena };
    int64_t most = order->tarball_bytes > 0 ? order->tarball_bytes : INT64_MAX;
    int fd = tarball_open(&err), dir_fd = -1, status = APPLY_DONE;
    if (fd < 0 || !talk_tarball(&work->talk, order->csid, most, fd, &err))
        status = work_failed(work, &err, talk_is_temporary(&err) || err.code == ERR_stale_fence);
    if (status == APPLY_DONE) {
        dir_fd = mkdir("cs", 0700) == 0 ? open("cs", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
        if (dir_fd < 0)
            err_set(&err, ERR_io, "the folder for the files can't be made: %s", strerrordesc_np(errno));
        struct unpack_order unpack = {
            .tarball_fd = fd, .limits = &order->limits, .csid = order->csid, .sha256 = order->sha256
        };
        if (dir_fd < 0 || !unpack_extract(&unpack, dir_fd, work->arena, out, &err))
            status = work_failed(work, &err, err.code == ERR_io || talk_is_temporary(&err));
    }
    fsx_close(fd);
    fsx_close(dir_fd);
    return status;
}

/* --- the commit --- */

static struct apply_identity identity_of(const struct apply_work *work, size_t n_files)
{
    const struct apply_order *order = work->order;
    struct apply_identity identity = { .csid = order->csid,
        .submitter = order->submitter,
        .ticket = order->ticket,
        .movetype = order->movetype,
        .cause = order->cause,
        .message = order->message,
        .depends = order->depends,
        .n_depends = order->n_depends };
    if (identity.message.len == 0)
        identity.message =
            order->rollback
                ? str_fmt(work->arena, "%.*s: rolls back %zu", STR_ARG(order->csid), order->n_undoes)
                : str_fmt(work->arena, "%.*s: %zu file%s", STR_ARG(order->csid), n_files, n_files == 1 ? "" : "s");
    if (!order->rollback)
        return identity;
    struct str *undone = ARENA_ARRAY(work->arena, struct str, order->n_undoes + 1);
    for (size_t i = 0; i < order->n_undoes; i++)
        undone[i] = order->undoes[i].csid;
    identity.rolls_back = undone;
    identity.n_rolls_back = order->n_undoes;
    return identity;
}

static bool change_commit(struct apply_work *work, struct apply *place, const struct unpack_result *files,
    struct source_ident base, struct apply_result *out, struct err *err)
{
    const struct apply_order *order = work->order;
    struct apply_identity identity = identity_of(work, files->n_files);
    struct apply_file *list = ARENA_ARRAY(work->arena, struct apply_file, files->n_files + 1);
    struct str *removed = ARENA_ARRAY(work->arena, struct str, files->meta.removed.n + 1);
    for (size_t i = 0; i < files->n_files; i++)
        list[i] = (struct apply_file){ files->files[i].path, files->files[i].is_executable };
    for (size_t i = 0; i < files->meta.removed.n; i++)
        removed[i] = files->meta.removed.at[i].text;
    mkdir("cs/lroot", 0700); /* of one that only removes */
    struct apply_change change = { .lroot_fd = open("cs/lroot", O_RDONLY | O_DIRECTORY | O_CLOEXEC),
        .files = list,
        .n_files = files->n_files,
        .removed = removed,
        .n_removed = files->meta.removed.n,
        .has_base = order->has_from,
        .base = order->from };
    bool good = change.lroot_fd >= 0 || err_set(err, ERR_io, "cs/lroot: %s", strerrordesc_np(errno));
    good = good && apply_commit(place, work->arena, &change, &identity, base, out, err);
    fsx_close(change.lroot_fd);
    return good;
}

static bool rollback_commit(
    struct apply_work *work, struct apply *place, struct source_ident base, struct apply_result *out, struct err *err)
{
    const struct apply_order *order = work->order;
    struct apply_identity identity = identity_of(work, 0);
    struct source_ident *revisions = ARENA_ARRAY(work->arena, struct source_ident, order->n_undoes + 1);
    for (size_t i = 0; i < order->n_undoes; i++)
        revisions[i] = order->undoes[i].revision;
    return apply_rollback(place, work->arena, revisions, order->n_undoes, &identity, base, out, err);
}

/* base_record: the head, durably the base of this change set before anything is committed. */
static int base_record(struct apply_work *work, struct apply *place, struct source_ident *out)
{
    struct err err = { .arena = work->arena };
    if (!apply_head(place, work->arena, out, &err))
        return work_failed(work, &err, apply_is_temporary(&err));
    struct str text = ident_text(work->arena, work->order->kind, *out);
    work_tell(work, TELL_BASE, text);
    if (talk_base(&work->talk, text, &err))
        return APPLY_DONE;
    return work_failed(work, &err, true); /* nothing was committed; if the grant is another's, nobody listens */
}

static int commit_judge(const struct apply_work *work, const struct apply_result *result)
{
    struct str reason = result->reason;
    switch (result->end) {
    case APPLY_COMMITTED:
        return work_done(work, "committed as", result->revision);
    case APPLY_FOUND:
        return work_done(work, "it is in the repository already, as", result->revision);
    case APPLY_CONFLICT:
        if (reason.len == 0 && result->n_conflicts > 0)
            reason = result->conflicts[0].text;
        for (size_t i = 1; i < result->n_conflicts && i < APPLY_CONFLICTS_MAX; i++)
            printf("[weir: conflict: %.*s]\n", STR_ARG(result->conflicts[i].text));
        return work_end(work, APPLY_NEVER, str_fmt(work->arena, "conflict: %.*s", STR_ARG(reason)));
    case APPLY_REFUSED:
        return work_end(work, APPLY_NEVER,
            str_fmt(work->arena, "a hook of the repository refuses it: %.*s", STR_ARG(str_trim(reason))));
    case APPLY_NONE:
    default:
        return work_end(work, APPLY_LATER, STR("nothing came of it"));
    }
}

/* repository_run: looks, records, commits; or runs the target's program instead of the last. */
static int repository_run(struct apply_work *work, struct apply *place, const struct unpack_result *files)
{
    const struct apply_order *order = work->order;
    struct err err = { .arena = work->arena };
    struct source_ident found_as, base;
    struct apply_result result = { 0 };
    bool found = false, good = true;
    if (order->has_base && !apply_find(place, work->arena, order->csid, order->base, &found, &found_as, &err))
        return work_failed(work, &err, apply_is_temporary(&err));
    if (found)
        return work_done(work, "it is in the repository already, as", found_as);
    int status = base_record(work, place, &base);
    if (status != APPLY_DONE)
        return status;
    if (order->program)
        return program_run(work, order->rollback ? NULL : "cs");
    if (order->rollback)
        good = rollback_commit(work, place, base, &result, &err);
    else
        good = change_commit(work, place, files, base, &result, &err);
    return good ? commit_judge(work, &result) : work_failed(work, &err, apply_is_temporary(&err));
}

int work_run(struct apply_work *work)
{
    const struct apply_order *order = work->order;
    struct err err = { .arena = work->arena };
    struct unpack_result files = { 0 };
    bool repository = order->kind == ARCHIVE_SVN || order->kind == ARCHIVE_GIT;
    if (!repository && !order->program)
        return work_end(work, APPLY_NEVER,
            str_fmt(work->arena,
                "the target %.*s has no repository to commit to: give it a program (`apply` of the target), or an "
                "archive of Subversion or git",
                STR_ARG(order->target)));
    if (order->rollback && order->n_undoes == 0)
        return work_end(work, APPLY_SKIPPED, STR("nothing that it takes back was applied"));
    int status = order->has_tarball && !order->rollback ? files_get(work, &files) : APPLY_DONE;
    if (status != APPLY_DONE)
        return status;
    if (!repository)
        return program_run(work, order->rollback ? NULL : "cs");
    struct apply *place = apply_open(order->kind, order->url, order->branch, order->path, &err);
    if (!place)
        return work_failed(work, &err, apply_is_temporary(&err));
    status = repository_run(work, place, &files);
    apply_close(place);
    return status;
}
