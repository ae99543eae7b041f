/* pair: two engines on one PostgreSQL, in a database of their own. */
#ifndef WEIR_TEST_PAIR_H
#define WEIR_TEST_PAIR_H

#include "rig.h"

struct pair {
    struct rig a, b;
    char url[200];
};

void pair_open(struct pair *pair);
void pair_open_batched(struct pair *pair, size_t batch);
void pair_close(struct pair *pair);

void database_make(struct pair *pair); /* the next one */
void database_do(const char *first, const char *second, const char *third);
void connections_end(void); /* those of the last one made */

#endif
