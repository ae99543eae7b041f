/* key: how tasks, revisions, archives and queues are named in text, and the fence of a grant.
 *
 *   ARCHIVE@REV:NAME   ARCHIVE@REV:NAME[k=v,...]   ARCHIVE@REV:NAME#2   ARCHIVE@REV:NAME[k=v]#2     a task of a
 * revision QUEUE:ID                                                                                     a task of a
 * queue 42                                                                                           a task by its id
 *   TARGET:CSID                                                                                  a change set
 *   ARCHIVE@REV                                                                                  a revision
 *   NAME                                                                                         an archive or a queue
 * (or `all`)
 *
 * Parsing is strict: what is accepted formats back to the same bytes. Views point into the text that was parsed. Faults
 * are err_set with code invalid, in words that say where the text went wrong. */
#ifndef WEIR_TEXT_KEY_H
#define WEIR_TEXT_KEY_H

#include "base/buf.h"
#include "base/err.h"

#define NAME_CHARS_MAX 100
#define VARIANT_BYTES_MAX 1000
#define KEY_BYTES_MAX 1500

enum key_kind { KEY_NONE, KEY_ID, KEY_TASK, KEY_QUEUE_TASK, KEY_CHANGESET, KEY_REVISION, KEY_LANE };

struct key {
    enum key_kind kind;
    struct str lane;    /* archive, queue or target; empty for KEY_ID */
    int64_t rev;        /* KEY_TASK, KEY_REVISION */
    struct str name;    /* KEY_TASK; of KEY_CHANGESET the CSID */
    struct str variant; /* KEY_TASK: "os=a,cc=b", without the brackets; empty: none */
    int64_t run;        /* KEY_TASK: n of #n, from 2; 0: none */
    int64_t id;         /* KEY_ID, KEY_QUEUE_TASK */
};

bool key_parse(struct str text, struct key *out, struct err *err);
void key_format(struct buf *out, const struct key *key);

/* Names of archives, queues and tasks: [A-Za-z0-9][A-Za-z0-9._-]{0,99}. `what` ("archive", "task") begins the sentence
 * of the fault. */
bool name_is_valid(struct str name);
bool name_is_reserved(struct str name);                                  /* only digits, all, PREV, WORKFLOW, COMMIT */
bool name_check(struct str name, const char *what, struct err *err);     /* the rule, reserved words allowed */
bool name_check_new(struct str name, const char *what, struct err *err); /* the rule, reserved words refused */

/* variant_check: k=v[,k=v...], names by the name rule and each only once, values not empty and without , = [ ] # and
 * control characters. */
bool variant_check(struct str variant, struct err *err);

/* Names of a job's outputs and artifacts. The executor, which reads them, and the server, which receives them, use the
 * same rule: the server never refuses a name that the executor accepted. */
enum { OUTPUT_NAME_BYTES_MAX = 200, OUTPUT_VALUE_BYTES_MAX = 64 * 1024, FILE_NAME_BYTES_MAX = 1000 };
bool output_name_is_valid(struct str name); /* UTF-8 without NUL, not empty */
/* a path beneath the working directory: UTF-8, no control characters, no part empty, . or .. */
bool file_name_is_valid(struct str name);

/* A fence names one grant of one task in one life of the store: INCARNATION-TASK-GRANT, 16 hex digits, decimal, decimal
 * padded with zeros to 8 digits so that it sorts. What executors get and give back has a tag behind it (api/fence.c).
 */
struct fence {
    uint64_t incarnation;
    int64_t task, grant;
};
struct fence_text {
    char z[64];
};

bool fence_parse(struct str text, struct fence *out); /* strict: one text for each fence; task and grant positive */
struct fence_text fence_format(struct fence fence);

#endif
