/* bench: what every program of this folder needs: a clock, latencies, result lines, a listening socket.
 *
 * Programs print RESULT lines (tab-separated: RESULT, peer, metric, value, unit) that bench/run reads. A failure prints
 * why and ends the program: a benchmark that goes on after an error measures something else. */
#ifndef WEIR_BENCH_H
#define WEIR_BENCH_H

#include <stddef.h>
#include <stdint.h>

/* What a client sends where the baselines have one row: the same bytes for all. */
#define BENCH_PAYLOAD "{\"task\":\"build\",\"revision\":123456,\"args\":[\"a\",\"b\"],\"env\":{\"K\":\"V\"}}"

int64_t bench_now_ns(void);
_Noreturn void bench_die(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void bench_result(const char *peer, const char *metric, double value, const char *unit);
double bench_seconds(void);             /* CELL_S, 3 unless told */
int64_t bench_number(const char *text); /* a whole decimal number above zero; else ends the program */

struct latencies {
    int64_t *ns;
    size_t n, cap;
};
void latencies_add(struct latencies *all, int64_t ns);
double latencies_us(struct latencies *all, double percent); /* sorts */
void latencies_release(struct latencies *all);
/* latencies_result: lines "METRIC p50", "METRIC p99". */
void latencies_result(struct latencies *all, const char *peer, const char *metric);

/* bench_listen: a socket on 127.0.0.1 with a free port; its address (http://127.0.0.1:PORT) is written to the file,
 * which appears whole. */
int bench_listen(const char *address_file);
void bench_address_write(const char *address_file, unsigned port);

#endif
