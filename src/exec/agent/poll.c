/* poll: the talk with the server: registration, the long poll, and what its answer says.
 *
 * One poll is the newest; only its answer brings grants. A poll that carries ends asks to be answered at once (wait_ms
 * 0), and no other is sent before that. While the server holds a poll that may bring grants, ends are sent beside it
 * (POST /v1/finishes): a newer poll would void grants that are on their way. A held poll that reported no free slot
 * can't bring any, so a poll with ends and free slots overtakes it, and the server answers the older one empty. A poll
 * whose answer was lost is sent again, byte for byte, under the same number: the server repeats its answer. (Not a poll
 * with an end whose log isn't durable yet: that end is sent again after its log.)
 *
 * While a job runs that must not outlive its lease, the server holds polls for a shorter time, the agent gives them up
 * sooner, and after a failure it asks to be answered at once: one poll that hangs costs no job.
 *
 * While jobs are very short the agent asks for a few more grants than it has slots, starts them as slots become free
 * and sends no poll until all are started: then one poll carries many ends and brings many grants, and no slot waits
 * for a round trip. Grants that aren't started after AHEAD_MS (the jobs before them turned out to be long) go back: the
 * next poll doesn't renew them, and no attempt is spent.
 *
 * A request that fails is retried for ever, with growing pauses, at the next server if there are several. */
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "exec/agent/agent.h"
#include "io/clock.h"
#include "io/log.h"
#include "text/json_value.h"

enum {
    ANSWER_DEPTH_MAX = 256,
    REQUEST_TIMEOUT_MS = 10000,
    LISTEN_PAUSE_MS = 10,
    SPARE_HANDLES = 4,
    ENDS_MAX = 256,
    SICK_MS = 1000
};
enum { UNREAD_MAX = 3 };
enum { POLL_BYTES_MAX = 16 << 20, ENDS_BYTES_MAX = 1000 << 10 }; /* the server's limits are 32 MiB and 1 MiB */
enum { AHEAD_MS = 20, AHEAD_JOB_US = 8000, AHEAD_MAX = 16, AHEAD_JOBS_KNOWN = 8 };
enum { PATIENCE_MIN_MS = 1000, HELD_PATIENCE_MIN_MS = 200 };
enum { HELLO_MS = 1000, REGISTER_MS = 2500 }; /* the last: below the time to connect */

static void poll_send(struct agent *agent, struct poll_call *call);

static json_t *answer_parse(const struct client_response *response)
{
    struct arena arena = { 0 };
    struct err err = { .arena = &arena };
    json_t *answer = json_parse(buf_str(&response->body), ANSWER_DEPTH_MAX, &err);
    if (!json_is_object(answer)) {
        log_warn("server.answer", "error=%s", log_quote(str_of(err.text)).z);
        json_decref(answer);
        answer = NULL;
    }
    arena_release(&arena);
    return answer;
}

static int64_t member_number(const json_t *object, const char *key, int64_t otherwise)
{
    const json_t *value = json_object_get(object, key);
    return json_is_integer(value) ? json_integer_value(value) : otherwise;
}

/* --- registration --- */

static void call_free(struct agent *agent, struct poll_call *call)
{
    if (!call)
        return;
    if (agent->polls.newest == call)
        agent->polls.newest = NULL;
    if (agent->polls.again == call)
        agent->polls.again = NULL;
    if (agent->polls.ends == call)
        agent->polls.ends = NULL;
    list_remove(&agent->polls.all, &call->node);
    mem_free(call->told);
    mem_free(call);
}

/* call_forget: drops the call; its ends go into another poll. */
static void call_forget(struct agent *agent, struct poll_call *call)
{
    for (size_t i = 0; call && i < call->n_told; i++)
        call->told[i]->told = false;
    call_free(agent, call);
}

/* refused_at_once: the server refused the first registration. Trying again won't help, so the agent ends and says why.
 * Later on (the token was revoked) it goes on trying: jobs may run, and an operator may be making a new token. */
static bool refused_at_once(struct agent *agent, const struct err *err)
{
    size_t n = agent->config->n_servers;
    bool refused = err->code == ERR_unauthorized || err->code == ERR_forbidden || err->code == ERR_untrusted;
    if (!refused || agent->id[0] != '\0' || agent->n_handles > 0 || agent->config->beside ||
        (n > 1 && agent->failures + 1 < 2 * n))
        return false;
    if (err->code == ERR_untrusted) /* names the server itself */
        fprintf(stderr, "weir executor: %s\n", err->text);
    else
        fprintf(stderr, "weir executor: %s: %s (--token-file F, a token with the scope execute)\n",
            agent->config->servers[agent->server], err->text);
    agent->exit_status = err_exit(err->code);
    loop_stop(agent->loop);
    return true;
}

static void registered(struct client_response *response, struct err *err, void *owner)
{
    struct agent *agent = owner;
    json_t *answer = response->status / 100 == 2 ? answer_parse(response) : NULL;
    const json_t *id = json_object_get(answer, "id");
    if (response->status != 0 && !answer)
        client_problem(response, err);
    if (!json_is_string(id) && !json_is_integer(id)) {
        if (!refused_at_once(agent, err))
            agent_failed(agent, "register", err);
        json_decref(answer);
        return;
    }
    if (json_is_string(id))
        snprintf(agent->id, sizeof agent->id, "%s", json_string_value(id));
    else
        snprintf(agent->id, sizeof agent->id, "%" PRId64, (int64_t)json_integer_value(id));
    int64_t lease_ms = member_number(answer, "lease_ms", 0);
    agent->lease_ms = lease_ms >= 100 && lease_ms <= 86400000 ? lease_ms : 15000;
    agent->registered = true;
    agent->polls.free = 0;
    agent->polls.long_at_ms = 0;
    json_decref(answer);
    log_event("executor.registered", "name=%s id=%s server=%s slots=%" PRId64, log_quote(str_of(agent->name)).z,
        agent->id, agent->config->servers[agent->server], agent->config->slots);
    agent->silent_since_ms = 0;
    agent->failures = agent->refusals; /* registrations that are followed by refused polls get growing pauses too */
    for (size_t i = 0; i < agent->n_handles; i++)
        report_log(agent->handles[i]);
}

static void put_labels(struct json *json, const struct agent_config *config)
{
    json_key(json, "labels");
    json_object_begin(json);
    for (size_t i = 0; i < config->n_labels; i++) {
        struct str label = str_of(config->labels[i]);
        ptrdiff_t at = str_index(label, '=');
        size_t len = at < 0 ? label.len : (size_t)at;
        json_key_str(json, str_sub(label, 0, len));
        json_str(json, str_sub(label, len + 1, label.len));
    }
    json_object_end(json);
}

/* put_memory: identifies our job records, which live as long as the host is up. While the value is the same, the server
 * trusts that a granted task we don't name was never started; when it is new, we may have forgotten jobs, and such a
 * task counts as started. */
static void put_memory(struct json *json)
{
    struct boot_id id = clock_boot_id();
    if (id.z[0] != '\0')
        json_put_z(json, "memory", id.z);
}

void agent_register(struct agent *agent)
{
    static const char *const kinds[] = { "command", "script", "image", "apply" }; /* all but data */
    size_t n_kinds = sizeof kinds / sizeof *kinds - !agent->config->apply;
    struct buf body;
    agent->registered = false;
    agent->unheard = true;
    ASSERT(!agent->polls.newest); /* registering follows a failed poll, or no poll at all */
    call_forget(agent, agent->polls.again);
    buf_init(&body, 1 << 20);
    struct json json = json_to(&body);
    json_object_begin(&json);
    json_put_z(&json, "name", agent->name);
    json_put_i64(&json, "slots", agent->config->slots);
    put_labels(&json, agent->config);
    if (agent->config->zone)
        json_put_z(&json, "zone", agent->config->zone);
    json_key(&json, "kinds");
    json_array_begin(&json);
    for (size_t i = 0; i < n_kinds; i++)
        json_z(&json, kinds[i]);
    json_array_end(&json);
    json_put_z(&json, "instance", agent->instance);
    put_memory(&json);
    json_put_z(&json, "host", agent->host);
    json_put_z(&json, "version", WEIR_VERSION);
    json_object_end(&json);
    agent->answer_by_ms = clock_boot_ms() + REGISTER_MS;
    client_start(agent_client(agent), "POST", "/v1/executors", buf_str(&body), "application/json", REQUEST_TIMEOUT_MS,
        registered, agent);
    buf_release(&body);
}

/* --- what an answer says --- */

/* grant_spec: the task's own spec, completed with the grant's members about its archive. */
static json_t *grant_spec(const json_t *grant)
{
    static const char *const of_key[] = { "archive", "rev", "name" };
    json_t *spec = json_object_get(grant, "spec");
    const json_t *key = json_object_get(grant, "key");
    json_t *source = json_object_get(grant, "source");
    for (size_t i = 0; spec && i < sizeof of_key / sizeof *of_key; i++)
        if (json_object_get(key, of_key[i]) && !json_object_get(spec, of_key[i]))
            json_object_set(spec, of_key[i], json_object_get(key, of_key[i]));
    if (spec && source && !json_object_get(spec, "source"))
        json_object_set(spec, "source", source);
    return spec;
}

static void start_grant(struct agent *agent, const json_t *grant)
{
    struct err err = { .code = ERR_none };
    int64_t task = member_number(grant, "task", 0);
    for (int attempt = 0; attempt < 2; attempt++) { /* an idle shim may have died unnoticed: the second one is new */
        struct shim_handle *handle = agent_idle_handle(agent);
        if (handle && shim_handle_start(handle, task, kind_text(grant, "fence"), grant_spec(grant), &err))
            return;
        log_error("job.start", "task=%" PRId64 " error=%s", task,
            log_quote(str_of(handle ? err.text : "there is no shim")).z);
        if (handle)
            shim_handle_retire(handle); /* the record isn't believed: no shim has started it */
    }
    agent->sick_until_ms = loop_now(agent->loop) + SICK_MS; /* the task goes back; don't get it again at once */
}

static void take_grant(struct agent *agent, const json_t *grant)
{
    int64_t task = member_number(grant, "task", 0);
    struct str fence = kind_text(grant, "fence");
    if (task <= 0 || fence.len == 0 || fence.len > FENCE_MAX || memchr(fence.ptr, '\0', fence.len)) {
        log_warn("grant.unreadable", "task=%" PRId64, task);
        return;
    }
    if (agent->stopping || agent_find(agent, fence))
        return; /* a grant that isn't renewed goes back; or the answer is a repeated one, and the job is here already */
    if (agent_running(agent) < (size_t)agent->config->slots) {
        start_grant(agent, grant);
        return;
    }
    struct grant_ahead *ahead = mem_alloc(sizeof *ahead);
    *ahead = (struct grant_ahead){ .grant = json_incref((json_t *)(uintptr_t)grant) };
    list_append(&agent->ahead.grants, &ahead->node);
    agent->ahead.until_ms = loop_now(agent->loop) + AHEAD_MS;
}

static void ahead_free(struct grant_ahead *ahead)
{
    json_decref(ahead->grant);
    mem_free(ahead);
}

void agent_forget_ahead(struct agent *agent)
{
    for (struct list_node *node; (node = list_take_first(&agent->ahead.grants));)
        ahead_free(CONTAINER_OF(node, struct grant_ahead, node));
}

static void start_ahead(struct agent *agent)
{
    while (agent->ahead.grants.first && agent_running(agent) < (size_t)agent->config->slots) {
        struct grant_ahead *ahead = CONTAINER_OF(list_take_first(&agent->ahead.grants), struct grant_ahead, node);
        start_grant(agent, ahead->grant);
        ahead_free(ahead);
        arena_reset(&agent->scratch);
    }
}

static void take_cancel(struct agent *agent, const json_t *cancel)
{
    static const struct {
        const char *name;
        int signo;
    } signals[] = { { "TERM", SIGTERM }, { "HUP", SIGHUP }, { "KILL", SIGKILL } };
    struct shim_handle *handle = agent_find(agent, kind_text(cancel, "fence"));
    if (!handle)
        return;
    if (str_eqz(kind_text(cancel, "reason"), "stale_fence")) {
        log_event("task.stale", "task=%lld", (long long)handle->task);
        shim_handle_drop(handle);
        return;
    }
    int signo = SIGTERM;
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        if (str_eqz(kind_text(cancel, "signal"), signals[i].name))
            signo = signals[i].signo;
    int64_t stop_ms = json_integer_value(json_object_get(cancel, "stop_ms"));
    shim_handle_signal(handle, signo, stop_ms > 0 ? stop_ms : handle->grace_ms, OUTCOME_none);
}

static void each_member(
    struct agent *agent, const json_t *answer, const char *key, void (*take)(struct agent *, const json_t *))
{
    const json_t *list = json_object_get(answer, key);
    for (size_t i = 0, n = json_array_size(list); i < n; i++)
        take(agent, json_array_get(list, i));
}

static void take_results(struct poll_call *call, const json_t *answer)
{
    const json_t *results = json_object_get(answer, "results");
    bool all = json_array_size(results) == call->n_told;
    if (answer && !all)
        log_warn("server.answer", "error=\"%zu results for %zu ends\"", json_array_size(results), call->n_told);
    for (size_t i = 0; i < call->n_told; i++) {
        const json_t *result = all ? json_array_get(results, i) : NULL;
        struct shim_handle *handle = call->told[i];
        if (handle->state == HANDLE_ENDED && handle->told) /* the job may have been dropped meanwhile */
            report_result(handle, result ? (int)member_number(result, "status", 200) : 503, kind_text(result, "code"));
    }
}

static void poll_answer(struct agent *agent, struct poll_call *call, const json_t *answer)
{
    bool newest = agent->polls.newest == call;
    int64_t lease_ms = member_number(answer, "lease_ms", agent->lease_ms);
    if (lease_ms >= 100 && lease_ms <= 86400000)
        agent->lease_ms = lease_ms;
    agent_answered(agent, call->sent_ms);
    agent->refusals = 0;
    agent->careful = agent->careful && !newest;
    struct str seen = kind_text(answer, "seen");
    /* the newest answer counts, even if it names an older event than the one before */
    if (newest && seen.len > 0 && seen.len < sizeof agent->polls.seen) {
        memcpy(agent->polls.seen, seen.ptr, seen.len);
        agent->polls.seen[seen.len] = '\0';
    }
    take_results(call, answer);
    if (newest) {
        struct str state = kind_text(answer, "state");
        agent->draining = str_starts(state, STR("drain"));
        each_member(agent, answer, "grants", take_grant);
        arena_reset(&agent->scratch);
    }
    each_member(agent, answer, "cancels", take_cancel);
    if (newest) {
        bool full = agent_running(agent) >= (size_t)agent->config->slots;
        agent->polls.long_at_ms = full ? loop_now(agent->loop) + LISTEN_PAUSE_MS : 0;
    }
    for (size_t i = 0; i < agent->n_handles; i++)
        shim_handle_lease(agent->handles[i]);
}

/* call_in_doubt: does it carry an end whose log bytes the server may have had in memory only? Then it isn't sent again
 * as it was: those bytes have to be sent before the end. */
static bool call_in_doubt(const struct poll_call *call)
{
    for (size_t i = 0; i < call->n_told; i++)
        if (!call->told[i]->log_dead && report_before_end(call->told[i]) > call->told[i]->durable)
            return true;
    return false;
}

/* ends_apart: the server can't read a request that carries ends. One of them may be the reason: from now on each is
 * sent by itself, so that the bad one harms no other (report_result then sends it bare). */
static void ends_apart(struct agent *agent, struct poll_call *call, int status)
{
    log_warn("ends.refused", "status=%d ends=%zu", status, call->n_told);
    for (size_t i = 0; i < call->n_told; i++)
        call->told[i]->alone = true;
    call_forget(agent, call);
}

static void poll_refused(
    struct agent *agent, struct poll_call *call, const struct client_response *response, struct err *err)
{
    if (response->status != 0)
        client_problem(response, err);
    bool unreadable = report_unreadable(response->status);
    if (unreadable && call->n_told > 0) {
        ends_apart(agent, call, response->status);
        return; /* the next poll is sent at once, without them */
    }
    /* 403: another token has it now */
    if (unreadable || response->status == 404 || response->status == 409 || response->status == 403) {
        log_event("executor.unknown", "id=%s status=%d code=%s", agent->id, response->status, err_name(err->code));
        /* the store was restored, or the server doesn't understand us: register again */
        agent->registered = false;
        agent->refusals++;
        call_forget(agent, call);
    } else if ((response->status != 0 || err->code == ERR_body_too_large) && ++call->unread >= UNREAD_MAX) {
        log_warn("poll.given_up", "seq=%" PRId64 " status=%d", call->seq, response->status);
        agent->careful = true; /* its answers can't be read: the grants in them go back, and the next asks for one */
        call_forget(agent, call);
    } else {
        agent->polls.newest = NULL;
        agent->polls.again = call;
        if (call_in_doubt(call))
            call_forget(agent, call);
    }
    agent_failed(agent, "poll", err);
}

static void polled(struct client_response *response, struct err *err, void *owner)
{
    struct poll_call *call = owner;
    struct agent *agent = call->agent;
    json_t *answer = response->status / 100 == 2 ? answer_parse(response) : NULL;
    if (!answer && agent->polls.newest == call) {
        poll_refused(agent, call, response, err);
        return;
    }
    if (answer)
        poll_answer(agent, call, answer);
    json_decref(answer);
    call_free(agent, call);
    agent_check_end(agent);
}

/* ends_told: the answer to ends that were sent beside the poll. Failed ones are sent again a little later. */
static void ends_told(struct client_response *response, struct err *err, void *owner)
{
    struct poll_call *call = owner;
    struct agent *agent = call->agent;
    json_t *answer = response->status / 100 == 2 ? answer_parse(response) : NULL;
    bool unreadable = report_unreadable(response->status);
    if (unreadable && call->n_told > 1) {
        ends_apart(agent, call, response->status);
    } else if (unreadable && call->told[0]->state == HANDLE_ENDED && call->told[0]->told) {
        client_problem(response, err);
        report_result(call->told[0], response->status, str_of(err_name(err->code)));
        call_free(agent, call);
    } else {
        take_results(call, answer); /* without an answer each of them counts as 503 */
        call_free(agent, call);
    }
    json_decref(answer);
    agent_check_end(agent);
}

/* --- sending --- */

/* ahead_wanted: how many grants beyond the slots: a few milliseconds' worth of jobs. */
static int64_t ahead_wanted(const struct agent *agent)
{
    if (agent->ahead.jobs_timed < AHEAD_JOBS_KNOWN || agent->ahead.job_us > AHEAD_JOB_US)
        return 0;
    int64_t n = agent->config->slots * AHEAD_JOB_US / (agent->ahead.job_us > 100 ? agent->ahead.job_us : 100);
    return n < AHEAD_MAX ? n : AHEAD_MAX;
}

static int64_t poll_free(const struct agent *agent)
{
    int64_t slots = agent->config->slots, running = (int64_t)agent_running(agent), busy = 0;
    for (size_t i = 0; i < agent->n_handles; i++)
        busy += agent->handles[i]->state > HANDLE_IDLE;
    if (agent->stopping || agent->draining || loop_now(agent->loop) < agent->sick_until_ms)
        return 0;
    /* Ended jobs whose ends the server doesn't accept occupy shims: from some point on ask for no new ones. */
    int64_t room = 2 * slots + SPARE_HANDLES + AHEAD_MAX - busy;
    int64_t open = slots - running + ahead_wanted(agent);
    open = open < room ? open : room;
    if (agent->careful && open > 1)
        open = 1;
    return open > 0 ? open : 0;
}

static void body_renew(struct agent *agent, struct json *json)
{
    json_key(json, "renew");
    json_array_begin(json);
    for (size_t i = 0; i < agent->n_handles; i++) {
        struct shim_handle *handle = agent->handles[i];
        if (handle->state != HANDLE_RUNNING && handle->state != HANDLE_ENDED)
            continue;
        json_object_begin(json);
        json_put_i64(json, "task", handle->task);
        json_put_z(json, "fence", handle->fence);
        json_object_end(json);
    }
    json_array_end(json);
}

/* body_ends: `only`, or every end that may be sent now together with others. An end that would make the request larger
 * than the server accepts waits for the next request, unless it is the first. */
static void body_ends(struct agent *agent, struct poll_call *call, struct shim_handle *only, const char *key,
    size_t bytes_max, struct json *json)
{
    json_key(json, key);
    json_array_begin(json);
    for (size_t i = 0; i < agent->n_handles && call->n_told < ENDS_MAX; i++) {
        struct shim_handle *handle = agent->handles[i];
        struct json before = *json;
        size_t len = json->out->len;
        if (only ? handle != only : handle->alone || !report_ready(handle))
            continue;
        report_item(handle, json);
        if (json->out->len > bytes_max && call->n_told > 0) {
            handle->told = false;
            json->out->len = len;
            json->out->full = false;
            *json = before;
            break;
        }
        call->told[call->n_told++] = handle;
    }
    json_array_end(json);
}

/* lease_counts: is there a job that must end when its lease isn't renewed? */
static bool lease_counts(const struct agent *agent)
{
    for (size_t i = 0; i < agent->n_handles; i++)
        if (shim_handle_needs_lease(agent->handles[i]))
            return true;
    return false;
}

/* poll_wait: how long the server may hold a poll. The protocol allows a third of the lease. A job that must not outlive
 * its lease is ended 0.675 leases after the last answered poll was sent (shim_handle.c: lease_times). That poll may
 * have been held for a quarter of a lease; the next one is given up after 0.27 more (poll_send); what is left is for a
 * third one, which the server answers at once. */
static int64_t poll_wait(const struct agent *agent, const struct poll_call *call)
{
    if (call->quick)
        return 0;
    if (!lease_counts(agent))
        return agent->lease_ms / 4;
    return agent->unheard ? 0 : agent->lease_ms / 6;
}

static void poll_body(struct agent *agent, struct poll_call *call)
{
    call->wait_ms = poll_wait(agent, call);
    buf_reset(&agent->polls.body);
    struct json json = json_to(&agent->polls.body);
    json_object_begin(&json);
    json_put_i64(&json, "seq", call->seq);
    json_put_i64(&json, "free", agent->polls.free);
    if (agent->polls.free > 0 && ahead_wanted(agent) > 0)
        json_put_i64(&json, "ahead", ahead_wanted(agent)); /* of `free`: beyond the slots */
    if (agent->polls.seen[0] != '\0')
        json_put_z(&json, "seen", agent->polls.seen);
    json_put_i64(&json, "wait_ms", call->wait_ms);
    body_renew(agent, &json);
    if (call->quick)
        body_ends(agent, call, NULL, "finishes", POLL_BYTES_MAX, &json);
    json_object_end(&json);
}

static void poll_send(struct agent *agent, struct poll_call *call)
{
    struct str path = str_fmt(&agent->scratch, "/v1/executors/%s/poll", agent->id);
    /* A held poll is given up early: the one after it must still be answered before jobs that hold a slot are ended. */
    int64_t patience_ms = agent->lease_ms / (call->wait_ms == 0 ? 4 : 10);
    int64_t least_ms = lease_counts(agent) ? HELD_PATIENCE_MIN_MS : PATIENCE_MIN_MS;
    patience_ms = patience_ms > least_ms ? patience_ms : least_ms;
    call->sent_ms = clock_boot_ms();
    agent->answer_by_ms = call->sent_ms + call->wait_ms + patience_ms;
    agent->polls.newest = call;
    agent->polls.again = NULL;
    client_start(agent_client(agent), "POST", str_dupz(&agent->scratch, path), buf_str(&agent->polls.body),
        "application/json", call->wait_ms + patience_ms, polled, call);
    arena_reset(&agent->scratch);
}

static struct poll_call *call_new(struct agent *agent)
{
    struct poll_call *call = mem_alloc(sizeof *call);
    *call = (struct poll_call){ .agent = agent };
    list_append(&agent->polls.all, &call->node);
    call->told = mem_alloc((agent->n_handles + 1) * sizeof *call->told);
    return call;
}

static void poll_new(struct agent *agent, bool ends)
{
    struct poll_call *call = call_new(agent);
    call->seq = ++agent->polls.seq;
    call->quick = ends;
    agent->polls.free = poll_free(agent);
    poll_body(agent, call);
    poll_send(agent, call);
}

static void ends_send(struct agent *agent, struct shim_handle *only)
{
    struct poll_call *call = call_new(agent);
    struct buf body;
    buf_init(&body, POLL_BYTES_MAX);
    struct json json = json_to(&body);
    json_object_begin(&json);
    body_ends(agent, call, only, "items", ENDS_BYTES_MAX, &json);
    json_object_end(&json);
    agent->polls.ends = call;
    client_start(agent_client(agent), "POST", "/v1/finishes", buf_str(&body), "application/json", REQUEST_TIMEOUT_MS,
        ends_told, call);
    buf_release(&body);
}

static bool poll_has_ends(const struct agent *agent)
{
    for (size_t i = 0; i < agent->n_handles; i++)
        if (report_ready(agent->handles[i]) && !agent->handles[i]->alone)
            return true;
    return false;
}

static struct shim_handle *end_alone(const struct agent *agent)
{
    for (size_t i = 0; i < agent->n_handles; i++)
        if (agent->handles[i]->alone && report_ready(agent->handles[i]))
            return agent->handles[i];
    return NULL;
}

/* hellos_missing: the first poll names the jobs that are here, so it waits until adopted shims have said whether their
 * jobs ever started. */
static bool hellos_missing(const struct agent *agent)
{
    if (loop_now(agent->loop) >= agent->found_ms + HELLO_MS)
        return false;
    for (size_t i = 0; i < agent->n_handles; i++)
        if (agent->handles[i]->unheard)
            return true;
    return false;
}

bool agent_poll_if_due(struct agent *agent, int64_t *out_next)
{
    *out_next = INT64_MAX;
    if (hellos_missing(agent)) {
        *out_next = agent->found_ms + HELLO_MS;
        return false;
    }
    if (agent->retry.node.pos > 0 || !agent->registered)
        return false;
    if (agent->polls.again) {
        if (poll_wait(agent, agent->polls.again) < agent->polls.again->wait_ms)
            poll_body(agent, agent->polls.again); /* the same with a shorter wait; a poll that waits carries no ends */
        poll_send(agent, agent->polls.again);
        return true;
    }
    struct shim_handle *alone = agent->polls.ends ? NULL : end_alone(agent);
    if (alone)
        ends_send(agent, alone);
    start_ahead(agent);
    if (agent->ahead.grants.first && loop_now(agent->loop) < agent->ahead.until_ms) {
        *out_next = agent->ahead.until_ms;
        return false;
    }
    if (agent->ahead.grants.first) {
        agent_forget_ahead(agent);
        agent->ahead.jobs_timed = 0; /* jobs aren't that short any more: measure again */
    }
    bool ends = poll_has_ends(agent);
    if (agent->polls.newest && agent->polls.newest->quick)
        return false;
    if (agent->polls.newest && agent->polls.free > 0) {
        if (ends && !agent->polls.ends)
            ends_send(agent, NULL);
        return false;
    }
    if (agent->polls.newest && !ends && poll_free(agent) == 0)
        return false;
    if (!agent->polls.newest && !ends && loop_now(agent->loop) < agent->polls.long_at_ms) {
        *out_next = agent->polls.long_at_ms;
        return false;
    }
    poll_new(agent, ends); /* an older poll ends by itself; polls.newest says whose answer counts */
    return true;
}
