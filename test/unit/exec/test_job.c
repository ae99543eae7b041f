/* The job record: what is packed comes back; no damage of any byte is believed or read past. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/rng.h"
#include "exec/job.h"

static char argv0[] = "prog", argv1[] = "", argv2[] = "with\nline", env0[] = "A=b", container[] = "podman";

static void sample(struct job *job, char **argv, char **envp)
{
    argv[0] = argv0;
    argv[1] = argv1;
    argv[2] = argv2;
    argv[3] = NULL;
    envp[0] = env0;
    envp[1] = NULL;
    *job = (struct job){
        .task = 42,
        .fence = STR("inc-42-00000001"),
        .holds = true,
        .timeout_ms = 1500,
        .grace_ms = 5000,
        .limits = { 1, 2, 3, 4, 5, 6 },
        .log_bytes_max = (uint64_t)64 << 20,
        .argv = argv,
        .envp = envp,
        .script = STR("echo\n"),
        .needs = STR("{}"),
        .container = container,
        .refusal = STR("why"),
        .refusal_exit = 126,
        .checkout = { .kind = ARCHIVE_GIT,
            .archive = STR("ark"),
            .url = STR("/r"),
            .commit = STR("abc"),
            .rev = 7,
            .copy = true },
        .strict = true,
        .artifacts = envp,
        .applies = true,
    };
}

static void comes_back(void **state)
{
    (void)state;
    struct arena arena = { 0 };
    struct err err = { .code = ERR_none };
    struct buf record;
    struct job in, out;
    char *argv[4], *envp[2];
    sample(&in, argv, envp);
    buf_init(&record, JOB_BYTES_MAX);
    job_pack(&in, &record);
    assert_true(job_unpack(buf_str(&record), &arena, &out, &err));
    assert_int_equal(out.task, 42);
    assert_true(str_eq(out.fence, in.fence) && out.holds);
    assert_int_equal(out.timeout_ms, 1500);
    assert_int_equal(out.grace_ms, 5000);
    assert_memory_equal(&out.limits, &in.limits, sizeof in.limits);
    assert_true(out.log_bytes_max == in.log_bytes_max);
    for (int i = 0; i < 3; i++)
        assert_string_equal(out.argv[i], in.argv[i]);
    assert_null(out.argv[3]);
    assert_string_equal(out.envp[0], "A=b");
    assert_null(out.envp[1]);
    assert_true(str_eq(out.script, in.script) && str_eq(out.needs, in.needs) && out.input.len == 0);
    assert_string_equal(out.container, "podman");
    assert_true(str_eq(out.refusal, in.refusal));
    assert_int_equal(out.refusal_exit, 126);
    assert_true(out.checkout.kind == ARCHIVE_GIT && out.checkout.rev == 7 && out.checkout.copy && out.strict);
    assert_true(
        str_eqz(out.checkout.archive, "ark") && str_eqz(out.checkout.url, "/r") && str_eqz(out.checkout.commit, "abc"));
    assert_string_equal(out.artifacts[0], "A=b");
    assert_true(out.applies && out.note.len == 0);
    assert_null(out.artifacts[1]);

    /* Bytes of an older, longer record behind it don't count. */
    buf_add_z(&record, "left from the job before");
    assert_true(job_unpack(buf_str(&record), &arena, &out, &err));
    buf_release(&record);
    arena_release(&arena);
}

static void damage_is_refused(void **state)
{
    (void)state;
    struct arena arena = { 0 };
    struct err err = { .code = ERR_none };
    struct buf record;
    struct job in, out;
    char *argv[4], *envp[2];
    sample(&in, argv, envp);
    buf_init(&record, JOB_BYTES_MAX);
    job_pack(&in, &record);
    for (size_t len = 0; len < record.len; len++) {
        char *copy = mem_alloc(len + 1); /* so that a read past the end is seen */
        memcpy(copy, record.ptr, len);
        assert_false(job_unpack((struct str){ copy, len }, &arena, &out, &err));
        mem_free(copy);
        arena_reset(&arena);
    }
    for (size_t i = 0; i < record.len; i++) {
        if (i >= JOB_RELEASED_AT && i < JOB_RELEASED_AT + sizeof(uint32_t))
            continue; /* set in place, outside the hash */
        record.ptr[i] = (char)(record.ptr[i] ^ 0x11);
        assert_false(job_unpack(buf_str(&record), &arena, &out, &err));
        record.ptr[i] = (char)(record.ptr[i] ^ 0x11);
        arena_reset(&arena);
    }
    assert_int_equal(err.code, ERR_corrupt);
    buf_release(&record);
    arena_release(&arena);
}

/* A hash that fits proves nothing about the sender: bodies of noise under a good head must be harmless too. */
static void noise_is_harmless(void **state)
{
    (void)state;
    struct arena arena = { 0 };
    struct err err = { .code = ERR_none };
    struct rng rng;
    struct job out, in;
    struct buf record;
    char *argv[4], *envp[2];
    rng_seed(&rng, 7);
    sample(&in, argv, envp);
    buf_init(&record, JOB_BYTES_MAX);
    for (int round = 0; round < 20000; round++) {
        job_pack(&in, &record);
        struct job_head head;
        for (int i = 0; i < 3; i++)
            record.ptr[sizeof head + rng_below(&rng, record.len - sizeof head)] = (char)rng_u64(&rng);
        size_t len = sizeof head + rng_below(&rng, record.len - sizeof head + 1);
        char *copy = mem_alloc(len);
        memcpy(&head, record.ptr, sizeof head);
        struct str body = { record.ptr + sizeof head, len - sizeof head };
        head.body_bytes = body.len;
        head.hash = str_hash(body);
        memcpy(copy, &head, sizeof head);
        memcpy(copy + sizeof head, body.ptr, body.len);
        if (job_unpack((struct str){ copy, len }, &arena, &out, &err))
            assert_true(out.fence.len <= FENCE_MAX);
        mem_free(copy);
        arena_reset(&arena);
    }
    buf_release(&record);
    arena_release(&arena);
}

static void status_by_fence(void **state)
{
    (void)state;
    struct status status = { .magic = STATUS_MAGIC };
    memcpy(status.fence, "f-1", 4);
    assert_true(status_fits(&status, STR("f-1")));
    assert_false(status_fits(&status, STR("f-2")));
    assert_false(status_fits(&status, STR("f-11")));
    assert_false(status_fits(&status, (struct str){ 0 }));
    memset(status.fence, 'x', sizeof status.fence);
    assert_false(status_fits(&status, STR("x")));
    status = (struct status){ 0 };
    assert_false(status_fits(&status, (struct str){ 0 }));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(comes_back),
        cmocka_unit_test(damage_is_refused),
        cmocka_unit_test(noise_is_harmless),
        cmocka_unit_test(status_by_fence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
