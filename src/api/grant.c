/* grant: what an executor gets with a task: the fence, the key, where its files come from, and the spec of the job with
 * the results of its dependencies. */
#include "api/answer_apply.h"
#include "api/call.h"

/* need_name: as `depends` wrote it; the id if another dependency has that name already, so that no member comes twice.
 */
static struct str need_name(
    struct arena *arena, const struct grant *grant, const struct need *need, struct str name, struct smap *seen)
{
    const struct task *task = &need->task;
    bool earlier = need->lane_kind == LANE_ARCHIVE && task->rev != grant->task.rev;
    if (earlier && str_eq(task->name, grant->task.name))
        name = STR("PREV");
    else if (earlier)
        name = str_fmt(arena, "PREV:%.*s", STR_ARG(name));
    if (need->by_id || smap_find(seen, name) != NULL)
        name = str_fmt(arena, "%lld", (long long)task->id);
    smap_put(seen, name, seen);
    return name;
}

static void need_render(struct api *api, struct json *json, const struct need *need)
{
    const struct task *task = &need->task;
    struct str outputs = need->outputs, artifacts = artifacts_split(&outputs);
    ANSWER_WRITE(ANSWER_Need);
}

/* needs_render: WEIR_NEEDS of the job; and the names of the tasks whose members have another name, for
 * WEIR_OUTPUT_<TASK>_<NAME>. */
static void needs_render(struct api *api, struct json *json, const struct grant *grant)
{
    struct arena arena = { 0 };
    struct smap seen = { 0 };
    size_t n = grant->n_needs, n_other = 0;
    if (n == 0)
        return;
    struct str(*names)[2] = arena_array(&arena, n, sizeof *names);
    json_key(json, "needs");
    json_object_begin(json);
    for (size_t i = 0; i < n; i++) {
        const struct task *task = &grant->needs[i].task;
        names[n_other][1] = task->variant.len > 0
                                ? str_fmt(&arena, "%.*s[%.*s]", STR_ARG(task->name), STR_ARG(task->variant))
                                : task->name;
        names[n_other][0] = need_name(&arena, grant, &grant->needs[i], names[n_other][1], &seen);
        json_key_str(json, names[n_other][0]);
        need_render(api, json, &grant->needs[i]);
        n_other += !str_eq(names[n_other][0], names[n_other][1]);
    }
    json_object_end(json);
    if (n_other > 0)
        json_key(json, "needs_names");
    if (n_other > 0)
        json_object_begin(json);
    for (size_t i = 0; i < n_other; i++) {
        json_key_str(json, names[i][0]);
        json_str(json, names[i][1]);
    }
    if (n_other > 0)
        json_object_end(json);
    smap_release(&seen);
    arena_release(&arena);
}

static void source_render(struct json *json, const struct grant *grant)
{
    const struct grant_source *source = &grant->source;
    ANSWER_WRITE(ANSWER_GrantSource);
}

static void body_put(struct json *json, struct str body)
{
    body = str_trim(body);
    if (body.len > 2) {
        buf_add_char(json->out, ',');
        buf_add_str(json->out, str_sub(body, 1, body.len - 1));
    }
}

static void texts_put(struct json *json, const struct str *texts, size_t n)
{
    json_array_begin(json);
    for (size_t i = 0; i < n; i++)
        json_str(json, texts[i]);
    json_array_end(json);
}

static void target_source_render(struct json *json, const struct grant_apply *apply)
{
    ANSWER_WRITE(ANSWER_TargetSource);
}

static void apply_limits_render(struct json *json, const struct changeset_limits *limits)
{
    ANSWER_WRITE(ANSWER_ApplyLimits);
}

RENDERER(render_undo, Undo, struct json *json, const struct undo *undo)

/* apply_render: the order of a change set: where it goes, what is known of it, and what its stored body says. */
static void apply_render(struct api *api, struct json *json, const struct grant *grant)
{
    const struct grant_apply *apply = grant->apply;
    json_object_begin(json);
    ANSWER_Apply(RENDER) body_put(json, grant->body);
    json_object_end(json);
}

/* spec_render: what the engine knows of the task, with the stored body put in as it is. */
static void spec_render(struct api *api, struct json *json, const struct grant *grant, const char *sealed)
{
    bool of_archive = grant->lane_kind == LANE_ARCHIVE;
    const struct grant_apply *apply = grant->apply;
    bool changeset = grant->lane_kind == LANE_TARGET;
    json_object_begin(json);
    ANSWER_Spec(RENDER) needs_render(api, json, grant);
    if (!changeset)
        body_put(json, grant->body);
    json_object_end(json);
}

void render_grant(struct api *api, struct json *json, const struct grant *grant, int64_t lease_ms)
{
    struct fence_sealed fence = fence_seal(&api->fence_key, grant->fence);
    api->incarnation = grant->fence.incarnation; /* a store that went back in time has taken a new one */
    ANSWER_WRITE(ANSWER_Grant);
}
