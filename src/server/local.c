/* local: runs the workflow of a folder here, without a server: the same engine and executor, private to this run (see
 * local.h).
 *
 * Promises that nothing stays behind: the executor gets SIGINT and ends its jobs; processes that it leaves become our
 * children (we are their subreaper) and are waited for, then killed; then the folder goes. Fails before anything is
 * started when the workflow has a fault. */
#include "server/local.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/term.h"
#include "cli/workflow_files.h"
#include "exec/agent/agent.h"
#include "io/clock.h"
#include "text/key.h"

enum {
    SLOTS_MAX = 4096,
    GRACE_MS = 5000,
    END_MS = 12000,
    HURRY_MS = 300,
    STEP_MS = 200,
    TREE_FDS = 32,
    TMPDIR_LEN_MAX = 70,
    NAME_LEN = 100
};
#define LOG_BYTES_MAX ((uint64_t)64 << 20)

/* -- what is to run -- */

/* archive_name: the folder's name where that can be an archive's. */
static struct str archive_name(struct arena *arena, const char *root)
{
    const char *slash = strrchr(root, '/');
    char *name = str_dupz(arena, str_of(slash ? slash + 1 : root));
    if (strlen(name) > NAME_LEN)
        name[NAME_LEN] = '\0';
    for (char *c = name; *c; c++)
        if (strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-", *c) == NULL)
            *c = '-';
    return name_is_valid(str_of(name)) && !name_is_reserved(str_of(name)) ? str_of(name) : STR("local");
}

static struct definition *definition_of(const struct workflow_set *set, struct arena *arena)
{
    struct definition_file *files = ARENA_ARRAY(arena, struct definition_file, set->n_sources + 1);
    for (size_t i = 0; i < set->n_sources; i++)
        files[i] = (struct definition_file){ set->sources[i].file->name, set->sources[i].file->text };
    return definition_read(files, set->n_sources, (struct str){ 0 });
}

/* local_read: the workflow of DIR; the exit code, or OPTIONS_RUN. */
static int local_read(struct local *local, const char *dir)
{
    struct workflow_sets sets;
    struct err err = { 0 };
    struct stat st;
    char root[PATH_MAX];
    workflow_sets_init(&sets, &local->arena);
    if (stat(dir, &st) == 0 && !S_ISDIR(st.st_mode))
        err_set(&err, ERR_not_found, "%s isn't a folder", dir);
    else if (workflow_sets_add(&sets, dir, &err) && !realpath(dir, root))
        err_set(&err, ERR_io, "%s: %s", dir, strerrordesc_np(errno));
    if (err.code != ERR_none) {
        term_say(stderr, "weir local: %s", err.text);
        return err_exit(err.code);
    }
    workflow_sets_check(&sets);
    diags_say(&sets.diags);
    if (sets.diags.n_errors > 0)
        return err_exit(ERR_invalid);
    local->definition = definition_of(&sets.items[0], &local->arena);
    if (!local->definition->valid) { /* what the reader takes and this version can't carry out */
        fwrite(local->definition->report.ptr, 1, local->definition->report.len, stderr);
        return err_exit(ERR_invalid);
    }
    local->root = str_dupz(&local->arena, str_of(root));
    local->archive = archive_name(&local->arena, root);
    return OPTIONS_RUN;
}

static int local_parse(struct local *local, const struct command_spec *spec, int argc, char **argv)
{
    int status = options_parse(&local->options, spec, argc, argv, &local->arena);
    if (status != OPTIONS_RUN)
        return status;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    local->slots = cores > 0 ? cores : 1;
    if (option_given(&local->options, "serial") && option_given(&local->options, "parallel"))
        return usage_error(local->options.spec, "--serial or --parallel, not both");
    if (!option_i64(&local->options, "parallel", 1, SLOTS_MAX, &local->slots))
        return EXIT_USAGE;
    if (option_given(&local->options, "serial"))
        local->slots = 1;
    size_t n = 0;
    status = local_read(local, local->options.n_operands > 0 ? local->options.operands[0] : ".");
    if (status != OPTIONS_RUN)
        return status;
    if (!local_select(local, &n))
        return err_exit(ERR_not_found);
    if (n == 0) {
        if (option_given(&local->options, "json"))
            puts("[]");
        fprintf(stderr, "weir local: a commit starts none of the %zu tasks; name one with --task\n",
            local->definition->workflow.n_tasks);
        return 0;
    }
    return OPTIONS_RUN;
}

/* -- the folder -- */

static int entry_remove(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st;
    (void)at;
    return kind == FTW_DP ? (rmdir(path), 0) : (unlink(path), 0);
}

void local_remove(const char *folder)
{
    nftw(folder, entry_remove, TREE_FDS, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

/* folder_make: a socket's path is at most 107 bytes long, so a long TMPDIR doesn't do. */
static bool folder_make(struct local *local, struct err *err)
{
    const char *base = getenv("TMPDIR");
    if (!base || base[0] != '/' || strlen(base) > TMPDIR_LEN_MAX)
        base = "/tmp";
    char *path = str_dupz(&local->arena, str_fmt(&local->arena, "%s/weir-local.XXXXXX", base));
    if (!mkdtemp(path))
        return err_set(err, ERR_io, "%s: %s", path, strerrordesc_np(errno));
    local->folder = path;
    local->socket = str_dupz(&local->arena, str_fmt(&local->arena, "%s/weir.sock", path));
    return true;
}

/* -- its processes -- */

static const int ends[] = { SIGINT, SIGTERM, SIGHUP };

static void signals_block(sigset_t *set)
{
    sigemptyset(set);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        sigaddset(set, ends[i]);
    sigaddset(set, SIGCHLD);
    sigprocmask(SIG_BLOCK, set, NULL);
}

/* child_begin: a process of ours that the terminal's Ctrl-C doesn't reach: it is ended in order, by us. */
static void child_begin(void)
{
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    setpgid(0, 0);
    umask(0077);
}

static bool house_start(struct local *local, struct err *err)
{
    int ready[2];
    char byte;
    if (pipe2(ready, O_CLOEXEC) < 0)
        return err_set(err, ERR_io, "pipe: %s", strerrordesc_np(errno));
    local->house = fork();
    if (local->house == 0) {
        close(ready[0]);
        child_begin();
        _exit(local_house(local, ready[1]));
    }
    close(ready[1]);
    ssize_t n = 0;
    while (local->house > 0 && (n = read(ready[0], &byte, 1)) < 0 && errno == EINTR)
        ;
    close(ready[0]);
    if (local->house < 0)
        return err_set(err, ERR_io, "fork: %s", strerrordesc_np(errno));
    return n == 1 || err_set(err, ERR_unavailable, "it could not be started");
}

/* executor_main: the container options show the root to images; an option given later wins. */
static int executor_main(struct local *local, mode_t mask)
{
    struct arena *arena = &local->arena;
    const char *server = str_dupz(arena, str_fmt(arena, "unix:%s", local->socket));
    const char *const options[] = { str_dupz(arena, str_fmt(arena, "--volume=%s:%s", local->root, local->root)),
        str_dupz(arena, str_fmt(arena, "--workdir=%s", local->root)), NULL };
    struct agent_config config = { .servers = &server,
        .n_servers = 1,
        .data = str_dupz(arena, str_fmt(arena, "%s/executor", local->folder)),
        .name = "local",
        .slots = local->slots,
        .grace_ms = GRACE_MS,
        .log_bytes_max = LOG_BYTES_MAX,
        .container_options = options };
    if (!freopen(str_dupz(arena, str_fmt(arena, "%s/executor.log", local->folder)), "we", stderr))
        return 1;
    umask(mask); /* jobs get the user's */
    return agent_run(&config);
}

/* executor_start: the executor begins when `go` is closed, which the view does once it follows the events. */
static bool executor_start(struct local *local, struct err *err)
{
    int go[2];
    char byte;
    pid_t parent = getpid();
    mode_t mask = umask(0077);
    umask(mask);
    if (pipe2(go, O_CLOEXEC) < 0)
        return err_set(err, ERR_io, "pipe: %s", strerrordesc_np(errno));
    local->executor = fork();
    if (local->executor == 0) {
        close(go[1]);
        child_begin();
        prctl(PR_SET_PDEATHSIG, SIGINT);
        ssize_t n = read(go[0], &byte, 1);
        close(go[0]);
        _exit(n > 0 || getppid() != parent ? 0 : executor_main(local, mask));
    }
    close(go[0]);
    local->go = go[1];
    return local->executor > 0 || err_set(err, ERR_io, "fork: %s", strerrordesc_np(errno));
}

/* children_kill: all processes that became our children; one that survives SIGKILL hangs in the kernel. */
static void children_kill(void)
{
    char path[64];
    long pid;
    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    FILE *list = fopen(path, "re");
    while (list && fscanf(list, "%ld", &pid) == 1)
        kill((pid_t)pid, SIGKILL);
    if (list)
        fclose(list);
}

/* child_wait: until it (0: every child) has ended, at most so long; one more Ctrl-C makes it short. */
static bool child_wait(const sigset_t *set, pid_t pid, int64_t max_ms)
{
    int64_t until = clock_boot_ms() + max_ms;
    for (;;) {
        pid_t ended = waitpid(pid > 0 ? pid : -1, NULL, WNOHANG);
        if ((ended > 0 && pid > 0) || (ended < 0 && errno == ECHILD))
            return true;
        if (ended > 0)
            continue;
        int64_t left = until - clock_boot_ms();
        if (left <= 0)
            return false;
        struct timespec wait = { .tv_nsec = (left < STEP_MS ? left : STEP_MS) * 1000000 };
        int signo = sigtimedwait(set, NULL, &wait);
        if (signo > 0 && signo != SIGCHLD && until > clock_boot_ms() + HURRY_MS)
            until = clock_boot_ms() + HURRY_MS;
    }
}

static void local_end(struct local *local, const sigset_t *set)
{
    if (local->executor > 0) {
        kill(local->executor, SIGINT);
        child_wait(set, local->executor, END_MS);
    }
    if (local->go >= 0)
        close(local->go);
    if (local->house > 0) {
        kill(local->house, SIGTERM);
        child_wait(set, local->house, END_MS);
    }
    /* Idle shims of an executor that is gone end by themselves. */
    for (int64_t ms = STEP_MS * 5; !child_wait(set, 0, ms); ms = STEP_MS)
        children_kill();
    if (local->folder)
        local_remove(local->folder);
}

static int local_run(struct local *local)
{
    struct err err = { .code = ERR_none };
    sigset_t set;
    int status;
    fflush(NULL); /* what stands in buffers must not be written by children too */
    signals_block(&set);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    unsetenv("WEIR_TOKEN"); /* of another server */
    unsetenv("WEIR_TOKEN_FILE");
    if (folder_make(local, &err) && local_settle_in(local, &err) && house_start(local, &err) &&
        executor_start(local, &err)) {
        status = local_view(local);
    } else {
        term_say(stderr, "weir local: %s", err.text);
        status = err_exit(err.code);
    }
    fflush(stdout);
    local_end(local, &set);
    return status;
}

int local_main(const struct command_spec *spec, int argc, char **argv)
{
    static struct local local;
    local = (struct local){ .go = -1 };
    int status = local_parse(&local, spec, argc, argv);
    if (status == OPTIONS_RUN)
        status = local_run(&local);
    definition_release(local.definition);
    arena_release(&local.arena);
    return status;
}
