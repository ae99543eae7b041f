/* stream: see stream.h. Owns the reading of the tarball's descriptor and the one layer around a tar archive. It
 * promises that no more than n_max bytes are handed on and that a run that succeeds has read the tarball to its end. */
#include "unpack/stream.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "unpack/libarchive.h"

static const struct layer {
    struct str magic;
    const char *name;
    int filter;
} layers[] = {
    [STREAM_PLAIN] = { { "", 0 }, "plain", ARCHIVE_FILTER_NONE },
    [STREAM_GZIP] = { { "\x1f\x8b", 2 }, "gzip", ARCHIVE_FILTER_GZIP },
    [STREAM_XZ] = { { "\xfd"
                      "7zXZ\0",
                        6 },
        "xz", ARCHIVE_FILTER_XZ },
    [STREAM_ZSTD] = { { "\x28\xb5\x2f\xfd", 4 }, "zstd", ARCHIVE_FILTER_ZSTD },
};

/* input_read: more bytes of the tarball at `to`; 0: its end; -1: stream->fault. */
static ssize_t input_read(struct stream *stream, char *to, size_t room)
{
    ssize_t n;
    do {
        n = read(stream->fd, to, room);
    } while (n < 0 && errno == EINTR);
    if (n < 0)
        stream->fault = errno;
    else
        stream->n_read += (uint64_t)n;
    return n;
}

static bool input_fail(const struct stream *stream, struct err *err)
{
    return err_set(err, ERR_io, "the tarball can't be read: %s", strerrordesc_np(stream->fault));
}

bool stream_open(struct stream *stream, int fd, uint64_t n_max, struct err *err)
{
    const char *missing;
    stream->fd = fd;
    stream->n_max = n_max;
    stream->layer = STREAM_PLAIN;
    stream->n_head = stream->n_read = stream->n_out = 0;
    for (ssize_t n = 1; stream->n_head < STREAM_HEAD && n > 0; stream->n_head += (size_t)n) {
        n = input_read(stream, stream->bytes + stream->n_head, STREAM_HEAD - stream->n_head);
        if (n < 0)
            return input_fail(stream, err);
    }
    for (enum stream_layer layer = STREAM_GZIP; layer <= STREAM_ZSTD; layer++)
        if (str_starts((struct str){ stream->bytes, stream->n_head }, layers[layer].magic))
            stream->layer = layer;
    if (stream->n_head == 0)
        return err_set(err, ERR_bad_request, "the tarball is empty");
    if (stream->layer != STREAM_PLAIN && !unpack_archive_load(&missing))
        return err_set(err, ERR_unavailable, "a tarball with %s around it needs libarchive, which isn't there: %s",
            layers[stream->layer].name, missing);
    return true;
}

/* hand_on: within n_max, which is far above what the content's own limits leave through. */
static bool hand_on(struct stream *stream, struct str bytes, bool (*take)(void *, struct str, struct err *),
    void *owner, struct err *err)
{
    if (bytes.len > stream->n_max - stream->n_out)
        return err_set(err, ERR_body_too_large, "more than %llu bytes unpacked (changesets.limits.unpacked)",
            (unsigned long long)stream->n_max);
    stream->n_out += bytes.len;
    return take(owner, bytes, err);
}

/* next_bytes: the head first, then what comes; 0: the end. */
static ssize_t next_bytes(struct stream *stream)
{
    size_t n = stream->n_head;
    stream->n_head = 0;
    return n > 0 ? (ssize_t)n : input_read(stream, stream->bytes, sizeof stream->bytes);
}

static la_ssize_t layer_read(struct archive *archive, void *owner, const void **out_bytes)
{
    struct stream *stream = owner;
    (void)archive;
    *out_bytes = stream->bytes;
    return next_bytes(stream);
}

/* layer_fail: libarchive's own words ("Unrecognized archive format") would mislead here. */
static bool layer_fail(const struct stream *stream, struct err *err)
{
    if (stream->fault != 0)
        return input_fail(stream, err);
    return err_set(err, ERR_invalid, "the %s around the archive is damaged, cut off or followed by other bytes",
        layers[stream->layer].name);
}

static bool layer_run(struct stream *stream, struct archive *archive, bool (*take)(void *, struct str, struct err *),
    void *owner, struct err *err)
{
    struct archive_entry *entry;
    const void *bytes;
    size_t n;
    la_int64_t at;
    /* the filter is named, not searched for: one layer, and never a program that libarchive would start for it */
    if (archive_read_support_format_raw(archive) != ARCHIVE_OK ||
        archive_read_append_filter(archive, layers[stream->layer].filter) != ARCHIVE_OK)
        return err_set(err, ERR_unavailable, "this libarchive can't read %s", layers[stream->layer].name);
    int status = archive_read_open(archive, stream, NULL, layer_read, NULL);
    if (status == ARCHIVE_OK)
        status = archive_read_next_header(archive, &entry);
    while (status == ARCHIVE_OK && (status = archive_read_data_block(archive, &bytes, &n, &at)) == ARCHIVE_OK)
        if (!hand_on(stream, (struct str){ bytes, n }, take, owner, err))
            return false;
    if (status != ARCHIVE_EOF)
        return layer_fail(stream, err);
    uint64_t consumed = (uint64_t)archive_filter_bytes(archive, -1);
    if (consumed < stream->n_read || next_bytes(stream) > 0)
        return layer_fail(stream, err);
    return stream->fault == 0 || input_fail(stream, err);
}

bool stream_run(
    struct stream *stream, bool (*take)(void *owner, struct str bytes, struct err *err), void *owner, struct err *err)
{
    ssize_t n;
    if (stream->layer != STREAM_PLAIN) {
        struct archive *archive = archive_read_new();
        if (archive == NULL)
            return err_set(err, ERR_unavailable, "no memory");
        bool good = layer_run(stream, archive, take, owner, err);
        archive_read_free(archive);
        return good;
    }
    while ((n = next_bytes(stream)) > 0)
        if (!hand_on(stream, (struct str){ stream->bytes, (size_t)n }, take, owner, err))
            return false;
    return n == 0 || input_fail(stream, err);
}
