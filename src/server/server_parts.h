/* server_parts: what the files of `weir serve` share: the server's state, and what each of them does to it. Private to
 * server*.c. */
#ifndef WEIR_SERVER_SERVER_PARTS_H
#define WEIR_SERVER_SERVER_PARTS_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/list.h"
#include "server/assembly.h"
#include "server/executor_process.h"
#include "server/server.h"

struct server {
    const struct server_input *input;
    struct arena arena; /* of conf */
    struct conf conf;
    mode_t umask; /* as they were */
    struct rlimit files;
    const char *data;
    struct assembly parts;
    pthread_t checker; /* the database's own check after a start that checked little */
    bool checking;
    atomic_bool check_stop;
    struct executor_process executor;
    bool executor_open;
    struct loop_timer end, tell, certificate;
    struct str coordination_auth; /* USER:PASSWORD: sent to nobody but the service */
    struct list reloads;          /* struct reload: of the site's keys, under way */
    unsigned site_silent;         /* keys of the site that the file lacked when it was read last */
    enum engine_health health;    /* as it was logged last, with: */
    int64_t health_since;
    uint64_t clock_jumps;
    bool coordination_away; /* as it was logged last */
    int64_t coordination_since;
    int status;
};

bool server_open(struct server *server, struct err *err); /* all parts; server_close in server.c closes them */

/* --- its certificate (server_tls.c) --- */
bool server_tls_wanted(const struct conf *conf);
bool server_tls_open(struct server *server, struct err *err);
/* server_tls_again: the certificates, also when only the files' content is new. false: the old ones stay, which was
 * logged. */
bool server_tls_again(struct server *server, const struct conf *next, struct arena *arena);

/* --- what is logged of its health and of the coordination service (server_health.c) --- */
void server_health_begin(struct server *server);       /* before the engine starts */
void server_coordination_begin(struct server *server); /* where a service is configured */

/* --- its configuration read again (server_reload.c) --- */
void server_reload(int signo, void *owner);
void server_reloads_drop(struct server *server); /* those under way, once the engine is gone */

#endif
