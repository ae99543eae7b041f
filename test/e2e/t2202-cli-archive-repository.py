#!/usr/bin/env python3
"""Archives of real repositories, added at the command line: paths made absolute, hooks beside hooks, what is wrong said; trees and hints over HTTP."""
import io
import os
import pathlib
import stat
import subprocess
import sys
import tarfile

sys.path.insert(0, os.environ.get('WEIR_TEST_LIB') or str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
from house import TMP, WEIR, House, clean_env, end, ok, refused, same, until

s = House('data', slots=2)
ENV = clean_env(GIT_CONFIG_GLOBAL='/dev/null', GIT_AUTHOR_NAME='Ann', GIT_AUTHOR_EMAIL='ann@example.org', GIT_COMMITTER_NAME='Ann', GIT_COMMITTER_EMAIL='ann@example.org')
WF = '- name: hello\n  script: |\n    echo "hello $WEIR_REV"; ls\n'


def sh(text):
    done = subprocess.run(['sh', '-ec', text], cwd=TMP, capture_output=True, env=ENV)
    if done.returncode:
        raise SystemExit(f'Bail out! {text}: {done.stderr.decode()}')
    return done.stdout.decode()


def part(*args, cwd=TMP):
    done = subprocess.run([WEIR, 'archive', args[0], '--server', s.socket, *args[1:]], capture_output=True, cwd=cwd, env=clean_env())
    done.code, done.out, done.err = done.returncode, done.stdout.decode(), done.stderr.decode()
    return done


def known(archive, rev):
    return s.get(f'/v1/archives/{archive}/revisions/{rev}').status == 200


sh(f'''svnadmin create svn; mkdir -p start/_workflows start/src; printf '%s' '{WF}' > start/_workflows/a.yaml; echo x > start/src/x.c; ln -s x.c start/src/link
svn import -q -m one start "file://$PWD/svn"; svn mkdir -q -m two "file://$PWD/svn/more"''')
(TMP / 'svn/hooks/post-commit').write_text('#!/bin/sh\necho "$2" >> "$1/seen"\n')
(TMP / 'svn/hooks/post-commit').chmod(0o750)
before = (TMP / 'svn/hooks/post-commit').read_bytes()

# -- Subversion, by a relative path
done = part('add', 'docs', '--svn', 'svn')
ok(done.code == 0 and done.out == 'docs: svn, next revision 3\n' and 'hooks/post-commit' in done.err, 'archive add --svn: from the next revision on, with a hook', done.out, done.err)
archive = s.get('/v1/archives/docs').json
same((archive['url'], archive['from'], archive['next'], archive['kind']), (str((TMP / 'svn').resolve()), 3, 3, 'svn'), 'the path was made absolute')
ok(archive['watch']['state'] in ('ok', 'behind') and archive['notify'].endswith('notify.sock'), 'it is followed', archive)
sh('svn mkdir -q -m three "file://$PWD/svn/three"')
ok(until(lambda: known('docs', 3), seconds=20), 'a commit is heard of')
same((TMP / 'svn/seen').read_text().split()[0], '3', 'the hook that was there goes on')
same(s.cli('wait', 'docs@3', '--timeout', '60s').code, 0, 'and done')
same(s.cli('log', 'docs@3:hello').out.split(), ['hello', '3', '_workflows', 'more', 'src', 'three'], 'in a checkout of that revision')
ok('hook       installed' in part('show', 'docs').out, 'archive show tells of the hook')
revision = s.get('/v1/archives/docs/revisions/3').json
same((revision['message'], revision['definition']), ('three', [dict(name='_workflows/a.yaml', text=WF)]), 'message and definition as of the revision')
same(part('add', 'docs', '--svn', 'svn').code, 0, 'again: 0')
same(part('add', 'docs', '--svn', 'svn', '--no-hook').code, 0, 'and without a hook')
ok(part('add', 'docs', '--external').code == 1, 'as something else: 1')
done = part('add', 'all-of-it', '--svn', 'svn', '--from', '1', '--no-hook')
ok(done.code == 0 and 'hook' not in done.err, '--no-hook', done.err)
ok(until(lambda: known('all-of-it', 3), seconds=20), '--from 1 takes the history')
same(s.cli('wait', 'all-of-it', '--timeout', '60s').code, 0, 'and it is done')
same([r['rev'] for r in s.get('/v1/archives/all-of-it/revisions').json['revisions']][-3:], [3, 2, 1], 'all of it')
done = part('add', 'by-url', '--svn', f'file://{TMP}/svn', '--no-hook')
same((done.code, s.get('/v1/archives/by-url').json['url']), (0, f'file://{TMP}/svn'), 'by URL')

# -- a workflow with a fault: said in the log of a task WORKFLOW, and nobody waits
sh('''svn checkout -q "file://$PWD/svn" wc; printf -- "- name: hello\\n  comand: ls\\n  depends: [nobody]\\n" > wc/_workflows/a.yaml; svn commit -q -m four wc''')
ok(until(lambda: known('docs', 4), seconds=20), 'a commit with a faulty workflow')
same({t['key']['name']: t['state'] for t in s.get('/v1/archives/docs/revisions/4').json['tasks']}, dict(COMMIT='D', WORKFLOW='F'), 'COMMIT and a failed WORKFLOW')
log = s.cli('log', 'docs@4:WORKFLOW').out
ok('_workflows/a.yaml:2:3: error' in log and "did you mean 'command'?" in log and ':3:' in log and '^' in log, 'weir log: every diagnostic, as a compiler gives it', log)
ok('a.yaml:2:3' in s.cli('show', 'docs@4:WORKFLOW').out, 'weir show: the first one', s.cli('show', 'docs@4:WORKFLOW').out)
same(s.cli('wait', 'docs@4', '--timeout', '20s').code, 1, 'weir wait: 1')
same(s.cli('plan', 'docs@4').code, 65, 'weir plan of it: 65')
same(s.cli('run', 'docs', 'hello', '--rev', '4').code, 66, 'nothing of it can be run')
(TMP / 'wc/_workflows/a.yaml').write_text(WF)
sh('svn commit -q -m five wc')
ok(until(lambda: known('docs', 5), seconds=20) and s.cli('wait', 'docs@5', '--timeout', '60s').code == 0, 'the next revision runs')

# -- git, an ordinary repository and a bare one
sh(f'''git init -q -b main plain; cd plain; mkdir _workflows; printf '%s' '{WF}' > _workflows/a.yaml; git add .; git commit -q -m first; git commit -q --allow-empty -m second
cd ..; git clone -q --bare plain bare.git''')
done = part('add', 'plain', '--git', 'plain', '--from', '1')
ok(done.code == 0 and '.git/hooks/post-receive' in done.err, 'archive add --git of an ordinary one: its hook is inside', done.out, done.err)
done = part('add', 'beyond', '--git', 'bare.git', '--branch', 'main', '--from', '900')
ok(done.code == 65 and '/from' in done.err and '/url' not in done.err, 'a --from beyond the branch is said of --from', done.code, done.err)
done = part('add', 'bare', '--git', 'bare.git', '--branch', 'main', '--from', '2')
ok(done.code == 0 and 'bare.git/hooks/post-receive' in done.err, 'of a bare one', done.out, done.err)
same((s.get('/v1/archives/plain').json['branch'], s.get('/v1/archives/bare').json['from']), ('main', 2), 'the branch is found; --from counts')
sh('cd plain; git commit -q --allow-empty -m third; git push -q ../bare.git main')
for name in ('plain', 'bare'):
    ok(until(lambda: known(name, 3), seconds=20), f'{name}: its third commit')
    same(s.get(f'/v1/archives/{name}/revisions/3').json['message'].strip(), 'third', f'{name}: is revision 3')
same(s.get('/v1/archives/plain/revisions/3').json['commit'], sh('git -C plain rev-parse main').strip(), 'with its commit')
same(known('bare', 1), False, 'what is before --from is not taken')

# -- trees
answer = s.get('/v1/archives/docs/revisions/3/tree')
tar = tarfile.open(fileobj=io.BytesIO(answer.body))
same((answer.status, answer.headers['Content-Type']), (200, 'application/x-tar'), 'the tree of a revision')
same({m.name for m in tar if not m.isdir()}, {'_workflows/a.yaml', 'src/x.c', 'src/link'}, 'its files')
same((tar.getmember('src/link').linkname, tar.extractfile('src/x.c').read()), ('x.c', b'x\n'), 'as they are')
same(s.get('/v1/archives/docs/revisions/3/tree').body, answer.body, 'the same bytes each time')
same(s.get('/v1/archives/plain/revisions/1/tree').status, 200, 'of git too')
same(s.get('/v1/archives/docs/revisions/99/tree').status, 404, 'of no revision: 404')

# -- hints
same((s.post('/v1/archives/docs/revisions', dict(rev=3)).status, s.post('/v1/archives/docs/revisions', dict(rev=3)).json), (200, dict(archive='docs', rev=3)), 'a hint of what is known: 200')
same(s.post('/v1/archives/docs/revisions', dict(rev=6, txn='5-6')).status, 202, 'of what is not there yet: 202')
refused(s.post('/v1/archives/docs/revisions', dict(rev=10 ** 12)), 422, 'gap_too_large', text='of one that can not be')
refused(s.post('/v1/archives/docs/revisions', dict(rev=4, workflow=[])), 422, 'invalid', '/workflow', 'with a workflow')
same(known('docs', 6), False, 'a hint alone makes nothing')
same(s.ask('HEAD', '/v1/archives/docs/revisions/3/tree').status, 200, 'HEAD of a tree')

# -- what is wrong
(TMP / 'nothing').mkdir()
(TMP / 'file').write_text('x')
for args, code, text in [(('x', '--svn', 'nothing'), 65, 'Subversion'), (('x', '--git', 'nothing'), 65, 'git'), (('x', '--svn', '/not/there'), 65, '/not/there'), (('x', '--svn', 'not/there'), 66, 'not/there'),
                         (('x', '--git', 'plain', '--branch', 'none'), 65, 'none'), (('x', '--svn', 'file'), 65, 'file')]:
    done = part('add', *args)
    ok(done.code == code and text in done.err and s.get('/v1/archives/x').status == 404, f'archive add {" ".join(args)}: {code}', done.code, done.err)

# -- a repository that goes away is a fault of that archive, and no other's
(TMP / 'plain').rename(TMP / 'gone')
fault = until(lambda: s.get('/v1/archives/plain').json['watch']['state'] == 'fault', seconds=60)
ok(fault and s.get('/v1/archives/plain').json['watch'].get('fault'), 'the archive says what is wrong', s.get('/v1/archives/plain'))
ok('plain' in part('list').out and 'fault' in part('list').out, 'archive list too', part('list').out)
ok("can't be read" in s.cli('status', 'plain').out, 'and status', s.cli('status', 'plain').out)
same(s.get('/v1/archives/docs').json['watch']['state'], 'ok', 'others go on')
(TMP / 'gone').rename(TMP / 'plain')
ok(until(lambda: s.get('/v1/archives/plain').json['watch']['state'] == 'ok', seconds=60), 'it comes back by itself')

# -- removing puts the old hook back
same(part('remove', 'docs').code, 0, 'archive remove')
same(((TMP / 'svn/hooks/post-commit').read_bytes(), stat.S_IMODE((TMP / 'svn/hooks/post-commit').stat().st_mode)), (before, 0o750), 'the hook is as it was')
same(part('remove', 'bare').code, 0, 'of git')
same((TMP / 'bare.git/hooks/post-receive').exists(), False, 'where there was none there is none')
end()
