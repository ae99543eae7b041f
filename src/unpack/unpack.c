/* unpack: the reports of a child judged, and made into a result or a refusal. See unpack.h.
 *
 * Owns what is believed of a child: nothing that isn't checked here. It promises that a result that is given is one
 * that a harmless child could have given for some tarball of these limits. */
#include "unpack/unpack.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/map.h"
#include "unpack/job.h"
#include "unpack/report.h"
#include "unpack/walk.h"

enum { RECORD_BYTES = 64, REPORTS_SLACK = 1 << 16, REPORTS_BYTES_MAX = 1 << 30 };

struct judge {
    const struct unpack_order *order;
    struct arena *arena;
    struct unpack_result *out;
    struct err *err;
    struct diags diags;
    struct str meta;
    struct {
        struct str *at;
        size_t n, cap;
    } folders;
    bool has_meta, has_ended, has_confined;
    uint64_t n_read;
};

bool unpack_is_confined(const struct confined *confined, const char **out_missing)
{
    *out_missing = confined->landlock_abi == 0 ? "Landlock" : !confined->has_seccomp ? "seccomp" : "a limit on memory";
    return confined->landlock_abi > 0 && confined->has_seccomp && confined->has_memory_limit;
}

/* --- reports --- */

/* judge_broken: a child that says what it may not isn't ours any more; its tarball is what made it so. */
static bool judge_broken(struct judge *judge)
{
    return err_set(judge->err, ERR_invalid, "the tarball made the process that unpacks it break its rules");
}

static bool confined_take(struct judge *judge, const struct report *report)
{
    if (judge->has_confined || report->number > 1000)
        return judge_broken(judge);
    judge->has_confined = true;
    judge->out->confined = (struct confined){ (int)report->number, (report->more & REPORT_SECCOMP) != 0,
        (report->more & REPORT_MEMORY) != 0 };
    return true;
}

static bool path_take(struct judge *judge, const struct report *report)
{
    const struct changeset_limits *limits = judge->order->limits;
    struct unpack_result *out = judge->out;
    if (changeset_path_check(report->path, limits) != PATH_GOOD)
        return judge_broken(judge);
    if (report->kind == REPORT_FOLDER) {
        if (judge->folders.n >= (uint64_t)limits->files)
            return judge_broken(judge);
        *ARENA_PUSH(judge->arena, judge->folders.at, judge->folders.n, judge->folders.cap) =
            str_dup(judge->arena, report->path);
        return true;
    }
    if (out->n_files >= (uint64_t)limits->files || report->number > limits->unpacked_bytes - out->n_bytes ||
        report->more > 1)
        return judge_broken(judge);
    out->n_bytes += report->number;
    *ARENA_PUSH(judge->arena, out->files, out->n_files, out->cap_files) =
        (struct unpack_file){ str_dup(judge->arena, report->path), report->number, report->more == 1 };
    return true;
}

/* text_clean: bytes of the tarball, fit for an answer. */
static struct str text_clean(struct arena *arena, struct str text)
{
    char *out = arena_alloc(arena, text.len + 1);
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        out[i] = c < 0x20 || c == 0x7f ? '?' : (char)c;
    }
    struct str clean = { out, text.len };
    for (size_t i = 0; !str_is_utf8(clean) && i < text.len; i++)
        out[i] = (unsigned char)out[i] >= 0x80 ? '?' : out[i];
    return clean;
}

/* fault_take: the refusal of a child, in its words. */
static bool fault_take(struct judge *judge, const struct report *report)
{
    static const enum err_code codes[] = { ERR_invalid, ERR_body_too_large, ERR_bad_request, ERR_io, ERR_disk_full,
        ERR_unavailable };
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        if (report->number != (uint64_t)codes[i])
            continue;
        struct str path = text_clean(judge->arena, str_sub(report->path, 0, 1024));
        struct str text = str_sub(report->text, 0, 400);
        if (path.len == 0)
            return err_item(judge->err, codes[i], path, "%.*s", STR_ARG(text));
        return err_item(
            judge->err, codes[i], path, "'%.*s' in the tarball: %.*s", STR_ARG(diag_shown(path)), STR_ARG(text));
    }
    return judge_broken(judge);
}

static bool report_take(struct judge *judge, const struct report *report)
{
    if (judge->has_ended || (!judge->has_confined && report->kind != REPORT_CONFINED && report->kind != REPORT_FAULT))
        return judge_broken(judge);
    switch (report->kind) {
    case REPORT_CONFINED:
        return confined_take(judge, report);
    case REPORT_FOLDER:
    case REPORT_FILE:
        return path_take(judge, report);
    case REPORT_META:
        if (judge->has_meta || report->text.len > judge->order->limits->meta_bytes)
            return judge_broken(judge);
        judge->has_meta = true;
        judge->meta = str_dup(judge->arena, report->text);
        return true;
    case REPORT_FAULT:
        return fault_take(judge, report);
    case REPORT_END:
        judge->has_ended = true;
        judge->n_read = report->number;
        return true;
    case REPORT_NONE:
    case REPORT_KIND_COUNT:
        break;
    }
    return judge_broken(judge);
}

/* --- the end of the child --- */

static bool end_check(struct judge *judge, const struct process_result *result, int64_t timeout_ms)
{
    switch (result->end) {
    case PROCESS_TIMEOUT:
        return err_set(judge->err, ERR_body_too_large, "unpacking the tarball takes longer than %lld s",
            (long long)(timeout_ms / 1000));
    case PROCESS_STOPPED:
        return err_set(judge->err, ERR_unavailable, "unpacking was stopped");
    case PROCESS_TALKATIVE:
        return judge_broken(judge);
    case PROCESS_SIGNALLED:
        if (result->status == SIGXCPU)
            return err_set(judge->err, ERR_body_too_large, "unpacking the tarball takes too much CPU time");
        if (result->status == SIGKILL) /* not ours: the machine's, for want of memory, or a person's */
            return err_set(judge->err, ERR_unavailable, "the process that unpacks was killed");
        return err_set(judge->err, ERR_invalid, "the tarball made the process that unpacks it die: %s",
            sigdescr_np(result->status) != NULL ? sigdescr_np(result->status) : "a signal");
    case PROCESS_EXITED:
        break;
    }
    if (judge->has_ended && judge->has_meta && result->is_fed && judge->n_read == result->n_fed)
        return true;
    return judge->has_ended ? judge_broken(judge)
                            : err_set(judge->err, ERR_unavailable, "the process that unpacks ended too early (exit %d)",
                                  result->status);
}

/* --- files and ##files --- */

static bool same_but_case(struct str a, struct str b)
{
    bool same = a.len == b.len;
    for (size_t i = 0; same && i < a.len; i++)
        same = a.ptr[i] == b.ptr[i] ||
               ((a.ptr[i] ^ b.ptr[i]) == 0x20 && ((a.ptr[i] | 0x20) >= 'a') && ((a.ptr[i] | 0x20) <= 'z'));
    return same;
}

__attribute__((format(printf, 4, 5))) static void path_fault(
    struct judge *judge, struct str path, unsigned line, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    struct buf buf;
    buf_init(&buf, 200);
    buf_vaddf(&buf, fmt, args);
    va_end(args);
    struct diag_place place = { judge->out->meta.file, line, line > 0 ? 1 : 0 };
    diag_error(&judge->diags, place, "'%.*s' %.*s", STR_ARG(diag_shown(path)), STR_ARG(buf_str(&buf)));
    buf_release(&buf);
    if (judge->diags.n_dropped == 0)
        judge->diags.items[judge->diags.n - 1].pointer = path;
}

/* case_suggest: a listed path that differs from this one by the case of letters alone. */
static void case_suggest(struct judge *judge, struct str path)
{
    const struct meta_lines *files = &judge->out->meta.files;
    for (size_t i = 0; judge->diags.n_dropped == 0 && i < files->n; i++)
        if (same_but_case(files->at[i].text, path)) {
            diag_suggest(&judge->diags, "##files has '%.*s': capital letters count", STR_ARG(files->at[i].text));
            return;
        }
}

/* files_compare: exactly the files of ##files, each once. */
static void files_compare(struct judge *judge)
{
    const struct unpack_result *out = judge->out;
    const struct meta_lines *listed = &out->meta.files;
    struct smap lines = { 0 }, seen = { 0 };
    for (size_t i = 0; i < listed->n; i++)
        smap_put(&lines, listed->at[i].text, &listed->at[i]);
    for (size_t i = 0; i < out->n_files; i++) {
        struct str path = out->files[i].path;
        if (smap_find(&seen, path) != NULL)
            path_fault(judge, path, 0, "stands in the tarball twice");
        else if (smap_find(&lines, path) == NULL) {
            path_fault(judge, path, 0, "is in the tarball, but not in ##files");
            case_suggest(judge, path);
        }
        smap_put(&seen, path, &out->files[i]);
    }
    for (size_t i = 0; i < listed->n; i++)
        if (smap_find(&seen, listed->at[i].text) == NULL)
            path_fault(judge, listed->at[i].text, listed->at[i].line, "is in ##files, but not in the tarball");
    for (size_t i = 0; i < judge->folders.n; i++) {
        const struct meta_line *line = smap_find(&lines, judge->folders.at[i]);
        if (line != NULL)
            path_fault(judge, line->text, line->line, "is a folder in the tarball");
    }
    smap_release(&lines);
    smap_release(&seen);
}

static bool meta_judge(struct judge *judge)
{
    struct changeset_meta *meta = &judge->out->meta;
    const struct unpack_order *order = judge->order;
    if (changeset_meta_read(judge->meta, order->limits, judge->arena, &judge->diags, meta)) {
        changeset_meta_check(meta, order->csid, order->name, &judge->diags);
        files_compare(judge);
        diags_sort(&judge->diags);
    }
    return changeset_meta_refuse(meta, &judge->diags, judge->err);
}

/* --- both calls --- */

static size_t reports_max(const struct changeset_limits *limits)
{
    uint64_t bytes = limits->meta_bytes + REPORTS_SLACK +
                     2 * (uint64_t)limits->files * ((uint64_t)limits->path_bytes + RECORD_BYTES);
    return bytes < REPORTS_BYTES_MAX ? (size_t)bytes : REPORTS_BYTES_MAX;
}

/* reports_read: views of the buffer go no further than this call. */
static bool reports_read(struct judge *judge, const struct process_result *result, int64_t timeout_ms)
{
    struct str rest = buf_str(&result->reports);
    struct report report;
    while (rest.len > 0 && report_cut(&rest, &report))
        if (!report_take(judge, &report))
            return false;
    return end_check(judge, result, timeout_ms);
}

static bool unpack_run(const struct unpack_order *order, int dir_fd, int stop_fd, struct arena *arena,
    struct unpack_result *out, struct err *err)
{
    struct judge judge = { .order = order, .arena = arena, .out = out, .err = err, .diags = { .arena = arena } };
    int64_t timeout_ms = order->timeout_ms > 0 ? order->timeout_ms : UNPACK_TIMEOUT_MS;
    struct process_order process = { .child = { dir_fd >= 0, *order->limits, timeout_ms / 1000 + 1, getpid() },
        .program = order->program != NULL ? order->program : "/proc/self/exe",
        .tarball_fd = order->tarball_fd,
        .dir_fd = dir_fd,
        .stop_fd = stop_fd,
        .timeout_ms = timeout_ms,
        .report_bytes_max = reports_max(order->limits) };
    struct process_result result;
    *out = (struct unpack_result){ 0 };
    if (!process_run(&process, &result, err))
        return false;
    bool good = reports_read(&judge, &result, timeout_ms);
    buf_release(&result.reports);
    if (!good || !meta_judge(&judge))
        return false;
    memcpy(out->sha256, result.sha256, sizeof out->sha256);
    out->tarball_bytes = result.n_fed;
    if (order->sha256 != NULL && memcmp(order->sha256, out->sha256, sizeof out->sha256) != 0)
        return err_set(err, ERR_corrupt, "the tarball isn't the one that was accepted: its hash is another");
    return true;
}

bool unpack_check(const struct unpack_order *order, struct arena *arena, struct unpack_result *out, struct err *err)
{
    return unpack_run(order, -1, -1, arena, out, err);
}

/* file_is: the file is there, reached without a link, as the child reported it. */
static bool file_is(int dir_fd, const char *path, uint64_t size, bool is_executable)
{
    struct open_how how = { .flags = O_PATH | O_NOFOLLOW | O_CLOEXEC,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS };
    struct stat st = { 0 };
    int fd = (int)syscall(SYS_openat2, dir_fd, path, &how, sizeof how);
    if (fd < 0 && errno == ENOSYS)
        fd = openat(dir_fd, path, O_PATH | O_NOFOLLOW | O_CLOEXEC); /* walk_count has seen no link */
    bool good = fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (uint64_t)st.st_size == size &&
                ((st.st_mode & 0100) != 0) == is_executable;
    if (fd >= 0)
        close(fd);
    return good;
}

/* tree_judge: the directory holds what the child reported, and nothing else. */
static bool tree_judge(const struct unpack_order *order, int dir_fd, const struct unpack_result *out, struct err *err)
{
    struct walked walked;
    if (!walk_count(dir_fd, order->limits->depth + 1, &walked, err))
        return false;
    bool good = !walked.is_strange && walked.n_files == out->n_files + 1 &&
                walked.n_bytes == out->n_bytes + out->meta.file->text.len &&
                file_is(dir_fd, "meta", out->meta.file->text.len, false);
    struct arena arena = { 0 };
    for (size_t i = 0; good && i < out->n_files; i++) {
        const struct unpack_file *file = &out->files[i];
        good = file_is(dir_fd, str_dupz(&arena, str_fmt(&arena, "lroot/%.*s", STR_ARG(file->path))), file->size,
            file->is_executable);
        arena_reset(&arena);
    }
    arena_release(&arena);
    return good || err_set(err, ERR_invalid, "the tarball made the process that unpacks it write other files");
}

static bool extract_run(const struct unpack_order *order, int dir_fd, int stop_fd, struct arena *arena,
    struct unpack_result *out, struct err *err)
{
    struct walked walked;
    if (!walk_count(dir_fd, 1, &walked, err))
        return false;
    if (walked.n_files + walked.n_folders > 0)
        return err_set(err, ERR_io, "the directory for a change set isn't empty");
    if (unpack_run(order, dir_fd, stop_fd, arena, out, err) && tree_judge(order, dir_fd, out, err))
        return true;
    struct err ignored = { 0 };
    walk_remove(dir_fd, &ignored); /* the refusal is what the caller has to know */
    return false;
}

bool unpack_extract(
    const struct unpack_order *order, int dir_fd, struct arena *arena, struct unpack_result *out, struct err *err)
{
    return extract_run(order, dir_fd, -1, arena, out, err);
}

bool unpack_job_run(struct unpack_job *job)
{
    if (job->dir_fd < 0)
        return unpack_run(&job->order, -1, job->stop_fd, &job->arena, &job->result, &job->err);
    return extract_run(&job->order, job->dir_fd, job->stop_fd, &job->arena, &job->result, &job->err);
}
