/* client: HTTP requests through libcurl: one easy handle for blocking calls; for the others a multi handle, whose
 * sockets and timer are in our loop.
 *
 * Promises: connections are used again; no request follows a redirect, asks a proxy for a local address, waits for
 * "100 Continue" or raises a signal; an answer of more than CLIENT_ANSWER_BYTES_MAX is refused. libcurl calls back
 * into us while it works: a request that is cancelled meanwhile is only marked, and removed when libcurl has returned.
 *
 * When no answer comes, the error is `unreachable` or `untrusted` and its text names the server. */
#include "io/client.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "io/client_request.h"

enum { CONNECT_TIMEOUT_MS = 3000, CONNECTIONS_KEPT = 32 };

struct client_socket {
    struct loop_fd watch;
    struct client *client;
};

static pthread_once_t client_once = PTHREAD_ONCE_INIT;

static void client_init_library(void)
{
    ASSERT(curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK);
}

static char *client_copy(const char *z)
{
    size_t size = strlen(z) + 1;
    return memcpy(mem_alloc(size), z, size);
}

static bool client_host_is_loopback(const char *base)
{
    struct str host = str_of(strstr(base, "://") + 3);
    static const char *const names[] = { "127.", "localhost", "[::1]" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct str name = str_of(names[i]);
        if (!str_starts(host, name))
            continue;
        struct str rest = str_sub(host, name.len, host.len);
        if (i == 0 || rest.len == 0 || rest.ptr[0] == ':' || rest.ptr[0] == '/')
            return true;
    }
    return false;
}

static bool client_set_server(struct client *client, const char *server, struct err *err)
{
    struct str s = str_of(server);
    client->server = client_copy(server);
    if (str_starts(s, STR("unix:"))) {
        if (s.len == 5)
            return err_set(err, ERR_usage, "the server '%s' names no socket: write unix:PATH", server);
        client->socket_path = client_copy(server + 5);
        client->base = client_copy("http://localhost");
        client->local = true;
        return true;
    }
    bool http = str_starts(s, STR("http://")), https = str_starts(s, STR("https://"));
    size_t head = http ? 7 : 8;
    if ((!http && !https) || s.len <= head || s.ptr[head] == '/')
        return err_set(
            err, ERR_usage, "the server '%s' must be http://HOST:PORT, https://HOST:PORT or unix:PATH", server);
    for (size_t i = 0; i < s.len; i++)
        if ((unsigned char)s.ptr[i] <= ' ' || s.ptr[i] == '@' || s.ptr[i] == '?' || s.ptr[i] == '#')
            return err_set(
                err, ERR_usage, "the server '%s' must be http://HOST:PORT, https://HOST:PORT or unix:PATH", server);
    client->base = client_copy(server);
    for (size_t n = s.len; n > head && client->base[n - 1] == '/'; n--)
        client->base[n - 1] = '\0';
    client->local = client_host_is_loopback(client->base);
    return true;
}

/* client_set_files: libcurl reads the files at each connection; checking them here gives a clear error first. */
static bool client_set_files(struct client *client, const struct client_config *config, struct err *err)
{
    if (!str_starts(str_of(client->base), STR("https://")))
        return true;
    const struct {
        const char *what, *path;
        char **to;
    } files[] = {
        { "the CA file", config->ca_file, &client->ca_file },
        { "the client certificate", config->client_cert, &client->client_cert },
        { "the client key", config->client_key, &client->client_key },
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        if (!files[i].path || !*files[i].path)
            continue;
        if (access(files[i].path, R_OK) != 0)
            return err_set(err,
                errno == ENOENT   ? ERR_not_found
                : errno == EACCES ? ERR_forbidden
                                  : ERR_io,
                "%s %s can't be opened: %s", files[i].what, files[i].path, strerrordesc_np(errno));
        *files[i].to = client_copy(files[i].path);
    }
    if (client->client_key && !client->client_cert)
        return err_set(err, ERR_usage, "a client key needs its certificate: --client-cert F");
    return true;
}

static int client_on_socket(CURL *easy, curl_socket_t fd, int what, void *owner, void *per_socket);
static int client_on_timer(CURLM *multi, long timeout_ms, void *owner);
static void client_on_due(struct loop_timer *timer);

static bool client_set_header(char **to, const char *value, const char *fault, struct err *err)
{
    if (!client_header_safe(value))
        return err_set(err, ERR_usage, "%s", fault);
    *to = client_copy(value);
    return true;
}

static bool client_configure(struct client *client, const struct client_config *config, struct err *err)
{
    static const char token_fault[] = "the token holds bytes that no token has";
    client->connect_timeout_ms = config->connect_timeout_ms > 0 ? (long)config->connect_timeout_ms : CONNECT_TIMEOUT_MS;
    if (!client_set_server(client, config->server, err))
        return false;
    if (config->tenant &&
        !client_set_header(&client->tenant, config->tenant, "the tenant's name holds bytes that no name has", err))
        return false;
    if (config->token && !*config->token)
        return err_set(err, ERR_usage, "%s", token_fault);
    if (config->token && !client_set_header(&client->token, config->token, token_fault, err))
        return false;
    return client_set_files(client, config, err);
}

struct client *client_open(const struct client_config *config, struct loop *loop, struct err *err)
{
    pthread_once(&client_once, client_init_library);
    struct client *client = mem_alloc(sizeof *client);
    *client = (struct client){ .loop = loop };
    if (!client_configure(client, config, err)) {
        client_close(client);
        return NULL;
    }
    if (loop) {
        client->multi = curl_multi_init();
        ASSERT(client->multi);
        client->timer = (struct loop_timer){ .due = client_on_due, .owner = client };
        curl_multi_setopt(client->multi, CURLMOPT_SOCKETFUNCTION, client_on_socket);
        curl_multi_setopt(client->multi, CURLMOPT_SOCKETDATA, client);
        curl_multi_setopt(client->multi, CURLMOPT_TIMERFUNCTION, client_on_timer);
        curl_multi_setopt(client->multi, CURLMOPT_TIMERDATA, client);
        curl_multi_setopt(client->multi, CURLMOPT_MAXCONNECTS, (long)CONNECTIONS_KEPT);
    }
    return client;
}

static void request_free(struct client_request *request)
{
    curl_slist_free_all(request->headers);
    buf_release(&request->response.body);
    mem_free(request->body);
    mem_free(request);
}

/* request_take_down: out of the multi handle; the easy handle goes back into the pool. */
static void request_take_down(struct client_request *request)
{
    struct client *client = request->client;
    ASSERT(!client->in_curl);
    client->in_curl = true;
    curl_multi_remove_handle(client->multi, request->easy);
    client->in_curl = false;
    curl_easy_reset(request->easy);
    if (client->n_pool < CLIENT_POOL_MAX)
        client->pool[client->n_pool++] = request->easy;
    else
        curl_easy_cleanup(request->easy);
    request->easy = NULL;
    list_remove(&client->open, &request->node);
}

void client_close(struct client *client)
{
    if (!client)
        return;
    if (client->in_done) {
        client->closed = true;
        return;
    }
    ASSERT(!client->in_curl);
    while (client->open.first) {
        struct client_request *request = CONTAINER_OF(client->open.first, struct client_request, node);
        request_take_down(request);
        request_free(request);
    }
    while (client->n_pool > 0)
        curl_easy_cleanup(client->pool[--client->n_pool]);
    if (client->blocking)
        curl_easy_cleanup(client->blocking);
    if (client->multi) {
        curl_multi_cleanup(client->multi);
        loop_disarm(client->loop, &client->timer);
    }
    mem_free(client->server);
    mem_free(client->base);
    mem_free(client->socket_path);
    mem_free(client->token);
    mem_free(client->tenant);
    mem_free(client->ca_file);
    mem_free(client->client_cert);
    mem_free(client->client_key);
    mem_free(client);
}

/* --- blocking --- */

static bool client_perform(struct client *client, struct client_request *request, const char *method, const char *path,
    struct str body, const char *content_type, const char *const *headers, int64_t timeout_ms, struct err *err)
{
    if (!client->blocking)
        client->blocking = curl_easy_init();
    ASSERT(client->blocking);
    request->client = client;
    request->easy = client->blocking;
    *request->sink = (struct client_response){ 0 };
    buf_init(&request->sink->body, CLIENT_ANSWER_BYTES_MAX);
    bool ok = request_set(request, method, path, body, content_type, headers, timeout_ms, err);
    if (ok)
        ok = request_outcome(request, curl_easy_perform(request->easy), err);
    curl_easy_reset(request->easy); /* keeps the connection */
    curl_slist_free_all(request->headers);
    return ok;
}

bool client_call(struct client *client, const char *method, const char *path, struct str body, const char *content_type,
    const char *const *headers, int64_t timeout_ms, struct client_response *out, struct err *err)
{
    struct client_request request = { .sink = out };
    return client_perform(client, &request, method, path, body, content_type, headers, timeout_ms, err);
}

bool client_upload(struct client *client, const char *path, const struct client_file *file, const char *content_type,
    const char *const *headers, struct client_response *out, struct err *err)
{
    struct client_request request = { .sink = out, .file = file };
    return client_perform(client, &request, "POST", path, (struct str){ 0 }, content_type, headers, 0, err);
}

void client_response_release(struct client_response *response)
{
    buf_release(&response->body);
}

bool client_stream(struct client *client, const char *method, const char *path, const char *const *headers,
    bool (*piece)(int status, struct str bytes, void *owner), void *owner, int *out_status, struct err *err)
{
    struct client_response response;
    struct client_request request = { .sink = &response, .piece = piece, .owner = owner };
    bool ok = client_perform(client, &request, method, path, (struct str){ 0 }, NULL, headers, 0, err);
    if (ok)
        *out_status = response.status;
    client_response_release(&response);
    return ok;
}

/* --- on the loop --- */

/* client_settle: removes requests that have ended and calls their `done`. */
static void client_settle(struct client *client)
{
    ASSERT(!client->in_done);
    CURLMsg *message;
    int left;
    client->in_done = true;
    while (!client->closed && (message = curl_multi_info_read(client->multi, &left))) {
        if (message->msg != CURLMSG_DONE)
            continue;
        struct client_request *request = NULL;
        CURLcode result = message->data.result;
        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&request);
        struct err err = { .code = ERR_none };
        request_outcome(request, result, &err);
        request_take_down(request);
        request->done(request->sink, &err, request->owner);
        request_free(request);
    }
    client->in_done = false;
    if (client->closed)
        client_close(client);
}

/* client_sweep: removes requests that were cancelled from inside libcurl. */
static void client_sweep(struct client *client)
{
    client->any_cancelled = false;
    for (struct list_node *node = client->open.first, *next; node; node = next) {
        next = node->next;
        struct client_request *request = CONTAINER_OF(node, struct client_request, node);
        if (request->cancelled) {
            request_take_down(request);
            request_free(request);
        }
    }
}

static void client_act(struct client *client, curl_socket_t fd, int events)
{
    int running;
    client->in_curl = true;
    curl_multi_socket_action(client->multi, fd, events, &running);
    client->in_curl = false;
    if (client->any_cancelled)
        client_sweep(client);
    client_settle(client);
}

static void client_on_ready(struct loop_fd *watch, uint32_t epoll_events)
{
    struct client_socket *socket = watch->owner;
    int events = 0;
    if (epoll_events & EPOLLIN)
        events |= CURL_CSELECT_IN;
    if (epoll_events & EPOLLOUT)
        events |= CURL_CSELECT_OUT;
    if (epoll_events & (EPOLLERR | EPOLLHUP))
        events |= CURL_CSELECT_ERR;
    client_act(socket->client, watch->fd, events);
}

static void client_on_due(struct loop_timer *timer)
{
    client_act(timer->owner, CURL_SOCKET_TIMEOUT, 0);
}

static int client_on_timer(CURLM *multi, long timeout_ms, void *owner)
{
    (void)multi;
    struct client *client = owner;
    if (timeout_ms < 0)
        loop_disarm(client->loop, &client->timer);
    else
        loop_arm(client->loop, &client->timer, loop_now(client->loop) + timeout_ms);
    return 0;
}

static int client_on_socket(CURL *easy, curl_socket_t fd, int what, void *owner, void *per_socket)
{
    (void)easy;
    struct client *client = owner;
    struct client_socket *socket = per_socket;
    if (what == CURL_POLL_REMOVE) {
        if (socket) {
            loop_remove(client->loop, &socket->watch);
            curl_multi_assign(client->multi, fd, NULL);
            mem_free(socket);
        }
        return 0;
    }
    uint32_t events = (what & CURL_POLL_IN ? EPOLLIN : 0U) | (what & CURL_POLL_OUT ? EPOLLOUT : 0U);
    if (socket) {
        loop_change(client->loop, &socket->watch, events);
        return 0;
    }
    socket = mem_alloc(sizeof *socket);
    *socket = (struct client_socket){ .client = client };
    socket->watch = (struct loop_fd){ fd, client_on_ready, socket };
    loop_add(client->loop, &socket->watch, events);
    curl_multi_assign(client->multi, fd, socket);
    return 0;
}

static struct client_request *client_begin(struct client *client, struct client_request *request, const char *method,
    const char *path, struct str body, const char *content_type, const char *const *headers, int64_t timeout_ms)
{
    ASSERT(client->multi && !client->in_curl);
    request->client = client;
    request->sink = &request->response;
    buf_init(&request->response.body, CLIENT_ANSWER_BYTES_MAX);
    request->easy = client->n_pool > 0 ? client->pool[--client->n_pool] : curl_easy_init();
    ASSERT(request->easy);
    if (body.ptr) {
        request->body = mem_alloc(body.len + 1);
        memcpy(request->body, body.ptr, body.len);
        body.ptr = request->body;
    }
    struct err err = { .code = ERR_none };
    ASSERT(request_set(request, method, path, body, content_type, headers, timeout_ms, &err));
    list_append(&client->open, &request->node);
    /* Nothing is sent yet: libcurl asks for a timer that is due at once. */
    ASSERT(curl_multi_add_handle(client->multi, request->easy) == CURLM_OK);
    return request;
}

struct client_request *client_start(struct client *client, const char *method, const char *path, struct str body,
    const char *content_type, int64_t timeout_ms, void (*done)(struct client_response *, struct err *, void *owner),
    void *owner)
{
    struct client_request *request = mem_alloc(sizeof *request);
    *request = (struct client_request){ .done = done, .owner = owner };
    return client_begin(client, request, method, path, body, content_type, NULL, timeout_ms);
}

struct client_request *client_follow(struct client *client, const char *method, const char *path,
    const char *const *headers, bool (*piece)(int status, struct str bytes, void *owner),
    void (*done)(struct client_response *, struct err *, void *owner), void *owner)
{
    struct client_request *request = mem_alloc(sizeof *request);
    *request = (struct client_request){ .piece = piece, .done = done, .owner = owner };
    return client_begin(client, request, method, path, (struct str){ 0 }, NULL, headers, 0);
}

void client_cancel(struct client *client, struct client_request *request)
{
    if (client->in_curl) {
        request->cancelled = client->any_cancelled = true;
        return;
    }
    request_take_down(request);
    request_free(request);
}
