#!/usr/bin/env python3
"""The executor's checkouts, from real Subversion and git repositories: the tree of the revision, shared and yet one's own."""
# time limit: 180
import concurrent.futures
import hashlib
import io
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import time
import zlib

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../unit/exec'))
from crew import TMP, Crew, Tap, poll, processes  # noqa: E402

tap = Tap()
env = {**os.environ, 'HOME': TMP, 'GIT_AUTHOR_NAME': 'a', 'GIT_AUTHOR_EMAIL': 'a@b', 'GIT_COMMITTER_NAME': 'a', 'GIT_COMMITTER_EMAIL': 'a@b',
       'GIT_CONFIG_NOSYSTEM': '1'}


def sh(script, **more):
    return subprocess.run(['sh', '-ec', script], cwd=TMP, env={**env, **more}, check=True, capture_output=True, text=True).stdout.strip()


def text(task):
    return bytes(task.log).decode(errors='replace')


sh('''svnadmin create svn
svn checkout -q "file://$PWD/svn" wc && cd wc
mkdir -p dir/deep && echo one >a && echo deep >dir/deep/b && printf '#!/bin/sh\\necho ran\\n' >run && chmod +x run
ln -s a link && svn add -q a dir run link && svn propset -q svn:executable '*' run && svn commit -qm one
echo two >a && svn rm -q dir/deep/b && echo new >dir/c && svn add -q dir/c && svn commit -qm two''')
svn = f'{TMP}/svn'
commits = sh('''git init -q -b main g && cd g && echo one >a && mkdir d && echo x >d/x && git add . && git commit -qm one && git rev-parse HEAD
echo two >a && git rm -q d/x && git commit -qam two && git rev-parse HEAD''').split()


def git_object(kind, data):
    """one that git itself would not write; its id, as bytes"""
    whole = f'{kind} {len(data)}'.encode() + b'\0' + data
    name = hashlib.sha1(whole).hexdigest()
    path = pathlib.Path(TMP, 'g/.git/objects', name[:2], name[2:])
    path.parent.mkdir(exist_ok=True)
    if not path.exists():
        path.write_bytes(zlib.compress(whole))
    return bytes.fromhex(name)


def at(rev, **more):
    return {'archive': 'ark', 'kind': 'svn', 'url': svn, 'rev': rev, 'prev': rev - 1, **more}


LIST = 'find . -mindepth 1 | sort | tr "\\n" " "; cat a; test -w a && echo writable'


def trees(crew):
    return sorted(name for name in os.listdir(pathlib.Path(crew.data, 'trees')) if not name.endswith('.lock'))


with Crew(slots=4) as crew:
    fake = crew.fake
    one = fake.add(source=at(1), script=LIST + '\n./run; readlink link; echo "$WEIR_ARCHIVE $WEIR_REV $WEIR_PREV_REV $WEIR_TASK"; pwd; echo $HOME',
                   name='build', archive='ark', rev=1)
    fake.wait_ended(one)
    lines = text(one).splitlines()
    tap.equal(lines[0], './a ./dir ./dir/deep ./dir/deep/b ./link ./run one', 'svn: the files of revision 1')
    tap.equal(lines[1:5], ['writable', 'ran', 'a', 'ark 1 0 build'], 'writable, executable, links, and the variables')
    tap.equal(lines[5], lines[6], 'HOME is the working directory')
    two = fake.add(source=at(2), script=LIST)
    fake.wait_ended(two)
    tap.equal(text(two).splitlines(), ['./a ./dir ./dir/c ./dir/deep ./link ./run two', 'writable'], 'svn: revision 2')
    tap.equal(len(trees(crew)), 2, 'two trees are kept')
    inodes = {os.stat(f'{crew.data}/trees/{tree}/run').st_ino for tree in trees(crew)}
    tap.equal(len(inodes), 1, 'a file that did not change is there once')

    git1 = fake.add(source={'archive': 'git', 'kind': 'git', 'url': f'{TMP}/g', 'rev': 1, 'commit': commits[0], 'prev': 0}, script=LIST)
    git2 = fake.add(source={'archive': 'git', 'kind': 'git', 'url': f'{TMP}/g', 'rev': 2, 'commit': commits[1], 'prev': 1}, script=LIST)
    fake.wait_ended(git1, git2)
    tap.equal((text(git1), text(git2)), ('./a ./d ./d/x one\nwritable\n', './a two\nwritable\n'), 'git: both revisions')

    # side by side in one revision: nobody sees what the other writes, and the tree stays what it was
    script = 'echo mine$N >a; rm -r dir; echo x >new$N; touch ../../../seen.$N; while ! test -e ../../../seen.$O; do sleep 0.05; done; cat a; ls'
    pair = [fake.add(source=at(2), script=script, env={'N': str(n), 'O': str(1 - n)}) for n in (0, 1)]
    fake.wait_ended(*pair)
    tap.equal([text(t) for t in pair], [f'mine{n}\na\nlink\nnew{n}\nrun\n' for n in (0, 1)], 'tasks of one revision have the files to themselves')
    again = fake.add(source=at(2), script=LIST)
    fake.wait_ended(again)
    tap.equal(text(again), text(two), 'and the next one finds the revision as it was')

    empty = fake.add(source=at(2), checkout=False, script='ls -A; echo "[$WEIR_REV]"', archive='ark', rev=2)
    outside = fake.add(source={'archive': 'x', 'kind': 'external', 'rev': 4, 'prev': 3}, script='ls -A; echo "[$WEIR_PREV_REV]"')
    fake.wait_ended(empty, outside)
    tap.equal((text(empty), text(outside)), ('[2]\n', '[3]\n'), 'checkout: false and external archives give an empty directory')

    # what can't be checked out comes back as temporary, with the reason
    rows = [('a revision that is not there', at(99), 'revision 99'), ('no repository', at(1, url=f'{TMP}/nothing'), 'no repository at'),
            ('not a repository', at(1, url=TMP), "can't be checked out"),
            ('a git commit that is not there', {'archive': 'git', 'kind': 'git', 'url': f'{TMP}/g', 'rev': 9, 'commit': '1' * 40}, "can't be checked out")]
    for name, source, words in rows:
        bad = fake.add(source=source, script='echo never')
        fake.wait_ended(bad)
        tap.ok(bad.finish.get('outcome') == 'temporary' and words in text(bad) and 'never' not in text(bad), name, (bad.finish, text(bad)))
        tap.ok(bad.finish.get('reason', '').startswith("can't be checked out: "), 'its end says why', bad.finish)
    # a git tree with one name twice, and one with '..': they can never be
    blob, other = git_object('blob', b'x'), git_object('blob', b'y')
    folder = git_object('tree', b'100644 b\0' + blob)
    for name, tree in (('a name twice', b'100644 q\0' + blob + b'100644 q\0' + other), ('a file that is a folder', b'100644 q\0' + blob + b'40000 q\0' + folder),
                       ("'..'", b'100644 ..\0' + blob)):
        commit = git_object('commit', b'tree %s\nauthor a <a> 1 +0000\ncommitter a <a> 1 +0000\n\nm\n' % git_object('tree', tree).hex().encode()).hex()
        pathlib.Path(TMP, f'g{len(name)}').symlink_to('g')  # another place: no tree is there to begin with
        bad = fake.add(source={'archive': 'git', 'kind': 'git', 'url': f'{TMP}/g{len(name)}', 'rev': 9, 'commit': commit}, script='echo never')
        fake.wait_ended(bad)
        tap.ok(bad.finish.get('outcome') == 'permanent' and 'never' not in text(bad) and "can't be checked out: " in bad.finish.get('reason', ''),
               f'a git tree with {name} fails at once', (bad.finish, text(bad)))
    shutil.copytree(svn, f'{TMP}/broken')
    pathlib.Path(TMP, 'broken/db/revs/0/2').chmod(0o644)
    pathlib.Path(TMP, 'broken/db/revs/0/2').write_bytes(b'rubbish' * 100)
    bad = fake.add(source=at(2, url=f'{TMP}/broken'), script='echo never')
    fine = fake.add(source=at(2), script='cat a')
    fake.wait_ended(bad, fine)
    tap.ok(bad.finish.get('outcome') == 'temporary' and text(fine) == 'two\n', 'a damaged repository disturbs nobody else', (bad.finish, text(bad)))

    # cancel while the checkout waits for somebody else's lock on the tree
    names = [n for n in os.listdir(f'{crew.data}/trees') if n.startswith('ark') and n.endswith('.2.lock')]
    slow = fake.add(source=at(2), script='sleep 60')
    poll(lambda: slow.state == 'X')
    poll(lambda: any(p for p in processes(slow.fence or 'none')))
    fake.cancel(slow)
    fake.wait_ended(slow)
    tap.equal(slow.finish.get('signal'), 15, 'a cancelled task with a checkout ends by TERM')
    mounts = pathlib.Path('/proc/self/mounts').read_text()
    tap.ok(crew.data not in mounts, 'no mount is left behind, and none is seen outside')
    tap.ok(poll(lambda: not [*pathlib.Path(crew.data, 'shims').glob('*/work/*'), *pathlib.Path(crew.data, 'shims').glob('*/layer/*')]),
           'no file of a job is left behind')

    # the same revision wanted by many at once is made once; a kill of the executor in the middle loses nothing
    sh('cd wc && for i in $(seq 200); do mkdir -p many/$i; seq 100 >many/$i/f; done && svn add -q many && svn commit -qm three')
    many = [fake.add(source=at(3), script='ls many | wc -l') for _ in range(8)]
    fake.wait_ended(*many, seconds=60)
    tap.equal({text(t).splitlines()[-1] for t in many}, {'200'}, # a slow checkout is told in the log before
              'eight tasks of one revision at the same time')
    tap.equal([n for n in trees(crew) if n.startswith('.')], [], 'no half tree is left')

with Crew(slots=2) as crew:  # a repository that can't be seen from here: the server sends the tree
    fake = crew.fake
    pack = io.BytesIO()
    with tarfile.open(fileobj=pack, mode='w', format=tarfile.PAX_FORMAT) as tar:
        for name, data, mode in (('a', b'from afar\n', 0o644), ('dir/run', b'#!/bin/sh\necho ran\n', 0o755), ('x' * 90 + '/' + 'y' * 90, b'long', 0o644),
                                 ('big', b'b' * 3_000_000, 0o644)):
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(data), mode
            tar.addfile(info, io.BytesIO(data))
        info = tarfile.TarInfo('link')
        info.type, info.linkname = tarfile.SYMTYPE, 'a'
        tar.addfile(info)
    fake.trees['/v1/archives/ark/revisions/1/tree'] = pack.getvalue()
    far = fake.add(source=at(1, url='/not/here'), script='cat link; dir/run; cat x*/y*; wc -c <big', token='t')
    fake.wait_ended(far)
    tap.equal(text(far), 'from afar\nran\nlong3000000\n', 'a tree that the server sends')

    def evil(build):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode='w') as tar:
            build(tar)
        return out.getvalue()

    def entry(tar, name, data=b'', **more):
        info = tarfile.TarInfo(name)
        info.size = len(data)
        for key, value in more.items():
            setattr(info, key, value)
        tar.addfile(info, io.BytesIO(data))

    def through(tar):
        entry(tar, 'd', type=tarfile.SYMTYPE, linkname='/tmp')
        entry(tar, f'd/{os.path.basename(TMP)}-evil', b'x')

    bad = {'..': evil(lambda t: entry(t, '../evil', b'x')), 'absolute': evil(lambda t: entry(t, f'{TMP}/evil', b'x')), 'through a link': evil(through),
           'hard link': evil(lambda t: entry(t, 'h', type=tarfile.LNKTYPE, linkname='/etc/passwd')), 'cut': pack.getvalue()[:5000],
           'rubbish': os.urandom(4096), 'device': evil(lambda t: entry(t, 'dev', type=tarfile.CHRTYPE))}
    for rev, (name, data) in enumerate(bad.items(), 10):
        fake.trees[f'/v1/archives/ark/revisions/{rev}/tree'] = data
        task = fake.add(source=at(rev, url='/not/here'), script='echo never')
        fake.wait_ended(task)
        again = name in ('cut', 'rubbish')  # the way it came may be the reason; else it is the tree itself
        tap.ok(task.finish.get('outcome') == ('temporary' if again else 'permanent') and "can't be checked out" in task.finish.get('reason', '') and
               'never' not in text(task), f'a tar is refused: {name}', (task.finish, text(task)))
    tap.ok(not pathlib.Path(TMP, 'evil').exists() and not pathlib.Path(f'/tmp/{os.path.basename(TMP)}-evil').exists(), 'nothing was written outside')

tap.end()
