/* Different sources on different threads at the same time, while somebody commits: each reads what it would read alone.
 */
#include "bed.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

#define THREADS 8
#define ROUNDS 30
#define REVISIONS 20

static _Atomic int n_faults;
static char commits[REVISIONS][64];

struct reader {
    int n;
    bool git;
};

static bool read_once(struct source *source, struct source_ident ident, int n, struct err *err)
{
    struct arena arena = { 0 };
    struct source_revision revision;
    struct source_workflows workflows;
    struct source_ident youngest;
    char message[32];
    snprintf(message, sizeof message, "revision %d", n);
    bool good = source_youngest(source, &arena, &youngest, err) &&
                source_revision_read(source, &arena, ident, &revision, err) &&
                source_workflows_read(source, &arena, ident, (struct str){ 0 }, &workflows, err);
    if (good && (!str_eqz(revision.message, message) || workflows.n_files != 1))
        good = err_set(err, ERR_internal, "another revision: %.*s", STR_ARG(revision.message));
    arena_release(&arena);
    return good;
}

static void *reader_run(void *context)
{
    const struct reader *reader = context;
    struct err err = { 0 };
    char path[128];
    for (int round = 0; round < ROUNDS && n_faults == 0; round++) {
        int n = 1 + (round * 7 + reader->n) % REVISIONS;
        struct source_ident ident = reader->git ? id(commits[n - 1]) : rev(n);
        struct source *source = source_open(
            reader->git ? ARCHIVE_GIT : ARCHIVE_SVN, str_of(reader->git ? "g" : "r"), (struct str){ 0 }, &err);
        bool good = source != NULL && read_once(source, ident, n, &err);
        if (good && round % 10 == 0) {
            snprintf(path, sizeof path, "out-%d-%d", reader->n, round);
            mkdir(path, 0755);
            int fd = open(path, O_RDONLY | O_DIRECTORY);
            good = source_export(source, ident, fd, NULL, &err);
            close(fd);
        }
        source_close(source);
        if (!good) {
            n_faults++;
            fprintf(stderr, "thread %d round %d: %s: %s\n", reader->n, round, err_name(err.code), err.text);
        }
    }
    return NULL;
}

static void side_by_side(void **state)
{
    (void)state;
    sh("svnadmin create $T/r && svn co -q file://$T/r $T/w && cd $T/w && mkdir _workflows docs && echo '[]' > "
       "_workflows/a.yaml && svn add "
       "-q _workflows docs\n"
       "git init -q -b main $T/g && mkdir $T/g/_workflows && echo '[]' > $T/g/_workflows/a.yaml\n"
       "for i in $(seq %d); do echo $i > $T/w/docs/$i && svn add -q $T/w/docs/$i && svn ci -qm \"revision $i\" $T/w\n"
       "echo $i > $T/g/$i && git -C $T/g add . && git -C $T/g commit -qm \"revision $i\"; done",
        REVISIONS);
    for (int i = 0; i < REVISIONS; i++) {
        char name[32];
        snprintf(name, sizeof name, "main~%d", REVISIONS - 1 - i);
        snprintf(commits[i], sizeof commits[0], "%s", git_id(in("g"), name).id.ptr);
    }
    assert_int_equal(chdir(bed), 0);
    struct reader readers[THREADS];
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        readers[i] = (struct reader){ i, i % 2 == 0 };
        assert_int_equal(pthread_create(&threads[i], NULL, reader_run, &readers[i]), 0);
    }
    sh("cd $T/w && for i in 1 2 3; do echo $i > docs/new && svn add -q --force docs/new && svn ci -qm new && git -C "
       "$T/g commit -q "
       "--allow-empty -m new; done");
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(n_faults, 0);
    for (int i = 0; i < THREADS; i++) {
        char out[128], theirs[128];
        int n = 1 + i % REVISIONS;
        snprintf(out, sizeof out, "%s/out-%d-0", bed, i);
        snprintf(theirs, sizeof theirs, "%s/theirs-%d", bed, i);
        if (readers[i].git)
            sh("mkdir %s && git -C $T/g archive %s | tar -xf - -C %s", theirs, commits[n - 1], theirs);
        else
            sh("svn export -q file://$T/r@%d %s", n, theirs);
        assert_true(trees_equal(out, theirs));
    }
    assert_int_equal(chdir("/"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(side_by_side),
    };
    return cmocka_run_group_tests(tests, bed_make, bed_drop);
}
