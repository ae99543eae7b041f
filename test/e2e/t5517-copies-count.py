#!/usr/bin/env python3
# time limit: 120
# store: sqlite (it starts its own PostgreSQL)
"""A job never begins more often than attempts were counted, also when its store is restored, copied to the other kind of store, or copied as a
directory while it runs: its executor kills it then (the fence is stale), and a task with `attempts: 1` must not be granted again."""
import pathlib
import shutil
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
from house import TMP, House, Worker, database, end, ok, run, same  # noqa: E402

pg, url = database()


def renewals(grants):
    return [dict(task=g['task'], fence=g['fence']) for g in grants]


def begun(house, name):
    """a worker that has begun a job which may begin once, and one which may begin twice"""
    worker = Worker(house, name)
    house.enqueue(*[dict(name=f'{name}{n}', queue=name, command='x', retry=dict(attempts=n)) for n in (1, 2)])
    grants = worker.claim(2, seq=1)
    same(len(grants), 2, f'{name}: granted')
    same(worker.poll(0, seq=2, renew=renewals(grants)).get('cancels', []), [], f'{name}: both run')
    return worker, grants


def judge(house, name, worker, grants):
    """the worker goes on as one that was never told of the copy: it names its fences, is told that they are stale, and names them no more"""
    once, twice = (g['task'] for g in grants)
    worker.server = house
    worker.poll(0, seq=3, renew=renewals(grants))
    again = worker.claim(2, wait_ms=100, seq=4)
    same([g['task'] for g in again], [twice], f'{name}: only the job that may begin twice is granted again')
    view = house.task(once)
    same((view['state'], [(a['number'], a['outcome']) for a in view['attempts']]), ('F', [(1, 'lost')]), f'{name}: the other one has had its attempt')
    view = house.task(twice)
    same((view['state'], [a['number'] for a in view['attempts']]), ('X', [1, 2]), f'{name}: and this one has begun its second')
    house.stop(signal.SIGINT)


s = House('data', slots=0, lease='60s')
worker, grants = begun(s, 'first')
same(s.cli('backup', TMP / 'file').code, 0, 'backup')
s.stop(signal.SIGINT)
ok(run('restore', TMP / 'file', '--data', TMP / 'restored', '--active').code == 0, 'restore')
judge(House('restored', slots=0, lease='60s'), 'restored', worker, grants)

shutil.copytree(s.dir, TMP / 'directory')
judge(House('directory', slots=0, lease='60s'), 'copied directory', worker, grants)

done = run('store', 'copy', s.dir, url)
same(done.code, 0, f'SQLite to PostgreSQL {done.err}')
moved = House('moved', '--store', url, slots=0, lease='60s')
judge(moved, 'copied to PostgreSQL', worker, grants)

moved.start()
worker, grants = begun(moved, 'second')
moved.stop(signal.SIGINT)
done = run('store', 'copy', url, f'sqlite://{TMP}/back', '--data', moved.dir)
same(done.code, 0, f'PostgreSQL to SQLite {done.err}')
judge(House('back', slots=0, lease='60s'), 'copied to SQLite', worker, grants)
end()
