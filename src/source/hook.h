/* hook: our lines in a local repository's hooks (Subversion: post-commit; git: post-receive, and in an ordinary
 * repository also post-commit, post-merge, post-rewrite and post-applypatch), and the hooks that were there before.
 *
 * Our hook is a script that calls weir in the background with its output closed, and then execs the hook that was there
 * before (kept as NAME.before-weir, with its mode and bytes), with the same arguments and input. So we never fail a
 * commit and delay only a job's own commit, for as long as weir notify takes; output and exit status are those of the
 * hook before. Several archives may share one hook, a line each. Removing the last line puts back the hook that was
 * there, byte for byte. Files are replaced as a whole: a commit at the same time sees the old hook or the new one.
 *
 * Failures: invalid (a served repository has no hooks here; the hook is a folder; ours was changed by hand), io. */
#ifndef WEIR_SOURCE_HOOK_H
#define WEIR_SOURCE_HOOK_H

#include "source/source.h"

#define HOOKS_MAX 5 /* of one repository */

struct hook_call {
    struct str archive, program;
    struct str branch;         /* git: the branch whose commit post-receive names; empty: HEAD's */
    const struct str *options; /* "--server", "unix:..." */
    size_t n_options;
};

struct hook_paths {
    const char *installed[HOOKS_MAX]; /* those that have the archive's line */
    size_t n_installed, n_wanted;
};

/* hook_install: each line calls PROGRAM notify ARCHIVE REV --txn TXN OPTIONS... (svn) or PROGRAM notify ARCHIVE COMMIT
 * OPTIONS... (git); program and options are words, quoted here. The environment is passed on, WEIR_KEY in it;
 * Subversion gives its hooks none, so there WEIR_KEY is taken from the process that commits. Again for the same
 * archive: its lines are replaced. All hooks or, after a failure, none. out (may be NULL): the hooks' files, in the
 * arena. */
bool hook_install(enum archive_kind kind, const char *repository, const struct hook_call *call, struct arena *arena,
    struct hook_paths *out, struct err *err);

/* hook_remove: an archive that has no line there is fine. */
bool hook_remove(enum archive_kind kind, const char *repository, struct str archive, struct err *err);

/* hook_find: which hooks have the archive's line; paths in the arena. */
bool hook_find(enum archive_kind kind, const char *repository, struct str archive, struct arena *arena,
    struct hook_paths *out, struct err *err);

#endif
