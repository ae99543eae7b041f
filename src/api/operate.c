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

static void verify_work(struct background *background)
{
    struct verify_state *state = background->state;
    const struct verify_wish wish = {
        .witness_seq = state->witness_seq, .witness_hash = state->witness_hash, .quick = state->quick
    };
    background->ok = store_verify_all(state->store, &wish, &state->report, &background->err);
}

static void head_render(struct json *json, const struct verify_report *report)
{
    ANSWER_WRITE(ANSWER_Head);
}

static void verify_done(struct background *background)
{
    struct call *call = background->call;
    const struct verify_report *report = &((struct verify_state *)background->state)->report;
    if (!background->ok) {
        call_refuse(call, background->err.code, "%s", background->err.text);
        return;
    }
    bool whole = !((struct verify_state *)background->state)->quick;
    ANSWER_CALL(200, ANSWER_VerifyReport);
}

void serve_verify_get(struct call *call)
{
    struct verify_state *state = ARENA_NEW(&call->arena, struct verify_state);
    state->store = call->api->config.store;
    if (!witness_read(call, state) || !call_param_flag(call, "quick", &state->quick)) {
        call_problem(call);
        return;
    }
    background_start(call, verify_work, verify_done, state);
}

struct backup_state {
    const struct store_config *store;
    const char *file;
    struct backup_facts facts;
};

static void backup_work(struct background *background)
{
    struct backup_state *state = background->state;
    background->ok = store_backup_at(state->store, state->file, &state->facts, &background->err);
}

static void backup_done(struct background *background)
{
    struct call *call = background->call;
    const struct backup_state *state = background->state;
    if (!background->ok) {
        call_refuse(call, background->err.code, "%s", background->err.text);
        return;
    }
    ANSWER_CALL(200, ANSWER_BackupAnswer);
}

void serve_backup_create(struct call *call)
{
    struct json_reader reader;
    struct str file = { 0 };
    if (!call_object(call, &reader))
        return;
    if (json_read_any(&reader, "file") == NULL)
        err_item(&call->err, ERR_invalid, STR("/file"), "'file' is required");
    else if (json_read_str(&reader, "file", 4000, &file) && (file.len == 0 || file.ptr[0] != '/'))
        err_item(&call->err, ERR_invalid, STR("/file"), "'file' must be an absolute path on the server's machine");
    struct backup_state *state = ARENA_NEW(&call->arena, struct backup_state);
    json_read_bool(&reader, "without_artifacts", &state->facts.without_artifacts);
    if (!call_read_done(call, &reader))
        return;
    state->store = call->api->config.store;
    state->file = str_dupz(&call->arena, file);
    background_start(call, backup_work, backup_done, state);
}
