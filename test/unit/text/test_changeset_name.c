/* Names of change sets (RQ2, RQ11): one text for one name, TAI64N labels, and one order however it is asked for. */
#include "check.h"

#include "base/rng.h"
#include "text/changeset_name.h"

#define TAI "400000006745f2c41d3a5b80"

/* The label of tai64n(8) for a known second: 2^62 + 10 + seconds since 1970. */
static void labels_are_those_of_daemontools(void **state)
{
    (void)state;
    static const struct {
        int64_t ns;
        const char *label;
    } cases[] = {
        { 0, "400000000000000a00000000" },
        { 1, "400000000000000a00000001" },
        { -1, "40000000000000093b9ac9ff" },
        { 999999999, "400000000000000a3b9ac9ff" },
        { 1000000000, "400000000000000b00000000" },
        { -10000000000, "400000000000000000000000" },
        { -11000000000, "3fffffffffffffff00000000" },
        { 942235665123456789, "400000003829601b075bcd15" },
        { INT64_MAX, "4000000225c17d0e32f2d7ff" },
        { INT64_MIN, "3ffffffdda3e830508a7f200" },
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct tai64n tai = tai64n_from_ns(cases[i].ns), read = { 0 };
        assert_string_equal(tai64n_format(tai).z, cases[i].label);
        assert_true(tai64n_parse(str_of(cases[i].label), &read));
        assert_int_equal(tai64n_compare(tai, read), 0);
        int64_t ns = 0;
        assert_true(tai64n_to_ns(read, &ns));
        assert_true(ns == cases[i].ns);
    }
}

static void refuses_labels(void **state)
{
    (void)state;
    static const char *const bad[] = { "", "4", "@400000000000000a00000000", "400000000000000a0000000",
        "400000000000000a000000000", "400000000000000A00000000", "400000000000000g00000000", "800000000000000000000000",
        "ffffffffffffffffffffffff", "400000000000000a3b9aca00", "400000000000000affffffff", "400000000000000a 0000000",
        "-00000000000000a00000000" };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct tai64n tai = { 7, 7 };
        struct str in = exact(str_of(bad[i]));
        if (tai64n_parse(in, &tai))
            fail_msg("%s was taken", bad[i]);
        assert_true(tai.seconds == 7 && tai.nanoseconds == 7);
        exact_free(in);
    }
    static const char *const far[] = { "000000000000000000000000", "7fffffffffffffff3b9ac9ff",
        "4000000225c17d0e32f2d800", "3ffffffdda3e830508a7f1ff" };
    for (size_t i = 0; i < COUNT_OF(far); i++) {
        struct tai64n tai;
        int64_t ns;
        assert_true(tai64n_parse(str_of(far[i]), &tai));
        assert_false(tai64n_to_ns(tai, &ns));
    }
}

static void parses_names(void **state)
{
    (void)state;
    static const struct {
        const char *text, *csid;
        int64_t pid;
        const char *host;
        enum movetype movetype;
        int urgency, priority;
        const char *extra;
    } cases[] = {
        { "c-17_" TAI "_812_node-a_BF5_ada", "c-17", 812, "node-a", MOVE_BF, 5, 305, "ada" },
        { "a_" TAI "_1_h_RB_-", "a", 1, "h", MOVE_RB, 0, 900, "-" },
        { "0a.b-c_" TAI "_2147483647_h.example_EM99_x.y-z", "0a.b-c", 2147483647, "h.example", MOVE_EM, 99, 699,
            "x.y-z" },
        { "a_" TAI "_1_h_DC0_e", "a", 1, "h", MOVE_DC, 0, 0, "e" },
        { "a_" TAI "_1_h_DC07_e", "a", 1, "h", MOVE_DC, 7, 7, "e" },
        { "a_" TAI "_1_-_DC00_.", "a", 1, "-", MOVE_DC, 0, 0, "." },
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct changeset_name name;
        struct err err = { 0 };
        struct str in = exact(str_of(cases[i].text));
        if (!changeset_name_parse(in, &name, &err))
            fail_msg("%s: %s", cases[i].text, err.text);
        check_str(name.csid, cases[i].csid);
        assert_string_equal(tai64n_format(name.tai).z, TAI);
        assert_int_equal(name.pid, cases[i].pid);
        check_str(name.host, cases[i].host);
        assert_int_equal(name.movetype, cases[i].movetype);
        assert_int_equal(name.urgency, cases[i].urgency);
        assert_int_equal(changeset_priority(&name), cases[i].priority);
        check_str(name.extra, cases[i].extra);
        struct buf buf;
        buf_init(&buf, 300);
        changeset_name_format(&buf, &name);
        check_str(buf_str(&buf), cases[i].text);
        buf_release(&buf);
        exact_free(in);
    }
}

#define A64 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define E48 "eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee"

static void refuses_names(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        { "", "'' isn't the name of a change set: CSID_TAI_PID_HOST_PRIO_EXTRA has 6 parts, this has 1" },
        { "a_" TAI "_1_h_DC",
            "'a_" TAI "_1_h_DC' isn't the name of a change set: CSID_TAI_PID_HOST_PRIO_EXTRA has 6 parts, this has 5" },
        { "a_" TAI "_1_h_DC_e_f",
            "'a_" TAI "_1_h_DC_e_f' isn't the name of a change set: CSID_TAI_PID_HOST_PRIO_EXTRA has 6 "
            "parts, this has 7" },
        { "_" TAI "_1_h_DC_e", "the CSID is empty" },
        { "12_" TAI "_1_h_DC_e", "the CSID name '12' consists of digits only, as ids do" },
        { "all_" TAI "_1_h_DC_e", "the CSID name 'all' is a reserved word" },
        { "-a_" TAI "_1_h_DC_e", "the CSID name '-a' must begin with a letter or a digit" },
        { A64 "a_" TAI "_1_h_DC_e", "the CSID 'aaaaaaaaaaaaaaaaaaaa...' is longer than 64 characters" },
        { "a/b_" TAI "_1_h_DC_e", "the CSID name 'a/b' has a character that isn't allowed at place 2: only letters, "
                                  "digits, '.', '_' and '-'" },
        { "a_400000006745F2C41D3A5B80_1_h_DC_e",
            "'400000006745F2C41D3A5B80' in the name is no TAI64N label: 24 hex digits, lower case" },
        { "a_1_1_h_DC_e", "'1' in the name is no TAI64N label: 24 hex digits, lower case" },
        { "a_" TAI "__h_DC_e", "'' in the name is no process id" },
        { "a_" TAI "_0_h_DC_e", "'0' in the name is no process id" },
        { "a_" TAI "_01_h_DC_e", "'01' in the name is no process id" },
        { "a_" TAI "_-1_h_DC_e", "'-1' in the name is no process id" },
        { "a_" TAI "_2147483648_h_DC_e", "'2147483648' in the name is no process id" },
        { "a_" TAI "_1__DC_e", "the host in the name is empty" },
        { "a_" TAI "_1_h h_DC_e",
            "the host in the name, 'h h', has a character that isn't a letter, a digit, '.' or '-'" },
        { "a_" TAI "_1_" A64 "a_DC_e", "the host in the name is longer than 64 characters" },
        { "a_" TAI "_1_h__e", "'' in the name is no priority: RB, EM, BF or DC, and at most two digits" },
        { "a_" TAI "_1_h_D_e", "'D' in the name is no priority: RB, EM, BF or DC, and at most two digits" },
        { "a_" TAI "_1_h_dc_e", "'dc' in the name is no priority: RB, EM, BF or DC, and at most two digits" },
        { "a_" TAI "_1_h_DC100_e", "'DC100' in the name is no priority: RB, EM, BF or DC, and at most two digits" },
        { "a_" TAI "_1_h_DC+1_e", "'DC+1' in the name is no priority: RB, EM, BF or DC, and at most two digits" },
        { "a_" TAI "_1_h_DC_", "the extra part in the name is empty" },
        { "a_" TAI "_1_h_DC_\xc3\xa4",
            "the extra part in the name, '\xc3\xa4', has a character that isn't a letter, a digit, '.' or '-'" },
        { "a_" TAI "_1_h_DC_" E48 "e", "the extra part in the name is longer than 48 characters" },
        { A64 "_" TAI "_2147483647_" A64 "_DC99_" E48 "e", "the name of a change set has at most 219 characters" },
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct changeset_name name = { .pid = -7 };
        struct err err = { 0 };
        struct str in = exact(str_of(cases[i][0]));
        if (changeset_name_parse(in, &name, &err))
            fail_msg("%s was taken", cases[i][0]);
        assert_string_equal(err.text, cases[i][1]);
        assert_int_equal(err.code, ERR_invalid);
        assert_int_equal(name.pid, -7);
        exact_free(in);
    }
    struct changeset_name name;
    struct err err = { 0 };
    assert_true(changeset_name_parse(STR(A64 "_" TAI "_2147483647_" A64 "_DC99_" E48), &name, &err));
}

/* A label more than 60 s ahead of the server's clock is refused; one of any age isn't. */
static void refuses_times_ahead(void **state)
{
    (void)state;
    struct changeset_name name = { 0 };
    const int64_t now = 1795000000123456789, minute = 60000000000;
    struct err err = { 0 };
    name.tai = tai64n_from_ns(now + minute);
    assert_true(changeset_name_check_time(&name, now, &err));
    name.tai = tai64n_from_ns(now + minute + 1);
    assert_false(changeset_name_check_time(&name, now, &err));
    assert_non_null(strstr(err.text, "is more than 60 s ahead of the server's clock"));
    name.tai = (struct tai64n){ 0, 0 };
    assert_true(changeset_name_check_time(&name, now, &err));
    name.tai = (struct tai64n){ ((uint64_t)1 << 63) - 1, 999999999 };
    assert_false(changeset_name_check_time(&name, now, &err));
    assert_true(changeset_name_check_time(&name, INT64_MAX, &err)); /* a clock that can't be right refuses nothing */
}

static void makes_parts(void **state)
{
    (void)state;
    static const char *const cases[][2] = { { "node-a", "node-a" }, { "", "-" }, { "a_b c/d", "a-b-c-d" },
        { "J\xc3\xb6rg", "J-rg" }, { "\xff\xfe", "--" }, { "a\nb", "a-b" }, { "123456789", "12345678" },
        { "1234567\xc3\xa4", "1234567-" } };
    struct arena arena = { 0 };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct str in = exact(str_of(cases[i][0]));
        check_str(changeset_name_part(&arena, in, 8), cases[i][1]);
        exact_free(in);
    }
    arena_release(&arena);
}

/* --- the order --- */

#define NAMES 400

/* model_compare: the order, from the texts alone and in another way than the code's. */
static int model_compare(const char *a, const char *b)
{
    const char *texts[] = { a, b };
    long rank[2][3];
    char tai[2][25];
    for (int i = 0; i < 2; i++) {
        char host[80], prio[8] = "", types[] = "RB EM BF DC";
        long pid;
        assert_int_equal(sscanf(texts[i], "%*[^_]_%24[^_]_%ld_%79[^_]_%7[^_]_", tai[i], &pid, host, prio), 4);
        char type[3] = { prio[0], prio[1], 0 };
        rank[i][0] = strstr(types, type) - types;
        rank[i][1] = -strtol(prio[2] ? prio + 2 : "0", NULL, 10);
        rank[i][2] = 0;
    }
    for (int k = 0; k < 2; k++)
        if (rank[0][k] != rank[1][k])
            return rank[0][k] < rank[1][k] ? -1 : 1;
    int order = strcmp(tai[0], tai[1]);
    order = order ? order : strcmp(a, b);
    return (order > 0) - (order < 0);
}

static int sign(int n)
{
    return (n > 0) - (n < 0);
}

/* Names that are equal in much, so that every part of the key decides; the ways of asking agree on each pair. */
static void order_is_one(void **state)
{
    (void)state;
    static const char *const csids[] = { "a", "b", "a.1", "a-1", "B" }, *const hosts[] = { "h", "h2", "g" };
    static const char *const digits[] = { "", "0", "5", "05", "15", "50", "99" };
    static char names[NAMES][CHANGESET_NAME_BYTES_MAX + 1];
    static struct changeset_name parsed[NAMES];
    static struct buf keys[NAMES];
    unsigned decided[5] = { 0 }; /* by move type, digits, TAI, name, equal */
    struct rng rng;
    rng_seed(&rng, 14);
    for (size_t i = 0; i < NAMES; i++) {
        struct err err = { 0 };
        snprintf(names[i], sizeof names[i], "%s_%s_%d_%s_%s%s_%s", csids[rng_below(&rng, 5)],
            tai64n_format(tai64n_from_ns((int64_t)rng_below(&rng, 3) * 999999999 - 1)).z, 1 + (int)rng_below(&rng, 2),
            hosts[rng_below(&rng, 3)], movetype_name(MOVE_DC + (enum movetype)rng_below(&rng, 4)),
            digits[rng_below(&rng, 7)], rng_below(&rng, 2) ? "x" : "y");
        if (!changeset_name_parse(str_of(names[i]), &parsed[i], &err))
            fail_msg("%s: %s", names[i], err.text);
        buf_init(&keys[i], 400);
        changeset_name_key(&keys[i], &parsed[i]);
    }
    for (size_t i = 0; i < NAMES; i++)
        for (size_t k = 0; k < NAMES; k++) {
            const struct changeset_name *a = &parsed[i], *b = &parsed[k];
            int wanted = model_compare(names[i], names[k]);
            assert_int_equal(changeset_name_compare(a, b), wanted);
            assert_int_equal(sign(str_cmp(buf_str(&keys[i]), buf_str(&keys[k]))), wanted);
            /* the task's priority never contradicts it */
            assert_true(changeset_priority(a) == changeset_priority(b) ||
                        (changeset_priority(a) > changeset_priority(b)) == (wanted < 0));
            decided[a->movetype != b->movetype            ? 0
                    : a->urgency != b->urgency            ? 1
                    : tai64n_compare(a->tai, b->tai) != 0 ? 2
                    : strcmp(names[i], names[k]) != 0     ? 3
                                                          : 4]++;
        }
    for (size_t i = 0; i < 5; i++)
        assert_true(decided[i] > 0);
    for (size_t i = 0; i < NAMES; i++)
        buf_release(&keys[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(labels_are_those_of_daemontools),
        cmocka_unit_test(refuses_labels),
        cmocka_unit_test(parses_names),
        cmocka_unit_test(refuses_names),
        cmocka_unit_test(refuses_times_ahead),
        cmocka_unit_test(makes_parts),
        cmocka_unit_test(order_is_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
