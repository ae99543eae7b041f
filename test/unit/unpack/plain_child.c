/* plain_child: the program that unpacks, built without sanitizers wherever the tests are built with them, so that it is
 * really confined.
 *
 * A tarball that begins with "PROBE N" makes it confine itself as ever and then try what a child in an attacker's hands
 * would try; one that begins with "LIE N" makes it report what such a child would report. */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "probes.h"
#include "unpack/child.h"
#include "unpack/report.h"

static char head_room[4096];

static void send_reports(const struct buf *buf)
{
    struct str rest = buf_str(buf);
    while (rest.len > 0) {
        ssize_t n = write(CHILD_FD_REPORT, rest.ptr, rest.len);
        if (n <= 0)
            _exit(1);
        rest = str_sub(rest, (size_t)n, rest.len);
    }
}

/* --- probes --- */

static long try_openat2(const char *path, uint64_t flags)
{
    struct open_how how = { .flags = flags, .mode = flags & O_CREAT ? 0644 : 0 };
    return syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how);
}

static long try_memory(void)
{
    char *memory = mmap(NULL, (size_t)1 << 30, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? -1 : 0;
}

static long try_long_file(void)
{
    char bytes[4096] = { 0 };
    int fd = openat(CHILD_FD_DIR, "long", O_WRONLY | O_CREAT, 0644);
    for (int i = 0; fd >= 0 && i < 10000; i++)
        if (write(fd, bytes, sizeof bytes) < 0)
            return -1;
    return fd;
}

static long try_many_files(void)
{
    for (int i = 0; i < 100; i++)
        if (openat(CHILD_FD_DIR, "many", O_WRONLY | O_CREAT, 0644) < 0)
            return -1;
    return 0;
}

static long try_read_back(void)
{
    int fd = openat(CHILD_FD_DIR, "back", O_WRONLY | O_CREAT, 0644);
    return fd < 0 ? 0 : openat(CHILD_FD_DIR, "back", O_RDONLY);
}

static long try_spin(void)
{
    volatile unsigned long n = 0;
    while (n < UINT64_MAX)
        n++;
    return 0;
}

static long probe_run(int n)
{
    char *const argv[] = { NULL };
    struct iovec piece = { (void *)&errno, 1 };
    switch (n) {
#define PROBE(name, call, check, extract) \
    case PROBE_##name: \
        return (long)(call);
#include "probes.def"
#undef PROBE
    default:
        return 0;
    }
    (void)argv;
    (void)piece;
}

static void probe_main(int n, const struct child_order *order)
{
    struct confined confined = { 0 };
    struct err err = { 0 };
    struct buf out;
    buf_init(&out, 4096);
    if (!confine_parent(order->parent_pid))
        _exit(2);
    if (!child_confine(order, &confined, &err)) {
        report_add(&out, &(struct report){ REPORT_FAULT, ERR_unavailable, 0, { 0 }, str_of(err.text) });
        send_reports(&out);
        _exit(0);
    }
    report_add(
        &out, &(struct report){ REPORT_CONFINED, (uint64_t)confined.landlock_abi,
                  (confined.has_seccomp ? REPORT_SECCOMP : 0u) | (confined.has_memory_limit ? REPORT_MEMORY : 0u),
                  { 0 }, { 0 } });
    send_reports(&out);
    buf_reset(&out);
    errno = 0;
    long result = probe_run(n);
    struct str word = str_of(result >= 0 ? "done" : strerrorname_np(errno));
    report_add(&out, &(struct report){ REPORT_FAULT, ERR_invalid, 0, { 0 }, word });
    send_reports(&out);
    _exit(0);
}

/* --- lies --- */

static void lie_main(int n, const struct child_order *order)
{
    static const char meta[] = "##movetype\nDC\n##target\nt\n##files\na\n";
    struct report confined = { REPORT_CONFINED, 7, 3, { 0 }, { 0 } }, file = { REPORT_FILE, 1, 0, STR("a"), { 0 } };
    struct report text = { REPORT_META, 0, 0, { 0 }, STR(meta) }, end = { REPORT_END, LIE_BYTES, 0, { 0 }, { 0 } };
    struct report fault = { REPORT_FAULT, ERR_invalid, 0, { 0 }, STR("no") };
    struct buf out;
    char all[4096];
    size_t n_read = 0;
    buf_init(&out, SIZE_MAX);
    while (n_read < LIE_BYTES) {
        ssize_t got = read(0, all, sizeof all);
        if (got <= 0)
            break;
        n_read += (size_t)got;
    }
    switch (n) {
#define LIE(name, says, ...) \
    case LIE_##name: { \
        const struct report *const said[] = { __VA_ARGS__, NULL }; \
        for (size_t i = 0; said[i] != NULL; i++) \
            report_add(&out, said[i]); \
        break; \
    }
#include "probes.def"
#undef LIE
    default:
        break;
    }
    if (n == LIE_garbage)
        buf_add(&out, "\xff\xff\xff\xff\xff\xff", 6);
    if (n == LIE_flood)
        for (int i = 0; i < 1 << 20; i++)
            report_add(&out, &text);
    if (n == LIE_written_more && order->is_extract)
        close(openat(CHILD_FD_DIR, "more", O_WRONLY | O_CREAT, 0644));
    if (n == LIE_written_link && order->is_extract && symlinkat("/etc/passwd", CHILD_FD_DIR, "meta") < 0)
        _exit(9);
    send_reports(&out);
    if (n == LIE_stays)
        for (;;)
            pause();
    _exit(n == LIE_dies ? 7 : 0);
}

int main(int argc, char **argv)
{
    char head[16] = "";
    struct child_order order;
    const char *words[CHILD_ARGUMENTS];
    if (argc != CHILD_ARGUMENTS + 2)
        return 2;
    for (int i = 0; i < CHILD_ARGUMENTS; i++)
        words[i] = argv[i + 2];
    if (!child_order_parse(words, &order) || recv(0, head, sizeof head - 1, MSG_PEEK) < 0)
        return 2;
    if (memcmp(head, "PROBE ", 6) == 0)
        probe_main((int)strtol(head + 6, NULL, 10), &order);
    if (memcmp(head, "LIE ", 4) == 0)
        lie_main((int)strtol(head + 4, NULL, 10), &order);
    _exit(child_main(words));
}
