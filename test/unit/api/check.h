/* check: what every test of the room needs: cmocka, an arena, documents as text, comparing views with text. */
#ifndef WEIR_TEST_API_CHECK_H
#define WEIR_TEST_API_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "api/call.h"

#define COUNT_OF(array) (sizeof(array) / sizeof(array)[0])

/* check_str: the view must be this text; both are printed when it isn't. */
#define check_str(got, wanted) check_str_at((got), str_of(wanted), __FILE__, __LINE__)
static inline void check_str_at(struct str got, struct str wanted, const char *file, int line)
{
    if (str_eq(got, wanted))
        return;
    print_error("wanted: %.*s\ngot:    %.*s\n", STR_ARG(wanted), STR_ARG(got));
    _fail(file, line);
}

/* faults_text: "code | path: message [suggestion] | ..." in the order in which they were found. */
static inline struct str faults_text(struct arena *arena, const struct err *err)
{
    struct str text = str_of(err_name(err->code));
    for (size_t i = 0; i < err->n_items; i++) {
        const struct err_item *item = &err->items[i];
        text = str_fmt(arena, "%.*s | %.*s: %.*s%s%.*s%s", STR_ARG(text), STR_ARG(item->path), STR_ARG(item->message),
            item->suggestion.len > 0 ? " [" : "", STR_ARG(item->suggestion), item->suggestion.len > 0 ? "]" : "");
    }
    return text;
}

#endif
