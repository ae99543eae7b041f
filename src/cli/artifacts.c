/* artifacts: the files that a task kept: what there is, and the bytes of one of them.
 *
 * A file is written beside its place and gets its name when it is whole; with no -o it goes to stdout. The length that
 * the server listed is checked, so a download that broke off never looks complete. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/session.h"
#include "cli/task_text.h"

struct download {
    FILE *out;
    int64_t bytes;
    bool failed;
};

static bool download_piece(struct str bytes, void *owner)
{
    struct download *download = owner;
    download->bytes += (int64_t)bytes.len;
    download->failed = fwrite(bytes.ptr, 1, bytes.len, download->out) != bytes.len;
    return !download->failed;
}

static const json_t *artifact_find(const json_t *task, const char *name)
{
    const json_t *list = json_object_get(task, "artifacts");
    for (size_t i = 0; i < json_array_size(list); i++)
        if (strcmp(field_z(json_array_get(list, i), "name"), name) == 0)
            return json_array_get(list, i);
    return NULL;
}

/* file_get: the bytes to `download->out`; the exit code. */
static int file_get(struct session *s, const char *name, int64_t bytes, struct download *download)
{
    struct arena *arena = &s->arena;
    const char *tail = str_dupz(arena, str_fmt(arena, "/artifacts/%.*s", STR_ARG(client_encode(arena, str_of(name)))));
    session_stream(s, session_task_path(s, s->options.operands[0], tail), download_piece, download);
    if (download->failed || fflush(download->out) != 0)
        return session_err(s, ERR_io, "can't write: %s", strerrordesc_np(errno));
    if (s->status != 0)
        return session_fail(s);
    if (download->bytes != bytes)
        return session_err(
            s, ERR_unreachable, "%" PRId64 " bytes came, the file has %" PRId64 "; try again", download->bytes, bytes);
    return 0;
}

/* executable_make: executable for all that the umask lets read it. */
static void executable_make(int fd)
{
    struct stat st;
    if (fstat(fd, &st) == 0 && fchmod(fd, (st.st_mode & 0777) | (st.st_mode & 0444) >> 2) < 0)
        errno = 0; /* the bytes are what was asked for */
}

static int file_fetch(struct session *s, const json_t *task, const char *name)
{
    const json_t *row = artifact_find(task, name);
    const char *to = option_get(&s->options, "output");
    struct download download = { .out = stdout };
    if (!row)
        return session_err(s, ERR_not_found, "the task kept no file '%s'", term_safe_z(&s->arena, name));
    const char *beside = to ? str_dupz(&s->arena, str_fmt(&s->arena, "%s.part", to)) : NULL;
    if (to && !(download.out = fopen(beside, "we")))
        return session_err(s, ERR_io, "%s: %s", beside, strerrordesc_np(errno));
    int status = file_get(s, name, field_i64(row, "bytes", 0), &download);
    if (!to)
        return status;
    if (strcmp(field_z(row, "mode"), "0755") == 0)
        executable_make(fileno(download.out));
    bool closed = fclose(download.out) == 0;
    if (status == 0 && (!closed || rename(beside, to) != 0))
        status = session_err(s, ERR_io, "%s: %s", to, strerrordesc_np(errno));
    if (status != 0)
        unlink(beside);
    else
        session_note(s, "%s: %" PRId64 " bytes\n", term_safe_z(&s->arena, to), download.bytes);
    return status;
}

static void list_print(struct session *s, const json_t *list)
{
    struct table table;
    table_init(&table, &s->arena, ">BYTES|SHA256|NAME");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *row = json_array_get(list, i);
        table_add(&table, PAINT_NONE, "%" PRId64, field_i64(row, "bytes", 0));
        table_add(&table, PAINT_DIM, "%s", field_z(row, "sha256"));
        table_add(&table, PAINT_NONE, "%s", field_z(row, "name"));
    }
    table_print(&table, &s->term, stdout, 0);
    if (json_array_size(list) == 0)
        session_note(s, "the task kept no files\n");
}

int artifacts_command(struct session *s)
{
    const char *name = s->options.n_operands > 1 ? s->options.operands[1] : NULL;
    if (!name && option_given(&s->options, "output"))
        return usage_error(s->options.spec, "--output needs NAME");
    json_t *task = session_get(s, session_task_path(s, s->options.operands[0], ""));
    if (!task)
        return s->status;
    json_t *list = json_object_get(task, "artifacts");
    int status =
        name ? file_fetch(s, task, name) : session_answer(s, list ? json_incref(list) : json_array(), list_print);
    json_decref(task);
    return status;
}
