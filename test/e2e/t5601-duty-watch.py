#!/usr/bin/env python3
# time limit: 150
# store: sqlite (it starts its own PostgreSQL)
"""Repositories are followed by one of the servers that share a store: archives that another adds are followed by it, hooks may tell any server, and when it dies
another one goes on where it ended, each revision once and in order."""
import http.client
import json
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
from house import TMP, House, database, end, ok, same, until  # noqa: E402
from ports import free_port  # noqa: E402
from repos import git_commit, git_make, next_of, sh, svn_commit, svn_make  # noqa: E402

pg, url = database()
servers = {}


# -- alone, and the database is slow: what was known of an archive is known still, since nobody else can have looked
def alone(server):
    svn_make('bad', 1)
    same(server.cli('archive', 'add', 'bad', '--svn', str(TMP / 'bad'), '--from', '1', '--no-hook').code, 0, 'an archive')
    until(lambda: next_of(server, 'bad') == 2, 'is taken', seconds=40)
    (TMP / 'bad/db/current').write_text('garbage\n')
    until(lambda: server.get('/v1/archives/bad').json['watch']['state'] == 'fault', 'and breaks', seconds=40)
    pg.sql('BEGIN; LOCK TABLE duty IN ACCESS EXCLUSIVE MODE; SELECT pg_sleep(7); COMMIT', 'weir')  # its beat gets old, and looks are due after that
    same(server.post('/v1/lanes/bad/pause', dict(reason='a turn')).status, 200, 'turns go on')
    until(lambda: server.get('/v1/archives/bad').json['watch']['state'] == 'fault', 'it is broken', seconds=40)
    said = [line for line in server.log.read_text().splitlines() if line.startswith(('archive.healed', 'archive.fault'))]
    ok(1 <= len(said) <= 2 and not any(line.startswith('archive.healed') for line in said), 'it did not heal and break again meanwhile', said)
    server.cli('archive', 'remove', 'bad')


for name in 'ab':
    if name == 'b':
        (TMP / 'b').mkdir(mode=0o711)
        shutil.copy(TMP / 'a/verify.key', TMP / 'b/verify.key')
    servers[name] = House(name, '--store', url, '--name', name, '--look-remote', '10m', slots=0)
    if name == 'a':
        alone(servers[name])
a, b = servers['a'], servers['b']


def holder():
    return pg.sql("SELECT holder FROM duty WHERE name = 'watch'", 'weir')


def eyes(server):
    """folders of repositories that a server watches with inotify; those of its own spool are no repository's"""
    n = 0
    own = {f'ino:{path.stat().st_ino:x}' for path in (server.dir / 'spool').glob('*')}
    for info in pathlib.Path(f'/proc/{server.process.pid}/fdinfo').iterdir():
        try:
            n += sum(line.startswith('inotify wd:') and own.isdisjoint(line.split()) for line in info.read_text().splitlines())
        except OSError:
            pass
    return n


until(lambda: holder() == 'a', 'a has the duty')
svn, git = svn_make('svn', 3), git_make('git', 3)
sh('git clone -q git wc')
same(b.cli('archive', 'add', 's', '--svn', svn, '--from', '1', '--no-hook').code, 0, 'b is told of a Subversion archive')
same(b.cli('archive', 'add', 'g', '--git', git, '--from', '1', '--no-hook').code, 0, 'and of a git archive')
until(lambda: next_of(b, 's') == 4 and next_of(b, 'g') == 4, 'a takes their history', seconds=40)
until(lambda: eyes(a) > 0, 'a keeps an eye on them', seconds=20)
same(eyes(b), 0, 'b does not')
ok(until(lambda: 'another server' in b.get('/v1/archives/s').json['watch'].get('detail', '')), 'and says so', b.get('/v1/archives/s').json)
for i in range(3):
    svn_commit('svn', f'n{i}')
    git_commit('wc', f'n{i}')
until(lambda: next_of(b, 's') == 7 and next_of(b, 'g') == 7, 'commits are found', seconds=40)

# -- a served repository that nobody looks at by himself for ten minutes: the hook tells the server that doesn't follow it
port = free_port()
svn_make('far', 2)
served = subprocess.Popen(['setpriv', '--pdeathsig', 'KILL', 'svnserve', '-d', '--foreground', '--listen-host', '127.0.0.1', '--listen-port', str(port), '-r', str(TMP)])
until(lambda: not socket.socket().connect_ex(('127.0.0.1', port)), seconds=20)
same(b.cli('archive', 'add', 'far', '--svn', f'svn://127.0.0.1:{port}/far', '--from', '1').code, 0, 'a served repository')
until(lambda: next_of(b, 'far') == 3, 'its history is taken', seconds=40)
cause = b.enqueue(dict(name='maker', queue='q', data=1))['id']
svn_commit('far', 'x')
began = time.monotonic()
same(b.cli('notify', 'far', '3', WEIR_KEY=str(cause)).code, 0, 'its hook tells b')
until(lambda: next_of(b, 'far') == 4, f'a hears of it and takes it', seconds=40)
took = time.monotonic() - began
same(a.get('/v1/archives/far/revisions/3').json.get('cause'), b.get('/v1/archives/far/revisions/3').json.get('cause'), f'after {took:.1f} s')
ok(str(cause) in json.dumps(a.get('/v1/archives/far/revisions/3').json.get('cause')), 'and knows the cause that the hook told', a.get('/v1/archives/far/revisions/3').json)

# -- the holder dies
began = time.monotonic()
a.kill()
svn_commit('svn', 'after')
git_commit('wc', 'after')
until(lambda: next_of(b, 's') == 8 and next_of(b, 'g') == 8, 'a is killed: b takes the commits', seconds=40)
took = time.monotonic() - began
ok(took < 30, f'soon ({took:.1f} s after the kill)')
ok(until(lambda: eyes(b) > 0), 'and keeps an eye on the repositories')

# -- and comes back: it doesn't follow
a.start()
until(lambda: a.get('/v1/nodes').status == 200, 'a is back')
svn_commit('svn', 'later')
until(lambda: next_of(a, 's') == 9, 'commits are found', seconds=40)
same((holder(), eyes(a)), ('b', 0), 'by b alone')



# -- frozen in the middle of a turn: what it had begun is refused; when it goes on it sees a beat that is not old, and leaves the duty where it is
def paused(word):
    try:
        return b.post(f'/v1/lanes/idle/{word}', dict(reason='test'), local=True, timeout=20).status == 200
    except (OSError, http.client.HTTPException):
        return False


def turns():
    while not enough.is_set():
        paused('pause') and paused('resume')


def freeze_in_turn():
    for _ in range(200):
        b.process.send_signal(signal.SIGSTOP)
        time.sleep(0.01)  # what it had sent is worked off by the database
        if pg.sql(f"SELECT 1 FROM pg_stat_activity WHERE state = 'idle in transaction' AND application_name LIKE '%process {b.process.pid} %'") == '1':
            return True
        b.process.send_signal(signal.SIGCONT)
        time.sleep(0.001 * random.randint(1, 20))
    b.process.send_signal(signal.SIGSTOP)
    return False


left_alone = False
for n in range(3):  # a may be so slow that its beat is old indeed: then once more
    enough = threading.Event()
    thread = threading.Thread(target=turns, daemon=True)
    thread.start()
    in_turn = freeze_in_turn()
    until(lambda: holder() == 'a', 'b is frozen: a takes over' if n == 0 else None, seconds=30)
    if n == 0:
        svn_commit('svn', 'frozen')
        git_commit('wc', 'frozen')
        until(lambda: next_of(a, 's') == 10 and next_of(a, 'g') == 9, 'and follows', seconds=40)
    enough.set()
    b.process.send_signal(signal.SIGCONT)
    until(lambda: paused('pause') and paused('resume') and paused('pause'), seconds=40)  # turns of b
    thread.join(40)
    left_alone = holder() == 'a'
    if left_alone and in_turn:
        break
ok(left_alone, 'b goes on, and does not take the duty from a, which is well', holder())
svn_commit('svn', 'thawed')
until(lambda: next_of(b, 's') == 11, 'it sees what is taken', seconds=40)
until(lambda: eyes(servers['ab'.replace(holder(), '')]) == 0, 'who has not the duty keeps no eye on them any more', seconds=30)
events = a.events('since=0&limit=100000')
for name, last in (('s', 10), ('g', 8), ('far', 3)):
    seen = [(e.get('subject') or e.get('key')) for e in events if e['kind'] == 'revision' and (e.get('subject') or e.get('key') or '').startswith(name + '@')]
    same(seen, [f'{name}@{rev}' for rev in range(1, last + 1)], f'{name}: each revision once, in order')
held = {}
for e in events:
    if e['kind'] == 'duty':
        held[e.get('subject') or e.get('key')] = f'{e["actor"]}, {e["reason"]}'
    if e['kind'] == 'revision' and e.get('reason') != held.get('watch'):
        ok(False, 'a revision was brought by who had not the epoch', e, held)
for s in (a, b):
    s.stop(signal.SIGINT)
served.kill()
served.wait()
pg.remove()
end()
