/* json_read: bodies of requests, strict JSON read field by field, all faults in one go.
 *
 * A reader stands on one object; every getter marks its field as known; json_read_end adds a fault, with a
 * suggestion, for each field that no getter asked for. Faults are err_items (code invalid) with the JSON pointer; a
 * getter returns true when the field is there and good, false when it is absent or faulty (the fault is then in
 * err). */
#ifndef WEIR_TEXT_JSON_READ_H
#define WEIR_TEXT_JSON_READ_H

#include "base/err.h"
#include "text/node.h"

/* json_read_fault: what is wrong with a text that isn't strict JSON: bad_json with line and column. False. */
bool json_read_fault(struct str text, struct err *err);

/* json_read_body: the whole text; NULL and err (bad_json with line and column) when it isn't strict JSON. Nodes point
 * into the text. */
const struct doc_node *json_read_body(struct str text, struct arena *arena, struct err *err);

/* json_found: what a value is, for sentences: "an object", "a number". */
const char *json_found(const struct doc_node *value);

struct json_reader {
    const struct doc_node *value;
    struct str path; /* JSON pointer of value, in arena */
    struct arena *arena;
    struct err *err;
    struct node_reader keys; /* which of them a getter asked for */
};

/* json_read_object: false (and a fault) when value isn't an object. */
bool json_read_object(
    struct json_reader *out, const struct doc_node *value, struct str path, struct arena *arena, struct err *err);
void json_read_end(struct json_reader *reader); /* unknown fields become faults */

/* NULL: absent (null counts as absent) */
const struct doc_node *json_read_any(struct json_reader *reader, const char *key);
/* json_read_need: is it there? If not, the fault "'KEY' is required" with what `more` adds to it. */
bool json_read_need(struct json_reader *reader, const char *key, const char *more);
/* UTF-8 without NUL; lives in arena */
bool json_read_str(struct json_reader *reader, const char *key, size_t len_max, struct str *out);
bool json_read_i64(struct json_reader *reader, const char *key, int64_t min, int64_t max, int64_t *out);
bool json_read_bool(struct json_reader *reader, const char *key, bool *out);
bool json_read_time(struct json_reader *reader, const char *key, int64_t *out_ms);     /* RFC 3339 */
bool json_read_duration(struct json_reader *reader, const char *key, int64_t *out_ms); /* "90s" */
bool json_read_array(struct json_reader *reader, const char *key, size_t n_max, const struct doc_node **out);
bool json_read_child(struct json_reader *reader, const char *key, struct json_reader *out); /* an object */
/* JSON pointer of the field */
struct str json_read_path(struct json_reader *reader, const char *key);

#endif
