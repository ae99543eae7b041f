/* memstore_archives: archives, revisions, what PREV means and schedules in the store in memory. There are few of each:
 * lists are walked. */
#include "memstore.h"
#include "store/row_copy.h"

static struct memstore *mem(struct store *store)
{
    return ((struct memport *)(void *)store)->rows;
}

#define COPIER(function, table, type) \
    static struct type function(struct arena *arena, const struct type *row) \
    { \
        struct type copy = *row; \
        row_copy_##table(arena, &copy); \
        return copy; \
    }
COPIER(revision_copy, revision, revision)
COPIER(schedule_copy, schedule, schedule)
COPIER(latest_copy, latest, latest)

/* --- writing --- */

static bool schedule_is(const struct schedule *a, const struct schedule *b)
{
    return a->lane == b->lane && str_eq(a->task, b->task) && str_eq(a->cron, b->cron) &&
           str_eq(a->timezone, b->timezone);
}

static void schedules_apply(struct memstore *m, const struct changes *c)
{
    for (size_t i = 0; i < c->schedules.n; i++) {
        size_t at = 0;
        while (at < m->n_schedules && !schedule_is(&m->schedules[at], &c->schedules.at[i]))
            at++;
        if (at == m->n_schedules)
            ARENA_PUSH(&m->arena, m->schedules, m->n_schedules, m->cap_schedules);
        m->schedules[at] = schedule_copy(&m->arena, &c->schedules.at[i]);
    }
    for (size_t i = 0; i < c->schedules_remove.n; i++)
        for (size_t at = 0; at < m->n_schedules; at++)
            if (schedule_is(&m->schedules[at], &c->schedules_remove.at[i]))
                m->schedules[at--] = m->schedules[--m->n_schedules];
}

void archives_apply(struct memstore *m, const struct changes *c)
{
    for (size_t i = 0; i < c->archives.n; i++)
        map_put(&m->archives, (uint64_t)c->archives.at[i]->lane, archive_copy(&m->arena, c->archives.at[i]));
    for (size_t i = 0; i < c->revisions.n; i++) {
        size_t at = 0;
        while (at < m->n_revisions &&
               (m->revisions[at].lane != c->revisions.at[i].lane || m->revisions[at].rev != c->revisions.at[i].rev))
            at++;
        if (at == m->n_revisions)
            ARENA_PUSH(&m->arena, m->revisions, m->n_revisions, m->cap_revisions);
        m->revisions[at] = revision_copy(&m->arena, &c->revisions.at[i]);
    }
    for (size_t i = 0; i < c->latest.n; i++) {
        size_t at = 0;
        while (at < m->n_latests &&
               (m->latests[at].lane != c->latest.at[i].lane || !str_eq(m->latests[at].name, c->latest.at[i].name)))
            at++;
        if (at == m->n_latests)
            ARENA_PUSH(&m->arena, m->latests, m->n_latests, m->cap_latests);
        m->latests[at] = latest_copy(&m->arena, &c->latest.at[i]);
    }
    schedules_apply(m, c);
}

/* --- loads --- */

static bool mem_archives(
    struct store *store, struct arena *arena, struct archive ***out, size_t *out_n, struct err *err)
{
    const struct map *map = &mem(store)->archives;
    (void)err;
    *out = ARENA_ARRAY(arena, struct archive *, map->n + 1);
    *out_n = 0;
    MAP_EACH (map, e)
        (*out)[(*out_n)++] = archive_copy(arena, e->value);
    return true;
}

static bool mem_schedules(
    struct store *store, struct arena *arena, struct schedule **out, size_t *out_n, struct err *err)
{
    const struct memstore *m = mem(store);
    (void)err;
    *out = ARENA_ARRAY(arena, struct schedule, m->n_schedules + 1);
    *out_n = m->n_schedules;
    for (size_t i = 0; i < m->n_schedules; i++)
        (*out)[i] = schedule_copy(arena, &m->schedules[i]);
    return true;
}

const struct revision *memstore_revision(const struct memstore *m, int64_t lane, int64_t rev)
{
    for (size_t i = 0; i < m->n_revisions; i++)
        if (m->revisions[i].lane == lane && m->revisions[i].rev == rev)
            return &m->revisions[i];
    return NULL;
}

static bool mem_revision(struct store *store, struct arena *arena, int64_t lane, int64_t rev, struct revision *out,
    bool *out_found, struct err *err)
{
    const struct revision *row = memstore_revision(mem(store), lane, rev);
    (void)err;
    *out_found = row != NULL;
    if (row)
        *out = revision_copy(arena, row);
    return true;
}

static bool mem_revision_of_ident(
    struct store *store, int64_t lane, struct str ident, int64_t *out_rev, struct err *err)
{
    const struct memstore *m = mem(store);
    (void)err;
    *out_rev = 0;
    for (size_t i = 0; i < m->n_revisions; i++)
        if (m->revisions[i].lane == lane && str_eq(m->revisions[i].ident, ident) && m->revisions[i].rev > *out_rev)
            *out_rev = m->revisions[i].rev;
    return true;
}

static bool mem_latest(struct store *store, struct arena *arena, int64_t lane, struct str name, struct str variant,
    struct latest *out, bool *out_found, struct err *err)
{
    const struct memstore *m = mem(store);
    (void)variant, (void)err;
    *out_found = false;
    for (size_t i = 0; i < m->n_latests && !*out_found; i++) {
        if (m->latests[i].lane != lane || !str_eq(m->latests[i].name, name))
            continue;
        *out = latest_copy(arena, &m->latests[i]);
        *out_found = true;
    }
    return true;
}

const struct task *memstore_task_upto(const struct memstore *m, int64_t lane, struct str name, int64_t upto)
{
    const struct task *newest = NULL;
    MAP_EACH (&m->tasks, t) {
        const struct task *task = t->value;
        if (task->lane != lane || task->run != 0 || task->rev == 0 || task->rev > upto || !str_eq(task->name, name))
            continue;
        if (!newest || task->rev > newest->rev)
            newest = task;
    }
    return newest;
}

static bool mem_task_upto(struct store *store, int64_t lane, struct str name, struct str variant, int64_t upto,
    int64_t *out_task, int64_t *out_rev, struct err *err)
{
    const struct task *task = memstore_task_upto(mem(store), lane, name, upto);
    (void)variant, (void)err;
    *out_task = task ? task->id : 0;
    *out_rev = task ? task->rev : 0;
    return true;
}

static bool mem_task_find(struct store *store, int64_t lane, int64_t rev, struct str name, struct str variant,
    int64_t run, int64_t *out_task, int64_t *out_run, struct err *err)
{
    (void)variant, (void)err;
    *out_task = 0;
    *out_run = -1;
    MAP_EACH (&mem(store)->tasks, t) {
        const struct task *task = t->value;
        if (task->lane != lane || task->rev != rev || !str_eq(task->name, name) || (run >= 0 && task->run != run))
            continue;
        if (task->run <= *out_run)
            continue;
        *out_task = task->id;
        *out_run = task->run;
    }
    return true;
}

static bool mem_tasks_open(
    struct store *store, struct arena *arena, int64_t lane, size_t n, int64_t **out, size_t *out_n, struct err *err)
{
    size_t cap = 0;
    (void)err;
    *out = NULL;
    *out_n = 0;
    MAP_EACH (&mem(store)->tasks, t) {
        const struct task *task = t->value;
        if (task->lane == lane && !state_ended(task->state) && *out_n < n)
            *ARENA_PUSH(arena, *out, *out_n, cap) = task->id;
    }
    return true;
}

static bool mem_tasks_after(
    struct store *store, struct arena *arena, int64_t after, size_t n, int64_t **out, size_t *out_n, struct err *err)
{
    size_t cap = 0;
    (void)err;
    *out = NULL;
    *out_n = 0;
    MAP_EACH (&mem(store)->tasks, t) {
        const struct task *task = t->value;
        if (task->id > after && *out_n < n)
            *ARENA_PUSH(arena, *out, *out_n, cap) = task->id;
    }
    return true;
}

void archive_ops_add(struct store_ops *ops)
{
    ops->load_archives = mem_archives;
    ops->load_schedules = mem_schedules;
    ops->load_revision = mem_revision;
    ops->revision_of_ident = mem_revision_of_ident;
    ops->latest_find = mem_latest;
    ops->task_upto = mem_task_upto;
    ops->task_find = mem_task_find;
    ops->tasks_open = mem_tasks_open;
    ops->tasks_after = mem_tasks_after;
}
