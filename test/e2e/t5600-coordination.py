#!/usr/bin/env python3
# time limit: 150
# store: sqlite (it starts its own PostgreSQL and ZooKeeper)
"""Coordination by ZooKeeper: URLs that are none are refused at once with what to do; servers find each other, one has each duty; its death hands them on at once
it is heard of; a server starts and works while ZooKeeper isn't there, says so, and finds it when it comes; a wiped ZooKeeper is filled again."""
import json
import pathlib
import shutil
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
import postgres  # noqa: E402
import zookeeper  # noqa: E402
from house import TMP, House, Worker, end, ok, run, same, skip, until  # noqa: E402

# -- what is no coordination service
for url, words in [('etcd://h:1/x', 'zookeeper://HOST:PORT'), ('zookeeper://h/weir', "isn't HOST:PORT"), ('zookeeper://h:99999/weir', "isn't HOST:PORT"),
                   ('zookeeper://h:1/weir/', 'no path'), ('zookeeper://u:p@h:1/weir', 'coordination_auth')]:
    told = run('serve', '--data', TMP / 'bad', '--store', 'postgresql:///none', '--coordination', url, timeout=60)
    ok(told.code == 2 and words in told.err, f'--coordination {url}: refused with what to do', told.code, told.err)
told = run('serve', '--data', TMP / 'lone', '--coordination', 'zookeeper://127.0.0.1:2181/weir', timeout=60)
ok(told.code == 2 and 'PostgreSQL' in told.err, 'a SQLite store has nobody to agree with: refused', told.code, told.err)
if not postgres.available() or not zookeeper.available():
    skip('PostgreSQL and ZooKeeper', 'one of them is not there')
    end()

pg = postgres.Postgres().start()
url = pg.create('weir')
zk = zookeeper.ZooKeeper()


def server(name):
    if (TMP / 'a/verify.key').exists() and name != 'a':
        (TMP / name).mkdir(mode=0o711, exist_ok=True)
        shutil.copy(TMP / 'a/verify.key', TMP / f'{name}/verify.key')
    return House(name, '--store', url, '--name', name, '--coordination', zk.url, slots=0)


def coordination(s):
    return s.patient('/v1/nodes').json['coordination']


def holders():
    return dict(line.split('|')[:2] for line in pg.sql('SELECT name, holder FROM duty', 'weir').splitlines())


# -- it isn't there yet: a server starts and works
a = server('a')
until(lambda: coordination(a)['state'] == 'away', 'it is away, and the server runs')
until(lambda: zk.address in coordination(a).get('detail', ''), 'with the reason', seconds=30)
same(a.get('/healthz').json, {'status': 'ok', 'coordination': 'away'}, '/healthz is good and says it')
same(a.get('/readyz').status, 200, '/readyz too')
told = a.cli('nodes')
ok(told.code == 0 and 'zookeeper is away' in told.err and 'work goes on' in told.err, 'weir nodes says it', told.err)
ok(b'weir_coordination_away 1' in a.get('/metrics').body, 'and the metrics')
until(lambda: set(holders().values()) == {'a'}, 'it has the duties all the same')
w = Worker(a, 'w')
due = time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime(time.time() + 1))
task = a.enqueue(dict(name='timed', queue='q', data=1, not_before=due))['id']
grants = []
until(lambda: grants.extend(w.claim(wait_ms=500)) or grants, 'and its timers fire')
same([g['task'] for g in grants], [task], 'once')
w.finish(grants[0], exit=0)
until(lambda: 'coordination.away' in a.log.read_text(), 'the log says once that it is away')

# -- it comes
zk.start()
until(lambda: coordination(a)['state'] == 'active', 'it comes, and is found', seconds=30)
b = server('b')
until(lambda: zk.children('/weir/nodes') == ['a', 'b'], 'both are in its register', seconds=30)
seen = until(lambda: (lambda node: 'watch' in node.get('epochs', {}) and node)(json.loads(zk.get('/weir/nodes/a') or '{}')), 'with content: the epochs a has', seconds=30) or {}
same({k: type(seen.get(k)).__name__ for k in ('name', 'role', 'version', 'host', 'address', 'load', 'state')},
     dict(name='str', role='str', version='str', host='str', address='str', load='float', state='str'), 'name, role, version, host, address, load, state')
for s in (a, b):
    until(lambda s=s: sorted((n['name'], n['role'], n['state']) for n in s.get('/v1/nodes').json['nodes'] if n['role'] == 'server')
          == [('a', 'server', 'active'), ('b', 'server', 'active')], f'weir nodes of {s.dir.name} has both')
ok(all(n['load'] > 0 for n in b.get('/v1/nodes').json['nodes'] if n['role'] == 'server'), 'with the load of their machines', b.get('/v1/nodes').json)
same(set(holders().values()), {'a'}, 'what a holds stays with it')

# -- the holder goes in order: handed on at once
epochs = pg.sql('SELECT DISTINCT epoch FROM duty', 'weir').split()
began = time.monotonic()
a.stop(signal.SIGTERM)
until(lambda: set(holders().values()) == {'b'}, 'a stops: b has the duties', seconds=30)
took = time.monotonic() - began
until(lambda: zk.children('/weir/nodes') == ['b'], f'a is gone from the register (handed on after {took:.2f} s)')
after = pg.sql('SELECT DISTINCT epoch FROM duty', 'weir')
ok(after.isdigit() and int(after) > max(map(int, epochs)), 'under the next epoch', epochs, after)

# -- wiped
a.start()
until(lambda: zk.children('/weir/nodes') == ['a', 'b'], 'a is back', seconds=30)


def known(said):
    """what b knows of a, in an answer with that state of the service"""
    answer = b.get('/v1/nodes').json
    return answer['coordination']['state'] == said and [n['state'] for n in answer['nodes'] if n['name'] == 'a']


a.kill()
until(lambda: known('active') == ['lost'], 'a is killed: lost, by its word', seconds=30)
zk.wipe()
same(until(lambda: known('away'), 'it is stopped: away', seconds=30), ['lost'], 'who was lost stays it')
a.start()
task = b.enqueue(dict(name='meanwhile', queue='q', data=1))['id']
grants = Worker(b, 'x').claim(wait_ms=5000)
same([g['task'] for g in grants], [task], 'work goes on')
zk.start()
until(lambda: zk.children('/weir/nodes') == ['a', 'b'] and coordination(a)['state'] == coordination(b)['state'] == 'active',
      'it is back without its data, and filled again', seconds=40)
same(set(holders().values()), {'b'}, 'who held the duties holds them')

# -- sessions that are ended from outside
for session in zk.sessions():
    until(lambda s=session: zk.expire(s), seconds=20)
until(lambda: zk.children('/weir/nodes') == ['a', 'b'] and len(zk.sessions()) == 2, 'sessions expired: new ones', seconds=40)
ok(len(holders()) == 4 and set(holders().values()) <= {'a', 'b'}, 'each duty has its holder', holders())
for s in (a, b):
    s.stop(signal.SIGINT)
until(lambda: zk.children('/weir/nodes') == [], 'nothing is left of them')
pg.remove()
zk.remove()
end()
