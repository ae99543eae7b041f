#!/usr/bin/env python3
# time limit: 180
# store: sqlite (it starts its own PostgreSQL)
"""What can't be a store, or not for this server, is refused within seconds, with what to do and without a password in any text: a database that hangs, a
standby, one whose certificate is of another CA, two servers with one name; SQLite directories that are open, foreign, newer or damaged. (More: t4030, t5503; a
server's own certificate: t5401, t5402.)"""
import os
import pathlib
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
import postgres  # noqa: E402
from house import TMP, WEIR, House, clean_env, end, ok, run, same, skip, until  # noqa: E402
from papers import FOLDER, authority, free_port, issue  # noqa: E402

SECONDS = 20  # a connection is given 5; the rest is for a busy machine
SECRET = 'swordfish-8'


def told(done, code, words, text):
    everything = done.err + done.out
    ok(done.code == code and all(word in done.err for word in words) and done.seconds < SECONDS and SECRET not in everything and 'listening' not in done.out, text,
       done.code, done.seconds, done.err, done.out)


def timed(*args, **env):
    began = time.monotonic()
    done = run(*args, timeout=60, **env)
    done.seconds = time.monotonic() - began
    return done


def serve(data, *more, **env):
    return timed('serve', '--data', TMP / data, '--listen', '127.0.0.1:0', '--slots', '0', *more, **env)


# -- SQLite
first = House('first', slots=0)
first.enqueue(dict(name='kept', data=1))
told(serve('first'), 1, ['first', 'in use', 'end it first, or choose another directory'], 'a data directory that is open')
for words in (['restore', TMP / 'none.backup', '--data', first.dir], ['store', 'copy', f'sqlite://{first.dir}', f'sqlite://{TMP}/copy']):
    done = timed(*words)
    ok(done.code not in (0, 2) and done.seconds < SECONDS, f'nor for weir {words[0]}', done.code, done.err)
same(first.task(1)['key']['name'], 'kept', 'the server that has it does not notice')
first.stop()


def changed(name, statement=None, content=None):
    shutil.copytree(first.dir, TMP / name)
    if content is not None:
        for file in (TMP / name).glob('weir.db*'):
            file.unlink()
        (TMP / name / 'weir.db').write_bytes(content)
    if statement:
        with sqlite3.connect(TMP / name / 'weir.db') as db:
            db.executescript(statement)
        db.close()
    return name


told(serve(changed('s-newer', 'PRAGMA user_version = 999')), 1, ['schema 999', 'newer one'], 'a newer schema')
told(serve(changed('s-next', f'PRAGMA user_version = {sqlite3.connect(first.dir / "weir.db").execute("PRAGMA user_version").fetchone()[0] + 1}')), 1, ['newer one'],
     'also by one: SQLite has one server')
told(serve(changed('s-old', 'PRAGMA user_version = 0')), 1, ['older weir'], 'a schema that is too old')
told(serve(changed('s-foreign', 'PRAGMA application_id = 77')), 1, ['another program'], "another program's database")
told(serve(changed('s-text', content=b'my diary\n' * 1000)), 1, ['not a database'], 'a file that is no database')
told(serve('x', '--store', 'mysql://a'), 2, ['postgresql://'], 'a store of a kind that is not known')

# -- PostgreSQL
if not postgres.available():
    skip('PostgreSQL', f'there is no {postgres.BIN}')
    end()
with socket.create_server(('127.0.0.1', 0), backlog=64) as hole:  # it takes connections and says nothing
    port = hole.getsockname()[1]
    store = f'postgresql://weir:{SECRET}@127.0.0.1:{port}/weir'
    told(serve('x', '--store', store), 69, ['is PostgreSQL running there', 'timeout'], 'a database that takes the connection and hangs')
    shutil.copytree(first.dir, TMP / 'k')
    done = timed('verify', '--data', TMP / 'k', '--store', store)
    ok(done.code == 69 and done.seconds < SECONDS and SECRET not in done.err + done.out, 'weir verify too', done.code, done.seconds, done.err)
ca, wrong = authority('ca'), authority('wrong')
certificate, private = issue('database', 'ca')
pg = postgres.Postgres(port=free_port())
for file in (certificate, private):
    copy = shutil.copy(file, pg.dir)
    os.chmod(copy, 0o600)
    shutil.chown(copy, pg.dir.stat().st_uid, pg.dir.stat().st_gid)
pg.settings += ['ssl=on', f'ssl_cert_file={pg.dir}/database.pem', f'ssl_key_file={pg.dir}/database.key']
pg.start()
pg.sql(f"ALTER ROLE weir PASSWORD '{SECRET}'")
pg.create('weir')
over = f'postgresql://weir:{SECRET}@localhost:{pg.port}/weir?sslmode=verify-full&sslrootcert='
told(serve('x', '--store', over + str(wrong)), 77, ['certificate', 'sslrootcert'], 'a database whose certificate is of another CA')
told(serve('x', '--store', over + str(FOLDER / 'none.pem')), 77, ['none.pem', 'sslrootcert'], 'a CA file that is not there')
told(serve('x', '--store', over.replace('localhost', '127.0.0.2') + str(ca)), 69, [], 'a host where nobody is')
a = House('a', '--store', over + str(ca), '--name', 'a', slots=0)
task = a.enqueue(dict(name='one', data=1))['id']
ok(int(pg.sql("SELECT count(*) FROM pg_stat_ssl s JOIN pg_stat_activity p USING (pid) WHERE s.ssl AND p.application_name LIKE 'weir process%'")) > 0, 'with the right CA it speaks TLS')
ok(SECRET not in a.log.read_text() and SECRET not in a.get('/v1/nodes').body.decode() and SECRET not in a.get('/metrics').body.decode(), 'and tells the password to nobody')

# -- one name
(TMP / 'b').mkdir(mode=0o711)
shutil.copy(TMP / 'a/verify.key', TMP / 'b/verify.key')
told(serve('b', '--name', 'a', '--store', pg.url('weir')), 1, ['name a', '--name'], 'a second server with the name of one that runs')
same(a.task(task)['key']['name'], 'one', 'the first does not notice')
a.process.send_signal(signal.SIGSTOP)
told(serve('b', '--name', 'a', '--store', pg.url('weir')), 1, ['name a', '--name'], 'also of one that stands still')
a.process.send_signal(signal.SIGCONT)
twins = []
for name in ('t1', 't2', 't3'):
    (TMP / name).mkdir(mode=0o711)
    shutil.copy(TMP / 'a/verify.key', TMP / name / 'verify.key')
    twins.append(subprocess.Popen([WEIR, 'serve', '--data', str(TMP / name), '--name', 'twin', '--listen', '127.0.0.1:0', '--slots', '0', '--store', pg.url('weir')],
                                  stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=clean_env(), start_new_session=True))
until(lambda: sum(p.poll() is not None for p in twins) == 2, 'of three with one name that start at once two are refused', seconds=60)
same(sorted(p.poll() for p in twins if p.poll() is not None), [1, 1], 'as it should be')
for process in twins:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        same(process.wait(60), 0, 'the third one runs')
b = House('b', '--store', pg.url('weir'), '--name', 'b', slots=0)
same(b.task(task)['key']['name'], 'one', 'with a name of its own it is welcome')
b.stop()
a.kill()
again = House('b', '--store', pg.url('weir'), '--name', 'a', slots=0)
same(again.task(task)['key']['name'], 'one', 'and with that of one that was killed')
again.stop()

# -- a standby: a copy of the database's files that waits for a primary
pg.stop()
standby = postgres.Postgres(port=free_port())
shutil.rmtree(standby.data, ignore_errors=True)
subprocess.run(['cp', '-a', pg.data, standby.data], check=True)
(standby.data / 'standby.signal').write_text('')
standby.start()
told(serve('b', '--name', 'b', '--store', standby.url('weir')), 69, ['standby', 'target_session_attrs'], 'a standby')
told(serve('b', '--name', 'b', '--store', standby.url('weir') + '&target_session_attrs=read-write'), 69, [], 'a standby, where a primary was asked for')
told(timed('store', 'copy', f'sqlite://{TMP}/s-newer', standby.url('weir')), 1, [], 'nor is a newer store copied to it')
both = f'postgresql://weir@127.0.0.1:{standby.port},127.0.0.1:{pg.port}/weir?target_session_attrs=read-write'
pg.start()
c = House('b', '--store', both, '--name', 'b', slots=0)
same(c.task(task)['key']['name'], 'one', 'of two that are named the primary is taken')
same(c.stop(), 0, 'it ends')
until(lambda: not c.left(), 'nothing is left running')
standby.remove()
pg.remove()
end()
