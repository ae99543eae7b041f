/* marks: what hints said of revisions: whose job made them, of which transaction they are.
 *
 * Owns the marks of an archive, under watch->lock. A mark that is there before its revision is read goes along with it.
 * One that comes after (a hook that was slow, another server that was quicker) becomes a command of the next batch,
 * once: whether it may still be believed is the engine's to decide. Of git a mark means a commit and those before it
 * that came with it and that nobody spoke of.
 *
 * Fails when the store can't be read; the marks are as they were then. */
#include <string.h>

#include "io/clock.h"
#include "store/read.h"
#include "watch/follow.h"

enum { TIDY_MS = 1000, SETTLE_MAX_MS = 10000 };

static void mark_release(struct mark *mark)
{
    mem_free(mark->cause);
    mem_free(mark->txn);
}

static bool mark_is(const struct mark *mark, int64_t rev, struct str commit)
{
    return commit.len > 0 ? str_eqz(commit, mark->commit) : rev > 0 && mark->rev == rev && mark->commit[0] == '\0';
}

static struct mark *mark_find(struct follow *follow, int64_t rev, struct str commit)
{
    for (size_t i = 0; i < follow->n_marks; i++)
        if (mark_is(&follow->marks[i], rev, commit))
            return &follow->marks[i];
    return NULL;
}

static struct mark *mark_new(struct follow *follow, int64_t rev, struct str commit)
{
    if (follow->n_marks == MARKS_MAX) { /* the oldest gives way */
        mark_release(&follow->marks[0]);
        memmove(follow->marks, follow->marks + 1, sizeof *follow->marks * (MARKS_MAX - 1));
        follow->n_marks--;
    }
    struct mark *mark = &follow->marks[follow->n_marks++];
    *mark = (struct mark){ .rev = commit.len > 0 ? 0 : rev, .cause = str_keep(STR("")), .txn = str_keep(STR("")) };
    if (commit.len > 0)
        memcpy(mark->commit, commit.ptr, commit.len);
    return mark;
}

static void text_fill(struct mark *mark, char **text, struct str said)
{
    if (said.len == 0 || (*text)[0] != '\0')
        return;
    mem_free(*text);
    *text = str_keep(said);
    mark->settled = false;
}

void marks_take(struct follow *follow, const struct watch_hint *hint)
{
    bool git = follow->kind == ARCHIVE_GIT;
    struct str commit = git && hint->commit.len < IDENT_BYTES ? hint->commit : (struct str){ 0 };
    if (git ? commit.len == 0 : hint->rev <= 0)
        follow->quiet_until = 0;  /* it speaks of all there is */
    if (git && commit.len == 0) { /* of whatever is found next */
        if (hint->cause.len == 0)
            return;
        mem_free(follow->head_cause);
        follow->head_cause = str_keep(hint->cause);
        follow->head_cause_at++;
        return;
    }
    if (!git && hint->rev <= 0)
        return;
    struct mark *mark = mark_find(follow, hint->rev, commit);
    if (mark != NULL && git)
        return; /* the first counts: a push of something else may find the branch as another left it */
    if (mark == NULL)
        mark = mark_new(follow, hint->rev, commit);
    mark->at = clock_boot_ms();
    text_fill(mark, &mark->cause, hint->cause);
    text_fill(mark, &mark->txn, hint->txn);
}

void marks_release(struct follow *follow)
{
    for (size_t i = 0; i < follow->n_marks; i++)
        mark_release(&follow->marks[i]);
    follow->n_marks = 0;
    mem_free(follow->head_cause);
    follow->head_cause = NULL;
}

/* --- the crew's side --- */

bool marks_hold(struct follow *follow, int64_t youngest, int64_t *out_rev)
{
    pthread_mutex_lock(&follow->watch->lock);
    bool hold = follow->quiet_until > clock_boot_ms();
    if (hold)
        *out_rev = 0;
    for (size_t i = 0; hold && i < follow->n_marks; i++)
        if (follow->marks[i].rev > *out_rev && follow->marks[i].rev <= youngest)
            *out_rev = follow->marks[i].rev;
    pthread_mutex_unlock(&follow->watch->lock);
    return hold;
}

void marks_quiet_over(struct follow *follow)
{
    pthread_mutex_lock(&follow->watch->lock);
    follow->quiet_until = 0;
    pthread_mutex_unlock(&follow->watch->lock);
}

bool marks_wait(struct follow *follow)
{
    bool now = false, later = false;
    pthread_mutex_lock(&follow->watch->lock);
    now = follow->head_cause != NULL;
    for (size_t i = 0; i < follow->n_marks; i++) {
        const struct mark *mark = &follow->marks[i];
        if (mark->settled)
            continue;
        bool txn = mark->txn[0] != '\0', due = mark->cause[0] != '\0' || (txn && clock_boot_ms() - mark->at >= TIDY_MS);
        now |= due;
        later |= !due && txn;
    }
    pthread_mutex_unlock(&follow->watch->lock);
    follow->tidy = later;
    return now;
}

bool marks_find(struct follow *follow, struct arena *arena, int64_t rev, struct str commit, struct mark_text *out)
{
    pthread_mutex_lock(&follow->watch->lock);
    const struct mark *mark = mark_find(follow, rev, commit);
    *out = (struct mark_text){ 0 };
    if (mark != NULL) {
        out->cause = str_dup(arena, str_of(mark->cause));
        out->txn = str_dup(arena, str_of(mark->txn));
    }
    pthread_mutex_unlock(&follow->watch->lock);
    return mark != NULL;
}

/* wait_longer: a hook was that much too late; the next one is given twice the time. */
static void wait_longer(struct follow *follow, int64_t late_ms)
{
    int64_t wish = 2 * (late_ms > 0 ? late_ms : 0) + SETTLE_MS;
    pthread_mutex_lock(&follow->watch->lock);
    if (wish > follow->settle_ms)
        follow->settle_ms = wish < SETTLE_MAX_MS ? wish : SETTLE_MAX_MS;
    pthread_mutex_unlock(&follow->watch->lock);
}

static void late_add(struct batch *batch, int64_t rev, const struct mark_text *said)
{
    struct command *command = &batch->commands[batch->n++];
    struct actor watch = { STR("watch"), str_dup(&batch->arena, batch->follow->tenant) };
    *command = (struct command){ .kind = CMD_CAUSE, .actor = watch, .arena = &batch->arena };
    command->in.revision.archive = str_dup(&batch->arena, batch->follow->name);
    command->in.revision.row =
        (struct revision){ .lane = batch->follow->lane, .rev = rev, .txn = str_dup(&batch->arena, said->txn) };
    command->in.revision.cause = str_dup(&batch->arena, said->cause);
    batch->n_late++;
}

/* late_give: to the revision, if it lacks what was said; of git also to those that came with it and that nobody spoke
 * of. */
static bool late_give(struct follow *follow, struct reader *reader, struct arena *arena, int64_t rev,
    const struct mark_text *said, struct err *err)
{
    int64_t noted = 0;
    for (bool first = true; rev > 0 && follow->batch->n_late < LATE_MAX; rev--, first = false) {
        struct revision row = { 0 };
        struct mark_text other;
        bool found = false;
        if (!reader_revision(reader, arena, follow->lane, rev, &row, &found, err))
            return false;
        if (!found ||
            (!first && (row.noted != noted || row.cause > 0 || marks_find(follow, arena, 0, row.ident, &other))))
            return true;
        bool cause = said->cause.len > 0 && row.cause == 0, txn = said->txn.len > 0 && row.txn.len == 0;
        if (cause)
            wait_longer(follow, clock_wall_ms() - row.noted);
        if (cause || txn)
            late_add(follow->batch, rev, said);
        if (follow->kind != ARCHIVE_GIT || !cause)
            return true;
        noted = row.noted;
    }
    return true;
}

bool marks_settle_head(struct follow *follow, struct reader *reader, struct arena *arena, struct str commit,
    struct str cause, struct err *err)
{
    struct mark_text other, said = { .cause = cause };
    int64_t rev = 0;
    if (commit.len == 0 || marks_find(follow, arena, 0, commit, &other))
        return true;
    return reader_revision_of_ident(reader, follow->lane, commit, &rev, err) &&
           late_give(follow, reader, arena, rev, &said, err);
}

static void mark_settle(struct follow *follow, const struct mark *copy)
{
    pthread_mutex_lock(&follow->watch->lock);
    struct mark *mark = mark_find(follow, copy->rev, str_of(copy->commit));
    if (mark != NULL && mark->at == copy->at)
        mark->settled = true;
    pthread_mutex_unlock(&follow->watch->lock);
}

bool marks_settle(struct follow *follow, struct reader *reader, struct arena *arena, int64_t next, struct err *err)
{
    struct mark *marks = ARENA_ARRAY(arena, struct mark, MARKS_MAX);
    size_t n = 0;
    pthread_mutex_lock(&follow->watch->lock);
    for (size_t i = 0; i < follow->n_marks; i++) {
        const struct mark *mark = &follow->marks[i];
        if (mark->settled || (mark->commit[0] == '\0' && mark->rev >= next))
            continue;
        marks[n] = *mark;
        marks[n].cause = str_dupz(arena, str_of(mark->cause));
        marks[n++].txn = str_dupz(arena, str_of(mark->txn));
    }
    pthread_mutex_unlock(&follow->watch->lock);
    for (size_t i = 0; i < n && follow->batch->n_late < LATE_MAX; i++) {
        struct mark_text said = { str_of(marks[i].cause), str_of(marks[i].txn) };
        int64_t rev = marks[i].rev;
        if (marks[i].commit[0] != '\0' &&
            !reader_revision_of_ident(reader, follow->lane, str_of(marks[i].commit), &rev, err))
            return false;
        if (rev > 0 && !late_give(follow, reader, arena, rev, &said, err))
            return false;
        /* a commit that has no number yet gets what was said with its number, or is of another branch */
        mark_settle(follow, &marks[i]);
    }
    return true;
}
