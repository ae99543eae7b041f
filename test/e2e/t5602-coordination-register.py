#!/usr/bin/env python3
# time limit: 150
# store: sqlite (it starts its own PostgreSQL and ZooKeeper)
"""ZooKeeper's register and its locks, with credentials: executors are in it with content, written by the server that hears them and heard of by the others; strangers can't write
there; wrong credentials are said with what to do, and work goes on; changes of the site's keys through two servers follow one another by a fair lock, also past a dead holder, and past
one whose session ran out while it had it: that one's change is refused."""
import json
import pathlib
import shutil
import signal
import subprocess
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
import postgres  # noqa: E402
import zookeeper  # noqa: E402
from house import TMP, House, Worker, end, ok, run, same, skip, until  # noqa: E402

# -- what is no file of credentials
for name, text, mode, words in [('open', 'u:p', 0o644, 'chmod 0600'), ('bare', 'secretword', 0o600, 'USER:PASSWORD'), ('two', 'u:p\nv:q\n', 0o600, 'USER:PASSWORD')]:
    (TMP / name).write_text(text)
    (TMP / name).chmod(mode)
    told = run('serve', '--data', TMP / 'bad', '--store', 'postgresql:///none', '--coordination', 'zookeeper://h:1/weir', '--coordination-auth', TMP / name, timeout=60)
    ok(told.code != 0 and words in told.err and 'secretword' not in told.err + told.out, f'{name}: refused with what to do, and without its words', told.code, told.err)
told = run('serve', '--data', TMP / 'bad', '--coordination-auth', TMP / 'bare', timeout=60)
ok(told.code == 2 and 'without coordination' in told.err, 'credentials for nothing are refused', told.code, told.err)
if not postgres.available() or not zookeeper.available():
    skip('PostgreSQL and ZooKeeper', 'one of them is not there')
    end()

pg = postgres.Postgres().start()
url = pg.create('weir')
zk = zookeeper.ZooKeeper().start()
SECRET = 'pw-5602-secret'
for name, words in [('good', f'weir:{SECRET}'), ('wrong', 'weir:other')]:
    (TMP / name).write_text(words + '\n')
    (TMP / name).chmod(0o600)
servers = {}


def server(name, auth='good'):
    if (TMP / 'a/verify.key').exists() and name != 'a':
        (TMP / name).mkdir(mode=0o711, exist_ok=True)
        shutil.copy(TMP / 'a/verify.key', TMP / f'{name}/verify.key')
    conf = TMP / f'{name}.yaml'
    conf.write_text(f'coordination: {zk.url}\ncoordination_auth: {TMP / auth}\n')
    servers[name] = House(name, '--store', url, '--name', name, '--config', str(conf), slots=0)
    return servers[name]


def coordination(s):
    return s.get('/v1/nodes').json['coordination']


def node(s, name):
    found = [n for n in s.get('/v1/nodes').json['nodes'] if n['name'] == name]
    return found[0] if found else {}


a, b = server('a'), server('b')
until(lambda: zk.children('/weir/nodes') == ['a', 'b'], 'both are in the register', seconds=40)

# -- executors, with content, by the server that hears them
stop = threading.Event()


def poll(worker):
    while not stop.is_set():
        worker.claim(free=1, wait_ms=1000)


workers = [Worker(a, 'xa'), Worker(b, 'xb')]
threads = [threading.Thread(target=poll, args=(w,), daemon=True) for w in workers]
for t in threads:
    t.start()
until(lambda: zk.children('/weir/executors') == ['xa', 'xb'], 'executors are in it', seconds=40)
seen = json.loads(zk.get('/weir/executors/xa'))
same({k: type(seen.get(k)).__name__ for k in ('name', 'role', 'version', 'host', 'load', 'state', 'server')},
     dict(name='str', role='str', version='str', host='str', load='int', state='str', server='str') | ({'load': 'float'} if isinstance(seen.get('load'), float) else {}),
     'name, role, version, host, load, state, server')
same((seen['role'], seen['state'], seen['server']), ('executor', 'active', 'a'), 'as they are')
for s in (a, b):
    until(lambda s=s: (node(s, 'xa').get('server'), node(s, 'xb').get('server')) == ('a', 'b'), f'weir nodes of {s.dir.name} says who hears whom', seconds=30)
before = a.get('/v1/nodes').json['nodes']
a.post(f'/v1/executors/{workers[1].id}/pause', dict(reason='r'))
until(lambda: json.loads(zk.get('/weir/executors/xb') or '{}').get('state') == 'paused', 'a change of state is in the content', seconds=30)
a.post(f'/v1/executors/{workers[1].id}/resume', dict(reason='r'))

# -- strangers can't write
same([zk.create('/weir/nodes/ghost'), zk.create('/weir/duties/timers/ghost-0000000000'), zk.create('/weir/x'), zk.delete('/weir/executors/xa'),
      zk.create('/weir/nodes/ghost', auth='weir:other')], [-102] * 5, 'who has no or other credentials can write nothing there')
same(zk.create('/weir/probe', auth=f'weir:{SECRET}'), 0, 'who has them can')
zk.delete('/weir/probe', auth=f'weir:{SECRET}')
c = server('c', 'wrong')
until(lambda: coordination(c)['state'] == 'away' and 'coordination_auth' in coordination(c).get('detail', ''), 'wrong credentials: away, with what to do', seconds=40)
task = c.enqueue(dict(name='t', queue='q', data=1))['id']
until(lambda: c.state(task) in 'XD', 'and work goes on', seconds=40)
same(c.stop(), 0, 'c ends')
for s in servers.values():
    log = s.log.read_text()
    ok(SECRET not in log and 'other' not in [w for line in log.splitlines() for w in line.split(':')], f'the log of {s.dir.name} has no password', log[-500:])
    ok(SECRET.encode() not in pathlib.Path(f'/proc/{s.process.pid}/cmdline').read_bytes() if s.process.poll() is None else True, 'nor has the command line')
ok(SECRET not in a.cli('nodes', '--json').out and SECRET not in run('serve', '--config', TMP / 'a.yaml', '--show-config').out, 'nobody shows it')

# -- changes of the site's keys: one after the other, by the lock
(TMP / 'n.yaml').write_text('semaphores: {n: 1}\n')
codes = []


def apply(s, n):
    path = TMP / f'n{n}.yaml'
    path.write_text(f'semaphores: {{n: {n}}}\n')
    codes.append(s.cli('config', 'apply', path).code)


crowd = [threading.Thread(target=apply, args=((a, b)[n % 2], n)) for n in range(1, 9)]
for t in crowd:
    t.start()
for t in crowd:
    t.join()
same(codes, [0] * 8, 'eight at once through two servers: all are taken')
same([k['version'] for k in a.get('/v1/config', local=True).json['keys'] if k['name'] == 'semaphores'], [8], 'one after the other')
until(lambda: zk.children('/weir/locks/config') == [], 'nobody is left in line', seconds=30)
until(lambda: pg.sql("SELECT holder FROM duty WHERE name = 'config'", 'weir').strip() == '', 'and the row is free', seconds=30)
epoch = int(pg.sql("SELECT epoch FROM duty WHERE name = 'config'", 'weir'))
ok(epoch >= 8, 'each had its epoch', epoch)
pg.sql("UPDATE duty SET holder = 'ghost', beat = beat + 1 WHERE name = 'config'", 'weir')
same(b.cli('config', 'apply', TMP / 'n.yaml').code, 0, 'a holder that is dead is waited for, and no longer than a lease')
same(int(pg.sql("SELECT epoch FROM duty WHERE name = 'config'", 'weir')), epoch + 1, 'under the next epoch')

# -- an executor that is silent is gone from the register, and the other server has heard of it
stop.set()
for t in threads:
    t.join()
until(lambda: zk.children('/weir/executors') == [], 'silent ones are taken out', seconds=40)
until(lambda: node(b, 'xa').get('state') == 'lost' and node(a, 'xb').get('state') == 'lost', 'lost, at the other server too', seconds=30)

# -- who has the lock stands still until its session is over: the next one has it, and what the first one sent under its epoch comes too late
TURN, GATE = "1466263922, hashtext('turn ' || current_schema())", '56, 2'  # the lock of turns; one that holds back the turn that takes the lock for a


class Session:
    """a connection to the database, kept"""

    def __init__(self):
        self.process = subprocess.Popen([postgres.BIN / 'psql', '-X', '-q', '-A', '-t', '-h', pg.dir, '-p', str(pg.port), '-U', postgres.USER, '-d', 'weir'],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def say(self, text):
        self.process.stdin.write(text + ';\n\\echo done\n')
        self.process.stdin.flush()

    def heard(self):
        return ''.join(iter(self.process.stdout.readline, 'done\n')).strip()

    def ask(self, text):
        self.say(text)
        return self.heard()

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def waits(words):
    """somebody waits for an advisory lock in a statement with these words"""
    return look.ask(f"SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND wait_event = 'advisory' AND query LIKE '%{words}%'") != '0'


def row():
    epoch, holder = look.ask("SELECT epoch, holder FROM duty WHERE name = 'config'").split('|')
    return int(epoch), holder


def semaphores(s):
    return [(k['version'], k['value']) for k in s.get('/v1/config', local=True).json['keys'] if k['name'] == 'semaphores'][0]


def change(s, by):
    return s.post('/v1/config', dict(text=f'semaphores: {{by: {by}}}'), local=True, timeout=100)


def frozen_with_the_lock(by):
    """whether a had the lock, its answer, the epoch it had, that of b's change, and the one after a had gone on"""
    answers = []
    look.ask("""CREATE TRIGGER gate AFTER UPDATE ON duty FOR EACH ROW WHEN (NEW.name = 'config' AND NEW.holder = 'a' AND NEW.epoch > OLD.epoch)
EXECUTE FUNCTION gate()""")
    gate.ask(f'SELECT pg_advisory_lock({GATE})')
    first = threading.Thread(target=lambda: answers.append(change(a, 1)))
    first.start()
    until(lambda: waits('INTO duty'), seconds=40)  # a is about to take the lock
    turns.say(f'SELECT pg_advisory_lock({TURN})')
    until(lambda: waits('SELECT pg_advisory_lock'), seconds=40)
    gate.ask(f'SELECT pg_advisory_unlock({GATE})')
    turns.heard()  # a has taken it, and is told; what it then does waits for its turn, behind us
    look.ask('DROP TRIGGER gate ON duty')  # it isn't Weir's: a server that connects refuses such a database
    epoch, holder = row()
    a.get('/v1/config?at_least=' + look.ask('SELECT tick FROM head'), local=True)
    a.get('/v1/config', local=True)
    a.process.send_signal(signal.SIGSTOP)
    turns.ask(f'SELECT pg_advisory_unlock({TURN})')
    until(lambda: zk.children('/weir/nodes') == ['b'] and not zk.children('/weir/locks/config'), 'a stands still until its session is over', seconds=60)
    was = semaphores(b)[0]
    until(lambda: change(b, by).status == 200, 'b gets the lock and makes its change', seconds=60)
    later = row()[0]
    same(semaphores(b), (was + 1, {'by': by}), 'it is the only one')
    a.process.send_signal(signal.SIGCONT)
    first.join()
    return holder == 'a', answers[0], epoch, later, row()[0]


gate, turns, look = Session(), Session(), Session()
look.ask(f'CREATE FUNCTION gate() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_advisory_xact_lock({GATE}); RETURN NULL; END $$')
for by in range(2, 6):  # on a machine so slow that a had waited for its turn longer than a lease it asks for the lock anew, as it should
    had, answer, first, later, after = frozen_with_the_lock(by)
    ok(answer.status != 200 or after > later, 'a goes on: it changes nothing under the epoch that is over', answer.status, first, later, after)
    if had and answer.status == 409:
        break
    until(lambda: change(a, by + 100).status == 200, 'a is well again', seconds=60)  # its connections are made anew: not while there is a trigger
same((had, answer.status, answer.json.get('code')), (True, 409, 'stale_fence'), 'and is told that another server has the lock')
ok(later > first, 'which had a later epoch', first, later)
was = semaphores(b)
same((was[1], semaphores(a)), ({'by': by}, was), 'b\'s change is in force, at both')
until(lambda: zk.children('/weir/nodes') == ['a', 'b'], 'a is in the register again', seconds=40)
until(lambda: change(a, 9).status == 200, 'and gets the lock when it asks anew', seconds=60)
same(semaphores(a), (was[0] + 1, {'by': 9}), 'behind b\'s change')
for session in (gate, turns, look):
    session.end()

# -- without it
zk.stop()
until(lambda: coordination(a)['state'] == coordination(b)['state'] == 'away', 'it is stopped', seconds=40)
same(sorted((n['name'], n['role']) for n in a.get('/v1/nodes').json['nodes']), sorted((n['name'], n['role']) for n in before + [node(a, 'c')] if n), 'weir nodes has all of them without it')
same([a.cli('config', 'apply', TMP / 'n1.yaml').code, b.cli('config', 'apply', TMP / 'n2.yaml').code], [0, 0], 'and the lock is had by the row alone')
for s in (a, b):
    s.stop(signal.SIGINT)
pg.remove()
zk.remove()
end()
