/* apply_svn: a plan driven into a commit editor, and what the repository's refusals mean.
 *
 * Out of date, already there and not there are all one: somebody committed since the head was read, so the caller plans
 * again. A refusal of start-commit or pre-commit ends the change set; its words are the hook's. Locks of other users,
 * permissions, a full or read-only disk are temporary.
 *
 * A link is a file with svn:special whose content begins with "link ": nodes have the bare target. */
#include "source/apply_svn.h"

#include <errno.h>
#include <string.h>

#define WORDS_BYTES_MAX 3000

struct apply *apply_svn_new(const struct apply_ops *ops, struct source *source)
{
    struct apply_svn *svn = mem_alloc_zero(sizeof *svn);
    svn->base.ops = ops;
    svn->svn = svn_of(source);
    return &svn->base;
}

void apply_svn_close(struct apply *apply)
{
    mem_free(apply);
}

static const svn_string_t *string_of(struct str text, apr_pool_t *pool)
{
    return svn_string_ncreate(text.len > 0 ? text.ptr : "", text.len, pool);
}

apr_hash_t *apply_svn_props(
    struct apply_plan *plan, const struct apply_identity *identity, bool author, apr_pool_t *pool)
{
    struct apply_field fields[APPLY_FIELDS];
    size_t n = apply_fields(plan->arena, identity, fields);
    apr_hash_t *props = apr_hash_make(pool);
    struct str message = source_text(plan->arena, identity->message, APPLY_MESSAGE_BYTES_MAX);
    svn_hash_sets(props, SVN_PROP_REVISION_LOG, string_of(message, pool));
    for (size_t i = 0; i < n; i++)
        svn_hash_sets(props, fields[i].property, string_of(fields[i].value, pool));
    struct str name = source_line(plan->arena, identity->submitter, APPLY_LINE_BYTES_MAX);
    if (author && name.len > 0)
        svn_hash_sets(props, SVN_PROP_REVISION_AUTHOR, string_of(name, pool));
    return props;
}

/* --- the drive --- */

static bool is_file(enum apply_kind kind)
{
    return kind == APPLY_FILE || kind == APPLY_LINK;
}

static svn_error_t *content_send(
    struct apply_svn_drive *drive, const struct apply_edit *edit, void *file, apr_pool_t *pool)
{
    svn_txdelta_window_handler_t handler;
    void *window;
    struct str content;
    SVN_ERR(drive->editor->apply_textdelta(file, NULL, pool, &handler, &window));
    if (!apply_edit_read(drive->plan, edit, &content, drive->err)) {
        drive->failed = true;
        return svn_error_create(SVN_ERR_CANCELLED, NULL, NULL);
    }
    svn_error_t *fault;
    if (edit->after == APPLY_LINK) {
        struct str link = str_fmt(drive->plan->arena, "link %.*s", STR_ARG(content));
        fault = svn_txdelta_send_string(string_of(link, pool), handler, window, pool);
    } else {
        static const unsigned char none[1];
        const unsigned char *bytes = content.len > 0 ? (const unsigned char *)content.ptr : none;
        fault = svn_txdelta_send_contents(bytes, content.len, handler, window, pool);
    }
    apply_edit_done(edit, content);
    return fault;
}

static svn_error_t *file_send(struct apply_svn_drive *drive, const struct apply_edit *edit, bool added, void *parent,
    const char *path, apr_pool_t *pool)
{
    const svn_delta_editor_t *editor = drive->editor;
    void *file;
    bool was_executable = edit->was_executable, was_link = edit->before == APPLY_LINK;
    const svn_string_t *star = svn_string_create("*", pool);
    if (!added) {
        SVN_ERR(editor->open_file(path, parent, (svn_revnum_t)drive->plan->head.rev, pool, &file));
    } else if (edit->restored) { /* with its history and all its properties */
        SVN_ERR(editor->add_file(path, parent, svn_path_url_add_component2(drive->url, path, pool),
            (svn_revnum_t)edit->restored_at.rev, pool, &file));
        was_executable = edit->executable;
        was_link = edit->after == APPLY_LINK;
    } else {
        SVN_ERR(editor->add_file(path, parent, NULL, SVN_INVALID_REVNUM, pool, &file));
        was_executable = was_link = false;
    }
    if (edit->executable != was_executable)
        SVN_ERR(editor->change_file_prop(file, SVN_PROP_EXECUTABLE, edit->executable ? star : NULL, pool));
    if ((edit->after == APPLY_LINK) != was_link)
        SVN_ERR(editor->change_file_prop(file, SVN_PROP_SPECIAL, was_link ? NULL : star, pool));
    SVN_ERR(content_send(drive, edit, file, pool));
    return editor->close_file(file, NULL, pool);
}

static svn_error_t *path_send(void **out_folder, const svn_delta_editor_t *editor, void *edit_baton, void *parent,
    void *context, const char *path, apr_pool_t *pool)
{
    struct apply_svn_drive *drive = context;
    const struct apply_edit *edit = smap_find(&drive->plan->index, str_of(path));
    (void)edit_baton;
    bool stays = (is_file(edit->before) && is_file(edit->after)) ||
                 (edit->before == APPLY_FOLDER && edit->after == APPLY_FOLDER && !edit->fresh);
    if (edit->before != APPLY_ABSENT && !stays)
        SVN_ERR(editor->delete_entry(path, (svn_revnum_t)drive->plan->head.rev, parent, pool));
    if (edit->after == APPLY_FOLDER && !stays)
        return editor->add_directory(path, parent, NULL, SVN_INVALID_REVNUM, pool, out_folder);
    if (is_file(edit->after))
        return file_send(drive, edit, !stays, parent, path, pool);
    return SVN_NO_ERROR;
}

svn_error_t *apply_svn_drive(struct apply_svn_drive *drive, apr_pool_t *pool)
{
    struct apply_plan *plan = drive->plan;
    apr_array_header_t *paths = apr_array_make(pool, (int)plan->n_edits, sizeof(const char *));
    for (size_t i = 0; i < plan->n_edits; i++)
        *(const char **)apr_array_push(paths) = str_dupz(plan->arena, plan->edits[i]->path);
    if (plan->n_edits == 0) { /* a rollback of revisions that changed nothing */
        void *root;
        SVN_ERR(drive->editor->open_root(drive->edit, (svn_revnum_t)plan->head.rev, pool, &root));
        return drive->editor->close_directory(root, pool);
    }
    return svn_delta_path_driver3(drive->editor, drive->edit, paths, FALSE, path_send, drive, pool);
}

/* --- answers --- */

svn_error_t *apply_svn_committed(const svn_commit_info_t *info, void *context, apr_pool_t *pool)
{
    struct apply_svn_answer *answer = context;
    (void)pool;
    answer->revision = info->revision; /* a post-commit hook that failed changes nothing */
    return SVN_NO_ERROR;
}

static bool code_occurs(const svn_error_t *fault, const apr_status_t *codes, size_t n)
{
    for (const svn_error_t *at = fault; at != NULL; at = at->child)
        for (size_t i = 0; i < n; i++)
            if (at->apr_err == codes[i])
                return true;
    return false;
}

static const apr_status_t out_of_date[] = { SVN_ERR_FS_TXN_OUT_OF_DATE, SVN_ERR_FS_CONFLICT, SVN_ERR_FS_OUT_OF_DATE,
    SVN_ERR_RA_OUT_OF_DATE, SVN_ERR_FS_ALREADY_EXISTS, SVN_ERR_FS_NOT_FOUND, SVN_ERR_FS_NO_SUCH_ENTRY,
    SVN_ERR_FS_NOT_DIRECTORY, SVN_ERR_FS_NOT_FILE, SVN_ERR_FS_NO_SUCH_TRANSACTION, SVN_ERR_RA_DAV_PATH_NOT_FOUND };
static const apr_status_t locked[] = { SVN_ERR_FS_PATH_ALREADY_LOCKED, SVN_ERR_FS_NO_LOCK_TOKEN,
    SVN_ERR_FS_BAD_LOCK_TOKEN, SVN_ERR_FS_LOCK_OWNER_MISMATCH, SVN_ERR_FS_NO_USER };
static const apr_status_t hook_failure[] = { SVN_ERR_REPOS_HOOK_FAILURE };

/* system_code: the operating system's own error in the chain; 0: none. */
static int system_code(const svn_error_t *fault)
{
    for (const svn_error_t *at = fault; at != NULL; at = at->child)
        if (at->apr_err > 0 && at->apr_err < APR_OS_START_ERROR)
            return at->apr_err;
    return 0;
}

bool apply_svn_fail(struct apply *apply, svn_error_t *fault, struct err *err, const char *what)
{
    char text[300];
    struct str place = source_place(apply->source);
    int code = system_code(fault);
    bool is_locked = code_occurs(fault, locked, sizeof locked / sizeof *locked);
    if (!is_locked && code != EROFS && code != ENOSPC && code != EDQUOT && code != EFBIG && code != EACCES &&
        code != EPERM)
        return svn_fail(apply_svn_of(apply), fault, err, "%s", what);
    svn_fault_text(fault, text, sizeof text);
    svn_error_clear(fault);
    if (is_locked)
        return err_set(err, ERR_unavailable, "%.*s: a file is locked (%s); svn unlock --force lets it through",
            STR_ARG(place), text);
    if (code == EROFS || code == EACCES || code == EPERM)
        return err_set(
            err, ERR_io, "%.*s: %s: the user that runs weir can't write there (%s)", STR_ARG(place), what, text);
    return err_set(err, ERR_disk_full, "%.*s: %s: no room (%s)", STR_ARG(place), what, text);
}

bool apply_svn_end(struct apply_svn_drive *drive, svn_error_t *fault, const struct apply_svn_answer *answer,
    struct apply_commit_end *out, struct err *err)
{
    char text[WORDS_BYTES_MAX];
    *out = (struct apply_commit_end){ 0 };
    if (answer->revision > 0) {
        svn_error_clear(fault);
        out->outcome = APPLY_DID;
        out->revision.rev = answer->revision;
        return true;
    }
    if (drive->failed) {
        svn_error_clear(fault);
        return false;
    }
    if (fault == NULL)
        return err_set(err, ERR_internal, "Subversion committed nothing and gave no reason");
    if (code_occurs(fault, hook_failure, sizeof hook_failure / sizeof *hook_failure)) {
        svn_fault_text(fault, text, sizeof text);
        svn_error_clear(fault);
        out->outcome = APPLY_HOOK_REFUSED;
        out->words = str_trim(source_text(drive->plan->arena, str_of(text), APPLY_REASON_BYTES_MAX));
        return true;
    }
    if (system_code(fault) == 0 && code_occurs(fault, out_of_date, sizeof out_of_date / sizeof *out_of_date)) {
        svn_error_clear(fault);
        out->outcome = APPLY_OUT_OF_DATE;
        return true;
    }
    return apply_svn_fail(drive->plan->apply, fault, err, "committing");
}

void apply_svn_describe(struct arena *arena, apr_hash_t *props, svn_revnum_t rev, struct apply_revision *out)
{
    struct source_revision revision;
    svn_describe(arena, props, rev, &revision);
    *out = (struct apply_revision){
        .ident.rev = rev, .author = revision.author, .message = revision.message, .time_ms = revision.time_ms
    };
    apr_pool_t *pool = apr_hash_pool_get(props);
    for (apr_hash_index_t *i = apr_hash_first(pool, props); i != NULL; i = apr_hash_next(i)) {
        const svn_string_t *value = apr_hash_this_val(i);
        apply_field_set(arena, out, str_of(apr_hash_this_key(i)), (struct str){ value->data, value->len });
    }
}

void apply_svn_node(bool special, bool executable, struct str content, bool has_content, struct apply_node *out)
{
    struct str target;
    *out = (struct apply_node){ .kind = APPLY_FILE, .executable = executable, .content = content };
    if (!special)
        return;
    out->kind = APPLY_LINK;
    out->executable = false;
    if (has_content && svn_link(content, &target))
        out->content = target;
    else if (has_content)
        out->kind = APPLY_OTHER; /* some other special file, which only a working copy understands */
}
