/* tenants: what each tenant has (cache/tenants.c), whether it may have more (quota.c; core/quota.c decides), and the
 * site's keys (command/site.c). */
#ifndef WEIR_ENGINE_TENANTS_H
#define WEIR_ENGINE_TENANTS_H

#include "engine/definition.h"
#include "engine/state.h"

struct known_executor;

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

struct site {
    struct arena arena; /* of the tenants' and the targets' configuration and of: */
    struct site_key keys[SITE_KEYS];
    struct conf_changesets changesets; /* as turns have them */
    struct conf_targets targets;
    struct {
        struct arena arena;
        struct conf_changesets changesets;
        struct conf_targets targets;
    } told;                     /* the same, for other threads: under GUARD_site */
    struct arena file_arena;    /* of: */
    struct str file[SITE_KEYS]; /* what this server's own file says; empty: nothing */
    _Atomic unsigned differs;
    _Atomic uint64_t version;
    _Atomic int64_t history_ms;
    atomic_bool held; /* the store was restored, and is paused since */
};

/* cache/tenants.c */
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
bool semaphore_is_configured(struct engine *engine, struct str tenant, struct str name);

/* quota.c. quota_refused: true: the command is refused, because its tenant would have more than it may */
bool quota_refused(struct turn *turn, struct command *command, enum quota quota, int64_t more);
/* tasks, and the bytes that tasks leave behind */
bool quota_tasks_refused(struct turn *turn, struct command *command, int64_t more);
bool quota_enqueue_refused(struct turn *turn, struct command *command);
bool quota_revision_refused(struct turn *turn, struct command *command, const struct definition *definition);
bool quota_tasks_full(struct turn *turn, struct str tenant);
/* bytes of its log */
int64_t log_lost(struct turn *turn, const struct node *node, const struct attempt *attempt); /* it is given up */
int64_t log_counted(struct turn *turn, const struct node *node, const struct attempt *attempt, int64_t said);
/* log_grown: of an attempt that has ended more bytes are stored than were counted then: its executor was given up and
 * goes on sending, or they came through another server. */
void log_grown(struct turn *turn, struct node *node, int64_t grant, int64_t bytes);
/* was: the attempt as it was before this end, or NULL; before `outputs` are the turn's */
void kept_add(struct turn *turn, struct node *node, const struct attempt *was, int64_t log_bytes, struct str outputs);
void kept_drop(struct turn *turn, struct node *node, int64_t log_bytes);
void kept_tarball(struct turn *turn, struct node *node, int64_t bytes); /* of a new change set: it counts likewise */

/* command/site.c */
void site_start(struct turn *turn);

#endif
