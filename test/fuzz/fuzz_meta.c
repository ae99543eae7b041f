/* The file meta of change sets: sections of an accepted text put together are the text; a section that is put reads
 * back, and every other one stays byte for byte; each fault stands at a line of the text that has what it is about. */
#include "fuzz.h"
#include "text/changeset_meta.h"
#include "text/utf8.h"

#define SHAPES(X) \
    X(accepted) X(unknown) X(files) X(removed) X(message) X(rollback) X(added) X(replaced) X(repeated) X(cr) X(nul) \
    X(encoding) X(early) X(path) X(clash) X(limit) X(whole)
FUZZ_SHAPES(SHAPES)

static const struct changeset_limits limits = { 1 << 20, 3000, 20, 60, 5 };

static bool says(const struct diag *diag, const char *words)
{
    return memmem(diag->message.ptr, diag->message.len, words, strlen(words)) != NULL;
}

static bool begins(const struct diag *diag, const char *words)
{
    return str_starts(diag->message, str_of(words));
}

/* line_at: line `number` of the text, with what ends it; the model of a fault's place. */
static struct str line_at(struct str text, unsigned number)
{
    size_t from = 0;
    for (unsigned line = 1; line < number; line++) {
        const char *end = from < text.len ? memchr(text.ptr + from, '\n', text.len - from) : NULL;
        HOLDS(end != NULL);
        from = (size_t)(end - text.ptr) + 1;
    }
    const char *end = from < text.len ? memchr(text.ptr + from, '\n', text.len - from) : NULL;
    return str_sub(text, from, end != NULL ? (size_t)(end - text.ptr) : text.len);
}

static void fault_check(struct str text, const struct diag *diag)
{
    HOLDS(diag->message.len > 0);
    if (diag->place.line == 0) {
        SEEN(limit);
        HOLDS(text.len > limits.meta_bytes);
        return;
    }
    struct str line = line_at(text, diag->place.line);
    if (diag->pointer.len > 0) { /* its message shows a part of the text */
        SEEN(path);
        SEEN_IF(clash, says(diag, "is below") || says(diag, "##removed"));
        HOLDS(str_eq(line, diag->pointer));
    } else if (begins(diag, "a carriage return")) {
        SEEN(cr);
        HOLDS(str_index(line, '\r') >= 0);
    } else if (begins(diag, "a byte 0")) {
        SEEN(nul);
        HOLDS(str_index(line, 0) >= 0);
    } else if (begins(diag, "bytes that aren't UTF-8")) {
        SEEN(encoding);
        HOLDS(!str_is_utf8(line));
    } else if (begins(diag, "the section ") && says(diag, "already")) {
        SEEN(repeated);
        HOLDS(str_starts(line, STR("##")));
    } else if (begins(diag, "text before")) {
        SEEN(early);
        HOLDS(!str_starts(line, STR("##")) && str_trim(line).len > 0);
    }
}

/* put_check: one section is replaced or added, the others stay. */
static void put_check(const struct changeset_meta *before, struct str name, struct str body)
{
    struct arena arena = { 0 };
    struct diags diags = { .arena = &arena };
    struct changeset_limits wide = limits;
    struct changeset_meta meta;
    struct err err = { 0 };
    struct buf out;
    wide.meta_bytes = 1 << 20;
    buf_init(&out, 1 << 20);
    if (changeset_meta_put(&out, before->file->text, name, body, &err)) {
        changeset_meta_read(buf_str(&out), &wide, &arena, &diags, &meta);
        size_t at = 0;
        bool found = false;
        for (size_t i = 0; i < meta.sections.n; i++) {
            const struct meta_section *section = &meta.sections.at[i];
            if (str_eq(section->name, name)) {
                found = true;
                bool was = at < before->sections.n && str_eq(before->sections.at[at].name, name);
                SEEN_IF(replaced, was);
                SEEN_IF(added, !was);
                HOLDS(was || i + 1 == meta.sections.n);
                at += was;
                continue;
            }
            struct str old = before->sections.at[at++].whole, now = section->whole;
            bool ended = old.len > 0 && old.ptr[old.len - 1] != '\n'; /* the last line gets an end */
            HOLDS(str_eq(old, now) || (ended && now.len == old.len + 1 && str_starts(now, old)));
        }
        HOLDS(found && at == before->sections.n);
    } else {
        HOLDS(utf8_fault(body) < body.len || memchr(body.ptr, 0, body.len) != NULL);
    }
    buf_release(&out);
    arena_release(&arena);
}

static void accepted_check(struct str text, const struct changeset_meta *meta, struct diags *diags)
{
    SEEN(accepted);
    size_t at = meta->sections.n > 0 ? (size_t)(meta->sections.at[0].whole.ptr - text.ptr) : text.len;
    HOLDS(str_trim(str_sub(text, 0, at)).len == 0);
    for (size_t i = 0; i < meta->sections.n; i++) {
        const struct meta_section *section = &meta->sections.at[i];
        SEEN_IF(unknown, section->kind == META_UNKNOWN);
        HOLDS(section->whole.ptr == text.ptr + at && str_starts(section->whole, STR("##")));
        at += section->whole.len;
        struct str heading = line_at(text, section->line);
        HOLDS(heading.ptr == section->whole.ptr);
    }
    HOLDS(at == text.len);
    HOLDS(meta->files.n + meta->removed.n <= (size_t)limits.files);
    const struct meta_lines *lists[] = { &meta->files, &meta->removed };
    for (size_t k = 0; k < 2; k++)
        for (size_t i = 0; i < lists[k]->n; i++) {
            struct str path = lists[k]->at[i].text;
            HOLDS(changeset_path_check(path, &limits) == PATH_GOOD);
            for (size_t j = 0; j < meta->files.n; j++) { /* the rules pair by pair */
                struct str other = meta->files.at[j].text;
                HOLDS(!str_eq(path, other) || (k == 0 && i == j));
                HOLDS(k == 1 || !changeset_path_is_below(path, other));
            }
        }
    SEEN_IF(files, meta->files.n > 0);
    SEEN_IF(removed, meta->removed.n > 0);
    SEEN_IF(message, meta->message.len > 0);
    SEEN_IF(rollback, meta->movetype == MOVE_RB);
    SEEN_IF(whole, changeset_meta_check(meta, STR("c-1"), NULL, diags));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    static const struct str names[] = { { "state", 5 }, { "message", 7 }, { "precursors", 10 }, { "##", 2 } };
    struct str text = { (const char *)bytes, len };
    struct arena arena = { 0 };
    struct diags diags = { .arena = &arena };
    struct changeset_meta meta;
    if (changeset_meta_read(text, &limits, &arena, &diags, &meta)) {
        accepted_check(text, &meta, &diags);
        for (size_t i = 0; i < 4; i++)
            put_check(&meta, names[i], str_sub(text, 0, len < 200 ? len : 200));
    } else {
        HOLDS(diags.n_errors > 0);
        for (size_t i = 0; i < diags.n; i++)
            fault_check(text, &diags.items[i]);
    }
    arena_release(&arena);
    return 0;
}
