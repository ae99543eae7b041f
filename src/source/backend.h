/* backend: what the kinds of repositories have in common, for the files of this room only.
 *
 * A backend fills a struct source with its operations; source.c checks the arguments and calls them. Every tree goes
 * out through a sink, which refuses names that lead out of the tree and enforces the limits of the export. */
#ifndef WEIR_SOURCE_BACKEND_H
#define WEIR_SOURCE_BACKEND_H

#include "base/buf.h"
#include "source/source.h"

#define WORKFLOWS_FOLDER "_workflows"

struct sink;

struct source_ops {
    void (*close)(struct source *source);
    bool (*youngest)(struct source *source, struct arena *arena, struct source_ident *out, struct err *err);
    bool (*revision)(struct source *source, struct arena *arena, struct source_ident ident, struct source_revision *out,
        struct err *err);
    bool (*workflows)(struct source *source, struct arena *arena, struct source_ident ident, struct str known,
        struct source_workflows *out, struct err *err);
    bool (*new_commits)(struct source *source, struct arena *arena, const struct source_known *known,
        struct source_commits *out, struct err *err); /* NULL: there are no commits to find */
    bool (*watch)(
        struct source *source, struct arena *arena, struct source_watch **out, size_t *out_n, struct err *err);
    /* walk: writes the tree of `to` into the sink, folders before their entries, names in order. With `from` only what
     * differs: an entry that is gone, or is of another kind now, is removed first. Sets the sink's time_ms before
     * anything else. */
    bool (*walk)(struct source *source, const struct source_ident *from, struct source_ident to, struct sink *sink,
        struct err *err);
};

struct source { /* the first member of each backend's own struct */
    const struct source_ops *ops;
    enum archive_kind kind;
    bool local;
    struct arena arena; /* lives as long as the source */
    struct str place, uuid, branch;
};

struct source *source_svn_open(struct str url, struct err *err); /* local or served */
struct source *source_svn_served_open(struct str url, struct err *err);
struct source *source_git_open(struct str path, struct str branch, struct err *err);

/* Texts from a repository, made safe: UTF-8, at most `max` bytes, cut at a character, without control characters but
 * tab and newline (source_line: without any, and trimmed). */
struct str source_text(struct arena *arena, struct str raw, size_t max);
struct str source_line(struct arena *arena, struct str raw, size_t max);

/* Changes of a revision. changes_add: false: the list is full (changes_give then sets all_touched). */
struct changes_list {
    struct arena *arena;
    struct source_change *items;
    size_t n, cap;
    bool full;
};
bool changes_add(struct changes_list *list, struct source_change change); /* path and copied_from are copied */
void changes_give(struct changes_list *list, struct source_revision *out);

/* Workflow files of a folder, while it is read. The backend asks workflows_wants for each name of the folder, then adds
 * the file's text or a fault. */
struct workflows_list {
    struct arena *arena;
    struct source_file *files;
    size_t n_files, cap_files;
    size_t n_seen;
    struct buf faults;
};
void workflows_init(struct workflows_list *list, struct arena *arena);
bool workflows_wants(struct workflows_list *list, struct str name); /* false: no workflow file, or one too many */
/* text: in the arena; binary ones become a fault */
void workflows_add(struct workflows_list *list, struct str name, struct str text);
void workflows_fault(struct workflows_list *list, struct str name, const char *why); /* name empty: the folder itself */
bool workflows_fits(struct workflows_list *list, struct str name, uint64_t bytes);   /* false: too large, a fault */
void workflows_give(struct workflows_list *list, struct source_workflows *out);      /* sorts; ends the list */

extern const char workflows_link_fault[], workflows_folder_fault[], workflows_kind_fault[];

#endif
