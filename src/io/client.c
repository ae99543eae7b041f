/* client: HTTP requests through libcurl: one easy handle for the blocking calls, a multi handle whose sockets and timer
 * live in our loop for the others.
 *
 * Promises: connections are used again; nothing follows a redirect, asks a proxy for a local address, waits for "100
 * Continue" or raises a signal; an answer is held in memory up to ANSWER_MAX and refused beyond. libcurl calls back
 * into us while it works: in that time requests are only marked, and taken down when it has returned.
 *
 * Whatever keeps an answer from coming is the error `unreachable`, or `untrusted`, in words that name the server. */
#include "io/client.h"

#include <curl/curl.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/list.h"
#include "text/json_value.h"

enum { POOL_MAX = 16, CONNECT_TIMEOUT_MS = 3000, CONNECTIONS_KEPT = 32 };
static const size_t ANSWER_MAX = (size_t)64 << 20;

struct client {
    char *server, *base, *socket_path, *token, *tenant, *ca_file, *client_cert, *client_key;
    long connect_timeout_ms;
    bool local; /* loopback or unix socket: never through a proxy */
    CURL *blocking;
    struct loop *loop;
    CURLM *multi;
    struct loop_timer timer;
    struct list open;
    CURL *pool[POOL_MAX];
    size_t n_pool;
    bool in_curl, any_cancelled; /* libcurl is on the stack: no handle may be taken down, only marked */
    bool in_done, closed;        /* a `done` is on the stack: client_close waits for its return */
};

struct client_request {
    struct list_node node;
    struct client *client;
    CURL *easy;
    struct curl_slist *headers;
    char *body;
    char fault[CURL_ERROR_SIZE];
    struct client_response response;
    struct client_response *sink; /* where the answer goes: our own, or the blocking caller's */
    bool stopped, cancelled, too_large;
    bool (*piece)(int status, struct str bytes, void *owner);
    void (*done)(struct client_response *, struct err *, void *owner);
    void *owner;
};

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

/* Text that goes into a header line: nothing that could end the line. */
static bool client_header_safe(const char *z)
{
    for (; *z; z++)
        if ((unsigned char)*z < ' ' && *z != '\t')
            return false;
    return true;
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

/* client_set_files: the library reads them at each connection; what is wrong with them is told here, before. */
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

struct client *client_open(const struct client_config *config, struct loop *loop, struct err *err)
{
    pthread_once(&client_once, client_init_library);
    struct client *client = mem_alloc(sizeof *client);
    *client = (struct client){ .loop = loop, .connect_timeout_ms = CONNECT_TIMEOUT_MS };
    if (config->connect_timeout_ms > 0)
        client->connect_timeout_ms = (long)config->connect_timeout_ms;
    if (!client_set_server(client, config->server, err)) {
        client_close(client);
        return NULL;
    }
    if (config->tenant) {
        if (!client_header_safe(config->tenant)) {
            err_set(err, ERR_usage, "the tenant's name holds bytes that no name has");
            client_close(client);
            return NULL;
        }
        client->tenant = client_copy(config->tenant);
    }
    if (config->token) {
        if (!*config->token || !client_header_safe(config->token)) {
            err_set(err, ERR_usage, "the token holds bytes that no token has");
            client_close(client);
            return NULL;
        }
        client->token = client_copy(config->token);
    }
    if (!client_set_files(client, config, err)) {
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
    if (client->n_pool < POOL_MAX)
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

/* --- one request --- */

static size_t request_on_body(char *bytes, size_t size, size_t n, void *owner)
{
    struct client_request *request = owner;
    size_t len = size * n;
    if (request->cancelled)
        return 0;
    long status = 0;
    curl_easy_getinfo(request->easy, CURLINFO_RESPONSE_CODE, &status);
    bool good = status >= 200 && status < 300;
    if (request->piece && (good || !request->done)) {
        request->stopped = !request->piece((int)status, (struct str){ bytes, len }, request->owner);
        return request->stopped || request->cancelled ? 0 : len;
    }
    buf_add(&request->sink->body, bytes, len);
    request->too_large = request->sink->body.full;
    return request->too_large ? 0 : len;
}

static void request_add_header(struct client_request *request, const char *name, const char *value)
{
    size_t size = strlen(name) + strlen(value) + 3;
    char small[512];
    char *line = size <= sizeof small ? small : mem_alloc(size);
    /* "Name;" is libcurl's way to send a header without a value, "Name:" removes its own. */
    snprintf(line, size, *value ? "%s: %s" : "%s;", name, value);
    struct curl_slist *list = curl_slist_append(request->headers, line);
    ASSERT(list);
    request->headers = list;
    if (line != small)
        mem_free(line);
}

static bool request_set_headers(
    struct client_request *request, const char *content_type, const char *const *headers, struct err *err)
{
    struct client *client = request->client;
    static const char *const unwanted[] = { "Expect:", "Accept-Encoding:" };
    for (size_t i = 0; i < sizeof unwanted / sizeof *unwanted; i++) {
        request->headers = curl_slist_append(request->headers, unwanted[i]);
        ASSERT(request->headers);
    }
    if (content_type)
        request_add_header(request, "Content-Type", content_type);
    if (client->tenant)
        request_add_header(request, "Weir-Tenant", client->tenant);
    if (client->token) {
        size_t size = strlen(client->token) + sizeof "Bearer ";
        char *value = mem_alloc(size);
        snprintf(value, size, "Bearer %s", client->token);
        request_add_header(request, "Authorization", value);
        mem_free(value);
    }
    for (size_t i = 0; headers && headers[i]; i += 2) {
        if (!client_header_safe(headers[i]) || !client_header_safe(headers[i + 1]))
            return err_set(err, ERR_usage, "the value of %s holds control characters", headers[i]);
        request_add_header(request, headers[i], headers[i + 1]);
    }
    return true;
}

static void request_set_method(CURL *easy, const char *method, struct str body, bool has_body)
{
    if (strcmp(method, "GET") == 0 && !has_body)
        return;
    if (strcmp(method, "HEAD") == 0) {
        curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
        return;
    }
    if (has_body || strcmp(method, "POST") == 0 || strcmp(method, "PUT") == 0) {
        curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body.len);
        curl_easy_setopt(easy, CURLOPT_POSTFIELDS, has_body ? body.ptr : "");
    }
    curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, method);
}

static void request_set_tls(const struct client *client, CURL *easy)
{
    curl_easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    if (client->ca_file) {
        curl_easy_setopt(easy, CURLOPT_CAINFO, client->ca_file);
        curl_easy_setopt(easy, CURLOPT_CAPATH, NULL); /* else the system's are trusted too */
    }
    if (client->client_cert) {
        curl_easy_setopt(easy, CURLOPT_SSLCERT, client->client_cert);
        curl_easy_setopt(easy, CURLOPT_SSLKEY, client->client_key ? client->client_key : client->client_cert);
        curl_easy_setopt(easy, CURLOPT_KEYPASSWD, ""); /* else the library asks at the terminal */
    }
}

/* client_on_close: libcurl may close a socket before it says that it need not be watched any more. */
static int client_on_close(void *owner, curl_socket_t fd)
{
    loop_close(owner, fd);
    return 0;
}

static void request_set_connection(struct client_request *request, int64_t timeout_ms)
{
    struct client *client = request->client;
    CURL *easy = request->easy;
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    if (client->loop) {
        curl_easy_setopt(easy, CURLOPT_CLOSESOCKETFUNCTION, client_on_close);
        curl_easy_setopt(easy, CURLOPT_CLOSESOCKETDATA, client->loop);
    }
    curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(easy, CURLOPT_TCP_NODELAY, 1L);
    curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt(easy, CURLOPT_TCP_KEEPIDLE, 30L);
    curl_easy_setopt(easy, CURLOPT_TCP_KEEPINTVL, 10L);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, client->connect_timeout_ms);
    if (timeout_ms > 0)
        curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)timeout_ms);
    if (client->local)
        curl_easy_setopt(easy, CURLOPT_PROXY, "");
    if (client->socket_path)
        curl_easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, client->socket_path);
    request_set_tls(client, easy);
    curl_easy_setopt(easy, CURLOPT_USERAGENT, "weir/" WEIR_VERSION);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, request->fault);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, request_on_body);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, request);
    curl_easy_setopt(easy, CURLOPT_PRIVATE, request);
}

static bool request_set(struct client_request *request, const char *method, const char *path, struct str body,
    const char *content_type, const char *const *headers, int64_t timeout_ms, struct err *err)
{
    struct client *client = request->client;
    if (!request_set_headers(request, content_type, headers, err))
        return false;
    size_t size = strlen(client->base) + strlen(path) + 1;
    char *url = mem_alloc(size);
    snprintf(url, size, "%s%s", client->base, path);
    curl_easy_setopt(request->easy, CURLOPT_URL, url);
    mem_free(url);
    curl_easy_setopt(request->easy, CURLOPT_PATH_AS_IS, 1L);
    curl_easy_setopt(request->easy, CURLOPT_HTTPHEADER, request->headers);
    request_set_method(request->easy, method, body, body.ptr != NULL);
    request_set_connection(request, timeout_ms);
    return true;
}

/* Words of the library, or of an alert of the other side, and what they mean for a person. The first row that fits
 * counts. */
static const struct {
    CURLcode result; /* CURL_LAST: any */
    const char *words, *meaning;
    enum err_code code;
} trust_faults[] = {
    { CURLE_PEER_FAILED_VERIFICATION, "expired", "its certificate has expired: renew it at the server", ERR_untrusted },
    { CURLE_PEER_FAILED_VERIFICATION, "not yet valid",
        "its certificate isn't valid yet: look at the clocks of both machines", ERR_untrusted },
    { CURLE_PEER_FAILED_VERIFICATION, "subject name",
        "its certificate is for another name: use a name that stands in it", ERR_untrusted },
    { CURLE_PEER_FAILED_VERIFICATION, "",
        "no CA that is trusted here has signed its certificate: name the one that did with --ca F or WEIR_CA",
        ERR_untrusted },
    { CURLE_SSL_CACERT_BADFILE, "", "the CA file can't be used: it must hold certificates in PEM form", ERR_untrusted },
    { CURLE_SSL_CERTPROBLEM, "",
        "the client certificate and key can't be used: PEM, without a passphrase, belonging together", ERR_untrusted },
    { CURL_LAST, "certificate required", "the server wants a client certificate: --client-cert F --client-key F",
        ERR_untrusted },
    { CURL_LAST, "alert handshake failure",
        "the server wants a client certificate (--client-cert F --client-key F), or speaks no cipher that we do",
        ERR_untrusted },
    { CURL_LAST, "alert unknown ca", "the server doesn't know the CA of the client certificate", ERR_untrusted },
    { CURL_LAST, "alert certificate expired", "the client certificate has expired", ERR_untrusted },
    { CURL_LAST, "alert bad certificate", "the server doesn't take the client certificate", ERR_untrusted },
    { CURL_LAST, "alert unsupported certificate", "the client certificate isn't one for clients", ERR_untrusted },
    { CURL_LAST, "wrong version number", "TLS isn't spoken there: write http:// instead of https://", ERR_unreachable },
};

/* trust_fault: is it about certificates? Then err says so, with what to do. */
static bool trust_fault(const char *server, CURLcode result, const char *words, struct err *err)
{
    for (size_t i = 0; i < sizeof trust_faults / sizeof *trust_faults; i++) {
        if ((trust_faults[i].result != CURL_LAST && trust_faults[i].result != result) ||
            !strstr(words, trust_faults[i].words))
            continue;
        err_set(err, trust_faults[i].code, "%s: %s (%s)", server, trust_faults[i].meaning, words);
        return true;
    }
    return false;
}

/* verify_words: libcurl keeps the words of a request's first fault, that of an old connection, when a new one is then
 * refused. */
static const char *verify_words(CURL *easy, const char *words)
{
    enum { NOT_YET_VALID = 9, EXPIRED = 10 }; /* X509_V_ERR_CERT_... of OpenSSL */
    long why = 0;
    curl_easy_getinfo(easy, CURLINFO_SSL_VERIFYRESULT, &why);
    return why == EXPIRED ? "certificate has expired" : why == NOT_YET_VALID ? "certificate is not yet valid" : words;
}

/* request_outcome: after libcurl is through with it: the status and the type, or why there is none. */
static bool request_outcome(struct client_request *request, CURLcode result, struct err *err)
{
    struct client_response *out = request->sink;
    long status = 0, os_errno = 0;
    curl_easy_getinfo(request->easy, CURLINFO_RESPONSE_CODE, &status);
    if (result == CURLE_OK || request->stopped) {
        const char *type = NULL;
        curl_easy_getinfo(request->easy, CURLINFO_CONTENT_TYPE, &type);
        out->status = (int)status;
        snprintf(out->content_type, sizeof out->content_type, "%s", type ? type : "");
        return true;
    }
    out->status = 0;
    buf_reset(&out->body);
    const char *server = request->client->server;
    if (request->too_large)
        return err_set(err, ERR_body_too_large, "%s: the answer is over %zu MiB", server, ANSWER_MAX >> 20);
    curl_easy_getinfo(request->easy, CURLINFO_OS_ERRNO, &os_errno);
    const char *words = request->fault[0] ? request->fault : curl_easy_strerror(result);
    if (result == CURLE_COULDNT_CONNECT && os_errno != 0)
        words = strerrordesc_np((int)os_errno);
    if (result == CURLE_PEER_FAILED_VERIFICATION)
        words = verify_words(request->easy, words);
    if (result == CURLE_COULDNT_CONNECT && (os_errno == EACCES || os_errno == EPERM))
        return err_set(err, ERR_forbidden, "%s: %s", server, words);
    return trust_fault(server, result, words, err)
               ? false
               : err_set(err, ERR_unreachable, CLIENT_NOBODY "%s: %s", server, words);
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
    buf_init(&request->sink->body, ANSWER_MAX);
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

/* client_settle: takes down what has ended and tells its owner. */
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

/* client_sweep: takes down what was cancelled from inside libcurl. */
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
    buf_init(&request->response.body, ANSWER_MAX);
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

/* --- answers that refuse --- */

static enum err_code problem_code(int status)
{
    for (int code = ERR_none + 1; code < ERR_COUNT; code++)
        if (err_http((enum err_code)code) == status)
            return (enum err_code)code;
    return status >= 500 ? ERR_internal : ERR_bad_request;
}

static struct str problem_text(struct arena *arena, const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_string(value))
        return (struct str){ 0 };
    struct str text = { json_string_value(value), json_string_length(value) };
    return arena ? str_dup(arena, text) : text;
}

static unsigned problem_number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    json_int_t n = json_is_integer(value) ? json_integer_value(value) : 0;
    return n > 0 && n < INT32_MAX ? (unsigned)n : 0;
}

static void problem_items(const json_t *errors, struct err *err)
{
    size_t i;
    json_t *fault;
    json_array_foreach (errors, i, fault) {
        if (!json_is_object(fault))
            continue;
        struct str message = problem_text(err->arena, fault, "message");
        err_item(err, err->code, problem_text(err->arena, fault, "path"), "%.*s", STR_ARG(message));
        struct err_item *item = err_item_last(err);
        if (!item)
            return;
        item->file = problem_text(err->arena, fault, "file");
        item->line = problem_number(fault, "line");
        item->column = problem_number(fault, "column");
        item->suggestion = problem_text(err->arena, fault, "suggestion");
    }
}

void client_problem(const struct client_response *response, struct err *err)
{
    enum err_code code = problem_code(response->status);
    struct err parse = { .arena = err->arena };
    json_t *problem = response->body.len > 0 ? json_parse(buf_str(&response->body), 16, &parse) : NULL;
    if (!json_is_object(problem)) {
        json_decref(problem);
        err_set(err, code, "the server answered with status %d", response->status);
        return;
    }
    enum err_code named = err_find(problem_text(NULL, problem, "code"));
    struct str text = problem_text(NULL, problem, "detail");
    if (text.len == 0)
        text = problem_text(NULL, problem, "title");
    if (text.len == 0)
        text = STR("the server gave no reason");
    err_set(err, named != ERR_none ? named : code, "%.*s", STR_ARG(text));
    const json_t *expected = json_object_get(problem, "expected");
    if (json_is_integer(expected))
        err->expected = json_integer_value(expected);
    if (err->arena)
        problem_items(json_object_get(problem, "errors"), err);
    json_decref(problem);
}

struct str client_encode(struct arena *arena, struct str part)
{
    static const char hex[] = "0123456789ABCDEF";
    char *out = arena_array(arena, 3, part.len + 1);
    size_t n = 0;
    for (size_t i = 0; i < part.len; i++) {
        unsigned char c = (unsigned char)part.ptr[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                     c == '.' || c == '_' || c == '~';
        if (plain) {
            out[n++] = (char)c;
        } else {
            out[n++] = '%';
            out[n++] = hex[c >> 4];
            out[n++] = hex[c & 15];
        }
    }
    return (struct str){ out, n };
}
