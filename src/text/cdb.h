/* cdb: D. J. Bernstein's constant database: keys and values, written once, found by two reads of a file.
 *
 *   256 x (position, slots)           of the tables
 *   records: key length, value length, key, value
 *   256 tables of (hash, position of a record), twice as many slots as records, an empty one is all zeros
 *
 * All numbers are 32 bits, little-endian: a database has less than 4 GiB. Read by the programs `cdb` and `cdbget`. */
#ifndef WEIR_TEXT_CDB_H
#define WEIR_TEXT_CDB_H

#include "base/arena.h"
#include "base/buf.h"

struct cdb_slot {
    uint32_t hash, position;
};

struct cdb_writer {
    struct buf *out; /* the caller's, empty at the beginning */
    struct arena *arena;
    struct cdb_slot *slots;
    size_t n, cap;
};

void cdb_begin(struct cdb_writer *cdb, struct buf *out, struct arena *arena);
void cdb_add(struct cdb_writer *cdb, struct str key, struct str value); /* a key may come more than once */
bool cdb_end(struct cdb_writer *cdb); /* false: it doesn't fit into 4 GiB, or into out */

#endif
