/* output: what a job wrote to WEIR_OUTPUT, as the members of a JSON object. */
#ifndef WEIR_EXEC_OUTPUT_H
#define WEIR_EXEC_OUTPUT_H

#include "exec/log_file.h"
#include "text/json.h"
#include "text/key.h"

/* the last: a byte can become six */
enum { OUTPUT_NAMES_MAX = 256, OUTPUT_BYTES_MAX = 64 << 10, OUTPUT_JSON_MAX = 8 * OUTPUT_BYTES_MAX };

/* output_read: io/out beneath dir_fd, if it is a regular file, up to OUTPUT_BYTES_MAX bytes into out. false: there is
 * none, or it is empty.
 */
bool output_read(int dir_fd, struct buf *out);

/* output_put: name=value lines as {"name": "value", ...}, which the server's reader takes whatever the bytes are. The
 * last value of a name counts; bytes of a value that aren't UTF-8 become U+FFFD. Lines without '=', with a name that
 * isn't one (output_name_is_valid), with a value over OUTPUT_VALUE_BYTES_MAX, or beyond OUTPUT_NAMES_MAX names, are
 * left out; *out_left says how many. */
void output_put(struct str text, struct json *json, size_t *out_left);

/* output_find: the last value of the name; empty: there is none. */
struct str output_find(struct str text, struct str name);

/* output_check: writes a line to the job's log if output_put will leave lines out. The shim calls it while the log is
 * open; the agent, which sends the outputs later, can't. */
void output_check(int dir_fd, struct log_file *log);

#endif
