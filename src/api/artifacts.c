/* artifacts: files that a job keeps: sent by its executor in pieces before the finish that names them, downloaded by people.
 *
 * A piece is checked against the task's newest grant, like a log chunk. The last piece makes the file a blob (store/blobs) on a thread of
 * its own, since that syncs; its answer says name, bytes and hash. What a task has kept is what its finish lists: bytes nobody lists are
 * never shown. A client that reads slowly holds one piece in memory, not the file. */
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "api/call.h"
#include "store/blobs.h"

enum { ARTIFACTS_MAX = 1000, MODE_BYTES_MAX = 8 };
#define ARTIFACT_BYTES_MAX ((int64_t)4 << 30)
#define PIECE_BYTES (256 * KIB)
#define PENDING_MAX (512 * KIB)

/* ---- the list that a finish brings ---- */

static bool hex_good(struct str hex)
{
    for (size_t i = 0; i < hex.len; i++)
        if (strchr("0123456789abcdef", hex.ptr[i]) == NULL || hex.ptr[i] == '\0')
            return false;
    return hex.len == BLOB_HEX;
}

static void artifact_read(struct json_reader *list, const json_t *value, struct str path, struct json *json)
{
    struct json_reader item;
    struct str name = { 0 }, hex = { 0 }, mode = { 0 };
    int64_t bytes = -1;
    if (!json_read_object(&item, value, path, list->arena, list->err))
        return;
    if (json_read_str(&item, "name", FILE_NAME_BYTES_MAX, &name) && !file_name_is_valid(name))
        err_item(list->err, ERR_invalid, json_read_path(&item, "name"), "'name' must be a path without '..' beneath the working directory");
    json_read_i64(&item, "bytes", 0, ARTIFACT_BYTES_MAX, &bytes);
    if (json_read_str(&item, "sha256", BLOB_HEX, &hex) && !hex_good(hex))
        err_item(list->err, ERR_invalid, json_read_path(&item, "sha256"), "'sha256' must be %d hexadecimal digits", BLOB_HEX);
    if (json_read_str(&item, "mode", MODE_BYTES_MAX, &mode) && !str_eqz(mode, "0644") && !str_eqz(mode, "0755"))
        err_item(list->err, ERR_invalid, json_read_path(&item, "mode"), "'mode' must be \"0644\" or \"0755\"");
    json_read_end(&item);
    if (list->err->code == ERR_none && (name.len == 0 || hex.len == 0 || bytes < 0))
        err_item(list->err, ERR_invalid, path, "an artifact has 'name', 'bytes' and 'sha256'");
    json_object_begin(json);
    json_put_str(json, "name", name);
    json_put_i64(json, "bytes", bytes);
    json_put_str(json, "sha256", hex);
    if (mode.len > 0)
        json_put_str(json, "mode", mode);
    json_object_end(json);
}

void artifacts_read(struct json_reader *reader, struct finish_item *out)
{
    const json_t *list;
    struct buf text;
    if (!json_read_array(reader, "artifacts", ARTIFACTS_MAX, &list))
        return;
    buf_init(&text, 8 * MIB);
    struct json json = json_to(&text);
    json_array_begin(&json);
    for (size_t i = 0; i < json_array_size(list); i++)
        artifact_read(reader, json_array_get(list, i), json_read_path_at(reader->arena, json_read_path(reader, "artifacts"), i), &json);
    json_array_end(&json);
    struct str outputs = out->outputs.len > 0 ? out->outputs : STR("{}");
    out->outputs = str_fmt(reader->arena, "%.*s\n%.*s", STR_ARG(outputs), STR_ARG(buf_str(&text)));
    buf_release(&text);
}

struct str artifacts_split(struct str *outputs)
{
    ptrdiff_t at = str_index(*outputs, '\n'); /* JSON text has no line feed of its own: it is written compact */
    if (at < 0)
        return (struct str){ 0 };
    struct str artifacts = str_sub(*outputs, (size_t)at + 1, outputs->len);
    outputs->len = (size_t)at;
    return artifacts;
}

/* ---- sending ---- */

struct artifact_seal {
    struct blobs *blobs;
    char key[BLOB_KEY_MAX + 1];
    struct str name;
    struct blob blob;
};

static void seal_work(struct aside *aside)
{
    struct artifact_seal *seal = aside->state;
    aside->ok = blobs_seal(seal->blobs, seal->key, &seal->blob, &aside->err);
}

static void artifact_answer(struct call *call, struct str name, int64_t bytes, const char *hex)
{
    struct json json = json_to(&call->out);
    json_object_begin(&json);
    json_put_str(&json, "name", name);
    json_put_i64(&json, "bytes", bytes);
    if (hex != NULL)
        json_put_z(&json, "sha256", hex);
    json_object_end(&json);
    call_answer(call, 200);
}

static void seal_done(struct aside *aside)
{
    struct artifact_seal *seal = aside->state;
    if (!aside->ok)
        call_refuse(aside->call, aside->err.code, "%s", aside->err.text);
    else
        artifact_answer(aside->call, seal->name, seal->blob.bytes, seal->blob.hex);
}

/* upload_key: one upload for each grant and name; the name may have any characters, its hash hasn't. */
static void upload_key(struct fence fence, struct str name, char *out, size_t size)
{
    unsigned char digest[16];
    char hex[2 * sizeof digest + 1];
    crypto_generichash(digest, sizeof digest, (const unsigned char *)name.ptr, name.len, NULL, 0);
    sodium_bin2hex(hex, sizeof hex, digest, sizeof digest);
    snprintf(out, size, "%lld-%lld-%s", (long long)fence.task, (long long)fence.grant, hex);
}

void serve_artifacts_post(struct call *call)
{
    int64_t task, offset = 0;
    bool last = false;
    struct fence fence;
    if (!call_task_of_executor(call, &task))
        return;
    struct artifact_seal *seal = ARENA_NEW(&call->arena, struct artifact_seal);
    seal->blobs = call->api->blobs;
    seal->name = str_dup(&call->arena, call->arg2);
    bool good = fence_param(call, task, &fence);
    call_param_i64(call, "offset", 0, ARTIFACT_BYTES_MAX, &offset);
    call_param_flag(call, "last", &last);
    if (call->err.code == ERR_none && !file_name_is_valid(seal->name))
        err_set(&call->err, ERR_bad_request, "an artifact's name is a path without '..' beneath the working directory");
    good = good && call->err.code == ERR_none && grant_check(call, fence);
    if (good)
        upload_key(fence, seal->name, seal->key, sizeof seal->key);
    if (!good || !blobs_append(seal->blobs, seal->key, offset, call->request->body, ARTIFACT_BYTES_MAX, &call->err)) {
        call_problem(call);
        return;
    }
    if (last)
        aside_start(call, seal_work, seal_done, seal);
    else
        artifact_answer(call, seal->name, offset + (int64_t)call->request->body.len, NULL);
}

/* ---- reading ---- */

struct artifact_stream {
    struct call *call;
    struct blob blob;
    int64_t offset, end;
    struct buf out;
    bool pumping;
};

static void stream_released(struct call *call)
{
    struct artifact_stream *stream = call->state;
    buf_release(&stream->out);
}

/* pump: sends until all is sent or the client has enough to take. The stream may be gone afterwards. */
static void pump(struct artifact_stream *stream)
{
    struct call *call = stream->call;
    if (stream->pumping)
        return;
    stream->pumping = true;
    while (call->request != NULL && stream->offset < stream->end && http_stream_pending(call->request) < PENDING_MAX) {
        int64_t left = stream->end - stream->offset;
        buf_reset(&stream->out);
        if (!blobs_read(call->api->blobs, stream->blob.hex, stream->offset, left < (int64_t)PIECE_BYTES ? (size_t)left : PIECE_BYTES,
                &stream->out, &call->err) ||
            stream->out.len == 0)
            break; /* the disk lost it: the client sees an answer that ends early */
        stream->offset += (int64_t)stream->out.len;
        http_stream_add(call->request, buf_str(&stream->out));
    }
    stream->pumping = false;
    bool stuck = call->err.code != ERR_none || (stream->out.len == 0 && stream->offset < stream->end);
    if (stream->offset >= stream->end || stuck)
        call_stream_end(call);
}

static void stream_drained(struct http_request *request)
{
    struct call *call = request->user;
    if (call != NULL)
        pump(call->state);
}

/* artifact_find: its row in the task's list; false: call->err. */
static bool artifact_find(struct call *call, const struct task_view *view, struct blob *out)
{
    struct str outputs = view->outputs, list = artifacts_split(&outputs);
    struct err ignored = { .code = ERR_none };
    json_t *rows = list.len > 0 ? json_parse(list, 4, &ignored) : NULL;
    char hex[BLOB_HEX + 1] = "";
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        if (str_eqz(call->arg2, json_string_value(json_object_get(row, "name"))))
            snprintf(hex, sizeof hex, "%s", json_string_value(json_object_get(row, "sha256")));
    }
    json_decref(rows);
    if (hex[0] == '\0')
        return err_set(&call->err, ERR_not_found, "the task kept no file '%.*s'", STR_ARG(str_sub(call->arg2, 0, 200)));
    return blobs_find(call->api->blobs, str_of(hex), out, &call->err);
}

/* range_read: one range "bytes=A-B", "bytes=A-" or "bytes=-N". false: none that we serve, the whole file is sent. */
static bool range_read(struct str header, int64_t bytes, int64_t *out_from, int64_t *out_end)
{
    int64_t from = 0, to = bytes - 1;
    struct str rest = header;
    if (!str_starts(rest, STR("bytes=")))
        return false;
    rest = str_sub(rest, 6, rest.len);
    ptrdiff_t dash = str_index(rest, '-');
    if (dash < 0)
        return false;
    struct str first = str_sub(rest, 0, (size_t)dash), last = str_sub(rest, (size_t)dash + 1, rest.len);
    if (first.len == 0) {
        if (!str_to_i64(last, &to) || to <= 0)
            return false;
        from = to < bytes ? bytes - to : 0;
        to = bytes - 1;
    } else if (!str_to_i64(first, &from) || (last.len > 0 && !str_to_i64(last, &to))) {
        return false;
    }
    if (from < 0 || from >= bytes || to < from)
        return false;
    *out_from = from;
    *out_end = to < bytes ? to + 1 : bytes;
    return true;
}

void serve_artifacts_get(struct call *call)
{
    struct task_view view;
    struct artifact_stream *stream = ARENA_NEW(&call->arena, struct artifact_stream);
    if (!call_task_view(call, &view))
        return;
    stream->call = call;
    if (!artifact_find(call, &view, &stream->blob)) {
        call_problem(call);
        return;
    }
    stream->end = stream->blob.bytes;
    bool part = range_read(http_header(call->request, "Range"), stream->blob.bytes, &stream->offset, &stream->end);
    char range[80];
    snprintf(range, sizeof range, "bytes %lld-%lld/%lld", (long long)stream->offset, (long long)stream->end - 1,
        (long long)stream->blob.bytes);
    buf_init(&stream->out, PIECE_BYTES);
    call->state = stream;
    call->on_release = stream_released;
    if (stream->end - stream->offset <= (int64_t)PIECE_BYTES) { /* what fits one piece is answered with its length */
        const char *const headers[] = { "X-Content-Type-Options", "nosniff", "Content-Disposition", "attachment", "Accept-Ranges", "bytes",
            part ? "Content-Range" : NULL, range, NULL };
        if (!blobs_read(
                call->api->blobs, stream->blob.hex, stream->offset, (size_t)(stream->end - stream->offset), &stream->out, &call->err))
            call_problem(call);
        else
            call_answer_as(call, part ? 206 : 200, "application/octet-stream", buf_str(&stream->out), headers);
        return;
    }
    http_stream_header(call->request, "X-Content-Type-Options", "nosniff");
    http_stream_header(call->request, "Content-Disposition", "attachment"); /* a page that a job made must not run as ours */
    http_stream_header(call->request, "Accept-Ranges", "bytes");
    if (part)
        http_stream_header(call->request, "Content-Range", range);
    call_stream_turn(call);
    http_stream_begin(call->request, part ? 206 : 200, "application/octet-stream", stream_drained);
    pump(stream);
}
