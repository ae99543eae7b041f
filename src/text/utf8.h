/* utf8: which character some bytes are, and back. Which bytes are well-formed is said by base/str.h. */
#ifndef WEIR_TEXT_UTF8_H
#define WEIR_TEXT_UTF8_H

#include "base/str.h"

uint32_t utf8_value(const char *ptr, size_t n); /* the character of n well-formed bytes */
size_t utf8_put(char *to, uint32_t c);          /* writes 1 to 4 bytes */

#endif
