/* git: a branch of a local git repository, through libgit2.
 *
 * Owns the repository handle, the branch's name, and the list of commits that source_new_commits has still to return.
 * Reads refs at each call, so a push is seen at once. The user's and the system's configuration isn't read, and the
 * repository may belong to any user: nothing of it is ever run or written.
 *
 * Fails as source.h says; a missing or broken object below a commit that is there is corrupt. */
#include "source/git.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define AUTHOR_BYTES_MAX 1000
#define CAUSE_BYTES_MAX 500
#define CACHE_BYTES_MAX ((ssize_t)32 << 20)
#define BRANCHES_SHOWN_MAX 200

static pthread_once_t once = PTHREAD_ONCE_INIT;
static char once_fault[200];

static void library_start(void)
{
    static const int levels[] = { GIT_CONFIG_LEVEL_SYSTEM, GIT_CONFIG_LEVEL_XDG, GIT_CONFIG_LEVEL_GLOBAL,
        GIT_CONFIG_LEVEL_PROGRAMDATA };
    const char *missing = NULL;
    if (!source_git_load(&missing) || git_libgit2_init() < 0) {
        snprintf(once_fault, sizeof once_fault, "%s", missing != NULL ? missing : "it doesn't start");
        return;
    }
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++)
        git_libgit2_opts(GIT_OPT_SET_SEARCH_PATH, levels[i], "");
    git_libgit2_opts(GIT_OPT_SET_OWNER_VALIDATION, 0); /* hooks and servers are other users; we only read */
    git_libgit2_opts(GIT_OPT_SET_CACHE_MAX_SIZE, CACHE_BYTES_MAX);
}

bool git_start(struct err *err)
{
    pthread_once(&once, library_start);
    return once_fault[0] == '\0' ||
           err_set(err, ERR_internal, "libgit2 can't be used (%s); install libgit2", once_fault);
}

bool git_fail(const struct git_source *git, int code, struct err *err, const char *what)
{
    const git_error *last = git_error_last();
    const char *message = last != NULL && last->message != NULL ? last->message : "no reason given";
    struct str place = git->base.place;
    if (strstr(message, "ermission denied") != NULL)
        return err_set(err, ERR_io, "%.*s: %s: permission denied; let the user that runs weir read all of it",
            STR_ARG(place), what);
    struct stat st;
    if (git->repo != NULL && stat(git_repository_commondir(git->repo), &st) != 0 &&
        (errno == ENOENT || errno == ENOTDIR))
        return err_set(err, ERR_not_found,
            "%.*s: the repository isn't there any more; put it back, or remove the archive", STR_ARG(place));
    if (code == GIT_ENOTFOUND)
        return err_set(err, ERR_corrupt, "%.*s: %s: an object is missing (%s); run git -C %.*s fsck", STR_ARG(place),
            what, message, STR_ARG(place));
    return err_set(err, last != NULL && last->klass == GIT_ERROR_OS ? ERR_io : ERR_corrupt,
        "%.*s: %s: %s; run git -C %.*s fsck", STR_ARG(place), what, message, STR_ARG(place));
}

/* is_denied: may we not read the path? libgit2 reports that as a repository that isn't there. */
static bool is_denied(const char *path, int how)
{
    return faccessat(AT_FDCWD, path, how, AT_EACCESS) != 0 && errno == EACCES;
}

static bool denied_fail(const char *path, struct err *err)
{
    return err_set(err, ERR_io, "%s: permission denied; let the user that runs weir read all of it", path);
}

static void git_close(struct source *source)
{
    struct git_source *git = git_of(source);
    git_repository_free(git->repo);
    mem_free(git->chain);
    arena_release(&git->base.arena);
    mem_free(git);
}

/* branches_list: the local branches in short, for an error's text; out_n: how many there are. */
static struct str branches_list(struct git_source *git, struct arena *arena, size_t *out_n, struct str *out_closest)
{
    git_branch_iterator *iterator = NULL;
    git_reference *ref = NULL;
    git_branch_t type;
    struct str *names = NULL;
    size_t n = 0, cap = 0;
    struct buf text;
    buf_init(&text, BRANCHES_SHOWN_MAX);
    if (git_branch_iterator_new(&iterator, git->repo, GIT_BRANCH_LOCAL) == 0) {
        while (n < 1000 && git_branch_next(&ref, &type, iterator) == 0) {
            *ARENA_PUSH(arena, names, n, cap) = str_dup(arena, str_of(git_reference_shorthand(ref)));
            buf_addf(&text, "%s%s", text.len > 0 ? ", " : "", git_reference_shorthand(ref));
            git_reference_free(ref);
        }
        git_branch_iterator_free(iterator);
    }
    *out_n = n;
    *out_closest = str_closest(git->base.branch, names, n);
    return buf_move(&text, arena);
}

/* head_branch: the branch that HEAD names, whether it has commits or not; NULL: none. Freed with git_reference_free. */
static const char *head_branch(struct git_source *git, git_reference **out)
{
    *out = NULL;
    if (git_reference_lookup(out, git->repo, "HEAD") != 0)
        return NULL;
    const char *target = git_reference_symbolic_target(*out);
    return target != NULL && strncmp(target, "refs/heads/", 11) == 0 ? target + 11 : NULL;
}

bool git_tip(struct git_source *git, git_oid *out, bool *out_found, struct err *err)
{
    int code = git_reference_name_to_id(out, git->repo, git->ref);
    *out_found = code == 0;
    if (code == 0)
        return true;
    if (code != GIT_ENOTFOUND)
        return git_fail(git, code, err, "reading the branch");
    git_reference *head;
    struct arena arena = { 0 };
    struct str closest;
    size_t n = 0;
    const char *unborn = head_branch(git, &head);
    bool is_unborn = unborn != NULL && str_eqz(git->base.branch, unborn);
    bool has_head = head != NULL;
    git_reference_free(head);
    struct str names = branches_list(git, &arena, &n, &closest);
    bool good = has_head && (n == 0 || is_unborn);
    if (!has_head)
        git_fail(git, GIT_ENOTFOUND, err, "reading HEAD");
    else if (!good)
        err_set(err, ERR_not_found, "%.*s: there is no branch '%.*s'%s%.*s%s; it has: %.*s", STR_ARG(git->base.place),
            STR_ARG(git->base.branch), closest.len > 0 ? " (did you mean '" : "", STR_ARG(closest),
            closest.len > 0 ? "'?)" : "", STR_ARG(names));
    arena_release(&arena);
    return good;
}

/* branch_settle: chooses the branch: the requested one, or HEAD's. */
static bool branch_settle(struct git_source *git, struct str branch, struct err *err)
{
    git_reference *head = NULL;
    int valid = 0;
    if (branch.len == 0) {
        const char *name = head_branch(git, &head);
        if (name == NULL) {
            git_reference_free(head);
            const char *path = str_fmt(&git->base.arena, "%.*s/HEAD", STR_ARG(git->base.place)).ptr;
            if (is_denied(path, R_OK))
                return denied_fail(path, err);
            return err_set(
                err, ERR_invalid, "%.*s: HEAD names no branch: say which one with --branch", STR_ARG(git->base.place));
        }
        branch = str_of(name);
    }
    branch = git->base.branch = str_dup(&git->base.arena, branch);
    git->ref = str_fmt(&git->base.arena, "refs/heads/%.*s", STR_ARG(branch)).ptr;
    git_reference_free(head);
    if (str_index(branch, '\0') >= 0 || git_reference_name_is_valid(&valid, git->ref) != 0 || !valid)
        return err_set(err, ERR_invalid, "'%.*s' can't be the name of a branch", STR_ARG(branch));
    git_oid tip;
    bool found;
    return git_tip(git, &tip, &found, err);
}

static bool repository_open(struct git_source *git, struct str path, struct err *err)
{
    struct stat st;
    const char *path_z = str_dupz(&git->base.arena, path);
    git->base.place = str_of(path_z);
    if (stat(path_z, &st) != 0)
        return err_set(err, errno == ENOENT || errno == ENOTDIR ? ERR_not_found : ERR_io, "%s: %s%s", path_z,
            strerror(errno),
            errno == EACCES ? "; let the user that runs weir read it" : "; give the path of a git repository");
    int code = git_repository_open_ext(&git->repo, path_z, GIT_REPOSITORY_OPEN_NO_SEARCH, NULL);
    if (code != 0 && is_denied(path_z, R_OK | X_OK))
        return denied_fail(path_z, err);
    if (code == GIT_ENOTFOUND)
        return err_set(
            err, ERR_invalid, "%s: this is no git repository; make one with git init, or give another path", path_z);
    if (code != 0) {
        const git_error *last = git_error_last();
        return err_set(err, ERR_invalid, "%s: this git repository can't be read: %s", path_z,
            last != NULL ? last->message : "no reason given");
    }
    git->base.place = str_dup(&git->base.arena, str_of(git_repository_commondir(git->repo)));
    while (git->base.place.len > 1 && git->base.place.ptr[git->base.place.len - 1] == '/')
        git->base.place.len--;
    if (git_repository_is_shallow(git->repo) == 1)
        return err_set(err, ERR_invalid,
            "%s: this is a shallow clone, which lacks history; run git -C %s fetch --unshallow", path_z, path_z);
    return true;
}

static bool git_youngest(struct source *source, struct arena *arena, struct source_ident *out, struct err *err)
{
    git_oid tip;
    bool found;
    if (!git_tip(git_of(source), &tip, &found, err))
        return false;
    *out = (struct source_ident){ 0, found ? git_oid_text(arena, &tip) : (struct str){ 0 } };
    return true;
}

struct str git_oid_text(struct arena *arena, const git_oid *oid)
{
    char *text = arena_alloc(arena, GIT_OID_HEXSZ + 1);
    git_oid_tostr(text, GIT_OID_HEXSZ + 1, oid);
    return (struct str){ text, GIT_OID_HEXSZ };
}

bool git_commit_find(struct git_source *git, struct source_ident ident, git_commit **out, struct err *err)
{
    git_oid oid;
    int code = git_oid_fromstrn(&oid, ident.id.ptr, ident.id.len);
    if (code == 0)
        code = git_commit_lookup(out, git->repo, &oid);
    if (code == 0)
        return true;
    struct stat st;
    if (code != GIT_ENOTFOUND || stat(git_repository_commondir(git->repo), &st) != 0)
        return git_fail(git, code, err, "reading a commit");
    return err_set(err, ERR_not_found, "%.*s: there is no commit %.*s (pruned after a forced push?)",
        STR_ARG(git->base.place), STR_ARG(ident.id));
}

/* commit_text: a text of a commit as UTF-8; old commits declare when theirs is Latin-1. */
static struct str commit_text(struct arena *arena, const git_commit *commit, const char *raw, size_t max)
{
    const char *encoding = git_commit_message_encoding(commit);
    struct str text = str_of(raw);
    if (encoding == NULL || str_is_utf8(text) ||
        (strcasecmp(encoding, "ISO-8859-1") != 0 && strcasecmp(encoding, "latin1") != 0))
        return source_text(arena, text, max);
    struct buf wide;
    buf_init(&wide, max);
    for (size_t i = 0; i < text.len && !wide.full; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        char pair[2] = { (char)(0xc0 | c >> 6), (char)(0x80 | (c & 0x3f)) };
        if (c < 0x80)
            buf_add_char(&wide, (char)c);
        else
            buf_add(&wide, pair, 2);
    }
    struct str out = source_text(arena, buf_str(&wide), max);
    buf_release(&wide);
    return out;
}

/* cause_find: the last trailer Weir-Cause. */
static struct str cause_find(struct arena *arena, const char *message)
{
    git_message_trailer_array trailers = { 0 };
    struct str cause = { 0 };
    if (git_message_trailers(&trailers, message) == 0)
        for (size_t i = 0; i < trailers.count; i++)
            if (strcasecmp(trailers.trailers[i].key, "Weir-Cause") == 0)
                cause = source_line(arena, str_of(trailers.trailers[i].value), CAUSE_BYTES_MAX);
    git_message_trailer_array_free(&trailers);
    return cause;
}

static void commit_describe(struct arena *arena, const git_commit *commit, struct source_revision *out)
{
    const git_signature *author = git_commit_author(commit);
    const char *message = git_commit_message(commit);
    *out = (struct source_revision){ .ident.id = git_oid_text(arena, git_commit_id(commit)) };
    if (author != NULL && author->name != NULL) {
        struct str name = commit_text(arena, commit, author->name, AUTHOR_BYTES_MAX);
        struct str mail = commit_text(arena, commit, author->email != NULL ? author->email : "", AUTHOR_BYTES_MAX);
        struct str both = mail.len > 0 ? str_fmt(arena, "%.*s <%.*s>", STR_ARG(name), STR_ARG(mail)) : name;
        out->author = source_line(arena, both, AUTHOR_BYTES_MAX);
    }
    if (message != NULL) {
        out->message = str_trim(commit_text(arena, commit, message, SOURCE_MESSAGE_BYTES_MAX));
        out->cause = cause_find(arena, message);
    }
    git_time_t seconds = git_commit_time(commit);
    out->time_ms = seconds > 0 && seconds < INT64_MAX / 1000 ? seconds * 1000 : 0;
    out->n_parents = git_commit_parentcount(commit);
    out->parents = ARENA_ARRAY(arena, struct str, out->n_parents > 0 ? out->n_parents : 1);
    for (unsigned i = 0; i < out->n_parents; i++)
        out->parents[i] = git_oid_text(arena, git_commit_parent_id(commit, i));
    out->is_first = out->n_parents == 0;
}

/* changes_find: what the commit changed. A parent that can't be read (it is damaged, and `weir archive skip` gave it
 * up) doesn't stop the commits after it: if the commit's own tree can be read, every path counts as touched. */
static bool changes_find(struct git_source *git, struct arena *arena, git_commit *commit, const git_tree *tree,
    struct source_revision *revision, struct err *err)
{
    git_commit *parent = NULL;
    git_tree *before = NULL;
    int code = revision->n_parents > 0 ? git_commit_parent(&parent, commit, 0) : 0;
    if (code == 0 && parent != NULL)
        code = git_commit_tree(&before, parent);
    bool good = code == 0 ? git_changes(git, arena, before, tree, revision, err)
                          : git_fail(git, code, err, "reading a commit's parent");
    git_tree_free(before);
    git_commit_free(parent);
    struct err own = { 0 };
    if (good || err->code != ERR_corrupt || revision->n_parents == 0 ||
        !git_changes(git, arena, NULL, tree, revision, &own))
        return good;
    *err = (struct err){ 0 };
    revision->all_touched = true;
    return true;
}

static bool git_revision(
    struct source *source, struct arena *arena, struct source_ident ident, struct source_revision *out, struct err *err)
{
    struct git_source *git = git_of(source);
    git_commit *commit = NULL;
    git_tree *tree = NULL;
    if (!git_commit_find(git, ident, &commit, err))
        return false;
    struct source_revision revision;
    commit_describe(arena, commit, &revision);
    int code = git_commit_tree(&tree, commit);
    bool good = code == 0 ? changes_find(git, arena, commit, tree, &revision, err)
                          : git_fail(git, code, err, "reading a commit");
    git_tree_free(tree);
    git_commit_free(commit);
    if (good)
        *out = revision;
    return good;
}

static bool git_watch(
    struct source *source, struct arena *arena, struct source_watch **out, size_t *out_n, struct err *err)
{
    struct git_source *git = git_of(source);
    struct source_watch *watches = NULL;
    size_t n = 0, cap = 0;
    struct stat st;
    const char *folder = str_dupz(arena, git->base.place);
    (void)err;
    *ARENA_PUSH(arena, watches, n, cap) = (struct source_watch){ folder, STR("packed-refs") };
    struct str ref = str_of(git->ref);
    for (size_t i = 0; i < ref.len; i++) { /* each folder above the branch's file that is there */
        if (ref.ptr[i] != '/' || i < strlen("refs/heads"))
            continue;
        folder = str_fmt(arena, "%.*s/%.*s", STR_ARG(git->base.place), (int)i, ref.ptr).ptr;
        if (stat(folder, &st) == 0 && S_ISDIR(st.st_mode))
            *ARENA_PUSH(arena, watches, n, cap) = (struct source_watch){ folder, { 0 } };
    }
    *out = watches;
    *out_n = n;
    return true;
}

static const struct source_ops git_ops = {
    .close = git_close,
    .youngest = git_youngest,
    .revision = git_revision,
    .workflows = git_workflows,
    .new_commits = git_new_commits,
    .watch = git_watch,
    .walk = git_walk,
};

struct source *source_git_open(struct str path, struct str branch, struct err *err)
{
    if (!git_start(err))
        return NULL;
    if (str_starts(path, STR("file://")))
        path = str_sub(path, 7, path.len);
    for (size_t i = 0; i + 2 < path.len; i++)
        if (memcmp(path.ptr + i, "://", 3) == 0) {
            err_set(err, ERR_invalid,
                "%.*s: git repositories are read from a local path: make a mirror with git clone --mirror and give its "
                "path",
                STR_ARG(path));
            return NULL;
        }
    struct git_source *git = mem_alloc_zero(sizeof *git);
    git->base = (struct source){ .ops = &git_ops, .kind = ARCHIVE_GIT, .local = true };
    if (repository_open(git, path, err) && branch_settle(git, branch, err))
        return &git->base;
    git_close(&git->base);
    return NULL;
}
