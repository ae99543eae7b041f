/* What the agent sends of a job that writes any bytes: WEIR_OUTPUT, its log, files and their names. The oracle is the
 * server's own reader: the request of each kept file finds its route with its name whole, the finish is read as a whole
 * and says what the job wrote, and it fits the smallest request that carries ends.
 *
 * The input is cut at its first two form feeds: outputs, log, names of files (a line each). */
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/call.h"
#include "exec/agent/agent.h"
#include "exec/output.h"
#include "exec/workdir.h"
#include "fuzz.h"
#include "io/http_target.h"

#define SHAPES(X) X(outputs) X(outputs_left) X(log) X(files) X(file_left) X(backslash) X(executable) X(empty)
FUZZ_SHAPES(SHAPES)

enum { FINISH_BYTES_MAX = 1000 << 10, FILES_MAX = 40 };

static struct shim_handle handle;
static struct agent agent;
static const struct fence_key key;
static char root[] = "/tmp/weir-fuzz-XXXXXX";

static void room_remove(void)
{
    workdir_remove(AT_FDCWD, root);
}

static void room_make(void)
{
    if (handle.dir_fd > 0)
        return;
    HOLDS(mkdtemp(root) != NULL && atexit(room_remove) == 0);
    handle = (struct shim_handle){ .agent = &agent, .task = 7, .upload.wanted = true };
    snprintf(handle.fence, sizeof handle.fence, "%s", fence_seal(&key, (struct fence){ 1, 7, 1 }).z);
    handle.dir_fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    buf_init(&handle.upload.list, (size_t)2 << 20);
    HOLDS(handle.dir_fd > 0 && mkdirat(handle.dir_fd, "io", 0700) == 0);
    handle.log_fd = openat(handle.dir_fd, "log", O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    HOLDS(handle.log_fd >= 0);
}

static void file_make(int dir_fd, const char *name, struct str bytes, mode_t mode)
{
    int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
    HOLDS(fd >= 0 && (bytes.len == 0 || write(fd, bytes.ptr, bytes.len) == (ssize_t)bytes.len));
    close(fd);
}

/* files_make: what of the lines can be a file's name here. */
static size_t files_make(int work_fd, struct str names)
{
    struct str line;
    size_t n = 0;
    while (n < FILES_MAX && str_cut(&names, '\n', &line)) {
        char name[256];
        if (line.len == 0 || line.len > 255 || memchr(line.ptr, '/', line.len) || memchr(line.ptr, '\0', line.len) ||
            str_eqz(line, ".") || str_eqz(line, ".."))
            continue;
        snprintf(name, sizeof name, "%.*s", STR_ARG(line));
        if (faccessat(work_fd, name, F_OK, 0) == 0)
            continue;
        file_make(work_fd, name, line, line.len % 2 ? 0755 : 0644);
        n++;
    }
    return n;
}

static void pieces_arrive(struct arena *arena)
{
    while (!send_done(&handle)) {
        struct str name = handle.upload.files[handle.upload.at].name, path, query, args[ROUTE_ARGS];
        struct err err = { .arena = arena };
        HOLDS(http_target_parse(arena, STR("POST"), str_of(send_path(&handle, arena)), &path, &query, &err));
        const struct route *route = route_find(STR("POST"), path, args, NULL);
        HOLDS(route && strcmp(route->path, "/v1/tasks/{task}/artifacts/{file}") == 0);
        HOLDS(str_eqz(args[0], "7") && str_eq(args[1], name) && file_name_is_valid(name));
        SEEN_IF(backslash, str_index(name, '\\') >= 0);
        SEEN_IF(executable, handle.upload.files[handle.upload.at].executable);
        send_add(&handle, "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef");
    }
    HOLDS(!handle.upload.list.full);
}

static void end_arrives(struct arena *arena, struct str log)
{
    struct buf out;
    struct finish_item *items;
    size_t n;
    struct err err = { .arena = arena };
    buf_init(&out, (size_t)16 << 20);
    struct json json = json_to(&out);
    json_array_begin(&json);
    report_item(&handle, &json);
    json_array_end(&json);
    HOLDS(!out.full && out.len < FINISH_BYTES_MAX && str_is_utf8(buf_str(&out)));
    const struct doc_node *document = json_read_body(buf_str(&out), arena, &err);
    HOLDS(document && finish_read_list(&key, arena, document, STR("/items"), &items, &n, &err) && n == 1);
    HOLDS(!items[0].malformed && items[0].fence.grant == 1 && items[0].exit == 3);
    HOLDS(str_eq(items[0].log, str_sub(log, 0, (size_t)(16 << 10))) && items[0].log_bytes == (int64_t)log.len);
    SEEN_IF(log, log.len > 0);
    struct str outputs = items[0].outputs;
    struct str artifacts = artifacts_split(&outputs);
    json_t *kept = json_parse(artifacts, 4, &err), *said = outputs.len > 0 ? json_parse(outputs, 4, &err) : NULL;
    HOLDS(json_array_size(kept) == handle.upload.n);
    SEEN_IF(files, handle.upload.n > 0);
    SEEN_IF(outputs, json_object_size(said) > 0);
    json_decref(kept);
    json_decref(said);
    buf_release(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct str text = { (const char *)bytes, len }, outputs = { 0 }, job_log = { 0 };
    struct arena arena = { 0 };
    char every[] = "**";
    char *const patterns[] = { every, NULL };
    room_make();
    str_cut(&text, '\f', &outputs);
    str_cut(&text, '\f', &job_log);
    job_log = str_sub(job_log, 0, 16 << 10);
    SEEN_IF(empty, outputs.len == 0 && job_log.len == 0);

    struct log_file log;
    HOLDS(ftruncate(handle.log_fd, 0) == 0);
    log_file_open(&log, handle.log_fd, 1 << 20);
    log_file_add(&log, job_log);
    file_make(handle.dir_fd, "io/out", outputs, 0600);
    int work_fd = workdir_open(handle.dir_fd, "work"), notes_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    HOLDS(work_fd >= 0 && notes_fd >= 0 && workdir_empty(work_fd));
    size_t n_files = files_make(work_fd, text);
    struct log_file notes;
    log_file_open(&notes, notes_fd, 1 << 20);
    artifacts_collect(handle.dir_fd, work_fd, patterns, &notes);
    close(work_fd);
    close(notes_fd);

    handle.status = (struct status){ .exit = 3, .signo = -1, .finished_ms = 1 };
    handle.state = HANDLE_ENDED;
    handle.log_bytes = (int64_t)job_log.len;
    handle.stored = handle.upload.offset = 0;
    send_begin(&handle);
    HOLDS(handle.upload.listed && handle.upload.n <= n_files);
    SEEN_IF(file_left, handle.upload.n < n_files);
    SEEN_IF(outputs_left, outputs.len > 0 && str_index(outputs, '=') < 0);
    pieces_arrive(&arena);
    end_arrives(&arena, job_log);
    arena_release(&arena);
    return 0;
}
