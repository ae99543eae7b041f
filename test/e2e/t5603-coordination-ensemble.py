#!/usr/bin/env python3
# time limit: 150
# store: sqlite (it starts its own PostgreSQL and ZooKeepers)
"""An ensemble of three ZooKeepers: its leader is killed, and the servers' sessions live on with their nodes; every duty has one holder all the time; a second one is
killed and there is no quorum: work goes on by the store alone; it comes back, and so does the register."""
import pathlib
import shutil
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
import postgres  # noqa: E402
import zookeeper  # noqa: E402
from house import TMP, House, Worker, end, ok, same, skip, until  # noqa: E402

if not postgres.available() or not zookeeper.available():
    skip('PostgreSQL and ZooKeeper', 'one of them is not there')
    end()
ensemble = zookeeper.Ensemble()
for z in ensemble.servers:
    z.launch()
pg = postgres.Postgres().start()
url = pg.create('weir')
for z in ensemble.servers:
    z.ready(100)
pair = []
for name in 'ab':
    if name == 'b':
        (TMP / 'b').mkdir(mode=0o711)
        shutil.copy(TMP / 'a/verify.key', TMP / 'b/verify.key')
    pair.append(House(name, '--store', url, '--name', name, '--coordination', ensemble.url, slots=0))
a, b = pair


def states():
    return [s.get('/v1/nodes').json['coordination']['state'] for s in pair]


def living():
    return [z for z in ensemble.servers if z.process.poll() is None]


def sessions():
    """of the nodes that are there, whichever server is asked"""
    return sorted(living()[0].sessions())


def duties():
    return pg.sql('SELECT name, holder, epoch FROM duty ORDER BY name', 'weir').split()


until(lambda: states() == ['active', 'active'] and ensemble.servers[0].children('/weir/nodes') == ['a', 'b'], 'both servers are in its register', seconds=60)
until(lambda: len(duties()) == 4 and all('|a|' in d or '|b|' in d for d in duties()), 'each duty has a holder', seconds=20)
before, was = duties(), sessions()
same(len(was), 2, 'two sessions')

# -- the leader is killed
leader = ensemble.leader()
ok(leader is not None, 'it has a leader')
began = time.monotonic()
leader.stop()
w = Worker(a, 'w', kinds=['data'])
task = b.enqueue(dict(name='t', queue='q', data=1))['id']
grants = []
until(lambda: grants.extend(w.claim(wait_ms=500)) or grants, 'work goes on meanwhile', seconds=20)
same([g['task'] for g in grants], [task], 'what was sent through one is run through the other')
until(lambda: ensemble.leader() is not None, 'another one leads', seconds=60)
until(lambda: states() == ['active', 'active'], 'both servers have found it', seconds=60)
found, took = sessions(), time.monotonic() - began
if took < 3:  # shorter than a session
    same(found, was, f'with the sessions they had ({took:.1f} s)')
else:  # a machine so slow that they may have run out: new ones
    until(lambda: len(sessions()) == 2, f'with two sessions ({took:.1f} s)', seconds=30)
until(lambda: living()[0].children('/weir/nodes') == ['a', 'b'], 'both are in the register', seconds=30)
until(lambda: all('|a|' in d or '|b|' in d for d in duties()), 'each duty has a holder', seconds=30)
print(f'# duties: {"as before" if duties() == before else (before, duties())}', flush=True)
ok(all(int(n.split('|')[2]) >= int(o.split('|')[2]) for n, o in zip(duties(), before)), 'the one it had, or the next one', before, duties())

# -- no quorum
living()[0].stop()
until(lambda: states() == ['away', 'away'], 'with one of three there is no quorum: away', seconds=60)
task = a.enqueue(dict(name='t2', queue='q', data=1))['id']
grants = []
until(lambda: grants.extend(w.claim(wait_ms=500)) or grants, 'work goes on', seconds=20)
began, holder = time.monotonic(), duties()[0].split('|')[1]
(a if holder == 'a' else b).kill()
other = b if holder == 'a' else a
until(lambda: all(f'|{other.dir.name}|' in d for d in duties()), 'the holder is killed: the other has the duties by their rows', seconds=30)
print(f'# after {time.monotonic() - began:.1f} s', flush=True)
for z in ensemble.servers:
    if z.process.poll() is not None:
        z.launch()
until(lambda: other.get('/v1/nodes').json['coordination']['state'] == 'active', 'they are back, and found', seconds=90)
other.stop(signal.SIGINT)
pg.remove()
ensemble.remove()
end()
