#!/usr/bin/env python3
"""Executors over HTTP: registering, polling, renewing, finishing, late and stale results, pausing and draining; spec of a grant."""
import base64
import pathlib
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'unit/api'))
from serving import Server, Worker, end, ok, refused, same, until  # noqa: E402

s = Server(lease='2s')

# -- registering
answer = s.post('/v1/executors', dict(name='one', slots=3, labels=dict(os='linux'), zone='eu', host='h', version='9', kinds=['data', 'command']))
same((answer.status, sorted(answer.json), answer.json['lease_ms']), (201, ['id', 'lease_ms'], 2000), 'registering gives id and lease')
one = s.get('/v1/executors/one').json
same({k: one[k] for k in ('name', 'slots', 'labels', 'zone', 'host', 'version', 'kinds', 'state', 'running')},
     dict(name='one', slots=3, labels=dict(os='linux'), zone='eu', host='h', version='9', kinds=['command', 'data'], state='active', running=0), 'GET by name')
same(s.get(f'/v1/executors/{one["id"]}').json['name'], 'one', 'GET by id')
same([e['name'] for e in s.get('/v1/executors').json['executors']], ['one'], 'the list')
refused(s.get('/v1/executors/two'), 404, 'not_found', text='an unknown executor')
refused(s.get('/v1/executors/99'), 404, 'not_found', text='an unknown id')

ids = {s.post('/v1/executors', dict(name='twice')).json['id'] for _ in range(3)}
same(len(ids), 1, 'registering again is the same executor')
key = {'Idempotency-Key': 'reg 1'}
first = s.post('/v1/executors', dict(name='keyed', slots=2), headers=key)
events = s.get('/v1/events').body.count(b'"keyed"')
again = s.post('/v1/executors', dict(name='keyed', slots=2), headers=key)
same((again.status, again.json), (201, first.json), 'the same Idempotency-Key and body: the first answer again')
same(s.get('/v1/events').body.count(b'"keyed"'), events, 'and nothing is registered anew')
refused(s.post('/v1/executors', dict(name='keyed', slots=3), headers=key), 422, 'idempotency_mismatch', text='same key, other body')

# -- claiming: the spec of a grant
w = Worker(s, 'w', kinds=['data', 'command', 'script'])
made = s.post('/v1/tasks', dict(tasks=[dict(name='a', queue='q', data={'x': [1, 2.50]}),
                                       dict(name='b', queue='q', command=['echo', 'hi'], env=dict(K='v'), timeout='5s', depends=['a'], semaphores=['sem'])])).json['tasks']
a, b = made[0]['id'], made[1]['id']
got = w.poll(free=5)
grant = got['grants'][0]
same((len(got['grants']), got['cancels'], got['state'], got['lease_ms']), (1, [], 'active', 2000), 'only what is ready is granted')
same((grant['task'], grant['lease_ms'], grant['key']), (a, 2000, dict(queue='q', name='a')), 'the grant, with the key of a task of a queue')
ok(grant['spec'].pop('token').startswith('weirjob_' + grant['fence'] + '_'), 'a token for the job')
same(grant['spec'], dict(key=f'q:{a}', name='a', queue='q', attempt=1, holds=False, data={'x': [1, 2.5]}), 'the spec of a task with data')
same((s.task(a)['state'], s.task(a)['attempts'][0]['executor'], s.task(a)['attempts'][0]['finished']), ('X', 'w', None), 'it executes')

# -- finishing
answer = w.finish(grant, exit=0, outputs=dict(v='1'), usage=dict(cpu_ms=12, max_rss_bytes=4096))
same((answer.status, answer.json['task']), (200, a), 'finish: 200')
same(w.finish(grant, exit=0, outputs=dict(v='1'), usage=dict(cpu_ms=13)).status, 200, 'the same finish again: 200')
refused(w.finish(grant, exit=1), 409, 'already_finished', text='another verdict')
done = s.task(a)
same((done['state'], done['outputs'], done['attempts'][0]['usage'], done['attempts'][0]['exit'], done['attempts'][0]['outcome']),
     ('D', dict(v='1'), dict(cpu_ms=12, max_rss_bytes=4096), 0, 'done'), 'what was reported is kept')
grant = w.claim()[0]
grant['spec'].pop('token')
same(grant['spec'], dict(key=f'q:{b}', name='b', queue='q', attempt=1, holds=True, needs=dict(a=dict(id=a, key=f'q:{a}', on='success', state='D', outcome='done', exit=0, signal=None, reason=None, attempts=1, outputs=dict(v='1'), artifacts=[])), command=['echo', 'hi'], env=dict(K='v'), timeout_ms=5000),
     'the spec of a command, with what it needs and that it holds a slot')
same(s.get('/v1/semaphores').json['semaphores'], [dict(name='sem', limit=1, used=1, holders=[f'q:{b}'], waiting=0, waiters=[], scope='tenant')], 'the semaphore is held')
w.finish(grant, exit=7)
same((s.task(b)['state'], s.task(b)['attempts'][0]['exit']), ('F', 7), 'another exit: F')

# -- every way to end
for verdict, state, outcome in [(dict(exit=99), 'D', 'skipped'), (dict(exit=100), 'F', 'permanent'), (dict(exit=3), 'F', 'failed'), (dict(signal=15), 'T', None),
                                (dict(signal=1), 'A', None), (dict(outcome='timeout'), 'T', 'timeout'), (dict(exit=111), 'S', 'temporary'),
                                (dict(signal=9), 'P', 'killed'), (dict(outcome='lost'), 'P', 'lost')]:
    task = s.post('/v1/tasks', dict(name='e', queue='ends', data=1)).json['id']
    grant = [g for g in w.claim(free=20) if g['task'] == task][0]
    w.finish(grant, **verdict)
    now = s.task(task)
    ok(now['state'] == state and (outcome is None or now['attempts'][0]['outcome'] == outcome), f'{verdict} leads to {state}', now)
    if state in 'PS':
        s.post(f'/v1/tasks/{task}/cancel', {})

# -- several at once
tasks = [t['id'] for t in s.post('/v1/tasks', dict(tasks=[dict(name=f'm{i}', data=i) for i in range(5)])).json['tasks']]
grants = w.claim(free=5)
same(sorted(g['task'] for g in grants), tasks, 'five grants in one poll')
items = [dict(task=g['task'], fence=g['fence'], exit=0) for g in grants]
items[2]['exit'] = 1
answer = s.post('/v1/finishes', dict(items=items + [items[0], dict(items[1], exit=5)]))
same([r['status'] for r in answer.json['results']], [200] * 6 + [409], 'finishes: one result each, repeats are 200, other verdicts 409')
same(answer.json['results'][6], dict(task=grants[1]['task'], status=409, code='already_finished'), 'with the code')
task = s.post('/v1/tasks', dict(name='inpoll', data=1)).json['id']
grant = w.claim()[0]
got = w.poll(free=0, finishes=[dict(task=task, fence=grant['fence'], exit=0)], renew=[dict(task=task, fence=grant['fence'])])
same((got['results'], s.state(task)), ([dict(task=task, status=200)], 'D'), 'a poll carries finishes')

# -- the long poll waits for work
box = []


def waiting():
    """one poll after the other, until one is given something: on a busy machine the first may be over before the task is there"""
    deadline = time.monotonic() + 30
    while not box and time.monotonic() < deadline:
        got = w.poll(free=1, wait_ms=600)
        if got['grants']:
            box.append(got)


thread = threading.Thread(target=waiting)
thread.start()
until(lambda: s.get('/metrics').body.count(b'weir_http_open_requests 2'), seconds=20)
task = s.post('/v1/tasks', dict(name='awaited', data=1)).json['id']
thread.join()
same([g['task'] for g in box[0]['grants']], [task], 'a waiting poll is answered when work comes')
w.finish(box[0]['grants'][0])
began = time.monotonic()
same(w.poll(free=1, wait_ms=300)['grants'], [], 'an empty poll is answered when its time is over')
ok(0.25 < time.monotonic() - began < 15, 'after about the time it asked for', time.monotonic() - began)
began = time.monotonic()
w.poll(free=1, wait_ms=10 ** 9)
ok(time.monotonic() - began < 20, 'no poll waits longer than a third of the lease', time.monotonic() - began)

# -- a poll whose client is gone is granted nothing
connection = s.connection()
connection.request('POST', f'/v1/executors/{w.id}/poll', '{"free":1,"wait_ms":600}')
until(lambda: b'weir_polls_open 1\n' in s.get('/metrics').body, seconds=5)
connection.close()
until(lambda: b'weir_polls_open 0\n' in s.get('/metrics').body, 'the server sees that a client is gone', seconds=20)
gone = s.post('/v1/tasks', dict(name='gone', data=1)).json['id']
same([g['task'] for g in w.claim()], [gone], 'what comes after a poll was given up goes to the next one')
w.finish(dict(task=gone, fence=s.get(f'/v1/events?task={gone}').body.decode().split('"fence":"')[1].split('"')[0]))
same(len(s.task(gone)['attempts']), 1, 'in one attempt')

# -- the same seq brings the same grants; one that is not renewed goes back
task = s.post('/v1/tasks', dict(name='seq', data=1)).json['id']
first = w.poll(free=1, seq=100)['grants']
again = w.poll(free=1, seq=100)['grants']
same(first, again, 'the same seq brings the same grants')
w.poll(free=0, seq=101, renew=[])
same(s.state(task), 'P', 'a grant that the next poll does not renew goes back')
same(len(s.task(task)['attempts']), 0, 'and no attempt is spent')
grant = w.poll(free=1, seq=102)['grants'][0]
ok(grant['fence'] > first[0]['fence'], 'its next fence is larger', grant['fence'], first[0]['fence'])
refused(w.finish(first[0]), 409, 'stale_fence', text='the fence of the grant that went back')
w.poll(free=0, seq=103, renew=[dict(task=task, fence=grant['fence'])])
same(w.finish(grant).status, 200, 'a renewed one counts')

# -- cancels reach the poll
task = s.post('/v1/tasks', dict(name='c', data=1)).json['id']
grant = w.claim()[0]
renew = [dict(task=task, fence=grant['fence'])]
box = []
thread = threading.Thread(target=lambda: box.append(w.poll(free=0, wait_ms=600, renew=renew)))
thread.start()
answer = s.post(f'/v1/tasks/{task}/cancel', dict(reason='stop it'))
same((answer.json['state'], answer.json['ending']), ('X', 'T'), 'a running task that is cancelled is ending')
thread.join()
cancels = box[0]['cancels'] or w.poll(free=0, renew=renew)['cancels']
same(cancels, [dict(task=task, fence=grant['fence'], signal='TERM')], 'the poll hears of it')
w.finish(grant, exit=0)
same((s.task(task)['state'], s.task(task)['reason']), ('T', 'stop it'), 'a cancelled task whose process then exits 0 is T')

# -- late and stale results
task = s.post('/v1/tasks', dict(name='late', data=1)).json['id']
zombie = Worker(s, 'zombie')
late = zombie.claim()[0]
until(lambda: s.state(task) == 'P', 'a silent executor loses its task when the lease is over', seconds=20)
same(zombie.finish(late).status, 200, 'its late result counts while nobody else was granted the task')
same(s.state(task), 'D', 'the task is done')
task = s.post('/v1/tasks', dict(name='stale', data=1)).json['id']
late = zombie.claim()[0]
until(lambda: s.state(task) == 'P', seconds=20)
newer = w.claim()[0]
same((newer['task'], newer['spec']['attempt']), (task, 2), 'it is granted anew')
refused(zombie.finish(late), 409, 'stale_fence', text='the zombie is refused')
refused(zombie.log(late, 0, b'x'), 409, 'stale_fence', text='its log too')
cancel = zombie.poll(free=0, renew=[dict(task=task, fence=late['fence'])])['cancels'][0]
same((cancel['task'], cancel['fence'], cancel['reason']), (task, late['fence'], 'stale_fence'), 'as a cancel with its reason')
w.finish(newer)
same([a['outcome'] for a in s.task(task)['attempts']], ['lost', 'done'], 'both attempts are on record')

# -- pause, resume, drain
for verb, state in [('pause', 'paused'), ('resume', 'active'), ('drain', 'draining')]:
    answer = s.post(f'/v1/executors/w/{verb}', dict(reason='test'))
    same((answer.status, s.get('/v1/executors/w').json['state']), (200, state), f'{verb}: {state}')
task = s.post('/v1/tasks', dict(name='undrained', data=1)).json['id']
got = w.poll(free=1)
same((got['grants'], got['state']), ([], 'draining'), 'a draining executor gets nothing')
s.post('/v1/executors/w/resume')
same(len(w.claim()), 1, 'a resumed one does')
refused(s.post('/v1/executors/nobody/pause', dict(reason='r')), 404, 'not_found', text='pausing nobody')
same(s.post(f'/v1/executors/{w.id}/poll', dict(free=0)).status, 200, 'poll by id')
same(s.post('/v1/executors/w/poll', dict(free=0)).status, 200, 'poll by name')

# -- labels
picky = Worker(s, 'picky', labels=dict(os='bsd'), kinds=['data'])
task = s.post('/v1/tasks', dict(name='bsd', data=1, labels=dict(os='bsd'))).json['id']
same(w.poll(free=5)['grants'], [], 'who lacks the label gets nothing')
same([g['task'] for g in picky.claim()], [task], 'who has it does')

# -- a death is seen by the polls that end, sooner than by the lease
same([n['state'] for n in s.get('/v1/nodes').json['nodes'] if n['name'] == 'picky'], ['active'], 'it lives')
until(lambda: [n['state'] for n in s.get('/v1/nodes').json['nodes'] if n['name'] == 'picky'] == ['lost'], 'nodes: a silent executor is marked, within 10 s or 20 on a busy machine', seconds=20)

# -- a container that never was
images = Worker(s, 'images', kinds=['image'])
task = s.post('/v1/tasks', dict(name='boxed', image='localhost/none:1', command='true', retry=dict(attempts=1))).json
same(images.finish(images.claim()[0], exit=125, outcome='temporary').status, 200, 'the image can\'t be had')
ok('image can\'t be had' in s.get(f'/v1/tasks/{task["id"]}').json['reason'], 'the task says so', s.get(f'/v1/tasks/{task["id"]}').json)
end()
