/* conf_tenants: what `semaphores:` and `tenants:` of the configuration say; see conf_tenants.c for how they are
 * written. */
#ifndef WEIR_TEXT_CONF_TENANTS_H
#define WEIR_TEXT_CONF_TENANTS_H

#include "base/arena.h"
#include "base/buf.h"
#include "core/model.h"

struct conf_semaphore {
    struct str name;
    int64_t limit;
};
struct conf_semaphores {
    struct conf_semaphore *items;
    size_t n;
};
struct conf_tenant {
    struct str name;
    struct conf_semaphores semaphores; /* its own */
    int64_t quotas[QUOTA_COUNT];       /* -1: none */
};
struct conf_tenants {
    struct conf_tenant *items;
    size_t n;
};

/* What the site's keys are kept as, so that servers which share a store can compare them: JSON, the same text for the
 * same values. */
void conf_semaphores_write(struct buf *out, const struct conf_semaphores *semaphores);
void conf_tenants_write(struct buf *out, const struct conf_tenants *tenants);

#endif
