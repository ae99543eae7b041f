/* server_health: what a server logs, and tells the coordination service, of its own health. */
#include "server/server_parts.h"

#include <stdlib.h>

#include "base/when.h"
#include "coord/coord.h"
#include "io/clock.h"
#include "io/log.h"
#include "store/damage.h"

enum { TELL_MS = 5000 };

/* health_look: one line when the server stops taking new work, with what to do, and one when it takes work again; one
 * for each jump of the clock. */
static void health_look(void *owner)
{
    struct server *server = owner;
    enum engine_health now = engine_health(server->parts.engine);
    struct clock_jump jump;
    char text[ENGINE_TEXT_MAX];
    engine_clock(server->parts.engine, &jump);
    if (jump.count != server->clock_jumps)
        log_warn("clock.jumped", "by_ms=%+lld to=%s count=%llu", (long long)jump.by_ms, when_format(jump.wall).z,
            (unsigned long long)jump.count);
    server->clock_jumps = jump.count;
    if (now == server->health)
        return;
    if (engine_trouble(server->parts.engine, true, text))
        log_error("server.unready", "reason=%s note=%s", engine_health_name(now), log_quote(str_of(text)).z);
    else
        log_event("server.ready", "after=%s seconds=%lld", engine_health_name(server->health),
            (long long)(clock_boot_ms() - server->health_since) / 1000);
    server->health = now;
    server->health_since = clock_boot_ms();
}

/* Any thread. */
static void damage_met(void *owner)
{
    struct server *server = owner;
    loop_wake(server->parts.loop);
}

/* coordination_look: logs when the service goes away or comes back. It only advises, so work goes on without it. */
static void coordination_look(void *owner)
{
    struct server *server = owner;
    struct coord_status now;
    coord_status(engine_coord(server->parts.engine), &now);
    if (now.since == 0 || (now.away == server->coordination_away && now.since == server->coordination_since))
        return;
    server->coordination_away = now.away;
    server->coordination_since = now.since;
    if (now.away)
        log_warn("coordination.away", "service=%s error=%s note=\"duties go by the store alone\"", now.kind,
            log_quote(str_of(now.text)).z);
    else
        log_event("coordination.connected", "service=%s", now.kind);
}

/* coordination_tell: what the service shows of this server. */
static void coordination_tell(struct loop_timer *timer)
{
    struct server *server = timer->owner;
    struct buf text;
    double load[1] = { 0 };
    bool first = true;
    if (getloadavg(load, 1) != 1)
        load[0] = 0;
    buf_init(&text, COORD_CONTENT_MAX);
    buf_addf(&text,
        "{\"name\":\"%.*s\",\"role\":\"server\",\"version\":\"%s\",\"host\":\"%s\",\"address\":\"%s\",\"load\":%.2f",
        STR_ARG(server->conf.name), WEIR_VERSION, server->parts.host, http_server_address(server->parts.http), load[0]);
    buf_addf(&text, ",\"state\":\"%s\",\"epochs\":{",
        engine_health(server->parts.engine) == ENGINE_OK ? "active" : "failing");
    for (size_t i = 0; i < DUTY_COUNT; i++) {
        int64_t epoch = engine_duty(server->parts.engine, (enum duty_kind)i);
        if (epoch == 0)
            continue;
        buf_addf(&text, "%s\"%s\":%lld", first ? "" : ",", engine_duty_name((enum duty_kind)i), (long long)epoch);
        first = false;
    }
    buf_add_z(&text, "}}");
    coord_publish(engine_coord(server->parts.engine), buf_str(&text));
    buf_release(&text);
    loop_arm(server->parts.loop, timer, loop_now(server->parts.loop) + TELL_MS);
}

void server_health_begin(struct server *server)
{
    loop_on_wake(server->parts.loop, health_look, server);
    damage_listen(damage_met, server);
    health_look(server);
}

void server_coordination_begin(struct server *server)
{
    if (server->conf.coordination.len == 0)
        return;
    loop_on_wake(server->parts.loop, coordination_look, server);
    server->tell = (struct loop_timer){ .due = coordination_tell, .owner = server };
    coordination_tell(&server->tell);
}
