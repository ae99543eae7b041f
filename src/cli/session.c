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

enum { TOKEN_BYTES_MAX = 4096, JSON_DEPTH_MAX = 128 };

#define SERVER_FALLBACK "http://127.0.0.1:8420"

/* What to do next, by error. Printed under the error itself. */
static const struct {
    enum err_code code;
    const char *advice;
} advices[] = {
    { ERR_unreachable,
        "start a server with `weir serve`, or name one with --server URL (or unix:PATH) or WEIR_SERVER" },
    { ERR_broken_off, "what came is not all of it: try again" },
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

const char *state_path(struct arena *arena, const char *tail)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    if (state && *state)
        return str_dupz(arena, str_fmt(arena, "%s/%s", state, tail));
    return home && *home ? str_dupz(arena, str_fmt(arena, "%s/.local/state/%s", home, tail)) : NULL;
}

static const char *server_default(struct arena *arena)
{
    const char *path = state_path(arena, "weir/weir.sock");
    return path && socket_answers(path) ? str_dupz(arena, str_fmt(arena, "unix:%s", path)) : SERVER_FALLBACK;
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

int session_connect(struct session *s, bool live)
{
    struct client_config config = session_client(s);
    if (live)
        s->loop = loop_new();
    s->client = client_open(&config, s->loop, &s->err);
    if (s->client)
        return OPTIONS_RUN;
    s->status = err_exit(s->err.code);
    return session_close(s, session_fail(s));
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
    return session_connect(s, spec->flags & COMMAND_LIVE);
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
        if (item->line && item->column)
            fprintf(stderr, "%u:%u: ", item->line, item->column);
        else if (item->line)
            fprintf(stderr, "%u: ", item->line);
        fputs(term_safe(&s->arena, item->message), stderr);
        if (item->suggestion.len)
            fprintf(stderr, "; %s", term_safe(&s->arena, item->suggestion));
        fputc('\n', stderr);
    }
}

static void fail_say(struct session *s)
{
    fprintf(stderr, "weir %s: %s\n", s->options.spec->name,
        term_safe_z(&s->arena, *s->err.text ? s->err.text : err_title(s->err.code)));
}

int session_fail(struct session *s)
{
    /* a repository, a database */
    bool elsewhere = s->err.code == ERR_unreachable && !str_starts(str_of(s->err.text), STR(CLIENT_NOBODY));
    fail_say(s);
    fail_items(s);
    for (size_t i = 0; i < sizeof advices / sizeof *advices; i++)
        if (advices[i].code == s->err.code && !elsewhere)
            fprintf(stderr, "  %s\n", advices[i].advice);
    return s->status;
}

int session_store_fail(struct session *s)
{
    fail_say(s);
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

void warnings_say(struct session *s, const json_t *warnings)
{
    const json_t *warning;
    size_t i;
    json_array_foreach (warnings, i, warning)
        session_note(s, "warning: %s", term_safe_z(&s->arena, json_string_value(warning)));
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

/* response_read: the document of a 2xx answer, or NULL with session.err and session.status. Releases it. */
static json_t *response_read(struct session *s, struct client_response *response)
{
    json_t *document = NULL;
    if (response->status < 200 || response->status > 299)
        session_refused(s, response);
    else if (response->body.len == 0)
        document = json_object();
    else if (!(document = json_parse(buf_str(&response->body), JSON_DEPTH_MAX, &s->err)))
        s->status = 1, err_context(&s->err, "the answer of %s can't be read", s->server);
    client_response_release(response);
    return document;
}

json_t *session_try(struct session *s, const struct session_request *request)
{
    struct client_response response = { 0 };
    s->err = (struct err){ .arena = &s->arena };
    s->status = 0;
    if (client_call(s->client, request->method, request->path, request->body,
            request->body.ptr ? "application/json" : NULL, request->headers, request->timeout_ms, &response, &s->err))
        return response_read(s, &response);
    s->status = err_exit(s->err.code);
    return NULL;
}

json_t *session_upload(struct session *s, const char *path, const struct client_file *file, int *out_http)
{
    struct client_response response = { 0 };
    json_t *document = NULL;
    s->err = (struct err){ .arena = &s->arena };
    s->status = 0;
    if (client_upload(s->client, path, file, "application/x-tar", NULL, &response, &s->err)) {
        *out_http = response.status;
        document = response_read(s, &response);
    } else {
        client_response_release(&response);
        s->status = err_exit(s->err.code);
    }
    if (!document)
        session_fail(s);
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

json_t *session_look(struct session *s, const char *path)
{
    return session_try(s, &(struct session_request){ .method = "GET", .path = path });
}

json_t *session_post(struct session *s, const char *path, json_t *body)
{
    const char *key = option_get(&s->options, "idempotency-key");
    const char *const headers[] = { "Idempotency-Key", key, NULL };
    struct session_request request = { .method = "POST", .path = path, .body = STR("{}") };
    if (body)
        request.body = json_text(&s->arena, body, false);
    if (key)
        request.headers = headers;
    json_decref(body);
    return session_call(s, &request);
}

void session_put(struct session *s, json_t *body, const char *option, const char *field)
{
    if (option_given(&s->options, option))
        json_object_set_new(body, field, json_string(option_get(&s->options, option)));
}

/* The pages of a list, one by one. */
struct pager {
    struct session *session;
    const char *path;
    int64_t timeout_ms;
    char cursor[256]; /* of the next page */
    bool over;
};

/* page_next: NULL: it can't be had, which isn't reported. */
static json_t *page_next(struct pager *p)
{
    char next[sizeof p->cursor] = "";
    const char *path = session_query(p->session, p->path, "cursor", *p->cursor ? p->cursor : NULL);
    json_t *page = session_try(
        p->session, &(struct session_request){ .method = "GET", .path = path, .timeout_ms = p->timeout_ms });
    const char *cursor = json_string_value(json_object_get(page, "next"));
    snprintf(next, sizeof next, "%s", cursor ? cursor : "");
    /* a page may be empty and not the last; the same one again isn't asked for */
    p->over = !*next || strcmp(next, p->cursor) == 0;
    memcpy(p->cursor, next, sizeof next);
    return page;
}

bool session_walk(
    struct session *s, const char *path, const char *name, bool (*item)(json_t *item, void *owner), void *owner)
{
    struct pager pager = { .session = s, .path = path };
    for (bool go_on = true; go_on && !pager.over;) {
        json_t *page = page_next(&pager), *one;
        size_t i;
        if (!page) {
            session_fail(s);
            return false;
        }
        json_array_foreach (json_object_get(page, name), i, one)
            if (!(go_on = item(one, owner)))
                break;
        json_decref(page);
    }
    return true;
}

json_t *session_try_pages(struct session *s, const char *path, const char *name, int64_t timeout_ms)
{
    struct pager pager = { .session = s, .path = path, .timeout_ms = timeout_ms };
    json_t *all = page_next(&pager), *page;
    while (all && !pager.over) {
        if ((page = page_next(&pager)) != NULL) {
            json_array_extend(json_object_get(all, name), json_object_get(page, name));
            json_decref(page);
            continue;
        }
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

struct session_stream {
    bool (*piece)(struct str bytes, void *owner);
    void *owner;
    struct client_response refusal; /* the body of an answer that isn't 2xx */
};

static bool stream_piece(int status, struct str bytes, void *owner)
{
    struct session_stream *stream = owner;
    if (status >= 200 && status <= 299)
        return stream->piece(bytes, stream->owner);
    buf_add(&stream->refusal.body, bytes.ptr, bytes.len);
    return true;
}

bool session_stream(struct session *s, const char *path, bool (*piece)(struct str bytes, void *owner), void *owner)
{
    struct session_stream stream = { .piece = piece, .owner = owner };
    int *status = &stream.refusal.status;
    s->err = (struct err){ .arena = &s->arena };
    buf_init(&stream.refusal.body, 1 << 20);
    bool answered = client_stream(s->client, "GET", path, NULL, stream_piece, &stream, status, &s->err);
    bool refused = answered && (*status < 200 || *status > 299);
    if (refused)
        client_problem(&stream.refusal, &s->err);
    s->status = answered && !refused ? 0 : err_exit(s->err.code);
    buf_release(&stream.refusal.body);
    return answered;
}

bool session_input(struct session *s, const char *file, const char *limit, struct buf *out)
{
    bool from_stdin = strcmp(file, "-") == 0;
    FILE *in = from_stdin ? stdin : fopen(file, "re");
    char piece[64 * 1024];
    size_t n;
    if (!in) {
        session_err(s, ERR_not_found, "%s can't be opened: %s", file, strerror(errno));
        return false;
    }
    while (!out->full && (n = fread(piece, 1, sizeof piece, in)) > 0)
        buf_add(out, piece, n);
    bool failed = ferror(in) != 0;
    if (failed)
        session_err(s, ERR_io, "%s can't be read: %s", file, strerror(errno));
    else if (out->full)
        session_err(s, ERR_body_too_large, "%s is over the limit of %s", file, limit);
    if (!from_stdin)
        fclose(in);
    return !failed && !out->full;
}

void session_print(struct session *s, const json_t *document)
{
    size_t flags = JSON_COMPACT | JSON_ENCODE_ANY | (s->term.tty ? (size_t)JSON_ENSURE_ASCII : 0);
    json_dumpf(document, stdout, flags);
    fputc('\n', stdout);
}

void session_line(struct session *s, const char *label, enum paint paint, const char *text)
{
    if (*text)
        printf("%-10s %s%s%s\n", label, paint_on(&s->term, paint), term_safe_z(&s->arena, text),
            paint_off(&s->term, paint));
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

const char *session_query(struct session *s, const char *path, const char *name, const char *value)
{
    if (!value)
        return path;
    return str_dupz(&s->arena, str_fmt(&s->arena, "%s%c%s=%.*s", path, strchr(path, '?') ? '&' : '?', name,
                                   STR_ARG(client_encode(&s->arena, str_of(value)))));
}

const char *session_query_i64(struct session *s, const char *path, const char *name, int64_t value)
{
    return session_query(s, path, name, i64_format(value).z);
}
