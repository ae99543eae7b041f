#!/usr/bin/env python3
"""R23: an attacker who may write into prequeue/ and data/ swaps entries while the server scans them: links, FIFOs, devices, huge and growing files. Nothing outside is
touched, nothing hangs, and honest entries come through. WEIR_TEST_SWAPS: how many swaps."""
# store: sqlite
import ctypes
import os
import pathlib
import sys
import time

sys.path.insert(0, os.environ.get('WEIR_TEST_LIB') or str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
from house import TMP, House, end, ok, same, until
from tarballs import tarball

SWAPS = int(os.environ.get('WEIR_TEST_SWAPS', '2000'))
libc = ctypes.CDLL(None, use_errno=True)
s = House('data', slots=0)
BASE = s.dir / 'spool'
OUT = TMP / 'outside'
OUT.mkdir()
(OUT / 'secret').write_text('secret\n')
(OUT / 'victim').write_bytes(tarball(files={'stolen.txt': b'stolen'}))
s.post('/v1/archives', dict(name='docs', kind='external'))
until(lambda: (BASE / 'ctrl/exec.pid').exists())


def label():
    ns = time.time_ns()
    return f'{2**62 + 10 + ns // 10**9:016x}{ns % 10**9:08x}'


def name_of(csid):
    return f'{csid}_{label()}_7_host_DC_eve'


def exchange(a, b):
    """renameat2 with RENAME_EXCHANGE; one of them may be gone"""
    return libc.renameat2(-100, os.fsencode(a), -100, os.fsencode(b), 2)


def nasty(path, kind):
    path.unlink(missing_ok=True)
    if kind == 'symlink':
        path.symlink_to(OUT / 'secret')
    elif kind == 'tarball':
        path.symlink_to(OUT / 'victim')
    elif kind == 'hard':
        os.link(OUT / 'secret', path)
    elif kind == 'fifo':
        os.mkfifo(path)
    elif kind == 'huge':
        with open(path, 'wb') as f:
            f.truncate(1 << 40)
    elif kind == 'device' and os.geteuid() == 0:
        os.mknod(path, 0o20600, os.makedev(1, 5))  # /dev/zero: whoever reads it never ends
    else:
        path.write_bytes(b'##movetype\nDC\n')


KINDS = ['symlink', 'tarball', 'hard', 'fifo', 'huge', 'device', 'growing']
aside = BASE.parent / 'aside'
aside.mkdir()
before = {p.name: (p.stat().st_size, p.stat().st_mtime_ns) for p in OUT.iterdir()}
honest, began, slowest = [], time.monotonic(), 0
for i in range(SWAPS):
    kind = KINDS[i % len(KINDS)]
    folder = ('prequeue', 'data')[i // len(KINDS) % 2]
    if i % 20 == 0:  # a good entry to be swapped
        name = name_of(f'a{i}')
        (BASE / 'data' / name).write_bytes(tarball(files={f'f{i}.txt': b'x'}))
        (BASE / 'prequeue' / name).write_bytes(b'')
    if i % 400 == 7:
        good = name_of(f'honest{i}')
        (BASE / 'data' / good).write_bytes(tarball(files={f'h{i}.txt': b'honest'}))
        (aside / 'entry').write_bytes(b'')
        os.rename(aside / 'entry', BASE / 'prequeue' / good)
        honest.append(good)
    nasty(aside / 'x', kind)
    if exchange(aside / 'x', BASE / folder / name) != 0:  # it was taken: put there as new
        try:
            os.rename(aside / 'x', BASE / folder / name)
        except OSError:
            pass
    if kind == 'growing' and (BASE / folder / name).is_file():
        with open(BASE / folder / name, 'ab') as f:
            f.write(b'x' * 4096)
    if i % 200 == 0:
        start = time.monotonic()
        same(s.get('/healthz').status, 200, f'after {i} swaps the server answers')
        slowest = max(slowest, time.monotonic() - start)
ok(slowest < 10, 'nothing hangs', slowest)
scan = s.post('/v1/spool/scan', None)
same(scan.status, 200, 'a scan ends')
ok(until(lambda: all(any((BASE / d / n).exists() for d in ('pending', 'staging')) for n in honest), seconds=20), 'R23 honest entries come through',
   [n for n in honest if (BASE / 'prequeue' / n).exists()], os.listdir(BASE / 'corrupt')[:20])
same({p.name: (p.stat().st_size, p.stat().st_mtime_ns) for p in OUT.iterdir()}, before, 'R23 nothing outside was touched')
tasks = s.get('/v1/tasks?limit=1000').json['tasks']
ok(not any('stolen.txt' in f.read_text(errors='replace') for d in ('queue', 'staging', 'pending') for f in (BASE / d).iterdir()), 'R23 no link was followed to a tarball')
ok(len([p for p in os.listdir(BASE / 'corrupt') if p.endswith('.why')]) > 10, 'what was foreign stands in corrupt/, with reasons')
ok(all(n.endswith('.why') or (BASE / 'corrupt' / (n + '.why')).exists() for n in os.listdir(BASE / 'corrupt')), 'each with one')
same(s.stop(), 0, 'and the server ends in order')
end()
