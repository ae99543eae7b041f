/* row_copy: rows that outlive what they were read from: what each type of rows.def has besides numbers. */
#include "store/row_copy.h"

#include "store/rows.h"

static struct str text_copy(struct arena *arena, struct str text)
{
    return text.len ? str_dup(arena, text) : (struct str){ 0 };
}

static struct label *labels_copy(struct arena *arena, const struct label *labels, size_t n)
{
    struct label *copy = n ? ARENA_ARRAY(arena, struct label, n) : NULL;
    for (size_t i = 0; i < n; i++)
        copy[i] = (struct label){ text_copy(arena, labels[i].name), text_copy(arena, labels[i].value) };
    return copy;
}

static const int64_t *numbers_copy(struct arena *arena, const int64_t *numbers, size_t n)
{
    int64_t *copy = n ? ARENA_ARRAY(arena, int64_t, n) : NULL;
    if (n)
        memcpy(copy, numbers, n * sizeof *copy);
    return copy;
}

#define COPY(column, type, member, role) COPY_##type(member)
#define COPY_number(member)
#define COPY_maybe(member)
#define COPY_archive_kind(member)
#define COPY_revision_state(member)
#define COPY_movetype(member)
#define COPY_state(member)
#define COPY_bytes(member)
#define COPY_hash(member)
#define COPY_text(member) row->member = text_copy(arena, row->member);
#define COPY_labels(member) row->member = labels_copy(arena, row->member, row->n_##member);
#define COPY_numbers(member) row->member = numbers_copy(arena, row->member, row->n_##member);
#define COPY_list(member) COPY_numbers(member)
#define COPY_lock(member) COPY_numbers(member)
#define COPY_rest(member) \
    COPY_text(reason) \
    COPY_text(unique)
#define ROW_COPIER(table, type) \
    void row_copy_##table(struct arena *arena, struct type *row) \
    { \
        ROW_##table(COPY) \
    }
ROW_COPIES(ROW_COPIER)
