/* check: what every test of the room needs: cmocka, an arena, and comparing views with text. */
#ifndef WEIR_TEST_TEXT_CHECK_H
#define WEIR_TEST_TEXT_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"

#define COUNT_OF(array) (sizeof(array) / sizeof(array)[0])

/* check_str: the view must be this text; the case is printed when it isn't. */
#define check_str(got, wanted) check_str_at((got), str_of(wanted), __FILE__, __LINE__)
static inline void check_str_at(struct str got, struct str wanted, const char *file, int line)
{
    if (str_eq(got, wanted))
        return;
    print_error("wanted: %.*s\ngot:    %.*s\n", STR_ARG(wanted), STR_ARG(got));
    _fail(file, line);
}

/* exact: a copy of the bytes at the very end of an allocation, so that reading past them is seen by the sanitizer. */
static inline struct str exact(struct str s)
{
    char *copy = malloc(s.len > 0 ? s.len : 1);
    assert_non_null(copy);
    if (s.len > 0)
        memcpy(copy, s.ptr, s.len);
    return (struct str){ copy, s.len };
}
static inline void exact_free(struct str s)
{
    union {
        const char *in;
        void *plain;
    } ptr = { .in = s.ptr };
    free(ptr.plain);
}

#endif
