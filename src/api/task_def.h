/* task_def: what the reading of posted tasks keeps while it reads one. Private to task_def.c and task_ref.c. */
#ifndef WEIR_API_TASK_DEF_H
#define WEIR_API_TASK_DEF_H

#include <stdarg.h>
#include <stdio.h>

#include "api/call.h"
#include "text/words.h"

enum def_list { DEF_DEPENDS, DEF_AFTER, DEF_CANCELS, DEF_LISTS };

struct def_limits { /* 0: none */
    int64_t memory_bytes, pids, cpu_ms, files, file_bytes, disk_bytes;
};

/* What is resolved once all tasks of the call are read. */
struct def_links {
    const json_t *lists[DEF_LISTS];
    bool allow_failure; /* what depends on it waits for its end, whichever it is */
};

struct def_raw { /* the text of the document, walked as far as needed */
    bool many;
    struct str rest; /* one task: its text; many: the text of those from `next` on */
    size_t next;
};

struct def_parse {
    struct arena *arena;
    struct err *err;
    struct task_def *def;
    struct buf *out; /* bodies are written here, then copied */
    struct def_raw *raw;
    size_t index;      /* position in the call */
    const char *field; /* being read */
    bool named, script_given, shell_given;
    bool strict;
    const json_t *command, *env, *data, *artifacts;
    struct str data_raw; /* as it was written; empty: not found */
    struct words words;  /* of a command line */
    struct str script, shell, image, unique, concurrency;
    int64_t timeout_ms, grace_ms; /* 0 and -1: not given */
    struct def_limits limits;
    struct def_links links;
};

/* def_fault: adds a fault at FIELD (may hold slashes: "retry/on/0") of the task; returns false. */
bool def_fault(struct def_parse *p, const char *field, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
struct str def_path(struct def_parse *p, const char *field);

/* One task: def_begin, def_field_read for each of its fields (by the row that def_field_find gives for the name), def_end. */
void def_begin(struct def_parse *p);
size_t def_field_find(struct str name);
bool def_field_is_data(size_t i); /* the one field that is kept as it was written */
void def_field_read(struct def_parse *p, struct str name, size_t i, const json_t *value);
void def_end(struct def_parse *p);
const char *def_type_of(const json_t *value); /* "an object", "a number" */

/* Members of an object, in the order of the document. */
struct def_members {
    json_t *object;
    void *at;
};
struct def_members def_members_of(const json_t *object);
bool def_members_next(struct def_members *members, struct str *out_name, const json_t **out_value);
struct str def_pointer_part(struct arena *arena, struct str name); /* ~ and / escaped (RFC 6901) */

/* refs_resolve: depends, after and cancels of all tasks, once their names are known. Names that are used twice and names that no task of
 * the call has are faults. A `depends` that doesn't say `on` is an `after` where the other, of the same call, has allow_failure. */
void refs_resolve(struct arena *arena, struct posted *posted, const struct def_links *links, struct err *err);

#endif
