/* svn: what the files about Subversion repositories share. Private to the room. */
#ifndef WEIR_SOURCE_SVN_H
#define WEIR_SOURCE_SVN_H

/* All headers of the libraries come first: the last include turns their functions into calls through pointers. */
#include <apr_general.h>
#include <svn_auth.h>
#include <svn_cache_config.h>
#include <svn_checksum.h>
#include <svn_cmdline.h>
#include <svn_config.h>
#include <svn_delta.h>
#include <svn_dirent_uri.h>
#include <svn_dso.h>
#include <svn_error.h>
#include <svn_fs.h>
#include <svn_hash.h>
#include <svn_path.h>
#include <svn_pools.h>
#include <svn_props.h>
#include <svn_ra.h>
#include <svn_repos.h>
#include <svn_time.h>
#include <svn_utf.h>

#include "source/backend.h"
#include "source/sink.h"
#include "source_svn.h"

struct svn_source {
    struct source base;
    apr_pool_t *pool;          /* has an allocator of its own: no lock is shared with other sources */
    const char *root;          /* "": the archive's root is the repository's; else a path in it, "trunk/part" */
    svn_repos_t *repos;        /* local */
    svn_fs_t *fs;              /* local */
    const char *url;           /* served */
    svn_ra_session_t *session; /* served; NULL after a failure: opened again by the next call */
    apr_pool_t *session_pool;
};

static inline struct svn_source *svn_of(struct source *source)
{
    return (struct svn_source *)source; /* its first member */
}

/* svn_start: the libraries, once in a process. */
bool svn_start(struct err *err);
struct svn_source *svn_new(const struct source_ops *ops, bool local);
void svn_close(struct source *source);

/* svn_fail: sets err from an error of Subversion, frees that, returns false. what: "reading revision 7". A table
 * maps Subversion's codes to ours. */
bool svn_fail(const struct svn_source *svn, svn_error_t *fault, struct err *err, const char *what, ...)
    __attribute__((format(printf, 4, 5)));
bool svn_is_lost(const svn_error_t *fault); /* the connection is gone */

/* svn_session: opens the session of a served repository unless it is open. svn_session_end: to be called after each
 * use; closes the session if its connection was lost. */
svn_error_t *svn_session(struct svn_source *svn);
svn_error_t *svn_session_end(struct svn_source *svn, svn_error_t *fault);

/* svn_fault_text: the messages of a chain of errors, outermost first, each once. */
void svn_fault_text(const svn_error_t *fault, char *out, size_t size);

/* svn_describe: author, message, time and cause from the revision's properties. */
void svn_describe(struct arena *arena, apr_hash_t *props, int64_t rev, struct source_revision *out);
int64_t svn_time(apr_hash_t *props);

/* svn_below: `path` ("/trunk/a") relative to the archive's root ("a"; the root itself is ""); false: it isn't below the
 * root. */
bool svn_below(const struct svn_source *svn, const char *path, const char **out);
bool svn_is_above(const struct svn_source *svn, const char *path); /* the archive's root is `path`, or below it */

/* svn_link: the content of an svn:special file that is a symbolic link; false: another kind of special file, which is
 * written as it is. */
bool svn_link(struct str content, struct str *out_target);

/* svn_local_ops: of a repository whose folder is here. */
extern const struct source_ops svn_local_ops;

#define SVN_LINK_BYTES_MAX 8192

#endif
