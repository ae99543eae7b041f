/* config: the keys that all servers of a site share, shown and changed. The file is checked here first, so that its
 * faults are printed as a compiler prints them. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/command.h"
#include "cli/session.h"
#include "cli/task_text.h"
#include "text/conf_site.h"
#include "text/diag.h"

enum { FILE_BYTES_MAX = 512 * 1024 };

static bool file_read(struct session *s, const char *path, struct diag_file *out)
{
    struct buf bytes;
    buf_init(&bytes, FILE_BYTES_MAX);
    bool good = session_input(s, path, "512 KiB", &bytes);
    *out = (struct diag_file){ str_dup(&s->arena, strcmp(path, "-") == 0 ? STR("stdin") : str_of(path)),
        str_dup(&s->arena, buf_str(&bytes)) };
    buf_release(&bytes);
    return good;
}

/* file_check: false: its faults were printed. */
static bool file_check(struct session *s, const struct diag_file *file)
{
    struct diags diags = { .arena = &s->arena };
    struct site_conf conf;
    if (site_parse(file, &s->arena, &diags, &conf))
        return true;
    diags_say(&diags);
    s->status = err_exit(ERR_invalid);
    return false;
}

static void changes_print(struct session *s, const json_t *answer)
{
    const json_t *changes = json_object_get(answer, "changes"), *change;
    bool dry_run = json_is_true(json_object_get(answer, "dry_run"));
    size_t i;
    json_array_foreach (changes, i, change) {
        const char *before = json_string_value(json_object_get(change, "before"));
        const char *after = json_string_value(json_object_get(change, "after"));
        printf("%s: %s -> %s\n", term_safe_z(&s->arena, field_z(change, "path")),
            before ? term_safe_z(&s->arena, before) : "none", after ? term_safe_z(&s->arena, after) : "none");
    }
    if (json_array_size(changes) == 0)
        session_note(s, "nothing changes: the site goes by this already");
    else if (dry_run)
        session_note(s, "nothing was changed: this was a dry run");
}

int config_apply_command(struct session *s)
{
    struct diag_file file;
    if (!file_read(s, s->options.operands[0], &file) || !file_check(s, &file))
        return s->status;
    json_t *body = json_object();
    json_object_set_new(body, "text", json_stringn(file.text.ptr, file.text.len));
    json_object_set_new(body, "file", json_stringn(file.name.ptr, file.name.len));
    json_object_set_new(body, "dry_run", json_boolean(option_given(&s->options, "dry-run")));
    return session_answer(s, session_post(s, "/v1/config", body), changes_print);
}

/* show_lines: the text's lines are in the order of the keys. */
static void show_lines(struct session *s, const json_t *answer)
{
    struct str rest = str_of(field_z(answer, "text")), line;
    const json_t *key;
    size_t i;
    json_array_foreach (json_object_get(answer, "keys"), i, key) {
        if (!str_cut(&rest, '\n', &line))
            break;
        fputs(term_safe_z(&s->arena, str_dupz(&s->arena, line)), stdout);
        int64_t version = field_i64(key, "version", 0);
        if (version > 0)
            printf("  # version %lld, %s, by %s", (long long)version, field_z(key, "changed"),
                term_safe_z(&s->arena, field_z(key, "changed_by")));
        fputc('\n', stdout);
    }
}

int config_show_command(struct session *s)
{
    json_t *answer = session_get(s, "/v1/config");
    json_t *warnings = json_incref(json_object_get(answer, "warnings"));
    int status = session_answer(s, answer, show_lines);
    warnings_say(s, warnings);
    json_decref(warnings);
    return status;
}
