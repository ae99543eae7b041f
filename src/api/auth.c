/* auth: who the client of a request is, and what it may do.
 *
 * Three ways in: the unix socket and loopback by the peer's uid (the server's own or root; loopback only while no token
 * exists), everything else by a bearer token. Tokens are 256 random bits; only their BLAKE2b hash is stored, looked up
 * by its first bytes and compared in constant time. It fails with 401 for any token that isn't valid, without saying
 * why, 429 when one source keeps guessing, 403 for a scope that is missing or a request that a foreign web page
 * sent, 421 for a foreign Host. */
#include <arpa/inet.h>
#include <sodium.h>
#include <string.h>
#include <unistd.h>

#include "api/call.h"
#include "io/clock.h"
#include "io/log.h"

enum { TENANT_NAME_MAX = 100, EXPIRY_LOOK_MS = 1000 };
enum { SCOPES_ALL = SCOPE_READ | SCOPE_ENQUEUE | SCOPE_EXECUTE | SCOPE_ADMIN };

const struct scope_name scope_names[4] = {
    { "read", SCOPE_READ },
    { "enqueue", SCOPE_ENQUEUE },
    { "execute", SCOPE_EXECUTE },
    { "admin", SCOPE_ADMIN },
};

void auth_token_hash(struct str token, uint8_t out[32])
{
    crypto_generichash(out, 32, (const unsigned char *)token.ptr, token.len, NULL, 0);
}

void auth_release(struct api *api)
{
    smap_release(&api->tenants.by_name);
    arena_release(&api->tenants.arena);
}

bool tenants_current(const struct api *api)
{
    return api->tenants.known && api->tenants.version == engine_site_version(api->config.engine);
}

/* tenants_take: what stands in these keys; their texts are the tenants' arena's. */
static bool tenants_take(struct api *api, const struct site_read *site, struct err *err)
{
    struct conf_tenants conf = { 0 };
    for (size_t i = 0; i < site->n; i++)
        if (str_eqz(site->keys[i].name, "tenants") &&
            !conf_tenants_parse(site->keys[i].body, &api->tenants.arena, &conf))
            return err_set(err, ERR_corrupt, "the stored key 'tenants' of the site can't be read");
    for (size_t i = 0; i < conf.n; i++) {
        struct api_tenant *tenant = ARENA_NEW(&api->tenants.arena, struct api_tenant);
        tenant->requests = conf.items[i].quotas[QUOTA_requests];
        tenant->files = conf.items[i].quotas[QUOTA_files];
        tenant->runs_limited = conf.items[i].quotas[QUOTA_running] >= 0;
        smap_put(&api->tenants.by_name, conf.items[i].name, tenant);
    }
    api->tenants.version = site->version;
    api->tenants.known = true;
    return true;
}

static void tenants_forget(struct api *api)
{
    smap_clear(&api->tenants.by_name);
    arena_reset(&api->tenants.arena);
    api->tenants.known = false;
}

/* When the engine says that the site's keys changed. */
bool tenants_refresh(struct api *api, struct err *err)
{
    struct site_read site = { .version = engine_site_version(api->config.engine) };
    if (tenants_current(api))
        return true;
    /* it has waited for them (call_misses): those that were known last hold until others are */
    if (api->read_threads != NULL)
        return api->tenants.known ||
               err_set(err, ERR_unavailable, "the store can't be read: it isn't known yet who the tenants are");
    tenants_forget(api);
    return reader_site(api->config.reader, &api->tenants.arena, &site.keys, &site.n, err) &&
           tenants_take(api, &site, err);
}

bool site_look(struct api *own, struct arena *arena, void *out)
{
    struct site_read *site = out;
    struct err ignored = { .code = ERR_none };
    site->version = engine_site_version(own->config.engine);
    return reader_site(own->config.reader, arena, &site->keys, &site->n, &ignored);
}

void site_looked(struct api *api, void *out)
{
    const struct site_read *site = out;
    struct err err = { .code = ERR_none };
    tenants_forget(api);
    for (size_t i = 0; i < site->n; i++)
        site->keys[i].body = str_dup(&api->tenants.arena, site->keys[i].body);
    if (!tenants_take(api, site, &err))
        log_warn("site.unreadable", "error=%s", log_quote(str_of(err.text)).z);
    wait_for_commit_check(api);
}

uint64_t auth_source(const struct http_peer *peer)
{
    struct str text = str_of(peer->address);
    ptrdiff_t port = str_rindex(text, ':');
    bool six = text.len > 0 && text.ptr[0] == '[';
    char host[INET6_ADDRSTRLEN + 1] = "";
    unsigned char bytes[16] = { 0 };
    static const unsigned char mapped[12] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff };
    if (peer->local || port < 0)
        return (uint64_t)peer->uid + 1;
    struct str name = six ? str_sub(text, 1, (size_t)port - 1) : str_sub(text, 0, (size_t)port);
    memcpy(host, name.ptr, name.len < sizeof host ? name.len : sizeof host - 1);
    if (!six || inet_pton(AF_INET6, host, bytes) != 1)
        return str_hash(name);
    if (memcmp(bytes, mapped, sizeof mapped) == 0) { /* an IPv4 address at a socket for both */
        char four[INET_ADDRSTRLEN];
        return str_hash(str_of(inet_ntop(AF_INET, bytes + 12, four, sizeof four)));
    }
    return str_hash((struct str){ (const char *)bytes, 8 });
}

/* guesses_of: the bad tokens of this source in this second; others of the same place are forgotten. */
static struct guesses *guesses_of(struct api *api, const struct http_peer *peer)
{
    uint64_t source = auth_source(peer);
    struct guesses *guesses = &api->guesses[source % GUESS_SOURCES];
    int64_t second = loop_now(api->config.loop) / 1000;
    if (guesses->source != source || guesses->second != second)
        *guesses = (struct guesses){ .source = source, .second = second };
    return guesses;
}

static bool token_refused(struct call *call)
{
    if (++guesses_of(call->api, &call->request->peer)->n > GUESSES_PER_SECOND)
        return call_refuse(call, ERR_too_many, "too many requests with tokens that aren't valid");
    return call_refuse(call, ERR_unauthorized, "this needs a valid token: Authorization: Bearer TOKEN");
}

/* --- what has to be read of who asks --- */

struct call_asker {
    struct fence fence; /* of the grant whose job asks; 0: none */
    bool job, permitted;
    struct str tenant; /* that somebody names, and of which no token and no key tells */
    bool tenant_lanes; /* it has lanes */
};

static bool asker_read(struct call *call)
{
    struct call_asker *asker = call->asker;
    if (asker->tenant.len > 0) {
        asker->tenant_lanes = tenant_has_lanes(call->api, asker->tenant);
        return true;
    }
    asker->job = job_token_check(call, asker->fence);
    asker->permitted = asker->job && job_token_permits(call);
    return true;
}

static struct call_asker *asker_of(struct call *call)
{
    if (call->asker == NULL)
        call->asker = ARENA_NEW(&call->arena, struct call_asker);
    return call->asker;
}

/* asker_ask: true: a thread reads it; the call is served from the beginning when that is done. */
static bool asker_ask(struct call *call)
{
    return call->api->read_threads != NULL ? call_read(call, asker_read, call_serve) : !asker_read(call);
}

/* job_check: is its job running? False and *out_waits: it is served from the beginning when that was read. */
static bool job_check(struct call *call, struct fence fence, bool *out_waits)
{
    struct call_asker *asker = asker_of(call);
    if (asker->fence.task == 0) {
        asker->fence = fence;
        *out_waits = asker_ask(call);
    }
    return !*out_waits && asker->job;
}

static bool lanes_check(struct call *call, struct str tenant, bool *out_waits)
{
    struct call_asker *asker = asker_of(call);
    if (!str_eq(asker->tenant, tenant) || call->api->read_threads == NULL) {
        asker->tenant = str_dup(&call->arena, tenant);
        *out_waits = asker_ask(call);
    }
    return !*out_waits && asker->tenant_lanes;
}

/* It may have been made at another server just now. */
static bool token_unknown(struct call *call)
{
    bool over = guesses_of(call->api, &call->request->peer)->n >= GUESSES_PER_SECOND;
    return !over && call_follows(call) ? false : token_refused(call);
}

static bool token_check(struct call *call, struct str authorization)
{
    struct str scheme = str_sub(authorization, 0, 7);
    if (scheme.len < 7 || strncasecmp(scheme.ptr, "Bearer ", 7) != 0)
        return token_refused(call);
    struct str text = str_trim(str_sub(authorization, 7, authorization.len));
    struct fence fence;
    bool waits = false;
    if (job_token_is(call->api, text, &fence) && job_check(call, fence, &waits))
        return true;
    if (waits)
        return false;
    uint8_t hash[32];
    auth_token_hash(text, hash);
    struct token token;
    if (!engine_token(call->api->config.engine, hash, &call->arena, &token) ||
        sodium_memcmp(token.hash, hash, sizeof hash) != 0)
        return token_unknown(call);
    if (token.expires > 0 && token.expires <= engine_late(call->api->config.engine))
        return token_refused(call);
    call->token = token.id;
    call->token_expires = token.expires;
    call->actor.name = str_fmt(&call->arena, "token:%.*s", STR_ARG(token.name));
    call->actor.tenant = token.tenant;
    call->scopes = token.scopes & SCOPE_ADMIN ? SCOPES_ALL : token.scopes;
    return true;
}

static struct str host_name(struct str host)
{
    if (host.len > 0 && host.ptr[0] == '[') {
        ptrdiff_t end = str_index(host, ']');
        return end < 0 ? (struct str){ 0 } : str_sub(host, 1, (size_t)end);
    }
    ptrdiff_t colon = str_rindex(host, ':');
    return colon < 0 ? host : str_sub(host, 0, (size_t)colon);
}

/* host_is_own: a web page whose name was bound to 127.0.0.1 sends its own name. */
static bool host_is_own(struct str host)
{
    struct str name = host_name(host);
    char z[64];
    unsigned char address[16];
    if (name.len == 9 && strncasecmp(name.ptr, "localhost", 9) == 0)
        return true;
    if (name.len == 0 || name.len >= sizeof z)
        return false;
    memcpy(z, name.ptr, name.len);
    z[name.len] = '\0';
    return inet_pton(AF_INET, z, address) == 1 || inet_pton(AF_INET6, z, address) == 1;
}

static bool peer_is_own(const struct http_peer *peer)
{
    static uid_t own = (uid_t)-1; /* a server doesn't change its user */
    if (own == (uid_t)-1)
        own = geteuid();
    return peer->uid_known && (peer->uid == own || peer->uid == 0);
}

static bool peer_check(struct call *call)
{
    const struct http_peer *peer = &call->request->peer;
    bool own = peer_is_own(peer) && (peer->local || (peer->loopback && !engine_has_tokens(call->api->config.engine)));
    if (!own)
        return call_refuse(call, ERR_unauthorized, "this needs a token: Authorization: Bearer TOKEN");
    struct str host = http_header(call->request, "Host");
    if (!peer->local && host.len > 0 && !host_is_own(host))
        return call_refuse(call, ERR_misdirected,
            "without a token this server answers as localhost or by its address, not as '%.*s'",
            STR_ARG(str_sub(host, 0, 100)));
    /* peer_is_own: there are no others */
    call->actor.name = peer->uid == 0 ? STR("uid:0") : str_of(call->api->uid_text);
    call->actor.tenant = STR("default");
    call->scopes = SCOPES_ALL;
    return true;
}

/* origin_check: a browser says which page sends a request; other sites' pages change nothing here. */
static bool origin_check(struct call *call)
{
    if (str_eqz(call->request->method, "GET") || str_eqz(call->request->method, "HEAD"))
        return true;
    struct str origin = http_header(call->request, "Origin");
    if (origin.len == 0)
        return true;
    struct str host = http_header(call->request, "Host");
    ptrdiff_t slashes = str_index(origin, ':');
    struct str authority = slashes < 0 ? (struct str){ 0 } : str_sub(origin, (size_t)slashes + 3, origin.len);
    if (host.len > 0 && str_eq(authority, host))
        return true;
    return call_refuse(call, ERR_forbidden, "requests of other sites' pages are refused (Origin: %.*s)",
        STR_ARG(str_sub(origin, 0, 100)));
}

const char *scope_text(unsigned scope)
{
    for (size_t i = 0; i < sizeof scope_names / sizeof scope_names[0]; i++)
        if (scope_names[i].bit == scope)
            return scope_names[i].name;
    return NULL;
}

/* tenant_check: the site's admin may speak for a tenant, by a parameter or a header; to others the tenant of their
 * token is all there is. */
static bool tenant_check(struct call *call)
{
    struct str name = http_header(call->request, "Weir-Tenant");
    bool given = call_param_str(call, "tenant", &name) || name.len > 0;
    call->site = !call->job && call->scopes & SCOPE_ADMIN && str_eqz(call->actor.tenant, TENANT_DEFAULT);
    if (!given || (!call->site && str_eq(name, call->actor.tenant)))
        return true;
    if (!call->site)
        return call_refuse(call, ERR_forbidden,
            "only the site's admin names a tenant: a token of the tenant 'default' with the scope 'admin'");
    bool waits = false;
    if (!str_eqz(name, TENANT_DEFAULT) &&
        smap_find(&call->api->tenants.by_name, str_sub(name, 0, TENANT_NAME_MAX)) == NULL &&
        !engine_tenant_has_token(call->api->config.engine, name) && !lanes_check(call, name, &waits)) {
        if (waits || call_follows(call))
            return false;
        return call_refuse(call, ERR_not_found,
            "there is no tenant '%.*s': it is there with its first token, or by 'tenants:' in weir.yaml",
            STR_ARG(str_sub(name, 0, TENANT_NAME_MAX)));
    }
    call->actor.tenant = str_dup(&call->arena, name);
    call->tenant_named = true;
    return true;
}

/* rate_check: requests of a tenant by the second, at this server; not those of executors, whose leases hang on them. */
static bool rate_check(struct call *call, unsigned needed)
{
    struct api_tenant *tenant =
        call->api->tenants.by_name.n > 0 ? smap_find(&call->api->tenants.by_name, call->actor.tenant) : NULL;
    if (tenant == NULL || tenant->requests < 0 || needed == SCOPE_EXECUTE)
        return true;
    int64_t second = loop_now(call->api->config.loop) / 1000;
    if (tenant->second != second)
        tenant->second = second, tenant->n = 0;
    if (++tenant->n <= tenant->requests)
        return true;
    return call_refuse(call, ERR_quota_exceeded,
        "the tenant '%.*s' may ask %lld times a second; tenants.%.*s.quotas.requests is the limit",
        STR_ARG(call->actor.tenant), (long long)tenant->requests, STR_ARG(call->actor.tenant));
}

static bool site_check(struct call *call)
{
    if (call->site)
        return true;
    return call_refuse(
        call, ERR_forbidden, "this needs the site's admin: a token of the tenant 'default' with the scope 'admin'");
}

static bool asker_check(struct call *call)
{
    struct str authorization = http_header(call->request, "Authorization");
    call->token = 0;
    call->tokens_version = engine_tokens_version(call->api->config.engine);
    if (!tenants_refresh(call->api, &call->err))
        return call_problem(call);
    return authorization.len > 0 ? token_check(call, authorization) : peer_check(call);
}

/* --- what goes on after it was let in --- */

/* call_good: is the token that a stream or a long poll was opened with still good? Without one: a process of this user
 * that came by TCP while there was no token. A job's token ends with its attempt, and so does what it may follow. */
static bool call_good(const struct call *call)
{
    struct engine *engine = call->api->config.engine;
    if (call->token == 0)
        return call->job != 0 || call->request->peer.local || !engine_has_tokens(engine);
    bool lives = call->token_expires == 0 || call->token_expires > engine_late(engine);
    return lives && engine_token_stands(engine, call->token);
}

/* call_cut: a stream ends, or breaks off when its client would take a part for the whole; a poll is refused at once,
 * and its command is granted nothing any more. */
static void call_cut(struct call *call)
{
    struct http_request *request = call->request;
    if (call->streams) {
        (call->follows ? call_stream_end : call_stream_break)(call);
        return;
    }
    err_set(&call->err, ERR_unauthorized, "the token was revoked, or has expired");
    buf_reset(&call->out);
    problem_render(&call->out, &call->err);
    request->gone = NULL;
    request->user = NULL;
    call->request = NULL;
    call->on_gone(call);
    http_answer(request, err_http(ERR_unauthorized), "application/problem+json", buf_str(&call->out), NULL);
}

static bool call_lasts(const struct call *call)
{
    return call->request != NULL && (call->streams || (call->submitted && call->on_gone != NULL));
}

/* streams_cut: those whose token isn't good; the timer stands at the first that will expire. Looks at every call, when
 * tokens have changed and when one may have expired: as many as there are connections, which the server limits
 * (io/http.h). */
static void streams_cut(struct api *api)
{
    int64_t first = INT64_MAX;
    api->streams_version = engine_tokens_version(api->config.engine);
    for (struct list_node *node = api->calls.first, *next; node != NULL; node = next) {
        struct call *call = CONTAINER_OF(node, struct call, node);
        next = node->next;
        if (!call_lasts(call) || call->on_thread != NULL) /* auth_lasts */
            continue;
        if (!call_good(call))
            call_cut(call);
        else if (call->token_expires > 0 && call->token_expires < first)
            first = call->token_expires;
    }
    int64_t left = first == INT64_MAX ? -1 : first - clock_wall_ms();
    if (left >= 0) /* the wall clock may be set meanwhile: not later than that */
        loop_arm(api->config.loop, &api->token_expiry,
            loop_now(api->config.loop) + (left < EXPIRY_LOOK_MS ? left + 1 : EXPIRY_LOOK_MS));
}

bool auth_lasts(struct call *call)
{
    bool good = call_good(call);
    if (!good)
        call_cut(call);
    return good;
}

void auth_streams_look(struct api *api)
{
    if (api->streams_version != engine_tokens_version(api->config.engine))
        streams_cut(api);
}

void auth_expiry_due(struct loop_timer *timer)
{
    streams_cut(timer->owner);
}

void auth_stream_began(struct call *call)
{
    struct api *api = call->api;
    if (call->token_expires > 0 && api->token_expiry.node.pos == 0)
        loop_arm(api->config.loop, &api->token_expiry, loop_now(api->config.loop));
}

bool auth_stands(struct call *call)
{
    struct actor actor = call->actor; /* the tenant may be one that was named */
    if (call->route->scope == SCOPE_OPEN || call->tokens_version == engine_tokens_version(call->api->config.engine))
        return true;
    if (!asker_check(call))
        return false;
    call->actor = actor;
    return true;
}

bool auth_check(struct call *call)
{
    unsigned needed = call->route != NULL ? call->route->scope : SCOPE_READ;
    if (needed == SCOPE_OPEN)
        return true;
    if (!asker_check(call) || !origin_check(call) || !tenant_check(call) || !rate_check(call, needed))
        return false;
    if (call->job && !call->asker->permitted)
        return call_refuse(call, ERR_forbidden,
            "a job's token is good for its own task %lld, those it depends on, and for posting tasks",
            (long long)call->job);
    if (needed == SCOPE_SITE)
        return site_check(call);
    if (call->route != NULL && !(call->scopes & needed))
        return call_refuse(call, ERR_forbidden, "this needs a token with the scope '%s'", scope_text(needed));
    return true;
}
