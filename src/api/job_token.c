/* job_token: the token a running job gets, good for its own task only.
 *
 * Nothing is stored: the token is the fence of the grant and a keyed hash of it, so it ends with the grant. It may read
 * its own task and those that it depends on, tell its own outputs, and post new tasks and change sets; of its own
 * archive it may read the files and post revisions (they know their cause); it opens nothing else. The key is derived
 * from the store's secret, which all servers of a site share and no backup carries. */
#include <sodium.h>
#include <string.h>

#include "api/call.h"
#include "store/secret.h"

enum { MAC_BYTES = 16 };
#define PREFIX "weirjob_"

bool job_token_open(struct api *api, struct err *err)
{
    static const unsigned char jobs[] = "weir job tokens", tokens[] = "weir tokens made with a key",
                               fences[] = "weir fences";
    uint8_t secret[STORE_SECRET_BYTES];
    if (!store_secret(api->config.store, secret, err))
        return false;
    crypto_generichash(api->job_key, sizeof api->job_key, jobs, sizeof jobs, secret, sizeof secret);
    crypto_generichash(api->token_key, sizeof api->token_key, tokens, sizeof tokens, secret, sizeof secret);
    crypto_generichash(api->fence_key.bytes, sizeof api->fence_key.bytes, fences, sizeof fences, secret, sizeof secret);
    sodium_memzero(secret, sizeof secret);
    return true;
}

struct job_token_text job_token_format(const struct api *api, const char *sealed)
{
    struct job_token_text text;
    unsigned char mac[MAC_BYTES];
    size_t n = sizeof PREFIX - 1, fence_len = strlen(sealed);
    crypto_generichash(mac, sizeof mac, (const unsigned char *)sealed, fence_len, api->job_key, sizeof api->job_key);
    memcpy(text.z, PREFIX, n);
    memcpy(text.z + n, sealed, fence_len);
    text.z[n + fence_len] = '_';
    sodium_bin2hex(text.z + n + fence_len + 1, sizeof text.z - n - fence_len - 1, mac, sizeof mac);
    return text;
}

/* job_tenant: of the job's own task. */
static struct str job_tenant(struct call *call, int64_t task)
{
    struct task row;
    bool found = task_row(call->api, &call->arena, task, &row);
    return found ? str_dup(&call->arena, lane_tenant_of(call->api, row.lane)) : (struct str){ 0 };
}

bool job_token_is(const struct api *api, struct str text, struct fence *out)
{
    struct str prefix = STR(PREFIX);
    ptrdiff_t cut = str_rindex(text, '_');
    if (!str_starts(text, prefix) || cut < (ptrdiff_t)prefix.len ||
        !fence_open(&api->fence_key, str_sub(text, prefix.len, (size_t)cut), out))
        return false;
    struct job_token_text right = job_token_format(api, fence_seal(&api->fence_key, *out).z);
    return strlen(right.z) == text.len && sodium_memcmp(right.z, text.ptr, text.len) == 0;
}

bool job_token_check(struct call *call, struct fence fence)
{
    int64_t newest;
    enum task_state state;
    bool found;
    struct err ignored = { .code = ERR_none };
    struct reader *reader = call->api->config.reader;
    struct store_head head;
    if (!reader_grant(reader, fence.task, &newest, &state, &found, &ignored) || !reader_head(reader, &head, &ignored))
        return false;
    if (!found || newest != fence.grant || state != STATE_X || head.incarnation != fence.incarnation)
        return false; /* the job it was given to isn't running any more */
    call->job = fence.task;
    call->actor.name = str_fmt(&call->arena, JOB_ACTOR "%lld", (long long)fence.task);
    call->actor.tenant = job_tenant(call, fence.task);
    if (call->actor.tenant.len == 0)
        return false;
    call->scopes = SCOPE_READ | SCOPE_ENQUEUE | SCOPE_EXECUTE; /* `permits` says of what */
    return true;
}

/* needed_task: does the job's own task name it in `depends`? */
static bool needed_task(const struct call *call, int64_t id)
{
    struct arena arena = { 0 };
    struct err ignored = { .code = ERR_none };
    struct edge_view *edges = NULL;
    size_t n = 0;
    bool needed = false;
    if (reader_edges(call->api->config.reader, &arena, call->job, false, &edges, &n, &ignored))
        for (size_t i = 0; i < n && !needed; i++)
            needed = edges[i].id == id && (edges[i].kind == EDGE_DEPENDS || edges[i].flags & EDGE_NEEDED);
    arena_release(&arena);
    return needed;
}

/* path_task: the task that the path names by id or by key; 0: none. */
static int64_t path_task(const struct call *call)
{
    struct key key;
    struct err ignored = { .code = ERR_none };
    int64_t id = 0;
    if (!key_parse(call->arg, &key, &ignored))
        return 0;
    if (key.kind == KEY_TASK && !reader_find(call->api->config.reader, call->actor.tenant, key.lane, key.rev, key.name,
                                    key.variant, key.run, &id, &ignored))
        return 0;
    return key.kind == KEY_TASK ? id : key.id;
}

static bool own_task(const struct call *call)
{
    return path_task(call) == call->job;
}

static bool own_or_needed(const struct call *call)
{
    int64_t id = path_task(call);
    return id == call->job || (id > 0 && needed_task(call, id));
}

/* own_archive: is it the archive of the job's own task? */
static bool own_archive(const struct call *call)
{
    struct arena arena = { 0 };
    struct task row;
    enum lane_kind kind = LANE_QUEUE;
    bool own = task_row(call->api, &arena, call->job, &row) &&
               str_eq(lane_name_of(call->api, row.lane, &kind), call->arg) && kind == LANE_ARCHIVE;
    arena_release(&arena);
    return own;
}

/* own_changeset: is it the change set that the job applies? */
static bool own_changeset(const struct call *call)
{
    struct key key;
    struct err ignored = { .code = ERR_none };
    int64_t id = 0;
    if (!key_parse(call->arg, &key, &ignored))
        return false;
    if (key.kind == KEY_ID)
        id = key.id;
    else if (key.kind == KEY_CHANGESET || key.kind == KEY_LANE)
        (void)reader_changeset_find(
            call->api->config.reader, call->actor.tenant, key.kind == KEY_LANE ? key.lane : key.name, &id, &ignored);
    return id > 0 && id == call->job;
}

/* What a job may ask; `own` NULL: anything of that route. */
static const struct {
    const char *method, *path;
    bool (*own)(const struct call *call);
} permits[] = {
    { "POST", "/v1/tasks", NULL },
    { "GET", "/v1/tasks/{task}", own_or_needed },
    { "GET", "/v1/tasks/{task}/why", own_or_needed },
    { "GET", "/v1/tasks/{task}/graph", own_task },
    { "GET", "/v1/tasks/{task}/log", own_or_needed },
    { "GET", "/v1/tasks/{task}/artifacts/{file}", own_or_needed },
    { "POST", "/v1/tasks/{task}/outputs", own_task },
    { "GET", "/v1/archives/{archive}/revisions/{rev}/tree", own_archive },
    { "POST", "/v1/archives/{archive}/revisions", own_archive },
    { "POST", "/v1/changesets", NULL },
    { "GET", "/v1/changesets/{csid}/tarball", own_changeset },
};

bool job_token_permits(const struct call *call)
{
    if (call->route == NULL)
        return true; /* there is nothing there */
    for (size_t i = 0; i < sizeof permits / sizeof permits[0]; i++)
        if (strcmp(call->route->method, permits[i].method) == 0 && strcmp(call->route->path, permits[i].path) == 0)
            return permits[i].own == NULL || permits[i].own(call);
    return false;
}
