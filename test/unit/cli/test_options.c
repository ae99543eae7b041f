/* options: the rules of the command line as a table of command lines. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/options.h"

#define N_OF(array) (sizeof(array) / sizeof *(array))

static const struct option_spec sample_options[] = {
    { "reason", 0, "T", "why", OPTION_REQUIRED | OPTION_NON_EMPTY, NULL },
    { "label", 'l', "K=V", "a label", OPTION_REPEATABLE, NULL },
    { "follow", 'f', NULL, "go on", 0, NULL },
    { "verbose", 'v', NULL, "say more", OPTION_REPEATABLE, NULL },
    { "format", 0, "F", "how", 0, "ascii|dot" },
    { "wait", 0, "D", "how long", 0, NULL },
    { 0 },
};
static const struct command_spec sample = {
    .name = "sample",
    .operands = "KEY [OTHER]",
    .operands_min = 1,
    .operands_max = 2,
    .summary = "a sample",
    .options = sample_options,
};

/* hush: usage errors are expected in dozens; what cmocka says must be seen. Returns the stderr to give back to
 * hush_end. */
static int hush(void)
{
    int kept = dup(STDERR_FILENO), null = open("/dev/null", O_WRONLY);
    assert_true(kept >= 0 && null >= 0);
    dup2(null, STDERR_FILENO);
    close(null);
    return kept;
}

static void hush_end(int kept)
{
    dup2(kept, STDERR_FILENO);
    close(kept);
}

/* split: words by blanks; '' is an empty word. */
static int split(char *line, char **argv)
{
    int argc = 0;
    for (char *word = line; *word;) {
        size_t len = strcspn(word, " ");
        char *next = word + len + (word[len] == ' ');
        word[len] = '\0';
        if (strcmp(word, "''") == 0)
            word[0] = '\0';
        argv[argc++] = word;
        word = next;
    }
    return argc;
}

static const struct {
    const char *line;
    int status;
    const char *seen; /* values and operands, in order */
} lines[] = {
    { "sample --reason r k", OPTIONS_RUN, "reason=r | k" }, { "sample --reason=r k", OPTIONS_RUN, "reason=r | k" },
    { "sample --reason= k", 2, "" }, { "sample --reason '' k", 2, "" },
    { "sample k --reason r o", OPTIONS_RUN, "reason=r | k o" },
    { "sample -l a=1 -lb=2 --label c=3 --reason r k", OPTIONS_RUN, "label=a=1 label=b=2 label=c=3 reason=r | k" },
    { "sample -fvv --reason r k", OPTIONS_RUN, "follow= verbose= verbose= reason=r | k" },
    { "sample -fl a=1 --reason r k", OPTIONS_RUN, "follow= label=a=1 reason=r | k" },
    { "sample -ff --reason r k", 2, "" }, { "sample --reason r -- -k --x", OPTIONS_RUN, "reason=r | -k --x" },
    { "sample --reason r -", OPTIONS_RUN, "reason=r | -" }, { "sample --reason -- k", OPTIONS_RUN, "reason=-- | k" },
    { "sample --reason r --format dot k", OPTIONS_RUN, "reason=r format=dot | k" },
    { "sample --reason r --format svg k", 2, "" }, { "sample --reason r --format", 2, "" },
    { "sample --reason r --follow=1 k", 2, "" }, { "sample --reasn r k", 2, "" }, { "sample --reason r", 2, "" },
    { "sample --reason r a b c", 2, "" }, { "sample -x --reason r k", 2, "" }, { "sample k", 2, "" },
    { "sample --reason r --server x k", 2, "" }, /* not a client */
};

static void command_lines(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_OF(lines); i++) {
        char line[256], seen[256] = "", *argv[32];
        struct arena arena = { 0 };
        struct options options;
        snprintf(line, sizeof line, "%s", lines[i].line);
        int argc = split(line, argv);
        int kept = hush();
        int status = options_parse(&options, &sample, argc, argv, &arena);
        hush_end(kept);
        if (status != lines[i].status)
            fail_msg("%s: %d, wanted %d", lines[i].line, status, lines[i].status);
        size_t at = 0;
        for (size_t v = 0; status == OPTIONS_RUN && v < options.n_values; v++)
            at += (size_t)snprintf(
                seen + at, sizeof seen - at, "%s=%s ", options.values[v].spec->name, options.values[v].value);
        if (status == OPTIONS_RUN)
            at += (size_t)snprintf(seen + at, sizeof seen - at, "|");
        for (size_t o = 0; status == OPTIONS_RUN && o < options.n_operands; o++)
            at += (size_t)snprintf(seen + at, sizeof seen - at, " %s", options.operands[o]);
        assert_string_equal(seen, lines[i].seen);
        arena_release(&arena);
    }
}

static void typed_values(void **state)
{
    (void)state;
    char line[] = "sample --reason r --wait 90s -l 5 k", *argv[32];
    struct arena arena = { 0 };
    struct options options;
    int argc = split(line, argv);
    assert_int_equal(options_parse(&options, &sample, argc, argv, &arena), OPTIONS_RUN);
    int64_t ms = 1, n = 1;
    uint64_t bytes = 1;
    assert_true(option_duration(&options, "wait", &ms));
    assert_true(ms == 90000);
    assert_true(option_i64(&options, "label", 0, 9, &n));
    assert_true(n == 5);
    int kept = hush();
    bool bad = option_i64(&options, "label", 0, 4, &n) || option_duration(&options, "label", &ms) ||
               option_size(&options, "wait", &bytes);
    hush_end(kept);
    assert_false(bad);
    assert_true(option_size(&options, "format", &bytes)); /* not given: stays as it was */
    assert_true(bytes == 1);
    arena_release(&arena);
}

int main(void)
{
    static const struct CMUnitTest tests[] = { cmocka_unit_test(command_lines), cmocka_unit_test(typed_values) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
