/* diag: what is wrong with a file, as a compiler says it: all faults of a file in one run, each with its place.
 *
 *     _workflows/pdf.yaml:3:5: error: unknown key 'comand'
 *         comand: make pdf
 *         ^
 *         did you mean 'command'?
 *
 * Lines and columns count from 1, columns in characters. Line 0 means: the whole thing (an option, a variable, a file
 * that is too large). At most DIAG_MAX are kept; n_errors counts on. */
#ifndef WEIR_TEXT_DIAG_H
#define WEIR_TEXT_DIAG_H

#include "base/buf.h"
#include "base/err.h"

#define DIAG_MAX 100

enum diag_severity { DIAG_NONE, DIAG_ERROR, DIAG_WARNING, DIAG_SEVERITY_COUNT };

struct diag_file { /* kept alive by the caller as long as the diags */
    struct str name, text;
};

struct diag_place {
    const struct diag_file *file;
    unsigned line, column;
};

struct diag {
    struct diag_place place;
    enum diag_severity severity;
    struct str message, suggestion; /* suggestion: a sentence, or empty */
    struct str pointer;             /* of a request's body: where, as a JSON pointer */
};

struct diags {
    struct arena *arena; /* set before the first one is added */
    struct diag *items;
    size_t n, cap;
    size_t n_errors, n_dropped;
};

/* diag_error, diag_warning: add one; both return false so that `return diag_error(...)` reads well. */
bool diag_error(struct diags *diags, struct diag_place place, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
bool diag_verror(struct diags *diags, struct diag_place place, const char *fmt, va_list args)
    __attribute__((format(printf, 3, 0)));
bool diag_warning(struct diags *diags, struct diag_place place, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* diag_suggest: the sentence that goes with the one added last (nothing if that one was dropped). diag_suggest_closest:
 * "did you mean 'X'?" if one of the candidates looks like what was written. diag_suggest_known: that, or else all that
 * could stand there. */
void diag_suggest(struct diags *diags, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void diag_suggest_closest(struct diags *diags, struct str written, const struct str *candidates, size_t n);
void diag_suggest_known(struct diags *diags, struct str written, const struct str *known, size_t n);

void diags_sort(struct diags *diags); /* by file name, line, column; equal ones stay in order */
void diags_text(struct buf *out, const struct diags *diags);
/* [{file, line, column, severity, message, suggestion?}] */
void diags_json(struct buf *out, const struct diags *diags);

/* diags_to_err: each as an err_item (code invalid) with file, line and column; for answers of the API. False if there
 * was an error. */
bool diags_to_err(const struct diags *diags, struct err *err);

/* diag_place_at: the place of byte `offset` in the file. */
struct diag_place diag_place_at(const struct diag_file *file, size_t offset);

/* diag_shown: a bounded part of what a file says, cut between characters, for sentences. */
struct str diag_shown(struct str s);

#endif
