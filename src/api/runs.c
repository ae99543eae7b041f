/* runs: starting a task of a revision by hand.
 *
 * The definition that counts is that of the revision itself, read back from the store. It fails with 404 for an
 * archive, a revision or a task that isn't there, 422 for parameters that can't be passed on. */
#include <ctype.h>
#include <string.h>

#include "api/call.h"
#include "engine/definition.h"

enum { PARAMS_MAX = 100, PARAM_BYTES_MAX = 32 * 1024, REVISIONS_LOOKED_AT = 1000 };
#define PARAMS_BYTES_MAX (256 * KIB)

static void run_release(struct call *call)
{
    definition_release(call->state);
}

static bool run_made(struct call *call)
{
    return call_moved(call, run_made) || task_answer(call, call->command.out.run.task, 201);
}

/* param_same: both would be the same variable: WEIR_PARAM_ and the name in upper case, with _ for what is no letter or
 * digit. */
static bool param_same(struct str a, struct str b)
{
    if (a.len != b.len)
        return false;
    for (size_t i = 0; i < a.len; i++) {
        unsigned char x = (unsigned char)a.ptr[i], y = (unsigned char)b.ptr[i];
        if ((isalnum(x) ? toupper(x) : '_') != (isalnum(y) ? toupper(y) : '_'))
            return false;
    }
    return true;
}

static bool param_text(struct call *call, const struct doc_node *value, struct str path, struct str *out)
{
    if (value->kind == NODE_SCALAR && !node_is_null(value))
        *out = value->text; /* a number as it is written */
    else
        return err_item(&call->err, ERR_invalid, path, "a parameter must be a text, a number or a boolean");
    if (out->len > PARAM_BYTES_MAX)
        return err_item(&call->err, ERR_invalid, path, "a parameter has at most %d bytes", PARAM_BYTES_MAX);
    if (out->len > 0 && memchr(out->ptr, '\0', out->len) != NULL)
        return err_item(&call->err, ERR_invalid, path, "a parameter can't hold a NUL");
    return true;
}

static void params_read(struct call *call, struct json_reader *reader, struct str *out)
{
    const struct doc_node *params = json_read_any(reader, "params");
    struct str names[PARAMS_MAX], name, text;
    size_t n = 0;
    struct json_reader fields;
    if (params == NULL || !json_read_object(&fields, params, STR("/params"), &call->arena, &call->err))
        return;
    if (params->n > PARAMS_MAX) {
        err_item(&call->err, ERR_invalid, STR("/params"), "there are at most %d parameters", PARAMS_MAX);
        return;
    }
    struct buf object;
    buf_init(&object, PARAMS_BYTES_MAX);
    struct json json = json_to(&object);
    json_object_begin(&json);
    for (size_t i = 0; i < params->n; i++) {
        name = params->pairs[i].key->text;
        struct str path = json_read_path(&fields, str_dupz(&call->arena, str_sub(name, 0, 200)));
        if (!name_is_valid(name)) {
            err_item(&call->err, ERR_invalid, path,
                "a parameter's name is made of letters, digits, '.', '_' and '-', at most %d", NAME_CHARS_MAX);
            continue;
        }
        for (size_t k = 0; k < n; k++)
            if (param_same(names[k], name))
                err_item(&call->err, ERR_invalid, path, "'%.*s' and '%.*s' would be the same variable",
                    STR_ARG(names[k]), STR_ARG(name));
        names[n++] = name;
        if (param_text(call, params->pairs[i].value, path, &text)) {
            json_key_str(&json, name);
            json_str(&json, text);
        }
    }
    json_object_end(&json);
    if (object.full)
        err_item(&call->err, ERR_invalid, STR("/params"), "the parameters have at most %zu bytes together",
            (size_t)PARAMS_BYTES_MAX);
    else if (params->n > 0)
        *out = str_dup(&call->arena, buf_str(&object));
    buf_release(&object);
}

/* revision_choose: the one that was named, else the newest that was initialised. */
static bool revision_choose(struct call *call, const struct archive_view *view, int64_t rev, struct revision *out)
{
    struct reader *reader = call->api->config.reader;
    struct revision *rows;
    size_t n = 0;
    bool found = false;
    if (rev > 0 && !reader_revision(reader, &call->arena, view->archive.lane, rev, out, &found, &call->err))
        return false;
    if (rev == 0 && !reader_revisions(reader, &call->arena, view->archive.lane, view->archive.next, REVISIONS_LOOKED_AT,
                        &rows, &n, &call->err))
        return false;
    for (size_t i = 0; i < n && !found; i++) {
        *out = rows[i];
        found = rows[i].state == REVISION_KNOWN;
    }
    if (!found && rev == 0)
        return err_set(&call->err, ERR_not_found, "the archive '%.*s' has no revision yet", STR_ARG(view->lane.name));
    if (!found)
        return err_set(
            &call->err, ERR_not_found, "revision %lld of '%.*s' isn't known", (long long)rev, STR_ARG(view->lane.name));
    if (out->state == REVISION_SKIPPED)
        return err_set(&call->err, ERR_not_found, "revision %lld of '%.*s' was skipped: it has no tasks",
            (long long)rev, STR_ARG(view->lane.name));
    if (out->state == REVISION_WAITING)
        return err_set(&call->err, ERR_conflict,
            "revision %lld of '%.*s' waits for an earlier one: nothing of it can run yet", (long long)rev,
            STR_ARG(view->lane.name));
    return true;
}

/* definition_load: into call->state. */
static bool definition_load(struct call *call, const struct revision *row)
{
    struct str text = { 0 };
    if (row->definition == 0)
        return true;
    if (!reader_spec(call->api->config.reader, &call->arena, row->definition, &text, &call->err))
        return false;
    call->state = definition_of_text(text);
    return true;
}

bool serve_runs_create(struct call *call)
{
    struct archive_view view;
    struct json_reader reader;
    struct revision row = { 0 };
    struct command *command = &call->command;
    int64_t rev = 0;
    call->on_release = run_release;
    if (!call_idempotency(call) || !call_archive(call, &view) || !call_object(call, &reader))
        return false;
    command->idempotency.route =
        str_fmt(&call->arena, "POST %.*s", STR_ARG(call->request->path)); /* a run of another archive is another one */
    if (json_read_need(&reader, "task", "") && json_read_str(&reader, "task", NAME_CHARS_MAX, &command->in.run.task) &&
        !name_is_valid(command->in.run.task))
        err_item(&call->err, ERR_invalid, STR("/task"), "'task' must be the name of a task");
    json_read_i64(&reader, "rev", 1, INT64_MAX - 1, &rev);
    params_read(call, &reader, &command->in.run.params);
    json_read_str(&reader, "reason", REASON_BYTES_MAX, &command->in.run.reason);
    if (!call_read_done(call, &reader))
        return false;
    if (!revision_choose(call, &view, rev, &row) || !definition_load(call, &row))
        return call_problem(call);
    command->kind = CMD_RUN;
    command->in.run.archive = view.lane.name;
    command->in.run.rev = row.rev;
    command->in.run.definition = call->state;
    return call_submit(call, run_made);
}
