/* artifacts: files that a job keeps: sent by its executor in pieces before the finish that names them, downloaded by
 * people.
 *
 * A piece is checked against the task's newest grant, like a log chunk, and its tenant's quota. The last piece makes
 * the file a blob (store/blobs) on a thread of its own, since that syncs; its answer says name, bytes and hash. What a
 * task has kept is what its finish lists: bytes nobody lists are never shown. A finish may list only what this very
 * attempt has uploaded, with the bytes and the hash that the upload had; else it is refused (artifact_unknown), so that
 * nobody gets at another's file by its hash. A client that reads slowly holds one piece in memory, not the file. */
#include <stdio.h>
#include <string.h>

#include "api/answer.h"
#include "api/call.h"
#include "store/blobs/blobs.h"

enum { ARTIFACTS_MAX = 1000, MODE_BYTES_MAX = 8 };
#define ARTIFACT_BYTES_MAX ((int64_t)4 << 30)
#define PIECE_BYTES (256 * KIB)
#define PENDING_MAX (512 * KIB)

/* --- the list that a finish brings --- */

static bool hex_good(struct str hex)
{
    for (size_t i = 0; i < hex.len; i++)
        if (strchr("0123456789abcdef", hex.ptr[i]) == NULL || hex.ptr[i] == '\0')
            return false;
    return hex.len == BLOB_HEX;
}

static void artifact_read(
    const struct doc_node *value, struct str path, struct arena *arena, struct err *err, struct json *json)
{
    struct json_reader item;
    struct str name = { 0 }, hex = { 0 }, mode = { 0 };
    int64_t bytes = -1;
    if (!json_read_object(&item, value, path, arena, err))
        return;
    if (json_read_str(&item, "name", FILE_NAME_BYTES_MAX, &name) && !file_name_is_valid(name))
        err_item(err, ERR_invalid, json_read_path(&item, "name"),
            "'name' must be a path without '..' beneath the working directory");
    json_read_i64(&item, "bytes", 0, ARTIFACT_BYTES_MAX, &bytes);
    if (json_read_str(&item, "sha256", BLOB_HEX, &hex) && !hex_good(hex))
        err_item(err, ERR_invalid, json_read_path(&item, "sha256"), "'sha256' must be %d hexadecimal digits", BLOB_HEX);
    if (json_read_str(&item, "mode", MODE_BYTES_MAX, &mode) && !str_eqz(mode, "0644") && !str_eqz(mode, "0755"))
        err_item(err, ERR_invalid, json_read_path(&item, "mode"), "'mode' must be \"0644\" or \"0755\"");
    json_read_end(&item);
    if (err->code == ERR_none && (name.len == 0 || hex.len == 0 || bytes < 0))
        err_item(err, ERR_invalid, path, "an artifact has 'name', 'bytes' and 'sha256'");
    ANSWER_WRITE(ANSWER_Artifact);
}

/* names_check: each once. */
static void names_check(const struct doc_node *list, struct str path, struct arena *arena, struct err *err)
{
    struct smap seen = { 0 };
    for (size_t i = 0; i < list->n; i++) {
        const struct doc_node *value = node_find(list->items[i], STR("name"));
        struct str name;
        if (value == NULL || !node_is_text(value, &name))
            continue;
        if (smap_find(&seen, name) != NULL)
            err_item(err, ERR_invalid, json_pointer_at(arena, path, i), "'%.*s' is listed twice",
                STR_ARG(str_sub(name, 0, 200)));
        smap_put(&seen, name, &seen);
    }
    smap_release(&seen);
}

void artifacts_read(
    const struct doc_node *list, struct str path, struct arena *arena, struct err *err, struct finish_item *out)
{
    struct buf text;
    if (list->kind != NODE_SEQUENCE) {
        err_item(err, ERR_invalid, path, "'artifacts' must be an array, not %s", json_found(list));
        return;
    }
    if (list->n > ARTIFACTS_MAX) {
        err_item(err, ERR_invalid, path, "'artifacts' has %zu items; at most %d are taken", list->n, ARTIFACTS_MAX);
        return;
    }
    buf_init(&text, 8 * MIB);
    struct json json = json_to(&text);
    names_check(list, path, arena, err);
    json_array_begin(&json);
    for (size_t i = 0; i < list->n; i++)
        artifact_read(list->items[i], json_pointer_at(arena, path, i), arena, err, &json);
    json_array_end(&json);
    struct str outputs = out->outputs.len > 0 ? out->outputs : STR("{}");
    out->outputs = str_fmt(arena, "%.*s\n%.*s", STR_ARG(outputs), STR_ARG(buf_str(&text)));
    out->files = list->n > 0;
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

/* --- is it what the attempt uploaded? --- */

struct proof {
    struct blobs *blobs;
    struct finish_item *items;
    size_t n;
    handler_fn *next;
};

/* item_prove: every row of its list is a seal of its attempt: the same name, bytes and hash. */
static bool item_prove(struct blobs *blobs, struct finish_item *item, struct err *err)
{
    struct buf sealed;
    struct smap by_name = { 0 };
    struct str outputs = item->outputs, list = artifacts_split(&outputs);
    struct err ignored = { .code = ERR_none };
    buf_init(&sealed, SIZE_MAX);
    bool good = blobs_sealed(blobs, item->fence.task, item->fence.grant, &sealed, err);
    struct upload_seal *seals = (struct upload_seal *)(void *)sealed.ptr;
    for (size_t i = 0; good && i < sealed.len / sizeof *seals; i++)
        smap_put(&by_name, str_of(seals[i].name), &seals[i]);
    json_t *rows = good ? json_parse(list, 4, &ignored) : NULL;
    item->unproven = !json_is_array(rows);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        char name[UPLOAD_NAME + 1];
        upload_name(str_of(json_string_value(json_object_get(row, "name"))), name);
        const struct upload_seal *seal = smap_find(&by_name, str_of(name));
        if (seal == NULL || seal->blob.bytes != json_integer_value(json_object_get(row, "bytes")) ||
            !str_eqz(str_of(json_string_value(json_object_get(row, "sha256"))), seal->blob.hex))
            item->unproven = true;
    }
    json_decref(rows);
    smap_release(&by_name);
    buf_release(&sealed);
    return good;
}

static bool items_prove(void *owner, struct err *err)
{
    const struct proof *proof = owner;
    for (size_t i = 0; i < proof->n; i++)
        if (proof->items[i].files && !proof->items[i].malformed && !item_prove(proof->blobs, &proof->items[i], err))
            return false;
    return true;
}

static bool prove_done(struct call *call, void *owner)
{
    const struct proof *proof = owner;
    return proof->next(call);
}

static const struct background proving = { .work = items_prove, .done = prove_done };

bool artifacts_prove(struct call *call, struct finish_item *items, size_t n, handler_fn *next)
{
    bool any = false;
    for (size_t i = 0; i < n && !any; i++)
        any = items[i].files && !items[i].malformed;
    if (!any)
        return next(call);
    struct proof *proof = ARENA_NEW(&call->arena, struct proof);
    *proof = (struct proof){ call->api->blobs, items, n, next };
    if (blobs_is_shared(call->api->blobs))
        return background_queue(call, &proving, proof);
    if (items_prove(proof, &call->err))
        return next(call);
    return call_problem(call);
}

/* --- sending --- */

struct artifact_piece {
    struct blobs *blobs;
    struct upload upload;
    struct str name, bytes;
    int64_t offset;
    bool last;
    struct blob blob;
};

/* piece_add: short, but for a store in PostgreSQL, where it waits for the network. */
static bool piece_add(struct artifact_piece *piece, struct err *err)
{
    return blobs_append(piece->blobs, &piece->upload, piece->offset, piece->bytes, ARTIFACT_BYTES_MAX, err);
}

static bool piece_seal(void *owner, struct err *err)
{
    struct artifact_piece *piece = owner;
    return !piece->last || blobs_seal(piece->blobs, &piece->upload, &piece->blob, err);
}

static bool piece_work(void *owner, struct err *err)
{
    return piece_add(owner, err) && piece_seal(owner, err);
}

static bool piece_answer(struct call *call, void *owner)
{
    const struct artifact_piece *piece = owner;
    struct str name = piece->name, hex = piece->last ? str_of(piece->blob.hex) : (struct str){ 0 }, mode = { 0 };
    int64_t bytes = piece->last ? piece->blob.bytes : piece->offset + (int64_t)piece->bytes.len;
    ANSWER_RETURN(200, ANSWER_Artifact);
}

static const struct background adding = { .work = piece_work, .done = piece_answer },
                               sealing = { .work = piece_seal, .done = piece_answer };

/* upload_owner: the tenant of the task, which may not be the executor's. */
static bool upload_owner(struct call *call, int64_t task, struct str *out)
{
    struct task row;
    bool found = false;
    if (!reader_row(call->api->config.reader, &call->arena, task, &row, &found, &call->err))
        return false;
    if (found && (row.state == STATE_D || row.state == STATE_T || row.state == STATE_A))
        return err_set(&call->err, ERR_already_ended, "%s", err_title(ERR_already_ended));
    *out = found ? str_dup(&call->arena, lane_tenant_of(call->api, row.lane)) : (struct str){ 0 };
    return found || err_set(&call->err, ERR_not_found, "there is no task %lld", (long long)task);
}

static bool piece_take(struct call *call)
{
    struct artifact_piece *piece = call->state;
    bool shared = blobs_is_shared(piece->blobs);
    piece->bytes = call->request->body;
    if (!shared && !piece_add(piece, &call->err))
        return call_problem(call);
    uploads_touched(call->api);
    if (shared)
        piece->bytes = str_dup(&call->arena, piece->bytes); /* it outlives a client that goes away */
    if (shared)
        return background_queue(call, &adding, piece);
    if (piece->last)
        return background_queue(call, &sealing, piece);
    return piece_answer(call, piece);
}

bool serve_artifacts_post(struct call *call)
{
    int64_t task;
    struct fence fence;
    if (!call_task_of_executor(call, &task))
        return false;
    struct artifact_piece *piece = ARENA_NEW(&call->arena, struct artifact_piece);
    piece->blobs = call->api->blobs;
    piece->name = str_dup(&call->arena, call->arg2);
    bool good = fence_param(call, task, &fence);
    call_param_i64(call, "offset", 0, ARTIFACT_BYTES_MAX, &piece->offset);
    call_param_flag(call, "last", &piece->last);
    if (call->err.code == ERR_none && !file_name_is_valid(piece->name))
        err_set(&call->err, ERR_bad_request, "an artifact's name is a path without '..' beneath the working directory");
    piece->upload = (struct upload){ .task = fence.task, .grant = fence.grant };
    good = good && call->err.code == ERR_none && grant_check(call, fence) &&
           upload_owner(call, task, &piece->upload.tenant) &&
           uploads_room(call->api, piece->upload.tenant, &piece->upload.room, &call->err);
    upload_name(piece->name, piece->upload.name);
    call->state = piece;
    if (good)
        return call_on_loop(call, piece_take);
    return call_problem(call);
}

/* --- reading --- */

struct artifact_stream {
    struct stream base; /* first */
    struct blob blob;
    int64_t offset, end;
    bool part;
};

static void stream_released(struct call *call)
{
    struct artifact_stream *stream = call->state;
    buf_release(&stream->base.out);
}

static bool step_read(struct stream *base)
{
    struct artifact_stream *stream = CONTAINER_OF(base, struct artifact_stream, base);
    struct call *call = base->call;
    int64_t left = stream->end - stream->offset;
    size_t most = left < (int64_t)PIECE_BYTES ? (size_t)left : PIECE_BYTES;
    if (!blobs_read(call->api->blobs, stream->blob.hex, stream->offset, most, &base->out, &call->err) ||
        (left > 0 && base->out.len == 0))
        return false;
    stream->offset += (int64_t)base->out.len;
    base->over = stream->offset >= stream->end;
    base->again = true;
    return true;
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
    return blobs_find(call->api->blobs, str_of(hex), out, &call->err) ||
           (call->err.code == ERR_not_found &&
               err_set(&call->err, ERR_not_found, "the task kept '%.*s', but its bytes aren't in this store any more",
                   STR_ARG(str_sub(call->arg2, 0, 200))));
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

struct range_text {
    char z[80];
};
static struct range_text range_format(const struct artifact_stream *stream)
{
    struct range_text text;
    snprintf(text.z, sizeof text.z, "bytes %lld-%lld/%lld", (long long)stream->offset, (long long)stream->end - 1,
        (long long)stream->blob.bytes);
    return text;
}

static bool small_answer(struct call *call)
{
    const struct artifact_stream *stream = call->state;
    struct range_text range = range_format(stream);
    const char *const headers[] = { "X-Content-Type-Options", "nosniff", "Content-Disposition", "attachment",
        "Accept-Ranges", "bytes", stream->part ? "Content-Range" : NULL, range.z, NULL };
    return call_answer_as(
        call, stream->part ? 206 : 200, "application/octet-stream", buf_str(&stream->base.out), headers);
}

static bool stream_open(struct call *call)
{
    struct artifact_stream *stream = call->state;
    http_stream_header(call->request, "X-Content-Type-Options", "nosniff");
    /* a page that a job made must not run as ours */
    http_stream_header(call->request, "Content-Disposition", "attachment");
    http_stream_header(call->request, "Accept-Ranges", "bytes");
    if (stream->part)
        http_stream_header(call->request, "Content-Range", range_format(stream).z);
    if (!stream_begin(&stream->base, stream->part ? 206 : 200, "application/octet-stream"))
        return true; /* a HEAD: that was all */
    stream->offset += (int64_t)stream->base.out.len;
    stream_wake(&stream->base);
    return true;
}

bool blob_answer(struct call *call, const struct blob *blob)
{
    struct artifact_stream *stream = ARENA_NEW(&call->arena, struct artifact_stream);
    stream->base = (struct stream){ .call = call, .read = step_read, .pending_max = PENDING_MAX };
    stream->blob = *blob;
    stream->end = stream->blob.bytes;
    stream->part = range_read(call_header(call, "Range"), stream->blob.bytes, &stream->offset, &stream->end);
    buf_init(&stream->base.out, PIECE_BYTES);
    call->state = stream;
    call->on_release = stream_released;
    int64_t left = stream->end - stream->offset;
    bool small = left <= (int64_t)PIECE_BYTES; /* what fits one piece is answered with its length */
    if (blobs_read(call->api->blobs, stream->blob.hex, stream->offset, small ? (size_t)left : PIECE_BYTES,
            &stream->base.out, &call->err))
        return call_on_loop(call, small ? small_answer : stream_open);
    return call_problem(call); /* before the answer begins: it may have to be another one */
}

bool serve_artifacts_get(struct call *call)
{
    struct task_view view;
    struct blob blob;
    if (!call_task_view(call, &view))
        return false;
    return artifact_find(call, &view, &blob) ? blob_answer(call, &blob) : call_problem(call);
}
