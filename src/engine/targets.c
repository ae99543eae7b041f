/* targets: from a target's name to its archive and its settings, and what becomes of the change sets of a target that
 * has none any more.
 *
 * What a turn uses is the key as it stands in the engine (command/site.c); other threads get copies. It fails with a
 * sentence. */
#include "engine/targets.h"

#include "engine/archives.h"
#include "engine/cache/cache.h"
#include "engine/tenants.h"
#include "engine/waiters.h"
#include "io/log.h"

static struct conf_target target_conf(const struct conf_targets *targets, struct str name)
{
    const struct conf_target *known = conf_target_find(targets, name);
    return known ? *known : (struct conf_target){ .name = name, .archive = name };
}

bool target_find(struct turn *turn, struct str tenant, struct str name, struct target *out, struct str *out_why)
{
    *out = (struct target){ .conf = target_conf(&turn->engine->site->targets, name) };
    struct str archive = out->conf.archive;
    bool own = str_eq(archive, name);
    const struct lane *lane = cache_lane_find(turn, tenant, archive),
                      *same = own ? NULL : cache_lane_find(turn, tenant, name);
    const struct archive *row = lane ? turn_archive(turn, lane->id) : NULL,
                         *other = same ? turn_archive(turn, same->id) : NULL;
    if (other && !other->removed)
        *out_why = str_fmt(turn->arena,
            "the target '%.*s' is configured for the archive '%.*s', but an archive has its name: change 'targets'",
            STR_ARG(name), STR_ARG(archive));
    else if (row && !row->removed)
        out->archive = row;
    else if (row)
        *out_why = str_fmt(turn->arena, "its archive was removed: the target '%.*s' was the archive '%.*s'",
            STR_ARG(name), STR_ARG(archive));
    else if (own)
        *out_why = str_fmt(
            turn->arena, "there is no target '%.*s': weir archive add makes one of a repository", STR_ARG(name));
    else
        *out_why = str_fmt(turn->arena, "the target '%.*s' has no archive: there is none with the name '%.*s'",
            STR_ARG(name), STR_ARG(archive));
    return out->archive != NULL;
}

bool target_of(struct turn *turn, const struct task *task, struct target *out, struct str *out_why)
{
    const struct lane *lane = slice_lane(turn->slice, task->lane);
    return target_find(turn, lane->tenant, str_sub(lane->name, sizeof TARGET_LANE - 1, lane->name.len), out, out_why);
}

void targets_look(struct engine *engine)
{
    MAP_EACH (&engine->cache->lanes, e) {
        const struct lane *lane = e->value;
        if (lane->kind == LANE_TARGET)
            removing_add(engine, lane->id);
    }
}

bool target_taken(struct engine *engine, struct str name)
{
    const struct conf_target *target = conf_target_find(&engine->site->targets, name);
    return target && !str_eq(target->archive, name);
}

/* --- the key against the archives that there are --- */

struct known_names { /* of archives that are followed, of all tenants */
    struct str *items;
    size_t n, cap;
};

static struct known_names archives_known(struct turn *turn)
{
    struct known_names names = { 0 };
    MAP_EACH (&turn->engine->cache->lanes, e) {
        const struct lane *lane = e->value;
        const struct archive *archive = turn_archive(turn, lane->id);
        if (archive && !archive->removed)
            *ARENA_PUSH(turn->arena, names.items, names.n, names.cap) = lane->name;
    }
    return names;
}

static bool is_known(const struct known_names *names, struct str name)
{
    for (size_t i = 0; i < names->n; i++)
        if (str_eq(names->items[i], name))
            return true;
    return false;
}

/* The sentence of what is wrong with it; empty: nothing. */
static struct str target_fault(
    struct turn *turn, const struct known_names *names, const struct conf_target *target, struct str *out_near)
{
    bool own = str_eq(target->archive, target->name);
    *out_near = (struct str){ 0 };
    if (!own && is_known(names, target->name))
        return str_fmt(turn->arena, "the target '%.*s' has the name of another archive than '%.*s'",
            STR_ARG(target->name), STR_ARG(target->archive));
    if (is_known(names, target->archive))
        return (struct str){ 0 };
    *out_near = str_closest(target->archive, names->items, names->n);
    return str_fmt(turn->arena, "the target '%.*s' needs an archive: there is none with the name '%.*s'%s",
        STR_ARG(target->name), STR_ARG(target->archive), own ? ", and `archive:` names no other" : "");
}

bool targets_refused(struct turn *turn, struct command *command, const struct conf_targets *wanted)
{
    const struct conf_targets *now = &turn->engine->site->targets;
    struct known_names names = { 0 };
    bool known = false;
    for (size_t i = 0; i < wanted->n; i++) {
        const struct conf_target *target = &wanted->items[i], *was = conf_target_find(now, target->name);
        struct str near;
        if (was && conf_target_same(was, target))
            continue;
        if (!known)
            names = archives_known(turn);
        known = true;
        struct str fault = target_fault(turn, &names, target, &near);
        if (!fault.len)
            continue;
        command->err.arena = command->arena;
        err_item(&command->err, ERR_invalid, (struct str){ 0 }, "%.*s", STR_ARG(fault)); /* its place is below */
        struct err_item *item = err_item_last(&command->err);
        if (!item)
            continue;
        item->file = command->in.site.file;
        item->line = target->line;
        item->column = target->column;
        if (near.len)
            item->suggestion = str_fmt(command->arena, "did you mean '%.*s'?", STR_ARG(near));
        else if (!is_known(&names, target->name))
            item->suggestion = STR("weir archive add makes an archive of a repository");
    }
    return command->err.code != ERR_none;
}

void targets_warn(struct turn *turn)
{
    const struct conf_targets *targets = &turn->engine->site->targets;
    struct known_names names = targets->n ? archives_known(turn) : (struct known_names){ 0 };
    for (size_t i = 0; i < targets->n; i++) {
        struct str near, fault = target_fault(turn, &names, &targets->items[i], &near);
        if (fault.len)
            log_warn("config.target", "note=%s", log_quote(fault).z);
    }
}

/* --- for other threads --- */

void engine_changesets(struct engine *engine, struct conf_changesets *out)
{
    guard_enter(engine, GUARD_site);
    *out = engine->site->told.changesets;
    guard_leave(engine, GUARD_site);
}

void engine_target(struct engine *engine, struct str name, struct arena *arena, struct conf_target *out)
{
    guard_enter(engine, GUARD_site);
    struct conf_target target = target_conf(&engine->site->told.targets, name);
    conf_target_copy(arena, &target, out);
    guard_leave(engine, GUARD_site);
}
