#!/usr/bin/env python3
"""kill -9 of the server, again and again, while clients enqueue and jobs run: what was acknowledged is there once, jobs go on, results and logs are whole."""
import hashlib
import http.client
import os
import pathlib
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
from house import TMP, House, alive, end, ok, same, until  # noqa: E402

ROUNDS = 8
s = House('data', slots=4)
stop = threading.Event()
ledger = {}  # idempotency key -> (status, ids)
faults = []
crossed = [0]


def client(number):
    """enqueues without a pause; what wasn't answered is asked again with the same key, for ever"""
    n = 0
    while not stop.is_set():
        n += 1
        key = f'client{number}-{n}'
        if number == 0:
            body = dict(tasks=[dict(queue='batch', name=f'{key}-{i}') for i in range(50)])
        elif n % 8 == 0:
            body = dict(queue='led', name=key, script=f'echo $WEIR_TASK_ID >> {TMP}/ran')
        else:
            body = dict(queue='led', name=key)
        deadline = time.monotonic() + 60
        asked = 0
        while True:
            try:
                asked += 1
                answer = s.post('/v1/tasks', body, headers={'Idempotency-Key': key}, local=True, timeout=30)
                break
            except (OSError, http.client.HTTPException):
                if time.monotonic() > deadline:
                    faults.append(f'{key}: no server for a minute')
                    return
                time.sleep(0.02)
        crossed[0] += asked > 1
        if answer.status != 201:
            faults.append(f'{key}: {answer}')
            return
        ledger[key] = [t['id'] for t in answer.json['tasks']] if number == 0 else [answer.json['id']]
        time.sleep(0.01)


blob = os.urandom(1 << 20)
(TMP / 'blob').write_bytes(blob)
jobs = s.enqueue(*[dict(name=f'job{i}', queue='jobs', priority=100, script=f'echo $$ > {TMP}/pid{i}; i=0; while [ ! -e {TMP}/go ]; do echo "line $i"; i=$((i+1)); '
                        f'sleep 0.05; done; echo $i > {TMP}/count{i}; cat {TMP}/blob; echo n={i} >> $WEIR_OUTPUT; exit {i * 3}') for i in range(3)])
ids = [t['id'] for t in jobs]
ok(until(lambda: all((TMP / f'pid{i}').exists() and (TMP / f'pid{i}').read_text().strip() for i in range(3)), seconds=40), 'three jobs run')
pids = [int((TMP / f'pid{i}').read_text()) for i in range(3)]
threads = [threading.Thread(target=client, args=(i,)) for i in range(5)]
for t in threads:
    t.start()
for round in range(ROUNDS):
    before = len(ledger)
    until(lambda: len(ledger) >= before + 40 or faults, seconds=30)
    s.kill()
    s.start()
    ok(all(alive(p) for p in pids), f'kill {round + 1}: the jobs run on', pids)
    # what had been acknowledged before the kill can be read at once, by whoever asks first
    known = [i for key in list(ledger)[:before][-5:] for i in ledger[key]]
    same([s.get(f'/v1/tasks/{i}').status for i in known], [200] * len(known), f'kill {round + 1}: what was acknowledged is there at once')
before = len(ledger)
until(lambda: len(ledger) >= before + 40 or faults, seconds=30)
stop.set()
for t in threads:
    t.join(70)
same(faults, [], 'every request was answered with 201 in the end')
ok(crossed[0] > 0, f'{crossed[0]} requests were cut by a kill and asked again')
acknowledged = [i for v in ledger.values() for i in v]
same(len(acknowledged), len(set(acknowledged)), f'{len(acknowledged)} acknowledged tasks have ids of their own')


def all_tasks(queue):
    found, cursor = [], ''
    while True:
        page = s.get(f'/v1/tasks?queue={queue}&limit=1000{cursor}').json
        found += page['tasks']
        if page['next'] is None:
            return found
        cursor = f'&cursor={page["next"]}'


(TMP / 'go').touch()
done = s.ended(*ids, seconds=40)
same([(t['state'], len(t['attempts']), t['attempts'][-1]['exit']) for t in done], [('D', 1, 0), ('F', 1, 3), ('F', 1, 6)], 'the jobs ended, each in its one attempt')
same([t['outputs'] for t in done], [{'n': str(i)} for i in range(3)], 'with their outputs')
for i, task in enumerate(done):
    wanted = b''.join(b'line %d\n' % n for n in range(int((TMP / f'count{i}').read_text()))) + blob
    got = s.log_bytes(task['id'])
    ok(hashlib.sha256(got).digest() == hashlib.sha256(wanted).digest(), f'the log of job {i} is whole: {len(wanted)} bytes', len(got))
same([p for p in pids if alive(p)], [], 'and the processes are gone')
tasks = all_tasks('led') + all_tasks('batch')
same(sorted(t['id'] for t in tasks), sorted(acknowledged), 'exactly what was acknowledged is there')
names = [t['key']['name'] for t in tasks]
same(len(names), len(set(names)), 'no request was taken twice')
until(lambda: not s.get('/v1/tasks?queue=led&state=QSPX').json['tasks'], 'everything has run', 60)
ran = [int(line) for line in open(TMP / 'ran')]
same(sorted(ran), sorted(t['id'] for t in all_tasks('led') if t['attempts']), 'each command ran once')
same([t['id'] for t in all_tasks('led') if t['state'] != 'D' or len(t['attempts']) > 1], [], 'in one attempt')
again = s.post('/v1/tasks', dict(queue='led', name='client1-1'), headers={'Idempotency-Key': 'client1-1'}, local=True)
same((again.status, again.json['id']), (201, ledger['client1-1'][0]), 'the first key of all still gives its first answer')
seqs = []
while True:
    page = s.events(f'since={seqs[-1] if seqs else 0}&limit=1000')
    if not page:
        break
    seqs += [e['seq'] for e in page]
same(seqs, list(range(1, len(seqs) + 1)), 'the events are dense through all of it')
verify = s.cli('verify')
same(verify.code, 0, f'weir verify: {(verify.out + verify.err).strip()}')
end()
