/* child: see child.h. What it does before it is confined: reads its command line and the first six bytes of the
 * tarball, and loads libarchive if these ask for it. Everything else happens with the rights of confine.h. */
#include "unpack/child.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unpack/content.h"
#include "unpack/stream.h"

enum { MEMORY_BYTES = 384 << 20, HEADERS_BYTES = 8192, SLACK_BYTES = 4 << 20, REPORT_BYTES_MAX = 1 << 16 };

void child_order_format(const struct child_order *order, struct arena *arena, char *out[CHILD_ARGUMENTS])
{
    const struct changeset_limits *limits = &order->limits;
    const uint64_t numbers[] = { limits->unpacked_bytes, limits->meta_bytes, (uint64_t)limits->files,
        (uint64_t)limits->path_bytes, (uint64_t)limits->depth, (uint64_t)order->cpu_s, (uint64_t)order->parent_pid };
    out[0] = str_dupz(arena, order->is_extract ? STR("extract") : STR("check"));
    for (size_t i = 1; i < CHILD_ARGUMENTS; i++)
        out[i] = str_dupz(arena, str_fmt(arena, "%llu", (unsigned long long)numbers[i - 1]));
}

bool child_order_parse(const char *const words[CHILD_ARGUMENTS], struct child_order *out)
{
    int64_t numbers[CHILD_ARGUMENTS - 1];
    struct str mode = str_of(words[0]);
    bool is_extract = str_eq(mode, STR("extract"));
    if (!is_extract && !str_eq(mode, STR("check")))
        return false;
    for (size_t i = 1; i < CHILD_ARGUMENTS; i++)
        if (!str_to_i64(str_of(words[i]), &numbers[i - 1]) || numbers[i - 1] < 1)
            return false;
    *out = (struct child_order){ is_extract,
        { (uint64_t)numbers[0], (uint64_t)numbers[1], numbers[2], numbers[3], numbers[4] }, numbers[5], numbers[6] };
    return true;
}

bool child_confine(const struct child_order *order, struct confined *out, struct err *err)
{
    uint64_t longest = order->limits.unpacked_bytes > order->limits.meta_bytes ? order->limits.unpacked_bytes
                                                                               : order->limits.meta_bytes;
    struct confine_order confine = { .dir_fd = order->is_extract ? CHILD_FD_DIR : -1,
        .file_bytes = longest,
        .memory_bytes = MEMORY_BYTES + order->limits.meta_bytes * 2,
        .cpu_s = order->cpu_s };
    return confine_process(&confine, out, err);
}

/* --- reports --- */

struct child {
    struct child_order order;
    struct arena arena;
    struct buf out; /* reports that wait to be written */
    struct stream stream;
    struct tar_reader tar;
    struct content content;
    struct tree tree;
};

static bool out_flush(struct child *child, struct err *err)
{
    struct str rest = buf_str(&child->out);
    while (rest.len > 0) {
        ssize_t n = write(CHILD_FD_REPORT, rest.ptr, rest.len);
        if (n < 0 && errno != EINTR)
            return err_set(err, ERR_io, "nobody reads the reports");
        rest = str_sub(rest, n > 0 ? (size_t)n : 0, rest.len);
    }
    buf_reset(&child->out);
    return true;
}

static bool child_report(void *owner, const struct report *report, struct err *err)
{
    struct child *child = owner;
    report_add(&child->out, report);
    return child->out.len < REPORT_BYTES_MAX || out_flush(child, err);
}

/* --- the run --- */

static bool tar_take(void *owner, struct str bytes, struct err *err)
{
    struct child *child = owner;
    return tar_reader_feed(&child->tar, bytes, err);
}

/* stream_bytes_max: content, and for each entry its header, an extended one, and padding. */
static uint64_t stream_bytes_max(const struct changeset_limits *limits)
{
    return limits->unpacked_bytes + limits->meta_bytes + 2 * (uint64_t)limits->files * HEADERS_BYTES + SLACK_BYTES;
}

static bool child_unpack(struct child *child, struct err *err)
{
    const struct changeset_limits *limits = &child->order.limits;
    struct confined confined = { 0 };
    if (!stream_open(&child->stream, CHILD_FD_TARBALL, stream_bytes_max(limits), err) ||
        !child_confine(&child->order, &confined, err))
        return false;
    unsigned flags = (confined.has_seccomp ? REPORT_SECCOMP : 0u) | (confined.has_memory_limit ? REPORT_MEMORY : 0u);
    if (!child_report(
            child, &(struct report){ REPORT_CONFINED, (uint64_t)confined.landlock_abi, flags, { 0 }, { 0 } }, err))
        return false;
    content_init(&child->content, limits, &child->arena);
    child->content.report = child_report;
    child->content.owner = child;
    child->tree = (struct tree){ CHILD_FD_DIR, -1 };
    child->content.tree = child->order.is_extract ? &child->tree : NULL;
    struct tar_events events = content_events(&child->content);
    tar_reader_init(&child->tar, &events);
    return stream_run(&child->stream, tar_take, child, err) && tar_reader_end(&child->tar, err) &&
           content_end(&child->content, err);
}

int child_main(const char *const words[CHILD_ARGUMENTS])
{
    static struct child child;
    struct err err = { 0 };
    if (!child_order_parse(words, &child.order) || !confine_parent(child.order.parent_pid) ||
        close_range(child.order.is_extract ? CHILD_FD_COUNT : CHILD_FD_DIR, ~0u, 0) < 0)
        return 2;
    umask(0);
    buf_init(&child.out, SIZE_MAX);
    if (child_unpack(&child, &err))
        report_add(&child.out, &(struct report){ REPORT_END, child.stream.n_read, 0, { 0 }, { 0 } });
    else
        report_add(
            &child.out, &(struct report){ REPORT_FAULT, err.code, 0, tar_reader_path(&child.tar), str_of(err.text) });
    return out_flush(&child, &err) ? 0 : 1;
}
