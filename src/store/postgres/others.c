/* others: what other servers of the same store have done: read at the beginning of a turn, and told by LISTEN on a thread with a connection
 * of its own. A hint that is lost costs little: servers take a turn every second anyway. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "store/pack.h"
#include "store/postgres/archives.h"
#include "store/postgres/postgres.h"

enum { TURNS_TAKEN_MAX = 500, LISTEN_AGAIN_MS = 1000 };

static bool events_take(const PGresult *turns, struct arena *arena, struct others *out, struct err *err)
{
    size_t cap = 0;
    for (int i = 0; i < PQntuples(turns); i++) {
        struct event *events;
        size_t n;
        if (!unpack_events(cell_view(turns, i, 3), cell_i64(turns, i, 1), cell_i64(turns, i, 2), arena, &events, &n))
            return err_set(err, ERR_corrupt, "the events of turn %lld can't be read: run weir verify", (long long)cell_i64(turns, i, 0));
        for (size_t k = 0; k < n; k++)
            *ARENA_PUSH(arena, out->events, out->n_events, cap) = events[k];
    }
    return true;
}

static void duties_take(const PGresult *result, struct arena *arena, struct others *out)
{
    out->n_duties = (size_t)PQntuples(result);
    out->duties = ARENA_ARRAY(arena, struct duty, out->n_duties + 1);
    for (int i = 0; i < (int)out->n_duties; i++)
        out->duties[i] = (struct duty){ cell_text(result, i, 0, arena), cell_text(result, i, 1, arena), cell_i64(result, i, 2),
                                        cell_i64(result, i, 3) };
}

/* One round trip. */
bool postgres_load_others(struct store *store, struct arena *arena, const struct store_head *since, struct others *out, struct err *err)
{
    struct postgres_store *self = postgres_of(store);
    struct pg *pg = &self->pg;
    struct pg_args commit = { 0 }, class_id = { 0 }, turn = { 0 };
    *out = (struct others){ 0 };
    arg_i64(&commit, since->commit);
    arg_i64(&class_id, since->next_class);
    arg_i64(&turn, since->turn);
    arg_i64(&turn, TURNS_TAKEN_MAX + 1);
    pg_queue(pg, PG_turns_others, &turn);
    pg_queue(pg, PG_lanes_touched, &commit);
    pg_queue(pg, PG_classes_above, &class_id);
    pg_queue(pg, PG_slots_touched, &commit);
    pg_queue(pg, PG_executors_touched, &commit);
    pg_queue(pg, PG_archives_touched, &commit);
    pg_queue(pg, PG_duties, NULL);
    if (!pg_exchange(pg, err))
        return false;
    out->too_far = PQntuples(pg->results[0]) > TURNS_TAKEN_MAX;
    if (out->too_far)
        return true;
    duties_take(pg->results[6], arena, out);
    return events_take(pg->results[0], arena, out, err) && pg_rows_lanes(pg->results[1], arena, &out->lanes, &out->n_lanes, err) &&
           pg_rows_classes(pg->results[2], arena, &out->classes, &out->n_classes, err) &&
           pg_rows_slots(pg->results[3], arena, &out->slots, &out->n_slots, err) &&
           pg_rows_executors(pg->results[4], arena, &out->executors, &out->n_executors, err) &&
           pg_rows_archives(pg->results[5], arena, &out->archives, &out->n_archives, err);
}

/* --- listening ------------------------------------------------------------------------------------------------------------------------ */

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
        bool ok = pg_connect(&pg, listener->store->url, &ignored) && pg_exec(&pg, PG_listen, &ignored);
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
    *listener = (struct listener){ .store = self, .stop_fd = eventfd(0, EFD_CLOEXEC), .others = others, .owner = owner };
    int code = listener->stop_fd < 0 ? errno : pthread_create(&listener->thread, NULL, listener_run, listener);
    if (code != 0) {
        if (listener->stop_fd >= 0)
            close(listener->stop_fd);
        mem_free(listener);
        return err_set(err, ERR_io, "the thread that listens to other servers could not be started: %s", strerror(code));
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
