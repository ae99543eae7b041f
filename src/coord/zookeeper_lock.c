/* zookeeper_lock: the queue for a lock in ZooKeeper. A server that wants the lock adds an ephemeral sequential node and
 * watches only the node before its own, so a release wakes one server. The first server in the queue is advised to take
 * the row, the others to wait.
 *
 * Runs on the backend's thread. Owns the nodes under PATH/locks. A node ends with its session, so a dead server blocks
 * nobody. Who holds the lock is decided by the row alone (lock.c). */
#include <stdio.h>
#include <string.h>

#include "coord/zookeeper.h"

static size_t first_lock(const struct zookeeper *z)
{
    return z->port.config.n_names - z->port.config.n_locks;
}

static void advice_set(struct zookeeper *z, size_t name, enum coord_advice advice)
{
    pthread_mutex_lock(&z->lock);
    bool news = z->wanted[name] && !z->dropped[name] && z->advice[name] != advice;
    if (news)
        z->advice[name] = advice;
    pthread_mutex_unlock(&z->lock);
    if (news)
        z->changed(z->owner);
}

/* line_read: our node in the queue ("": none) and the node before it ("": we are first). Deletes nodes that an earlier
 * session of this server left. */
static bool line_read(
    struct zookeeper *z, const char *folder, char *own, size_t own_size, char *before, size_t before_size)
{
    struct String_vector children = { 0 };
    int64_t ours = INT64_MAX, best = -1, number;
    char path[ZK_PATH_BYTES * 2];
    own[0] = before[0] = '\0';
    if (!zk_went(z, zoo_wget_children(z->handle, folder, NULL, NULL, &children)))
        return false;
    for (int i = 0; i < children.count; i++) {
        if (!str_eq(zk_candidate(children.data[i], &number), z->port.config.member))
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, children.data[i]);
        if (!zk_is_ours(z, path)) {
            (void)zoo_delete(z->handle, path, -1);
        } else if (number < ours) {
            ours = number;
            snprintf(own, own_size, "%s", path);
        }
    }
    for (int i = 0; i < children.count; i++) {
        struct str member = zk_candidate(children.data[i], &number);
        if (number >= ours || number <= best || str_eq(member, z->port.config.member))
            continue;
        best = number;
        snprintf(before, before_size, "%s/%s", folder, children.data[i]);
    }
    deallocate_String_vector(&children);
    return true;
}

/* line_join: joins the queue if we aren't in it, and sets the advice from our place. */
static bool line_join(struct zookeeper *z, size_t name)
{
    char folder[ZK_PATH_BYTES], path[ZK_PATH_BYTES * 2], before[ZK_PATH_BYTES * 2];
    char *own = z->queued[name];
    struct Stat stat;
    zk_path(folder, z, "locks", z->port.config.names[name]);
    if (own[0] == '\0' && !zk_ensure(z, folder))
        return false;
    for (int tries = 0; tries < 100; tries++) {
        if (!line_read(z, folder, own, sizeof z->queued[name], before, sizeof before))
            return false;
        if (own[0] == '\0') {
            snprintf(path, sizeof path, "%s/%.*s-", folder, STR_ARG(z->port.config.member));
            if (!zk_went(z, zk_create(z, path, "", ZOO_EPHEMERAL | ZOO_SEQUENCE, NULL, 0)))
                return false;
            continue;
        }
        if (before[0] == '\0') {
            advice_set(z, name, COORD_LEAD);
            return true;
        }
        int code = zoo_wexists(z->handle, before, zk_seen, z, &stat);
        if (code == ZOK) {
            advice_set(z, name, COORD_FOLLOW);
            return true;
        }
        if (code != ZNONODE) /* else it was deleted meanwhile: read the queue again */
            return zk_went(z, code);
    }
    return true; /* the queue moves too fast to watch; until the next pass the row decides without advice */
}

static bool line_leave(struct zookeeper *z, size_t name)
{
    int code = zoo_delete(z->handle, z->queued[name], -1);
    if (code != ZNONODE && !zk_went(z, code))
        return false;
    z->queued[name][0] = '\0';
    return true;
}

bool locks_turn(struct zookeeper *z)
{
    for (size_t k = first_lock(z); k < z->port.config.n_names; k++) {
        pthread_mutex_lock(&z->lock);
        bool wanted = z->wanted[k], dropped = z->dropped[k];
        z->dropped[k] = false;
        pthread_mutex_unlock(&z->lock);
        if ((dropped && z->queued[k][0] != '\0' && !line_leave(z, k)) || (wanted && !line_join(z, k)))
            return false; /* line_read finds out later which of our nodes exist */
    }
    return true;
}

void locks_forget(struct zookeeper *z)
{
    for (size_t k = 0; k < ZK_NAMES_MAX; k++)
        z->queued[k][0] = '\0';
}
