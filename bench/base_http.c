/* base_http ADDRESS_FILE [THREADS]: what libmicrohttpd allows: epoll, a pool of threads (2 unless told); reads the
 * body, answers a small JSON document from memory. No routes, no tokens, no store. */
#include <arpa/inet.h>
#include <microhttpd.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"

static enum MHD_Result answer(void *owner, struct MHD_Connection *connection, const char *url, const char *method,
    const char *version, const char *upload, size_t *n_upload, void **context)
{
    static int seen;
    (void)owner, (void)url, (void)version, (void)upload;
    if (!*context) {
        *context = &seen; /* the headers only: the body comes with the next calls */
        return MHD_YES;
    }
    if (*n_upload) {
        *n_upload = 0;
        return MHD_YES;
    }
    static char body[] = "{\"status\":\"ok\"}";
    struct MHD_Response *response = MHD_create_response_from_buffer(sizeof body - 1, body, MHD_RESPMEM_PERSISTENT);
    MHD_add_response_header(response, "Content-Type", "application/json");
    enum MHD_Result result = MHD_queue_response(connection, strcmp(method, "POST") == 0 ? 201 : 200, response);
    MHD_destroy_response(response);
    return result;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        bench_die("usage: base_http ADDRESS_FILE [THREADS]");
    }
    unsigned threads = argc > 2 ? (unsigned)bench_number(argv[2]) : 2;
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    struct MHD_Daemon *daemon =
        MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD, 0, NULL, NULL, answer, NULL, MHD_OPTION_SOCK_ADDR, &address,
            MHD_OPTION_THREAD_POOL_SIZE, threads, MHD_OPTION_CONNECTION_LIMIT, 1024u, MHD_OPTION_END);
    const union MHD_DaemonInfo *port = daemon ? MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_BIND_PORT) : NULL;
    if (!port) {
        bench_die("libmicrohttpd didn't start");
    }
    bench_address_write(argv[1], port->port);
    for (;;) {
        pause();
    }
}
