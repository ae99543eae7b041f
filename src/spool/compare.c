/* compare: a change set compared with its branch: the conflicts that it would have now, and what it changes as a diff
 * (intake.h: intake_conflicts, intake_diff).
 *
 * Its files are unpacked into a folder of its own below tmp/, by the confined process. One comparison looks into a
 * repository at a time (source/apply.h: a process works at one place), so a served repository that hangs holds up other
 * comparisons, and nothing else. */
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

/* What is asked of the repository about the change set. */
struct comparison {
    const struct intake_place *place;
    struct arena *arena;
    bool (*ask)(struct comparison *comparison, struct apply *apply, const struct apply_change *change, struct err *err);
    struct apply_result result; /* of the conflicts */
    struct str revision;        /* of a diff: what it became; empty: it isn't applied */
    struct source_ident from;   /* git: a commit before that one */
    struct buf *out;
};

static bool change_compare(
    struct comparison *comparison, const struct unpack_result *content, int lroot_fd, struct err *err)
{
    const struct intake_place *place = comparison->place;
    const struct changeset_meta *meta = &content->meta;
    struct apply_file *files = ARENA_ARRAY(comparison->arena, struct apply_file, content->n_files + 1);
    struct str *removed = ARENA_ARRAY(comparison->arena, struct str, meta->removed.n + 1);
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
    bool good = apply != NULL && comparison->ask(comparison, apply, &change, err);
    apply_close(apply);
    pthread_mutex_unlock(&one_place);
    return good;
}

static bool unpacked_compare(
    struct comparison *comparison, const struct unpack_order *order, int dir_fd, struct err *err)
{
    struct unpack_result content;
    if (!unpack_extract(order, dir_fd, comparison->arena, &content, err))
        return false;
    if (mkdirat(dir_fd, "lroot", 0700) != 0 && errno != EEXIST)
        return err_set(err, ERR_io, "no folder for a change set: %s", strerrordesc_np(errno));
    int lroot_fd = openat(dir_fd, "lroot", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (lroot_fd < 0)
        return err_set(err, ERR_io, "no folder for a change set: %s", strerrordesc_np(errno));
    bool good = change_compare(comparison, &content, lroot_fd, err);
    close(lroot_fd);
    return good;
}

/* compare: in a folder that is gone when it returns. */
static bool compare(
    struct comparison *comparison, const struct unpack_order *order, const char *temp_dir, struct err *err)
{
    char path[4096];
    struct err ignored = { .code = ERR_none };
    int n = snprintf(path, sizeof path, "%s/" INTAKE_TEMP_PREFIX "XXXXXX", temp_dir);
    if (n < 0 || (size_t)n >= sizeof path || mkdtemp(path) == NULL)
        return err_set(err, ERR_io, "no folder for a change set: %s", strerrordesc_np(errno));
    int dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    bool good = dir_fd >= 0 ? unpacked_compare(comparison, order, dir_fd, err)
                            : err_set(err, ERR_io, "no folder for a change set: %s", strerrordesc_np(errno));
    if (dir_fd >= 0) {
        (void)walk_remove(dir_fd, &ignored); /* else the next start does */
        close(dir_fd);
    }
    (void)rmdir(path);
    return good;
}

/* --- conflicts --- */

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

static bool conflicts_ask(
    struct comparison *comparison, struct apply *apply, const struct apply_change *change, struct err *err)
{
    return apply_check(apply, comparison->arena, change, &comparison->result, err);
}

bool intake_conflicts(const struct intake_order *order, const struct intake *intake, const struct intake_place *place,
    const char *temp_dir, struct arena *arena, struct intake_conflict **out, size_t *out_n, struct err *err)
{
    struct comparison comparison = { .place = place, .arena = arena, .ask = conflicts_ask };
    const struct unpack_order extract = { .tarball_fd = order->tarball_fd,
        .limits = order->limits,
        .sha256 = intake->content.sha256,
        .program = order->program };
    *out = NULL;
    *out_n = 0;
    bool good = compare(&comparison, &extract, temp_dir, err);
    if (good)
        conflicts_fill(&comparison.result, arena, out, out_n);
    if (good || apply_is_temporary(err))
        return good;
    *out = ARENA_NEW(arena, struct intake_conflict);
    (*out)->text = str_dup(arena, str_of(err->text));
    *out_n = 1;
    return true;
}

/* --- the diff --- */

struct parent_search {
    struct str revision;
    struct arena *arena;
    struct source_ident parent;
    bool found;
};

static bool parent_visit(void *context, const struct apply_revision *revision)
{
    struct parent_search *search = context;
    search->found = str_eq(revision->ident.id, search->revision);
    if (search->found)
        search->parent.id = str_dup(search->arena, revision->parent);
    return !search->found;
}

/* before_find: the revision that the change set was applied to. */
static bool before_find(
    const struct comparison *comparison, struct apply *apply, struct source_ident *out, struct err *err)
{
    struct parent_search search = { .revision = comparison->revision, .arena = comparison->arena };
    const struct apply_visitor visitor = { parent_visit, &search };
    int64_t rev = 0;
    *out = (struct source_ident){ 0 };
    if (comparison->place->kind == ARCHIVE_SVN) {
        bool good = str_to_i64(comparison->revision, &rev) && rev > 0;
        out->rev = rev - 1;
        return good || err_set(err, ERR_not_found, "its revision '%.*s' is none", STR_ARG(comparison->revision));
    }
    if (!apply_walk(apply, comparison->from, &visitor, err))
        return false;
    *out = search.parent;
    return search.found || err_set(err, ERR_not_found, "the branch doesn't have its commit %.*s any more",
                               STR_ARG(comparison->revision));
}

static bool diff_ask(
    struct comparison *comparison, struct apply *apply, const struct apply_change *change, struct err *err)
{
    struct source_ident before;
    bool applied = comparison->revision.len > 0;
    return (!applied || before_find(comparison, apply, &before, err)) &&
           apply_diff(apply, change, applied ? &before : NULL, comparison->out, err);
}

bool intake_diff(
    const struct intake_diff_order *order, const char *temp_dir, struct arena *arena, struct buf *out, struct err *err)
{
    struct comparison comparison = { .place = order->place,
        .arena = arena,
        .ask = diff_ask,
        .revision = order->revision,
        .from = { .id = order->before },
        .out = out };
    const struct unpack_order extract = {
        .tarball_fd = order->tarball_fd, .limits = order->limits, .sha256 = order->sha256, .program = order->program
    };
    return compare(&comparison, &extract, temp_dir, err);
}
