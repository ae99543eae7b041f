/* timeline: see timeline.h. One record per process, for writer, readers and listener alike: what one of them has
 * reached binds them all. */
#include "store/postgres/timeline.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/plant.h"
#include "io/fsx.h"
#include "store/files.h"

static struct {
    pthread_mutex_t lock;
    char system[PG_SYSTEM_BYTES];      /* the cluster's identifier; empty: nothing was reached yet */
    int64_t timeline;                  /* the newest of it */
    char kept_system[PG_SYSTEM_BYTES]; /* as it stands in the file */
    int64_t kept;
} seen = { .lock = PTHREAD_MUTEX_INITIALIZER };

static _Atomic int epoch; /* how often the engine's connection was made anew */
static _Atomic bool away;

bool timeline_check(struct pg *pg, struct err *err)
{
    pg->epoch = epoch;
    pg->system[0] = '\0';
    pg->timeline = 0;
    if (!pg_words(pg, SQL_session_place, pg->system, sizeof pg->system, &pg->timeline))
        return err_set(err, ERR_unavailable, "%s doesn't say which cluster it is", pg->place);
    if (pg->timeline == 0) /* a standby: it only follows */
        return true;
    pthread_mutex_lock(&seen.lock);
    bool same = strcmp(seen.system, pg->system) == 0;
    int64_t newest = same ? seen.timeline : 0;
    if (PLANT(timeline_ignored))
        newest = 0;
    if (pg->timeline >= newest) {
        memcpy(seen.system, pg->system, sizeof seen.system);
        seen.timeline = pg->timeline;
    }
    pthread_mutex_unlock(&seen.lock);
    return pg->timeline >= newest ||
           err_set(err, ERR_unavailable,
               "%s is a primary of the past (timeline %" PRId64 ", but %" PRId64 " was reached before): its "
               "standby was promoted, and what it holds isn't true any more; make it a standby (pg_rewind or "
               "pg_basebackup), and "
               "name the new primary",
               pg->place, pg->timeline, newest);
}

bool timeline_known(void)
{
    pthread_mutex_lock(&seen.lock);
    bool known = seen.system[0] != '\0';
    pthread_mutex_unlock(&seen.lock);
    return known;
}

/* --- the engine's connection goes ahead --- */

void writer_gone(void)
{
    away = true;
}

void writer_back(void)
{
    epoch++;
    away = false;
}

bool writer_is_away(void)
{
    return away;
}

int writer_epoch(void)
{
    return epoch;
}

bool timeline_current(const struct pg *pg)
{
    return pg->epoch == epoch;
}

/* --- the file: "SYSTEM TIMELINE\n" --- */

bool timeline_load(const char *dir, struct err *err)
{
    char path[FILES_PATH_MAX], text[PG_SYSTEM_BYTES + 32] = "", system[PG_SYSTEM_BYTES];
    int64_t timeline;
    if (!path_join(path, dir, "timeline", err))
        return false;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return errno == ENOENT || err_set(err, ERR_io, "%s: %s", path, strerrordesc_np(errno));
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    struct str line = str_trim((struct str){ text, n > 0 ? (size_t)n : 0 });
    ptrdiff_t gap = str_index(line, ' ');
    if (gap <= 0 || (size_t)gap >= sizeof system || !str_to_i64(str_sub(line, (size_t)gap + 1, line.len), &timeline))
        return err_set(err, ERR_corrupt,
            "%s can't be read: it says which timeline of PostgreSQL was reached last; remove it when you know "
            "that the database is the right one",
            path);
    snprintf(system, sizeof system, "%.*s", (int)gap, line.ptr);
    pthread_mutex_lock(&seen.lock);
    if (seen.system[0] == '\0' || (strcmp(seen.system, system) == 0 && seen.timeline < timeline)) {
        memcpy(seen.system, system, sizeof system);
        seen.timeline = timeline;
    }
    memcpy(seen.kept_system, system, sizeof system);
    seen.kept = timeline;
    pthread_mutex_unlock(&seen.lock);
    return true;
}

bool timeline_there(const char *dir)
{
    char path[FILES_PATH_MAX];
    struct err ignored = { 0 };
    return path_join(path, dir, "timeline", &ignored) && file_exists(path);
}

bool timeline_keep(const char *dir, struct err *err)
{
    char path[FILES_PATH_MAX], text[PG_SYSTEM_BYTES + 32], system[PG_SYSTEM_BYTES];
    pthread_mutex_lock(&seen.lock);
    memcpy(system, seen.system, sizeof system);
    int64_t timeline = seen.timeline;
    bool there = timeline == seen.kept && strcmp(system, seen.kept_system) == 0;
    pthread_mutex_unlock(&seen.lock);
    if (there || system[0] == '\0')
        return true;
    snprintf(text, sizeof text, "%s %" PRId64 "\n", system, timeline);
    if (!path_join(path, dir, "timeline", err) || !fsx_replace(path, str_of(text), 0600, err))
        return false;
    pthread_mutex_lock(&seen.lock);
    memcpy(seen.kept_system, system, sizeof system);
    seen.kept = timeline;
    pthread_mutex_unlock(&seen.lock);
    return true;
}
