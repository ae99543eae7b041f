/* kind: what is the same for all kinds: the environment of INTERFACES.md sections 3 and 7, limits, times, and the
 * choice of a kind.
 *
 * Promises that a job sees PATH, HOME, LANG, its own `env` and the WEIR variables, and nothing else. Members of a spec
 * that it doesn't know are ignored, values of a wrong type count as absent: the server has checked them, and a newer
 * one may say more. */
#include "exec/kind.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "text/json_value.h"

enum { ENVIRONMENT_MAX = 4096, STRICT_PIDS = 512 };
#define STRICT_DISK_BYTES ((int64_t)10 << 30)
/* Of outputs of dependencies: what is beyond stays in WEIR_NEEDS alone. The kernel takes 128 KiB of a string, and often
 * 2 MiB of all. */
enum { OUTPUT_VARIABLE_MAX = 100 << 10, OUTPUT_VARIABLES_MAX = 1 << 20 };

static const struct kind *const kinds[] = { &kind_apply, &kind_container, &kind_shell };

struct str kind_text(const json_t *spec, const char *key)
{
    const json_t *value = json_object_get(spec, key);
    return json_is_string(value) ? (struct str){ json_string_value(value), json_string_length(value) }
                                 : (struct str){ 0 };
}

static int64_t spec_number(const json_t *spec, const char *key)
{
    const json_t *value = json_object_get(spec, key);
    return json_is_integer(value) && json_integer_value(value) > 0 ? json_integer_value(value) : 0;
}

char **kind_argv(const json_t *spec, struct arena *arena, size_t n_head)
{
    const json_t *command = json_object_get(spec, "command");
    size_t n = json_array_size(command);
    if (n == 0 || n > JOB_STRINGS_MAX)
        return NULL;
    char **argv = ARENA_ARRAY(arena, char *, n_head + n + 1);
    for (size_t i = 0; i < n; i++) {
        const json_t *word = json_array_get(command, i);
        if (!json_is_string(word) || strlen(json_string_value(word)) != json_string_length(word))
            return NULL;
        argv[n_head + i] = str_dupz(arena, str_of(json_string_value(word)));
    }
    return argv;
}

bool environment_put(struct environment *env, struct str name, struct str value)
{
    if (name.len == 0 || str_index(name, '=') >= 0 || str_index(name, '\0') >= 0 || str_index(value, '\0') >= 0)
        return false; /* execve can't carry it */
    struct str text = str_fmt(env->arena, "%.*s=%.*s", STR_ARG(name), STR_ARG(value));
    char *z = str_dupz(env->arena, text);
    for (size_t i = 0; i < env->n; i++) {
        if (strncmp(env->list[i], z, name.len + 1) == 0) {
            env->list[i] = z;
            return true;
        }
    }
    if (env->n >= ENVIRONMENT_MAX)
        return false;
    *ARENA_PUSH(env->arena, env->list, env->n, env->cap) = z;
    return true;
}

/* PREFIX plus parts in upper case, everything but letters and digits as an underscore. */
static struct str variable_name(struct arena *arena, const char *prefix, const char *a, const char *b)
{
    char *name = str_dupz(arena, str_fmt(arena, "%s%s%s%s", prefix, a, b ? "_" : "", b ? b : ""));
    for (char *c = name + strlen(prefix); *c; c++)
        *c = isascii((unsigned char)*c) && isalnum((unsigned char)*c) ? (char)toupper((unsigned char)*c) : '_';
    return str_of(name);
}

static struct str value_text(struct arena *arena, const json_t *value)
{
    if (json_is_string(value))
        return (struct str){ json_string_value(value), json_string_length(value) };
    return json_is_null(value) ? (struct str){ 0 } : json_text(arena, value, false);
}

static void put_object(struct environment *env, const json_t *object, const char *prefix, const char *middle)
{
    const char *key;
    json_t *value;
    void *cursor = object ? json_object_iter((json_t *)(uintptr_t)object) : NULL;
    for (; cursor; cursor = json_object_iter_next((json_t *)(uintptr_t)object, cursor)) {
        key = json_object_iter_key(cursor);
        value = json_object_iter_value(cursor);
        struct str name =
            !prefix ? str_of(key) : variable_name(env->arena, prefix, middle ? middle : key, middle ? key : NULL);
        environment_put(env, name, value_text(env->arena, value));
    }
}

/* Which outputs of dependencies got no variable, and why. */
struct needs_left {
    size_t bytes, variables, tasks; /* bytes: of those that did; tasks: whose outputs the server left out */
};

static void put_outputs(struct environment *env, const json_t *outputs, const char *task, struct needs_left *left)
{
    void *cursor = json_object_iter((json_t *)(uintptr_t)outputs);
    for (; cursor; cursor = json_object_iter_next((json_t *)(uintptr_t)outputs, cursor)) {
        struct str name = variable_name(env->arena, "WEIR_OUTPUT_", task, json_object_iter_key(cursor));
        struct str value = value_text(env->arena, json_object_iter_value(cursor));
        size_t bytes = name.len + value.len + 2;
        if (bytes > OUTPUT_VARIABLE_MAX || left->bytes + bytes > OUTPUT_VARIABLES_MAX ||
            !environment_put(env, name, value))
            left->variables++;
        else
            left->bytes += bytes;
    }
}

/* put_needs: those that `depends` names by id or as PREV go first: one of this revision has the variable, if both are
 * of one name. */
static void put_needs(struct environment *env, const json_t *spec, bool renamed, struct needs_left *left)
{
    const json_t *needs = json_object_get(spec, "needs"), *names = json_object_get(spec, "needs_names");
    void *cursor = needs ? json_object_iter((json_t *)(uintptr_t)needs) : NULL;
    for (; cursor; cursor = json_object_iter_next((json_t *)(uintptr_t)needs, cursor)) {
        const json_t *need = json_object_iter_value(cursor), *outputs = json_object_get(need, "outputs");
        const char *name = json_string_value(json_object_get(names, json_object_iter_key(cursor)));
        if (renamed != (name != NULL))
            continue;
        left->tasks += json_is_true(json_object_get(need, "left_out"));
        if (json_is_object(outputs))
            put_outputs(env, outputs, name ? name : json_object_iter_key(cursor), left);
    }
}

static struct str needs_note(struct arena *arena, const struct needs_left *left)
{
    struct str note = { 0 };
    if (left->variables > 0)
        note = str_fmt(arena,
            "[weir: %zu outputs of dependencies are in WEIR_NEEDS only: at most %d KiB a variable, %d MiB in all]\n",
            left->variables, OUTPUT_VARIABLE_MAX >> 10, OUTPUT_VARIABLES_MAX >> 20);
    if (left->tasks > 0)
        note = str_fmt(arena,
            "%.*s[weir: outputs of %zu dependencies aren't in WEIR_NEEDS: too large together; ask the server]\n",
            STR_ARG(note), left->tasks);
    return note;
}

/* Variables that are a member of the spec, as it is; absent ones aren't set. `source` is what the server says of an
 * archive's task. */
static const struct {
    const char *variable, *member;
} spec_variables[] = {
    { "WEIR_ARCHIVE", "archive" },
    { "WEIR_REV", "rev" },
    { "WEIR_PREV_REV", "prev_rev" },
    { "WEIR_TASK", "name" },
    { "WEIR_KEY", "key" },
    { "WEIR_ATTEMPT", "attempt" },
    { "WEIR_TOKEN", "token" },
};

/* put_trust: the files with which a task reaches that server over TLS; those of the agent, whose user it is. */
static void put_trust(struct environment *env, const struct place *place)
{
    static const char *const names[] = { "WEIR_CA", "WEIR_CLIENT_CERT", "WEIR_CLIENT_KEY" };
    for (size_t i = 0; str_starts(str_of(place->server), STR("https://")) && i < sizeof names / sizeof *names; i++)
        if (getenv(names[i]))
            environment_put(env, str_of(names[i]), str_of(getenv(names[i])));
}

static void put_weir(struct environment *env, const json_t *spec, int64_t task, struct str fence,
    const struct place *place, const char *io)
{
    put_object(env, json_object_get(spec, "params"), "WEIR_PARAM_", NULL);
    for (size_t i = 0; i < sizeof spec_variables / sizeof *spec_variables; i++) {
        const json_t *value = json_object_get(spec, spec_variables[i].member);
        if (value && !json_is_null(value))
            environment_put(env, str_of(spec_variables[i].variable), value_text(env->arena, value));
    }
    const json_t *prev = json_object_get(json_object_get(spec, "source"), "prev");
    if (prev && !json_object_get(spec, "prev_rev"))
        environment_put(env, STR("WEIR_PREV_REV"), value_text(env->arena, prev)); /* 0: there is none */
    environment_put(env, STR("WEIR_TASK_ID"), str_fmt(env->arena, "%lld", (long long)task));
    environment_put(env, STR("WEIR_FENCE"), fence);
    environment_put(env, STR("WEIR_SERVER"), str_of(place->server));
    if (!json_object_get(spec, "image")) /* which has other files */
        put_trust(env, place);
    environment_put(env, STR("WEIR_OUTPUT"), str_fmt(env->arena, "%s/out", io));
    environment_put(env, STR("WEIR_NEEDS"), str_fmt(env->arena, "%s/needs", io));
    if (json_object_get(spec, "data"))
        environment_put(env, STR("WEIR_INPUT"), str_fmt(env->arena, "%s/input", io));
}

static void job_limits(const json_t *limits, struct job_limits *out)
{
    out->memory_bytes = spec_number(limits, "memory");
    out->pids = spec_number(limits, "pids");
    out->cpu_s = spec_number(limits, "cpu_s");
    out->files = spec_number(limits, "files");
    out->file_bytes = spec_number(limits, "file_bytes");
    out->disk_bytes = spec_number(limits, "disk_bytes");
}

/* limits_strict: fills in the limits that a strict job doesn't set itself. */
static void limits_strict(struct job_limits *limits)
{
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    if (limits->pids == 0)
        limits->pids = STRICT_PIDS;
    if (limits->memory_bytes == 0)
        limits->memory_bytes = pages > 0 && page > 0 ? (int64_t)pages * page / 2 : (int64_t)1 << 30;
    if (limits->disk_bytes == 0)
        limits->disk_bytes = STRICT_DISK_BYTES;
}

/* What the working directory is to hold. External archives have no files; a queue's task has no archive. */
static void job_checkout(const json_t *spec, const struct place *place, struct job *out)
{
    const json_t *source = json_object_get(spec, "source");
    struct tree_request *from = &out->checkout;
    enum archive_kind kind = archive_kind_find(kind_text(source, "kind"));
    if ((kind != ARCHIVE_SVN && kind != ARCHIVE_GIT) || json_is_false(json_object_get(spec, "checkout")))
        return;
    *from = (struct tree_request){ .kind = kind,
        .archive = kind_text(source, "archive"),
        .url = kind_text(source, "url"),
        .branch = kind_text(source, "branch"),
        .commit = kind_text(source, "commit"),
        .rev = spec_number(source, "rev"),
        .server = str_of(place->server),
        .token = kind_text(spec, "token") };
    if (from->archive.len == 0)
        from->archive = kind_text(spec, "archive");
    if (from->rev == 0)
        from->rev = spec_number(spec, "rev");
}

static void job_artifacts(const json_t *patterns, struct arena *arena, struct job *out)
{
    size_t n = json_array_size(patterns);
    if (n == 0 || n > JOB_STRINGS_MAX)
        return;
    out->artifacts = ARENA_ARRAY(arena, char *, n + 1);
    for (size_t i = 0, k = 0; i < n; i++)
        if (json_is_string(json_array_get(patterns, i)))
            out->artifacts[k++] = str_dupz(arena, str_of(json_string_value(json_array_get(patterns, i))));
}

void kind_job(
    const json_t *spec, int64_t task, struct str fence, const struct place *place, struct arena *arena, struct job *out)
{
    *out = (struct job){
        .task = task, .fence = fence, .log_bytes_max = place->log_bytes_max, .grace_ms = place->grace_ms
    };
    const struct kind *kind = NULL;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds && !kind; i++)
        kind = kinds[i]->fits(spec) ? kinds[i] : NULL;
    if (!kind) {
        out->refusal = STR("the task has neither a command nor a script");
        out->refusal_exit = 126;
        return;
    }
    out->holds = json_is_true(json_object_get(spec, "holds"));
    out->timeout_ms = spec_number(spec, "timeout_ms");
    if (json_is_integer(json_object_get(spec, "grace_ms"))) /* 0 is a value too: no grace */
        out->grace_ms = spec_number(spec, "grace_ms");
    job_limits(json_object_get(spec, "limits"), &out->limits);
    job_checkout(spec, place, out);
    job_artifacts(json_object_get(spec, "artifacts"), arena, out);
    out->strict = str_eqz(kind_text(spec, "sandbox"), "strict");
    const json_t *needs = json_object_get(spec, "needs"), *data = json_object_get(spec, "data");
    if (json_object_size(needs) > 0)
        out->needs = json_text(arena, needs, false);
    if (data)
        out->input = str_fmt(arena, "%.*s\n", STR_ARG(json_text(arena, data, false)));

    struct environment env = { .arena = arena };
    const char *io = kind->io ? kind->io : str_dupz(arena, str_fmt(arena, "%s/io", place->dir));
    environment_put(&env, STR("PATH"), str_of(place->path));
    environment_put(&env, STR("HOME"), kind->home ? str_of(kind->home) : str_fmt(arena, "%s/work", place->dir));
    environment_put(&env, STR("LANG"), str_of(place->lang));
    put_object(&env, json_object_get(spec, "env"), NULL, NULL);
    struct needs_left left = { 0 };
    put_needs(&env, spec, true, &left);
    put_needs(&env, spec, false, &left);
    out->note = needs_note(arena, &left);
    put_weir(&env, spec, task, fence, place, io);
    kind->prepare(spec, place, &env, out);
    if (out->strict)
        limits_strict(&out->limits);
}
