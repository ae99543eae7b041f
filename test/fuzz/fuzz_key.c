/* Keys, names and fences: what is accepted formats back to the same bytes. */
#include "fuzz.h"
#include "text/key.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct str text = { (const char *)bytes, len };
    struct err err = { 0 };
    struct key key;
    struct fence fence;
    struct buf buf;
    buf_init(&buf, 1 << 16);
    if (key_parse(text, &key, &err)) {
        HOLDS(key.kind != KEY_NONE && len <= KEY_BYTES_MAX);
        key_format(&buf, &key);
        HOLDS(str_eq(buf_str(&buf), text));
    } else {
        HOLDS(err.code != ERR_none && err.text[0] && str_is_utf8(str_of(err.text)));
    }
    if (fence_parse(text, &fence)) {
        HOLDS(str_eqz(text, fence_format(fence).z));
    }
    struct err none = { 0 };
    HOLDS(name_check(text, "task", &none) == name_is_valid(text));
    buf_release(&buf);
    return 0;
}
