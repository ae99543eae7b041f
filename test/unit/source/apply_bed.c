#include "apply_bed.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

const char *const kind_names[KINDS] = { "svn", "served svn", "git" };
struct arena arena;

static void reopen(struct rig *rig, const char *path)
{
    struct err err = { 0 };
    enum archive_kind kind = rig->kind == GIT ? ARCHIVE_GIT : ARCHIVE_SVN;
    struct str branch = rig->kind == GIT ? STR("main") : (struct str){ 0 };
    rig->apply = apply_open(kind, str_of(rig->url), branch, str_of(path), &err);
    if (rig->apply == NULL)
        fail_msg("%s: %s", err_name(err.code), err.text);
    rig->source = open_ok(kind, rig->url, rig->kind == GIT ? "main" : "");
}

void rig_make(struct rig *rig, enum kind kind, const char *path)
{
    *rig = (struct rig){ .kind = kind };
    print_message("  on %s\n", kind_names[kind]);
    if (kind == GIT) {
        sh("rm -rf $T/r $T/w; git init -q --bare -b main $T/r && git init -q -b main $T/w && cd $T/w && echo one "
           ">first && git add first && "
           "git commit -qm first && git push -q $T/r main");
        snprintf(rig->url, sizeof rig->url, "%s/r", bed);
    } else {
        sh("rm -rf $T/r; svnadmin create $T/r && echo one >$T/first.txt && svnmucc -m first put $T/first.txt "
           "file://$T/r/first >/dev/null && "
           "printf '[general]\\nanon-access = write\\n' >$T/r/conf/svnserve.conf");
        snprintf(rig->url, sizeof rig->url, "%s/r", bed);
    }
    if (kind == SERVED) {
        rig->server = svnserve_start(&rig->port);
        snprintf(rig->url, sizeof rig->url, "svn://127.0.0.1:%d/r", rig->port);
    }
    reopen(rig, path);
}

void rig_drop(struct rig *rig)
{
    apply_close(rig->apply);
    source_close(rig->source);
    svnserve_end(rig->server);
    arena_release(&arena);
}

void set_begin(struct set *set, const char *csid)
{
    static int count;
    char path[300];
    do /* a process that was forked has made some of them */
        snprintf(path, sizeof path, "%s/lroot-%d", bed, ++count);
    while (mkdir(path, 0755) != 0 && errno == EEXIST);
    *set = (struct set){ .n = count };
    set->change.lroot_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(set->change.lroot_fd >= 0);
    set->change.files = set->files;
    set->change.removed = set->removed;
    set->identity = (struct apply_identity){ .csid = str_of(csid),
        .submitter = STR("ada"),
        .movetype = STR("DC"),
        .message = str_fmt(&arena, "message of %s", csid) };
}

void set_file(struct set *set, const char *path, const char *content, bool executable)
{
    char full[600];
    snprintf(full, sizeof full, "%s/lroot-%d/%s", bed, set->n, path);
    for (char *at = full + strlen(bed) + 1; *at != '\0'; at++)
        if (*at == '/') {
            *at = '\0';
            mkdir(full, 0755);
            *at = '/';
        }
    file_put(full, content, strlen(content));
    set->files[set->change.n_files++] = (struct apply_file){ str_of(path), executable };
}

void set_removed(struct set *set, const char *path)
{
    set->removed[set->change.n_removed++] = str_of(path);
}

void set_base(struct set *set, struct source_ident base)
{
    set->change.has_base = true;
    set->change.base = base;
}

void set_end(struct set *set)
{
    close(set->change.lroot_fd);
}

struct source_ident head(struct rig *rig)
{
    struct err err = { 0 };
    struct source_ident out;
    must(apply_head(rig->apply, &arena, &out, &err), &err);
    return out;
}

struct apply_result commit(struct rig *rig, struct set *set)
{
    struct err err = { 0 };
    struct apply_result result;
    must(apply_commit(rig->apply, &arena, &set->change, &set->identity, head(rig), &result, &err), &err);
    return result;
}

struct source_ident commit_ok(struct rig *rig, struct set *set)
{
    struct apply_result result = commit(rig, set);
    if (result.end != APPLY_COMMITTED)
        fail_msg("end %d: %.*s", result.end, STR_ARG(result.reason));
    set_end(set);
    return result.revision;
}

struct source_ident one(struct rig *rig, const char *csid, const char *path, const char *content)
{
    struct set set;
    set_begin(&set, csid);
    set_file(&set, path, content, false);
    return commit_ok(rig, &set);
}

struct apply_result rollback(struct rig *rig, const char *csid, const struct source_ident *revisions, size_t n)
{
    struct err err = { 0 };
    struct apply_result result;
    struct apply_identity identity = {
        .csid = str_of(csid), .submitter = STR("ada"), .movetype = STR("RB"), .message = STR("undo")
    };
    must(apply_rollback(rig->apply, &arena, revisions, n, &identity, head(rig), &result, &err), &err);
    return result;
}

void conflicts(const struct apply_result *result, const char *part)
{
    if (result->end != APPLY_CONFLICT || strstr(result->reason.ptr, part) == NULL)
        fail_msg("expected a conflict with '%s', got end %d: %.*s", part, result->end, STR_ARG(result->reason));
}

static char *lines[20000];
static size_t n_lines, skip;

static int file_take(const char *path, const struct stat *st, int type, struct FTW *place)
{
    (void)place;
    if (type != FTW_F && type != FTW_SL)
        return 0;
    char *text = NULL, content[4000] = "";
    ssize_t n;
    if (type == FTW_SL) {
        n = readlink(path, content, sizeof content - 1);
    } else {
        int fd = open(path, O_RDONLY);
        n = read(fd, content, sizeof content - 1);
        close(fd);
    }
    content[n > 0 ? n : 0] = '\0';
    for (char *at = content; *at != '\0'; at++)
        if (*at == '\n')
            *at = '/';
    assert_true(asprintf(&text, "%s%s %s|", path + skip,
                    type == FTW_SL          ? "@"
                    : st->st_mode & S_IXUSR ? "*"
                                            : "",
                    content) > 0);
    lines[n_lines++] = text;
    return 0;
}

static int line_compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

const char *files_of(struct rig *rig, struct source_ident ident)
{
    static char text[1 << 20];
    static int count;
    char name[32];
    snprintf(name, sizeof name, "out-%d", ++count);
    export_to(rig->source, ident, name);
    skip = strlen(in(name)) + 1;
    n_lines = 0;
    assert_int_equal(nftw(in(name), file_take, 16, FTW_PHYS), 0);
    qsort(lines, n_lines, sizeof *lines, line_compare);
    size_t len = 0;
    text[0] = '\0';
    for (size_t i = 0; i < n_lines; i++) {
        len += (size_t)snprintf(text + len, sizeof text - len, "%s", lines[i]);
        free(lines[i]);
    }
    return text;
}
