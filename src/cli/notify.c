/* notify: what a repository's hook calls after a commit: one datagram to the server's notify socket, and out.
 *
 * Promises to be quick and never to fail the commit: it exits 0 whatever happens, and says on standard error what did.
 * A server that hears nothing finds the revision by itself. Where only an HTTP address is known, two short requests do
 * the same.
 *
 * It reads no configuration: the socket's place comes from --server, WEIR_SERVER or the usual data directory. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/revision_text.h"
#include "cli/session.h"
#include "text/hint_message.h"

enum { ANSWER_MS = 100, CONNECT_MS = 300, HTTP_MS = 1000, ANSWER_BYTES = 64 };
#define SERVER_FALLBACK "http://127.0.0.1:8420"

struct notice {
    struct session session;
    const char *archive, *rev, *cause;
};

enum sent { SENT, SENT_NOT, SENT_NO_SOCKET };

static void say(struct notice *notice, const char *what)
{
    session_note(&notice->session, "weir notify: %s@%s: %s", term_safe_z(&notice->session.arena, notice->archive),
        term_safe_z(&notice->session.arena, notice->rev), what);
}

/* --- by datagram --- */

/* socket_for: the notify socket that stands with a server's socket: DATA/weir.sock, or the notify socket itself. */
static const char *socket_for(struct notice *notice, const char *path)
{
    struct str whole = str_of(path);
    if (str_ends(whole, STR("/notify.sock")))
        return path;
    ptrdiff_t slash = str_rindex(whole, '/');
    struct str folder = slash < 0 ? STR(".") : str_sub(whole, 0, (size_t)slash);
    return str_dupz(&notice->session.arena, str_fmt(&notice->session.arena, "%.*s/run/notify.sock", STR_ARG(folder)));
}

/* socket_connect: through the folder, since the path may be longer than an address; -1: errno says why. */
static int socket_connect(struct notice *notice, const char *path)
{
    struct sockaddr_un at = { .sun_family = AF_UNIX }, own = { .sun_family = AF_UNIX };
    ptrdiff_t slash = str_rindex(str_of(path), '/');
    const char *folder = slash <= 0 ? "/" : str_dupz(&notice->session.arena, str_sub(str_of(path), 0, (size_t)slash));
    int dir = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return -1;
    snprintf(at.sun_path, sizeof at.sun_path, "/proc/self/fd/%d/%s", dir, "notify.sock");
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    /* an address of our own, which the kernel picks, so that an answer can come back */
    bool good = fd >= 0 && bind(fd, (struct sockaddr *)&own, sizeof(sa_family_t)) == 0 &&
                connect(fd, (struct sockaddr *)&at, sizeof at) == 0;
    int code = errno;
    close(dir);
    if (!good && fd >= 0)
        close(fd);
    errno = code;
    return good ? fd : -1;
}

static void answer_await(struct notice *notice, int fd)
{
    struct pollfd ready = { .fd = fd, .events = POLLIN };
    char word[ANSWER_BYTES];
    if (poll(&ready, 1, ANSWER_MS) <= 0)
        return; /* it is busy; the note lies there for it */
    ssize_t n = recv(fd, word, sizeof word, MSG_DONTWAIT);
    enum hint_answer answer = n > 0 ? hint_answer_find((struct str){ word, (size_t)n }) : HINT_ANSWER_COUNT;
    const char *text = answer < HINT_ANSWER_COUNT ? hint_answer_text(answer) : NULL;
    if (text)
        say(notice, text);
}

static enum sent datagram_send(struct notice *notice, const char *path)
{
    struct buf note;
    struct err err = { 0 };
    enum sent sent = SENT_NOT;
    buf_init(&note, HINT_MESSAGE_BYTES_MAX);
    if (!hint_message_format(&note, str_of(notice->archive), str_of(notice->rev),
            str_of(option_get(&notice->session.options, "txn")), str_of(notice->cause), &err)) {
        say(notice, err.text);
        buf_release(&note);
        return SENT; /* nobody else would understand it either */
    }
    int fd = socket_connect(notice, path);
    if (fd < 0)
        sent = SENT_NO_SOCKET;
    else if (send(fd, note.ptr, note.len, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)note.len)
        sent = SENT;
    if (sent == SENT)
        answer_await(notice, fd);
    else
        err_set(&notice->session.err, ERR_unreachable, "%s: %s", path, strerrordesc_np(errno));
    if (fd >= 0)
        close(fd);
    buf_release(&note);
    return sent;
}

/* --- by HTTP --- */

static json_t *http_call(struct notice *notice, const char *method, const char *path, struct str body)
{
    struct session_request request = { .method = method, .path = path, .body = body, .timeout_ms = HTTP_MS };
    return session_try(&notice->session, &request);
}

/* http_notify: looks at the archive first, since posting to an external one would make a revision. */
static bool http_notify(struct notice *notice)
{
    struct session *s = &notice->session;
    json_t *archive = http_call(notice, "GET", archive_path(s, notice->archive, ""), (struct str){ 0 });
    if (!archive)
        return false;
    const char *kind = json_string_value(json_object_get(archive, "kind"));
    int64_t rev = 0;
    if (!str_to_i64(str_of(notice->rev), &rev) || rev <= 0)
        rev = json_integer_value(json_object_get(archive, "next")); /* HEAD: what comes next */
    bool external = kind && strcmp(kind, "external") == 0;
    json_decref(archive);
    if (external) {
        say(notice, hint_answer_text(HINT_external));
        return true;
    }
    const char *cause = notice->cause, *txn = option_get(&s->options, "txn");
    json_t *body =
        json_pack("{s:I, s:s*, s:s*}", "rev", (json_int_t)rev, "cause", cause && *cause ? cause : NULL, "txn", txn);
    char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
    const char *path = archive_path(s, notice->archive, "/revisions");
    json_t *answer = text ? http_call(notice, "POST", path, str_of(text)) : NULL;
    bool good = answer != NULL;
    json_decref(answer);
    json_decref(body);
    free(text);
    return good;
}

static void http_try(struct notice *notice, const char *server)
{
    struct session *s = &notice->session;
    if (!session_choose(s)) /* for the token; a fault was reported */
        return;
    s->server = server;
    struct client_config config = session_client(s);
    config.connect_timeout_ms = CONNECT_MS;
    s->client = client_open(&config, NULL, &s->err);
    if (s->client && http_notify(notice))
        return;
    say(notice, s->err.text[0] ? s->err.text : "no server answers");
}

/* --- the command --- */

static void notify(struct notice *notice)
{
    struct session *s = &notice->session;
    const char *server = option_get(&s->options, "server");
    if (!server)
        server = getenv("WEIR_SERVER");
    if (server && !*server)
        server = NULL;
    if (server && strncmp(server, "unix:", 5) != 0) {
        http_try(notice, server);
        return;
    }
    const char *path = server ? socket_for(notice, server + 5) : state_path(&s->arena, "weir/run/notify.sock");
    enum sent sent = path ? datagram_send(notice, path) : SENT_NO_SOCKET;
    if (sent == SENT)
        return;
    if (sent == SENT_NO_SOCKET && !(server && str_ends(str_of(server), STR("/notify.sock"))))
        http_try(notice, server ? server : SERVER_FALLBACK);
    else
        say(notice, s->err.text);
}

int notify_main(const struct command_spec *spec, int argc, char **argv)
{
    struct notice notice = { 0 };
    struct session *s = &notice.session;
    if (options_parse(&s->options, spec, argc, argv, &s->arena) == OPTIONS_RUN) {
        s->quiet = option_given(&s->options, "quiet");
        notice.archive = s->options.operands[0];
        notice.rev = s->options.operands[1];
        notice.cause = getenv("WEIR_KEY");
        notify(&notice);
    }
    if (s->client)
        client_close(s->client);
    arena_release(&s->arena);
    return 0; /* whatever it was: the commit is made */
}
