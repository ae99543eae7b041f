/* damage: what the database of this process's store was found to be damaged by.
 *
 * One record for the process: a server opens its store many times (turns, readers, the watcher, verify), and whichever
 * connection meets damage must stop intake. Every report is counted, the first text stays. Any thread. */
#ifndef WEIR_STORE_DAMAGE_H
#define WEIR_STORE_DAMAGE_H

#include <stdint.h>

#include "base/err.h"

enum { DAMAGE_TEXT_MAX = 256 };

uint64_t damage_count(void);                 /* reports since the process started */
void damage_text(char out[DAMAGE_TEXT_MAX]); /* of the first report; "": none */
void damage_note(const char *text);          /* the listener is called for the first report */
/* called on the thread that met the damage; NULL: no listener */
void damage_listen(void (*heard)(void *owner), void *owner);
/* damage_set: err_set with ERR_corrupt for rows that contradict the schema or each other; noted. Always false. */
bool damage_set(struct err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
