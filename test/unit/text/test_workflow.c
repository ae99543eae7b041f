/* Workflow files: what is read, and every fault with its place, told in one run. */
#include "check.h"

#include "text/task_doc.h"
#include "text/workflow.h"

struct bench {
    struct arena arena;
    struct diags diags;
    struct diag_file files[4];
    struct workflow_source sources[4];
    size_t n;
    struct workflow workflow;
    bool ok, no_policies;
};

static bool timezone_is_known(void *context, struct str name)
{
    (void)context;
    return str_eqz(name, "UTC") || str_eqz(name, "Asia/Tokyo");
}

static void bench_add(struct bench *bench, const char *name, const char *text)
{
    bench->files[bench->n] = (struct diag_file){ str_of(name), exact(str_of(text)) };
    bench->sources[bench->n] = (struct workflow_source){ &bench->files[bench->n], NULL };
    bench->n++;
}

static void bench_parse(struct bench *bench)
{
    struct workflow_input input = { bench->sources, bench->n, timezone_is_known, NULL, !bench->no_policies };
    bench->diags.arena = &bench->arena;
    bench->ok = workflow_parse(&input, &bench->arena, &bench->diags, &bench->workflow);
    assert_int_equal(bench->ok, bench->diags.n_errors == 0);
}

static void bench_release(struct bench *bench)
{
    for (size_t i = 0; i < bench->n; i++)
        exact_free(bench->files[i].text);
    arena_release(&bench->arena);
}

/* faults_text: one line a fault: [FILE:]LINE:COLUMN: MESSAGE (SUGGESTION). */
static void check_faults_of(struct bench *bench, const char *wanted)
{
    struct buf text;
    buf_init(&text, 1 << 20);
    bench_parse(bench);
    for (size_t i = 0; i < bench->diags.n; i++) {
        const struct diag *diag = &bench->diags.items[i];
        if (bench->n > 1)
            buf_addf(&text, "%.*s:", STR_ARG(diag->place.file->name));
        buf_addf(&text, "%u:%u: %s%.*s", diag->place.line, diag->place.column,
            diag->severity == DIAG_WARNING ? "warning: " : "", STR_ARG(diag->message));
        if (diag->suggestion.len > 0)
            buf_addf(&text, " (%.*s)", STR_ARG(diag->suggestion));
        buf_add_char(&text, '\n');
    }
    check_str(buf_str(&text), wanted);
    buf_release(&text);
    bench_release(bench);
}

static void check_faults(const char *yaml, const char *wanted)
{
    struct bench bench = { 0 };
    bench_add(&bench, "w.yaml", yaml);
    check_faults_of(&bench, wanted);
}

static struct bench read_good(const char *name, const char *text)
{
    static struct bench bench;
    bench = (struct bench){ 0 };
    bench_add(&bench, name, text);
    bench_parse(&bench);
    if (!bench.ok)
        fail_msg("%u:%u: %.*s", bench.diags.items[0].place.line, bench.diags.items[0].place.column,
            STR_ARG(bench.diags.items[0].message));
    /* sources point into the bench: hand back what doesn't */
    return bench;
}

static void test_the_document(void **state)
{
    (void)state;
    struct bench bench = read_good("w.yaml", "- name: indexing\n  depends:\n    - PREV\n- name: build-PDF\n  "
                                             "depends:\n    - indexing\n  cancels:\n    - PREV\n");
    const struct workflow *w = &bench.workflow;
    assert_int_equal(w->n_tasks, 2);
    const struct workflow_task *index = workflow_find(w, STR("indexing")), *pdf = workflow_find(w, STR("build-PDF"));
    assert_true(
        index->depends.n == 1 && index->depends.items[0].prev && str_eqz(index->depends.items[0].name, "indexing"));
    assert_int_equal(index->depends.items[0].place.line, 3);
    assert_int_equal(index->depends.items[0].place.column, 7);
    assert_true(pdf->depends.n == 1 && !pdf->depends.items[0].prev && str_eqz(pdf->depends.items[0].name, "indexing"));
    assert_true(pdf->cancels.n == 1 && pdf->cancels.items[0].prev && str_eqz(pdf->cancels.items[0].name, "build-PDF"));
    assert_int_equal(pdf->place.line, 4);
    assert_int_equal(pdf->triggers, TRIGGER_COMMIT);
    assert_true(
        pdf->checkout && pdf->attempts_max == 3 && pdf->retry_on == (RETRY_LOST | RETRY_TEMPORARY | RETRY_KILLED));
    bench_release(&bench);
}

static const char *const all_keys =
    "on: [commit]\n"
    "defaults: {shell: bash, timeout: 1h, env: {A: 1, B: 2}, labels: {os: linux}}\n"
    "semaphores: {pdf: 2}\n"
    "tasks:\n"
    "  - name: indexing\n"
    "  - name: other-task\n"
    "  - name: test\n"
    "    matrix: {os: [a, b], cc: [gcc, clang], exclude: [{os: b, cc: clang}], include: [{os: c, cc: gcc}]}\n"
    "  - name: build-PDF\n"
    "    depends: [indexing, {task: PREV:indexing, on: success}, {task: other-task, on: finished}, "
    "'test[os=a,cc=gcc]']\n"
    "    after: [PREV]\n"
    "    cancels: [PREV:test]\n"
    "    image: image/tag\n"
    "    script: |\n"
    "      echo \"$WEIR_REV\"\n"
    "    checkout: false\n"
    "    env: {B: value, C: no}\n"
    "    timeout: 30m\n"
    "    grace: 0s\n"
    "    limits: {memory: 64MiB, pids: 5, cpu: 90s, files: 9, file: 1KiB, disk: 4KiB}\n"
    "    not_before: 2026-11-15T05:46:00Z\n"
    "    data: {n: 1.50, list: [a, \"1\", null, true], \"a b\": ~}\n"
    "    retry: {attempts: 5, backoff: 10s, on: [failed, timeout]}\n"
    "    lock: exclusive\n"
    "    paths: [\"docs/**\", \"!docs/private/**\"]\n"
    "    priority: -7\n"
    "    labels: {cpu: fast}\n"
    "    zone: eu\n"
    "    semaphores: [pdf, licence]\n"
    "    blocked_by: [other-task]\n"
    "    collapse: true\n"
    "    unique: \"{archive}/{name}\"\n"
    "    concurrency: \"{archive}/pdf\"\n"
    "    freeze: [\"* 22-23 * * *\", {cron: \"* * * * 6,0\", tz: Asia/Tokyo}]\n"
    "    window: [\"* 8-17 ? * 1-5\"]\n"
    "    schedule: \"H 3 * * *\"\n"
    "    allow_failure: true\n"
    "    on: [{message: NAME}, manual]\n"
    "    sandbox: strict\n"
    "    artifacts: [report.pdf]\n";

static void test_every_key(void **state)
{
    (void)state;
    struct bench bench = read_good("w.yaml", all_keys);
    const struct workflow *w = &bench.workflow;
    const struct workflow_task *t = workflow_find(w, STR("build-PDF"));
    assert_true(w->n_semaphores == 1 && w->semaphores[0].limit == 2);
    assert_true(t->depends.n == 4 && t->depends.items[1].prev && t->depends.items[1].on == WORKFLOW_ON_SUCCESS);
    assert_true(t->depends.items[2].on == WORKFLOW_ON_FINISHED && str_eqz(t->depends.items[3].variant, "os=a,cc=gcc"));
    check_str(t->image, "image/tag");
    check_str(t->script, "echo \"$WEIR_REV\"\n");
    check_str(t->shell, "bash");
    assert_false(t->checkout);
    assert_int_equal(t->env.n, 3);
    check_str(t->env.items[0].value, "1");
    check_str(t->env.items[1].value, "value");
    check_str(t->env.items[2].value, "no");
    assert_int_equal(t->labels.n, 2);
    assert_int_equal(t->timeout_ms, 1800000);
    assert_int_equal(workflow_find(w, STR("indexing"))->timeout_ms, 3600000);
    assert_true(t->attempts_max == 5 && t->backoff_ms == 10000 && t->retry_on == (RETRY_FAILED | RETRY_TIMEOUT));
    assert_true(t->lock == WORKFLOW_LOCK_EXCLUSIVE && t->paths.n == 2 && t->priority == -7 && t->semaphores.n == 2 &&
                t->reserved.blocked_by.n == 1);
    check_str(t->zone, "eu");
    const struct task_limits *l = &t->limits;
    assert_true(
        l->memory_bytes == 64 << 20 && l->pids == 5 && l->cpu_ms == 90000 && l->files == 9 && l->file_bytes == 1024);
    assert_true(l->disk_bytes == 4096 && t->grace_ms == 0 && t->not_before == 1794721560000);
    assert_int_equal(workflow_find(w, STR("indexing"))->grace_ms, -1);
    check_str(t->data, "{\"n\":1.50,\"list\":[\"a\",\"1\",null,true],\"a b\":null}");
    assert_true(t->reserved.collapse && t->allow_failure && !t->detached && t->sandbox == WORKFLOW_SANDBOX_STRICT &&
                t->artifacts.n == 1);
    assert_true(t->reserved.freeze.n == 2 && t->reserved.window.n == 1 && t->schedule.n == 1);
    check_str(t->reserved.freeze.items[1].timezone, "Asia/Tokyo");
    assert_int_equal(t->triggers, TRIGGER_MESSAGE | TRIGGER_MANUAL | TRIGGER_SCHEDULE);
    assert_true(t->starts_alone && t->messages.n == 1);
    check_str(t->unique, "{archive}/{name}");
    const struct workflow_matrix *m = &workflow_find(w, STR("test"))->reserved.matrix;
    assert_true(m->n_axes == 2 && m->n_exclude == 1 && m->n_include == 1 && m->axes[1].values.n == 2);
    bench_release(&bench);
}

static void test_the_other_forms(void **state)
{
    (void)state;
    struct bench bench = read_good("w.yaml",
        "workflow:\n  - A\n  - parallel: [B, {sequence: [C, D]}]\n  - E\njobs:\n  A:\n  B: {command: "
        "'make \"a b\" c'}\n  C: {command: [ls, 5]}\n"
        "  D: {schedule: '0 3 * * *'}\n  E: {depends: B, on: [commit, {message: m}]}\n");
    const struct workflow *w = &bench.workflow;
    static const struct {
        const char *task, *depends;
    } wanted[] = { { "A", "" }, { "B", "A " }, { "C", "A " }, { "D", "C " }, { "E", "B D " } };
    for (size_t i = 0; i < COUNT_OF(wanted); i++) {
        const struct workflow_task *t = workflow_find(w, str_of(wanted[i].task));
        struct buf names;
        buf_init(&names, 1000);
        buf_add_z(&names, "");
        for (size_t k = 0; k < t->depends.n; k++)
            buf_addf(&names, "%.*s ", STR_ARG(t->depends.items[k].name));
        check_str(buf_str(&names), wanted[i].depends);
        buf_release(&names);
    }
    assert_int_equal(workflow_find(w, STR("B"))->command.n, 3);
    check_str(workflow_find(w, STR("B"))->command.items[1], "a b");
    check_str(workflow_find(w, STR("C"))->command.items[1], "5");
    assert_int_equal(workflow_find(w, STR("D"))->triggers, TRIGGER_SCHEDULE);
    assert_int_equal(workflow_find(w, STR("E"))->triggers, TRIGGER_COMMIT | TRIGGER_MESSAGE);
    bench_release(&bench);

    bench = read_good(
        "w.json", "[{\"name\": \"a\", \"depends\": [\"PREV\"]}, {\"name\": \"COMMIT\", \"depends\": [\"PREV:a\"]}]");
    assert_int_equal(bench.workflow.n_tasks, 1);
    assert_true(bench.workflow.commit.depends.n == 1 && bench.workflow.commit.depends.items[0].prev);
    bench_release(&bench);

    static const char *const empty[] = { "", "# nothing\n", "[]", "{}", "tasks: []\n", "jobs: {}\n", "tasks:\n" };
    for (size_t i = 0; i < COUNT_OF(empty); i++) {
        bench = read_good("w.yaml", empty[i]);
        assert_int_equal(bench.workflow.n_tasks, 0);
        bench_release(&bench);
    }
    /* a file for the clock: the first task has the schedule, the others come with it */
    bench = read_good("w.yaml", "on: schedule\ntasks:\n- {name: a, schedule: '0 3 * * *'}\n- {name: b, depends: a}\n");
    assert_int_equal(bench.workflow.tasks[0].triggers, TRIGGER_SCHEDULE);
    assert_int_equal(bench.workflow.tasks[1].triggers, 0);
    assert_false(bench.workflow.tasks[1].starts_alone);
    bench_release(&bench);
}

static void test_all_faults_in_one_run(void **state)
{
    (void)state;
    check_faults("- name: a\n  comand: make\n  timeout: 30\n  priority: 5000\n- name: b\n  depends: [indexng, aa]\n  "
                 "lock: exclusiv\n- nam: c\n",
        "2:3: unknown key 'comand' (did you mean 'command'?)\n"
        "3:12: 'timeout' must be a duration with a unit, such as 90s, 15m, 2h or 7d, not '30' (did you mean '30s'?)\n"
        "4:13: 'priority' must be from -1000 to 1000, not 5000\n"
        "6:13: there is no task 'indexng'\n"
        "6:22: there is no task 'aa' (did you mean 'a'?)\n"
        "7:9: 'lock' must be none, shared or exclusive, not 'exclusiv' (did you mean 'exclusive'?)\n"
        "8:3: this task has no 'name'\n"
        "8:3: unknown key 'nam' (did you mean 'name'?)\n");
}

static void test_names(void **state)
{
    (void)state;
    check_faults("- name: a\n- name: a\n", "2:9: there is a task 'a' already, at w.yaml:1\n");
    check_faults("- name: PREV\n- name: WORKFLOW\n- name: all\n- name: 42\n",
        "1:9: the task name 'PREV' is a reserved word\n2:9: the task name 'WORKFLOW' is a reserved word\n"
        "3:9: the task name 'all' is a reserved word\n4:9: the task name '42' consists of digits only, as ids do\n");
    check_faults("- name: COMMIT\n  command: x\n", "2:3: COMMIT takes nothing but 'depends'\n");
    check_faults("- name: \"a\\nb\"\n", "1:9: 'name' must not contain control characters\n");
    check_faults("jobs:\n  a: {name: b}\n", "2:13: the name of this task stands before it: 'a'\n");
    check_faults("- name: a\n  depends: [PREV:b, WORKFLOW, COMMIT]\n",
        "2:13: warning: this workflow has no task 'b': PREV:b is satisfied unless an earlier revision has it\n"
        "2:21: there is no task 'WORKFLOW'\n");
    check_faults("- name: a\n  depends: [b, b]\n- name: b\n", "2:16: warning: 'b' stands twice in this list\n");
    struct bench bench = { 0 };
    bench_add(&bench, "one.yaml", "- name: a\n  depends: [b]\nsemaphores: 1\n");
    bench_add(&bench, "two.yaml", "- name: a\n  depends: [nowhere]\n");
    check_faults_of(&bench,
        "one.yaml:3:1: did not find expected '-' indicator while parsing a block collection that begins in line 1\n");
    bench = (struct bench){ 0 };
    bench_add(&bench, "one.yaml", "- name: a\n  depends: [b]\n");
    bench_add(&bench, "two.json", "{\"semaphores\": {\"s\": 0}, \"tasks\": [{\"name\": \"b\"},\n {\"name\": \"a\"}]}");
    check_faults_of(&bench, "two.json:1:22: 's' must be from 1 to 1000000, not 0\ntwo.json:2:11: there is a task 'a' "
                            "already, at one.yaml:1\n");
}

static void test_circles(void **state)
{
    (void)state;
    check_faults("- name: a\n  depends: [b]\n- name: b\n  after: [c]\n- name: c\n  depends: [a]\n- name: d\n  depends: "
                 "[d]\n- name: e\n  "
                 "depends: [PREV]\n",
        "2:13: tasks wait for each other in a circle: a -> b -> c -> a\n"
        "8:13: 'd' waits for itself (did you mean 'PREV', the task of the revision before?)\n");
    check_faults("workflow: [a, b]\ntasks:\n- name: a\n  depends: [c]\n- name: b\n- name: c\n  depends: [b]\n",
        "4:13: tasks wait for each other in a circle: a -> c -> b -> a\n");
    check_faults(
        "workflow: [a, b, a]\njobs: {a: , b: }\n", "1:18: tasks wait for each other in a circle: a -> b -> a\n");
    check_faults("- name: a\n- name: COMMIT\n  depends: [a]\n",
        "1:9: tasks wait for each other in a circle: a -> COMMIT -> a\n");
    /* across revisions there are none */
    check_faults("- name: a\n  depends: [b]\n- name: b\n  depends: [PREV:a]\n", "");
}

static void test_contradictions(void **state)
{
    (void)state;
    check_faults("- name: a\n  depends: [b]\n  cancels: [b]\n- name: b\n", "3:13: 'a' depends on 'b' and cancels it\n");
    check_faults("- name: a\n  depends: PREV\n  cancels: PREV\n", "3:12: 'a' depends on 'PREV:a' and cancels it\n");
    check_faults("- name: a\n  after: ['PREV:b']\n  cancels: ['PREV:b']\n- name: b\n",
        "3:13: 'a' waits for the end of 'PREV:b' and cancels it\n");
    check_faults("- name: a\n  cancels: [c]\n  depends: [b]\n- name: b\n  depends: [c]\n- name: c\n",
        "2:13: 'a' cancels 'c', but waits for it through other tasks\n");
    check_faults("- name: a\n  cancels: [c]\n- name: b\n  depends: [a]\n- name: c\n  depends: [b]\n",
        "2:13: 'a' cancels 'c', which waits for it: it would never run\n");
    check_faults("- name: a\n  cancels: [a, COMMIT, 'PREV:COMMIT']\n",
        "2:13: 'a' cancels itself (did you mean 'PREV', the task of the revision before?)\n"
        "2:16: COMMIT can't be cancelled: every task waits for it\n2:24: COMMIT can't be cancelled: every task waits "
        "for it\n");
    check_faults("- name: a\n  command: x\n  script: y\n  detached: true\n  on: commit\n",
        "2:12: a task has a 'command' or a 'script', not both\n4:13: 'detached' means never by a commit, but 'on' "
        "lists commit\n");
    check_faults(
        "- name: a\n  on: [schedule]\n", "2:7: 'on: schedule' needs a 'schedule' (add schedule: \"H 3 * * *\")\n");
    check_faults("- name: a\n  cancels: [b]\n- name: b\n", "");
}

static void test_values_of_the_wrong_kind(void **state)
{
    (void)state;
    static const struct {
        const char *key, *wanted;
    } cases[] = {
        { "depends: {b: c}",
            "2:12: 'task' is missing: which task does this mean?\n2:13: unknown key 'b' (known here: task, on)\n" },
        { "depends: [{task: a, on: failure}]", NULL },
        { "depends: [[a]]", "2:13: 'depends' must be a string, not a list\n" },
        { "depends: ['b[os=a']", "2:13: 'b[os=a': ']' is missing at the end\n" },
        { "after: [{task: PREV, on: success}]",
            "2:18: 'after' waits for the end, whatever it is (write it in 'depends')\n" },
        { "command: \"make 'x\"", NULL },
        { "command: []", "2:12: 'command' must have 1 to 10000 words, not 0\n" },
        { "command: {a: b}", "2:12: 'command' must be a string or a list of strings, not a mapping\n" },
        { "image: --privileged", "2:10: 'image' must be an image's name without blanks that doesn't begin with '-'\n" },
        { "shell: -c", "2:10: 'shell' must name a program\n" },
        { "checkout: no", "2:13: 'checkout' must be true or false, not 'no' (did you mean 'false'?)\n" },
        { "env: [A]", "2:8: 'env' must be a mapping of at most 1000 strings\n" },
        { "env: {WEIR_X: 1, 1A: 2, B: [c]}",
            "2:9: 'WEIR_X': names that begin with WEIR_ are set by Weir itself\n"
            "2:20: '1A' can't be the name of an environment variable\n2:30: 'B' must be a string, not a list\n" },
        { "grace: 2d", "2:10: 'grace' must be from 0s to 1d, not 2d\n" },
        { "not_before: soon",
            "2:15: 'not_before' must be a time such as \"2026-11-15T05:46:00Z\" (RFC 3339), not \"soon\"\n" },
        { "limits: {memory: 0B, cpu: 1ms, disc: 1B}",
            "2:20: 'memory' must be at least 1B\n2:29: 'cpu' must be from 1s to 365d, not 1ms\n"
            "2:34: unknown key 'disc' (did you mean 'disk'?)\n" },
        { "queue: q", "2:3: 'queue' is for tasks that are posted: these are their archive's\n" },
        { "zone: a b", "2:9: 'zone' must be letters, digits, '.', '_' and '-'\n" },
        { "timeout: 0s", "2:12: 'timeout' must be from 1ms to 365d, not 0s\n" },
        { "retry: 3", "2:10: 'retry' must be a mapping, not '3'\n" },
        { "retry: {attempts: 0, on: [lost, sometimes]}",
            "2:21: 'attempts' must be from 1 to 1000, not 0\n2:35: 'on' must be lost, "
            "temporary, killed, failed or timeout, not 'sometimes'\n" },
        { "paths: ['[a']", "2:11: 'paths': a [ is never closed\n" },
        { "labels: {os: [a]}", "2:16: 'labels' must be a string, not a list\n" },
        { "semaphores: [a, a]", "2:19: semaphore 'a' stands twice\n" },
        { "schedule: '61 * * * *'", "2:13: 'schedule' at '61 * * * *': the minute must be from 0 to 59, not 61\n" },
        { "schedule: {cron: '0 3 * * *', tz: Mars/Olympus}",
            "2:37: there is no time zone 'Mars/Olympus' (write a name of the tz database, such as UTC, "
            "Europe/Berlin or Asia/Tokyo)\n" },
        { "schedule: {cron: '0 3 * * *', tz: ../../etc/passwd}", NULL },
        { "freeze: '* * * *'", "2:11: 'freeze' at '': there are 4 fields, not 5 (minute hour day month weekday)\n" },
        { "on: [push]", "2:8: 'on' must be commit, manual, schedule or message, not 'push'\n" },
        { "on: message", "2:7: which message starts the task? (write {message: NAME})\n" },
        { "on: {commit: true}", "2:7: 'message' is missing: which message starts the task?\n2:8: unknown key 'commit' "
                                "(known here: message)\n" },
        { "unique: '{arhive}'",
            "2:11: 'unique' may use {archive}, {rev}, {name} and {variant}, not {arhive} (did you mean 'archive'?)\n" },
        { "artifacts: [../x]", "2:15: 'artifacts' are files in the working directory\n" },
        { "matrix: {os: a}", "2:16: 'os' must be a list of values\n" },
        { "matrix: {os: ['a,b']}", NULL },
        { "matrix: []", "2:11: 'matrix' must be a mapping of 1 to 16 axes, each a list of values\n" },
        { "blocked_by: [PREV]", "2:16: 'blocked_by' takes names of tasks: it counts in every revision\n" },
        { "sandbox: tight", "2:12: 'sandbox' must be none or strict, not 'tight'\n" },
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char yaml[300];
        snprintf(yaml, sizeof yaml, "- name: a\n  %s\n", cases[i].key);
        if (cases[i].wanted != NULL) {
            check_faults(yaml, cases[i].wanted);
            continue;
        }
        struct bench bench = { 0 };
        bench_add(&bench, "w.yaml", yaml);
        bench_parse(&bench);
        if (bench.ok)
            fail_msg("accepted: %s", yaml);
        bench_release(&bench);
    }
}

static void test_files_of_the_wrong_form(void **state)
{
    (void)state;
    check_faults("hello\n", "1:1: a workflow is a list of tasks or a mapping, not a single value\n");
    check_faults("- hello\n- [a]\n-\n", "1:3: a task must be a mapping with a name, not a single value\n2:3: a task "
                                        "must be a mapping with a name, not a list\n"
                                        "3:2: a task must be a mapping with a name, not nothing\n");
    check_faults("name: a\ncommand: x\n",
        "1:1: this looks like one task: tasks stand in a list (begin it with '- name: a' and indent the rest)\n");
    check_faults("tasks: {a: {}}\njobs: [a]\n",
        "1:8: 'tasks' must be a list, not a mapping (a mapping by name is called 'jobs')\n"
        "2:7: 'jobs' must be a mapping by name, not a list (a list is called 'tasks')\n");
    check_faults("task:\n- name: a\n", "1:1: unknown key 'task' (did you mean 'tasks'?)\n");
    check_faults("defaults: {name: x, depends: [a], shell: sh}\n",
        "1:12: 'name' can't stand in 'defaults': each task says its own\n1:21: "
        "'depends' can't stand in 'defaults': each task says its own\n");
    check_faults("workflow: [a, {paralel: [b]}, PREV, [], x]\ntasks: [{name: a}, {name: b}]\n",
        "1:16: a step is a task's name, or 'parallel' with a list of steps (did you mean 'parallel'?)\n"
        "1:31: 'workflow' orders the tasks of one revision: PREV stands in 'depends' or 'after' of a task\n"
        "1:37: steps must be a list of tasks' names, not an empty one\n1:41: there is no task 'x'\n");
    check_faults("workflow: a\n", "1:11: steps must be a list of tasks' names, not a single value\n");
}

/* many: n times: begin, the number, middle, the number before, end; without an end only begin, the number, middle. */
static char *many(size_t n, const char *begin, const char *middle, const char *end)
{
    size_t cap = n * 60 + 100, len = 0;
    char *text = malloc(cap);
    for (size_t i = 0; i < n; i++)
        len += end == NULL
                   ? (size_t)snprintf(text + len, cap - len, "%s%zu%s", begin, i, middle)
                   : (size_t)snprintf(text + len, cap - len, "%s%zu%s%zu%s", begin, i, middle, i > 0 ? i - 1 : 0, end);
    text[len] = '\0';
    return text;
}

static void test_limits(void **state)
{
    (void)state;
    char *text = many(5000, "- {name: t", ", depends: [PREV:t", "]}\n");
    check_faults(text, "");
    free(text);
    text = many(5001, "- {name: t", "}\n", NULL);
    check_faults(text, "5001:10: the workflow has more than 5000 tasks\n");
    free(text);
    text = many(5000, "- {name: t", ", cancels: [t", "]}\n"); /* bits for all of them; t0 cancels itself */
    check_faults(text, "1:24: 't0' cancels itself (did you mean 'PREV', the task of the revision before?)\n");
    free(text);
    /* two parallel steps of 500: 250,000 edges */
    char *names = many(499, "t", ", ", NULL), *jobs = many(500, "t", ": , ", NULL);
    char *whole = malloc(100000);
    snprintf(
        whole, 100000, "workflow: [{parallel: [%s t499]}, {parallel: [%s t499]}]\njobs: {%s}\n", names, names, jobs);
    check_faults(whole, "1:2917: the workflow has more than 200000 references between tasks\n");
    free(names);
    free(jobs);
    free(whole);
    /* a circle of many is shown in part */
    text = many(4999, "- {name: t", ", depends: [t", "]}\n");
    memcpy(text, "- {name: t0, depends: [z]}\n#", 27); /* t0 -> z -> t4999 */
    struct bench bench = { 0 };
    bench_add(&bench, "w.yaml", text);
    bench_add(&bench, "z.yaml", "[{name: z, depends: [t4998]}]\n");
    bench_parse(&bench);
    assert_int_equal(bench.diags.n_errors, 1);
    assert_true(str_starts(
        bench.diags.items[0].message, STR("tasks wait for each other in a circle: t0 -> z -> t4998 -> t4997 -> ")));
    assert_true(
        str_ends(bench.diags.items[0].message, STR(" -> t2 -> t1 -> t0")) && bench.diags.items[0].message.len < 1000);
    bench_release(&bench);
    free(text);
    check_faults("- name: a\n  matrix: {x: [1,2,3,4,5,6,7,8,9,10], y: [1,2,3,4,5,6,7,8,9,10], z: "
                 "[1,2,3,4,5,6,7,8,9,10], w: [1, 2]}\n",
        "2:11: 'matrix' has more than 1000 combinations\n");
}

static void test_cut_anywhere(void **state)
{
    (void)state;
    size_t len = strlen(all_keys);
    for (size_t at = 0; at <= len; at++) {
        char *cut = malloc(len + 1);
        memcpy(cut, all_keys, at);
        cut[at] = '\0';
        struct bench bench = { 0 };
        bench_add(&bench, "w.yaml", cut);
        bench_parse(&bench);
        bench_release(&bench);
        free(cut);
    }
}

static void test_policies_are_reserved(void **state)
{
    (void)state;
    struct bench bench = { .no_policies = true };
    bench_add(&bench, "w.yaml",
        "defaults: {freeze: '* 22 * * *'}\n"
        "tasks:\n"
        "  - name: a\n"
        "    matrix: {os: [x]}\n"
        "    window: '* 8 * * *'\n"
        "    blocked_by: [b]\n"
        "    collapse: true\n"
        "  - {name: b, collapse: false, window: null}\n");
    check_faults_of(&bench, "1:12: 'freeze' is reserved: this version doesn't carry it out yet (leave it out; a later "
                            "version will know it)\n"
                            "4:5: 'matrix' is reserved: this version doesn't carry it out yet (leave it out; a later "
                            "version will know it)\n"
                            "5:5: 'window' is reserved: this version doesn't carry it out yet (leave it out; a later "
                            "version will know it)\n"
                            "6:5: 'blocked_by' is reserved: this version doesn't carry it out yet (leave it out; a "
                            "later version will know it)\n"
                            "7:5: 'collapse' is reserved: this version doesn't carry it out yet (leave it out; a later "
                            "version will know it)\n");
}

static void test_the_schema_is_json(void **state)
{
    (void)state;
    struct buf out;
    buf_init(&out, 1 << 20);
    workflow_schema(&out);
    struct arena arena = { 0 };
    struct diags diags = { .arena = &arena };
    struct diag_file file = { STR("schema.json"), buf_str(&out) };
    const struct doc_node *root = node_parse(&file, &arena, &diags);
    assert_non_null(root);
    const struct doc_node *task = node_find(node_find(node_find(root, STR("$defs")), STR("task")), STR("properties"));
    size_t n = 0;
    struct task_doc_row row;
    for (size_t i = 0; task_doc_row(i, &row); i++)
        n += row.in_workflow;
    assert_true(n > 30);
    assert_int_equal(task->n, n);
    assert_non_null(node_find(node_find(task, STR("retry")), STR("description")));
    assert_null(node_find(
        node_find(node_find(node_find(root, STR("$defs")), STR("defaults")), STR("properties")), STR("depends")));
    arena_release(&arena);
    buf_release(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_document),
        cmocka_unit_test(test_every_key),
        cmocka_unit_test(test_the_other_forms),
        cmocka_unit_test(test_all_faults_in_one_run),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_circles),
        cmocka_unit_test(test_contradictions),
        cmocka_unit_test(test_values_of_the_wrong_kind),
        cmocka_unit_test(test_files_of_the_wrong_form),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_cut_anywhere),
        cmocka_unit_test(test_policies_are_reserved),
        cmocka_unit_test(test_the_schema_is_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
