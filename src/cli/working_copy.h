/* working_copy: where one is, and what svn or git say of it. Their programs are asked, so that no library is needed. */
#ifndef WEIR_CLI_WORKING_COPY_H
#define WEIR_CLI_WORKING_COPY_H

#include "text/copy_status.h"

enum copy_program { COPY_NO_PROGRAM, COPY_GIT, COPY_SVN };

struct working_copy {
    enum copy_program program;
    const char *root;          /* its outermost folder, absolute */
    struct copy_status status; /* paths are relative to root */
    struct str base;           /* see changeset_content.h */
    struct copy_status bits;   /* svn: the files that have svn:executable, sorted by path */
};

/* working_copy_find: from an absolute folder upwards, the nearest one with .git or .svn in it. */
enum copy_program working_copy_find(const char *folder, struct arena *arena, const char **out_root);
/* working_copy_read: asks. */
bool working_copy_read(struct working_copy *copy, struct arena *arena, struct err *err);
/* working_copy_executable: by svn:executable; the mode on the disk says nothing to svn. */
bool working_copy_executable(const struct working_copy *copy, struct str path);

#endif
