/* output: see output.h. The file is the job's to write and therefore opened without following links, waiting for a
 * writer or trusting its size. Nothing here fails: what can't be read is no output. */
#include "exec/output.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "text/utf8.h"

bool output_read(int dir_fd, struct buf *out)
{
    struct stat st;
    if (fstatat(dir_fd, "io/out", &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode) || st.st_size == 0)
        return false;
    int fd = openat(dir_fd, "io/out", O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return false;
    char *space = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) ? buf_reserve(out, OUTPUT_BYTES_MAX) : NULL;
    ssize_t n = 0;
    size_t len = 0;
    while (space && len < OUTPUT_BYTES_MAX &&
           ((n = read(fd, space + len, OUTPUT_BYTES_MAX - len)) > 0 || (n < 0 && errno == EINTR)))
        len += n > 0 ? (size_t)n : 0;
    close(fd);
    if (space)
        buf_commit(out, len);
    return out->len > 0;
}

struct output_line {
    struct str name, value;
};

/* text_bytes: of a value as JSON says it, where what isn't UTF-8 grows to U+FFFD. */
static size_t text_bytes(struct str s)
{
    size_t bytes = 0;
    for (size_t at = 0; at < s.len;) {
        size_t skip = 1, n = utf8_length(s, at, &skip);
        bytes += n > 0 ? n : 3;
        at += n > 0 ? n : skip;
    }
    return bytes;
}

static bool line_put(struct output_line *lines, size_t *n, struct str line)
{
    ptrdiff_t at = str_index(line, '=');
    struct str name = str_trim(str_sub(line, 0, at < 0 ? 0 : (size_t)at));
    if (at < 0 || !output_name_is_valid(name))
        return false;
    struct str value = str_sub(line, (size_t)at + 1, line.len);
    if (value.len > 0 && value.ptr[value.len - 1] == '\r')
        value.len--;
    if (text_bytes(value) > OUTPUT_VALUE_BYTES_MAX)
        return false;
    size_t i = 0;
    while (i < *n && !str_eq(lines[i].name, name))
        i++;
    if (i == OUTPUT_NAMES_MAX)
        return false;
    lines[i] = (struct output_line){ name, value };
    *n += i == *n;
    return true;
}

void output_put(struct str text, struct json *json, size_t *out_left)
{
    struct output_line lines[OUTPUT_NAMES_MAX];
    struct str line;
    size_t n = 0;
    *out_left = 0;
    if (text.len >= OUTPUT_BYTES_MAX) { /* cut: the last line isn't whole */
        ptrdiff_t at = str_rindex(text, '\n');
        text.len = at < 0 ? 0 : (size_t)at;
        ++*out_left;
    }
    while (str_cut(&text, '\n', &line))
        *out_left += line.len > 0 && !line_put(lines, &n, line);
    json_object_begin(json);
    for (size_t i = 0; i < n; i++) {
        json_key_str(json, lines[i].name);
        json_str(json, lines[i].value);
    }
    json_object_end(json);
}

struct str output_find(struct str text, struct str name)
{
    struct str line, found = { 0 };
    while (str_cut(&text, '\n', &line)) {
        ptrdiff_t at = str_index(line, '=');
        if (at >= 0 && str_eq(str_trim(str_sub(line, 0, (size_t)at)), name))
            found = str_trim(str_sub(line, (size_t)at + 1, line.len));
    }
    return found;
}

void output_check(int dir_fd, struct log_file *log)
{
    struct buf text, unused;
    size_t left = 0;
    buf_init(&text, OUTPUT_BYTES_MAX + 1);
    buf_init(&unused, OUTPUT_JSON_MAX);
    if (output_read(dir_fd, &text)) {
        struct json json = json_to(&unused);
        output_put(buf_str(&text), &json, &left);
    }
    if (left > 0)
        log_file_note(log,
            "[weir: %zu lines of WEIR_OUTPUT are left out: a line is NAME=VALUE, a name 1 to %d bytes of UTF-8 without "
            "NUL, at most %d names, %d KiB in all]\n",
            left, OUTPUT_NAME_BYTES_MAX, OUTPUT_NAMES_MAX, OUTPUT_BYTES_MAX >> 10);
    buf_release(&text);
    buf_release(&unused);
}
