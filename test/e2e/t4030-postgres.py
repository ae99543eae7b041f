#!/usr/bin/env python3
# time limit: 480
# store: sqlite (it starts its own PostgreSQL)
"""A store in PostgreSQL: what is refused and with which words; connections lost and databases restarted in the middle of work; store copy."""
import http.client
import json
import os
import pathlib
import shutil
import signal
import socket
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
import postgres  # noqa: E402
from house import TMP, House, database, end, ok, processes, run, same, until  # noqa: E402
from ports import free_port  # noqa: E402

pg, url = database(fsync=True)


def serve(data, store, *more):
    """a server that should not start"""
    return run('serve', '--data', TMP / data, '--listen', '127.0.0.1:0', '--slots', '0', '--store', store, *more, timeout=60)


# -- of two hosts the first takes connections and says nothing: it costs the time to connect once, not for each connection anew
mute, reached = socket.create_server(('127.0.0.1', 0), backlog=100), []
threading.Thread(target=lambda: [reached.append(mute.accept()[0]) for _ in iter(int, 1)], daemon=True).start()
other = postgres.Postgres(port=free_port()).start()
other.create('weir')
two = House('two', '--store', f'postgresql://{postgres.USER}@127.0.0.1:{mute.getsockname()[1]},127.0.0.1:{other.port}/weir?connect_timeout=2', slots=0)
same((two.enqueue(dict(name='a', data=1))['id'], len(reached)), (1, 1), 'a silent host is asked once, then last')
two.stop(signal.SIGINT)
other.remove()

# -- refused at once, with what to do
done = serve('x', 'postgresql://127.0.0.1:1/weir')
ok(done.code == 69 and 'is PostgreSQL running there' in done.err, 'nobody listens there', done.code, done.err)
done = serve('x', pg.url('nothing'))
ok(done.code == 66 and 'createdb' in done.err, 'no such database', done.code, done.err)
done = serve('x', pg.url('weir', 'stranger'))
ok(done.code == 77 and 'createuser' in done.err, 'no such user', done.code, done.err)
done = serve('x', 'postgresql://:::/')
ok(done.code in (65, 69), 'a URL that is none', done.code, done.err)
pg.sql("CREATE ROLE guest LOGIN PASSWORD 'right'; GRANT ALL ON DATABASE weir TO guest")
hba = pg.data / 'pg_hba.conf'
before = hba.read_text()
hba.write_text('local all guest scram-sha-256\n' + before)
pg.sql('SELECT pg_reload_conf()')
until(lambda: 'password' in run('serve', '--data', TMP / 'x', '--listen', '127.0.0.1:0', '--store', pg.url('weir', 'guest')).err)
done = serve('x', pg.url('weir', 'guest') + '&password=wrong-7')
ok(done.code == 77 and 'check the user and the password' in done.err and 'wrong-7' not in done.err, 'a wrong password, which is not shown', done.code, done.err)
done = serve('x', pg.url('weir', 'guest') + '&password=right')
ok(done.code == 77 and 'create tables' in done.err, 'a user that may not create tables', done.code, done.err)
done = serve('x', pg.url('weir', 'guest') + '&password=right&options=-csearch_path%3Dnowhere')
ok(done.code == 77 and 'create tables' in done.err, 'a schema that is not there', done.code, done.err)
hba.write_text(before)
pg.sql('SELECT pg_reload_conf()')
pg.create('other')
pg.sql('CREATE TABLE customers (id int)', 'other')
done = serve('x', pg.url('other'))
ok(done.code == 1 and 'another program' in done.err, "another program's database", done.code, done.err)
same(pg.sql("SELECT count(*) FROM pg_class WHERE relname = 'task'", 'other'), '0', 'and nothing was made in it')
pg.create('frozen')
pg.sql('ALTER DATABASE frozen SET default_transaction_read_only = on')
done = serve('x', pg.url('frozen'))
ok(done.code == 69 and 'read-only' in done.err, 'a database that is read-only', done.code, done.err)
pg.sql("CREATE DATABASE latin TEMPLATE template0 ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C'")
done = serve('x', pg.url('latin'))
ok(done.code == 1 and 'UTF8' in done.err, 'a database of another encoding', done.code, done.err)
first = House('first', '--store', pg.create('newer'), slots=0)
first.stop()
version = pg.sql('SELECT version FROM weir_schema', 'newer')
pg.sql('UPDATE weir_schema SET version = 999', 'newer')
done = serve('first', pg.url('newer'))
ok(done.code == 1 and 'schema 999' in done.err and 'newer one' in done.err, 'a newer schema', done.code, done.err)
pg.sql(f'UPDATE weir_schema SET version = {version}', 'newer')
done = serve('first', pg.url('newer', 'guest'))
ok(done.code == 77 and 'belongs to another user' in done.err, 'a store of another user of the database', done.code, done.err)
ELSEWHERE = "UPDATE meta SET value = 'elsewhere /var/lib/weir' WHERE name = 'key_place'"  # as if the servers were on another machine
pg.sql(ELSEWHERE, 'newer')
done = serve('elsewhere', pg.url('newer'))
ok(done.code == 66 and 'verify.key' in done.err, 'a history whose key is on another machine', done.code, done.err)
done = run('serve', '--data', first.dir, '--listen', '127.0.0.1:0', '--slots', '0', timeout=60)
ok(done.code == 1 and all(part in done.err for part in (str(first.dir), 'store in PostgreSQL', '--store', '--data')), 'its directory without --store', done.code, done.err)
same([path.name for path in first.dir.glob('weir.db*')], [], 'and no empty store is begun there')
done = run('store', 'copy', pg.url('newer'), first.dir)
ok(done.code == 0, 'a copy may be put there', done.code, done.err)
House('first', slots=0).stop()
ok((first.dir / 'weir.db').exists(), 'which is served then, without --store')

# -- another server needs the key of the history
s = House('data', '--store', url, slots=2, lease='3s')
pg.sql(ELSEWHERE, 'weir')
done = serve('second', url)
ok(done.code == 66 and 'copy verify.key' in done.err, 'a second server is told what it lacks', done.code, done.err)
first_id = s.enqueue(dict(name='a', script='echo hello'))['id']
s.ended(first_id)
s.kill()
until(lambda: run('verify', '--data', s.dir, '--store', url).code == 0, 'verify without a server')
s.start()
same(s.state(first_id), 'D', 'after kill -9 a new one finds everything')

# -- connections that are ended in the middle of commits: each task is there once, whatever was said
keys, said, stop = [], {}, threading.Event()


def intake(n):
    i = 0
    while not stop.is_set():
        key = f'k{n}-{i}'
        keys.append(key)
        while key not in said:  # until it is told: refused at once while the database is away, so with a breath in between
            try:
                answer = s.post('/v1/tasks', dict(name=key, data=1), headers={'Idempotency-Key': key})
                if answer.status in (200, 201):
                    said[key] = answer.json['id']
                    continue
            except (OSError, http.client.HTTPException):
                pass
            time.sleep(0.02)
        i += 1


threads = [threading.Thread(target=intake, args=(n,), daemon=True) for n in range(4)]
for thread in threads:
    thread.start()
cuts = 0
until(lambda: len(said) > 20)
for _ in range(25):
    count = len(said)
    cuts += int(pg.sql("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name LIKE 'weir process%'"))
    until(lambda: len(said) > count + 10)
for how in (signal.SIGINT, signal.SIGQUIT):
    count = len(said)
    pg.restart(how)
    until(lambda: len(said) > count + 10)
count = len(said)
pg.kill()
pg.start()
until(lambda: len(said) > count + 10, 'it goes on after the database was killed and started again')
stop.set()
for thread in threads:
    thread.join(60)
until(lambda: s.get('/v1/tasks/1').status == 200)
ok(s.process.poll() is None, 'the server has lived through all of it', s.log.read_text()[-2000:])
ok(cuts >= 15 and len(said) == len(keys), f'{len(said)} tasks accepted while {cuts} connections were ended and the database restarted thrice', cuts, len(keys))
found, page = {}, '/v1/tasks?limit=1000&queue=default'
while page:
    document = s.patient(page).json
    for task in document['tasks']:
        found.setdefault(task['key']['name'], []).append(task['id'])
    page = f'/v1/tasks?limit=1000&queue=default&before={document["next"]}' if document.get('next') else None
same([k for k in keys if found.get(k) != [said[k]]], [], 'each of them is there, once, under the id that was told')
ok(s.patient('/v1/verify').json.get('ok'), 'and the history verifies')

# -- work that runs while the database is away
task = s.enqueue(dict(name='long', script='sleep 3; echo over'))['id']
s.until_state(task, 'X')
pg.stop()
until(lambda: s.get('/v1/tasks/1').status == 503, 'while the database is away reads are answered 503')
pg.start()
until(lambda: s.get(f'/v1/tasks/{task}').status == 200, 'and by themselves again when it is back')
s.ended(task)
same((s.state(task), s.log_bytes(task)), ('D', b'over\n'), 'what ran meanwhile ends as if nothing had been')

# -- copy to SQLite and back
done = run('store', 'copy', url, f'sqlite://{TMP}/copy', '--data', s.dir)
ok(done.code == 1 and 'in use by' in done.err, 'a store in use is not copied', done.code, done.err)
tasks = len(found)
s.stop(signal.SIGINT)
done = run('store', 'copy', url, f'sqlite://{TMP}/copy', '--data', s.dir)
ok(done.code == 0 and 'copied and verified' in done.err, 'PostgreSQL to SQLite', done.code, done.err)
done = run('store', 'copy', url, f'sqlite://{TMP}/copy', '--data', s.dir)
ok(done.code == 1 and 'holds a store' in done.err, 'never over a store', done.code, done.err)
copy = House('copy', '--store', f'sqlite://{TMP}/copy', slots=1)
same((copy.state(task), copy.log_bytes(task)), ('D', b'over\n'), 'tasks and logs are there')
ok(copy.events(f'since={copy.get("/v1/verify").json["head"]["seq"] - 5}') and 'incarnation' in json.dumps(copy.events('since=0&limit=100000')[-20:]),
   'the copy says in its history that it is one')
more = copy.enqueue(dict(name='more', script='echo more'))['id']
copy.ended(more)
BIG = 'yes "a line of a log that is too long for its tail" | head -c 3000001; head -c 1500001 /dev/zero >big; : >none'
big = copy.enqueue(dict(name='big', script=BIG, shell='sh', artifacts=['big', 'none']))['id']
same(copy.ended(big)[0]['state'], 'D', 'a task with a large log, a large artifact and an empty one')
copy.stop(signal.SIGINT)
back = pg.create('back')
done = run('store', 'copy', TMP / 'copy', back)
ok(done.code == 0, 'SQLite to PostgreSQL', done.code, done.err)
done = run('store', 'copy', TMP / 'copy', back)
ok(done.code == 1 and 'empty database' in done.err, 'never into a database that holds one', done.code, done.err)
done = run('verify', '--data', TMP / 'copy', '--store', back)
ok(done.code == 0 and done.out.startswith('ok'), 'it verifies', done.code, done.out, done.err)
same(pg.sql('SELECT count(*) FROM task', 'back'), str(int(pg.sql('SELECT count(*) FROM task', 'weir')) + 2), 'every task, and the two that came in between')
for name, to in (('fresh', back), ('again', f'sqlite://{TMP}/again')):  # a server that has nothing but the copy, then the same of a copy back
    if name == 'again':
        done = run('store', 'copy', back, to)
        ok(done.code == 0, 'and back to SQLite: on this machine the key is found', done.code, done.err)
    other = House(name, '--store', to, slots=0)
    same((len(log := other.log_bytes(big)), log == (b'a line of a log that is too long for its tail\n' * 70000)[:3000001]), (3000001, True), f'{name}: a large log came along')
    same(other.log_bytes(task), b'over\n', f'{name}: a short one')
    same([(len(a.body), a.status) for a in (other.get(f'/v1/tasks/{big}/artifacts/{kept}') for kept in ('big', 'none'))], [(1500001, 200), (0, 200)], f'{name}: kept files')
    other.stop(signal.SIGINT)

# -- logs and kept files that can't be copied: what is left, and that it is said
(TMP / 'barred').mkdir()
(TMP / 'barred/logs').write_text('in the way')
done = run('store', 'copy', TMP / 'copy', TMP / 'barred')
ok(done.code == 1 and 'no store at' in done.err and 'copy again' in done.err, 'a log that cannot be written to a directory', done.code, done.err)
same([path.name for path in (TMP / 'barred').glob('weir.db*')], [], 'which is no store then')
(TMP / 'barred/logs').unlink()
done = run('store', 'copy', TMP / 'copy', TMP / 'barred', '--json')
ok(done.code == 0 and json.loads(done.out)['rows'] > tasks and json.loads(done.out)['data'] == str(TMP / 'barred'), 'and becomes one by copying again; --json', done.code, done.out, done.err)
kept = [path for path in (TMP / 'copy/blobs').rglob('*') if path.is_file() and path.stat().st_size == 1500001][0]
whole = kept.read_bytes()
kept.write_bytes(whole[:-1] + b'x')
done = run('store', 'copy', TMP / 'copy', pg.create('partly'))
ok(done.code == 1 and 'other bytes' in done.err and 'has all rows' in done.err and 'drop it' in done.err, 'a kept file that is damaged, to a database: what is left, and what to do', done.code, done.err)
kept.write_bytes(whole)
pg.create('half')
os.rename(TMP / 'copy/weir.db', TMP / 'whole.db')
damaged = (TMP / 'whole.db').read_bytes()
import sqlite3  # noqa: E402
(TMP / 'copy/weir.db').write_bytes(damaged)
with sqlite3.connect(TMP / 'copy/weir.db') as db:
    db.execute("UPDATE task SET state = 'F' WHERE id = 1")
db.close()
done = run('store', 'copy', TMP / 'copy', pg.url('half'))
ok(done.code == 1 and 'history leads to' in done.err, 'what is damaged is not copied', done.code, done.err)
same(pg.sql("SELECT count(*) FROM pg_class WHERE relname = 'task'", 'half'), '0', 'and nothing of it is left')
done = run('store', 'copy', TMP / 'copy', 'postgresql://127.0.0.1:1/weir')
ok(done.code == 69 and 'is PostgreSQL running there' in done.err and 'weir serve' not in done.err, 'a database that is away is not called a server of ours', done.code, done.err)
done = run('verify', '--data', TMP / 'copy', '--store', pg.url('back', 'stranger'))
ok(done.code == 77 and 'createuser' in done.err and 'token' not in done.err, 'nor wants its user a token', done.code, done.err)
until(lambda: not processes(str(s.dir)) and not processes(str(TMP / 'copy')), 'nothing is left running')
pg.remove()
end()
