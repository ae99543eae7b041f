/* page: the next pending tasks of a class, read while other turns go on.
 *
 * While executors drain a full queue their next claim can be foreseen: when a turn that follows one with a large claim,
 * and changes nothing of what is pending (results, mostly), is sent, the tasks that come next are asked for on a
 * connection of its own, and the database reads them while it writes the turn. A page is what ready_first would bring
 * as long as nobody has committed since but this server, and none of its turns has changed `ready` or a pending task;
 * the head that it was read with, and the head that a turn begins with, tell. Rows are written by the places that they
 * had then, and counted: should somebody have moved them since (VACUUM FULL), the turn comes to nothing and is taken
 * again without a page.
 *
 * Nothing depends on it: whatever goes wrong here is silent, and the rows are read as ever. Pages that were read in
 * vain make the next ones rarer. */
#include "io/clock.h"
#include "store/postgres/postgres.h"
#include "store/postgres/timeline.h"

enum {
    PAGE_MIN = 200, /* below, there is nothing to gain */
    PAGE_MAX = 5000,
    ANSWER_MS = 2000, /* the turn's lock is held meanwhile */
    RETRY_MS = 10000,
    MISSES_MAX = 7, /* claims without a page: up to 2 to that */
};

enum { RESULT_TASKS = 1, RESULT_TICK = 2 };

static void page_miss(struct page *page)
{
    page->asked = false;
    page->misses += page->misses < MISSES_MAX;
    page->skips = 1U << page->misses;
}

/* The answer is read, whether it is wanted or not. */
static bool page_read(struct page *page)
{
    struct err ignored = { 0 };
    page->under_way = false;
    if (pg_exchange(&page->pg, &ignored))
        return true;
    pg_close(&page->pg);
    return false;
}

void page_look(struct postgres_store *self)
{
    if (self->page.asked && self->page.commit != self->head.commit)
        page_miss(&self->page);
}

bool page_take(struct postgres_store *self, int64_t class_id, int64_t n, PGresult **out)
{
    struct page *page = &self->page;
    if (!page->asked || !self->in_turn || self->narrow || page->class_id != class_id)
        return false;
    if (page->n < n || !timeline_current(&page->pg)) {
        page_miss(page);
        return false;
    }
    page->asked = false;
    if (!page_read(page))
        return false;
    int64_t tick = cell_i64(page->pg.results[RESULT_TICK], 0, 0);
    if (tick < page->first || tick > page->commit)
        return false;
    page->misses = 0;
    *out = page->pg.results[RESULT_TASKS];
    return true;
}

void page_wish(struct postgres_store *self, int64_t class_id, int64_t n)
{
    if (!self->in_turn || self->narrow || n < PAGE_MIN || n > PAGE_MAX || n <= self->page.wish_n)
        return;
    self->page.wish = class_id;
    self->page.wish_n = n;
}

static bool page_connected(struct postgres_store *self)
{
    struct page *page = &self->page;
    struct err ignored = { 0 };
    if (page->pg.conn && !page->pg.lost && timeline_current(&page->pg))
        return true;
    int64_t now = clock_boot_ms();
    page_close(self);
    if (now < page->retry_ms || writer_is_away())
        return false;
    page->retry_ms = now + RETRY_MS;
    page->pg.answer_ms = ANSWER_MS;
    if (pg_connect(&page->pg, self->url, &ignored) && pg_writable(&page->pg, &ignored) &&
        pg_exec(&page->pg, PG_session_reader, &ignored) && pg_prepare(&page->pg, PG_FOR_PAGE, &ignored))
        return true;
    page->pg.lost = true;
    return false;
}

/* Would a page that was read before it be another one? */
static bool changes_pages(const struct changes *c)
{
    bool changed = c->narrow || c->ready_add.n || c->ready_remove.n;
    for (size_t i = 0; i < c->tasks_changed.n && !changed; i++)
        changed = c->tasks_changed.at[i]->state == STATE_P;
    return changed;
}

void page_ask(struct postgres_store *self, const struct changes *changes)
{
    struct page *page = &self->page;
    struct pg_args args = { 0 };
    if (!page->next_n || page->asked || changes_pages(changes))
        return;
    if (page->skips) {
        page->skips--;
        return;
    }
    if ((page->under_way && !page_read(page)) || !page_connected(self))
        return;
    bool from = floors_args(self, page->next, page->next_n, &args);
    pg_queue(&page->pg, PG_page_begin, NULL);
    pg_queue(&page->pg, from ? PG_page_tasks_from : PG_page_tasks, &args);
    pg_queue(&page->pg, PG_page_tick, NULL);
    pg_queue(&page->pg, PG_page_end, NULL);
    pg_send(&page->pg);
    page->class_id = page->next;
    page->n = page->next_n;
    page->first = self->head.commit;
    page->asked = page->under_way = true;
}

void page_follow(struct postgres_store *self, const struct changes *changes)
{
    struct page *page = &self->page;
    if (page->asked && (!changes || changes_pages(changes)))
        page_miss(page);
    page->commit = self->head.commit;
    page->next = page->wish;
    page->next_n = changes ? page->wish_n : 0;
    page->wish_n = 0;
}

void page_close(struct postgres_store *self)
{
    self->page.asked = self->page.under_way = false;
    pg_close(&self->page.pg);
}
