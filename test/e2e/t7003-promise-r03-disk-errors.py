#!/usr/bin/env python3
# time limit: 480
"""R3, an error of the disk stops us and is answered `unknown`, never `failed`: EIO and ENOSPC at the k-th write, sync, truncate and rename, once and for good."""
import errno
import os
import pathlib
import shutil
import signal
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'promises'))
from promise import SCALE, TRAP, Client, Promise, ledger_check, rng, special_build, verify  # noqa: E402

special_build()
from house import TMP, House, end, ok  # noqa: E402

SECONDS = 40 * SCALE
p = Promise('R3', 'errors of the disk')
lock = threading.Lock()
GROUPS = ('write', 'sync', 'truncate', 'rename')


def boot(s, env):
    s.env = env
    s.start(wait=False)
    s.line = s.process.stdout.readline().decode()
    if not s.line.startswith('listening on http://'):
        s.process.wait(20)
        return False
    s.url = s.line.split()[2]
    s.port = int(s.url.rsplit(':', 1)[1])
    return True


def work(c, tag, n=6):
    """requests one after the other; true when a connection broke or the server said unknown"""
    for i in range(n):
        key = f'{tag}-{i}'
        answer = c.once(key, dict(queue='led', name=key, data='x' * rng.randint(10, 3000)))
        if answer is None or answer.status == 503:
            return time.monotonic()
    return None


def life(s, c, tag, call, k, fault, sticky):
    tell = TMP / f'tell-{s.dir.name}-{tag}'
    env = dict(LD_PRELOAD=TRAP, TRAP_ROLE='serve', TRAP_DIR=str(s.dir), TRAP_CALL=call, TRAP_AT=str(k), TRAP_ERRNO=str(fault), TRAP_STICKY=str(sticky), TRAP_TELL=str(tell))
    up = boot(s, env)
    broke = work(c, tag) if up else None
    said = tell.read_text().split('\n')[0].split() if tell.exists() else []
    hit = bool(said) and said[1] != 'total'
    if up and hit and fault == errno.EIO:
        # an error in what was asked for ends the process; one in a log line or in a file that can be made again need not
        if broke is not None:
            while s.process.poll() is None and time.monotonic() < broke + 5:
                time.sleep(0.005)
            took = time.monotonic() - broke
            p.bound('seconds from the error to the exit', took if s.process.poll() is not None else 99, 3.0)  # at once; the rest is for a busy machine
            p.did('exits', 1)
    began = time.monotonic()
    if s.process.poll() is None:
        s.stop(signal.SIGINT, 10)
    if time.monotonic() - began > 3:
        print(f'# {call} {k} {fault} {sticky} {said}: the end took {time.monotonic() - began:.1f} s')
    total = [int(line.split()[0]) for line in tell.read_text().split('\n') if ' total ' in line] if tell.exists() else []
    return hit, said[2].rpartition('/')[2] if hit else '', total[-1] if total else 0


def run(number, todo):
    n = 0
    while todo and time.monotonic() < deadline:
        n += 1
        s = House.__new__(House)
        s.__init__(f'd{number}-{n}', slots=0, wait=True)
        s.stop(signal.SIGINT)
        c = Client(s, p)
        for i in range(10):
            with lock:
                if not todo or time.monotonic() > deadline:
                    break
                call, k, fault, sticky = todo.pop()
            hit, where, _ = life(s, c, f'l{i}', call, k, fault, sticky)
            with lock:
                p.did('cases')
                p.did('errors met', int(hit))
                places[f'{call} {where}'] = places.get(f'{call} {where}', 0) + int(hit)
            if not boot(s, {}):
                p.zero('no restart', 1, (call, k, fault, sticky, where, s.log.read_text()[-400:]))
                return
            for key, body in list(c.bodies.items()):  # the same keys again, all of them
                c.sure(key, body)
            s.stop(signal.SIGINT) if rng.random() < 0.5 else s.kill()
        boot(s, {})
        with lock:
            ledger_check(p, s, [c])
            verify(p, s)
            missing = [k for k in c.bodies if k not in c.ledger]
            p.zero('missing after the retry', len(missing), missing)
            p.did('requests', len(c.bodies))
        s.stop(signal.SIGINT)
        shutil.rmtree(s.dir)


# how many calls there are: a life in which none fails
s = House('count', slots=0)
s.stop(signal.SIGINT)
c = Client(s, p)
todo, places = [], {}
for call in GROUPS:
    _, _, total = life(s, c, call, call, 1 << 40, errno.EIO, 0)
    print(f'# a life has {total} calls of {call}')
    for k in range(1, total + 1):
        todo += [(call, k, fault, sticky) for fault in (errno.EIO, errno.ENOSPC) for sticky in (0, 1)]
ok(len(todo) > 100, f'{len(todo)} cases')
total = len(todo)
rng.shuffle(todo)
deadline = time.monotonic() + SECONDS
threads = [threading.Thread(target=run, args=(i, todo)) for i in range(2)]
for t in threads:
    t.start()
for t in threads:
    t.join()
print(f'# {len(todo)} of {total} cases are left for a longer run; errors were met in: ' + ', '.join(f'{k} {v}' for k, v in sorted(places.items())))
for what in ('no restart', 'missing after the retry'):
    p.zero(what)
p.report()
end()
