/* Packed events: what is packed unpacks to the same events; bytes that are taken for a packed turn have one meaning
 * (packing what was read gives bytes that read the same and pack the same); everything else is refused. */
#include "fuzz.h"
#include "store/pack.h"

#define SHAPES(X) X(accepted) X(refused) X(several) X(words_repeat) X(made) X(made_empty_string) X(damaged_refused)
FUZZ_SHAPES(SHAPES)

static bool events_same(const struct event *a, const struct event *b)
{
    return a->seq == b->seq && a->time == b->time && a->kind == b->kind && a->task == b->task && a->lane == b->lane &&
           a->from == b->from && a->to == b->to && a->attempt == b->attempt && a->grant == b->grant &&
           a->cause == b->cause && a->prev_turn == b->prev_turn && str_eq(a->actor, b->actor) &&
           str_eq(a->reason, b->reason) && str_eq(a->subject, b->subject);
}

static void back_and_forth(struct arena *arena, const struct event *events, size_t n, int64_t first_seq)
{
    struct buf packed, again;
    struct event *back;
    size_t n_back;
    buf_init(&packed, 1 << 24);
    buf_init(&again, 1 << 24);
    pack_events(&packed, events, n);
    HOLDS(unpack_events(buf_str(&packed), first_seq, 77, arena, &back, &n_back) && n_back == n);
    for (size_t i = 0; i < n; i++)
        HOLDS(events_same(&events[i], &back[i]));
    pack_events(&again, back, n_back);
    HOLDS(str_eq(buf_str(&packed), buf_str(&again)));
    buf_release(&packed);
    buf_release(&again);
}

static void as_packed(struct arena *arena, struct str bytes)
{
    struct event *events;
    size_t n;
    if (!unpack_events(bytes, 5, 77, arena, &events, &n)) {
        SEEN(refused);
        return;
    }
    HOLDS(n > 0 && n <= bytes.len); /* memory is bounded by the input */
    for (size_t i = 0; i < n; i++)
        HOLDS(events[i].seq == 5 + (int64_t)i && events[i].kind > EVENT_none && events[i].kind < EVENT_KIND_COUNT);
    back_and_forth(arena, events, n, 5);
    SEEN(accepted);
    SEEN_IF(several, n > 1);
}

static int64_t take_number(struct str *rest)
{
    static const int64_t odd[] = { 0, 1, -1, INT64_MAX, INT64_MIN, 127, 128, 1000000 };
    unsigned how = take_byte(rest);
    return how < 128 ? odd[how % 8] : (int64_t)take_u16(rest) * (how % 2 ? 1 : 1 << 20);
}

static struct str take_text(struct str *rest)
{
    size_t n = take_byte(rest) % 12;
    struct str text = str_sub(*rest, 0, n);
    *rest = str_sub(*rest, text.len, rest->len);
    return text;
}

/* The input as a list of events to be packed. */
static void as_events(struct arena *arena, struct str rest)
{
    struct event events[40];
    size_t n = 0;
    while (rest.len > 0 && n < 40) {
        struct event *e = &events[n];
        *e = n > 0 ? events[n - 1] : (struct event){ 0 };
        unsigned change = take_u16(&rest);
        e->seq = 9 + (int64_t)n++;
        e->time = 77;
        e->kind = (enum event_kind)(1 + change % (EVENT_KIND_COUNT - 1));
        int64_t *numbers[] = { &e->task, &e->lane, &e->attempt, &e->grant, &e->cause, &e->prev_turn };
        for (unsigned i = 0; i < 6; i++)
            if (change >> i & 1)
                *numbers[i] = take_number(&rest);
        struct str *texts[] = { &e->actor, &e->reason, &e->subject };
        for (unsigned i = 0; i < 3; i++)
            if (change >> (6 + i) & 1)
                *texts[i] = take_text(&rest);
        SEEN_IF(words_repeat, e->actor.len > 0 && str_eq(e->actor, e->reason));
        SEEN_IF(made_empty_string, n > 1 && events[n - 2].reason.len > 0 && e->reason.len == 0);
        if (change >> 9 & 1) {
            e->from = (enum task_state)(take_byte(&rest) % STATE_COUNT);
            e->to = (enum task_state)(take_byte(&rest) % STATE_COUNT);
        }
    }
    if (n > 0) {
        back_and_forth(arena, events, n, 9);
        SEEN(made);
    }
}

static void as_damaged(struct arena *arena, struct str bytes)
{
    struct event *events;
    size_t n;
    for (size_t cut = 0; cut < bytes.len && cut < 200; cut++) /* every beginning of it: refused, or a turn of its own */
        if (unpack_events(str_sub(bytes, 0, cut), 1, 1, arena, &events, &n))
            HOLDS(n > 0);
        else
            SEEN(damaged_refused);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct str text = { (const char *)bytes, len };
    struct arena arena = { 0 };
    as_packed(&arena, text);
    as_events(&arena, text);
    as_damaged(&arena, text);
    arena_release(&arena);
    return 0;
}
