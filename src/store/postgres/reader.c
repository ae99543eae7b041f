/* reader: what the api shows, on a connection of its own.
 *
 * Each call is one snapshot: a single statement, or several in a REPEATABLE READ transaction, pipelined. A connection
 * that is lost, before a call or in the midst of it, is made anew once, and the call done again; while the database is
 * away every call fails with ERR_unavailable or ERR_unreachable, quickly. Who has time asks before (reader_present). */
#include "store/postgres/reader.h"

#include <sodium.h>
#include <string.h>

#include "io/clock.h"
#include "store/damage.h"
#include "store/pack.h"
#include "store/postgres/archives.h"
#include "store/postgres/timeline.h"

enum { TURNS_STEP = 64 };

static bool connection_open(struct postgres_reader *self, struct err *err)
{
    int64_t version;
    if (!pg_connect(&self->pg, self->url, err) || !pg_schema_check(&self->pg, &version, err))
        return false;
    return pg_schema_ours(&self->pg, version, false, err) && pg_exec(&self->pg, PG_session_reader, err) &&
           (self->hurried ? pg_hurry : pg_brief)(&self->pg, err) &&
           pg_prepare(&self->pg, PG_FOR_READER | PG_FOR_VERIFIER, err);
}

static void close_reader(struct reader *reader)
{
    struct postgres_reader *self = postgres_reader_of(reader);
    pg_close(&self->pg);
    sodium_memzero(self->url, strlen(self->url)); /* it may hold a password */
    mem_free(self->url);
    mem_free(self);
}

struct reader *postgres_reader_open(const struct store_config *config, struct err *err)
{
    struct postgres_reader *self = mem_alloc_zero(sizeof *self);
    size_t n = strlen(config->url) + 1;
    self->port.ops = &postgres_reader_ops;
    self->port.step_us = STEP_US;
    self->hurried = config->hurried;
    self->url = mem_alloc(n);
    memcpy(self->url, config->url, n);
    if (!connection_open(self, err)) {
        close_reader(&self->port);
        return NULL;
    }
    return &self->port;
}

static bool in_time(const struct postgres_reader *self, struct err *err)
{
    return self->limit_ms == 0 || clock_boot_ms() < self->limit_ms ||
           err_set(
               err, ERR_unavailable, "the database of the store is slow: what was asked for couldn't be read in time");
}

bool reader_ready(struct postgres_reader *self, struct err *err)
{
    if (!self->pg.lost && timeline_current(&self->pg))
        return true;
    bool tried = self->pg.lost && clock_boot_ms() < self->retry_ms && self->retry_epoch == writer_epoch();
    if (!in_time(self, err))
        return false;
    if (writer_is_away() || tried)
        return err_set(err, ERR_unavailable, "the database of the store is away");
    pg_close(&self->pg);
    self->retry_epoch = writer_epoch();
    self->retry_ms = 0;
    if (connection_open(self, err))
        return true;
    self->pg.lost = true;
    self->retry_ms = clock_boot_ms() + RETRY_MS;
    return false;
}

bool reader_ask(
    struct postgres_reader *self, enum pg_id id, const struct pg_args *args, PGresult **out, struct err *err)
{
    struct err why = { 0 };
    bool current = timeline_current(&self->pg);
    if (!in_time(self, err))
        return false;
    if (current && pg_run(&self->pg, id, args, out, &why))
        return true;
    if (current && !self->pg.lost)
        return err_set(err, why.code, "%s", why.text);
    return reader_ready(self, err) && pg_run(&self->pg, id, args, out, err);
}

static bool read_present(struct reader *reader)
{
    struct postgres_reader *self = postgres_reader_of(reader);
    struct err ignored = { 0 };
    if (!self->pg.lost)
        pg_look(&self->pg);
    return reader_ready(self, &ignored);
}

static bool read_there(struct reader *reader)
{
    struct postgres_reader *self = postgres_reader_of(reader);
    if (!self->pg.lost)
        pg_look(&self->pg);
    return !self->pg.lost && timeline_current(&self->pg);
}

static void read_limit(struct reader *reader, int64_t boot_ms)
{
    postgres_reader_of(reader)->limit_ms = boot_ms;
}

/* An error on the way out doesn't matter to what was read; after a refused statement COMMIT rolls back. */
void pg_snapshot_end(struct postgres_reader *self)
{
    struct err ignored = { 0 };
    (void)pg_run(&self->pg, PG_commit, NULL, NULL, &ignored);
}

void arg_ids(struct postgres_reader *self, struct pg_args *args, const int64_t *ids, size_t n)
{
    struct pg_bulk *bulk = &self->pg.bulk;
    bulk_begin(bulk, "i");
    for (size_t i = 0; i < n; i++)
        bulk_i64(bulk, ids[i]);
    bool fits = bulk_args(bulk, args);
    ASSERT(fits);
}

/* --- views --- */

static bool edge_view_fill(struct cells *c, struct arena *arena, struct edge_view *out, struct err *err)
{
    struct task other = { 0 };
    out->id = next_i64(c);
    out->lane = next_i64(c);
    out->rev = next_i64(c);
    out->lane_name = next_text(c, arena);
    out->name = next_text(c, arena);
    out->variant = next_text(c, arena);
    out->run = next_i64(c);
    out->state = row_state(next_view(c));
    out->kind = (enum edge_kind)next_i64(c);
    out->flags = (unsigned)next_i64(c);
    bool ok = task_unpack(next_view(c), &other);
    out->finished = other.finished;
    return ok || pg_row_damaged("task", out->id, err);
}

static bool view_row(const PGresult *result, int row, struct arena *arena, struct task_view *out, struct err *err)
{
    struct cells c = cells_of(result, row);
    *out = (struct task_view){ 0 };
    if (!pg_row_task(&c, arena, &out->task, err))
        return false;
    out->lane_name = next_text(&c, arena);
    out->tenant = next_text(&c, arena);
    out->lane_kind = (enum lane_kind)next_i64(&c);
    return true;
}

/* The row says what there is to be read: nothing beside it for a task that just waits in a queue. */
static bool view_whole(const struct task_view *view)
{
    return view->task.grant == 0 && view->task.ins == 0 && !(view->task.marks & MARK_OUTPUTS);
}

/* Rows of attempts, needs and outputs stand in the order of the views, the task's number first; *row goes on to those
 * of the next view. How many are this one's. */
static size_t view_rows(const PGresult *result, int *row, const struct task_view *view)
{
    int first = *row, n = PQntuples(result);
    for (; *row < n; (*row)++) {
        struct cells c = cells_of(result, *row);
        if (next_i64(&c) != view->task.id)
            break;
    }
    return (size_t)(*row - first);
}

static bool view_attempts(
    const PGresult *result, int *row, struct arena *arena, struct task_view *view, struct err *err)
{
    int first = *row;
    view->n_attempts = view_rows(result, row, view);
    if (!view->n_attempts)
        return true;
    view->attempts = ARENA_ARRAY(arena, struct attempt, view->n_attempts);
    view->executor_names = ARENA_ARRAY(arena, struct str, view->n_attempts);
    for (int i = first; i < *row; i++) {
        struct cells c = cells_of(result, i);
        if (!pg_row_attempt(&c, arena, &view->attempts[i - first], err))
            return false;
        view->executor_names[i - first] = next_text(&c, arena);
    }
    return true;
}

static bool view_needs(const PGresult *result, int *row, struct arena *arena, struct task_view *view, struct err *err)
{
    int first = *row;
    view->n_needs = view_rows(result, row, view);
    view->needs = view->n_needs ? ARENA_ARRAY(arena, struct edge_view, view->n_needs) : NULL;
    for (int i = first; i < *row; i++) {
        struct cells c = cells_of(result, i);
        (void)next_i64(&c); /* the waiter: this task */
        if (!edge_view_fill(&c, arena, &view->needs[i - first], err))
            return false;
    }
    return true;
}

static bool view_outputs(const PGresult *result, int *row, struct arena *arena, struct task_view *view, struct err *err)
{
    struct cells c = cells_of(result, *row);
    struct task_outputs outputs = { 0 };
    if (view_rows(result, row, view) && !pg_row_outputs(&c, arena, &outputs, err))
        return false;
    view->outputs = outputs.json;
    return true;
}

bool views_load(struct postgres_reader *self, struct arena *arena, const int64_t *ids, size_t n, struct task_view **out,
    size_t *out_n, struct err *err)
{
    static const enum pg_id parts[] = { PG_task_views, PG_attempt_views, PG_need_views, PG_outputs_of };
    struct pg *pg = &self->pg;
    struct pg_args args = { 0 };
    int attempt = 0, need = 0, output = 0;
    *out = NULL, *out_n = 0;
    if (!n)
        return true;
    arg_ids(self, &args, ids, n);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        pg_queue(pg, parts[i], &args);
    if (!pg_exchange(pg, err))
        return false;
    *out_n = (size_t)PQntuples(pg->results[0]);
    *out = *out_n ? ARENA_ARRAY(arena, struct task_view, *out_n) : NULL;
    for (size_t i = 0; i < *out_n; i++) {
        struct task_view *view = &(*out)[i];
        if (!view_row(pg->results[0], (int)i, arena, view, err))
            return false;
        if (!view_attempts(pg->results[1], &attempt, arena, view, err) ||
            !view_needs(pg->results[2], &need, arena, view, err) ||
            !view_outputs(pg->results[3], &output, arena, view, err))
            return false;
    }
    return true;
}

static bool task_once(struct postgres_reader *self, struct arena *arena, int64_t id, struct task_view *out,
    bool *out_found, struct err *err)
{
    struct pg_args args = { 0 };
    struct task_view *views;
    PGresult *result;
    size_t n;
    arg_i64(&args, id);
    if (!reader_ask(self, PG_task_view, &args, &result, err))
        return false;
    *out_found = PQntuples(result) > 0;
    if (!*out_found)
        return true;
    if (!view_row(result, 0, arena, out, err))
        return false;
    if (view_whole(out))
        return true;
    if (!pg_run(&self->pg, PG_begin_snapshot, NULL, NULL, err))
        return false;
    bool ok = views_load(self, arena, &id, 1, &views, &n, err);
    pg_snapshot_end(self);
    if (ok && (*out_found = n == 1))
        *out = views[0];
    return ok;
}

bool reader_lost_midway(struct postgres_reader *self, struct err *err)
{
    if (!self->pg.lost)
        return false;
    *err = (struct err){ .arena = err->arena };
    return true;
}

static bool read_task(
    struct reader *reader, struct arena *arena, int64_t id, struct task_view *out, bool *out_found, struct err *err)
{
    struct postgres_reader *self = postgres_reader_of(reader);
    return task_once(self, arena, id, out, out_found, err) ||
           (reader_lost_midway(self, err) && task_once(self, arena, id, out, out_found, err));
}

static bool read_row(
    struct reader *reader, struct arena *arena, int64_t id, struct task *out, bool *out_found, struct err *err)
{
    struct pg_args args = { 0 };
    PGresult *result;
    arg_i64(&args, id);
    return reader_ask(postgres_reader_of(reader), PG_task_get, &args, &result, err) &&
           pg_rows_get_task(result, arena, out, out_found, err);
}

static bool spec_get(
    struct reader *reader, struct arena *arena, int64_t id, struct spec *out, bool *out_found, struct err *err)
{
    struct pg_args args = { 0 };
    PGresult *result;
    *out = (struct spec){ 0 };
    arg_i64(&args, id);
    return reader_ask(postgres_reader_of(reader), PG_spec_get, &args, &result, err) &&
           pg_rows_get_spec(result, arena, out, out_found, err);
}

static bool read_spec(struct reader *reader, struct arena *arena, int64_t spec, struct str *out_body, struct err *err)
{
    struct spec row;
    bool found;
    if (!spec_get(reader, arena, spec, &row, &found, err))
        return false;
    *out_body = row.body;
    return found || err_set(err, ERR_not_found, "there is no specification %lld", (long long)spec);
}

static bool read_spec_class(struct reader *reader, struct arena *arena, int64_t spec, struct str *out, struct err *err)
{
    struct spec row;
    bool found, ok = spec_get(reader, arena, spec, &row, &found, err);
    *out = row.class_key;
    return ok;
}

static bool read_spec_slots(
    struct reader *reader, struct arena *arena, int64_t spec, const int64_t **out, size_t *out_n, struct err *err)
{
    struct spec row;
    bool found, ok = spec_get(reader, arena, spec, &row, &found, err);
    *out = row.slots;
    *out_n = row.n_slots;
    return ok;
}

static bool read_find(struct reader *reader, struct str tenant, struct str lane, int64_t rev, struct str name,
    struct str variant, int64_t run, int64_t *out_id, struct err *err)
{
    struct pg_args args = { 0 };
    PGresult *result;
    arg_text(&args, lane);
    arg_i64(&args, rev);
    arg_text(&args, name);
    arg_text(&args, variant);
    arg_i64(&args, run);
    arg_text(&args, tenant);
    if (!reader_ask(postgres_reader_of(reader), PG_task_find, &args, &result, err))
        return false;
    *out_id = PQntuples(result) > 0 ? cell_i64(result, 0, 0) : 0;
    return true;
}

static bool read_edges(struct reader *reader, struct arena *arena, int64_t id, bool by_pred, struct edge_view **out,
    size_t *out_n, struct err *err)
{
    struct pg_args args = { 0 };
    PGresult *result;
    arg_i64(&args, id);
    if (!reader_ask(
            postgres_reader_of(reader), by_pred ? PG_edge_views_by_pred : PG_edge_views_by_waiter, &args, &result, err))
        return false;
    *out_n = (size_t)PQntuples(result);
    *out = *out_n ? ARENA_ARRAY(arena, struct edge_view, *out_n) : NULL;
    for (size_t i = 0; i < *out_n; i++) {
        struct cells c = cells_of(result, (int)i);
        if (!edge_view_fill(&c, arena, &(*out)[i], err))
            return false;
    }
    return true;
}

static bool read_holds(
    struct reader *reader, struct arena *arena, int64_t task, struct hold **out, size_t *out_n, struct err *err)
{
    struct pg_args args = { 0 };
    PGresult *result;
    arg_i64(&args, task);
    return reader_ask(postgres_reader_of(reader), PG_holds_of_task, &args, &result, err) &&
           pg_rows_holds(result, arena, out, out_n, err);
}

static bool read_hold_users(struct reader *reader, struct arena *arena, enum hold_kind kind, int64_t key, size_t n,
    struct hold **out, size_t *out_n, struct err *err)
{
    struct pg_args args = { 0 };
    PGresult *result;
    arg_i64(&args, kind);
    arg_i64(&args, key);
    arg_i64(&args, (int64_t)n);
    return reader_ask(postgres_reader_of(reader), PG_holds_of, &args, &result, err) &&
           pg_rows_holds(result, arena, out, out_n, err);
}

/* --- events: rows of `turn` never change, so no snapshot is needed over several statements --- */

struct event_list {
    struct event *events;
    size_t n, cap, max;
    int64_t since, lane, last;
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

/* The bytes of the result end with it, so what is unpacked is a copy. */
bool pg_turn_unpack(
    const PGresult *result, int row, struct arena *arena, struct event **out, size_t *out_n, struct err *err)
{
    struct cells c = cells_of(result, row);
    int64_t turn = next_i64(&c), first_seq = next_i64(&c), time = next_i64(&c);
    return unpack_events(next_view(&c), first_seq, time, arena, out, out_n) ||
           damage_set(err, "the events of turn %lld can't be read: run weir verify", (long long)turn);
}

static bool read_events(struct reader *reader, struct arena *arena, int64_t since, int64_t lane, size_t n,
    struct event **out, size_t *out_n, int64_t *out_last, struct err *err)
{
    struct event_list list = { .max = n, .since = since, .lane = lane, .last = since };
    int64_t deadline = clock_boot_us() + reader->step_us;
    bool more = true;
    while (more && list.n < n) {
        struct pg_args args = { 0 };
        PGresult *result;
        arg_i64(&args, list.last < INT64_MAX ? list.last + 1 : list.last);
        arg_i64(&args, TURNS_STEP);
        if (!reader_ask(postgres_reader_of(reader), PG_turns_since, &args, &result, err))
            return false;
        list.since = list.last;
        for (int i = 0; i < PQntuples(result) && list.n < n; i++) {
            struct event *events;
            size_t n_events;
            if (!pg_turn_unpack(result, i, arena, &events, &n_events, err))
                return false;
            events_pick(&list, arena, events, n_events);
        }
        /* one step at least: none would look like the end */
        more = list.last > list.since && clock_boot_us() < deadline;
    }
    *out = list.events, *out_n = list.n, *out_last = list.last;
    return true;
}

/* One turn's events of a task, newest first; *turn moves on to the one before. */
static bool task_events_of_turn(struct postgres_reader *self, struct arena *arena, int64_t task, int64_t *turn,
    struct event_list *list, struct err *err)
{
    struct pg_args args = { 0 };
    PGresult *result;
    struct event *events;
    size_t n;
    int64_t before = 0;
    arg_i64(&args, *turn);
    if (!reader_ask(self, PG_turn_get, &args, &result, err))
        return false;
    if (PQntuples(result) == 0)
        return damage_set(err, "turn %lld is missing: run weir verify", (long long)*turn);
    if (!pg_turn_unpack(result, 0, arena, &events, &n, err))
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

static bool rest_read(struct postgres_reader *self, int64_t id, struct task *out, bool *out_found, struct err *err)
{
    struct pg_args args = { 0 };
    PGresult *result;
    arg_i64(&args, id);
    if (!reader_ask(self, PG_task_rest, &args, &result, err))
        return false;
    *out = (struct task){ .id = id };
    *out_found = PQntuples(result) > 0;
    if (!*out_found)
        return true;
    struct cells c = cells_of(result, 0);
    out->state = row_state(next_view(&c));
    if (!task_unpack(next_view(&c), out))
        return pg_row_damaged("task", id, err);
    out->reason = out->unique = (struct str){ 0 }; /* they end with the result */
    return true;
}

static bool read_task_events(struct reader *reader, struct arena *arena, int64_t task, size_t n, struct event **out,
    size_t *out_n, struct err *err)
{
    struct postgres_reader *self = postgres_reader_of(reader);
    struct event_list list = { .max = n };
    struct task row;
    bool found;
    if (!rest_read(self, task, &row, &found, err))
        return false;
    int64_t turn = row.last_turn;
    while (turn > 0 && list.n < list.max)
        if (!task_events_of_turn(self, arena, task, &turn, &list, err))
            return false;
    *out = list.events, *out_n = list.n;
    return true;
}

#define READ_ALL(function, rows, statement, type) \
    static bool function(struct reader *reader, struct arena *arena, type ***out, size_t *out_n, struct err *err) \
    { \
        PGresult *result; \
        return reader_ask(postgres_reader_of(reader), statement, NULL, &result, err) && rows(result, arena, out, \
            out_n, err); \
    }
READ_ALL(read_classes, pg_rows_classes, PG_classes, struct task_class)

/* A whole table, or a page of it. */
#define READ_PAGED(name, type) \
    static bool read_##name(struct reader *reader, struct arena *arena, const struct list_page *page, type ***out, \
        size_t *out_n, \
        struct err *err) \
    { \
        PGresult *result; \
        struct pg_args args = { 0 }; \
        if (page) \
            page_args(&args, page); \
        return reader_ask(postgres_reader_of(reader), page ? PG_##name##_page : PG_##name, page ? &args : NULL, \
            &result, err) && \
               pg_rows_##name(result, arena, out, out_n, err); \
    }
static void page_args(struct pg_args *args, const struct list_page *page)
{
    arg_i64(args, page->from);
    arg_text(args, page->tenant);
    arg_i64(args, page->all);
    arg_i64(args, (int64_t)page->limit);
}
READ_PAGED(lanes, struct lane)
READ_PAGED(slots, struct slot)
READ_PAGED(executors, struct executor)
READ_PAGED(tokens, struct token)

/* One row by its id; NULL: there is none. */
#define READ_ONE(function, rows, statement, type) \
    static bool function(struct reader *reader, struct arena *arena, int64_t id, type **out, struct err *err) \
    { \
        PGresult *result; \
        struct pg_args args = { 0 }; \
        type **all; \
        size_t n; \
        arg_i64(&args, id); \
        if (!reader_ask(postgres_reader_of(reader), statement, &args, &result, err) || !rows(result, arena, &all, \
            &n, err)) \
            return false; \
        *out = n ? all[0] : NULL; \
        return true; \
    }
READ_ONE(read_lane_of, pg_rows_lanes, PG_lane_get, struct lane)
READ_ONE(read_slot, pg_rows_slots, PG_slot_get, struct slot)
READ_ONE(read_executor, pg_rows_executors, PG_executor_get, struct executor)
READ_ONE(read_class, pg_rows_classes, PG_class_get, struct task_class)

static bool read_site(struct reader *reader, struct arena *arena, struct site_key **out, size_t *out_n, struct err *err)
{
    PGresult *result;
    return reader_ask(postgres_reader_of(reader), PG_site, NULL, &result, err) &&
           pg_rows_site(result, arena, out, out_n, err);
}

static bool read_servers(
    struct reader *reader, struct arena *arena, struct server_row **out, size_t *out_n, struct err *err)
{
    PGresult *result;
    return reader_ask(postgres_reader_of(reader), PG_servers, NULL, &result, err) &&
           pg_rows_servers(result, arena, out, out_n, err);
}

static bool read_head(struct reader *reader, struct store_head *out, struct err *err)
{
    PGresult *result;
    return reader_ask(postgres_reader_of(reader), PG_head_get, NULL, &result, err) &&
           pg_row_head(result, out, NULL, err);
}

static bool read_grant(struct reader *reader, int64_t task, int64_t *out_grant, enum task_state *out_state,
    bool *out_found, struct err *err)
{
    struct task row;
    if (!rest_read(postgres_reader_of(reader), task, &row, out_found, err))
        return false;
    if (*out_found) {
        *out_grant = row.grant;
        *out_state = row.state;
    }
    return true;
}

static bool read_grant_owner(
    struct reader *reader, int64_t task, int64_t grant, int64_t *out_owner, bool *out_found, struct err *err)
{
    struct pg_args args = { 0 };
    PGresult *result;
    arg_i64(&args, task);
    arg_i64(&args, grant);
    if (!reader_ask(postgres_reader_of(reader), PG_grant_owner, &args, &result, err))
        return false;
    struct cells c = cells_of(result, 0);
    *out_found = PQntuples(result) > 0;
    if (*out_found)
        *out_owner = next_i64(&c);
    return true;
}

static bool read_log_tail(struct reader *reader, struct arena *arena, int64_t task, int64_t grant, struct log_tail *out,
    bool *out_found, struct err *err)
{
    struct pg_args args = { 0 };
    PGresult *result;
    arg_i64(&args, task);
    arg_i64(&args, grant);
    return reader_ask(postgres_reader_of(reader), PG_log_tail_get, &args, &result, err) &&
           pg_rows_get_log_tail(result, arena, out, out_found, err);
}

const struct reader_ops postgres_reader_ops = {
    .close = close_reader,
    .present = read_present,
    .there = read_there,
    .limit = read_limit,
    .held_until = pg_held_until,
    .task = read_task,
    .row = read_row,
    .spec = read_spec,
    .spec_slots = read_spec_slots,
    .spec_class = read_spec_class,
    .tasks = postgres_read_tasks,
    .find = read_find,
    .edges = read_edges,
    .holds = read_holds,
    .hold_users = read_hold_users,
    .events = read_events,
    .task_events = read_task_events,
    .lanes = read_lanes,
    .lane_of = read_lane_of,
    .slot = read_slot,
    .executor = read_executor,
    .class_ = read_class,
    .slots = read_slots,
    .executors = read_executors,
    .classes = read_classes,
    .tokens = read_tokens,
    .site = read_site,
    .servers = read_servers,
    .head = read_head,
    .grant = read_grant,
    .grant_owner = read_grant_owner,
    .log_tail = read_log_tail,
    .archives = postgres_read_archives,
    .archives_page = postgres_read_archives_page,
    .lane = postgres_read_lane,
    .archive = postgres_read_archive,
    .revision = postgres_read_revision,
    .revisions = postgres_read_revisions,
    .revision_of_ident = postgres_read_revision_of_ident,
    .schedules = postgres_read_schedules,
};
