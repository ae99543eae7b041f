/* tree_cache: see tree_cache.h.
 *
 * Promises: a tree under its name is complete; a tree whose lock a job holds is never removed; trees may share files by
 * hard links because no file is ever written to again (source_export_changed makes new ones).
 *
 * Nothing is synced, so files of a tree may be empty after a power cut: NAME.lock says in which boot of the machine the
 * tree was made, and a tree of another boot is removed. It also says when: if a file was written to later, the tree
 * isn't used as the base of others.
 *
 * If a tree can't be made from an older one it is exported whole; only if that fails too the job fails. */
#include "exec/tree/tree_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "exec/tree/copy.h"
#include "exec/tree/untar.h"
#include "exec/workdir.h"
#include "io/client.h"
#include "io/clock.h"
#include "io/fsx.h"
#include "source/source.h"

enum { NAME_BYTES = 240, SAY_FIRST_MS = 2000, SAY_EVERY_MS = 5000, LOCK_BYTES = 160 };

struct tree_name {
    char z[NAME_BYTES];
    size_t prefix; /* length of "ARCHIVE.HASH.", which all trees of a repository share */
};

struct tree_make { /* one that is being made */
    int cache_fd, tmp_fd;
    const struct tree_request *request;
    const struct tree_name *name;
    struct source *source;
    void (*say)(const char *line);
    int64_t began_ms, said_ms;
    struct source_progress progress;
};

/* --- names --- */

/* repository_place: the address, without the scheme of a path. */
static struct str repository_place(const struct tree_request *request)
{
    return str_starts(request->url, STR("file://")) ? str_sub(request->url, 7, request->url.len) : request->url;
}

/* repository_hash: a repository that replaced another at the same place has other files under the same numbers; in
 * Subversion db/uuid tells them apart. */
static uint64_t repository_hash(const struct tree_request *request)
{
    char path[PATH_MAX], text[256] = "";
    struct str place = repository_place(request);
    snprintf(path, sizeof path, "%.*s/db/uuid", STR_ARG(place));
    if (request->kind == ARCHIVE_SVN && str_starts(place, STR("/")))
        fsx_read_text(AT_FDCWD, path, O_NONBLOCK, text, sizeof text);
    struct buf all;
    buf_init(&all, 2 * PATH_MAX);
    buf_addf(&all, "%d %.*s %s", (int)request->kind, STR_ARG(request->url), text);
    uint64_t hash = str_hash(buf_str(&all));
    buf_release(&all);
    return hash;
}

static bool name_make(const struct tree_request *request, struct tree_name *out, struct err *err)
{
    bool git = request->kind == ARCHIVE_GIT;
    int prefix =
        snprintf(out->z, sizeof out->z, "%.*s.%016" PRIx64 ".", STR_ARG(request->archive), repository_hash(request));
    int n = snprintf(out->z + prefix, sizeof out->z - (size_t)prefix, "%" PRId64 "%s%.*s", request->rev, git ? "." : "",
        STR_ARG(git ? request->commit : (struct str){ 0 }));
    out->prefix = (size_t)prefix;
    bool bad = request->archive.len == 0 || request->archive.len > 100 || request->archive.ptr[0] == '.' ||
               request->rev < 0 || memchr(request->archive.ptr, '/', request->archive.len) ||
               (git && (request->commit.len == 0 || request->commit.len > 64)) ||
               (git && memchr(request->commit.ptr, '/', request->commit.len)) || (size_t)(prefix + n) >= sizeof out->z;
    return !bad || err_set(err, ERR_invalid, "the grant names no revision that could be checked out");
}

static void lock_name(const char *tree, char out[NAME_BYTES + 8])
{
    snprintf(out, NAME_BYTES + 8, "%s.lock", tree);
}

static struct source_ident ident_of(struct str rev_and_commit)
{
    struct str rev;
    struct source_ident ident = { 0 };
    str_cut(&rev_and_commit, '.', &rev);
    if (!str_to_i64(rev, &ident.rev))
        ident.rev = -1;
    ident.id = rev_and_commit;
    return ident;
}

/* --- locks --- */

/* lock_take: -1: errno. If the lock file was removed while we waited for it, the lock is worth nothing: try again with
 * the new file. */
static int lock_take(int cache_fd, const char *tree, int how)
{
    char name[NAME_BYTES + 8];
    lock_name(tree, name);
    for (;;) {
        struct stat mine, there;
        int fd = openat(cache_fd, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0)
            return -1;
        int done;
        do
            done = flock(fd, how);
        while (done < 0 && errno == EINTR);
        if (done == 0 && fstat(fd, &mine) == 0 && fstatat(cache_fd, name, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
            mine.st_ino == there.st_ino)
            return fd;
        fsx_close(fd);
        if (done < 0)
            return -1;
    }
}

struct tree_record { /* what NAME.lock says of the tree: BYTES, then BOOT MADE */
    uint64_t bytes;  /* what it cost, for the limit */
    int64_t made_ms; /* wall ms */
    bool of_this_boot;
};

static struct tree_record record_read(int lock_fd)
{
    char text[LOCK_BYTES] = "";
    struct tree_record record = { 0 };
    ssize_t n = pread(lock_fd, text, sizeof text - 1, 0);
    struct str rest = { text, n > 0 ? (size_t)n : 0 }, line = { 0 }, boot; /* line: an empty file has none */
    str_cut(&rest, '\n', &line);
    if (!str_to_u64(line, &record.bytes))
        record.bytes = 0;
    struct boot_id now = clock_boot_id();
    record.of_this_boot = str_cut(&rest, ' ', &boot) && boot.len > 0 && str_eqz(boot, now.z) &&
                          str_to_i64(str_trim(rest), &record.made_ms);
    return record;
}

/* record_write: if it fails (a full disk), the tree counts as small, and the next job exports it again. */
static void record_write(int lock_fd, uint64_t bytes)
{
    char text[LOCK_BYTES];
    int n = snprintf(text, sizeof text, "%" PRIu64 "\n%s %" PRId64 "\n", bytes, clock_boot_id().z, clock_wall_ms());
    ssize_t wrote = ftruncate(lock_fd, 0) == 0 ? pwrite(lock_fd, text, (size_t)n, 0) : -1;
    (void)wrote;
}

static int tree_open(int cache_fd, const char *name)
{
    return openat(cache_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* --- making one --- */

static void make_say(struct tree_make *make)
{
    int64_t now = clock_boot_ms();
    if (make->say == NULL || now - make->began_ms < SAY_FIRST_MS || now - make->said_ms < SAY_EVERY_MS)
        return;
    char line[200];
    make->said_ms = now;
    snprintf(line, sizeof line, "checking out revision %" PRId64 ": %" PRIu64 " files, %" PRIu64 " MiB so far",
        make->request->rev, make->progress.files, make->progress.bytes >> 20);
    make->say(line);
}

static bool make_progress(void *context, const struct source_progress *progress)
{
    struct tree_make *make = context;
    make->progress = *progress;
    make_say(make);
    return true;
}

struct base { /* the tree whose files a new one starts with, as hard links */
    char name[NAME_BYTES];
    int64_t rev, made_ms;
    int fd, lock_fd;
};

/* base_find: the nearest older tree of the same repository, else the nearest newer one. */
static bool base_find(const struct tree_make *make, struct base *out)
{
    DIR *dir = fsx_folder(make->cache_fd, ".");
    int64_t wanted = make->request->rev;
    *out = (struct base){ .rev = -1, .fd = -1, .lock_fd = -1 };
    if (dir == NULL)
        return false;
    for (struct dirent *entry; (entry = fsx_entry(dir)) != NULL;) {
        struct str name = str_of(entry->d_name);
        if (name.len >= NAME_BYTES || strncmp(entry->d_name, make->name->z, make->name->prefix) != 0 ||
            str_ends(name, STR(".lock")))
            continue;
        int64_t rev = ident_of(str_sub(name, make->name->prefix, name.len)).rev;
        bool older = rev <= wanted, older_known = out->rev >= 0 && out->rev <= wanted;
        bool nearer = out->rev < 0 || (older != older_known ? older : llabs(wanted - rev) < llabs(wanted - out->rev));
        if (rev >= 0 && nearer) {
            memcpy(out->name, name.ptr, name.len + 1);
            out->rev = rev;
        }
    }
    closedir(dir);
    if (out->rev < 0)
        return false;
    out->lock_fd = lock_take(make->cache_fd, out->name, LOCK_SH | LOCK_NB);
    struct tree_record record = out->lock_fd >= 0 ? record_read(out->lock_fd) : (struct tree_record){ 0 };
    out->made_ms = record.made_ms;
    out->fd = record.of_this_boot ? tree_open(make->cache_fd, out->name) : -1;
    if (out->fd < 0)
        fsx_close(out->lock_fd);
    return out->fd >= 0;
}

static bool make_from(struct tree_make *make, struct base *base, struct source_ident wanted, struct err *err)
{
    const struct source_export_options options = { .progress = make_progress, .context = make };
    struct source_ident from = ident_of(str_sub(str_of(base->name), make->name->prefix, strlen(base->name)));
    int64_t newest_ms;
    bool good = copy_links(base->fd, make->tmp_fd, &newest_ms, err) && newest_ms <= base->made_ms &&
                source_export_changed(make->source, from, wanted, make->tmp_fd, &options, err);
    close(base->fd);
    close(base->lock_fd);
    return good;
}

static bool make_export(struct tree_make *make, struct err *err)
{
    const struct source_export_options options = { .progress = make_progress, .context = make };
    struct source_ident wanted = { .rev = make->request->rev, .id = make->request->commit };
    struct base base;
    struct err ignored = { .code = ERR_none };
    if (base_find(make, &base)) {
        if (make_from(make, &base, wanted, &ignored))
            return true;
        make->progress = (struct source_progress){ 0 };
        if (!workdir_empty(make->tmp_fd))
            return err_set(err, ERR_io, "a tree that failed can't be removed: %s", strerrordesc_np(errno));
    }
    return source_export(make->source, wanted, make->tmp_fd, &options, err);
}

struct download {
    struct tree_make *make;
    struct untar untar;
    struct buf refusal;
    struct err *err;
    bool failed;
};

static bool download_piece(int status, struct str bytes, void *owner)
{
    struct download *down = owner;
    if (status / 100 != 2) {
        buf_add_str(&down->refusal, str_sub(bytes, 0, 4096));
        return true;
    }
    down->failed = !untar_add(&down->untar, bytes, down->err);
    down->make->progress.files = down->untar.files;
    down->make->progress.bytes = down->untar.bytes;
    make_say(down->make);
    return !down->failed;
}

/* make_download: gets the tree from the server, for executors that can't reach the repository. */
static bool make_download(struct tree_make *make, struct err *err)
{
    const struct tree_request *request = make->request;
    struct arena arena = { 0 };
    const char *token = request->token.len > 0 ? str_dupz(&arena, request->token) : NULL;
    struct client_config config = { .server = str_dupz(&arena, request->server), .token = token };
    config.ca_file = getenv("WEIR_CA"); /* set by the agent, which started us */
    config.client_cert = getenv("WEIR_CLIENT_CERT");
    config.client_key = getenv("WEIR_CLIENT_KEY");
    struct client *client = request->server.len > 0 ? client_open(&config, NULL, err) : NULL;
    struct download down = { .make = make, .err = err };
    int status = 0;
    bool good = client != NULL;
    if (good) {
        struct str path = str_fmt(&arena, "/v1/archives/%.*s/revisions/%" PRId64 "/tree",
            STR_ARG(client_encode(&arena, request->archive)), request->rev);
        untar_init(&down.untar, make->tmp_fd);
        buf_init(&down.refusal, 1 << 16);
        struct err lost = { .code = ERR_none };
        good = client_stream(client, "GET", str_dupz(&arena, path), NULL, download_piece, &down, &status, &lost) &&
               !down.failed;
        if (!good && !down.failed)
            err_set(err, lost.code, "%s", lost.text);
        if (good && status / 100 != 2) {
            struct client_response refusal = { .status = status, .body = down.refusal };
            client_problem(&refusal, err);
            good = false;
        }
        good = good && untar_finish(&down.untar, err);
        untar_release(&down.untar);
        buf_release(&down.refusal);
        client_close(client);
    }
    if (!good)
        err_context(err, "the server at %.*s doesn't send the tree", STR_ARG(request->server));
    arena_release(&arena);
    return good;
}

/* repository_missing: does the address name a path on this machine where nothing is? */
static bool repository_missing(const struct tree_request *request)
{
    struct str place = repository_place(request);
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%.*s", STR_ARG(place));
    return place.len == 0 || (place.ptr[0] == '/' && access(path, F_OK) != 0);
}

static bool make_content(struct tree_make *make, struct err *err)
{
    const struct tree_request *request = make->request;
    if (repository_missing(request)) {
        bool good = make_download(make, err);
        if (!good)
            err_context(
                err, "there is no repository at '%.*s' on this machine", STR_ARG(str_sub(request->url, 0, 150)));
        return good;
    }
    make->source = source_open((enum archive_kind)request->kind, request->url, request->branch, err);
    if (make->source == NULL && err->code == ERR_invalid)
        err->code = ERR_unavailable; /* no repository is there now; `invalid` is for what can never be checked out */
    bool good = make->source != NULL && make_export(make, err);
    source_close(make->source);
    return good;
}

/* tmp_open: a folder for a new tree, locked so that leftover_remove of another process leaves it alone. */
static int tmp_open(int cache_fd, char *name, size_t size)
{
    snprintf(name, size, ".new.%ld.%" PRId64, (long)getpid(), clock_boot_us());
    int fd = workdir_open(cache_fd, name);
    if (fd >= 0)
        fchmod(fd, 0755);
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static bool tree_make(int cache_fd, const struct tree_request *request, const struct tree_name *name,
    void (*say)(const char *line), int lock_fd, struct err *err)
{
    char tmp[64];
    struct tree_make make = {
        .cache_fd = cache_fd, .request = request, .name = name, .say = say, .began_ms = clock_boot_ms()
    };
    make.tmp_fd = tmp_open(cache_fd, tmp, sizeof tmp);
    if (make.tmp_fd < 0)
        return err_set(err, ERR_io, "a folder for the tree can't be made: %s", strerrordesc_np(errno));
    bool good = make_content(&make, err);
    if (good && renameat(cache_fd, tmp, cache_fd, name->z) < 0)
        good = err_set(err, ERR_io, "the tree can't be renamed: %s", strerrordesc_np(errno));
    close(make.tmp_fd);
    if (!good) {
        workdir_remove(cache_fd, tmp);
        return false;
    }
    record_write(lock_fd, make.progress.bytes);
    return true;
}

/* --- keeping within limits --- */

struct tree_row {
    char name[NAME_BYTES];
    struct timespec used;
    uint64_t bytes;
    bool of_this_boot;
};

static int row_compare(const void *a, const void *b) /* the newest first */
{
    const struct tree_row *x = a, *y = b;
    if (x->used.tv_sec != y->used.tv_sec)
        return x->used.tv_sec < y->used.tv_sec ? 1 : -1;
    return (x->used.tv_nsec < y->used.tv_nsec) - (x->used.tv_nsec > y->used.tv_nsec);
}

static void row_read(int cache_fd, struct tree_row *row)
{
    char name[NAME_BYTES + 8];
    struct stat st;
    lock_name(row->name, name);
    int fd = openat(cache_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return;
    struct tree_record record = record_read(fd);
    row->bytes = record.bytes;
    row->of_this_boot = record.of_this_boot;
    if (fstat(fd, &st) == 0)
        row->used = st.st_mtim;
    close(fd);
}

static void tree_remove(int cache_fd, const char *tree)
{
    char name[NAME_BYTES + 8], gone[80];
    int lock_fd = lock_take(cache_fd, tree, LOCK_EX | LOCK_NB);
    if (lock_fd < 0)
        return; /* in use: another time */
    snprintf(gone, sizeof gone, ".gone.%ld.%" PRId64, (long)getpid(), clock_boot_us());
    lock_name(tree, name);
    bool moved = renameat(cache_fd, tree, cache_fd, gone) == 0;
    unlinkat(cache_fd, name, 0);
    close(lock_fd);
    if (moved)
        workdir_remove(cache_fd, gone);
}

/* leftover_remove: a temporary folder of a process that died: its lock is free. */
static void leftover_remove(int cache_fd, const char *name)
{
    int fd = tree_open(cache_fd, name);
    if (fd < 0)
        return;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0)
        workdir_remove(cache_fd, name);
    close(fd);
}

static void tree_cache_trim(int cache_fd, struct tree_cache_limits limits)
{
    struct arena arena = { 0 };
    struct tree_row *rows = NULL;
    size_t n = 0, cap = 0;
    uint64_t bytes = 0;
    DIR *dir = fsx_folder(cache_fd, ".");
    if (dir == NULL)
        return;
    for (struct dirent *entry; (entry = fsx_entry(dir)) != NULL;) {
        struct str name = str_of(entry->d_name);
        if (str_starts(name, STR(".new.")) || str_starts(name, STR(".gone.")))
            leftover_remove(cache_fd, entry->d_name);
        if (entry->d_name[0] == '.' || name.len >= NAME_BYTES || str_ends(name, STR(".lock")))
            continue;
        struct tree_row *row = ARENA_PUSH(&arena, rows, n, cap);
        *row = (struct tree_row){ .bytes = 0 };
        memcpy(row->name, name.ptr, name.len + 1);
        row_read(cache_fd, row);
    }
    closedir(dir);
    if (n > 1)
        qsort(rows, n, sizeof *rows, row_compare);
    for (size_t i = 0; i < n; i++) {
        bytes += rows[i].bytes;
        if (!rows[i].of_this_boot || i >= limits.count_max || (bytes > limits.bytes_max && i > 0))
            tree_remove(cache_fd, rows[i].name);
    }
    arena_release(&arena);
}

/* --- taking one --- */

/* tree_use: opens the tree with its lock shared; false: it isn't there. A tree of another boot is removed. */
static bool tree_use(int cache_fd, const char *name, int *out_tree_fd, int *out_lock_fd)
{
    int lock_fd = lock_take(cache_fd, name, LOCK_SH);
    int tree_fd = lock_fd >= 0 ? tree_open(cache_fd, name) : -1;
    if (tree_fd < 0) {
        fsx_close(lock_fd);
        return false;
    }
    if (!record_read(lock_fd).of_this_boot) {
        close(tree_fd);
        close(lock_fd);
        tree_remove(cache_fd, name);
        errno = ENOENT;
        return false;
    }
    futimens(lock_fd, NULL); /* used just now */
    *out_tree_fd = tree_fd;
    *out_lock_fd = lock_fd;
    return true;
}

bool tree_cache_take(int cache_fd, const struct tree_request *request, struct tree_cache_limits limits,
    void (*say)(const char *line), int *out_tree_fd, int *out_lock_fd, struct err *err)
{
    enum { ROUNDS = 5 }; /* another process may remove the tree before we have its lock: possible, not likely */
    struct tree_name name;
    bool made = false;
    if (!name_make(request, &name, err))
        return false;
    for (int round = 0; round < ROUNDS; round++) {
        if (tree_use(cache_fd, name.z, out_tree_fd, out_lock_fd)) {
            if (made)
                tree_cache_trim(cache_fd, limits);
            return true;
        }
        if (errno != ENOENT)
            break;
        int lock_fd = lock_take(cache_fd, name.z, LOCK_EX); /* the second job waits here for the first */
        int tree_fd = lock_fd >= 0 && record_read(lock_fd).of_this_boot ? tree_open(cache_fd, name.z) : -1;
        bool good = lock_fd >= 0;
        if (good && tree_fd < 0)
            workdir_remove(cache_fd, name.z); /* a tree of another boot that was in use a moment ago */
        if (good && tree_fd < 0)
            made = good = tree_make(cache_fd, request, &name, say, lock_fd, err);
        fsx_close(tree_fd);
        if (lock_fd < 0)
            break;
        if (!good) {
            char lock[NAME_BYTES + 8];
            lock_name(name.z, lock);
            unlinkat(cache_fd, lock, 0);
        }
        close(lock_fd);
        if (!good)
            return false;
    }
    return err_set(err, ERR_io, "the folder of trees can't be used: %s", strerrordesc_np(errno));
}
