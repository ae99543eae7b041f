#!/usr/bin/env python3
"""RQ1: change sets from working copies of svn and git to a real server: accepted, known again, refused, and found by their CSID wherever a key does."""
import json
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, os.environ.get('WEIR_TEST_LIB') or str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
from house import TMP, WEIR, House, clean_env, end, ok, same

s = House('data', slots=0)
ENV = clean_env(GIT_CONFIG_GLOBAL='/dev/null', GIT_AUTHOR_NAME='Ann', GIT_AUTHOR_EMAIL='ann@example.org', GIT_COMMITTER_NAME='Ann', GIT_COMMITTER_EMAIL='ann@example.org')


def sh(text, cwd=TMP):
    done = subprocess.run(['sh', '-ec', text], cwd=cwd, capture_output=True, env=ENV)
    if done.returncode:
        raise SystemExit(f'Bail out! {text}: {done.stderr.decode()}')
    return done.stdout.decode()


def weir(*args, cwd=TMP, timeout=60):
    done = subprocess.run([WEIR, *args[:2 if args[0] in ('cs', 'archive') else 1], '--server', s.socket, *args[2 if args[0] in ('cs', 'archive') else 1:]], capture_output=True, cwd=cwd, env=ENV, timeout=timeout)
    done.code, done.out, done.err = done.returncode, done.stdout.decode(), done.stderr.decode()
    return done


sh('''svnadmin create repo; svn co -q "file://$PWD/repo" svn; git init -q --bare -b main bare.git; git init -q -b main git
cd git; echo 1 >a; git add a; git commit -qm 1; git push -q ../bare.git main''')
sh('echo one >a; echo two >b; svn add -q a b; svn commit -qm 1; svn up -q', TMP / 'svn')
same(weir('archive', 'add', 'docs', '--svn', str(TMP / 'repo'), '--no-hook').code, 0, 'a Subversion archive is a target of its name')
same(weir('archive', 'add', 'site', '--git', str(TMP / 'bare.git'), '--no-hook').code, 0, 'and so is a git archive')

# -- accepted, whatever the working copy
sh('echo more >>a; svn rm -q b; mkdir -p d; echo x >d/run.sh; chmod +x d/run.sh; svn add -q d', TMP / 'svn')
done = weir('cs', 'check', '--target', 'docs', '--type', 'DC', '-m', 'First', cwd=TMP / 'svn')
same((done.code, done.out), (0, ''), 'checked: nothing in the way')
done = weir('cs', 'submit', '--target', 'docs', '--type', 'DC', '-m', 'First', cwd=TMP / 'svn')
first = done.out.strip()
ok(done.code == 0 and first and done.err == '', 'svn: a change set is accepted', done.code, done.out, done.err)
task = s.get(f'/v1/tasks/{first}').json
same((task['key'], task['state']), (dict(target='docs', name=first), 'P'), 'it is a task of its target, pending')
sh('echo 2 >>a; echo n >new; git add new', TMP / 'git')
done = weir('cs', 'submit', '--target', 'site', '--type', 'BF', '--json', cwd=TMP / 'git')
ok(done.code == 0 and json.loads(done.out)['name'].split('_')[4] == 'BF', 'git: a change set is accepted', done.out, done.err)

# -- known again
done = weir('cs', 'submit', '--target', 'docs', '--type', 'DC', '-m', 'First', cwd=TMP / 'svn')
same((done.code, done.out.strip()), (0, first), 'the same content again: the same CSID')
ok(f'submitted before, as {first} (P pending)' in done.err and '--again' in done.err, '... and stderr says so', done.err)
sh('echo still more >>a', TMP / 'svn')
second = weir('cs', 'submit', '--target', 'docs', '--type', 'DC', '--depends', first, cwd=TMP / 'svn').out.strip()
ok(second and second != first, 'other content: another one', second)
done = weir('cs', 'check', '--target', 'docs', '--type', 'DC', '-m', 'other', 'a', cwd=TMP / 'svn')
ok(f'precursor  {second}' in done.out, 'check shows what it would wait for', done.out, done.err)

# -- conflicts: what others committed since
sh('svn co -q "file://$PWD/repo" other; cd other; echo theirs >>a; svn commit -qm theirs')
done = weir('cs', 'check', '--target', 'docs', '--type', 'DC', 'a', cwd=TMP / 'svn')
ok(done.code == 1 and 'conflict   a' in done.out, 'check: a line that somebody else changed since is a conflict, exit 1', done.code, done.out, done.err)
done = weir('cs', 'check', '--target', 'docs', '--type', 'DC', '--overwrite', 'a', cwd=TMP / 'svn')
ok(done.code == 0 and 'conflict' not in done.out, '... but not with --overwrite', done.code, done.out, done.err)
sh('git clone -q bare.git git2; cd git2; echo theirs >>a; git commit -qam theirs; git push -q origin main')
done = weir('cs', 'check', '--target', 'site', '--type', 'DC', 'a', cwd=TMP / 'git')
ok(done.code == 1 and 'conflict   a' in done.out, 'git: the same', done.code, done.out, done.err)

# -- refused: each fault a line, exit 65, nothing left behind
before = s.get('/v1/tasks').json['tasks'][0]['id']
done = weir('cs', 'submit', '--target', 'nowhere', '--type', 'DC', cwd=TMP / 'svn')
ok(done.code in (65, 66) and 'nowhere' in done.err and done.out == '', 'an unknown target', done.code, done.err)
done = weir('cs', 'submit', '--target', 'docs', '--type', 'DC', '--depends', 'c-none', cwd=TMP / 'svn')
ok(done.code == 65 and 'c-none' in done.err, 'an unknown dependency: exit 65', done.code, done.err)
(TMP / 'not.tar').write_bytes(b'no tar at all' * 100)
same(weir('cs', 'submit', '--tarball', 'not.tar').code, 65, 'no tar: exit 65')
(TMP / 'empty.tar').write_bytes(b'')
same(weir('cs', 'submit', '--tarball', 'empty.tar').code, 65, 'an empty body: exit 65')
sh('mkdir -p t/lroot; printf "##movetype\\nDC\\n##target\\ndocs\\n##files\\na\\nb\\n" >t/meta; echo >t/lroot/a; tar -C t -cf bad.tar meta lroot')
done = weir('cs', 'submit', '--tarball', 'bad.tar')
ok(done.code == 65 and 'b: 7:1: ' in done.err, 'a file that meta lists and the tarball lacks: its name on a line', done.code, done.err)
same(s.get('/v1/tasks').json['tasks'][0]['id'], before, 'nothing was left behind')

# -- --wait: until its end, which is somebody's cancel here
sh('echo waited >w; svn add -q w', TMP / 'svn')
waiting = subprocess.Popen([WEIR, 'cs', 'submit', '--server', s.socket, '--target', 'docs', '--type', 'DC', '--wait', 'w'], cwd=TMP / 'svn', env=ENV, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
third = waiting.stdout.readline().decode().strip()
ok(third.startswith('c'), '--wait: the CSID comes at once', third)
same(weir('cancel', third, '--reason', 'not that one').code, 0, 'it is cancelled meanwhile')
rest, err = (text.decode() for text in waiting.communicate(timeout=60))
same((waiting.returncode, rest), (1, ''), 'the wait ends: exit 1, only the CSID on stdout')
ok(f'{third}  T terminated' in err and 'not that one' in err, '... with how it ended and why on stderr', err)

# -- a CSID wherever a key does
for command in (['show'], ['why'], ['history'], ['graph']):
    for key in (second, 'docs:' + second):
        done = weir(*command, key)
        ok(done.code == 0 and second in done.out, f'weir {command[0]} {"CSID" if key == second else "TARGET:CSID"}', done.code, done.out, done.err)
done = weir('status', 'docs')
ok(done.code == 0 and 'target' in done.out and 'archive' in done.out, 'weir status: the archive and the target of its name', done.out, done.err)
done = weir('cancel', second, '--reason', 'not now')
ok(done.code == 0 and 'T terminated' in done.out, 'weir cancel CSID', done.out, done.err)
done = weir('wait', second)
same((done.code, done.out.split()[0]), (1, 'T'), 'weir wait CSID: how it ended')
same(weir('wait', 'c-none').code, 66, 'weir wait of a CSID that is none: exit 66')
end()
