/* tenants: who shares the site, what each has, and what each may have. */
#include "cmd/command.h"
#include "cmd/session.h"
#include "cmd/task_text.h"

const struct command_spec tenants_spec = {
    .name = "tenants",
    .operands = "",
    .summary = "the tenants: what each has, and what it may have",
    .description = "The site's admin sees all tenants, everybody else the own one. Quotas stand under 'tenants:' in weir.yaml; 'running' "
                   "counts what executes.",
    .flags = COMMAND_CLIENT,
};

static void tenant_rows(struct table *table, const json_t *tenant)
{
    json_t *quotas = json_object_get(tenant, "quotas"), *quota;
    const char *name;
    json_object_foreach (quotas, name, quota) {
        const json_t *limit = json_object_get(quota, "limit"), *used = json_object_get(quota, "used");
        bool full = json_is_integer(limit) && json_is_integer(used) && json_integer_value(used) >= json_integer_value(limit);
        table_add(table, PAINT_BOLD, "%s", field_z(tenant, "name"));
        table_add(table, PAINT_NONE, "%s", name);
        if (json_is_integer(used))
            table_add(table, full ? PAINT_YELLOW : PAINT_NONE, "%lld", (long long)json_integer_value(used));
        else
            table_add(table, PAINT_NONE, "%s", "");
        if (json_is_integer(limit))
            table_add(table, PAINT_NONE, "%lld", (long long)json_integer_value(limit));
        else
            table_add(table, PAINT_DIM, "%s", "-");
    }
}

int tenants_main(int argc, char **argv)
{
    struct session s;
    int status = session_open(&s, &tenants_spec, argc, argv);
    if (status != OPTIONS_RUN)
        return status;
    bool more;
    json_t *tenants = session_pages(&s, "/v1/tenants", "tenants", 0, &more);
    if (!tenants)
        return session_close(&s, s.status);
    if (s.json) {
        session_print(&s, tenants);
    } else {
        struct table table;
        const json_t *tenant;
        size_t i;
        table_init(&table, &s.arena, "TENANT|WHAT|>USED|>LIMIT");
        json_array_foreach (tenants, i, tenant)
            tenant_rows(&table, tenant);
        table_print(&table, &s.term, stdout, 0);
    }
    json_decref(tenants);
    return session_close(&s, 0);
}
