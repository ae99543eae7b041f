/* sink_tar: the tree of a revision as a tar (text/tar_writer), with the time of the revision.
 *
 * Fails with unavailable when the one who takes the bytes says stop. */
#include "source/sink.h"

static struct tar_writer *tar_of(struct sink *sink)
{
    struct sink_tar *tar = (struct sink_tar *)sink; /* its first member */
    tar->writer.time_ms = sink->time_ms;            /* known once the walk has begun */
    return &tar->writer;
}

static bool tar_went(bool good, struct err *err)
{
    return good || err_set(err, ERR_unavailable, "the export was stopped");
}

static bool tar_folder(struct sink *sink, struct str path, struct err *err)
{
    return tar_went(tar_writer_folder(tar_of(sink), path), err);
}

static bool tar_file(struct sink *sink, struct str path, uint64_t bytes, bool executable, struct err *err)
{
    return tar_went(tar_writer_file(tar_of(sink), path, bytes, executable), err);
}

static bool tar_write(struct sink *sink, struct str bytes, struct err *err)
{
    return tar_went(tar_writer_write(tar_of(sink), bytes), err);
}

static bool tar_end(struct sink *sink, struct err *err)
{
    return tar_went(tar_writer_end(tar_of(sink)), err);
}

static bool tar_link(struct sink *sink, struct str path, struct str target, struct err *err)
{
    return tar_went(tar_writer_link(tar_of(sink), path, target), err);
}

static bool tar_remove(struct sink *sink, struct str path, struct err *err)
{
    (void)sink;
    (void)path;
    return err_set(err, ERR_internal, "nothing can be removed from a tar");
}

static const struct sink_ops tar_ops = {
    .folder = tar_folder,
    .file = tar_file,
    .write = tar_write,
    .end = tar_end,
    .link = tar_link,
    .remove = tar_remove,
};

void sink_tar_init(struct sink_tar *tar, const struct source_tar *out, const struct source_export_options *options)
{
    *tar = (struct sink_tar){ .sink = { .ops = &tar_ops, .options = options } };
    tar_writer_init(&tar->writer, out->write, out->context);
}

bool sink_tar_finish(struct sink_tar *tar, struct err *err)
{
    return tar_went(tar_writer_finish(&tar->writer), err);
}

void sink_tar_release(struct sink_tar *tar)
{
    tar_writer_release(&tar->writer);
}
