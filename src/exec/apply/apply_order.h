/* apply_order: what `weir apply` is to do: the member `apply` of a grant's spec, as the agent wrote it to io/input.
 *
 * The server has checked what it says, but it is read as if it hadn't: a member of another type counts as absent, and
 * what can't be done without it is refused. All strings live in the arena. */
#ifndef WEIR_EXEC_APPLY_ORDER_H
#define WEIR_EXEC_APPLY_ORDER_H

#include "source/apply.h"
#include "text/changeset.h"

enum { ORDER_LIST_MAX = 100000 };
#define ORDER_BYTES_MAX ((size_t)64 << 20)
#define BASE_NONE "none" /* as it is recorded: the branch has no commit yet */

struct order_undo {
    struct str csid;
    struct source_ident revision;
};

struct apply_order {
    struct str csid, target, movetype, submitter, ticket, message, cause;
    struct str *depends;
    size_t n_depends;
    bool has_tarball, has_from, has_base;
    unsigned char sha256[32];
    int64_t tarball_bytes;
    struct source_ident from; /* the files were made from it */
    struct source_ident base; /* the oldest that an attempt has recorded */
    enum archive_kind kind;
    struct str url, branch, path;
    char **program; /* NULL: we commit ourselves */
    struct order_undo *undoes;
    size_t n_undoes;
    bool rollback;
    bool look; /* only say whether it is in the repository */
    struct changeset_limits limits;
};

bool order_read(struct str text, struct arena *arena, struct apply_order *out, struct err *err);

/* A revision as text, and back: a number for Subversion, a commit or BASE_NONE for git. */
struct str ident_text(struct arena *arena, enum archive_kind kind, struct source_ident ident);
bool ident_read(enum archive_kind kind, struct str text, struct source_ident *out);

#endif
