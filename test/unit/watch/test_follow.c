/* Following repositories: imports, commits without any hook, git's numbers, faults that heal, hints and causes. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "text/hint_message.h"
#include "yard.h"

static void svn_history_is_taken_in_order(void **state)
{
    struct yard *yard = *state;
    svn_import(yard, "repo", 300);
    add(yard, "a", ARCHIVE_SVN, in(yard, "repo"), 1);
    until(yard, 20000, next_of(yard, "a") == 301);
    until(yard, 2000, state_of(yard, "a") == WATCH_OK);
    revisions_in_order(yard, "a", 1, 300);
    struct revision first = revision(yard, "a", 1), last = revision(yard, "a", 300);
    assert_true(str_eqz(last.author, "ann"));
    assert_true(str_eqz(last.message, "change 300"));
    assert_int_equal(first.n_prevs, 0);
    assert_int_equal(last.n_prevs, 1);
    assert_int_equal(last.prevs[0], 299);
    assert_true(first.definition > 0);
    assert_int_equal(first.definition, last.definition); /* read once, kept once */
    assert_true(has_task(yard, "a", 300, "build"));
    assert_int_equal(submitted, 300);
}

static void svn_from_the_next_on(void **state)
{
    struct yard *yard = *state;
    svn_import(yard, "repo", 5);
    add(yard, "a", ARCHIVE_SVN, in(yard, "repo"), 0);
    until(yard, 5000, state_of(yard, "a") == WATCH_OK);
    assert_int_equal(next_of(yard, "a"), 6);
    int64_t began = clock_boot_ms();
    sh(yard, "svn mkdir -q -m six file://$T/repo/six"); /* no hook: the folder itself tells */
    until(yard, 5000, next_of(yard, "a") == 7);
    print_message("a commit without a hook was seen within %lld ms of the command's start\n",
        (long long)(clock_boot_ms() - began));
    assert_int_equal(revision(yard, "a", 6).n_prevs, 0);
    assert_false(has_task(yard, "a", 5, "build"));
}

static void paths_decide_what_is_touched(void **state)
{
    struct yard *yard = *state;
    svn_import(yard, "repo", 1);
    add(yard, "a", ARCHIVE_SVN, in(yard, "repo"), 1);
    until(yard, 5000, next_of(yard, "a") == 2);
    sh(yard, "svn mkdir -q --parents -m docs file://$T/repo/docs/inner; svn mkdir -q -m other file://$T/repo/other");
    until(yard, 5000, next_of(yard, "a") == 4);
    for (int64_t rev = 1; rev <= 3; rev++) {
        struct err err = { 0 };
        struct task task;
        bool found;
        int64_t id = 0;
        assert_true(
            reader_find(yard->reader, STR("default"), STR("a"), rev, STR("docs"), (struct str){ 0 }, 0, &id, &err));
        assert_true(reader_row(yard->reader, &yard->arena, id, &task, &found, &err) && found);
        assert_int_equal((task.marks & MARK_SKIPPED) != 0, rev != 2);
    }
}

static void git_history_and_numbers(void **state)
{
    struct yard *yard = *state;
    git_import(yard, "repo", 300);
    add(yard, "g", ARCHIVE_GIT, in(yard, "repo"), 1);
    until(yard, 20000, next_of(yard, "g") == 301);
    revisions_in_order(yard, "g", 1, 300);
    assert_int_equal(revision(yard, "g", 1).n_prevs, 0);
    assert_int_equal(revision(yard, "g", 300).prevs[0], 299);
    assert_true(str_eqz(revision(yard, "g", 123).message, "change 123"));
    assert_int_equal(revision(yard, "g", 123).ident.len, 40);
    /* a second archive of it begins after the tip, a third in the middle */
    add(yard, "h", ARCHIVE_GIT, in(yard, "repo"), 0);
    add(yard, "i", ARCHIVE_GIT, in(yard, "repo"), 299);
    until(yard, 5000, state_of(yard, "h") == WATCH_OK && next_of(yard, "i") == 301);
    assert_int_equal(next_of(yard, "h"), 301);
    assert_true(str_eqz(revision(yard, "i", 299).message, "change 299"));
    sh(yard, "git clone -q repo wc 2>/dev/null; cd wc; echo x >x; git add x; git commit -q -m more; git push -q origin "
             "main");
    until(yard, 5000, next_of(yard, "g") == 302 && next_of(yard, "h") == 302 && next_of(yard, "i") == 302);
    assert_true(str_eqz(revision(yard, "h", 301).message, "more"));
    assert_int_equal(events_of(yard, EVENT_rewritten), 0);
}

static void git_merge_waits_for_every_numbered_parent(void **state)
{
    struct yard *yard = *state;
    git_import(yard, "repo", 2);
    add(yard, "g", ARCHIVE_GIT, in(yard, "repo"), 1);
    until(yard, 5000, next_of(yard, "g") == 3);
    /* side starts at main's commit 1, which has a number; its own commit has none; merging main~1 again names a
     * numbered parent */
    sh(yard, "git clone -q repo wc 2>/dev/null; cd wc; git checkout -q -b side HEAD~1; echo s >s; git add s; git "
             "commit -q -m side;"
             "git checkout -q main; git merge -q --no-ff -m merge side; git push -q origin main");
    until(yard, 5000, next_of(yard, "g") == 4);
    assert_true(str_eqz(revision(yard, "g", 3).message, "merge"));
    assert_int_equal(revision(yard, "g", 3).n_prevs, 1); /* side's commit isn't of this branch's first parents */
    assert_int_equal(revision(yard, "g", 3).prevs[0], 2);
    /* an own tree whose parents are commit 3 and commit 1 */
    sh(yard, "cd wc; c=$(git commit-tree -p main -p main~2 -m two main^{tree}); git reset -q --hard $c; git push -q "
             "origin main");
    until(yard, 5000, next_of(yard, "g") == 5);
    struct revision two = revision(yard, "g", 4);
    assert_int_equal(two.n_prevs, 2);
    assert_int_equal(two.prevs[0], 3);
    assert_int_equal(two.prevs[1], 1);
}

static void forced_push_goes_on_with_new_numbers(void **state)
{
    struct yard *yard = *state;
    git_import(yard, "repo", 4);
    add(yard, "g", ARCHIVE_GIT, in(yard, "repo"), 1);
    until(yard, 5000, next_of(yard, "g") == 5);
    sh(yard,
        "git clone -q repo wc 2>/dev/null; cd wc; git reset -q --hard HEAD~2; for i in 1 2; do echo $i >y; git add y; "
        "git commit -q -m new$i; done; git push -q -f origin main");
    until(yard, 5000, next_of(yard, "g") == 7);
    assert_int_equal(events_of(yard, EVENT_rewritten), 1);
    assert_int_equal(revision(yard, "g", 5).prevs[0], 2);
    assert_int_equal(revision(yard, "g", 6).prevs[0], 5);
    /* back to a known commit: nothing new; and on from there */
    sh(yard, "cd wc; git reset -q --hard HEAD~1; git push -q -f origin main");
    run_for(yard, 300);
    assert_int_equal(next_of(yard, "g"), 7);
    assert_int_equal(state_of(yard, "g"), WATCH_OK);
    sh(yard, "cd wc; echo z >z; git add z; git commit -q -m z; git push -q origin main");
    until(yard, 5000, next_of(yard, "g") == 8);
    assert_int_equal(events_of(yard, EVENT_rewritten), 2);
    assert_int_equal(revision(yard, "g", 7).prevs[0], 5);
}

static void forced_push_behind_the_beginning_takes_only_what_is_new(void **state)
{
    struct yard *yard = *state;
    git_import(yard, "repo", 5);
    add(yard, "g", ARCHIVE_GIT, in(yard, "repo"), 0);
    until(yard, 5000, state_of(yard, "g") == WATCH_OK);
    assert_int_equal(next_of(yard, "g"), 6);
    sh(yard, "git clone -q repo wc 2>/dev/null; cd wc; git reset -q --hard HEAD~2; git push -q -f origin main");
    run_for(yard, 300);
    assert_int_equal(next_of(yard, "g"), 6); /* gone back: no news */
    sh(yard, "cd wc; for i in 1 2; do echo $i >y; git add y; git commit -q -m new$i; done; git push -q -f origin main");
    until(yard, 5000, next_of(yard, "g") == 8);
    run_for(yard, 100);
    assert_int_equal(next_of(yard, "g"), 8);
    assert_true(str_eqz(revision(yard, "g", 6).message, "new1"));
    assert_int_equal(events_of(yard, EVENT_rewritten), 1);
}

static void branches_are_archives_of_their_own(void **state)
{
    struct yard *yard = *state;
    git_import(yard, "repo", 2);
    sh(yard, "git -C repo branch feature/x main~1");
    add_branch(yard, "main", in(yard, "repo"), "main", 1);
    add_branch(yard, "x", in(yard, "repo"), "feature/x", 1);
    until(yard, 5000, next_of(yard, "main") == 3 && next_of(yard, "x") == 2);
    sh(yard, "git clone -q -b feature/x repo wc 2>/dev/null; cd wc; echo 1 >1; git add 1; git commit -q -m one; git "
             "push -q origin feature/x");
    until(yard, 5000, next_of(yard, "x") == 3);
    sh(yard,
        "git -C repo pack-refs --all; cd wc; echo 2 >2; git add 2; git commit -q -m two; git push -q origin feature/x");
    until(yard, 5000, next_of(yard, "x") == 4);
    assert_int_equal(next_of(yard, "main"), 3);
}

static void vanished_repository_is_a_fault_and_heals(void **state)
{
    struct yard *yard = *state;
    svn_import(yard, "repo", 2);
    svn_import(yard, "other", 1);
    add(yard, "a", ARCHIVE_SVN, in(yard, "repo"), 1);
    add(yard, "b", ARCHIVE_SVN, in(yard, "other"), 1);
    until(yard, 5000, next_of(yard, "a") == 3 && next_of(yard, "b") == 2);
    sh(yard, "mv repo away");
    watch_hint(yard->watch, lane_of(yard, "a"), &(struct watch_hint){ .rev = 3 });
    until(yard, 5000, state_of(yard, "a") == WATCH_FAULT);
    assert_non_null(strstr(fault_of(yard, "a"), "repo"));
    sh(yard, "svn mkdir -q -m x file://$T/other/x");
    until(yard, 2000, next_of(yard, "b") == 3); /* the other one doesn't notice */
    sh(yard, "svn mkdir -q -m x file://$T/away/x; mv away repo");
    until(yard, 8000, next_of(yard, "a") == 4);
    until(yard, 2000, state_of(yard, "a") == WATCH_OK);
    assert_string_equal(fault_of(yard, "a"), "");
}

static void corrupt_repository_is_a_fault_and_heals(void **state)
{
    struct yard *yard = *state;
    svn_import(yard, "repo", 3);
    add(yard, "a", ARCHIVE_SVN, in(yard, "repo"), 0);
    until(yard, 5000, state_of(yard, "a") == WATCH_OK);
    sh(yard, "mv repo/db/current keep; echo garbage >repo/db/current");
    until(yard, 5000, state_of(yard, "a") == WATCH_FAULT);
    sh(yard, "mv keep repo/db/current; svn mkdir -q -m four file://$T/repo/four");
    until(yard, 8000, next_of(yard, "a") == 5);
    until(yard, 2000, state_of(yard, "a") == WATCH_OK);
    /* revisions' files are damaged: those before are taken; one is mended, the other given up by a person */
    sh(yard, "cd repo; svn mkdir -q -m five file://$T/repo/five");
    until(yard, 5000, next_of(yard, "a") == 6);
    yard_stop(yard);
    sh(yard, "for i in 6 7 8; do svn mkdir -q -m $i file://$T/repo/n$i; done; mv repo/db/revprops/0/7 keep; echo x "
             ">repo/db/revprops/0/7");
    yard_start(yard);
    until(yard, 5000, state_of(yard, "a") == WATCH_FAULT);
    assert_int_equal(next_of(yard, "a"), 7);
    sh(yard, "cp keep repo/db/revprops/0/7; chmod u+w repo/db/revprops/0/8; echo x >repo/db/revprops/0/8");
    until(yard, 8000, next_of(yard, "a") == 8);
    until(yard, 5000, state_of(yard, "a") == WATCH_FAULT);
    archive_command(yard, CMD_ARCHIVE_SKIP, "a", 8);
    until(yard, 8000, next_of(yard, "a") == 9);
    until(yard, 2000, state_of(yard, "a") == WATCH_OK);
}

static void repository_that_went_back_is_said(void **state)
{
    struct yard *yard = *state;
    svn_import(yard, "repo", 5);
    add(yard, "a", ARCHIVE_SVN, in(yard, "repo"), 1);
    until(yard, 5000, next_of(yard, "a") == 6);
    sh(yard, "rm -rf repo");
    svn_import(yard, "repo", 2);
    watch_hint(yard->watch, lane_of(yard, "a"), &(struct watch_hint){ .rev = 1 });
    until(yard, 8000, state_of(yard, "a") == WATCH_FAULT && strstr(fault_of(yard, "a"), "ends at revision 2"));
}

static void a_refused_command_leaves_no_hole(void **state)
{
    struct yard *yard = *state;
    git_import(yard, "repo", 20);
    refuse_nth = 7;
    add(yard, "g", ARCHIVE_GIT, in(yard, "repo"), 1);
    until(yard, 5000, state_of(yard, "g") == WATCH_FAULT);
    assert_non_null(strstr(fault_of(yard, "g"), "revision 7 wasn't taken: refused by the test"));
    assert_int_equal(next_of(yard, "g"), 7);
    until(yard, 8000, next_of(yard, "g") == 21);
    for (int rev = 1; rev <= 20; rev++) {
        char message[20];
        snprintf(message, sizeof message, "change %d", rev);
        assert_true(str_eqz(revision(yard, "g", rev).message, message));
    }
    svn_import(yard, "s", 20);
    refuse_nth = 9;
    add(yard, "s", ARCHIVE_SVN, in(yard, "s"), 1);
    until(yard, 8000, next_of(yard, "s") == 21);
}

static void a_server_that_was_away_takes_up_where_it_was(void **state)
{
    struct yard *yard = *state;
    svn_import(yard, "repo", 2);
    git_import(yard, "bare", 2);
    add(yard, "a", ARCHIVE_SVN, in(yard, "repo"), 1);
    add(yard, "g", ARCHIVE_GIT, in(yard, "bare"), 1);
    until(yard, 5000, next_of(yard, "a") == 3 && next_of(yard, "g") == 3);
    yard_stop(yard);
    sh(yard, "svn mkdir -q -m x file://$T/repo/x; svn mkdir -q -m y file://$T/repo/y; git clone -q bare wc "
             "2>/dev/null; cd wc;"
             "for i in 1 2 3; do echo $i >n; git add n; git commit -q -m n$i; done; git push -q origin main");
    yard_start(yard);
    until(yard, 5000, next_of(yard, "a") == 5 && next_of(yard, "g") == 6);
    revisions_in_order(yard, "a", 1, 4);
    revisions_in_order(yard, "g", 1, 5);
}

static void a_stop_in_the_middle_of_an_import_loses_nothing(void **state)
{
    struct yard *yard = *state;
    git_import(yard, "bare", 700);
    add(yard, "g", ARCHIVE_GIT, in(yard, "bare"), 1);
    for (int64_t at = 1; at < 500; at += 120) {
        until(yard, 20000, next_of(yard, "g") > at);
        yard_stop(yard);
        yard_start(yard);
    }
    until(yard, 20000, next_of(yard, "g") == 701);
    revisions_in_order(yard, "g", 1, 700);
}

static void removed_and_skipped(void **state)
{
    struct yard *yard = *state;
    svn_import(yard, "repo", 2);
    add(yard, "a", ARCHIVE_SVN, in(yard, "repo"), 1);
    until(yard, 5000, next_of(yard, "a") == 3);
    archive_command(yard, CMD_ARCHIVE_REMOVE, "a", 0);
    assert_int_equal(state_of(yard, "a"), WATCH_NONE);
    assert_false(watch_hint(yard->watch, lane_of(yard, "a"), &(struct watch_hint){ .rev = 3 }));
    sh(yard, "svn mkdir -q -m x file://$T/repo/x");
    run_for(yard, 300);
    assert_int_equal(next_of(yard, "a"), 3);
    add(yard, "a", ARCHIVE_SVN, in(yard, "repo"), 1); /* numbers go on */
    until(yard, 5000, next_of(yard, "a") == 4);
    /* a revision that can't be read any more is given up by a person */
    sh(yard, "svn mkdir -q -m y file://$T/repo/y; true");
    until(yard, 5000, next_of(yard, "a") == 5);
}

/* A server that takes connections and says nothing: its archives hang, the others don't notice, and the end doesn't
 * wait for them. */
static void a_server_that_hangs_delays_nobody(void **state)
{
    struct yard *yard = *state;
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(fd, 100), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
    for (int i = 0; i < 20; i++) {
        char name[20], url[60];
        snprintf(name, sizeof name, "hang%d", i);
        snprintf(url, sizeof url, "svn://127.0.0.1:%d/%d", ntohs(at.sin_port), i);
        add_unseen(yard, name, url);
    }
    svn_import(yard, "repo", 30);
    add(yard, "a", ARCHIVE_SVN, in(yard, "repo"), 1);
    until(yard, 5000, next_of(yard, "a") == 31);
    assert_int_equal(state_of(yard, "hang7"), WATCH_BEHIND);
    archive_command(yard, CMD_ARCHIVE_REMOVE, "hang7", 0);
    int64_t began = clock_boot_ms();
    yard_stop(yard);
    assert_in_range(clock_boot_ms() - began, 0, 5000);
    close(fd); /* their connections end: so do the threads, without touching anything that is gone */
    yard_start(yard);
    until(yard, 5000, state_of(yard, "a") == WATCH_OK && state_of(yard, "hang1") == WATCH_FAULT);
    print_message("%s\n", fault_of(yard, "hang1"));
}

static void served_repositories(void **state)
{
    struct yard *yard = *state;
    char url[60];
    svn_import(yard, "repo", 40);
    int port = svnserve_start(yard);
    snprintf(url, sizeof url, "svn://127.0.0.1:%d/repo", port);
    add(yard, "a", ARCHIVE_SVN, url, 1);
    until(yard, 10000, next_of(yard, "a") == 41);
    revisions_in_order(yard, "a", 1, 40);
    assert_true(has_task(yard, "a", 40, "build"));
    sh(yard, "svn mkdir -q -m x file://$T/repo/x");
    until(yard, 5000, next_of(yard, "a") == 42); /* scan_remote_ms is 300 here */
    svnserve_stop(yard);
    until(yard, 5000, state_of(yard, "a") == WATCH_FAULT);
    svnserve_again(yard, port);
    sh(yard, "svn mkdir -q -m y file://$T/repo/y");
    until(yard, 10000, next_of(yard, "a") == 43 && state_of(yard, "a") == WATCH_OK);
    svnserve_stop(yard);
}

/* --- hints --- */

static const char *note_send(struct yard *yard, const char *bytes, size_t len)
{
    static char word[64];
    struct sockaddr_un at = { .sun_family = AF_UNIX }, own = { .sun_family = AF_UNIX };
    snprintf(at.sun_path, sizeof at.sun_path, "%s", watch_notify_path(yard->watch));
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&own, sizeof(sa_family_t)), 0);
    ssize_t sent = sendto(fd, bytes, len, 0, (struct sockaddr *)&at, sizeof at);
    assert_int_equal(sent, (ssize_t)len);
    ssize_t n = -1;
    until(yard, 2000, (n = recv(fd, word, sizeof word - 1, 0)) >= 0);
    word[n] = '\0';
    close(fd);
    return word;
}
#define NOTE(yard, text) note_send(yard, text, strlen(text))

static void notes_are_checked(void **state)
{
    struct yard *yard = *state;
    char *large = mem_alloc(100000);
    struct stat st;
    assert_int_equal(stat(watch_notify_path(yard->watch), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0666);
    svn_import(yard, "repo", 1);
    add(yard, "a", ARCHIVE_SVN, in(yard, "repo"), 1);
    archive_command(yard, CMD_ARCHIVE_ADD, "ext", 0);
    assert_string_equal(NOTE(yard, "weir-notify 1 a 1"), "ok");
    assert_string_equal(NOTE(yard, "weir-notify 1 a HEAD"), "ok");
    assert_string_equal(NOTE(yard, "weir-notify 1 a 999999999 a@1:COMMIT"), "ok");
    assert_string_equal(NOTE(yard, "weir-notify 1 nobody 1"), "unknown");
    assert_string_equal(NOTE(yard, "weir-notify 1 ext 1"), "external");
    static const char *const bad[] = { "", "weir-notify", "weir-notify 2 a 1", "weir-notify 1 a", "weir-notify 1 a 0",
        "weir-notify 1 a -1", "weir-notify 1 a --help", "weir-notify 1 a 99999999999999999999", "weir-notify 1 ../a 1",
        "weir-notify 1 a 1 not a key", "weir-notify 1 a\n 1", "weir-notify 1  1", "weir-notify 1 a 1;x" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_string_equal(NOTE(yard, bad[i]), "malformed");
    memset(large, 'x', 100000);
    assert_string_equal(note_send(yard, large, 100000), "malformed");
    assert_string_equal(note_send(yard, "weir-notify 1 a\0b 1", 20), "malformed");
    mem_free(large);
}

static void a_flood_of_notes_is_a_few_looks(void **state)
{
    struct yard *yard = *state;
    struct sockaddr_un at = { .sun_family = AF_UNIX };
    svn_import(yard, "repo", 1);
    add(yard, "a", ARCHIVE_SVN, in(yard, "repo"), 1);
    until(yard, 5000, state_of(yard, "a") == WATCH_OK && next_of(yard, "a") == 2);
    snprintf(at.sun_path, sizeof at.sun_path, "%s", watch_notify_path(yard->watch));
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int64_t end = clock_boot_ms() + 500;
    size_t sent = 0;
    while (clock_boot_ms() < end) {
        for (int i = 0; i < 20; i++)
            sent += sendto(fd, "weir-notify 1 a 5", 17, 0, (struct sockaddr *)&at, sizeof at) == 17;
        loop_step(yard->loop, 0);
    }
    close(fd);
    print_message("%zu notes were taken in half a second\n", sent);
    assert_in_range(sent, 100, 256 * 6 + 500);
    assert_int_equal(submitted, 1);
    sh(yard, "svn mkdir -q -m x file://$T/repo/x");
    until(yard, 2000, next_of(yard, "a") == 3);
}

static void causes(void **state)
{
    struct yard *yard = *state;
    svn_import(yard, "repo", 1);
    git_import(yard, "bare", 1);
    add(yard, "a", ARCHIVE_SVN, in(yard, "repo"), 1);
    add(yard, "g", ARCHIVE_GIT, in(yard, "bare"), 1);
    until(yard, 5000, next_of(yard, "a") == 2 && next_of(yard, "g") == 2);
    /* by the hook's word, before the commit can be seen */
    watch_hint(yard->watch, lane_of(yard, "a"), &(struct watch_hint){ .rev = 2, .cause = STR("a@1:build") });
    sh(yard, "svn mkdir -q -m x file://$T/repo/x");
    until(yard, 5000, next_of(yard, "a") == 3);
    sh(yard, "svn mkdir -q -m y file://$T/repo/y --with-revprop weir:cause=a@2:build");
    until(yard, 5000, next_of(yard, "a") == 4);
    assert_true(revision(yard, "a", 2).cause > 0);
    assert_int_equal(revision(yard, "a", 2).depth, 1);
    assert_int_equal(revision(yard, "a", 3).depth, 2);
    /* the trailer wins; the hook's word is for what is found next, and then spent */
    sh(yard,
        "git clone -q bare wc 2>/dev/null; cd wc; echo 1 >1; git add 1; git commit -q -m one; git push -q origin main");
    watch_hint(yard->watch, lane_of(yard, "g"), &(struct watch_hint){ .rev = 0, .cause = STR("a@2:build") });
    until(yard, 5000, next_of(yard, "g") == 3);
    assert_int_equal(revision(yard, "g", 2).depth, 2);
    run_for(yard, 300);
    sh(yard, "cd wc; echo 2 >2; git add 2; git commit -q -m two; git push -q origin main");
    until(yard, 5000, next_of(yard, "g") == 4);
    assert_int_equal(revision(yard, "g", 3).depth, 0);
    sh(yard, "cd wc; echo 3 >3; git add 3; git commit -q -m three -m 'Weir-Cause: a@3:build'; git push -q origin main");
    until(yard, 5000, next_of(yard, "g") == 5);
    assert_int_equal(revision(yard, "g", 4).depth, 3);
}

static void an_invalid_workflow_blocks_nobody(void **state)
{
    struct yard *yard = *state;
    git_import(yard, "bare", 1);
    add(yard, "g", ARCHIVE_GIT, in(yard, "bare"), 1);
    sh(yard, "git clone -q bare wc 2>/dev/null; cd wc; printf 'tasks: [{name: build, depends: [nobody]}]\\n' "
             ">_workflows/w.yaml;"
             "git commit -q -a -m bad; git push -q origin main; ln -sf /etc/passwd _workflows/w.yaml; git commit -q -a "
             "-m link;"
             "git rm -q -r _workflows; git commit -q -m none; git push -q origin main");
    until(yard, 5000, next_of(yard, "g") == 5);
    assert_true(has_task(yard, "g", 2, "WORKFLOW"));
    assert_true(has_task(yard, "g", 3, "WORKFLOW"));
    assert_false(has_task(yard, "g", 4, "WORKFLOW"));
    assert_false(has_task(yard, "g", 4, "build"));
    assert_true(has_task(yard, "g", 4, "COMMIT"));
}

static void nothing_happens_while_nothing_happens(void **state)
{
    struct yard *yard = *state;
    struct watch_status before, after;
    svn_import(yard, "repo", 1);
    add(yard, "a", ARCHIVE_SVN, in(yard, "repo"), 1);
    until(yard, 5000, next_of(yard, "a") == 2 && state_of(yard, "a") == WATCH_OK);
    run_for(yard, 100);
    assert_true(watch_status(yard->watch, lane_of(yard, "a"), &before));
    run_for(yard, 2500);
    assert_true(watch_status(yard->watch, lane_of(yard, "a"), &after));
    assert_int_equal(before.looked, after.looked); /* inotify works here: not one look */
    assert_int_equal(after.youngest, 1);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, yard_make, yard_drop)
    const struct CMUnitTest tests[] = { T(svn_history_is_taken_in_order), T(svn_from_the_next_on),
        T(paths_decide_what_is_touched), T(git_history_and_numbers), T(git_merge_waits_for_every_numbered_parent),
        T(forced_push_goes_on_with_new_numbers), T(forced_push_behind_the_beginning_takes_only_what_is_new),
        T(branches_are_archives_of_their_own), T(vanished_repository_is_a_fault_and_heals),
        T(corrupt_repository_is_a_fault_and_heals), T(repository_that_went_back_is_said),
        T(a_refused_command_leaves_no_hole), T(a_server_that_was_away_takes_up_where_it_was),
        T(a_stop_in_the_middle_of_an_import_loses_nothing), T(removed_and_skipped),
        T(a_server_that_hangs_delays_nobody), T(served_repositories), T(notes_are_checked),
        T(a_flood_of_notes_is_a_few_looks), T(causes), T(an_invalid_workflow_blocks_nobody),
        T(nothing_happens_while_nothing_happens) };
    cmocka_set_test_filter(getenv("WEIR_TEST_ONLY")); /* a pattern, while you work */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
