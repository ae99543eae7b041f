/* read: reads archives from the store: all of them, or one that has changed.
 *
 * The loop never waits for a database: where servers share one, a thread of the pool reads, and the loop takes the
 * rows over when they have arrived. A read that fails is repeated, for all archives, until one succeeds; so is one
 * that finds READS_WAITING_MAX reads before it. A store that belongs to this server alone is read on the loop's
 * thread, which is short. */
#include <string.h>

#include "io/log.h"
#include "store/read.h"
#include "watch/follow.h"

enum { AGAIN_MS = 2000, READS_WAITING_MAX = 64 };

struct archive_read { /* of one archive, by its lane or by tenant and name; else of all */
    struct pool_job job;
    struct list_node node; /* watch->archive_reads */
    struct watch *watch;
    struct arena arena;
    int64_t lane;
    struct str tenant, name;
    struct archive_view *views;
    size_t n;
    struct err err;
    archive_read_fn *then; /* NULL: nobody waits for it */
    void *owner;
};

static bool one_read(struct archive_read *read, struct reader *reader)
{
    struct lane *lane = NULL;
    bool found = false;
    if (read->lane > 0 && !reader_lane_of(reader, &read->arena, read->lane, &lane, &read->err))
        return false;
    if (read->lane > 0 && lane == NULL)
        return true;
    struct str tenant = lane != NULL ? lane->tenant : read->tenant, name = lane != NULL ? lane->name : read->name;
    read->views = ARENA_NEW(&read->arena, struct archive_view);
    if (!reader_archive(reader, &read->arena, tenant, name, read->views, &found, &read->err))
        return false;
    read->n = found;
    return true;
}

static void read_run(struct archive_read *read, struct reader *reader)
{
    if (read->lane > 0 || read->name.len > 0)
        (void)one_read(read, reader);
    else
        (void)reader_archives(reader, &read->arena, &read->views, &read->n, &read->err);
}

static void read_work(struct pool_job *job, struct pool_worker *worker)
{
    struct archive_read *read = CONTAINER_OF(job, struct archive_read, job);
    struct reader *reader = pool_reader(worker, &read->err);
    if (reader != NULL)
        read_run(read, reader);
}

static void read_again(struct watch *watch)
{
    if (watch->archive_read_timer.node.pos == 0 && !watch->closing)
        loop_arm(watch->config.loop, &watch->archive_read_timer, loop_now(watch->config.loop) + AGAIN_MS);
}

/* read_end: called once for each read; while the watch closes, no row is taken over. */
static void read_end(struct archive_read *read)
{
    struct watch *watch = read->watch;
    bool good = read->err.code == ERR_none && !watch->closing;
    list_remove(&watch->archive_reads, &read->node);
    for (size_t i = 0; good && i < read->n; i++)
        watch_archive_told(watch, &read->views[i]);
    /* with `then` the caller gets the failure: the name comes from outside, so it is nothing to log */
    if (!good && !watch->closing && read->then == NULL) {
        log_error("watch.archives", "error=%s", log_quote(str_of(read->err.text)).z);
        if (reader_is_shared(watch->reader))
            read_again(watch);
    }
    if (read->then != NULL)
        read->then(watch, good && read->n > 0 ? read->views : NULL, read->owner);
    arena_release(&read->arena);
    mem_free(read);
}

static void read_done(struct pool_job *job)
{
    read_end(CONTAINER_OF(job, struct archive_read, job));
}

static void read_begin(struct watch *watch, const struct archive_read *like)
{
    struct archive_read *read = mem_alloc_zero(sizeof *read);
    *read = *like;
    read->watch = watch;
    read->job = (struct pool_job){ .work = read_work, .done = read_done };
    read->tenant = str_dup(&read->arena, like->tenant);
    read->name = str_dup(&read->arena, like->name);
    if (!reader_is_shared(watch->reader) && !watch->closing)
        read_run(read, watch->reader);
    if (!reader_is_shared(watch->reader) || watch->closing) {
        read_end(read);
        return;
    }
    if (watch->archive_reads.n >= READS_WAITING_MAX) {
        err_set(&read->err, ERR_unavailable, "%d looks at the store are waiting already", READS_WAITING_MAX);
        read_end(read);
        return;
    }
    list_append(&watch->archive_reads, &read->node);
    thread_pool_add(watch->pool, POOL_STORE, &read->job);
}

void watch_archives_changed(struct watch *watch)
{
    read_begin(watch, &(struct archive_read){ 0 });
}

void watch_archive_changed(struct watch *watch, struct str tenant, struct str name)
{
    read_begin(watch, &(struct archive_read){ .tenant = tenant, .name = name });
}

void archive_read_lane(struct watch *watch, int64_t lane)
{
    read_begin(watch, &(struct archive_read){ .lane = lane });
}

void archive_read_name(struct watch *watch, struct str name, archive_read_fn *then, void *owner)
{
    read_begin(watch, &(struct archive_read){ .name = name, .then = then, .owner = owner });
}

static void again_due(struct loop_timer *timer)
{
    watch_archives_changed(timer->owner);
}

void archive_reads_init(struct watch *watch)
{
    watch->archive_read_timer = (struct loop_timer){ .due = again_due, .owner = watch };
}

/* The memory of a read whose thread hangs isn't freed: the thread may still use it. */
void archive_reads_release(struct watch *watch, bool all_joined)
{
    while (all_joined && watch->archive_reads.first != NULL)
        read_end(CONTAINER_OF(watch->archive_reads.first, struct archive_read, node));
}
