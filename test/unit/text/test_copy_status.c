/* What git and svn say of a working copy: every kind of entry, odd names, and answers that aren't whole. */
#include "check.h"

#include <stdlib.h>
#include <string.h>

#include "text/copy_status.h"

static struct arena arena;

typedef bool reader(struct str text, struct arena *arena, struct copy_status *out, struct err *err);

static const char *kinds[] = { [COPY_CHANGED] = "changed",
    [COPY_REMOVED] = "removed",
    [COPY_MISSING] = "missing",
    [COPY_UNKNOWN] = "unknown",
    [COPY_CONFLICT] = "conflict",
    [COPY_LINK] = "link",
    [COPY_MODULE] = "module" };

/* shown: "changed x a.sh\n...": one line an entry */
static const char *shown(const struct copy_status *status)
{
    struct buf out;
    buf_init(&out, SIZE_MAX);
    buf_add_z(&out, "");
    for (size_t i = 0; i < status->n; i++) {
        const struct copy_entry *e = &status->at[i];
        buf_addf(&out, "%s%s%s", kinds[e->kind], e->is_executable ? " x" : "", e->is_copied ? " copied" : "");
        if (e->revision != 0)
            buf_addf(&out, " r%lld", (long long)e->revision);
        buf_add_char(&out, ' ');
        buf_add_str(&out, e->path);
        buf_add_char(&out, '\n');
    }
    return str_dupz(&arena, buf_move(&out, &arena));
}

static void reads(reader *read, struct str text, const char *wanted, const char *head)
{
    struct copy_status status;
    struct err err = { .code = ERR_none };
    if (!read(text, &arena, &status, &err))
        fail_msg("%s", err.text);
    assert_string_equal(shown(&status), wanted);
    assert_true(str_eqz(status.head, head));
}

static void refuses(reader *read, struct str text, const char *wanted)
{
    struct copy_status status;
    struct err err = { .code = ERR_none };
    assert_false(read(text, &arena, &status, &err));
    if (err.code != ERR_invalid || !strstr(err.text, wanted))
        fail_msg("wanted '%s', got '%s'", wanted, err.text);
}

#define OID "5a1c0000000000000000000000000000000000aa"
#define NONE "0000000000000000000000000000000000000000"
#define CHANGED(xy, sub, head, index, tree, path) \
    "1 " xy " " sub " " head " " index " " tree " " OID " " NONE " " path "\0"

#define GIT_ALL \
    "# branch.oid " OID "\0# branch.head main\0# branch.ab +1 -0\0# stash 3\0" \
    CHANGED(".M", "N...", "100644", "100644", "100644", "with blank.txt") \
    CHANGED("MM", "N...", "100644", "100755", "100755", "run.sh") \
    CHANGED("A.", "N...", "000000", "100644", "100644", "a\nb\"\\\x01\xff") \
    CHANGED(".A", "N...", "000000", "000000", "100644", "meant") \
    CHANGED("AD", "N...", "000000", "100644", "000000", "came and went") \
    CHANGED(".D", "N...", "100644", "100644", "000000", "gone") \
    CHANGED("D.", "N...", "100644", "000000", "000000", "gone/too") \
    CHANGED(".T", "N...", "100644", "100644", "120000", "now a link") \
    CHANGED(".M", "SC..", "160000", "160000", "160000", "module") \
    CHANGED(".M", "S..U", "160000", "160000", "160000", "its own matter") \
    "2 R. N... 100644 100644 100755 " OID " " OID " R090 new name\0old name\0" \
    "2 C. N... 100644 100644 100644 " OID " " OID " C100 copy\0gone on\0" \
    "u UU N... 100644 100644 100644 100644 " OID " " OID " " OID " both\0" \
    "? new.txt\0? folder/\0! ignored\0"

static void git_everything(void **state)
{
    (void)state;
    reads(copy_status_git, STR(""), "", "");
    reads(copy_status_git, STR("# branch.oid (initial)\0? x\0"), "unknown x\n", "");
    reads(copy_status_git, STR(GIT_ALL),
        "changed with blank.txt\n"
        "changed x run.sh\n"
        "changed a\nb\"\\\x01\xff\n"
        "changed meant\n"
        "removed gone\n"
        "removed gone/too\n"
        "link now a link\n"
        "module module\n"
        "changed x new name\n"
        "removed old name\n"
        "changed copy\n"
        "conflict both\n"
        "unknown new.txt\n"
        "unknown folder\n",
        OID);
}

static void git_faults(void **state)
{
    (void)state;
    static const struct {
        struct str text;
        const char *wanted;
    } cases[] = {
        { { "? x", 3 }, "at byte 1" }, /* no NUL: cut off */
        { { "? x\0? y", 7 }, "at byte 5" },
        { { "? \0", 3 }, "at byte" },
        { { "\0", 1 }, "at byte 1" },
        { { "x y\0", 4 }, "at byte 1" },
        { { "1 .M N... 100644\0", 17 }, "at byte 1" },
        { { "1 .M  100644 100644 100644 a b p\0", 33 }, "at byte 1" },
        { { "1 .M N... 100644 100644 040000 a b p\0", 37 }, "at byte" },
        { { "1 .M N... 100644 100644 100644 a b \0", 36 }, "at byte" },
        { { "2 R. N... 100644 100644 100644 a b R1 new\0", 42 }, "at byte 1" }, /* where from? */
        { { "# branch.oid xyz\0", 17 }, "at byte" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        refuses(copy_status_git, cases[i].text, cases[i].wanted);
}

#define ENTRY(path, attributes) "<entry\n   path=\"" path "\">\n<wc-status\n   " attributes "></wc-status>\n</entry>\n"
#define STATUS(entries) \
    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!-- <entry> -->\n<status>\n<target path=\".\">\n" entries \
    "</target>\n</status>\n"

#define SVN_ALL \
    STATUS(ENTRY("a &amp; b&lt;c&gt;&quot;&apos;&#233;&#x20ac;", "item=\"modified\" props=\"none\" revision=\"7\"") \
            ENTRY("added", "item='added' props='none' revision=\"-1\"") \
                ENTRY("moved", "item=\"added\" props=\"none\" copied=\"true\" revision=\"3\" moved-from=\"was\"") \
                    ENTRY("moved/in", "item=\"normal\" props=\"none\" copied=\"true\"") \
                        ENTRY("same", "item=\"normal\" props=\"none\" revision=\"3\"") \
                            ENTRY("bit", "item=\"normal\" props=\"modified\" revision=\"3\"") \
                                ENTRY("was", "item=\"deleted\" props=\"none\" revision=\"3\"") \
                                    ENTRY("lost", "item=\"missing\" props=\"none\" revision=\"3\"") \
                                        ENTRY("new", "item=\"unversioned\" props=\"none\"") \
                                            ENTRY("ext", "item=\"external\" props=\"none\"") \
                                                ENTRY("again", "item=\"replaced\" props=\"none\" revision=\"2\"") \
                                                    ENTRY("text", "item=\"conflicted\" props=\"none\"") \
                                                        ENTRY("prop", "item=\"normal\" props=\"conflicted\"") \
                                                            ENTRY("tree", "item=\"none\" props=\"none\" " \
                                                                          "tree-conflicted=\"true\""))

static void svn_everything(void **state)
{
    (void)state;
    reads(copy_status_svn, STR(STATUS("")), "", "");
    reads(copy_status_svn, STR(SVN_ALL),
        "changed r7 a & b<c>\"'\xc3\xa9\xe2\x82\xac\n"
        "changed added\n"
        "changed copied moved\n"
        "changed copied moved/in\n"
        "changed r3 bit\n"
        "removed r3 was\n"
        "missing r3 lost\n"
        "unknown new\n"
        "changed r2 again\n"
        "conflict text\n"
        "conflict prop\n"
        "conflict tree\n",
        "");
    reads(copy_executables_svn,
        STR("<properties><target path=\"/w/a b\"><property name=\"svn:executable\">*</property></target>"
            "<target path=\"/w/d\"/></properties>"),
        "changed x /w/a b\nchanged x /w/d\n", "");
    reads(copy_executables_svn, STR("<properties>\n</properties>"), "", "");
    int64_t revision = 0;
    struct err err = { .code = ERR_none };
    assert_true(copy_info_svn(
        STR("<info><entry kind=\"dir\" path=\".\" revision=\"42\"><url>x</url>"), &arena, &revision, &err));
    assert_int_equal(revision, 42);
    assert_false(copy_info_svn(STR("<info></info>"), &arena, &revision, &err));
    assert_false(copy_info_svn(STR("<info><entry revision=\"4x\">"), &arena, &revision, &err));
    assert_false(copy_info_svn(STR("<info><entry>"), &arena, &revision, &err));
}

static void svn_faults(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "",
        "svn: E155007: '/tmp' is not a working copy",
        "<status>",
        "<status",
        "<status></statu",
        "<status><entry path=\"a\"",
        "<status><entry path=\"a></entry></status>",
        "<status><entry path=a></entry></status>",
        "<status><entry path></entry></status>",
        "<status><entry path='a'><wc-status item='new'/></entry></status>",
        "<status><entry path='a'><wc-status/></entry></status>",
        "<status><wc-status item='modified'/></status>",
        "<status><entry path=''><wc-status item='modified'/></entry></status>",
        "<status><entry path='a&b;'><wc-status item='modified'/></entry></status>",
        "<status><entry path='a&amp'><wc-status item='modified'/></entry></status>",
        "<status><entry path='a&#0;'><wc-status item='modified'/></entry></status>",
        "<status><entry path='a&#xd800;'><wc-status item='modified'/></entry></status>",
        "<status><entry path='a&#x110000;'><wc-status item='modified'/></entry></status>",
        "<status><entry path='a&#99999999999;'><wc-status item='modified'/></entry></status>",
        "<status><entry path='a&#;'><wc-status item='modified'/></entry></status>",
        "<status><entry path='a'><wc-status item='modified' revision='x'/></entry></status>",
        "<status><entry path='a<b'><wc-status item='modified'/></entry></status>",
        "<status a='' b='' c='' d='' e='' f='' g='' h='' i='' j='' k='' l='' m='' n='' o='' p='' q=''></status>",
        "<!-- <status></status>",
        "<? <status></status>",
        "<!DOCTYPE x [<!ENTITY y 'z'>]><status></status>",
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        refuses(copy_status_svn, str_of(cases[i]), "the answer of svn status can't be read at byte");
    refuses(copy_status_svn, STR("<status><entry path='a\0b'><wc-status item='modified'/></entry></status>"), "byte");
    refuses(copy_executables_svn, STR("<properties><target/></properties>"), "svn propget");
    refuses(copy_executables_svn, STR("<properties><target path='x'>"), "svn propget");
}

/* Cut anywhere, or with any byte changed: an answer or a sentence, and nothing outside of the text is read. */
static void any_bytes(void **state)
{
    (void)state;
    static const struct {
        reader *read;
        struct str text;
    } all[] = {
        { copy_status_git, { GIT_ALL, sizeof GIT_ALL - 1 } },
        { copy_status_svn, { SVN_ALL, sizeof SVN_ALL - 1 } },
        { copy_executables_svn, { SVN_ALL, sizeof SVN_ALL - 1 } },
    };
    static const char bytes[] = { '\0', '<', '>', '&', '"', ' ', '/', '\xff', '2' };
    for (size_t t = 0; t < sizeof all / sizeof *all; t++)
        for (size_t i = 0; i < all[t].text.len; i++)
            for (size_t b = 0; b <= sizeof bytes; b++) {
                struct copy_status status;
                struct err err = { .code = ERR_none };
                size_t len = b == sizeof bytes ? i : all[t].text.len;
                char *copy = malloc(len > 0 ? len : 1); /* the sanitizer sees its end */
                memcpy(copy, all[t].text.ptr, len);
                if (b < sizeof bytes)
                    copy[i] = bytes[b];
                bool good = all[t].read((struct str){ copy, len }, &arena, &status, &err);
                assert_int_equal(good, err.code == ERR_none);
                arena_reset(&arena);
                free(copy);
            }
}

static void too_many(void **state)
{
    (void)state;
    struct buf text;
    buf_init(&text, SIZE_MAX);
    for (size_t i = 0; i <= COPY_ENTRIES_MAX; i++)
        buf_add(&text, "? x\0", 4);
    struct copy_status status;
    struct err err = { .code = ERR_none };
    assert_false(copy_status_git(buf_str(&text), &arena, &status, &err));
    assert_int_equal(err.code, ERR_body_too_large);
    assert_int_equal(status.n, COPY_ENTRIES_MAX);
    assert_true(copy_status_git(str_sub(buf_str(&text), 4, text.len), &arena, &status, &err));
    buf_release(&text);
}

static int release(void **state)
{
    (void)state;
    arena_release(&arena);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(git_everything),
        cmocka_unit_test(git_faults),
        cmocka_unit_test(svn_everything),
        cmocka_unit_test(svn_faults),
        cmocka_unit_test(any_bytes),
        cmocka_unit_test(too_many),
    };
    return cmocka_run_group_tests(tests, NULL, release);
}
