/* server_tls: the certificate of a server's address: opened, read again, and watched for its end.
 *
 * A certificate that can't be read again leaves the old one in force; that is logged. */
#include "server/server_parts.h"

#include "io/clock.h"
#include "io/log.h"

enum { CERTIFICATE_LOOK_MS = 3600 * 1000 };

bool server_tls_wanted(const struct conf *conf)
{
    return conf->tls.certificate.len > 0; /* and then the key too: conf sees to it */
}

static struct tls_config tls_files(const struct conf *conf, struct arena *arena)
{
    return (struct tls_config){ .certificate = str_dupz(arena, conf->tls.certificate),
        .key = str_dupz(arena, conf->tls.key),
        .client_ca = str_dupz(arena, conf->tls.client_ca) };
}

static void tls_tell(const struct server *server, const char *event, const struct tls_config *files)
{
    log_event(event, "certificate=%s client_ca=%s", log_quote(str_of(files->certificate)).z,
        *files->client_ca ? log_quote(str_of(files->client_ca)).z : "none");
    if (server->parts.tls->warning[0])
        log_warn("tls.certificate", "note=%s", log_quote(str_of(server->parts.tls->warning)).z);
}

/* certificate_look: one line when the certificate begins to end, and one when it has. Its times are wall time, which
 * may be set. */
static void certificate_look(struct loop_timer *timer)
{
    struct server *server = timer->owner;
    int64_t wall = clock_wall_ms();
    if (tls_look(server->parts.tls, wall) && server->parts.tls->warning[0])
        log_warn("tls.certificate", "note=%s", log_quote(str_of(server->parts.tls->warning)).z);
    int64_t left = server->parts.tls->to_ms > wall ? server->parts.tls->to_ms - wall : CERTIFICATE_LOOK_MS;
    loop_arm(server->parts.loop, timer,
        loop_now(server->parts.loop) + (left < CERTIFICATE_LOOK_MS ? left : CERTIFICATE_LOOK_MS));
}

bool server_tls_open(struct server *server, struct err *err)
{
    if (!server_tls_wanted(&server->conf))
        return true;
    struct tls_config files = tls_files(&server->conf, &server->arena);
    server->parts.tls = tls_open(&files, err);
    if (server->parts.tls != NULL)
        tls_tell(server, "tls.open", &files);
    server->certificate = (struct loop_timer){ .due = certificate_look, .owner = server };
    if (server->parts.tls != NULL)
        certificate_look(&server->certificate);
    return server->parts.tls != NULL;
}

bool server_tls_again(struct server *server, const struct conf *next, struct arena *arena)
{
    struct err err = { .code = ERR_none };
    if (server->parts.tls == NULL || !server_tls_wanted(next))
        return true; /* TLS or not counts after a restart */
    struct tls_config files = tls_files(next, arena);
    if (!tls_reload(server->parts.tls, &files, &err)) {
        log_error("config.refused", "key=tls error=%s note=\"the old configuration and certificate stay in force\"",
            log_quote(str_of(err.text)).z);
        return false;
    }
    tls_tell(server, "tls.loaded", &files);
    certificate_look(&server->certificate);
    return true;
}
