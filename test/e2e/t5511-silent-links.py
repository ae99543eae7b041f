#!/usr/bin/env python3
# time limit: 200
# store: sqlite (it starts its own PostgreSQL)
"""Links that are cut so that nothing says so: a server without its database says that within seconds and is back by itself, its executor goes on with the other
server, one that has lost all servers keeps its job and tells its end later; a database that stands still doesn't keep a server for minutes."""
import http.client
import pathlib
import shutil
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
import netns  # noqa: E402
import postgres  # noqa: E402
from house import TMP, end, ok, same, skip, until  # noqa: E402

why = f'there is no {postgres.BIN}' if not postgres.available() else netns.enter()
if why:
    skip('links that are cut', why)
    end()
LEASE, SOON = 6, 20
net = netns.Net()
pg = postgres.Postgres(machine=net.machine('db')).start()
pg.create('weir')
url = f'postgresql://{postgres.USER}@{pg.machine.address}/weir'
s0 = netns.Far(net.machine('s0'), '--store', url, slots=0, lease=f'{LEASE}s')
(TMP / 's1').mkdir(mode=0o711)
shutil.copy(TMP / 's0/verify.key', TMP / 's1/verify.key')
s1 = netns.Far(net.machine('s1'), '--store', url, slots=0, lease=f'{LEASE}s')
token = TMP / 'token'
token.write_text(s0.cli('token', 'create', '--name', 'x', '--scope', 'execute').out)
token.chmod(0o600)
x = netns.FarAgent(net.machine('x'), [s0, s1], token)
until(x.active, 'an executor polls at s0', seconds=30)


def job(server, name):
    return server.enqueue(dict(name=name, script=f'echo begun; while [ ! -e {TMP}/gate-{name} ]; do sleep 0.05; done; echo ended', retry=dict(attempts=5)))['id']


def tell(server, path='/readyz', timeout=SOON + 8):
    """status and seconds"""
    began = time.monotonic()
    try:
        status = server.get(path, timeout=timeout).status
    except (OSError, http.client.HTTPException):
        status = None
    return status, time.monotonic() - began


def attempt(server, name, timeout=40):
    began = time.monotonic()
    try:
        answer = server.post('/v1/tasks', dict(name=name, queue='other', data=1), headers={'Idempotency-Key': name}, timeout=timeout)
        return answer.status, time.monotonic() - began
    except (OSError, http.client.HTTPException):
        return None, time.monotonic() - began


# -- a server without its database
long = job(s0, 'long')
until(lambda: s0.state(long) == 'X', 'a job runs')
net.cut('s0', 'db')
began = time.monotonic()
status, seconds = attempt(s0, 'refused')
ok(status == 503 and seconds < SOON, f's0 is cut from the database: who asks is told in {seconds:.1f} s', status)
until(lambda: tell(s0)[0] == 503, 's0 says that it is not ready', seconds=SOON)
quick = s1.enqueue(dict(name='quick', command='true'))['id']
until(lambda: s1.state(quick) == 'D', 'the executor has gone to s1', seconds=SOON + LEASE)
print(f'# {time.monotonic() - began:.1f} s after the cut', flush=True)
status, seconds = tell(s0, '/v1/tasks?limit=1')
ok(status == 503 and seconds < SOON, f'a read at s0 is answered in {seconds:.1f} s', status)
task = s1.task(long)
same((task['state'], len(task['attempts'])), ('X', 1), 'the job has run on, in its first attempt')
net.heal()
began = time.monotonic()
until(lambda: tell(s0)[0] == 200 and attempt(s0, 'refused')[0] == 201, 'the link is back: so is s0, and what was refused is taken', seconds=SOON)
same(len([t for t in s1.patient('/v1/tasks?queue=other').json['tasks'] if t['key']['name'] == 'refused']), 1, 'once')
(TMP / 'gate-long').touch()
until(lambda: s0.state(long) == 'D', 'the job ends', seconds=SOON)

# -- an executor without any server
alone = job(s0, 'alone')
until(lambda: s0.state(alone) == 'X', 'another job runs')
net.cut('x')
until(lambda: s0.state(alone) != 'X', 'its executor is cut off: the lease ends', seconds=3 * LEASE + 10)
(TMP / 'gate-alone').touch()
time.sleep(1)
net.heal()
until(lambda: s1.state(alone) == 'D', 'the link is back: the end is told', seconds=SOON + LEASE)
task = s0.task(alone)
same([a['outcome'] for a in task['attempts']][-1:], ['done'], 'late, and unchallenged: it counts')
same((len(task['attempts']), s1.log_bytes(alone)), (1, b'begun\nended\n'), 'nothing ran twice, and the log is whole')

# -- the cable of the server that the executor talks to
more = job(s1, 'more')
until(lambda: s1.state(more) == 'X', 'one more job runs')
for name in ('s0', 's1'):
    net.down(name)
    (TMP / 'gate-more').touch() if name == 's0' else None
    other = s1 if name == 's0' else s0
    until(lambda o=other: o.get('/readyz').status == 200, f'the cable of {name} is pulled: the other one is well', seconds=SOON)
    until(lambda o=other: o.state(more) == 'D', 'and hears of the end', seconds=SOON + LEASE)
    net.up(name)
    until(lambda n=name: (s0 if n == 's0' else s1).get('/readyz').status == 200, f'{name} is back', seconds=SOON)

# -- a database that stands still
pg.freeze()
status, seconds = attempt(s0, 'stands', timeout=60)
ok(status == 503 and seconds < 40, f'the database stands still: an answer comes in {seconds:.1f} s', status)
pg.freeze(signal.SIGCONT)
until(lambda: attempt(s0, 'stands')[0] == 201 and attempt(s1, 'stands')[0] == 201, 'it goes on: so do the servers', seconds=30)
same(len([t for t in s1.patient('/v1/tasks?queue=other').json['tasks'] if t['key']['name'] == 'stands']), 1, 'with one task of that key')
same(x.stop(), 0, 'the executor ends when told')
ok(s0.verify().code == 0 and s1.verify().code == 0, 'the history verifies')
for s in (s0, s1):
    same(s.stop(signal.SIGINT), 0, f'{s.dir.name} ends')
pg.remove()
end()
