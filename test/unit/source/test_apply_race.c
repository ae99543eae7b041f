/* Several processes apply to one repository: with one CSID there is one commit, with several each has its own, also
 * when one is frozen in its commit while another is granted, and when they are killed at any moment. */
#include "apply_bed.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { COMMITTED = 10, FOUND, OTHER };

/* apply_once: in a process of its own; the exit status is the end. */
static int apply_once(
    const struct rig *rig, const char *csid, const char *path, const char *content, struct source_ident base)
{
    struct err err = { 0 };
    struct set set;
    struct apply_result result;
    enum archive_kind kind = rig->kind == GIT ? ARCHIVE_GIT : ARCHIVE_SVN;
    struct apply *apply =
        apply_open(kind, str_of(rig->url), rig->kind == GIT ? STR("main") : (struct str){ 0 }, (struct str){ 0 }, &err);
    if (apply == NULL)
        return OTHER;
    set_begin(&set, csid);
    set_file(&set, path, content, false);
    bool good = apply_commit(apply, &arena, &set.change, &set.identity, base, &result, &err);
    if (!good)
        fprintf(stderr, "%s: %s\n", err_name(err.code), err.text);
    else if (result.end == APPLY_CONFLICT || result.end == APPLY_REFUSED)
        fprintf(stderr, "%.*s\n", STR_ARG(result.reason));
    apply_close(apply);
    return good && result.end == APPLY_COMMITTED ? COMMITTED : good && result.end == APPLY_FOUND ? FOUND : OTHER;
}

static pid_t start(
    const struct rig *rig, int gate, const char *csid, const char *path, const char *content, struct source_ident base)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    char byte;
    if (gate >= 0 && read(gate, &byte, 1) < 0) /* until all are there */
        _exit(OTHER);
    _exit(apply_once(rig, csid, path, content, base));
}

static int end_of(pid_t pid)
{
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

struct count {
    const char *csid; /* NULL: any */
    int n;
};

static bool count_take(void *context, const struct apply_revision *revision)
{
    struct count *count = context;
    count->n += count->csid != NULL ? str_eqz(revision->csid, count->csid) : revision->csid.len > 0;
    return true;
}

static int commits_of(struct rig *rig, const char *csid)
{
    struct count count = { csid, 0 };
    const struct apply_visitor visitor = { count_take, &count };
    struct err err = { 0 };
    must(apply_walk(rig->apply, (struct source_ident){ 0 }, &visitor, &err), &err);
    return count.n;
}

static void verify(const struct rig *rig)
{
    sh(rig->kind == GIT ? "git -C $T/r fsck --strict --no-dangling" : "svnadmin verify -q $T/r");
}

static void test_one_csid(void **state)
{
    (void)state;
    for (enum kind kind = LOCAL; kind < KINDS; kind++) {
        struct rig rig;
        rig_make(&rig, kind, "");
        for (int round = 0; round < 4; round++) {
            int gate[2], ends[3] = { 0 };
            pid_t pids[4];
            struct source_ident base = head(&rig);
            const char *csid = str_fmt(&arena, "CS%d", round).ptr;
            assert_int_equal(pipe(gate), 0);
            for (int i = 0; i < 4; i++) /* new, changed, and what the head has already */
                pids[i] = start(&rig, gate[0], csid, round == 0 ? "new" : "first", round == 2 ? "one\n" : csid, base);
            assert_int_equal(write(gate[1], "xxxx", 4), 4);
            for (int i = 0; i < 4; i++) {
                int end = end_of(pids[i]);
                ends[end == COMMITTED ? 0 : end == FOUND ? 1 : 2]++;
            }
            close(gate[0]);
            close(gate[1]);
            assert_int_equal(ends[0], 1);
            assert_int_equal(ends[1], 3);
            assert_int_equal(commits_of(&rig, csid), 1);
        }
        verify(&rig);
        rig_drop(&rig);
    }
}

static void test_many_csids(void **state)
{
    (void)state;
    for (enum kind kind = LOCAL; kind < KINDS; kind++) {
        struct rig rig;
        pid_t pids[6];
        rig_make(&rig, kind, "");
        struct source_ident base = head(&rig);
        for (int i = 0; i < 6; i++) {
            const char *csid = str_fmt(&arena, "CS%d", i).ptr;
            pids[i] = start(&rig, -1, csid, i % 2 == 0 ? "same/file" : csid, csid, base);
        }
        for (int i = 0; i < 6; i++)
            assert_int_equal(end_of(pids[i]), COMMITTED);
        assert_int_equal(commits_of(&rig, NULL), 6);
        verify(&rig);
        rig_drop(&rig);
    }
}

/* One process stands in its hook, its commit prepared against the old head, while another commits the same change set:
 * the repository refuses the first, which then finds the commit. */
static void test_frozen(void **state)
{
    (void)state;
    for (enum kind kind = LOCAL; kind < KINDS; kind++) {
        for (int same = 0; same < 2; same++) { /* same: content that the head has already */
            struct rig rig;
            rig_make(&rig, kind, "");
            struct source_ident base = head(&rig);
            sh("rm -rf $T/first-in $T/in $T/go; cat >$T/hook <<E\n#!/bin/sh\n/bin/mkdir $T/first-in 2>/dev/null || "
               "exit 0\n"
               "/bin/touch $T/in\nwhile ! test -e $T/go; do /bin/sleep 0.02; done\nE\nchmod +x $T/hook && cp $T/hook "
               "$T/r/hooks/%s",
                kind == GIT ? "pre-receive" : "pre-commit");
            pid_t frozen = start(&rig, -1, "CS1", "first", same ? "one\n" : "two\n", base);
            while (access(in("in"), F_OK) != 0)
                poll(NULL, 0, 10);
            assert_int_equal(end_of(start(&rig, -1, "CS1", "first", same ? "one\n" : "two\n", base)), COMMITTED);
            sh("touch $T/go");
            assert_int_equal(end_of(frozen), FOUND);
            assert_int_equal(commits_of(&rig, "CS1"), 1);
            verify(&rig);
            rig_drop(&rig);
            arena = (struct arena){ 0 };
        }
    }
}

static void test_killed(void **state)
{
    (void)state;
    for (enum kind kind = LOCAL; kind < KINDS; kind++) {
        struct rig rig;
        int killed = 0, found = 0;
        rig_make(&rig, kind, "");
        uint64_t began = now_us();
        assert_int_equal(end_of(start(&rig, -1, "CS", "f", "0", head(&rig))), COMMITTED);
        uint64_t whole = now_us() - began;
        for (int round = 0; round < 12; round++) {
            const char *csid = str_fmt(&arena, "CS%d", round).ptr;
            struct source_ident base = head(&rig);
            pid_t pid = start(&rig, -1, csid, "f", csid, base);
            poll(NULL, 0, (int)(whole * (unsigned)(round + 1) / 12 / 1000));
            kill(pid, SIGKILL);
            killed += end_of(pid) == -SIGKILL;
            /* the next grant: one commit, whether the dead one had made it or not */
            int end = end_of(start(&rig, -1, csid, "f", csid, base));
            assert_true(end == COMMITTED || end == FOUND);
            found += end == FOUND;
            assert_int_equal(commits_of(&rig, csid), 1);
        }
        print_message("    %d killed, %d of 12 had committed\n", killed, found);
        assert_true(killed > 0);
        verify(&rig);
        rig_drop(&rig);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_one_csid, bed_make, bed_drop),
        cmocka_unit_test_setup_teardown(test_many_csids, bed_make, bed_drop),
        cmocka_unit_test_setup_teardown(test_frozen, bed_make, bed_drop),
        cmocka_unit_test_setup_teardown(test_killed, bed_make, bed_drop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
