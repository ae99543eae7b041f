/* report: what the process that unpacks tells the one that started it: records over a pipe.
 *
 * The sender has read hostile bytes and may be under their control, so the reader believes no number and no text: see
 * unpack/unpack.c for what each record can do at worst. A record is its kind, two numbers and two texts, each text with
 * its length; numbers are varints in their shortest form. */
#ifndef WEIR_UNPACK_REPORT_H
#define WEIR_UNPACK_REPORT_H

#include "base/buf.h"

enum report_kind {
    REPORT_NONE,
    REPORT_CONFINED, /* first: ABI of Landlock (0: none), flags REPORT_SECCOMP and REPORT_MEMORY */
    REPORT_FOLDER,   /* path below lroot/ */
    REPORT_FILE,     /* bytes, 1 if executable; path below lroot/ */
    REPORT_META,     /* text: the content of meta */
    REPORT_FAULT,    /* an err_code; path, sentence; nothing follows */
    REPORT_END,      /* bytes of the tarball that were read; everything was good; nothing follows */
    REPORT_KIND_COUNT
};
enum { REPORT_SECCOMP = 1, REPORT_MEMORY = 2 };

struct report {
    enum report_kind kind;
    uint64_t number, more;
    struct str path, text;
};

void report_add(struct buf *out, const struct report *report);
bool report_cut(struct str *rest, struct report *out); /* views of *rest; false: not a whole record */

#endif
