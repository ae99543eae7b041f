/* coord_zookeeper: advice from a ZooKeeper ensemble: who is there (ephemeral nodes under PATH/nodes) and who should take a duty that is
 * free (the oldest of the ephemeral sequential nodes under PATH/duties/NAME).
 *
 * Owns a thread that makes every call to the client library, since these wait for answers; the library's own threads only set marks. It
 * begins anew with another session when one has expired, and also when nothing has connected for a while: a server that lost its data
 * refuses sessions that have seen more than it has. Everything it writes is its own and dies with its session.
 *
 * Fails at opening, when the library isn't there. Later it is away, says since when and why, gives no advice, and comes back by itself. */
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
    CONNECT_MS = 2000, /* not connected after that: away */
    RENEW_MS = 4000,   /* and after that another session is tried */
    RETRY_MS = 250,
    PATH_BYTES = 512,
    SEQUENCE_DIGITS = 10,
};

struct roster { /* replaced as a whole */
    struct arena arena;
    struct coord_member *members;
    size_t n;
};

struct zookeeper {
    struct coord port;
    char *hosts, *root;
    int64_t session_ms;
    pthread_t thread;
    bool started;
    void (*changed)(void *owner);
    void *owner;

    pthread_mutex_t lock;
    pthread_cond_t news;
    /* under lock */
    bool stop, connected, expired, dirty, told;
    char content[COORD_CONTENT_MAX + 1];
    struct roster *roster; /* NULL: not known */
    int64_t joined_at;     /* boot ms */
    enum coord_advice *advice;
    struct coord_status status;

    /* the thread's */
    zhandle_t *handle;
    bool joined;
    int64_t lost_at;   /* boot ms since when there has been no connection; 0: there is one */
    int64_t opened_at; /* boot ms: the handle */
    int code;          /* of the last call that failed */
};

static struct zookeeper *zookeeper_of(struct coord *coord)
{
    return (struct zookeeper *)(void *)coord;
}

/* ---- what the library says, on its threads ---- */

static struct {
    pthread_mutex_t lock;
    char text[128];
} fault = { .lock = PTHREAD_MUTEX_INITIALIZER }; /* its log has no owner, so it is one for the process */

/* "... errno=111(Connection refused): ..." is what somebody can use; the rest of its log is nobody's. */
static void library_said(const char *message)
{
    const char *from = strstr(message, "errno="), *open = from != NULL ? strchr(from, '(') : NULL;
    const char *end = open != NULL ? strchr(open, ')') : NULL;
    if (end == NULL)
        return;
    pthread_mutex_lock(&fault.lock);
    snprintf(fault.text, sizeof fault.text, "%.*s", (int)(end - open - 1), open + 1);
    pthread_mutex_unlock(&fault.lock);
}

static void seen(zhandle_t *handle, int type, int state, const char *path, void *context)
{
    struct zookeeper *z = context;
    (void)handle;
    (void)path;
    pthread_mutex_lock(&z->lock);
    if (type == ZOO_SESSION_EVENT) {
        z->connected = state == ZOO_CONNECTED_STATE;
        z->expired |= state == ZOO_EXPIRED_SESSION_STATE || state == ZOO_AUTH_FAILED_STATE;
    }
    z->dirty = true;
    pthread_cond_signal(&z->news);
    pthread_mutex_unlock(&z->lock);
}

/* ---- paths ---- */

static const char *path_make(char *out, const struct zookeeper *z, const char *folder, const char *name)
{
    snprintf(out, PATH_BYTES, "%s/%s%s%s", z->root, folder, *name ? "/" : "", name);
    return out;
}

/* went: it worked, or the code is kept for who asks why. */
static bool went(struct zookeeper *z, int code)
{
    if (code != ZOK)
        z->code = code;
    return code == ZOK;
}

/* path_ensure: every folder of it is there. */
static bool path_ensure(struct zookeeper *z, const char *path)
{
    char part[PATH_BYTES];
    for (const char *slash = strchr(path + 1, '/');; slash = strchr(slash + 1, '/')) {
        snprintf(part, sizeof part, "%.*s", slash != NULL ? (int)(slash - path) : PATH_BYTES - 1, path);
        int code = zoo_create(z->handle, part, "", 0, &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0);
        if (code != ZNODEEXISTS && !went(z, code))
            return false;
        if (slash == NULL)
            return true;
    }
}

static bool is_ours(const struct zookeeper *z, const char *path)
{
    struct Stat stat = { 0 };
    return zoo_exists(z->handle, path, 0, &stat) == ZOK && stat.ephemeralOwner == zoo_client_id(z->handle)->client_id;
}

/* ---- joining ---- */

static bool member_put(struct zookeeper *z)
{
    char path[PATH_BYTES], content[sizeof z->content], name[129];
    snprintf(name, sizeof name, "%.*s", STR_ARG(z->port.config.member));
    path_make(path, z, "nodes", name);
    pthread_mutex_lock(&z->lock);
    memcpy(content, z->content, sizeof content);
    z->told = false;
    pthread_mutex_unlock(&z->lock);
    int len = (int)strlen(content), code = zoo_create(z->handle, path, content, len, &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL, NULL, 0);
    if (code != ZNODEEXISTS)
        return went(z, code);
    if (is_ours(z, path))
        return zoo_set(z->handle, path, content, len, -1) == ZOK;
    (void)zoo_delete(z->handle, path, -1); /* of a session of ours before: the store sees to it that no other server has the name */
    return went(z, zoo_create(z->handle, path, content, len, &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL, NULL, 0));
}

/* candidate_member: "NAME-0000000012" without its number; its number. */
static struct str candidate_member(const char *child, int64_t *out_number)
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
    char folder[PATH_BYTES], path[PATH_BYTES * 2];
    struct String_vector children = { 0 };
    bool there = false;
    path_make(folder, z, "duties", duty);
    if (!path_ensure(z, folder) || !went(z, zoo_wget_children(z->handle, folder, NULL, NULL, &children)))
        return false;
    for (int i = 0; i < children.count; i++) {
        int64_t number;
        if (!str_eq(candidate_member(children.data[i], &number), z->port.config.member))
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, children.data[i]);
        if (is_ours(z, path))
            there = true; /* the answer to its creation was lost */
        else
            (void)zoo_delete(z->handle, path, -1); /* a ghost of ours would lead */
    }
    deallocate_String_vector(&children);
    snprintf(path, sizeof path, "%s/%.*s-", folder, STR_ARG(z->port.config.member));
    return there || went(z, zoo_create(z->handle, path, "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL | ZOO_SEQUENCE, NULL, 0));
}

static bool join(struct zookeeper *z)
{
    char path[PATH_BYTES];
    bool good = path_ensure(z, path_make(path, z, "nodes", "")) && member_put(z);
    for (size_t i = 0; good && i < z->port.config.n_names; i++)
        good = candidate_put(z, z->port.config.names[i]);
    pthread_mutex_lock(&z->lock);
    z->joined_at = clock_boot_ms();
    pthread_mutex_unlock(&z->lock);
    return good;
}

/* ---- looking ---- */

static void roster_free(struct roster *roster)
{
    if (roster == NULL)
        return;
    arena_release(&roster->arena);
    mem_free(roster);
}

/* roster_read: NULL: it couldn't be. *out_ours: this server is in it. */
static struct roster *roster_read(struct zookeeper *z, bool *out_ours)
{
    char folder[PATH_BYTES], path[PATH_BYTES * 2], content[COORD_CONTENT_MAX];
    struct String_vector children = { 0 };
    path_make(folder, z, "nodes", "");
    if (zoo_wget_children(z->handle, folder, seen, z, &children) != ZOK)
        return NULL;
    struct roster *roster = mem_alloc_zero(sizeof *roster);
    size_t n = children.count < COORD_MEMBERS_MAX ? (size_t)children.count : COORD_MEMBERS_MAX;
    roster->members = ARENA_ARRAY(&roster->arena, struct coord_member, n + 1);
    *out_ours = false;
    for (size_t i = 0; i < n; i++) {
        struct coord_member *member = &roster->members[roster->n];
        int len = (int)sizeof content;
        snprintf(path, sizeof path, "%s/%s", folder, children.data[i]);
        if (zoo_get(z->handle, path, 0, content, &len, NULL) != ZOK)
            continue; /* gone meanwhile */
        roster->n++;
        member->name = str_dup(&roster->arena, str_of(children.data[i]));
        member->content = str_dup(&roster->arena, (struct str){ content, len > 0 ? (size_t)len : 0 });
        *out_ours |= str_eq(member->name, z->port.config.member);
    }
    deallocate_String_vector(&children);
    return roster;
}

static bool advice_read(struct zookeeper *z, const char *duty, enum coord_advice *out)
{
    char folder[PATH_BYTES];
    struct String_vector children = { 0 };
    int64_t first = INT64_MAX, ours = INT64_MAX, number;
    path_make(folder, z, "duties", duty);
    if (zoo_wget_children(z->handle, folder, seen, z, &children) != ZOK)
        return false;
    for (int i = 0; i < children.count; i++) {
        bool own = str_eq(candidate_member(children.data[i], &number), z->port.config.member);
        first = number < first ? number : first;
        ours = own && number < ours ? number : ours;
    }
    deallocate_String_vector(&children);
    *out = ours == first ? COORD_LEAD : COORD_FOLLOW;
    return ours < INT64_MAX;
}

static bool look(struct zookeeper *z)
{
    enum coord_advice advice[16];
    size_t n = z->port.config.n_names;
    bool ours = false;
    ASSERT(n <= sizeof advice / sizeof *advice);
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

/* ---- the thread ---- */

/* status_set: away: nothing of what was heard counts any more. */
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
    pthread_mutex_lock(&z->lock);
    z->connected = z->expired = false;
    pthread_mutex_unlock(&z->lock);
}

static void handle_open(struct zookeeper *z)
{
    char text[sizeof z->status.text];
    errno = 0;
    z->opened_at = clock_boot_ms();
    z->handle = zookeeper_init2(z->hosts, seen, (int)z->session_ms, NULL, z, 0, library_said);
    if (z->handle != NULL)
        return;
    snprintf(text, sizeof text, "%s: %s", z->hosts, errno == EINVAL || errno == ENOENT ? "no such host" : strerrordesc_np(errno));
    status_set(z, true, text);
}

static void away_say(struct zookeeper *z)
{
    char text[sizeof z->status.text];
    pthread_mutex_lock(&fault.lock);
    snprintf(text, sizeof text, "%.100s: %s", z->hosts, fault.text[0] ? fault.text : "no answer");
    pthread_mutex_unlock(&fault.lock);
    status_set(z, true, text);
}

/* unconnected: what is to be done while there is no connection; when to look again, in ms. */
static int64_t unconnected(struct zookeeper *z)
{
    int64_t now = clock_boot_ms();
    if (z->lost_at == 0)
        z->lost_at = z->opened_at = now;
    if (z->joined) { /* it was there a moment ago; nobody can say what has changed since */
        z->joined = false;
        status_set(z, true, "the connection was lost");
    }
    if (now - z->lost_at >= CONNECT_MS)
        away_say(z);
    if (z->handle == NULL || now - z->opened_at >= RENEW_MS) {
        handle_close(z);
        handle_open(z);
    }
    return 2 * RETRY_MS;
}

/* unjoined_say: it is there, but doesn't let us in: a path that is another's, or no quorum. */
static void unjoined_say(struct zookeeper *z)
{
    char text[sizeof z->status.text];
    pthread_mutex_lock(&z->lock);
    bool still = z->connected && z->code != ZOK;
    pthread_mutex_unlock(&z->lock);
    if (!still)
        return;
    snprintf(text, sizeof text, "%.80s, path %.80s: %s", z->hosts, z->root, zerror(z->code));
    status_set(z, true, text);
    z->code = ZOK;
}

/* connected: joins, looks, tells; 0: nothing more to do until there is news. */
static int64_t connected(struct zookeeper *z, bool dirty, bool told)
{
    z->lost_at = 0;
    bool was = z->joined;
    if (!z->joined)
        z->joined = join(z);
    else if (told)
        z->joined = member_put(z);
    if (z->joined && (dirty || !was))
        z->joined = look(z);
    if (!z->joined) {
        unjoined_say(z);
        return 2 * RETRY_MS;
    }
    status_set(z, false, "");
    if (dirty || !was)
        z->changed(z->owner);
    return 0;
}

/* wait: for news, at most ms (0: however long it takes); eager: also for what can be looked at or told. The lock is held. */
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
    while (!z->stop && !z->expired && !(eager && (z->dirty || (z->told && z->connected))))
        if (ms == 0)
            pthread_cond_wait(&z->news, &z->lock);
        else if (pthread_cond_timedwait(&z->news, &z->lock, &at) != 0)
            return;
}

static void *run(void *arg)
{
    struct zookeeper *z = arg;
    pthread_mutex_lock(&z->lock);
    while (!z->stop) {
        bool is_connected = z->connected && !z->expired && z->handle != NULL, dirty = z->dirty, told = z->told, expired = z->expired;
        z->dirty = false;
        pthread_mutex_unlock(&z->lock);
        if (expired) {
            handle_close(z);
            status_set(z, true, "the session has expired");
        }
        int64_t ms = is_connected ? connected(z, dirty, told) : unconnected(z);
        pthread_mutex_lock(&z->lock);
        news_wait(z, ms, !is_connected || ms == 0); /* what has just failed isn't tried again at once */
    }
    pthread_mutex_unlock(&z->lock);
    handle_close(z);
    return NULL;
}

/* ---- the port ---- */

static bool zookeeper_start(struct coord *coord, void (*changed)(void *owner), void *owner, struct err *err)
{
    struct zookeeper *z = zookeeper_of(coord);
    z->changed = changed;
    z->owner = owner;
    z->advice = ARENA_ARRAY(&coord->arena, enum coord_advice, coord->config.n_names + 1);
    int code = pthread_create(&z->thread, NULL, run, z);
    z->started = code == 0;
    return code == 0 || err_set(err, ERR_io, "the thread that speaks to ZooKeeper could not be started: %s", strerror(code));
}

static void zookeeper_end(struct coord *coord)
{
    struct zookeeper *z = zookeeper_of(coord);
    pthread_mutex_lock(&z->lock);
    z->stop = true;
    pthread_cond_signal(&z->news);
    pthread_mutex_unlock(&z->lock);
    if (z->started)
        pthread_join(z->thread, NULL);
    roster_free(z->roster);
    pthread_cond_destroy(&z->news);
    pthread_mutex_destroy(&z->lock);
    arena_release(&coord->arena);
    mem_free(z);
}

static void zookeeper_tell(struct coord *coord, struct str content)
{
    struct zookeeper *z = zookeeper_of(coord);
    pthread_mutex_lock(&z->lock);
    if (!str_eqz(content, z->content)) {
        memcpy(z->content, content.ptr, content.len);
        z->content[content.len] = '\0';
        z->told = true;
        pthread_cond_signal(&z->news);
    }
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

/* absent: a roster that is younger than a session may lack those who haven't come back yet. */
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
            (*out)[i] = (struct coord_member){ str_dup(arena, z->roster->members[i].name), str_dup(arena, z->roster->members[i].content) };
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
        .tell = zookeeper_tell,
        .advice = zookeeper_advice,
        .absent = zookeeper_absent,
        .members = zookeeper_members,
        .status = zookeeper_status };
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, library_load);
    if (missing != NULL) {
        err_set(err, ERR_usage, "coordination: ZooKeeper's client library can't be loaded (%s): install libzookeeper-mt2", missing);
        return NULL;
    }
    struct zookeeper *z = mem_alloc_zero(sizeof *z);
    struct str rest = str_sub(config->url, sizeof "zookeeper://" - 1, config->url.len);
    ptrdiff_t slash = str_index(rest, '/');
    struct str path = slash >= 0 ? str_sub(rest, (size_t)slash, rest.len) : (struct str){ 0 };
    z->port.ops = &ops;
    z->hosts = str_dupz(&z->port.arena, slash >= 0 ? str_sub(rest, 0, (size_t)slash) : rest);
    z->root = str_dupz(&z->port.arena, path.len > 1 ? path : STR("/weir"));
    z->session_ms = config->session_ms > 0 ? config->session_ms : SESSION_MS;
    z->status = (struct coord_status){ .kind = ops.kind, .away = true, .text = "connecting" };
    pthread_mutex_init(&z->lock, NULL);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&z->news, &monotonic);
    pthread_condattr_destroy(&monotonic);
    return &z->port;
}
