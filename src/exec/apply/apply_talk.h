/* apply_talk: what `weir apply` asks the server, with the job's own token. Calls block. A failure is temporary (the
 * server doesn't answer, or says so) or not (apply_talk_is_temporary); stale_fence: the grant is another's now, and
 * nothing may be committed any more. */
#ifndef WEIR_EXEC_APPLY_TALK_H
#define WEIR_EXEC_APPLY_TALK_H

#include "base/err.h"

struct apply_talk {
    const char *server, *token, *fence, *task;
};

/* talk_tarball: the tarball of the change set into fd, which is empty; more than `most` bytes are refused. */
bool talk_tarball(const struct apply_talk *talk, struct str csid, int64_t most, int fd, struct err *err);

/* talk_base: the base is recorded: durable when this returns true. */
bool talk_base(const struct apply_talk *talk, struct str base, struct err *err);

bool talk_is_temporary(const struct err *err);

#endif
