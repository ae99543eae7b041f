/* options: the command line as data.
 *
 * A command is a struct command_spec: its name, operands, options and texts in one table. From that one table come the
 * parser, the usage errors (exit 2, with the nearest option as a suggestion), `--help` and the completions of bash, zsh
 * and fish. Nothing here talks to a server. Views into argv: nothing is copied but the lists, which live in the arena
 * given. */
#ifndef WEIR_CLI_OPTIONS_H
#define WEIR_CLI_OPTIONS_H

#include <jansson.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/str.h"

struct session;

enum {
    OPTION_REQUIRED = 1,
    OPTION_REPEATABLE = 2,
    OPTION_HIDDEN = 4, /* works, isn't shown */
    OPTION_NON_EMPTY = 8,
};

struct option_spec {
    const char *name;     /* without the two dashes; NULL ends a table */
    char letter;          /* 'f' for -f; 0: none */
    const char *argument; /* NULL: a flag; else what help calls the argument: "D", "SIZE" */
    const char *help;     /* one sentence without a full stop */
    unsigned flags;
    const char *choices; /* "ascii|dot|svg|json": anything else is a usage error; NULL: free */
};

enum {
    COMMAND_CLIENT = 1,  /* talks to a server: takes --server, --token-file, --json, --no-color, -q */
    COMMAND_NO_JSON = 2, /* a client without a JSON form */
    COMMAND_HIDDEN = 4,
    COMMAND_LIVE = 8,   /* a client that follows events: its session has a loop */
    COMMAND_WHOLE = 16, /* it has parts: the rows behind its own in the table whose names begin with its name */
};

struct command_spec {
    const char *name;     /* as typed after `weir`: "list", "token create" */
    const char *operands; /* as shown: "KEY...", "" for none */
    unsigned operands_min, operands_max;
    const char *summary;               /* one line, small letter, no full stop */
    const char *description;           /* paragraphs for --help and the man page; may be NULL */
    const struct option_spec *options; /* ended by a row without a name; NULL: none */
    unsigned flags;
    const char *const *examples; /* NULL-ended pairs: what it does, command line; may be NULL */
    const char *group;           /* heading in `weir help`; NULL: not listed */

    /* What it does, one of these (commands.def); none: its parts do. */
    const char *post, *says;
    const char *get, *list;
    void (*print)(struct session *session, const json_t *answer);
    int (*run)(struct session *session);
    int (*program)(const struct command_spec *spec, int argc, char **argv); /* argv[0] is the command's name */
};

/* command_part: the nth part of a command ("token create"); NULL: there are no more. */
const struct command_spec *command_part(const struct command_spec *spec, size_t n);
const char *command_part_word(const struct command_spec *part); /* "create" */

struct option_value {
    const struct option_spec *spec;
    const char *value; /* "" for a flag */
};

struct options {
    const struct command_spec *spec;
    struct option_value *values;
    size_t n_values;
    const char **operands;
    size_t n_operands;
};

#define OPTIONS_RUN (-1)
#define EXIT_USAGE 2
#define EXIT_LATER 75 /* try again later */

/* options_parse: argv[0] is the command's name and is skipped. OPTIONS_RUN: go on; else the exit code, everything has
 * been printed (0 after --help, which goes to stdout; 2 after a usage error, which goes to stderr). */
int options_parse(struct options *out, const struct command_spec *spec, int argc, char **argv, struct arena *arena);

bool option_given(const struct options *options, const char *name);
const char *option_get(const struct options *options, const char *name); /* the last one; NULL: not given */
size_t option_count(const struct options *options, const char *name);
const char *option_nth(const struct options *options, const char *name, size_t n);

/* Typed getters: false: a usage error was printed. *out stays as it is when the option isn't given. */
bool option_duration(const struct options *options, const char *name, int64_t *out_ms);
bool option_size(const struct options *options, const char *name, uint64_t *out_bytes);
bool option_i64(const struct options *options, const char *name, int64_t min, int64_t max, int64_t *out);

/* usage_error: "weir NAME: ...", then how to get help; returns EXIT_USAGE. */
int usage_error(const struct command_spec *spec, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

void options_print_usage(FILE *out, const struct command_spec *spec); /* "usage: weir ..." */
void options_print_help(FILE *out, const struct command_spec *spec);

/* The options that every client takes, in one table; rows that don't fit `spec` (--json of a command without it) are
 * left out by option_at.
 */
extern const struct option_spec options_common[];
/* option_is_own: the command has one of this name itself, which then means something else than the common one. */
bool option_is_own(const struct command_spec *spec, const char *name);
/* option_at: own options first, then the common ones, then --help; NULL past the end. For completions and help. */
const struct option_spec *option_at(const struct command_spec *spec, size_t n);

#endif
