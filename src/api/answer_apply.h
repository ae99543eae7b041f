/* answer_apply: what `weir apply` gets of a change set (member `apply` of a grant's spec), beside the members of its
 * stored body: message, depends, base (that of ##base), sha256, tarball_bytes. Rows as in answer.h. */
#ifndef WEIR_API_ANSWER_APPLY_H
#define WEIR_API_ANSWER_APPLY_H

#include "api/answer.h"

#define ANSWER_Apply(X) \
    X(FIELD, target, TEXT, apply->target, NONE) \
    X(FIELD, csid, TEXT, apply->csid, NONE) \
    X(FIELD, movetype, WORD, movetype_name(apply->movetype), NONE) \
    X(PART, cause, TEXT, render_key_text(api, json, grant->lane_name, grant->lane_kind, &grant->task), NONE) \
    X(OPTIONAL, submitter, TEXT, apply->submitter.len > 0, apply->submitter, NONE) \
    X(OPTIONAL, ticket, TEXT, apply->ticket.len > 0, apply->ticket, NONE) \
    X(OPTIONAL, base_rev, TEXT, apply->base.len > 0, apply->base, NONE) \
    X(OPTIONAL, look, TRUE, apply->look, true, NONE) \
    X(PART, source, INSIDE(TargetSource), target_source_render(json, apply), NONE) \
    X(PART, limits, OBJECT, apply_limits_render(json, &apply->limits), NONE) \
    X(OPTIONAL_PART, program, ARRAY, apply->n_program > 0, texts_put(json, apply->program, apply->n_program), NONE) \
    X(OPTIONAL_EACH, undoes, LIST(Undo), grant->n_undoes > 0, grant->n_undoes, render_undo(json, &grant->undoes[i]), \
        NONE)
#define ANSWER_ApplyLimits(X) \
    X(FIELD, unpacked, INTEGER, (int64_t)limits->unpacked_bytes, NONE) \
    X(FIELD, meta, INTEGER, (int64_t)limits->meta_bytes, NONE) \
    X(FIELD, files, INTEGER, limits->files, NONE) \
    X(FIELD, path, INTEGER, limits->path_bytes, NONE) \
    X(FIELD, depth, INTEGER, limits->depth, NONE)
#define ANSWER_Undo(X) X(FIELD, csid, TEXT, undo->csid, NONE) X(FIELD, revision, TEXT, undo->revision, NONE)
#define ANSWER_TargetSource(X) \
    X(FIELD, archive, TEXT, apply->archive.name, NONE) \
    X(OPTIONAL, kind, WORD, apply->archive.kind != ARCHIVE_NONE, archive_kind_name(apply->archive.kind), NONE) \
    X(OPTIONAL, url, TEXT, apply->archive.url.len > 0, apply->archive.url, NONE) \
    X(OPTIONAL, branch, TEXT, apply->archive.branch.len > 0, apply->archive.branch, NONE) \
    X(OPTIONAL, path, TEXT, apply->archive.path.len > 0, apply->archive.path, NONE)

#endif
