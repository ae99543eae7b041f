#!/usr/bin/env python3
# store: sqlite (it starts its own PostgreSQL)
"""Claims of many tasks on PostgreSQL, which are kept together (live_many): both servers show each as running; results that come to two servers at once, one by one and in
hundreds, each end theirs; a server that is killed and a copy of the store know what still runs; nothing is left over."""
import pathlib
import random
import signal
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
from house import TMP, House, Worker, database, end, houses, ok, run, same  # noqa: E402

N, LEFT = 400, 130
pg, url = database()
a, b = houses(url, 'ab', slots=0, lease='60s')
choice = random.Random(7)


def rows():
    """of large claims, of others"""
    return tuple(map(int, pg.sql('SELECT (SELECT count(*) FROM live_many), (SELECT count(*) FROM live)', 'weir').split('|')))


EACH = '(SELECT task, grant_no FROM live UNION ALL SELECT (block << 6) + n, grant_no FROM live_many, generate_series(0, 63) n WHERE bits >> n & 1 = 1)'


def astray():
    """tasks that run and whose attempt stands nowhere, or twice; attempts that stand there and don't run; empty rows"""
    return pg.sql(f"""SELECT count(*) FROM task t WHERE (state = 'X')::int <> (SELECT count(*) FROM {EACH} r WHERE r.task = t.id)
        UNION ALL SELECT count(*) FROM {EACH} r JOIN attempt a ON a.task = r.task AND a.grant_no = r.grant_no
        UNION ALL SELECT count(*) FROM live_many WHERE bits = 0""", 'weir').split()


def running(server):
    """the tasks that a list of what runs has, page by page"""
    found, page = [], server.get('/v1/tasks?state=X&limit=60').json
    while True:
        found += [t['id'] for t in page['tasks']]
        if not page.get('next'):
            return found
        page = server.get(f'/v1/tasks?state=X&limit=60&cursor={page["next"]}').json


def finish(server, grants):
    answer = server.post('/v1/finishes', dict(items=[dict(task=g['task'], fence=g['fence'], exit=0) for g in grants]))
    return [r for r in answer.json['results'] if r['status'] != 200] if answer.status == 200 else [str(answer)]


def renewed(seq, some, of=None):
    """the cancels that come back"""
    return (of or worker).poll(free=0, seq=seq, renew=[dict(task=g['task'], fence=g['fence']) for g in some])['cancels']


made = a.post('/v1/tasks', dict(tasks=[dict(queue='q', name=f't{n}', command='x') for n in range(N)]))
same(made.status, 201, f'{N} tasks are made')
worker = Worker(a, 'large', slots=1000)
grants = worker.claim(free=1000, seq=1)
same((len(grants), len(set(g['task'] for g in grants))), (N, N), 'one poll has them all')
together, single = rows()
ok(0 < together <= N // 64 + 2 and single == 0, f'{N} attempts are {together} rows', together, single)
for server in (a, b):
    same(running(server), sorted((g['task'] for g in grants), reverse=True), f'{server.dir.name} lists all of them as running')
one = b.get(f'/v1/tasks/{grants[70]["task"]}').json
same((one['state'], [x.get('executor') for x in one['attempts']]), ('X', ['large']), 'the other server shows whose attempt runs')
same({g['task'] for g in worker.claim(free=1000, wait_ms=0, seq=1)}, {g['task'] for g in grants}, 'the same poll again has the same grants')
worker.server = b
same(renewed(2, grants), [], 'named at the other server, they all go on')
same(len(running(a)), N, 'and run')

# -- results come to both servers at once, in all sizes; what is finished together stands in no order
choice.shuffle(grants)
wrong, todo, lock = [], grants[LEFT:], threading.Lock()


def report(server, sizes):
    while True:
        with lock:
            some, todo[:] = todo[:sizes[0]], todo[sizes[0]:]
        if not some:
            return
        wrong.extend(finish(server, some))
        sizes = sizes[1:] + sizes[:1]


threads = [threading.Thread(target=report, args=(server, sizes)) for server, sizes in ((a, [1, 20, 3]), (b, [7, 1, 1]))]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
same(wrong[:3], [], 'every result is taken')
left = sorted((g['task'] for g in grants[:LEFT]), reverse=True)
same((running(a), running(b)), (left, left), 'the others run on')

# -- another worker's claim beside it: what didn't arrive is given back, what is told anew is kept
made = b.post('/v1/tasks', dict(tasks=[dict(queue='r', name=f't{n}', command='x') for n in range(200)]))
other = Worker(b, 'other', slots=1000)
second = other.claim(free=1000, seq=1)
same(len(second), 200, 'another worker has a claim of its own')
other.server = a
same(renewed(2, second[:90], other), [], 'it names 90 of them')
same((len(running(b)), astray()), (LEFT + 90, ['0'] * 3), 'the others are pending again')
again = other.claim(free=1000, seq=3, renew=[dict(task=g['task'], fence=g['fence']) for g in second[:90]])
same(sorted(g['task'] for g in again), sorted(g['task'] for g in second[90:]), 'and are granted anew')
Worker(b, 'other', slots=1000, instance='another')
same((len(running(a)), astray()), (LEFT + 200, ['0'] * 3), 'it begins anew, and all of it runs still')
same(finish(a, second[:90:2]) + finish(b, again + second[1:90:2]), [], 'its results are taken')
same((running(a), astray()), (left, ['0'] * 3), 'the first claim stands as it stood')

# -- a server that begins anew, and a copy, know what runs
b.kill()
b.start()
same(running(b), left, 'a server that was killed knows what runs')
same(renewed(3, grants[:LEFT]), [], 'and takes its renewal')
same(running(a), left, 'all of it')
a.stop(signal.SIGINT)
b.stop(signal.SIGINT)
done = run('store', 'copy', url, f'sqlite://{TMP}/copy', '--data', a.dir)
ok(done.code == 0 and 'copied and verified' in done.err, 'the store is copied to SQLite', done.code, done.err)
copy = House('copy', '--store', f'sqlite://{TMP}/copy', slots=0)
same(running(copy), left, 'the copy knows what runs')
copy.stop(signal.SIGINT)
back = pg.create('back')
done = run('store', 'copy', TMP / 'copy', back)
same((done.code, pg.sql('SELECT count(*) FROM live', 'back')), (0, str(LEFT)), 'and its copy in PostgreSQL too')

a.start()
same(finish(a, grants[:LEFT]), [], 'all the rest is reported at once')
same((running(a), rows(), astray()), ([], (0, 0), ['0'] * 3), 'nothing runs any more, and no row is left')
same(len(a.get('/v1/tasks?state=D&limit=1000').json['tasks']), N + 200, f'{N + 200} are done')
same(a.verify().code, 0, 'the history verifies')
a.stop(signal.SIGINT)
pg.remove()
end()
