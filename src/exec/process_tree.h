/* process_tree: finds the descendants of a process by a walk through /proc, and sends signals to them. (The kernel's
 * own list of children needs an option that not every kernel has.)
 *
 * A walk is a snapshot taken while processes fork and exit. A caller that must be sure repeats it until waitpid reports
 * that no child is left. */
#ifndef WEIR_EXEC_PROCESS_TREE_H
#define WEIR_EXEC_PROCESS_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* process_tree_signal: sends signo to every descendant of root, except to the members of process group `spare` (0:
 * none), which the caller has signalled already. Returns how many were signalled. */
size_t process_tree_signal(pid_t root, int signo, pid_t spare);

/* process_tree_has_hook: is one of root's descendants a repository's commit hook, or the `weir notify` that our hooks
 * start? */
bool process_tree_has_hook(pid_t root);

/* process_tree_kill_marked: KILLs every process with WEIR_FENCE=fence in its environment, until a walk finds none. The
 * agent calls it for the job of a dead shim. false: some still lived after about two seconds. */
bool process_tree_kill_marked(const char *fence);

/* process_tree_kill_strays: KILLs the children of this process that aren't in `known`: the agent is a subreaper, so the
 * processes of a dead shim become its children. */
void process_tree_kill_strays(const pid_t *known, size_t n);

#endif
