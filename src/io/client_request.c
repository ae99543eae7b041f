/* client_request: the options of one request, and what its end means.
 *
 * Owns the list of faults that mean a refused certificate (trust_faults), in words that say what to do. */
#include "io/client_request.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

bool client_header_safe(const char *z)
{
    for (; *z; z++)
        if ((unsigned char)*z < ' ' && *z != '\t')
            return false;
    return true;
}

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

/* request_on_read: the next bytes of a body that is a file. */
static size_t request_on_read(char *out, size_t size, size_t n, void *owner)
{
    struct client_request *request = owner;
    uint64_t left = request->file->bytes - request->file_at;
    size_t len = size * n < left ? size * n : (size_t)left;
    if (len == 0)
        return 0;
    ssize_t got;
    do
        got = pread(request->file->fd, out, len, (off_t)request->file_at);
    while (got < 0 && errno == EINTR);
    if (got <= 0) {
        request->file_fault = got < 0 ? errno : ENODATA;
        return CURL_READFUNC_ABORT;
    }
    request->file_at += (uint64_t)got;
    return (size_t)got;
}

/* request_on_seek: a connection that was kept may turn out to be closed; then the body is sent again on a new one. */
static int request_on_seek(void *owner, curl_off_t offset, int origin)
{
    struct client_request *request = owner;
    if (origin != SEEK_SET || offset < 0 || (uint64_t)offset > request->file->bytes)
        return CURL_SEEKFUNC_FAIL;
    request->file_at = (uint64_t)offset;
    return CURL_SEEKFUNC_OK;
}

static void request_set_file(struct client_request *request)
{
    CURL *easy = request->easy;
    curl_easy_setopt(easy, CURLOPT_POST, 1L);
    curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->file->bytes);
    curl_easy_setopt(easy, CURLOPT_READFUNCTION, request_on_read);
    curl_easy_setopt(easy, CURLOPT_READDATA, request);
    curl_easy_setopt(easy, CURLOPT_SEEKFUNCTION, request_on_seek);
    curl_easy_setopt(easy, CURLOPT_SEEKDATA, request);
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

bool request_set(struct client_request *request, const char *method, const char *path, struct str body,
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
    if (request->file)
        request_set_file(request);
    else
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

bool request_outcome(struct client_request *request, CURLcode result, struct err *err)
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
        return err_set(
            err, ERR_body_too_large, "%s: the answer is over %zu MiB", server, CLIENT_ANSWER_BYTES_MAX >> 20);
    if (request->file_fault != 0)
        return err_set(err, ERR_io, "the file that was being sent %s%s",
            request->file_fault == ENODATA ? "has become shorter" : "can't be read: ",
            request->file_fault == ENODATA ? "" : strerrordesc_np(request->file_fault));
    curl_easy_getinfo(request->easy, CURLINFO_OS_ERRNO, &os_errno);
    const char *words = request->fault[0] ? request->fault : curl_easy_strerror(result);
    if (result == CURLE_COULDNT_CONNECT && os_errno != 0)
        words = strerrordesc_np((int)os_errno);
    if (result == CURLE_PEER_FAILED_VERIFICATION)
        words = verify_words(request->easy, words);
    if (result == CURLE_COULDNT_CONNECT && (os_errno == EACCES || os_errno == EPERM))
        return err_set(err, ERR_forbidden, "%s: %s", server, words);
    curl_off_t taken = 0;
    curl_easy_getinfo(request->easy, CURLINFO_SIZE_DOWNLOAD_T, &taken);
    if (request->piece && status >= 200 && status < 300 && taken > 0)
        return err_set(err, ERR_broken_off, "%s: the answer broke off after %lld bytes, before its end: %s", server,
            (long long)taken, words);
    return trust_fault(server, result, words, err)
               ? false
               : err_set(err, ERR_unreachable, CLIENT_NOBODY "%s: %s", server, words);
}
