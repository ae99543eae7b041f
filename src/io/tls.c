/* tls: PEM files into a context of OpenSSL (see tls.h).
 *
 * Everything that can be wrong with the files is found here, before the first connection, and reported with the file's
 * name. A new context is made for each reload: the old one is in force until the new one is whole, and lives as long
 * as a connection uses it.
 *
 * Errors of the library are reported by its own short reason, after what we know about them. */
#include "io/tls.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/when.h"
#include "io/clock.h"

enum { FILE_BYTES_MAX = 1 << 20, DAY_S = 24 * 3600, EXPIRY_NOTICE_DAYS = 14 };

static const char *tls_reason(void)
{
    const char *reason = ERR_reason_error_string(ERR_peek_last_error());
    return reason ? reason : "it can't be read";
}

/* file_check: can it be opened, and is it as closed to others as it has to be? A group may read a key: that is how
 * Debian shares them. */
static bool file_check(const char *what, const char *path, bool secret, struct err *err)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return err_set(err,
            errno == ENOENT   ? ERR_not_found
            : errno == EACCES ? ERR_forbidden
                              : ERR_io,
            "%s %s can't be opened: %s", what, path, strerrordesc_np(errno));
    bool known = fstat(fd, &st) == 0;
    close(fd);
    if (!known || !S_ISREG(st.st_mode) || st.st_size > FILE_BYTES_MAX)
        return err_set(err, ERR_invalid, "%s %s must be a file of at most 1 MiB", what, path);
    if (secret && (st.st_mode & (S_IWGRP | S_IRWXO)))
        return err_set(err, ERR_forbidden,
            "%s %s can be read or changed by others than its owner (mode %04o): chmod 0600 it", what, path,
            (unsigned)(st.st_mode & 07777));
    return true;
}

/* no_passphrase: a server starts without anybody at hand. */
static int no_passphrase(char *out, int size, int writing, void *owner)
{
    (void)out, (void)size, (void)writing;
    *(bool *)owner = true;
    return -1;
}

static EVP_PKEY *key_load(const char *path, struct err *err)
{
    bool asked = false;
    FILE *file = fopen(path, "re");
    EVP_PKEY *key = file ? PEM_read_PrivateKey(file, NULL, no_passphrase, &asked) : NULL;
    if (file)
        fclose(file);
    if (!key && asked)
        err_set(err, ERR_invalid,
            "the key %s has a passphrase, which nobody is there to type: store it without one, mode 0600", path);
    else if (!key)
        err_set(err, ERR_invalid, "the key %s isn't a private key in PEM form: %s", path, tls_reason());
    return key;
}

static bool context_load_own(SSL_CTX *context, const struct tls_config *config, struct err *err)
{
    if (!file_check("the certificate", config->certificate, false, err) ||
        !file_check("the key", config->key, true, err))
        return false;
    if (SSL_CTX_use_certificate_chain_file(context, config->certificate) != 1)
        return err_set(err, ERR_invalid, "the certificate %s can't be used: %s", config->certificate, tls_reason());
    EVP_PKEY *key = key_load(config->key, err);
    if (!key)
        return false;
    bool fits = X509_check_private_key(SSL_CTX_get0_certificate(context), key) == 1;
    bool taken = fits && SSL_CTX_use_PrivateKey(context, key) == 1;
    EVP_PKEY_free(key);
    if (!fits)
        return err_set(
            err, ERR_invalid, "the key %s isn't the one of the certificate %s", config->key, config->certificate);
    return taken || err_set(err, ERR_invalid, "the key %s can't be used: %s", config->key, tls_reason());
}

static bool context_load_client_ca(SSL_CTX *context, const char *path, struct err *err)
{
    if (!file_check("the CA of clients", path, false, err))
        return false;
    STACK_OF(X509_NAME) *names = SSL_load_client_CA_file(path);
    if (!names || SSL_CTX_load_verify_file(context, path) != 1) {
        sk_X509_NAME_pop_free(names, X509_NAME_free);
        return err_set(err, ERR_invalid, "the CA of clients %s can't be used: %s", path, tls_reason());
    }
    SSL_CTX_set_client_CA_list(context, names);
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    /* A resumed session would be accepted without checking the certificate, even one that has expired since: every
     * connection must show it. */
    SSL_CTX_set_options(context, SSL_OP_NO_TICKET);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    ASSERT(SSL_CTX_set_num_tickets(context, 0) == 1);
    return true;
}

static SSL_CTX *context_new(const struct tls_config *config, struct err *err)
{
    ERR_clear_error();
    SSL_CTX *context = SSL_CTX_new(TLS_server_method());
    ASSERT(context);
    ASSERT(SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) == 1);
    /* of 1.2; those of 1.3 are all good */
    ASSERT(SSL_CTX_set_cipher_list(context, "ECDHE+AESGCM:ECDHE+CHACHA20") == 1);
    SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_CIPHER_SERVER_PREFERENCE);
    /* Requests and answers say themselves how long they are: an end without the library's goodbye is no attack on them.
     */
    SSL_CTX_set_options(context, SSL_OP_IGNORE_UNEXPECTED_EOF);
    SSL_CTX_set_mode(
        context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_read_ahead(context, 1);
    bool client_ca = config->client_ca && *config->client_ca;
    if (context_load_own(context, config, err) &&
        (!client_ca || context_load_client_ca(context, config->client_ca, err)))
        return context;
    SSL_CTX_free(context);
    return NULL;
}

static int64_t asn1_ms(const ASN1_TIME *when)
{
    struct tm tm = { 0 };
    return ASN1_TIME_to_tm(when, &tm) == 1 ? (int64_t)timegm(&tm) * 1000 : 0;
}

/* An expired certificate is served all the same: who trusts it anyway, or has a wrong clock, isn't locked out. */
bool tls_look(struct tls *tls, int64_t wall)
{
    static const char *const texts[] = { [TLS_VALID] = "",
        [TLS_ENDS_SOON] = "expires at",
        [TLS_TOO_EARLY] = "isn't valid before",
        [TLS_EXPIRED] = "has expired at" };
    enum tls_validity before = tls->validity;
    tls->validity = wall >= tls->to_ms                                                ? TLS_EXPIRED
                    : wall < tls->from_ms                                             ? TLS_TOO_EARLY
                    : wall >= tls->to_ms - (int64_t)EXPIRY_NOTICE_DAYS * DAY_S * 1000 ? TLS_ENDS_SOON
                                                                                      : TLS_VALID;
    tls->warning[0] = '\0';
    if (tls->validity != TLS_VALID)
        snprintf(tls->warning, sizeof tls->warning, "the certificate %.100s %s %s%s", tls->path, texts[tls->validity],
            when_format(tls->validity == TLS_TOO_EARLY ? tls->from_ms : tls->to_ms).z,
            tls->validity == TLS_TOO_EARLY ? "" : ": clients refuse it then; renew it and send the server SIGHUP");
    return tls->validity != before;
}

bool tls_reload(struct tls *tls, const struct tls_config *config, struct err *err)
{
    SSL_CTX *context = context_new(config, err);
    if (!context)
        return false;
    SSL_CTX_free(tls->context);
    tls->context = context;
    const X509 *certificate = SSL_CTX_get0_certificate(context);
    snprintf(tls->path, sizeof tls->path, "%s", config->certificate);
    tls->from_ms = asn1_ms(X509_get0_notBefore(certificate));
    tls->to_ms = asn1_ms(X509_get0_notAfter(certificate));
    (void)tls_look(tls, clock_wall_ms());
    return true;
}

struct tls *tls_open(const struct tls_config *config, struct err *err)
{
    struct tls *tls = mem_alloc(sizeof *tls);
    *tls = (struct tls){ 0 };
    if (tls_reload(tls, config, err))
        return tls;
    mem_free(tls);
    return NULL;
}

void tls_close(struct tls *tls)
{
    if (!tls)
        return;
    SSL_CTX_free(tls->context);
    mem_free(tls);
}
