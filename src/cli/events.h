/* events: what `history KEY` shares with `events`. */
#ifndef WEIR_CLI_EVENTS_H
#define WEIR_CLI_EVENTS_H

#include "cli/session.h"

/* events_of_task: prints all events of a task, oldest first (with --json one array); returns the exit code. */
int events_of_task(struct session *session, const char *key);

#endif
