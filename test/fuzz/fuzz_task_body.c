/* Posted tasks: what jansson takes for JSON is taken, and nothing else is; the same document written anew, with every
 * character beyond ASCII as an escape and without blanks, gives the same definitions and the same faults; every fault
 * names a place and says something. */
#include "api/call.h"
#include "fuzz.h"

#define SHAPES(X) X(one) X(many) X(refs) X(fault) X(not_json) X(data) X(labels)
FUZZ_SHAPES(SHAPES)

static void refs_same(const struct task_def *a, const struct task_def *b)
{
    HOLDS(a->n_refs == b->n_refs);
    for (size_t i = 0; i < a->n_refs; i++) {
        HOLDS(a->refs[i].kind == b->refs[i].kind && a->refs[i].id == b->refs[i].id &&
              a->refs[i].index == b->refs[i].index);
        HOLDS(str_eq(a->refs[i].path, b->refs[i].path));
    }
    SEEN_IF(refs, a->n_refs > 0);
}

static void defs_same(const struct task_def *a, const struct task_def *b)
{
    HOLDS(str_eq(a->queue, b->queue) && str_eq(a->name, b->name) && str_eq(a->zone, b->zone));
    HOLDS(str_eq(a->unique, b->unique) && str_eq(a->concurrency, b->concurrency) && str_eq(a->path, b->path));
    HOLDS(a->kind == b->kind && a->prio == b->prio && a->not_before == b->not_before && a->retry_on == b->retry_on);
    HOLDS(a->attempts_max == b->attempts_max && a->backoff_ms == b->backoff_ms);
    HOLDS(a->n_labels == b->n_labels && a->n_semaphores == b->n_semaphores);
    for (size_t i = 0; i < a->n_labels; i++)
        HOLDS(str_eq(a->labels[i].name, b->labels[i].name) && str_eq(a->labels[i].value, b->labels[i].value));
    for (size_t i = 0; i < a->n_semaphores; i++)
        HOLDS(str_eq(a->semaphores[i], b->semaphores[i]));
    refs_same(a, b);
    json_t *one = json_loadb(a->body.ptr, a->body.len, JSON_ALLOW_NUL, NULL);
    json_t *other = json_loadb(b->body.ptr, b->body.len, JSON_ALLOW_NUL, NULL);
    HOLDS(json_equal(one, other) == 1); /* numbers may be spelled otherwise */
    json_decref(one);
    json_decref(other);
    SEEN_IF(labels, a->n_labels > 0);
    SEEN_IF(data, a->kind == KIND_DATA);
}

/* What the executor will be given is JSON, whatever way it came; names are names. */
static void def_sound(struct arena *arena, const struct task_def *def, size_t n)
{
    struct err err = { .arena = arena };
    json_t *body = json_parse(def->body, NODE_DEPTH_MAX + 1, &err);
    HOLDS(json_is_object(body));
    json_decref(body);
    HOLDS(name_is_valid(def->queue) && name_is_valid(def->name));
    for (size_t i = 0; i < def->n_refs; i++)
        HOLDS(def->refs[i].id > 0 || def->refs[i].index < n);
}

static bool fault_among(const struct err *err, const struct err_item *item)
{
    for (size_t i = 0; i < err->n_items; i++)
        if (str_eq(err->items[i].path, item->path) && str_eq(err->items[i].message, item->message))
            return true; /* suggestions go by the spelling: -0 is written anew as 0 */
    return false;
}

static void faults_same(const struct err *a, const struct err *b)
{
    HOLDS(a->code == b->code && a->n_items == b->n_items);
    for (size_t i = 0; i < a->n_items; i++) {
        HOLDS(a->items[i].message.len > 0 && str_is_utf8(a->items[i].message));
        HOLDS(a->items[i].path.len == 0 || a->items[i].path.ptr[0] == '/');
        HOLDS(a->n_items == 100 || fault_among(b, &a->items[i])); /* more than 100: each keeps its first 100 */
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct str text = { (const char *)bytes, len };
    struct arena arena = { 0 };
    struct err err = { .arena = &arena }, general_err = { .arena = &arena };
    struct task_body body = { 0 }, general = { 0 };
    bool good = task_body_read(&arena, text, &body, &err);
    HOLDS(good == (err.code == ERR_none));
    json_t *document = json_parse(text, NODE_DEPTH_MAX, &general_err);
    if (document == NULL) {
        HOLDS(!good && err.code == general_err.code && err.n_items == 1 && err.items[0].line > 0);
        SEEN(not_json);
    } else {
        char *again = json_dumps(document, JSON_ENCODE_ANY | JSON_ENSURE_ASCII | JSON_COMPACT);
        HOLDS(again != NULL);
        HOLDS(task_body_read(&arena, str_of(again), &general, &general_err) == good);
        if (good) {
            HOLDS(body.n == general.n && body.many == general.many);
            for (size_t i = 0; i < body.n; i++) {
                defs_same(&body.defs[i], &general.defs[i]);
                def_sound(&arena, &body.defs[i], body.n);
            }
            SEEN_IF(one, !body.many);
            SEEN_IF(many, body.many);
        } else {
            HOLDS(err.n_items > 0);
            faults_same(&err, &general_err);
            SEEN(fault);
        }
        free(again);
    }
    json_decref(document);
    arena_release(&arena);
    return 0;
}
