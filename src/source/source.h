/* source: repositories, read in-process: Subversion (a local path or file:// through its file system layer, svn:// and
 * http(s):// through its repository access layer) and git (a local repository, bare or ordinary, one branch).
 *
 * A source is used by one thread at a time; different threads may use different sources at the same time. A source
 * stays usable after a failure: once the repository is back, or its server answers again, calls succeed again. A call
 * on a served repository blocks for as long as its server does, on a local one only for the disk. Nothing is ever
 * written to a repository.
 *
 * Failures, each with the place and what to do next: not_found (no such repository, revision, commit or branch),
 * invalid (it is no repository of this kind, or the address or tree can't be used), corrupt (its files are damaged),
 * unreachable (a server doesn't answer), disk_full and body_too_large (exports), io (anything else, such as
 * permissions).
 *
 * Returned texts are UTF-8: bytes that aren't become U+FFFD. */
#ifndef WEIR_SOURCE_SOURCE_H
#define WEIR_SOURCE_SOURCE_H

#include "base/err.h"
#include "core/model.h"

#define SOURCE_CHANGES_MAX 100000
#define SOURCE_MESSAGE_BYTES_MAX ((size_t)64 << 10) /* longer ones are cut at a character */
#define SOURCE_COMMITS_MAX 1000                     /* of one call of source_new_commits */
#define SOURCE_CHAIN_MAX 10000000                   /* commits that a branch may be ahead of the last known one */
#define SOURCE_DEPTH_MAX 256                        /* folders within folders */
#define SOURCE_FILES_MAX 5000000u                   /* of an export, unless its options say otherwise */
#define SOURCE_BYTES_MAX ((uint64_t)256 << 30)      /* of an export, likewise */
#define SOURCE_BLOB_BYTES_MAX ((uint64_t)2 << 30)   /* one file of a git repository: libgit2 holds it in memory */

struct source;

/* One revision: svn by number, git by commit id (40 hexadecimal digits). The other member is ignored. */
struct source_ident {
    int64_t rev;
    struct str id;
};

/* source_open: kind is ARCHIVE_SVN or ARCHIVE_GIT. svn: a path or URL may lead below the repository's root: then that
 * folder is the archive's root, with the repository's revisions. branch: git only; empty: the one that HEAD names now.
 * A git repository without commits is fine; a missing branch in one that has others is not_found. NULL on failure. */
struct source *source_open(enum archive_kind kind, struct str url, struct str branch, struct err *err);
void source_close(struct source *source); /* NULL: nothing */

bool source_is_local(const struct source *source);
/* svn: tells one repository from another at the same place; git: empty */
struct str source_uuid(const struct source *source);
struct str source_branch(const struct source *source); /* git: the branch, without refs/heads/; svn: empty */
/* local: the repository's folder (git: the one with the refs); else the URL */
struct str source_place(const struct source *source);

/* source_youngest: svn: its number (0: nothing was committed yet); git: the branch's tip, id empty: none yet. The id
 * lives in the arena. */
bool source_youngest(struct source *source, struct arena *arena, struct source_ident *out, struct err *err);

enum source_change_kind { SOURCE_CHANGE_NONE, SOURCE_ADDED, SOURCE_CHANGED, SOURCE_DELETED, SOURCE_REPLACED };
struct source_change {
    struct str path; /* relative to the archive's root, without a leading slash */
    enum source_change_kind kind;
    bool is_folder;
    struct str copied_from; /* svn: the path it was copied from, from the repository's root; empty: no copy */
    int64_t copied_rev;
};

struct source_revision {
    struct source_ident ident;
    struct str author; /* svn:author, or NAME <MAIL>; empty: the revision names none */
    struct str message;
    int64_t time_ms;     /* of the commit; 0: not known */
    struct str cause;    /* svn: revision property weir:cause; git: the last trailer Weir-Cause; empty: none */
    struct str *parents; /* git: all of them, the first one first */
    size_t n_parents;
    /* What it touched, against the revision before (git: the first parent). Folders that were copied, deleted or
     * replaced come with all that is in them, so patterns for files match them. git has no folders and no copies. */
    struct source_change *changes;
    size_t n_changes;
    /* it touched more than SOURCE_CHANGES_MAX paths: every path counts as touched (changes: the first ones) */
    bool all_touched;
    bool is_first; /* svn: revision 1; git: a commit without a parent */
};
bool source_revision_read(struct source *source, struct arena *arena, struct source_ident ident,
    struct source_revision *out, struct err *err);

struct source_file {
    struct str name; /* "_workflows/build.yaml" */
    struct str text;
};
struct source_workflows {
    struct str content; /* what the folder holds, in short: equal texts mean equal files (of this repository); "-":
                           there is no folder */
    bool same;          /* content is `known`: nothing was read, files and fault are empty */
    struct source_file *files; /* sorted by name */
    size_t n_files;
    struct str
        fault; /* lines "FILE: error: why" of what can't be used (links, binary, too large, too many); empty: none */
};
/* source_workflows_read: the files _workflows/ *.yaml, *.yml, *.json at the archive's root. known: `content` of an
 * earlier call, or empty.
 */
bool source_workflows_read(struct source *source, struct arena *arena, struct source_ident ident, struct str known,
    struct source_workflows *out, struct err *err);

/* git: the commits that have no number yet, along first parents from the tip, oldest first, at most SOURCE_COMMITS_MAX
 * a call. The caller gives them numbers and calls again until `left` is 0 (the source keeps a long list between calls
 * while the tip stays the same). */
struct source_known {
    bool (*is_known)(void *context, struct str id); /* has it a number? NULL: none has */
    void *context;
    struct str tip; /* the commit of the last number given; empty: none */
};
struct source_commits {
    struct str tip; /* the branch's tip now; empty: there is no commit */
    struct str *ids;
    size_t n, left; /* left: how many more there are after these */
    /* known.tip isn't an ancestor of the tip: a forced push. Also when there is nothing new (the branch went back) */
    bool rewritten;
};
bool source_new_commits(struct source *source, struct arena *arena, const struct source_known *known,
    struct source_commits *out, struct err *err);

/* source_watch_paths: folders of a local repository in which a new revision shows (for inotify: moved to, created,
 * closed after writing). None for a served repository. An event means no more than: ask source_youngest. */
struct source_watch {
    const char *folder;
    struct str name; /* only this name in it matters; empty: any */
};
bool source_watch_paths(
    struct source *source, struct arena *arena, struct source_watch **out, size_t *out_n, struct err *err);

/* Exports: the tree of a revision as files. Raw: no keywords, line ends, filters or export-ignore; svn:executable and
 * svn:special, git's modes and links are kept; a submodule is an empty folder. A link is made, never followed; nothing
 * is written outside the folder. Names "..", ".", ".git" (in any case) and those with a NUL or slash make the tree
 * invalid. Nothing is synced. Files get 0666 or 0777 and folders 0777, less the umask. */
struct source_progress {
    uint64_t files, bytes, removed;
};
struct source_export_options {
    uint64_t files_max, bytes_max; /* 0: SOURCE_FILES_MAX, SOURCE_BYTES_MAX */
    bool (*progress)(
        /* after each file; false: stop (err: unavailable). May be NULL */
        void *context, const struct source_progress *progress);
    void *context;
};
/* source_export: dir_fd is an empty folder. After a failure it holds a part. options may be NULL. */
bool source_export(struct source *source, struct source_ident ident, int dir_fd,
    const struct source_export_options *options, struct err *err);

/* source_export_changed: turns the tree of `from` in dir_fd into the tree of `to`. A file that differs is unlinked and
 * created again, never written into, so hard links to it elsewhere keep their content. Files that belong to neither
 * tree stay. After a failure the folder is neither tree. */
bool source_export_changed(struct source *source, struct source_ident from, struct source_ident to, int dir_fd,
    const struct source_export_options *options, struct err *err);

/* source_export_tar: the same tree as a tar (ustar, pax headers where names or sizes need them) in pieces; the order is
 * that of the names, times are the revision's, owners 0: the same revision gives the same bytes. write returns false to
 * stop (err: unavailable). */
struct source_tar {
    bool (*write)(void *context, struct str bytes);
    void *context;
};
bool source_export_tar(struct source *source, struct source_ident ident, const struct source_tar *tar,
    const struct source_export_options *options, struct err *err);

#endif
