/* apply_git_commit: a plan as a tree, a commit, and the branch's step to it.
 *
 * Objects are written first; nothing sees them until the branch is swapped, under the condition that it still is where
 * the plan found it. A process that is killed before leaves objects that git gc removes. Everything is on disk before
 * the branch names it: few objects one by one, many by one sync of the file system.
 *
 * Fails as apply.h says: among the permanent failures is a branch that is checked out, because its work tree would
 * silently differ from it. */
#include "source/apply_git.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define SYNC_EACH_MAX 16 /* edits; with more of them one syncfs is cheaper than a sync of each object */
#define WEIR_NAME "weir"
#define WEIR_MAIL "weir@localhost"

/* --- messages --- */

struct str apply_git_message(struct arena *arena, const struct apply_identity *identity)
{
    struct apply_field fields[APPLY_FIELDS];
    size_t n = apply_fields(arena, identity, fields);
    struct str rest = str_trim(source_text(arena, identity->message, APPLY_MESSAGE_BYTES_MAX)), line;
    struct buf text;
    buf_init(&text, SIZE_MAX);
    if (rest.len == 0)
        rest = identity->csid;
    while (str_cut(&rest, '\n', &line)) /* git takes what follows a line --- for a patch, and its trailers for none */
        buf_addf(&text, "%s%.*s\n", str_starts(line, STR("---")) ? " " : "", STR_ARG(line));
    buf_add_char(&text, '\n');
    for (size_t i = 0; i < n; i++)
        buf_addf(&text, "%s: %.*s\n", fields[i].trailer, STR_ARG(fields[i].value));
    struct str out = str_dup(arena, buf_str(&text));
    buf_release(&text);
    return out;
}

struct str apply_git_trailers(struct arena *arena, struct str message, struct apply_revision *out)
{
    struct str text = str_trim(message), rest, line;
    size_t start = 0;
    for (size_t i = text.len; i-- > 1 && start == 0;)
        if (text.ptr[i] == '\n' && text.ptr[i - 1] == '\n')
            start = i + 1;
    bool any = false;
    rest = str_sub(text, start, text.len);
    while (str_cut(&rest, '\n', &line)) {
        ptrdiff_t colon = str_index(line, ':');
        if (colon < 0 || !str_starts(line, STR("Weir-")))
            continue;
        any = true;
        apply_field_set(arena, out, str_sub(line, 0, (size_t)colon), str_sub(line, (size_t)colon + 1, line.len));
    }
    return str_trim(source_text(arena, any ? str_sub(text, 0, start) : text, SOURCE_MESSAGE_BYTES_MAX));
}

/* --- trees --- */

struct builder {
    struct apply_plan *plan;
    git_repository *repo;
    struct err *err;
};

static bool fail(struct builder *builder, int code, const char *what)
{
    return apply_git_fail(builder->plan->apply, code, builder->err, what);
}

static bool blob_write(struct builder *builder, const struct apply_edit *edit, git_oid *out)
{
    struct str content;
    if (!apply_edit_read(builder->plan, edit, &content, builder->err))
        return false;
    apply_git_errors_clear();
    int code = git_blob_create_from_buffer(out, builder->repo, content.len > 0 ? content.ptr : "", content.len);
    bool good = code == 0 || fail(builder, code, "writing a file");
    apply_edit_done(edit, content);
    return good;
}

static bool tree_write(
    struct builder *builder, git_tree *old, size_t depth, size_t from, size_t to, git_oid *out, bool *out_empty);

/* A name of a folder and the edits that are about it: [from] is the name's own if has_own, the others are below. */
struct group {
    const char *name;
    size_t from, to, depth; /* depth: bytes of the path up to and with the slash after the name */
    const struct apply_edit *own;
};

/* below_write: the folder of that name, from what it was. */
static bool below_write(struct builder *builder, git_treebuilder *into, const struct group *group)
{
    const git_tree_entry *entry = git_treebuilder_get(into, group->name);
    git_tree *old = NULL;
    git_oid id;
    bool empty = false;
    bool renewed = group->own != NULL && (group->own->fresh || group->own->before != APPLY_FOLDER);
    int code = 0;
    if (entry != NULL && !renewed && git_tree_entry_filemode(entry) == GIT_FILEMODE_TREE)
        code = git_tree_lookup(&old, builder->repo, git_tree_entry_id(entry));
    size_t from = group->own != NULL ? group->from + 1 : group->from;
    bool good = code == 0 ? tree_write(builder, old, group->depth, from, group->to, &id, &empty)
                          : fail(builder, code, "reading a folder");
    git_tree_free(old);
    if (!good)
        return false;
    if (!empty)
        code = git_treebuilder_insert(NULL, into, group->name, &id, GIT_FILEMODE_TREE);
    else if (entry != NULL)
        code = git_treebuilder_remove(into, group->name);
    return code == 0 || fail(builder, code, "writing a folder");
}

static bool group_write(struct builder *builder, git_treebuilder *into, const struct group *group)
{
    const struct apply_edit *own = group->own;
    git_oid id;
    int code = 0;
    if (own == NULL || own->after == APPLY_FOLDER)
        return below_write(builder, into, group);
    if (own->after == APPLY_ABSENT) {
        if (git_treebuilder_get(into, group->name) != NULL)
            code = git_treebuilder_remove(into, group->name);
        return code == 0 || fail(builder, code, "removing a file");
    }
    if (!blob_write(builder, own, &id))
        return false;
    git_filemode_t mode = own->after == APPLY_LINK ? GIT_FILEMODE_LINK
                          : own->executable        ? GIT_FILEMODE_BLOB_EXECUTABLE
                                                   : GIT_FILEMODE_BLOB;
    code = git_treebuilder_insert(NULL, into, group->name, &id, mode);
    return code == 0 || fail(builder, code, "writing a folder");
}

/* group_next: the edits from `from` on that share the name after `depth` bytes of their paths. */
static struct group group_next(struct builder *builder, size_t depth, size_t from, size_t to)
{
    struct apply_edit **edits = builder->plan->edits;
    struct str rest = str_sub(edits[from]->path, depth, edits[from]->path.len), name;
    str_cut(&rest, '/', &name);
    struct group group = { str_dupz(builder->plan->arena, name), from, from, depth + name.len + 1, NULL };
    for (; group.to < to; group.to++) {
        struct str path = str_sub(edits[group.to]->path, depth, edits[group.to]->path.len);
        if (!str_starts(path, name) || (path.len > name.len && path.ptr[name.len] != '/'))
            break;
        if (path.len == name.len)
            group.own = edits[group.to];
    }
    return group;
}

static bool tree_write(
    struct builder *builder, git_tree *old, size_t depth, size_t from, size_t to, git_oid *out, bool *out_empty)
{
    git_treebuilder *into = NULL;
    int code = git_treebuilder_new(&into, builder->repo, old);
    if (code != 0)
        return fail(builder, code, "writing a folder");
    bool good = true;
    while (good && from < to) {
        struct group group = group_next(builder, depth, from, to);
        good = group_write(builder, into, &group);
        from = group.to;
    }
    *out_empty = git_treebuilder_entrycount(into) == 0;
    if (good && (!*out_empty || depth == 0)) {
        apply_git_errors_clear();
        code = git_treebuilder_write(out, into);
        good = code == 0 || fail(builder, code, "writing a folder");
    }
    git_treebuilder_free(into);
    return good;
}

/* --- the commit --- */

/* is_checked_out: in the repository's own work tree or in another one; also a branch that has no commit yet. */
static bool is_checked_out(struct git_source *git)
{
    git_reference *ref = NULL, *head = NULL;
    bool out = false;
    if (git_reference_lookup(&ref, git->repo, git->ref) == 0)
        out = git_branch_is_checked_out(ref) == 1;
    else if (!git_repository_is_bare(git->repo) && git_reference_lookup(&head, git->repo, "HEAD") == 0) {
        const char *target = git_reference_symbolic_target(head);
        out = target != NULL && strcmp(target, git->ref) == 0;
    }
    git_reference_free(ref);
    git_reference_free(head);
    return out;
}

/* signature_new: git writes NAME <MAIL>, so the brackets and line ends are out. A submitter that is an address is one;
 * another gets an address that nobody has. */
static int signature_new(struct arena *arena, struct str submitter, git_signature **out)
{
    struct str name = source_line(arena, submitter, APPLY_LINE_BYTES_MAX);
    char *clean = str_dupz(arena, name.len > 0 ? name : STR(WEIR_NAME));
    for (char *at = clean; *at != '\0'; at++)
        if (*at == '<' || *at == '>' || (unsigned char)*at < 0x20)
            *at = '-';
    bool blank = strchr(clean, ' ') != NULL, address = strchr(clean, '@') != NULL && !blank;
    char *mail = address ? clean : str_dupz(arena, str_fmt(arena, "%s@localhost", clean));
    for (char *at = mail; !address && *at != '\0'; at++)
        if (*at == ' ')
            *at = '.';
    int code = git_signature_now(out, clean, mail);
    return code == 0 ? 0 : git_signature_now(out, WEIR_NAME, WEIR_MAIL); /* nothing but punctuation */
}

static bool commit_write(
    struct apply_plan *plan, const struct apply_identity *identity, const git_oid *tree, git_oid *out, struct err *err)
{
    git_repository *repo = apply_git_of(plan->apply)->git->repo;
    git_signature *author = NULL, *committer = NULL;
    git_oid parent;
    const git_oid *parents[1] = { &parent };
    const char *message = str_dupz(plan->arena, apply_git_message(plan->arena, identity));
    apply_git_errors_clear();
    int code = signature_new(plan->arena, identity->submitter, &author);
    if (code == 0)
        code = git_signature_now(&committer, WEIR_NAME, WEIR_MAIL);
    if (code == 0 && plan->head.id.len > 0)
        code = git_oid_fromstrn(&parent, plan->head.id.ptr, plan->head.id.len);
    if (code == 0)
        code = git_commit_create_from_ids(
            out, repo, NULL, author, committer, NULL, message, tree, plan->head.id.len > 0 ? 1 : 0, parents);
    git_signature_free(author);
    git_signature_free(committer);
    return code == 0 || apply_git_fail(plan->apply, code, err, "writing the commit");
}

static bool objects_sync(struct apply_plan *plan, struct err *err)
{
    struct str place = source_place(plan->apply->source);
    int fd = open(str_fmt(plan->arena, "%.*s/objects", STR_ARG(place)).ptr, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int code = fd >= 0 && syncfs(fd) == 0 ? 0 : errno;
    if (fd >= 0)
        close(fd);
    return code == 0 || err_set(err, ERR_io, "%.*s: writing the objects to disk: %s", STR_ARG(place), strerror(code));
}

/* objects_write: all that the commit needs, and the commit; on disk when it returns. */
static bool objects_write(struct apply_plan *plan, const struct apply_identity *identity, git_oid *out, struct err *err)
{
    struct builder builder = { plan, apply_git_of(plan->apply)->git->repo, err };
    git_tree *old;
    git_oid tree;
    bool empty, each = plan->n_edits <= SYNC_EACH_MAX;
    if (!apply_git_tree(plan->apply, plan->head.id, &old, err))
        return false;
    git_libgit2_opts(GIT_OPT_ENABLE_FSYNC_GITDIR, each ? 1 : 0);
    bool good = tree_write(&builder, old, 0, 0, plan->n_edits, &tree, &empty) &&
                commit_write(plan, identity, &tree, out, err) && (each || objects_sync(plan, err));
    git_libgit2_opts(GIT_OPT_ENABLE_FSYNC_GITDIR, 1);
    return good;
}

bool apply_git_commit(
    struct apply_plan *plan, const struct apply_identity *identity, struct apply_commit_end *out, struct err *err)
{
    struct apply *apply = plan->apply;
    struct git_source *git = apply_git_of(apply)->git;
    git_oid new, old = { 0 };
    enum apply_git_swapped swapped;
    bool refused = false;
    *out = (struct apply_commit_end){ 0 };
    if (is_checked_out(git))
        return err_set(err, ERR_invalid,
            "%.*s: branch '%.*s' is checked out, so a commit would leave its work tree behind; check out another "
            "branch there, or make the target a bare repository",
            STR_ARG(source_place(apply->source)), STR_ARG(source_branch(apply->source)));
    if (!objects_write(plan, identity, &new, err))
        return false;
    if (plan->head.id.len > 0)
        git_oid_fromstrn(&old, plan->head.id.ptr, plan->head.id.len);
    out->revision.id = git_oid_text(plan->arena, &new);
    struct apply_git_update update = { git->ref, git_oid_text(plan->arena, &old).ptr, out->revision.id.ptr };
    if (!apply_git_hooks_before(apply, plan->arena, &update, &refused, &out->words, err))
        return false;
    if (refused) {
        out->outcome = APPLY_HOOK_REFUSED;
        return true;
    }
    if (!apply_git_swap(apply, &old, &new, &swapped, err))
        return false;
    out->outcome = swapped == APPLY_GIT_SWAPPED ? APPLY_DID : APPLY_OUT_OF_DATE;
    if (swapped == APPLY_GIT_SWAPPED)
        apply_git_hooks_after(apply, plan->arena, &update);
    return true;
}
