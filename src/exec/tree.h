/* tree: the descendants of a process, found by a walk through /proc (this kernel lists no children otherwise), and
 * signals to them.
 *
 * A walk is a picture taken while processes come and go: whoever must be sure repeats it until the kernel says that no
 * child is left. */
#ifndef WEIR_EXEC_TREE_H
#define WEIR_EXEC_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* tree_signal: sends signo to every descendant of root, except to the members of group `spare` (0: none), which had it
 * already. Returns how many were signalled. */
size_t tree_signal(pid_t root, int signo, pid_t spare);

/* tree_has_hook: is one of root's descendants a commit hook of a repository, or the `weir notify` that such a hook
 * starts? */
bool tree_has_hook(pid_t root);

/* tree_kill_marked: KILLs every process whose environment says WEIR_FENCE=fence, until a walk finds none; for the jobs
 * of a shim that is dead itself. false: some were still there after about two seconds. */
bool tree_kill_marked(const char *fence);

/* tree_kill_strays: KILLs the children of this process that aren't in `known`; what a dead shim leaves to its reaper.
 */
void tree_kill_strays(const pid_t *known, size_t n);

#endif
