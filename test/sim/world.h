/* world: one simulated history: the real engine and core on virtual time, a store in memory, and around them clients,
 * executors and a network that fail as the choices say. */
#ifndef WEIR_SIM_WORLD_H
#define WEIR_SIM_WORLD_H

#include "base/plant.h"
#include "choice.h"
#include "engine/engine.h"
#include "memstore.h"

enum {
    EXECUTORS_MAX = 5,
    JOBS_MAX = 6,
    TASKS_MAX = 400,
    LEASE_MS = 3000,
    CALLS_MAX = 128,
    INBOX_MAX = 256,
    IDS_MAX = TASKS_MAX * 4, /* narrow turns leave gaps */
    HASTENED_MAX = 4,
    LANES_MAX = 16,
    REPOSITORIES_MAX = 2,
    REVISIONS_MAX = 14,
    FIRED_MAX = 8,
    SETS_MAX = 40,
    SET_PATHS = 5,
    SERVERS_MAX = MEM_SERVERS_MAX,
    READS_MAX = 64
};

/* Shapes that histories must have had: a mark that was never hit says that the generator has stopped making them. name,
 * meaning */
#define MARKS(X) \
    X(late_result, "a late result was accepted") \
    X(late_after_failed, "a late result of a task that had failed as lost") \
    X(lease_revived, "a lapsed lease was taken up again") \
    X(lease_lapsed, "a lease lapsed") \
    X(lapsed_ending, "a lease lapsed while its task was to end") \
    X(grant_undone, "a grant that did not arrive was taken back") \
    X(undone_by_restarted, "it was taken back by the next life of its executor, and no attempt was spent") \
    X(undone_after_crash, "it was taken back by a server that had died since") \
    X(grant_missed, "an executor had lost a job that it had begun, and said so") \
    X(missed_by_forgetful, "an executor that had lost its memory did not name a grant") \
    X(late_poll_old, "a poll older than a grant came after it") \
    X(poll_replayed, "a poll was answered again with the same grants") \
    X(cancel_running, "an executing task was cancelled") \
    X(cancel_waiting, "a waiting task was cancelled") \
    X(superseded_running, "an executing task was superseded") \
    X(superseded_waiting, "a waiting task was superseded") \
    X(cancels_inherited, "what an abandoned task was to cancel was inherited") \
    X(slot_waiters, "more than one waited for a slot") \
    X(slot_shared, "two held one slot") \
    X(slot_gone, "the slot of a concurrency key went with the last who was in it") \
    X(retry, "an ended task was retried") \
    X(retry_dependents, "a retry took dependents along") \
    X(passed_on, "a failed dependency took its dependents along") \
    X(back_off, "an attempt waited before the next") \
    X(disk_full, "a turn was played again after the disk was full") \
    X(unknown_kept, "a commit of unknown outcome had been kept") \
    X(unknown_lost, "a commit of unknown outcome was lost") \
    X(crash, "the server died") \
    X(restart_live, "the server came back to live grants") \
    X(restart_paused, "the server came back to a paused lane") \
    X(stall, "the server stood still for more than a third of the lease") \
    X(stall_live, "it did so with live grants") \
    X(parked_by_pause, "a pending task of a paused lane was put back") \
    X(resume, "a lane was resumed") \
    X(resume_batches, "a resumed lane needed more than one turn") \
    X(executor_waited, "a task waited for an executor before it took its slots") \
    X(unserved_gave_back, "a pending task gave its slots back when its last executor was lost") \
    X(served_batches, "those who waited for an executor, or were to give slots back, needed more than one turn") \
    X(executor_paused, "an executor was paused") \
    X(admit_batches, "waiters for slots were left to another turn") \
    X(tell_batches, "those who waited for an end were told of it in more than one turn") \
    X(return_batches, "dependents of what was retried came back in more than one turn") \
    X(silence_batches, "executors that fell silent together were lost in more than one turn") \
    X(lapse_batches, "leases that lapsed together were given up in more than one turn") \
    X(tell_retried, "a task was retried before all who wait for it knew of its end") \
    X(clock_forward, "the wall clock was set forward") \
    X(clock_back, "the wall clock was set back") \
    X(schedule_again, "a schedule's minute was counted again after the clock was set back") \
    X(scheduled_right, "a schedule that a clock a year ahead had fired fires by the right one") \
    X(clock_back_waiting, "it was set back while a back-off waited") \
    X(idempotent_replay, "a call was answered from its key") \
    X(idempotent_after_crash, "a call was answered from its key after the server had died") \
    X(unique_met, "a unique key brought an existing task") \
    X(stale_told, "an executor was told that its grant is stale") \
    X(stale_finish, "a finish by an older grant was refused") \
    X(finish_again, "the same finish came twice and was good twice") \
    X(executor_lost, "an executor fell silent") \
    X(labels, "a task was granted by its label") \
    X(promoted, "a pending task was promoted") \
    X(limit_reached, "a task failed because its attempts were used up") \
    X(passed_over, "a pending task was passed over by another lane's") \
    X(why_edges, "why named an edge") \
    X(why_time, "why named a time") \
    X(why_pause, "why named a pause") \
    X(why_slot, "why named a slot") \
    X(why_many, "why named several conditions") \
    X(why_slot_ahead, "why named a slot for a task that doesn't wait in its queue yet") \
    X(why_supersedes, "why named what is to be superseded before that was told") \
    X(why_never, "why said never") \
    X(why_lock, "why named an archive's lock") \
    X(why_gap, "why named a gap") \
    X(revision_early, "a revision came before an earlier one") \
    X(revision_again, "a revision that is known was told again") \
    X(revision_skipped, "a gap was given up") \
    X(revision_caused, "a job made a revision") \
    X(cause_depth, "jobs made revisions too many in a row") \
    X(workflow_bad, "a workflow couldn't be read") \
    X(skipped_by_paths, "a revision touched none of a task's paths") \
    X(prev_waited, "a task started after its PREV") \
    X(prev_handed_on, "a task's PREV had been stopped, and what that one waited for was waited for") \
    X(cancels_through, "a task superseded what one that never became ready was to supersede") \
    X(lock_shared, "two shared an archive's lock") \
    X(lock_exclusive, "a task had an archive's lock alone") \
    X(archive_removed, "an archive was removed") \
    X(archive_again, "a removed archive was added again") \
    X(run_by_hand, "a task was run by hand") \
    X(scheduled, "the clock started a task") \
    X(scheduled_missed, "slots that were missed fired once") \
    X(scheduled_back, "the clock was set back behind a slot that had fired") \
    X(order_passed, "a retry was refused because a later revision had started") \
    X(limit_lowered, "a semaphore was lowered below those who have it") \
    X(limit_raised, "a semaphore was raised while somebody waited") \
    X(restored, "a backup was put back") \
    X(restored_live, "it was put back while a job of the time since ran") \
    X(stale_incarnation, "a finish of another incarnation was refused")

/* The same for worlds with several servers. */
#define MARKS_SERVERS(X) \
    X(answer_lost, "the answer of a commit was lost, and the mark told that it is there") \
    X(connection_cut, "a connection was lost before the commit") \
    X(connection_cut_reading, "a connection was lost in the middle of a turn") \
    X(store_away, "a server couldn't reach the store") \
    X(too_far, "the others had done too much to tell: all was read anew") \
    X(frozen_long, "a server stood still for longer than the lease of duties") \
    X(duty_taken, "a duty was taken over") \
    X(duty_back, "a server found that a duty of its own had gone to another") \
    X(epoch_refused, "what was sent under an epoch that is over was refused") \
    X(failover, "an executor turned to another server") \
    X(grant_elsewhere, "a job was finished at another server than the one that granted it") \
    X(lapsed_elsewhere, "a lease lapsed at another server than the one that granted it") \
    X(cancel_elsewhere, "a job was cancelled at another server than the one that has its executor's poll") \
    X(hint_lost, "a hint was lost") \
    X(beside, "another server committed in the middle of a turn") \
    X(narrow, "a turn was narrow") \
    X(widened, "a narrow turn was taken once more, wide") \
    X(read_waited, "a read waited for a commit of another server") \
    X(replayed_elsewhere, "a call was answered from its key by another server") \
    X(scheduled_after_takeover, "a schedule fired under a later epoch than the first")

/* The same for worlds with a tenant that has quotas, and with pruning. */
#define MARKS_QUOTAS(X) \
    X(quota_refused, "a call was refused by a quota") \
    X(quota_reached, "a tenant had all that its quota allows") \
    X(why_quota, "why named a quota") \
    X(pruned, "a task was pruned") \
    X(prune_spared, "a task was spared because a dependent hasn't ended") \
    X(pruned_went_on, "a task that was pruned went on")

/* The same for worlds with change sets. */
#define MARKS_CHANGESETS(X) \
    X(set_overlaps, "a change set came behind another one on a path") \
    X(set_inherited, "a change set left its paths without having been applied, and others were behind it") \
    X(set_after_dependency, "a change set was applied after one that it depends on") \
    X(set_precursor_brought, "a change set brought a precursor") \
    X(set_approved, "a change set was applied that was approved while it waited") \
    X(set_replayed, "the same content came twice, and one change set answered for both") \
    X(set_found, "the next grant found the change set in the repository") \
    X(set_found_cancelled, "it was found after somebody had cancelled it") \
    X(set_temporary, "a change set waited for its repository") \
    X(set_skipped, "a change set was done without a commit") \
    X(set_quarantined, "a change set took its executor down three times") \
    X(set_retried, "a change set was retried") \
    X(set_pushed_out, "somebody else committed between base and commit") \
    X(set_waited, "a change set waited for the one that was being applied") \
    X(rollback_waited, "a rollback waited for a member that ran") \
    X(rollback_done, "a rollback undid applied members by one commit") \
    X(rollback_abandoned, "the waiting members of a rollback were abandoned") \
    X(rollback_failed, "a rollback failed, and its members went on") \
    X(rollback_empty, "a rollback had nothing to undo") \
    X(rollback_of_rollback, "a rollback was rolled back") \
    X(rollback_joined, "a change set that came later joined a rollback") \
    X(rollback_hup_applied, "a member was applied before its HUP") \
    X(rollback_overlapping, "a rollback took later change sets on the same paths along") \
    X(rollback_too_large, "a rollback had too many members") \
    X(set_unlooked, "a change set was lost after its commit and ended otherwise: no more is judged") \
    X(why_approval, "why named an approval") \
    X(why_rollback, "why named a rollback") \
    X(why_target, "why named a target")

enum mark {
#define X(name, text) MARK_##name,
    MARKS(X)
    MARK_ALONE_COUNT,
    MARK_alone_last = MARK_ALONE_COUNT - 1, /* the next has the number after it */
    MARKS_SERVERS(X)
    MARK_SERVERS_COUNT,
    MARK_servers_last = MARK_SERVERS_COUNT - 1,
    MARKS_QUOTAS(X)
    MARK_QUOTAS_COUNT,
    MARK_quotas_last = MARK_QUOTAS_COUNT - 1,
    MARKS_CHANGESETS(X)
#undef X
    MARK_COUNT
};

struct faults { /* in 1000 */
    unsigned lose, twice, crash_server, crash_after_commit, commit_unknown, commit_full, freeze, crash_agent,
        crash_host, clock_jump, stall, restore;
};

struct job {
    bool used, ended;
    struct fence fence;
    int64_t ends_at; /* boot ms */
    int64_t exit, signal;
    enum outcome outcome;
    struct apply { /* of a change set's job */
        struct sim_set *set;
        int64_t commit_at; /* boot ms; 0: it doesn't come to that */
        int64_t base;      /* the branch's head that it begins from */
        uint64_t undoes;   /* of a rollback: a bit a change set */
        bool blind;        /* it can't look into the repository at its end */
        bool ordered;      /* to end */
        int64_t revision;  /* what it reports; 0: none */
    } apply;
};

/* A change set, as it was submitted, and what became of it in the repository. */
struct sim_set {
    int number, repository;
    struct str csid;
    enum movetype movetype;
    int64_t prio, tai;
    unsigned files;                                   /* a bit a path */
    uint64_t depends, precursors;                     /* a bit a change set; of a rollback: what it names */
    bool needs_ticket, ticket, overlapping, approved; /* approved: somebody has sent that */
    int64_t approve_at;
    struct command *command; /* that submits it */
    int64_t task;            /* 0: nobody was told */
    int64_t revision;        /* of its commit; 0: there is none */
    int undone_by;           /* the number of the rollback whose commit undid it; -1: none */
    uint64_t undid;          /* of a rollback: what its commit undid */
    bool fixed, begun;       /* of a rollback: it has its members; an attempt has begun */
    bool undone, again;      /* this turn: it is a rollback, and is done; it went on after its end */
    uint64_t idle; /* of a rollback: what had ended otherwise than done since: retried, it goes on for itself */
};

struct sim_executor {
    int index;
    int64_t id; /* 0: not registered */
    bool down;  /* the agent; its jobs run on */
    int64_t frozen_until, slots;
    int64_t seq; /* of the poll that is open or was answered last */
    bool poll_open;
    int64_t poll_sent; /* for giving up on an answer */
    struct job jobs[JOBS_MAX];
    int64_t seen_seq;
    uint64_t seen_incarnation;
    unsigned boots, hosts; /* lives of the agent, of its host: only the former leaves its records behind */
    /* by server: the highest that its present life was given since it registered */
    int64_t server_seq[SERVERS_MAX];
    bool seq_unsure[SERVERS_MAX];        /* it may have forgotten that one: a registration of unknown outcome */
    struct command *parked[SERVERS_MAX]; /* its poll that the server keeps */
    int server;                          /* that it talks to */
    int64_t heard;                       /* boot ms of the last turn that it said something in */
    bool applies;                        /* it takes change sets */
    int64_t lease_from;                  /* boot ms at which the poll was sent that was answered last */
};

struct accepted {
    int64_t id;
    bool cancelled;
};

struct call { /* a client's enqueue, repeated with its key until it was answered */
    struct command *command;
    bool answered;
    bool once;        /* it has no key, and isn't repeated */
    int first_answer; /* the server that gave it, from 1; 0: none */
    int64_t sent;
    uint64_t crashes; /* of the server when it was sent first */
    int64_t ids[8];
    size_t n_ids;
};

struct watch { /* what the simulator knows of a task's newest grant */
    int64_t grant, executor;
    int64_t granted;                                    /* boot ms */
    bool named;                                         /* by a poll of its executor: it had arrived */
    int64_t surely[SERVERS_MAX], possibly[SERVERS_MAX]; /* boot ms at which the server last heard of it */
    int server;                                         /* that granted it */
};

struct before {
    enum task_state state, ending;
    int64_t grant;
    bool pending_first;
    unsigned holds;
};

struct passed {
    int64_t vt, bound, by[8];
};

/* What is known of the store's history. When a backup is put back it goes back with it. */
struct known {
    struct accepted accepted[TASKS_MAX];
    size_t n_accepted;
    size_t n_turns_checked;
    int64_t events_checked;
    enum task_state folded[IDS_MAX], folded_ending[IDS_MAX];
    int64_t folded_grant[IDS_MAX];
    struct watch watches[IDS_MAX];
    size_t ins_before[IDS_MAX];
    int64_t starts[IDS_MAX]; /* how often its job began */
    bool promoted[IDS_MAX];  /* by a person, and it hasn't ended since */
    bool retried[IDS_MAX];   /* its place in the order of the archive's lock is another one since */
    struct passed passed[IDS_MAX];
    bool answered[CALLS_MAX];  /* only in a backup */
    int64_t opened[LANES_MAX]; /* by lane: the revision that is due next */
    /* by schedule: the minute that fired last */
    struct fired {
        int64_t lane, slot;
        struct str task;
        bool wrong;
    } fired[FIRED_MAX];
    size_t n_fired;
};

/* A repository, or who posts revisions of an external archive. What was committed stays committed, whatever becomes of
 * the server. */
struct commit {
    int flow;
    bool told;    /* the server has answered for it */
    bool skipped; /* never told: somebody gives it up */
    bool touched; /* the paths that its workflow asks for */
    int64_t sent, cause, prev;
};
struct repository {
    const char *name;
    enum archive_kind kind;
    bool added;
    int64_t asked;                            /* boot ms */
    int64_t head;                             /* of the branch that change sets are applied to */
    struct commit commits[REVISIONS_MAX + 1]; /* by revision, from 1 */
    int64_t n;
};

struct server {
    int index;
    char name[4];
    struct engine *engine; /* NULL: it is down */
    struct memport *port;
    int64_t began, back_at, next_turn, wanted, stalled_until;
    struct command *inbox[INBOX_MAX];
    size_t n_inbox;
    unsigned renewals; /* incarnations that its present life has taken */
    size_t lapsing;    /* turns of it, one after the other, that left leases which had lapsed to the next */
    /* of several: */
    struct memport shared;
    int64_t boot_ahead, wall_ahead; /* its clocks, against the world's */
    int64_t away_until;             /* it can't reach the store */
    int64_t well_since;             /* it is up, takes its turns and reaches the store */
    uint64_t narrow_before, widened_before;
    bool overtaken;                 /* another server took a turn in the middle of its last one */
    int64_t hint_at;                /* a hint arrives; INT64_MAX: none is under way */
    int64_t seen_commit;            /* up to which it has taken over what others did, as of its last turn */
    int64_t epochs[MEM_DUTIES_MAX]; /* its own of each duty as of its last turn; 0: none */
};

/* What must not last while a server is well: since when it does. */
struct lasting {
    const char *what;
    int64_t since, about;
};

struct shared_faults { /* in 1000 */
    unsigned cut, cut_reading, answer_lost, away, hint_lost, hint_late, clock, beside;
};

struct world {
    struct choices choices;
    struct faults faults;
    struct memstore *store;
    struct server servers[SERVERS_MAX], *at; /* at: whose turn it is */
    size_t n_servers;                        /* 1: it has the store for itself */
    struct shared_faults shared_faults;
    bool clocks_differ;                /* wall clocks of servers ever did */
    int depth;                         /* turns that are in the middle of theirs, while this one is taken beside */
    bool anew;                         /* this turn's server reads everything again */
    int64_t seq_before, commit_before; /* this turn */
    unsigned looked_before;
    struct {
        int64_t commit, since;
        int server;
    } reads[READS_MAX]; /* that wait for a commit */
    size_t n_reads;
    struct lasting lasting[10];
    size_t n_lasting;
    struct {
        int64_t epoch;
        struct str holder;
    } duties[MEM_DUTIES_MAX]; /* as they were seen last */
    struct arena arena;
    int64_t boot, wall;
    struct heap mail; /* messages under way, by time of arrival */
    uint64_t n_mail;
    struct sim_executor executors[EXECUTORS_MAX];
    size_t n_executors, batch, many;
    bool flat; /* one class, one priority: fair shares can be counted */
    size_t n_sent;
    struct call calls[CALLS_MAX];
    size_t n_calls;
    struct repository repositories[REPOSITORIES_MAX];
    size_t n_repositories;
    bool looping;  /* jobs commit, and their commits start jobs */
    bool n_limits; /* limits change */
    int64_t limit; /* of the semaphore `two`, as the configuration says it now */
    bool quotas;   /* a tenant has quotas, and what is old is pruned (quotas.c) */
    int64_t open_max, running_max, prune_after;
    bool changesets; /* change sets are submitted (changesets.c) */
    /* A change set that is in the repository has ended otherwise, or a rollback has passed it over: its last attempt
     * was lost after its commit, and nobody looks then. The history ends here: what follows isn't judged. */
    bool unlooked;
    struct sim_set sets[SETS_MAX];
    size_t n_sets;
    unsigned approval;   /* 1u << MOVE_X of the move types that need a ticket */
    bool admits_due;     /* the last turn left waiters for slots to the next one */
    int64_t admits_left; /* boot ms of the last turn that did so; 0: none */
    struct {             /* a backup, and how often it was put back */
        bool taken;
        struct memstore store;
        struct known known;
        unsigned restored;
    } backup;
    struct map fences;       /* that were ever issued: by task and grant -> the incarnations */
    bool healing;            /* the faults are over: everything has to end */
    bool dies_next;          /* small worlds: the server dies after its next commit, before its answers */
    bool real;               /* behind the store in memory there is another one */
    int64_t job_ms, step_ms; /* small worlds: how long a job takes at least; how time goes by */

    /* the checker's */
    struct known known;
    struct before before[IDS_MAX]; /* this turn */
    struct attempt *attempts_before;
    size_t n_attempts_before, cap_attempts_before;
    struct hold *holds_before;
    size_t n_holds_before, cap_holds_before;
    int64_t v_now_before;
    uint64_t incarnation_before;
    struct slot *slots_before;
    size_t n_slots_before, cap_slots_before;
    bool served_before[IDS_MAX];                   /* this turn: an executor was there for the task */
    size_t unserved_turns, waking_turns;           /* turns in a row that have left something to do about that */
    bool parked_tasks;                             /* this turn put pending tasks back */
    unsigned revised;                              /* bits of lanes whose workflow may be another since this turn */
    int64_t open_before, created_red, resumed_red; /* this turn: of the tenant with quotas */
    bool resumed[IDS_MAX], pruned_before[IDS_MAX];
    uint64_t hash; /* of the store, folded every 64 turns */

    uint64_t n_turns, n_commands, n_crashes, n_lost, n_grants, n_effective, n_late, n_reruns_late, n_why,
        n_why_conditions;
    uint64_t marks[MARK_COUNT];
    bool trace;
    void (*on_fail)(struct world *world, const char *invariant, int64_t task); /* before the process is given up */
};

#define MARK(world, name) ((world)->marks[MARK_##name]++)

void world_open(struct world *world, bool trace);
void world_run(struct world *world); /* faults, then healing; a violated invariant aborts the process with its name */
void world_close(struct world *world);
void world_step(struct world *world);
void world_finish(struct world *world);                       /* the second half of world_run */
void mail_hasten(struct world *world, struct server *server); /* a few of what is under way to it come now */
void mail_lose(struct world *world);                          /* all that is under way */
void mail_hold(struct world *world, int64_t ms);
void mail_double(struct world *world, int64_t ms); /* polls under way come once more, later */
void executor_die(struct world *world, struct sim_executor *executor, bool host);
void world_fail(struct world *world, const char *invariant, int64_t task) __attribute__((noreturn));
void trace(struct world *world, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
extern const char *const mark_texts[MARK_COUNT];
extern const char *const mark_names[MARK_COUNT];

/* world.c: the server's side. */
/* from an executor: to its server; else to any */
void send_command(struct world *world, struct command *command, int from);
void send_to(struct world *world, struct command *command, int from, int server);
struct command *command_new(struct world *world, enum command_kind kind);
void server_start(struct world *world);
void server_crash(struct world *world);
void server_turn(struct world *world);
bool server_up(const struct world *world); /* any */

/* servers.c: several servers on one store. */
bool several(const struct world *world);
void servers_open(struct world *world, size_t n);
void servers_step(struct world *world);  /* lives, clocks, connections */
void servers_turns(struct world *world); /* of those that want one */
void servers_heal(struct world *world);
int server_choose(struct world *world); /* for a client's call */
void turn_before(struct world *world);  /* faults of the turn */
void turn_after(struct world *world, struct command **commands, size_t n, bool ok);
/* -1: nobody thinks that it has it */
void duty_under(struct world *world, struct command *command, enum duty_kind duty, int *out_server);
/* the server whose turn it is has it, and had it before the turn */
bool duty_acted(const struct world *world, enum duty_kind duty);
bool duty_had(const struct world *world, enum duty_kind duty); /* it has it */
void read_begin(struct world *world, int64_t commit, int from);

/* stores.c: a real store behind the one in memory. */
void stores_open(struct world *world);
void stores_close(struct world *world);

/* caches.c: what a server keeps in memory is what the store has. */
void check_caches(struct world *world);
void admits_note(struct world *world, bool plain); /* after a turn: did it leave waiters for slots to another one? */
/* the other has ended, and the waiter doesn't know yet */
bool edge_untold(const struct world *world, const struct edge *edge);
int64_t tells_left(const struct world *world); /* a task that has ended without all who wait for it knowing; 0: none */
bool admits_are_left(const struct world *world); /* it did, and that one may not have come yet */

/* clients.c */
void clients_step(struct world *world);
void client_answer(struct world *world, struct command *command);
void call_new(struct world *world, struct command *command); /* it is repeated until it is answered */
bool clients_answered(const struct world *world);
void lanes_open(struct world *world);

/* archives.c: repositories and those who tell of them. */
/* of commands; above: calls, executors */
enum { OWNER_ORDER = -1 - CALLS_MAX, OWNER_ARCHIVE = -1000, OWNER_REVISION = -2000 };
void repositories_open(struct world *world);
void repositories_step(struct world *world);
void repository_answer(struct world *world, struct command *command);
bool repositories_told(const struct world *world);
void job_commits(struct world *world, int64_t task);                     /* a job of an archive makes a revision */
void archive_commit(struct world *world, int repository, int64_t cause); /* a change set was applied */
const struct definition *flow_definition(int flow);                      /* NULL: none */
const char *flow_tasks(int flow);                                        /* names of what a commit creates */
struct repository *repository_of(struct world *world, int64_t lane);     /* NULL: a queue */
struct command *run_command(struct world *world); /* somebody runs a task by hand; NULL: there is no archive */

/* quotas.c: a tenant with quotas, and pruning (--quotas). */
void quotas_open(struct world *world);
void quotas_step(struct world *world);
void red_tasks_choose(struct world *world, struct command *command); /* tasks of an enqueue */
void prune_answer(struct world *world, const struct command *command);
struct conf_tenants tenants_conf(struct world *world);
bool task_is_red(const struct world *world, int64_t id);
/* of the tenant's running tasks; 0: they aren't limited */
int64_t running_slot(const struct world *world, int64_t lane);
void quotas_created(struct world *world, const struct task *task);
void quotas_resumed(struct world *world, int64_t id);
void quotas_before(struct world *world);
void quotas_after(struct world *world, struct command **commands, size_t n, bool plain);

/* changesets.c: submitters, repositories and executors of change sets (--changesets). */
struct conf_changesets changesets_conf(const struct world *world);
void changesets_open(struct world *world);
void changesets_step(struct world *world);
void changeset_answer(struct world *world, const struct command *command);
struct sim_set *set_of_task(struct world *world, const struct task *task);
void apply_begin(struct world *world, struct sim_executor *executor, struct job *job, const struct grant *grant);
void apply_step(struct world *world, struct sim_executor *executor, struct job *job);
void apply_end(struct world *world, struct job *job); /* it ends now: what will it report? */

/* changesets_check.c: what must hold of them. */
void check_commit(struct world *world, const struct sim_executor *executor, const struct job *job);
void changeset_start(struct world *world, const struct task *task); /* told by the fold of events */
void changeset_end(struct world *world, const struct task *task, const struct event *event);
void changeset_again(struct world *world, const struct task *task); /* it goes on after its end */
void check_changesets(struct world *world);
void changesets_over(struct world *world); /* everything has ended */
/* set_members: what the rollback names and what depends on that, a bit a change set. Without `most` what had ended by
 * itself isn't counted: retried, it goes on for itself. With it what comes later on the same paths is, if the rollback
 * takes that, too. */
uint64_t set_members(struct world *world, const struct sim_set *rollback, bool most);

/* backup.c: a backup is taken, and put back while executors of the time between report. */
void backup_step(struct world *world);
void backup_close(struct world *world);
bool executor_full(const struct world *w, const struct executor *row); /* watch.c */
void fence_issue(struct world *world, int64_t task, int64_t grant);
void mail_forget(struct world *world); /* what clients and servers have said to each other is gone */

/* revisions.c: what must hold of archives. */
void check_archives(struct world *world);
void check_begin(struct world *world, const struct task *task); /* it starts, or is done with nothing to run */
void check_again(struct world *world, const struct task *task); /* it was retried */
void check_scheduled(struct world *world, const struct event *event);
void check_schedules(struct world *world); /* after a turn that went well */
void check_limits(struct world *world, struct command **commands, size_t n);

/* executors.c */
void executors_step(struct world *world);
void executor_answer(struct world *world, struct command *command);

/* check.c: what must hold in the store after every turn. */
void check_store(struct world *world);
void store_fold(struct world *world);

/* watch.c: what a turn may do, seen from before and after. */
void watch_before(struct world *world);
/* plain: its commit went well at once */
void watch_after(struct world *world, struct command **commands, size_t n, bool plain);
void watch_anew(struct world *world); /* nobody could be heard until now */
void watch_start(struct world *world, const struct sim_executor *executor, struct fence fence);
const struct attempt *store_attempt(const struct world *world, int64_t task, int64_t grant);
bool lane_shut(const struct world *world, int64_t lane);
/* a change set of the same target is being applied */
bool target_busy(const struct world *world, const struct task *task);
const struct task *store_task(const struct world *world, int64_t id);
/* class_of: its task's class; one that has gone, since no task of it was pending, as it will be again. NULL: there is
 * nothing to run. */
const struct task_class *class_of(const struct world *world, const struct task *task, struct arena *arena);
bool executor_fits(const struct world *world, const struct sim_executor *executor, const struct task *task);
struct sim_executor *executor_of(struct world *world, int64_t id);

/* served.c: slots are for tasks that somebody can start. */
bool task_served(struct world *world, const struct task *task);
int64_t unserved_holds(struct world *world);
int64_t served_waits(struct world *world);
void served_before(struct world *world);
void check_served(struct world *world, struct command **commands, size_t n);

/* reasons.c: why, checked. */
void check_why(struct world *world);

#endif
