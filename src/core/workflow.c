#include "core/workflow.h"

#include "base/buf.h"

enum { TEMPLATE_BYTES_MAX = 32 * 1024 }; /* of 200 bytes, each of its words with a name */

const struct workflow_task *workflow_find(const struct workflow *workflow, struct str name)
{
    for (size_t i = 0; i < workflow->n_tasks; i++)
        if (str_eq(workflow->tasks[i].name, name))
            return &workflow->tasks[i];
    return NULL;
}

struct str workflow_template_fill(
    struct arena *arena, struct str template, struct str lane, struct str rev, struct str name)
{
    const struct {
        struct str word, value;
    } rows[] = { { STR("archive"), lane }, { STR("queue"), lane }, { STR("rev"), rev }, { STR("name"), name },
        { STR("variant"), { 0 } } };
    if (str_index(template, '{') < 0)
        return template;
    struct buf out;
    buf_init(&out, TEMPLATE_BYTES_MAX);
    for (size_t i = 0; i < template.len; i++) {
        struct str rest = str_sub(template, i, template.len);
        ptrdiff_t end = rest.ptr[0] == '{' ? str_index(rest, '}') : -1;
        size_t k = 0, n = sizeof rows / sizeof rows[0];
        while (end > 0 && k < n && !str_eq(rows[k].word, str_sub(rest, 1, (size_t)end)))
            k++;
        if (end <= 0 || k == n) {
            buf_add_char(&out, rest.ptr[0]);
            continue;
        }
        buf_add_str(&out, rows[k].value);
        i += (size_t)end;
    }
    struct str text = str_dup(arena, buf_str(&out));
    buf_release(&out);
    return text;
}
