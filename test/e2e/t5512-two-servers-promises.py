#!/usr/bin/env python3
# time limit: 240
# store: sqlite (it starts its own PostgreSQL)
"""R4, R9 and R16 with two servers on one PostgreSQL, on machines of their own: a zombie that talks to one server while its heir talks to the other; executors that
are killed, stopped, cut off and pulled, whose tasks run elsewhere in time through the other server; keys asked for many times at once through both while they are
killed in turn. (The same with one server, in all orders and sizes: t7004, t7009, t7016.)"""
import http.client
import itertools
import os
import pathlib
import shutil
import signal
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'promises'))
from promise import Promise, rng, scaled, tasks_of, verify  # noqa: E402
import netns  # noqa: E402
import postgres  # noqa: E402
from house import NAP, TMP, Worker, end, skip, until  # noqa: E402

why = f'there is no {postgres.BIN}' if not postgres.available() else netns.enter()
if why:
    skip('two servers', why)
    end()
LEASE = 3
net = netns.Net()
pg = postgres.Postgres(machine=net.machine('db')).start()
pg.create('weir')
url = f'postgresql://{postgres.USER}@{pg.machine.address}/weir'
s0 = netns.Far(net.machine('s0'), '--store', url, slots=0, lease=f'{LEASE}s')
(TMP / 's1').mkdir(mode=0o711)
shutil.copy(TMP / 's0/verify.key', TMP / 's1/verify.key')
s1 = netns.Far(net.machine('s1'), '--store', url, slots=0, lease=f'{LEASE}s')
pair = [s0, s1]


def at(worker, server):
    """the same executor, talking to that server"""
    moved = Worker.__new__(Worker)
    moved.server, moved.id, moved.lease_ms = server, worker.id, worker.lease_ms
    return moved


# -- R4: each of its messages goes to any server
r4 = Promise('R4', 'exactly one effective completion, two servers')
for what in ('double effects', 'wrong attempt', 'stale accepted', 'right one refused', 'log mixed', 'servers that differ'):
    r4.zero(what)
ZOMBIE, HEIR = ['zlog', 'zend', 'zend'], ['hlog', 'hend', 'hend']


def order_of(places):
    z, h = iter(ZOMBIE), iter(HEIR)
    return [next(z) if i in places else next(h) for i in range(len(ZOMBIE) + len(HEIR))]


cases = [order_of(places) for places in itertools.combinations(range(6), 3)] * scaled(2)
ids = [t['id'] for t in s0.enqueue(*[dict(queue='z', name=f'z{i}', command='x') for i in range(len(cases))])]
zombie = Worker(s0, 'zombie', slots=100)
old = {g['task']: g for g in zombie.claim(free=100)}
until(lambda: not s1.patient('/v1/tasks?queue=z&state=X&limit=1000').json['tasks'], seconds=30)
heir = Worker(s1, 'heir', slots=100)
new = {g['task']: g for g in heir.claim(free=100)}
beat = threading.Event()


def beats():
    while not beat.wait(0.3):
        at(heir, s1).poll(free=0, renew=[dict(task=g['task'], fence=g['fence']) for g in list(new.values())])


thread = threading.Thread(target=beats, daemon=True)
thread.start()
for task_id, order in zip(ids, cases):
    r4.did('runs')
    z, h = old.get(task_id), new.get(task_id)
    if not z or not h or not z['fence'] < h['fence']:
        r4.zero('wrong attempt', 1, (z, h))
        continue
    code = rng.randint(1, 90)
    for step in order:
        who = at(zombie if step[0] == 'z' else heir, rng.choice(pair))
        if step == 'zlog':
            r4.zero('stale accepted', int(who.log(z, 0, b'of the zombie\n').status != 409))
        elif step == 'zend':
            answer = who.finish(z, exit=0, outputs={'who': 'zombie'})
            r4.zero('stale accepted', int(answer.status != 409 or answer.code != 'stale_fence'), answer)
        elif step == 'hlog':
            answer = who.log(h, 0, b'of the heir\n')
            r4.zero('right one refused', int(answer.status != 200), answer)
        else:
            answer = who.finish(h, exit=code, outputs={'who': 'heir'})
            r4.zero('right one refused', int(answer.status != 200), answer)
    new.pop(task_id)
    task = s0.task(task_id)
    r4.zero('double effects', int((task['state'], task['attempts'][-1]['exit'], task['outputs'].get('who')) != ('F', code, 'heir')), (order, task))
    r4.zero('wrong attempt', int([a['outcome'] for a in task['attempts']] != ['lost', 'failed']), task)
    r4.zero('servers that differ', int(s1.task(task_id) != task), task)
    r4.zero('log mixed', int(s0.log_bytes(task_id) != b'of the heir\n' or s1.log_bytes(task_id) != b'of the heir\n'), task_id)
beat.set()
thread.join()
r4.report()

# -- R9: the victim talks to s0, who takes its work over to s1
r9 = Promise('R9', "a dead executor's task runs elsewhere in time, two servers")
for what in ('never reran', 'double effects'):
    r9.zero(what)
token = TMP / 'token'
token.write_text(s0.cli('token', 'create', '--name', 'x', '--scope', 'execute').out)
token.chmod(0o600)
backup = netns.FarAgent(net.machine('backup'), [s1, s0], token, slots=20)
until(backup.active, 'R9: the executor that stays is there', 30)
for n, way in enumerate(['kill', 'stop', 'cut', 'cable', 'with its server'] * scaled(1)):
    s1.post('/v1/executors/backup/pause', dict(reason='not yet'))
    victim = netns.FarAgent(net.machine(f'v{n}'), [s0], token, slots=2)
    until(victim.active, seconds=30)
    jobs = s1.enqueue(*[dict(name=f'r{n}-{i}', script=f'date +%s.%N > {TMP}/began-{n}-{i}-$WEIR_ATTEMPT; [ $WEIR_ATTEMPT -gt 1 ] || sleep {NAP}') for i in range(2)])
    until(lambda: all((TMP / f'began-{n}-{i}-1').exists() for i in range(2)), seconds=30)
    s1.post('/v1/executors/backup/resume', dict(reason='now'))
    began = time.time()
    if way == 'kill':
        victim.kill_all()
    elif way == 'stop':
        os.kill(victim.process.pid, signal.SIGSTOP)
    elif way == 'cut':
        net.cut(victim.name)
    elif way == 'cable':
        net.down(victim.name)
    else:
        s0.kill()
        victim.kill_all()
    r9.did(way)
    done = s1.ended(*[t['id'] for t in jobs], seconds=30)
    for i, task in enumerate(done):
        path = TMP / f'began-{n}-{i}-2'
        r9.zero('never reran', int(not path.exists()), task)
        r9.zero('double effects', int([a['outcome'] for a in task['attempts']] != ['lost', 'done']), task)
        if path.exists():
            late = float(path.read_text()) - began
            if way == 'with its server':  # what it has heard was written down up to a second ago, and is watched a whole lease from when it was read
                r9.bound('seconds to the slowest rerun, its server dead too', late, 2 * LEASE + 1)
            else:
                r9.bound('seconds to the slowest rerun', late, 2 * LEASE)
            r9.did('reruns')
    if way == 'stop':
        os.kill(victim.process.pid, signal.SIGCONT)
    victim.kill_all()
    if way == 'with its server':
        s0.start()
backup.stop()
r9.report()

# -- R16
r16 = Promise('R16', 'intake is idempotent, two servers')
for what in ('tasks that are not one per key', 'ids that differ', 'wrong answers', 'lost inserts'):
    r16.zero(what)
KEYS, TIMES, KILLS = scaled(60), 12, scaled(2)
todo = [k for _, k in sorted((k + rng.uniform(0, 3), k) for k in range(KEYS) for _ in range(TIMES))]
seen, lock = {}, threading.Lock()


def client(number):
    while True:
        with lock:
            if not todo:
                return
            k = todo.pop(0)
        deadline, answer, turn = time.monotonic() + 60, None, number
        while answer is None and time.monotonic() < deadline:
            turn += 1
            try:
                answer = pair[turn % 2].post('/v1/tasks', dict(queue='led', name=f'n{k}', command='true'), headers={'Idempotency-Key': f'key{k}'}, local=True, timeout=20)
                answer = None if answer.status == 503 else answer
            except (OSError, http.client.HTTPException):
                pass
            if answer is None:
                time.sleep(0.02)
        with lock:
            if answer is None or answer.status != 201:
                r16.zero('wrong answers', 1, (k, answer))
            else:
                seen.setdefault(k, set()).add(answer.json['id'])
                r16.did('answers')


threads = [threading.Thread(target=client, args=(i,)) for i in range(12)]
for thread in threads:
    thread.start()
for kill in range(KILLS):
    mark = KEYS * TIMES * (KILLS - kill) // (KILLS + 1)
    until(lambda: len(todo) <= mark, seconds=60)
    pair[kill % 2].kill()
    pair[kill % 2].start()
    r16.did('kills')
for thread in threads:
    thread.join()
tasks = tasks_of(s0, 'led')
names = [t['key']['name'] for t in tasks]
r16.did('keys', KEYS)
r16.zero('tasks that are not one per key', abs(len(tasks) - KEYS) + len(names) - len(set(names)), sorted(names))
r16.zero('ids that differ', sum(len(v) != 1 for v in seen.values()), [v for v in seen.values() if len(v) > 1])
r16.zero('lost inserts', len([k for k, v in seen.items() if not v <= {t['id'] for t in tasks}]))
for s in pair:
    verify(r16, s)
r16.report()
for s in pair:
    s.stop(signal.SIGINT)
pg.remove()
end()
