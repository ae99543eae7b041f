#!/usr/bin/env python3
"""Events: JSON lines, server-sent events, filters, limits, following, resuming; nothing is missing and nothing comes twice."""
import json
import pathlib
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'unit/api'))
from serving import Server, Worker, end, ok, same, until  # noqa: E402

s = Server()


def lines(data):
    return [json.loads(line) for line in data.decode().splitlines() if line]


w = Worker(s, 'w')
a = s.post('/v1/tasks', dict(name='a', queue='q1', data=1)).json['id']
b = s.post('/v1/tasks', dict(name='b', queue='q2', data=1, depends=[a])).json['id']
grant = w.claim()[0]
w.finish(grant, exit=4)
answer = s.get('/v1/events')
all_events = lines(answer.body)
same(answer.headers['Content-Type'], 'application/x-ndjson', 'JSON lines')
same([e['seq'] for e in all_events], list(range(1, len(all_events) + 1)), 'seq is dense, from 1')
ok(all('time' in e and 'kind' in e and 'actor' in e for e in all_events), 'time, kind and actor everywhere')
moves = [(e.get('from'), e['to']) for e in all_events if e.get('task') == a]
same((moves[0], moves[-2:]), ((None, 'Q'), [('P', 'X'), ('X', 'F')]), 'the moves of a task by letters')
ok(all(a[1] == b[0] for a, b in zip(moves, moves[1:])), 'each begins where the last one ended', moves)
granted = [e for e in all_events if e.get('task') == a and e['to'] == 'X'][0]
same((granted['fence'], granted['attempt'], granted['key']), (grant['fence'], 1, f'q1:{a}'), 'a grant with fence, attempt and key')
failed = [e for e in all_events if e.get('task') == b and e['to'] == 'F'][0]
same(failed['cause'], f'q1:{a}', 'the cause of a failure')
same(lines(s.get('/v1/events?since=3').body), all_events[3:], 'since is exclusive')
same(lines(s.get('/v1/events?since=3&limit=2').body), all_events[3:5], 'limit')
same(s.get(f'/v1/events?since={len(all_events)}').body, b'', 'nothing new: empty, and it ends')
same(s.get('/v1/events?since=999999').body, b'', 'since beyond the end')
same(lines(s.get('/v1/events?queue=q2').body), [e for e in all_events if e.get('task') == b], 'filter queue')
same(lines(s.get(f'/v1/events?task={a}').body), [e for e in all_events if e.get('task') == a], 'filter task by id')
same(lines(s.get(f'/v1/events?task=q2:{b}').body), [e for e in all_events if e.get('task') == b], 'filter task by key')
same(lines(s.get(f'/v1/events?task={a}&since=5').body), [e for e in all_events if e.get('task') == a and e['seq'] > 5], 'filter task and since')
same(s.get('/v1/events?task=999').status, 404, 'an unknown task: 404')

# -- server-sent events
answer = s.get('/v1/events?limit=2', headers={'Accept': 'text/event-stream'})
same(answer.headers['Content-Type'], 'text/event-stream', 'server-sent events by Accept')
blocks = answer.body.decode().split('\n\n')[:-1]
same([block.split('\n')[0] for block in blocks], ['id: 1', 'id: 2'], 'with ids')
same([json.loads(block.split('\ndata: ')[1]) for block in blocks], all_events[:2], 'and the same JSON')
answer = s.get('/v1/events', headers={'Accept': 'text/event-stream', 'Last-Event-ID': '4'})
ok(answer.body.startswith(b'id: 5\n'), 'Last-Event-ID resumes', answer.body[:100])
same(s.get('/v1/events', headers={'Accept': 'text/event-stream', 'Last-Event-ID': 'x'}).status, 400, 'Last-Event-ID that is none: 400')

# -- following
followers = [s.stream('/v1/events?follow=1'), s.stream('/v1/events?follow=1&queue=q3'), s.stream('/v1/events?follow=1&since=5', {'Accept': 'text/event-stream'}),
             s.stream(f'/v1/events?follow=1&task={b}'), s.stream('/v1/events?follow=1&limit=' + str(len(all_events) + 3))]
ok(followers[0].until(lambda d: d.count(b'\n') >= len(all_events)), 'a follower gets what was', followers[0].data)
made = [t['id'] for t in s.post('/v1/tasks', dict(tasks=[dict(name=f'm{i}', queue='q3', data=i) for i in range(50)])).json['tasks']]
s.post(f'/v1/tasks/{a}/retry')
wanted = lines(s.get('/v1/events').body)
ok(followers[0].until(lambda d: d.count(b'\n') >= len(wanted)), 'and what comes', followers[0].data[-300:])
same(lines(followers[0].data), wanted, 'all of it, once, in order')
third = [e for e in wanted if e.get('task') in made]
ok(followers[1].until(lambda d: d.count(b'\n') >= len(third)), 'a follower of a queue that did not exist', followers[1].data)
same(lines(followers[1].data), third, 'gets exactly its events')
ok(followers[2].until(lambda d: d.count(b'\n\n') >= len(wanted) - 5), 'a follower by server-sent events')
of_b = [e for e in wanted if e.get('task') == b]
ok(followers[3].until(lambda d: d.count(b'\n') >= len(of_b)), 'a follower of one task', followers[3].data)
same(lines(followers[3].data), of_b, 'gets its past and its future')
ok(followers[4].until_end(), 'a follower with a limit ends')
same(lines(followers[4].data), wanted[:len(all_events) + 3], 'after exactly so many')
ok(followers[2].until(lambda d: b'\n:\n\n' in d or d.endswith(b':\n\n'), 25), 'a comment now and then keeps the line open', followers[2].data[-100:])

# -- writers and a follower at the same time
before = len(lines(s.get('/v1/events').body))
fresh = s.stream(f'/v1/events?follow=1&since={before}')
writers = [threading.Thread(target=lambda: [s.post('/v1/tasks', dict(name='w', queue='busy', data=1)) for _ in range(25)]) for _ in range(4)]
for t in writers:
    t.start()
for t in writers:
    t.join()
wanted = lines(s.get(f'/v1/events?since={before}').body)
ok(fresh.until(lambda d: d.count(b'\n') >= len(wanted)), 'a follower under load')
same([e['seq'] for e in lines(fresh.data)], [e['seq'] for e in wanted], 'misses nothing and sees nothing twice')

# -- a client that doesn't read holds nobody up
slow = s.stream('/v1/events?follow=1')
for i in range(20):
    s.post('/v1/tasks', dict(tasks=[dict(name=f's{i}', queue='slow', data=i) for i in range(500)]))
total = len(lines(s.get('/v1/events').body))
ok(total > 20000, 'twenty thousand events', total)
ok(slow.until(lambda d: d.count(b'\n') >= total, 60), 'and gets all of it when it reads at last')
seqs = [e['seq'] for e in lines(slow.data)]  # more than `total` where an executor was taken for dead meanwhile
odd = next((i for i, seq in enumerate(seqs) if seq != i + 1), None)
ok(odd is None and len(seqs) >= total, 'in order', odd, seqs[(odd or 0):][:5], len(seqs), total)
for follower in followers[:4] + [fresh, slow]:
    follower.close()
until(lambda: b'weir_http_open_requests 1\n' in s.get('/metrics').body, 'streams of clients that are gone are closed', seconds=30)
last = s.stream('/v1/events?follow=1&since=' + str(total))
s.stop()
ok(last.until_end(), 'a follower sees the end when the server stops')
end()
