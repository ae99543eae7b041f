/* kind_apply: a change set: our own program, `weir apply` (exec/apply/apply.h), with the order as its input. */
#include "exec/kind.h"
#include "text/json_value.h"

static bool apply_fits(const json_t *spec)
{
    return json_is_object(json_object_get(spec, "apply"));
}

static void apply_prepare(const json_t *spec, const struct place *place, struct environment *env, struct job *job)
{
    struct arena *arena = env->arena;
    if (!place->apply) {
        job->refusal = STR("this executor doesn't apply change sets (weir executor --apply)");
        job->refusal_exit = 126;
        return;
    }
    environment_put(env, STR("WEIR_INPUT"), str_fmt(arena, "%s/io/input", place->dir));
    environment_put(env, STR("WEIR_REASON"), str_fmt(arena, "%s/io/reason", place->dir));
    *ARENA_PUSH(arena, env->list, env->n, env->cap) = NULL;
    job->envp = env->list;
    job->argv = ARENA_ARRAY(arena, char *, 3);
    job->argv[0] = str_dupz(arena, STR("/proc/self/exe")); /* the shim's: this program, also if its file was replaced */
    job->argv[1] = str_dupz(arena, STR("apply"));
    job->input = json_text(arena, json_object_get(spec, "apply"), false);
    job->applies = true;
}

const struct kind kind_apply = { .name = "apply", .fits = apply_fits, .prepare = apply_prepare };
