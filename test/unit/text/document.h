/* document: parse a text under a file name and compare the tree (as JSON) or the first fault ("LINE:COLUMN: MESSAGE").
 */
#ifndef WEIR_TEST_TEXT_DOCUMENT_H
#define WEIR_TEST_TEXT_DOCUMENT_H

#include "check.h"

#include "text/node.h"

struct document {
    struct arena arena;
    struct diags diags;
    struct diag_file file;
    struct str text;
    const struct doc_node *root;
};

static inline void document_parse(struct document *document, const char *name, struct str text)
{
    *document = (struct document){ 0 };
    document->diags.arena = &document->arena;
    document->text = exact(text);
    document->file = (struct diag_file){ str_of(name), document->text };
    document->root = node_parse(&document->file, &document->arena, &document->diags);
    assert_int_equal(document->root != NULL, document->diags.n_errors == 0);
}

static inline void document_release(struct document *document)
{
    exact_free(document->text);
    arena_release(&document->arena);
}

/* fault_text: "LINE:COLUMN: MESSAGE" or "LINE:COLUMN: MESSAGE (SUGGESTION)". */
static inline struct str fault_text(struct arena *arena, const struct diags *diags, size_t i)
{
    const struct diag *diag = &diags->items[i];
    struct str s = diag->suggestion;
    return str_fmt(arena, "%u:%u: %.*s%s%.*s%s", diag->place.line, diag->place.column, STR_ARG(diag->message),
        s.len > 0 ? " (" : "", STR_ARG(s), s.len > 0 ? ")" : "");
}

static inline void check_tree(const char *name, struct str text, const char *wanted)
{
    struct document document;
    document_parse(&document, name, text);
    if (document.root == NULL)
        fail_msg("%.*s: %.*s", STR_ARG(text), STR_ARG(fault_text(&document.arena, &document.diags, 0)));
    struct buf buf;
    buf_init(&buf, 1 << 24);
    node_json(&buf, document.root);
    check_str(buf_str(&buf), wanted);
    buf_release(&buf);
    document_release(&document);
}

static inline void check_fault(const char *name, struct str text, const char *wanted)
{
    struct document document;
    document_parse(&document, name, text);
    if (document.root != NULL)
        fail_msg("accepted: %.*s", STR_ARG(text));
    check_str(fault_text(&document.arena, &document.diags, 0), wanted);
    document_release(&document);
}

/* check_cuts: cut at every byte, a document never crashes and never reads outside. */
static inline void check_cuts(const char *name, struct str text)
{
    for (size_t len = 0; len <= text.len; len++) {
        struct document document;
        document_parse(&document, name, str_sub(text, 0, len));
        struct buf buf;
        buf_init(&buf, 1 << 24);
        if (document.root != NULL)
            node_json(&buf, document.root);
        else
            diags_text(&buf, &document.diags);
        assert_true(buf.len > 0 && !buf.full);
        buf_release(&buf);
        document_release(&document);
    }
}

#endif
