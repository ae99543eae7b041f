#!/usr/bin/env python3
# time limit: 150
# store: sqlite (it starts its own PostgreSQL and ZooKeeper)
"""ZooKeeper's register and its locks, with credentials: executors are in it with content, written by the server that hears them and heard of by the others; strangers can't write
there; wrong credentials are said with what to do, and work goes on; changes of the site's keys through two servers follow one another by a fair lock, also past a dead holder."""
import json
import pathlib
import shutil
import signal
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
import postgres  # noqa: E402
import zookeeper  # noqa: E402
from house import TMP, House, Worker, end, ok, run, same, skip, until  # noqa: E402

# -- what is no file of credentials
for name, text, mode, words in [('open', 'u:p', 0o644, 'chmod 0600'), ('bare', 'secretword', 0o600, 'USER:PASSWORD'), ('two', 'u:p\nv:q\n', 0o600, 'USER:PASSWORD')]:
    (TMP / name).write_text(text)
    (TMP / name).chmod(mode)
    told = run('serve', '--data', TMP / 'bad', '--store', 'postgresql:///none', '--coordination', 'zookeeper://h:1/weir', '--coordination-auth', TMP / name, timeout=60)
    ok(told.code != 0 and words in told.err and 'secretword' not in told.err + told.out, f'{name}: refused with what to do, and without its words', told.code, told.err)
told = run('serve', '--data', TMP / 'bad', '--coordination-auth', TMP / 'bare', timeout=60)
ok(told.code == 2 and 'without coordination' in told.err, 'credentials for nothing are refused', told.code, told.err)
if not postgres.available() or not zookeeper.available():
    skip('PostgreSQL and ZooKeeper', 'one of them is not there')
    end()
    sys.exit(0)

pg = postgres.Postgres().start()
url = pg.create('weir')
zk = zookeeper.ZooKeeper().start()
SECRET = 'pw-5602-secret'
for name, words in [('good', f'weir:{SECRET}'), ('wrong', 'weir:other')]:
    (TMP / name).write_text(words + '\n')
    (TMP / name).chmod(0o600)
servers = {}


def server(name, auth='good'):
    if (TMP / 'a/verify.key').exists() and name != 'a':
        (TMP / name).mkdir(mode=0o711, exist_ok=True)
        shutil.copy(TMP / 'a/verify.key', TMP / f'{name}/verify.key')
    conf = TMP / f'{name}.yaml'
    conf.write_text(f'coordination: {zk.url}\ncoordination_auth: {TMP / auth}\n')
    servers[name] = House(name, '--store', url, '--name', name, '--config', str(conf), slots=0)
    return servers[name]


def coordination(s):
    return s.get('/v1/nodes').json['coordination']


def node(s, name):
    found = [n for n in s.get('/v1/nodes').json['nodes'] if n['name'] == name]
    return found[0] if found else {}


a, b = server('a'), server('b')
until(lambda: zk.children('/weir/nodes') == ['a', 'b'], 'both are in the register', seconds=40)

# -- executors, with content, by the server that hears them
stop = threading.Event()


def poll(worker):
    while not stop.is_set():
        worker.claim(free=1, wait_ms=1000)


workers = [Worker(a, 'xa'), Worker(b, 'xb')]
threads = [threading.Thread(target=poll, args=(w,), daemon=True) for w in workers]
for t in threads:
    t.start()
until(lambda: zk.children('/weir/executors') == ['xa', 'xb'], 'executors are in it', seconds=40)
seen = json.loads(zk.get('/weir/executors/xa'))
same({k: type(seen.get(k)).__name__ for k in ('name', 'role', 'version', 'host', 'load', 'state', 'server')},
     dict(name='str', role='str', version='str', host='str', load='int', state='str', server='str') | ({'load': 'float'} if isinstance(seen.get('load'), float) else {}),
     'name, role, version, host, load, state, server')
same((seen['role'], seen['state'], seen['server']), ('executor', 'active', 'a'), 'as they are')
for s in (a, b):
    until(lambda s=s: (node(s, 'xa').get('server'), node(s, 'xb').get('server')) == ('a', 'b'), f'weir nodes of {s.dir.name} says who hears whom', seconds=30)
before = a.get('/v1/nodes').json['nodes']
a.post(f'/v1/executors/{workers[1].id}/pause', dict(reason='r'))
until(lambda: json.loads(zk.get('/weir/executors/xb') or '{}').get('state') == 'paused', 'a change of state is in the content', seconds=30)
a.post(f'/v1/executors/{workers[1].id}/resume', dict(reason='r'))

# -- strangers can't write
same([zk.create('/weir/nodes/ghost'), zk.create('/weir/duties/timers/ghost-0000000000'), zk.create('/weir/x'), zk.delete('/weir/executors/xa'),
      zk.create('/weir/nodes/ghost', auth='weir:other')], [-102] * 5, 'who has no or other credentials can write nothing there')
same(zk.create('/weir/probe', auth=f'weir:{SECRET}'), 0, 'who has them can')
zk.delete('/weir/probe', auth=f'weir:{SECRET}')
c = server('c', 'wrong')
until(lambda: coordination(c)['state'] == 'away' and 'coordination_auth' in coordination(c).get('detail', ''), 'wrong credentials: away, with what to do', seconds=40)
task = c.enqueue(dict(name='t', queue='q', data=1))['id']
until(lambda: c.state(task) in 'XD', 'and work goes on', seconds=40)
same(c.stop(), 0, 'c ends')
for s in servers.values():
    log = s.log.read_text()
    ok(SECRET not in log and 'other' not in [w for line in log.splitlines() for w in line.split(':')], f'the log of {s.dir.name} has no password', log[-500:])
    ok(SECRET.encode() not in pathlib.Path(f'/proc/{s.process.pid}/cmdline').read_bytes() if s.process.poll() is None else True, 'nor has the command line')
ok(SECRET not in a.cli('nodes', '--json').out and SECRET not in run('serve', '--config', TMP / 'a.yaml', '--show-config').out, 'nobody shows it')

# -- changes of the site's keys: one after the other, by the lock
(TMP / 'n.yaml').write_text('semaphores: {n: 1}\n')
codes = []


def apply(s, n):
    path = TMP / f'n{n}.yaml'
    path.write_text(f'semaphores: {{n: {n}}}\n')
    codes.append(s.cli('config', 'apply', path).code)


crowd = [threading.Thread(target=apply, args=((a, b)[n % 2], n)) for n in range(1, 9)]
for t in crowd:
    t.start()
for t in crowd:
    t.join()
same(codes, [0] * 8, 'eight at once through two servers: all are taken')
same([k['version'] for k in a.get('/v1/config', local=True).json['keys'] if k['name'] == 'semaphores'], [8], 'one after the other')
until(lambda: zk.children('/weir/locks/config') == [], 'nobody is left in line', seconds=30)
until(lambda: pg.sql("SELECT holder FROM duty WHERE name = 'config'", 'weir').strip() == '', 'and the row is free', seconds=30)
epoch = int(pg.sql("SELECT epoch FROM duty WHERE name = 'config'", 'weir'))
ok(epoch >= 8, 'each had its epoch', epoch)
pg.sql("UPDATE duty SET holder = 'ghost', beat = beat + 1 WHERE name = 'config'", 'weir')
same(b.cli('config', 'apply', TMP / 'n.yaml').code, 0, 'a holder that is dead is waited for, and no longer than a lease')
same(int(pg.sql("SELECT epoch FROM duty WHERE name = 'config'", 'weir')), epoch + 1, 'under the next epoch')

# -- an executor that is silent is gone from the register, and the other server has heard of it
stop.set()
for t in threads:
    t.join()
until(lambda: zk.children('/weir/executors') == [], 'silent ones are taken out', seconds=40)
until(lambda: node(b, 'xa').get('state') == 'lost' and node(a, 'xb').get('state') == 'lost', 'lost, at the other server too', seconds=30)

# -- without it
zk.stop()
until(lambda: coordination(a)['state'] == coordination(b)['state'] == 'away', 'it is stopped', seconds=40)
same(sorted((n['name'], n['role']) for n in a.get('/v1/nodes').json['nodes']), sorted((n['name'], n['role']) for n in before + [node(a, 'c')] if n), 'weir nodes has all of them without it')
same([a.cli('config', 'apply', TMP / 'n1.yaml').code, b.cli('config', 'apply', TMP / 'n2.yaml').code], [0, 0], 'and the lock is had by the row alone')
for s in (a, b):
    s.stop(signal.SIGINT)
pg.remove()
zk.remove()
end()
