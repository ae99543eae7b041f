/* scan: one scan of a repository, on a thread of the pool: reads which revision is the youngest and how far the store
 * is, then the revisions between.
 *
 * Owns nothing beyond the scan. Promises that a batch begins at the first revision that the store doesn't know and has
 * no gaps: svn by number, git along first parents, oldest first, with numbers that continue after the last one given.
 * Each scan asks the store how far it is, so a revision whose command was lost is read again.
 *
 * Fails with SCAN_FAULT and a text that names place and cause; the next scan opens the repository again. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "io/clock.h"
#include "store/read.h"
#include "watch/follow.h"

struct scan {
    struct follow *follow;
    struct reader *reader;
    struct arena arena;
    struct archive row;
    struct source_ident youngest;
    int64_t began;
    char *head_cause; /* as it was when the scan began; in the arena */
    uint64_t head_cause_at;
    struct err *err; /* the follow's */
};

void follow_source_close(struct follow *follow)
{
    if (follow->source == NULL)
        return;
    source_close(follow->source);
    follow->source = NULL;
    atomic_fetch_sub(&follow->watch->sources_open, 1);
}

/* gone_say: the repository was there when the archive was added, so the message isn't that the path is wrong. */
static void gone_say(const struct follow *follow, struct err *err)
{
    char path[4200];
    snprintf(path, sizeof path, "%.*s", STR_ARG(follow->url));
    if (!follow->served && access(path, F_OK) != 0 && errno == ENOENT)
        err_set(
            err, ERR_not_found, "%s: the repository isn't there any more; put it back, or remove the archive", path);
}

static bool source_ready(struct follow *follow, struct err *err)
{
    if (follow->source != NULL)
        return true;
    follow->source = source_open(follow->kind, follow->url, follow->branch, err);
    if (follow->source == NULL) {
        gone_say(follow, err);
        return false;
    }
    atomic_fetch_add(&follow->watch->sources_open, 1);
    struct str place = source_place(follow->source);
    pthread_mutex_lock(&follow->watch->lock);
    if (follow->place == NULL && !follow->served)
        follow->place = str_keep(place);
    pthread_mutex_unlock(&follow->watch->lock);
    return true;
}

static void youngest_note(struct follow *follow, int64_t rev, struct str tip)
{
    pthread_mutex_lock(&follow->watch->lock);
    follow->status.youngest = rev;
    size_t len = tip.len < IDENT_BYTES ? tip.len : 0;
    if (len > 0)
        memcpy(follow->status.tip, tip.ptr, len);
    follow->status.tip[len] = '\0';
    pthread_mutex_unlock(&follow->watch->lock);
}

static bool is_caught(const struct follow *follow, struct source_ident youngest)
{
    return follow->caught && (follow->kind == ARCHIVE_SVN ? follow->caught_rev == youngest.rev
                                                          : str_eqz(youngest.id, follow->caught_tip));
}

static void caught_set(struct follow *follow, struct source_ident youngest)
{
    ASSERT(youngest.id.len < IDENT_BYTES);
    follow->caught = true;
    follow->caught_rev = youngest.rev;
    if (youngest.id.len > 0)
        memcpy(follow->caught_tip, youngest.id.ptr, youngest.id.len);
    follow->caught_tip[youngest.id.len] = '\0';
}

static bool batch_is_full(const struct scan *scan)
{
    const struct batch *batch = scan->follow->batch;
    size_t n = batch->n - batch->n_late;
    if (n == 0) /* however long it took to get here */
        return false;
    return n >= BATCH_REVISIONS_MAX || batch->arena.used_bytes >= BATCH_BYTES_MAX ||
           clock_boot_ms() - scan->began >= BATCH_MS_MAX;
}

/* --- causes that hints brought --- */

static void head_cause_read(struct scan *scan)
{
    struct follow *follow = scan->follow;
    pthread_mutex_lock(&follow->watch->lock);
    scan->head_cause_at = follow->causes.head_at;
    if (follow->causes.head != NULL)
        scan->head_cause = str_dupz(&scan->arena, str_of(follow->causes.head));
    pthread_mutex_unlock(&follow->watch->lock);
}

/* head_cause_spend: every commit is read, so the hint about HEAD has done its work, unless a newer one came
 * meanwhile. */
static void head_cause_spend(struct scan *scan)
{
    struct follow *follow = scan->follow;
    pthread_mutex_lock(&follow->watch->lock);
    if (follow->causes.head_at == scan->head_cause_at) {
        mem_free(follow->causes.head);
        follow->causes.head = NULL;
    }
    pthread_mutex_unlock(&follow->watch->lock);
}

/* --- Subversion: the numbers are the repository's --- */

static bool svn_scan(struct scan *scan)
{
    struct follow *follow = scan->follow;
    int64_t youngest = scan->youngest.rev;
    youngest_note(follow, youngest, (struct str){ 0 });
    if (youngest < scan->row.youngest && scan->row.youngest >= scan->row.first)
        return err_set(scan->err, ERR_conflict,
            "%.*s ends at revision %lld, but revision %lld was there before: it was replaced, or restored from an "
            "older copy",
            STR_ARG(follow->url), (long long)youngest, (long long)scan->row.youngest);
    int64_t rev = scan->row.next, upto = youngest;
    if (causes_awaited(follow, youngest, &upto) && upto >= youngest)
        causes_wait_over(follow);
    for (; rev <= upto && !batch_is_full(scan); rev++) {
        struct cause_text said;
        causes_find(follow, &scan->arena, rev, (struct str){ 0 }, &said);
        struct batch_item item = { .rev = rev, .cause = said.cause, .txn = said.txn };
        if (!batch_add(follow->batch, &item, scan->err))
            break;
    }
    if (follow->batch->n == 0 && rev <= upto)
        return false;
    follow->left = youngest - rev + 1;
    return true;
}

/* --- git: numbers are given here, once --- */

struct known_context {
    struct scan *scan;
    bool failed;
};

static bool is_known(void *context, struct str id)
{
    struct known_context *known = context;
    struct scan *scan = known->scan;
    int64_t rev = 0;
    if (str_eq(id, scan->row.tip)) /* may have no number: an archive begins after it */
        return true;
    if (!known->failed && !reader_revision_of_ident(scan->reader, scan->follow->lane, id, &rev, scan->err))
        known->failed = true;
    return rev > 0 || known->failed; /* after a failure the walk has no use */
}

static bool number_of(struct scan *scan, const struct batch *batch, struct str id, int64_t *out_rev, struct err *err)
{
    for (size_t i = batch->n; i > 0; i--) /* the one just before is the first parent, as a rule */
        if (str_eq(batch->commands[i - 1].in.revision.row.ident, id)) {
            *out_rev = batch->commands[i - 1].in.revision.row.rev;
            return true;
        }
    return reader_revision_of_ident(scan->reader, scan->follow->lane, id, out_rev, err);
}

/* parents_find: PREV of a merge is every parent that has a number; if none has, the last number given. */
static bool parents_find(void *context, struct batch *batch, const struct source_revision *revision,
    struct batch_item *item, struct err *err)
{
    struct scan *scan = context;
    int64_t *prevs = ARENA_ARRAY(&batch->arena, int64_t, revision->n_parents + 1);
    size_t n = 0;
    for (size_t i = 0; i < revision->n_parents; i++) {
        int64_t rev = 0;
        if (!number_of(scan, batch, revision->parents[i], &rev, err))
            return false;
        bool doubled = rev == 0 || rev >= item->rev;
        for (size_t k = 0; k < n; k++)
            doubled |= prevs[k] == rev;
        if (!doubled)
            prevs[n++] = rev;
    }
    if (n == 0 && item->rev > scan->row.first)
        prevs[n++] = item->rev - 1;
    item->prevs = prevs;
    item->n_prevs = n;
    return true;
}

static bool git_add(struct scan *scan, int64_t rev, struct str ident, struct str cause, bool rewritten)
{
    struct batch_item item = {
        .rev = rev, .ident = ident, .rewritten = rewritten, .cause = cause, .prevs_find = parents_find, .context = scan
    };
    return batch_add(scan->follow->batch, &item, scan->err);
}

/* causes_spread: a cause applies to its commit and to the commits before it, up to one that another cause names. */
static struct str *causes_spread(struct scan *scan, const struct str *ids, size_t n)
{
    struct str *causes = ARENA_ARRAY(&scan->arena, struct str, n + 1), cause = str_of(scan->head_cause);
    struct cause_text said;
    for (size_t i = n; i > 0; i--) {
        if (causes_find(scan->follow, &scan->arena, 0, ids[i - 1], &said))
            cause = said.cause;
        causes[i - 1] = cause;
    }
    return causes;
}

/* git_heal: a number is missing because the engine refused its command and accepted the commands after it. Each commit
 * of a batch is the first parent of the next, so walking back from the number after the gap leads to the missing
 * one. */
static bool git_heal(struct scan *scan)
{
    struct follow *follow = scan->follow;
    int64_t above = scan->row.next + 1;
    struct revision row = { 0 };
    bool found = false;
    for (; above <= scan->row.youngest && !found; above++)
        if (!reader_revision(scan->reader, &scan->arena, follow->lane, above, &row, &found, scan->err))
            return false;
    if (!found || row.ident.len == 0)
        return err_set(scan->err, ERR_corrupt, "revision %lld is missing, and nothing says which commit it was",
            (long long)scan->row.next);
    struct str ident = row.ident;
    for (int64_t rev = row.rev - 1; rev >= scan->row.next; rev--) {
        struct source_revision revision = { 0 };
        if (!source_revision_read(
                follow->source, &scan->arena, (struct source_ident){ 0, ident }, &revision, scan->err))
            return false;
        if (revision.n_parents == 0)
            return err_set(scan->err, ERR_corrupt, "revision %lld is missing, and commit %.*s has no parent",
                (long long)rev, STR_ARG(ident));
        ident = revision.parents[0];
    }
    follow->left = scan->row.youngest - scan->row.next;
    return git_add(scan, scan->row.next, ident, causes_spread(scan, &ident, 1)[0], false);
}

/* commits_spoken: how many of them may be read: all, or, while a hint is awaited, those up to the last that a cause
 * names. */
static size_t commits_spoken(struct scan *scan, const struct source_commits *commits)
{
    struct cause_text ignored;
    int64_t rev = 0;
    size_t n = commits->n;
    if (!causes_awaited(scan->follow, 0, &rev))
        return n;
    while (n > 0 && !causes_find(scan->follow, &scan->arena, 0, commits->ids[n - 1], &ignored))
        n--;
    if (n == commits->n && commits->left == 0)
        causes_wait_over(scan->follow);
    return n;
}

/* skips_count: how many numbers just before the next one `weir archive skip` gave up without a commit: so many
 * unreadable commits may be passed over. A readable commit takes the next number: a skip loses nothing. */
static bool skips_count(struct scan *scan, size_t *out)
{
    *out = 0;
    for (int64_t rev = scan->row.next - 1; rev >= scan->row.first; rev--, ++*out) {
        struct revision row = { 0 };
        bool found = false;
        if (!reader_revision(scan->reader, &scan->arena, scan->follow->lane, rev, &row, &found, scan->err))
            return false;
        if (!found || row.state != REVISION_SKIPPED || row.ident.len > 0)
            break;
    }
    return true;
}

static bool git_scan(struct scan *scan)
{
    struct follow *follow = scan->follow;
    struct known_context context = { .scan = scan };
    struct source_known known = { is_known, &context, scan->row.tip };
    struct source_commits commits = { 0 };
    youngest_note(follow, scan->row.youngest, scan->youngest.id);
    if (scan->row.youngest >= scan->row.next)
        return git_heal(scan);
    if (!source_new_commits(follow->source, &scan->arena, &known, &commits, scan->err) || context.failed)
        return false;
    if (commits.n == 0 && scan->head_cause != NULL)
        return causes_settle_head(
            follow, scan->reader, &scan->arena, scan->youngest.id, str_of(scan->head_cause), scan->err);
    const struct str *causes = causes_spread(scan, commits.ids, commits.n);
    size_t i = 0, upto = commits_spoken(scan, &commits), skips, passed = 0;
    if (!skips_count(scan, &skips))
        return false;
    for (; i < upto && !batch_is_full(scan); i++) {
        if (git_add(
                scan, scan->row.next + (int64_t)(i - passed), commits.ids[i], causes[i], i == 0 && commits.rewritten))
            continue;
        if (passed == skips || scan->err->code != ERR_corrupt)
            break;
        *scan->err = (struct err){ 0 };
        passed++;
    }
    if (follow->batch->n == 0 && i < upto)
        return false;
    follow->left = (int64_t)(commits.n - i + commits.left);
    return true;
}

/* --- the scan --- */

/* next_is_ours: is the next revision to be read here? false also when the engine has it already and is making its tasks
 * turn by turn. */
static bool next_is_ours(struct scan *scan)
{
    struct follow *follow = scan->follow;
    struct revision row = { 0 };
    bool found = false;
    if (scan->row.youngest < scan->row.next)
        return true;
    if (!reader_revision(scan->reader, &scan->arena, follow->lane, scan->row.next, &row, &found, scan->err))
        return false;
    if (found)
        follow->asked_next = 0;
    follow->soon = found;
    return !found;
}

static bool scan_read(struct scan *scan, struct pool_worker *worker)
{
    struct follow *follow = scan->follow;
    struct archive_view view = { 0 };
    bool found = false;
    scan->reader = pool_reader(worker, scan->err);
    if (scan->reader == NULL ||
        !reader_archive(scan->reader, &scan->arena, follow->tenant, follow->name, &view, &found, scan->err))
        return false;
    scan->row = view.archive;
    if (!found || view.archive.removed > 0 || view.archive.lane != follow->lane)
        return true; /* the loop's side will learn that the archive is gone */
    if (!next_is_ours(scan))
        return scan->err->code == ERR_none;
    if (follow->asked_next > 0 && follow->asked_next == view.archive.next) {
        follow->asked_next = 0;
        return err_set(scan->err, ERR_conflict, "revision %lld was handed over but isn't initialised",
            (long long)view.archive.next);
    }
    follow->asked_next = 0;
    follow->left = 0;
    ASSERT(follow->batch == NULL);
    follow->batch = batch_new(follow);
    if (!causes_settle(follow, scan->reader, &scan->arena, view.archive.next, scan->err))
        return false;
    bool read = follow->kind == ARCHIVE_SVN ? svn_scan(scan) : git_scan(scan);
    if (!read && follow->batch->n_late == 0)
        return false;               /* else late causes are sent alone, and the next scan reports the fault */
    *scan->err = (struct err){ 0 }; /* of a revision that comes first in the next scan, which reports it */
    if (follow->batch->n > follow->batch->n_late) {
        follow->asked_next = view.archive.next;
    } else if (read && follow->left == 0) {
        caught_set(follow, scan->youngest);
        head_cause_spend(scan);
    }
    if (follow->batch->n == 0)
        return true;
    follow->end = SCAN_BATCH;
    return true;
}

static bool scan_run(struct scan *scan, struct pool_worker *worker)
{
    struct follow *follow = scan->follow;
    if (!source_ready(follow, scan->err))
        return false;
    head_cause_read(scan);
    if (follow->asked_next == 0) /* not in the middle of an import */
        inotify_follow(follow);
    if (!source_youngest(follow->source, &scan->arena, &scan->youngest, scan->err))
        return false;
    bool late = causes_pending(follow);
    if (is_caught(follow, scan->youngest) && !late)
        return true;
    return scan_read(scan, worker);
}

void scan_work(struct pool_job *job, struct pool_worker *worker)
{
    struct follow *follow = CONTAINER_OF(job, struct follow, job);
    struct scan scan = { .follow = follow, .began = clock_boot_ms(), .err = &follow->err };
    follow->err = (struct err){ 0 };
    follow->end = SCAN_IDLE;
    follow->soon = false;
    if (!scan_run(&scan, worker)) {
        ASSERT(follow->err.code != ERR_none);
        follow->end = SCAN_FAULT;
        follow->caught = false;
        follow->asked_next = 0;
    }
    if (follow->end != SCAN_BATCH && follow->batch != NULL) {
        batch_free(follow->batch);
        follow->batch = NULL;
    }
    bool many = atomic_load(&follow->watch->sources_open) > SOURCES_OPEN_MAX;
    if (follow->end == SCAN_FAULT || (follow->end == SCAN_IDLE && (follow->served || many)))
        follow_source_close(follow);
    arena_release(&scan.arena);
}
