/* turn: the engine's insides, shared by its files and by nobody else.
 *
 * engine holds what outlives a turn: the head, copies of the small tables (lanes, classes, slots, executors), a bounded
 * cache of specs, and what it knows from hearing (leases, parked polls). turn holds one turn's work; nothing in engine
 * but caches changes before the commit, and when a commit fails the caches are read anew. */
#ifndef WEIR_ENGINE_TURN_H
#define WEIR_ENGINE_TURN_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/heap.h"
#include "base/map.h"
#include "base/plant.h"
#include "coord/coord.h"
#include "core/lock.h"
#include "core/retry.h"
#include "core/settle.h"
#include "core/why.h"
#include "engine/definition.h"
#include "engine/engine.h"

enum {
    GRANTS_MAX = 1000,      /* a poll's */
    NEED_BYTES = 512,       /* of a dependency in a grant, besides its outputs, about */
    GRANTS_MANY = 64,       /* unless the configuration says otherwise */
    NEAR_MAX = 8,           /* numbers of tasks */
    POLLS_TOGETHER_MS = 64, /* a power of two: long polls end in step */
    TRY_AGAIN_MS = 200,
    LOCKED_MS = 30000,       /* a lock was met, and nothing has shown since that it is gone */
    WAITED_MS = 5000,        /* a narrow turn that took longer has waited for a lock of somebody else */
    HEAR_AGAIN_MS = 100,     /* the loop is asked whether it turns */
    FAILING_AGAIN_MS = 1000, /* while turns fail: whether they still do */
    DAMAGED_AGAIN_MS = 5000,
    SPACE_LOOK_MS = 1000,
    /* due holds, resumed and parked tasks, admitted waiters of one turn, unless the configuration says otherwise */
    BATCH = 1000,
    LOOP_LOOKS_MAX = 64, /* admitted waiters of a turn that the loop takes; the engine's thread goes on */
    /* a finish may tell of its end along the 64th part of a batch of edges besides those of its turn */
    TELLS_SHARE = 64,
    SPECS_CACHED_MAX = 8192,
    TASKS_RECENT = 8192, /* a power of two */
    RECENT_TEXT_BYTES = 120,
    SPEC_BYTES_CACHED_MAX = 16 << 20,
    IDENT_BYTES_MAX = 72,  /* of a commit */
    DEFINITIONS_MAX = 64,  /* kept */
    CAUSE_LATE_MS = 60000, /* a job may have ended so long before its commit was heard of */
    CAUSE_HEIRS_MAX = 256, /* revisions behind one that became deeper that are looked at */
    REVISIONS_BATCH = 100, /* waiting revisions that one turn opens */
    FIRED_BATCH = 100,     /* schedules that one turn fires */
    GAPS_LOOK_MAX = 10000, /* given up in a row, behind which the newest revision is looked for */
};
#define OFFSET_UNKNOWN (INT64_MAX / 2) /* of engine.offset: back-offs are looked at anew */
#define IDEMPOTENCY_MS (INT64_C(31) * 24 * 3600 * 1000)
#define SILENT_MS (INT64_C(30) * 24 * 3600 * 1000)

struct live { /* a grant that is out */
    struct attempt attempt;
    enum task_state ending;
    bool named;            /* by its executor, to this process: the job has started */
    bool unread;           /* granted by another server: known from the event; its row is read when somebody asks */
    uint64_t look;         /* the poll (engine.looks) that named it last: those without its mark aren't in that poll */
    struct list_node mate; /* in its executor's list */
    struct heap_node deadline;
};

/* not heard by this process; heard lately; not lately */
enum crew_place { CREW_UNHEARD, CREW_LIVE, CREW_SILENT, CREW_PLACES };

struct known_executor { /* its row, and what was heard of it */
    struct executor row;
    int64_t heard; /* boot ms; 0: not by this process */
    int64_t free, running;
    struct list lives; /* what it was granted and has not ended */
    unsigned life;     /* registrations: polls of an earlier one say nothing about numbers */
    uint64_t memory;   /* hash of what its records of jobs live as long as; 0: not told */
    bool seq_known;
    int64_t seq; /* of the last poll answered */
    /* boot ms at which another server's row last counted for all its leases; its own word counts only for what it names
     */
    int64_t told;
    int64_t spoke; /* boot ms at which it polled this server last; 0: never */
    struct command *parked;
    uint64_t listed;  /* the turn (engine.serial) that writes its row */
    uint64_t counted; /* the turn that counts its results, at: */
    size_t counted_at;
    void *texts;        /* what the row points to, and: */
    struct str subject; /* NAME, or TENANT/NAME: as events and engine->executor_names have it */
    struct crew *crew;  /* those who can do the same (crews.c), under heard_lock; it is counted there as: */
    enum crew_place place;
    enum executor_state counted_as;
    struct list_node among;  /* of CREW_LIVE */
    struct list_node active; /* in its crew's list of those who are */
    struct heap_node silence;
    struct list_node spoken;
    uint8_t *fits; /* by a class's index: 0 unknown, 1 no, 2 yes */
    size_t n_fits;
};

struct known_token {
    struct token row;
    struct str subject; /* as events name it: NAME, TENANT/NAME */
    uint64_t gone;      /* the turn (engine.serial) that revokes it */
    char text[];
};

struct tokens { /* tokens.c */
    pthread_mutex_t lock;
    struct map by_id, by_hash;       /* known_token; by_hash: the first eight bytes */
    struct smap by_subject, tenants; /* tenants: those that have some */
    int64_t newest;                  /* id */
};

struct space { /* room on the disk */
    const char *dir;
    bool full;
    int64_t looked; /* boot ms */
    bool ballast;
    /* boot ms; the database said that its own disk is full, which can't be looked at: closed until then */
    int64_t away_until;
};

struct health {             /* health.c */
    uint64_t damage_before; /* reports of damage that the process had before this engine */
    int64_t offset;         /* wall less boot of the last turn */
    bool offset_known;
    pthread_mutex_t lock;
    struct clock_jump jump;     /* under lock */
    char text[ENGINE_TEXT_MAX]; /* under lock: of the state that `state` says */
    _Atomic int state;          /* enum engine_health, damage apart */
    /* boot ms of the first and the last turn that failed, with no commit since; 0: none */
    int64_t failing_since, failed_last;
    /* boot ms of the last turn that waited too long for a lock; 0: turns with commands have passed since */
    int64_t locked;
    bool failing; /* long enough to say so */
};

struct recent { /* a task's row as the last turn that changed it left it; id 0: none */
    struct task row;
    uint64_t since;
    char text[RECENT_TEXT_BYTES]; /* its strings; a row with longer ones isn't kept */
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

/* one that has something or that the configuration lists, and what it has as of the last commit */
struct known_tenant {
    bool listed;
    struct conf_tenant conf;             /* of one that is listed */
    int64_t open, log_bytes, file_bytes; /* over its lanes */
    int64_t queues, slots;               /* slots: semaphores and concurrency keys */
    int64_t executors, archives;
    int64_t running; /* the slot that limits its running tasks; 0: none */
    uint64_t serial; /* the turn (engine.serial) that has so many more: */
    int64_t archives_more, tokens_more;
};

/* that this server may give without asking, up to the end: for narrow turns, and for specs that they make */
struct numbers {
    uint64_t incarnation;
    int64_t turn, turn_end;
    int64_t spec, spec_end;
};

struct unserved { /* classes have lost the last executor that fits (served.c): */
    bool pass;    /* those of their tasks that wait for slots are still to let others pass */
    bool due;     /* their pending tasks are being looked for, among all that hold slots; the last one seen is: */
    struct hold at;
    bool again; /* and once more from the beginning */
};

struct known_clock { /* of the wall clock: known.time was right at this boot ms; due: boot ms of the next look */
    struct wall_known known;
    int64_t boot, due;
};

struct engine {
    struct engine_config config;
    struct store *store;
    struct store_head head; /* of the newest commit that this server knows */
    /* up to which it has taken over what others did; older than head after a narrow turn beside others */
    struct store_head taken;
    int64_t own_seq;    /* the last event of a turn of its own behind that; 0: none */
    int64_t own_events; /* and how many it has */
    struct numbers own;
    struct turn *narrow; /* this turn, if it is */
    struct turn *turn;   /* this turn */
    bool cancels_left;   /* a turn that came to nothing has heard from others of tasks that are to end */
    /* the last one left pending tasks to others that may not have taken them: the next is wide */
    bool passed_over;
    int64_t wide_until; /* boot ms */
    size_t batch, many;
    /* for the life of the engine; of the small tables (caches.c): reset when they are reloaded */
    struct arena arena, cache_arena;
    struct arena spec_arena, turn_arena; /* specs until the cache is full, or the hour is over; one turn */
    bool hour_over; /* specs and definitions that are still needed are read again: idle memory is given back */

    struct map lanes, classes, slots, executors, specs, lives; /* by id (lanes: id + 1) */
    /* those that have room and waiters, as of the last commit: the first of them wait for something else too */
    struct map slots_open;
    void **texts_old; /* of executors that have registered again, or gone: until the next turn */
    size_t n_texts_old, cap_texts_old;
    /* for silence, by the hour: the entry of `executors` at which the next turn goes on; 0: none */
    size_t executors_looked;
    /* of concurrency keys with nobody in them, in the order in which they came to it: id -> boot ms + 1 */
    struct map slots_empty;
    int64_t boot;          /* ms, of the turn */
    struct map slots_left; /* those whose waiters are still to be looked at: the last turn's looks were used up */
    /* boot ms, of a shared store: slots_open and those who are to be told were looked at, for what a lost server has
     * left */
    int64_t slots_swept;
    /* tasks have ended of which not all who wait for them have been told, or there may be some (tells.c) */
    bool tells_due;
    bool *indexes;               /* of classes: which are taken */
    size_t n_indexes, index_low; /* below index_low: all */
    /* by the hour, for who needs them: the entry of `classes` at which the next turn goes on; 0: none */
    size_t classes_looked;
    struct known_executor **serving; /* by a class's index: one that is active and fits; NULL: nobody */
    size_t n_serving;
    struct map classes_waking; /* served again: those who waited for that are still to go on */
    struct unserved unserved;
    bool on_loop; /* this turn is taken by the loop's thread: its other clients wait meanwhile */
    struct smap lane_names, class_keys, slot_names, executor_names, spec_texts;
    struct smap crews;       /* under heard_lock */
    struct map archives;     /* lane -> known_archive */
    struct smap tenants;     /* name -> known_tenant, in cache_arena */
    size_t n_conf, n_listed; /* of them: listed; but `default` */
    bool limited;            /* one of them has a quota */
    struct arena site_arena; /* of the tenants' configuration and of: */
    struct site_key site[SITE_KEYS];
    struct arena file_arena;    /* of: */
    struct str file[SITE_KEYS]; /* what this server's own file says; empty: nothing */
    _Atomic unsigned site_differs;
    _Atomic uint64_t site_version;
    _Atomic int64_t history_ms;
    atomic_bool held;       /* the store was restored, and is paused since */
    struct map definitions; /* spec id -> definition, a few that were needed lately */
    struct heap schedules;  /* known_schedule by the wall ms of its next minute */
    struct arena schedule_arena;
    struct known_schedule *schedules_known; /* all, also those that never fire again */
    /* of them, for a minute in the wrong future, since the clock was set back; SIZE_MAX: all */
    size_t schedules_looked;
    int64_t schedules_offset; /* wall less boot, the largest since then */
    int64_t schedules_boot;   /* of the last turn that fired what was due; 0: none */
    int64_t *removing;        /* lanes of removed archives whose tasks are being put to an end */
    size_t n_removing, cap_removing;
    bool archives_left;    /* waiting revisions whose gap has closed are still to be opened */
    struct heap deadlines; /* of lives */
    /* parked polls, by their deadline: a turn looks at those that are due, not at all that wait */
    struct heap polls_due;
    struct list parked; /* polls, oldest first */
    int64_t *resuming;  /* lanes whose parked tasks are being returned */
    size_t n_resuming, cap_resuming;
    bool claims_left;  /* the last turn put pending tasks back: waiting polls are looked at again, at once */
    int64_t next_time; /* wall ms of the first time hold; INT64_MAX: none */
    uint64_t looks;    /* polls looked at */
    uint64_t serial;   /* turns opened; marks what this one has listed */
    int64_t arrivals;  /* the last place given to a waiter for a slot */
    int64_t wanted;    /* boot ms of the turn that was asked for last */
    /* wall less boot, the largest since back-offs were looked at: the wall clock may be set back in small steps */
    int64_t offset;
    struct heap silences; /* active executors, by the boot ms at which they are looked at for silence (silence.c) */
    struct list spoken;   /* those that polled this server since their rows were written for that, of a shared store */
    size_t beats_due;     /* so many of them, from the front, are to be written now */
    int64_t began;        /* boot ms */
    /* when it began another server had a duty: who isn't lost by the store's rows counts as heard then */
    bool beside;
    struct known_clock clock; /* heard_lock, for who isn't in a turn */
    size_t keys_added;        /* idempotency keys for which none has been looked for that has expired */
    struct rows rows;
    struct recent *recent; /* by the lower bits of the id */
    uint64_t recent_since; /* what was put there before isn't counted any more: another server has committed */
    bool others_about;     /* the last turn met what another server had committed */
    int64_t followed;      /* boot ms of the last turn of a shared store that knew what others had done; 0: none */
    int64_t others_seen;   /* boot ms of the last turn that did; 0: none */
    bool gathers;          /* this turn takes along what comes until it has the store's lock */
    /* the store was found to be an older copy by this server or another one, and has taken a new incarnation */
    bool went_back;
    bool deaf;                /* executors can't be heard: nobody is given up in this turn */
    bool wrote;               /* the turn that is being taken has committed something */
    bool stale;               /* a shared store was lost: everything is read anew when it is back */
    unsigned reopened;        /* the store's, of the last turn */
    struct server_row server; /* this one, as the others see it */
    int64_t beaten;           /* boot ms of its last beat */
    struct coord *coord;
    int64_t load_seen;  /* boot ms at which the machine was asked for its load; the thread's */
    struct slice slice; /* kept for its tables' memory */
    struct space space;
    struct health health;
    struct tokens tokens;

    /* shared with other threads */
    pthread_mutex_t heard_lock; /* executors' heard, free, running, seen through engine_executors */
    _Atomic uint64_t tokens_version, archives_version;
    struct {
        int64_t lanes[ARCHIVE_NEWS_MAX];
        size_t n;
        bool all;
    } archive_news; /* under heard_lock */
    _Atomic uint64_t n_turns, n_narrow, n_widened, n_failed_turns, n_commands, n_commits, n_events, n_granted,
        n_finished, n_lost, turn_us, commit_us, begin_us;
    _Atomic int64_t n_running; /* grants that are out */
    _Atomic int64_t seals_due; /* boot ms by which hashes of logs are noted; INT64_MAX: none waits */
    struct engine_thread *thread;
};

struct pending_attempt {
    struct attempt attempt;
    bool is_new, removed, ended;
    struct pending_attempt *before; /* of the same task, in this turn; NULL: none */
};

struct turn {
    struct engine *engine;
    struct slice *slice;
    struct arena *arena;
    int64_t wall, boot;
    struct store_head head;
    struct err *err;
    struct changes changes; /* filled as it goes; rows of tasks and attempts at its end (turn_commit) */
    bool begun;             /* it has the store's lock */
    bool logs_away;         /* they couldn't be looked at: it isn't tried again */
    bool narrow, widened;   /* see narrow.c; widened: it has to be taken once more, wide */
    struct numbers own;     /* the engine's, after the commit */
    int64_t *numbers;
    size_t n_numbers, numbers_used; /* of a narrow turn: for tasks that it makes */
    struct map locked;              /* of a narrow turn: lanes whose archives are its own until it is over */

    struct map attempts; /* task -> newest pending_attempt of this turn */
    ARRAY(struct pending_attempt *) attempt_list;
    struct map outputs_of; /* task -> struct str, the newest of those */
    /* that the log store has hashed: noted with this turn, or not wanted */
    struct log_sealed *sealed_seen;
    size_t n_sealed_seen;
    struct smap uniques;     /* key -> node, of this turn's */
    struct smap idempotents; /* key text -> struct idempotency, of this turn's */
    struct smap token_names; /* of those, as events name them */
    size_t executors_looked;
    size_t classes_looked;
    ARRAY(struct command *) polls;   /* this turn's polls that want work */
    ARRAY(struct command *) to_park; /* polls that wait on */
    ARRAY(struct command *) answered;
    ARRAY(struct log_name) sealed; /* logs that are complete */
    struct map supplies;           /* polls.c: pending tasks by class */
    size_t n_were_pending;         /* nodes that had a ready row when the first of them was made */
    bool supplied;                 /* n_were_pending is known */
    size_t n_supplied;             /* of the slice's fresh tasks, those that stand with their class in `supplies` */
    size_t n_parked_tasks;
    bool tells_looked; /* tells_run has */
    uint64_t n_granted, n_finished, n_lost;

    struct map archives; /* lane -> struct archive, this turn's copy */
    ARRAY(struct revision *) revisions;
    struct map revisions_at; /* of those, by lane and number (revision_told) */
    struct smap names;       /* lane and name -> struct name_track: what PREV means, this turn's tasks included */
    ARRAY(struct name_track *) tracks;
    bool schedules_changed;
    struct server_row server;
    bool beats;      /* this turn moves the server's beat on */
    size_t n_beaten; /* rows of executors that go with it */
    bool ticks;      /* it looks at the wall clock: */
    struct wall_known clock;
    int64_t clock_due;
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

/* turn.c. turn_run: applies commands and what is due, decides, writes. False: nothing was changed, err says why;
 * *n_commands grows by those that came meanwhile. turn_follow: after the commit, the caches. */
void turn_open(struct turn *turn, struct engine *engine, int64_t wall, int64_t boot, struct err *err);
bool turn_run(struct turn *turn, struct command **commands, size_t *n_commands, struct err *err);
bool turn_commit(struct turn *turn, struct err *err);
void turn_follow(struct turn *turn);
void turn_close(struct turn *turn);
/* turn_incarnate: a new incarnation; all fences given out so far are stale. */
void turn_incarnate(struct turn *turn, struct str who, struct str reason);
void turn_stand(struct turn *turn);                           /* on the newest commit that the engine knows */
void turn_answer(struct turn *turn, struct command *command); /* to be answered after the commit */
bool turn_refuse(struct turn *turn, struct command *command, enum err_code code, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
void turn_executor_changed(struct turn *turn, struct known_executor *executor);

/* narrow.c */
bool turn_can_be_narrow(struct engine *engine, struct command **commands, size_t n, int64_t wall, int64_t boot);
bool commands_are_narrow(struct command **commands, size_t n);         /* as far as they tell */
bool something_due(struct engine *engine, int64_t wall, int64_t boot); /* that only a wide turn does */
/* what it was about tells what comes next */
void turn_noted(struct engine *engine, struct command **commands, size_t n, int64_t boot);
void turn_widen(struct turn *turn);     /* what follows needs a wide turn: a narrow one fails */
int64_t task_number(struct turn *turn); /* of a task that is made */
int64_t spec_number(struct turn *turn);
void numbers_reserve(struct turn *turn, struct store_head *head);
void executor_counted(struct turn *turn, int64_t executor, bool failed);
bool changes_narrow(struct turn *turn); /* false: they aren't */
void narrow_committed(struct turn *turn, const struct store_head *head);
void narrow_undo(struct turn *turn, struct command **commands, size_t n);

/* caches.c */
bool caches_load(struct engine *engine, struct err *err);
void caches_held(struct engine *engine); /* the lane `all` may have changed */
void caches_drop(struct engine *engine);
void caches_trim(struct engine *engine); /* specs and definitions, at the beginning of a turn */
void caches_specs_drop(struct engine *engine);
void recent_follow(struct turn *turn); /* rows that the turn wrote are remembered, after the commit */
bool recent_row(const struct engine *engine, int64_t id, const struct task **out); /* false: not remembered */
struct rows caches_rows(struct engine *engine);
struct lane *cache_lane_find(struct turn *turn, struct str tenant, struct str name); /* NULL: none */
/* a queue is made when there is none */
struct lane *cache_lane_get(struct turn *turn, struct str tenant, struct str name);
struct lane *cache_lane_make(struct turn *turn, struct str tenant, struct str name, enum lane_kind kind);
int64_t cache_class_get(struct turn *turn, struct str tenant, const struct task_def *def); /* 0: nothing to run */
/* a global one comes first; NULL: none */
struct slot *cache_slot_find(struct turn *turn, struct str tenant, struct str name);
void cache_slot_drop(struct engine *engine, int64_t id);
void cache_class_drop(struct engine *engine, int64_t id);
void cache_classes_drop(struct engine *engine);
bool caches_classes_again(struct engine *engine, struct err *err);
void cache_slots_drop(struct engine *engine);
struct slot *cache_slot_put(struct turn *turn, struct str tenant, struct str name, int64_t limit);
int64_t cache_spec_get(
    struct turn *turn, const struct task_def *def, int64_t class_id, const int64_t *slots, size_t n_slots);
struct known_executor *cache_executor_put(struct engine *engine, const struct executor *row);
void cache_executor_drop(struct engine *engine, int64_t id);
void caches_texts_free(struct engine *engine); /* at the end of a turn: what executors were called before */
bool cache_fits(struct engine *engine, struct known_executor *executor, int64_t class_id);
void slot_note(struct engine *engine, struct slot *slot); /* it was changed: slots_open follows */

/* slots.c: waiters for slots, over several turns. */
void slots_admit(struct turn *turn);         /* goes on where the last turn ended */
void slots_admit_all(struct engine *engine); /* the next turn looks at every slot that has room and waiters */
void slots_pass(struct turn *turn);          /* a lane was paused: its waiters let others pass */
void slots_follow(struct turn *turn);        /* after the commit */
void slots_sweep(struct turn *turn);         /* of a shared store: what a lost server has left */
void slots_clear(struct turn *turn);         /* a batch of those with nobody in them goes */
int64_t slot_of_key(struct turn *turn, struct str tenant, struct str key); /* the number of a concurrency key's slot */
int64_t slot_of_name(struct arena *arena, struct str tenant, struct str name); /* and of a tenant's semaphore */

/* crews.c; heard_lock is held but for crew_state, crew_serves and engine_crew */
void crew_join(struct engine *engine, struct known_executor *known); /* its row is new */
void crew_leave(struct engine *engine, struct known_executor *known);
void crew_heard(struct known_executor *known);                        /* `heard` is now */
void crew_state(struct engine *engine, struct known_executor *known); /* its row's state has changed */
/* an active one that fits; NULL: none */
struct known_executor *crew_serves(struct engine *engine, const struct task_class *class_);
void crews_free(struct engine *engine);
int64_t executor_silent_ms(const struct engine *engine); /* who wasn't heard for longer isn't shown as alive */

/* tells.c: a turn tells a batch of those who wait for what has ended; the rest is told by the next turns. */
size_t turn_batch(const struct engine *engine); /* what a turn does at most of each kind that can grow */
/* rows of their tasks come in one piece, if that saves time */
void holds_expect(struct turn *turn, const struct hold *holds, size_t n);
size_t tells_more(const struct engine *engine); /* edges that a turn may go along for each finish, besides a batch */
/* before a retry: nothing that it meets is half handed on */
void heirs_finish(struct turn *turn, const struct node *node);
void tells_run(struct turn *turn);    /* goes on where turns before have stopped */
void tells_follow(struct turn *turn); /* after the commit */

/* served.c: classes that an active executor fits. */
bool class_is_served(const struct engine *engine, int64_t class_id);
void served_class_made(struct engine *engine, const struct task_class *class_);
void served_class_gone(struct engine *engine, const struct task_class *class_);
void served_look(struct engine *engine, struct known_executor *changed); /* its row has changed; NULL: some were lost */
void executor_changed(struct turn *turn, struct known_executor *known);  /* by this turn: its state, or what it fits */
void served_load(struct engine *engine); /* computes everything again, after the rows were reloaded */
void served_drop(struct engine *engine);
bool served_due(const struct engine *engine); /* the next turn has something to do about it, and has to be wide */
void served_run(struct turn *turn);

/* idempotency.c: every command that creates, in this order:
 *     struct kept_answer kept = { 0 };
 *     if (idempotency_met(turn, command, &kept)) { fill the answer from kept (none when it was refused); return; }
 *     ... checks that may refuse; changes; command->status = 201;
 *     idempotency_keep(turn, command, numbers, n);
 * met, true: nothing more is to be done: command->replay and status are set, or it is refused, or the turn has failed.
 */
struct kept_answer {
    const int64_t *numbers;
    size_t n;
};
bool idempotency_met(struct turn *turn, struct command *command, struct kept_answer *out);
void idempotency_keep(struct turn *turn, struct command *command, const int64_t *numbers, size_t n);

/* expiry.c: the wall clock, as far as it is believed: see core/wall.h */
bool wall_load(struct engine *engine, int64_t boot, struct err *err);
int64_t turn_past(const struct turn *turn); /* by which what is old is removed */
int64_t turn_late(const struct turn *turn); /* from which time limits count */
bool turn_agrees(const struct turn *turn);  /* the wall clock isn't in doubt */
void clock_tick(struct turn *turn);
/* seals.c */
/* on: when the engine opens and its thread starts; off: before they end */
void seals_listen(struct engine *engine, bool on);
int64_t seals_next(struct engine *engine); /* boot ms */
void seals_note(struct turn *turn);        /* last, when it is known whether the turn commits anyway */
void seals_follow(struct turn *turn);

void expiry_run(struct turn *turn);
void expiry_commit(struct turn *turn);
int64_t expiry_next(const struct engine *engine); /* boot ms */

/* intake.c, orders.c, finish.c, polls.c: commands. Each either refuses (command->err) or changes the slice. */
void cmd_enqueue(struct turn *turn, struct command *command);
void enqueue_fill(struct turn *turn, struct command *command); /* the answer, when the turn is decided */
void cmd_cancel(struct turn *turn, struct command *command);
void cmd_retry(struct turn *turn, struct command *command);
void cmd_promote(struct turn *turn, struct command *command);
void cmd_lane_pause(struct turn *turn, struct command *command);
void cmd_executor_state(struct turn *turn, struct command *command);
void cmd_token_create(struct turn *turn, struct command *command);
void cmd_token_revoke(struct turn *turn, struct command *command);
void cmd_register(struct turn *turn, struct command *command);
void cmd_poll(struct turn *turn, struct command *command);
void cmd_finish(struct turn *turn, struct command *command);
void lanes_resume(struct turn *turn);                     /* returns a batch of parked tasks of resumed lanes */
struct str outputs_told(struct turn *turn, int64_t task); /* in this turn; empty: none */
void finish_items(struct turn *turn, const struct command *command, struct finish_item *items, size_t n);
/* executor_owned: may the command speak for it? An executor is its token's (decision 0019). */
bool executor_owned(const struct executor *executor, const struct command *command);

/* intake.c: what revisions make tasks with. */
struct node *task_make_of(struct turn *turn, struct str tenant, const struct task_def *def, const struct task *like,
    const struct because *because);
struct node *unique_find(struct turn *turn, struct str tenant, struct str key);
/* in the history of who has the key */
void unique_tell(struct turn *turn, struct node *node, struct str actor, struct str asked);
void edge_make(struct turn *turn, struct node *node, struct node *other, enum edge_kind kind, unsigned flags,
    struct node **doomed_by);

/* archives.c: archives as the turn sees them. */
bool archives_load(struct engine *engine, struct err *err);
void archive_put(struct engine *engine, const struct archive *row);
void archives_drop(struct engine *engine);
void archives_follow(struct turn *turn);                       /* after the commit */
struct archive *turn_archive(struct turn *turn, int64_t lane); /* this turn's copy; NULL: the lane is a queue */
/* the same, for change: nobody else changes it until the turn is over */
struct archive *archive_own(struct turn *turn, int64_t lane);
/* that one by name; NULL: none */
struct archive *archive_named(struct turn *turn, const struct command *command, struct str name);
void definitions_drop(struct engine *engine);
void changes_archives(struct turn *turn);
struct definition *definition_get(struct turn *turn, int64_t id); /* NULL: it can't be read (the turn has failed) */
int64_t definition_put(struct turn *turn, struct definition *definition);
struct grant_source archive_source(struct turn *turn, const struct task *task, struct arena *arena);
void cmd_archive_add(struct turn *turn, struct command *command);
void cmd_archive_remove(struct turn *turn, struct command *command);
void archives_removing(struct turn *turn); /* a batch of what removed archives have left */
void cmd_archive_skip(struct turn *turn, struct command *command);

/* revisions.c */
void cmd_revision(struct turn *turn, struct command *command);
struct revision *revision_told(struct turn *turn, int64_t lane, int64_t rev); /* by this turn; NULL: not */
void revision_put(struct turn *turn, struct revision *row);
void cmd_cause(struct turn *turn, struct command *command);
void cmd_run(struct turn *turn, struct command *command);
void revisions_open(struct turn *turn, struct archive *archive); /* waiting ones whose gap has closed, a batch */
void revisions_left(struct turn *turn);                          /* goes on where a batch ended */
struct revision *revision_newest(struct turn *turn, const struct archive *archive); /* that has tasks; NULL: none */
struct node *run_make(struct turn *turn, struct archive *archive, const struct revision *revision,
    struct definition *definition, struct str task, struct str params, const struct because *because);

/* tenants.c */
struct known_tenant *tenant_find(struct engine *engine, struct str name); /* NULL: it isn't listed */
bool tenant_is_listed(struct engine *engine, struct str name);            /* or nobody is: then everybody may be */
/* is it that one's own? Shared ones are `default`'s */
bool tenant_of_executor(const struct executor *executor, struct str tenant);
/* NULL: none */
struct known_executor *executor_named(struct engine *engine, struct arena *arena, struct str tenant, struct str name);
/* of an event without a lane: TENANT/NAME */
struct str tenant_subject(struct arena *arena, struct str tenant, struct str name);
void tenant_lane_made(struct engine *engine, const struct lane *lane);
void tenant_lane_moved(struct engine *engine, const struct lane *was, const struct lane *is);
void tenant_slot_made(struct engine *engine, const struct slot *slot);
void tenant_slot_gone(struct engine *engine, const struct slot *slot);
void tenant_executors_moved(struct engine *engine, const struct executor *executor, int64_t by);
void tenant_archives_moved(struct engine *engine, int64_t lane, int64_t by);
struct known_tenant *tenant_now(struct turn *turn, struct str name); /* its `more` are this turn's */
int64_t tenant_quota(struct engine *engine, struct str name); /* the slot that limits its running tasks; 0: none */
void tenants_set(struct engine *engine, const struct conf_tenants *conf); /* those there are from now on */
bool tenants_load(struct engine *engine, struct err *err);
void tenants_drop(struct engine *engine);
/* true: refused, because the command's tenant would have more than it may */
bool quota_refused(struct turn *turn, struct command *command, enum quota quota, int64_t more);
/* tasks, and the bytes that tasks leave behind */
bool quota_tasks_refused(struct turn *turn, struct command *command, int64_t more);
bool quota_enqueue_refused(struct turn *turn, struct command *command);
bool quota_revision_refused(struct turn *turn, struct command *command, const struct definition *definition);
bool quota_tasks_full(struct turn *turn, struct str tenant);
/* bytes of its log */
int64_t log_counted(struct turn *turn, const struct node *node, const struct attempt *attempt, int64_t said);
/* log_grown: of an attempt that has ended more bytes are stored than were counted then: its executor was given up and
 * goes on sending, or they came through another server. */
void log_grown(struct turn *turn, struct node *node, int64_t grant, int64_t bytes);
/* was: the attempt as it was before this end, or NULL; before `outputs` are the turn's */
void kept_add(struct turn *turn, struct node *node, const struct attempt *was, int64_t log_bytes, struct str outputs);
void kept_drop(struct turn *turn, struct node *node, int64_t log_bytes);
void cmd_site(struct turn *turn, struct command *command);
void site_start(struct turn *turn);
bool semaphore_is_configured(struct engine *engine, struct str tenant, struct str name);

/* archives.c */
/* it stands in S after it had ended: it queues for its lock anew */
void archive_lock_again(struct turn *turn, struct node *node);
/* for all that were restaged since `from` */
void locks_again(struct turn *turn, size_t from, const struct node *except);

/* others.c */
bool others_follow(struct turn *turn, struct err *err); /* after begin: the turn stands on what is true now */
/* before begin, and for commands that came since */
void needs_expect(struct turn *turn, struct command **commands, size_t n);
bool others_are_about(const struct engine *engine, int64_t boot); /* another server has committed lately */
void duties_run(struct turn *turn);
void duties_commit(struct turn *turn);
void cmd_note(struct turn *turn, struct command *command);
int64_t duties_next(struct engine *engine);         /* boot ms */
bool duties_elsewhere(const struct engine *engine); /* by the rows; whether their holder lives is seen later */
bool duties_open(struct engine *engine, struct err *err);
bool duty_acts(struct turn *turn, enum duty_kind duty);        /* this server, in this turn */
bool duty_refused(struct turn *turn, struct command *command); /* it was made under an epoch that is over */
struct str duty_text(
    struct turn *turn, enum duty_kind duty); /* "NAME, epoch N" for events; empty: nobody else is there */
/* engine.c. engine_anew: everything is read again. engine_recover: the turn came to nothing: what it had put into the
 * caches is forgotten, polls stand as they stood. */
bool engine_anew(struct engine *engine, int64_t boot, struct err *err);
bool engine_recover(struct engine *engine, struct command **commands, size_t n, int64_t boot, struct err *err);
void caches_refresh(struct engine *engine, const struct others *others); /* caches.c */
void live_forget_any(struct engine *engine, int64_t task);               /* leases.c */
void archive_news_add(struct engine *engine, int64_t lane);              /* 0: any */
void endings_tell(struct turn *turn); /* to polls that wait: which of their jobs are to end */
/* polls.c */
void poll_cancel(struct turn *turn, struct command *poll, const struct attempt *attempt, enum task_state ending);

/* tokens.c */
void tokens_open(struct engine *engine);
void tokens_release(struct engine *engine);
bool tokens_load(struct engine *engine, struct err *err); /* reads all tokens from the store */
void tokens_tell(struct engine *engine);                  /* they, or the site's keys, have changed */
void tokens_follow(struct turn *turn);                    /* after the commit */
bool tokens_take(struct turn *turn, struct err *err);     /* those that other servers have made since */
void token_gone_elsewhere(struct turn *turn, struct str subject);
/* NULL: none, or this turn revokes it */
struct known_token *token_named(struct turn *turn, struct str tenant, struct str name);
bool token_is_named(struct turn *turn, struct str tenant, struct str name); /* also by this turn */
void token_make(struct turn *turn, const struct token *token, struct str actor);
void token_revoke(struct turn *turn, struct known_token *known, struct str actor, struct str reason);
int64_t tokens_of(struct turn *turn, struct str tenant); /* how many it has */

/* prune.c */
void cmd_prune(struct turn *turn, struct command *command);
void cmd_log_grown(struct turn *turn, struct command *command);
void prune_follow(struct turn *turn); /* logs go after the commit */

/* schedules.c */
bool schedules_load(struct engine *engine, struct err *err);
void schedules_drop(struct engine *engine);
/* NULL: none any more */
void schedules_set(struct turn *turn, const struct archive *archive, const struct definition *definition);
void schedules_fire(struct turn *turn);
int64_t schedules_next(const struct engine *engine); /* wall ms; INT64_MAX: none */
/* this server has something to do about them now */
bool schedules_due(const struct engine *engine, int64_t wall, int64_t boot);

/* leases: attempts that are out. */
struct pending_attempt *attempt_find(
    struct turn *turn, int64_t task, int64_t grant); /* of this turn, of the living, or stored; NULL: none */
struct pending_attempt *attempt_change(struct turn *turn, const struct attempt *attempt);
void attempt_over(struct turn *turn, struct node *node, const struct attempt *attempt, const struct attempt *end_fields,
    struct str reason, const struct because *because); /* reason: what the executor says besides; empty: nothing */
void attempt_lost(struct turn *turn, struct node *node, const struct attempt *attempt, const struct because *because);
void leases_expire(struct turn *turn);
void leases_commit(struct turn *turn); /* what the turn did to the living, after the commit */
bool leases_load(struct engine *engine, int64_t boot, struct err *err);
void leases_count(struct engine *engine); /* how many each executor has, from the living */
/* a grant is out from now on */
struct live *live_put(struct engine *engine, const struct attempt *attempt, int64_t boot);
void live_count(struct engine *engine, const struct attempt *attempt, int64_t n); /* heard_lock is held */
/* its row, also of one that another server granted */
const struct attempt *live_read(struct turn *turn, struct live *live);
/* executors that spoke to this server lately count as heard now */
void leases_keep(struct engine *engine, int64_t boot);
void leases_watch_anew(struct engine *engine, int64_t boot);

/* polls.c: work for polls. */
void grants_forget(struct turn *turn); /* nobody can name any more what is granted: it may have begun, and counts */
void claims_run(struct turn *turn);
void poll_answer(struct turn *turn, struct command *poll);
/* answers those that have something to say or are due; the others park */
void polls_settle(struct turn *turn);
void polls_commit(struct turn *turn); /* what their answers carried is remembered */
/* they and waiting polls stand as before the turn */
void commands_undo(struct engine *engine, struct command **commands, size_t n);
void polls_release(struct engine *engine, struct list *out); /* all, empty (shutdown) */
int64_t polls_deadline(struct engine *engine);

/* silence.c */
void silence_watch(struct engine *engine, struct known_executor *known);  /* its row is new, or it has become active */
void silence_forget(struct engine *engine, struct known_executor *known); /* it is gone */
/* boot ms of the next look; INT64_MAX: none */
int64_t silence_next(const struct engine *engine);
void executors_watch(struct turn *turn); /* those that fell silent are lost, a batch of them */
/* to this server; heard_lock is held */
void executor_spoke(struct engine *engine, struct known_executor *known, int64_t boot);
void executors_beat(struct turn *turn); /* rows of a batch of those that spoke */
void beats_commit(struct turn *turn);

/* space.c */
void space_open(struct space *space, const char *dir);
void space_look(struct space *space, int64_t boot);         /* at most once a second */
void space_ran_out(struct space *space);                    /* the store said so: gives the ballast up */
void space_ran_out_away(struct space *space, int64_t boot); /* the disk of a database that is elsewhere */
const char *space_place(const struct space *space);         /* which disk is full, in words */

/* health.c */
void health_open(struct health *health);
void health_release(struct health *health);
void health_clock(struct health *health, int64_t wall, int64_t boot);
/* health_turn: whether turns fail for a reason that isn't a command's. failed: this one came to nothing; idle: it had
 * no commands; wrote: it committed something. */
bool health_turn(struct health *health, bool failed, bool idle, bool wrote, int64_t boot);
void health_set(
    struct engine *engine, enum engine_health state, const char *why); /* after a turn; why: the store's words, or "" */
bool engine_damaged(const struct engine *engine);
/* a turn met damage: noted; err becomes what the command is answered */
void health_corrupt(struct engine *engine, struct err *err);
/* intake_closed: true: refused, because no new work is taken now. */
bool intake_closed(struct turn *turn, struct command *command);

/* thread.c */
/* thread_hears: can executors be heard? Their polls come through the loop, which may stand still (a read that waits for
 * the database) while turns go on. due: somebody is to be given up now, so the loop has to have turned since. */
enum hearing { HEARS, HEARS_LATER, HEARS_NOTHING };
enum hearing thread_hears(struct engine *engine, int64_t boot, bool due);
/* behind the n that are there; how many now */
size_t thread_gather(struct engine *engine, struct command **commands, size_t n);
void engine_thread_free(struct engine *engine);

#endif
