/* notify: the socket DATA/run/notify.sock, to which commit hooks send hints about new revisions.
 *
 * Owns the socket. Every user of this machine may write to it (hooks run as www-data or svn). So a hint is a bounded
 * datagram, each word of it is checked, and all it can do is ask for a scan: hints for one archive are answered by one
 * scan, scans keep a minimum distance, and above the rate that hooks can reach the socket isn't read for the rest of a
 * tenth of a second.
 *
 * Fails at the start only, when the socket can't be made. */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "io/fsx.h"
#include "io/log.h"
#include "store/read.h"
#include "watch/follow.h"
#include "text/hint_message.h"

enum { WINDOW_MS = 100, WINDOW_MESSAGES = 256, READS_MAX = 64 };

/* --- hints that servers pass on to each other --- */

struct passed { /* on its way in, or out through the engine */
    struct list_node node;
    struct command command;
    struct arena arena;
    struct str text;
};

static void passed_free(struct passed *passed)
{
    arena_release(&passed->arena);
    mem_free(passed);
}

static void passed_done(struct command *command)
{
    struct passed *passed = command->owner;
    if (command->err.code != ERR_none)
        log_debug(
            "notify.lost", "error=%s", log_quote(str_of(command->err.text)).z); /* a timed scan finds the revision */
    passed_free(passed);
}

static struct passed *passed_new(struct str text)
{
    struct passed *passed = mem_alloc_zero(sizeof *passed);
    passed->text = str_dup(&passed->arena, text);
    return passed;
}

void hint_messages_pass(struct watch *watch, const struct follow *follow, const struct watch_hint *hint)
{
    struct buf text;
    struct err err = { 0 };
    struct i64_text number = i64_format(hint->rev);
    struct str rev = hint->rev > 0 ? str_of(number.z) : hint->commit.len > 0 ? hint->commit : STR("HEAD");
    buf_init(&text, HINT_MESSAGE_BYTES_MAX);
    if (!watch->closing && hint_message_format(&text, follow->name, rev, hint->txn, hint->cause, &err)) {
        struct passed *passed = passed_new(buf_str(&text));
        passed->command = (struct command){ .kind = CMD_NOTE,
            .actor = { STR("watch"), STR("default") },
            .arena = &passed->arena,
            .done = passed_done,
            .owner = passed,
            .in.note.text = passed->text };
        engine_submit(watch->config.engine, &passed->command);
    }
    buf_release(&text);
}

void watch_hint_message(struct watch *watch, struct str text)
{
    pthread_mutex_lock(&watch->lock);
    if (watch->n_hint_messages < HINT_MESSAGES_MAX) {
        list_append(&watch->hint_messages, &passed_new(text)->node);
        watch->n_hint_messages++;
    }
    pthread_mutex_unlock(&watch->lock);
    loop_wake(watch->config.loop);
}

static struct list hint_messages_all(struct watch *watch)
{
    pthread_mutex_lock(&watch->lock);
    struct list messages = watch->hint_messages;
    watch->hint_messages = (struct list){ 0 };
    watch->n_hint_messages = 0;
    pthread_mutex_unlock(&watch->lock);
    return messages;
}

static bool message_hint(struct watch *watch, const struct hint_message *message)
{
    return follows_hint(
        watch, message->archive, &(struct watch_hint){ message->rev, message->commit, message->txn, message->cause });
}

void hint_messages_take(struct watch *watch)
{
    struct list messages = hint_messages_all(watch);
    struct list_node *at;
    while ((at = list_take_first(&messages)) != NULL) {
        struct passed *passed = CONTAINER_OF(at, struct passed, node);
        struct hint_message message;
        /* else this server lost the duty: the server that has it scans every archive when it begins */
        if (hint_message_parse(passed->text, &message) && watch->epoch > 0)
            message_hint(watch, &message);
        passed_free(passed);
    }
}

void hint_messages_release(struct watch *watch)
{
    struct list messages = hint_messages_all(watch);
    struct list_node *at;
    while ((at = list_take_first(&messages)) != NULL)
        passed_free(CONTAINER_OF(at, struct passed, node));
}

/* --- from hooks --- */

struct received { /* a hint whose sender waits for an answer */
    struct sockaddr_un from;
    socklen_t from_len;
    size_t n;
    char bytes[HINT_MESSAGE_BYTES_MAX + 1];
};

static void message_answer(struct watch *watch, const struct received *received, enum hint_answer answer)
{
    const char *word = hint_answer_name(answer);
    log_debug("notify", "answer=%s bytes=%zu", word, received->n);
    if (received->from_len > sizeof(sa_family_t) && watch->notify_fd.fd >= 0) /* else nobody waits */
        sendto(watch->notify_fd.fd, word, strlen(word), MSG_DONTWAIT | MSG_NOSIGNAL,
            (const struct sockaddr *)&received->from, received->from_len);
}

/* not_followed: answers why. If the store has the archive, another server added it and the news hasn't arrived yet: it
 * is followed from now on. */
static void not_followed(struct watch *watch, const struct archive_view *view, void *owner)
{
    struct received *received = owner;
    struct hint_message message;
    bool there = view != NULL && view->archive.removed == 0;
    enum hint_answer answer = there && view->archive.kind == ARCHIVE_EXTERNAL ? HINT_external : HINT_unknown;
    if (there && answer == HINT_unknown && hint_message_parse((struct str){ received->bytes, received->n }, &message) &&
        message_hint(watch, &message))
        answer = HINT_ok;
    if (!watch->closing)
        message_answer(watch, received, answer);
    mem_free(received);
}

static void message_take(struct watch *watch, const struct received *received)
{
    struct hint_message message;
    if (!hint_message_parse((struct str){ received->bytes, received->n }, &message))
        message_answer(watch, received, HINT_malformed);
    else if (message_hint(watch, &message))
        message_answer(watch, received, HINT_ok);
    else {
        struct received *kept = mem_alloc(sizeof *kept);
        *kept = *received;
        archive_read_name(watch, message.archive, not_followed, kept);
    }
}

/* budget_left: false when this window's hints are used up: the socket isn't read until the next window. */
static bool budget_left(struct watch *watch)
{
    int64_t now = loop_now(watch->config.loop);
    if (now - watch->notify_window >= WINDOW_MS) {
        watch->notify_window = now;
        watch->notify_taken = 0;
    }
    if (watch->notify_taken < WINDOW_MESSAGES)
        return true;
    loop_change(watch->config.loop, &watch->notify_fd, 0);
    loop_arm(watch->config.loop, &watch->notify_timer, watch->notify_window + WINDOW_MS);
    return false;
}

static void window_over(struct loop_timer *timer)
{
    struct watch *watch = timer->owner;
    loop_change(watch->config.loop, &watch->notify_fd, EPOLLIN);
}

static void notify_ready(struct loop_fd *self, uint32_t epoll_events)
{
    struct watch *watch = self->owner;
    struct received received;
    (void)epoll_events;
    for (unsigned i = 0; i < READS_MAX && budget_left(watch); i++) {
        received.from_len = sizeof received.from;
        ssize_t n = recvfrom(self->fd, received.bytes, sizeof received.bytes, MSG_DONTWAIT,
            (struct sockaddr *)&received.from, &received.from_len);
        if (n < 0)
            return;
        received.n = (size_t)n;
        watch->notify_taken++;
        message_take(watch, &received);
    }
}

/* socket_bind: through the folder's descriptor, since DATA may be longer than an address may be. */
static bool socket_bind(int fd, const char *run, struct err *err)
{
    struct sockaddr_un at = { .sun_family = AF_UNIX };
    int folder = open(run, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        return err_set(err, ERR_io, "%s: %s", run, strerrordesc_np(errno));
    snprintf(at.sun_path, sizeof at.sun_path, "/proc/self/fd/%d/notify.sock", folder);
    unlinkat(folder, "notify.sock", 0); /* left by a server that was killed: the store's lock shows that none runs */
    bool good = bind(fd, (struct sockaddr *)&at, sizeof at) == 0 && chmod(at.sun_path, 0666) == 0;
    if (!good)
        err_set(err, ERR_io, "%s/notify.sock: %s", run, strerrordesc_np(errno));
    close(folder);
    return good;
}

bool notify_init(struct watch *watch, struct err *err)
{
    watch->notify_fd = (struct loop_fd){ .fd = -1, .ready = notify_ready, .owner = watch };
    watch->notify_timer = (struct loop_timer){ .due = window_over, .owner = watch };
    if (watch->config.data_dir == NULL)
        return true;
    size_t room = strlen(watch->config.data_dir) + sizeof "/run/notify.sock";
    char *run = mem_alloc(room);
    snprintf(run, room, "%s/run", watch->config.data_dir);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    bool good = fd >= 0 ? socket_bind(fd, run, err) : err_set(err, ERR_io, "a socket: %s", strerrordesc_np(errno));
    if (good) {
        watch->notify_path = run;
        snprintf(watch->notify_path, room, "%s/run/notify.sock", watch->config.data_dir);
        watch->notify_fd.fd = fd;
        loop_add(watch->config.loop, &watch->notify_fd, EPOLLIN);
        return true;
    }
    mem_free(run);
    fsx_close(fd);
    return false;
}

void notify_release(struct watch *watch)
{
    if (watch->notify_fd.fd < 0)
        return;
    loop_remove(watch->config.loop, &watch->notify_fd);
    loop_disarm(watch->config.loop, &watch->notify_timer);
    close(watch->notify_fd.fd);
    watch->notify_fd.fd = -1;
    unlink(watch->notify_path);
    mem_free(watch->notify_path);
}
