/* bed: what the tests about repositories share: a folder, real repositories made by svnadmin, svn and git in it, and
 * their trees compared.
 */
#ifndef WEIR_TEST_SOURCE_BED_H
#define WEIR_TEST_SOURCE_BED_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "base/arena.h"
#include "source/source.h"

extern char bed[64]; /* the folder of this test */

int bed_make(void **state);
int bed_drop(void **state);

/* sh: runs a shell script with $T = bed; its output is shown and the test fails when it doesn't end with 0. sh_status:
 * gives its status back. sh_out: its output, in a static place, without the last newline. */
void sh(const char *script, ...) __attribute__((format(printf, 1, 2)));
int sh_status(const char *script, ...) __attribute__((format(printf, 1, 2)));
const char *sh_out(const char *script, ...) __attribute__((format(printf, 1, 2)));

const char *in(const char *name); /* bed/name, in one of four static places */
void file_put(const char *path, const void *bytes, size_t len);

/* open_ok: fails the test with the error's text. */
struct source *open_ok(enum archive_kind kind, const char *url, const char *branch);
void open_refused(enum archive_kind kind, const char *url, const char *branch, enum err_code code, const char *part);

struct source_ident rev(int64_t n);
struct source_ident id(const char *hex);
struct source_ident git_id(const char *repository, const char *name); /* what git rev-parse says; static */

/* must: the call succeeded; said: it failed with that code, and the text has `part` in it. */
void must(bool good, const struct err *err);
void said(bool good, const struct err *err, enum err_code code, const char *part);

void export_to(struct source *source, struct source_ident ident, const char *name); /* bed/name is made */
void export_changed_to(struct source *source, struct source_ident from, struct source_ident to, const char *name);
bool trees_equal(const char *a, const char *b); /* names, kinds, exec bits, links, bytes */

uint64_t now_us(void);

/* svnserve_start: serves the bed on *port, or on a free one, which it sets; returns when it answers. */
pid_t svnserve_start(int *port);
void svnserve_end(pid_t server); /* 0: nothing */

#endif
