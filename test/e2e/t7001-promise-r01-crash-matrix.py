#!/usr/bin/env python3
# time limit: 480
"""R1, accepted is durable: the processes end as by kill -9 at every named point around what they write, sync, rename, commit, send, spawn and reap."""
import pathlib
import signal
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'promises'))
from promise import SCALE, Client, Promise, ledger_check, rng, scaled, special_build, tasks_of, verify  # noqa: E402

special_build()
from house import ENDED, TMP, House, end, ok, until  # noqa: E402

SECONDS = 45 * SCALE  # of the matrix in one go; what doesn't fit is said
p = Promise('R1', 'accepted is durable')
lock = threading.Lock()


class Lane:
    """a server that is killed and started again on the same folder; a fresh one now and then, so that its making is crashed too"""

    def __init__(self, number):
        self.number, self.n, self.house = number, 0, None
        self.fired, self.missed = set(), set()

    def fresh(self, env):
        self.n += 1
        self.house = s = House.__new__(House)
        s.__init__(f'd{self.number}-{self.n}', slots=2, env=env, wait=False)
        self.client = Client(s, p)
        self.ran = TMP / f'ran{self.number}-{self.n}'
        self.ran.touch()
        self.cases = 0
        return self.listening()

    def listening(self):
        """reads the line of a start; false when the server ended before it"""
        s = self.house
        s.line = s.process.stdout.readline().decode()
        if s.line.startswith('listening on http://'):
            s.url = s.line.split()[2]
            s.port = int(s.url.rsplit(':', 1)[1])
            return True
        s.process.wait(20)
        return False

    def start(self, env):
        self.house.env = env
        self.house.start(wait=False)
        return self.listening()

    def work(self, tag):
        """what touches every room: tasks with and without a command, a chain, a cancel, logs, outputs"""
        c, s = self.client, self.house
        c.once(f'{tag}-data', dict(queue='led', name=f'{tag}-data', command='true', not_before='2099-01-01T00:00:00Z'))
        c.once(f'{tag}-a', dict(queue='led', name=f'{tag}-a', retry=dict(attempts=20), script=f'echo {tag}-a >> {self.ran}; echo out; echo k=v >> $WEIR_OUTPUT; seq 1 2000'))
        c.once(f'{tag}-b', dict(queue='led', name=f'{tag}-b', retry=dict(attempts=20), script=f'echo {tag}-b >> {self.ran}; echo err >&2'))
        if f'{tag}-data' in c.ledger:
            try:
                s.post(f'/v1/tasks/{c.ledger[tag + "-data"]}/cancel', dict(reason='no more'), local=True, timeout=5)
            except (OSError, Exception):
                pass

    def case(self, point, k, making=False):
        if making:
            once = TMP / f'making{self.number}-{self.n}'
            up = self.fresh(dict(WEIR_FAIL=f'{point}:{k}', WEIR_FAIL_ONCE=str(once)))
        else:
            once = TMP / f'once{self.number}-{self.n}-{self.cases}'
            up = self.start(dict(WEIR_FAIL=f'{point}:{k}', WEIR_FAIL_ONCE=str(once)))
        self.cases += 1
        tag = f'c{self.cases}'
        s, c = self.house, self.client
        if up:
            self.work(tag)
            deadline = time.monotonic() + 1.5
            while time.monotonic() < deadline and not once.exists() and s.process.poll() is None:
                if all(f'{tag}-{x}' in c.ledger for x in 'ab'):
                    try:
                        if all(s.state(c.ledger[f'{tag}-{x}']) in ENDED for x in 'ab'):
                            s.stop(signal.SIGINT)  # and the points on the way out
                    except OSError:
                        break
                time.sleep(0.01)
        fired = once.exists()
        if not fired:
            once.touch()
        (self.fired if fired else self.missed).add(point)
        with lock:
            p.did('points reached', int(fired))
            p.did('kills', int(fired))
        if s.process.poll() is not None or (fired and point.startswith('server/')):
            s.process.wait(20)
            if not self.start({}):
                p.zero('no restart', 1, (point, s.log.read_text()[-500:]))
                return False
        for x in ('data', 'a', 'b'):
            if f'{tag}-{x}' in c.bodies:
                c.sure(f'{tag}-{x}', c.bodies[f'{tag}-{x}'])
        if not up:  # it ended while it started: nothing was asked yet
            self.work(tag)
        return True

    def close(self, points):
        """everything runs to its end, once"""
        s, c = self.house, self.client
        if s.process.poll() is not None and not self.start({}):
            p.zero('no restart', 1, s.log.read_text()[-500:])
            return
        ids = {key: i for key, i in c.ledger.items() if not key.endswith('-data')}
        drained = until(lambda: all(t['state'] in ENDED for t in tasks_of(s, 'led') if not t['key']['name'].endswith('-data')), seconds=40)
        p.zero('not drained', int(not drained), [(t['key']['name'], t['state']) for t in tasks_of(s, 'led') if t['state'] not in ENDED][:5])
        with lock:
            ledger_check(p, s, [c])
            verify(p, s)
            lines = self.ran.read_text().split()
            for key, task_id in ids.items():
                task = s.task(task_id)
                runs = lines.count(key)
                done = sum(a['outcome'] == 'done' for a in task['attempts'])
                p.zero('jobs without one effect', int(task['state'] != 'D' or done != 1), (key, points, task))
                p.zero('jobs that never ran', int(runs < 1), (key, points, task))
                p.zero('runs beyond the attempts', max(0, runs - len(task['attempts'])), (key, runs, points, task))
            p.did('tasks', len(c.ledger))
        s.stop(signal.SIGINT)


def trace():
    """all points, with how often each is reached: two lives of a server"""
    lane, path = Lane('t'), TMP / 'trace'
    env = dict(WEIR_FAIL_TRACE=str(path))
    lane.fresh(env)
    for tag in ('x', 'y'):
        lane.work(tag)
        until(lambda: all(t['state'] in ENDED for t in tasks_of(lane.house, 'led')), seconds=20)
        lane.house.stop(signal.SIGINT)
        if tag == 'x':
            first = set(path.read_text().split('\n'))
            path.unlink()
            lane.start(env)
    counts = {line: 1 for line in first if line}
    making = set(counts)
    for line in path.read_text().split('\n'):
        if line:
            counts[line] = counts.get(line, 0) + 1
            making.discard(line)
    return counts, making


counts, making = trace()
points = sorted(counts)
ok(len(points) >= 100, f'{len(points)} named points, of them {sum(n.startswith("server/") for n in points)} in the server, '
   f'{sum(n.startswith("executor/") for n in points)} in the executor, {sum(n.startswith("shim/") for n in points)} in shims', points)
todo = [(point, 1) for point in points]
if SCALE > 1:
    todo += [(point, rng.randint(2, max(2, counts[point]))) for point in points for _ in range(int(SCALE)) if counts[point] > 2]
rng.shuffle(todo)
total = len(todo)
deadline = time.monotonic() + SECONDS


def run(number):
    lane = Lane(number)
    while todo and time.monotonic() < deadline:
        points_here = []
        for n in range(12):
            with lock:
                if not todo or time.monotonic() > deadline or (n and todo[-1][0] in making):
                    break
                point, k = todo.pop()
            if n == 0 and point not in making:
                lane.fresh({})
            if n or point not in making:
                lane.house.kill() if point.startswith('server/') and rng.random() < 0.3 else lane.house.stop(signal.SIGINT)
            points_here.append(f'{point}:{k}')
            if not lane.case(point, k, n == 0 and point in making):
                break
        if points_here:
            lane.close(points_here)
    return lane


lanes = []
threads = [threading.Thread(target=lambda i=i: lanes.append(run(i))) for i in range(2)]
for t in threads:
    t.start()
for t in threads:
    t.join()
p.did('points named', len(points))
p.did('cases', total - len(todo))
fired = set().union(*[x.fired for x in lanes])
missed = set().union(*[x.missed for x in lanes]) - fired
print(f'# {len(fired)} points crashed, {len(missed)} not reached in their case, {len(todo)} cases left for a longer run')
print('# not reached: ' + ' '.join(sorted(missed)))
ok(len(fired) >= 0.5 * (total - len(todo)) or len(fired) > 100, f'most points of the cases were crashed at: {len(fired)}')
for what in ('no restart', 'not drained', 'jobs without one effect', 'jobs that never ran', 'runs beyond the attempts'):
    p.zero(what)
p.report()
end()
