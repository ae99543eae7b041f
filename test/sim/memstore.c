#include "memstore.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "store/row_copy.h"

/* --- copies --- */

#define COPIER(function, table, type) \
    struct type *function(struct arena *arena, const struct type *row) \
    { \
        struct type *copy = ARENA_NEW(arena, struct type); \
        *copy = *row; \
        row_copy_##table(arena, copy); \
        return copy; \
    }
static COPIER(task_copy, task, task) COPIER(lane_copy, lane, lane) COPIER(class_copy, class, task_class)
    COPIER(executor_dup, executor, executor) static COPIER(spec_copy, spec, spec) COPIER(slot_copy, slot, slot)
        COPIER(archive_copy, archive, archive) static COPIER(token_copy, token, token) static COPIER(
            idempotency_copy, idempotency, idempotency)

            static struct memstore *mem(struct store *store)
{
    return ((struct memport *)(void *)store)->rows;
}

/* --- sorted vectors --- */

#define ORDER(a, b) \
    if ((a) != (b)) \
    return (a) < (b) ? -1 : 1

static int hold_compare(const struct hold *a, const struct hold *b)
{
    ORDER((int)a->kind, (int)b->kind);
    ORDER(a->key, b->key);
    ORDER(a->rank, b->rank);
    ORDER(a->task, b->task);
    return 0;
}

static int ready_compare(const struct ready *a, const struct ready *b)
{
    ORDER(a->class_id, b->class_id);
    ORDER(b->prio, a->prio);
    ORDER(a->vt, b->vt);
    ORDER(a->task, b->task);
    return 0;
}

static void hold_insert(struct memstore *m, const struct hold *hold)
{
    struct hold *last = ARENA_PUSH(&m->arena, m->holds, m->n_holds, m->cap_holds);
    for (; last > m->holds && hold_compare(hold, last - 1) < 0; last--)
        *last = *(last - 1);
    ASSERT(last == m->holds || hold_compare(hold, last - 1) != 0);
    *last = *hold;
}

static void hold_delete(struct memstore *m, const struct hold *hold)
{
    size_t i = 0;
    while (i < m->n_holds && hold_compare(&m->holds[i], hold) != 0)
        i++;
    ASSERT(i < m->n_holds);
    memmove(&m->holds[i], &m->holds[i + 1], (--m->n_holds - i) * sizeof *m->holds);
}

static void ready_insert(struct memstore *m, const struct task *task)
{
    struct ready row = { task->class_id, task->prio, task->vt, task->id };
    struct ready *last = ARENA_PUSH(&m->arena, m->ready, m->n_ready, m->cap_ready);
    for (; last > m->ready && ready_compare(&row, last - 1) < 0; last--)
        *last = *(last - 1);
    *last = row;
}

static void ready_delete(struct memstore *m, const struct task *task)
{
    struct ready row = { task->class_id, task->prio, task->vt, task->id };
    size_t i = 0;
    while (i < m->n_ready && ready_compare(&m->ready[i], &row) != 0)
        i++;
    ASSERT(i < m->n_ready);
    memmove(&m->ready[i], &m->ready[i + 1], (--m->n_ready - i) * sizeof *m->ready);
}

/* --- commit --- */

static void edge_put(struct memstore *m, struct map *map, int64_t id, const struct edge *edge)
{
    struct edges *edges = map_find(map, (uint64_t)id);
    if (!edges)
        map_put(map, (uint64_t)id, edges = ARENA_NEW(&m->arena, struct edges));
    *ARENA_PUSH(&m->arena, edges->edges, edges->n, edges->cap) = *edge;
}

static void edge_flag(struct map *map, int64_t id, const struct edge *edge)
{
    struct edges *edges = map_find(map, (uint64_t)id);
    ASSERT(edges);
    for (size_t i = 0; i < edges->n; i++)
        if (edges->edges[i].waiter == edge->waiter && edges->edges[i].pred == edge->pred &&
            edges->edges[i].kind == edge->kind)
            edges->edges[i].flags = edge->flags;
}

static struct attempt *attempt_at(struct memstore *m, int64_t task, int64_t grant)
{
    for (size_t i = m->n_attempts; i-- > 0;)
        if (m->attempts[i].task == task && m->attempts[i].grant == grant)
            return &m->attempts[i];
    return NULL;
}

static struct str unique_text(struct memstore *m, const struct unique_claim *claim)
{
    return str_fmt(&m->arena, "%.*s/%.*s", STR_ARG(claim->tenant), STR_ARG(claim->key));
}

int64_t memstore_unique(struct memstore *m, struct str tenant, struct str key)
{
    const int64_t *id = smap_find(&m->uniques, unique_text(m, &(struct unique_claim){ tenant, key, 0 }));
    return id ? *id : 0;
}

static struct str idempotency_text(struct memstore *m, const struct idempotency *row)
{
    return str_fmt(&m->arena, "%.*s/%.*s/%.*s/%.*s", STR_ARG(row->tenant), STR_ARG(row->token), STR_ARG(row->route),
        STR_ARG(row->key));
}

const struct idempotency *memstore_idempotency(struct memstore *m, const struct idempotency *key)
{
    return smap_find(&m->idempotency, idempotency_text(m, key));
}

static void small_apply(struct memstore *m, const struct changes *c)
{
    for (size_t i = 0; i < c->lanes.n; i++)
        map_put(&m->lanes, (uint64_t)c->lanes.at[i]->id + 1, lane_copy(&m->arena, c->lanes.at[i]));
    for (size_t i = 0; i < c->classes.n; i++)
        map_put(&m->classes, (uint64_t)c->classes.at[i]->id, class_copy(&m->arena, c->classes.at[i]));
    for (size_t i = 0; i < c->classes_remove.n; i++)
        map_take(&m->classes, (uint64_t)c->classes_remove.at[i]);
    for (size_t i = 0; i < c->specs.n; i++)
        map_put(&m->specs, (uint64_t)c->specs.at[i]->id, spec_copy(&m->arena, c->specs.at[i]));
    for (size_t i = 0; i < c->slots.n; i++)
        map_put(&m->slots, (uint64_t)c->slots.at[i]->id, slot_copy(&m->arena, c->slots.at[i]));
    for (size_t i = 0; i < c->slots_remove.n; i++)
        map_take(&m->slots, (uint64_t)c->slots_remove.at[i]);
    for (size_t i = 0; i < c->executors.n; i++)
        map_put(&m->executors, (uint64_t)c->executors.at[i]->id, executor_dup(&m->arena, c->executors.at[i]));
    for (size_t i = 0; i < c->executors_remove.n; i++)
        map_take(&m->executors, (uint64_t)c->executors_remove.at[i]);
    for (size_t i = 0; i < c->tokens.n; i++)
        map_put(&m->tokens, (uint64_t)c->tokens.at[i]->id, token_copy(&m->arena, c->tokens.at[i]));
    for (size_t i = 0; i < c->tokens_remove.n; i++)
        map_take(&m->tokens, (uint64_t)c->tokens_remove.at[i]);
    for (size_t i = 0; i < c->unique_remove.n; i++)
        smap_take(&m->uniques, unique_text(m, &c->unique_remove.at[i]));
    for (size_t i = 0; i < c->unique_add.n; i++) {
        int64_t *id = ARENA_NEW(&m->arena, int64_t);
        *id = c->unique_add.at[i].task;
        ASSERT(!smap_find(&m->uniques, unique_text(m, &c->unique_add.at[i])));
        smap_put(&m->uniques, unique_text(m, &c->unique_add.at[i]), id);
    }
    for (size_t i = 0; i < c->idempotency.n; i++)
        smap_put(&m->idempotency, idempotency_text(m, &c->idempotency.at[i]),
            idempotency_copy(&m->arena, &c->idempotency.at[i]));
}

static void site_apply(struct memstore *m, const struct changes *c)
{
    for (size_t i = 0; i < c->site.n; i++) {
        size_t k = 0;
        while (k < m->n_site && !str_eq(m->site[k].name, c->site.at[i].name))
            k++;
        ASSERT(k < sizeof m->site / sizeof *m->site);
        if (k == m->n_site)
            m->n_site++;
        m->site[k] = c->site.at[i];
        row_copy_site(&m->arena, &m->site[k]);
    }
}

static bool mem_clock(struct store *store, struct wall_known *out, struct err *err)
{
    (void)err;
    *out = mem(store)->clock;
    return true;
}

static bool mem_site(struct store *store, struct arena *arena, struct site_key **out, size_t *out_n, struct err *err)
{
    struct memstore *m = mem(store);
    (void)err;
    *out = ARENA_ARRAY(arena, struct site_key, m->n_site + 1);
    *out_n = m->n_site;
    for (size_t i = 0; i < m->n_site; i++)
        (*out)[i] = m->site[i];
    return true;
}

static void work_apply(struct memstore *m, const struct changes *c)
{
    for (size_t i = 0; i < c->tasks_new.n; i++) {
        ASSERT(!map_find(&m->tasks, (uint64_t)c->tasks_new.at[i]->id));
        map_put(&m->tasks, (uint64_t)c->tasks_new.at[i]->id, task_copy(&m->arena, c->tasks_new.at[i]));
    }
    for (size_t i = 0; i < c->tasks_changed.n; i++) {
        ASSERT(map_find(&m->tasks, (uint64_t)c->tasks_changed.at[i]->id));
        map_put(&m->tasks, (uint64_t)c->tasks_changed.at[i]->id, task_copy(&m->arena, c->tasks_changed.at[i]));
    }
    for (size_t i = 0; i < c->ready_remove.n; i++)
        ready_delete(m, c->ready_remove.at[i]);
    for (size_t i = 0; i < c->ready_add.n; i++)
        ready_insert(m, c->ready_add.at[i]);
    for (size_t i = 0; i < c->edges_new.n; i++) {
        edge_put(m, &m->outs, c->edges_new.at[i].pred, &c->edges_new.at[i]);
        edge_put(m, &m->ins, c->edges_new.at[i].waiter, &c->edges_new.at[i]);
    }
    for (size_t i = 0; i < c->edges_changed.n; i++) {
        edge_flag(&m->outs, c->edges_changed.at[i].pred, &c->edges_changed.at[i]);
        edge_flag(&m->ins, c->edges_changed.at[i].waiter, &c->edges_changed.at[i]);
    }
    for (size_t i = 0; i < c->holds_remove.n; i++)
        hold_delete(m, &c->holds_remove.at[i]);
    for (size_t i = 0; i < c->holds_add.n; i++)
        hold_insert(m, &c->holds_add.at[i]);
    for (size_t i = 0; i < c->attempts_new.n; i++) {
        struct attempt *attempt = ARENA_PUSH(&m->arena, m->attempts, m->n_attempts, m->cap_attempts);
        *attempt = c->attempts_new.at[i];
        attempt->many &= attempt->finished == 0;
    }
    for (size_t i = 0; i < c->attempts_changed.n; i++) {
        struct attempt *attempt = attempt_at(m, c->attempts_changed.at[i].task, c->attempts_changed.at[i].grant);
        ASSERT(attempt && c->attempts_changed.at[i].many == attempt->many); /* a store finds it by that */
        *attempt = c->attempts_changed.at[i];
        attempt->many &= attempt->finished == 0;
    }
    for (size_t i = 0; i < c->attempts_remove.n; i++) {
        struct attempt *attempt = attempt_at(m, c->attempts_remove.at[i].task, c->attempts_remove.at[i].grant);
        ASSERT(attempt && c->attempts_remove.at[i].many == attempt->many);
        *attempt = m->attempts[--m->n_attempts];
    }
    for (size_t i = 0; i < c->results_remove.n; i++)
        (void)map_take(&m->outputs, (uint64_t)c->results_remove.at[i]);
    for (size_t i = 0; i < c->outputs.n; i++) {
        struct str *json = ARENA_NEW(&m->arena, struct str);
        *json = str_dup(&m->arena, c->outputs.at[i].json);
        map_put(&m->outputs, (uint64_t)c->outputs.at[i].task, json);
    }
}

void memstore_apply(struct memstore *m, const struct changes *c)
{
    small_apply(m, c);
    site_apply(m, c);
    if (c->clock)
        m->clock = *c->clock;
    work_apply(m, c);
    archives_apply(m, c);
    changesets_apply(m, c);
    if (c->history.events.len) {
        ASSERT(c->history.first_seq == m->head.seq + 1 && c->history.turn <= c->head.turn);
        for (size_t i = 0; i < m->n_turns; i++)
            ASSERT(m->turns[i].turn != c->history.turn);
        *ARENA_PUSH(&m->arena, m->turns, m->n_turns, m->cap_turns) = (struct turn_row){ c->history.turn,
            c->history.first_seq, c->history.time, str_dup(&m->arena, c->history.events) };
    }
    m->head = c->head;
}

static bool mem_commit(struct store *store, const struct changes *c, struct err *err)
{
    struct memport *port = (struct memport *)(void *)store;
    enum mem_fault fault = port->fault;
    port->fault = MEM_OK;
    if (fault == MEM_FULL)
        return err_set(err, ERR_disk_full, "simulated");
    if (fault == MEM_UNKNOWN_LOST)
        return err_set(err, ERR_outcome_unknown, "simulated");
    memstore_apply(port->rows, c);
    return fault == MEM_UNKNOWN_KEPT ? err_set(err, ERR_outcome_unknown, "simulated") : true;
}

/* --- loads --- */

static void mem_close(struct store *store)
{
    (void)store;
}
static bool mem_begin(struct store *store, struct err *err)
{
    (void)store, (void)err;
    return true;
}
static void mem_rollback(struct store *store)
{
    (void)store;
}

static bool mem_head(struct store *store, struct store_head *out, struct err *err)
{
    (void)err;
    *out = mem(store)->head;
    return true;
}

#define LOAD_ALL(function, type, member, copier) \
    static bool function(struct store *store, struct arena *arena, type ***out, size_t *out_n, struct err *err) \
    { \
        struct map *map = &mem(store)->member; \
        (void)err; \
        *out = ARENA_ARRAY(arena, type *, map->n + 1); \
        *out_n = 0; \
        MAP_EACH(map, e) (*out)[(*out_n)++] = copier(arena, e->value); \
        return true; \
    }
LOAD_ALL(mem_lanes, struct lane, lanes, lane_copy)
LOAD_ALL(mem_classes, struct task_class, classes, class_copy)
LOAD_ALL(mem_slots, struct slot, slots, slot_copy)
LOAD_ALL(mem_executors, struct executor, executors, executor_dup)

static bool mem_tokens(struct store *store, struct arena *arena, int64_t after, size_t most, struct token ***out,
    size_t *out_n, struct err *err)
{
    struct map *map = &mem(store)->tokens;
    (void)err;
    *out = ARENA_ARRAY(arena, struct token *, map->n + 1);
    *out_n = 0;
    MAP_EACH (map, e)
        if ((int64_t)e->key > after && *out_n < most)
            (*out)[(*out_n)++] = e->value;
    return true;
}

static bool mem_live(struct store *store, struct arena *arena, struct attempt **out, size_t *out_n, struct err *err)
{
    struct memstore *m = mem(store);
    size_t cap = 0;
    (void)err;
    *out = NULL;
    *out_n = 0;
    for (size_t i = 0; i < m->n_attempts; i++)
        if (!m->attempts[i].finished)
            *ARENA_PUSH(arena, *out, *out_n, cap) = m->attempts[i];
    return true;
}

static bool mem_task(
    struct store *store, struct arena *arena, int64_t id, struct task *out, bool *out_found, struct err *err)
{
    const struct task *task = map_find(&mem(store)->tasks, (uint64_t)id);
    (void)err;
    *out_found = task != NULL;
    if (task)
        *out = *task_copy(arena, task);
    return true;
}

static bool mem_edges(struct store *store, struct arena *arena, int64_t id, bool by_pred, struct edge **out,
    size_t *out_n, struct err *err)
{
    struct memstore *m = mem(store);
    const struct edges *edges = map_find(by_pred ? &m->outs : &m->ins, (uint64_t)id);
    (void)err;
    *out_n = edges ? edges->n : 0;
    *out = ARENA_ARRAY(arena, struct edge, *out_n + 1);
    if (edges)
        memcpy(*out, edges->edges, edges->n * sizeof **out);
    return true;
}

static int by_waiter(const void *a, const void *b)
{
    const struct edge *x = a, *y = b;
    if (x->waiter != y->waiter)
        return x->waiter < y->waiter ? -1 : 1;
    return (x->kind > y->kind) - (x->kind < y->kind);
}

static bool mem_outs(struct store *store, struct arena *arena, int64_t id, int64_t after, size_t n, struct edge **out,
    size_t *out_n, struct err *err)
{
    struct edge *all;
    size_t n_all, from = 0;
    if (!mem_edges(store, arena, id, true, &all, &n_all, err))
        return false;
    qsort(all, n_all, sizeof *all, by_waiter);
    while (from < n_all && all[from].waiter <= after)
        from++;
    *out = all + from;
    *out_n = n_all - from < n ? n_all - from : n;
    return true;
}

static bool mem_others_outs(struct store *store, struct arena *arena, int64_t id, enum edge_kind but, struct edge **out,
    size_t *out_n, struct err *err)
{
    size_t n_all, n = 0;
    if (!mem_edges(store, arena, id, true, out, &n_all, err))
        return false;
    for (size_t i = 0; i < n_all; i++)
        if ((*out)[i].kind != but)
            (*out)[n++] = (*out)[i];
    *out_n = n;
    return true;
}

static bool mem_spec(struct store *store, struct arena *arena, int64_t id, struct spec *out, struct err *err)
{
    const struct spec *spec = map_find(&mem(store)->specs, (uint64_t)id);
    if (!spec)
        return err_set(err, ERR_corrupt, "no spec %lld", (long long)id);
    *out = *spec_copy(arena, spec);
    return true;
}

static bool mem_attempt(
    struct store *store, int64_t task, int64_t grant, struct attempt *out, bool *out_found, struct err *err)
{
    const struct attempt *attempt = attempt_at(mem(store), task, grant);
    (void)err;
    *out_found = attempt != NULL;
    if (attempt)
        *out = *attempt;
    return true;
}

static bool mem_outputs(struct store *store, struct arena *arena, int64_t task, struct str *out_json, struct err *err)
{
    const struct str *json = map_find(&mem(store)->outputs, (uint64_t)task);
    (void)err;
    *out_json = json ? str_dup(arena, *json) : (struct str){ 0 };
    return true;
}

static bool mem_ready(struct store *store, struct arena *arena, int64_t class_id, size_t n, struct ready_row **out,
    size_t *out_n, struct err *err)
{
    struct memstore *m = mem(store);
    size_t cap = 0;
    (void)err;
    *out = NULL;
    *out_n = 0;
    for (size_t i = 0; i < m->n_ready && *out_n < n; i++)
        if (m->ready[i].class_id == class_id)
            *ARENA_PUSH(arena, *out, *out_n, cap) =
                (struct ready_row){ m->ready[i].task, m->ready[i].prio, m->ready[i].vt };
    return true;
}

static bool holds_take(struct store *store, struct arena *arena,
    bool (*want)(const struct hold *, enum hold_kind, int64_t), enum hold_kind kind, int64_t key, size_t n,
    struct hold **out, size_t *out_n)
{
    struct memstore *m = mem(store);
    size_t cap = 0;
    *out = NULL;
    *out_n = 0;
    for (size_t i = 0; i < m->n_holds && *out_n < n; i++)
        if (want(&m->holds[i], kind, key))
            *ARENA_PUSH(arena, *out, *out_n, cap) = m->holds[i];
    return true;
}
static bool want_due(const struct hold *h, enum hold_kind kind, int64_t key)
{
    return h->kind == kind && h->key <= key;
}
static bool want_of(const struct hold *h, enum hold_kind kind, int64_t key)
{
    return h->kind == kind && h->key == key;
}
static bool want_task(const struct hold *h, enum hold_kind kind, int64_t key)
{
    (void)kind;
    return h->task == key;
}

static bool mem_holds_due(struct store *store, struct arena *arena, enum hold_kind kind, int64_t key, size_t n,
    struct hold **out, size_t *out_n, struct err *err)
{
    (void)err;
    return holds_take(store, arena, want_due, kind, key, n, out, out_n);
}
static bool mem_holds_of(struct store *store, struct arena *arena, enum hold_kind kind, int64_t key, size_t n,
    struct hold **out, size_t *out_n, struct err *err)
{
    (void)err;
    return holds_take(store, arena, want_of, kind, key, n, out, out_n);
}
/* Holds stand by kind, key, rank, task. */
static bool mem_holds_after(struct store *store, struct arena *arena, enum hold_kind kind, const struct hold *after,
    size_t n, struct hold **out, size_t *out_n, struct err *err)
{
    const struct memstore *m = mem(store);
    size_t cap = 0;
    (void)err;
    *out = NULL;
    *out_n = 0;
    for (size_t i = 0; i < m->n_holds && *out_n < n; i++) {
        const struct hold *h = &m->holds[i];
        bool behind = h->key != after->key     ? h->key > after->key
                      : h->rank != after->rank ? h->rank > after->rank
                                               : h->task > after->task;
        if (h->kind == kind && behind)
            *ARENA_PUSH(arena, *out, *out_n, cap) = *h;
    }
    return true;
}
static bool mem_holds_of_task(
    struct store *store, struct arena *arena, int64_t task, struct hold **out, size_t *out_n, struct err *err)
{
    (void)err;
    return holds_take(store, arena, want_task, HOLD_none, task, SIZE_MAX, out, out_n);
}

static bool mem_unique(struct store *store, struct str tenant, struct str key, int64_t *out_task, struct err *err)
{
    (void)err;
    *out_task = memstore_unique(mem(store), tenant, key);
    return true;
}

static bool mem_idempotency(struct store *store, struct arena *arena, struct str tenant, struct str token,
    struct str route, struct str key, struct idempotency *out, bool *out_found, struct err *err)
{
    const struct idempotency *row = memstore_idempotency(
        mem(store), &(struct idempotency){ .tenant = tenant, .token = token, .route = route, .key = key });
    (void)err, (void)arena;
    *out_found = row != NULL;
    if (row)
        *out = *row;
    return true;
}

static bool mem_expire(struct store *store, int64_t now, size_t n_max, struct err *err)
{
    (void)store, (void)now, (void)n_max, (void)err;
    return true;
}

static int64_t mem_size(struct store *store)
{
    return (int64_t)mem(store)->arena.used_bytes;
}

struct store_ops memstore_ops = {
    .close = mem_close,
    .begin = mem_begin,
    .rollback = mem_rollback,
    .commit = mem_commit,
    .load_head = mem_head,
    .load_lanes = mem_lanes,
    .load_classes = mem_classes,
    .load_slots = mem_slots,
    .load_executors = mem_executors,
    .load_tokens = mem_tokens,
    .load_site = mem_site,
    .load_clock = mem_clock,
    .load_active_grants = mem_live,
    .load_task = mem_task,
    .load_edges = mem_edges,
    .load_outs = mem_outs,
    .load_others_outs = mem_others_outs,
    .load_spec = mem_spec,
    .load_attempt = mem_attempt,
    .load_outputs = mem_outputs,
    .ready_first = mem_ready,
    .holds_due = mem_holds_due,
    .holds_of = mem_holds_of,
    .holds_after = mem_holds_after,
    .holds_of_task = mem_holds_of_task,
    .unique_find = mem_unique,
    .idempotency_find = mem_idempotency,
    .idempotency_expire = mem_expire,
    .size_bytes = mem_size,
};

struct memstore *memstore_new(uint64_t incarnation)
{
    struct memstore *m = mem_alloc(sizeof *m);
    archive_ops_add(&memstore_ops);
    changeset_ops_add(&memstore_ops);
    *m = (struct memstore){ .own = { .store = { .ops = &memstore_ops, .exclusive = true }, .rows = m } };
    m->head = (struct store_head){ .incarnation = incarnation,
        .next_task = 1,
        .next_spec = 1,
        .next_lane = 1,
        .next_class = 1,
        .next_slot = 1,
        .next_executor = 1,
        .next_token = 1 };
    return m;
}

static void maps_release(struct memstore *m)
{
    struct map *maps[] = { &m->lanes, &m->classes, &m->specs, &m->slots, &m->tasks, &m->executors, &m->tokens, &m->outs,
        &m->ins, &m->outputs, &m->archives, &m->changesets, &m->touched };
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++)
        map_release(maps[i]);
    smap_release(&m->uniques);
    smap_release(&m->idempotency);
}

static void map_copy(struct map *to, const struct map *from)
{
    *to = (struct map){ 0 };
    MAP_EACH (from, e)
        map_put(to, e->key, e->value);
}

static void smap_copy(struct smap *to, const struct smap *from)
{
    *to = (struct smap){ 0 };
    SMAP_EACH (from, e)
        smap_put(to, e->key, e->value);
}

/* The lists of edges change in place: they are copied. */
static void edges_copy(struct map *to, const struct map *from, struct arena *arena)
{
    *to = (struct map){ 0 };
    MAP_EACH (from, e) {
        const struct edges *list = e->value;
        struct edges *copy = ARENA_NEW(arena, struct edges);
        copy->n = copy->cap = list->n;
        copy->edges = ARENA_ARRAY(arena, struct edge, list->n + 1);
        memcpy(copy->edges, list->edges, list->n * sizeof *list->edges);
        map_put(to, e->key, copy);
    }
}

#define LIST_COPY(to, from, arena, list) \
    do { \
        (to)->list = arena_array((arena), sizeof *(to)->list, (from)->n_##list + 1); \
        (to)->n_##list = (to)->cap_##list = (from)->n_##list; \
        if ((from)->n_##list) memcpy((to)->list, (from)->list, (from)->n_##list * sizeof *(to)->list); \
    } while (0)

void memstore_keep(struct memstore *to, const struct memstore *from, struct arena *arena)
{
    static const size_t maps[] = { offsetof(struct memstore, lanes), offsetof(struct memstore, classes),
        offsetof(struct memstore, specs), offsetof(struct memstore, slots), offsetof(struct memstore, tasks),
        offsetof(struct memstore, executors), offsetof(struct memstore, tokens), offsetof(struct memstore, outputs),
        offsetof(struct memstore, archives), offsetof(struct memstore, changesets),
        offsetof(struct memstore, touched) };
    maps_release(to);
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++)
        map_copy((struct map *)(void *)((char *)to + maps[i]),
            (const struct map *)(const void *)((const char *)from + maps[i]));
    edges_copy(&to->outs, &from->outs, arena);
    edges_copy(&to->ins, &from->ins, arena);
    smap_copy(&to->uniques, &from->uniques);
    smap_copy(&to->idempotency, &from->idempotency);
    LIST_COPY(to, from, arena, holds);
    LIST_COPY(to, from, arena, ready);
    LIST_COPY(to, from, arena, attempts);
    LIST_COPY(to, from, arena, turns);
    LIST_COPY(to, from, arena, revisions);
    LIST_COPY(to, from, arena, latests);
    LIST_COPY(to, from, arena, schedules);
    LIST_COPY(to, from, arena, changeset_files);
    memcpy(to->site, from->site, sizeof to->site);
    to->n_site = from->n_site;
    to->clock = from->clock;
    memcpy(to->duties, from->duties, sizeof to->duties);
    to->n_duties = from->n_duties;
    to->head = from->head;
}

void memstore_drop(struct memstore *kept)
{
    maps_release(kept);
}

void memstore_free(struct memstore *m)
{
    maps_release(m);
    arena_release(&m->arena);
    mem_free(m);
}
