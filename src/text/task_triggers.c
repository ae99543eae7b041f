/* task_triggers: what starts a task and when: minutes (schedule, freeze, window) and events (on). */
#include "text/cron.h"
#include "text/key.h"
#include "text/workflow_read.h"

/* cron_of: "MINUTE HOUR DAY MONTH WEEKDAY" or {cron, tz}. */
static bool cron_of(struct task_read *r, const struct doc_node *node, struct workflow_cron *out)
{
    struct str text, timezone = { 0 };
    const struct doc_node *at = node, *timezone_at = NULL;
    if (node->kind == NODE_MAPPING) {
        struct node_reader reader;
        if (!node_read_begin(&reader, &r->context, node, r->key))
            return false;
        at = node_read_any(&reader, "cron");
        timezone_at = node_read_any(&reader, "tz");
        node_read_end(&reader);
        if (at == NULL)
            return node_fault(&r->context, node, "'cron' is missing: five fields, minute hour day month weekday");
    }
    if (!node_str(&r->context, at, r->key, &text) ||
        (timezone_at != NULL && !node_str(&r->context, timezone_at, "tz", &timezone)))
        return false;
    struct cron cron;
    struct cron_fault fault;
    if (!cron_parse(text, r->task->name, &cron, &fault))
        return node_fault(&r->context, at, "'%s' at '%.*s': %s", r->key,
            STR_ARG(diag_shown(str_sub(text, fault.at, text.len))), fault.text);
    bool known = timezone_at == NULL || (timezone_name_is_valid(timezone) &&
                                            (r->read->input->timezone_is_known == NULL ||
                                                r->read->input->timezone_is_known(r->read->input->context, timezone)));
    if (!known) {
        node_fault(&r->context, timezone_at, "there is no time zone '%.*s'", STR_ARG(diag_shown(timezone)));
        diag_suggest(r->context.diags, "write a name of the tz database, such as UTC, Europe/Berlin or Asia/Tokyo");
        return false;
    }
    *out = (struct workflow_cron){ text, timezone, workflow_place_of(&r->context, at) };
    return true;
}

static bool minutes_read(struct task_read *r, const struct doc_node *value, struct workflow_crons *out)
{
    bool ok = true;
    size_t n = node_list_n(value);
    if (n == 0 || n > TASK_LIST_MAX)
        return node_fault(&r->context, value, "'%s' must have 1 to %d items, not %zu", r->key, TASK_LIST_MAX, n);
    struct workflow_cron *items = ARENA_ARRAY(r->context.arena, struct workflow_cron, n);
    for (size_t i = 0; i < n; i++)
        ok = cron_of(r, node_list_at(value, i), &items[i]) && ok;
    if (ok)
        *out = (struct workflow_crons){ items, n };
    return ok;
}

bool form_minutes(struct task_read *r, const struct doc_node *value)
{
    return minutes_read(r, value, task_member(r));
}

bool value_schedule(struct task_read *r, const struct doc_node *value)
{
    r->schedule = value;
    return minutes_read(r, value, &r->task->schedule);
}

/* trigger_of: a word, or {message: NAME}. */
static bool trigger_of(struct task_read *r, const struct doc_node *node, unsigned *triggers, struct str *message)
{
    static const struct str words[] = { { "commit", 6 }, { "manual", 6 }, { "schedule", 8 }, { "message", 7 } };
    static const unsigned bits[] = { TRIGGER_COMMIT, TRIGGER_MANUAL, TRIGGER_SCHEDULE, TRIGGER_MESSAGE };
    size_t word;
    if (node->kind == NODE_MAPPING) {
        struct node_reader reader;
        struct err err = { 0 };
        if (!node_read_begin(&reader, &r->context, node, r->key))
            return false;
        const struct doc_node *name = node_read_any(&reader, "message");
        node_read_end(&reader);
        if (name == NULL)
            return node_fault(&r->context, node, "'message' is missing: which message starts the task?");
        if (!task_line(r, name, TASK_LINE_MAX, message))
            return false;
        if (!name_check(*message, "message", &err))
            return node_fault(&r->context, name, "%s", err.text);
        *triggers |= TRIGGER_MESSAGE;
        return true;
    }
    if (!node_choice(&r->context, node, r->key, words, 4, &word))
        return false;
    if (bits[word] == TRIGGER_MESSAGE) {
        node_fault(&r->context, node, "which message starts the task?");
        diag_suggest(r->context.diags, "write {message: NAME}");
        return false;
    }
    *triggers |= bits[word];
    return true;
}

bool value_on(struct task_read *r, const struct doc_node *value)
{
    bool ok = true;
    size_t n = node_list_n(value), n_messages = 0;
    unsigned triggers = 0;
    r->on = value;
    if (n == 0 || n > TASK_LIST_MAX)
        return node_fault(&r->context, value, "'on' must have 1 to %d items, not %zu", TASK_LIST_MAX, n);
    struct str *messages = ARENA_ARRAY(r->context.arena, struct str, n);
    for (size_t i = 0; i < n; i++) {
        struct str message = { 0 };
        ok = trigger_of(r, node_list_at(value, i), &triggers, &message) && ok;
        if (message.len > 0)
            messages[n_messages++] = message;
    }
    r->task->triggers = triggers;
    r->task->messages = (struct workflow_words){ messages, n_messages };
    return ok;
}
