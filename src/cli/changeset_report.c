/* changeset_report: `weir cs report`: as the server counts it, as tables, JSON or CSV. Which counts there are is the
 * server's matter: what is a list of records becomes a table, what is a record a list of lines. */
#include <ctype.h>
#include <string.h>

#include "cli/changeset_text.h"
#include "cli/command.h"
#include "cli/task_text.h"

/* value_text: a number or a text for a cell; a duration where the field's name ends in _ms. */
static const char *value_text(struct session *s, const char *field, const json_t *value)
{
    size_t len = strlen(field);
    bool is_span = len > 3 && strcmp(field + len - 3, "_ms") == 0;
    if (json_is_number(value) && is_span)
        return str_dupz(&s->arena, str_of(span_text((int64_t)json_number_value(value)).z));
    if (json_is_integer(value))
        return str_dupz(&s->arena, str_of(i64_format(json_integer_value(value)).z));
    return json_is_string(value) ? json_string_value(value) : "";
}

/* title: a field's name as the head of a column: "waiting_ms" is WAITING. */
static const char *title(struct session *s, const char *field, bool is_number)
{
    char *out = str_dupz(&s->arena, str_fmt(&s->arena, "%s%s", is_number ? ">" : "", field));
    size_t len = strlen(out);
    if (len > 3 && strcmp(out + len - 3, "_ms") == 0)
        out[len - 3] = '\0';
    for (char *c = out; *c; c++)
        *c = *c == '_' ? ' ' : (char)toupper((unsigned char)*c);
    return out;
}

/* records_print: the fields of the first record are the columns. */
static void records_print(struct session *s, const json_t *records)
{
    json_t *first = json_array_get(records, 0), *value;
    const char *field, *heads = "";
    const json_t *record;
    struct table table;
    size_t i, n = 0;
    json_object_foreach (first, field, value)
        if (!json_is_array(value) && !json_is_object(value) && n < TABLE_COLUMNS_MAX)
            heads = str_dupz(&s->arena,
                str_fmt(&s->arena, "%s%s%s", heads, n++ > 0 ? "|" : "", title(s, field, json_is_number(value))));
    table_init(&table, &s->arena, heads);
    json_array_foreach (records, i, record) {
        size_t column = 0;
        json_object_foreach (first, field, value)
            if (!json_is_array(value) && !json_is_object(value) && column++ < n)
                table_add(&table, PAINT_NONE, "%s", value_text(s, field, json_object_get(record, field)));
    }
    table_print(&table, &s->term, stdout, 0);
}

static void report_print(struct session *s, const json_t *report)
{
    json_t *answer = (json_t *)(uintptr_t)report, *value;
    const char *field;
    bool any = false;
    json_object_foreach (answer, field, value)
        if (!json_is_array(value) && !json_is_object(value) && !json_is_null(value)) {
            session_line(s, term_safe_z(&s->arena, field), PAINT_NONE, value_text(s, field, value));
            any = true;
        }
    json_object_foreach (answer, field, value) {
        if (json_array_size(value) == 0 && json_object_size(value) == 0)
            continue;
        json_t *records = json_is_object(value) ? json_pack("[O]", value) : json_incref(value);
        printf("%s%s\n", any ? "\n" : "", term_safe_z(&s->arena, field));
        records_print(s, records);
        json_decref(records);
        any = true;
    }
    if (!any)
        session_note(s, "no change set was submitted");
}

struct csv {
    bool failed;
};

static bool csv_piece(struct str bytes, void *owner)
{
    struct csv *csv = owner;
    csv->failed = fwrite(bytes.ptr, 1, bytes.len, stdout) != bytes.len;
    return !csv->failed;
}

int changeset_report_command(struct session *s)
{
    const char *format = option_get(&s->options, "format");
    if (format && strcmp(format, "csv") == 0) {
        struct csv csv = { 0 };
        bool answered = session_stream(s, "/v1/report?format=csv", csv_piece, &csv);
        if (csv.failed)
            return session_err(s, ERR_io, "stdout can't be written");
        return answered && s->status == 0 ? 0 : session_fail(s);
    }
    s->json = s->json || (format && strcmp(format, "json") == 0);
    return session_answer(s, session_get(s, "/v1/report"), report_print);
}
