/* follower: the directories of the states follow the store.
 *
 * Reads events behind the last one that it has seen, and for each change set among them compares what stands in the
 * spool with what the store says, and puts it right. Repairing is the same over all change sets, a page at a time, and
 * then over what lies in the directories. So showing something twice, late, or after a crash changes nothing, and the
 * store always wins.
 *
 * Shows the change sets of the tenant `default`: names belong to tenants, and two may have the same.
 *
 * Everything blocks: it belongs on a thread of its own. What fails (a full disk, a store that is away) is done again by
 * the next step: nothing is passed over. */
#ifndef WEIR_SPOOL_FOLLOWER_H
#define WEIR_SPOOL_FOLLOWER_H

#include "base/map.h"
#include "spool/job_file.h"
#include "text/changeset_meta.h"

struct blobs;
struct reader;

enum follower_phase { FOLLOWER_WAITING, FOLLOWER_ENDED, FOLLOWER_FOLDERS, FOLLOWER_REPAIRED };

struct follower {
    const struct folders *folders;
    struct reader *reader;
    struct blobs *blobs; /* NULL: none: a tarball isn't shown, its meta is made of the row */
    struct changeset_limits limits;
    const char *unpacker; /* the program that unpacks; NULL: this one */
    struct map lanes;     /* by id: is it a target of ours? */
    int64_t since;        /* the last event that was followed */
    bool has_begun;
    enum follower_phase phase; /* of the repair */
    int64_t before;            /* where its page begins; 0: the newest */
    unsigned folder;           /* FOLLOWER_FOLDERS: the one that is next */
    uint64_t n_put;            /* job files written or moved since the start */
    struct arena arena;        /* of one step */
};

/* follower_step: one batch of events, or else one page of the repair; *out_more: the next step has something to do. */
bool follower_step(struct follower *follower, bool *out_more, struct err *err);
void follower_repair(struct follower *follower); /* from the beginning, with the next steps */
void follower_release(struct follower *follower);

/* follower_check: an entry of a projected folder was changed by hand: it is put right. */
bool follower_check(struct follower *follower, enum spool_folder folder, struct str name, struct err *err);

#endif
