/* conf_value: nodes made into values of the configuration, with the checks that need no file system.
 *
 * Owns what each kind of setting accepts. Fails by diagnostics at the node; *conf is written only on success. */
#include "text/conf_value.h"

#include <stdlib.h>
#include <string.h>

#include "base/when.h"
#include "text/json.h"
#include "text/key.h"

#define LABEL_BYTES_MAX 200

bool conf_check_filled(const struct node_context *context, const struct doc_node *node, struct str text)
{
    return text.len > 0 || node_fault(context, node, "the value is empty");
}

bool conf_check_store(const struct node_context *context, const struct doc_node *node, struct str text)
{
    if (str_starts(text, STR("sqlite:///")) || str_starts(text, STR("postgresql://")) ||
        str_starts(text, STR("postgres://")))
        return true;
    node_fault(context, node, "a store is sqlite:///DIRECTORY or postgresql://...");
    if (str_starts(text, STR("/")))
        diag_suggest(context->diags, "did you mean 'sqlite://%.*s'?", STR_ARG(diag_shown(text)));
    return false;
}

bool conf_check_coordination(const struct node_context *context, const struct doc_node *node, struct str text)
{
    struct str hosts = str_sub(text, sizeof "zookeeper://" - 1, text.len);
    if (str_starts(text, STR("zookeeper://")) && hosts.len > 0 && hosts.ptr[0] != '/')
        return true;
    return node_fault(context, node, "a coordination service is zookeeper://HOST:PORT,HOST:PORT/PATH");
}

bool conf_check_name(const struct node_context *context, const struct doc_node *node, struct str text)
{
    struct err err = { 0 };
    return name_check(text, "given", &err) || node_fault(context, node, "%s", err.text);
}

bool conf_check_listen(const struct node_context *context, const struct doc_node *node, struct str text)
{
    ptrdiff_t colon = str_rindex(text, ':');
    struct str host = colon < 0 ? text : str_sub(text, 0, (size_t)colon);
    int64_t port = -1;
    bool ported =
        colon >= 0 && str_to_i64(str_sub(text, (size_t)colon + 1, text.len), &port) && port >= 0 && port <= 65535;
    bool bracketed = host.len > 2 && host.ptr[0] == '[' && host.ptr[host.len - 1] == ']';
    bool plain = host.len > 0 && host.ptr[0] != '[' && str_index(host, ':') < 0;
    if (ported && (bracketed || plain))
        return true;
    node_fault(context, node, "an address to listen on is HOST:PORT with a port from 0 to 65535, or [IPV6]:PORT");
    if (str_to_i64(text, &port) && port >= 0 && port <= 65535)
        diag_suggest(context->diags, "did you mean '127.0.0.1:%lld'?", (long long)port);
    else if (colon == 0 && ported)
        diag_suggest(context->diags, "did you mean '0.0.0.0%.*s'?", STR_ARG(text));
    return false;
}

bool conf_check_program(const struct node_context *context, const struct doc_node *node, struct str text)
{
    return (text.len > 1 && text.ptr[0] == '/') ||
           node_fault(context, node, "a hook is a program by its absolute path, such as /usr/local/bin/check");
}

static bool text_set(const struct node_context *context, const struct conf_setting *setting,
    const struct doc_node *node, struct str *out)
{
    struct str text;
    if (!node_str(context, node, setting->key, &text) ||
        (setting->check != NULL && !setting->check(context, node, text)))
        return false;
    *out = text;
    return true;
}

static bool path_set(const struct node_context *context, const struct conf_setting *setting,
    const struct doc_node *node, struct str cwd, struct str *out)
{
    struct str path;
    if (!node_str(context, node, setting->key, &path) || !conf_check_filled(context, node, path))
        return false;
    if (setting->none && str_eqz(path, "none")) {
        *out = (struct str){ 0 };
        return true;
    }
    while (path.len > 1 && path.ptr[path.len - 1] == '/')
        path.len--;
    bool absolute = path.ptr[0] == '/' || cwd.len == 0;
    *out = absolute ? path : str_fmt(context->arena, "%.*s/%.*s", STR_ARG(cwd), STR_ARG(path));
    return true;
}

static bool duration_set(
    const struct node_context *context, const struct conf_setting *setting, const struct doc_node *node, int64_t *out)
{
    int64_t ms;
    if (!node_duration(context, node, setting->key, &ms))
        return false;
    if (ms < setting->min || ms > setting->max) {
        struct when_text min = duration_format(setting->min), max = duration_format(setting->max);
        return node_fault(context, node, "'%s' must be from %s to %s", setting->key, min.z, max.z);
    }
    *out = ms;
    return true;
}

static bool size_set(
    const struct node_context *context, const struct conf_setting *setting, const struct doc_node *node, uint64_t *out)
{
    uint64_t bytes;
    if (!node_size(context, node, setting->key, &bytes))
        return false;
    if (bytes < (uint64_t)setting->min || bytes > (uint64_t)setting->max) {
        struct when_text min = size_format((uint64_t)setting->min), max = size_format((uint64_t)setting->max);
        return node_fault(context, node, "'%s' must be from %s to %s", setting->key, min.z, max.z);
    }
    *out = bytes;
    return true;
}

static bool list_set(const struct node_context *context, const struct conf_setting *setting,
    const struct doc_node *node, struct conf_list *out)
{
    struct conf_list list;
    bool ok = node_strs(context, node, setting->key, &list.items, &list.n);
    for (size_t i = 0; ok && setting->check != NULL && i < list.n; i++)
        ok = setting->check(context, node_list_at(node, i), list.items[i]);
    if (ok)
        *out = list;
    return ok;
}

static int label_compare(const void *a, const void *b)
{
    const struct label *x = a, *y = b;
    return str_cmp(x->name, y->name);
}

static bool label_add(const struct node_context *context, const struct doc_node *node, struct str name,
    struct str value, struct conf_labels *labels)
{
    if (!conf_check_name(context, node, name))
        return false;
    if (value.len == 0 || value.len > LABEL_BYTES_MAX)
        return node_fault(
            context, node, "the label '%.*s' needs a value of 1 to %d bytes", STR_ARG(name), LABEL_BYTES_MAX);
    if (str_has_control(value))
        return node_fault(context, node, "the label '%.*s' has a control character in its value", STR_ARG(name));
    for (size_t i = 0; i < labels->n; i++)
        if (str_eq(labels->items[i].name, name))
            return node_fault(context, node, "the label '%.*s' is given twice", STR_ARG(name));
    labels->items[labels->n++] = (struct label){ name, value };
    return true;
}

/* labels_set: {os: linux} in the file; os=linux, repeated, as option; os=linux,cc=gcc as variable. */
static bool labels_set(const struct node_context *context, const struct conf_setting *setting,
    const struct doc_node *node, struct conf_labels *out)
{
    struct conf_labels labels = { 0 };
    bool ok = true;
    if (node->kind == NODE_MAPPING) {
        labels.items = ARENA_ARRAY(context->arena, struct label, node->n);
        for (size_t i = 0; i < node->n; i++) {
            struct str value;
            ok = node_str(context, node->pairs[i].value, setting->key, &value) &&
                 label_add(context, node->pairs[i].key, node->pairs[i].key->text, value, &labels) && ok;
        }
    } else {
        struct str *texts, head;
        size_t n, n_pairs = 0;
        if (!node_strs(context, node, setting->key, &texts, &n))
            return false;
        for (size_t i = 0; i < n; i++)
            n_pairs += texts[i].len + 1;
        labels.items = ARENA_ARRAY(context->arena, struct label, n_pairs);
        for (size_t i = 0; i < n; i++) {
            while (ok && str_cut(&texts[i], ',', &head)) {
                ptrdiff_t equals = str_index(head, '=');
                if (equals < 0)
                    return node_fault(context, node, "the label '%.*s' isn't NAME=VALUE", STR_ARG(diag_shown(head)));
                ok = label_add(context, node, str_sub(head, 0, (size_t)equals),
                    str_sub(head, (size_t)equals + 1, head.len), &labels);
            }
        }
    }
    if (!ok)
        return false;
    if (labels.n > 1)
        qsort(labels.items, labels.n, sizeof labels.items[0], label_compare);
    *out = labels;
    return true;
}

static bool node_set(const struct node_context *context, const struct conf_setting *setting,
    const struct doc_node *node, const struct doc_node **out)
{
    size_t before = context->diags->n_errors;
    setting->shape(context, node);
    if (context->diags->n_errors > before)
        return false;
    *out = node;
    return true;
}

bool conf_value_set(const struct node_context *context, const struct conf_setting *setting, const struct doc_node *node,
    struct str cwd, struct conf *conf)
{
    void *at = (char *)conf + setting->offset;
    switch (setting->kind) {
    case CONF_KIND_NONE:
    case CONF_KIND_COUNT:
        break;
    case CONF_TEXT:
        return text_set(context, setting, node, at);
    case CONF_PATH:
        return path_set(context, setting, node, cwd, at);
    case CONF_COUNT:
        return node_i64(context, node, setting->key, setting->min, setting->max, at);
    case CONF_DURATION:
        return duration_set(context, setting, node, at);
    case CONF_HISTORY:
        if (node->kind != NODE_SCALAR || !str_eq(node->text, STR("forever")))
            return duration_set(context, setting, node, at);
        *(int64_t *)at = -1;
        return true;
    case CONF_SIZE:
        return size_set(context, setting, node, at);
    case CONF_LIST:
        return list_set(context, setting, node, at);
    case CONF_TRUTH:
        return node_bool(context, node, setting->key, at);
    case CONF_MOVETYPES:
        return conf_movetypes_set(context, setting->key, node, at);
    case CONF_LABELS:
        return labels_set(context, setting, node, at);
    case CONF_SEMAPHORES:
        return conf_semaphores_set(context, setting->key, node, at);
    case CONF_TENANTS:
        return conf_tenants_set(context, node, at);
    case CONF_TARGETS:
        return conf_targets_set(context, node, at);
    case CONF_NODE:
        return node_set(context, setting, node, at);
    }
    assert_failed(__FILE__, __LINE__, "a setting without a kind");
}

/* templates_shape: task templates by name; their content is a task and is checked where tasks are. */
static void templates_shape(const struct node_context *context, const struct doc_node *node, const char *what)
{
    struct node_reader reader;
    for (size_t i = 0; i < node->n; i++)
        node_read_begin(&reader, context, node->pairs[i].value, what);
}

static void resque_shape(const struct node_context *context, const struct doc_node *node)
{
    struct node_reader reader;
    struct str url, namespace, *queues;
    size_t n;
    bool scheduler;
    if (!node_read_begin(&reader, context, node, "resque"))
        return;
    const struct doc_node *at = node_read_any(&reader, "url");
    if (at == NULL)
        node_fault(context, node, "'url' is missing, such as redis://127.0.0.1:6379/0");
    else if (node_str(context, at, "url", &url) && !str_starts(url, STR("redis://")) &&
             !str_starts(url, STR("rediss://")) && !str_starts(url, STR("unix://")))
        node_fault(context, at, "'url' must begin with redis://, rediss:// or unix://");
    node_read_str(&reader, "namespace", &namespace);
    node_read_strs(&reader, "queues", &queues, &n);
    node_read_bool(&reader, "scheduler", &scheduler);
    const struct doc_node *classes = node_read_mapping(&reader, "classes");
    if (classes != NULL)
        templates_shape(context, classes, "class");
    node_read_end(&reader);
}

void conf_shape_resque(const struct node_context *context, const struct doc_node *node)
{
    if (node->kind != NODE_SEQUENCE) {
        node_fault(context, node, "'resque' must be a list, not %s", node_found(context, node));
        return;
    }
    for (size_t i = 0; i < node->n; i++)
        resque_shape(context, node->items[i]);
}

void conf_shape_screwdriver(const struct node_context *context, const struct doc_node *node)
{
    struct node_reader reader;
    if (!node_read_begin(&reader, context, node, "screwdriver"))
        return;
    node_read_mapping(&reader, "start");
    node_read_end(&reader);
}

/* password_hide: scheme://user:secret@host becomes scheme://user:***@host. */
static struct str password_hide(struct arena *arena, struct str text)
{
    for (size_t i = 0; i + 3 < text.len; i++) {
        if (memcmp(text.ptr + i, "://", 3) != 0)
            continue;
        struct str rest = str_sub(text, i + 3, text.len);
        size_t end = 0;
        while (end < rest.len && rest.ptr[end] != '/' && rest.ptr[end] != '?')
            end++;
        struct str authority = str_sub(rest, 0, end);
        ptrdiff_t at = str_rindex(authority, '@'), colon = str_index(authority, ':');
        if (at >= 0 && colon >= 0 && colon < at)
            return str_fmt(arena, "%.*s***%.*s", STR_ARG(str_sub(text, 0, i + 3 + (size_t)colon + 1)),
                STR_ARG(str_sub(rest, (size_t)at, rest.len)));
        break;
    }
    return text;
}

static bool is_bare(struct str text)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if (!char_is_alnum(c) && (c == '\0' || strchr(i > 0 ? "_./:@+=-" : "_./", c) == NULL))
            return false;
    }
    return text.len > 0 && text.ptr[text.len - 1] != ':';
}

static void value_show(struct buf *out, struct arena *arena, const struct doc_node *node)
{
    struct str text = password_hide(arena, node->text);
    struct json json = json_to(out);
    switch (node->kind) {
    case NODE_NONE:
    case NODE_KIND_COUNT:
        break;
    case NODE_SCALAR:
        if (node_is_null(node)) /* `blue:` alone */
            buf_add_z(out, "null");
        else if ((node->plain && str_eq(text, node->text) && text.len > 0) && is_bare(text))
            buf_add_str(out, text);
        else
            json_str(&json, text);
        break;
    case NODE_SEQUENCE:
        for (size_t i = 0; i < node->n; i++) {
            buf_add_z(out, i == 0 ? "[" : ", ");
            value_show(out, arena, node->items[i]);
        }
        buf_add_z(out, node->n == 0 ? "[]" : "]");
        break;
    case NODE_MAPPING:
        for (size_t i = 0; i < node->n; i++) {
            buf_add_z(out, i == 0 ? "{" : ", ");
            value_show(out, arena, node->pairs[i].key);
            buf_add_z(out, ": ");
            value_show(out, arena, node->pairs[i].value);
        }
        buf_add_z(out, node->n == 0 ? "{}" : "}");
        break;
    }
}

struct str conf_value_show(struct arena *arena, const struct doc_node *node)
{
    struct buf text;
    buf_init(&text, 16 * NODE_FILE_BYTES_MAX);
    value_show(&text, arena, node);
    return buf_move(&text, arena);
}
