/* fuzz: what every target includes. HOLDS aborts, so that libFuzzer keeps the input.
 *
 * A target names the shapes of input that it wants to have seen (FUZZ_SHAPES) and counts them (SEEN). The replay of the
 * seeds and their mutations prints the table, and a shape that was never seen fails it: a property that is only ever
 * tried on refused input proves nothing.
 */
#ifndef WEIR_TEST_FUZZ_H
#define WEIR_TEST_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

#define HOLDS(property) \
    do { \
        if (!(property)) { \
            fprintf(stderr, "%s:%d: doesn't hold: %s\n", __FILE__, __LINE__, #property); \
            abort(); \
        } \
    } while (0)

struct fuzz_shape {
    const char *name;
    unsigned long n;
};
extern struct fuzz_shape fuzz_shapes[]; /* ended by a NULL name */

/* FUZZ_SHAPES(X): X is a list macro: #define SHAPES(X) X(accepted) X(refused) */
#define FUZZ_SHAPE_ENUM(name) SHAPE_##name,
#define FUZZ_SHAPE_ROW(name) { #name, 0 },
#define FUZZ_SHAPES(LIST) \
    enum { LIST(FUZZ_SHAPE_ENUM) SHAPE_COUNT }; \
    struct fuzz_shape fuzz_shapes[] = { LIST(FUZZ_SHAPE_ROW){ NULL, 0 } };
#define SEEN(name) (fuzz_shapes[SHAPE_##name].n++)
#define SEEN_IF(name, condition) (fuzz_shapes[SHAPE_##name].n += (condition) ? 1u : 0u)

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

/* Numbers taken from the front of the input, 0 when nothing is left. */
static inline unsigned take_byte(struct str *rest)
{
    if (rest->len == 0)
        return 0;
    unsigned byte = (unsigned char)rest->ptr[0];
    *rest = str_sub(*rest, 1, rest->len);
    return byte;
}

static inline unsigned take_u16(struct str *rest)
{
    unsigned high = take_byte(rest);
    return high << 8 | take_byte(rest);
}

#endif
