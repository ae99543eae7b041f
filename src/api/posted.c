/* posted: a document with one task or many, the general way through a parsed document, and the quick way through its bytes.
 *
 * Both give the same definitions and the same faults; the quick one is taken for plain documents, which is nearly all of them. Everything
 * that outlives the reading is copied into the arena. It fails with bad_json for what is none, and all faults of all tasks otherwise. */
#include <string.h>

#include "api/quick.h"
#include "api/raw.h"
#include "api/task_def.h"

enum { TASKS_MAX = 10000 };
#define BODY_BYTES_MAX (48 * MIB)

static void task_read(struct def_parse *p, const json_t *value)
{
    def_begin(p);
    if (!json_is_object(value)) {
        err_item(p->err, ERR_invalid, p->def->path, "a task must be an object, not %s", def_type_of(value));
        return;
    }
    struct def_members members = def_members_of(value);
    struct str name;
    const json_t *item;
    while (def_members_next(&members, &name, &item))
        def_field_read(p, name, def_field_find(name), item);
    def_end(p);
}

/* tasks_of: the list of tasks in the document; NULL: the document is itself one task, or a fault was found. */
static const json_t *tasks_of(const json_t *document, struct arena *arena, struct err *err)
{
    const json_t *list = json_object_get(document, "tasks");
    if (list == NULL)
        return NULL;
    struct def_members members = def_members_of(document);
    struct str name;
    const json_t *item;
    while (def_members_next(&members, &name, &item))
        if (!str_eqz(name, "tasks"))
            err_item(err, ERR_invalid, str_fmt(arena, "/%.*s", STR_ARG(def_pointer_part(arena, str_sub(name, 0, 200)))),
                "unknown field '%.*s' beside 'tasks'", STR_ARG(str_sub(name, 0, 100)));
    if (!json_is_array(list))
        err_item(err, ERR_invalid, STR("/tasks"), "'tasks' must be an array, not %s", def_type_of(list));
    else if (json_array_size(list) == 0 || json_array_size(list) > TASKS_MAX)
        err_item(err, ERR_invalid, STR("/tasks"), "'tasks' must have 1 to %d tasks, not %zu", TASKS_MAX, json_array_size(list));
    return err->code == ERR_none ? list : NULL;
}

static void posted_begin(struct posted *out, struct arena *arena, size_t n, bool many)
{
    out->n = n;
    out->many = many;
    out->defs = ARENA_ARRAY(arena, struct task_def, n);
    if (many)
        for (size_t i = 0; i < n; i++)
            out->defs[i].path = json_read_path_at(arena, STR("/tasks"), i);
}

/* links_keep: does it name others? */
static bool links_keep(const struct def_parse *p, struct def_links *out)
{
    bool any = false;
    *out = p->links;
    for (size_t k = 0; k < DEF_LISTS; k++)
        any |= p->links.lists[k] != NULL;
    return any;
}

bool posted_read_document(struct arena *arena, const json_t *document, struct str raw, struct posted *out, struct err *err)
{
    const json_t *list = tasks_of(document, arena, err);
    if (err->code != ERR_none)
        return false;
    posted_begin(out, arena, list != NULL ? json_array_size(list) : 1, list != NULL);
    struct def_links *links = ARENA_ARRAY(arena, struct def_links, out->n);
    struct def_raw raws = { .many = out->many, .rest = out->many ? raw_items(raw_member(raw, STR("tasks"))) : raw };
    bool refs = false;
    struct buf body;
    buf_init(&body, BODY_BYTES_MAX);
    for (size_t i = 0; i < out->n; i++) {
        struct def_parse p = { .arena = arena, .err = err, .def = &out->defs[i], .out = &body, .raw = &raws, .index = i };
        task_read(&p, out->many ? json_array_get(list, i) : document);
        refs |= links_keep(&p, &links[i]);
    }
    buf_release(&body);
    if (out->many || refs)
        refs_resolve(arena, out, links, err);
    return err->code == ERR_none;
}

/* ---- the quick way: the same fields from the bytes of a document that quick_check liked ---- */

struct quick_tasks {
    struct str *items; /* the text of each */
    size_t n, cap;
    bool many;
};

struct quick_read {
    struct buf body;
    json_t **kept; /* values that definitions and lists point into until all is resolved */
    size_t n_kept, cap_kept;
};

static void quick_field(struct quick_read *q, struct def_parse *p, struct str name, struct str raw)
{
    size_t i = def_field_find(name);
    if (def_field_is_data(i)) { /* never taken apart */
        p->data = json_null();
        p->data_raw = raw;
        return;
    }
    json_t *value = quick_value(raw);
    ASSERT(value != NULL); /* quick_check said so */
    *ARENA_PUSH(p->arena, q->kept, q->n_kept, q->cap_kept) = value;
    def_field_read(p, name, i, value);
}

static bool quick_task(struct quick_read *q, struct def_parse *p, struct str raw, struct def_links *out)
{
    struct str rest = raw_members(raw), name, value;
    p->out = &q->body;
    def_begin(p);
    while (raw_member_next(&rest, &name, &value))
        quick_field(q, p, name, value);
    def_end(p);
    return links_keep(p, out);
}

/* quick_list: the tasks of {"tasks": [...]} as texts; false: there is more in it, or something that isn't an object. */
static bool quick_list(struct str list, struct arena *arena, struct quick_tasks *out)
{
    struct str rest = raw_items(list), item;
    while (raw_next(&rest, &item)) {
        if (item.ptr[0] != '{' || out->n == TASKS_MAX)
            return false;
        *ARENA_PUSH(arena, out->items, out->n, out->cap) = item;
    }
    /* behind the last one: the end of the list, of the object, and nothing else */
    rest = str_trim(rest);
    rest = str_trim(str_sub(rest, 1, rest.len));
    return out->n > 0 && str_eqz(rest, "}");
}

/* quick_start: is it one task, or {tasks: [...]} alone? */
static bool quick_start(struct str raw, struct arena *arena, struct quick_tasks *out)
{
    if (!quick_check(raw) || str_trim(raw).ptr[0] != '{')
        return false;
    struct str rest = str_trim(raw_members(raw));
    if (memmem(raw.ptr, raw.len, "\"tasks\"", 7) != NULL) {
        if (!str_starts(rest, STR("\"tasks\"")))
            return false; /* behind other fields, or inside them: the general way tells */
        rest = str_trim(str_sub(rest, 7, rest.len));
        rest = str_trim(str_sub(rest, 1, rest.len)); /* the colon */
        out->many = true;
        return rest.ptr[0] == '[' && quick_list(rest, arena, out);
    }
    *ARENA_PUSH(arena, out->items, out->n, out->cap) = raw;
    return true;
}

static bool posted_read_quick(struct arena *arena, const struct quick_tasks *tasks, struct posted *out, struct err *err)
{
    struct quick_read q = { 0 };
    struct def_links *links = ARENA_ARRAY(arena, struct def_links, tasks->n);
    bool refs = false;
    posted_begin(out, arena, tasks->n, tasks->many);
    buf_init(&q.body, BODY_BYTES_MAX);
    for (size_t i = 0; i < out->n; i++) {
        struct def_parse p = { .arena = arena, .err = err, .def = &out->defs[i], .index = i };
        refs |= quick_task(&q, &p, tasks->items[i], &links[i]);
    }
    buf_release(&q.body);
    if (out->many || refs)
        refs_resolve(arena, out, links, err);
    for (size_t i = 0; i < q.n_kept; i++)
        json_decref(q.kept[i]);
    return err->code == ERR_none;
}

bool posted_read(struct arena *arena, struct str raw, struct posted *out, struct err *err)
{
    struct quick_tasks tasks = { 0 };
    if (quick_start(raw, arena, &tasks))
        return posted_read_quick(arena, &tasks, out, err);
    json_t *document = json_parse(raw, JSON_DEPTH_MAX, err);
    if (document == NULL)
        return false;
    bool good = posted_read_document(arena, document, raw, out, err);
    json_decref(document);
    return good;
}
