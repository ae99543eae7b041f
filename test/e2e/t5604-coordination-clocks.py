#!/usr/bin/env python3
# time limit: 150
# store: sqlite (it starts its own PostgreSQL and ZooKeeper)
"""ZooKeeper, with servers whose clocks are five minutes apart from each other and from it: sessions stand, both are in the register, duties have one holder; clocks that are set by minutes while
they run end no session and move no duty; a server that is killed is noticed when its session ends, not minutes early or late."""
import glob
import os
import pathlib
import shutil
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'promises'))
from promise import special_build  # noqa: E402

special_build()  # plain: libfaketime and a sanitizer don't go together
import postgres  # noqa: E402
import zookeeper  # noqa: E402
from house import TMP, House, Worker, end, ok, same, skip, until  # noqa: E402

library = glob.glob('/usr/lib/*/faketime/libfaketimeMT.so.1')
if not library or not postgres.available() or not zookeeper.available():
    skip('clocks apart', 'libfaketime, PostgreSQL or ZooKeeper is not here')
    end()
pg = postgres.Postgres().start()
url = pg.create('weir')
zk = zookeeper.ZooKeeper().start()


def clock(name, seconds):
    (TMP / f'{name}.new').write_text(f'{seconds:+d}\n')
    os.rename(TMP / f'{name}.new', TMP / f'{name}.clock')


def made(name, seconds):
    clock(name, seconds)
    if (TMP / 'fast/verify.key').exists() and name != 'fast':
        (TMP / name).mkdir(mode=0o711)
        shutil.copy(TMP / 'fast/verify.key', TMP / f'{name}/verify.key')
    return House(name, '--store', url, '--name', name, '--coordination', zk.url, slots=0, lease='4s',
                 env=dict(LD_PRELOAD=library[0], FAKETIME_TIMESTAMP_FILE=str(TMP / f'{name}.clock'), FAKETIME_CACHE_DURATION='0', FAKETIME_NO_CACHE='1', DONT_FAKE_MONOTONIC='1',
                          FAKETIME_DONT_FAKE_MONOTONIC='1'))


def holders():
    return dict(line.split('|')[:2] for line in pg.sql('SELECT name, holder FROM duty', 'weir').splitlines())


def epochs():
    return pg.sql('SELECT name, holder, epoch FROM duty ORDER BY name', 'weir')


def seen(s):
    return sorted((n['name'], n['state']) for n in s.patient('/v1/nodes').json['nodes'] if n['role'] == 'server')


fast = made('fast', 300)
until(lambda: set(holders().values()) == {'fast'}, 'the first has the duties', 30)
slow = made('slow', -300)
both = (fast, slow)
for s in both:
    until(lambda: s.patient('/v1/nodes').json['coordination']['state'] == 'active', f'{s.dir.name}: its session stands', 30)
    until(lambda: seen(s) == [('fast', 'active'), ('slow', 'active')], f'{s.dir.name}: both are there', 30)
same(zk.children('/weir/nodes'), ['fast', 'slow'], 'in the register, too')
before, sessions = epochs(), sorted(zk.sessions())

# -- timers and a job over both, while clocks are set
worker = Worker(fast, 'w', instance='w1')
task = slow.enqueue(dict(name='long', queue='q', data=1, retry=dict(attempts=1)))['id']
grant, = worker.claim(wait_ms=5000)
due = time.time() + 6
timer = slow.enqueue(dict(name='timer', queue='t', data=1, not_before=time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime(due)), labels=dict(none='such')))['id']
for ahead, behind in ((600, -600), (-600, 600), (300, -300)):
    clock('fast', ahead)
    clock('slow', behind)
    since = time.monotonic()
    while time.monotonic() - since < 3:
        for s in both:
            worker.server = s
            worker.poll(0, renew=[dict(task=task, fence=grant['fence'])])
        time.sleep(0.2)
same(slow.state(task), 'X', 'clocks jump by twenty minutes: a job keeps its lease')
same(worker.finish(grant).status, 200, 'and ends')
same(epochs(), before, 'duties stay where they were')
same(sorted(zk.sessions()), sessions, 'and so do sessions')
same([seen(s) for s in both], [[('fast', 'active'), ('slow', 'active')]] * 2, 'both count as alive')
until(lambda: slow.state(timer) != 'S', seconds=20)
ok(-1.5 < time.time() - due < 8, f'a timer is ready at its time ({time.time() - due:+.1f} s)')

# -- the holder is killed: noticed by its session, whatever the clocks say
fast.process.kill()
began = time.monotonic()
fast.process.wait()
until(lambda: set(holders().values()) == {'slow'}, 'the holder is killed: the other has the duties', 40)
took = time.monotonic() - began
ok(took < 20, f'after {took:.1f} s')
due = time.time() + 2
timer = slow.enqueue(dict(name='late', queue='t', data=1, not_before=time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime(due)), labels=dict(none='such')))['id']
until(lambda: slow.state(timer) != 'S', 'and fires timers', 20)
ok(-1.5 < time.time() - due < 8, f'at their time ({time.time() - due:+.1f} s)')
fast.start()
until(lambda: seen(slow) == [('fast', 'active'), ('slow', 'active')], 'the first comes again', 30)
slow.stop(signal.SIGTERM)
until(lambda: set(holders().values()) == {'fast'}, 'and has them when the other goes', 30)
times = [e['time'] for e in fast.events('since=0', local=True)]
same([(a, b) for a, b in zip(times, times[1:]) if b < a][:3], [], f'times of {len(times)} events never step back')
same(fast.verify().code, 0, 'weir verify')
zk.stop()
end()
