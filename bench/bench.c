/* bench: see bench.h. */
#include "bench.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

int64_t bench_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void bench_die(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fputs("bench: ", stderr);
    vfprintf(stderr, fmt, args);
    fputc('\n', stderr);
    va_end(args);
    exit(1);
}

void bench_result(const char *peer, const char *metric, double value, const char *unit)
{
    printf("RESULT\t%s\t%s\t%.3f\t%s\n", peer, metric, value, unit);
    fflush(stdout);
}

double bench_seconds(void)
{
    const char *text = getenv("CELL_S");
    double seconds = text && *text ? strtod(text, NULL) : 3;
    return seconds > 0 ? seconds : 3;
}

int64_t bench_number(const char *text)
{
    char *end;
    errno = 0;
    long long n = strtoll(text, &end, 10);
    if (errno || *end || end == text || n <= 0) {
        bench_die("'%s' isn't a number above zero", text);
    }
    return n;
}

void latencies_add(struct latencies *all, int64_t ns)
{
    if (all->n == all->cap) {
        all->cap = all->cap ? all->cap * 2 : 4096;
        all->ns = realloc(all->ns, all->cap * sizeof *all->ns);
        if (!all->ns) {
            bench_die("no memory");
        }
    }
    all->ns[all->n++] = ns;
}

static int ns_compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

double latencies_us(struct latencies *all, double percent)
{
    if (!all->n) {
        return 0;
    }
    qsort(all->ns, all->n, sizeof *all->ns, ns_compare);
    return (double)all->ns[(size_t)(percent / 100 * (double)(all->n - 1) + 0.5)] / 1000;
}

void latencies_release(struct latencies *all)
{
    free(all->ns);
    *all = (struct latencies){ 0 };
}

void latencies_result(struct latencies *all, const char *peer, const char *metric)
{
    static const double percents[] = { 50, 99 };
    for (size_t i = 0; i < 2; i++) {
        char name[128];
        snprintf(name, sizeof name, "%s p%.0f", metric, percents[i]);
        bench_result(peer, name, latencies_us(all, percents[i]), "us");
    }
}

void bench_address_write(const char *address_file, unsigned port)
{
    char half[512];
    snprintf(half, sizeof half, "%s.tmp", address_file);
    FILE *file = fopen(half, "w");
    if (!file || fprintf(file, "http://127.0.0.1:%u\n", port) < 0 || fclose(file) != 0 ||
        rename(half, address_file) != 0) {
        bench_die("writing %s: %s", address_file, strerror(errno));
    }
}

int bench_listen(const char *address_file)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof address;
    if (fd < 0 || bind(fd, (const struct sockaddr *)&address, len) != 0 || listen(fd, 512) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &len) != 0) {
        bench_die("listening: %s", strerror(errno));
    }
    bench_address_write(address_file, ntohs(address.sin_port));
    return fd;
}
