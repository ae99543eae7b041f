/* memstore_changesets: change sets and the index of their paths in the store in memory. Lists are walked. */
#include <string.h>

#include "memstore.h"
#include "store/row_copy.h"

static struct memstore *mem(struct store *store)
{
    return ((struct memport *)(void *)store)->rows;
}

/* --- writing --- */

static bool file_is(const struct changeset_file *a, const struct changeset_file *b)
{
    return a->lane == b->lane && a->applied == b->applied && a->rank == b->rank && str_eq(a->path, b->path);
}

static size_t file_find(const struct memstore *m, const struct changeset_file *file)
{
    size_t at = 0;
    while (at < m->n_changeset_files && !file_is(&m->changeset_files[at], file))
        at++;
    return at;
}

void changesets_apply(struct memstore *m, const struct changes *c)
{
    ASSERT(!c->shared.narrow || !(c->changesets.rows.n + c->changesets.files_add.n + c->changesets.files_remove.n));
    for (size_t i = 0; i < c->changesets.rows.n; i++) {
        struct changeset *copy = ARENA_NEW(&m->arena, struct changeset);
        *copy = *c->changesets.rows.at[i];
        row_copy_changeset(&m->arena, copy);
        map_put(&m->changesets, (uint64_t)copy->task, copy);
    }
    for (size_t i = 0; i < c->changesets.files_remove.n; i++) {
        size_t at = file_find(m, &c->changesets.files_remove.at[i]);
        if (at < m->n_changeset_files)
            m->changeset_files[at] = m->changeset_files[--m->n_changeset_files];
    }
    for (size_t i = 0; i < c->changesets.files_add.n; i++) {
        ASSERT(file_find(m, &c->changesets.files_add.at[i]) == m->n_changeset_files);
        struct changeset_file *file =
            ARENA_PUSH(&m->arena, m->changeset_files, m->n_changeset_files, m->cap_changeset_files);
        *file = c->changesets.files_add.at[i];
        row_copy_changeset_file(&m->arena, file);
    }
}

/* --- loads --- */

static bool mem_changeset(
    struct store *store, struct arena *arena, int64_t task, struct changeset *out, bool *out_found, struct err *err)
{
    const struct changeset *row = map_find(&mem(store)->changesets, (uint64_t)task);
    (void)err;
    *out_found = row != NULL;
    if (row) {
        *out = *row;
        row_copy_changeset(arena, out);
    }
    return true;
}

static bool mem_changeset_find(
    struct store *store, struct str tenant, struct str csid, int64_t *out_task, struct err *err)
{
    (void)err;
    *out_task = 0;
    MAP_EACH (&mem(store)->changesets, e) {
        const struct changeset *row = e->value;
        if (str_eq(row->tenant, tenant) && str_eq(row->csid, csid))
            *out_task = row->task;
    }
    return true;
}

static bool mem_changeset_of_hash(
    struct store *store, struct str tenant, const uint8_t hash[32], int64_t *out_task, struct err *err)
{
    (void)err;
    *out_task = 0;
    MAP_EACH (&mem(store)->changesets, e) {
        const struct changeset *row = e->value;
        if (str_eq(row->tenant, tenant) && memcmp(row->hash, hash, sizeof row->hash) == 0 && row->task > *out_task)
            *out_task = row->task;
    }
    return true;
}

static bool mem_changeset_file_near(struct store *store, struct arena *arena, int64_t lane, bool applied,
    struct str path, int64_t rank, bool after, struct changeset_file *out, bool *out_found, struct err *err)
{
    const struct memstore *m = mem(store);
    const struct changeset_file *near = NULL;
    (void)err;
    for (size_t i = 0; i < m->n_changeset_files; i++) {
        const struct changeset_file *file = &m->changeset_files[i];
        if (file->lane != lane || file->applied != applied || !str_eq(file->path, path))
            continue;
        if (after ? file->rank > rank && (!near || file->rank < near->rank)
                  : file->rank < rank && (!near || file->rank > near->rank))
            near = file;
    }
    *out_found = near != NULL;
    if (near) {
        *out = *near;
        row_copy_changeset_file(arena, out);
    }
    return true;
}

static bool mem_changesets_open(
    struct store *store, struct arena *arena, int64_t lane, size_t n, int64_t **out, size_t *out_n, struct err *err)
{
    const struct memstore *m = mem(store);
    size_t cap = 0;
    (void)err;
    *out = NULL;
    *out_n = 0;
    for (size_t i = 0; i < m->n_changeset_files && *out_n < n; i++) {
        const struct changeset_file *file = &m->changeset_files[i];
        if (file->lane == lane && !file->applied)
            *ARENA_PUSH(arena, *out, *out_n, cap) = file->task;
    }
    return true;
}

void changeset_ops_add(struct store_ops *ops)
{
    ops->load_changeset = mem_changeset;
    ops->changeset_find = mem_changeset_find;
    ops->changeset_of_hash = mem_changeset_of_hash;
    ops->changeset_file_near = mem_changeset_file_near;
    ops->changesets_open = mem_changesets_open;
}
