/* follower: see follower.h. */
#include "spool/follower.h"

#include <errno.h>
#include <fcntl.h>

#include "spool/follower_text.h"

enum { BATCH = 500, PAGE = 100, HISTORY_MAX = 2000, LIST_MAX = 1000000 };

#define STATES_ENDED (1U << STATE_D | 1U << STATE_F | 1U << STATE_T | 1U << STATE_A)
#define STATES_WAITING (1U << STATE_Q | 1U << STATE_S | 1U << STATE_P | 1U << STATE_X)

/* --- one change set --- */

/* precursors_read: what it waits for by `after`, and the dependencies of nothing. */
static bool precursors_read(struct follower *follower, int64_t task, struct str *out, struct err *err)
{
    struct edge_view *edges;
    struct buf list;
    size_t n;
    if (!reader_edges(follower->reader, &follower->arena, task, false, &edges, &n, err))
        return false;
    buf_init(&list, JOB_EXTRA_BYTES);
    for (size_t i = 0; i < n; i++)
        if (edges[i].kind == EDGE_AFTER)
            buf_addf(&list, "%.*s\n", STR_ARG(edges[i].name));
    *out = buf_move(&list, &follower->arena);
    return true;
}

static bool known_read(struct follower *follower, int64_t id, struct job_known *out, bool *out_found, struct err *err)
{
    struct reader *reader = follower->reader;
    struct arena *arena = &follower->arena;
    struct event *events = NULL;
    struct lane *lane = NULL;
    size_t n = 0;
    *out = (struct job_known){ 0 };
    if (!reader_changeset(reader, arena, id, &out->row, out_found, err) || !*out_found)
        return err->code == ERR_none;
    if (!reader_row(reader, arena, id, &out->task, out_found, err) || !*out_found)
        return err->code == ERR_none;
    if (!reader_lane_of(reader, arena, out->row.lane, &lane, err) ||
        !reader_task_events(reader, arena, id, HISTORY_MAX, &events, &n, err))
        return false;
    struct str lane_name = lane != NULL ? lane->name : (struct str){ 0 };
    out->target =
        str_starts(lane_name, STR(TARGET_LANE)) ? str_sub(lane_name, sizeof TARGET_LANE - 1, lane_name.len) : lane_name;
    out->name = str_dupz(arena, out->row.name);
    out->facts = (struct job_facts){
        .csid = out->row.csid, .ticket = out->row.ticket, .state = out->task.state, .events = events, .n_events = n
    };
    return out->row.movetype == MOVE_RB || precursors_read(follower, id, &out->facts.precursors, err);
}

/* stands_right: the file has this text already. */
static bool stands_right(struct follower *follower, const struct job_known *known, const struct job_place *place,
    enum spool_folder wanted, struct str text)
{
    struct stat st;
    const char *why;
    size_t n = 0;
    if (!place->is_there || place->folder != wanted || (uint64_t)place->st.st_size != text.len)
        return false;
    char *bytes = entry_read(follower->folders, wanted, known->name, text.len, &n, &st, &why);
    bool same = bytes != NULL && str_eq((struct str){ bytes, n }, text);
    mem_free(bytes);
    return same;
}

static bool show(struct follower *follower, int64_t task, struct err *err)
{
    struct job_known known;
    struct job_place place;
    struct str meta;
    struct buf text;
    bool found = false;
    if (!known_read(follower, task, &known, &found, err))
        return false;
    if (!found || !str_eqz(known.row.tenant, TENANT_DEFAULT))
        return true;
    enum spool_folder wanted = folder_of_state(known.task.state);
    if (!job_find(follower->folders, known.name, wanted, &place, err) || !follower_tarball(follower, &known, err) ||
        !follower_meta(follower, &known, &place, &meta, err))
        return false;
    buf_init(&text, meta.len + JOB_EXTRA_BYTES);
    bool good = job_text(&text, meta, &known.facts, err);
    if (good && !stands_right(follower, &known, &place, wanted, buf_str(&text))) {
        good = job_put(follower->folders, known.name, &place, wanted, buf_str(&text), job_time(&known.facts), err);
        follower->n_put += good;
    }
    buf_release(&text);
    return good;
}

/* --- events --- */

static bool lane_is_ours(struct follower *follower, int64_t lane, bool *out, struct err *err)
{
    static char yes, no;
    struct lane *row = NULL;
    void *known = map_find(&follower->lanes, (uint64_t)lane);
    if (known == NULL) {
        if (!reader_lane_of(follower->reader, &follower->arena, lane, &row, err))
            return false;
        known = row != NULL && row->kind == LANE_TARGET && str_eqz(row->tenant, TENANT_DEFAULT) ? &yes : &no;
        map_put(&follower->lanes, (uint64_t)lane, known);
    }
    *out = known == &yes;
    return true;
}

/* events_follow: a change set is shown once in a batch, in the place of its last event. */
static bool events_follow(struct follower *follower, size_t *out_n, struct err *err)
{
    struct event *events;
    struct map last = { 0 };
    int64_t until = follower->since;
    bool good =
        reader_events(follower->reader, &follower->arena, follower->since, 0, BATCH, &events, out_n, &until, err);
    for (size_t i = 0; good && i < *out_n; i++)
        if (events[i].task > 0)
            map_put(&last, (uint64_t)events[i].task, &events[i]);
    for (size_t i = 0; good && i < *out_n; i++) {
        bool ours = false;
        if (events[i].task == 0 || events[i].lane == 0 || map_find(&last, (uint64_t)events[i].task) != &events[i])
            continue;
        good = lane_is_ours(follower, events[i].lane, &ours, err) && (!ours || show(follower, events[i].task, err));
    }
    map_release(&last);
    if (good && until > follower->since)
        *out_n = *out_n > 0 ? *out_n : 1; /* there may be more */
    if (good)
        follower->since = until;
    return good;
}

/* --- the repair --- */

static bool page_repair(struct follower *follower, unsigned states, struct err *err)
{
    const struct changeset_filter filter = {
        .tenant = STR(TENANT_DEFAULT), .states = states, .before = follower->before, .limit = PAGE
    };
    struct changeset_view *views;
    int64_t next = 0;
    size_t n;
    if (!reader_changesets(follower->reader, &follower->arena, &filter, &views, &n, &next, err))
        return false;
    for (size_t i = 0; i < n; i++)
        if (!show(follower, views[i].task.id, err))
            return false;
    follower->before = next;
    if (next == 0)
        follower->phase++;
    return true;
}

/* name_known: is there a change set of this file name? */
static bool name_known(struct follower *follower, struct str text, int64_t *out_task, struct err *err)
{
    struct changeset_name name;
    struct changeset row;
    struct err ignored = { 0 };
    bool found = false;
    *out_task = 0;
    if (!changeset_name_parse(text, &name, &ignored))
        return true;
    if (!reader_changeset_find(follower->reader, STR(TENANT_DEFAULT), name.csid, out_task, err))
        return false;
    if (*out_task > 0 && !reader_changeset(follower->reader, &follower->arena, *out_task, &row, &found, err))
        return false;
    if (!found || !str_eq(row.name, text))
        *out_task = 0;
    return true;
}

static bool stranger_check(
    struct follower *follower, enum spool_folder folder, const char *name, bool all, struct err *err)
{
    int64_t task = 0;
    struct stat st;
    if (fstatat(follower->folders->fds[folder], name, &st, AT_SYMLINK_NOFOLLOW) != 0 && !all)
        return true;
    if (!name_known(follower, str_of(name), &task, err))
        return false;
    if (task > 0)
        return !all || show(follower, task, err);
    return corrupt_move(follower->folders, folder, name, STR("no change set of this name is in the queue"), err);
}

static bool folder_repair(struct follower *follower, struct err *err)
{
    char **names;
    size_t n;
    enum spool_folder folder = (enum spool_folder)(FOLDER_QUEUE + follower->folder);
    bool good = folder_list(follower->folders, folder, LIST_MAX, &follower->arena, &names, &n, err);
    for (size_t i = 0; good && i < n; i++)
        good = stranger_check(follower, folder, names[i], false, err);
    if (good && ++follower->folder > FOLDER_ABANDON - FOLDER_QUEUE)
        follower->phase = FOLLOWER_REPAIRED;
    return good;
}

static bool repair_step(struct follower *follower, struct err *err)
{
    switch (follower->phase) {
    case FOLLOWER_WAITING:
        return page_repair(follower, STATES_WAITING, err);
    case FOLLOWER_ENDED:
        return page_repair(follower, STATES_ENDED, err);
    case FOLLOWER_FOLDERS:
        return folder_repair(follower, err);
    case FOLLOWER_REPAIRED:
        break;
    }
    return true;
}

void follower_repair(struct follower *follower)
{
    follower->phase = FOLLOWER_WAITING;
    follower->before = 0;
    follower->folder = 0;
}

/* --- --- */

static bool begin(struct follower *follower, struct err *err)
{
    struct store_head head = { 0 };
    if (follower->has_begun)
        return true;
    if (!reader_head(follower->reader, &head, err))
        return false;
    follower->since = head.seq; /* the repair shows all that was before */
    follower->has_begun = true;
    return true;
}

bool follower_step(struct follower *follower, bool *out_more, struct err *err)
{
    size_t n = 0;
    arena_reset(&follower->arena);
    if (!begin(follower, err) || !events_follow(follower, &n, err))
        return false;
    if (!repair_step(follower, err))
        return false;
    *out_more = n > 0 || follower->phase != FOLLOWER_REPAIRED;
    return true;
}

bool follower_check(struct follower *follower, enum spool_folder folder, struct str name, struct err *err)
{
    arena_reset(&follower->arena);
    return stranger_check(follower, folder, str_dupz(&follower->arena, name), true, err);
}

void follower_release(struct follower *follower)
{
    map_release(&follower->lanes);
    arena_release(&follower->arena);
}
