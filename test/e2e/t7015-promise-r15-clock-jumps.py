#!/usr/bin/env python3
# time limit: 200
"""R15, clock jumps are harmless: server and executor under libfaketime, their wall clock set a day and ten years forward and back while jobs run: no
lease expires, no job runs twice, nothing starts early or hangs; nothing is old, and no key gone, because the clock jumped; a schedule is right when the clock is."""
import calendar
import glob
import os
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'promises'))
from promise import Promise, rng, scaled, special_build, verify  # noqa: E402

special_build()  # plain: libfaketime and a sanitizer don't go together
from house import TMP, House, end, ok, skip, until  # noqa: E402
from serving import STORE  # noqa: E402

SHARED = STORE == 'postgres'  # the database's clock counts there (decision 0020)
library = glob.glob('/usr/lib/*/faketime/libfaketimeMT.so.1')
if not library:
    skip('clock jumps', 'libfaketime is not here')
    end()
JUMPS = scaled(8)
p = Promise('R15', 'clock jumps are harmless')
for what in ('wrongly expired leases', 'reruns', 'started early', 'hangs', 'calls that failed', 'destroyed by the clock', 'missed slots'):
    p.zero(what)
clock = TMP / 'clock'


def jump(text):
    (TMP / 'clock.new').write_text(text + '\n')
    os.rename(TMP / 'clock.new', clock)


jump('+0')
s = House('data', slots=4, lease='10s', env=dict(LD_PRELOAD=library[0], FAKETIME_TIMESTAMP_FILE=str(clock), FAKETIME_CACHE_DURATION='0', FAKETIME_NO_CACHE='1',
                                                 DONT_FAKE_MONOTONIC='1', FAKETIME_DONT_FAKE_MONOTONIC='1'))
day = [0]
jobs = [t['id'] for t in s.enqueue(*[dict(name=f'long{i}', script=f'unset LD_PRELOAD; echo x >> {TMP}/ran{i}; while [ ! -e {TMP}/go ]; do sleep 0.05; done') for i in range(3)])]
until(lambda: all((TMP / f'ran{i}').exists() for i in range(3)), 'jobs run', 30)
# what is to start in a thousand days of real time must not start by a jump back and forth that ends where it began; a back-off must end
temporary = s.enqueue(dict(name='temporary', retry=dict(attempts=3, backoff='1s'), script=f'unset LD_PRELOAD; echo x >> {TMP}/temporary; [ $(wc -l < {TMP}/temporary) -gt 1 ] || exit 111'))['id']
# what has a time of its own: results, a key, a schedule
first = s.enqueue(dict(name='precious', command='true'))['id']
until(lambda: s.state(first) == 'D', seconds=30)


def keyed():
    return s.ask('POST', '/v1/tasks', dict(name='keyed', command='true'), {'Idempotency-Key': 'k'}, local=True)


keyed_first = keyed().json['id']
s.post('/v1/archives', dict(name='clock', kind='external'), local=True)
s.post('/v1/archives/clock/revisions', dict(rev=1, workflow=[dict(name='tick', schedule='* * * * *', command='true', checkout=False)]), local=True)


def destroyed(offset):
    old = s.post('/v1/prune', dict(older_than='90d', dry_run=True), local=True).json
    p.zero('destroyed by the clock', old['tasks'], (offset, old))
    again = keyed()
    p.zero('destroyed by the clock', int(again.json.get('id') != keyed_first), (offset, again.json))


for n, offset in enumerate((['+1d', '-1d', '+3650d', '-3650d', '+0', '-2h', '+400d', '+0'] * scaled(1))[:JUMPS]):
    jump(offset)
    p.did('jumps')
    seen = s.get('/v1/stats', local=True)
    p.zero('calls that failed', int(seen.status != 200))
    quick = s.enqueue(dict(name=f'quick{n}', command='true'))['id']
    done = until(lambda: s.state(quick) in 'DFTA', seconds=40)
    p.zero('hangs', int(not done), (offset, s.task(quick), s.get(f'/v1/tasks/{quick}/why').body))
    p.did('tasks')
    destroyed(offset)
    deadline = time.monotonic() + rng.uniform(0.4, 1.2)
    while time.monotonic() < deadline:
        states = [s.state(j) for j in jobs]
        p.zero('wrongly expired leases', sum(x != 'X' for x in states), (offset, states))
        time.sleep(0.1)
wall = [e['time'] for e in s.events('since=0&limit=1000')]
if SHARED:
    ok(len({t[:10] for t in wall}) < 3, f'times are the database\'s, whose clock didn\'t jump: {sorted({t[:10] for t in wall})}')
    jump('+1d')
    until(lambda: 'clock.apart' in s.log.read_text(), 'the log says that this machine\'s clock is another')
    until(lambda: all('off the database' in s.cli(word).err for word in ('nodes', 'status')), 'nodes and status say it')
else:
    ok(len({t[:4] for t in wall}) > 1, f'the server did see the jumps: {sorted({t[:4] for t in wall})}')
    told = [line for line in s.log.read_text().splitlines() if 'clock.jumped' in line]
    ok(len(told) >= JUMPS - 1, f'each jump is a line in the log: {len(told)}', *told)
    ok('clock jumped' in s.cli('nodes').err and 'clock jumped' in s.cli('status').err and 'clock jumped' in s.cli('top').out, 'nodes, status and top say it')
jump('+0')
time.sleep(0.1)
s.kill()
jump('+400d')
s.start()
destroyed('a start a year ahead')
jump('+0')
s.enqueue(dict(name='turn', command='true'))
destroyed('put right')


def next_minute():
    text = s.get('/v1/archives/clock', local=True).json['schedules'][0]['next']
    return calendar.timegm(time.strptime(text[:19], '%Y-%m-%dT%H:%M:%S')) - time.time()


right = until(lambda: next_minute() < 121, seconds=90)
p.zero('missed slots', int(not right), s.get('/v1/archives/clock', local=True).json)
late = s.enqueue(dict(name='late', command='true', not_before=time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime(time.time() + 3600))))['id']
until(lambda: s.state(late) == 'S', seconds=30)
p.zero('started early', int(s.state(late) != 'S'), s.task(late))
jump('+2h')
if SHARED:
    quick = s.enqueue(dict(name='hour', command='true'))['id']
    until(lambda: s.state(quick) == 'D', seconds=30)
    p.zero('started early', int(s.state(late) != 'S'), s.task(late))
else:
    passed = until(lambda: s.state(late) == 'D', seconds=40)
    p.zero('hangs', int(not passed), ('not_before has passed by the wall clock', s.task(late)))
ended = until(lambda: s.state(temporary) == 'D', seconds=30)
p.zero('hangs', int(not ended), s.task(temporary))
(TMP / 'go').touch()
for i, task in enumerate(s.ended(*jobs, seconds=30)):
    p.did('long jobs')
    p.zero('reruns', len((TMP / f'ran{i}').read_text().split()) - 1 + len(task['attempts']) - 1, task)
verify(p, s)
p.report()
end()
