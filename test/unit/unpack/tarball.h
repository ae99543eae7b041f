/* tarball: tar archives of any kind, also such as no tar program writes, built in memory for the tests. */
#ifndef WEIR_TEST_UNPACK_TARBALL_H
#define WEIR_TEST_UNPACK_TARBALL_H

#include "base/buf.h"

struct tar_put { /* of one entry; what is 0 is as usual */
    const char *name;
    char type; /* default '0' */
    struct str data;
    unsigned mode;       /* default 0644 */
    const char *prefix;  /* ustar */
    const char *link;    /* its target */
    const char *size;    /* the field's bytes, if it isn't the length of data */
    struct str size_raw; /* the same, 12 bytes */
    const char *uid;     /* the field's bytes */
    bool is_gnu, is_v7, is_odd, has_bad_sum;
};

void tarball_put(struct buf *out, struct tar_put put);
void tarball_header(struct buf *out, struct tar_put put);                        /* without data */
void tarball_pax(struct buf *out, char type, const char *key, struct str value); /* an extended header, one record */
void tarball_long_name(struct buf *out, struct str name);                        /* GNU's */
void tarball_end(struct buf *out);                                               /* two blocks of zeros */
void tarball_data(struct buf *out, struct str data);                             /* with its padding */

/* tarball_compress: the bytes by a filter of libarchive: "gzip", "xz", "zstd", "bzip2", "lz4". */
void tarball_compress(struct buf *out, const char *filter, struct str bytes);
/* tarball_bomb: n_bytes zeros behind `head`, compressed as they come. */
void tarball_bomb(struct buf *out, const char *filter, struct str head, uint64_t n_bytes);

int tarball_file(struct str bytes); /* a descriptor of a file without a name */

#endif
