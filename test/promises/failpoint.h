/* failpoint: named points before and after every call that leaves a trace outside the process, at which a test ends it
 * as kill -9 would.
 *
 * Nothing in src/ knows of them: a build for tests gets this file by `-include` (test/promises/build), every other
 * build has nothing of it. The name of a point is FUNCTION.CALL.before or .after; for SQL the call is its first words.
 * Environment, read at the first point: WEIR_FAIL=ROLE/NAME:K   the K-th time a process of that role (server, executor,
 * shim) is there it gets SIGKILL WEIR_FAIL_ONCE=FILE     made when that happened; while it is there nothing happens
 * (restarted processes inherit the environment) WEIR_FAIL_TRACE=FILE    `ROLE/NAME` is appended for each point, each
 * time it is reached
 */
#ifndef WEIR_TEST_FAILPOINT_H
#define WEIR_TEST_FAILPOINT_H

#include <ctype.h>
#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#undef LINE_MAX /* <limits.h>, which came along: a file that didn't ask for it may use the name */

struct failpoint_plan {
    const char *role, *wanted, *once;
    long left;
    int trace_fd;
};

void failpoint_reach(const char *function, const char *call, const char *words, const char *side);

static inline void failpoint_role(char *out, size_t size)
{
    char line[256] = "";
    int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, line, sizeof line - 1) : 0;
    if (fd >= 0)
        close(fd);
    const char *verb = n > 0 ? line + strlen(line) + 1 : "";
    if (verb > line + n)
        verb = "";
    snprintf(out, size, "%s", strcmp(verb, "serve") == 0 ? "server" : *verb ? verb : "none");
}

/* One definition for the whole program, whichever file's: weak. */
__attribute__((weak)) void failpoint_reach(const char *function, const char *call, const char *words, const char *side)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct failpoint_plan plan;
    static char role[32], wanted[200];
    char name[300], sql[48] = "";
    int fault = errno;
    for (size_t i = 0; words && words[i] && i + 1 < sizeof sql && words[i] != '(' && words[i] != '\n'; i++)
        sql[i] = isalnum((unsigned char)words[i]) ? words[i] : '_';
    pthread_mutex_lock(&lock);
    if (!plan.role) {
        failpoint_role(role, sizeof role);
        plan.role = role;
        plan.once = getenv("WEIR_FAIL_ONCE");
        snprintf(wanted, sizeof wanted, "%s", getenv("WEIR_FAIL") ? getenv("WEIR_FAIL") : "");
        char *colon = strrchr(wanted, ':');
        plan.left = colon ? strtol(colon + 1, NULL, 10) : 0;
        if (colon)
            *colon = '\0';
        plan.wanted = plan.once && access(plan.once, F_OK) == 0 ? "" : wanted;
        plan.trace_fd = getenv("WEIR_FAIL_TRACE")
                            ? open(getenv("WEIR_FAIL_TRACE"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600)
                            : -1;
    }
    if (plan.trace_fd >= 0 || *plan.wanted) {
        int n = snprintf(name, sizeof name, "%s/%s.%s%s%s.%s", plan.role, function, call, *sql ? ":" : "", sql, side);
        for (char *p = name; *p; p++)
            if (*p == ':')
                *p = '-';
        if (plan.trace_fd >= 0 && n > 0 && n + 1 < (int)sizeof name) {
            name[n] = '\n';
            ssize_t ignored = (write)(plan.trace_fd, name, (size_t)n + 1);
            (void)ignored;
            name[n] = '\0';
        }
        if (*plan.wanted && strcmp(name, plan.wanted) == 0 && --plan.left == 0) {
            int fd = plan.once ? open(plan.once, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600) : -1;
            if (!plan.once || fd >= 0)
                raise(SIGKILL);
        }
    }
    pthread_mutex_unlock(&lock);
    errno = fault;
}

/* The name of a macro isn't expanded inside itself: the inner call is the real one. */
#define FAILPOINT_AROUND(call, words, ...)                                \
    __extension__({                                                       \
        failpoint_reach(__func__, #call, words, "before");                \
        __typeof__(__VA_ARGS__) failpoint_result = __VA_ARGS__;           \
        failpoint_reach(__func__, #call, words, "after");                 \
        failpoint_result;                                                 \
    })
#define write(...) FAILPOINT_AROUND(write, NULL, write(__VA_ARGS__))
#define pwrite(...) FAILPOINT_AROUND(pwrite, NULL, pwrite(__VA_ARGS__))
#define fsync(...) FAILPOINT_AROUND(fsync, NULL, fsync(__VA_ARGS__))
#define fdatasync(...) FAILPOINT_AROUND(fdatasync, NULL, fdatasync(__VA_ARGS__))
#define rename(...) FAILPOINT_AROUND(rename, NULL, rename(__VA_ARGS__))
#define renameat(...) FAILPOINT_AROUND(renameat, NULL, renameat(__VA_ARGS__))
#define renameat2(...) FAILPOINT_AROUND(renameat2, NULL, renameat2(__VA_ARGS__))
#define unlink(...) FAILPOINT_AROUND(unlink, NULL, unlink(__VA_ARGS__))
#define unlinkat(...) FAILPOINT_AROUND(unlinkat, NULL, unlinkat(__VA_ARGS__))
#define mkdir(...) FAILPOINT_AROUND(mkdir, NULL, mkdir(__VA_ARGS__))
#define mkdirat(...) FAILPOINT_AROUND(mkdirat, NULL, mkdirat(__VA_ARGS__))
#define rmdir(...) FAILPOINT_AROUND(rmdir, NULL, rmdir(__VA_ARGS__))
#define ftruncate(...) FAILPOINT_AROUND(ftruncate, NULL, ftruncate(__VA_ARGS__))
#define posix_fallocate(...) FAILPOINT_AROUND(posix_fallocate, NULL, posix_fallocate(__VA_ARGS__))
#define fchmod(...) FAILPOINT_AROUND(fchmod, NULL, fchmod(__VA_ARGS__))
#define flock(...) FAILPOINT_AROUND(flock, NULL, flock(__VA_ARGS__))
#define bind(...) FAILPOINT_AROUND(bind, NULL, bind(__VA_ARGS__))
#define listen(...) FAILPOINT_AROUND(listen, NULL, listen(__VA_ARGS__))
#define fork(...) FAILPOINT_AROUND(fork, NULL, fork(__VA_ARGS__))
#define posix_spawn(...) FAILPOINT_AROUND(posix_spawn, NULL, posix_spawn(__VA_ARGS__))
#define posix_spawnp(...) FAILPOINT_AROUND(posix_spawnp, NULL, posix_spawnp(__VA_ARGS__))
#define waitpid(...) FAILPOINT_AROUND(waitpid, NULL, waitpid(__VA_ARGS__))
#define wait4(...) FAILPOINT_AROUND(wait4, NULL, wait4(__VA_ARGS__))
#define kill(...) FAILPOINT_AROUND(kill, NULL, kill(__VA_ARGS__))
#define send(...) FAILPOINT_AROUND(send, NULL, send(__VA_ARGS__))
#define sendmsg(...) FAILPOINT_AROUND(sendmsg, NULL, sendmsg(__VA_ARGS__))
#define accept4(...) FAILPOINT_AROUND(accept4, NULL, accept4(__VA_ARGS__))
#define curl_easy_perform(...) FAILPOINT_AROUND(curl_easy_perform, NULL, curl_easy_perform(__VA_ARGS__))
#define curl_multi_add_handle(...) FAILPOINT_AROUND(curl_multi_add_handle, NULL, curl_multi_add_handle(__VA_ARGS__))
#define curl_multi_socket_action(...) \
    FAILPOINT_AROUND(curl_multi_socket_action, NULL, curl_multi_socket_action(__VA_ARGS__))
#define sqlite3_step(stmt) FAILPOINT_AROUND(step, sqlite3_sql(stmt), sqlite3_step(stmt))
#define sqlite3_exec(conn, text, ...) FAILPOINT_AROUND(exec, text, sqlite3_exec(conn, text, __VA_ARGS__))
#define sqlite3_wal_checkpoint_v2(...) FAILPOINT_AROUND(checkpoint, NULL, sqlite3_wal_checkpoint_v2(__VA_ARGS__))
#define sqlite3_open_v2(...) FAILPOINT_AROUND(open, NULL, sqlite3_open_v2(__VA_ARGS__))
#define sqlite3_backup_step(...) FAILPOINT_AROUND(backup_step, NULL, sqlite3_backup_step(__VA_ARGS__))

#endif
