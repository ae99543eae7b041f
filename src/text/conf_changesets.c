/* conf_changesets: `changesets:` (without `base`) and `targets:`, read from weir.yaml and from what the store keeps of
 * them.
 *
 *     targets:
 *       legacy: {archive: old, path: branches/1.x, apply: [/path/prog], independent: false, timeout: 10m}
 *
 * The rows of `changesets` are in the table of conf.c. It promises that values which were written are read back as the
 * same values. Whether the archives exist isn't known here (engine/targets.c). It fails by diagnostics, in the words of
 * the file. */
#include "text/conf_changesets.h"

#include <string.h>

#include "base/when.h"
#include "text/conf_value.h"
#include "text/json.h"
#include "text/key.h"

enum { TARGETS_MAX = 1000, PATH_MAX_BYTES = 1024, PATH_MAX_PARTS = 64, ARGUMENTS_MAX = 100 };
#define TIMEOUT_MS_MAX ((int64_t)365 * 24 * 3600 * 1000)

/* --- changesets --- */

bool conf_movetypes_set(const struct node_context *context, const char *key, const struct doc_node *node, unsigned *out)
{
    struct str *words, names[MOVE_COUNT];
    size_t n, n_names = 0;
    unsigned bits = 0;
    bool ok = true;
    for (int move = MOVE_DC; move < MOVE_COUNT; move++)
        names[n_names++] = str_of(movetype_name((enum movetype)move));
    if (!node_strs(context, node, key, &words, &n))
        return false;
    for (size_t i = 0; i < n; i++) {
        enum movetype move = movetype_find(words[i]);
        bits |= 1U << move;
        if (move != MOVE_NONE)
            continue;
        ok = node_fault(context, node_list_at(node, i), "a move type is DC, BF, EM or RB, not '%.*s'",
            STR_ARG(diag_shown(words[i])));
        diag_suggest_closest(context->diags, words[i], names, n_names);
    }
    if (ok)
        *out = bits;
    return ok;
}

static void limits_write(
    struct json *json, const struct changeset_limits *limits, const struct changeset_limits *normal)
{
    const struct {
        const char *key;
        bool size;
        uint64_t value, normal;
    } members[] = {
        { "unpacked", true, limits->unpacked_bytes, normal->unpacked_bytes },
        { "files", false, (uint64_t)limits->files, (uint64_t)normal->files },
        { "meta", true, limits->meta_bytes, normal->meta_bytes },
        { "path", false, (uint64_t)limits->path_bytes, (uint64_t)normal->path_bytes },
        { "depth", false, (uint64_t)limits->depth, (uint64_t)normal->depth },
    };
    bool any = false;
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        if (members[i].value == members[i].normal)
            continue;
        if (!any) {
            json_key(json, "limits");
            json_object_begin(json);
        }
        any = true;
        if (members[i].size)
            json_put_z(json, members[i].key, size_format(members[i].value).z);
        else
            json_put_i64(json, members[i].key, (int64_t)members[i].value);
    }
    if (any)
        json_object_end(json);
}

void conf_changesets_write(struct buf *out, const struct conf_changesets *changesets)
{
    struct conf_changesets normal;
    struct json json = json_to(out);
    conf_changesets_default(&normal);
    if (changesets->rollback_limit == 0) /* nothing was read: its least value is 1 */
        changesets = &normal;
    json_object_begin(&json);
    if (changesets->approval != normal.approval) {
        json_key(&json, "approval");
        json_array_begin(&json);
        for (int move = MOVE_DC; move < MOVE_COUNT; move++)
            if (changesets->approval & 1U << move)
                json_str(&json, str_of(movetype_name((enum movetype)move)));
        json_array_end(&json);
    }
    if (changesets->self_approval != normal.self_approval)
        json_put_bool(&json, "self_approval", changesets->self_approval);
    if (changesets->rollback_limit != normal.rollback_limit)
        json_put_i64(&json, "rollback_limit", changesets->rollback_limit);
    if (changesets->stop_ms != normal.stop_ms)
        json_put_z(&json, "stop", duration_format(changesets->stop_ms).z);
    limits_write(&json, &changesets->limits, &normal.limits);
    json_object_end(&json);
}

/* --- targets --- */

static bool path_fine(const struct node_context *context, const struct doc_node *node, struct str path)
{
    static const struct changeset_limits limits = { .path_bytes = PATH_MAX_BYTES, .depth = PATH_MAX_PARTS };
    enum path_fault fault = changeset_path_check(path, &limits);
    if (fault == PATH_GOOD)
        return true;
    if (path_fault_is_limit(fault))
        return node_fault(context, node,
            "the path '%.*s' is too long: it has at most %d bytes and %d parts of at most %d bytes",
            STR_ARG(diag_shown(path)), PATH_MAX_BYTES, PATH_MAX_PARTS, PATH_PART_BYTES_MAX);
    struct str sentence = path_fault_sentence(context->arena, fault, &limits);
    node_fault(context, node, "the path '%.*s' %.*s", STR_ARG(diag_shown(path)), STR_ARG(sentence));
    struct str bare = path;
    while (bare.len > 0 && bare.ptr[0] == '/')
        bare = str_sub(bare, 1, bare.len);
    while (bare.len > 0 && bare.ptr[bare.len - 1] == '/')
        bare.len--;
    if (bare.len > 0 && bare.len < path.len && changeset_path_check(bare, &limits) == PATH_GOOD)
        diag_suggest(context->diags, "did you mean '%.*s'?", STR_ARG(diag_shown(bare)));
    return false;
}

/* The program doesn't come out of the change set, in whose folder it runs: so no path that is relative to it. */
static bool apply_fine(
    const struct node_context *context, const struct doc_node *node, const struct conf_target *target)
{
    if (target->n_apply > ARGUMENTS_MAX)
        return node_fault(context, node, "'apply' has more than %d words", ARGUMENTS_MAX);
    for (size_t i = 0; i < target->n_apply; i++)
        if (str_index(target->apply[i], '\0') >= 0)
            return node_fault(context, node_list_at(node, i), "'apply' has a NUL character in it");
    struct str program = target->n_apply > 0 ? target->apply[0] : STR("none");
    if (program.len > 0 && (program.ptr[0] == '/' ? program.len > 1 : str_index(program, '/') < 0))
        return true;
    return node_fault(context, node_list_at(node, 0),
        "'apply' begins with a program: its absolute path, such as /usr/local/bin/deploy, or a name that is in PATH");
}

static void target_set(const struct node_context *context, const struct node_pair *pair, struct conf_target *out)
{
    struct node_reader reader;
    struct err err = { 0 };
    struct str *words = NULL;
    *out = (struct conf_target){
        .name = pair->key->text, .archive = pair->key->text, .line = pair->key->line, .column = pair->key->column
    };
    if (!name_check_new(out->name, "target", &err))
        node_fault(context, pair->key, "%s", err.text);
    if (node_is_null(pair->value)) /* `docs:` alone: as if it weren't here */
        return;
    if (!node_read_begin(&reader, context, pair->value, "target"))
        return;
    const struct doc_node *archive = node_read_any(&reader, "archive"), *path = node_read_any(&reader, "path"),
                          *apply = node_read_any(&reader, "apply");
    if (archive != NULL && node_str(context, archive, "archive", &out->archive) &&
        conf_check_name(context, archive, out->archive)) {
        out->line = archive->line;
        out->column = archive->column;
    }
    if (path != NULL && node_str(context, path, "path", &out->path))
        (void)path_fine(context, path, out->path);
    if (apply != NULL && node_strs(context, apply, "apply", &words, &out->n_apply)) {
        out->apply = words;
        (void)apply_fine(context, apply, out);
    }
    node_read_bool(&reader, "independent", &out->independent);
    const struct doc_node *timeout = node_read_any(&reader, "timeout");
    if (timeout != NULL && node_duration(context, timeout, "timeout", &out->timeout_ms) &&
        (out->timeout_ms < 1 || out->timeout_ms > TIMEOUT_MS_MAX))
        node_fault(context, timeout, "'timeout' must be from 1ms to 365d; without one a change set may take any time");
    node_read_end(&reader);
}

bool conf_targets_set(const struct node_context *context, const struct doc_node *node, struct conf_targets *out)
{
    struct node_reader reader; /* for the sentence when it isn't a mapping */
    size_t before = context->diags->n_errors;
    if (!node_read_begin(&reader, context, node, "targets"))
        return false;
    if (node->n > TARGETS_MAX)
        return node_fault(context, node, "'targets' has %zu members; at most %d are taken", node->n, TARGETS_MAX);
    struct conf_targets list = { ARENA_ARRAY(context->arena, struct conf_target, node->n), node->n };
    for (size_t i = 0; i < node->n; i++)
        target_set(context, &node->pairs[i], &list.items[i]);
    if (context->diags->n_errors > before)
        return false;
    *out = list;
    return true;
}

static void target_write(struct json *json, const struct conf_target *target)
{
    json_key_str(json, target->name);
    json_object_begin(json);
    if (!str_eq(target->archive, target->name))
        json_put_str(json, "archive", target->archive);
    if (target->path.len > 0)
        json_put_str(json, "path", target->path);
    if (target->n_apply > 0) {
        json_key(json, "apply");
        json_array_begin(json);
        for (size_t i = 0; i < target->n_apply; i++)
            json_str(json, target->apply[i]);
        json_array_end(json);
    }
    if (target->independent)
        json_put_bool(json, "independent", true);
    if (target->timeout_ms > 0)
        json_put_z(json, "timeout", duration_format(target->timeout_ms).z);
    json_object_end(json);
}

void conf_targets_write(struct buf *out, const struct conf_targets *targets)
{
    struct json json = json_to(out);
    json_object_begin(&json);
    for (size_t i = 0; i < targets->n; i++)
        target_write(&json, &targets->items[i]);
    json_object_end(&json);
}

const struct conf_target *conf_target_find(const struct conf_targets *targets, struct str name)
{
    for (size_t i = 0; i < targets->n; i++)
        if (str_eq(targets->items[i].name, name))
            return &targets->items[i];
    return NULL;
}

bool conf_target_same(const struct conf_target *a, const struct conf_target *b)
{
    bool same = str_eq(a->name, b->name) && str_eq(a->archive, b->archive) && str_eq(a->path, b->path) &&
                a->n_apply == b->n_apply && a->independent == b->independent && a->timeout_ms == b->timeout_ms;
    for (size_t i = 0; same && i < a->n_apply; i++)
        same = str_eq(a->apply[i], b->apply[i]);
    return same;
}

void conf_target_copy(struct arena *arena, const struct conf_target *from, struct conf_target *out)
{
    struct str *apply = ARENA_ARRAY(arena, struct str, from->n_apply);
    for (size_t i = 0; i < from->n_apply; i++)
        apply[i] = str_dup(arena, from->apply[i]);
    *out = *from;
    out->name = str_dup(arena, from->name);
    out->archive = str_dup(arena, from->archive);
    out->path = str_dup(arena, from->path);
    out->apply = apply;
}
