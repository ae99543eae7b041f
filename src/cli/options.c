/* options: parses a command line by its table and prints what the table says.
 *
 * It owns the rules of the command line: --name VALUE, --name=VALUE, -n VALUE, -nVALUE, flags in one word (-qf), `--`
 * ends the options, a single dash is an operand. A flag or option that isn't marked repeatable may stand once.
 *
 * It fails only by a usage error, printed on stderr with the nearest name that exists, exit code 2. */
#include "cli/options.h"
#include "cli/term.h"

#include <stdarg.h>
#include <string.h>

#include "base/buf.h"
#include "base/when.h"

enum { OPTIONS_SUGGEST_MAX = 64, HELP_COLUMN = 26, HELP_WIDTH = 96, USAGE_CAP = 8192, GLUE = 0x1F };

const struct option_spec options_common[] = {
    { "server", 0, "URL",
        "the server: http://HOST:PORT, https://HOST:PORT or unix:PATH (env WEIR_SERVER; default: the local socket, "
        "then "
        "http://127.0.0.1:8420)",
        0, NULL },
    { "token-file", 0, "F", "a file that holds the token (env WEIR_TOKEN_FILE; WEIR_TOKEN is the token itself)", 0,
        NULL },
    { "ca", 0, "F", "the CA of an https server, instead of the system's (env WEIR_CA)", OPTION_NON_EMPTY, NULL },
    { "client-cert", 0, "F", "our certificate, for a server that wants one (env WEIR_CLIENT_CERT)", OPTION_NON_EMPTY,
        NULL },
    { "client-key", 0, "F", "its key (env WEIR_CLIENT_KEY; default: in the certificate's file)", OPTION_NON_EMPTY,
        NULL },
    { "tenant", 0, "T", "for the site's admin: speak for this tenant", OPTION_NON_EMPTY, NULL },
    { "json", 0, NULL, "print one JSON document; lists as arrays", 0, NULL },
    { "no-color", 0, NULL, "no colours (also NO_COLOR, and when stdout isn't a terminal)", 0, NULL },
    { "quiet", 'q', NULL, "say nothing on stderr but errors", 0, NULL },
    { 0 },
};

static const struct option_spec option_help = { "help", 'h', NULL, "this text", 0, NULL };

bool option_is_own(const struct command_spec *spec, const char *name)
{
    for (const struct option_spec *own = spec->options; own && own->name; own++)
        if (strcmp(own->name, name) == 0)
            return true;
    return false;
}

const struct option_spec *option_at(const struct command_spec *spec, size_t n)
{
    const struct option_spec *own = spec->options;
    for (; own && own->name; own++)
        if (n-- == 0)
            return own;
    if (spec->flags & COMMAND_CLIENT) {
        for (const struct option_spec *o = options_common; o->name; o++) {
            if (((spec->flags & COMMAND_NO_JSON) && strcmp(o->name, "json") == 0) || option_is_own(spec, o->name))
                continue;
            if (n-- == 0)
                return o;
        }
    }
    return n == 0 ? &option_help : NULL;
}

int usage_error(const struct command_spec *spec, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fprintf(stderr, "weir %s: ", spec->name);
    term_vsay(stderr, fmt, args);
    va_end(args);
    options_print_usage(stderr, spec);
    fprintf(stderr, "`weir %s --help` tells more\n", spec->name);
    return EXIT_USAGE;
}

/* option_find: by its name, or where that is empty by its letter. */
static const struct option_spec *option_find(const struct command_spec *spec, struct str name, char letter)
{
    const struct option_spec *o;
    for (size_t i = 0; (o = option_at(spec, i)) != NULL; i++)
        if (name.len ? str_eqz(name, o->name) : o->letter == letter)
            return o;
    return NULL;
}

static int option_unknown(const struct command_spec *spec, struct str name)
{
    struct str candidates[OPTIONS_SUGGEST_MAX];
    size_t n = 0;
    const struct option_spec *o;
    for (size_t i = 0; n < OPTIONS_SUGGEST_MAX && (o = option_at(spec, i)) != NULL; i++)
        if (!(o->flags & OPTION_HIDDEN))
            candidates[n++] = str_of(o->name);
    struct str near = str_closest(name, candidates, n);
    if (near.len)
        return usage_error(spec, "unknown option --%.*s; did you mean --%.*s?", STR_ARG(name), STR_ARG(near));
    return usage_error(spec, "unknown option --%.*s", STR_ARG(name));
}

static bool choice_holds(const char *choices, const char *value)
{
    struct str rest = str_of(choices), one;
    while (str_cut(&rest, '|', &one))
        if (str_eqz(one, value))
            return true;
    return false;
}

const struct command_spec *command_part(const struct command_spec *spec, size_t n)
{
    size_t len = strlen(spec->name);
    if (!(spec->flags & COMMAND_WHOLE))
        return NULL;
    const struct command_spec *part = spec + 1; /* none lies behind the table's end: its last row has no name */
    while (n > 0 && part->name && strncmp(part->name, spec->name, len) == 0) {
        part++;
        n--;
    }
    return part->name && strncmp(part->name, spec->name, len) == 0 && part->name[len] == ' ' ? part : NULL;
}

const char *command_part_word(const struct command_spec *part)
{
    return strrchr(part->name, ' ') + 1;
}

/* option_take: checks one value against its row and keeps it. */
static int option_take(struct options *out, const struct option_spec *o, const char *value)
{
    if (!(o->flags & OPTION_REPEATABLE) && option_given(out, o->name))
        return usage_error(out->spec, "--%s stands twice", o->name);
    if (o->choices && !choice_holds(o->choices, value))
        return usage_error(out->spec, "--%s: '%s' isn't one of %s", o->name, value, o->choices);
    if ((o->flags & OPTION_NON_EMPTY) && !str_trim(str_of(value)).len)
        return usage_error(out->spec, "--%s must not be empty", o->name);
    out->values[out->n_values++] = (struct option_value){ o, value };
    return OPTIONS_RUN;
}

/* option_long: --name, --name=value, --name value. */
static int option_long(struct options *out, int argc, char **argv, int *at)
{
    const char *word = argv[*at] + 2;
    const char *equals = strchr(word, '=');
    struct str name = { word, equals ? (size_t)(equals - word) : strlen(word) };
    const struct option_spec *o = option_find(out->spec, name, '=');
    if (!o)
        return option_unknown(out->spec, name);
    if (!o->argument) {
        if (equals)
            return usage_error(out->spec, "--%s takes no value", o->name);
        return option_take(out, o, "");
    }
    if (equals)
        return option_take(out, o, equals + 1);
    if (*at + 1 >= argc)
        return usage_error(out->spec, "--%s needs a value: --%s %s", o->name, o->name, o->argument);
    return option_take(out, o, argv[++*at]);
}

/* option_short: -f, -qf, -n5, -n 5. */
static int option_short(struct options *out, int argc, char **argv, int *at)
{
    for (const char *c = argv[*at] + 1; *c; c++) {
        const struct option_spec *o = option_find(out->spec, (struct str){ 0 }, *c);
        if (!o)
            return usage_error(out->spec, "unknown option -%c", *c);
        if (!o->argument) {
            int status = option_take(out, o, "");
            if (status != OPTIONS_RUN)
                return status;
            continue;
        }
        if (c[1])
            return option_take(out, o, c + 1);
        if (*at + 1 >= argc)
            return usage_error(out->spec, "-%c needs a value: -%c %s", *c, *c, o->argument);
        return option_take(out, o, argv[++*at]);
    }
    return OPTIONS_RUN;
}

static int options_check(const struct options *out)
{
    const struct command_spec *spec = out->spec;
    for (const struct option_spec *o = spec->options; o && o->name; o++)
        if ((o->flags & OPTION_REQUIRED) && !option_given(out, o->name))
            return usage_error(
                spec, "--%s is required: --%s %s (%s)", o->name, o->name, o->argument ? o->argument : "", o->help);
    if (out->n_operands < spec->operands_min)
        return usage_error(spec, "%s", out->n_operands ? "something is missing" : "what? Nothing is named");
    if (out->n_operands > spec->operands_max)
        return usage_error(spec, "'%s' is one word too many", out->operands[spec->operands_max]);
    return OPTIONS_RUN;
}

int options_parse(struct options *out, const struct command_spec *spec, int argc, char **argv, struct arena *arena)
{
    size_t room = argc > 0 ? (size_t)argc : 1;
    size_t letters = 0;
    for (int i = 1; i < argc; i++)
        letters += strlen(argv[i]); /* -qqf: a value a letter at most */
    *out = (struct options){ .spec = spec };
    out->values = ARENA_ARRAY(arena, struct option_value, room + letters);
    out->operands = ARENA_ARRAY(arena, const char *, room);
    bool ended = false;
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        int status = OPTIONS_RUN;
        if (ended || word[0] != '-' || word[1] == '\0')
            out->operands[out->n_operands++] = word;
        else if (strcmp(word, "--") == 0)
            ended = true;
        else if (word[1] == '-')
            status = option_long(out, argc, argv, &i);
        else
            status = option_short(out, argc, argv, &i);
        if (status != OPTIONS_RUN)
            return status;
        if (option_given(out, "help")) {
            options_print_help(stdout, spec);
            return 0;
        }
    }
    return options_check(out);
}

const char *option_nth(const struct options *options, const char *name, size_t n)
{
    for (size_t i = 0; i < options->n_values; i++)
        if (strcmp(options->values[i].spec->name, name) == 0 && n-- == 0)
            return options->values[i].value;
    return NULL;
}

size_t option_count(const struct options *options, const char *name)
{
    size_t n = 0;
    while (option_nth(options, name, n))
        n++;
    return n;
}

bool option_given(const struct options *options, const char *name)
{
    return option_nth(options, name, 0) != NULL;
}

const char *option_get(const struct options *options, const char *name)
{
    size_t n = option_count(options, name);
    return n ? option_nth(options, name, n - 1) : NULL;
}

bool option_duration(const struct options *options, const char *name, int64_t *out_ms)
{
    const char *value = option_get(options, name);
    if (!value || duration_parse(str_of(value), out_ms))
        return true;
    usage_error(options->spec, "--%s: '%s' isn't a duration; write 90s, 15m, 2h or 7d", name, value);
    return false;
}

bool option_size(const struct options *options, const char *name, uint64_t *out_bytes)
{
    const char *value = option_get(options, name);
    if (!value || size_parse(str_of(value), out_bytes))
        return true;
    usage_error(options->spec, "--%s: '%s' isn't a size; write 512B, 64KiB or 10MiB", name, value);
    return false;
}

bool option_i64(const struct options *options, const char *name, int64_t min, int64_t max, int64_t *out)
{
    const char *value = option_get(options, name);
    int64_t n;
    if (!value)
        return true;
    if (str_to_i64(str_of(value), &n) && n >= min && n <= max) {
        *out = n;
        return true;
    }
    usage_error(
        options->spec, "--%s: '%s' isn't a number from %lld to %lld", name, value, (long long)min, (long long)max);
    return false;
}

/* print_wrapped: words of `text` between the columns `left` and HELP_WIDTH; the cursor stands at `at`. GLUE is a blank
 * that isn't broken.
 */
static void print_wrapped(FILE *out, const char *text, int left, int at)
{
    struct str rest = str_of(text), word;
    while (str_cut(&rest, ' ', &word)) {
        int width = (int)str_chars(word);
        if (at > left && at + 1 + width > HELP_WIDTH) {
            fputc('\n', out);
            at = 0;
        }
        if (at < left)
            at += fprintf(out, "%*s", left - at, "");
        else if (at > left)
            at += fprintf(out, " ");
        for (size_t i = 0; i < word.len; i++)
            fputc(word.ptr[i] == GLUE ? ' ' : word.ptr[i], out);
        at += width;
    }
    fputc('\n', out);
}

static void usage_add_option(struct buf *out, const struct option_spec *o)
{
    if (o->flags & OPTION_HIDDEN)
        return;
    bool optional = !(o->flags & OPTION_REQUIRED);
    buf_add_z(out, optional ? " [" : " ");
    if (o->letter && !o->argument)
        buf_addf(out, "-%c", o->letter);
    else
        buf_addf(out, "--%s", o->name);
    if (o->argument)
        buf_addf(out, "%c%s", GLUE, o->choices ? o->choices : o->argument);
    buf_addf(out, "%s%s", optional ? "]" : "", o->flags & OPTION_REPEATABLE ? "..." : "");
}

void options_print_usage(FILE *out, const struct command_spec *spec)
{
    struct buf text;
    buf_init(&text, USAGE_CAP);
    buf_addf(&text, "weir %s", spec->name);
    for (const struct option_spec *o = spec->options; o && o->name; o++)
        usage_add_option(&text, o);
    if (spec->operands && *spec->operands)
        buf_addf(&text, " %s", spec->operands);
    int at = fprintf(out, "usage: ");
    print_wrapped(out, text.ptr, at, at);
    buf_release(&text);
}

static void print_help_option(FILE *out, const struct option_spec *o)
{
    int at = fprintf(out, "  ");
    at += o->letter ? fprintf(out, "-%c, ", o->letter) : fprintf(out, "    ");
    at += fprintf(out, "--%s", o->name);
    if (o->argument)
        at += fprintf(out, " %s", o->argument);
    at += fprintf(out, "  ");
    if (at > HELP_COLUMN) {
        fputc('\n', out);
        at = 0;
    }
    at += fprintf(out, "%*s", HELP_COLUMN - at, "");
    char tail[160] = "";
    snprintf(tail, sizeof tail, "%s%s%s%s", o->choices ? ": " : "", o->choices ? o->choices : "",
        o->flags & OPTION_REQUIRED ? " (required)" : "", o->flags & OPTION_REPEATABLE ? " (may be repeated)" : "");
    char text[640];
    snprintf(text, sizeof text, "%s%s", o->help, tail);
    print_wrapped(out, text, HELP_COLUMN, at);
}

void options_print_help(FILE *out, const struct command_spec *spec)
{
    fprintf(out, "weir %s: %s\n\n", spec->name, spec->summary);
    options_print_usage(out, spec);
    if (spec->description) {
        struct str rest = str_of(spec->description), paragraph;
        while (str_cut(&rest, '\n', &paragraph)) {
            char text[2048];
            snprintf(text, sizeof text, "%.*s", STR_ARG(paragraph));
            fputc('\n', out);
            print_wrapped(out, text, 0, 0);
        }
    }
    const struct command_spec *part;
    for (size_t i = 0; (part = command_part(spec, i)) != NULL; i++)
        fprintf(out, "%s  weir %-*s %s\n", i == 0 ? "\ncommands:\n" : "", HELP_COLUMN - 8, part->name, part->summary);
    fputs("\noptions:\n", out);
    const struct option_spec *o;
    for (size_t i = 0; (o = option_at(spec, i)) != NULL; i++)
        if (!(o->flags & OPTION_HIDDEN))
            print_help_option(out, o);
    if (spec->examples) {
        fputs("\nexamples:\n", out);
        for (const char *const *e = spec->examples; e[0]; e += 2)
            fprintf(out, "  # %s\n  %s\n", e[0], e[1]);
    }
}
