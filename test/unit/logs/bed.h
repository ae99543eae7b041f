/* bed: what the tests of the log store stand on: a folder of their own, and logs whose every byte is known from task
 * and offset. */
#ifndef WEIR_TEST_LOGS_BED_H
#define WEIR_TEST_LOGS_BED_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/rng.h"
#include "store/logs/logs.h"

enum { BED_GRANT = 7 };

struct bed {
    char dir[64];
    struct logs *logs;
    struct rng rng;
};

void bed_open(struct bed *bed);
void bed_close(struct bed *bed);  /* closes the logs and removes the folder */
void bed_reopen(struct bed *bed); /* as a restart of the server would */
void bed_remove(const char *dir);

void bed_fill(int64_t task, int64_t offset, char *out, size_t n); /* the bytes that the log of the task has there */
/* bed_append: appends n known bytes at offset; the code of the refusal, or ERR_none. */
enum err_code bed_append(
    struct logs *logs, int64_t task, int64_t offset, size_t n, struct log_position *out, int64_t *out_expected);
void bed_append_ok(struct logs *logs, int64_t task, int64_t offset, size_t n);
/* reads, and holds it against what is known */
void bed_expect(struct logs *logs, int64_t task, int64_t offset, size_t max, int64_t size);
void bed_expect_all(struct logs *logs, int64_t task, int64_t size);
int64_t bed_size(struct logs *logs, int64_t task);
bool bed_has(const struct bed *bed, const char *name); /* a path below DATA/logs */

#endif
