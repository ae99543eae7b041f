/* coord_store: servers that share a PostgreSQL store and nothing else. The rows with their beats say everything, so
 * there is no advice to give; the beats of the servers' own rows, which the api reads, show which servers are alive. */
#include "coord/coord.h"

static void store_close(struct coord *coord)
{
    arena_release(&coord->arena);
    mem_free(coord);
}

struct coord *coord_store_new(void)
{
    static const struct coord_ops ops = { .kind = "store", .close = store_close };
    struct coord *coord = mem_alloc_zero(sizeof *coord);
    coord->ops = &ops;
    return coord;
}
