/* world: one simulated history: the real engine and core on virtual time, a store in memory, and around them clients, executors and a network that
 * fail as the choices say. */
#ifndef WEIR_SIM_WORLD_H
#define WEIR_SIM_WORLD_H

#include "choice.h"
#include "engine/engine.h"
#include "memstore.h"

enum { EXECUTORS_MAX = 5, JOBS_MAX = 6, TASKS_MAX = 400, LEASE_MS = 3000 };

struct faults { /* in 1000 */
    unsigned lose, twice, crash_server, crash_after_commit, commit_unknown, commit_full, freeze, crash_agent, crash_host, clock_jump, restore;
};

struct job {
    bool used, ended, acked; /* ended: its finish is to be reported until it was answered */
    struct fence fence;
    int64_t ends_at;  /* boot ms */
    int64_t exit, signal;
    enum outcome outcome;
    int told; /* finishes sent */
};

struct sim_executor {
    int index;
    int64_t id; /* 0: not registered */
    bool down;  /* the agent; its jobs run on */
    int64_t frozen_until, slots;
    int64_t seq;         /* of the poll that is open or was answered last */
    bool poll_open;
    int64_t poll_sent;   /* for giving up on an answer */
    struct job jobs[JOBS_MAX];
    int64_t seen_seq;
    unsigned boots;
};

struct accepted { int64_t id; bool cancelled; };

struct world {
    struct choices choices;
    struct faults faults;
    struct memstore *store;
    struct engine *engine; /* NULL: the server is down */
    struct arena arena;
    int64_t boot, wall;
    int64_t server_back_at, next_turn;
    unsigned server_life; /* messages to an older life are lost */
    struct heap mail;     /* messages under way, by time of arrival */
    struct command *inbox[256];
    size_t n_inbox;
    struct sim_executor executors[EXECUTORS_MAX];
    size_t n_executors;
    struct accepted accepted[TASKS_MAX];
    size_t n_accepted, n_sent;
    bool healing; /* the faults are over: everything has to end */
    size_t n_turns_checked;
    int64_t events_checked;
    enum task_state folded[TASKS_MAX * 2];
    int64_t folded_grant[TASKS_MAX * 2];
    uint64_t n_turns, n_commands, n_crashes, n_lost, n_grants, n_late;
    bool trace;
};

void world_open(struct world *world, bool trace);
void world_run(struct world *world); /* faults, then healing; a violated invariant aborts the process with its name */
void world_close(struct world *world);
void world_fail(struct world *world, const char *invariant, int64_t task) __attribute__((noreturn));
void trace(struct world *world, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* executors.c */
void executors_step(struct world *world);
void executor_answer(struct world *world, struct command *command);
/* check.c */
void check_store(struct world *world);
/* server side */
void send_command(struct world *world, struct command *command, int from);
struct command *command_new(struct world *world, enum command_kind kind);

#endif
