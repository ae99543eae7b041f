/* quota: see quota.h. */
#include "core/quota.h"

#include "base/arena.h"

static const struct {
    const char *things, *remedy;
} quota_texts[QUOTA_COUNT] = {
    [QUOTA_tasks] = { "open tasks", "try again when some have ended" },
    [QUOTA_archives] = { "archives", "remove one: weir archive remove" },
    [QUOTA_queues] = { "queues", "use one that is there" },
    [QUOTA_semaphores] = { "semaphores and concurrency keys", "use one that is there" },
    [QUOTA_tokens] = { "tokens", "revoke one: weir token revoke" },
    [QUOTA_executors] = { "executors", "use the name of one that is there" },
    [QUOTA_logs] = { "bytes of logs", "clear away what is old: weir history prune --older-than 30d" },
    [QUOTA_files] = { "bytes of artifacts", "clear away what is old: weir history prune --older-than 30d" },
};

bool quota_allows(const struct quota_ask *ask)
{
    int64_t used = ask->used > 0 ? ask->used : 0;
    if (ask->limit < 0 || ask->more <= 0)
        return true;
    return used <= ask->limit && ask->more <= ask->limit - used; /* not used + more, which may overflow */
}

enum err_code quota_error(enum quota quota)
{
    return quota == QUOTA_tasks ? ERR_quota_exceeded : ERR_quota_full;
}

struct str quota_refusal(const struct quota_ask *ask, struct str tenant, struct arena *arena)
{
    ASSERT(quota_texts[ask->quota].things);
    struct str asked =
        ask->more > 1 ? str_fmt(arena, ", and this is %lld more", (long long)ask->more) : (struct str){ 0 };
    return str_fmt(arena, "the tenant '%.*s' has %lld of %lld %s%.*s; %s, or have tenants.%.*s.quotas.%s raised",
        STR_ARG(tenant), (long long)ask->used, (long long)ask->limit, quota_texts[ask->quota].things, STR_ARG(asked),
        quota_texts[ask->quota].remedy, STR_ARG(tenant), quota_name(ask->quota));
}

int64_t quota_open_tasks(const struct lane *lane)
{
    return lane->counts[STATE_Q] + lane->counts[STATE_S] + lane->counts[STATE_P] + lane->counts[STATE_X];
}

int64_t quota_bytes_add(int64_t bytes, int64_t more)
{
    return more > 0 && more < INT64_MAX / 2 - bytes ? bytes + more : bytes;
}

int64_t quota_bytes_drop(int64_t bytes, int64_t fewer)
{
    return bytes - (fewer < bytes ? fewer : bytes);
}
