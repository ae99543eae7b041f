/* job_file: see job_file.h. */
#include "spool/job_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "text/changeset_meta.h"
#include "text/tai64n.h"

enum { NS_PER_MS = 1000000 };

/* --- the text --- */

int64_t job_time(const struct job_facts *facts)
{
    return facts->n_events > 0 ? facts->events[0].time : 0;
}

static void word_add(struct buf *out, struct str word)
{
    for (size_t i = 0; i < word.len; i++)
        buf_add_char(out, word.ptr[i] == ' ' || char_is_control(word.ptr[i]) ? '-' : word.ptr[i]);
    if (word.len == 0)
        buf_add_char(out, '-');
}

static void history_add(struct buf *out, const struct event *event)
{
    buf_addf(out, "%s %c ", tai64n_format(tai64n_from_ns(event->time * NS_PER_MS)).z, state_letter(event->to));
    word_add(out, event->actor);
    if (event->reason.len > 0)
        buf_add_char(out, ' ');
    for (size_t i = 0; i < event->reason.len; i++)
        buf_add_char(out, char_is_control(event->reason.ptr[i]) ? ' ' : event->reason.ptr[i]);
    buf_add_char(out, '\n');
}

static bool in_history(const struct event *event)
{
    return event->to != STATE_NONE && (event->kind == EVENT_created || event->kind == EVENT_move ||
                                          event->kind == EVENT_approved || event->kind == EVENT_promoted);
}

/* put: one section more; *text and the buffer that it stands in change places. */
static bool put(
    struct buf bufs[2], struct str *text, unsigned *n, enum meta_kind kind, struct str body, struct err *err)
{
    struct buf *to = &bufs[(*n)++ % 2];
    buf_reset(to);
    if (!changeset_meta_put(to, *text, meta_kind_name(kind), body, err))
        return false;
    *text = buf_str(to);
    return true;
}

bool job_text(struct buf *out, struct str meta, const struct job_facts *facts, struct err *err)
{
    char letter = state_letter(facts->state);
    struct buf bufs[2], history;
    struct str text = meta;
    unsigned n = 0;
    buf_init(&bufs[0], out->cap);
    buf_init(&bufs[1], out->cap);
    buf_init(&history, out->cap);
    for (size_t i = facts->n_events; i-- > 0;)
        if (in_history(&facts->events[i]))
            history_add(&history, &facts->events[i]);
    bool good = (facts->ticket.len == 0 || put(bufs, &text, &n, META_APPROVAL, facts->ticket, err)) &&
                (facts->precursors.len == 0 || put(bufs, &text, &n, META_PRECURSORS, facts->precursors, err)) &&
                put(bufs, &text, &n, META_CSID, facts->csid, err) &&
                put(bufs, &text, &n, META_STATE, (struct str){ &letter, 1 }, err) &&
                put(bufs, &text, &n, META_HISTORY, buf_str(&history), err);
    if (good)
        buf_add_str(out, text);
    if (good && out->full)
        good = err_set(err, ERR_body_too_large, "the job file is longer than %zu bytes", out->cap);
    buf_release(&bufs[0]);
    buf_release(&bufs[1]);
    buf_release(&history);
    return good;
}

/* --- its place --- */

static bool place_look(const struct folders *folders, const char *name, enum spool_folder folder, bool wanted,
    struct job_place *out, struct err *err)
{
    struct stat st;
    if (fstatat(folders->fds[folder], name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT || spool_fault(folders, folder, name, err);
    const char *why = entry_fault(&st, folder == FOLDER_PREQUEUE);
    if (why != NULL)
        return corrupt_move(folders, folder, name, str_of(why), err);
    if (out->is_there && !wanted)
        return folder == FOLDER_PREQUEUE ||
               corrupt_move(folders, folder, name, STR("the job file stands in another directory, too"), err);
    if (out->is_there &&
        !corrupt_move(folders, out->folder, name, STR("the job file stands in another directory, too"), err))
        return false;
    *out = (struct job_place){ .is_there = true, .folder = folder, .st = st };
    return true;
}

bool job_find(
    const struct folders *folders, const char *name, enum spool_folder wanted, struct job_place *out, struct err *err)
{
    *out = (struct job_place){ 0 };
    for (size_t i = FOLDER_QUEUE; i <= FOLDER_ABANDON; i++)
        if (!place_look(folders, name, (enum spool_folder)i, i == wanted, out, err))
            return false;
    return place_look(folders, name, FOLDER_PREQUEUE, false, out, err);
}

/* rename_new: what somebody has put into the new place goes to corrupt/. */
static bool rename_new(
    const struct folders *folders, enum spool_folder from, const char *name, enum spool_folder to, struct err *err)
{
    if (entry_rename(folders, from, name, to, name, false) == 0)
        return true;
    if (errno != EEXIST)
        return spool_fault(folders, from, name, err);
    if (!corrupt_move(folders, to, name, STR("in the way of a job file"), err))
        return false;
    return entry_rename(folders, from, name, to, name, false) == 0 || spool_fault(folders, from, name, err);
}

bool job_put(const struct folders *folders, const char *name, const struct job_place *place, enum spool_folder to,
    struct str text, int64_t mtime_ms, struct err *err)
{
    if (!tmp_write(folders, name, text, mtime_ms, err))
        return false;
    if (!place->is_there)
        return rename_new(folders, FOLDER_TMP, name, to, err);
    if (entry_rename(folders, FOLDER_TMP, name, place->folder, name, true) != 0)
        return spool_fault(folders, place->folder, name, err);
    return place->folder == to || rename_new(folders, place->folder, name, to, err);
}
