#!/usr/bin/env python3
# store: sqlite (it starts its own PostgreSQL)
"""A log that is sealed has its hash in the history: one that is replaced by another of the same length, cut, or gone is named by weir verify, in SQLite and in PostgreSQL, after a crash, a backup
and a copy; a log that retention let go is not."""
import os
import pathlib
import shutil
import sqlite3
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
from house import TMP, House, Worker, database, end, ok, run, same, until  # noqa: E402

SIZE = 70000


def work(s, w, logs):
    """tasks whose logs have these bytes; their ids"""
    ids = []
    for log in logs:
        ids.append(s.enqueue(dict(name='t', queue='q', data=1))['id'])
        grant = w.claim()[0]
        half = len(log) // 2
        for at, part in ((0, log[:half]), (half, log[half:])) if log else ():
            w.log(grant, at, part)
        same(w.finish(grant, exit=0, log_bytes=len(log)).status, 200, f'a task with {len(log)} bytes of log')
    return ids


def noted(s, logs):
    report = s.get('/v1/verify').json
    return report['ok'] and report['logs'] == logs and report['logs_unnoted'] == 0


def verify(path, *more):
    return run('verify', '--data', path, *more)


def named(got, task, words, text):
    ok(got.code == 1 and f'the log of task {task}, attempt 1' in got.err and words in got.err, text, got.code, got.out, got.err)


def packed(path, task):
    return next((path / 'logs').glob(f'*/{task}.1.log.zst'))


def seals(path):
    with sqlite3.connect(f'file:{path}/weir.db?mode=ro', uri=True) as db:
        return [r[0] for r in db.execute('SELECT task FROM log_seal ORDER BY task')]


# -- SQLite
logs = [os.urandom(SIZE), os.urandom(SIZE), b'']
s = House('data', slots=0)
w = Worker(s, 'w', slots=4)
one, two, empty = work(s, w, logs)
ok(until(lambda: noted(s, 2), seconds=20), 'the hashes of both logs are noted')
same((seals(s.dir), list((s.dir / 'logs/live').glob('*'))), ([one, two], []), 'the empty one has none, and nothing waits')
commits = len(s.events())
last = work(s, w, [os.urandom(10) for _ in range(20)])
ok(until(lambda: noted(s, 22), seconds=20), 'twenty more')
turns = [e for e in s.events()[commits:] if e['kind'] == 'noted']
ok(len(turns) <= 4, f'twenty seals cost {len(turns)} turns of their own at most')
same(s.cli('backup', TMP / 'b').code, 0, 'a backup')
s.stop()
same(verify(s.dir).code, 0, 'all is well')
shutil.copytree(s.dir, TMP / 'copy', ignore=shutil.ignore_patterns('*.sock'))
shutil.copy(packed(TMP / 'copy', two), packed(TMP / 'copy', one))
named(verify(TMP / 'copy'), one, "isn't as it was sealed: it has other bytes", 'a log of the same length in its place')
same(verify(TMP / 'copy', '--quick').code, 0, '  which --quick does not look at')
shutil.copy(packed(TMP / 'copy', last[0]), packed(TMP / 'copy', one))
named(verify(TMP / 'copy'), one, f"it has 10 bytes, it had {SIZE}", 'a shorter one')
packed(TMP / 'copy', one).unlink()
named(verify(TMP / 'copy'), one, f"it has 0 bytes, it had {SIZE}", 'none at all')
(TMP / f'copy/logs/live/{one}.1.log').write_bytes(logs[1])
named(verify(TMP / 'copy'), one, "isn't as it was sealed", 'one that nobody has packed')

# -- what is hashed again is not believed when it is another one
shutil.copy(packed(TMP / 'copy', two), packed(TMP / 'copy', two).with_name(f'{one}.1.log.zst'))
(TMP / f'copy/logs/live/{one}.1.log').unlink()
(TMP / f'copy/logs/live/{one}.1.unnoted').touch()
c = House('copy', slots=0)
ok(until(lambda: 'logs.changed' in c.log.read_text(), seconds=20), 'a server that hashes the wrong log says so')
c.stop()
named(verify(c.dir), one, 'other bytes', 'and the history still has the hash of the right one')

# -- a crash between the end and the note
s.start()
w = Worker(s, 'w', slots=4)
crashed = work(s, w, [os.urandom(SIZE) for _ in range(3)])
s.kill()
s.start()
ok(until(lambda: noted(s, 25), seconds=20), 'a crash between an end and its note: noted after the next start', s.get('/v1/verify').json)
same([t for t in crashed if t not in seals(s.dir)], [], 'all of them')
s.stop()
shutil.copy(packed(s.dir, two), packed(s.dir, crashed[0]))
named(verify(s.dir), crashed[0], 'other bytes', 'and found changed')

# -- backups
same(run('restore', TMP / 'b', '--data', TMP / 'back', '--active').code, 0, 'a restored copy')
same(verify(TMP / 'back').code, 0, 'has its logs')
shutil.copy(packed(TMP / 'back', two), packed(TMP / 'back', one))
named(verify(TMP / 'back'), one, 'other bytes', 'and a changed one is named there, too')
packed(TMP / 'back', one).unlink()
r = House('back', slots=0)
same(r.cli('backup', TMP / 'b2').code, 0, 'a backup of a store that lacks a log (as when retention lets it go meanwhile)')
got = run('restore', TMP / 'b2', '--data', TMP / 'back2', '--active')
ok(got.code == 0 and '1 logs that were sealed' in got.err, 'the restore says so', got.out, got.err)
got = verify(TMP / 'back2')
ok(got.code == 0, 'and so does its history: no damage', got.out, got.err)
same(one in seals(TMP / 'back2'), False, 'its hash is gone')

# -- retention
got = r.cli('history', 'prune', '--apply', '--older-than', '1ms')
ok(until(lambda: seals(r.dir) == [], seconds=20), 'what retention lets go takes its hash along', seals(r.dir), got.out, got.err)
same(r.get('/v1/verify').json['ok'], True, 'no damage')
r.stop()

# -- PostgreSQL
pg, url = database()
s = House('pg', '--store', url, slots=0)
w = Worker(s, 'w', slots=4)
one, two, _ = work(s, w, logs)
ok(until(lambda: noted(s, 2), seconds=20), 'PostgreSQL: the hashes are noted', s.get('/v1/verify').json)
ok(until(lambda: pg.sql('SELECT count(*) FROM log WHERE sealed <> 1', 'weir').strip() == '0', seconds=20), 'and nothing waits')
pg.sql(f'UPDATE log_chunk SET bytes = set_byte(bytes, 5, get_byte(bytes, 5) # 1) WHERE task = {one} AND start_byte = 0', 'weir')
named(run('verify', '--data', s.dir, '--store', url), one, 'other bytes', 'a log with one other byte')
pg.sql(f'UPDATE log_chunk SET bytes = set_byte(bytes, 5, get_byte(bytes, 5) # 1) WHERE task = {one} AND start_byte = 0', 'weir')
same(run('verify', '--data', s.dir, '--store', url).code, 0, 'and as it was')
log = os.urandom(SIZE)
s.enqueue(dict(name='t', queue='q', data=1))
grant, = w.claim()
w.log(grant, 0, log)
same(w.finish(grant, exit=0, log_bytes=SIZE).status, 200, 'one that ends before its bytes are known to be durable')
s.kill()
s.start()
left = s.get('/v1/verify').json
ok(left['ok'] and (left['logs_short'] == 0 or left['logs_unnoted'] < 2), 'after a crash bytes may be missing: no damage', left)
w.log(grant, 0, log)
s.stop()
s.start()  # a log of which the crash left nothing isn't known to have ended before
ok(until(lambda: noted(s, 3), seconds=30), 'they come again from who has them, and the hash is noted', s.get('/v1/verify').json)
s.stop()

# -- a copy
got = run('store', 'copy', url, f'sqlite://{TMP}/moved', timeout=120)
ok(got.code == 0, 'a copy into SQLite', got.out, got.err)
same(verify(TMP / 'moved').code, 0, 'has its logs')
shutil.copy(packed(TMP / 'moved', two), packed(TMP / 'moved', one))
named(verify(TMP / 'moved'), one, 'other bytes', 'and a changed one is named there, too')
end()
