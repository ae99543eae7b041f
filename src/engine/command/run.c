/* runs: a task of a revision's workflow is run again, by hand (command_run) or by a schedule (schedules.c).
 *
 * A run makes the task and the tasks that it needs, with the next free number of a run each; it doesn't change what
 * PREV means. It is refused where the archive, the revision or the task isn't there, or the tenant's quota is used up.
 */
#include "engine/command/command.h"
#include "engine/command/opening.h"
#include "engine/health.h"
#include "engine/tenants.h"

struct node *run_make(struct turn *turn, struct archive *archive, const struct revision *revision,
    struct definition *definition, struct str task, struct str params, const struct because *because)
{
    struct opening o;
    struct expansion x;
    struct node **asked = NULL;
    opening_init(&o, turn, archive, revision, definition, because);
    struct expand_input input = opening_input(&o);
    if (!o.definition || !workflow_find(&definition->workflow, task))
        return NULL;
    input.run = &task;
    input.n_run = 1;
    opening_expand(&o, &input, &x);
    for (size_t i = 0; i < x.n_tasks; i++) {
        struct str name = x.tasks[i].name;
        if (x.tasks[i].replaced)
            o.nodes[i] = opening_node(&o, &x.tasks[i]);
        if (str_eq(name, task))
            asked = &o.nodes[i];
        if (x.tasks[i].replaced)
            continue;
        o.nodes[i] = opening_task_make(&o, &x.tasks[i], opening_run_next(&o, name), params);
        o.nodes[i]->row.reason = because->reason;
        opening_track(&o, o.nodes[i]);
    }
    opening_connect(&o, &x);
    slice_settle(turn->slice);
    opening_release(&o);
    return asked ? *asked : NULL;
}

bool command_run(struct turn *turn, struct command *command)
{
    struct kept_answer kept = { 0 };
    if (idempotency_met(turn, command, &kept)) {
        command->out.run.task = kept.n ? kept.numbers[0] : 0;
        return true;
    }
    struct str name = command->in.run.archive;
    struct archive *archive = archive_named(turn, command, name);
    int64_t rev = command->in.run.rev;
    if (!archive || archive->removed)
        return turn_refuse(turn, command, ERR_not_found, "there is no archive '%.*s'", STR_ARG(name));
    const struct revision *revision = rev <= 0              ? revision_newest(turn, archive)
                                      : rev < archive->next ? revision_find(turn, archive->lane, rev)
                                                            : NULL;
    if (rev <= 0)
        rev = revision ? revision->rev : archive->next - 1;
    if (!revision || revision->state != REVISION_KNOWN)
        return turn_refuse(
            turn, command, ERR_not_found, "revision %lld of '%.*s' isn't known", (long long)rev, STR_ARG(name));
    struct definition *definition = command->in.run.definition;
    if (!definition && revision->definition)
        definition = definition_get(turn, revision->definition);
    if (turn->slice->failed || intake_closed(turn, command) || quota_tasks_refused(turn, command, 1))
        return false;
    const struct node *node =
        definition ? run_make(turn, archive, revision, definition, command->in.run.task, command->in.run.params,
                         &(struct because){ .actor = command->actor.name, .reason = command->in.run.reason })
                   : NULL;
    if (!node)
        return turn_refuse(turn, command, ERR_not_found, "the workflow of %.*s@%lld has no task '%.*s'", STR_ARG(name),
            (long long)rev, STR_ARG(command->in.run.task));
    command->out.run.task = node->row.id;
    command->status = node->was == STATE_NONE ? 201 : 200; /* or another task has its unique key */
    idempotency_keep(turn, command, &node->row.id, 1);
    return true;
}
