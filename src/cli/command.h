/* command: the table of all commands (commands.def) and the way from argv to one of them. */
#ifndef WEIR_CLI_COMMAND_H
#define WEIR_CLI_COMMAND_H

#include "cli/options.h"

/* command_main: finds the command, lets common options stand before it (`weir --server X list`), runs it. The table's
 * last row has no name. Returns the exit code. */
int command_main(const struct command_spec *commands, int argc, char **argv);

/* For `help` and the completions, of the table that command_main was given: the commands that are shown, one by one. */
const struct command_spec *command_next(const struct command_spec *after); /* NULL: the first one, or no more */
const struct command_spec *command_find(const char *name);                 /* NULL: none */
/* command_part_find: by its word ("create"); NULL: it has no such part. */
const struct command_spec *command_part_find(const struct command_spec *spec, const char *word);

/* What shells and man(1) need to know, printed from that table (completion.c, manual.c). */
void completion_print(FILE *out, const char *shell); /* bash, zsh, fish */
void manual_print(FILE *out);                        /* weir.1.scd */

/* verb_run, view_run: what a row says, done; the exit code. */
int verb_run(struct session *session);
int view_run(struct session *session);

#define VERB(post, says, ...)
#define VIEW(get, list, print, ...) void print(struct session *session, const json_t *answer);
#define COMMAND(run, ...) int run(struct session *session);
#define PROGRAM(main, ...) int main(const struct command_spec *spec, int argc, char **argv);
#define WHOLE(...)
#include "cli/commands.def"
#undef VERB
#undef VIEW
#undef COMMAND
#undef PROGRAM
#undef WHOLE

#endif
