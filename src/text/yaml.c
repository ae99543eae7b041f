/* yaml: libyaml's events composed into nodes, strictly.
 *
 * Owns the subset of YAML that is accepted: one document, no tags, no merge keys, no duplicate keys or anchors,
 * scalar keys only, 64 aliases, and at most ten times the file's size with aliases written out. Depth and nodes are
 * counted on events, so that an alias bomb costs nothing. It fails by diagnostics; a fault of syntax is the last
 * one, since nothing after it can be trusted. */
#include "text/yaml.h"

#include <string.h>
#include <yaml.h>

#include "text/node_build.h"
#include "text/utf8.h"

struct compose {
    struct node_build build;
    yaml_parser_t parser;
    struct smap anchors; /* name -> node; its weight is 0 until it is finished */
    size_t n_aliases, n_expanded;
    struct diag_place heaviest; /* the alias that stands for most nodes */
    size_t heaviest_weight;
};

static struct diag_place place_of(const struct compose *compose, const yaml_mark_t *mark)
{
    return (struct diag_place){ compose->build.context.file, (unsigned)mark->line + 1, (unsigned)mark->column + 1 };
}

/* chars_check: what libyaml would refuse or take for the end of a line without saying where. */
static bool chars_check(struct compose *compose)
{
    const struct node_context *context = &compose->build.context;
    struct str text = context->file->text;
    size_t skip;
    for (size_t at = 0; at < text.len;) {
        size_t n = utf8_length(text, at, &skip);
        uint32_t c = utf8_value(text.ptr + at, n);
        bool cr = c == '\r' && (at + 1 == text.len || text.ptr[at + 1] != '\n');
        bool control = (c < 0x20 && c != '\t' && c != '\n' && c != '\r') || (c >= 0x7f && c < 0xa0);
        if (cr)
            return diag_error(
                context->diags, diag_place_at(context->file, at), "a carriage return without a newline isn't allowed");
        if (control || c == 0x2028 || c == 0x2029 || c == 0xfeff || c == 0xfffe || c == 0xffff)
            return diag_error(context->diags, diag_place_at(context->file, at),
                "the character U+%04X must be written as an escape in quotes", c);
        at += n;
    }
    return true;
}

/* syntax_suggest: the three mistakes that people make and libyaml's words don't name. */
static void syntax_suggest(struct compose *compose, const char *problem, const char *while_what)
{
    struct diags *diags = compose->build.context.diags;
    struct str text = compose->build.context.file->text;
    size_t at = 0, skip;
    for (size_t i = 0; i < compose->parser.problem_mark.index && at < text.len; i++)
        at += utf8_length(text, at, &skip);
    char c = at < text.len ? text.ptr[at] : '\0';
    if (c == '\t')
        diag_suggest(diags, "indent with blanks: a tab isn't allowed there");
    else if (strstr(problem, "cannot start any token") != NULL)
        diag_suggest(diags, "a value that begins with '%c' needs quotes", c);
    else if (strstr(while_what, "scanning an alias") != NULL || strstr(while_what, "scanning an anchor") != NULL)
        diag_suggest(diags, "a value that begins with '*' or '&' needs quotes");
}

static bool syntax_fault(struct compose *compose)
{
    const yaml_parser_t *parser = &compose->parser;
    const struct node_context *context = &compose->build.context;
    ASSERT(parser->error != YAML_MEMORY_ERROR);
    struct diag_place place = place_of(compose, &parser->problem_mark);
    const char *problem = parser->problem != NULL ? parser->problem : "it can't be read";
    if (parser->context != NULL && parser->context_mark.line != parser->problem_mark.line)
        diag_error(context->diags, place, "%s %s that begins in line %zu", problem, parser->context,
            parser->context_mark.line + 1);
    else if (parser->context != NULL)
        diag_error(context->diags, place, "%s %s", problem, parser->context);
    else
        diag_error(context->diags, place, "%s", problem);
    syntax_suggest(compose, problem, parser->context != NULL ? parser->context : "");
    return false;
}

static bool event_next(struct compose *compose, yaml_event_t *out)
{
    return yaml_parser_parse(&compose->parser, out) != 0 || syntax_fault(compose);
}

static const struct doc_node *compose_node(struct compose *compose, const yaml_event_t *event);

static bool anchor_put(
    struct compose *compose, const yaml_event_t *event, const yaml_char_t *anchor, struct doc_node *node)
{
    struct str name = str_dup(compose->build.context.arena, str_of((const char *)anchor));
    if (smap_find(&compose->anchors, name) != NULL)
        return diag_error(compose->build.context.diags, place_of(compose, &event->start_mark),
            "the anchor '&%.*s' is defined twice", STR_ARG(diag_shown(name)));
    smap_put(&compose->anchors, name, node);
    return true;
}

/* properties_check: the anchor is noted, a tag is refused. */
static bool properties_check(struct compose *compose, const yaml_event_t *event, const yaml_char_t *anchor,
    const yaml_char_t *tag, struct doc_node *node)
{
    if (tag != NULL)
        return diag_error(compose->build.context.diags, place_of(compose, &event->start_mark),
            "tags such as '%.*s' aren't taken", STR_ARG(diag_shown(str_of((const char *)tag))));
    return anchor == NULL || anchor_put(compose, event, anchor, node);
}

static const struct doc_node *compose_alias(struct compose *compose, const yaml_event_t *event)
{
    struct diags *diags = compose->build.context.diags;
    struct diag_place place = place_of(compose, &event->start_mark);
    struct str name = str_of((const char *)event->data.alias.anchor);
    const struct doc_node *node = smap_find(&compose->anchors, name);
    if (++compose->n_aliases > NODE_ALIASES_MAX) {
        diag_error(diags, place, "the file has more than %d aliases", NODE_ALIASES_MAX);
        return NULL;
    }
    if (node == NULL || node->weight == 0) {
        const char *why = node == NULL ? "has no anchor before it" : "stands inside what it names";
        diag_error(diags, place, "the alias '*%.*s' %s", STR_ARG(diag_shown(name)), why);
        return NULL;
    }
    if (compose->build.depth + node->height > NODE_DEPTH_MAX + 1) { /* a scalar isn't a level */
        diag_error(diags, place, "with the alias '*%.*s' the file is nested more than %d levels deep",
            STR_ARG(diag_shown(name)), NODE_DEPTH_MAX);
        return NULL;
    }
    compose->n_expanded += node->weight;
    if (node->weight > compose->heaviest_weight) {
        compose->heaviest_weight = node->weight;
        compose->heaviest = place;
    }
    return node;
}

static const struct doc_node *compose_scalar(struct compose *compose, const yaml_event_t *event)
{
    struct diag_place place = place_of(compose, &event->start_mark);
    struct doc_node *node = node_build_new(&compose->build, NODE_SCALAR, place.line, place.column);
    if (node == NULL || !properties_check(compose, event, event->data.scalar.anchor, event->data.scalar.tag, node))
        return NULL;
    node->plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    struct str text = { (const char *)event->data.scalar.value, event->data.scalar.length };
    if (str_index(text, '\0') >= 0) {
        diag_error(compose->build.context.diags, place, "the text contains a NUL character");
        return NULL;
    }
    node->text = str_dup(compose->build.context.arena, text);
    return node;
}

/* compose_next: reads one event and composes what begins there; *out_end is set instead when the event is `end`. */
static const struct doc_node *compose_next(struct compose *compose, yaml_event_type_t end, bool *out_end)
{
    yaml_event_t event;
    *out_end = false;
    if (!event_next(compose, &event))
        return NULL;
    *out_end = event.type == end;
    const struct doc_node *node = *out_end ? NULL : compose_node(compose, &event);
    yaml_event_delete(&event);
    return node;
}

static bool sequence_fill(struct compose *compose, struct doc_node *node, struct node_items *items)
{
    for (;;) {
        bool end;
        const struct doc_node *item = compose_next(compose, YAML_SEQUENCE_END_EVENT, &end);
        if (end)
            return true;
        if (item == NULL)
            return false;
        node_items_add(&compose->build, items, node, item);
    }
}

static bool key_check(struct compose *compose, const struct doc_node *key, bool is_alias)
{
    const struct node_context *context = &compose->build.context;
    if (key->kind != NODE_SCALAR || is_alias)
        return node_fault(context, key, "a key must be a plain word or a string, not %s",
            is_alias ? "an alias" : node_found(context, key));
    if (key->plain && key->text.len == 0)
        return node_fault(context, key, "the key is missing");
    if (key->plain && str_eq(key->text, STR("<<")))
        return node_fault(context, key, "merge keys ('<<') aren't taken; write the keys out");
    return true;
}

static bool mapping_fill(struct compose *compose, struct doc_node *node, struct node_items *items)
{
    for (;;) {
        bool end;
        size_t n_aliases = compose->n_aliases;
        const struct doc_node *key = compose_next(compose, YAML_MAPPING_END_EVENT, &end);
        if (end)
            return true;
        if (key == NULL || !key_check(compose, key, compose->n_aliases > n_aliases && key->kind == NODE_SCALAR))
            return false;
        const struct doc_node *value = compose_next(compose, YAML_NO_EVENT, &end);
        if (value == NULL)
            return false;
        node_pairs_add(&compose->build, items, node, key, value);
    }
}

static const struct doc_node *compose_collection(
    struct compose *compose, const yaml_event_t *event, enum node_kind kind)
{
    bool sequence = kind == NODE_SEQUENCE;
    struct diag_place place = place_of(compose, &event->start_mark);
    struct doc_node *node = node_build_new(&compose->build, kind, place.line, place.column);
    if (node == NULL || !node_build_nest(&compose->build, place.line, place.column))
        return NULL;
    node->weight = 0; /* an alias inside sees that it isn't finished */
    if (!properties_check(compose, event,
            sequence ? event->data.sequence_start.anchor : event->data.mapping_start.anchor,
            sequence ? event->data.sequence_start.tag : event->data.mapping_start.tag, node))
        return NULL;
    struct node_items items = { 0 };
    struct doc_node sum = { .weight = 1, .height = 1 };
    bool ok = sequence ? sequence_fill(compose, &sum, &items) : mapping_fill(compose, &sum, &items);
    node_items_finish(&items, node);
    node->weight = sum.weight;
    node->height = sum.height;
    compose->build.depth--;
    return ok ? node : NULL;
}

static const struct doc_node *compose_node(struct compose *compose, const yaml_event_t *event)
{
    if (event->type == YAML_ALIAS_EVENT)
        return compose_alias(compose, event);
    if (event->type == YAML_SCALAR_EVENT)
        return compose_scalar(compose, event);
    if (event->type == YAML_SEQUENCE_START_EVENT)
        return compose_collection(compose, event, NODE_SEQUENCE);
    ASSERT(event->type == YAML_MAPPING_START_EVENT); /* libyaml sends nothing else here */
    return compose_collection(compose, event, NODE_MAPPING);
}

/* document_begin: up to the first node; *out_empty when the file has none. */
static bool document_begin(struct compose *compose, bool *out_empty)
{
    yaml_event_t event;
    *out_empty = false;
    if (!event_next(compose, &event)) /* stream start */
        return false;
    yaml_event_delete(&event);
    if (!event_next(compose, &event))
        return false;
    bool ok = true;
    if (event.type == YAML_STREAM_END_EVENT)
        *out_empty = true;
    else if (event.data.document_start.tag_directives.start != event.data.document_start.tag_directives.end)
        ok = diag_error(
            compose->build.context.diags, place_of(compose, &event.start_mark), "%%TAG directives aren't taken");
    yaml_event_delete(&event);
    return ok;
}

static bool document_end(struct compose *compose)
{
    yaml_event_t event;
    if (!event_next(compose, &event)) /* document end */
        return false;
    yaml_event_delete(&event);
    if (!event_next(compose, &event))
        return false;
    bool ok = event.type == YAML_STREAM_END_EVENT;
    if (!ok)
        diag_error(compose->build.context.diags, place_of(compose, &event.start_mark),
            "a second document begins here; a file holds only one");
    yaml_event_delete(&event);
    return ok;
}

static const struct doc_node *compose_document(struct compose *compose)
{
    bool empty, end;
    if (!chars_check(compose) || !document_begin(compose, &empty))
        return NULL;
    if (empty) {
        struct doc_node *nothing = node_build_new(&compose->build, NODE_SCALAR, 1, 1);
        nothing->plain = true;
        return nothing;
    }
    const struct doc_node *root = compose_next(compose, YAML_NO_EVENT, &end);
    if (root == NULL || !document_end(compose))
        return NULL;
    if (compose->build.n_nodes + compose->n_expanded > NODE_EXPANSION_MAX * compose->build.n_nodes) {
        diag_error(compose->build.context.diags, compose->heaviest,
            "aliases write the file out to more than %d times its size", NODE_EXPANSION_MAX);
        return NULL;
    }
    return root;
}

const struct doc_node *yaml_parse(const struct diag_file *file, struct arena *arena, struct diags *diags)
{
    struct compose compose = { 0 };
    size_t n_errors = diags->n_errors;
    if (!node_build_open(&compose.build, file, arena, diags))
        return NULL;
    int made = yaml_parser_initialize(&compose.parser);
    ASSERT(made);
    yaml_parser_set_encoding(&compose.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(
        &compose.parser, (const unsigned char *)(file->text.len > 0 ? file->text.ptr : ""), file->text.len);
    const struct doc_node *root = compose_document(&compose);
    yaml_parser_delete(&compose.parser);
    smap_release(&compose.anchors);
    return diags->n_errors == n_errors ? root : NULL;
}
