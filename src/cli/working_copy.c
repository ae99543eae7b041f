/* working_copy: see working_copy.h. */
#include "cli/working_copy.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/program.h"

#define ANSWER_BYTES_MAX ((size_t)256 << 20)

enum copy_program working_copy_find(const char *folder, struct arena *arena, const char **out_root)
{
    static const struct {
        const char *name;
        enum copy_program program;
    } marks[] = { { ".git", COPY_GIT }, { ".svn", COPY_SVN } };
    struct str at = str_of(folder);
    struct stat st;
    for (;;) {
        for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
            const char *mark = str_dupz(arena, str_fmt(arena, "%.*s/%s", STR_ARG(at), marks[i].name));
            if (stat(mark, &st) != 0)
                continue;
            *out_root = at.len > 0 ? str_dupz(arena, at) : "/";
            return marks[i].program;
        }
        if (at.len == 0)
            return COPY_NO_PROGRAM;
        ptrdiff_t slash = str_rindex(at, '/');
        at = str_sub(at, 0, slash > 0 ? (size_t)slash : 0);
    }
}

/* ask: the program's answer, in the arena. */
static bool ask(
    const struct working_copy *copy, const char *const *argv, struct arena *arena, struct str *out, struct err *err)
{
    struct buf answer;
    buf_init(&answer, ANSWER_BYTES_MAX);
    bool good = program_read(argv, copy->root, &answer, err);
    *out = good ? buf_move(&answer, arena) : (struct str){ 0 };
    buf_release(&answer);
    return good;
}

static bool git_read(struct working_copy *copy, struct arena *arena, struct err *err)
{
    static const char *const argv[] = { "git", "--no-optional-locks", "status", "--porcelain=v2", "--branch", "-z",
        "--no-renames", "--untracked-files=normal", NULL };
    struct str answer;
    if (!ask(copy, argv, arena, &answer, err) || !copy_status_git(answer, arena, &copy->status, err))
        return false;
    copy->base = copy->status.head;
    return true;
}

static int entry_compare(const void *a, const void *b)
{
    return str_cmp(((const struct copy_entry *)a)->path, ((const struct copy_entry *)b)->path);
}

/* svn_whole: what came with copied folders, which `svn status` doesn't list: asked again, verbosely. */
static bool svn_whole(struct working_copy *copy, struct arena *arena, struct err *err)
{
    static const char *const argv[] = { "svn", "status", "--non-interactive", "-v", "--xml", NULL };
    struct copy_status all;
    struct str answer;
    bool is_copied = false;
    for (size_t i = 0; i < copy->status.n; i++)
        is_copied |= copy->status.at[i].is_copied;
    if (!is_copied)
        return true;
    if (!ask(copy, argv, arena, &answer, err) || !copy_status_svn(answer, arena, &all, err))
        return false;
    copy->status = all;
    return true;
}

/* svn_base: the oldest revision that something changed was made from: a merge against an older one sees the same
 * change on both sides, one against a newer one would take changes back. Nothing but new files: the folder's own. */
static bool svn_base(struct working_copy *copy, struct arena *arena, struct err *err)
{
    static const char *const argv[] = { "svn", "info", "--non-interactive", "--xml", ".", NULL };
    int64_t base = 0;
    struct str answer;
    for (size_t i = 0; i < copy->status.n; i++) {
        const struct copy_entry *e = &copy->status.at[i];
        if (e->revision > 0 && (base == 0 || e->revision < base))
            base = e->revision;
    }
    if (base == 0 && (!ask(copy, argv, arena, &answer, err) || !copy_info_svn(answer, arena, &base, err)))
        return false;
    copy->base = str_fmt(arena, "%lld", (long long)base);
    return true;
}

static bool svn_bits(struct working_copy *copy, struct arena *arena, struct err *err)
{
    static const char *const argv[] = { "svn", "propget", "--non-interactive", "--xml", "-R", "svn:executable", ".",
        NULL };
    struct str answer, root = str_fmt(arena, "%s/", copy->root);
    if (!ask(copy, argv, arena, &answer, err) || !copy_executables_svn(answer, arena, &copy->bits, err))
        return false;
    for (size_t i = 0; i < copy->bits.n; i++) /* svn says whole paths */
        if (str_starts(copy->bits.at[i].path, root))
            copy->bits.at[i].path = str_sub(copy->bits.at[i].path, root.len, copy->bits.at[i].path.len);
    if (copy->bits.n > 1)
        qsort(copy->bits.at, copy->bits.n, sizeof *copy->bits.at, entry_compare);
    return true;
}

bool working_copy_executable(const struct working_copy *copy, struct str path)
{
    struct copy_entry wanted = { .path = path };
    return copy->bits.n > 0 &&
           bsearch(&wanted, copy->bits.at, copy->bits.n, sizeof *copy->bits.at, entry_compare) != NULL;
}

static bool svn_read(struct working_copy *copy, struct arena *arena, struct err *err)
{
    static const char *const argv[] = { "svn", "status", "--non-interactive", "--xml", NULL };
    struct str answer;
    if (!ask(copy, argv, arena, &answer, err) || !copy_status_svn(answer, arena, &copy->status, err) ||
        !svn_whole(copy, arena, err) || !svn_base(copy, arena, err) || !svn_bits(copy, arena, err))
        return false;
    for (size_t i = 0; i < copy->status.n; i++)
        copy->status.at[i].is_executable = working_copy_executable(copy, copy->status.at[i].path);
    return true;
}

bool working_copy_read(struct working_copy *copy, struct arena *arena, struct err *err)
{
    return copy->program == COPY_GIT ? git_read(copy, arena, err) : svn_read(copy, arena, err);
}
