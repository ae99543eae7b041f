#!/usr/bin/env python3
# store: sqlite (it starts its own PostgreSQL)
"""weir verify: the database's own check, logs and kept files, beside a server, without one, on a restored copy, in PostgreSQL; the check after a fast start."""
import hashlib
import os
import pathlib
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
from house import TMP, House, Worker, database, end, ok, run, same, until  # noqa: E402

PAGE = 4096
KEPT = [b'first file', b'', b'x' * 3000000]


def damage(path, word):
    """writes over the head of every leaf of a table that has much of these bytes; the number of pages"""
    pages = 0
    with open(path, 'r+b') as f:
        text = f.read()
        for at in range(0, len(text), PAGE):
            if text[at] == 13 and text[at:at + PAGE].count(word.encode()) > 2:
                f.seek(at)
                f.write(b'\xa5' * 200)
                pages += 1
    return pages


def work(s):
    """a task with logs and kept files, and some more"""
    w = Worker(s, 'w', slots=4)
    s.enqueue(*[dict(name=f't{n}', data=f'hay-{n} ' + 'h' * 900) for n in range(60)])
    grant = w.claim()[0]
    for n, data in enumerate(KEPT):
        s.ask('POST', f'/v1/tasks/{grant["task"]}/artifacts/f{n}?fence={grant["fence"]}&last=1', body=data, headers={'Content-Type': 'application/octet-stream'})
    log = os.urandom(300000)
    same(w.log(grant, 0, log).status, 200, 'a log')
    kept = [dict(name=f'f{n}', bytes=len(data), sha256=hashlib.sha256(data).hexdigest()) for n, data in enumerate(KEPT)]
    same(w.finish(grant, exit=0, outputs=dict(a='1'), artifacts=kept, log_bytes=len(log)).status, 200, 'and kept files')
    return grant['task'], kept


def spoiled(path, words, text, quick=0):
    """exit 1, and these words; --quick doesn't look there, unless it is a row"""
    got = run('verify', '--data', path)
    ok(got.code == 1 and all(word in got.err for word in words), text, got.code, got.out, got.err)
    same(run('verify', '--data', path, '--quick').code, quick, '  which --quick finds, too' if quick else '  which --quick does not look at')


def copied(name):
    shutil.rmtree(TMP / 'copy', ignore_errors=True)
    shutil.copytree(s.dir, TMP / 'copy', ignore=shutil.ignore_patterns('*.sock'))
    return TMP / 'copy'


def blob(path, kept):
    return path / 'blobs' / kept['sha256'][:2] / kept['sha256']


s = House('data', slots=0)
task, kept = work(s)
until(lambda: s.get('/v1/verify').json['logs_unnoted'] == 0, 'the log is packed, and noted')
report = s.get('/v1/verify').json
same((report['ok'], report['logs'], report['log_bytes'], report['files'], report['file_bytes']), (True, 1, 300000, 3, sum(map(len, KEPT))), 'beside the server')
ok('ok' in report['database'], 'with the database', report)
ok('logs' not in s.get('/v1/verify?quick=1').json, 'quick: the chain alone')
same(s.cli('verify', '--quick').code, 0, 'weir verify --quick')
got = s.cli('backup', TMP / 'b')
same(got.code, 0, 'a backup')
s.stop()
got = run('verify', '--data', s.dir)
ok(got.code == 0 and '1 logs' in got.out and '3 kept files' in got.out and 'integrity check' in got.out, 'without a server', got.out, got.err)

# -- what is damaged, missing or changed
blob(copied('a'), kept[0]).unlink()
spoiled(TMP / 'copy', ['kept file', 'missing', f'task {task}'], 'a kept file is missing')
path = blob(copied('b'), kept[2])
path.chmod(0o600)
path.write_bytes(b'y' + KEPT[2][1:])
spoiled(TMP / 'copy', ['kept file', 'other bytes'], 'a kept file has one other byte')
packed = next(iter((copied('c') / 'logs').glob('*/*.log.zst')))
text = bytearray(packed.read_bytes())
text[len(text) // 2] ^= 1
packed.write_bytes(text)
spoiled(TMP / 'copy', ['log of task', 'damaged'], 'a log has one other byte')
next(iter((copied('d') / 'logs').glob('*/*.log.zst'))).unlink()
spoiled(TMP / 'copy', ["isn't as it was sealed", '0 bytes, it had 300000'], 'a log is missing (one that no hash was noted of may lack bytes: a power cut takes what was not durable)')
ok(damage(copied('e') / 'weir.db', 'hhhhhhhh') > 5, 'pages of specifications are damaged')
spoiled(TMP / 'copy', ['database'], 'SQLite finds them', quick=1)
got = run('restore', TMP / 'b', '--data', TMP / 'back')
same(got.code, 0, 'a restored copy')
got = run('verify', '--data', TMP / 'back')
gone = not list((TMP / 'back').glob('blobs/??/*'))
ok(got.code == (1 if gone else 0), 'is checked for its logs and kept files, too', gone, got.code, got.out, got.err)

# -- beside a server: in steps, and what is found closes intake
s.start()
ok(damage(s.dir / 'weir.db', 'hhhhhhhh') > 5, 'pages are damaged under a server')
got = s.cli('verify')
ok(got.code == 1 and 'spec' in got.err, 'weir verify names the table', got.code, got.out, got.err)
ok(until(lambda: s.get('/readyz').status == 503, seconds=10), 'and the server takes no more work')
s.stop()

# -- a large store starts at once and is checked then
s = House('large', slots=0)
for part in range(52):
    s.post('/v1/tasks', dict(name=f'ballast-{part}', data=f'{part}' + 'b' * 700000))
s.enqueue(*[dict(name=f't{n}', data=f'hay-{n} ' + 'h' * 900) for n in range(60)])
s.stop()
s.start()
ok(until(lambda: 'store.checked' in s.log.read_text(), seconds=60), 'it is checked in the background')
s.stop()
ok(damage(s.dir / 'weir.db', 'hhhhhhhh') > 5, 'pages are damaged while it is stopped')
s.start()
ok(until(lambda: s.get('/readyz').status == 503 and 'server.unready' in s.log.read_text(), seconds=60), 'which nobody reads, and which is found')
s.stop()

# -- PostgreSQL
pg, url = database()
s = House('pg', '--store', url, slots=0)
task, kept = work(s)
found = until(lambda: (lambda r: r['ok'] and r)(s.get('/v1/verify').json), seconds=20)
ok(found and (found['logs'], found['files']) == (1, 3) and 'amcheck' in found['database'], 'PostgreSQL', found)
pg.sql('CREATE EXTENSION amcheck', 'weir')
pg.sql('GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA public TO PUBLIC', 'weir')
found = s.get('/v1/verify').json
ok(found['ok'] and 'ok: amcheck of' in found['database'], 'with amcheck', found)
pg.sql(f"UPDATE blob_chunk SET bytes = set_byte(bytes, 0, 1) WHERE hash = '{kept[0]['sha256']}'", 'weir')
found = s.get('/v1/verify').json
ok(not found['ok'] and 'other bytes' in found['fault'], 'a kept file has one other byte', found)
pg.sql(f"DELETE FROM blob WHERE hash = '{kept[0]['sha256']}'; DELETE FROM log_chunk", 'weir')
found = s.get('/v1/verify').json
ok(not found['ok'] and 'log of task' in found['fault'], 'a log without its bytes', found)
s.stop()
end()
