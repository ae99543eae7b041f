/* cells: what a column can't hold by itself, as bytes: the rest of a task, lists of labels and of numbers. See cells.h.
 */
#include "store/cells.h"

#include <stddef.h>
#include <string.h>

#include "base/err.h"

struct str state_text(enum task_state state)
{
    static const char letters[STATE_COUNT] = {
#define X(name, letter, word, ended) [STATE_##name] = letter,
        TASK_STATES(X)
#undef X
    };
    return state == STATE_NONE ? (struct str){ 0 } : (struct str){ &letters[state], 1 };
}

/* A task's `rest`: the number of cells, then each as a varint; cells at the end that are 0 aren't written; then the
 * bytes of the texts. Numbers are folded so that small negative ones stay short; times are told from `created`. A cell
 * more goes to the end of its group in no released store: there is a migration for that. */
static const size_t rest_numbers[] = {
    offsetof(struct task, spec),
    offsetof(struct task, class_id),
    offsetof(struct task, created),
    offsetof(struct task, vt),
    offsetof(struct task, grant),
    offsetof(struct task, attempts),
    offsetof(struct task, last_turn),
    offsetof(struct task, waits),
    offsetof(struct task, out),
    offsetof(struct task, ins),
    offsetof(struct task, prio),
    offsetof(struct task, not_before),
    offsetof(struct task, base),
    offsetof(struct task, cause),
};
static const size_t rest_times[] = { offsetof(struct task, ready), offsetof(struct task, started),
    offsetof(struct task, finished) };
enum {
    REST_NUMBERS = sizeof rest_numbers / sizeof rest_numbers[0],
    REST_TIMES = sizeof rest_times / sizeof rest_times[0],
    REST_OUTCOME = REST_NUMBERS + REST_TIMES,
    REST_ENDING,
    REST_HOLDS,
    REST_MARKS,
    REST_REASON,
    REST_UNIQUE,
    REST_CELLS,
    VARINT_BYTES_MAX = 10,
};

static inline uint64_t fold(int64_t n)
{
    return (uint64_t)n << 1 ^ (uint64_t)(n >> 63);
}

static inline int64_t unfold(uint64_t n)
{
    return (int64_t)(n >> 1) ^ -(int64_t)(n & 1);
}

static inline int64_t *task_number(struct task *task, size_t offset)
{
    return (int64_t *)(void *)((char *)task + offset);
}

static inline int64_t task_number_of(const struct task *task, size_t offset)
{
    int64_t n;
    memcpy(&n, (const char *)task + offset, sizeof n);
    return n;
}

void task_pack(struct buf *out, const struct task *task)
{
    uint64_t cells[REST_CELLS];
    for (size_t i = 0; i < REST_NUMBERS; i++)
        cells[i] = fold(task_number_of(task, rest_numbers[i]));
    for (size_t i = 0; i < REST_TIMES; i++) {
        int64_t time = task_number_of(task, rest_times[i]);
        cells[REST_NUMBERS + i] = time ? fold((int64_t)((uint64_t)time - (uint64_t)task->created)) + 1 : 0;
    }
    cells[REST_OUTCOME] = task->outcome;
    cells[REST_ENDING] = task->ending;
    cells[REST_HOLDS] = task->holds;
    cells[REST_MARKS] = task->marks;
    cells[REST_REASON] = task->reason.len;
    cells[REST_UNIQUE] = task->unique.len;
    size_t n = REST_CELLS;
    while (n > 0 && cells[n - 1] == 0)
        n--;
    unsigned char *start = (unsigned char *)buf_reserve(out, 1 + VARINT_BYTES_MAX * n), *at = start;
    ASSERT(at);
    *at++ = (unsigned char)n;
    for (size_t i = 0; i < n; i++) {
        uint64_t cell = cells[i];
        for (; cell >= 0x80; cell >>= 7)
            *at++ = (unsigned char)(cell | 0x80);
        *at++ = (unsigned char)cell;
    }
    buf_commit(out, (size_t)(at - start));
    buf_add_str(out, task->reason);
    buf_add_str(out, task->unique);
}

bool task_unpack(struct str rest, struct task *out)
{
    uint64_t cells[REST_CELLS] = { 0 }, n;
    if (!str_cut_varint(&rest, &n) || n > REST_CELLS)
        return false;
    for (size_t i = 0; i < n; i++)
        if (!str_cut_varint(&rest, &cells[i]))
            return false;
    if (cells[REST_OUTCOME] >= OUTCOME_COUNT || cells[REST_ENDING] >= STATE_COUNT || cells[REST_REASON] > rest.len ||
        cells[REST_UNIQUE] != rest.len - cells[REST_REASON])
        return false;
    for (size_t i = 0; i < REST_NUMBERS; i++)
        *task_number(out, rest_numbers[i]) = unfold(cells[i]);
    for (size_t i = 0; i < REST_TIMES; i++) {
        uint64_t cell = cells[REST_NUMBERS + i];
        *task_number(out, rest_times[i]) = cell ? (int64_t)((uint64_t)unfold(cell - 1) + (uint64_t)out->created) : 0;
    }
    out->outcome = (enum outcome)cells[REST_OUTCOME];
    out->ending = (enum task_state)cells[REST_ENDING];
    out->holds = (unsigned)cells[REST_HOLDS];
    out->marks = (unsigned)cells[REST_MARKS];
    out->reason = str_sub(rest, 0, (size_t)cells[REST_REASON]);
    out->unique = str_sub(rest, (size_t)cells[REST_REASON], rest.len);
    return true;
}

/* Lists in one column: the number of entries, then each; all as varints, text with its length before it. */
static void text_pack(struct buf *out, struct str s)
{
    buf_add_varint(out, s.len);
    buf_add_str(out, s);
}

void labels_pack(struct buf *out, const struct label *labels, size_t n)
{
    buf_add_varint(out, n);
    for (size_t i = 0; i < n; i++) {
        text_pack(out, labels[i].name);
        text_pack(out, labels[i].value);
    }
}

static bool text_unpack(struct str *rest, struct arena *arena, struct str *out)
{
    uint64_t len;
    if (!str_cut_varint(rest, &len) || len > rest->len)
        return false;
    *out = str_dup(arena, str_sub(*rest, 0, (size_t)len));
    *rest = str_sub(*rest, (size_t)len, rest->len);
    return true;
}

bool labels_unpack(struct str bytes, struct arena *arena, struct label **out, size_t *out_n)
{
    uint64_t n;
    if (!str_cut_varint(&bytes, &n) || n > bytes.len)
        return false;
    *out = n ? ARENA_ARRAY(arena, struct label, (size_t)n) : NULL;
    *out_n = (size_t)n;
    for (size_t i = 0; i < n; i++)
        if (!text_unpack(&bytes, arena, &(*out)[i].name) || !text_unpack(&bytes, arena, &(*out)[i].value))
            return false;
    return bytes.len == 0;
}

void numbers_pack(struct buf *out, const int64_t *numbers, size_t n)
{
    buf_add_varint(out, n);
    for (size_t i = 0; i < n; i++)
        buf_add_varint(out, (uint64_t)numbers[i]);
}

bool numbers_unpack(struct str bytes, struct arena *arena, int64_t **out, size_t *out_n)
{
    uint64_t n;
    if (!str_cut_varint(&bytes, &n) || n > bytes.len)
        return false;
    *out = n ? ARENA_ARRAY(arena, int64_t, (size_t)n) : NULL;
    *out_n = (size_t)n;
    for (size_t i = 0; i < n; i++) {
        uint64_t number;
        if (!str_cut_varint(&bytes, &number))
            return false;
        (*out)[i] = (int64_t)number;
    }
    return bytes.len == 0;
}

void lock_pack(struct buf *out, const struct archive *archive)
{
    buf_add_varint(out, archive->n_lock_shared + 1);
    buf_add_varint(out, (uint64_t)archive->lock_exclusive);
    for (size_t i = 0; i < archive->n_lock_shared; i++)
        buf_add_varint(out, (uint64_t)archive->lock_shared[i]);
}

bool lock_unpack(struct str bytes, struct arena *arena, struct archive *out)
{
    int64_t *users;
    size_t n;
    if (!numbers_unpack(bytes, arena, &users, &n) || n == 0)
        return false;
    out->lock_exclusive = users[0];
    out->lock_shared = users + 1;
    out->n_lock_shared = n - 1;
    return true;
}
