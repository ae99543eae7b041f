#!/usr/bin/env python3
# time limit: 180
# store: sqlite (it starts its own PostgreSQL)
"""Servers of two versions on one PostgreSQL: of five that start at once one makes the schema; a newer one migrates while older ones work, and both see each
other's work; an old one may start on the schema of the next version, not on that of the one after; nobody migrates a schema away from under a server that
could not follow."""
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
import postgres  # noqa: E402
from house import TMP, WEIR, House, clean_env, end, ok, run, same, skip, until  # noqa: E402

NEXT = {n: pathlib.Path(WEIR).parent / f'test/versions/weir-next{n}' for n in (1, 2)}
if not postgres.available() or not all(path.exists() for path in NEXT.values()):
    skip('versions', f'there is no {postgres.BIN}, or no {NEXT[1]}')
    end()
AT_ONCE = 20
pg = postgres.Postgres().start()


class Later(House):
    binary = str(NEXT[1])


class Latest(House):
    binary = str(NEXT[2])


def schema(database):
    return int(pg.sql('SELECT version FROM weir_schema', database))


def starting(database, names):
    """processes of servers, all started at once"""
    pg.create(database)
    found = []
    for name in names:
        log = open(TMP / f'{name}.err', 'wb')
        found.append(subprocess.Popen([WEIR, 'serve', '--data', str(TMP / name), '--name', name, '--slots', '0', '--listen', '127.0.0.1:0', '--store', pg.url(database)],
                                      stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, env=clean_env(), start_new_session=True))
        log.close()
    return found


def said(names, word):
    return sum(word in (TMP / f'{name}.err').read_text() for name in names)


def stopped(processes):
    for process in processes:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
    return [process.wait(60) for process in processes]


# -- five at once on an empty database, none has a key: one is the first, and makes it; the others, of the same machine, take it from there
names = [f'k{n}' for n in range(5)]
five = starting('nokey', names)
lines = [p.stdout.readline().decode() for p in five]
same([line[:12] for line in lines], ['listening on'] * 5, 'all five serve')
same(len({(TMP / name / 'verify.key').read_bytes() for name in names}), 1, 'there is one key')
same((said(names, 'store.schema'), said(names, 'store.key')), (1, 4), 'one of them made it and the schema, four say where they have it from')
same(stopped(five), [0] * 5, 'they end')
key = TMP / 'k0/verify.key'

# -- on other machines, or of other users, they are told what they lack
for what, name in (("UPDATE meta SET value = 'elsewhere /var/lib/weir' WHERE name = 'key_place'", 'machine'), (None, 'user')):
    if what:
        pg.sql(what, 'nokey')
    else:
        pg.sql(f"UPDATE meta SET value = '{os.uname().nodename} {TMP}/k0' WHERE name = 'key_place'", 'nokey')
        key.chmod(0o644)  # not a secret any more: not believed
    done = run('serve', '--data', TMP / name, '--listen', '127.0.0.1:0', '--slots', '0', '--store', pg.url('nokey'), timeout=60)
    ok(done.code == 66 and 'copy verify.key' in done.err and not (TMP / name / 'verify.key').exists(), f'another {name}: told to copy it', done.code, done.err)
key.chmod(0o600)

# -- with the key: all five
names = [f'e{n}' for n in range(5)]
for name in names:
    (TMP / name).mkdir(mode=0o711)
    shutil.copy(key, TMP / name / 'verify.key')
five = starting('empty', names)
lines = [p.stdout.readline().decode() for p in five]
same([line[:12] for line in lines], ['listening on'] * 5, 'with a common key all five serve')
same((said(names, 'store.schema'), pg.sql('SELECT count(*) FROM head', 'empty')), (1, '1'), 'one of them made the schema, once')
same(stopped(five), [0] * 5, 'they end')

# -- an old server at work
url = pg.create('weir')
a = House('a', '--store', url, '--name', 'a', slots=2)
N = schema('weir')
for name in ('b', 'c', 'd', 'e'):
    (TMP / name).mkdir(mode=0o711)
    shutil.copy(TMP / 'a/verify.key', TMP / name / 'verify.key')
servers, accepted, faults, stop = [a], [], [], threading.Event()


def intake(n):
    i = 0
    while not stop.is_set():
        i += 1
        server = servers[(n + i) % len(servers)]
        try:
            answer = server.post('/v1/tasks', dict(name=f't{n}-{i}', script='echo done'), headers={'Idempotency-Key': f't{n}-{i}'})
            if answer.status == 201:
                accepted.append(answer.json['id'])
                other = servers[(n + i + 1) % len(servers)].get(f'/v1/tasks/{answer.json["id"]}?at_least={answer.headers["Weir-Turn"]}')
                if other.status != 200:
                    faults.append(('read', other))
            else:
                faults.append(('write', answer))
        except OSError as error:
            faults.append(('lost', error))
        time.sleep(0.02)


threads = [threading.Thread(target=intake, args=(n,), daemon=True) for n in range(3)]
for thread in threads:
    thread.start()
until(lambda: len(accepted) > 20)
b = Later('b', '--store', url, '--name', 'b', slots=1)
same(schema('weir'), N + 1, f'a newer server migrates {N} to {N + 1} while the old one works')
ok('store.schema' in b.log.read_text() and f'from={N} to={N + 1}' in b.log.read_text(), 'and says so', b.log.read_text())
servers.append(b)
count = len(accepted)
until(lambda: len(accepted) > count + 20, 'work goes on through both')
c = House('c', '--store', url, '--name', 'c', slots=0)
servers.append(c)
count = len(accepted)
until(lambda: len(accepted) > count + 20, 'an old server may start on the newer schema, and works there')
began = time.monotonic()
done = subprocess.run([NEXT[2], 'serve', '--data', TMP / 'd', '--name', 'd', '--slots', '0', '--listen', '127.0.0.1:0', '--store', url], capture_output=True, text=True,
                      stdin=subprocess.DEVNULL, env=clean_env(), timeout=60)
ok(done.returncode == 1 and f'knows schema {N}' in done.stderr and 'update that server first' in done.stderr and time.monotonic() - began < AT_ONCE,
   'two versions ahead is refused while an old server runs', done.returncode, done.stderr)
same(schema('weir'), N + 1, 'and has changed nothing')
done = run('store', 'copy', url, f'sqlite://{TMP}/copy', '--data', a.dir)
ok(done.code == 1 and 'use the weir that made it' in done.err, 'the old one does not copy a schema that it only half knows', done.code, done.err)
same(run('verify', '--data', a.dir, '--store', url).code, 0, 'it verifies it')
stop.set()
for thread in threads:
    thread.join(60)
same(faults, [], f'{len(accepted)} tasks through three servers of two versions: every call was answered, each task read through another server')
until(lambda: all(s['state'] == 'D' for s in a.get('/v1/tasks?limit=1000').json['tasks']), 'all are done', seconds=90)
for s in (a, b, c):
    same(len(s.get('/v1/tasks?limit=1000').json['tasks']), min(1000, len(accepted)), f'{s.dir.name} knows every one')
by = {attempt['executor'] for t in b.get('/v1/tasks?limit=1000').json['tasks'] for attempt in t['attempts']}
same(len(by), 2, f'executors of both versions did them: {sorted(by)}')

# -- the old ones go, the next version may come
same((a.stop(), c.stop()), (0, 0), 'the old servers end')
d = Latest('d', '--store', url, '--name', 'd', slots=0)
same(schema('weir'), N + 2, f'now {N + 2} may be made, while {N + 1} runs')
task = d.enqueue(dict(name='last', script='echo last'))['id']
b.ended(task)
same((b.state(task), d.state(task)), ('D', 'D'), 'both work on')
began = time.monotonic()
done = run('serve', '--data', TMP / 'e', '--name', 'e', '--slots', '0', '--listen', '127.0.0.1:0', '--store', url, timeout=60)
ok(done.code == 1 and f'schema {N + 2}' in done.err and 'newer one' in done.err and time.monotonic() - began < AT_ONCE, 'an old one is refused there', done.code, done.err)
pg.sql('UPDATE weir_schema SET version = 0', 'empty')
done = run('serve', '--data', TMP / 'e0', '--slots', '0', '--listen', '127.0.0.1:0', '--store', pg.url('empty'), timeout=60)
ok(done.code == 1 and 'leads on from 1' in done.err, 'a schema that is too old is refused', done.code, done.err)
ok(d.cli('verify').code == 0, 'the history verifies')
for s in (b, d):
    same(s.stop(), 0, f'{s.dir.name} ends')
pg.remove()
end()
