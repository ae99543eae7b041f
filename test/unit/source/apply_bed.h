/* apply_bed: what the tests about applying share: an empty repository of each kind, change sets made in a line, and the
 * files of a revision. */
#ifndef WEIR_TEST_SOURCE_APPLY_BED_H
#define WEIR_TEST_SOURCE_APPLY_BED_H

#include "bed.h"
#include "source/apply.h"

enum kind { LOCAL, SERVED, GIT, KINDS };
extern const char *const kind_names[KINDS];

struct rig {
    enum kind kind;
    struct apply *apply;
    struct source *source;
    pid_t server;
    int port;
    char url[256];
};
extern struct arena arena; /* of the test: released by rig_drop */

/* rig_make: bed/r, of that kind, with a first revision that has file "first". GIT: bare, branch main. Opened at `path`
 * ("": the root). */
void rig_make(struct rig *rig, enum kind kind, const char *path);
void rig_drop(struct rig *rig);

struct set {
    struct apply_change change;
    struct apply_identity identity;
    struct apply_file files[64];
    struct str removed[64];
    int n;
};
void set_begin(struct set *set, const char *csid);
void set_file(struct set *set, const char *path, const char *content, bool executable);
void set_removed(struct set *set, const char *path);
void set_base(struct set *set, struct source_ident base);
void set_end(struct set *set);

struct source_ident head(struct rig *rig);
/* commit: with the head as base. commit_ok: it must be committed. one: a change set of one file. */
struct apply_result commit(struct rig *rig, struct set *set);
struct source_ident commit_ok(struct rig *rig, struct set *set);
struct source_ident one(struct rig *rig, const char *csid, const char *path, const char *content);
struct apply_result rollback(struct rig *rig, const char *csid, const struct source_ident *revisions, size_t n);
void conflicts(const struct apply_result *result, const char *part); /* its reason has that in it */

/* files_of: "PATH[*] CONTENT|" for each file of the revision, by name; * if executable; newlines as /. */
const char *files_of(struct rig *rig, struct source_ident ident);
#define FILES(rig, ident, expected) assert_string_equal(files_of(rig, ident), expected)

#endif
