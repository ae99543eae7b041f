/* apply_svn_local: change sets into a Subversion repository whose folder is here, through libsvn_repos: its commit
 * editor runs the hooks start-commit, pre-commit and post-commit as for anybody's commit.
 *
 * A process that is killed leaves a transaction that nobody commits; the file system's locks are the kernel's and go
 * with the process. Transactions of ours that are a day old are removed at the next commit.
 *
 * Fails as apply.h says. */
#include "source/apply_svn.h"

#include <string.h>
#include <time.h>

#define STALE_S (24 * 3600)
#define ANY_URL "file:///weir" /* the editor wants an address in front of the paths of copies, and never opens it */

static const char *path_of(struct svn_source *svn, struct str path, apr_pool_t *pool)
{
    const char *z = apr_pstrmemdup(pool, path.len > 0 ? path.ptr : "", path.len);
    return svn_relpath_join(svn->root, z, pool);
}

static svn_error_t *file_read(
    svn_fs_root_t *root, const char *path, bool want, struct arena *arena, struct apply_node *out, apr_pool_t *pool)
{
    svn_string_t *special = NULL, *executable = NULL;
    svn_filesize_t length = 0;
    struct str content = { 0 };
    SVN_ERR(svn_fs_node_prop(&special, root, path, SVN_PROP_SPECIAL, pool));
    SVN_ERR(svn_fs_node_prop(&executable, root, path, SVN_PROP_EXECUTABLE, pool));
    SVN_ERR(svn_fs_file_length(&length, root, path, pool));
    bool large = length > (svn_filesize_t)APPLY_MERGE_BYTES_MAX;
    if (want && !large) {
        svn_stream_t *stream;
        apr_size_t len = (apr_size_t)length;
        char *bytes = arena_alloc(arena, len + 1);
        SVN_ERR(svn_fs_file_contents(&stream, root, path, pool));
        SVN_ERR(svn_stream_read_full(stream, bytes, &len));
        SVN_ERR(svn_stream_close(stream));
        content = (struct str){ bytes, len };
    }
    apply_svn_node(special != NULL, executable != NULL, content, want && !large, out);
    out->too_large = large;
    return SVN_NO_ERROR;
}

static svn_error_t *node_read(struct svn_source *svn, svn_revnum_t rev, struct str path, bool want, struct arena *arena,
    struct apply_node *out, apr_pool_t *pool)
{
    svn_fs_root_t *root;
    svn_node_kind_t kind;
    const char *full = path_of(svn, path, pool);
    *out = (struct apply_node){ 0 };
    SVN_ERR(svn_fs_revision_root(&root, svn->fs, rev, pool));
    SVN_ERR(svn_fs_check_path(&kind, root, full, pool));
    if (kind == svn_node_dir)
        out->kind = APPLY_FOLDER;
    return kind == svn_node_file ? file_read(root, full, want, arena, out, pool) : SVN_NO_ERROR;
}

static bool local_node(struct apply *apply, struct arena *arena, struct source_ident at, struct str path, bool want,
    struct apply_node *out, struct err *err)
{
    struct svn_source *svn = apply_svn_of(apply);
    apr_pool_t *pool = svn_pool_create(svn->pool);
    svn_error_t *fault = node_read(svn, (svn_revnum_t)at.rev, path, want, arena, out, pool);
    svn_pool_destroy(pool);
    return fault == NULL || apply_svn_fail(apply, fault, err, "reading a file");
}

static svn_error_t *names_read(struct svn_source *svn, svn_revnum_t rev, struct str path, struct arena *arena,
    struct str **out, size_t *out_n, apr_pool_t *pool)
{
    svn_fs_root_t *root;
    apr_hash_t *entries;
    size_t n = 0;
    SVN_ERR(svn_fs_revision_root(&root, svn->fs, rev, pool));
    SVN_ERR(svn_fs_dir_entries(&entries, root, path_of(svn, path, pool), pool));
    struct str *names = ARENA_ARRAY(arena, struct str, apr_hash_count(entries) + 1);
    for (apr_hash_index_t *i = apr_hash_first(pool, entries); i != NULL; i = apr_hash_next(i))
        names[n++] = str_dup(arena, str_of(apr_hash_this_key(i)));
    *out = names;
    *out_n = n;
    return SVN_NO_ERROR;
}

static bool local_list(struct apply *apply, struct arena *arena, struct source_ident at, struct str path,
    struct str **out, size_t *out_n, struct err *err)
{
    struct svn_source *svn = apply_svn_of(apply);
    apr_pool_t *pool = svn_pool_create(svn->pool);
    svn_error_t *fault = names_read(svn, (svn_revnum_t)at.rev, path, arena, out, out_n, pool);
    svn_pool_destroy(pool);
    return fault == NULL || apply_svn_fail(apply, fault, err, "reading a folder");
}

/* changed_find: a node knows the revision that made it, a folder's is the last one of anything below it. A path that is
 * gone may have come and gone several times: the revisions before are asked one by one, so many at most. */
static svn_error_t *changed_find(
    struct svn_source *svn, struct str path, svn_revnum_t after, svn_revnum_t upto, svn_revnum_t *out, apr_pool_t *pool)
{
    svn_fs_root_t *root;
    svn_node_kind_t kind;
    const char *full = path_of(svn, path, pool);
    *out = SVN_INVALID_REVNUM;
    SVN_ERR(svn_fs_revision_root(&root, svn->fs, upto, pool));
    SVN_ERR(svn_fs_check_path(&kind, root, full, pool));
    if (kind != svn_node_none)
        return svn_fs_node_created_rev(out, root, full, pool);
    apr_pool_t *each = svn_pool_create(pool);
    svn_revnum_t stop = upto - after > APPLY_SVN_SEARCH_MAX ? upto - APPLY_SVN_SEARCH_MAX : after;
    for (svn_revnum_t rev = upto; rev > stop && kind == svn_node_none; rev--) {
        svn_pool_clear(each);
        SVN_ERR(svn_fs_revision_root(&root, svn->fs, rev - 1, each));
        SVN_ERR(svn_fs_check_path(&kind, root, full, each));
        if (kind != svn_node_none)
            *out = rev;
    }
    return SVN_NO_ERROR;
}

static bool local_last_change(struct apply *apply, struct arena *arena, struct str path, struct source_ident after,
    struct source_ident upto, bool *out_found, struct source_ident *out, struct err *err)
{
    struct svn_source *svn = apply_svn_of(apply);
    svn_revnum_t rev = SVN_INVALID_REVNUM;
    apr_pool_t *pool = svn_pool_create(svn->pool);
    (void)arena;
    svn_error_t *fault = upto.rev > after.rev
                             ? changed_find(svn, path, (svn_revnum_t)after.rev, (svn_revnum_t)upto.rev, &rev, pool)
                             : NULL;
    svn_pool_destroy(pool);
    if (fault != NULL)
        return apply_svn_fail(apply, fault, err, "reading a path's history");
    *out_found = rev > after.rev;
    *out = (struct source_ident){ .rev = rev };
    return true;
}

static bool local_revision(
    struct apply *apply, struct arena *arena, struct source_ident ident, struct apply_revision *out, struct err *err)
{
    struct svn_source *svn = apply_svn_of(apply);
    apr_hash_t *props = NULL;
    apr_pool_t *pool = svn_pool_create(svn->pool);
    /* refresh: another process may have committed it a moment ago */
    svn_error_t *fault = svn_fs_revision_proplist2(&props, svn->fs, (svn_revnum_t)ident.rev, TRUE, pool, pool);
    if (fault == NULL)
        apply_svn_describe(arena, props, (svn_revnum_t)ident.rev, out);
    svn_pool_destroy(pool);
    return fault == NULL || apply_svn_fail(apply, fault, err, "reading a revision's properties");
}

static bool local_walk(
    struct apply *apply, struct source_ident from, const struct apply_visitor *visitor, struct err *err)
{
    struct arena arena = { 0 };
    struct source_ident youngest = { 0 }, at = from;
    bool good = source_youngest(apply->source, &arena, &youngest, err), more = true;
    for (at.rev++; good && more && at.rev <= youngest.rev; at.rev++) {
        struct apply_revision revision;
        arena_reset(&arena);
        good = local_revision(apply, &arena, at, &revision, err);
        more = good && visitor->visit(visitor->context, &revision);
    }
    arena_release(&arena);
    return good;
}

/* stale_purge: transactions that killed processes of ours left. A young one may be another executor's at work. */
static svn_error_t *stale_purge(struct svn_source *svn, apr_pool_t *pool)
{
    apr_array_header_t *names;
    SVN_ERR(svn_fs_list_transactions(&names, svn->fs, pool));
    for (int i = 0; i < names->nelts; i++) {
        const char *name = ((const char **)names->elts)[i];
        svn_fs_txn_t *txn;
        apr_hash_t *props;
        svn_error_t *fault = svn_fs_open_txn(&txn, svn->fs, name, pool);
        if (fault == NULL)
            fault = svn_fs_txn_proplist(&props, txn, pool);
        int64_t made_ms = fault == NULL ? svn_time(props) : 0;
        if (fault == NULL && svn_hash_gets(props, "weir:csid") != NULL && made_ms > 0 &&
            made_ms / 1000 + STALE_S < (int64_t)time(NULL))
            fault = svn_fs_purge_txn(svn->fs, name, pool);
        svn_error_clear(fault); /* another process may have committed or removed it just now */
    }
    return SVN_NO_ERROR;
}

static svn_error_t *commit_run(struct apply_svn_drive *drive, const struct apply_identity *identity,
    struct apply_svn_answer *answer, apr_pool_t *pool)
{
    struct svn_source *svn = apply_svn_of(drive->plan->apply);
    apr_hash_t *props = apply_svn_props(drive->plan, identity, true, pool);
    const svn_string_t *author = svn_hash_gets(props, SVN_PROP_REVISION_AUTHOR);
    svn_fs_access_t *access;
    SVN_ERR(stale_purge(svn, pool));
    SVN_ERR(svn_repos_hooks_setenv(svn->repos, NULL, pool)); /* what conf/hooks-env says, as svnserve does */
    SVN_ERR(svn_fs_create_access(&access, author != NULL ? author->data : "weir", pool));
    SVN_ERR(svn_fs_set_access(svn->fs, access));
    SVN_ERR(svn_repos_get_commit_editor5(&drive->editor, &drive->edit, svn->repos, NULL, ANY_URL,
        apr_pstrcat(pool, "/", svn->root, SVN_VA_NULL), props, apply_svn_committed, answer, NULL, NULL, pool));
    drive->url = svn_path_url_add_component2(ANY_URL, svn->root, pool);
    svn_error_t *fault = apply_svn_drive(drive, pool);
    if (fault == NULL)
        return drive->editor->close_edit(drive->edit, pool);
    svn_error_clear(drive->editor->abort_edit(drive->edit, pool));
    return fault;
}

static bool local_commit(
    struct apply_plan *plan, const struct apply_identity *identity, struct apply_commit_end *out, struct err *err)
{
    struct svn_source *svn = apply_svn_of(plan->apply);
    struct apply_svn_drive drive = { .plan = plan, .err = err };
    struct apply_svn_answer answer = { 0 };
    apr_pool_t *pool = svn_pool_create(svn->pool);
    svn_error_t *fault = commit_run(&drive, identity, &answer, pool);
    bool good = apply_svn_end(&drive, fault, &answer, out, err);
    svn_error_clear(svn_fs_set_access(svn->fs, NULL)); /* it lives in the pool */
    svn_pool_destroy(pool);
    return good;
}

static const struct apply_ops ops = {
    .close = apply_svn_close,
    .node = local_node,
    .list = local_list,
    .last_change = local_last_change,
    .revision = local_revision,
    .walk = local_walk,
    .commit = local_commit,
};

struct apply *apply_svn_local_new(struct source *source)
{
    return apply_svn_new(&ops, source);
}
