/* apply_work: the work of one attempt, in a process that may be killed at any moment: what it learns is told to its
 * parent through a pipe before it is relied on. */
#ifndef WEIR_EXEC_APPLY_WORK_H
#define WEIR_EXEC_APPLY_WORK_H

#include "exec/apply/apply_order.h"
#include "exec/apply/apply_talk.h"

/* How an attempt ends. From here on they are exit statuses, too. */
enum apply_exit { APPLY_DONE = 0, APPLY_FAILED = 1, APPLY_SKIPPED = 99, APPLY_NEVER = 100, APPLY_LATER = 111 };

/* A line each on the pipe, shorter than PIPE_BUF, so that none is torn. */
#define TELL_BASE 'b'     /* the base that is about to be recorded */
#define TELL_REVISION 'r' /* the change set is in the repository */
#define TELL_REASON 'w'   /* why it ended so */
#define TELL_PROGRAM 'p'  /* a configured program runs now */
#define TELL_SIGNAL 's'   /* it ended by this signal */
enum { TELL_BYTES_MAX = 1000 };

struct apply_work {
    const struct apply_order *order;
    struct apply_talk talk;
    int tell_fd;
    struct arena *arena;
};

/* work_run: the exit status. */
int work_run(struct apply_work *work);

/* work_find: is the change set in the repository, behind `base`? */
bool work_find(const struct apply_order *order, struct arena *arena, struct source_ident base, bool *out_found,
    struct source_ident *out, struct err *err);

void work_tell(const struct apply_work *work, char what, struct str text);

/* apply_program.c. program_run: a target's own program. */
int program_run(struct apply_work *work, const char *cs_dir);

#endif
