/* wal_file: the WAL as the writer's connection writes it: the frames of a commit in one write.
 *
 * SQLite writes each page of a commit as two pieces, a header of 24 bytes and the page, all of them one behind the
 * other. This file owns a VFS that is SQLite's default one except for the WAL, where pieces that follow each other are
 * gathered in memory and written by one call: before a sync, a read, a truncation or a question for the file's size,
 * and when the next piece belongs elsewhere or doesn't fit. The file system gets the same bytes in the same order
 * before the same sync. No other connection misses gathered bytes: SQLite publishes a commit (in the wal-index) only
 * after it has synced it.
 *
 * A failed write is returned by the call that caused it: a later write of the transaction or the sync of its commit.
 * Both come before the commit is published, so SQLite rolls back as it does when its own write fails. */
#include "store/sqlite/wal_file.h"

#include <pthread.h>
#include <sqlite3.h>
#include <string.h>

#include "base/arena.h"

enum { ALIGN = 16 };

/* In the memory of each open file, after the default VFS's own struct. */
struct gathered {
    const sqlite3_io_methods *file; /* the default VFS's */
    sqlite3_io_methods methods;     /* a copy of them with those of this file put in */
    sqlite3_int64 at;               /* where in the file the gathered bytes belong */
    int n;
    char *bytes;
};

static sqlite3_vfs *default_vfs; /* NULL: SQLite has none */
static sqlite3_vfs writer_vfs;
static int file_bytes; /* of the default VFS's struct for an open file, rounded up to ALIGN */

static struct gathered *gathered_of(sqlite3_file *file)
{
    return (struct gathered *)(void *)((char *)file + file_bytes);
}

static int flush(sqlite3_file *file)
{
    struct gathered *g = gathered_of(file);
    int n = g->n;
    g->n = 0;
    return n ? g->file->xWrite(file, g->bytes, n, g->at) : SQLITE_OK;
}

static int wal_write(sqlite3_file *file, const void *bytes, int n, sqlite3_int64 at)
{
    struct gathered *g = gathered_of(file);
    if (at != g->at + g->n || n > WAL_FILE_GATHERED_MAX - g->n) {
        int rc = flush(file);
        if (rc != SQLITE_OK)
            return rc;
        g->at = at;
    }
    if (n >= WAL_FILE_GATHERED_MAX)
        return g->file->xWrite(file, bytes, n, at);
    memcpy(g->bytes + g->n, bytes, (size_t)n);
    g->n += n;
    return SQLITE_OK;
}

static int wal_read(sqlite3_file *file, void *out, int n, sqlite3_int64 at)
{
    int rc = flush(file);
    return rc != SQLITE_OK ? rc : gathered_of(file)->file->xRead(file, out, n, at);
}

static int wal_sync(sqlite3_file *file, int flags)
{
    int rc = flush(file);
    return rc != SQLITE_OK ? rc : gathered_of(file)->file->xSync(file, flags);
}

static int wal_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    int rc = flush(file);
    return rc != SQLITE_OK ? rc : gathered_of(file)->file->xTruncate(file, size);
}

static int wal_size(sqlite3_file *file, sqlite3_int64 *out)
{
    int rc = flush(file);
    return rc != SQLITE_OK ? rc : gathered_of(file)->file->xFileSize(file, out);
}

static int wal_close(sqlite3_file *file)
{
    mem_free(gathered_of(file)->bytes); /* bytes that weren't synced are of no commit */
    return gathered_of(file)->file->xClose(file);
}

static int vfs_open(sqlite3_vfs *self, const char *name, sqlite3_file *file, int flags, int *out_flags)
{
    int rc = default_vfs->xOpen(default_vfs, name, file, flags, out_flags);
    (void)self;
    if (rc != SQLITE_OK || !(flags & SQLITE_OPEN_WAL))
        return rc;
    if (!(file->pMethods->xDeviceCharacteristics(file) & SQLITE_IOCAP_POWERSAFE_OVERWRITE))
        return rc; /* SQLite pads the last sector with frames that it writes after the sync */
    struct gathered *g = gathered_of(file);
    *g = (struct gathered){
        .file = file->pMethods, .methods = *file->pMethods, .bytes = mem_alloc(WAL_FILE_GATHERED_MAX)
    };
    g->methods.xWrite = wal_write;
    g->methods.xRead = wal_read;
    g->methods.xSync = wal_sync;
    g->methods.xTruncate = wal_truncate;
    g->methods.xFileSize = wal_size;
    g->methods.xClose = wal_close;
    file->pMethods = &g->methods;
    return SQLITE_OK;
}

static void vfs_make(void)
{
    default_vfs = sqlite3_vfs_find(NULL);
    if (!default_vfs)
        return;
    file_bytes = (default_vfs->szOsFile + ALIGN - 1) / ALIGN * ALIGN;
    writer_vfs = *default_vfs;
    writer_vfs.zName = "weir-writer";
    writer_vfs.szOsFile = file_bytes + (int)sizeof(struct gathered);
    writer_vfs.pNext = NULL;
    writer_vfs.xOpen = vfs_open;
    if (sqlite3_vfs_register(&writer_vfs, 0) != SQLITE_OK)
        default_vfs = NULL;
}

const char *wal_file_vfs(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, vfs_make);
    return default_vfs ? writer_vfs.zName : NULL;
}
