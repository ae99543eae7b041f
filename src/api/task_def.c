/* task_def: posted tasks as definitions for the engine.
 *
 * Each field has a row in task_field.def; an object is walked once, so a task costs what it holds and not what it might hold. What an
 * executor needs becomes one compact JSON object (task_def.body). References between tasks of the same call are resolved here (task_ref.c);
 * whether an id exists is for the engine to say. It fails with every fault of every task at once, each with the JSON pointer of the field.
 */
#include "api/task_def.h"

#include <stdlib.h>
#include <string.h>

#include "api/raw.h"
#include "base/when.h"
#include "text/glob.h"
#include "text/words.h"

enum {
    ARGS_MAX = 10000,
    ENV_MAX = 1000,
    LABELS_MAX = 64,
    SEMAPHORES_MAX = 64,
    TEMPLATE_BYTES_MAX = 200,
    IMAGE_BYTES_MAX = 512,
    LABEL_BYTES_MAX = 100,
    ARTIFACTS_MAX = 100,
};
#define TEXT_BYTES_MAX (1 * MIB)
#define DAY_MS ((int64_t)24 * 3600 * 1000)

bool def_fault(struct def_parse *p, const char *field, const char *fmt, ...)
{
    char text[400];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return err_item(p->err, ERR_invalid, str_fmt(p->arena, "%.*s/%s", STR_ARG(p->def->path), field), "%s", text);
}

const char *def_type_of(const json_t *value)
{
    static const char *const words[] = { [JSON_OBJECT] = "an object",
        [JSON_ARRAY] = "an array",
        [JSON_STRING] = "a string",
        [JSON_INTEGER] = "a number",
        [JSON_REAL] = "a number with a fraction",
        [JSON_TRUE] = "true",
        [JSON_FALSE] = "false",
        [JSON_NULL] = "null" };
    return words[json_typeof(value)];
}

/* text_of: a string without NUL of at most len_max bytes, still inside the document. */
static bool text_of(struct def_parse *p, const char *field, const json_t *value, size_t len_max, struct str *out)
{
    if (!json_is_string(value))
        return def_fault(p, field, "'%s' must be a string, not %s", p->field, def_type_of(value));
    struct str s = { json_string_value(value), json_string_length(value) };
    if (s.len > 0 && memchr(s.ptr, '\0', s.len) != NULL)
        return def_fault(p, field, "'%s' must not contain a NUL character", p->field);
    if (s.len > len_max)
        return def_fault(p, field, "'%s' is longer than %zu bytes", p->field, len_max);
    *out = s;
    return true;
}

static const char *at(struct def_parse *p, const char *field, const char *inner)
{
    return str_dupz(p->arena, str_fmt(p->arena, "%s/%s", field, inner));
}

static const char *nth(struct def_parse *p, const char *field, size_t i)
{
    return str_dupz(p->arena, str_fmt(p->arena, "%s/%zu", field, i));
}

static bool has_control(struct str s)
{
    for (size_t i = 0; i < s.len; i++)
        if ((unsigned char)s.ptr[i] < ' ' || s.ptr[i] == 0x7f)
            return true;
    return false;
}

/* checked_name: the name rule, reserved words refused, in the words of the key reader. */
static void checked_name(struct def_parse *p, const json_t *value, struct str *out)
{
    struct str name;
    struct err fault = { 0 };
    if (!text_of(p, p->field, value, KIB, &name))
        return;
    if (!name_check_new(name, strcmp(p->field, "name") == 0 ? "task" : p->field, &fault))
        def_fault(p, p->field, "%s", fault.text);
    else
        *out = str_dup(p->arena, name);
}

static void field_name(struct def_parse *p, const json_t *value)
{
    checked_name(p, value, &p->def->name);
    p->named = true;
}

static void field_queue(struct def_parse *p, const json_t *value)
{
    checked_name(p, value, &p->def->queue);
}

static void field_command(struct def_parse *p, const json_t *value)
{
    p->command = value;
    if (json_is_string(value)) {
        struct str line;
        struct err fault = { 0 };
        if (text_of(p, p->field, value, TEXT_BYTES_MAX, &line) && !words_split(line, p->arena, &p->words, &fault))
            def_fault(p, p->field, "'command' can't be split into words: %s", fault.text);
        return;
    }
    if (!json_is_array(value)) {
        def_fault(p, p->field, "'command' must be a string or an array of strings, not %s", def_type_of(value));
        return;
    }
    size_t n = json_array_size(value);
    if (n == 0 || n > ARGS_MAX) {
        def_fault(p, p->field, "'command' must have 1 to %d words, not %zu", ARGS_MAX, n);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        const json_t *item = json_array_get(value, i);
        if (!json_is_string(item))
            def_fault(p, nth(p, p->field, i), "a word of 'command' must be a string, not %s", def_type_of(item));
        else if (json_string_length(item) > WORD_BYTES_MAX)
            def_fault(p, nth(p, p->field, i), "a word of 'command' is longer than %d bytes", WORD_BYTES_MAX);
        else if (memchr(json_string_value(item), '\0', json_string_length(item) + 1) != json_string_value(item) + json_string_length(item))
            def_fault(p, nth(p, p->field, i), "a word of 'command' must not contain a NUL character");
        else if (i == 0 && json_string_length(item) == 0)
            def_fault(p, nth(p, p->field, i), "the first word of 'command' names the program and must not be empty");
    }
}

static void field_script(struct def_parse *p, const json_t *value)
{
    p->script_given = true;
    text_of(p, p->field, value, TEXT_BYTES_MAX, &p->script);
}

static void field_shell(struct def_parse *p, const json_t *value)
{
    if (text_of(p, p->field, value, KIB, &p->shell) && (p->shell.len == 0 || p->shell.ptr[0] == '-' || has_control(p->shell)))
        def_fault(p, p->field, "'shell' must name a program");
    p->shell_given = true;
}

/* raw_task: the task's own text; the walk through the document goes on from where the last one was found. */
static struct str raw_task(struct def_parse *p)
{
    struct def_raw *raw = p->raw;
    if (!raw->many)
        return raw->rest;
    struct str item = { 0 };
    while (raw->next <= p->index && raw_next(&raw->rest, &item))
        raw->next++;
    return item;
}

static void field_data(struct def_parse *p, const json_t *value)
{
    p->data = value;
    p->data_raw = raw_member(raw_task(p), STR("data"));
}

static void field_image(struct def_parse *p, const json_t *value)
{
    if (!text_of(p, p->field, value, IMAGE_BYTES_MAX, &p->image))
        return;
    if (p->image.len == 0 || p->image.ptr[0] == '-' || has_control(p->image) || str_index(p->image, ' ') >= 0)
        def_fault(p, p->field, "'image' must be an image's name without blanks that doesn't begin with '-'");
}

static bool env_name_is_valid(struct str name)
{
    if (name.len == 0 || (name.ptr[0] >= '0' && name.ptr[0] <= '9'))
        return false;
    for (size_t i = 0; i < name.len; i++) {
        char c = name.ptr[i];
        if (!((c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'))
            return false;
    }
    return true;
}

static void field_env(struct def_parse *p, const json_t *value)
{
    if (!json_is_object(value) || json_object_size(value) > ENV_MAX) {
        def_fault(p, p->field, "'env' must be an object of at most %d strings", ENV_MAX);
        return;
    }
    p->env = value;
    struct def_members members = def_members_of(value);
    struct str name;
    const json_t *item;
    while (def_members_next(&members, &name, &item)) {
        const char *path = at(p, p->field, str_dupz(p->arena, def_pointer_part(p->arena, name)));
        struct str text;
        if (!env_name_is_valid(name))
            def_fault(p, path, "'%.*s' can't be the name of an environment variable", STR_ARG(str_sub(name, 0, 64)));
        else if (str_starts(name, STR("WEIR_")))
            def_fault(p, path, "'%.*s': names that begin with WEIR_ are set by Weir itself", STR_ARG(str_sub(name, 0, 64)));
        else if (text_of(p, path, item, VARIABLE_BYTES_MAX, &text) && name.len + 1 + text.len > VARIABLE_BYTES_MAX)
            def_fault(p, path, "name and value are longer than %d bytes, which no program can be given", VARIABLE_BYTES_MAX);
    }
}

static bool duration_of(struct def_parse *p, const char *path, const json_t *value, int64_t min_ms, int64_t max_ms, int64_t *out)
{
    int64_t ms;
    struct str text = { 0 };
    if (json_is_string(value))
        text = (struct str){ json_string_value(value), json_string_length(value) };
    if (!json_is_string(value) || !duration_parse(text, &ms))
        return def_fault(p, path, "'%s' must be a duration with a unit, such as \"90s\", \"15m\", \"2h\" or \"7d\"", p->field);
    if (ms < min_ms || ms > max_ms)
        return def_fault(p, path, "'%s' must be from %s to %s, not %.*s", p->field, duration_format(min_ms).z, duration_format(max_ms).z,
            STR_ARG(str_sub(text, 0, 40)));
    *out = ms;
    return true;
}

static void field_timeout(struct def_parse *p, const json_t *value)
{
    duration_of(p, p->field, value, 1, 365 * DAY_MS, &p->timeout_ms);
}

static void field_grace(struct def_parse *p, const json_t *value)
{
    duration_of(p, p->field, value, 0, DAY_MS, &p->grace_ms);
}

static bool whole_of(struct def_parse *p, const char *path, const json_t *value, int64_t min, int64_t max, int64_t *out)
{
    if (!json_is_integer(value))
        return def_fault(p, path, "'%s' must be a whole number, not %s", p->field, def_type_of(value));
    int64_t n = json_integer_value(value);
    if (n < min || n > max)
        return def_fault(p, path, "'%s' must be from %lld to %lld, not %lld", p->field, (long long)min, (long long)max, (long long)n);
    *out = n;
    return true;
}

static void field_priority(struct def_parse *p, const json_t *value)
{
    whole_of(p, p->field, value, -1000, 1000, &p->def->prio);
}

static void field_not_before(struct def_parse *p, const json_t *value)
{
    struct str text;
    if (!text_of(p, p->field, value, 64, &text))
        return;
    if (!when_parse(text, &p->def->not_before))
        def_fault(p, p->field, "'not_before' must be a time such as \"2026-11-15T05:46:00Z\" (RFC 3339), not \"%.*s\"", STR_ARG(text));
}

static const struct {
    const char *name;
    unsigned bit;
} retry_words[] = {
    { "lost", RETRY_LOST },
    { "temporary", RETRY_TEMPORARY },
    { "killed", RETRY_KILLED },
    { "failed", RETRY_FAILED },
    { "timeout", RETRY_TIMEOUT },
};
enum { RETRY_WORDS = sizeof retry_words / sizeof retry_words[0] };

static void retry_on_read(struct def_parse *p, const char *path, const json_t *list)
{
    p->def->retry_on = 0;
    if (!json_is_array(list)) {
        def_fault(p, path, "'on' must be an array, not %s", def_type_of(list));
        return;
    }
    for (size_t i = 0; i < json_array_size(list) && i < 100; i++) {
        const json_t *item = json_array_get(list, i);
        const char *word = json_is_string(item) ? json_string_value(item) : "";
        size_t k = 0;
        while (k < RETRY_WORDS && strcmp(word, retry_words[k].name) != 0)
            k++;
        if (k < RETRY_WORDS)
            p->def->retry_on |= retry_words[k].bit;
        else
            def_fault(p, nth(p, path, i), "'on' knows lost, temporary, killed, failed and timeout");
    }
}

static void field_retry(struct def_parse *p, const json_t *value)
{
    struct json_reader reader;
    if (!json_read_object(&reader, value, def_path(p, p->field), p->arena, p->err))
        return;
    json_read_i64(&reader, "attempts", 1, 1000, &p->def->attempts_max);
    const json_t *backoff = json_read_any(&reader, "backoff"), *on = json_read_any(&reader, "on");
    p->field = "backoff";
    if (backoff != NULL)
        duration_of(p, "retry/backoff", backoff, 0, 30 * DAY_MS, &p->def->backoff_ms);
    if (on != NULL)
        retry_on_read(p, "retry/on", on);
    json_read_end(&reader);
}

static int label_compare(const void *a, const void *b)
{
    const struct label *x = a, *y = b;
    return str_cmp(x->name, y->name);
}

static void field_labels(struct def_parse *p, const json_t *value)
{
    if (!json_is_object(value) || json_object_size(value) > LABELS_MAX) {
        def_fault(p, p->field, "'labels' must be an object of at most %d strings", LABELS_MAX);
        return;
    }
    p->def->labels = ARENA_ARRAY(p->arena, struct label, json_object_size(value));
    struct def_members members = def_members_of(value);
    struct str name;
    const json_t *item;
    while (def_members_next(&members, &name, &item)) {
        const char *path = at(p, p->field, str_dupz(p->arena, def_pointer_part(p->arena, name)));
        struct str text;
        if (!name_is_valid(name))
            def_fault(p, path, "a label's name must be letters, digits, '.', '_' and '-'");
        else if (!text_of(p, path, item, LABEL_BYTES_MAX, &text))
            continue; /* said */
        else if (has_control(text))
            def_fault(p, path, "a label's value must not contain control characters");
        else
            p->def->labels[p->def->n_labels++] = (struct label){ str_dup(p->arena, name), str_dup(p->arena, text) };
    }
    if (p->def->n_labels > 1)
        qsort(p->def->labels, p->def->n_labels, sizeof p->def->labels[0], label_compare);
}

static void field_zone(struct def_parse *p, const json_t *value)
{
    struct str zone;
    if (!text_of(p, p->field, value, NAME_CHARS_MAX, &zone))
        return;
    if (!name_is_valid(zone))
        def_fault(p, p->field, "'zone' must be letters, digits, '.', '_' and '-'");
    else
        p->def->zone = str_dup(p->arena, zone);
}

static void field_semaphores(struct def_parse *p, const json_t *value)
{
    if (!json_is_array(value) || json_array_size(value) > SEMAPHORES_MAX) {
        def_fault(p, p->field, "'semaphores' must be an array of at most %d names", SEMAPHORES_MAX);
        return;
    }
    size_t n = json_array_size(value);
    p->def->semaphores = ARENA_ARRAY(p->arena, struct str, n);
    for (size_t i = 0; i < n; i++) {
        const char *path = nth(p, p->field, i);
        struct str name;
        if (!text_of(p, path, json_array_get(value, i), NAME_CHARS_MAX, &name))
            continue;
        if (!name_is_valid(name)) {
            def_fault(p, path, "a semaphore's name must be letters, digits, '.', '_' and '-'");
            continue;
        }
        bool twice = false;
        for (size_t k = 0; k < p->def->n_semaphores; k++)
            twice |= str_eq(p->def->semaphores[k], name);
        if (twice)
            def_fault(p, path, "'%.*s' is listed twice", STR_ARG(name));
        else
            p->def->semaphores[p->def->n_semaphores++] = str_dup(p->arena, name);
    }
}

static void field_unique(struct def_parse *p, const json_t *value)
{
    if (text_of(p, p->field, value, TEMPLATE_BYTES_MAX, &p->unique) && (p->unique.len == 0 || has_control(p->unique)))
        def_fault(p, p->field, "'unique' must be a text without control characters");
}

static void field_concurrency(struct def_parse *p, const json_t *value)
{
    if (text_of(p, p->field, value, TEMPLATE_BYTES_MAX, &p->concurrency) && (p->concurrency.len == 0 || has_control(p->concurrency)))
        def_fault(p, p->field, "'concurrency' must be a text without control characters");
}

/* template_fill: {name} {archive} {queue} {rev} {variant}; a queue's task has neither revision nor variant. */
static struct str template_fill(struct def_parse *p, const char *field, struct str template)
{
    if (str_index(template, '{') < 0)
        return str_dup(p->arena, template);
    struct buf out;
    buf_init(&out, KIB);
    for (size_t i = 0; i < template.len; i++) {
        struct str rest = str_sub(template, i, template.len);
        ptrdiff_t end = str_index(rest, '}');
        if (rest.ptr[0] != '{') {
            buf_add_char(&out, rest.ptr[0]);
            continue;
        }
        struct str word = end < 0 ? (struct str){ 0 } : str_sub(rest, 1, (size_t)end);
        if (str_eqz(word, "name"))
            buf_add_str(&out, p->def->name);
        else if (str_eqz(word, "archive") || str_eqz(word, "queue"))
            buf_add_str(&out, p->def->queue);
        else if (!str_eqz(word, "rev") && !str_eqz(word, "variant")) {
            def_fault(p, field, "'%s' knows {archive}, {rev}, {name} and {variant}; write no other braces", field);
            break;
        }
        i += (size_t)end;
    }
    struct str text = str_dup(p->arena, buf_str(&out));
    buf_release(&out);
    return text;
}

static void size_read(struct def_parse *p, struct json_reader *reader, const char *key, int64_t *out)
{
    struct str text;
    uint64_t bytes;
    if (!json_read_str(reader, key, 40, &text))
        return;
    if (!size_parse(text, &bytes) || bytes == 0 || bytes > INT64_MAX)
        err_item(p->err, ERR_invalid, json_read_path(reader, key),
            "'%s' must be a size with a unit, such as \"64KiB\" or \"10MiB\", not \"%.*s\"", key, STR_ARG(text));
    else
        *out = (int64_t)bytes;
}

static void field_limits(struct def_parse *p, const json_t *value)
{
    struct json_reader reader;
    if (!json_read_object(&reader, value, def_path(p, p->field), p->arena, p->err))
        return;
    size_read(p, &reader, "memory", &p->limits.memory_bytes);
    size_read(p, &reader, "file", &p->limits.file_bytes);
    size_read(p, &reader, "disk", &p->limits.disk_bytes);
    json_read_i64(&reader, "pids", 1, 4194304, &p->limits.pids);
    json_read_i64(&reader, "files", 1, 1048576, &p->limits.files);
    const json_t *cpu = json_read_any(&reader, "cpu");
    p->field = "cpu";
    if (cpu != NULL)
        duration_of(p, "limits/cpu", cpu, 1000, 365 * DAY_MS, &p->limits.cpu_ms);
    json_read_end(&reader);
}

static void field_checkout(struct def_parse *p, const json_t *value)
{
    if (json_is_true(value))
        def_fault(p, p->field, "'checkout': a queue's task has no archive that could be checked out");
    else if (!json_is_false(value))
        def_fault(p, p->field, "'checkout' must be true or false, not %s", def_type_of(value));
}

static void field_later(struct def_parse *p, const json_t *value)
{
    (void)value;
    def_fault(p, p->field, "'%s' isn't supported for queue tasks yet", p->field);
}

static void only_word(struct def_parse *p, const json_t *value, const char *word)
{
    if (!json_is_string(value))
        def_fault(p, p->field, "'%s' must be a string, not %s", p->field, def_type_of(value));
    else if (strcmp(json_string_value(value), word) != 0)
        def_fault(p, p->field, "'%s' other than \"%s\" isn't supported for queue tasks yet", p->field, word);
}

static void field_sandbox(struct def_parse *p, const json_t *value)
{
    const char *word = json_string_value(value);
    p->strict = word != NULL && strcmp(word, "strict") == 0;
    if (word == NULL)
        def_fault(p, p->field, "'sandbox' must be a string, not %s", def_type_of(value));
    else if (!p->strict && strcmp(word, "none") != 0)
        def_fault(p, p->field, "'sandbox' must be \"none\" or \"strict\"");
}

/* Patterns for files beneath the working directory: glob.h says how they match. */
static void field_artifacts(struct def_parse *p, const json_t *value)
{
    if (!json_is_array(value) || json_array_size(value) > ARTIFACTS_MAX) {
        def_fault(p, p->field, "'artifacts' must be an array of at most %d patterns", ARTIFACTS_MAX);
        return;
    }
    p->artifacts = value;
    for (size_t i = 0; i < json_array_size(value); i++) {
        struct str pattern, rest, part;
        struct glob glob;
        if (!text_of(p, nth(p, p->field, i), json_array_get(value, i), GLOB_BYTES_MAX, &pattern))
            continue;
        bool outside = pattern.len == 0 || pattern.ptr[0] == '/' || has_control(pattern);
        for (rest = pattern; str_cut(&rest, '/', &part);)
            outside = outside || str_eqz(part, "..");
        const char *fault = outside ? "it is no path beneath the working directory" : glob_parse(pattern, p->arena, &glob);
        if (fault != NULL)
            def_fault(p, nth(p, p->field, i), "an artifact's pattern isn't one: %s", fault);
    }
}

static void field_lock(struct def_parse *p, const json_t *value)
{
    only_word(p, value, "none");
}

static void field_only_false(struct def_parse *p, const json_t *value)
{
    if (json_is_true(value))
        field_later(p, value);
    else if (!json_is_false(value))
        def_fault(p, p->field, "'%s' must be true or false, not %s", p->field, def_type_of(value));
}

static void field_allow_failure(struct def_parse *p, const json_t *value)
{
    p->links.allow_failure = json_is_true(value);
    if (!json_is_boolean(value))
        def_fault(p, p->field, "'%s' must be true or false, not %s", p->field, def_type_of(value));
}

static void field_depends(struct def_parse *p, const json_t *value)
{
    p->links.lists[DEF_DEPENDS] = value;
}

static void field_after(struct def_parse *p, const json_t *value)
{
    p->links.lists[DEF_AFTER] = value;
}

static void field_cancels(struct def_parse *p, const json_t *value)
{
    p->links.lists[DEF_CANCELS] = value;
}

static const struct {
    struct str name;
    void (*read)(struct def_parse *p, const json_t *value);
} fields[] = {
#define FIELD(name, read) { { #name, sizeof #name - 1 }, read },
#include "api/task_field.def"
#undef FIELD
};
enum { FIELDS = sizeof fields / sizeof fields[0] };

static void field_unknown(struct def_parse *p, struct str name)
{
    struct str part = def_pointer_part(p->arena, str_sub(name, 0, 200));
    size_t before = p->err->n_items;
    def_fault(p, str_dupz(p->arena, part), "unknown field '%.*s'", STR_ARG(str_sub(name, 0, 100)));
    if (p->err->n_items == before)
        return; /* over the number of faults that are told */
    struct str known[FIELDS];
    for (size_t i = 0; i < FIELDS; i++)
        known[i] = fields[i].name;
    struct str near = str_closest(name, known, FIELDS);
    if (near.len > 0)
        err_item_last(p->err)->suggestion = str_fmt(p->arena, "did you mean '%.*s'?", STR_ARG(near));
}

static void env_write(struct json *json, const json_t *env)
{
    struct def_members members = def_members_of(env);
    struct str name;
    const json_t *item;
    json_key(json, "env");
    json_object_begin(json);
    while (def_members_next(&members, &name, &item)) {
        json_key_str(json, name);
        json_str(json, (struct str){ json_string_value(item), json_string_length(item) });
    }
    json_object_end(json);
}

static void limits_write(struct json *json, const struct def_limits *limits)
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

static void command_write(struct json *json, const struct def_parse *p)
{
    json_key(json, "command");
    json_array_begin(json);
    for (size_t i = 0; i < p->words.n; i++)
        json_str(json, p->words.items[i]);
    if (json_is_array(p->command)) {
        for (size_t i = 0; i < json_array_size(p->command); i++) {
            const json_t *item = json_array_get(p->command, i);
            json_str(json, (struct str){ json_string_value(item), json_string_length(item) });
        }
    }
    json_array_end(json);
}

/* body_write: what the executor needs; fields that aren't given aren't written. */
static void body_write(struct def_parse *p)
{
    buf_reset(p->out);
    struct json json = json_to(p->out);
    json_object_begin(&json);
    if (p->command != NULL)
        command_write(&json, p);
    if (p->script_given)
        json_put_str(&json, "script", p->script);
    if (p->shell_given)
        json_put_str(&json, "shell", p->shell);
    if (p->image.len > 0)
        json_put_str(&json, "image", p->image);
    if (p->env != NULL)
        env_write(&json, p->env);
    if (p->timeout_ms > 0)
        json_put_i64(&json, "timeout_ms", p->timeout_ms);
    if (p->grace_ms >= 0)
        json_put_i64(&json, "grace_ms", p->grace_ms);
    if (p->data != NULL) {
        json_key(&json, "data");
        if (p->data_raw.len > 0) {
            json_raw(&json, (struct str){ 0 });
            raw_compact(p->out, p->data_raw);
        } else {
            json_raw(&json, json_text(p->arena, p->data, false));
        }
    }
    limits_write(&json, &p->limits);
    if (p->strict)
        json_put_z(&json, "sandbox", "strict");
    if (json_array_size(p->artifacts) > 0) {
        json_key(&json, "artifacts");
        json_raw(&json, json_text(p->arena, p->artifacts, false));
    }
    json_object_end(&json);
    p->def->body = str_dup(p->arena, buf_str(p->out));
}

/* whole_check: what only shows when all fields of a task are known. */
static void whole_check(struct def_parse *p)
{
    struct task_def *def = p->def;
    if (!p->named)
        def_fault(p, "name", "'name' is required");
    if (p->command != NULL && p->script_given)
        def_fault(p, "script", "'command' and 'script' exclude each other");
    if (p->shell_given && !p->script_given)
        def_fault(p, "shell", "'shell' needs 'script'");
    if (p->image.len > 0 && p->command == NULL && !p->script_given)
        def_fault(p, "image", "'image' needs 'command' or 'script'");
    if (p->unique.len > 0)
        def->unique = template_fill(p, "unique", p->unique);
    if (p->concurrency.len > 0)
        def->concurrency = template_fill(p, "concurrency", p->concurrency);
    def->kind = p->image.len > 0     ? KIND_IMAGE
                : p->command != NULL ? KIND_COMMAND
                : p->script_given    ? KIND_SCRIPT
                : p->data != NULL    ? KIND_DATA
                                     : KIND_NONE;
}

size_t def_field_find(struct str name)
{
    size_t i = 0;
    while (i < FIELDS && (fields[i].name.len != name.len || memcmp(fields[i].name.ptr, name.ptr, name.len) != 0))
        i++;
    return i;
}

void def_begin(struct def_parse *p)
{
    struct task_def *def = p->def;
    def->queue = STR("default");
    def->attempts_max = 3;
    def->backoff_ms = 5000;
    def->retry_on = RETRY_LOST | RETRY_TEMPORARY | RETRY_KILLED;
    p->grace_ms = -1;
}

void def_end(struct def_parse *p)
{
    whole_check(p);
    if (p->err->code == ERR_none)
        body_write(p);
    if (p->def->body.len > TASK_BYTES_MAX)
        def_fault(p, "name", "the task has %zu MiB; at most %zu are taken", p->def->body.len / MIB, TASK_BYTES_MAX / MIB);
}

void def_field_read(struct def_parse *p, struct str name, size_t i, const json_t *value)
{
    if (i == FIELDS) {
        field_unknown(p, name);
        return;
    }
    p->field = fields[i].name.ptr;
    if (!json_is_null(value) || fields[i].read == field_data)
        fields[i].read(p, value);
}

bool def_field_is_data(size_t i)
{
    return i < FIELDS && fields[i].read == field_data;
}
