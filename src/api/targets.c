/* targets: a target's queue, with the positions of what waits in it.
 *
 * First what is being applied, then what is pending, in the order of the starts (that of the engine's own list of
 * pending tasks), then what is staged, in the order in which it would start if nothing held it. A page costs what it
 * shows: of a very long queue the pending ones are counted up to PENDING_MAX, and STAGED_MAX of the staged ones are
 * looked at; the counts by state are those of all. */
#include <stdlib.h>

#include "api/answer.h"
#include "api/call.h"

enum { PENDING_MAX = 10000, STAGED_MAX = 1000, LIMIT = 100 };

struct queue {
    struct lane lane; /* id 0: no change set has come yet */
    int64_t *running, *pending, *staged;
    size_t n_running, n_pending, n_staged;
    struct changeset_view **staged_views; /* in their order */
    bool truncated;                       /* not all were looked at */
};

static bool lane_read(struct call *call, struct str target, struct queue *out)
{
    struct reader *reader = call->api->config.reader;
    struct archive_view archive;
    bool found = false, known = false;
    struct str name = str_fmt(&call->arena, TARGET_LANE "%.*s", STR_ARG(target));
    if (!reader_lane(reader, &call->arena, call->actor.tenant, name, &out->lane, &found, &call->err) ||
        !reader_archive(reader, &call->arena, call->actor.tenant, target, &archive, &known, &call->err))
        return false;
    if (!found && (!known || archive.archive.removed > 0))
        return err_set(&call->err, ERR_not_found, "there is no target '%.*s'", STR_ARG(str_sub(target, 0, 100)));
    if (!found) { /* what holds for its archive will hold for it */
        out->lane = archive.lane;
        out->lane.id = 0;
        for (size_t i = 0; i < STATE_COUNT; i++)
            out->lane.counts[i] = 0;
    }
    return true;
}

static bool states_find(
    struct call *call, const struct queue *queue, unsigned states, int64_t **out, size_t *out_n, bool *out_more)
{
    const struct task_filter filter = {
        .tenant = call->actor.tenant, .lane = queue->lane.name, .states = states, .limit = STAGED_MAX
    };
    int64_t next = 0;
    bool good = reader_task_ids(call->api->config.reader, &call->arena, &filter, out, out_n, &next, &call->err);
    *out_more |= next > 0;
    return good;
}

/* pending_find: those of the target's class, in its order. A class that has gone has no pending tasks. */
static bool pending_find(struct call *call, struct queue *queue)
{
    struct reader *reader = call->api->config.reader;
    struct task_class **classes;
    size_t n;
    if (queue->lane.counts[STATE_P] == 0)
        return true;
    if (!reader_classes(reader, &call->arena, &classes, &n, &call->err))
        return false;
    for (size_t i = 0; i < n; i++) {
        const struct task_class *class_ = classes[i];
        bool its = class_->kind == KIND_APPLY && str_eq(class_->tenant, call->actor.tenant) && class_->n_labels > 0 &&
                   str_eqz(class_->labels[0].name, CLASS_TARGET) && str_eq(class_->labels[0].value, queue->lane.name);
        if (its && !reader_ready_of(
                       reader, &call->arena, class_->id, PENDING_MAX, &queue->pending, &queue->n_pending, &call->err))
            return false;
    }
    queue->truncated |= queue->n_pending == PENDING_MAX;
    return true;
}

static int start_order(const void *a, const void *b)
{
    const struct changeset_view *x = *(struct changeset_view *const *)a, *y = *(struct changeset_view *const *)b;
    if (x->task.prio != y->task.prio)
        return x->task.prio > y->task.prio ? -1 : 1;
    if (x->changeset.tai != y->changeset.tai)
        return x->changeset.tai < y->changeset.tai ? -1 : 1;
    return str_cmp(x->changeset.name, y->changeset.name);
}

static bool staged_find(struct call *call, struct queue *queue)
{
    struct changeset_view *views;
    bool more = false;
    if (queue->lane.counts[STATE_S] + queue->lane.counts[STATE_Q] == 0)
        return true;
    if (!states_find(call, queue, 1u << STATE_S | 1u << STATE_Q, &queue->staged, &queue->n_staged, &more) ||
        !reader_changesets_of(call->api->config.reader, &call->arena, queue->staged, queue->n_staged, &views,
            &queue->n_staged, &call->err))
        return false;
    queue->truncated |= more;
    queue->staged_views = ARENA_ARRAY(&call->arena, struct changeset_view *, queue->n_staged + 1);
    for (size_t i = 0; i < queue->n_staged; i++)
        queue->staged_views[i] = &views[i];
    if (queue->n_staged > 1)
        qsort(queue->staged_views, queue->n_staged, sizeof *queue->staged_views, start_order);
    return true;
}

/* entry_find: the change set at that place; NULL without an error: it has gone meanwhile. */
static bool entry_find(struct call *call, const struct queue *queue, size_t at, const struct changeset_view **out)
{
    struct changeset_view *view = NULL;
    size_t n = 0, ahead = queue->n_running + queue->n_pending;
    *out = at >= ahead ? queue->staged_views[at - ahead] : NULL;
    if (*out != NULL)
        return true;
    int64_t task = at < queue->n_running ? queue->running[at] : queue->pending[at - queue->n_running];
    if (!reader_changesets_of(call->api->config.reader, &call->arena, &task, 1, &view, &n, &call->err))
        return false;
    *out = n > 0 ? view : NULL;
    return true;
}

/* entry_render: a position where all that are ahead of it are known. */
static bool entry_render(struct call *call, struct json *json, const struct queue *queue, size_t at)
{
    const struct changeset_view *view;
    bool staged = at >= queue->n_running + queue->n_pending;
    if (!entry_find(call, queue, at, &view))
        return false;
    int64_t position = staged && queue->truncated ? 0 : (int64_t)at - (int64_t)queue->n_running + 1;
    if (view != NULL)
        render_changeset(call, json, view, position);
    return true;
}

bool serve_targets_get(struct call *call)
{
    struct queue found = { 0 }, *queue = &found;
    int64_t limit = LIMIT, from = 0;
    struct str target = call->arg;
    bool more = false, good = true;
    if (!call_param_limit(call, STAGED_MAX, &limit) ||
        !call_param_i64(call, "cursor", 0, PENDING_MAX + STAGED_MAX, &from) || !lane_read(call, target, queue) ||
        (queue->lane.counts[STATE_X] > 0 &&
            !states_find(call, queue, 1u << STATE_X, &queue->running, &queue->n_running, &more)) ||
        !pending_find(call, queue))
        return call_problem(call);
    size_t begin = (size_t)from, end = begin + (size_t)limit;
    bool full = end < queue->n_running + queue->n_pending; /* no staged one comes on this page */
    if (!full && !staged_find(call, queue))
        return call_problem(call);
    size_t all = queue->n_running + queue->n_pending + queue->n_staged;
    struct str next = full || end < all ? call_cursor(call, (int64_t)end) : (struct str){ 0 };
    end = end < all ? end : all;
    begin = begin < end ? begin : end;
    const struct lane *lane = &queue->lane;
    struct json out = json_to(&call->out), *json = &out;
    ANSWER_WRITE(ANSWER_TargetQueue);
    return call_end(call, good, 200);
}
