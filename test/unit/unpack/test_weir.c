/* The real binary as the child: `weir unpack` checks, extracts and refuses, as confined as its build allows. */
#include "world.h"

const char *world_program;

static void tarball_make(struct buf *out, const char *filter)
{
    struct buf plain;
    buf_init(&plain, SIZE_MAX);
    put_file(&plain, "meta", META_A);
    put_file(&plain, "lroot/a", "content");
    tarball_end(&plain);
    if (filter != NULL)
        tarball_compress(out, filter, buf_str(&plain));
    else
        buf_add_str(out, buf_str(&plain));
    buf_release(&plain);
}

static void weir_unpacks(void **state)
{
    (void)state;
    static const char *const filters[] = { NULL, "gzip", "xz", "zstd" };
    for (size_t i = 0; i < COUNT_OF(filters); i++)
        for (int is_extract = 0; is_extract < 2; is_extract++) {
            struct world world;
            struct buf out;
            buf_init(&out, SIZE_MAX);
            world_open(&world);
            tarball_make(&out, filters[i]);
            if (!world_run(&world, buf_str(&out), is_extract))
                fail_msg("%s: %s", filters[i] ? filters[i] : "plain", world.err.text);
            assert_int_equal(world.result.n_files, 1);
            assert_int_equal(world_look(&world).n_files, is_extract ? 2 : 0);
            assert_true(world.result.confined.landlock_abi >= 0);
#if !defined(WEIR_SANITIZED)
            assert_true(world.result.confined.has_seccomp && world.result.confined.has_memory_limit);
#endif
            buf_release(&out);
            world_close(&world);
        }
}

static void weir_refuses(void **state)
{
    (void)state;
    struct world world;
    world_open(&world);
    assert_false(world_run(&world, STR("this is no tarball"), true));
    assert_int_equal(world.err.code, ERR_invalid);
    assert_int_equal(world_look(&world).n_files, 0);
    world_close(&world);
}

int main(int argc, char **argv)
{
    world_program = argc > 1 ? argv[1] : NULL;
    const struct CMUnitTest tests[] = { cmocka_unit_test(weir_unpacks), cmocka_unit_test(weir_refuses) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
