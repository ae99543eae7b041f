/* feed: the event stream, on the session's loop, from now on and through restarts of the server. Nothing is lost and
 * nothing is asked twice: events have dense numbers, and a broken stream is taken up behind the last one seen. */
#ifndef WEIR_CLI_FEED_H
#define WEIR_CLI_FEED_H

#include "cli/event_text.h"
#include "cli/session.h"
#include "io/loop.h"

struct feed {
    struct session *session;
    void (*event)(const json_t *event, void *owner);
    void (*joined)(void *owner); /* first bytes after a break: what was known may be old; may be NULL */
    /* no server for FEED_PATIENCE_MS, or refused: session.err and session.status say why */
    void (*lost)(void *owner);
    void *owner;
    int64_t since;
    /* private */
    struct json_lines lines;
    struct client_request *request;
    struct loop_timer retry;
    int64_t down_since, started;
    bool broken;
};

/* feed_open: finds the newest event's number and begins to follow behind it once the loop runs. false: session.err and
 * session.status say why. */
bool feed_open(struct feed *feed);
void feed_close(struct feed *feed);

#endif
