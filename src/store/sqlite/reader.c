/* reader: what the api shows, on a read-only connection of its own.
 *
 * Each call is one snapshot and short: a call of several statements is one read transaction; walks that a filter could
 * make long (lists of tasks in tasks.c, events here) stop after a bounded number of steps or STEP_US and say how far
 * they came. */
#include <string.h>

#include "io/clock.h"
#include "store/damage.h"
#include "store/pack.h"
#include "store/sqlite/archives.h"
#include "store/sqlite/reader.h"

struct reader *sqlite_reader_open(const char *dir, struct err *err)
{
    struct sqlite_reader *self = mem_alloc(sizeof *self);
    char path[FILES_PATH_MAX];
    int64_t version;
    *self = (struct sqlite_reader){ .port = { .ops = &sqlite_reader_ops, .step_us = STEP_US } };
    bool ok = path_join(path, dir, "weir.db", err) &&
              (file_exists(path) || err_set(err, ERR_not_found, "there is no store at %s", path));
    ok = ok && db_connect(&self->db, path, SQLITE_OPEN_READONLY, err) && schema_check(&self->db, path, &version, err);
    if (ok && version != SQL_SCHEMA_VERSION)
        ok = err_set(err, ERR_unavailable, "%s has schema %d: start weir serve once to bring it to %d", path,
            (int)version, SQL_SCHEMA_VERSION);
    ok = ok && db_exec(&self->db, SQL_pragma_reader, err) && db_prepare(&self->db, SQL_FOR_READER, err);
    if (!ok) {
        db_close(&self->db);
        mem_free(self);
        return NULL;
    }
    return &self->port;
}

static void close_reader(struct reader *reader)
{
    struct sqlite_reader *self = sqlite_reader_of(reader);
    db_close(&self->db);
    mem_free(self);
}

bool snapshot_begin(struct db *db, struct err *err)
{
    return db_run(db, SQL_begin, err);
}

/* Ends the read transaction; `ok` is passed through, an error on the way out doesn't matter to what was read. */
bool snapshot_end(struct db *db, bool ok)
{
    struct err ignored = { 0 };
    if (!sqlite3_get_autocommit(db->conn))
        (void)db_run(db, SQL_commit, &ignored);
    return ok;
}

bool lane_view(struct db *db, struct arena *arena, int64_t id, struct lane *out, struct err *err)
{
    bool found;
    bind_i64(db->stmts[SQL_lane_get], 1, id);
    if (!rows_get_lane(db, SQL_lane_get, arena, out, &found, err))
        return false;
    if (!found)
        *out = (struct lane){ .id = id };
    return true;
}

static bool executor_name(struct db *db, struct arena *arena, int64_t id, struct str *out, struct err *err)
{
    struct cells c = cells_of(db, SQL_executor_name);
    bind_i64(c.stmt, 1, id);
    enum db_step step = db_next(db, SQL_executor_name, err);
    if (step == DB_ERROR)
        return false;
    *out = step == DB_ROW ? next_text(&c, arena) : (struct str){ 0 };
    db_reset(db, SQL_executor_name);
    return true;
}

static bool view_attempts(struct db *db, struct arena *arena, struct task_view *view, struct err *err)
{
    bind_i64(db->stmts[SQL_attempts_of_task], 1, view->task.id);
    bool ok = rows_attempts(db, SQL_attempts_of_task, arena, &view->attempts, &view->n_attempts, err);
    view->executor_names = ok && view->n_attempts ? ARENA_ARRAY(arena, struct str, view->n_attempts) : NULL;
    for (size_t i = 0; ok && i < view->n_attempts; i++)
        ok = executor_name(db, arena, view->attempts[i].executor, &view->executor_names[i], err);
    return ok;
}

static bool row_edge_view(struct cells *c, struct arena *arena, struct edge_view *out)
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
    return ok;
}

static bool views_of_edges(struct db *db, struct arena *arena, int64_t id, bool by_pred, struct edge_view **out,
    size_t *out_n, struct err *err)
{
    enum sql_id sql = by_pred ? SQL_edge_views_by_pred : SQL_edge_views_by_waiter;
    size_t cap = 0;
    enum db_step step;
    *out = NULL, *out_n = 0;
    bind_i64(db->stmts[sql], 1, id);
    while ((step = db_next(db, sql, err)) == DB_ROW) {
        struct cells c = cells_of(db, sql);
        if (!row_edge_view(&c, arena, ARENA_PUSH(arena, *out, *out_n, cap)))
            return row_damaged(db, sql, "task", err);
    }
    return step == DB_DONE;
}

bool view_fill(struct db *db, struct arena *arena, const struct lane *lane, struct task_view *view, struct err *err)
{
    view->lane_name = lane->name;
    view->tenant = lane->tenant;
    view->lane_kind = lane->kind;
    /* The row says what there is to be read: nothing of all this for a task that just waits in a queue. */
    return (view->task.grant == 0 || view_attempts(db, arena, view, err)) &&
           (view->task.ins == 0 ||
               views_of_edges(db, arena, view->task.id, false, &view->needs, &view->n_needs, err)) &&
           (!(view->task.marks & MARK_OUTPUTS) || rows_outputs(db, arena, view->task.id, &view->outputs, err));
}

static bool task_in_snapshot(
    struct db *db, struct arena *arena, int64_t id, struct task_view *out, bool *out_found, struct err *err)
{
    struct lane lane;
    *out = (struct task_view){ 0 };
    if (!rows_task(db, arena, id, &out->task, out_found, err))
        return false;
    return !*out_found || (lane_view(db, arena, out->task.lane, &lane, err) && view_fill(db, arena, &lane, out, err));
}

static bool read_task(
    struct reader *reader, struct arena *arena, int64_t id, struct task_view *out, bool *out_found, struct err *err)
{
    struct db *db = &sqlite_reader_of(reader)->db;
    return snapshot_begin(db, err) && snapshot_end(db, task_in_snapshot(db, arena, id, out, out_found, err));
}

static bool read_row(
    struct reader *reader, struct arena *arena, int64_t id, struct task *out, bool *out_found, struct err *err)
{
    return rows_task(&sqlite_reader_of(reader)->db, arena, id, out, out_found, err);
}

/* A spec never changes: one statement, no snapshot with the task's row. */
static bool spec_get(
    struct reader *reader, struct arena *arena, int64_t id, struct spec *out, bool *out_found, struct err *err)
{
    struct db *db = &sqlite_reader_of(reader)->db;
    *out = (struct spec){ 0 };
    bind_i64(db->stmts[SQL_spec_get], 1, id);
    return rows_get_spec(db, SQL_spec_get, arena, out, out_found, err);
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

static bool read_edges(struct reader *reader, struct arena *arena, int64_t id, bool by_pred, struct edge_view **out,
    size_t *out_n, struct err *err)
{
    return views_of_edges(&sqlite_reader_of(reader)->db, arena, id, by_pred, out, out_n, err);
}

static bool read_holds(
    struct reader *reader, struct arena *arena, int64_t task, struct hold **out, size_t *out_n, struct err *err)
{
    struct db *db = &sqlite_reader_of(reader)->db;
    bind_i64(db->stmts[SQL_holds_of_task], 1, task);
    return rows_holds(db, SQL_holds_of_task, arena, out, out_n, err);
}

static bool read_hold_users(struct reader *reader, struct arena *arena, enum hold_kind kind, int64_t key, size_t n,
    struct hold **out, size_t *out_n, struct err *err)
{
    struct db *db = &sqlite_reader_of(reader)->db;
    BIND_NUMBERS(db->stmts[SQL_holds_of], kind, key, (int64_t)n);
    return rows_holds(db, SQL_holds_of, arena, out, out_n, err);
}

/* Unpacks the turn that the cells are of. */
static bool turn_unpack(struct cells c, struct arena *arena, struct event **out, size_t *out_n, struct err *err)
{
    int64_t turn = next_i64(&c), first_seq = next_i64(&c), time = next_i64(&c);
    return unpack_events(next_view(&c), first_seq, time, arena, out, out_n) ||
           damage_set(err, "the events of turn %lld can't be read: run weir verify", (long long)turn);
}

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

static bool read_events(struct reader *reader, struct arena *arena, int64_t since, int64_t lane, size_t n,
    struct event **out, size_t *out_n, int64_t *out_last, struct err *err)
{
    struct db *db = &sqlite_reader_of(reader)->db;
    struct event_list list = { .max = n, .since = since, .lane = lane, .last = since };
    int64_t deadline = clock_boot_us() + reader->step_us;
    enum db_step step = DB_DONE;
    bool ok = true;
    bind_i64(db->stmts[SQL_turns_since], 1, since < INT64_MAX ? since + 1 : since);
    while (list.n < n && (step = db_next(db, SQL_turns_since, err)) == DB_ROW) {
        struct event *events;
        size_t n_events;
        if (!(ok = turn_unpack(cells_of(db, SQL_turns_since), arena, &events, &n_events, err)))
            break;
        events_pick(&list, arena, events, n_events);
        if (clock_boot_us() > deadline)
            break;
    }
    db_reset(db, SQL_turns_since);
    *out = list.events, *out_n = list.n, *out_last = list.last;
    return ok && step != DB_ERROR;
}

/* One turn's events of a task, newest first; *turn moves on to the one before. */
static bool task_events_of_turn(
    struct db *db, struct arena *arena, int64_t task, int64_t *turn, struct event_list *list, struct err *err)
{
    struct event *events;
    size_t n;
    int64_t before = 0;
    bind_i64(db->stmts[SQL_turn_get], 1, *turn);
    enum db_step step = db_next(db, SQL_turn_get, err);
    if (step == DB_ERROR)
        return false;
    if (step == DB_DONE)
        return damage_set(err, "turn %lld is missing: run weir verify", (long long)*turn);
    bool ok = turn_unpack(cells_of(db, SQL_turn_get), arena, &events, &n, err);
    db_reset(db, SQL_turn_get);
    if (!ok)
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

static bool task_events_in_snapshot(
    struct db *db, struct arena *arena, int64_t task, struct event_list *list, struct err *err)
{
    struct task row;
    bool found;
    if (!rows_task_rest(db, task, &row, &found, err))
        return false;
    int64_t turn = row.last_turn;
    while (turn > 0 && list->n < list->max)
        if (!task_events_of_turn(db, arena, task, &turn, list, err))
            return false;
    return true;
}

static bool read_task_events(struct reader *reader, struct arena *arena, int64_t task, size_t n, struct event **out,
    size_t *out_n, struct err *err)
{
    struct db *db = &sqlite_reader_of(reader)->db;
    struct event_list list = { .max = n };
    if (!snapshot_begin(db, err) || !snapshot_end(db, task_events_in_snapshot(db, arena, task, &list, err)))
        return false;
    *out = list.events, *out_n = list.n;
    return true;
}

/* A whole table, or a page of it. */
#define READ_PAGED(name, type) \
    static bool read_##name(struct reader *reader, struct arena *arena, const struct list_page *page, type ***out, \
        size_t *out_n, \
        struct err *err) \
    { \
        struct db *db = &sqlite_reader_of(reader)->db; \
        enum sql_id sql = page ? SQL_##name##_page : SQL_##name; \
        if (page) \
            page_bind(db->stmts[sql], page); \
        return rows_##name(db, sql, arena, out, out_n, err); \
    }
static void page_bind(sqlite3_stmt *stmt, const struct list_page *page)
{
    bind_i64(stmt, 1, page->from);
    bind_text(stmt, 2, page->tenant);
    bind_i64(stmt, 3, page->all);
    bind_i64(stmt, 4, (int64_t)page->limit);
}
READ_PAGED(lanes, struct lane)

READ_PAGED(slots, struct slot)

READ_PAGED(executors, struct executor)

static bool read_classes(
    struct reader *reader, struct arena *arena, struct task_class ***out, size_t *out_n, struct err *err)
{
    return rows_classes(&sqlite_reader_of(reader)->db, SQL_classes, arena, out, out_n, err);
}

READ_PAGED(tokens, struct token)

/* One row by its id; NULL: there is none. */
#define READ_ONE(function, rows, statement, type) \
    static bool function(struct reader *reader, struct arena *arena, int64_t id, type **out, struct err *err) \
    { \
        struct db *db = &sqlite_reader_of(reader)->db; \
        type **all; \
        size_t n; \
        bind_i64(db->stmts[statement], 1, id); \
        if (!rows(db, statement, arena, &all, &n, err)) \
            return false; \
        *out = n ? all[0] : NULL; \
        return true; \
    }
READ_ONE(read_lane_of, rows_lanes, SQL_lane_get, struct lane)
READ_ONE(read_slot, rows_slots, SQL_slot_get, struct slot)
READ_ONE(read_executor, rows_executors, SQL_executor_get, struct executor)
READ_ONE(read_class, rows_classes, SQL_class_get, struct task_class)

static bool read_site(struct reader *reader, struct arena *arena, struct site_key **out, size_t *out_n, struct err *err)
{
    return rows_site(&sqlite_reader_of(reader)->db, SQL_site, arena, out, out_n, err);
}

static bool read_head(struct reader *reader, struct store_head *out, struct err *err)
{
    return rows_head(&sqlite_reader_of(reader)->db, out, NULL, err);
}

static bool read_grant(struct reader *reader, int64_t task, int64_t *out_grant, enum task_state *out_state,
    bool *out_found, struct err *err)
{
    struct task row;
    if (!rows_task_rest(&sqlite_reader_of(reader)->db, task, &row, out_found, err))
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
    struct db *db = &sqlite_reader_of(reader)->db;
    struct cells c = cells_of(db, SQL_grant_owner);
    BIND_NUMBERS(c.stmt, task, grant);
    enum db_step step = db_next(db, SQL_grant_owner, err);
    if (step == DB_ERROR)
        return false;
    *out_found = step == DB_ROW;
    if (step == DB_ROW) {
        *out_owner = next_i64(&c);
        db_reset(db, SQL_grant_owner);
    }
    return true;
}

static bool read_log_tail(struct reader *reader, struct arena *arena, int64_t task, int64_t grant, struct log_tail *out,
    bool *out_found, struct err *err)
{
    struct db *db = &sqlite_reader_of(reader)->db;
    BIND_NUMBERS(db->stmts[SQL_log_tail_get], task, grant);
    return rows_get_log_tail(db, SQL_log_tail_get, arena, out, out_found, err);
}

const struct reader_ops sqlite_reader_ops = {
    .close = close_reader,
    .task = read_task,
    .row = read_row,
    .spec = read_spec,
    .spec_slots = read_spec_slots,
    .spec_class = read_spec_class,
    .tasks = sqlite_read_tasks,
    .find = sqlite_read_find,
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
    .head = read_head,
    .grant = read_grant,
    .grant_owner = read_grant_owner,
    .log_tail = read_log_tail,
    .archives = sqlite_read_archives,
    .archives_page = sqlite_read_archives_page,
    .lane = sqlite_read_lane,
    .archive = sqlite_read_archive,
    .revision = sqlite_read_revision,
    .revisions = sqlite_read_revisions,
    .revision_of_ident = sqlite_read_revision_of_ident,
    .schedules = sqlite_read_schedules,
};
