/* apply_svn_served: change sets into a Subversion repository behind a server, through the commit editor of libsvn_ra.
 *
 * The server sets the author (the account that weir's user has there); weir:submitter names the submitter. If the
 * connection is lost while the server commits, nobody here knows the outcome: the failure is temporary, and the next
 * attempt looks for the CSID first.
 *
 * Fails as apply.h says. */
#include "source/apply_svn.h"

#include <string.h>

struct content {
    struct arena *arena;
    struct buf bytes;
    bool too_large;
};

static const char *path_of(struct str path, apr_pool_t *pool)
{
    return apr_pstrmemdup(pool, path.len > 0 ? path.ptr : "", path.len);
}

static svn_error_t *content_write(void *context, const char *bytes, apr_size_t *len)
{
    struct content *content = context;
    buf_add(&content->bytes, bytes, *len); /* beyond its cap: dropped, the connection stays in step */
    return SVN_NO_ERROR;
}

static svn_error_t *node_read(struct svn_source *svn, svn_revnum_t rev, const char *path, bool want,
    struct content *content, struct apply_node *out, apr_pool_t *pool)
{
    svn_node_kind_t kind;
    apr_hash_t *props;
    *out = (struct apply_node){ 0 };
    SVN_ERR(svn_session(svn));
    SVN_ERR(svn_ra_check_path(svn->session, path, rev, &kind, pool));
    if (kind == svn_node_dir)
        out->kind = APPLY_FOLDER;
    if (kind != svn_node_file)
        return SVN_NO_ERROR;
    svn_stream_t *in = svn_stream_create(content, pool);
    svn_stream_set_write(in, content_write);
    SVN_ERR(svn_ra_get_file(svn->session, path, rev, want ? in : NULL, NULL, &props, pool));
    bool has = want && !content->bytes.full;
    apply_svn_node(svn_hash_gets(props, SVN_PROP_SPECIAL) != NULL, svn_hash_gets(props, SVN_PROP_EXECUTABLE) != NULL,
        has ? str_dup(content->arena, buf_str(&content->bytes)) : (struct str){ 0 }, has, out);
    out->too_large = content->bytes.full;
    return SVN_NO_ERROR;
}

static bool served_node(struct apply *apply, struct arena *arena, struct source_ident at, struct str path, bool want,
    struct apply_node *out, struct err *err)
{
    struct svn_source *svn = apply_svn_of(apply);
    struct content content = { .arena = arena };
    apr_pool_t *pool = svn_pool_create(svn->pool);
    buf_init(&content.bytes, APPLY_MERGE_BYTES_MAX);
    svn_error_t *fault =
        svn_session_end(svn, node_read(svn, (svn_revnum_t)at.rev, path_of(path, pool), want, &content, out, pool));
    buf_release(&content.bytes);
    svn_pool_destroy(pool);
    return fault == NULL || apply_svn_fail(apply, fault, err, "reading a file");
}

static svn_error_t *names_read(struct svn_source *svn, svn_revnum_t rev, const char *path, struct arena *arena,
    struct str **out, size_t *out_n, apr_pool_t *pool)
{
    apr_hash_t *entries;
    size_t n = 0;
    SVN_ERR(svn_session(svn));
    SVN_ERR(svn_ra_get_dir2(svn->session, &entries, NULL, NULL, path, rev, SVN_DIRENT_KIND, pool));
    struct str *names = ARENA_ARRAY(arena, struct str, apr_hash_count(entries) + 1);
    for (apr_hash_index_t *i = apr_hash_first(pool, entries); i != NULL; i = apr_hash_next(i))
        names[n++] = str_dup(arena, str_of(apr_hash_this_key(i)));
    *out = names;
    *out_n = n;
    return SVN_NO_ERROR;
}

static bool served_list(struct apply *apply, struct arena *arena, struct source_ident at, struct str path,
    struct str **out, size_t *out_n, struct err *err)
{
    struct svn_source *svn = apply_svn_of(apply);
    apr_pool_t *pool = svn_pool_create(svn->pool);
    svn_error_t *fault =
        svn_session_end(svn, names_read(svn, (svn_revnum_t)at.rev, path_of(path, pool), arena, out, out_n, pool));
    svn_pool_destroy(pool);
    return fault == NULL || apply_svn_fail(apply, fault, err, "reading a folder");
}

static svn_error_t *changed_find(struct svn_source *svn, const char *path, svn_revnum_t after, svn_revnum_t upto,
    svn_revnum_t *out, apr_pool_t *pool)
{
    svn_dirent_t *entry;
    *out = SVN_INVALID_REVNUM;
    SVN_ERR(svn_session(svn));
    SVN_ERR(svn_ra_stat(svn->session, path, upto, &entry, pool));
    if (entry != NULL) {
        *out = entry->created_rev;
        return SVN_NO_ERROR;
    }
    apr_pool_t *each = svn_pool_create(pool);
    svn_revnum_t stop = upto - after > APPLY_SVN_SEARCH_MAX ? upto - APPLY_SVN_SEARCH_MAX : after;
    svn_node_kind_t kind = svn_node_none;
    for (svn_revnum_t rev = upto; rev > stop && kind == svn_node_none; rev--) {
        svn_pool_clear(each);
        SVN_ERR(svn_ra_check_path(svn->session, path, rev - 1, &kind, each));
        if (kind != svn_node_none)
            *out = rev;
    }
    return SVN_NO_ERROR;
}

static bool served_last_change(struct apply *apply, struct arena *arena, struct str path, struct source_ident after,
    struct source_ident upto, bool *out_found, struct source_ident *out, struct err *err)
{
    struct svn_source *svn = apply_svn_of(apply);
    svn_revnum_t rev = SVN_INVALID_REVNUM;
    apr_pool_t *pool = svn_pool_create(svn->pool);
    (void)arena;
    svn_error_t *fault = NULL;
    if (upto.rev > after.rev)
        fault = svn_session_end(
            svn, changed_find(svn, path_of(path, pool), (svn_revnum_t)after.rev, (svn_revnum_t)upto.rev, &rev, pool));
    svn_pool_destroy(pool);
    if (fault != NULL)
        return apply_svn_fail(apply, fault, err, "reading a path's history");
    *out_found = rev > after.rev;
    *out = (struct source_ident){ .rev = rev };
    return true;
}

static bool served_revision(
    struct apply *apply, struct arena *arena, struct source_ident ident, struct apply_revision *out, struct err *err)
{
    struct svn_source *svn = apply_svn_of(apply);
    apr_hash_t *props = NULL;
    apr_pool_t *pool = svn_pool_create(svn->pool);
    svn_error_t *fault = svn_session(svn);
    if (fault == NULL)
        fault = svn_ra_rev_proplist(svn->session, (svn_revnum_t)ident.rev, &props, pool);
    fault = svn_session_end(svn, fault);
    if (fault == NULL)
        apply_svn_describe(arena, props, (svn_revnum_t)ident.rev, out);
    svn_pool_destroy(pool);
    return fault == NULL || apply_svn_fail(apply, fault, err, "reading a revision's properties");
}

/* --- history: one log for all revisions --- */

struct history {
    const struct apply_visitor *visitor;
    struct arena arena;
    bool stopped;
};

static svn_error_t *entry_take(void *context, svn_log_entry_t *entry, apr_pool_t *pool)
{
    struct history *history = context;
    struct apply_revision revision;
    if (history->stopped || entry->revision <= 0)
        return SVN_NO_ERROR; /* the rest is read and dropped: the connection stays in step */
    arena_reset(&history->arena);
    apply_svn_describe(
        &history->arena, entry->revprops != NULL ? entry->revprops : apr_hash_make(pool), entry->revision, &revision);
    history->stopped = !history->visitor->visit(history->visitor->context, &revision);
    return SVN_NO_ERROR;
}

static svn_error_t *history_read(struct svn_source *svn, svn_revnum_t from, struct history *history, apr_pool_t *pool)
{
    svn_revnum_t youngest;
    SVN_ERR(svn_session(svn));
    SVN_ERR(svn_ra_get_latest_revnum(svn->session, &youngest, pool));
    if (from >= youngest)
        return SVN_NO_ERROR;
    const char *root;
    SVN_ERR(svn_ra_get_repos_root2(svn->session, &root, pool));
    /* of the whole repository: a folder's log ends where the folder was copied or replaced */
    SVN_ERR(svn_ra_reparent(svn->session, root, pool));
    svn_error_t *fault = svn_ra_get_log2(
        svn->session, NULL, from + 1, youngest, 0, FALSE, FALSE, FALSE, NULL, entry_take, history, pool);
    if (fault != NULL && svn_is_lost(fault))
        return fault;
    return svn_error_compose_create(fault, svn_ra_reparent(svn->session, svn->url, pool));
}

static bool served_walk(
    struct apply *apply, struct source_ident from, const struct apply_visitor *visitor, struct err *err)
{
    struct svn_source *svn = apply_svn_of(apply);
    struct history history = { .visitor = visitor };
    apr_pool_t *pool = svn_pool_create(svn->pool);
    svn_error_t *fault = svn_session_end(svn, history_read(svn, (svn_revnum_t)from.rev, &history, pool));
    svn_pool_destroy(pool);
    arena_release(&history.arena);
    return fault == NULL || apply_svn_fail(apply, fault, err, "reading the history");
}

static svn_error_t *commit_run(struct apply_svn_drive *drive, const struct apply_identity *identity,
    struct apply_svn_answer *answer, apr_pool_t *pool)
{
    struct svn_source *svn = apply_svn_of(drive->plan->apply);
    SVN_ERR(svn_session(svn));
    SVN_ERR(svn_ra_get_commit_editor3(svn->session, &drive->editor, &drive->edit,
        apply_svn_props(drive->plan, identity, false, pool), apply_svn_committed, answer, NULL, FALSE, pool));
    drive->url = svn->url;
    svn_error_t *fault = apply_svn_drive(drive, pool);
    if (fault == NULL)
        return drive->editor->close_edit(drive->edit, pool);
    svn_error_clear(drive->editor->abort_edit(drive->edit, pool));
    return fault;
}

static bool served_commit(
    struct apply_plan *plan, const struct apply_identity *identity, struct apply_commit_end *out, struct err *err)
{
    struct svn_source *svn = apply_svn_of(plan->apply);
    struct apply_svn_drive drive = { .plan = plan, .err = err };
    struct apply_svn_answer answer = { 0 };
    apr_pool_t *pool = svn_pool_create(svn->pool);
    svn_error_t *fault = svn_session_end(svn, commit_run(&drive, identity, &answer, pool));
    if (fault != NULL)
        svn->session = NULL; /* it may be amid the edit; the next call opens another */
    bool good = apply_svn_end(&drive, fault, &answer, out, err);
    svn_pool_destroy(pool);
    return good;
}

static const struct apply_ops ops = {
    .close = apply_svn_close,
    .node = served_node,
    .list = served_list,
    .last_change = served_last_change,
    .revision = served_revision,
    .walk = served_walk,
    .commit = served_commit,
};

struct apply *apply_svn_served_new(struct source *source)
{
    return apply_svn_new(&ops, source);
}
