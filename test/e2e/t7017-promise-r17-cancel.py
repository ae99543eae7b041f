#!/usr/bin/env python3
# time limit: 240
"""R17, cancel is atomic with completion and leaves no process: races of cancel and finish, and process trees that don't want to go."""
import pathlib
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'promises'))
from promise import Promise, rng, scaled, verify  # noqa: E402
from house import ENDED, NAP, TMP, House, Worker, end, processes, until  # noqa: E402

RACES, TREES = scaled(200), scaled(2)
p = Promise('R17', 'cancel is atomic with completion')
for what in ('both outcomes', 'neither outcome', 'answers that disagree with the end', 'surviving processes'):
    p.zero(what)
s = House('data', '--grace', '1s', slots=8)
ODD = NAP

# -- races at the door: the two requests go out together, in both orders
worker = Worker(s, 'w', slots=1000, labels={'race': 'yes'}, kinds=['command'])
ids = [t['id'] for t in s.enqueue(*[dict(queue='race', name=f'r{i}', command='x', labels={'race': 'yes'}) for i in range(RACES)])]
grants = {}
until(lambda: [grants.update({g['task']: g}) for g in worker.claim(free=RACES, wait_ms=100, renew=[dict(task=g['task'], fence=g['fence']) for g in grants.values()])] is not None
      and len(grants) == RACES, 'all are granted', 60)
for i, task_id in enumerate(ids):
    answers = {}
    gate = threading.Barrier(2)

    def act(what, call):
        gate.wait()
        answers[what] = call()
    pair = [threading.Thread(target=act, args=('finish', lambda: worker.finish(grants[task_id], exit=0))),
            threading.Thread(target=act, args=('cancel', lambda: s.post(f'/v1/tasks/{task_id}/cancel', dict(reason='race'))))]
    for t in pair if i % 2 else reversed(pair):
        t.start()
    for t in pair:
        t.join()
    state = s.state(task_id)
    events = [e['to'] for e in s.events(f'since=0&task={task_id}&limit=1000') if e['kind'] == 'move']
    p.did('races')
    p.did('ended ' + state)
    p.zero('both outcomes', int(sum(e in ENDED for e in events) > 1), (task_id, events))
    p.zero('neither outcome', int(state not in ('D', 'T')), (state, answers))
    # a cancel that was taken is T, one that came too late is told so
    late = answers['cancel'].status == 409
    p.zero('answers that disagree with the end', int(answers['finish'].status != 200 or (state == 'D') != late), (state, answers))
    if i % 50 == 49:
        worker.poll(free=0, renew=[dict(task=g['task'], fence=g['fence']) for k, g in grants.items() if k > task_id])

# -- processes that don't want to go
NASTY = [
    'sleep {o}', 'trap "" TERM HUP INT; while :; do sleep {o}; done', '(setsid sleep {o} &) ; sleep {o}', 'setsid sh -c "trap \\"\\" TERM; sleep {o}; sleep {o}" & sleep {o}',
    '(setsid sh -c "kill -STOP \\$\\$; sleep {o}") & sleep {o}', 'f() {{ [ $1 -gt 0 ] && (setsid sleep {o} & f $(($1-1))) & wait; }}; f 8; sleep {o}', 'kill -STOP $$; sleep {o}',
    'python3 -c "import os,time,signal\nfor i in range(6):\n  if os.fork()==0:\n    os.setsid(); signal.signal(15, signal.SIG_IGN)\n    if os.fork(): os._exit(0)\n    os.execvp(\'sleep\', [\'sleep\', \'{o}\'])\ntime.sleep(1000)"',
    'env -i setsid sleep {o} & exec sleep {o}', 'while :; do sleep {o} & sleep 0.02; done',
]
for round in range(TREES):
    jobs = [t['id'] for t in s.enqueue(*[dict(name=f'nasty{round}-{i}', retry=dict(attempts=1), script=f'touch {TMP}/up{round}-{i}\n' + text.format(o=ODD)) for i, text in enumerate(NASTY)])]
    open_jobs = dict(enumerate(jobs))
    deadline = time.monotonic() + 60
    asked = {}
    while open_jobs and time.monotonic() < deadline:
        for i, job in list(open_jobs.items()):
            if (TMP / f'up{round}-{i}').exists() and job not in asked:
                time.sleep(rng.uniform(0, 0.15))
                asked[job] = time.monotonic()
                s.post(f'/v1/tasks/{job}/cancel', dict(reason='go away'))
            if s.state(job) in ENDED:
                p.did('trees')
                p.bound('seconds from cancel to the end', time.monotonic() - asked[job], 10)
                p.zero('answers that disagree with the end', int(s.state(job) != 'T'), s.task(job))
                del open_jobs[i]
        time.sleep(0.02)
    p.zero('neither outcome', len(open_jobs), open_jobs)
    until(lambda: not processes(ODD), seconds=30)
    left = processes(ODD)
    p.zero('surviving processes', len(left), left)
verify(p, s)
p.report()
end()
