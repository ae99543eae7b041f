/* chain: the keyed hashes that make the history verifiable; the same for every store.
 *
 * The key is DATA/verify.key. A turn's hash covers the hash before it, so an edit, a removal, a swap or an insertion
 * anywhere shows; the seal covers the head, so that the end can't be cut off and the head set back by somebody who
 * lacks the key. What only an outside witness can tell: that the whole store is a consistent older copy of itself. */
#ifndef WEIR_STORE_CHAIN_H
#define WEIR_STORE_CHAIN_H

#include "store/store.h"

enum { CHAIN_KEY_BYTES = 32 };

/* BLAKE2b-256(key, before || turn || first_seq || time || events), numbers as 8 bytes, little-endian. With tags
 * (store/tags.h): BLAKE2b-256(key, "tags" || length of events || before || turn || first_seq || time || events ||
 * tags). */
void chain_link(const uint8_t key[CHAIN_KEY_BYTES], const uint8_t before[STORE_HASH_BYTES], int64_t turn,
    int64_t first_seq, int64_t time, struct str events, struct str tags, uint8_t out[STORE_HASH_BYTES]);
/* BLAKE2b-256(key, "head" || incarnation || turn || seq || hash || next_task ... next_token || v_now). chain_seal_fits:
 * also without the numbers behind the hash, as a store has it that no turn was written to since they are sealed. */
void chain_seal(const uint8_t key[CHAIN_KEY_BYTES], const struct store_head *head, uint8_t out[STORE_HASH_BYTES]);
bool chain_seal_fits(
    const uint8_t key[CHAIN_KEY_BYTES], const struct store_head *head, const uint8_t seal[STORE_HASH_BYTES]);
/* chain_head_check: the head must be the end of the history, because a turn builds on nothing else. wrong: how the
 * sentence "the head of the history isn't sealed with ..." goes on. */
bool chain_head_check(const uint8_t key[CHAIN_KEY_BYTES], const struct store_head *head,
    const uint8_t seal[STORE_HASH_BYTES], const char *wrong, struct err *err);

/* ERR_not_found: there is none */
bool chain_key_load(const char *data_dir, uint8_t out[CHAIN_KEY_BYTES], struct err *err);
/* chain_key_open: loads the key; where there is none and the store is `fresh`, makes and stores one */
bool chain_key_open(const char *data_dir, uint8_t out[CHAIN_KEY_BYTES], bool fresh, struct err *err);
/* new file, 0600, synced */
bool chain_key_store(const char *data_dir, const uint8_t key[CHAIN_KEY_BYTES], struct err *err);

#endif
