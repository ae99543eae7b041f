/* auth: who asks, and what that one may do.
 *
 * Three ways in: the unix socket and loopback by the peer's uid (the server's own or root; loopback only while no token exists), everything
 * else by a bearer token. Tokens are 256 random bits; only their BLAKE2b hash is stored, looked up by its first bytes and compared in
 * constant time. It fails with 401 for any token that isn't good, without saying why it isn't, 429 when one source keeps guessing, 403 for
 * a scope that is missing or a request that a foreign web page sent, 421 for a foreign Host. */
#include <arpa/inet.h>
#include <sodium.h>
#include <string.h>
#include <unistd.h>

#include "api/call.h"
#include "io/clock.h"
#include "io/log.h"

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

static uint64_t hash_head(const uint8_t *hash)
{
    uint64_t head;
    memcpy(&head, hash, sizeof head);
    return head;
}

void auth_release(struct api *api)
{
    map_release(&api->tokens);
    arena_release(&api->tokens_arena);
}

/* tokens_refresh: the copy is read again when the engine says that tokens changed. */
static bool tokens_refresh(struct api *api, struct err *err)
{
    uint64_t version = engine_tokens_version(api->config.engine);
    if (api->tokens_known && version == api->tokens_version)
        return true;
    map_clear(&api->tokens);
    arena_reset(&api->tokens_arena);
    struct token **tokens;
    size_t n;
    if (!reader_tokens(api->config.reader, &api->tokens_arena, &tokens, &n, err)) {
        api->tokens_known = false;
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        struct token_entry *entry = ARENA_NEW(&api->tokens_arena, struct token_entry);
        entry->token = *tokens[i];
        entry->actor = str_fmt(&api->tokens_arena, "token:%.*s", STR_ARG(tokens[i]->name));
        map_put(&api->tokens, hash_head(entry->token.hash), entry);
    }
    api->n_tokens = n;
    api->tokens_version = version;
    api->tokens_known = true;
    return true;
}

/* guess_counted: one more bad token of this source; true: too many in this second. */
static bool guess_counted(struct api *api, const struct http_peer *peer)
{
    uint64_t source = peer->local ? (uint64_t)peer->uid + 1 : str_hash(str_of(peer->address));
    struct guesses *guesses = &api->guesses[source % GUESS_SOURCES];
    int64_t second = loop_now(api->config.loop) / 1000;
    if (guesses->source != source || guesses->second != second)
        *guesses = (struct guesses){ .source = source, .second = second };
    return ++guesses->n > GUESSES_PER_SECOND;
}

static bool token_refused(struct call *call)
{
    if (guess_counted(call->api, &call->request->peer))
        call_refuse(call, ERR_too_many, "too many requests with tokens that aren't valid");
    else
        call_refuse(call, ERR_unauthorized, "this needs a valid token: Authorization: Bearer TOKEN");
    return false;
}

static bool token_check(struct call *call, struct str authorization)
{
    struct str scheme = str_sub(authorization, 0, 7);
    if (scheme.len < 7 || strncasecmp(scheme.ptr, "Bearer ", 7) != 0)
        return token_refused(call);
    struct str text = str_trim(str_sub(authorization, 7, authorization.len));
    if (job_token_check(call, text))
        return true;
    uint8_t hash[32];
    auth_token_hash(text, hash);
    const struct token_entry *entry = map_find(&call->api->tokens, hash_head(hash));
    if (entry == NULL || sodium_memcmp(entry->token.hash, hash, sizeof hash) != 0)
        return token_refused(call);
    if (entry->token.expires > 0 && entry->token.expires <= clock_wall_ms())
        return token_refused(call);
    call->actor.name = str_dup(&call->arena, entry->actor);
    call->actor.tenant = str_dup(&call->arena, entry->token.tenant);
    call->scopes = entry->token.scopes & SCOPE_ADMIN ? SCOPES_ALL : entry->token.scopes;
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
    bool own = peer_is_own(peer) && (peer->local || (peer->loopback && call->api->n_tokens == 0));
    if (!own) {
        call_refuse(call, ERR_unauthorized, "this needs a token: Authorization: Bearer TOKEN");
        return false;
    }
    struct str host = http_header(call->request, "Host");
    if (!peer->local && host.len > 0 && !host_is_own(host)) {
        call_refuse(call, ERR_misdirected, "without a token this server answers as localhost or by its address, not as '%.*s'",
            STR_ARG(str_sub(host, 0, 100)));
        return false;
    }
    call->actor.name = peer->uid == 0 ? STR("uid:0") : str_of(call->api->uid_text); /* peer_is_own: there are no others */
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
    call_refuse(call, ERR_forbidden, "requests of other sites' pages are refused (Origin: %.*s)", STR_ARG(str_sub(origin, 0, 100)));
    return false;
}

static const char *scope_text(unsigned scope)
{
    for (size_t i = 0; i < sizeof scope_names / sizeof scope_names[0]; i++)
        if (scope_names[i].bit == scope)
            return scope_names[i].name;
    return "";
}

bool auth_check(struct call *call)
{
    unsigned needed = call->route != NULL ? call->route->scope : SCOPE_READ;
    if (needed == SCOPE_OPEN)
        return true;
    if (!tokens_refresh(call->api, &call->err)) {
        call_problem(call);
        return false;
    }
    struct str authorization = http_header(call->request, "Authorization");
    if (!(authorization.len > 0 ? token_check(call, authorization) : peer_check(call)) || !origin_check(call))
        return false;
    if (call->job && !job_token_permits(call)) {
        call_refuse(call, ERR_forbidden, "a job's token is good for its own task %lld and for posting tasks", (long long)call->job);
        return false;
    }
    if (call->route != NULL && !(call->scopes & needed)) {
        call_refuse(call, ERR_forbidden, "this needs a token with the scope '%s'", scope_text(needed));
        return false;
    }
    return true;
}
