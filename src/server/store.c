/* store: `weir store copy`: everything in one store becomes another one, from SQLite to PostgreSQL or back. Works on
 * the stores themselves, without a server. */
#include <string.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/session.h"
#include "io/clock.h"
#include "store/store.h"

enum { PROGRESS_MS = 100 };

struct progress {
    bool shown;
    int64_t told_ms, rows, total;
    const char *table;
};

/* On a terminal one line that is written over. */
static void progress_tell(void *owner, const char *table, int64_t rows)
{
    struct progress *p = owner;
    if (p->table != table)
        p->rows = 0;
    p->total += rows - p->rows;
    p->rows = rows;
    p->table = table;
    if (!p->shown || clock_boot_ms() - p->told_ms < PROGRESS_MS)
        return;
    p->told_ms = clock_boot_ms();
    fprintf(stderr, "\r\x1b[K%s: %lld rows, %lld in all", table, (long long)rows, (long long)p->total);
    fflush(stderr);
}

/* side_of: a URL or a directory -> what the store port takes. *out_dir: of SQLite; NULL for the other. */
static struct store_config side_of(struct arena *arena, const char *text, const char **out_dir)
{
    struct str url = str_of(text);
    *out_dir = NULL;
    if (str_starts(url, STR("postgresql://")) || str_starts(url, STR("postgres://")))
        return (struct store_config){ .url = text };
    if (str_starts(url, STR("sqlite://")))
        url = str_sub(url, sizeof "sqlite://" - 1, url.len);
    else if (strstr(text, "://"))
        return (struct store_config){ .url = text }; /* the store says that it doesn't know it */
    *out_dir = str_dupz(arena, url);
    return (
        struct store_config){ .url = str_dupz(arena, str_fmt(arena, "sqlite://%s", *out_dir)), .data_dir = *out_dir };
}

int store_copy_command(struct session *s)
{
    const char *from_dir, *to_dir, *data = option_get(&s->options, "data");
    struct store_config from = side_of(&s->arena, s->options.operands[0], &from_dir);
    struct store_config to = side_of(&s->arena, s->options.operands[1], &to_dir);
    struct progress progress = { .shown = !s->quiet && isatty(STDERR_FILENO) };
    const struct copy_progress watch = { .owner = &progress, .tell = progress_tell };
    if (!from.data_dir)
        from.data_dir = data ? data : to_dir;
    if (!to.data_dir)
        to.data_dir = data ? data : from_dir;
    if (!from.data_dir || !to.data_dir)
        return usage_error(s->options.spec,
            "between two databases --data DIR is needed: the data directory with the key of the history");
    int64_t began = clock_boot_ms();
    bool ok = store_copy(&from, &to, &watch, &s->err);
    if (progress.shown && progress.told_ms)
        fputs("\r\x1b[K", stderr);
    if (!ok)
        return session_store_fail(s);
    int64_t ms = clock_boot_ms() - began;
    session_note(s, "%lld rows copied and verified in %.1f s", (long long)progress.total, (double)ms / 1000);
    if (from_dir && strcmp(from.data_dir, to.data_dir) == 0)
        session_note(s,
            "the key of the history is in %s: serve the copy with --data %s, or with a directory that has its "
            "verify.key; move "
            "%s/weir.db away",
            to.data_dir, to.data_dir, from_dir);
    if (s->json) {
        json_t *document = json_pack("{s:I, s:I, s:o}", "rows", (json_int_t)progress.total, "ms", (json_int_t)ms,
            "data", session_string(str_of(to.data_dir)));
        session_print(s, document);
        json_decref(document);
    }
    return 0;
}
