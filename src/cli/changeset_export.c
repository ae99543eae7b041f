/* changeset_export: `weir cs export-cdb`: who depends on whom, as a constant database.
 *
 * d<CSID> has the change sets that it depends on, s<CSID> those that depend on it, one a line; both are there for every
 * change set, be they empty. What a rollback lists is no dependency. The file is whole or not there: written beside
 * its place and renamed. */
#include <errno.h>
#include <string.h>

#include "base/map.h"
#include "cli/changeset_text.h"
#include "cli/command.h"
#include "cli/task_text.h"
#include "io/clock.h"
#include "io/fsx.h"
#include "text/cdb.h"

enum { PAGE_MAX = 1000 };

struct export_row {
    const char *csid;
    struct str depends;    /* lines */
    struct buf supporters; /* lines */
};

struct export
{
    struct session *session;
    int64_t since; /* 0: all */
    ARRAY(struct export_row *) rows;
    struct smap by_csid;
};

static bool since_read(struct export *x)
{
    const char *text = option_get(&x->session->options, "since");
    int64_t ago;
    if (!text || when_parse(str_of(text), &x->since))
        return true;
    if (!duration_parse(str_of(text), &ago)) {
        usage_error(x->session->options.spec,
            "--since '%s' is neither a time (2026-11-15T06:00:00Z) nor a duration (7d)", text);
        return false;
    }
    x->since = clock_wall_ms() - ago;
    return true;
}

static struct export_row *row_get(struct export *x, const char *csid)
{
    struct export_row *row = smap_find(&x->by_csid, str_of(csid));
    if (row)
        return row;
    row = ARENA_NEW(&x->session->arena, struct export_row);
    row->csid = str_dupz(&x->session->arena, str_of(csid));
    buf_init(&row->supporters, SIZE_MAX);
    smap_put(&x->by_csid, str_of(row->csid), row);
    return row;
}

/* changeset_take: for session_walk. They come newest first, so the first one that is too old ends it. */
static bool changeset_take(json_t *one, void *owner)
{
    struct export *x = owner;
    const json_t *depends = json_object_get(one, "dependencies"), *item;
    int64_t created = 0;
    size_t i;
    if (x->since > 0 && field_time(one, "created", &created) && created < x->since)
        return false;
    struct export_row *row = row_get(x, field_z(one, "csid"));
    struct buf lines;
    buf_init(&lines, SIZE_MAX);
    json_array_foreach (depends, i, item) {
        const char *csid = json_is_string(item) ? json_string_value(item) : field_z(item, "csid");
        if (strcmp(field_z(one, "movetype"), "RB") == 0)
            break;
        buf_addf(&lines, "%s\n", csid);
        buf_addf(&row_get(x, csid)->supporters, "%s\n", row->csid);
    }
    row->depends = buf_move(&lines, &x->session->arena);
    *ARRAY_ADD(&x->session->arena, x->rows) = row;
    return true;
}

static int cdb_write(struct export *x, const char *file)
{
    struct session *s = x->session;
    struct cdb_writer cdb;
    struct buf out;
    int status = 0;
    buf_init(&out, UINT32_MAX);
    cdb_begin(&cdb, &out, &s->arena);
    for (size_t i = 0; i < x->rows.n; i++) {
        struct export_row *row = x->rows.at[i];
        cdb_add(&cdb, str_fmt(&s->arena, "d%s", row->csid), row->depends);
        cdb_add(&cdb, str_fmt(&s->arena, "s%s", row->csid), buf_str(&row->supporters));
    }
    s->err = (struct err){ .arena = &s->arena };
    if (!cdb_end(&cdb))
        status = session_err(s, ERR_body_too_large, "a constant database holds at most 4 GiB: use --target or --since");
    else if (!fsx_replace(file, buf_str(&out), 0644, &s->err)) {
        s->status = err_exit(s->err.code);
        status = session_fail(s);
    } else
        session_note(s, "%s: %zu change sets", file, x->rows.n);
    buf_release(&out);
    return status;
}

int changeset_export_command(struct session *s)
{
    struct export x = { .session = s };
    if (!since_read(&x))
        return EXIT_USAGE;
    const char *path = session_query_i64(s, "/v1/changesets", "limit", PAGE_MAX);
    path = session_query(s, path, "target", option_get(&s->options, "target"));
    bool good = session_walk(s, path, "changesets", changeset_take, &x);
    int status = good ? cdb_write(&x, s->options.operands[0]) : s->status;
    SMAP_EACH (&x.by_csid, entry)
        buf_release(&((struct export_row *)entry->value)->supporters);
    smap_release(&x.by_csid);
    return status;
}
