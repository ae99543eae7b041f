/* cdb: see cdb.h. */
#include "text/cdb.h"

#include <string.h>

enum { TABLES = 256, HEAD_BYTES = TABLES * 8 };

static void number_put(char *to, uint32_t n)
{
    for (int i = 0; i < 4; i++)
        to[i] = (char)(n >> (8 * i) & 0xff);
}

static void pair_add(struct buf *out, uint32_t a, uint32_t b)
{
    char bytes[8];
    number_put(bytes, a);
    number_put(bytes + 4, b);
    buf_add(out, bytes, sizeof bytes);
}

static uint32_t hash_of(struct str key)
{
    uint32_t hash = 5381;
    for (size_t i = 0; i < key.len; i++)
        hash = ((hash << 5) + hash) ^ (unsigned char)key.ptr[i];
    return hash;
}

void cdb_begin(struct cdb_writer *cdb, struct buf *out, struct arena *arena)
{
    *cdb = (struct cdb_writer){ .out = out, .arena = arena };
    for (int i = 0; i < TABLES; i++)
        pair_add(out, 0, 0);
}

void cdb_add(struct cdb_writer *cdb, struct str key, struct str value)
{
    struct cdb_slot *slot = ARENA_PUSH(cdb->arena, cdb->slots, cdb->n, cdb->cap);
    *slot = (struct cdb_slot){ hash_of(key), (uint32_t)cdb->out->len };
    pair_add(cdb->out, (uint32_t)key.len, (uint32_t)value.len);
    buf_add_str(cdb->out, key);
    buf_add_str(cdb->out, value);
}

/* table_add: the slots of one table, each record in the first free one from its hash on. */
static void table_add(struct cdb_writer *cdb, const struct cdb_slot *records, size_t n)
{
    size_t len = n * 2;
    struct cdb_slot *table = ARENA_ARRAY(cdb->arena, struct cdb_slot, len > 0 ? len : 1);
    for (size_t i = 0; i < n; i++) {
        size_t at = (records[i].hash >> 8) % len;
        while (table[at].position != 0)
            at = (at + 1) % len;
        table[at] = records[i];
    }
    for (size_t i = 0; i < len; i++)
        pair_add(cdb->out, table[i].hash, table[i].position);
}

bool cdb_end(struct cdb_writer *cdb)
{
    size_t count[TABLES] = { 0 }, begin[TABLES + 1] = { 0 };
    struct cdb_slot *sorted = ARENA_ARRAY(cdb->arena, struct cdb_slot, cdb->n + 1);
    for (size_t i = 0; i < cdb->n; i++)
        count[cdb->slots[i].hash % TABLES]++;
    for (size_t t = 0; t < TABLES; t++)
        begin[t + 1] = begin[t] + count[t];
    memset(count, 0, sizeof count);
    for (size_t i = 0; i < cdb->n; i++) {
        size_t t = cdb->slots[i].hash % TABLES;
        sorted[begin[t] + count[t]++] = cdb->slots[i];
    }
    for (size_t t = 0; t < TABLES; t++) {
        uint32_t position = (uint32_t)cdb->out->len;
        table_add(cdb, sorted + begin[t], count[t]);
        if (cdb->out->full || cdb->out->len > UINT32_MAX)
            return false;
        number_put(cdb->out->ptr + 8 * t, position);
        number_put(cdb->out->ptr + 8 * t + 4, (uint32_t)count[t] * 2);
    }
    return true;
}
