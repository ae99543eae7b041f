/* hint_message: what `weir notify` says to a server in one datagram, and the word that comes back.
 *
 * "weir-notify 1 ARCHIVE REV [txn=TXN] [CAUSE]", blanks between; REV is a number, or a commit's id or a word such as
 * HEAD for repositories that name their revisions otherwise; TXN is the transaction that became the revision; CAUSE the
 * key of the task whose job made it. The answer, to those who have an address, is one of the words of NOTE_ANSWERS.
 * Everything is checked here: a note comes from anybody on this machine. */
#ifndef WEIR_TEXT_HINT_MESSAGE_H
#define WEIR_TEXT_HINT_MESSAGE_H

#include "base/buf.h"
#include "base/err.h"

#define NOTE_BYTES_MAX 2048
#define NOTE_WORD_MAX 200

/* name, what the caller is told */
#define NOTE_ANSWERS(X) \
    X(ok, NULL) \
    X(unknown, "no archive of this name is followed") \
    X(external, \
        "the archive is external: its revisions are posted (POST /v1/archives/NAME/revisions), there is nothing to " \
        "read") \
    X(malformed, "the server doesn't understand the note")
enum note_answer {
#define X(name, text) NOTE_##name,
    NOTE_ANSWERS(X)
#undef X
    NOTE_COUNT
};
const char *note_answer_name(enum note_answer answer);
const char *note_answer_text(enum note_answer answer); /* NULL: nothing to tell */
enum note_answer note_answer_find(struct str name);    /* NOTE_COUNT: none */

struct note {
    struct str archive;
    int64_t rev;       /* 0: a word */
    struct str commit; /* the word, where it is a commit's id */
    struct str txn, cause;
};
bool note_parse(struct str bytes, struct note *out); /* views into bytes; false: malformed */
/* err: usage */
bool note_format(
    struct buf *out, struct str archive, struct str rev, struct str txn, struct str cause, struct err *err);

#endif
