#!/usr/bin/env python3
"""A random graph of real jobs while server, executor and shims are killed: everything that can end ends as it must, and the history obeys the rules."""
# time limit: 150
import os
import pathlib
import random
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
from house import ENDED, TMP, House, end, ok, same, until  # noqa: E402

SEED = int(os.environ.get('WEIR_TEST_SEED', '7'))
rnd = random.Random(SEED)
print(f'# WEIR_TEST_SEED={SEED}', flush=True)
LEGAL = {'Q': 'SFAT', 'S': 'PDFAT', 'P': 'XSAT', 'X': 'DFTAPS', 'D': '', 'F': 'PS', 'T': 'PS', 'A': 'PS'}
N = 90
s = House('data', slots=4, lease='4s')

# -- a graph: each task waits for some earlier ones; some fail; some share a semaphore
tasks, wanted = [], {}
for i in range(N):
    exit_code = rnd.choice([0, 0, 0, 0, 0, 0, 99, 1, 100])
    task = dict(name=f't{i}', retry=dict(attempts=50, backoff='100ms'), priority=rnd.randint(-3, 3),
                script=f'echo "begin {i}"; sleep 0.{rnd.randint(0, 3)}; echo out={i} >> $WEIR_OUTPUT; echo "end {i}"; exit {exit_code}')
    earlier = [f't{j}' for j in range(max(0, i - 12), i)]
    task['depends'] = rnd.sample(earlier, min(len(earlier), rnd.choice([0, 0, 1, 1, 2])))
    task['after'] = [x for x in rnd.sample(earlier, min(len(earlier), rnd.choice([0, 0, 0, 1]))) if x not in task['depends']]
    if rnd.random() < 0.2:
        task['semaphores'] = ['narrow']
    tasks.append(task)
    own = 'D' if exit_code in (0, 99) else 'F'
    wanted[task['name']] = own if all(wanted[d] == 'D' for d in task['depends']) else 'F'
made = s.enqueue(*tasks)
ids = {t['key']['name']: t['id'] for t in made}


# -- chaos, until all has ended or time is over
def ended():
    return not s.get('/v1/tasks?state=QSPX&limit=1').json['tasks']


deadline = time.monotonic() + 60
kills = {'server': 0, 'executor': 0, 'shim': 0, 'stop': 0}
while not ended() and time.monotonic() < deadline:
    if sum(kills.values()) < 25:
        what = rnd.choice(['server', 'executor', 'shim', 'shim', 'stop'])
        kills[what] += 1
        if what == 'server':
            s.kill()
            s.start()
        else:
            pids = s.shims() if what == 'shim' else s.executors()
            for pid in rnd.sample(pids, min(1, len(pids))):
                try:
                    os.kill(pid, signal.SIGSTOP if what == 'stop' else signal.SIGKILL)
                    if what == 'stop':
                        time.sleep(rnd.random())  # it is the pace of the chaos, nothing is waited for
                        os.kill(pid, signal.SIGCONT)
                except ProcessLookupError:
                    pass
    time.sleep(rnd.random() * 0.8)
ok(until(ended, seconds=40), f'all has ended in spite of {kills}', [(t['key']['name'], t['state']) for t in s.get('/v1/tasks?state=QSPX').json['tasks']])

# -- ends, logs, outputs
final = {name: s.task(i) for name, i in ids.items()}
same({n: t['state'] for n, t in final.items() if t['state'] != wanted[n]}, {}, 'each task ended as its exit and its dependencies say')
faults = []
for i in range(N):
    t = final[f't{i}']
    ran = [a for a in t['attempts'] if a['outcome'] not in ('lost', 'killed')]
    if len(ran) > 1:
        faults.append(f't{i} ran to its end twice: {t["attempts"]}')
    if ran and s.log_bytes(t['id']) != f'begin {i}\nend {i}\n'.encode():
        faults.append(f't{i}: the log is {s.log_bytes(t["id"])}')
    if ran and t['outputs'] != {'out': str(i)}:
        faults.append(f't{i}: the outputs are {t["outputs"]}')
    if any(final[d]['state'] != 'D' for d in tasks[i]['depends']) and t['attempts']:
        faults.append(f't{i} ran though a dependency failed')
same(faults, [], 'each end, log and output counts once and is whole')

# -- the history
events = []
while True:
    page = s.events(f'since={events[-1]["seq"] if events else 0}&limit=1000')
    if not page:
        break
    events += page
same([e['seq'] for e in events], list(range(1, len(events) + 1)), f'{len(events)} events, dense')
state, grants, faults = {}, {}, []
narrow = {ids[t['name']] for t in tasks if t.get('semaphores')}
needs = {ids[t['name']]: ([ids[d] for d in t['depends']], [ids[d] for d in t['after']]) for t in tasks}
for e in events:
    if not e.get('to') or e.get('task') not in needs:
        continue
    task, old, new = e['task'], e.get('from'), e['to']
    if old is not None and (state.get(task) != old or new not in LEGAL[old]):
        faults.append(f'{e}: it was {state.get(task)}')
    state[task] = new
    if new == 'X':
        if any(state.get(d) != 'D' for d in needs[task][0]) or any(state.get(d) not in ENDED for d in needs[task][1]):
            faults.append(f'{e}: started before its time')
        if task in narrow and sum(state.get(x) == 'X' for x in narrow) > 1:
            faults.append(f'{e}: two hold the semaphore')
        if e['fence'] <= grants.get(task, ''):
            if e['fence'] != grants[task]:
                faults.append(f'{e}: an older fence')
        grants[task] = e['fence']
same(faults[:5], [], 'every move is legal, in order, and within the semaphore')
same(s.cli('verify').code, 0, 'weir verify')
same(sum(x['used'] + x['waiting'] for x in s.get('/v1/semaphores').json['semaphores']), 0, 'the semaphore is free again')
ok(until(lambda: s.get('/v1/stats').json['working'] == 0, seconds=20), 'nothing is counted as working', s.get('/v1/stats'))
again = s.enqueue(dict(name='again', command='echo well'))['id']
same((s.ended(again)[0]['state'], s.log_bytes(again)), ('D', b'well\n'), 'and it works on')
same(s.stop(signal.SIGINT, 40), 0, 'SIGINT')
ok(until(lambda: not s.left(), seconds=20), 'leaves nothing', s.left())
end()
