#!/usr/bin/env python3
# time limit: 150
# store: sqlite (it starts its own PostgreSQL)
"""Two servers whose clocks are five minutes apart, one ahead of the database and one behind: times of events don't step back, leases and peers stand, timers fire at their time and once, schedules
fire each minute once also when the duty changes hands, tokens live as long as they were made for at either server; the log and status say that a clock is wrong, and stop saying it when it is put right."""
import glob
import os
import pathlib
import shutil
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'promises'))
from promise import special_build  # noqa: E402

special_build()  # plain: libfaketime and a sanitizer don't go together
from house import TMP, House, Worker, database, end, ok, same, skip, until  # noqa: E402
from voices import Voice  # noqa: E402

library = glob.glob('/usr/lib/*/faketime/libfaketimeMT.so.1')
if not library:
    skip('clocks apart', 'libfaketime is not here')
    end()
pg, url = database()


def clock(name, seconds):
    (TMP / f'{name}.new').write_text(f'{seconds:+d}\n')
    os.rename(TMP / f'{name}.new', TMP / f'{name}.clock')


def made(name, seconds):
    clock(name, seconds)
    return House(name, '--store', url, '--name', name, slots=0, lease='4s',
                 env=dict(LD_PRELOAD=library[0], FAKETIME_TIMESTAMP_FILE=str(TMP / f'{name}.clock'), FAKETIME_CACHE_DURATION='0', FAKETIME_NO_CACHE='1', DONT_FAKE_MONOTONIC='1',
                          FAKETIME_DONT_FAKE_MONOTONIC='1'))


def stamp(seconds=0):
    return time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime(time.time() + seconds))


def when(text):
    return time.mktime(time.strptime(text[:19], '%Y-%m-%dT%H:%M:%S')) - time.timezone


fast = made('fast', 300)
(TMP / 'slow').mkdir(mode=0o711)
shutil.copy(TMP / 'fast/verify.key', TMP / 'slow/verify.key')
slow = made('slow', -300)
both = (fast, slow)
for s in both:
    until(lambda: 'clock.apart' in s.log.read_text(), f'{s.dir.name}: the log says that its clock is wrong', 15)
    got = s.cli('status')
    ok('off the database' in got.err and 'NTP' in got.err, f'{s.dir.name}: status, too', got.err)

# -- peers and leases
until(lambda: all(n['state'] == 'active' for s in both for n in s.get('/v1/nodes').json['nodes']), 'both count as alive, at both')
worker = Worker(fast, 'w', instance='w1')
task = slow.enqueue(dict(name='long', queue='q', data=1, retry=dict(attempts=1)))['id']
grant, = worker.claim(wait_ms=5000)
began = time.monotonic()
while time.monotonic() - began < 9:
    for s in both:
        worker.server = s
        worker.poll(0, renew=[dict(task=task, fence=grant['fence'])])
        s.enqueue(dict(name=f'e{time.monotonic()}', queue='e', not_before='2040-01-01T00:00:00Z'))
    time.sleep(0.3)
same(slow.state(task), 'X', 'a job that is renewed at either server keeps its lease')
same(worker.finish(grant).status, 200, 'and ends')

# -- a timer, made at either
due = time.time() + 4
timers = [s.enqueue(dict(name='timer', queue='t', data=1, not_before=stamp(4)))['id'] for s in both]
same([fast.state(t) for t in timers], ['S', 'S'], 'what is due in 4 s waits, whichever server took it')
until(lambda: all(slow.state(t) == 'P' for t in timers), seconds=20)
ok(-1.5 < time.time() - due < 6, f'and is ready at its time ({time.time() - due:+.1f} s)')

# -- tokens
for here, there in (both, both[::-1]):
    answer = here.post('/v1/tokens', dict(name=f'k-{here.dir.name}', scopes=['read'], expires=stamp(8)), local=True)
    token = answer.json['token']
    ok(there.get('/v1/stats', token=token).status == 200, f'a token of 8 s made at {here.dir.name} is good at {there.dir.name}', answer)
    until(lambda: there.get('/v1/stats', token=token).status == 401 and here.get('/v1/stats', token=token).status == 401, seconds=20)
    ok(there.get('/v1/stats', token=token).status == 401, 'and ends')

# -- a job's token is as long good as its job runs, whichever server granted it and whichever is asked
for here, there in (both, both[::-1]):
    here.enqueue(dict(name='job', queue='jobs', command='true', labels=dict(job='token'), retry=dict(attempts=2)), local=True)
    agent = Worker(Voice(here), f'j-{here.dir.name}', labels=dict(job='token'))
    grant, = agent.claim(wait_ms=5000)

    def heard():
        return [s.get(f'/v1/tasks/{grant["task"]}', token=grant['spec']['token']).status for s in (here, there)]

    same(heard(), [200, 200], f'the token of a job granted at {here.dir.name} is good at both')
    same(there.post('/v1/tasks', dict(name='of-a-job', queue='made', data=1), token=grant['spec']['token']).status, 201, 'it makes a task at the other server')
    lost = grant
    agent.server = Voice(there)  # nobody renews it: it is lost by the database's clock, neither five minutes early nor late
    began = time.monotonic()
    until(lambda: heard() == [401, 401], seconds=30)
    ok(3 < time.monotonic() - began < 20, f'and ends with its lease ({time.monotonic() - began:.1f} s of 4 s)')
    grant, = agent.claim(wait_ms=10000)
    same((grant['task'], heard()), (lost['task'], [200, 200]), 'the next attempt has its own, from the other server')
    same([s.get(f'/v1/tasks/{grant["task"]}', token=lost['spec']['token']).status for s in both], [401, 401], 'and the old one stays ended')
    agent.finish(grant)
    same(heard(), [401, 401], 'a job that has ended has none')

# -- a schedule: each minute once, also when the duty changes hands
for path, body in (('/v1/archives', dict(name='clock', kind='external')),
                   ('/v1/archives/clock/revisions', dict(rev=1, workflow=[dict(name='tick', schedule='* * * * *', checkout=False, script='true')]))):
    slow.post(path, body, local=True)


def ticks():
    return [t['created'] for t in slow.get('/v1/tasks?archive=clock&limit=1000', local=True).json['tasks'] if t['key'].get('name', '').startswith('tick')]


until(ticks, 'a schedule fires', 75)
first = ticks()
fast.stop()
until(lambda: time.time() % 60 < 50 and time.time() % 60 > 5, seconds=20)
same(len(ticks()), len(first), 'the other server takes the duty over and fires nothing twice')
ok(abs(when(first[0]) - round(when(first[0]) / 60) * 60) < 5 and abs(when(first[0]) - time.time()) < 70, 'at its minute', first, stamp())
fast.start()

# -- put right
for s in both:
    clock(s.dir.name, 0)
for s in both:
    until(lambda: 'clock' not in s.cli('status').err, f'{s.dir.name}: put right, and nothing more is said of it', 20)
made_last = slow.enqueue(dict(name='last', queue='t', data=1), local=True)
ok(abs(when(made_last['created']) - time.time()) < 3, 'times are true', made_last['created'], stamp())
times = [(e['time'], e['seq']) for e in slow.events('since=0', local=True)]
back = [(a, b) for a, b in zip(times, times[1:]) if b[0] < a[0]]
same(back[:3], [], f'times of {len(times)} events never step back')
ok(all(abs(when(t) - time.time()) < 200 for t, _ in times), 'and are those of the database\'s clock', times[:2], times[-2:])
same(slow.verify().code, 0, 'weir verify')
end()
