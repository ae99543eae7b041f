/* svn_local: a Subversion repository whose folder is here, through its file system layer: no server, no locks, no
 * working copy.
 *
 * Trees are compared by the ids of their nodes: what two revisions share is never opened, however large it is.
 *
 * Fails as source.h says. */
#include "source/svn.h"

#include <stdlib.h>
#include <string.h>

#define CHUNK ((size_t)64 << 10)

static bool local_youngest(struct source *source, struct arena *arena, struct source_ident *out, struct err *err)
{
    struct svn_source *svn = svn_of(source);
    svn_revnum_t youngest = 0;
    apr_pool_t *pool = svn_pool_create(svn->pool);
    (void)arena;
    svn_error_t *fault = svn_fs_youngest_rev(&youngest, svn->fs, pool);
    svn_pool_destroy(pool);
    if (fault != NULL)
        return svn_fail(svn, fault, err, "reading the youngest revision");
    *out = (struct source_ident){ .rev = youngest };
    return true;
}

/* revision_fail: a revision that doesn't exist is told apart from one whose file is lost. */
static bool revision_fail(struct svn_source *svn, svn_error_t *fault, int64_t rev, struct err *err, const char *what)
{
    svn_revnum_t youngest = 0;
    apr_pool_t *pool = svn_pool_create(svn->pool);
    bool missing = svn_error_find_cause(fault, SVN_ERR_FS_NO_SUCH_REVISION) != NULL;
    svn_error_t *again = missing ? svn_fs_youngest_rev(&youngest, svn->fs, pool) : NULL;
    svn_pool_destroy(pool);
    if (!missing || again != NULL) {
        svn_error_clear(again);
        return svn_fail(svn, fault, err, "%s revision %lld", what, (long long)rev);
    }
    svn_error_clear(fault);
    struct str place = svn->base.place;
    if (rev > youngest)
        return err_set(err, ERR_not_found, "%.*s: there is no revision %lld; the youngest is %ld", STR_ARG(place),
            (long long)rev, youngest);
    return err_set(err, ERR_corrupt,
        "%.*s: %s revision %lld: its file is missing: the repository is damaged; run svnadmin verify %.*s",
        STR_ARG(place), what, (long long)rev, STR_ARG(place));
}

/* --- what a revision touched --- */

struct listing {
    struct svn_source *svn;
    struct changes_list *changes;
    svn_fs_root_t *now, *before;
};

/* tree_list: all below `path`, which is a folder of `root`. */
static svn_error_t *tree_list(
    struct listing *listing, svn_fs_root_t *root, const char *path, enum source_change_kind kind, apr_pool_t *pool)
{
    apr_hash_t *entries;
    apr_pool_t *scratch = svn_pool_create(pool);
    SVN_ERR(svn_fs_dir_entries(&entries, root, path, scratch));
    for (apr_hash_index_t *i = apr_hash_first(scratch, entries); i != NULL && !listing->changes->full;
         i = apr_hash_next(i)) {
        const svn_fs_dirent_t *entry = apr_hash_this_val(i);
        const char *below = svn_relpath_join(path, entry->name, scratch), *relative;
        if (svn_below(listing->svn, below, &relative) && relative[0] != '\0')
            changes_add(listing->changes,
                (struct source_change){
                    .path = str_of(relative), .kind = kind, .is_folder = entry->kind == svn_node_dir });
        if (entry->kind == svn_node_dir)
            SVN_ERR(tree_list(listing, root, below, kind, scratch));
    }
    svn_pool_destroy(scratch);
    return SVN_NO_ERROR;
}

/* folder_list: if the path is a folder there, all that is below it and below the archive's root. */
static svn_error_t *folder_list(
    struct listing *listing, svn_fs_root_t *root, const char *path, enum source_change_kind kind, apr_pool_t *pool)
{
    svn_node_kind_t is;
    if (svn_is_above(listing->svn, path))
        path = listing->svn->root;
    SVN_ERR(svn_fs_check_path(&is, root, path, pool));
    return is == svn_node_dir ? tree_list(listing, root, path, kind, pool) : SVN_NO_ERROR;
}

static enum source_change_kind change_kind(svn_fs_path_change_kind_t kind)
{
    static const enum source_change_kind kinds[] = { [svn_fs_path_change_modify] = SOURCE_CHANGED,
        [svn_fs_path_change_add] = SOURCE_ADDED,
        [svn_fs_path_change_delete] = SOURCE_DELETED,
        [svn_fs_path_change_replace] = SOURCE_REPLACED };
    return (unsigned)kind < sizeof kinds / sizeof *kinds && kinds[kind] != SOURCE_CHANGE_NONE ? kinds[kind]
                                                                                              : SOURCE_CHANGED;
}

static svn_error_t *change_take(struct listing *listing, const svn_fs_path_change3_t *change, apr_pool_t *pool)
{
    const char *path = change->path.data[0] == '/' ? change->path.data + 1 : change->path.data, *relative;
    enum source_change_kind kind = change_kind(change->change_kind);
    bool above = svn_is_above(listing->svn, path), below = svn_below(listing->svn, path, &relative);
    bool old_goes = kind == SOURCE_DELETED || kind == SOURCE_REPLACED;
    bool copied = change->copyfrom_known && change->copyfrom_path != NULL;
    if (!above && !below)
        return SVN_NO_ERROR;
    svn_node_kind_t node = change->node_kind;
    if (node == svn_node_unknown || node == svn_node_none)
        SVN_ERR(svn_fs_check_path(&node, kind == SOURCE_DELETED ? listing->before : listing->now, path, pool));
    if (below && relative[0] != '\0') {
        struct source_change row = { .path = str_of(relative), .kind = kind, .is_folder = node == svn_node_dir };
        if (copied) {
            row.copied_from =
                str_of(change->copyfrom_path[0] == '/' ? change->copyfrom_path + 1 : change->copyfrom_path);
            row.copied_rev = change->copyfrom_rev;
        }
        changes_add(listing->changes, row);
    }
    if (old_goes)
        SVN_ERR(folder_list(listing, listing->before, path, SOURCE_DELETED, pool));
    if (copied && node == svn_node_dir)
        SVN_ERR(folder_list(listing, listing->now, path, SOURCE_ADDED, pool));
    return SVN_NO_ERROR;
}

static svn_error_t *changes_read(
    struct svn_source *svn, svn_revnum_t rev, struct changes_list *changes, apr_pool_t *pool)
{
    struct listing listing = { .svn = svn, .changes = changes };
    svn_fs_path_change_iterator_t *iterator;
    svn_fs_path_change3_t *change;
    if (rev == 0)
        return SVN_NO_ERROR;
    apr_pool_t *each = svn_pool_create(pool);
    SVN_ERR(svn_fs_revision_root(&listing.now, svn->fs, rev, pool));
    SVN_ERR(svn_fs_revision_root(&listing.before, svn->fs, rev - 1, pool));
    SVN_ERR(svn_fs_paths_changed3(&iterator, listing.now, pool, pool));
    SVN_ERR(svn_fs_path_change_get(&change, iterator));
    while (change != NULL && !changes->full) {
        svn_pool_clear(each);
        SVN_ERR(change_take(&listing, change, each));
        SVN_ERR(svn_fs_path_change_get(&change, iterator));
    }
    return SVN_NO_ERROR;
}

static bool local_revision(
    struct source *source, struct arena *arena, struct source_ident ident, struct source_revision *out, struct err *err)
{
    struct svn_source *svn = svn_of(source);
    svn_revnum_t rev = (svn_revnum_t)ident.rev;
    struct changes_list changes = { .arena = arena };
    struct source_revision revision;
    apr_hash_t *props = NULL;
    apr_pool_t *pool = svn_pool_create(svn->pool);
    svn_error_t *fault = svn_fs_revision_proplist2(&props, svn->fs, rev, TRUE, pool, pool);
    if (fault == NULL)
        fault = changes_read(svn, rev, &changes, pool);
    if (fault == NULL) {
        svn_describe(arena, props, ident.rev, &revision);
        changes_give(&changes, &revision);
    }
    svn_pool_destroy(pool);
    if (fault != NULL)
        return revision_fail(svn, fault, ident.rev, err, "reading");
    *out = revision;
    return true;
}

/* --- trees --- */

struct walk {
    struct svn_source *svn;
    struct sink *sink;
    struct err *err;
    svn_fs_root_t *before, *now;
    bool stopped; /* err is set by the sink; what goes back to Subversion is only to unwind */
    unsigned depth;
};

static svn_error_t *walk_stop(struct walk *walk)
{
    walk->stopped = true;
    return svn_error_create(SVN_ERR_CANCELLED, NULL, NULL);
}

static int entry_compare(const void *a, const void *b)
{
    const svn_fs_dirent_t *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

/* entries_sort: the values of the hash by name. */
static const svn_fs_dirent_t **entries_sort(apr_hash_t *entries, size_t *out_n, apr_pool_t *pool)
{
    size_t n = 0;
    const svn_fs_dirent_t **sorted = apr_palloc(pool, sizeof *sorted * (apr_hash_count(entries) + 1));
    for (apr_hash_index_t *i = apr_hash_first(pool, entries); i != NULL; i = apr_hash_next(i))
        sorted[n++] = apr_hash_this_val(i);
    if (n > 1)
        qsort(sorted, n, sizeof *sorted, entry_compare);
    *out_n = n;
    return sorted;
}

/* content_read: all of a short file. */
static svn_error_t *content_read(
    svn_fs_root_t *root, const char *path, svn_filesize_t length, struct str *out, apr_pool_t *pool)
{
    svn_stream_t *stream;
    apr_size_t len = (apr_size_t)length;
    char *bytes = apr_palloc(pool, len + 1);
    SVN_ERR(svn_fs_file_contents(&stream, root, path, pool));
    SVN_ERR(svn_stream_read_full(stream, bytes, &len));
    SVN_ERR(svn_stream_close(stream));
    *out = (struct str){ bytes, len };
    return SVN_NO_ERROR;
}

static svn_error_t *file_out(struct walk *walk, const char *path, const char *relative, apr_pool_t *pool)
{
    svn_boolean_t has_props = FALSE;
    svn_filesize_t length;
    svn_string_t *special = NULL, *executable = NULL;
    svn_stream_t *stream;
    struct str name = str_of(relative), content, target;
    SVN_ERR(svn_fs_node_has_props(&has_props, walk->now, path, pool));
    if (has_props) {
        SVN_ERR(svn_fs_node_prop(&special, walk->now, path, SVN_PROP_SPECIAL, pool));
        SVN_ERR(svn_fs_node_prop(&executable, walk->now, path, SVN_PROP_EXECUTABLE, pool));
    }
    SVN_ERR(svn_fs_file_length(&length, walk->now, path, pool));
    if (special != NULL && length <= SVN_LINK_BYTES_MAX) {
        SVN_ERR(content_read(walk->now, path, length, &content, pool));
        if (svn_link(content, &target))
            return sink_link(walk->sink, name, target, walk->err) ? SVN_NO_ERROR : walk_stop(walk);
    }
    if (!sink_file(walk->sink, name, (uint64_t)length, executable != NULL, walk->err))
        return walk_stop(walk);
    char *chunk = apr_palloc(pool, CHUNK);
    apr_size_t len;
    SVN_ERR(svn_fs_file_contents(&stream, walk->now, path, pool));
    do {
        len = CHUNK;
        SVN_ERR(svn_stream_read_full(stream, chunk, &len));
        if (!sink_write(walk->sink, (struct str){ chunk, len }, walk->err))
            return walk_stop(walk);
    } while (len == CHUNK);
    SVN_ERR(svn_stream_close(stream));
    return sink_end(walk->sink, walk->err) ? SVN_NO_ERROR : walk_stop(walk);
}

/* walk_folder: the folder `path` of the new tree into the sink; old: the same folder is in the old tree, so only what
 * differs. */
static svn_error_t *walk_folder(struct walk *walk, const char *path, const char *relative, bool old, apr_pool_t *pool)
{
    apr_hash_t *now, *before = NULL;
    size_t n = 0;
    if (++walk->depth > SOURCE_DEPTH_MAX) {
        err_set(walk->err, ERR_invalid, "%.*s: more than %d folders within each other", STR_ARG(walk->svn->base.place),
            SOURCE_DEPTH_MAX);
        return walk_stop(walk);
    }
    apr_pool_t *scratch = svn_pool_create(pool), *each = svn_pool_create(pool);
    SVN_ERR(svn_fs_dir_entries(&now, walk->now, path, scratch));
    if (old) {
        SVN_ERR(svn_fs_dir_entries(&before, walk->before, path, scratch));
        const svn_fs_dirent_t **gone = entries_sort(before, &n, scratch);
        for (size_t i = 0; i < n; i++) {
            const svn_fs_dirent_t *other = svn_hash_gets(now, gone[i]->name);
            const char *name = svn_relpath_join(relative, gone[i]->name, scratch);
            if ((other == NULL || other->kind != gone[i]->kind) && !sink_remove(walk->sink, str_of(name), walk->err))
                return walk_stop(walk);
        }
    }
    const svn_fs_dirent_t **entries = entries_sort(now, &n, scratch);
    for (size_t i = 0; i < n; i++) {
        svn_pool_clear(each);
        const svn_fs_dirent_t *other = before != NULL ? svn_hash_gets(before, entries[i]->name) : NULL;
        if (other != NULL && (other->kind != entries[i]->kind || svn_fs_compare_ids(other->id, entries[i]->id) == 0)) {
            if (other->kind == entries[i]->kind)
                continue;
            other = NULL;
        }
        const char *name = svn_relpath_join(relative, entries[i]->name, each),
                   *at = svn_relpath_join(path, entries[i]->name, each);
        if (entries[i]->kind != svn_node_dir) {
            SVN_ERR(file_out(walk, at, name, each));
            continue;
        }
        if (other == NULL && !sink_folder(walk->sink, str_of(name), walk->err))
            return walk_stop(walk);
        SVN_ERR(walk_folder(walk, at, name, other != NULL, each));
    }
    svn_pool_destroy(scratch);
    svn_pool_destroy(each);
    walk->depth--;
    return SVN_NO_ERROR;
}

static svn_error_t *walk_run(struct walk *walk, const struct source_ident *from, svn_revnum_t to, apr_pool_t *pool)
{
    struct svn_source *svn = walk->svn;
    svn_node_kind_t was = svn_node_none, is;
    apr_hash_t *props;
    SVN_ERR(svn_fs_revision_proplist2(&props, svn->fs, to, TRUE, pool, pool));
    walk->sink->time_ms = svn_time(props);
    SVN_ERR(svn_fs_revision_root(&walk->now, svn->fs, to, pool));
    SVN_ERR(svn_fs_check_path(&is, walk->now, svn->root, pool));
    if (from != NULL) {
        SVN_ERR(svn_fs_revision_root(&walk->before, svn->fs, (svn_revnum_t)from->rev, pool));
        SVN_ERR(svn_fs_check_path(&was, walk->before, svn->root, pool));
    }
    if (is == svn_node_dir)
        return walk_folder(walk, svn->root, "", was == svn_node_dir, pool);
    if (was != svn_node_dir)
        return SVN_NO_ERROR; /* the archive's folder isn't there in this revision: an empty tree */
    apr_hash_t *entries;
    SVN_ERR(svn_fs_dir_entries(&entries, walk->before, svn->root, pool));
    for (apr_hash_index_t *i = apr_hash_first(pool, entries); i != NULL; i = apr_hash_next(i))
        if (!sink_remove(walk->sink, str_of(apr_hash_this_key(i)), walk->err))
            return walk_stop(walk);
    return SVN_NO_ERROR;
}

static bool local_walk(
    struct source *source, const struct source_ident *from, struct source_ident to, struct sink *sink, struct err *err)
{
    struct walk walk = { .svn = svn_of(source), .sink = sink, .err = err };
    apr_pool_t *pool = svn_pool_create(walk.svn->pool);
    svn_error_t *fault = walk_run(&walk, from, (svn_revnum_t)to.rev, pool);
    svn_pool_destroy(pool);
    if (walk.stopped) {
        svn_error_clear(fault);
        return false;
    }
    return fault == NULL || revision_fail(walk.svn, fault, to.rev, err, "exporting");
}

/* --- workflow files --- */

static svn_error_t *workflow_read(struct workflows_list *list, svn_fs_root_t *root, const char *folder,
    const svn_fs_dirent_t *entry, apr_pool_t *pool)
{
    const char *path = svn_relpath_join(folder, entry->name, pool);
    struct str name = str_of(entry->name), text;
    svn_string_t *special = NULL;
    svn_filesize_t length;
    if (entry->kind == svn_node_file)
        SVN_ERR(svn_fs_node_prop(&special, root, path, SVN_PROP_SPECIAL, pool));
    if (entry->kind != svn_node_file || special != NULL) {
        workflows_fault(list, name, special != NULL ? workflows_link_fault : workflows_kind_fault);
        return SVN_NO_ERROR;
    }
    SVN_ERR(svn_fs_file_length(&length, root, path, pool));
    if (!workflows_fits(list, name, (uint64_t)length))
        return SVN_NO_ERROR;
    SVN_ERR(content_read(root, path, length, &text, pool));
    workflows_add(list, name, str_dup(list->arena, text));
    return SVN_NO_ERROR;
}

static svn_error_t *workflows_read(struct svn_source *svn, struct arena *arena, svn_revnum_t rev, struct str known,
    struct source_workflows *out, struct workflows_list *list, apr_pool_t *pool)
{
    svn_fs_root_t *root;
    svn_node_kind_t kind;
    const svn_fs_id_t *id;
    apr_hash_t *entries;
    const char *folder = svn_relpath_join(svn->root, WORKFLOWS_FOLDER, pool);
    *out = (struct source_workflows){ .content = STR("-") };
    SVN_ERR(svn_fs_revision_root(&root, svn->fs, rev, pool));
    SVN_ERR(svn_fs_check_path(&kind, root, folder, pool));
    if (kind != svn_node_none) {
        SVN_ERR(svn_fs_node_id(&id, root, folder, pool));
        const svn_string_t *text = svn_fs_unparse_id(id, pool);
        out->content = str_dup(arena, (struct str){ text->data, text->len });
    }
    out->same = known.len > 0 && str_eq(known, out->content);
    if (out->same || kind == svn_node_none)
        return SVN_NO_ERROR;
    if (kind != svn_node_dir) {
        workflows_fault(list, (struct str){ 0 }, workflows_folder_fault);
        return SVN_NO_ERROR;
    }
    SVN_ERR(svn_fs_dir_entries(&entries, root, folder, pool));
    size_t n;
    const svn_fs_dirent_t **sorted = entries_sort(entries, &n, pool);
    apr_pool_t *each = svn_pool_create(pool);
    for (size_t i = 0; i < n; i++) {
        svn_pool_clear(each);
        if (workflows_wants(list, str_of(sorted[i]->name)))
            SVN_ERR(workflow_read(list, root, folder, sorted[i], each));
    }
    return SVN_NO_ERROR;
}

static bool local_workflows(struct source *source, struct arena *arena, struct source_ident ident, struct str known,
    struct source_workflows *out, struct err *err)
{
    struct svn_source *svn = svn_of(source);
    struct workflows_list list;
    struct source_workflows found;
    apr_pool_t *pool = svn_pool_create(svn->pool);
    workflows_init(&list, arena);
    svn_error_t *fault = workflows_read(svn, arena, (svn_revnum_t)ident.rev, known, &found, &list, pool);
    workflows_give(&list, &found);
    svn_pool_destroy(pool);
    if (fault != NULL)
        return revision_fail(svn, fault, ident.rev, err, "reading " WORKFLOWS_FOLDER " of");
    *out = found;
    return true;
}

static bool local_watch(
    struct source *source, struct arena *arena, struct source_watch **out, size_t *out_n, struct err *err)
{
    struct source_watch *watch = ARENA_NEW(arena, struct source_watch);
    (void)err;
    *watch = (struct source_watch){ str_fmt(arena, "%.*s/db", STR_ARG(source->place)).ptr, STR("current") };
    *out = watch;
    *out_n = 1;
    return true;
}

const struct source_ops svn_local_ops = {
    .close = svn_close,
    .youngest = local_youngest,
    .revision = local_revision,
    .workflows = local_workflows,
    .watch = local_watch,
    .walk = local_walk,
};
