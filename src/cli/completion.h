/* completion: what shells and man(1) need to know, printed from the command table. */
#ifndef WEIR_CLI_COMPLETION_H
#define WEIR_CLI_COMPLETION_H

#include <stdio.h>

void completion_print(FILE *out, const char *shell); /* bash, zsh, fish */
void manual_print(FILE *out);                        /* weir.1.scd */

#endif
