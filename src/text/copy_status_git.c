/* copy_status_git: `git status --porcelain=v2 --branch -z`: records that end in a NUL, fields between blanks, the path
 * last and whole.
 *
 *   # branch.oid 5a1c...
 *   1 XY SUB MODE_HEAD MODE_INDEX MODE_WORKTREE HASH HASH PATH
 *   2 XY SUB MODE_HEAD MODE_INDEX MODE_WORKTREE HASH HASH SCORE PATH   and a record with the path that it comes from
 *   u ... PATH
 *   ? PATH
 *   ! PATH */
#include <string.h>

#include "text/copy_status.h"

#define MODE_ABSENT "000000"
#define MODE_EXECUTABLE "100755"
#define MODE_FILE "100644"
#define MODE_LINK "120000"
#define MODE_MODULE "160000"

enum { FIELDS_CHANGED = 8, FIELDS_RENAMED = 9, FIELDS_UNMERGED = 10, FIELDS_MAX = 10 };

struct git_read {
    struct str text, rest;
    struct arena *arena;
    struct copy_status *out;
    struct err *err;
};

static bool git_fault(struct git_read *read, struct str at)
{
    return err_set(read->err, ERR_invalid, "the answer of git status can't be read at byte %zu",
        (size_t)(at.ptr - read->text.ptr) + 1);
}

/* record_next: up to a NUL, which must be there; false: there is none, with err if something is left. */
static bool record_next(struct git_read *read, struct str *out)
{
    ptrdiff_t end = str_index(read->rest, '\0');
    if (end < 0)
        return read->rest.len > 0 && git_fault(read, read->rest);
    *out = str_sub(read->rest, 0, (size_t)end);
    read->rest = str_sub(read->rest, (size_t)end + 1, read->rest.len);
    return true;
}

static bool entry_add(struct git_read *read, struct str path, enum copy_kind kind, bool is_executable)
{
    if (path.len == 0)
        return git_fault(read, path);
    if (read->out->n >= COPY_ENTRIES_MAX)
        return err_set(
            read->err, ERR_body_too_large, "the working copy has more than %d changed paths", COPY_ENTRIES_MAX);
    if (path.ptr[path.len - 1] == '/') /* an unknown folder */
        path.len--;
    *ARENA_PUSH(read->arena, read->out->at, read->out->n, read->out->cap) =
        (struct copy_entry){ .path = path, .kind = kind, .is_executable = is_executable };
    return true;
}

/* fields_cut: n fields, each with the blank behind it; what is left is the path. */
static bool fields_cut(struct git_read *read, struct str *record, struct str *fields, size_t n)
{
    struct str whole = *record;
    for (size_t i = 0; i < n; i++) {
        ptrdiff_t end = str_index(*record, ' ');
        if (end <= 0)
            return git_fault(read, whole);
        fields[i] = str_sub(*record, 0, (size_t)end);
        *record = str_sub(*record, (size_t)end + 1, record->len);
    }
    return true;
}

/* changed_add: by what stands in the working copy now. */
static bool changed_add(struct git_read *read, const struct str *fields, struct str path)
{
    struct str module = fields[2], head = fields[3], mode = fields[5];
    if (str_eqz(mode, MODE_MODULE))
        return !str_starts(module, STR("SC")) || entry_add(read, path, COPY_MODULE, false);
    if (str_eqz(mode, MODE_ABSENT)) /* added and gone again: nothing */
        return str_eqz(head, MODE_ABSENT) || entry_add(read, path, COPY_REMOVED, false);
    if (str_eqz(mode, MODE_LINK))
        return entry_add(read, path, COPY_LINK, false);
    if (!str_eqz(mode, MODE_FILE) && !str_eqz(mode, MODE_EXECUTABLE))
        return git_fault(read, mode);
    return entry_add(read, path, COPY_CHANGED, str_eqz(mode, MODE_EXECUTABLE));
}

static bool renamed_add(struct git_read *read, const struct str *fields, struct str path, struct str record)
{
    struct str from;
    if (!record_next(read, &from))
        return read->err->code != ERR_none ? false : git_fault(read, record);
    bool is_copy = fields[8].len > 0 && fields[8].ptr[0] == 'C';
    return changed_add(read, fields, path) && (is_copy || entry_add(read, from, COPY_REMOVED, false));
}

static bool record_read(struct git_read *read, struct str record)
{
    struct str fields[FIELDS_MAX], path = record;
    if (str_starts(record, STR("# branch.oid "))) {
        struct str commit = str_sub(record, 13, record.len);
        read->out->head = str_eqz(commit, "(initial)") ? (struct str){ 0 } : commit;
        for (size_t i = 0; i < read->out->head.len; i++)
            if (hex_digit(commit.ptr[i]) < 0)
                return git_fault(read, commit);
        return true;
    }
    if (str_starts(record, STR("1 ")))
        return fields_cut(read, &path, fields, FIELDS_CHANGED) && changed_add(read, fields, path);
    if (str_starts(record, STR("2 ")))
        return fields_cut(read, &path, fields, FIELDS_RENAMED) && renamed_add(read, fields, path, record);
    if (str_starts(record, STR("u ")))
        return fields_cut(read, &path, fields, FIELDS_UNMERGED) && entry_add(read, path, COPY_CONFLICT, false);
    if (str_starts(record, STR("? ")))
        return entry_add(read, str_sub(record, 2, record.len), COPY_UNKNOWN, false);
    return str_starts(record, STR("# ")) || str_starts(record, STR("! ")) || git_fault(read, record);
}

bool copy_status_git(struct str text, struct arena *arena, struct copy_status *out, struct err *err)
{
    struct git_read read = { .text = text, .rest = text, .arena = arena, .out = out, .err = err };
    struct str record;
    err->code = ERR_none;
    *out = (struct copy_status){ 0 };
    while (record_next(&read, &record))
        if (!record_read(&read, record))
            return false;
    return err->code == ERR_none;
}
