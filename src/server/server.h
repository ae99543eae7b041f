/* server: all parts of `weir serve` put together: data directory, store, logs, engine, api, http, the executor beside
 * it, signals. */
#ifndef WEIR_SERVER_SERVER_H
#define WEIR_SERVER_SERVER_H

#include "text/conf.h"

struct server_input {
    /* conf: reads the configuration (at the start and on SIGHUP); not ERR_none: its faults were reported. */
    enum err_code (*conf)(void *owner, struct arena *arena, struct conf *out);
    void *owner;
    bool show_config; /* print it and end */
};

int server_run(const struct server_input *input); /* until a signal or a failure ends it; the exit code */

#endif
