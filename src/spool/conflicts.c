/* conflicts: what would be in the way of a change set now (intake.h: intake_conflicts).
 *
 * Its files are unpacked into a folder of its own below tmp/, by the confined process, and compared with the branch as
 * it is. One check looks into a repository at a time (source/apply.h: a process works at one place), so a served
 * repository that hangs holds up other checks, and nothing else. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "source/apply.h"
#include "spool/intake.h"
#include "unpack/walk.h"

static pthread_mutex_t one_place = PTHREAD_MUTEX_INITIALIZER;

/* base_ident: rev of a Subversion base is -1 when it is no number; 0 is the empty tree that every repository begins
 * with. */
static struct source_ident base_ident(const struct intake_place *place, struct str base)
{
    struct source_ident ident = { .id = base, .rev = -1 };
    if (place->kind != ARCHIVE_SVN)
        ident.rev = 0;
    else if (str_to_i64(base, &ident.rev))
        ident.id = (struct str){ 0 };
    return ident;
}

static struct str ident_text(struct arena *arena, struct source_ident ident)
{
    if (ident.id.len > 0)
        return str_dup(arena, ident.id);
    return ident.rev > 0 ? str_fmt(arena, "%lld", (long long)ident.rev) : (struct str){ 0 };
}

/* change_check: the repository's word. */
static bool change_check(const struct intake *intake, const struct intake_place *place, int lroot_fd,
    struct arena *arena, struct apply_result *out, struct err *err)
{
    const struct unpack_result *content = &intake->content;
    const struct changeset_meta *meta = &content->meta;
    struct apply_file *files = ARENA_ARRAY(arena, struct apply_file, content->n_files + 1);
    struct str *removed = ARENA_ARRAY(arena, struct str, meta->removed.n + 1);
    for (size_t i = 0; i < content->n_files; i++)
        files[i] = (struct apply_file){ content->files[i].path, content->files[i].is_executable };
    for (size_t i = 0; i < meta->removed.n; i++)
        removed[i] = meta->removed.at[i].text;
    const struct apply_change change = { .lroot_fd = lroot_fd,
        .files = files,
        .n_files = content->n_files,
        .removed = removed,
        .n_removed = meta->removed.n,
        .has_base = meta->base.len > 0,
        .base = base_ident(place, meta->base) };
    if (place->kind == ARCHIVE_SVN && change.has_base && change.base.rev < 0)
        return err_set(err, ERR_invalid, "the base '%.*s' is no revision", STR_ARG(str_sub(meta->base, 0, 100)));
    pthread_mutex_lock(&one_place);
    struct apply *apply = apply_open(place->kind, place->url, place->branch, place->path, err);
    bool good = apply != NULL && apply_check(apply, arena, &change, out, err);
    apply_close(apply);
    pthread_mutex_unlock(&one_place);
    return good;
}

static void conflicts_fill(
    const struct apply_result *result, struct arena *arena, struct intake_conflict **out, size_t *out_n)
{
    size_t n = result->n_conflicts < APPLY_CONFLICTS_MAX ? result->n_conflicts : APPLY_CONFLICTS_MAX;
    *out = ARENA_ARRAY(arena, struct intake_conflict, n + 1);
    *out_n = n;
    for (size_t i = 0; i < n; i++) {
        const struct apply_conflict *conflict = &result->conflicts[i];
        (*out)[i] = (struct intake_conflict){ .path = str_dup(arena, conflict->path),
            .revision = ident_text(arena, conflict->revision),
            .csid = str_dup(arena, conflict->csid),
            .text = str_dup(arena, conflict->text),
            .first_line = conflict->first_line,
            .last_line = conflict->last_line };
    }
}

static bool unpacked_check(const struct intake_order *order, const struct intake *intake,
    const struct intake_place *place, int dir_fd, struct arena *arena, struct apply_result *out, struct err *err)
{
    struct unpack_result again;
    const struct unpack_order extract = { .tarball_fd = order->tarball_fd,
        .limits = order->limits,
        .sha256 = intake->content.sha256,
        .program = order->program };
    if (!unpack_extract(&extract, dir_fd, arena, &again, err))
        return false;
    if (mkdirat(dir_fd, "lroot", 0700) != 0 && errno != EEXIST)
        return err_set(err, ERR_io, "no folder for a change set: %s", strerrordesc_np(errno));
    int lroot_fd = openat(dir_fd, "lroot", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (lroot_fd < 0)
        return err_set(err, ERR_io, "no folder for a change set: %s", strerrordesc_np(errno));
    bool good = change_check(intake, place, lroot_fd, arena, out, err);
    close(lroot_fd);
    return good;
}

bool intake_conflicts(const struct intake_order *order, const struct intake *intake, const struct intake_place *place,
    const char *temp_dir, struct arena *arena, struct intake_conflict **out, size_t *out_n, struct err *err)
{
    char path[4096];
    struct apply_result result = { 0 };
    struct err ignored = { .code = ERR_none };
    *out = NULL;
    *out_n = 0;
    int n = snprintf(path, sizeof path, "%s/" INTAKE_TEMP_PREFIX "XXXXXX", temp_dir);
    if (n < 0 || (size_t)n >= sizeof path || mkdtemp(path) == NULL)
        return err_set(err, ERR_io, "no folder for a change set: %s", strerrordesc_np(errno));
    int dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    bool good = dir_fd >= 0 ? unpacked_check(order, intake, place, dir_fd, arena, &result, err)
                            : err_set(err, ERR_io, "no folder for a change set: %s", strerrordesc_np(errno));
    if (dir_fd >= 0) {
        (void)walk_remove(dir_fd, &ignored); /* else the next start does */
        close(dir_fd);
    }
    (void)rmdir(path);
    if (good)
        conflicts_fill(&result, arena, out, out_n);
    if (good || apply_is_temporary(err))
        return good;
    *out = ARENA_NEW(arena, struct intake_conflict);
    (*out)->text = str_dup(arena, str_of(err->text));
    *out_n = 1;
    return true;
}
