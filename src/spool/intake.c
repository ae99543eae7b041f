/* intake: see intake.h. */
#include "spool/intake.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "io/clock.h"
#include "io/fsx.h"
#include "text/json.h"
#include "unpack/walk.h"

enum { CSID_RANDOM_BYTES = 5, BODY_BYTES_SLACK = 4096 };
enum { ENTRY_BYTES = 8 * 512, PADDING_BYTES = 2 << 20 }; /* of a tar archive: headers around a name; zeros at its end */

/* --- files in tmp/ --- */

/* temp_remove: a file, or a folder with all in it; what stays costs its bytes. */
static void temp_remove(int dir_fd, const char *name)
{
    struct err ignored = { .code = ERR_none };
    if (unlinkat(dir_fd, name, 0) == 0 || errno == ENOENT)
        return;
    int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return;
    (void)walk_remove(fd, &ignored);
    close(fd);
    (void)unlinkat(dir_fd, name, AT_REMOVEDIR);
}

bool intake_temp_open(const char *dir, struct err *err)
{
    if (!fsx_make_dirs(dir, 0700, err))
        return false;
    DIR *folder = fsx_folder(AT_FDCWD, dir);
    if (folder == NULL)
        return err_set(err, ERR_io, "can't read %.300s: %s", dir, strerrordesc_np(errno));
    for (struct dirent *entry; (entry = fsx_entry(folder)) != NULL;)
        if (strncmp(entry->d_name, INTAKE_TEMP_PREFIX, sizeof INTAKE_TEMP_PREFIX - 1) == 0)
            temp_remove(dirfd(folder), entry->d_name);
    closedir(folder);
    return true;
}

int intake_temp_file(const char *dir, struct err *err)
{
    int fd = open(dir, O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
    if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)) {
        char path[4096];
        int n = snprintf(path, sizeof path, "%s/" INTAKE_TEMP_PREFIX "XXXXXX", dir);
        fd = n > 0 && (size_t)n < sizeof path ? mkostemp(path, O_CLOEXEC) : -1;
        if (fd >= 0)
            (void)unlink(path); /* else the next start does */
    }
    if (fd < 0) {
        bool full = errno == ENOSPC || errno == EDQUOT;
        err_set(err, full ? ERR_disk_full : ERR_io, "no file for the tarball: %s", strerrordesc_np(errno));
    }
    return fd;
}

uint64_t intake_tarball_bytes_max(const struct changeset_limits *limits)
{
    /* files and as many folders, each with its headers; compression makes nothing longer that is worth counting */
    uint64_t entries = 2 * (uint64_t)limits->files + 2;
    return limits->unpacked_bytes + limits->meta_bytes + entries * (ENTRY_BYTES + (uint64_t)limits->path_bytes) +
           PADDING_BYTES;
}

/* --- names --- */

/* csid_make: the moment, so that people can read it, and enough chance that no other server makes the same. */
static struct str csid_make(struct arena *arena, int64_t now_ns)
{
    unsigned char bytes[CSID_RANDOM_BYTES];
    time_t seconds = (time_t)(now_ns / 1000000000);
    struct tm tm = { 0 };
    gmtime_r(&seconds, &tm);
    clock_entropy(bytes, sizeof bytes);
    return str_fmt(arena, "c%04d%02d%02d-%02d%02d%02d-%02x%02x%02x%02x%02x", (tm.tm_year + 1900) % 10000,
        (tm.tm_mon + 1) % 100, tm.tm_mday % 100, tm.tm_hour % 100, tm.tm_min % 100, tm.tm_sec % 100, bytes[0], bytes[1],
        bytes[2], bytes[3], bytes[4]);
}

/* name_read: of the spool's entry; what is wrong with it is found before the tarball is looked at. */
static bool name_read(const struct intake_order *order, struct changeset_name *out, struct err *err)
{
    return changeset_name_parse(order->name, out, err) && changeset_name_check_time(out, order->now_ns, err);
}

static struct changeset_name name_make(const struct intake_order *order, struct arena *arena, enum movetype movetype)
{
    struct str host = str_of(order->host != NULL ? order->host : "");
    return (struct changeset_name){ .csid = csid_make(arena, order->now_ns),
        .tai = tai64n_from_ns(order->now_ns),
        .pid = getpid(),
        .host = changeset_name_part(arena, host, CHANGESET_HOST_CHARS_MAX),
        .movetype = movetype,
        .extra = changeset_name_part(arena, order->actor.name, CHANGESET_EXTRA_CHARS_MAX) };
}

static struct str name_text(struct arena *arena, const struct changeset_name *name)
{
    struct buf text;
    buf_init(&text, CHANGESET_NAME_BYTES_MAX);
    changeset_name_format(&text, name);
    struct str kept = str_dup(arena, buf_str(&text));
    buf_release(&text);
    return kept;
}

/* --- the definition --- */

static struct str lines_join(struct arena *arena, const struct meta_lines *lines)
{
    size_t n = 0;
    for (size_t i = 0; i < lines->n; i++)
        n += lines->at[i].text.len + 1;
    char *text = arena_alloc(arena, n + 1), *at = text;
    for (size_t i = 0; i < lines->n; i++) {
        if (i > 0)
            *at++ = CHANGESET_JOINT;
        memcpy(at, lines->at[i].text.ptr, lines->at[i].text.len);
        at += lines->at[i].text.len;
    }
    return (struct str){ text, (size_t)(at - text) };
}

static struct str *lines_list(struct arena *arena, const struct meta_lines *lines)
{
    struct str *list = ARENA_ARRAY(arena, struct str, lines->n + 1);
    for (size_t i = 0; i < lines->n; i++)
        list[i] = str_dup(arena, lines->at[i].text);
    return list;
}

/* body_make: what the executor needs, and what nobody looks for in a row; members that are empty are left out. */
static struct str body_make(struct arena *arena, const struct intake *intake, const struct unpack_result *tarball)
{
    const struct changeset_meta *meta = &intake->content.meta;
    struct buf text;
    buf_init(&text, SIZE_MAX);
    struct json json = json_to(&text);
    json_object_begin(&json);
    if (meta->message.len > 0)
        json_put_str(&json, "message", meta->message);
    if (meta->movetype != MOVE_RB && meta->dependencies.n > 0) {
        json_key(&json, "depends");
        json_array_begin(&json);
        for (size_t i = 0; i < meta->dependencies.n; i++)
            json_str(&json, meta->dependencies.at[i].text);
        json_array_end(&json);
    }
    if (meta->base.len > 0)
        json_put_str(&json, "base", meta->base);
    if (tarball != NULL) {
        char hex[2 * UNPACK_HASH_BYTES + 1];
        for (size_t i = 0; i < UNPACK_HASH_BYTES; i++)
            snprintf(hex + 2 * i, 3, "%02x", tarball->sha256[i]);
        json_put_z(&json, "sha256", hex);
        json_put_i64(&json, "tarball_bytes", (int64_t)tarball->tarball_bytes);
    }
    json_object_end(&json);
    struct str body = str_dup(arena, buf_str(&text));
    buf_release(&text);
    return body;
}

static bool def_fill(const struct intake_order *order, const struct changeset_name *name, struct arena *arena,
    const struct unpack_result *tarball, struct intake *out, struct err *err)
{
    const struct changeset_meta *meta = &out->content.meta;
    int64_t tai = 0;
    if (!tai64n_to_ns(name->tai, &tai))
        return err_item(err, ERR_invalid, STR("name"), "the label of the name is no moment that can be kept");
    out->def = (struct changeset_def){ .target = str_dup(arena, meta->target),
        .csid = str_dup(arena, name->csid),
        .name = name_text(arena, name),
        .movetype = meta->movetype,
        .prio = changeset_priority(name),
        .tai = tai,
        .files = lines_join(arena, &meta->files),
        .removed = lines_join(arena, &meta->removed),
        .depends = lines_list(arena, &meta->dependencies),
        .n_depends = meta->dependencies.n,
        .precursors = lines_list(arena, &meta->precursors),
        .n_precursors = meta->precursors.n,
        .submitter = str_dup(arena, order->actor.name),
        .ticket = str_dup(arena, meta->approval),
        .body = body_make(arena, out, tarball),
        .overlapping = meta->overlapping,
        .again = order->again };
    if (tarball != NULL) {
        memcpy(out->def.hash, tarball->sha256, sizeof out->def.hash);
        out->def.bytes = (int64_t)tarball->tarball_bytes;
    }
    return true;
}

/* --- both ways in --- */

static bool tarball_sync(int fd, struct err *err)
{
    struct stat st;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        return err_set(err, ERR_io, "the tarball isn't a regular file");
    if (st.st_size == 0)
        return err_set(err, ERR_bad_request, "the tarball is empty");
    if (fsync(fd) == 0)
        return true;
    bool full = errno == ENOSPC || errno == EDQUOT;
    return err_set(err, full ? ERR_disk_full : ERR_io, "the tarball can't be stored: %s", strerrordesc_np(errno));
}

bool intake_read(const struct intake_order *order, struct arena *arena, struct intake *out, struct err *err)
{
    struct changeset_name name;
    bool named = order->name.len > 0;
    *out = (struct intake){ 0 };
    if ((named && !name_read(order, &name, err)) || !tarball_sync(order->tarball_fd, err))
        return false;
    const struct unpack_order check = { .tarball_fd = order->tarball_fd,
        .limits = order->limits,
        .csid = named ? name.csid : (struct str){ 0 },
        .name = named ? &name : NULL,
        .program = order->program };
    if (!unpack_check(&check, arena, &out->content, err))
        return false;
    if (!named)
        name = name_make(order, arena, out->content.meta.movetype);
    if (!def_fill(order, &name, arena, &out->content, out, err))
        return false;
    const struct blob_source source = { order->tarball_fd, order->is_own, out->content.sha256 };
    return order->blobs == NULL || blobs_keep(order->blobs, &source, &out->hold, err);
}

void intake_settle(struct blobs *blobs, const struct intake *intake, bool accepted)
{
    blobs_settle(blobs, &intake->hold, accepted);
}

bool intake_meta(
    const struct intake_order *order, struct str meta, struct arena *arena, struct intake *out, struct err *err)
{
    struct changeset_name name;
    struct diags diags = { .arena = arena };
    bool named = order->name.len > 0;
    *out = (struct intake){ 0 };
    if (named && !name_read(order, &name, err))
        return false;
    if (changeset_meta_read(meta, order->limits, arena, &diags, &out->content.meta)) {
        struct str csid = named ? name.csid : (struct str){ 0 };
        changeset_meta_check(&out->content.meta, csid, named ? &name : NULL, &diags);
    }
    if (!changeset_meta_refuse(&out->content.meta, &diags, err))
        return false;
    if (out->content.meta.movetype != MOVE_RB)
        return err_item(err, ERR_invalid, STR("movetype"), "only a rollback has no tarball");
    if (!named)
        name = name_make(order, arena, MOVE_RB);
    return def_fill(order, &name, arena, NULL, out, err);
}
