/* Command lines: the words of a line, quoted and joined, split into the same words again; any text, quoted, is that one
 * word. */
#include "fuzz.h"
#include "text/words.h"

#define SHAPES(X) X(split) X(several) X(refused) X(plain) X(control) X(quoted)
FUZZ_SHAPES(SHAPES)

/* split(quote(x)) = x, for what has no control characters (those show as $'...', which is for people and bash). */
static void quote_one(struct arena *arena, struct str word)
{
    struct words back = { 0 };
    struct err err = { .arena = arena };
    struct buf line;
    for (size_t i = 0; i < word.len; i++)
        if ((unsigned char)word.ptr[i] < ' ' || word.ptr[i] == 0x7f)
            return;
    if (!str_is_utf8(word))
        return;
    buf_init(&line, word.len * 8 + 64);
    words_quote(&line, word);
    HOLDS(!line.full && words_split(buf_str(&line), arena, &back, &err) && back.n == 1 && str_eq(back.items[0], word));
    SEEN_IF(quoted, line.len != word.len);
    buf_release(&line);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct arena arena = { 0 };
    struct err err = { .arena = &arena };
    struct words words = { 0 }, back = { 0 };
    if (words_split((struct str){ (const char *)bytes, len }, &arena, &words, &err)) {
        bool plain = true; /* control characters are shown as $'...', which is for people and bash */
        struct buf line;
        buf_init(&line, len * 8 + 64);
        HOLDS(words.n > 0);
        for (size_t i = 0; i < words.n; i++) {
            HOLDS(words.items[i].ptr[words.items[i].len] == '\0' && str_index(words.items[i], '\0') < 0);
            for (size_t j = 0; j < words.items[i].len; j++) {
                unsigned char c = (unsigned char)words.items[i].ptr[j];
                plain = plain && c >= ' ' && c < 0x7f;
            }
        }
        SEEN(split);
        SEEN_IF(several, words.n > 1);
        SEEN_IF(plain, plain);
        SEEN_IF(control, !plain);
        words_join(&line, words.items, words.n);
        HOLDS(!line.full);
        if (plain) {
            HOLDS(words_split(buf_str(&line), &arena, &back, &err) && back.n == words.n);
            for (size_t i = 0; i < words.n; i++) {
                HOLDS(str_eq(words.items[i], back.items[i]));
            }
        }
        buf_release(&line);
    } else {
        HOLDS(err.code == ERR_invalid && err.text[0]);
        SEEN(refused);
    }
    quote_one(&arena, (struct str){ (const char *)bytes, len });
    arena_release(&arena);
    return 0;
}
