/* output: what a job wrote to WEIR_OUTPUT, as the members of a JSON object. */
#ifndef WEIR_EXEC_OUTPUT_H
#define WEIR_EXEC_OUTPUT_H

#include "text/json.h"

enum { OUTPUT_NAMES_MAX = 256, OUTPUT_NAME_BYTES_MAX = 200, OUTPUT_BYTES_MAX = 64 << 10 };

/* output_read: io/out beneath dir_fd, if it is a regular file, up to OUTPUT_BYTES_MAX bytes into out. false: there is none, or it is empty.
 */
bool output_read(int dir_fd, struct buf *out);

/* output_put: name=value lines as {"name": "value", ...}. The last value of a name counts; lines without '=', with an empty or too long
 * name, or beyond OUTPUT_NAMES_MAX names, are left out; *out_left says how many. */
void output_put(struct str text, struct json *json, size_t *out_left);

#endif
