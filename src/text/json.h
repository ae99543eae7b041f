/* json: an append-only JSON writer into a buf. Commas are put by the writer; text is escaped byte-exactly (bytes that
 * aren't UTF-8 become U+FFFD). Nothing is checked but nesting, by assertion.
 *
 * It is json_object_begin, json_array_begin and json_nil because jansson owns the names json_object, json_array and
 * json_null: a second definition in the program would be called by jansson itself. */
#ifndef WEIR_TEXT_JSON_H
#define WEIR_TEXT_JSON_H

#include "base/arena.h"
#include "base/buf.h"

struct json {
    struct buf *out;
    unsigned depth;
    bool comma; /* something stands before the next item on this level */
};

struct json json_to(struct buf *out);
void json_object_begin(struct json *json);         /* { */
void json_object_end(struct json *json);           /* } */
void json_array_begin(struct json *json);          /* [ */
void json_array_end(struct json *json);            /* ] */
void json_key(struct json *json, const char *key); /* a name of ours: without a character to escape */
void json_key_str(struct json *json, struct str key);
void json_str(struct json *json, struct str s);
void json_z(struct json *json, const char *z);
void json_i64(struct json *json, int64_t n);
void json_f64(struct json *json, double n); /* finite; at most 6 decimals, and no more than are needed */
void json_bool(struct json *json, bool b);
void json_nil(struct json *json);                        /* null */
void json_raw(struct json *json, struct str ready_made); /* a value that is JSON already */
void json_time(struct json *json, int64_t ms);           /* RFC 3339; 0 gives null */

/* json_compact: JSON text without the blanks between its tokens, the rest byte by byte. */
struct str json_compact(struct arena *arena, struct str text);

/* JSON pointers (RFC 6901): one step further, to a member or an item. */
struct str json_pointer_add(struct arena *arena, struct str path, struct str key);
struct str json_pointer_at(struct arena *arena, struct str path, size_t index);

/* key and value in one call */
void json_put_str(struct json *json, const char *key, struct str s);
void json_put_z(struct json *json, const char *key, const char *z);
void json_put_i64(struct json *json, const char *key, int64_t n);
void json_put_bool(struct json *json, const char *key, bool b);
void json_put_time(struct json *json, const char *key, int64_t ms);

#endif
