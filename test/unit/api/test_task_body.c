/* Posted tasks: good documents become definitions, bad ones say exactly where and why. */
#include "check.h"

struct fixture {
    struct arena arena;
    struct err err;
    struct task_body body;
};

static bool read_text(struct fixture *f, const char *text)
{
    *f = (struct fixture){ 0 };
    f->err.arena = &f->arena;
    return task_body_read(&f->arena, str_of(text), &f->body, &f->err);
}

static void release(struct fixture *f)
{
    arena_release(&f->arena);
}

static const char *const kinds[] = { "none", "command", "script", "image", "data" };

/* def_text: what a definition says, on one line, defaults left out. */
static struct str def_text(struct arena *arena, const struct task_def *def)
{
    struct str text = str_fmt(
        arena, "%.*s/%.*s %s %.*s", STR_ARG(def->queue), STR_ARG(def->name), kinds[def->kind], STR_ARG(def->body));
    if (def->prio != 0)
        text = str_fmt(arena, "%.*s prio=%lld", STR_ARG(text), (long long)def->prio);
    if (def->not_before != 0)
        text = str_fmt(arena, "%.*s at=%lld", STR_ARG(text), (long long)def->not_before);
    if (def->attempts_max != 3 || def->backoff_ms != 5000 || def->retry_on != 7)
        text = str_fmt(arena, "%.*s retry=%lld,%lld,%u", STR_ARG(text), (long long)def->attempts_max,
            (long long)def->backoff_ms, def->retry_on);
    if (def->zone.len > 0)
        text = str_fmt(arena, "%.*s zone=%.*s", STR_ARG(text), STR_ARG(def->zone));
    if (def->unique.len > 0)
        text = str_fmt(arena, "%.*s unique=%.*s", STR_ARG(text), STR_ARG(def->unique));
    if (def->concurrency.len > 0)
        text = str_fmt(arena, "%.*s concurrency=%.*s", STR_ARG(text), STR_ARG(def->concurrency));
    for (size_t i = 0; i < def->n_labels; i++)
        text = str_fmt(
            arena, "%.*s %.*s=%.*s", STR_ARG(text), STR_ARG(def->labels[i].name), STR_ARG(def->labels[i].value));
    for (size_t i = 0; i < def->n_semaphores; i++)
        text = str_fmt(arena, "%.*s sem=%.*s", STR_ARG(text), STR_ARG(def->semaphores[i]));
    for (size_t i = 0; i < def->n_refs; i++)
        text = str_fmt(arena, "%.*s %s%s%lld", STR_ARG(text), edge_kind_name(def->refs[i].kind),
            def->refs[i].id > 0 ? "#" : "@",
            def->refs[i].id > 0 ? (long long)def->refs[i].id : (long long)def->refs[i].index);
    return text;
}

static const struct {
    const char *text, *wanted;
} good[] = {
    { "{\"name\":\"a\"}", "default/a none {}" },
    { "{\"name\":\"a\",\"command\":\"echo 'a b' c\"}", "default/a command {\"command\":[\"echo\",\"a b\",\"c\"]}" },
    { "{\"name\":\"a\",\"command\":[\"echo\",\"\",\"\\u00e4\"]}",
        "default/a command {\"command\":[\"echo\",\"\",\"ä\"]}" },
    { "{\"queue\":\"q-1\",\"name\":\"a\",\"script\":\"x\\ny\",\"shell\":\"bash\"}",
        "q-1/a script {\"script\":\"x\\ny\",\"shell\":\"bash\"}" },
    { "{\"name\":\"a\",\"data\": { \"n\" : 1.0, \"big\": 1e3, \"t\": \" x  y \" } }",
        "default/a data {\"data\":{\"n\":1.0,\"big\":1e3,\"t\":\" x  y \"}}" },
    { "{\"name\":\"a\",\"data\":null}", "default/a data {\"data\":null}" },
    { "{\"name\":\"a\",\"d\\u0061ta\":[1]}", "default/a data {\"data\":[1]}" },
    { "{\"name\":\"a\",\"command\":\"x\",\"data\":[1, 2]}", "default/a command {\"command\":[\"x\"],\"data\":[1,2]}" },
    { "{\"name\":\"a\",\"image\":\"img/tag:1\",\"command\":\"x\"}",
        "default/a image {\"command\":[\"x\"],\"image\":\"img/tag:1\"}" },
    { "{\"name\":\"a\",\"command\":\"x\",\"env\":{\"K\":\"v\",\"_b\":\"\"},\"timeout\":\"1h30m\",\"grace\":\"0s\"}",
        "default/a command "
        "{\"command\":[\"x\"],\"env\":{\"K\":\"v\",\"_b\":\"\"},\"timeout_ms\":5400000,\"grace_ms\":0}" },
    { "{\"name\":\"a\",\"limits\":{\"memory\":\"64MiB\",\"pids\":5,\"cpu\":\"1500ms\",\"files\":9,\"file\":\"1KiB\","
      "\"disk\":\"4KiB\"},"
      "\"command\":\"x\"}",
        "default/a command "
        "{\"command\":[\"x\"],\"limits\":{\"memory\":67108864,\"pids\":5,\"cpu_s\":2,\"files\":9,\"file_bytes\":1024,"
        "\"disk_bytes\":4096}}" },
    { "{\"name\":\"a\",\"priority\":-1000,\"not_before\":\"2026-01-02T03:04:05+01:00\"}",
        "default/a none {} prio=-1000 at=1767319445000" },
    { "{\"name\":\"a\",\"retry\":{\"attempts\":1000,\"backoff\":\"250ms\",\"on\":[\"failed\",\"timeout\",\"lost\"]}}",
        "default/a none {} retry=1000,250,25" },
    { "{\"name\":\"a\",\"retry\":{\"on\":[]}}", "default/a none {} retry=3,5000,0" },
    { "{\"name\":\"a\",\"labels\":{\"os\":\"linux\",\"cc\":\"gcc\"},\"zone\":\"eu\",\"semaphores\":[\"pdf\",\"x\"]}",
        "default/a none {} zone=eu cc=gcc os=linux sem=pdf sem=x" },
    { "{\"name\":\"a\",\"queue\":\"q\",\"unique\":\"{archive}/{name}/{rev}{variant}!\",\"concurrency\":\"c-{name}\"}",
        "q/a none {} unique=q/a/! concurrency=c-a" },
    { "{\"name\":\"a\",\"depends\":[7,\"8\",\"q:9\",{\"task\":10,\"on\":\"finished\"}],\"after\":[11,{\"task\":12,"
      "\"on\":\"success\"}],"
      "\"cancels\":[13]}",
        "default/a none {} depends#7 depends#8 depends#9 after#10 after#11 depends#12 cancels#13" },
    { "{\"name\":\"a\",\"depends\":[7,7],\"after\":[7,8]}", "default/a none {} depends#7 after#8" },
    { "{\"name\":\"a\",\"checkout\":false,\"sandbox\":\"none\",\"lock\":\"none\",\"allow_failure\":false,\"detached\":"
      "false,\"collapse\":"
      "false,\"env\":null}",
        "default/a none {}" },
    { "{\"name\":\"a\",\"sandbox\":\"strict\",\"artifacts\":[\"out/*.log\",\"a\"]}",
        "default/a none {\"sandbox\":\"strict\",\"artifacts\":[\"out/*.log\",\"a\"]}" },
};

static void test_good(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        struct fixture f;
        if (!read_text(&f, good[i].text))
            fail_msg("%s: %s", good[i].text, f.err.text);
        assert_false(f.body.many);
        assert_int_equal(f.body.n, 1);
        check_str(def_text(&f.arena, &f.body.defs[0]), good[i].wanted);
        release(&f);
    }
}

static void test_many(void **state)
{
    (void)state;
    struct fixture f;
    assert_true(read_text(&f,
        "{ \"tasks\" : [ {\"name\":\"a\",\"data\":{\"x\": 1}}, "
        "{\"name\":\"b\",\"depends\":[\"a\"],\"cancels\":[\"c\"]},\n"
        "{\"name\":\"c\",\"after\":[{\"task\":\"a\"}],\"data\":\"]},{\"}, {\"name\":\"d\", \"data\" : 2.50 } ] }"));
    static const char *const wanted[] = { "default/a data {\"data\":{\"x\":1}}",
        "default/b none {} depends@0 cancels@2", "default/c data {\"data\":\"]},{\"} after@0",
        "default/d data {\"data\":2.50}" };
    assert_true(f.body.many);
    assert_int_equal(f.body.n, COUNT_OF(wanted));
    for (size_t i = 0; i < COUNT_OF(wanted); i++)
        check_str(def_text(&f.arena, &f.body.defs[i]), wanted[i]);
    check_str(f.body.defs[3].path, "/tasks/3");
    check_str(f.body.defs[1].refs[1].path, "/tasks/1/cancels/0");
    release(&f);
}

/* allow_failure loosens what the call itself says without `on`; where it stands in the call doesn't matter. */
static void test_allow_failure(void **state)
{
    (void)state;
    struct fixture f;
    assert_true(read_text(&f,
        "{\"tasks\":[{\"name\":\"a\",\"depends\":[\"b\",\"c\"]},{\"name\":\"b\",\"allow_failure\":true},"
        "{\"name\":\"c\"},"
        "{\"name\":\"d\",\"depends\":[{\"task\":\"b\",\"on\":\"success\"},{\"task\":\"c\",\"on\":\"finished\"}]},"
        "{\"name\":\"e\",\"depends\":[{\"task\":\"b\"},7]},"
        "{\"name\":\"f\",\"depends\":[\"b\"],\"after\":[{\"task\":\"b\",\"on\":\"success\"}]}]}"));
    static const char *const wanted[] = { "default/a none {} after@1 depends@2", "default/b none {}",
        "default/c none {}", "default/d none {} depends@1 after@2", "default/e none {} after@1 depends#7",
        "default/f none {} depends@1" };
    assert_int_equal(f.body.n, COUNT_OF(wanted));
    for (size_t i = 0; i < COUNT_OF(wanted); i++)
        check_str(def_text(&f.arena, &f.body.defs[i]), wanted[i]);
    release(&f);
}

#define KNOWN \
    "[known here: name, queue, depends, after, cancels, image, command, script, shell, data, checkout, env, " \
    "timeout, grace, retry, " \
    "limits, lock, priority, not_before, labels, zone, semaphores, collapse, unique, concurrency, detached, " \
    "allow_failure, sandbox, " \
    "artifacts]"
#define LATER(word) "invalid | /" word ": '" word "' isn't supported for queue tasks yet"
static const struct {
    const char *text, *wanted;
} bad[] = {
    { "[]", "invalid | : a task must be an object, not an array" },
    { "7", "invalid | : a task must be an object, not a number" },
    { "{}", "invalid | /name: 'name' is required" },
    { "{\"name\":null}", "invalid | /name: 'name' is required" },
    { "{\"tasks\":[]}", "invalid | /tasks: 'tasks' must have 1 to 10000 tasks, not 0" },
    { "{\"tasks\":{}}", "invalid | /tasks: 'tasks' must be an array, not an object" },
    { "{\"tasks\":[{\"name\":\"a\"}],\"queue\":\"q\"}", "invalid | /queue: unknown field 'queue' beside 'tasks'" },
    { "{\"tasks\":[1,{\"name\":\"a\"},{\"nam\":\"b\"}]}",
        "invalid | /tasks/0: a task must be an object, not a number | /tasks/2/nam: unknown field 'nam' [did you mean "
        "'name'?] | "
        "/tasks/2/name: 'name' is required" },
    { "{\"name\":5}", "invalid | /name: 'name' must be a string, not a number" },
    { "{\"name\":\"a\",\"a/b~c\":1}", "invalid | /a~1b~0c: unknown field 'a/b~c' " KNOWN },
    { "{\"name\":\"a\",\"comand\":1}", "invalid | /comand: unknown field 'comand' [did you mean 'command'?]" },
    { "{\"name\":\"a\",\"command\":{}}",
        "invalid | /command: 'command' must be a string or an array of strings, not an object" },
    { "{\"name\":\"a\",\"command\":[]}", "invalid | /command: 'command' must have 1 to 10000 words, not 0" },
    { "{\"name\":\"a\",\"command\":[\"\",5]}",
        "invalid | /command/0: the first word of 'command' names the program and must not be empty "
        "| /command/1: a word of 'command' must be a string, not a number" },
    { "{\"name\":\"a\",\"command\":[\"x\\u0000\"]}",
        "invalid | /command/0: a word of 'command' must not contain a NUL character" },
    { "{\"name\":\"a\",\"script\":\"x\\u0000\"}", "invalid | /script: 'script' must not contain a NUL character" },
    { "{\"name\":\"a\",\"command\":\"x\",\"script\":\"y\"}",
        "invalid | /script: 'command' and 'script' exclude each other" },
    { "{\"name\":\"a\",\"shell\":\"sh\"}", "invalid | /shell: 'shell' needs 'script'" },
    { "{\"name\":\"a\",\"image\":\"i\"}", "invalid | /image: 'image' needs 'command' or 'script'" },
    { "{\"name\":\"a\",\"image\":\"-v\",\"command\":\"x\"}",
        "invalid | /image: 'image' must be an image's name without blanks that doesn't begin with '-'" },
    { "{\"name\":\"a\",\"env\":{\"1a\":\"x\",\"WEIR_X\":\"y\",\"K\":1}}",
        "invalid | /env/1a: '1a' can't be the name of an environment variable | /env/WEIR_X: 'WEIR_X': names that "
        "begin with WEIR_ are set "
        "by Weir itself | "
        "/env/K: 'K' must be a string, not a number" },
    { "{\"name\":\"a\",\"timeout\":30}", "invalid | /timeout: 'timeout' must be a duration with a unit, such as 90s, "
                                         "15m, 2h or 7d, not a number [did you mean '30s'?]" },
    { "{\"name\":\"a\",\"timeout\":\"0s\"}", "invalid | /timeout: 'timeout' must be from 1ms to 365d, not 0s" },
    { "{\"name\":\"a\",\"timeout\":\"9999999999d\"}",
        "invalid | /timeout: 'timeout' must be from 1ms to 365d, not 9999999999d" },
    { "{\"name\":\"a\",\"priority\":1001}", "invalid | /priority: 'priority' must be from -1000 to 1000, not 1001" },
    { "{\"name\":\"a\",\"priority\":1.5}",
        "invalid | /priority: 'priority' must be a whole number, not a number with a fraction" },
    { "{\"name\":\"a\",\"priority\":\"1\"}",
        "invalid | /priority: 'priority' must be a whole number, not the text '1'" },
    { "{\"name\":\"a\",\"not_before\":\"tomorrow\"}", "invalid | /not_before: 'not_before' must be a time such as "
                                                      "\"2026-11-15T05:46:00Z\" (RFC 3339), not \"tomorrow\"" },
    { "{\"name\":\"a\",\"retry\":5}", "invalid | /retry: 'retry' must be an object, not a number" },
    { "{\"name\":\"a\",\"retry\":{\"attempts\":0,\"backoff\":\"x\",\"on\":[\"never\"],\"of\":1}}",
        "invalid | /retry/attempts: 'attempts' must be from 1 to 1000, not 0 | /retry/backoff: 'backoff' must be a "
        "duration with a unit, "
        "such as 90s, 15m, 2h or 7d, not the text 'x' | /retry/on/0: 'on' must be lost, temporary, killed, failed or "
        "timeout, not the text "
        "'never' | /retry/of: unknown field 'of' [did you "
        "mean 'on'?]" },
    { "{\"name\":\"a\",\"labels\":{\"o s\":\"x\",\"k\":5}}",
        "invalid | /labels/o s: 'o s' can't be the name of a label | /labels/k: 'labels' must be a string, not a "
        "number" },
    { "{\"name\":\"a\",\"zone\":\"\"}", "invalid | /zone: 'zone' must not be empty" },
    { "{\"name\":\"a\",\"semaphores\":[\"x\",\"x\",\"\"]}", "invalid | /semaphores/2: 'semaphores' must not be empty" },
    { "{\"name\":\"a\",\"semaphores\":[\"x\",\"x\",\"-\"]}",
        "invalid | /semaphores/1: semaphore 'x' stands twice | /semaphores/2: the semaphore name '-' must begin with a "
        "letter or a "
        "digit" },
    { "{\"name\":\"a\",\"semaphores\":\"x\"}",
        "invalid | /semaphores: 'semaphores' must be an array of strings, not a string" },
    { "{\"name\":\"a\",\"unique\":\"{nam}\"}", "invalid | /unique: 'unique' may use {archive}, {rev}, {name} and "
                                               "{variant}, not {nam} [did you mean 'name'?]" },
    { "{\"name\":\"a\",\"unique\":\"{name\"}",
        "invalid | /unique: 'unique' may use {archive}, {rev}, {name} and {variant}, not {}" },
    { "{\"name\":\"a\",\"limits\":{\"memory\":\"64\",\"pids\":0,\"cpu\":\"1ms\",\"mem\":1}}",
        "invalid | /limits/memory: 'memory' must be a size with a unit, such as 64KiB, 10MiB or 1GiB, not the text "
        "'64' "
        "[did you mean '64B'?] | /limits/pids: 'pids' "
        "must be from 1 to 4194304, "
        "not 0 | /limits/cpu: 'cpu' must be from 1s to 365d, not 1ms | /limits/mem: unknown field 'mem' [did you mean "
        "'memory'?]" },
    { "{\"name\":\"a\",\"checkout\":true}", LATER("checkout") },
    { "{\"name\":\"a\",\"lock\":\"shared\"}", LATER("lock") },
    { "{\"name\":\"a\",\"checkout\":\"x\"}",
        "invalid | /checkout: 'checkout' must be true or false, not the text 'x'" },
    { "{\"name\":\"a\",\"sandbox\":\"loose\"}",
        "invalid | /sandbox: 'sandbox' must be none or strict, not the text 'loose'" },
    { "{\"name\":\"a\",\"artifacts\":[\"../a\"]}",
        "invalid | /artifacts/0: 'artifacts' are files in the working directory" },
    { "{\"name\":\"a\",\"artifacts\":\"a\"}",
        "invalid | /artifacts: 'artifacts' must be an array of strings, not a string" },
    { "{\"name\":\"a\",\"collapse\":true}", LATER("collapse") },
    { "{\"name\":\"a\",\"allow_failure\":1}",
        "invalid | /allow_failure: 'allow_failure' must be true or false, not a number [did you mean 'true'?]" },
    { "{\"name\":\"a\",\"matrix\":{\"os\":[\"a\"]}}", LATER("matrix") },
    { "{\"name\":\"a\",\"on\":[]}", LATER("on") },
    { "{\"name\":\"a\",\"depends\":\"b\"}", "invalid | /depends: 'depends' must be an array of at most 10000 tasks" },
    { "{\"name\":\"a\",\"depends\":[0,-1,true,\"b\",\"PREV\"]}",
        "invalid | /depends/0: a task's id is a positive number, not 0 | /depends/1: a task's id is a positive number, "
        "not -1 | "
        "/depends/2: a task is named by its id, or by its name in this call | /depends/3: no task of this call is "
        "named 'b' | "
        "/depends/4: PREV means an earlier revision of an archive; a queue has none" },
    { "{\"name\":\"a\",\"depends\":[{\"task\":1,\"on\":\"fire\"},{\"on\":\"success\"},{\"task\":2,\"when\":1}]}",
        "invalid | /depends/0/on: 'on' must be \"success\" or \"finished\", not \"fire\" | /depends/1/task: 'task' is "
        "required | "
        "/depends/2/when: unknown field 'when'" },
    { "{\"name\":\"a\",\"depends\":[3],\"cancels\":[3]}", "invalid | /cancels/0: the task waits for what it cancels" },
    { "{\"tasks\":[{\"name\":\"build\"},{\"name\":\"build\"}]}",
        "invalid | /tasks/1/name: the name 'build' is used twice in this call" },
    { "{\"tasks\":[{\"name\":\"build\"},{\"name\":\"b\",\"depends\":[\"biuld\"]}]}",
        "unknown_task | /tasks/1/depends/0: no task of this call is named 'biuld' [did you mean 'build'?]" },
};

static void test_bad(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct fixture f;
        if (read_text(&f, bad[i].text))
            fail_msg("taken: %s", bad[i].text);
        check_str(faults_text(&f.arena, &f.err), bad[i].wanted);
        release(&f);
    }
}

/* Names follow one rule, and words that mean something else aren't names. */
static void test_names(void **state)
{
    (void)state;
    static const char *const refused[] = { "", "12", "all", "PREV", "WORKFLOW", "COMMIT", "-a", ".a", "a b", "a/b",
        "\\u00e4", "$(reboot)", "a\\n" };
    static const char *const fields[] = { "{\"name\":\"%s\"}", "{\"name\":\"a\",\"queue\":\"%s\"}" };
    for (size_t i = 0; i < COUNT_OF(refused); i++) {
        for (size_t k = 0; k < COUNT_OF(fields); k++) {
            char text[200];
            struct fixture f;
            ptrdiff_t at = strchr(fields[k], '%') - fields[k];
            snprintf(text, sizeof text, "%.*s%s%s", (int)at, fields[k], refused[i], fields[k] + at + 2);
            if (read_text(&f, text))
                fail_msg("taken: %s", text);
            check_str(f.err.items[0].path, k == 0 ? "/name" : "/queue");
            release(&f);
        }
    }
}

static char *bulk(size_t n)
{
    char *text = malloc(n * 32 + 32), *at = text;
    at += snprintf(at, 64, "{\"tasks\":[");
    for (size_t i = 0; i < n; i++)
        at += snprintf(at, 64, "%s{\"name\":\"t%zu\"}", i > 0 ? "," : "", i);
    snprintf(at, 3, "]}");
    return text;
}

static void test_numbers(void **state)
{
    (void)state;
    struct fixture f;
    char *text = bulk(10000);
    assert_true(read_text(&f, text));
    assert_int_equal(f.body.n, 10000);
    check_str(f.body.defs[9999].name, "t9999");
    release(&f);
    free(text);
    text = bulk(10001);
    assert_false(read_text(&f, text));
    check_str(faults_text(&f.arena, &f.err), "invalid | /tasks: 'tasks' must have 1 to 10000 tasks, not 10001");
    release(&f);
    free(text);
}

/* All faults of all tasks, but no more than a hundred are told. */
static void test_many_faults(void **state)
{
    (void)state;
    struct fixture f;
    char *text = malloc(400 * 40), *at = text;
    at += snprintf(at, 64, "{\"tasks\":[");
    for (size_t i = 0; i < 300; i++)
        at += snprintf(at, 64, "%s{\"name\":\"t%zu\",\"x\":1}", i > 0 ? "," : "", i);
    snprintf(at, 3, "]}");
    assert_false(read_text(&f, text));
    assert_int_equal(f.err.n_items, 100);
    check_str(f.err.items[99].path, "/tasks/99/x");
    release(&f);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_bad),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_many_faults),
        cmocka_unit_test(test_allow_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
