/* git: what the files about git repositories share. Private to the room. */
#ifndef WEIR_SOURCE_GIT_H
#define WEIR_SOURCE_GIT_H

#include <git2.h>
#include <git2/sys/commit.h>
#include <git2/sys/repository.h>

#include "source/backend.h"
#include "source/sink.h"
#include "source_git.h"

struct git_source {
    struct source base;
    git_repository *repo;
    const char *ref; /* refs/heads/BRANCH */
    git_oid *chain;  /* commits to be given out, the newest first; chain_tip: the tip when they were found */
    size_t n_chain, cap_chain;
    git_oid chain_tip;
};

static inline struct git_source *git_of(struct source *source)
{
    return (struct git_source *)source; /* its first member */
}

/* git_fail: sets err from what libgit2 said; false. */
/* git_start: the library, once in a process. */
bool git_start(struct err *err);

bool git_fail(const struct git_source *git, int code, struct err *err, const char *what);
bool git_tip(struct git_source *git, git_oid *out, bool *out_found, struct err *err);
bool git_commit_find(struct git_source *git, struct source_ident ident, git_commit **out, struct err *err);
struct str git_oid_text(struct arena *arena, const git_oid *oid);

/* git_changes: what differs between two trees (before may be NULL) into out->changes. */
bool git_changes(struct git_source *git, struct arena *arena, const git_tree *before, const git_tree *after,
    struct source_revision *out, struct err *err);
bool git_walk(
    struct source *source, const struct source_ident *from, struct source_ident to, struct sink *sink, struct err *err);
bool git_workflows(struct source *source, struct arena *arena, struct source_ident ident, struct str known,
    struct source_workflows *out, struct err *err);
bool git_new_commits(struct source *source, struct arena *arena, const struct source_known *known,
    struct source_commits *out, struct err *err);

#endif
