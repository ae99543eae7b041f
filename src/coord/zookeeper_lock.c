/* zookeeper_lock: locks in ZooKeeper: whoever wants one puts an ephemeral sequential node in line and watches the one
 * before it, nobody else, so that an end wakes one server. The first in line is advised to take the row; the others to
 * wait.
 *
 * Runs on the backend's thread. Owns the nodes under PATH/locks. A node dies with its session, so a server that is gone
 * holds up nobody; whose the lock is says the row alone (lock.c). */
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

/* line_read: our node's number, and the node before it ("" : we are first). Ghosts of ours, of a session before, are
 * taken out. */
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

/* line_join: in line, and advised. */
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
        if (code != ZNONODE) /* it went meanwhile: look again */
            return zk_went(z, code);
    }
    return true; /* a line that moves so fast comes to us soon enough: the row goes on without advice */
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
            return false; /* what is in the tree then is found by line_read */
    }
    return true;
}

void locks_forget(struct zookeeper *z)
{
    for (size_t k = 0; k < ZK_NAMES_MAX; k++)
        z->queued[k][0] = '\0';
}
