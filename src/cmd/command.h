/* command: the table of all commands (its rows stand in main.c) and the way from argv to one of them. */
#ifndef WEIR_CMD_COMMAND_H
#define WEIR_CMD_COMMAND_H

#include "cmd/options.h"

struct command_row {
    int (*run)(int argc, char **argv); /* argv[0] is the command's name; returns the exit code */
    const struct command_spec *spec;
    const char *group; /* heading in `weir help`; NULL: not listed */
};

/* command_main: finds the command, lets common options stand before it (`weir --server X list`), runs it. */
int command_main(const struct command_row *commands, size_t n, int argc, char **argv);

/* A command made of parts (`token create`): each has a spec of its own in spec->parts. */
struct command_part {
    const char *name;
    int (*run)(int argc, char **argv); /* argv[0] is the part's name */
};
/* command_parts: finds the part, which may stand behind common options, and runs it; --help of the whole; usage errors. */
int command_parts(const struct command_spec *spec, const struct command_part *parts, size_t n, int argc, char **argv);

/* For `help` and the completions: the table that command_main was given. */
const struct command_row *command_table(size_t *out_n);
const struct command_row *command_find(const char *name); /* NULL: none */

/* One function and one spec a command; the file is called like the command. (The engine's commands own the prefix cmd_ for most of these
 * names, so only the three long-running ones have it.) */
#define COMMAND_DECLARE(name) \
    int name##_main(int argc, char **argv); \
    extern const struct command_spec name##_spec
COMMAND_DECLARE(archive);
COMMAND_DECLARE(backup);
COMMAND_DECLARE(cancel);
COMMAND_DECLARE(config);
COMMAND_DECLARE(enqueue);
COMMAND_DECLARE(events);
COMMAND_DECLARE(graph);
COMMAND_DECLARE(help);
COMMAND_DECLARE(history);
COMMAND_DECLARE(lint);
COMMAND_DECLARE(list);
COMMAND_DECLARE(local);
COMMAND_DECLARE(log);
COMMAND_DECLARE(artifacts);
COMMAND_DECLARE(nodes);
COMMAND_DECLARE(notify);
COMMAND_DECLARE(pause);
COMMAND_DECLARE(plan);
COMMAND_DECLARE(promote);
COMMAND_DECLARE(restore);
COMMAND_DECLARE(resume);
COMMAND_DECLARE(retry);
COMMAND_DECLARE(run);
COMMAND_DECLARE(semaphores);
COMMAND_DECLARE(show);
COMMAND_DECLARE(stats);
COMMAND_DECLARE(status);
COMMAND_DECLARE(store);
COMMAND_DECLARE(tenants);
COMMAND_DECLARE(token);
COMMAND_DECLARE(top);
COMMAND_DECLARE(verify);
COMMAND_DECLARE(version);
COMMAND_DECLARE(wait);
COMMAND_DECLARE(why);

int cmd_executor(int argc, char **argv);
int cmd_serve(int argc, char **argv);
int cmd_shim(int argc, char **argv);
extern const struct command_spec executor_spec, serve_spec, shim_spec;

#endif
