#!/usr/bin/env python3
# store: sqlite (it starts its own PostgreSQL)
"""Three servers on one PostgreSQL whose claims and finishes go side by side (decision 0016): executors claim through any of them and report to any other, twice now and
then; every task runs when what it depends on has ended, each grant is given once, each result counts once, counts are right, and the history verifies."""
import json
import pathlib
import random
import re
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
from house import Worker, database, end, houses, ok, same  # noqa: E402

TASKS, LAYER, SECONDS = 600, 200, 150
rng = random.Random(5514)
pg, url = database()
servers = houses(url, 'abc', slots=0, lease='30s')

# layers of tasks that wait for some of the layer before; some fail once and are tried again
tasks, before = [], []
for first in range(0, TASKS, LAYER):
    wishes = [dict(queue=f'q{n % 4}', name=f't{first + n}', command='x', depends=sorted(rng.sample(before, min(2, len(before)))), retry=dict(attempts=3, backoff='0s', on=['failed']))
              for n in range(LAYER)]
    before = [t['id'] for t in rng.choice(servers).enqueue(*wishes)]
    tasks += zip(before, wishes)
depends = {task: wish['depends'] for task, wish in tasks}
tricky = set(rng.sample(sorted(depends), TASKS // 10))

lock = threading.Lock()
fences, twice, answers, unlike, tried = set(), [], 0, [], set()
stop = time.monotonic() + SECONDS
left = set(depends)


def work(number):
    global answers
    choice = random.Random(number)
    worker = Worker(servers[number % 3], f'w{number}', slots=8)
    while time.monotonic() < stop:
        with lock:
            if not left:
                return
        worker.server = choice.choice(servers)
        grants = worker.claim(free=choice.randint(1, 8), wait_ms=200)
        ends = []
        for grant in grants:
            with lock:
                twice.extend([grant['fence']] if grant['fence'] in fences else [])
                fences.add(grant['fence'])
                fails = grant['task'] in tricky and grant['task'] not in tried
                tried.add(grant['task'])
            ends.append((grant, dict(task=grant['task'], fence=grant['fence'], exit=1 if fails else 0)))
        if not ends:
            continue
        told = [choice.choice(servers) for _ in range(2 if choice.random() < 0.3 else 1)]
        for server in told:  # the same results, perhaps through two servers
            results = server.post('/v1/finishes', dict(items=[item for _, item in ends])).json['results']
            with lock:
                answers += len(results)
                unlike.extend(r for r in results if r['status'] != 200)
                left.difference_update(item['task'] for _, item in ends if item['exit'] == 0)


threads = [threading.Thread(target=work, args=(n,)) for n in range(9)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
same(sorted(left), [], f'{TASKS} tasks were granted and reported')
same((twice, unlike), ([], []), 'no fence was given twice, and every result was taken')
states = {t: servers[0].state(t) for t in depends}
same([t for t, state in states.items() if state != 'D'], [], 'all are done, as another server sees them')
same([t for t in depends if len(servers[1].task(t)['attempts']) != 1 + (t in tricky)], [], 'in as many attempts as it took')

events = servers[2].events('since=0&limit=100000')
same([e['seq'] for e in events], list(range(1, len(events) + 1)), 'events are dense')
began, done = {}, {}
for event in events:
    if event.get('to') == 'X':
        began.setdefault(event['task'], event['seq'])
    if event.get('to') == 'D':
        done.setdefault(event['task'], []).append(event['seq'])
same([t for t in depends if len(done.get(t, [])) != 1], [], 'each ended once')
of_each = {}
for event in events:
    of_each.setdefault(event.get('task'), []).append(event['seq'])
some = sorted(tricky)[:30]
same({t: [e['seq'] for e in servers[0].events(f'task={t}')] for t in some}, {t: of_each[t] for t in some}, 'a task shows all that happened to it, whichever server wrote it')
same([t for t in depends if any(done[p][0] > began[t] for p in depends[t])], [], 'and began after what it depends on')
lanes = {lane['name']: lane for lane in servers[0].patient('/v1/lanes').json['lanes']}
same({name: lanes[name]['counts']['D'] for name in ('q0', 'q1', 'q2', 'q3')}, {f'q{n}': TASKS // 4 for n in range(4)}, 'queues count them')
processed = sum(e['processed'] for e in servers[1].patient('/v1/executors').json['executors'])
same(processed, TASKS + len(tricky), 'and executors their results')
verified = servers[0].verify()
same(verified.code, 0, 'the history verifies')
narrow = [int(re.search(r'^weir_turns_narrow_total (\d+)', s.patient('/metrics').body.decode(), re.M)[1]) for s in servers]
ok(all(n > 10 for n in narrow), f'turns went side by side: {json.dumps(narrow)}', narrow)
end()
