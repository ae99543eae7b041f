/* The simulator's store keeps change sets as the real ones do: random turns go to both, each answer must be the same
 * (test/sim/memstore_twin.c compares), and `verify` finds nothing. Run for each store; by test/lib/postgres.py for
 * PostgreSQL. */
#include <string.h>

#include "memstore.h"
#include "world.h"

enum { TURNS = 150, LANES = 2, PATHS = 4, CONTENTS = 5, LOOKS = 12 };

static const char *const paths[PATHS] = { "a", "a/b", "A", "\xc3\xa9" };

static void differs(const char *what)
{
    fail_msg("the two stores differ: %s", what);
}

struct play {
    struct world w;
    struct store *real;
    struct memstore *m;
    struct memport port;
    struct rng rng;
    int64_t n; /* change sets, numbered from 1 */
    int64_t rank;
};

static int64_t any(struct play *p, int64_t below)
{
    return (int64_t)rng_below(&p->rng, (uint64_t)below);
}

/* A turn's own changes, added to what the turn has. */
static void changeset_add(struct play *p, const struct changeset *row)
{
    *ARRAY_ADD(&p->w.arena, p->w.c.changesets.rows) = row;
}

static void changeset_make(struct play *p)
{
    struct changeset *row = ARENA_NEW(&p->w.arena, struct changeset);
    *row = (struct changeset){ .task = ++p->n,
        .lane = 1 + any(p, LANES),
        .tenant = any(p, 3) ? STR("default") : STR("other"),
        .csid = str_fmt(&p->w.arena, "cs-%lld", (long long)p->n),
        .movetype = (enum movetype)(MOVE_DC + any(p, MOVE_COUNT - MOVE_DC)),
        .files = str_of(paths[any(p, PATHS)]),
        .rank = ++p->rank };
    memset(row->hash, (int)any(p, CONTENTS), sizeof row->hash);
    changeset_add(p, row);
    for (size_t i = 0, first = (size_t)any(p, PATHS); i < 2; i++)
        *ARRAY_ADD(&p->w.arena, p->w.c.changesets.files_add) = (struct changeset_file){
            .lane = row->lane, .path = str_of(paths[(first + i) % PATHS]), .rank = row->rank, .task = row->task
        };
}

/* One that there is becomes another row; its content, CSID and paths stay. */
static void changeset_change(struct play *p)
{
    struct changeset *row = ARENA_NEW(&p->w.arena, struct changeset);
    *row = *(const struct changeset *)map_find(&p->m->changesets, (uint64_t)(1 + any(p, p->n)));
    row->revision = str_fmt(&p->w.arena, "r%lld", (long long)any(p, 1000));
    row->rolled_back_by = any(p, 3);
    changeset_add(p, row);
}

/* A row of the index goes, or moves to the applied ones, or to another rank. */
static void file_change(struct play *p)
{
    struct changeset_file file = p->m->changeset_files[any(p, (int64_t)p->m->n_changeset_files)];
    *ARRAY_ADD(&p->w.arena, p->w.c.changesets.files_remove) = file;
    switch (any(p, 3)) {
    case 0:
        return;
    case 1:
        file.rank = ++p->rank;
        break;
    default: /* also of one that is applied: removed and added again */
        file.applied = true;
    }
    *ARRAY_ADD(&p->w.arena, p->w.c.changesets.files_add) = file;
}

static void turn_play(struct play *p)
{
    struct world *w = &p->w;
    turn_begin(w);
    if (any(p, 2) || !p->n)
        changeset_make(p);
    else
        changeset_change(p);
    if (p->m->n_changeset_files && any(p, 3))
        file_change(p);
    turn_event(w, (struct event){ .kind = EVENT_noted });
    turn_end(w);
    MUST(w, OPS(w)->load_head(w->store, &w->head, &w->err));
}

static void look(struct play *p)
{
    struct world *w = &p->w;
    struct changeset row;
    struct changeset_file near;
    uint8_t hash[32];
    int64_t task = any(p, p->n + 2);
    struct str tenant = any(p, 2) ? STR("default") : STR("other");
    bool found;
    MUST(w, OPS(w)->load_changeset(w->store, &w->arena, task, &row, &found, &w->err));
    MUST(w, OPS(w)->changeset_find(w->store, tenant, str_fmt(&w->arena, "cs-%lld", (long long)task), &task, &w->err));
    memset(hash, (int)any(p, CONTENTS + 1), sizeof hash);
    MUST(w, OPS(w)->changeset_of_hash(w->store, tenant, hash, &task, &w->err));
    MUST(w, OPS(w)->changeset_file_near(w->store, &w->arena, 1 + any(p, LANES), any(p, 2), str_of(paths[any(p, PATHS)]),
                any(p, p->rank + 2), any(p, 2), &near, &found, &w->err));
}

static void memory_agrees_with_the_store(void **state)
{
    static struct play p;
    struct world *w = &p.w;
    struct verify_report report;
    (void)state;
    world_make(w);
    rng_seed(&p.rng, 14);
    memstore_differs = differs;
    p.m = memstore_new(1);
    p.real = w->store;
    memport_open(&p.port, p.m, 0);
    memport_twin(&p.port, p.real);
    p.m->head = w->head;
    w->store = &p.port.store;
    for (int turn = 0; turn < TURNS; turn++) {
        turn_play(&p);
        MUST(w, OPS(w)->begin(w->store, &w->err));
        for (int i = 0; i < LOOKS; i++)
            look(&p);
        OPS(w)->rollback(w->store);
    }
    assert_true(p.n > TURNS / 4 && p.m->n_changeset_files > 20);
    MUST(w, memport_compare(&p.port, &w->err));
    struct store_config config = world_config(w, false);
    MUST(w, store_verify_at(&config, 0, NULL, &report, &w->err));
    if (!report.ok)
        fail_msg("%s", report.fault);
    w->store = p.real;
    map_release(&p.port.locks);
    memstore_free(p.m);
    world_release(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(memory_agrees_with_the_store) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
