/* words: a command line split by shell rules without running a shell, and words quoted so that a shell reads them back.
 *
 * Rules: blanks, tabs and newlines separate; '...' is literal; in "..." a backslash quotes " \ $ ` and joins lines;
 * elsewhere it quotes the next character. Nothing is expanded: $, *, ~, ;, | and > are plain characters. */
#ifndef WEIR_TEXT_WORDS_H
#define WEIR_TEXT_WORDS_H

#include "base/buf.h"
#include "base/err.h"

/* What the kernel takes as one string of a command or an environment: 128 KiB with its NUL. A variable (NAME=VALUE) may
 * have to stand behind an option of a container program. */
enum { WORD_BYTES_MAX = 128 * 1024 - 1, VARIABLE_BYTES_MAX = WORD_BYTES_MAX - 7 };

struct words {
    struct str *items; /* in the arena; each is followed by a NUL, so items[i].ptr can stand in an argv */
    size_t n, cap;
    size_t fault_column; /* after a failure: where, in characters from 1 */
};

/* words_split: false and err (invalid, "column N: ...") for a quote that is never closed, a backslash at the end, a
 * NUL, or no word at all.
 */
bool words_split(struct str text, struct arena *arena, struct words *out, struct err *err);

/* words_quote: one word as a shell reads it back; control characters show as escapes ($'\033'). words_join: all of them
 * with blanks between. */
void words_quote(struct buf *out, struct str word);
void words_join(struct buf *out, const struct str *words, size_t n);

#endif
