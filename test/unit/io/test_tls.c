/* TLS at the door: real certificates, made here; a client of the library's that reads slowly, pipelines, resumes; who
 * speaks plain text, garbage, or nothing at all; certificates that are wrong in every way; new ones while connections
 * are open. */
#include "bed.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/client.h"
#include "io/tls.h"

enum { DAY = 24 * 3600 };

static char folder[] = "/tmp/weir-tls-XXXXXX";
static struct bed bed;
static struct tls *tls;

/* --- paper --- */

struct paper {
    X509 *certificate;
    EVP_PKEY *key;
};
static struct paper ca, other_ca;

static const char *path_of(const char *name)
{
    static char paths[8][128];
    static unsigned at;
    char *path = paths[at++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static void extension_add(X509 *certificate, int nid, const char *value)
{
    X509V3_CTX context;
    X509V3_set_ctx_nodb(&context);
    X509V3_set_ctx(&context, certificate, certificate, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &context, nid, value);
    assert_non_null(extension);
    assert_int_equal(X509_add_ext(certificate, extension, -1), 1);
    X509_EXTENSION_free(extension);
}

/* paper_make: signed by `by` (NULL: by itself, a CA), valid from and to these seconds from now. */
static struct paper paper_make(const char *name, const char *alternative, const struct paper *by, long from, long to)
{
    static long serial;
    struct paper out = { X509_new(), EVP_EC_gen("P-256") };
    assert_true(out.certificate && out.key);
    X509_set_version(out.certificate, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(out.certificate), ++serial);
    X509_gmtime_adj(X509_getm_notBefore(out.certificate), from);
    X509_gmtime_adj(X509_getm_notAfter(out.certificate), to);
    X509_set_pubkey(out.certificate, out.key);
    X509_NAME *subject = X509_get_subject_name(out.certificate);
    X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, (const unsigned char *)name, -1, -1, 0);
    X509_set_issuer_name(out.certificate, by ? X509_get_subject_name(by->certificate) : subject);
    if (!by)
        extension_add(out.certificate, NID_basic_constraints, "critical,CA:TRUE");
    if (alternative)
        extension_add(out.certificate, NID_subject_alt_name, alternative);
    assert_true(X509_sign(out.certificate, by ? by->key : out.key, EVP_sha256()) > 0);
    return out;
}

static void paper_free(struct paper *paper)
{
    X509_free(paper->certificate);
    EVP_PKEY_free(paper->key);
}

static void paper_write(const struct paper *paper, const char *certificate, const char *key, const char *passphrase)
{
    FILE *file = fopen(path_of(certificate), "w");
    assert_non_null(file);
    assert_int_equal(PEM_write_X509(file, paper->certificate), 1);
    fclose(file);
    if (!key)
        return;
    file = fopen(path_of(key), "w");
    assert_non_null(file);
    assert_int_equal(fchmod(fileno(file), 0600), 0);
    int len = passphrase ? (int)strlen(passphrase) : 0;
    const unsigned char *bytes = (const unsigned char *)passphrase;
    assert_int_equal(
        PEM_write_PrivateKey(file, paper->key, passphrase ? EVP_aes_128_cbc() : NULL, bytes, len, NULL, NULL), 1);
    fclose(file);
}

static void paper_issue(const char *name, const char *alternative, const struct paper *by, long from, long to)
{
    char certificate[64], key[64];
    struct paper paper = paper_make(name, alternative, by, from, to);
    snprintf(certificate, sizeof certificate, "%s.pem", name);
    snprintf(key, sizeof key, "%s.key", name);
    paper_write(&paper, certificate, key, NULL);
    paper_free(&paper);
}

static int make_papers(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(folder));
    ca = paper_make("a CA", NULL, NULL, -DAY, 365 * DAY);
    other_ca = paper_make("another CA", NULL, NULL, -DAY, 365 * DAY);
    paper_write(&ca, "ca.pem", NULL, NULL);
    paper_write(&other_ca, "other-ca.pem", NULL, NULL);
    paper_issue("server", "DNS:localhost,IP:127.0.0.1", &ca, -DAY, 365 * DAY);
    paper_issue("second", "DNS:localhost,IP:127.0.0.1", &ca, -DAY, 365 * DAY);
    paper_issue("stranger", "DNS:example.org", &ca, -DAY, 365 * DAY);
    paper_issue("expired", "IP:127.0.0.1", &ca, -2 * DAY, -DAY);
    paper_issue("early", "IP:127.0.0.1", &ca, DAY, 2 * DAY);
    paper_issue("soon", "IP:127.0.0.1", &ca, -DAY, 2 * DAY);
    paper_issue("client", NULL, &ca, -DAY, 365 * DAY);
    paper_issue("late-client", NULL, &ca, -2 * DAY, -DAY);
    paper_issue("other-client", NULL, &other_ca, -DAY, 365 * DAY);
    struct paper locked = paper_make("locked", NULL, &ca, -DAY, DAY);
    paper_write(&locked, "locked.pem", "locked.key", "secret");
    paper_free(&locked);
    FILE *file = fopen(path_of("junk"), "w");
    fputs("nothing of that kind\n", file);
    fchmod(fileno(file), 0600);
    fclose(file);
    return 0;
}

static int remove_papers(void **state)
{
    (void)state;
    static const char *const names[] = { "ca", "other-ca", "server", "second", "stranger", "expired", "early", "soon",
        "client", "late-client", "other-client", "locked" };
    char name[64];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(name, sizeof name, "%s.pem", names[i]);
        unlink(path_of(name));
        snprintf(name, sizeof name, "%s.key", names[i]);
        unlink(path_of(name));
    }
    unlink(path_of("junk"));
    paper_free(&ca);
    paper_free(&other_ca);
    return rmdir(folder);
}

static struct tls_config files_of(const char *name, const char *client_ca)
{
    static char certificate[128], key[128], authority[128];
    snprintf(certificate, sizeof certificate, "%s/%s.pem", folder, name);
    snprintf(key, sizeof key, "%s/%s.key", folder, name);
    snprintf(authority, sizeof authority, "%s/%s", folder, client_ca ? client_ca : "");
    return (struct tls_config){ certificate, key, client_ca ? authority : NULL };
}

static void open_bed(const char *name, const char *client_ca, unsigned idle_timeout_s)
{
    struct err err = { .code = ERR_none };
    struct tls_config files = files_of(name, client_ca);
    tls = tls_open(&files, &err);
    if (!tls)
        fail_msg("%s", err.text);
    bed_open_tls(&bed, 0, idle_timeout_s, tls);
    bed_run(&bed);
}

static void close_bed(void)
{
    bed_close(&bed);
    tls_close(tls);
}

/* --- a client of the library's --- */

struct caller {
    SSL_CTX *context;
    SSL *ssl;
    int fd;
};

static struct caller caller_open(int version)
{
    struct caller caller = { .context = SSL_CTX_new(TLS_client_method()), .fd = raw_connect(bed.port) };
    SSL_CTX_load_verify_file(caller.context, path_of("ca.pem"));
    SSL_CTX_set_verify(caller.context, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_max_proto_version(caller.context, version);
    SSL_CTX_set_min_proto_version(caller.context, version);
    SSL_CTX_set_security_level(caller.context, 0); /* else it refuses old versions itself */
    caller.ssl = SSL_new(caller.context);
    SSL_set_fd(caller.ssl, caller.fd);
    return caller;
}

static void caller_close(struct caller *caller)
{
    SSL_set_shutdown(caller->ssl, SSL_SENT_SHUTDOWN); /* leaves without a word, and its session may still be resumed */
    SSL_free(caller->ssl);
    SSL_CTX_free(caller->context);
    close(caller->fd);
    ERR_clear_error();
}

static void caller_send(struct caller *caller, const char *text)
{
    assert_int_equal(SSL_write(caller->ssl, text, (int)strlen(text)), (int)strlen(text));
}

/* caller_read: until `mark` came, or the end; how many bytes there were. */
static size_t caller_read(struct caller *caller, const char *mark, char *tail, size_t tail_size, size_t step)
{
    size_t total = 0, kept = 0;
    char bytes[16384];
    tail[0] = '\0';
    for (;;) {
        int n = SSL_read(caller->ssl, bytes, (int)(step < sizeof bytes ? step : sizeof bytes));
        if (n <= 0)
            return total;
        total += (size_t)n;
        size_t room = tail_size - 1, add = (size_t)n < room ? (size_t)n : room;
        size_t keep = kept + add > room ? room - add : kept;
        memmove(tail, tail + kept - keep, keep);
        memcpy(tail + keep, bytes + n - add, add);
        kept = keep + add;
        tail[kept] = '\0';
        if (mark && memmem(tail, kept, mark, strlen(mark)))
            return total;
    }
}

/* --- what is served --- */

static void whole_conversations(void **state)
{
    (void)state;
    open_bed("server", NULL, 0);
    assert_memory_equal(bed.url, "https://127.0.0.1:", 18);
    static const int versions[] = { TLS1_2_VERSION, TLS1_3_VERSION };
    for (size_t i = 0; i < 2; i++) {
        char tail[4096];
        struct caller caller = caller_open(versions[i]);
        assert_int_equal(SSL_connect(caller.ssl), 1);
        for (int k = 0; k < 3; k++) {
            caller_send(&caller, "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n");
            caller_read(&caller, "hello", tail, sizeof tail, 7);
            assert_non_null(strstr(tail, "hello"));
        }
        /* Several in one record: the rest stands in the library, not in the kernel, while the first ones are served. */
        caller_send(&caller,
            "GET /target?x=1 HTTP/1.1\r\nHost: x\r\n\r\nGET /target?x=2 HTTP/1.1\r\nHost: x\r\n\r\n"
            "GET /park HTTP/1.1\r\nHost: x\r\n\r\nGET /target?x=3 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        assert_true(bed_wait(&bed.parked, (unsigned)i + 1));
        bed_release(&bed);
        caller_read(&caller, NULL, tail, sizeof tail, sizeof tail);
        assert_non_null(strstr(tail, "|x=1|1"));
        assert_non_null(strstr(tail, "released"));
        assert_non_null(strstr(tail, "|x=3|3"));
        assert_int_equal(SSL_get_shutdown(caller.ssl) & SSL_RECEIVED_SHUTDOWN, SSL_RECEIVED_SHUTDOWN);
        caller_close(&caller);
    }
    close_bed();
}

static void old_versions(void **state)
{
    (void)state;
    open_bed("server", NULL, 0);
    static const int versions[] = { TLS1_VERSION, TLS1_1_VERSION };
    for (size_t i = 0; i < 2; i++) {
        struct caller caller = caller_open(versions[i]);
        assert_int_not_equal(SSL_connect(caller.ssl), 1);
        assert_int_equal(ERR_GET_REASON(ERR_peek_error()), SSL_R_TLSV1_ALERT_PROTOCOL_VERSION);
        caller_close(&caller);
    }
    close_bed();
}

/* Answers and streams that the kernel takes in pieces, to a client that reads in odd steps; many bytes the other way.
 */
static void slow_readers(void **state)
{
    (void)state;
    open_bed("server", NULL, 0);
    char tail[4096];
    static char body[BED_BODY_MAX - 1000];
    struct caller caller = caller_open(TLS1_3_VERSION);
    assert_int_equal(SSL_connect(caller.ssl), 1);
    caller_send(&caller, "GET /large?n=24000000 HTTP/1.1\r\nHost: x\r\n\r\nGET /hello HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_true(bed_wait(&bed.served, 1));
    poll(NULL, 0, 50); /* not needed for the result: lets the kernel's queue run full */
    assert_true(caller_read(&caller, "hello", tail, sizeof tail, 1777) > 24000000);
    caller_send(&caller, "GET /flood?n=100 HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_true(caller_read(&caller, "\r\n0\r\n\r\n", tail, sizeof tail, 16000) > 100 * 65536);
    memset(body, 'y', sizeof body);
    body[sizeof body - 1] = 'z';
    char head[128];
    snprintf(head, sizeof head, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: %zu\r\n\r\n", sizeof body);
    caller_send(&caller, head);
    for (size_t at = 0; at < sizeof body; at += 3333) {
        int n = sizeof body - at < 3333 ? (int)(sizeof body - at) : 3333;
        assert_int_equal(SSL_write(caller.ssl, body + at, n), n);
    }
    assert_true(caller_read(&caller, "yz", tail, sizeof tail, 5000) > sizeof body);
    caller_close(&caller);
    close_bed();
}

static void two_connections(const char *client_ca, bool resumed)
{
    open_bed("server", client_ca, 0);
    SSL_SESSION *kept = NULL;
    for (int i = 0; i < 2; i++) {
        char tail[1024];
        struct caller caller = caller_open(TLS1_3_VERSION);
        SSL_use_certificate_file(caller.ssl, path_of("client.pem"), SSL_FILETYPE_PEM);
        SSL_use_PrivateKey_file(caller.ssl, path_of("client.key"), SSL_FILETYPE_PEM);
        if (kept)
            SSL_set_session(caller.ssl, kept);
        assert_int_equal(SSL_connect(caller.ssl), 1);
        caller_send(&caller, "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n");
        caller_read(&caller, "hello", tail, sizeof tail, sizeof tail);
        assert_int_equal(SSL_session_reused(caller.ssl), i == 1 && resumed);
        assert_int_equal(SSL_key_update(caller.ssl, SSL_KEY_UPDATE_REQUESTED), 1);
        caller_send(&caller, "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n");
        caller_read(&caller, "hello", tail, sizeof tail, sizeof tail);
        assert_non_null(strstr(tail, "hello"));
        if (!kept)
            kept = SSL_get1_session(caller.ssl);
        caller_close(&caller);
    }
    SSL_SESSION_free(kept);
    close_bed();
}

/* With client certificates nothing is resumed: it would be taken without a look at whether they are still good. */
static void resumption_and_key_update(void **state)
{
    (void)state;
    two_connections(NULL, true);
    two_connections("ca.pem", false);
}

static void ask(
    const char *server, const char *authority, const char *client_name, enum err_code wanted, const char *words)
{
    char certificate[64], key[64];
    struct client_response response = { 0 };
    struct err err = { .code = ERR_none };
    struct client_config config = { .server = server, .ca_file = authority ? path_of(authority) : NULL };
    if (client_name) {
        snprintf(certificate, sizeof certificate, "%s.pem", client_name);
        snprintf(key, sizeof key, "%s.key", client_name);
        config.client_cert = path_of(certificate);
        config.client_key = path_of(key);
    }
    struct client *client = client_open(&config, NULL, &err);
    assert_non_null(client);
    for (int i = 0; i < 2; i++) { /* a kept connection, or a second refusal */
        bool good = client_call(client, "GET", "/hello", (struct str){ 0 }, NULL, NULL, 10000, &response, &err);
        if (good != (wanted == ERR_none) || err.code != wanted || (words && !strstr(err.text, words)))
            fail_msg("%s %s: wanted %s \"%s\": %s %s", authority ? authority : "-", client_name ? client_name : "-",
                err_name(wanted), words ? words : "", err_name(err.code), err.text);
        client_response_release(&response);
    }
    client_close(client);
}

/* --- who doesn't speak it --- */

static void plain_text(void **state)
{
    (void)state;
    open_bed("server", NULL, 0);
    char answer[2048];
    bool closed;
    int fd = raw_connect(bed.port);
    RAW_SEND(fd, "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n");
    raw_read_all(fd, answer, sizeof answer, &closed);
    assert_true(closed);
    assert_memory_equal(answer, "HTTP/1.1 400 ", 13);
    assert_non_null(strstr(answer, "https://"));
    close(fd);
    fd = raw_connect_unix(bed.socket_path); /* stays as it is */
    RAW_SEND(fd, "GET /hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    raw_read_all(fd, answer, sizeof answer, &closed);
    assert_memory_equal(answer, "HTTP/1.1 200 ", 13);
    close(fd);
    assert_int_equal(atomic_load(&bed.served), 1);
    close_bed();
}

static void garbage_and_silence(void **state)
{
    (void)state;
    open_bed("server", NULL, 3);
    ask(bed.url, "ca.pem", NULL, ERR_none, NULL); /* what is opened once is open */
    size_t fds = count_fds();
    enum { SILENT = 20 };
    int silent[SILENT];
    char answer[4096], noise[3000];
    bool closed;
    for (int i = 0; i < SILENT; i++) {
        silent[i] = raw_connect(bed.port);
        if (i % 3 == 1)
            RAW_SEND(silent[i], "\x16");
        if (i % 3 == 2)
            RAW_SEND(silent[i], "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03");
    }
    struct caller caller = caller_open(TLS1_3_VERSION);
    int64_t before = now_ms();
    assert_int_equal(SSL_connect(caller.ssl), 1);
    caller_send(&caller, "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n");
    caller_read(&caller, "hello", answer, sizeof answer, sizeof answer);
    assert_true(now_ms() - before < 2500); /* it doesn't wait for those that say nothing */
    caller_close(&caller);
    for (unsigned seed = 0; seed < 40; seed++) {
        int fd = raw_connect(bed.port);
        srand(seed);
        for (size_t k = 0; k < sizeof noise; k++)
            noise[k] = (char)rand();
        noise[0] = 0x16;
        if (seed % 2)
            memcpy(noise, "\x16\x03\x01\x0a\x00\x01\x00\x09\xfc\x03\x03", 11);
        raw_send(fd, noise, sizeof noise);
        raw_read_all(fd, answer, sizeof answer, &closed);
        assert_true(closed);
        close(fd);
    }
    for (int i = 0; i < SILENT; i++) { /* the head's deadline is the handshake's too */
        raw_read_all(silent[i], answer, sizeof answer, &closed);
        assert_true(closed);
        close(silent[i]);
    }
    assert_int_equal(atomic_load(&bed.served), 3);
    for (int64_t deadline = now_ms() + 10000; count_fds() > fds && now_ms() < deadline;)
        poll(NULL, 0, 5);
    assert_true(count_fds() <= fds);
    close_bed();
}

/* A client that vanishes in each phase of its life: nothing is left, nothing falls. */
static void vanishing(void **state)
{
    (void)state;
    open_bed("server", NULL, 0);
    for (int i = 0; i < 30; i++) {
        struct caller caller = caller_open(i % 2 ? TLS1_2_VERSION : TLS1_3_VERSION);
        assert_int_equal(SSL_connect(caller.ssl), 1);
        if (i % 3 == 1)
            caller_send(&caller, "GET /large?n=3000000 HTTP/1.1\r\nHost: x\r\n\r\n");
        if (i % 3 == 2)
            caller_send(&caller, "GET /park HTTP/1.1\r\nHost: x\r\n\r\n");
        caller_close(&caller);
    }
    assert_true(bed_wait(&bed.gone, 10));
    close_bed();
}

/* --- trust, with our own client --- */

static void trust_in_servers(void **state)
{
    (void)state;
    char named[64];
    open_bed("server", NULL, 0);
    snprintf(named, sizeof named, "https://localhost:%u", bed.port);
    ask(bed.url, "ca.pem", NULL, ERR_none, NULL);
    ask(named, "ca.pem", NULL, ERR_none, NULL);
    ask(bed.url, NULL, NULL, ERR_untrusted, "--ca");
    ask(bed.url, "other-ca.pem", NULL, ERR_untrusted, "--ca");
    ask(bed.url, "junk", NULL, ERR_untrusted, "PEM");
    close_bed();
    open_bed("stranger", NULL, 0);
    ask(bed.url, "ca.pem", NULL, ERR_untrusted, "another name");
    close_bed();
    open_bed("expired", NULL, 0);
    assert_non_null(strstr(tls->warning, "has expired"));
    ask(bed.url, "ca.pem", NULL, ERR_untrusted, "has expired");
    close_bed();
    open_bed("early", NULL, 0);
    assert_non_null(strstr(tls->warning, "isn't valid before"));
    ask(bed.url, "ca.pem", NULL, ERR_untrusted, "isn't valid yet");
    close_bed();
    open_bed("soon", NULL, 0);
    assert_non_null(strstr(tls->warning, "expires at"));
    ask(bed.url, "ca.pem", NULL, ERR_none, NULL);
    close_bed();
    bed_open(&bed, 0, 0);
    bed_run(&bed);
    snprintf(named, sizeof named, "https://127.0.0.1:%u", bed.port);
    ask(named, "ca.pem", NULL, ERR_unreachable, "http://");
    bed_close(&bed);
}

static void trust_in_clients(void **state)
{
    (void)state;
    open_bed("server", "ca.pem", 0);
    assert_string_equal(tls->warning, "");
    ask(bed.url, "ca.pem", "client", ERR_none, NULL);
    ask(bed.url, "ca.pem", NULL, ERR_untrusted, "--client-cert");
    ask(bed.url, "ca.pem", "other-client", ERR_untrusted, "CA of the client certificate");
    ask(bed.url, "ca.pem", "late-client", ERR_untrusted, "has expired");
    assert_int_equal(atomic_load(&bed.served), 2);
    close_bed();
}

static void client_files(void **state)
{
    (void)state;
    struct err err = { .code = ERR_none };
    assert_null(client_open(&(struct client_config){ .server = "https://x", .ca_file = path_of("none") }, NULL, &err));
    assert_int_equal(err.code, ERR_not_found);
    assert_non_null(strstr(err.text, "none"));
    assert_null(
        client_open(&(struct client_config){ .server = "https://x", .client_key = path_of("client.key") }, NULL, &err));
    assert_int_equal(err.code, ERR_usage);
}

/* --- files --- */

static void refuse(
    const char *certificate, const char *key, const char *client_ca, enum err_code code, const char *words)
{
    struct err err = { .code = ERR_none };
    struct tls_config files = { path_of(certificate), path_of(key), client_ca ? path_of(client_ca) : NULL };
    assert_null(tls_open(&files, &err));
    if (err.code != code || !strstr(err.text, words))
        fail_msg("%s %s: %s %s", certificate, key, err_name(err.code), err.text);
}

static void bad_files(void **state)
{
    (void)state;
    refuse("none.pem", "server.key", NULL, ERR_not_found, "none.pem");
    refuse("server.pem", "none.key", NULL, ERR_not_found, "none.key");
    refuse("junk", "server.key", NULL, ERR_invalid, "junk");
    refuse("server.pem", "junk", NULL, ERR_invalid, "PEM");
    refuse("server.pem", "second.key", NULL, ERR_invalid, "isn't the one of the certificate");
    refuse("locked.pem", "locked.key", NULL, ERR_invalid, "passphrase");
    refuse("server.pem", "server.key", "none.pem", ERR_not_found, "none.pem");
    refuse("server.pem", "server.key", "junk", ERR_invalid, "CA of clients");
    refuse(".", "server.key", NULL, ERR_invalid, "must be a file");
    chmod(path_of("server.key"), 0644);
    refuse("server.pem", "server.key", NULL, ERR_forbidden, "0600");
    chmod(path_of("server.key"), 0640); /* how Debian shares keys with a group */
    struct err err = { .code = ERR_none };
    struct tls_config files = files_of("server", NULL);
    struct tls *good = tls_open(&files, &err);
    assert_non_null(good);
    /* A bad reload leaves what was there. */
    SSL_CTX *before = good->context;
    files = files_of("junk", NULL);
    assert_false(tls_reload(good, &files, &err));
    assert_ptr_equal(good->context, before);
    tls_close(good);
    chmod(path_of("server.key"), 0600);
}

static void new_certificates(void **state)
{
    (void)state;
    struct err err = { .code = ERR_none };
    struct tls_config files = files_of("server", NULL);
    struct tls *one = tls_open(&files, &err);
    bed_open_tls(&bed, 0, 0, one);
    assert_non_null(one);
    /* The loop isn't running yet: this thread may change what the loop uses. */
    int waiting = raw_connect(bed.port);
    files = files_of("second", NULL);
    assert_true(tls_reload(one, &files, &err));
    bed_run(&bed);
    struct caller caller = caller_open(TLS1_3_VERSION);
    assert_int_equal(SSL_connect(caller.ssl), 1);
    X509 *seen = SSL_get1_peer_certificate(caller.ssl);
    char name[64];
    X509_NAME_get_text_by_NID(X509_get_subject_name(seen), NID_commonName, name, sizeof name);
    assert_string_equal(name, "second");
    X509_free(seen);
    caller_close(&caller);
    close(waiting);
    bed_close(&bed);
    tls_close(one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_conversations),
        cmocka_unit_test(old_versions),
        cmocka_unit_test(slow_readers),
        cmocka_unit_test(resumption_and_key_update),
        cmocka_unit_test(plain_text),
        cmocka_unit_test(garbage_and_silence),
        cmocka_unit_test(vanishing),
        cmocka_unit_test(trust_in_servers),
        cmocka_unit_test(trust_in_clients),
        cmocka_unit_test(client_files),
        cmocka_unit_test(bad_files),
        cmocka_unit_test(new_certificates),
    };
    return cmocka_run_group_tests(tests, make_papers, remove_papers);
}
