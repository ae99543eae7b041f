/* hook: our lines in the hooks of a repository.
 *
 * A hook of ours is written from a short list (is there one to call first? which archives?) and read back into it; a file that reads back
 * to exactly its own bytes is ours, any other is somebody's. The one that was there gets a second name before ours takes its place, so at
 * no moment is there none.
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

static const char first_line[] = "#!/bin/sh\n";
static const char call_line[] =
    "if [ -x \"$0" KEPT "\" ]; then \"$0" KEPT "\" \"$@\"; status=$?; else status=0; fi # weir: the hook that was here before\n";
static const char last_line[] = "exit \"$status\" # weir: as that one ended\n";
static const char line_head[] = "( ";
/* A job's commit waits for weir (a moment): else the job may end, and everything it left with it, before its cause was told. */
static const char line_tail[] = " </dev/null >/dev/null 2>&1 & [ -z \"$WEIR_KEY\" ] || wait ) || : # weir archive ";
/* Subversion's hooks have no environment: whether a job commits stands in that of the process which called the hook. */
static const char key_words[] = "export WEIR_KEY=\"${WEIR_KEY:-$(sed -zn 's/^WEIR_KEY=//p' /proc/$PPID/environ 2>/dev/null)}\"; ";

struct hook_line {
    struct str archive, command; /* the words between head and tail */
};

struct hook {
    struct arena *arena;
    enum archive_kind kind;
    const char *path, *kept; /* the hook; the one that was there */
    bool is_there, is_ours, calls;
    struct hook_line *lines;
    size_t n_lines, cap_lines;
};

static void hook_text(const struct hook *hook, struct buf *out)
{
    buf_add_z(out, first_line);
    if (hook->calls)
        buf_add_z(out, call_line);
    for (size_t i = 0; i < hook->n_lines; i++) {
        buf_add_z(out, line_head);
        buf_add_str(out, hook->lines[i].command);
        buf_add_z(out, line_tail);
        buf_add_str(out, hook->lines[i].archive);
        buf_add_char(out, '\n');
    }
    if (hook->calls)
        buf_add_z(out, last_line);
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
            "%s: somebody changed weir's hook: keep your own lines in another file, or take weir's lines out by hand", hook->path);
    return true;
}

/* hooks_folder: where the repository's hooks are; git may have been told another place, which other repositories may share. */
static bool hooks_folder(enum archive_kind kind, const char *repository, struct err *err)
{
    if (kind != ARCHIVE_GIT)
        return true;
    char config_path[4200];
    git_config *config = NULL;
    git_buf folder = { 0 };
    snprintf(config_path, sizeof config_path, "%s/config", repository);
    if (!git_start(err))
        return false;
    bool elsewhere = git_config_open_ondisk(&config, config_path) == 0 &&
                     git_config_get_string_buf(&folder, config, "core.hooksPath") == 0 && folder.size > 0;
    if (elsewhere)
        err_set(err, ERR_invalid,
            "%s: git takes this repository's hooks from %s (core.hooksPath): call weir notify from there yourself and use --no-hook",
            repository, folder.ptr);
    git_buf_dispose(&folder);
    git_config_free(config);
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
    const char *name = hook->kind == ARCHIVE_SVN ? "post-commit" : "post-receive";
    if (hook->kind != ARCHIVE_SVN && hook->kind != ARCHIVE_GIT)
        return err_set(err, ERR_invalid, "only local Subversion and git repositories have hooks");
    const char *mark = str_fmt(hook->arena, "%s/%s", repository, hook->kind == ARCHIVE_SVN ? "format" : "HEAD").ptr;
    if (lstat(mark, &st) != 0)
        return errno == EACCES ? io_fail(err, mark) : err_set(err, ERR_not_found, "%s: there is no repository here", repository);
    if (!hooks_folder(hook->kind, repository, err))
        return false;
    hook->path = str_fmt(hook->arena, "%s/hooks/%s", repository, name).ptr;
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
    bool is_kept = lstat(hook->kept, &st) == 0, begun = is_kept && lstat(hook->path, &now) == 0 && now.st_ino == st.st_ino;
    hook->calls = true;
    if (begun)
        return true; /* an earlier install got no further than this */
    if (is_kept)
        return err_set(err, ERR_invalid, "%s: a hook that was kept earlier is in the way: move it to another name", hook->kept);
    if (linkat(AT_FDCWD, hook->path, AT_FDCWD, hook->kept, 0) != 0 && rename(hook->path, hook->kept) != 0)
        return io_fail(err, hook->path);
    return true;
}

static bool word_is_plain(struct str word)
{
    for (size_t i = 0; i < word.len; i++)
        if ((unsigned char)word.ptr[i] < ' ' || word.ptr[i] == 0x7f)
            return false;
    return str_is_utf8(word);
}

static bool archive_is_plain(struct str archive)
{
    for (size_t i = 0; i < archive.len; i++) {
        char c = archive.ptr[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-'))
            return false;
    }
    return archive.len > 0 && archive.len <= 100 && archive.ptr[0] != '-';
}

/* line_make: the words of the call. Hooks have no PATH, so the program is named by its full path. */
static bool line_make(struct hook *hook, struct str archive, struct str program, const struct str *options, size_t n, struct str *out,
    struct err *err)
{
    struct buf words;
    bool plain = word_is_plain(program);
    for (size_t i = 0; i < n; i++)
        plain = plain && word_is_plain(options[i]);
    if (!archive_is_plain(archive))
        return err_set(err, ERR_invalid, "'%.*s' can't be the name of an archive", STR_ARG(archive));
    if (!plain || program.len == 0 || program.ptr[0] != '/')
        return err_set(err, ERR_invalid, "a hook needs the full path of weir, and words without control characters");
    buf_init(&words, LINE_BYTES_MAX);
    if (hook->kind == ARCHIVE_SVN)
        buf_add_z(&words, key_words);
    words_quote(&words, program);
    buf_addf(&words, " notify %.*s %s", STR_ARG(archive), hook->kind == ARCHIVE_SVN ? "\"$2\" --txn \"$3\"" : "HEAD");
    for (size_t i = 0; i < n; i++) {
        buf_add_char(&words, ' ');
        words_quote(&words, options[i]);
    }
    *out = str_dup(hook->arena, buf_str(&words));
    bool good = !words.full || err_set(err, ERR_invalid, "the call of weir is longer than %zu bytes", LINE_BYTES_MAX);
    buf_release(&words);
    return good;
}

static struct hook_line *line_find(const struct hook *hook, struct str archive)
{
    for (size_t i = 0; i < hook->n_lines; i++)
        if (str_eq(hook->lines[i].archive, archive))
            return &hook->lines[i];
    return NULL;
}

bool hook_install(enum archive_kind kind, const char *repository, struct str archive, struct str program, const struct str *options,
    size_t n_options, struct arena *arena, const char **out_path, struct err *err)
{
    struct hook hook = { .arena = arena, .kind = kind };
    struct str command;
    if (!hook_load(&hook, repository, err) || !line_make(&hook, archive, program, options, n_options, &command, err))
        return false;
    struct hook_line *line = line_find(&hook, archive);
    if (line == NULL)
        line = ARENA_PUSH(arena, hook.lines, hook.n_lines, hook.cap_lines);
    *line = (struct hook_line){ archive, command };
    const char *folder = str_fmt(arena, "%s/hooks", repository).ptr;
    if (!fsx_make_dirs(folder, 0755, err))
        return false;
    if (hook.is_there && !hook.is_ours && !hook_keep(&hook, err))
        return false;
    if (!hook_save(&hook, err))
        return false;
    if (out_path != NULL)
        *out_path = hook.path;
    return true;
}

bool hook_remove(enum archive_kind kind, const char *repository, struct str archive, struct err *err)
{
    struct arena arena = { 0 };
    struct hook hook = { .arena = &arena, .kind = kind };
    bool good = hook_load(&hook, repository, err);
    struct hook_line *line = good ? line_find(&hook, archive) : NULL;
    if (line != NULL) {
        size_t after = (size_t)(hook.lines + hook.n_lines - line) - 1;
        memmove(line, line + 1, after * sizeof *line);
        hook.n_lines--;
        if (hook.n_lines > 0)
            good = hook_save(&hook, err);
        else if (hook.calls)
            good = rename(hook.kept, hook.path) == 0 || io_fail(err, hook.path);
        else
            good = fsx_remove(hook.path, err);
    }
    arena_release(&arena);
    return good;
}

bool hook_is_installed(enum archive_kind kind, const char *repository, struct str archive, bool *out, struct err *err)
{
    struct arena arena = { 0 };
    struct hook hook = { .arena = &arena, .kind = kind };
    bool good = hook_load(&hook, repository, err);
    *out = good && line_find(&hook, archive) != NULL;
    arena_release(&arena);
    return good;
}
