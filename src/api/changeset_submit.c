/* changeset_submit: a tarball comes in (POST /v1/changesets), is checked, kept, becomes a change set; and goes out.
 *
 * The handler runs when the head of the request has come: a client that isn't let in, or has no room left, sends no
 * body. The body goes to a file in tmp/ that has no name, so whatever ends the call, or the server, leaves nothing
 * there. A thread then syncs it, has it checked and keeps it (spool/intake.c), and the engine decides in a turn. What
 * the engine refuses is not kept. At most SUBMISSIONS_MAX are on their way at a time, of which four are being checked
 * and the others wait their turn; one more is answered 503.
 *
 * A client that goes away before its body is whole has submitted nothing; one that goes away later has. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "api/answer.h"
#include "api/call.h"
#include "io/clock.h"
#include "io/log.h"
#include "spool/intake.h"
#include "text/conf_changesets.h"

enum { SUBMISSIONS_MAX = 200 };

struct submission {
    struct api *api;
    struct conf_changesets rules;
    struct intake_order order;
    struct intake intake;
    struct err err;  /* why it isn't good, with its items */
    int64_t room;    /* of what its tenant may keep; 0: any. The engine counts */
    int64_t task;    /* of the change set */
    struct str name; /* of its file */
    enum task_state state;
    bool check, good;
    struct intake_place place; /* of a check: where it would be applied; no kind: nowhere that can be looked into */
    struct intake_conflict *conflicts;
    size_t n_conflicts;
    bool looked; /* into the repository */
    bool held;   /* the tarball is kept, and nobody has decided whether it stays */
};

static void submission_released(struct call *call)
{
    struct submission *submission = call->state;
    if (submission->held) /* the server stops: nobody has decided, so nothing is accepted */
        intake_settle(submission->order.blobs, &submission->intake, false);
    if (submission->order.tarball_fd >= 0)
        close(submission->order.tarball_fd);
    submission->api->submissions--;
}

/* submission_refuse: ends the call with call->err, or without its client. */
static bool submission_refuse(struct call *call)
{
    if (call->request != NULL)
        return call_problem(call);
    call_released(call);
    return false;
}

/* --- the answers --- */

static bool submission_answer(struct call *call)
{
    const struct submission *submission = call->state;
    const struct changeset_def *def = &submission->intake.def;
    bool existing = call->command.out.changeset.existing;
    struct str csid = call->command.out.changeset.csid, name = existing ? submission->name : def->name;
    ANSWER_RETURN(call->command.status, ANSWER_ChangesetAccepted);
}

static void conflict_render(struct json *json, const struct intake_conflict *conflict)
{
    ANSWER_WRITE(ANSWER_Conflict);
}

static bool check_answer(struct call *call)
{
    const struct submission *submission = call->state;
    const struct changeset_def *def = &submission->intake.def;
    const struct str *precursors = call->command.out.changeset.precursors;
    size_t n_precursors = call->command.out.changeset.n_precursors;
    ANSWER_RETURN(200, ANSWER_ChangesetChecked);
}

/* submission_read: how it stands after its turn; of one that was there its name. */
static bool submission_read(struct call *call)
{
    struct submission *submission = call->state;
    struct reader *reader = call->api->config.reader;
    struct changeset row = { 0 };
    struct task task = { 0 };
    bool found = false;
    submission->task = call->command.out.changeset.task;
    if (!reader_row(reader, &call->arena, submission->task, &task, &found, &call->err) ||
        (call->command.out.changeset.existing &&
            !reader_changeset(reader, &call->arena, submission->task, &row, &found, &call->err)))
        return false;
    submission->state = task.state;
    submission->name = row.name;
    return true;
}

/* --- conflicts --- */

/* place_read: the repository of the target, if it is one that its own program doesn't apply to. */
static bool place_read(struct call *call)
{
    struct submission *submission = call->state;
    struct conf_target target;
    struct archive_view view;
    bool found = false;
    engine_target(call->api->config.engine, submission->intake.def.target, &call->arena, &target);
    if (target.n_apply > 0)
        return true;
    if (!reader_archive(
            call->api->config.reader, &call->arena, call->actor.tenant, target.archive, &view, &found, &call->err))
        return false;
    bool repository = found && (view.archive.kind == ARCHIVE_SVN || view.archive.kind == ARCHIVE_GIT);
    if (repository)
        submission->place =
            (struct intake_place){ view.archive.kind, view.archive.url, view.archive.branch, target.path };
    return true;
}

static bool conflicts_work(void *owner, struct err *err)
{
    struct submission *submission = owner;
    (void)err; /* a repository that can't be looked into is no refusal */
    submission->looked =
        intake_conflicts(&submission->order, &submission->intake, &submission->place, submission->api->tmp_dir,
            submission->err.arena, &submission->conflicts, &submission->n_conflicts, &submission->err);
    return true;
}

static bool conflicts_done(struct call *call, void *owner)
{
    (void)owner;
    return check_answer(call);
}

static const struct background looking = { .work = conflicts_work, .done = conflicts_done };

static bool conflicts_begin(struct call *call)
{
    struct submission *submission = call->state;
    if (submission->place.kind == ARCHIVE_NONE || submission->intake.def.movetype == MOVE_RB)
        return check_answer(call);
    return background_start(call, &looking, submission);
}

/* --- the engine's word --- */

static void tarball_drop(struct submission *submission)
{
    submission->held = false;
    intake_settle(submission->order.blobs, &submission->intake, false);
}

static bool drop_work(void *owner, struct err *err)
{
    (void)err;
    tarball_drop(owner);
    return true;
}

static bool drop_done(struct call *call, void *owner)
{
    (void)owner;
    return submission_refuse(call);
}

static const struct background dropping = { .work = drop_work, .done = drop_done, .goes_on = true };

/* submission_decided: what is accepted, or may be, stays; of what is refused nothing is left when its client hears. */
static void submission_decided(struct command *command)
{
    struct call *call = CONTAINER_OF(command, struct call, command);
    struct submission *submission = call->state;
    enum err_code code = command->err.code;
    bool stays = code == ERR_none || code == ERR_outcome_unknown;
    call->submitted = false;
    call->reading.since = 0;
    call->turn = engine_time(call->api->config.engine);
    if (stays && submission->held) {
        submission->held = false;
        intake_settle(submission->order.blobs, &submission->intake, true);
    }
    if (code != ERR_none)
        call->err = command->err;
    if (submission->held && blobs_is_shared(submission->order.blobs)) {
        background_queue(call, &dropping, submission);
        return;
    }
    if (submission->held)
        tarball_drop(submission);
    if (code != ERR_none)
        submission_refuse(call);
    else if (call->request == NULL)
        call_released(call);
    else if (submission->check)
        call_read(call, place_read, conflicts_begin);
    else
        call_read(call, submission_read, submission_answer);
}

static bool submission_submit(struct call *call)
{
    struct submission *submission = call->state;
    struct command *command = &call->command;
    command->kind = CMD_CHANGESET;
    command->in.changeset.def = submission->intake.def;
    command->in.changeset.def.check = submission->check;
    if (submission->check) /* nothing is made that a key could bring again */
        command->idempotency.key = (struct str){ 0 };
    memcpy(command->idempotency.body_hash, submission->intake.content.sha256, sizeof command->idempotency.body_hash);
    call_command(call);
    command->done = submission_decided;
    engine_submit(call->api->config.engine, command);
    return true;
}

/* --- the tarball --- */

static bool check_work(void *owner, struct err *err)
{
    struct submission *submission = owner;
    (void)err; /* which has no room for items */
    submission->good = intake_read(&submission->order, submission->err.arena, &submission->intake, &submission->err);
    return true;
}

/* confined_tell: what this kernel lacks, once in a server's life. */
static void confined_tell(struct api *api, const struct submission *submission)
{
    const char *missing;
    if (api->unconfined_said || !submission->good || unpack_is_confined(&submission->intake.content.confined, &missing))
        return;
    api->unconfined_said = true;
    log_warn("unpack.unconfined", "missing=%s", log_quote(str_of(missing)).z);
}

static bool check_done(struct call *call, void *owner)
{
    struct submission *submission = owner;
    confined_tell(call->api, submission);
    submission->held = submission->good && submission->order.blobs != NULL;
    if (submission->good)
        return submission_submit(call);
    call->err = submission->err;
    return submission_refuse(call);
}

static const struct background checking = { .work = check_work, .done = check_done, .goes_on = true };

static void body_came(struct http_request *request)
{
    struct call *call = request->user;
    struct submission *submission = call->state;
    if (!auth_stands(call))
        return;
    background_check(call, &checking, submission);
}

static bool body_take(struct call *call)
{
    struct submission *submission = call->state;
    submission->order.tarball_fd = intake_temp_file(call->api->tmp_dir, &call->err);
    int fd = submission->order.tarball_fd;
    int given = fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1; /* the request closes its own */
    if (given < 0)
        return fd < 0 ? call_problem(call)
                      : call_refuse(call, ERR_unavailable, "no descriptor for the tarball is left");
    http_body_take(call->request, given, body_came);
    return true;
}

/* room_read: a tenant that has as many bytes of files as it may sends none. */
static bool room_read(struct call *call)
{
    struct submission *submission = call->state;
    return uploads_room(call->api, call->actor.tenant, &submission->room, &call->err);
}

/* --- the tarball of a change set --- */

bool serve_changesets_tarball(struct call *call)
{
    static const uint8_t none[32];
    struct reader *reader = call->api->config.reader;
    struct changeset row;
    struct blob blob;
    char hex[BLOB_HEX + 1];
    int64_t id;
    bool found = false;
    if (!call_task_id(call, &id))
        return false;
    if (!reader_changeset(reader, &call->arena, id, &row, &found, &call->err))
        return call_problem(call);
    if (!found || !str_eq(row.tenant, call->actor.tenant))
        return call_refuse(call, ERR_not_found, "there is no change set %.*s", STR_ARG(str_sub(call->arg, 0, 200)));
    if (memcmp(row.hash, none, sizeof none) == 0)
        return call_refuse(call, ERR_not_found, "the change set %.*s has no tarball", STR_ARG(row.csid));
    for (size_t i = 0; i < sizeof row.hash; i++)
        snprintf(hex + 2 * i, 3, "%02x", row.hash[i]);
    if (blobs_find(call->api->blobs, str_of(hex), &blob, &call->err))
        return blob_answer(call, &blob);
    if (call->err.code == ERR_not_found)
        err_set(&call->err, ERR_not_found, "the tarball of %.*s isn't in this store any more", STR_ARG(row.csid));
    return call_problem(call);
}

/* --- the route --- */

size_t submission_bytes_max(const struct api *api)
{
    struct conf_changesets rules;
    engine_changesets(api->config.engine, &rules);
    uint64_t bytes = intake_tarball_bytes_max(&rules.limits);
    return bytes < SIZE_MAX / 2 ? (size_t)bytes : SIZE_MAX / 2;
}

bool serve_changesets_create(struct call *call)
{
    struct api *api = call->api;
    struct submission *submission = ARENA_NEW(&call->arena, struct submission);
    call_param_flag(call, "check", &submission->check);
    call_param_flag(call, "again", &submission->order.again);
    if (call->err.code != ERR_none)
        return call_problem(call);
    if (!call_idempotency(call))
        return false;
    if (!call->request->body_waits)
        return call_refuse(call, ERR_bad_request, "the body is empty: a change set is a tarball");
    if (api->submissions >= SUBMISSIONS_MAX)
        return call_refuse(call, ERR_unavailable, "%d change sets are on their way already", SUBMISSIONS_MAX);
    submission->api = api;
    engine_changesets(api->config.engine, &submission->rules);
    submission->err.arena = &call->arena;
    submission->order.tarball_fd = -1;
    submission->order.is_own = true;
    submission->order.host = api->config.host;
    submission->order.now_ns = clock_wall_ms() * 1000000;
    submission->order.actor = call->actor;
    submission->order.limits = &submission->rules.limits;
    submission->order.blobs = submission->check ? NULL : api->blobs;
    call->state = submission;
    call->on_release = submission_released;
    api->submissions++;
    return call_read(call, room_read, body_take);
}
