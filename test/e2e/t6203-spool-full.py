#!/usr/bin/env python3
"""R20 A full disk under the spool stops the projection and nothing else: the queue goes on, /healthz says so, and the spool follows by itself when there is room."""
# store: sqlite
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, os.environ.get('WEIR_TEST_LIB') or str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
from house import TMP, House, end, ok, same, skip, until
from tarballs import tarball

BASE = TMP / 'small'
BASE.mkdir(mode=0o700)
if os.geteuid() != 0 or subprocess.run(['mount', '-t', 'tmpfs', '-o', 'size=256k,mode=0700', 'weir-spool', BASE], capture_output=True).returncode:
    skip('a full disk under the spool', 'needs root and a mount')
    end()
    sys.exit(0)
FOLDERS = dict(Q='queue', S='staging', P='pending', X='run', D='done', F='fail', T='term', A='abandon')


def where(name):
    return ''.join(letter for letter, folder in FOLDERS.items() if (BASE / folder / name).exists())


def health():
    return s.get('/healthz').json


try:
    s = House('data', slots=0, env=dict(WEIR_CHANGESETS_BASE=str(BASE)))
    s.post('/v1/archives', dict(name='docs', kind='external'))
    first = s.post('/v1/changesets', tarball(files={'a.txt': b'a'})).json
    ok(until(lambda: where(first['name']) == 'P'), 'the spool follows')
    for time in range(2):
        try:
            with open(BASE / 'filler', 'wb') as f:
                while True:
                    f.write(b'0' * 4096)
                    f.flush()
        except OSError:
            pass
        posted = [s.post('/v1/changesets', tarball(files={f'{time}-{i}.txt': b'x'})) for i in range(5)]
        same([p.status for p in posted], [202] * 5, 'full: the queue takes change sets')
        ok(until(lambda: health().get('spool') == 'stopped', seconds=10), 'and /healthz says that the spool has stopped', health())
        same(health()['status'], 'ok', 'the server is well')
        ok('spool.stopped' in s.log.read_text(), 'the log says why')
        same(s.post(f'/v1/tasks/{posted[0].json["task"]}/cancel', dict(reason='x')).status, 200, 'orders are followed')
        (BASE / 'filler').unlink()
        wanted = ['T', 'P', 'P', 'P', 'P']
        ok(until(lambda: [where(p.json['name']) for p in posted] == wanted, seconds=10), 'room again: within 10 s the spool is as the queue is',
           [where(p.json['name']) for p in posted])
        ok(until(lambda: health() == dict(status='ok'), seconds=10), 'and says so', health())
        same(where(first['name']), 'P', 'nothing that stood there is lost')
        same(os.listdir(BASE / 'tmp'), [], 'tmp/ is empty')
    same(s.stop(), 0, 'the server ends in order')
finally:
    subprocess.run(['umount', '-l', BASE], check=False)
end()
