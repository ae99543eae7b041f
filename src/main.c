/* main: the table of commands, made of its rows, and nothing else. */
#include "cli/command.h"
#include "text/conf.h"

#define OPTIONS(...) ((const struct option_spec[]){ __VA_ARGS__, { 0 } })
#define EXAMPLES(...) ((const char *const[]){ __VA_ARGS__, NULL })
#define ROW(group_, name_, operands_, least, most, flags_, summary_, description_, options_, examples_) \
    .group = (group_), .name = (name_), .operands = (operands_), .operands_min = (least), .operands_max = (most), \
        .flags = (flags_), \
    .summary = (summary_), .description = (description_), .options = (options_), .examples = (examples_)
#define VERB(post_, says_, ...) { ROW(__VA_ARGS__), .post = (post_), .says = (says_) },
#define VIEW(get_, list_, print_, ...) { ROW(__VA_ARGS__), .get = (get_), .list = (list_), .print = (print_) },
#define COMMAND(run_, ...) { ROW(__VA_ARGS__), .run = (run_) },
#define PROGRAM(main_, ...) { ROW(__VA_ARGS__), .program = (main_) },
#define WHOLE(group_, name_, operands_, summary_) \
    { ROW(group_, name_, operands_, 1, 1, COMMAND_WHOLE, summary_, NULL, NULL, NULL) },

static const struct command_spec commands[] = {
#include "cli/commands.def"
    { 0 },
};

int main(int argc, char **argv)
{
    return command_main(commands, argc, argv);
}
