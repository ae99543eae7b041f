/* Packed logs with damage: whatever bytes change, go or come, a read either fails or gives the bytes that were logged.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"
#include "store/logs/seek.h"

#define SHAPES(X) \
    X(sound) X(open_refused) X(read_refused) X(read_right) X(cut) X(grown) X(several_frames) X(nothing_logged)
FUZZ_SHAPES(SHAPES)

enum { SAMPLES = 4 };
static struct sample {
    size_t plain_bytes, packed_bytes;
    char *plain, *packed;
} samples[SAMPLES] = { { .plain_bytes = 0 }, { .plain_bytes = 300 }, { .plain_bytes = SEEK_FRAME_BYTES + 1 },
    { .plain_bytes = 2 * SEEK_FRAME_BYTES + 5000 } };

static int memory_file(const char *bytes, size_t len)
{
    int fd = memfd_create("fuzz-seek", MFD_CLOEXEC);
    HOLDS(fd >= 0 && (len == 0 || write(fd, bytes, len) == (ssize_t)len));
    return fd;
}

static void sample_make(struct sample *sample)
{
    struct err err = { 0 };
    atomic_bool stop = false;
    uint32_t random = 12345;
    sample->plain = mem_alloc(sample->plain_bytes + 1);
    for (size_t i = 0; i < sample->plain_bytes; i++) {
        random = random * 1664525u + 1013904223u;
        sample->plain[i] = i % 64 == 63 ? '\n' : (char)('a' + (random >> 24) % 8);
    }
    int plain = memory_file(sample->plain, sample->plain_bytes), packed = memory_file("", 0);
    struct log_seal sealed;
    HOLDS(seek_pack(plain, packed, &stop, &sealed, &err));
    sample->packed_bytes = (size_t)lseek(packed, 0, SEEK_END);
    sample->packed = mem_alloc(sample->packed_bytes);
    HOLDS(pread(packed, sample->packed, sample->packed_bytes, 0) == (ssize_t)sample->packed_bytes);
    close(plain);
    close(packed);
}

/* Where damage does most: anywhere, near the end (the table), or at the beginning of a frame. */
static size_t place(const struct sample *sample, unsigned how, unsigned at)
{
    size_t n = sample->packed_bytes;
    if (how % 4 == 0)
        return at % n;
    if (how % 4 == 1)
        return n - 1 - at % (n < 60 ? n : 60);
    return how % 4 == 2 ? at % (n < 32 ? n : 32) : (size_t)at * 7919 % n;
}

static size_t damage(const struct sample *sample, char *bytes, size_t len, struct str *rest)
{
    for (unsigned i = 0; i < 4 && rest->len > 0; i++) {
        unsigned op = take_byte(rest), how = take_byte(rest);
        size_t at = place(sample, how, take_u16(rest));
        if (op % 8 == 0 && at < len) {
            len = at;
            SEEN(cut);
        } else if (op % 8 == 1 && len + 16 <= sample->packed_bytes + 64) {
            memset(bytes + len, (int)take_byte(rest), 16);
            len += 16;
            SEEN(grown);
        } else if (op % 8 == 2 && at + 8 < len) {
            memmove(bytes + at, bytes + at + 4, len - at - 4);
            len -= 4;
        } else if (at < len) {
            bytes[at] = (char)(bytes[at] ^ (char)(op >> 3 | 1u));
        }
    }
    return len;
}

static void read_check(
    const struct sample *sample, const struct seek_file *file, struct seek_reader *reader, int64_t offset, size_t max)
{
    struct err err = { 0 };
    struct buf out;
    buf_init(&out, 1 << 20);
    if (seek_read(reader, file, 1, 1, offset, max, &out, &err)) {
        HOLDS(out.len <= max && (out.len == 0 || offset + (int64_t)out.len <= (int64_t)sample->plain_bytes));
        HOLDS(out.len == 0 || memcmp(out.ptr, sample->plain + offset, out.len) == 0);
        SEEN(read_right);
    } else {
        HOLDS(err.code == ERR_corrupt && err.text[0]);
        SEEN(read_refused);
    }
    buf_release(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t len)
{
    struct str rest = { (const char *)input, len };
    struct err err = { 0 };
    struct seek_file file;
    struct seek_reader reader = { 0 };
    struct sample *sample = &samples[take_byte(&rest) % SAMPLES];
    if (!sample->plain)
        sample_make(sample);
    char *bytes = mem_alloc(sample->packed_bytes + 64);
    memcpy(bytes, sample->packed, sample->packed_bytes);
    unsigned offset = take_u16(&rest);
    size_t n = damage(sample, bytes, sample->packed_bytes, &rest);
    bool sound = n == sample->packed_bytes && memcmp(bytes, sample->packed, n) == 0;
    int fd = memory_file(bytes, n);
    if (seek_open(fd, &file, &err)) {
        HOLDS(!sound || file.bytes == (int64_t)sample->plain_bytes);
        SEEN_IF(several_frames, file.n_frames > 1);
        SEEN_IF(nothing_logged, file.n_frames == 0);
        read_check(sample, &file, &reader, 0, 1 << 19);
        read_check(sample, &file, &reader, (int64_t)offset * 8, 100);
        read_check(sample, &file, &reader, SEEK_FRAME_BYTES - 1, 2);
    } else {
        HOLDS(!sound && err.code == ERR_corrupt && err.text[0]);
        SEEN(open_refused);
    }
    SEEN_IF(sound, sound);
    seek_reader_release(&reader);
    close(fd);
    mem_free(bytes);
    return 0;
}
