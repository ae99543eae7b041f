/* confine: takes from this process every right that unpacking doesn't need.
 *
 * Always: no new privileges, no capability, no core file, limits on CPU time, open files, the length of a file and
 * memory, and death with the process that started it. Where the kernel has it: Landlock (only the directory, and there
 * only making files and folders) and a seccomp filter (a list of calls; any other ends the process). What the kernel
 * lacks is reported, not refused: the result of each unpacking says how it was confined.
 *
 * Under sanitizers there is no limit on memory and no filter: they map terabytes and make calls of their own. The tests
 * use a program built without them (test/unit/unpack). */
#ifndef WEIR_UNPACK_CONFINE_H
#define WEIR_UNPACK_CONFINE_H

#include "base/err.h"

struct confine_order {
    int dir_fd;            /* where files may be made; -1: nowhere, and no file can be opened at all */
    uint64_t file_bytes;   /* the longest file */
    uint64_t memory_bytes; /* beyond what is mapped now */
    int64_t cpu_s;
};

struct confined {
    int landlock_abi; /* 0: the kernel has none */
    bool has_seccomp, has_memory_limit;
};

/* confine_parent: dies when the parent does; false: it is dead already. */
bool confine_parent(int64_t parent_pid);
bool confine_process(const struct confine_order *order, struct confined *out, struct err *err);

#endif
