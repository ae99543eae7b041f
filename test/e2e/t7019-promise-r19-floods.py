#!/usr/bin/env python3
# time limit: 240
"""R19, bounded under flood: one job that writes a great deal, many at once, bytes one by one, one endless line: the server's memory hardly grows, the cap
is marked exactly where it is, and other calls are answered."""
import pathlib
import re
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'promises'))
from promise import Promise, scaled, special_build, verify  # noqa: E402

special_build()  # plain: a sanitizer's memory isn't the server's
from house import House, end  # noqa: E402

MIB = 1 << 20
BIG, MANY = scaled(200) * MIB, 50
p = Promise('R19', 'bounded under flood')
for what in ('wrong sizes', 'not done', 'calls that failed', 'cap marks missing'):
    p.zero(what)
LIMIT = 128 * MIB
s = House('data', '--log-limit', '128MiB', slots=8)


def rss():
    return int(re.search(r'VmRSS:\s+(\d+)', pathlib.Path(f'/proc/{s.process.pid}/status').read_text())[1]) * 1024


def warm():
    ids = [s.enqueue(dict(name=f'warm{i}', command='seq 20000'))['id'] for i in range(4)]
    s.ended(*ids)


warm()
base, peak, slow, stop = rss(), [0], [], threading.Event()


def watch():
    while not stop.is_set():
        peak[0] = max(peak[0], rss())
        began = time.monotonic()
        try:
            if s.get('/v1/tasks?limit=10', local=True, timeout=20).status != 200:
                p.zero('calls that failed', 1)
        except OSError as error:
            p.zero('calls that failed', 1, error)
        slow.append(time.monotonic() - began)
        time.sleep(0.05)


watcher = threading.Thread(target=watch)
watcher.start()
jobs = {
    'one line without an end': (dict(command=f'head -c {BIG} /dev/zero'), BIG),
    'lines': (dict(script=f'yes 0123456789 | head -c {BIG // 4}'), BIG // 4),
    'bytes one by one': (dict(command='dd if=/dev/zero of=/dev/stdout bs=1 count=100000 status=none'), 100000),
}
began = time.monotonic()
ids = {name: s.enqueue(dict(name=f'flood{i}', **task))['id'] for i, (name, (task, _)) in enumerate(jobs.items())}
many = [t['id'] for t in s.enqueue(*[dict(name=f'many{i}', script=f'head -c {MIB} /dev/urandom') for i in range(MANY)])]
done = s.ended(*ids.values(), *many, seconds=200)
stop.set()
watcher.join()
took = time.monotonic() - began
for task in done:
    p.zero('not done', int(task['state'] != 'D'), task)
sizes = {}
for (name, (_, wrote)), task in zip(jobs.items(), done):
    size = task['attempts'][-1]['log_bytes']
    sizes[name] = size
    p.did('bytes written', wrote)
    if wrote > LIMIT:  # cut, and the mark says exactly where
        mark = b'\n[weir: log cut at %d bytes, %d bytes dropped]\n' % (LIMIT, wrote - LIMIT)
        tail = s.get(f'/v1/tasks/{task["id"]}/log?offset={LIMIT}').body
        p.zero('cap marks missing', int(tail != mark or size != LIMIT + len(mark)), (size, tail))
        p.did('capped')
    else:
        p.zero('wrong sizes', int(size != wrote), (name, size, wrote))
for task in done[len(jobs):]:
    p.did('bytes written', MIB)
    p.zero('wrong sizes', int(task['attempts'][-1]['log_bytes'] != MIB), task)
print(f'# {sizes} in {took:.1f} s; answers: median {sorted(slow)[len(slow) // 2] * 1000:.1f} ms, p99 {sorted(slow)[int(len(slow) * 0.99)] * 1000:.1f} ms of {len(slow)}')
p.did('jobs', len(done))
p.bound('growth of the server in MiB', (peak[0] - base) / MIB, 32)
verify(p, s)
p.report()
end()
