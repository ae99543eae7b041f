/* answer_changeset: what the API answers about change sets: lists as those of answer.h, which includes this file. */
#ifndef WEIR_API_ANSWER_CHANGESET_H
#define WEIR_API_ANSWER_CHANGESET_H

#define ANSWER_ChangesetAccepted(X) \
    X(FIELD, csid, TEXT, csid, NONE) \
    X(FIELD, name, TEXT, name, SAYS("of its file, in the order of the queue")) \
    X(FIELD, task, INTEGER, submission->task, NONE) \
    X(FIELD, state, STATE, submission->state, NONE)

#define ANSWER_Conflict(X) \
    X(OPTIONAL, path, TEXT, conflict->path.len > 0, conflict->path, NONE) \
    X(OPTIONAL, first_line, INTEGER, conflict->first_line > 0, conflict->first_line, NONE) \
    X(OPTIONAL, last_line, INTEGER, conflict->last_line > 0, conflict->last_line, NONE) \
    X(OPTIONAL, revision, TEXT, conflict->revision.len > 0, conflict->revision, SAYS("that is in the way")) \
    X(OPTIONAL, csid, TEXT, conflict->csid.len > 0, conflict->csid, SAYS("the change set that became it")) \
    X(FIELD, message, TEXT, conflict->text, NONE)

#define ANSWER_ChangesetChecked(X) \
    X(FIELD, target, TEXT, def->target, NONE) \
    X(FIELD, movetype, WORD, movetype_name(def->movetype), NONE) \
    X(EACH, precursors, TEXTS, n_precursors, json_str(json, precursors[i]), SAYS("CSIDs that it would wait for")) \
    X(EACH, conflicts, EVERY(Conflict), submission->n_conflicts, conflict_render(json, &submission->conflicts[i]), \
        SAYS("what is in its way in the repository now, at most 100")) \
    X(FIELD, looked, BOOLEAN, submission->looked, \
        SAYS("false: the target has no repository that this server can look into now")) \
    X(OPTIONAL, unlooked, WORD, !submission->looked && submission->err.text[0] != '\0', submission->err.text, \
        SAYS("why not"))

#endif
