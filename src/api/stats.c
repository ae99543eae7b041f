/* stats: how much there is of everything: counts, semaphores, health, and the same for Prometheus.
 *
 * Counts come from the lanes, which the engine keeps up to date with every move; nothing here walks tasks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/answer.h"
#include "api/call.h"
#include "base/when.h"
#include "coord/coord.h"
#include "io/clock.h"
#include "io/tls.h"
#include "spool/spool.h"

enum { HOLDERS_MAX = 1000, WAITERS_MAX = 1000 };

struct counts {
    int64_t processed, failed, queued, working;
    int64_t terminated, abandoned; /* of lanes: processed are these, the failed and the done */
};

static struct counts lane_counts(const struct lane *lane)
{
    const int64_t *c = lane->counts;
    return (struct counts){ .processed = c[STATE_D] + c[STATE_F] + c[STATE_T] + c[STATE_A],
        .failed = c[STATE_F],
        .terminated = c[STATE_T],
        .abandoned = c[STATE_A],
        .queued = c[STATE_Q] + c[STATE_S] + c[STATE_P],
        .working = c[STATE_X] };
}

RENDERER(counts_render, Counts, struct json *json, const struct counts *counts, bool of_queue)

struct facts {              /* what most of these answers need */
    struct store_head head; /* read first: a client that follows events from its seq misses nothing */
    struct lane **lanes;
    struct executor **executors;
    struct executor_live *lives;
    size_t n_lanes, n_executors, n_lives;
};

/* facts_own: what the tenant doesn't have isn't there. */
static void facts_own(const struct call *call, struct facts *out)
{
    size_t n = 0;
    for (size_t i = 0; i < out->n_lanes; i++)
        if (out->lanes[i]->id == 0 || str_eq(out->lanes[i]->tenant, call->actor.tenant))
            out->lanes[n++] = out->lanes[i];
    out->n_lanes = n;
    n = 0;
    for (size_t i = 0; i < out->n_executors; i++)
        if (executor_visible(call, out->executors[i]))
            out->executors[n++] = out->executors[i];
    out->n_executors = n;
}

/* facts_read: into call->state; on a read thread where there are any. */
static bool facts_read(struct call *call)
{
    struct reader *reader = call->api->config.reader;
    struct facts *out = call->state = ARENA_NEW(&call->arena, struct facts);
    *out = (struct facts){ 0 };
    if (!reader_head(reader, &out->head, &call->err) ||
        !reader_lanes(reader, &call->arena, &out->lanes, &out->n_lanes, &call->err) ||
        !reader_executors(reader, &call->arena, &out->executors, &out->n_executors, &call->err))
        return false;
    out->n_lives = engine_executors(call->api->config.engine, &call->arena, &out->lives);
    return true;
}

static void executors_render(struct call *call, struct json *json, const struct facts *facts)
{
    json_object_begin(json);
    for (size_t i = 0; i < facts->n_executors; i++) {
        const struct executor *executor = facts->executors[i];
        struct executor_live live = { 0 };
        (void)engine_executor(call->api->config.engine, executor->id, &live);
        struct counts counts = {
            .processed = executor->processed, .failed = executor->failed, .working = live.running
        };
        struct str name = executor->name;
        if (!executor_is_own(call, executor)) /* two tenants may have it */
            name = str_fmt(&call->arena, "%.*s/%.*s", STR_ARG(executor->tenant), STR_ARG(executor->name));
        json_key_str(json, name);
        counts_render(json, &counts, false);
    }
    json_object_end(json);
}

enum { CLOCK_APART_SHOWN_MS = 1000 };

void trouble_render(struct call *call, struct json *json)
{
    struct engine *engine = call->api->config.engine;
    struct clock_jump jump;
    char text[ENGINE_TEXT_MAX];
    if (engine_trouble(engine, str_eqz(call->actor.tenant, TENANT_DEFAULT), text))
        json_z(json, text);
    engine_clock(engine, &jump);
    if (jump.count > 0 && clock_boot_ms() - jump.boot < CLOCK_JUMP_SHOWN_MS) {
        snprintf(text, sizeof text, "the server's clock jumped by %+.1f s to %s", (double)jump.by_ms / 1000,
            when_format(jump.wall).z);
        json_z(json, text);
    }
    int64_t correction = clock_wall_correction();
    if (llabs(correction) >= CLOCK_APART_SHOWN_MS) {
        snprintf(text, sizeof text,
            "the server's clock is %+.1f s off the database's, by which times go: put it right (NTP)",
            -(double)correction / 1000);
        json_z(json, text);
    }
    struct tls *tls = call->api->config.tls;
    if (tls && tls->warning[0] && str_eqz(call->actor.tenant, TENANT_DEFAULT))
        json_z(json, tls->warning);
}

static void warnings_render(struct call *call, struct json *json)
{
    json_array_begin(json);
    trouble_render(call, json);
    json_array_end(json);
}

static void queues_render(struct json *json, const struct facts *facts)
{
    json_object_begin(json);
    for (size_t i = 0; i < facts->n_lanes; i++) {
        struct counts counts = lane_counts(facts->lanes[i]);
        if (facts->lanes[i]->id == 0)
            continue;
        json_key_str(json, facts->lanes[i]->name);
        counts_render(json, &counts, true);
    }
    json_object_end(json);
}

static bool stats_render(struct call *call)
{
    struct facts facts = *(const struct facts *)call->state;
    struct lane sum = { 0 };
    facts_own(call, &facts);
    for (size_t i = 0; i < facts.n_lanes; i++)
        for (int state = STATE_Q; state < STATE_COUNT && facts.lanes[i]->id != 0; state++)
            sum.counts[state] += facts.lanes[i]->counts[state];
    struct counts all = lane_counts(&sum);
    ANSWER_RETURN(200, ANSWER_Stats);
}

bool serve_stats_get(struct call *call)
{
    return call_read(call, facts_read, stats_render);
}

static bool semaphore_render(struct call *call, struct json *json, const struct slot *slot)
{
    struct reader *reader = call->api->config.reader;
    struct hold *holders, *waiting;
    size_t n_holders, n_waiting;
    if (!reader_hold_users(reader, &call->arena, HOLD_held, slot->id, HOLDERS_MAX, &holders, &n_holders, &call->err) ||
        !reader_hold_users(reader, &call->arena, HOLD_slot, slot->id, WAITERS_MAX, &waiting, &n_waiting, &call->err))
        return false;
    ANSWER_WRITE(ANSWER_Semaphore);
    return true;
}

bool serve_semaphores_list(struct call *call)
{
    struct slot **slots;
    struct list_page page;
    size_t n = 0;
    if (!call_page(call, 0, &page))
        return false;
    bool good = reader_slots_page(call->api->config.reader, &call->arena, &page, &slots, &n, &call->err);
    struct str next = { 0 };
    if (n == page.limit)
        next = call_cursor(call, slots[--n - 1]->id);
    struct json out = json_to(&call->out), *json = &out;
    ANSWER_WRITE(ANSWER_SemaphoreList);
    return call_end(call, good, 200);
}

static void metric(struct buf *out, const char *name, const char *type, const char *help)
{
    buf_addf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void metric_u64(struct buf *out, const char *name, const char *type, const char *help, uint64_t value)
{
    metric(out, name, type, help);
    buf_addf(out, "%s %llu\n", name, (unsigned long long)value);
}

static uint64_t resident_bytes(void)
{
    unsigned long long size = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (file == NULL)
        return 0;
    if (fscanf(file, "%llu %llu", &size, &resident) != 2)
        resident = 0;
    fclose(file);
    return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

static uint64_t store_bytes(const char *data_dir)
{
    static const char *const files[] = { "weir.db", "weir.db-wal" };
    uint64_t bytes = 0;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        char path[4096];
        struct stat st;
        if (snprintf(path, sizeof path, "%s/%s", data_dir, files[i]) < (int)sizeof path && stat(path, &st) == 0)
            bytes += (uint64_t)st.st_size;
    }
    return bytes;
}

static void engine_metrics(struct call *call, struct buf *out)
{
    struct engine_counters c;
    engine_counters(call->api->config.engine, &c);
    metric_u64(out, "weir_turns_total", "counter", "Turns of the engine.", c.turns);
    metric_u64(out, "weir_turns_narrow_total", "counter", "Turns that shared the store with those of other servers.",
        c.narrow);
    metric_u64(out, "weir_turns_widened_total", "counter", "Turns that began so and had to be taken once more, alone.",
        c.widened);
    metric_u64(
        out, "weir_turns_failed_total", "counter", "Turns that the store refused, or that met a bug.", c.failed_turns);
    metric_u64(out, "weir_commands_total", "counter", "Commands applied in turns.", c.commands);
    metric_u64(out, "weir_commits_total", "counter", "Transactions committed.", c.commits);
    metric_u64(out, "weir_events_total", "counter", "Events appended since the start.", c.events);
    metric_u64(out, "weir_grants_total", "counter", "Tasks granted to executors.", c.granted);
    metric_u64(out, "weir_finishes_total", "counter", "Attempts finished.", c.finished);
    metric_u64(out, "weir_lost_total", "counter", "Attempts lost with their executor.", c.lost);
    metric(out, "weir_turn_seconds_total", "counter", "Time spent in turns.");
    buf_addf(out, "weir_turn_seconds_total %.6f\n", (double)c.turn_us / 1e6);
    metric(out, "weir_begin_seconds_total", "counter",
        "Time until turns had the store; on a shared one they wait for those of others.");
    buf_addf(out, "weir_begin_seconds_total %.6f\n", (double)c.begin_us / 1e6);
    metric(out, "weir_commit_seconds_total", "counter", "Time spent in commits, fsync included.");
    buf_addf(out, "weir_commit_seconds_total %.6f\n", (double)c.commit_us / 1e6);
}

/* tasks_metrics: by queue and state, and the totals come by summing, as Prometheus does it. Names hold nothing that
 * would need quoting. */
static void tasks_metrics(const struct call *call, const struct facts *facts, struct buf *out)
{
    metric(out, "weir_tasks", "gauge", "Tasks by queue or archive and state.");
    for (size_t i = 0; i < facts->n_lanes; i++) {
        const struct lane *lane = facts->lanes[i];
        bool own = str_eqz(lane->tenant, TENANT_DEFAULT);
        for (int state = STATE_Q; state < STATE_COUNT && lane->id != 0 && (own || call->site); state++) {
            buf_addf(out, "weir_tasks{");
            if (!own)
                buf_addf(out, "tenant=\"%.*s\",", STR_ARG(lane->tenant));
            buf_addf(out, "lane=\"%.*s\",state=\"%s\"} %lld\n", STR_ARG(lane->name), state_word((enum task_state)state),
                (long long)lane->counts[state]);
        }
    }
}

static bool metrics_render(struct call *call)
{
    struct facts facts = *(const struct facts *)call->state;
    struct buf *out = &call->out;
    uint64_t live = 0, running = 0;
    for (size_t i = 0; i < facts.n_lives; i++) {
        live += facts.lives[i].live;
        running += (uint64_t)facts.lives[i].running;
    }
    metric(out, "weir_build_info", "gauge", "The version that runs.");
    buf_addf(out, "weir_build_info{version=\"%s\"} 1\n", call->api->config.version);
    metric_u64(out, "weir_healthy", "gauge", "1: the server takes work.",
        engine_health(call->api->config.engine) == ENGINE_OK);
    metric_u64(out, "weir_store_damage_total", "counter", "Times that the database was found damaged.",
        engine_damage(call->api->config.engine));
    struct clock_jump jump;
    engine_clock(call->api->config.engine, &jump);
    metric_u64(out, "weir_clock_jumps_total", "counter", "Times that the wall clock was set by two seconds or more.",
        jump.count);
    if (call->api->config.tls)
        metric_u64(out, "weir_certificate_expiry_timestamp_seconds", "gauge",
            "When the certificate of this address expires.", (uint64_t)call->api->config.tls->to_ms / 1000);
    tasks_metrics(call, &facts, out);
    engine_metrics(call, out);
    metric_u64(out, "weir_executors_live", "gauge", "Executors heard of within the lease.", live);
    uint64_t polls = 0;
    MAP_EACH (&call->api->polls, entry)
        polls += ((const struct executor_poll *)entry->value)->open;
    struct coord_status coordination;
    coord_status(engine_coord(call->api->config.engine), &coordination);
    metric_u64(
        out, "weir_coordination_away", "gauge", "1: the coordination service can't be asked.", coordination.away);
    metric_u64(out, "weir_polls_open", "gauge", "Polls of executors that wait here.", polls);
    metric_u64(out, "weir_polls_known", "gauge", "Executors whose polls this server remembers.", call->api->polls.n);
    metric_u64(out, "weir_executing", "gauge", "Attempts that run on live executors.", running);
    metric_u64(out, "weir_http_requests_total", "counter", "Requests served.", call->api->requests);
    metric_u64(out, "weir_http_refused_total", "counter", "Requests answered with a problem.", call->api->refused);
    metric_u64(out, "weir_http_open_requests", "gauge", "Requests that wait for their answer.", call->api->calls.n);
    metric_u64(
        out, "weir_store_bytes", "gauge", "Size of the store's files.", store_bytes(call->api->config.store->data_dir));
    metric_u64(out, "weir_resident_bytes", "gauge", "Resident memory of the server.", resident_bytes());
    return call_answer_as(call, 200, "text/plain; version=0.0.4; charset=utf-8", buf_str(out), NULL);
}

bool serve_metrics_get(struct call *call)
{
    if (str_eqz(call->actor.tenant, TENANT_DEFAULT))
        return call_read(call, facts_read, metrics_render);
    return call_refuse(call, ERR_forbidden, "metrics are the site's: this needs a token of the tenant 'default'");
}

bool serve_health_get(struct call *call)
{
    struct coord_status status;
    char trouble[SPOOL_TEXT_MAX];
    coord_status(engine_coord(call->api->config.engine), &status);
    bool spool_stopped = call->api->spool != NULL && spool_trouble(call->api->spool, trouble);
    /* ok also without the coordination service, which only advises, and without the spool, which only shows */
    ANSWER_RETURN(200, ANSWER_Health);
}

bool serve_ready_get(struct call *call)
{
    char text[ENGINE_TEXT_MAX];
    bool trouble = engine_trouble(call->api->config.engine, false, text);
    if (call->api->closing || trouble)
        return call_refuse(call, ERR_unavailable, "%s", call->api->closing ? "the server is stopping" : text);
    if (!store_there(call->api)) { /* what is written gets through, but nothing can be shown or checked */
        return call_refuse(call, ERR_unavailable,
            "the store can't be read: no connection for reading can be made; the server keeps trying");
    }
    return serve_health_get(call);
}
