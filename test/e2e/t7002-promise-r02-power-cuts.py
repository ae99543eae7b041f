#!/usr/bin/env python3
# time limit: 240
"""R2, power loss is a crash: what a server did to its disk is recorded; at hundreds of moments the power is cut, unsynced writes are dropped, torn and
reordered, and the real server is started on what is left: what it had acknowledged is there, database and logs."""
import os
import pathlib
import random
import shutil
import signal
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'promises'))
import power  # noqa: E402
from promise import ROOT, SCALE, SEED, Promise, rng, scaled, special_build, tasks_of  # noqa: E402

special_build()
from house import TMP, House, Worker, end, ok, until  # noqa: E402

STATES, SECONDS = scaled(250), 40 * SCALE
p = Promise('R2', 'power loss is a crash')
for what in ('accepted lost', 'invented', 'finished lost', 'durable log bytes lost', 'log mismatches', 'log bytes refused', 'verify faults', 'no restart'):
    p.zero(what)
record = TMP / 'record'
s = House('data', slots=0, env=dict(LD_PRELOAD=str(ROOT / 'build-fail/power.so'), POWER_ROLE='serve', POWER_DIR=str(TMP / 'data'), POWER_LOG=str(record)))
accepted, finished, durable, asked, logs = [], [], [], set(), {}  # (position in the record, ...)


def now():
    return record.stat().st_size


def enqueue(n):
    name = f't{len(asked)}'
    bodies = [dict(queue='led', name=f'{name}-{i}', command='x', data='y' * rng.randint(0, 900)) for i in range(n)]
    asked.update(b['name'] for b in bodies)
    for t in s.enqueue(*bodies, dict(queue='led', name=f'{name}-last')):
        accepted.append((now(), t['id']))
    asked.add(f'{name}-last')


def packing():
    try:
        return any(f.suffix == '.tmp' or not f.stat().st_mode & 0o200 for f in (TMP / 'data/logs/live').iterdir())
    except FileNotFoundError:
        return True


listening = now()
for life in range(2):
    for _ in range(12):
        enqueue(rng.randint(1, 8))
        w = Worker(s, 'w')
        for grant in w.claim(free=rng.randint(0, 4), wait_ms=0):
            text = rng.randbytes(rng.randint(1, 40000))
            logs[grant['task'], grant['fence']] = text
            at = 0
            while at < len(text):
                step = rng.randint(1, 20000)
                durable.append((now(), grant['task'], grant['spec']['attempt'], 0 if at == 0 else durable[-1][3], text, grant['fence']))
                answer = w.log(grant, at, text[at:at + step]).json
                durable.append((now(), grant['task'], grant['spec']['attempt'], answer['durable'], text, grant['fence']))
                at = min(at + step, len(text))
            if rng.random() < 0.7:
                if w.finish(grant, exit=0, outputs={'a': 'b'}, log_bytes=len(text)).status == 200:
                    finished.append((now(), grant['task']))
    # a kill between a rename and its record would make the record untrue: packing has come to rest
    until(lambda: not packing())
    s.stop(signal.SIGTERM) if life else s.kill()
    if not life:
        s.start()
found = power.records(record)
print(f'# {len(found)} records, {now()} bytes, {len(accepted)} accepted, {len(finished)} finished, {len(durable)} log answers')
ok(len(found) > 300, 'the record has what a server does')
deadline = time.monotonic() + SECONDS
numbers = iter(range(STATES))
lock = threading.Lock()
cuts = sorted((rng.randrange(len(found)) for _ in range(STATES)))
# moments around commits matter most: half of the cuts are right before or after a sync; a quarter right after a log grew, with a hole in its end
syncs = [i for i, r in enumerate(found) if r[1] in 'SD']
of_logs = {r[2] for r in found if r[1] == 'C' and r[4].endswith(b'.log')}
grew = [i for i, r in enumerate(found) if r[1] == 'W' and r[2] in of_logs]
cuts = [(c if i % 4 == 1 else rng.choice(grew) if i % 4 == 3 else max(0, min(len(found) - 1, rng.choice(syncs) + rng.randint(-2, 1))), i % 4 == 3) for i, c in enumerate(cuts)]


def states():
    """disk states in the order of the record, so that it is read once; shuffled in blocks would cost more than it gives"""
    disk, at = power.Disk(), 0
    for c, holes in sorted(cuts):
        while at <= c:
            disk.feed(found[at])
            at += 1
        yield found[c][0], disk.cut(random.Random(SEED * 1000003 + c), holes)


feed = states()


def check(h, position, files):
    tasks = {t['id']: t for t in tasks_of(h, 'led')}
    lost = [i for at, i in accepted if at <= position and i not in tasks]
    p.zero('accepted lost', len(lost), (position, lost[:5], {k: v if v is None else len(v) for k, v in files.items()}))
    p.zero('invented', len({t['key']['name'] for t in tasks.values()} - asked))
    late = [i for at, i in finished if at <= position and tasks.get(i, {}).get('state') != 'D']
    p.zero('finished lost', len(late), (position, late[:5]))
    told = {}
    for at, task, attempt, size, text, fence in durable:
        if at <= position:
            told[task, attempt] = (size, text, fence)
    for (task, attempt), (size, text, fence) in told.items():  # one that was lost in between may have been granted again
        answer = h.get(f'/v1/tasks/{task}/log?attempt={attempt}', local=True)
        if answer.status != 200 and h.ask('POST', f'/v1/tasks/{task}/log?fence={fence}&offset=0', text[:1], local=True).code == 'stale_fence':
            continue  # the grant was given back, and the next one, of the same number, wrote nothing
        got = answer.body
        p.zero('durable log bytes lost', max(0, size - len(got)), (position, task, size, len(got)))
        p.zero('log mismatches', int(not text.startswith(got)), (position, task, len(got)))
        if tasks.get(task, {}).get('state') == 'D' and len(got) < len(text):  # its executor still has what was never durable
            rest = h.ask('POST', f'/v1/tasks/{task}/log?fence={fence}&offset={len(got)}', text[len(got):], local=True)
            if rest.code == 'stale_fence':
                continue  # granted again as the same attempt, and ended: that executor has the rest
            p.did('short logs made whole')
            whole = h.get(f'/v1/tasks/{task}/log?attempt={attempt}', local=True).body
            p.zero('log bytes refused', len(text) - len(whole), (position, task, len(got), rest))
    answer = h.get('/v1/verify', local=True)
    p.zero('verify faults', int(not answer.json.get('ok')), answer)


def work(number):
    n = 0
    while time.monotonic() < deadline:
        with lock:
            position, state = next(feed, (None, None))
        if state is None:
            return
        n += 1
        files, lost = state
        folder = TMP / f's{number}'
        shutil.rmtree(folder, ignore_errors=True)
        power.lay(files, str(TMP / 'data'), str(folder))
        h = House.__new__(House)
        h.__init__(f's{number}', slots=0, wait=False)
        h.line = h.process.stdout.readline().decode()
        with lock:
            p.did('crash states')
            p.did('writes lost or torn', lost)
        if h.line.startswith('listening on http://'):
            h.port = int(h.line.split()[2].rsplit(':', 1)[1])
            with lock:
                check(h, position, files)
        elif position > listening or h.log.stat().st_size == 0:
            p.zero('no restart', 1, (position, h.log.read_text()[-600:], sorted(f for f in files)))
        h.kill()
        h.process.stdout.close()


threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
for t in threads:
    t.start()
for t in threads:
    t.join()
p.report()
end()
