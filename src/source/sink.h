/* sink: where the tree of a revision goes: a folder, or a tar.
 *
 * Private to the room. The sink_ functions check the path (relative, no "." or "..", no ".git") and the limits of the
 * export before they call the sink's backend, and report progress afterwards. Paths are raw bytes, as the repository
 * has them.
 *
 * Fails with invalid (names), body_too_large (limits), unavailable (progress asked to stop), and as the backend
 * does. */
#ifndef WEIR_SOURCE_SINK_H
#define WEIR_SOURCE_SINK_H

#include "base/buf.h"
#include "source/source.h"
#include "text/tar_writer.h"

struct sink;

struct sink_ops {
    bool (*folder)(struct sink *sink, struct str path, struct err *err);
    bool (*file)(struct sink *sink, struct str path, uint64_t bytes, bool executable, struct err *err);
    bool (*write)(struct sink *sink, struct str bytes, struct err *err);
    bool (*end)(struct sink *sink, struct err *err); /* of the file */
    bool (*link)(struct sink *sink, struct str path, struct str target, struct err *err);
    bool (*remove)(struct sink *sink, struct str path, struct err *err);
};

struct sink {
    const struct sink_ops *ops;
    const struct source_export_options *options; /* may be NULL */
    int64_t time_ms;                             /* of the revision; set by the backend that walks */
    struct source_progress done;
    uint64_t entries; /* files, links and folders: all count against files_max */
    uint64_t left;    /* bytes of the file that is being written */
};

bool sink_folder(struct sink *sink, struct str path, struct err *err);
bool sink_file(struct sink *sink, struct str path, uint64_t bytes, bool executable, struct err *err);
bool sink_write(struct sink *sink, struct str bytes, struct err *err); /* in all exactly the bytes given to sink_file */
bool sink_end(struct sink *sink, struct err *err);
bool sink_link(struct sink *sink, struct str path, struct str target, struct err *err);
bool sink_remove(struct sink *sink, struct str path, struct err *err); /* a file, link, or folder with all in it */

/* A folder. With `replace`, what is in the way of a file or link is removed first; else it must not be there. */
struct sink_dir {
    struct sink sink;
    int root;
    bool replace;
    int parent;             /* the folder of the last path, or -1 */
    struct buf parent_path; /* its path */
    int file;               /* being written, or -1 */
    struct buf file_path;
};
void sink_dir_init(struct sink_dir *dir, int root_fd, bool replace, const struct source_export_options *options);
void sink_dir_release(struct sink_dir *dir);

/* A tar. */
struct sink_tar {
    struct sink sink;
    struct tar_writer writer;
};
void sink_tar_init(struct sink_tar *tar, const struct source_tar *out, const struct source_export_options *options);
bool sink_tar_finish(struct sink_tar *tar, struct err *err); /* the end mark */
void sink_tar_release(struct sink_tar *tar);

#endif
