#!/usr/bin/env python3
# time limit: 150
# store: sqlite (it starts its own PostgreSQL)
"""Many executors over two servers, all with work, and one of the servers is killed: all of its executors go on with the other one, no job is lost or begun twice, and the other server
stays responsive. 100 executors here; WEIR_TEST_EXECUTORS=1000 for as many as a site may have."""
import asyncio
import collections
import json
import os
import pathlib
import random
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
from house import database, end, houses, ok, same, until  # noqa: E402

N = int(os.environ.get('WEIR_TEST_EXECUTORS', 100))
LEASE, TASKS = 10, 4 * N
pg, url = database()
a, b = houses(url, ['a', 'b'], slots=0, lease=f'{LEASE}s')
token = a.post('/v1/tokens', dict(name='t', scopes=['execute', 'read', 'enqueue']), local=True).json['token']
servers = [a, b]
begun, ended, refusals, wrong = collections.Counter(), set(), collections.Counter(), []
moved, dead = {}, []


class Fake:
    """an executor that only says it runs things; it asks the next server when one doesn't answer, with the same words"""

    def __init__(self, number):
        self.number, self.at, self.id, self.seq, self.held, self.stream = number, number % 2, None, 0, {}, None

    async def once(self, method, path, body):
        if self.stream is None:
            self.stream = await asyncio.wait_for(asyncio.open_connection('127.0.0.1', servers[self.at].port), 5)
        reader, writer = self.stream
        data = json.dumps(body).encode()
        writer.write(f'{method} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n'.encode() + data)
        head = await asyncio.wait_for(reader.readuntil(b'\r\n\r\n'), 40)
        length = next((int(line.split(b':')[1]) for line in head.split(b'\r\n') if line.lower().startswith(b'content-length:')), 0)
        return int(head.split()[1]), json.loads(await reader.readexactly(length) or b'{}')

    async def ask(self, method, path, body):
        while True:
            try:
                status, answer = await self.once(method, path, body)
                if status not in (503, 429):
                    return status, answer
                refusals[status] += 1
            except (OSError, asyncio.IncompleteReadError, asyncio.TimeoutError):
                if self.stream:
                    self.stream[1].close()
                self.stream, self.at = None, 1 - self.at
            await asyncio.sleep(0.05)

    async def live(self):
        rng = random.Random(self.number)
        status, answer = await self.ask('POST', '/v1/executors', dict(name=f'e{self.number}', instance=f'i{self.number}', slots=1, kinds=['data']))
        if status != 201:
            return wrong.append((status, answer))
        self.id = answer['id']
        while len(ended) < TASKS:
            self.seq += 1
            free = 0 if self.held else 1
            status, answer = await self.ask('POST', f'/v1/executors/{self.id}/poll', dict(free=free, seq=self.seq, wait_ms=3000 if free else 500,
                                                                                        renew=[dict(task=t, fence=f) for t, (f, _) in self.held.items()]))
            if dead and self.at == 1:
                moved.setdefault(self.number, time.monotonic() - dead[0])
            if status != 200:
                wrong.append((status, answer))
                continue
            wrong.extend(c for c in answer['cancels'] if c['task'] in self.held)
            for grant in answer['grants']:
                begun[grant['task']] += 1
                self.held[grant['task']] = (grant['fence'], time.monotonic() + rng.uniform(0.5, 4))
            for task, (fence, until_when) in list(self.held.items()):
                if time.monotonic() >= until_when:
                    status, answer = await self.ask('POST', f'/v1/tasks/{task}/finish', dict(fence=fence, exit=0))
                    if status != 200:
                        wrong.append((task, status, answer))
                    del self.held[task]
                    ended.add(task)


PROBE = '''
import http.client, sys, time
times, ready = [], 0
while time.monotonic() < float(sys.argv[2]):
    began = time.monotonic()
    c = http.client.HTTPConnection('127.0.0.1', int(sys.argv[1]), timeout=30)
    c.request('GET', '/healthz')
    c.getresponse().read()
    times.append(time.monotonic() - began)
    c.close()
    time.sleep(0.02)
times.sort()
print(times[len(times) // 2], times[int(len(times) * 0.99)], times[-1])
'''


async def story():
    fakes = [asyncio.create_task(Fake(i).live()) for i in range(N)]
    deadline = time.monotonic() + 60
    while len(begun) < N * 0.9 and time.monotonic() < deadline:
        await asyncio.sleep(0.05)
    ok(len(begun) >= N * 0.9, f'{N} executors at two servers, and all have work', len(begun), wrong[:3])
    probe = subprocess.Popen([sys.executable, '-c', PROBE, str(b.port), str(time.monotonic() + LEASE)], stdout=subprocess.PIPE, text=True)
    dead.append(time.monotonic())
    a.kill()
    deadline = time.monotonic() + 90
    while not all(f.done() for f in fakes) and time.monotonic() < deadline:
        await asyncio.sleep(0.05)
    for fake in fakes:
        fake.cancel()
    took = time.monotonic() - dead[0]
    p50, p99, worst = map(float, probe.communicate(timeout=60)[0].split())
    gone = [s for n, s in moved.items() if n % 2 == 0]
    ok(len(gone) >= N // 2 - 2 and max(gone) < LEASE, f'all executors of the killed server are heard by the other one within the lease: {len(gone)}, the last after {max(gone, default=0):.1f} s')
    ok(p99 < 1 and worst < 5, f'which stays responsive: healthz p50 {p50 * 1000:.1f} ms, p99 {p99 * 1000:.1f} ms, worst {worst * 1000:.0f} ms')
    print(f'# {TASKS} tasks ended {took:.1f} s after the kill; answers that were repeated: {dict(refusals)}', flush=True)


half = TASKS // 2
for server in servers:
    for first in range(0, half, 1000):
        answer = server.post('/v1/tasks', dict(tasks=[dict(name=f't{server.dir.name}{i}', queue='q', data=i, retry=dict(attempts=1)) for i in range(first, min(half, first + 1000))]), local=True)
        if answer.status != 201:
            raise SystemExit(f'Bail out! {answer}')
asyncio.run(story())
same(len(ended), TASKS, f'all {TASKS} jobs ended')
same(wrong[:5], [], 'no answer was wrong, no lease was taken away')
until(lambda: b.get('/v1/stats', token=token).json['processed'] >= TASKS, seconds=20)
states = collections.Counter(e['to'] for e in b.events('since=0', token=token) if e.get('task') and e.get('to'))
same((states['X'], states['D'], states['F']), (TASKS, TASKS, 0), 'each was granted once and ended once')
same({n for n in begun.values()}, {1}, 'and begun once')
a.start()
same(b.verify().code, 0, 'weir verify')
end()
