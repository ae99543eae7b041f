#!/usr/bin/env python3
# time limit: 120
# store: sqlite (it starts its own PostgreSQL)
"""pgbouncer in front of PostgreSQL. In session mode everything works, also when it is restarted, reloaded, killed and paused under running servers; when it has no connection left the
server says so, goes on answering and is well again by itself. Transaction and statement mode are refused with what to do, at the start and when the mode changes under a running server."""
import pathlib
import signal
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
import pgbouncer  # noqa: E402
from house import TMP, Worker, database, end, houses, ok, run, same, skip, until  # noqa: E402

if not pgbouncer.available():
    skip('pgbouncer', 'there is none here: tools/setup installs it')
    end()
pg, _ = database()
bouncer = pgbouncer.Pgbouncer(pg).start()
servers = houses(bouncer.url('weir'), ['s0', 's1'], lease='30s')
a, b = servers
ids = [t['id'] for t in a.enqueue(*[dict(name=f't{i}', queue='q', script='echo hello; echo v=1 >> $WEIR_OUTPUT') for i in range(8)])]
same({t['state'] for t in b.ended(*ids)}, {'D'}, 'session mode: tasks posted at one server end at both')
same(b.log_bytes(ids[0]), b'hello\n', 'with their logs')
# a hint of another server's commit comes through LISTEN, and one's own are told apart
worker = Worker(b, 'w', instance='w1')
waiting = []
thread = threading.Thread(target=lambda: waiting.append(worker.claim(wait_ms=20000)), daemon=True)
thread.start()
until(lambda: any(n.get('name') == 'w' for n in a.get('/v1/executors').json['executors']))
began = time.monotonic()
task = a.enqueue(dict(name='far', queue='far', data='x', retry=dict(attempts=1)))['id']
thread.join(20)
ok(waiting and [g['task'] for g in waiting[0]] == [task], f'a poll at one server is woken by a task posted at the other ({time.monotonic() - began:.2f} s)', waiting)
used = pg.sql("SELECT max(n) FROM (SELECT count(*) AS n FROM pg_stat_activity WHERE datname = 'weir' GROUP BY application_name) c")
ok(int(used) <= 12, f'a server has no more connections than the manual says: {used}')


def well(text, seconds=30):
    """both take work and end it; the job that ran all the time isn't lost"""
    until(lambda: all(s.get('/readyz').status == 200 for s in servers), f'{text}: both are ready', seconds)
    made = [s.enqueue(dict(name='again', queue='q', command='true'))['id'] for s in servers]
    same({t['state'] for t in a.ended(*made)}, {'D'}, f'{text}: work goes on')
    worker.poll(0, renew=[dict(task=task, fence=waiting[0][0]['fence'])])
    same(a.state(task), 'X', f'{text}: the running job still runs')


bouncer.restart()
well('restarted')
bouncer.restart(signal.SIGKILL)
well('killed and started')
bouncer.set(server_lifetime=1, server_idle_timeout=1)
bouncer.admin('RECONNECT')
well('reloaded, with short lives of idle connections')

# -- paused: it lets clients in and answers nothing; the servers do
bouncer.process.send_signal(signal.SIGSTOP)
began, worst = time.monotonic(), 0
while time.monotonic() - began < 6:
    asked = time.monotonic()
    a.get('/healthz')
    worst = max(worst, time.monotonic() - asked)
    time.sleep(0.05)
bouncer.process.send_signal(signal.SIGCONT)
ok(worst < 2, f'a pooler that stands still: the server answers ({worst:.2f} s at worst)')
well('standing still for 6 s')

# -- no connection left: another server is refused with the reason, those that run go on
bouncer.set(default_pool_size=int(pg.sql("SELECT count(*) FROM pg_stat_activity WHERE datname = 'weir'")))
began = time.monotonic()
done = run('serve', '--data', TMP / 'more', '--listen', '127.0.0.1:0', '--slots', '0', '--store', bouncer.url('weir'), timeout=60)
ok(done.code and 'default_pool_size' in done.err and time.monotonic() - began < 20, 'a pool that is used up: refused with what to do', done.code, done.err)
well('with a pool that is used up')
bouncer.set(default_pool_size=50, max_client_conn=1)
done = run('serve', '--data', TMP / 'more', '--listen', '127.0.0.1:0', '--slots', '0', '--store', bouncer.url('weir'), timeout=60)
ok(done.code and 'max_client_conn' in done.err, 'max_client_conn: refused with what to do', done.code, done.err)
bouncer.set(max_client_conn=200)

# -- other modes: at the start, and under servers that run
bouncer.set(pool_mode='transaction')
bouncer.restart()
until(lambda: all(s.get('/readyz').status == 503 for s in servers), 'transaction mode under running servers: not ready', 20)
until(lambda: 'pool_mode = session' in a.log.read_text(), 'and the log says what to do')
pg.create('other')
for mode in ('transaction', 'statement'):
    bouncer.settings['pool_mode'] = mode
    bouncer.restart()
    for n in range(3):
        done = run('serve', '--data', TMP / 'more', '--listen', '127.0.0.1:0', '--slots', '0', '--store', bouncer.url('other'), timeout=60)
        ok(done.code and 'pool_mode = session' in done.err and 'prepared statement "' not in done.err, f'{mode} mode is refused with what to do', done.code, done.err)
same(pg.sql("SELECT count(*) FROM pg_class WHERE relname = 'weir_schema'", 'other'), '0', 'and nothing was made in that database')
done = run('verify', '--data', a.dir, '--store', bouncer.url('weir'), timeout=60)
ok(done.code and 'pool_mode = session' in done.err, 'weir verify is refused likewise', done.code, done.err)
bouncer.settings['pool_mode'] = 'session'
bouncer.restart()
well('session mode again', 40)
same(a.verify().code, 0, 'weir verify')
end()
