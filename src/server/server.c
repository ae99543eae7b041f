/* server: the life of `weir serve`.
 *
 * Parts are opened from the store upwards and closed downwards, whatever of them there is. It promises that after
 * `listening on` everything answers, that SIGTERM leaves executor and tasks running, SIGINT ends them, and that a
 * failed disk ends the process within a second, after its answers. */
#include "server/server.h"

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "io/fsx.h"
#include "io/log.h"
#include "server/server_parts.h"
#include "store/damage.h"

enum { FLUSH_MS = 150, FAILURE_MS = 200, INTERRUPT_EXTRA_MS = 10000 };

static void end_due(struct loop_timer *timer)
{
    struct server *server = timer->owner;
    loop_stop(server->parts.loop);
}

static void on_failure(const struct err *err, void *owner)
{
    struct server *server = owner;
    log_error("server.failed", "error=%s", log_quote(str_of(err->text)).z);
    server->status = 1;
    /* the answers go out first */
    loop_arm(server->parts.loop, &server->end, loop_now(server->parts.loop) + FAILURE_MS);
}

static void executor_ended(void *owner)
{
    struct server *server = owner;
    loop_stop(server->parts.loop);
}

static void on_term(int signo, void *owner)
{
    struct server *server = owner;
    log_event("server.stopping", "signal=%d note=\"running tasks go on\"", signo);
    loop_stop(server->parts.loop);
}

static void on_int(int signo, void *owner)
{
    struct server *server = owner;
    log_event("server.stopping", "signal=%d note=\"running tasks end too\"", signo);
    if (server->executor.stopping || !executor_process_interrupt(&server->executor, executor_ended, server)) {
        loop_stop(server->parts.loop); /* a second one doesn't wait */
        return;
    }
    loop_arm(
        server->parts.loop, &server->end, loop_now(server->parts.loop) + server->conf.grace_ms + INTERRUPT_EXTRA_MS);
}

/* say_unused: keys of parts that aren't there yet are read and checked; nobody shall believe that they do something. */
static void say_unused(const struct conf *conf)
{
    static const char *const later[] = { "hooks.", "resque", "screwdriver" };
    for (size_t i = 0; conf_setting_key(i) != NULL; i++)
        for (size_t k = 0; k < sizeof later / sizeof *later; k++)
            if (conf->values[i].origin != CONF_DEFAULT && str_starts(str_of(conf_setting_key(i)), str_of(later[k])))
                log_warn("config.unused", "key=%s note=\"this isn't supported yet\"", conf_setting_key(i));
}

static bool address_tell(struct server *server, struct err *err)
{
    const char *address = http_server_address(server->parts.http);
    struct arena *arena = &server->arena;
    const char *file = str_dupz(arena, str_fmt(arena, "%s/address", server->data));
    if (!fsx_replace(file, str_fmt(arena, "%s\n", address), 0600, err)) {
        if (err->code != ERR_disk_full)
            return false;
        log_warn("server.address", "error=%s note=\"the address is only on standard output\"",
            log_quote(str_of(err->text)).z);
    }
    log_event("server.start", "name=%s version=%s data=%s lease_ms=%lld", log_quote(server->conf.name).z, WEIR_VERSION,
        server->data, (long long)server->conf.lease_ms);
    log_event("server.trust", "sandbox=none note=\"tasks run as the executor's user (uid %u), with all its rights\"",
        (unsigned)geteuid());
    say_unused(&server->conf);
    if (engine_held(server->parts.engine))
        log_warn("server.paused",
            "note=\"this store was restored from a backup: nothing starts, no schedule fires, no repository is "
            "followed until: weir resume all\"");
    printf("listening on %s\n", address);
    fflush(stdout);
    return true;
}

static void server_close(struct server *server)
{
    damage_listen(NULL, NULL);
    atomic_store(&server->check_stop, true);
    if (server->checking)
        pthread_join(server->checker, NULL);
    if (server->executor_open)
        executor_process_release(&server->executor);
    assembly_close(&server->parts, FLUSH_MS);
    server_reloads_drop(server); /* they waited for the lock, which went with the engine */
    arena_release(&server->arena);
}

static void signals_set(struct server *server)
{
    static const struct {
        int signo;
        void (*fn)(int signo, void *owner);
    } traps[] = { { SIGTERM, on_term }, { SIGINT, on_int }, { SIGHUP, server_reload } };
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a file limit is a write error like any other: answered, then we end */
    for (size_t i = 0; i < sizeof traps / sizeof *traps; i++)
        loop_on_signal(server->parts.loop, traps[i].signo, traps[i].fn, server);
}

static void server_serve(struct server *server, struct err *err)
{
    if (!server_open(server, err) || !address_tell(server, err)) {
        fprintf(stderr, "weir serve: %s\n", err->text);
        if (err->code == ERR_corrupt)
            fprintf(stderr,
                "  next: weir verify --data %s names what is damaged; move the directory away and bring a backup back: "
                "weir restore FILE "
                "--data %s\n",
                server->data ? server->data : "DIR", server->data ? server->data : "DIR");
        server->status = err_exit(err->code);
        return;
    }
    executor_process_open(&server->executor, server->parts.loop, server->umask, server->files);
    server->executor_open = true;
    executor_process_set(&server->executor, &server->conf);
    loop_run(server->parts.loop);
    struct err ignored = { 0 };
    struct arena *arena = &server->arena;
    if (!fsx_remove(str_dupz(arena, str_fmt(arena, "%s/address", server->data)), &ignored))
        log_warn("server.address", "error=%s", log_quote(str_of(ignored.text)).z);
    log_event("server.end", "status=%d", server->status);
}

int server_run(const struct server_input *input)
{
    static struct server server;
    struct err err = { .code = ERR_none };
    server = (struct server){ .input = input };
    enum err_code unread = input->conf(input->owner, &server.arena, &server.conf);
    if (unread != ERR_none) {
        arena_release(&server.arena);
        return err_exit(unread);
    }
    if (input->show_config) {
        struct buf text;
        buf_init(&text, (size_t)1 << 20);
        conf_show(&text, &server.conf);
        fwrite(text.ptr, 1, text.len, stdout);
        buf_release(&text);
        arena_release(&server.arena);
        return fflush(stdout) == 0 ? 0 : 1;
    }
    server.umask = umask(0077);
    getrlimit(RLIMIT_NOFILE, &server.files);
    assembly_init(&server.parts, on_failure, &server);
    server.end = (struct loop_timer){ .due = end_due, .owner = &server };
    signals_set(&server);
    server_serve(&server, &err);
    int status = server.status;
    server_close(&server);
    if (server.parts.hangs) { /* it may be anywhere in its libraries: nothing of theirs is taken down under it */
        fflush(NULL);
        _exit(status);
    }
    return status;
}
