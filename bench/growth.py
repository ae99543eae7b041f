#!/usr/bin/env python3
"""growth.py [--postgres] [WEIR [FEW [MANY [COMMAND...]]]]: what a command costs a server with FEW (10) and with MANY (10,000) archives, queues, executors,
tokens and semaphores, each. A plain server is filled through its interface and ended; one under callgrind is started on what it left. So everything counts that the
process does: reading the request, who asks, the turn, SQLite, threads beside. Fails when a command takes more than 1.6 times the instructions among many: the
logarithm of tables and of SQLite's trees is in the margin.

With --postgres the same on a PostgreSQL that is started for it, and beside the instructions of Weir's process what the database did for the command, as
pg_stat_statements counts it: statements, each of which must be asked as often, and blocks that they touched, of which there may be 1.6 times as many and five.
Work that only the database does (a table that is walked) shows there. Statements that a server asks which has nothing to do aren't counted: it beats once a second, in
a turn of its own or in a command's, and a measurement may last longer than that. A command's answer comes before all of its statements (what follows a commit is read
beside the turn), so each measurement ends when the others are quiet; and two that want the same (the site's keys, after a change of them) may have it by one statement
or by two, so the least among many is compared with the most among few. Statements that differ are printed.

Not compared are answers that count everything there is (stats, tenants, metrics): they look at all of it."""
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
DEEPER = 5  # blocks: of few, one level more of each index is much
IDLE, QUIET_S, REST_S, SETTLE_S, IDLE_S, AFTER_S = 20000, 3, 60, 0.1, 4, 0.03
MEASURES = ('instructions', 'statements', 'blocks')
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
        """until it has done nothing by itself for so long: a second after its start there is some work, once, that lasts over several measures.
        Connections that idled meanwhile may have been ended: what is asked next has a new one, which isn't counted."""
        since = begin = time.monotonic()
        while (busy := self.instructions() > IDLE) or time.monotonic() - since < seconds:
            now = time.monotonic()
            if now - begin > REST_S:
                break
            since = now if busy else since
            time.sleep(0.02)
        self.connections.clear()
        self.ask('GET', '/healthz')
        self.instructions()


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


class Database:
    """A PostgreSQL for the samples of a table: each has a database of its own in it."""

    def __init__(self):
        sys.path.append(str(HERE.parent / 'test' / 'lib'))
        import postgres
        self.pg = postgres.Postgres(settings=['shared_preload_libraries=pg_stat_statements', 'pg_stat_statements.track=all', 'pg_stat_statements.max=10000',
                                              'autovacuum=off', 'shared_buffers=256MB']).start()
        self.pg.sql('CREATE EXTENSION pg_stat_statements')
        self.texts, self.idle = {}, {}

    def counts(self, name):
        """so far: {statement: how often, blocks}, without those of an idle server"""
        found = self.pg.sql("SELECT md5(query), sum(calls), sum(shared_blks_hit + shared_blks_read), min(left(regexp_replace(query, '\\s+', ' ', 'g'), 160)) "
                            f"FROM pg_stat_statements s JOIN pg_database d ON d.oid = s.dbid AND d.datname = '{name}' GROUP BY 1")
        rows = [line.split('|', 3) for line in found.splitlines()]
        self.texts.update((row[0], row[3]) for row in rows)
        return {row[0]: (int(row[1]), int(row[2])) for row in rows if row[0] not in self.idle.get(name, ())}

    def idles(self, name):
        """what is asked from now on, for some beats, is what a server asks by itself"""
        before = self.counts(name)
        time.sleep(IDLE_S)
        self.idle[name] = {s for s, n in self.counts(name).items() if n != before.get(s)}

    def quiet(self, name):
        """its counts, once they have not changed for a while"""
        counts, since = self.counts(name), time.monotonic()
        begin = since
        while time.monotonic() - since < SETTLE_S and time.monotonic() - begin < REST_S:
            time.sleep(SETTLE_S / 5)
            now = self.counts(name)
            if now != counts:
                counts, since = now, time.monotonic()
        return counts

    def settle(self, name):
        """as autovacuum leaves it; by itself it would come in the middle"""
        self.pg.sql('VACUUM ANALYZE', name)


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
    ('tasks in a state, a page', None, get('/v1/tasks?state=S&limit=5')),
    ('pending tasks of a queue', None, get('/v1/tasks?state=P&queue=work&limit=5')),
    ('tasks of a revision', None, get('/v1/tasks?archive=flows&rev=1')),
    ('archives, a page', None, get('/v1/archives?limit=5')),
    ('revisions, a page', None, get('/v1/archives/flows/revisions?limit=5')),
    ('events, a page', None, get('/v1/events?limit=5&since=0')),
    ('lanes, a page', None, get('/v1/lanes?limit=5')),
    ('executors, a page', None, get('/v1/executors?limit=5')),
    ('nodes, a page', None, get('/v1/nodes?limit=5')),
    ('semaphores, a page', None, get('/v1/semaphores?limit=5')),
    ('tokens, a page', None, get('/v1/tokens?limit=5')),
    ('a task', Work.task, get('/v1/tasks/@')),
    ('an executor', None, get('/v1/executors/worker')),
    ('an archive', None, get('/v1/archives/flows')),
    ('why', Work.task, get('/v1/tasks/@/why')),
    ('a graph', Work.task, get('/v1/tasks/@/graph')),
]


class Cost(tuple):
    """as MEASURES; least, most: how often each statement was asked, of all measurements"""
    least, most = {}, {}


def measured(site, work, ready, run, asked):
    """the least of each measure: what a server does by itself beside one of them isn't the command's; asked(): what the database has done, None: there is none"""
    things = [ready(work) if ready else None for _ in range(TIMES + 1)]
    run(work, things[0])  # the first time prepares statements
    site.rest()
    instructions, blocks, statements = [], [], []
    before = asked()
    site.instructions()
    for thing in things[1:]:
        run(work, thing)
        if before is not None:
            time.sleep(AFTER_S)
        instructions.append(site.instructions())
        if before is None:
            continue
        after = asked()
        site.instructions()  # what a beat took meanwhile
        more = {s: (n - before.get(s, (0, 0))[0], b - before.get(s, (0, 0))[1]) for s, (n, b) in after.items()}
        statements.append({s: n for s, (n, _) in more.items() if n})
        blocks.append(sum(b for _, b in more.values()))
        before = after
    if not statements:
        return Cost([min(instructions)])
    least = {s: min(each.get(s, 0) for each in statements) for s in statements[0]}
    cost = Cost([min(instructions), sum(least.values()), min(blocks)])
    cost.least, cost.most = least, {s: max(each.get(s, 0) for each in statements) for each in statements for s in each}
    return cost


def sample(weir, folder, n, names, database=None):
    name = f'growth{n}'
    store = database.pg.create(name) if database else None
    folder.mkdir(parents=True)
    (folder / 'weir.yaml').write_text(json.dumps({'lease': '10m',  # executors that are there in name only aren't given up meanwhile
                                                'tenants': {'default': {'quotas': QUOTAS}}}))
    site = Site(weir, folder, store=store)
    try:
        fill(site, n)
    finally:
        site.stop()
    if database:
        database.settle(name)
    site = Site(weir, folder, site.token, folder / 'callgrind', store=store)
    found = {}
    try:
        site.wait()
        work = Work(site)
        site.rest(QUIET_S)
        if database:
            database.idles(name)
        for command, ready, run in COMMANDS:
            if names and command not in names:
                continue
            try:
                found[command] = measured(site, work, ready, run, lambda: database.quiet(name) if database else None)
            except SystemExit as why:
                found[command] = str(why)
    finally:
        site.stop()
    return found


def grown(small, large):
    """statements that are always asked more often among many than ever among few"""
    return [s for s, n in large.least.items() if n > small.most.get(s, 0)]


def good(small, large):
    return not isinstance(small, str) and not isinstance(large, str) and not grown(small, large) and all(
        m == 'statements' or b <= MOST * a + (DEEPER if m == 'blocks' else 0) for m, a, b in zip(MEASURES, small, large))


def differing(small, large, texts):
    return [f'{small.most.get(s, 0)} and {large.least[s]}: {texts.get(s, s)}' for s in grown(small, large)]


def told(small, large):
    if isinstance(small, str) or isinstance(large, str):
        return small if isinstance(small, str) else large
    return ', '.join(f'{a:,} and {b:,} {m} (x {b / max(a, 1):.2f})' for m, a, b in zip(MEASURES, small, large))


def table(weir, few, many, names=(), postgres=False):
    """[(command, among few, among many, good)]: as MEASURES, the last two of PostgreSQL only; a text instead: it was refused"""
    database = Database() if postgres else None
    folder = pathlib.Path(tempfile.mkdtemp(prefix='growth-', dir=os.environ.get('BENCH_DIR') or os.environ.get('TEST_TMP')))
    try:
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            small, large = pool.map(lambda n: sample(weir, folder / str(n), n, names, database), (few, many))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if database:
            database.pg.remove()
    for name in small if database else ():
        if not good(small[name], large[name]) and not isinstance(small[name], str) and not isinstance(large[name], str):
            print(*(f'# {name}: {line}' for line in differing(small[name], large[name], database.texts)), sep='\n', flush=True)
    return [(name, small[name], large[name], good(small[name], large[name])) for name in small]


def main():
    args = [arg for arg in sys.argv[1:] if arg != '--postgres']
    weir = pathlib.Path(args[0]) if args else HERE.parent / 'build' / 'weir'
    few, many = int(args[1]) if len(args) > 1 else 10, int(args[2]) if len(args) > 2 else 10000
    rows = table(weir.resolve(), few, many, args[3:], '--postgres' in sys.argv)
    for name, small, large, same in rows:
        print(f'{"ok  " if same else "FAIL"} {name:30} {told(small, large)}', flush=True)
    return 0 if all(row[3] for row in rows) else 1


if __name__ == '__main__':
    sys.exit(main())
