/* kind_shell: a command's argument list, or a script given as a file to its shell, as a plain process on the host. No
 * shell ever sees a string that we put together. */
#include "exec/kind.h"

static bool shell_fits(const json_t *spec)
{
    return json_array_size(json_object_get(spec, "command")) > 0 || json_is_string(json_object_get(spec, "script"));
}

static void shell_prepare(const json_t *spec, const struct place *place, struct environment *env, struct job *job)
{
    struct arena *arena = env->arena;
    *ARENA_PUSH(arena, env->list, env->n, env->cap) = NULL;
    job->envp = env->list;
    job->argv = kind_argv(spec, arena, 0);
    if (job->argv)
        return;
    if (!json_is_string(json_object_get(spec, "script"))) {
        job->refusal = STR("the command isn't a list of texts without NUL");
        job->refusal_exit = 126;
        return;
    }
    job->script = kind_text(spec, "script");
    if (job->script.len == 0)
        job->script = STR("\n"); /* an empty script is valid and does nothing */
    struct str shell = kind_text(spec, "shell");
    job->argv = ARENA_ARRAY(arena, char *, 3);
    job->argv[0] = str_dupz(arena, shell.len > 0 ? shell : STR("sh"));
    job->argv[1] = str_dupz(arena, str_fmt(arena, "%s/io/script", place->dir));
}

const struct kind kind_shell = { .name = "shell", .fits = shell_fits, .prepare = shell_prepare };
