/* changeset_text: change sets as the server tells of them, for people; and following one until it has ended. */
#ifndef WEIR_CLI_CHANGESET_TEXT_H
#define WEIR_CLI_CHANGESET_TEXT_H

#include "cli/feed.h"
#include "cli/session.h"

/* changeset_path: "/v1/changesets/CSID" plus tail; the operand is a CSID or TARGET:CSID. */
const char *changeset_path(struct session *session, const char *operand, const char *tail);

/* queue_read: what of a target (NULL: of all) hasn't ended, in the order in which it is taken; NULL: session.err says
 * why not. queue_sort: the same of a list that is there. The caller's. */
json_t *queue_read(struct session *session, const char *target);
json_t *queue_sort(const json_t *changesets);
/* queue_print: each with its position, as queue_table has it. */
void queue_print(struct session *session, const json_t *changesets);
void queue_table(struct table *table, struct arena *arena, const json_t *changesets);

/* Following one: opened before it is submitted, so that no event is missed. */
struct changeset_wait {
    struct session *session;
    struct feed feed;
    const char *csid;
    int64_t task;
    json_t *document; /* as last read */
    char said[256];   /* the last line about it */
    struct loop_timer refresh;
    int64_t refreshed;
    bool broken;
};

/* changeset_wait_open: false: reported, and session.status is set. */
bool changeset_wait_open(struct changeset_wait *wait, struct session *session);
/* changeset_wait_run: says on stderr each state and position that it comes to, and at the end how it ended and why. The
 * exit code: 0 if it is D, else 1. */
int changeset_wait_run(struct changeset_wait *wait, const json_t *submitted);
void changeset_wait_close(struct changeset_wait *wait);

#endif
