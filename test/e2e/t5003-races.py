#!/usr/bin/env python3
"""The same thing asked by many at once: one key one task, one unique key one task, each task granted once, one verdict, one end of a cancel."""
import collections
import pathlib
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
from house import House, Worker, end, ok, same  # noqa: E402

s = House('data', slots=0, lease='10m')


def at_once(n, what):
    """n threads that start together; their answers in order"""
    barrier, got = threading.Barrier(n), [None] * n

    def one(i):
        barrier.wait()
        got[i] = what(i)
    threads = [threading.Thread(target=one, args=(i,)) for i in range(n)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(90)
    return got


for round in range(3):
    got = at_once(24, lambda i: s.post('/v1/tasks', dict(name='same', data=round), headers={'Idempotency-Key': f'k{round}'}))
    same({(a.status, a.json.get('id')) for a in got if a.status == 201}, {(201, got[0].json['id'])}, 'one Idempotency-Key, 24 at once: one task')
    same([a.status for a in got if a.status != 201], [], 'and one answer for all')
got = at_once(24, lambda i: s.post('/v1/tasks', dict(name='same', data=i % 2), headers={'Idempotency-Key': 'two bodies'}))
ok(collections.Counter(a.status for a in got) == {201: 12, 422: 12}, 'one key, two bodies: the first body counts', collections.Counter(a.status for a in got))
got = at_once(24, lambda i: s.post('/v1/tasks', dict(name='u', data=i, unique='only-one')))
same((len({a.json['id'] for a in got}), {a.status for a in got} <= {200, 201}), (1, True), 'one unique key: one task')
same(len(s.get('/v1/tasks?name=u').json['tasks']), 1, 'there is one')

for t in s.get('/v1/tasks?limit=1000').json['tasks']:
    s.post(f'/v1/tasks/{t["id"]}/cancel', dict(reason='next part'))
tasks = [t['id'] for t in s.enqueue(*[dict(name=f't{i}', data=i) for i in range(400)])]
workers = [Worker(s, f'w{i}', slots=100) for i in range(12)]


def drain(i):
    mine, grants = [], True
    while grants:
        grants = workers[i].poll(free=7, wait_ms=0, renew=[dict(task=g['task'], fence=g['fence']) for g in mine])['grants']
        mine += grants
    return mine


got = at_once(12, drain)
granted = [g for mine in got for g in mine]
same(sorted(g['task'] for g in granted), sorted(tasks), '12 workers, 400 tasks: each is granted once')
same(len({g['fence'] for g in granted}), 400, 'with a fence of its own')

first = granted[0]
answers = at_once(16, lambda i: workers[0].finish(first, exit=i % 2))
codes = collections.Counter((a.status, a.code) for a in answers)
same(codes, collections.Counter({(200, None): 8, (409, 'already_finished'): 8}), 'two verdicts at once, eight times each: one counts')
state = s.state(first['task'])
ok(state in 'DF' and len([e for e in s.events(f'task={first["task"]}') if e.get('to') in ('D', 'F')]) == 1, f'and the task ended once: {state}')

second = granted[1]
answers = at_once(16, lambda i: workers[0].finish(second) if i % 2 else s.post(f'/v1/tasks/{second["task"]}/cancel', dict(reason='race')))
state = s.state(second['task'])
ends = [e for e in s.events(f'task={second["task"]}') if e.get('to') in ('D', 'T')]
ok(len(ends) == 1 and ends[0]['to'] == state, f'cancel against finish: one of them wins ({state}), once', ends, answers)
ok(all(a.status == 200 for a in answers[1::2]), 'the finish is 200 either way', answers)

third = granted[2]
chunks = at_once(10, lambda i: workers[0].log(third, 0, b'0123456789' * (i + 1)))
same({a.status for a in chunks}, {200}, 'chunks that overlap, at once')
same(s.log_bytes(third['task']), b'0123456789' * 10, 'leave the longest')
same([w.finish(g).status for w, mine in zip(workers, got) for g in mine if g not in (first, second)], [200] * 398, 'all end')
same((s.get('/v1/stats').json['working'], s.get('/v1/tasks?state=QSPX').json['tasks']), (0, []), 'nothing is left')
seqs = [e['seq'] for e in s.events('limit=10000')]
ok(seqs == list(range(1, len(seqs) + 1)), 'events are dense', len(seqs))
same(s.cli('verify').code, 0, 'weir verify')
end()
