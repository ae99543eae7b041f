/* git_commits: which commits of the branch have no number yet.
 *
 * Walks first parents from the tip to the newest known commit. The source keeps the list while the tip stays the same,
 * so that an import of a long history walks it once, not once per thousand commits.
 *
 * Fails with body_too_large when the branch is more than SOURCE_CHAIN_MAX ahead, corrupt when a commit is missing. */
#include "source/git.h"

static bool is_known(const struct source_known *known, const git_oid *oid)
{
    char text[GIT_OID_HEXSZ + 1];
    if (known->is_known == NULL)
        return false;
    git_oid_tostr(text, sizeof text, oid);
    return known->is_known(known->context, (struct str){ text, GIT_OID_HEXSZ });
}

static bool chain_push(struct git_source *git, const git_oid *oid, struct err *err)
{
    if (git->n_chain == SOURCE_CHAIN_MAX)
        return err_set(err, ERR_body_too_large, "%.*s: more than %d new commits on %.*s", STR_ARG(git->base.place),
            SOURCE_CHAIN_MAX, STR_ARG(git->base.branch));
    if (git->n_chain == git->cap_chain) {
        git->cap_chain = git->cap_chain > 0 ? git->cap_chain * 2 : 64;
        git->chain = mem_realloc(git->chain, git->cap_chain * sizeof *git->chain);
    }
    git->chain[git->n_chain++] = *oid;
    return true;
}

/* chain_walk: makes the list again, from the tip. */
static bool chain_walk(
    struct git_source *git, const git_oid *tip, const struct source_known *known, git_oid *out_base, struct err *err)
{
    git_oid at = *tip;
    git->n_chain = 0;
    git->chain_tip = *tip;
    *out_base = (git_oid){ 0 };
    for (;;) {
        git_commit *commit = NULL;
        if (is_known(known, &at)) {
            *out_base = at;
            return true;
        }
        int code = git_commit_lookup(&commit, git->repo, &at);
        if (code != 0)
            return git_fail(git, code, err, "reading a commit");
        bool more = git_commit_parentcount(commit) > 0;
        bool good = chain_push(git, &at, err);
        if (more)
            at = *git_commit_parent_id(commit, 0);
        git_commit_free(commit);
        if (!good || !more)
            return good;
    }
}

/* chain_cut: removes the commit with the last number and all before it: they are known, even those that a skip passed
 * over. */
static void chain_cut(struct git_source *git, struct str numbered, git_oid *out_base)
{
    git_oid oid;
    if (numbered.len == 0 || git_oid_fromstrn(&oid, numbered.ptr, numbered.len) != 0)
        return;
    for (size_t i = 0; i < git->n_chain; i++)
        if (git_oid_equal(&oid, &git->chain[i])) {
            *out_base = oid;
            git->n_chain = i;
        }
}

/* chain_trim: an archive may begin after a commit that has no number. When a forced push goes back behind that commit,
 * the ancestors of the old tip aren't new: only commits that the old tip can't reach stay in the list. In the list,
 * which has the tip first, reachable commits come last, so a binary search finds the border. */
static bool chain_trim(struct git_source *git, struct str old, git_oid *out_base, struct err *err)
{
    git_oid oid;
    size_t low = 0, high = git->n_chain; /* below low: not reachable; from high on: reachable */
    git_commit *commit = NULL;
    if (old.len == 0 || git_oid_fromstrn(&oid, old.ptr, old.len) != 0)
        return true;
    int found = git_commit_lookup(&commit, git->repo, &oid);
    git_commit_free(commit);
    if (found == GIT_ENOTFOUND)
        return true; /* the old tip was pruned: everything is news */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int code = git_oid_equal(&oid, &git->chain[middle])
                       ? 1
                       : git_graph_descendant_of(git->repo, &oid, &git->chain[middle]);
        if (code < 0)
            return git_fail(git, code, err, "comparing commits");
        if (code == 1)
            high = middle;
        else
            low = middle + 1;
    }
    if (low < git->n_chain)
        *out_base = git->chain[low];
    git->n_chain = low;
    return true;
}

/* rewritten_find: is the old tip no ancestor of the new one? base: the known commit below the new ones, or zero. */
static bool rewritten_find(
    struct git_source *git, struct str old, const git_oid *tip, const git_oid *base, bool *out, struct err *err)
{
    git_oid oid;
    *out = false;
    if (old.len == 0)
        return true;
    if (git_oid_fromstrn(&oid, old.ptr, old.len) != 0)
        return err_set(err, ERR_internal, "'%.*s' isn't a commit id", STR_ARG(old));
    if (git_oid_equal(&oid, tip) || git_oid_equal(&oid, base))
        return true;
    git_commit *commit = NULL;
    int code = git_commit_lookup(&commit, git->repo, &oid);
    git_commit_free(commit);
    if (code == 0)
        code = git_graph_descendant_of(git->repo, tip, &oid);
    else if (code == GIT_ENOTFOUND)
        code = 0; /* it was pruned already */
    if (code < 0)
        return git_fail(git, code, err, "comparing commits");
    *out = code == 0;
    return true;
}

bool git_new_commits(struct source *source, struct arena *arena, const struct source_known *known,
    struct source_commits *out, struct err *err)
{
    struct git_source *git = git_of(source);
    struct source_commits commits = { 0 };
    git_oid tip, base = { 0 };
    bool found;
    if (!git_tip(git, &tip, &found, err))
        return false;
    if (!found) {
        commits.rewritten = known->tip.len > 0; /* the branch was deleted, or the repository made anew */
        git->n_chain = 0;
        *out = commits;
        return true;
    }
    if (git->n_chain > 0 && git_oid_equal(&git->chain_tip, &tip)) {
        chain_cut(git, known->tip, &base);
        while (git->n_chain > 0 && is_known(known, &git->chain[git->n_chain - 1]))
            base = git->chain[--git->n_chain];
    } else {
        git->n_chain = 0;
    }
    if (git->n_chain == 0) {
        bool good = chain_walk(git, &tip, known, &base, err);
        if (good && git_oid_is_zero(&base))
            good = chain_trim(git, known->tip, &base, err);
        if (!good) {
            git->n_chain = 0;
            return false;
        }
    }
    if (!rewritten_find(git, known->tip, &tip, &base, &commits.rewritten, err))
        return false;
    commits.tip = git_oid_text(arena, &tip);
    commits.n = git->n_chain < SOURCE_COMMITS_MAX ? git->n_chain : SOURCE_COMMITS_MAX;
    commits.left = git->n_chain - commits.n;
    commits.ids = ARENA_ARRAY(arena, struct str, commits.n > 0 ? commits.n : 1);
    for (size_t i = 0; i < commits.n; i++)
        commits.ids[i] = git_oid_text(arena, &git->chain[git->n_chain - 1 - i]);
    *out = commits;
    return true;
}
