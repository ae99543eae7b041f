/* names: lanes and tasks as the names and keys that people use, without a read for each.
 *
 * Lanes are never renamed: a lane that was read is kept. A queue that has had no task may still become an archive, so
 * it is read again. A queue's task is QUEUE:ID, so its lane and id are enough; for tasks of archives, and where only an
 * id is at hand, the key is read once and kept. Of a change set its submitter is kept with it. A task that can't be
 * read is written as its id. */
#include <string.h>

#include "api/call.h"

enum { KEYS_KEPT_MAX = 10000 };

struct lane_name {
    enum lane_kind kind;
    bool settled; /* its kind won't change any more */
    size_t len, tenant_len;
    char bytes[]; /* the name, then the tenant */
};

static bool lane_is_settled(const struct lane *lane)
{
    int64_t tasks = 0;
    for (size_t i = 0; i < STATE_COUNT; i++)
        tasks += lane->counts[i];
    return lane->kind != LANE_QUEUE || tasks > 0;
}

static void lane_put(struct api *api, const struct lane *lane)
{
    struct lane_name *name = map_find(&api->lanes, (uint64_t)lane->id);
    if (name == NULL) {
        name = mem_alloc(sizeof *name + lane->name.len + lane->tenant.len);
        name->len = lane->name.len;
        name->tenant_len = lane->tenant.len;
        if (name->len > 0)
            memcpy(name->bytes, lane->name.ptr, name->len);
        if (name->tenant_len > 0)
            memcpy(name->bytes + name->len, lane->tenant.ptr, name->tenant_len);
        map_put(&api->lanes, (uint64_t)lane->id, name);
    }
    name->kind = lane->kind;
    name->settled = lane_is_settled(lane);
}

static void lanes_read(struct api *api, struct err *err)
{
    struct arena arena = { 0 };
    struct lane **lanes;
    size_t n;
    if (reader_lanes(api->config.reader, &arena, &lanes, &n, err))
        for (size_t i = 0; i < n; i++)
            lane_put(api, lanes[i]);
    arena_release(&arena);
}

static const struct lane_name *lane_find(struct api *api, int64_t lane)
{
    const struct lane_name *name = map_find(&api->lanes, (uint64_t)lane);
    struct arena arena = { 0 };
    struct err ignored = { 0 };
    struct lane *row = NULL;
    if (name != NULL && name->settled)
        return name;
    if (reader_lane_of(api->config.reader, &arena, lane, &row, &ignored) && row != NULL)
        lane_put(api, row);
    arena_release(&arena);
    return map_find(&api->lanes, (uint64_t)lane);
}

static struct str tenant_of(const struct lane_name *name)
{
    return (struct str){ name->bytes + name->len, name->tenant_len };
}

struct str lane_tenant_of(struct api *api, int64_t lane)
{
    const struct lane_name *name = lane_find(api, lane);
    return name != NULL ? tenant_of(name) : (struct str){ 0 };
}

static bool tenant_lanes_known(const struct api *api, struct str tenant)
{
    MAP_EACH (&api->lanes, entry)
        if (str_eq(tenant_of(entry->value), tenant))
            return true;
    return false;
}

bool tenant_has_lanes(struct api *api, struct str tenant)
{
    struct err ignored = { 0 };
    if (tenant_lanes_known(api, tenant))
        return true;
    lanes_read(api, &ignored);
    return tenant_lanes_known(api, tenant);
}

bool task_row(struct api *api, struct arena *arena, int64_t task, struct task *out)
{
    struct err ignored = { .code = ERR_none };
    bool found = false;
    return reader_row(api->config.reader, arena, task, out, &found, &ignored) && found;
}

bool task_is_foreign(struct api *api, int64_t task, struct str tenant)
{
    struct arena arena = { 0 };
    struct task row;
    bool own = task_row(api, &arena, task, &row) && str_eq(lane_tenant_of(api, row.lane), tenant);
    arena_release(&arena);
    return !own;
}

struct str lane_name_of(struct api *api, int64_t lane, enum lane_kind *out_kind)
{
    const struct lane_name *name = lane_find(api, lane);
    if (name == NULL)
        return (struct str){ 0 };
    *out_kind = name->kind;
    return (struct str){ name->bytes, name->len };
}

bool lane_id_of(struct api *api, struct str tenant, struct str name, int64_t *out_id, struct err *err)
{
    struct arena arena = { 0 };
    struct lane lane;
    bool found = false, good = reader_lane(api->config.reader, &arena, tenant, name, &lane, &found, err);
    *out_id = good && found ? lane.id : -1;
    arena_release(&arena);
    return good;
}

static void archive_key_add(
    struct buf *out, struct str lane, int64_t rev, struct str name, struct str variant, int64_t run)
{
    struct key key = { .kind = KEY_TASK, .lane = lane, .rev = rev, .name = name, .variant = variant, .run = run };
    key_format(out, &key);
}

static void queue_key_add(struct buf *out, struct str lane, int64_t task)
{
    buf_add_str(out, lane);
    buf_add_char(out, ':');
    buf_add_i64(out, task);
}

static void changeset_key_add(struct buf *out, struct str lane, struct str csid)
{
    struct key key = { .kind = KEY_CHANGESET, .lane = target_name(lane), .name = csid };
    key_format(out, &key);
}

struct str target_name(struct str lane)
{
    return str_starts(lane, STR(TARGET_LANE)) ? str_sub(lane, strlen(TARGET_LANE), lane.len) : lane;
}

void key_add_task(struct buf *out, struct str lane_name, enum lane_kind kind, const struct task *task)
{
    if (kind == LANE_ARCHIVE)
        archive_key_add(out, lane_name, task->rev, task->name, task->variant, task->run);
    else if (kind == LANE_TARGET)
        changeset_key_add(out, lane_name, task->name);
    else
        queue_key_add(out, lane_name, task->id);
}

void key_add_view(struct buf *out, const struct edge_view *view)
{
    if (view->rev > 0)
        archive_key_add(out, view->lane_name, view->rev, view->name, view->variant, view->run);
    else if (str_starts(view->lane_name, STR(TARGET_LANE)))
        changeset_key_add(out, view->lane_name, view->name);
    else
        queue_key_add(out, view->lane_name, view->id);
}

static void keys_forget(struct api *api)
{
    MAP_EACH (&api->keys, entry)
        mem_free(entry->value);
    map_clear(&api->keys);
}

/* key_keep: as "KEY", of a change set as "KEY\0SUBMITTER". */
static void key_keep(struct api *api, int64_t task, struct str key, struct str submitter)
{
    if (api->keys.n >= KEYS_KEPT_MAX)
        keys_forget(api);
    char *kept = mem_alloc_zero(key.len + submitter.len + 2);
    memcpy(kept, key.ptr, key.len);
    if (submitter.len > 0)
        memcpy(kept + key.len + 1, submitter.ptr, submitter.len);
    map_put(&api->keys, (uint64_t)task, kept);
}

static bool submitter_read(struct api *api, struct arena *arena, const struct task *row, struct str *out)
{
    struct err ignored = { 0 };
    struct changeset_view *views;
    size_t n = 0;
    if (!(row->marks & MARK_CHANGESET))
        return true;
    if (!reader_changesets_of(api->config.reader, arena, &row->id, 1, &views, &n, &ignored) || n == 0)
        return false;
    *out = views[0].changeset.submitter;
    return true;
}

/* key_read: from the store, kept for the next time. */
static void key_read(struct api *api, struct buf *out, int64_t task)
{
    struct arena arena = { 0 };
    struct task row;
    struct str submitter = { 0 };
    size_t from = out->len;
    enum lane_kind kind = LANE_QUEUE;
    bool found = task_row(api, &arena, task, &row);
    if (found) {
        struct str lane = lane_name_of(api, row.lane, &kind);
        key_add_task(out, lane, kind, &row);
    } else {
        buf_add_i64(out, task);
    }
    if (found && submitter_read(api, &arena, &row, &submitter) && !out->full)
        key_keep(api, task, (struct str){ out->ptr + from, out->len - from }, submitter);
    arena_release(&arena);
}

void key_add(struct api *api, struct buf *out, int64_t lane, int64_t task)
{
    enum lane_kind kind = LANE_ARCHIVE;
    struct str name = lane > 0 ? lane_name_of(api, lane, &kind) : (struct str){ 0 };
    const char *kept;
    if (name.len > 0 && kind == LANE_QUEUE)
        queue_key_add(out, name, task);
    else if ((kept = map_find(&api->keys, (uint64_t)task)) != NULL)
        buf_add_z(out, kept);
    else
        key_read(api, out, task);
}

struct changeset_names changeset_names_of(struct api *api, int64_t lane, int64_t task)
{
    struct changeset_names names = { 0 };
    enum lane_kind kind = LANE_QUEUE;
    if (task == 0 || (lane > 0 && (lane_name_of(api, lane, &kind).len == 0 || kind != LANE_TARGET)))
        return names;
    buf_reset(&api->scratch);
    key_add(api, &api->scratch, lane, task);
    const char *kept = map_find(&api->keys, (uint64_t)task);
    const char *colon = kept != NULL ? strchr(kept, ':') : NULL;
    if (colon == NULL) /* a target's name has no ':', nor has a CSID */
        return names;
    names.csid = str_of(colon + 1);
    names.submitter = str_of(kept + strlen(kept) + 1);
    return names;
}

struct str key_text(struct api *api, struct arena *arena, int64_t lane, int64_t task)
{
    buf_reset(&api->scratch);
    key_add(api, &api->scratch, lane, task);
    return str_dup(arena, buf_str(&api->scratch));
}

void json_key_text(struct api *api, struct json *json, int64_t lane, int64_t task)
{
    buf_reset(&api->scratch);
    key_add(api, &api->scratch, lane, task);
    json_str(json, buf_str(&api->scratch));
}

void json_holder(struct call *call, struct json *json, int64_t task)
{
    if (!call->site && task_is_foreign(call->api, task, call->actor.tenant))
        json_z(json, "another tenant");
    else
        json_key_text(call->api, json, 0, task);
}

void names_release(struct api *api)
{
    keys_forget(api);
    map_release(&api->keys);
    MAP_EACH (&api->lanes, entry)
        mem_free(entry->value);
    map_release(&api->lanes);
}
