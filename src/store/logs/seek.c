/* logs/seek: see logs/seek.h.
 *
 * Owns the bytes of packed logs: the layout is that of zstd's contrib/seekable_format (skippable frame 0x184D2A5E that
 * ends in the number of frames, a descriptor and 0x8F92EAB1), so files can be read with stock tools. All frames but the
 * last hold exactly SEEK_FRAME_BYTES, so the frame of an offset is a division and the table is only walked to add up
 * packed sizes.
 *
 * Promises: no buffer grows with the log but the table (12 bytes per 256 KiB); whatever is read back was checked
 * against its checksum.
 *
 * Fails with ERR_corrupt, which names the frame, when the file contradicts itself; with ERR_disk_full or ERR_io when
 * the kernel refuses. */
#include "store/logs/seek.h"

#include <errno.h>
#include <sodium.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

enum {
    ENTRY_BYTES = 12, /* packed size, unpacked size, checksum */
    HEADER_BYTES = 8, /* skippable magic, size of what follows */
    FOOTER_BYTES = 9, /* number of frames, descriptor, seekable magic */
    TABLE_STEP = 512, /* entries read at once */
    LEVEL = 3
};
#define MAGIC_SKIPPABLE 0x184D2A5Eu
#define MAGIC_SEEKABLE 0x8F92EAB1u
#define DESCRIPTOR_CHECKSUMS 0x80u
#define PACKED_FRAME_MAX ZSTD_COMPRESSBOUND(SEEK_FRAME_BYTES)

static void u32_write(unsigned char *at, uint32_t n)
{
    for (int i = 0; i < 4; i++) {
        at[i] = (unsigned char)(n >> (8 * i));
    }
}

static uint32_t u32_read(const unsigned char *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static bool os_refused(struct err *err, const char *what)
{
    int no = errno;
    bool full = no == ENOSPC || no == EDQUOT;
    return err_set(err, full ? ERR_disk_full : ERR_io, "%s: %s", what, strerror(no));
}

static bool write_all(int fd, const void *bytes, size_t len, struct err *err)
{
    const char *at = bytes;
    while (len > 0) {
        ssize_t n = write(fd, at, len);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return os_refused(err, "writing a packed log");
        }
        at += n;
        len -= (size_t)n;
    }
    return true;
}

/* pread that goes on after short reads; *out_n < len only at the end of the file. */
static bool read_at(int fd, void *bytes, size_t len, int64_t offset, size_t *out_n, struct err *err)
{
    size_t got = 0;
    while (got < len) {
        ssize_t n = pread(fd, (char *)bytes + got, len - got, offset + (int64_t)got);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return os_refused(err, "reading a log");
        }
        if (n == 0) {
            break;
        }
        got += (size_t)n;
    }
    *out_n = got;
    return true;
}

static bool read_exactly(int fd, void *bytes, size_t len, int64_t offset, struct err *err)
{
    size_t n;
    if (!read_at(fd, bytes, len, offset, &n, err)) {
        return false;
    }
    return n == len || err_set(err, ERR_corrupt, "a packed log ends early");
}

/* --- writing --- */

struct packer {
    ZSTD_CCtx *context;
    char *plain, *packed;
    struct buf table;
    uint32_t n_frames;
};

static void packer_init(struct packer *packer)
{
    packer->context = ZSTD_createCCtx();
    ASSERT(packer->context != NULL);
    ASSERT(!ZSTD_isError(ZSTD_CCtx_setParameter(packer->context, ZSTD_c_compressionLevel, LEVEL)));
    ASSERT(!ZSTD_isError(ZSTD_CCtx_setParameter(packer->context, ZSTD_c_checksumFlag, 1)));
    packer->plain = mem_alloc(SEEK_FRAME_BYTES);
    packer->packed = mem_alloc(PACKED_FRAME_MAX);
    buf_init(&packer->table, HEADER_BYTES + (size_t)ENTRY_BYTES * SEEK_FRAMES_MAX + FOOTER_BYTES + 1);
    buf_add(&packer->table, "\0\0\0\0\0\0\0", HEADER_BYTES); /* filled in at the end */
    packer->n_frames = 0;
}

static void packer_release(struct packer *packer)
{
    ZSTD_freeCCtx(packer->context);
    mem_free(packer->plain);
    mem_free(packer->packed);
    buf_release(&packer->table);
}

static bool packer_frame(struct packer *packer, size_t n_plain, int packed_fd, struct err *err)
{
    if (packer->n_frames == SEEK_FRAMES_MAX) {
        return err_set(err, ERR_invalid, "a log of more than %lld bytes can't be packed", (long long)SEEK_BYTES_MAX);
    }
    size_t n = ZSTD_compress2(packer->context, packer->packed, PACKED_FRAME_MAX, packer->plain, n_plain);
    ASSERT(!ZSTD_isError(n) && n > 4);
    unsigned char entry[ENTRY_BYTES];
    u32_write(entry, (uint32_t)n);
    u32_write(entry + 4, (uint32_t)n_plain);
    /* a frame ends in the low half of its XXH64: the very value that the table wants */
    memcpy(entry + 8, packer->packed + n - 4, 4);
    buf_add(&packer->table, entry, ENTRY_BYTES);
    packer->n_frames++;
    return write_all(packed_fd, packer->packed, n, err);
}

static bool packer_table(struct packer *packer, int packed_fd, struct err *err)
{
    unsigned char footer[FOOTER_BYTES];
    u32_write(footer, packer->n_frames);
    footer[4] = DESCRIPTOR_CHECKSUMS;
    u32_write(footer + 5, MAGIC_SEEKABLE);
    buf_add(&packer->table, footer, FOOTER_BYTES);
    ASSERT(!packer->table.full);
    unsigned char *header = (unsigned char *)packer->table.ptr;
    u32_write(header, MAGIC_SKIPPABLE);
    u32_write(header + 4, (uint32_t)(packer->table.len - HEADER_BYTES));
    return write_all(packed_fd, packer->table.ptr, packer->table.len, err);
}

static bool packer_run(
    struct packer *packer, int plain_fd, int packed_fd, const atomic_bool *stop, struct log_seal *out, struct err *err)
{
    crypto_generichash_state state;
    crypto_generichash_init(&state, NULL, 0, LOG_HASH_BYTES);
    out->bytes = 0;
    for (int64_t offset = 0;;) {
        size_t n;
        if (atomic_load_explicit(stop, memory_order_relaxed)) {
            return err_set(err, ERR_unavailable, "packing was interrupted");
        }
        if (!read_at(plain_fd, packer->plain, SEEK_FRAME_BYTES, offset, &n, err)) {
            return false;
        }
        if (n > 0 && !packer_frame(packer, n, packed_fd, err)) {
            return false;
        }
        crypto_generichash_update(&state, (const unsigned char *)packer->plain, n);
        offset += (int64_t)n;
        out->bytes = offset;
        if (n < SEEK_FRAME_BYTES) {
            break;
        }
    }
    crypto_generichash_final(&state, out->hash, LOG_HASH_BYTES);
    if (!packer_table(packer, packed_fd, err)) {
        return false;
    }
    return fsync(packed_fd) == 0 || os_refused(err, "syncing a packed log");
}

bool seek_pack(int plain_fd, int packed_fd, const atomic_bool *stop, struct log_seal *out, struct err *err)
{
    struct packer packer;
    packer_init(&packer);
    bool ok = packer_run(&packer, plain_fd, packed_fd, stop, out, err);
    packer_release(&packer);
    return ok;
}

/* --- reading --- */

struct entry {
    int64_t at; /* of the frame in the file */
    uint32_t packed, plain;
    unsigned char checksum[4];
};

/* Walks the table from its first entry up to and with entry `frame`; `check` also holds each unpacked size against the
 * rule. */
static bool table_walk(const struct seek_file *file, uint32_t frame, bool check, struct entry *out, struct err *err)
{
    unsigned char step[TABLE_STEP * ENTRY_BYTES];
    int64_t at = 0;
    for (uint32_t first = 0; first <= frame; first += TABLE_STEP) {
        uint32_t n = frame + 1 - first < TABLE_STEP ? frame + 1 - first : TABLE_STEP;
        if (!read_exactly(
                file->fd, step, n * ENTRY_BYTES, file->table_at + HEADER_BYTES + (int64_t)first * ENTRY_BYTES, err)) {
            return false;
        }
        for (uint32_t i = 0; i < n; i++) {
            const unsigned char *raw = step + i * ENTRY_BYTES;
            *out = (struct entry){ .at = at, .packed = u32_read(raw), .plain = u32_read(raw + 4) };
            memcpy(out->checksum, raw + 8, 4);
            bool last = first + i == file->n_frames - 1;
            bool sound =
                out->packed > 4 && out->packed <= PACKED_FRAME_MAX && out->plain > 0 && out->plain <= SEEK_FRAME_BYTES;
            if (!sound || (check && !last && out->plain != SEEK_FRAME_BYTES)) {
                return err_set(err, ERR_corrupt, "the seek table of a packed log is damaged at frame %u", first + i);
            }
            at += out->packed;
        }
    }
    return true;
}

bool seek_open(int fd, struct seek_file *out, struct err *err)
{
    struct stat st;
    if (fstat(fd, &st) < 0) {
        return os_refused(err, "looking at a packed log");
    }
    unsigned char footer[FOOTER_BYTES], header[HEADER_BYTES];
    if (st.st_size < HEADER_BYTES + FOOTER_BYTES) {
        return err_set(err, ERR_corrupt, "a packed log is too short");
    }
    if (!read_exactly(fd, footer, FOOTER_BYTES, st.st_size - FOOTER_BYTES, err)) {
        return false;
    }
    uint32_t n = u32_read(footer);
    int64_t table_bytes = HEADER_BYTES + (int64_t)n * ENTRY_BYTES + FOOTER_BYTES;
    bool sound = u32_read(footer + 5) == MAGIC_SEEKABLE && footer[4] == DESCRIPTOR_CHECKSUMS && n <= SEEK_FRAMES_MAX &&
                 table_bytes <= st.st_size;
    if (!sound) {
        return err_set(err, ERR_corrupt, "the end of a packed log is damaged");
    }
    struct seek_file file = { .fd = fd, .table_at = st.st_size - table_bytes, .n_frames = n };
    if (!read_exactly(fd, header, HEADER_BYTES, file.table_at, err)) {
        return false;
    }
    if (u32_read(header) != MAGIC_SKIPPABLE || u32_read(header + 4) != (uint32_t)(table_bytes - HEADER_BYTES)) {
        return err_set(err, ERR_corrupt, "the seek table of a packed log is damaged");
    }
    struct entry last = { 0 };
    if (n > 0) {
        if (!table_walk(&file, n - 1, true, &last, err)) {
            return false;
        }
        file.bytes = (int64_t)(n - 1) * SEEK_FRAME_BYTES + last.plain;
    }
    if (last.at + last.packed != file.table_at) {
        return err_set(err, ERR_corrupt, "the seek table of a packed log doesn't fit its frames");
    }
    *out = file;
    return true;
}

static bool frame_unpack(
    struct seek_reader *reader, const struct seek_file *file, uint32_t frame, struct seek_slot *slot, struct err *err)
{
    struct entry entry;
    if (!table_walk(file, frame, false, &entry, err) ||
        !read_exactly(file->fd, reader->packed, entry.packed, entry.at, err)) {
        return false;
    }
    size_t n = ZSTD_decompressDCtx(reader->context, slot->bytes, SEEK_FRAME_BYTES, reader->packed, entry.packed);
    reader->n_unpacked++;
    if (ZSTD_isError(n)) {
        return err_set(err, ERR_corrupt, "frame %u of a packed log is damaged: %s", frame, ZSTD_getErrorName(n));
    }
    if (n != entry.plain || memcmp(reader->packed + entry.packed - 4, entry.checksum, 4) != 0) {
        return err_set(err, ERR_corrupt, "frame %u of a packed log contradicts the seek table", frame);
    }
    slot->n_bytes = (uint32_t)n;
    return true;
}

/* The slot that holds the frame, unpacked now if none does: then the longest unused one gives way. */
static struct seek_slot *slot_get(struct seek_reader *reader, const struct seek_file *file, int64_t task, int64_t grant,
    uint32_t frame, struct err *err)
{
    struct seek_slot *oldest = &reader->slots[0];
    for (size_t i = 0; i < SEEK_SLOTS; i++) {
        struct seek_slot *slot = &reader->slots[i];
        if (slot->n_bytes > 0 && slot->task == task && slot->grant == grant && slot->frame == frame) {
            slot->used = ++reader->tick;
            return slot;
        }
        oldest = slot->used < oldest->used ? slot : oldest;
    }
    if (reader->context == NULL) {
        reader->context = ZSTD_createDCtx();
        ASSERT(reader->context != NULL);
        reader->packed = mem_alloc(PACKED_FRAME_MAX);
    }
    if (oldest->bytes == NULL) {
        oldest->bytes = mem_alloc(SEEK_FRAME_BYTES);
    }
    oldest->n_bytes = 0; /* whatever fails below, the old content is gone */
    if (!frame_unpack(reader, file, frame, oldest, err)) {
        return NULL;
    }
    oldest->task = task;
    oldest->grant = grant;
    oldest->frame = frame;
    oldest->used = ++reader->tick;
    return oldest;
}

bool seek_read(struct seek_reader *reader, const struct seek_file *file, int64_t task, int64_t grant, int64_t offset,
    size_t max, struct buf *out, struct err *err)
{
    int64_t left = file->bytes - offset;
    if (left <= 0) {
        return true;
    }
    size_t want = (uint64_t)left < max ? (size_t)left : max;
    while (want > 0) {
        struct seek_slot *slot = slot_get(reader, file, task, grant, (uint32_t)(offset / SEEK_FRAME_BYTES), err);
        if (slot == NULL) {
            return false;
        }
        size_t within = (size_t)(offset % SEEK_FRAME_BYTES);
        if (within >= slot->n_bytes) {
            return err_set(err, ERR_corrupt, "frame %u of a packed log is too short", slot->frame);
        }
        size_t n = slot->n_bytes - within < want ? slot->n_bytes - within : want;
        buf_add(out, slot->bytes + within, n);
        offset += (int64_t)n;
        want -= n;
    }
    return true;
}

void seek_reader_release(struct seek_reader *reader)
{
    for (size_t i = 0; i < SEEK_SLOTS; i++) {
        mem_free(reader->slots[i].bytes);
    }
    mem_free(reader->packed);
    ZSTD_freeDCtx(reader->context);
    *reader = (struct seek_reader){ 0 };
}
