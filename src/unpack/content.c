/* content: the entries of a change set's tarball, counted, checked, reported and written. See content.h.
 *
 * Owns the limits on bytes, files and folders. It promises that nothing is written or reported of an entry that is
 * refused, and that limits are checked by what a header announces, before any byte of it is taken. */
#include "unpack/content.h"

void content_init(struct content *content, const struct changeset_limits *limits, struct arena *arena)
{
    *content = (struct content){ .limits = limits, .arena = arena };
    buf_init(&content->meta, (size_t)limits->meta_bytes);
}

void content_release(struct content *content)
{
    buf_release(&content->meta);
}

static bool path_check(struct content *content, struct str path, struct err *err)
{
    enum path_fault fault = changeset_path_check(path, content->limits);
    if (fault == PATH_GOOD)
        return true;
    struct str sentence = path_fault_sentence(content->arena, fault, content->limits);
    return err_set(
        err, path_fault_is_limit(fault) ? ERR_body_too_large : ERR_invalid, "its path %.*s", STR_ARG(sentence));
}

static bool meta_begin(struct content *content, const struct tar_entry *entry, struct err *err)
{
    if (entry->is_folder)
        return err_set(err, ERR_invalid, "a folder, but meta is a file");
    if (content->has_meta)
        return err_set(err, ERR_invalid, "it stands in the tarball twice");
    if (entry->size > content->limits->meta_bytes)
        return err_set(err, ERR_body_too_large, "longer than %llu bytes (changesets.limits.meta)",
            (unsigned long long)content->limits->meta_bytes);
    content->has_meta = content->in_meta = true;
    return true;
}

static bool file_begin(struct content *content, const struct tar_entry *entry, struct str path, struct err *err)
{
    if (content->n_files >= content->limits->files)
        return err_set(err, ERR_body_too_large, "more than %lld files (changesets.limits.files)",
            (long long)content->limits->files);
    if (entry->size > content->limits->unpacked_bytes - content->n_bytes)
        return err_set(err, ERR_body_too_large, "more than %llu bytes in all files (changesets.limits.unpacked)",
            (unsigned long long)content->limits->unpacked_bytes);
    content->n_files++;
    content->n_bytes += entry->size;
    content->in_file = true;
    if (content->tree != NULL && !tree_file_open(content->tree, entry->path, entry->is_executable, err))
        return false;
    return content->report(
        content->owner, &(struct report){ REPORT_FILE, entry->size, entry->is_executable, path, { 0 } }, err);
}

static bool folder_begin(struct content *content, const struct tar_entry *entry, struct str path, struct err *err)
{
    if (content->n_folders >= content->limits->files)
        return err_set(err, ERR_body_too_large, "more than %lld folders (changesets.limits.files)",
            (long long)content->limits->files);
    content->n_folders++;
    if (content->tree != NULL && !tree_folder_make(content->tree, entry->path, err))
        return false;
    return path.len == 0 || content->report(content->owner, &(struct report){ REPORT_FOLDER, 0, 0, path, { 0 } }, err);
}

static bool content_begin(void *owner, const struct tar_entry *entry, struct err *err)
{
    struct content *content = owner;
    struct str path = entry->path;
    content->in_meta = content->in_file = false;
    if (str_eq(path, STR("meta")))
        return meta_begin(content, entry, err);
    if (str_eq(path, STR("lroot")) && entry->is_folder)
        return folder_begin(content, entry, (struct str){ 0 }, err);
    if (!str_starts(path, STR("lroot/"))) {
        if (!path_check(content, path, err))
            return false;
        return err_set(err, ERR_invalid, "only meta, and files and folders below lroot/, may be in the tarball");
    }
    path = str_sub(path, 6, path.len);
    if (!path_check(content, path, err))
        return false;
    return entry->is_folder ? folder_begin(content, entry, path, err) : file_begin(content, entry, path, err);
}

static bool content_bytes(void *owner, struct str bytes, struct err *err)
{
    struct content *content = owner;
    if (content->in_meta)
        buf_add_str(&content->meta, bytes); /* never more than its size, which was checked */
    else if (content->tree != NULL)
        return tree_write(content->tree, bytes, err);
    return true;
}

static bool content_entry_end(void *owner, struct err *err)
{
    struct content *content = owner;
    if (content->in_file && content->tree != NULL)
        return tree_file_close(content->tree, err);
    if (!content->in_meta)
        return true;
    ASSERT(!content->meta.full);
    struct str meta = buf_str(&content->meta);
    if (content->tree != NULL &&
        (!tree_file_open(content->tree, STR("meta"), false, err) ||
            (meta.len > 0 && !tree_write(content->tree, meta, err)) || !tree_file_close(content->tree, err)))
        return false;
    return content->report(content->owner, &(struct report){ REPORT_META, 0, 0, { 0 }, meta }, err);
}

struct tar_events content_events(struct content *content)
{
    return (struct tar_events){ content_begin, content_bytes, content_entry_end, content };
}

bool content_end(struct content *content, struct err *err)
{
    return content->has_meta || err_set(err, ERR_invalid, "there is no file meta in the tarball");
}
