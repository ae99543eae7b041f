/* glob: patterns of paths, run as a set of places in the pattern that moves along the path, so no pattern is slow. */
#include "text/glob.h"

#include <string.h>

enum glob_kind {
    GLOB_NONE,
    GLOB_CHAR,
    GLOB_ANY,     /* ? */
    GLOB_SET,     /* [...] */
    GLOB_STAR,    /* * */
    GLOB_DEEP,    /* ** */
    GLOB_FOLDERS, /* the beginning of a part, before "**" and a slash; what follows stands two tokens on */
    GLOB_INSIDE,  /* in the middle of a folder's name: the second half of GLOB_FOLDERS */
    GLOB_KIND_COUNT
};

struct glob_token {
    enum glob_kind kind;
    struct str text; /* the character, or what stands between the brackets */
    bool negated;    /* [!...] */
};

static struct str char_at(struct str s, size_t at)
{
    size_t len = str_char_len(str_sub(s, at, s.len));
    return str_sub(s, at, at + (len > 0 ? len : 1));
}

/* set_end: the place of the ] that ends the set beginning at `at` (after the bracket); s.len: none. */
static size_t set_end(struct str s, size_t at)
{
    at += at < s.len && (s.ptr[at] == '!' || s.ptr[at] == '^');
    at += at < s.len && s.ptr[at] == ']';
    while (at < s.len && s.ptr[at] != ']')
        at++;
    return at;
}

static const char *set_parse(struct str pattern, size_t *at, struct glob_token *token)
{
    size_t end = set_end(pattern, *at + 1);
    if (end == pattern.len)
        return "a [ is never closed";
    token->kind = GLOB_SET;
    token->text = str_sub(pattern, *at + 1, end);
    if (token->text.ptr[0] == '!' || token->text.ptr[0] == '^') {
        token->negated = true;
        token->text = str_sub(token->text, 1, token->text.len);
    }
    if (str_index(token->text, '/') >= 0)
        return "a / can't stand between [ and ]";
    *at = end + 1;
    return NULL;
}

/* stars_parse: one star, two, or two and a slash where a part begins. */
static void stars_parse(struct str pattern, size_t *at, struct glob *glob)
{
    size_t from = *at;
    while (*at < pattern.len && pattern.ptr[*at] == '*')
        (*at)++;
    bool begins = from == 0 || pattern.ptr[from - 1] == '/';
    if (*at - from == 1) {
        glob->tokens[glob->n++].kind = GLOB_STAR;
    } else if (begins && *at < pattern.len && pattern.ptr[*at] == '/') {
        glob->tokens[glob->n++].kind = GLOB_FOLDERS;
        glob->tokens[glob->n++].kind = GLOB_INSIDE;
        (*at)++;
    } else {
        glob->tokens[glob->n++].kind = GLOB_DEEP;
    }
}

const char *glob_parse(struct str pattern, struct arena *arena, struct glob *out)
{
    struct glob glob = { 0 };
    if (pattern.len > GLOB_BYTES_MAX)
        return "the pattern is longer than 1024 bytes";
    if (pattern.len > 0 && memchr(pattern.ptr, '\0', pattern.len) != NULL)
        return "the pattern contains a NUL character";
    if (pattern.len > 0 && pattern.ptr[0] == '!') {
        glob.negated = true;
        pattern = str_sub(pattern, 1, pattern.len);
    }
    if (pattern.len > 0 && pattern.ptr[0] == '/')
        pattern = str_sub(pattern, 1, pattern.len);
    if (pattern.len == 0)
        return "the pattern is empty";
    glob.tokens = ARENA_ARRAY(arena, struct glob_token, pattern.len + 3);
    for (size_t at = 0; at < pattern.len;) {
        struct glob_token *token = &glob.tokens[glob.n];
        char c = pattern.ptr[at];
        if (c == '*') {
            stars_parse(pattern, &at, &glob);
            continue;
        }
        glob.n++;
        if (c == '[') {
            const char *fault = set_parse(pattern, &at, token);
            if (fault != NULL)
                return fault;
            continue;
        }
        if (c == '\\' && ++at == pattern.len)
            return "a \\ at the end quotes nothing";
        token->kind = c == '?' ? GLOB_ANY : GLOB_CHAR;
        token->text = char_at(pattern, at);
        at += token->text.len;
    }
    if (pattern.ptr[pattern.len - 1] == '/')
        glob.tokens[glob.n++].kind = GLOB_DEEP;
    *out = glob;
    return NULL;
}

static bool set_has(const struct glob_token *token, struct str c)
{
    struct str set = token->text;
    bool found = false;
    for (size_t at = 0; at < set.len && !found;) {
        struct str low = char_at(set, at), high = low;
        at += low.len;
        if (at + 1 < set.len && set.ptr[at] == '-') {
            high = char_at(set, at + 1);
            at += 1 + high.len;
        }
        found = str_cmp(low, c) <= 0 && str_cmp(c, high) <= 0; /* UTF-8 sorts as characters do */
    }
    return found != token->negated;
}

/* reach: marks a place in the pattern and all places reachable from it without consuming a character. */
static void reach(const struct glob *glob, bool *places, size_t place)
{
    while (!places[place]) {
        places[place] = true;
        if (place == glob->n)
            return;
        enum glob_kind kind = glob->tokens[place].kind;
        if (kind == GLOB_STAR || kind == GLOB_DEEP)
            place++;
        else if (kind == GLOB_FOLDERS)
            place += 2;
    }
}

static void step(const struct glob *glob, size_t place, struct str c, bool *next)
{
    const struct glob_token *token = &glob->tokens[place];
    bool slash = c.ptr[0] == '/';
    switch (token->kind) {
    case GLOB_CHAR:
        if (str_eq(token->text, c))
            reach(glob, next, place + 1);
        break;
    case GLOB_ANY:
        if (!slash)
            reach(glob, next, place + 1);
        break;
    case GLOB_SET:
        if (!slash && set_has(token, c))
            reach(glob, next, place + 1);
        break;
    case GLOB_STAR:
        if (!slash)
            reach(glob, next, place);
        break;
    case GLOB_DEEP:
        reach(glob, next, place);
        break;
    case GLOB_FOLDERS:
        if (!slash)
            reach(glob, next, place + 1);
        break;
    case GLOB_INSIDE:
        reach(glob, next, slash ? place - 1 : place);
        break;
    case GLOB_NONE:
    case GLOB_KIND_COUNT:
        break;
    }
}

bool glob_matches(const struct glob *glob, struct str path)
{
    bool sets[2][GLOB_BYTES_MAX + 4] = { { 0 } };
    unsigned now = 0;
    if (path.len > 0 && path.ptr[0] == '/')
        path = str_sub(path, 1, path.len);
    reach(glob, sets[now], 0);
    for (size_t at = 0; at < path.len; now ^= 1) {
        struct str c = char_at(path, at);
        at += c.len;
        memset(sets[now ^ 1], 0, glob->n + 1);
        for (size_t place = 0; place < glob->n; place++)
            if (sets[now][place])
                step(glob, place, c, sets[now ^ 1]);
    }
    return sets[now][glob->n];
}

bool globs_match(const struct globs *globs, struct str path)
{
    for (size_t i = globs->n; i-- > 0;)
        if (glob_matches(&globs->items[i], path))
            return !globs->items[i].negated;
    return globs->n > 0 && globs->items[0].negated;
}
