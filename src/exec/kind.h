/* kind: how a task becomes a process: a port with one operation and three backends, `shell` (command or script on the
 * host), `container` (an image, through podman or docker) and `apply` (a change set, by this program).
 *
 * The kind gets the task's spec as the server sent it and fills in argv and environment; everything after that
 * (spawn, limits, log, end) is the same for all. To add a kind: write kind_NAME.c with a struct kind, add it to
 * the table in kind.c. */
#ifndef WEIR_EXEC_KIND_H
#define WEIR_EXEC_KIND_H

#include <jansson.h>

#include "exec/job.h"

/* Where a job runs, and what this executor gives every job. */
struct place {
    const char *dir;    /* absolute: DIR/shims/N, with work/ and io/ */
    const char *server; /* for WEIR_SERVER */
    const char *path, *lang;
    const char *container;                /* podman or docker; NULL: none was found */
    const char *const *container_options; /* between `run` and the image; NULL: none */
    char **environ;                       /* the executor's own, for the container program */
    uint64_t log_bytes_max;
    int64_t grace_ms;
    bool apply; /* this executor applies change sets */
};

struct environment { /* NAME=VALUE strings in an arena; a later value of a name replaces the earlier */
    struct arena *arena;
    char **list;
    size_t n, cap;
};
bool environment_put(struct environment *env, struct str name, struct str value);

struct kind {
    const char *name;
    const char *home, *io; /* paths as the job sees them; NULL: the host's, beneath place->dir */
    bool (*fits)(const json_t *spec);
    /* prepare: env is complete; fills argv, envp, script, container, or refusal and refusal_exit. */
    void (*prepare)(const json_t *spec, const struct place *place, struct environment *env, struct job *job);
};
extern const struct kind kind_shell, kind_container, kind_apply;

/* kind_job: a grant's spec as a job. Never fails: a spec that can't be run becomes a job with a refusal. Strings live
 * in the arena. */
void kind_job(const json_t *spec, int64_t task, struct str fence, const struct place *place, struct arena *arena,
    struct job *out);

/* What the kinds need. kind_argv: the spec's command as argv, behind n_head free places; NULL: it has none, or a word
 * of it has a NUL. kind_text: a member that is a text; empty: it isn't there. */
char **kind_argv(const json_t *spec, struct arena *arena, size_t n_head);
struct str kind_text(const json_t *spec, const char *key);

#endif
