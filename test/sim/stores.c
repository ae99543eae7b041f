/* stores: histories on a real store: each has its own, and the store in memory before it (memstore_twin). Data
 * directories are made in the folder that the caller gave, and left to it. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "runs.h"

enum { VERIFY_KEY_MAX = 4096 };

static void file_copy(const char *from, const char *to)
{
    char bytes[VERIFY_KEY_MAX];
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
    ASSERT(in && out);
    size_t n = fread(bytes, 1, sizeof bytes, in);
    ASSERT(n < sizeof bytes && fwrite(bytes, 1, n, out) == n);
    fclose(in);
    ASSERT(fclose(out) == 0);
}

/* {seed} in the URL is the history's number; a store in SQLite is in the data directory. */
static const char *url_of(struct world *w, const char *dir)
{
    struct str url = str_of(mode_store), rest = url;
    if (str_starts(url, STR("sqlite:")))
        return str_dupz(&w->arena, str_fmt(&w->arena, "sqlite://%s", dir));
    const char *at = strstr(mode_store, "{seed}");
    if (!at)
        return mode_store;
    rest = str_sub(url, (size_t)(at - mode_store) + 6, url.len);
    return str_dupz(&w->arena, str_fmt(&w->arena, "%.*s%llu%.*s", (int)(at - mode_store), mode_store,
                                   (unsigned long long)mode_seed, STR_ARG(rest)));
}

void stores_open(struct world *w)
{
    char dir[400], key[420], first[420] = "";
    struct err err = { 0 };
    w->faults.restore = 0; /* what is put back is memory's alone */
    if (str_starts(str_of(mode_store), STR("sqlite:")))
        w->many = 0; /* it doesn't keep that */
    for (size_t i = 0; i < w->n_servers; i++) {
        struct server *s = &w->servers[i];
        snprintf(dir, sizeof dir, "%s/%llu-%zu", mode_store_dir, (unsigned long long)mode_seed, i + 1);
        ASSERT(mkdir(dir, 0700) == 0 || errno == EEXIST);
        snprintf(key, sizeof key, "%s/verify.key", dir);
        if (first[0])
            file_copy(first, key);
        struct store_config config = { .url = url_of(w, dir),
            .data_dir = str_dupz(&w->arena, str_of(dir)),
            .create = true,
            .server = str_of(s->name) };
        struct store *real = store_open(&config, &err);
        if (!real) {
            printf("the store can't be opened: %s\n", err.text);
            world_fail(w, "the store can't be opened", 0);
        }
        snprintf(first, sizeof first, "%s", key);
        if (!several(w)) {
            s->port = &s->shared;
            memport_open(s->port, w->store, 0);
        }
        memport_twin(s->port, real);
        ASSERT(real->ops->load_head(real, &w->store->head, &err)); /* its incarnation is its own */
    }
}

/* What the turns have told of rows must be what the rows are: `weir verify` has nothing to say of a store that nobody
 * touched. */
static void rows_verify(struct world *w)
{
    char dir[400];
    struct err err = { 0 };
    struct verify_report report;
    snprintf(dir, sizeof dir, "%s/%llu-1", mode_store_dir, (unsigned long long)mode_seed);
    struct store_config config = { .url = url_of(w, dir), .data_dir = dir };
    if (store_verify_at(&config, 0, NULL, &report, &err) && report.ok)
        return;
    printf("verify: %s\n", err.code ? err.text : report.fault);
    world_fail(w, "`verify` finds a fault in a store that nobody has touched", 0);
}

void stores_close(struct world *w)
{
    struct err err = { 0 };
    for (size_t i = 0; i < w->n_servers; i++) {
        struct memport *port = w->servers[i].port;
        if (i == 0 && !memport_compare(port, &err))
            world_fail(w, "the store can't be read at the end", 0);
        port->real->ops->close(port->real);
    }
    rows_verify(w);
}
