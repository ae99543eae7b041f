/* tar_stream: the files of a revision as a tar, from a thread of the pool to a reader on the loop, at the reader's
 * pace.
 *
 * Owns one buffer, which is either full (the loop's) or not (the thread's), under its lock; the thread waits while it
 * is full. Promises one call of `end` unless cancelled, and no call of `bytes` after it.
 *
 * Fails as source.h says; with unavailable when the reader takes no piece for a minute. */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "watch/follow.h"

enum { PATIENCE_S = 60 };

struct watch_tar_stream {
    struct pool_job job;
    struct pool_notice notice; /* a piece is there */
    struct list_node node;
    struct watch *watch;
    struct arena arena;
    struct archive archive;
    int64_t rev;
    struct str ident;
    struct watch_tar_stream_sink sink;
    struct err err; /* the thread's until it is over */

    /* the loop's */
    bool wanted, over, cancelled, calling;

    pthread_mutex_t lock;
    pthread_cond_t taken;
    bool full, stop;
    size_t len;
    char piece[WATCH_TAR_PIECE_BYTES];
};

static void stream_free(struct watch_tar_stream *stream)
{
    if (!stream->watch->closed)
        thread_pool_forget_notice(stream->watch->pool, &stream->notice);
    list_remove(&stream->watch->tar_streams, &stream->node);
    pthread_mutex_destroy(&stream->lock);
    pthread_cond_destroy(&stream->taken);
    arena_release(&stream->arena);
    mem_free(stream);
}

/* --- on a thread of the pool --- */

/* piece_wait: until the piece is the thread's again. */
static bool piece_wait(struct watch_tar_stream *stream)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += PATIENCE_S;
    pthread_mutex_lock(&stream->lock);
    int code = 0;
    while (stream->full && !stream->stop && code != ETIMEDOUT)
        code = pthread_cond_timedwait(&stream->taken, &stream->lock, &until);
    bool good = !stream->full && !stream->stop;
    pthread_mutex_unlock(&stream->lock);
    return good;
}

static void piece_give(struct watch_tar_stream *stream)
{
    pthread_mutex_lock(&stream->lock);
    stream->full = true;
    pthread_mutex_unlock(&stream->lock);
    thread_pool_notify(stream->watch->pool, &stream->notice);
}

static bool stream_write(void *context, struct str bytes)
{
    struct watch_tar_stream *stream = context;
    while (bytes.len > 0) {
        if (!piece_wait(stream))
            return false;
        size_t room = sizeof stream->piece - stream->len;
        size_t n = bytes.len < room ? bytes.len : room;
        memcpy(stream->piece + stream->len, bytes.ptr, n);
        stream->len += n;
        bytes = str_sub(bytes, n, bytes.len);
        if (stream->len == sizeof stream->piece)
            piece_give(stream);
    }
    return true;
}

static void stream_work(struct pool_job *job, struct pool_worker *worker)
{
    struct watch_tar_stream *stream = CONTAINER_OF(job, struct watch_tar_stream, job);
    struct source_tar tar = { stream_write, stream };
    (void)worker;
    struct source *source =
        source_open(stream->archive.kind, stream->archive.url, stream->archive.branch, &stream->err);
    if (source == NULL)
        return;
    if (source_export_tar(source, (struct source_ident){ stream->rev, stream->ident }, &tar, NULL, &stream->err)) {
        stream->err = (struct err){ 0 };
        if (piece_wait(stream) && stream->len > 0)
            piece_give(stream);
    }
    source_close(source);
}

/* --- on the loop's thread --- */

/* stream_pump: hands a full buffer to the reader if it asked for one. The callbacks may ask for more or cancel: those
 * calls arrive here again, or set a flag that is read below. */
static void stream_pump(struct watch_tar_stream *stream)
{
    if (stream->calling)
        return;
    pthread_mutex_lock(&stream->lock);
    bool full = stream->full;
    pthread_mutex_unlock(&stream->lock);
    while (full && stream->wanted && !stream->cancelled) {
        stream->wanted = false;
        stream->calling = true;
        stream->sink.bytes(stream->sink.owner, (struct str){ stream->piece, stream->len });
        stream->calling = false;
        pthread_mutex_lock(&stream->lock);
        stream->len = 0;
        full = stream->full = false;
        pthread_cond_signal(&stream->taken);
        pthread_mutex_unlock(&stream->lock);
    }
    if (!stream->over || (full && !stream->cancelled && stream->err.code == ERR_none))
        return;
    if (!stream->cancelled) {
        stream->calling = true;
        stream->sink.end(stream->sink.owner, &stream->err);
    }
    stream_free(stream);
}

static void piece_arrived(struct pool_notice *notice)
{
    stream_pump(CONTAINER_OF(notice, struct watch_tar_stream, notice));
}

static void stream_done(struct pool_job *job)
{
    struct watch_tar_stream *stream = CONTAINER_OF(job, struct watch_tar_stream, job);
    stream->over = true;
    stream_pump(stream);
}

struct watch_tar_stream *watch_tar_stream(struct watch *watch, const struct archive *archive, int64_t rev,
    struct str ident, const struct watch_tar_stream_sink *sink, struct err *err)
{
    if (watch->closing || watch->tar_streams.n >= WATCH_TAR_STREAMS_MAX) {
        err_set(err, ERR_unavailable, watch->closing ? "the server is stopping" : "%d trees are being read already",
            WATCH_TAR_STREAMS_MAX);
        return NULL;
    }
    struct watch_tar_stream *stream = mem_alloc_zero(sizeof *stream);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&stream->taken, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&stream->lock, NULL);
    stream->watch = watch;
    stream->archive = (struct archive){ .kind = archive->kind,
        .url = str_dup(&stream->arena, archive->url),
        .branch = str_dup(&stream->arena, archive->branch) };
    stream->rev = rev;
    stream->ident = str_dup(&stream->arena, ident);
    stream->sink = *sink;
    stream->wanted = true;
    stream->notice.arrived = piece_arrived;
    stream->job = (struct pool_job){ .work = stream_work, .done = stream_done };
    list_append(&watch->tar_streams, &stream->node);
    thread_pool_add(watch->pool, POOL_TAR, &stream->job);
    return stream;
}

void watch_tar_stream_more(struct watch_tar_stream *stream)
{
    stream->wanted = true;
    stream_pump(stream);
}

static void stream_stop(struct watch_tar_stream *stream)
{
    pthread_mutex_lock(&stream->lock);
    stream->stop = true;
    pthread_cond_signal(&stream->taken);
    pthread_mutex_unlock(&stream->lock);
}

void watch_tar_stream_cancel(struct watch_tar_stream *stream)
{
    stream->cancelled = true;
    stream_stop(stream);
    if (stream->calling)
        return; /* from inside `bytes`: the pump goes on */
    if (stream->over || thread_pool_withdraw(stream->watch->pool, POOL_TAR, &stream->job))
        stream_free(stream);
}

void tar_streams_stop(struct watch *watch)
{
    for (struct list_node *node = watch->tar_streams.first; node != NULL; node = node->next)
        stream_stop(CONTAINER_OF(node, struct watch_tar_stream, node));
}

void tar_streams_release(struct watch *watch, bool all_joined)
{
    while (all_joined && watch->tar_streams.first != NULL)
        stream_free(CONTAINER_OF(watch->tar_streams.first, struct watch_tar_stream, node));
}
