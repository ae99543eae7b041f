/* workflow_key: the keys of a task, in one table. Reading, "did you mean", what may stand in `defaults` and the JSON Schema come out of it.
 */
#include "text/json.h"
#include "text/workflow_read.h"

#define STRING "\"type\":\"string\""
#define BOOLEAN "\"type\":\"boolean\""
#define STRINGS "\"oneOf\":[{" STRING "},{\"type\":\"array\",\"items\":{\"type\":[\"string\",\"number\"]}}]"
#define MAPPING "\"type\":\"object\",\"additionalProperties\":{\"type\":[\"string\",\"number\",\"boolean\"]}"
#define DURATION "\"type\":\"string\",\"pattern\":\"^([0-9]+(ms|s|m|h|d))+$\""
#define REFS "\"oneOf\":[{\"$ref\":\"#/$defs/reference\"},{\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/reference\"}}]"
#define CRONS "\"oneOf\":[{\"$ref\":\"#/$defs/minutes\"},{\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/minutes\"}}]"

static const struct workflow_key keys[] = {
    { "name", KEY_NOT_IN_DEFAULTS | KEY_IN_COMMIT | KEY_TEXT, value_name, STRING ",\"pattern\":\"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$\"",
        "The name; unique in all workflow files of the archive" },
    { "depends", KEY_NOT_IN_DEFAULTS | KEY_IN_COMMIT, value_depends, REFS,
        "Tasks that must have succeeded; of an earlier revision (PREV, PREV:NAME): ended" },
    { "after", KEY_NOT_IN_DEFAULTS, value_after, REFS, "Tasks that must have ended, whatever their end" },
    { "cancels", KEY_NOT_IN_DEFAULTS, value_cancels, REFS, "Tasks that are abandoned when this one is ready" },
    { "image", KEY_TEXT, value_image, STRING, "The container image to run in" },
    { "command", KEY_NOT_IN_DEFAULTS | KEY_TEXT, value_command, STRINGS,
        "A command, split by shell rules without a shell, or a list of arguments" },
    { "script", KEY_NOT_IN_DEFAULTS | KEY_TEXT, value_script, STRING, "Instead of a command: a script for `shell`" },
    { "shell", KEY_TEXT, value_shell, STRING, "The program that gets the script as a file" },
    { "checkout", 0, value_checkout, BOOLEAN, "Whether the working directory is the archive at the revision (default) or empty" },
    { "env", 0, value_env, MAPPING, "Environment variables" },
    { "timeout", 0, value_timeout, DURATION, "How long an attempt may take: 90s, 15m, 2h" },
    { "retry", 0, value_retry,
        "\"type\":\"object\",\"additionalProperties\":false,\"properties\":{\"attempts\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":"
        "100},"
        "\"backoff\":{" DURATION
        "},\"on\":{\"type\":\"array\",\"items\":{\"enum\":[\"lost\",\"temporary\",\"killed\",\"failed\",\"timeout\"]}}}",
        "How often it is tried, and after which ends" },
    { "lock", 0, value_lock, "\"enum\":[\"none\",\"shared\",\"exclusive\"]", "The archive's lock while it runs, in revision order" },
    { "paths", KEY_TEXT, value_paths, STRINGS, "Only when the revision touches one of these: docs/**, !docs/private/**" },
    { "priority", 0, value_priority, "\"type\":\"integer\",\"minimum\":-1000,\"maximum\":1000", "Larger first" },
    { "labels", 0, value_labels, MAPPING, "What an executor must be" },
    { "zone", KEY_TEXT, value_zone, STRING, "Where an executor must be" },
    { "semaphores", KEY_TEXT, value_semaphores, STRINGS, "Semaphores to hold while it runs" },
    { "matrix", KEY_NOT_IN_DEFAULTS | KEY_POLICY, value_matrix, "\"type\":\"object\"",
        "Values that the task is run with, in all combinations" },
    { "blocked_by", KEY_POLICY, value_blocked_by, STRINGS, "Doesn't start while one of these tasks runs, in any revision" },
    { "collapse", KEY_POLICY, value_collapse, BOOLEAN, "Runs don't overlap, and waiting ones give way to the newest" },
    { "unique", KEY_TEXT, value_unique, STRING, "A second not-yet-started task with this key isn't created" },
    { "concurrency", KEY_TEXT, value_concurrency, STRING, "At most one running task with this key" },
    { "freeze", KEY_POLICY, value_freeze, CRONS, "Minutes in which it doesn't start" },
    { "window", KEY_POLICY, value_window, CRONS, "Minutes in which alone it starts" },
    { "schedule", KEY_NOT_IN_DEFAULTS, value_schedule, CRONS, "When it is started by the clock" },
    { "detached", 0, value_detached, BOOLEAN, "Never started by a commit" },
    { "allow_failure", 0, value_allow_failure, BOOLEAN, "What depends on it goes on when it fails" },
    { "on", 0, value_on, "\"$ref\":\"#/$defs/on\"", "What starts it: commit, manual, schedule, {message: NAME}" },
    { "sandbox", 0, value_sandbox, "\"enum\":[\"none\",\"strict\"]", "How it is kept apart from the host" },
    { "artifacts", KEY_TEXT, value_artifacts, STRINGS, "Files that are kept and can be downloaded" },
};
enum { N_KEYS = sizeof keys / sizeof keys[0] };

static const struct workflow_key *workflow_key_find(struct str name)
{
    for (size_t i = 0; i < N_KEYS; i++)
        if (str_eqz(name, keys[i].name))
            return &keys[i];
    return NULL;
}

static void key_unknown(struct task_read *r, const struct node *key)
{
    struct str names[N_KEYS];
    for (size_t i = 0; i < N_KEYS; i++)
        names[i] = str_of(keys[i].name);
    node_unknown(&r->context, key, names, N_KEYS);
}

/* policy_tell: a key that is reserved for a policy which this version doesn't carry out: never dropped in silence. */
static void policy_tell(struct task_read *r, const struct node *name, const struct node *value)
{
    bool asks_nothing = value->kind == NODE_SCALAR && str_eqz(value->text, "false");
    if (asks_nothing)
        return;
    if (r->read->input->policies)
        diag_warning(r->context.diags, node_place(&r->context, name), "'%s' is reserved: servers of this version refuse it", r->key);
    else
        node_fault(&r->context, name, "'%s' is reserved: this version doesn't carry it out yet", r->key);
    diag_suggest(r->context.diags, "leave it out; a later version will know it");
}

void workflow_task_read(struct task_read *r, const struct node *mapping, bool commit, bool defaults)
{
    bool json = str_ends(r->context.file->name, STR(".json")); /* where 5 isn't "5" */
    for (size_t i = 0; i < mapping->n; i++) {
        const struct node *name = mapping->pairs[i].key, *value = mapping->pairs[i].value;
        const struct workflow_key *key = workflow_key_find(name->text);
        if (key == NULL)
            key_unknown(r, name);
        else if (commit && (key->flags & KEY_IN_COMMIT) == 0)
            node_fault(&r->context, name, "COMMIT takes nothing but 'depends'");
        else if (defaults && (key->flags & KEY_NOT_IN_DEFAULTS) != 0)
            node_fault(&r->context, name, "'%s' can't stand in 'defaults': each task says its own", key->name);
        else if (json && (key->flags & KEY_TEXT) != 0 && value->kind == NODE_SCALAR && value->plain && !node_is_null(value))
            node_fault(&r->context, value, "'%s' must be a string, not %.*s", key->name, STR_ARG(diag_shown(value->text)));
        else if (!node_is_null(value)) {
            r->key = key->name;
            if (key->read(r, value) && (key->flags & KEY_POLICY) != 0)
                policy_tell(r, name, value);
        }
    }
}

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
        if (defaults && (keys[i].flags & KEY_NOT_IN_DEFAULTS) != 0)
            continue;
        struct buf row;
        buf_init(&row, 4000);
        const char *reserved = (keys[i].flags & KEY_POLICY) != 0 ? "Reserved for a later version: " : "";
        buf_addf(&row, "{\"description\":\"%s%s\",%s}", reserved, keys[i].help, keys[i].schema);
        json_key(json, keys[i].name);
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
        "\"jobs\":{\"type\":\"object\",\"additionalProperties\":{\"oneOf\":[{\"type\":\"null\"},{\"$ref\":\"#/$defs/job\"}]}}}}],"
        "\"$defs\":{\"reference\":{\"oneOf\":[{\"type\":\"string\"},{\"type\":\"object\",\"additionalProperties\":false,"
        "\"required\":[\"task\"],\"properties\":{\"task\":{\"type\":\"string\"},\"on\":{\"enum\":[\"success\",\"finished\"]}}}]},"
        "\"minutes\":{\"oneOf\":[{\"type\":\"string\"},{\"type\":\"object\",\"additionalProperties\":false,\"required\":[\"cron\"],"
        "\"properties\":{\"cron\":{\"type\":\"string\"},\"tz\":{\"type\":\"string\"}}}]},"
        "\"trigger\":{\"oneOf\":[{\"enum\":[\"commit\",\"manual\",\"schedule\"]},{\"type\":\"object\",\"additionalProperties\":false,"
        "\"required\":[\"message\"],\"properties\":{\"message\":{\"type\":\"string\"}}}]},"
        "\"on\":{\"oneOf\":[{\"$ref\":\"#/$defs/trigger\"},{\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/trigger\"}}]},"
        "\"steps\":{\"type\":\"array\",\"items\":{\"oneOf\":[{\"type\":\"string\"},{\"type\":\"object\","
        "\"additionalProperties\":false,\"minProperties\":1,\"maxProperties\":1,\"properties\":{\"parallel\":{\"$ref\":\"#/$defs/steps\"},"
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
