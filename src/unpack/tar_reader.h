/* tar_reader: the entries of a tar archive, read as its bytes come; strict.
 *
 * Our own, and not libarchive's, because a change set must mean one thing: libarchive's reader takes archives that
 * other readers take otherwise (two sizes, two names, bytes behind the end) and normalises names. What this one takes,
 * every reader takes the same way; the fuzz target compares it with libarchive's listing.
 *
 * Taken: ustar, pax (path and size, which may not differ from the header's) and GNU long names; regular files and
 * folders. Refused: links, devices, FIFOs, sparse files, set-id and sticky bits, extended attributes, ACLs, flags, a
 * wrong checksum, a negative size, an archive without its end (two blocks of zeros) or with anything but zeros behind
 * it. Owners and times aren't looked at.
 *
 * Memory is bounded by TAR_PAX_BYTES_MAX, whatever the archive says. Faults are err with code invalid, beyond a limit
 * body_too_large; tar_reader_path names the entry. */
#ifndef WEIR_UNPACK_TAR_READER_H
#define WEIR_UNPACK_TAR_READER_H

#include "base/buf.h"
#include "base/err.h"

#define TAR_BLOCK 512
#define TAR_NAME_BYTES_MAX 8192         /* of a name, whatever the limits of paths are: those are for the caller */
#define TAR_PAX_BYTES_MAX 65536         /* of one extended header */
#define TAR_PADDING_BYTES_MAX (1 << 20) /* zeros behind the end; tar programs pad to 10 KiB */

struct tar_entry {
    struct str path; /* as it stands there, a folder's without the slash at its end */
    uint64_t size;
    bool is_folder, is_executable;
};

/* Each may refuse with err. `end` comes once for each `begin`, after all its bytes. */
struct tar_events {
    bool (*begin)(void *owner, const struct tar_entry *entry, struct err *err);
    bool (*bytes)(void *owner, struct str bytes, struct err *err);
    bool (*end)(void *owner, struct err *err);
    void *owner;
};

enum tar_state { TAR_HEADER, TAR_EXTENDED, TAR_DATA, TAR_PADDING, TAR_END };

struct tar_reader {
    struct tar_events events;
    enum tar_state state;
    char block[TAR_BLOCK];
    size_t n_block;
    uint64_t left;    /* bytes of data, or of padding, to come */
    size_t padding;   /* behind the data */
    unsigned n_zeros; /* blocks of zeros in a row */
    uint64_t n_end;   /* zeros behind the end */
    char type;        /* of the extended header that is being read */
    struct buf extended;
    char long_name[TAR_NAME_BYTES_MAX + 1]; /* of an extended header that goes before its entry; empty: none */
    size_t n_long_name;
    bool has_begun; /* a header was read */
    bool has_extended, has_size;
    const char *refused; /* what the extended header says of its entry, and a change set can't have; NULL: nothing */
    uint64_t size;       /* of an extended header */
    struct tar_entry entry;
    char name[TAR_NAME_BYTES_MAX + 1]; /* of the entry */
};

void tar_reader_init(struct tar_reader *tar, const struct tar_events *events);
void tar_reader_release(struct tar_reader *tar);
bool tar_reader_feed(struct tar_reader *tar, struct str bytes, struct err *err);
bool tar_reader_end(struct tar_reader *tar, struct err *err); /* no more bytes come: is it whole? */
struct str tar_reader_path(const struct tar_reader *tar);     /* of the last entry; empty: none yet */

#endif
