/* child: the process that unpacks one tarball: `weir unpack`, started by unpack/unpack.c alone.
 *
 * Its descriptors: 0 the tarball, 1 its reports, 3 the directory (extract only); every other one is closed. It exits 0
 * when its last report was written, whatever the report says. */
#ifndef WEIR_UNPACK_CHILD_H
#define WEIR_UNPACK_CHILD_H

#include "text/changeset.h"
#include "unpack/confine.h"

enum child_fd { CHILD_FD_TARBALL, CHILD_FD_REPORT, CHILD_FD_STDERR, CHILD_FD_DIR, CHILD_FD_COUNT };
enum { CHILD_ARGUMENTS = 8 };

struct child_order {
    bool is_extract;
    struct changeset_limits limits;
    int64_t cpu_s, parent_pid;
};

/* child_order_format: the words of the command line; each lives in the arena. child_order_parse reads them. */
void child_order_format(const struct child_order *order, struct arena *arena, char *out[CHILD_ARGUMENTS]);
bool child_order_parse(const char *const words[CHILD_ARGUMENTS], struct child_order *out);

int child_main(const char *const words[CHILD_ARGUMENTS]); /* the exit status; main ends with it by _exit */

/* child_confine: how a child of this order is confined; apart, for the tests. */
bool child_confine(const struct child_order *order, struct confined *out, struct err *err);

#endif
