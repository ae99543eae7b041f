#!/usr/bin/env python3
# time limit: 200
"""R16, intake is idempotent: K keys, each asked for M times at once by many clients while the server is killed: exactly K tasks, one id per key."""
import http.client
import json
import pathlib
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'promises'))
from promise import Promise, rng, scaled, tasks_of, verify  # noqa: E402
from house import House, end, refused, until  # noqa: E402

KEYS, TIMES, THREADS, KILLS = scaled(120), 16, 16, scaled(6)
p = Promise('R16', 'intake is idempotent')
for what in ('tasks that are not one per key', 'lost inserts', 'ids that differ', 'wrong answers'):
    p.zero(what)
s = House('data', slots=0)
todo = [k for k in range(KEYS) for _ in range(TIMES)]
# duplicates of a key are near each other, so that they meet in one turn
todo = [k for _, k in sorted((k + rng.uniform(0, 3), k) for k in todo)]
seen, lock = {}, threading.Lock()


def client():
    connection = None
    while True:
        with lock:
            if not todo:
                return
            k = todo.pop(0)
        deadline = time.monotonic() + 60
        while True:
            try:
                connection = connection or s.connection(local=True, timeout=20)
                connection.request('POST', '/v1/tasks', '{"queue": "led", "name": "n%d", "command": "true"}' % k, {'Idempotency-Key': f'key{k}'})
                answer = connection.getresponse()
                body = answer.read()
                break
            except (OSError, http.client.HTTPException):
                connection = None
                p.did('cut and asked again')
                if time.monotonic() > deadline:
                    p.zero('lost inserts', 1, k)
                    return
                time.sleep(0.01)
        with lock:
            if answer.status != 201:
                p.zero('wrong answers', 1, (k, answer.status, body))
            else:
                seen.setdefault(k, set()).add(json.loads(body)['id'])
                p.did('answers')


threads = [threading.Thread(target=client) for _ in range(THREADS)]
for t in threads:
    t.start()
step = len(todo) // (KILLS + 1) or 1
for kill in range(KILLS):
    mark = KEYS * TIMES - (kill + 1) * step
    until(lambda: len(todo) <= mark, seconds=60)
    s.kill()
    p.did('kills')
    s.start()
for t in threads:
    t.join()
tasks = tasks_of(s, 'led')
names = [t['key']['name'] for t in tasks]
p.did('keys', KEYS)
p.zero('tasks that are not one per key', abs(len(tasks) - KEYS) + len(names) - len(set(names)), sorted(names))
p.zero('ids that differ', sum(len(v) != 1 for v in seen.values()), [v for v in seen.values() if len(v) > 1])
p.zero('lost inserts', len([k for k, v in seen.items() if not v <= {t['id'] for t in tasks}]))
refused(s.post('/v1/tasks', dict(queue='led', name='other'), headers={'Idempotency-Key': 'key0'}, local=True), 422, 'idempotency_mismatch', text='the same key with another body')
verify(p, s)
p.report()
end()
