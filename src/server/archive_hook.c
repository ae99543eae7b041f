/* archive_hook: see archive_hook.h. */
#include "server/archive_hook.h"

#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/task_text.h"
#include "source/hook.h"

/* folder_of: the repository's folder on this machine; of an ordinary git repository the one inside. NULL: it is served,
 * or none. */
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
    session_note(s,
        "new revisions are found all the same; to be told at once, put these two lines into %s%s%s, and make it "
        "executable:",
        folder ? folder : "the repository's", folder ? "/hooks/" : " ",
        kind == ARCHIVE_GIT ? "post-receive" : "post-commit");
    session_note(s, "  #!/bin/sh\n  %s notify %s %s%s%s >/dev/null 2>&1 &", weir_path(s), name,
        kind == ARCHIVE_GIT ? "HEAD" : "\"$2\" --txn \"$3\"", *notify ? " --server unix:" : "", notify);
}

static bool has_hook(enum archive_kind kind)
{
    return kind == ARCHIVE_SVN || kind == ARCHIVE_GIT;
}

/* hook_put: err says why not. */
static bool hook_put(
    struct session *s, const json_t *archive, enum archive_kind kind, struct hook_paths *out, struct err *err)
{
    const char *folder = folder_of(s, archive), *notify = field_z(archive, "notify");
    if (!folder)
        return err_set(err, ERR_invalid, "the repository is on another machine");
    if (*notify && access(notify, F_OK) != 0) /* a path of the same name here would be somebody else's */
        return err_set(err, ERR_invalid, "the server is on another machine");
    struct str options[2] = { STR("--server"), str_fmt(&s->arena, "unix:%s", notify) };
    struct hook_call call = { .archive = str_of(field_z(archive, "name")),
        .program = str_of(weir_path(s)),
        .branch = str_of(field_z(archive, "branch")),
        .options = options,
        .n_options = *notify ? 2 : 0 };
    return hook_install(kind, folder, &call, &s->arena, out, err);
}

bool archive_hook_early(struct session *s, json_t *wanted)
{
    enum archive_kind kind = archive_kind_find(str_of(field_z(wanted, "kind")));
    const char *folder = folder_of(s, wanted);
    struct hook_paths paths = { 0 };
    struct err ignored = { 0 }; /* it fails again afterwards, and is reported then */
    if (!has_hook(kind) || !folder ||
        !hook_find(kind, folder, str_of(field_z(wanted, "name")), &s->arena, &paths, &ignored) || paths.n_installed > 0)
        return false;
    json_t *page = session_look(s, "/v1/archives?limit=1&notify=1");
    json_t *notify = json_object_get(page, "notify");
    bool known = json_is_string(notify) && json_object_set(wanted, "notify", notify) == 0;
    json_decref(page);
    return known && hook_put(s, wanted, kind, &paths, &ignored);
}

void archive_hook_install(struct session *s, const json_t *archive)
{
    enum archive_kind kind = archive_kind_find(str_of(field_z(archive, "kind")));
    struct hook_paths paths = { 0 };
    struct err err = { 0 };
    if (!has_hook(kind))
        return;
    if (!hook_put(s, archive, kind, &paths, &err)) {
        lines_say(s, archive, kind, err.text);
        return;
    }
    for (size_t i = 0; i < paths.n_installed; i++)
        session_note(s, "hook: %s", paths.installed[i]);
}

void archive_hook_remove(struct session *s, const json_t *archive)
{
    enum archive_kind kind = archive_kind_find(str_of(field_z(archive, "kind")));
    const char *folder = folder_of(s, archive);
    struct err err = { 0 };
    if (has_hook(kind) && folder && !hook_remove(kind, folder, str_of(field_z(archive, "name")), &err))
        session_note(s, "the hook stays: %s (it does no harm)", err.text);
}

/* names_add: the hooks' names, behind their folder. */
static void names_add(struct buf *out, const struct hook_paths *paths)
{
    for (size_t i = 0; i < paths->n_installed; i++) {
        const char *slash = strrchr(paths->installed[i], '/');
        buf_addf(out, "%s%s", i > 0 ? ", " : "", slash ? slash + 1 : paths->installed[i]);
    }
}

const char *archive_hook_state(struct session *s, const json_t *archive)
{
    enum archive_kind kind = archive_kind_find(str_of(field_z(archive, "kind")));
    const char *folder = folder_of(s, archive);
    struct hook_paths paths = { 0 };
    struct err err = { 0 };
    struct buf text;
    if (!has_hook(kind) || !folder ||
        !hook_find(kind, folder, str_of(field_z(archive, "name")), &s->arena, &paths, &err))
        return "";
    if (paths.n_installed == 0)
        return "not installed";
    buf_init(&text, 1024);
    buf_add_z(&text, "installed: ");
    names_add(&text, &paths);
    if (paths.n_installed < paths.n_wanted)
        buf_addf(&text, "; %zu more are missing: weir archive add again puts them there",
            paths.n_wanted - paths.n_installed);
    const char *state = str_dupz(&s->arena, buf_str(&text));
    buf_release(&text);
    return state;
}
