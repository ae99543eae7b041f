/* zookeeper_register: executors in ZooKeeper's register. The server that an executor polls keeps an ephemeral node for
 * it (PATH/executors/NAME, JSON). All servers watch these nodes, so each learns at once of an executor that appeared,
 * changed or left.
 *
 * Runs on the backend's thread, except for functions marked otherwise. Owns the nodes that this session wrote and the
 * copy of all executors' nodes. A node that another server has written since is left alone: the executor polls that
 * server now. One pass makes at most WRITES_MAX writes; the next pass goes on. */
#include <stdio.h>
#include <string.h>

#include "coord/zookeeper.h"
#include "io/clock.h"

enum { WRITES_MAX = 200, LEFT_MAX = 1000 };
#define FOLDER "executors"

void roster_free(struct roster *roster)
{
    if (roster == NULL)
        return;
    arena_release(&roster->arena);
    mem_free(roster);
}

/* --- records --- */

static struct record *record_put(struct smap *map, struct str name)
{
    struct record *record = smap_find(map, name);
    if (record != NULL)
        return record;
    record = mem_alloc_zero(sizeof *record);
    record->name = str_keep(name);
    smap_put(map, str_of(record->name), record);
    return record;
}

static void record_free(struct record *record)
{
    mem_free(record->name);
    mem_free(record->content);
    mem_free(record);
}

static void record_drop(struct smap *map, struct str name)
{
    struct record *record = smap_take(map, name);
    if (record != NULL)
        record_free(record);
}

static void records_drop(struct smap *map)
{
    SMAP_EACH (map, entry)
        record_free(entry->value);
    smap_clear(map);
}

/* --- what this server writes --- */

static bool node_put(struct zookeeper *z, const struct coord_member *member, const char *content)
{
    char path[ZK_PATH_BYTES * 2], name[256];
    snprintf(name, sizeof name, "%.*s", STR_ARG(member->name));
    zk_path(path, z, FOLDER, name);
    int code = zk_create(z, path, content, ZOO_EPHEMERAL, NULL, 0);
    if (code != ZNODEEXISTS)
        return zk_went(z, code);
    if (zk_is_ours(z, path))
        return zk_went(z, zoo_set(z->handle, path, content, (int)strlen(content), -1));
    (void)zoo_delete(z->handle, path, -1); /* the executor polled another server before */
    code = zk_create(z, path, content, ZOO_EPHEMERAL, NULL, 0);
    return code == ZNODEEXISTS || zk_went(z, code); /* that server wrote again; the one that is polled last keeps it */
}

static bool mine_has(const struct zookeeper *z, struct str name)
{
    for (size_t i = 0; i < z->executors_mine->n; i++)
        if (str_eq(z->executors_mine->members[i].name, name))
            return true;
    return false;
}

/* gone_take: deletes the nodes of executors that no longer poll this server. */
static bool gone_take(struct zookeeper *z, size_t *writes)
{
    struct arena arena = { 0 };
    struct str *names = ARENA_ARRAY(&arena, struct str, z->written.n + 1);
    char path[ZK_PATH_BYTES * 2];
    size_t n = 0;
    bool good = true;
    SMAP_EACH (&z->written, entry) {
        const struct record *record = entry->value;
        if (!mine_has(z, str_of(record->name)))
            names[n++] = str_dup(&arena, str_of(record->name));
    }
    for (size_t i = 0; i < n && good && *writes < WRITES_MAX; i++, ++*writes) {
        zk_path(path, z, FOLDER, str_dupz(&arena, names[i]));
        int code = zk_is_ours(z, path) ? zoo_delete(z->handle, path, -1) : ZNONODE;
        good = code == ZNONODE || zk_went(z, code);
        if (good)
            record_drop(&z->written, names[i]);
    }
    arena_release(&arena);
    return good;
}

bool register_write(struct zookeeper *z, bool *out_more)
{
    size_t writes = 0;
    pthread_mutex_lock(&z->lock);
    struct roster *told = z->executors_told;
    z->executors_told = NULL;
    pthread_mutex_unlock(&z->lock);
    if (told != NULL) {
        roster_free(z->executors_mine);
        z->executors_mine = told;
    }
    *out_more = false;
    if (z->executors_mine == NULL)
        return true;
    for (size_t i = 0; i < z->executors_mine->n; i++) {
        const struct coord_member *member = &z->executors_mine->members[i];
        const struct record *known = smap_find(&z->written, member->name);
        if (member->content.len == 0 || (known != NULL && str_eqz(member->content, known->content)))
            continue;
        if (writes++ >= WRITES_MAX) {
            *out_more = true;
            return true;
        }
        char *content = str_keep(member->content);
        if (!node_put(z, member, content)) {
            mem_free(content);
            return false;
        }
        struct record *record = record_put(&z->written, member->name);
        mem_free(record->content);
        record->content = content;
    }
    bool good = gone_take(z, &writes);
    *out_more = writes >= WRITES_MAX;
    return good;
}

void register_forget(struct zookeeper *z)
{
    records_drop(&z->written);
}

/* --- the copy of all executors --- */

static bool session_lives(const struct zookeeper *z, int64_t session)
{
    for (size_t i = 0; z->roster != NULL && i < z->roster->n; i++)
        if (z->roster->sessions[i] == session)
            return true;
    return false;
}

/* missing_take: drops executors whose node is gone. If the session that wrote the node still lives, its server removed
 * it on purpose: the executor left. */
static void missing_take(struct zookeeper *z, const struct String_vector *children)
{
    struct smap there = { 0 };
    struct arena arena = { 0 };
    for (int i = 0; i < children->count; i++)
        smap_put(&there, str_of(children->data[i]), z);
    pthread_mutex_lock(&z->lock);
    if (z->left.n > LEFT_MAX)
        records_drop(&z->left);
    struct str *gone = ARENA_ARRAY(&arena, struct str, z->executors.n + 1);
    size_t n = 0;
    SMAP_EACH (&z->executors, entry) {
        const struct record *record = entry->value;
        if (smap_find(&there, str_of(record->name)) != NULL)
            continue;
        gone[n++] = str_dup(&arena, str_of(record->name));
        if (session_lives(z, record->session))
            record_put(&z->left, str_of(record->name))->at = clock_boot_ms();
    }
    for (size_t i = 0; i < n; i++)
        record_drop(&z->executors, gone[i]);
    pthread_mutex_unlock(&z->lock);
    smap_release(&there);
    arena_release(&arena);
}

/* record_read: reads a node and sets a watch for its next change. */
static bool record_read(struct zookeeper *z, const char *name)
{
    char path[ZK_PATH_BYTES * 2], content[COORD_CONTENT_MAX];
    struct Stat stat = { 0 };
    int len = (int)sizeof content;
    zk_path(path, z, FOLDER, name);
    int code = zoo_wget(z->handle, path, zk_seen, z, content, &len, &stat);
    if (code == ZNONODE)
        return true; /* deleted meanwhile: the watch of its parent reports that */
    if (!zk_went(z, code))
        return false;
    pthread_mutex_lock(&z->lock);
    struct record *record = record_put(&z->executors, str_of(name));
    mem_free(record->content);
    record->content = str_keep((struct str){ content, len > 0 ? (size_t)len : 0 });
    record->session = stat.ephemeralOwner;
    record->stale = false;
    record_drop(&z->left, str_of(name));
    pthread_mutex_unlock(&z->lock);
    return true;
}

bool register_look(struct zookeeper *z)
{
    char folder[ZK_PATH_BYTES];
    struct String_vector children = { 0 };
    bool good = zk_went(z, zoo_wget_children(z->handle, zk_path(folder, z, FOLDER, ""), zk_seen, z, &children));
    if (!good)
        return false;
    int n = children.count < ZK_EXECUTORS_MAX ? children.count : ZK_EXECUTORS_MAX;
    missing_take(z, &children);
    for (int i = 0; good && i < n; i++) {
        pthread_mutex_lock(&z->lock);
        const struct record *known = smap_find(&z->executors, str_of(children.data[i]));
        bool fresh = known != NULL && !known->stale;
        pthread_mutex_unlock(&z->lock);
        good = fresh || record_read(z, children.data[i]);
    }
    deallocate_String_vector(&children);
    pthread_mutex_lock(&z->lock);
    z->executors_known = good;
    pthread_mutex_unlock(&z->lock);
    return good;
}

void register_stale(struct zookeeper *z, const char *path)
{
    char folder[ZK_PATH_BYTES];
    size_t len = strlen(zk_path(folder, z, FOLDER, ""));
    struct record *record = strlen(path) > len + 1 ? smap_find(&z->executors, str_of(path + len + 1)) : NULL;
    if (record != NULL)
        record->stale = true;
}

void register_away(struct zookeeper *z)
{
    records_drop(&z->executors);
    records_drop(&z->left);
    z->executors_known = false;
}

void register_release(struct zookeeper *z)
{
    register_forget(z);
    register_away(z);
    smap_release(&z->written);
    smap_release(&z->executors);
    smap_release(&z->left);
    roster_free(z->executors_mine);
    roster_free(z->executors_told);
}

/* --- the port; any thread --- */

void register_publish(struct coord *coord, const struct coord_member *list, size_t n)
{
    struct zookeeper *z = (struct zookeeper *)(void *)coord;
    struct roster *told = mem_alloc_zero(sizeof *told);
    told->members = ARENA_ARRAY(&told->arena, struct coord_member, n + 1);
    for (size_t i = 0; i < n; i++)
        if (list[i].content.len < COORD_CONTENT_MAX)
            told->members[told->n++] =
                (struct coord_member){ str_dup(&told->arena, list[i].name), str_dup(&told->arena, list[i].content) };
    pthread_mutex_lock(&z->lock);
    struct roster *old = z->executors_told;
    z->executors_told = told;
    pthread_cond_signal(&z->news_cond);
    pthread_mutex_unlock(&z->lock);
    roster_free(old);
}

bool register_list(struct coord *coord, struct arena *arena, struct coord_member **out, size_t *out_n)
{
    struct zookeeper *z = (struct zookeeper *)(void *)coord;
    pthread_mutex_lock(&z->lock);
    bool known = z->executors_known;
    *out_n = 0;
    *out = ARENA_ARRAY(arena, struct coord_member, z->executors.n + 1);
    SMAP_EACH (&z->executors, entry) {
        const struct record *record = entry->value;
        (*out)[(*out_n)++] =
            (struct coord_member){ str_dup(arena, str_of(record->name)), str_dup(arena, str_of(record->content)) };
    }
    pthread_mutex_unlock(&z->lock);
    return known;
}

int64_t register_left(struct coord *coord, struct str executor)
{
    struct zookeeper *z = (struct zookeeper *)(void *)coord;
    pthread_mutex_lock(&z->lock);
    const struct record *record = z->left.n > 0 ? smap_find(&z->left, executor) : NULL;
    int64_t at = record != NULL ? record->at : 0;
    pthread_mutex_unlock(&z->lock);
    return at;
}
