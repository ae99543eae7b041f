/* memstore_twin: a real store (PostgreSQL, SQLite) behind the one in memory. Each turn goes to both; what is read is
 * the real one's answer, and each answer must be the one that memory has. So the checks, which look at memory, hold for
 * the real store; at the end of a history its tables are compared whole. Faults are played on this side of it: the real
 * store sees turns that are given up. */
#include <string.h>

#include "memstore.h"
#include "store/rows.h"

void (*memstore_differs)(const char *what);

static struct memport *port_of(struct store *store)
{
    return (struct memport *)(void *)store;
}

/* --- rows as numbers --- */

static uint64_t mix(uint64_t h, uint64_t value)
{
    h = (h ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return h ^ h >> 29;
}

static uint64_t mix_str(uint64_t h, struct str s)
{
    return s.len ? mix(h, str_hash(s)) : mix(h, 1);
}

#define NUMBERS(h, ...) \
    do { \
        const int64_t numbers_[] = { __VA_ARGS__ }; \
        for (size_t i_ = 0; i_ < sizeof numbers_ / sizeof *numbers_; i_++) (h) = mix((h), (uint64_t)numbers_[i_]); \
    } while (0)

static uint64_t labels_sum(uint64_t h, const struct label *labels, size_t n)
{
    for (size_t i = 0; i < n; i++) h = mix_str(mix_str(h, labels[i].name), labels[i].value);
    return h;
}

static uint64_t ids_sum(uint64_t h, const int64_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++)
        h = mix(h, (uint64_t)ids[i]);
    return mix(h, n);
}

static uint64_t rest_sum(uint64_t h, const struct task *task)
{
    struct buf packed;
    buf_init(&packed, 1 << 20);
    task_pack(&packed, task);
    h = mix_str(h, buf_str(&packed));
    buf_release(&packed);
    return h;
}

#define SUM(column, type, member, role) SUM_##type(member)
#define SUM_number(member) h = mix(h, (uint64_t)row->member);
#define SUM_maybe(member) SUM_number(member)
#define SUM_archive_kind(member) SUM_number(member)
#define SUM_revision_state(member) SUM_number(member)
#define SUM_movetype(member) SUM_number(member)
#define SUM_state(member) SUM_number(member)
#define SUM_outcome(member) SUM_number(member)
#define SUM_text(member) h = mix_str(h, row->member);
#define SUM_bytes(member) h = mix_str(h, (struct str){ (const char *)row->member, sizeof row->member });
#define SUM_hash(member) SUM_bytes(member)
#define SUM_labels(member) h = labels_sum(h, row->member, row->n_##member);
#define SUM_numbers(member) h = ids_sum(h, row->member, row->n_##member);
#define SUM_list(member) SUM_numbers(member)
#define SUM_lock(member) h = ids_sum(mix(h, (uint64_t)row->lock_exclusive), row->member, row->n_##member);
#define SUM_rest(member) h = rest_sum(h, row);
#define SUMMER(table, type) \
    static uint64_t table##_sum(const struct type *row) \
    { \
        uint64_t h = sizeof *row; \
        ROW_##table(SUM) \
        return h; \
    }
SUMMER(task, task)
SUMMER(lane, lane)
SUMMER(class, task_class)
SUMMER(slot, slot)
SUMMER(executor, executor)
SUMMER(archive, archive)
SUMMER(edge, edge)
SUMMER(hold, hold)
SUMMER(spec, spec)
SUMMER(schedule, schedule)
SUMMER(revision, revision)
SUMMER(latest, latest)
SUMMER(changeset, changeset)
SUMMER(changeset_file, changeset_file)
SUMMER(duty, duty)
SUMMER(site, site_key)

static uint64_t attempt_sum(const struct attempt *row)
{
    uint64_t h = 7;
    ROW_attempt(SUM) NUMBERS(h, row->finished ? 0 : row->poll_seq, !row->finished && row->forgotten,
        !row->finished && row->many); /* these while it runs */
    return h;
}

static uint64_t ready_sum(const struct ready_row *r)
{
    uint64_t h = 11;
    NUMBERS(h, r->task, r->prio, r->vt);
    return h;
}

static uint64_t event_sum(const struct event *e)
{
    uint64_t h = 15;
    NUMBERS(h, e->seq, e->time, (int64_t)e->kind, e->task, e->lane, (int64_t)e->from, (int64_t)e->to, e->attempt,
        e->grant, e->cause);
    return mix_str(mix_str(mix_str(h, e->actor), e->reason), e->subject);
}

static uint64_t head_sum(const struct store_head *head)
{
    uint64_t h = 18;
    NUMBERS(h, (int64_t)head->incarnation, head->turn, head->seq, head->next_task, head->next_spec, head->next_lane,
        head->next_class, head->next_slot, head->next_executor, head->next_token, head->v_now, head->commit,
        head->time);
    return h;
}

/* Of rows in any order: the sum; ranked ones go through mix. */
#define SUM_OF(sum, list, n, folder) \
    do { \
        for (size_t k_ = 0; k_ < (n); k_++) (sum) += folder(&(list)[k_]); \
        (sum) = mix((sum), (n)); \
    } while (0)
#define SUM_AT(sum, list, n, folder) \
    do { \
        for (size_t k_ = 0; k_ < (n); k_++) (sum) += folder((list)[k_]); \
        (sum) = mix((sum), (n)); \
    } while (0)
#define SUM_RANKED(sum, list, n, folder) \
    do { \
        for (size_t k_ = 0; k_ < (n); k_++) (sum) = mix((sum), folder(&(list)[k_])); \
    } while (0)

static bool same(uint64_t a, uint64_t b, const char *what)
{
    if (a != b)
        memstore_differs(what);
    return true;
}

/* --- reads --- */

/* LOAD: the real store's answer; memory's into its own variables, which begin with m_. */
#define LOAD(op, real_args, mem_args) \
    struct store *real = port_of(store)->real; \
    struct arena scratch = { 0 }; \
    if (memport_read_fails(store, err) || !real->ops->op real_args) return false; \
    (void)memstore_ops.op mem_args
#define SAID(a, b, what) \
    do { \
        uint64_t real_said = (a), memory_said = (b); \
        arena_release(&scratch); \
        return same(real_said, memory_said, (what)); \
    } while (0)

#define LIST_READ(function, op, type, summing, folder, what) \
    static bool function(struct store *store, struct arena *arena, type **out, size_t *out_n, struct err *err) \
    { \
        type *m_out; \
        size_t m_n; \
        uint64_t a = 0, b = 0; \
        LOAD(op, (real, arena, out, out_n, err), (store, &scratch, &m_out, &m_n, err)); \
        summing(a, *out, *out_n, folder); \
        summing(b, m_out, m_n, folder); \
        SAID(a, b, what); \
    }
LIST_READ(twin_lanes, load_lanes, struct lane *, SUM_AT, lane_sum, "lanes")
LIST_READ(twin_classes, load_classes, struct task_class *, SUM_AT, class_sum, "classes")
LIST_READ(twin_slots, load_slots, struct slot *, SUM_AT, slot_sum, "slots")
LIST_READ(twin_executors, load_executors, struct executor *, SUM_AT, executor_sum, "executors")
LIST_READ(twin_archives, load_archives, struct archive *, SUM_AT, archive_sum, "archives")
LIST_READ(twin_site, load_site, struct site_key, SUM_OF, site_sum, "the site's keys")
LIST_READ(twin_live, load_active_grants, struct attempt, SUM_OF, attempt_sum, "live attempts")
LIST_READ(twin_schedules, load_schedules, struct schedule, SUM_OF, schedule_sum, "schedules")

static bool twin_tokens(struct store *store, struct arena *arena, int64_t after, size_t most, struct token ***out,
    size_t *out_n, struct err *err)
{
    struct store *real = port_of(store)->real;
    return real->ops->load_tokens(real, arena, after, most, out, out_n, err);
}

static bool twin_head(struct store *store, struct store_head *out, struct err *err)
{
    struct store_head head;
    LOAD(load_head, (real, out, err), (store, &head, err));
    SAID(head_sum(out), head_sum(&head), "the head");
}

static bool twin_task(
    struct store *store, struct arena *arena, int64_t id, struct task *out, bool *out_found, struct err *err)
{
    struct task task;
    bool found;
    LOAD(load_task, (real, arena, id, out, out_found, err), (store, &scratch, id, &task, &found, err));
    SAID(*out_found ? task_sum(out) : 0, found ? task_sum(&task) : 0, "a task");
}

static bool twin_edges(struct store *store, struct arena *arena, int64_t id, bool by_pred, struct edge **out,
    size_t *out_n, struct err *err)
{
    struct edge *edges;
    size_t n;
    uint64_t a = 0, b = 0;
    LOAD(load_edges, (real, arena, id, by_pred, out, out_n, err), (store, &scratch, id, by_pred, &edges, &n, err));
    SUM_OF(a, *out, *out_n, edge_sum);
    SUM_OF(b, edges, n, edge_sum);
    SAID(a, b, "edges");
}

static bool twin_others_outs(struct store *store, struct arena *arena, int64_t id, enum edge_kind but,
    struct edge **out, size_t *out_n, struct err *err)
{
    struct edge *edges;
    size_t n;
    uint64_t a = 0, b = 0;
    LOAD(load_others_outs, (real, arena, id, but, out, out_n, err), (store, &scratch, id, but, &edges, &n, err));
    SUM_OF(a, *out, *out_n, edge_sum);
    SUM_OF(b, edges, n, edge_sum);
    SAID(a, b, "edges but of one kind");
}

static bool twin_outs(struct store *store, struct arena *arena, int64_t id, int64_t after, size_t n, struct edge **out,
    size_t *out_n, struct err *err)
{
    struct edge *edges;
    size_t n_edges;
    uint64_t a = 0, b = 0;
    LOAD(load_outs, (real, arena, id, after, n, out, out_n, err),
        (store, &scratch, id, after, n, &edges, &n_edges, err));
    SUM_RANKED(a, *out, *out_n, edge_sum);
    SUM_RANKED(b, edges, n_edges, edge_sum);
    SAID(a, b, "edges behind one");
}

static bool twin_spec(struct store *store, struct arena *arena, int64_t id, struct spec *out, struct err *err)
{
    struct spec spec;
    LOAD(load_spec, (real, arena, id, out, err), (store, &scratch, id, &spec, err));
    SAID(spec_sum(out), spec_sum(&spec), "a spec");
}

static bool twin_attempt(
    struct store *store, int64_t task, int64_t grant, struct attempt *out, bool *out_found, struct err *err)
{
    struct attempt attempt;
    bool found;
    LOAD(load_attempt, (real, task, grant, out, out_found, err), (store, task, grant, &attempt, &found, err));
    SAID(*out_found ? attempt_sum(out) : 0, found ? attempt_sum(&attempt) : 0, "an attempt");
}

static bool twin_outputs(struct store *store, struct arena *arena, int64_t task, struct str *out, struct err *err)
{
    struct str json;
    LOAD(load_outputs, (real, arena, task, out, err), (store, &scratch, task, &json, err));
    SAID(mix_str(0, *out), mix_str(0, json), "outputs");
}

static bool twin_ready(struct store *store, struct arena *arena, int64_t class_id, size_t n, struct ready_row **out,
    size_t *out_n, struct err *err)
{
    struct ready_row *rows;
    size_t n_rows;
    uint64_t a = 0, b = 0;
    LOAD(ready_first, (real, arena, class_id, n, out, out_n, err), (store, &scratch, class_id, n, &rows, &n_rows, err));
    SUM_RANKED(a, *out, *out_n, ready_sum);
    SUM_RANKED(b, rows, n_rows, ready_sum);
    SAID(a, b, "pending tasks in their order");
}

#define HOLDS_READ(function, op) \
    static bool function(struct store *store, struct arena *arena, enum hold_kind kind, int64_t key, size_t n, \
        struct hold **out, \
        size_t *out_n, struct err *err) \
    { \
        struct hold *holds; \
        size_t n_holds; \
        uint64_t a = 0, b = 0; \
        LOAD(op, (real, arena, kind, key, n, out, out_n, err), (store, &scratch, kind, key, n, &holds, &n_holds, \
            err)); \
        SUM_RANKED(a, *out, *out_n, hold_sum); \
        SUM_RANKED(b, holds, n_holds, hold_sum); \
        SAID(a, b, "holds in their order"); \
    }
HOLDS_READ(twin_holds_due, holds_due)
HOLDS_READ(twin_holds_of, holds_of)

static bool twin_holds_after(struct store *store, struct arena *arena, enum hold_kind kind, const struct hold *after,
    size_t n, struct hold **out, size_t *out_n, struct err *err)
{
    struct hold *holds;
    size_t n_holds;
    uint64_t a = 0, b = 0;
    LOAD(holds_after, (real, arena, kind, after, n, out, out_n, err),
        (store, &scratch, kind, after, n, &holds, &n_holds, err));
    SUM_RANKED(a, *out, *out_n, hold_sum);
    SUM_RANKED(b, holds, n_holds, hold_sum);
    SAID(a, b, "holds behind one");
}

static bool twin_holds_of_task(
    struct store *store, struct arena *arena, int64_t task, struct hold **out, size_t *out_n, struct err *err)
{
    struct hold *holds;
    size_t n;
    uint64_t a = 0, b = 0;
    LOAD(holds_of_task, (real, arena, task, out, out_n, err), (store, &scratch, task, &holds, &n, err));
    SUM_OF(a, *out, *out_n, hold_sum);
    SUM_OF(b, holds, n, hold_sum);
    SAID(a, b, "holds of a task");
}

static bool twin_unique(struct store *store, struct str tenant, struct str key, int64_t *out, struct err *err)
{
    int64_t task;
    LOAD(unique_find, (real, tenant, key, out, err), (store, tenant, key, &task, err));
    SAID((uint64_t)*out, (uint64_t)task, "who has a unique key");
}

static bool twin_idempotency(struct store *store, struct arena *arena, struct str tenant, struct str token,
    struct str route, struct str key, struct idempotency *out, bool *out_found, struct err *err)
{
    struct idempotency row = { 0 };
    bool found;
    LOAD(idempotency_find, (real, arena, tenant, token, route, key, out, out_found, err),
        (store, &scratch, tenant, token, route, key, &row, &found, err));
    uint64_t a = *out_found ? ids_sum((uint64_t)out->status, out->ids, out->n_ids) : 0;
    uint64_t b = found ? ids_sum((uint64_t)row.status, row.ids, row.n_ids) : 0;
    SAID(a, b, "what a key was used for");
}

static bool twin_clock(struct store *store, struct wall_known *out, struct err *err)
{
    struct wall_known known;
    uint64_t a = 13, b = 13;
    LOAD(load_clock, (real, out, err), (store, &known, err));
    NUMBERS(a, out->time, out->ran, out->seen);
    NUMBERS(b, known.time, known.ran, known.seen);
    SAID(a, b, "the clock");
}

static bool twin_expire(struct store *store, int64_t now, size_t n_max, struct err *err)
{
    (void)store, (void)now, (void)n_max, (void)err; /* memory keeps them */
    return true;
}

static bool twin_revision(struct store *store, struct arena *arena, int64_t lane, int64_t rev, struct revision *out,
    bool *out_found, struct err *err)
{
    struct revision row;
    bool found;
    LOAD(load_revision, (real, arena, lane, rev, out, out_found, err), (store, &scratch, lane, rev, &row, &found, err));
    SAID(*out_found ? revision_sum(out) : 0, found ? revision_sum(&row) : 0, "a revision");
}

static bool twin_revision_of_ident(
    struct store *store, int64_t lane, struct str ident, int64_t *out_rev, struct err *err)
{
    int64_t rev;
    LOAD(revision_of_ident, (real, lane, ident, out_rev, err), (store, lane, ident, &rev, err));
    SAID((uint64_t)*out_rev, (uint64_t)rev, "the revision of a commit");
}

static bool twin_latest(struct store *store, struct arena *arena, int64_t lane, struct str name, struct str variant,
    struct latest *out, bool *out_found, struct err *err)
{
    struct latest row;
    bool found;
    LOAD(latest_find, (real, arena, lane, name, variant, out, out_found, err),
        (store, &scratch, lane, name, variant, &row, &found, err));
    SAID(*out_found ? latest_sum(out) : 0, found ? latest_sum(&row) : 0, "the newest task of a name");
}

static bool twin_changeset(
    struct store *store, struct arena *arena, int64_t task, struct changeset *out, bool *out_found, struct err *err)
{
    struct changeset row;
    bool found;
    LOAD(load_changeset, (real, arena, task, out, out_found, err), (store, &scratch, task, &row, &found, err));
    SAID(*out_found ? changeset_sum(out) : 0, found ? changeset_sum(&row) : 0, "a change set");
}

static bool twin_changeset_find(
    struct store *store, struct str tenant, struct str csid, int64_t *out_task, struct err *err)
{
    int64_t task;
    LOAD(changeset_find, (real, tenant, csid, out_task, err), (store, tenant, csid, &task, err));
    SAID((uint64_t)*out_task, (uint64_t)task, "the change set of a CSID");
}

static bool twin_changeset_of_hash(
    struct store *store, struct str tenant, const uint8_t hash[32], int64_t *out_task, struct err *err)
{
    int64_t task;
    LOAD(changeset_of_hash, (real, tenant, hash, out_task, err), (store, tenant, hash, &task, err));
    SAID((uint64_t)*out_task, (uint64_t)task, "the change set of a content");
}

static bool twin_changeset_file_near(struct store *store, struct arena *arena, int64_t lane, bool applied,
    struct str path, int64_t rank, bool after, struct changeset_file *out, bool *out_found, struct err *err)
{
    struct changeset_file row;
    bool found;
    LOAD(changeset_file_near, (real, arena, lane, applied, path, rank, after, out, out_found, err),
        (store, &scratch, lane, applied, path, rank, after, &row, &found, err));
    SAID(*out_found ? changeset_file_sum(out) : 0, found ? changeset_file_sum(&row) : 0, "the nearest row of a path");
}

static bool twin_task_upto(struct store *store, int64_t lane, struct str name, struct str variant, int64_t upto,
    int64_t *out_task, int64_t *out_rev, struct err *err)
{
    int64_t task, rev;
    LOAD(task_upto, (real, lane, name, variant, upto, out_task, out_rev, err),
        (store, lane, name, variant, upto, &task, &rev, err));
    SAID((uint64_t)*out_task, (uint64_t)task, "what PREV means");
}

static bool twin_task_find(struct store *store, int64_t lane, int64_t rev, struct str name, struct str variant,
    int64_t run, int64_t *out_task, int64_t *out_run, struct err *err)
{
    int64_t task, m_run;
    LOAD(task_find, (real, lane, rev, name, variant, run, out_task, out_run, err),
        (store, lane, rev, name, variant, run, &task, &m_run, err));
    SAID((uint64_t)*out_task, (uint64_t)task, "a task by its key");
}

#define IDS_READ(function, op, what) \
    static bool function( \
        struct store *store, struct arena *arena, int64_t from, size_t n, int64_t **out, size_t *out_n, \
            struct err *err) \
    { \
        int64_t *ids; \
        size_t n_ids; \
        LOAD(op, (real, arena, from, n, out, out_n, err), (store, &scratch, from, n, &ids, &n_ids, err)); \
        uint64_t a = ids_sum(0, *out, *out_n), b = ids_sum(0, ids, n_ids); \
        SAID(a, b, what); \
    }
IDS_READ(twin_tasks_after, tasks_after, "tasks in their order")

static uint64_t id_sum(const int64_t *id)
{
    return mix(19, (uint64_t)*id);
}

/* Any of them, when there are more. */
static bool twin_tasks_open(
    struct store *store, struct arena *arena, int64_t lane, size_t n, int64_t **out, size_t *out_n, struct err *err)
{
    int64_t *ids;
    size_t n_ids;
    uint64_t a = 0, b = 0;
    LOAD(tasks_open, (real, arena, lane, n, out, out_n, err), (store, &scratch, lane, n, &ids, &n_ids, err));
    if (*out_n < n)
        SUM_OF(a, *out, *out_n, id_sum);
    if (*out_n < n)
        SUM_OF(b, ids, n_ids, id_sum);
    SAID(mix(a, *out_n), mix(b, n_ids), "tasks that haven't ended");
}

static bool twin_changesets_open(
    struct store *store, struct arena *arena, int64_t lane, size_t n, int64_t **out, size_t *out_n, struct err *err)
{
    int64_t *ids;
    size_t n_ids;
    uint64_t a = 0, b = 0;
    LOAD(changesets_open, (real, arena, lane, n, out, out_n, err), (store, &scratch, lane, n, &ids, &n_ids, err));
    if (*out_n < n)
        SUM_OF(a, *out, *out_n, id_sum);
    if (*out_n < n)
        SUM_OF(b, ids, n_ids, id_sum);
    SAID(mix(a, *out_n), mix(b, n_ids), "change sets that haven't ended");
}

static uint64_t others_sum(const struct others *o)
{
    uint64_t h = 0;
    SUM_AT(h, o->lanes, o->n_lanes, lane_sum);
    SUM_AT(h, o->classes, o->n_classes, class_sum);
    SUM_AT(h, o->slots, o->n_slots, slot_sum);
    SUM_AT(h, o->executors, o->n_executors, executor_sum);
    SUM_AT(h, o->archives, o->n_archives, archive_sum);
    SUM_OF(h, o->duties, o->n_duties, duty_sum);
    SUM_RANKED(h, o->events, o->n_events, event_sum);
    return mix(h, (uint64_t)o->next_time);
}

static bool twin_others(
    struct store *store, struct arena *arena, const struct store_head *since, struct others *out, struct err *err)
{
    struct others others;
    struct store *real = port_of(store)->real;
    struct arena scratch = { 0 };
    if (!memport_others(store, &scratch, since, &others, err) ||
        !real->ops->shared->load_others(real, arena, since, out, err)) {
        arena_release(&scratch);
        return false;
    }
    uint64_t a = others_sum(out), b = others_sum(&others);
    out->too_far = others.too_far; /* it is sooner here */
    arena_release(&scratch);
    return others.too_far || same(a, b, "what the others did");
}

static bool twin_expect(struct store *store, const struct turn_needs *needs, struct err *err)
{
    struct store *real = port_of(store)->real;
    return real->ops->shared->expect(real, needs, err);
}

void memport_twin(struct memport *port, struct store *real)
{
    static struct store_shared_ops shared;
    static struct store_ops ops;
    ops = *port->store.ops;
    ops.load_head = twin_head;
    ops.load_lanes = twin_lanes;
    ops.load_classes = twin_classes;
    ops.load_slots = twin_slots;
    ops.load_executors = twin_executors;
    ops.load_tokens = twin_tokens;
    ops.load_site = twin_site;
    ops.load_clock = twin_clock;
    ops.load_active_grants = twin_live;
    ops.load_task = twin_task;
    ops.load_edges = twin_edges;
    ops.load_outs = twin_outs;
    ops.load_others_outs = twin_others_outs;
    ops.load_spec = twin_spec;
    ops.load_attempt = twin_attempt;
    ops.load_outputs = twin_outputs;
    ops.ready_first = twin_ready;
    ops.holds_due = twin_holds_due;
    ops.holds_of = twin_holds_of;
    ops.holds_after = twin_holds_after;
    ops.holds_of_task = twin_holds_of_task;
    ops.unique_find = twin_unique;
    ops.idempotency_find = twin_idempotency;
    ops.idempotency_expire = twin_expire;
    ops.load_archives = twin_archives;
    ops.load_schedules = twin_schedules;
    ops.load_revision = twin_revision;
    ops.revision_of_ident = twin_revision_of_ident;
    ops.latest_find = twin_latest;
    ops.task_upto = twin_task_upto;
    ops.task_find = twin_task_find;
    ops.tasks_open = twin_tasks_open;
    ops.changesets_open = twin_changesets_open;
    ops.tasks_after = twin_tasks_after;
    ops.load_changeset = twin_changeset;
    ops.changeset_find = twin_changeset_find;
    ops.changeset_of_hash = twin_changeset_of_hash;
    ops.changeset_file_near = twin_changeset_file_near;
    shared = *port->store.ops->shared;
    shared.expect = twin_expect;
    shared.load_others = twin_others;
    ops.shared = real->ops->shared ? &shared : NULL;
    port->store.ops = &ops;
    port->store.exclusive = real->exclusive;
    port->real = real;
}

static bool changesets_compare(struct memport *port, struct arena *arena, struct err *err)
{
    struct store *store = &port->store;
    struct changeset changeset;
    struct changeset_file near;
    int64_t task;
    bool found, ok = true;
    MAP_EACH (&port->rows->changesets, e) {
        const struct changeset *row = e->value;
        ok = ok && store->ops->load_changeset(store, arena, row->task, &changeset, &found, err) &&
             store->ops->changeset_find(store, row->tenant, row->csid, &task, err) &&
             store->ops->changeset_of_hash(store, row->tenant, row->hash, &task, err);
    }
    for (size_t i = 0; i < port->rows->n_changeset_files; i++) {
        const struct changeset_file *f = &port->rows->changeset_files[i];
        for (int64_t beside = -1; beside <= 1; beside++) /* the row itself from both sides, and its neighbours */
            for (int after = 0; after <= 1; after++)
                ok = ok && store->ops->changeset_file_near(
                               store, arena, f->lane, f->applied, f->path, f->rank + beside, after, &near, &found, err);
    }
    return ok;
}

/* All that can be asked for, once more. */
bool memport_compare(struct memport *port, struct err *err)
{
    struct store *store = &port->store;
    struct arena arena = { 0 };
    struct store_head head;
    struct lane **lanes;
    struct slot **slots;
    struct task_class **classes;
    struct executor **executors;
    struct archive **archives;
    struct schedule *schedules;
    struct attempt *live, attempt;
    struct task task;
    struct edge *edges;
    struct hold *holds;
    size_t n;
    bool found, ok = store->ops->begin(store, err) && store->ops->load_head(store, &head, err) &&
                     store->ops->load_lanes(store, &arena, &lanes, &n, err) &&
                     store->ops->load_slots(store, &arena, &slots, &n, err) &&
                     store->ops->load_classes(store, &arena, &classes, &n, err) &&
                     store->ops->load_executors(store, &arena, &executors, &n, err) &&
                     store->ops->load_archives(store, &arena, &archives, &n, err) &&
                     store->ops->load_schedules(store, &arena, &schedules, &n, err) &&
                     store->ops->load_active_grants(store, &arena, &live, &n, err);
    MAP_EACH (&port->rows->tasks, t) {
        int64_t id = (int64_t)t->key;
        ok = ok && store->ops->load_task(store, &arena, id, &task, &found, err) &&
             store->ops->load_edges(store, &arena, id, true, &edges, &n, err) &&
             store->ops->load_edges(store, &arena, id, false, &edges, &n, err) &&
             store->ops->holds_of_task(store, &arena, id, &holds, &n, err);
    }
    for (size_t i = 0; i < port->rows->n_attempts; i++)
        ok = ok && store->ops->load_attempt(
                       store, port->rows->attempts[i].task, port->rows->attempts[i].grant, &attempt, &found, err);
    ok = ok && changesets_compare(port, &arena, err);
    store->ops->rollback(store);
    arena_release(&arena);
    return ok;
}
