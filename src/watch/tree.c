/* tree: the files of a revision as a tar, from a thread of the crew to somebody on the loop, at that one's pace.
 *
 * Owns one piece of memory that is full (the loop's) or not (the thread's), under its lock; the thread waits while it
 * is full. Promises one call of `end` unless cancelled, and none of `bytes` after it.
 *
 * Fails as source.h says; with unavailable when nobody takes a piece for a minute. */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "watch/follow.h"

enum { PATIENCE_S = 60 };

struct watch_tree {
    struct crew_job job;
    struct crew_notice notice; /* a piece is there */
    struct list_node node;
    struct watch *watch;
    struct arena arena;
    struct archive archive;
    int64_t rev;
    struct str ident;
    struct watch_tree_sink sink;
    struct err err; /* the thread's until it is over */

    /* the loop's */
    bool wanted, over, cancelled, calling;

    pthread_mutex_t lock;
    pthread_cond_t taken;
    bool full, stop;
    size_t len;
    char piece[WATCH_TREE_PIECE_BYTES];
};

static void tree_free(struct watch_tree *tree)
{
    if (!tree->watch->closed)
        crew_untell(tree->watch->crew, &tree->notice);
    list_remove(&tree->watch->trees, &tree->node);
    pthread_mutex_destroy(&tree->lock);
    pthread_cond_destroy(&tree->taken);
    arena_release(&tree->arena);
    mem_free(tree);
}

/* --- on the crew's thread --- */

/* piece_wait: until the piece is the thread's again. */
static bool piece_wait(struct watch_tree *tree)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += PATIENCE_S;
    pthread_mutex_lock(&tree->lock);
    int code = 0;
    while (tree->full && !tree->stop && code != ETIMEDOUT)
        code = pthread_cond_timedwait(&tree->taken, &tree->lock, &until);
    bool good = !tree->full && !tree->stop;
    pthread_mutex_unlock(&tree->lock);
    return good;
}

static void piece_give(struct watch_tree *tree)
{
    pthread_mutex_lock(&tree->lock);
    tree->full = true;
    pthread_mutex_unlock(&tree->lock);
    crew_tell(tree->watch->crew, &tree->notice);
}

static bool tree_write(void *context, struct str bytes)
{
    struct watch_tree *tree = context;
    while (bytes.len > 0) {
        if (!piece_wait(tree))
            return false;
        size_t room = sizeof tree->piece - tree->len;
        size_t n = bytes.len < room ? bytes.len : room;
        memcpy(tree->piece + tree->len, bytes.ptr, n);
        tree->len += n;
        bytes = str_sub(bytes, n, bytes.len);
        if (tree->len == sizeof tree->piece)
            piece_give(tree);
    }
    return true;
}

static void tree_work(struct crew_job *job, struct crew_hand *hand)
{
    struct watch_tree *tree = CONTAINER_OF(job, struct watch_tree, job);
    struct source_tar tar = { tree_write, tree };
    (void)hand;
    struct source *source = source_open(tree->archive.kind, tree->archive.url, tree->archive.branch, &tree->err);
    if (source == NULL)
        return;
    if (source_export_tar(source, (struct source_ident){ tree->rev, tree->ident }, &tar, NULL, &tree->err)) {
        tree->err = (struct err){ 0 };
        if (piece_wait(tree) && tree->len > 0)
            piece_give(tree);
    }
    source_close(source);
}

/* --- on the loop's thread --- */

/* tree_pump: gives what is there to who wants it. The callbacks may ask for more or cancel: those calls come back here
 * or leave a mark. */
static void tree_pump(struct watch_tree *tree)
{
    if (tree->calling)
        return;
    pthread_mutex_lock(&tree->lock);
    bool full = tree->full;
    pthread_mutex_unlock(&tree->lock);
    while (full && tree->wanted && !tree->cancelled) {
        tree->wanted = false;
        tree->calling = true;
        tree->sink.bytes(tree->sink.owner, (struct str){ tree->piece, tree->len });
        tree->calling = false;
        pthread_mutex_lock(&tree->lock);
        tree->len = 0;
        full = tree->full = false;
        pthread_cond_signal(&tree->taken);
        pthread_mutex_unlock(&tree->lock);
    }
    if (!tree->over || (full && !tree->cancelled && tree->err.code == ERR_none))
        return;
    if (!tree->cancelled) {
        tree->calling = true;
        tree->sink.end(tree->sink.owner, &tree->err);
    }
    tree_free(tree);
}

static void tree_told(struct crew_notice *notice)
{
    tree_pump(CONTAINER_OF(notice, struct watch_tree, notice));
}

static void tree_done(struct crew_job *job)
{
    struct watch_tree *tree = CONTAINER_OF(job, struct watch_tree, job);
    tree->over = true;
    tree_pump(tree);
}

struct watch_tree *watch_tree(struct watch *watch, const struct archive *archive, int64_t rev, struct str ident,
    const struct watch_tree_sink *sink, struct err *err)
{
    if (watch->closing || watch->trees.n >= WATCH_TREES_MAX) {
        err_set(err, ERR_unavailable, watch->closing ? "the server is stopping" : "%d trees are being read already",
            WATCH_TREES_MAX);
        return NULL;
    }
    struct watch_tree *tree = mem_alloc_zero(sizeof *tree);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&tree->taken, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&tree->lock, NULL);
    tree->watch = watch;
    tree->archive = (struct archive){ .kind = archive->kind,
        .url = str_dup(&tree->arena, archive->url),
        .branch = str_dup(&tree->arena, archive->branch) };
    tree->rev = rev;
    tree->ident = str_dup(&tree->arena, ident);
    tree->sink = *sink;
    tree->wanted = true;
    tree->notice.told = tree_told;
    tree->job = (struct crew_job){ .work = tree_work, .done = tree_done };
    list_append(&watch->trees, &tree->node);
    crew_add(watch->crew, CREW_TREE, &tree->job);
    return tree;
}

void watch_tree_more(struct watch_tree *tree)
{
    tree->wanted = true;
    tree_pump(tree);
}

static void tree_stop(struct watch_tree *tree)
{
    pthread_mutex_lock(&tree->lock);
    tree->stop = true;
    pthread_cond_signal(&tree->taken);
    pthread_mutex_unlock(&tree->lock);
}

void watch_tree_cancel(struct watch_tree *tree)
{
    tree->cancelled = true;
    tree_stop(tree);
    if (tree->calling)
        return; /* from inside `bytes`: the pump goes on */
    if (tree->over || crew_withdraw(tree->watch->crew, CREW_TREE, &tree->job))
        tree_free(tree);
}

void trees_stop(struct watch *watch)
{
    for (struct list_node *node = watch->trees.first; node != NULL; node = node->next)
        tree_stop(CONTAINER_OF(node, struct watch_tree, node));
}

void trees_release(struct watch *watch, bool all_joined)
{
    while (all_joined && watch->trees.first != NULL)
        tree_free(CONTAINER_OF(watch->trees.first, struct watch_tree, node));
}
