#!/usr/bin/env python3
"""RQ1: `cscheckin`: change sets made of files and of real working copies of svn and git; what is sent, byte by byte, and what is said of the answers."""
import io
import os
import pathlib
import subprocess
import sys
import tarfile
import threading

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / 'test/unit/cli'))
from fake_server import Fake
from tap import WEIR, Terminal, clean_env, end, has, ok, same

TMP = pathlib.Path(os.environ['TEST_TMP'])
BIN = TMP / 'bin'
BIN.mkdir()
(BIN / 'cscheckin').symlink_to(WEIR)
CSCHECKIN = str(BIN / 'cscheckin')
fake = Fake()
POST = '/v1/changesets'
fake.can('POST', POST, 202, dict(csid='c-17', name='c-17_4000_1_h_DC_ada', task=7, state='P'))


def sh(command, cwd):
    done = subprocess.run(['sh', '-ec', command], cwd=cwd, capture_output=True, text=True, env=clean_env(GIT_CONFIG_GLOBAL='/dev/null'))
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return done.stdout


def run(*args, cwd, stdin='', program=(CSCHECKIN,), target=True, env=None):
    fake.requests.clear()
    own = ['--target', 'docs', '--type', 'DC'] if target else []
    done = subprocess.run([*program, '--server', fake.url, *own, *args], cwd=cwd, input=stdin.encode() if isinstance(stdin, str) else stdin, capture_output=True, env=env or clean_env(), timeout=60)
    done.out, done.err = done.stdout.decode(errors='replace'), done.stderr.decode(errors='replace')
    return done


def sent():
    """(meta, {path: (bytes, executable)}, raw) of the tarball that was posted; None: nothing was"""
    posts = [r for r in fake.requests if r[0] == 'POST']
    if not posts:
        return None
    files, meta, raw = {}, None, posts[-1][3]
    with tarfile.open(fileobj=io.BytesIO(raw)) as tar:
        for member in tar:
            data = tar.extractfile(member).read()
            if member.name == 'meta':
                meta = data.decode()
            else:
                files[member.name] = (data, bool(member.mode & 0o111))
    return meta, files, raw


# -- git: what was changed, added, deleted; executable bits; odd names; nothing that is ignored or unknown
git = TMP / 'git'
git.mkdir()
sh('''git init -q -b main . && git config user.name ada && git config user.email ada@x
printf 'one\\n' >changed; echo x >'with blank'; echo gone >gone; mkdir d; echo s >d/run.sh; echo bit >bit; echo old >renamed; echo same >same; echo '*.o' >.gitignore
git add . && git commit -qm first''', git)
commit = sh('git rev-parse HEAD', git).strip()
done = run(cwd=git)
same((done.returncode, done.out, sent()), (65, '', None), 'a working copy without changes: exit 65, nothing is sent')
has(done.err, 'nothing has changed', '... and says so')
sh('''printf 'two\\n' >changed; echo y >>'with blank'; git rm -q gone; rm d/run.sh; chmod +x bit; git mv renamed new; echo o >x.o; echo u >unknown; mkdir dir; echo u >dir/u
printf 'uml' >'ü "q" \\'; printf b >$(printf 'a%.0s' $(seq 1 120)); git add 'ü "q" \\' aaa*; mkdir -p l; ''', git)
done = run('-m', 'First\n##not a section\n', cwd=git / 'l')
meta, files, raw = sent()
same(done.returncode, 0, 'git: the changes of the whole working copy, from a folder in it')
same(done.out, 'c-17\n', 'only the CSID goes to stdout')
long = 'a' * 120
same(files, {'lroot/changed': (b'two\n', False), 'lroot/with blank': (b'x\ny\n', False), 'lroot/bit': (b'bit\n', True), 'lroot/new': (b'old\n', False),
             'lroot/ü "q" \\': (b'uml', False), 'lroot/' + long: (b'b', False)}, 'files and executable bits; a rename is a file more')
same(meta, f'##movetype\nDC\n##target\ndocs\n##files\n{long}\nbit\nchanged\nnew\nwith blank\nü "q" \\\n##removed\nd/run.sh\ngone\nrenamed\n##base\n{commit}\n##message\nFirst\n ##not a section\n',
     'meta: files in order, what was removed, the commit as base, the message')
has(done.err, "2 paths aren't under version control: dir, ...", 'stderr names what was left out')
headers = [r[2] for r in fake.requests if r[0] == 'POST'][0]
same(headers['Content-Type'], 'application/x-tar', 'sent as a tar')
run('-m', 'First\n##not a section\n', cwd=git)
same(sent()[2] == raw, True, 'the same content gives the same bytes')
run('--overwrite', '--depends', 'c-1', '--depends', 'c-2', '--ticket', 'OPS-1', cwd=git)
same(sent()[0].split('##removed')[1], '\nd/run.sh\ngone\nrenamed\n##dependencies\nc-1\nc-2\n##approval\nOPS-1\n', '--overwrite leaves the base out; dependencies, ticket; no message')

# -- PATH: files as they are, folders' changes
done = run('changed', 'same', 'unknown', './d/../x.o', 'gone', cwd=git)
same((sorted(sent()[1]), sent()[0].split('##removed\n')[1].split('##')[0]), (['lroot/changed', 'lroot/same', 'lroot/unknown', 'lroot/x.o'], 'gone\n'),
     'PATH: files are taken as they are, known or not; one that was deleted is removed')
done = run('../git/d', cwd=git)
same((sent()[1], 'd/run.sh\n##base' in sent()[0]), ({}, True), "a folder: the changes below it")
for args, status, text in ((['nothing'], 66, 'there is no file nothing'), (['../svn'], 65, "isn't below"), (['l'], 65, 'nothing has changed in l'), (['changed', '/etc/passwd'], 65, "isn't below"),):
    done = run(*args, cwd=git)
    same((done.returncode, text in done.err, sent()), (status, True, None), f'PATH {args[-1]}: exit {status}')
sh('ln -s same link; git add link', git)
done = run(cwd=git)
same((done.returncode, sent()), (65, None), 'a link is refused')
has(done.err, 'link: is a link', '... with its name')
same(run('link', cwd=git).returncode, 65, '... by its name too')
sh('git rm -qf link; printf x >"$(printf "line\\nend")"; git add line*', git)
done = run(cwd=git)
same((done.returncode, sent()), (65, None), 'a name that no change set can carry is refused')
has(done.err, 'control character', '... with the reason')
sh('git rm -qf line*; git stash -q; git checkout -q -b other; echo o >changed; git commit -qam o; git checkout -q main; echo m >changed; git commit -qam m; git merge other || true', git)
done = run(cwd=git)
same((done.returncode, 'changed: has a conflict' in done.err, sent()), (65, True, None), 'a conflict that is not resolved is refused')
empty = TMP / 'empty'
sh('git init -q empty && cd empty && echo a >a && git add a', TMP)
run(cwd=empty)
same((sent()[1], '##base' in sent()[0]), ({'lroot/a': (b'a\n', False)}, False), 'a repository without a commit: no base')

# -- svn
repo, svn = TMP / 'svnrepo', TMP / 'svn'
sh('svnadmin create svnrepo && svn co -q "file://$PWD/svnrepo" svn', TMP)
sh('''echo 1 >a; echo e >'e & <"'; mkdir d d/in; echo 1 >d/x; echo 2 >d/in/y; echo k >keep; echo s >s.sh; echo lost >lost; printf m >mode
svn add -q * && svn propset -q svn:executable on s.sh && svn commit -qm1 && echo 2 >>a && svn commit -qm2''', svn)
sh('''echo 3 >>a; echo f >>'e & <"'; svn rm -q keep; svn mv -q d moved; echo z >moved/in/new; svn add -q moved/in/new; echo t >>s.sh; rm lost; echo u >unknown; chmod +x mode; echo m >>mode
svn propset -q svn:ignore '*.o' .; echo o >x.o; svn mkdir -q hollow''', svn)
done = run('-m', 'svn', cwd=svn / 'moved' / 'in')
meta, files, _ = sent()
same(done.returncode, 0, 'svn: the changes of the whole working copy')
same(files, {'lroot/a': (b'1\n2\n3\n', False), 'lroot/e & <"': (b'e\nf\n', False), 'lroot/mode': (b'mm\n', False), 'lroot/moved/in/new': (b'z\n', False), 'lroot/moved/in/y': (b'2\n', False),
             'lroot/moved/x': (b'1\n', False), 'lroot/s.sh': (b's\nt\n', True)}, 'svn: a moved folder with all in it; executable is what svn:executable says')
same(meta.split('##removed\n')[1], 'd\nkeep\n##base\n1\n##message\nsvn\n', 'svn: what was removed; the oldest revision that a changed file was made from is the base')
has(done.err, "svn misses 1 path: lost", 'a file that is only missing is left out, and named')
has(done.err, "1 path isn't under version control: unknown", '... and one that svn does not know')
done = run('lost', 'unknown', 's.sh', cwd=svn)
same((sorted(sent()[1]), '##removed\nlost\n' in sent()[0]), (['lroot/s.sh', 'lroot/unknown'], True), 'by name both are taken')
done = run(cwd=svn, env=dict(clean_env(), PATH=str(BIN)))
same((done.returncode, sent()), (66, None), 'svn is not installed: exit 66')
has(done.err, 'the program svn can', '... and says so')

# -- files outside of working copies
plain = TMP / 'plain'
sh('mkdir -p plain/t/u; cd plain; echo 1 >t/a; echo 2 >t/u/b; chmod +x t/u/b; echo 3 >c', TMP)
run('t', 'c', cwd=plain)
same((sent()[1], '##base' in sent()[0]), ({'lroot/c': (b'3\n', False), 'lroot/t/a': (b'1\n', False), 'lroot/t/u/b': (b'2\n', True)}, False), 'outside of a working copy: files, folders with all in them, no base')
done = run(cwd=plain)
same((done.returncode, sent()), (66, None), 'no PATH and no working copy: exit 66')
sh('ln -s c t/l', plain)
same(run('t', cwd=plain).returncode, 65, 'a link in a folder is refused')

# -- the message
done = run('-m', '-', 'c', cwd=plain, stdin='from stdin\n\nand more\n\n')
same(sent()[0].split('##message\n')[1], 'from stdin\n\nand more\n', '-m -: the message from stdin')
editor = TMP / 'editor'
editor.write_text('#!/bin/sh\ncat "$2" >"$EDITED"\n[ "$1" = --fail ] && exit 3\nprintf "%s" "$EDIT" | cat - "$2" >"$2.n" && mv "$2.n" "$2"\n')
editor.chmod(0o755)


def edited(text, option='--x'):
    fake.requests.clear()
    env = dict(clean_env(EDITOR=f'{editor} {option}', EDIT=text, EDITED=str(TMP / 'edited')))
    terminal = Terminal('cs', 'submit', '--server', fake.url, '--target', 'docs', '--type', 'BF', str(plain / 'c'), env=env)
    return terminal.exit(), terminal.text


os.chdir(plain)
status, text = edited('By the editor')
same((status, sent()[0].split('##message\n')[1]), (0, 'By the editor\n'), 'on a terminal: $EDITOR, which may have options')
has((TMP / 'edited').read_text(), 'M c\n', 'the editor is shown the files')
status, text = edited('')
same((status, sent()), (65, None), 'an empty message ends it')
has(text, 'the message is empty', '... and says so')
same(edited('x', '--fail')[0], 65, 'the editor failed: nothing is submitted')

# -- a ready tarball, streamed from its file
big = TMP / 'big.tar'
with open(big, 'wb') as out:
    out.write(b'x' * 20_000_000)
done = run('--tarball', str(big), cwd=TMP, target=False, program=(WEIR, 'cs', 'submit'))
same((done.returncode, [len(r[3]) for r in fake.requests if r[0] == 'POST']), (0, [20_000_000]), '--tarball: its bytes as they are')
same(run('--tarball', 'none.tar', cwd=TMP, target=False).returncode, 66, 'no such tarball: exit 66')
same(run('--tarball', str(TMP), cwd=TMP, target=False).returncode, 65, 'a folder is no tarball: exit 65')
for args in (['--tarball', str(big), '-m', 'x'], ['--tarball', str(big), 'PATH'], ['c'], ['--type', 'RB', '--target', 'docs', 'c'], ['--type', 'DC', 'c'], ['--target', 'docs', '--type', 'DC', '--wait', '--check', 'c']):
    same(run(*args, cwd=plain, target=False).returncode, 2, f'usage error: {" ".join(args[:3])}')

# -- what the server answers
fake.can('POST', POST, 200, dict(csid='c-9', name='n', task=4, state='D'))
done = run('c', cwd=plain)
same((done.returncode, done.out), (0, 'c-9\n'), 'content that was submitted before: its CSID')
has(done.err, 'submitted before, as c-9 (D done); --again', '... and stderr says so, and names --again')
fake.can('POST', POST + '?again=1', 202, dict(csid='c-18', name='n', task=8, state='P'))
done = run('--again', 'c', cwd=plain)
same((done.returncode, done.out, done.err), (0, 'c-18\n', ''), '--again is asked for')
same(run('--json', 'c', cwd=plain).out, '{"csid":"c-9","name":"n","task":4,"state":"D"}\n', '--json: the answer')
fake.problem('POST', POST, 422, 'invalid', 'the change set is refused', errors=[dict(path='docs/x', line=6, message="is listed and isn't in the tarball"), dict(path='y', message='has links')])
done = run('c', cwd=plain)
same((done.returncode, done.out), (65, ''), 'refused content: exit 65')
has(done.err, "docs/x: 6: is listed and isn't in the tarball", '... with each fault')
has(done.err, 'y: has links', '... all of them')
for status, code, wanted in ((413, 'body_too_large', 65), (403, 'forbidden', 77), (401, 'unauthorized', 77), (409, 'csid_taken', 1), (503, 'unavailable', 69), (507, 'disk_full', 75), (429, 'too_many', 75)):
    fake.problem('POST', POST, status, code, 'no')
    same(run('c', cwd=plain).returncode, wanted, f'{code}: exit {wanted}')
fake.problem('POST', POST, 404, 'not_found', 'there is no target docs')
same(run('c', cwd=plain).returncode, 66, 'no such target: exit 66')
same(subprocess.run([CSCHECKIN, '--server', 'http://127.0.0.1:9', '--target', 'd', '--type', 'DC', 'c'], cwd=plain, capture_output=True, env=clean_env()).returncode, 69, 'no server: exit 69')
CHECK = POST + '?check=1'
fake.can('POST', CHECK, 200, dict(precursors=[], conflicts=[], looked=True))
done = run('--check', 'c', cwd=plain)
same((done.returncode, done.out, done.err), (0, '', 'nothing is in the way; nothing was stored\n'), '--check: nothing in the way')
fake.can('POST', CHECK, 200, dict(precursors=[], conflicts=[], looked=False, unlooked='the repository is away'))
same(run('--check', 'c', cwd=plain).err, "conflicts weren't looked for: the repository is away\n", '--check: what was not looked for is not said to be fine')
fake.can('POST', CHECK, 200, dict(precursors=['c-3'], looked=True, conflicts=[dict(path='c', message='c: lines 3 to 5 were changed by c-4')]))
done = run('--check', 'c', cwd=plain)
same((done.returncode, done.out), (1, 'precursor  c-3\nconflict   c: lines 3 to 5 were changed by c-4\n'), '--check: precursors and conflicts, exit 1')
done = run('c', cwd=plain, program=(WEIR, 'cs', 'check'))
same(done.returncode, 1, 'weir cs check is the same')

# -- --wait: follows events, says where it stands and how it ended
fake.can('POST', POST, 202, dict(csid='c-17', name='n', task=7, state='P'))
number = fake.add('c-17', 'P', queue='docs')


def stands(**more):
    fake.can('GET', POST + '/c-17', 200, dict(csid='c-17', target='docs', state='P') | more)


def waited(steps, *args):
    stands(position=3)
    process = subprocess.Popen([CSCHECKIN, '--server', fake.url, '--target', 'docs', '--type', 'DC', '--wait', *args, 'c'], cwd=plain, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=clean_env())
    lines = []
    for seen, more in steps:
        for line in process.stderr:
            lines.append(line.decode())
            if seen in lines[-1]:
                break
        stands(**more)
        with fake.changed:
            fake.events.append(dict(seq=len(fake.events) + 1, kind='move', task=99, key='docs:c-16', to='D', actor='x'))
            fake.changed.notify_all()
    out, err = process.communicate(timeout=30)
    return process.returncode, out.decode(), ''.join(lines) + err.decode()


status, out, err = waited([('position 3', dict(position=1)), ('position 1', dict(state='X')), ('executing', dict(state='D', revision=12))])
same((status, out), (0, 'c-17\n'), '--wait: done, exit 0; only the CSID on stdout')
same(err, 'c-17  P pending, position 3\nc-17  P pending, position 1\nc-17  X executing\nc-17  D done, revision 12\n', '... each position and state on stderr')
status, out, err = waited([('position 3', dict(state='F', reason='a.txt: lines 3 to 5 were changed by c-4'))])
same((status, out), (1, 'c-17\n'), '--wait: it failed, exit 1')
has(err, 'c-17  F failed: a.txt: lines 3 to 5 were changed by c-4\n', '... with the reason')

# -- the name
done = subprocess.run([CSCHECKIN, '--help'], capture_output=True, text=True, env=clean_env())
same((done.returncode, 'cscheckin' in done.stdout), (0, True), 'cscheckin --help')
fake.close()
end()
