/* tarball: see tarball.h. */
#include "tarball.h"

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"

static void field_put(char *to, const char *text, size_t len)
{
    if (text != NULL)
        memcpy(to, text, strnlen(text, len));
}

void tarball_header(struct buf *out, struct tar_put put)
{
    char block[512] = { 0 }, number[32];
    unsigned sum = 0;
    field_put(block, put.name, 100);
    snprintf(number, sizeof number, "%07o", put.mode ? put.mode : put.type == '5' ? 0755u : 0644u);
    field_put(block + 100, number, 8);
    field_put(block + 108, put.uid ? put.uid : "0001750", 8);
    field_put(block + 116, put.uid ? put.uid : "0001750", 8);
    snprintf(number, sizeof number, "%011llo", (unsigned long long)put.data.len);
    field_put(block + 124, put.size ? put.size : number, 12);
    if (put.size_raw.len == 12)
        memcpy(block + 124, put.size_raw.ptr, 12);
    field_put(block + 136, "14000000000", 12);
    block[156] = put.type ? put.type : '0';
    field_put(block + 157, put.link, 100);
    if (!put.is_v7)
        memcpy(block + 257, put.is_gnu ? "ustar  " : "ustar\00000", 8);
    if (put.is_odd)
        block[262] = 'x';
    field_put(block + 345, put.prefix, 155);
    memset(block + 148, ' ', 8);
    for (size_t i = 0; i < sizeof block; i++)
        sum += (unsigned char)block[i];
    snprintf(number, sizeof number, "%06o", sum + put.has_bad_sum);
    memcpy(block + 148, number, 7);
    buf_add(out, block, sizeof block);
}

void tarball_data(struct buf *out, struct str data)
{
    static const char zeros[512];
    buf_add_str(out, data);
    buf_add(out, zeros, -data.len & 511);
}

void tarball_put(struct buf *out, struct tar_put put)
{
    tarball_header(out, put);
    tarball_data(out, put.data);
}

void tarball_pax(struct buf *out, char type, const char *key, struct str value)
{
    struct buf record;
    size_t len = strlen(key) + value.len + 3, digits = 1;
    for (size_t n = 10; len + digits >= n; n *= 10)
        digits++;
    buf_init(&record, SIZE_MAX);
    buf_addf(&record, "%zu %s=", len + digits, key);
    buf_add_str(&record, value);
    buf_add_char(&record, '\n');
    tarball_put(out, (struct tar_put){ .name = "PaxHeaders/x", .type = type, .data = buf_str(&record) });
    buf_release(&record);
}

void tarball_long_name(struct buf *out, struct str name)
{
    struct buf data;
    buf_init(&data, SIZE_MAX);
    buf_add_str(&data, name);
    buf_add_char(&data, '\0');
    tarball_put(out, (struct tar_put){ .name = "././@LongLink", .type = 'L', .data = buf_str(&data), .is_gnu = true });
    buf_release(&data);
}

void tarball_end(struct buf *out)
{
    static const char zeros[1024];
    buf_add(out, zeros, sizeof zeros);
}

static la_ssize_t out_write(struct archive *archive, void *owner, const void *bytes, size_t n)
{
    (void)archive;
    buf_add(owner, bytes, n);
    return (la_ssize_t)n;
}

void tarball_bomb(struct buf *out, const char *filter, struct str head, uint64_t n_bytes)
{
    static const char zeros[1 << 20];
    struct archive *archive = archive_write_new();
    struct archive_entry *entry = archive_entry_new();
    ASSERT(archive_write_set_format_raw(archive) == ARCHIVE_OK);
    ASSERT(archive_write_add_filter_by_name(archive, filter) == ARCHIVE_OK);
    archive_write_set_bytes_in_last_block(archive, 1);
    ASSERT(archive_write_open(archive, out, NULL, out_write, NULL) == ARCHIVE_OK);
    archive_entry_set_filetype(entry, AE_IFREG);
    ASSERT(archive_write_header(archive, entry) == ARCHIVE_OK);
    ASSERT(archive_write_data(archive, head.ptr, head.len) == (la_ssize_t)head.len);
    for (uint64_t n; n_bytes > 0; n_bytes -= n) {
        n = n_bytes < sizeof zeros ? n_bytes : sizeof zeros;
        ASSERT(archive_write_data(archive, zeros, (size_t)n) == (la_ssize_t)n);
    }
    archive_entry_free(entry);
    ASSERT(archive_write_close(archive) == ARCHIVE_OK);
    archive_write_free(archive);
}

void tarball_compress(struct buf *out, const char *filter, struct str bytes)
{
    tarball_bomb(out, filter, bytes, 0);
}

int tarball_file(struct str bytes)
{
    const char *tmp = getenv("TMPDIR");
    int fd = open(tmp ? tmp : "/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    ASSERT(fd >= 0);
    while (bytes.len > 0) {
        ssize_t n = write(fd, bytes.ptr, bytes.len);
        ASSERT(n > 0);
        bytes = str_sub(bytes, (size_t)n, bytes.len);
    }
    return fd;
}
