/* apply_merge: three versions of a file made into one, by lines; the difference of two as text.
 *
 * A merge compares both sides with the base. Regions of the base that only one side changed are taken from that side;
 * where regions of both touch, the sides must agree. The conflict is reported by lines of the head's text, which is
 * what a person sees in the repository.
 *
 * Fails only if libgit2 can't be used. */
#include "source/apply_merge.h"

#include <string.h>

#include "source/git.h"

#define CONTEXT_LINES 3
#define BINARY_PROBE_BYTES 8000 /* as git: a NUL among them makes a file binary */

/* A run of lines of the base that a side replaced; lines from 0. */
struct change {
    size_t base, base_n, side, side_n;
};

struct side {
    struct str text;
    size_t *starts; /* where each line begins; one more: the end */
    size_t n_lines;
    ARRAY(struct change) changes;
    struct arena *arena;
    long shift; /* side's line less base's line, before the change that comes next */
    size_t next;
};

static void lines_find(struct side *side)
{
    struct str text = side->text;
    size_t n = 0, cap = 0, *starts = NULL;
    for (size_t at = 0; at < text.len;) {
        const char *end = memchr(text.ptr + at, '\n', text.len - at);
        *ARENA_PUSH(side->arena, starts, n, cap) = at;
        at = end != NULL ? (size_t)(end - text.ptr) + 1 : text.len;
    }
    side->n_lines = n;
    *ARENA_PUSH(side->arena, starts, n, cap) = text.len;
    side->starts = starts;
}

static int hunk_take(const git_diff_delta *delta, const git_diff_hunk *hunk, void *context)
{
    struct side *side = context;
    (void)delta;
    struct change *change = ARRAY_ADD(side->arena, side->changes);
    /* of an empty range git names the line before it */
    change->base = (size_t)hunk->old_start - (hunk->old_lines > 0 ? 1 : 0);
    change->base_n = (size_t)hunk->old_lines;
    change->side = (size_t)hunk->new_start - (hunk->new_lines > 0 ? 1 : 0);
    change->side_n = (size_t)hunk->new_lines;
    return 0;
}

static bool diff_fail(struct err *err)
{
    const git_error *last = git_error_last();
    return err_set(err, ERR_internal, "two texts can't be compared: %s",
        last != NULL && last->message != NULL ? last->message : "no reason given");
}

static git_diff_options diff_options(unsigned context_lines)
{
    git_diff_options options;
    git_diff_options_init(&options, GIT_DIFF_OPTIONS_VERSION);
    options.context_lines = context_lines;
    options.max_size = -1;
    options.flags = GIT_DIFF_FORCE_TEXT;
    return options;
}

/* side_compare: what the side changed in the base. */
static bool side_compare(struct side *side, struct str base, struct err *err)
{
    git_diff_options options = diff_options(0);
    lines_find(side);
    int code = git_diff_buffers(base.len > 0 ? base.ptr : "", base.len, NULL, side->text.len > 0 ? side->text.ptr : "",
        side->text.len, NULL, &options, NULL, NULL, hunk_take, NULL, side);
    return code == 0 || diff_fail(err);
}

static struct str side_lines(const struct side *side, size_t from, size_t to)
{
    return str_sub(side->text, side->starts[from], side->starts[to]);
}

/* region_grow: takes the side's changes that begin at or before the region's end; true: the region has grown. */
static bool region_grow(struct side *side, size_t *end, long *shift_after, size_t *taken)
{
    bool grown = false;
    while (side->next + *taken < side->changes.n) {
        const struct change *change = &side->changes.at[side->next + *taken];
        if (change->base > *end)
            break;
        ++*taken;
        *shift_after += (long)change->side_n - (long)change->base_n;
        if (change->base + change->base_n > *end)
            *end = change->base + change->base_n;
        grown = true;
    }
    return grown;
}

static size_t first_base(const struct side *side)
{
    return side->next < side->changes.n ? side->changes.at[side->next].base : SIZE_MAX;
}

/* region_take: the next region of the base that either side changed; *pos: the base's lines that are merged already.
 * Adds the base's lines before it and its outcome; false: the sides disagree. */
static bool region_take(
    const struct side *base, struct side *head, struct side *mine, size_t *pos, struct buf *out, struct merge_lines *at)
{
    size_t start = first_base(head) < first_base(mine) ? first_base(head) : first_base(mine), end = start;
    size_t n_head = 0, n_mine = 0;
    long head_after = head->shift, mine_after = mine->shift;
    /* a change that only begins where the other's region ends touches it: both orders would be a guess */
    bool grown = true;
    while (grown) {
        bool by_head = region_grow(head, &end, &head_after, &n_head);
        bool by_mine = region_grow(mine, &end, &mine_after, &n_mine);
        grown = by_head || by_mine;
    }
    struct str of_head = side_lines(head, (size_t)((long)start + head->shift), (size_t)((long)end + head_after));
    struct str of_mine = side_lines(mine, (size_t)((long)start + mine->shift), (size_t)((long)end + mine_after));
    if (n_head > 0 && n_mine > 0 && !str_eq(of_head, of_mine)) {
        at->conflict = true;
        at->first_line = (unsigned)((long)start + head->shift) + 1;
        at->last_line = (unsigned)((long)end + head_after);
        if (at->last_line < at->first_line)
            at->last_line = at->first_line;
        return false;
    }
    buf_add_str(out, side_lines(base, *pos, start));
    buf_add_str(out, n_mine > 0 ? of_mine : of_head);
    head->next += n_head;
    mine->next += n_mine;
    head->shift = head_after;
    mine->shift = mine_after;
    *pos = end;
    return true;
}

bool merge_lines(
    struct arena *arena, struct str base, struct str head, struct str mine, struct merge_lines *out, struct err *err)
{
    struct arena scratch = { 0 };
    struct side of_base = { .text = base, .arena = &scratch };
    struct side of_head = { .text = head, .arena = &scratch }, of_mine = { .text = mine, .arena = &scratch };
    struct buf text;
    size_t pos = 0;
    *out = (struct merge_lines){ 0 };
    if (!git_start(err))
        return false;
    buf_init(&text, SIZE_MAX);
    lines_find(&of_base);
    bool good = side_compare(&of_head, base, err) && side_compare(&of_mine, base, err);
    while (good && !out->conflict && (of_head.next < of_head.changes.n || of_mine.next < of_mine.changes.n))
        if (!region_take(&of_base, &of_head, &of_mine, &pos, &text, out))
            break;
    if (good && !out->conflict) {
        buf_add_str(&text, side_lines(&of_base, pos, of_base.n_lines));
        out->text = str_dup(arena, buf_str(&text));
    }
    buf_release(&text);
    arena_release(&scratch);
    return good;
}

static bool is_binary(struct str content)
{
    size_t probe = content.len < BINARY_PROBE_BYTES ? content.len : BINARY_PROBE_BYTES;
    return probe > 0 && memchr(content.ptr, '\0', probe) != NULL;
}

static bool contents_equal(const struct apply_node *a, const struct apply_node *b)
{
    return !a->too_large && !b->too_large && str_eq(a->content, b->content);
}

bool merge_nodes_equal(const struct apply_node *a, const struct apply_node *b)
{
    if (a->kind != b->kind)
        return false;
    if (a->kind != APPLY_FILE && a->kind != APPLY_LINK)
        return a->kind == APPLY_ABSENT;
    return (a->kind == APPLY_LINK || a->executable == b->executable) && contents_equal(a, b);
}

/* contents_merge: three files. A bit that two of the three agree on is settled. */
static bool contents_merge(struct arena *arena, const struct apply_node *base, const struct apply_node *head,
    const struct apply_node *mine, struct merge_nodes *out, struct err *err)
{
    struct merge_lines lines;
    out->node = *head;
    out->node.executable = mine->executable != base->executable ? mine->executable : head->executable;
    if (contents_equal(mine, base) || contents_equal(mine, head))
        return true;
    if (contents_equal(head, base)) {
        out->node.content = mine->content;
        return true;
    }
    if (base->too_large || head->too_large || mine->too_large) {
        *out = (struct merge_nodes){ .conflict = true, .why = "is too large to be merged and was changed" };
        return true;
    }
    if (is_binary(base->content) || is_binary(head->content) || is_binary(mine->content)) {
        *out = (struct merge_nodes){ .conflict = true, .why = "isn't text and was changed" };
        return true;
    }
    if (!merge_lines(arena, base->content, head->content, mine->content, &lines, err))
        return false;
    if (lines.conflict)
        *out = (struct merge_nodes){ .conflict = true, .first_line = lines.first_line, .last_line = lines.last_line };
    else
        out->node.content = lines.text;
    return true;
}

bool merge_nodes(struct arena *arena, const struct apply_node *base, const struct apply_node *head,
    const struct apply_node *mine, struct merge_nodes *out, struct err *err)
{
    *out = (struct merge_nodes){ 0 };
    if (merge_nodes_equal(head, base))
        out->node = *mine;
    else if (merge_nodes_equal(mine, base) || merge_nodes_equal(mine, head))
        out->node = *head;
    else if (base->kind == APPLY_FILE && head->kind == APPLY_FILE && mine->kind == APPLY_FILE)
        return contents_merge(arena, base, head, mine, out, err);
    else
        *out = (struct merge_nodes){ .conflict = true,
            .why = head->kind == APPLY_ABSENT   ? "was removed"
                   : base->kind == APPLY_ABSENT ? "was added"
                   : head->kind == APPLY_FOLDER ? "was made a folder"
                   : head->kind != base->kind   ? "was made something else"
                                                : "was changed" };
    return true;
}

/* --- differences as text --- */

static int hunk_print(const git_diff_delta *delta, const git_diff_hunk *hunk, void *context)
{
    (void)delta;
    buf_add(context, hunk->header, hunk->header_len);
    return 0;
}

static int line_print(const git_diff_delta *delta, const git_diff_hunk *hunk, const git_diff_line *line, void *context)
{
    (void)delta, (void)hunk;
    if (line->origin == GIT_DIFF_LINE_CONTEXT || line->origin == GIT_DIFF_LINE_ADDITION ||
        line->origin == GIT_DIFF_LINE_DELETION)
        buf_add_char(context, line->origin);
    buf_add(context, line->content, line->content_len);
    return 0;
}

static unsigned mode_of(const struct apply_node *node)
{
    return node->kind == APPLY_LINK ? 0120000u : node->executable ? 0100755u : 0100644u;
}

bool merge_diff(
    struct buf *out, struct str path, const struct apply_node *before, const struct apply_node *after, struct err *err)
{
    bool was = before->kind != APPLY_ABSENT, is = after->kind != APPLY_ABSENT;
    if (merge_nodes_equal(before, after))
        return true;
    if (!git_start(err))
        return false;
    buf_addf(out, "diff --git a/%.*s b/%.*s\n", STR_ARG(path), STR_ARG(path));
    if (!was)
        buf_addf(out, "new file mode %o\n", mode_of(after));
    else if (!is)
        buf_addf(out, "deleted file mode %o\n", mode_of(before));
    else if (mode_of(before) != mode_of(after))
        buf_addf(out, "old mode %o\nnew mode %o\n", mode_of(before), mode_of(after));
    struct str a = before->content, b = after->content;
    bool cant = before->too_large || after->too_large || is_binary(a) || is_binary(b);
    if (!cant && str_eq(a, b))
        return true;
    const char *old = was ? "a/" : "/dev/null", *new = is ? "b/" : "/dev/null";
    struct str none = { 0 };
    if (cant) {
        buf_addf(out, "Binary files %s%.*s and %s%.*s differ\n", old, STR_ARG(was ? path : none), new,
            STR_ARG(is ? path : none));
        return true;
    }
    const char *tab = str_index(path, ' ') >= 0 ? "\t" : ""; /* where the name ends, for patch */
    buf_addf(out, "--- %s%.*s%s\n+++ %s%.*s%s\n", old, STR_ARG(was ? path : none), was ? tab : "", new,
        STR_ARG(is ? path : none), is ? tab : "");
    git_diff_options options = diff_options(CONTEXT_LINES);
    int code = git_diff_buffers(a.len > 0 ? a.ptr : "", a.len, NULL, b.len > 0 ? b.ptr : "", b.len, NULL, &options,
        NULL, NULL, hunk_print, line_print, out);
    return code == 0 || diff_fail(err);
}
