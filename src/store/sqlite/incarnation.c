/* incarnation: the random number in every fence, so that a store never accepts a fence that another store gave out.
 *
 * With a new incarnation every active grant is marked as one whose job may have begun: its executor can't name it any
 * more, so the attempt counts when the executor polls again.
 *
 * A restore takes a new incarnation. So does a copy of the data directory, which is recognised by inode and time of
 * birth of weir.db, kept in `meta`; a file that was moved keeps both. On a file system that gives a file another inode
 * at each mount, each start takes a new incarnation: running work is granted again, nothing else happens. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/plant.h"
#include "io/clock.h"
#include "store/pack.h"
#include "store/sqlite/query.h"
#include "store/sqlite/sqlite.h"

#define PLACE_NAME STR("place")

bool incarnation_renew(
    struct db *db, const uint8_t key[CHAIN_KEY_BYTES], struct str actor, struct str reason, struct err *err)
{
    return incarnation_events(
        db, key, &(struct event){ .kind = EVENT_incarnation, .actor = actor, .reason = reason }, 1, TAGS_NONE, err);
}

bool incarnation_events(struct db *db, const uint8_t key[CHAIN_KEY_BYTES], const struct event *events, size_t n,
    struct str tags, struct err *err)
{
    struct store_head head;
    struct buf packed;
    uint8_t hash[STORE_HASH_BYTES];
    const struct sql sql = db_sql(db);
    if (!ask_head(&sql, &head, NULL, err))
        return false;
    if (!PLANT(incarnation_kept))
        store_head_renew(&head);
    buf_init(&packed, 4096);
    pack_events(&packed, events, n);
    head.turn++;
    memcpy(hash, head.hash, sizeof hash);
    bool ok =
        turn_write(db, key, hash, head.turn, head.seq + 1, clock_wall_ms(), buf_str(&packed), tags, head.hash, err);
    head.seq += (int64_t)n;
    head.commit++;
    buf_release(&packed);
    return ok && db_run(db, SQL_lives_forget, err) && head_write(db, key, &head, err);
}

bool place_forget(struct db *db, struct err *err)
{
    bind_text(db->stmts[SQL_meta_delete], 1, PLACE_NAME);
    return db_run(db, SQL_meta_delete, err);
}

static void place_of(const char *path, char *out, size_t size)
{
    struct statx st;
    memset(&st, 0, sizeof st);
    if (statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, STATX_INO | STATX_BTIME, &st) != 0) {
        snprintf(out, size, "-");
        return;
    }
    bool born = st.stx_mask & STATX_BTIME;
    snprintf(out, size, "%" PRIu64 ".%" PRId64 ".%" PRIu32, (uint64_t)st.stx_ino,
        born ? (int64_t)st.stx_btime.tv_sec : 0, born ? st.stx_btime.tv_nsec : 0);
}

bool place_check(struct sqlite_store *self, struct err *err)
{
    struct db *db = &self->db;
    char here[80], known[80] = "";
    place_of(self->path, here, sizeof here);
    bind_text(db->stmts[SQL_meta_get], 1, PLACE_NAME);
    enum query_step step = db_next(db, SQL_meta_get, err);
    if (step == QUERY_ROW) {
        struct query c = db_query(db, SQL_meta_get);
        struct str text = next_view(&c);
        snprintf(known, sizeof known, "%.*s", (int)text.len, text.ptr);
        db_reset(db, SQL_meta_get);
    }
    if (step == QUERY_ERROR)
        return false;
    bool same = strcmp(here, known) == 0;
    if (PLANT(incarnation_anew))
        same = false;
    if (same)
        return true;
    if (!db_run(db, SQL_begin, err))
        return false;
    bool ok = !*known || incarnation_renew(db, self->key, STR("store"),
                             STR("this is a copy: weir.db is another file than before"), err);
    if (ok) {
        bind_text(db->stmts[SQL_meta_put], 1, PLACE_NAME);
        bind_text(db->stmts[SQL_meta_put], 2, str_of(here));
        ok = db_run(db, SQL_meta_put, err);
    }
    return ok && db_run(db, SQL_commit, err) && ask_head(&self->port.sql, &self->head, NULL, err);
}
