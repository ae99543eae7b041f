/* base_spawn [N [IN_FLIGHT]]: what starting processes costs at least: posix_spawn of /bin/true with stdout and stderr
 * in a pipe, which is read to its end before the process is reaped. No log kept, no history, no limit on anything. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

enum { FLIGHT_MAX = 64 };

struct flight {
    pid_t pids[FLIGHT_MAX];
    struct pollfd pipes[FLIGHT_MAX];
    nfds_t n;
};

static void job_start(struct flight *flight)
{
    static char program[] = "/bin/true";
    char *const argv[] = { program, NULL };
    int ends[2];
    posix_spawn_file_actions_t actions;
    if (pipe2(ends, O_CLOEXEC) != 0) {
        bench_die("pipe: %s", strerror(errno));
    }
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 2);
    int no = posix_spawn(&flight->pids[flight->n], program, &actions, NULL, argv, environ);
    if (no) {
        bench_die("posix_spawn: %s", strerror(no));
    }
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    flight->pipes[flight->n++] = (struct pollfd){ .fd = ends[0], .events = POLLIN };
}

static int job_reap(struct flight *flight, nfds_t i)
{
    char bytes[4096];
    if (!flight->pipes[i].revents || read(flight->pipes[i].fd, bytes, sizeof bytes) > 0) {
        return 0;
    }
    int status;
    close(flight->pipes[i].fd);
    if (waitpid(flight->pids[i], &status, 0) < 0 || status != 0) {
        bench_die("/bin/true didn't end well");
    }
    flight->n--;
    flight->pids[i] = flight->pids[flight->n];
    flight->pipes[i] = flight->pipes[flight->n];
    return 1;
}

int main(int argc, char **argv)
{
    int64_t n = argc > 1 ? bench_number(argv[1]) : 5000, in_flight = argc > 2 ? bench_number(argv[2]) : 4;
    if (in_flight > FLIGHT_MAX) {
        bench_die("at most %d in flight", FLIGHT_MAX);
    }
    struct flight flight = { .n = 0 };
    int64_t started = 0, ended = 0, start = bench_now_ns();
    while (ended < n) {
        for (; (int64_t)flight.n < in_flight && started < n; started++) {
            job_start(&flight);
        }
        poll(flight.pipes, flight.n, -1);
        for (nfds_t i = flight.n; i-- > 0;) {
            ended += job_reap(&flight, i);
        }
    }
    char metric[64];
    snprintf(metric, sizeof metric, "true in-flight=%d rate", (int)in_flight);
    bench_result("spawn", metric, (double)n / ((double)(bench_now_ns() - start) / 1e9), "jobs/s");
    return 0;
}
