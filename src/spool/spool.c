/* spool: see spool.h. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "io/log.h"
#include "spool/spool_parts.h"
#include "store/read.h"

/* --- trouble --- */

void spool_trouble_set(struct spool *spool, const struct err *err)
{
    const char *text = err != NULL ? err->text : "";
    pthread_mutex_lock(&spool->lock);
    bool news = strcmp(spool->trouble, text) != 0;
    if (news)
        snprintf(spool->trouble, sizeof spool->trouble, "%s", text);
    pthread_mutex_unlock(&spool->lock);
    if (news && err != NULL)
        log_error("spool.stopped", "error=%s note=\"the queue goes on; the spool follows as soon as it can\"",
            log_quote(str_of(text)).z);
    else if (news)
        log_event("spool.goes_on", "base=%s", log_quote(str_of(spool->config.base)).z);
}

bool spool_trouble(struct spool *spool, char out[SPOOL_TEXT_MAX])
{
    pthread_mutex_lock(&spool->lock);
    memcpy(out, spool->trouble, SPOOL_TEXT_MAX);
    pthread_mutex_unlock(&spool->lock);
    return out[0] != '\0';
}

/* --- life --- */

/* target_exists: every archive that is followed is one. */
static bool target_exists(struct spool *spool, bool *out, struct err *err)
{
    struct reader *reader = reader_open(spool->config.store, err);
    struct archive_view *views = NULL;
    struct arena arena = { 0 };
    size_t n = 0;
    bool good = reader != NULL && reader_archives(reader, &arena, &views, &n, err);
    *out = false;
    for (size_t i = 0; good && i < n; i++)
        *out |= views[i].archive.removed == 0;
    arena_release(&arena);
    if (reader != NULL)
        reader_close(reader);
    return good;
}

static void parts_close(struct spool *spool)
{
    atomic_store(&spool->stop, true);
    pulls_end(spool);
    projection_end(spool);
    control_close(&spool->control, &spool->folders);
    folders_close(&spool->folders);
    spool->is_open = false;
}

static bool parts_open(struct spool *spool, struct err *err)
{
    char owner[256];
    snprintf(owner, sizeof owner, "server %.*s (pid %ld)", STR_ARG(str_sub(spool->config.server_name, 0, 200)),
        (long)getpid());
    atomic_store(&spool->stop, false);
    spool->projection = (struct projection){ .wake_fd = -1, .changes.fd = -1 };
    spool->pulls = (struct pulls){ .wake_fd = -1, .inotify_fd = -1 };
    control_none(&spool->control);
    bool good = folders_open(&spool->folders, spool->config.base, err) &&
                control_open(&spool->control, &spool->folders, str_of(owner), err) && tmp_clear(&spool->folders, err) &&
                projection_start(spool, err) && pulls_start(spool, err);
    if (!good)
        parts_close(spool);
    spool->is_open = good;
    return good;
}

struct spool *spool_open(const struct spool_config *config, struct err *err)
{
    struct spool *spool = mem_alloc_zero(sizeof *spool);
    bool wanted = false;
    spool->config = *config;
    pthread_mutex_init(&spool->lock, NULL);
    if (target_exists(spool, &wanted, err) && (!wanted || parts_open(spool, err)))
        return spool;
    spool_close(spool);
    return NULL;
}

void spool_closing(struct spool *spool)
{
    if (spool->is_open)
        errands_closing(&spool->pulls.errands);
}

void spool_close(struct spool *spool)
{
    if (spool->is_open)
        parts_close(spool);
    pthread_mutex_destroy(&spool->lock);
    mem_free(spool);
}

void spool_on_commit(struct spool *spool)
{
    if (spool->is_open)
        projection_wake(spool);
}

void spool_archive_added(struct spool *spool)
{
    struct err err = { 0 };
    if (spool->is_open)
        return;
    if (parts_open(spool, &err))
        spool_trouble_set(spool, NULL);
    else
        spool_trouble_set(spool, &err);
}
