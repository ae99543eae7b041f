/* uploads: what attempts have sent before their finish (store/blobs/blobs.h): it counts in its tenant's quota, and
 * goes with the attempt.
 *
 * An attempt is over when a newer one was granted, or when its task has ended otherwise than by a lost lease (a late
 * result still counts then, for a day). One that its finish ends here is forgotten at once; the others (cancelled,
 * lost, ended at another server) are found by a thread that looks for them while there are uploads. What can't be read
 * or removed is tried again. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "api/call.h"
#include "io/clock.h"
#include "store/blobs/blobs.h"

enum { LOOK_MS = 5000, LOOK_MAX_MS = 60000, SOON_MS = 200, LATE_S = 24 * 3600, USED_MS = 1000 };

struct uploads {
    struct api *api;
    struct loop_timer look;
    int64_t pause_ms;
    pthread_t thread;
    bool looking;
    atomic_bool over, stop, left;
    atomic_uint used_version; /* a finish has listed more */
};

struct tenant_used {
    int64_t bytes;
};

/* --- uploads go with their attempt --- */

static bool attempt_over(const struct task *row, const struct upload_grant *grant)
{
    if (row->grant != grant->grant)
        return true;
    if (row->state == STATE_X)
        return false;
    bool late = row->state != STATE_F || row->outcome == OUTCOME_lost; /* a result that comes now may still count */
    return row->state == STATE_D || row->state == STATE_T || row->state == STATE_A || !late || grant->age_s > LATE_S;
}

static void grants_look(struct uploads *u, struct reader *reader, const struct buf *grants)
{
    struct arena arena = { 0 };
    for (size_t at = 0; at + sizeof(struct upload_grant) <= grants->len && !atomic_load(&u->stop);
         at += sizeof(struct upload_grant)) {
        struct upload_grant grant;
        struct task row;
        struct err ignored = { .code = ERR_none };
        bool found = false;
        memcpy(&grant, grants->ptr + at, sizeof grant);
        arena_reset(&arena);
        bool read = reader_row(reader, &arena, grant.task, &row, &found, &ignored);
        if (read && (!found || attempt_over(&row, &grant)))
            blobs_forget(u->api->blobs, grant.task, grant.grant);
        else
            atomic_store(&u->left, true);
    }
    arena_release(&arena);
}

static void *look_main(void *argument)
{
    struct uploads *u = argument;
    struct err err = { .code = ERR_none };
    struct buf grants;
    buf_init(&grants, SIZE_MAX);
    struct reader *reader = NULL;
    if (!blobs_grants(u->api->blobs, &grants, &err) ||
        (grants.len > 0 && (reader = reader_open(u->api->config.store, &err)) == NULL))
        atomic_store(&u->left, true);
    if (reader != NULL) {
        grants_look(u, reader, &grants);
        reader_close(reader);
    }
    buf_release(&grants);
    atomic_store(&u->over, true);
    loop_wake(u->api->config.loop);
    return NULL;
}

static void look_at(struct uploads *u, int64_t ms)
{
    int64_t when = loop_now(u->api->config.loop) + ms;
    if (!u->looking && (u->look.node.pos == 0 || u->look.node.key > when))
        loop_arm(u->api->config.loop, &u->look, when);
}

static void look_woken(void *owner)
{
    struct uploads *u = owner;
    if (!u->looking || !atomic_load(&u->over))
        return;
    pthread_join(u->thread, NULL);
    u->looking = false;
    if (!atomic_load(&u->left))
        return;
    u->pause_ms = u->pause_ms < LOOK_MAX_MS / 2 ? 2 * u->pause_ms : LOOK_MAX_MS;
    look_at(u, u->pause_ms);
}

static void look_due(struct loop_timer *timer)
{
    struct uploads *u = timer->owner;
    if (u->looking || u->api->closing)
        return;
    atomic_store(&u->over, false);
    atomic_store(&u->left, false);
    u->looking = pthread_create(&u->thread, NULL, look_main, u) == 0;
}

void uploads_touched(struct api *api)
{
    api->uploads->pause_ms = LOOK_MS;
    look_at(api->uploads, LOOK_MS);
}

void uploads_ended(struct api *api, const struct finish_item *items, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (items[i].code != ERR_none || items[i].malformed)
            continue;
        if (items[i].files)
            atomic_fetch_add(&api->uploads->used_version, 1);
        if (!blobs_is_shared(api->blobs))
            blobs_forget(api->blobs, items[i].fence.task, items[i].fence.grant);
        else if (items[i].files || api->uploads->look.node.pos > 0)
            look_at(api->uploads, SOON_MS);
    }
}

/* --- quotas --- */

void files_used_release(struct files_used *used)
{
    smap_release(&used->by_tenant);
    arena_release(&used->arena);
}

/* used_read: kept files by tenant, at most USED_MS old; each thread that reads has its own. */
static bool used_read(struct api *api, struct err *err)
{
    struct files_used *used = &api->files_used;
    int64_t now = clock_boot_ms();
    unsigned version = atomic_load(&api->uploads->used_version);
    struct lane **lanes;
    size_t n;
    if (used->read_ms > 0 && now - used->read_ms < USED_MS && used->version == version)
        return true;
    smap_clear(&used->by_tenant);
    arena_reset(&used->arena);
    used->read_ms = 0;
    if (!reader_lanes(api->config.reader, &used->arena, &lanes, &n, err))
        return false;
    for (size_t i = 0; i < n; i++) {
        struct tenant_used *tenant = smap_find(&used->by_tenant, lanes[i]->tenant);
        if (tenant == NULL) {
            tenant = ARENA_NEW(&used->arena, struct tenant_used);
            smap_put(&used->by_tenant, lanes[i]->tenant, tenant);
        }
        tenant->bytes += lanes[i]->file_bytes;
    }
    used->read_ms = now;
    used->version = version;
    return true;
}

bool uploads_room(struct api *api, struct str tenant, int64_t *out_room, struct err *err)
{
    const struct api_tenant *known = api->tenants.by_name.n > 0 ? smap_find(&api->tenants.by_name, tenant) : NULL;
    *out_room = 0;
    if (known == NULL || known->files < 0)
        return true;
    if (!used_read(api, err))
        return false;
    const struct tenant_used *used = smap_find(&api->files_used.by_tenant, tenant);
    *out_room = known->files;
    return used == NULL || used->bytes < known->files ||
           err_set(err, ERR_quota_full,
               "the tenant '%.*s' has %lld of %lld bytes of artifacts; clear away what is old: weir history prune "
               "--older-than 30d, or "
               "have tenants.%.*s.quotas.files raised",
               STR_ARG(tenant), (long long)used->bytes, (long long)known->files, STR_ARG(tenant));
}

/* --- life --- */

struct uploads *uploads_new(struct api *api)
{
    struct uploads *u = mem_alloc_zero(sizeof *u);
    u->api = api;
    u->pause_ms = LOOK_MS;
    u->look = (struct loop_timer){ .due = look_due, .owner = u };
    loop_on_wake(api->config.loop, look_woken, u);
    look_at(u, LOOK_MS); /* of an earlier life */
    return u;
}

void uploads_free(struct uploads *u)
{
    if (u == NULL)
        return;
    atomic_store(&u->stop, true);
    if (u->looking)
        pthread_join(u->thread, NULL);
    loop_forget(u->api->config.loop, u);
    loop_disarm(u->api->config.loop, &u->look);
    mem_free(u);
}
