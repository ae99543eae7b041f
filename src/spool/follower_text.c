/* follower_text: see follower_text.h. */
#include "spool/follower_text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "io/fsx.h"
#include "io/log.h"
#include "store/blobs/blobs.h"
#include "unpack/unpack.h"

enum { PIECE_BYTES = 256 * 1024, UNPACK_MS = 20000, NS_PER_MS = 1000000 };

#define TARBALL_TMP ".tarball"

static bool hash_is_none(const uint8_t hash[32])
{
    static const uint8_t none[32];
    return memcmp(hash, none, sizeof none) == 0;
}

/* --- data/ --- */

static void hex_of(const uint8_t hash[32], char out[BLOB_HEX + 1])
{
    for (size_t i = 0; i < 32; i++)
        snprintf(out + 2 * i, 3, "%02x", hash[i]);
}

/* blob_copy: into a new file of that name in tmp/, open for reading. -1: err; *out_found false: there is no blob. */
static int blob_copy(struct follower *follower, const char *hex, const char *tmp_name, bool *out_found, struct err *err)
{
    int tmp = follower->folders->fds[FOLDER_TMP];
    struct blob blob;
    struct buf piece;
    *out_found = follower->blobs != NULL && blobs_find(follower->blobs, str_of(hex), &blob, err);
    if (!*out_found) {
        if (err->code == ERR_not_found)
            err->code = ERR_none;
        return -1;
    }
    (void)unlinkat(tmp, tmp_name, 0);
    int fd = openat(tmp, tmp_name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    bool good = fd >= 0 || spool_fault(follower->folders, FOLDER_TMP, tmp_name, err);
    buf_init(&piece, PIECE_BYTES);
    for (int64_t at = 0; good && at < blob.bytes; at += (int64_t)piece.len) {
        buf_reset(&piece);
        good = blobs_read(follower->blobs, hex, at, PIECE_BYTES, &piece, err);
        if (good && piece.len == 0)
            good = err_set(err, ERR_corrupt, "the tarball %s is shorter than it was", hex);
        if (good && (errno = fsx_write_all(fd, buf_str(&piece))) != 0)
            good = spool_fault(follower->folders, FOLDER_TMP, tmp_name, err);
    }
    buf_release(&piece);
    if (!good) {
        fsx_close(fd);
        (void)unlinkat(tmp, tmp_name, 0);
        return -1;
    }
    return fd;
}

static void tmp_name_of(struct follower *follower, const struct job_known *known, const char **out)
{
    *out = str_dupz(
        &follower->arena, str_fmt(&follower->arena, "%.*s" TARBALL_TMP, (int)CHANGESET_NAME_BYTES_MAX, known->name));
}

static bool tarball_write(struct follower *follower, const struct job_known *known, struct err *err)
{
    char hex[BLOB_HEX + 1];
    const char *tmp_name;
    bool found = false;
    hex_of(known->row.hash, hex);
    tmp_name_of(follower, known, &tmp_name);
    int fd = blob_copy(follower, hex, tmp_name, &found, err);
    if (fd < 0)
        return err->code == ERR_none;
    close(fd);
    return entry_rename(follower->folders, FOLDER_TMP, tmp_name, FOLDER_DATA, known->name, true) == 0 ||
           spool_fault(follower->folders, FOLDER_DATA, known->name, err);
}

bool follower_tarball(struct follower *follower, const struct job_known *known, struct err *err)
{
    int data = follower->folders->fds[FOLDER_DATA];
    struct stat st;
    bool there = fstatat(data, known->name, &st, AT_SYMLINK_NOFOLLOW) == 0;
    const char *why = there ? entry_fault(&st, true) : NULL;
    if (hash_is_none(known->row.hash))
        return true;
    if (why != NULL && !corrupt_move(follower->folders, FOLDER_DATA, known->name, str_of(why), err))
        return false;
    if (why != NULL)
        there = false;
    if (!state_ended(known->task.state))
        return there || tarball_write(follower, known, err);
    return !there || unlinkat(data, known->name, 0) == 0 || errno == ENOENT ||
           spool_fault(follower->folders, FOLDER_DATA, known->name, err);
}

/* --- meta --- */

/* The sum over all paths: equal for equal sets of paths, in any order. */
static uint64_t lines_sum(const struct meta_lines *lines)
{
    uint64_t sum = lines->n;
    for (size_t i = 0; i < lines->n; i++)
        sum += str_hash(lines->at[i].text);
    return sum;
}

static uint64_t joined_sum(struct str joined)
{
    uint64_t sum = 0;
    struct str path;
    while (str_cut(&joined, CHANGESET_JOINT, &path))
        sum += str_hash(path) + 1;
    return sum;
}

static bool meta_fits(struct follower *follower, const struct job_known *known, struct str text)
{
    struct changeset_limits limits = follower->limits;
    struct changeset_meta meta;
    struct diags diags = { .arena = &follower->arena };
    limits.meta_bytes += JOB_EXTRA_BYTES;
    return changeset_meta_read(text, &limits, &follower->arena, &diags, &meta) &&
           meta.movetype == known->row.movetype && str_eq(meta.target, known->target) &&
           (meta.csid.len == 0 || str_eq(meta.csid, known->row.csid)) &&
           lines_sum(&meta.files) == joined_sum(known->row.files) &&
           lines_sum(&meta.removed) == joined_sum(known->row.removed);
}

/* untouched: its time of change is that of an event of the change set, as job_put sets it. */
static bool untouched(const struct job_known *known, const struct stat *st)
{
    int64_t ms = (int64_t)st->st_mtim.tv_sec * 1000 + st->st_mtim.tv_nsec / NS_PER_MS;
    for (size_t i = 0; i < known->facts.n_events; i++)
        if (known->facts.events[i].time == ms && st->st_mtim.tv_nsec % NS_PER_MS == 0)
            return true;
    return false;
}

static bool meta_standing(
    struct follower *follower, const struct job_known *known, const struct job_place *place, struct str *out)
{
    size_t n = 0, limit = (size_t)follower->limits.meta_bytes + JOB_EXTRA_BYTES;
    struct stat st;
    const char *why;
    if (!place->is_there || (place->folder != FOLDER_PREQUEUE && !untouched(known, &place->st)))
        return false;
    char *bytes = entry_read(follower->folders, place->folder, known->name, limit, &n, &st, &why);
    bool fits = bytes != NULL && n > 0;
    if (fits) {
        *out = str_dup(&follower->arena, (struct str){ bytes, n });
        fits = meta_fits(follower, known, *out);
    }
    mem_free(bytes);
    return fits;
}

/* meta_unpacked: false: there is no tarball, or it can't be read now. */
static bool meta_unpacked(struct follower *follower, const struct job_known *known, struct str *out, struct err *err)
{
    const char *tmp_name;
    char hex[BLOB_HEX + 1];
    bool found = false;
    struct unpack_result result;
    if (hash_is_none(known->row.hash))
        return false;
    hex_of(known->row.hash, hex);
    tmp_name_of(follower, known, &tmp_name);
    int fd = blob_copy(follower, hex, tmp_name, &found, err);
    if (fd < 0)
        return false;
    (void)unlinkat(follower->folders->fds[FOLDER_TMP], tmp_name, 0);
    const struct unpack_order order = { .tarball_fd = fd,
        .limits = &follower->limits,
        .sha256 = known->row.hash,
        .timeout_ms = UNPACK_MS,
        .program = follower->unpacker };
    err->arena = &follower->arena;
    bool good = unpack_check(&order, &follower->arena, &result, err);
    close(fd);
    if (good) {
        *out = result.meta.file->text;
        return true;
    }
    log_warn("spool.tarball", "csid=%.*s error=%s note=\"its meta is made of what the store knows\"",
        STR_ARG(known->row.csid), log_quote(str_of(err->text)).z);
    *err = (struct err){ 0 };
    return false;
}

static void section_add(struct buf *out, enum meta_kind kind, struct str joined)
{
    struct str line;
    if (joined.len == 0)
        return;
    buf_addf(out, "##%.*s\n", STR_ARG(meta_kind_name(kind)));
    while (str_cut(&joined, CHANGESET_JOINT, &line))
        buf_addf(out, "%.*s\n", STR_ARG(line));
}

static bool named_add(struct follower *follower, const int64_t *tasks, size_t n, struct buf *out, struct err *err)
{
    for (size_t i = 0; i < n; i++) {
        struct task row;
        bool found = false;
        if (!reader_row(follower->reader, &follower->arena, tasks[i], &row, &found, err))
            return false;
        if (found)
            buf_addf(out, "%.*s\n", STR_ARG(row.name));
    }
    return true;
}

/* meta_made: what the row says, for a rollback that came as a call, and where no tarball is kept any more. */
static bool meta_made(struct follower *follower, const struct job_known *known, struct str *out, struct err *err)
{
    const struct changeset *row = &known->row;
    struct edge_view *edges;
    struct buf text, depends;
    size_t n = 0;
    buf_init(&text, (size_t)follower->limits.meta_bytes + JOB_EXTRA_BYTES);
    buf_init(&depends, (size_t)follower->limits.meta_bytes + JOB_EXTRA_BYTES);
    bool good = reader_edges(follower->reader, &follower->arena, known->task.id, false, &edges, &n, err) &&
                named_add(follower, row->undoes, row->n_undoes, &depends, err);
    for (size_t i = 0; good && i < n; i++)
        if (edges[i].kind == EDGE_DEPENDS)
            buf_addf(&depends, "%.*s\n", STR_ARG(edges[i].name));
    section_add(&text, META_MOVETYPE, str_of(movetype_name(row->movetype)));
    section_add(&text, META_TARGET, known->target);
    section_add(&text, META_FILES, row->files);
    section_add(&text, META_REMOVED, row->removed);
    section_add(&text, META_DEPENDENCIES, buf_str(&depends));
    if (row->overlapping)
        buf_addf(&text, "##%.*s\n", STR_ARG(meta_kind_name(META_OVERLAPPING)));
    *out = buf_move(&text, &follower->arena);
    buf_release(&depends);
    return good;
}

bool follower_meta(struct follower *follower, const struct job_known *known, const struct job_place *place,
    struct str *out, struct err *err)
{
    return meta_standing(follower, known, place, out) || meta_unpacked(follower, known, out, err) ||
           (err->code == ERR_none && meta_made(follower, known, out, err));
}
