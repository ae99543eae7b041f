/* completion: bash, zsh and fish scripts. Words of sub-commands (`token create`) are offered after the command; the
 * options offered are those of the command and of all its parts, since a shell script that knew more would be a second
 * parser. */

#include <string.h>

#include "cli/command.h"

/* Which options and operands name files; everything else is free text. */
static bool wants_file(const struct option_spec *o)
{
    static const char *const names[] = { "token-file", "data", "config", "socket" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], o->name) == 0)
            return true;
    return false;
}

static bool operand_is_file(const struct command_spec *spec)
{
    return spec->operands && (strncmp(spec->operands, "FILE", 4) == 0 || strncmp(spec->operands, "PATH", 4) == 0);
}

/* options_each: calls `give` for every shown option of the command and of its parts, once per name. */
static void options_each(FILE *out, const struct command_spec *spec,
    void (*give)(FILE *, const struct command_spec *, const struct option_spec *))
{
    const char *seen[96];
    size_t n_seen = 0;
    size_t n_parts = 0;
    for (const struct command_spec *at = spec; at; at = command_part(spec, n_parts++)) {
        const struct option_spec *o;
        for (size_t i = 0; (o = option_at(at, i)) != NULL; i++) {
            bool known = false;
            for (size_t k = 0; k < n_seen; k++)
                known = known || strcmp(seen[k], o->name) == 0;
            if (known || (o->flags & OPTION_HIDDEN) || n_seen >= sizeof seen / sizeof *seen)
                continue;
            seen[n_seen++] = o->name;
            give(out, spec, o);
        }
    }
}

static void choices_words(FILE *out, const char *choices)
{
    for (const char *c = choices; *c; c++)
        fputc(*c == '|' ? ' ' : *c, out);
}

static void bash_option(FILE *out, const struct command_spec *spec, const struct option_spec *o)
{
    (void)spec;
    fprintf(out, " --%s", o->name);
    if (o->letter)
        fprintf(out, " -%c", o->letter);
}

static void bash_value(FILE *out, const struct command_spec *spec, const struct option_spec *o)
{
    if (o->choices) {
        fprintf(out, "        %s/--%s) COMPREPLY=($(compgen -W \"", spec->name, o->name);
        choices_words(out, o->choices);
        fputs("\" -- \"$cur\")); return ;;\n", out);
    } else if (o->argument && wants_file(o)) {
        fprintf(out, "        %s/--%s) compopt -o filenames; COMPREPLY=($(compgen -f -- \"$cur\")); return ;;\n",
            spec->name, o->name);
    } else if (o->argument) {
        fprintf(out, "        %s/--%s) return ;;\n", spec->name, o->name);
    }
}

static void bash_print(FILE *out)
{
    fputs("# bash completion of weir; made by `weir help --completion bash`\n_weir()\n{\n    local "
          "cur=${COMP_WORDS[COMP_CWORD]} "
          "prev=${COMP_WORDS[COMP_CWORD-1]} cmd= i\n"
          "    for ((i = 1; i < COMP_CWORD; i++)); do\n        case ${COMP_WORDS[i]} in\n            "
          "--server|--token-file) ((i++)) ;;\n   "
          "         -*) ;;\n"
          "            *) cmd=${COMP_WORDS[i]}; break ;;\n        esac\n    done\n    case $cmd/$prev in\n",
        out);
    for (const struct command_spec *spec = NULL; (spec = command_next(spec)) != NULL;)
        options_each(out, spec, bash_value);
    fputs("    esac\n    case $cmd in\n        '') COMPREPLY=($(compgen -W \"", out);
    for (const struct command_spec *spec = NULL; (spec = command_next(spec)) != NULL;)
        fprintf(out, "%s ", spec->name);
    fputs("--help --version\" -- \"$cur\")) ;;\n", out);
    for (const struct command_spec *spec = NULL; (spec = command_next(spec)) != NULL;) {
        fprintf(out, "        %s) ", spec->name);
        if (operand_is_file(spec))
            fputs(
                "[[ $cur != -* ]] && { compopt -o filenames; COMPREPLY=($(compgen -f -- \"$cur\")); return; }; ", out);
        fputs("COMPREPLY=($(compgen -W \"", out);
        const struct command_spec *p;
        for (size_t i = 0; (p = command_part(spec, i)) != NULL; i++)
            fprintf(out, "%s ", command_part_word(p));
        options_each(out, spec, bash_option);
        fputs("\" -- \"$cur\")) ;;\n", out);
    }
    fputs("    esac\n}\ncomplete -F _weir weir\n", out);
}

/* quoted: inside single quotes of zsh and fish; [ ] and : are special in zsh's _arguments. */
static void quoted(FILE *out, const char *text, bool zsh)
{
    for (const char *c = text; *c; c++) {
        if (*c == '\'')
            fputs(zsh ? "'\\''" : "\\'", out);
        else if (zsh && strchr("[]:\\", *c))
            fprintf(out, "\\%c", *c);
        else
            fputc(*c, out);
    }
}

static void zsh_option(FILE *out, const struct command_spec *spec, const struct option_spec *o)
{
    (void)spec;
    fprintf(out, " \\\n                '%s--%s%s[", o->flags & OPTION_REPEATABLE ? "*" : "", o->name,
        o->argument ? "=" : "");
    quoted(out, o->help, true);
    fputc(']', out);
    if (o->argument)
        fprintf(out, ":%s:", o->argument);
    if (o->choices) {
        fputc('(', out);
        choices_words(out, o->choices);
        fputc(')', out);
    } else if (o->argument && wants_file(o)) {
        fputs("_files", out);
    }
    fputc('\'', out);
    if (o->letter) {
        fprintf(out, " \\\n                '-%c[", o->letter);
        quoted(out, o->help, true);
        fputs("]'", out);
    }
}

static void zsh_print(FILE *out)
{
    fputs("#compdef weir\n# zsh completion of weir; made by `weir help --completion zsh`\n_weir() {\n    local -a "
          "commands\n    commands=(\n",
        out);
    for (const struct command_spec *spec = NULL; (spec = command_next(spec)) != NULL;) {
        fprintf(out, "        '%s:", spec->name);
        quoted(out, spec->summary, true);
        fputs("'\n", out);
    }
    fputs("    )\n    if ((CURRENT == 2)); then\n        _describe command commands\n        return\n    fi\n    local "
          "cmd=$words[2]\n    "
          "shift words\n    ((CURRENT--))\n    case $cmd in\n",
        out);
    for (const struct command_spec *spec = NULL; (spec = command_next(spec)) != NULL;) {
        fprintf(out, "        %s)\n            _arguments -s", spec->name);
        options_each(out, spec, zsh_option);
        if (spec->flags & COMMAND_WHOLE) {
            const struct command_spec *p;
            fputs(" \\\n                '1:command:(", out);
            for (size_t i = 0; (p = command_part(spec, i)) != NULL; i++)
                fprintf(out, "%s%s", i == 0 ? "" : " ", command_part_word(p));
            fputs(")'", out);
        } else if (operand_is_file(spec)) {
            fputs(" \\\n                '*:file:_files'", out);
        }
        fputs(" ;;\n", out);
    }
    fputs("    esac\n}\n_weir \"$@\"\n", out);
}

static void fish_option(FILE *out, const struct command_spec *spec, const struct option_spec *o)
{
    fprintf(out, "complete -c weir -n '__fish_seen_subcommand_from %s' -l %s", spec->name, o->name);
    if (o->letter)
        fprintf(out, " -s %c", o->letter);
    if (o->argument)
        fputs(wants_file(o) ? " -rF" : " -x", out);
    if (o->choices) {
        fputs(" -a '", out);
        choices_words(out, o->choices);
        fputc('\'', out);
    }
    fputs(" -d '", out);
    quoted(out, o->help, false);
    fputs("'\n", out);
}

static void fish_print(FILE *out)
{
    fputs("# fish completion of weir; made by `weir help --completion fish`\ncomplete -c weir -f\n", out);
    for (const struct command_spec *spec = NULL; (spec = command_next(spec)) != NULL;) {
        fprintf(out, "complete -c weir -n __fish_use_subcommand -a %s -d '", spec->name);
        quoted(out, spec->summary, false);
        fputs("'\n", out);
        const struct command_spec *p;
        for (size_t i = 0; (p = command_part(spec, i)) != NULL; i++) {
            fprintf(out, "complete -c weir -n '__fish_seen_subcommand_from %s' -a %s -d '", spec->name,
                command_part_word(p));
            quoted(out, p->summary, false);
            fputs("'\n", out);
        }
        if (operand_is_file(spec))
            fprintf(out, "complete -c weir -n '__fish_seen_subcommand_from %s' -F\n", spec->name);
        options_each(out, spec, fish_option);
    }
}

void completion_print(FILE *out, const char *shell)
{
    static const struct {
        const char *shell;
        void (*print)(FILE *);
    } shells[] = {
        { "bash", bash_print },
        { "zsh", zsh_print },
        { "fish", fish_print },
    };
    for (size_t i = 0; i < sizeof shells / sizeof *shells; i++)
        if (strcmp(shells[i].shell, shell) == 0)
            shells[i].print(out);
}
