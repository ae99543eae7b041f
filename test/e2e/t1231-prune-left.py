#!/usr/bin/env python3
# time limit: 150
# store: sqlite (it starts its own PostgreSQL)
"""Logs that a prune was to remove and didn't, since its server was killed or stopped in between: whoever has the duty next removes them, and nothing else."""
import pathlib
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
import postgres  # noqa: E402
from house import House, Worker, database, end, same, until  # noqa: E402


def logs_of(s, n):
    """n tasks that have run, each with a log"""
    worker = Worker(s, 'w', instance='one')
    ids = [t['id'] for t in s.enqueue(*[dict(name=f't{i}', queue='q', command='x') for i in range(n)])]
    for _ in range(n):
        grant, = worker.claim()
        worker.log(grant, 0, b'a line\n' * 100)
        worker.finish(grant, exit=0, log_bytes=700)
    return ids


def prune(s):
    return s.post('/v1/prune', dict(dry_run=False, older_than='1ms')).json['tasks']


# -- files beside SQLite: what a kill between the commit and the removal leaves
s = House('data', slots=0)
logs = s.dir / 'logs'


def files():
    return sorted(p.name for p in logs.rglob('*.log*'))


ids = logs_of(s, 3)
until(lambda: files() == [f'{i}.1.log.zst' for i in ids], 'three logs, packed')
shutil.copytree(logs, s.dir / 'copy')
same(prune(s), 3, 'all are pruned')
until(lambda: files() == [], 'and gone')
kept = logs_of(s, 2)
until(lambda: files() == [f'{i}.1.log.zst' for i in kept], 'two later ones')
for kill in (True, False):
    s.kill() if kill else s.stop()
    shutil.copytree(s.dir / 'copy', logs, dirs_exist_ok=True)
    (logs / '0' / f'{ids[0]}.1.log.zst').rename(logs / 'live' / f'{ids[0]}.1.log')  # and one that wasn't packed
    (logs / '7000').mkdir(exist_ok=True)
    s.start()
    until(lambda: files() == [f'{i}.1.log.zst' for i in kept], f'{"killed" if kill else "stopped"} in between: they go after the next start, and no others', 40)
    until(lambda: not (logs / '7000').exists(), 'and so does a folder that nothing is left in')
same([len(s.log_bytes(i)) for i in kept], [700, 700], 'which can be read')
s.stop()

# -- in PostgreSQL: somebody has locked the table meanwhile
pg, url = database()
s = House('shared', '--store', url, slots=0, lease='3s')


def rows():
    return pg.sql("SELECT coalesce(string_agg(task::text, ' ' ORDER BY task), '') FROM log WHERE bytes > 0", 'weir')


for kill in (True, False):
    ids = logs_of(s, 3)
    until(lambda: rows() == ' '.join(map(str, ids)), 'three logs')
    holder = subprocess.Popen([postgres.BIN / 'psql', '-X', '-q', '-h', pg.dir, '-p', str(pg.port), '-U', postgres.USER, '-d', 'weir'], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    print('BEGIN; LOCK TABLE log IN SHARE MODE;', file=holder.stdin, flush=True)
    until(lambda: pg.sql("SELECT count(*) FROM pg_locks WHERE relation = 'log'::regclass AND mode = 'ShareLock' AND granted", 'weir') == '1')
    same(prune(s), 3, 'all are pruned')
    s.kill() if kill else s.stop()
    same(rows(), ' '.join(map(str, ids)), 'but their logs are still there')
    holder.stdin.close()
    holder.wait()
    s.start()
    until(lambda: rows() == '', f'{"killed" if kill else "stopped"} in between: they go after the next start', 60)
    same(pg.sql('SELECT count(*) FROM log_chunk', 'weir'), '0', 'with all their bytes')
s.stop()
pg.stop()
end()
