/* crews: how many executors could be granted tasks of a class, for `why`. Executors that fit the same classes (by
 * tenant, zone, kinds, labels) are one crew, which is counted: a question visits each crew, not each executor.
 *
 * Whether an executor is alive depends on the time: the live ones of a crew are listed in order of their last polls, so
 * those that fell silent since are at the front, and each is removed once. All of it is under GUARD_heard: the api
 * asks while turns run. */
#include <string.h>

#include "core/why.h"
#include "engine/grants.h"
#include "engine/shared/shared.h"
#include "io/clock.h"

struct crew {
    struct executor like; /* what its executors have in common; its texts are in: */
    struct str key;
    char *text; /* of the key */
    size_t n;
    int64_t counts[CREW_PLACES][EXECUTOR_LOST + 1]; /* of executors, by place and state */
    struct list live;                               /* those that are CREW_LIVE, in the order of their last polls */
    struct list active;                             /* those that are counted as EXECUTOR_ACTIVE */
};

static struct str key_keep(char **at, struct str s, char end)
{
    struct str kept = { *at, s.len };
    if (s.len)
        memcpy(*at, s.ptr, s.len);
    *at += s.len;
    *(*at)++ = end;
    return kept;
}

/* The crew's name: the executor's texts one behind the other; out->labels must have room. */
static struct str key_make(char *text, const struct executor *row, struct executor *out)
{
    char *at = text;
    *out = (struct executor){ .kinds = row->kinds, .labels = out->labels, .n_labels = row->n_labels };
    out->tenant = key_keep(&at, row->tenant, '\x1f');
    out->zone = key_keep(&at, row->zone, '\x1f');
    memcpy(at, &row->kinds, sizeof row->kinds);
    at += sizeof row->kinds;
    for (size_t i = 0; i < row->n_labels; i++) {
        out->labels[i].name = key_keep(&at, row->labels[i].name, '=');
        out->labels[i].value = key_keep(&at, row->labels[i].value, '\x1f');
    }
    return (struct str){ text, (size_t)(at - text) };
}

static void crew_free(struct crew *crew)
{
    mem_free(crew->like.labels);
    mem_free(crew->text);
    mem_free(crew);
}

static struct crew *crew_of(struct engine *engine, const struct executor *row)
{
    size_t bytes = row->tenant.len + row->zone.len + 2 + sizeof row->kinds;
    for (size_t i = 0; i < row->n_labels; i++)
        bytes += row->labels[i].name.len + row->labels[i].value.len + 2;
    struct crew *crew = mem_alloc_zero(sizeof *crew);
    crew->text = mem_alloc(bytes);
    crew->like.labels = mem_alloc((row->n_labels + 1) * sizeof *row->labels);
    crew->key = key_make(crew->text, row, &crew->like);
    struct crew *known = smap_find(&engine->grants->crews, crew->key);
    if (known)
        crew_free(crew);
    else
        smap_put(&engine->grants->crews, crew->key, crew);
    return known ? known : crew;
}

static void crew_count(struct known_executor *known)
{
    struct crew *crew = known->crew;
    known->counted_as = known->row.state;
    crew->counts[known->place][known->counted_as]++;
    if (known->counted_as != EXECUTOR_ACTIVE)
        list_remove(&crew->active, &known->active);
    else if (!known->active.in)
        list_append(&crew->active, &known->active);
}

/* Counts the executor at another place, or in another state. */
static void crew_move(struct known_executor *known, enum crew_place place)
{
    struct crew *crew = known->crew;
    crew->counts[known->place][known->counted_as]--;
    known->place = place;
    crew_count(known);
}

void crew_leave(struct engine *engine, struct known_executor *known)
{
    struct crew *crew = known->crew;
    if (!crew)
        return;
    crew->counts[known->place][known->counted_as]--;
    list_remove(&crew->live, &known->among);
    list_remove(&crew->active, &known->active);
    known->crew = NULL;
    if (--crew->n)
        return;
    smap_take(&engine->grants->crews, crew->key);
    crew_free(crew);
}

void crew_join(struct engine *engine, struct known_executor *known)
{
    crew_leave(engine, known);
    known->crew = crew_of(engine, &known->row);
    known->crew->n++;
    known->place = CREW_UNHEARD;
    crew_count(known);
    if (known->heard)
        crew_heard(known);
}

void crew_heard(struct known_executor *known)
{
    if (!known->crew)
        return;
    list_remove(&known->crew->live, &known->among);
    list_append(&known->crew->live, &known->among);
    crew_move(known, CREW_LIVE);
}

void crew_state(struct engine *engine, struct known_executor *known)
{
    guard_enter(engine, GUARD_heard);
    if (known->crew)
        crew_move(known, known->place);
    guard_leave(engine, GUARD_heard);
}

/* Executors that have been silent for too long leave the front. */
static void crew_look(struct engine *engine, struct crew *crew, int64_t now)
{
    for (struct list_node *at; (at = crew->live.first);) {
        struct known_executor *known = CONTAINER_OF(at, struct known_executor, among);
        if (now - known->heard <= executor_silent_ms(engine))
            return;
        list_remove(&crew->live, at);
        crew_move(known, CREW_SILENT);
    }
}

void engine_crew(struct engine *engine, const struct task_class *class_, struct why_crew *out)
{
    int64_t now = clock_boot_ms();
    *out = (struct why_crew){ 0 };
    guard_enter(engine, GUARD_heard);
    bool believed =
        engine->shared->joined_site && now - engine->shared->began <= executor_silent_ms(engine); /* as executor_live */
    SMAP_EACH (&engine->grants->crews, e) {
        struct crew *crew = e->value;
        if (!class_fits(class_, &crew->like))
            continue;
        crew_look(engine, crew, now);
        out->fit += crew->n;
        out->live += crew->live.n;
        out->open += (size_t)crew->counts[CREW_LIVE][EXECUTOR_ACTIVE];
        for (int place = 0; place < CREW_PLACES; place++)
            out->active += (size_t)crew->counts[place][EXECUTOR_ACTIVE];
        for (int state = EXECUTOR_ACTIVE; believed && state < EXECUTOR_LOST; state++)
            out->live += (size_t)crew->counts[CREW_UNHEARD][state];
        if (believed)
            out->open += (size_t)crew->counts[CREW_UNHEARD][EXECUTOR_ACTIVE];
    }
    guard_leave(engine, GUARD_heard);
}

struct known_executor *crew_serves(struct engine *engine, const struct task_class *class_)
{
    struct list_node *first = NULL;
    guard_enter(engine, GUARD_heard);
    SMAP_EACH (&engine->grants->crews, e) {
        struct crew *crew = e->value;
        if (!first && crew->active.first && class_fits(class_, &crew->like))
            first = crew->active.first;
    }
    guard_leave(engine, GUARD_heard);
    return first ? CONTAINER_OF(first, struct known_executor, active) : NULL;
}

void crews_free(struct engine *engine)
{
    SMAP_EACH (&engine->grants->crews, e)
        crew_free(e->value);
    smap_release(&engine->grants->crews);
}
