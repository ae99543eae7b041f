/* others: what other servers of the same store have done: read at the beginning of a turn, and told by LISTEN on a
 * thread with a connection of its own. A hint that is lost costs little: servers take a turn every second anyway. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "store/postgres/postgres.h"

enum { TURNS_TAKEN_MAX = 500, LISTEN_AGAIN_MS = 1000 };

static bool events_take(const PGresult *turns, struct arena *arena, struct others *out, struct err *err)
{
    size_t cap = 0;
    struct query q = pg_query(turns);
    while (query_next(&q, err) == QUERY_ROW) {
        struct event *events;
        size_t n;
        if (!query_events(&q, arena, &events, &n, err))
            return false;
        for (size_t k = 0; k < n; k++)
            *ARENA_PUSH(arena, out->events, out->n_events, cap) = events[k];
    }
    return true;
}

static bool executors_take(const PGresult *result, struct arena *arena, struct others *out, struct err *err)
{
    struct query q = pg_query(result);
    size_t n;
    if (!each_executor(&q, arena, &out->executors, &n, err))
        return false;
    for (size_t i = 0; i < n; i++)
        if (touched_row(CTIDS_EXECUTORS, result, (int)i))
            out->executors[out->n_executors++] = out->executors[i];
    return true;
}

static const enum sql_id others_ids[OTHERS_COUNT] = {
    SQL_turns_others,
    SQL_lanes_touched,
    SQL_classes_above,
    SQL_slots_touched,
    SQL_executors_touched,
    SQL_archives_touched,
    SQL_duties,
    SQL_holds_due,
};

void others_queue(struct postgres_store *self, const struct store_head *since)
{
    struct pg *pg = &self->pg;
    for (size_t i = 0; i < OTHERS_COUNT; i++) {
        enum sql_id id = others_ids[i];
        if (id == SQL_lanes_touched || id == SQL_executors_touched)
            touched_queue(self, id == SQL_lanes_touched ? CTIDS_LANES : CTIDS_EXECUTORS, since->commit);
        else if (id == SQL_turns_others)
            pg_queue(pg, id, PG_ARGS(NUM(since->seq), NUM(TURNS_TAKEN_MAX + 1)));
        else if (id == SQL_holds_due)
            pg_queue(pg, id, PG_ARGS(NUM(HOLD_time), NUM(INT64_MAX), NUM(1)));
        else if (id == SQL_duties)
            pg_queue(pg, id, NULL);
        else
            pg_queue(pg, id, PG_ARGS(NUM(id == SQL_classes_above ? since->next_class : since->commit)));
    }
}

size_t others_keep(struct postgres_store *self, const struct store_head *since, size_t first)
{
    struct prefetch_turn *prefetch = &self->prefetch;
    prefetch->others_since = since->commit;
    for (size_t i = 0; i < OTHERS_COUNT; i++) {
        PQclear(prefetch->others[i]);
        prefetch->others[i] = self->pg.results[first + i];
        self->pg.results[first + i] = NULL;
    }
    touched_learn(self, CTIDS_LANES, prefetch->others[1]);
    touched_learn(self, CTIDS_EXECUTORS, prefetch->others[4]);
    return first + OTHERS_COUNT;
}

/* One round trip, or none when it was expected. */
bool postgres_load_others(
    struct store *store, struct arena *arena, const struct store_head *since, struct others *out, struct err *err)
{
    struct postgres_store *self = postgres_of(store);
    PGresult **results = self->prefetch.others;
    *out = (struct others){ 0 };
    if (!results[0] || self->prefetch.others_since != since->commit) {
        others_queue(self, since);
        if (!pg_exchange(&self->pg, err))
            return false;
        others_keep(self, since, 0);
    }
    out->too_far = PQntuples(results[0]) > TURNS_TAKEN_MAX;
    if (!out->too_far && !events_take(results[0], arena, out, err))
        return false;
    ready_start_others(self, since, out);
    if (out->too_far)
        return true;
    struct hold due = { .key = INT64_MAX };
    struct query q[OTHERS_COUNT];
    bool any;
    for (size_t i = 0; i < OTHERS_COUNT; i++)
        q[i] = pg_query(results[i]);
    if (!get_hold(&q[7], NULL, &due, &any, err))
        return false;
    out->next_time = due.key;
    return list_duty(&q[6], arena, &out->duties, &out->n_duties, err) &&
           each_lane(&q[1], arena, &out->lanes, &out->n_lanes, err) &&
           each_class(&q[2], arena, &out->classes, &out->n_classes, err) &&
           each_slot(&q[3], arena, &out->slots, &out->n_slots, err) && executors_take(results[4], arena, out, err) &&
           each_archive(&q[5], arena, &out->archives, &out->n_archives, err);
}

bool postgres_history_holds(
    struct store *store, int64_t seq, const uint8_t hash[STORE_HASH_BYTES], bool *out_holds, struct err *err)
{
    struct postgres_store *self = postgres_of(store);
    PGresult *result;
    if (!pg_run(&self->pg, SQL_turn_of, PG_ARGS(NUM(seq)), &result, err))
        return false;
    struct str there = PQntuples(result) > 0 ? cell_view(result, 0, 0) : (struct str){ 0 };
    *out_holds = str_eq(there, (struct str){ (const char *)hash, STORE_HASH_BYTES });
    return true;
}

/* --- listening --- */

struct listener {
    struct postgres_store *store;
    pthread_t thread;
    int stop_fd;
    void (*others)(struct str note, void *owner);
    void *owner;
};

/* False: to be stopped. */
static bool listener_wait(const struct listener *listener, int fd, int timeout_ms)
{
    struct pollfd fds[2] = { { .fd = listener->stop_fd, .events = POLLIN }, { .fd = fd, .events = POLLIN } };
    while (poll(fds, fd >= 0 ? 2 : 1, timeout_ms) < 0 && errno == EINTR)
        ;
    return fds[0].revents == 0;
}

/* Hints of our own commits come too, and are as good as none. A commit's has its number; anything else is a note. */
static bool hints_take(const struct listener *listener, struct pg *pg)
{
    PGnotify *hint;
    bool others = false;
    if (!PQconsumeInput(pg->conn))
        pg->lost = true;
    while ((hint = PQnotifies(pg->conn)) != NULL) {
        bool theirs = hint->be_pid != listener->store->backend, note = hint->extra[0] > '9';
        if (theirs && note)
            listener->others(str_of(hint->extra), listener->owner);
        others |= theirs && !note;
        PQfreemem(hint);
    }
    return others;
}

static void *listener_run(void *arg)
{
    struct listener *listener = arg;
    bool on = true;
    while (on) {
        struct pg pg = { 0 };
        struct err ignored = { 0 };
        bool ok = pg_connect(&pg, listener->store->url, &ignored) && pg_exec(&pg, SQL_listen, &ignored);
        if (ok)
            listener->others((struct str){ 0 }, listener->owner); /* what came before we listened */
        while (ok && !pg.lost && (on = listener_wait(listener, PQsocket(pg.conn), -1)))
            if (hints_take(listener, &pg))
                listener->others((struct str){ 0 }, listener->owner);
        pg_close(&pg);
        on = on && listener_wait(listener, -1, LISTEN_AGAIN_MS);
    }
    return NULL;
}

bool postgres_on_others(struct store *store, void (*others)(struct str note, void *owner), void *owner, struct err *err)
{
    struct postgres_store *self = postgres_of(store);
    listener_stop(self);
    if (!others)
        return true;
    struct listener *listener = mem_alloc_zero(sizeof *listener);
    *listener =
        (struct listener){ .store = self, .stop_fd = eventfd(0, EFD_CLOEXEC), .others = others, .owner = owner };
    int code = listener->stop_fd < 0 ? errno : pthread_create(&listener->thread, NULL, listener_run, listener);
    if (code != 0) {
        if (listener->stop_fd >= 0)
            close(listener->stop_fd);
        mem_free(listener);
        return err_set(
            err, ERR_io, "the thread that listens to other servers could not be started: %s", strerror(code));
    }
    self->listener = listener;
    return true;
}

void listener_stop(struct postgres_store *self)
{
    struct listener *listener = self->listener;
    uint64_t one = 1;
    if (!listener)
        return;
    while (write(listener->stop_fd, &one, sizeof one) < 0 && errno == EINTR)
        ;
    pthread_join(listener->thread, NULL);
    close(listener->stop_fd);
    mem_free(listener);
    self->listener = NULL;
}
