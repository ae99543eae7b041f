/* Trees written out: equal to what svn export and git archive give; a changed tree equal to a whole one, on random
 * histories, without touching files that older trees share; nothing outside the folder, whatever the repository holds.
 */
#include "bed.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define ROUNDS 10

static struct arena arena;

static int drop(void **state)
{
    arena_release(&arena);
    return bed_drop(state);
}

static bool tar_write(void *context, struct str bytes)
{
    return fwrite(bytes.ptr, 1, bytes.len, context) == bytes.len;
}

/* tar_to: bed/NAME.tar, unpacked by tar into bed/NAME. */
static void tar_to(struct source *source, struct source_ident ident, const char *name)
{
    struct err err = { 0 };
    char path[128];
    snprintf(path, sizeof path, "%s/%s.tar", bed, name);
    FILE *file = fopen(path, "w");
    struct source_tar tar = { tar_write, file };
    bool good = source_export_tar(source, ident, &tar, NULL, &err);
    fclose(file);
    must(good, &err);
    sh("mkdir $T/%s && tar -xf $T/%s.tar -C $T/%s", name, name, name);
}

/* A tree with everything in it. $W: where. */
static const char tree[] =
    "cd $W && mkdir -p a/b/c empty 'with blank' && echo 1 > a/one && echo 2 > a/b/two && printf '' > a/b/c/nothing && "
    "chmod +x a/one\n"
    "head -c 200000 /dev/urandom > large && printf 'a\\r\\nb\\000\\377' > raw && ln -s ../../etc/passwd a/b/link && ln "
    "-s /abs abs && ln "
    "-s missing dangling\n"
    "echo x > 'with blank/$dollar \"quote\"' && echo u > \"$(printf 'umlaut-\\303\\244')\" && echo '$Id$' > keywords\n"
    "d=$(printf '%%0100d' 0) && mkdir -p $d/$d/$d && echo l > $d/$d/$d/$(printf '%%0200d' 1) && ln -s $(printf "
    "'%%0150d' 2) long-link && "
    "echo s > a-b && echo t > a.b\n";

static void svn_whole(void **state)
{
    (void)state;
    sh("svnadmin create $T/r && svn co -q file://$T/r $T/w");
    setenv("W", in("w"), 1);
    sh(tree);
    sh("cd $T/w && svn add -q --force . && svn ps -q svn:keywords Id keywords && svn ci -qm all");
    struct source *source = open_ok(ARCHIVE_SVN, in("r"), "");
    export_to(source, rev(1), "out");
    sh("svn export -q --ignore-keywords file://$T/r@1 $T/theirs");
    assert_true(trees_equal(in("out"), in("theirs")));
    assert_int_equal(sh_status("grep -qF '$Id$' $T/out/keywords"), 0);
    tar_to(source, rev(1), "tarred");
    assert_true(trees_equal(in("tarred"), in("theirs")));
    tar_to(source, rev(1), "tarred2");
    sh("cmp $T/tarred.tar $T/tarred2.tar");
    export_to(source, rev(0), "zero");
    sh("rmdir $T/zero");
    source_close(source);
}

static void git_whole(void **state)
{
    (void)state;
    sh("git init -q -b main $T/g");
    setenv("W", in("g"), 1);
    sh(tree);
    sh("cd $T/g && git add . && git update-index --add --cacheinfo "
       "160000,0123456789012345678901234567890123456789,sub/module && git "
       "commit -qm all");
    sh("mkdir $T/g-theirs && git -C $T/g archive main | tar -xf - -C $T/g-theirs");
    struct source *source = open_ok(ARCHIVE_GIT, in("g"), "");
    struct source_ident tip = git_id(in("g"), "main");
    export_to(source, tip, "g-out");
    assert_true(trees_equal(in("g-out"), in("g-theirs")));
    tar_to(source, tip, "g-tarred");
    assert_true(trees_equal(in("g-tarred"), in("g-theirs")));
    source_close(source);
}

/* One random step in the working tree $W. Names are few, so that kinds change places: file, folder, link, gone, with
 * and without x. */
static void step(const char *add, const char *remove, unsigned seed)
{
    setenv("ADD", add, 1);
    setenv("REMOVE", remove, 1);
    sh("python3 - %u <<'END'\n"
       "import os, random, subprocess, sys\n"
       "rng = random.Random(int(sys.argv[1]))\n"
       "os.chdir(os.environ['W'])\n"
       "def run(name, path):\n"
       "    subprocess.run(os.environ[name].split() + [path], check=True, stdout=subprocess.DEVNULL)\n"
       "for n in range(rng.randint(1, 6)):\n"
       "    path = '/'.join(rng.choice('abcd') for _ in range(rng.randint(1, 4)))\n"
       "    parts = path.split('/')\n"
       "    for i in range(1, len(parts)):\n"
       "        above = '/'.join(parts[:i])\n"
       "        if os.path.lexists(above) and (os.path.islink(above) or not os.path.isdir(above)):\n"
       "            run('REMOVE', above)\n"
       "            break\n"
       "    kind = rng.choice(['file', 'file', 'file', 'link', 'gone', 'exec', 'folder'])\n"
       "    if os.path.lexists(path) and (kind in ('gone', 'link', 'folder') or os.path.islink(path) or "
       "os.path.isdir(path)):\n"
       "        run('REMOVE', path)\n"
       "    if kind == 'gone':\n"
       "        continue\n"
       "    os.makedirs(os.path.dirname(path) or '.', exist_ok=True)\n"
       "    if kind == 'folder':\n"
       "        os.makedirs(path, exist_ok=True)\n"
       "        path += '/x'\n"
       "    if kind == 'link':\n"
       "        os.symlink(rng.choice(['..', 'a', '/etc/passwd', 'b/c']), path)\n"
       "    else:\n"
       "        open(path, 'w').write('%%d\\n' %% rng.randint(0, 9))\n"
       "        if kind == 'exec':\n"
       "            os.chmod(path, 0o755)\n"
       "    run('ADD', path)\n"
       "    if kind == 'exec' and 'svn' in os.environ['ADD']:\n"
       "        subprocess.run(['svn', 'ps', '-q', 'svn:executable', 'on', path], check=True)\n"
       "END\n",
        seed);
}

/* changed_equals_whole: each tree made from another one by what differs, forwards and backwards, beside a hard-link
 * clone that must stay.
 */
static void changed_equals_whole(struct source *source, const struct source_ident *idents, size_t n)
{
    char name[32], clone[32];
    for (size_t i = 0; i < n; i++) {
        snprintf(name, sizeof name, "whole%zu", i);
        export_to(source, idents[i], name);
    }
    sh("cp -a $T/whole0 $T/kept0");
    for (size_t i = 0; i < n * 2; i++) {
        size_t from = i < n ? i : (i * 7) % n, to = i < n ? (i + 1) % n : (i * 5 + 3) % n;
        snprintf(name, sizeof name, "whole%zu", to);
        snprintf(clone, sizeof clone, "clone%zu", i);
        sh("cp -al $T/whole%zu $T/%s", from, clone);
        export_changed_to(source, idents[from], idents[to], clone);
        assert_true(trees_equal(in(clone), in(name)));
        sh("rm -rf $T/%s", clone);
    }
    assert_true(trees_equal(in("kept0"), in("whole0"))); /* the bytes and modes that were shared are as they were */
    sh("rm -rf $T/whole* $T/kept0");
}

static void svn_changed(void **state)
{
    (void)state;
    struct source_ident idents[ROUNDS];
    sh("svnadmin create $T/rr && svn co -q file://$T/rr $T/rw && cd $T/rw && echo base > base && mkdir a && echo f > "
       "a/f && svn add -q "
       "base a && svn ci -qm 0");
    setenv("W", in("rw"), 1);
    for (unsigned i = 0; i < ROUNDS; i++) {
        step("svn add -q --parents --force", "svn rm -q --force", 100 + i);
        sh("cd $T/rw && svn ci -qm %u && svn up -q", i);
        if (i == ROUNDS / 2)
            sh("cd $T/rw && svn cp -q a copied && svn ci -qm copy && svn up -q");
    }
    struct source *source = open_ok(ARCHIVE_SVN, in("rr"), "");
    struct source_ident youngest;
    struct err err = { 0 };
    must(source_youngest(source, &arena, &youngest, &err), &err);
    assert_true(youngest.rev > ROUNDS / 2);
    size_t n = 0;
    for (int64_t i = youngest.rev; i >= 1 && n < ROUNDS; i--)
        idents[n++] = rev(i);
    changed_equals_whole(source, idents, n);
    source_close(source);
}

static void git_changed(void **state)
{
    (void)state;
    static char ids[ROUNDS][64];
    struct source_ident idents[ROUNDS];
    sh("git init -q -b main $T/gg && cd $T/gg && echo base > base && git add . && git commit -qm 0");
    setenv("W", in("gg"), 1);
    for (unsigned i = 0; i < ROUNDS; i++) {
        step("git add -A --", "rm -rf --", 200 + i);
        sh("cd $T/gg && git add -A . && git commit -q --allow-empty -m %u", i);
        snprintf(ids[i], sizeof ids[0], "%s", git_id(in("gg"), "main").id.ptr);
        idents[i] = id(ids[i]);
    }
    struct source *source = open_ok(ARCHIVE_GIT, in("gg"), "");
    changed_equals_whole(source, idents, ROUNDS);
    source_close(source);
}

static bool export_refused(
    struct source *source, struct source_ident ident, const struct source_export_options *options, struct err *err)
{
    sh("rm -rf $T/x && mkdir $T/x");
    int fd = open(in("x"), O_RDONLY | O_DIRECTORY);
    bool good = source_export(source, ident, fd, options, err);
    close(fd);
    return good;
}

/* A tree made by hand that no git would check out. */
static void bad_names(void **state)
{
    (void)state;
    static const char *const names[] = { "..", ".", ".git", ".GIT" };
    struct err err = { 0 };
    sh("git init -q --bare -b main $T/bad");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        sh("cd $T/bad && b=$(echo pwned | git hash-object -w --stdin) && python3 - $b '%s' > $T/tree <<'END'\n"
           "import sys\n"
           "sys.stdout.buffer.write(b'100644 ' + sys.argv[2].encode() + b'\\0' + bytes.fromhex(sys.argv[1]))\n"
           "END\n"
           "t=$(git hash-object -t tree -w --literally --stdin < $T/tree) && git update-ref refs/heads/main $(git "
           "commit-tree -m x $t)",
            names[i]);
        struct source *source = open_ok(ARCHIVE_GIT, in("bad"), "");
        said(export_refused(source, git_id(in("bad"), "main"), NULL, &err), &err,
            err.code == ERR_corrupt ? ERR_corrupt : ERR_invalid,
            err.code == ERR_corrupt ? "fsck" : "can't be checked out");
        source_close(source);
    }
    /* A link, and then a file below that link: libgit2 reads one name once, Subversion can't have it; the folder may
     * hold it already. */
    sh("svnadmin create $T/l && svn mkdir -qm 1 file://$T/l/a && echo x > $T/file && svn import -qm 2 $T/file "
       "file://$T/l/a/f\n"
       "mkdir $T/outside && rm -rf $T/x && mkdir $T/x && ln -s $T/outside $T/x/a");
    struct source *source = open_ok(ARCHIVE_SVN, in("l"), "");
    int fd = open(in("x"), O_RDONLY | O_DIRECTORY);
    bool good = source_export_changed(source, rev(1), rev(2), fd, NULL, &err);
    close(fd);
    assert_false(good);
    sh("rmdir $T/outside"); /* empty */
    source_close(source);
}

static bool stop_at_two(void *context, const struct source_progress *progress)
{
    (void)context;
    return progress->files < 2;
}

static void limits(void **state)
{
    (void)state;
    struct err err = { 0 };
    struct source *source = open_ok(ARCHIVE_SVN, in("r"), "");
    struct source_export_options few = { .files_max = 3 }, small = { .bytes_max = 1000 },
                                 stopped = { .progress = stop_at_two };
    said(export_refused(source, rev(1), &few, &err), &err, ERR_body_too_large, "more than 3 files");
    said(export_refused(source, rev(1), &small, &err), &err, ERR_body_too_large, "more than 1000 bytes");
    said(export_refused(source, rev(1), &stopped, &err), &err, ERR_unavailable, "stopped");
    said(export_refused(source, rev(99), NULL, &err), &err, ERR_not_found, "no revision 99");
    sh("mkdir $T/taken && echo mine > $T/taken/large");
    int fd = open(in("taken"), O_RDONLY | O_DIRECTORY);
    said(source_export(source, rev(1), fd, NULL, &err), &err, ERR_invalid, "File exists");
    close(fd);
    sh("grep -q mine $T/taken/large");
    source_close(source);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(svn_whole),
        cmocka_unit_test(git_whole),
        cmocka_unit_test(svn_changed),
        cmocka_unit_test(git_changed),
        cmocka_unit_test(bad_names),
        cmocka_unit_test(limits),
    };
    return cmocka_run_group_tests(tests, bed_make, drop);
}
