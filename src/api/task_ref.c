/* task_ref: which other tasks a posted task waits for or cancels.
 *
 * A reference is an id, a key, the name of a task of the same call, or {task, on}. Names become positions here; ids
 * stay as they are. It fails with unknown_task for names that the call doesn't have, and invalid for what contradicts
 * itself. */
#include "api/task_body.h"
#include "base/map.h"
#include "text/json.h"
#include "text/key.h"

enum { REFS_MAX = 10000 };

struct resolve {
    struct arena *arena;
    struct err *err;
    struct task_body *body;
    const struct task_links *links;
    struct smap names; /* -> struct task_def */
    struct map seen;   /* of one task: target -> struct task_ref */
    size_t cap_refs;
};

static void name_unknown(struct resolve *r, struct str path, struct str name)
{
    size_t before = r->err->n_items;
    err_item(r->err, ERR_unknown_task, path, "no task of this call is named '%.*s'", STR_ARG(str_sub(name, 0, 100)));
    if (r->err->n_items == before)
        return; /* more faults than are answered: a suggestion would only cost time */
    size_t n = 0, n_max = r->names.n < 1000 ? r->names.n : 1000;
    struct str *known = ARENA_ARRAY(r->arena, struct str, n_max);
    SMAP_EACH (&r->names, entry)
        if (n < n_max)
            known[n++] = entry->key;
    struct str near = str_closest(name, known, n);
    if (near.len > 0)
        err_item_last(r->err)->suggestion = str_fmt(r->arena, "did you mean '%.*s'?", STR_ARG(near));
}

/* target_read: the task that is meant; false: a fault was added. */
static bool target_read(struct resolve *r, const struct doc_node *value, struct str path, struct task_ref *out)
{
    if (value->kind == NODE_SCALAR && value->plain && str_to_i64(value->text, &out->id))
        return out->id > 0 ? true
                           : err_item(r->err, ERR_invalid, path, "a task's id is a positive number, not %lld",
                                 (long long)out->id);
    if (value->kind != NODE_SCALAR || value->plain)
        return err_item(r->err, ERR_invalid, path, "a task is named by its id, or by its name in this call");
    struct str name = value->text;
    const struct task_def *def = smap_find(&r->names, name);
    if (def != NULL) {
        out->index = (size_t)(def - r->body->defs);
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
    if (str_eqz(name, "PREV") || str_starts(name, STR("PREV:")))
        return err_item(r->err, ERR_invalid, path, "PREV means an earlier revision of an archive; a queue has none");
    if (is_key && (key.kind == KEY_TASK || key.kind == KEY_CHANGESET) && r->body->find != NULL) {
        if (!r->body->find(r->body->owner, &key, &out->id, r->err))
            return false;
        return out->id > 0 ||
               err_item(r->err, ERR_unknown_task, path, "there is no task '%.*s'", STR_ARG(str_sub(name, 0, 200)));
    }
    name_unknown(r, path, name);
    return false;
}

/* on_read: {task, on: success|finished}; the word decides what kind of edge it is, whichever list it stands in and
 * whatever the other allows. */
static bool on_read(struct resolve *r, const struct doc_node *value, struct str path, struct task_ref *out)
{
    size_t before = r->err->n_items;
    enum edge_kind said = EDGE_NONE;
    const struct doc_node *task = NULL;
    for (size_t i = 0; i < value->n; i++) {
        struct str key = value->pairs[i].key->text, at = json_pointer_add(r->arena, path, key);
        const struct doc_node *item = value->pairs[i].value;
        bool text = item->kind == NODE_SCALAR && !item->plain;
        if (str_eqz(key, "task") && !node_is_null(item))
            task = item;
        else if (str_eqz(key, "on") && text && str_eqz(item->text, "success"))
            said = EDGE_DEPENDS;
        else if (str_eqz(key, "on") && text && str_eqz(item->text, "finished"))
            said = EDGE_AFTER;
        else if (str_eqz(key, "on") && !node_is_null(item))
            err_item(r->err, ERR_invalid, at, "'on' must be \"success\" or \"finished\", not %.*s",
                STR_ARG(diag_shown(item->raw)));
        else if (!str_eqz(key, "on") && !str_eqz(key, "task"))
            err_item(r->err, ERR_invalid, at, "unknown field '%.*s'", STR_ARG(diag_shown(key)));
    }
    struct str at = json_pointer_add(r->arena, path, STR("task"));
    if (task == NULL)
        return err_item(r->err, ERR_invalid, at, "'task' is required");
    bool good = target_read(r, task, at, out) && r->err->n_items == before;
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

static void list_resolve(
    struct resolve *r, struct task_def *def, const char *name, enum edge_kind kind, const struct doc_node *list)
{
    struct str base = json_pointer_add(r->arena, def->path, str_of(name));
    if (list->kind != NODE_SEQUENCE || list->n > REFS_MAX) {
        err_item(r->err, ERR_invalid, base, "'%s' must be an array of at most %d tasks", name, REFS_MAX);
        return;
    }
    for (size_t i = 0; i < list->n; i++) {
        const struct doc_node *value = list->items[i];
        struct task_ref ref = {
            .kind = kind, .path = json_pointer_at(r->arena, base, i), .needed = kind == EDGE_DEPENDS
        };
        bool good = value->kind == NODE_MAPPING && kind != EDGE_CANCELS ? on_read(r, value, ref.path, &ref)
                                                                        : target_read(r, value, ref.path, &ref);
        if (good)
            ref_add(r, def, &ref);
    }
}

static void names_collect(struct resolve *r)
{
    for (size_t i = 0; i < r->body->n; i++) {
        struct task_def *def = &r->body->defs[i];
        if (def->name.len == 0)
            continue;
        if (smap_find(&r->names, def->name) == NULL)
            smap_put(&r->names, def->name, def);
        else
            err_item(r->err, ERR_invalid, str_fmt(r->arena, "%.*s/name", STR_ARG(def->path)),
                "the name '%.*s' is used twice in this call", STR_ARG(def->name));
    }
}

void refs_resolve(struct arena *arena, struct task_body *body, const struct task_links *links, struct err *err)
{
    struct resolve r = { .arena = arena, .err = err, .body = body, .links = links };
    names_collect(&r);
    for (size_t i = 0; i < body->n; i++) {
        const struct {
            const char *name;
            enum edge_kind kind;
            const struct doc_node *list;
        } lists[] = { { "depends", EDGE_DEPENDS, links[i].depends }, { "after", EDGE_AFTER, links[i].after },
            { "cancels", EDGE_CANCELS, links[i].cancels } };
        if (links[i].depends != NULL || links[i].after != NULL || links[i].cancels != NULL)
            map_clear(&r.seen);
        r.cap_refs = 0;
        for (size_t k = 0; k < sizeof lists / sizeof lists[0]; k++)
            if (lists[k].list != NULL)
                list_resolve(&r, &body->defs[i], lists[k].name, lists[k].kind, lists[k].list);
    }
    smap_release(&r.names);
    map_release(&r.seen);
}
