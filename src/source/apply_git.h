/* apply_git: what the files that write to a git repository share. Private to the room. */
#ifndef WEIR_SOURCE_APPLY_GIT_H
#define WEIR_SOURCE_APPLY_GIT_H

#include "source/apply_backend.h"
#include "source/git.h"

#define APPLY_GIT_TREES 4

struct apply_git {
    struct apply base;
    struct git_source *git;
    struct { /* the trees of the commits that were read last */
        git_oid commit;
        git_tree *tree;
    } trees[APPLY_GIT_TREES];
    unsigned next_tree;
};

static inline struct apply_git *apply_git_of(struct apply *apply)
{
    return (struct apply_git *)apply; /* its first member */
}

/* apply_git_tree: the root tree of a commit; an empty id: NULL. Belongs to apply. */
bool apply_git_tree(struct apply *apply, struct str id, git_tree **out, struct err *err);
/* apply_git_errors_clear: before writing: what libgit2 or the system said of earlier calls isn't the reason. */
void apply_git_errors_clear(void);
bool apply_git_fail(struct apply *apply, int code, struct err *err, const char *what);

/* apply_git_commit: in apply_git_commit.c. */
bool apply_git_commit(
    struct apply_plan *plan, const struct apply_identity *identity, struct apply_commit_end *out, struct err *err);

/* apply_git_swap: the branch from one commit (old may be zero: there is none) to another; in apply_git_ref.c. */
enum apply_git_swapped { APPLY_GIT_SWAPPED, APPLY_GIT_MOVED };
bool apply_git_swap(
    struct apply *apply, const git_oid *old, const git_oid *new, enum apply_git_swapped *out, struct err *err);

/* Hooks of the repository, run as git receive-pack runs them; in apply_git_hook.c. before: pre-receive, then update;
 * refused: words are in the arena. after: post-receive and post-update, whose ends change nothing. */
struct apply_git_update {
    const char *ref, *old_hex, *new_hex;
};
bool apply_git_hooks_before(struct apply *apply, struct arena *arena, const struct apply_git_update *update,
    bool *out_refused, struct str *out_words, struct err *err);
void apply_git_hooks_after(struct apply *apply, struct arena *arena, const struct apply_git_update *update);

/* apply_git_message: the message with its trailers; apply_git_trailers: takes them off again. */
struct str apply_git_message(struct arena *arena, const struct apply_identity *identity);
struct str apply_git_trailers(struct arena *arena, struct str message, struct apply_revision *out);

#endif
