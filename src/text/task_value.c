/* task_value: the values of a task's keys, each checked where it stands.
 *
 * Owns the bounds of every value. Each reader writes its field of the task only when the value is good, and else adds a
 * fault at the node that is wrong. */
#include <string.h>

#include "base/when.h"
#include "text/glob.h"
#include "text/json.h"
#include "text/key.h"
#include "text/words.h"
#include "text/workflow_read.h"

enum { ARGS_MAX = 10000, ENV_MAX = 1000, LABELS_MAX = 64, IMAGE_MAX = 512, TEMPLATE_MAX = 200 };
#define SCRIPT_BYTES_MAX ((size_t)1 << 20)
#define DATA_BYTES_MAX ((size_t)16 << 20) /* of a workflow, with all aliases written out */

bool task_line(struct task_read *r, const struct doc_node *value, size_t len_max, struct str *out)
{
    struct str text;
    if (!node_str(&r->context, value, r->key, &text))
        return false;
    if (text.len == 0)
        return node_fault(&r->context, value, "'%s' must not be empty", r->key);
    if (text.len > len_max)
        return node_fault(&r->context, value, "'%s' is longer than %zu bytes", r->key, len_max);
    if (str_has_control(text))
        return node_fault(&r->context, value, "'%s' must not contain control characters", r->key);
    *out = text;
    return true;
}

bool task_lines(struct task_read *r, const struct doc_node *value, size_t n_max, struct workflow_words *out)
{
    bool list = value->kind == NODE_SEQUENCE, ok = true;
    size_t n = node_list_n(value);
    if (value->kind == NODE_MAPPING || (!list && r->place == TASK_IN_QUEUE))
        return node_fault(&r->context, value, "'%s' must be %s of strings, not %s", r->key,
            node_form(&r->context, NODE_SEQUENCE), node_found(&r->context, value));
    if (n > n_max)
        return node_fault(&r->context, value, "'%s' must have at most %zu items, not %zu", r->key, n_max, n);
    struct str *items = ARENA_ARRAY(r->context.arena, struct str, n + 1);
    for (size_t i = 0; i < n; i++)
        ok = task_line(r, node_list_at(value, i), TASK_LINE_MAX, &items[i]) && ok;
    if (ok)
        *out = (struct workflow_words){ items, n };
    return ok;
}

/* -- forms: values of one shape, which task_doc.def writes into a member of the task -- */

void *task_member(const struct task_read *r)
{
    return (char *)r->task + r->form->offset;
}

bool form_truth(struct task_read *r, const struct doc_node *value)
{
    return node_bool(&r->context, value, r->key, task_member(r));
}

bool form_integer(struct task_read *r, const struct doc_node *value)
{
    return node_i64(&r->context, value, r->key, r->form->min, r->form->max, task_member(r));
}

bool form_line(struct task_read *r, const struct doc_node *value)
{
    return task_line(r, value, TASK_LINE_MAX, task_member(r));
}

static bool duration_of(struct task_read *r, const struct doc_node *value, const char *what, int64_t min_ms,
    int64_t max_ms, int64_t *out_ms)
{
    int64_t ms;
    if (!node_duration(&r->context, value, what, &ms))
        return false;
    if (ms < min_ms || ms > max_ms)
        return node_fault(&r->context, value, "'%s' must be from %s to %s, not %.*s", what, duration_format(min_ms).z,
            duration_format(max_ms).z, STR_ARG(diag_shown(value->text)));
    *out_ms = ms;
    return true;
}

bool form_duration(struct task_read *r, const struct doc_node *value)
{
    return duration_of(r, value, r->key, r->form->min, r->form->max, task_member(r));
}

/* form_template: text with {archive} {rev} {name} {variant} in it. */
bool form_template(struct task_read *r, const struct doc_node *value)
{
    static const struct str words[] = { { "archive", 7 }, { "rev", 3 }, { "name", 4 }, { "variant", 7 },
        { "queue", 5 } };
    size_t n = r->place == TASK_IN_QUEUE ? 5 : 4;
    struct str text, rest;
    if (!task_line(r, value, TEMPLATE_MAX, &text))
        return false;
    for (rest = text; str_index(rest, '{') >= 0;) {
        rest = str_sub(rest, (size_t)str_index(rest, '{') + 1, rest.len);
        ptrdiff_t end = str_index(rest, '}');
        struct str word = str_sub(rest, 0, end < 0 ? 0 : (size_t)end);
        bool known = false;
        for (size_t i = 0; i < n; i++)
            known = known || str_eq(word, words[i]);
        if (known)
            continue;
        node_fault(&r->context, value, "'%s' may use {archive}, {rev}, {name} and {variant}, not {%.*s}", r->key,
            STR_ARG(diag_shown(word)));
        diag_suggest_closest(r->context.diags, word, words, n);
        return false;
    }
    *(struct str *)task_member(r) = text;
    return true;
}

/* -- names, and what is run -- */

/* name_of: a name by the rule that `check` knows. */
static bool name_of(struct task_read *r, const struct doc_node *value, const char *what,
    bool (*check)(struct str name, const char *what, struct err *err), struct str *out)
{
    struct err err = { 0 };
    struct str name;
    if (!task_line(r, value, TASK_LINE_MAX, &name))
        return false;
    if (!check(name, what, &err))
        return node_fault(&r->context, value, "%s", err.text);
    *out = name;
    return true;
}

bool value_name(struct task_read *r, const struct doc_node *value)
{
    bool commit = r->place != TASK_IN_QUEUE && str_eqz(value->text, "COMMIT");
    return name_of(r, value, "task", commit ? name_check : name_check_new, &r->task->name);
}

bool value_queue(struct task_read *r, const struct doc_node *value)
{
    return name_of(r, value, "queue", name_check_new, &r->task->queue);
}

bool value_image(struct task_read *r, const struct doc_node *value)
{
    struct str image;
    if (!task_line(r, value, IMAGE_MAX, &image))
        return false;
    if (image.ptr[0] == '-' || str_index(image, ' ') >= 0)
        return node_fault(
            &r->context, value, "'image' must be an image's name without blanks that doesn't begin with '-'");
    r->task->image = image;
    return true;
}

static bool word_of(struct task_read *r, const struct doc_node *node, struct str *out, bool first)
{
    if (node->kind != NODE_SCALAR || node_is_null(node) || (node->plain && r->place == TASK_IN_QUEUE))
        return node_fault(
            &r->context, node, "a word of 'command' must be a string, not %s", node_found(&r->context, node));
    *out = node->text;
    if (str_index(*out, '\0') >= 0)
        return node_fault(&r->context, node, "a word of 'command' must not contain a NUL character");
    if (out->len > WORD_BYTES_MAX)
        return node_fault(&r->context, node, "a word of 'command' is longer than %d bytes", WORD_BYTES_MAX);
    if (first && out->len == 0)
        return node_fault(&r->context, node, "the first word of 'command' names the program and must not be empty");
    return true;
}

bool value_command(struct task_read *r, const struct doc_node *value)
{
    struct words words = { 0 };
    struct err err = { 0 };
    struct str text;
    r->command = value;
    if (value->kind == NODE_SEQUENCE) {
        if (value->n == 0 || value->n > ARGS_MAX)
            return node_fault(&r->context, value, "'command' must have 1 to %d words, not %zu", ARGS_MAX, value->n);
        struct str *items = ARENA_ARRAY(r->context.arena, struct str, value->n);
        bool ok = true;
        for (size_t i = 0; i < value->n; i++)
            ok = word_of(r, value->items[i], &items[i], i == 0) && ok;
        if (!ok)
            return false;
        r->task->command = (struct workflow_words){ items, value->n };
        return true;
    }
    if (value->kind == NODE_MAPPING || (r->place == TASK_IN_QUEUE && value->plain))
        return node_fault(&r->context, value, "'command' must be a string or %s of strings, not %s",
            node_form(&r->context, NODE_SEQUENCE), node_found(&r->context, value));
    if (!node_str(&r->context, value, r->key, &text))
        return false;
    if (!words_split(text, r->context.arena, &words, &err))
        return node_fault(&r->context, value, "'command' can't be split into words: %s", err.text);
    r->task->command = (struct workflow_words){ words.items, words.n };
    return true;
}

bool value_script(struct task_read *r, const struct doc_node *value)
{
    struct str text;
    r->script = value;
    if (!node_str(&r->context, value, r->key, &text))
        return false;
    if (str_index(text, '\0') >= 0)
        return node_fault(&r->context, value, "'script' must not contain a NUL character");
    if (text.len > SCRIPT_BYTES_MAX)
        return node_fault(&r->context, value, "'script' is longer than %zu bytes", SCRIPT_BYTES_MAX);
    r->task->script = text.ptr != NULL ? text : STR("");
    return true;
}

bool value_shell(struct task_read *r, const struct doc_node *value)
{
    struct str shell;
    if (!task_line(r, value, TASK_LINE_MAX, &shell))
        return false;
    if (shell.ptr[0] == '-')
        return node_fault(&r->context, value, "'shell' must name a program");
    r->task->shell = shell;
    return true;
}

static bool env_name_is_valid(struct str name)
{
    for (size_t i = 0; i < name.len; i++) {
        bool letter = char_is_letter(name.ptr[i]) || name.ptr[i] == '_';
        if (!letter && (i == 0 || !char_is_digit(name.ptr[i])))
            return false;
    }
    return name.len > 0;
}

/* pairs_begin: what the defaults say and this mapping doesn't, in an array of its own with room for both. */
static struct workflow_pairs pairs_begin(
    struct task_read *r, const struct doc_node *value, const struct workflow_pairs *inherited)
{
    struct workflow_pairs pairs = { ARENA_ARRAY(r->context.arena, struct label, inherited->n + value->n + 1), 0, 0 };
    for (size_t i = 0; i < inherited->n; i++)
        if (node_find(value, inherited->items[i].name) == NULL)
            pairs.items[pairs.n++] = inherited->items[i];
    return pairs;
}

bool value_env(struct task_read *r, const struct doc_node *value)
{
    if (value->kind != NODE_MAPPING || value->n > ENV_MAX)
        return node_fault(&r->context, value, "'env' must be %s of at most %d strings",
            node_form(&r->context, NODE_MAPPING), ENV_MAX);
    struct workflow_pairs env = pairs_begin(r, value, &r->task->env);
    bool ok = true;
    for (size_t i = 0; i < value->n; i++) {
        const struct doc_node *key = value->pairs[i].key, *item = value->pairs[i].value;
        struct str text, shown = diag_shown(key->text);
        if (!env_name_is_valid(key->text))
            ok = node_fault(&r->context, key, "'%.*s' can't be the name of an environment variable", STR_ARG(shown));
        else if (str_starts(key->text, STR("WEIR_")))
            ok = node_fault(
                &r->context, key, "'%.*s': names that begin with WEIR_ are set by Weir itself", STR_ARG(shown));
        else if (!node_str(&r->context, item, str_dupz(r->context.arena, shown), &text))
            ok = false;
        else if (str_index(text, '\0') >= 0)
            ok = node_fault(&r->context, item, "'%.*s' must not contain a NUL character", STR_ARG(shown));
        else if (key->text.len + 1 + text.len > VARIABLE_BYTES_MAX)
            ok = node_fault(&r->context, item, "'%.*s' is longer than %d bytes", STR_ARG(shown), VARIABLE_BYTES_MAX);
        else
            env.items[env.n++] = (struct label){ key->text, text };
    }
    r->task->env = env;
    return ok;
}

bool value_labels(struct task_read *r, const struct doc_node *value)
{
    if (value->kind != NODE_MAPPING || value->n > LABELS_MAX)
        return node_fault(&r->context, value, "'labels' must be %s of at most %d strings",
            node_form(&r->context, NODE_MAPPING), LABELS_MAX);
    struct workflow_pairs labels = pairs_begin(r, value, &r->task->labels);
    bool ok = true;
    for (size_t i = 0; i < value->n; i++) {
        const struct doc_node *key = value->pairs[i].key;
        struct str text = { 0 };
        if (!name_is_valid(key->text))
            ok = node_fault(&r->context, key, "'%.*s' can't be the name of a label", STR_ARG(diag_shown(key->text)));
        else if (task_line(r, value->pairs[i].value, NAME_CHARS_MAX, &text))
            labels.items[labels.n++] = (struct label){ key->text, text };
        else
            ok = false;
    }
    r->task->labels = labels;
    return ok;
}

bool value_not_before(struct task_read *r, const struct doc_node *value)
{
    struct str text;
    if (!task_line(r, value, TASK_LINE_MAX, &text))
        return false;
    if (!when_parse(text, &r->task->not_before))
        return node_fault(&r->context, value,
            "'not_before' must be a time such as \"2026-11-15T05:46:00Z\" (RFC 3339), not \"%.*s\"",
            STR_ARG(diag_shown(text)));
    return true;
}

static void size_of(struct node_reader *reader, const char *key, int64_t *out)
{
    const struct doc_node *node = node_read_any(reader, key);
    uint64_t bytes;
    if (node == NULL || !node_size(&reader->context, node, key, &bytes))
        return;
    if (bytes == 0 || bytes > INT64_MAX)
        node_fault(&reader->context, node, "'%s' must be at least 1B", key);
    else
        *out = (int64_t)bytes;
}

bool value_limits(struct task_read *r, const struct doc_node *value)
{
    struct node_reader reader;
    struct task_limits limits = { 0 };
    size_t before = r->context.diags->n_errors;
    if (!node_read_begin(&reader, &r->context, value, r->key))
        return false;
    size_of(&reader, "memory", &limits.memory_bytes);
    node_read_i64(&reader, "pids", 1, 4194304, &limits.pids);
    const struct doc_node *cpu = node_read_any(&reader, "cpu");
    if (cpu != NULL)
        duration_of(r, cpu, "cpu", 1000, 365 * DAY_MS, &limits.cpu_ms);
    node_read_i64(&reader, "files", 1, 1048576, &limits.files);
    size_of(&reader, "file", &limits.file_bytes);
    size_of(&reader, "disk", &limits.disk_bytes);
    node_read_end(&reader);
    r->task->limits = limits;
    return r->context.diags->n_errors == before;
}

bool value_data(struct task_read *r, const struct doc_node *value)
{
    struct buf out;
    if (r->place == TASK_IN_QUEUE) {
        r->task->data = json_compact(r->context.arena, value->raw);
        return true;
    }
    buf_init(&out, DATA_BYTES_MAX);
    node_json(&out, value);
    bool fits = !out.full || node_fault(&r->context, value, "'data' is longer than %zu bytes", DATA_BYTES_MAX);
    r->task->data = buf_move(&out, r->context.arena);
    return fits;
}

bool value_retry(struct task_read *r, const struct doc_node *value)
{
    static const struct str words[] = { { "lost", 4 }, { "temporary", 9 }, { "killed", 6 }, { "failed", 6 },
        { "timeout", 7 } };
    static const unsigned bits[] = { RETRY_LOST, RETRY_TEMPORARY, RETRY_KILLED, RETRY_FAILED, RETRY_TIMEOUT };
    struct node_reader reader;
    if (!node_read_begin(&reader, &r->context, value, r->key))
        return false;
    node_read_i64(&reader, "attempts", 1, 1000, &r->task->attempts_max);
    const struct doc_node *backoff = node_read_any(&reader, "backoff"), *on = node_read_any(&reader, "on");
    unsigned set = 0;
    if (backoff != NULL)
        duration_of(r, backoff, "backoff", 0, 30 * DAY_MS, &r->task->backoff_ms);
    if (on != NULL && (on->kind == NODE_MAPPING || (on->kind != NODE_SEQUENCE && r->place == TASK_IN_QUEUE)))
        node_fault(&r->context, on, "'on' must be %s of words, not %s", node_form(&r->context, NODE_SEQUENCE),
            node_found(&r->context, on));
    else
        for (size_t i = 0; on != NULL && i < node_list_n(on); i++) {
            size_t word;
            if (node_choice(&r->context, node_list_at(on, i), "on", words, 5, &word))
                set |= bits[word];
        }
    node_read_end(&reader);
    if (on != NULL)
        r->task->retry_on = set;
    return true;
}

/* -- when and where -- */

bool value_lock(struct task_read *r, const struct doc_node *value)
{
    static const struct str words[] = { { "none", 4 }, { "shared", 6 }, { "exclusive", 9 } };
    size_t word;
    if (!node_choice(&r->context, value, r->key, words, 3, &word))
        return false;
    r->task->lock = (enum workflow_lock)word;
    return true;
}

bool value_sandbox(struct task_read *r, const struct doc_node *value)
{
    static const struct str words[] = { { "none", 4 }, { "strict", 6 } };
    size_t word;
    if (!node_choice(&r->context, value, r->key, words, 2, &word))
        return false;
    r->task->sandbox = (enum workflow_sandbox)word;
    return true;
}

bool value_paths(struct task_read *r, const struct doc_node *value)
{
    struct workflow_words paths;
    bool ok = true;
    if (!task_lines(r, value, 1000, &paths))
        return false;
    for (size_t i = 0; i < paths.n; i++) {
        struct glob glob;
        const char *fault = glob_parse(paths.items[i], r->context.arena, &glob);
        if (fault != NULL)
            ok = node_fault(&r->context, node_list_at(value, i), "'paths': %s", fault);
    }
    r->task->paths = paths;
    return ok;
}

bool value_zone(struct task_read *r, const struct doc_node *value)
{
    struct str zone;
    if (!task_line(r, value, NAME_CHARS_MAX, &zone))
        return false;
    if (!name_is_valid(zone))
        return node_fault(&r->context, value, "'zone' must be letters, digits, '.', '_' and '-'");
    r->task->zone = zone;
    return true;
}

bool value_semaphores(struct task_read *r, const struct doc_node *value)
{
    struct workflow_words names;
    bool ok = true;
    if (!task_lines(r, value, TASK_LIST_MAX, &names))
        return false;
    for (size_t i = 0; i < names.n; i++) {
        const struct doc_node *node = node_list_at(value, i);
        struct err err = { 0 };
        if (!name_check(names.items[i], "semaphore", &err))
            ok = node_fault(&r->context, node, "%s", err.text);
        for (size_t k = 0; k < i; k++)
            if (str_eq(names.items[i], names.items[k]))
                ok = node_fault(&r->context, node, "semaphore '%.*s' stands twice", STR_ARG(names.items[i]));
    }
    r->task->semaphores = names;
    return ok;
}

/* Patterns for files beneath the working directory: glob.h says how they match. */
bool value_artifacts(struct task_read *r, const struct doc_node *value)
{
    struct workflow_words names;
    bool ok = true;
    if (!task_lines(r, value, 1000, &names))
        return false;
    for (size_t i = 0; i < names.n; i++) {
        const struct doc_node *node = node_list_at(value, i);
        struct str rest = names.items[i], part;
        struct glob glob;
        bool outside = rest.ptr[0] == '/';
        while (str_cut(&rest, '/', &part))
            outside = outside || str_eqz(part, "..");
        const char *fault = outside ? NULL : glob_parse(names.items[i], r->context.arena, &glob);
        if (outside)
            ok = node_fault(&r->context, node, "'artifacts' are files in the working directory");
        else if (fault != NULL)
            ok = node_fault(&r->context, node, "'artifacts': %s", fault);
    }
    r->task->artifacts = names;
    return ok;
}

bool value_detached(struct task_read *r, const struct doc_node *value)
{
    r->detached = value;
    return node_bool(&r->context, value, r->key, &r->task->detached);
}
