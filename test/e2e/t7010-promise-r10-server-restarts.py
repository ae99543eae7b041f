#!/usr/bin/env python3
# time limit: 200
"""R10, restarting the server disturbs nothing: killed again and again with jobs running, no job runs twice, no byte of a log is lost."""
import hashlib
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'promises'))
from promise import Promise, rng, scaled, verify  # noqa: E402
from house import TMP, House, end, until  # noqa: E402

JOBS, KILLS = scaled(8), scaled(10)
p = Promise('R10', 'restarting the server disturbs nothing')
for what in ('reruns', 'lost log bytes', 'log mismatches', 'wrong ends'):
    p.zero(what)
s = House('data', slots=JOBS)
script = 'echo x >> {t}/ran{i}; n=0; while [ ! -e {t}/go{i} ]; do echo "job {i} line $n"; n=$((n+1)); sleep 0.04; done; echo $n > {t}/count{i}; head -c 200000 {t}/noise; exit {exit}'
noise = rng.randbytes(200000)
(TMP / 'noise').write_bytes(noise)
ids = [s.enqueue(dict(name=f'j{i}', script=script.format(t=TMP, i=i, exit=i % 3)))['id'] for i in range(JOBS)]
until(lambda: all((TMP / f'ran{i}').exists() for i in range(JOBS)), 'all jobs run', 60)
left = list(range(JOBS))
for kill in range(KILLS):
    if kill % 2 and left:
        (TMP / f'go{left.pop()}').touch()  # one ends around the kill
    deadline = time.monotonic() + rng.uniform(0.05, 0.6)
    while time.monotonic() < deadline:
        s.get('/healthz')
        time.sleep(0.03)
    s.kill()
    p.did('kills')
    s.start()
for i in left:
    (TMP / f'go{i}').touch()
done = s.ended(*ids, seconds=60)
for i, task in enumerate(done):
    p.did('jobs')
    p.zero('reruns', len((TMP / f'ran{i}').read_text().split()) - 1 + len(task['attempts']) - 1, (i, task))
    p.zero('wrong ends', int((task['state'], task['attempts'][-1]['exit']) != ('D' if i % 3 == 0 else 'F', i % 3)), task)
    if not (TMP / f'count{i}').exists():
        p.zero('wrong ends', 1, f'job {i} was never let run to its end')
        continue
    wanted = b''.join(b'job %d line %d\n' % (i, n) for n in range(int((TMP / f'count{i}').read_text()))) + noise
    got = s.log_bytes(task['id'])
    p.did('log bytes', len(wanted))
    p.zero('lost log bytes', max(0, len(wanted) - len(got)), (i, len(wanted), len(got)))
    p.zero('log mismatches', int(hashlib.sha256(got).digest() != hashlib.sha256(wanted).digest()), i)
verify(p, s)
p.report()
end()
