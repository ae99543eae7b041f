/* look: which archives there are, as the store says: all of them, or one of which something is new.
 *
 * The loop never waits for a database: where servers share one, what is asked for is read by a thread of the crew, and
 * taken over when it is there. A look that fails is made again, at all of them, until one succeeds; so is one that
 * finds LOOKS_MAX before it. In a store that is this server's alone it is a short read on the loop's thread, and taken
 * over at once. */
#include <string.h>

#include "io/log.h"
#include "store/read.h"
#include "watch/follow.h"

enum { AGAIN_MS = 2000, LOOKS_MAX = 64 };

struct look { /* at one archive: by its lane, or by tenant and name; else at all */
    struct crew_job job;
    struct list_node node; /* watch->looks */
    struct watch *watch;
    struct arena arena;
    int64_t lane;
    struct str tenant, name;
    struct archive_view *views;
    size_t n;
    struct err err;
    look_fn *then; /* NULL: nobody waits for it */
    void *owner;
};

static bool one_read(struct look *look, struct reader *reader)
{
    struct lane *lane = NULL;
    bool found = false;
    if (look->lane > 0 && !reader_lane_of(reader, &look->arena, look->lane, &lane, &look->err))
        return false;
    if (look->lane > 0 && lane == NULL)
        return true;
    struct str tenant = lane != NULL ? lane->tenant : look->tenant, name = lane != NULL ? lane->name : look->name;
    look->views = ARENA_NEW(&look->arena, struct archive_view);
    if (!reader_archive(reader, &look->arena, tenant, name, look->views, &found, &look->err))
        return false;
    look->n = found;
    return true;
}

static void look_read(struct look *look, struct reader *reader)
{
    if (look->lane > 0 || look->name.len > 0)
        (void)one_read(look, reader);
    else
        (void)reader_archives(reader, &look->arena, &look->views, &look->n, &look->err);
}

static void look_work(struct crew_job *job, struct crew_hand *hand)
{
    struct look *look = CONTAINER_OF(job, struct look, job);
    struct reader *reader = crew_reader(hand, &look->err);
    if (reader != NULL)
        look_read(look, reader);
}

static void look_again(struct watch *watch)
{
    if (watch->look_timer.node.pos == 0 && !watch->closing)
        loop_arm(watch->config.loop, &watch->look_timer, loop_now(watch->config.loop) + AGAIN_MS);
}

/* look_end: in any case; at the end of the watch nothing is taken over. */
static void look_end(struct look *look)
{
    struct watch *watch = look->watch;
    bool good = look->err.code == ERR_none && !watch->closing;
    list_remove(&watch->looks, &look->node);
    for (size_t i = 0; good && i < look->n; i++)
        watch_archive_told(watch, &look->views[i]);
    /* with `then` the caller is told instead: anybody may ask for a name */
    if (!good && !watch->closing && look->then == NULL) {
        log_error("watch.archives", "error=%s", log_quote(str_of(look->err.text)).z);
        if (reader_is_shared(watch->reader))
            look_again(watch);
    }
    if (look->then != NULL)
        look->then(watch, good && look->n > 0 ? look->views : NULL, look->owner);
    arena_release(&look->arena);
    mem_free(look);
}

static void look_done(struct crew_job *job)
{
    look_end(CONTAINER_OF(job, struct look, job));
}

static void look_begin(struct watch *watch, const struct look *like)
{
    struct look *look = mem_alloc_zero(sizeof *look);
    *look = *like;
    look->watch = watch;
    look->job = (struct crew_job){ .work = look_work, .done = look_done };
    look->tenant = str_dup(&look->arena, like->tenant);
    look->name = str_dup(&look->arena, like->name);
    if (!reader_is_shared(watch->reader) && !watch->closing)
        look_read(look, watch->reader);
    if (!reader_is_shared(watch->reader) || watch->closing) {
        look_end(look);
        return;
    }
    if (watch->looks.n >= LOOKS_MAX) {
        err_set(&look->err, ERR_unavailable, "%d looks at the store are waiting already", LOOKS_MAX);
        look_end(look);
        return;
    }
    list_append(&watch->looks, &look->node);
    crew_add(watch->crew, CREW_STORE, &look->job);
}

void watch_archives_changed(struct watch *watch)
{
    look_begin(watch, &(struct look){ 0 });
}

void watch_archive_changed(struct watch *watch, struct str tenant, struct str name)
{
    look_begin(watch, &(struct look){ .tenant = tenant, .name = name });
}

void look_at_lane(struct watch *watch, int64_t lane)
{
    look_begin(watch, &(struct look){ .lane = lane });
}

void look_for(struct watch *watch, struct str name, look_fn *then, void *owner)
{
    look_begin(watch, &(struct look){ .name = name, .then = then, .owner = owner });
}

static void again_due(struct loop_timer *timer)
{
    watch_archives_changed(timer->owner);
}

void looks_begin(struct watch *watch)
{
    watch->look_timer = (struct loop_timer){ .due = again_due, .owner = watch };
}

/* What a thread that hangs uses is left to it. */
void looks_release(struct watch *watch, bool all_joined)
{
    while (all_joined && watch->looks.first != NULL)
        look_end(CONTAINER_OF(watch->looks.first, struct look, node));
}
