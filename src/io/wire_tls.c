/* wire_tls: TLS behind the port of wire.h, the server's side (see tls.h).
 *
 * The library reads and writes through a BIO of our own, so that no write raises SIGPIPE and we know whether the kernel
 * had more. What is given to writev goes out in records of up to 16 KiB, small parts gathered into one. While the
 * kernel has accepted only a part of a record, its bytes don't count as written, and the owner passes the same bytes
 * again, as the port demands.
 *
 * A breach of the protocol is EPROTO, after the library's alert; the connection can only be closed then. */
#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "io/tls.h"

enum { RECORD_BYTES = 16 * 1024, HANDSHAKE_BYTE = 0x16 };

struct tls_session {
    struct tls *tls;
    SSL *ssl;     /* NULL: nothing has come yet; who says nothing costs nothing */
    bool writes;  /* read can't go on before something is written */
    bool drained; /* the kernel had no more at the last read */
    bool ended;   /* nor will it */
    bool failed;  /* no goodbye */
};

/* --- the library's way to the socket --- */

static int bio_write(BIO *bio, const char *bytes, int len)
{
    struct wire *wire = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    ssize_t n;
    do {
        n = send(wire->fd, bytes, (size_t)len, MSG_DONTWAIT | MSG_NOSIGNAL);
    } while (n < 0 && errno == EINTR);
    if (n < 0 && errno == EAGAIN)
        BIO_set_retry_write(bio);
    return (int)n;
}

static int bio_read(BIO *bio, char *to, int room)
{
    struct wire *wire = BIO_get_data(bio);
    struct tls_session *session = wire->session;
    BIO_clear_retry_flags(bio);
    ssize_t n;
    do {
        n = recv(wire->fd, to, (size_t)room, MSG_DONTWAIT);
    } while (n < 0 && errno == EINTR);
    session->drained = n < room;
    session->ended = n == 0;
    if (n < 0 && errno == EAGAIN)
        BIO_set_retry_read(bio);
    return (int)n;
}

static long bio_control(BIO *bio, int command, long number, void *pointer)
{
    (void)number, (void)pointer;
    const struct wire *wire = BIO_get_data(bio);
    const struct tls_session *session = wire->session;
    if (command == BIO_CTRL_EOF)
        return session->ended;
    return command == BIO_CTRL_FLUSH;
}

static BIO_METHOD *bio_method;
static pthread_once_t bio_once = PTHREAD_ONCE_INIT;

static void bio_make(void)
{
    bio_method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "wire");
    ASSERT(bio_method && BIO_meth_set_write(bio_method, bio_write) && BIO_meth_set_read(bio_method, bio_read) &&
           BIO_meth_set_ctrl(bio_method, bio_control));
}

/* --- the port --- */

static void session_free(struct wire *wire)
{
    struct tls_session *session = wire->session;
    SSL_free(session->ssl);
    mem_free(session);
    wire->session = NULL;
}

/* session_begin: looks at the first byte without taking it; the certificate that is in force now is the session's.
 * false: errno says why there is nothing to read. */
static bool session_begin(struct wire *wire, bool *out_ended)
{
    struct tls_session *session = wire->session;
    unsigned char first = 0;
    ssize_t n;
    do {
        n = recv(wire->fd, &first, 1, MSG_PEEK | MSG_DONTWAIT);
    } while (n < 0 && errno == EINTR);
    *out_ended = n == 0;
    if (n <= 0)
        return false;
    if (first == HANDSHAKE_BYTE) {
        BIO *bio = BIO_new(bio_method);
        session->ssl = SSL_new(session->tls->context);
        ASSERT(session->ssl && bio);
        BIO_set_data(bio, wire);
        BIO_set_init(bio, 1);
        SSL_set_bio(session->ssl, bio, bio);
        SSL_set_accept_state(session->ssl);
        return true;
    }
    session_free(wire);
    wire_open_plain(wire, wire->fd);
    errno = EPROTOTYPE;
    return false;
}

/* session_fault: what the library's last call means for the port: 0, or -1 and errno. */
static ssize_t session_fault(struct tls_session *session, int result)
{
    switch (SSL_get_error(session->ssl, result)) {
    case SSL_ERROR_ZERO_RETURN:
        return 0;
    case SSL_ERROR_WANT_WRITE:
        session->writes = true;
        errno = EAGAIN;
        return -1;
    case SSL_ERROR_WANT_READ:
        errno = EAGAIN;
        return -1;
    default:
        session->failed = true;
        ERR_clear_error();
        errno = EPROTO;
        return -1;
    }
}

static ssize_t tls_read(struct wire *wire, void *to, size_t room, bool *out_more)
{
    struct tls_session *session = wire->session;
    bool ended = false;
    *out_more = false;
    if (!session->ssl && !session_begin(wire, &ended))
        return ended ? 0 : -1;
    size_t n = 0;
    session->writes = false;
    ERR_clear_error();
    int result = SSL_read_ex(session->ssl, to, room, &n);
    if (result != 1)
        return session_fault(session, result);
    *out_more = !session->drained || SSL_has_pending(session->ssl) == 1;
    return (ssize_t)n;
}

/* record_gather: the bytes of the parts from `at` on, at most a record's worth; where they are, or copied into `space`.
 */
static const char *record_gather(const struct iovec *parts, int n_parts, size_t at, char *space, size_t *out_len)
{
    size_t len = 0;
    for (int i = 0; i < n_parts; i++) {
        if (at >= parts[i].iov_len) {
            at -= parts[i].iov_len;
            continue;
        }
        const char *from = (const char *)parts[i].iov_base + at;
        size_t here = parts[i].iov_len - at, room = RECORD_BYTES - len;
        at = 0;
        if (len == 0 && (here >= room || i + 1 == n_parts)) {
            *out_len = here < room ? here : room;
            return from;
        }
        here = here < room ? here : room;
        memcpy(space + len, from, here);
        len += here;
    }
    *out_len = len;
    return space;
}

static ssize_t tls_writev(struct wire *wire, const struct iovec *parts, int n_parts)
{
    ASSERT(n_parts > 0 && n_parts <= WIRE_PARTS_MAX);
    struct tls_session *session = wire->session;
    ASSERT(session->ssl); /* nobody answers before anything was asked */
    char space[RECORD_BYTES];
    size_t wanted = 0, taken = 0;
    for (int i = 0; i < n_parts; i++)
        wanted += parts[i].iov_len;
    wire->stuck = false;
    while (taken < wanted) {
        size_t len = 0, n = 0;
        const char *from = record_gather(parts, n_parts, taken, space, &len);
        ERR_clear_error();
        int result = SSL_write_ex(session->ssl, from, len, &n);
        if (result != 1) {
            bool writes = session->writes;
            session_fault(session, result);
            session->writes = writes; /* that one is of reads */
            wire->stuck = errno == EAGAIN;
            return wire->stuck && taken > 0 ? (ssize_t)taken : -1;
        }
        taken += n;
    }
    return (ssize_t)taken;
}

static uint32_t tls_wants(const struct wire *wire)
{
    const struct tls_session *session = wire->session;
    return EPOLLIN | (wire->stuck || (session && session->writes) ? (uint32_t)EPOLLOUT : 0);
}

static void tls_end(struct wire *wire)
{
    struct tls_session *session = wire->session;
    ERR_clear_error();
    if (session->ssl && !session->failed && SSL_is_init_finished(session->ssl))
        SSL_shutdown(session->ssl); /* says goodbye if there is room; nobody waits for the other's */
    ERR_clear_error();
    session_free(wire);
}

void wire_open_tls(struct wire *wire, int fd, struct tls *tls)
{
    static const struct wire_ops ops = { tls_read, tls_writev, tls_wants, tls_end };
    pthread_once(&bio_once, bio_make);
    struct tls_session *session = mem_alloc(sizeof *session);
    *session = (struct tls_session){ .tls = tls };
    *wire = (struct wire){ .ops = &ops, .fd = fd, .session = session };
}

void wire_tls_busy(int fd)
{
    static const unsigned char alert[] = { 0x15, 0x03, 0x03, 0x00, 0x02, 2, 80 }; /* fatal, internal error */
    ssize_t ignored = send(fd, alert, sizeof alert, MSG_DONTWAIT | MSG_NOSIGNAL);
    (void)ignored;
}
