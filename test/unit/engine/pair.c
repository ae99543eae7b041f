#include "pair.h"

#include <stdio.h>
#include <stdlib.h>

static int databases;

/* first, the number of the database, second, and where there is a third, the number again. */
void database_do(const char *first, const char *second, const char *third)
{
    char url[200], text[200], number[12];
    snprintf(number, sizeof number, "%d", databases);
    snprintf(url, sizeof url, "postgresql:///postgres?host=%s&user=weir", getenv("WEIR_TEST_POSTGRES"));
    snprintf(text, sizeof text, "%s%s%s%s%s", first, number, second, third ? number : "", third ? third : "");
    rig_database_ask(url, text);
}

void database_make(struct pair *pair)
{
    char name[20];
    snprintf(name, sizeof name, "shared%d", ++databases);
    rig_database(name, pair->url, sizeof pair->url);
}

void connections_end(void)
{
    database_do("SELECT pg_terminate_backend(pid, 30000) FROM pg_stat_activity WHERE datname = 'shared", "'", NULL);
}

void pair_open_batched(struct pair *pair, size_t batch)
{
    *pair = (struct pair){ 0 };
    database_make(pair);
    pair->a.url = pair->url;
    pair->a.name = "a";
    pair->b.name = "b";
    pair->a.batch = pair->b.batch = batch;
    rig_open(&pair->a);
    rig_join(&pair->b, &pair->a);
}

void pair_open(struct pair *pair)
{
    pair_open_batched(pair, 0);
}

void pair_close(struct pair *pair)
{
    rig_close(&pair->b);
    rig_close(&pair->a);
}
