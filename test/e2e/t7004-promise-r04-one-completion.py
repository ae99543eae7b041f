#!/usr/bin/env python3
# time limit: 240
"""R4, exactly one effective completion: workers that stop for longer than a lease and come back in every order of their start, log and result with
those of the next; R5, late but unchallenged results count: nobody else was granted the task, so nothing runs again."""
import itertools
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'promises'))
from promise import Promise, rng, scaled, verify  # noqa: E402
from house import House, Worker, end, until  # noqa: E402

s = House('data', slots=0, lease='1s')
r4, r5 = Promise('R4', 'exactly one effective completion'), Promise('R5', 'late results count')
for what in ('double effects', 'wrong attempt', 'stale accepted', 'right one refused', 'log mixed'):
    r4.zero(what)
for what in ('reruns', 'refused', 'wrong ends'):
    r5.zero(what)

# what the zombie (z) and the heir (h) send, in every order that keeps each one's own order, plus the zombie sending its result twice
STEPS = {'z': ['zlog', 'zend'], 'zz': ['zlog', 'zend', 'zend'], 'zr': ['zrenew', 'zend']}


def orders(zombie):
    heir = ['hlog', 'hend', 'hend']
    n = len(zombie) + len(heir)
    for places in itertools.combinations(range(n), len(zombie)):
        z, h = iter(zombie), iter(heir)
        yield [next(z) if i in places else next(h) for i in range(n)]


cases = [o for z in STEPS.values() for o in orders(z)] * scaled(4)
rng.shuffle(cases)
n = 0
while cases:
    batch, cases = cases[:80], cases[80:]
    n += 1
    ids = [t['id'] for t in s.enqueue(*[dict(queue='z', name=f'b{n}-{i}', command='x') for i in range(len(batch))])]
    zombie = Worker(s, f'zombie{n}', slots=100)
    old = {g['task']: g for g in zombie.claim(free=len(batch))}
    until(lambda: not s.get('/v1/tasks?queue=z&state=X&limit=1000').json['tasks'], seconds=30)
    heir = Worker(s, f'heir{n}', slots=100)
    new = {g['task']: g for g in heir.claim(free=len(batch))}
    beat = time.monotonic()
    for task_id, order in zip(ids, batch):
        r4.did('runs')
        if time.monotonic() - beat > 0.2:
            heir.poll(free=0, renew=[dict(task=g['task'], fence=g['fence']) for g in new.values()])
            beat = time.monotonic()
        z, h = old.get(task_id), new.get(task_id)
        if not z or not h or not z['fence'] < h['fence']:
            r4.zero('wrong attempt', 1, (z, h))
            continue
        code, ended = rng.randint(1, 90), False
        for step in order:
            if step == 'zlog':
                r4.zero('stale accepted', int(zombie.log(z, 0, b'of the zombie\n').status != 409))
            elif step == 'zend':
                answer = zombie.finish(z, exit=0, outputs={'who': 'zombie'})
                r4.zero('stale accepted', int(answer.status != 409 or answer.code != 'stale_fence'), answer)
            elif step == 'zrenew':
                answer = zombie.poll(free=0, renew=[dict(task=task_id, fence=z['fence'])])
                told = [c for c in answer['cancels'] + answer.get('stale', []) if (c['task'] if isinstance(c, dict) else c) == task_id]
                r4.did('zombies told', int(bool(told)))
            elif step == 'hlog':
                r4.zero('right one refused', int(heir.log(h, 0, b'of the heir\n').status != 200))
            else:
                answer = heir.finish(h, exit=code, outputs={'who': 'heir'})
                r4.zero('right one refused', int(answer.status != 200), answer)
                ended = True
        task = s.task(task_id)
        good = (task['state'], task['attempts'][-1]['exit'], task['outputs'].get('who')) == ('F', code, 'heir')
        r4.zero('double effects', int(not good or not ended), (order, task))
        r4.zero('wrong attempt', int([a['outcome'] for a in task['attempts']] != ['lost', 'failed'] or task['attempts'][-1]['executor'] != f'heir{n}'), task)
        r4.zero('log mixed', int(s.log_bytes(task_id) != b'of the heir\n' or s.log_bytes(task_id, '?attempt=1') not in (b'',)), task_id)

# -- R5
for n in range(scaled(2)):
    ids = [t['id'] for t in s.enqueue(*[dict(queue=f'late{n}', name=f'l{n}-{i}', command='x') for i in range(100)])]
    late = Worker(s, f'late{n}', slots=200)
    grants = {g['task']: g for g in late.claim(free=100)}
    until(lambda: len(s.get(f'/v1/tasks?queue=late{n}&state=P&limit=1000').json['tasks']) == 100, seconds=30)
    for i, task_id in enumerate(ids):
        if i == 50:
            time.sleep(1.5)  # one and two leases late
        if task_id not in grants:
            r5.zero('refused', 1, 'what was refused before is granted instead')
            continue
        answer = late.finish(grants[task_id], exit=i % 2, outputs={'n': str(i)})
        r5.did('late results')
        r5.zero('refused', int(answer.status != 200), answer)
        again = late.finish(grants[task_id], exit=i % 2, outputs={'n': str(i)})
        r5.zero('refused', int(again.status != 200), again)
        task = s.task(task_id)
        r5.zero('reruns', len(task['attempts']) - 1, task)
        r5.zero('wrong ends', int((task['state'], task['attempts'][0]['exit'], task['outputs']) != ('DF'[i % 2], i % 2, {'n': str(i)})), task)
    r5.zero('reruns', len(Worker(s, f'other{n}').claim(free=10, wait_ms=100)))
verify(r4, s)
r4.report()
r5.report()
end()
