/* program: another program, run to its end: what it printed, or the user at its terminal. */
#ifndef WEIR_CLI_PROGRAM_H
#define WEIR_CLI_PROGRAM_H

#include "base/buf.h"
#include "base/err.h"

/* program_read: runs argv (found by PATH) in the folder, with nothing on its stdin; its stdout goes to `out`, up to its
 * cap. False: it can't be run (not_found), printed more (body_too_large), or ended other than with 0 (invalid, with the
 * first line that it wrote on stderr). Messages are in English: LC_MESSAGES=C. */
bool program_read(const char *const *argv, const char *folder, struct buf *out, struct err *err);

/* program_edit: $VISUAL or $EDITOR on the file, at the terminal. False: there is no editor (not_found), or it didn't
 * end with 0 (invalid). */
bool program_edit(const char *file, struct err *err);

#endif
