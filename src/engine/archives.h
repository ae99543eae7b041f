/* archives: archives as turns see them, their definitions, revisions, runs and schedules: command/archive.c,
 * command/revision.c, command/run.c, schedules.c. */
#ifndef WEIR_ENGINE_ARCHIVES_H
#define WEIR_ENGINE_ARCHIVES_H

#include "base/heap.h"
#include "core/lock.h"
#include "engine/definition.h"
#include "engine/state.h"

enum {
    IDENT_BYTES_MAX = 72,  /* of a commit */
    DEFINITIONS_MAX = 64,  /* kept */
    CAUSE_LATE_MS = 60000, /* a job may have ended so long before its commit was reported */
    CAUSE_HEIRS_MAX = 256, /* revisions after a deepened one that are checked */
    REVISIONS_BATCH = 100, /* waiting revisions that one turn opens */
    FIRED_BATCH = 100,     /* schedules that one turn fires */
    GAPS_LOOK_MAX = 10000, /* skipped revisions in a row that the search for the newest passes */
};

struct known_archive { /* its row; what grows or changes often has a place of its own */
    struct archive row;
    char tip[IDENT_BYTES_MAX];
    int64_t *shared;
    size_t cap_shared;
};

struct known_schedule { /* a cron line of an archive's task */
    struct schedule row;
    struct heap_node due;         /* by the minute it fires next */
    struct known_schedule *other; /* in the list of all */
};

struct schedules {
    struct heap due; /* known_schedule by the wall ms of its next minute */
    struct arena arena;
    struct known_schedule *known; /* all, also those that never fire again */
    /* of them, for a minute in the wrong future, since the clock was set back; SIZE_MAX: all */
    size_t looked;
    int64_t offset; /* wall less boot, the largest since then */
    int64_t boot;   /* of the last turn that fired what was due; 0: none */
};

struct name_track { /* the newest revision that has a task of a name, and those of this turn before it */
    struct latest latest;
    bool dirty;
    struct made {
        int64_t rev, task, run;
        bool skipped;
        struct made *before;
    } * made; /* newest first */
};

struct archive_work { /* one turn's */
    struct map rows;  /* lane -> struct archive, this turn's copy */
    ARRAY(struct revision *) revisions;
    struct map revisions_at; /* of those, by lane and number (revision_told) */
    struct smap names;       /* lane and name -> struct name_track: what PREV means, this turn's tasks included */
    ARRAY(struct name_track *) tracks;
    bool schedules_changed;
};

/* command/archive.c */
bool archives_load(struct engine *engine, struct err *err);
void archive_put(struct engine *engine, const struct archive *row);
void archives_drop(struct engine *engine);
void archives_follow(struct turn *turn);                       /* after the commit */
struct archive *turn_archive(struct turn *turn, int64_t lane); /* this turn's copy; NULL: the lane is a queue */
/* the same, to be changed: its row is locked until the end of the turn */
struct archive *archive_own(struct turn *turn, int64_t lane);
/* archive_own by name; NULL: none */
struct archive *archive_named(struct turn *turn, const struct command *command, struct str name);
void definitions_drop(struct engine *engine);
void changes_archives(struct turn *turn);
struct definition *definition_get(struct turn *turn, int64_t id); /* NULL: it can't be read (the turn has failed) */
int64_t definition_put(struct turn *turn, struct definition *definition);
struct grant_source archive_source(struct turn *turn, const struct task *task, struct arena *arena);
/* a batch of what removed archives, and targets without one, have left */
void archives_removing(struct turn *turn);
void removing_add(struct engine *engine, int64_t lane); /* it may have become one of them */
/* a task that was restaged (it had ended, now it is in S) queues for the lock again */
void archive_lock_again(struct turn *turn, struct node *node);
/* for all that were restaged since `from` */
void locks_again(struct turn *turn, size_t from, const struct node *except);

/* command/revision.c */
struct revision *revision_find(struct turn *turn, int64_t lane, int64_t rev); /* of this turn or stored; NULL: none */
struct revision *revision_told(struct turn *turn, int64_t lane, int64_t rev); /* stored by this turn; NULL: none */
void revision_put(struct turn *turn, struct revision *row);
void revisions_open(struct turn *turn, struct archive *archive); /* waiting ones whose gap has closed, a batch */
void revisions_left(struct turn *turn);                          /* goes on where a batch ended */
struct revision *revision_newest(struct turn *turn, const struct archive *archive); /* that has tasks; NULL: none */

/* command/run.c. run_make: NULL: the workflow has no such task */
struct node *run_make(struct turn *turn, struct archive *archive, const struct revision *revision,
    struct definition *definition, struct str task, struct str params, const struct because *because);

/* schedules.c */
bool schedules_load(struct engine *engine, struct err *err);
void schedules_drop(struct engine *engine);
/* NULL: none any more */
void schedules_set(struct turn *turn, const struct archive *archive, const struct definition *definition);
void schedules_fire(struct turn *turn);
int64_t schedules_next(const struct engine *engine); /* wall ms; INT64_MAX: none */
/* this server has something to do about them now */
bool schedules_due(const struct engine *engine, int64_t wall, int64_t boot);

#endif
