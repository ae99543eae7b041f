/* health: does this server take new work, and if not, why? The state is set by turns; damage of the database is met by
 * any connection of the process (store/damage.h), also while no turn is taken, so it is looked up where the question is
 * asked.
 *
 * Damage stays until the process ends: what is damaged isn't trusted again before somebody has looked. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/health.h"
#include "store/damage.h"

/* name in the log, the reason, what to do */
static const struct {
    const char *name, *reason, *advice;
} states[ENGINE_HEALTH_COUNT] = {
    [ENGINE_OK] = { "ok", "", "" },
    [ENGINE_DISK_FULL] = { "disk_full", "the disk is full",
        "no new work is taken until there is room; running work goes on" },
    [ENGINE_FAILED] = { "failed", "the store has failed", "look at the server's log" },
    [ENGINE_STORE_AWAY] = { "store_away", "the database of the store can't be reached", "it is tried again" },
    [ENGINE_STORE_LOCKED] = { "store_locked", "a lock in the database holds up every turn",
        "somebody works on Weir's tables (CREATE INDEX, VACUUM FULL, LOCK); it is tried again" },
    [ENGINE_TURNS_FAIL] = { "turns_fail", "the store refuses what this server writes",
        "rights, tables and indexes must be as Weir made them; the server's log has the store's words; it is tried "
        "again" },
    [ENGINE_DAMAGED] = { "damaged", "the database is damaged",
        "no new work is taken or started; stop the server, run weir verify --data DIR, then restore a backup (weir "
        "restore)" },
};

void health_open(struct health *health)
{
    health->damage_before = damage_count();
}

void health_clock(struct engine *engine, int64_t wall, int64_t boot)
{
    struct health *health = engine->health;
    int64_t offset = wall - boot, by = offset - health->offset;
    if (health->offset_known && (by >= CLOCK_JUMP_MS || by <= -CLOCK_JUMP_MS)) {
        guard_enter(engine, GUARD_health);
        health->jump = (struct clock_jump){ .by_ms = by, .wall = wall, .boot = boot, .count = health->jump.count + 1 };
        guard_leave(engine, GUARD_health);
    }
    health->offset = offset;
    health->offset_known = true;
}

void health_set(struct engine *engine, enum engine_health state, const char *why)
{
    struct health *health = engine->health;
    if (state == ENGINE_OK && atomic_load(&health->state) == ENGINE_OK)
        return;
    guard_enter(engine, GUARD_health);
    if (state == ENGINE_DISK_FULL)
        why = space_place(engine->space);
    if (*why || state != (enum engine_health)atomic_load(&health->state))
        snprintf(health->text, sizeof health->text, "%s", why);
    atomic_store(&health->state, (int)state);
    guard_leave(engine, GUARD_health);
}

/* the second: where nothing is written unasked, so long without a failure is well */
enum { FAILING_MS = 3000, FAILED_BEFORE_MS = 10000 };

bool health_turn(struct health *health, bool failed, bool idle, bool wrote, int64_t boot)
{
    if (failed) {
        if (!health->failing_since)
            health->failing_since = boot;
        health->failed_last = boot;
        health->failing |= idle || boot - health->failing_since >= FAILING_MS;
    } else if (wrote || boot - health->failed_last >= FAILED_BEFORE_MS) {
        health->failing_since = 0;
        health->failing = false;
    }
    return health->failing;
}

bool engine_damaged(const struct engine *engine)
{
    return damage_count() != engine->health->damage_before;
}

void health_corrupt(struct engine *engine, struct err *err)
{
    if (!engine_damaged(engine))
        damage_note(err->text);
    char text[ENGINE_TEXT_MAX];
    (void)engine_trouble(engine, false, text);
    err_set(err, ERR_unavailable, "%s", text);
}

uint64_t engine_damage(struct engine *engine)
{
    return damage_count() - engine->health->damage_before;
}

enum engine_health engine_health(struct engine *engine)
{
    return engine_damaged(engine) ? ENGINE_DAMAGED : (enum engine_health)atomic_load(&engine->health->state);
}

const char *engine_health_name(enum engine_health health)
{
    return states[health].name;
}

bool engine_trouble(struct engine *engine, bool detail, char out[ENGINE_TEXT_MAX])
{
    enum engine_health now = engine_health(engine);
    char why[ENGINE_TEXT_MAX] = "";
    if (detail && now == ENGINE_DAMAGED) {
        damage_text(why);
    } else if (detail && now != ENGINE_OK) {
        guard_enter(engine, GUARD_health);
        memcpy(why, engine->health->text, sizeof why);
        guard_leave(engine, GUARD_health);
    }
    snprintf(out, ENGINE_TEXT_MAX, "%s%s%.200s%s: %s", states[now].reason, *why ? " (" : "", why, *why ? ")" : "",
        states[now].advice);
    return now != ENGINE_OK;
}

void engine_clock(struct engine *engine, struct clock_jump *out)
{
    guard_enter(engine, GUARD_health);
    *out = engine->health->jump;
    guard_leave(engine, GUARD_health);
}

bool intake_closed(struct turn *turn, struct command *command)
{
    struct engine *engine = turn->engine;
    if (engine->space->full)
        return !turn_refuse(turn, command, ERR_disk_full, "there is no room for new tasks in %s; running work goes on",
            space_place(engine->space));
    if (!engine_damaged(engine))
        return false;
    char text[ENGINE_TEXT_MAX];
    (void)engine_trouble(engine, false, text);
    return !turn_refuse(turn, command, ERR_unavailable, "%s", text);
}
