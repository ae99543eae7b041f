/* words: split a command by shell rules, and quote for a shell.
 *
 * Owns the rules of quoting. It promises that words_split undoes words_join for every word without control characters,
 * and that nothing is ever expanded. It fails with the column of the quote or backslash at fault. */
#include "text/words.h"

#include <string.h>

struct split {
    struct str text;
    size_t at;
    char *room; /* for all words and their NULs: no word is longer than its part of the text */
    char *word; /* being put together, at the end of what is used of room; NULL: between words */
    size_t len;
    struct arena *arena;
    struct words *out;
};

static bool fault(struct split *split, size_t at, struct err *err, const char *text)
{
    split->out->fault_column = str_chars(str_sub(split->text, 0, at)) + 1;
    return err_set(err, ERR_invalid, "column %zu: %s", split->out->fault_column, text);
}

static void word_begin(struct split *split)
{
    if (split->word == NULL) {
        split->word = split->room;
        split->len = 0;
    }
}

static void word_end(struct split *split)
{
    if (split->word == NULL)
        return;
    struct words *out = split->out;
    *ARENA_PUSH(split->arena, out->items, out->n, out->cap) = (struct str){ split->word, split->len };
    split->room = split->word + split->len + 1;
    split->word = NULL;
}

static bool single_quotes(struct split *split, struct err *err)
{
    size_t from = split->at++;
    const char *end = memchr(split->text.ptr + split->at, '\'', split->text.len - split->at);
    if (end == NULL)
        return fault(split, from, err, "the quote ' is never closed");
    size_t n = (size_t)(end - split->text.ptr) - split->at;
    memcpy(split->word + split->len, split->text.ptr + split->at, n);
    split->len += n;
    split->at += n + 1;
    return true;
}

static bool double_quotes(struct split *split, struct err *err)
{
    struct str text = split->text;
    size_t from = split->at++;
    for (; split->at < text.len && text.ptr[split->at] != '"'; split->at++) {
        char c = text.ptr[split->at];
        if (c == '\\' && split->at + 1 < text.len && strchr("\"\\$`\n", text.ptr[split->at + 1]) != NULL) {
            c = text.ptr[++split->at];
            if (c == '\n')
                continue;
        }
        split->word[split->len++] = c;
    }
    if (split->at == text.len)
        return fault(split, from, err, "the quote \" is never closed");
    split->at++;
    return true;
}

static bool backslash(struct split *split, struct err *err)
{
    if (split->at + 1 == split->text.len)
        return fault(split, split->at, err, "nothing follows the backslash");
    char c = split->text.ptr[split->at + 1];
    if (c != '\n') { /* a joined line neither begins a word nor ends one */
        word_begin(split);
        split->word[split->len++] = c;
    }
    split->at += 2;
    return true;
}

static bool step(struct split *split, struct err *err)
{
    char c = split->text.ptr[split->at];
    if (c == '\\')
        return backslash(split, err);
    if (c == ' ' || c == '\t' || c == '\n') {
        word_end(split);
        split->at++;
        return true;
    }
    word_begin(split);
    if (c == '\'')
        return single_quotes(split, err);
    if (c == '"')
        return double_quotes(split, err);
    split->word[split->len++] = c;
    split->at++;
    return true;
}

bool words_split(struct str text, struct arena *arena, struct words *out, struct err *err)
{
    *out = (struct words){ 0 };
    struct split split = { .text = text, .arena = arena, .out = out };
    const char *nul = text.len > 0 ? memchr(text.ptr, '\0', text.len) : NULL;
    if (nul != NULL)
        return fault(&split, (size_t)(nul - text.ptr), err, "a NUL character isn't allowed");
    split.room = arena_alloc(arena, 2 * text.len + 1); /* zeroed: the NULs are there */
    while (split.at < text.len)
        if (!step(&split, err))
            return false;
    word_end(&split);
    if (out->n == 0)
        return fault(&split, 0, err, "the command is empty");
    return true;
}

static bool is_plain(char c)
{
    return char_is_alnum(c) || str_index(STR("_@%+:,./-"), c) >= 0;
}

/* quote_escaped: $'...', for words that would otherwise put control characters on a terminal. */
static void quote_escaped(struct buf *out, struct str word)
{
    buf_add_z(out, "$'");
    for (size_t i = 0; i < word.len; i++) {
        char c = word.ptr[i];
        if (c == '\n' || c == '\t' || c == '\r') {
            buf_add_z(out, c == '\n' ? "\\n" : c == '\t' ? "\\t" : "\\r");
        } else if (char_is_control(c)) {
            char octal[4] = { '\\', (char)('0' + (c >> 6 & 7)), (char)('0' + (c >> 3 & 7)), (char)('0' + (c & 7)) };
            buf_add(out, octal, sizeof octal);
        } else {
            if (c == '\'' || c == '\\')
                buf_add_char(out, '\\');
            buf_add_char(out, c);
        }
    }
    buf_add_char(out, '\'');
}

void words_quote(struct buf *out, struct str word)
{
    bool plain = word.len > 0;
    for (size_t i = 0; i < word.len && plain; i++) /* NAME=x might be read as an assignment */
        plain = is_plain(word.ptr[i]) || (word.ptr[i] == '=' && word.ptr[0] == '-');
    if (plain) {
        buf_add_str(out, word);
        return;
    }
    if (str_has_control(word)) {
        quote_escaped(out, word);
        return;
    }
    buf_add_char(out, '\'');
    for (size_t i = 0; i < word.len; i++) {
        if (word.ptr[i] == '\'')
            buf_add_z(out, "'\\''");
        else
            buf_add_char(out, word.ptr[i]);
    }
    buf_add_char(out, '\'');
}

void words_join(struct buf *out, const struct str *words, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (i > 0)
            buf_add_char(out, ' ');
        words_quote(out, words[i]);
    }
}
