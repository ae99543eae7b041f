/* event_text: see event_text.h. */
#include "cli/event_text.h"

#include <string.h>

#include "cli/task_text.h"

enum { LINE_MAX_BYTES = 4 << 20 };

void json_lines_init(struct json_lines *lines, bool (*line)(const json_t *, void *), void *owner)
{
    *lines = (struct json_lines){ .line = line, .owner = owner };
    buf_init(&lines->held, LINE_MAX_BYTES);
}

void json_lines_reset(struct json_lines *lines)
{
    buf_reset(&lines->held);
    lines->dropping = false;
}

void json_lines_release(struct json_lines *lines)
{
    buf_release(&lines->held);
}

static bool line_give(struct json_lines *lines, struct str line)
{
    json_t *event = json_loadb(line.ptr ? line.ptr : "", line.len, JSON_REJECT_DUPLICATES, NULL);
    bool go_on = !json_is_object(event) || lines->line(event, lines->owner);
    json_decref(event);
    return go_on;
}

bool json_lines_add(struct json_lines *lines, struct str bytes)
{
    while (bytes.len) {
        ptrdiff_t end = str_index(bytes, '\n');
        struct str head = end < 0 ? bytes : str_sub(bytes, 0, (size_t)end);
        if (!lines->dropping)
            buf_add_str(&lines->held, head);
        lines->dropping = lines->dropping || lines->held.full;
        if (end < 0)
            return true;
        bytes = str_sub(bytes, (size_t)end + 1, bytes.len);
        bool go_on = lines->dropping || line_give(lines, buf_str(&lines->held));
        json_lines_reset(lines);
        lines->held.full = false;
        if (!go_on)
            return false;
    }
    return true;
}

void event_print(struct session *s, const json_t *event, FILE *out)
{
    static const struct {
        const char *field, *label;
    } extras[] = { { "subject", "" }, { "actor", "by " }, { "cause", "because of " }, { "reason", "" } };
    const char *from = field_z(event, "from"), *to = field_z(event, "to"), *key = field_z(event, "key");
    int64_t time;
    struct arena scratch = { 0 }; /* a follower prints for days: nothing may pile up in the session */
    fprintf(out, "%s%7lld%s  ", paint_on(&s->term, PAINT_DIM), (long long)field_i64(event, "seq", 0),
        paint_off(&s->term, PAINT_DIM));
    fprintf(out, "%s  ", field_time(event, "time", &time) ? local_text(time).z : "                   ");
    if (*to)
        fprintf(out, "%s>%s%s%s %-10s", *from ? from : " ", paint_on(&s->term, paint_of_state(*to)),
            term_safe_z(&scratch, to), paint_off(&s->term, paint_of_state(*to)), letter_word(*to));
    else
        fprintf(out, "%-14s", term_safe_z(&scratch, field_z(event, "kind")));
    if (*key)
        fprintf(out, "  %s", term_safe_z(&scratch, key));
    if (*to && *field_z(event, "kind"))
        fprintf(out, "  %s%s%s", paint_on(&s->term, PAINT_DIM), term_safe_z(&scratch, field_z(event, "kind")),
            paint_off(&s->term, PAINT_DIM));
    for (size_t i = 0; i < sizeof extras / sizeof *extras; i++) {
        const json_t *value = json_object_get(event, extras[i].field);
        const char *text = json_is_string(value)   ? json_string_value(value)
                           : json_is_object(value) ? task_key(&scratch, value)
                                                   : "";
        if (*text)
            fprintf(out, "  %s%s", extras[i].label, term_safe_z(&scratch, text));
    }
    fputc('\n', out);
    arena_release(&scratch);
}
