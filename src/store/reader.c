/* reader: what the api shows, of either database.
 *
 * Each call is one snapshot and short: a single statement, or several within begin and end. Events need none over
 * several statements: rows of `turn` never change. Walks that a filter could make long (lists of tasks in tasks.c,
 * events here) stop after a bounded number of steps or STEP_US and say how far they came. */
#include "io/clock.h"
#include "store/damage.h"
#include "store/read_ops.h"

enum { TURNS_STEP = 64 };

void reader_close(struct reader *reader)
{
    if (reader)
        reader->ops->close(reader);
}

bool reader_present(struct reader *reader)
{
    return !reader->ops->present || reader->ops->present(reader);
}

bool reader_there(struct reader *reader)
{
    return !reader->ops->there || reader->ops->there(reader);
}

void reader_limit(struct reader *reader, int64_t boot_ms)
{
    if (reader->ops->limit)
        reader->ops->limit(reader, boot_ms);
}

int64_t reader_held_until(const struct reader *reader)
{
    return reader->ops->held_until ? reader->ops->held_until() : 0;
}

bool reader_is_shared(const struct reader *reader)
{
    return reader->ops->shared;
}

/* --- tasks --- */

bool reader_task(
    struct reader *reader, struct arena *arena, int64_t id, struct task_view *out, bool *out_found, struct err *err)
{
    return reader->ops->task(reader, arena, id, out, out_found, err);
}

bool reader_row(
    struct reader *reader, struct arena *arena, int64_t id, struct task *out, bool *out_found, struct err *err)
{
    return ask_task(&reader->sql, arena, id, out, out_found, err);
}

bool reader_spec(struct reader *reader, struct arena *arena, int64_t spec, struct str *out_body, struct err *err)
{
    struct spec row;
    bool found;
    if (!ask_spec(&reader->sql, arena, spec, &row, &found, err))
        return false;
    *out_body = row.body;
    return found || err_set(err, ERR_not_found, "there is no specification %lld", (long long)spec);
}

bool reader_spec_class(struct reader *reader, struct arena *arena, int64_t spec, struct str *out, struct err *err)
{
    struct spec row;
    bool found, ok = ask_spec(&reader->sql, arena, spec, &row, &found, err);
    *out = row.class_key;
    return ok;
}

bool reader_spec_slots(
    struct reader *reader, struct arena *arena, int64_t spec, const int64_t **out, size_t *out_n, struct err *err)
{
    struct spec row;
    bool found, ok = ask_spec(&reader->sql, arena, spec, &row, &found, err);
    *out = row.slots;
    *out_n = row.n_slots;
    return ok;
}

bool reader_find(struct reader *reader, struct str tenant, struct str lane, int64_t rev, struct str name,
    struct str variant, int64_t run, int64_t *out_id, struct err *err)
{
    struct query q;
    return ASK(&q, &reader->sql, SQL_task_find, err, TXT(lane), NUM(rev), TXT(name), TXT(variant), NUM(run),
               TXT(tenant)) &&
           query_numbers(&q, (int64_t *[]){ out_id }, 1, NULL, err);
}

bool row_edge_view(struct query *q, struct arena *arena, struct edge_view *out, struct err *err)
{
    struct task other = { 0 };
    out->id = next_i64(q);
    out->lane = next_i64(q);
    out->rev = next_i64(q);
    out->lane_name = next_text(q, arena);
    out->name = next_text(q, arena);
    out->variant = next_text(q, arena);
    out->run = next_i64(q);
    out->state = row_state(next_view(q));
    out->kind = (enum edge_kind)next_i64(q);
    out->flags = (unsigned)next_i64(q);
    bool ok = task_unpack(next_view(q), &other);
    out->finished = other.finished;
    return ok || row_damaged(q, "task", out->id, err);
}

bool reader_edges(struct reader *reader, struct arena *arena, int64_t id, bool by_pred, struct edge_view **out,
    size_t *out_n, struct err *err)
{
    struct query q;
    size_t cap = 0;
    enum query_step step;
    *out = NULL, *out_n = 0;
    if (!ASK(&q, &reader->sql, by_pred ? SQL_edge_views_by_pred : SQL_edge_views_by_waiter, err, NUM(id)))
        return false;
    while ((step = query_next(&q, err)) == QUERY_ROW)
        if (!row_edge_view(&q, arena, ARENA_PUSH(arena, *out, *out_n, cap), err))
            return false;
    return step == QUERY_DONE;
}

bool reader_holds(
    struct reader *reader, struct arena *arena, int64_t task, struct hold **out, size_t *out_n, struct err *err)
{
    return ask_holds_of_task(&reader->sql, arena, task, out, out_n, err);
}

bool reader_hold_users(struct reader *reader, struct arena *arena, enum hold_kind kind, int64_t key, size_t n,
    struct hold **out, size_t *out_n, struct err *err)
{
    return ask_holds_of(&reader->sql, arena, kind, key, n, out, out_n, err);
}

/* State and numbers alone, without names and texts. */
static bool rest_read(struct reader *reader, int64_t id, struct task *out, bool *out_found, struct err *err)
{
    struct query q;
    if (!ASK(&q, &reader->sql, SQL_task_rest, err, NUM(id)))
        return false;
    enum query_step step = query_next(&q, err);
    *out = (struct task){ .id = id };
    *out_found = step == QUERY_ROW;
    if (step != QUERY_ROW)
        return step == QUERY_DONE;
    out->state = row_state(next_view(&q));
    if (!task_unpack(next_view(&q), out))
        return row_damaged(&q, "task", id, err);
    out->reason = out->unique = (struct str){ 0 }; /* they end with the answer */
    q.ops->end(&q);
    return true;
}

bool reader_grant(struct reader *reader, int64_t task, int64_t *out_grant, enum task_state *out_state, bool *out_found,
    struct err *err)
{
    struct task row;
    if (!rest_read(reader, task, &row, out_found, err))
        return false;
    if (*out_found) {
        *out_grant = row.grant;
        *out_state = row.state;
    }
    return true;
}

bool reader_grant_owner(
    struct reader *reader, int64_t task, int64_t grant, int64_t *out_owner, bool *out_found, struct err *err)
{
    struct query q;
    return ASK(&q, &reader->sql, SQL_grant_owner, err, NUM(task), NUM(grant)) &&
           query_numbers(&q, (int64_t *[]){ out_owner }, 1, out_found, err);
}

bool reader_log_tail(struct reader *reader, struct arena *arena, int64_t task, int64_t grant, struct log_tail *out,
    bool *out_found, struct err *err)
{
    struct query q;
    return ASK(&q, &reader->sql, SQL_log_tail_get, err, NUM(task), NUM(grant)) &&
           get_log_tail(&q, arena, out, out_found, err);
}

/* --- events --- */

struct event_list {
    struct event *events;
    size_t n, cap, max;
    int64_t since, lane, last;
    int64_t deadline; /* boot us */
};

static void events_pick(struct event_list *list, struct arena *arena, const struct event *events, size_t n)
{
    for (size_t i = 0; i < n && list->n < list->max; i++) {
        if (events[i].seq <= list->since)
            continue;
        list->last = events[i].seq;
        if (list->lane == 0 || events[i].lane == list->lane)
            *ARENA_PUSH(arena, list->events, list->n, list->cap) = events[i];
    }
}

/* The events of TURNS_STEP turns behind list->last; of one at least, where turns are read one by one. */
static bool events_step(struct reader *reader, struct arena *arena, struct event_list *list, struct err *err)
{
    struct query q;
    struct event *events;
    size_t n;
    enum query_step step = QUERY_DONE;
    int64_t from = list->last < INT64_MAX ? list->last + 1 : list->last;
    if (!ASK(&q, &reader->sql, SQL_turns_since, err, NUM(from), NUM(TURNS_STEP)))
        return false;
    list->since = list->last;
    bool late = false;
    while (!late && list->n < list->max && (step = query_next(&q, err)) == QUERY_ROW) {
        if (!query_events(&q, arena, &events, &n, err)) {
            step = QUERY_ERROR;
            break;
        }
        events_pick(list, arena, events, n);
        late = !q.n_rows && clock_boot_us() > list->deadline;
    }
    q.ops->end(&q);
    return step != QUERY_ERROR;
}

bool reader_events(struct reader *reader, struct arena *arena, int64_t since, int64_t lane, size_t n,
    struct event **out, size_t *out_n, int64_t *out_last, struct err *err)
{
    struct event_list list = {
        .max = n, .since = since, .lane = lane, .last = since, .deadline = clock_boot_us() + reader->step_us
    };
    bool more = true;
    while (more && list.n < n) {
        if (!events_step(reader, arena, &list, err))
            return false;
        /* one step at least: none would look like the end */
        more = list.last > list.since && clock_boot_us() < list.deadline;
    }
    *out = list.events, *out_n = list.n, *out_last = list.last;
    return true;
}

static bool turn_events(
    struct reader *reader, struct arena *arena, int64_t turn, struct event **out, size_t *out_n, struct err *err)
{
    struct query q;
    if (!ASK(&q, &reader->sql, SQL_turn_get, err, NUM(turn)))
        return false;
    enum query_step step = query_next(&q, err);
    if (step != QUERY_ROW)
        return step == QUERY_DONE && damage_set(err, "turn %lld is missing: run weir verify", (long long)turn);
    bool ok = query_events(&q, arena, out, out_n, err);
    q.ops->end(&q);
    return ok;
}

/* One turn's events of a task, newest first; *turn moves on to the one before. */
static bool task_events_of_turn(
    struct reader *reader, struct arena *arena, int64_t task, int64_t *turn, struct event_list *list, struct err *err)
{
    struct event *events;
    size_t n;
    int64_t before = 0;
    if (!turn_events(reader, arena, *turn, &events, &n, err))
        return false;
    for (size_t i = n; i-- > 0;) {
        if (events[i].task != task)
            continue;
        before = events[i].prev_turn;
        if (list->n < list->max)
            *ARENA_PUSH(arena, list->events, list->n, list->cap) = events[i];
    }
    /* or the list leads in a circle: it was damaged */
    bool earlier = n > 0 && (list->last == 0 || events[0].seq < list->last);
    list->last = n > 0 ? events[0].seq : 0;
    *turn = earlier ? before : 0;
    return true;
}

bool reader_task_events(struct reader *reader, struct arena *arena, int64_t task, size_t n, struct event **out,
    size_t *out_n, struct err *err)
{
    struct event_list list = { .max = n };
    struct task row;
    bool found;
    if (!rest_read(reader, task, &row, &found, err))
        return false;
    int64_t turn = row.last_turn;
    while (turn > 0 && list.n < list.max)
        if (!task_events_of_turn(reader, arena, task, &turn, &list, err))
            return false;
    *out = list.events, *out_n = list.n;
    return true;
}

/* --- tables --- */

/* READ_ALL: a whole table. READ_PAGED: and a page of it. READ_ONE: one row by its id; NULL: there is none. */
#define READ_ALL(name, read, type) \
    bool reader_##name(struct reader *reader, struct arena *arena, type out, size_t *out_n, struct err *err) \
    { \
        struct query q; \
        return query_ask(&q, &reader->sql, SQL_##name, NULL, 0, err) && read(&q, arena, out, out_n, err); \
    }
#define READ_PAGED(name, read, type) \
    READ_ALL(name, read, type) \
    bool reader_##name##_page(struct reader *reader, struct arena *arena, const struct list_page *page, type out, \
        size_t *out_n, struct err *err) \
    { \
        struct query q; \
        return ASK(&q, &reader->sql, SQL_##name##_page, err, NUM(page->from), TXT(page->tenant), NUM(page->all), \
                   NUM(page->limit)) && \
               read(&q, arena, out, out_n, err); \
    }
#define READ_ONE(name, statement, read, type) \
    bool reader_##name(struct reader *reader, struct arena *arena, int64_t id, type **out, struct err *err) \
    { \
        struct query q; \
        bool found; \
        *out = ARENA_NEW(arena, type); \
        bool ok = ASK(&q, &reader->sql, statement, err, NUM(id)) && read(&q, arena, *out, &found, err); \
        if (ok && !found) \
            *out = NULL; \
        return ok; \
    }
READ_PAGED(lanes, each_lane, struct lane ***)
READ_PAGED(slots, each_slot, struct slot ***)
READ_PAGED(executors, each_executor, struct executor ***)
READ_PAGED(tokens, each_token, struct token ***)
READ_ALL(classes, each_class, struct task_class ***)
READ_ALL(site, list_site, struct site_key **)
READ_ONE(lane_of, SQL_lane_get, get_lane, struct lane)
READ_ONE(slot, SQL_slot_get, get_slot, struct slot)
READ_ONE(executor, SQL_executor_get, get_executor, struct executor)
READ_ONE(class, SQL_class_get, get_class, struct task_class)

bool reader_servers(struct reader *reader, struct arena *arena, struct server_row **out, size_t *out_n, struct err *err)
{
    struct query q;
    *out = NULL, *out_n = 0;
    return !reader->ops->shared ||
           (query_ask(&q, &reader->sql, SQL_servers, NULL, 0, err) && list_server(&q, arena, out, out_n, err));
}

bool reader_head(struct reader *reader, struct store_head *out, struct err *err)
{
    return ask_head(&reader->sql, out, NULL, err);
}

bool reader_lane(struct reader *reader, struct arena *arena, struct str tenant, struct str name, struct lane *out,
    bool *out_found, struct err *err)
{
    struct query q;
    return ASK(&q, &reader->sql, SQL_lane_named, err, TXT(name), TXT(tenant)) &&
           get_lane(&q, arena, out, out_found, err);
}

/* --- archives --- */

static bool row_archive_view(struct query *q, struct arena *arena, struct archive_view *out, struct err *err)
{
    return row_lane(q, arena, &out->lane, err) && row_archive(q, arena, &out->archive, err);
}

static bool list_archive_view(
    struct query *q, struct arena *arena, struct archive_view **out, size_t *out_n, struct err *err)
{
    size_t cap = 0;
    enum query_step step;
    *out = NULL, *out_n = 0;
    while ((step = query_next(q, err)) == QUERY_ROW)
        if (!row_archive_view(q, arena, ARENA_PUSH(arena, *out, *out_n, cap), err))
            return false;
    return step == QUERY_DONE;
}

bool reader_archives(
    struct reader *reader, struct arena *arena, struct archive_view **out, size_t *out_n, struct err *err)
{
    struct query q;
    return query_ask(&q, &reader->sql, SQL_archive_views, NULL, 0, err) &&
           list_archive_view(&q, arena, out, out_n, err);
}

bool reader_archives_page(struct reader *reader, struct arena *arena, struct str tenant, int64_t before, size_t limit,
    struct archive_view **out, size_t *out_n, struct err *err)
{
    struct query q;
    return ASK(&q, &reader->sql, SQL_archive_views_page, err, NUM(before ? before : INT64_MAX), TXT(tenant),
               NUM(limit)) &&
           list_archive_view(&q, arena, out, out_n, err);
}

bool reader_archive(struct reader *reader, struct arena *arena, struct str tenant, struct str name,
    struct archive_view *out, bool *out_found, struct err *err)
{
    struct query q;
    if (!ASK(&q, &reader->sql, SQL_archive_view, err, TXT(name), TXT(tenant)))
        return false;
    enum query_step step = query_next(&q, err);
    *out_found = step == QUERY_ROW;
    if (step != QUERY_ROW)
        return step == QUERY_DONE;
    bool ok = row_archive_view(&q, arena, out, err);
    q.ops->end(&q);
    return ok;
}

bool reader_revision(struct reader *reader, struct arena *arena, int64_t lane, int64_t rev, struct revision *out,
    bool *out_found, struct err *err)
{
    return ask_revision(&reader->sql, arena, lane, rev, out, out_found, err);
}

bool reader_revisions(struct reader *reader, struct arena *arena, int64_t lane, int64_t before, size_t limit,
    struct revision **out, size_t *out_n, struct err *err)
{
    struct query q;
    return ASK(&q, &reader->sql, SQL_revisions_below, err, NUM(lane), NUM(before ? before : INT64_MAX), NUM(limit)) &&
           list_revision(&q, arena, out, out_n, err);
}

bool reader_revision_of_ident(struct reader *reader, int64_t lane, struct str ident, int64_t *out_rev, struct err *err)
{
    return ask_revision_of_ident(&reader->sql, lane, ident, out_rev, err);
}

bool reader_schedules(
    struct reader *reader, struct arena *arena, int64_t lane, struct schedule **out, size_t *out_n, struct err *err)
{
    struct query q;
    return ASK(&q, &reader->sql, SQL_schedules_of, err, NUM(lane)) && list_schedule(&q, arena, out, out_n, err);
}

bool reader_ready_of(struct reader *reader, struct arena *arena, int64_t class_id, size_t n, int64_t **out,
    size_t *out_n, struct err *err)
{
    struct query q;
    return ASK(&q, &reader->sql, SQL_ready_of_class, err, NUM(class_id), NUM((int64_t)n)) &&
           query_ids(&q, arena, out, out_n, err);
}

bool reader_changeset(
    struct reader *reader, struct arena *arena, int64_t task, struct changeset *out, bool *out_found, struct err *err)
{
    return ask_changeset(&reader->sql, arena, task, out, out_found, err);
}

bool reader_changeset_find(
    struct reader *reader, struct str tenant, struct str csid, int64_t *out_task, struct err *err)
{
    return ask_changeset_find(&reader->sql, tenant, csid, out_task, err);
}
