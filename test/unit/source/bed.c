#include "bed.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

char bed[64];

int bed_make(void **state)
{
    (void)state;
    snprintf(bed, sizeof bed, "/tmp/weir-source-XXXXXX");
    if (mkdtemp(bed) == NULL)
        return -1;
    setenv("T", bed, 1);
    setenv("HOME", bed, 1);
    setenv("GIT_CONFIG_NOSYSTEM", "1", 1);
    setenv("GIT_AUTHOR_NAME", "Ada", 1);
    setenv("GIT_AUTHOR_EMAIL", "ada@example.org", 1);
    setenv("GIT_COMMITTER_NAME", "Ada", 1);
    setenv("GIT_COMMITTER_EMAIL", "ada@example.org", 1);
    setenv("LC_ALL", "C.UTF-8", 1);
    setenv("SVN_I_LOVE_CORRUPTED_WORKING_COPIES_SO_DISABLE_SLEEP_FOR_TIMESTAMPS", "yes", 1); /* a second per commit */
    return 0;
}

int bed_drop(void **state)
{
    (void)state;
    /* what a hook started in the background may still be writing there */
    return sh_status("chmod -R u+rwX \"$T\"; for i in $(seq 100); do rm -rf \"$T\" 2>/dev/null && exit 0; sleep 0.1; "
                     "done; rm -rf \"$T\"");
}

__attribute__((format(printf, 1, 0))) static int script_run(const char *script, va_list args, int out)
{
    char *text = NULL;
    if (vasprintf(&text, script, args) < 0)
        abort();
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        if (out >= 0)
            dup2(out, 1);
        else
            dup2(2, 1);
        execl("/bin/sh", "sh", "-euc", text, (char *)NULL);
        _exit(127);
    }
    int status = -1;
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        abort();
    free(text);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void sh(const char *script, ...)
{
    va_list args;
    va_start(args, script);
    int status = script_run(script, args, -1);
    va_end(args);
    if (status != 0)
        fail_msg("status %d of: %s", status, script);
}

int sh_status(const char *script, ...)
{
    va_list args;
    va_start(args, script);
    int status = script_run(script, args, -1);
    va_end(args);
    return status;
}

const char *sh_out(const char *script, ...)
{
    static char text[1 << 16];
    char path[] = "/tmp/weir-source-out-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    unlink(path);
    va_list args;
    va_start(args, script);
    int status = script_run(script, args, fd);
    va_end(args);
    if (status != 0)
        fail_msg("status %d of: %s", status, script);
    ssize_t n = pread(fd, text, sizeof text - 1, 0);
    close(fd);
    assert_true(n >= 0);
    text[n] = '\0';
    if (n > 0 && text[n - 1] == '\n')
        text[n - 1] = '\0';
    return text;
}

const char *in(const char *name)
{
    static char paths[4][256];
    static int turn;
    char *path = paths[turn++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", bed, name);
    return path;
}

void file_put(const char *path, const void *bytes, size_t len)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, len), (ssize_t)len);
    close(fd);
}

struct source *open_ok(enum archive_kind kind, const char *url, const char *branch)
{
    struct err err = { 0 };
    struct source *source = source_open(kind, str_of(url), str_of(branch), &err);
    if (source == NULL)
        fail_msg("%s: %s", err_name(err.code), err.text);
    return source;
}

void open_refused(enum archive_kind kind, const char *url, const char *branch, enum err_code code, const char *part)
{
    struct err err = { 0 };
    struct source *source = source_open(kind, str_of(url), str_of(branch), &err);
    assert_null(source);
    said(false, &err, code, part);
}

struct source_ident rev(int64_t n)
{
    return (struct source_ident){ .rev = n };
}

struct source_ident id(const char *hex)
{
    return (struct source_ident){ .id = str_of(hex) };
}

struct source_ident git_id(const char *repository, const char *name)
{
    static char ids[8][64];
    static int turn;
    char *place = ids[turn++ % 8];
    snprintf(place, sizeof ids[0], "%s", sh_out("git -C %s rev-parse --verify '%s^{commit}'", repository, name));
    return id(place);
}

void must(bool good, const struct err *err)
{
    if (!good)
        fail_msg("%s: %s", err_name(err->code), err->text);
}

void said(bool good, const struct err *err, enum err_code code, const char *part)
{
    assert_false(good);
    if (err->code != code || strstr(err->text, part) == NULL)
        fail_msg("expected %s with '%s', got %s: %s", err_name(code), part, err_name(err->code), err->text);
}

void export_to(struct source *source, struct source_ident ident, const char *name)
{
    struct err err = { 0 };
    assert_int_equal(mkdir(in(name), 0755), 0);
    int fd = open(in(name), O_RDONLY | O_DIRECTORY);
    bool good = source_export(source, ident, fd, NULL, &err);
    close(fd);
    must(good, &err);
}

void export_changed_to(struct source *source, struct source_ident from, struct source_ident to, const char *name)
{
    struct err err = { 0 };
    int fd = open(in(name), O_RDONLY | O_DIRECTORY);
    bool good = source_export_changed(source, from, to, fd, NULL, &err);
    close(fd);
    must(good, &err);
}

bool trees_equal(const char *a, const char *b)
{
    static const char list[] = "cd '%s' && find . -mindepth 1 \\( -type f -perm -u=x -printf 'x %%P\\n' \\) -o \\( "
                               "-type l -printf 'l %%P %%l\\n' \\) -o -printf "
                               "'%%y %%P\\n' | LC_ALL=C sort";
    char *first = strdup(sh_out(list, a));
    bool equal = strcmp(first, sh_out(list, b)) == 0;
    if (!equal)
        print_message("--- %s\n%s\n--- %s\n%s\n", a, first, b, sh_out(list, b));
    free(first);
    return equal && sh_status("diff -r --no-dereference '%s' '%s' >&2", a, b) == 0;
}

uint64_t now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
}

pid_t svnserve_start(int *port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons((uint16_t)*port)
    };
    if (*port == 0) {
        socklen_t len = sizeof address;
        int probe = socket(AF_INET, SOCK_STREAM, 0);
        assert_int_equal(bind(probe, (struct sockaddr *)&address, sizeof address), 0);
        assert_int_equal(getsockname(probe, (struct sockaddr *)&address, &len), 0);
        *port = ntohs(address.sin_port);
        close(probe);
    }
    char port_text[16];
    snprintf(port_text, sizeof port_text, "%d", *port);
    fflush(NULL);
    pid_t server = fork();
    if (server == 0) {
        execlp("svnserve", "svnserve", "-d", "--foreground", "--threads", "--listen-host", "127.0.0.1", "--listen-port",
            port_text, "-r", bed, (char *)NULL);
        _exit(127);
    }
    uint64_t deadline = now_us() + 20 * 1000000u;
    for (;;) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        bool up = connect(fd, (struct sockaddr *)&address, sizeof address) == 0;
        close(fd);
        if (up)
            return server;
        assert_true(now_us() < deadline);
        poll(NULL, 0, 10);
    }
}

void svnserve_end(pid_t server)
{
    if (server <= 0)
        return;
    kill(server, SIGTERM);
    waitpid(server, NULL, 0);
}
