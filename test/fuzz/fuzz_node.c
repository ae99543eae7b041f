/* Workflow files: YAML and strict JSON into nodes. What is accepted stays within its limits and, written as JSON, is
 * read again by the strict reader to the same JSON; what is refused has a fault with a place that can be shown. */
#include "fuzz.h"
#include "text/json_node.h"
#include "text/yaml.h"

#define SHAPES(X) X(yaml) X(json) X(refused) X(mapping) X(sequence) X(alias) X(deep)
FUZZ_SHAPES(SHAPES)

static unsigned lines_of(struct str text)
{
    unsigned n = 1;
    for (size_t i = 0; i < text.len; i++)
        /* also the breaks of Unicode */
        n += text.ptr[i] == '\n' || text.ptr[i] == '\r' || (unsigned char)text.ptr[i] >= 0x80;
    return n;
}

static size_t nodes_count(const struct doc_node *node, unsigned depth, struct str text, unsigned lines)
{
    HOLDS(depth <= NODE_DEPTH_MAX);
    /* inside the document; a value that isn't there stands where it could, which may be the line behind the last */
    HOLDS(node->line >= 1 && node->line <= lines + 1 && node->column >= 1 && node->column <= text.len + 1);
    SEEN_IF(mapping, node->kind == NODE_MAPPING && node->n > 0);
    SEEN_IF(sequence, node->kind == NODE_SEQUENCE && node->n > 0);
    SEEN_IF(deep, depth > 8);
    size_t n = 1;
    for (size_t i = 0; i < node->n && n <= NODE_COUNT_MAX * (size_t)NODE_EXPANSION_MAX; i++) {
        n += nodes_count(node->kind == NODE_SEQUENCE ? node->items[i] : node->pairs[i].value, depth + 1, text, lines);
    }
    return n;
}

static void parse_both_ways(struct str text, bool as_json)
{
    struct arena arena = { 0 };
    struct diag_file file = { as_json ? STR("fuzz.json") : STR("fuzz.yaml"), text };
    struct diags diags = { .arena = &arena };
    struct buf out, again;
    buf_init(&out, 1 << 24);
    buf_init(&again, 1 << 24);
    const struct doc_node *node = node_parse(&file, &arena, &diags);
    HOLDS((node == NULL) == (diags.n_errors > 0));
    if (node) {
        SEEN_IF(yaml, !as_json);
        SEEN_IF(json, as_json);
        SEEN_IF(alias, !as_json && str_index(text, '*') >= 0 && str_index(text, '&') >= 0);
        HOLDS(nodes_count(node, 1, text, lines_of(text)) <= NODE_COUNT_MAX * (size_t)NODE_EXPANSION_MAX);
        node_json(&out, node);
        struct diag_file written = { STR("written.json"), buf_str(&out) };
        struct diags none = { .arena = &arena };
        const struct doc_node *back = out.len < NODE_FILE_BYTES_MAX ? json_node_parse(&written, &arena, &none) : NULL;
        if (back) {
            node_json(&again, back);
            HOLDS(str_eq(buf_str(&out), buf_str(&again)));
        }
        HOLDS(back || out.len >= NODE_FILE_BYTES_MAX || none.n_errors);
    } else {
        SEEN(refused);
        for (size_t i = 0; i < diags.n; i++)
            HOLDS(diags.items[i].place.line <= lines_of(text) + 1 && diags.items[i].message.len > 0);
        diags_sort(&diags);
        diags_text(&out, &diags);
        HOLDS(out.len > 0);
        buf_reset(&out);
        diags_json(&out, &diags);
        HOLDS(str_is_utf8(buf_str(&out)));
    }
    buf_release(&out);
    buf_release(&again);
    arena_release(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct str text = { (const char *)bytes, len };
    parse_both_ways(text, false);
    parse_both_ways(text, true);
    return 0;
}
