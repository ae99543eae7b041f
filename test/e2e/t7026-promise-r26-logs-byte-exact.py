#!/usr/bin/env python3
# time limit: 240
"""R26, logs arrive byte-exact, once: a proxy cuts, drops, doubles and reorders between executor and server, and both ends are killed."""
import hashlib
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'promises'))
from chaos import Chaos  # noqa: E402
from promise import SEED, Agent, Promise, rng, scaled, verify  # noqa: E402
from house import ENDED, TMP, House, end, until  # noqa: E402

JOBS = scaled(48)
p = Promise('R26', 'logs arrive byte-exact, once')
for what in ('sha256 mismatches', 'not done', 'reruns'):
    p.zero(what)
s = House('data', slots=0)
# executors outside the server's own user's sockets speak TCP; without a token the loopback is enough
chaos = Chaos(s.port, SEED)
agent = Agent(s, 'a', slots=6, url=f'http://127.0.0.1:{chaos.port}')
ids, wanted = [], {}
for i in range(JOBS):
    blob = rng.randbytes(rng.choice([0, 1, 70, 4096, 65537, 300000, 1500000]))
    (TMP / f'blob{i}').write_bytes(blob)
    script = rng.choice(['sleep 0.5; cat {b}', 'head -c 1000 {b}; sleep 1; tail -c +1001 {b}', 'split -b 9000 --filter="cat; sleep 0.01" {b}' if len(blob) < 500000 else 'cat {b}'])
    ids.append(s.enqueue(dict(name=f'j{i}', script=f'echo x >> {TMP}/ran{i}; ' + script.format(b=TMP / f'blob{i}')))['id'])
    wanted[ids[-1]] = blob
kills = 0
deadline = time.monotonic() + 60 + 10 * JOBS
next_kill = time.monotonic() + 1
while time.monotonic() < deadline and not all(s.state(i) in ENDED for i in ids):
    if kills < scaled(6) and time.monotonic() > next_kill:
        kills += 1
        p.did('kills')
        if kills % 2:
            s.kill()
            s.start()
            chaos.port_to = s.port
        else:
            agent.kill()
            agent.start()
        next_kill = time.monotonic() + rng.uniform(0.4, 1.5)
    time.sleep(0.05)
chaos.calm = True
for i, task in enumerate(s.ended(*ids, seconds=60)):
    p.did('jobs')
    p.did('bytes', len(wanted[task['id']]))
    p.zero('not done', int(task['state'] != 'D'), task)
    p.zero('reruns', len((TMP / f'ran{i}').read_text().split()) - 1 if (TMP / f'ran{i}').exists() else 0, task)
    got = s.log_bytes(task['id'])
    p.zero('sha256 mismatches', int(hashlib.sha256(got).digest() != hashlib.sha256(wanted[task['id']]).digest()), (task['id'], len(got), len(wanted[task['id']])))
for name, n in chaos.counts.items():
    p.did(name, n)
verify(p, s)
agent.stop()
chaos.close()
p.report()
end()
