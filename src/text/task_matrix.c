/* task_matrix: the key `matrix`: axes, and the rows that are left out or added. */
#include "text/key.h"
#include "text/workflow_read.h"

enum { AXES_MAX = 16 };

static bool axis_of(struct task_read *r, const struct node_pair *pair, struct workflow_axis *out)
{
    struct str shown = diag_shown(pair->key->text);
    if (!name_is_valid(pair->key->text))
        return node_fault(&r->context, pair->key, "'%.*s' can't be the name of an axis", STR_ARG(shown));
    if (pair->value->kind != NODE_SEQUENCE || pair->value->n == 0)
        return node_fault(&r->context, pair->value, "'%.*s' must be a list of values", STR_ARG(shown));
    out->name = pair->key->text;
    if (!task_lines(r, pair->value, WORKFLOW_VARIANTS_MAX, &out->values))
        return false;
    for (size_t i = 0; i < out->values.n; i++) {
        struct err err = { 0 };
        struct str variant = str_fmt(r->context.arena, "%.*s=%.*s", STR_ARG(out->name), STR_ARG(out->values.items[i]));
        if (!variant_check(variant, &err))
            return node_fault(&r->context, pair->value->items[i], "%s", err.text);
    }
    return true;
}

/* rows_of: include and exclude: a list of mappings axis: value. */
static bool rows_of(
    struct task_read *r, const struct doc_node *value, const char *what, struct workflow_pairs **out, size_t *out_n)
{
    bool ok = true;
    if (value->kind != NODE_SEQUENCE || value->n > WORKFLOW_VARIANTS_MAX)
        return node_fault(
            &r->context, value, "'%s' must be a list of at most %d mappings", what, WORKFLOW_VARIANTS_MAX);
    struct workflow_pairs *rows = ARENA_ARRAY(r->context.arena, struct workflow_pairs, value->n + 1);
    for (size_t i = 0; i < value->n; i++) {
        const struct doc_node *row = value->items[i];
        if (row->kind != NODE_MAPPING || row->n == 0) {
            ok = node_fault(&r->context, row, "'%s' must be a list of mappings, such as {os: a}", what);
            continue;
        }
        rows[i].items = ARENA_ARRAY(r->context.arena, struct label, row->n);
        for (size_t k = 0; k < row->n; k++) {
            struct str text = { 0 };
            ok = task_line(r, row->pairs[k].value, NAME_CHARS_MAX, &text) && ok;
            rows[i].items[rows[i].n++] = (struct label){ row->pairs[k].key->text, text };
        }
    }
    *out = rows;
    *out_n = value->n;
    return ok;
}

bool value_matrix(struct task_read *r, const struct doc_node *value)
{
    struct workflow_matrix matrix = { 0 };
    bool ok = true;
    size_t variants = 1;
    if (value->kind != NODE_MAPPING || value->n == 0 || value->n > AXES_MAX + 2)
        return node_fault(
            &r->context, value, "'matrix' must be a mapping of 1 to %d axes, each a list of values", AXES_MAX);
    matrix.axes = ARENA_ARRAY(r->context.arena, struct workflow_axis, value->n);
    for (size_t i = 0; i < value->n; i++) {
        const struct node_pair *pair = &value->pairs[i];
        if (str_eqz(pair->key->text, "exclude")) {
            ok = rows_of(r, pair->value, "exclude", &matrix.exclude, &matrix.n_exclude) && ok;
        } else if (str_eqz(pair->key->text, "include")) {
            ok = rows_of(r, pair->value, "include", &matrix.include, &matrix.n_include) && ok;
        } else if (axis_of(r, pair, &matrix.axes[matrix.n_axes])) {
            variants *= matrix.axes[matrix.n_axes++].values.n;
            if (variants > WORKFLOW_VARIANTS_MAX)
                return node_fault(&r->context, value, "'matrix' has more than %d combinations", WORKFLOW_VARIANTS_MAX);
        } else {
            ok = false;
        }
    }
    r->task->reserved.matrix = matrix;
    return ok;
}
