/* revisions: what an archive's revisions are: posted, listed, shown with their tasks and edges, and their files as a
 * tar.
 *
 * A revision of an external archive is posted whole; its workflow is judged before anything is recorded
 * (posted_workflow.c). For an archive of a repository a post is only a hint to look there. A revision with thousands of
 * tasks is read in pieces between other work of the loop. It fails with 404 for what isn't known, 422 with pointers for
 * what is refused. */
#include <string.h>

#include "api/answer.h"
#include "api/call.h"
#include "api/posted_workflow.h"
#include "base/when.h"
#include "watch/watch.h"

enum { LIST_MAX = 1000, TASKS_PAGE = 200, AUTHOR_BYTES_MAX = 1000, TXN_BYTES_MAX = 100, PREVS_MAX = 64 };
#define MESSAGE_BYTES_MAX (64 * KIB)

/* --- as JSON --- */

bool revision_answer(struct call *call, int status, struct str archive, const struct revision *row, struct str reason)
{
    bool whole = row->state != REVISION_NONE && reason.len == 0;
    ANSWER_RETURN(status, ANSWER_RevisionNoted);
}

struct revision_read {
    struct loop_timer timer;
    struct archive_view view;
    struct revision row;
    struct definition_file *files;
    size_t n_files;
    struct task_filter filter;
    struct task_view *tasks; /* newest first, as they come */
    size_t n_tasks, cap_tasks;
};

static void edge_render(struct call *call, struct json *json, const struct revision_read *read, const struct task *task,
    const struct edge_view *edge)
{
    struct buf *key = &call->api->scratch;
    buf_reset(key);
    key_add_task(key, read->view.lane.name, LANE_ARCHIVE, task);
    size_t len = key->len;
    key_add_view(key, edge);
    struct str from = str_sub(buf_str(key), 0, len), to = str_sub(buf_str(key), len, key->len);
    ANSWER_WRITE(ANSWER_RevisionEdge);
}

static void edges_render(struct call *call, struct json *json, const struct revision_read *read)
{
    json_array_begin(json);
    for (size_t i = read->n_tasks; i > 0; i--)
        for (size_t k = 0; k < read->tasks[i - 1].n_needs; k++)
            edge_render(call, json, read, &read->tasks[i - 1].task, &read->tasks[i - 1].needs[k]);
    json_array_end(json);
}

RENDERER(file_render, RevisionFile, struct json *json, const struct definition_file *file)

RENDERER(revision_render, Revision, struct call *call, struct json *json, struct str archive,
    const struct revision *row, const struct revision_read *read)

bool serve_revisions_list(struct call *call)
{
    struct archive_view view;
    struct revision *rows;
    size_t n;
    int64_t limit = LIST_MAX, before = 0;
    call_param_limit(call, LIST_MAX, &limit);
    call_param_i64(call, "cursor", 1, INT64_MAX, &before);
    if (call->err.code != ERR_none)
        return call_problem(call);
    if (!call_archive_any(call, &view))
        return false;
    if (!reader_revisions(
            call->api->config.reader, &call->arena, view.archive.lane, before, (size_t)limit, &rows, &n, &call->err))
        return call_problem(call);
    bool more = n == (size_t)limit && rows[n - 1].rev > 1;
    struct str next = more ? call_cursor(call, rows[n - 1].rev) : (struct str){ 0 };
    ANSWER_RETURN(200, ANSWER_RevisionList);
}

/* --- one of them --- */

/* call_revision: the revision that the path names; false: answered. */
static bool call_revision(struct call *call, struct archive_view *view, struct revision *out)
{
    int64_t rev;
    bool found;
    struct str text = str_sub(call->arg2, 0, 40);
    if (!str_to_i64(call->arg2, &rev) || rev < 1)
        return call_refuse(call, ERR_bad_request, "'%.*s' is no revision: they are numbers from 1", STR_ARG(text));
    if (!call_archive_any(call, view))
        return false;
    if (!reader_revision(call->api->config.reader, &call->arena, view->archive.lane, rev, out, &found, &call->err))
        return call_problem(call);
    if (found)
        return true;
    if (view->archive.youngest > 0)
        return call_refuse(call, ERR_not_found, "revision %lld of '%.*s' isn't known; the youngest is %lld",
            (long long)rev, STR_ARG(view->lane.name), (long long)view->archive.youngest);
    return call_refuse(call, ERR_not_found, "'%.*s' has no revision yet", STR_ARG(view->lane.name));
}

static bool files_read(struct call *call, struct revision_read *read)
{
    struct str text = { 0 };
    if (read->row.definition > 0 &&
        !reader_spec(call->api->config.reader, &call->arena, read->row.definition, &text, &call->err))
        return false;
    read->n_files = posted_workflow_files(&call->arena, text, &read->files);
    return true;
}

static bool revision_show(struct call *call, struct revision_read *read)
{
    struct json json = json_to(&call->out);
    bool good = files_read(call, read);
    if (good)
        revision_render(call, &json, read->view.lane.name, &read->row, read);
    return call_end(call, good, 200);
}

static void revision_step(struct loop_timer *timer)
{
    struct call *call = timer->owner;
    struct revision_read *read = call->state;
    struct task_view *views;
    size_t n;
    do {
        if (!reader_tasks(
                call->api->config.reader, &call->arena, &read->filter, &views, &n, &read->filter.before, &call->err)) {
            call_problem(call);
            return;
        }
        for (size_t i = 0; i < n; i++)
            *ARENA_PUSH(&call->arena, read->tasks, read->n_tasks, read->cap_tasks) = views[i];
    } while (read->filter.before > 0 &&
             call->on_thread != NULL); /* on the loop in steps, so that others are answered in between */
    if (read->filter.before > 0)
        loop_arm(call->api->config.loop, &read->timer, loop_now(call->api->config.loop));
    else
        revision_show(call, read);
}

static void revision_release(struct call *call)
{
    struct revision_read *read = call->state;
    loop_disarm(call->api->config.loop, &read->timer);
}

bool serve_revisions_get(struct call *call)
{
    struct revision_read *read = ARENA_NEW(&call->arena, struct revision_read);
    if (!call_revision(call, &read->view, &read->row))
        return false;
    read->timer = (struct loop_timer){ .due = revision_step, .owner = call };
    read->filter = (struct task_filter){
        .lane = read->view.lane.name, .tenant = call->actor.tenant, .rev = read->row.rev, .limit = TASKS_PAGE
    };
    call->state = read;
    call->on_release = revision_release;
    revision_step(&read->timer);
    return true;
}

/* --- posting --- */

struct revision_post {
    struct definition *definition;
    struct archive_view view;
    bool known; /* a repository's archive has the revision already */
};

static void post_release(struct call *call)
{
    struct revision_post *post = call->state;
    definition_release(post->definition);
}

static bool revision_posted(struct call *call)
{
    const struct command *command = &call->command;
    const struct revision *row = &command->out.revision.row;
    const struct revision bare = { .rev = command->in.revision.row.rev }; /* before the first: nobody waits for it */
    return revision_answer(call, command->status != 0 ? command->status : 202, command->in.revision.archive,
        row->rev > 0 ? row : &bare, (struct str){ 0 });
}

static void prev_read(struct call *call, struct json_reader *reader, struct revision *row)
{
    const struct doc_node *value = json_read_any(reader, "prev");
    int64_t one;
    if (value == NULL)
        return;
    bool many = value->kind == NODE_SEQUENCE;
    size_t n = many ? value->n : 1;
    if (n == 0 || n > PREVS_MAX || (!many && !node_is_whole(value, &one))) {
        err_item(&call->err, ERR_invalid, STR("/prev"), "'prev' must be a revision, or a list of 1 to %d", PREVS_MAX);
        return;
    }
    int64_t *prevs = ARENA_ARRAY(&call->arena, int64_t, n);
    for (size_t i = 0; i < n; i++) {
        struct str path = many ? json_pointer_at(&call->arena, STR("/prev"), i) : STR("/prev");
        if (!node_is_whole(many ? value->items[i] : value, &prevs[i]) || prevs[i] < 1 ||
            (row->rev > 0 && prevs[i] >= row->rev))
            err_item(
                &call->err, ERR_invalid, path, "'prev' must name an earlier revision: a number from 1, below 'rev'");
        for (size_t k = 0; k < i; k++)
            if (prevs[k] == prevs[i])
                err_item(&call->err, ERR_invalid, path, "'prev' names revision %lld twice", (long long)prevs[i]);
    }
    row->prevs = prevs;
    row->n_prevs = n;
}

/* cause_read: the task whose job made the revision: from the body, or from the job's own token. */
static void cause_read(struct call *call, struct json_reader *reader, struct str *out)
{
    struct key key;
    struct err fault = { 0 };
    if (json_read_str(reader, "cause", KEY_BYTES_MAX, out) &&
        (!key_parse(*out, &key, &fault) || key.kind == KEY_REVISION || key.kind == KEY_LANE))
        err_item(&call->err, ERR_invalid, STR("/cause"), "'cause' must be the key of a task");
    if (call->job > 0)
        *out = key_text(call->api, &call->arena, 0, call->job);
}

static bool post_read(struct call *call, struct json_reader *reader, struct revision *row)
{
    struct command *command = &call->command;
    if (json_read_need(reader, "rev", ""))
        json_read_i64(reader, "rev", 1, INT64_MAX - 1, &row->rev);
    json_read_str(reader, "txn", TXN_BYTES_MAX, &row->txn);
    json_read_str(reader, "author", AUTHOR_BYTES_MAX, &row->author);
    json_read_str(reader, "message", MESSAGE_BYTES_MAX, &row->message);
    json_read_time(reader, "time", &row->time);
    prev_read(call, reader, row);
    cause_read(call, reader, &command->in.revision.cause);
    return call->err.code == ERR_none;
}

/* hint_answer: a post only makes the watcher read the repository, which alone says what a revision is. */
static bool hint_answer(struct call *call)
{
    const struct revision_post *post = call->state;
    const struct archive_view *view = &post->view;
    const struct revision *row = &call->command.in.revision.row;
    struct watch *watch = call->api->config.watch;
    struct watch_hint hint = { .rev = row->rev, .txn = row->txn, .cause = call->command.in.revision.cause };
    /* of a known one there may be news too: its cause */
    bool told = watch != NULL && watch_hint(watch, view->lane.id, &hint);
    if (!post->known && !told)
        return call_refuse(
            call, ERR_unavailable, "the repository of '%.*s' isn't followed at the moment", STR_ARG(view->lane.name));
    const struct revision bare = { .rev = row->rev };
    return revision_answer(call, post->known ? 200 : 202, view->lane.name, &bare, (struct str){ 0 });
}

static bool hint_read(struct call *call)
{
    struct revision_post *post = call->state;
    const struct archive_view *view = &post->view;
    const struct revision *row = &call->command.in.revision.row;
    struct revision known;
    if (!reader_revision(
            call->api->config.reader, &call->arena, view->archive.lane, row->rev, &known, &post->known, &call->err))
        return call_problem(call);
    int64_t youngest = view->archive.youngest >= view->archive.first ? view->archive.youngest : view->archive.first - 1;
    if (!post->known && row->rev - youngest > REVISION_GAP_MAX) {
        err_item(&call->err, ERR_gap_too_large, STR("/rev"),
            "revision %lld is more than %d ahead of the youngest known one, %lld", (long long)row->rev,
            REVISION_GAP_MAX, (long long)youngest);
        return call_problem(call);
    }
    return call_on_loop(call, hint_answer);
}

bool serve_revisions_create(struct call *call)
{
    struct json_reader reader;
    struct command *command = &call->command;
    struct revision *row = &command->in.revision.row;
    struct revision_post *post = ARENA_NEW(&call->arena, struct revision_post);
    call->state = post;
    call->on_release = post_release;
    if (!call_idempotency(call) || !call_archive(call, &post->view) || !call_object(call, &reader))
        return false;
    bool external = post->view.archive.kind == ARCHIVE_EXTERNAL;
    command->idempotency.route = str_fmt(&call->arena, "POST %.*s", STR_ARG(call->request->path));
    post_read(call, &reader, row);
    const struct doc_node *workflow = json_read_any(&reader, "workflow"), *touched = json_read_any(&reader, "touched");
    if (workflow != NULL && !external)
        err_item(&call->err, ERR_invalid, STR("/workflow"), "the workflow of a %s archive stands in its repository",
            archive_kind_name(post->view.archive.kind));
    else if (workflow != NULL)
        posted_workflow_read(call, workflow, &post->definition);
    posted_workflow_touched(call, touched, post->definition, &command->in.revision.touched);
    if (!call_read_done(call, &reader))
        return false;
    if (!external) {
        hint_read(call);
        return false;
    }
    command->kind = CMD_REVISION;
    command->in.revision.archive = post->view.lane.name;
    command->in.revision.definition = post->definition;
    return call_submit(call, revision_posted);
}

/* --- its files --- */

struct tree_stream {
    struct archive_view view;
    struct revision row;
    struct watch_tar_stream *tree; /* NULL: it has ended */
    bool begun;
};

static void tree_release(struct call *call)
{
    struct tree_stream *stream = call->state;
    if (stream->tree != NULL)
        watch_tar_stream_cancel(stream->tree);
    stream->tree = NULL;
}

static void tree_drained(struct http_request *request)
{
    struct call *call = request->user;
    struct tree_stream *stream = call != NULL ? call->state : NULL;
    if (stream != NULL && stream->tree != NULL)
        watch_tar_stream_more(stream->tree);
}

static void tree_bytes(void *owner, struct str bytes)
{
    struct call *call = owner;
    struct tree_stream *stream = call->state;
    if (!stream->begun) {
        if (!call_stream_begin(call, 200, "application/x-tar", tree_drained))
            return; /* a HEAD: the call is over, and with it the tree */
    }
    stream->begun = true;
    http_stream_add(call->request, bytes);
}

/* tree_end: a tar that breaks off lacks its end, as the answer does: so the reader knows. */
static void tree_end(void *owner, const struct err *err)
{
    struct call *call = owner;
    struct tree_stream *stream = call->state;
    stream->tree = NULL;
    if (stream->begun) {
        (err->code == ERR_none ? call_stream_end : call_stream_break)(call);
        return;
    }
    if (err->code != ERR_none)
        call_refuse(call, err->code, "%s", err->text);
    else
        call_answer_as(call, 200, "application/x-tar", (struct str){ 0 }, NULL);
}

static bool tree_open(struct call *call)
{
    struct tree_stream *stream = call->state;
    struct watch_tar_stream_sink sink = { tree_bytes, tree_end, call };
    struct watch *watch = call->api->config.watch;
    if (watch == NULL)
        err_set(&call->err, ERR_unavailable, "repositories aren't read by this server");
    else
        stream->tree =
            watch_tar_stream(watch, &stream->view.archive, stream->row.rev, stream->row.ident, &sink, &call->err);
    return stream->tree != NULL || call_problem(call);
}

bool serve_revisions_tree(struct call *call)
{
    struct tree_stream *stream = ARENA_NEW(&call->arena, struct tree_stream);
    if (!call_revision(call, &stream->view, &stream->row))
        return false;
    if (stream->view.archive.kind == ARCHIVE_EXTERNAL)
        return call_refuse(call, ERR_not_found, "'%.*s' is an external archive: it has no files here",
            STR_ARG(stream->view.lane.name));
    call->state = stream;
    call->on_release = tree_release;
    return call_on_loop(call, tree_open);
}
