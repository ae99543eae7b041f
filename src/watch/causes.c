/* causes: what hints say of revisions: the key of the task whose job committed it, and its transaction.
 *
 * Owns the causes of an archive, under watch->lock. A cause that is there before its revision is read goes into the
 * revision's command. A later one (its hook was slow, or another server read the revision first) becomes a command of
 * the next batch, once; the engine decides whether to believe it. In git a hint names a commit and means also the
 * commits before it that came with it, unless another hint names them.
 *
 * Fails when the store can't be read; the causes stay as they were. */
#include <string.h>

#include "io/clock.h"
#include "store/read.h"
#include "watch/follow.h"

enum { TIDY_MS = 1000, CAUSE_WAIT_MAX_MS = 10000 };

static void cause_release(struct cause *cause)
{
    mem_free(cause->key);
    mem_free(cause->txn);
}

static bool cause_is(const struct cause *cause, int64_t rev, struct str commit)
{
    return commit.len > 0 ? str_eqz(commit, cause->commit) : rev > 0 && cause->rev == rev && cause->commit[0] == '\0';
}

static struct cause *cause_find(struct follow *follow, int64_t rev, struct str commit)
{
    for (size_t i = 0; i < follow->causes.n; i++)
        if (cause_is(&follow->causes.items[i], rev, commit))
            return &follow->causes.items[i];
    return NULL;
}

static struct cause *cause_new(struct follow *follow, int64_t rev, struct str commit)
{
    if (follow->causes.n == CAUSES_MAX) { /* drop the oldest */
        cause_release(&follow->causes.items[0]);
        memmove(follow->causes.items, follow->causes.items + 1, sizeof *follow->causes.items * (CAUSES_MAX - 1));
        follow->causes.n--;
    }
    struct cause *cause = &follow->causes.items[follow->causes.n++];
    *cause = (struct cause){ .rev = commit.len > 0 ? 0 : rev, .key = str_keep(STR("")), .txn = str_keep(STR("")) };
    if (commit.len > 0)
        memcpy(cause->commit, commit.ptr, commit.len);
    return cause;
}

static void text_fill(struct cause *cause, char **text, struct str said)
{
    if (said.len == 0 || (*text)[0] != '\0')
        return;
    mem_free(*text);
    *text = str_keep(said);
    cause->settled = false;
}

void causes_add(struct follow *follow, const struct watch_hint *hint)
{
    bool git = follow->kind == ARCHIVE_GIT;
    struct str commit = git && hint->commit.len < IDENT_BYTES ? hint->commit : (struct str){ 0 };
    if (git ? commit.len == 0 : hint->rev <= 0)
        follow->causes.wait_until = 0; /* the hint means every new revision */
    if (git && commit.len == 0) {      /* its cause is for the commits found next */
        if (hint->cause.len == 0)
            return;
        mem_free(follow->causes.head);
        follow->causes.head = str_keep(hint->cause);
        follow->causes.head_at++;
        return;
    }
    if (!git && hint->rev <= 0)
        return;
    struct cause *cause = cause_find(follow, hint->rev, commit);
    if (cause != NULL && git)
        return; /* the first hint counts: the hook of a push to another branch may name a commit that isn't its own */
    if (cause == NULL)
        cause = cause_new(follow, hint->rev, commit);
    cause->at = clock_boot_ms();
    text_fill(cause, &cause->key, hint->cause);
    text_fill(cause, &cause->txn, hint->txn);
}

void causes_release(struct follow *follow)
{
    for (size_t i = 0; i < follow->causes.n; i++)
        cause_release(&follow->causes.items[i]);
    follow->causes.n = 0;
    mem_free(follow->causes.head);
    follow->causes.head = NULL;
}

/* --- the thread pool's side --- */

bool causes_awaited(struct follow *follow, int64_t youngest, int64_t *out_rev)
{
    pthread_mutex_lock(&follow->watch->lock);
    bool hold = follow->causes.wait_until > clock_boot_ms();
    if (hold)
        *out_rev = 0;
    for (size_t i = 0; hold && i < follow->causes.n; i++)
        if (follow->causes.items[i].rev > *out_rev && follow->causes.items[i].rev <= youngest)
            *out_rev = follow->causes.items[i].rev;
    pthread_mutex_unlock(&follow->watch->lock);
    return hold;
}

void causes_wait_over(struct follow *follow)
{
    pthread_mutex_lock(&follow->watch->lock);
    follow->causes.wait_until = 0;
    pthread_mutex_unlock(&follow->watch->lock);
}

bool causes_pending(struct follow *follow)
{
    bool now = false, later = false;
    pthread_mutex_lock(&follow->watch->lock);
    now = follow->causes.head != NULL;
    for (size_t i = 0; i < follow->causes.n; i++) {
        const struct cause *cause = &follow->causes.items[i];
        if (cause->settled)
            continue;
        bool txn = cause->txn[0] != '\0',
             due = cause->key[0] != '\0' || (txn && clock_boot_ms() - cause->at >= TIDY_MS);
        now |= due;
        later |= !due && txn;
    }
    pthread_mutex_unlock(&follow->watch->lock);
    follow->tidy = later;
    return now;
}

bool causes_find(struct follow *follow, struct arena *arena, int64_t rev, struct str commit, struct cause_text *out)
{
    pthread_mutex_lock(&follow->watch->lock);
    const struct cause *cause = cause_find(follow, rev, commit);
    *out = (struct cause_text){ 0 };
    if (cause != NULL) {
        out->cause = str_dup(arena, str_of(cause->key));
        out->txn = str_dup(arena, str_of(cause->txn));
    }
    pthread_mutex_unlock(&follow->watch->lock);
    return cause != NULL;
}

/* wait_longer: a hook's hint was so much too late; from now on scans wait twice as long. */
static void wait_longer(struct follow *follow, int64_t late_ms)
{
    int64_t wish = 2 * (late_ms > 0 ? late_ms : 0) + CAUSE_WAIT_MS;
    pthread_mutex_lock(&follow->watch->lock);
    if (wish > follow->causes.wait_ms)
        follow->causes.wait_ms = wish < CAUSE_WAIT_MAX_MS ? wish : CAUSE_WAIT_MAX_MS;
    pthread_mutex_unlock(&follow->watch->lock);
}

static void late_add(struct batch *batch, int64_t rev, const struct cause_text *said)
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
    const struct cause_text *said, struct err *err)
{
    int64_t noted = 0;
    for (bool first = true; rev > 0 && follow->batch->n_late < LATE_MAX; rev--, first = false) {
        struct revision row = { 0 };
        struct cause_text other;
        bool found = false;
        if (!reader_revision(reader, arena, follow->lane, rev, &row, &found, err))
            return false;
        if (!found ||
            (!first && (row.noted != noted || row.cause > 0 || causes_find(follow, arena, 0, row.ident, &other))))
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

bool causes_settle_head(struct follow *follow, struct reader *reader, struct arena *arena, struct str commit,
    struct str cause, struct err *err)
{
    struct cause_text other, said = { .cause = cause };
    int64_t rev = 0;
    if (commit.len == 0 || causes_find(follow, arena, 0, commit, &other))
        return true;
    return reader_revision_of_ident(reader, follow->lane, commit, &rev, err) &&
           late_give(follow, reader, arena, rev, &said, err);
}

static void cause_settle(struct follow *follow, const struct cause *copy)
{
    pthread_mutex_lock(&follow->watch->lock);
    struct cause *cause = cause_find(follow, copy->rev, str_of(copy->commit));
    if (cause != NULL && cause->at == copy->at)
        cause->settled = true;
    pthread_mutex_unlock(&follow->watch->lock);
}

bool causes_settle(struct follow *follow, struct reader *reader, struct arena *arena, int64_t next, struct err *err)
{
    struct cause *causes = ARENA_ARRAY(arena, struct cause, CAUSES_MAX);
    size_t n = 0;
    pthread_mutex_lock(&follow->watch->lock);
    for (size_t i = 0; i < follow->causes.n; i++) {
        const struct cause *cause = &follow->causes.items[i];
        if (cause->settled || (cause->commit[0] == '\0' && cause->rev >= next))
            continue;
        causes[n] = *cause;
        causes[n].key = str_dupz(arena, str_of(cause->key));
        causes[n++].txn = str_dupz(arena, str_of(cause->txn));
    }
    pthread_mutex_unlock(&follow->watch->lock);
    for (size_t i = 0; i < n && follow->batch->n_late < LATE_MAX; i++) {
        struct cause_text said = { str_of(causes[i].key), str_of(causes[i].txn) };
        int64_t rev = causes[i].rev;
        if (causes[i].commit[0] != '\0' &&
            !reader_revision_of_ident(reader, follow->lane, str_of(causes[i].commit), &rev, err))
            return false;
        if (rev > 0 && !late_give(follow, reader, arena, rev, &said, err))
            return false;
        /* a commit without a number gets its cause when it gets its number, or is of another branch */
        cause_settle(follow, &causes[i]);
    }
    return true;
}
