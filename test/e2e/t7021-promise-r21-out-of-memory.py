#!/usr/bin/env python3
# time limit: 240
"""R21, out of memory loses nothing: the k-th allocation of the server fails, once or from then on: it goes on or aborts, and a restart has everything."""
import pathlib
import resource
import signal
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'promises'))
from promise import SCALE, TRAP, Client, Promise, ledger_check, rng, scaled, special_build, verify  # noqa: E402

special_build()
from house import TMP, House, Worker, end, until  # noqa: E402

CASES, SECONDS = scaled(80), 25 * SCALE
p = Promise('R21', 'out of memory loses nothing')
for what in ('segmentation faults', 'no restart', 'hangs'):
    p.zero(what)
lock = threading.Lock()


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


def walk(s, c, tag):
    """intake, claim, log, finish, lists"""
    try:
        for i in range(3):
            if c.once(f'{tag}-{i}', dict(queue='led', name=f'{tag}-{i}', command='x', data='d' * 500), timeout=5) is None:
                return
        w = Worker(s, 'w')
        for g in w.claim(free=2, wait_ms=0):
            w.log(g, 0, b'line\n' * 100)
            w.finish(g, exit=0)
        for path in ('/v1/tasks?limit=100', '/v1/stats', '/v1/events?since=0&limit=50', '/v1/executors'):
            s.get(path, timeout=5)
    except Exception:  # whatever the client met: what counts is what is there afterwards
        pass


def ended(s, why):
    """how a server ended that may have: SIGABRT is the way, SIGSEGV isn't"""
    code = s.process.poll()
    if code is not None:
        p.did('aborts' if code == -signal.SIGABRT else f'exits {code}')
        p.zero('segmentation faults', int(code in (-signal.SIGSEGV, -signal.SIGBUS, -signal.SIGILL)), (why, code))


def run(number):
    s = House.__new__(House)
    s.__init__(f'd{number}', slots=0)
    c = Client(s, p)
    s.stop(signal.SIGINT)
    deadline = time.monotonic() + SECONDS
    for n in range(CASES // 2):
        if time.monotonic() > deadline:
            break
        go = TMP / f'go{number}-{n}'
        at_start = n % 4 == 0
        if at_start:
            go.touch()
        k, sticky = int(10 ** rng.uniform(0, 3.7)), rng.randint(0, 1)
        up = boot(s, dict(LD_PRELOAD=TRAP, TRAP_ROLE='serve', TRAP_MALLOC=str(k), TRAP_STICKY=str(sticky), TRAP_GO=str(go), TRAP_TELL=str(TMP / f'tell{number}-{n}')))
        go.touch()
        if up:
            for again in range(3):
                if s.process.poll() is None:
                    walk(s, c, f'n{n}-{again}')
        with lock:
            p.did('cases')
            p.did('allocations that failed', int((TMP / f'tell{number}-{n}').exists()))
            ended(s, (k, sticky))
        if s.process.poll() is None:
            s.kill()
        if not boot(s, {}):
            p.zero('no restart', 1, (k, sticky, s.log.read_text()[-400:]))
            return
        for key, body in list(c.bodies.items())[-9:]:
            c.sure(key, body)
        s.kill()
    # a real limit of memory, while it is asked for much
    for n in range(2):
        boot(s, {})
        size = int(open(f'/proc/{s.process.pid}/statm').read().split()[0]) * 4096
        resource.prlimit(s.process.pid, resource.RLIMIT_AS, (size + (rng.randint(1, 12) << 20),) * 2)
        for i in range(6):
            c.once(f'big{n}-{i}', dict(queue='led', name=f'big{n}-{i}', data='x' * 900000), timeout=5)
        with lock:
            p.did('limited lives')
            ended(s, 'limit')
        s.kill()
    if boot(s, {}):
        for key, body in list(c.bodies.items()):
            c.sure(key, body)
        with lock:
            ledger_check(p, s, [c])
            verify(p, s)
            p.did('tasks', len(c.ledger))
        s.stop(signal.SIGINT)
    else:
        p.zero('no restart', 1, s.log.read_text()[-400:])


threads = [threading.Thread(target=run, args=(i,)) for i in range(2)]
for t in threads:
    t.start()
for t in threads:
    t.join()
p.report()
end()
