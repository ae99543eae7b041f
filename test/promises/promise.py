"""promise: what the tests of the promises (RELIABILITY.md 2.3) share: counters with their bounds, a client that keeps a ledger, sizes.

A script counts what it did and what must be 0, and says so in one line that `make promises` makes a table of:
    # PROMISE|R10|kills 8, jobs 6|reruns 0, lost log bytes 0|holds|seed 7
WEIR_PROMISE_SCALE multiplies the sizes (make campaign), WEIR_PROMISE_SEED chooses another run.
"""
import http.client
import os
import pathlib
import random
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / 'test/lib'))
SCALE = float(os.environ.get('WEIR_PROMISE_SCALE', '1'))
SEED = int(os.environ.get('WEIR_PROMISE_SEED', '7'))
rng = random.Random(SEED)


def scaled(n):
    return max(1, int(n * SCALE))


def special_build():
    """the build with failure points becomes the binary under test; called before house is imported"""
    if os.environ.get('WEIR_PROMISE_PLANTED'):  # test/promises/run --planted: it has the points too, and a bug
        return
    if os.environ.get('WEIR_PROMISE_BUILT'):  # somebody has, and the tree is being worked on
        os.environ['WEIR'] = str(ROOT / 'build-fail/weir')
        return
    done = subprocess.run([str(ROOT / 'test/promises/build')], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        print(f'Bail out! test/promises/build: {done.stdout[-2000:]}')
        sys.exit(1)
    os.environ['WEIR'] = str(ROOT / 'build-fail/weir')


TRAP = str(ROOT / 'build-fail/trap.so')


class Promise:
    def __init__(self, number, text):
        self.number, self.text = number, text
        self.done, self.zeros, self.bounds, self.notes = {}, {}, {}, []

    def did(self, what, n=1):
        self.done[what] = self.done.get(what, 0) + n

    def zero(self, what, n=0, detail=None):
        """a counter that must stay 0; every one is named once with 0, so that it is seen in the table"""
        self.zeros[what] = self.zeros.get(what, 0) + n
        if n and detail is not None and len(self.notes) < 40:
            self.notes.append(f'{what}: {detail}')

    def bound(self, what, value, limit):
        """the largest value seen, which must not be over the limit"""
        old = self.bounds.get(what, (value, limit))[0]
        self.bounds[what] = (max(old, value), limit)

    def report(self):
        from house import ok
        for note in self.notes:
            print('#   ' + str(note).replace('\n', ' ')[:1500], flush=True)
        good = True
        for what, n in self.zeros.items():
            good &= ok(n == 0, f'{self.number}: {what}: {n}')
        for what, (value, limit) in self.bounds.items():
            good &= ok(value <= limit, f'{self.number}: {what}: {value:.4g}, at most {limit:g}')
        good &= ok(all(self.done.values()) and self.done, f'{self.number}: something was done: {self.done}')
        cells = [', '.join(f'{k} {v}' for k, v in self.done.items()),
                 ', '.join([f'{k} {v}' for k, v in self.zeros.items()] + [f'{k} {v:.4g} (<= {m:g})' for k, (v, m) in self.bounds.items()]),
                 'holds' if good else 'BROKEN', f'seed {SEED}']
        print('# PROMISE|' + '|'.join([self.number, *cells]), flush=True)
        return good


class Client:
    """enqueues with keys and keeps what it was told; asks again until there is an answer"""

    def __init__(self, server, promise, local=True):
        self.server, self.promise, self.local = server, promise, local
        self.ledger = {}  # key -> id
        self.bodies = {}
        self.wrong = []
        self.n = 0

    def once(self, key, body, timeout=10):
        """one attempt: the answer, or None when the connection broke"""
        self.bodies[key] = body
        try:
            answer = self.server.post('/v1/tasks', body, headers={'Idempotency-Key': key}, local=self.local, timeout=timeout)
        except (OSError, http.client.HTTPException):
            return None
        if answer.status == 201:
            if self.ledger.setdefault(key, answer.json['id']) != answer.json['id']:
                self.wrong.append((key, self.ledger[key], answer))
        elif not (answer.status == 503 and answer.code in ('outcome_unknown', 'unavailable')) and not (answer.status == 507 and answer.code == 'disk_full'):
            self.wrong.append((key, answer))
        return answer

    def sure(self, key, body, seconds=30):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.once(key, body)
            if key in self.ledger:
                return self.ledger[key]
            time.sleep(0.02)
        self.wrong.append((key, 'no answer'))
        return None


class Agent:
    """weir executor as a process of its own, to be killed, stopped and started again on the same folder"""

    def __init__(self, server, name, slots=2, url=None, options=(), env=None):
        import house
        self.server, self.name = server, name
        self.dir = house.TMP / f'{server.dir.name}-x-{name}'
        self.command = [house.WEIR, 'executor', '--server', url or server.socket, '--data', str(self.dir), '--slots', str(slots), '--name', name, *options]
        self.env = house.clean_env(**(env or {}))
        self.log = house.TMP / f'{self.dir.name}.log'
        house.atexit.register(self.sweep)
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.command, env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=open(self.log, 'ab'))

    def active(self):
        return self.name in [e['name'] for e in self.server.patient('/v1/executors', local=True).json['executors'] if e['state'] == 'active']

    def kill(self):
        self.process.kill()
        self.process.wait()

    def kill_all(self):
        """the executor and everything of its machine: as if the power had gone"""
        import house
        self.kill()
        while True:
            left = house.processes(str(self.dir))
            if not left:
                return
            for pid in left:
                try:
                    os.kill(pid, 9)
                except ProcessLookupError:
                    pass

    def stop(self, seconds=30):
        if self.process.poll() is None:
            self.process.send_signal(2)
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()

    def sweep(self):
        if self.process.poll() is None:
            self.process.send_signal(18)
        self.kill_all()


def tasks_of(server, queue=None):
    """all of a queue, or all there are, page by page"""
    found, cursor, query = [], '', f'&queue={queue}' if queue else ''
    while True:
        page = server.patient(f'/v1/tasks?limit=1000{query}{cursor}', local=True).json
        found += page['tasks']
        if page['next'] is None:
            return found
        cursor = f'&cursor={page["next"]}'


def ledger_check(promise, server, clients, queue='led'):
    """accepted lost 0, invented 0, doubled 0"""
    tasks = tasks_of(server, queue)
    by_name = {}
    for t in tasks:
        by_name.setdefault(t['key']['name'], []).append(t['id'])
    ids = {t['id'] for t in tasks}
    asked = {b['name'] for c in clients for b in c.bodies.values()}
    for c in clients:
        for key, task in c.ledger.items():
            promise.zero('accepted lost', int(task not in ids), (key, task))
        for wrong in c.wrong:
            promise.zero('wrong answers', 1, wrong)
    promise.zero('accepted lost')
    promise.zero('wrong answers')
    promise.zero('doubled', sum(len(v) - 1 for v in by_name.values()), [v for v in by_name.items() if len(v[1]) > 1][:5])
    promise.zero('invented', len(set(by_name) - asked), sorted(set(by_name) - asked)[:5])
    return tasks


def verify(promise, server):
    check = server.verify()
    promise.zero('verify faults', int(check.code != 0), (check.code, check.out + check.err))
