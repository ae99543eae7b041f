/* stream: the bytes of a tarball, as they are or out of one layer of gzip, xz or zstd (libarchive, loaded for that and
 * only in the process that unpacks).
 *
 * Which layer there is shows in the first bytes; another inside it isn't opened, so its bytes are no tar archive. Bytes
 * behind the layer's end are refused. */
#ifndef WEIR_UNPACK_STREAM_H
#define WEIR_UNPACK_STREAM_H

#include "base/err.h"

enum stream_layer { STREAM_PLAIN, STREAM_GZIP, STREAM_XZ, STREAM_ZSTD };
enum { STREAM_BYTES = 1 << 16, STREAM_HEAD = 6 };

struct stream {
    int fd;
    enum stream_layer layer;
    size_t n_head;         /* bytes that stream_open has read */
    uint64_t n_read;       /* of the tarball */
    uint64_t n_out, n_max; /* bytes handed on, and how many there may be */
    int fault;             /* errno of a read that failed */
    char bytes[STREAM_BYTES];
};

/* stream_open: reads the first bytes and loads what the layer needs; after it no other file is opened. */
bool stream_open(struct stream *stream, int fd, uint64_t n_max, struct err *err);

/* stream_run: hands on all bytes, then reads the tarball to its end. take refuses with err. */
bool stream_run(
    struct stream *stream, bool (*take)(void *owner, struct str bytes, struct err *err), void *owner, struct err *err);

#endif
