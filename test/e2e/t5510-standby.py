#!/usr/bin/env python3
# time limit: 240
# store: sqlite (it starts its own PostgreSQL)
"""PostgreSQL with a standby: what is accepted is on both, also when somebody breaks the wait for the standby off; a primary of the past is never written to
again; and a standby that wasn't synchronous is warned of, and its promotion noticed."""
import http.client
import pathlib
import shutil
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
import netns  # noqa: E402
import postgres  # noqa: E402
from house import TMP, end, ok, run, same, skip, until  # noqa: E402

why = f'there is no {postgres.BIN}' if not postgres.available() else netns.enter()
if why:
    skip('PostgreSQL with a standby', why)
    end()
net = netns.Net()
pair = postgres.Pair([net.machine('pa'), net.machine('pb')]).start()
url = pair.create('weir')
pair.sql("ALTER DATABASE weir SET client_min_messages = 'error'")  # what the servers depend on they set themselves
s0 = netns.Far(net.machine('s0'), '--store', url, slots=0, lease='4s')
(TMP / 's1').mkdir(mode=0o711)
shutil.copy(TMP / 's0/verify.key', TMP / 's1/verify.key')
s1 = netns.Far(net.machine('s1'), '--store', url, slots=0, lease='4s')
WAITS = "FROM pg_stat_activity WHERE wait_event = 'SyncRep'"


class Asking(threading.Thread):
    """one request that may take long; .answer once there is one"""

    def __init__(self, server, key, again=False):
        super().__init__(daemon=True)
        self.server, self.key, self.again, self.answer, self.told = server, key, again, None, []
        self.start()

    def once(self):
        try:
            return self.server.post('/v1/tasks', dict(name=self.key, queue='q', data=1), headers={'Idempotency-Key': self.key}, local=True, timeout=60)
        except (OSError, http.client.HTTPException):
            return None

    def run(self):
        deadline = time.monotonic() + 90
        while time.monotonic() < deadline:
            answer = self.once()
            if answer is not None:
                self.told.append((answer.status, answer.code))
            if answer is not None and (answer.status == 201 or not self.again):
                self.answer = answer
                return
            time.sleep(0.05)


def sure(server, key):
    asking = Asking(server, key, again=True)
    asking.join(90)
    return asking.answer.json['id'] if asking.answer else asking.told


def names(server):
    return sorted(t['key']['name'] for t in server.patient('/v1/tasks?queue=q&limit=1000', local=True).json['tasks'])


def warnings(server):
    return [w for n in server.patient('/v1/nodes', local=True).json['nodes'] if n['name'] == server.dir.name for w in n['warnings']]


# -- warnings of a database that would lose something
ok(any('fsync' in w for w in warnings(s0)) and not any('standby' in w for w in warnings(s0)), 'nodes warn of fsync, not of the standby: it is synchronous', warnings(s0))
ok('store.weak' in s0.log.read_text(), 'so does the log', s0.log.read_text())
sure(s0, 'first')

# -- somebody breaks the wait for the standby off: PostgreSQL says "done", the server doesn't
# (its turn is held up until the link is cut: else one of the commits that servers make by themselves might be the one that waits)
LOCKS = "FROM pg_locks WHERE relation = 'task'::regclass AND"
holds = subprocess.Popen([postgres.BIN / 'psql', '-X', '-q', '-h', pair.primary.dir, '-p', str(pair.primary.port), '-U', postgres.USER, '-d', 'weir'], stdin=subprocess.PIPE,
                         stdout=subprocess.DEVNULL, text=True)
print('BEGIN; LOCK TABLE task IN SHARE MODE;', file=holds.stdin, flush=True)
until(lambda: pair.primary.sql(f"SELECT count(*) {LOCKS} mode = 'ShareLock' AND granted", 'weir') == '1')
asking = Asking(s0, 'cancelled')
until(lambda: pair.primary.sql(f'SELECT count(*) {LOCKS} NOT granted', 'weir') == '1', 'a turn has the task')
net.cut('pa', 'pb')
holds.communicate('COMMIT;\n', timeout=30)
until(lambda: int(pair.primary.sql(f'SELECT count(*) {WAITS}')) > 0, 'its commit waits for the standby')
until(lambda: pair.primary.sql(f'SELECT count(pg_cancel_backend(pid)) {WAITS}') != '0', 'its wait is cancelled', seconds=40)
until(lambda: pair.primary.sql("SELECT count(*) FROM task WHERE name = 'cancelled'", 'weir') == '1', 'now the primary has it alone')
late = Asking(s1, 'cancelled', again=True)  # the same key through the other server
asking.join(2)
ok(asking.answer is None or asking.answer.status != 201, 'nobody is told that it was accepted', asking.told)
ok(late.answer is None, 'nor by the other server, which finds it', late.told)

# -- the primary is gone with it, the standby promoted
before = pair.primary
pair.primary.kill()
pair.promote()
net.heal()
began = time.monotonic()
one = sure(s0, 'cancelled')
late.join(90)
ok(time.monotonic() - began < 30, 'the servers are back soon after the promotion', time.monotonic() - began)
same([late.answer and late.answer.json['id'], names(s0), names(s1)], [one, ['cancelled', 'first'], ['cancelled', 'first']], 'the key brings one task, in the database that counts')

# -- the old primary comes back as if nothing had happened, first in everybody's list
before.start()
counted = before.sql('SELECT turn FROM head', 'weir')
s1.kill()
s1.start()
two = sure(s1, 'second')
ok(isinstance(two, int), 'a server that was started again takes work', two)
same(names(s0), ['cancelled', 'first', 'second'], 'and the other one sees it: it is in the new primary')
same(before.sql('SELECT turn FROM head', 'weir'), counted, 'the old one has been left alone')
pair.primary.sql('SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = \'weir\'')
sure(s0, 'third')
same((names(s1), before.sql('SELECT turn FROM head', 'weir')), (['cancelled', 'first', 'second', 'third'], counted), 'so it is when all connections are made anew')
(TMP / 's2').mkdir(mode=0o711)
shutil.copy(TMP / 's0/verify.key', TMP / 's2/verify.key')
s2 = netns.Far(net.machine('s2'), '--store', url, slots=0, lease='4s')
ok(isinstance(sure(s2, 'newcomer'), int), 'a server with a new data directory takes work')
same(('newcomer' in names(s0), before.sql('SELECT turn FROM head', 'weir')), (True, counted),
     'it has seen neither, and leaves the old one alone')
s2.stop()
alone = f'postgresql://weir@{pair.host(before)}/weir'
s1.stop()
done = run('serve', '--data', TMP / 's1', '--listen', '127.0.0.1:0', '--slots', '0', '--store', alone)
ok(done.code == 69 and 'primary of the past' in done.err and 'pg_rewind' in done.err, 'a server that is sent to the old primary alone refuses, and says what to do', done.code, done.err)
s1.start()

# -- a standby that isn't synchronous
pair.renew()
pair.synchronous = False
pair.names('')
pair.primary.sql('SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = \'weir\'')
sure(s0, 'fourth')
until(lambda: any('standby' in w for w in warnings(s0)), 'no synchronous standby any more: nodes warn', seconds=20)
until(pair.replicated, seconds=20)
sure(s1, 'kept')
position = pair.primary.sql('SELECT pg_current_wal_lsn()')
until(lambda: pair.standby.sql(f"SELECT pg_last_wal_replay_lsn() >= '{position}'") == 't', seconds=20)
net.cut('pa', 'pb')
sure(s0, 'lost')
pair.primary.kill()
pair.promote()
net.heal()
sure(s0, 'after')
same(names(s1), ['after', 'cancelled', 'first', 'fourth', 'kept', 'newcomer', 'second', 'third'], 'promoted, it has lost what was accepted')
ok(any('went back' in e['reason'] for e in s0.events() if e['kind'] == 'incarnation'), 'which is noticed: the store takes a new incarnation', [e for e in s0.events() if e['kind'] == 'incarnation'])
for s in (s0, s1):
    check = s.verify()
    ok(check.code == 0, f'{s.dir.name}: the history verifies', check.out + check.err)
    same(s.stop(signal.SIGINT), 0, f'{s.dir.name} ends')
pair.remove()
end()
