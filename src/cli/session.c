/* session: how a client command finds its server, asks it, and tells a person what went wrong.
 *
 * It owns the order of choice (option, environment, local socket, 127.0.0.1:8420) and the mapping of every failure to
 * an exit code, which comes from base/err.def. It never retries: a command that was asked once is sent once. */
#include "cli/session.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "text/json.h"
#include "text/json_value.h"

enum { TOKEN_BYTES_MAX = 4096, JSON_DEPTH_MAX = 128, PATH_CAP = 64 * 1024 };

#define SERVER_FALLBACK "http://127.0.0.1:8420"

/* What to do next, by error. Printed under the error itself. */
static const struct {
    enum err_code code;
    const char *advice;
} advices[] = {
    { ERR_unreachable,
        "start a server with `weir serve`, or name one with --server URL (or unix:PATH) or WEIR_SERVER" },
    { ERR_unauthorized,
        "get a token on the server's machine with `weir token create --name NAME --scope read`, then give it with "
        "--token-file F or WEIR_TOKEN" },
    { ERR_forbidden, "the token lacks the scope for this; `weir token list` shows the scopes, `weir token create` "
                     "makes another one" },
    { ERR_disk_full, "make room on the server's disk; running tasks can still end" },
    { ERR_order_passed, "to retry it all the same: weir retry KEY --force --reason TEXT" },
    { ERR_outcome_unknown, "try again with the same --idempotency-key once the server is back" },
};

/* socket_answers: somebody listens on the socket; a file left behind by a killed server doesn't count. */
static bool socket_answers(const char *path)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    size_t len = strlen(path);
    if (len >= sizeof address.sun_path)
        return false;
    memcpy(address.sun_path, path, len + 1);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    bool answers = connect(fd, (const struct sockaddr *)&address, sizeof address) == 0;
    close(fd);
    return answers;
}

static const char *server_default(struct arena *arena)
{
    const char *state = getenv("XDG_STATE_HOME");
    const char *home = getenv("HOME");
    struct str path;
    if (state && *state)
        path = str_fmt(arena, "%s/weir/weir.sock", state);
    else if (home && *home)
        path = str_fmt(arena, "%s/.local/state/weir/weir.sock", home);
    else
        return SERVER_FALLBACK;
    return socket_answers(str_dupz(arena, path)) ? str_dupz(arena, str_fmt(arena, "unix:%.*s", STR_ARG(path)))
                                                 : SERVER_FALLBACK;
}

/* token_read: the first line of the file. */
static const char *token_read(struct session *s, const char *file)
{
    char bytes[TOKEN_BYTES_MAX];
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        session_err(s, ERR_not_found, "the token file %s can't be opened: %s", file, strerror(errno));
        return NULL;
    }
    ssize_t n = read(fd, bytes, sizeof bytes);
    close(fd);
    struct str rest = { bytes, n > 0 ? (size_t)n : 0 }, line = { 0 };
    str_cut(&rest, '\n', &line);
    line = str_trim(line);
    if (line.len == 0 || memchr(line.ptr, '\0', line.len)) {
        session_err(s, ERR_invalid, "the token file %s holds no token in its first line", file);
        return NULL;
    }
    return str_dupz(&s->arena, line);
}

static const char *env_or_null(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

static const char *option_or_env(const struct session *s, const char *option, const char *variable)
{
    const char *value = option_get(&s->options, option);
    return value ? value : env_or_null(variable);
}

struct client_config session_client(const struct session *s)
{
    return (struct client_config){ .server = s->server,
        .token = s->token,
        .tenant = s->tenant,
        .ca_file = s->ca,
        .client_cert = s->client_cert,
        .client_key = s->client_key };
}

bool session_choose(struct session *s)
{
    const char *server = option_or_env(s, "server", "WEIR_SERVER");
    s->server = server ? server : server_default(&s->arena);
    s->ca = option_or_env(s, "ca", "WEIR_CA");
    s->client_cert = option_or_env(s, "client-cert", "WEIR_CLIENT_CERT");
    s->client_key = option_or_env(s, "client-key", "WEIR_CLIENT_KEY");
    /* token create means another */
    s->tenant = option_is_own(s->options.spec, "tenant") ? NULL : option_get(&s->options, "tenant");
    const char *file = option_or_env(s, "token-file", "WEIR_TOKEN_FILE");
    if (file) {
        s->token = token_read(s, file);
        return s->token != NULL;
    }
    s->token = env_or_null("WEIR_TOKEN");
    return true;
}

void session_local(struct session *s)
{
    s->json = option_given(&s->options, "json");
    s->quiet = option_given(&s->options, "quiet");
    term_init(&s->term, STDOUT_FILENO, option_given(&s->options, "no-color"));
    s->err.arena = &s->arena;
}

int session_open(struct session *s, const struct command_spec *spec, int argc, char **argv)
{
    *s = (struct session){ 0 };
    int status = options_parse(&s->options, spec, argc, argv, &s->arena);
    if (status != OPTIONS_RUN) {
        arena_release(&s->arena);
        return status;
    }
    session_local(s);
    if (!(spec->flags & COMMAND_CLIENT))
        return OPTIONS_RUN;
    if (!session_choose(s))
        return session_close(s, s->status);
    struct client_config config = session_client(s);
    if (spec->flags & COMMAND_LIVE)
        s->loop = loop_new();
    s->client = client_open(&config, s->loop, &s->err);
    if (!s->client) {
        s->status = err_exit(s->err.code);
        return session_close(s, session_fail(s));
    }
    return OPTIONS_RUN;
}

int session_close(struct session *s, int status)
{
    if (s->client)
        client_close(s->client);
    if (s->loop)
        loop_free(s->loop);
    s->client = NULL;
    s->loop = NULL;
    arena_release(&s->arena);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "weir: stdout can't be written: %s\n", strerror(errno));
        return status ? status : 1;
    }
    return status;
}

static void fail_items(struct session *s)
{
    for (size_t i = 0; i < s->err.n_items; i++) {
        const struct err_item *item = &s->err.items[i];
        fputs("  ", stderr);
        if (item->file.len)
            fprintf(stderr, "%s:", term_safe(&s->arena, item->file));
        if (item->path.len)
            fprintf(stderr, "%s: ", term_safe(&s->arena, item->path));
        if (item->line)
            fprintf(stderr, "%u:%u: ", item->line, item->column);
        fputs(term_safe(&s->arena, item->message), stderr);
        if (item->suggestion.len)
            fprintf(stderr, "; %s", term_safe(&s->arena, item->suggestion));
        fputc('\n', stderr);
    }
}

int session_fail(struct session *s)
{
    /* a repository, a database */
    bool elsewhere = s->err.code == ERR_unreachable && !str_starts(str_of(s->err.text), STR(CLIENT_NOBODY));
    fprintf(stderr, "weir %s: %s\n", s->options.spec->name,
        term_safe_z(&s->arena, *s->err.text ? s->err.text : err_title(s->err.code)));
    fail_items(s);
    for (size_t i = 0; i < sizeof advices / sizeof *advices; i++)
        if (advices[i].code == s->err.code && !elsewhere)
            fprintf(stderr, "  %s\n", advices[i].advice);
    return s->status;
}

int session_store_fail(struct session *s)
{
    fprintf(stderr, "weir %s: %s\n", s->options.spec->name,
        term_safe_z(&s->arena, *s->err.text ? s->err.text : err_title(s->err.code)));
    s->status = err_exit(s->err.code);
    return s->status;
}

int session_err(struct session *s, enum err_code code, const char *fmt, ...)
{
    char text[sizeof s->err.text];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    s->err = (struct err){ .arena = &s->arena };
    err_set(&s->err, code, "%s", text);
    s->status = err_exit(code);
    return session_fail(s);
}

void session_note(struct session *s, const char *fmt, ...)
{
    if (s->quiet)
        return;
    va_list args;
    va_start(args, fmt);
    fflush(stdout);
    term_vsay(stderr, fmt, args);
    va_end(args);
}

/* exit_of_status: for answers whose code we don't know (a newer server, a proxy). */
static int exit_of_status(int http)
{
    static const struct {
        int http, exit;
    } exits[] = {
        { 400, 65 },
        { 401, 77 },
        { 403, 77 },
        { 404, 66 },
        { 408, 75 },
        { 409, 1 },
        { 413, 65 },
        { 422, 65 },
        { 429, 75 },
        { 502, 69 },
        { 503, 75 },
        { 504, 75 },
        { 507, 75 },
    };
    for (size_t i = 0; i < sizeof exits / sizeof *exits; i++)
        if (exits[i].http == http)
            return exits[i].exit;
    return 1;
}

/* session_refused: a status that isn't 2xx becomes session.err and session.status. */
static void session_refused(struct session *s, const struct client_response *response)
{
    client_problem(response, &s->err);
    if (s->err.code == ERR_none)
        err_set(&s->err, ERR_internal, "the server answered %d", response->status);
    bool known = err_http(s->err.code) == response->status;
    s->status = known ? err_exit(s->err.code) : exit_of_status(response->status);
}

json_t *session_try(struct session *s, const struct session_request *request)
{
    struct client_response response = { 0 };
    s->err = (struct err){ .arena = &s->arena };
    s->status = 0;
    if (!client_call(s->client, request->method, request->path, request->body,
            request->body.ptr ? "application/json" : NULL, request->headers, request->timeout_ms, &response, &s->err)) {
        s->status = err_exit(s->err.code);
        return NULL;
    }
    json_t *document = NULL;
    if (response.status < 200 || response.status > 299)
        session_refused(s, &response);
    else if (response.body.len == 0)
        document = json_object();
    else if (!(document = json_parse(buf_str(&response.body), JSON_DEPTH_MAX, &s->err)))
        s->status = 1, err_context(&s->err, "the answer of %s can't be read", s->server);
    client_response_release(&response);
    return document;
}

json_t *session_call(struct session *s, const struct session_request *request)
{
    json_t *document = session_try(s, request);
    if (!document)
        session_fail(s);
    return document;
}

json_t *session_get(struct session *s, const char *path)
{
    return session_call(s, &(struct session_request){ .method = "GET", .path = path });
}

json_t *session_post(struct session *s, const char *path, json_t *body)
{
    struct str text = body ? json_text(&s->arena, body, false) : STR("{}");
    json_decref(body);
    return session_call(s, &(struct session_request){ .method = "POST", .path = path, .body = text });
}

/* cursor_of: where the next page begins; "": there is none. */
static void cursor_of(const json_t *page, char *out, size_t size)
{
    const json_t *next = json_object_get(page, "next");
    out[0] = '\0';
    if (json_is_string(next))
        snprintf(out, size, "%s", json_string_value(next));
    else if (json_is_integer(next) && json_integer_value(next) > 0)
        snprintf(out, size, "%lld", (long long)json_integer_value(next));
}

bool session_walk(
    struct session *s, const char *path, const char *name, bool (*item)(json_t *item, void *owner), void *owner)
{
    char cursor[256] = "", next[256];
    bool good = true, go_on = true;
    struct buf at;
    buf_init(&at, PATH_CAP);
    while (good && go_on) {
        buf_reset(&at);
        buf_add_z(&at, path);
        session_query(s, &at, "cursor", *cursor ? cursor : NULL);
        json_t *page = session_get(s, at.ptr), *one;
        size_t i;
        good = page != NULL;
        json_array_foreach (json_object_get(page, name), i, one)
            if (!(go_on = item(one, owner)))
                break;
        cursor_of(page, next, sizeof next);
        json_decref(page);
        /* a page may be empty and not the last; the same one again isn't asked for */
        go_on = go_on && *next && strcmp(next, cursor) != 0;
        memcpy(cursor, next, sizeof next);
    }
    buf_release(&at);
    return good;
}

json_t *session_try_pages(struct session *s, const char *path, const char *name, int64_t timeout_ms)
{
    char cursor[256] = "", next[256];
    json_t *all = NULL, *page;
    struct buf at;
    buf_init(&at, PATH_CAP);
    do {
        buf_reset(&at);
        buf_add_z(&at, path);
        session_query(s, &at, "cursor", *cursor ? cursor : NULL);
        page = session_try(s, &(struct session_request){ .method = "GET", .path = at.ptr, .timeout_ms = timeout_ms });
        cursor_of(page, next, sizeof next);
        bool again = strcmp(next, cursor) == 0;
        memcpy(cursor, next, sizeof next);
        if (again)
            cursor[0] = '\0';
        if (page && all) {
            json_array_extend(json_object_get(all, name), json_object_get(page, name));
            json_decref(page);
        } else if (page) {
            all = page;
        }
    } while (page && *cursor);
    buf_release(&at);
    if (!page) {
        json_decref(all);
        all = NULL;
    }
    return all;
}

struct pages {
    json_t *all;
    int64_t limit;
    bool more;
};

static bool page_take(json_t *item, void *owner)
{
    struct pages *pages = owner;
    pages->more = pages->limit > 0 && (int64_t)json_array_size(pages->all) >= pages->limit;
    if (!pages->more)
        json_array_append(pages->all, item);
    return !pages->more;
}

json_t *session_pages(struct session *s, const char *path, const char *name, int64_t limit, bool *out_more)
{
    struct pages pages = { json_array(), limit, false };
    bool good = session_walk(s, path, name, page_take, &pages);
    *out_more = pages.more;
    if (good)
        return pages.all;
    json_decref(pages.all);
    return NULL;
}

void session_print(struct session *s, const json_t *document)
{
    size_t flags = JSON_COMPACT | JSON_ENCODE_ANY | (s->term.tty ? (size_t)JSON_ENSURE_ASCII : 0);
    json_dumpf(document, stdout, flags);
    fputc('\n', stdout);
}

json_t *session_string(struct str bytes)
{
    struct buf text;
    buf_init(&text, SIZE_MAX);
    struct json json = json_to(&text); /* it knows what to do with any byte */
    json_str(&json, bytes);
    json_t *string = json_loadb(text.ptr, text.len, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    buf_release(&text);
    return string;
}

bool session_utf8(struct session *s, const char *option)
{
    const char *value = option_get(&s->options, option);
    if (!value || str_is_utf8(str_of(value)))
        return true;
    session_err(s, ERR_invalid, "--%s holds bytes that aren't UTF-8", option);
    return false;
}

const char *session_path(struct session *s, const char *address, const char *operand)
{
    const char *star = strchr(address, '*');
    if (!star)
        return address;
    struct str encoded = client_encode(&s->arena, str_of(operand));
    return str_dupz(
        &s->arena, str_fmt(&s->arena, "%.*s%.*s%s", (int)(star - address), address, STR_ARG(encoded), star + 1));
}

const char *session_task_path(struct session *s, const char *key, const char *tail)
{
    return str_dupz(&s->arena, str_fmt(&s->arena, "%s%s", session_path(s, "/v1/tasks/*", key), tail));
}

int session_answer(struct session *s, json_t *answer, void (*print)(struct session *session, const json_t *answer))
{
    if (!answer)
        return s->status;
    if (s->json)
        session_print(s, answer);
    else
        print(s, answer);
    json_decref(answer);
    return 0;
}

void session_query(struct session *s, struct buf *path, const char *name, const char *value)
{
    if (!value)
        return;
    buf_add_char(path, path->ptr && strchr(path->ptr, '?') ? '&' : '?');
    buf_add_z(path, name);
    buf_add_char(path, '=');
    buf_add_str(path, client_encode(&s->arena, str_of(value)));
}
