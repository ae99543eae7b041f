/* outputs: what attempts say of themselves while they run and at their end, by name, one text a task.
 *
 * Outputs of a running attempt are durable when they are answered, so that they are known even if nobody hears of it
 * again. They stay: those that come later replace single names, and the finish's join them. Without any the finish's
 * replace what an earlier attempt left. Of a change set `base` is the revision that the attempt commits against: the
 * first that any attempt recorded is kept (what the search for its commit begins behind). */
#include <jansson.h>
#include <string.h>

#include "core/changeset.h"
#include "engine/cache/cache.h"
#include "engine/command/command.h"
#include "engine/grants.h"
#include "engine/tenants.h"
#include "text/json_value.h"

enum { OUTPUTS_NAMES_MAX = 1000, OUTPUTS_KEPT_BYTES_MAX = 4 << 20, BASE_DIGITS_MAX = 18 };

struct told_outputs {
    struct str text;
    size_t at; /* in changes.outputs */
};

struct str outputs_of(struct turn *turn, const struct task *row)
{
    struct store *store = turn->engine->store;
    const struct told_outputs *told = turn->changes.outputs.n ? map_find(&turn->outputs_of, (uint64_t)row->id) : NULL;
    struct str outputs = told ? told->text : (struct str){ 0 };
    if (!(row->marks & MARK_OUTPUTS))
        return (struct str){ 0 };
    if (!outputs.len)
        turn_read(turn, store->ops->load_outputs(store, turn->arena, row->id, &outputs, turn->err));
    return outputs;
}

static void outputs_put(struct turn *turn, struct node *node, struct str outputs)
{
    int64_t task = node->row.id;
    struct told_outputs *told = map_find(&turn->outputs_of, (uint64_t)task);
    node->row.marks |= MARK_OUTPUTS; /* before its end reaches its successors */
    node->dirty = true;
    if (told) { /* a row is written once a turn */
        told->text = turn->changes.outputs.at[told->at].json = outputs;
        return;
    }
    told = ARENA_NEW(turn->arena, struct told_outputs);
    *told = (struct told_outputs){ outputs, turn->changes.outputs.n };
    map_put(&turn->outputs_of, (uint64_t)task, told);
    *ARRAY_ADD(turn->arena, turn->changes.outputs) = (struct task_outputs){ task, outputs };
}

/* Those that were told while the attempt runs end with a line feed: its finish joins them. */
static bool are_told(struct str outputs)
{
    return outputs.len && outputs.ptr[outputs.len - 1] == '\n';
}

/* A second line lists the files that the attempt kept (api/artifacts.c); with the line feed before it. */
static struct str object_split(struct str *outputs)
{
    outputs->len -= are_told(*outputs);
    ptrdiff_t at = str_index(*outputs, '\n');
    struct str rest = at < 0 ? (struct str){ 0 } : str_sub(*outputs, (size_t)at, outputs->len);
    outputs->len = at < 0 ? outputs->len : (size_t)at;
    return rest;
}

/* Both as one text; the later one's values count, and its files. */
static struct str outputs_join(struct turn *turn, struct str before, struct str later)
{
    struct err ignored = { .code = ERR_none };
    struct str files_before = object_split(&before), files = object_split(&later);
    json_t *all = before.len ? json_parse(before, 4, &ignored) : NULL,
           *more = later.len ? json_parse(later, 4, &ignored) : NULL;
    if (!json_is_object(all)) {
        json_decref(all);
        all = json_object();
    }
    if (json_is_object(more))
        json_object_update(all, more);
    struct str text = json_text(turn->arena, all, true);
    json_decref(all);
    json_decref(more);
    files = files.len ? files : files_before;
    return str_fmt(turn->arena, "%.*s%.*s", STR_ARG(text), STR_ARG(files));
}

void outputs_finish(struct turn *turn, struct node *node, struct finish_item *item)
{
    struct str before = outputs_of(turn, &node->row);
    if (are_told(before))
        item->outputs = outputs_join(turn, before, item->outputs);
}

void outputs_keep(struct turn *turn, struct node *node, const struct finish_item *item)
{
    if (item->outputs.len)
        outputs_put(turn, node, item->outputs);
}

/* --- while it runs --- */

/* A number, or a commit, or that the branch has none yet. */
static bool base_good(struct str base)
{
    size_t digits = 0, hex = 0;
    for (size_t i = 0; i < base.len; i++) {
        char c = base.ptr[i];
        digits += c >= '0' && c <= '9';
        hex += (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
    }
    return (digits == base.len && digits > 0 && digits <= BASE_DIGITS_MAX) ||
           (hex == base.len && (hex == 40 || hex == 64)) || str_eqz(base, BASE_NONE);
}

static bool base_keep(struct turn *turn, struct command *command, struct node *node, const json_t *said)
{
    const json_t *value = json_object_get(said, "base");
    struct changeset *row = value ? changeset_of(turn->slice, node) : NULL;
    if (!row)
        return true;
    struct str base = { json_string_value(value), json_string_length(value) };
    command->err.arena = command->arena;
    if (!base_good(base))
        return err_item(&command->err, ERR_invalid, STR("/base"),
            "'base' of a change set must be a revision's number, a commit, or '" BASE_NONE "'");
    if (row->base.len)
        return true; /* the oldest counts */
    row->base = str_dup(turn->arena, base);
    changeset_touch(turn->slice, node);
    return true;
}

/* Only the attempt that runs may say something of itself. */
static enum err_code outputs_judge(struct turn *turn, const struct command *command, struct node **out)
{
    const struct fence *fence = &command->in.outputs.fence;
    if (fence->incarnation != turn->head.incarnation)
        return ERR_stale_fence;
    struct node *node = slice_find(turn->slice, fence->task);
    if (!node)
        return ERR_not_found;
    struct str tenant = slice_lane(turn->slice, node->row.lane)->tenant;
    if (!str_eqz(command->actor.tenant, TENANT_DEFAULT) && !str_eq(tenant, command->actor.tenant))
        return ERR_not_found;
    if (node->row.grant != fence->grant || node->row.state != STATE_X)
        return ERR_stale_fence;
    const struct pending_attempt *found = attempt_find(turn, fence->task, fence->grant);
    const struct known_executor *known =
        found ? map_find(&turn->engine->cache->executors, (uint64_t)found->attempt.executor) : NULL;
    if (!found)
        return ERR_stale_fence;
    if (known && !command->in.outputs.own && !executor_owned(&known->row, command))
        return ERR_forbidden;
    *out = node;
    return ERR_none;
}

bool command_outputs(struct turn *turn, struct command *command)
{
    struct node *node = NULL;
    struct err ignored = { .code = ERR_none };
    enum err_code code = outputs_judge(turn, command, &node);
    if (turn->slice->failed)
        return true;
    if (code != ERR_none)
        return turn_refuse(turn, command, code, "%s", err_title(code));
    json_t *said = json_parse(command->in.outputs.text, 4, &ignored);
    struct str text = outputs_join(turn, outputs_of(turn, &node->row), command->in.outputs.text), object = text;
    object_split(&object);
    json_t *all = json_parse(object, 4, &ignored);
    bool small = json_object_size(all) <= OUTPUTS_NAMES_MAX && text.len <= OUTPUTS_KEPT_BYTES_MAX;
    json_decref(all);
    bool good = small
                    ? base_keep(turn, command, node, said)
                    : turn_refuse(turn, command, ERR_body_too_large, "a task keeps at most %d outputs of %d MiB in all",
                          OUTPUTS_NAMES_MAX, OUTPUTS_KEPT_BYTES_MAX >> 20);
    json_decref(said);
    if (!good || turn->slice->failed)
        return good;
    outputs_put(turn, node, str_fmt(turn->arena, "%.*s\n", STR_ARG(text)));
    command->status = 200;
    return true;
}
