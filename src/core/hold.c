#include "core/hold.h"

#include <assert.h>
#include <string.h>

#include "base/plant.h"

/* A kind without such a function has NULL there: none of its name is ever asked for. */
static const struct hold_rule rules[HOLD_KIND_COUNT] = {
#define HOLD(number, name, roles, words, closed, dropped, explain, lifted, forced) \
    [number] = { #name, words, lifted, forced, roles, closed, dropped, explain },
#include "core/hold.def"
#undef HOLD
};

static_assert(
    HOLD_KIND_COUNT <= 1 << HOLD_KIND_BITS, "queues are found by a number that has the kind in its last bits");

const struct hold_rule *hold_rule(enum hold_kind kind)
{
    return &rules[kind];
}

static bool has_word(const char *words, const char *word)
{
    size_t n = strlen(word);
    for (const char *at = words; at && *at; at = strchr(at, ' ') ? strchr(at, ' ') + 1 : NULL)
        if (strncmp(at, word, n) == 0 && (at[n] == ' ' || at[n] == '\0'))
            return true;
    return false;
}

enum hold_kind hold_of_word(const char *word)
{
    for (enum hold_kind kind = 1; kind < HOLD_KIND_COUNT; kind++)
        if (has_word(rules[kind].words, word))
            return kind;
    return HOLD_none;
}

void hold_put(struct slice *slice, struct node *node, enum hold_kind kind, int64_t key, int64_t rank)
{
    slice_hold_add(
        slice, &(struct hold){ .kind = kind, .key = key, .rank = rank, .task = node->row.id, .since = slice->now });
    node->row.holds |= 1u << kind;
    node->dirty = true;
}

void holds_drop(struct slice *slice, struct node *node, unsigned mask)
{
    if (!(node->row.holds & mask))
        return;
    size_t n;
    struct hold *holds = slice_holds_of_task(slice, node->row.id, &n);
    for (size_t i = 0; i < n; i++) {
        const struct hold_rule *rule = &rules[holds[i].kind];
        if (!(mask & (1u << holds[i].kind)))
            continue;
        bool stays = false;
        if (PLANT(hold_rows_left))
            stays = holds[i].kind == HOLD_time;
        if (!stays)
            slice_hold_remove(slice, &holds[i]);
        if (rule->dropped)
            rule->dropped(slice, &holds[i]);
    }
    node->row.holds &= ~mask;
    node->dirty = true;
}

bool gates_open(struct slice *slice, struct node *node)
{
    bool open = true;
    holds_drop(slice, node, HOLDS_GATE);
    for (enum hold_kind kind = 1; kind < HOLD_KIND_COUNT; kind++) {
        int64_t key;
        if (!rules[kind].closed || !rules[kind].closed(slice, node, &key))
            continue;
        hold_put(slice, node, kind, key, 0);
        open = false;
    }
    return open;
}

bool gate_closed(struct slice *slice, struct node *node)
{
    int64_t key;
    for (enum hold_kind kind = 1; kind < HOLD_KIND_COUNT; kind++)
        if (rules[kind].closed && rules[kind].closed(slice, node, &key))
            return true;
    return false;
}
