/* From a spec to argv and environment, by a table; what a server of tomorrow may say is ignored, what can't be run is
 * refused in words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "exec/kind.h"

static char own0[] = "PATH=/own", own1[] = "OWN=1";
static char *own[] = { own0, own1, NULL };
static const char *const options[] = { "--network=none", NULL };

static struct place place_of(const char *program)
{
    return (struct place){ .dir = "/d/3",
        .server = "unix:/s",
        .path = "/bin",
        .lang = "C",
        .container = program,
        .container_options = options,
        .environ = own,
        .log_bytes_max = 99,
        .grace_ms = 5000 };
}

static void joined(struct buf *out, char *const *list)
{
    buf_reset(out);
    for (; list && *list; list++)
        buf_addf(out, "%s%s", out->len ? " " : "", *list);
    buf_add_z(out, "");
}

static void one(const char *text, const char *program, const char *argv, const char *envp, const char *refusal)
{
    struct arena arena = { 0 };
    struct buf words;
    struct job job;
    json_t *spec = json_loads(text, 0, NULL);
    assert_non_null(spec);
    struct place place = place_of(program);
    buf_init(&words, 1 << 20);
    kind_job(spec, 7, STR("f-7"), &place, &arena, &job);
    assert_true(str_eqz(job.refusal, refusal));
    if (argv) {
        joined(&words, job.argv);
        assert_string_equal(words.ptr, argv);
    }
    if (envp) {
        joined(&words, job.envp);
        assert_string_equal(words.ptr, envp);
    }
    assert_int_equal(job.log_bytes_max, 99);
    buf_release(&words);
    arena_release(&arena);
    json_decref(spec);
}

#define FIXED "WEIR_TASK_ID=7 WEIR_FENCE=f-7 WEIR_SERVER=unix:/s WEIR_OUTPUT=/d/3/io/out WEIR_NEEDS=/d/3/io/needs"

static void shell(void **state)
{
    (void)state;
    one("{\"command\":[\"a\",\"b c\"]}", NULL, "a b c", "PATH=/bin HOME=/d/3/work LANG=C " FIXED, "");
    one("{\"script\":\"x\",\"shell\":\"bash\",\"later\":{\"a\":1}}", NULL, "bash /d/3/io/script", NULL, "");
    one("{\"script\":\"x\"}", NULL, "sh /d/3/io/script", NULL, "");
    one("{\"command\":[\"a\"],\"env\":{\"PATH\":\"/x\",\"N\":5,\"=\":\"bad\",\"\":\"bad\"}}", NULL, "a",
        "PATH=/x HOME=/d/3/work LANG=C N=5 " FIXED, "");
    one("{\"command\":[\"a\"],\"env\":{\"WEIR_TASK_ID\":\"8\",\"WEIR_X\":\"mine\"}}", NULL, "a",
        "PATH=/bin HOME=/d/3/work LANG=C WEIR_TASK_ID=7 WEIR_X=mine WEIR_FENCE=f-7 WEIR_SERVER=unix:/s "
        "WEIR_OUTPUT=/d/3/io/out "
        "WEIR_NEEDS=/d/3/io/needs",
        "");
    one("{\"command\":[\"a\"],\"needs\":{\"b-1\":{\"outputs\":{\"x.y\":\"z\"}}},\"params\":{\"p "
        "q\":\"r\"},\"data\":null}",
        NULL, "a",
        "PATH=/bin HOME=/d/3/work LANG=C WEIR_OUTPUT_B_1_X_Y=z WEIR_PARAM_P_Q=r " FIXED " WEIR_INPUT=/d/3/io/input",
        "");
    one("{\"name\":\"n\",\"key\":\"k\",\"rev\":3,\"attempt\":2,\"token\":\"t\",\"command\":[\"a\"]}", NULL, "a",
        "PATH=/bin HOME=/d/3/work LANG=C WEIR_REV=3 WEIR_TASK=n WEIR_KEY=k WEIR_ATTEMPT=2 WEIR_TOKEN=t " FIXED, "");
}

static void refusals(void **state)
{
    (void)state;
    one("{}", NULL, NULL, NULL, "the task has neither a command nor a script");
    one("{\"command\":[]}", NULL, NULL, NULL, "the task has neither a command nor a script");
    one("{\"command\":\"a b\"}", NULL, NULL, NULL, "the task has neither a command nor a script");
    one("{\"command\":[1]}", NULL, NULL, NULL, "the command isn't a list of texts without NUL");
    one("[]", NULL, NULL, NULL, "the task has neither a command nor a script");
    one("{\"image\":\"i\",\"command\":[\"a\"]}", NULL, NULL, NULL,
        "the task has an image, and neither podman nor docker is here");
    one("{\"image\":\"--privileged\",\"command\":[\"a\"]}", "podman", NULL, NULL, "the image's name isn't one");
}

static void container(void **state)
{
    (void)state;
    one("{\"image\":\"i:1\",\"script\":\"x\",\"env\":{\"A\":\"b c\"}}", "podman",
        "podman run --rm --pull=missing --cidfile=/d/3/io/cid --label=weir.task=7 --volume=/d/3/work:/work "
        "--volume=/d/3/io:/weir "
        "--workdir=/work --network=none "
        "--env=HOME=/work --env=LANG=C --env=A=b c --env=WEIR_TASK_ID=7 --env=WEIR_FENCE=f-7 --env=WEIR_SERVER=unix:/s "
        "--env=WEIR_OUTPUT=/weir/out "
        "--env=WEIR_NEEDS=/weir/needs i:1 sh /weir/script",
        "PATH=/own OWN=1 WEIR_FENCE=f-7", "");
    one("{\"image\":\"i:1\",\"command\":[\"c\"],\"token\":\"t\",\"sandbox\":\"strict\"}", "podman",
        "podman run --rm --pull=missing --cidfile=/d/3/io/cid --label=weir.task=7 --volume=/d/3/work:/work "
        "--volume=/d/3/io:/weir "
        "--workdir=/work --network=none --cap-drop=all --security-opt=no-new-privileges --network=none "
        "--env=HOME=/work --env=LANG=C --env=WEIR_TOKEN --env=WEIR_TASK_ID=7 --env=WEIR_FENCE=f-7 "
        "--env=WEIR_SERVER=unix:/s "
        "--env=WEIR_OUTPUT=/weir/out --env=WEIR_NEEDS=/weir/needs i:1 c",
        "PATH=/own OWN=1 WEIR_FENCE=f-7 WEIR_TOKEN=t", "");
}

static void archives(void **state)
{
    (void)state;
    struct arena arena = { 0 };
    struct job job;
    struct place place = place_of(NULL);
    json_t *spec =
        json_loads("{\"command\":[\"a\"],\"archive\":\"ark\",\"rev\":3,\"token\":\"t\",\"sandbox\":\"strict\","
                   "\"artifacts\":[\"x\",\"y/*\"],\"params\":{\"a-b\":\"c\"},\"source\":{\"archive\":\"ark\","
                   "\"kind\":\"git\",\"url\":\"/r\",\"rev\":3,\"commit\":\"abc\",\"prev\":2}}",
            0, NULL);
    kind_job(spec, 7, STR("f-7"), &place, &arena, &job);
    assert_int_equal(job.checkout.kind, ARCHIVE_GIT);
    assert_int_equal(job.checkout.rev, 3);
    assert_true(
        str_eqz(job.checkout.archive, "ark") && str_eqz(job.checkout.url, "/r") && str_eqz(job.checkout.commit, "abc"));
    assert_true(job.strict && !job.checkout.copy);
    assert_int_equal(job.limits.pids, 512); /* a strict job has limits that it doesn't ask for */
    assert_int_equal(job.limits.disk_bytes, (int64_t)10 << 30);
    assert_true(job.limits.memory_bytes >= 64 << 20);
    assert_string_equal(job.artifacts[1], "y/*");
    assert_null(job.artifacts[2]);
    bool prev = false, param = false;
    for (char **entry = job.envp; *entry; entry++) {
        prev |= strcmp(*entry, "WEIR_PREV_REV=2") == 0;
        param |= strcmp(*entry, "WEIR_PARAM_A_B=c") == 0;
    }
    assert_true(prev && param);
    json_object_set_new(spec, "checkout", json_false());
    kind_job(spec, 7, STR("f-7"), &place, &arena, &job);
    assert_int_equal(job.checkout.kind, ARCHIVE_NONE);
    json_decref(spec);
    arena_release(&arena);
}

static void numbers(void **state)
{
    (void)state;
    struct arena arena = { 0 };
    struct job job;
    struct place place = place_of(NULL);
    json_t *spec = json_loads(
        "{\"command\":[\"a\"],\"timeout_ms\":1500,\"grace_ms\":0,\"holds\":true,\"limits\":{\"memory\":9,\"pids\":8,"
        "\"cpu_s\":7,\"files\":6,"
        "\"file_bytes\":5},\"needs\":{\"b\":{\"outputs\":{\"x\":\"y\"}}},\"data\":{\"k\":[1]}}",
        0, NULL);
    kind_job(spec, 7, STR("f-7"), &place, &arena, &job);
    assert_int_equal(job.timeout_ms, 1500);
    assert_int_equal(job.grace_ms, 0);
    assert_true(job.holds);
    assert_int_equal(job.limits.memory_bytes + 10 * job.limits.pids + 100 * job.limits.cpu_s + 1000 * job.limits.files +
                         10000 * job.limits.file_bytes,
        56789);
    assert_true(str_eqz(job.needs, "{\"b\":{\"outputs\":{\"x\":\"y\"}}}"));
    assert_true(str_eqz(job.input, "{\"k\":[1]}\n"));
    json_decref(spec);
    arena_release(&arena);
}

/* Only an executor that was told to applies change sets; the order goes to it as it is. */
static void apply(void **state)
{
    (void)state;
    struct arena arena = { 0 };
    struct job job;
    struct place place = place_of(NULL);
    json_t *spec = json_loads(
        "{\"command\":[\"rm\"],\"holds\":true,\"timeout_ms\":9,\"apply\":{\"csid\":\"c1\"},\"token\":\"t\"}", 0, NULL);
    kind_job(spec, 7, STR("f-7"), &place, &arena, &job);
    assert_true(str_eqz(job.refusal, "this executor doesn't apply change sets (weir executor --apply)"));
    assert_false(job.applies);
    place.apply = true;
    kind_job(spec, 7, STR("f-7"), &place, &arena, &job);
    assert_int_equal(job.refusal.len, 0);
    assert_true(job.applies && job.holds && job.timeout_ms == 9);
    assert_true(str_eqz(job.input, "{\"csid\":\"c1\"}"));
    assert_string_equal(job.argv[0], "/proc/self/exe");
    assert_string_equal(job.argv[1], "apply");
    assert_null(job.argv[2]);
    struct buf words;
    buf_init(&words, 1 << 20);
    joined(&words, job.envp);
    assert_string_equal(words.ptr,
        "PATH=/bin HOME=/d/3/work LANG=C WEIR_TOKEN=t " FIXED " WEIR_INPUT=/d/3/io/input WEIR_REASON=/d/3/io/reason");
    buf_release(&words);
    json_decref(spec);
    arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(shell), cmocka_unit_test(refusals), cmocka_unit_test(apply),
        cmocka_unit_test(container), cmocka_unit_test(archives), cmocka_unit_test(numbers) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
