/* svn_served: a Subversion repository behind a server (svn://, svn+ssh://, http://, https://), through the repository
 * access layer.
 *
 * Owns the session: opened by the first call, closed when the connection fails, opened again by the next call. Logs in
 * as the svn command of the same user would, but without prompts: anonymously, or with the credentials stored in
 * ~/.subversion.
 *
 * A tree is fetched in two steps: the server lists what differs (compared with an empty tree: everything), then each
 * file is fetched, in order of names. That costs a round trip per file; where that is too slow, follow a mirror made
 * with svnsync. Fails as source.h says. */
#include "source/svn.h"

#include <stdlib.h>
#include <string.h>

#define CHUNK ((size_t)64 << 10)

svn_error_t *svn_session(struct svn_source *svn)
{
    svn_ra_callbacks2_t *callbacks;
    svn_auth_baton_t *auth;
    apr_hash_t *config;
    const char *corrected = NULL;
    if (svn->session != NULL)
        return SVN_NO_ERROR;
    if (svn->session_pool != NULL)
        svn_pool_destroy(svn->session_pool);
    apr_pool_t *pool = svn->session_pool = svn_pool_create(svn->pool);
    SVN_ERR(svn_config_get_config(&config, NULL, pool));
    SVN_ERR(svn_cmdline_create_auth_baton2(&auth, TRUE, NULL, NULL, NULL, TRUE, FALSE, FALSE, FALSE, FALSE, FALSE,
        svn_hash_gets(config, SVN_CONFIG_CATEGORY_CONFIG), NULL, NULL, pool));
    SVN_ERR(svn_ra_create_callbacks(&callbacks, pool));
    callbacks->auth_baton = auth;
    SVN_ERR(svn_ra_open5(&svn->session, &corrected, NULL, svn->url, svn->base.uuid.len > 0 ? svn->base.uuid.ptr : NULL,
        callbacks, NULL, config, pool));
    if (svn->session == NULL)
        return svn_error_createf(SVN_ERR_RA_ILLEGAL_URL, NULL, "the server says that it is at %s now",
            corrected != NULL ? corrected : "another address");
    return SVN_NO_ERROR;
}

svn_error_t *svn_session_end(struct svn_source *svn, svn_error_t *fault)
{
    if (fault != NULL && svn_is_lost(fault))
        svn->session = NULL;
    return fault;
}

static bool served_youngest(struct source *source, struct arena *arena, struct source_ident *out, struct err *err)
{
    struct svn_source *svn = svn_of(source);
    svn_revnum_t youngest = 0;
    apr_pool_t *pool = svn_pool_create(svn->pool);
    (void)arena;
    svn_error_t *fault = svn_session(svn);
    if (fault == NULL)
        fault = svn_ra_get_latest_revnum(svn->session, &youngest, pool);
    fault = svn_session_end(svn, fault);
    svn_pool_destroy(pool);
    if (fault != NULL)
        return svn_fail(svn, fault, err, "reading the youngest revision");
    *out = (struct source_ident){ .rev = youngest };
    return true;
}

/* --- what a revision touched --- */

struct listing {
    struct svn_source *svn;
    struct changes_list *changes;
    apr_array_header_t *later; /* struct folder: to be listed after the log was read (one session, one request) */
    enum source_change_kind kind;
    const char *folder; /* from the archive's root */
};

struct folder {
    const char *path; /* from the archive's root, "" is that root */
    enum source_change_kind kind;
    svn_revnum_t rev;
};

static void folder_later(struct listing *listing, const char *path, enum source_change_kind kind, svn_revnum_t rev)
{
    const char *relative;
    struct folder *folder = apr_array_push(listing->later);
    apr_pool_t *pool = listing->later->pool;
    bool below = svn_below(listing->svn, path, &relative);
    *folder = (struct folder){ below ? apr_pstrdup(pool, relative) : "", kind, rev };
}

static void change_take(
    struct listing *listing, const char *path, const svn_log_changed_path2_t *change, svn_revnum_t rev)
{
    static const struct {
        char letter;
        enum source_change_kind kind;
    } letters[] = { { 'A', SOURCE_ADDED }, { 'M', SOURCE_CHANGED }, { 'D', SOURCE_DELETED }, { 'R', SOURCE_REPLACED } };
    enum source_change_kind kind = SOURCE_CHANGED;
    const char *relative;
    bool above = svn_is_above(listing->svn, path), below = svn_below(listing->svn, path, &relative);
    bool may_be_folder = change->node_kind != svn_node_file;
    if (!above && !below)
        return;
    for (size_t i = 0; i < sizeof letters / sizeof *letters; i++)
        if (letters[i].letter == change->action)
            kind = letters[i].kind;
    if (below && relative[0] != '\0') {
        struct source_change row = {
            .path = str_of(relative), .kind = kind, .is_folder = change->node_kind == svn_node_dir
        };
        if (change->copyfrom_path != NULL) {
            row.copied_from =
                str_of(change->copyfrom_path[0] == '/' ? change->copyfrom_path + 1 : change->copyfrom_path);
            row.copied_rev = change->copyfrom_rev;
        }
        changes_add(listing->changes, row);
    }
    /* of a replaced path the server reports only the new kind */
    if (kind == SOURCE_REPLACED || (kind == SOURCE_DELETED && may_be_folder))
        folder_later(listing, path, SOURCE_DELETED, rev - 1);
    if (change->copyfrom_path != NULL && may_be_folder)
        folder_later(listing, path, SOURCE_ADDED, rev);
}

static svn_error_t *log_take(void *context, svn_log_entry_t *entry, apr_pool_t *pool)
{
    struct listing *listing = context;
    if (entry->changed_paths2 == NULL)
        return SVN_NO_ERROR;
    for (apr_hash_index_t *i = apr_hash_first(pool, entry->changed_paths2); i != NULL && !listing->changes->full;
         i = apr_hash_next(i))
        change_take(listing, apr_hash_this_key(i), apr_hash_this_val(i), entry->revision);
    return SVN_NO_ERROR;
}

/* entry_take: the path is relative to the repository's root. The folder itself is reported too; it is in the list
 * already. */
static svn_error_t *entry_take(const char *path, svn_dirent_t *entry, void *context, apr_pool_t *pool)
{
    struct listing *listing = context;
    const char *relative;
    (void)pool;
    if (!svn_below(listing->svn, path, &relative) || relative[0] == '\0' || strcmp(relative, listing->folder) == 0)
        return SVN_NO_ERROR;
    struct source_change row = {
        .path = str_of(relative), .kind = listing->kind, .is_folder = entry->kind == svn_node_dir
    };
    /* without room the rest is read and dropped, because the answer must be read to its end */
    changes_add(listing->changes, row);
    return SVN_NO_ERROR;
}

/* folders_list: adds what is in the folders that were copied or deleted. If the server can't list them, every path
 * counts as touched. */
static svn_error_t *folders_list(struct listing *listing, apr_pool_t *pool)
{
    for (int i = 0; i < listing->later->nelts && !listing->changes->full; i++) {
        const struct folder *folder = &((const struct folder *)listing->later->elts)[i];
        svn_node_kind_t kind;
        SVN_ERR(svn_ra_check_path(listing->svn->session, folder->path, folder->rev, &kind, pool));
        if (kind != svn_node_dir)
            continue;
        listing->kind = folder->kind;
        listing->folder = folder->path;
        svn_error_t *fault = svn_ra_list(listing->svn->session, folder->path, folder->rev, NULL, svn_depth_infinity,
            SVN_DIRENT_KIND, entry_take, listing, pool);
        if (fault != NULL && fault->apr_err != SVN_ERR_UNSUPPORTED_FEATURE &&
            fault->apr_err != SVN_ERR_RA_NOT_IMPLEMENTED)
            return fault;
        if (fault != NULL)
            listing->changes->full = true;
        svn_error_clear(fault);
    }
    return SVN_NO_ERROR;
}

static svn_error_t *revision_read(
    struct svn_source *svn, svn_revnum_t rev, struct changes_list *changes, apr_hash_t **props, apr_pool_t *pool)
{
    struct listing listing = {
        .svn = svn, .changes = changes, .later = apr_array_make(pool, 4, sizeof(struct folder))
    };
    SVN_ERR(svn_session(svn));
    SVN_ERR(svn_ra_rev_proplist(svn->session, rev, props, pool));
    if (rev == 0)
        return SVN_NO_ERROR;
    apr_array_header_t *none = apr_array_make(pool, 0, sizeof(const char *));
    const char *root;
    SVN_ERR(svn_ra_get_repos_root2(svn->session, &root, pool));
    /* the log of a folder leaves out revisions that don't touch it */
    SVN_ERR(svn_ra_reparent(svn->session, root, pool));
    svn_error_t *fault =
        svn_ra_get_log2(svn->session, NULL, rev, rev, 1, TRUE, FALSE, FALSE, none, log_take, &listing, pool);
    if (fault != NULL && svn_is_lost(fault))
        return fault;
    fault = svn_error_compose_create(fault, svn_ra_reparent(svn->session, svn->url, pool));
    SVN_ERR(fault);
    return folders_list(&listing, pool);
}

static bool served_revision(
    struct source *source, struct arena *arena, struct source_ident ident, struct source_revision *out, struct err *err)
{
    struct svn_source *svn = svn_of(source);
    struct changes_list changes = { .arena = arena };
    struct source_revision revision;
    apr_hash_t *props = NULL;
    apr_pool_t *pool = svn_pool_create(svn->pool);
    svn_error_t *fault = svn_session_end(svn, revision_read(svn, (svn_revnum_t)ident.rev, &changes, &props, pool));
    if (fault == NULL) {
        svn_describe(arena, props, ident.rev, &revision);
        changes_give(&changes, &revision);
    }
    svn_pool_destroy(pool);
    if (fault != NULL)
        return svn_fail(svn, fault, err, "reading revision %lld", (long long)ident.rev);
    *out = revision;
    return true;
}

/* --- trees: the server drives an editor that only collects differences --- */

struct difference {
    const char *path;
    enum { DIFFERS_GONE, DIFFERS_FOLDER, DIFFERS_FILE } kind;
};

struct differences {
    apr_array_header_t *items; /* of struct difference */
    const char *node;          /* the open file */
    bool differs;
};

static void difference_add(struct differences *differences, const char *path, int kind)
{
    struct difference *difference = apr_array_push(differences->items);
    *difference = (struct difference){ .path = apr_pstrdup(differences->items->pool, path) };
    difference->kind = kind == DIFFERS_GONE ? DIFFERS_GONE : kind == DIFFERS_FOLDER ? DIFFERS_FOLDER : DIFFERS_FILE;
}

static svn_error_t *edit_root(void *context, svn_revnum_t base, apr_pool_t *pool, void **out)
{
    (void)base, (void)pool;
    *out = context;
    return SVN_NO_ERROR;
}

static svn_error_t *edit_delete(const char *path, svn_revnum_t rev, void *parent, apr_pool_t *pool)
{
    (void)rev, (void)pool;
    difference_add(parent, path, DIFFERS_GONE);
    return SVN_NO_ERROR;
}

static svn_error_t *edit_add_folder(
    const char *path, void *parent, const char *from, svn_revnum_t rev, apr_pool_t *pool, void **out)
{
    (void)from, (void)rev, (void)pool;
    difference_add(parent, path, DIFFERS_FOLDER);
    *out = parent;
    return SVN_NO_ERROR;
}

static svn_error_t *edit_open_folder(const char *path, void *parent, svn_revnum_t rev, apr_pool_t *pool, void **out)
{
    (void)path, (void)rev, (void)pool;
    *out = parent;
    return SVN_NO_ERROR;
}

static svn_error_t *edit_file(struct differences *differences, const char *path, bool added, void **out)
{
    differences->node = apr_pstrdup(differences->items->pool, path);
    differences->differs = added;
    *out = differences;
    return SVN_NO_ERROR;
}

static svn_error_t *edit_add_file(
    const char *path, void *parent, const char *from, svn_revnum_t rev, apr_pool_t *pool, void **out)
{
    (void)from, (void)rev, (void)pool;
    return edit_file(parent, path, true, out);
}

static svn_error_t *edit_open_file(const char *path, void *parent, svn_revnum_t rev, apr_pool_t *pool, void **out)
{
    (void)rev, (void)pool;
    return edit_file(parent, path, false, out);
}

static svn_error_t *edit_text(
    void *file, const char *checksum, apr_pool_t *pool, svn_txdelta_window_handler_t *handler, void **out)
{
    struct differences *differences = file;
    (void)checksum, (void)pool;
    differences->differs = true;
    *handler = svn_delta_noop_window_handler;
    *out = NULL;
    return SVN_NO_ERROR;
}

static svn_error_t *edit_prop(void *file, const char *name, const svn_string_t *value, apr_pool_t *pool)
{
    struct differences *differences = file;
    (void)value, (void)pool;
    if (strcmp(name, SVN_PROP_SPECIAL) == 0 || strcmp(name, SVN_PROP_EXECUTABLE) == 0)
        differences->differs = true;
    return SVN_NO_ERROR;
}

static svn_error_t *edit_close_file(void *file, const char *checksum, apr_pool_t *pool)
{
    struct differences *differences = file;
    (void)checksum, (void)pool;
    if (differences->differs)
        difference_add(differences, differences->node, DIFFERS_FILE);
    return SVN_NO_ERROR;
}

static svn_error_t *differences_collect(struct svn_source *svn, struct differences *differences,
    const struct source_ident *from, svn_revnum_t to, apr_pool_t *pool)
{
    svn_delta_editor_t *editor = svn_delta_default_editor(pool);
    const svn_ra_reporter3_t *reporter;
    void *report;
    editor->open_root = edit_root;
    editor->delete_entry = edit_delete;
    editor->add_directory = edit_add_folder;
    editor->open_directory = edit_open_folder;
    editor->add_file = edit_add_file;
    editor->open_file = edit_open_file;
    editor->apply_textdelta = edit_text;
    editor->change_file_prop = edit_prop;
    editor->close_file = edit_close_file;
    SVN_ERR(svn_ra_do_diff3(svn->session, &reporter, &report, to, "", svn_depth_infinity, TRUE, FALSE, svn->url, editor,
        differences, pool));
    svn_revnum_t base = from != NULL ? (svn_revnum_t)from->rev : to;
    SVN_ERR(reporter->set_path(report, "", base, svn_depth_infinity, from == NULL, NULL, pool));
    return reporter->finish_report(report, pool);
}

struct walk {
    struct svn_source *svn;
    struct sink *sink;
    struct err *err;
    bool stopped;
};

static svn_error_t *walk_stop(struct walk *walk)
{
    walk->stopped = true;
    return svn_error_create(SVN_ERR_CANCELLED, NULL, NULL);
}

/* A file being fetched. The sink needs its length first, so the whole file is stored before, on disk if it is large. */
struct fetched {
    svn_stream_t *stream; /* reads what was fetched */
    uint64_t bytes, bytes_max;
};

static svn_error_t *fetched_write(void *context, const char *bytes, apr_size_t *len)
{
    struct fetched *fetched = context;
    if (*len > fetched->bytes_max - fetched->bytes)
        return svn_error_createf(
            SVN_ERR_INCORRECT_PARAMS, NULL, "a file is larger than %llu bytes", (unsigned long long)fetched->bytes_max);
    fetched->bytes += *len;
    return svn_stream_write(fetched->stream, bytes, len);
}

static svn_error_t *file_fetch(struct svn_source *svn, const char *path, svn_revnum_t rev, struct fetched *fetched,
    apr_hash_t **props, apr_pool_t *pool)
{
    svn_stream_t *in = svn_stream_create(fetched, pool);
    fetched->stream = svn_stream_buffered(pool);
    fetched->bytes = 0;
    svn_stream_set_write(in, fetched_write);
    return svn_ra_get_file(svn->session, path, rev, in, NULL, props, pool);
}

/* fetched_text: the whole content of a short file. */
static svn_error_t *fetched_text(struct fetched *fetched, struct str *out, apr_pool_t *pool)
{
    apr_size_t len = (apr_size_t)fetched->bytes;
    char *bytes = apr_palloc(pool, len + 1);
    SVN_ERR(svn_stream_read_full(fetched->stream, bytes, &len));
    *out = (struct str){ bytes, len };
    return SVN_NO_ERROR;
}

static svn_error_t *file_out(struct walk *walk, const char *path, svn_revnum_t rev, apr_pool_t *pool)
{
    apr_hash_t *props;
    struct fetched fetched = { .bytes_max = SOURCE_BYTES_MAX };
    struct str name = str_of(path), content = { 0 }, target;
    SVN_ERR(file_fetch(walk->svn, path, rev, &fetched, &props, pool));
    bool small = svn_hash_gets(props, SVN_PROP_SPECIAL) != NULL && fetched.bytes <= SVN_LINK_BYTES_MAX;
    if (small) {
        SVN_ERR(fetched_text(&fetched, &content, pool));
        if (svn_link(content, &target))
            return sink_link(walk->sink, name, target, walk->err) ? SVN_NO_ERROR : walk_stop(walk);
    }
    if (!sink_file(walk->sink, name, fetched.bytes, svn_hash_gets(props, SVN_PROP_EXECUTABLE) != NULL, walk->err))
        return walk_stop(walk);
    char *chunk = apr_palloc(pool, CHUNK);
    for (apr_size_t len = CHUNK; !small && len == CHUNK;) {
        SVN_ERR(svn_stream_read_full(fetched.stream, chunk, &len));
        if (!sink_write(walk->sink, (struct str){ chunk, len }, walk->err))
            return walk_stop(walk);
    }
    if (small && !sink_write(walk->sink, content, walk->err))
        return walk_stop(walk);
    return sink_end(walk->sink, walk->err) ? SVN_NO_ERROR : walk_stop(walk);
}

static int difference_compare(const void *a, const void *b)
{
    const struct difference *x = a, *y = b;
    int order = svn_path_compare_paths(x->path, y->path); /* a folder before its entries, as in a local walk */
    return order != 0 ? order : (int)x->kind - (int)y->kind;
}

static svn_error_t *differences_write(
    struct walk *walk, const struct differences *differences, svn_revnum_t rev, apr_pool_t *pool)
{
    apr_pool_t *each = svn_pool_create(pool);
    const struct difference *items = (const struct difference *)differences->items->elts;
    for (int i = 0; i < differences->items->nelts; i++) {
        bool good = true;
        svn_pool_clear(each);
        if (items[i].kind == DIFFERS_GONE)
            good = sink_remove(walk->sink, str_of(items[i].path), walk->err);
        else if (items[i].kind == DIFFERS_FOLDER)
            good = sink_folder(walk->sink, str_of(items[i].path), walk->err);
        else
            SVN_ERR(file_out(walk, items[i].path, rev, each));
        if (!good)
            return walk_stop(walk);
    }
    return SVN_NO_ERROR;
}

static svn_error_t *walk_run(struct walk *walk, const struct source_ident *from, svn_revnum_t to, apr_pool_t *pool)
{
    struct svn_source *svn = walk->svn;
    struct differences differences = { .items = apr_array_make(pool, 100, sizeof(struct difference)) };
    svn_node_kind_t is, was = svn_node_none;
    apr_hash_t *props, *entries;
    SVN_ERR(svn_session(svn));
    SVN_ERR(svn_ra_rev_proplist(svn->session, to, &props, pool));
    walk->sink->time_ms = svn_time(props);
    SVN_ERR(svn_ra_check_path(svn->session, "", to, &is, pool));
    if (from != NULL)
        SVN_ERR(svn_ra_check_path(svn->session, "", (svn_revnum_t)from->rev, &was, pool));
    if (is == svn_node_dir) {
        SVN_ERR(differences_collect(svn, &differences, was == svn_node_dir ? from : NULL, to, pool));
    } else if (was == svn_node_dir) {
        SVN_ERR(
            svn_ra_get_dir2(svn->session, &entries, NULL, NULL, "", (svn_revnum_t)from->rev, SVN_DIRENT_KIND, pool));
        for (apr_hash_index_t *i = apr_hash_first(pool, entries); i != NULL; i = apr_hash_next(i))
            difference_add(&differences, apr_hash_this_key(i), DIFFERS_GONE);
    }
    if (differences.items->nelts > 1)
        qsort(differences.items->elts, (size_t)differences.items->nelts, sizeof(struct difference), difference_compare);
    return differences_write(walk, &differences, to, pool);
}

static bool served_walk(
    struct source *source, const struct source_ident *from, struct source_ident to, struct sink *sink, struct err *err)
{
    struct walk walk = { .svn = svn_of(source), .sink = sink, .err = err };
    apr_pool_t *pool = svn_pool_create(walk.svn->pool);
    svn_error_t *fault = svn_session_end(walk.svn, walk_run(&walk, from, (svn_revnum_t)to.rev, pool));
    svn_pool_destroy(pool);
    if (walk.stopped) {
        svn_error_clear(fault);
        return false;
    }
    return fault == NULL || svn_fail(walk.svn, fault, err, "exporting revision %lld", (long long)to.rev);
}

/* --- workflow files --- */

static int name_compare(const void *a, const void *b)
{
    const char *const *x = a, *const *y = b;
    return strcmp(*x, *y);
}

static svn_error_t *workflow_read(struct svn_source *svn, struct workflows_list *list, const char *name,
    const svn_dirent_t *entry, svn_revnum_t rev, apr_pool_t *pool)
{
    struct fetched fetched = { .bytes_max = SOURCE_BYTES_MAX };
    struct str shown = str_of(name), text;
    apr_hash_t *props;
    if (entry->kind != svn_node_file) {
        workflows_fault(list, shown, workflows_kind_fault);
        return SVN_NO_ERROR;
    }
    if (!workflows_fits(list, shown, (uint64_t)entry->size))
        return SVN_NO_ERROR;
    SVN_ERR(file_fetch(svn, svn_relpath_join(WORKFLOWS_FOLDER, name, pool), rev, &fetched, &props, pool));
    if (svn_hash_gets(props, SVN_PROP_SPECIAL) != NULL) {
        workflows_fault(list, shown, workflows_link_fault);
        return SVN_NO_ERROR;
    }
    if (!workflows_fits(list, shown, fetched.bytes))
        return SVN_NO_ERROR;
    SVN_ERR(fetched_text(&fetched, &text, pool));
    workflows_add(list, shown, str_dup(list->arena, text));
    return SVN_NO_ERROR;
}

static svn_error_t *folder_read(struct svn_source *svn, struct workflows_list *list, svn_revnum_t rev, apr_pool_t *pool)
{
    apr_hash_t *entries;
    size_t n = 0;
    SVN_ERR(svn_ra_get_dir2(
        svn->session, &entries, NULL, NULL, WORKFLOWS_FOLDER, rev, SVN_DIRENT_KIND | SVN_DIRENT_SIZE, pool));
    const char **names = apr_palloc(pool, sizeof *names * (apr_hash_count(entries) + 1));
    for (apr_hash_index_t *i = apr_hash_first(pool, entries); i != NULL; i = apr_hash_next(i))
        names[n++] = apr_hash_this_key(i);
    if (n > 1)
        qsort(names, n, sizeof *names, name_compare);
    apr_pool_t *each = svn_pool_create(pool);
    for (size_t i = 0; i < n; i++) {
        svn_pool_clear(each);
        if (workflows_wants(list, str_of(names[i])))
            SVN_ERR(workflow_read(svn, list, names[i], svn_hash_gets(entries, names[i]), rev, each));
    }
    return SVN_NO_ERROR;
}

/* content_hash: a hash of the files that were read. Below the repository's root the number of the last change doesn't
 * identify the content: the folder above may have been replaced by a copy of another one. */
static svn_error_t *content_hash(
    struct arena *arena, const struct workflows_list *list, struct str *out, apr_pool_t *pool)
{
    svn_checksum_ctx_t *context = svn_checksum_ctx_create(svn_checksum_sha1, pool);
    svn_checksum_t *checksum;
    for (size_t i = 0; i < list->n_files; i++) {
        struct str head = str_fmt(arena, "%.*s %zu\n", STR_ARG(list->files[i].name), list->files[i].text.len);
        SVN_ERR(svn_checksum_update(context, head.ptr, head.len));
        SVN_ERR(svn_checksum_update(context, list->files[i].text.ptr, list->files[i].text.len));
    }
    struct str faults = buf_str(&list->faults);
    SVN_ERR(svn_checksum_update(context, faults.len > 0 ? faults.ptr : "", faults.len));
    SVN_ERR(svn_checksum_final(&checksum, context, pool));
    *out = str_dup(arena, str_of(svn_checksum_to_cstring_display(checksum, pool)));
    return SVN_NO_ERROR;
}

static svn_error_t *workflows_read(struct svn_source *svn, struct arena *arena, svn_revnum_t rev, struct str known,
    struct source_workflows *out, struct workflows_list *list, apr_pool_t *pool)
{
    svn_dirent_t *folder;
    *out = (struct source_workflows){ .content = STR("-") };
    SVN_ERR(svn_session(svn));
    SVN_ERR(svn_ra_stat(svn->session, WORKFLOWS_FOLDER, rev, &folder, pool));
    if (folder != NULL && svn->root[0] == '\0')
        out->content = str_fmt(arena, "r%ld", folder->created_rev);
    out->same = known.len > 0 && str_eq(known, out->content);
    if (out->same || folder == NULL)
        return SVN_NO_ERROR;
    if (folder->kind != svn_node_dir)
        workflows_fault(list, (struct str){ 0 }, workflows_folder_fault);
    else
        SVN_ERR(folder_read(svn, list, rev, pool));
    return svn->root[0] == '\0' ? SVN_NO_ERROR : content_hash(arena, list, &out->content, pool);
}

static bool served_workflows(struct source *source, struct arena *arena, struct source_ident ident, struct str known,
    struct source_workflows *out, struct err *err)
{
    struct svn_source *svn = svn_of(source);
    struct workflows_list list;
    struct source_workflows found;
    apr_pool_t *pool = svn_pool_create(svn->pool);
    workflows_init(&list, arena);
    svn_error_t *fault =
        svn_session_end(svn, workflows_read(svn, arena, (svn_revnum_t)ident.rev, known, &found, &list, pool));
    workflows_give(&list, &found);
    svn_pool_destroy(pool);
    if (fault != NULL)
        return svn_fail(svn, fault, err, "reading " WORKFLOWS_FOLDER " of revision %lld", (long long)ident.rev);
    if (!found.same && known.len > 0 && str_eq(known, found.content)) /* the hash is known only after reading */
        found = (struct source_workflows){ .content = found.content, .same = true };
    *out = found;
    return true;
}

static const struct source_ops svn_served_ops = {
    .close = svn_close,
    .youngest = served_youngest,
    .revision = served_revision,
    .workflows = served_workflows,
    .walk = served_walk,
};

static svn_error_t *served_open(struct svn_source *svn, svn_node_kind_t *out_kind, apr_pool_t *pool)
{
    const char *root, *uuid;
    svn_revnum_t youngest;
    SVN_ERR(svn_session(svn));
    SVN_ERR(svn_ra_get_repos_root2(svn->session, &root, pool));
    SVN_ERR(svn_ra_get_uuid2(svn->session, &uuid, svn->pool));
    SVN_ERR(svn_ra_get_latest_revnum(svn->session, &youngest, pool));
    SVN_ERR(svn_ra_check_path(svn->session, "", youngest, out_kind, pool));
    const char *below = svn_uri_skip_ancestor(root, svn->url, svn->pool);
    svn->root = below != NULL ? below : "";
    svn->base.uuid = str_of(uuid);
    return SVN_NO_ERROR;
}

struct source *source_svn_served_open(struct str url, struct err *err)
{
    static const char *const schemes[] = { "svn://", "svn+ssh://", "http://", "https://" };
    struct svn_source *svn = svn_new(&svn_served_ops, false);
    const char *text = str_dupz(&svn->base.arena, url);
    svn_node_kind_t kind = svn_node_none;
    bool known = false;
    svn->base.place = str_of(text);
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++)
        known = known || str_starts(url, str_of(schemes[i]));
    svn->url = svn_uri_canonicalize(text, svn->pool);
    apr_pool_t *pool = svn_pool_create(svn->pool);
    svn_error_t *fault = known ? served_open(svn, &kind, pool) : NULL;
    svn_pool_destroy(pool);
    if (!known)
        err_set(err, ERR_invalid,
            "%s: a Subversion repository is a path, or a URL with file, svn, svn+ssh, http or https", text);
    else if (fault != NULL)
        svn_fail(svn, fault, err, "opening the repository");
    else if (kind != svn_node_dir)
        err_set(err, ERR_not_found, "%s: the repository has no folder '%s' in its youngest revision", text, svn->root);
    else
        return &svn->base;
    svn_close(&svn->base);
    return NULL;
}
