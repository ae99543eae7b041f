/* verify_rows: what the history says of rows, folded, and rows compared with it. See verify_rows.h.
 *
 * Most tables: a hash table from a row's key to its tag. Those that grow with every task have less: the tag of a task's
 * row and the tags of its attempts' rows together (their xor) by its id; specs by ranges. Attempts that were lost are
 * the only ones whose row is written again: their tags are kept one by one too.
 *
 * Beside a running server rows come and go while a table is walked: each step folds first what was committed, so that a
 * row is compared with what its snapshot must have; a row that came after the walk began need not be met, one that was
 * there before must be. */
#include "store/verify_rows.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

#define KNOWN (UINT64_C(1) << 63) /* a tag is known: the row is there */
#define SEEN (UINT64_C(1) << 62)  /* by the walk */
#define USED (UINT64_C(1) << 61)  /* of a slot: also when its row was removed */

/* --- tables --- */

static uint64_t pair_key(int64_t a, int64_t b)
{
    uint64_t x = (uint64_t)a * 0x9e3779b97f4a7c15u ^ (uint64_t)b * 0xc2b2ae3d27d4eb4fu;
    return x ^ x >> 29;
}

static struct known_tag *slot_of(const struct known_table *t, uint64_t key)
{
    uint64_t x = key * 0xbf58476d1ce4e5b9u;
    for (size_t i = (size_t)(x ^ x >> 32) & (t->n_slots - 1);; i = (i + 1) & (t->n_slots - 1))
        if (!(t->slots[i].tag & USED) || t->slots[i].key == key)
            return &t->slots[i];
}

/* Room for one more; rows that were removed aren't taken along. */
static void table_grow(struct known_table *t)
{
    struct known_table old = *t;
    size_t n = 0;
    if (t->n_slots && t->n_used < t->n_slots / 2)
        return;
    for (size_t i = 0; i < old.n_slots; i++)
        n += (old.slots[i].tag & KNOWN) != 0;
    t->n_slots = 64;
    while (t->n_slots < 4 * n)
        t->n_slots *= 2;
    t->slots = mem_alloc_zero(t->n_slots * sizeof *t->slots);
    t->n_used = n;
    for (size_t i = 0; i < old.n_slots; i++)
        if (old.slots[i].tag & KNOWN)
            *slot_of(t, old.slots[i].key) = old.slots[i];
    mem_free(old.slots);
}

static void table_put(struct known_table *t, uint64_t key, uint64_t tag)
{
    table_grow(t);
    struct known_tag *slot = slot_of(t, key);
    uint64_t seen = slot->tag & KNOWN ? slot->tag & SEEN : t->walking ? SEEN : 0;
    t->n_used += !(slot->tag & USED);
    *slot = (struct known_tag){ key, tag | KNOWN | USED | seen };
}

static struct known_tag *table_find(const struct known_table *t, uint64_t key)
{
    struct known_tag *slot = t->n_slots ? slot_of(t, key) : NULL;
    return slot && slot->tag & KNOWN ? slot : NULL;
}

static void table_clear(struct known_table *t)
{
    mem_free(t->slots);
    *t = (struct known_table){ .walking = t->walking };
}

/* --- the history --- */

void rows_known_init(struct rows_known *k, const uint8_t key[CHAIN_KEY_BYTES])
{
    *k = (struct rows_known){ .whole = true };
    tagger_init(&k->tagger, key);
    for (size_t i = 0; i < sizeof k->key_texts / sizeof k->key_texts[0]; i++)
        buf_init(&k->key_texts[i], SIZE_MAX);
}

void rows_known_release(struct rows_known *k)
{
    for (size_t i = 0; i < TAG_COUNT; i++)
        mem_free(k->tables[i].slots);
    for (size_t i = 0; i < sizeof k->key_texts / sizeof k->key_texts[0]; i++)
        buf_release(&k->key_texts[i]);
    mem_free(k->tasks);
    mem_free(k->attempts);
    mem_free(k->ranges);
    tagger_release(&k->tagger);
}

static bool task_room(struct rows_known *k, int64_t task)
{
    if (task <= 0 || task > INT64_C(1) << 40)
        return false;
    if ((size_t)task >= k->n_tasks) {
        size_t n = k->n_tasks ? k->n_tasks : 1024;
        while (n <= (size_t)task)
            n *= 2;
        k->tasks = mem_realloc(k->tasks, n * sizeof *k->tasks);
        k->attempts = mem_realloc(k->attempts, n * sizeof *k->attempts);
        memset(k->tasks + k->n_tasks, 0, (n - k->n_tasks) * sizeof *k->tasks);
        memset(k->attempts + k->n_tasks, 0, (n - k->n_tasks) * sizeof *k->attempts);
        k->n_tasks = n;
    }
    return true;
}

void rows_created(struct rows_known *k, int64_t task)
{
    if (task_room(k, task))
        k->attempts[task] = KNOWN;
}

void rows_forget(struct rows_known *k)
{
    k->whole = false;
    for (size_t i = 0; i < TAG_COUNT; i++)
        table_clear(&k->tables[i]);
    if (k->n_tasks) {
        memset(k->tasks, 0, k->n_tasks * sizeof *k->tasks);
        memset(k->attempts, 0, k->n_tasks * sizeof *k->attempts);
    }
}

/* An attempt's row goes: only one that was lost is known by itself. */
static void attempt_undo(struct rows_known *k, int64_t task, int64_t grant, bool sure)
{
    struct known_tag *lost = table_find(&k->tables[TAG_attempt], pair_key(task, grant));
    if (lost) {
        k->attempts[task] ^= lost->tag & TAG_MASK;
        lost->tag &= ~KNOWN;
    } else if (sure) {
        k->attempts[task] = 0; /* not known any more */
    }
    if (k->tables[TAG_attempt].walking && k->at == TAG_attempt && task == k->last && (lost || sure))
        k->attempts[task] = 0; /* the walk is among its rows, and may have met the one that went */
}

static bool attempt_fold(struct rows_known *k, const struct tag_entry *e)
{
    uint64_t key = pair_key(e->a, e->b);
    if (!task_room(k, e->a))
        return false;
    if (e->table == TAG_live) {
        struct known_tag *was = table_find(&k->tables[TAG_live], key);
        if (e->op == TAG_REMOVE && was)
            was->tag &= ~KNOWN;
        else if (e->op != TAG_REMOVE)
            table_put(&k->tables[TAG_live], key, e->tag);
        attempt_undo(k, e->a, e->b, false);
        return true;
    }
    struct known_tag *live = table_find(&k->tables[TAG_live], key);
    if (live)
        live->tag &= ~KNOWN;
    attempt_undo(k, e->a, e->b, e->op == TAG_AGAIN && !live);
    k->attempts[e->a] ^= e->tag;
    if (e->op == TAG_AGAIN)
        table_put(&k->tables[TAG_attempt], key, e->tag);
    return true;
}

static bool range_fold(struct rows_known *k, const struct tag_entry *e)
{
    if (e->b <= 0 || e->a < 0 || e->a > INT64_MAX - e->b)
        return false;
    if (k->n_ranges == k->cap_ranges) {
        k->cap_ranges = k->cap_ranges ? 2 * k->cap_ranges : 256;
        k->ranges = mem_realloc(k->ranges, k->cap_ranges * sizeof *k->ranges);
    }
    bool late = k->tables[TAG_spec].walking && e->a <= k->last; /* the walk has passed it */
    k->ranges[k->n_ranges++] = (struct known_range){ .first = e->a, .n = e->b, .fold = e->tag, .late = late };
    return true;
}

static void results_drop(struct rows_known *k, int64_t task, const int32_t *grants, size_t n_grants)
{
    struct known_tag *row = table_find(&k->tables[TAG_outputs], (uint64_t)task);
    if (row)
        row->tag &= ~KNOWN;
    for (int64_t grant = 1; (size_t)task < n_grants && grant <= grants[task]; grant++)
        if ((row = table_find(&k->tables[TAG_log_tail], pair_key(task, grant))) != NULL)
            row->tag &= ~KNOWN;
}

static bool entry_fold(struct rows_known *k, const struct tag_entry *e, const int32_t *grants, size_t n_grants)
{
    if (e->table == TAG_task) {
        if (!task_room(k, e->a))
            return false;
        k->tasks[e->a] = e->tag | KNOWN;
        return true;
    }
    if (e->table == TAG_attempt || e->table == TAG_live)
        return attempt_fold(k, e);
    if (e->table == TAG_spec)
        return range_fold(k, e);
    if (e->table == TAG_outputs && e->op == TAG_REMOVE && e->a > 0) {
        results_drop(k, e->a, grants, n_grants);
        return true;
    }
    enum tag_key how = tag_facts[e->table].key;
    uint64_t key = how == TAG_KEY_HASH ? e->id : how == TAG_KEY_PAIR ? pair_key(e->a, e->b) : (uint64_t)e->a;
    if (e->op == TAG_PUT || e->op == TAG_AGAIN) {
        table_put(&k->tables[e->table], key, e->tag);
        return true;
    }
    struct known_tag *row = table_find(&k->tables[e->table], key);
    if (row && (e->op == TAG_REMOVE || (row->tag & TAG_MASK) == e->tag))
        row->tag &= ~KNOWN;
    return true;
}

bool rows_fold(struct rows_known *k, struct str tags, const int32_t *grants, size_t n_grants)
{
    struct tag_reader reader;
    struct tag_entry entry;
    bool bad;
    if (!tags_open(&reader, tags))
        return false;
    while (tags_next(&reader, &entry, &bad))
        if (!entry_fold(k, &entry, grants, n_grants))
            return false;
    return !bad;
}

/* --- rows --- */

static bool fault(char *out, size_t size, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static bool fault(char *out, size_t size, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(out, size, fmt, args);
    va_end(args);
    return false;
}

static int column_find(const char *columns, struct str name)
{
    struct str rest = str_of(columns), word;
    for (int i = 0; rest.len; i++) {
        if (!str_cut(&rest, ' ', &word)) {
            word = rest;
            rest = (struct str){ 0 };
        }
        if (str_eq(word, name))
            return i;
    }
    return -1;
}

static int range_order(const void *a, const void *b)
{
    int64_t x = ((const struct known_range *)a)->first, y = ((const struct known_range *)b)->first;
    return x < y ? -1 : x > y;
}

void rows_walk_begin(struct rows_known *k, enum tag_table table, const char *columns, const char *types, int n_key)
{
    struct str rest = str_of(tag_facts[table].columns), word;
    ASSERT(n_key <= (int)(sizeof k->key / sizeof k->key[0]));
    k->at = table;
    k->n_columns = 0;
    k->last = table == TAG_spec ? INT64_MIN : 0;
    k->fold = 0;
    k->tables[table].walking = true;
    for (size_t i = 0; i < k->tables[table].n_slots; i++)
        k->tables[table].slots[i].tag &= ~SEEN;
    while (rest.len) {
        if (!str_cut(&rest, ' ', &word)) {
            word = rest;
            rest = (struct str){ 0 };
        }
        int at = column_find(columns, word);
        ASSERT(at >= 0 && k->n_columns < COPY_COLUMNS_MAX);
        k->columns[k->n_columns++] = at;
    }
    for (int i = 0; i < n_key; i++)
        k->key[i] = (struct copy_cell){ .null = types[i] != 'i', .number = INT64_MIN };
}

static void cursor_set(struct rows_known *k, const struct copy_cell *cells)
{
    for (int i = 0; i < tag_facts[k->at].n_key; i++) {
        k->key[i].number = cells[i].number;
        if (!k->key[i].null)
            continue;
        buf_reset(&k->key_texts[i]);
        buf_add_str(&k->key_texts[i], cells[i].bytes);
        k->key[i].bytes = buf_str(&k->key_texts[i]);
    }
}

/* A cell that holds no number has a length. */
static uint64_t row_tag(struct rows_known *k, const struct copy_cell *cells, const char *types)
{
    struct tagger *t = &k->tagger;
    tag_begin(t, k->at);
    for (int i = 0; i < k->n_columns; i++) {
        const struct copy_cell *cell = &cells[k->columns[i]];
        if (types[k->columns[i]] == 'i')
            tag_number(t, cell->null ? 0 : cell->number);
        else
            tag_text(t, cell->bytes);
        if (i + 1 == tag_facts[k->at].n_key)
            tag_key_end(t);
    }
    return tag_of(t);
}

static bool attempts_compare(struct rows_known *k, int64_t upto, char *out, size_t size)
{
    for (; k->last < upto; k->last++, k->fold = 0)
        if (k->last > 0 && (size_t)k->last < k->n_tasks && k->attempts[k->last] & KNOWN &&
            (k->attempts[k->last] & TAG_MASK) != k->fold)
            return fault(out, size,
                "the attempts of task %" PRId64 " aren't those of the history: changed, added or removed", k->last);
    return true;
}

static bool attempt_check(struct rows_known *k, const struct copy_cell *cells, uint64_t tag, char *out, size_t size)
{
    if (cells[0].number < k->last || !attempts_compare(k, cells[0].number, out, size))
        return *out || fault(out, size, "there is an attempt of a task %" PRId64, cells[0].number);
    k->fold ^= tag;
    return true;
}

static struct known_range *range_of(struct rows_known *k, int64_t id)
{
    if (k->n_sorted != k->n_ranges) {
        qsort(k->ranges, k->n_ranges, sizeof *k->ranges, range_order);
        k->n_sorted = k->n_ranges;
    }
    size_t low = 0, high = k->n_ranges;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (k->ranges[middle].first <= id)
            low = middle + 1;
        else
            high = middle;
    }
    struct known_range *range = low ? &k->ranges[low - 1] : NULL;
    return range && id - range->first < range->n ? range : NULL;
}

static bool spec_check(struct rows_known *k, int64_t id, uint64_t tag, char *out, size_t size)
{
    struct known_range *range = range_of(k, id);
    k->last = id;
    if (!range)
        return !k->whole || fault(out, size, "spec: there is a row %" PRId64 " that the history doesn't know", id);
    range->found ^= tag;
    range->n_found++;
    return true;
}

/* Keys may come in turns without events, and go without a word when they expire; the lane `all` may come with a
 * restore. */
static bool unknown_allowed(const struct rows_known *k, const struct copy_cell *cells)
{
    return !k->whole || k->at == TAG_idempotency || (k->at == TAG_lane && cells[0].number == 0);
}

bool rows_check(struct rows_known *k, const struct copy_cell *cells, const char *types, char *out, size_t size)
{
    const struct tag_facts *facts = &tag_facts[k->at];
    uint64_t tag = row_tag(k, cells, types);
    k->rows++;
    cursor_set(k, cells);
    if (k->at == TAG_attempt)
        return attempt_check(k, cells, tag, out, size);
    if (k->at == TAG_spec)
        return spec_check(k, cells[0].number, tag, out, size);
    if (k->at == TAG_task) {
        uint64_t known = cells[0].number > 0 && (size_t)cells[0].number < k->n_tasks ? k->tasks[cells[0].number] : 0;
        return !known || (known & TAG_MASK) == tag ||
               fault(out, size, "the row of task %" PRId64 " isn't as the history left it: it was changed",
                   cells[0].number);
    }
    uint64_t key = facts->key == TAG_KEY_HASH   ? tag_id_of(&k->tagger)
                   : facts->key == TAG_KEY_PAIR ? pair_key(cells[0].number, cells[1].number)
                                                : (uint64_t)cells[0].number;
    char name[64] = "";
    if (types[0] == 'i')
        snprintf(name, sizeof name, " %" PRId64, cells[0].number);
    else
        snprintf(
            name, sizeof name, " '%.*s'", (int)(cells[0].bytes.len < 40 ? cells[0].bytes.len : 40), cells[0].bytes.ptr);
    struct known_tag *known = table_find(&k->tables[k->at], key);
    if (!known)
        return unknown_allowed(k, cells) ||
               fault(out, size, "%s: there is a row%s that the history doesn't know", facts->table, name);
    known->tag |= SEEN;
    return (known->tag & TAG_MASK) == tag ||
           fault(out, size, "%s: the row%s isn't as the history left it: it was changed", facts->table, name);
}

static bool ranges_end(struct rows_known *k, char *out, size_t size)
{
    for (size_t i = 0; i < k->n_ranges; i++) {
        const struct known_range *range = &k->ranges[i];
        if (!range->late && (range->n_found != range->n || range->found != range->fold))
            return fault(out, size,
                "spec: of the rows %" PRId64 " to %" PRId64 " one isn't as the history left it: changed or removed",
                range->first, range->first + range->n - 1);
    }
    return true;
}

bool rows_walk_end(struct rows_known *k, char *out, size_t size)
{
    const struct known_table *t = &k->tables[k->at];
    k->tables[k->at].walking = false;
    if (k->at == TAG_attempt)
        return attempts_compare(k, (int64_t)k->n_tasks, out, size);
    if (k->at == TAG_spec)
        return ranges_end(k, out, size);
    for (size_t i = 0; i < t->n_slots && k->at != TAG_idempotency; i++)
        if (t->slots[i].tag & KNOWN && !(t->slots[i].tag & SEEN))
            return fault(out, size, "%s: a row that the history tells of isn't there", tag_facts[k->at].table);
    return true;
}
