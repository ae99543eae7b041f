/* local: the parts of `weir local`.
 *
 * One run is a folder of its own that only its user may enter (0700) and three processes: the one that was called
 * (options, picture, end), the house (store, engine and api behind a unix socket in that folder) and an executor.
 * Nothing listens anywhere else. When the first one ends, in whatever way, the others end, their jobs end, and the
 * folder goes. */
#ifndef WEIR_SERVER_LOCAL_H
#define WEIR_SERVER_LOCAL_H

#include <sys/types.h>

#include "cli/options.h"
#include "engine/definition.h"

struct local {
    struct arena arena;
    struct options options;
    const char *root;   /* DIR, absolute: where the tasks run */
    struct str archive; /* its name in keys */
    const char *folder; /* of this run */
    const char *socket; /* in it */
    int64_t slots;
    struct definition *definition;
    pid_t house, executor; /* 0: not started, or ended */
    int go;                /* closing it lets the executor begin */
};

#define LOCAL_REV 1

/* local_select: marks what is to be made of the definition: what --task names and what that depends on; without --task
 * what a commit would make. false: a name isn't there, which was reported. *out_n: how many tasks. */
bool local_select(struct local *local, size_t *out_n);
/* local_settle_in: tasks that would work in a checkout work in the root itself; zones, labels and schedules don't count
 * here. */
bool local_settle_in(struct local *local, struct err *err);

/* local_house: the house's whole life, in its process; a byte on `ready` when the revision's tasks are there and the
 * socket answers. */
int local_house(const struct local *local, int ready);

/* local_view: follows the run until everything has ended, a signal came or a part died; the exit code. */
int local_view(struct local *local);

/* local_remove: the folder and all in it. */
void local_remove(const char *folder);

#endif
