/* sink: the checks that every tree passes on its way out, whatever it comes from.
 *
 * Promises that no backend of a sink ever sees a path with an empty part, ".", "..", ".git" in any case, or more than
 * SOURCE_DEPTH_MAX folders, and that limits hold before bytes are written.
 *
 * Fails with invalid, body_too_large, unavailable. */
#include "source/sink.h"

#include <limits.h>
#include <string.h>
#include <strings.h>

#define PATH_SHOWN_MAX 200

static struct str path_shown(struct str path)
{
    return str_sub(path, 0, PATH_SHOWN_MAX);
}

static bool name_is_good(struct str name)
{
    if (name.len == 0 || name.len > NAME_MAX || str_eqz(name, ".") || str_eqz(name, "..") || str_index(name, '\0') >= 0)
        return false;
    return name.len != 4 || strncasecmp(name.ptr, ".git", 4) != 0;
}

static bool path_check(struct str path, struct err *err)
{
    size_t depth = 0;
    struct str shown = path_shown(path);
    if (path.len == 0 || path.len >= PATH_MAX || path.ptr[path.len - 1] == '/')
        return err_set(err, ERR_invalid, "%.*s: a path in the repository is empty or too long", STR_ARG(shown));
    for (struct str rest = path, name; str_cut(&rest, '/', &name);)
        if (!name_is_good(name))
            return err_set(err, ERR_invalid,
                "%.*s: the repository has a name that can't be checked out (empty, '.', '..', '.git', a NUL, or over "
                "%d bytes); "
                "rename it there, or use checkout: false",
                STR_ARG(shown), NAME_MAX);
        else if (++depth > SOURCE_DEPTH_MAX)
            return err_set(
                err, ERR_invalid, "%.*s...: more than %d folders within each other", STR_ARG(shown), SOURCE_DEPTH_MAX);
    return true;
}

/* entry_check: the path, and one entry more of the limit. */
static bool entry_check(struct sink *sink, struct str path, struct err *err)
{
    uint64_t max = sink->options != NULL && sink->options->files_max > 0 ? sink->options->files_max : SOURCE_FILES_MAX;
    if (!path_check(path, err))
        return false;
    return ++sink->entries <= max ||
           err_set(err, ERR_body_too_large, "the tree has more than %llu files", (unsigned long long)max);
}

static bool progress_tell(struct sink *sink, struct err *err)
{
    if (sink->options == NULL || sink->options->progress == NULL ||
        sink->options->progress(sink->options->context, &sink->done))
        return true;
    return err_set(err, ERR_unavailable, "the export was stopped");
}

bool sink_folder(struct sink *sink, struct str path, struct err *err)
{
    return entry_check(sink, path, err) && sink->ops->folder(sink, path, err);
}

bool sink_file(struct sink *sink, struct str path, uint64_t bytes, bool executable, struct err *err)
{
    uint64_t max = sink->options != NULL && sink->options->bytes_max > 0 ? sink->options->bytes_max : SOURCE_BYTES_MAX;
    struct str shown = path_shown(path);
    if (!entry_check(sink, path, err))
        return false;
    if (bytes > max || sink->done.bytes > max - bytes)
        return err_set(err, ERR_body_too_large, "%.*s: with it the tree has more than %llu bytes", STR_ARG(shown),
            (unsigned long long)max);
    sink->left = bytes;
    return sink->ops->file(sink, path, bytes, executable, err);
}

bool sink_write(struct sink *sink, struct str bytes, struct err *err)
{
    if (bytes.len > sink->left)
        return err_set(
            err, ERR_corrupt, "a file in the repository is longer than the repository says; verify the repository");
    sink->left -= bytes.len;
    sink->done.bytes += bytes.len;
    return bytes.len == 0 || (sink->ops->write)(sink, bytes, err);
}

bool sink_end(struct sink *sink, struct err *err)
{
    if (sink->left > 0)
        return err_set(
            err, ERR_corrupt, "a file in the repository is shorter than the repository says; verify the repository");
    sink->done.files++;
    return sink->ops->end(sink, err) && progress_tell(sink, err);
}

bool sink_link(struct sink *sink, struct str path, struct str target, struct err *err)
{
    struct str shown = path_shown(path);
    if (!entry_check(sink, path, err))
        return false;
    if (target.len == 0 || target.len >= PATH_MAX || str_index(target, '\0') >= 0)
        return err_set(err, ERR_invalid,
            "%.*s: a symbolic link that leads nowhere (its target is empty, too long or has a NUL)", STR_ARG(shown));
    sink->done.files++;
    return sink->ops->link(sink, path, target, err) && progress_tell(sink, err);
}

bool sink_remove(struct sink *sink, struct str path, struct err *err)
{
    if (!path_check(path, err))
        return false;
    sink->done.removed++;
    return sink->ops->remove(sink, path, err) && progress_tell(sink, err);
}
