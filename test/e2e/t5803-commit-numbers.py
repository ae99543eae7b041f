#!/usr/bin/env python3
# time limit: 120
# store: sqlite (it starts its own PostgreSQL)
"""Numbers of commits through two servers: every answer has one, it never goes back at a server, a read at one with the number of the other's answer holds what that one
did, also where it comes from memory (executors, nodes, a pause), and one that is beyond everything is told so; the numbers go on in a copy of the store."""
import pathlib
import shutil
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
from house import TMP, House, Worker, database, end, ok, refused, run, same, until  # noqa: E402


def turn(answer):
    return int(answer.headers['Weir-Turn'])


def everywhere(s, text):
    """every kind of answer has the number"""
    task = s.enqueue(dict(name='x', data=1))['id']
    paths = ['/v1/tasks', f'/v1/tasks/{task}', f'/v1/tasks/{task}/why', f'/v1/tasks/{task}/graph', '/v1/stats', '/v1/events', '/v1/lanes', '/v1/executors', '/v1/nodes', '/v1/semaphores',
             '/v1/archives', '/v1/tokens', '/v1/verify', '/metrics', '/healthz', '/openapi.json', '/v1/tasks/999', '/v1/nowhere', '/nowhere']
    without = [path for path in paths if s.get(path).headers['Weir-Turn'] is None]
    same(without, [], f'{text}: every answer has a number')
    same([m for m, p, b in (('POST', '/v1/tasks', '{'), ('PUT', '/v1/tasks', ''), ('HEAD', '/v1/tasks', None), ('POST', f'/v1/tasks/{task}/cancel', {}), ('DELETE', '/v1/lanes', None))
          if s.ask(m, p, b).headers['Weir-Turn'] is None], [], f'{text}: also what is refused or changes something')
    before = turn(s.get('/v1/tasks'))
    w = Worker(s, 'w1', slots=1)
    ok(turn(s.get('/v1/tasks')) > before, f'{text}: an executor that registers moves it')
    return w


alone = House('alone', slots=0)
everywhere(alone, 'SQLite')
last = turn(alone.get('/v1/tasks'))
alone.stop()
pg, url = database()
done = run('store', 'copy', TMP / 'alone', url, '--data', TMP / 'a')
same(done.code, 0, 'SQLite is copied to PostgreSQL')
a = House('a', '--store', url, '--name', 'a', slots=0, lease='30s')
ok(turn(a.get('/v1/tasks')) > last, 'and its numbers go on there', last)
(TMP / 'b').mkdir(mode=0o711)
shutil.copy(TMP / 'a/verify.key', TMP / 'b/verify.key')
b = House('b', '--store', url, '--name', 'b', slots=0, lease='30s')
everywhere(a, 'PostgreSQL')

# -- never back
seen, wrong, stop = {'a': 0, 'b': 0}, [], threading.Event()


def reads(s):
    while not stop.is_set():
        now = turn(s.get('/v1/stats'))
        if now < seen[s.dir.name]:
            wrong.append((s.dir.name, seen[s.dir.name], now))
        seen[s.dir.name] = now


threads = [threading.Thread(target=reads, args=(s,), daemon=True) for s in (a, b)]
for thread in threads:
    thread.start()

# -- what comes from memory
missing, slowest = [], 0
for i in range(12):
    here, there = (a, b) if i % 2 else (b, a)
    w = Worker(here, f'w-{i}', slots=1)
    answer = here.get('/v1/executors')
    began = time.monotonic()
    for path in ('/v1/executors', '/v1/nodes'):
        other = there.get(f'{path}?at_least={turn(answer)}')
        if other.status != 200 or f'"w-{i}"' not in other.body.decode() or turn(other) < turn(answer):
            missing.append((i, path, other.status, turn(answer), turn(other)))
    paused = here.post('/v1/lanes/q/pause' if i % 4 < 2 else '/v1/lanes/q/resume', dict(reason='test'))
    lane = there.get(f'/v1/lanes?at_least={turn(paused)}')
    task = here.post('/v1/tasks', dict(name='t', queue='q', data=i))
    why = there.get(f'/v1/tasks/{task.json["id"]}/why?at_least={turn(task)}')
    if why.status != 200 or (i % 4 < 2) != ('paused' in why.body.decode()):
        missing.append((i, 'why', why, lane))
    slowest = max(slowest, time.monotonic() - began)
same(missing, [], f'executors, nodes and pauses of one are those of the other as of its number (slowest {slowest:.3f} s)')
stop.set()
for thread in threads:
    thread.join(30)
same(wrong, [], 'no number goes back')
ahead = turn(b.get('/v1/stats'))
began = time.monotonic()
late = a.get(f'/v1/executors?at_least={ahead + 100000}')
refused(late, 503, 'not_yet', text='a number that nobody has come to')
ok(9 < time.monotonic() - began < 30 and str(ahead + 100000) in late.json['detail'] and late.headers['Retry-After'] == '1', 'after ten seconds, with what to do', late)
ok(until(lambda: turn(a.get('/v1/stats')) > ahead), 'servers that are idle commit too: their beats', ahead)
for s in (a, b):
    same(s.stop(), 0, f'{s.dir.name} ends')
pg.remove()
end()
