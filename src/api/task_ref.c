/* task_ref: which other tasks a posted task waits for or cancels.
 *
 * A reference is an id, a key, the name of a task of the same call, or {task, on}. Names become positions here; ids stay as
 * they are. It fails with unknown_task for names that the call doesn't have, and invalid for what contradicts itself. */
#include <string.h>

#include "api/task_def.h"
#include "base/map.h"

enum { REFS_MAX = 10000 };

struct resolve {
    struct arena *arena;
    struct err *err;
    struct posted *posted;
    const struct def_links *links;
    struct smap names; /* -> struct task_def */
    struct map seen;   /* of one task: target -> struct task_ref */
    size_t cap_refs;
};

static const struct {
    const char *name;
    enum edge_kind kind;
} lists_of[DEF_LISTS] = {
    [DEF_DEPENDS] = { "depends", EDGE_DEPENDS },
    [DEF_AFTER] = { "after", EDGE_AFTER },
    [DEF_CANCELS] = { "cancels", EDGE_CANCELS },
};

struct str def_path(struct def_parse *p, const char *field)
{
    return str_fmt(p->arena, "%.*s/%s", STR_ARG(p->def->path), field);
}

struct def_members def_members_of(const json_t *object)
{
    /* jansson's iterators want a value that isn't const, though these change nothing */
    union {
        const json_t *in;
        json_t *plain;
    } cast = { .in = object };
    return (struct def_members){ cast.plain, json_object_iter(cast.plain) };
}

bool def_members_next(struct def_members *members, struct str *out_name, const json_t **out_value)
{
    if (members->at == NULL)
        return false;
    *out_name = (struct str){ json_object_iter_key(members->at), json_object_iter_key_len(members->at) };
    *out_value = json_object_iter_value(members->at);
    members->at = json_object_iter_next(members->object, members->at);
    return true;
}

struct str def_pointer_part(struct arena *arena, struct str name)
{
    char *z = arena_alloc(arena, 2 * name.len + 1);
    size_t n = 0;
    for (size_t i = 0; i < name.len; i++) {
        char c = name.ptr[i];
        if (c == '~' || c == '/') {
            z[n++] = '~';
            c = c == '~' ? '0' : '1';
        }
        z[n++] = c;
    }
    return (struct str){ z, n };
}

static void name_unknown(struct resolve *r, struct str path, struct str name)
{
    size_t before = r->err->n_items;
    err_item(r->err, ERR_unknown_task, path, "no task of this call is named '%.*s'", STR_ARG(str_sub(name, 0, 100)));
    if (r->err->n_items == before)
        return; /* over the number of faults that are told: a suggestion would only cost time */
    size_t n = 0, n_max = r->names.n < 1000 ? r->names.n : 1000;
    struct str *known = ARENA_ARRAY(r->arena, struct str, n_max);
    SMAP_EACH (&r->names, entry)
        if (n < n_max)
            known[n++] = entry->key;
    struct str near = str_closest(name, known, n);
    if (near.len > 0)
        err_item_last(r->err)->suggestion = str_fmt(r->arena, "did you mean '%.*s'?", STR_ARG(near));
}

/* target_read: who is meant; false: a fault was added. */
static bool target_read(struct resolve *r, const json_t *value, struct str path, struct task_ref *out)
{
    if (json_is_integer(value)) {
        out->id = json_integer_value(value);
        return out->id > 0 ? true : err_item(r->err, ERR_invalid, path, "a task's id is a positive number, not %lld", (long long)out->id);
    }
    if (!json_is_string(value))
        return err_item(r->err, ERR_invalid, path, "a task is named by its id, or by its name in this call");
    struct str name = { json_string_value(value), json_string_length(value) };
    const struct task_def *def = smap_find(&r->names, name);
    if (def != NULL) {
        out->index = (size_t)(def - r->posted->defs);
        if (out->kind == EDGE_DEPENDS && r->links[out->index].allow_failure)
            out->kind = EDGE_AFTER;
        return true;
    }
    struct key key;
    struct err fault = { 0 };
    bool is_key = key_parse(name, &key, &fault);
    if (is_key && (key.kind == KEY_ID || key.kind == KEY_QUEUE_TASK)) {
        out->id = key.id;
        return true;
    }
    if (is_key && key.kind == KEY_TASK && r->posted->find != NULL) {
        if (!r->posted->find(r->posted->owner, &key, &out->id, r->err))
            return false;
        return out->id > 0 || err_item(r->err, ERR_unknown_task, path, "there is no task '%.*s'", STR_ARG(str_sub(name, 0, 200)));
    }
    if (str_eqz(name, "PREV") || str_starts(name, STR("PREV:")))
        return err_item(r->err, ERR_invalid, path, "PREV means an earlier revision of an archive; a queue has none");
    name_unknown(r, path, name);
    return false;
}

/* on_read: {task, on: success|finished}; the word decides what kind of edge it is, whichever list it stands in and whatever the other
 * allows. */
static bool on_read(struct resolve *r, const json_t *value, struct str path, struct task_ref *out)
{
    struct json_reader reader;
    struct str on;
    size_t before = r->err->n_items;
    enum edge_kind said = EDGE_NONE;
    if (!json_read_object(&reader, value, path, r->arena, r->err))
        return false;
    const json_t *task = json_read_any(&reader, "task");
    if (json_read_str(&reader, "on", 20, &on)) {
        if (str_eqz(on, "success"))
            said = EDGE_DEPENDS;
        else if (str_eqz(on, "finished"))
            said = EDGE_AFTER;
        else
            err_item(
                r->err, ERR_invalid, json_read_path(&reader, "on"), "'on' must be \"success\" or \"finished\", not \"%.*s\"", STR_ARG(on));
    }
    json_read_end(&reader);
    if (task == NULL)
        return err_item(r->err, ERR_invalid, json_read_path(&reader, "task"), "'task' is required");
    bool good = target_read(r, task, json_read_path(&reader, "task"), out) && r->err->n_items == before;
    if (said != EDGE_NONE)
        out->kind = said;
    return good;
}

/* ref_add: the same task twice is one edge, the stronger one; waiting for what one cancels is a contradiction. */
static void ref_add(struct resolve *r, struct task_def *def, const struct task_ref *ref)
{
    uint64_t target = ref->id > 0 ? (uint64_t)ref->id * 2 : (uint64_t)ref->index * 2 + 1;
    struct task_ref *known = map_find(&r->seen, target);
    if (known == NULL) {
        struct task_ref *added = ARENA_NEW(r->arena, struct task_ref);
        *added = *ref;
        map_put(&r->seen, target, added);
        *ARENA_PUSH(r->arena, def->refs, def->n_refs, r->cap_refs) = *ref;
        return;
    }
    if (known->kind == ref->kind && known->needed >= ref->needed)
        return;
    if (known->kind != ref->kind && (known->kind == EDGE_CANCELS || ref->kind == EDGE_CANCELS)) {
        err_item(r->err, ERR_invalid, ref->path, "the task waits for what it cancels");
        return;
    }
    known->kind = known->kind == ref->kind ? known->kind : EDGE_DEPENDS;
    known->needed |= ref->needed;
    for (size_t i = 0; i < def->n_refs; i++)
        if (def->refs[i].id == ref->id && def->refs[i].index == ref->index) {
            def->refs[i].kind = known->kind;
            def->refs[i].needed = known->needed;
        }
}

static void list_resolve(struct resolve *r, struct task_def *def, enum def_list which, const json_t *list)
{
    struct str base = str_fmt(r->arena, "%.*s/%s", STR_ARG(def->path), lists_of[which].name);
    if (!json_is_array(list) || json_array_size(list) > REFS_MAX) {
        err_item(r->err, ERR_invalid, base, "'%s' must be an array of at most %d tasks", lists_of[which].name, REFS_MAX);
        return;
    }
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *value = json_array_get(list, i);
        struct task_ref ref = {
            .kind = lists_of[which].kind, .path = json_read_path_at(r->arena, base, i), .needed = which == DEF_DEPENDS
        };
        bool good =
            json_is_object(value) && which != DEF_CANCELS ? on_read(r, value, ref.path, &ref) : target_read(r, value, ref.path, &ref);
        if (good)
            ref_add(r, def, &ref);
    }
}

static void names_collect(struct resolve *r)
{
    for (size_t i = 0; i < r->posted->n; i++) {
        struct task_def *def = &r->posted->defs[i];
        if (def->name.len == 0)
            continue;
        if (smap_find(&r->names, def->name) == NULL)
            smap_put(&r->names, def->name, def);
        else
            err_item(r->err, ERR_invalid, str_fmt(r->arena, "%.*s/name", STR_ARG(def->path)), "the name '%.*s' is used twice in this call",
                STR_ARG(def->name));
    }
}

void refs_resolve(struct arena *arena, struct posted *posted, const struct def_links *links, struct err *err)
{
    struct resolve r = { .arena = arena, .err = err, .posted = posted, .links = links };
    names_collect(&r);
    for (size_t i = 0; i < posted->n; i++) {
        bool any = false;
        for (size_t k = 0; k < DEF_LISTS; k++) {
            if (links[i].lists[k] == NULL)
                continue;
            if (!any) {
                map_clear(&r.seen);
                r.cap_refs = 0;
            }
            any = true;
            list_resolve(&r, &posted->defs[i], (enum def_list)k, links[i].lists[k]);
        }
    }
    smap_release(&r.names);
    map_release(&r.seen);
}
