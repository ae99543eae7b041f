/* task_text: how tasks, keys, states and times are written for people. Reads the API's documents, tolerant of absent
 * fields. */
#ifndef WEIR_CLI_TASK_TEXT_H
#define WEIR_CLI_TASK_TEXT_H

#include <jansson.h>

#include "base/arena.h"
#include "base/when.h"

const char *field_z(const json_t *object, const char *name);                  /* "" when absent or not a string */
int64_t field_i64(const json_t *object, const char *name, int64_t otherwise); /* also reals, rounded */
bool field_time(const json_t *object, const char *name, int64_t *out_ms);

char task_letter(const json_t *task); /* '?' when absent */
const char *letter_word(char letter); /* "done"; "" for an unknown letter */
bool letter_ended(char letter);
extern const char state_letters[]; /* "QSPXDFTA" */

/* task_key: the key string: "default:42", "docs@7:build[os=a]"; made from `key` (object or string) and `id`. In the
 * arena. */
const char *task_key(struct arena *arena, const json_t *task);
const char *texts_join(struct arena *arena, const json_t *texts); /* with blanks between them. In the arena. */
const char *task_name(const json_t *task);                        /* key.name, or name */

/* task_reason: the reason, and in brackets the task that caused it; "" when there is none. In the arena. */
const char *task_reason(struct arena *arena, const json_t *task);

/* "3m ago", "in 20s", "now". */
struct when_text ago_text(int64_t then_ms, int64_t now_ms);
struct when_text local_text(int64_t ms); /* 2026-11-15 06:12:44, local time */
/* A duration in at most two units, without milliseconds from one second on: "340ms", "12s", "3m 20s". */
struct when_text span_text(int64_t ms);
/* time_line: of a record: a label, that time of the object and how long ago it was; nothing when it has none. */
void time_line(const json_t *object, const char *label, const char *field, int64_t now_ms);
struct when_text bytes_text(int64_t bytes); /* "1.4MiB" */

#endif
