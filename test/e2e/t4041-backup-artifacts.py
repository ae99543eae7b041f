#!/usr/bin/env python3
# store: sqlite
"""A backup has the artifacts, also while jobs send more of them; one without them says so in the file, in the answer and when it is restored."""
import hashlib
import json
import os
import pathlib
import shutil
import signal
import sqlite3
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
from house import TMP, House, Worker, end, ok, run, same, until  # noqa: E402

s = House('data', slots=0)
worker = Worker(s, 'w', slots=50)


def keep(files):
    """a task that keeps these files; (id, {name: content})"""
    task = s.post('/v1/tasks', dict(name='t', data=1)).json['id']
    grant = [g for g in worker.claim(free=5) if g['task'] == task][0]
    kept = [s.ask('POST', f'/v1/tasks/{task}/artifacts/{name}?fence={grant["fence"]}&last=1', body=data).json for name, data in files.items()]
    answer = worker.finish(grant, exit=0, artifacts=kept)
    assert answer.status == 200, answer
    return task, files


tasks = [keep({'empty': b'', 'small': b'small', 'large': os.urandom(2500000)}), keep({'small-again': b'small'})]
half = s.post('/v1/tasks', dict(name='half', data=1)).json['id']
grant = worker.claim(free=1)[0]
same(s.ask('POST', f'/v1/tasks/{half}/artifacts/h?fence={grant["fence"]}&last=1', body=b'nobody lists it yet').status, 200, 'a file that no finish lists')

# -- backups while files come
stop = threading.Event()
more = []


def load():
    i = 0
    while not stop.is_set():
        i += 1
        more.append(keep({f'f{i}': os.urandom(30000) + b'%d' % i, 'same': b'the same in each'}))


thread = threading.Thread(target=load)
thread.start()
until(lambda: len(more) > 3, seconds=20)
said = [s.cli('--json', 'backup', TMP / f'copy{i}') for i in range(3)]
stop.set()
thread.join()
same([a.code for a in said], [0] * 3, 'three backups')
counts = [json.loads(a.out) for a in said]
ok(all(c['artifacts'] >= 3 and c['artifacts_missing'] == 0 and not c['without_artifacts'] for c in counts), 'which say what is in them', counts)
s.stop(signal.SIGINT)
known = dict(tasks + more)


def listed(server):
    return [(t['id'], a) for t in server.get('/v1/tasks?limit=1000').json['tasks'] for a in t.get('artifacts', [])]


def wrong(server):
    return [(i, a['name']) for i, a in listed(server) if server.get(f'/v1/tasks/{i}/artifacts/{a["name"]}').body != known[i][a['name']]]


for i in range(3):
    same(run('restore', TMP / f'copy{i}', '--data', TMP / f'back{i}').code, 0, f'restored {i}')
    r = House(f'back{i}', slots=0)
    ok(len(listed(r)) >= 4 and wrong(r) == [], 'every listed file can be read, and is what it was', wrong(r))
    same(r.cli('verify').code, 0, 'and the store is sound')
    r.stop(signal.SIGINT)
files = [p for p in (TMP / 'back2' / 'blobs').rglob('*') if p.is_file()]
ok(all(hashlib.sha256(p.read_bytes()).hexdigest() == p.name and p.stat().st_mode & 0o777 == 0o600 for p in files), 'files of its own, under their hashes')
ok(hashlib.sha256(b'nobody lists it yet').hexdigest() not in [p.name for p in files], 'only what is listed')

# -- one that is gone, one that is damaged: said, and the rest is in it
s.start()
small, large = (TMP / 'data/blobs' / (h := hashlib.sha256(tasks[0][1][n]).hexdigest())[:2] / h for n in ('small', 'large'))
shutil.move(small, TMP / 'small')
large.write_bytes(b'X' + large.read_bytes()[1:])
answer = s.cli('backup', TMP / 'poor')
ok(answer.code == 0 and '2 artifacts that tasks list aren\'t in it' in answer.err, 'a backup says what it couldn\'t take along', answer)
again = run('restore', TMP / 'poor', '--data', TMP / 'poorer')
ok(again.code == 0 and '2 artifacts that its tasks list aren\'t there' in again.err, 'and so does its restore', again)

# -- without artifacts
answer = s.cli('backup', '--without-artifacts', TMP / 'thin')
n = len({a['sha256'] for _, a in listed(s)})
ok(answer.code == 0 and f'{n} artifacts were left out' in answer.err, 'a backup without them says so', answer)
same(json.loads(s.cli('--json', 'backup', '--without-artifacts', TMP / 'thin').out), dict(file=str(TMP / 'thin'), without_artifacts=True, artifacts=0, artifacts_missing=n), 'as JSON')
same(sqlite3.connect(TMP / 'thin').execute("SELECT value FROM meta WHERE name = 'without_artifacts'").fetchall(), [('1',)], 'and in the file')
s.stop(signal.SIGINT)
answer = run('--json', 'restore', TMP / 'thin', '--data', TMP / 'thinner')
same({k: v for k, v in json.loads(answer.out).items() if k in ('artifacts', 'artifacts_missing', 'without_artifacts')}, dict(artifacts=0, artifacts_missing=n, without_artifacts=True), 'its restore says how many are missing')
r = House('thinner', slots=0)
gone = r.get(f'/v1/tasks/{tasks[0][0]}/artifacts/small')
ok(gone.status == 404 and "aren't in this store" in gone.json['detail'] and str(TMP) not in gone.body.decode(), 'who asks for one is told, without a path', gone)
ok(any(e['kind'] == 'incarnation' and f'{n} artifacts' in e.get('reason', '') for e in r.events()), 'the history knows it')
same(r.cli('--json', 'backup', TMP / 'thin2').code, 0, 'a backup of that one')
same(sqlite3.connect(TMP / 'thin2').execute("SELECT count(*) FROM meta WHERE name = 'without_artifacts'").fetchall(), [(0,)], 'isn\'t marked as one without')
r.stop(signal.SIGINT)

# -- backups that are older, or damaged; directories that hold something
db = sqlite3.connect(TMP / 'copy0')
db.execute('DROP TABLE backup_blob')
db.commit()
db.close()
answer = run('restore', TMP / 'copy0', '--data', TMP / 'older')
ok(answer.code == 0 and 'the backup didn\'t have them' in answer.err, 'one of a time before artifacts were in it', answer)
db = sqlite3.connect(TMP / 'copy1')
db.execute("UPDATE backup_blob SET bytes = zeroblob(length(bytes)) WHERE length(bytes) > 1000")
db.commit()
db.close()
answer = run('restore', TMP / 'copy1', '--data', TMP / 'broken')
ok(answer.code == 65 and 'has other bytes in the backup' in answer.err, 'a file with other bytes than its name says is refused', answer)
same([p.name for p in (TMP / 'broken').iterdir() if p.name in ('weir.db', 'logs', 'blobs', 'blobs.part')], [], 'and nothing is left')
(TMP / 'full/blobs/ab').mkdir(parents=True)
(TMP / 'full/blobs/ab/file').write_text('x')
answer = run('restore', TMP / 'copy2', '--data', TMP / 'full')
ok(answer.code != 0 and 'holds artifacts of another store' in answer.err and not (TMP / 'full/logs').exists(), 'a directory with artifacts of another store is refused', answer)
end()
