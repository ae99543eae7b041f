/* process: one child that unpacks: started, given the bytes of the tarball, listened to, ended and reaped.
 *
 * The bytes are hashed as they are given to the child, so the hash is that of the bytes that the child has read, even
 * if somebody writes to the file meanwhile. The child gets no descriptor of the file. */
#ifndef WEIR_UNPACK_PROCESS_H
#define WEIR_UNPACK_PROCESS_H

#include "base/buf.h"
#include "unpack/child.h"

#define UNPACK_HASH_BYTES 32

struct process_order {
    struct child_order child;
    const char *program;
    int tarball_fd; /* a regular file; its position stays as it is */
    int dir_fd;     /* of an extract */
    int stop_fd;    /* readable: the child is killed; -1: none */
    int64_t timeout_ms;
    size_t report_bytes_max;
};

enum process_end { PROCESS_EXITED, PROCESS_SIGNALLED, PROCESS_TIMEOUT, PROCESS_STOPPED, PROCESS_TALKATIVE };

struct process_result {
    enum process_end end;
    int status; /* exit status or signal */
    uint64_t n_fed;
    bool is_fed; /* to the end of the file */
    unsigned char sha256[UNPACK_HASH_BYTES];
    struct buf reports; /* the caller's to release */
};

/* process_run: blocks until the child has ended and is reaped. False: it couldn't be started, or the file can't be
 * read. */
bool process_run(const struct process_order *order, struct process_result *out, struct err *err);

#endif
