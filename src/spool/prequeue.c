/* prequeue: see prequeue.h. */
#include "spool/prequeue.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/clock.h"
#include "io/log.h"
#include "store/read.h"

enum { PATIENCE_MS = 10000, LATER_MS = 1000, LIST_MAX = 1000000 };

struct seen_entry {
    char *name;
    int64_t since; /* boot ms */
    bool accepted; /* the projection takes it away */
    bool listed;   /* by the scan that goes on */
};

struct scan {
    struct prequeue *prequeue;
    struct spool_counts *counts;
    struct arena arena;
    struct arrival **entries; /* in the order of the sort key */
    size_t n;
    struct smap by_csid;    /* -> struct arrival */
    struct arrival **stack; /* entries under way: each waits for the one above */
    size_t n_stack;
    int64_t now;
    struct err *err;
    bool failed;
};

/* --- what is remembered of entries --- */

static struct seen_entry *seen_get(struct prequeue *prequeue, const char *name, int64_t now)
{
    struct seen_entry *seen = smap_find(&prequeue->seen, str_of(name));
    if (seen == NULL) {
        seen = mem_alloc_zero(sizeof *seen);
        *seen = (struct seen_entry){ .name = str_keep(str_of(name)), .since = now, .listed = true };
        smap_put(&prequeue->seen, str_of(seen->name), seen);
    }
    return seen;
}

static void seen_forget(struct prequeue *prequeue, const char *name)
{
    struct seen_entry *seen = smap_take(&prequeue->seen, str_of(name));
    if (seen == NULL)
        return;
    mem_free(seen->name);
    mem_free(seen);
}

/* seen_sweep: of those that don't lie there any more. */
static void seen_sweep(struct prequeue *prequeue)
{
    SMAP_EACH (&prequeue->seen, e) {
        struct seen_entry *seen = e->value;
        bool listed = seen->listed;
        seen->listed = false;
        if (!listed)
            seen_forget(prequeue, seen->name);
    }
}

static void scan_again(struct prequeue *prequeue, int64_t at)
{
    if (at < prequeue->next)
        prequeue->next = at;
}

/* --- the ends of an entry --- */

static void entry_corrupt(struct scan *scan, const char *name, struct str why)
{
    struct err err = { 0 };
    seen_forget(scan->prequeue, name);
    if (corrupt_move(scan->prequeue->folders, FOLDER_PREQUEUE, name, why, &err)) {
        scan->counts->corrupt++;
        return;
    }
    *scan->err = err;
    scan->failed = true;
}

static void entry_wait(struct scan *scan, struct arrival *entry, bool patient)
{
    struct prequeue *prequeue = scan->prequeue;
    struct seen_entry *seen = seen_get(prequeue, entry->name, scan->now);
    int64_t patience = prequeue->patience_ms > 0 ? prequeue->patience_ms : PATIENCE_MS;
    if (!patient && scan->now - seen->since >= patience) {
        entry_corrupt(scan, entry->name, entry->why);
        return;
    }
    scan->counts->waiting++;
    scan_again(prequeue, patient ? scan->now + LATER_MS : seen->since + patience);
    if (patient)
        log_warn("spool.later", "file=%s why=%s", log_quote(str_of(entry->name)).z, log_quote(entry->why).z);
}

/* entry_known: its content is a change set already, perhaps of another name. */
static void entry_known(struct scan *scan, struct arrival *entry)
{
    const struct folders *folders = scan->prequeue->folders;
    if (unlinkat(folders->fds[FOLDER_PREQUEUE], entry->name, 0) != 0 && errno != ENOENT) {
        scan->failed = !spool_fault(folders, FOLDER_PREQUEUE, entry->name, scan->err);
        return;
    }
    log_event("spool.known", "file=%s note=\"its content was submitted before; the entry is removed\"",
        log_quote(str_of(entry->name)).z);
    seen_forget(scan->prequeue, entry->name);
    scan->counts->known++;
}

/* --- taking --- */

static bool csid_known(struct scan *scan, struct str csid, int64_t *out_task)
{
    if (!reader_changeset_find(scan->prequeue->reader, STR(TENANT_DEFAULT), csid, out_task, scan->err))
        scan->failed = true;
    return *out_task > 0;
}

/* job_known: a rollback of this name is a change set: it has no content to be known by. */
static bool job_known(struct scan *scan, struct arrival *entry)
{
    static const uint8_t none[32];
    struct changeset row;
    int64_t task = 0;
    bool found = false;
    if (memcmp(entry->intake.def.hash, none, sizeof none) != 0 || !csid_known(scan, entry->parsed.csid, &task))
        return false;
    if (!reader_changeset(scan->prequeue->reader, &scan->arena, task, &row, &found, scan->err))
        scan->failed = true;
    return found && str_eqz(row.name, entry->name);
}

static void entry_submit(struct scan *scan, struct arrival *entry)
{
    struct prequeue *prequeue = scan->prequeue;
    struct err err = { .arena = &entry->arena };
    struct errand_answer answer = { 0 };
    if (job_known(scan, entry)) {
        entry_known(scan, entry);
        return;
    }
    if (scan->failed)
        return;
    bool good = errand_run(prequeue->errands, &entry->intake.def, &answer, &err);
    arrival_settle(entry, prequeue->blobs, good || err.code == ERR_outcome_unknown);
    if (!good && arrival_refused(entry, &err) == ARRIVAL_CORRUPT) {
        entry_corrupt(scan, entry->name, entry->why);
    } else if (!good) {
        entry_wait(scan, entry, true);
    } else if (answer.is_known) {
        entry_known(scan, entry);
    } else {
        seen_get(prequeue, entry->name, scan->now)->accepted = true;
        scan->counts->accepted++;
    }
}

/* cycle_refuse: every entry from `first` on the stack waits for the next one, and the last for it. */
static void cycle_refuse(struct scan *scan, const struct arrival *first)
{
    struct buf why;
    size_t from = scan->n_stack - 1;
    while (scan->stack[from] != first)
        from--;
    buf_init(&why, 4096);
    buf_add_z(&why, "the entries depend on each other in a circle: ");
    for (size_t i = from; i < scan->n_stack; i++)
        buf_addf(&why, "%.*s -> ", STR_ARG(scan->stack[i]->parsed.csid));
    buf_addf(&why, "%.*s", STR_ARG(first->parsed.csid));
    struct str text = str_dup(&scan->arena, buf_str(&why));
    for (size_t i = scan->n_stack; i-- > from;) {
        struct arrival *entry = scan->stack[i];
        entry->is_under_way = false;
        entry_corrupt(scan, entry->name, text);
        arrival_release(entry, scan->prequeue->blobs);
    }
    scan->n_stack = from;
    buf_release(&why);
}

/* entry_push: reads it; true: it is good, and on the stack. */
static bool entry_push(struct scan *scan, struct arrival *entry)
{
    struct prequeue *prequeue = scan->prequeue;
    entry->has_been_tried = true;
    switch (arrival_read(entry, prequeue->folders, &prequeue->limits, prequeue->blobs)) {
    case ARRIVAL_GOOD:
        entry->is_under_way = true;
        scan->stack[scan->n_stack++] = entry;
        return true;
    case ARRIVAL_GONE:
        break;
    case ARRIVAL_WAITS:
        entry_wait(scan, entry, false);
        break;
    case ARRIVAL_LATER:
        entry_wait(scan, entry, true);
        break;
    case ARRIVAL_CORRUPT:
        entry_corrupt(scan, entry->name, entry->why);
        break;
    }
    arrival_release(entry, prequeue->blobs);
    return false;
}

/* need_find: the first change set that the entry names and that isn't known; false: there is none. */
static bool need_find(struct scan *scan, struct arrival *entry, struct str *out)
{
    const struct changeset_def *def = &entry->intake.def;
    int64_t task = 0;
    for (size_t i = 0; i < def->n_depends + def->n_precursors && !scan->failed; i++) {
        *out = i < def->n_depends ? def->depends[i] : def->precursors[i - def->n_depends];
        if (!csid_known(scan, *out, &task) && !scan->failed)
            return true;
    }
    return false;
}

/* stack_step: the entry on top is submitted, or what it needs comes on top of it. */
static void stack_step(struct scan *scan)
{
    struct arrival *top = scan->stack[scan->n_stack - 1], *other = NULL;
    struct str need;
    bool waits = need_find(scan, top, &need);
    if (waits && (other = smap_find(&scan->by_csid, need)) != NULL) {
        if (other->is_under_way) {
            cycle_refuse(scan, other);
            return;
        }
        if (!other->has_been_tried) {
            (void)entry_push(scan, other);
            return;
        }
    }
    scan->n_stack--;
    top->is_under_way = false;
    if (waits) {
        top->why = str_fmt(&top->arena, "there is no change set '%.*s' that it names", STR_ARG(need));
        entry_wait(scan, top, false);
    } else if (!scan->failed) {
        entry_submit(scan, top);
    }
    arrival_release(top, scan->prequeue->blobs);
}

/* --- listing --- */

static int by_sort_key(const void *a, const void *b)
{
    const struct arrival *const *x = a, *const *y = b;
    return changeset_name_compare(&(*x)->parsed, &(*y)->parsed);
}

/* name_take: false: it isn't an entry to be read in this scan. */
static bool name_take(struct scan *scan, const char *name, struct changeset_name *out)
{
    struct err err = { 0 };
    struct stat st;
    struct seen_entry *seen = smap_find(&scan->prequeue->seen, str_of(name));
    if (seen != NULL)
        seen->listed = true;
    if (seen != NULL && seen->accepted)
        return false;
    if (fstatat(scan->prequeue->folders->fds[FOLDER_PREQUEUE], name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return false;
    const char *why = entry_fault(&st, true);
    if (why == NULL && !changeset_name_parse(str_of(name), out, &err))
        why = err.text;
    if (why != NULL)
        entry_corrupt(scan, name, str_of(why));
    return why == NULL;
}

static bool entries_list(struct scan *scan)
{
    char **names;
    size_t n;
    if (!folder_list(scan->prequeue->folders, FOLDER_PREQUEUE, LIST_MAX, &scan->arena, &names, &n, scan->err))
        return false;
    scan->entries = ARENA_ARRAY(&scan->arena, struct arrival *, n + 1);
    scan->stack = ARENA_ARRAY(&scan->arena, struct arrival *, n + 1);
    for (size_t i = 0; i < n && !scan->failed; i++) {
        struct changeset_name parsed;
        if (!name_take(scan, names[i], &parsed))
            continue;
        struct arrival *entry = ARENA_NEW(&scan->arena, struct arrival);
        *entry = (struct arrival){ .name = names[i], .parsed = parsed };
        scan->entries[scan->n++] = entry;
    }
    qsort(scan->entries, scan->n, sizeof(struct arrival *), by_sort_key);
    for (size_t i = scan->n; i-- > 0;) /* of two with one CSID the first counts */
        smap_put(&scan->by_csid, scan->entries[i]->parsed.csid, scan->entries[i]);
    return !scan->failed;
}

bool prequeue_scan(struct prequeue *prequeue, struct spool_counts *out, struct err *err)
{
    struct scan scan = { .prequeue = prequeue, .counts = out, .now = clock_boot_ms(), .err = err };
    prequeue->next = INT64_MAX;
    bool good = entries_list(&scan);
    if (good)
        seen_sweep(prequeue);
    for (size_t i = 0; good && i < scan.n && !scan.failed && !errands_closed(prequeue->errands); i++) {
        if (scan.entries[i]->has_been_tried || !entry_push(&scan, scan.entries[i]))
            continue;
        while (scan.n_stack > 0 && !scan.failed)
            stack_step(&scan);
    }
    while (scan.n_stack > 0)
        arrival_release(scan.stack[--scan.n_stack], prequeue->blobs);
    good = good && !scan.failed;
    smap_release(&scan.by_csid);
    arena_release(&scan.arena);
    if (!good)
        scan_again(prequeue, clock_boot_ms() + LATER_MS);
    return good;
}

void prequeue_release(struct prequeue *prequeue)
{
    SMAP_EACH (&prequeue->seen, e)
        seen_forget(prequeue, ((struct seen_entry *)e->value)->name);
    smap_release(&prequeue->seen);
}
