#include "cli/workflow_files.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "io/fsx.h"
#include "io/timezone.h"

#define FOLDER "_workflows"

void workflow_sets_init(struct workflow_sets *sets, struct arena *arena)
{
    *sets = (struct workflow_sets){ .arena = arena, .diags = { .arena = arena } };
}

static struct workflow_set *set_new(struct workflow_sets *sets, const char *folder)
{
    struct workflow_set *set = ARENA_PUSH(sets->arena, sets->items, sets->n, sets->cap);
    set->folder = folder;
    return set;
}

static bool folder_is_in(const struct workflow_sets *sets, const char *folder)
{
    for (size_t i = 0; i < sets->n; i++)
        if (sets->items[i].folder != NULL && strcmp(sets->items[i].folder, folder) == 0)
            return true;
    return false;
}

/* name_shown: a path as it may stand on a terminal. */
static struct str name_shown(struct arena *arena, const char *path)
{
    char *copy = str_dupz(arena, str_of(path));
    for (char *c = copy; *c != '\0'; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            *c = '?';
    return str_of(copy);
}

/* file_read: into the set; what is wrong with the file is a diagnostic, and true all the same. */
static bool file_read(struct workflow_sets *sets, struct workflow_set *set, const char *path, struct err *err)
{
    struct diag_file *file = ARENA_NEW(sets->arena, struct diag_file);
    struct diag_place place = { file, 0, 0 };
    struct stat st;
    file->name = name_shown(sets->arena, path);
    if (lstat(path, &st) != 0)
        return err_set(
            err, errno == ENOENT || errno == ENOTDIR ? ERR_not_found : ERR_io, "%s: %s", path, strerror(errno));
    sets->n_files++;
    if (!S_ISREG(st.st_mode)) {
        diag_error(&sets->diags, place,
            S_ISLNK(st.st_mode) ? "a workflow file must not be a symbolic link" : "this isn't a plain file");
        return true;
    }
    struct err fault = { 0 };
    if (!fsx_read(path, NODE_FILE_BYTES_MAX, sets->arena, &file->text, &fault)) {
        if (fault.code == ERR_body_too_large)
            diag_error(&sets->diags, place, "the file is larger than %zu bytes", NODE_FILE_BYTES_MAX);
        else
            diag_error(&sets->diags, place, "%s", fault.text);
        return true;
    }
    *ARENA_PUSH(sets->arena, set->sources, set->n_sources, set->cap_sources) = (struct workflow_source){ file, NULL };
    return true;
}

static int name_compare(const void *a, const void *b)
{
    const struct str *x = a, *y = b;
    return str_cmp(*x, *y);
}

/* folder_names: the workflow files in it, sorted; too many are an error of the folder. */
static bool folder_names(
    struct workflow_sets *sets, const char *folder, struct str **out, size_t *out_n, struct err *err)
{
    struct str *names = NULL;
    size_t n = 0, cap = 0;
    DIR *dir = opendir(folder);
    if (dir == NULL)
        return err_set(err, ERR_io, "%s: %s", folder, strerror(errno));
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        struct str name = str_of(entry->d_name);
        if (!workflow_is_file(name) || name.ptr[0] == '.')
            continue;
        *ARENA_PUSH(sets->arena, names, n, cap) = str_dup(sets->arena, name);
        if (n > WORKFLOW_FILES_MAX)
            break;
    }
    closedir(dir);
    if (n > 0)
        qsort(names, n, sizeof *names, name_compare);
    *out = names;
    *out_n = n;
    return n <= WORKFLOW_FILES_MAX ||
           err_set(err, ERR_invalid, "%s: there are more than %d workflow files", folder, WORKFLOW_FILES_MAX);
}

static bool folder_add(struct workflow_sets *sets, const char *folder, struct err *err)
{
    struct stat st;
    struct str *names = NULL;
    size_t n = 0;
    if (lstat(folder, &st) != 0)
        return err_set(err, ERR_not_found, "%s: %s", folder, strerror(errno));
    if (!S_ISDIR(st.st_mode))
        return err_set(err, ERR_invalid, "%s: " FOLDER " must be a folder of its own, not a link or a file", folder);
    if (folder_is_in(sets, folder))
        return true;
    if (!folder_names(sets, folder, &names, &n, err))
        return false;
    struct workflow_set *set = set_new(sets, folder);
    for (size_t i = 0; i < n; i++)
        if (!file_read(
                sets, set, str_dupz(sets->arena, str_fmt(sets->arena, "%s/%.*s", folder, STR_ARG(names[i]))), err))
            return false;
    return true;
}

/* path_clean: without slashes at the end. */
static struct str path_clean(const char *path)
{
    struct str clean = str_of(path);
    while (clean.len > 1 && clean.ptr[clean.len - 1] == '/')
        clean.len--;
    return clean;
}

static bool is_named(struct str path, const char *name)
{
    ptrdiff_t slash = str_rindex(path, '/');
    return str_eqz(str_sub(path, (size_t)(slash + 1), path.len), name);
}

bool workflow_sets_add(struct workflow_sets *sets, const char *path, struct err *err)
{
    struct str clean = path_clean(path);
    const char *at = str_dupz(sets->arena, clean);
    struct stat st;
    if (stat(at, &st) != 0 && lstat(at, &st) != 0)
        return err_set(
            err, errno == ENOENT || errno == ENOTDIR ? ERR_not_found : ERR_io, "%s: %s", at, strerror(errno));
    if (S_ISDIR(st.st_mode)) {
        if (is_named(clean, FOLDER))
            return folder_add(sets, at, err);
        const char *folder = str_dupz(sets->arena, str_fmt(sets->arena, "%s/" FOLDER, at));
        if (lstat(folder, &st) != 0)
            return err_set(err, ERR_not_found, "%s: there is no folder " FOLDER " in it: is it an archive's root?", at);
        return folder_add(sets, folder, err);
    }
    ptrdiff_t slash = str_rindex(clean, '/');
    struct str parent = str_sub(clean, 0, slash < 0 ? 0 : (size_t)slash);
    if (!workflow_is_file(clean))
        return err_set(err, ERR_invalid, "%s: workflow files end in .yaml, .yml or .json", at);
    if (slash > 0 && is_named(parent, FOLDER))
        return folder_add(sets, str_dupz(sets->arena, parent), err);
    return file_read(sets, set_new(sets, NULL), at, err);
}

size_t workflow_sets_add_empty(struct workflow_sets *sets)
{
    set_new(sets, NULL);
    return sets->n - 1;
}

void workflow_sets_add_text(struct workflow_sets *sets, size_t set, const char *name, const char *text)
{
    struct workflow_set *to = &sets->items[set];
    struct diag_file *file = ARENA_NEW(sets->arena, struct diag_file);
    *file = (struct diag_file){ name_shown(sets->arena, name), str_dup(sets->arena, str_of(text)) };
    *ARENA_PUSH(sets->arena, to->sources, to->n_sources, to->cap_sources) = (struct workflow_source){ file, NULL };
    sets->n_files++;
}

static bool timezone_is_known(void *context, struct str name)
{
    struct err err = { 0 };
    const struct time_zone *tz;
    return timezone_load(NULL, name, context, &tz, &err);
}

void workflow_sets_check(struct workflow_sets *sets)
{
    for (size_t i = 0; i < sets->n; i++) {
        struct workflow_set *set = &sets->items[i];
        struct workflow_input input = { .sources = set->sources,
            .n_sources = set->n_sources,
            .timezone_is_known = timezone_is_known,
            .context = sets->arena };
        set->ok = workflow_parse(&input, sets->arena, &sets->diags, &set->workflow);
        sets->n_tasks += set->workflow.n_tasks;
    }
    diags_sort(&sets->diags);
}
