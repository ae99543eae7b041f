/* job: packing and unpacking of the job record.
 *
 * Promises that what job_pack wrote is read back the same, and that no bytes whatever make job_unpack read past their
 * end. Strings are stored with a NUL behind them, so that the shim's argv points into the record and nothing is copied
 * between reading and execve. A record that isn't whole is an error (corrupt); it costs the job, never the shim. */
#include "exec/job.h"

#include <string.h>

#include "base/arena.h"

static const char job_magic[4] = { 'W', 'J', 'B', '3' };

/* A record on its way to bytes or from them: its fields are listed once, in job_fields. */
struct fields {
    struct buf *out; /* NULL: they are read */
    struct str rest; /* what is still to be read */
    struct arena *arena;
    bool bad; /* what was read isn't a record: the fields from there on stay as they are */
};

static void field_number(struct fields *fields, int64_t *number)
{
    uint64_t n = *number < 0 ? 0 : (uint64_t)*number;
    if (fields->out) {
        buf_add_varint(fields->out, n);
        return;
    }
    fields->bad = fields->bad || !str_cut_varint(&fields->rest, &n) || n > INT64_MAX;
    if (!fields->bad)
        *number = (int64_t)n;
}

static void field_truth(struct fields *fields, bool *truth)
{
    int64_t n = *truth;
    field_number(fields, &n);
    *truth = n != 0;
}

static void field_text(struct fields *fields, struct str *text)
{
    int64_t len = (int64_t)text->len;
    field_number(fields, &len);
    if (fields->out) {
        buf_add_str(fields->out, *text);
        buf_add_char(fields->out, '\0');
        return;
    }
    fields->bad = fields->bad || (uint64_t)len >= fields->rest.len || fields->rest.ptr[len] != '\0';
    if (fields->bad)
        return;
    *text = (struct str){ fields->rest.ptr, (size_t)len }; /* also when it is empty: argv points at its NUL */
    fields->rest = str_sub(fields->rest, (size_t)len + 1, fields->rest.len);
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

static void field_texts(struct fields *fields, char ***list)
{
    int64_t n = 0;
    while (fields->out && *list && (*list)[n])
        n++;
    field_number(fields, &n);
    fields->bad = fields->bad || n > JOB_STRINGS_MAX;
    if (!fields->out)
        *list = ARENA_ARRAY(fields->arena, char *, fields->bad ? 1 : (size_t)n + 1);
    for (int64_t i = 0; i < n && !fields->bad; i++) {
        struct str text = str_of((*list)[i]);
        field_text(fields, &text);
        (*list)[i] = writable(text.ptr);
    }
}

static void checkout_fields(struct fields *fields, struct tree_request *from)
{
    struct str *texts[] = { &from->archive, &from->url, &from->branch, &from->commit, &from->server, &from->token };
    field_number(fields, &from->kind);
    fields->bad = fields->bad || from->kind >= ARCHIVE_KIND_COUNT;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        field_text(fields, texts[i]);
    field_number(fields, &from->rev);
    field_truth(fields, &from->copy);
}

static void job_fields(struct fields *fields, struct job *job)
{
    struct job_limits *limits = &job->limits;
    int64_t log_bytes_max = (int64_t)job->log_bytes_max;
    int64_t *numbers[] = { &job->timeout_ms, &job->grace_ms, &limits->memory_bytes, &limits->pids, &limits->cpu_s,
        &limits->files, &limits->file_bytes, &limits->disk_bytes, &log_bytes_max };
    struct str container = str_of(job->container), *texts[] = { &job->script, &job->needs, &job->input, &container };
    field_number(fields, &job->task);
    field_text(fields, &job->fence);
    fields->bad = fields->bad || job->fence.len > FENCE_MAX;
    field_truth(fields, &job->holds);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        field_number(fields, numbers[i]);
    job->log_bytes_max = (uint64_t)log_bytes_max;
    field_texts(fields, &job->argv);
    field_texts(fields, &job->envp);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        field_text(fields, texts[i]);
    job->container = container.len > 0 ? writable(container.ptr) : NULL;
    checkout_fields(fields, &job->checkout);
    field_truth(fields, &job->strict);
    field_texts(fields, &job->artifacts);
    field_text(fields, &job->refusal);
    field_number(fields, &job->refusal_exit);
    bool out = fields->out != NULL; /* shims of earlier versions refuse what follows */
    if (out ? job->note.len > 0 || job->applies : fields->rest.len > 0)
        field_text(fields, &job->note);
    if (out ? job->applies : fields->rest.len > 0)
        field_truth(fields, &job->applies);
}

void job_pack(const struct job *job, struct buf *out)
{
    buf_reset(out);
    struct job_head head = { .released = 0 };
    struct job copy = *job;
    memcpy(head.magic, job_magic, sizeof head.magic);
    buf_add(out, &head, sizeof head);
    job_fields(&(struct fields){ .out = out }, &copy);
    if (out->full || out->len < sizeof head)
        return;
    struct str body = str_sub(buf_str(out), sizeof head, out->len);
    head.body_bytes = body.len;
    head.hash = str_hash(body);
    memcpy(out->ptr, &head, sizeof head);
}

static bool unpack_body(struct str rest, struct arena *arena, struct job *job)
{
    struct fields fields = { .rest = rest, .arena = arena };
    job_fields(&fields, job);
    if (job->artifacts[0] == NULL)
        job->artifacts = NULL;
    return !fields.bad && fields.rest.len == 0;
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
