/* hook: our lines in a local repository's hooks (Subversion: post-commit, git: post-receive), and the hook that was there before.
 *
 * Ours is a file of its own that first runs the one that was there (kept beside it as NAME.before-weir, mode and bytes as they were) with
 * the same arguments and input, and then calls weir in the background with its output closed: a commit is neither delayed (a job's own:
 * for as long as weir notify takes) nor failed by us, and the hook's output and exit status are the other one's. Several archives may
 * stand in one hook, a line each. Removing the last one puts back what was there, byte for byte. Files are replaced as a whole: a commit
 * at the same time sees the old hook or the new one.
 *
 * Failures: invalid (a served repository has no hooks here; the hook is a folder; somebody changed ours), io. */
#ifndef WEIR_SOURCE_HOOK_H
#define WEIR_SOURCE_HOOK_H

#include "source/source.h"

/* hook_install: the line calls PROGRAM notify ARCHIVE REV --txn TXN OPTIONS... (svn) or PROGRAM notify ARCHIVE HEAD OPTIONS... (git);
 * program and options ("--server", "unix:...") are words, quoted here. The environment is passed on, WEIR_KEY in it; Subversion gives
 * its hooks none, so there WEIR_KEY is taken from the process that commits. Again for the same archive: its line is replaced. out_path
 * (may be NULL): the hook's file, in the arena. */
bool hook_install(enum archive_kind kind, const char *repository, struct str archive, struct str program, const struct str *options,
                  size_t n_options, struct arena *arena, const char **out_path, struct err *err);

/* hook_remove: an archive that has no line there is fine. */
bool hook_remove(enum archive_kind kind, const char *repository, struct str archive, struct err *err);

/* hook_is_installed: whether the archive has its line. */
bool hook_is_installed(enum archive_kind kind, const char *repository, struct str archive, bool *out, struct err *err);

#endif
