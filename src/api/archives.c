/* archives: adding, showing and removing archives over HTTP, and giving up a revision that will never come.
 *
 * Before an archive is added, the watcher's threads read its repository: one that can't be read is refused, and its
 * youngest revision decides which one is the first. A removed archive isn't listed any more; its tasks and revisions
 * stay readable. It fails with 422 and a pointer for a refused field, 409 name_taken for a name that is in use. */
#include <stdlib.h>
#include <string.h>

#include "api/answer.h"
#include "api/call.h"
#include "base/when.h"
#include "spool/spool.h"
#include "watch/watch.h"

enum { URL_BYTES_MAX = 4000, BRANCH_BYTES_MAX = 250, SCHEDULES_SHOWN_MAX = 1000, LIST_MAX = 1000 };

bool call_archive_any(struct call *call, struct archive_view *out)
{
    bool found;
    if (!reader_archive(call->api->config.reader, &call->arena, call->actor.tenant, call->arg, out, &found, &call->err))
        return call_problem(call);
    return found || call_refuse(call, ERR_not_found, "there is no archive '%.*s'", STR_ARG(str_sub(call->arg, 0, 100)));
}

bool call_archive(struct call *call, struct archive_view *out)
{
    if (!call_archive_any(call, out))
        return false;
    if (out->archive.removed > 0)
        return call_refuse(call, ERR_not_found,
            "the archive '%.*s' was removed at %s; its tasks and revisions can still be read",
            STR_ARG(str_sub(call->arg, 0, 100)), when_format(out->archive.removed).z);
    return true;
}

bool archive_missing(
    struct api *api, struct arena *arena, const struct archive *archive, int64_t *out_rev, struct err *err)
{
    struct revision row;
    bool found = true;
    *out_rev = 0;
    if (archive->youngest < archive->next)
        return true;
    if (!reader_revision(api->config.reader, arena, archive->lane, archive->next, &row, &found, err))
        return false;
    if (!found)
        *out_rev = archive->next;
    return true;
}

RENDERER(schedule_render, Schedule, struct json *json, const struct schedule *schedule)

/* watcher_render: how the following of a repository goes. */
static void watcher_render(struct json *json, const struct watch_status *status)
{
    bool said = status->text[0] != '\0';
    ANSWER_WRITE(ANSWER_Watch);
}

static bool archive_render(struct call *call, struct json *json, const struct archive_view *view)
{
    const struct archive *archive = &view->archive;
    const struct lane *lane = &view->lane;
    struct watch *watch = call->api->config.watch;
    struct watch_status status;
    struct schedule *schedules;
    size_t n_schedules;
    int64_t missing;
    if (!archive_missing(call->api, &call->arena, archive, &missing, &call->err) ||
        !reader_schedules(call->api->config.reader, &call->arena, archive->lane, &schedules, &n_schedules, &call->err))
        return false;
    if (n_schedules > SCHEDULES_SHOWN_MAX)
        n_schedules = SCHEDULES_SHOWN_MAX;
    bool followed = watch != NULL && watch_status(watch, lane->id, &status);
    ANSWER_WRITE(ANSWER_Archive);
    return true;
}

bool serve_archives_get(struct call *call)
{
    struct archive_view view;
    struct json json = json_to(&call->out);
    if (!call_archive(call, &view))
        return false;
    bool added = call->command.kind == CMD_ARCHIVE_ADD;
    if (archive_render(call, &json, &view))
        return call_answer(call, !added ? 200 : call->command.status != 0 ? call->command.status : 201);
    return call_problem(call);
}

bool serve_archives_list(struct call *call)
{
    int64_t limit = LIST_MAX, before = 0;
    bool notify = false;
    struct archive_view *views;
    size_t n;
    call_param_limit(call, LIST_MAX, &limit);
    call_param_i64(call, "cursor", 1, INT64_MAX, &before);
    call_param_flag(call, "notify", &notify);
    if (call->err.code != ERR_none || !reader_archives_page(call->api->config.reader, &call->arena, call->actor.tenant,
                                          before, (size_t)limit + 1, &views, &n, &call->err))
        return call_problem(call);
    struct str next = { 0 };
    if (n > (size_t)limit)
        next = call_cursor(call, views[(n = (size_t)limit) - 1].archive.lane);
    struct watch *watch = call->api->config.watch;
    const char *socket = notify && watch != NULL ? watch_notify_path(watch) : NULL;
    struct json out = json_to(&call->out), *json = &out;
    bool good = true;
    ANSWER_WRITE(ANSWER_ArchiveList);
    return call_end(call, good, 200);
}

/* --- adding --- */

static void watch_tell(struct call *call, struct str archive)
{
    if (call->api->config.watch != NULL)
        watch_archive_changed(call->api->config.watch, call->actor.tenant, archive);
}

/* archive_told: it is followed before it is shown. */
static bool archive_told(struct call *call)
{
    if (call->api->config.watch != NULL)
        watch_archive_told(call->api->config.watch, call->state);
    if (call->api->spool != NULL)
        spool_archive_added(call->api->spool);
    return call_on_thread(call, serve_archives_get);
}

static bool archive_read_new(struct call *call)
{
    struct archive_view *view = ARENA_NEW(&call->arena, struct archive_view);
    if (!call_archive(call, view))
        return false;
    call->state = view;
    return call_on_loop(call, archive_told);
}

static bool archive_added(struct call *call)
{
    watch_tell(call, call->command.in.archive_add.name);
    call->arg = call->command.in.archive_add.name;
    call->on_release = NULL; /* the probe is over */
    return call_on_thread(call, archive_read_new);
}

/* post_release: call->state is the probe, while it reads the repository. */
static void post_release(struct call *call)
{
    if (call->state != NULL)
        watch_probe_cancel(call->state);
    call->state = NULL;
}

static void probe_done(struct watch_probe *probe)
{
    struct call *call = probe->owner;
    struct archive *archive = &call->command.in.archive_add.archive;
    call->state = NULL;
    /* the path is right and what it names isn't: the document's fault, whatever the reason */
    if (probe->err.code != ERR_none) {
        bool later = err_retriable(probe->err.code);
        err_item(&call->err, later ? probe->err.code : ERR_invalid, probe->from_beyond ? STR("/from") : STR("/url"),
            "%s", probe->err.text);
        call_problem(call);
        return;
    }
    archive->first = probe->first;
    archive->tip = str_dup(&call->arena, probe->tip);
    archive->branch = str_dup(&call->arena, probe->branch_found);
    call_submit(call, archive_added);
}

/* archive_probe: looks at the repository before it is added. */
static bool archive_probe(struct call *call)
{
    const struct archive *archive = &call->command.in.archive_add.archive;
    struct watch_probe in = { .kind = archive->kind,
        .url = archive->url,
        .branch = archive->branch,
        .from = archive->first,
        .done = probe_done,
        .owner = call };
    struct watch *watch = call->api->config.watch;
    call->on_release = post_release;
    if (watch == NULL)
        err_set(&call->err, ERR_unavailable, "repositories aren't read by this server");
    else
        call->state = watch_probe(watch, &in, &call->err);
    return call->state != NULL || call_problem(call);
}

static bool is_url(struct str text)
{
    static const char *const schemes[] = { "file://", "svn://", "http://", "https://" };
    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++)
        if (str_starts(text, str_of(schemes[i])))
            return true;
    return false;
}

static bool has_control(struct str text)
{
    for (size_t i = 0; i < text.len; i++)
        if ((unsigned char)text.ptr[i] < ' ' || text.ptr[i] == 0x7f)
            return true;
    return false;
}

/* place_check: the repository's url, and that no field is given that its kind doesn't have. */
static void place_check(struct call *call, const struct archive *archive)
{
    struct err *err = &call->err;
    bool git = archive->kind == ARCHIVE_GIT, svn = archive->kind == ARCHIVE_SVN;
    if (!git && archive->branch.len > 0)
        err_item(err, ERR_invalid, STR("/branch"), "only an archive of kind git has a branch");
    if (!git && !svn && archive->url.len > 0)
        err_item(err, ERR_invalid, STR("/url"), "an external archive has no url: its revisions are posted");
    if (!git && !svn)
        return;
    if (archive->url.len == 0)
        err_item(err, ERR_invalid, STR("/url"), "'url' is required: the absolute path of the repository%s",
            svn ? ", or its address" : "");
    else if (has_control(archive->url))
        err_item(err, ERR_invalid, STR("/url"), "'url' holds a control character");
    else if (archive->url.ptr[0] != '/' && !(svn && is_url(archive->url)))
        err_item(err, ERR_invalid, STR("/url"), "'url' must be an absolute path of the server's machine%s, not '%.*s'",
            svn ? ", or file://, svn://, http:// or https://" : "", STR_ARG(str_sub(archive->url, 0, 200)));
    if (has_control(archive->branch) || (archive->branch.len > 0 && archive->branch.ptr[0] == '-'))
        err_item(err, ERR_invalid, STR("/branch"), "'branch' is no name of a branch");
}

static void archive_read(struct call *call, struct json_reader *reader, struct str *out_name, struct archive *out)
{
    struct str kind;
    if (json_read_need(reader, "name", ""))
        call_name(reader, "name", "archive", NAME_CHARS_MAX, name_check_new, out_name);
    if (json_read_need(reader, "kind", ": svn, git or external") && json_read_str(reader, "kind", 20, &kind) &&
        (out->kind = archive_kind_find(kind)) == ARCHIVE_NONE)
        err_item(
            &call->err, ERR_invalid, STR("/kind"), "'kind' must be svn, git or external, not '%.*s'", STR_ARG(kind));
    json_read_str(reader, "url", URL_BYTES_MAX, &out->url);
    json_read_str(reader, "branch", BRANCH_BYTES_MAX, &out->branch);
    json_read_i64(reader, "from", 1, INT64_MAX - REVISION_GAP_MAX, &out->first);
    if (out->kind != ARCHIVE_NONE)
        place_check(call, out);
}

bool serve_archives_create(struct call *call)
{
    struct json_reader reader;
    struct command *command = &call->command;
    if (!call_idempotency(call) || !call_object(call, &reader))
        return false;
    archive_read(call, &reader, &command->in.archive_add.name, &command->in.archive_add.archive);
    if (!call_read_done(call, &reader))
        return false;
    if (command->in.archive_add.archive.kind != ARCHIVE_EXTERNAL && !call->site &&
        !str_eqz(call->actor.tenant, TENANT_DEFAULT))
        return call_refuse(call, ERR_forbidden,
            "what the server's machine can read isn't one tenant's to choose: the site's admin adds a repository "
            "(weir archive add %.*s URL --tenant %.*s)",
            STR_ARG(command->in.archive_add.name), STR_ARG(call->actor.tenant));
    command->kind = CMD_ARCHIVE_ADD;
    if (command->in.archive_add.archive.kind == ARCHIVE_EXTERNAL)
        return call_submit(call, archive_added);
    return archive_probe(call);
}

/* --- removing, skipping --- */

static bool archive_removed(struct call *call)
{
    watch_tell(call, call->command.in.archive.name);
    ANSWER_RETURN(200, ANSWER_ArchiveRemoved);
}

bool serve_archives_remove(struct call *call)
{
    struct archive_view view;
    struct str reason = { 0 };
    if (call_param_str(call, "reason", &reason) && reason.len > REASON_BYTES_MAX)
        return call_refuse(call, ERR_bad_request, "the query parameter 'reason' is over %d bytes", REASON_BYTES_MAX);
    if (!call_archive(call, &view))
        return false;
    call->command.kind = CMD_ARCHIVE_REMOVE;
    call->command.in.archive.name = view.lane.name;
    call->command.in.archive.reason = reason;
    return call_submit(call, archive_removed);
}

static bool revision_skipped(struct call *call)
{
    const struct revision row = { .rev = call->command.in.archive.rev, .state = REVISION_SKIPPED };
    watch_tell(call, call->command.in.archive.name);
    return revision_answer(call, 200, call->command.in.archive.name, &row, call->command.in.archive.reason);
}

/* skip_is_early: a revision that its repository hasn't got yet can't be given up: the commit that comes would be lost.
 */
static bool skip_is_early(struct call *call, const struct archive_view *view, int64_t rev)
{
    struct watch *watch = call->api->config.watch;
    struct watch_status status;
    if (view->archive.kind == ARCHIVE_EXTERNAL || rev <= view->archive.youngest || watch == NULL)
        return false;
    return watch_status(watch, view->lane.id, &status) && status.state != WATCH_FAULT && status.youngest >= 0 &&
           rev > status.youngest;
}

bool serve_archives_skip(struct call *call)
{
    struct archive_view view;
    struct json_reader reader;
    struct command *command = &call->command;
    if (!call_archive(call, &view) || !call_object(call, &reader))
        return false;
    if (json_read_need(&reader, "rev", ""))
        json_read_i64(&reader, "rev", 1, INT64_MAX - 1, &command->in.archive.rev);
    json_read_str(&reader, "reason", REASON_BYTES_MAX, &command->in.archive.reason);
    if (call->err.code == ERR_none && str_trim(command->in.archive.reason).len == 0)
        err_item(&call->err, ERR_invalid, STR("/reason"), "'reason' is required");
    if (!call_read_done(call, &reader))
        return false;
    if (skip_is_early(call, &view, command->in.archive.rev))
        return call_refuse(call, ERR_conflict,
            "revision %lld isn't in the repository of '%.*s' yet (the youngest is %lld): there is nothing to skip",
            (long long)command->in.archive.rev, STR_ARG(view.lane.name), (long long)view.archive.youngest);
    command->kind = CMD_ARCHIVE_SKIP;
    command->in.archive.name = view.lane.name;
    return call_submit(call, revision_skipped);
}
