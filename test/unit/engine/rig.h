/* rig: an engine on a real store in a temp folder, driven turn by turn on virtual time: no thread, no socket, no
 * waiting. */
#ifndef WEIR_TEST_RIG_H
#define WEIR_TEST_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "engine/engine.h"

struct rig {
    char dir[64];
    struct store *store;
    struct engine *engine;
    struct arena arena;
    int64_t wall, boot, next;
    struct conf_semaphore semaphores[4];
    size_t n_semaphores;
    const char *url, *name;     /* set before rig_open; NULL: SQLite in dir, "rig" */
    int64_t keys_ms, silent_ms; /* likewise */
    size_t batch;               /* set before rig_open; 0: as in the server */
    const char *under;          /* the folder of dir, likewise; NULL: /tmp */
    struct list answered;       /* of the last turn */
};

void rig_open(struct rig *rig);
/* rig_database: a new database of that name on the server that test/lib/postgres.py has started; its URL.
 * rig_database_ask: what the statement answers, its first number. */
void rig_database(const char *name, char *out_url, size_t n);
int64_t rig_database_ask(const char *url, const char *statement);
/* a second engine, with a data directory of its own, on the store of the first */
void rig_join(struct rig *rig, const struct rig *first);
void rig_close(struct rig *rig);
void rig_restart(struct rig *rig);          /* a new engine on the same store */
void rig_pass(struct rig *rig, int64_t ms); /* time goes by, then a turn without commands */

struct command *rig_new(struct rig *rig, enum command_kind kind);
void rig_turn(struct rig *rig, struct command **commands, size_t n);
struct command *rig_one(struct rig *rig, struct command *command); /* a turn with this command alone */

/* Text forms: "name kind=command depends=0,1 after=#12 cancels=0 prio=5 sem=a,b conc=k unique=u attempts=2 on=failed
 * label=os:x at=MS" */
struct command *rig_enqueue_command(struct rig *rig, const char *const *tasks, size_t n);
int64_t rig_enqueue(struct rig *rig, const char *const *tasks, size_t n); /* must be taken; id of the first */
#define ENQUEUE(rig, ...) \
    rig_enqueue(rig, (const char *const[]){ __VA_ARGS__ }, \
        sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(const char *))

int64_t rig_executor(struct rig *rig, const char *name, const char *label);
struct command *rig_poll_command(
    struct rig *rig, int64_t executor, int64_t free, int64_t seq, const struct fence *renew, size_t n_renew);
struct command *rig_poll(struct rig *rig, int64_t executor, int64_t free); /* wait 0, no seq, nothing renewed */
enum err_code rig_finish(struct rig *rig, struct fence fence, int64_t exit, int64_t signal);
struct task rig_task(struct rig *rig, int64_t id);
char rig_state(struct rig *rig, int64_t id);
uint64_t rig_incarnation(struct rig *rig);                        /* the store's */
const char *rig_states(struct rig *rig, int64_t first, size_t n); /* letters of ids first.. */
enum err_code rig_order(struct rig *rig, enum command_kind kind, int64_t task);
void rig_pause(struct rig *rig, const char *lane, bool pause);
struct fence rig_granted(const struct command *poll); /* the one grant that the poll got */

/* How large the largest turn was: events, rows that it had in memory, memory. rig_follow: turns without commands as
 * long as something is due; `seq` is where the first of those that are measured began. rig_not_larger: N and 4N; fails
 * when a turn has grown with them. */
struct rig_largest {
    int64_t events;
    size_t nodes, bytes;
};
struct rig_largest rig_follow(struct rig *rig, int64_t seq);
void rig_not_larger(const char *what, const struct rig_largest *small, const struct rig_largest *large);

#endif
