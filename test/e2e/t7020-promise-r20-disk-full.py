#!/usr/bin/env python3
# time limit: 240
"""R20, a full disk is a state: a small file system is filled, drained and filled again, by bytes and by inodes: nothing is lost, it recovers by itself."""
import os
import pathlib
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'promises'))
from promise import Client, Promise, ledger_check, scaled, verify  # noqa: E402
from house import ENDED, TMP, House, end, ok, skip, until  # noqa: E402

ROUNDS = scaled(3)
p = Promise('R20', 'a full disk is a state')
for what in ('accepted lost', 'running work lost', 'log mismatches', 'restarts'):
    p.zero(what)
room = TMP / 'room'
room.mkdir()
mounted = subprocess.run(['mount', '-t', 'tmpfs', '-o', 'size=48m,nr_inodes=600,mode=0755', 'weir-test', str(room)], capture_output=True, text=True)
if mounted.returncode != 0:
    skip('a full disk', 'no tmpfs can be mounted here')
    end()


def free_bytes():
    st = os.statvfs(room)
    return st.f_bavail * st.f_frsize


def fill_bytes():
    with open(room / 'filler', 'ab') as f:
        while True:
            try:
                f.write(b'x' * max(1, min(65536, free_bytes())))
                f.flush()
            except OSError:
                return
            if free_bytes() == 0:
                return


def fill_inodes():
    (room / 'many').mkdir(exist_ok=True)
    for i in range(100000):
        try:
            os.close(os.open(room / 'many' / str(i), os.O_CREAT | os.O_WRONLY))
        except OSError:
            return


def drain():
    for f in [room / 'filler', *(room / 'many').glob('*')]:
        try:
            f.unlink()
        except OSError:
            pass


s = None
try:
    s = House('room/data', slots=2)
    c = Client(s, p)
    pid, n = s.process.pid, 0
    for round in range(ROUNDS):
        for way in (fill_bytes, fill_inodes):
            n += 1
            tag = f'r{n}'
            job = c.sure(f'{tag}-job', dict(queue='led', name=f'{tag}-job', retry=dict(attempts=9), script=f'echo begin; while [ ! -e {TMP}/go{n} ]; do sleep 0.03; done; seq 1 500'))
            until(lambda: b'begin' in s.log_bytes(job), seconds=30)
            way()
            refusals = 0
            for i in range(400):  # what the WAL has room for already is still taken
                if i >= 12 and (refusals or way is fill_inodes):
                    break
                answer = c.once(f'{tag}-{i}', dict(queue='led', name=f'{tag}-{i}', data='x' * 20000))
                refusals += answer is not None and answer.status == 507
            p.did('fills')
            p.did('refused with 507', refusals)
            (TMP / f'go{n}').touch()
            if way is fill_bytes:  # the ballast lets running work end
                done = until(lambda: s.state(job) in ENDED, seconds=40)
                p.zero('running work lost', int(not done or s.state(job) != 'D' or len(s.task(job)['attempts']) != 1), s.task(job))
            drain()
            began = time.monotonic()
            until(lambda: (c.once(f'{tag}-again', dict(queue='led', name=f'{tag}-again', command='true')), f'{tag}-again' in c.ledger)[1], seconds=30)
            p.bound('seconds to recover', time.monotonic() - began, 10)
            for key, body in list(c.bodies.items()):
                c.sure(key, body)
            done = until(lambda: s.state(job) in ENDED, seconds=30)
            p.zero('running work lost', int(s.state(job) != 'D'), s.task(job))
            p.zero('log mismatches', int(s.log_bytes(job) != b'begin\n' + b''.join(b'%d\n' % i for i in range(1, 501))), s.log_bytes(job)[-80:])
    p.zero('restarts', int(s.process.pid != pid or s.process.poll() is not None))
    ledger_check(p, s, [c])
    verify(p, s)
    s.stop(signal.SIGINT, 40)
finally:
    drain()
    if s and s.process.poll() is None:
        s.stop(signal.SIGINT, 30)
    __import__('house').sweep()
    until(lambda: subprocess.run(['umount', str(room)], capture_output=True).returncode == 0, seconds=20)
ok(not os.path.ismount(room), 'the room is gone')
p.report()
end()
