#!/usr/bin/env python3
# time limit: 240
"""Repositories that vanish, are damaged, may not be read, or whose server is away or hangs: the archive says so, others go on, and it heals by itself."""
import os
import pathlib
import socket
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
from house import TMP, House, end, ok, same, until  # noqa: E402
from ports import free_port  # noqa: E402
from repos import archive, git_commit, git_make, next_of, revision_events, sh, svn_commit, svn_make  # noqa: E402

s = House('data', '--look-remote', '500ms', slots=0)
svn, git, calm = svn_make('svn', 2), git_make('git', 2), svn_make('calm', 1)
sh('git clone -q git wc')
for name, option, place in (('a', '--svn', svn), ('g', '--git', git), ('calm', '--svn', calm)):
    same(s.cli('archive', 'add', name, option, place, '--from', '1', '--no-hook').code, 0, f'archive {name}')
ok(until(lambda: next_of(s, 'a') == 3 and next_of(s, 'g') == 3 and next_of(s, 'calm') == 2), 'all are taken')
commits = 1


def others_go_on(when):
    global commits
    commits += 1
    svn_commit('calm', f'c{commits}')
    ok(until(lambda: next_of(s, 'calm') == commits + 1, seconds=30), f'another archive goes on while {when}')


def fault(name, word, text, poke=True):
    if poke:
        s.post(f'/v1/archives/{name}/revisions', dict(rev=1000))
    if ok(until(lambda: archive(s, name)['watch']['state'] == 'fault', seconds=40), f'{text} is a fault of its archive', archive(s, name)):
        said = archive(s, name)['watch']['fault']
        ok(word in said, f'{text}: it says what and where', said)


def heals(name, rev, text):
    ok(until(lambda: next_of(s, name) == rev + 1 and archive(s, name)['watch']['state'] == 'ok', seconds=40), f'{text}: it heals by itself', archive(s, name))


# ---- gone, and back ----
sh('mv svn svn-away; mv git git-away')
fault('a', str(TMP / 'svn'), 'a Subversion repository that is gone')
fault('g', str(TMP / 'git'), 'a git repository that is gone')
for name in 'ag':
    looked = archive(s, name)['watch']['looked']
    s.post(f'/v1/archives/{name}/revisions', dict(rev=1000))
    ok(until(lambda: archive(s, name)['watch']['looked'] != looked, seconds=40) and 'put it back' in archive(s, name)['watch']['fault'],
       f'{name}: every look says what to do', archive(s, name))
others_go_on('two are gone')
sh('mv git-away git')
svn_commit('svn-away', 'three')
sh('mv svn-away svn')
git_commit('wc', 'three')
heals('a', 3, 'a Subversion repository that came back')
heals('g', 3, 'a git repository that came back')

# ---- damaged, and mended ----
sh('cp svn/db/current keep-current; echo x >svn/db/current; cp -r git/refs keep-refs; cp git/HEAD keep-head; echo nonsense >git/HEAD; echo zzz >git/refs/heads/main')
fault('a', 'damaged', 'a damaged Subversion repository')
fault('g', str(TMP / 'git'), 'a damaged git repository')
others_go_on('two are damaged')
sh('cp keep-current svn/db/current; cp keep-head git/HEAD; cp keep-refs/heads/main git/refs/heads/main')
svn_commit('svn', 'four')
git_commit('wc', 'four')
heals('a', 4, 'a Subversion repository that was mended')
heals('g', 4, 'a git repository that was mended')

# ---- something else in its place ----
sh('mv svn svn-away; echo a file >svn')
fault('a', str(TMP / 'svn'), 'a file in the place of a repository')
sh('rm svn')
svn_make('svn', 1)
until(lambda: 'ends at' in archive(s, 'a')['watch'].get('fault', ''), 'it tells that revisions are missing', seconds=20)
sh('rm -r svn; mv svn-away svn')
svn_commit('svn', 'five')
heals('a', 5, 'the right one again')
if os.geteuid() != 0:
    sh('chmod 0 svn/db')
    fault('a', 'svn', 'a repository that may not be read')
    sh('chmod 755 svn/db')
    until(lambda: archive(s, 'a')['watch']['state'] == 'ok', 'it may be read again', seconds=20)

# ---- served ----
port = free_port()


def svnserve():
    process = subprocess.Popen(['svnserve', '-d', '--foreground', '--listen-host', '127.0.0.1', '--listen-port', str(port), '-r', str(TMP)])
    until(lambda: not socket.socket().connect_ex(('127.0.0.1', port)), seconds=20)
    return process


server = svnserve()
svn_make('far', 50)
same(s.cli('archive', 'add', 'far', '--svn', f'svn://127.0.0.1:{port}/far', '--from', '1').code, 0, 'a served repository')
ok(until(lambda: next_of(s, 'far') == 51, seconds=40), 'its history is taken')
svn_commit('far', 'x')
ok(until(lambda: next_of(s, 'far') == 52, seconds=30), 'its commits are found by looking')
server.kill()
server.wait()
fault('far', f'127.0.0.1:{port}', 'a server that is away', poke=False)
tarpit = socket.socket()  # takes connections and never says a word
tarpit.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
tarpit.bind(('127.0.0.1', port))
tarpit.listen(50)
tarpit.settimeout(70)
held = tarpit.accept()  # a look begins, and hangs
others_go_on('a server hangs')
git_commit('wc', 'five')
ok(until(lambda: next_of(s, 'g') == 6, seconds=30), 'and so does git')
held[0].close()
tarpit.close()
server = svnserve()
svn_commit('far', 'y')
heals('far', 52, 'a server that is back')
for name, last in (('a', 5), ('g', 5), ('far', 52)):
    same(revision_events(s, name), list(range(1, last + 1)), f'{name}: each revision once, in order')

# ---- a commit that can't be read, given up by skip ----
def damage():
    """a commit whose tree has an entry without a name, and a good one behind it, on the branch of git"""
    sh('''cd git; blob=$(echo x | git hash-object -w --stdin); good=$(git rev-parse main^{tree})
    bad=$( (printf '100644 \\0'; printf "$(echo $blob | sed 's/../\\\\x&/g')") | git hash-object -t tree --literally -w --stdin)
    one=$(git commit-tree $bad -p main -m damaged); git update-ref refs/heads/main $(git commit-tree $good -p $one -m good)''')


damage()
fault('g', 'filename', 'a commit with a damaged tree')
done = s.cli('wait', 'g', '--timeout', '1s')
ok(done.code in (1, 75), 'wait: an archive that cannot be read is not done', done.code, done.out, done.err)
same(s.cli('archive', 'skip', 'g', '6', '--reason', 'damaged').code, 0, 'skip')
heals('g', 7, 'a skipped commit that cannot be read')
same([(r['rev'], r['state']) for r in s.get('/v1/archives/g/revisions?limit=3').json['revisions']], [(7, 'known'), (6, 'skipped'), (5, 'known')],
     'the commit behind it has the next number')
sh('cd git; git update-ref refs/heads/main $(git commit-tree main^{tree} -p main -m eight)')
s.post('/v1/archives/g/revisions', dict(rev=1000))
heals('g', 8, 'and commits after it go on')
ok(s.cli('archive', 'skip', 'g', '9', '--reason', 'by mistake').code != 0, 'a skip where nothing is wrong is refused')

# ---- refused from the start ----
for name, option, place, word in (('x1', '--svn', TMP / 'nowhere', 'nowhere'), ('x2', '--git', TMP / 'svn', 'git'), ('x3', '--svn', TMP / 'git', 'svn'),
                                  ('x4', '--svn', 'svn://127.0.0.1:1/none', '127.0.0.1:1')):
    done = s.cli('archive', 'add', name, option, place)
    ok(done.code != 0 and word in done.err, f'what is no repository is refused: {name}', done.code, done.err)
same(s.get('/v1/archives/x1').status, 404, 'and not added')

# ---- the end doesn't wait for a server that hangs ----
server.kill()
server.wait()
tarpit = socket.socket()
tarpit.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
tarpit.bind(('127.0.0.1', port))
tarpit.listen(50)
tarpit.settimeout(70)
held = tarpit.accept()  # a look begins, and hangs
ok(True, 'a look hangs')
began = time.monotonic()
same(s.stop(), 0, 'the server ends')
ok(time.monotonic() - began < 25, 'soon', time.monotonic() - began)
held[0].close()
tarpit.close()
end()
