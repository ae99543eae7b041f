/* workflow: what the workflow files of one revision say, as plain values; made by text/workflow, read by expand, plan
 * and the engine.
 *
 * All files of a revision share one namespace. Every list and view lives as long as the arena that the workflow was
 * read into. A value that nobody gave is the default named here. Each task, reference and schedule knows where it was
 * written. */
#ifndef WEIR_CORE_WORKFLOW_H
#define WEIR_CORE_WORKFLOW_H

#include "core/model.h"

#define WORKFLOW_TASKS_MAX 5000  /* of a revision */
#define WORKFLOW_FILES_MAX 1000  /* of a revision */
#define WORKFLOW_REFS_MAX 200000 /* references of a revision, those of the `workflow` shorthand included */

struct workflow_place {
    struct str file;
    unsigned line, column; /* from 1 */
};

struct workflow_words {
    struct str *items;
    size_t n;
};

enum workflow_on { WORKFLOW_ON_DEFAULT, WORKFLOW_ON_SUCCESS, WORKFLOW_ON_FINISHED, WORKFLOW_ON_COUNT };

struct workflow_ref {
    struct str name;    /* PREV alone: the name of the task that it stands in */
    struct str variant; /* NAME[os=a]: "os=a"; empty: all */
    bool prev;          /* the task of the latest earlier revision that has it */
    enum workflow_on on;
    struct workflow_place place;
};

struct workflow_refs {
    struct workflow_ref *items;
    size_t n, cap;
};

struct workflow_pairs { /* env, labels */
    struct label *items;
    size_t n, cap;
};

struct workflow_cron {         /* minutes: of schedule, freeze, window */
    struct str cron, timezone; /* timezone empty: UTC */
    struct workflow_place place;
};

struct workflow_crons {
    struct workflow_cron *items;
    size_t n;
};

struct workflow_axis { /* of a matrix */
    struct str name;
    struct workflow_words values;
};

struct workflow_matrix {
    struct workflow_axis *axes;
    size_t n_axes;
    struct workflow_pairs *exclude, *include;
    size_t n_exclude, n_include;
};

enum { TRIGGER_COMMIT = 1, TRIGGER_MANUAL = 2, TRIGGER_SCHEDULE = 4, TRIGGER_MESSAGE = 8 };
enum workflow_lock { WORKFLOW_LOCK_NONE, WORKFLOW_LOCK_SHARED, WORKFLOW_LOCK_EXCLUSIVE, WORKFLOW_LOCK_COUNT };
enum workflow_sandbox { WORKFLOW_SANDBOX_NONE, WORKFLOW_SANDBOX_STRICT, WORKFLOW_SANDBOX_COUNT };

struct task_limits { /* 0: none */
    int64_t memory_bytes, pids, cpu_ms, files, file_bytes, disk_bytes;
};

struct
    workflow_reserved { /* keys of a later version (KEY_POLICY in text/task_doc.def): read and checked, then refused */
    bool collapse;
    struct str directory;
    struct workflow_matrix matrix;
    struct workflow_refs blocked_by; /* names only */
    struct workflow_crons freeze, window;
};

/* What a task says, in a workflow or posted. */
struct workflow_task {
    struct str name;
    struct workflow_place place;
    struct str queue; /* posted ones */
    struct workflow_refs depends, after, cancels;
    struct str image;
    struct workflow_words command; /* split already; n 0: none */
    struct str script;             /* ptr NULL: none */
    struct str shell;              /* empty: the executor's default */
    struct str data;               /* JSON text; empty: none */
    bool checkout;                 /* default true */
    struct workflow_pairs env, labels;
    int64_t timeout_ms; /* 0: none */
    int64_t grace_ms;   /* default -1: the executor's */
    struct task_limits limits;
    int64_t not_before;               /* 0: none */
    int64_t attempts_max, backoff_ms; /* defaults 3 and 5000 */
    unsigned retry_on;                /* RETRY_ bits; default lost, temporary, killed */
    enum workflow_lock lock;
    struct workflow_words paths;
    int64_t priority;
    struct str zone;
    struct workflow_words semaphores, artifacts;
    struct workflow_crons schedule;
    /* TRIGGER_ bits; default commit, with `schedule` alone: schedule; 0: only with what it depends on */
    unsigned triggers;
    struct workflow_words messages; /* names, of on: {message: NAME} */
    /* detached, or its own `on` or `schedule` leaves commits out: no run of another task brings it along */
    bool starts_alone;
    bool detached, allow_failure;
    enum workflow_sandbox sandbox;
    struct str unique, concurrency;
    struct workflow_reserved reserved;
};

struct workflow_semaphore {
    struct str name;
    int64_t limit;
    struct workflow_place place;
};

struct workflow {
    struct workflow_task *tasks; /* in the order of files and lines; COMMIT isn't among them */
    size_t n_tasks, cap_tasks;
    struct workflow_task commit; /* what was added to COMMIT (`depends`); name empty: nothing */
    struct workflow_semaphore *semaphores;
    size_t n_semaphores, cap_semaphores;
};

/* workflow_find: by name; NULL: none. Linear: many lookups go through a table of the caller's own. */
const struct workflow_task *workflow_find(const struct workflow *workflow, struct str name);

/* workflow_template_fill: `unique` and `concurrency` with their {archive} (or {queue}), {rev}, {name} and {variant}
 * filled in; what else stands in braces is left as it is (the reader has refused it). rev: empty for a queue's task. */
struct str workflow_template_fill(
    struct arena *arena, struct str template, struct str lane, struct str rev, struct str name);

#endif
