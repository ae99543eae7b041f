/* conf_changesets: what `changesets:` and `targets:` of the configuration say; see conf_changesets.c for how they are
 * written. */
#ifndef WEIR_TEXT_CONF_CHANGESETS_H
#define WEIR_TEXT_CONF_CHANGESETS_H

#include "base/buf.h"
#include "text/changeset.h"

/* `changesets:` without `base`, which is one server's. All zero: nothing was read, and the defaults are meant. */
struct conf_changesets {
    unsigned approval;  /* 1u << MOVE_X of the move types that need a ticket */
    bool self_approval; /* a submitter may approve its own */
    int64_t rollback_limit;
    int64_t stop_ms; /* between HUP and KILL, of a running member of a rollback */
    struct changeset_limits limits;
};

struct conf_target {
    struct str name;
    struct str archive;      /* its name; never empty */
    struct str path;         /* below the archive's root; empty: all of it */
    const struct str *apply; /* the program with its arguments; none: it is committed to the archive */
    size_t n_apply;
    bool independent;      /* several of its change sets may run at once */
    int64_t timeout_ms;    /* of one attempt; 0: none */
    unsigned line, column; /* where it stands in the document that was read; not stored */
};
struct conf_targets {
    struct conf_target *items;
    size_t n;
};

/* conf_target_find: NULL: not configured (then an archive of that name is the target). */
const struct conf_target *conf_target_find(const struct conf_targets *targets, struct str name);
/* conf_target_same: do they say the same? Wherever they stand. */
bool conf_target_same(const struct conf_target *a, const struct conf_target *b);
/* conf_target_copy: its texts into the arena. */
void conf_target_copy(struct arena *arena, const struct conf_target *from, struct conf_target *out);

/* As the store keeps them: JSON, the same text for the same values; what has its default isn't written. */
void conf_changesets_write(struct buf *out, const struct conf_changesets *changesets);
void conf_targets_write(struct buf *out, const struct conf_targets *targets);

#endif
