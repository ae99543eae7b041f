#!/usr/bin/env python3
# time limit: 240
"""R9, a dead executor's task runs elsewhere in time: kill -9, SIGSTOP and a cut link, with a lease of 3 s: the slowest rerun starts within 6 s."""
import os
import pathlib
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'promises'))
from chaos import Chaos  # noqa: E402
from promise import Agent, Promise, rng, scaled, verify  # noqa: E402
from house import NAP, TMP, House, end, until  # noqa: E402

ROUNDS, LEASE = scaled(2), 3
p = Promise('R9', 'a dead executor\'s task runs elsewhere in time')
for what in ('never reran', 'double effects'):
    p.zero(what)
s = House('data', slots=0, lease=f'{LEASE}s')
chaos = Chaos(s.port, 1, 0, 0, 0, 0)
backup = Agent(s, 'backup', slots=40)
until(backup.active, 'the executor that stays is there', 30)
n = 0
for round in range(ROUNDS):
    for way in ('kill', 'stop', 'link'):
        n += 1
        s.post('/v1/executors/backup/pause', dict(reason='not yet'))
        name = f'victim{n}'
        victim = Agent(s, name, slots=3, url=f'http://127.0.0.1:{chaos.port}')
        until(victim.active, seconds=30)
        jobs = s.enqueue(*[dict(name=f'r{n}-{i}', script=f'date +%s.%N > {TMP}/began-{n}-{i}-$WEIR_ATTEMPT; [ $WEIR_ATTEMPT -gt 1 ] || sleep {NAP}') for i in range(3)])
        until(lambda: all((TMP / f'began-{n}-{i}-1').exists() for i in range(3)), seconds=30)
        time.sleep(rng.uniform(0, 0.7))
        s.post('/v1/executors/backup/resume', dict(reason='now'))
        began = time.time()
        if way == 'kill':
            victim.kill_all()
        elif way == 'stop':
            os.kill(victim.process.pid, signal.SIGSTOP)
        else:
            chaos.down = True
        p.did(way)
        done = s.ended(*[t['id'] for t in jobs], seconds=30)
        for i, task in enumerate(done):
            path = TMP / f'began-{n}-{i}-2'
            p.zero('never reran', int(not path.exists()), task)
            p.zero('double effects', int([a['outcome'] for a in task['attempts']] != ['lost', 'done']), task)
            if path.exists():
                p.bound('seconds to the slowest rerun', float(path.read_text()) - began, 2 * LEASE)
                p.did('reruns')
        chaos.down = False
        if way == 'stop':
            os.kill(victim.process.pid, signal.SIGCONT)
        victim.kill_all()
verify(p, s)
backup.stop()
chaos.close()
p.report()
end()
