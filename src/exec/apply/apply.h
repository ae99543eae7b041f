/* apply: the program `weir apply`: a change set becomes a commit of its target. The shim runs it as it runs any job, in
 * an empty folder, with the order in WEIR_INPUT.
 *
 * The work is done by a child (apply_work.h), which a signal or a crash may end at any moment. Then we look whether the
 * change set is in the repository before we end: a change set that is there is done, whatever was ordered. Ends: 0 with
 * `revision` in WEIR_OUTPUT; 99: nothing was to be done; 100: it can't be applied; 111: later; by the signal that it
 * got: it isn't in the repository. Why stands in WEIR_REASON. */
#ifndef WEIR_EXEC_APPLY_H
#define WEIR_EXEC_APPLY_H

int apply_main(void);

#endif
