/* act: the shape that most changing commands share: post to one address, print what came back in one line. */
#ifndef WEIR_CMD_ACT_H
#define WEIR_CMD_ACT_H

#include "cmd/session.h"

/* act_on_tasks: for every operand (a key): POST /v1/tasks/KEY/`verb` with `body` (borrowed); prints the task's key and new state. Goes on
 * after a refusal; the exit code is that of the first one. */
int act_on_tasks(struct session *session, const char *verb, const json_t *body);

#endif
