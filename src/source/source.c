/* source: the public functions of the room: check the arguments and call the backend for the kind of repository.
 *
 * Owns what all kinds share: cleaning texts, the bounded list of changes, the workflow files of a folder with their
 * faults.
 *
 * Fails as source.h says. */
#include "source/source.h"

#include <stdlib.h>
#include <string.h>

#include "core/workflow.h"
#include "source/backend.h"
#include "source/sink.h"
#include "text/node.h"
#include "text/workflow.h"

#define FAULTS_BYTES_MAX ((size_t)64 << 10)
#define NAME_SHOWN_MAX 300

const char workflows_link_fault[] = "a workflow file must not be a symbolic link";
const char workflows_folder_fault[] = "must be a folder of its own, not a link or a file";
const char workflows_kind_fault[] = "this isn't a plain file";

struct source *source_open(enum archive_kind kind, struct str url, struct str branch, struct err *err)
{
    if (url.len == 0 || str_index(url, '\0') >= 0) {
        err_set(err, ERR_invalid, "an archive needs the path or URL of its repository");
        return NULL;
    }
    if (kind == ARCHIVE_SVN && branch.len == 0)
        return source_svn_open(url, err);
    if (kind == ARCHIVE_GIT)
        return source_git_open(url, branch, err);
    err_set(err, ERR_invalid,
        kind == ARCHIVE_SVN
            ? "a Subversion archive has no branch: write the branch's folder into its address"
            : "only Subversion and git repositories can be read; an external archive's revisions are posted");
    return NULL;
}

void source_close(struct source *source)
{
    if (source != NULL)
        source->ops->close(source);
}

bool source_is_local(const struct source *source)
{
    return source->local;
}

struct str source_uuid(const struct source *source)
{
    return source->uuid;
}

struct str source_branch(const struct source *source)
{
    return source->branch;
}

struct str source_place(const struct source *source)
{
    return source->place;
}

/* ident_check: checks its form only; the backend finds out whether the revision exists. */
static bool ident_check(const struct source *source, struct source_ident ident, struct err *err)
{
    if (source->kind == ARCHIVE_SVN)
        return (ident.rev >= 0 && ident.rev <= INT32_MAX) ||
               err_set(err, ERR_not_found, "there is no revision %lld", (long long)ident.rev);
    bool good = ident.id.len == 40;
    for (size_t i = 0; good && i < ident.id.len; i++)
        good = strchr("0123456789abcdef", ident.id.ptr[i]) != NULL && ident.id.ptr[i] != '\0';
    return good || err_set(err, ERR_not_found, "'%.*s' isn't a commit id (40 hexadecimal digits)",
                       (int)(ident.id.len < 60 ? ident.id.len : 60), ident.id.len > 0 ? ident.id.ptr : "");
}

bool source_youngest(struct source *source, struct arena *arena, struct source_ident *out, struct err *err)
{
    return source->ops->youngest(source, arena, out, err);
}

bool source_revision_read(
    struct source *source, struct arena *arena, struct source_ident ident, struct source_revision *out, struct err *err)
{
    return ident_check(source, ident, err) && source->ops->revision(source, arena, ident, out, err);
}

bool source_workflows_read(struct source *source, struct arena *arena, struct source_ident ident, struct str known,
    struct source_workflows *out, struct err *err)
{
    return ident_check(source, ident, err) && source->ops->workflows(source, arena, ident, known, out, err);
}

bool source_new_commits(struct source *source, struct arena *arena, const struct source_known *known,
    struct source_commits *out, struct err *err)
{
    if (source->ops->new_commits == NULL)
        return err_set(err, ERR_invalid, "a Subversion repository numbers its revisions itself");
    return source->ops->new_commits(source, arena, known, out, err);
}

bool source_watch_paths(
    struct source *source, struct arena *arena, struct source_watch **out, size_t *out_n, struct err *err)
{
    *out = NULL;
    *out_n = 0;
    return !source->local || source->ops->watch(source, arena, out, out_n, err);
}

/* export_into: the folder; from NULL: all of the tree. */
static bool export_into(struct source *source, const struct source_ident *from, struct source_ident to, int dir_fd,
    const struct source_export_options *options, struct err *err)
{
    struct sink_dir dir;
    if ((from != NULL && !ident_check(source, *from, err)) || !ident_check(source, to, err))
        return false;
    sink_dir_init(&dir, dir_fd, from != NULL, options);
    bool good = source->ops->walk(source, from, to, &dir.sink, err);
    sink_dir_release(&dir);
    return good;
}

bool source_export(struct source *source, struct source_ident ident, int dir_fd,
    const struct source_export_options *options, struct err *err)
{
    return export_into(source, NULL, ident, dir_fd, options, err);
}

bool source_export_changed(struct source *source, struct source_ident from, struct source_ident to, int dir_fd,
    const struct source_export_options *options, struct err *err)
{
    return export_into(source, &from, to, dir_fd, options, err);
}

bool source_export_tar(struct source *source, struct source_ident ident, const struct source_tar *out,
    const struct source_export_options *options, struct err *err)
{
    struct sink_tar tar;
    if (!ident_check(source, ident, err))
        return false;
    sink_tar_init(&tar, out, options);
    bool good = source->ops->walk(source, NULL, ident, &tar.sink, err) && sink_tar_finish(&tar, err);
    sink_tar_release(&tar);
    return good;
}

/* text_clean: into the arena; what isn't a character, or is a control character, becomes U+FFFD. */
static struct str text_clean(struct arena *arena, struct str raw, size_t max, bool lines)
{
    struct buf text;
    buf_init(&text, max);
    for (struct str rest = raw; rest.len > 0 && !text.full;) {
        size_t len = str_char_len(rest);
        unsigned char c = (unsigned char)rest.ptr[0];
        bool plain = len > 0 && c >= ' ' && c != 0x7f;
        if (plain || (lines && (c == '\n' || c == '\t')))
            buf_add(&text, rest.ptr, len);
        else if (!lines || c != '\r') /* CR LF is a line's end like another */
            buf_add_z(&text, "\xef\xbf\xbd");
        rest = str_sub(rest, len > 0 ? len : 1, rest.len);
    }
    return buf_move(&text, arena);
}

struct str source_text(struct arena *arena, struct str raw, size_t max)
{
    return text_clean(arena, raw, max, true);
}

struct str source_line(struct arena *arena, struct str raw, size_t max)
{
    return text_clean(arena, str_trim(raw), max, false);
}

bool changes_add(struct changes_list *list, struct source_change change)
{
    if (list->n == SOURCE_CHANGES_MAX) {
        list->full = true;
        return false;
    }
    struct source_change *item = ARENA_PUSH(list->arena, list->items, list->n, list->cap);
    *item = change;
    item->path = text_clean(list->arena, change.path, SIZE_MAX, false);
    item->copied_from = text_clean(list->arena, change.copied_from, SIZE_MAX, false);
    return true;
}

/* change_compare: by path; of one path, what was copied first. */
static int change_compare(const void *a, const void *b)
{
    const struct source_change *x = a, *y = b;
    int order = str_cmp(x->path, y->path);
    if (order != 0)
        return order;
    order = (x->copied_from.len == 0) - (y->copied_from.len == 0);
    return order != 0 ? order : (int)x->kind - (int)y->kind;
}

void changes_give(struct changes_list *list, struct source_revision *out)
{
    size_t n = 0;
    if (list->n > 1)
        qsort(list->items, list->n, sizeof *list->items, change_compare);
    for (size_t i = 0; i < list->n; i++) { /* a path that was listed with its folder and by itself: once */
        struct source_change *last = n > 0 ? &list->items[n - 1] : NULL;
        if (last == NULL || !str_eq(last->path, list->items[i].path))
            list->items[n++] = list->items[i];
        else if (last->kind != list->items[i].kind &&
                 (last->kind == SOURCE_DELETED || list->items[i].kind == SOURCE_DELETED))
            last->kind = SOURCE_REPLACED;
    }
    out->changes = list->items;
    out->n_changes = n;
    out->all_touched = list->full;
}

void workflows_init(struct workflows_list *list, struct arena *arena)
{
    *list = (struct workflows_list){ .arena = arena };
    buf_init(&list->faults, FAULTS_BYTES_MAX);
}

bool workflows_wants(struct workflows_list *list, struct str name)
{
    if (name.len == 0 || name.ptr[0] == '.' || !workflow_is_file(name))
        return false;
    return ++list->n_seen <= WORKFLOW_FILES_MAX;
}

void workflows_fault(struct workflows_list *list, struct str name, const char *why)
{
    struct str shown = text_clean(list->arena, name, NAME_SHOWN_MAX, false);
    buf_addf(&list->faults, "%s" WORKFLOWS_FOLDER "%s%.*s: error: %s", list->faults.len > 0 ? "\n" : "",
        name.len > 0 ? "/" : "", STR_ARG(shown), why);
}

bool workflows_fits(struct workflows_list *list, struct str name, uint64_t bytes)
{
    if (bytes <= NODE_FILE_BYTES_MAX)
        return true;
    struct str why = str_fmt(list->arena, "the file is larger than %zu bytes", NODE_FILE_BYTES_MAX);
    workflows_fault(list, name, why.ptr);
    return false;
}

void workflows_add(struct workflows_list *list, struct str name, struct str text)
{
    if (str_index(text, '\0') >= 0) {
        workflows_fault(list, name, "this is a binary file (it has a NUL byte in it)");
        return;
    }
    struct str shown = text_clean(list->arena, name, NAME_SHOWN_MAX, false);
    *ARENA_PUSH(list->arena, list->files, list->n_files, list->cap_files) =
        (struct source_file){ str_fmt(list->arena, WORKFLOWS_FOLDER "/%.*s", STR_ARG(shown)), text };
}

static int file_compare(const void *a, const void *b)
{
    const struct source_file *x = a, *y = b;
    return str_cmp(x->name, y->name);
}

void workflows_give(struct workflows_list *list, struct source_workflows *out)
{
    if (list->n_seen > WORKFLOW_FILES_MAX) {
        buf_reset(&list->faults);
        struct str why = str_fmt(list->arena, "there are more than %d workflow files", WORKFLOW_FILES_MAX);
        workflows_fault(list, (struct str){ 0 }, why.ptr);
        list->n_files = 0;
    }
    if (list->n_files > 1)
        qsort(list->files, list->n_files, sizeof *list->files, file_compare);
    out->files = list->files;
    out->n_files = list->n_files;
    out->fault = buf_move(&list->faults, list->arena);
}
