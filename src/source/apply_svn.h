/* apply_svn: what committing to a local and to a served Subversion repository share. Private to the room. */
#ifndef WEIR_SOURCE_APPLY_SVN_H
#define WEIR_SOURCE_APPLY_SVN_H

#include "source/apply_backend.h"
#include "source/svn.h"

#define APPLY_SVN_SEARCH_MAX 2000 /* revisions that are asked for a path that is gone */

struct apply_svn {
    struct apply base;
    struct svn_source *svn;
};

struct apply *apply_svn_new(const struct apply_ops *ops, struct source *source);
void apply_svn_close(struct apply *apply);
static inline struct svn_source *apply_svn_of(struct apply *apply)
{
    return ((struct apply_svn *)apply)->svn; /* its first member */
}

/* apply_svn_props: the revision properties of a commit; author: svn:author too, which a server sets by itself. */
apr_hash_t *apply_svn_props(
    struct apply_plan *plan, const struct apply_identity *identity, bool author, apr_pool_t *pool);

/* apply_svn_drive: the plan into a commit editor, up to its close. Opened files and deleted entries carry the head's
 * number: that makes the repository refuse them when somebody was first. url: of the source's root, for copies. */
struct apply_svn_drive {
    struct apply_plan *plan;
    const svn_delta_editor_t *editor;
    void *edit;
    const char *url;
    struct err *err; /* of a file that couldn't be read; failed: it is set */
    bool failed;
};
svn_error_t *apply_svn_drive(struct apply_svn_drive *drive, apr_pool_t *pool);

/* The editor's answer: svn_commit_callback2_t and what it fills. */
struct apply_svn_answer {
    svn_revnum_t revision;
};
svn_error_t *apply_svn_committed(const svn_commit_info_t *info, void *context, apr_pool_t *pool);

/* apply_svn_end: what a commit's failure means; clears it. */
bool apply_svn_end(struct apply_svn_drive *drive, svn_error_t *fault, const struct apply_svn_answer *answer,
    struct apply_commit_end *out, struct err *err);
bool apply_svn_fail(struct apply *apply, svn_error_t *fault, struct err *err, const char *what);

/* apply_svn_describe: a revision from its properties. */
void apply_svn_describe(struct arena *arena, apr_hash_t *props, svn_revnum_t rev, struct apply_revision *out);

/* apply_svn_node: a node from its properties and content; link_of: svn:special files that are links. */
void apply_svn_node(bool special, bool executable, struct str content, bool has_content, struct apply_node *out);

#endif
