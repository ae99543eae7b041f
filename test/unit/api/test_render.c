/* What tasks, events, executors and problems look like, byte by byte. */
#include "check.h"

struct fixture {
    struct api api;
    struct buf out;
    struct json json;
};

static void begin(struct fixture *f)
{
    *f = (struct fixture){ 0 };
    f->api.incarnation = 0xabc;
    buf_init(&f->api.scratch, 10000);
    buf_init(&f->out, 100000);
    f->json = json_to(&f->out);
}

static void end(struct fixture *f, const char *wanted)
{
    check_str(buf_str(&f->out), wanted);
    buf_release(&f->out);
    buf_release(&f->api.scratch);
}

static const struct task plain = { .id = 7,
    .lane = 1,
    .name = { "build", 5 },
    .state = STATE_D,
    .outcome = OUTCOME_done,
    .grant = 2,
    .attempts = 2,
    .created = 1767225600000,
    .ready = 1767225600001,
    .started = 1767225601000,
    .finished = 1767225602000 };

static void test_task(void **state)
{
    (void)state;
    struct fixture f;
    struct attempt attempts[] = {
        { .task = 7,
            .number = 1,
            .grant = 1,
            .started = 1767225600500,
            .finished = 1767225600900,
            .exit = -1,
            .signal = 9,
            .outcome = OUTCOME_killed,
            .cpu_ms = 5,
            .max_rss_bytes = 1024,
            .log_bytes = 12 },
        { .task = 7,
            .number = 2,
            .grant = 2,
            .started = 1767225601000,
            .exit = -1,
            .signal = -1,
            .cpu_ms = -1,
            .max_rss_bytes = -1,
            .log_bytes = -1 },
    };
    struct str executors[] = { STR("node-a"), STR("node-b") };
    struct edge_view needs[] = {
        { .id = 5, .lane_name = STR("q"), .name = STR("x"), .state = STATE_D, .kind = EDGE_DEPENDS },
        { .id = 6,
            .lane_name = STR("arch"),
            .rev = 12,
            .name = STR("y"),
            .variant = STR("os=a"),
            .run = 2,
            .state = STATE_F,
            .kind = EDGE_AFTER },
        { .id = 4, .lane_name = STR("q"), .name = STR("z"), .state = STATE_A, .kind = EDGE_CANCELS },
    };
    struct task_view view = { .task = plain,
        .lane_name = STR("q"),
        .lane_kind = LANE_QUEUE,
        .attempts = attempts,
        .executor_names = executors,
        .n_attempts = 2,
        .needs = needs,
        .n_needs = 3,
        .outputs = STR("{\"v\":\"1\"}") };
    begin(&f);
    render_task(&f.api, &f.json, &view, STR("{\"command\":[\"x\"]}"), false);
    end(&f, "{\"id\":7,\"key\":{\"queue\":\"q\",\"name\":\"build\"},\"state\":\"D\",\"word\":\"done\",\"outcome\":"
            "\"done\",\"priority\":0,"
            "\"created\":\"2026-01-01T00:00:00.000Z\",\"ready\":\"2026-01-01T00:00:00.001Z\",\"started\":\"2026-01-"
            "01T00:00:01.000Z\","
            "\"finished\":\"2026-01-01T00:00:02.000Z\",\"attempts\":["
            "{\"number\":1,\"executor\":\"node-a\",\"started\":\"2026-01-01T00:00:00.500Z\",\"finished\":\"2026-01-"
            "01T00:00:00.900Z\",\"exit\":"
            "null,\"signal\":9,"
            "\"outcome\":\"killed\",\"usage\":{\"cpu_ms\":5,\"max_rss_bytes\":1024},\"log_bytes\":12},"
            "{\"number\":2,\"executor\":\"node-b\",\"started\":\"2026-01-01T00:00:01.000Z\",\"finished\":null,\"exit\":"
            "null,\"signal\":null,"
            "\"outcome\":null,\"usage\":{\"cpu_ms\":null,\"max_rss_bytes\":null},\"log_bytes\":null}],"
            "\"depends\":[{\"id\":5,\"key\":\"q:5\",\"on\":\"success\",\"state\":\"D\"}],"
            "\"after\":[{\"id\":6,\"key\":\"arch@12:y[os=a]#2\",\"on\":\"finished\",\"state\":\"F\"}],"
            "\"cancels\":[{\"id\":4,\"key\":\"q:4\",\"state\":\"A\"}],\"outputs\":{\"v\":\"1\"},\"spec\":{\"command\":["
            "\"x\"]}}");
}

static void test_archive_task(void **state)
{
    (void)state;
    struct fixture f;
    struct task_view view = { .task = plain, .lane_name = STR("arch"), .lane_kind = LANE_ARCHIVE };
    view.task.rev = 12;
    view.task.variant = STR("os=a");
    view.task.state = STATE_X;
    view.task.outcome = OUTCOME_none;
    view.task.ending = STATE_T;
    view.task.reason = STR("because \"so\"");
    view.task.prio = -5;
    view.task.not_before = 1767225600000;
    view.task.unique = STR("u");
    view.task.finished = view.task.started = view.task.ready = 0;
    begin(&f);
    render_task(&f.api, &f.json, &view, (struct str){ 0 }, false);
    end(&f, "{\"id\":7,\"key\":{\"archive\":\"arch\",\"rev\":12,\"name\":\"build\",\"variant\":\"os=a\"},\"state\":"
            "\"X\",\"word\":"
            "\"executing\",\"ending\":\"T\","
            "\"reason\":\"because "
            "\\\"so\\\"\",\"priority\":-5,\"not_before\":\"2026-01-01T00:00:00.000Z\",\"unique\":\"u\","
            "\"created\":\"2026-01-01T00:00:00.000Z\",\"ready\":null,\"started\":null,\"finished\":null,\"attempts\":[]"
            ",\"depends\":[],"
            "\"after\":[],"
            "\"cancels\":[],\"outputs\":{}}");
}

/* A new task is written without the store and looks the same as one read from it. */
static void test_new_is_the_same(void **state)
{
    (void)state;
    struct task rows[4] = { plain, plain, plain, plain };
    rows[1].outcome = OUTCOME_none; /* the ready-made way */
    rows[1].state = STATE_P;
    rows[1].prio = -7;
    rows[1].started = rows[1].finished = 0;
    rows[2].not_before = rows[2].created;
    rows[2].outcome = OUTCOME_none;
    rows[3].unique = STR("u");
    rows[3].outcome = OUTCOME_none;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct fixture f;
        struct enqueued created = { .task = rows[i], .lane_name = STR("q.1-x") };
        struct task_def def = { .queue = STR("q.1-x"), .name = STR("build") };
        struct task_view view = { .task = rows[i], .lane_name = STR("q.1-x"), .lane_kind = LANE_QUEUE };
        begin(&f);
        render_task(&f.api, &f.json, &view, (struct str){ 0 }, false);
        render_task(&f.api, &f.json, &view, (struct str){ 0 }, false); /* twice: the comma between them counts too */
        char *wanted = strndup(f.out.ptr, f.out.len);
        buf_reset(&f.out);
        f.json = json_to(&f.out);
        render_task_new(&f.api, &f.json, &(struct render_new){ .tasks = &created, .defs = &def });
        render_task_new(&f.api, &f.json, &(struct render_new){ .tasks = &created, .defs = &def });
        end(&f, wanted);
        free(wanted);
    }
}

static void test_event(void **state)
{
    (void)state;
    struct fixture f;
    struct event moved = { .seq = 9,
        .time = 1767225600000,
        .kind = EVENT_move,
        .from = STATE_P,
        .to = STATE_X,
        .attempt = 1,
        .actor = STR("uid:0"),
        .reason = STR("r"),
        .subject = STR("ci") };
    begin(&f);
    struct call reader = { .api = &f.api, .actor = { .tenant = STR("default") } };
    render_event(&reader, &f.json, &moved);
    end(&f, "{\"seq\":9,\"time\":\"2026-01-01T00:00:00.000Z\",\"kind\":\"move\",\"from\":\"P\",\"to\":\"X\","
            "\"attempt\":1,\"subject\":"
            "\"ci\",\"actor\":\"uid:0\","
            "\"reason\":\"r\"}");
    moved.kind = EVENT_ending; /* no move yet: it says where the end will lead */
    moved.from = STATE_X;
    moved.to = STATE_T;
    begin(&f);
    render_event(&reader, &f.json, &moved);
    end(&f, "{\"seq\":9,\"time\":\"2026-01-01T00:00:00.000Z\",\"kind\":\"ending\",\"ending\":\"T\",\"attempt\":1,"
            "\"subject\":\"ci\","
            "\"actor\":\"uid:0\",\"reason\":\"r\"}");
}

static void test_executor(void **state)
{
    (void)state;
    struct fixture f;
    struct label labels[] = { { STR("os"), STR("linux") } };
    struct executor executor = { .id = 3,
        .name = STR("n"),
        .host = STR("h"),
        .version = STR("1"),
        .slots = 4,
        .kinds = 1u << KIND_COMMAND | 1u << KIND_DATA,
        .labels = labels,
        .n_labels = 1,
        .state = EXECUTOR_ACTIVE,
        .registered = 1767225600000,
        .processed = 8,
        .failed = 1 };
    struct executor_live live = { .id = 3, .live = true, .running = 1, .free = 3 };
    begin(&f);
    render_executor(&f.json, &executor, &live, "active");
    end(&f, "{\"id\":3,\"name\":\"n\",\"host\":\"h\",\"version\":\"1\",\"state\":\"active\",\"slots\":4,\"running\":1,"
            "\"free\":3,\"zone\":\"\","
            "\"labels\":{\"os\":\"linux\"},\"kinds\":[\"command\",\"data\"],\"registered\":\"2026-01-01T00:00:00."
            "000Z\",\"processed\":8,"
            "\"failed\":1}");
}

static void test_problem(void **state)
{
    (void)state;
    struct fixture f;
    struct arena arena = { 0 };
    struct err err = { .arena = &arena };
    begin(&f);
    err_item(&err, ERR_invalid, STR("/a"), "'%s' is odd", "a");
    err_item_last(&err)->suggestion = STR("did you mean 'b'?");
    err_item(&err, ERR_invalid, STR("/b"), "no");
    err_item_last(&err)->line = 3;
    err_item_last(&err)->column = 4;
    problem_render(&f.out, &err);
    end(&f,
        "{\"type\":\"urn:weir:error:invalid\",\"title\":\"The document is refused\",\"status\":422,\"detail\":\"'a' is "
        "odd\",\"code\":\"invalid\",\"errors\":["
        "{\"path\":\"/a\",\"message\":\"'a' is odd\",\"suggestion\":\"did you mean "
        "'b'?\"},{\"path\":\"/b\",\"line\":3,\"column\":4,\"message\":\"no\"}]}");
    begin(&f);
    struct err gap = { .code = ERR_log_gap, .expected = 5 };
    problem_render(&f.out, &gap);
    end(&f, "{\"type\":\"urn:weir:error:log_gap\",\"title\":\"Bytes before this chunk are missing\",\"status\":409,"
            "\"detail\":\"Bytes before this chunk are missing\",\"code\":\"log_gap\",\"expected\":5}");
    arena_release(&arena);
}

/* Values that rows of answer.h write by functions of ours; what is empty or unknown is null. */
static void test_values(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f);
    json_object_begin(&f.json);
    render_plain(&f.json, "fence", "1-2-3-ab");
    render_plain(&f.json, "none", "");
    render_number(&f.json, "load", 0.5);
    render_text_or_null(&f.json, "next", STR("9"));
    render_text_or_null(&f.json, "last", (struct str){ 0 });
    render_outcome(&f.json, "outcome", OUTCOME_failed);
    render_outcome(&f.json, "running", OUTCOME_none);
    render_known(&f.json, "exit", -1);
    json_object_end(&f.json);
    end(&f, "{\"fence\":\"1-2-3-ab\",\"none\":\"\",\"load\":0.5,\"next\":\"9\",\"last\":null,\"outcome\":\"failed\","
            "\"running\":null,\"exit\":null}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_task),
        cmocka_unit_test(test_archive_task),
        cmocka_unit_test(test_new_is_the_same),
        cmocka_unit_test(test_event),
        cmocka_unit_test(test_executor),
        cmocka_unit_test(test_problem),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
