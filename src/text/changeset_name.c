/* changeset_name: names of change sets, parsed, formatted and put in order. See changeset_name.h.
 *
 * Owns the grammar of names and the sort key. It promises one text for one name, in both directions. It fails with a
 * sentence that names the part at fault; nothing is written to the result then. */
#include "text/changeset_name.h"

#include <string.h>

static bool is_word_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '-';
}

static bool word_check(struct str word, const char *what, size_t max, struct err *err)
{
    if (word.len == 0)
        return err_set(err, ERR_invalid, "the %s in the name is empty", what);
    if (word.len > max)
        return err_set(err, ERR_invalid, "the %s in the name is longer than %zu characters", what, max);
    for (size_t i = 0; i < word.len; i++)
        if (!is_word_char(word.ptr[i]))
            return err_set(err, ERR_invalid,
                "the %s in the name, '%.*s', has a character that isn't a letter, a digit, '.' or '-'", what,
                STR_ARG(word));
    return true;
}

static bool pid_parse(struct str text, int64_t *out, struct err *err)
{
    int64_t pid;
    if (text.len > 10 || !str_to_i64(text, &pid) || pid < 1 || pid > CHANGESET_PID_MAX || text.ptr[0] == '0')
        return err_set(err, ERR_invalid, "'%.*s' in the name is no process id", STR_ARG(str_sub(text, 0, 20)));
    *out = pid;
    return true;
}

static bool prio_parse(struct str text, struct changeset_name *out, struct err *err)
{
    out->movetype = movetype_find(str_sub(text, 0, 2));
    out->urgency = 0;
    out->n_digits = text.len < 2 ? 0 : (int)(text.len < 10 ? text.len : 10) - 2;
    bool good = out->movetype != MOVE_NONE && out->n_digits <= 2;
    for (size_t i = 2; good && i < text.len; i++) {
        good = text.ptr[i] >= '0' && text.ptr[i] <= '9';
        out->urgency = out->urgency * 10 + (text.ptr[i] - '0');
    }
    return good ||
           err_set(err, ERR_invalid, "'%.*s' in the name is no priority: RB, EM, BF or DC, and at most two digits",
               STR_ARG(str_sub(text, 0, 20)));
}

bool changeset_name_parse(struct str text, struct changeset_name *out, struct err *err)
{
    struct changeset_name name = { 0 };
    struct str parts[6];
    size_t n = 0;
    if (text.len > CHANGESET_NAME_BYTES_MAX)
        return err_set(
            err, ERR_invalid, "the name of a change set has at most %d characters", CHANGESET_NAME_BYTES_MAX);
    for (size_t from = 0; from <= text.len; n++) {
        const char *end = from < text.len ? memchr(text.ptr + from, '_', text.len - from) : NULL;
        size_t to = end != NULL ? (size_t)(end - text.ptr) : text.len;
        if (n < 6)
            parts[n] = (struct str){ text.ptr + from, to - from };
        from = to + 1;
    }
    if (n != 6)
        return err_set(err, ERR_invalid,
            "'%.*s' isn't the name of a change set: CSID_TAI_PID_HOST_PRIO_EXTRA has 6 parts, this has %zu",
            STR_ARG(text), n);
    if (!csid_check(parts[0], err))
        return false;
    if (!tai64n_parse(parts[1], &name.tai))
        return err_set(err, ERR_invalid, "'%.*s' in the name is no TAI64N label: 24 hex digits, lower case",
            STR_ARG(str_sub(parts[1], 0, 40)));
    if (!pid_parse(parts[2], &name.pid, err) || !word_check(parts[3], "host", CHANGESET_HOST_CHARS_MAX, err) ||
        !prio_parse(parts[4], &name, err) || !word_check(parts[5], "extra part", CHANGESET_EXTRA_CHARS_MAX, err))
        return false;
    name.csid = parts[0];
    name.host = parts[3];
    name.extra = parts[5];
    *out = name;
    return true;
}

bool changeset_name_check_time(const struct changeset_name *name, int64_t now_ns, struct err *err)
{
    if (!tai64n_is_ahead(name->tai, now_ns, CHANGESET_AHEAD_NS))
        return true;
    return err_set(err, ERR_invalid,
        "the time in the name, %s, is more than %d s ahead of the server's clock: is the submitter's clock right?",
        tai64n_format(name->tai).z, (int)(CHANGESET_AHEAD_NS / 1000000000));
}

static void prio_add(struct buf *out, const struct changeset_name *name)
{
    buf_add_z(out, movetype_name(name->movetype));
    if (name->n_digits > 0)
        buf_addf(out, "%0*d", name->n_digits, name->urgency);
}

void changeset_name_format(struct buf *out, const struct changeset_name *name)
{
    buf_addf(out, "%.*s_%s_%lld_%.*s_", STR_ARG(name->csid), tai64n_format(name->tai).z, (long long)name->pid,
        STR_ARG(name->host));
    prio_add(out, name);
    buf_addf(out, "_%.*s", STR_ARG(name->extra));
}

struct str changeset_name_part(struct arena *arena, struct str text, size_t max)
{
    char *out = arena_alloc(arena, max + 1);
    size_t n = 0;
    for (size_t at = 0; at < text.len && n < max;) {
        size_t len = str_char_len(str_sub(text, at, text.len));
        out[n++] = is_word_char(text.ptr[at]) ? text.ptr[at] : '-';
        at += len > 0 ? len : 1;
    }
    if (n == 0)
        out[n++] = '-';
    return (struct str){ out, n };
}

/* name_bytes: the name as text, to decide between names that are equal in everything before it. */
static struct str name_bytes(const struct changeset_name *name, struct buf *buf)
{
    buf_init(buf, CHANGESET_NAME_BYTES_MAX + 1);
    changeset_name_format(buf, name);
    return buf_str(buf);
}

int changeset_name_compare(const struct changeset_name *a, const struct changeset_name *b)
{
    if (a->movetype != b->movetype)
        return a->movetype > b->movetype ? -1 : 1;
    if (a->urgency != b->urgency)
        return a->urgency > b->urgency ? -1 : 1;
    int order = tai64n_compare(a->tai, b->tai);
    if (order != 0)
        return order;
    struct buf buf_a, buf_b;
    order = str_cmp(name_bytes(a, &buf_a), name_bytes(b, &buf_b));
    buf_release(&buf_a);
    buf_release(&buf_b);
    return (order > 0) - (order < 0);
}

void changeset_name_key(struct buf *out, const struct changeset_name *name)
{
    buf_addf(out, "%d%02d%s", (int)MOVE_RB - (int)name->movetype, 99 - name->urgency, tai64n_format(name->tai).z);
    changeset_name_format(out, name);
}

int changeset_priority(const struct changeset_name *name)
{
    static const int base[MOVE_COUNT] = { [MOVE_BF] = 300, [MOVE_EM] = 600, [MOVE_RB] = 900 };
    return base[name->movetype] + name->urgency;
}
