/* store: which store a URL means, and the way from the port's functions to it.
 *
 * Promises only to find the backend: everything else is the backend's (store/sqlite). A URL that no backend takes is ERR_invalid. */
#include "store/store.h"

#include <stdio.h>
#include <string.h>

#include "store/read_ops.h"
#include "store/sqlite/sqlite.h"

/* Prefixes of one backend stand longest first. */
static const char *const sqlite_prefixes[] = { "sqlite://", "sqlite:" };

/* url_dir: "sqlite:///DIR" -> "/DIR"; without a URL the data directory itself. */
static const char *url_dir(const struct store_config *config, struct err *err)
{
    if (!config->url || !*config->url) {
        if (config->data_dir && *config->data_dir)
            return config->data_dir;
        err_set(err, ERR_invalid, "neither a store nor a data directory is given");
        return NULL;
    }
    for (size_t i = 0; i < sizeof sqlite_prefixes / sizeof sqlite_prefixes[0]; i++) {
        size_t n = strlen(sqlite_prefixes[i]);
        if (strncmp(config->url, sqlite_prefixes[i], n) == 0 && config->url[n])
            return config->url + n;
    }
    err_set(err, ERR_invalid, "the store \"%.200s\" isn't known: sqlite:///DIR is", config->url);
    return NULL;
}

struct store *store_open(const struct store_config *config, struct err *err)
{
    const char *dir = url_dir(config, err);
    return dir ? sqlite_store_open(config, dir, err) : NULL;
}

struct reader *reader_open(const struct store_config *config, struct err *err)
{
    const char *dir = url_dir(config, err);
    return dir ? sqlite_reader_open(dir, err) : NULL;
}

void reader_close(struct reader *reader)
{
    if (reader)
        reader->ops->close(reader);
}

bool reader_task(struct reader *reader, struct arena *arena, int64_t id, struct task_view *out, bool *out_found, struct err *err)
{
    return reader->ops->task(reader, arena, id, out, out_found, err);
}

bool reader_row(struct reader *reader, struct arena *arena, int64_t id, struct task *out, bool *out_found, struct err *err)
{
    return reader->ops->row(reader, arena, id, out, out_found, err);
}

bool reader_spec(struct reader *reader, struct arena *arena, int64_t spec, struct str *out_body, struct err *err)
{
    return reader->ops->spec(reader, arena, spec, out_body, err);
}

bool reader_tasks(struct reader *reader, struct arena *arena, const struct task_filter *filter, struct task_view **out, size_t *out_n,
                  int64_t *out_next, struct err *err)
{
    return reader->ops->tasks(reader, arena, filter, out, out_n, out_next, err);
}

bool reader_find(struct reader *reader, struct str lane, int64_t rev, struct str name, struct str variant, int64_t run, int64_t *out_id,
                 struct err *err)
{
    return reader->ops->find(reader, lane, rev, name, variant, run, out_id, err);
}

bool reader_edges(struct reader *reader, struct arena *arena, int64_t id, bool by_pred, struct edge_view **out, size_t *out_n,
                  struct err *err)
{
    return reader->ops->edges(reader, arena, id, by_pred, out, out_n, err);
}

bool reader_holds(struct reader *reader, struct arena *arena, int64_t task, struct hold **out, size_t *out_n, struct err *err)
{
    return reader->ops->holds(reader, arena, task, out, out_n, err);
}

bool reader_hold_users(struct reader *reader, struct arena *arena, enum hold_kind kind, int64_t key, size_t n, struct hold **out,
                       size_t *out_n, struct err *err)
{
    return reader->ops->hold_users(reader, arena, kind, key, n, out, out_n, err);
}

bool reader_events(struct reader *reader, struct arena *arena, int64_t since, int64_t lane, size_t n, struct event **out, size_t *out_n,
                   int64_t *out_last, struct err *err)
{
    return reader->ops->events(reader, arena, since, lane, n, out, out_n, out_last, err);
}

bool reader_task_events(struct reader *reader, struct arena *arena, int64_t task, size_t n, struct event **out, size_t *out_n,
                        struct err *err)
{
    return reader->ops->task_events(reader, arena, task, n, out, out_n, err);
}

bool reader_lanes(struct reader *reader, struct arena *arena, struct lane ***out, size_t *out_n, struct err *err)
{
    return reader->ops->lanes(reader, arena, out, out_n, err);
}

bool reader_slots(struct reader *reader, struct arena *arena, struct slot ***out, size_t *out_n, struct err *err)
{
    return reader->ops->slots(reader, arena, out, out_n, err);
}

bool reader_executors(struct reader *reader, struct arena *arena, struct executor ***out, size_t *out_n, struct err *err)
{
    return reader->ops->executors(reader, arena, out, out_n, err);
}

bool reader_classes(struct reader *reader, struct arena *arena, struct task_class ***out, size_t *out_n, struct err *err)
{
    return reader->ops->classes(reader, arena, out, out_n, err);
}

bool reader_tokens(struct reader *reader, struct arena *arena, struct token ***out, size_t *out_n, struct err *err)
{
    return reader->ops->tokens(reader, arena, out, out_n, err);
}

bool reader_head(struct reader *reader, struct store_head *out, struct err *err)
{
    return reader->ops->head(reader, out, err);
}

bool reader_grant(struct reader *reader, int64_t task, int64_t *out_grant, enum task_state *out_state, bool *out_found, struct err *err)
{
    return reader->ops->grant(reader, task, out_grant, out_state, out_found, err);
}

bool reader_log_tail(struct reader *reader, struct arena *arena, int64_t task, int64_t grant, struct log_tail *out, bool *out_found,
                     struct err *err)
{
    return reader->ops->log_tail(reader, arena, task, grant, out, out_found, err);
}

bool reader_archives(struct reader *reader, struct arena *arena, struct archive_view **out, size_t *out_n, struct err *err)
{
    return reader->ops->archives(reader, arena, out, out_n, err);
}

bool reader_archive(struct reader *reader, struct arena *arena, struct str name, struct archive_view *out, bool *out_found, struct err *err)
{
    return reader->ops->archive(reader, arena, name, out, out_found, err);
}

bool reader_revision(
    struct reader *reader, struct arena *arena, int64_t lane, int64_t rev, struct revision *out, bool *out_found, struct err *err)
{
    return reader->ops->revision(reader, arena, lane, rev, out, out_found, err);
}

bool reader_revisions(struct reader *reader, struct arena *arena, int64_t lane, int64_t before, size_t limit, struct revision **out,
    size_t *out_n, struct err *err)
{
    return reader->ops->revisions(reader, arena, lane, before, limit, out, out_n, err);
}

bool reader_revision_of_ident(struct reader *reader, int64_t lane, struct str ident, int64_t *out_rev, struct err *err)
{
    return reader->ops->revision_of_ident(reader, lane, ident, out_rev, err);
}

bool reader_schedules(struct reader *reader, struct arena *arena, int64_t lane, struct schedule **out, size_t *out_n, struct err *err)
{
    return reader->ops->schedules(reader, arena, lane, out, out_n, err);
}
