/* feed: see feed.h. */
#include "cmd/feed.h"

#include <string.h>

#include "cmd/task_text.h"
#include "io/clock.h"

enum { FEED_PATIENCE_MS = 30000, FEED_RETRY_MS = 200, FEED_ALIVE_MS = 5000, FEED_PATH_CAP = 256 };

/* head_behind: is there an event behind `since`? -1: session.err says why not known. */
static int head_behind(struct session *s, int64_t since)
{
    char path[FEED_PATH_CAP];
    struct client_response response = { 0 };
    int found = -1;
    snprintf(path, sizeof path, "/v1/events?since=%lld&limit=1", (long long)since);
    s->err = (struct err){ .arena = &s->arena };
    if (!client_call(s->client, "GET", path, (struct str){ 0 }, NULL, NULL, 0, &response, &s->err)) {
        s->status = err_exit(s->err.code);
        return -1;
    }
    if (response.status == 200) {
        found = str_trim(buf_str(&response.body)).len > 0;
    } else {
        client_problem(&response, &s->err);
        s->status = err_exit(s->err.code);
    }
    client_response_release(&response);
    return found;
}

/* head_find: the newest number. The route gives events from the oldest on, so it is bracketed by doubling and halving: a few dozen small
 * requests, whatever the length of the history. */
static bool head_find(struct session *s, int64_t *out)
{
    int64_t low = 0, high = 1; /* an event behind low - 1 exists (or low is 0); none behind high once found */
    int behind;
    while ((behind = head_behind(s, high)) == 1) {
        low = high;
        high *= 2;
    }
    while (behind >= 0 && low < high) {
        int64_t middle = low + (high - low) / 2;
        behind = head_behind(s, middle);
        if (behind == 1)
            low = middle + 1;
        else if (behind == 0)
            high = middle;
    }
    *out = high;
    return behind >= 0;
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

static void feed_done(struct client_response *response, struct err *err, void *owner)
{
    struct feed *feed = owner;
    struct session *s = feed->session;
    int64_t now = clock_boot_ms();
    feed->request = NULL;
    feed->broken = true;
    if (response->status >= 400 && response->status != 503) {
        s->err = (struct err){ .arena = &s->arena };
        client_problem(response, &s->err);
        s->status = err_exit(s->err.code);
        feed->lost(feed->owner);
        return;
    }
    if (feed->down_since == 0 || response->status == 200 || now - feed->started > FEED_ALIVE_MS)
        feed->down_since = now; /* it was there until now */
    if (now - feed->down_since >= FEED_PATIENCE_MS) {
        s->err = (struct err){ .arena = &s->arena };
        err_set(&s->err, ERR_unreachable, "%s", *err->text ? err->text : s->server);
        s->status = err_exit(ERR_unreachable);
        feed->lost(feed->owner);
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
