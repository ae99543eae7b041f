/* changeset_rollback: `weir cs rollback`: change sets taken back, with all that depend on them; or only what that would
 * be, as a tree. */
#include <string.h>

#include "cli/changeset_text.h"
#include "cli/command.h"
#include "cli/task_text.h"

enum { DEPTH_MAX = 100 };

/* member_of: the CSID that a member is in the closure because of; "": it was named. */
static const char *member_of(const json_t *member)
{
    return field_z(member, "because");
}

static void branch_print(struct session *s, const json_t *members, const char *root, int depth)
{
    const json_t *one;
    size_t i;
    json_array_foreach (members, i, one) {
        char letter = task_letter(one);
        if (strcmp(member_of(one), root) != 0)
            continue;
        printf("%*s%s  %s%c %s%s%s\n", depth * 2, "", term_safe_z(&s->arena, field_z(one, "csid")),
            paint_on(&s->term, paint_of_state(letter)), letter, letter_word(letter),
            paint_off(&s->term, paint_of_state(letter)), *field_z(one, "rolled_back_by") ? ", rolled back" : "");
        if (depth < DEPTH_MAX && *field_z(one, "csid"))
            branch_print(s, members, field_z(one, "csid"), depth + 1);
    }
}

static void closure_print(struct session *s, const json_t *answer)
{
    const json_t *members = json_object_get(answer, "members");
    branch_print(s, members, "", 0);
    session_note(s, "%zu change sets; nothing was rolled back", json_array_size(members));
    if (*field_z(answer, "reason"))
        session_note(s, "%s", field_z(answer, "reason"));
}

/* csids_of: without the targets before them; NULL: one isn't UTF-8, which was reported. */
static json_t *csids_of(struct session *s)
{
    json_t *csids = json_array();
    for (size_t i = 0; i < s->options.n_operands; i++) {
        const char *colon = strrchr(s->options.operands[i], ':');
        if (json_array_append_new(csids, json_string(colon ? colon + 1 : s->options.operands[i])) == 0)
            continue;
        session_err(s, ERR_invalid, "a CSID holds bytes that aren't UTF-8");
        json_decref(csids);
        return NULL;
    }
    return csids;
}

static int rollback_send(struct session *s, json_t *body, bool is_dry, struct changeset_wait *wait)
{
    json_t *answer = session_post(s, "/v1/rollbacks", body);
    if (!answer || is_dry)
        return session_answer(s, answer, closure_print);
    if (!s->json)
        printf("%s\n", term_safe_z(&s->arena, field_z(answer, "csid")));
    fflush(stdout);
    int status = wait ? changeset_wait_run(wait, answer) : 0;
    if (s->json)
        session_print(s, wait && wait->document ? wait->document : answer);
    json_decref(answer);
    return status;
}

int changeset_rollback_command(struct session *s)
{
    bool is_dry = option_given(&s->options, "dry-run"), waits = option_given(&s->options, "wait");
    struct changeset_wait wait = { 0 };
    if (is_dry && waits)
        return usage_error(s->options.spec, "--dry-run does nothing that could be waited for");
    if (!session_utf8(s, "message"))
        return s->status;
    json_t *csids = csids_of(s);
    if (!csids)
        return s->status;
    json_t *body = json_pack("{s:o}", "csids", csids);
    if (option_given(&s->options, "with-overlapping"))
        json_object_set_new(body, "with_overlapping", json_true());
    if (is_dry)
        json_object_set_new(body, "dry_run", json_true());
    session_put(s, body, "message", "message");
    if (waits && !changeset_wait_open(&wait, s)) {
        json_decref(body);
        return s->status;
    }
    int status = rollback_send(s, body, is_dry, waits ? &wait : NULL);
    changeset_wait_close(&wait);
    return status;
}
