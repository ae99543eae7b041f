/* world: what the tests of the room share: limits, the child's program, a directory, one call of unpack. */
#ifndef WEIR_TEST_UNPACK_WORLD_H
#define WEIR_TEST_UNPACK_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tarball.h"
#include "unpack/unpack.h"
#include "unpack/walk.h"

#define COUNT_OF(array) (sizeof(array) / sizeof(array)[0])

static const struct changeset_limits world_limits = {
    .unpacked_bytes = 100000, .meta_bytes = 2000, .files = 20, .path_bytes = 300, .depth = 6
};

extern const char *world_program; /* plain_child, or weir */

struct world {
    struct arena arena;
    struct err err;
    struct unpack_result result;
    struct unpack_order order;
    char dir[200];
    int dir_fd;
    bool is_good;
};

static inline void world_open(struct world *world)
{
    const char *tmp = getenv("TMPDIR");
    *world = (struct world){ .order = { .limits = &world_limits, .program = world_program } };
    world->err.arena = &world->arena;
    snprintf(world->dir, sizeof world->dir, "%s/unpack.XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(world->dir));
    world->dir_fd = open(world->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(world->dir_fd >= 0);
}

static inline void world_close(struct world *world)
{
    struct err err = { 0 };
    assert_true(walk_remove(world->dir_fd, &err));
    close(world->dir_fd);
    assert_int_equal(rmdir(world->dir), 0);
    arena_release(&world->arena);
}

/* world_run: checks, or extracts into the directory. */
static inline bool world_run(struct world *world, struct str bytes, bool is_extract)
{
    world->order.tarball_fd = tarball_file(bytes);
    world->is_good = is_extract
                         ? unpack_extract(&world->order, world->dir_fd, &world->arena, &world->result, &world->err)
                         : unpack_check(&world->order, &world->arena, &world->result, &world->err);
    close(world->order.tarball_fd);
    assert_int_equal(world->is_good, world->err.code == ERR_none);
    return world->is_good;
}

static inline struct walked world_look(const struct world *world)
{
    struct err err = { 0 };
    struct walked walked = { 0 };
    assert_true(walk_count(world->dir_fd, 100, &walked, &err));
    return walked;
}

#define META_A "##movetype\nDC\n##target\nt\n##files\na\n"
static inline void put_file(struct buf *out, const char *name, const char *data)
{
    tarball_put(out, (struct tar_put){ .name = name, .data = str_of(data) });
}

#endif
