/* site: the keys of the configuration that hold for all servers (text/conf_site.h). The store has them with a version;
 * a command (a reload, `weir config apply`) changes them in a turn, so under the store's lock; servers that share the
 * store follow the change.
 *
 * Owns the keys that are in force. Promises that a change leaves the keys that it doesn't name, that a dry run changes
 * nothing, and that an event records the actor and the change. A server whose own file has other values follows the
 * store, and logs that (config.differs). */
#include <string.h>

#include "engine/cache/cache.h"
#include "engine/command/command.h"
#include "engine/targets.h"
#include "engine/tenants.h"
#include "io/log.h"

enum { REASON_BYTES = 600 };
#define BY_FILE "configuration" /* the actor, where a key comes from a server's file */

static struct str body_of(struct arena *arena, const struct site_conf *conf, size_t key)
{
    struct buf text;
    buf_init(&text, SIZE_MAX);
    site_key_write(&text, conf, key);
    struct str out = str_dup(arena, buf_str(&text));
    buf_release(&text);
    return out;
}

/* --- as they are stored --- */

/* What other threads see of them. */
static void site_publish(struct engine *engine, const struct site_conf *conf)
{
    unsigned differs = 0;
    for (size_t k = 0; k < SITE_KEYS; k++)
        if (engine->site->file[k].len && !str_eqz(engine->site->file[k], "{}") &&
            !str_eq(engine->site->file[k], engine->site->keys[k].body))
            differs |= 1U << k;
    atomic_store(&engine->site->differs, differs);
    atomic_store(&engine->site->history_ms, conf->history_ms);
    engine->site->changesets = conf->changesets;
    engine->site->targets = conf->targets;
    guard_enter(engine, GUARD_site);
    arena_reset(&engine->site->told.arena);
    engine->site->told.changesets = conf->changesets;
    engine->site->told.targets = conf->targets;
    engine->site->told.targets.items = ARENA_ARRAY(&engine->site->told.arena, struct conf_target, conf->targets.n);
    for (size_t i = 0; i < conf->targets.n; i++)
        conf_target_copy(&engine->site->told.arena, &conf->targets.items[i], &engine->site->told.targets.items[i]);
    guard_leave(engine, GUARD_site);
    atomic_fetch_add(&engine->site->version, 1);
}

static bool site_read(struct engine *engine, struct site_conf *out, struct err *err)
{
    *out = (struct site_conf){ 0 };
    for (size_t k = 0; k < SITE_KEYS; k++)
        if (!site_key_parse(engine->site->keys[k].body, k, &engine->site->arena, out))
            return err_set(err, ERR_corrupt, "the stored key '%s' of the site can't be read", site_key_name(k));
    return true;
}

bool tenants_load(struct engine *engine, struct err *err)
{
    struct store *store = engine->store;
    struct site_key *rows;
    size_t n;
    struct site_conf conf;
    arena_reset(&engine->site->arena);
    for (size_t i = 0; i < SITE_KEYS; i++)
        engine->site->keys[i] = (struct site_key){ .name = str_of(site_key_name(i)), .body = STR("{}") };
    if (!store->ops->load_site(store, &engine->site->arena, &rows, &n, err))
        return false;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < SITE_KEYS; k++)
            if (str_eqz(rows[i].name, site_key_name(k)))
                engine->site->keys[k] = rows[i];
    if (!site_read(engine, &conf, err))
        return false;
    tenants_set(engine, &conf.tenants);
    site_publish(engine, &conf);
    return true;
}

/* --- what follows from them --- */

static void semaphores_apply(struct turn *turn, struct str tenant, const struct conf_semaphores *conf, struct str actor)
{
    for (size_t i = 0; i < conf->n; i++) {
        struct str name = conf->items[i].name;
        int64_t limit = conf->items[i].limit;
        struct slot *known = smap_find(
            &turn->engine->cache->slot_names, str_fmt(turn->arena, "%.*s\x1f%.*s", STR_ARG(tenant), STR_ARG(name)));
        if (!known)
            known = cache_slot_put(turn, tenant, name, 0);
        struct slot *slot = slice_slot(turn->slice, known->id);
        known->configured = slot->configured = true;
        if (slot->limit == limit)
            continue;
        slot->limit = limit;
        if (!PLANT(limit_unheard))
            slot_changed(turn->slice, slot->id);
        slice_event(turn->slice, &(struct event){ .kind = EVENT_semaphore,
                                     .subject = tenant_subject(turn->arena, tenant, slot->name),
                                     .actor = actor,
                                     .reason = str_fmt(turn->arena, "limit %lld", (long long)limit) });
    }
}

/* Running tasks: the slot is made with the first limit, and stays. What runs or is pending already isn't in it. A
 * tenant that isn't listed any more keeps what it has and isn't limited: its slot, if it had one, is open to all. */
static void running_apply(struct turn *turn)
{
    struct engine *engine = turn->engine;
    SMAP_EACH (&engine->cache->tenants, e) {
        struct known_tenant *known = e->value;
        bool limited = known->listed && known->conf.quotas[QUOTA_running] >= 0;
        int64_t limit = limited ? known->conf.quotas[QUOTA_running] : SLOT_FREE;
        if (!known->running && limit == SLOT_FREE)
            continue;
        if (!known->running)
            (void)cache_slot_put(turn, known->conf.name, STR(SLOT_RUNNING), limit);
        struct slot *slot = slice_slot(turn->slice, known->running);
        if (slot->limit != limit)
            slot_changed(turn->slice, slot->id);
        slot->limit = limit;
    }
    MAP_EACH (&turn->slice->lanes, e) {
        struct lane *lane = e->value;
        lane->quota = engine->cache->rows.lane(engine, lane->id)->quota;
    }
}

/* --- changes --- */

/* What was changed, for the history: bounded, so that a large change names its first parts. */
static struct str change_text(
    struct turn *turn, const struct site_key *before, const struct site_key *after, size_t key)
{
    struct site_change *changes;
    size_t n = site_changes(turn->arena, key, before->body, after->body, &changes);
    struct buf text;
    buf_init(&text, SIZE_MAX);
    buf_addf(&text, "version %lld", (long long)after->version);
    for (size_t i = 0; i < n; i++) {
        if (text.len > REASON_BYTES) {
            buf_addf(&text, "; and %zu more", n - i);
            break;
        }
        struct str was = str_sub(changes[i].before, 0, REASON_BYTES / 4),
                   is = str_sub(changes[i].after, 0, REASON_BYTES / 4);
        buf_addf(&text, "%s %.*s: %.*s -> %.*s", i ? ";" : ":", STR_ARG(changes[i].path),
            STR_ARG(was.len ? was : STR("none")), STR_ARG(is.len ? is : STR("none")));
    }
    struct str out = str_dup(turn->arena, buf_str(&text));
    buf_release(&text);
    return out;
}

/* A key that two commands of one turn change is written once. */
static void key_put(struct turn *turn, const struct site_key *key)
{
    for (size_t i = 0; i < turn->changes.site.n; i++)
        if (str_eq(turn->changes.site.at[i].name, key->name)) {
            turn->changes.site.at[i] = *key;
            return;
        }
    *ARRAY_ADD(turn->arena, turn->changes.site) = *key;
}

static void site_apply(struct turn *turn, const struct site_conf *conf, struct str actor)
{
    struct engine *engine = turn->engine;
    struct site_conf kept;
    struct err ignored = { 0 };
    bool changed = false;
    for (size_t k = 0; k < SITE_KEYS; k++) {
        struct str body = body_of(&engine->site->arena, conf, k);
        struct site_key *key = &engine->site->keys[k], before = *key;
        if (conf->silent & 1U << k || str_eq(body, key->body))
            continue;
        *key = (struct site_key){ str_of(site_key_name(k)), body, key->version + 1, turn->wall,
            str_dup(&engine->site->arena, actor) };
        key_put(turn, key);
        changed = true;
        slice_event(turn->slice, &(struct event){ .kind = EVENT_config,
                                     .subject = key->name,
                                     .actor = actor,
                                     .reason = change_text(turn, &before, key, k) });
    }
    bool good = site_read(engine, &kept, &ignored);
    ASSERT(good); /* our own words */
    semaphores_apply(turn, (struct str){ 0 }, &kept.semaphores, actor);
    if (!changed)
        return;
    tenants_set(engine, &kept.tenants);
    targets_look(engine);
    for (size_t i = 0; i < kept.tenants.n; i++)
        semaphores_apply(turn, kept.tenants.items[i].name, &kept.tenants.items[i].semaphores, actor);
    running_apply(turn);
    site_publish(engine, &kept);
}

/* This server's own file, to be compared with the keys that are in force. */
static void file_note(struct engine *engine, const struct site_conf *conf)
{
    arena_reset(&engine->site->file_arena);
    for (size_t k = 0; k < SITE_KEYS; k++)
        engine->site->file[k] =
            conf->silent & 1U << k ? (struct str){ 0 } : body_of(&engine->site->file_arena, conf, k);
}

static void keys_copy(struct arena *arena, const struct site_key *from, struct site_key *out)
{
    for (size_t k = 0; k < SITE_KEYS; k++) {
        out[k] = from[k];
        out[k].body = str_dup(arena, from[k].body);
        out[k].changed_by = str_dup(arena, from[k].changed_by);
    }
}

bool command_site(struct turn *turn, struct command *command)
{
    struct engine *engine = turn->engine;
    const struct site_conf *conf = &command->in.site.conf;
    keys_copy(command->arena, engine->site->keys, command->out.site.before);
    if (command->in.site.from_file)
        file_note(engine, conf);
    if (!(conf->silent & 1U << SITE_TARGETS) && targets_refused(turn, command, &conf->targets))
        return false;
    if (!command->in.site.dry_run)
        site_apply(turn, conf, command->actor.name);
    keys_copy(command->arena, engine->site->keys, command->out.site.after);
    for (size_t k = 0; command->in.site.dry_run && k < SITE_KEYS; k++)
        if (!(conf->silent & 1U << k))
            command->out.site.after[k].body = body_of(command->arena, conf, k);
    command->status = 200;
    return true;
}

static bool is_by_file(const struct site_key *key)
{
    return key->version == 0 || str_eqz(key->changed_by, BY_FILE);
}

/* At the start a key is taken from the file if the store has none. A server that is alone also takes it if the stored
 * value came from its file. Otherwise the stored value holds, and a file that differs is logged. */
void site_start(struct turn *turn)
{
    struct engine *engine = turn->engine;
    struct site_conf conf = engine->config.site, kept;
    file_note(engine, &conf);
    for (size_t k = 0; k < SITE_KEYS; k++)
        if (engine->store->exclusive ? !is_by_file(&engine->site->keys[k]) : engine->site->keys[k].version > 0)
            conf.silent |= 1U << k;
    site_apply(turn, &conf, STR(BY_FILE));
    if (!turn_read(turn, site_read(engine, &kept, turn->err)))
        return;
    site_publish(engine, &kept);
    targets_warn(turn);
    unsigned differs = engine_site_differs(engine);
    for (size_t k = 0; k < SITE_KEYS; k++)
        if (differs & 1U << k)
            log_warn("config.differs",
                "key=%s version=%lld by=%s "
                "note=\"the site goes by what is stored; to change it: weir config apply, or SIGHUP to this server\"",
                site_key_name(k), (long long)engine->site->keys[k].version,
                log_quote(engine->site->keys[k].changed_by).z);
}

uint64_t engine_site_version(struct engine *engine)
{
    return atomic_load(&engine->site->version);
}

unsigned engine_site_differs(struct engine *engine)
{
    return atomic_load(&engine->site->differs);
}

int64_t engine_history(struct engine *engine)
{
    return atomic_load(&engine->site->history_ms);
}
