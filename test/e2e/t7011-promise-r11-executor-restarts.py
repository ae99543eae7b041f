#!/usr/bin/env python3
# time limit: 200
"""R11, restarting the executor kills no job: killed again and again in the middle of jobs, the next one adopts them; exits and logs are right."""
import datetime
import hashlib
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'promises'))
from promise import Agent, Promise, rng, scaled, verify  # noqa: E402
from house import ENDED, TMP, House, end, until  # noqa: E402



def seconds(attempt):
    began, ended = (datetime.datetime.fromisoformat(attempt[x].replace('Z', '+00:00')) for x in ('started', 'finished'))
    return (ended - began).total_seconds()


WAVES, KILLS, JOBS = scaled(3), 10, 6
p = Promise('R11', 'restarting the executor kills no job')
for what in ('killed jobs', 'wrong exits', 'sha256 mismatches', 'reruns', 'wrong outputs', 'grants that waited for their lease'):
    p.zero(what)
s = House('data', slots=0)
agent = Agent(s, 'agent', slots=JOBS)
(TMP / 'noise').write_bytes(rng.randbytes(150000))
noise = (TMP / 'noise').read_bytes()
script = 'echo $WEIR_ATTEMPT >> {t}/ran{i}; n=0; while [ ! -e {t}/go{i} ]; do echo "line $n"; n=$((n+1)); sleep 0.03; done; echo $n > {t}/count{i}; cat {t}/noise; echo v={i} >> $WEIR_OUTPUT; exit {exit}'
number = 0
for wave in range(WAVES):
    names = list(range(number, number + JOBS))
    number += JOBS
    ids = [s.enqueue(dict(name=f'j{i}', retry=dict(attempts=30), script=script.format(t=TMP, i=i, exit=i * 5 % 97)))['id'] for i in names]
    left = list(names)
    until(lambda: all((TMP / f'ran{i}').exists() for i in names[:2]), seconds=60)  # the first kill comes while others are being started
    killed = 0
    while killed < KILLS:
        time.sleep(rng.uniform(0, 0.5))
        if killed % 2 and len(left) > 1:
            (TMP / f'go{left.pop()}').touch()
        agent.kill()
        killed += 1
        p.did('kills')
        agent.start()
    for i in left:
        (TMP / f'go{i}').touch()
    for i, task in zip(names, s.ended(*ids, seconds=60)):
        p.did('jobs')
        last = task['attempts'][-1] if task['attempts'] else {}
        began = (TMP / f'ran{i}').read_text().split() if (TMP / f'ran{i}').exists() else []
        ran = len(began)
        # a grant that died with the executor before its job began is given again; that isn't a killed job
        p.zero('killed jobs', sum(a['outcome'] in ('lost', 'killed') and str(a['number']) in began for a in task['attempts']), task)
        p.zero('grants that waited for their lease', sum(a['outcome'] == 'lost' and str(a['number']) not in began and seconds(a) > 14 for a in task['attempts']), task)
        p.zero('reruns', max(0, ran - 1), (i, ran, task))
        p.zero('wrong exits', int(task['state'] not in ENDED or last.get('exit') != i * 5 % 97), task)
        p.zero('wrong outputs', int(task['outputs'] != {'v': str(i)}), task['outputs'])
        if ran == 1 and (TMP / f'count{i}').exists():
            wanted = b''.join(b'line %d\n' % n for n in range(int((TMP / f'count{i}').read_text()))) + noise
            got = s.log_bytes(task['id'])
            p.zero('sha256 mismatches', int(hashlib.sha256(got).digest() != hashlib.sha256(wanted).digest()), (i, len(got), len(wanted)))
unborn = sum(e.get('reason') == 'the grant did not arrive' for e in s.events())
print(f'# {unborn} grants died with the executor before their jobs began')
verify(p, s)
agent.stop()
p.report()
end()
