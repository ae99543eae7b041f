/* stream: an answer that is sent piece by piece, at the client's pace: logs, events, artifacts.
 *
 * A piece is read, on a read thread where there are any, and then sent on the loop's thread. The next one is read when
 * a commit, a chunk or the client woke the stream meanwhile, or when the last piece says that there is more. Never more
 * than `pending_max` and a piece wait for the client. A piece that can't be read breaks the answer off, so that no
 * client takes it for all there was; a client that follows gets an end instead, and asks again from where it stood. So
 * with a server that stops: it ends what follows, goes on with the others for as long as it flushes, and the connection
 * that it then closes has no last chunk. */
#include "api/call.h"

/* stream_send: false: that was the end, and the stream is gone. */
static bool stream_send(struct stream *stream)
{
    struct call *call = stream->call;
    bool over = stream->over || (call->api->closing && stream->follow), good = stream->good;
    if (stream->out.len > 0)
        http_stream_add(call->request, buf_str(&stream->out));
    stream->woken |= stream->again;
    if (!good && !stream->follow)
        call_stream_break(call);
    else if (!good || over)
        call_stream_end(call);
    else if (stream->sent != NULL)
        stream->sent(stream);
    return good && !over;
}

static bool stream_back(struct call *call)
{
    struct stream *stream = call->state;
    stream->pumping = false;
    if (stream_send(stream) && stream->woken)
        stream_wake(stream);
    return true;
}

static bool stream_run(struct call *call)
{
    struct stream *stream = call->state;
    buf_reset(&stream->out);
    stream->over = stream->again = false;
    stream->good = stream->read(stream);
    return call->on_thread == NULL || call_on_loop(call, stream_back);
}

void stream_wake(struct stream *stream)
{
    struct call *call = stream->call;
    stream->woken = true;
    if (stream->pumping)
        return;
    if (call->api->closing && stream->follow) {
        call_stream_end(call);
        return;
    }
    stream->pumping = true;
    while (stream->woken && http_stream_pending(call->request) < stream->pending_max) {
        stream->woken = false;
        if (call_moved(call, stream_run))
            return; /* stream_back goes on */
        stream_run(call);
        if (!stream_send(stream))
            return;
    }
    stream->pumping = false;
}

static void stream_drained(struct http_request *request)
{
    struct call *call = request->user;
    if (call != NULL)
        stream_wake(call->state);
}

bool stream_begin(struct stream *stream, int status, const char *content_type)
{
    struct call *call = stream->call;
    call->follows = stream->follow;
    if (!call_stream_begin(call, status, content_type, stream_drained))
        return false;
    if (stream->out.len > 0)
        http_stream_add(call->request, buf_str(&stream->out));
    return true;
}
