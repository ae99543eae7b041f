#!/usr/bin/env python3
"""growth.py [WEIR [FEW [MANY [COMMAND...]]]]: what a command costs a server with FEW (10) and with MANY (10,000) archives, queues, executors, tokens and
semaphores, each. A plain server is filled through its interface and ended; one under callgrind is started on what it left. So everything counts that the
process does: reading the request, who asks, the turn, SQLite, threads beside. Fails when a command takes more than 1.6 times the instructions among many: the
logarithm of tables and of SQLite's trees is in the margin. SQLite alone.

Not compared are answers that name everything there is (stats, nodes, metrics): they are as long as what they name."""
import concurrent.futures
import http.client
import itertools
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
MOST, TIMES, START_S = 1.6, 4, 120
IDLE, QUIET_S, REST_S = 20000, 3, 20
TASKS_A_CALL, VOICES = 2000, 8
QUOTAS = {'tasks': 10**8, 'archives': 10**6, 'queues': 10**6, 'semaphores': 10**6, 'tokens': 10**6, 'executors': 10**6}
WORKFLOW = [{'name': 'build', 'command': 'true', 'checkout': False}]


class Site:
    """A server on a data directory; callgrind: a place for its files, or None."""

    def __init__(self, weir, folder, token=None, callgrind=None, store=None, name='data'):
        self.token, self.callgrind = token, callgrind
        argv = [str(weir), 'serve', '--data', str(folder / name), '--listen', '127.0.0.1:0', '--slots', '0', '--lease', '600s', '--config',
                str(folder / 'weir.yaml'), '--socket', str(folder / f'{name}.sock'), *(['--store', store, '--name', name] if store else [])]
        if callgrind:
            argv = ['valgrind', '--tool=callgrind', f'--callgrind-out-file={callgrind}', *argv]
        self.errors = open(folder / f'{name}.log', 'ab')
        self.process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=self.errors, stdin=subprocess.DEVNULL)
        line = self.process.stdout.readline().decode()
        if not line.startswith('listening on http://'):
            self.stop()
            raise SystemExit(f'{argv[0]} did not start: {(folder / f"{name}.log").read_text()[-800:]}')
        self.port, self.connections = int(line.split()[2].rsplit(':', 1)[1]), {}

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(START_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.errors.close()

    def ask(self, method, path, body=None, voice=0, good=(200, 201, 202)):
        connection = self.connections.get(voice)
        if connection is None:
            connection = self.connections[voice] = http.client.HTTPConnection('127.0.0.1', self.port, timeout=300)
        connection.request(method, path, None if body is None else json.dumps(body), {'Authorization': f'Bearer {self.token}'} if self.token else {})
        answer = connection.getresponse()
        text = answer.read()
        if answer.status not in good:
            raise SystemExit(f'{method} {path}: {answer.status} {text[:600]!r}')
        return json.loads(text) if answer.headers.get('Content-Type') == 'application/json' else text

    def wait(self):
        """until it answers: under callgrind its first turn, of very many things, may take longer than it waits for a request"""
        until = time.monotonic() + START_S
        while True:
            try:
                return self.ask('GET', '/healthz')
            except OSError:
                self.connections.clear()
                if time.monotonic() > until:
                    raise

    def get(self, path):
        return self.ask('GET', path)

    def post(self, path, body=None, **more):
        return self.ask('POST', path, {} if body is None else body, **more)

    def instructions(self):
        """since they were asked for last"""
        before = {p for p in self.callgrind.parent.glob(self.callgrind.name + '.*')}
        subprocess.run(['vgdb', f'--pid={self.process.pid}', 'dump'], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True, timeout=60)
        new = [p for p in self.callgrind.parent.glob(self.callgrind.name + '.*') if p not in before]
        found = [int(n) for p in new for n in re.findall(r'^(?:totals|summary): (\d+)', p.read_text(errors='replace'), re.M)]
        for p in new:
            p.unlink()
        return max(found)

    def rest(self, seconds=0):
        """until it has done nothing by itself for so long: a second after its start there is some work, once, that lasts over several measures"""
        since = begin = time.monotonic()
        while (busy := self.instructions() > IDLE) or time.monotonic() - since < seconds:
            now = time.monotonic()
            if now - begin > REST_S:
                break
            since = now if busy else since
            time.sleep(0.02)


def fill(site, n):
    """n of each"""
    site.token = site.post('/v1/tokens', {'name': 'first', 'scopes': ['admin', 'enqueue', 'execute', 'read']})['token']

    def some(voice):
        for i in range(voice, n, VOICES):
            site.post('/v1/archives', {'name': f'a{i}', 'kind': 'external'}, voice=voice)
            site.post('/v1/executors', {'name': f'e{i}', 'slots': 1, 'labels': {'none': 'such'}}, voice=voice)
            site.post('/v1/tokens', {'name': f't{i}', 'scopes': ['read']}, voice=voice)
    with concurrent.futures.ThreadPoolExecutor(VOICES) as pool:
        list(pool.map(some, range(VOICES)))
    for at in range(0, n, TASKS_A_CALL):
        site.post('/v1/tasks', {'tasks': [{'name': f't{i}', 'queue': f'q{i}', 'data': i, 'semaphores': [f's{i}'], 'labels': {'other': 'one'}}
                                          for i in range(at, min(n, at + TASKS_A_CALL))]})


class Work:
    """What is there to be measured on: each command has things of its own, made ready before it is counted."""

    def __init__(self, site):
        self.site, self.numbers = site, itertools.count(1)
        self.worker = site.post('/v1/executors', {'name': 'worker', 'slots': 100})['id']
        self.idle = site.post('/v1/executors', {'name': 'idle', 'slots': 1, 'labels': {'nothing': 'fits'}})['id']
        site.post('/v1/archives', {'name': 'flows', 'kind': 'external'})
        self.revision = itertools.count(2)
        site.post('/v1/archives/flows/revisions', {'rev': 1, 'workflow': WORKFLOW})

    def task(self, **more):
        return self.site.post('/v1/tasks', {'name': f'w{next(self.numbers)}', 'queue': 'work', 'data': 1, **more})['id']

    def grant(self):
        self.task(priority=900)
        return self.site.post(f'/v1/executors/{self.worker}/poll', {'free': 1, 'wait_ms': 0})['grants'][0]

    def named(self, form):
        return form.replace('%', str(next(self.numbers)))

    def archive(self):
        name = self.named('made%')
        self.site.post('/v1/archives', {'name': name, 'kind': 'external'})
        return name

    def token(self):
        name = self.named('key%')
        self.site.post('/v1/tokens', {'name': name, 'scopes': ['read']})
        return name

    def ended(self):
        task = self.task(queue='other')
        self.site.post(f'/v1/tasks/{task}/cancel')
        return task

    def paused(self):
        name = self.named('still%')
        self.site.post(f'/v1/lanes/{name}/pause', {'reason': 'r'})
        return name

    def executor(self):
        return self.site.post('/v1/executors', {'name': self.named('x%'), 'slots': 1, 'labels': {'nothing': 'fits'}})['id']

    def pending(self):
        return self.task(priority=900)


def config(work, _):
    work.site.post('/v1/config', {'text': json.dumps({'semaphores': {'licence': next(work.numbers)}})})


def post(path, **body):
    return lambda work, arg: work.site.post(path.replace('@', str(arg)), body)


def get(path):
    return lambda work, arg: work.site.get(path.replace('@', str(arg)))


COMMANDS = [  # name, what is made ready, what is measured
    ('enqueue', None, lambda w, _: w.task()),
    ('enqueue, new queue', None, lambda w, _: w.task(queue=w.named('fresh%'))),
    ('enqueue, new semaphore', None, lambda w, _: w.task(semaphores=[w.named('one%')])),
    ('enqueue, new concurrency key', None, lambda w, _: w.task(concurrency=w.named('two%'))),
    ('enqueue, taken semaphore', None, lambda w, _: w.task(semaphores=['s1'])),
    ('poll that is granted', Work.pending, lambda w, _: w.site.post(f'/v1/executors/{w.worker}/poll', {'free': 1, 'wait_ms': 0})),
    ('poll that is not', None, lambda w, _: w.site.post(f'/v1/executors/{w.idle}/poll', {'free': 1, 'wait_ms': 0})),
    ('finish', Work.grant, lambda w, g: w.site.post(f'/v1/tasks/{g["task"]}/finish', {'fence': g['fence'], 'exit': 0})),
    ('cancel', Work.task, post('/v1/tasks/@/cancel')),
    ('retry', Work.ended, post('/v1/tasks/@/retry')),
    ('promote', Work.task, post('/v1/tasks/@/promote')),
    ('revision', None, lambda w, _: w.site.post('/v1/archives/flows/revisions', {'rev': next(w.revision), 'workflow': WORKFLOW})),
    ('run', None, lambda w, _: w.site.post('/v1/archives/flows/runs', {'task': 'build'})),
    ('skip', None, lambda w, _: w.site.post('/v1/archives/flows/skip', {'rev': next(w.revision), 'reason': 'r'})),
    ('pause a lane', None, lambda w, _: w.site.post(f'/v1/lanes/{w.named("still%")}/pause', {'reason': 'r'})),
    ('resume a lane', Work.paused, post('/v1/lanes/@/resume')),
    ('register', None, lambda w, _: w.executor()),
    ('pause an executor', Work.executor, post('/v1/executors/@/pause', reason='r')),
    ('add a token', None, lambda w, _: w.token()),
    ('revoke a token', Work.token, lambda w, name: w.site.ask('DELETE', f'/v1/tokens/{name}')),
    ('add an archive', None, lambda w, _: w.archive()),
    ('remove an archive', Work.archive, lambda w, name: w.site.ask('DELETE', f'/v1/archives/{name}?reason=r')),
    ('change a semaphore', None, config),
    ('tasks, a page', None, get('/v1/tasks?limit=5')),
    ('archives, a page', None, get('/v1/archives?limit=5')),
    ('revisions, a page', None, get('/v1/archives/flows/revisions?limit=5')),
    ('events, a page', None, get('/v1/events?limit=5&since=0')),
    ('lanes, a page', None, get('/v1/lanes?limit=5')),
    ('executors, a page', None, get('/v1/executors?limit=5')),
    ('semaphores, a page', None, get('/v1/semaphores?limit=5')),
    ('tokens, a page', None, get('/v1/tokens?limit=5')),
    ('a task', Work.task, get('/v1/tasks/@')),
    ('an executor', None, get('/v1/executors/worker')),
    ('an archive', None, get('/v1/archives/flows')),
    ('why', Work.task, get('/v1/tasks/@/why')),
    ('a graph', Work.task, get('/v1/tasks/@/graph')),
]


def measured(site, work, ready, run):
    things = [ready(work) if ready else None for _ in range(TIMES + 1)]
    run(work, things[0])  # the first time prepares statements
    site.rest()
    counts = []
    for thing in things[1:]:
        run(work, thing)
        counts.append(site.instructions())
    return min(counts)  # what a server does once, by itself, beside one of them isn't the command's


def sample(weir, folder, n, names, store=None):
    folder.mkdir(parents=True)
    (folder / 'weir.yaml').write_text(json.dumps({'lease': '10m',  # executors that are there in name only aren't given up meanwhile
                                                'tenants': {'default': {'quotas': QUOTAS}}}))
    site = Site(weir, folder, store=store)
    try:
        fill(site, n)
    finally:
        site.stop()
    site = Site(weir, folder, site.token, folder / 'callgrind', store=store)
    found = {}
    try:
        site.wait()
        work = Work(site)
        site.rest(QUIET_S)
        site.connections.clear()  # they may have idled out
        for name, ready, run in COMMANDS:
            if names and name not in names:
                continue
            try:
                found[name] = measured(site, work, ready, run)
            except SystemExit as why:
                found[name] = str(why)
    finally:
        site.stop()
    return found


def table(weir, few, many, names=(), store=None):
    """[(command, among few, among many, good)]; a text instead of a number: it was refused"""
    folder = pathlib.Path(tempfile.mkdtemp(prefix='growth-', dir=os.environ.get('BENCH_DIR') or os.environ.get('TEST_TMP')))
    try:
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            small, large = pool.map(lambda n: sample(weir, folder / str(n), n, names, store), (few, many))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    rows = []
    for name in small:
        counted = isinstance(small[name], int) and isinstance(large[name], int)
        rows.append((name, small[name], large[name], counted and large[name] <= MOST * small[name]))
    return rows


def main():
    args = sys.argv[1:]
    weir = pathlib.Path(args[0]) if args else HERE.parent / 'build' / 'weir'
    few, many = int(args[1]) if len(args) > 1 else 10, int(args[2]) if len(args) > 2 else 10000
    rows = table(weir.resolve(), few, many, args[3:])
    for name, small, large, good in rows:
        if isinstance(small, int) and isinstance(large, int):
            print(f'{"ok  " if good else "FAIL"} {name:30} {small:12,} {large:14,}  x {large / small:.2f}')
        else:
            print(f'FAIL {name:30} {small if isinstance(small, str) else large}')
    return 0 if all(row[3] for row in rows) else 1


if __name__ == '__main__':
    sys.exit(main())
