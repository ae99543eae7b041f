#!/usr/bin/env python3
# store: sqlite
"""A write that fails: the answer is `unknown`, never `failed`; the process ends within a second; after a restart the same key finds out."""
import pathlib
import resource
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'unit/api'))
from serving import Server, end, ok, refused, same  # noqa: E402

s = Server()
taken = [s.post('/v1/tasks', dict(name=f't{i}', data=i)).json['id'] for i in range(5)]

# No file may grow beyond a few pages any more: the next commit cannot be written, a line of the log can.
resource.prlimit(s.process.pid, resource.RLIMIT_FSIZE, (16384, 16384))
answers = []


def enqueue(i):
    body = dict(name=f'u{i}', data='x' * 20000)
    try:
        answers.append((i, body, s.post('/v1/tasks', body, headers={'Idempotency-Key': f'k{i}'})))
    except OSError as e:
        answers.append((i, body, e))


threads = [threading.Thread(target=enqueue, args=(i,)) for i in range(4)]
began = time.monotonic()
for t in threads:
    t.start()
for t in threads:
    t.join()
first = [a for _, _, a in answers if not isinstance(a, OSError)]
ok(first and all(a.status == 503 and a.code in ('outcome_unknown', 'unavailable') for a in first), 'who asked is told that nobody knows', answers)
ok(any(a.code == 'outcome_unknown' for a in first), 'outcome_unknown is the word', first)
refused([a for a in first if a.code == 'outcome_unknown'][0], 503, 'outcome_unknown', text='as a problem')
status = s.process.wait(60)
took = time.monotonic() - began
same(status, 1, 'the process ends with 1')
ok(took < 20, 'soon', took)
ok('server.failed' in s.log.read_text(), 'and says why', s.log.read_text())

s.start()
same([t['id'] for t in reversed(s.get('/v1/tasks?state=P').json['tasks'])][:5], taken, 'everything acknowledged is there')
for i, body, _ in answers:
    one = s.post('/v1/tasks', body, headers={'Idempotency-Key': f'k{i}'})
    two = s.post('/v1/tasks', body, headers={'Idempotency-Key': f'k{i}'})
    ok(one.status == two.status == 201 and one.json['id'] == two.json['id'], 'the same key finds out, or does it now', one, two)
names = [t['key']['name'] for t in s.get('/v1/tasks').json['tasks']]
same(sorted(n for n in names if n.startswith('u')), ['u0', 'u1', 'u2', 'u3'], 'each exactly once')
ok(s.get('/v1/verify').json['ok'], 'the history is whole')
end()
