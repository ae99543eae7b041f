/* hand_changes: what other processes do in the projected directories, as inotify says.
 *
 * Our own renames are seen, too: an entry is right, and nobody is asked, if it stands in one directory, is ours, says
 * the state of that directory, and has a time of change as we set it (whole milliseconds). */
#ifndef WEIR_SPOOL_HAND_CHANGES_H
#define WEIR_SPOOL_HAND_CHANGES_H

#include "spool/follower.h"

struct hand_changes {
    int fd; /* to be polled; -1: there is no inotify: the next start puts right what was changed */
    int wds[FOLDER_COUNT];
};

void hand_changes_open(struct hand_changes *out, const struct folders *folders);
void hand_changes_close(struct hand_changes *changes);

/* hand_changes_take: reads what has happened and puts it right. false: not all of it; what is left is found by the
 * repair, which has been asked for. */
bool hand_changes_take(struct hand_changes *changes, struct follower *follower, struct err *err);

#endif
