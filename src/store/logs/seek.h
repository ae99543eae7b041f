/* logs/seek: the zstd seekable format: independent frames of SEEK_FRAME_BYTES of input, then a seek table in a
 * skippable frame.
 *
 * Any zstd tool unpacks such a file whole; seek_read unpacks only the frames that hold the bytes asked for. Each frame
 * carries zstd's own checksum, repeated in the table. Private to the log store: nobody but logs.c and its tests
 * includes this. Nothing here is thread-safe: one seek_reader belongs to whoever holds the lock of the log store, one
 * seek_pack runs in one thread. */
#ifndef WEIR_STORE_LOGS_SEEK_H
#define WEIR_STORE_LOGS_SEEK_H

#include <stdatomic.h>

#include "base/buf.h"
#include "base/err.h"
#include "store/logs/logs.h"

enum {
    SEEK_FRAME_BYTES = 256 * 1024,
    SEEK_FRAMES_MAX = 1 << 20, /* so a log has 256 GiB at most and its table 12 MiB */
    SEEK_SLOTS = 4             /* unpacked frames kept: a reader that goes on in small steps unpacks each frame once */
};
#define SEEK_BYTES_MAX ((int64_t)SEEK_FRAMES_MAX * SEEK_FRAME_BYTES)

/* seek_pack: compresses all of plain_fd into packed_fd (both at offset 0) and syncs it. Memory: three buffers of about
 * one frame, and 12 bytes a frame. *out gets how many bytes it was, and their hash. False: the operating system refused
 * (ERR_disk_full, ERR_io), or *stop became true (ERR_unavailable). */
bool seek_pack(int plain_fd, int packed_fd, const atomic_bool *stop, struct log_seal *out, struct err *err);

/* seek_file: what is known of an open packed file. */
struct seek_file {
    int fd;
    int64_t bytes;    /* unpacked */
    int64_t table_at; /* offset of the seek table in the file = bytes of all frames */
    uint32_t n_frames;
};
/* seek_open: checks the whole table against the file's size; ERR_corrupt when they disagree. The fd stays the caller's.
 */
bool seek_open(int fd, struct seek_file *out, struct err *err);

struct seek_slot {
    int64_t task, grant;
    uint32_t frame, n_bytes;
    uint64_t used; /* the reader's tick of the last use */
    char *bytes;   /* NULL: the slot is empty */
};
struct seek_reader {
    struct seek_slot slots[SEEK_SLOTS];
    uint64_t tick;
    uint64_t n_unpacked; /* frames unpacked so far: what tests count */
    char *packed;        /* room for one packed frame */
    void *context;       /* ZSTD_DCtx */
};
void seek_reader_release(struct seek_reader *reader); /* the zero value is a valid reader */
/* seek_read: appends min(max, what is left) bytes from offset to out; (task, grant) name the file for the slots. */
bool seek_read(struct seek_reader *reader, const struct seek_file *file, int64_t task, int64_t grant, int64_t offset,
    size_t max, struct buf *out, struct err *err);

#endif
