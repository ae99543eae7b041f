/* coord_zookeeper: advice from a ZooKeeper ensemble: which servers are there (ephemeral nodes under PATH/nodes) and
 * which should take a duty that is free (the oldest of the ephemeral sequential nodes under PATH/duties/NAME).
 *
 * Owns a thread that makes every call to the client library, because these calls block; the library's own threads only
 * set flags. The thread opens a new session when the old one has expired, and also when it couldn't connect for a
 * while: a ZooKeeper server that lost its data refuses sessions that have seen newer data. All nodes that it writes are
 * ephemeral: they end with its session.
 *
 * Opening fails if the library isn't installed. Later the backend never fails: while ZooKeeper doesn't answer, its
 * status is `away` with the time and the reason, it gives no advice, and it reconnects by itself. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "coord/coord.h"
#include "coord/zookeeper.h"
#include "io/clock.h"

enum {
    SESSION_MS = 3000,
    CONNECT_MS = 2000, /* without a connection for so long the status is `away` */
    RENEW_MS = 4000,   /* and after so long a new session is opened */
    RETRY_MS = 250,
    SEQUENCE_DIGITS = 10,
};

static struct zookeeper *zookeeper_of(struct coord *coord)
{
    return (struct zookeeper *)(void *)coord;
}

/* --- callbacks, on the library's threads --- */

static struct {
    pthread_mutex_t lock;
    char text[128];
} fault = { .lock = PTHREAD_MUTEX_INITIALIZER }; /* one for the process: the library's log has no context */

/* Of the library's log only "... errno=111(Connection refused): ..." helps a person; the rest is dropped. */
static void library_logged(const char *message)
{
    const char *from = strstr(message, "errno="), *open = from != NULL ? strchr(from, '(') : NULL;
    const char *end = open != NULL ? strchr(open, ')') : NULL;
    if (end == NULL)
        return;
    pthread_mutex_lock(&fault.lock);
    snprintf(fault.text, sizeof fault.text, "%.*s", (int)(end - open - 1), open + 1);
    pthread_mutex_unlock(&fault.lock);
}

/* news_of: the part of the tree that the path belongs to. */
static unsigned news_of(const struct zookeeper *z, const char *path)
{
    size_t len = strlen(z->root);
    if (strlen(path) <= len || strncmp(path, z->root, len) != 0)
        return NEWS_ALL;
    struct str rest = str_of(path + len);
    return str_starts(rest, STR("/executors")) ? NEWS_EXECUTORS
           : str_starts(rest, STR("/locks"))   ? NEWS_LOCKS
                                               : NEWS_NODES;
}

void zk_seen(zhandle_t *handle, int type, int state, const char *path, void *context)
{
    struct zookeeper *z = context;
    (void)handle;
    pthread_mutex_lock(&z->lock);
    if (type == ZOO_SESSION_EVENT) {
        z->connected = state == ZOO_CONNECTED_STATE;
        z->expired |= state == ZOO_EXPIRED_SESSION_STATE || state == ZOO_AUTH_FAILED_STATE;
        z->news |= NEWS_ALL;
    } else {
        unsigned news = path != NULL ? news_of(z, path) : NEWS_ALL;
        if (news == NEWS_EXECUTORS)
            register_stale(z, path);
        z->news |= news;
    }
    pthread_cond_signal(&z->news_cond);
    pthread_mutex_unlock(&z->lock);
}

/* --- paths --- */

const char *zk_path(char *out, const struct zookeeper *z, const char *folder, const char *name)
{
    snprintf(out, ZK_PATH_BYTES, "%s/%s%s%s", z->root, folder, *name ? "/" : "", name);
    return out;
}

bool zk_went(struct zookeeper *z, int code)
{
    if (code != ZOK)
        z->code = code;
    return code == ZOK;
}

/* acl_of: with credentials only their owner may write. Everybody may read: the register has no secrets. */
static const struct ACL_vector *acl_of(const struct zookeeper *z, struct ACL_vector *out, struct ACL *acls)
{
    static char auth[] = "auth", none[] = "", world[] = "world", anyone[] = "anyone";
    if (z->auth.len == 0)
        return &ZOO_OPEN_ACL_UNSAFE;
    acls[0] = (struct ACL){ .perms = ZOO_PERM_ALL, .id = { auth, none } };
    acls[1] = (struct ACL){ .perms = ZOO_PERM_READ, .id = { world, anyone } };
    *out = (struct ACL_vector){ .count = 2, .data = acls };
    return out;
}

int zk_create(struct zookeeper *z, const char *path, const char *content, int flags, char *out_path, int out_size)
{
    struct ACL acls[2];
    struct ACL_vector vector;
    return zoo_create(
        z->handle, path, content, (int)strlen(content), acl_of(z, &vector, acls), flags, out_path, out_size);
}

/* folder_keep: a folder of our tree that existed before: its access list becomes ours. */
static int folder_keep(struct zookeeper *z, const char *path)
{
    struct ACL acls[2];
    struct ACL_vector vector;
    if (z->auth.len == 0 || strlen(path) < strlen(z->root))
        return ZOK;
    return zoo_set_acl(z->handle, path, -1, acl_of(z, &vector, acls));
}

bool zk_ensure(struct zookeeper *z, const char *path)
{
    char part[ZK_PATH_BYTES];
    for (const char *slash = strchr(path + 1, '/');; slash = strchr(slash + 1, '/')) {
        snprintf(part, sizeof part, "%.*s", slash != NULL ? (int)(slash - path) : ZK_PATH_BYTES - 1, path);
        int code = zk_create(z, part, "", 0, NULL, 0);
        if (!zk_went(z, code == ZNODEEXISTS ? folder_keep(z, part) : code))
            return false;
        if (slash == NULL)
            return true;
    }
}

bool zk_is_ours(const struct zookeeper *z, const char *path)
{
    struct Stat stat = { 0 };
    return zoo_exists(z->handle, path, 0, &stat) == ZOK && stat.ephemeralOwner == zoo_client_id(z->handle)->client_id;
}

/* --- joining --- */

static bool member_put(struct zookeeper *z)
{
    char path[ZK_PATH_BYTES], content[sizeof z->content], name[129];
    snprintf(name, sizeof name, "%.*s", STR_ARG(z->port.config.member));
    zk_path(path, z, "nodes", name);
    pthread_mutex_lock(&z->lock);
    memcpy(content, z->content, sizeof content);
    z->told = false;
    pthread_mutex_unlock(&z->lock);
    int code = zk_create(z, path, content, ZOO_EPHEMERAL, NULL, 0);
    if (code != ZNODEEXISTS)
        return zk_went(z, code);
    if (zk_is_ours(z, path))
        return zk_went(z, zoo_set(z->handle, path, content, (int)strlen(content), -1));
    /* it is of an earlier session of this server: the store guarantees that no other server has this name */
    (void)zoo_delete(z->handle, path, -1);
    return zk_went(z, zk_create(z, path, content, ZOO_EPHEMERAL, NULL, 0));
}

struct str zk_candidate(const char *child, int64_t *out_number)
{
    struct str whole = str_of(child);
    *out_number = INT64_MAX;
    if (whole.len <= SEQUENCE_DIGITS + 1)
        return (struct str){ 0 };
    (void)str_to_i64(str_sub(whole, whole.len - SEQUENCE_DIGITS, whole.len), out_number);
    return str_sub(whole, 0, whole.len - SEQUENCE_DIGITS - 1);
}

static bool candidate_put(struct zookeeper *z, const char *duty)
{
    char folder[ZK_PATH_BYTES], path[ZK_PATH_BYTES * 2];
    struct String_vector children = { 0 };
    bool there = false;
    zk_path(folder, z, "duties", duty);
    if (!zk_ensure(z, folder) || !zk_went(z, zoo_wget_children(z->handle, folder, NULL, NULL, &children)))
        return false;
    for (int i = 0; i < children.count; i++) {
        int64_t number;
        if (!str_eq(zk_candidate(children.data[i], &number), z->port.config.member))
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, children.data[i]);
        if (zk_is_ours(z, path))
            there = true; /* the answer to its creation was lost */
        else
            (void)zoo_delete(z->handle, path, -1); /* of an earlier session: left there, it would be the leader */
    }
    deallocate_String_vector(&children);
    snprintf(path, sizeof path, "%s/%.*s-", folder, STR_ARG(z->port.config.member));
    return there || zk_went(z, zk_create(z, path, "", ZOO_EPHEMERAL | ZOO_SEQUENCE, NULL, 0));
}

static bool join(struct zookeeper *z)
{
    char path[ZK_PATH_BYTES];
    bool good =
        zk_ensure(z, zk_path(path, z, "nodes", "")) && zk_ensure(z, zk_path(path, z, "executors", "")) && member_put(z);
    for (size_t i = 0; good && i < z->port.config.n_names - z->port.config.n_locks; i++)
        good = candidate_put(z, z->port.config.names[i]);
    pthread_mutex_lock(&z->lock);
    z->joined_at = clock_boot_ms();
    pthread_mutex_unlock(&z->lock);
    return good;
}

/* --- reading --- */

/* roster_read: NULL: a call failed. *out_ours: this server is in the roster. */
static struct roster *roster_read(struct zookeeper *z, bool *out_ours)
{
    char folder[ZK_PATH_BYTES], path[ZK_PATH_BYTES * 2], content[COORD_CONTENT_MAX];
    struct String_vector children = { 0 };
    zk_path(folder, z, "nodes", "");
    if (zoo_wget_children(z->handle, folder, zk_seen, z, &children) != ZOK)
        return NULL;
    struct roster *roster = mem_alloc_zero(sizeof *roster);
    size_t n = children.count < COORD_MEMBERS_MAX ? (size_t)children.count : COORD_MEMBERS_MAX;
    roster->members = ARENA_ARRAY(&roster->arena, struct coord_member, n + 1);
    roster->sessions = ARENA_ARRAY(&roster->arena, int64_t, n + 1);
    *out_ours = false;
    for (size_t i = 0; i < n; i++) {
        struct coord_member *member = &roster->members[roster->n];
        int len = (int)sizeof content;
        snprintf(path, sizeof path, "%s/%s", folder, children.data[i]);
        struct Stat stat = { 0 };
        if (zoo_get(z->handle, path, 0, content, &len, &stat) != ZOK)
            continue; /* it was removed meanwhile */
        roster->sessions[roster->n++] = stat.ephemeralOwner;
        member->name = str_dup(&roster->arena, str_of(children.data[i]));
        member->content = str_dup(&roster->arena, (struct str){ content, len > 0 ? (size_t)len : 0 });
        *out_ours |= str_eq(member->name, z->port.config.member);
    }
    deallocate_String_vector(&children);
    return roster;
}

static bool advice_read(struct zookeeper *z, const char *duty, enum coord_advice *out)
{
    char folder[ZK_PATH_BYTES];
    struct String_vector children = { 0 };
    int64_t first = INT64_MAX, ours = INT64_MAX, number;
    zk_path(folder, z, "duties", duty);
    if (zoo_wget_children(z->handle, folder, zk_seen, z, &children) != ZOK)
        return false;
    for (int i = 0; i < children.count; i++) {
        bool own = str_eq(zk_candidate(children.data[i], &number), z->port.config.member);
        first = number < first ? number : first;
        ours = own && number < ours ? number : ours;
    }
    deallocate_String_vector(&children);
    *out = ours == first ? COORD_LEAD : COORD_FOLLOW;
    return ours < INT64_MAX;
}

static bool look(struct zookeeper *z)
{
    enum coord_advice advice[ZK_NAMES_MAX];
    size_t n = z->port.config.n_names - z->port.config.n_locks;
    bool ours = false;
    struct roster *roster = roster_read(z, &ours), *old;
    bool good = roster != NULL && ours;
    for (size_t i = 0; good && i < n; i++)
        good = advice_read(z, z->port.config.names[i], &advice[i]);
    if (!good) {
        roster_free(roster);
        return false;
    }
    pthread_mutex_lock(&z->lock);
    old = z->roster;
    z->roster = roster;
    memcpy(z->advice, advice, n * sizeof *advice);
    pthread_mutex_unlock(&z->lock);
    roster_free(old);
    return true;
}

/* --- the thread --- */

/* status_set: while ZooKeeper is away, what was read from it is forgotten. */
static void status_set(struct zookeeper *z, bool away, const char *text)
{
    struct roster *old = NULL;
    pthread_mutex_lock(&z->lock);
    bool news = z->status.away != away || strcmp(z->status.text, text) != 0;
    if (z->status.away != away || z->status.since == 0)
        z->status.since = clock_wall_ms();
    z->status.away = away;
    snprintf(z->status.text, sizeof z->status.text, "%s", text);
    if (away) {
        old = z->roster;
        z->roster = NULL;
        for (size_t i = 0; i < z->port.config.n_names; i++)
            z->advice[i] = COORD_NO_ADVICE;
        register_away(z);
    }
    pthread_mutex_unlock(&z->lock);
    roster_free(old);
    if (news)
        z->changed(z->owner);
}

static void handle_close(struct zookeeper *z)
{
    if (z->handle != NULL)
        zookeeper_close(z->handle);
    z->handle = NULL;
    z->joined = false;
    register_forget(z);
    locks_forget(z);
    pthread_mutex_lock(&z->lock);
    z->connected = z->expired = false;
    pthread_mutex_unlock(&z->lock);
}

/* auth_done: does nothing: wrong credentials show as ZNOAUTH when a node is written. */
static void auth_done(int code, const void *data)
{
    (void)code;
    (void)data;
}

static void handle_open(struct zookeeper *z)
{
    char text[sizeof z->status.text];
    errno = 0;
    z->opened_at = clock_boot_ms();
    z->handle = zookeeper_init2(z->hosts, zk_seen, (int)z->session_ms, NULL, z, 0, library_logged);
    if (z->handle != NULL && z->auth.len > 0)
        (void)zoo_add_auth(z->handle, "digest", z->auth.ptr, (int)z->auth.len, auth_done, z);
    if (z->handle != NULL)
        return;
    snprintf(text, sizeof text, "%s: %s", z->hosts,
        errno == EINVAL || errno == ENOENT ? "no such host" : strerrordesc_np(errno));
    status_set(z, true, text);
}

static void away_report(struct zookeeper *z)
{
    char text[sizeof z->status.text];
    pthread_mutex_lock(&fault.lock);
    snprintf(text, sizeof text, "%.100s: %s", z->hosts, fault.text[0] ? fault.text : "no answer");
    pthread_mutex_unlock(&fault.lock);
    status_set(z, true, text);
}

/* unconnected: one pass without a connection; returns the ms until the next pass. */
static int64_t unconnected(struct zookeeper *z)
{
    int64_t now = clock_boot_ms();
    if (z->lost_at == 0)
        z->lost_at = z->opened_at = now;
    if (z->joined) { /* the connection was there a moment ago; what has changed since isn't known */
        z->joined = false;
        status_set(z, true, "the connection was lost");
    }
    if (now - z->lost_at >= CONNECT_MS)
        away_report(z);
    if (z->handle == NULL || now - z->opened_at >= RENEW_MS) {
        handle_close(z);
        handle_open(z);
    }
    return 2 * RETRY_MS;
}

/* unjoined_report: connected, but our nodes can't be written: the path belongs to other credentials, or no quorum. */
static void unjoined_report(struct zookeeper *z)
{
    char text[sizeof z->status.text];
    pthread_mutex_lock(&z->lock);
    bool still = z->connected && z->code != ZOK;
    pthread_mutex_unlock(&z->lock);
    if (!still)
        return;
    if (z->code == ZNOAUTH)
        snprintf(text, sizeof text,
            "%.60s, path %.60s belongs to other credentials: give this server those of the others "
            "(coordination_auth), or another path",
            z->hosts, z->root);
    else
        snprintf(text, sizeof text, "%.80s, path %.80s: %s", z->hosts, z->root, zerror(z->code));
    status_set(z, true, text);
    z->code = ZOK;
}

/* tree_turn: reads what has changed and writes what this server publishes. False: a call failed. */
static bool tree_turn(struct zookeeper *z, unsigned news, bool told, bool *out_more)
{
    return (!told || member_put(z)) && (!(news & NEWS_NODES) || look(z)) && register_write(z, out_more) &&
           (!(news & NEWS_EXECUTORS) || register_look(z)) && (!(news & NEWS_LOCKS) || locks_turn(z));
}

/* connected: one pass with a connection: joins, reads, writes; returns the ms until the next pass; 0: nothing to do
 * until there is news. */
static int64_t connected(struct zookeeper *z, unsigned news, bool told)
{
    z->lost_at = 0;
    bool was = z->joined, more = false;
    if (!z->joined)
        z->joined = join(z);
    if (z->joined)
        z->joined = tree_turn(z, was ? news : NEWS_ALL, was && told, &more);
    if (!z->joined) {
        unjoined_report(z);
        return 2 * RETRY_MS;
    }
    status_set(z, false, "");
    if (news || !was)
        z->changed(z->owner);
    return more ? RETRY_MS : 0;
}

/* news_wait: waits for stop or the session's end, at most ms (0: without a limit); eager: also for changes to read or
 * to write. The lock is held. */
static void news_wait(struct zookeeper *z, int64_t ms, bool eager)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_sec += (time_t)(ms / 1000);
    at.tv_nsec += (long)(ms % 1000) * 1000000;
    if (at.tv_nsec >= 1000000000) {
        at.tv_sec++;
        at.tv_nsec -= 1000000000;
    }
    while (!z->stop && !z->expired && !(eager && (z->news || ((z->told || z->executors_told) && z->connected))))
        if (ms == 0)
            pthread_cond_wait(&z->news_cond, &z->lock);
        else if (pthread_cond_timedwait(&z->news_cond, &z->lock, &at) != 0)
            return;
}

static void *run(void *arg)
{
    struct zookeeper *z = arg;
    pthread_mutex_lock(&z->lock);
    while (!z->stop) {
        bool is_connected = z->connected && !z->expired && z->handle != NULL, told = z->told, expired = z->expired;
        unsigned news = z->news;
        z->news = 0;
        pthread_mutex_unlock(&z->lock);
        if (expired) {
            handle_close(z);
            status_set(z, true, "the session has expired");
        }
        int64_t ms = is_connected ? connected(z, news, told) : unconnected(z);
        pthread_mutex_lock(&z->lock);
        news_wait(z, ms, !is_connected || ms == 0); /* a call that has just failed isn't repeated at once */
    }
    pthread_mutex_unlock(&z->lock);
    handle_close(z);
    return NULL;
}

/* --- the port --- */

static bool zookeeper_start(struct coord *coord, void (*changed)(void *owner), void *owner, struct err *err)
{
    struct zookeeper *z = zookeeper_of(coord);
    z->changed = changed;
    z->owner = owner;
    z->advice = ARENA_ARRAY(&coord->arena, enum coord_advice, coord->config.n_names + 1);
    int code = pthread_create(&z->thread, NULL, run, z);
    z->started = code == 0;
    return code == 0 ||
           err_set(err, ERR_io, "the thread that speaks to ZooKeeper could not be started: %s", strerror(code));
}

static void zookeeper_end(struct coord *coord)
{
    struct zookeeper *z = zookeeper_of(coord);
    pthread_mutex_lock(&z->lock);
    z->stop = true;
    pthread_cond_signal(&z->news_cond);
    pthread_mutex_unlock(&z->lock);
    if (z->started)
        pthread_join(z->thread, NULL);
    roster_free(z->roster);
    register_release(z);
    pthread_cond_destroy(&z->news_cond);
    pthread_mutex_destroy(&z->lock);
    arena_release(&coord->arena);
    mem_free(z);
}

static void zookeeper_publish(struct coord *coord, struct str content)
{
    struct zookeeper *z = zookeeper_of(coord);
    pthread_mutex_lock(&z->lock);
    if (!str_eqz(content, z->content)) {
        memcpy(z->content, content.ptr, content.len);
        z->content[content.len] = '\0';
        z->told = true;
        pthread_cond_signal(&z->news_cond);
    }
    pthread_mutex_unlock(&z->lock);
}

static void zookeeper_want(struct coord *coord, size_t name, bool wanted)
{
    struct zookeeper *z = zookeeper_of(coord);
    pthread_mutex_lock(&z->lock);
    z->wanted[name] = wanted;
    z->dropped[name] |= !wanted;
    z->advice[name] = wanted && !z->status.away ? COORD_ASKED : COORD_NO_ADVICE;
    z->news |= NEWS_LOCKS;
    pthread_cond_signal(&z->news_cond);
    pthread_mutex_unlock(&z->lock);
}

static enum coord_advice zookeeper_advice(struct coord *coord, size_t name)
{
    struct zookeeper *z = zookeeper_of(coord);
    pthread_mutex_lock(&z->lock);
    enum coord_advice advice = z->started ? z->advice[name] : COORD_NO_ADVICE;
    pthread_mutex_unlock(&z->lock);
    return advice;
}

/* zookeeper_absent: a roster younger than a session proves nothing: servers may be reconnecting still. */
static bool zookeeper_absent(struct coord *coord, struct str member)
{
    struct zookeeper *z = zookeeper_of(coord);
    pthread_mutex_lock(&z->lock);
    bool absent = z->roster != NULL && clock_boot_ms() - z->joined_at > z->session_ms;
    for (size_t i = 0; absent && i < z->roster->n; i++)
        absent = !str_eq(z->roster->members[i].name, member);
    pthread_mutex_unlock(&z->lock);
    return absent;
}

static bool zookeeper_members(struct coord *coord, struct arena *arena, struct coord_member **out, size_t *out_n)
{
    struct zookeeper *z = zookeeper_of(coord);
    pthread_mutex_lock(&z->lock);
    bool known = z->roster != NULL;
    if (known) {
        *out_n = z->roster->n;
        *out = ARENA_ARRAY(arena, struct coord_member, *out_n + 1);
        for (size_t i = 0; i < *out_n; i++)
            (*out)[i] = (struct coord_member){ str_dup(arena, z->roster->members[i].name),
                str_dup(arena, z->roster->members[i].content) };
    }
    pthread_mutex_unlock(&z->lock);
    return known;
}

static void zookeeper_status(struct coord *coord, struct coord_status *out)
{
    struct zookeeper *z = zookeeper_of(coord);
    pthread_mutex_lock(&z->lock);
    *out = z->status;
    pthread_mutex_unlock(&z->lock);
}

static const char *missing; /* of the library; NULL: it is loaded */

static void library_load(void)
{
    if (!coord_zk_load(&missing))
        return;
    missing = NULL;
    zoo_set_debug_level(ZOO_LOG_LEVEL_ERROR);
}

struct coord *coord_zookeeper_new(const struct coord_config *config, struct err *err)
{
    static const struct coord_ops ops = { .kind = "zookeeper",
        .start = zookeeper_start,
        .close = zookeeper_end,
        .publish = zookeeper_publish,
        .want = zookeeper_want,
        .publish_executors = register_publish,
        .executors = register_list,
        .executor_left = register_left,
        .advice = zookeeper_advice,
        .absent = zookeeper_absent,
        .members = zookeeper_members,
        .status = zookeeper_status };
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, library_load);
    if (missing != NULL) {
        err_set(err, ERR_usage,
            "coordination: ZooKeeper's client library can't be loaded (%s): install libzookeeper-mt2", missing);
        return NULL;
    }
    struct zookeeper *z = mem_alloc_zero(sizeof *z);
    struct str rest = str_sub(config->url, sizeof "zookeeper://" - 1, config->url.len);
    ptrdiff_t slash = str_index(rest, '/');
    struct str path = slash >= 0 ? str_sub(rest, (size_t)slash, rest.len) : (struct str){ 0 };
    z->port.ops = &ops;
    z->hosts = str_dupz(&z->port.arena, slash >= 0 ? str_sub(rest, 0, (size_t)slash) : rest);
    z->root = str_dupz(&z->port.arena, path.len > 1 ? path : STR("/weir"));
    z->auth = str_dup(&z->port.arena, config->auth);
    ASSERT(config->n_names <= ZK_NAMES_MAX);
    z->session_ms = config->session_ms > 0 ? config->session_ms : SESSION_MS;
    z->status = (struct coord_status){ .kind = ops.kind, .away = true, .text = "connecting" };
    pthread_mutex_init(&z->lock, NULL);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&z->news_cond, &monotonic);
    pthread_condattr_destroy(&monotonic);
    return &z->port;
}
