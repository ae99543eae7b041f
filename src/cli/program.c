/* program: see program.h. */
#include "cli/program.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io/fsx.h"

enum { WORDS_MAX = 400, PIECE = 64 * 1024 };

extern char **environ;

/* environment_english: ours, with LC_MESSAGES in the place of what names a language. The caller frees the list. */
static char **environment_english(void)
{
    size_t n = 0, kept = 0;
    while (environ[n])
        n++;
    char **list = mem_alloc((n + 2) * sizeof *list);
    static char english[] = "LC_MESSAGES=C";
    for (size_t i = 0; i < n; i++)
        if (strncmp(environ[i], "LC_ALL=", 7) != 0 && strncmp(environ[i], "LC_MESSAGES=", 12) != 0 &&
            strncmp(environ[i], "LANGUAGE=", 9) != 0)
            list[kept++] = environ[i];
    list[kept++] = english;
    list[kept] = NULL;
    return list;
}

/* program_start: 0, or the fault; *out_fd: the reading end of its stdout. Its stderr goes to the file `words`. */
static int program_start(const char *const *argv, const char *folder, int words, pid_t *out_pid, int *out_fd)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return errno;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, words, STDERR_FILENO);
    posix_spawn_file_actions_addchdir_np(&actions, folder);
    char **environment = environment_english();
    char *const *list = (char *const *)(uintptr_t)argv;
    int fault = posix_spawnp(out_pid, argv[0], &actions, NULL, list, environment);
    mem_free(environment);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (fault != 0)
        close(ends[0]);
    *out_fd = ends[0];
    return fault;
}

static int program_end(pid_t pid)
{
    int status;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return -1;
    return status;
}

/* first_words: the first line that the program wrote on stderr, NUL-terminated. */
static void first_words(int fd, char *out, size_t size)
{
    ssize_t n = pread(fd, out, size - 1, 0);
    out[n > 0 ? n : 0] = '\0';
    out[strcspn(out, "\n")] = '\0';
}

bool program_read(const char *const *argv, const char *folder, struct buf *out, struct err *err)
{
    char piece[PIECE], words[WORDS_MAX];
    pid_t pid;
    int fd, notes = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (notes < 0 && (notes = open("/dev/null", O_RDWR | O_CLOEXEC)) < 0)
        return err_set(err, ERR_io, "/dev/null can't be opened: %s", strerrordesc_np(errno));
    int fault = program_start(argv, folder, notes, &pid, &fd);
    if (fault != 0) {
        close(notes);
        return err_set(err, fault == ENOENT ? ERR_not_found : ERR_io, "the program %s can't be run: %s", argv[0],
            strerrordesc_np(fault));
    }
    ssize_t n;
    while (!out->full && ((n = read(fd, piece, sizeof piece)) > 0 || (n < 0 && errno == EINTR)))
        if (n > 0)
            buf_add(out, piece, (size_t)n);
    close(fd); /* one that says too much gets SIGPIPE */
    int status = program_end(pid);
    first_words(notes, words, sizeof words);
    close(notes);
    if (out->full)
        return err_set(err, ERR_body_too_large, "%s %s said more than %zu bytes", argv[0], argv[1], out->cap);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return err_set(err, ERR_invalid, "%s %s failed: %s", argv[0], argv[1], *words ? words : "it doesn't say why");
    return true;
}

bool program_edit(const char *file, struct err *err)
{
    const char *editor = getenv("VISUAL");
    if (!editor || !*editor)
        editor = getenv("EDITOR");
    if (!editor || !*editor)
        return err_set(err, ERR_not_found, "no editor: set $EDITOR, or give the message with -m");
    /* by a shell, as git and svn do: $EDITOR may hold options */
    struct arena arena = { 0 };
    const char *line = str_dupz(&arena, str_fmt(&arena, "%s \"$1\"", editor));
    const char *const argv[] = { "/bin/sh", "-c", line, "sh", file, NULL };
    pid_t pid;
    int fault = posix_spawn(&pid, argv[0], NULL, NULL, (char *const *)(uintptr_t)argv, environ);
    int status = fault == 0 ? program_end(pid) : -1;
    arena_release(&arena);
    return status == 0 || err_set(err, ERR_invalid, "the editor '%s' failed: nothing was submitted", editor);
}
