/* tags: the rows that a turn writes, listed in the history beside its events. See tags.h.
 *
 * The list: a byte FORMAT, then each entry: table and operation as a varint, its key (differences to the entry before
 * of that table, as varints, or eight bytes), TAG_BYTES of tag where there is one. A single task that is created,
 * granted and ended costs about 60 bytes.
 *
 * A tag covers the columns of the row's key, then the others that have such a role in rows.def; `verify` reads them by
 * their names. */
#include "store/tags.h"

#include <endian.h>
#include <sodium.h>
#include <string.h>

#include "base/err.h"
#include "store/rows.h"

enum { FORMAT = 1, OPS = 4, ID_BYTES = 8, VARINT_MAX = 10, ENTRY_MAX = 3 * VARINT_MAX + 8 };

const struct tag_facts tag_facts[TAG_COUNT] = {
#define PLUS_KEY(column, type, member, role) ROW_IF_KEY_##role(+1)
#define NAME(column, type, member, role) ROW_IF_KEY_##role(#column " ") ROW_IF_TOLD_##role(#column " ")
#define X(table, type, key) { #table, TAG_KEY_##key, 0 ROW_##table(PLUS_KEY), ROW_##table(NAME) },
    ROW_TABLES(X)
#undef X
};

/* --- tags --- */

void tagger_init(struct tagger *t, const uint8_t key[CHAIN_KEY_BYTES])
{
    static const uint8_t what[] = "tags of rows";
    *t = (struct tagger){ 0 };
    crypto_generichash(t->key, sizeof t->key, what, sizeof what, key, CHAIN_KEY_BYTES);
    buf_init(&t->packed, SIZE_MAX);
    buf_init(&t->list, SIZE_MAX);
    buf_init(&t->rests, SIZE_MAX);
}

void tagger_release(struct tagger *t)
{
    mem_free(t->cells);
    mem_free(t->rest_ends);
    buf_release(&t->packed);
    buf_release(&t->list);
    buf_release(&t->rests);
    sodium_memzero(t->key, sizeof t->key);
}

static inline void room_make(struct tagger *t, size_t len)
{
    if (t->size - t->len >= len)
        return;
    while (t->size - t->len < len)
        t->size = t->size ? 2 * t->size : 1024;
    t->cells = mem_realloc(t->cells, t->size);
}

static inline uint64_t zigzag(int64_t n)
{
    return (uint64_t)n << 1 ^ (n < 0 ? UINT64_MAX : 0);
}

static inline uint8_t *varint_put(uint8_t *at, uint64_t n)
{
    for (; n >= 0x80; n >>= 7)
        *at++ = (uint8_t)(n | 0x80);
    *at++ = (uint8_t)n;
    return at;
}

void tag_begin(struct tagger *t, enum tag_table table)
{
    t->len = t->n_key = 0;
    room_make(t, 1);
    t->cells[t->len++] = (uint8_t)table;
}

/* In one piece with the functions below: some ten of them a row. */
static inline void number_put(struct tagger *t, int64_t n)
{
    room_make(t, VARINT_MAX);
    t->len = (size_t)(varint_put(t->cells + t->len, zigzag(n)) - t->cells);
}

static inline void text_put(struct tagger *t, struct str s)
{
    room_make(t, VARINT_MAX + s.len);
    t->len = (size_t)(varint_put(t->cells + t->len, s.len) - t->cells);
    if (s.len)
        memcpy(t->cells + t->len, s.ptr, s.len);
    t->len += s.len;
}

void tag_number(struct tagger *t, int64_t n)
{
    number_put(t, n);
}

void tag_text(struct tagger *t, struct str s)
{
    text_put(t, s);
}

void tag_key_end(struct tagger *t)
{
    t->n_key = t->len;
}

static uint64_t hash_of(const struct tagger *t, size_t len)
{
    uint64_t n;
    uint8_t hash[sizeof n];
    crypto_shorthash(hash, t->cells, len, t->key);
    memcpy(&n, hash, sizeof n);
    return le64toh(n);
}
_Static_assert(
    sizeof(((struct tagger *)0)->key) == crypto_shorthash_KEYBYTES && crypto_shorthash_BYTES == 8, "SipHash");

uint64_t tag_of(const struct tagger *t)
{
    return hash_of(t, t->len) & TAG_MASK;
}

uint64_t tag_id_of(const struct tagger *t)
{
    return hash_of(t, t->n_key);
}

/* --- the list --- */

struct packing {
    struct buf *out;
    struct tagger *t;
    int64_t last[TAG_COUNT];
};

/* The first bytes of n; there is room for all of them. */
static inline uint8_t *bytes_put(uint8_t *at, uint64_t n, size_t bytes)
{
    n = htole64(n);
    memcpy(at, &n, sizeof n);
    return at + bytes;
}

static void entry_add(struct packing *p, enum tag_table table, enum tag_op op, int64_t a, int64_t b, uint64_t tag)
{
    enum tag_key key = tag_facts[table].key;
    uint8_t *start = (uint8_t *)buf_reserve(p->out, ENTRY_MAX), *at = start;
    ASSERT(at);
    at = varint_put(at, (uint64_t)table * OPS + op);
    if (key == TAG_KEY_HASH) {
        at = bytes_put(at, tag_id_of(p->t), ID_BYTES);
    } else {
        at = varint_put(at, zigzag((int64_t)((uint64_t)a - (uint64_t)p->last[table])));
        p->last[table] = a;
        if (key != TAG_KEY_ID)
            at = varint_put(at, (uint64_t)b);
    }
    if (op != TAG_REMOVE)
        at = bytes_put(at, tag, TAG_BYTES);
    buf_commit(p->out, (size_t)(at - start));
}

/* The row at hand. */
static void row_add(struct packing *p, enum tag_table table, enum tag_op op, int64_t a, int64_t b)
{
    entry_add(p, table, op, a, b, tag_of(p->t));
}

/* --- rows --- */

/* The store writes the same bytes. */
static void rest_put(struct tagger *t, const struct task *task)
{
    size_t start = t->rests.len;
    task_pack(&t->rests, task);
    t->rest_ends[t->n_rests++] = t->rests.len;
    text_put(t, (struct str){ t->rests.ptr + start, t->rests.len - start });
}

#define PUT_NUMBER(value) number_put(t, value)
#define PUT_TEXT(text) text_put(t, text)
#define PUT_BLOB(bytes) text_put(t, bytes)
#define PUT_NULL() number_put(t, 0)
#define PUT_REST(task) rest_put(t, task)
#define ROW_TAGGER(table, type, key) \
    static void tag_##table(struct tagger *t, const struct type *row) \
    { \
        struct buf *packed = &t->packed; \
        (void)packed; \
        tag_begin(t, TAG_##table); \
        ROW_##table(ROW_PUT_KEY) \
        tag_key_end(t); \
        ROW_##table(ROW_PUT_TOLD) \
    }
ROW_TABLES(ROW_TAGGER)

/* A list's rows; at: & where it has the rows themselves; a, b: the numbers of TAG_KEY_ID and TAG_KEY_PAIR. */
#define ROWS_TAGGER(table, type, list, at, a, b) \
    static void tags_##table(struct packing *p, enum tag_op op, const struct type list rows, size_t n) \
    { \
        for (size_t i = 0; i < n; i++) { \
            const struct type *row = at rows[i]; \
            tag_##table(p->t, row); \
            row_add(p, TAG_##table, op, a, b); \
        } \
    }
ROWS_TAGGER(task, task, **, , row->id, 0)
ROWS_TAGGER(outputs, task_outputs, *, &, row->task, 0)
ROWS_TAGGER(log_tail, log_tail, *, &, row->task, row->grant)
ROWS_TAGGER(log_seal, log_seal, *, &, row->task, row->grant)
ROWS_TAGGER(edge, edge, *, &, 0, 0)
ROWS_TAGGER(hold, hold, *, &, 0, 0)
ROWS_TAGGER(unique_key, unique_claim, *, &, 0, 0)
ROWS_TAGGER(idempotency, idempotency, *, &, 0, 0)
ROWS_TAGGER(lane, lane, **, , row->id, 0)
ROWS_TAGGER(class, task_class, **, , row->id, 0)
ROWS_TAGGER(slot, slot, **, , row->id, 0)
ROWS_TAGGER(executor, executor, **, , row->id, 0)
ROWS_TAGGER(token, token, **, , row->id, 0)
ROWS_TAGGER(site, site_key, *, &, 0, 0)
ROWS_TAGGER(archive, archive, **, , row->lane, 0)
ROWS_TAGGER(revision, revision, *, &, row->lane, row->rev)
ROWS_TAGGER(latest, latest, *, &, 0, 0)
ROWS_TAGGER(schedule, schedule, *, &, 0, 0)
ROWS_TAGGER(changeset, changeset, **, , row->task, 0)
ROWS_TAGGER(changeset_file, changeset_file, *, &, 0, 0)

static void ids_tag(struct packing *p, enum tag_table table, const int64_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++)
        entry_add(p, table, TAG_REMOVE, ids[i], 0, 0);
}

static void specs_tag(struct packing *p, const struct changes *c)
{
    uint64_t fold = 0;
    for (size_t i = 0, first = 0; i < c->specs.n; i++) {
        const struct spec *spec = c->specs.at[i];
        tag_spec(p->t, spec);
        fold ^= tag_of(p->t);
        if (i + 1 < c->specs.n && c->specs.at[i + 1]->id == spec->id + 1)
            continue;
        entry_add(p, TAG_spec, TAG_PUT, c->specs.at[first]->id, (int64_t)(i + 1 - first), fold);
        first = i + 1;
        fold = 0;
    }
}

/* One that has ended leaves `live`, one that runs leaves `attempt`: the reader of the list knows that. */
static void attempts_tag(struct packing *p, const struct attempt *attempts, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct attempt *a = &attempts[i];
        bool again = a->ended_before || (a->finished && a->outcome == OUTCOME_lost);
        if (a->finished)
            tag_attempt(p->t, a);
        else
            tag_live(p->t, a);
        row_add(p, a->finished ? TAG_attempt : TAG_live, again ? TAG_AGAIN : TAG_PUT, a->task, a->grant);
    }
}

static void results_tag(struct packing *p, const struct changes *c)
{
    tags_outputs(p, TAG_PUT, c->outputs.at, c->outputs.n);
    tags_log_tail(p, TAG_PUT, c->logs.tails.at, c->logs.tails.n);
    tags_log_seal(p, TAG_PUT, c->logs.seals.at, c->logs.seals.n);
    for (size_t i = 0; i < c->logs.seals_remove.n; i++)
        entry_add(p, TAG_log_seal, TAG_REMOVE, c->logs.seals_remove.at[i].task, c->logs.seals_remove.at[i].grant, 0);
    ids_tag(p, TAG_outputs, c->results_remove.at, c->results_remove.n); /* and its log tails */
}

static void names_tag(struct packing *p, const struct changes *c)
{
    tags_lane(p, TAG_PUT, c->lanes.at, c->lanes.n);
    tags_class(p, TAG_PUT, c->classes.at, c->classes.n);
    ids_tag(p, TAG_class, c->classes_remove.at, c->classes_remove.n);
    tags_slot(p, TAG_PUT, c->slots.at, c->slots.n);
    ids_tag(p, TAG_slot, c->slots_remove.at, c->slots_remove.n);
}

static void site_tag(struct packing *p, const struct changes *c)
{
    tags_idempotency(p, TAG_PUT, c->idempotency.at, c->idempotency.n);
    tags_executor(p, TAG_PUT, c->executors.at, c->executors.n);
    ids_tag(p, TAG_executor, c->executors_remove.at, c->executors_remove.n);
    tags_token(p, TAG_PUT, c->tokens.at, c->tokens.n);
    ids_tag(p, TAG_token, c->tokens_remove.at, c->tokens_remove.n);
    tags_site(p, TAG_PUT, c->site.at, c->site.n);
}

static void archives_tag(struct packing *p, const struct changes *c)
{
    tags_archive(p, TAG_PUT, c->archives.at, c->archives.n);
    tags_revision(p, TAG_PUT, c->revisions.at, c->revisions.n);
    tags_latest(p, TAG_PUT, c->latest.at, c->latest.n);
    tags_schedule(p, TAG_REMOVE, c->schedules_remove.at, c->schedules_remove.n);
    tags_schedule(p, TAG_PUT, c->schedules.at, c->schedules.n);
}

static void changesets_tag(struct packing *p, const struct changes *c)
{
    tags_changeset(p, TAG_PUT, c->changesets.rows.at, c->changesets.rows.n);
    tags_changeset_file(p, TAG_REMOVE, c->changesets.files_remove.at, c->changesets.files_remove.n);
    tags_changeset_file(p, TAG_PUT, c->changesets.files_add.at, c->changesets.files_add.n);
}

static void rests_begin(struct tagger *t, size_t n)
{
    t->n_rests = 0;
    buf_reset(&t->rests);
    if (t->cap_rests < n) {
        t->cap_rests = 2 * n;
        t->rest_ends = mem_realloc(t->rest_ends, t->cap_rests * sizeof *t->rest_ends);
    }
}

struct str tags_rest(const struct tagger *t, size_t i)
{
    size_t start = i ? t->rest_ends[i - 1] : 0;
    ASSERT(i < t->n_rests);
    return (struct str){ t->rests.ptr + start, t->rest_ends[i] - start };
}

struct str tags_pack(struct tagger *t, const uint8_t key[CHAIN_KEY_BYTES], const struct changes *c)
{
    struct packing p = { .out = &t->list, .t = t };
    if (!t->packed.cap)
        tagger_init(t, key);
    rests_begin(t, c->tasks_new.n + c->tasks_changed.n);
    buf_reset(&t->list);
    buf_add_char(&t->list, FORMAT);
    names_tag(&p, c);
    specs_tag(&p, c);
    tags_task(&p, TAG_PUT, c->tasks_new.at, c->tasks_new.n);
    tags_task(&p, TAG_PUT, c->tasks_changed.at, c->tasks_changed.n);
    tags_edge(&p, TAG_PUT, c->edges_new.at, c->edges_new.n);
    tags_edge(&p, TAG_PUT, c->edges_changed.at, c->edges_changed.n);
    tags_hold(&p, TAG_REMOVE, c->holds_remove.at, c->holds_remove.n);
    tags_hold(&p, TAG_PUT, c->holds_add.at, c->holds_add.n);
    attempts_tag(&p, c->attempts_new.at, c->attempts_new.n);
    attempts_tag(&p, c->attempts_changed.at, c->attempts_changed.n);
    for (size_t i = 0; i < c->attempts_remove.n; i++)
        entry_add(&p, TAG_live, TAG_REMOVE, c->attempts_remove.at[i].task, c->attempts_remove.at[i].grant, 0);
    results_tag(&p, c);
    tags_unique_key(&p, TAG_REMOVE_SAME, c->unique_remove.at, c->unique_remove.n);
    tags_unique_key(&p, TAG_PUT, c->unique_add.at, c->unique_add.n);
    if (c->unique_add.n)
        tags_unique_key(&p, TAG_REMOVE_SAME, c->unique_remove.at, c->unique_remove.n);
    site_tag(&p, c);
    archives_tag(&p, c);
    changesets_tag(&p, c);
    return buf_str(&t->list);
}

/* Not executors: their rows are written with every beat, but the columns under their tag change only together with an
 * event. Nor idempotency keys, which a turn without events may write. */
bool changes_tagged(const struct changes *c)
{
    const size_t lists[] = { c->lanes.n, c->classes.n, c->classes_remove.n, c->specs.n, c->slots.n, c->slots_remove.n,
        c->tasks_new.n, c->tasks_changed.n, c->edges_new.n, c->edges_changed.n, c->holds_add.n, c->holds_remove.n,
        c->attempts_new.n, c->attempts_changed.n, c->attempts_remove.n, c->outputs.n, c->logs.tails.n, c->logs.seals.n,
        c->logs.seals_remove.n, c->results_remove.n, c->unique_add.n, c->unique_remove.n, c->tokens.n,
        c->executors_remove.n, c->tokens_remove.n, c->site.n, c->archives.n, c->revisions.n, c->latest.n,
        c->schedules.n, c->schedules_remove.n, c->changesets.rows.n, c->changesets.files_add.n,
        c->changesets.files_remove.n };
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        if (lists[i])
            return true;
    return false;
}

/* --- read --- */

bool tags_open(struct tag_reader *r, struct str tags)
{
    *r = (struct tag_reader){ 0 };
    if (tags.len == 0 || tags.ptr[0] != FORMAT)
        return false;
    r->rest = str_sub(tags, 1, tags.len);
    return true;
}

static bool bytes_cut(struct str *rest, size_t bytes, uint64_t *out)
{
    if (rest->len < bytes)
        return false;
    *out = 0;
    for (size_t i = 0; i < bytes; i++)
        *out |= (uint64_t)(unsigned char)rest->ptr[i] << 8 * i;
    *rest = str_sub(*rest, bytes, rest->len);
    return true;
}

static bool key_cut(struct tag_reader *r, enum tag_key key, struct tag_entry *out)
{
    uint64_t n, b = 0;
    if (key == TAG_KEY_HASH)
        return bytes_cut(&r->rest, ID_BYTES, &out->id);
    if (!str_cut_varint(&r->rest, &n) || (key != TAG_KEY_ID && !str_cut_varint(&r->rest, &b)))
        return false;
    n = n >> 1 ^ (n & 1 ? UINT64_MAX : 0);
    out->a = r->last[out->table] = (int64_t)((uint64_t)r->last[out->table] + n);
    out->b = (int64_t)b;
    return true;
}

bool tags_next(struct tag_reader *r, struct tag_entry *out, bool *out_bad)
{
    uint64_t what;
    *out = (struct tag_entry){ 0 };
    *out_bad = false;
    if (r->rest.len == 0)
        return false;
    *out_bad = true;
    if (!str_cut_varint(&r->rest, &what) || what >= (uint64_t)TAG_COUNT * OPS)
        return false;
    out->table = (enum tag_table)(what / OPS);
    out->op = (enum tag_op)(what % OPS);
    if (!key_cut(r, tag_facts[out->table].key, out) ||
        (out->op != TAG_REMOVE && !bytes_cut(&r->rest, TAG_BYTES, &out->tag)))
        return false;
    *out_bad = false;
    return true;
}
