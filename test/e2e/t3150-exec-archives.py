#!/usr/bin/env python3
"""Archives of real repositories on a real server: checkouts, artifacts from end to end, manual runs, jobs that commit, an executor that can't see the repository."""
# time limit: 240
import hashlib
import json
import os
import pathlib
import signal
import subprocess
import sys

sys.path.insert(0, os.environ.get('WEIR_TEST_LIB') or str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
from house import TMP, WEIR, House, clean_env, end, ok, run, same, until

ENV = clean_env(GIT_CONFIG_GLOBAL='/dev/null', GIT_AUTHOR_NAME='Ann', GIT_AUTHOR_EMAIL='ann@example.org', GIT_COMMITTER_NAME='Ann', GIT_COMMITTER_EMAIL='ann@example.org')


def sh(text):
    done = subprocess.run(['sh', '-ec', text], cwd=TMP, capture_output=True, env=ENV)
    if done.returncode:
        raise SystemExit(f'Bail out! {text}: {done.stderr.decode()}')
    return done.stdout.decode()


WORKFLOW = '''- name: build
  script: |
    cat text; echo "$WEIR_ARCHIVE $WEIR_REV $WEIR_PREV_REV $WEIR_TASK $WEIR_KEY $WEIR_ATTEMPT $WEIR_PARAM_HOW"
    mkdir out; cat text text >out/twice.txt; head -c 3000000 /dev/zero >out/big; echo size=$(wc -c <text) >"$WEIR_OUTPUT"
  artifacts: ["out/*", none]
- name: after
  depends: [build]
  checkout: false
  shell: bash
  script: 'ls -A | wc -l; echo "${WEIR_OUTPUT_BUILD_SIZE}"; [[ a == a ]] && echo bash'
- name: far
  labels: {where: far}
  depends: [build]
  script: 'cat text; pwd'
'''
sh('mkdir repos; svnadmin create repos/svn; mkdir -p start/_workflows; echo one >start/text')
(TMP / 'start/_workflows/w.yaml').write_text(WORKFLOW)
s = House('data', slots=2)
weir = s.cli
add = subprocess.run([WEIR, 'archive', 'add', '--server', s.socket, 'ark', '--svn', str(TMP / 'repos/svn'), '--from', '1'], capture_output=True, env=clean_env())
ok(add.returncode == 0, 'archive add', add.stderr)
sh('svn import -q -m one start "file://$PWD/repos/svn"')
until(lambda: s.get('/v1/archives/ark/revisions/1').status == 200, seconds=20)
same(weir('wait', 'ark@1:after', '--timeout', '90s').code, 0, 'revision 1 goes through')
same(weir('log', 'ark@1:build').out.splitlines()[:2], ['one', 'ark 1 0 build ark@1:build 1 '], 'its files and its variables')
ok("artifact 'none': there is no such file" in weir('log', 'ark@1:build').out, 'what isn\'t there to keep is said')
same(weir('log', 'ark@1:after').out, '0\n4\nbash\n', 'checkout: false, outputs of what it depends on, another shell')

# -- artifacts
twice, big = b'one\none\n', bytes(3000000)
listed = json.loads(weir('artifacts', 'ark@1:build', '--json').out)
same({a['name']: (a['bytes'], a['sha256']) for a in listed}, {n: (len(d), hashlib.sha256(d).hexdigest()) for n, d in (('out/twice.txt', twice), ('out/big', big))},
     'artifacts are listed with size and hash')
same(run('artifacts', '--server', s.socket, 'ark@1:build', 'out/twice.txt').out, twice.decode(), 'the bytes of one')
same((weir('artifacts', 'ark@1:build', 'out/big', '-o', str(TMP / 'big')).code, (TMP / 'big').read_bytes() == big), (0, True), 'a large one into a file')
ok('out/twice.txt' in weir('artifacts', 'ark@1:build').out and 'out/big' in weir('show', 'ark@1:build').out, 'for people')
same(weir('artifacts', 'ark@1:build', 'nothing').code, 66, 'one that isn\'t there: 66')
same(weir('artifacts', 'ark@1:build', '-o', 'x').code, 2, '-o without a name: 2')
task = s.get('/v1/tasks/ark@1:build').json
path = f'/v1/tasks/{task["id"]}/artifacts/out/twice.txt'
answer = s.get(path)
same((answer.status, answer.body), (200, twice), 'over HTTP')
part = s.get(path, headers={'Range': 'bytes=4-6'})
same((part.status, part.body), (206, b'one'), 'a range of it')
ok(s.get(f'/v1/tasks/{task["id"]}/artifacts/out/missing').status == 404 and s.get('/v1/tasks/99999/artifacts/x').status == 404, '404')
if os.environ.get('WEIR_TEST_STORE') != 'postgres':  # there they are in the database
    same(len(list((TMP / 'data/blobs').glob('*/*'))) >= 2 and not list((TMP / 'data/blobs/new').iterdir()), True, 'they are kept by content, and nothing half')
late = s.post(f'/v1/tasks/{task["id"]}/artifacts/late?fence=1-{task["id"]}-00000001&last=1', {})
ok(late.status in (400, 409), 'a stale fence is refused', late)

# -- a task that waits for an executor which can't see the repository: the server sends the tree
command = [WEIR, 'executor', '--server', s.url, '--data', str(TMP / 'far'), '--slots', '1', '--label', 'where=far', '--name', 'far']
hide = ['unshare', '-m', 'sh', '-ec', f'mount -t tmpfs none {TMP}/repos; exec "$@"', 'sh']
hidden = subprocess.run([*hide, 'true'], capture_output=True).returncode == 0  # else the same without: it is still another executor
far = subprocess.Popen((hide if hidden else []) + command, stdin=subprocess.DEVNULL, stdout=open(TMP / 'far.log', 'ab'), stderr=subprocess.STDOUT, env=clean_env())
same(weir('wait', 'ark@1:far', '--timeout', '60s').code, 0, 'another executor')
same(weir('log', 'ark@1:far').out.splitlines()[0], 'one', 'has the files too' + (', though it can\'t see the repository' if hidden else ''))

far.send_signal(signal.SIGINT)
same(far.wait(20), 0, 'it ends')

# -- a manual run with parameters, of an older revision
sh('svn checkout -q "file://$PWD/repos/svn" wc; cd wc; echo two >text; svn commit -qm two')
until(lambda: s.get('/v1/archives/ark/revisions/2').status == 200, seconds=20)
same(weir('wait', 'ark@2:after', '--timeout', '50s').code, 0, 'revision 2')
same(weir('log', 'ark@2:build').out.splitlines()[:2], ['two', 'ark 2 1 build ark@2:build 1 '], 'its own files')
done = weir('run', 'ark', 'build', '--rev', '1', '--param', 'how=again', '--reason', 'test')
ok(done.code == 0, 'run', done.err)
same(weir('wait', 'ark@1:build#2', '--timeout', '60s').code, 0, 'the run ends')
same(weir('log', 'ark@1:build#2').out.splitlines()[:2], ['one', 'ark 1 0 build ark@1:build#2 1 again'], 'with its parameter, and the old files')

# -- a job that commits: the new revision names its cause
sh('''cd wc; cat >_workflows/w.yaml <<'X'
- name: commit
  paths: [go]
  script: |
    svn checkout -q "file://$URL" wc && cd wc && echo made >made && svn add -q made && svn commit -qm 'by a job' --with-revprop weir:cause="$WEIR_KEY"
  env: {URL: %s}
X
echo go >go; svn add -q go; svn commit -qm 'let it commit' '''  % (TMP / 'repos/svn'))
until(lambda: s.get('/v1/archives/ark/revisions/4').status == 200, seconds=30)
revision = s.get('/v1/archives/ark/revisions/4')
ok(revision.status == 200 and 'ark@3:commit' in json.dumps(revision.json), 'a job that commits is the cause of the new revision', revision)

# -- a job that commits as its last act and says nothing: its hook tells who it was
told = None
for n in range(5, 13, 2):  # as with git below
    sh("""cd wc; svn update -q; cat >_workflows/w.yaml <<'X'
- name: plain
  paths: [go]
  checkout: false
  script: 'svn checkout -q "file://$URL" wc && cd wc && date +%%s%%N >made && svn commit -qm "by a job"'
  env: {URL: %s}
X
echo %d >go; svn commit -qm 'let it commit plainly' """ % (TMP / 'repos/svn', n))
    until(lambda: s.get(f'/v1/archives/ark/revisions/{n + 1}').status == 200, seconds=30)
    told = s.get(f'/v1/archives/ark/revisions/{n + 1}')
    if told.status != 200 or told.json.get('cause') == f'ark@{n}:plain':
        break
ok(told.status == 200 and told.json.get('cause') == f'ark@{n}:plain' and told.json['depth'] == 1, 'a plain commit by a job is told by its hook', told)

# -- git: a push by a job, whose hook inherits WEIR_KEY
sh('''git init -q -b main g; cd g; mkdir _workflows; cat >_workflows/w.yaml <<'X'
- name: t
  script: 'cat f'
- name: push
  paths: [go]
  script: 'git clone -q "$URL" wc 2>&1 && cd wc && date +%%s%%N >made && git add made && git -c user.name=j -c user.email=j@x commit -qm made && git push -q origin main'
  env: {URL: %s}
X
echo git >f; git add .; git commit -qm one; git clone -q --bare . ../repos/g.git; git remote add origin ../repos/g.git''' % (TMP / 'repos/g.git'))
add = subprocess.run([WEIR, 'archive', 'add', '--server', s.socket, 'gark', '--git', str(TMP / 'repos/g.git'), '--from', '1'], capture_output=True, env=clean_env())
same((add.returncode, weir('wait', 'gark@1:t', '--timeout', '50s').code, weir('log', 'gark@1:t').out), (0, 0, 'git\n'), 'git')
told = None
for n in range(2, 10, 2):  # the watch of the repository waits 0.2 s for the hook: a slow build on a busy machine may need a second try
    sh(f'cd g; git pull -q origin main; echo {n} >go; git add go; git commit -qm "go {n}"; git push -q origin main')
    until(lambda: s.get(f'/v1/archives/gark/revisions/{n + 1}').status == 200, seconds=30)
    told = s.get(f'/v1/archives/gark/revisions/{n + 1}')
    if told.status != 200 or f'gark@{n}:push' in json.dumps(told.json.get('cause', '')):
        break
ok(told.status == 200 and f'gark@{n}:push' in json.dumps(told.json.get('cause', '')), 'a push by a job is told by its hook', told, weir('log', f'gark@{n}:push').out)

# -- a repository that is gone: the attempt is temporary and says why; it is tried again, and works when the repository is back
sh('mv repos/svn repos/away')
done = weir('run', 'ark', 'commit', '--rev', '4', '--reason', 'test')
key = f'ark@4:commit#2'
ok(until(lambda: 'no repository at' in weir('log', key).out, seconds=30), 'a repository that is gone is said in the log', done.err, weir('log', key).out)
task = s.get(f'/v1/tasks/{key.replace("#", "%23")}').json
same((task['attempts'][0]['outcome'], task['state'] in 'SPX'), ('temporary', True), 'and tried again')
sh('mv repos/away repos/svn')
ok(until(lambda: s.get(f'/v1/tasks/{key.replace("#", "%23")}').json['attempts'][-1]['outcome'] != 'temporary', seconds=40), 'with success of the checkout when it is back')

s.stop(signal.SIGINT)
end()
