/* report: how many change sets came and what became of them, by target, move type, submitter and day; as JSON or CSV.
 *
 * The groups are those of the document that asked for the queue: Q is submitted; S, P and X are in progress; D is
 * applied, or rolled back. Waiting is the time from a change set's arrival to its (last) start. The change sets are
 * read page by page on a thread of its own with a reader of its own, so nobody waits for a long history; beyond
 * CHANGESETS_MAX the oldest are left out, and the answer says so. */
#include <stdlib.h>
#include <string.h>

#include "api/answer.h"
#include "api/call.h"
#include "base/when.h"
#include "io/clock.h"

enum { PAGE = 1000, CHANGESETS_MAX = 1000000, GROUPS_MAX = 10000, READ_MS = 60000, DAY_MS = 86400000 };

enum { BY_TARGET, BY_TYPE, BY_SUBMITTER, BY_DAY, BY_COUNT };
static const char *const by_names[BY_COUNT] = { "target", "type", "submitter", "day" };

enum report_group { SUBMITTED, IN_PROGRESS, APPLIED, FAILED, TERMINATED, ABANDONED, ROLLED_BACK, GROUP_COUNT };
static const char *const group_names[GROUP_COUNT] = { "submitted", "in_progress", "applied", "failed", "terminated",
    "abandoned", "rolled_back" };

struct report_row {
    struct str by[BY_COUNT]; /* empty: not asked for */
    int64_t n, counts[GROUP_COUNT];
    int64_t *waits; /* ms, of those that were started */
    size_t n_waits, cap_waits;
    int64_t median, p95; /* -1: none was started */
};

struct report {
    const struct store_config *store;
    struct str tenant, target, submitter; /* the last two: empty: all */
    enum movetype movetype;
    int64_t from, until; /* ms; 0: all */
    unsigned by;         /* bits of BY_ */
    bool csv;
    /* the result, in `arena` */
    struct arena arena;
    struct smap rows; /* key -> struct report_row */
    struct report_row total, **sorted;
    size_t n;
    bool truncated;
};

static enum report_group group_of(const struct changeset_view *view)
{
    switch (view->task.state) {
    case STATE_Q:
        return SUBMITTED;
    case STATE_D:
        return view->changeset.rolled_back_by > 0 ? ROLLED_BACK : APPLIED;
    case STATE_F:
        return FAILED;
    case STATE_T:
        return TERMINATED;
    case STATE_A:
        return ABANDONED;
    case STATE_NONE:
    case STATE_S:
    case STATE_P:
    case STATE_X:
    case STATE_COUNT:
        break;
    }
    return IN_PROGRESS;
}

/* --- reading --- */

static void row_count(struct report *report, struct report_row *row, const struct changeset_view *view)
{
    row->n++;
    row->counts[group_of(view)]++;
    if (view->task.started > 0)
        *ARENA_PUSH(&report->arena, row->waits, row->n_waits, row->cap_waits) =
            view->task.started > view->task.created ? view->task.started - view->task.created : 0;
}

/* row_of: NULL: there are too many different ones. */
static struct report_row *row_of(struct report *report, const struct changeset_view *view)
{
    struct when_text day = when_format(view->task.created);
    const struct str by[BY_COUNT] = { [BY_TARGET] = target_name(view->lane_name),
        [BY_TYPE] = str_of(movetype_name(view->changeset.movetype)),
        [BY_SUBMITTER] = view->changeset.submitter,
        [BY_DAY] = { day.z, 10 } };
    struct buf key;
    buf_init(&key, 64 * KIB);
    for (size_t i = 0; i < BY_COUNT; i++) {
        if (report->by & 1u << i)
            buf_add_str(&key, by[i]);
        buf_add_char(&key, '\x1f');
    }
    struct report_row *row = smap_find(&report->rows, buf_str(&key));
    if (row == NULL && report->rows.n < GROUPS_MAX) {
        row = ARENA_NEW(&report->arena, struct report_row);
        *row = (struct report_row){ 0 };
        for (size_t i = 0; i < BY_COUNT; i++)
            if (report->by & 1u << i)
                row->by[i] = str_dup(&report->arena, by[i]);
        smap_put(&report->rows, str_dup(&report->arena, buf_str(&key)), row);
    }
    buf_release(&key);
    return row;
}

static void changeset_count(struct report *report, const struct changeset_view *view)
{
    int64_t created = view->task.created;
    if ((report->from > 0 && created < report->from) || (report->until > 0 && created >= report->until) ||
        (report->submitter.len > 0 && !str_eq(report->submitter, view->changeset.submitter)))
        return;
    struct report_row *row = row_of(report, view);
    row_count(report, &report->total, view);
    if (row != NULL)
        row_count(report, row, view);
    else
        report->truncated = true;
}

/* pages_read: newest first; ends where all are older than asked for, a day being what clocks may have jumped. */
static bool pages_read(
    struct report *report, struct reader *reader, struct changeset_filter *filter, struct arena *page, struct err *err)
{
    struct changeset_view *views;
    size_t n;
    int64_t looked = 0;
    do {
        arena_reset(page);
        if (!reader_changesets(reader, page, filter, &views, &n, &filter->before, err))
            return false;
        for (size_t i = 0; i < n; i++)
            changeset_count(report, &views[i]);
        looked += (int64_t)n;
        if (n > 0 && views[n - 1].task.created < report->from - DAY_MS)
            return true;
    } while (filter->before > 0 && looked < CHANGESETS_MAX);
    report->truncated |= filter->before > 0;
    return true;
}

static int times_order(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static void waits_settle(struct report_row *row)
{
    size_t n = row->n_waits;
    row->median = row->p95 = -1;
    if (n == 0)
        return;
    qsort(row->waits, n, sizeof *row->waits, times_order);
    row->median = (row->waits[(n - 1) / 2] + row->waits[n / 2]) / 2;
    row->p95 = row->waits[(n * 95 + 99) / 100 - 1];
}

static int rows_order(const void *a, const void *b)
{
    const struct report_row *x = *(struct report_row *const *)a, *y = *(struct report_row *const *)b;
    for (size_t i = 0; i < BY_COUNT; i++)
        if (str_cmp(x->by[i], y->by[i]) != 0)
            return str_cmp(x->by[i], y->by[i]);
    return 0;
}

static void rows_settle(struct report *report)
{
    report->sorted = ARENA_ARRAY(&report->arena, struct report_row *, report->rows.n + 1);
    SMAP_EACH (&report->rows, entry) {
        report->sorted[report->n++] = entry->value;
        waits_settle(entry->value);
    }
    if (report->n > 1)
        qsort(report->sorted, report->n, sizeof *report->sorted, rows_order);
    waits_settle(&report->total);
}

static bool report_read(struct report *report, struct reader *reader, struct arena *page, struct err *err)
{
    struct changeset_filter filter = { .tenant = report->tenant, .movetype = report->movetype, .limit = PAGE };
    if (report->target.len > 0) {
        struct lane lane;
        bool found = false;
        struct str name = str_fmt(page, TARGET_LANE "%.*s", STR_ARG(report->target));
        if (!reader_lane(reader, page, report->tenant, name, &lane, &found, err))
            return false;
        if (!found)
            return true;
        filter.lane = lane.id;
    }
    return pages_read(report, reader, &filter, page, err);
}

static bool report_work(void *owner, struct err *err)
{
    struct report *report = owner;
    struct arena page = { 0 };
    struct reader *reader = reader_open(report->store, err);
    if (reader == NULL)
        return false;
    reader_limit(reader, clock_boot_ms() + READ_MS);
    bool good = report_read(report, reader, &page, err);
    reader_close(reader);
    arena_release(&page);
    rows_settle(report);
    return good;
}

/* --- what it says --- */

RENDERER(row_render, ReportRow, struct json *json, const struct report_row *row)

static void csv_field(struct buf *out, struct str text)
{
    bool quoted = str_index(text, ',') >= 0 || str_index(text, '"') >= 0 || str_has_control(text);
    if (!quoted) {
        buf_add_str(out, text);
        return;
    }
    buf_add_char(out, '"');
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] == '"')
            buf_add_char(out, '"');
        buf_add_char(out, text.ptr[i]);
    }
    buf_add_char(out, '"');
}

static void csv_time(struct buf *out, int64_t ms)
{
    buf_add_char(out, ',');
    if (ms >= 0)
        buf_add_i64(out, ms);
}

static void csv_row(struct buf *out, const struct report *report, const struct report_row *row)
{
    for (size_t i = 0; i < BY_COUNT; i++)
        if (report->by & 1u << i) {
            csv_field(out, row->by[i]);
            buf_add_char(out, ',');
        }
    buf_add_i64(out, row->n);
    for (size_t i = 0; i < GROUP_COUNT; i++) {
        buf_add_char(out, ',');
        buf_add_i64(out, row->counts[i]);
    }
    csv_time(out, row->median);
    csv_time(out, row->p95);
    buf_add_char(out, '\n');
}

static bool csv_answer(struct call *call, const struct report *report)
{
    struct buf *out = &call->out;
    for (size_t i = 0; i < BY_COUNT; i++)
        if (report->by & 1u << i)
            buf_addf(out, "%s,", by_names[i]);
    buf_add_z(out, "changesets");
    for (size_t i = 0; i < GROUP_COUNT; i++)
        buf_addf(out, ",%s", group_names[i]);
    buf_add_z(out, ",waiting_median_ms,waiting_p95_ms\n");
    for (size_t i = 0; i < report->n; i++)
        csv_row(out, report, report->sorted[i]);
    return call_answer_as(call, 200, "text/csv; charset=utf-8", buf_str(out), NULL);
}

static bool report_done(struct call *call, void *owner)
{
    const struct report *report = owner;
    if (report->csv)
        return csv_answer(call, report);
    ANSWER_RETURN(200, ANSWER_Report);
}

static const struct background reporting = { .work = report_work, .done = report_done };

/* --- what is asked for --- */

static void by_read(struct call *call, struct report *report)
{
    struct str text, word;
    report->by = 1u << BY_TARGET | 1u << BY_TYPE | 1u << BY_SUBMITTER;
    if (!call_param_str(call, "by", &text))
        return;
    report->by = 0;
    while (str_cut(&text, ',', &word)) {
        size_t i = 0;
        while (i < BY_COUNT && !str_eqz(word, by_names[i]))
            i++;
        if (i == BY_COUNT)
            err_item(&call->err, ERR_bad_request, STR("by"),
                "the query parameter 'by' is a list of target, type, submitter and day, not '%.*s'",
                STR_ARG(str_sub(word, 0, 40)));
        else
            report->by |= 1u << i;
    }
}

static void time_read(struct call *call, const char *name, int64_t *out)
{
    struct str text;
    if (call_param_str(call, name, &text) && !when_parse(text, out))
        err_item(&call->err, ERR_bad_request, str_of(name),
            "the query parameter '%s' must be a time such as 2026-11-15T05:46:00Z, not '%.*s'", name,
            STR_ARG(str_sub(text, 0, 40)));
}

static void report_released(struct call *call)
{
    struct report *report = call->state;
    smap_release(&report->rows);
    arena_release(&report->arena);
}

bool serve_report_get(struct call *call)
{
    struct report *report = ARENA_NEW(&call->arena, struct report);
    struct str format = { 0 };
    *report = (struct report){ .store = call->api->config.store, .tenant = call->actor.tenant };
    if (call_param_str(call, "format", &format) && !str_eqz(format, "json") && !str_eqz(format, "csv"))
        err_item(&call->err, ERR_bad_request, STR("format"), "the query parameter 'format' is json or csv, not '%.*s'",
            STR_ARG(str_sub(format, 0, 40)));
    report->csv = str_eqz(format, "csv");
    by_read(call, report);
    time_read(call, "from", &report->from);
    time_read(call, "until", &report->until);
    call_param_movetype(call, &report->movetype);
    call_param_str(call, "submitter", &report->submitter);
    if (call_param_str(call, "target", &report->target) && !name_is_valid(report->target))
        err_item(&call->err, ERR_bad_request, STR("target"), "the query parameter 'target' must be a name");
    if (call->err.code != ERR_none)
        return call_problem(call);
    call->state = report;
    call->on_release = report_released;
    return background_start(call, &reporting, report);
}
