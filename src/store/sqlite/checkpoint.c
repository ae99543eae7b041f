/* checkpoint: a thread that copies the WAL's pages into the database while the writer goes on, so that the WAL can be
 * overwritten from its start.
 *
 * Overwriting pays: a sync of overwritten bytes takes half as long as one of a growing file. SQLite restarts the WAL at
 * a write that finds everything copied and no reader in it. Every 16 MiB the thread copies (PASSIVE, which waits for
 * nobody) and syncs on its own connection, twice, because the writer goes on meanwhile; the writer copies the few pages
 * left between two turns. If a reader prevents that, the next attempt comes 16 MiB later; at 256 MiB the writer
 * truncates the WAL (TRUNCATE), waiting a moment for readers. Without commits nothing wakes up. Until it has its first
 * 16 MiB the WAL is extended with zeros, 1 MiB at a time, for the same reason; SQLite takes them for invalid frames, as
 * those of an earlier round.
 *
 * A checkpoint that finds no room or no lock loses nothing (the WAL keeps its pages) and is repeated. An I/O error is
 * remembered: checkpoint_failed reports it to the writer, whose next commit stops the process, because a disk that lost
 * a write can't be trusted. */
#include "store/sqlite/checkpoint.h"

#include <pthread.h>

#include "store/sqlite/wal_file.h"

enum { PASSIVE_BYTES = 16 << 20, TRUNCATE_BYTES = 256 << 20, TRUNCATE_BUSY_MS = 20, PASSES = 2 };
enum { WAL_HEAD_BYTES = 32, FRAME_HEAD_BYTES = 24 };
enum {
    ROOM_BYTES = 256 << 10,
    ROOM_STEP = 1 << 20,
    ROOM_END_MAX = PASSIVE_BYTES + (4 << 20),
    ZEROS = WAL_FILE_GATHERED_MAX, /* written at once, so that no commit fails by them */
};

struct checkpoint {
    struct db db;      /* the thread's */
    struct db *writer; /* the writer's; used on its thread only */
    int64_t page_bytes;
    int64_t wal_bytes, passive_at, truncate_at; /* the writer's thread only */
    int64_t wal_end, room_end; /* of the frames, of the file as far as we made it; the writer's thread only */
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool due, stop;       /* under mutex */
    _Atomic bool nearly;  /* all but what came during the last pass is copied: the rest is the writer's */
    _Atomic int io_error; /* SQLite's code of the first one; 0: none */
};

static void result_note(struct checkpoint *cp, int rc)
{
    if ((rc & 0xff) == SQLITE_IOERR && !cp->io_error)
        cp->io_error = rc;
}

static int wal_grown(void *owner, sqlite3 *conn, const char *name, int pages)
{
    struct checkpoint *cp = owner;
    (void)conn, (void)name;
    int64_t bytes = (int64_t)pages * cp->page_bytes;
    if (bytes < cp->wal_bytes) /* the WAL was restarted */
        cp->passive_at = PASSIVE_BYTES, cp->truncate_at = TRUNCATE_BYTES;
    cp->wal_bytes = bytes;
    cp->wal_end = WAL_HEAD_BYTES + (int64_t)pages * (cp->page_bytes + FRAME_HEAD_BYTES);
    return SQLITE_OK;
}

static void copy_pages(struct checkpoint *cp, struct db *db)
{
    result_note(cp, sqlite3_wal_checkpoint_v2(db->conn, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL));
}

/* What was copied is synced here, so that little is left to sync for the writer, whose pass is the one that ends the
 * WAL. */
static void copy_sync(struct checkpoint *cp)
{
    sqlite3_file *file = NULL;
    if (sqlite3_file_control(cp->db.conn, NULL, SQLITE_FCNTL_FILE_POINTER, &file) == SQLITE_OK && file &&
        file->pMethods)
        result_note(cp, file->pMethods->xSync(file, SQLITE_SYNC_NORMAL));
}

static void *checkpoint_run(void *owner)
{
    struct checkpoint *cp = owner;
    pthread_mutex_lock(&cp->mutex);
    for (;;) {
        while (!cp->due && !cp->stop)
            pthread_cond_wait(&cp->changed, &cp->mutex);
        if (cp->stop)
            break;
        cp->due = false;
        pthread_mutex_unlock(&cp->mutex);
        for (int pass = 0; pass < PASSES; pass++) {
            copy_pages(cp, &cp->db);
            copy_sync(cp);
        }
        cp->nearly = true;
        pthread_mutex_lock(&cp->mutex);
    }
    pthread_mutex_unlock(&cp->mutex);
    return NULL;
}

struct checkpoint *checkpoint_start(const char *path, struct db *writer, struct err *err)
{
    struct checkpoint *cp = mem_alloc(sizeof *cp);
    *cp = (struct checkpoint){ .writer = writer, .passive_at = PASSIVE_BYTES, .truncate_at = TRUNCATE_BYTES };
    if (!db_number(writer, SQL_page_size, &cp->page_bytes, err) ||
        !db_connect(&cp->db, path, SQLITE_OPEN_READWRITE, err))
        goto fail;
    if (!db_exec(&cp->db, SQL_pragma_checkpoint, err))
        goto fail;
    pthread_mutex_init(&cp->mutex, NULL);
    pthread_cond_init(&cp->changed, NULL);
    if (pthread_create(&cp->thread, NULL, checkpoint_run, cp) != 0) {
        pthread_cond_destroy(&cp->changed);
        pthread_mutex_destroy(&cp->mutex);
        err_set(err, ERR_io, "can't start the checkpoint thread");
        goto fail;
    }
    sqlite3_wal_hook(writer->conn, wal_grown, cp);
    return cp;
fail:
    db_close(&cp->db);
    mem_free(cp);
    return NULL;
}

static bool zeros_write(sqlite3_file *file, int64_t from)
{
    static const char zeros[ZEROS];
    bool ok = true;
    for (int64_t at = from; ok && at < from + ROOM_STEP; at += ZEROS)
        ok = file->pMethods->xWrite(file, zeros, ZEROS, at) == SQLITE_OK;
    if (!ok)
        file->pMethods->xTruncate(file, from);
    return ok;
}

/* Zeros behind the frames, synced with the next commit. What goes wrong here costs only time: a disk that is full or
 * broken is met by that commit itself. */
static void room_make(struct checkpoint *cp)
{
    sqlite3_file *file = NULL;
    sqlite3_int64 size = 0;
    if (sqlite3_file_control(cp->writer->conn, NULL, SQLITE_FCNTL_JOURNAL_POINTER, &file) != SQLITE_OK || !file ||
        !file->pMethods || file->pMethods->xFileSize(file, &size) != SQLITE_OK || size < cp->wal_end)
        return;
    cp->room_end = size;
    if (size < cp->wal_end + ROOM_BYTES)
        cp->room_end = zeros_write(file, size) ? size + ROOM_STEP : ROOM_END_MAX; /* the latter: no more of this */
}

void checkpoint_between_turns(struct checkpoint *cp)
{
    if (cp->wal_end + ROOM_BYTES > cp->room_end && cp->room_end < ROOM_END_MAX)
        room_make(cp);
    if (cp->wal_bytes >= cp->truncate_at) {
        sqlite3_busy_timeout(cp->writer->conn, TRUNCATE_BUSY_MS);
        int rc = sqlite3_wal_checkpoint_v2(cp->writer->conn, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
        sqlite3_busy_timeout(cp->writer->conn, DB_BUSY_MS);
        result_note(cp, rc);
        if (rc == SQLITE_OK)
            cp->wal_bytes = cp->wal_end = cp->room_end = 0, cp->passive_at = PASSIVE_BYTES,
            cp->truncate_at = TRUNCATE_BYTES;
        else
            cp->truncate_at = cp->wal_bytes + PASSIVE_BYTES;
    } else if (cp->nearly) {
        cp->nearly = false;
        copy_pages(cp, cp->writer);
    } else if (cp->wal_bytes >= cp->passive_at) {
        cp->passive_at = cp->wal_bytes + PASSIVE_BYTES;
        pthread_mutex_lock(&cp->mutex);
        cp->due = true;
        pthread_cond_signal(&cp->changed);
        pthread_mutex_unlock(&cp->mutex);
    }
}

int checkpoint_failed(const struct checkpoint *cp)
{
    return cp->io_error;
}

void checkpoint_stop(struct checkpoint *cp)
{
    if (!cp)
        return;
    pthread_mutex_lock(&cp->mutex);
    cp->stop = true;
    pthread_cond_signal(&cp->changed);
    pthread_mutex_unlock(&cp->mutex);
    pthread_join(cp->thread, NULL);
    pthread_cond_destroy(&cp->changed);
    pthread_mutex_destroy(&cp->mutex);
    sqlite3_wal_hook(cp->writer->conn, NULL, NULL);
    db_close(&cp->db);
    mem_free(cp);
}
