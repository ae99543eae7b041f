/* Probes, trees and notes: what doesn't need the engine. */
#include <sys/stat.h>
#include <unistd.h>

#include "text/hint_message.h"
#include "yard.h"

/* --- notes --- */

static void note_round_trips(void **state)
{
    struct buf out;
    struct err err = { 0 };
    struct hint_message note;
    (void)state;
    buf_init(&out, HINT_MESSAGE_BYTES_MAX);
    assert_true(hint_message_format(&out, STR("site"), STR("12"), STR(""), STR("site@11:build[os=a]#2"), &err));
    assert_true(hint_message_parse(buf_str(&out), &note));
    assert_true(str_eqz(note.archive, "site") && note.rev == 12 && str_eqz(note.cause, "site@11:build[os=a]#2"));
    buf_reset(&out);
    assert_true(hint_message_format(&out, STR("site"), STR("HEAD"), STR(""), STR("no key at all"), &err));
    assert_true(hint_message_parse(buf_str(&out), &note));
    assert_true(note.rev == 0 && note.cause.len == 0);
    buf_reset(&out);
    assert_false(hint_message_format(&out, STR("si te"), STR("1"), STR(""), STR(""), &err));
    assert_false(hint_message_format(&out, STR("site"), STR("0"), STR(""), STR(""), &err));
    assert_false(hint_message_format(&out, STR("site"), STR(""), STR(""), STR(""), &err));
    assert_false(hint_message_format(&out, STR("site"), STR("$(x)"), STR(""), STR(""), &err));
    buf_release(&out);
}

/* --- probes --- */

struct seen {
    int calls;
    struct watch_probe probe;
    char tip[65], branch[100], place[200];
};

static void copy(char *out, size_t room, struct str text)
{
    snprintf(out, room, "%.*s", STR_ARG(text));
}

static void probe_seen(struct watch_probe *probe)
{
    struct seen *seen = probe->owner;
    seen->calls++;
    seen->probe = *probe;
    copy(seen->tip, sizeof seen->tip, probe->tip);
    copy(seen->branch, sizeof seen->branch, probe->branch_found);
    copy(seen->place, sizeof seen->place, probe->place);
}

static struct seen probe(struct yard *yard, enum archive_kind kind, const char *url, const char *branch, int64_t from)
{
    struct seen seen = { 0 };
    struct err err = { 0 };
    struct watch_probe in_ = {
        .kind = kind, .url = str_of(url), .branch = str_of(branch), .from = from, .done = probe_seen, .owner = &seen
    };
    assert_non_null(watch_probe(yard->watch, &in_, &err));
    until(yard, 10000, seen.calls > 0);
    run_for(yard, 20);
    assert_int_equal(seen.calls, 1);
    return seen;
}

static void probes_say_where_to_begin(void **state)
{
    struct yard *yard = *state;
    svn_import(yard, "repo", 3);
    git_import(yard, "bare", 2500);
    struct seen seen = probe(yard, ARCHIVE_SVN, in(yard, "repo"), "", 0);
    assert_int_equal(seen.probe.err.code, ERR_none);
    assert_true(seen.probe.local && seen.probe.youngest == 3 && seen.probe.first == 4 && seen.tip[0] == '\0');
    assert_string_equal(seen.place, in(yard, "repo"));
    assert_int_equal(probe(yard, ARCHIVE_SVN, in(yard, "repo"), "", 2).probe.first, 2);

    seen = probe(yard, ARCHIVE_GIT, in(yard, "bare"), "", 0);
    assert_true(seen.probe.youngest == 2500 && seen.probe.first == 2501 && strlen(seen.tip) == 40);
    assert_string_equal(seen.branch, "main");
    seen = probe(yard, ARCHIVE_GIT, in(yard, "bare"), "main", 1);
    assert_true(seen.probe.first == 1 && seen.tip[0] == '\0');
    /* within the first thousand, the second, the third, and the end */
    for (int64_t from = 2; from < 2502; from += 833) {
        seen = probe(yard, ARCHIVE_GIT, in(yard, "bare"), "main", from);
        assert_int_equal(seen.probe.first, from);
        sh(yard, "test $(git -C bare rev-list --first-parent --count %s) = %lld", seen.tip, (long long)from - 1);
    }
    seen = probe(yard, ARCHIVE_GIT, in(yard, "bare"), "main", 2502);
    assert_int_equal(seen.probe.err.code, ERR_invalid);
    assert_non_null(strstr(seen.probe.err.text, "2500 commits"));
}

static void probes_of_what_is_no_repository(void **state)
{
    struct yard *yard = *state;
    sh(yard, "mkdir plain; git init -q --bare -b main empty; svnadmin create fresh");
    assert_int_equal(probe(yard, ARCHIVE_SVN, in(yard, "nowhere"), "", 0).probe.err.code, ERR_not_found);
    assert_int_equal(probe(yard, ARCHIVE_GIT, in(yard, "nowhere"), "", 0).probe.err.code, ERR_not_found);
    assert_int_not_equal(probe(yard, ARCHIVE_SVN, in(yard, "plain"), "", 0).probe.err.code, ERR_none);
    assert_int_not_equal(probe(yard, ARCHIVE_GIT, in(yard, "plain"), "", 0).probe.err.code, ERR_none);
    struct seen seen = probe(yard, ARCHIVE_GIT, in(yard, "empty"), "", 0);
    assert_true(seen.probe.err.code == ERR_none && seen.probe.first == 1 && seen.tip[0] == '\0');
    seen = probe(yard, ARCHIVE_SVN, in(yard, "fresh"), "", 0);
    assert_true(seen.probe.err.code == ERR_none && seen.probe.first == 1);
    assert_int_equal(probe(yard, ARCHIVE_SVN, "svn://127.0.0.1:1/none", "", 0).probe.err.code, ERR_unreachable);
}

static void cancelled_probes_are_silent(void **state)
{
    struct yard *yard = *state;
    struct seen seen = { 0 };
    struct err err = { 0 };
    struct watch_probe *probes[WATCH_PROBES_MAX];
    struct watch_probe in_ = { .kind = ARCHIVE_SVN, .done = probe_seen, .owner = &seen };
    svn_import(yard, "repo", 1);
    in_.url = str_of(in(yard, "repo"));
    for (size_t i = 0; i < WATCH_PROBES_MAX; i++)
        assert_non_null(probes[i] = watch_probe(yard->watch, &in_, &err));
    assert_null(watch_probe(yard->watch, &in_, &err));
    assert_int_equal(err.code, ERR_unavailable);
    for (size_t i = 0; i < WATCH_PROBES_MAX; i++)
        watch_probe_cancel(probes[i]);
    run_for(yard, 200);
    assert_int_equal(seen.calls, 0);
    assert_non_null(watch_probe(yard->watch, &in_, &err));
    until(yard, 5000, seen.calls == 1);
    assert_non_null(watch_probe(yard->watch, &in_, &err)); /* open when the yard is left */
}

/* --- trees --- */

struct taker {
    struct watch_tar_stream *tree;
    struct buf bytes;
    int pieces, ends;
    bool at_once; /* asks for more inside */
    int cancel_at;
    struct err err;
};

static void tree_bytes(void *owner, struct str bytes)
{
    struct taker *taker = owner;
    assert_int_equal(taker->ends, 0);
    assert_in_range(bytes.len, 1, WATCH_TAR_PIECE_BYTES);
    taker->pieces++;
    buf_add_str(&taker->bytes, bytes);
    if (taker->pieces == taker->cancel_at) {
        watch_tar_stream_cancel(taker->tree);
        taker->tree = NULL;
    } else if (taker->at_once) {
        watch_tar_stream_more(taker->tree);
    }
}

static void tree_end(void *owner, const struct err *err)
{
    struct taker *taker = owner;
    taker->ends++;
    taker->err = *err;
    taker->tree = NULL;
}

static void tree_start(
    struct yard *yard, struct taker *taker, enum archive_kind kind, const char *url, int64_t rev, const char *ident)
{
    struct archive archive = { .kind = kind, .url = str_of(url) };
    struct watch_tar_stream_sink sink = { tree_bytes, tree_end, taker };
    struct err err = { 0 };
    buf_init(&taker->bytes, SIZE_MAX);
    taker->tree = watch_tar_stream(yard->watch, &archive, rev, str_of(ident), &sink, &err);
    assert_non_null(taker->tree);
}

static void tree_is(struct yard *yard, struct taker *taker, const char *folder)
{
    FILE *out = fopen(in(yard, "tree.tar"), "w");
    assert_non_null(out);
    fwrite(taker->bytes.ptr, 1, taker->bytes.len, out);
    fclose(out);
    sh(yard, "rm -rf out; mkdir out; tar -xf tree.tar -C out; diff -r out %s", folder);
    buf_release(&taker->bytes);
}

static void trees_come_whole(void **state)
{
    struct yard *yard = *state;
    git_import(yard, "bare", 3);
    sh(yard, "git clone -q bare wc 2>/dev/null; cd wc; head -c 3000000 /dev/urandom >big; mkdir d; for i in $(seq "
             "200); do echo $i >d/$i; done;"
             "git add .; git commit -q -m big; git push -q origin main; git rev-parse HEAD >../tip; mv .git ../dotgit");
    char tip[65] = "";
    FILE *file = fopen(in(yard, "tip"), "r");
    assert_non_null(fgets(tip, 41, file));
    fclose(file);
    struct taker quick = { .at_once = true };
    tree_start(yard, &quick, ARCHIVE_GIT, in(yard, "bare"), 0, tip);
    until(yard, 10000, quick.ends == 1);
    assert_int_equal(quick.err.code, ERR_none);
    assert_true(quick.pieces > 40);
    tree_is(yard, &quick, "wc");

    struct taker slow = { 0 }; /* one piece at a time, and none without asking */
    tree_start(yard, &slow, ARCHIVE_GIT, in(yard, "bare"), 0, tip);
    until(yard, 10000, slow.pieces == 1);
    run_for(yard, 100);
    assert_int_equal(slow.pieces, 1);
    while (slow.ends == 0) {
        int before = slow.pieces;
        watch_tar_stream_more(slow.tree);
        until(yard, 10000, slow.pieces > before || slow.ends == 1);
    }
    assert_int_equal(slow.err.code, ERR_none);
    tree_is(yard, &slow, "wc");
}

static void trees_that_end_early(void **state)
{
    struct yard *yard = *state;
    svn_import(yard, "repo", 2);
    struct taker none = { .at_once = true };
    tree_start(yard, &none, ARCHIVE_SVN, in(yard, "repo"), 99, "");
    until(yard, 10000, none.ends == 1);
    assert_int_equal(none.err.code, ERR_not_found);
    assert_int_equal(none.pieces, 0);
    buf_release(&none.bytes);
    sh(yard,
        "svn co -q file://$T/repo wc; head -c 3000000 /dev/urandom >wc/big; svn add -q wc/big; svn ci -q -m big wc");
    struct taker inside = { .cancel_at = 3, .at_once = true }, outside = { 0 }, left = { 0 };
    tree_start(yard, &inside, ARCHIVE_SVN, in(yard, "repo"), 3, "");
    tree_start(yard, &outside, ARCHIVE_SVN, in(yard, "repo"), 3, "");
    tree_start(yard, &left, ARCHIVE_SVN, in(yard, "repo"), 3, "");
    until(yard, 10000, inside.pieces == 3 && outside.pieces == 1 && left.pieces == 1);
    watch_tar_stream_cancel(outside.tree);
    run_for(yard, 100);
    assert_true(inside.pieces == 3 && inside.ends == 0 && outside.pieces == 1 && outside.ends == 0);
    buf_release(&inside.bytes);
    buf_release(&outside.bytes);
    buf_release(&left.bytes); /* it is open when the yard is left */
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, yard_make, yard_drop)
    const struct CMUnitTest tests[] = { cmocka_unit_test(note_round_trips), T(probes_say_where_to_begin),
        T(probes_of_what_is_no_repository), T(cancelled_probes_are_silent), T(trees_come_whole),
        T(trees_that_end_early) };
    cmocka_set_test_filter(getenv("WEIR_TEST_ONLY")); /* a pattern, while you work */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
