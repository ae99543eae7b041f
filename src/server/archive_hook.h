/* archive_hook: the hook of a local repository, put there and taken away by the command line, whose user may write to
 * the repository.
 *
 * Nothing here fails a command: an archive without its hook is followed all the same, only later by up to a second.
 * What could not be done is reported, with the lines that a person can put there. */
#ifndef WEIR_SERVER_ARCHIVE_HOOK_H
#define WEIR_SERVER_ARCHIVE_HOOK_H

#include "cli/session.h"

/* archive_hook_early: before the archive is posted, since the first job of its history may commit before the answer is
 * here, and only the hook knows which job committed. wanted: the document that will be posted; gets "notify", the
 * server's socket. Prints nothing: archive_hook_install does so after the answer, and writes the branch that the server
 * found. true: the hook is new; if the archive isn't added after all, archive_hook_remove takes it away. A hook that
 * has the archive's name already is left as it is. */
bool archive_hook_early(struct session *session, json_t *wanted);
/* archive: as the server showed it. */
void archive_hook_install(struct session *session, const json_t *archive);
void archive_hook_remove(struct session *session, const json_t *archive);
/* archive_hook_state: "installed: NAMES", "not installed", or "" when it can't be known here. In the arena. */
const char *archive_hook_state(struct session *session, const json_t *archive);

#endif
