/* untar: a tar stream (ustar, pax) unpacked into a folder as it comes in, in pieces of any size.
 *
 * Takes folders, files and symbolic links; hard links, devices and sparse files are refused. Names that are absolute,
 * hold '..' or lead through a link are refused: nothing is ever written outside the folder, and no link is followed.
 * Links themselves are made as they are, as an export from the repository makes them. Limits: UNTAR_FILES_MAX entries,
 * UNTAR_BYTES_MAX bytes. */
#ifndef WEIR_EXEC_UNTAR_H
#define WEIR_EXEC_UNTAR_H

#include "base/buf.h"
#include "base/err.h"

#define UNTAR_FILES_MAX 5000000u
#define UNTAR_BYTES_MAX ((uint64_t)256 << 30)

struct untar {
    int root_fd, file_fd; /* file_fd: being written, or -1 */
    char block[512];
    size_t block_bytes;
    uint64_t left, padding;       /* of the present entry */
    bool extended;                /* it is a pax header: bytes go to `extra` */
    struct buf extra, path, link; /* path, link: as a pax header said; empty: as the block says */
    int64_t size;                 /* likewise; -1 */
    bool ended;
    uint64_t files, bytes;
};

void untar_init(struct untar *untar, int root_fd);
bool untar_add(struct untar *untar, struct str bytes, struct err *err);
bool untar_finish(struct untar *untar, struct err *err); /* the end mark must have come */
void untar_release(struct untar *untar);

#endif
