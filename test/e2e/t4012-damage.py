#!/usr/bin/env python3
# store: sqlite (it starts its own PostgreSQL)
"""A damaged database is loud, whoever meets it: a read, a turn, the check after the start. Intake closes, /readyz is 503, one line in the log, a metric, what to do;
results of running tasks are still recorded."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'unit/api'))
from serving import TMP, Server, Worker, end, ok, refused, same, until  # noqa: E402
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
from house import database, run  # noqa: E402

PAGE = 4096


def damage(path, word):
    """writes over the head of every leaf of a table that has much of these bytes (a page that was split keeps some); the number of pages"""
    pages = 0
    with open(path, 'r+b') as f:
        text = f.read()
        for at in range(0, len(text), PAGE):
            if text[at] == 13 and text[at:at + PAGE].count(word.encode()) > 2:
                f.seek(at)
                f.write(b'\xa5' * 200)
                pages += 1
    return pages


def filled(name, ballast=0):
    """a server that was stopped, with many tasks and one that runs; above 32 MiB a start checks the head only"""
    s = Server(name)
    for part in range(ballast):
        s.post('/v1/tasks', dict(name=f'ballast-{part}', queue='far', data=f'{part}' + 'b' * 700000, priority=-100))
    for part in range(4):
        s.post('/v1/tasks', dict(tasks=[dict(name=f'plain-{part}-{n}', queue='far', data=f'hay-{part}-{n} ' + 'x' * 900) for n in range(100)]))
    w = Worker(s, 'w', slots=2)
    s.post('/v1/tasks', dict(name='runs', queue='near', data=1, priority=100))
    grant = w.claim(free=1)[0]
    s.stop()
    return s, w, grant


def unready(s):
    return [line for line in s.log.read_text().splitlines() if 'server.unready' in line]


def loud(s, w, grant, how):
    """everything that a server says and does once damage was met"""
    ready = until(lambda: (lambda a: a.status == 503 and a)(s.get('/readyz')), seconds=20)
    ok(ready and 'damaged' in ready.json['detail'] and 'weir verify' in ready.json['detail'] and 'restore' in ready.json['detail'], f'{how}: /readyz says what to do',
       ready and ready.body)
    until(lambda: len(unready(s)) == 1, f'{how}: one line in the log', seconds=10)
    refused(s.post('/v1/tasks', dict(name='new', queue='near', data=1)), 503, 'unavailable', text=f'{how}: new work is refused')
    same(s.get('/v1/tasks?state=P&limit=1').status in (200, 500), True, f'{how}: the process answers')
    node = [n for n in s.get('/v1/nodes').json['nodes'] if n['role'] == 'server'][0]
    ok(node['state'] == 'failing' and 'damaged' in node['reason'], f'{how}: nodes: with the reason', node)
    metrics = s.get('/metrics').body.decode()
    ok('weir_healthy 0\n' in metrics and '\nweir_store_damage_total 0\n' not in metrics and '\nweir_store_damage_total ' in metrics, f'{how}: counted')
    got = run('status', '--server', f'unix:{s.dir}/weir.sock')
    ok('damaged' in got.err and 'weir verify' in got.err, f'{how}: weir status', got.err)
    got = run('top', '--server', f'unix:{s.dir}/weir.sock')
    ok('damaged' in got.out, f'{how}: weir top', got.out[:500], got.err)
    w.finish(grant, exit=0)
    same(s.get(f'/v1/tasks/{grant["task"]}').json['state'], 'D', f'{how}: the result of what ran is recorded')
    same(w.claim(free=1, wait_ms=0), [], f'{how}: nothing new is started')
    same(len(unready(s)), 1, f'{how}: still one line')


# -- a read of one client
s, w, grant = filled('read')
s.start()
task = s.get('/v1/tasks?queue=far&limit=1').json['tasks'][0]
ok(damage(s.dir / 'weir.db', 'hay-1-') > 5, 'pages of specifications are damaged')
same(s.get('/readyz').status, 200, 'nobody has met them yet')
ids = [t['id'] for t in s.get('/v1/tasks?queue=far&limit=400').json['tasks']]
answers = [a for a in (s.get(f'/v1/tasks/{i}') for i in ids) if a.status != 200]
refused(answers[0], 500, 'corrupt', text='the client is told')
loud(s, w, grant, 'read')
s.stop()
got = run('serve', '--data', s.dir, '--listen', '127.0.0.1:0')
ok(got.code != 0 and 'weir verify' in got.err and 'weir restore' in got.err, 'a start refuses it and says what to do', got.code, got.err)

# -- a turn, for which the server ended in the past
s, w, grant = filled('turn', ballast=52)
ok(damage(s.dir / 'weir.db', 'plain-0-') > 0, 'pages of tasks are damaged while it is stopped')
s.start()
answer = s.post(f'/v1/executors/{w.id}/poll', dict(free=500, wait_ms=0, renew=[dict(task=grant['task'], fence=grant['fence'])]))
same((answer.status, answer.json.get('grants')), (200, []), 'the turn that met them is taken again without new grants')
loud(s, w, grant, 'turn')
s.stop()

# -- PostgreSQL: a page that can't be read, as it says it (XX001), met by a read and by a turn; a missing file (58P01)
pg, url = database()
BROKEN = '''ALTER TABLE {0} RENAME TO {0}_whole;
CREATE FUNCTION broken(x {1}) RETURNS {1} LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'invalid page in block 1' USING ERRCODE = '{2}'; END $$;
CREATE VIEW {0} AS SELECT {3} FROM {0}_whole'''
for name, table, kind, code, columns in (('page', 'outputs', 'text', 'XX001', 'task, broken(body) AS body'), ('gone', 'outputs', 'text', '58P01', 'task, broken(body) AS body')):
    url = pg.create(name)
    s = Server('pg' + name, '--store', url)
    w = Worker(s, 'w', slots=4)
    s.post('/v1/tasks', dict(name='first', data=1))
    w.finish(w.claim()[0], exit=0, outputs=dict(a='1'))
    s.post('/v1/tasks', dict(name='runs', queue='near', data=1))
    grant = w.claim()[0]
    pg.sql(BROKEN.format(table, kind, code, columns), name)
    same(s.get('/readyz').status, 200, f'{code}: not met yet')
    ok(until(lambda: s.get('/v1/tasks/1').status != 200, seconds=20), f'{code}: a read meets it')
    loud(s, w, grant, code)
    s.stop()
end()
