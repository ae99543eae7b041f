/* schedules: tasks that the clock starts. Each cron line of an archive's newest workflow has a row with the minute at
 * which it fires next. The turn that fires it makes the run and moves the minute on in the same commit, so each slot
 * fires exactly once, also over restarts. Slots that passed while no server ran fire once, together.
 *
 * A row also records up to which time its slots have fired (`fired`), as far as the wall clock was believed
 * (core/wall.h). If the wall clock is set back, nothing fires twice. If it was wrong by hours or years and is
 * corrected, each row's minute is checked, a batch a turn, and computed again from `fired` or from now: none stays in
 * the wrong time. */
#include "base/when.h"
#include "engine/archives.h"
#include "engine/expiry.h"
#include "engine/shared/shared.h"
#include "engine/tenants.h"
#include "io/timezone.h"
#include "text/cron.h"

static struct str schedule_key(struct turn *turn, const struct archive *archive, struct str task)
{
    struct str name = slice_lane(turn->slice, archive->lane)->name;
    return str_fmt(turn->arena, "%.*s:%.*s", STR_ARG(name), STR_ARG(task)); /* what H hashes */
}

/* The first minute later than `after`; INT64_MAX: never, or the line or its timezone can't be read here. */
static int64_t minute_after(struct str cron_text, struct str key, struct str zone_name, int64_t after)
{
    struct cron cron;
    struct cron_fault fault;
    struct arena scratch = { 0 };
    struct err ignored = { 0 };
    const struct time_zone *tz;
    int64_t next;
    bool fires = cron_parse(cron_text, key, &cron, &fault) && timezone_load(NULL, zone_name, &scratch, &tz, &ignored) &&
                 cron_next(&cron, tz, after / 1000, &next);
    arena_release(&scratch);
    return fires ? next * 1000 : INT64_MAX;
}

static void known_add(struct engine *engine, const struct schedule *row)
{
    struct known_schedule *known = ARENA_NEW(&engine->schedules->arena, struct known_schedule);
    known->row = (struct schedule){ row->lane, str_dup(&engine->schedules->arena, row->task),
        str_dup(&engine->schedules->arena, row->cron), str_dup(&engine->schedules->arena, row->timezone), row->next,
        row->fired };
    known->other = engine->schedules->known;
    engine->schedules->known = known;
    if (row->next < INT64_MAX)
        heap_put(&engine->schedules->due, &known->due, row->next);
}

void schedules_drop(struct engine *engine)
{
    heap_release(&engine->schedules->due);
    engine->schedules->known = NULL;
    arena_reset(&engine->schedules->arena);
}

bool schedules_load(struct engine *engine, struct err *err)
{
    struct arena scratch = { 0 };
    struct schedule *rows;
    size_t n;
    schedules_drop(engine);
    bool ok = engine->store->ops->load_schedules(engine->store, &scratch, &rows, &n, err);
    for (size_t i = 0; ok && i < n; i++)
        known_add(engine, &rows[i]);
    arena_release(&scratch);
    return ok;
}

int64_t schedules_next(const struct engine *engine)
{
    if (atomic_load(&engine->site->held))
        return INT64_MAX;
    const struct heap_node *first = heap_first(&engine->schedules->due);
    return first ? first->key : INT64_MAX;
}

bool schedules_due(const struct engine *engine, int64_t wall, int64_t boot)
{
    bool looks = engine->schedules->known && engine->schedules->looked != SIZE_MAX;
    return coord_holds(engine->shared->coord, DUTY_schedules) &&
           (looks || schedules_next(engine) <= wall || engine->schedules->offset - (wall - boot) > 1000);
}

static bool schedule_same(const struct schedule *a, const struct schedule *b)
{
    return a->lane == b->lane && str_eq(a->task, b->task) && str_eq(a->cron, b->cron) &&
           str_eq(a->timezone, b->timezone);
}

/* What the archive has now, this turn's changes included. */
static size_t schedules_of(struct turn *turn, int64_t lane, struct schedule **out)
{
    struct store *store = turn->engine->store;
    struct schedule *rows, *list = NULL;
    size_t n_rows, n = 0, cap = 0;
    if (!turn_read(turn, store->ops->load_schedules(store, turn->arena, &rows, &n_rows, turn->err)))
        return 0;
    for (size_t i = 0; i < n_rows; i++) {
        bool gone = rows[i].lane != lane;
        for (size_t k = 0; k < turn->changes.schedules_remove.n && !gone; k++)
            gone = schedule_same(&rows[i], &turn->changes.schedules_remove.at[k]);
        for (size_t k = 0; k < turn->changes.schedules.n && !gone; k++)
            gone = schedule_same(&rows[i], &turn->changes.schedules.at[k]);
        if (!gone)
            *ARENA_PUSH(turn->arena, list, n, cap) = rows[i];
    }
    for (size_t k = 0; k < turn->changes.schedules.n; k++)
        if (turn->changes.schedules.at[k].lane == lane)
            *ARENA_PUSH(turn->arena, list, n, cap) = turn->changes.schedules.at[k];
    *out = list;
    return n;
}

static void schedule_put(struct turn *turn, const struct schedule *row)
{
    for (size_t i = 0; i < turn->changes.schedules_remove.n; i++)
        if (schedule_same(&turn->changes.schedules_remove.at[i], row))
            turn->changes.schedules_remove.at[i--] =
                turn->changes.schedules_remove.at[--turn->changes.schedules_remove.n];
    for (size_t i = 0; i < turn->changes.schedules.n; i++) {
        if (!schedule_same(&turn->changes.schedules.at[i], row))
            continue;
        turn->changes.schedules.at[i] = *row;
        return;
    }
    *ARRAY_ADD(turn->arena, turn->changes.schedules) = *row;
}

static void schedule_remove(struct turn *turn, const struct schedule *row)
{
    for (size_t i = 0; i < turn->changes.schedules.n; i++)
        if (schedule_same(&turn->changes.schedules.at[i], row))
            turn->changes.schedules.at[i--] = turn->changes.schedules.at[--turn->changes.schedules.n];
    *ARRAY_ADD(turn->arena, turn->changes.schedules_remove) = *row;
}

/* A line that the archive had before keeps its minute, a new line starts from now, the row of a line that is gone
 * is removed. */
void schedules_set(struct turn *turn, const struct archive *archive, const struct definition *definition)
{
    struct schedule *had = NULL;
    size_t n_had = schedules_of(turn, archive->lane, &had),
           n_tasks = definition && definition->valid ? definition->workflow.n_tasks : 0;
    bool *kept = ARENA_ARRAY(turn->arena, bool, n_had + 1);
    for (size_t i = 0; i < n_tasks; i++) {
        const struct workflow_task *task = &definition->workflow.tasks[i];
        for (size_t k = 0; k < task->schedule.n && task->triggers & TRIGGER_SCHEDULE; k++) {
            struct schedule row = { .lane = archive->lane,
                .task = str_dup(turn->arena, task->name),
                .cron = str_dup(turn->arena, task->schedule.items[k].cron),
                .timezone = str_dup(turn->arena, task->schedule.items[k].timezone) };
            bool there = false;
            for (size_t h = 0; h < n_had; h++)
                if (schedule_same(&had[h], &row))
                    kept[h] = there = true;
            row.next =
                there ? 0 : minute_after(row.cron, schedule_key(turn, archive, row.task), row.timezone, turn->wall);
            if (!there)
                schedule_put(turn, &row);
            if (PLANT(schedule_unheard))
                continue;
            turn->archives->schedules_changed |= !there;
        }
    }
    for (size_t h = 0; h < n_had; h++) {
        if (kept[h])
            continue;
        schedule_remove(turn, &had[h]);
        turn->archives->schedules_changed = true;
    }
}

/* Far from now: this clock or the one by which it fired is wrong. */
static bool fired_counts(const struct turn *turn, const struct schedule *row)
{
    return row->fired > 0 && row->fired - turn->wall <= WALL_STEP_MS && turn->wall - row->fired <= WALL_STEP_MS;
}

/* The first minute that hasn't fired. A row without `fired`: the first minute since the last turn that checked, by the
 * present clock. */
static int64_t minute_unfired(struct turn *turn, const struct schedule *row)
{
    int64_t looked = turn->engine->schedules->boot, since = looked ? turn->wall - (turn->boot - looked) : turn->wall;
    struct str key = schedule_key(turn, turn_archive(turn, row->lane), row->task);
    return minute_after(row->cron, key, row->timezone, fired_counts(turn, row) ? row->fired : since);
}

/* Moves the minute without firing, and records an event, by which other servers read their schedules again. */
static void schedule_count_again(struct turn *turn, const struct schedule *row, int64_t next)
{
    struct schedule moved = *row;
    moved.next = next;
    schedule_put(turn, &moved);
    turn->archives->schedules_changed = true;
    slice_event(
        turn->slice, &(struct event){ .kind = EVENT_scheduled,
                         .lane = row->lane,
                         .actor = STR("engine"),
                         .subject = row->task,
                         .reason = str_fmt(turn->arena, "%.*s: the wall clock was set back, " SCHEDULE_AGAIN " %s",
                             STR_ARG(row->cron), when_format(next).z) });
}

/* Its slot has fired before: the clock was set back since, and has come to it again. */
static bool slot_passed(struct turn *turn, const struct schedule *row)
{
    if (row->next > row->fired || row->fired - turn->wall > WALL_STEP_MS)
        return false;
    struct str key = schedule_key(turn, turn_archive(turn, row->lane), row->task);
    int64_t next = minute_after(row->cron, key, row->timezone, row->fired);
    if (next <= turn->wall)
        return false; /* and later ones haven't */
    schedule_count_again(turn, row, next);
    return true;
}

static void schedule_fire(struct turn *turn, const struct schedule *row)
{
    struct archive *archive = turn_archive(turn, row->lane);
    struct schedule moved = *row;
    int64_t past = turn_past(turn);
    turn->archives->schedules_changed = true;
    if (slot_passed(turn, row))
        return;
    moved.next = minute_after(row->cron, schedule_key(turn, archive, row->task), row->timezone, turn->wall);
    if (row->next > past && row->next - past <= WALL_STEP_MS)
        past = row->next; /* it is early, but it has fired */
    if (past > row->fired || turn_agrees(turn))
        moved.fired = past;
    if (PLANT(slot_kept))
        moved.next = turn->wall - row->next > 60000 ? row->next : moved.next;
    schedule_put(turn, &moved);
    if (archive->removed || archive->definition == 0 || archive->next <= archive->first)
        return;
    const struct revision *revision = revision_newest(turn, archive);
    struct definition *definition = revision ? definition_get(turn, archive->definition) : NULL;
    if (!definition || turn->slice->failed)
        return;
    struct str by = duty_text(turn, DUTY_schedules);
    struct because because = { .actor = STR("schedule"),
        .reason = str_fmt(turn->arena, "schedule %.*s", STR_ARG(row->cron)) };
    bool full = quota_tasks_full(turn, slice_lane(turn->slice, row->lane)->tenant);
    const struct node *node =
        full ? NULL : run_make(turn, archive, revision, definition, row->task, (struct str){ 0 }, &because);
    slice_event(turn->slice, &(struct event){ .kind = EVENT_scheduled,
                                 .lane = row->lane,
                                 .task = node ? node->row.id : 0,
                                 .actor = because.actor,
                                 .subject = row->task,
                                 .reason = str_fmt(turn->arena, "%.*s for %s%s%.*s%s", STR_ARG(row->cron),
                                     when_format(row->next).z, by.len ? "; " : "", STR_ARG(by),
                                     full ? ": left out, the tenant has as many open tasks as it may" : "") });
}

/* After a start, and when the wall clock was set back: a minute that is later than the first that hasn't fired was
 * counted from a time that hasn't come. */
static void schedules_look(struct turn *turn)
{
    struct engine *engine = turn->engine;
    size_t at = 0;
    const struct known_schedule *known = engine->schedules->known;
    for (; known && at < engine->schedules->looked; at++)
        known = known->other;
    for (size_t n = 0; known && n < FIRED_BATCH && !turn->slice->failed; n++, at++, known = known->other) {
        struct schedule moved = known->row;
        if (PLANT(schedule_ahead))
            continue;
        if (moved.next == INT64_MAX || moved.next <= turn->wall)
            continue;
        moved.next = minute_unfired(turn, &known->row);
        /* a clock that is set back a little fires nothing twice */
        if (known->row.next - moved.next <= WALL_STEP_MS)
            continue;
        if (moved.next > turn->wall)
            schedule_count_again(turn, &known->row, moved.next);
        else
            schedule_fire(turn, &moved);
    }
    engine->schedules->looked = known ? at : SIZE_MAX;
}

/* Before the commands, so that what they add counts from now. */
void schedules_fire(struct turn *turn)
{
    struct engine *engine = turn->engine;
    struct heap_node *first;
    if (!duty_acts(turn, DUTY_schedules))
        return;
    int64_t offset = turn->wall - turn->boot;
    bool set_back = engine->schedules->offset - offset > 1000;
    if (set_back)
        engine->schedules->looked = 0;
    if (set_back || offset > engine->schedules->offset)
        engine->schedules->offset = offset;
    if (engine->schedules->looked != SIZE_MAX)
        schedules_look(turn);
    engine->schedules->boot = turn->boot;
    if (atomic_load(&engine->site->held))
        return;
    for (size_t n = 0; n < FIRED_BATCH && !turn->slice->failed && (first = heap_first(&engine->schedules->due)) &&
                       first->key <= turn->wall;
         n++) {
        const struct known_schedule *known = CONTAINER_OF(first, struct known_schedule, due);
        heap_take(
            &engine->schedules->due, first); /* all rows are read again after the commit, and after a failed one */
        turn->archives->schedules_changed = true;
        schedule_fire(turn, &known->row);
    }
}
