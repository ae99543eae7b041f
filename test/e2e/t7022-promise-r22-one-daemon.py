#!/usr/bin/env python3
# time limit: 240
"""R22, one daemon per store: many started at once, stale and misleading lock files, a FIFO in the way, a copied data directory."""
import os
import pathlib
import shutil
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'promises'))
from promise import Promise, scaled, verify  # noqa: E402
from house import TMP, WEIR, House, Worker, alive, clean_env, end, refused, same, until  # noqa: E402

ROUNDS, AT_ONCE = scaled(4), 6
p = Promise('R22', 'one daemon per store')
for what in ('second owners', 'no owner', 'innocent processes signalled', 'losers that said nothing', 'hangs'):
    p.zero(what)
s = House('data', slots=0)
task = s.enqueue(dict(name='one', command='x'))['id']
w = Worker(s, 'w')
grant = w.claim()[0]


def serve(folder):
    return subprocess.Popen([WEIR, 'serve', '--data', str(folder), '--listen', '127.0.0.1:0', '--slots', '0'], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            stdin=subprocess.DEVNULL, env=clean_env(), start_new_session=True)


def finished(process, seconds=60):
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        p.zero('hangs', 1, process.args)
        process.kill()
        return process.wait()


# beside one that runs
for _ in range(ROUNDS):
    for process in [serve(s.dir) for _ in range(3)]:
        code = finished(process)
        said = process.stderr.read().decode()
        p.did('starts beside a running one')
        p.zero('second owners', int(code == 0), said)
        p.zero('losers that said nothing', int(not said or str(s.process.pid) not in said), said)
same(s.state(task), 'X', 'the first goes on')
s.stop(signal.SIGTERM)
# at once on a store that nobody has
for n in range(ROUNDS):
    crowd = [serve(s.dir) for _ in range(AT_ONCE)]
    until(lambda: sum(c.poll() is None for c in crowd) <= 1, seconds=60)
    owners = [c for c in crowd if c.poll() is None]
    p.did('starts at once', AT_ONCE)
    p.zero('second owners', max(0, len(owners) - 1))
    p.zero('no owner', int(not owners))
    for c in owners:
        c.kill() if n % 2 else c.terminate()
    for c in crowd:
        finished(c)
        c.stdout.close(), c.stderr.close()
# a lock file that names an innocent process
for pid in (os.getpid(), 1, 99999999):
    (s.dir / 'lock').write_text(f'{pid}\n')
    s.start()
    p.did('stale locks')
    p.zero('innocent processes signalled', int(not alive(os.getpid())))
    s.kill()
# things in the way of what it makes anew
for name in ('address', 'weir.sock'):
    for kind in ('fifo', 'symlink', 'file'):
        path = s.dir / name
        if path.exists() or path.is_symlink():
            path.unlink()
        target = TMP / f'elsewhere-{name}-{kind}'
        os.mkfifo(path) if kind == 'fifo' else path.symlink_to(target) if kind == 'symlink' else path.write_text('x')
        process = serve(s.dir)
        p.did('things in the way')
        os.set_blocking(process.stdout.fileno(), False)
        line = until(lambda: process.stdout.readline() or process.poll() is not None, seconds=60)
        p.zero('hangs', int(not line), (name, kind))
        p.zero('innocent processes signalled', int(target.exists()), (name, kind, 'a file elsewhere was made'))
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        finished(process)
        process.stdout.close(), process.stderr.close()
        if path.is_symlink() or path.exists():
            path.unlink()
# a copied data directory: a store of its own
shutil.copytree(s.dir, TMP / 'copy', ignore=shutil.ignore_patterns('*.sock'))
s.start()
c = House('copy', slots=0)
p.did('copies')

wa, wb = Worker(s, 'a'), Worker(c, 'b')
ids = [x.enqueue(dict(name='after', command='x'))['id'] for x in (s, c)]
got = [until(lambda: [g for g in x.claim(free=5, wait_ms=300) if g['task'] == i], seconds=30) for x, i in ((wa, ids[0]), (wb, ids[1]))]
p.zero('second owners', int(got[0][0]['fence'].split('-')[0] == got[1][0]['fence'].split('-')[0]), [g[0]['fence'] for g in got])
refused(c.post(f'/v1/tasks/{got[0][0]["task"]}/finish', dict(fence=got[0][0]['fence'], exit=0)), 409, 'stale_fence', text='a fence of the original in the copy')
verify(p, s)
verify(p, c)
p.report()
end()
