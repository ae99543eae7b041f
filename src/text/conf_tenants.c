/* conf_tenants: `semaphores:` and `tenants:`, read from weir.yaml and from what the store keeps of them.
 *
 *     tenants:
 *       red:
 *         semaphores: {licence: 2}
 *         quotas: {tasks: 10000, running: 20, logs: 10GiB}
 *
 * It promises that values which were written are read back as the same values. It fails by
 * diagnostics, in the words of the file. */
#include <string.h>

#include "text/conf_value.h"
#include "text/json.h"
#include "text/key.h"

enum { TENANTS_MAX = 1000, LIMIT_MAX = 1000000 };
#define COUNT_MAX ((int64_t)1 << 40)

bool conf_semaphores_set(
    const struct node_context *context, const char *key, const struct doc_node *node, struct conf_semaphores *out)
{
    struct node_reader reader; /* for the sentence when it isn't a mapping */
    if (!node_read_begin(&reader, context, node, key))
        return false;
    struct conf_semaphores list = { ARENA_ARRAY(context->arena, struct conf_semaphore, node->n), 0 };
    bool ok = true;
    for (size_t i = 0; i < node->n; i++) {
        const struct node_pair *pair = &node->pairs[i];
        struct conf_semaphore *item = &list.items[list.n++];
        item->name = pair->key->text;
        ok = conf_check_name(context, pair->key, item->name) && ok;
        ok = node_i64(context, pair->value, "limit of a semaphore", 1, LIMIT_MAX, &item->limit) && ok;
    }
    if (ok)
        *out = list;
    return ok;
}

static bool quotas_set(const struct node_context *context, const struct doc_node *node, struct conf_tenant *out)
{
    struct node_reader reader;
    size_t before = context->diags->n_errors;
    if (!node_read_begin(&reader, context, node, "quotas"))
        return false;
    for (int q = 0; q < QUOTA_COUNT; q++) {
        uint64_t bytes;
        if (q != QUOTA_logs && q != QUOTA_files)
            node_read_i64(&reader, quota_name((enum quota)q), q == QUOTA_requests || q == QUOTA_running ? 1 : 0,
                COUNT_MAX, &out->quotas[q]);
        else if (node_read_size(&reader, quota_name((enum quota)q), &bytes))
            out->quotas[q] = bytes < INT64_MAX ? (int64_t)bytes : INT64_MAX;
    }
    node_read_end(&reader);
    return context->diags->n_errors == before;
}

static bool tenant_set(const struct node_context *context, const struct node_pair *pair, struct conf_tenant *out)
{
    struct node_reader reader;
    *out = (struct conf_tenant){ .name = pair->key->text };
    for (int q = 0; q < QUOTA_COUNT; q++)
        out->quotas[q] = -1;
    bool ok = conf_check_name(context, pair->key, out->name);
    if (node_is_null(pair->value)) /* `red:` alone: it is there, and that is all */
        return ok;
    if (!node_read_begin(&reader, context, pair->value, "tenant"))
        return false;
    const struct doc_node *semaphores = node_read_mapping(&reader, "semaphores"),
                          *quotas = node_read_mapping(&reader, "quotas");
    if (semaphores != NULL)
        ok = conf_semaphores_set(context, "semaphores", semaphores, &out->semaphores) && ok;
    if (quotas != NULL)
        ok = quotas_set(context, quotas, out) && ok;
    node_read_end(&reader);
    return ok;
}

bool conf_tenants_set(const struct node_context *context, const struct doc_node *node, struct conf_tenants *out)
{
    struct node_reader reader;
    size_t before = context->diags->n_errors;
    if (!node_read_begin(&reader, context, node, "tenants"))
        return false;
    if (node->n > TENANTS_MAX)
        return node_fault(context, node, "'tenants' has %zu members; at most %d are taken", node->n, TENANTS_MAX);
    struct conf_tenants list = { ARENA_ARRAY(context->arena, struct conf_tenant, node->n), node->n };
    for (size_t i = 0; i < node->n; i++)
        tenant_set(context, &node->pairs[i], &list.items[i]);
    if (context->diags->n_errors > before)
        return false;
    *out = list;
    return true;
}

/* --- as the store keeps them --- */

static void semaphores_write(struct json *json, const struct conf_semaphores *semaphores)
{
    json_object_begin(json);
    for (size_t i = 0; i < semaphores->n; i++) {
        json_key_str(json, semaphores->items[i].name);
        json_i64(json, semaphores->items[i].limit);
    }
    json_object_end(json);
}

void conf_semaphores_write(struct buf *out, const struct conf_semaphores *semaphores)
{
    struct json json = json_to(out);
    semaphores_write(&json, semaphores);
}

static void quotas_write(struct json *json, const int64_t *quotas)
{
    json_key(json, "quotas");
    json_object_begin(json);
    for (int q = 0; q < QUOTA_COUNT; q++) {
        if (quotas[q] < 0)
            continue;
        json_key(json, quota_name((enum quota)q));
        if (q == QUOTA_logs || q == QUOTA_files) { /* a size has its unit */
            struct buf size;
            buf_init(&size, 32);
            buf_add_i64(&size, quotas[q]);
            buf_add_char(&size, 'B');
            json_str(json, buf_str(&size));
            buf_release(&size);
        } else {
            json_i64(json, quotas[q]);
        }
    }
    json_object_end(json);
}

void conf_tenants_write(struct buf *out, const struct conf_tenants *tenants)
{
    struct json json = json_to(out);
    json_object_begin(&json);
    for (size_t i = 0; i < tenants->n; i++) {
        json_key_str(&json, tenants->items[i].name);
        json_object_begin(&json);
        json_key(&json, "semaphores");
        semaphores_write(&json, &tenants->items[i].semaphores);
        quotas_write(&json, tenants->items[i].quotas);
        json_object_end(&json);
    }
    json_object_end(&json);
}
