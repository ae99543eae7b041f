/* tls: the certificate, the key and the client CA of a listening address, and the wire that speaks TLS with them
 * (OpenSSL).
 *
 * TLS 1.2 and 1.3. Files are PEM; they are read and checked when they are opened and again at tls_reload, never in
 * between. With a client CA only clients with a certificate that it signed are let in. Connections that are open keep
 * what they began with. */
#ifndef WEIR_IO_TLS_H
#define WEIR_IO_TLS_H

#include "base/err.h"
#include "io/wire.h"

struct tls_config {
    const char *certificate; /* and the chain behind it */
    const char *key;         /* without a passphrase, not readable by others */
    const char *client_ca;   /* NULL or empty: clients need no certificate */
};

enum tls_validity { TLS_VALID, TLS_ENDS_SOON, TLS_TOO_EARLY, TLS_EXPIRED };

struct tls {
    struct ssl_ctx_st *context;
    char path[160];
    int64_t from_ms, to_ms; /* wall time: when the certificate is valid */
    enum tls_validity validity;
    char warning[240]; /* what the operator should know of the certificate; empty: nothing */
};

/* tls_open: NULL and err, which names the file and what to do: not_found, forbidden (the key can be read by others),
 * invalid (not PEM, key and certificate don't fit), io. */
struct tls *tls_open(const struct tls_config *config, struct err *err);
bool tls_reload(struct tls *tls, const struct tls_config *config, struct err *err); /* false: what was there stays */
/* sets `warning` by the time; true: the validity has changed since the last look */
bool tls_look(struct tls *tls, int64_t wall);
void tls_close(struct tls *tls); /* open connections live on */

/* wire_open_tls: the server's side of a connection that was just accepted. The handshake happens inside `read`,
 * under the reader's deadline. A client that begins in plain text makes `read` fail once with EPROTOTYPE; the wire
 * is a plain one from then on, with nothing read, so that the client gets an answer. Any other breach is EPROTO;
 * the client has been sent an alert then. */
void wire_open_tls(struct wire *wire, int fd, struct tls *tls); /* tls outlives the wire */

/* wire_tls_busy: sends a TLS alert to a client that is refused before the handshake. fd stays open. */
void wire_tls_busy(int fd);

#endif
