/* load: what the engine reads while it decides, the same in both databases: whole tables, single rows by key, 'the
 * first N by rank'.
 *
 * Every statement is a walk along an index (golden plans: test/golden/plans_*.txt), so that no load grows with the
 * queue. What is returned is as of the last commit and lives in the caller's arena. What a database does in its own way
 * is in its folder (sqlite/load.c, postgres/load.c). */
#include "store/load.h"

#include "store/damage.h"

/* A whole table, in the order of its key. */
#define LOAD_ALL(member, statement, read, type) \
    bool sql_load_##member(struct store *store, struct arena *arena, type out, size_t *out_n, struct err *err) \
    { \
        struct query q; \
        return query_ask(&q, &store->sql, statement, NULL, 0, err) && read(&q, arena, out, out_n, err); \
    }
LOAD_ALL(lanes, SQL_lanes, each_lane, struct lane ***)
LOAD_ALL(classes, SQL_classes, each_class, struct task_class ***)
LOAD_ALL(slots, SQL_slots, each_slot, struct slot ***)
LOAD_ALL(executors, SQL_executors, each_executor, struct executor ***)
LOAD_ALL(archives, SQL_archives, each_archive, struct archive ***)
LOAD_ALL(site, SQL_site, list_site, struct site_key **)
LOAD_ALL(active_grants, SQL_lives, list_live, struct attempt **)
LOAD_ALL(schedules, SQL_schedules, list_schedule, struct schedule **)

bool sql_load_tokens(struct store *store, struct arena *arena, int64_t after, size_t most, struct token ***out,
    size_t *out_n, struct err *err)
{
    struct query q;
    return ASK(&q, &store->sql, SQL_tokens_after, err, NUM(after), NUM(most < INT64_MAX ? most : INT64_MAX)) &&
           each_token(&q, arena, out, out_n, err);
}

bool sql_load_clock(struct store *store, struct wall_known *out, struct err *err)
{
    struct query q;
    bool found;
    *out = (struct wall_known){ 0 };
    return query_ask(&q, &store->sql, SQL_clock_get, NULL, 0, err) && get_clock(&q, NULL, out, &found, err);
}

bool sql_load_others_outs(struct store *store, struct arena *arena, int64_t id, enum edge_kind but, struct edge **out,
    size_t *out_n, struct err *err)
{
    struct query q;
    return ASK(&q, &store->sql, SQL_outs_others, err, NUM(id), NUM(but)) && list_edge(&q, arena, out, out_n, err);
}

bool sql_load_spec(struct store *store, struct arena *arena, int64_t id, struct spec *out, struct err *err)
{
    bool found;
    return ask_spec(&store->sql, arena, id, out, &found, err) &&
           (found || damage_set(err, "spec %lld is missing", (long long)id));
}

bool sql_load_outputs(struct store *store, struct arena *arena, int64_t task, struct str *out_json, struct err *err)
{
    return ask_outputs(&store->sql, arena, task, out_json, err);
}

bool sql_load_log_seal(
    struct store *store, int64_t task, int64_t grant, struct log_seal *out, bool *out_found, struct err *err)
{
    struct query q;
    return ASK(&q, &store->sql, SQL_log_seal_get, err, NUM(task), NUM(grant)) &&
           get_log_seal(&q, NULL, out, out_found, err);
}

bool sql_holds_due(struct store *store, struct arena *arena, enum hold_kind kind, int64_t key_max, size_t n,
    struct hold **out, size_t *out_n, struct err *err)
{
    struct query q;
    return ASK(&q, &store->sql, SQL_holds_due, err, NUM(kind), NUM(key_max), NUM(n)) &&
           list_hold(&q, arena, out, out_n, err);
}

bool sql_holds_of(struct store *store, struct arena *arena, enum hold_kind kind, int64_t key, size_t n,
    struct hold **out, size_t *out_n, struct err *err)
{
    return ask_holds_of(&store->sql, arena, kind, key, n, out, out_n, err);
}

bool sql_holds_after(struct store *store, struct arena *arena, enum hold_kind kind, const struct hold *after, size_t n,
    struct hold **out, size_t *out_n, struct err *err)
{
    struct query q;
    return ASK(&q, &store->sql, SQL_holds_after, err, NUM(kind), NUM(after->key), NUM(after->rank), NUM(after->task),
               NUM(n)) &&
           list_hold(&q, arena, out, out_n, err);
}

bool sql_holds_of_task(
    struct store *store, struct arena *arena, int64_t task, struct hold **out, size_t *out_n, struct err *err)
{
    return ask_holds_of_task(&store->sql, arena, task, out, out_n, err);
}

bool sql_unique_find(struct store *store, struct str tenant, struct str key, int64_t *out_task, struct err *err)
{
    struct query q;
    return ASK(&q, &store->sql, SQL_unique_get, err, TXT(tenant), TXT(key)) &&
           query_numbers(&q, (int64_t *[]){ out_task }, 1, NULL, err);
}

bool sql_idempotency_find(struct store *store, struct arena *arena, struct str tenant, struct str token,
    struct str route, struct str key, struct idempotency *out, bool *out_found, struct err *err)
{
    struct query q;
    return ASK(&q, &store->sql, SQL_idempotency_get, err, TXT(tenant), TXT(token), TXT(route), TXT(key)) &&
           get_idempotency(&q, arena, out, out_found, err);
}

bool sql_load_revision(struct store *store, struct arena *arena, int64_t lane, int64_t rev, struct revision *out,
    bool *out_found, struct err *err)
{
    return ask_revision(&store->sql, arena, lane, rev, out, out_found, err);
}

bool sql_revision_of_ident(struct store *store, int64_t lane, struct str ident, int64_t *out_rev, struct err *err)
{
    return ask_revision_of_ident(&store->sql, lane, ident, out_rev, err);
}

bool sql_latest_find(struct store *store, struct arena *arena, int64_t lane, struct str name, struct str variant,
    struct latest *out, bool *out_found, struct err *err)
{
    struct query q;
    return ASK(&q, &store->sql, SQL_latest_get, err, NUM(lane), TXT(name), TXT(variant)) &&
           get_latest(&q, arena, out, out_found, err);
}

bool sql_task_upto(struct store *store, int64_t lane, struct str name, struct str variant, int64_t upto,
    int64_t *out_task, int64_t *out_rev, struct err *err)
{
    struct query q;
    return ASK(&q, &store->sql, SQL_task_upto, err, NUM(lane), TXT(name), TXT(variant), NUM(upto)) &&
           query_numbers(&q, (int64_t *[]){ out_task, out_rev }, 2, NULL, err);
}

bool sql_task_find(struct store *store, int64_t lane, int64_t rev, struct str name, struct str variant, int64_t run,
    int64_t *out_task, int64_t *out_run, struct err *err)
{
    const struct arg args[] = { NUM(lane), NUM(rev), TXT(name), TXT(variant), NUM(run) };
    struct query q;
    return query_ask(&q, &store->sql, run < 0 ? SQL_task_last_run : SQL_task_of_key, args, run < 0 ? 4 : 5, err) &&
           query_numbers(&q, (int64_t *[]){ out_task, out_run }, 2, NULL, err);
}

/* Ids of tasks, by a statement of two numbers. */
static bool ids_get(struct store *store, enum sql_id id, int64_t key, size_t n, struct arena *arena, int64_t **out,
    size_t *out_n, struct err *err)
{
    struct query q;
    return ASK(&q, &store->sql, id, err, NUM(key), NUM(n)) && query_ids(&q, arena, out, out_n, err);
}

bool sql_tasks_open(
    struct store *store, struct arena *arena, int64_t lane, size_t n, int64_t **out, size_t *out_n, struct err *err)
{
    return ids_get(store, SQL_tasks_open, lane, n, arena, out, out_n, err);
}

bool sql_changesets_open(
    struct store *store, struct arena *arena, int64_t lane, size_t n, int64_t **out, size_t *out_n, struct err *err)
{
    return ids_get(store, SQL_changesets_open, lane, n, arena, out, out_n, err);
}

bool sql_tasks_after(
    struct store *store, struct arena *arena, int64_t after, size_t n, int64_t **out, size_t *out_n, struct err *err)
{
    return ids_get(store, SQL_ids_after, after, n, arena, out, out_n, err);
}

bool sql_load_changeset(
    struct store *store, struct arena *arena, int64_t task, struct changeset *out, bool *out_found, struct err *err)
{
    return ask_changeset(&store->sql, arena, task, out, out_found, err);
}

bool sql_changeset_find(struct store *store, struct str tenant, struct str csid, int64_t *out_task, struct err *err)
{
    return ask_changeset_find(&store->sql, tenant, csid, out_task, err);
}

bool sql_changeset_of_hash(
    struct store *store, struct str tenant, const uint8_t hash[32], int64_t *out_task, struct err *err)
{
    const struct str bytes = { (const char *)hash, 32 };
    struct query q;
    return ASK(&q, &store->sql, SQL_changeset_of_hash, err, TXT(tenant), BYTES(bytes)) &&
           query_numbers(&q, (int64_t *[]){ out_task }, 1, NULL, err);
}

bool sql_changeset_file_near(struct store *store, struct arena *arena, int64_t lane, bool applied, struct str path,
    int64_t rank, bool after, struct changeset_file *out, bool *out_found, struct err *err)
{
    struct query q;
    return ASK(&q, &store->sql, after ? SQL_changeset_file_after : SQL_changeset_file_before, err, NUM(lane),
               NUM(applied), TXT(path), NUM(rank)) &&
           get_changeset_file(&q, arena, out, out_found, err);
}

/* --- of a store that reads nothing before it is asked for --- */

bool sql_load_head(struct store *store, struct store_head *out, struct err *err)
{
    return ask_head(&store->sql, out, NULL, err);
}

bool sql_load_task(
    struct store *store, struct arena *arena, int64_t id, struct task *out, bool *out_found, struct err *err)
{
    return ask_task(&store->sql, arena, id, out, out_found, err);
}

bool sql_load_edges(struct store *store, struct arena *arena, int64_t id, bool by_pred, struct edge **out,
    size_t *out_n, struct err *err)
{
    struct query q;
    return ASK(&q, &store->sql, by_pred ? SQL_edges_by_pred : SQL_edges_by_waiter, err, NUM(id)) &&
           list_edge(&q, arena, out, out_n, err);
}

bool sql_load_outs(struct store *store, struct arena *arena, int64_t id, int64_t after, size_t n, struct edge **out,
    size_t *out_n, struct err *err)
{
    struct query q;
    return ASK(&q, &store->sql, SQL_outs_after, err, NUM(id), NUM(after), NUM(n)) &&
           list_edge(&q, arena, out, out_n, err);
}

bool sql_load_attempt(
    struct store *store, int64_t task, int64_t grant, struct attempt *out, bool *out_found, struct err *err)
{
    struct query q;
    if (!ASK(&q, &store->sql, SQL_live_get, err, NUM(task), NUM(grant)) || !get_live(&q, NULL, out, out_found, err))
        return false;
    return *out_found || (ASK(&q, &store->sql, SQL_attempt_get, err, NUM(task), NUM(grant)) &&
                             get_attempt(&q, NULL, out, out_found, err));
}
