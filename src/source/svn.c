/* svn: Subversion repositories: which layer reads one, the libraries' start, their errors in our words.
 *
 * Owns the memory of a source: a pool with an allocator of its own, and under it one pool per call, destroyed at its
 * end.
 *
 * Errors of Subversion are chains; the first code of the table that occurs in the chain decides. Assertions within the
 * libraries are errors like others, so a damaged repository can't end the process. */
#include "source/svn.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>

#define AUTHOR_BYTES_MAX 1000
#define CAUSE_BYTES_MAX 500
#define TEXT_BYTES_MAX 300

static pthread_once_t once = PTHREAD_ONCE_INIT;
static char once_fault[200];

static void library_start(void)
{
    const char *missing = NULL;
    if (!source_svn_load(&missing)) {
        snprintf(once_fault, sizeof once_fault, "%s is missing; install libsvn1", missing);
        return;
    }
    if (apr_initialize() != APR_SUCCESS) {
        snprintf(once_fault, sizeof once_fault, "the Apache runtime can't be started");
        return;
    }
    apr_pool_t *pool = svn_pool_create(NULL); /* of the process */
    svn_cache_config_t cache = *svn_cache_config_get();
#ifdef WEIR_SANITIZED
    /* one for all sources, never freed. Only mapped memory points to it, so a leak checker would report it */
    cache.cache_size = 0;
#endif
    cache.single_threaded = FALSE;
    svn_cache_config_set(&cache);
    svn_error_set_malfunction_handler(svn_error_raise_on_malfunction);
    svn_utf_initialize2(TRUE, pool); /* paths are UTF-8, whatever the locale */
    svn_error_t *fault = svn_dso_initialize2();
    if (fault == NULL)
        fault = svn_fs_initialize(pool);
    if (fault == NULL)
        fault = svn_ra_initialize(pool);
    if (fault == NULL)
        return;
    char scratch[sizeof once_fault];
    snprintf(once_fault, sizeof once_fault, "%s", svn_err_best_message(fault, scratch, sizeof scratch));
    svn_error_clear(fault);
}

bool svn_start(struct err *err)
{
    pthread_once(&once, library_start);
    return once_fault[0] == '\0' || err_set(err, ERR_internal, "Subversion's libraries can't be used: %s", once_fault);
}

struct svn_source *svn_new(const struct source_ops *ops, bool local)
{
    struct svn_source *svn = mem_alloc_zero(sizeof *svn);
    svn->base = (struct source){ .ops = ops, .kind = ARCHIVE_SVN, .local = local };
    svn->pool = apr_allocator_owner_get(svn_pool_create_allocator(FALSE));
    return svn;
}

void svn_close(struct source *source)
{
    struct svn_source *svn = svn_of(source);
    svn_pool_destroy(svn->pool);
    arena_release(&svn->base.arena);
    mem_free(svn);
}

/* Codes of Subversion, what each means for the caller, and what to do next. The first row that matches is used. */
static const struct fault_kind {
    apr_status_t code;
    enum err_code kind;
    const char *advice;
} fault_kinds[] = {
    { SVN_ERR_FS_NO_SUCH_REVISION, ERR_not_found, "there is no such revision" },
    { SVN_ERR_RA_NOT_AUTHORIZED, ERR_io, "not permitted; as the user that runs weir, log in once with svn info URL" },
    { SVN_ERR_AUTHZ_UNREADABLE, ERR_io, "not permitted; let weir's user read the whole repository" },
    { SVN_ERR_AUTHN_FAILED, ERR_io, "not permitted; as the user that runs weir, log in once with svn info URL" },
    { SVN_ERR_RA_NOT_IMPLEMENTED, ERR_invalid, "this server is too old for that" },
    { SVN_ERR_UNSUPPORTED_FEATURE, ERR_invalid, "this server is too old for that" },
    { SVN_ERR_RA_ILLEGAL_URL, ERR_invalid, "check the address" },
    { SVN_ERR_BAD_URL, ERR_invalid, "check the address" },
    { SVN_ERR_RA_SVN_REPOS_NOT_FOUND, ERR_not_found, "check the address" },
    { SVN_ERR_RA_LOCAL_REPOS_NOT_FOUND, ERR_not_found, "check the path" },
    { SVN_ERR_RA_LOCAL_REPOS_OPEN_FAILED, ERR_not_found, "check the address" },
    { SVN_ERR_RA_DAV_PATH_NOT_FOUND, ERR_not_found, "check the address" },
    { SVN_ERR_RA_CANNOT_CREATE_SESSION, ERR_unreachable, "check the address, and that the server runs" },
    { SVN_ERR_RA_SVN_CONNECTION_CLOSED, ERR_unreachable, "the server has closed the connection; it is tried again" },
    { SVN_ERR_RA_SVN_IO_ERROR, ERR_unreachable, "the connection is lost; it is tried again" },
    { SVN_ERR_RA_DAV_CONN_TIMEOUT, ERR_unreachable, "the server doesn't answer; it is tried again" },
    { SVN_ERR_RA_SERF_WRAPPED_ERROR, ERR_unreachable, "check the address, and that the server runs" },
    { SVN_ERR_REPOS_UNSUPPORTED_VERSION, ERR_invalid, "it was made by a newer Subversion" },
    { SVN_ERR_FS_UNSUPPORTED_FORMAT, ERR_invalid, "it was made by a newer Subversion" },
    { SVN_ERR_FS_UNKNOWN_FS_TYPE, ERR_invalid,
        "its kind of storage can't be read here; dump it and load it into a new repository" },
};

bool svn_is_lost(const svn_error_t *fault)
{
    for (const svn_error_t *at = fault; at != NULL; at = at->child)
        for (size_t i = 0; i < sizeof fault_kinds / sizeof *fault_kinds; i++)
            if (at->apr_err == fault_kinds[i].code && fault_kinds[i].kind == ERR_unreachable)
                return true;
    return false;
}

static const struct fault_kind *fault_kind_find(const svn_error_t *fault)
{
    for (size_t i = 0; i < sizeof fault_kinds / sizeof *fault_kinds; i++)
        for (const svn_error_t *at = fault; at != NULL; at = at->child)
            if (at->apr_err == fault_kinds[i].code)
                return &fault_kinds[i];
    return NULL;
}

void svn_fault_text(const svn_error_t *fault, char *out, size_t size)
{
    struct buf text;
    char message[TEXT_BYTES_MAX], scratch[TEXT_BYTES_MAX], last[TEXT_BYTES_MAX] = "";
    buf_init(&text, size - 1);
    for (const svn_error_t *at = fault; at != NULL; at = at->child) {
        /* returns the error's own message, or one that it writes into `scratch` */
        snprintf(message, sizeof message, "%s", svn_err_best_message(at, scratch, sizeof scratch));
        if (strcmp(message, last) == 0)
            continue;
        buf_addf(&text, "%s%s", text.len > 0 ? ": " : "", message);
        memcpy(last, message, sizeof last);
    }
    memcpy(out, text.ptr != NULL ? text.ptr : "", text.len);
    out[text.len] = '\0';
    buf_release(&text);
}

static bool status_occurs(const svn_error_t *fault, bool (*is_it)(apr_status_t))
{
    for (const svn_error_t *at = fault; at != NULL; at = at->child)
        if (is_it(at->apr_err))
            return true;
    return false;
}

static bool is_denied(apr_status_t status)
{
    return APR_STATUS_IS_EACCES(status);
}

static bool is_memory_or_disk(apr_status_t status)
{
    return APR_STATUS_IS_ENOSPC(status) || APR_STATUS_IS_EMFILE(status) || APR_STATUS_IS_ENFILE(status) ||
           APR_STATUS_IS_ENOMEM(status);
}

bool svn_fail(const struct svn_source *svn, svn_error_t *fault, struct err *err, const char *what, ...)
{
    char text[400], doing[200];
    struct str place = svn->base.place;
    struct stat st;
    va_list args;
    va_start(args, what);
    vsnprintf(doing, sizeof doing, what, args);
    va_end(args);
    svn_fault_text(fault, text, sizeof text);
    const struct fault_kind *kind = fault_kind_find(fault);
    bool denied = status_occurs(fault, is_denied), system = status_occurs(fault, is_memory_or_disk);
    svn_error_clear(fault);
    if (svn->base.local && stat(place.ptr, &st) != 0 && (errno == ENOENT || errno == ENOTDIR))
        return err_set(err, ERR_not_found,
            "%.*s: the repository isn't there any more; put it back, or remove the archive", STR_ARG(place));
    if (denied)
        return err_set(err, ERR_io, "%.*s: %s: permission denied; let the user that runs weir read all of it (%s)",
            STR_ARG(place), doing, text);
    if (kind != NULL)
        return err_set(err, kind->kind, "%.*s: %s: %s (%s)", STR_ARG(place), doing, kind->advice, text);
    if (system || !svn->base.local)
        return err_set(err, ERR_io, "%.*s: %s: %s", STR_ARG(place), doing, text);
    return err_set(err, ERR_corrupt, "%.*s: %s: the repository is damaged; run svnadmin verify %.*s (%s)",
        STR_ARG(place), doing, STR_ARG(place), text);
}

static struct str prop_text(apr_hash_t *props, const char *name)
{
    const svn_string_t *value = svn_hash_gets(props, name);
    return value != NULL ? (struct str){ value->data, value->len } : (struct str){ 0 };
}

int64_t svn_time(apr_hash_t *props)
{
    const svn_string_t *value = svn_hash_gets(props, SVN_PROP_REVISION_DATE);
    apr_time_t when = 0;
    if (value == NULL)
        return 0;
    apr_pool_t *pool = svn_pool_create(apr_hash_pool_get(props));
    svn_error_t *fault = svn_time_from_cstring(&when, value->data, pool);
    svn_pool_destroy(pool);
    if (fault != NULL) { /* the property can be set to any text */
        svn_error_clear(fault);
        return 0;
    }
    return when > 0 ? when / 1000 : 0;
}

void svn_describe(struct arena *arena, apr_hash_t *props, int64_t rev, struct source_revision *out)
{
    *out = (struct source_revision){
        .ident.rev = rev,
        .author = source_line(arena, prop_text(props, SVN_PROP_REVISION_AUTHOR), AUTHOR_BYTES_MAX),
        .message = str_trim(source_text(arena, prop_text(props, SVN_PROP_REVISION_LOG), SOURCE_MESSAGE_BYTES_MAX)),
        .time_ms = svn_time(props),
        .cause = source_line(arena, prop_text(props, "weir:cause"), CAUSE_BYTES_MAX),
        .is_first = rev <= 1,
    };
}

bool svn_below(const struct svn_source *svn, const char *path, const char **out)
{
    size_t len = strlen(svn->root);
    const char *rest = path[0] == '/' ? path + 1 : path;
    if (len > 0) {
        if (strncmp(rest, svn->root, len) != 0 || (rest[len] != '/' && rest[len] != '\0'))
            return false;
        rest += rest[len] == '/' ? len + 1 : len;
    }
    *out = rest;
    return true;
}

bool svn_is_above(const struct svn_source *svn, const char *path)
{
    const char *rest = path[0] == '/' ? path + 1 : path;
    size_t len = strlen(rest);
    return strncmp(svn->root, rest, len) == 0 && (len == 0 || svn->root[len] == '/' || svn->root[len] == '\0');
}

bool svn_link(struct str content, struct str *out_target)
{
    if (!str_starts(content, STR("link ")))
        return false;
    *out_target = str_sub(content, 5, content.len);
    return true;
}

/* place_fault: why there is no repository at the path. */
static bool place_fault(const char *path, struct err *err)
{
    struct stat st;
    if (stat(path, &st) != 0)
        return err_set(err, errno == ENOENT || errno == ENOTDIR ? ERR_not_found : ERR_io, "%s: %s%s", path,
            strerror(errno),
            errno == EACCES ? "; let the user that runs weir read it"
                            : "; give the path or URL of a Subversion repository");
    char inside[4200];
    snprintf(inside, sizeof inside, "%s/.svn", path);
    if (stat(inside, &st) == 0)
        return err_set(err, ERR_invalid,
            "%s: this is a working copy; give its repository: svn info --show-item repos-root-url %s", path, path);
    return err_set(err, ERR_invalid,
        "%s: this is no Subversion repository; make one with svnadmin create, or give another path", path);
}

/* local_open: `path` is canonical and may lead below the repository's root. */
static bool local_open(struct svn_source *svn, const char *path, struct err *err)
{
    const char *uuid;
    const char *root = svn_repos_find_root_path(path, svn->pool);
    svn->base.place = str_of(path);
    if (root == NULL)
        return place_fault(path, err);
    svn->base.place = str_of(root);
    const char *below = svn_dirent_skip_ancestor(root, path);
    svn->root = below != NULL ? below : "";
    apr_pool_t *scratch = svn_pool_create(svn->pool);
    svn_error_t *fault = svn_repos_open3(&svn->repos, root, NULL, svn->pool, scratch);
    if (fault == NULL) {
        svn->fs = svn_repos_fs(svn->repos);
        fault = svn_fs_get_uuid(svn->fs, &uuid, svn->pool);
    }
    svn_revnum_t youngest = 0;
    svn_node_kind_t kind = svn_node_dir;
    svn_fs_root_t *newest;
    if (fault == NULL)
        fault = svn_fs_youngest_rev(&youngest, svn->fs, scratch);
    if (fault == NULL && svn->root[0] != '\0') {
        fault = svn_fs_revision_root(&newest, svn->fs, youngest, scratch);
        if (fault == NULL)
            fault = svn_fs_check_path(&kind, newest, svn->root, scratch);
    }
    svn_pool_destroy(scratch);
    if (fault != NULL)
        return svn_fail(svn, fault, err, "opening the repository");
    if (kind != svn_node_dir)
        return err_set(err, ERR_not_found, "%s: the repository has no folder '%s' in its youngest revision %ld", root,
            svn->root, youngest);
    svn->base.uuid = str_of(uuid);
    return true;
}

struct source *source_svn_open(struct str url, struct err *err)
{
    const char *path;
    if (!svn_start(err))
        return NULL;
    if (!str_is_utf8(url)) {
        err_set(err, ERR_invalid, "the path or URL of a Subversion repository must be UTF-8");
        return NULL;
    }
    struct svn_source *svn = svn_new(&svn_local_ops, true);
    const char *text = str_dupz(&svn->base.arena, url);
    svn->base.place = str_of(text);
    bool good;
    if (!svn_path_is_url(text)) {
        path = svn_dirent_canonicalize(text, svn->pool);
        good = local_open(svn, path, err);
    } else if (str_starts(url, STR("file://"))) {
        svn_error_t *fault = svn_uri_get_dirent_from_file_url(&path, svn_uri_canonicalize(text, svn->pool), svn->pool);
        good = fault != NULL ? svn_fail(svn, fault, err, "reading the address") : local_open(svn, path, err);
    } else {
        svn_close(&svn->base);
        return source_svn_served_open(url, err);
    }
    if (good)
        return &svn->base;
    svn_close(&svn->base);
    return NULL;
}
