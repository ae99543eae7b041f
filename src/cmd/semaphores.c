/* semaphores: how many may, how many do, who. */
#include "cmd/command.h"
#include "cmd/session.h"
#include "cmd/task_text.h"

const struct command_spec semaphores_spec = {
    .name = "semaphores",
    .operands = "",
    .summary = "the semaphores: limit, used, holders, who is next",
    .flags = COMMAND_CLIENT,
};

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

int semaphores_main(int argc, char **argv)
{
    struct session s;
    int status = session_open(&s, &semaphores_spec, argc, argv);
    if (status != OPTIONS_RUN)
        return status;
    bool more;
    json_t *semaphores = session_pages(&s, "/v1/semaphores", "semaphores", 0, &more);
    if (!semaphores)
        return session_close(&s, s.status);
    if (s.json) {
        session_print(&s, semaphores);
    } else {
        struct table table;
        const json_t *semaphore;
        size_t i;
        table_init(&table, &s.arena, "NAME|SCOPE|>USED|>LIMIT|>WAITING|HOLDERS|NEXT");
        json_array_foreach (semaphores, i, semaphore) {
            char holders[512];
            const json_t *waiting = json_object_get(semaphore, "waiting");
            int64_t n_waiting = json_is_array(waiting) ? (int64_t)json_array_size(waiting) : field_i64(semaphore, "waiting", 0);
            int64_t used = field_i64(semaphore, "used", 0), limit = field_i64(semaphore, "limit", 0);
            holders_text(&s, json_object_get(semaphore, "holders"), holders, sizeof holders);
            table_add(&table, PAINT_BOLD, "%s", field_z(semaphore, "name"));
            table_add(&table, PAINT_DIM, "%s", field_z(semaphore, "scope"));
            table_add(&table, used >= limit ? PAINT_YELLOW : PAINT_NONE, "%lld", (long long)used);
            table_add(&table, PAINT_NONE, "%lld", (long long)limit);
            table_add(&table, PAINT_NONE, "%lld", (long long)n_waiting);
            table_add(&table, PAINT_NONE, "%s", holders);
            holders_text(&s, json_object_get(semaphore, "waiters"), holders, sizeof holders);
            table_add(&table, PAINT_DIM, "%s", holders);
        }
        table_print(&table, &s.term, stdout, 0);
        if (i == 0)
            session_note(&s, "there are no semaphores yet");
    }
    json_decref(semaphores);
    return session_close(&s, 0);
}
