/* quota: may a tenant have so many more of something? Pure: from the limit and what the tenant has to yes, or to the
 * error and the sentence of the refusal. Limits and counts are the caller's (engine/quota.c).
 *
 * `running` and `requests` aren't asked about here: running tasks are limited by a slot, requests by the API. */
#ifndef WEIR_CORE_QUOTA_H
#define WEIR_CORE_QUOTA_H

#include "base/err.h"
#include "core/model.h"

struct quota_ask {
    enum quota quota;
    int64_t limit; /* -1: none */
    int64_t used;  /* what the tenant has; more than the limit where that was lowered since */
    int64_t more;  /* what it asks for; 0 or less: nothing, which is always allowed */
};

bool quota_allows(const struct quota_ask *ask);
/* The error of a refusal: quota_exceeded when waiting helps, quota_full when somebody has to clear something away. */
enum err_code quota_error(enum quota quota);
/* The sentence of a refusal, in the arena: the numbers, and what to do. */
struct str quota_refusal(const struct quota_ask *ask, struct str tenant, struct arena *arena);

int64_t quota_open_tasks(const struct lane *lane); /* tasks that count: those that haven't ended */
/* Kept bytes after `more` came: clients report sizes, so a sum that could overflow is left as it is. */
int64_t quota_bytes_add(int64_t bytes, int64_t more);
/* Kept bytes after `fewer` went: never below 0. */
int64_t quota_bytes_drop(int64_t bytes, int64_t fewer);

#endif
