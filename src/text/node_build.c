/* node_build: the limits of documents, in one place for YAML and JSON.
 *
 * Owns the count of nodes, the depth and the check for duplicate keys (linear in the size of the file). Fails by
 * diagnostics. */
#include "text/node_build.h"

#include "text/utf8.h"

#define LINEAR_KEYS 16 /* up to here comparing each with each is faster than a table */

bool node_build_open(struct node_build *build, const struct diag_file *file, struct arena *arena, struct diags *diags)
{
    *build = (struct node_build){ .context = { file, arena, diags, NULL } };
    if (file->text.len > NODE_FILE_BYTES_MAX)
        return diag_error(diags, (struct diag_place){ file, 0, 0 }, "the file has %zu bytes; at most %zu are taken",
            file->text.len, NODE_FILE_BYTES_MAX);
    if (str_starts(file->text, STR("\xef\xbb\xbf")) || str_starts(file->text, STR("\xff\xfe")) ||
        str_starts(file->text, STR("\xfe\xff")))
        return diag_error(diags, (struct diag_place){ file, 1, 1 },
            "the file begins with a byte order mark; write it as plain UTF-8");
    size_t bad = utf8_fault(file->text);
    if (bad < file->text.len)
        return diag_error(
            diags, diag_place_at(file, bad), "byte 0x%02x isn't UTF-8", (unsigned char)file->text.ptr[bad]);
    return true;
}

struct doc_node *node_build_new(struct node_build *build, enum node_kind kind, unsigned line, unsigned column)
{
    if (++build->n_nodes > NODE_COUNT_MAX && !build->unbounded) {
        diag_error(build->context.diags, (struct diag_place){ build->context.file, line, column },
            "the file has more than %d nodes", NODE_COUNT_MAX);
        return NULL;
    }
    struct doc_node *node = ARENA_NEW(build->context.arena, struct doc_node);
    node->kind = kind;
    node->line = line;
    node->column = column;
    node->weight = 1;
    node->height = 1;
    return node;
}

bool node_build_nest(struct node_build *build, unsigned line, unsigned column)
{
    if (++build->depth <= NODE_DEPTH_MAX)
        return true;
    return diag_error(build->context.diags, (struct diag_place){ build->context.file, line, column },
        "nested more than %d levels deep", NODE_DEPTH_MAX);
}

static void child_count(struct doc_node *parent, const struct doc_node *child)
{
    parent->weight += child->weight;
    if (parent->height < child->height + 1)
        parent->height = child->height + 1;
}

void node_items_add(
    struct node_build *build, struct node_items *items, struct doc_node *parent, const struct doc_node *item)
{
    *ARENA_PUSH(build->context.arena, items->items, items->n, items->cap) = item;
    child_count(parent, item);
}

static const struct doc_node *key_seen(struct node_items *items, struct str key)
{
    if (items->n > LINEAR_KEYS)
        return smap_find(&items->seen, key);
    for (size_t i = 0; i < items->n; i++)
        if (str_eq(items->pairs[i].key->text, key))
            return items->pairs[i].key;
    return NULL;
}

/* key_note: fills the table when there are too many keys to compare each with each. */
static void key_note(struct node_items *items)
{
    size_t from = items->n == LINEAR_KEYS + 1 ? 0 : items->n - 1;
    for (size_t i = from; items->n > LINEAR_KEYS && i < items->n; i++) {
        union {
            const struct doc_node *in;
            void *plain;
        } key = { .in = items->pairs[i].key };
        smap_put(&items->seen, items->pairs[i].key->text, key.plain);
    }
}

void node_pairs_add(struct node_build *build, struct node_items *items, struct doc_node *parent,
    const struct doc_node *key, const struct doc_node *value)
{
    const struct doc_node *first = key_seen(items, key->text);
    if (first != NULL) {
        struct str shown = diag_shown(key->text);
        node_fault(&build->context, key, "the key '%.*s' stands here a second time; the first is in line %u",
            STR_ARG(shown), first->line);
        return;
    }
    *ARENA_PUSH(build->context.arena, items->pairs, items->n, items->cap) = (struct node_pair){ key, value };
    key_note(items);
    parent->weight += key->weight;
    child_count(parent, value);
}

void node_items_finish(struct node_items *items, struct doc_node *parent)
{
    parent->items = items->items;
    parent->pairs = items->pairs;
    parent->n = items->n;
    smap_release(&items->seen);
}
