/* semaphores: their limits, holders and waiting tasks. */
#include "cli/command.h"
#include "cli/session.h"
#include "cli/task_text.h"

void semaphores_print(struct session *s, const json_t *semaphores)
{
    struct table table;
    const json_t *semaphore;
    size_t i;
    table_init(&table, &s->arena, "NAME|SCOPE|>USED|>LIMIT|>WAITING|HOLDERS|NEXT");
    json_array_foreach (semaphores, i, semaphore) {
        int64_t used = field_i64(semaphore, "used", 0), limit = field_i64(semaphore, "limit", 0);
        table_add(&table, PAINT_BOLD, "%s", field_z(semaphore, "name"));
        table_add(&table, PAINT_DIM, "%s", field_z(semaphore, "scope"));
        table_add(&table, used >= limit ? PAINT_YELLOW : PAINT_NONE, "%lld", (long long)used);
        table_add(&table, PAINT_NONE, "%lld", (long long)limit);
        table_add(&table, PAINT_NONE, "%lld", (long long)field_i64(semaphore, "waiting", 0));
        table_add(&table, PAINT_NONE, "%s", texts_join(&s->arena, json_object_get(semaphore, "holders")));
        table_add(&table, PAINT_DIM, "%s", texts_join(&s->arena, json_object_get(semaphore, "waiters")));
    }
    table_print(&table, &s->term, stdout, 0);
    if (i == 0)
        session_note(s, "there are no semaphores yet");
}
