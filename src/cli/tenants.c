/* tenants: the tenants of the site, what each uses, and its quotas. */
#include "cli/command.h"
#include "cli/session.h"
#include "cli/task_text.h"

static void tenant_rows(struct table *table, const json_t *tenant)
{
    json_t *quotas = json_object_get(tenant, "quotas"), *quota;
    const char *name;
    json_object_foreach (quotas, name, quota) {
        const json_t *limit = json_object_get(quota, "limit"), *used = json_object_get(quota, "used");
        bool full =
            json_is_integer(limit) && json_is_integer(used) && json_integer_value(used) >= json_integer_value(limit);
        table_add(table, PAINT_BOLD, "%s", field_z(tenant, "name"));
        table_add(table, PAINT_NONE, "%s", name);
        table_add(table, full ? PAINT_YELLOW : PAINT_NONE, json_is_integer(used) ? "%lld" : "",
            (long long)json_integer_value(used));
        table_add(table, json_is_integer(limit) ? PAINT_NONE : PAINT_DIM, json_is_integer(limit) ? "%lld" : "-",
            (long long)json_integer_value(limit));
    }
}

void tenants_print(struct session *s, const json_t *tenants)
{
    struct table table;
    const json_t *tenant;
    size_t i;
    table_init(&table, &s->arena, "TENANT|WHAT|>USED|>LIMIT");
    json_array_foreach (tenants, i, tenant)
        tenant_rows(&table, tenant);
    table_print(&table, &s->term, stdout, 0);
}
