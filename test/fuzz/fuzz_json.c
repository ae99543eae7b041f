/* JSON: what is accepted is written and read again as an equal value; what is refused names a reason; the reader of
 * documents (API) and the reader of files (with places) take the same texts, but for the numbers that only texts can
 * hold. */
#include "fuzz.h"
#include "text/json_node.h"
#include "text/json_value.h"

#define SHAPES(X) X(accepted) X(refused) X(object) X(array) X(both) X(number_too_large) X(nul_escape)
FUZZ_SHAPES(SHAPES)

static void both_readers(struct str text)
{
    struct arena arena = { 0 };
    struct err err = { .arena = &arena };
    struct diag_file file = { STR("fuzz.json"), text };
    struct diags diags = { .arena = &arena };
    json_t *value = json_parse(text, NODE_DEPTH_MAX, &err);
    const struct doc_node *node = json_node_parse(&file, &arena, &diags);
    bool number = !value && strstr(err.text, "number") != NULL; /* a node keeps the text of a number */
    bool nul =
        /* no file has one; of documents it is each field's own question */
        value && !node && memmem(text.ptr, text.len, "\\u0000", 6);
    if ((value != NULL) != (node != NULL) && !number && !nul)
        fprintf(stderr, "json_parse: %s\njson_node: %.*s\n", value ? "accepted" : err.text,
            diags.n ? (int)diags.items[0].message.len : 8, diags.n ? diags.items[0].message.ptr : "accepted");
    HOLDS((value != NULL) == (node != NULL) || number || nul);
    SEEN_IF(both, value && node);
    SEEN_IF(number_too_large, number);
    SEEN_IF(nul_escape, nul);
    json_decref(value);
    arena_release(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct arena arena = { 0 };
    struct err err = { .arena = &arena };
    json_t *value = json_parse((struct str){ (const char *)bytes, len }, 16, &err);
    if (value) {
        SEEN(accepted);
        SEEN_IF(object, json_object_size(value) > 0);
        SEEN_IF(array, json_array_size(value) > 0);
        struct err again = { .arena = &arena };
        struct str text = json_text(&arena, value, true);
        HOLDS(str_is_utf8(text));
        json_t *back = json_parse(text, 16, &again);
        HOLDS(back && json_equal(value, back));
        HOLDS(str_eq(text, json_text(&arena, back, true)));
        json_decref(back);
        json_decref(value);
    } else {
        SEEN(refused);
        HOLDS(err.code != ERR_none && err.text[0] && str_is_utf8(str_of(err.text)));
    }
    arena_release(&arena);
    if (len < 100000)
        both_readers((struct str){ (const char *)bytes, len });
    return 0;
}
