/* A server without descriptors (RELIABILITY.md 3.5, row 10): it says so, doesn't spin, and recovers. In a process of
 * its own, whose limit is low. */
#include "bed.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LIMIT = 40, MANY = 80 };

static pid_t server_start(uint16_t *out_port)
{
    int tell[2];
    assert_int_equal(pipe(tell), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        static struct bed bed;
        bed_open(&bed, 0, 5);
        struct rlimit limit = { LIMIT, LIMIT };
        setrlimit(RLIMIT_NOFILE, &limit);
        if (write(tell[1], &bed.port, sizeof bed.port) != (ssize_t)sizeof bed.port)
            _exit(1);
        close(tell[0]);
        close(tell[1]);
        unlink(bed.socket_path);
        rmdir(bed.folder);
        loop_run(bed.loop);
        _exit(0);
    }
    close(tell[1]);
    assert_int_equal(read(tell[0], out_port, sizeof *out_port), sizeof *out_port);
    close(tell[0]);
    return pid;
}

static void runs_out_of_descriptors(void **state)
{
    (void)state;
    uint16_t port = 0;
    pid_t pid = server_start(&port);
    int fds[MANY];
    char answer[4096];
    bool closed;
    for (int i = 0; i < MANY; i++)
        fds[i] = raw_connect(port);
    /* One that is told why; the rest waits in the kernel's queue. */
    int64_t deadline = now_ms() + 10000;
    bool told = false;
    while (!told && now_ms() < deadline) {
        for (int i = 0; i < MANY && !told; i++) {
            struct pollfd wait = { .fd = fds[i], .events = POLLIN };
            if (poll(&wait, 1, 0) == 1) {
                raw_read_all(fds[i], answer, sizeof answer, &closed);
                told = closed && strncmp(answer, "HTTP/1.1 503 ", 13) == 0;
                close(fds[i]);
                fds[i] = raw_connect(port);
            }
        }
    }
    assert_true(told);
    for (int i = 0; i < MANY; i++)
        close(fds[i]);
    do {
        int fd = raw_connect(port);
        RAW_SEND(fd, "GET /hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        raw_read_all(fd, answer, sizeof answer, &closed);
        close(fd);
    } while (!strstr(answer, "hello") && now_ms() < deadline);
    assert_non_null(strstr(answer, "hello"));
    kill(pid, SIGKILL);
    struct rusage used;
    int status;
    assert_int_equal(wait4(pid, &status, 0, &used), pid);
    assert_true(used.ru_utime.tv_sec + used.ru_stime.tv_sec < 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(runs_out_of_descriptors) };
    return cmocka_run_group_tests_name("io-http-limits", tests, NULL, NULL);
}
