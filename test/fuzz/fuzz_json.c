/* JSON: what is accepted is written and read again as an equal value; what is refused names a reason. */
#include "fuzz.h"
#include "text/json_read.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct arena arena = { 0 };
    struct err err = { .arena = &arena };
    json_t *value = json_parse((struct str){ (const char *)bytes, len }, 16, &err);
    if (value) {
        struct err again = { .arena = &arena };
        struct str text = json_text(&arena, value, true);
        HOLDS(str_is_utf8(text));
        json_t *back = json_parse(text, 16, &again);
        HOLDS(back && json_equal(value, back));
        HOLDS(str_eq(text, json_text(&arena, back, true)));
        json_decref(back);
        json_decref(value);
    } else {
        HOLDS(err.code != ERR_none && err.text[0] && str_is_utf8(str_of(err.text)));
    }
    arena_release(&arena);
    return 0;
}
