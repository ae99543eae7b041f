/* Request targets and framing headers: what is accepted has a clean path and decodes; what is refused has a reason; what is encoded decodes
 * to the same. Splitting a connection into requests is libmicrohttpd's work; what it splits by (the framing headers) is judged here. */
#include "fuzz.h"
#include "io/client.h"
#include "io/http_head.h"

#define SHAPES(X) X(target) X(target_refused) X(query) X(escapes) X(head) X(head_refused) X(length) X(chunked)
FUZZ_SHAPES(SHAPES)

static void headers(struct str text)
{
    struct http_head head = { 0 };
    struct err err = { 0 };
    struct str line, name;
    while (str_cut(&text, '\n', &line)) {
        if (str_cut(&line, ':', &name)) {
            http_head_add(&head, name, str_trim(line));
        }
    }
    bool good = http_head_check(&head, STR("HTTP/1.1"), &err);
    HOLDS(good == (err.code == ERR_none));
    SEEN_IF(head, good);
    SEEN_IF(head_refused, !good);
    SEEN_IF(length, good && head.n_lengths);
    SEEN_IF(chunked, good && head.chunked);
    HOLDS(!good || head.n_lengths <= 1);
    HOLDS(!good || !(head.n_lengths && head.n_encodings)); /* never two opinions about where the body ends */
}

static void round_trip(struct arena *arena, struct str text)
{
    struct str encoded = client_encode(arena, text), decoded;
    bool decodes = http_decode(arena, encoded, false, &decoded);
    HOLDS(decodes == (str_index(text, '\0') < 0)); /* NUL is the one byte that is never taken */
    HOLDS(!decodes || str_eq(decoded, text));
    for (size_t i = 0; i < encoded.len; i++)
        HOLDS(encoded.ptr[i] > ' ' && encoded.ptr[i] < 0x7f && !strchr("/?#&=+\"", encoded.ptr[i]));
}

static bool climbs(struct str path)
{
    struct str part;
    while (str_cut(&path, '/', &part))
        if (str_eqz(part, ".."))
            return true;
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct str text = { (const char *)bytes, len }, path, query, decoded;
    struct arena arena = { 0 };
    struct err err = { 0 };
    if (http_target_parse(&arena, STR("GET"), text, &path, &query, &err)) {
        HOLDS(path.len > 0 && path.ptr[0] == '/' && str_index(path, '\0') < 0 && !climbs(path) && str_is_utf8(path));
        SEEN(target);
        SEEN_IF(query, query.len > 0);
        SEEN_IF(escapes, str_index(text, '%') >= 0);
        HOLDS(http_decode(&arena, query, true, &decoded) && str_index(decoded, '\0') < 0);
    } else {
        HOLDS(err.code != ERR_none && err.text[0]);
        SEEN(target_refused);
    }
    round_trip(&arena, text);
    headers(text);
    arena_release(&arena);
    return 0;
}
