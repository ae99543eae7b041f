/* targets: what change sets are applied to. Every archive is a target of its own name; the site's key `targets` has
 * others, and other ways to apply (text/conf_changesets.h). The key names no tenant: a target of it is one of each
 * tenant that has the archive.
 *
 * A target is looked up again in every turn that needs it: its archive may have been removed, or the key changed. */
#ifndef WEIR_ENGINE_TARGETS_H
#define WEIR_ENGINE_TARGETS_H

#include "engine/state.h"

struct target {
    struct conf_target conf; /* one that isn't configured has its name and its archive's, and no more */
    const struct archive *archive;
};

/* target_find: false: it can't be applied to; *out_why: a sentence that says why. Texts live as long as the turn. */
bool target_find(struct turn *turn, struct str tenant, struct str name, struct target *out, struct str *out_why);
/* target_of: the target of a change set. */
bool target_of(struct turn *turn, const struct task *task, struct target *out, struct str *out_why);

/* targets_look: a target may have lost its archive: in this turn, or the next, the change sets of those that have are
 * put to an end (archives_removing). */
void targets_look(struct engine *engine);

/* targets_refused: the command wants targets that can't be: each is an item of its error, with line and column. Those
 * that are as they were aren't looked at, so that what is in force can always be applied again. */
bool targets_refused(struct turn *turn, struct command *command, const struct conf_targets *wanted);
/* targets_warn: logs the same of the targets in force. */
void targets_warn(struct turn *turn);

/* target_taken: a target that is configured for another archive has the name. */
bool target_taken(struct engine *engine, struct str name);

/* command/changeset.c. target_is_free: may the pending change set start beside those of its target that run? */
bool target_is_free(struct turn *turn, struct node *node, const struct target *target);

#endif
