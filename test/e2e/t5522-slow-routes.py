#!/usr/bin/env python3
# time limit: 240
# store: sqlite (it starts its own PostgreSQL)
"""A database whose answers come late, or not at all, and every route of the program's own list: whoever asks waits, or is told 503 in time, and nobody else waits: /healthz answers and
leases are renewed. A list or download that was under way breaks off. Then all is as it was."""
import http.client
import json
import pathlib
import re
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
from house import House, Worker, database, end, ok, read, same, until  # noqa: E402
from slow import Slow  # noqa: E402

LATE, QUICK, LIMIT = 0.5, 0.3, 15  # seconds; the last: until who can't be answered is told
pg, _ = database()
slow = Slow(pg, spare=b'INSERT INTO turn')  # the engine's own connection: turns take what they take
s = House('data', '--store', slow.url('weir'), slots=0, lease='20s')
s.token = s.post('/v1/tokens', dict(name='admin', scopes=['admin'])).json['token']
worker = Worker(s, 'w', instance='w1')
same(s.post('/v1/archives', dict(name='a', kind='external')).status, 201, 'an archive')
same(s.post('/v1/archives/a/revisions', dict(rev=1, workflow=dict(tasks=[dict(name='t', command='x')]))).status, 202, 'with a revision')
task = s.enqueue(dict(name='t', queue='q', command='x', retry=dict(attempts=1)))['id']
grant, = [g for g in worker.claim(5) if g['task'] == task]
worker.log(grant, 0, b'a line\n' * 12000)
job = grant['spec']['token']

# -- the routes, as the program lists them; what isn't here gets an empty object
FILLED = dict(task=task, executor='w', archive='a', rev=1, file='f', lane='q', name='n', csid='c-1', target='a')
BODIES = {
    'POST /v1/tasks': dict(name='u', queue='q', command='x', after=['a@1:t']), 'POST /v1/tasks/{task}/finish': dict(fence='1-1-1-1', exit=0),
    'POST /v1/finishes': dict(items=[dict(task=task, fence='1-1-1-1', exit=0)]), 'POST /v1/archives/{archive}/revisions': dict(rev=2),
    'POST /v1/archives/{archive}/runs': dict(task='t'), 'POST /v1/lanes/{lane}/pause': dict(reason='r'), 'POST /v1/archives/{archive}/skip': dict(rev=7, reason='r'),
    'POST /v1/tokens': dict(name='m', scopes=['read']), 'POST /v1/executors': dict(name='v'), 'POST /v1/archives': dict(name='b', kind='external'),
    'POST /v1/config': dict(text='', dry_run=True), 'POST /v1/backup': dict(file='/nowhere/at/all'), 'POST /v1/prune': dict(older_than='30d', dry_run=True),
    'POST /v1/tasks/{task}/cancel': dict(reason='r'), 'POST /v1/changesets/{csid}/approve': dict(ticket='t'), 'POST /v1/rollbacks': dict(csids=['c-1'], dry_run=True),
    'POST /v1/tasks/{task}/outputs': dict(k='v'),
}
AFTER = ('DELETE', '/cancel', '/backup', '/prune', '/drain')  # what changes what others look at comes last
QUERIES = {'POST /v1/tasks/{task}/log': f'?offset=0&fence={grant["fence"]}', 'POST /v1/tasks/{task}/artifacts/{file}': f'?offset=0&fence={grant["fence"]}',
           'GET /v1/events': '?since=0', 'GET /v1/verify': '?quick=1'}
document = s.get('/openapi.json').json
ROUTES = [(f'{method.upper()} {path}', None) for path, methods in document['paths'].items() for method in methods if method != 'parameters']
ok(len(ROUTES) > 45 and ('GET /v1/tasks', None) in ROUTES, f'the program lists {len(ROUTES)} routes')
ROUTES += [('GET /v1/events', '?since=0&follow=1&limit=1'), ('GET /v1/tasks/{task}/log', '?follow=1&tail=10'), ('GET /v1/tasks', '?at_least=1'), ('GET /v1/tasks', '?tenant=nobody'),
           ('GET /v1/tasks/{task}', 'a job')]
ROUTES.sort(key=lambda r: any(word in r[0] for word in AFTER))


def ask(route, query):
    """(status, code, seconds); a stream's first piece counts as its answer"""
    method, path = route.split()
    headers = {'Authorization': f'Bearer {job if query == "a job" else s.token}'}
    query = QUERIES.get(route, '') if query in (None, 'a job') else query
    where = re.sub(r'{(\w+)}', lambda m: str(FILLED[m.group(1)]), path) + query
    body = (b'bytes' if path.endswith('}/log') or '/artifacts/' in path else json.dumps(BODIES.get(route, {})).encode()) if method == 'POST' else None
    began = time.monotonic()
    patience = 4 if 'verify' in path and not slow.frozen else 60  # it reads all there is, aside
    line = http.client.HTTPConnection(*s.url.split('//')[1].split(':'), timeout=patience)
    try:
        line.request(method, where, body, headers)
        answer = line.getresponse()
        problem = answer.getheader('Content-Type') == 'application/problem+json'
        text = answer.read() if problem or 'follow' not in query else answer.read(1)
        return answer.status, (json.loads(text)['code'], answer.getheader('Retry-After')) if problem else None, time.monotonic() - began
    except (OSError, http.client.HTTPException) as why:
        return 0, repr(why), time.monotonic() - began
    finally:
        line.close()


class Others:
    """those who want nothing of the database: how long each waited at most"""

    def __enter__(self):
        self.stop, self.waits = threading.Event(), dict(healthz=0, renew=0)
        self.threads = [threading.Thread(target=self.timed, args=row) for row in (
            ('healthz', lambda: s.get('/healthz')), ('renew', lambda: worker.poll(0, renew=[dict(task=task, fence=grant['fence'])])))]
        for t in self.threads:
            t.start()
        return self

    def timed(self, name, call):
        while not self.stop.is_set():
            began = time.monotonic()
            call()
            self.waits[name] = max(self.waits[name], time.monotonic() - began)
            self.stop.wait(0.01)

    def __exit__(self, *_):
        self.stop.set()
        for t in self.threads:
            t.join()


def together(rows):
    """all at once: {row: answer}"""
    answers = {}
    threads = [threading.Thread(target=lambda row=row: answers.update({row: ask(*row)})) for row in rows]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return answers


class Follower(threading.Thread):
    """of events: it asks again from where it came to when its stream ends"""

    def __init__(self):
        super().__init__(daemon=True)
        self.since, self.names = 0, set()
        self.start()

    def run(self):
        while True:
            line = http.client.HTTPConnection(*s.url.split('//')[1].split(':'), timeout=60)
            try:
                line.request('GET', f'/v1/events?follow=1&since={self.since}', None, {'Authorization': f'Bearer {s.token}'})
                for text in line.getresponse():
                    event = json.loads(text)
                    self.since = event.get('seq', self.since)
                    self.names.add(event.get('key'))
            except (OSError, ValueError, http.client.HTTPException):
                time.sleep(0.1)
            line.close()


# -- late answers: so few at once that none waits for its turn
follower = Follower()
slow.late(LATE)
answers = {}
for at in range(0, len(ROUTES), 4):
    rows = ROUTES[at:at + 4]
    with Others() as others:
        answers.update(together(rows))
    ok(max(others.waits.values()) < QUICK, f'late: nobody waits for {", ".join(r[0] + (r[1] or "") for r in rows)}', f'{others.waits} { {r: answers.get(r) for r in rows} }')
bad = {row: a for row, a in answers.items() if a[0] in (0, 500) and 'verify' not in row[0]}
same((bad, len(answers)), ({}, len(ROUTES)), 'all are answered')
slept = [row for row, a in answers.items() if a[2] > LATE]
ok(len(slept) > 30, f'{len(slept)} of them read, and came when they had')

# -- no answers at all, and two hundred more who ask
slow.late(0)
until(lambda: s.get('/readyz').status == 200)
task = s.enqueue(dict(name='t', queue='q', command='x', retry=dict(attempts=1)))['id']
same((s.post('/v1/executors/w/resume').status, s.post('/v1/lanes/q/resume').status), (200, 200), 'the executor goes on')
grant, = [g for g in worker.claim(5) if g['task'] == task]
before = int(re.search(rb'VmRSS:\s+(\d+)', read(f'/proc/{s.process.pid}/status')).group(1))
slow.freeze()
more = [('GET /v1/tasks', f'?limit={n + 1}') for n in range(200)]
with Others() as others:
    answers = together(ROUTES + more)
    grown = int(re.search(rb'VmRSS:\s+(\d+)', read(f'/proc/{s.process.pid}/status')).group(1)) - before
ok(max(others.waits.values()) < QUICK, 'frozen: nobody waits who wants nothing of the database', others.waits)
bad = {row: a for row, a in answers.items() if a[2] > LIMIT or (a[0] != 503 and a[2] > 1) or (a[0] == 503 and (a[1][0] not in ('unavailable', 'unreachable') or not a[1][1]))}
ok(not bad and len(answers) == len(ROUTES) + 200, f'each is told 503 and when to ask again within {LIMIT} s, or answered at once', bad)
same({answers[row][0] for row in more}, {503}, 'none of the two hundred is forgotten')
ok(grown < 40 * 1024, f'memory grew by {grown} KiB')

# -- as before
slow.thaw()
until(lambda: s.get('/v1/tasks').status == 200, 'thawed: it reads again', 30)
late = s.enqueue(dict(name='late', queue='q', command='x'))['id']
until(lambda: f'q:{late}' in follower.names, 'the follower goes on')
same(s.state(task), 'X', 'the job that ran meanwhile still runs')
answers = together([r for r in ROUTES if not any(word in r[0] for word in AFTER)])
same({row: a for row, a in answers.items() if a[0] in (0, 500, 503)}, {}, 'and all routes answer')

# -- the database is gone in the middle of a list or a download: it breaks off, so that nobody takes what has come for all there was
BYTES = b'0123456789abcde\n' * 60000  # pieces of 64 KiB
second = Worker(s, 'second', instance='w2', labels={'keeps': 'files'})
kept = s.enqueue(dict(name='k', queue='kept', command='x', labels={'keeps': 'files'}, priority=900))['id']
keeper = next(g for g in second.claim(1) if g['task'] == kept)
sent = s.ask('POST', f'/v1/tasks/{kept}/artifacts/f?offset=0&last=1&fence={keeper["fence"]}', 4 * BYTES).json
same(second.finish(keeper, exit=0, artifacts=[sent]).status, 200, 'a file is kept')
same(worker.log(grant, 0, BYTES).status, 200, 'a long log')
same(s.post('/v1/tasks', dict(tasks=[dict(name=f'e{n}', queue='events', command='x') for n in range(3000)])).status, 201, 'and many events')


def opened(path):
    line = http.client.HTTPConnection(*s.url.split('//')[1].split(':'), timeout=60)
    line.request('GET', path, None, {'Authorization': f'Bearer {s.token}'})
    answer = line.getresponse()
    return line, answer, answer.read(10)


def taken(path, opened_as, found):
    """how it ended: whole, or broken off; how many bytes came; in how many seconds"""
    line, answer, first = opened_as
    began = time.monotonic()
    try:
        rest, end = answer.read(), 'whole'
    except http.client.IncompleteRead as why:
        rest, end = why.partial, 'broken off'
    except OSError as why:
        rest, end = b'', repr(why)
    line.close()
    found[path] = (end, len(first + rest), time.monotonic() - began)


def all_taken(break_it):
    found = {}
    lines = {path: opened(path) for path in DOWNLOADS}
    if break_it:
        slow.freeze()
    threads = [threading.Thread(target=taken, args=(path, line, found)) for path, line in lines.items()]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    slow.thaw()
    return found


DOWNLOADS = ['/v1/events?since=0', f'/v1/tasks/{task}/log', f'/v1/tasks/{kept}/artifacts/f']
whole = all_taken(False)
same([end for end, _, _ in whole.values()], ['whole'] * 3, 'three downloads, to their ends')
same([whole[path][1] for path in DOWNLOADS[1:]], [len(BYTES), 4 * len(BYTES)], 'with all their bytes')
slow.late(LATE / 2)
for path, (how, n, seconds) in all_taken(True).items():
    ok(how == 'broken off' and 0 < n < whole[path][1] and seconds < LIMIT, f'{path}: breaks off, in {seconds:.1f} s', (how, n, whole[path][1]))
until(lambda: s.get('/v1/tasks').status == 200, seconds=30)
same([end for end, _, _ in all_taken(False).values()], ['whole'] * 3, 'and is whole again when it is asked for again')
end()
