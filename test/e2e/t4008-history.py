#!/usr/bin/env python3
# store: sqlite
"""History and operation: dense events, verify finds every edit, backup under load, restore with a new incarnation, wait and top on a terminal."""
import fcntl
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import sqlite3
import struct
import subprocess
import sys
import termios
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
from house import TMP, WEIR, House, Worker, clean_env, end, ok, refused, run, same, until  # noqa: E402

s = House('data', slots=2)


class Terminal:
    def __init__(self, *args, rows=30, columns=100):
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack('HHHH', rows, columns, 0, 0))
        self.before = termios.tcgetattr(slave)
        self.slave = slave
        self.process = subprocess.Popen([WEIR, *map(str, args)], stdin=slave, stdout=slave, stderr=slave, env=clean_env(), start_new_session=True)
        self.text = ''

    def read(self, seconds=0.1):
        while select.select([self.master], [], [], seconds)[0]:
            self.text += os.read(self.master, 65536).decode(errors='replace')
            seconds = 0
        return self.text

    def until(self, wanted, seconds=30):
        return until(lambda: wanted in self.read(), seconds=seconds)

    def exit(self, seconds=30):
        until(lambda: self.read() is None or self.process.poll() is not None, seconds=seconds)
        self.read(0.1)
        if self.process.poll() is None:
            self.process.kill()
        return self.process.wait()

    def keys(self, text):
        os.write(self.master, text.encode())


# -- something happens
tasks = s.enqueue(*[dict(name=f't{i}', script=f'echo {i}; exit {i % 3}', **({'depends': [f't{i - 1}']} if i % 3 == 1 else {})) for i in range(12)])
s.ended(*[t['id'] for t in tasks])
events = s.events('since=0&limit=1000')
same([e['seq'] for e in events], list(range(1, len(events) + 1)), 'seq is dense')
times = [e['time'] for e in events]
same(times, sorted(times), 'and in the order of time')
for task in (s.task(t['id']) for t in tasks):
    moves = [(e.get('from'), e['to']) for e in events if e.get('task') == task['id'] and e.get('to')]
    if any(a[1] != b[0] for a, b in zip(moves, moves[1:])) or moves[-1][1] != task['state']:
        ok(False, 'the moves of each task form a chain to its state', moves, task)
        break
else:
    ok(True, 'the moves of each task form a chain to its state')
good = s.cli('verify', '--json')
ok(good.code == 0, 'weir verify beside the server', good.out, good.err)
head = s.cli('verify').out
witness = re.search(r'\b(\d+:[0-9a-f]{32,})', head)
ok(witness, 'prints the head as a witness', head)

# -- wait and top, on a terminal and not
good_task = s.enqueue(dict(name='fine', command='true'))['id']
same(s.cli('wait', good_task, '--timeout', '30s').code, 0, 'wait: all D: 0')
same(s.cli('wait', good_task, tasks[2]['id'], '--timeout', '30s').code, 1, 'wait: one is F: 1')
same(s.cli('wait', 987654).code, 66, 'wait: no such task: 66')
a, b = [t['id'] for t in s.enqueue(dict(name='first', script=f'while [ ! -e {TMP}/go ]; do sleep 0.05; done'), dict(name='second', command='true', depends=['first']))]
same(s.cli('wait', b, '--timeout', '500ms').code, 75, 'wait --timeout: 75')
t = Terminal('wait', '--server', s.socket, a, b)
ok(t.until('second') and t.until('first'), 'wait on a terminal shows the tree', t.text)
top = Terminal('top', '--server', s.socket)
ok(top.until('first'), 'top on a terminal shows what runs', top.text)
ok('\x1b[' in top.text, 'with a screen of its own')
(TMP / 'go').touch()
same(t.exit(), 0, 'wait ends with 0')
ok(re.search(r'100 ?%|2/2|2 of 2', t.text) or 'done' in t.text, 'and says how far it came', t.text[-500:])
same(termios.tcgetattr(t.slave)[3], t.before[3], 'the terminal is as before')
live = s.enqueue(dict(name='latecomer', script=f'while [ ! -e {TMP}/go2 ]; do sleep 0.05; done'))['id']
ok(top.until('latecomer'), 'top is live', top.text[-1000:])
top.keys('q')
same(top.exit(), 0, 'q leaves')
same(termios.tcgetattr(top.slave)[3], top.before[3], 'and the terminal is as before')
bad = Terminal('wait', '--server', s.socket, tasks[2]['id'])
same(bad.exit(), 1, 'wait on a terminal for what failed: 1')
(TMP / 'go2').touch()
s.ended(live)

big = s.enqueue(dict(name='big', command='seq 555556'))['id']
s.ended(big)
text = ''.join(f'{i}\n' for i in range(1, 555557)).encode()
ok(s.log_bytes(big) == text, 'a large log')

# -- backup under load, restore elsewhere
stop = threading.Event()
made = []


def load():
    n = 0
    while not stop.is_set():
        n += 1
        made.append(s.post('/v1/tasks', dict(name=f'load{n}', queue='load')).json['id'])


threads = [threading.Thread(target=load) for _ in range(2)]
for thread in threads:
    thread.start()
w = Worker(s, 'outside', kinds=['data'])
x = s.enqueue(dict(name='granted', data=1))['id']
grant = w.claim()[0]
w.log(grant, 0, b'before')
until(lambda: len(made) > 50, seconds=30)
known = list(made)
backup = s.cli('backup', TMP / 'copy.backup')
same(backup.code, 0, f'backup under load: {(backup.out + backup.err).strip()[:120]}')
same(s.cli('backup', TMP / 'copy.backup').code, 0, 'the same name again: the newer copy, whole')
stop.set()
for thread in threads:
    thread.join()
refusal = run('restore', TMP / 'copy.backup', '--data', s.dir)
ok(refusal.code not in (0, 2) and refusal.err, 'restore over a living store is refused', refusal.err)
restored = run('restore', TMP / 'copy.backup', '--data', TMP / 'data2', '--active')
same(restored.code, 0, f'restore elsewhere: {(restored.out + restored.err).strip()[:120]}')
same(run('restore', TMP / 'copy.backup', '--data', TMP / 'data2').code != 0, True, 'a second time is refused')
same(run('restore', TMP / 'none', '--data', TMP / 'data3').code, 66, 'no such backup: 66')
(TMP / 'garbage').write_bytes(b'garbage' * 1000)
garbage = run('restore', TMP / 'garbage', '--data', TMP / 'data3')
ok(garbage.code not in (0, 2) and not (TMP / 'data3/weir.db').exists(), 'garbage is no backup', garbage.err)
check = run('verify', '--data', TMP / 'data2')
same(check.code, 0, f'the copy verifies: {(check.out + check.err).strip()[:100]}')
r = House('data2', slots=0)
same([i for i in known if r.get(f'/v1/tasks/{i}').status != 200], [], 'all that was acknowledged before the backup is there')
same((r.state(x), [r.task(t['id'])['state'] for t in tasks] == [s.task(t['id'])['state'] for t in tasks]), (r.state(x), True), 'states are the same')
w2 = Worker(r, 'outside', kinds=['data'])
refused(r.post(f'/v1/tasks/{x}/finish', dict(fence=grant['fence'], exit=0)), 409, 'stale_fence', text='a fence of the old incarnation is refused')
refused(r.ask('POST', f'/v1/tasks/{x}/log?fence={grant["fence"]}&offset=6', b'x'), 409, 'stale_fence', text='its log, too')
same(w.finish(grant).status, 200, 'in the first store it counts')
grants = until(lambda: w2.claim(), seconds=40)
ok(grants and grants[0]['task'] == x and grants[0]['fence'].split('-')[0] != grant['fence'].split('-')[0], 'the copy grants it anew, with an incarnation of its own', grants, r.task(x))
if grants:
    same(w2.finish(grants[0]).status, 200, 'and takes the end')
same(r.log_bytes(tasks[0]['id']), b'0\n', 'small logs are in the copy')
ok(r.log_bytes(big) == text, 'and large ones')
same(r.get(f'/v1/tasks/{x}/log?attempt=1').body, b'before', 'and what a running task had said until then')
same(r.stop(signal.SIGINT), 0, 'the copy ends')

# -- verify finds edits
same(s.stop(signal.SIGINT, 40), 0, 'the server ends')
pristine = run('verify', '--data', s.dir)
same(pristine.code, 0, 'verify of a stopped store')
same(run('verify', '--data', s.dir, '--witness', witness[1]).code, 0, 'with the witness')
same(run('verify', '--data', s.dir, '--witness', witness[1][:-4] + ('0000' if witness[1][-4:] != '0000' else '1111')).code, 1, 'with a wrong witness: 1')
older = run('verify', '--data', TMP / 'data2', '--witness', re.search(r'\b(\d+:[0-9a-f]{32,})', pristine.out)[1])
same(older.code, 1, 'an older copy is told by the witness of the newer')


def edited(sql, text, arguments=()):
    copy = TMP / 'edited'
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(s.dir, copy, ignore=shutil.ignore_patterns('*.sock', 'executor'))
    db = sqlite3.connect(copy / 'weir.db')
    changed = db.execute(sql, arguments).rowcount
    db.commit()
    db.close()
    found = run('verify', '--data', copy)
    ok(changed > 0 and found.code == 1 and (found.out + found.err).strip(), f'{text}: found ({(found.out + found.err).strip()[:90]})', changed, found.code, found.out, found.err)


db = sqlite3.connect(s.dir / 'weir.db')
n_turns = db.execute('SELECT max(turn) FROM turn').fetchone()[0]
middle = n_turns // 2
blob = db.execute('SELECT events FROM turn WHERE turn = ?', (middle,)).fetchone()[0]
db.close()
flipped = blob[:len(blob) // 2] + bytes([blob[len(blob) // 2] ^ 1]) + blob[len(blob) // 2 + 1:]
edited('UPDATE turn SET events = ? WHERE turn = ?', 'one bit of an event', (flipped, middle))
edited('UPDATE turn SET at = at + 1 WHERE turn = ?', 'the time of a turn', (middle,))
edited('UPDATE turn SET first_seq = first_seq + 1 WHERE turn = ?', 'the seq of a turn', (middle,))
edited('DELETE FROM turn WHERE turn = ?', 'a turn taken out', (middle,))
edited('DELETE FROM turn WHERE turn = (SELECT max(turn) FROM turn)', 'the last turn taken out')
edited('DELETE FROM turn WHERE turn = 1', 'the first turn taken out')
edited('UPDATE turn SET hash = (SELECT hash FROM turn WHERE turn = ?1 - 1) WHERE turn = ?1', 'a hash', (middle,))
edited("UPDATE task SET state = 'D' WHERE state = 'F'", 'failed tasks made done')
edited("UPDATE task SET state = 'P' WHERE id = (SELECT max(id) FROM task)", 'a task put back')
edited('DELETE FROM task WHERE id = 3', 'a task taken out')
edited('INSERT INTO task SELECT 999999, lane, rev, state, name, variant, run, rest FROM task WHERE id = 1', 'a task put in')
edited('UPDATE head SET seq = seq - 1', 'the head')
same(run('verify', '--data', s.dir).code, 0, 'and the store itself is as it was')
same(run('verify', '--data', TMP / 'nowhere').code, 66, 'verify of nothing: 66')
end()
