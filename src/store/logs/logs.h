/* logs: the output of attempts, offset-addressed, byte-exact, off the engine's hot path. Files beside SQLite under
 * DATA/logs; in PostgreSQL beside a store in PostgreSQL, for every server that shares it.
 *
 * While an attempt runs its bytes are a plain file; a thread of the log store syncs what was appended (so `durable`
 * follows `stored`), and after logs_seal compresses it to a seekable zstd file (frames of 256 KiB with a seek table:
 * reading a tail unpacks one or two frames) and removes the plain one. A sealed log reads the same. logs_append and
 * logs_read may be called from one thread, logs_seal from another; all are thread-safe. */
#ifndef WEIR_STORE_LOGS_H
#define WEIR_STORE_LOGS_H

#include "base/buf.h"
#include "base/err.h"

struct logs;
/* repairs what a crash left: half-written zstd files are made anew */
struct logs *logs_open(const char *data_dir, struct err *err);
/* logs_open_store: where the store is. In PostgreSQL nothing is compressed by a seal; what is stored and not yet
 * durable is only read through the server that has it; a database that is away is waited for (ERR_unavailable for who
 * reads, or once much waits). */
struct store_config;
struct logs *logs_open_store(const struct store_config *config, struct err *err);
void logs_close(struct logs *logs);

/* What a sealed log was: the bytes that are stored, without the tail that came with the finish, and their BLAKE2b. */
enum { LOG_HASH_BYTES = 32 };
struct log_seal {
    int64_t task, grant, bytes;
    uint8_t hash[LOG_HASH_BYTES];
};

struct log_position {
    int64_t stored, durable;
};
/* Appends bytes at offset: repeated stored bytes are accepted (compared), a gap is ERR_log_gap with err->expected,
 * other bytes at a stored offset ERR_log_mismatch, new bytes after the seal ERR_already_ended. ERR_disk_full: nothing
 * appended. ERR_outcome_unknown: an earlier sync failed; what wasn't durable is taken away again and has to be sent
 * again (ERR_log_gap will say from where). */
bool logs_append(struct logs *logs, int64_t task, int64_t grant, int64_t offset, struct str bytes,
    struct log_position *out, struct err *err);
bool logs_size(struct logs *logs, int64_t task, int64_t grant, int64_t *out_bytes, struct err *err); /* 0: none */
/* Reads at most max bytes from offset into out (appended); fewer only at the end. */
bool logs_read(
    struct logs *logs, int64_t task, int64_t grant, int64_t offset, size_t max, struct buf *out, struct err *err);
/* logs_remove: a log of an attempt that has ended is gone. Its bytes read as none from then on. */
void logs_remove(struct logs *logs, int64_t task, int64_t grant);
/* no more bytes will come: compress when there is time */
void logs_seal(struct logs *logs, int64_t task, int64_t grant);
/* logs_expect: instead of logs_seal, for an attempt that has ended after `bytes` bytes of which a power cut has left
 * fewer: those that its executor still has are taken, up to that length; then it is sealed. */
void logs_expect(struct logs *logs, int64_t task, int64_t grant, int64_t bytes);
/* logs_lost: its attempt was given up, after the commit that says so. Bytes may still come, also those that this or
 * another server took before and has not stored yet: how many there are is told below (log_sealed.lost). */
void logs_lost(struct logs *logs, int64_t task, int64_t grant);
/* logs_each_open: every plain log that nobody has sealed, or that lost bytes by a power cut. After a start the owner
 * seals those whose attempt has ended: the crash came between the finish and the seal. */
void logs_each_open(struct logs *logs, void (*each)(void *owner, int64_t task, int64_t grant), void *owner);
/* logs_each: every log that is stored, until each says false; one that is being packed may come twice. It may remove
 * what it is given. For a thread of its own: there are as many as there is history. */
bool logs_each(struct logs *logs, bool (*each)(void *owner, int64_t task, int64_t grant), void *owner, struct err *err);
/* until everything appended is durable and everything sealed is compressed (tests, shutdown) */
void logs_wait(struct logs *logs);
/* logs_on_sync: called from the log thread after appended bytes became durable (to tell those who wait). */
void logs_on_sync(struct logs *logs, void (*synced)(void *owner), void *owner);
/* Seals: after a seal, when the bytes are durable and packed, a thread of the log store hashes them as they are stored.
 * What it found waits here until the history has it, after a crash too: the first n are copied, and go when they are
 * told to be noted. A log that was noted before may come again. `sealed` is called from any thread, and calls nothing
 * here. grown: more bytes came to a log that another server had sealed; it begins as it was noted. lost: it isn't
 * sealed and has no hash; its attempt was given up, and this is how many bytes are stored now. */
struct log_sealed {
    struct log_seal seal;
    bool grown, lost;
};
void logs_on_seal(struct logs *logs, void (*sealed)(void *owner), void *owner); /* where none waited some do now */
size_t logs_sealed(struct logs *logs, struct log_sealed *out, size_t max);
bool logs_noted(struct logs *logs, const struct log_sealed *sealed, size_t n); /* the first n; true: others wait */
uint64_t logs_frames_unpacked(struct logs *logs); /* since the start: what reading sealed logs cost */

#endif
