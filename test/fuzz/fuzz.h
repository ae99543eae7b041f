/* fuzz: what every target includes. HOLDS aborts, so that libFuzzer keeps the input. */
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

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

#endif
