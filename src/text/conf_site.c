/* conf_site: see conf_site.h.
 *
 * Owns which keys are the site's. Promises that a body which was written is read back as the same values, and that a
 * document with any fault changes nothing. */
#include "text/conf_site.h"

#include <string.h>

#include "base/when.h"
#include "text/conf_value.h"
#include "text/json.h"

/* --- the keys --- */

static void semaphores_write(struct buf *out, const struct site_conf *conf)
{
    conf_semaphores_write(out, &conf->semaphores);
}

static void tenants_write(struct buf *out, const struct site_conf *conf)
{
    conf_tenants_write(out, &conf->tenants);
}

static void retention_write(struct buf *out, const struct site_conf *conf)
{
    struct json json = json_to(out);
    json_object_begin(&json);
    if (conf->history_ms > 0)
        json_put_z(&json, "history", duration_format(conf->history_ms).z);
    json_object_end(&json);
}

static void changesets_write(struct buf *out, const struct site_conf *conf)
{
    conf_changesets_write(out, &conf->changesets);
}

static void targets_write(struct buf *out, const struct site_conf *conf)
{
    conf_targets_write(out, &conf->targets);
}

static bool semaphores_set(const struct node_context *context, const struct doc_node *node, struct site_conf *out)
{
    return conf_semaphores_set(context, "semaphores", node, &out->semaphores);
}

static bool tenants_set(const struct node_context *context, const struct doc_node *node, struct site_conf *out)
{
    return conf_tenants_set(context, node, &out->tenants);
}

static bool retention_set(const struct node_context *context, const struct doc_node *node, struct site_conf *out)
{
    struct conf conf = { 0 };
    bool good = conf_section_set(context, node, "retention", &conf);
    out->history_ms = conf.history_ms;
    return good;
}

static bool changesets_set(const struct node_context *context, const struct doc_node *node, struct site_conf *out)
{
    struct conf conf = { 0 };
    bool good = conf_section_set(context, node, "changesets", &conf);
    out->changesets = conf.changesets;
    return good;
}

static bool targets_set(const struct node_context *context, const struct doc_node *node, struct site_conf *out)
{
    return conf_targets_set(context, node, &out->targets);
}

static const struct {
    const char *name;
    void (*write)(struct buf *out, const struct site_conf *conf);
    bool (*set)(const struct node_context *context, const struct doc_node *node, struct site_conf *out);
} keys[SITE_KEYS] = {
    [SITE_SEMAPHORES] = { "semaphores", semaphores_write, semaphores_set },
    [SITE_TENANTS] = { "tenants", tenants_write, tenants_set },
    [SITE_RETENTION] = { "retention", retention_write, retention_set },
    [SITE_CHANGESETS] = { "changesets", changesets_write, changesets_set },
    [SITE_TARGETS] = { "targets", targets_write, targets_set },
};

const char *site_key_name(size_t key)
{
    return keys[key].name;
}

void site_key_write(struct buf *out, const struct site_conf *conf, size_t key)
{
    (keys[key].write)(out, conf); /* not the failure point of that name */
}

/* body_parse: what the store has; NULL: not our words. */
static const struct doc_node *body_parse(struct str body, struct node_context *context)
{
    struct diag_file *file = ARENA_NEW(context->arena, struct diag_file);
    struct diags *diags = ARENA_NEW(context->arena, struct diags);
    *file = (struct diag_file){ STR("site.json"), str_dup(context->arena, body) };
    diags->arena = context->arena;
    context->file = file;
    context->diags = diags;
    return body.len <= NODE_FILE_BYTES_MAX ? node_parse(file, context->arena, diags) : NULL;
}

bool site_key_parse(struct str body, size_t key, struct arena *arena, struct site_conf *out)
{
    struct node_context context = { .arena = arena };
    const struct doc_node *node = body_parse(body, &context);
    return node != NULL && keys[key].set(&context, node, out);
}

bool conf_tenants_parse(struct str text, struct arena *arena, struct conf_tenants *out)
{
    struct site_conf site = { 0 };
    bool good = site_key_parse(text, SITE_TENANTS, arena, &site);
    *out = site.tenants;
    return good;
}

bool site_fits(const struct site_conf *conf, size_t key)
{
    struct arena arena = { 0 };
    struct site_conf again;
    struct buf text;
    buf_init(&text, NODE_FILE_BYTES_MAX);
    site_key_write(&text, conf, key);
    bool fits = !text.full && site_key_parse(buf_str(&text), key, &arena, &again);
    buf_release(&text);
    arena_release(&arena);
    return fits;
}

void site_copy(struct arena *arena, const struct site_conf *from, struct site_conf *out)
{
    struct buf text;
    buf_init(&text, SIZE_MAX);
    *out = (struct site_conf){ .silent = from->silent };
    for (size_t k = 0; k < SITE_KEYS; k++) {
        buf_reset(&text);
        site_key_write(&text, from, k);
        bool good = site_key_parse(buf_str(&text), k, arena, out);
        ASSERT(good); /* our own words */
    }
    buf_release(&text);
}

/* --- of files --- */

/* section_of: the first part of a dotted key. */
static struct str section_of(const char *key)
{
    struct str rest = str_of(key), first = { 0 };
    (void)str_cut(&rest, '.', &first);
    return first;
}

void site_of(const struct conf *conf, struct site_conf *out)
{
    *out = (struct site_conf){ .semaphores = conf->semaphores,
        .tenants = conf->tenants,
        .history_ms = conf->history_ms,
        .changesets = conf->changesets,
        .targets = conf->targets,
        .silent = (1U << SITE_KEYS) - 1 };
    for (size_t i = 0; conf_setting_key(i) != NULL; i++)
        for (size_t k = 0; k < SITE_KEYS; k++)
            if (conf->values[i].origin != CONF_DEFAULT && !conf_setting_is_own(i) &&
                str_eqz(section_of(conf_setting_key(i)), keys[k].name))
                out->silent &= ~(1U << k);
}

/* foreign_say: the fault of a key that isn't the site's: a node key, a key of a later version, or an unknown one. */
static void foreign_say(const struct node_context *context, const struct doc_node *key)
{
    static const char *const later[] = { "hooks", "resque", "screwdriver" };
    struct str known[SITE_KEYS];
    for (size_t i = 0; i < sizeof later / sizeof *later; i++)
        if (str_eqz(key->text, later[i])) {
            node_fault(context, key, "'%s' isn't supported yet: leave it out", later[i]);
            return;
        }
    for (size_t i = 0; conf_setting_key(i) != NULL; i++)
        if (str_eq(key->text, section_of(conf_setting_key(i)))) {
            node_fault(context, key, "'%.*s' is one server's, not the site's: it stands in that server's weir.yaml",
                STR_ARG(key->text));
            return;
        }
    for (size_t k = 0; k < SITE_KEYS; k++)
        known[k] = str_of(keys[k].name);
    node_unknown(context, key, known, SITE_KEYS);
}

bool site_parse(const struct diag_file *file, struct arena *arena, struct diags *diags, struct site_conf *out)
{
    size_t before = diags->n_errors;
    struct node_context context = { file, arena, diags, NULL };
    struct node_reader reader; /* for the sentence when it isn't a mapping */
    *out = (struct site_conf){ .history_ms = -1, .silent = (1U << SITE_KEYS) - 1 };
    const struct doc_node *root = node_parse(file, arena, diags);
    if (root != NULL && !node_is_null(root) && node_read_begin(&reader, &context, root, "the file"))
        for (size_t i = 0; i < root->n; i++) {
            const struct node_pair *pair = &root->pairs[i];
            size_t k = 0;
            while (k < SITE_KEYS && !str_eqz(pair->key->text, keys[k].name))
                k++;
            if (k == SITE_KEYS) {
                foreign_say(&context, pair->key);
                continue;
            }
            out->silent &= ~(1U << k);
            if (!node_is_null(pair->value) && keys[k].set(&context, pair->value, out) && !site_fits(out, k))
                node_fault(&context, pair->key,
                    "'%s' is too large: with everything written out it must stay below 1 MiB", keys[k].name);
        }
    diags_sort(diags);
    return diags->n_errors == before;
}

/* --- what is different --- */

struct changes_list {
    struct arena *arena;
    struct site_change *items;
    size_t n, cap;
};

static struct str shown(struct arena *arena, const struct doc_node *node)
{
    return node != NULL ? conf_value_show(arena, node) : (struct str){ 0 };
}

static void compare(
    struct changes_list *list, struct str path, const struct doc_node *before, const struct doc_node *after)
{
    bool deeper = before != NULL && after != NULL && before->kind == NODE_MAPPING && after->kind == NODE_MAPPING;
    if (!deeper) {
        struct str was = shown(list->arena, before), is = shown(list->arena, after);
        if (!str_eq(was, is))
            *ARENA_PUSH(list->arena, list->items, list->n, list->cap) = (struct site_change){ path, was, is };
        return;
    }
    for (size_t i = 0; i < before->n; i++) {
        struct str name = before->pairs[i].key->text;
        compare(list, str_fmt(list->arena, "%.*s.%.*s", STR_ARG(path), STR_ARG(name)), before->pairs[i].value,
            node_find(after, name));
    }
    for (size_t i = 0; i < after->n; i++) {
        struct str name = after->pairs[i].key->text;
        if (node_find(before, name) == NULL)
            compare(list, str_fmt(list->arena, "%.*s.%.*s", STR_ARG(path), STR_ARG(name)), NULL, after->pairs[i].value);
    }
}

size_t site_changes(struct arena *arena, size_t key, struct str before, struct str after, struct site_change **out)
{
    struct node_context context = { .arena = arena };
    struct changes_list list = { .arena = arena };
    const struct doc_node *was = body_parse(before, &context), *is = body_parse(after, &context);
    compare(&list, str_of(keys[key].name), was, is);
    *out = list.items;
    return list.n;
}

void site_yaml(struct buf *out, struct arena *arena, size_t key, struct str body)
{
    struct node_context context = { .arena = arena };
    struct str text = shown(arena, body_parse(body, &context));
    buf_addf(out, "%s: ", keys[key].name);
    buf_add_str(out, text);
    buf_add_char(out, '\n');
}
