/* job: packing and unpacking of the job record.
 *
 * Promises that what job_pack wrote is read back the same, and that no bytes whatever make job_unpack read past their
 * end. Strings are stored with a NUL behind them, so that the shim's argv points into the record and nothing is copied
 * between reading and execve. A record that isn't whole is an error (corrupt); it costs the job, never the shim. */
#include "exec/job.h"

#include <string.h>

#include "base/arena.h"

static const char job_magic[4] = { 'W', 'J', 'B', '3' };

static void pack_str(struct buf *out, struct str s)
{
    buf_add_varint(out, s.len);
    buf_add_str(out, s);
    buf_add_char(out, '\0');
}

static void pack_number(struct buf *out, int64_t n)
{
    buf_add_varint(out, n < 0 ? 0 : (uint64_t)n);
}

static void pack_checkout(struct buf *out, const struct job_checkout *from)
{
    pack_number(out, from->kind);
    const struct str texts[] = { from->archive, from->url, from->branch, from->commit, from->server, from->token };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        pack_str(out, texts[i]);
    pack_number(out, from->rev);
    pack_number(out, from->copy);
}

static void pack_strings(struct buf *out, char *const *list)
{
    size_t n = 0;
    while (list && list[n])
        n++;
    buf_add_varint(out, n);
    for (size_t i = 0; i < n; i++)
        pack_str(out, str_of(list[i]));
}

void job_pack(const struct job *job, struct buf *out)
{
    buf_reset(out);
    struct job_head head = { .released = 0 };
    memcpy(head.magic, job_magic, sizeof head.magic);
    buf_add(out, &head, sizeof head);
    pack_number(out, job->task);
    pack_str(out, job->fence);
    pack_number(out, job->holds);
    pack_number(out, job->timeout_ms);
    pack_number(out, job->grace_ms);
    const struct job_limits *limits = &job->limits;
    const int64_t numbers[] = { limits->memory_bytes, limits->pids, limits->cpu_s, limits->files, limits->file_bytes,
        limits->disk_bytes };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        pack_number(out, numbers[i]);
    buf_add_varint(out, job->log_bytes_max);
    pack_strings(out, job->argv);
    pack_strings(out, job->envp);
    pack_str(out, job->script);
    pack_str(out, job->needs);
    pack_str(out, job->input);
    pack_str(out, str_of(job->container));
    pack_checkout(out, &job->checkout);
    pack_number(out, job->strict);
    pack_strings(out, job->artifacts);
    pack_str(out, job->refusal);
    pack_number(out, job->refusal_exit);
    if (job->note.len > 0) /* shims of earlier versions refuse a record with this field */
        pack_str(out, job->note);
    if (out->full || out->len < sizeof head)
        return;
    struct str body = str_sub(buf_str(out), sizeof head, out->len);
    head.body_bytes = body.len;
    head.hash = str_hash(body);
    memcpy(out->ptr, &head, sizeof head);
}

static bool unpack_str(struct str *rest, struct str *out)
{
    uint64_t len;
    if (!str_cut_varint(rest, &len) || len >= rest->len || rest->ptr[len] != '\0')
        return false;
    *out = (struct str){ rest->ptr, (size_t)len }; /* also when it is empty: argv points at its NUL */
    *rest = str_sub(*rest, (size_t)len + 1, rest->len);
    return true;
}

static bool unpack_number(struct str *rest, int64_t *out)
{
    uint64_t n;
    if (!str_cut_varint(rest, &n) || n > INT64_MAX)
        return false;
    *out = (int64_t)n;
    return true;
}

/* The record belongs to the caller, who made it writable; argv wants char *, execve promises not to write. */
static char *writable(const char *ptr)
{
    union {
        const char *in;
        char *out;
    } cast = { .in = ptr };
    return cast.out;
}

static bool unpack_strings(struct str *rest, struct arena *arena, char ***out)
{
    uint64_t n;
    if (!str_cut_varint(rest, &n) || n > JOB_STRINGS_MAX)
        return false;
    char **list = ARENA_ARRAY(arena, char *, (size_t)n + 1);
    for (size_t i = 0; i < n; i++) {
        struct str s;
        if (!unpack_str(rest, &s))
            return false;
        list[i] = writable(s.ptr);
    }
    *out = list;
    return true;
}

static bool unpack_checkout(struct str *rest, struct job_checkout *out)
{
    struct str *texts[] = { &out->archive, &out->url, &out->branch, &out->commit, &out->server, &out->token };
    int64_t copy;
    if (!unpack_number(rest, &out->kind) || out->kind >= ARCHIVE_KIND_COUNT)
        return false;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (!unpack_str(rest, texts[i]))
            return false;
    if (!unpack_number(rest, &out->rev) || !unpack_number(rest, &copy))
        return false;
    out->copy = copy != 0;
    return true;
}

static bool unpack_body(struct str rest, struct arena *arena, struct job *job)
{
    struct job_limits *limits = &job->limits;
    int64_t holds, log_bytes_max, strict;
    int64_t *numbers[] = { &holds, &job->timeout_ms, &job->grace_ms, &limits->memory_bytes, &limits->pids,
        &limits->cpu_s, &limits->files, &limits->file_bytes, &limits->disk_bytes, &log_bytes_max };
    if (!unpack_number(&rest, &job->task) || !unpack_str(&rest, &job->fence) || job->fence.len > FENCE_MAX)
        return false;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!unpack_number(&rest, numbers[i]))
            return false;
    job->holds = holds != 0;
    job->log_bytes_max = (uint64_t)log_bytes_max;
    struct str container;
    if (!unpack_strings(&rest, arena, &job->argv) || !unpack_strings(&rest, arena, &job->envp) ||
        !unpack_str(&rest, &job->script) || !unpack_str(&rest, &job->needs) || !unpack_str(&rest, &job->input) ||
        !unpack_str(&rest, &container) || !unpack_checkout(&rest, &job->checkout) || !unpack_number(&rest, &strict) ||
        !unpack_strings(&rest, arena, &job->artifacts) || !unpack_str(&rest, &job->refusal) ||
        !unpack_number(&rest, &job->refusal_exit))
        return false;
    job->strict = strict != 0;
    if (job->artifacts[0] == NULL)
        job->artifacts = NULL;
    job->container = container.len > 0 ? writable(container.ptr) : NULL;
    return rest.len == 0 || (unpack_str(&rest, &job->note) && rest.len == 0);
}

bool job_unpack(struct str bytes, struct arena *arena, struct job *out, struct err *err)
{
    struct job_head head;
    if (bytes.len < sizeof head)
        return err_set(err, ERR_corrupt, "the job record is too short");
    memcpy(&head, bytes.ptr, sizeof head);
    struct str body = str_sub(bytes, sizeof head, bytes.len);
    if (memcmp(head.magic, job_magic, sizeof head.magic) != 0 || head.body_bytes > body.len)
        return err_set(err, ERR_corrupt, "the job record isn't whole, or of another version");
    body.len = (size_t)head.body_bytes;
    struct job job = { 0 };
    if (str_hash(body) != head.hash || !unpack_body(body, arena, &job))
        return err_set(err, ERR_corrupt, "the job record is damaged");
    *out = job;
    return true;
}

bool status_fits(const struct status *status, struct str fence)
{
    return status->magic == STATUS_MAGIC && status->fence[FENCE_MAX] == '\0' && status->reason[REASON_MAX] == '\0' &&
           fence.len > 0 && str_eqz(fence, status->fence);
}
