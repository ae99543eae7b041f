/* kind_container: a task with an image runs through podman or docker. The client's life isn't the container's: it
 * writes the container's id to io/cid, and the shim ends and removes the container by that id. An image that isn't here
 * is pulled; what comes of that is the container program's word, in the job's log. */
#include "exec/kind.h"

#include <string.h>

static bool container_fits(const json_t *spec)
{
    return json_is_string(json_object_get(spec, "image")) && json_string_length(json_object_get(spec, "image")) > 0;
}

static void refuse(struct job *job, int64_t exit_status, struct str why)
{
    job->refusal = why;
    job->refusal_exit = exit_status;
}

static void container_words(const json_t *spec, const struct place *place, struct environment *env,
    const struct job *job, struct environment *out)
{
    struct arena *arena = env->arena;
    const struct str head[] = {
        str_of(place->container),
        STR("run"),
        STR("--rm"),
        STR("--pull=missing"),
        str_fmt(arena, "--cidfile=%s/io/cid", place->dir),
        str_fmt(arena, "--label=weir.task=%lld", (long long)job->task),
        str_fmt(arena, "--volume=%s/work:/work", place->dir),
        str_fmt(arena, "--volume=%s/io:/weir", place->dir),
        STR("--workdir=/work"),
    };
    for (size_t i = 0; i < sizeof head / sizeof *head; i++)
        *ARENA_PUSH(arena, out->list, out->n, out->cap) = str_dupz(arena, head[i]);
    static const char *const strict[] = { "--network=none", "--cap-drop=all", "--security-opt=no-new-privileges",
        NULL };
    for (const char *const *option = strict; job->strict && *option; option++)
        *ARENA_PUSH(arena, out->list, out->n, out->cap) = str_dupz(arena, str_of(*option));
    for (const char *const *option = place->container_options; option && *option; option++)
        *ARENA_PUSH(arena, out->list, out->n, out->cap) = str_dupz(arena, str_of(*option));
    for (size_t i = 0; i < env->n; i++) {
        if (strncmp(env->list[i], "PATH=", 5) == 0) /* the image has its own */
            continue;
        /* The token goes by its name, and its value in the client's environment: command lines are for everybody to
         * read. */
        bool secret = strncmp(env->list[i], "WEIR_TOKEN=", 11) == 0;
        struct str word = secret ? STR("--env=WEIR_TOKEN") : str_fmt(arena, "--env=%s", env->list[i]);
        *ARENA_PUSH(arena, out->list, out->n, out->cap) = str_dupz(arena, word);
    }
    *ARENA_PUSH(arena, out->list, out->n, out->cap) = str_dupz(arena, kind_text(spec, "image"));
}

/* The client runs with the executor's own environment, marked so that its processes can be found if the shim dies. */
static char **client_environment(const struct place *place, struct str fence, struct str token, struct arena *arena)
{
    struct environment own = { .arena = arena };
    for (char **entry = place->environ; entry && *entry; entry++) {
        struct str name, text = str_of(*entry);
        ptrdiff_t at = str_index(text, '=');
        name = str_sub(text, 0, at < 0 ? 0 : (size_t)at);
        environment_put(&own, name, str_sub(text, name.len + 1, text.len));
    }
    environment_put(&own, STR("WEIR_FENCE"), fence);
    if (token.len > 0)
        environment_put(&own, STR("WEIR_TOKEN"), token);
    *ARENA_PUSH(arena, own.list, own.n, own.cap) = NULL;
    return own.list;
}

static void container_prepare(const json_t *spec, const struct place *place, struct environment *env, struct job *job)
{
    struct arena *arena = env->arena;
    struct str image = kind_text(spec, "image");
    if (!place->container) {
        refuse(job, 127, STR("the task has an image, and neither podman nor docker is here"));
        return;
    }
    if (image.ptr[0] == '-' || memchr(image.ptr, '\0', image.len)) {
        refuse(job, 126, STR("the image's name isn't one"));
        return;
    }
    struct environment words = { .arena = arena };
    container_words(spec, place, env, job, &words);
    char **command = kind_argv(spec, arena, 0);
    for (size_t i = 0; command && command[i]; i++)
        *ARENA_PUSH(arena, words.list, words.n, words.cap) = command[i];
    if (!command && json_is_string(json_object_get(spec, "script"))) {
        struct str shell = kind_text(spec, "shell");
        job->script = kind_text(spec, "script");
        if (job->script.len == 0)
            job->script = STR("\n");
        *ARENA_PUSH(arena, words.list, words.n, words.cap) = str_dupz(arena, shell.len > 0 ? shell : STR("sh"));
        *ARENA_PUSH(arena, words.list, words.n, words.cap) = str_dupz(arena, STR("/weir/script"));
    }
    *ARENA_PUSH(arena, words.list, words.n, words.cap) = NULL;
    job->argv = words.list;
    job->envp = client_environment(place, job->fence, kind_text(spec, "token"), arena);
    job->strict = false;       /* the container is the sandbox, with what was added above */
    job->checkout.copy = true; /* the container program lives in namespaces of its own: it needs plain folders */
    job->container = str_dupz(arena, str_of(place->container));
}

const struct kind kind_container = {
    .name = "container", .home = "/work", .io = "/weir", .fits = container_fits, .prepare = container_prepare
};
