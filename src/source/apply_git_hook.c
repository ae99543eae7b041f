/* apply_git_hook: the hooks of a git repository, run as git receive-pack runs them for a push of one branch.
 *
 * pre-receive, update, post-receive and post-update, in the repository's folder with GIT_DIR=. and without other GIT_
 * variables; core.hooksPath of the repository's own configuration counts, the user's isn't read. A hook that isn't
 * executable doesn't run. They have no time limit here: whoever ends this process's group ends them too.
 *
 * Their output goes to a file in memory, not to a pipe: a process that a hook leaves behind can't hold us up. Fails
 * when a hook can't be started for want of something (processes, memory). */
#include "source/apply_git.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORDS_BYTES_MAX 3000

extern char **environ;

/* hooks_folder: where the repository's hooks are. */
static struct str hooks_folder(struct apply *apply, struct arena *arena)
{
    struct str place = source_place(apply->source), folder = { 0 };
    git_config *config = NULL;
    git_buf text = { 0 };
    if (git_config_open_ondisk(&config, str_fmt(arena, "%.*s/config", STR_ARG(place)).ptr) == 0 &&
        git_config_get_path(&text, config, "core.hooksPath") == 0 && text.size > 0)
        folder = str_dup(arena, (struct str){ text.ptr, text.size });
    git_buf_dispose(&text);
    git_config_free(config);
    if (folder.len == 0)
        folder = STR("hooks");
    return folder.ptr[0] == '/' ? folder : str_fmt(arena, "%.*s/%.*s", STR_ARG(place), STR_ARG(folder));
}

static char **environment(struct arena *arena)
{
    size_t n = 0, kept = 0;
    while (environ[n] != NULL)
        n++;
    char **out = ARENA_ARRAY(arena, char *, n + 2);
    for (size_t i = 0; i < n; i++)
        if (strncmp(environ[i], "GIT_", 4) != 0)
            out[kept++] = environ[i];
    out[kept] = str_dupz(arena, STR("GIT_DIR=."));
    return out;
}

/* memory_file: with that text, read from its beginning. -1: errno. */
static int memory_file(struct str text)
{
    int fd = memfd_create("weir-hook", MFD_CLOEXEC);
    if (fd >= 0 && text.len > 0 && pwrite(fd, text.ptr, text.len, 0) != (ssize_t)text.len) {
        close(fd);
        return -1;
    }
    return fd;
}

static int hook_spawn(
    pid_t *out, const char *path, char *const *argv, char *const *envp, const char *folder, int in, int to)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t defaults;
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGPIPE); /* a server ignores it; a script expects to die of it */
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigdefault(&attributes, &defaults);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in, 0);
    posix_spawn_file_actions_adddup2(&actions, to, 1);
    posix_spawn_file_actions_adddup2(&actions, to, 2);
    posix_spawn_file_actions_addchdir_np(&actions, folder);
    int code = posix_spawn(out, path, &actions, &attributes, argv, envp);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    return code;
}

/* words_of: what the hook printed, and how it ended. */
static struct str words_of(struct arena *arena, const char *name, int status, int output)
{
    char text[WORDS_BYTES_MAX];
    char how[64];
    ssize_t n = pread(output, text, sizeof text, 0);
    if (WIFSIGNALED(status))
        snprintf(how, sizeof how, "killed by signal %d", WTERMSIG(status));
    else
        snprintf(how, sizeof how, "exit code %d", WEXITSTATUS(status));
    struct str words = str_trim(source_text(arena, (struct str){ text, n > 0 ? (size_t)n : 0 }, WORDS_BYTES_MAX));
    return str_fmt(arena, "Blocked by %s hook (%s)%s%.*s", name, how,
        words.len > 0 ? " with output:\n" : " with no output", STR_ARG(words));
}

/* hook_run: out_status: 0 also if there is no such hook. */
static bool hook_run(struct apply *apply, struct arena *arena, const char *const *argv, struct str input,
    int *out_status, struct str *out_words, struct err *err)
{
    struct str folder = hooks_folder(apply, arena);
    const char *path = str_fmt(arena, "%.*s/%s", STR_ARG(folder), argv[0]).ptr;
    *out_status = 0;
    if (access(path, X_OK) != 0)
        return true;
    char *args[5] = { str_dupz(arena, str_of(path)) };
    for (size_t i = 1; i < 4 && argv[i] != NULL; i++)
        args[i] = str_dupz(arena, str_of(argv[i]));
    int in = memory_file(input), output = memory_file((struct str){ 0 });
    pid_t pid = -1;
    int code = in < 0 || output < 0 ? errno : 0;
    if (code == 0)
        code =
            hook_spawn(&pid, path, args, environment(arena), str_dupz(arena, source_place(apply->source)), in, output);
    while (code == 0 && waitpid(pid, out_status, 0) < 0)
        if (errno != EINTR)
            code = errno;
    bool cant = code == ENOEXEC || code == ENOENT || code == EACCES; /* a broken hook refuses, as git's would */
    if (code == 0 && *out_status != 0)
        *out_words = words_of(arena, argv[0], *out_status, output);
    if (cant) {
        *out_status = -1;
        *out_words = str_fmt(arena, "Blocked by %s hook, which can't be started: %s", argv[0], strerror(code));
    }
    if (in >= 0)
        close(in);
    if (output >= 0)
        close(output);
    return code == 0 || cant || err_set(err, ERR_io, "%s: it can't be run: %s", path, strerror(code));
}

static struct str update_line(struct arena *arena, const struct apply_git_update *update)
{
    return str_fmt(arena, "%s %s %s\n", update->old_hex, update->new_hex, update->ref);
}

bool apply_git_hooks_before(struct apply *apply, struct arena *arena, const struct apply_git_update *update,
    bool *out_refused, struct str *out_words, struct err *err)
{
    const char *const receive[] = { "pre-receive", NULL };
    const char *const one[] = { "update", update->ref, update->old_hex, update->new_hex };
    int status;
    if (!hook_run(apply, arena, receive, update_line(arena, update), &status, out_words, err))
        return false;
    if (status == 0 && !hook_run(apply, arena, one, (struct str){ 0 }, &status, out_words, err))
        return false;
    *out_refused = status != 0;
    return true;
}

void apply_git_hooks_after(struct apply *apply, struct arena *arena, const struct apply_git_update *update)
{
    const char *const receive[] = { "post-receive", NULL };
    const char *const one[] = { "post-update", update->ref, NULL };
    struct err ignored = { 0 };
    struct str words;
    int status;
    /* the commit is made: nothing that a hook does now changes that */
    (void)!hook_run(apply, arena, receive, update_line(arena, update), &status, &words, &ignored);
    (void)!hook_run(apply, arena, one, (struct str){ 0 }, &status, &words, &ignored);
}
