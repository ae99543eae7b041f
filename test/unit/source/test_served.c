/* A Subversion repository behind svnserve: the same answers as from its folder, and a server that goes and comes back.
 */
#include "bed.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static struct arena arena;
static pid_t server;
static int port;

static void server_start(void)
{
    server = svnserve_start(&port);
}

static void server_end(void)
{
    svnserve_end(server);
    server = 0;
}

static int make(void **state)
{
    if (bed_make(state) != 0)
        return -1;
    int status =
        sh_status("svnadmin create $T/r && svn co -q file://$T/r $T/w && cd $T/w\n"
                  "mkdir -p docs/deep _workflows && echo one > docs/a.txt && echo two > docs/deep/b.txt && echo '- "
                  "name: a' > _workflows/a.yaml\n"
                  "ln -s docs link && chmod +x docs/a.txt && svn add -q docs _workflows link && svn ci -qm first\n"
                  "echo more >> docs/a.txt && svn ci -qm change --with-revprop weir:cause='a@1:index'\n"
                  "svn up -q && svn cp -q docs manual && echo x >> manual/a.txt && svn ci -qm copy\n"
                  "svn up -q && svn rm -q docs link && svn ci -qm delete && ln -s /etc/passwd _workflows/l.yaml && svn "
                  "add -q _workflows/l.yaml && "
                  "svn ci -qm 5\n"
                  "svn up -q && svn rm -q manual/deep && svn cp -q _workflows manual/deep && echo docs > docs && svn "
                  "add -q docs && svn pd -q "
                  "svn:executable manual/a.txt\n"
                  "svn ci -qm replace && svn up -q && svn rm -q _workflows && svn ci -qm none && echo file > "
                  "_workflows && svn add -q _workflows && "
                  "svn ci -qm file\n"
                  "svn up -q && svn cp -q manual other && svn ci -qm branch");
    if (status == 0)
        server_start();
    return status;
}

static int drop(void **state)
{
    server_end();
    arena_release(&arena);
    return bed_drop(state);
}

static const char *url(const char *path)
{
    static char text[128];
    snprintf(text, sizeof text, "svn://127.0.0.1:%d/%s", port, path);
    return text;
}

/* same_revision: what both say about it. */
static void same_revision(struct source *here, struct source *there, int64_t n)
{
    struct err err = { 0 };
    struct source_revision a, b;
    struct source_workflows wa, wb;
    must(source_revision_read(here, &arena, rev(n), &a, &err), &err);
    must(source_revision_read(there, &arena, rev(n), &b, &err), &err);
    assert_true(str_eq(a.author, b.author) && str_eq(a.message, b.message) && str_eq(a.cause, b.cause));
    assert_int_equal(a.time_ms, b.time_ms);
    assert_int_equal(a.is_first, b.is_first);
    assert_int_equal(a.n_changes, b.n_changes);
    for (size_t i = 0; i < a.n_changes; i++) {
        assert_true(
            str_eq(a.changes[i].path, b.changes[i].path) && str_eq(a.changes[i].copied_from, b.changes[i].copied_from));
        assert_int_equal(a.changes[i].kind, b.changes[i].kind);
        assert_int_equal(a.changes[i].is_folder, b.changes[i].is_folder);
    }
    must(source_workflows_read(here, &arena, rev(n), (struct str){ 0 }, &wa, &err), &err);
    must(source_workflows_read(there, &arena, rev(n), (struct str){ 0 }, &wb, &err), &err);
    assert_int_equal(wa.n_files, wb.n_files);
    assert_true(str_eq(wa.fault, wb.fault));
    for (size_t i = 0; i < wa.n_files; i++)
        assert_true(str_eq(wa.files[i].name, wb.files[i].name) && str_eq(wa.files[i].text, wb.files[i].text));
    struct str content = wb.content;
    must(source_workflows_read(there, &arena, rev(n), content, &wb, &err), &err);
    assert_true(wb.same && wb.n_files == 0 && str_eq(wb.content, content));
}

static bool tar_write(void *context, struct str bytes)
{
    return fwrite(bytes.ptr, 1, bytes.len, context) == bytes.len;
}

static void tar_of(struct source *source, int64_t n, const char *name)
{
    struct err err = { 0 };
    FILE *file = fopen(in(name), "w");
    struct source_tar tar = { tar_write, file };
    bool good = source_export_tar(source, rev(n), &tar, NULL, &err);
    fclose(file);
    must(good, &err);
}

static void compare(const char *path, int64_t first, int64_t last)
{
    char local[128];
    snprintf(local, sizeof local, "%s/%s", bed, path);
    struct source *here = open_ok(ARCHIVE_SVN, local, ""), *there = open_ok(ARCHIVE_SVN, url(path), "");
    assert_false(source_is_local(there));
    assert_true(str_eq(source_uuid(here), source_uuid(there)));
    for (int64_t n = first; n <= last; n++) {
        same_revision(here, there, n);
        sh("rm -rf $T/here $T/there");
        export_to(here, rev(n), "here");
        export_to(there, rev(n), "there");
        assert_true(trees_equal(in("here"), in("there")));
        if (n > first) {
            sh("rm -rf $T/there");
            export_to(there, rev(n - 1), "there");
            export_changed_to(there, rev(n - 1), rev(n), "there");
            assert_true(trees_equal(in("here"), in("there")));
        }
        tar_of(here, n, "here.tar");
        tar_of(there, n, "there.tar");
        sh("cmp $T/here.tar $T/there.tar");
    }
    source_close(here);
    source_close(there);
}

static void whole_repository(void **state)
{
    (void)state;
    compare("r", 0, 9);
}

/* The folder is a copy: it isn't there in most revisions. */
static void folder(void **state)
{
    (void)state;
    compare("r/other", 6, 9);
}

static void goes_and_comes(void **state)
{
    (void)state;
    struct err err = { 0 };
    struct source_ident youngest;
    struct source *source = open_ok(ARCHIVE_SVN, url("r"), "");
    struct source_watch *watches;
    size_t n;
    must(source_watch_paths(source, &arena, &watches, &n, &err), &err);
    assert_int_equal(n, 0);
    must(source_youngest(source, &arena, &youngest, &err), &err);
    assert_int_equal(youngest.rev, 9);
    server_end();
    said(source_youngest(source, &arena, &youngest, &err), &err, ERR_unreachable, "svn://");
    said(source_youngest(source, &arena, &youngest, &err), &err, ERR_unreachable, "svn://");
    server_start();
    must(source_youngest(source, &arena, &youngest, &err), &err);
    assert_int_equal(youngest.rev, 9);
    struct source_revision revision;
    said(source_revision_read(source, &arena, rev(10), &revision, &err), &err, ERR_not_found, "no such revision");
    must(source_revision_read(source, &arena, rev(9), &revision, &err), &err);
    source_close(source);
    open_refused(ARCHIVE_SVN, url("nothing"), "", ERR_not_found, "check the address");
    open_refused(ARCHIVE_SVN, url("r/nothing"), "", ERR_not_found, "no folder");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_repository),
        cmocka_unit_test(folder),
        cmocka_unit_test(goes_and_comes),
    };
    return cmocka_run_group_tests(tests, make, drop);
}
