/* The file meta of change sets (RQ4 to RQ10): read, kept byte for byte, and each refusal with its line. */
#include "check.h"

#include "base/rng.h"
#include "text/changeset_meta.h"

static const struct changeset_limits limits = { 1 << 20, 4000, 12, 40, 4 };

struct reading {
    struct arena arena;
    struct diags diags;
    struct str text;
    struct changeset_meta meta;
    bool good;
};

static void reading_begin(struct reading *reading, struct str text, const struct changeset_limits *with)
{
    *reading = (struct reading){ 0 };
    reading->diags.arena = &reading->arena;
    reading->text = exact(text);
    reading->good = changeset_meta_read(reading->text, with, &reading->arena, &reading->diags, &reading->meta);
    assert_int_equal(reading->good, reading->diags.n_errors == 0);
}

static void reading_end(struct reading *reading)
{
    exact_free(reading->text);
    arena_release(&reading->arena);
}

/* faults: "LINE: MESSAGE | LINE: MESSAGE (SUGGESTION)", warnings with a W in front */
static struct str faults(struct reading *reading)
{
    struct buf buf;
    buf_init(&buf, 1 << 16);
    for (size_t i = 0; i < reading->diags.n; i++) {
        const struct diag *diag = &reading->diags.items[i];
        buf_addf(&buf, "%s%s%u: %.*s", i > 0 ? " | " : "", diag->severity == DIAG_WARNING ? "W" : "", diag->place.line,
            STR_ARG(diag->message));
        if (diag->suggestion.len > 0)
            buf_addf(&buf, " (%.*s)", STR_ARG(diag->suggestion));
    }
    struct str out = str_dup(&reading->arena, buf_str(&buf));
    buf_release(&buf);
    return out;
}

static const char whole[] =
    "\n##movetype\nBF\n## target \n\n  docs  \n##ours\nkept\n\n ##not one\n##files\nsrc/a.c\n\n b "
    "\n##removed\nold\n##dependencies\nc-1\nc-2\nc-1\n##approval\nT-9\n##precursors\n"
    "##message\n\n  First line\n\n ## more \n\n##base\n42\n##overlapping\n##\nx\n";

static void reads_every_section(void **state)
{
    (void)state;
    struct reading reading;
    reading_begin(&reading, STR(whole), &limits);
    const struct changeset_meta *meta = &reading.meta;
    check_str(faults(&reading), "");
    assert_int_equal(meta->movetype, MOVE_BF);
    check_str(meta->target, "docs");
    assert_int_equal(meta->files.n, 2);
    check_str(meta->files.at[0].text, "src/a.c");
    assert_int_equal(meta->files.at[0].line, 12);
    check_str(meta->files.at[1].text, " b "); /* a path is taken byte for byte */
    assert_int_equal(meta->files.at[1].line, 14);
    assert_int_equal(meta->removed.n, 1);
    check_str(meta->removed.at[0].text, "old");
    assert_int_equal(meta->dependencies.n, 2);
    check_str(meta->dependencies.at[1].text, "c-2");
    check_str(meta->approval, "T-9");
    assert_int_equal(meta->precursors.n, 0);
    assert_non_null(meta->known[META_PRECURSORS]);
    check_str(meta->message, "  First line\n\n ## more");
    check_str(meta->base, "42");
    assert_true(meta->overlapping);
    assert_int_equal(meta->sections.n, 12);
    check_str(meta->sections.at[2].name, "ours");
    check_str(meta->sections.at[2].body, "kept\n\n ##not one\n");
    /* every byte belongs to one section */
    size_t at = 1;
    for (size_t i = 0; i < meta->sections.n; i++) {
        assert_ptr_equal(meta->sections.at[i].whole.ptr, reading.text.ptr + at);
        at += meta->sections.at[i].whole.len;
    }
    assert_int_equal(at, reading.text.len);
    reading_end(&reading);
}

static void reads_little(void **state)
{
    (void)state;
    static const char *const texts[] = { "", "\n", "  \n\t\n", "##", "##x", "##files", "##message\n\n \n" };
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        struct reading reading;
        reading_begin(&reading, str_of(texts[i]), &limits);
        check_str(faults(&reading), "");
        assert_int_equal(reading.meta.files.n, 0);
        assert_int_equal(reading.meta.message.len, 0);
        reading_end(&reading);
    }
}

#define LONG40 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

static void refuses(void **state)
{
    (void)state;
    const struct {
        struct str text;
        const char *faults;
        bool limit;
    } cases[] = {
        { STR("##files\na\n##x\n##files\n"), "4: the section '##files' stands in line 1 already", false },
        { STR("##x\n##x\n## x\n"),
            "2: the section '##x' stands in line 1 already | 3: the section '##x' stands in "
            "line 1 already",
            false },
        { STR("##files\na\r\nb\r\n"), "2: a carriage return (lines of meta end with a newline alone)", false },
        { STR("##files\na\n\0"), "3: a byte 0, which no text has", false },
        { STR("##files\n\n\xff\r\n"),
            "3: a carriage return (lines of meta end with a newline alone) | 3: bytes that aren't UTF-8", false },
        { STR("##message\n\xed\xa0\x80"), "2: bytes that aren't UTF-8", false },
        { STR("\n hello\nyou\n##files\n"),
            "2: text before the first section (meta begins with a line such as '##movetype')", false },
        { STR("#files\na"), "1: text before the first section (meta begins with a line such as '##movetype')", false },
        { STR("##movetype\nXX\n"), "2: 'XX' is no move type (known here: DC, BF, EM, RB)", false },
        { STR("##target\na\n##movetype\n\n"), "3: ##movetype is empty (known here: DC, BF, EM, RB)", false },
        { STR("##movetype\n\nDC\nDC\n"), "4: ##movetype has one line, and this is the second", false },
        { STR("##target\na\n\nb\n"), "4: ##target has one line, and this is the second", false },
        { STR("##filez\n"), "W1: the section '##filez' isn't known: it is kept and ignored (did you mean 'files'?)",
            false },
        { STR("##dependencies\nc\n17\na_b\n"),
            "3: the CSID name '17' consists of digits only, as ids do | 4: the CSID 'a_b' has a '_': only letters, "
            "digits, '.' and '-' are allowed",
            false },
        { STR("##precursors\n/\n"), "2: the CSID name '/' must begin with a letter or a digit", false },
        /* paths: row 39 of the bad inputs */
        { STR("##files\n/etc/passwd\n"), "2: '/etc/passwd' begins with '/': paths are relative", false },
        { STR("##files\n../x\na/../../x\n..\n"),
            "2: '../x' has a part '..' | 3: 'a/../../x' has a part '..' | 4: '..' has a part '..'", false },
        { STR("##files\n.\na/./b\na//b\na/\n"),
            "2: '.' has a part '.' | 3: 'a/./b' has a part '.' | 4: 'a//b' has an empty part: a '/' too many | 5: "
            "'a/' has an empty part: a '/' too many",
            false },
        { STR("##removed\n.git/config\na/.SVN\n.GiT\n"),
            "2: '.git/config' has a part '.git' or '.svn', which belongs to the repository | 3: 'a/.SVN' has a part "
            "'.git' or '.svn', which belongs to the repository | 4: '.GiT' has a part '.git' or '.svn', which belongs "
            "to the repository",
            false },
        { STR("##files\na\tb\n\x7f\n\xc2\x9b\n\xc2\xa0\n"),
            "2: 'a?b' has a control character | 3: '?' has a control character | 4: '\xc2\x9b' has a control "
            "character",
            false },
        { STR("##files\na\nb\na\n"), "4: 'a' stands in line 2 already", false },
        { STR("##files\na/b\na!\na\na/b/c\n"),
            "2: 'a/b' is below 'a' (line 4), which is a file | 5: 'a/b/c' is below 'a' (line 4), which is a file",
            false },
        { STR("##files\na\nb/c\n##removed\nb/c\nb\nd\nd/e\n"),
            "5: 'b/c' is below 'b' (line 6), which is a file | 5: 'b/c' is in ##files and in ##removed (line 3) | 8: "
            "'d/e' is below 'd' (line 7), which is a file",
            false },
        /* limits */
        { STR("##files\n" LONG40 "\n" LONG40 "b\n"),
            "3: '" LONG40 "b' is longer than 40 bytes (changesets.limits.path)", true },
        { STR("##files\na/b/c/d\na/b/c/d2/e\n"), "3: 'a/b/c/d2/e' has more than 4 parts (changesets.limits.depth)",
            true },
        { STR("##removed\n1\n2\n3\n##files\n4\n5\n6\n7\n8\n9\n10\n11\n12\n13\n"),
            "4: more than 12 paths in ##files and ##removed (changesets.limits.files)", true },
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct reading reading;
        reading_begin(&reading, cases[i].text, &limits);
        check_str(faults(&reading), cases[i].faults);
        assert_int_equal(reading.meta.is_over_limit, cases[i].limit);
        struct err err = { .arena = &reading.arena };
        assert_int_equal(changeset_meta_refuse(&reading.meta, &reading.diags, &err), reading.good);
        if (!reading.good)
            assert_int_equal(err.code, cases[i].limit ? ERR_body_too_large : ERR_invalid);
        reading_end(&reading);
    }
}

/* A path that is at fault is the pointer of its fault; replacing a file by a folder, and the reverse, is none. */
static void paths_of_faults(void **state)
{
    (void)state;
    struct reading reading;
    reading_begin(&reading, STR("##files\n../x\n"), &limits);
    check_str(reading.diags.items[0].pointer, "../x");
    reading_end(&reading);
    reading_begin(&reading, STR("##files\na\nb/c\n##removed\na/x\na/y\nb\n"), &limits);
    check_str(faults(&reading), "");
    reading_end(&reading);
    struct changeset_limits long_path = limits;
    char text[400] = "##files\n";
    long_path.path_bytes = 1000;
    memset(text + 8, 'x', PATH_PART_BYTES_MAX);
    reading_begin(&reading, str_of(text), &long_path);
    check_str(faults(&reading), "");
    reading_end(&reading);
    text[8 + PATH_PART_BYTES_MAX] = 'x';
    reading_begin(&reading, str_of(text), &long_path);
    assert_non_null(strstr(reading.diags.items[0].message.ptr, "' has a part longer than 255 bytes"));
    assert_true(reading.meta.is_over_limit);
    reading_end(&reading);
}

/* Row 48: a meta beyond its limit is refused unread; row 51: 10^6 entries in linear time; 10^5 paths likewise. */
static void large_metas(void **state)
{
    (void)state;
    struct reading reading;
    struct buf text;
    buf_init(&text, SIZE_MAX);
    for (size_t i = 0; i <= 4000; i++)
        buf_add_char(&text, '\xff');
    reading_begin(&reading, buf_str(&text), &limits);
    check_str(faults(&reading), "0: longer than 4000 bytes (changesets.limits.meta)");
    assert_true(reading.meta.is_over_limit);
    reading_end(&reading);

    const struct changeset_limits wide = { 1 << 20, 1 << 28, 1000000, 1024, 64 };
    buf_reset(&text);
    buf_add_z(&text, "##dependencies\n");
    for (int i = 0; i < 1000000; i++)
        buf_addf(&text, "c%d\n", i);
    buf_add_z(&text, "##files\n");
    for (int i = 0; i < 100000; i++)
        buf_addf(&text, "folder/with/a/common/start/%d/%d\n", i % 7, i);
    buf_add_z(&text, "folder/with/a/common/start\n");
    for (int i = 0; i < 50000; i++)
        buf_addf(&text, "##section %d\n", i);
    reading_begin(&reading, buf_str(&text), &wide);
    assert_int_equal(reading.meta.dependencies.n, 1000000);
    assert_int_equal(reading.meta.files.n, 100001);
    assert_int_equal(reading.diags.n_errors, 100000); /* each of them is below a file */
    assert_int_equal(reading.diags.n, DIAG_MAX);
    reading_end(&reading);
    buf_release(&text);
}

static void checks_the_whole(void **state)
{
    (void)state;
    static const struct {
        const char *text, *csid;
        enum movetype named;
        const char *faults;
    } cases[] = {
        { "##movetype\nDC\n##target\nt\n##files\na\n", "", MOVE_NONE, "" },
        { "##movetype\nDC\n##target\nt\n##removed\na\n", "", MOVE_DC, "" },
        { "##target\nt\n##files\na\n", "", MOVE_DC, "" },
        { "##movetype\nRB\n##target\nt\n##dependencies\nc-1\n##overlapping\n", "c-2", MOVE_NONE, "" },
        { "", "", MOVE_NONE,
            "0: there is no ##movetype | 0: there is no ##target | 0: nothing to do: no path in ##files and none in "
            "##removed" },
        { "##target\n##files\n##movetype\nEM\n", "", MOVE_BF,
            "1: there is no ##target | 2: nothing to do: no path in ##files and none in ##removed | 3: ##movetype is "
            "EM, but the name says BF" },
        { "##movetype\nRB\n##target\nt\n##files\na\n##removed\nb\n##dependencies\n", "", MOVE_NONE,
            "6: a rollback (RB) has no files | 8: a rollback (RB) has no removed paths | 9: a rollback (RB) lists "
            "what it rolls back in ##dependencies" },
        { "##movetype\nDC\n##target\nt\n##files\na\n##overlapping\n##dependencies\nc-1\nc-2\n##precursors\nc-2\n",
            "c-2", MOVE_NONE,
            "W7: ##overlapping says something of rollbacks (RB) only: it is ignored | 10: 'c-2' is the change set "
            "itself | 12: 'c-2' is the change set itself" },
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct reading reading;
        reading_begin(&reading, str_of(cases[i].text), &limits);
        struct changeset_name name = { .movetype = cases[i].named };
        bool good = changeset_meta_check(
            &reading.meta, str_of(cases[i].csid), name.movetype != MOVE_NONE ? &name : NULL, &reading.diags);
        check_str(faults(&reading), cases[i].faults);
        assert_int_equal(good, reading.diags.n_errors == 0);
        reading_end(&reading);
    }
}

static void puts_sections(void **state)
{
    (void)state;
    static const char *const cases[][4] = {
        /* text, name, body, result */
        { "", "state", "P", "##state\nP\n" },
        { "##x\na", "state", "P\n", "##x\na\n##state\nP\n" },
        { "##a\n1\n## state \nQ\n\n##b\n2", "state", "P\n", "##a\n1\n##state\nP\n##b\n2" },
        { "##state\nQ", "state", "", "##state\n" },
        { "##stated\nx\n", "state", "P", "##stated\nx\n##state\nP\n" },
        { "\n\n##state\nx\n##state\ny\n", "state", "P", "\n\n##state\nP\n##state\ny\n" },
        { "", "message", "one\r\n##two\n\r##three\r####", "##message\none\n ##two\n\n ##three\n ####\n" },
        { "##message\nold\n##z\n", "message", "##", "##message\n ##\n##z\n" },
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct buf out;
        struct err err = { 0 };
        struct str text = exact(str_of(cases[i][0])), body = exact(str_of(cases[i][2]));
        buf_init(&out, 1000);
        assert_true(changeset_meta_put(&out, text, str_of(cases[i][1]), body, &err));
        check_str(buf_str(&out), cases[i][3]);
        buf_release(&out);
        exact_free(text);
        exact_free(body);
    }
    struct buf out;
    struct err err = { 0 };
    buf_init(&out, 20);
    assert_false(changeset_meta_put(&out, STR(""), STR("message"), STR("a\0b"), &err));
    assert_int_equal(err.code, ERR_invalid);
    assert_false(changeset_meta_put(&out, STR(""), STR("message"), STR("\xff"), &err));
    buf_reset(&out);
    assert_false(changeset_meta_put(&out, STR("##files\na\n"), STR("message"), STR("hello"), &err));
    assert_int_equal(err.code, ERR_body_too_large);
    buf_release(&out);
}

/* Job files: meta and three sections, put one after the other any number of times, keep every other byte. */
static void job_files_keep_meta(void **state)
{
    (void)state;
    static const char *const names[] = { "state", "history", "csid", "precursors" };
    struct buf now, next;
    struct rng rng;
    struct err err = { 0 };
    buf_init(&now, 1 << 20);
    buf_init(&next, 1 << 20);
    rng_seed(&rng, 4);
    buf_add_z(&now, whole);
    for (int i = 0; i < 200; i++) {
        char body[40];
        snprintf(body, sizeof body, "%s%llu", rng_below(&rng, 2) ? "## " : "x\n\n",
            (unsigned long long)rng_below(&rng, 1000));
        buf_reset(&next);
        assert_true(changeset_meta_put(&next, buf_str(&now), str_of(names[rng_below(&rng, 4)]), str_of(body), &err));
        struct buf swap = now;
        now = next;
        next = swap;
    }
    struct reading reading, first;
    reading_begin(&first, STR(whole), &limits);
    reading_begin(&reading, buf_str(&now), &limits);
    size_t k = 0;
    for (size_t i = 0; i < first.meta.sections.n; i++, k++) {
        const struct meta_section *a = &first.meta.sections.at[i], *b = &reading.meta.sections.at[k];
        assert_true(str_eq(a->name, b->name));
        if (a->kind != META_PRECURSORS)
            assert_true(str_eq(a->whole, b->whole));
    }
    assert_int_equal(reading.meta.sections.n, first.meta.sections.n + 3);
    reading_end(&reading);
    reading_end(&first);
    buf_release(&now);
    buf_release(&next);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_every_section),
        cmocka_unit_test(reads_little),
        cmocka_unit_test(refuses),
        cmocka_unit_test(paths_of_faults),
        cmocka_unit_test(large_metas),
        cmocka_unit_test(checks_the_whole),
        cmocka_unit_test(puts_sections),
        cmocka_unit_test(job_files_keep_meta),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
