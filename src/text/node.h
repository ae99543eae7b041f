/* node: a document (YAML or strict JSON) as a tree with the place of every part, and the questions that a schema asks
 * of it.
 *
 * Scalars have no type of their own: they keep their text and whether it was plain (unquoted); the getter that is
 * called decides what it must be, so `no`, `017` and `1:30` hold no surprise. A plain `null`, `~` or nothing counts as
 * absent. Everything lives in the arena of the parse. An alias is the same node a second time: trees are shared, never
 * copied. */
#ifndef WEIR_TEXT_NODE_H
#define WEIR_TEXT_NODE_H

#include "text/diag.h"

#define NODE_FILE_BYTES_MAX ((size_t)1 << 20)
#define NODE_DEPTH_MAX 64
#define NODE_COUNT_MAX 100000
#define NODE_ALIASES_MAX 64
#define NODE_EXPANSION_MAX 10 /* nodes with every alias written out, at most this many times the nodes written */

enum node_kind { NODE_NONE, NODE_SCALAR, NODE_SEQUENCE, NODE_MAPPING, NODE_KIND_COUNT };

struct doc_node {
    enum node_kind kind;
    bool plain; /* a scalar without quotes */
    unsigned line, column;
    struct str text;               /* scalar */
    struct str raw;                /* of JSON: as it is written */
    const struct doc_node **items; /* sequence */
    const struct node_pair *pairs; /* mapping, in the order written */
    size_t n;                      /* items or pairs */
    size_t weight;                 /* nodes in it, itself included, aliases written out */
    unsigned height;               /* levels in it, likewise */
};

struct node_pair {
    const struct doc_node *key; /* a scalar */
    const struct doc_node *value;
};

/* node_parse: a whole file: strict JSON when its name ends in .json, else YAML. NULL when there is any error; all of
 * them are in diags. A YAML file without content gives a null node. */
const struct doc_node *node_parse(const struct diag_file *file, struct arena *arena, struct diags *diags);

bool node_is_null(const struct doc_node *node);
/* NULL: no such key, or not a mapping */
const struct doc_node *node_find(const struct doc_node *mapping, struct str key);

/* Where a list is wanted, a node of another kind is a list of one. */
size_t node_list_n(const struct doc_node *node);
const struct doc_node *node_list_at(const struct doc_node *node, size_t i);

/* What a value of JSON is: a string, a whole number, true or false; *out is written then. */
bool node_is_text(const struct doc_node *node, struct str *out);
bool node_is_whole(const struct doc_node *node, int64_t *out);
bool node_is_bool(const struct doc_node *node, bool *out);

/* node_json: the node as compact JSON on one line; numbers, booleans and null when plain and of that form, else
 * strings. */
void node_json(struct buf *out, const struct doc_node *node);

/* What is being read: the file and where faults go. */
struct node_context {
    const struct diag_file *file;
    struct arena *arena;
    struct diags *diags;
    /* of a request, or NULL: faults name JSON pointers into it, and values must have JSON's types */
    const struct doc_node *body;
};
struct diag_place node_place(const struct node_context *context, const struct doc_node *node);
/* node_fault: an error at the node; returns false. */
bool node_fault(const struct node_context *context, const struct doc_node *node, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* node_missing: an error about what the mapping doesn't have. */
bool node_missing(const struct node_context *context, const struct doc_node *mapping, const char *key, const char *fmt,
    ...) __attribute__((format(printf, 4, 5)));

/* node_pointer: the JSON pointer (RFC 6901) of the innermost part of a JSON document that holds the byte; a key stands
 * for its value. */
struct str node_pointer(struct arena *arena, const struct doc_node *root, const char *at);

/* The words for what a document has: "a mapping" in a file, "an object" in a body of JSON. */
const char *node_form(const struct node_context *context, enum node_kind kind);
/* what stands there: "a list", "nothing"; in a body "an array", "a number" */
const char *node_found(const struct node_context *context, const struct doc_node *node);

/* A scalar as a value; false and a fault at the node when it isn't one. `what` names it in the sentence. */
/* any scalar but null */
bool node_str(const struct node_context *context, const struct doc_node *node, const char *what, struct str *out);
bool node_i64(const struct node_context *context, const struct doc_node *node, const char *what, int64_t min,
    int64_t max, int64_t *out);
bool node_bool(const struct node_context *context, const struct doc_node *node, const char *what, bool *out);
bool node_duration(const struct node_context *context, const struct doc_node *node, const char *what, int64_t *out_ms);
bool node_size(const struct node_context *context, const struct doc_node *node, const char *what, uint64_t *out_bytes);
/* one of the words given; *out is its index */
bool node_choice(const struct node_context *context, const struct doc_node *node, const char *what,
    const struct str *words, size_t n, size_t *out);
/* a list of strings; a single scalar is a list of one */
bool node_strs(
    const struct node_context *context, const struct doc_node *node, const char *what, struct str **out, size_t *out_n);

/* node_unknown: the fault of an unknown key, with the closest known key, or all of them, as a suggestion. */
void node_unknown(const struct node_context *context, const struct doc_node *key, const struct str *known, size_t n);

/* A reader stands on one mapping; each getter marks its key as known and returns true when the key is there and good;
 * node_read_end adds a fault, with a suggestion, for each key that no getter asked for. */
struct node_reader {
    struct node_context context;
    const struct doc_node *mapping;
    bool *known; /* by pair */
    struct str asked[96];
    size_t n_asked;
};
bool node_read_begin(
    struct node_reader *out, const struct node_context *context, const struct doc_node *node, const char *what);
void node_read_end(struct node_reader *reader);
const struct doc_node *node_read_any(struct node_reader *reader, const char *key); /* NULL: absent or null */
bool node_read_str(struct node_reader *reader, const char *key, struct str *out);
bool node_read_i64(struct node_reader *reader, const char *key, int64_t min, int64_t max, int64_t *out);
bool node_read_bool(struct node_reader *reader, const char *key, bool *out);
bool node_read_duration(struct node_reader *reader, const char *key, int64_t *out_ms);
bool node_read_size(struct node_reader *reader, const char *key, uint64_t *out_bytes);
bool node_read_choice(struct node_reader *reader, const char *key, const struct str *words, size_t n, size_t *out);
bool node_read_strs(struct node_reader *reader, const char *key, struct str **out, size_t *out_n);
const struct doc_node *node_read_sequence(struct node_reader *reader, const char *key);
const struct doc_node *node_read_mapping(struct node_reader *reader, const char *key);

#endif
