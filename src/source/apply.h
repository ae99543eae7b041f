/* apply: repositories, written: one change set becomes one commit of its target, a rollback one commit that undoes
 * others. Subversion (a local folder through libsvn_repos, a served one through libsvn_ra) and a branch of a local git
 * repository.
 *
 * A place is used by one thread, and a process applies at one place at a time. Calls block for as long as the
 * repository's hooks or its server do, so the executor calls them in a process of its own, which it may kill at any
 * moment: the repository then has the whole commit or nothing of it (doc/decisions, "Applying").
 *
 * The fence: a commit is made against the head that was read before, and refused by the repository when another commit
 * has touched the same paths (Subversion) or the branch (git) since. The place then looks for the CSID in the commits
 * that have come, and either returns that commit or starts again from the new head. So of two processes with one CSID
 * exactly one commits.
 *
 * Failures are temporary (apply_is_temporary: the repository is away, locked, full, read-only or damaged; the same call
 * succeeds when that is over) or permanent (the branch, the folder or the base doesn't exist; the branch is checked
 * out; a path can't be used). A conflict or a hook's refusal is an answer, not a failure. */
#ifndef WEIR_SOURCE_APPLY_H
#define WEIR_SOURCE_APPLY_H

#include "base/buf.h"
#include "source/source.h"

#define APPLY_CONFLICTS_MAX 100                   /* of one answer; n_conflicts counts all */
#define APPLY_MERGE_BYTES_MAX ((size_t)256 << 20) /* a larger file isn't merged: it conflicts if it has changed */
#define APPLY_MESSAGE_BYTES_MAX SOURCE_MESSAGE_BYTES_MAX /* longer ones are cut at a character */

struct apply;

/* apply_open: kind, url and branch as for source_open; path: the target's folder in the archive, empty: its root. A
 * folder of a Subversion repository must exist (there it is the branch), one of a git repository needn't. NULL on
 * failure. */
struct apply *apply_open(enum archive_kind kind, struct str url, struct str branch, struct str path, struct err *err);
void apply_close(struct apply *apply); /* NULL: nothing */

bool apply_is_temporary(const struct err *err);

/* Who and what a commit says that it is: revision properties weir:csid ... or trailers Weir-CSID ...; empty members are
 * left out. The submitter is the author too (a server sets its own account). */
struct apply_identity {
    struct str csid, submitter, ticket, movetype, cause, message;
    const struct str *depends, *rolls_back; /* CSIDs */
    size_t n_depends, n_rolls_back;
};

struct apply_file {
    struct str path; /* from the target's folder and from lroot alike */
    bool executable;
};
struct apply_change {
    int lroot_fd; /* the folder with the files */
    const struct apply_file *files;
    size_t n_files;
    const struct str *removed; /* files, or folders with all in them */
    size_t n_removed;
    bool has_base; /* base: the revision that the files were made from */
    struct source_ident base;
};

/* A path that can't be changed as wanted. revision: the last one that touched the path, if it is known (else its rev is
 * 0 and its id empty), and csid if it was a change set's. Lines are those of the head, from 1; 0: not by lines. */
struct apply_conflict {
    struct str path;
    unsigned first_line, last_line;
    struct source_ident revision;
    struct str csid;
    struct str text; /* all of it as a sentence, the path first */
};

enum apply_end {
    APPLY_NONE,
    APPLY_COMMITTED, /* by this call: revision */
    APPLY_FOUND,     /* the CSID was in the repository already: revision */
    APPLY_CONFLICT,  /* nothing was written; conflicts */
    APPLY_REFUSED,   /* by a hook; nothing was written; reason: the hook's words */
};
struct apply_result {
    enum apply_end end;
    struct source_ident revision;
    struct apply_conflict *conflicts;
    size_t n_conflicts; /* the first APPLY_CONFLICTS_MAX are in the list */
    struct str reason;  /* of a conflict or refusal */
};

/* apply_head: the revision that a commit would follow now, for the caller to record before it calls apply_commit. git:
 * an empty id: the branch has no commit yet. */
bool apply_head(struct apply *apply, struct arena *arena, struct source_ident *out, struct err *err);

/* apply_find: is a commit with that CSID among those after `base` and up to the head? git: among all that the head
 * reaches and the base doesn't, not along first parents alone: somebody who merges the branch into his own and pushes
 * makes our commit a second parent. A base that is gone (a forced push): among all of the branch. */
bool apply_find(struct apply *apply, struct arena *arena, struct str csid, struct source_ident base, bool *out_found,
    struct source_ident *out_revision, struct err *err);

/* apply_commit: base is what apply_head returned and the caller has recorded. Every file of the change becomes part of
 * the commit, also one whose content is the head's already: the CSID must be in the history.
 *
 * With change->has_base a file that has changed since is merged by lines; a path that is removed and has changed since
 * conflicts. Without it files are taken as they are. A path to be removed that isn't there: with a base that has it,
 * somebody else removed it, nothing is left to do; else a conflict. */
bool apply_commit(struct apply *apply, struct arena *arena, const struct apply_change *change,
    const struct apply_identity *identity, struct source_ident base, struct apply_result *out, struct err *err);

/* apply_check: the conflicts that apply_commit would have now (end is APPLY_CONFLICT), or none (APPLY_NONE). Writes
 * nothing, runs no hook. */
bool apply_check(struct apply *apply, struct arena *arena, const struct apply_change *change, struct apply_result *out,
    struct err *err);

/* apply_diff: what the change would do to the tree of `at` (NULL: the head), as a unified diff that git apply and
 * patch -p1 take. Files that conflict are compared as they are. The text ends early when `out` is full. */
bool apply_diff(struct apply *apply, const struct apply_change *change, const struct source_ident *at, struct buf *out,
    struct err *err);

/* apply_rollback: one commit that undoes the revisions, at least one, the newest first in the list, as if each were
 * undone in turn. Changes that came later stay; one on the same lines is a conflict that names it. A rollback's own
 * commit may be undone too: that applies what it undid again. */
bool apply_rollback(struct apply *apply, struct arena *arena, const struct source_ident *revisions, size_t n,
    const struct apply_identity *identity, struct source_ident base, struct apply_result *out, struct err *err);

/* What a commit says of itself; texts as source.h has them. */
struct apply_revision {
    struct source_ident ident;
    struct str parent; /* git: the first parent's id; empty: none */
    struct str csid, submitter, ticket, movetype, depends, rolls_back, cause; /* empty: not said */
    struct str author, message;                                               /* message: without the trailers */
    int64_t time_ms;
};
/* apply_walk: every revision after `from` (rev 0 or an empty id: from the beginning) up to the head, oldest first. The
 * revision's texts are gone after the visit. visit returns false to stop. */
struct apply_visitor {
    bool (*visit)(void *context, const struct apply_revision *revision);
    void *context;
};
bool apply_walk(struct apply *apply, struct source_ident from, const struct apply_visitor *visitor, struct err *err);

#endif
