#!/usr/bin/env python3
# time limit: 180
# store: sqlite (it starts its own PostgreSQL)
"""Somebody's snapshot stays open (pg_dump does that), so PostgreSQL keeps every version of the rows that each turn writes anew. Turns don't look at all of them: what they
read doesn't grow with the number of turns. Rows that move (VACUUM FULL) are found again, and in the end everything is counted right."""
import pathlib
import subprocess
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
import postgres  # noqa: E402
from house import Worker, database, end, houses, ok, run, same, until  # noqa: E402

TURNS = 2500
ROWS = ('head', 'mark', 'lane', 'executor')
pg, url = database()
servers = houses(url, 'ab', slots=0, lease='60s')
over, odd, done = threading.Event(), [], [0, 0, 0, 0]


def work(number):
    """posts to one server, claims at the other, reports to the first"""
    here, there = servers[number % 2], servers[1 - number % 2]
    worker = Worker(there, f'w{number}', labels=dict(n=str(number)))
    while not over.is_set():
        made = here.post('/v1/tasks', dict(name='t', queue=f'q{number}', command='x', labels=dict(n=str(number))))
        if made.status != 201:
            odd.append(made)
            continue
        for grant in worker.claim(wait_ms=5000):
            answer = here.post(f'/v1/tasks/{grant["task"]}/finish', dict(fence=grant['fence'], exit=0))
            if answer.status != 200:
                odd.append(answer)
            done[number] += 1


def session(*texts):
    made = subprocess.Popen([postgres.BIN / 'psql', '-X', '-q', '-At', '-h', pg.dir, '-p', str(pg.port), '-U', postgres.USER, '-d', 'weir'], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    print(*texts, sep='\n', file=made.stdin, flush=True)
    return made


def tick():
    return int(pg.sql('SELECT tick FROM head', 'weir'))


def blocks():
    return {name: int(n) for name, n in (row.split('|') for row in pg.sql(
        "SELECT relname, coalesce(heap_blks_hit, 0) + coalesce(heap_blks_read, 0) + coalesce(idx_blks_hit, 0) + coalesce(idx_blks_read, 0) FROM pg_statio_user_tables", 'weir').splitlines())}


def walked():
    """entries of the index of pending tasks, also of those that are gone"""
    return int(pg.sql("SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE relname = 'ready'", 'weir'))


def per_turn(turns):
    """blocks of each table that a turn has touched, over so many turns. The database counts up to a second behind what it does, which is
    as long as many turns take: so turns are counted by the same statistics, by the look at `archive`, which is the same in every turn."""
    first, before, steps = tick(), blocks(), walked()
    until(lambda: tick() >= first + turns or odd, f'{turns} turns', 100)
    until(lambda: blocks()['archive'] > before['archive'] or odd, 'they are counted', 30)
    after = blocks()
    n = after['archive'] - before['archive'] or 1
    found = {name: round((after[name] - before[name]) / n, 1) for name in after if after[name] > before[name]}
    return dict(found, entries=round((walked() - steps) / n, 1))


def head_pages():
    return int(pg.sql("SELECT pg_relation_size('head') / current_setting('block_size')::bigint", 'weir'))


def order(servers):
    """What comes to stand before the place where pending tasks were last looked for is found there, whoever put it there."""
    here, there = servers
    labels = dict(n=f'order {here.url}')
    worker = Worker(there, f'o{here.url[-5:]}', labels=labels)

    def post(name, **more):
        return here.post('/v1/tasks', dict(name=name, queue='order', command='x', labels=labels, **more)).json['id']

    def claim():
        grant, = worker.claim(wait_ms=5000)
        return grant

    def finish(grant):
        same(here.post(f'/v1/tasks/{grant["task"]}/finish', dict(fence=grant['fence'], exit=0)).status, 200, f'task {grant["task"]} ends')

    for i in range(5):
        post(f'c{i}')
        finish(claim())
    a, b, c = post('a'), post('b'), post('c')
    first = claim()
    same(first['task'], a, 'the first comes first')
    last = post('d')
    same(here.post(f'/v1/tasks/{c}/promote', {}).status, 200, 'one is promoted')
    urgent = post('e', priority=9)
    finish(first)
    claimed = []
    for _ in range(4):
        grant = claim()
        claimed.append(grant['task'])
        finish(grant)
    same(claimed, [urgent, c, b, last], 'then the urgent one, the promoted one, the others')


threads = [threading.Thread(target=work, args=(n,), daemon=True) for n in range(4)]
for t in threads:
    t.start()
plain = per_turn(500)
ok(head_pages() <= 4, f'without one, old versions are cleared away as turns come: {head_pages()} pages of the head')
snapshot = session('BEGIN ISOLATION LEVEL REPEATABLE READ;', 'SELECT count(*) FROM head;')
same(snapshot.stdout.readline().strip(), '1', 'somebody opens a snapshot')
per_turn(500)
early = per_turn(1000)
first = tick()
until(lambda: tick() >= first + TURNS or odd, f'{TURNS} turns beside it', 120)
late = per_turn(1000)
ok(late['entries'] < 20 and sum(late.values()) < 1.4 * sum(early.values()) + 10, f'a turn looks at as much as before: {plain} without a snapshot, {early} early, {late} after {TURNS} turns')
order(servers)
order(servers[::-1])
snapshot.communicate('ROLLBACK;\n', timeout=30)
per_turn(600)
pages = head_pages()
per_turn(300)
ok(head_pages() <= pages, f'and again when it is gone: {pages} pages, then {head_pages()}')

# rows move beside turns that know where they stood
for table in ROWS:
    pg.sql(f'VACUUM FULL {table}', 'weir')
per_turn(300)
over.set()
for t in threads:
    t.join()
same(odd, [], 'every call was answered as it should be')
until(lambda: servers[0].get('/v1/stats').status == 200)
lanes = {row.split('|')[0]: [int(n) for n in row.split('|')[1:]] for row in pg.sql("SELECT name, n_p + n_x, n_d FROM lane WHERE name LIKE 'q%' ORDER BY name", 'weir').splitlines()}
same(lanes, {f'q{n}': [0, done[n]] for n in range(4)}, 'queues are counted right')
same([int(n) for n in pg.sql("SELECT processed FROM executor WHERE name LIKE 'w%' ORDER BY name", 'weir').split()], done, 'and so are executors')
for s in servers:
    s.stop()
report = run('verify', '--data', servers[0].dir, '--store', url, timeout=60)
same(report.code, 0, 'and the history verifies')
end()
