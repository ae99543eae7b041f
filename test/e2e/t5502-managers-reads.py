#!/usr/bin/env python3
# time limit: 120
# store: sqlite (it starts its own PostgreSQL)
"""Two servers, one store, no balancer between: what was written through one is read through the other at once and in the same words; who follows the events
or waits at one of them hears what the other has committed; a cancel, a pause, a token and an executor of one are those of the other."""
import json
import pathlib
import signal
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
from house import Worker, database, end, houses, ok, run, same, until  # noqa: E402

PROMPT = 8  # seconds; a hint takes milliseconds, the slow safety net a second; the rest is for a busy machine
pg, url = database()
a, b = houses(url, 'ab', slots=0, lease='30s')
pair = [a, b]

# -- read your writes through the other one, every time
wrong = []
for i in range(60):
    here, there = pair[i % 2], pair[1 - i % 2]
    made = here.enqueue(dict(name=f't{i}', data=i, queue='w'))
    shown = there.get(f'/v1/tasks/{made["id"]}')
    newest = there.get('/v1/tasks?limit=1').json['tasks'][0]
    why = there.get(f'/v1/tasks/{made["id"]}/why')
    if shown.status != 200 or shown.json != here.task(made['id']) or newest['id'] != made['id'] or why.status != 200:
        wrong.append((i, shown, newest, why))
same(wrong, [], '60 tasks, each shown, listed and explained by the other server right after the answer')
for path in ('/v1/tasks?limit=1000', '/v1/events?since=0&limit=1000', '/v1/tasks/7/why', '/v1/lanes', '/v1/semaphores', '/v1/archives'):
    answers = [s.get(path) for s in pair]
    same((answers[0].status, answers[0].body), (answers[1].status, answers[1].body), f'{path}: the same bytes from both')
for words in (['list', '--json'], ['show', '3', '--json'], ['why', '3', '--json'], ['events', '--json']):
    told = [s.cli(*words) for s in pair]
    same((told[0].code, told[0].out), (told[1].code, told[1].out), f'weir {words[0]}: the same from both')

# -- the same key through both: one task
key = {'Idempotency-Key': 'once'}
answers = [s.post('/v1/tasks', dict(name='once', queue='w', data=1), headers=key) for s in (a, b, a)]
same([(x.status, x.json['id']) for x in answers], [(201, answers[0].json['id'])] * 3, 'one key through both: one task')
same(b.post('/v1/tasks', dict(name='once', queue='w', data=2), headers=key).status, 422, 'and with another body it is refused there too')

# -- followers at b of what a commits
last = a.events('since=0&limit=100000')[-1]['seq']
for accept in ({}, {'Accept': 'text/event-stream'}):
    follower = b.stream(f'/v1/events?follow=1&since={last}&queue=f', accept)
    slow = []
    for i in range(10):
        began = time.monotonic()
        made = a.enqueue(dict(name=f'f{i}', queue='f', data=i))
        heard = follower.until(lambda d, n=made['id']: f'f:{n}"'.encode() in d, seconds=PROMPT)
        slow.append((time.monotonic() - began) if heard else None)
    ok(None not in slow, f'a follower of {"server-sent events" if accept else "JSON lines"} at b hears each of 10 commits of a (slowest {max(x or 99 for x in slow):.3f} s)', slow)
    follower.close()

# -- wait at b, while a does the work
w = Worker(a, 'w', slots=100)
task = b.enqueue(dict(name='awaited', queue='w2', priority=9, data=1))['id']
done = {}
waiter = threading.Thread(target=lambda: done.update(result=b.cli('wait', str(task), '--timeout', '30s')))
waiter.start()
grants = w.claim(free=100)
grant = [g for g in grants if g['task'] == task]
ok(grant, 'an executor at a is granted what was enqueued at b', len(grants))
began = time.monotonic()
same(w.finish(grant[0], exit=0).status, 200, 'it finishes there')
same(b.state(task), 'D', 'b says so at once')
waiter.join(40)
ok(done['result'].code == 0 and time.monotonic() - began < PROMPT + 2, 'and who waited at b hears of it', done['result'].code, time.monotonic() - began)
for g in grants:
    if g['task'] != task:
        w.finish(g, exit=0)

# -- a poll that waits at a is answered by what b takes in; finish through b of what a granted
began = time.monotonic()
waiting = {}
poll = threading.Thread(target=lambda: waiting.update(grants=w.claim(free=1, wait_ms=10000)))
poll.start()
task = b.enqueue(dict(name='parked', queue='w3', data=1))['id']
poll.join(15)
ok([g['task'] for g in waiting['grants']] == [task] and time.monotonic() - began < PROMPT, 'a poll that waits at a gets what b takes in', waiting, time.monotonic() - began)
over = b.post(f'/v1/tasks/{task}/finish', dict(fence=waiting['grants'][0]['fence'], exit=0))
same((over.status, a.state(task)), (200, 'D'), 'its end may be told to b')
again = a.post(f'/v1/tasks/{task}/finish', dict(fence=waiting['grants'][0]['fence'], exit=0))
same(again.status, 200, 'and to a again: the same answer')

# -- a cancel through b reaches the executor that polls at a
task = a.enqueue(dict(name='long', queue='w3', data=1))['id']
grant = w.claim()[0]
began = time.monotonic()
told = {}
poll = threading.Thread(target=lambda: told.update(w.poll(free=0, wait_ms=10000, renew=[dict(task=task, fence=grant['fence'])])))
poll.start()
same(b.post(f'/v1/tasks/{task}/cancel', dict(reason='enough')).status in (200, 202), True, 'cancel at b')
poll.join(15)
ok(grant['fence'] in json.dumps(told.get('cancels', told)) and time.monotonic() - began < PROMPT, 'the executor at a is told', told, time.monotonic() - began)
w.finish(grant, signal=15)
same((a.state(task), b.state(task)), ('T', 'T'), 'it is terminated, for both')

# -- the executor goes on at b
moved = Worker.__new__(Worker)
moved.server, moved.id, moved.lease_ms = b, w.id, w.lease_ms
task = a.enqueue(dict(name='moved', queue='w3', data=1))['id']
grant = moved.claim()
same([g['task'] for g in grant], [task], 'an executor that was registered at a polls at b')
same(moved.finish(grant[0], exit=0).status, 200, 'and finishes there')

# -- pause, resume
same(a.post('/v1/lanes/w3/pause', dict(reason='test')).status, 200, 'pause at a')
task = b.enqueue(dict(name='held', queue='w3', data=1))['id']
same(moved.claim(wait_ms=300), [], 'b grants nothing of it')
ok('paused' in json.dumps(b.get(f'/v1/tasks/{task}/why').json), 'and says why')
a.post('/v1/lanes/w3/resume', dict(reason='test'))
same([g['task'] for g in moved.claim(wait_ms=8000)], [task], 'resumed at a, granted at b')

# -- a token of one is a token of both, and over for both
made = a.cli('token', 'create', '--name', 'reader', '--scope', 'read')
token = made.out.strip()
same(a.get('/v1/tasks?limit=1', token=token).status, 200, 'a token that a made is good there')
until(lambda: b.get('/v1/tasks?limit=1', token=token).status == 200, 'and at b', seconds=PROMPT)
same(b.cli('token', 'revoke', 'reader').code, 0, 'b revokes it')
same(b.get('/v1/tasks?limit=1', token=token).status, 401, 'it is over there')
until(lambda: a.get('/v1/tasks?limit=1', token=token).status == 401, 'and at a', seconds=PROMPT)

# -- one goes: the other has everything
a.kill()
same(b.get('/v1/tasks/1', local=True).status, 200, 'a was killed: b answers')
task = b.enqueue(dict(name='after', queue='w3', data=1), local=True)['id']
a.start()
same(a.get(f'/v1/tasks/{task}', local=True).json, b.get(f'/v1/tasks/{task}', local=True).json, 'a is back and knows what b took in')
ok(a.verify().code == 0 and b.verify().code == 0, 'the history verifies through both')
for s in pair:
    s.stop(signal.SIGINT)
done = run('verify', '--data', a.dir, '--store', url)
same(done.code, 0, 'and without a server')
pg.remove()
end()
