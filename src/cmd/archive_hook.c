/* archive_hook: see archive_hook.h. */
#include "cmd/archive_hook.h"

#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/task_text.h"
#include "source/hook.h"

/* folder_of: the repository's folder on this machine; of an ordinary git repository the one inside. NULL: it is served, or none. */
static const char *folder_of(struct session *s, const json_t *archive)
{
    const char *url = field_z(archive, "url");
    struct stat st;
    if (strncmp(url, "file://", 7) == 0)
        url += 7;
    const char *inside = str_dupz(&s->arena, str_fmt(&s->arena, "%s/.git", url));
    if (strcmp(field_z(archive, "kind"), "git") == 0 && stat(inside, &st) == 0 && S_ISDIR(st.st_mode))
        return inside;
    return *url == '/' ? url : NULL;
}

/* weir_path: this very program, so that the hook runs the version that the archive was added with. */
static const char *weir_path(struct session *s)
{
    char path[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    return n <= 0 ? "weir" : str_dupz(&s->arena, (struct str){ path, (size_t)n });
}

/* lines_say: what to put where, by hand. */
static void lines_say(struct session *s, const json_t *archive, enum archive_kind kind, const char *why)
{
    const char *notify = field_z(archive, "notify"), *name = field_z(archive, "name"), *folder = folder_of(s, archive);
    session_note(s, "no hook was installed: %s", why);
    session_note(s, "new revisions are found all the same; to be told at once, put these two lines into %s%s%s, and make it executable:",
        folder ? folder : "the repository's", folder ? "/hooks/" : " ", kind == ARCHIVE_GIT ? "post-receive" : "post-commit");
    session_note(s, "  #!/bin/sh\n  %s notify %s %s%s%s >/dev/null 2>&1 &", weir_path(s), name,
        kind == ARCHIVE_GIT ? "HEAD" : "\"$2\" --txn \"$3\"", *notify ? " --server unix:" : "", notify);
}

void archive_hook_install(struct session *s, const json_t *archive)
{
    enum archive_kind kind = archive_kind_find(str_of(field_z(archive, "kind")));
    const char *folder = folder_of(s, archive), *notify = field_z(archive, "notify"), *path = NULL;
    struct err err = { 0 };
    if (kind != ARCHIVE_SVN && kind != ARCHIVE_GIT)
        return;
    if (!folder) {
        lines_say(s, archive, kind, "the repository is on another machine");
        return;
    }
    if (*notify && access(notify, F_OK) != 0) { /* a path of the same name here would be somebody else's */
        lines_say(s, archive, kind, "the server is on another machine");
        return;
    }
    struct str options[2] = { STR("--server"), str_fmt(&s->arena, "unix:%s", notify) }, name = str_of(field_z(archive, "name"));
    if (!hook_install(kind, folder, name, str_of(weir_path(s)), options, *notify ? 2 : 0, &s->arena, &path, &err)) {
        lines_say(s, archive, kind, err.text);
        return;
    }
    session_note(s, "hook: %s", path ? path : "installed");
}

void archive_hook_remove(struct session *s, const json_t *archive)
{
    enum archive_kind kind = archive_kind_find(str_of(field_z(archive, "kind")));
    const char *folder = folder_of(s, archive);
    struct err err = { 0 };
    if ((kind == ARCHIVE_SVN || kind == ARCHIVE_GIT) && folder && !hook_remove(kind, folder, str_of(field_z(archive, "name")), &err))
        session_note(s, "the hook stays: %s (it does no harm)", err.text);
}

const char *archive_hook_state(struct session *s, const json_t *archive)
{
    enum archive_kind kind = archive_kind_find(str_of(field_z(archive, "kind")));
    const char *folder = folder_of(s, archive);
    struct err err = { 0 };
    bool installed;
    if ((kind != ARCHIVE_SVN && kind != ARCHIVE_GIT) || !folder ||
        !hook_is_installed(kind, folder, str_of(field_z(archive, "name")), &installed, &err))
        return "";
    return installed ? "installed" : "not installed";
}
