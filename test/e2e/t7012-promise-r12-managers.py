#!/usr/bin/env python3
# time limit: 240
# store: sqlite (it starts its own PostgreSQL)
"""R12 and R13, several servers on one PostgreSQL: three servers and five executors that know all of them, under tasks with dependencies, semaphores and timers, an
archive whose revisions come doubled and in any order through any server, schedules and cancels. Servers and executors are killed and stopped for longer than
a lease, connections cut, the database restarted. Each is on a machine of its own (a network namespace), whose links are cut so that nothing says so, or pulled; the
database is a primary with a synchronous standby, which is promoted when the primary is killed. Where the kernel refuses namespaces all of it is on one machine, without cuts.
Then there is peace: everything drains, and the history, the logs and what the jobs wrote are compared."""
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
from promise import SEED, Agent, Promise, scaled, tasks_of  # noqa: E402
import netns  # noqa: E402
import postgres  # noqa: E402
from house import ENDED, TMP, House, Worker, alive, end, ok, run, skip, until  # noqa: E402

if not postgres.available():
    skip('PostgreSQL', f'there is no {postgres.BIN}')
    end()
refused = netns.enter()
LEASE, SECONDS, PEACE, REVS, TAKEOVER = 3, 24 * scaled(1), 60, 12 * scaled(1), 5
TASKS_MAX = 320 * scaled(1)
p = Promise('R12', 'managers')
ZEROS = ('accepted lost', 'doubled', 'invented', 'out of order', 'completed twice', 'one fence begun twice', 'done without its work', 'timers twice', 'timers early', 'slots twice',
         'semaphore overruns', 'locks overrun', 'cancelled but done', 'epochs twice', 'undrained', 'wrong answers', 'servers that ended', 'servers that differ', 'verify faults', 'lost logs')
for what in ZEROS:
    p.zero(what)
rng = random.Random(SEED)
net = None if refused else netns.Net()
pg = postgres.Pair([net.machine('pa'), net.machine('pb')]).start() if net else postgres.Postgres().start()
url = pg.create('weir')
if not net:
    skip('R12: machines of their own', refused)
servers, agents, peace, threads = [], [], threading.Event(), []
effects = TMP / 'effects'
effects.write_text('')
MARK = f'echo "$WEIR_TASK_ID $WEIR_FENCE %s" >> {effects}'
for i in range(3):
    if i:
        (TMP / f's{i}').mkdir(mode=0o711)
        shutil.copy(TMP / 's0/verify.key', TMP / f's{i}/verify.key')
    options = dict(slots=0, lease=f'{LEASE}s')
    servers.append(netns.Far(net.machine(f's{i}'), '--store', url, **options) if net else House(f's{i}', '--store', url, '--name', f's{i}', **options))


# -- a server dies together with the executor that it alone had heard of: the others give its task to somebody else
ghost = Worker(servers[0], 'ghost')
orphan = servers[1].enqueue(dict(name='orphan', queue='orphans', script=f'{MARK % "begin"}; {MARK % "end"}', retry=dict(attempts=5)))['id']
ok([g['task'] for g in ghost.claim(wait_ms=5000)] == [orphan], 'R12: the task of one server is granted by another')
servers[0].kill()
began = time.monotonic()
until(lambda: servers[1].state(orphan) == 'P', seconds=30)
p.bound('seconds to give up an executor whose server is dead too', time.monotonic() - began, 2 * LEASE + 2)
servers[0].start()
token = TMP / 'token'
if net: # others come by the unix socket
    token.write_text(servers[0].cli('token', 'create', '--name', 'agents', '--scope', 'execute').out)
    token.chmod(0o600)
for i in range(5):
    order = servers[i % 3:] + servers[:i % 3]
    agents.append(netns.FarAgent(net.machine(f'a{i}'), order, token, slots=4) if net else Agent(order[0], f'a{i}', slots=4, options=[part for s in order[1:] for part in ('--server', s.socket)]))


def script(seconds):
    return f'{MARK % "begin"}; echo "$WEIR_FENCE begins"; sleep {seconds}; {MARK % "end"}; echo "$WEIR_FENCE ends"'


class Hand:
    """a client that asks any server, and another one when there is no answer; it keeps what it was told"""

    def __init__(self, seed):
        self.rng, self.told, self.asked, self.cancelled = random.Random(seed), {}, {}, set()

    def ask(self, method, path, body=None, key=None, seconds=60, first=None):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            try:
                answer = (first or self.rng.choice(servers)).ask(method, path, body, headers={'Idempotency-Key': key} if key else None, local=True, timeout=4)
            except (OSError, http.client.HTTPException):
                first = None
                time.sleep(0.02)
                continue
            if answer.status != 503:
                if self.rng.random() < 0.1 and key:  # told, and asked again of another: the same answer
                    first, key, body = None, key, body
                    again = self.ask(method, path, body, None if method == 'GET' else key, seconds=10) if self.rng.random() < 0.5 else None
                    if again is not None and again.status != answer.status:
                        p.zero('wrong answers', 1, (path, key, answer, again))
                return answer
            time.sleep(0.02)
        return None

    def enqueue(self, name, body):
        self.asked[name] = body
        answer = self.ask('POST', '/v1/tasks', dict(body, name=name, queue='led'), key=name)
        if answer is None or answer.status != 201:
            p.zero('wrong answers', 1, (name, answer))
        else:
            self.told[name] = answer.json['id']
        return self.told.get(name)


def intake(hand, letter):
    n = 0
    while not peace.is_set() and n < TASKS_MAX // 3:
        n += 1
        body, known, roll = dict(retry=dict(attempts=50)), list(hand.told.values())[-6:], hand.rng.random()
        body['script'] = script(hand.rng.choice([0, 0.05, 0.3]))
        if known and roll < 0.5:
            body['depends'] = hand.rng.sample(known, min(len(known), hand.rng.randint(1, 3)))
        if roll > 0.7:
            body['semaphores'] = [hand.rng.choice(['a', 'b'])]
        if 0.5 < roll < 0.55:
            body['not_before'] = time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime(time.time() + hand.rng.randint(2, 12)))
        if 0.55 < roll < 0.6:
            body = dict(script=script(120), retry=dict(attempts=50))
        task = hand.enqueue(f'{letter}{n}', body)
        if 0.55 < roll < 0.6 and task:
            answer = hand.ask('POST', f'/v1/tasks/{task}/cancel', dict(reason='test'))
            ended = answer is not None and answer.code == 'already_ended' and 'terminated' in answer.json['detail']  # the answer was lost, and it was asked again
            if answer is None or (answer.status not in (200, 202) and not ended):
                p.zero('wrong answers', 1, ('cancel', task, answer))
            hand.cancelled.add(task)
        time.sleep(hand.rng.uniform(0, 2 * 3 * SECONDS / TASKS_MAX))


def revisions(hand):
    order = list(range(1, REVS + 1))
    hand.rng.shuffle(order)
    order += hand.rng.sample(order, REVS // 2)
    for rev in order:
        workflow = [dict(name='index', depends=['PREV'], checkout=False, script=script(0.1), retry=dict(attempts=50)),
                    dict(name='build', depends=['index'], checkout=False, script=script(0), retry=dict(attempts=50)),
                    dict(name='alone', lock='exclusive', checkout=False, script=script(0.05), retry=dict(attempts=50))]
        answer = hand.ask('POST', '/v1/archives/docs/revisions', dict(rev=rev, workflow=workflow))
        if answer is None or answer.status not in (200, 202):
            p.zero('wrong answers', 1, ('revision', rev, answer))
        peace.wait(hand.rng.uniform(0, 1.5 * SECONDS / len(order)))


def served_by(other):
    """how long until a server that nothing was done to takes a task"""
    began = time.monotonic()
    name = f'z{len(lead.asked)}'
    lead.asked[name] = {}
    deadline = began + 30
    while name not in lead.told and time.monotonic() < deadline:
        try:
            answer = other.post('/v1/tasks', dict(name=name, queue='led', script=script(0), retry=dict(attempts=50)), headers={'Idempotency-Key': name}, local=True, timeout=30)
            if answer.status == 201:
                lead.told[name] = answer.json['id']
        except (OSError, http.client.HTTPException):
            pass
        time.sleep(0.02)
    p.bound('seconds until another server takes a task', time.monotonic() - began, TAKEOVER)


# -- takeover of a duty from a server that stands still, or is dead: until the new holder has done something
def holder():
    return pg.sql("SELECT holder FROM duty WHERE name = 'timers'", 'weir')


def take_over(how):
    until(lambda: holder() in [s.dir.name for s in servers], seconds=20)
    name = holder()
    gone = next((s for s in servers if s.dir.name == name), servers[0])
    other = next(s for s in servers if s is not gone)
    due = time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime(time.time() + 1))
    task = other.enqueue(dict(name='due', queue='orphans', script=f'{MARK % "begin"}; {MARK % "end"}', not_before=due))['id']
    began = time.monotonic()
    os.kill(gone.process.pid, how)
    until(lambda: other.state(task) != 'S', seconds=30)
    p.bound('seconds from the fault to the first act of the new holder', time.monotonic() - began, TAKEOVER)
    p.did('duties taken over')
    if how == signal.SIGSTOP:
        os.kill(gone.process.pid, signal.SIGCONT)
    else:
        gone.kill()
        gone.start()


lead = Hand(SEED)
for body in (dict(name='docs', kind='external'), dict(name='timed', kind='external')):
    lead.ask('POST', '/v1/archives', body, key=body['name'])
timed = [dict(name=f'every{i}', schedule='* * * * *', checkout=False, script=script(0), retry=dict(attempts=50)) for i in range(5)]
lead.ask('POST', '/v1/archives/timed/revisions', dict(rev=1, workflow=timed))
begun = time.time()  # a slot of the schedules comes in the middle of what follows
take_over(signal.SIGSTOP)
take_over(signal.SIGKILL)

# -- a server that stands still in the middle of a turn, with the turn's lock: the others go on without it
enough = threading.Event()


def turns(server):
    while not enough.is_set():
        for word in ('pause', 'resume'):
            try:
                server.post(f'/v1/lanes/idle/{word}', dict(reason='test'), local=True, timeout=20)
            except (OSError, http.client.HTTPException):
                pass


def in_turn(server):
    return pg.sql(f"SELECT 1 FROM pg_stat_activity WHERE state = 'idle in transaction' AND application_name LIKE '%process {server.process.pid} %'") == '1'


def freeze_in_turn(server, tries=200):
    for _ in range(tries):
        os.kill(server.process.pid, signal.SIGSTOP)
        time.sleep(0.01)  # what it had sent is worked off by the database
        if in_turn(server):
            return True
        os.kill(server.process.pid, signal.SIGCONT)
        time.sleep(0.001 * lead.rng.randint(1, 20))
    return False


thread = threading.Thread(target=turns, args=(servers[0],), daemon=True)
thread.start()
if freeze_in_turn(servers[0]):
    p.did('frozen in a turn')
    served_by(servers[1])
os.kill(servers[0].process.pid, signal.SIGCONT)
enough.set()
thread.join(30)

# -- load and chaos
hands = [Hand(SEED + i) for i in range(1, 5)]
threads = [threading.Thread(target=intake, args=(hands[i], 'uvw'[i]), daemon=True) for i in range(3)] + [threading.Thread(target=revisions, args=(hands[3],), daemon=True)]
for thread in threads:
    thread.start()
stopped, apart = {}, {}


def go_on(everything=False):
    for cut, until_when in list(apart.items()):
        if everything or time.monotonic() > until_when:
            del apart[cut]
            net.up(cut[0]) if cut[1] == 'cable' else net.heal(*cut)
    for pid, until_when in list(stopped.items()):
        if everything or time.monotonic() > until_when:
            del stopped[pid]
            if alive(pid):
                os.kill(pid, signal.SIGCONT)


def ended_alone(server):
    if server.process.poll() is None:
        return False
    p.zero('servers that ended', 1, (server.dir.name, server.process.returncode, server.log.read_text()[-600:]))
    return True


def reached(server):
    return server.process.pid not in stopped and all(cut[0] != server.dir.name for cut in apart)


LINKS = ['server, database', 'server', 'executor, server', 'executor', 'primary, standby']


def link_fault(link):
    """what goes over a link vanishes for a while, and nobody is told"""
    server, agent = rng.choice(servers), rng.choice(agents)
    seconds = rng.uniform(0.5, LEASE + 4)
    if link == 'primary, standby': # nothing can be accepted meanwhile
        net.cut('pa', 'pb')
        time.sleep(rng.uniform(0.5, 2))
        net.heal('pa', 'pb')
    elif link == 'server':
        net.down(server.dir.name)
        apart[(server.dir.name, 'cable')] = time.monotonic() + seconds
    else:
        cut = {'server, database': (server.dir.name, pg.primary.machine.name), 'executor, server': (agent.name, server.dir.name), 'executor': (agent.name, None)}[link]
        net.cut(*cut)
        apart[cut] = time.monotonic() + seconds
    p.did('links cut')
    others = [s for s in servers if reached(s)]
    if others and link.startswith('server'):
        served_by(rng.choice(others))


def fail_over():
    go_on(True)
    pg.primary.kill()
    pg.promote()
    p.did('standbys promoted')
    pg.renew()


def fault(roll):
    server, other = rng.sample(servers, 2)
    if roll < 0.25:
        stopped.pop(server.process.pid, None)
        server.kill()
        if reached(other):
            served_by(other)
        if not reached(server):  # it would refuse to start
            go_on(True)
        server.start()
        p.did('servers killed')
    elif roll < 0.45 and not stopped:
        os.kill(server.process.pid, signal.SIGSTOP)
        stopped[server.process.pid] = time.monotonic() + LEASE + 2
        if reached(other):
            served_by(other)
        p.did('servers stopped')
    elif roll < 0.7:
        agent = rng.choice(agents)
        stopped.pop(agent.process.pid, None)
        agent.kill() if rng.random() < 0.6 else agent.kill_all()
        agent.start()
        p.did('executors killed')
    elif roll < 0.8:
        agent = rng.choice(agents)
        os.kill(agent.process.pid, signal.SIGSTOP)
        stopped[agent.process.pid] = time.monotonic() + rng.uniform(0.5, LEASE + 3)
        p.did('executors stopped')
    else:
        p.did('connections cut', int(pg.sql("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = 'weir' AND pid <> pg_backend_pid()").split()[-1]))


deadline = time.monotonic() + SECONDS
restarts = [deadline - SECONDS * part for part in (0.35, 0.7)]
first_rolls, first_links, promoted = [0.1, 0.3, 0.6, 0.75, 0.95], list(LINKS), False  # each kind at least once


def minute_between():
    """a slot of the schedules has come in the middle of it"""
    return time.time() // 60 > begun // 60 and time.time() % 60 > 3


while time.monotonic() < deadline or not minute_between():
    go_on()
    for server in servers:
        if ended_alone(server):
            go_on(True)
            server.start()
    if restarts and time.monotonic() > restarts[-1]:
        restarts.pop()
        pg.restart(rng.choice([signal.SIGINT, signal.SIGQUIT]))
        p.did('database restarts')
    if net and not promoted and time.monotonic() > deadline - SECONDS / 2:
        promoted = True
        fail_over()
    fault(first_rolls.pop() if first_rolls else rng.random())
    if net and (first_links or rng.random() < 0.5):
        link_fault(first_links.pop() if first_links else rng.choice(LINKS))
    time.sleep(rng.uniform(0, 1))

# -- peace
go_on(True)
peace.set()
for thread in threads:
    thread.join(90)
began = time.monotonic()
hands.append(lead)


def get(path, server=None):
    answer = lead.ask('GET', path, first=server)
    return answer.json if answer is not None else {}


def open_tasks():
    return get('/v1/tasks?state=QSPX&limit=1000').get('tasks', ['no answer'])


until(lambda: not open_tasks(), seconds=PEACE)
p.bound('seconds of peace to drain', time.monotonic() - began, PEACE)
left = open_tasks()
p.zero('undrained', len(left), [get(f'/v1/tasks/{t["id"]}/why') for t in left[:3]])
for server in servers:
    ended_alone(server)


# -- the count
def history(server):
    return [json.loads(line) for line in server.patient('/v1/events?since=0&limit=1000000', local=True).body.splitlines()]


for _ in range(60):  # once nothing happens while they are asked: the schedules fire on, minute by minute
    tasks, events = tasks_of(servers[0]), history(servers[0])
    others = [(server, tasks_of(server), history(server)) for server in servers[1:]]
    if history(servers[0]) == events and all(t['state'] in ENDED for t in tasks):
        break
    time.sleep(0.5)
for agent in agents:  # not before: what a schedule fires meanwhile has to end
    agent.stop()
for server, theirs, told in others:
    p.zero('servers that differ', int(theirs != tasks) + int(told[:len(events)] != events), server.dir.name)
by_id = {t['id']: t for t in tasks}
p.did('tasks', len(tasks))
p.did('events', len(events))
names = {}
for t in tasks:
    if t['key'].get('queue') == 'led':
        names.setdefault(t['key']['name'], []).append(t['id'])
for hand in hands:
    for name, task in hand.told.items():
        p.zero('accepted lost', int(task not in names.get(name, [])), (name, task))
p.zero('doubled', sum(len(v) - 1 for v in names.values()), [v for v in names.items() if len(v[1]) > 1][:5])
p.zero('invented', len(set(names) - {n for h in hands for n in h.asked}))
for rev in range(1, REVS + 1):
    got = sorted(t['key']['name'] for t in tasks if t['key'].get('archive') == 'docs' and t['key'].get('rev') == rev)
    p.zero('accepted lost', int(got != ['COMMIT', 'alone', 'build', 'index']), (rev, got))

moves = {}
for e in events:
    if e['kind'] == 'move':
        moves.setdefault(e['task'], []).append(e)
lines = [line.split() for line in effects.read_text().splitlines()]
written = {}
for at, line in enumerate(lines):
    if len(line) == 3:
        written.setdefault((int(line[0]), line[1], line[2]), []).append(at)
done_at, first_at, done_line, first_line = {}, {}, {}, {}
for task, list_of in moves.items():
    ends = [e for e in list_of if e['to'] in ENDED]
    p.zero('completed twice', int(len(ends) > 1), (task, ends))
    starts = [e['seq'] for e in list_of if e['to'] == 'X']
    if starts:
        first_at[task] = starts[0]
    if ends and ends[0]['to'] == 'D':
        done_at[task] = ends[0]['seq']
        if by_id[task]['attempts']:
            fence = ends[0].get('fence')
            where = written.get((task, fence, 'end'))
            p.zero('done without its work', int(not where), (task, fence, [k for k in written if k[0] == task]))
            done_line[task] = where[0] if where else 0
            if not by_id[task]['key'].get('queue') == 'orphans':
                log = lead.ask('GET', f'/v1/tasks/{task}/log').body
                p.zero('lost logs', int(f'{fence} begins\n{fence} ends\n'.encode() not in log), (task, fence, log[-200:]))
for (task, fence, word), where in written.items():
    if word == 'begin':
        p.zero('one fence begun twice', len(where) - 1, (task, fence))
        first_line[task] = min(where + [first_line.get(task, where[0])])


def after(child, parent):
    p.did('orders compared')
    wrong = child in first_at and not (parent in done_at and first_at[child] > done_at[parent])
    wrong |= child in first_line and parent in done_line and first_line[child] < done_line[parent]
    p.zero('out of order', int(wrong), (child, parent, moves.get(child), moves.get(parent)))


for t in tasks:
    for edge in t.get('depends') or []:
        if by_id[edge['id']]['attempts']:
            after(t['id'], edge['id'])
index = {t['key']['rev']: t['id'] for t in tasks if t['key'].get('archive') == 'docs' and t['key']['name'] == 'index'}
for rev in range(2, REVS + 1):
    if rev in index and rev - 1 in index:
        after(index[rev], index[rev - 1])

# semaphores and the archive's lock: who held them at each event
bodies = {task: hand.asked[name] for hand in hands for name, task in hand.told.items()}
holds = {task: body['semaphores'][0] for task, body in bodies.items() if body.get('semaphores')}
locks = {t['id']: 'docs' for t in tasks if t['key'].get('archive') == 'docs' and t['key']['name'] == 'alone'}
for what, of in (('semaphore overruns', holds), ('locks overrun', locks)):
    held = {}
    for e in events:
        if e['kind'] == 'move' and e['task'] in of:
            who = held.setdefault(of[e['task']], set())
            who.add(e['task']) if e['to'] == 'X' else who.discard(e['task'])
            p.zero(what, int(len(who) > 1), (of[e['task']], who, e))
            p.did(what.split()[0] + ' moves')
for task, body in bodies.items():
    if 'not_before' not in body:
        continue
    p.did('timers')
    fired = [e for e in moves.get(task, []) if e['to'] == 'P' and e['from'] != 'X']
    p.zero('timers twice', int(len(fired) > 1), (task, fired))
    p.zero('timers early', int(any(e['time'] < body['not_before'][:-1] for e in fired)), (task, fired))
slots = {}
for t in tasks:
    if t['key'].get('archive') == 'timed' and t['key']['name'].startswith('every'):
        slots.setdefault((t['key']['name'].split('#')[0], t['created'][:16]), []).append(t['id'])
p.did('slots fired', len(slots))
p.zero('slots twice', sum(len(v) - 1 for v in slots.values()), slots)
for hand in hands:
    for task in hand.cancelled:
        p.did('cancels')
        p.zero('cancelled but done', int(by_id.get(task, {}).get('state') == 'D'), task)
epochs = [(e.get('subject') or e.get('key'), e.get('reason')) for e in events if e['kind'] == 'duty' and e['reason'].startswith('epoch')]
p.did('duties taken', len(epochs))
p.zero('epochs twice', len(epochs) - len(set(epochs)), epochs)
for server in servers:
    check = server.verify()
    p.zero('verify faults', int(check.code != 0), (server.dir.name, check.code, check.out + check.err))
for server in servers:
    server.stop(signal.SIGINT)
check = run('verify', '--data', servers[0].dir, '--store', url)
p.zero('verify faults', int(check.code != 0), (check.code, check.out + check.err))
p.report()
pg.remove()
end()
