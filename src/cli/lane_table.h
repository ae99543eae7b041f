/* lane_table: queues and archives with their counts, for `status`, `wait` and `top`; and nodes as rows. */
#ifndef WEIR_CLI_LANE_TABLE_H
#define WEIR_CLI_LANE_TABLE_H

#include "cli/session.h"

int64_t lane_count(const json_t *lane, char letter);
int64_t lane_unfinished(const json_t *lane); /* Q, S, P, X */
/* lane_paused: the actor and the reason of its pause as one line; NULL: it isn't paused. In the arena. */
const char *lane_paused(struct arena *arena, const json_t *lane);
void lane_table(struct table *table, struct arena *arena, const json_t *lanes);
/* node_table: (nodes.c) only nodes of that role; NULL: all. */
void node_table(struct table *table, struct arena *arena, const json_t *nodes, const char *role);
const json_t *lane_find(const json_t *lanes, const char *name); /* NULL: none */

#endif
