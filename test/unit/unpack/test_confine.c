/* The child in an attacker's hands: what it can do (nothing), and what it can say (nothing that counts). */
#include "world.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "io/clock.h"

#include "probes.h"

const char *world_program;

static const struct probe_row {
    const char *name, *check, *extract;
} probes[] = {
#define PROBE(name, call, check, extract) { #name, check, extract },
#include "probes.def"
#undef PROBE
};

static const struct lie_row {
    const char *name, *says;
} lies[] = {
#define LIE(name, says, ...) { #name, says },
#include "probes.def"
#undef LIE
};

static void order_text(struct buf *out, const char *word, size_t n)
{
    char text[LIE_BYTES] = { 0 };
    snprintf(text, sizeof text, "%s %zu\n", word, n);
    buf_reset(out);
    buf_add(out, text, sizeof text);
}

/* probe_try: the last words of what the parent says of it. */
static bool probe_try(size_t i, bool is_extract, const char *wanted)
{
    struct world world;
    struct buf out;
    buf_init(&out, LIE_BYTES);
    world_open(&world);
    world.order.timeout_ms = 1000 + 4000 * (i != PROBE_spin);
    order_text(&out, "PROBE", i);
    assert_false(world_run(&world, buf_str(&out), is_extract));
    size_t len = strlen(world.err.text), tail = strlen(wanted);
    bool same = len >= tail && strcmp(world.err.text + len - tail, wanted) == 0;
    if (!same)
        print_error(
            "%s (%s): wanted %s, got %s\n", probes[i].name, is_extract ? "extract" : "check", wanted, world.err.text);
    const char *missing;
    assert_true(i == PROBE_spin || unpack_is_confined(&world.result.confined, &missing));
    struct walked walked = world_look(&world);
    assert_int_equal(walked.n_files + walked.n_folders, 0); /* what it made is gone */
    buf_release(&out);
    world_close(&world);
    return same;
}

/* is_confining: does this kernel have all that is tested? If it has, the child says that it was used. */
static bool is_confining(void)
{
    struct world world;
    struct buf out;
    long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, 1);
    if (abi < 6 || prctl(PR_GET_SECCOMP, 0, 0, 0, 0) < 0) {
        print_message("skipped: this kernel has no Landlock of ABI 6, or no seccomp\n");
        return false;
    }
    buf_init(&out, LIE_BYTES);
    world_open(&world);
    order_text(&out, "PROBE", PROBE_memory);
    world_run(&world, buf_str(&out), false);
    assert_int_equal(world.result.confined.landlock_abi, abi);
    assert_true(world.result.confined.has_seccomp && world.result.confined.has_memory_limit);
    buf_release(&out);
    world_close(&world);
    return true;
}

static void can_do_nothing(void **state)
{
    (void)state;
    size_t n_wrong = 0;
    if (!is_confining())
        skip();
    for (size_t i = 0; i < COUNT_OF(probes); i++) {
        n_wrong += !probe_try(i, false, probes[i].check);
        n_wrong += !probe_try(i, true, probes[i].extract);
    }
    assert_int_equal(n_wrong, 0);
    assert_true(access("/tmp/weir-probe", F_OK) < 0 && access("/tmp/weir-probe.d", F_OK) < 0);
}

/* spinner_start: a process that unpacks what never ends. */
static pid_t spinner_start(void)
{
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    struct world world;
    struct buf out;
    buf_init(&out, LIE_BYTES);
    world_open(&world);
    rmdir(world.dir); /* nobody will be there to do it later */
    world.order.timeout_ms = 60000;
    order_text(&out, "PROBE", PROBE_spin);
    world_run(&world, buf_str(&out), false);
    _exit(0);
}

static void file_read(const char *path, char *out, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, out, size - 1) : -1;
    out[n > 0 ? n : 0] = '\0';
    if (fd >= 0)
        close(fd);
}

/* has_confined_child: has the process a child that has given up its rights? */
static bool has_confined_child(pid_t pid)
{
    char path[100], text[4096];
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, (int)pid);
    file_read(path, text, sizeof text);
    snprintf(path, sizeof path, "/proc/%ld/status", strtol(text, NULL, 10));
    file_read(path, text, sizeof text);
    return strstr(text, "Seccomp:\t2") != NULL;
}

/* A server that is killed leaves no process behind that goes on unpacking. */
static void dies_with_its_parent(void **state)
{
    (void)state;
    int64_t deadline = clock_boot_ms() + 20000;
    int status = 0;
    if (!is_confining())
        skip();
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0); /* the child of a dead parent becomes ours */
    pid_t pid = spinner_start();
    while (!has_confined_child(pid))
        assert_true(clock_boot_ms() < deadline);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    pid_t orphan = 0;
    while ((orphan = waitpid(-1, &status, WNOHANG)) == 0)
        assert_true(clock_boot_ms() < deadline);
    assert_true(orphan > 0 && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 0), 0);
}

static const char *lie_answer(size_t i, bool is_extract)
{
    bool is_good = lies[i].says[0] == '\0';
    return is_extract && is_good ? "the tarball made the process that unpacks it write other files" : lies[i].says;
}

static void can_say_nothing(void **state)
{
    (void)state;
    size_t n_wrong = 0;
    for (size_t i = 0; i < COUNT_OF(lies); i++)
        for (int is_extract = 0; is_extract < 2; is_extract++) {
            struct world world;
            struct buf out;
            buf_init(&out, LIE_BYTES);
            world_open(&world);
            world.order.timeout_ms = i == LIE_stays ? 1000 : 20000;
            order_text(&out, "LIE", i);
            world_run(&world, buf_str(&out), is_extract);
            const char *wanted = lie_answer(i, is_extract);
            if (strcmp(world.err.text, wanted) != 0) {
                print_error("%s (%d): wanted %s, got %s\n", lies[i].name, is_extract, wanted, world.err.text);
                n_wrong++;
            }
            struct walked walked = world_look(&world);
            assert_int_equal(walked.n_files + walked.n_folders, 0);
            buf_release(&out);
            world_close(&world);
        }
    assert_int_equal(n_wrong, 0);
}

int main(int argc, char **argv)
{
    world_program = argc > 1 ? argv[1] : NULL;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(can_do_nothing),
        cmocka_unit_test(can_say_nothing),
        cmocka_unit_test(dies_with_its_parent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
