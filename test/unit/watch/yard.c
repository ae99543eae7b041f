/* yard: see yard.h. */
#include "yard.h"

#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

int refuse_nth, submitted;

void __real_engine_submit_all(struct engine *engine, struct command *commands, size_t n);
void __wrap_engine_submit_all(struct engine *engine, struct command *commands, size_t n);
void __wrap_engine_submit_all(struct engine *engine, struct command *commands, size_t n)
{
    size_t from = 0;
    for (size_t i = 0; i < n; i++) {
        submitted += commands[i].kind == CMD_REVISION;
        if (commands[i].kind != CMD_REVISION || refuse_nth == 0 || --refuse_nth > 0)
            continue;
        __real_engine_submit_all(engine, commands + from, i - from);
        from = i + 1;
        err_set(&commands[i].err, ERR_disk_full, "refused by the test");
        commands[i].done(&commands[i]);
    }
    __real_engine_submit_all(engine, commands + from, n - from);
}

void sh(struct yard *yard, const char *script, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, script);
    assert_true(vasprintf(&text, script, args) >= 0);
    va_end(args);
    char folder[300], home[300];
    snprintf(folder, sizeof folder, "T=%s", yard->dir);
    snprintf(home, sizeof home, "HOME=%s", yard->dir);
    /* a thread may hold the allocator's lock: the child allocates nothing, and so sets no variable itself */
    pid_t pid = fork();
    if (pid == 0) {
        if (chdir(yard->dir) == 0)
            execl("/usr/bin/env", "env", folder, home, "LC_ALL=C.UTF-8", "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=Ann",
                "GIT_AUTHOR_EMAIL=ann@example.org", "GIT_COMMITTER_NAME=Ann", "GIT_COMMITTER_EMAIL=ann@example.org",
                "WEIR_KEY=", "sh", "-ec", text, (char *)NULL);
        _exit(127);
    }
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (status != 0)
        fail_msg("exit %d of: %s", status, text);
    free(text);
}

const char *in(struct yard *yard, const char *name)
{
    return str_dupz(&yard->arena, str_fmt(&yard->arena, "%s/%s", yard->dir, name));
}

#define WORKFLOW \
    "tasks:\n  - name: build\n    command: [\"true\"]\n  - name: docs\n    command: [\"true\"]\n    paths: " \
    "[\"docs/**\"]\n"

static void dump_node(FILE *out, const char *path, const char *kind, const char *text)
{
    fprintf(out, "Node-path: %s\nNode-kind: %s\nNode-action: add\n", path, kind);
    if (text)
        fprintf(out, "Text-content-length: %zu\nContent-length: %zu\n\n%s\n\n", strlen(text), strlen(text), text);
    else
        fputs("\n\n", out);
}

void svn_import(struct yard *yard, const char *name, int revisions)
{
    FILE *out = fopen(in(yard, "dump"), "w");
    assert_non_null(out);
    fputs("SVN-fs-dump-format-version: 2\n\n", out);
    for (int rev = 1; rev <= revisions; rev++) {
        char props[200], path[40], message[20];
        int len = snprintf(message, sizeof message, "change %d", rev);
        snprintf(props, sizeof props, "K 7\nsvn:log\nV %d\n%s\nK 10\nsvn:author\nV 3\nann\nPROPS-END\n", len, message);
        fprintf(out, "Revision-number: %d\nProp-content-length: %zu\nContent-length: %zu\n\n%s\n", rev, strlen(props),
            strlen(props), props);
        if (rev == 1) {
            dump_node(out, "_workflows", "dir", NULL);
            dump_node(out, "_workflows/w.yaml", "file", WORKFLOW);
        }
        snprintf(path, sizeof path, "file%d", rev);
        dump_node(out, path, "file", message);
    }
    fclose(out);
    sh(yard, "svnadmin create %s && svnadmin load -q --no-flush-to-disk --bypass-prop-validation %s < dump", name,
        name);
}

void git_import(struct yard *yard, const char *name, int commits)
{
    FILE *out = fopen(in(yard, "stream"), "w");
    assert_non_null(out);
    for (int i = 1; i <= commits; i++) {
        char message[20];
        int len = snprintf(message, sizeof message, "change %d", i);
        fprintf(out,
            "commit refs/heads/main\nauthor Ann <ann@example.org> %d +0000\ncommitter Ann <ann@example.org> %d "
            "+0000\ndata %d\n%s\n",
            1700000000 + i, 1700000000 + i, len, message);
        if (i == 1)
            fprintf(out, "M 100644 inline _workflows/w.yaml\ndata %zu\n%s\n", strlen(WORKFLOW), WORKFLOW);
        fprintf(out, "M 100644 inline file%d\ndata %d\n%s\n\n", i, len, message);
    }
    fclose(out);
    sh(yard, "git init -q --bare -b main %s && git -C %s fast-import --quiet < stream", name, name);
}

/* --- svnserve --- */

static bool port_answers(int port)
{
    struct sockaddr_in at = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)
    };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool answers = connect(fd, (struct sockaddr *)&at, sizeof at) == 0;
    close(fd);
    return answers;
}

void svnserve_again(struct yard *yard, int port)
{
    char text[12];
    snprintf(text, sizeof text, "%d", port);
    yard->svnserve = fork();
    if (yard->svnserve == 0) {
        execlp("svnserve", "svnserve", "--foreground", "-d", "--listen-host", "127.0.0.1", "--listen-port", text, "-r",
            yard->dir, (char *)NULL);
        _exit(127);
    }
    until(yard, 10000, port_answers(port));
}

/* A port that was free a moment ago; svnserve can't pick one itself. */
int svnserve_start(struct yard *yard)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
    close(fd);
    svnserve_again(yard, ntohs(at.sin_port));
    return ntohs(at.sin_port);
}

void svnserve_stop(struct yard *yard)
{
    if (yard->svnserve <= 0)
        return;
    kill(yard->svnserve, SIGKILL);
    waitpid(yard->svnserve, NULL, 0);
    yard->svnserve = 0;
}

/* --- its life --- */

void yard_start(struct yard *yard)
{
    struct err err = { 0 };
    yard->store_config = (struct store_config){ .url = yard->url, .data_dir = yard->dir, .create = true };
    yard->loop = loop_new();
    yard->store = store_open(&yard->store_config, &err);
    assert_non_null(yard->store);
    struct engine_config config = { .store = yard->store, .lease_ms = 15000, .server_name = STR("test") };
    yard->engine = engine_new(&config, clock_wall_ms(), clock_boot_ms(), &err);
    assert_non_null(yard->engine);
    yard->reader = reader_open(&yard->store_config, &err);
    assert_non_null(yard->reader);
    yard->config.loop = yard->loop;
    yard->config.engine = yard->engine;
    yard->config.store = &yard->store_config;
    yard->config.data_dir = yard->dir;
    yard->watch = watch_open(&yard->config, &err);
    if (!yard->watch)
        fail_msg("%s", err.text);
    assert_true(engine_start(yard->engine, yard->loop, NULL, NULL, NULL, &err));
}

void yard_stop(struct yard *yard)
{
    watch_closing(yard->watch);
    engine_stop(yard->engine);
    engine_free(yard->engine);
    watch_close(yard->watch);
    reader_close(yard->reader);
    yard->store->ops->close(yard->store);
    loop_free(yard->loop);
}

int yard_make(void **state)
{
    struct yard *yard = mem_alloc_zero(sizeof *yard);
    snprintf(yard->dir, sizeof yard->dir, "/tmp/weir-watch-XXXXXX");
    assert_non_null(mkdtemp(yard->dir));
    snprintf(yard->url, sizeof yard->url, "sqlite://%s", yard->dir);
    assert_int_equal(mkdir(in(yard, "run"), 0755), 0);
    refuse_nth = submitted = 0;
    yard->config.scan_remote_ms = 300;
    yard_start(yard);
    *state = yard;
    return 0;
}

int yard_drop(void **state)
{
    struct yard *yard = *state;
    svnserve_stop(yard);
    yard_stop(yard);
    sh(yard, "chmod -R u+rwX . && rm -rf \"$T\"");
    arena_release(&yard->arena);
    mem_free(yard);
    return 0;
}

/* --- archives --- */

struct probed {
    bool done;
    struct err err;
    struct archive archive;
    struct arena *arena;
};

static void probe_done(struct watch_probe *probe)
{
    struct probed *probed = probe->owner;
    probed->done = true;
    probed->err = probe->err;
    probed->archive.first = probe->first;
    probed->archive.tip = str_dup(probed->arena, probe->tip);
    probed->archive.branch = str_dup(probed->arena, probe->branch_found);
}

static void command_done(struct command *command)
{
    *(bool *)command->owner = true;
}

static void submit(struct yard *yard, struct command *command)
{
    bool done = false;
    command->actor = (struct actor){ STR("test"), STR("default") };
    command->arena = &yard->arena;
    command->done = command_done;
    command->owner = &done;
    engine_submit(yard->engine, command);
    until(yard, 5000, done);
    if (command->err.code)
        fail_msg("%s", command->err.text);
    watch_archives_changed(yard->watch);
}

static void add_any(
    struct yard *yard, const char *name, enum archive_kind kind, const char *url, const char *branch, int64_t from)
{
    struct probed probed = { .arena = &yard->arena };
    struct err err = { 0 };
    struct watch_probe in_ = {
        .kind = kind, .url = str_of(url), .branch = str_of(branch), .from = from, .done = probe_done, .owner = &probed
    };
    assert_non_null(watch_probe(yard->watch, &in_, &err));
    until(yard, 5000, probed.done);
    if (probed.err.code)
        fail_msg("%s: %s", url, probed.err.text);
    struct command command = { .kind = CMD_ARCHIVE_ADD };
    command.in.archive_add.name = str_of(name);
    command.in.archive_add.archive = probed.archive;
    command.in.archive_add.archive.kind = kind;
    command.in.archive_add.archive.url = str_of(url);
    submit(yard, &command);
}

void add(struct yard *yard, const char *name, enum archive_kind kind, const char *url, int64_t from)
{
    add_any(yard, name, kind, url, "", from);
}

void add_branch(struct yard *yard, const char *name, const char *url, const char *branch, int64_t from)
{
    add_any(yard, name, ARCHIVE_GIT, url, branch, from);
}

void add_unseen(struct yard *yard, const char *name, const char *url)
{
    struct command command = { .kind = CMD_ARCHIVE_ADD };
    command.in.archive_add.name = str_of(name);
    command.in.archive_add.archive = (struct archive){ .kind = ARCHIVE_SVN, .url = str_of(url), .first = 1 };
    submit(yard, &command);
}

void archive_command(struct yard *yard, enum command_kind kind, const char *name, int64_t rev)
{
    struct command command = { .kind = kind };
    if (kind == CMD_ARCHIVE_ADD) {
        command.in.archive_add.name = str_of(name);
        command.in.archive_add.archive.kind = ARCHIVE_EXTERNAL;
    } else {
        command.in.archive.name = str_of(name);
        command.in.archive.rev = rev;
        command.in.archive.reason = STR("test");
    }
    submit(yard, &command);
}

void run_for(struct yard *yard, int64_t ms)
{
    int64_t end = clock_boot_ms() + ms;
    while (clock_boot_ms() < end)
        loop_step(yard->loop, 10);
}

/* --- what is known --- */

static struct archive_view view(struct yard *yard, const char *name)
{
    struct archive_view out = { 0 };
    struct err err = { 0 };
    bool found = false;
    assert_true(reader_archive(yard->reader, &yard->arena, STR("default"), str_of(name), &out, &found, &err));
    assert_true(found);
    return out;
}

struct archive row(struct yard *yard, const char *name)
{
    return view(yard, name).archive;
}

int64_t next_of(struct yard *yard, const char *name)
{
    return row(yard, name).next;
}

struct revision revision(struct yard *yard, const char *name, int64_t rev)
{
    struct revision out = { 0 };
    struct err err = { 0 };
    bool found = false;
    assert_true(reader_revision(yard->reader, &yard->arena, row(yard, name).lane, rev, &out, &found, &err));
    if (!found)
        fail_msg("%s@%lld isn't there", name, (long long)rev);
    return out;
}

bool has_task(struct yard *yard, const char *name, int64_t rev, const char *task)
{
    int64_t id = 0;
    struct err err = { 0 };
    assert_true(
        reader_find(yard->reader, STR("default"), str_of(name), rev, str_of(task), (struct str){ 0 }, 0, &id, &err));
    return id > 0;
}

int64_t lane_of(struct yard *yard, const char *name)
{
    return view(yard, name).lane.id;
}

enum watch_state state_of(struct yard *yard, const char *name)
{
    struct watch_status status;
    return watch_status(yard->watch, lane_of(yard, name), &status) ? status.state : WATCH_NONE;
}

const char *fault_of(struct yard *yard, const char *name)
{
    struct watch_status status;
    return watch_status(yard->watch, lane_of(yard, name), &status) ? str_dupz(&yard->arena, str_of(status.text)) : "";
}

static size_t events_walk(
    struct yard *yard, enum event_kind kind, void (*each)(const struct event *event, void *owner), void *owner)
{
    struct err err = { 0 };
    struct arena arena = { 0 };
    struct event *events;
    size_t n, found = 0;
    for (int64_t since = 0, last;; since = last) {
        assert_true(reader_events(yard->reader, &arena, since, 0, 1000, &events, &n, &last, &err));
        for (size_t i = 0; i < n; i++)
            if (events[i].kind == kind) {
                found++;
                if (each)
                    each(&events[i], owner);
            }
        arena_reset(&arena);
        if (last == since)
            break;
    }
    arena_release(&arena);
    return found;
}

size_t events_of(struct yard *yard, enum event_kind kind)
{
    return events_walk(yard, kind, NULL, NULL);
}

struct expected {
    const char *name;
    int64_t next;
};

static void revision_expect(const struct event *event, void *owner)
{
    struct expected *expected = owner;
    char subject[200];
    snprintf(subject, sizeof subject, "%s@", expected->name);
    if (!str_starts(event->subject, str_of(subject)))
        return;
    snprintf(subject, sizeof subject, "%s@%lld", expected->name, (long long)expected->next);
    if (!str_eqz(event->subject, subject))
        fail_msg("%s was expected, %.*s came", subject, STR_ARG(event->subject));
    expected->next++;
}

void revisions_in_order(struct yard *yard, const char *name, int64_t first, int64_t last)
{
    struct expected expected = { name, first };
    events_walk(yard, EVENT_revision, revision_expect, &expected);
    assert_int_equal(expected.next, last + 1);
}
