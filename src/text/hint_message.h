/* hint_message: what `weir notify` says to a server in one datagram, and the word that comes back.
 *
 * "weir-notify 1 ARCHIVE REV [txn=TXN] [CAUSE]", blanks between; REV is a number, or a commit's id or a word such as
 * HEAD for repositories that name their revisions otherwise; TXN is the transaction that became the revision; CAUSE the
 * key of the task whose job made it. The answer, to those who have an address, is one of the words of HINT_ANSWERS.
 * Everything is checked here: a note comes from anybody on this machine. */
#ifndef WEIR_TEXT_HINT_MESSAGE_H
#define WEIR_TEXT_HINT_MESSAGE_H

#include "base/buf.h"
#include "base/err.h"

#define HINT_MESSAGE_BYTES_MAX 2048
#define HINT_WORD_BYTES_MAX 200

/* name, text for the caller */
#define HINT_ANSWERS(X) \
    X(ok, NULL) \
    X(unknown, "no archive of this name is followed") \
    X(external, \
        "the archive is external: its revisions are posted (POST /v1/archives/NAME/revisions), there is nothing to " \
        "read") \
    X(malformed, "the server doesn't understand the note")
enum hint_answer {
#define X(name, text) HINT_##name,
    HINT_ANSWERS(X)
#undef X
    HINT_ANSWER_COUNT
};
const char *hint_answer_name(enum hint_answer answer);
const char *hint_answer_text(enum hint_answer answer); /* NULL: nothing to tell */
enum hint_answer hint_answer_find(struct str name);    /* HINT_ANSWER_COUNT: none */

struct hint_message {
    struct str archive;
    int64_t rev;       /* 0: a word */
    struct str commit; /* the word, where it is a commit's id */
    struct str txn, cause;
};
bool hint_message_parse(struct str bytes, struct hint_message *out); /* views into bytes; false: malformed */
/* err: usage */
bool hint_message_format(
    struct buf *out, struct str archive, struct str rev, struct str txn, struct str cause, struct err *err);

#endif
