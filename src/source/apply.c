/* apply: change sets into repositories: the public functions, for all kinds.
 *
 * Owns the loop around a commit: read the head, plan, commit against that head; when the repository says that somebody
 * else was first, look for the CSID in what has come, and begin again. It ends by itself: after APPLY_TRIES rounds the
 * failure is temporary.
 *
 * Fails as apply.h says. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "source/apply_merge.h"

#define APPLY_TRIES 100
#define PAUSE_MS_MAX 100

bool apply_ident_equal(struct source_ident a, struct source_ident b)
{
    return a.rev == b.rev && str_eq(a.id, b.id);
}

struct source_ident apply_ident_dup(struct arena *arena, struct source_ident ident)
{
    return (struct source_ident){ ident.rev, str_dup(arena, ident.id) };
}

bool apply_is_temporary(const struct err *err)
{
    return err->code == ERR_unavailable || err->code == ERR_unreachable || err->code == ERR_io ||
           err->code == ERR_disk_full || err->code == ERR_corrupt || err->code == ERR_internal;
}

/* away_settle: not_found means a branch, folder or revision that doesn't exist, unless the repository itself is away:
 * that heals. */
static bool away_settle(struct apply *apply, bool good, struct err *err)
{
    struct stat st;
    if (good || err->code != ERR_not_found || !source_is_local(apply->source))
        return good;
    struct arena arena = { 0 };
    if (stat(str_dupz(&arena, source_place(apply->source)), &st) != 0)
        err->code = ERR_unavailable;
    arena_release(&arena);
    return false;
}

/* open_settle: the same when it couldn't be opened. An address below a repository's root has a folder of the disk above
 * it that is the repository; if there is none the repository is away, or its disk isn't mounted. */
static void open_settle(enum archive_kind kind, struct str url, struct err *err)
{
    struct err probe = { 0 };
    if (err->code != ERR_not_found && err->code != ERR_invalid)
        return;
    if (str_starts(url, STR("file://")))
        url = str_sub(url, 7, url.len);
    if (url.len == 0 || url.ptr[0] != '/')
        return;
    struct source *root = NULL;
    if (kind == ARCHIVE_GIT) {
        root = source_open(kind, url, (struct str){ 0 }, &probe);
        if (root == NULL && strstr(probe.text, "--branch") == NULL)
            err->code = ERR_unavailable;
    } else {
        while (root == NULL && url.len > 1) {
            probe = (struct err){ 0 };
            root = source_open(kind, url, (struct str){ 0 }, &probe);
            ptrdiff_t slash = str_rindex(url, '/');
            url = str_sub(url, 0, slash > 0 ? (size_t)slash : 0);
        }
        if (root == NULL)
            err->code = ERR_unavailable;
    }
    source_close(root);
}

struct apply *apply_open(enum archive_kind kind, struct str url, struct str branch, struct str path, struct err *err)
{
    struct source *source = source_open(kind, url, branch, err);
    if (source == NULL) {
        open_settle(kind, url, err);
        return NULL;
    }
    struct apply *apply = kind == ARCHIVE_GIT       ? apply_git_new(source)
                          : source_is_local(source) ? apply_svn_local_new(source)
                                                    : apply_svn_served_new(source);
    apply->source = source;
    while (path.len > 0 && path.ptr[0] == '/')
        path = str_sub(path, 1, path.len);
    while (path.len > 0 && path.ptr[path.len - 1] == '/')
        path = str_sub(path, 0, path.len - 1);
    apply->path = str_dup(&source->arena, path);
    return apply;
}

void apply_close(struct apply *apply)
{
    if (apply == NULL)
        return;
    struct source *source = apply->source;
    apply->ops->close(apply);
    source_close(source);
}

/* --- names of what a commit says --- */

static const struct field_name {
    const char *property, *trailer;
    bool is_list;
    size_t given, read; /* where it is in struct apply_identity; in struct apply_revision */
} field_names[] = {
#define ROW(property, trailer, is_list, member) \
    { property, trailer, is_list, offsetof(struct apply_identity, member), offsetof(struct apply_revision, member) }
    ROW("weir:csid", "Weir-CSID", false, csid),
    ROW("weir:submitter", "Weir-Submitter", false, submitter),
    ROW("weir:ticket", "Weir-Ticket", false, ticket),
    ROW("weir:movetype", "Weir-Movetype", false, movetype),
    ROW("weir:depends", "Weir-Depends", true, depends),
    ROW("weir:rolls-back", "Weir-Rolls-Back", true, rolls_back),
    ROW("weir:cause", "Weir-Cause", false, cause),
#undef ROW
};
_Static_assert(sizeof field_names / sizeof *field_names == APPLY_FIELDS, "all of them");

static struct str list_join(struct arena *arena, const struct str *items, size_t n)
{
    struct buf text;
    buf_init(&text, APPLY_LIST_BYTES_MAX);
    for (size_t i = 0; i < n; i++)
        buf_addf(&text, "%s%.*s", i > 0 ? " " : "", STR_ARG(items[i]));
    struct str out = source_line(arena, buf_str(&text), APPLY_LIST_BYTES_MAX);
    buf_release(&text);
    return out;
}

size_t apply_fields(struct arena *arena, const struct apply_identity *identity, struct apply_field out[APPLY_FIELDS])
{
    size_t n = 0;
    for (size_t i = 0; i < APPLY_FIELDS; i++) {
        const struct field_name *name = &field_names[i];
        struct str value;
        if (name->is_list) {
            bool depends = name->given == offsetof(struct apply_identity, depends);
            value = depends ? list_join(arena, identity->depends, identity->n_depends)
                            : list_join(arena, identity->rolls_back, identity->n_rolls_back);
        } else {
            memcpy(&value, (const char *)identity + name->given, sizeof value);
            value = source_line(arena, value, APPLY_LINE_BYTES_MAX);
        }
        if (value.len > 0)
            out[n++] = (struct apply_field){ name->property, name->trailer, value };
    }
    return n;
}

void apply_field_set(struct arena *arena, struct apply_revision *revision, struct str name, struct str value)
{
    for (size_t i = 0; i < APPLY_FIELDS; i++) {
        const struct field_name *known = &field_names[i];
        if (!str_eqz(name, known->property) && !str_eqz(name, known->trailer))
            continue;
        struct str clean = source_line(arena, value, known->is_list ? APPLY_LIST_BYTES_MAX : APPLY_LINE_BYTES_MAX);
        memcpy((char *)revision + known->read, &clean, sizeof clean);
    }
}

/* --- reading --- */

bool apply_head(struct apply *apply, struct arena *arena, struct source_ident *out, struct err *err)
{
    return away_settle(apply, source_youngest(apply->source, arena, out, err), err);
}

bool apply_walk(struct apply *apply, struct source_ident from, const struct apply_visitor *visitor, struct err *err)
{
    return away_settle(apply, apply->ops->walk(apply, from, visitor, err), err);
}

struct search {
    struct arena *arena;
    struct str csid;
    bool found;
    struct source_ident revision;
};

static bool search_visit(void *context, const struct apply_revision *revision)
{
    struct search *search = context;
    if (!str_eq(revision->csid, search->csid))
        return true;
    search->found = true;
    search->revision = apply_ident_dup(search->arena, revision->ident);
    return false;
}

bool apply_find(struct apply *apply, struct arena *arena, struct str csid, struct source_ident base, bool *out_found,
    struct source_ident *out_revision, struct err *err)
{
    struct search search = { .arena = arena, .csid = csid };
    const struct apply_visitor visitor = { search_visit, &search };
    if (!apply_walk(apply, base, &visitor, err))
        return false;
    *out_found = search.found;
    *out_revision = search.revision;
    return true;
}

/* --- committing --- */

/* What is to be committed: a change set, or revisions to undo. */
struct wish {
    const struct apply_change *change;
    const struct source_ident *revisions;
    size_t n;
};

/* folder_check: a Subversion folder is a branch: somebody has to make it, by a copy. */
static bool folder_check(struct apply_plan *plan, struct err *err)
{
    struct apply *apply = plan->apply;
    struct apply_node node;
    if (apply->path.len == 0)
        return true;
    if (!apply->ops->node(apply, plan->arena, plan->head, apply->path, false, &node, err))
        return false;
    bool git = apply->source->kind == ARCHIVE_GIT;
    if (node.kind == APPLY_FOLDER || (git && node.kind == APPLY_ABSENT))
        return true;
    return err_set(err, ERR_not_found,
        "%.*s: there is no folder '%.*s', which the target names; make it, or correct the target's path",
        STR_ARG(source_place(apply->source)), STR_ARG(apply->path));
}

static bool base_check(struct apply_plan *plan, const struct apply_change *change, struct err *err)
{
    struct apply_node node;
    if (!change->has_base || apply_ident_equal(change->base, plan->head))
        return true;
    if (plan->apply->source->kind != ARCHIVE_GIT && change->base.rev > plan->head.rev)
        return err_set(err, ERR_not_found,
            "the change set was made from revision %lld, which %.*s doesn't have (its youngest is %lld)",
            (long long)change->base.rev, STR_ARG(source_place(plan->apply->source)), (long long)plan->head.rev);
    if (plan->apply->ops->node(plan->apply, plan->arena, change->base, STR("x"), false, &node, err))
        return true;
    err_context(err, "the change set's base");
    return false;
}

static bool wish_plan(struct apply_plan *plan, const struct wish *wish, struct err *err)
{
    bool good = folder_check(plan, err);
    if (good && wish->change != NULL)
        good = base_check(plan, wish->change, err) && apply_plan_change(plan, wish->change, err);
    else if (good)
        good = apply_plan_rollback(plan, wish->revisions, wish->n, err);
    if (good)
        apply_plan_end(plan);
    return good;
}

/* conflicts_give: moves them into the answer. */
static void conflicts_give(struct arena *arena, const struct apply_plan *plan, struct apply_result *out)
{
    struct buf text;
    size_t n = plan->n_conflicts < APPLY_CONFLICTS_MAX ? plan->n_conflicts : APPLY_CONFLICTS_MAX;
    *out = (struct apply_result){ .end = APPLY_CONFLICT, .n_conflicts = plan->n_conflicts };
    out->conflicts = ARENA_ARRAY(arena, struct apply_conflict, n);
    buf_init(&text, APPLY_REASON_BYTES_MAX);
    for (size_t i = 0; i < n; i++) {
        const struct apply_conflict *from = &plan->conflicts[i];
        struct apply_conflict *to = &out->conflicts[i];
        *to = *from;
        to->path = str_dup(arena, from->path);
        to->csid = str_dup(arena, from->csid);
        to->text = str_dup(arena, from->text);
        to->revision = apply_ident_dup(arena, from->revision);
        if (i < 3)
            buf_addf(&text, "%s%.*s", i > 0 ? "; " : "", STR_ARG(to->text));
    }
    if (plan->n_conflicts > 3)
        buf_addf(&text, "; and %zu more", plan->n_conflicts - 3);
    out->reason = str_dup(arena, buf_str(&text));
    buf_release(&text);
}

/* round_run: one round: plan on the head and commit. */
static bool round_run(struct apply *apply, struct arena *arena, const struct wish *wish,
    const struct apply_identity *identity, struct source_ident head, struct apply_result *out, struct err *err)
{
    struct arena scratch = { 0 };
    struct apply_plan plan;
    struct apply_commit_end end = { 0 };
    apply_plan_begin(&plan, apply, &scratch, head);
    bool good = wish_plan(&plan, wish, err);
    if (good && plan.n_conflicts > 0) {
        conflicts_give(arena, &plan, out);
    } else if (good && identity != NULL) {
        good = apply->ops->commit(&plan, identity, &end, err);
        static const enum apply_end ends[] = {
            [APPLY_OUT_OF_DATE] = APPLY_NONE, [APPLY_DID] = APPLY_COMMITTED, [APPLY_HOOK_REFUSED] = APPLY_REFUSED
        };
        if (good)
            *out = (struct apply_result){ .end = ends[end.outcome],
                .revision = apply_ident_dup(arena, end.revision),
                .reason = str_dup(arena, end.words) };
    }
    apply_plan_release(&plan);
    arena_release(&scratch);
    return good;
}

static void pause_before(unsigned round)
{
    unsigned most = round < 10 ? 1u << round : PAUSE_MS_MAX;
    most = most < PAUSE_MS_MAX ? most : PAUSE_MS_MAX;
    /* by the process id: two that met once don't meet again */
    poll(NULL, 0, (int)(((unsigned)getpid() * 7919u + round * 104729u) % (most + 1)));
}

static bool wish_commit(struct apply *apply, struct arena *arena, const struct wish *wish,
    const struct apply_identity *identity, struct source_ident base, struct apply_result *out, struct err *err)
{
    *out = (struct apply_result){ 0 };
    for (unsigned round = 0; round < APPLY_TRIES; round++) {
        struct source_ident head, revision;
        bool found = false;
        if (!apply_head(apply, arena, &head, err))
            return false;
        if (!apply_ident_equal(head, base) && !apply_find(apply, arena, identity->csid, base, &found, &revision, err))
            return false;
        if (found) {
            *out = (struct apply_result){ .end = APPLY_FOUND, .revision = revision };
            return true;
        }
        if (!away_settle(apply, round_run(apply, arena, wish, identity, head, out, err), err))
            return false;
        if (out->end != APPLY_NONE)
            return true;
        pause_before(round);
    }
    return err_set(err, ERR_unavailable, "%.*s: others committed first, %d times in a row",
        STR_ARG(source_place(apply->source)), APPLY_TRIES);
}

bool apply_commit(struct apply *apply, struct arena *arena, const struct apply_change *change,
    const struct apply_identity *identity, struct source_ident base, struct apply_result *out, struct err *err)
{
    return wish_commit(apply, arena, &(struct wish){ .change = change }, identity, base, out, err);
}

bool apply_rollback(struct apply *apply, struct arena *arena, const struct source_ident *revisions, size_t n,
    const struct apply_identity *identity, struct source_ident base, struct apply_result *out, struct err *err)
{
    ASSERT(n > 0); /* without an applied member there is nothing to commit */
    return wish_commit(apply, arena, &(struct wish){ .revisions = revisions, .n = n }, identity, base, out, err);
}

bool apply_check(struct apply *apply, struct arena *arena, const struct apply_change *change, struct apply_result *out,
    struct err *err)
{
    struct source_ident head;
    *out = (struct apply_result){ 0 };
    return apply_head(apply, arena, &head, err) &&
           away_settle(apply, round_run(apply, arena, &(struct wish){ .change = change }, NULL, head, out, err), err);
}

/* --- differences --- */

static bool edit_diff(struct apply_plan *plan, const struct apply_edit *edit, struct buf *out, struct err *err)
{
    struct apply_node before = { 0 }, after = { .kind = edit->after, .executable = edit->executable };
    bool is_file = edit->after == APPLY_FILE || edit->after == APPLY_LINK;
    bool was_file = edit->before == APPLY_FILE || edit->before == APPLY_LINK;
    struct str shown = plan->apply->path.len > 0 && edit->path.len > plan->apply->path.len
                           ? str_sub(edit->path, plan->apply->path.len + 1, edit->path.len)
                           : edit->path;
    if (!is_file)
        after = (struct apply_node){ 0 };
    if (was_file && !plan->apply->ops->node(plan->apply, plan->arena, plan->head, edit->path, true, &before, err))
        return false;
    if (is_file && !apply_edit_read(plan, edit, &after.content, err))
        return false;
    after.too_large = after.content.len > APPLY_MERGE_BYTES_MAX;
    bool good = merge_diff(out, shown, &before, &after, err);
    if (is_file)
        apply_edit_done(edit, after.content);
    return good;
}

/* folder_diff: a folder that goes shows as its files. */
static bool folder_diff(struct apply_plan *plan, struct str path, struct buf *out, struct err *err)
{
    struct str *names;
    size_t n;
    if (!plan->apply->ops->list(plan->apply, plan->arena, plan->head, path, &names, &n, err))
        return false;
    for (size_t i = 0; i < n; i++) {
        struct apply_node node;
        struct apply_edit gone = { .path = str_fmt(plan->arena, "%.*s/%.*s", STR_ARG(path), STR_ARG(names[i])) };
        if (!plan->apply->ops->node(plan->apply, plan->arena, plan->head, gone.path, false, &node, err))
            return false;
        gone.before = node.kind;
        bool good =
            node.kind == APPLY_FOLDER ? folder_diff(plan, gone.path, out, err) : edit_diff(plan, &gone, out, err);
        if (!good)
            return false;
    }
    return true;
}

bool apply_diff(struct apply *apply, const struct apply_change *change, const struct source_ident *at, struct buf *out,
    struct err *err)
{
    struct arena arena = { 0 };
    struct apply_plan plan;
    struct source_ident head = { 0 };
    struct apply_change plain = *change;
    bool good = at != NULL || apply_head(apply, &arena, &head, err);
    apply_plan_begin(&plan, apply, &arena, at != NULL ? *at : head);
    good = good && wish_plan(&plan, &(struct wish){ .change = change }, err);
    if (good && plan.n_conflicts > 0 && change->has_base) { /* as it is: without a merge only kinds can conflict */
        plain.has_base = false;
        apply_plan_release(&plan);
        apply_plan_begin(&plan, apply, &arena, at != NULL ? *at : head);
        good = wish_plan(&plan, &(struct wish){ .change = &plain }, err);
    }
    for (size_t i = 0; good && i < plan.n_edits; i++) {
        const struct apply_edit *edit = plan.edits[i];
        if (edit->before == APPLY_FOLDER)
            good = folder_diff(&plan, edit->path, out, err);
        good = good && edit_diff(&plan, edit, out, err);
    }
    apply_plan_release(&plan);
    arena_release(&arena);
    return away_settle(apply, good, err);
}
