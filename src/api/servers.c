/* servers: the other servers of a shared store, and whether they live.
 *
 * A server updates its row every second (its beat). One whose beat hasn't changed for a while is lost, sooner when a
 * coordination service says that it is gone. Only this server's clock measures that. A store that isn't shared has none
 * of this. */
#include <string.h>

#include "api/call.h"
#include "coord/coord.h"

enum { LOOK_MS = 2000, LOST_MS = 5000, DOUBT_MS = 3000 };

struct server_seen {
    char name[NAME_CHARS_MAX + 1];
    int64_t beat, started, moved_ms;
    bool lost; /* until its beat changes, even if the coordination service goes away meanwhile */
};

static struct server_seen *seen_of(struct api *api, const struct server_row *row)
{
    struct str name = str_sub(row->name, 0, NAME_CHARS_MAX);
    struct server_seen *seen = smap_find(&api->servers.seen, name);
    if (seen != NULL)
        return seen;
    seen = mem_alloc_zero(sizeof *seen);
    memcpy(seen->name, name.ptr, name.len);
    seen->beat = row->beat - 1; /* it counts as changed now */
    smap_put(&api->servers.seen, str_of(seen->name), seen);
    return seen;
}

void servers_take(struct api *api, const struct server_row *rows, size_t n)
{
    int64_t now = loop_now(api->config.loop);
    for (size_t i = 0; i < n; i++) {
        struct server_seen *seen = seen_of(api, &rows[i]);
        if (seen->beat == rows[i].beat && seen->started == rows[i].started)
            continue;
        seen->beat = rows[i].beat;
        seen->started = rows[i].started;
        seen->moved_ms = now;
        seen->lost = false;
    }
}

static bool rows_read(struct api *own, struct arena *arena, void *out)
{
    struct server_rows *read = out;
    struct err ignored = { 0 };
    return reader_servers(own->config.reader, arena, &read->rows, &read->n, &ignored);
}

static void rows_done(struct api *api, void *out)
{
    const struct server_rows *read = out;
    servers_take(api, read->rows, read->n);
}

bool server_lives(struct api *api, const struct server_row *row)
{
    struct server_seen *seen = seen_of(api, row);
    int64_t still = loop_now(api->config.loop) - seen->moved_ms;
    seen->lost |= still > LOST_MS || (still > DOUBT_MS && coord_absent(engine_coord(api->config.engine), row->name));
    return !seen->lost;
}

static void look_due(struct loop_timer *timer)
{
    struct api *api = timer->owner;
    loop_arm(api->config.loop, &api->servers.look, loop_now(api->config.loop) + LOOK_MS);
    chore_run(api, api->servers.chore);
}

void servers_begin(struct api *api)
{
    api->servers.look = (struct loop_timer){ .due = look_due, .owner = api };
    api->servers.chore = chore_new(rows_read, rows_done, &api->servers.read);
    if (reader_is_shared(api->config.reader))
        loop_arm(api->config.loop, &api->servers.look, loop_now(api->config.loop));
}

void servers_end(struct api *api)
{
    loop_disarm(api->config.loop, &api->servers.look);
    chore_free(api->servers.chore);
    SMAP_EACH (&api->servers.seen, entry)
        mem_free(entry->value);
    smap_release(&api->servers.seen);
}
