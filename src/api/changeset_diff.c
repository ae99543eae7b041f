/* changeset_diff: what a change set changes (GET /v1/changesets/{csid}/diff), as a unified diff: of the branch as it
 * is, or, once it is applied, as it was before it.
 *
 * Its tarball is copied from the kept files to a file in tmp/ without a name and compared with the repository on a
 * thread (spool/compare.c): at most as many as there is long work at a time, another is answered 503. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "api/answer.h"
#include "api/call.h"
#include "spool/intake.h"
#include "text/conf_changesets.h"

#define DIFF_BYTES_MAX (16 * MIB)
#define PIECE_BYTES (256 * KIB)

struct diff {
    struct api *api;
    struct conf_changesets rules;
    struct intake_place place;
    struct intake_diff_order order;
    struct changeset row;
    struct arena arena; /* the thread's */
    struct buf out;
    char hex[BLOB_HEX + 1];
};

static void diff_released(struct call *call)
{
    struct diff *diff = call->state;
    if (diff->order.tarball_fd >= 0)
        close(diff->order.tarball_fd);
    buf_release(&diff->out);
    arena_release(&diff->arena);
}

/* tarball_copy: from the kept files. Its hash is compared when it is unpacked. */
static bool tarball_copy(struct diff *diff, struct err *err)
{
    struct buf piece;
    int64_t offset = 0;
    bool good = true, more = true;
    buf_init(&piece, PIECE_BYTES);
    while (good && more) {
        buf_reset(&piece);
        good = blobs_read(diff->api->blobs, diff->hex, offset, PIECE_BYTES, &piece, err);
        more = piece.len > 0;
        if (good && more && pwrite(diff->order.tarball_fd, piece.ptr, piece.len, offset) != (ssize_t)piece.len)
            good = err_set(err, ERR_io, "a temporary file can't be written in tmp/");
        offset += (int64_t)piece.len;
    }
    buf_release(&piece);
    return good;
}

static bool diff_work(void *owner, struct err *err)
{
    struct diff *diff = owner;
    struct err own = { .arena = &diff->arena }; /* the caller's has no room for items */
    bool good =
        tarball_copy(diff, &own) && intake_diff(&diff->order, diff->api->tmp_dir, &diff->arena, &diff->out, &own);
    return good || err_set(err, own.code, "%s", own.text);
}

static bool diff_done(struct call *call, void *owner)
{
    struct diff *diff = owner;
    if (diff->out.full)
        return call_refuse(call, ERR_body_too_large,
            "the diff of %.*s is longer than %d MiB; its tarball has the files", STR_ARG(diff->row.csid),
            (int)(DIFF_BYTES_MAX / MIB));
    return call_answer_as(call, 200, "text/x-diff; charset=utf-8", buf_str(&diff->out), NULL);
}

static const struct background comparing = { .work = diff_work, .done = diff_done };

static bool diff_begin(struct call *call)
{
    struct diff *diff = call->state;
    diff->order.tarball_fd = intake_temp_file(call->api->tmp_dir, &call->err);
    if (diff->order.tarball_fd < 0)
        return call_problem(call);
    return background_start(call, &comparing, diff);
}

/* place_find: the repository of its target, if there is one to compare with. */
static bool place_find(struct call *call, struct diff *diff, struct str target_name)
{
    struct conf_target target;
    struct archive_view view = { 0 };
    bool found = false;
    engine_target(call->api->config.engine, target_name, &call->arena, &target);
    if (!reader_archive(
            call->api->config.reader, &call->arena, call->actor.tenant, target.archive, &view, &found, &call->err))
        return call_problem(call);
    bool repository = found && (view.archive.kind == ARCHIVE_SVN || view.archive.kind == ARCHIVE_GIT);
    if (target.n_apply > 0 || !repository)
        return call_refuse(call, ERR_not_found,
            "the target '%.*s' has no repository that change sets are compared with", STR_ARG(target_name));
    diff->place = (struct intake_place){ view.archive.kind, view.archive.url, view.archive.branch, target.path };
    return true;
}

bool serve_changesets_diff(struct call *call)
{
    static const uint8_t none[32];
    struct diff *diff = ARENA_NEW(&call->arena, struct diff);
    struct task_view view;
    struct blob blob;
    diff->api = call->api;
    diff->order.tarball_fd = -1;
    if (!call_changeset(call, &diff->row, &view))
        return false;
    if (memcmp(diff->row.hash, none, sizeof none) == 0)
        return call_refuse(call, ERR_not_found,
            "the change set %.*s brings no files: it is a rollback, and 'weir cs show' names what it undoes",
            STR_ARG(diff->row.csid));
    if (!place_find(call, diff, target_name(view.lane_name)))
        return false;
    for (size_t i = 0; i < sizeof diff->row.hash; i++)
        snprintf(diff->hex + 2 * i, 3, "%02x", diff->row.hash[i]);
    if (!blobs_find(call->api->blobs, str_of(diff->hex), &blob, &call->err))
        return call->err.code == ERR_not_found
                   ? call_refuse(call, ERR_not_found, "the tarball of %.*s isn't in this store any more",
                         STR_ARG(diff->row.csid))
                   : call_problem(call);
    engine_changesets(call->api->config.engine, &diff->rules);
    diff->order.sha256 = diff->row.hash;
    diff->order.limits = &diff->rules.limits;
    diff->order.place = &diff->place;
    diff->order.revision = diff->row.revision;
    if (!str_eqz(diff->row.base, "none")) /* as an executor records a branch without a commit */
        diff->order.before = diff->row.base;
    buf_init(&diff->out, DIFF_BYTES_MAX);
    call->state = diff;
    call->on_release = diff_released;
    return call_on_loop(call, diff_begin);
}
