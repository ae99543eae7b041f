/* changeset_submit: `weir cs submit`, `weir cs check` and `cscheckin`: a change set from files or a working copy, sent
 * to the server.
 *
 * The tarball is written to a file that has no name, and streamed from there: its length doesn't matter. The same
 * content gives the same bytes, so that the server knows what was submitted before. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/changeset_content.h"
#include "cli/changeset_text.h"
#include "cli/command.h"
#include "cli/program.h"
#include "cli/task_text.h"
#include "text/changeset_meta.h"

#define META_BYTES_MAX ((size_t)64 << 20) /* the server has its own limit, and says so */
#define MESSAGE_BYTES_MAX ((size_t)1 << 20)
#define MESSAGE_MARK "--This line, and what is below, isn't part of the message--"

struct submission {
    struct session *session;
    bool is_check;
    struct changeset_content content;
    struct str message;
    struct client_file file;
};

/* failed: err of something that was done here, said as the command's. */
static int failed(struct session *s)
{
    s->status = err_exit(s->err.code);
    return session_fail(s);
}

/* --- the options --- */

/* options_fit: 0, or the exit code of a usage error. */
static int options_fit(struct submission *sub)
{
    const struct options *o = &sub->session->options;
    static const char *const own[] = { "target", "type", "depends", "ticket", "message", "overwrite" };
    if (!option_given(o, "tarball"))
        return option_given(o, "target") && option_given(o, "type")
                   ? 0
                   : usage_error(o->spec, "--target T and --type DC|BF|EM are needed");
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (option_given(o, own[i]))
            return usage_error(o->spec, "a tarball has a meta of its own: --%s can't be given with --tarball", own[i]);
    return o->n_operands == 0 ? 0 : usage_error(o->spec, "PATH can't be given with --tarball");
}

/* --- the message --- */

static bool message_from_stdin(struct submission *sub)
{
    struct session *s = sub->session;
    struct buf text;
    buf_init(&text, MESSAGE_BYTES_MAX);
    bool good = session_input(s, "-", "1 MiB", &text);
    if (good)
        sub->message = str_trim(buf_move(&text, &s->arena));
    buf_release(&text);
    return good;
}

static void template_write(const struct submission *sub, FILE *out)
{
    const struct changeset_content *content = &sub->content;
    fputs("\n" MESSAGE_MARK "\n\n", out);
    for (size_t i = 0; i < content->files.n; i++)
        fprintf(out, "M %.*s\n", STR_ARG(content->files.at[i].path));
    for (size_t i = 0; i < content->removed.n; i++)
        fprintf(out, "D %.*s\n", STR_ARG(content->removed.at[i]));
}

/* edited_read: what the user left above the mark; an empty message ends it, as with svn and git. */
static bool edited_read(struct submission *sub, const char *name)
{
    struct session *s = sub->session;
    struct buf text;
    buf_init(&text, MESSAGE_BYTES_MAX);
    bool good = session_input(s, name, "1 MiB", &text);
    struct str all = good ? buf_move(&text, &s->arena) : (struct str){ 0 };
    const char *mark = all.len > 0 ? strstr(all.ptr, MESSAGE_MARK) : NULL;
    sub->message = str_trim(mark ? str_sub(all, 0, (size_t)(mark - all.ptr)) : all);
    buf_release(&text);
    if (good && sub->message.len == 0)
        session_err(s, ERR_invalid, "the message is empty: nothing was submitted");
    return good && sub->message.len > 0;
}

static bool message_from_editor(struct submission *sub)
{
    struct session *s = sub->session;
    const char *folder = getenv("TMPDIR");
    char *name = str_dupz(&s->arena, str_fmt(&s->arena, "%s/weir-message.XXXXXX", folder && *folder ? folder : "/tmp"));
    int fd = mkstemp(name);
    FILE *out = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (!out) {
        session_err(s, ERR_io, "%s can't be written: %s", name, strerrordesc_np(errno));
        return false;
    }
    template_write(sub, out);
    bool good = fclose(out) == 0;
    if (!good)
        session_err(s, ERR_io, "%s can't be written: %s", name, strerrordesc_np(errno));
    else if (!(good = program_edit(name, &s->err)))
        failed(s);
    good = good && edited_read(sub, name);
    unlink(name);
    return good;
}

/* message_get: -m, -m - for stdin; else on a terminal the editor, if there is one; else none: the server makes one. */
static bool message_get(struct submission *sub)
{
    struct session *s = sub->session;
    const char *given = option_get(&s->options, "message"), *editor = getenv("EDITOR"), *visual = getenv("VISUAL");
    if (given && strcmp(given, "-") == 0)
        return message_from_stdin(sub);
    if (given) {
        sub->message = str_trim(str_of(given));
        return true;
    }
    bool has_editor = (editor && *editor) || (visual && *visual);
    bool ask = has_editor && !sub->is_check && isatty(STDIN_FILENO) && isatty(STDERR_FILENO);
    return !ask || message_from_editor(sub);
}

/* --- meta and the tarball --- */

struct meta {
    struct session *session;
    struct buf text;
    bool good;
};

/* section: adds ##name; an empty body is left out. */
static void section(struct meta *meta, const char *name, struct str body)
{
    struct buf next;
    if (body.len == 0 || !meta->good)
        return;
    buf_init(&next, META_BYTES_MAX);
    meta->good = changeset_meta_put(&next, buf_str(&meta->text), str_of(name), body, &meta->session->err);
    buf_release(&meta->text);
    meta->text = next;
}

static struct str lines_of_option(struct session *s, const char *option)
{
    struct buf lines;
    buf_init(&lines, META_BYTES_MAX);
    for (size_t i = 0; i < option_count(&s->options, option); i++)
        buf_addf(&lines, "%s\n", option_nth(&s->options, option, i));
    return buf_move(&lines, &s->arena);
}

static struct str meta_make(struct submission *sub)
{
    struct session *s = sub->session;
    const struct changeset_content *content = &sub->content;
    struct meta meta = { .session = s, .good = true };
    struct buf files, removed;
    buf_init(&meta.text, META_BYTES_MAX);
    buf_init(&files, META_BYTES_MAX);
    buf_init(&removed, META_BYTES_MAX);
    for (size_t i = 0; i < content->files.n; i++)
        buf_addf(&files, "%.*s\n", STR_ARG(content->files.at[i].path));
    for (size_t i = 0; i < content->removed.n; i++)
        buf_addf(&removed, "%.*s\n", STR_ARG(content->removed.at[i]));
    section(&meta, "movetype", str_of(option_get(&s->options, "type")));
    section(&meta, "target", str_of(option_get(&s->options, "target")));
    section(&meta, "files", buf_str(&files));
    section(&meta, "removed", buf_str(&removed));
    section(&meta, "dependencies", lines_of_option(s, "depends"));
    section(&meta, "approval", str_of(option_get(&s->options, "ticket")));
    if (!option_given(&s->options, "overwrite"))
        section(&meta, "base", content->base);
    section(&meta, "message", sub->message);
    buf_release(&files);
    buf_release(&removed);
    struct str text = meta.good ? buf_move(&meta.text, &s->arena) : (struct str){ 0 };
    buf_release(&meta.text);
    return text;
}

/* file_without_name: where the tarball is written, gone with the process. */
static int file_without_name(void)
{
    const char *folder = getenv("TMPDIR");
    int fd = open(folder && *folder ? folder : "/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    FILE *file = fd < 0 ? tmpfile() : NULL; /* a file system without O_TMPFILE */
    if (!file)
        return fd;
    fd = fcntl(fileno(file), F_DUPFD_CLOEXEC, 3);
    fclose(file);
    return fd;
}

/* left_out_say: what a look at the working copy found and didn't take. */
static void left_out_say(struct submission *sub)
{
    struct session *s = sub->session;
    const struct changeset_content *content = &sub->content;
    if (content->unknown.n > 0)
        session_note(s, "left out, as %zu path%s under version control: %.*s%s", content->unknown.n,
            content->unknown.n == 1 ? " isn't" : "s aren't", STR_ARG(content->unknown.at[0]),
            content->unknown.n > 1 ? ", ..." : "");
    if (content->missing.n > 0)
        session_note(s, "left out, as svn misses %zu path%s: %.*s%s (`svn rm` or `svn revert`)", content->missing.n,
            content->missing.n == 1 ? "" : "s", STR_ARG(content->missing.at[0]), content->missing.n > 1 ? ", ..." : "");
}

static bool tarball_make(struct submission *sub)
{
    struct session *s = sub->session;
    s->err = (struct err){ .arena = &s->arena };
    if (!changeset_content_read(&sub->content, s->options.operands, s->options.n_operands, &s->arena, &s->err)) {
        failed(s);
        return false;
    }
    left_out_say(sub);
    if (!message_get(sub))
        return false;
    struct str meta = meta_make(sub);
    sub->file.fd = meta.len > 0 ? file_without_name() : -1;
    if (meta.len > 0 && sub->file.fd < 0)
        err_set(&s->err, ERR_io, "a temporary file can't be made: %s", strerrordesc_np(errno));
    if (sub->file.fd < 0 || !changeset_tarball(&sub->content, meta, sub->file.fd, &sub->file.bytes, &s->err)) {
        failed(s);
        return false;
    }
    return true;
}

static bool tarball_open(struct submission *sub, const char *name)
{
    struct session *s = sub->session;
    struct stat st;
    sub->file.fd = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (sub->file.fd < 0 || fstat(sub->file.fd, &st) < 0) {
        session_err(
            s, errno == ENOENT ? ERR_not_found : ERR_io, "%s can't be opened: %s", name, strerrordesc_np(errno));
        return false;
    }
    if (!S_ISREG(st.st_mode)) {
        session_err(s, ERR_invalid, "%s is no regular file", name);
        return false;
    }
    sub->file.bytes = (uint64_t)st.st_size;
    return true;
}

/* --- the answers --- */

static void again_say(struct session *s, const json_t *answer)
{
    char letter = task_letter(answer);
    session_note(s, "this content was submitted before, as %s (%c %s); --again submits it as a new change set",
        field_z(answer, "csid"), letter, letter_word(letter));
}

/* check_print: precursors and conflicts; the exit code. */
static int check_print(struct session *s, const json_t *answer)
{
    const json_t *precursors = json_object_get(answer, "precursors"), *conflicts = json_object_get(answer, "conflicts"),
                 *one;
    size_t i;
    if (s->json)
        session_print(s, answer);
    else {
        json_array_foreach (precursors, i, one)
            printf("precursor  %s\n",
                term_safe_z(&s->arena, json_is_string(one) ? json_string_value(one) : field_z(one, "csid")));
        json_array_foreach (conflicts, i, one)
            printf("conflict   %s\n",
                term_safe_z(&s->arena, json_is_string(one) ? json_string_value(one) : field_z(one, "message")));
        if (!json_is_true(json_object_get(answer, "looked")))
            session_note(s, "conflicts weren't looked for: %s",
                *field_z(answer, "unlooked") ? field_z(answer, "unlooked") : "the target has no repository here");
        else if (json_array_size(conflicts) == 0)
            session_note(s, "nothing is in the way; nothing was stored");
    }
    return json_array_size(conflicts) > 0 ? 1 : 0;
}

/* send: the exit code; everything has been printed. */
static int send_tarball(struct submission *sub, struct changeset_wait *wait)
{
    struct session *s = sub->session;
    int http = 0;
    const char *path = session_query(s, "/v1/changesets", "check", sub->is_check ? "1" : NULL);
    path = session_query(s, path, "again", option_given(&s->options, "again") ? "1" : NULL);
    json_t *answer = session_upload(s, path, &sub->file, &http);
    if (!answer)
        return s->status;
    int status = 0;
    if (sub->is_check)
        status = check_print(s, answer);
    else {
        if (http == 200)
            again_say(s, answer);
        if (!s->json)
            printf("%s\n", term_safe_z(&s->arena, field_z(answer, "csid")));
        fflush(stdout);
        status = wait ? changeset_wait_run(wait, answer) : 0;
        if (s->json)
            session_print(s, wait && wait->document ? wait->document : answer);
    }
    json_decref(answer);
    return status;
}

static int submit(struct session *s, bool is_check)
{
    struct submission sub = { .session = s, .is_check = is_check, .file = { .fd = -1 } };
    struct changeset_wait wait = { 0 };
    const char *tarball = option_get(&s->options, "tarball");
    bool waits = !is_check && option_given(&s->options, "wait");
    int status = options_fit(&sub);
    if (status != 0)
        return status;
    bool good =
        (tarball ? tarball_open(&sub, tarball) : tarball_make(&sub)) && (!waits || changeset_wait_open(&wait, s));
    status = good ? send_tarball(&sub, waits ? &wait : NULL) : s->status;
    changeset_wait_close(&wait);
    if (sub.file.fd >= 0)
        close(sub.file.fd);
    return status;
}

int changeset_submit_command(struct session *s)
{
    if (option_given(&s->options, "check") && option_given(&s->options, "wait"))
        return usage_error(s->options.spec, "--check stores nothing that could be waited for");
    return submit(s, option_given(&s->options, "check"));
}

int changeset_check_command(struct session *s)
{
    return submit(s, true);
}
