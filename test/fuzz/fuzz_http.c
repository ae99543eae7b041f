/* Request targets and framing headers: what is accepted has a clean path and decodes; what is refused has a reason. */
#include "fuzz.h"
#include "io/http_head.h"

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
    HOLDS(!good || head.n_lengths <= 1);
    HOLDS(!good || !(head.n_lengths && head.n_encodings)); /* never two opinions about where the body ends */
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct str text = { (const char *)bytes, len }, path, query, decoded;
    struct arena arena = { 0 };
    struct err err = { 0 };
    if (http_target_parse(&arena, STR("GET"), text, &path, &query, &err)) {
        HOLDS(path.len > 0 && path.ptr[0] == '/' && str_index(path, '\0') < 0);
        HOLDS(http_decode(&arena, query, true, &decoded) && str_index(decoded, '\0') < 0);
    } else {
        HOLDS(err.code != ERR_none && err.text[0]);
    }
    headers(text);
    arena_release(&arena);
    return 0;
}
