/* model: names of states, outcomes and kinds; every list is written once, in model.h. */
#include "core/model.h"

#include "base/err.h"

static const struct {
    char letter;
    const char *word;
    bool ended;
} states[STATE_COUNT] = {
#define X(name, letter, word, ended) [STATE_##name] = { letter, word, ended },
    TASK_STATES(X)
#undef X
};

static const char *const outcomes[OUTCOME_COUNT] = {
    [OUTCOME_none] = "",
#define X(name) [OUTCOME_##name] = #name,
    OUTCOMES(X)
#undef X
};

static const char *const edge_kinds[EDGE_KIND_COUNT] = { "", "after", "depends", "cancels" };

static const char *const event_kinds[EVENT_KIND_COUNT] = {
    [EVENT_none] = "",
#define X(name) [EVENT_##name] = #name,
    EVENT_KINDS(X)
#undef X
};

static const char *const class_kinds[KIND_COUNT] = { "", "command", "script", "image", "data", "apply" };
static const char *const executor_states[] = { "", "active", "paused", "draining", "lost" };

const char *quota_name(enum quota quota)
{
    static const char *const names[QUOTA_COUNT] = {
#define X(name) #name,
        QUOTAS(X)
#undef X
    };
    return names[quota];
}

const char *state_word(enum task_state state)
{
    ASSERT(state > STATE_NONE && state < STATE_COUNT);
    return states[state].word;
}

char state_letter(enum task_state state)
{
    ASSERT(state < STATE_COUNT);
    return states[state].letter;
}

enum task_state state_of_letter(char letter)
{
    for (enum task_state s = STATE_Q; s < STATE_COUNT; s++)
        if (states[s].letter == letter)
            return s;
    return STATE_NONE;
}

bool state_ended(enum task_state state)
{
    ASSERT(state < STATE_COUNT);
    return states[state].ended;
}

const char *outcome_name(enum outcome outcome)
{
    ASSERT(outcome < OUTCOME_COUNT);
    return outcomes[outcome];
}

enum outcome outcome_find(struct str name)
{
    for (enum outcome o = OUTCOME_done; o < OUTCOME_COUNT; o++)
        if (str_eqz(name, outcomes[o]))
            return o;
    return OUTCOME_none;
}

const char *edge_kind_name(enum edge_kind kind)
{
    ASSERT(kind < EDGE_KIND_COUNT);
    return edge_kinds[kind];
}

const char *event_kind_name(enum event_kind kind)
{
    ASSERT(kind < EVENT_KIND_COUNT);
    return event_kinds[kind];
}

const char *class_kind_name(enum class_kind kind)
{
    ASSERT(kind < KIND_COUNT);
    return class_kinds[kind];
}

enum class_kind class_kind_find(struct str name)
{
    for (enum class_kind k = KIND_COMMAND; k < KIND_COUNT; k++)
        if (str_eqz(name, class_kinds[k]))
            return k;
    return KIND_NONE;
}

const char *executor_state_name(enum executor_state state)
{
    ASSERT(state >= EXECUTOR_ACTIVE && state <= EXECUTOR_LOST);
    return executor_states[state];
}

static const char *const movetypes[MOVE_COUNT] = { "", "DC", "BF", "EM", "RB" };

const char *movetype_name(enum movetype movetype)
{
    ASSERT(movetype < MOVE_COUNT);
    return movetypes[movetype];
}

enum movetype movetype_find(struct str name)
{
    for (int movetype = MOVE_DC; movetype < MOVE_COUNT; movetype++)
        if (str_eqz(name, movetypes[movetype]))
            return (enum movetype)movetype;
    return MOVE_NONE;
}

static const char *const archive_kinds[ARCHIVE_KIND_COUNT] = {
    [ARCHIVE_NONE] = "", [ARCHIVE_EXTERNAL] = "external", [ARCHIVE_SVN] = "svn", [ARCHIVE_GIT] = "git"
};

const char *archive_kind_name(enum archive_kind kind)
{
    ASSERT(kind < ARCHIVE_KIND_COUNT);
    return archive_kinds[kind];
}

enum archive_kind archive_kind_find(struct str name)
{
    for (int kind = ARCHIVE_EXTERNAL; kind < ARCHIVE_KIND_COUNT; kind++)
        if (str_eqz(name, archive_kinds[kind]))
            return (enum archive_kind)kind;
    return ARCHIVE_NONE;
}

const char *revision_state_name(enum revision_state state)
{
    static const char *const names[REVISION_STATE_COUNT] = {
        [REVISION_NONE] = "", [REVISION_WAITING] = "waiting", [REVISION_KNOWN] = "known", [REVISION_SKIPPED] = "skipped"
    };
    ASSERT(state < REVISION_STATE_COUNT);
    return names[state];
}

int64_t task_pruned(const struct task *task)
{
    return task->marks >> MARKS_PRUNED_SHIFT;
}

void task_pruned_set(struct task *task, int64_t grant)
{
    unsigned kept = grant < MARKS_PRUNED_MAX ? (unsigned)grant : MARKS_PRUNED_MAX;
    task->marks = (task->marks & ((1u << MARKS_PRUNED_SHIFT) - 1)) | kept << MARKS_PRUNED_SHIFT;
}
