/* feed: see feed.h. */
#include "cli/feed.h"

#include <string.h>

#include "cli/task_text.h"
#include "io/clock.h"

enum { FEED_PATIENCE_MS = 30000, FEED_RETRY_MS = 200, FEED_ALIVE_MS = 5000, FEED_PATH_CAP = 256 };

/* head_find: the newest event's number; whatever is read after this call is at least as new. */
static bool head_find(struct session *s, int64_t *out)
{
    json_t *stats = session_look(s, "/v1/stats");
    if (!stats)
        return false;
    *out = field_i64(stats, "seq", 0);
    json_decref(stats);
    return true;
}

static bool feed_line(const json_t *event, void *owner)
{
    struct feed *feed = owner;
    int64_t seq = field_i64(event, "seq", 0);
    if (seq <= feed->since)
        return true;
    feed->since = seq;
    feed->event(event, feed->owner);
    return true;
}

static bool feed_piece(int status, struct str bytes, void *owner)
{
    struct feed *feed = owner;
    (void)status;
    feed->down_since = 0;
    return json_lines_add(&feed->lines, bytes);
}

static void feed_start(struct feed *feed);

static void feed_again(struct loop_timer *timer)
{
    feed_start(timer->owner);
}

static void feed_lose(struct feed *feed)
{
    feed->session->status = err_exit(feed->session->err.code);
    feed->lost(feed->owner);
}

static void feed_done(struct client_response *response, struct err *err, void *owner)
{
    struct feed *feed = owner;
    struct session *s = feed->session;
    int64_t now = clock_boot_ms();
    feed->request = NULL;
    feed->broken = true;
    s->err = (struct err){ .arena = &s->arena };
    if (response->status >= 400 && response->status != 503) {
        client_problem(response, &s->err);
        feed_lose(feed);
        return;
    }
    if (feed->down_since == 0 || response->status == 200 || now - feed->started > FEED_ALIVE_MS)
        feed->down_since = now; /* it was there until now */
    if (now - feed->down_since >= FEED_PATIENCE_MS) {
        err_set(&s->err, ERR_unreachable, "%s%s", *err->text ? "" : CLIENT_NOBODY, *err->text ? err->text : s->server);
        feed_lose(feed);
        return;
    }
    loop_arm(s->loop, &feed->retry, now + FEED_RETRY_MS);
}

static void feed_start(struct feed *feed)
{
    char path[FEED_PATH_CAP];
    snprintf(path, sizeof path, "/v1/events?since=%lld&follow=1", (long long)feed->since);
    json_lines_reset(&feed->lines);
    feed->started = clock_boot_ms();
    feed->request = client_follow(feed->session->client, "GET", path, NULL, feed_piece, feed_done, feed);
    if (feed->broken && feed->joined)
        feed->joined(feed->owner);
}

bool feed_open(struct feed *feed)
{
    if (!head_find(feed->session, &feed->since))
        return false;
    json_lines_init(&feed->lines, feed_line, feed);
    feed->retry = (struct loop_timer){ .due = feed_again, .owner = feed };
    feed_start(feed);
    return true;
}

void feed_close(struct feed *feed)
{
    if (!feed->session)
        return;
    if (feed->request)
        client_cancel(feed->session->client, feed->request);
    loop_disarm(feed->session->loop, &feed->retry);
    json_lines_release(&feed->lines);
    feed->request = NULL;
}
