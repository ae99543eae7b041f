#!/usr/bin/env python3
# time limit: 240
"""R8, never stuck: server, executors and shims are killed and stopped at random under work with dependencies, semaphores and pauses; then there is peace,
and everything drains. While it goes, `why` names a reason for every task that hasn't ended and doesn't run."""
import http.client
import os
import pathlib
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'promises'))
from promise import Agent, Client, Promise, ledger_check, rng, scaled, tasks_of, verify  # noqa: E402
from house import ENDED, TMP, House, alive, end, until  # noqa: E402

SECONDS, PEACE = 20 * scaled(1), 60
p = Promise('R8', 'never stuck')
for what in ('undrained', 'without a reason', 'semaphores held by nobody'):
    p.zero(what)
s = House('data', slots=2, lease='2s')
agents = [Agent(s, f'a{i}', slots=2) for i in range(2)]
c = Client(s, p)
deadline = time.monotonic() + SECONDS
n, stopped = 0, []


def shims():
    return s.shims()


def signal_one(pids, signo):
    if pids:
        pid = rng.choice(pids)
        try:
            os.kill(pid, signo)
        except ProcessLookupError:
            pass


def reasons():
    try:
        for t in s.get('/v1/tasks?queue=led&state=QSP&limit=1000', local=True).json['tasks']:
            why = s.get(f'/v1/tasks/{t["id"]}/why', local=True).json
            if why['state'] in 'QS':
                p.did('whys asked')
                p.zero('without a reason', int(not why.get('conditions')), why)
            elif why['state'] == 'P':
                p.did('whys asked')
                p.zero('without a reason', int(not why.get('conditions') and not why.get('verdict')), why)
    except (OSError, http.client.HTTPException):
        pass


while time.monotonic() < deadline:
    for _ in range(rng.randint(1, 4)):
        n += 1
        task = dict(queue='led', name=f't{n}', retry=dict(attempts=50), script=f'sleep {rng.choice([0, 0.05, 0.3])}; exit 0')
        if n > 3 and rng.random() < 0.5:
            known = [c.ledger[k] for k in list(c.ledger)[-6:]]
            task['depends'] = rng.sample(known, min(len(known), rng.randint(1, 3)))
        if rng.random() < 0.3:
            task['semaphores'] = [rng.choice(['a', 'b'])]
        c.once(f't{n}', task)
    roll = rng.random()
    p.did('faults')
    if roll < 0.2:
        s.kill()
        s.start()
    elif roll < 0.4:
        agent = rng.choice(agents)
        agent.kill() if roll < 0.3 else agent.kill_all()
        agent.start()
    elif roll < 0.5:
        signal_one(s.executors(), signal.SIGKILL)
    elif roll < 0.65:
        signal_one(shims(), signal.SIGKILL)
    elif roll < 0.75:
        agent = rng.choice(agents)
        if alive(agent.process.pid):
            os.kill(agent.process.pid, signal.SIGSTOP)
            stopped.append((time.monotonic() + rng.uniform(0.5, 4), agent.process.pid))
    elif roll < 0.85:
        word = rng.choice(['pause', 'resume'])
        s.post(f'/v1/lanes/led/{word}', dict(reason='test'), local=True)
    else:
        reasons()
    for entry in list(stopped):
        if time.monotonic() > entry[0]:
            stopped.remove(entry)
            if alive(entry[1]):
                os.kill(entry[1], signal.SIGCONT)
    time.sleep(rng.uniform(0, 0.3))
# -- peace
for _, pid in stopped:
    if alive(pid):
        os.kill(pid, signal.SIGCONT)
s.post('/v1/lanes/led/resume', dict(reason='peace'), local=True)
for key, body in list(c.bodies.items()):
    c.sure(key, body)
began = time.monotonic()
reasons()
drained = until(lambda: not s.get('/v1/tasks?queue=led&state=QSPX', local=True).json['tasks'], seconds=PEACE)
p.bound('seconds of peace to drain', time.monotonic() - began, PEACE)
left = [s.get(f'/v1/tasks/{t["id"]}/why', local=True).json for t in s.get('/v1/tasks?queue=led&state=QSPX', local=True).json['tasks']]
p.zero('undrained', len(left), left[:3])
tasks = ledger_check(p, s, [c])
p.did('tasks', len(tasks))
p.zero('undrained', sum(t['state'] not in ENDED for t in tasks))
p.zero('semaphores held by nobody', sum(x.get('used', 0) for x in s.get('/v1/semaphores', local=True).json.get('semaphores', [])))
verify(p, s)
for a in agents:
    a.stop()
p.report()
end()
