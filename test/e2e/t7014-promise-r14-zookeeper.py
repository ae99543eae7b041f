#!/usr/bin/env python3
# time limit: 240
# store: sqlite (it starts its own PostgreSQL and ZooKeeper)
"""R14, ZooKeeper is advice, never truth: three servers on one PostgreSQL that are coordinated by a real ZooKeeper, under tasks, timers, schedules and a Subversion
repository whose hooks are doubled, lost and told to any server. ZooKeeper is killed, loses its data, ends sessions; servers are frozen for longer than their
session. Whatever was done for all was done once, in order, and by who had the epoch of the store; without ZooKeeper work is as fast as with it."""
import http.client
import json
import os
import pathlib
import random
import shutil
import signal
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'promises'))
from promise import SEED, Agent, Promise, scaled  # noqa: E402
import postgres  # noqa: E402
import zookeeper  # noqa: E402
from house import ENDED, TMP, House, Worker, end, run, skip, until  # noqa: E402
from repos import svn_commit, svn_make  # noqa: E402

if not postgres.available() or not zookeeper.available():
    skip('PostgreSQL and ZooKeeper', 'one of them is not there')
    end()
LEASE, SESSION, ROUNDS, PEACE = 5, 3, scaled(2), 90
BURST, TRIES = 150, 3
p = Promise('R14', 'zookeeper')
for what in ('accepted lost', 'doubled', 'completed twice', 'one fence begun twice', 'out of order', 'revisions twice', 'timers twice', 'timers early', 'slots twice', 'slots missed',
             'epochs twice', 'acts outside the epoch', 'undrained', 'wrong answers', 'servers that ended', 'verify faults'):
    p.zero(what)
rng = random.Random(SEED)
pg = postgres.Postgres().start()
zk = zookeeper.ZooKeeper().start(120)
url = pg.create('weir')
effects = TMP / 'effects'
effects.write_text('')
MARK = f'echo "$WEIR_TASK_ID $WEIR_FENCE %s" >> {effects}'
servers, agents, peace = [], [], threading.Event()
for i in range(3):
    if i:
        (TMP / f's{i}').mkdir(mode=0o711)
        shutil.copy(TMP / 's0/verify.key', TMP / f's{i}/verify.key')
    servers.append(House(f's{i}', '--store', url, '--name', f's{i}', '--coordination', zk.url, slots=0, lease=f'{LEASE}s'))
for i in range(2):
    order = servers[i:] + servers[:i]
    agents.append(Agent(order[0], f'a{i}', slots=4, options=[part for s in order[1:] for part in ('--server', s.socket)]))
until(lambda: zk.children('/weir/nodes') == ['s0', 's1', 's2'], seconds=60)


def script():
    return f'{MARK % "begin"}; {MARK % "end"}'


def ask(method, path, body=None, key=None, seconds=90):
    """any server; another one when there is no answer"""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            answer = rng.choice(servers).ask(method, path, body, headers={'Idempotency-Key': key} if key else None, local=True, timeout=4)
            if answer.status != 503:
                return answer
        except (OSError, http.client.HTTPException):
            pass
        time.sleep(0.02)
    return None


def get(path):
    answer = ask('GET', path)
    return answer.json if answer is not None else {}


# -- the work
told, bodies, commits = {}, {}, [0]


def intake():
    mine = random.Random(SEED + 1)
    while not peace.is_set():
        name = f'u{len(bodies)}'
        bodies[name] = body = dict(name=name, queue='led', script=script(), retry=dict(attempts=50))
        if mine.random() < 0.4:
            body['not_before'] = time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime(time.time() + mine.randint(1, 6)))
        answer = ask('POST', '/v1/tasks', body, key=name)
        if answer is None or answer.status != 201:
            p.zero('wrong answers', 1, (name, answer))
        else:
            told[name] = answer.json['id']
        peace.wait(mine.uniform(0.1, 0.5))


def committer():
    mine = random.Random(SEED + 2)
    while not peace.is_set():
        svn_commit('repo', f'n{commits[0]}')
        commits[0] += 1
        for _ in range(mine.choice([0, 0, 1, 3])):  # the hook: mostly lost, or doubled, to any server
            mine.choice(servers).cli('notify', 'repo', str(mine.randint(1, commits[0] + 2)))
        peace.wait(mine.uniform(0.2, 1))


svn_make('repo', 1, 'tasks:\n - name: step\n   depends: [PREV]\n   checkout: false\n   retry: {attempts: 50}\n   script: |\n     ' + script() + '\n')
for body in (dict(name='repo', kind='svn', url=f'{TMP}/repo', **{'from': 1}), dict(name='timed', kind='external')):
    answer = ask('POST', '/v1/archives', body, key=body['name'])
    if answer is None or answer.status != 201:
        p.zero('wrong answers', 1, (body, answer))
timed = [dict(name=f'every{i}', schedule='* * * * *', checkout=False, script=script(), retry=dict(attempts=50)) for i in range(3)]
ask('POST', '/v1/archives/timed/revisions', dict(rev=1, workflow=timed))
begun = time.time()
until(lambda: (get('/v1/archives/repo').get('next') or 0) > 1, seconds=60)


# -- as fast without it
def burst(worker):
    """tasks a second, through one server with one executor of data tasks"""
    began = time.monotonic()
    server = worker.server
    for _ in range(3):
        ids = {t['id'] for t in server.enqueue(*[dict(name=f'b{n}', queue='burst', data=1, zone='burst') for n in range(BURST // 3)])}
        while ids:
            for grant in worker.claim(free=100, wait_ms=2000):
                worker.finish(grant, exit=0)
                ids.discard(grant['task'])
    return BURST / (time.monotonic() - began)


worker = Worker(servers[0], 'burster', slots=100, zone='burst')


def compare():
    """tasks a second with it and without it, the best of some tries each; what it costs to do without is in every one of them, what else the machine does isn't"""
    there = gone = 0
    for _ in range(TRIES):
        there = max(there, burst(worker))
    zk.stop()
    until(lambda: servers[0].patient('/v1/nodes').json['coordination']['state'] == 'away', seconds=30)
    for n in range(TRIES * 2):
        gone = max(gone, burst(worker))
        if n >= 1 and gone >= 0.8 * there:
            break
    zk.start(120)
    until(lambda: servers[0].patient('/v1/nodes').json['coordination']['state'] == 'active', seconds=60)
    return there, gone


for turn in range(5):  # a machine that got busy in between is asked again
    there, gone = compare()
    if gone >= 0.8 * there:
        break
p.did('tasks a second with it', round(there))
p.did('tasks a second without', round(gone))
p.bound('slower without it, in percent', 100 * (1 - gone / there), 20)

# -- faults
threads = [threading.Thread(target=t, daemon=True) for t in (intake, committer)]
for thread in threads:
    thread.start()


def duty_holder(name):
    return pg.sql(f"SELECT holder FROM duty WHERE name = '{name}'", 'weir')


def gone(seconds):
    zk.stop()
    p.did('stopped')
    time.sleep(seconds)
    zk.start(120)


def wiped(seconds):
    zk.wipe()
    p.did('wiped')
    time.sleep(seconds)
    zk.start(120)


def expired(_):
    for session in zk.sessions():
        if zk.expire(session):
            p.did('sessions expired')


def frozen(_):
    """a holder, mostly: it comes back when its session is over and another has taken over"""
    holder = duty_holder(rng.choice(['schedules', 'watch', 'timers']))
    server = next((s for s in servers if s.dir.name == holder), servers[0])
    os.kill(server.process.pid, signal.SIGSTOP)
    time.sleep(SESSION + rng.uniform(1, 2))
    os.kill(server.process.pid, signal.SIGCONT)
    p.did('servers frozen')


def minute_between():
    return time.time() // 60 > begun // 60 and time.time() % 60 > 6


faults = [gone, wiped, expired, frozen] * ROUNDS
rng.shuffle(faults)
while faults or not minute_between():
    if faults:
        faults.pop()(rng.uniform(0, 2))
    for server in servers:
        if server.process.poll() is not None:
            p.zero('servers that ended', 1, (server.dir.name, server.process.returncode, server.log.read_text()[-600:]))
            server.start()
    time.sleep(rng.uniform(0.1, 0.7))

# -- peace
peace.set()
for thread in threads:
    thread.join(120)
began = time.monotonic()


def minute_text(seconds):
    return time.strftime('%Y-%m-%dT%H:%M:%S.000Z', time.gmtime(seconds))


def first_slots():
    """how many schedules have fired for the minute that began in the middle of it: one whose holder was frozen then is late"""
    answer = ask('GET', '/v1/events?since=0&limit=1000000')
    events = [json.loads(line) for line in answer.body.splitlines()] if answer is not None else []
    return sum(e['kind'] == 'scheduled' and f' for {minute_text((int(begun // 60) + 1) * 60)}' in e['reason'] for e in events)


until(lambda: first_slots() >= 3, seconds=PEACE)
until(lambda: (get('/v1/archives/repo').get('next') or 0) == commits[0] + 2, seconds=PEACE)
until(lambda: not get('/v1/tasks?state=QSPX&limit=10').get('tasks', ['no answer']), seconds=PEACE)
left = get('/v1/tasks?state=QSPX&limit=1000').get('tasks', ['no answer'])
p.zero('undrained', len(left), [get(f'/v1/tasks/{t["id"]}/why') for t in left[:3]])
p.zero('accepted lost', commits[0] + 2 - get('/v1/archives/repo')['next'], 'revisions')
p.bound('seconds of peace to drain', time.monotonic() - began, PEACE)
for agent in agents:
    agent.stop()

# -- the count
tasks, cursor = [], ''
while True:
    page = servers[0].patient(f'/v1/tasks?limit=1000{cursor}', local=True).json
    tasks += page['tasks']
    if page['next'] is None:
        break
    cursor = f'&cursor={page["next"]}'
events = [json.loads(line) for line in servers[0].patient('/v1/events?since=0&limit=1000000', local=True).body.splitlines()]
p.did('tasks', len(tasks))
p.did('commits', commits[0])
names = {}
for t in tasks:
    if t['key'].get('queue') == 'led':
        names.setdefault(t['key']['name'], []).append(t['id'])
for name, task in told.items():
    p.zero('accepted lost', int(task not in names.get(name, [])), (name, task))
p.zero('doubled', sum(len(v) - 1 for v in names.values()), names)
moves, holders, revisions = {}, {}, {}
for e in events:
    if e['kind'] == 'move':
        moves.setdefault(e['task'], []).append(e)
    if e['kind'] == 'duty':
        holders[e.get('subject') or e.get('key')] = f'{e["actor"]}, {e["reason"]}'
    if e['kind'] in ('revision', 'scheduled'):
        duty = 'watch' if e['kind'] == 'revision' else 'schedules'
        by = (e.get('reason') or '').rpartition('; ')[2]
        if e['kind'] == 'scheduled' or e['actor'] == 'watch':
            p.did('acts for all')
            p.zero('acts outside the epoch', int(by != holders.get(duty)), (e, holders.get(duty)))
    if e['kind'] == 'revision':
        revisions.setdefault(e.get('subject') or e.get('key'), []).append(e['seq'])
p.zero('revisions twice', sum(len(v) - 1 for v in revisions.values()))
epochs = [(e.get('subject') or e.get('key'), e['reason']) for e in events if e['kind'] == 'duty' and e['reason'].startswith('epoch')]
p.did('duties taken', len(epochs))
p.zero('epochs twice', len(epochs) - len(set(epochs)), epochs)
begins = {}
for line in effects.read_text().splitlines():
    task, fence, word = line.split()
    if word == 'begin':
        begins[fence] = begins.get(fence, 0) + 1
p.zero('one fence begun twice', sum(n - 1 for n in begins.values()))
for task, list_of in moves.items():
    p.zero('completed twice', int(sum(e['to'] in ENDED for e in list_of) > 1), (task, list_of))
steps = {t['key']['rev']: t['id'] for t in tasks if t['key'].get('archive') == 'repo' and t['key']['name'] == 'step'}
for rev in range(2, commits[0] + 2):
    before, after = moves.get(steps.get(rev - 1), []), moves.get(steps.get(rev), [])
    done = [e['seq'] for e in before if e['to'] == 'D']
    started = [e['seq'] for e in after if e['to'] == 'X']
    p.zero('out of order', int(not done or not started or started[0] < done[0]), (rev, before, after))
for name, body in bodies.items():
    if 'not_before' in body and name in told:
        p.did('timers')
        fired = [e for e in moves.get(told[name], []) if e['to'] == 'P' and e['from'] != 'X']
        p.zero('timers twice', int(len(fired) > 1), (name, fired))
        p.zero('timers early', int(any(e['time'] < body['not_before'][:-1] for e in fired)), (name, fired))
slots = {}
for e in events:
    if e['kind'] == 'scheduled':
        slots.setdefault((e.get('subject') or e.get('key'), e['reason'].split(' for ')[1].split(';')[0]), []).append(e['seq'])
p.did('slots fired', len(slots))
p.zero('slots twice', sum(len(v) - 1 for v in slots.values()), slots)
wanted = {minute * 60 for minute in range(int(begun // 60) + 1, int(time.time() // 60) + 1) if minute * 60 < time.time() - 30 or minute == int(begun // 60) + 1}
for minute in wanted:
    p.zero('slots missed', 3 - sum(1 for _, at in slots if at == minute_text(minute)), (minute, slots))
for server in servers:
    p.zero('servers that ended', int(server.process.poll() is not None), server.log.read_text()[-600:] if server.process.poll() is not None else None)
    server.stop(signal.SIGINT)
check = run('verify', '--data', servers[0].dir, '--store', url)
p.zero('verify faults', int(check.code != 0), (check.code, check.out + check.err))
p.report()
pg.remove()
zk.remove()
end()
