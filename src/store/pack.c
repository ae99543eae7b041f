/* pack: the events of one turn as bytes.
 *
 * A byte FORMAT, the number of events, then each event as: kind, a mask of the fields that differ from the event before
 * it, those fields. Numbers are zigzag differences to the event before, as varints; a string is either new (its length
 * and bytes) or the number of one that was new earlier in the turn. A thousand tasks created by one request take about
 * four bytes each.
 *
 * Unpacking is total: any bytes give events or false, never a read outside, and memory is bounded by the length of the
 * input. */
#include "store/pack.h"

#include "base/err.h"
#include "base/map.h"

enum { FORMAT = 1, EVENT_BYTES_MIN = 2 };

enum field {
    FIELD_task,
    FIELD_states,
    FIELD_actor,
    FIELD_prev_turn,
    FIELD_attempt,
    FIELD_grant,
    FIELD_lane,
    FIELD_reason,
    FIELD_subject,
    FIELD_cause,
    FIELD_COUNT
};

static uint64_t zigzag(int64_t n)
{
    return ((uint64_t)n << 1) ^ (n < 0 ? UINT64_MAX : 0);
}

static int64_t unzigzag(uint64_t n)
{
    return (int64_t)((n >> 1) ^ (n & 1 ? UINT64_MAX : 0));
}

/* Differences wrap, so that any two numbers have one. */
static void number_add(struct buf *out, int64_t value, int64_t before)
{
    buf_add_varint(out, zigzag((int64_t)((uint64_t)value - (uint64_t)before)));
}

struct words { /* strings seen in this turn; a value in the map is 1 + its number */
    struct smap seen;
    size_t n;
};

static void word_add(struct buf *out, struct words *words, struct str s)
{
    uintptr_t number = (uintptr_t)smap_find(&words->seen, s);
    if (number) {
        buf_add_varint(out, (uint64_t)number << 1);
        return;
    }
    buf_add_varint(out, (uint64_t)s.len << 1 | 1);
    buf_add(out, s.ptr, s.len);
    words->n++;
    smap_put(&words->seen, s, (void *)words->n);
}

static unsigned fields_changed(const struct event *e, const struct event *before)
{
    unsigned mask = 0;
    mask |= (unsigned)(e->task != before->task) << FIELD_task;
    mask |= (unsigned)(e->from != before->from || e->to != before->to) << FIELD_states;
    mask |= (unsigned)!str_eq(e->actor, before->actor) << FIELD_actor;
    mask |= (unsigned)(e->prev_turn != before->prev_turn) << FIELD_prev_turn;
    mask |= (unsigned)(e->attempt != before->attempt) << FIELD_attempt;
    mask |= (unsigned)(e->grant != before->grant) << FIELD_grant;
    mask |= (unsigned)(e->lane != before->lane) << FIELD_lane;
    mask |= (unsigned)!str_eq(e->reason, before->reason) << FIELD_reason;
    mask |= (unsigned)!str_eq(e->subject, before->subject) << FIELD_subject;
    mask |= (unsigned)(e->cause != before->cause) << FIELD_cause;
    return mask;
}

void pack_events(struct buf *out, const struct event *events, size_t n)
{
    static const struct event none;
    struct words words = { 0 };
    const struct event *before = &none;
    buf_add_char(out, FORMAT);
    buf_add_varint(out, n);
    for (size_t i = 0; i < n; i++) {
        const struct event *e = &events[i];
        unsigned mask = fields_changed(e, before);
        buf_add_char(out, (char)e->kind);
        buf_add_varint(out, mask);
        if (mask & 1u << FIELD_task)
            number_add(out, e->task, before->task);
        if (mask & 1u << FIELD_states)
            buf_add_char(out, (char)((unsigned)e->from << 4 | (unsigned)e->to));
        if (mask & 1u << FIELD_actor)
            word_add(out, &words, e->actor);
        if (mask & 1u << FIELD_prev_turn)
            number_add(out, e->prev_turn, before->prev_turn);
        if (mask & 1u << FIELD_attempt)
            number_add(out, e->attempt, before->attempt);
        if (mask & 1u << FIELD_grant)
            number_add(out, e->grant, before->grant);
        if (mask & 1u << FIELD_lane)
            number_add(out, e->lane, before->lane);
        if (mask & 1u << FIELD_reason)
            word_add(out, &words, e->reason);
        if (mask & 1u << FIELD_subject)
            word_add(out, &words, e->subject);
        if (mask & 1u << FIELD_cause)
            number_add(out, e->cause, before->cause);
        before = e;
    }
    smap_release(&words.seen);
}

struct unpacking {
    struct str rest;
    struct arena *arena;
    struct str *words;
    size_t n_words, cap_words;
    bool bad;
};

static uint64_t varint_cut(struct unpacking *u)
{
    uint64_t n = 0;
    if (!str_cut_varint(&u->rest, &n))
        u->bad = true;
    return n;
}

static unsigned byte_cut(struct unpacking *u)
{
    if (u->rest.len == 0) {
        u->bad = true;
        return 0;
    }
    unsigned byte = (unsigned char)u->rest.ptr[0];
    u->rest = str_sub(u->rest, 1, u->rest.len);
    return byte;
}

static void number_cut(struct unpacking *u, int64_t *value)
{
    *value = (int64_t)((uint64_t)*value + (uint64_t)unzigzag(varint_cut(u)));
}

static void word_cut(struct unpacking *u, struct str *out)
{
    uint64_t code = varint_cut(u), n = code >> 1;
    if (u->bad)
        return;
    if (code & 1) {
        if (n > u->rest.len) {
            u->bad = true;
            return;
        }
        *out = str_dup(u->arena, str_sub(u->rest, 0, (size_t)n));
        u->rest = str_sub(u->rest, (size_t)n, u->rest.len);
        *ARENA_PUSH(u->arena, u->words, u->n_words, u->cap_words) = *out;
    } else if (n == 0 || n > u->n_words) {
        u->bad = true;
    } else {
        *out = u->words[n - 1];
    }
}

static void event_cut(struct unpacking *u, struct event *e)
{
    unsigned kind = byte_cut(u);
    uint64_t mask = varint_cut(u);
    if (kind == EVENT_none || kind >= EVENT_KIND_COUNT || mask >> FIELD_COUNT) {
        u->bad = true;
        return;
    }
    e->kind = (enum event_kind)kind;
    if (mask & 1u << FIELD_task)
        number_cut(u, &e->task);
    if (mask & 1u << FIELD_states) {
        unsigned states = byte_cut(u);
        if (states >> 4 >= STATE_COUNT || (states & 15) >= STATE_COUNT) {
            u->bad = true;
            return;
        }
        e->from = (enum task_state)(states >> 4);
        e->to = (enum task_state)(states & 15);
    }
    if (mask & 1u << FIELD_actor)
        word_cut(u, &e->actor);
    if (mask & 1u << FIELD_prev_turn)
        number_cut(u, &e->prev_turn);
    if (mask & 1u << FIELD_attempt)
        number_cut(u, &e->attempt);
    if (mask & 1u << FIELD_grant)
        number_cut(u, &e->grant);
    if (mask & 1u << FIELD_lane)
        number_cut(u, &e->lane);
    if (mask & 1u << FIELD_reason)
        word_cut(u, &e->reason);
    if (mask & 1u << FIELD_subject)
        word_cut(u, &e->subject);
    if (mask & 1u << FIELD_cause)
        number_cut(u, &e->cause);
}

_Static_assert(STATE_COUNT <= 16, "two states share a byte");

bool unpack_events(
    struct str bytes, int64_t first_seq, int64_t time, struct arena *arena, struct event **out, size_t *out_n)
{
    struct unpacking u = { .rest = bytes, .arena = arena };
    if (byte_cut(&u) != FORMAT)
        return false;
    uint64_t n = varint_cut(&u);
    if (u.bad || n == 0 || n > u.rest.len / EVENT_BYTES_MIN || first_seq > INT64_MAX - (int64_t)n)
        return false;
    struct event *events = ARENA_ARRAY(arena, struct event, (size_t)n);
    struct event e = { .time = time };
    for (size_t i = 0; i < n; i++) {
        event_cut(&u, &e);
        if (u.bad)
            return false;
        e.seq = first_seq + (int64_t)i;
        events[i] = e;
    }
    if (u.rest.len)
        return false;
    *out = events;
    *out_n = (size_t)n;
    return true;
}
