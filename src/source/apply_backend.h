/* apply_backend: what the kinds of repositories must offer so that change sets can be applied. Private to the room.
 *
 * apply.c has the loop around a commit, apply_plan.c decides what a commit changes; a backend reads nodes and commits
 * a finished plan. Paths here are relative to the source's root: the target's folder is in front. */
#ifndef WEIR_SOURCE_APPLY_BACKEND_H
#define WEIR_SOURCE_APPLY_BACKEND_H

#include "base/map.h"
#include "source/apply.h"
#include "source/backend.h"

#define APPLY_REASON_BYTES_MAX ((size_t)4 << 10)
#define APPLY_LINE_BYTES_MAX 4000 /* of one property or trailer; lists of CSIDs: APPLY_LIST_BYTES_MAX */
#define APPLY_LIST_BYTES_MAX ((size_t)1 << 20)

enum apply_kind {
    APPLY_ABSENT,
    APPLY_FILE,
    APPLY_LINK,
    APPLY_FOLDER,
    APPLY_OTHER, /* a submodule, or a special file of Subversion's that is no link */
};

struct apply_node {
    enum apply_kind kind;
    bool executable;
    bool too_large;     /* over APPLY_MERGE_BYTES_MAX: content isn't there */
    struct str content; /* of a file or link */
};

/* One path of a commit. Folders that must be made come as edits too, before what is in them. */
struct apply_edit {
    struct str path;
    enum apply_kind before, after; /* at the head; in the commit */
    bool was_executable, executable;
    bool fresh;       /* a folder that is removed and made again, empty */
    bool touched;     /* false: only looked at */
    bool from_lroot;  /* the content is lroot's file, else `content` */
    struct str lroot; /* that file's path */
    struct str content;
    bool restored; /* it comes back as it was in restored_at */
    struct source_ident restored_at;
};

struct apply_plan {
    struct apply *apply;
    struct arena *arena;
    struct source_ident head;
    int lroot_fd;
    struct apply_edit **edits; /* apply_plan_end: sorted so that a folder comes right before what is in it */
    size_t n_edits, cap_edits;
    struct smap index; /* path -> edit */
    struct apply_conflict *conflicts;
    size_t n_conflicts, cap_conflicts;
    const struct source_ident *members; /* of a rollback: not to be named as what is in the way */
    size_t n_members;
};

enum apply_outcome { APPLY_OUT_OF_DATE, APPLY_DID, APPLY_HOOK_REFUSED };
struct apply_commit_end {
    enum apply_outcome outcome;
    struct source_ident revision; /* id in the plan's arena */
    struct str words;             /* of a hook, likewise */
};

struct apply_ops {
    void (*close)(struct apply *apply);
    /* node: content only if wanted; it lives in the arena. */
    bool (*node)(struct apply *apply, struct arena *arena, struct source_ident at, struct str path, bool want_content,
        struct apply_node *out, struct err *err);
    /* list: the names in a folder. */
    bool (*list)(struct apply *apply, struct arena *arena, struct source_ident at, struct str path, struct str **out,
        size_t *out_n, struct err *err);
    /* last_change: the newest revision after `after` and up to `upto` that touched the path or something below it. */
    bool (*last_change)(struct apply *apply, struct arena *arena, struct str path, struct source_ident after,
        struct source_ident upto, bool *out_found, struct source_ident *out, struct err *err);
    bool (*revision)(struct apply *apply, struct arena *arena, struct source_ident ident, struct apply_revision *out,
        struct err *err);
    bool (*walk)(struct apply *apply, struct source_ident from, const struct apply_visitor *visitor, struct err *err);
    bool (*commit)(
        struct apply_plan *plan, const struct apply_identity *identity, struct apply_commit_end *out, struct err *err);
};

struct apply { /* the first member of each backend's own struct */
    const struct apply_ops *ops;
    struct source *source;
    struct str path; /* of the target in the source, without slashes at its ends */
};

struct apply *apply_svn_local_new(struct source *source);
struct apply *apply_svn_served_new(struct source *source);
struct apply *apply_git_new(struct source *source);

bool apply_ident_equal(struct source_ident a, struct source_ident b);
struct source_ident apply_ident_dup(struct arena *arena, struct source_ident ident);

/* apply_fields: the identity as names and values, cleaned and in one order, for properties ("weir:csid") and trailers
 * ("Weir-CSID"). Empty ones are left out. */
struct apply_field {
    const char *property, *trailer;
    struct str value;
};
#define APPLY_FIELDS 7
size_t apply_fields(struct arena *arena, const struct apply_identity *identity, struct apply_field out[APPLY_FIELDS]);
/* apply_field_set: gives a field back by either of its names; others are ignored. */
void apply_field_set(struct arena *arena, struct apply_revision *revision, struct str name, struct str value);

/* --- apply_plan.c --- */
void apply_plan_begin(struct apply_plan *plan, struct apply *apply, struct arena *arena, struct source_ident head);
bool apply_plan_change(struct apply_plan *plan, const struct apply_change *change, struct err *err);
bool apply_plan_rollback(struct apply_plan *plan, const struct source_ident *revisions, size_t n, struct err *err);
void apply_plan_end(struct apply_plan *plan); /* sorts, and drops edits without effect */
void apply_plan_release(struct apply_plan *plan);

/* apply_edit_read: the content to commit; apply_edit_done: gives it back. */
bool apply_edit_read(const struct apply_plan *plan, const struct apply_edit *edit, struct str *out, struct err *err);
void apply_edit_done(const struct apply_edit *edit, struct str content);

#endif
