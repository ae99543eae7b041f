/* seals: which files the attempts that run have uploaded. See seals.h.
 *
 * Promises: what seals_sync has synced is there after a crash; the newest line of a name counts. An attempt is a file,
 * so that forgetting it is removing one; its lines are in memory too, since a finish asks for them on the loop.
 *
 * Fails with ERR_disk_full and ERR_io; a line that couldn't be written whole is taken back. */
#include "store/blobs/seals.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/map.h"
#include "io/clock.h"
#include "io/fsx.h"

enum { LINE_MAX_BYTES = 512, FILE_MAX = UPLOAD_SEALS_MAX * LINE_MAX_BYTES };

struct sender { /* an attempt */
    char key[48];
    struct upload_grant grant; /* age_s isn't kept */
    char tenant[256];
    size_t n_uploads, n_lines;
    int64_t upload_bytes, sealed_bytes, touched_ms;
    struct upload_seal *seals;
    size_t n_seals, cap_seals;
};

struct seals {
    struct smap senders; /* "TASK-GRANT" -> struct sender, malloc */
    int dir_fd;
    char dir[4000];
};

static void key_format(int64_t task, int64_t grant, char out[48])
{
    snprintf(out, 48, "%" PRId64 "-%" PRId64, task, grant);
}

static struct sender *sender_find(const struct seals *seals, int64_t task, int64_t grant)
{
    char key[48];
    key_format(task, grant, key);
    return smap_find(&seals->senders, str_of(key));
}

static struct sender *sender_get(struct seals *seals, const struct upload *upload)
{
    struct sender *sender = sender_find(seals, upload->task, upload->grant);
    if (!sender) {
        sender = mem_alloc_zero(sizeof *sender);
        sender->grant = (struct upload_grant){ .task = upload->task, .grant = upload->grant };
        key_format(upload->task, upload->grant, sender->key);
        snprintf(sender->tenant, sizeof sender->tenant, "%.*s", STR_ARG(str_sub(upload->tenant, 0, 200)));
        smap_put(&seals->senders, str_of(sender->key), sender);
    }
    sender->touched_ms = clock_boot_ms();
    return sender;
}

static void sender_free(struct sender *sender)
{
    mem_free(sender->seals);
    mem_free(sender);
}

static void seal_note(struct sender *sender, const char *name, const struct blob *blob)
{
    struct upload_seal *seal = NULL;
    for (size_t i = 0; i < sender->n_seals && !seal; i++)
        if (strcmp(sender->seals[i].name, name) == 0)
            seal = &sender->seals[i];
    if (!seal && sender->n_seals == sender->cap_seals) {
        sender->cap_seals = sender->cap_seals ? 2 * sender->cap_seals : 4;
        sender->seals = mem_realloc(sender->seals, sender->cap_seals * sizeof *sender->seals);
    }
    if (!seal) {
        seal = &sender->seals[sender->n_seals++];
        memset(seal, 0, sizeof *seal);
        snprintf(seal->name, sizeof seal->name, "%s", name);
    }
    sender->sealed_bytes += blob->bytes - seal->blob.bytes;
    seal->blob = *blob;
}

/* --- the files --- */

static bool word_take(struct str *rest, char *out, size_t size)
{
    struct str word;
    if (!str_cut(rest, ' ', &word) || word.len == 0 || word.len >= size)
        return false;
    memcpy(out, word.ptr, word.len);
    out[word.len] = '\0';
    return true;
}

/* "HASH NAME BYTES TENANT" */
static bool line_parse(struct str line, struct upload *upload, char *tenant, size_t size, struct blob *blob)
{
    char bytes[24];
    return word_take(&line, blob->hex, sizeof blob->hex) && strlen(blob->hex) == BLOB_HEX &&
           word_take(&line, upload->name, sizeof upload->name) && word_take(&line, bytes, sizeof bytes) &&
           str_to_i64(str_of(bytes), &blob->bytes) && blob->bytes >= 0 && word_take(&line, tenant, size);
}

static bool file_load(struct seals *seals, const char *name, struct err *err)
{
    char path[4300], tenant[256];
    struct arena arena = { 0 };
    struct upload upload = { 0 };
    struct str text, line, first, second = str_of(name);
    if (!str_cut(&second, '-', &first) || !str_to_i64(first, &upload.task) || !str_to_i64(second, &upload.grant) ||
        upload.task <= 0)
        return true; /* not ours */
    snprintf(path, sizeof path, "%s/%s", seals->dir, name);
    if (!fsx_read(path, FILE_MAX, &arena, &text, err)) {
        arena_release(&arena);
        return false;
    }
    size_t whole = text.len;
    for (ptrdiff_t at; (at = str_index(text, '\n')) >= 0; text = str_sub(text, (size_t)at + 1, text.len)) {
        struct blob blob;
        line = str_sub(text, 0, (size_t)at);
        upload.tenant = (struct str){ 0 };
        if (!line_parse(line, &upload, tenant, sizeof tenant, &blob))
            continue;
        upload.tenant = str_of(tenant);
        struct sender *sender = sender_get(seals, &upload);
        sender->n_lines++;
        seal_note(sender, upload.name, &blob);
    }
    arena_release(&arena);
    if (text.len > 0 && truncate(path, (off_t)(whole - text.len)) != 0)
        return err_set(err, ERR_io, "%s: %s", path, strerrordesc_np(errno));
    return true;
}

struct seals *seals_open(const char *dir, struct err *err)
{
    struct seals *seals = mem_alloc_zero(sizeof *seals);
    snprintf(seals->dir, sizeof seals->dir, "%.3900s/sealed", dir);
    seals->dir_fd = fsx_make_dirs(seals->dir, 0700, err) ? open(seals->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    DIR *list = seals->dir_fd >= 0 ? opendir(seals->dir) : NULL;
    bool ok = list != NULL;
    if (seals->dir_fd >= 0 && !ok)
        err_set(err, ERR_io, "%s: %s", seals->dir, strerrordesc_np(errno));
    for (struct dirent *entry; ok && (entry = readdir(list)) != NULL;)
        if (entry->d_name[0] != '.')
            ok = file_load(seals, entry->d_name, err);
    if (list)
        closedir(list);
    if (ok)
        return seals;
    seals_close(seals);
    return NULL;
}

void seals_close(struct seals *seals)
{
    SMAP_EACH (&seals->senders, e)
        sender_free(e->value);
    smap_release(&seals->senders);
    if (seals->dir_fd >= 0)
        close(seals->dir_fd);
    mem_free(seals);
}

/* --- uploads --- */

bool seals_full(const struct seals *seals, int64_t task, int64_t grant)
{
    const struct sender *sender = sender_find(seals, task, grant);
    return sender && (sender->n_uploads >= UPLOADS_MAX || sender->n_lines >= UPLOAD_SEALS_MAX);
}

void seals_uploading(struct seals *seals, const struct upload *upload, bool fresh, int64_t more_bytes)
{
    struct sender *sender = sender_get(seals, upload);
    sender->n_uploads += fresh;
    sender->upload_bytes += more_bytes;
}

void seals_taken(struct seals *seals, const struct upload *upload)
{
    struct sender *sender = sender_get(seals, upload);
    sender->n_uploads -= sender->n_uploads > 0;
}

/* --- seals --- */

static bool line_write(int fd, const char *line, size_t n)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return false;
    ssize_t done = pwrite(fd, line, n, st.st_size);
    if (done == (ssize_t)n)
        return true;
    int fault = done < 0 ? errno : ENOSPC;
    if (ftruncate(fd, st.st_size) != 0)
        fault = errno;
    errno = fault;
    return false;
}

int seals_add(
    struct seals *seals, const struct upload *upload, const struct blob *blob, bool *out_first, struct err *err)
{
    char line[LINE_MAX_BYTES];
    struct sender *sender = sender_get(seals, upload);
    if (sender->n_lines >= UPLOAD_SEALS_MAX) {
        err_set(err, ERR_invalid, "this attempt has sent %d files already", UPLOAD_SEALS_MAX);
        return -1;
    }
    int n = snprintf(line, sizeof line, "%s %s %" PRId64 " %s\n", blob->hex, upload->name, blob->bytes,
        sender->tenant[0] ? sender->tenant : "-");
    int fd = openat(seals->dir_fd, sender->key, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    bool ok = fd >= 0 && line_write(fd, line, (size_t)n);
    if (!ok) {
        err_set(err, errno == ENOSPC || errno == EDQUOT ? ERR_disk_full : ERR_io, "can't note a kept file: %s",
            strerrordesc_np(errno));
        if (fd >= 0)
            close(fd);
        return -1;
    }
    *out_first = sender->n_lines++ == 0;
    seal_note(sender, upload->name, blob);
    return fd;
}

bool seals_sync(struct seals *seals, int fd, bool first, struct err *err)
{
    bool ok = (fsync(fd) == 0 && (!first || fsync(seals->dir_fd) == 0)) ||
              err_set(err, ERR_io, "can't note a kept file: %s", strerrordesc_np(errno));
    close(fd);
    return ok;
}

void seals_list(const struct seals *seals, int64_t task, int64_t grant, struct buf *out)
{
    const struct sender *sender = sender_find(seals, task, grant);
    if (sender)
        buf_add(out, sender->seals, sender->n_seals * sizeof *sender->seals);
}

int64_t seals_bytes(const struct seals *seals, struct str tenant)
{
    int64_t bytes = 0;
    SMAP_EACH (&seals->senders, e) {
        const struct sender *sender = e->value;
        if (str_eqz(tenant, sender->tenant))
            bytes += sender->upload_bytes + sender->sealed_bytes;
    }
    return bytes;
}

void seals_grants(const struct seals *seals, struct buf *out)
{
    int64_t now = clock_boot_ms();
    SMAP_EACH (&seals->senders, e) {
        const struct sender *sender = e->value;
        struct upload_grant grant = sender->grant;
        grant.age_s = (now - sender->touched_ms) / 1000;
        buf_add(out, &grant, sizeof grant);
    }
}

bool seals_forget(struct seals *seals, int64_t task, int64_t grant)
{
    if (seals->senders.n == 0)
        return false;
    char key[48];
    key_format(task, grant, key);
    struct sender *sender = smap_take(&seals->senders, str_of(key));
    if (!sender)
        return false;
    sender_free(sender);
    (void)unlinkat(seals->dir_fd, key, 0); /* else the next start reads it, and it is forgotten again */
    return true;
}
