/* arrival: see arrival.h. */
#include "spool/arrival.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/when.h"
#include "io/clock.h"
#include "io/fsx.h"

enum { NS_PER_MS = 1000000, JOB_SLACK_BYTES = 4 << 20, WHY_BYTES_MAX = 16384 };

static enum arrival_end corrupt(struct arrival *entry, const char *why)
{
    entry->why = str_dup(&entry->arena, str_of(why));
    return ARRIVAL_CORRUPT;
}

/* arrival_refused: a person reads it in the .why: the sentence, then each fault on a line of its own. */
enum arrival_end arrival_refused(struct arrival *entry, const struct err *err)
{
    struct buf text;
    buf_init(&text, WHY_BYTES_MAX);
    buf_add_z(&text, err->text);
    for (size_t i = 0; i < err->n_items && err->n_items > 1; i++)
        buf_addf(&text, "\n%.*s%s%.*s", STR_ARG(err->items[i].path), err->items[i].path.len > 0 ? ": " : "",
            STR_ARG(err->items[i].message));
    entry->why = buf_move(&text, &entry->arena);
    return err_retriable(err->code) || err->code == ERR_io ? ARRIVAL_LATER : ARRIVAL_CORRUPT;
}

/* lines_are: the same paths in the same order. */
static bool lines_are(const struct meta_lines *lines, struct str joined)
{
    struct str path;
    size_t i = 0;
    while (str_cut(&joined, CHANGESET_JOINT, &path))
        if (i >= lines->n || !str_eq(lines->at[i++].text, path))
            return false;
    return i == lines->n;
}

static struct str *lines_list(struct arena *arena, const struct meta_lines *lines)
{
    struct str *list = ARENA_ARRAY(arena, struct str, lines->n + 1);
    for (size_t i = 0; i < lines->n; i++)
        list[i] = lines->at[i].text;
    return list;
}

/* sections_take: those of the job file count. */
static enum arrival_end sections_take(
    struct arrival *entry, const struct intake_order *order, struct str text, struct err *err)
{
    struct changeset_def *def = &entry->intake.def;
    struct changeset_meta *meta = ARENA_NEW(&entry->arena, struct changeset_meta);
    struct diags diags = { .arena = &entry->arena };
    struct changeset_limits limits = *order->limits;
    limits.meta_bytes += JOB_SLACK_BYTES; /* of its history */
    if (changeset_meta_read(text, &limits, &entry->arena, &diags, meta))
        changeset_meta_check(meta, entry->parsed.csid, &entry->parsed, &diags);
    if (!changeset_meta_refuse(meta, &diags, err))
        return arrival_refused(entry, err);
    if (meta->movetype != def->movetype || !str_eq(meta->target, def->target) || !lines_are(&meta->files, def->files) ||
        !lines_are(&meta->removed, def->removed))
        return corrupt(entry, "its movetype, target, files or removed aren't those of its tarball");
    def->depends = lines_list(&entry->arena, &meta->dependencies);
    def->n_depends = meta->dependencies.n;
    def->precursors = lines_list(&entry->arena, &meta->precursors);
    def->n_precursors = meta->precursors.n;
    def->ticket = meta->approval;
    return ARRIVAL_GOOD;
}

static enum arrival_end tarball_read(
    struct arrival *entry, const struct folders *folders, struct intake_order *order, struct err *err)
{
    struct stat st;
    const char *why = NULL;
    order->tarball_fd = entry_open(folders, FOLDER_DATA, entry->name, &st, &why);
    if (order->tarball_fd < 0 && why != NULL)
        return corrupt(entry, why);
    if (order->tarball_fd < 0) {
        entry->why = STR("its tarball isn't in data/");
        return ARRIVAL_WAITS;
    }
    if ((uint64_t)st.st_size > intake_tarball_bytes_max(order->limits)) {
        close(order->tarball_fd);
        return corrupt(entry, "its tarball is longer than the limits allow");
    }
    bool good = intake_read(order, &entry->arena, &entry->intake, err);
    close(order->tarball_fd);
    entry->is_kept = good;
    return good ? ARRIVAL_GOOD : arrival_refused(entry, err);
}

enum arrival_end arrival_read(
    struct arrival *entry, const struct folders *folders, const struct changeset_limits *limits, struct blobs *blobs)
{
    size_t n = 0, room = (size_t)limits->meta_bytes + JOB_SLACK_BYTES;
    struct err err = { .arena = &entry->arena };
    struct stat st;
    const char *why = NULL;
    char *bytes = entry_read(folders, FOLDER_PREQUEUE, entry->name, room, &n, &st, &why);
    if (bytes == NULL)
        return why != NULL ? corrupt(entry, why) : ARRIVAL_GONE;
    struct str text = str_dup(&entry->arena, (struct str){ bytes, n });
    struct intake_order order = { .tarball_fd = -1,
        .name = str_of(entry->name),
        .now_ns = clock_wall_ms() * NS_PER_MS,
        .actor = { str_fmt(&entry->arena, "uid:%u", (unsigned)st.st_uid), STR(TENANT_DEFAULT) },
        .limits = limits,
        .blobs = blobs };
    mem_free(bytes);
    if (text.len > 0 && entry->parsed.movetype == MOVE_RB)
        return intake_meta(&order, text, &entry->arena, &entry->intake, &err) ? ARRIVAL_GOOD
                                                                              : arrival_refused(entry, &err);
    enum arrival_end end = tarball_read(entry, folders, &order, &err);
    return end == ARRIVAL_GOOD && text.len > 0 ? sections_take(entry, &order, text, &err) : end;
}

void arrival_settle(struct arrival *entry, struct blobs *blobs, bool accepted)
{
    if (entry->is_kept)
        intake_settle(blobs, &entry->intake, accepted);
    entry->is_kept = false;
}

void arrival_release(struct arrival *entry, struct blobs *blobs)
{
    arrival_settle(entry, blobs, false);
    arena_release(&entry->arena);
}
