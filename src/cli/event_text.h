/* event_text: one line per event, for people; and the cutting of a byte stream into JSON lines. */
#ifndef WEIR_CLI_EVENT_TEXT_H
#define WEIR_CLI_EVENT_TEXT_H

#include "cli/session.h"

/* events_of_task: (events.c) prints all events of a task, oldest first (with --json one array); the exit code. */
int events_of_task(struct session *session, const char *key);

void event_print(struct session *session, const json_t *event, FILE *out);

/* json_lines: feeds pieces of a stream; `line` gets each complete JSON document (borrowed) and returns false to stop.
 * Lines that aren't JSON objects are skipped (keep-alives). A line over 4 MiB is dropped. */
struct json_lines {
    struct buf held;
    bool (*line)(const json_t *event, void *owner);
    void *owner;
    bool dropping;
};
void json_lines_init(struct json_lines *lines, bool (*line)(const json_t *, void *), void *owner);
bool json_lines_add(struct json_lines *lines, struct str bytes);
void json_lines_reset(
    struct json_lines *lines); /* a new connection: the part of a line that is held will never be completed */
void json_lines_release(struct json_lines *lines);

#endif
