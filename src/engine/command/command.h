/* command: a function for each kind of command, and what they share. Each either refuses (false; why
 * is in command->err) or changes the slice; the table is in turn.c. */
#ifndef WEIR_ENGINE_COMMAND_COMMAND_H
#define WEIR_ENGINE_COMMAND_COMMAND_H

#include "base/heap.h"
#include "base/list.h"
#include "engine/state.h"

enum {
    GRANTS_MAX = 1000,      /* of one poll */
    NEED_BYTES = 512,       /* about, of a dependency in a grant without its outputs */
    GRANTS_MANY = 64,       /* unless the configuration says otherwise */
    NEAR_MAX = 8,           /* numbers of tasks */
    POLLS_TOGETHER_MS = 64, /* a power of two: long polls end in step */
};

bool command_enqueue(struct turn *turn, struct command *command);
bool command_cancel(struct turn *turn, struct command *command);
bool command_retry(struct turn *turn, struct command *command);
bool command_promote(struct turn *turn, struct command *command);
bool command_lane_pause(struct turn *turn, struct command *command);
bool command_executor_state(struct turn *turn, struct command *command);
bool command_token_create(struct turn *turn, struct command *command);
bool command_token_revoke(struct turn *turn, struct command *command);
bool command_register(struct turn *turn, struct command *command);
bool command_poll(struct turn *turn, struct command *command);
bool command_finish(struct turn *turn, struct command *command);
bool command_archive_add(struct turn *turn, struct command *command);
bool command_archive_remove(struct turn *turn, struct command *command);
bool command_archive_skip(struct turn *turn, struct command *command);
bool command_revision(struct turn *turn, struct command *command);
bool command_cause(struct turn *turn, struct command *command);
bool command_run(struct turn *turn, struct command *command);
bool command_prune(struct turn *turn, struct command *command);
bool command_log_grown(struct turn *turn, struct command *command);
bool command_site(struct turn *turn, struct command *command);
bool command_note(struct turn *turn, struct command *command);
bool command_changeset(struct turn *turn, struct command *command);
bool command_approve(struct turn *turn, struct command *command);
bool command_outputs(struct turn *turn, struct command *command);
bool command_rollback_plan(struct turn *turn, struct command *command);

/* enqueue.c: what revisions make tasks with, too. enqueue_fill: the answer, when the turn is decided */
void enqueue_fill(struct turn *turn, struct command *command);
struct node *task_make_of(struct turn *turn, struct str tenant, const struct task_def *def, const struct task *like,
    const struct because *because);
struct node *unique_find(struct turn *turn, struct str tenant, struct str key);
/* in the history of the task that has the key */
void unique_tell(struct turn *turn, struct node *node, struct str actor, struct str asked);
void edge_make(struct turn *turn, struct node *node, struct node *other, enum edge_kind kind, unsigned flags,
    struct node **doomed_by);

/* operate.c */
void lanes_resume(struct turn *turn); /* returns a batch of parked tasks of resumed lanes */

/* outputs.c. outputs_of: as of this turn; empty: none. outputs_finish: to those of a finish join those that the attempt
 * told while it ran; outputs_keep: what the finish brings is kept. */
#define BASE_NONE "none" /* the base of a change set on a branch that has no commit yet */
struct str outputs_of(struct turn *turn, const struct task *row);
void outputs_finish(struct turn *turn, struct node *node, struct finish_item *item);
void outputs_keep(struct turn *turn, struct node *node, const struct finish_item *item);

/* finish.c */
void finish_items(struct turn *turn, const struct command *command, struct finish_item *items, size_t n);

/* prune.c */
void prune_follow(struct turn *turn); /* logs go after the commit */

/* parked polls: those that wait for work */
struct polls {
    struct heap due;    /* by deadline: a turn visits those that are due, not all */
    struct list parked; /* oldest first */
    bool left;          /* the last turn parked pending tasks: parked polls are tried again at once */
    uint64_t looks;     /* polls handled so far */
};

/* register.c. executor_owned: may the command speak for it? An executor is its token's (decision 0019). */
bool executor_owned(const struct executor *executor, const struct command *command);
/* after a new incarnation: executors can't name their grants any more, whose jobs may have begun */
void grants_forget(struct turn *turn);
void register_commit(struct engine *engine, const struct command *command); /* the executor's records are remembered */

struct active_grant;

/* grant.c. grant_absent: the poll doesn't name this grant of its executor */
void grant_make(struct turn *turn, struct known_executor *known, struct command *poll, struct node *node);
void grant_absent(struct turn *turn, struct known_executor *known, struct command *poll, struct active_grant *live);

void claims_run(struct turn *turn); /* claim.c: gives pending tasks to the polls of this turn and to parked ones */

/* poll.c */
void poll_cancel(struct turn *turn, struct command *poll, const struct attempt *attempt, enum task_state ending);
void poll_answer(struct turn *turn, struct command *poll);
/* answers the polls that have news or are due; parks the others */
void polls_settle(struct turn *turn);
void polls_commit(struct turn *turn); /* after the commit: parks polls, remembers the numbers of answered ones */
/* commands and parked polls are as before the turn */
void commands_undo(struct engine *engine, struct command **commands, size_t n);
void polls_release(struct engine *engine, struct list *out); /* all, with empty answers (shutdown) */
int64_t polls_deadline(struct engine *engine);

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

#endif
