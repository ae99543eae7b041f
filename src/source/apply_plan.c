/* apply_plan: what one commit changes, decided before anything is written.
 *
 * Owns a table of the paths that are looked at or changed: the head's tree with the plan's edits laid over it. Files of
 * a change set, or revisions to be undone, are merged into that one after the other; what can't be is a conflict. A
 * plan with a conflict is never committed.
 *
 * Every plan changes at least one path, so that a second commit of the same change set always meets the first. Fails
 * as the repository does, and with invalid for paths that can't be used. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "source/apply_merge.h"

void apply_plan_begin(struct apply_plan *plan, struct apply *apply, struct arena *arena, struct source_ident head)
{
    *plan = (struct apply_plan){ .apply = apply, .arena = arena, .head = head, .lroot_fd = -1 };
}

void apply_plan_release(struct apply_plan *plan)
{
    smap_release(&plan->index);
}

/* --- paths --- */

static bool path_check(struct str path, struct err *err)
{
    static const char *const refused[] = { "", ".", "..", ".git", ".svn" };
    bool good = path.len > 0 && path.ptr[path.len - 1] != '/' && str_is_utf8(path);
    for (size_t i = 0; i < path.len; i++)
        good = good && (unsigned char)path.ptr[i] >= 0x20 && path.ptr[i] != 0x7f;
    struct str rest = path, part;
    while (good && str_cut(&rest, '/', &part))
        for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
            good = good && !(part.len == strlen(refused[i]) &&
                               (part.len == 0 || strncasecmp(part.ptr, refused[i], part.len) == 0));
    return good || err_set(err, ERR_invalid, "'%.*s' can't be a path in a change set", STR_ARG(path));
}

static struct str path_full(struct apply_plan *plan, struct str path)
{
    struct str folder = plan->apply->path;
    return folder.len > 0 ? str_fmt(plan->arena, "%.*s/%.*s", STR_ARG(folder), STR_ARG(path))
                          : str_dup(plan->arena, path);
}

/* path_shown: as the change set has it. */
static struct str path_shown(const struct apply_plan *plan, struct str full)
{
    struct str folder = plan->apply->path;
    bool below = folder.len > 0 && full.len > folder.len && str_starts(full, folder) && full.ptr[folder.len] == '/';
    return below ? str_sub(full, folder.len + 1, full.len) : full;
}

/* path_compare: byte by byte, but a slash comes before everything else: a folder, then all that is in it. */
static int path_compare(struct str a, struct str b)
{
    size_t n = a.len < b.len ? a.len : b.len, i = 0;
    while (i < n && a.ptr[i] == b.ptr[i])
        i++;
    if (i == n)
        return (a.len > b.len) - (a.len < b.len);
    int x = a.ptr[i] == '/' ? 0 : (unsigned char)a.ptr[i], y = b.ptr[i] == '/' ? 0 : (unsigned char)b.ptr[i];
    return x - y;
}

/* --- the table --- */

/* parent_gone: has the plan removed, or made again, a folder above the path? Then nothing of the head is there. */
static bool parent_gone(const struct apply_plan *plan, struct str path)
{
    for (size_t i = path.len; i-- > 0;) {
        if (path.ptr[i] != '/')
            continue;
        const struct apply_edit *above = smap_find(&plan->index, str_sub(path, 0, i));
        if (above != NULL && (above->after != APPLY_FOLDER || above->fresh))
            return true;
    }
    return false;
}

/* edit_get: the path as it is now, the plan's own edits included. Its content is read by node_now when it is needed. */
static bool edit_get(struct apply_plan *plan, struct str path, struct apply_edit **out, struct err *err)
{
    struct apply_edit *edit = smap_find(&plan->index, path);
    if (edit == NULL) {
        struct apply_node node = { 0 };
        if (!parent_gone(plan, path) &&
            !plan->apply->ops->node(plan->apply, plan->arena, plan->head, path, false, &node, err))
            return false;
        edit = ARENA_NEW(plan->arena, struct apply_edit);
        *edit = (struct apply_edit){ .path = path,
            .before = node.kind,
            .after = node.kind,
            .was_executable = node.executable,
            .executable = node.executable };
        *ARENA_PUSH(plan->arena, plan->edits, plan->n_edits, plan->cap_edits) = edit;
        smap_put(&plan->index, path, edit);
    }
    *out = edit;
    return true;
}

/* node_now: with its content. */
static bool node_now(struct apply_plan *plan, struct apply_edit *edit, struct apply_node *out, struct err *err)
{
    if (!edit->touched && edit->after != APPLY_ABSENT && edit->after != APPLY_FOLDER)
        return plan->apply->ops->node(plan->apply, plan->arena, plan->head, edit->path, true, out, err);
    *out = (struct apply_node){ .kind = edit->after, .executable = edit->executable, .content = edit->content };
    return true;
}

static void edit_set(struct apply_edit *edit, const struct apply_node *node)
{
    edit->touched = true;
    edit->after = node->kind;
    edit->executable = node->kind == APPLY_FILE && node->executable;
    edit->content = node->content;
    edit->from_lroot = edit->restored = false;
}

/* --- conflicts --- */

static bool is_member(const struct apply_plan *plan, struct source_ident ident)
{
    for (size_t i = 0; i < plan->n_members; i++)
        if (apply_ident_equal(plan->members[i], ident))
            return true;
    return false;
}

/* conflict_name: which revision is in the way. One that is undone by the same rollback isn't: look before it. */
static bool conflict_name(struct apply_plan *plan, struct str full, struct source_ident after,
    struct apply_conflict *conflict, struct err *err)
{
    struct apply *apply = plan->apply;
    struct source_ident upto = plan->head, found = { 0 };
    struct apply_revision revision;
    bool is_found = true;
    for (size_t i = 0; i <= plan->n_members; i++) {
        if (!apply->ops->last_change(apply, plan->arena, full, after, upto, &is_found, &found, err))
            return false;
        if (!is_found)
            return true;
        if (!apply->ops->revision(apply, plan->arena, found, &revision, err))
            return false;
        if (!is_member(plan, found)) {
            conflict->revision = apply_ident_dup(plan->arena, found);
            conflict->csid = revision.csid;
            return true;
        }
        if (found.id.len == 0)
            upto.rev = found.rev - 1;
        else if (revision.parent.len == 0)
            return true;
        else
            upto.id = revision.parent;
    }
    return true;
}

/* conflict_text: PATH: lines 3 to 7 were changed by r12 (change set X). */
static void conflict_text(struct apply_plan *plan, struct apply_conflict *conflict, const char *why)
{
    struct buf text;
    buf_init(&text, APPLY_REASON_BYTES_MAX);
    buf_addf(&text, "%.*s: ", STR_ARG(conflict->path));
    if (why != NULL)
        buf_add_z(&text, why);
    else if (conflict->first_line == conflict->last_line)
        buf_addf(&text, "line %u was changed", conflict->first_line);
    else
        buf_addf(&text, "lines %u to %u were changed", conflict->first_line, conflict->last_line);
    if (conflict->revision.id.len > 0)
        buf_addf(&text, " by %.*s", STR_ARG(conflict->revision.id));
    else if (conflict->revision.rev > 0)
        buf_addf(&text, " by r%lld", (long long)conflict->revision.rev);
    if (conflict->csid.len > 0)
        buf_addf(&text, " (change set %.*s)", STR_ARG(conflict->csid));
    conflict->text = str_dup(plan->arena, buf_str(&text));
    buf_release(&text);
}

/* conflict_add: after: revisions up to this one aren't in the way; NULL: no revision is to be named. */
static bool conflict_add(struct apply_plan *plan, struct str full, const char *why, const struct merge_nodes *lines,
    const struct source_ident *after, struct err *err)
{
    struct apply_conflict conflict = { .path = path_shown(plan, full) };
    if (lines != NULL) {
        conflict.first_line = lines->first_line;
        conflict.last_line = lines->last_line;
    }
    if (plan->n_conflicts++ >= APPLY_CONFLICTS_MAX)
        return true;
    if (after != NULL && !conflict_name(plan, full, *after, &conflict, err))
        return false;
    conflict_text(plan, &conflict, why);
    size_t n = plan->n_conflicts - 1;
    *ARENA_PUSH(plan->arena, plan->conflicts, n, plan->cap_conflicts) = conflict;
    return true;
}

/* parents_make: every folder above the path is there, or will be made. */
static bool parents_make(struct apply_plan *plan, struct str full, bool *out_good, struct err *err)
{
    *out_good = true;
    for (size_t i = 0; i < full.len; i++) {
        struct apply_edit *above;
        if (full.ptr[i] != '/')
            continue;
        if (!edit_get(plan, str_sub(full, 0, i), &above, err))
            return false;
        if (above->after == APPLY_FOLDER)
            continue;
        if (above->after != APPLY_ABSENT) {
            *out_good = false;
            char why[200];
            struct str shown = path_shown(plan, above->path);
            snprintf(why, sizeof why, "'%.*s' is no folder there", (int)(shown.len < 150 ? shown.len : 150), shown.ptr);
            return conflict_add(plan, full, why, NULL, NULL, err);
        }
        above->touched = true;
        above->after = APPLY_FOLDER;
        above->fresh = above->before == APPLY_FOLDER;
    }
    return true;
}

/* --- a change set --- */

/* lroot_open: a file below a folder; no link is followed. -1: errno. */
static int lroot_open(int dir_fd, struct str path)
{
    char name[4096];
    int at = dir_fd, fd;
    struct str rest = path, part;
    for (;;) {
        bool last = str_index(rest, '/') < 0;
        if (!str_cut(&rest, '/', &part) || part.len >= sizeof name) {
            errno = ENAMETOOLONG;
            fd = -1;
        } else {
            memcpy(name, part.ptr, part.len);
            name[part.len] = '\0';
            fd = openat(at, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | (last ? O_NONBLOCK : O_DIRECTORY));
        }
        int kept = errno;
        if (at != dir_fd)
            close(at);
        errno = kept;
        if (fd < 0 || last)
            return fd;
        at = fd;
    }
}

static bool lroot_read(int dir_fd, struct str path, struct str *out, struct err *err)
{
    struct stat st;
    int fd = lroot_open(dir_fd, path);
    if (fd < 0)
        return err_set(err, ERR_io, "%.*s: %s, in the unpacked change set", STR_ARG(path), strerror(errno));
    bool regular = fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
    void *bytes = NULL;
    if (regular && st.st_size > 0)
        bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    int kept = errno;
    close(fd);
    if (!regular)
        return err_set(err, ERR_invalid, "%.*s: no regular file, in the unpacked change set", STR_ARG(path));
    if (bytes == MAP_FAILED)
        return err_set(err, ERR_io, "%.*s: %s, in the unpacked change set", STR_ARG(path), strerror(kept));
    *out = (struct str){ bytes, st.st_size > 0 ? (size_t)st.st_size : 0 };
    return true;
}

static void lroot_done(struct str content)
{
    if (content.len > 0)
        munmap((void *)(uintptr_t)content.ptr, content.len);
}

bool apply_edit_read(const struct apply_plan *plan, const struct apply_edit *edit, struct str *out, struct err *err)
{
    if (edit->from_lroot)
        return lroot_read(plan->lroot_fd, edit->lroot, out, err);
    *out = edit->content;
    return true;
}

void apply_edit_done(const struct apply_edit *edit, struct str content)
{
    if (edit->from_lroot)
        lroot_done(content);
}

static void edit_set_lroot(struct apply_edit *edit, const struct apply_file *file)
{
    edit_set(edit, &(struct apply_node){ .kind = APPLY_FILE, .executable = file->executable });
    edit->from_lroot = true;
    edit->lroot = file->path;
}

/* file_merge: the file may have changed since the change set's base. */
static bool file_merge(struct apply_plan *plan, const struct apply_change *change, const struct apply_file *file,
    struct apply_edit *edit, struct err *err)
{
    struct apply_node base, head, mine = { .kind = APPLY_FILE, .executable = file->executable };
    struct merge_nodes merged;
    if (!plan->apply->ops->node(plan->apply, plan->arena, change->base, edit->path, true, &base, err) ||
        !node_now(plan, edit, &head, err) || !lroot_read(change->lroot_fd, file->path, &mine.content, err))
        return false;
    if (base.kind == APPLY_FOLDER)
        base = (struct apply_node){ 0 };
    struct str mapped = mine.content;
    mine.too_large = mapped.len > APPLY_MERGE_BYTES_MAX;
    bool good = merge_nodes(plan->arena, &base, &head, &mine, &merged, err);
    if (good && merged.conflict)
        good = conflict_add(plan, edit->path, merged.why, &merged, &change->base, err);
    else if (good && merged.node.kind == APPLY_FILE && merged.node.content.ptr == mapped.ptr) {
        struct apply_file whole = { file->path, merged.node.executable };
        edit_set_lroot(edit, &whole);
    } else if (good && merged.node.kind != APPLY_ABSENT && !merged.node.too_large) {
        edit_set(edit, &merged.node);
    }
    lroot_done(mapped);
    return good;
}

static bool file_plan(
    struct apply_plan *plan, const struct apply_change *change, const struct apply_file *file, struct err *err)
{
    struct apply_edit *edit;
    bool good;
    struct str full = path_full(plan, file->path);
    if (!path_check(file->path, err) || !parents_make(plan, full, &good, err))
        return false;
    if (!good)
        return true;
    if (!edit_get(plan, full, &edit, err))
        return false;
    if (edit->after == APPLY_FOLDER || edit->after == APPLY_OTHER)
        return conflict_add(plan, full,
            edit->after == APPLY_FOLDER ? "is a folder there; remove it in a change set of its own"
                                        : "is neither file nor folder there; remove it in a change set of its own",
            NULL, change->has_base ? &change->base : NULL, err);
    if (change->has_base && !apply_ident_equal(change->base, plan->head))
        return file_merge(plan, change, file, edit, err);
    edit_set_lroot(edit, file);
    return true;
}

/* is_changed: has the path, or something below it, changed since the base? */
static bool is_changed(
    struct apply_plan *plan, const struct apply_change *change, struct apply_edit *edit, bool *out, struct err *err)
{
    struct apply *apply = plan->apply;
    struct apply_node base, head;
    struct source_ident found;
    if (edit->after == APPLY_FOLDER || edit->after == APPLY_OTHER)
        return apply->ops->last_change(apply, plan->arena, edit->path, change->base, plan->head, out, &found, err);
    if (!apply->ops->node(apply, plan->arena, change->base, edit->path, true, &base, err) ||
        !node_now(plan, edit, &head, err))
        return false;
    *out = !merge_nodes_equal(&base, &head);
    return true;
}

static bool removed_plan(struct apply_plan *plan, const struct apply_change *change, struct str path, struct err *err)
{
    struct apply_edit *edit;
    bool changed = false;
    bool merge = change->has_base && !apply_ident_equal(change->base, plan->head);
    struct str full = path_full(plan, path);
    if (!path_check(path, err) || !edit_get(plan, full, &edit, err))
        return false;
    if (edit->after == APPLY_ABSENT) {
        struct apply_node base = { 0 };
        if (parent_gone(plan, full))
            return true; /* removed with its folder, by this change set */
        if (merge && !plan->apply->ops->node(plan->apply, plan->arena, change->base, full, false, &base, err))
            return false;
        if (base.kind != APPLY_ABSENT)
            return true;
        return conflict_add(plan, full, "is to be removed and isn't there", NULL, NULL, err);
    }
    if (merge && !is_changed(plan, change, edit, &changed, err))
        return false;
    if (changed)
        return conflict_add(plan, full, "is to be removed and was changed", NULL, &change->base, err);
    edit_set(edit, &(struct apply_node){ 0 });
    return true;
}

static bool is_empty(const struct apply_plan *plan)
{
    for (size_t i = 0; i < plan->n_edits; i++)
        if (plan->edits[i]->touched)
            return false;
    return true;
}

bool apply_plan_change(struct apply_plan *plan, const struct apply_change *change, struct err *err)
{
    plan->lroot_fd = change->lroot_fd;
    for (size_t i = 0; i < change->n_removed; i++)
        if (!removed_plan(plan, change, change->removed[i], err))
            return false;
    for (size_t i = 0; i < change->n_files; i++)
        if (!file_plan(plan, change, &change->files[i], err))
            return false;
    if (plan->n_conflicts > 0 || !is_empty(plan))
        return true;
    if (change->n_files + change->n_removed == 0)
        return err_set(err, ERR_invalid, "the change set has no file and removes none");
    struct str first = change->n_removed > 0 ? change->removed[0] : change->files[0].path;
    return conflict_add(
        plan, path_full(plan, first), "nothing is left to do: it was removed", NULL, &change->base, err);
}

/* --- a rollback --- */

/* is_below_left: does the plan itself leave something below the path? */
static bool is_below_left(const struct apply_plan *plan, struct str path)
{
    for (size_t i = 0; i < plan->n_edits; i++) {
        const struct apply_edit *edit = plan->edits[i];
        if (edit->touched && edit->after != APPLY_ABSENT && edit->path.len > path.len && str_starts(edit->path, path) &&
            edit->path.ptr[path.len] == '/')
            return true;
    }
    return false;
}

/* folder_drop: a folder that an undone revision made goes too when nothing is left in it. */
static bool folder_drop(struct apply_plan *plan, struct str path, struct err *err)
{
    struct apply_edit *edit, *child;
    struct str *names = NULL;
    size_t n = 0;
    if (!edit_get(plan, path, &edit, err))
        return false;
    if (edit->after != APPLY_FOLDER)
        return true;
    bool ours = edit->touched; /* the head has none, or another */
    if (!ours && !plan->apply->ops->list(plan->apply, plan->arena, plan->head, path, &names, &n, err))
        return false;
    for (size_t i = 0; i < n; i++) {
        child = smap_find(&plan->index, str_fmt(plan->arena, "%.*s/%.*s", STR_ARG(path), STR_ARG(names[i])));
        if (child == NULL || child->after != APPLY_ABSENT)
            return true;
    }
    if (is_below_left(plan, path))
        return true;
    edit_set(edit, &(struct apply_node){ 0 });
    edit->fresh = false;
    return true;
}

static int deepest_first(const void *a, const void *b)
{
    return path_compare(*(const struct str *)b, *(const struct str *)a);
}

/* folders_drop: the folders that the revision made, or, as git has no empty ones, those above the files it added: each
 * once, what is in a folder before the folder. */
static bool folders_drop(struct apply_plan *plan, const struct source_revision *revision, struct err *err)
{
    struct smap seen = { 0 };
    ARRAY(struct str) folders = { 0 };
    bool git = plan->apply->source->kind == ARCHIVE_GIT, good = true;
    for (size_t i = 0; i < revision->n_changes; i++) {
        const struct source_change *change = &revision->changes[i];
        if (!git && change->is_folder && (change->kind == SOURCE_ADDED || change->kind == SOURCE_REPLACED))
            *ARRAY_ADD(plan->arena, folders) = change->path;
        if (!git || change->kind != SOURCE_ADDED)
            continue;
        struct str above = change->path;
        for (ptrdiff_t slash = str_rindex(above, '/'); slash > 0; slash = str_rindex(above, '/')) {
            above = str_sub(above, 0, (size_t)slash);
            if (smap_find(&seen, above) != NULL)
                break;
            smap_put(&seen, above, plan);
            *ARRAY_ADD(plan->arena, folders) = above;
        }
    }
    if (folders.n > 1)
        qsort(folders.at, folders.n, sizeof *folders.at, deepest_first);
    for (size_t i = 0; i < folders.n && good; i++)
        good = folder_drop(plan, folders.at[i], err);
    smap_release(&seen);
    return good;
}

/* path_undo: the path as it was before the revision, if nobody has changed it since; else merged. */
static bool path_undo(
    struct apply_plan *plan, struct str path, struct source_ident parent, struct source_ident undone, struct err *err)
{
    struct apply *apply = plan->apply;
    struct apply_node was = { 0 }, became = { 0 }, head;
    struct merge_nodes merged;
    struct apply_edit *edit;
    bool has_parent = parent.rev > 0 || parent.id.len > 0, good = true;
    if ((has_parent && !apply->ops->node(apply, plan->arena, parent, path, true, &was, err)) ||
        !apply->ops->node(apply, plan->arena, undone, path, true, &became, err) || !edit_get(plan, path, &edit, err) ||
        !node_now(plan, edit, &head, err))
        return false;
    if (was.kind == APPLY_OTHER || became.kind == APPLY_OTHER)
        return conflict_add(plan, path, "is neither file nor folder; undo it by hand", NULL, NULL, err);
    if (was.kind == APPLY_FOLDER)
        was = (struct apply_node){ 0 };
    if (became.kind == APPLY_FOLDER)
        became = (struct apply_node){ 0 };
    if (head.kind == APPLY_FOLDER && became.kind == APPLY_ABSENT && was.kind == APPLY_ABSENT)
        return true;
    if (was.kind != APPLY_ABSENT && !parents_make(plan, path, &good, err))
        return false;
    if (!good)
        return true;
    if (!merge_nodes(plan->arena, &became, &head, &was, &merged, err))
        return false;
    if (merged.conflict)
        return conflict_add(plan, path, merged.why, &merged, &undone, err);
    if (merged.node.too_large)
        return conflict_add(plan, path, "is too large to be restored", NULL, NULL, err);
    edit_set(edit, &merged.node);
    if (edit->before == APPLY_ABSENT && merge_nodes_equal(&merged.node, &was)) {
        edit->restored = true;
        edit->restored_at = parent;
    }
    return true;
}

static bool revision_undo(struct apply_plan *plan, struct source_ident undone, struct err *err)
{
    struct source_revision revision;
    if (!source_revision_read(plan->apply->source, plan->arena, undone, &revision, err))
        return false;
    if (revision.all_touched)
        return err_set(
            err, ERR_invalid, "a revision that touches more than %d paths can't be undone", SOURCE_CHANGES_MAX);
    struct source_ident parent = { .rev = undone.rev - 1 };
    if (undone.id.len > 0)
        parent = (struct source_ident){ .id = revision.n_parents > 0 ? revision.parents[0] : (struct str){ 0 } };
    bool good;
    /* files that it added, then their folders, and only then the rest: a file may have become a folder */
    for (size_t i = 0; i < revision.n_changes; i++)
        if (revision.changes[i].kind == SOURCE_ADDED && !revision.changes[i].is_folder &&
            !path_undo(plan, revision.changes[i].path, parent, undone, err))
            return false;
    if (!folders_drop(plan, &revision, err))
        return false;
    for (size_t i = 0; i < revision.n_changes; i++) {
        const struct source_change *change = &revision.changes[i];
        bool is_file = !change->is_folder || change->kind == SOURCE_REPLACED;
        if (is_file && change->kind != SOURCE_ADDED && !path_undo(plan, change->path, parent, undone, err))
            return false;
        if (change->is_folder && change->kind == SOURCE_DELETED &&
            !parents_make(plan, str_fmt(plan->arena, "%.*s/", STR_ARG(change->path)), &good, err))
            return false;
    }
    return true;
}

bool apply_plan_rollback(struct apply_plan *plan, const struct source_ident *revisions, size_t n, struct err *err)
{
    plan->members = revisions;
    plan->n_members = n;
    for (size_t i = 0; i < n; i++)
        if (!revision_undo(plan, revisions[i], err))
            return false;
    return true;
}

/* --- the end --- */

static int edit_compare(const void *a, const void *b)
{
    const struct apply_edit *const *x = a, *const *y = b;
    return path_compare((*x)->path, (*y)->path);
}

void apply_plan_end(struct apply_plan *plan)
{
    size_t n = 0;
    struct str gone = { 0 }; /* a folder that goes as a whole */
    if (plan->n_edits > 1)
        qsort(plan->edits, plan->n_edits, sizeof(struct apply_edit *), edit_compare);
    for (size_t i = 0; i < plan->n_edits; i++) {
        struct apply_edit *edit = plan->edits[i];
        bool below = gone.len > 0 && edit->path.len > gone.len && str_starts(edit->path, gone) &&
                     edit->path.ptr[gone.len] == '/';
        if (!edit->touched || (edit->before == APPLY_ABSENT && edit->after == APPLY_ABSENT))
            continue;
        if (edit->before == APPLY_FOLDER && edit->after == APPLY_FOLDER && !edit->fresh)
            continue;
        if (below && edit->after == APPLY_ABSENT)
            continue;
        if (edit->before == APPLY_FOLDER && (edit->after != APPLY_FOLDER || edit->fresh))
            gone = edit->path;
        plan->edits[n++] = edit;
    }
    plan->n_edits = n;
}
