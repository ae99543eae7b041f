/* mask: see mask.h. One pass over the bytes; a form is compared only where its first byte stands. Nothing here fails.
 */
#include "exec/mask.h"

#include <string.h>

#include "exec/base64.h"

enum { SECRET_MIN = 16 };

static void form_add(struct mask *mask, struct str text)
{
    if (mask->n_forms == MASK_FORMS_MAX || text.len == 0 || text.len > MASK_FORM_BYTES)
        return;
    for (size_t i = 0; i < mask->n_forms; i++)
        if (str_eq(text, (struct str){ mask->forms[i].text, mask->forms[i].len }))
            return;
    struct mask_form *form = &mask->forms[mask->n_forms++];
    memcpy(form->text, text.ptr, text.len);
    form->len = text.len;
    mask->begins[(unsigned char)text.ptr[0]] = true;
}

/* form_of_bytes: each byte as two hexadecimal digits, behind a percent sign if wanted. */
static void form_of_bytes(struct mask *mask, struct str secret, bool percent, const char *digits)
{
    char text[MASK_FORM_BYTES];
    size_t n = 0;
    for (size_t i = 0; i < secret.len; i++) {
        unsigned char c = (unsigned char)secret.ptr[i];
        if (percent)
            text[n++] = '%';
        text[n++] = digits[c >> 4];
        text[n++] = digits[c & 15];
    }
    form_add(mask, (struct str){ text, n });
}

/* forms_of_base64: the secret behind 0, 1 or 2 other bytes; only the characters that depend on the secret alone. Both
 * alphabets. */
static void forms_of_base64(struct mask *mask, struct str secret)
{
    for (size_t before = 0; before < 3; before++) {
        char bytes[MASK_SECRET_MAX + 2] = { 0 };
        struct buf text;
        buf_init(&text, 2 * sizeof bytes);
        memcpy(bytes + before, secret.ptr, secret.len);
        base64_add(&text, (struct str){ bytes, before + secret.len });
        size_t from = (before * 8 + 5) / 6, upto = (before + secret.len) * 8 / 6;
        form_add(mask, (struct str){ text.ptr + from, upto - from });
        for (size_t i = from; i < upto; i++)
            text.ptr[i] = text.ptr[i] == '+' ? '-' : text.ptr[i] == '/' ? '_' : text.ptr[i];
        form_add(mask, (struct str){ text.ptr + from, upto - from });
        buf_release(&text);
    }
}

void mask_set(struct mask *mask, struct str secret)
{
    mask->n_forms = mask->n_held = 0;
    if (secret.len < SECRET_MIN || secret.len > MASK_SECRET_MAX)
        return;
    memset(mask->begins, 0, sizeof mask->begins);
    form_add(mask, secret);
    for (int percent = 0; percent < 2; percent++) {
        form_of_bytes(mask, secret, percent, "0123456789abcdef");
        form_of_bytes(mask, secret, percent, "0123456789ABCDEF");
    }
    forms_of_base64(mask, secret);
}

/* form_at: how many bytes of `rest` a form takes; 0: none. *out_partial: all of `rest` is the beginning of one. */
static size_t form_at(const struct mask *mask, struct str rest, bool *out_partial)
{
    for (size_t i = 0; i < mask->n_forms; i++) {
        const struct mask_form *form = &mask->forms[i];
        size_t len = rest.len < form->len ? rest.len : form->len;
        if (memcmp(rest.ptr, form->text, len) != 0)
            continue;
        if (len == form->len)
            return len;
        *out_partial = true;
    }
    return 0;
}

/* mask_scan: passes on what is decided, and gives how much of the end isn't. */
static size_t mask_scan(const struct mask *mask, struct str bytes, mask_out *out, void *owner)
{
    size_t from = 0, at = 0;
    while (at < bytes.len) {
        bool partial = false;
        size_t len =
            mask->begins[(unsigned char)bytes.ptr[at]] ? form_at(mask, str_sub(bytes, at, bytes.len), &partial) : 0;
        if (len == 0 && !partial) {
            at++;
            continue;
        }
        if (at > from)
            out(owner, str_sub(bytes, from, at));
        if (len == 0)
            return bytes.len - at;
        out(owner, STR("***"));
        from = at += len;
    }
    if (at > from)
        out(owner, str_sub(bytes, from, at));
    return 0;
}

void mask_add(struct mask *mask, struct str bytes, mask_out *out, void *owner)
{
    if (mask->n_forms == 0) {
        out(owner, bytes);
        return;
    }
    while (mask->n_held > 0 && bytes.len > 0) { /* with a piece that is long enough to decide about what is held */
        char joined[2 * MASK_FORM_BYTES];
        size_t more = bytes.len < MASK_FORM_BYTES ? bytes.len : MASK_FORM_BYTES, n = mask->n_held + more;
        memcpy(joined, mask->held, mask->n_held);
        memcpy(joined + mask->n_held, bytes.ptr, more);
        mask->n_held = mask_scan(mask, (struct str){ joined, n }, out, owner);
        memcpy(mask->held, joined + n - mask->n_held, mask->n_held);
        bytes = str_sub(bytes, more, bytes.len);
    }
    if (bytes.len == 0)
        return;
    mask->n_held = mask_scan(mask, bytes, out, owner);
    memcpy(mask->held, bytes.ptr + bytes.len - mask->n_held, mask->n_held);
}

void mask_end(struct mask *mask, mask_out *out, void *owner)
{
    if (mask->n_held > 0)
        out(owner, (struct str){ mask->held, mask->n_held });
    mask->n_held = 0;
}
