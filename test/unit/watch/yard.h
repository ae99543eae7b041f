/* yard: a store, an engine with its thread, a loop and a watch in a temp folder, and real repositories made by
 * svnadmin, svn and git. */
#ifndef WEIR_TEST_WATCH_YARD_H
#define WEIR_TEST_WATCH_YARD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "engine/engine.h"
#include "io/clock.h"
#include "store/read.h"
#include "watch/watch.h"

struct yard {
    char dir[64];
    char url[96];
    struct store_config store_config;
    struct store *store;
    struct engine *engine;
    struct reader *reader;
    struct loop *loop;
    struct watch *watch;
    struct watch_config config; /* times to begin with */
    struct arena arena;
    pid_t svnserve; /* 0: none */
};

int yard_make(void **state);
int yard_drop(void **state);
void yard_stop(struct yard *yard);  /* the server's end, in its order */
void yard_start(struct yard *yard); /* and its next life on the same store */

/* sh: a shell script with $T, in T; fails the test when it doesn't end with 0. */
void sh(struct yard *yard, const char *script, ...) __attribute__((format(printf, 2, 3)));
const char *in(struct yard *yard, const char *name); /* T/name */
/* a new repository of so many revisions, workflow in the first */
void svn_import(struct yard *yard, const char *name, int revisions);
void git_import(struct yard *yard, const char *name, int commits); /* likewise, bare, branch main */

int svnserve_start(struct yard *yard); /* of T; its port */
void svnserve_again(struct yard *yard, int port);
void svnserve_stop(struct yard *yard);

/* add: as the api does it: probe, then the command, then watch_archives_changed. */
void add(struct yard *yard, const char *name, enum archive_kind kind, const char *url, int64_t from);
void add_branch(struct yard *yard, const char *name, const char *url, const char *branch, int64_t from);
void add_unseen(struct yard *yard, const char *name, const char *url); /* svn from 1 on, without a probe */
void archive_command(struct yard *yard, enum command_kind kind, const char *name, int64_t rev);

/* until: runs the loop until the condition holds; fails the test after so many ms. */
#define until(yard, ms, condition) \
    do { \
        int64_t end_ = clock_boot_ms() + (ms); \
        while (!(condition)) { \
            if (clock_boot_ms() > end_) \
                fail_msg("%s:%d: not within %d ms: %s", __FILE__, __LINE__, (int)(ms), #condition); \
            loop_step((yard)->loop, 10); \
        } \
    } while (0)
void run_for(struct yard *yard, int64_t ms); /* to see that nothing happens */

struct archive row(struct yard *yard, const char *name);
int64_t next_of(struct yard *yard, const char *name);
struct revision revision(struct yard *yard, const char *name, int64_t rev); /* must be there */
bool has_task(struct yard *yard, const char *name, int64_t rev, const char *task);
int64_t lane_of(struct yard *yard, const char *name);
enum watch_state state_of(struct yard *yard, const char *name);
const char *fault_of(struct yard *yard, const char *name);
size_t events_of(struct yard *yard, enum event_kind kind);
/* revisions_in_order: the revision events of the archive are first, first + 1, ... to last, each once. */
void revisions_in_order(struct yard *yard, const char *name, int64_t first, int64_t last);

/* What goes to the engine may be refused: the n-th command from now (1: the next one); 0: none. */
extern int refuse_nth;
extern int submitted; /* CMD_REVISION since the start */

#endif
