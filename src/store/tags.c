/* tags: what a turn makes of rows, told in the history beside its events. See tags.h.
 *
 * The list: a byte FORMAT, then each entry: table and operation as a varint, its key (differences to the entry before of that table, as
 * varints, or eight bytes), TAG_BYTES of tag where there is one. A task that is made, granted and ended by itself costs about 60 bytes.
 *
 * Owns the order of a row's columns under its tag: as in TAG_TABLES; `verify` reads them by their names. */
#include "store/tags.h"

#include <endian.h>
#include <sodium.h>
#include <string.h>

#include "base/err.h"
#include "store/cells.h"

enum { FORMAT = 1, OPS = 4, ID_BYTES = 8, VARINT_MAX = 10, ENTRY_MAX = 3 * VARINT_MAX + 8 };

const struct tag_facts tag_facts[TAG_COUNT] = {
#define X(name, key, n, columns) { #name, TAG_KEY_##key, n, columns },
    TAG_TABLES(X)
#undef X
};

/* --- tags ----------------------------------------------------------------------------------------------------------------------------- */

void tagger_init(struct tagger *t, const uint8_t key[CHAIN_KEY_BYTES])
{
    static const uint8_t what[] = "tags of rows";
    *t = (struct tagger){ 0 };
    crypto_generichash(t->key, sizeof t->key, what, sizeof what, key, CHAIN_KEY_BYTES);
    buf_init(&t->packed, SIZE_MAX);
    buf_init(&t->rests, SIZE_MAX);
}

void tagger_release(struct tagger *t)
{
    mem_free(t->cells);
    mem_free(t->rest_ends);
    buf_release(&t->packed);
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
_Static_assert(sizeof(((struct tagger *)0)->key) == crypto_shorthash_KEYBYTES && crypto_shorthash_BYTES == 8, "SipHash");

uint64_t tag_of(const struct tagger *t)
{
    return hash_of(t, t->len) & TAG_MASK;
}

uint64_t tag_id_of(const struct tagger *t)
{
    return hash_of(t, t->n_key);
}

/* --- the list ------------------------------------------------------------------------------------------------------------------------- */

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

static void bytes_cell(struct packing *p, const uint8_t *bytes, size_t n)
{
    text_put(p->t, (struct str){ (const char *)bytes, n });
}

static void numbers_cell(struct packing *p, const int64_t *numbers, size_t n)
{
    buf_reset(&p->t->packed);
    numbers_pack(&p->t->packed, numbers, n);
    tag_text(p->t, buf_str(&p->t->packed));
}

static void labels_cell(struct packing *p, const struct label *labels, size_t n)
{
    buf_reset(&p->t->packed);
    labels_pack(&p->t->packed, labels, n);
    tag_text(p->t, buf_str(&p->t->packed));
}

/* --- rows ----------------------------------------------------------------------------------------------------------------------------- */

static void tasks_tag(struct packing *p, const struct task **tasks, size_t n)
{
    struct tagger *t = p->t;
    for (size_t i = 0; i < n; i++) {
        const struct task *task = tasks[i];
        tag_begin(t, TAG_task);
        number_put(t, task->id);
        number_put(t, task->lane);
        number_put(t, task->rev);
        text_put(t, state_text(task->state));
        text_put(t, task->name);
        text_put(t, task->variant);
        number_put(t, task->run);
        size_t start = t->rests.len;
        task_pack(&t->rests, task);
        t->rest_ends[t->n_rests++] = t->rests.len;
        text_put(t, (struct str){ t->rests.ptr + start, t->rests.len - start });
        row_add(p, TAG_task, TAG_PUT, task->id, 0);
    }
}

static void specs_tag(struct packing *p, const struct changes *c)
{
    struct tagger *t = p->t;
    uint64_t fold = 0;
    for (size_t i = 0, first = 0; i < c->n_specs; i++) {
        const struct spec *spec = c->specs[i];
        tag_begin(t, TAG_spec);
        number_put(t, spec->id);
        text_put(t, spec->body);
        number_put(t, spec->attempts_max);
        number_put(t, spec->backoff_ms);
        number_put(t, spec->retry_on);
        if (spec->n_slots)
            numbers_cell(p, spec->slots, spec->n_slots);
        else
            text_put(t, (struct str){ 0 });
        text_put(t, spec->slot_key);
        fold ^= tag_of(t);
        if (i + 1 < c->n_specs && c->specs[i + 1]->id == spec->id + 1)
            continue;
        entry_add(p, TAG_spec, TAG_PUT, c->specs[first]->id, (int64_t)(i + 1 - first), fold);
        first = i + 1;
        fold = 0;
    }
}

static void edges_tag(struct packing *p, const struct edge *edges, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        tag_begin(p->t, TAG_edge);
        tag_number(p->t, edges[i].pred);
        tag_number(p->t, edges[i].waiter);
        tag_number(p->t, edges[i].kind);
        tag_key_end(p->t);
        tag_number(p->t, edges[i].flags);
        row_add(p, TAG_edge, TAG_PUT, 0, 0);
    }
}

static void holds_tag(struct packing *p, enum tag_op op, const struct hold *holds, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        tag_begin(p->t, TAG_hold);
        tag_number(p->t, holds[i].kind);
        tag_number(p->t, holds[i].key);
        tag_number(p->t, holds[i].rank);
        tag_number(p->t, holds[i].task);
        tag_key_end(p->t);
        tag_number(p->t, holds[i].since);
        row_add(p, TAG_hold, op, 0, 0);
    }
}

/* One that has ended leaves `live`, one that runs leaves `attempt`: the reader of the list knows that. */
static void attempts_tag(struct packing *p, const struct attempt *attempts, size_t n)
{
    struct tagger *t = p->t;
    for (size_t i = 0; i < n; i++) {
        const struct attempt *a = &attempts[i];
        enum tag_table table = a->finished ? TAG_attempt : TAG_live;
        tag_begin(t, table);
        const int64_t first[] = { a->task, a->grant, a->number, a->executor, a->started, a->finished, a->exit, a->signal };
        for (size_t k = 0; k < (a->finished ? sizeof first / sizeof first[0] : 5); k++)
            number_put(t, first[k]);
        if (a->finished) {
            text_put(t, str_of(outcome_name(a->outcome)));
            number_put(t, a->cpu_ms);
            number_put(t, a->max_rss_bytes);
            number_put(t, a->log_bytes);
            bytes_cell(p, a->finish_hash, sizeof a->finish_hash);
        }
        row_add(p, table, a->ended_before || (a->finished && a->outcome == OUTCOME_lost) ? TAG_AGAIN : TAG_PUT, a->task, a->grant);
    }
}

static void results_tag(struct packing *p, const struct changes *c)
{
    for (size_t i = 0; i < c->n_outputs; i++) {
        tag_begin(p->t, TAG_outputs);
        tag_number(p->t, c->outputs[i].task);
        tag_text(p->t, c->outputs[i].json);
        row_add(p, TAG_outputs, TAG_PUT, c->outputs[i].task, 0);
    }
    for (size_t i = 0; i < c->n_log_tails; i++) {
        const struct log_tail *tail = &c->log_tails[i];
        tag_begin(p->t, TAG_log_tail);
        tag_number(p->t, tail->task);
        tag_number(p->t, tail->grant);
        tag_number(p->t, tail->offset);
        tag_text(p->t, tail->bytes);
        row_add(p, TAG_log_tail, TAG_PUT, tail->task, tail->grant);
    }
    for (size_t i = 0; i < c->n_log_seals; i++) {
        const struct log_seal *seal = &c->log_seals[i];
        tag_begin(p->t, TAG_log_seal);
        tag_number(p->t, seal->task);
        tag_number(p->t, seal->grant);
        tag_number(p->t, seal->bytes);
        bytes_cell(p, seal->hash, sizeof seal->hash);
        row_add(p, TAG_log_seal, TAG_PUT, seal->task, seal->grant);
    }
    for (size_t i = 0; i < c->n_log_seals_remove; i++)
        entry_add(p, TAG_log_seal, TAG_REMOVE, c->log_seals_remove[i].task, c->log_seals_remove[i].grant, 0);
    for (size_t i = 0; i < c->n_results_remove; i++) /* and its log tails */
        entry_add(p, TAG_outputs, TAG_REMOVE, c->results_remove[i], 0, 0);
}

static void uniques_tag(struct packing *p, enum tag_op op, const struct unique_claim *claims, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        tag_begin(p->t, TAG_unique_key);
        tag_text(p->t, claims[i].tenant);
        tag_text(p->t, claims[i].key);
        tag_key_end(p->t);
        tag_number(p->t, claims[i].task);
        row_add(p, TAG_unique_key, op, 0, 0);
    }
}

static void idempotency_tag(struct packing *p, const struct changes *c)
{
    for (size_t i = 0; i < c->n_idempotency; i++) {
        const struct idempotency *item = &c->idempotency[i];
        tag_begin(p->t, TAG_idempotency);
        tag_text(p->t, item->tenant);
        tag_text(p->t, item->token);
        tag_text(p->t, item->route);
        tag_text(p->t, item->key);
        tag_key_end(p->t);
        bytes_cell(p, item->body_hash, sizeof item->body_hash);
        tag_number(p->t, item->status);
        numbers_cell(p, item->ids, item->n_ids);
        tag_number(p->t, item->expires);
        row_add(p, TAG_idempotency, TAG_PUT, 0, 0);
    }
}

static void names_tag(struct packing *p, const struct changes *c)
{
    struct tagger *t = p->t;
    for (size_t i = 0; i < c->n_lanes; i++) {
        const struct lane *lane = c->lanes[i];
        tag_begin(t, TAG_lane);
        tag_number(t, lane->id);
        tag_number(t, lane->kind);
        tag_text(t, lane->tenant);
        tag_text(t, lane->name);
        row_add(p, TAG_lane, TAG_PUT, lane->id, 0);
    }
    for (size_t i = 0; i < c->n_classes; i++) {
        const struct task_class *item = c->classes[i];
        tag_begin(t, TAG_class);
        tag_number(t, item->id);
        tag_text(t, item->key);
        tag_text(t, item->tenant);
        tag_text(t, item->zone);
        tag_number(t, item->kind);
        labels_cell(p, item->labels, item->n_labels);
        row_add(p, TAG_class, TAG_PUT, item->id, 0);
    }
    for (size_t i = 0; i < c->n_classes_remove; i++)
        entry_add(p, TAG_class, TAG_REMOVE, c->classes_remove[i], 0, 0);
    for (size_t i = 0; i < c->n_slots; i++) {
        const struct slot *slot = c->slots[i];
        tag_begin(t, TAG_slot);
        tag_number(t, slot->id);
        tag_text(t, slot->tenant);
        tag_text(t, slot->name);
        tag_number(t, slot->limit);
        row_add(p, TAG_slot, TAG_PUT, slot->id, 0);
    }
    for (size_t i = 0; i < c->n_slots_remove; i++)
        entry_add(p, TAG_slot, TAG_REMOVE, c->slots_remove[i], 0, 0);
}

static void executors_tag(struct packing *p, const struct changes *c)
{
    struct tagger *t = p->t;
    for (size_t i = 0; i < c->n_executors; i++) {
        const struct executor *e = c->executors[i];
        const struct str texts[] = { e->name, e->instance, e->host, e->version, e->zone };
        tag_begin(t, TAG_executor);
        tag_number(t, e->id);
        for (size_t k = 0; k < sizeof texts / sizeof texts[0]; k++)
            tag_text(t, texts[k]);
        tag_number(t, e->slots);
        tag_number(t, e->kinds);
        labels_cell(p, e->labels, e->n_labels);
        tag_number(t, e->state);
        tag_number(t, e->registered);
        tag_text(t, e->tenant);
        tag_number(t, e->owner);
        row_add(p, TAG_executor, TAG_PUT, e->id, 0);
    }
    for (size_t i = 0; i < c->n_executors_remove; i++)
        entry_add(p, TAG_executor, TAG_REMOVE, c->executors_remove[i], 0, 0);
}

static void tokens_tag(struct packing *p, const struct changes *c)
{
    struct tagger *t = p->t;
    for (size_t i = 0; i < c->n_tokens; i++) {
        const struct token *token = c->tokens[i];
        tag_begin(t, TAG_token);
        tag_number(t, token->id);
        tag_text(t, token->name);
        tag_text(t, token->tenant);
        bytes_cell(p, token->hash, sizeof token->hash);
        tag_number(t, token->scopes);
        tag_number(t, token->created);
        tag_number(t, token->expires);
        row_add(p, TAG_token, TAG_PUT, token->id, 0);
    }
    for (size_t i = 0; i < c->n_tokens_remove; i++)
        entry_add(p, TAG_token, TAG_REMOVE, c->tokens_remove[i], 0, 0);
    for (size_t i = 0; i < c->n_site; i++) {
        const struct site_key *key = &c->site[i];
        tag_begin(t, TAG_site);
        tag_text(t, key->name);
        tag_key_end(t);
        tag_text(t, key->body);
        tag_number(t, key->version);
        tag_number(t, key->changed);
        tag_text(t, key->changed_by);
        row_add(p, TAG_site, TAG_PUT, 0, 0);
    }
}

static void revision_tag(struct packing *p, const struct revision *revision)
{
    struct tagger *t = p->t;
    const struct str texts[] = { revision->ident, revision->txn, revision->author, revision->message };
    const int64_t numbers[] = { revision->time, revision->noted, revision->cause, revision->depth, revision->definition };
    tag_begin(t, TAG_revision);
    tag_number(t, revision->lane);
    tag_number(t, revision->rev);
    tag_number(t, revision->state);
    for (size_t k = 0; k < sizeof texts / sizeof texts[0]; k++)
        tag_text(t, texts[k]);
    for (size_t k = 0; k < sizeof numbers / sizeof numbers[0]; k++)
        tag_number(t, numbers[k]);
    if (revision->n_prevs)
        numbers_cell(p, revision->prevs, revision->n_prevs);
    else
        tag_text(t, (struct str){ 0 });
    row_add(p, TAG_revision, TAG_PUT, revision->lane, revision->rev);
}

static void schedules_tag(struct packing *p, enum tag_op op, const struct schedule *schedules, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        tag_begin(p->t, TAG_schedule);
        tag_number(p->t, schedules[i].lane);
        tag_text(p->t, schedules[i].task);
        tag_text(p->t, schedules[i].cron);
        tag_text(p->t, schedules[i].zone);
        tag_key_end(p->t);
        row_add(p, TAG_schedule, op, 0, 0);
    }
}

static void archives_tag(struct packing *p, const struct changes *c)
{
    struct tagger *t = p->t;
    for (size_t i = 0; i < c->n_archives; i++) {
        const struct archive *archive = c->archives[i];
        const int64_t numbers[] = { archive->added, archive->removed, archive->first, archive->next, archive->youngest };
        tag_begin(t, TAG_archive);
        tag_number(t, archive->lane);
        tag_number(t, archive->kind);
        tag_text(t, archive->url);
        tag_text(t, archive->branch);
        for (size_t k = 0; k < sizeof numbers / sizeof numbers[0]; k++)
            tag_number(t, numbers[k]);
        tag_text(t, archive->tip);
        tag_number(t, archive->definition);
        buf_reset(&t->packed);
        lock_pack(&t->packed, archive);
        tag_text(t, buf_str(&t->packed));
        row_add(p, TAG_archive, TAG_PUT, archive->lane, 0);
    }
    for (size_t i = 0; i < c->n_revisions; i++)
        revision_tag(p, &c->revisions[i]);
    for (size_t i = 0; i < c->n_latest; i++) {
        const struct latest *latest = &c->latest[i];
        const int64_t numbers[] = { latest->rev, latest->task, latest->ran_rev, latest->ran_task };
        tag_begin(t, TAG_latest);
        tag_number(t, latest->lane);
        tag_text(t, latest->name);
        tag_text(t, latest->variant);
        tag_key_end(t);
        for (size_t k = 0; k < sizeof numbers / sizeof numbers[0]; k++)
            tag_number(t, numbers[k]);
        row_add(p, TAG_latest, TAG_PUT, 0, 0);
    }
    schedules_tag(p, TAG_REMOVE, c->schedules_remove, c->n_schedules_remove);
    schedules_tag(p, TAG_PUT, c->schedules, c->n_schedules);
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

void tags_pack(struct buf *out, struct tagger *t, const uint8_t key[CHAIN_KEY_BYTES], const struct changes *c)
{
    struct packing p = { .out = out, .t = t };
    if (!t->packed.cap)
        tagger_init(t, key);
    rests_begin(t, c->n_tasks_new + c->n_tasks_changed);
    buf_add_char(out, FORMAT);
    names_tag(&p, c);
    specs_tag(&p, c);
    tasks_tag(&p, c->tasks_new, c->n_tasks_new);
    tasks_tag(&p, c->tasks_changed, c->n_tasks_changed);
    edges_tag(&p, c->edges_new, c->n_edges_new);
    edges_tag(&p, c->edges_changed, c->n_edges_changed);
    holds_tag(&p, TAG_REMOVE, c->holds_remove, c->n_holds_remove);
    holds_tag(&p, TAG_PUT, c->holds_add, c->n_holds_add);
    attempts_tag(&p, c->attempts_new, c->n_attempts_new);
    attempts_tag(&p, c->attempts_changed, c->n_attempts_changed);
    for (size_t i = 0; i < c->n_attempts_remove; i++)
        entry_add(&p, TAG_live, TAG_REMOVE, c->attempts_remove[i].task, c->attempts_remove[i].grant, 0);
    results_tag(&p, c);
    uniques_tag(&p, TAG_REMOVE_SAME, c->unique_remove, c->n_unique_remove);
    uniques_tag(&p, TAG_PUT, c->unique_add, c->n_unique_add);
    if (c->n_unique_add)
        uniques_tag(&p, TAG_REMOVE_SAME, c->unique_remove, c->n_unique_remove);
    idempotency_tag(&p, c);
    executors_tag(&p, c);
    tokens_tag(&p, c);
    archives_tag(&p, c);
}

/* Not executors: their rows are written with every beat, and what is under their tag changes with an event each time. Nor idempotency keys,
 * which may be in turns of which nothing is told. */
bool changes_told(const struct changes *c)
{
    const size_t lists[] = { c->n_lanes, c->n_classes, c->n_classes_remove, c->n_specs, c->n_slots, c->n_slots_remove, c->n_tasks_new,
                             c->n_tasks_changed, c->n_edges_new, c->n_edges_changed, c->n_holds_add, c->n_holds_remove, c->n_attempts_new,
                             c->n_attempts_changed, c->n_attempts_remove, c->n_outputs, c->n_log_tails, c->n_log_seals,
                             c->n_log_seals_remove, c->n_results_remove,
                             c->n_unique_add, c->n_unique_remove, c->n_tokens, c->n_executors_remove, c->n_tokens_remove, c->n_site,
                             c->n_archives, c->n_revisions, c->n_latest, c->n_schedules, c->n_schedules_remove };
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        if (lists[i])
            return true;
    return false;
}

/* --- read ----------------------------------------------------------------------------------------------------------------------------- */

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
    if (!key_cut(r, tag_facts[out->table].key, out) || (out->op != TAG_REMOVE && !bytes_cut(&r->rest, TAG_BYTES, &out->tag)))
        return false;
    *out_bad = false;
    return true;
}
