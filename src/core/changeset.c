#include "core/changeset.h"

#include <stdlib.h>

#include "base/plant.h"
#include "core/rollback.h"
#include "core/settle.h"

struct changeset *changeset_of(struct slice *slice, struct node *node)
{
    bool found = false;
    if (node->changeset || !(node->row.marks & MARK_CHANGESET) || slice->failed)
        return node->changeset;
    struct changeset *row = ARENA_NEW(slice->arena, struct changeset);
    if (!slice->rows->changeset(slice->rows->owner, slice->arena, node->row.id, row, &found, slice->err))
        slice->failed = true;
    if (found && !slice->failed)
        node->changeset = row;
    return node->changeset;
}

void changeset_touch(struct slice *slice, struct node *node)
{
    if (node->changeset_dirty)
        return;
    node->changeset_dirty = true;
    *ARRAY_ADD(slice->arena, slice->changesets) = node;
}

bool changeset_applied(const struct node *node)
{
    return node->row.state == STATE_D && node->row.outcome != OUTCOME_skipped;
}

/* --- paths --- */

struct changeset_paths changeset_paths(const struct changeset *changeset)
{
    return (struct changeset_paths){ changeset->files, changeset->removed };
}

bool changeset_path_next(struct changeset_paths *paths, struct str *out)
{
    return str_cut(&paths->files, CHANGESET_JOINT, out) || str_cut(&paths->removed, CHANGESET_JOINT, out);
}

/* --- the rows of one path, with this turn's changes --- */

struct path_row {
    struct path_row *next;
    size_t at; /* in slice.files */
};

struct path_list {
    struct path_list *next; /* of the same hash */
    int64_t lane;
    bool applied;
    struct str path;
    struct path_row *rows; /* this turn's */
};

static uint64_t path_hash(int64_t lane, bool applied, struct str path)
{
    uint64_t hash = ((uint64_t)lane << 1 | applied) * 0x9e3779b97f4a7c15u;
    for (size_t i = 0; i < path.len; i++)
        hash = (hash ^ (unsigned char)path.ptr[i]) * 0x100000001b3u;
    return hash ^ hash >> 29;
}

static struct path_list *path_list(struct slice *slice, int64_t lane, bool applied, struct str path, bool make)
{
    uint64_t hash = path_hash(lane, applied, path);
    struct path_list *first = map_find(&slice->paths, hash), *list = first;
    while (list && !(list->lane == lane && list->applied == applied && str_eq(list->path, path)))
        list = list->next;
    if (list || !make)
        return list;
    list = ARENA_NEW(slice->arena, struct path_list);
    *list = (struct path_list){ first, lane, applied, path, NULL };
    map_put(&slice->paths, hash, list);
    return list;
}

static struct path_change *path_change_find(struct slice *slice, const struct path_list *list, int64_t rank, bool add)
{
    for (const struct path_row *row = list ? list->rows : NULL; row; row = row->next) {
        struct path_change *change = &slice->files.at[row->at];
        if (change->file.rank == rank && change->add == add && !change->undone)
            return change;
    }
    return NULL;
}

static void path_put(struct slice *slice, const struct changeset_file *file, bool add)
{
    struct path_list *list = path_list(slice, file->lane, file->applied, file->path, true);
    struct path_change *before = path_change_find(slice, list, file->rank, !add);
    if (before) { /* as if nothing had been */
        before->undone = true;
        return;
    }
    struct path_row *row = ARENA_NEW(slice->arena, struct path_row);
    *row = (struct path_row){ list->rows, slice->files.n };
    list->rows = row;
    *ARRAY_ADD(slice->arena, slice->files) = (struct path_change){ .file = *file, .add = add };
}

static bool nearer(const struct changeset_file *a, const struct changeset_file *than, bool after)
{
    return after ? a->rank < than->rank : a->rank > than->rank;
}

bool changeset_near(struct slice *slice, int64_t lane, bool applied, struct str path, int64_t rank, bool after,
    struct changeset_file *out)
{
    const struct rows *rows = slice->rows;
    const struct path_list *list = path_list(slice, lane, applied, path, false);
    bool found = true, any = false;
    struct changeset_file stored = { .rank = rank };
    while (found && !any && !slice->failed) { /* rows that this turn has taken away are passed over */
        int64_t from = stored.rank;
        if (!rows->changeset_near(
                rows->owner, slice->arena, lane, applied, path, from, after, &stored, &found, slice->err))
            slice->failed = true;
        any = found && !path_change_find(slice, list, stored.rank, false);
    }
    if (any)
        *out = stored;
    for (const struct path_row *row = list ? list->rows : NULL; row; row = row->next) {
        const struct path_change *change = &slice->files.at[row->at];
        bool there = change->add && !change->undone;
        if (!there || (after ? change->file.rank <= rank : change->file.rank >= rank))
            continue;
        if (!any || nearer(&change->file, out, after))
            *out = change->file;
        any = true;
    }
    return any && !slice->failed;
}

/* --- chains --- */

/* `node` waits for the change set before it on the path. */
static void precursor_add(struct slice *slice, struct node *node, struct str path, int64_t rank)
{
    struct changeset_file before;
    if (!changeset_near(slice, node->row.lane, false, path, rank, false, &before))
        return;
    struct node *other = slice_find(slice, before.task);
    if (other && other != node && !state_ended(other->row.state))
        slice_edge_again(slice, node, other, 0);
}

static struct changeset_file file_of(const struct node *node, const struct changeset *row, struct str path)
{
    return (struct changeset_file){ .lane = node->row.lane, .path = path, .rank = row->rank, .task = node->row.id };
}

void changeset_place(struct slice *slice, struct node *node)
{
    struct changeset *row = changeset_of(slice, node);
    struct str path;
    if (!row)
        return;
    changeset_touch(slice, node);
    struct changeset_paths paths = changeset_paths(row);
    while (changeset_path_next(&paths, &path)) {
        struct changeset_file file = file_of(node, row, path);
        precursor_add(slice, node, path, row->rank);
        path_put(slice, &file, true);
    }
}

/* The change set leaves the lists. The one behind it on a path waits for the one before it: it is told of this end
 * later, so it is still staged. */
static void paths_leave(struct slice *slice, struct node *node, struct changeset *row, bool applied)
{
    struct str path;
    struct changeset_paths paths = changeset_paths(row);
    while (changeset_path_next(&paths, &path)) {
        struct changeset_file file = file_of(node, row, path), behind = { 0 };
        bool hands_on = changeset_near(slice, file.lane, false, path, file.rank, true, &behind);
        struct node *heir = hands_on ? slice_find(slice, behind.task) : NULL;
        if (PLANT(chain_cut))
            heir = NULL;
        if (heir && !state_ended(heir->row.state) && heir->row.state != STATE_X)
            precursor_add(slice, heir, path, file.rank);
        if (PLANT(files_kept))
            continue;
        path_put(slice, &file, false);
        file.applied = true;
        if (applied)
            path_put(slice, &file, true);
    }
}

void changeset_release(struct slice *slice, struct node *node)
{
    size_t n;
    const struct edge *outs = slice_outs_others(slice, node, EDGE_DEPENDS, &n);
    for (size_t i = 0; i < n; i++) {
        struct node *waiter = outs[i].kind == EDGE_AFTER ? slice_find(slice, outs[i].waiter) : NULL;
        if (waiter)
            slice_edge_flag(slice, waiter, node, EDGE_AFTER, EDGE_SPENT);
    }
}

static void place_again(struct slice *slice, struct node *node)
{
    struct changeset *row = changeset_of(slice, node);
    if (!row)
        return;
    if (!PLANT(retry_unplaced))
        row->rank = slice->rows->rank(slice->rows->owner);
    node->row.vt = row->tai;
    node->row.marks &= ~(unsigned)(MARK_FIXED | MARK_BEGUN);
    changeset_place(slice, node);
    rollback_join(slice, node);
}

static int by_number(const void *a, const void *b)
{
    int64_t x = (*(struct node *const *)a)->row.id, y = (*(struct node *const *)b)->row.id;
    return x < y ? -1 : x > y;
}

void changesets_again(struct slice *slice, struct node *const *nodes, size_t n)
{
    size_t found = 0;
    struct node **list = ARENA_ARRAY(slice->arena, struct node *, n + 1);
    for (size_t i = 0; i < n; i++)
        if (nodes[i]->row.marks & MARK_CHANGESET)
            list[found++] = nodes[i];
    if (found > 1)
        qsort(list, found, sizeof *list, by_number);
    for (size_t i = 0; i < found; i++)
        place_again(slice, list[i]);
}

void changeset_ended(struct slice *slice, struct node *node)
{
    struct changeset *row = changeset_of(slice, node);
    if (!row)
        return;
    paths_leave(slice, node, row, changeset_applied(node));
    rollback_moved(slice, node);
    if (node->row.marks & MARK_ROLLBACK)
        rollback_ended(slice, node);
}
