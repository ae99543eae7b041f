/* base_commit FOLDER N: commits of one small file each, N on a Subversion and N on a git repository that are made in
 * FOLDER: bare ones through libsvn_repos and libgit2, and beside them the same through apply_commit.
 *
 * Bare means: no search for a CSID, no plan, no hooks to look for; as durable as ours (git: objects and branch synced).
 * The two take turns, commit by commit, each on a repository of its own, so that a busy machine is busy for both. */
#include <fcntl.h>
#include <git2.h>
#include <git2/sys/commit.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <svn_fs.h>
#include <svn_hash.h>
#include <svn_pools.h>
#include <svn_props.h>
#include <svn_repos.h>

#include "bench.h"
#include "source/apply.h"

#define FILES_MAX 100 /* of the tree: each commit changes one of them */

static void svn_must(svn_error_t *fault)
{
    if (fault != NULL)
        bench_die("svn: %s", fault->message != NULL ? fault->message : "no reason given");
}

static void git_must(int code)
{
    if (code != 0)
        bench_die("git: %s", git_error_last() != NULL ? git_error_last()->message : "no reason given");
}

/* --- bare --- */

static void svn_bare(svn_repos_t *repos, int i, apr_pool_t *parent)
{
    apr_pool_t *pool = svn_pool_create(parent);
    apr_hash_t *props = apr_hash_make(pool);
    svn_revnum_t youngest, made;
    svn_fs_txn_t *txn;
    svn_fs_root_t *root;
    svn_stream_t *stream;
    svn_node_kind_t kind;
    const char *conflict;
    char path[32], text[64];
    snprintf(path, sizeof path, "f%d", i % FILES_MAX);
    snprintf(text, sizeof text, "content %d\n", i);
    svn_hash_sets(props, SVN_PROP_REVISION_LOG, svn_string_create("message", pool));
    svn_hash_sets(props, SVN_PROP_REVISION_AUTHOR, svn_string_create("ada", pool));
    svn_must(svn_fs_youngest_rev(&youngest, svn_repos_fs(repos), pool));
    svn_must(svn_repos_fs_begin_txn_for_commit2(&txn, repos, youngest, props, pool));
    svn_must(svn_fs_txn_root(&root, txn, pool));
    svn_must(svn_fs_check_path(&kind, root, path, pool));
    if (kind == svn_node_none)
        svn_must(svn_fs_make_file(root, path, pool));
    svn_must(svn_fs_apply_text(&stream, root, path, NULL, pool));
    apr_size_t len = strlen(text);
    svn_must(svn_stream_write(stream, text, &len));
    svn_must(svn_stream_close(stream));
    svn_must(svn_repos_fs_commit_txn(&conflict, repos, &made, txn, pool));
    svn_pool_destroy(pool);
}

static void git_bare(git_repository *repo, int i)
{
    git_oid blob, tree_id, tip, commit_id;
    git_commit *parent = NULL;
    git_tree *old = NULL;
    git_treebuilder *builder = NULL;
    git_signature *who = NULL;
    char path[32], text[64];
    snprintf(path, sizeof path, "f%d", i % FILES_MAX);
    snprintf(text, sizeof text, "content %d\n", i);
    bool first = git_reference_name_to_id(&tip, repo, "refs/heads/main") != 0;
    if (!first) {
        git_must(git_commit_lookup(&parent, repo, &tip));
        git_must(git_commit_tree(&old, parent));
    }
    git_must(git_blob_create_from_buffer(&blob, repo, text, strlen(text)));
    git_must(git_treebuilder_new(&builder, repo, old));
    git_must(git_treebuilder_insert(NULL, builder, path, &blob, GIT_FILEMODE_BLOB));
    git_must(git_treebuilder_write(&tree_id, builder));
    git_must(git_signature_now(&who, "ada", "ada@localhost"));
    const git_oid *parents[1] = { &tip };
    git_must(git_commit_create_from_ids(
        &commit_id, repo, "refs/heads/main", who, who, NULL, "message", &tree_id, first ? 0 : 1, parents));
    git_signature_free(who);
    git_treebuilder_free(builder);
    git_tree_free(old);
    git_commit_free(parent);
}

/* --- ours --- */

static void ours(struct apply *apply, struct arena *arena, int lroot_fd, int i)
{
    struct err err = { 0 };
    struct source_ident base;
    struct apply_result result;
    char path[32], csid[32];
    snprintf(path, sizeof path, "f%d", i % FILES_MAX);
    snprintf(csid, sizeof csid, "CS%d", i);
    const struct apply_file file = { str_of(path), false };
    const struct apply_change change = { .lroot_fd = lroot_fd, .files = &file, .n_files = 1 };
    const struct apply_identity identity = {
        .csid = str_of(csid), .submitter = STR("ada"), .movetype = STR("DC"), .message = STR("message")
    };
    if (!apply_head(apply, arena, &base, &err) ||
        !apply_commit(apply, arena, &change, &identity, base, &result, &err) || result.end != APPLY_COMMITTED)
        bench_die("apply: %s", err.text);
    arena_reset(arena);
}

static void content_write(int lroot_fd, int i)
{
    char path[32];
    snprintf(path, sizeof path, "f%d", i % FILES_MAX);
    int fd = openat(lroot_fd, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0 || dprintf(fd, "content %d\n", i) < 0)
        bench_die("%s can't be written", path);
    close(fd);
}

static struct apply *ours_open(enum archive_kind kind, const char *url)
{
    struct err err = { 0 };
    struct str branch = kind == ARCHIVE_GIT ? STR("main") : (struct str){ 0 };
    struct apply *apply = apply_open(kind, str_of(url), branch, (struct str){ 0 }, &err);
    if (apply == NULL)
        bench_die("%s", err.text);
    return apply;
}

struct pair {
    const char *name;
    int64_t bare_ns, ours_ns;
    struct latencies bare, ours;
};

static void pair_result(struct pair *pair, int64_t n)
{
    char metric[64];
    bench_result(pair->name, "bare commits", (double)n * 1e9 / (double)pair->bare_ns, "/s");
    bench_result(pair->name, "apply_commit", (double)n * 1e9 / (double)pair->ours_ns, "/s");
    snprintf(metric, sizeof metric, "apply_commit beside bare");
    bench_result(pair->name, metric, (double)pair->bare_ns / (double)pair->ours_ns, "x");
    bench_result(
        pair->name, "the same, by medians", latencies_us(&pair->bare, 50) / latencies_us(&pair->ours, 50), "x");
    latencies_release(&pair->bare);
    latencies_release(&pair->ours);
}

static void took(int64_t began, int64_t *sum, struct latencies *all)
{
    int64_t ns = bench_now_ns() - began;
    *sum += ns;
    latencies_add(all, ns);
}

static void svn_run(const char *folder, int lroot_fd, int64_t n)
{
    char bare[512], own[512];
    struct arena arena = { 0 };
    struct pair pair = { .name = "svn" };
    svn_repos_t *repos;
    apr_pool_t *pool = svn_pool_create(NULL);
    snprintf(bare, sizeof bare, "%s/svn-bare", folder);
    snprintf(own, sizeof own, "%s/svn-ours", folder);
    svn_must(svn_repos_create(&repos, own, NULL, NULL, NULL, NULL, pool));
    svn_must(svn_repos_create(&repos, bare, NULL, NULL, NULL, NULL, pool));
    struct apply *apply = ours_open(ARCHIVE_SVN, own);
    for (int i = 0; i < n; i++) {
        content_write(lroot_fd, i);
        int64_t began = bench_now_ns();
        svn_bare(repos, i, pool);
        took(began, &pair.bare_ns, &pair.bare);
        began = bench_now_ns();
        ours(apply, &arena, lroot_fd, i);
        took(began, &pair.ours_ns, &pair.ours);
    }
    pair_result(&pair, n);
    apply_close(apply);
    svn_pool_destroy(pool);
    arena_release(&arena);
}

static void git_run(const char *folder, int lroot_fd, int64_t n)
{
    char bare[512], own[512];
    struct arena arena = { 0 };
    struct pair pair = { .name = "git" };
    git_repository *repo = NULL, *other = NULL;
    git_repository_init_options options;
    git_must(git_repository_init_options_init(&options, GIT_REPOSITORY_INIT_OPTIONS_VERSION));
    options.flags = GIT_REPOSITORY_INIT_BARE | GIT_REPOSITORY_INIT_MKPATH;
    options.initial_head = "main";
    snprintf(bare, sizeof bare, "%s/git-bare", folder);
    snprintf(own, sizeof own, "%s/git-ours", folder);
    git_must(git_repository_init_ext(&repo, bare, &options));
    git_must(git_repository_init_ext(&other, own, &options));
    git_repository_free(other);
    git_libgit2_opts(GIT_OPT_ENABLE_FSYNC_GITDIR, 1);
    struct apply *apply = ours_open(ARCHIVE_GIT, own);
    for (int i = 0; i < n; i++) {
        content_write(lroot_fd, i);
        int64_t began = bench_now_ns();
        git_bare(repo, i);
        took(began, &pair.bare_ns, &pair.bare);
        began = bench_now_ns();
        ours(apply, &arena, lroot_fd, i);
        took(began, &pair.ours_ns, &pair.ours);
    }
    pair_result(&pair, n);
    apply_close(apply);
    git_repository_free(repo);
    arena_release(&arena);
}

int main(int argc, char **argv)
{
    char path[512];
    if (argc != 3)
        bench_die("usage: base_commit FOLDER N");
    int64_t n = bench_number(argv[2]);
    if (git_libgit2_init() < 0 || apr_initialize() != APR_SUCCESS)
        bench_die("the libraries don't start");
    snprintf(path, sizeof path, "%s/lroot", argv[1]);
    mkdir(path, 0755);
    int lroot_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (lroot_fd < 0)
        bench_die("%s can't be made", path);
    svn_run(argv[1], lroot_fd, n);
    git_run(argv[1], lroot_fd, n);
    close(lroot_fd);
    return 0;
}
