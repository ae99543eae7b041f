/* backup: a consistent copy of the store, made by the server while it works. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/session.h"
#include "cli/task_text.h"

static void written_print(struct session *s, const json_t *answer)
{
    printf("%s\n", term_safe_z(&s->arena, field_z(answer, "file")));
}

int backup_command(struct session *s)
{
    const char *file = s->options.operands[0];
    if (file[0] != '/') {
        char *here = getcwd(NULL, 0);
        if (!here)
            return session_err(s, ERR_io, "the current directory has no name: %s", strerror(errno));
        file = str_dupz(&s->arena, str_fmt(&s->arena, "%s/%s", here, file));
        free(here);
    }
    json_t *body = json_pack("{s:s}", "file", file);
    if (body && option_get(&s->options, "without-artifacts"))
        json_object_set_new(body, "without_artifacts", json_true());
    if (!body)
        return session_err(s, ERR_invalid, "the file's name isn't UTF-8");
    json_t *answer = session_post(s, "/v1/backup", body);
    long long missing = field_i64(answer, "artifacts_missing", 0);
    bool without = json_is_true(json_object_get(answer, "without_artifacts"));
    int status = session_answer(s, answer, written_print);
    if (missing > 0 && without)
        session_note(s, "%lld artifacts were left out: a store that is restored from it lists them and hasn't got them",
            missing);
    else if (missing > 0)
        session_note(s,
            "%lld artifacts that tasks list aren't in it: their files are gone, or damaged (weir verify names them)",
            missing);
    return status;
}
