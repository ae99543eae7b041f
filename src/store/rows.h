/* rows: how a row of rows.def is written and read, cell by cell, whatever keeps it; private to store.
 *
 * Who writes defines PUT_NUMBER(n), PUT_TEXT(str), PUT_BLOB(str), PUT_NULL() and PUT_REST(task), and has `row`, and
 * `packed` (a struct buf * for what is packed: a row has one such cell at most); ROW_PUT is then one column. Who reads
 * defines GET_NUMBER(), GET_VIEW() and GET_TEXT(), has `row`, `arena` and `ok`, which becomes false for a cell that no
 * build of ours can have written; ROW_GET is one column. The lists are expanded, not interpreted: a row costs what it
 * would cost written out by hand. */
#ifndef WEIR_STORE_ROWS_H
#define WEIR_STORE_ROWS_H

#include <string.h>

#include "store/cells.h"
#include "store/rows.def"
#include "store/store.h"

#define ROW_PLUS_ONE(column, type, member, role) +1
#define ROW_COUNT(table) (0 ROW_##table(ROW_PLUS_ONE)) /* of its columns */

/* --- by role --- */

#define ROW_IF_KEY_KEY(...) __VA_ARGS__
#define ROW_IF_KEY_ONCE(...)
#define ROW_IF_KEY_TOLD(...)
#define ROW_IF_KEY_FREE(...)
#define ROW_IF_KEY_COUNT(...)

#define ROW_IF_ONCE_KEY(...)
#define ROW_IF_ONCE_ONCE(...) __VA_ARGS__
#define ROW_IF_ONCE_TOLD(...)
#define ROW_IF_ONCE_FREE(...)
#define ROW_IF_ONCE_COUNT(...)

#define ROW_IF_LATER_KEY(...) __VA_ARGS__ /* what an update names: all but ONCE */
#define ROW_IF_LATER_ONCE(...)
#define ROW_IF_LATER_TOLD(...) __VA_ARGS__
#define ROW_IF_LATER_FREE(...) __VA_ARGS__
#define ROW_IF_LATER_COUNT(...) __VA_ARGS__

#define ROW_IF_TOLD_KEY(...) /* under the tag, behind the key */
#define ROW_IF_TOLD_ONCE(...) __VA_ARGS__
#define ROW_IF_TOLD_TOLD(...) __VA_ARGS__
#define ROW_IF_TOLD_FREE(...)
#define ROW_IF_TOLD_COUNT(...)

/* An attempt's poll_seq and forgotten in one column: a forgotten one is -2 less its number. */
static inline int64_t poll_seq_pack(const struct attempt *a)
{
    return a->forgotten ? -2 - a->poll_seq : a->poll_seq;
}

static inline void poll_seq_unpack(int64_t stored, struct attempt *out)
{
    out->forgotten = stored < -1;
    out->poll_seq = out->forgotten ? -2 - stored : stored;
}

/* --- writing --- */

#define ROW_PUT(column, type, member, role) ROW_PUT_##type(member)
#define ROW_PUT_KEY(column, type, member, role) ROW_IF_KEY_##role(ROW_PUT_##type(member))
#define ROW_PUT_TOLD(column, type, member, role) ROW_IF_TOLD_##role(ROW_PUT_##type(member))
#define ROW_PUT_LATER(column, type, member, role) ROW_IF_LATER_##role(ROW_PUT_##type(member))

#define ROW_PUT_number(member) PUT_NUMBER((int64_t)row->member);
#define ROW_PUT_maybe(member) \
    if (row->member) \
        PUT_NUMBER(row->member); \
    else \
        PUT_NULL();
#define ROW_PUT_negated(member) PUT_NUMBER(-row->member);
#define ROW_PUT_archive_kind(member) PUT_NUMBER(row->member);
#define ROW_PUT_revision_state(member) PUT_NUMBER(row->member);
#define ROW_PUT_movetype(member) PUT_NUMBER(row->member);
#define ROW_PUT_poll_seq(member) PUT_NUMBER(poll_seq_pack(row));
#define ROW_PUT_text(member) PUT_TEXT(row->member);
#define ROW_PUT_state(member) PUT_TEXT(state_text(row->member));
#define ROW_PUT_outcome(member) PUT_TEXT(str_of(outcome_name(row->member)));
#define ROW_PUT_blob(member) PUT_BLOB(row->member);
#define ROW_PUT_bytes(member) PUT_BLOB(((struct str){ (const char *)row->member, sizeof row->member }));
#define ROW_PUT_hash(member) ROW_PUT_bytes(member)
#define ROW_PUT_labels(member) ROW_PUT_PACKED(labels_pack(packed, row->member, row->n_##member))
#define ROW_PUT_numbers(member) ROW_PUT_PACKED(numbers_pack(packed, row->member, row->n_##member))
#define ROW_PUT_list(member) ROW_PUT_PACKED(if (row->n_##member) numbers_pack(packed, row->member, row->n_##member))
#define ROW_PUT_lock(member) ROW_PUT_PACKED(lock_pack(packed, row))
#define ROW_PUT_rest(member) PUT_REST(row);
#define ROW_PUT_PACKED(pack) \
    buf_reset(packed); \
    pack; \
    PUT_BLOB(buf_str(packed));

/* What is counted of the head hasn't changed. */
#define ROW_SAME(column, type, member, role) ROW_SAME_##type(member)
#define ROW_SAME_number(member) &&a->member == b->member
#define ROW_SAME_hash(member) &&memcmp(a->member, b->member, sizeof a->member) == 0
static inline bool row_head_same(const struct store_head *a, const struct store_head *b)
{
    return true ROW_head(ROW_SAME);
}

/* The columns' letters for an array of PostgreSQL. */
#define ROW_LETTER(column, type, member, role) ROW_LETTER_##type
#define ROW_LETTER_KEY(column, type, member, role) ROW_IF_KEY_##role(ROW_LETTER_##type)
#define ROW_LETTER_LATER(column, type, member, role) ROW_IF_LATER_##role(ROW_LETTER_##type)
#define ROW_LETTER_number "i"
#define ROW_LETTER_maybe "i"
#define ROW_LETTER_negated "i"
#define ROW_LETTER_archive_kind "i"
#define ROW_LETTER_revision_state "i"
#define ROW_LETTER_movetype "i"
#define ROW_LETTER_poll_seq "i"
#define ROW_LETTER_text "t"
#define ROW_LETTER_state "t"
#define ROW_LETTER_outcome "t"
#define ROW_LETTER_blob "b"
#define ROW_LETTER_bytes "b"
#define ROW_LETTER_hash "b"
#define ROW_LETTER_labels "b"
#define ROW_LETTER_numbers "b"
#define ROW_LETTER_list "b"
#define ROW_LETTER_lock "b"
#define ROW_LETTER_rest "b"

/* --- reading --- */

static inline bool row_bytes(struct str view, void *out, size_t n) /* zeros when the cell has another size */
{
    memset(out, 0, n);
    if (view.len == n)
        memcpy(out, view.ptr, n);
    return view.len == n;
}

static inline enum task_state row_state(struct str view)
{
    return view.len == 1 ? state_of_letter(view.ptr[0]) : STATE_NONE;
}

static inline bool row_numbers(struct str view, struct arena *arena, const int64_t **out, size_t *out_n)
{
    int64_t *numbers = NULL;
    bool ok = numbers_unpack(view, arena, &numbers, out_n);
    *out = numbers;
    return ok;
}

static inline bool row_rest(struct str view, struct arena *arena, struct task *out)
{
    if (!task_unpack(view, out))
        return false;
    out->reason = out->reason.len ? str_dup(arena, out->reason) : (struct str){ 0 };
    out->unique = out->unique.len ? str_dup(arena, out->unique) : (struct str){ 0 };
    return true;
}

#define ROW_GET(column, type, member, role) ROW_GET_##type(member)

#define ROW_GET_number(member) row->member = (__typeof__(row->member))GET_NUMBER();
#define ROW_GET_maybe(member) ROW_GET_number(member)
#define ROW_GET_archive_kind(member) \
    ROW_GET_number(member) \
    ok &= row->member > ARCHIVE_NONE && row->member < ARCHIVE_KIND_COUNT;
#define ROW_GET_revision_state(member) \
    ROW_GET_number(member) \
    ok &= row->member > REVISION_NONE && row->member < REVISION_STATE_COUNT;
#define ROW_GET_movetype(member) \
    ROW_GET_number(member) \
    ok &= row->member > MOVE_NONE && row->member < MOVE_COUNT;
#define ROW_GET_poll_seq(member) poll_seq_unpack(GET_NUMBER(), row);
#define ROW_GET_text(member) row->member = GET_TEXT();
#define ROW_GET_blob(member) row->member = GET_TEXT();
#define ROW_GET_state(member) ok &= (row->member = row_state(GET_VIEW())) != STATE_NONE;
#define ROW_GET_outcome(member) row->member = outcome_find(GET_VIEW());
#define ROW_GET_bytes(member) (void)row_bytes(GET_VIEW(), row->member, sizeof row->member);
#define ROW_GET_hash(member) ok &= row_bytes(GET_VIEW(), row->member, sizeof row->member);
#define ROW_GET_labels(member) ok &= labels_unpack(GET_VIEW(), arena, &row->member, &row->n_##member);
#define ROW_GET_numbers(member) ok &= row_numbers(GET_VIEW(), arena, &row->member, &row->n_##member);
#define ROW_GET_list(member) \
    struct str view_##member = GET_VIEW(); \
    ok &= !view_##member.len || row_numbers(view_##member, arena, &row->member, &row->n_##member);
#define ROW_GET_lock(member) ok &= lock_unpack(GET_VIEW(), arena, row);
#define ROW_GET_rest(member) ok &= row_rest(GET_VIEW(), arena, row);

/* An attempt as a row of `live` or of `attempt` leaves it: what isn't known yet, or any more. */
static inline void attempt_is_live(struct attempt *a)
{
    a->exit = a->signal = a->cpu_ms = a->max_rss_bytes = a->log_bytes = -1;
}

static inline void attempt_is_over(struct attempt *a)
{
    a->poll_seq = -1;
    a->ended_before = true;
}

#endif
