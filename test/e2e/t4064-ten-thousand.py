#!/usr/bin/env python3
# time limit: 400
"""Ten thousand that wait, as many as one call may have: a call with two semaphores, a limit raised by as many, a paused queue of as many whose holder ends. Each
in seconds of the server's processor, in little memory, and /healthz answers all the while. On SQLite, and on PostgreSQL with WEIR_TEST_STORE (test/run postgres).

When all that waited was looked at for each, the first of the three took 53 s and 12,554 MiB; 2,000 took 3.3 s for the second and 1.8 s for the third, and grew with the cube."""
import json
import os
import pathlib
import signal
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
from house import TMP, House, Worker, end, ok, same, until  # noqa: E402

N = 10000
CPU_S, MEMORY_MIB, HEALTH_S = 15, 400, 5  # with sanitizers, on a busy machine; without, 0.5 s and 50 MiB
conf = TMP / 'weir.yaml'


def write(limit):
    conf.write_text(json.dumps({'semaphores': {'one': 1, 'five': 5, 'third': 1, 'wide': limit}}))


write(1)
server = House('site', '--config', str(conf), slots=0, lease='600s')
worker = Worker(server, kinds=['data'])  # slots are for those whom somebody can start


def spent():
    """seconds of processor time; MiB that it has at most had"""
    fields = pathlib.Path(f'/proc/{server.process.pid}/stat').read_text().rsplit(')', 1)[1].split()
    peak = next(line for line in pathlib.Path(f'/proc/{server.process.pid}/status').read_text().splitlines() if line.startswith('VmHWM'))
    return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK'), int(peak.split()[1]) / 1024


class Health(threading.Thread):
    """the longest answer of /healthz"""
    def __init__(self):
        super().__init__(daemon=True)
        self.over, self.longest = threading.Event(), 0
        self.start()

    def run(self):
        while not self.over.wait(0.02):
            began = time.monotonic()
            server.get('/healthz')
            self.longest = max(self.longest, time.monotonic() - began)


def counts(queue):
    return next(lane['counts'] for lane in server.get('/v1/lanes').json['lanes'] if lane['name'] == queue)


def case(text, work, done):
    """done(): has it come about? It is asked rarely, so that asking costs little"""
    health, (cpu, memory), began = Health(), spent(), time.monotonic()
    work()
    while not (there := done()) and time.monotonic() - began < 120:
        time.sleep(0.2)
    seconds = time.monotonic() - began
    health.over.set()
    health.join()
    cpu, memory = spent()[0] - cpu, spent()[1] - memory
    ok(there and cpu < CPU_S and memory < MEMORY_MIB and health.longest < HEALTH_S,
       f'{text}: {seconds:.1f} s, {cpu:.1f} s of processor, {memory:.0f} MiB more, /healthz {health.longest:.2f} s at most', there)


def post(queue, **more):
    answer = server.post('/v1/tasks', {'tasks': [dict(name=f't{i}', queue=queue, data=i, **more) for i in range(N)]}, timeout=200)
    same((answer.status, len(answer.json['tasks'])), (201, N), f'{N} tasks in one call: {queue}')


case(f'{N} with two semaphores', lambda: post('two', semaphores=['one', 'five']), lambda: counts('two')['P'] + counts('two')['S'] == N)
same((counts('two')['P'], counts('two')['S']), (1, N - 1), 'one has both, the others wait')

post('wide', semaphores=['wide'])
same(counts('wide')['S'], N - 1, 'they wait for a limit of 1')


def raised():
    write(N + 1)
    os.kill(server.process.pid, signal.SIGHUP)


case(f'a limit raised by {N}', raised, lambda: counts('wide')['P'] == N)

holder = server.enqueue(dict(name='holder', queue='other', data=1, semaphores=['third'], priority=500))['id']
until(lambda: server.state(holder) == 'P')
post('paused', semaphores=['third'])
last = server.enqueue(dict(name='last', queue='other', data=1, semaphores=['third'], priority=-5))['id']
same(server.post('/v1/lanes/paused/pause', {'reason': 'for the test'}).status, 200, 'their queue is paused')
grant = until(lambda: [g for g in worker.claim(free=1) if g['task'] == holder], 'the holder runs')[0]
case(f'the end of what {N} of a paused queue wait for', lambda: worker.finish(grant), lambda: server.state(last) == 'P')
same((server.state(holder), server.state(last)), ('D', 'P'), 'the next that may start is behind them')
end()
