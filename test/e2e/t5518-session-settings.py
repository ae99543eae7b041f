#!/usr/bin/env python3
# time limit: 120
# store: sqlite (it starts its own PostgreSQL)
"""What a session of Weir depends on it sets itself, whatever the database has as its defaults: turns, reads, logs and kept files of three servers work with
each of them. And while turns of three servers wait for each other, the times of events never step back."""
import pathlib
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
from house import Worker, database, end, houses, ok, same, until  # noqa: E402

pg, url = database()
DEFAULTS = dict(default_transaction_isolation='serializable', default_transaction_deferrable='on', statement_timeout='5ms', lock_timeout='1ms', idle_session_timeout='300ms',
                idle_in_transaction_session_timeout='1ms', synchronous_commit='off', standard_conforming_strings='off', client_min_messages='error', bytea_output='escape',
                datestyle='German', intervalstyle='iso_8601', timezone='Pacific/Chatham', extra_float_digits='-15', array_nulls='off', transform_null_equals='on', plan_cache_mode='force_custom_plan',
                jit='on', jit_above_cost='0', enable_indexscan='off', enable_nestloop='off', enable_tidscan='off', escape_string_warning='on', row_security='off',
                check_function_bodies='off', xmloption='document', default_toast_compression='lz4', work_mem='64kB', temp_buffers='800kB')
known = pg.sql('SELECT name FROM pg_settings').split()
for name, value in DEFAULTS.items():
    if name in known:
        pg.sql(f"ALTER DATABASE weir SET {name} = '{value}'")
servers = houses(url, 'abc', slots=0, lease='20s')
answers, lock = {}, threading.Lock()


def post(server, n):
    for i in range(60):
        status = server.post('/v1/tasks', dict(name=f't{n}-{i}', queue='q', data=1)).status
        with lock:
            answers[status] = answers.get(status, 0) + 1


threads = [threading.Thread(target=post, args=(servers[n % 3], n)) for n in range(9)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
same(answers, {201: 540}, 'every call of nine clients of three servers is accepted')

worker = Worker(servers[0], 'w', slots=600)
grants = until(lambda: worker.claim(600), 'claims')
same(len(grants), 540, 'everything is granted')
log = b'\\x00\0 a line\n' * 20000
same(worker.log(grants[0], 0, log).status, 200, 'a log is taken')
worker.server = servers[1]
same({worker.finish(g).status for g in grants[:40]}, {200}, 'results are taken')
for server in servers:
    until(lambda: server.task(grants[0]['task'])['state'] == 'D', 'a server sees the end')
    same(server.log_bytes(grants[0]['task']), log, 'and the log')
    same(len(server.get('/v1/tasks?queue=q&limit=1000').json['tasks']), 540, 'and all tasks')
events = servers[2].events('since=0&limit=100000')
back = [(a['seq'], a['time'], b['time']) for a, b in zip(events, events[1:]) if b['time'] < a['time']]
ok(len(events) > 1600 and not back, f'the times of {len(events)} events never step back', back[:5])
servers[0].verify()
end()
