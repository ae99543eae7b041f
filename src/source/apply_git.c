/* apply_git: change sets into a branch of a local git repository: its nodes and its history.
 *
 * Owns a few cached trees (head and base of the plan at work; of a rollback, the revision and its parent). Trailers are
 * read from the last paragraph of a message by our own rule: libgit2 stops at a line "---", which would hide a CSID.
 *
 * Fails as apply.h says. */
#include "source/apply_git.h"

#include <errno.h>
#include <string.h>

#define TREE_BYTES_MAX ((size_t)4 << 20)
#define HISTORY_MAX 1000000 /* commits that a search for the last change of a path looks at */

void apply_git_errors_clear(void)
{
    git_error_clear();
    errno = 0;
}

bool apply_git_fail(struct apply *apply, int code, struct err *err, const char *what)
{
    int system = errno;
    const git_error *last = git_error_last();
    struct str place = source_place(apply->source);
    /* of a write that failed libgit2 says nothing; apply_git_errors_clear made sure that errno is this call's */
    bool os = code == GIT_ERROR && (last == NULL || last->klass == GIT_ERROR_OS || last->klass == GIT_ERROR_NONE);
    if (os && (system == EROFS || system == EACCES || system == EPERM))
        return err_set(err, ERR_io, "%.*s: %s: the user that runs weir can't write there (%s)", STR_ARG(place), what,
            strerror(system));
    if (os && (system == ENOSPC || system == EDQUOT || system == EFBIG))
        return err_set(err, ERR_disk_full, "%.*s: %s: no room (%s)", STR_ARG(place), what, strerror(system));
    return git_fail(apply_git_of(apply)->git, code, err, what);
}

bool apply_git_tree(struct apply *apply, struct str id, git_tree **out, struct err *err)
{
    struct apply_git *git = apply_git_of(apply);
    git_commit *commit = NULL;
    git_tree *tree = NULL;
    git_oid oid;
    *out = NULL;
    if (id.len == 0)
        return true;
    if (id.len != GIT_OID_HEXSZ || git_oid_fromstrn(&oid, id.ptr, id.len) != 0)
        return err_set(
            err, ERR_not_found, "%.*s: '%.*s' is no commit id", STR_ARG(source_place(apply->source)), STR_ARG(id));
    for (size_t i = 0; i < APPLY_GIT_TREES; i++)
        if (git->trees[i].tree != NULL && git_oid_equal(&git->trees[i].commit, &oid)) {
            *out = git->trees[i].tree;
            return true;
        }
    if (!git_commit_find(git->git, (struct source_ident){ .id = id }, &commit, err))
        return false;
    int code = git_commit_tree(&tree, commit);
    git_commit_free(commit);
    if (code != 0)
        return apply_git_fail(apply, code, err, "reading a commit");
    unsigned slot = git->next_tree++ % APPLY_GIT_TREES;
    git_tree_free(git->trees[slot].tree);
    git->trees[slot].tree = tree;
    git->trees[slot].commit = oid;
    *out = tree;
    return true;
}

static void git_apply_close(struct apply *apply)
{
    struct apply_git *git = apply_git_of(apply);
    for (size_t i = 0; i < APPLY_GIT_TREES; i++)
        git_tree_free(git->trees[i].tree);
    mem_free(git);
}

/* entry_find: NULL: there is none. Freed with git_tree_entry_free. */
static bool entry_find(
    struct apply *apply, struct arena *arena, git_tree *tree, struct str path, git_tree_entry **out, struct err *err)
{
    *out = NULL;
    if (tree == NULL)
        return true;
    int code = git_tree_entry_bypath(out, tree, str_dupz(arena, path));
    return code == 0 || code == GIT_ENOTFOUND || apply_git_fail(apply, code, err, "reading a folder");
}

static bool content_read(
    struct apply *apply, struct arena *arena, const git_oid *id, struct apply_node *out, struct err *err)
{
    git_repository *repo = apply_git_of(apply)->git->repo;
    git_odb *odb = NULL;
    git_blob *blob = NULL;
    git_object_t type;
    size_t bytes = 0;
    int code = git_repository_odb(&odb, repo);
    if (code == 0)
        code = git_odb_read_header(&bytes, &type, odb, id);
    git_odb_free(odb);
    out->too_large = code == 0 && bytes > APPLY_MERGE_BYTES_MAX;
    if (code == 0 && !out->too_large)
        code = git_blob_lookup(&blob, repo, id);
    if (code != 0)
        return apply_git_fail(apply, code, err, "reading a file");
    if (blob != NULL)
        out->content = str_dup(arena, (struct str){ git_blob_rawcontent(blob), (size_t)git_blob_rawsize(blob) });
    git_blob_free(blob);
    return true;
}

static bool git_node(struct apply *apply, struct arena *arena, struct source_ident at, struct str path, bool want,
    struct apply_node *out, struct err *err)
{
    git_tree *tree;
    git_tree_entry *entry = NULL;
    *out = (struct apply_node){ 0 };
    if (!apply_git_tree(apply, at.id, &tree, err) || !entry_find(apply, arena, tree, path, &entry, err))
        return false;
    if (entry == NULL)
        return true;
    git_filemode_t mode = git_tree_entry_filemode(entry);
    bool good = true;
    out->executable = mode == GIT_FILEMODE_BLOB_EXECUTABLE;
    out->kind = mode == GIT_FILEMODE_TREE     ? APPLY_FOLDER
                : mode == GIT_FILEMODE_LINK   ? APPLY_LINK
                : mode == GIT_FILEMODE_COMMIT ? APPLY_OTHER
                                              : APPLY_FILE;
    if (want && (out->kind == APPLY_FILE || out->kind == APPLY_LINK))
        good = content_read(apply, arena, git_tree_entry_id(entry), out, err);
    git_tree_entry_free(entry);
    return good;
}

static bool git_list(struct apply *apply, struct arena *arena, struct source_ident at, struct str path,
    struct str **out, size_t *out_n, struct err *err)
{
    git_tree *root, *tree = NULL;
    git_tree_entry *entry = NULL;
    if (!apply_git_tree(apply, at.id, &root, err) || !entry_find(apply, arena, root, path, &entry, err))
        return false;
    int code = entry != NULL ? git_tree_lookup(&tree, apply_git_of(apply)->git->repo, git_tree_entry_id(entry)) : 0;
    git_tree_entry_free(entry);
    if (code != 0)
        return apply_git_fail(apply, code, err, "reading a folder");
    size_t n = tree != NULL ? git_tree_entrycount(tree) : 0;
    *out = ARENA_ARRAY(arena, struct str, n + 1);
    for (size_t i = 0; i < n; i++)
        (*out)[i] = str_dup(arena, str_of(git_tree_entry_name(git_tree_entry_byindex(tree, i))));
    *out_n = n;
    git_tree_free(tree);
    return true;
}

/* --- history --- */

/* entry_id: what is at the path in a commit: an id, zero for nothing. */
static int entry_id(git_commit *commit, const char *path, git_oid *out, git_filemode_t *out_mode)
{
    git_tree *tree = NULL;
    git_tree_entry *entry = NULL;
    *out = (git_oid){ 0 };
    *out_mode = GIT_FILEMODE_UNREADABLE;
    int code = git_commit_tree(&tree, commit);
    if (code == 0)
        code = git_tree_entry_bypath(&entry, tree, path);
    if (code == 0) {
        *out = *git_tree_entry_id(entry);
        *out_mode = git_tree_entry_filemode(entry);
    }
    git_tree_entry_free(entry);
    git_tree_free(tree);
    return code == GIT_ENOTFOUND ? 0 : code;
}

/* change_walk: along first parents from `at`, which is freed, to the first commit that differs from its parent. */
static int change_walk(git_commit *at, const char *path, const git_oid *after, bool *out_found, git_oid *out)
{
    git_oid now, before;
    git_filemode_t mode_now, mode_before;
    int code = entry_id(at, path, &now, &mode_now);
    *out_found = false;
    for (size_t i = 0; code == 0 && i < HISTORY_MAX && !git_oid_equal(git_commit_id(at), after); i++) {
        git_commit *parent = NULL;
        *out = *git_commit_id(at);
        if (git_commit_parentcount(at) == 0) {
            *out_found = !git_oid_is_zero(&now);
            break;
        }
        code = git_commit_parent(&parent, at, 0);
        if (code == 0)
            code = entry_id(parent, path, &before, &mode_before);
        git_commit_free(at);
        at = parent;
        if (code == 0 && (!git_oid_equal(&now, &before) || mode_now != mode_before)) {
            *out_found = true;
            break;
        }
    }
    git_commit_free(at);
    return code;
}

static bool git_last_change(struct apply *apply, struct arena *arena, struct str path, struct source_ident after,
    struct source_ident upto, bool *out_found, struct source_ident *out, struct err *err)
{
    git_commit *commit = NULL;
    git_oid oid = { 0 }, stop = { 0 };
    *out_found = false;
    if (upto.id.len == 0)
        return true;
    if (after.id.len == GIT_OID_HEXSZ)
        git_oid_fromstrn(&stop, after.id.ptr, after.id.len);
    if (!git_commit_find(apply_git_of(apply)->git, upto, &commit, err))
        return false;
    int code = change_walk(commit, str_dupz(arena, path), &stop, out_found, &oid);
    if (code != 0)
        return apply_git_fail(apply, code, err, "reading a path's history");
    *out = (struct source_ident){ .id = git_oid_text(arena, &oid) };
    return true;
}

static void commit_describe(struct arena *arena, const git_commit *commit, struct apply_revision *out)
{
    const git_signature *author = git_commit_author(commit);
    const char *message = git_commit_message(commit);
    *out = (struct apply_revision){ .ident.id = git_oid_text(arena, git_commit_id(commit)) };
    if (git_commit_parentcount(commit) > 0)
        out->parent = git_oid_text(arena, git_commit_parent_id(commit, 0));
    if (author != NULL && author->name != NULL)
        out->author = source_line(arena, str_of(author->name), APPLY_LINE_BYTES_MAX);
    out->message = apply_git_trailers(arena, str_of(message != NULL ? message : ""), out);
    out->time_ms = git_commit_time(commit) * 1000;
}

static bool git_apply_revision(
    struct apply *apply, struct arena *arena, struct source_ident ident, struct apply_revision *out, struct err *err)
{
    git_commit *commit = NULL;
    if (!git_commit_find(apply_git_of(apply)->git, ident, &commit, err))
        return false;
    commit_describe(arena, commit, out);
    git_commit_free(commit);
    return true;
}

/* walk_from: the commits that the tip reaches and `from` doesn't, parents first. */
static int walk_from(git_repository *repo, const git_oid *tip, struct str from, git_revwalk **out)
{
    git_oid base;
    git_commit *known = NULL;
    int code = git_revwalk_new(out, repo);
    if (code == 0)
        code = git_revwalk_sorting(*out, GIT_SORT_TOPOLOGICAL | GIT_SORT_REVERSE);
    if (code == 0)
        code = git_revwalk_push(*out, tip);
    if (code != 0 || from.len != GIT_OID_HEXSZ || git_oid_fromstrn(&base, from.ptr, from.len) != 0)
        return code;
    if (git_commit_lookup(&known, repo, &base) != 0)
        return 0; /* it was pruned after a forced push: all of the branch */
    git_commit_free(known);
    return git_revwalk_hide(*out, &base);
}

static bool git_apply_walk(
    struct apply *apply, struct source_ident from, const struct apply_visitor *visitor, struct err *err)
{
    struct git_source *git = apply_git_of(apply)->git;
    struct arena arena = { 0 };
    git_revwalk *walk = NULL;
    git_oid tip, oid;
    bool found, more = true;
    if (!git_tip(git, &tip, &found, err))
        return false;
    if (!found)
        return true;
    int code = walk_from(git->repo, &tip, from.id, &walk);
    while (code == 0 && more && (code = git_revwalk_next(&oid, walk)) == 0) {
        git_commit *commit = NULL;
        struct apply_revision revision;
        code = git_commit_lookup(&commit, git->repo, &oid);
        if (code != 0)
            break;
        arena_reset(&arena);
        commit_describe(&arena, commit, &revision);
        git_commit_free(commit);
        more = visitor->visit(visitor->context, &revision);
    }
    git_revwalk_free(walk);
    arena_release(&arena);
    return code == 0 || code == GIT_ITEROVER || apply_git_fail(apply, code, err, "reading the history");
}

static const struct apply_ops ops = {
    .close = git_apply_close,
    .node = git_node,
    .list = git_list,
    .last_change = git_last_change,
    .revision = git_apply_revision,
    .walk = git_apply_walk,
    .commit = apply_git_commit,
};

struct apply *apply_git_new(struct source *source)
{
    struct apply_git *git = mem_alloc_zero(sizeof *git);
    /* by itself libgit2 keeps trees of up to 4 KiB: a large folder would be read again for each file in it */
    git_libgit2_opts(GIT_OPT_SET_CACHE_OBJECT_LIMIT, GIT_OBJECT_TREE, TREE_BYTES_MAX);
    git->base.ops = &ops;
    git->git = git_of(source);
    return &git->base;
}
