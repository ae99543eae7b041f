/* places: the physical places (ctid) of the rows that every turn updates. See places.sql.
 *
 * Rows are looked up by their keys, which clears a page of old versions on the way, until the head's own place says
 * that they can't be cleared away (it is on another page again and again): then each turn pays for a few looks by place
 * instead of for all versions since somebody opened a snapshot. A look by place clears nothing, so the head's page is
 * walked too (head_clear): when the snapshot is gone the head stays where it is, and keys are used again. A place is a
 * hint, and whatever is learned here is checked by the statement that uses it. One that lies behind the end of its
 * table (VACUUM has cut it) makes the statement fail: then all is forgotten, and the turn taken again. */
#include <arpa/inet.h>
#include <string.h>

#include "store/postgres/postgres.h"

/* A page has 30 to 40 versions of the head: who takes a new one so often never finds room on the old one. */
enum { CROWDED_COMMITS = 256, CROWDED_PER_PAGE = 64, PLACES_MAX = 256 };

struct row_place {
    char at[PLACE_BYTES];
};

static const enum pg_id all_places[PLACED_COUNT] = { PG_lane_places, PG_executor_places };

void places_forget(struct postgres_store *self)
{
    struct places *places = &self->places;
    for (size_t i = 0; i < PLACED_COUNT; i++)
        map_clear(&places->rows[i].map);
    for (size_t i = 0; i < PLACED_COUNT; i++)
        places->rows[i].known = places->rows[i].many = false;
    places->head_known = places->mark_known = places->crowded = false;
    arena_reset(&places->arena);
    floors_forget(self);
}

void places_release(struct postgres_store *self)
{
    for (size_t i = 0; i < PLACED_COUNT; i++)
        map_release(&self->places.rows[i].map);
    arena_release(&self->places.arena);
}

static bool cell_place(const PGresult *result, int row, int column, char out[PLACE_BYTES])
{
    struct str view = cell_view(result, row, column);
    if (view.len != PLACE_BYTES)
        return false;
    memcpy(out, view.ptr, PLACE_BYTES);
    return true;
}

void arg_place(struct pg_args *args, const char *place, bool known)
{
    if (known)
        arg_bytes(args, place, PLACE_BYTES);
    else
        arg_null(args);
}

const char *place_of_row(const struct postgres_store *self, enum placed what, int64_t id)
{
    const struct row_place *place = self->places.crowded ? map_find(&self->places.rows[what].map, (uint64_t)id) : NULL;
    return place ? place->at : NULL;
}

static uint32_t place_page(const char place[PLACE_BYTES])
{
    uint32_t page;
    memcpy(&page, place, sizeof page);
    return ntohl(page);
}

static void page_first(uint32_t page, char out[PLACE_BYTES])
{
    page = htonl(page);
    memset(out, 0, PLACE_BYTES);
    memcpy(out, &page, sizeof page);
}

size_t places_head_queue(struct postgres_store *self)
{
    struct places *places = &self->places;
    struct pg_args at = { 0 }, page = { 0 };
    char from[PLACE_BYTES], to[PLACE_BYTES];
    if (!places->crowded || !places->head_known) {
        pg_queue(&self->pg, PG_head_get_key, NULL);
        return self->pg.n_queue - 1;
    }
    page_first(place_page(places->head), from);
    page_first(place_page(places->head) + 1, to);
    arg_place(&page, from, true);
    arg_place(&page, to, true);
    pg_queue(&self->pg, PG_head_clear, &page);
    arg_place(&at, places->head, true);
    pg_queue(&self->pg, PG_head_get_at, &at);
    return self->pg.n_queue - 1;
}

void places_head(struct postgres_store *self, const PGresult *result)
{
    struct places *places = &self->places;
    int64_t commit = self->head.commit;
    places->head_known = PQntuples(result) == 1 && cell_place(result, 0, PQnfields(result) - 1, places->head);
    if (!places->head_known)
        return;
    uint32_t page = place_page(places->head);
    places->moves += page != places->page;
    places->page = page;
    if (commit - places->counted_from < CROWDED_COMMITS)
        return;
    places->crowded = places->moves * CROWDED_PER_PAGE >= commit - places->counted_from;
    places->moves = 0;
    places->counted_from = commit;
    if (!places->crowded)
        floors_forget(self);
}

/* Numbers are given in their order: what comes from elsewhere than a list of all leaves no gap. */
static void row_learn(
    struct places *places, enum placed what, const PGresult *result, int row, int id_column, int column, bool listed)
{
    struct placed_rows *rows = &places->rows[what];
    int64_t id = cell_i64(result, row, id_column);
    struct row_place *place = map_find(&rows->map, (uint64_t)id);
    if (!place && rows->known && id != rows->next && !(listed && id > rows->next))
        return;
    if (!place && rows->map.n >= PLACES_MAX) {
        rows->many = true;
        rows->known = false;
        return;
    }
    if (!place) {
        place = ARENA_NEW(&places->arena, struct row_place);
        map_put(&rows->map, (uint64_t)id, place);
        rows->next = id + 1;
    }
    (void)cell_place(result, row, column, place->at);
}

static void rows_learn(
    struct places *places, enum placed what, const PGresult *result, int id_column, int column, bool listed)
{
    for (int i = 0; result && i < PQntuples(result); i++)
        row_learn(places, what, result, i, id_column, column, listed);
}

bool places_load(struct postgres_store *self, struct err *err)
{
    struct places *places = &self->places;
    for (size_t i = 0; i < PLACED_COUNT && places->crowded; i++) {
        struct placed_rows *rows = &places->rows[i];
        PGresult *result;
        if (rows->known || rows->many)
            continue;
        if (!pg_run(&self->pg, all_places[i], NULL, &result, err))
            return false;
        rows->next = 1;
        rows->many = PQntuples(result) > PLACES_MAX;
        rows->known = !rows->many;
        if (rows->known)
            rows_learn(places, (enum placed)i, result, 0, 1, true);
    }
    return true;
}

/* What a commit that is in place has told. */
void places_follow(struct postgres_store *self)
{
    struct places *places = &self->places;
    const struct pg *pg = &self->pg;
    for (size_t i = 0; i < pg->n_queue && pg->exchanged; i++) {
        const PGresult *result = pg->results[i];
        if (!result)
            continue;
        if (pg->queue[i] == PG_head_update_at)
            places->head_known = cell_place(result, 0, 1, places->head);
        else if (pg->queue[i] == PG_mark_put_at)
            places->mark_known = PQntuples(result) > 0 && cell_place(result, 0, 0, places->mark);
        else if (!places->crowded)
            continue;
        else if (pg->queue[i] == PG_lane_put || pg->queue[i] == PG_lane_put_at || pg->queue[i] == PG_lane_add_at)
            rows_learn(places, PLACED_LANES, result, 0, 1, false);
        else if (pg->queue[i] == PG_executor_count_at)
            rows_learn(places, PLACED_EXECUTORS, result, 0, 1, false);
    }
}

static bool touched_at(const struct postgres_store *self, enum placed what)
{
    return self->places.crowded && self->places.rows[what].known;
}

void touched_queue(struct postgres_store *self, enum placed what, int64_t since)
{
    static const enum pg_id plain[] = { PG_lanes_touched, PG_executors_touched },
                            at[] = { PG_lanes_touched_at, PG_executors_touched_at };
    struct pg_bulk *bulk = &self->pg.bulk;
    struct pg_args args = { 0 };
    arg_i64(&args, since);
    if (!touched_at(self, what)) {
        pg_queue(&self->pg, plain[what], &args);
        return;
    }
    bulk_begin(bulk, "ip");
    MAP_EACH (&self->places.rows[what].map, e) {
        bulk_i64(bulk, (int64_t)e->key);
        bulk_bytes(bulk, ((const struct row_place *)e->value)->at, PLACE_BYTES);
    }
    bool fits = bulk_args(bulk, &args); /* PLACES_MAX */
    ASSERT(fits);
    arg_i64(&args, self->places.rows[what].next);
    pg_queue(&self->pg, at[what], &args);
}

static const int columns[] = { ROW_COUNT(lane), ROW_COUNT(executor) }; /* the place stands behind them */

bool touched_row(enum placed what, const PGresult *result, int row)
{
    return PQnfields(result) <= columns[what] + 1 || cell_i64(result, row, columns[what] + 1);
}

void touched_learn(struct postgres_store *self, enum placed what, const PGresult *result)
{
    if (touched_at(self, what) && PQnfields(result) > columns[what])
        rows_learn(&self->places, what, result, 0, columns[what], true);
}
