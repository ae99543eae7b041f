/* health: does the server take new work, and if not, why: health.c, space.c. */
#ifndef WEIR_ENGINE_HEALTH_H
#define WEIR_ENGINE_HEALTH_H

#include "engine/state.h"

enum { SPACE_LOOK_MS = 1000 };

struct space { /* room on the disk */
    const char *dir;
    bool full;
    int64_t looked; /* boot ms */
    bool ballast;
    /* boot ms; the database said that its own disk is full, which can't be looked at: closed until then */
    int64_t away_until;
};

struct health {
    uint64_t damage_before; /* reports of damage that the process had before this engine */
    int64_t offset;         /* wall less boot of the last turn */
    bool offset_known;
    struct clock_jump jump;     /* under GUARD_health */
    char text[ENGINE_TEXT_MAX]; /* under GUARD_health: of the state that `state` says */
    _Atomic int state;          /* enum engine_health, damage apart */
    /* boot ms of the first and the last turn that failed, with no commit since; 0: none */
    int64_t failing_since, failed_last;
    /* boot ms of the last turn that waited too long for a lock; 0: turns with commands have passed since */
    int64_t locked;
    bool failing; /* long enough to say so */
};

/* space.c */
void space_open(struct space *space, const char *dir);
void space_look(struct space *space, int64_t boot);         /* at most once a second */
void space_ran_out(struct space *space);                    /* the store said so: gives the ballast up */
void space_ran_out_away(struct space *space, int64_t boot); /* the disk of a database that is elsewhere */
const char *space_place(const struct space *space);         /* which disk is full, in words */

/* health.c */
void health_open(struct health *health);
void health_clock(struct engine *engine, int64_t wall, int64_t boot);
/* health_turn: whether turns fail for a reason that isn't a command's. failed: this one came to nothing; idle: it had
 * no commands; wrote: it committed something. */
bool health_turn(struct health *health, bool failed, bool idle, bool wrote, int64_t boot);
/* after a turn; why: the store's words, or "" */
void health_set(struct engine *engine, enum engine_health state, const char *why);
bool engine_damaged(const struct engine *engine);
/* a turn met damage: noted; err becomes what the command is answered */
void health_corrupt(struct engine *engine, struct err *err);
/* intake_closed: true: refused, because no new work is taken now. */
bool intake_closed(struct turn *turn, struct command *command);

#endif
