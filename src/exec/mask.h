/* mask: replaces a secret in a stream of bytes with ***, also where it comes in pieces.
 *
 * It finds the secret itself and the forms that usual tools make of it: hexadecimal, base64 (at any offset in a longer
 * text) and percent-encoding. A job that wants to publish its secret in another form still can; this is for `set -x`,
 * `env` and debug logs. Bytes that may be the beginning of the secret are held until more come. */
#ifndef WEIR_EXEC_MASK_H
#define WEIR_EXEC_MASK_H

#include "base/str.h"

enum { MASK_SECRET_MAX = 128, MASK_FORMS_MAX = 12, MASK_FORM_BYTES = 3 * MASK_SECRET_MAX };

struct mask_form {
    char text[MASK_FORM_BYTES];
    size_t len;
};
struct mask {
    struct mask_form forms[MASK_FORMS_MAX];
    size_t n_forms;
    bool begins[256]; /* bytes that a form begins with */
    char held[MASK_FORM_BYTES];
    size_t n_held;
};

typedef void mask_out(void *owner, struct str bytes);

/* mask_set: no secret, or one of less than 16 or more than MASK_SECRET_MAX bytes: everything passes. */
void mask_set(struct mask *mask, struct str secret);
void mask_add(struct mask *mask, struct str bytes, mask_out *out, void *owner);
void mask_end(struct mask *mask, mask_out *out, void *owner); /* what is held passes: it wasn't the secret */

#endif
