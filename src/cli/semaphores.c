/* semaphores: how many may, how many do, who. */
#include "cli/command.h"
#include "cli/session.h"
#include "cli/task_text.h"

static void holders_text(struct session *s, const json_t *holders, char *out, size_t size)
{
    const json_t *holder;
    size_t i, at = 0;
    out[0] = '\0';
    json_array_foreach (holders, i, holder) {
        const char *key = json_is_string(holder) ? json_string_value(holder) : task_key(&s->arena, holder);
        int n = snprintf(out + at, size - at, "%s%s", i ? " " : "", key);
        if (n < 0 || (size_t)n >= size - at)
            return;
        at += (size_t)n;
    }
}

void semaphores_print(struct session *s, const json_t *semaphores)
{
    struct table table;
    const json_t *semaphore;
    size_t i;
    table_init(&table, &s->arena, "NAME|SCOPE|>USED|>LIMIT|>WAITING|HOLDERS|NEXT");
    json_array_foreach (semaphores, i, semaphore) {
        char holders[512];
        const json_t *waiting = json_object_get(semaphore, "waiting");
        int64_t n_waiting =
            json_is_array(waiting) ? (int64_t)json_array_size(waiting) : field_i64(semaphore, "waiting", 0);
        int64_t used = field_i64(semaphore, "used", 0), limit = field_i64(semaphore, "limit", 0);
        holders_text(s, json_object_get(semaphore, "holders"), holders, sizeof holders);
        table_add(&table, PAINT_BOLD, "%s", field_z(semaphore, "name"));
        table_add(&table, PAINT_DIM, "%s", field_z(semaphore, "scope"));
        table_add(&table, used >= limit ? PAINT_YELLOW : PAINT_NONE, "%lld", (long long)used);
        table_add(&table, PAINT_NONE, "%lld", (long long)limit);
        table_add(&table, PAINT_NONE, "%lld", (long long)n_waiting);
        table_add(&table, PAINT_NONE, "%s", holders);
        holders_text(s, json_object_get(semaphore, "waiters"), holders, sizeof holders);
        table_add(&table, PAINT_DIM, "%s", holders);
    }
    table_print(&table, &s->term, stdout, 0);
    if (i == 0)
        session_note(s, "there are no semaphores yet");
}
