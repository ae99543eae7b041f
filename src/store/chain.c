/* chain: the keyed hashes that make the history verifiable, and the file that keeps their key. See chain.h.
 *
 * The key file is made once, before the first turn, with mode 0600, and synced with its directory; a key file of
 * another size is refused rather than replaced, since without the key no recorded history can be checked. */
#include "store/chain.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <string.h>
#include <unistd.h>

#include "io/clock.h"
#include "io/fsx.h"
#include "store/files.h"

static void number_put(uint8_t out[8], int64_t n)
{
    for (int i = 0; i < 8; i++)
        out[i] = (uint8_t)((uint64_t)n >> (8 * i));
}

void chain_link(const uint8_t key[CHAIN_KEY_BYTES], const uint8_t before[STORE_HASH_BYTES], int64_t turn,
    int64_t first_seq, int64_t time, struct str events, struct str tags, uint8_t out[STORE_HASH_BYTES])
{
    crypto_generichash_state state;
    uint8_t numbers[24];
    number_put(numbers, turn);
    number_put(numbers + 8, first_seq);
    number_put(numbers + 16, time);
    crypto_generichash_init(&state, key, CHAIN_KEY_BYTES, STORE_HASH_BYTES);
    if (tags.len) {
        uint8_t begin[12] = { 't', 'a', 'g', 's' };
        number_put(begin + 4, (int64_t)events.len);
        crypto_generichash_update(&state, begin, sizeof begin);
    }
    crypto_generichash_update(&state, before, STORE_HASH_BYTES);
    crypto_generichash_update(&state, numbers, sizeof numbers);
    crypto_generichash_update(&state, (const uint8_t *)events.ptr, events.len);
    if (tags.len)
        crypto_generichash_update(&state, (const uint8_t *)tags.ptr, tags.len);
    crypto_generichash_final(&state, out, STORE_HASH_BYTES);
}

enum { SEAL_FIRST_BYTES = 4 + 24 + STORE_HASH_BYTES }; /* what the first form covered */

static void seal_over(
    const uint8_t key[CHAIN_KEY_BYTES], const struct store_head *head, bool whole, uint8_t out[STORE_HASH_BYTES])
{
    const int64_t rest[] = { head->next_task, head->next_spec, head->next_lane, head->next_class, head->next_slot,
        head->next_executor, head->next_token, head->v_now };
    uint8_t bytes[SEAL_FIRST_BYTES + sizeof rest] = { 'h', 'e', 'a', 'd' };
    number_put(bytes + 4, (int64_t)head->incarnation);
    number_put(bytes + 12, head->turn);
    number_put(bytes + 20, head->seq);
    memcpy(bytes + 28, head->hash, STORE_HASH_BYTES);
    for (size_t i = 0; i < sizeof rest / sizeof rest[0]; i++)
        number_put(bytes + SEAL_FIRST_BYTES + 8 * i, rest[i]);
    crypto_generichash(out, STORE_HASH_BYTES, bytes, whole ? sizeof bytes : SEAL_FIRST_BYTES, key, CHAIN_KEY_BYTES);
}

void chain_seal(const uint8_t key[CHAIN_KEY_BYTES], const struct store_head *head, uint8_t out[STORE_HASH_BYTES])
{
    seal_over(key, head, true, out);
}

bool chain_seal_fits(
    const uint8_t key[CHAIN_KEY_BYTES], const struct store_head *head, const uint8_t seal[STORE_HASH_BYTES])
{
    uint8_t expected[STORE_HASH_BYTES];
    for (int whole = 1; whole >= 0; whole--) {
        seal_over(key, head, whole, expected);
        if (sodium_memcmp(seal, expected, STORE_HASH_BYTES) == 0)
            return true;
    }
    return false;
}

bool chain_head_check(const uint8_t key[CHAIN_KEY_BYTES], const struct store_head *head,
    const uint8_t seal[STORE_HASH_BYTES], const char *wrong, struct err *err)
{
    return chain_seal_fits(key, head, seal) ||
           err_set(err, ERR_corrupt, "the head of the history isn't sealed with %s; run weir verify", wrong);
}

bool chain_key_load(const char *data_dir, uint8_t out[CHAIN_KEY_BYTES], struct err *err)
{
    char path[FILES_PATH_MAX];
    if (!path_join(path, data_dir, "verify.key", err))
        return false;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 && errno == ENOENT)
        return err_set(err, ERR_not_found,
            "%s is missing: without it the history can't be continued or checked; take it from a backup", path);
    if (fd < 0)
        return err_set(err, ERR_io, "%s: %s", path, strerror(errno));
    uint8_t bytes[CHAIN_KEY_BYTES + 1];
    ssize_t n = read(fd, bytes, sizeof bytes);
    close(fd);
    if (n != CHAIN_KEY_BYTES)
        return err_set(err, ERR_corrupt, "%s holds %zd bytes, not %d", path, n, CHAIN_KEY_BYTES);
    memcpy(out, bytes, CHAIN_KEY_BYTES);
    sodium_memzero(bytes, sizeof bytes);
    return true;
}

bool chain_key_store(const char *data_dir, const uint8_t key[CHAIN_KEY_BYTES], struct err *err)
{
    char path[FILES_PATH_MAX];
    return path_join(path, data_dir, "verify.key", err) &&
           fsx_replace(path, (struct str){ (const char *)key, CHAIN_KEY_BYTES }, 0600, err);
}

bool chain_key_open(const char *data_dir, uint8_t out[CHAIN_KEY_BYTES], bool fresh, struct err *err)
{
    if (chain_key_load(data_dir, out, err))
        return true;
    if (err->code != ERR_not_found || !fresh)
        return false;
    *err = (struct err){ .arena = err->arena };
    clock_entropy(out, CHAIN_KEY_BYTES);
    return chain_key_store(data_dir, out, err);
}
