/* operate: verify and backup over HTTP; both run in the background. */
#include <string.h>

#include "api/answer.h"
#include "api/call.h"

struct verify_state {
    const struct store_config *store;
    int64_t witness_seq;
    uint8_t witness_hash[STORE_HASH_BYTES];
    bool quick;
    struct verify_report report;
};

/* witness_read: SEQ:HASH as an earlier report showed it. */
static bool witness_read(struct call *call, struct verify_state *out)
{
    struct str text;
    if (!call_param_str(call, "witness", &text) || store_witness_parse(text, &out->witness_seq, out->witness_hash))
        return true;
    return err_item(&call->err, ERR_bad_request, STR("witness"),
        "the query parameter 'witness' must be SEQ:HASH with %d hexadecimal digits", 2 * STORE_HASH_BYTES);
}

static bool verify_work(void *owner, struct err *err)
{
    struct verify_state *state = owner;
    const struct verify_wish wish = {
        .witness_seq = state->witness_seq, .witness_hash = state->witness_hash, .quick = state->quick
    };
    return store_verify_all(state->store, &wish, &state->report, err);
}

RENDERER(head_render, Head, struct json *json, const struct verify_report *report)

static bool verify_done(struct call *call, void *owner)
{
    const struct verify_state *state = owner;
    const struct verify_report *report = &state->report;
    bool whole = !state->quick;
    ANSWER_RETURN(200, ANSWER_VerifyReport);
}

static const struct background verifying = { .work = verify_work, .done = verify_done };

bool serve_verify_get(struct call *call)
{
    struct verify_state *state = ARENA_NEW(&call->arena, struct verify_state);
    state->store = call->api->config.store;
    if (!witness_read(call, state) || !call_param_flag(call, "quick", &state->quick))
        return call_problem(call);
    return background_start(call, &verifying, state);
}

struct backup_state {
    const struct store_config *store;
    const char *file;
    struct backup_facts facts;
};

static bool backup_work(void *owner, struct err *err)
{
    struct backup_state *state = owner;
    return store_backup_at(state->store, state->file, &state->facts, err);
}

static bool backup_done(struct call *call, void *owner)
{
    const struct backup_state *state = owner;
    ANSWER_RETURN(200, ANSWER_BackupAnswer);
}

static const struct background backing_up = { .work = backup_work, .done = backup_done };

bool serve_backup_create(struct call *call)
{
    struct json_reader reader;
    struct str file = { 0 };
    if (!call_object(call, &reader))
        return false;
    if (json_read_need(&reader, "file", "") && json_read_str(&reader, "file", 4000, &file) &&
        (file.len == 0 || file.ptr[0] != '/'))
        err_item(&call->err, ERR_invalid, STR("/file"), "'file' must be an absolute path on the server's machine");
    struct backup_state *state = ARENA_NEW(&call->arena, struct backup_state);
    json_read_bool(&reader, "without_artifacts", &state->facts.without_artifacts);
    if (!call_read_done(call, &reader))
        return false;
    state->store = call->api->config.store;
    state->file = str_dupz(&call->arena, file);
    return background_start(call, &backing_up, state);
}
