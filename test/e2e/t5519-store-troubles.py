#!/usr/bin/env python3
# time limit: 120
# store: sqlite (it starts its own PostgreSQL)
"""A database that is there and doesn't do what it should: a right that was taken away, a table that somebody has locked, no connection left. The server says so
(/readyz, log, metrics), goes on answering, gives no running job up, and is well again by itself."""
import pathlib
import re
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
import postgres  # noqa: E402
from house import TMP, House, Worker, database, end, ok, refused, run, same, until  # noqa: E402

pg, url = database()
pg.sql('CREATE ROLE little LOGIN; GRANT pg_monitor TO little; ALTER DATABASE weir OWNER TO little; GRANT ALL ON SCHEMA public TO little')
s = House('data', '--store', pg.url('weir', 'little'), slots=0, lease='3s')
worker = Worker(s, 'w', instance='w1')
task = s.enqueue(dict(name='t', queue='q', command='x', retry=dict(attempts=1)))['id']
grant, = worker.claim()
worker.log(grant, 0, b'a line\n' * 50000)


def metric(name):
    return int(re.search(rf'^{name} (\d+)', s.get('/metrics').body.decode(), re.M).group(1))


def session(*texts):
    """somebody else's, which stays open"""
    made = subprocess.Popen([postgres.BIN / 'psql', '-X', '-q', '-h', pg.dir, '-p', str(pg.port), '-U', postgres.USER, '-d', 'weir'], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                            stderr=subprocess.DEVNULL, text=True)
    print(*texts, sep='\n', file=made.stdin, flush=True)
    return made


# -- a right is taken away: every turn fails
same((s.get('/readyz').status, metric('weir_turns_failed_total')), (200, 0), 'well')
pg.sql('REVOKE ALL ON server FROM little', 'weir')
until(lambda: s.get('/readyz').status == 503, 'a server whose turns fail isn\'t ready', 20)
ok('refuses' in s.get('/readyz').json['detail'], 'and says why', s.get('/readyz'))
ok(metric('weir_turns_failed_total') > 0 and metric('weir_healthy') == 0, 'metrics say it')
until(lambda: len(re.findall(r'server\.unready.*turns_fail.*permission denied', s.log.read_text())) == 1, 'the log says it once, in the database\'s words')
pg.sql('GRANT ALL ON server TO little', 'weir')
until(lambda: s.get('/readyz').status == 200, 'ready again, by itself', 20)

# -- a table is locked, and somebody reads what is in it: the loop goes on, and leases with it
holds = session('BEGIN;', 'LOCK TABLE log_chunk IN ACCESS EXCLUSIVE MODE;')
until(lambda: pg.sql("SELECT count(*) FROM pg_locks WHERE relation = 'log_chunk'::regclass AND mode = 'AccessExclusiveLock' AND granted", 'weir') == '1')
stop, waits, answers = threading.Event(), dict(healthz=0, poll=0, append=0), []


def timed(name, call):
    while not stop.is_set():
        began = time.monotonic()
        call()
        waits[name] = max(waits[name], time.monotonic() - began)


def read():
    answers.append(s.get(f'/v1/tasks/{task}/log').status)


threads = [threading.Thread(target=timed, args=row) for row in (
    ('healthz', lambda: s.get('/healthz')), ('poll', lambda: worker.poll(0, renew=[dict(task=task, fence=grant['fence'])])), ('append', lambda: worker.log(grant, 0, b'a line')))]
readers = [threading.Thread(target=read) for _ in range(20)]
for t in threads + readers:
    t.start()
for t in readers:
    t.join()
stop.set()
for t in threads:
    t.join()
same(answers, [503] * 20, 'what can\'t be read now is answered so')
ok(max(waits.values()) < 0.3, f'twenty who read it hold nobody up: {waits}')
holds.communicate('ROLLBACK;\n', timeout=30)
until(lambda: s.get(f'/v1/tasks/{task}/log').status == 200, 'and can be read again')
same(s.state(task), 'X', 'the job that ran meanwhile still runs')

# -- a table that turns write is locked: who posts is told soon, and the server isn't ready as long as it is, whatever else can be written
holds = session('BEGIN;', 'LOCK TABLE task IN SHARE MODE;')  # as CREATE INDEX does
until(lambda: pg.sql("SELECT count(*) FROM pg_locks WHERE relation = 'task'::regclass AND mode = 'ShareLock' AND granted", 'weir') == '1')
began = time.monotonic()
refused(s.post('/v1/tasks', dict(name='u', queue='q', command='x')), 503, 'unavailable', text='a post')
ok(time.monotonic() - began < 9, f'soon ({time.monotonic() - began:.1f} s)')
same(s.get('/readyz').status, 503, 'not ready')
Worker(s, 'another')
turns = metric('weir_turns_total')
until(lambda: metric('weir_turns_total') >= turns + 3, 'other turns go on', 20)
same(s.get('/readyz').status, 503, 'not ready while the lock is there')
holds.communicate('ROLLBACK;\n', timeout=30)
until(lambda: s.get('/readyz').status == 200, 'ready when it is gone', 20)
same(s.post('/v1/tasks', dict(name='u', queue='q', command='x')).status, 201, 'and posts are taken')

# -- no connection is left for reading
pg.sql('ALTER ROLE little CONNECTION LIMIT 1')
pg.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'little'")
until(lambda: s.get('/readyz').status == 503, 'a server that can\'t read isn\'t ready', 20)
done = run('serve', '--data', TMP / 'other', '--listen', '127.0.0.1:0', '--slots', '0', '--store', pg.url('weir', 'little'), timeout=60)
ok(done.code and 'too many connections' in done.err and 'CONNECTION LIMIT' in done.err and 'createuser' not in done.err, 'the advice is the right one', done.err)
pg.sql('ALTER ROLE little CONNECTION LIMIT -1')
until(lambda: s.get('/readyz').status == 200, 'ready again', 20)
end()
