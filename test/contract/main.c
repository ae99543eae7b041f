/* The contract of the store: what every store must do, run on the one that WEIR_TEST_STORE names (sqlite when it names
 * none). usage: test_contract PART */
#include <stdio.h>
#include <string.h>

#include "world.h"

int main(int argc, char **argv)
{
    const struct {
        const char *name;
        const struct CMUnitTest *tests;
        size_t n;
    } parts[] = {
        { "rows", contract_rows, n_contract_rows },
        { "attempts", contract_attempts, n_contract_attempts },
        { "archives", contract_archives, n_contract_archives },
        { "changesets", contract_changesets, n_contract_changesets },
        { "order", contract_order, n_contract_order },
        { "read", contract_read, n_contract_read },
        { "history", contract_history, n_contract_history },
        { "backup", contract_backup, n_contract_backup },
        { "crash", contract_crash, n_contract_crash },
    };
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (argc == 2 && strcmp(argv[1], parts[i].name) == 0)
            return _cmocka_run_group_tests(parts[i].name, parts[i].tests, parts[i].n, NULL, NULL);
    fprintf(stderr, "usage: test_contract rows|attempts|archives|changesets|order|read|history|backup|crash\n");
    return 2;
}
