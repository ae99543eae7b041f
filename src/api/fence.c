/* fence: what an executor must send back unchanged: the fence of a grant, and the newest event that an answer named.
 *
 * Both are numbers that anybody could write down, so each carries a tag: SipHash-2-4 of the numbers, keyed with a
 * secret of the site (job_token_open, store/secret.h), the same at all its servers. Nothing is stored. A text whose tag
 * is wrong is ignored: a fence that was never given out, a `seen` that no server has sent. */
#include <endian.h>
#include <sodium.h>
#include <string.h>

#include "api/call.h"

enum { TAG_DIGITS = 2 * crypto_shorthash_BYTES };
_Static_assert(sizeof(struct fence_key) == crypto_shorthash_KEYBYTES, "the key is SipHash's");

/* tag_put: the tag of three numbers of one kind as hexadecimal digits, and a NUL. */
static void tag_put(const struct fence_key *key, char kind, uint64_t a, uint64_t b, uint64_t c, char *out)
{
    const uint64_t numbers[] = { htole64(a), htole64(b), htole64(c) };
    unsigned char bytes[1 + sizeof numbers] = { (unsigned char)kind }, tag[crypto_shorthash_BYTES];
    memcpy(bytes + 1, numbers, sizeof numbers);
    crypto_shorthash(tag, bytes, sizeof bytes, key->bytes);
    sodium_bin2hex(out, TAG_DIGITS + 1, tag, sizeof tag);
}

/* tag_cut: the text before its last '-', and what is behind it. */
static bool tag_cut(struct str text, struct str *out_front, struct str *out_tag)
{
    ptrdiff_t at = str_rindex(text, '-');
    if (at < 0 || text.len - (size_t)at - 1 != TAG_DIGITS)
        return false;
    *out_front = str_sub(text, 0, (size_t)at);
    *out_tag = str_sub(text, (size_t)at + 1, text.len);
    return true;
}

struct fence_sealed fence_seal(const struct fence_key *key, struct fence fence)
{
    struct fence_sealed text;
    struct fence_text bare = fence_format(fence);
    size_t n = strlen(bare.z);
    _Static_assert(sizeof bare.z + 1 + TAG_DIGITS <= sizeof text.z, "there is room for both");
    memcpy(text.z, bare.z, n);
    text.z[n] = '-';
    tag_put(key, 'f', fence.incarnation, (uint64_t)fence.task, (uint64_t)fence.grant, text.z + n + 1);
    return text;
}

bool fence_open(const struct fence_key *key, struct str text, struct fence *out)
{
    struct str bare, tag;
    struct fence fence;
    char right[TAG_DIGITS + 1];
    if (!tag_cut(text, &bare, &tag) || !fence_parse(bare, &fence))
        return false;
    tag_put(key, 'f', fence.incarnation, (uint64_t)fence.task, (uint64_t)fence.grant, right);
    if (sodium_memcmp(right, tag.ptr, TAG_DIGITS) != 0)
        return false;
    *out = fence;
    return true;
}

int64_t fence_task(struct str text)
{
    struct str bare = text, tag;
    struct fence fence;
    if (!tag_cut(text, &bare, &tag))
        bare = text;
    return fence_parse(bare, &fence) ? fence.task : 0;
}

struct str seen_seal(const struct fence_key *key, struct arena *arena, uint64_t incarnation, int64_t seq)
{
    char tag[TAG_DIGITS + 1];
    tag_put(key, 's', incarnation, (uint64_t)seq, 0, tag);
    return str_fmt(arena, "%016llx-%lld-%s", (unsigned long long)incarnation, (long long)seq, tag);
}

bool seen_open(
    const struct fence_key *key, struct arena *arena, struct str text, uint64_t *out_incarnation, int64_t *out_seq)
{
    struct str front, tag;
    struct fence fence; /* the same form, but for the grant: INCARNATION-SEQ */
    if (!tag_cut(text, &front, &tag) || !fence_parse(str_fmt(arena, "%.*s-00000001", STR_ARG(front)), &fence))
        return false;
    char right[TAG_DIGITS + 1];
    tag_put(key, 's', fence.incarnation, (uint64_t)fence.task, 0, right);
    if (sodium_memcmp(right, tag.ptr, TAG_DIGITS) != 0)
        return false;
    *out_incarnation = fence.incarnation;
    *out_seq = fence.task;
    return true;
}
