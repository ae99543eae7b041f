/* hook: our lines in the hooks of a repository.
 *
 * Our hook is written from a short list (is there a hook to call? which archives?) and can be read back into it. A file
 * that, read and written again, gives exactly its own bytes is ours; any other belongs to somebody else. The hook that
 * was there gets its second name before ours replaces it, so there is a hook at every moment.
 *
 * Fails with invalid (changed by hand, in the way, hooks elsewhere) and io. */
#include "source/hook.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "io/fsx.h"
#include "source/git.h"
#include "text/words.h"

#define HOOK_BYTES_MAX ((size_t)1 << 20)
#define LINE_BYTES_MAX ((size_t)16 << 10)
#define KEPT ".before-weir"

/* Which hooks a kind of repository runs for which events. A commit on a branch of an ordinary git repository comes by
 * commit, amend, cherry-pick and revert (post-commit), merge and pull (post-merge), rebase (post-rewrite) and am
 * (post-applypatch). */
enum { HOOK_SVN = 1, HOOK_BARE = 2, HOOK_ORDINARY = 4, HOOK_NAMES = 6 };
static const struct hook_name {
    const char *name, *rev; /* rev: how the revision is called in the hook; NULL: the branch's commit */
    unsigned kinds;
} hook_names[HOOK_NAMES] = {
    { "post-commit", "\"$2\" --txn \"$3\"", HOOK_SVN },
    { "post-receive", NULL, HOOK_BARE | HOOK_ORDINARY },
    { "post-commit", "HEAD", HOOK_ORDINARY },
    { "post-merge", "HEAD", HOOK_ORDINARY },
    { "post-rewrite", "HEAD", HOOK_ORDINARY },
    { "post-applypatch", "HEAD", HOOK_ORDINARY },
};
_Static_assert(HOOK_NAMES <= HOOKS_MAX + 1, "an ordinary repository has all but one");

static const char first_line[] = "#!/bin/sh\n";
/* Our call comes first: weir is notified at once, however long the other hook takes; and that hook's exit status is the
 * result. */
static const char call_line[] =
    "[ ! -x \"$0" KEPT "\" ] || exec \"$0" KEPT "\" \"$@\" # weir: the hook that was here before\n";
static const char line_head[] = "( ";
/* A job's commit waits (a moment) for weir notify: otherwise the job might end, and its processes be killed, before the
 * server knows the cause. */
static const char line_tail[] = " </dev/null >/dev/null 2>&1 & [ -z \"$WEIR_KEY\" ] || wait ) || : # weir archive ";
/* Subversion's hooks have no environment: WEIR_KEY is read from the environment of the process that called the hook. */
static const char key_words[] =
    "export WEIR_KEY=\"${WEIR_KEY:-$(sed -zn 's/^WEIR_KEY=//p' /proc/$PPID/environ 2>/dev/null)}\"; ";

struct hook_line {
    struct str archive, command; /* the words between head and tail */
};

struct hook {
    struct arena *arena;
    const struct hook_name *name;
    const char *path, *kept; /* the hook; the one that was there */
    bool is_there, is_ours, calls;
    struct hook_line *lines;
    size_t n_lines, cap_lines;
};

struct hook_set { /* those of one repository */
    struct arena *arena;
    struct hook hooks[HOOKS_MAX];
    size_t n;
};

static void hook_text(const struct hook *hook, struct buf *out)
{
    buf_add_z(out, first_line);
    for (size_t i = 0; i < hook->n_lines; i++) {
        buf_add_z(out, line_head);
        buf_add_str(out, hook->lines[i].command);
        buf_add_z(out, line_tail);
        buf_add_str(out, hook->lines[i].archive);
        buf_add_char(out, '\n');
    }
    if (hook->calls)
        buf_add_z(out, call_line);
}

/* line_parse: a line of ours into the list; others are left out, and the comparison of the whole tells. */
static void line_parse(struct hook *hook, struct str line)
{
    const char *tail = line.len > 0 ? memmem(line.ptr, line.len, line_tail, strlen(line_tail)) : NULL;
    if (tail == NULL || !str_starts(line, str_of(line_head)))
        return;
    size_t at = (size_t)(tail - line.ptr);
    struct hook_line *item = ARENA_PUSH(hook->arena, hook->lines, hook->n_lines, hook->cap_lines);
    item->command = str_sub(line, strlen(line_head), at);
    item->archive = str_sub(line, at + strlen(line_tail), line.len);
}

static bool hook_parse(struct hook *hook, struct str text, struct err *err)
{
    struct buf again;
    for (struct str rest = text, line; str_cut(&rest, '\n', &line);)
        line_parse(hook, line);
    hook->calls = memmem(text.ptr, text.len, call_line, strlen(call_line)) != NULL;
    buf_init(&again, HOOK_BYTES_MAX);
    hook_text(hook, &again);
    hook->is_ours = hook->n_lines > 0 && str_eq(buf_str(&again), text);
    buf_release(&again);
    if (hook->n_lines > 0 && !hook->is_ours)
        return err_set(err, ERR_invalid,
            "%s: somebody changed weir's hook: keep your own lines in another file, or take weir's lines out by hand",
            hook->path);
    return true;
}

/* git_look: is it an ordinary repository? Also refuses core.hooksPath: other repositories may share that folder. */
static bool git_look(const char *repository, unsigned *out_kind, struct err *err)
{
    char config_path[4200];
    git_config *config = NULL;
    git_buf folder = { 0 };
    int bare = 0;
    snprintf(config_path, sizeof config_path, "%s/config", repository);
    if (!git_start(err))
        return false;
    bool read = git_config_open_ondisk(&config, config_path) == 0;
    bool elsewhere = read && git_config_get_string_buf(&folder, config, "core.hooksPath") == 0 && folder.size > 0;
    if (!read || git_config_get_bool(&bare, config, "core.bare") != 0)
        bare = !str_ends(str_of(repository), STR("/.git"));
    if (elsewhere)
        err_set(err, ERR_invalid,
            "%s: git takes this repository's hooks from %s (core.hooksPath): call weir notify from there yourself and "
            "use --no-hook",
            repository, folder.ptr);
    git_buf_dispose(&folder);
    git_config_free(config);
    *out_kind = bare ? HOOK_BARE : HOOK_ORDINARY;
    return !elsewhere;
}

static bool io_fail(struct err *err, const char *path)
{
    int code = errno;
    return err_set(err, code == ENOSPC ? ERR_disk_full : ERR_io, "%s: %s%s", path, strerror(code),
        code == EACCES || code == EPERM || code == EROFS
            ? "; add the archive as a user who may write the repository's hooks, or with --no-hook"
            : "");
}

/* hook_load: what is there now. */
static bool hook_load(struct hook *hook, const char *repository, struct err *err)
{
    struct stat st;
    struct str text;
    hook->path = str_fmt(hook->arena, "%s/hooks/%s", repository, hook->name->name).ptr;
    hook->kept = str_fmt(hook->arena, "%s" KEPT, hook->path).ptr;
    if (lstat(hook->path, &st) != 0)
        return errno == ENOENT || io_fail(err, hook->path);
    hook->is_there = true;
    if (S_ISLNK(st.st_mode))
        return true; /* ours never is */
    if (!S_ISREG(st.st_mode))
        return err_set(err, ERR_invalid, "%s: this isn't a file", hook->path);
    if ((uint64_t)st.st_size > HOOK_BYTES_MAX)
        return true; /* a program */
    return fsx_read(hook->path, HOOK_BYTES_MAX, hook->arena, &text, err) && hook_parse(hook, text, err);
}

/* set_begin: which hooks the repository has for us; none of them is read yet. */
static bool set_begin(
    struct hook_set *set, enum archive_kind kind, const char *repository, struct arena *arena, struct err *err)
{
    struct stat st;
    unsigned wanted = HOOK_SVN;
    *set = (struct hook_set){ .arena = arena };
    if (kind != ARCHIVE_SVN && kind != ARCHIVE_GIT)
        return err_set(err, ERR_invalid, "only local Subversion and git repositories have hooks");
    const char *mark = str_fmt(arena, "%s/%s", repository, kind == ARCHIVE_SVN ? "format" : "HEAD").ptr;
    if (lstat(mark, &st) != 0)
        return errno == EACCES ? io_fail(err, mark)
                               : err_set(err, ERR_not_found, "%s: there is no repository here", repository);
    if (kind == ARCHIVE_GIT && !git_look(repository, &wanted, err))
        return false;
    for (size_t i = 0; i < HOOK_NAMES; i++)
        if (hook_names[i].kinds & wanted)
            set->hooks[set->n++] = (struct hook){ .arena = arena, .name = &hook_names[i] };
    return true;
}

static bool hook_save(const struct hook *hook, struct err *err)
{
    struct buf text;
    buf_init(&text, HOOK_BYTES_MAX);
    hook_text(hook, &text);
    bool good = text.full ? err_set(err, ERR_body_too_large, "%s: too many archives in one hook", hook->path)
                          : fsx_replace(hook->path, buf_str(&text), 0755, err);
    buf_release(&text);
    return good;
}

/* hook_keep: the hook that is there gets its second name. */
static bool hook_keep(struct hook *hook, struct err *err)
{
    struct stat st, now;
    bool is_kept = lstat(hook->kept, &st) == 0,
         begun = is_kept && lstat(hook->path, &now) == 0 && now.st_ino == st.st_ino;
    hook->calls = true;
    if (begun)
        return true; /* an earlier install got no further than this */
    if (is_kept)
        return err_set(
            err, ERR_invalid, "%s: a hook that was kept earlier is in the way: move it to another name", hook->kept);
    if (linkat(AT_FDCWD, hook->path, AT_FDCWD, hook->kept, 0) != 0 && rename(hook->path, hook->kept) != 0)
        return io_fail(err, hook->path);
    return true;
}

static bool word_is_plain(struct str word)
{
    return !str_has_control(word) && str_is_utf8(word);
}

static bool archive_is_plain(struct str archive)
{
    for (size_t i = 0; i < archive.len; i++)
        if (!char_is_alnum(archive.ptr[i]) && str_index(STR("._-"), archive.ptr[i]) < 0)
            return false;
    return archive.len > 0 && archive.len <= 100 && archive.ptr[0] != '-';
}

/* git_rev: names the commit by its id, so that a late hint still names the right one; HEAD where git isn't found. */
static void git_rev(struct buf *words, const struct hook_name *name, struct str branch)
{
    buf_add_z(words, "\"$(git rev-parse -q --verify ");
    if (name->rev != NULL || branch.len == 0)
        buf_add_z(words, "HEAD");
    else
        words_quote(words, branch);
    buf_add_z(words, " || echo HEAD)\"");
}

/* line_make: the words of the call. Subversion's hooks have no PATH, so the program is named by its full path. */
static bool line_make(struct hook *hook, const struct hook_call *call, struct str *out, struct err *err)
{
    struct buf words;
    bool svn = (hook->name->kinds & HOOK_SVN) != 0;
    buf_init(&words, LINE_BYTES_MAX);
    buf_add_z(&words, svn ? key_words : "{ ");
    words_quote(&words, call->program);
    buf_addf(&words, " notify %.*s ", STR_ARG(call->archive));
    if (svn)
        buf_add_z(&words, hook->name->rev);
    else
        git_rev(&words, hook->name,
            call->branch.len > 0 ? str_fmt(hook->arena, "refs/heads/%.*s", STR_ARG(call->branch)) : call->branch);
    for (size_t i = 0; i < call->n_options; i++) {
        buf_add_char(&words, ' ');
        words_quote(&words, call->options[i]);
    }
    buf_add_z(&words, svn ? "" : "; }"); /* in braces: what git says of itself goes where the rest goes */
    bool good = !words.full || err_set(err, ERR_invalid, "the call of weir is longer than %zu bytes", LINE_BYTES_MAX);
    *out = buf_move(&words, hook->arena);
    return good;
}

static bool call_check(const struct hook_call *call, struct err *err)
{
    bool plain = word_is_plain(call->program) && word_is_plain(call->branch);
    for (size_t i = 0; i < call->n_options; i++)
        plain = plain && word_is_plain(call->options[i]);
    if (!archive_is_plain(call->archive))
        return err_set(err, ERR_invalid, "'%.*s' can't be the name of an archive", STR_ARG(call->archive));
    if (!plain || call->program.len == 0 || call->program.ptr[0] != '/')
        return err_set(err, ERR_invalid, "a hook needs the full path of weir, and words without control characters");
    return true;
}

static struct hook_line *line_find(const struct hook *hook, struct str archive)
{
    for (size_t i = 0; i < hook->n_lines; i++)
        if (str_eq(hook->lines[i].archive, archive))
            return &hook->lines[i];
    return NULL;
}

/* line_put: the archive's line into the list; true: it is new. */
static bool line_put(struct hook *hook, const struct hook_call *call, bool *out_new, struct err *err)
{
    struct str command;
    if (!line_make(hook, call, &command, err))
        return false;
    struct hook_line *line = line_find(hook, call->archive);
    *out_new = line == NULL;
    if (line == NULL)
        line = ARENA_PUSH(hook->arena, hook->lines, hook->n_lines, hook->cap_lines);
    *line = (struct hook_line){ call->archive, command };
    return true;
}

static bool line_drop(struct hook *hook, struct str archive, struct err *err)
{
    struct hook_line *line = line_find(hook, archive);
    if (line == NULL)
        return true;
    size_t after = (size_t)(hook->lines + hook->n_lines - line) - 1;
    memmove(line, line + 1, after * sizeof *line);
    hook->n_lines--;
    if (hook->n_lines > 0)
        return hook_save(hook, err);
    if (hook->calls)
        return rename(hook->kept, hook->path) == 0 || io_fail(err, hook->path);
    return fsx_remove(hook->path, err);
}

bool hook_install(enum archive_kind kind, const char *repository, const struct hook_call *call, struct arena *arena,
    struct hook_paths *out, struct err *err)
{
    struct hook_set set;
    struct err ignored = { 0 };
    bool fresh[HOOKS_MAX] = { 0 }, good = set_begin(&set, kind, repository, arena, err) && call_check(call, err);
    for (size_t i = 0; good && i < set.n; i++) /* all are looked at before one is changed */
        good = hook_load(&set.hooks[i], repository, err) && line_put(&set.hooks[i], call, &fresh[i], err);
    if (!good || !fsx_make_dirs(str_fmt(arena, "%s/hooks", repository).ptr, 0755, err))
        return false;
    size_t n = 0;
    for (; good && n < set.n; n++) {
        struct hook *hook = &set.hooks[n];
        good = (!hook->is_there || hook->is_ours || hook_keep(hook, err)) && hook_save(hook, err);
    }
    for (size_t i = 0; !good && i + 1 < n; i++) /* all or none */
        if (fresh[i] && !line_drop(&set.hooks[i], call->archive, &ignored))
            break;
    if (good && out != NULL) {
        *out = (struct hook_paths){ .n_wanted = set.n };
        for (size_t i = 0; i < set.n; i++)
            out->installed[out->n_installed++] = set.hooks[i].path;
    }
    return good;
}

bool hook_remove(enum archive_kind kind, const char *repository, struct str archive, struct err *err)
{
    struct arena arena = { 0 };
    struct hook_set set;
    bool good = set_begin(&set, kind, repository, &arena, err);
    for (size_t i = 0; good && i < set.n; i++) { /* one that somebody changed doesn't keep the others there */
        struct err own = { 0 };
        if (!(hook_load(&set.hooks[i], repository, &own) && line_drop(&set.hooks[i], archive, &own)) &&
            err->code == ERR_none)
            *err = own;
    }
    good = good && err->code == ERR_none;
    arena_release(&arena);
    return good;
}

bool hook_find(enum archive_kind kind, const char *repository, struct str archive, struct arena *arena,
    struct hook_paths *out, struct err *err)
{
    struct hook_set set;
    *out = (struct hook_paths){ 0 };
    if (!set_begin(&set, kind, repository, arena, err))
        return false;
    out->n_wanted = set.n;
    for (size_t i = 0; i < set.n; i++) {
        if (!hook_load(&set.hooks[i], repository, err))
            return false;
        if (line_find(&set.hooks[i], archive) != NULL)
            out->installed[out->n_installed++] = set.hooks[i].path;
    }
    return true;
}
