/* revision_text: archives and revisions as operands (ARCHIVE, ARCHIVE@REV) and as text for people. */
#ifndef WEIR_CLI_REVISION_TEXT_H
#define WEIR_CLI_REVISION_TEXT_H

#include "cli/session.h"

/* operand_is_revision: ARCHIVE@REV: it has an @ and no colon behind it. */
bool operand_is_revision(const char *operand);
/* revision_path: "/v1/archives/ARCHIVE/revisions/REV" of such an operand, encoded. */
const char *revision_path(struct session *session, const char *operand);
/* archive_path: "/v1/archives/NAME" plus tail, the name encoded. */
const char *archive_path(struct session *session, const char *name, const char *tail);

/* first_line: of a message, at most `width` cells. In the arena. */
const char *first_line(struct session *session, const char *text, int width);

/* revision_print: author, times, message and state, then its tasks; each of the two alone. */
void revision_print(struct session *session, const json_t *revision);
void revision_head_print(struct session *session, const json_t *revision);
void revision_tasks_print(struct session *session, const json_t *revision);
/* definition_print: its workflow files as they are. */
void definition_print(struct session *session, const json_t *revision);
/* revision_table_print: newest first, one line each. */
void revision_table_print(struct session *session, const json_t *revisions);

#endif
