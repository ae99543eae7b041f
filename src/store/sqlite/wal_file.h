/* wal_file: a VFS for the writer's connection, which writes the frames of a commit to the WAL by one call. */
#ifndef WEIR_STORE_SQLITE_WAL_FILE_H
#define WEIR_STORE_SQLITE_WAL_FILE_H

enum { WAL_FILE_GATHERED_MAX = 64 << 10 }; /* a single write of as many bytes or more isn't held back */

/* wal_file_vfs: its name for sqlite3_open_v2; starts SQLite. NULL, which stands for SQLite's default VFS: it could not
 * be registered. Only for connections with synchronous = FULL: another connection would see a commit that wasn't synced
 * before the file has its bytes. */
const char *wal_file_vfs(void);

#endif
