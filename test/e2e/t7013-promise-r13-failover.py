#!/usr/bin/env python3
# time limit: 240
# store: sqlite (it starts its own PostgreSQL)
"""R13, PostgreSQL fails over: a primary and a synchronous standby, two servers and clients on machines of their own (network namespaces). Under load the primary is
killed, or its machine cut off so that connections hang, or commits are cut off between COMMIT and its answer while they wait for the standby; the standby is
promoted. What was accepted is there, under its key once; the servers come back by themselves. WEIR_R13_ASYNC=1: with a standby that isn't
synchronous, which must lose something."""
import http.client
import os
import pathlib
import random
import shutil
import signal
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'promises'))
from promise import SEED, Promise, scaled, tasks_of  # noqa: E402
import netns  # noqa: E402
import postgres  # noqa: E402
from house import TMP, end, run, skip, until  # noqa: E402

why = f'there is no {postgres.BIN}' if not postgres.available() else netns.enter()
if why:
    skip('PostgreSQL fails over', why)
    end()
ROUNDS, HANDS, BACK, SYNCHRONOUS = 3 * scaled(1), 4, 10, not os.environ.get('WEIR_R13_ASYNC')
p = Promise('R13', 'failover')
for what in ('accepted lost', 'doubled', 'invented', 'wrong answers', 'servers that ended', 'servers that differ', 'written to the old primary', 'verify faults'):
    p.zero(what)
rng = random.Random(SEED)
net = netns.Net()
pair = postgres.Pair([net.machine('pa'), net.machine('pb')], synchronous=SYNCHRONOUS).start()
pair.create('weir')
servers = []
for i in range(2):
    if i:
        (TMP / f's{i}').mkdir(mode=0o711)
        shutil.copy(TMP / 's0/verify.key', TMP / f's{i}/verify.key')
    servers.append(netns.Far(net.machine(f's{i}'), '--store', pair.url('weir', turned=i == 1), slots=0, lease='4s'))
told, asked, peace, lock = {}, set(), threading.Event(), threading.Lock()


def once(server, name, timeout=30):
    try:
        return server.post('/v1/tasks', dict(name=name, queue='led', data=1), headers={'Idempotency-Key': name}, local=True, timeout=timeout)
    except (OSError, http.client.HTTPException):
        return None


def enqueue(name, choose, seconds=120):
    """asks any server until one has taken it"""
    asked.add(name)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        answer = once(choose.choice(servers), name)
        if answer is None or answer.status == 503:
            p.did('answers that were no answer')
            time.sleep(0.02)
            continue
        with lock:
            if answer.status != 201 or told.setdefault(name, answer.json['id']) != answer.json['id']:
                p.zero('wrong answers', 1, (name, told.get(name), answer))
        return
    p.zero('wrong answers', 1, (name, 'nobody took it'))


def hand(number):
    choose, n = random.Random(SEED * 100 + number), 0
    while not peace.is_set():
        n += 1
        enqueue(f'{number}-{n}', choose)
        if choose.random() < 0.2 and told:  # a key that was answered before brings the same answer
            enqueue(choose.choice(list(told)), choose)


WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"


def waiting():
    return int(pair.primary.sql(WAITING))


def killed():
    pair.primary.kill()


def cut_off():
    net.cut(pair.primary.machine.name)
    time.sleep(rng.uniform(0, 0.5))


def unanswered():
    """commits stand before their answer, the standby hears nothing; who waits is told to stop waiting, or his line is cut"""
    net.cut('pa', 'pb')
    if SYNCHRONOUS:
        until(lambda: waiting() > 0, seconds=10)
    deadline = time.monotonic() + 1.5
    while time.monotonic() < deadline:
        word = rng.choice(['pg_cancel_backend', 'pg_terminate_backend'])
        pair.primary.sql(f"SELECT {word}(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
        time.sleep(0.05)
    for server in servers:
        net.cut(server.machine.name, pair.primary.machine.name)
    pair.primary.kill()


def back(began):
    """seconds until each server has taken something since the promotion"""
    for server in servers:
        name = f'{server.dir.name}-{len(asked)}'
        asked.add(name)
        while server.process.poll() is None and time.monotonic() - began < 60:
            answer = once(server, name)
            if answer is not None and answer.status == 201:
                told.setdefault(name, answer.json['id'])
                break
            time.sleep(0.02)
        p.bound('seconds until a server is back', time.monotonic() - began, BACK)


def ended_alone(server):
    if server.process.poll() is not None:
        p.zero('servers that ended', 1, (server.dir.name, server.process.returncode, server.log.read_text()[-600:]))
        server.start()


threads = [threading.Thread(target=hand, args=(i,), daemon=True) for i in range(HANDS)]
for thread in threads:
    thread.start()
faults = [('primaries killed', killed), ('primaries cut off', cut_off), ('commits cut from their answer', unanswered)]
for turn in range(ROUNDS):
    time.sleep(rng.uniform(0.5, 1.5))
    what, fault = faults[turn % len(faults)]
    fault()
    p.did(what)
    pair.promote()
    began = time.monotonic()
    if fault is not cut_off:
        net.heal()
    back(began)
    net.heal()
    if fault is cut_off:  # the old one is still there, could be written, and stands first in the list of one of the servers: nobody does
        pair.standby.sql("ALTER SYSTEM SET synchronous_standby_names = ''")  # somebody tells it to wait for nobody: nothing but its timeline speaks against it
        pair.standby.sql('SELECT pg_reload_conf()')
        until(lambda: pair.standby.sql('SHOW synchronous_standby_names') == '' and pair.standby.sql(WAITING) == '0', seconds=20)
        turns = pair.standby.sql('SELECT turn FROM head', 'weir')
        for server in servers:
            server.kill()
            server.start()
        back(time.monotonic())
        p.zero('written to the old primary', int(pair.standby.sql('SELECT turn FROM head', 'weir') != turns))
        p.did('old primaries that lived on')
    for server in servers:
        ended_alone(server)
    if turn + 1 < ROUNDS:
        pair.renew()
        p.did('standbys made anew')
peace.set()
for thread in threads:
    thread.join(130)

# -- the count
choose = random.Random(SEED)
for name in choose.sample(sorted(asked), min(len(asked), 100)):
    enqueue(name, choose)  # once more under the same key


lists = [tasks_of(server, 'led') for server in servers]
p.zero('servers that differ', int(lists[0] != lists[1]))
names = {}
for t in lists[0]:
    names.setdefault(t['key']['name'], []).append(t['id'])
p.did('tasks accepted', len(told))
for name, task in told.items():
    p.zero('accepted lost', int(task not in names.get(name, [])), (name, task, names.get(name)))
p.zero('doubled', sum(len(v) - 1 for v in names.values()), [v for v in names.items() if len(v[1]) > 1][:5])
p.zero('invented', len(set(names) - asked), sorted(set(names) - asked)[:5])
for server in servers:
    check = server.verify()
    p.zero('verify faults', int(check.code != 0), (server.dir.name, check.code, check.out + check.err))
    server.stop(signal.SIGINT)
check = run('verify', '--data', servers[0].dir, '--store', f'postgresql:///weir?host={pair.primary.dir}&port={pair.primary.port}&user={postgres.USER}')
p.zero('verify faults', int(check.code != 0), (check.code, check.out + check.err))
p.report()
pair.remove()
end()
