/* hint_message: see hint_message.h. Pure. */
#include "text/hint_message.h"

#include "text/key.h"

static const struct str txn_head = { "txn=", 4 };
static const struct str head = { "weir-notify 1 ", 14 };

static const struct {
    const char *name, *text;
} answers[] = {
#define X(name, text) { #name, text },
    HINT_ANSWERS(X)
#undef X
};

const char *hint_answer_name(enum hint_answer answer)
{
    return answers[answer].name;
}

const char *hint_answer_text(enum hint_answer answer)
{
    return answers[answer].text;
}

enum hint_answer hint_answer_find(struct str name)
{
    for (size_t i = 0; i < HINT_ANSWER_COUNT; i++)
        if (str_eqz(name, answers[i].name))
            return (enum hint_answer)i;
    return HINT_ANSWER_COUNT;
}

static bool rev_is_word(struct str rev)
{
    if (rev.len == 0 || rev.len > HINT_WORD_BYTES_MAX || rev.ptr[0] == '-')
        return false;
    for (size_t i = 0; i < rev.len; i++)
        if (!char_is_alnum(rev.ptr[i]) && str_index(STR("_./-"), rev.ptr[i]) < 0)
            return false;
    return true;
}

/* rev_parse: a number from 1, or a word that isn't all digits. */
static bool rev_parse(struct str rev, int64_t *out)
{
    *out = 0;
    return str_is_digits(rev) ? str_to_i64(rev, out) && *out > 0 : rev_is_word(rev);
}

static bool word_is_commit(struct str word)
{
    for (size_t i = 0; i < word.len; i++)
        if (hex_digit(word.ptr[i]) < 0 || (word.ptr[i] >= 'A' && word.ptr[i] <= 'F'))
            return false;
    return word.len == 40 || word.len == 64;
}

static bool cause_is_key(struct str cause)
{
    struct key key;
    struct err ignored = { 0 };
    return cause.len <= KEY_BYTES_MAX && key_parse(cause, &key, &ignored) &&
           (key.kind == KEY_TASK || key.kind == KEY_QUEUE_TASK || key.kind == KEY_CHANGESET || key.kind == KEY_ID);
}

bool hint_message_parse(struct str bytes, struct hint_message *out)
{
    struct hint_message message = { 0 };
    struct str rev = { 0 };
    if (bytes.len > HINT_MESSAGE_BYTES_MAX || !str_starts(bytes, head))
        return false;
    struct str rest = str_sub(bytes, head.len, bytes.len);
    if (!str_cut(&rest, ' ', &message.archive) || !str_cut(&rest, ' ', &rev))
        return false;
    if (str_starts(rest, txn_head)) {
        str_cut(&rest, ' ', &message.txn);
        message.txn = str_sub(message.txn, txn_head.len, message.txn.len);
        if (!rev_is_word(message.txn))
            return false;
    }
    message.cause = rest;
    if (word_is_commit(rev))
        message.commit = rev;
    if (!name_is_valid(message.archive) || !rev_parse(rev, &message.rev) ||
        (message.cause.len > 0 && !cause_is_key(message.cause)))
        return false;
    *out = message;
    return true;
}

bool hint_message_format(
    struct buf *out, struct str archive, struct str rev, struct str txn, struct str cause, struct err *err)
{
    int64_t number;
    if (!name_check(archive, "archive", err))
        return false;
    if (!rev_parse(rev, &number))
        return err_set(err, ERR_usage, "'%.*s' is no revision: a number from 1, or HEAD",
            (int)(rev.len < 60 ? rev.len : 60), rev.ptr);
    buf_add_str(out, head);
    buf_add_str(out, archive);
    buf_add_char(out, ' ');
    buf_add_str(out, rev);
    if (rev_is_word(txn)) { /* else it can't be the name of a transaction */
        buf_add_char(out, ' ');
        buf_add_str(out, txn_head);
        buf_add_str(out, txn);
    }
    if (cause.len > 0 && cause_is_key(cause)) { /* else the variable isn't Weir's */
        buf_add_char(out, ' ');
        buf_add_str(out, cause);
    }
    return true;
}
