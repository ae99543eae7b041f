/* Keys, names and fences: what is accepted formats back to the same bytes. */
#include "fuzz.h"
#include "text/key.h"

#define SHAPES(X) X(id) X(task) X(variant) X(run) X(queue_task) X(changeset) X(revision) X(lane) X(refused) X(fence)
FUZZ_SHAPES(SHAPES)

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
        SEEN_IF(id, key.kind == KEY_ID);
        SEEN_IF(task, key.kind == KEY_TASK);
        SEEN_IF(variant, key.variant.len > 0);
        SEEN_IF(run, key.run > 0);
        SEEN_IF(queue_task, key.kind == KEY_QUEUE_TASK);
        SEEN_IF(changeset, key.kind == KEY_CHANGESET);
        SEEN_IF(revision, key.kind == KEY_REVISION);
        SEEN_IF(lane, key.kind == KEY_LANE);
        key_format(&buf, &key);
        HOLDS(str_eq(buf_str(&buf), text));
    } else {
        SEEN(refused);
        HOLDS(err.code != ERR_none && err.text[0] && str_is_utf8(str_of(err.text)));
    }
    if (fence_parse(text, &fence)) {
        struct fence next = fence;
        HOLDS(str_eqz(text, fence_format(fence).z));
        HOLDS(fence.task > 0 && fence.grant > 0);
        next.grant++; /* the newest sorts last, as long as it has the digits that it is padded to */
        HOLDS(fence.grant >= 99999999 || str_cmp(text, str_of(fence_format(next).z)) < 0);
        SEEN(fence);
    }
    struct err none = { 0 };
    HOLDS(name_check(text, "task", &none) == name_is_valid(text));
    buf_release(&buf);
    return 0;
}
