/* task_doc: what a task can say, in a workflow or posted: the table of its keys (task_doc.def) at work. */
#include "text/task_doc.h"

#include "text/json.h"
#include "text/workflow_read.h"

/* KEY_TEXT: a string; a bare number or truth value of JSON isn't one */
enum { KEY_NOT_IN_DEFAULTS = 1, KEY_IN_COMMIT = 2, KEY_POLICY = 4, KEY_TEXT = 8 };
enum { IN_WORKFLOW = 1, IN_QUEUE = 2, IDLE_IN_QUEUE = 4 };
enum {
    WORKFLOW = IN_WORKFLOW,
    QUEUE = IN_QUEUE,
    BOTH = IN_WORKFLOW | IN_QUEUE,
    IDLE = IN_WORKFLOW | IN_QUEUE | IDLE_IN_QUEUE
};

#define ANY "\"title\":\"JSON\""
#define TEXT "\"type\":\"string\""
#define WORD "\"type\":[\"string\",\"number\"]"
#define BOOLEAN "\"type\":\"boolean\""
#define TEXTS "\"oneOf\":[{" TEXT "},{\"type\":\"array\",\"items\":{" WORD "}}]"
#define VALUES "\"type\":\"object\",\"additionalProperties\":{\"type\":[\"string\",\"number\",\"boolean\"]}"
#define DURATION "\"type\":\"string\",\"pattern\":\"^([0-9]+(ms|s|m|h|d))+$\""
#define SIZE "\"type\":\"string\",\"pattern\":\"^[0-9]+(B|KiB|MiB|GiB|TiB)$\""
#define NAME "\"type\":\"string\",\"pattern\":\"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$\""
#define TIME "\"type\":\"string\",\"format\":\"date-time\""
#define REFS \
    "\"oneOf\":[{\"$ref\":\"#/$defs/reference\"},{\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/reference\"}}]"
#define TASKS REFS
#define MINUTES \
    "\"oneOf\":[{\"$ref\":\"#/$defs/minutes\"},{\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/minutes\"}}]"
#define ON "\"$ref\":\"#/$defs/on\""

#define MEMBER(member) offsetof(struct workflow_task, member)
#define OWN(name) .form = { .read = value_##name }
#define TRUTH_IN(member) .form = { form_truth, MEMBER(member), 0, 0 }
#define INTEGER_IN(member, min, max) .form = { form_integer, MEMBER(member), min, max }
#define LINE_IN(member) .form = { form_line, MEMBER(member), 0, 0 }
#define DURATION_IN(member, min, max) .form = { form_duration, MEMBER(member), min, max }
#define TEMPLATE_IN(member) .form = { form_template, MEMBER(member), 0, 0 }
#define MINUTES_IN(member) .form = { form_minutes, MEMBER(member), 0, 0 }

static const struct key_row {
    struct str name;
    unsigned where, flags;
    struct task_form form;
    const char *schema; /* JSON, without braces around it */
    const char *sentence;
} keys[] = {
#define KEY(name, where, flags, form, schema, sentence) \
    { { #name, sizeof #name - 1 }, where, flags, form, schema, sentence },
#include "text/task_doc.def"
#undef KEY
};
enum { N_KEYS = sizeof keys / sizeof keys[0] };

static const struct key_row *key_find(struct str name)
{
    for (size_t i = 0; i < N_KEYS; i++)
        if (str_eq(name, keys[i].name))
            return &keys[i];
    return NULL;
}

static void key_unknown(struct task_read *r, const struct doc_node *key)
{
    unsigned here = r->place == TASK_IN_QUEUE ? IN_QUEUE : IN_WORKFLOW;
    struct str names[N_KEYS];
    size_t n = 0;
    for (size_t i = 0; i < N_KEYS; i++)
        if ((keys[i].where & here) != 0)
            names[n++] = keys[i].name;
    node_unknown(&r->context, key, names, n);
}

/* asks_nothing: the value with which a key might as well not be there. */
static bool asks_nothing(const struct doc_node *value)
{
    return value->kind == NODE_SCALAR && (str_eqz(value->text, "false") || str_eqz(value->text, "none"));
}

/* policy_tell: a key that is reserved for a policy which this version doesn't carry out: never dropped in silence. */
static void policy_tell(struct task_read *r, const struct doc_node *name, const struct doc_node *value)
{
    if (asks_nothing(value))
        return;
    if (r->read->input->policies)
        diag_warning(r->context.diags, node_place(&r->context, name),
            "'%s' is reserved: servers of this version refuse it", r->key);
    else
        node_fault(&r->context, name, "'%s' is reserved: this version doesn't carry it out yet", r->key);
    diag_suggest(r->context.diags, "leave it out; a later version will know it");
}

/* key_fits: may it stand here? */
static bool key_fits(
    struct task_read *r, const struct key_row *key, const struct doc_node *name, const struct doc_node *value)
{
    bool queue = r->place == TASK_IN_QUEUE;
    bool json = !queue && str_ends(r->context.file->name, STR(".json")); /* where 5 isn't "5" */
    bool bare = value->kind == NODE_SCALAR && value->plain && !node_is_null(value);
    if (queue && (key->where & IN_QUEUE) == 0)
        return node_fault(&r->context, name, "'%s' isn't supported for queue tasks yet", key->name.ptr);
    if (!queue && (key->where & IN_WORKFLOW) == 0)
        return node_fault(
            &r->context, name, "'%s' is for tasks that are posted: these are their archive's", key->name.ptr);
    if (r->place == TASK_COMMIT && (key->flags & KEY_IN_COMMIT) == 0)
        return node_fault(&r->context, name, "COMMIT takes nothing but 'depends'");
    if (r->place == TASK_IN_DEFAULTS && (key->flags & KEY_NOT_IN_DEFAULTS) != 0)
        return node_fault(&r->context, name, "'%s' can't stand in 'defaults': each task says its own", key->name.ptr);
    if (json && bare && (key->flags & KEY_TEXT) != 0)
        return node_fault(
            &r->context, value, "'%s' must be a string, not %.*s", key->name.ptr, STR_ARG(diag_shown(value->text)));
    return true;
}

void task_read_keys(struct task_read *r, const struct doc_node *mapping)
{
    for (size_t i = 0; i < mapping->n; i++) {
        const struct doc_node *name = mapping->pairs[i].key, *value = mapping->pairs[i].value;
        const struct key_row *key = key_find(name->text);
        if (key == NULL)
            key_unknown(r, name);
        bool null_counts = r->place == TASK_IN_QUEUE && key != NULL && key->form.read == value_data;
        if (key == NULL || !key_fits(r, key, name, value) || (node_is_null(value) && !null_counts))
            continue;
        r->key = key->name.ptr;
        r->form = &key->form;
        if (!key->form.read(r, value))
            continue;
        if (r->place == TASK_IN_QUEUE && (key->where & IDLE_IN_QUEUE) != 0 && !asks_nothing(value))
            node_fault(&r->context, value, "'%s' isn't supported for queue tasks yet", r->key);
        else if (r->place != TASK_IN_QUEUE && (key->flags & KEY_POLICY) != 0)
            policy_tell(r, name, value);
    }
}

bool task_doc_row(size_t i, struct task_doc_row *out)
{
    if (i >= N_KEYS)
        return false;
    *out = (struct task_doc_row){ keys[i].name.ptr, keys[i].sentence, (keys[i].where & IN_WORKFLOW) != 0,
        (keys[i].where & (IN_QUEUE | IDLE_IN_QUEUE)) == IN_QUEUE, (keys[i].flags & KEY_POLICY) != 0 };
    return true;
}

/* --- posted tasks --- */

struct workflow_task task_doc_empty(void)
{
    return (struct workflow_task){ .checkout = true,
        .grace_ms = -1,
        .attempts_max = 3,
        .backoff_ms = 5000,
        .retry_on = RETRY_LOST | RETRY_TEMPORARY | RETRY_KILLED,
        .triggers = TRIGGER_COMMIT };
}

void task_doc_posted(const struct node_context *context, const struct doc_node *node, struct workflow_task *out,
    struct task_links *links)
{
    struct task_read r = { .context = *context, .place = TASK_IN_QUEUE, .task = out };
    *out = task_doc_empty();
    out->queue = STR("default");
    if (node->kind != NODE_MAPPING) {
        node_fault(context, node, "a task must be an object, not %s", node_found(context, node));
        return;
    }
    task_read_keys(&r, node);
    const struct doc_node *name = node_find(node, STR("name"));
    if (name == NULL || node_is_null(name))
        node_missing(context, node, "name", "'name' is required");
    if (r.command != NULL && r.script != NULL)
        node_fault(context, r.script, "'command' and 'script' exclude each other");
    if (out->shell.len > 0 && r.script == NULL)
        node_fault(context, node_find(node, STR("shell")), "'shell' needs 'script'");
    if (out->image.len > 0 && r.command == NULL && r.script == NULL)
        node_fault(context, node_find(node, STR("image")), "'image' needs 'command' or 'script'");
    out->checkout = true; /* there is nothing to check out; `false` may be said */
    *links = (struct task_links){ r.depends, r.after, r.cancels, out->allow_failure };
}

/* --- what an executor gets --- */

static void words_write(struct json *json, const char *key, const struct workflow_words *words)
{
    if (words->n == 0)
        return;
    json_key(json, key);
    json_array_begin(json);
    for (size_t i = 0; i < words->n; i++)
        json_str(json, words->items[i]);
    json_array_end(json);
}

static void env_write(struct json *json, const struct workflow_pairs *env)
{
    if (env->n == 0)
        return;
    json_key(json, "env");
    json_object_begin(json);
    for (size_t i = 0; i < env->n; i++) {
        json_key_str(json, env->items[i].name);
        json_str(json, env->items[i].value);
    }
    json_object_end(json);
}

static void limits_write(struct json *json, const struct task_limits *limits)
{
    const struct {
        const char *name;
        int64_t value;
    } rows[] = {
        { "memory", limits->memory_bytes },
        { "pids", limits->pids },
        { "cpu_s", (limits->cpu_ms + 999) / 1000 },
        { "files", limits->files },
        { "file_bytes", limits->file_bytes },
        { "disk_bytes", limits->disk_bytes },
    };
    bool any = false;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i].value == 0)
            continue;
        if (!any) {
            json_key(json, "limits");
            json_object_begin(json);
        }
        any = true;
        json_put_i64(json, rows[i].name, rows[i].value);
    }
    if (any)
        json_object_end(json);
}

void task_doc_body(struct buf *out, const struct workflow_task *task)
{
    struct json json = json_to(out);
    json_object_begin(&json);
    words_write(&json, "command", &task->command);
    if (task->script.ptr != NULL)
        json_put_str(&json, "script", task->script);
    if (task->shell.len > 0 && task->script.ptr != NULL)
        json_put_str(&json, "shell", task->shell);
    if (task->image.len > 0)
        json_put_str(&json, "image", task->image);
    env_write(&json, &task->env);
    if (task->timeout_ms > 0)
        json_put_i64(&json, "timeout_ms", task->timeout_ms);
    if (task->grace_ms >= 0)
        json_put_i64(&json, "grace_ms", task->grace_ms);
    if (task->data.len > 0) {
        json_key(&json, "data");
        json_raw(&json, task->data);
    }
    limits_write(&json, &task->limits);
    if (!task->checkout)
        json_put_bool(&json, "checkout", false);
    if (task->sandbox == WORKFLOW_SANDBOX_STRICT)
        json_put_z(&json, "sandbox", "strict");
    words_write(&json, "artifacts", &task->artifacts);
    json_object_end(&json);
}

/* --- the schema --- */

static void schema_task(struct json *json, const char *required, bool defaults)
{
    json_object_begin(json);
    json_put_z(json, "type", "object");
    json_key(json, "additionalProperties");
    json_bool(json, false);
    if (required != NULL) {
        json_key(json, "required");
        json_array_begin(json);
        json_z(json, required);
        json_array_end(json);
    }
    json_key(json, "properties");
    json_object_begin(json);
    for (size_t i = 0; i < N_KEYS; i++) {
        if ((keys[i].where & IN_WORKFLOW) == 0 || (defaults && (keys[i].flags & KEY_NOT_IN_DEFAULTS) != 0))
            continue;
        struct buf row;
        buf_init(&row, 4000);
        const char *reserved = (keys[i].flags & KEY_POLICY) != 0 ? "Reserved for a later version: " : "";
        buf_addf(&row, "{\"description\":\"%s%s\",%s}", reserved, keys[i].sentence, keys[i].schema);
        json_key_str(json, keys[i].name);
        json_raw(json, buf_str(&row));
        buf_release(&row);
    }
    json_object_end(json);
    json_object_end(json);
}

void workflow_schema(struct buf *out)
{
    buf_add_z(out,
        "{\"$schema\":\"https://json-schema.org/draft/2020-12/schema\",\"title\":\"Weir workflow\",\"oneOf\":["
        "{\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/task\"}},"
        "{\"type\":\"object\",\"additionalProperties\":false,\"properties\":{\"on\":{\"$ref\":\"#/$defs/on\"},"
        "\"defaults\":{\"$ref\":\"#/$defs/defaults\"},"
        "\"semaphores\":{\"type\":\"object\",\"additionalProperties\":{\"type\":\"integer\",\"minimum\":1}},"
        "\"workflow\":{\"$ref\":\"#/$defs/steps\"},"
        "\"tasks\":{\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/task\"}},"
        "\"jobs\":{\"type\":\"object\",\"additionalProperties\":{\"oneOf\":[{\"type\":\"null\"},{\"$ref\":\"#/$defs/"
        "job\"}]}}}}],"
        "\"$defs\":{\"reference\":{\"oneOf\":[{\"type\":\"string\"},{\"type\":\"object\",\"additionalProperties\":"
        "false,"
        "\"required\":[\"task\"],\"properties\":{\"task\":{\"type\":\"string\"},\"on\":{\"enum\":[\"success\","
        "\"finished\"]}}}]},"
        "\"minutes\":{\"oneOf\":[{\"type\":\"string\"},{\"type\":\"object\",\"additionalProperties\":false,"
        "\"required\":[\"cron\"],"
        "\"properties\":{\"cron\":{\"type\":\"string\"},\"tz\":{\"type\":\"string\"}}}]},"
        "\"trigger\":{\"oneOf\":[{\"enum\":[\"commit\",\"manual\",\"schedule\"]},{\"type\":\"object\","
        "\"additionalProperties\":false,"
        "\"required\":[\"message\"],\"properties\":{\"message\":{\"type\":\"string\"}}}]},"
        "\"on\":{\"oneOf\":[{\"$ref\":\"#/$defs/trigger\"},{\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/"
        "trigger\"}}]},"
        "\"steps\":{\"type\":\"array\",\"items\":{\"oneOf\":[{\"type\":\"string\"},{\"type\":\"object\","
        "\"additionalProperties\":false,\"minProperties\":1,\"maxProperties\":1,\"properties\":{\"parallel\":{\"$ref\":"
        "\"#/$defs/steps\"},"
        "\"sequence\":{\"$ref\":\"#/$defs/steps\"}}}]}},\"task\":");
    struct json json = json_to(out);
    schema_task(&json, "name", false);
    buf_add_z(out, ",\"job\":");
    json = json_to(out);
    schema_task(&json, NULL, false);
    buf_add_z(out, ",\"defaults\":");
    json = json_to(out);
    schema_task(&json, NULL, true);
    buf_add_z(out, "}}\n");
}
