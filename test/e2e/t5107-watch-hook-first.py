#!/usr/bin/env python3
"""Hooks are there before an archive is: a job of its history that commits before `weir archive add` hears the answer is told as the cause. One that isn't added leaves none."""
import http.server
import json
import pathlib
import subprocess
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
from house import TMP, WEIR, House, clean_env, end, ok, run, same, until  # noqa: E402
from repos import git_commit, git_make, next_of, sh, svn_make  # noqa: E402

s = House('data', slots=3)
NEVER = {}


def hooks(folder):
    """what is in a repository's hooks folder, but samples: name, bytes and mode"""
    found = (TMP / folder / 'hooks').iterdir() if (TMP / folder / 'hooks').is_dir() else ()
    return {p.name: (p.read_bytes(), p.stat().st_mode) for p in found if not p.name.endswith(('.sample', '.tmpl'))}


class Between(http.server.BaseHTTPRequestHandler):
    """between the command line and the server: looks at the hooks before an archive is posted, and gives the answer when its first job has committed"""
    protocol_version = 'HTTP/1.1'
    folders, seen, held = {}, {}, threading.Event()

    def log_message(self, *args):
        pass

    def pass_on(self):
        body = self.rfile.read(int(self.headers.get('Content-Length') or 0))
        name = json.loads(body)['name'] if body else None
        if name in self.folders:
            self.seen[name] = hooks(self.folders[name])
        if name == 'cut':
            self.held.set()
            self.rfile.read(1)  # until the other side is gone
            self.close_connection = True
            return
        answer = s.ask(self.command, self.path, json.loads(body) if body else None)
        if name in self.folders and answer.status == 201:
            until(lambda: next_of(s, name) > 2, seconds=40)
        self.send_response(answer.status)
        self.send_header('Content-Type', 'application/json')
        self.send_header('Content-Length', str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body)

    do_GET = do_POST = pass_on


between = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Between)
between.daemon_threads = True
threading.Thread(target=between.serve_forever, daemon=True).start()
url = f'http://127.0.0.1:{between.server_address[1]}'

# ---- the first job commits before the answer is heard ----
JOB = '''tasks:
 - name: again
   checkout: false
   shell: sh
   env: {GIT_AUTHOR_NAME: Job, GIT_AUTHOR_EMAIL: job@example.org, GIT_COMMITTER_NAME: Job, GIT_COMMITTER_EMAIL: job@example.org}
   script: |
     [ "$WEIR_REV" = 1 ] || exit 0
     %s
'''
git_make('bare', 1, JOB % f'git clone -q {TMP}/bare wc; cd wc; echo 2 >n; git add n; git commit -q -m two; git push -q origin HEAD')
git_make('plain-1', 1, JOB % f'cd {TMP}/plain; echo 2 >n; git add n; git commit -q -m two')
sh('git clone -q plain-1 plain')
svn_make('svn', 1, JOB % f'svn mkdir -q -m two "file://{TMP}/svn/n"')
ORDINARY = ['post-applypatch', 'post-commit', 'post-merge', 'post-receive', 'post-rewrite']
for name, kind, folder, wanted in (('bare', 'git', 'bare', ['post-receive']), ('plain', 'git', 'plain/.git', ORDINARY), ('svn', 'svn', 'svn', ['post-commit'])):
    Between.folders[name] = folder
    before = hooks(folder)
    added = run('archive', '--server', url, 'add', name, f'--{kind}', TMP / name, '--from', '1', timeout=120)
    ok(added.code == 0 and all(f'hooks/{hook}' in added.err for hook in wanted), f'{name}: added', added.out, added.err)
    same((sorted(before), sorted(Between.seen.get(name, NEVER))), ([], wanted), f'{name}: there were no hooks, and they were there before the archive was')
    two = s.get(f'/v1/archives/{name}/revisions/2')
    ok(two.status == 200, f'{name}: its job committed before the answer was heard', two)
    until(lambda: s.get(f'/v1/archives/{name}/revisions/2').json.get('cause'))
    two = s.get(f'/v1/archives/{name}/revisions/2').json
    same((two.get('cause'), two.get('depth')), (f'{name}@1:again', 1), f'{name}: and the commit names its cause')
    same(sorted(hooks(folder)), wanted, f'{name}: its hooks are there')
ok(b'refs/heads/main' in hooks('bare')['post-receive'][0], 'with the branch that the server found')

# ---- what isn't added leaves nothing behind, and what was there as it was ----
git_make('other', 1)
(TMP / 'other/hooks/post-receive').write_text('#!/bin/sh\ntrue\n')
(TMP / 'other/hooks/post-receive').chmod(0o750)
svn_make('svn-2', 1)
(TMP / 'empty').mkdir()
sh('git -C bare branch side main')
for text, folder, args in (
        ('a name that is taken', 'other', ('bare', '--git', TMP / 'other')),
        ('a name that is taken, of Subversion', 'svn-2', ('plain', '--svn', TMP / 'svn-2')),
        ('another branch under the same name', 'bare', ('bare', '--git', TMP / 'bare', '--branch', 'side')),
        ('a branch that is not there', 'other', ('more', '--git', TMP / 'other', '--branch', 'nosuch')),
        ('a name that nothing may have', 'other', ('all', '--git', TMP / 'other')),
        ('no repository', 'empty', ('more', '--git', TMP / 'empty'))):
    before = hooks(folder)
    done = s.cli('archive', 'add', *args)
    ok(done.code != 0 and 'hook: ' not in done.err and 'no hook' not in done.err, f'{text}: refused', done.code, done.err)
    same(hooks(folder), before, f'{text}: hooks are as they were')
same(list((TMP / 'empty').iterdir()), [], 'nothing is made where no repository is')
same(run('archive', '--server', f'unix:{TMP}/nobody.sock', 'add', 'more', '--git', TMP / 'other').code, 69, 'no server')
same(sorted(hooks('other')), ['post-receive'], 'no hook')
same(s.cli('archive', 'add', 'still', '--git', TMP / 'other', '--no-hook').code, 0, '--no-hook')
same(sorted(hooks('other')), ['post-receive'], 'no hook either')

# ---- hooks that can't be written ----
git_make('shut', 1)
sh('rm -rf shut/hooks; : >shut/hooks')
done = s.cli('archive', 'add', 'shut', '--git', TMP / 'shut')
ok(done.code == 0 and done.out.startswith('shut: git') and 'no hook was installed' in done.err and ' notify shut HEAD --server unix:' in done.err,
   'added all the same, and the lines to put there are said', done.code, done.out, done.err)

# ---- killed between the two ----
git_make('torn', 1)
Between.folders['cut'] = 'torn'
add = subprocess.Popen([WEIR, 'archive', '--server', url, 'add', 'cut', '--git', str(TMP / 'torn')], env=clean_env(), stdin=subprocess.DEVNULL)
ok(Between.held.wait(60), 'archive add has come to the post')
add.kill()
add.wait()
same((s.get('/v1/archives/cut').status, sorted(hooks('torn'))), (404, ['post-receive']), 'killed there, a hook is left and no archive')
sh('git clone -q torn torn-wc')
git_commit('torn-wc', 'a')
same(s.get('/healthz').status, 200, 'it does no harm to a push, nor to the server')
same((s.cli('archive', 'add', 'cut', '--git', TMP / 'torn').code, s.cli('archive', 'remove', 'cut').code, hooks('torn')), (0, 0, {}), 'added again, and removed')
between.shutdown()
s.stop()
ok(until(lambda: not s.left(), seconds=60), 'nothing is left running', s.left())
end()
