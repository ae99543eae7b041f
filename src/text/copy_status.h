/* copy_status: what `git status` and `svn status` say of a working copy, read. The answers of other programs are not
 * trusted: every path may hold any byte, and what isn't of the expected form is a fault, never a guess.
 *
 * Fails with invalid (the answer can't be read), body_too_large (more entries than COPY_ENTRIES_MAX). Paths live in the
 * arena or are views of the text. */
#ifndef WEIR_TEXT_COPY_STATUS_H
#define WEIR_TEXT_COPY_STATUS_H

#include "base/err.h"

#define COPY_ENTRIES_MAX 1000000

enum copy_kind {
    COPY_NONE,
    COPY_CHANGED,  /* there, and other than in the repository: changed, added, replaced, or its executable bit */
    COPY_REMOVED,  /* no longer there, and meant to be: a file, or a folder with all in it */
    COPY_MISSING,  /* no longer there, and the working copy doesn't know why (svn) */
    COPY_UNKNOWN,  /* not under version control, and not ignored: a file, or a folder */
    COPY_CONFLICT, /* not resolved */
    COPY_LINK,     /* a changed symbolic link */
    COPY_MODULE,   /* a changed submodule */
};

struct copy_entry {
    struct str path; /* relative to where the program was asked */
    enum copy_kind kind;
    bool is_executable; /* git alone knows it here */
    bool is_copied;     /* svn: a folder may have come with everything in it, which isn't listed */
    int64_t revision;   /* svn: that it was changed from; 0: none, or not known */
};

struct copy_status {
    struct copy_entry *at;
    size_t n, cap;
    struct str head; /* git: the commit that HEAD names; empty: there is none yet */
};

/* copy_status_git: of `git status --porcelain=v2 --branch -z`. */
bool copy_status_git(struct str text, struct arena *arena, struct copy_status *out, struct err *err);

/* copy_status_svn: of `svn status --xml`; with -v also what isn't changed but came with a copied folder. */
bool copy_status_svn(struct str text, struct arena *arena, struct copy_status *out, struct err *err);

/* copy_info_svn: of `svn info --xml`: the revision of the first entry. */
bool copy_info_svn(struct str text, struct arena *arena, int64_t *out_revision, struct err *err);

/* copy_executables_svn: of `svn propget svn:executable --xml -R`: the paths, as `changed` ones. */
bool copy_executables_svn(struct str text, struct arena *arena, struct copy_status *out, struct err *err);

#endif
