/* checkout: the first step of a job that wants its archive's files: a process of its own that takes the tree from the
 * cache (tree_cache.h) and makes a view of it that the job may write to and no other job sees.
 *
 * A view is an overlay mount over the shared tree, in a mount namespace of its own (with a user namespace where we
 * aren't root), or a copy in work/ where the kernel gives us no overlay or the job's container program needs plain
 * folders. The namespace lives by the descriptors that the process sends to the shim, and vanishes with them, however
 * the shim ends.
 *
 * A checkout that fails prints why, in a line for the job's log, sends it to the shim, and ends with CHECKOUT_FAILED or
 * CHECKOUT_NEVER. */
#ifndef WEIR_EXEC_CHECKOUT_H
#define WEIR_EXEC_CHECKOUT_H

#include "exec/job.h"

/* CHECKOUT_NEVER: the revision itself is the reason, so every attempt would fail */
enum { CHECKOUT_FAILED = 75, CHECKOUT_NEVER = 76 };

struct view {              /* -1: none */
    int work_fd;           /* the working directory inside */
    int mount_fd, user_fd; /* namespaces to enter */
    int lock_fd;           /* of the tree */
};
#define VIEW_NONE ((struct view){ -1, -1, -1, -1 })

/* checkout_main: in a child of the shim; out: where the view is sent. Returns the exit status. */
int checkout_main(const struct job *job, int dir_fd, const char *dir, int out);
/* checkout_receive: the view that the child sent; false: none, so the files are in work/, or it failed and reason says
 * why. */
bool checkout_receive(int in, struct view *out, char *reason, size_t size);
void view_close(struct view *view);

/* namespace_user: enters a new user namespace that maps our user to itself, with every right in it; for executors that
 * don't run as root. Returns 0, or errno. */
int namespace_user(void);

#endif
