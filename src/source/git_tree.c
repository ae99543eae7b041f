/* git_tree: trees of a git repository: compared, listed, written out.
 *
 * One walk serves all: it compares two trees, or a tree with nothing; subtrees with equal ids are never opened. What
 * differs goes to a visitor, which makes changes of a revision or writes to a sink.
 *
 * Fails with corrupt (an object is missing or broken), invalid (too deep), body_too_large (one file), and as the sink
 * does. */
#include "source/git.h"

#include <stdio.h>
#include <string.h>

struct walk {
    struct git_source *git;
    struct buf path; /* of the entry that is looked at */
    struct err *err;
    unsigned depth;
    struct sink *sink;            /* or NULL */
    struct changes_list *changes; /* or NULL */
};

static bool walk_trees(struct walk *walk, const git_tree *before, const git_tree *after);

static bool is_tree(const git_tree_entry *entry)
{
    return git_tree_entry_filemode(entry) == GIT_FILEMODE_TREE;
}

static bool fail(struct walk *walk, int code)
{
    struct str path = buf_str(&walk->path);
    char what[200];
    snprintf(what, sizeof what, "reading %.*s", (int)(path.len < 150 ? path.len : 150), path.len > 0 ? path.ptr : "");
    return git_fail(walk->git, code, walk->err, what);
}

/* walk_below: both sides' subtrees of the entry; either may be NULL. */
static bool walk_below(struct walk *walk, const git_tree_entry *before, const git_tree_entry *after)
{
    git_tree *old = NULL, *new = NULL;
    int code = before != NULL ? git_tree_lookup(&old, walk->git->repo, git_tree_entry_id(before)) : 0;
    if (code == 0 && after != NULL)
        code = git_tree_lookup(&new, walk->git->repo, git_tree_entry_id(after));
    bool good = false;
    if (code != 0)
        fail(walk, code);
    else if (++walk->depth > SOURCE_DEPTH_MAX)
        err_set(walk->err, ERR_invalid, "%.*s: more than %d folders within each other", STR_ARG(walk->git->base.place),
            SOURCE_DEPTH_MAX);
    else
        good = walk_trees(walk, old, new);
    walk->depth--;
    git_tree_free(old);
    git_tree_free(new);
    return good;
}

static bool file_out(struct walk *walk, const git_tree_entry *entry)
{
    git_odb *odb = NULL;
    git_blob *blob = NULL;
    size_t bytes = 0;
    git_object_t type;
    struct str path = buf_str(&walk->path);
    int code = git_repository_odb(&odb, walk->git->repo);
    if (code == 0)
        code = git_odb_read_header(&bytes, &type, odb, git_tree_entry_id(entry));
    git_odb_free(odb);
    if (code == 0 && bytes > SOURCE_BLOB_BYTES_MAX)
        return err_set(walk->err, ERR_body_too_large, "%.*s: a file of more than %llu bytes", STR_ARG(path),
            (unsigned long long)SOURCE_BLOB_BYTES_MAX);
    if (code == 0)
        code = git_blob_lookup(&blob, walk->git->repo, git_tree_entry_id(entry));
    if (code != 0)
        return fail(walk, code);
    struct str content = { git_blob_rawcontent(blob), (size_t)git_blob_rawsize(blob) };
    git_filemode_t mode = git_tree_entry_filemode(entry);
    bool good;
    if (mode == GIT_FILEMODE_LINK)
        good = sink_link(walk->sink, path, content, walk->err);
    else
        good = sink_file(walk->sink, path, content.len, mode == GIT_FILEMODE_BLOB_EXECUTABLE, walk->err) &&
               sink_write(walk->sink, content, walk->err) && sink_end(walk->sink, walk->err);
    git_blob_free(blob);
    return good;
}

/* entry_gone: the entry is in the old tree only, or its name is an entry of another kind in the new one. */
static bool entry_gone(struct walk *walk, const git_tree_entry *entry)
{
    if (walk->sink != NULL)
        return sink_remove(walk->sink, buf_str(&walk->path), walk->err);
    if (is_tree(entry))
        return walk_below(walk, entry, NULL);
    changes_add(walk->changes, (struct source_change){ .path = buf_str(&walk->path), .kind = SOURCE_DELETED });
    return true;
}

/* entry_came: the entry is new, or differs; before: the old entry of that name, if it was of the same kind. */
static bool entry_came(struct walk *walk, const git_tree_entry *before, const git_tree_entry *after)
{
    struct str path = buf_str(&walk->path);
    if (is_tree(after)) {
        if (walk->sink != NULL && before == NULL && !sink_folder(walk->sink, path, walk->err))
            return false;
        return walk_below(walk, before, after);
    }
    if (walk->sink == NULL) {
        changes_add(walk->changes,
            (struct source_change){ .path = path, .kind = before != NULL ? SOURCE_CHANGED : SOURCE_ADDED });
        return true;
    }
    if (git_tree_entry_filemode(after) != GIT_FILEMODE_COMMIT)
        return file_out(walk, after);
    if (before != NULL && git_tree_entry_filemode(before) == GIT_FILEMODE_COMMIT)
        return true; /* a submodule is an empty folder, whatever commit it is at */
    return sink_folder(walk->sink, path, walk->err);
}

static bool is_same(const git_tree_entry *a, const git_tree_entry *b)
{
    return git_oid_equal(git_tree_entry_id(a), git_tree_entry_id(b)) &&
           git_tree_entry_filemode(a) == git_tree_entry_filemode(b);
}

/* walk_entry: one name of one side (`gone`: the old one) against the same name of the other. */
static bool walk_entry(struct walk *walk, const git_tree_entry *entry, const git_tree *others, bool gone)
{
    const char *name = git_tree_entry_name(entry);
    const git_tree_entry *other = others != NULL ? git_tree_entry_byname(others, name) : NULL;
    if (other != NULL && is_tree(other) != is_tree(entry))
        other = NULL;
    if (other != NULL && (gone || is_same(entry, other)))
        return true;
    size_t len = walk->path.len;
    if (len > 0)
        buf_add_char(&walk->path, '/');
    buf_add_z(&walk->path, name);
    bool good;
    if (walk->path.full)
        good = err_set(walk->err, ERR_invalid, "%.*s: a path is too long", STR_ARG(walk->git->base.place));
    else
        good = gone ? entry_gone(walk, entry) : entry_came(walk, other, entry);
    walk->path.len = len;
    walk->path.full = false;
    return good;
}

/* walk_side: the names of one tree; it ends early when the list of changes is full. */
static bool walk_side(struct walk *walk, const git_tree *tree, const git_tree *others, bool gone)
{
    size_t n = tree != NULL ? git_tree_entrycount(tree) : 0;
    for (size_t i = 0; i < n && !(walk->changes != NULL && walk->changes->full); i++)
        if (!walk_entry(walk, git_tree_entry_byindex(tree, i), others, gone))
            return false;
    return true;
}

static bool walk_trees(struct walk *walk, const git_tree *before, const git_tree *after)
{
    return walk_side(walk, before, after, true) && walk_side(walk, after, before, false);
}

static bool walk_run(struct walk *walk, const git_tree *before, const git_tree *after)
{
    buf_init(&walk->path, (size_t)64 << 10);
    bool good = walk_trees(walk, before, after);
    buf_release(&walk->path);
    return good;
}

bool git_changes(struct git_source *git, struct arena *arena, const git_tree *before, const git_tree *after,
    struct source_revision *out, struct err *err)
{
    struct changes_list changes = { .arena = arena };
    struct walk walk = { .git = git, .err = err, .changes = &changes };
    if (!walk_run(&walk, before, after))
        return false;
    changes_give(&changes, out);
    return true;
}

/* tree_of: the tree of a commit; time_ms may be NULL. */
static bool tree_of(
    struct git_source *git, struct source_ident ident, git_tree **out, int64_t *time_ms, struct err *err)
{
    git_commit *commit = NULL;
    if (!git_commit_find(git, ident, &commit, err))
        return false;
    if (time_ms != NULL)
        *time_ms = git_commit_time(commit) < INT64_MAX / 1000 ? git_commit_time(commit) * 1000 : 0;
    int code = git_commit_tree(out, commit);
    git_commit_free(commit);
    return code == 0 || git_fail(git, code, err, "reading a commit's tree");
}

bool git_walk(
    struct source *source, const struct source_ident *from, struct source_ident to, struct sink *sink, struct err *err)
{
    struct git_source *git = git_of(source);
    git_tree *before = NULL, *after = NULL;
    struct walk walk = { .git = git, .err = err, .sink = sink };
    bool good = (from == NULL || tree_of(git, *from, &before, NULL, err)) &&
                tree_of(git, to, &after, &sink->time_ms, err) && walk_run(&walk, before, after);
    git_tree_free(before);
    git_tree_free(after);
    return good;
}

static bool workflow_read(
    struct git_source *git, struct workflows_list *list, const git_tree_entry *entry, struct err *err)
{
    struct str name = str_of(git_tree_entry_name(entry));
    git_filemode_t mode = git_tree_entry_filemode(entry);
    git_odb *odb = NULL;
    git_blob *blob = NULL;
    git_object_t type;
    size_t bytes = 0;
    if (mode == GIT_FILEMODE_LINK || is_tree(entry) || mode == GIT_FILEMODE_COMMIT) {
        workflows_fault(list, name, mode == GIT_FILEMODE_LINK ? workflows_link_fault : workflows_kind_fault);
        return true;
    }
    int code = git_repository_odb(&odb, git->repo);
    if (code == 0)
        code = git_odb_read_header(&bytes, &type, odb, git_tree_entry_id(entry));
    git_odb_free(odb);
    if (code == 0 && !workflows_fits(list, name, bytes))
        return true;
    if (code == 0)
        code = git_blob_lookup(&blob, git->repo, git_tree_entry_id(entry));
    if (code != 0)
        return git_fail(git, code, err, "reading a workflow file");
    struct str text = { git_blob_rawcontent(blob), (size_t)git_blob_rawsize(blob) };
    workflows_add(list, name, str_dup(list->arena, text));
    git_blob_free(blob);
    return true;
}

/* folder_read: the entry _workflows of the root. */
static bool folder_read(struct git_source *git, struct arena *arena, const git_tree_entry *folder,
    struct source_workflows *out, struct err *err)
{
    struct workflows_list list;
    git_tree *tree = NULL;
    bool good = true;
    workflows_init(&list, arena);
    if (!is_tree(folder)) {
        workflows_fault(&list, (struct str){ 0 }, workflows_folder_fault);
    } else {
        int code = git_tree_lookup(&tree, git->repo, git_tree_entry_id(folder));
        good = code == 0 || git_fail(git, code, err, "reading " WORKFLOWS_FOLDER);
        for (size_t i = 0; good && i < git_tree_entrycount(tree); i++) {
            const git_tree_entry *entry = git_tree_entry_byindex(tree, i);
            if (workflows_wants(&list, str_of(git_tree_entry_name(entry))))
                good = workflow_read(git, &list, entry, err);
        }
        git_tree_free(tree);
    }
    workflows_give(&list, out);
    return good;
}

bool git_workflows(struct source *source, struct arena *arena, struct source_ident ident, struct str known,
    struct source_workflows *out, struct err *err)
{
    struct git_source *git = git_of(source);
    git_tree *root = NULL;
    if (!tree_of(git, ident, &root, NULL, err))
        return false;
    struct source_workflows found = { .content = STR("-") };
    const git_tree_entry *folder = git_tree_entry_byname(root, WORKFLOWS_FOLDER);
    if (folder != NULL) {
        found.content = git_oid_text(arena, git_tree_entry_id(folder));
        if (!is_tree(folder))
            found.content =
                str_fmt(arena, "%.*s-%o", STR_ARG(found.content), (unsigned)git_tree_entry_filemode(folder));
    }
    found.same = known.len > 0 && str_eq(known, found.content);
    bool good = folder == NULL || found.same || folder_read(git, arena, folder, &found, err);
    git_tree_free(root);
    if (good)
        *out = found;
    return good;
}
