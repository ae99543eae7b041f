/* tenants: the tenants of this site, what each uses, and its quotas.
 *
 * What a tenant has is counted here from the rows that are shown elsewhere (lanes, semaphores, tokens, archives,
 * executors), so it recounts what the engine counts. The site's admin sees all tenants, other
 * clients only their own. */
#include <stdlib.h>

#include "api/answer.h"
#include "api/call.h"
#include "base/map.h"
#include "text/key.h"

struct tenant_row {
    struct str name;
    int64_t used[QUOTA_COUNT], limits[QUOTA_COUNT];
};

struct tenant_list {
    struct tenant_row *rows;
    size_t n, cap;
    struct smap places; /* name -> its place in rows, plus one */
    int64_t version;    /* of the key `tenants`; 0: never set */
};

static struct tenant_row *row_get(struct call *call, struct tenant_list *list, struct str name)
{
    size_t place = (size_t)(uintptr_t)smap_find(&list->places, name);
    if (place > 0)
        return &list->rows[place - 1];
    struct tenant_row *row = ARENA_PUSH(&call->arena, list->rows, list->n, list->cap);
    *row = (struct tenant_row){ .name = str_dup(&call->arena, name) };
    for (int q = 0; q < QUOTA_COUNT; q++)
        row->limits[q] = -1;
    smap_put(&list->places, row->name, (void *)(uintptr_t)list->n);
    return row;
}

static bool limits_read(struct call *call, struct tenant_list *list)
{
    struct site_key *keys;
    size_t n;
    struct conf_tenants conf = { 0 };
    if (!reader_site(call->api->config.reader, &call->arena, &keys, &n, &call->err))
        return false;
    for (size_t i = 0; i < n; i++)
        if (str_eqz(keys[i].name, "tenants")) {
            list->version = keys[i].version;
            if (!conf_tenants_parse(keys[i].body, &call->arena, &conf))
                return err_set(&call->err, ERR_corrupt, "the stored key 'tenants' of the site can't be read");
        }
    for (size_t i = 0; i < conf.n; i++) {
        struct tenant_row *row = row_get(call, list, conf.items[i].name);
        for (int q = 0; q < QUOTA_COUNT; q++)
            row->limits[q] = conf.items[i].quotas[q];
    }
    return true;
}

static bool lanes_count(struct call *call, struct tenant_list *list)
{
    struct lane **lanes;
    size_t n;
    if (!reader_lanes(call->api->config.reader, &call->arena, &lanes, &n, &call->err))
        return false;
    for (size_t i = 0; i < n; i++) {
        const struct lane *lane = lanes[i];
        if (lane->id == 0)
            continue;
        struct tenant_row *row = row_get(call, list, lane->tenant);
        row->used[QUOTA_tasks] +=
            lane->counts[STATE_Q] + lane->counts[STATE_S] + lane->counts[STATE_P] + lane->counts[STATE_X];
        row->used[QUOTA_running] += lane->counts[STATE_X];
        row->used[QUOTA_queues] += lane->kind == LANE_QUEUE;
        row->used[QUOTA_logs] += lane->log_bytes;
        row->used[QUOTA_files] += lane->file_bytes;
    }
    return true;
}

static bool others_count(struct call *call, struct tenant_list *list)
{
    struct reader *reader = call->api->config.reader;
    struct slot **slots;
    struct token **tokens;
    struct executor **executors;
    struct archive_view *archives;
    size_t n_slots, n_tokens, n_executors, n_archives;
    if (!reader_slots(reader, &call->arena, &slots, &n_slots, &call->err) ||
        !reader_tokens(reader, &call->arena, &tokens, &n_tokens, &call->err) ||
        !reader_executors(reader, &call->arena, &executors, &n_executors, &call->err) ||
        !reader_archives(reader, &call->arena, &archives, &n_archives, &call->err))
        return false;
    for (size_t i = 0; i < n_slots; i++)
        if (slots[i]->tenant.len > 0 && !str_eqz(slots[i]->name, SLOT_RUNNING))
            row_get(call, list, slots[i]->tenant)->used[QUOTA_semaphores]++;
    for (size_t i = 0; i < n_tokens; i++)
        row_get(call, list, tokens[i]->tenant)->used[QUOTA_tokens]++;
    for (size_t i = 0; i < n_executors; i++)
        row_get(call, list, executors[i]->tenant.len > 0 ? executors[i]->tenant : STR(TENANT_DEFAULT))
            ->used[QUOTA_executors]++;
    for (size_t i = 0; i < n_archives; i++)
        if (archives[i].archive.removed == 0)
            row_get(call, list, archives[i].lane.tenant)->used[QUOTA_archives]++;
    return true;
}

static void quotas_render(struct json *json, const struct tenant_row *row)
{
    json_object_begin(json);
    for (int q = 0; q < QUOTA_COUNT; q++) {
        if (q == QUOTA_requests && row->limits[q] < 0)
            continue;
        json_key(json, quota_name((enum quota)q));
        ANSWER_WRITE(ANSWER_Quota);
    }
    json_object_end(json);
}

RENDERER(tenant_render, Tenant, struct json *json, const struct tenant_row *row)

static int by_name(const void *a, const void *b)
{
    const struct tenant_row *x = a, *y = b;
    return str_cmp(x->name, y->name);
}

/* page_take: those that the caller may see, behind the name that the cursor is, as many as fit. True: there are more.
 */
static bool page_take(const struct call *call, struct tenant_list *list, struct str behind, size_t limit)
{
    size_t n = 0;
    for (size_t i = 0; i < list->n; i++)
        if (((call->site && !call->tenant_named) || str_eq(list->rows[i].name, call->actor.tenant)) &&
            (behind.len == 0 || str_cmp(list->rows[i].name, behind) > 0))
            list->rows[n++] = list->rows[i];
    qsort(list->rows, n, sizeof *list->rows, by_name);
    list->n = n < limit ? n : limit;
    return n > limit;
}

bool serve_tenants_list(struct call *call)
{
    struct tenant_list list = { 0 };
    struct str behind = { 0 };
    int64_t limit = PAGE_MAX;
    call_param_limit(call, PAGE_MAX, &limit);
    if (call_param_str(call, "cursor", &behind) && !name_is_valid(behind))
        err_item(&call->err, ERR_bad_request, STR("cursor"),
            "the query parameter 'cursor' must be a tenant's name, not '%.*s'", STR_ARG(str_sub(behind, 0, 64)));
    if (call->err.code != ERR_none)
        return call_problem(call);
    row_get(call, &list, call->actor.tenant);
    bool good = limits_read(call, &list) && lanes_count(call, &list) && others_count(call, &list);
    smap_release(&list.places);
    if (!good)
        return call_problem(call);
    bool more = page_take(call, &list, behind, (size_t)limit);
    struct str next = more ? list.rows[list.n - 1].name : (struct str){ 0 };
    ANSWER_RETURN(200, ANSWER_TenantList);
}
