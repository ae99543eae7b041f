/* changeset_meta: sections of `meta`, read and replaced. See changeset_meta.h.
 *
 * Owns the grammar of sections and the rules about lists of paths. It promises that every byte of an accepted text is
 * part of exactly one section or of the blank lines before the first, and that a fault names its line. It fails by
 * diags, all faults at once; only bytes that are no text (NUL, CR, not UTF-8) or a text beyond its limit end it early.
 */
#include "text/changeset_meta.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "text/utf8.h"

static const struct str kind_names[META_KIND_COUNT] = { [META_UNKNOWN] = { "", 0 },
    [META_MOVETYPE] = { "movetype", 8 },
    [META_TARGET] = { "target", 6 },
    [META_FILES] = { "files", 5 },
    [META_DEPENDENCIES] = { "dependencies", 12 },
    [META_APPROVAL] = { "approval", 8 },
    [META_PRECURSORS] = { "precursors", 10 },
    [META_REMOVED] = { "removed", 7 },
    [META_OVERLAPPING] = { "overlapping", 11 },
    [META_MESSAGE] = { "message", 7 },
    [META_BASE] = { "base", 4 },
    [META_CSID] = { "csid", 4 },
    [META_STATE] = { "state", 5 },
    [META_HISTORY] = { "history", 7 } };

struct str meta_kind_name(enum meta_kind kind)
{
    return kind_names[kind];
}

struct read {
    const struct changeset_limits *limits;
    struct arena *arena;
    struct diags *diags;
    struct changeset_meta *meta;
};

static struct diag_place line_place(const struct changeset_meta *meta, unsigned line)
{
    return (struct diag_place){ meta->file, line, 1 };
}

/* path_fault_add: the sentence begins with the path, which is the pointer of the fault, too. */
static void path_fault_add(struct read *read, const struct meta_line *line, struct str sentence)
{
    diag_error(read->diags, line_place(read->meta, line->line), "'%.*s' %.*s", STR_ARG(diag_shown(line->text)),
        STR_ARG(sentence));
    if (read->diags->n_dropped == 0)
        read->diags->items[read->diags->n - 1].pointer = line->text;
}

/* line_cut: takes the next line, without its end, out of *rest; false at the end. Unlike str_cut it gives the empty
 * last line of "a\n\n", so that lines are counted right. */
static bool line_cut(struct str *rest, struct str *out_line)
{
    if (rest->len == 0)
        return false;
    const char *end = memchr(rest->ptr, '\n', rest->len);
    size_t to = end != NULL ? (size_t)(end - rest->ptr) : rest->len;
    *out_line = (struct str){ rest->ptr, to };
    *rest = str_sub(*rest, end != NULL ? to + 1 : to, rest->len);
    return true;
}

static bool is_heading(struct str line)
{
    return line.len >= 2 && line.ptr[0] == '#' && line.ptr[1] == '#';
}

/* --- bytes and sections --- */

/* bytes_check: the first NUL, the first CR and the first byte that isn't UTF-8. */
static bool bytes_check(struct read *read)
{
    const struct diag_file *file = read->meta->file;
    struct str text = file->text;
    const char *nul = text.len > 0 ? memchr(text.ptr, 0, text.len) : NULL;
    const char *cr = text.len > 0 ? memchr(text.ptr, '\r', text.len) : NULL;
    size_t bad = utf8_fault(text);
    if (nul != NULL)
        diag_error(read->diags, diag_place_at(file, (size_t)(nul - text.ptr)), "a byte 0, which no text has");
    if (cr != NULL) {
        diag_error(read->diags, diag_place_at(file, (size_t)(cr - text.ptr)), "a carriage return");
        diag_suggest(read->diags, "lines of meta end with a newline alone");
    }
    if (bad < text.len)
        diag_error(read->diags, diag_place_at(file, bad), "bytes that aren't UTF-8");
    return nul == NULL && cr == NULL && bad == text.len;
}

static enum meta_kind kind_find(struct str name)
{
    for (enum meta_kind kind = META_MOVETYPE; kind < META_KIND_COUNT; kind++)
        if (str_eq(name, kind_names[kind]))
            return kind;
    return META_UNKNOWN;
}

static void section_begin(struct read *read, struct smap *seen, struct str line, unsigned number)
{
    struct changeset_meta *meta = read->meta;
    struct str name = str_trim(str_sub(line, 2, line.len));
    uintptr_t first = (uintptr_t)smap_find(seen, name);
    if (first != 0)
        diag_error(read->diags, line_place(meta, number), "the section '##%.*s' stands in line %u already",
            STR_ARG(diag_shown(name)), (unsigned)first);
    else
        smap_put(seen, name, (void *)(uintptr_t)number);
    struct meta_section *section = ARENA_PUSH(read->arena, meta->sections.at, meta->sections.n, meta->sections.cap);
    *section = (struct meta_section){
        .kind = first != 0 ? META_UNKNOWN : kind_find(name), .name = name, .whole = { line.ptr, 0 }, .line = number
    };
    if (first == 0 && section->kind == META_UNKNOWN && str_closest(name, kind_names + 1, META_CSID - 1).len > 0) {
        diag_warning(read->diags, line_place(meta, number), "the section '##%.*s' isn't known: it is kept and ignored",
            STR_ARG(diag_shown(name)));
        diag_suggest_closest(read->diags, name, kind_names + 1, META_CSID - 1);
    }
}

/* sections_read: where each section begins and ends. The number of distinct names isn't limited but by the bytes of
 * meta, so repeats are found by a map. */
static void sections_read(struct read *read)
{
    struct changeset_meta *meta = read->meta;
    struct str text = meta->file->text, rest = text, line;
    struct smap seen = { 0 };
    bool early = false;
    for (unsigned number = 1; line_cut(&rest, &line); number++) {
        if (is_heading(line)) {
            section_begin(read, &seen, line, number);
        } else if (meta->sections.n == 0 && str_trim(line).len > 0 && !early) {
            early = true;
            diag_error(read->diags, line_place(meta, number), "text before the first section");
            diag_suggest(read->diags, "meta begins with a line such as '##movetype'");
        }
    }
    smap_release(&seen);
    for (size_t i = 0; i < meta->sections.n; i++) {
        struct meta_section *section = &meta->sections.at[i];
        const char *end = i + 1 < meta->sections.n ? section[1].whole.ptr : text.ptr + text.len;
        section->whole.len = (size_t)(end - section->whole.ptr);
        section->body = section->whole;
        line_cut(&section->body, &line);
        if (section->kind != META_UNKNOWN)
            meta->known[section->kind] = section;
    }
}

/* --- values of sections --- */

/* lines_read: the lines of a section that aren't empty; with trim, those that aren't blank, without blanks around. Past
 * max nothing is kept: false. */
static bool lines_read(
    struct read *read, const struct meta_section *section, bool trim, size_t max, struct meta_lines *out)
{
    if (section == NULL)
        return true;
    struct str rest = section->body, line;
    for (unsigned number = section->line + 1; line_cut(&rest, &line); number++) {
        line = trim ? str_trim(line) : line;
        if (line.len == 0)
            continue;
        if (out->n >= max) {
            read->meta->is_over_limit = true;
            return diag_error(read->diags, line_place(read->meta, number),
                "more than %lld paths in ##files and ##removed (changesets.limits.files)",
                (long long)read->limits->files);
        }
        *ARENA_PUSH(read->arena, out->at, out->n, out->cap) = (struct meta_line){ line, number };
    }
    return true;
}

/* value_read: the one line of a section that has one value. */
static void value_read(struct read *read, enum meta_kind kind, struct str *out)
{
    const struct meta_section *section = read->meta->known[kind];
    struct meta_lines lines = { 0 };
    lines_read(read, section, true, SIZE_MAX, &lines);
    if (lines.n > 0)
        *out = lines.at[0].text;
    if (lines.n > 1 && kind < META_CSID)
        diag_error(read->diags, line_place(read->meta, lines.at[1].line), "##%.*s has one line, and this is the second",
            STR_ARG(section->name));
}

static void movetype_read(struct read *read)
{
    struct changeset_meta *meta = read->meta;
    const struct meta_section *section = meta->known[META_MOVETYPE];
    struct str text = { 0 };
    value_read(read, META_MOVETYPE, &text);
    meta->movetype = movetype_find(text);
    if (section == NULL || meta->movetype != MOVE_NONE)
        return;
    struct str types[MOVE_COUNT - 1];
    for (enum movetype type = MOVE_DC; type < MOVE_COUNT; type++)
        types[type - 1] = str_of(movetype_name(type));
    diag_error(read->diags,
        diag_place_at(meta->file, (size_t)((text.len > 0 ? text.ptr : section->whole.ptr) - meta->file->text.ptr)),
        text.len > 0 ? "'%.*s' is no move type" : "##movetype is empty%.*s", STR_ARG(diag_shown(text)));
    diag_suggest_known(read->diags, text, types, MOVE_COUNT - 1);
}

/* csids_read: each CSID once; the order of the first mentions stays. */
static void csids_read(struct read *read, enum meta_kind kind, struct meta_lines *out)
{
    struct meta_lines lines = { 0 };
    struct smap seen = { 0 };
    lines_read(read, read->meta->known[kind], true, SIZE_MAX, &lines);
    for (size_t i = 0; i < lines.n; i++) {
        struct meta_line *line = &lines.at[i];
        struct err err = { 0 };
        if (!csid_check(line->text, &err))
            diag_error(read->diags, line_place(read->meta, line->line), "%s", err.text);
        else if (smap_find(&seen, line->text) == NULL) {
            smap_put(&seen, line->text, line);
            *ARENA_PUSH(read->arena, out->at, out->n, out->cap) = *line;
        }
    }
    smap_release(&seen);
}

/* --- paths --- */

struct listed { /* a path with its list */
    const struct meta_line *line;
    bool is_removed;
};

static int listed_compare(const void *left, const void *right)
{
    const struct listed *a = left, *b = right;
    int order = changeset_path_compare(a->line->text, b->line->text);
    if (order != 0)
        return order;
    return (a->line->line > b->line->line) - (a->line->line < b->line->line);
}

/* pair_check: two paths of which none stands between them in the order; `before` is the last one of the same list. */
static void pair_check(struct read *read, const struct listed *before, const struct listed *path)
{
    struct str a = before->line->text, b = path->line->text;
    if (str_eq(a, b) && before->is_removed == path->is_removed)
        path_fault_add(read, path->line, str_fmt(read->arena, "stands in line %u already", before->line->line));
    else if (str_eq(a, b))
        path_fault_add(
            read, path->line, str_fmt(read->arena, "is in ##files and in ##removed (line %u)", before->line->line));
    else if (before->is_removed == path->is_removed && changeset_path_is_below(b, a))
        path_fault_add(read, path->line,
            str_fmt(
                read->arena, "is below '%.*s' (line %u), which is a file", STR_ARG(diag_shown(a)), before->line->line));
}

/* lists_compare: repeats, and files that are folders of others. Sorted so that what is below a folder follows it at
 * once, only the last path of each list, and the same path of the other list, have to be looked at. */
static void lists_compare(struct read *read)
{
    const struct changeset_meta *meta = read->meta;
    size_t n = meta->files.n + meta->removed.n;
    if (n < 2)
        return;
    struct listed *all = ARENA_ARRAY(read->arena, struct listed, n);
    const struct listed *last[2] = { NULL, NULL };
    for (size_t i = 0; i < n; i++) {
        bool is_removed = i >= meta->files.n;
        all[i] = (struct listed){ is_removed ? &meta->removed.at[i - meta->files.n] : &meta->files.at[i], is_removed };
    }
    qsort(all, n, sizeof all[0], listed_compare);
    for (size_t i = 0; i < n; i++) {
        const struct listed *path = &all[i], *own = last[path->is_removed], *other = last[!path->is_removed];
        if (own != NULL)
            pair_check(read, own, path);
        if (other != NULL && str_eq(other->line->text, path->line->text))
            pair_check(read, other, path);
        /* a file stays the last one while what is below it comes, so that each path below it is a fault */
        if (own == NULL || !changeset_path_is_below(path->line->text, own->line->text))
            last[path->is_removed] = path;
    }
}

static bool paths_check(struct read *read, const struct meta_lines *paths)
{
    bool good = true;
    for (size_t i = 0; i < paths->n; i++) {
        enum path_fault fault = changeset_path_check(paths->at[i].text, read->limits);
        if (fault == PATH_GOOD)
            continue;
        good = false;
        read->meta->is_over_limit |= path_fault_is_limit(fault);
        path_fault_add(read, &paths->at[i], path_fault_sentence(read->arena, fault, read->limits));
    }
    return good;
}

static void paths_read(struct read *read)
{
    struct changeset_meta *meta = read->meta;
    size_t max = (size_t)read->limits->files;
    bool good = lines_read(read, meta->known[META_FILES], false, max, &meta->files) &&
                lines_read(read, meta->known[META_REMOVED], false, max - meta->files.n, &meta->removed);
    good &= paths_check(read, &meta->files);
    good &= paths_check(read, &meta->removed);
    if (good)
        lists_compare(read);
}

/* --- the whole --- */

/* message_trim: without blank lines before and blanks after; blanks at the begin of the first line stay. */
static struct str message_trim(struct str body)
{
    struct str end = str_trim(body), rest = body, line;
    if (end.len == 0)
        return (struct str){ 0 };
    while (line_cut(&rest, &line) && str_trim(line).len == 0)
        ;
    return (struct str){ line.ptr, (size_t)(end.ptr + end.len - line.ptr) };
}

bool changeset_meta_read(struct str text, const struct changeset_limits *limits, struct arena *arena,
    struct diags *diags, struct changeset_meta *out)
{
    struct read read = { limits, arena, diags, out };
    size_t errors = diags->n_errors;
    *out = (struct changeset_meta){ .file = ARENA_NEW(arena, struct diag_file) };
    *out->file = (struct diag_file){ STR("meta"), text };
    if (text.len > limits->meta_bytes) {
        out->is_over_limit = true;
        return diag_error(diags, (struct diag_place){ out->file, 0, 0 },
            "longer than %llu bytes (changesets.limits.meta)", (unsigned long long)limits->meta_bytes);
    }
    if (!bytes_check(&read))
        return false;
    sections_read(&read);
    movetype_read(&read);
    value_read(&read, META_TARGET, &out->target);
    value_read(&read, META_APPROVAL, &out->approval);
    value_read(&read, META_BASE, &out->base);
    value_read(&read, META_CSID, &out->csid);
    value_read(&read, META_STATE, &out->state);
    csids_read(&read, META_DEPENDENCIES, &out->dependencies);
    csids_read(&read, META_PRECURSORS, &out->precursors);
    lines_read(&read, out->known[META_HISTORY], true, SIZE_MAX, &out->history);
    paths_read(&read);
    out->overlapping = out->known[META_OVERLAPPING] != NULL;
    if (out->known[META_MESSAGE] != NULL)
        out->message = message_trim(out->known[META_MESSAGE]->body);
    diags_sort(diags);
    return diags->n_errors == errors;
}

static unsigned section_line(const struct changeset_meta *meta, enum meta_kind kind)
{
    return meta->known[kind] != NULL ? meta->known[kind]->line : 0;
}

/* rollback_check: what an RB must and mustn't have. */
static void rollback_check(const struct changeset_meta *meta, struct diags *diags)
{
    for (int i = 0; i < 2; i++) {
        const struct meta_lines *paths = i == 0 ? &meta->files : &meta->removed;
        if (paths->n > 0)
            diag_error(diags, line_place(meta, paths->at[0].line), "a rollback (RB) has no %s",
                i == 0 ? "files" : "removed paths");
    }
    if (meta->dependencies.n == 0)
        diag_error(diags, line_place(meta, section_line(meta, META_DEPENDENCIES)),
            "a rollback (RB) lists what it rolls back in ##dependencies");
}

bool changeset_meta_check(
    const struct changeset_meta *meta, struct str csid, const struct changeset_name *name, struct diags *diags)
{
    size_t errors = diags->n_errors;
    enum movetype movetype = meta->movetype == MOVE_NONE && name != NULL ? name->movetype : meta->movetype;
    if (movetype == MOVE_NONE)
        diag_error(diags, line_place(meta, section_line(meta, META_MOVETYPE)), "there is no ##movetype");
    else if (name != NULL && movetype != name->movetype)
        diag_error(diags, line_place(meta, section_line(meta, META_MOVETYPE)), "##movetype is %s, but the name says %s",
            movetype_name(movetype), movetype_name(name->movetype));
    if (meta->target.len == 0)
        diag_error(diags, line_place(meta, section_line(meta, META_TARGET)), "there is no ##target");
    if (movetype == MOVE_RB)
        rollback_check(meta, diags);
    else if (meta->files.n + meta->removed.n == 0)
        diag_error(diags, line_place(meta, section_line(meta, META_FILES)),
            "nothing to do: no path in ##files and none in ##removed");
    if (meta->overlapping && movetype != MOVE_RB && movetype != MOVE_NONE)
        diag_warning(diags, line_place(meta, section_line(meta, META_OVERLAPPING)),
            "##overlapping says something of rollbacks (RB) only: it is ignored");
    const struct meta_lines *lists[] = { &meta->dependencies, &meta->precursors };
    for (size_t i = 0; csid.len > 0 && i < 2; i++)
        for (size_t k = 0; k < lists[i]->n; k++)
            if (str_eq(lists[i]->at[k].text, csid))
                diag_error(
                    diags, line_place(meta, lists[i]->at[k].line), "'%.*s' is the change set itself", STR_ARG(csid));
    diags_sort(diags);
    return diags->n_errors == errors;
}

bool changeset_meta_refuse(const struct changeset_meta *meta, const struct diags *diags, struct err *err)
{
    bool good = diags_to_err(diags, err);
    if (!good && meta->is_over_limit)
        err->code = ERR_body_too_large;
    return good;
}

/* --- writing --- */

/* body_add: the lines of a body, so that reading finds the section's end where it is. */
static void body_add(struct buf *out, struct str body)
{
    bool at_begin = true;
    for (size_t i = 0; i < body.len; i++) {
        char c = body.ptr[i];
        if (c == '\r' && i + 1 < body.len && body.ptr[i + 1] == '\n')
            continue;
        if (at_begin && is_heading(str_sub(body, i, body.len)))
            buf_add_char(out, ' ');
        at_begin = c == '\n' || c == '\r';
        buf_add_char(out, at_begin ? '\n' : c);
    }
    if (!at_begin)
        buf_add_char(out, '\n');
}

bool changeset_meta_put(struct buf *out, struct str text, struct str name, struct str body, struct err *err)
{
    struct str rest = text, line;
    size_t from = text.len, to = text.len; /* what is replaced */
    if (memchr(body.len > 0 ? body.ptr : "x", 0, body.len) != NULL || utf8_fault(body) < body.len)
        return err_set(err, ERR_invalid, "the text for ##%.*s isn't UTF-8", STR_ARG(name));
    while (line_cut(&rest, &line)) {
        if (!is_heading(line))
            continue;
        size_t at = (size_t)(line.ptr - text.ptr);
        if (from < text.len) {
            to = at;
            break;
        }
        if (str_eq(str_trim(str_sub(line, 2, line.len)), name))
            from = at;
    }
    buf_add_str(out, str_sub(text, 0, from));
    if (from > 0 && text.ptr[from - 1] != '\n') /* the last line had no end */
        buf_add_char(out, '\n');
    buf_addf(out, "##%.*s\n", STR_ARG(name));
    body_add(out, body);
    buf_add_str(out, str_sub(text, to, text.len));
    if (out->full)
        return err_set(
            err, ERR_body_too_large, "with ##%.*s the file meta is longer than %zu bytes", STR_ARG(name), out->cap);
    return true;
}
