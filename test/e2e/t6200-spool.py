#!/usr/bin/env python3
"""The spool of a real server: RQ13 directories, RQ14 FIFOs that never hang, RQ16 PID files, one owner of a BASE, no spool without targets."""
# store: sqlite
import os
import pathlib
import signal
import stat
import subprocess
import sys

sys.path.insert(0, os.environ.get('WEIR_TEST_LIB') or str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
from house import TMP, WEIR, House, clean_env, end, ok, same, until

NAMES = ['abandon', 'corrupt', 'ctrl', 'data', 'done', 'fail', 'pending', 'prequeue', 'queue', 'run', 'staging', 'term', 'tmp']
BASE = TMP / 'base'
PIDS = ('prequeue.pid', 'queue.pid', 'exec.pid')


def threads(server):
    return len(os.listdir(f'/proc/{server.process.pid}/task'))


def serve(name, base, seconds=30):
    """weir serve that is expected to end by itself"""
    return subprocess.run([WEIR, 'serve', '--data', str(TMP / name), '--listen', '127.0.0.1:0', '--slots', '0'], capture_output=True,
                          text=True, timeout=seconds, env=clean_env(WEIR_CHANGESETS_BASE=str(base)))


# -- RQ13, RQ16: with the first target, not before
s = House('data', slots=0, env=dict(WEIR_CHANGESETS_BASE=str(BASE)))
ok(not BASE.exists(), 'a server without a target makes no spool')
before = threads(s)
same(s.post('/v1/archives', dict(name='docs', kind='external')).status, 201, 'the first target')
ok(until(lambda: (BASE / 'ctrl/exec.pid').exists()), 'RQ13 the spool is made with it')
same(sorted(os.listdir(BASE)), NAMES, 'RQ13 the twelve directories and corrupt/')
same({stat.S_IMODE((BASE / n).stat().st_mode) for n in [*NAMES, '']}, {0o700}, 'for the owner alone')
same([(BASE / 'ctrl' / n).read_text() for n in PIDS], [f'{s.process.pid}\n'] * 3, 'RQ16 three PID files, a number and a newline')
same(threads(s), before + 2, 'two threads more')

# -- R22: one owner of a BASE
other = House('second', slots=0, env=dict(WEIR_CHANGESETS_BASE=str(TMP / 'base2')))
other.post('/v1/archives', dict(name='docs', kind='external'))
other.stop()
done = serve('second', BASE)
ok(done.returncode == 1 and f'the spool {BASE} is in use by server' in done.stderr and f'(pid {s.process.pid})' in done.stderr,
   'R22 a second server on one BASE is refused with the name of the owner', done.returncode, done.stderr)
(BASE / 'ctrl/queue.pid').unlink()
(BASE / 'ctrl/queue.pid').write_text(f'{os.getpid()}\n')
done = serve('second', BASE)
ok(done.returncode == 1 and s.process.poll() is None, 'also when somebody has written into ctrl/', done.stderr)

# -- RQ14: a FIFO never hangs, whoever writes how much
done = subprocess.run(['sh', '-c', f'for i in 1 2 3; do for f in prequeue queue exec; do echo pull > {BASE}/ctrl/${{f}}_fifo; done; done'], timeout=20)
same(done.returncode, 0, 'RQ14 writers to the FIFOs go on at once')
done = subprocess.run(['sh', '-c', f'head -c 1000000 /dev/zero > {BASE}/ctrl/prequeue_fifo'], timeout=20)
same(done.returncode, 0, 'a million bytes, too')
same(s.get('/healthz').json, dict(status='ok'), 'the server is well')

# -- ends
same(s.stop(), 0, 'TERM')
same([n for n in PIDS if (BASE / 'ctrl' / n).exists()], ['queue.pid'], 'RQ16 PID files are removed at the orderly end; not one that somebody else wrote')
s.start()
same(s.line.split()[0], 'listening', 'and it starts again')
s.kill()
same(len([n for n in PIDS if (BASE / 'ctrl' / n).exists()]), 3, 'a killed server leaves them')
done = House('second', slots=0, env=dict(WEIR_CHANGESETS_BASE=str(BASE)))
same([(BASE / 'ctrl' / n).read_text() for n in PIDS], [f'{done.process.pid}\n'] * 3, 'RQ16 stale ones are found by their locks')
done.stop()

# -- what a BASE can't be
(BASE / 'run').chmod(0o777)
done = serve('second', BASE)
ok(done.returncode != 0 and 'run can be written by others' in done.stderr, 'a directory that others can write is refused', done.stderr)
(BASE / 'run').chmod(0o700)
(TMP / 'file').write_text('')
done = serve('second', TMP / 'file')
ok(done.returncode != 0 and str(TMP / 'file') in done.stderr, 'and a BASE that is a file', done.stderr)
if os.geteuid() == 0:
    os.chown(BASE, 65534, -1)
    done = serve('second', BASE)
    ok(done.returncode != 0 and f'{BASE} belongs to another user' in done.stderr, 'and a BASE of another user', done.stderr)
    os.chown(BASE, 0, -1)
none = House('none', slots=0, env=dict(WEIR_CHANGESETS_BASE='none'))
none.post('/v1/archives', dict(name='docs', kind='external'))
ok(not (none.dir / 'spool').exists(), 'none: no spool')
none.stop()
end()
