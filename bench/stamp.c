/* stamp FILE: appends the time, and that is all: what a hook or a job does that only says when it began. */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "bench.h"

int main(int argc, char **argv)
{
    char line[32];
    int64_t now = bench_now_ns();
    if (argc != 2) {
        bench_die("stamp FILE");
    }
    int n = snprintf(line, sizeof line, "%lld\n", (long long)now);
    int fd = open(argv[1], O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    return fd >= 0 && write(fd, line, (size_t)n) == n ? 0 : 1;
}
