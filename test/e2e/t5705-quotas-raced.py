#!/usr/bin/env python3
# time limit: 120
# store: sqlite (it starts its own PostgreSQL)
"""Quotas raced over three servers: what a tenant may have is never exceeded, however many ask for the last of it at once, at one server or at three, alone or several in one turn; and nothing
is left over that would keep it below afterwards: once everything has ended it can have as much again."""
import collections
import json
import pathlib
import random
import subprocess
import sys
import threading
import time
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
import postgres  # noqa: E402
from house import TMP, Worker, database, end, houses, ok, same, until  # noqa: E402
from voices import Voice, voice  # noqa: E402

LIMITS = dict(tasks=12, running=3, queues=4, semaphores=4, tokens=5, executors=4, archives=3)
pg, url = database()
conf = TMP / 'weir.yaml'
conf.write_text(json.dumps({'tenants': {'red': {'quotas': dict(LIMITS, files='3000B')}}}))
servers = houses(url, ['s0', 's1', 's2'], slots=0, lease='30s')
done = servers[0].cli('config', 'apply', str(conf))
same(done.code, 0, f'quotas of the site {done.err.strip()}')
token = voice(servers[0], 'red').token
reds = [Voice(s, token) for s in servers]
until(lambda: all(r.get('/v1/tenants').json['tenants'][0]['quotas']['tasks']['limit'] == 12 for r in reds), 'all three servers have them', 20)


def race(n, make):
    """make(voice, i) for i in 0..n-1, all at the same moment, spread over the servers; how often each status came"""
    start, got, lock = threading.Barrier(n), collections.Counter(), threading.Lock()

    def one(i):
        start.wait()
        for _ in range(50):
            answer = make(reds[i % 3], i)
            if answer.status != 503:
                break
            time.sleep(0.05)
        with lock:
            got[answer.status] += 1
    threads = [threading.Thread(target=one, args=(i,), daemon=True) for i in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return dict(got)


def used(what):
    return [r.quotas()[what][0] for r in reds]


same(race(30, lambda v, i: v.post('/v1/tasks', dict(name=f't{i}', queue='q', data=i))), {201: 12, 429: 18}, 'tasks: 12 of 30 that are posted at once')
same(used('tasks'), [12] * 3, 'and all servers count them')


def pending():
    return len([t for t in reds[0].get('/v1/tasks?limit=100').json['tasks'] if t['state'] == 'P'])


same(pending(), 0, 'running: nobody can start them, so none of the three places is taken')
workers = [Worker(Voice(s), f'w{i}', kinds=['data'], slots=20) for i, s in enumerate(servers)]
until(lambda: pending() == 3, 'three of them may run', 20)

# -- ends and new tasks at once, at all servers: never above, and in the end none is left
stop, over, ran = threading.Event(), [], collections.Counter()


def work(worker, seed):
    rng = random.Random(seed)
    held = []
    while not stop.is_set() or held:
        held += worker.claim(free=4, wait_ms=50)
        for grant in rng.sample(held, rng.randint(0, len(held))):
            if worker.finish(grant).status == 200:
                held.remove(grant)
                ran['ends'] += 1


def post(v, letter):
    n = 0
    while not stop.is_set():
        n += 1
        ran[v.post('/v1/tasks', dict(name=f'{letter}{n}', queue='q', data=n)).status] += 1


def watch():
    while not stop.is_set():
        tasks = servers[0].get('/v1/tasks?limit=1000&state=SPX&tenant=red', local=True).json['tasks']
        counts = collections.Counter(t['state'] for t in tasks)
        if counts['P'] + counts['X'] > 3 or len(tasks) > 12:
            over.append(counts)


threads = [threading.Thread(target=work, args=(w, i), daemon=True) for i, w in enumerate(workers)]
threads += [threading.Thread(target=post, args=(reds[i % 3], 'abcdef'[i]), daemon=True) for i in range(6)]
threads += [threading.Thread(target=watch, daemon=True)]
for thread in threads:
    thread.start()
until(lambda: ran['ends'] > 150, seconds=20)
stop.set()
for thread in threads:
    thread.join(60)
same(over, [], f'never above: {dict(ran)}')
# the history says it for every moment
open_now, running, most = set(), set(), [0, 0]
for e in reds[0].events():
    if e.get('task') is None or e.get('to') is None:
        continue
    (open_now.add if e['to'] in 'QSPX' else open_now.discard)(e['task'])
    (running.add if e['to'] in 'PX' else running.discard)(e['task'])
    most = [max(most[0], len(open_now)), max(most[1], len(running))]
ok(most[0] <= 12 and most[1] <= 3 and max(most) > 0, 'nor at any event of the history', most)


def drain():
    for worker in workers:
        for grant in worker.claim(free=10, wait_ms=100):
            worker.finish(grant)
    return used('tasks') == [0] * 3


until(drain, 'all have ended, and nothing is counted any more', 40)
same(race(30, lambda v, i: v.post('/v1/tasks', dict(tasks=[dict(name=f'm{i}-{k}', queue='q', data=i) for k in range(4)]))), {201: 3, 429: 27},
     'calls of four tasks: three of thirty, whole')
until(drain, seconds=40)

# -- names
same(race(15, lambda v, i: v.post('/v1/tasks', dict(name='n', queue=f'q{i}', data=1))).get(201), 3, 'queues: three beside the one that is there')
until(drain, seconds=40)
got = race(15, lambda v, i: v.post('/v1/tasks', dict(name='n', queue='q', data=1, semaphores=[f'sem{i}'])))
same((got.get(201), got.get(507)), (4, 11), 'semaphores: four')
until(drain, seconds=40)
same(race(15, lambda v, i: v.post('/v1/tokens', dict(name=f'k{i}', scopes=['read']))), {201: 4, 507: 11}, 'tokens: four beside the one that asks')
same(race(15, lambda v, i: v.post('/v1/executors', dict(name=f'e{i}', slots=1))), {201: 4, 507: 11}, 'executors: four')
same(race(15, lambda v, i: v.post('/v1/archives', dict(name=f'a{i}', kind='external'))), {201: 3, 507: 12}, 'archives: three')

# -- files: what is kept is within the quota, and half-sent files of running jobs are within as much again, at all servers together
ids = [reds[0].enqueue(dict(name=f'f{i}', queue='q', data=1))['id'] for i in range(3)]
grants = [(w, g) for w in workers for g in w.claim(free=1, wait_ms=2000)]
same(len(grants), 3, 'three jobs run, one at each server')
sent = []


def upload(i):
    worker, grant = grants[i]
    for k in range(6):
        answer = worker.server.ask('POST', f'/v1/tasks/{grant["task"]}/artifacts/f{k}?fence={urllib.parse.quote(grant["fence"])}&offset=0', b'%06d' % i * 100,
                                   {'Content-Type': 'application/octet-stream'})
        sent.append((answer.status, i, k))


threads = [threading.Thread(target=upload, args=(i,), daemon=True) for i in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join(60)
print('#', collections.Counter(s[0] for s in sent), flush=True)
taken = 600 * sum(s[0] in (200, 201, 204) for s in sent)
ok(0 < taken <= 3000, f'{taken} bytes were taken of a quota of 3000', sent)
for worker, grant in grants:
    worker.finish(grant)
until(lambda: used('tasks') == [0] * 3, 'all have ended', 20)


# -- logs: what jobs left that end at once, at all servers, is counted whole; from the end on that filled it nobody posts anything, at any server
def quotas(**limits):
    conf.write_text(json.dumps({'tenants': {'red': {'quotas': limits}}}))
    done = servers[0].cli('config', 'apply', str(conf))
    version = servers[0].get('/v1/tenants', local=True).json['version']
    same(done.code, 0, f'quotas {limits} {done.err.strip()}')
    until(lambda: all(s.get('/v1/tenants', local=True).json['version'] >= version for s in servers), seconds=20)


def at_once(*works):
    start = threading.Barrier(len(works))

    def one(work):
        start.wait()
        work()
    threads = [threading.Thread(target=one, args=(w,), daemon=True) for w in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)


def rounds(limit):
    """30 jobs with logs of 100 bytes; their ends go to the same server or to another one, half of them say how long the log is, half say nothing: (what those saw who could post when nothing was left, what was answered)"""
    late, kept = [], []
    reds[0].enqueue(*[dict(name=f'l{limit}-{i}', queue='q', data=i) for i in range(30)])
    held = []
    until(lambda: held.extend((w, g) for w in workers for g in w.claim(free=5, wait_ms=100)) or len(held) == 30, '30 jobs run', 20)

    def job(number):
        worker, grant = held[number]
        there = workers[(number + 1) % 3].server if number % 3 else worker.server
        kept.append(worker.log(grant, 0, b'l' * 100).status)
        answer = there.post(f'/v1/tasks/{grant["task"]}/finish', dict(fence=grant['fence'], exit=0, **(dict(log_bytes=100) if number % 2 else {})))
        kept.append(answer.status)

    def poster(v):
        for i in range(12):
            before = v.quotas()['logs'][0]
            status = v.post('/v1/tasks', dict(name=f'p{i}', queue='q', data=i)).status
            if before >= limit and status == 201:
                late.append(before)
    at_once(*[lambda n=n: job(n) for n in range(30)], *[lambda v=v: poster(v) for v in reds])
    return late, collections.Counter(kept)


quotas(logs='1500B')
late, kept = rounds(1500)
same((late, dict(kept)), ([], {200: 60}), 'logs: nobody who saw it full has posted')
until(lambda: used('logs') == [3000] * 3, '30 logs of 100 bytes, at all servers, whatever ends said of them, and wherever they were said', 20)
same(race(12, lambda v, i: v.post('/v1/tasks', dict(name='x', queue='q', data=1))), {507: 12}, 'no task any more, at any server')
until(drain, seconds=40)
until(lambda: reds[1].post('/v1/prune', dict(older_than='1s', dry_run=False)).status == 200 and used('logs') == [0] * 3, 'a prune at one gives back all of it', 20)
same(race(12, lambda v, i: v.post('/v1/tasks', dict(name='x', queue='q', data=1))), {201: 12}, 'and tasks are taken again, at all')
until(drain, seconds=40)

# -- bytes that one server has taken and not yet written when the job ends, silently, at another
def log_locked():
    held = subprocess.Popen([postgres.BIN / 'psql', '-X', '-q', '-h', pg.dir, '-p', str(pg.port), '-U', postgres.USER, '-d', 'weir'], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    print('BEGIN; LOCK TABLE log IN SHARE MODE;', file=held.stdin, flush=True)
    until(lambda: pg.sql("SELECT count(*) FROM pg_locks WHERE relation = 'log'::regclass AND mode = 'ShareLock' AND granted", 'weir') == '1')
    return held


same(used('logs'), [0] * 3, 'no logs')
reds[0].enqueue(*[dict(name=f'w{i}', queue='q', data=i) for i in range(2)])
(whole, part) = until(lambda: (lambda g: len(g) == 2 and g)(workers[0].claim(free=2, wait_ms=500)), 'two jobs', 20)
same(workers[0].log(part, 0, b'l' * 100).status, 200, 'a log')
until(lambda: pg.sql('SELECT sum(bytes) FROM log', 'weir') == '100', 'that is written', 20)
holder = log_locked()
same([workers[0].log(whole, 0, b'l' * 70).status, workers[0].log(part, 100, b'l' * 30).status], [200, 200], 'a log, and the rest of the other one, that wait to be written')
same([workers[1].server.post(f'/v1/tasks/{g["task"]}/finish', dict(fence=g['fence'], exit=0)).status for g in (whole, part)], [200, 200], 'both end at another server')
same(used('logs'), [100] * 3, 'which knows of nothing else')
holder.communicate('COMMIT;\n', timeout=30)
until(lambda: used('logs') == [200] * 3, 'they count once they are written', 20)
until(lambda: pg.sql('SELECT count(*), min(sealed), max(sealed) FROM log', 'weir') == '2|1|1', 'and both are noted in the history', 20)

# -- likewise when the job is given up at another server, for good: no more of its log is sent, and nothing seals it
def lost_elsewhere(name, first):
    """a job whose executor forgot it and says so to another server, while 30 bytes wait to be written at the first one, behind `first` that are"""
    before = used('logs')[0]
    loser = Worker(reds[0], name, labels=dict(only=name), instance='one', memory='first')
    task = reds[0].enqueue(dict(name=name, queue='q', data=1, labels=dict(only=name), retry=dict(attempts=1)))['id']
    grant = until(lambda: loser.claim(wait_ms=500, seq=1), 'a job', 20)[0]
    if first:
        same(loser.log(grant, 0, b'l' * first).status, 200, 'a log')
        until(lambda: pg.sql(f'SELECT bytes FROM log WHERE task = {task}', 'weir') == str(first), 'that is written', 20)
    holder = log_locked()
    same(loser.log(grant, first, b'l' * 30).status, 200, 'more, that waits to be written')
    again = Worker(reds[1], name, labels=dict(only=name), instance='one', memory='second')
    until(lambda: again.poll(free=0, seq=2) and reds[1].state(task) == 'F', 'its executor has forgotten it, and tells another server', 20)
    until(lambda: used('logs') == [before + first] * 3, f'which knows of {first} bytes', 20)
    holder.communicate('COMMIT;\n', timeout=30)
    until(lambda: used('logs') == [before + first + 30] * 3, 'the others count once they are written', 20)
    same(pg.sql(f'SELECT bytes, sealed FROM log WHERE task = {task}', 'weir'), f'{first + 30}|0', 'and the log stays open for a late result')


lost_elsewhere('loser', 100)
lost_elsewhere('starter', 0)

# -- requests: so many a second at each server, however they come
quotas(requests=10)
got, lock = collections.Counter(), threading.Lock()


def ask(n):
    for _ in range(15):
        answer = reds[n % 3].get('/v1/stats')
        with lock:
            got[n % 3, answer.status] += 1


began = time.monotonic()
at_once(*[lambda n=n: ask(n) for n in range(12)])
seconds = int(time.monotonic() - began) + 2
ok(all(10 <= got[n, 200] <= 10 * seconds and got[n, 200] + got[n, 429] == 60 for n in range(3)), f'requests: at most 10 a second at each server, in {seconds} of them', dict(got))
ok(sum(got[n, 429] for n in range(3)) > 0, 'the others are refused', dict(got))
same([s.get('/v1/stats', local=True).status for s in servers], [200] * 3, 'others feel nothing of it')
end()
