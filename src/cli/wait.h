/* wait: what `wait` knows about the tasks and lanes it waits for, and their picture on a terminal. */
#ifndef WEIR_CLI_WAIT_H
#define WEIR_CLI_WAIT_H

#include "base/map.h"
#include "cli/feed.h"
#include "cli/session.h"

struct wait_task { /* a waited-for task, or one that stands before it */
    int64_t id;
    char letter;
    const char *key, *name; /* as the server wrote them */
    int64_t since;          /* ms: when it began to run, as far as we know; 0: it doesn't */
    bool wanted;            /* it was asked for */
    bool stale;             /* an event came: ask the server before believing that it has ended */
    json_t *document;       /* of wanted tasks: as last read */
    uint32_t *needs;        /* indexes of tasks that it waits for */
    size_t n_needs, cap_needs;
    uint32_t drawn; /* in which picture it was drawn last */
};

struct wait_lane {
    const char *name;
    json_t *document, *running; /* as last read */
    bool stale;
};

struct wait {
    struct session *session;
    struct term screen; /* stderr: where progress goes */
    struct feed feed;
    struct wait_task *tasks;
    size_t n_tasks, cap_tasks;
    struct map task_by_id; /* id -> index + 1 */
    struct wait_lane *lanes;
    size_t n_lanes, cap_lanes;
    bool live;   /* progress as a picture on a terminal */
    int n_drawn; /* lines of the picture that stands there */
    uint32_t picture;
    int64_t began;
    struct loop_timer refresh, deadline, tick;
    int64_t refreshed;
    bool timed_out, broken;
};

/* What `local` has too: */
void wait_init(struct wait *wait, struct session *session, bool no_color);
struct wait_task *wait_task_find(struct wait *wait, int64_t id); /* NULL: none */
/* wait_graph_add: what stands before a task, for the picture only; a failure leaves the picture smaller. whole: all
 * tasks are there already; only what no other waits for stands at the picture's left edge, and cancels don't count. */
void wait_graph_add(struct wait *wait, const char *key, bool whole);
/* wait_change_print: a line for a change, where there is no picture. */
void wait_change_print(const struct wait *wait, const char *key, char letter, const char *reason);

/* wait_draw: the picture, over the last one; wait_erase: takes it away. */
void wait_draw(struct wait *wait);
void wait_erase(struct wait *wait);

#endif
