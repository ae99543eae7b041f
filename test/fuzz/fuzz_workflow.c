/* Workflow files: any text is read or refused, each fault at a place inside the file; what is read expands without a
 * cycle, and written as JSON it is read again as the same tasks and edges. */
#include "fuzz.h"
#include "core/expand.h"
#include "text/json_node.h"
#include "text/workflow.h"

#define SHAPES(X) \
    X(accepted) X(refused) X(edges) X(earlier) X(locked) X(matrix) X(shorthand) X(skipped) X(as_json) X(several_faults)
FUZZ_SHAPES(SHAPES)

enum { REV = 7, EXPAND_TASKS_MAX = 200 };

static unsigned lines_of(struct str text)
{
    unsigned n = 1;
    for (size_t i = 0; i < text.len; i++)
        /* also the breaks of Unicode */
        n += text.ptr[i] == '\n' || text.ptr[i] == '\r' || (unsigned char)text.ptr[i] >= 0x80;
    return n;
}

static int64_t earlier(void *context, struct str name, int64_t upto, bool ran)
{
    (void)context, (void)ran;
    return name.len % 3 == 0 ? 0 : upto; /* some tasks are new */
}

static bool touched(void *context, const struct workflow_task *task)
{
    (void)context;
    return task->name.len % 2 == 0;
}

static void expand_all(const struct workflow *workflow, struct arena *arena, struct expansion *out)
{
    static const int64_t prevs[] = { REV - 1 };
    struct expand_input input = {
        .workflow = workflow, .rev = REV, .prevs = prevs, .n_prevs = 1, .earlier = earlier, .touched = touched
    };
    *out = (struct expansion){ 0 };
    expand(&input, arena, out);
}

static size_t index_of(const struct expansion *x, struct str name)
{
    size_t i = 0;
    while (i < x->n_tasks && !str_eq(x->tasks[i].name, name))
        i++;
    return i;
}

/* Edges name tasks that are there, and following those of this revision never leads back. */
static void expansion_check(const struct expansion *x, struct arena *arena)
{
    size_t *left = ARENA_ARRAY(arena, size_t, x->n_tasks + 1), done = 0;
    bool *gone = ARENA_ARRAY(arena, bool, x->n_tasks + 1);
    for (size_t i = 0; i < x->n_edges; i++) {
        const struct expand_edge *e = &x->edges[i];
        HOLDS(e->task < x->n_tasks && e->other.rev >= 1 && e->other.rev <= REV);
        SEEN(edges);
        SEEN_IF(earlier, e->other.rev < REV);
        SEEN_IF(locked, e->lock);
        if (e->other.rev < REV)
            continue;
        HOLDS(index_of(x, e->other.name) < x->n_tasks);
        left[e->task] += e->kind != EDGE_CANCELS;
    }
    for (bool more = true; more;) {
        more = false;
        for (size_t t = 0; t < x->n_tasks; t++) {
            SEEN_IF(skipped, x->tasks[t].skipped);
            if (gone[t] || left[t] > 0)
                continue;
            gone[t] = more = true;
            done++;
            for (size_t i = 0; i < x->n_edges; i++)
                if (x->edges[i].other.rev == REV && x->edges[i].kind != EDGE_CANCELS &&
                    str_eq(x->edges[i].other.name, x->tasks[t].name))
                    left[x->edges[i].task]--;
        }
    }
    HOLDS(done == x->n_tasks);
}

static bool read_file(const struct diag_file *file, struct arena *arena, struct diags *diags, struct workflow *out)
{
    struct workflow_source source = { .file = file };
    struct workflow_input input = { .sources = &source, .n_sources = 1, .policies = true };
    *out = (struct workflow){ 0 };
    return workflow_parse(&input, arena, diags, out);
}

static void same_again(struct str text, bool as_json, const struct expansion *first, struct arena *arena)
{
    struct diag_file file = { as_json ? STR("fuzz.json") : STR("fuzz.yaml"), text };
    struct diags diags = { .arena = arena };
    struct buf out;
    buf_init(&out, 1 << 24);
    const struct doc_node *node = node_parse(&file, arena, &diags);
    HOLDS(node);
    node_json(&out, node);
    struct diag_file written = { STR("written.json"), buf_str(&out) };
    struct workflow workflow;
    struct expansion second;
    struct diags none = { .arena = arena };
    if (out.len < NODE_FILE_BYTES_MAX) {
        bool good = read_file(&written, arena, &none, &workflow);
        for (size_t i = 0; i < none.n; i++) /* where YAML has a text, bare, JSON has a number or a truth value */
            HOLDS(none.items[i].severity == DIAG_WARNING ||
                  (!as_json &&
                      memmem(none.items[i].message.ptr, none.items[i].message.len, "must be a string", 16) != NULL));
        if (!good) {
            buf_release(&out);
            return;
        }
        expand_all(&workflow, arena, &second);
        HOLDS(second.n_tasks == first->n_tasks && second.n_edges == first->n_edges);
        for (size_t i = 0; i < first->n_tasks; i++)
            HOLDS(str_eq(first->tasks[i].name, second.tasks[i].name) &&
                  first->tasks[i].skipped == second.tasks[i].skipped);
        for (size_t i = 0; i < first->n_edges; i++) {
            const struct expand_edge *a = &first->edges[i], *b = &second.edges[i];
            HOLDS(a->task == b->task && a->kind == b->kind && a->lock == b->lock && a->other.rev == b->other.rev);
            HOLDS(str_eq(a->other.name, b->other.name));
        }
    }
    buf_release(&out);
}

static void read_both_ways(struct str text, bool as_json)
{
    struct arena arena = { 0 };
    struct diag_file file = { as_json ? STR("fuzz.json") : STR("fuzz.yaml"), text };
    struct diags diags = { .arena = &arena };
    struct workflow workflow;
    bool good = read_file(&file, &arena, &diags, &workflow);
    HOLDS(good == (diags.n_errors == 0));
    for (size_t i = 0; i < diags.n; i++)
        HOLDS(diags.items[i].place.line <= lines_of(text) + 1 && diags.items[i].message.len > 0);
    if (good && workflow.n_tasks <= EXPAND_TASKS_MAX) {
        struct expansion expansion;
        SEEN(accepted);
        SEEN_IF(as_json, as_json);
        SEEN_IF(shorthand, memmem(text.ptr, text.len, "parallel", 8) != NULL);
        for (size_t i = 0; i < workflow.n_tasks; i++)
            SEEN_IF(matrix, workflow.tasks[i].reserved.matrix.n_axes > 0);
        expand_all(&workflow, &arena, &expansion);
        expansion_check(&expansion, &arena);
        same_again(text, as_json, &expansion, &arena);
    } else if (!good) {
        SEEN(refused);
        SEEN_IF(several_faults, diags.n_errors > 1);
    }
    arena_release(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct str text = { (const char *)bytes, len };
    read_both_ways(text, false);
    read_both_ways(text, true);
    return 0;
}
