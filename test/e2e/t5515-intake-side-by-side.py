#!/usr/bin/env python3
# store: sqlite (it starts its own PostgreSQL)
"""Three servers on one PostgreSQL that make work side by side (decision 0016): calls with keys that come to two servers at once, unique tasks, one semaphore, revisions of
two archives told to any server, late, early and twice, while executors work. Every call is answered once, numbers are in the order in which calls came, nothing is made
twice, order, lock and semaphore hold, and the history verifies."""
import json
import pathlib
import random
import re
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
from house import Worker, database, end, houses, ok, same, until  # noqa: E402

CLIENTS, CALLS, REVS, SECONDS = 5, 14, 8, 150
ARCHIVES = ('x', 'y')
pg, url = database()
servers = houses(url, 'abc', slots=0, lease='30s')
for archive in ARCHIVES:
    servers[0].post('/v1/archives', dict(name=archive, kind='external'))
WORKFLOW = [dict(name='index', depends=['PREV'], checkout=False, script='true'), dict(name='build', depends=['index'], checkout=False, script='true'),
            dict(name='alone', lock='exclusive', checkout=False, script='true')]
stop = time.monotonic() + SECONDS
lock = threading.Lock()
calls, uniques, single, unlike, wrong = [], {}, [], [], []  # calls: (begun, answered, ids); single: with the semaphore


def told(server, path, body, **more):
    """as a client that doesn't give up: again while the store is away"""
    while True:
        answer = server.post(path, body, **more)
        if answer.status != 503 or time.monotonic() > stop:
            return answer
        time.sleep(0.05)


def both(path, body, chosen, **more):
    """the same call to all of the chosen servers at once; the answers"""
    answers = [None] * len(chosen)

    def one(n):
        answers[n] = told(chosen[n], path, body, **more)

    threads = [threading.Thread(target=one, args=(n,)) for n in range(len(chosen))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


def client(number):
    choice = random.Random(number)
    for n in range(CALLS):
        tasks = [dict(queue=f'q{choice.randint(0, 3)}', name=f'c{number}-{n}-{k}', command='x') for k in range(choice.randint(1, 3))]
        if choice.random() < 0.3:
            tasks[0]['semaphores'] = ['one']
        chosen = choice.sample(servers, 2 if choice.random() < 0.4 else 1)
        begun = time.monotonic()
        answers = both('/v1/tasks', dict(tasks=tasks), chosen, headers={'Idempotency-Key': f'k{number}-{n}'})
        ids = [[t['id'] for t in a.json['tasks']] if a.status in (200, 201) else str(a) for a in answers]
        with lock:
            calls.append((begun, time.monotonic(), ids[0]))
            single.extend(ids[0][:1] if 'semaphores' in tasks[0] else [])
            unlike.extend([ids] if any(i != ids[0] for i in ids) else [])
        if choice.random() < 0.4:  # the same unique task at two servers
            key = f'u{choice.randint(0, 5)}'
            answers = both('/v1/tasks', dict(queue='u', name=key, unique=key, command='x'), choice.sample(servers, 2))
            with lock:
                wrong.extend(str(a) for a in answers if a.status not in (200, 201))
                for a in answers:
                    uniques.setdefault(a.json['id'], key)


def teller(number):
    choice = random.Random(100 + number)
    archive = ARCHIVES[number % len(ARCHIVES)]
    order = list(range(1, REVS + 1))
    choice.shuffle(order)
    for rev in order:
        answers = both(f'/v1/archives/{archive}/revisions', dict(rev=rev, workflow=WORKFLOW), choice.sample(servers, 2))
        with lock:
            wrong.extend(str(a) for a in answers if a.status not in (200, 202))


over = threading.Event()


def work(number):
    choice = random.Random(200 + number)
    worker = Worker(servers[number % 3], f'w{number}', slots=8)
    while not over.is_set() and time.monotonic() < stop:
        worker.server = choice.choice(servers)
        for grant in worker.claim(free=choice.randint(1, 8), wait_ms=200):
            answer = told(choice.choice(servers), f'/v1/tasks/{grant["task"]}/finish', dict(fence=grant['fence'], exit=0))
            with lock:
                wrong.extend([str(answer)] if answer.status != 200 else [])


def counted(name):
    return [int(re.search(rf'^{name} (\d+)', s.patient('/metrics').body.decode(), re.M)[1]) for s in servers]


workers = [threading.Thread(target=work, args=(n,)) for n in range(4)]
makers = [threading.Thread(target=client, args=(n,)) for n in range(CLIENTS)] + [threading.Thread(target=teller, args=(n,)) for n in range(4)]
for thread in makers + workers:
    thread.start()
for thread in makers:
    thread.join()
made = [i for _, _, ids in calls for i in ids]
keys = [f'{archive}@{rev}:{name}' for archive in ARCHIVES for rev in range(1, REVS + 1) for name in ('COMMIT', 'index', 'build', 'alone')]
everything = made + list(uniques)
ok(until(lambda: all(servers[0].state(t) == 'D' for t in everything + keys), seconds=max(1, stop - time.monotonic())), f'{len(everything)} posted tasks and {len(keys)} of revisions are done',
   [t for t in everything + keys if servers[0].state(t) != 'D'][:20])
over.set()
for thread in workers:
    thread.join()
same((unlike[:3], wrong[:3]), ([], []), 'a call that two servers got at once has one answer, and nothing was refused')
same(len(made), len(set(made)), 'no number was given twice')
late = [(a, b) for a in calls for b in calls if a[1] < b[0] and max(a[2]) > min(b[2])]
same(late[:3], [], 'who came after another was answered has larger numbers, whichever server it asked')

events = servers[1].events('since=0&limit=100000')
same([e['seq'] for e in events], list(range(1, len(events) + 1)), 'events are dense')
created, moves, one = [e['key'] for e in events if e['kind'] == 'created'], {}, []
same(len(created), len(set(created)), 'nothing was made twice')
same(sorted(k for k in created if '@' in k), sorted(keys), 'each revision has its tasks')
for e in events:
    if e['kind'] == 'move':
        moves.setdefault(e['key'], {})[e['to']] = e['seq']
for archive in ARCHIVES:
    for name, before, why in (('index', 'D', 'indexing'), ('alone', 'D', 'what has the lock')):
        at = [moves[f'{archive}@{rev}:{name}'] for rev in range(1, REVS + 1)]
        same([n for n in range(1, REVS) if at[n]['X'] < at[n - 1][before]], [], f'{archive}: {why} goes by revisions, one at a time')
at = {e['task']: moves[e['key']] for e in events if e['kind'] == 'created'}
holders = sorted((at[t]['X'], at[t]['D']) for t in single)
ok(len(holders) > 10 and all(a[1] < b[0] for a, b in zip(holders, holders[1:])), f'{len(holders)} tasks had the semaphore one after another', holders[:20])
held, doubled = {}, []  # a key is given up when its task starts
for e in events:
    key = uniques.get(e.get('task'))
    if key and e['kind'] == 'created':
        doubled.extend([key] if key in held else [])
        held[key] = e['task']
    if key and e['kind'] == 'move' and e['to'] == 'X' and held.get(key) == e['task']:
        del held[key]
ok(len(uniques) > 10 and not doubled, f'{len(uniques)} unique tasks were made, none while another had its key', uniques, doubled)
same(servers[0].verify().code, 0, 'the history verifies')
narrow, widened = counted('weir_turns_narrow_total'), counted('weir_turns_widened_total')
ok(all(n > 10 for n in narrow), f'turns went side by side: {json.dumps(narrow)}, once more alone {json.dumps(widened)}', narrow)
before = counted('weir_turns_narrow_total')
for n in range(30):
    servers[n % 3].enqueue(dict(queue='q0', name=f'late{n}', command='x'))
after = counted('weir_turns_narrow_total')
ok(sum(after) - sum(before) >= 15, f'making tasks alone is side by side, too: {json.dumps([b - a for a, b in zip(before, after)])}', before, after)
end()
