/* apply_talk: see apply_talk.h. A server that restarts is waited for a few seconds, in the same attempt. */
#include "exec/apply/apply_talk.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "io/client.h"
#include "io/fsx.h"
#include "text/json.h"

enum { TRIES = 6, PAUSE_MS = 100, CALL_MS = 15000, REFUSAL_BYTES = 64 << 10, BODY_BYTES = 4096 };

bool talk_is_temporary(const struct err *err)
{
    return err_retriable(err->code) || err->code == ERR_unreachable || err->code == ERR_io ||
           err->code == ERR_disk_full || err->code == ERR_unavailable || err->code == ERR_internal;
}

static struct client *talk_open(const struct apply_talk *talk, struct err *err)
{
    struct client_config config = { .server = talk->server, .token = talk->token };
    config.ca_file = getenv("WEIR_CA"); /* set by the agent */
    config.client_cert = getenv("WEIR_CLIENT_CERT");
    config.client_key = getenv("WEIR_CLIENT_KEY");
    return client_open(&config, NULL, err);
}

/* Waits before another try: 0.1 s, 0.2 s, ... 3.2 s; false: that was the last one. */
static bool talk_again(int tried, struct err *err)
{
    if (!talk_is_temporary(err) || tried + 1 >= TRIES)
        return false;
    int64_t ms = (int64_t)PAUSE_MS << tried;
    nanosleep(&(struct timespec){ .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 }, NULL);
    struct arena *arena = err->arena;
    *err = (struct err){ .arena = arena };
    return true;
}

struct download {
    struct buf refusal;
    struct err *err;
    int64_t bytes, most;
    int fd;
    bool failed;
};

static bool download_piece(int status, struct str bytes, void *owner)
{
    struct download *down = owner;
    if (status / 100 != 2) {
        buf_add_str(&down->refusal, str_sub(bytes, 0, BODY_BYTES));
        return true;
    }
    down->bytes += (int64_t)bytes.len;
    int fault = 0;
    if (down->bytes > down->most)
        down->failed = !err_set(
            down->err, ERR_invalid, "the server sends more than the tarball's %lld bytes", (long long)down->most);
    else if ((fault = fsx_write_all(down->fd, bytes)) != 0)
        down->failed = !err_set(down->err, fault == ENOSPC || fault == EDQUOT ? ERR_disk_full : ERR_io,
            "the tarball can't be written: %s", strerrordesc_np(fault));
    return !down->failed;
}

static bool tarball_once(const struct apply_talk *talk, const char *path, struct download *down, struct err *err)
{
    struct err lost = { .code = ERR_none };
    int status = 0;
    struct client *client = talk_open(talk, err);
    if (!client)
        return false;
    down->bytes = 0;
    buf_init(&down->refusal, REFUSAL_BYTES);
    bool good = ftruncate(down->fd, 0) == 0 && lseek(down->fd, 0, SEEK_SET) == 0;
    if (!good)
        err_set(err, ERR_io, "the tarball can't be written: %s", strerrordesc_np(errno));
    good = good && client_stream(client, "GET", path, NULL, download_piece, down, &status, &lost) && !down->failed;
    if (!good && err->code == ERR_none)
        err_set(err, lost.code, "%s", lost.text);
    if (good && status / 100 != 2) {
        struct client_response refusal = { .status = status, .body = down->refusal };
        client_problem(&refusal, err);
        good = false;
    }
    buf_release(&down->refusal);
    client_close(client);
    return good;
}

bool talk_tarball(const struct apply_talk *talk, struct str csid, int64_t most, int fd, struct err *err)
{
    struct arena arena = { 0 };
    struct download down = { .err = err, .most = most, .fd = fd };
    const char *path =
        str_dupz(&arena, str_fmt(&arena, "/v1/changesets/%.*s/tarball", STR_ARG(client_encode(&arena, csid))));
    bool good;
    int tried = 0;
    while (!(good = tarball_once(talk, path, &down, err)) && talk_again(tried, err))
        tried++;
    if (!good)
        err_context(err, "the server at %s doesn't send the tarball", talk->server);
    arena_release(&arena);
    return good;
}

static bool base_once(const struct apply_talk *talk, const char *path, struct str body, struct err *err)
{
    struct client_response response = { 0 };
    struct client *client = talk_open(talk, err);
    bool good = client && client_call(client, "POST", path, body, "application/json", NULL, CALL_MS, &response, err);
    if (good && response.status / 100 != 2) {
        client_problem(&response, err);
        good = false;
    }
    client_response_release(&response);
    if (client)
        client_close(client);
    return good;
}

bool talk_base(const struct apply_talk *talk, struct str base, struct err *err)
{
    struct arena arena = { 0 };
    struct buf body;
    buf_init(&body, BODY_BYTES);
    struct json json = json_to(&body);
    json_object_begin(&json);
    json_key(&json, "base");
    json_str(&json, base);
    json_object_end(&json);
    const char *path = str_dupz(&arena, str_fmt(&arena, "/v1/tasks/%s/outputs?fence=%.*s", talk->task,
                                            STR_ARG(client_encode(&arena, str_of(talk->fence)))));
    bool good;
    int tried = 0;
    while (!(good = base_once(talk, path, buf_str(&body), err)) && talk_again(tried, err))
        tried++;
    if (!good)
        err_context(err, "the base can't be recorded at %s", talk->server);
    buf_release(&body);
    arena_release(&arena);
    return good;
}
