#!/usr/bin/env python3
# time limit: 150
# store: sqlite (it starts its own PostgreSQL)
"""A full disk of PostgreSQL. Its tables have no room (53100): intake is refused (507), /readyz, the log, status and nodes say which disk it is; running jobs aren't lost, their ends are
recorded once there is room, without a restart. Its WAL has no room: PostgreSQL crashes and can't start again; the servers say so and heal by themselves when it is back. Nothing that was
acknowledged is lost, and nothing that was refused is there."""
import os
import pathlib
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
import postgres  # noqa: E402
from house import TMP, House, end, ok, same, skip, sweep, until  # noqa: E402

if not postgres.available():
    skip('PostgreSQL', f'there is no {postgres.BIN}')
    end()
os.chmod(TMP, 0o755)
rooms = [TMP / 'tables', TMP / 'wal']
mounted = []


def unmount():
    for room in list(mounted):
        if subprocess.run(['umount', str(room)], capture_output=True).returncode == 0:
            mounted.remove(room)
    return not mounted


for room, size in zip(rooms, ('120m', '80m')):
    room.mkdir()
    done = subprocess.run(['mount', '-t', 'tmpfs', '-o', f'size={size},mode=0777', 'weir-test', str(room)], capture_output=True, text=True)
    if done.returncode != 0:
        unmount()
        skip('a full disk of PostgreSQL', 'no tmpfs can be mounted here: ' + done.stderr.strip().replace('#', ''))
        end()
    mounted.append(room)


def free_bytes(room):
    st = os.statvfs(room)
    return st.f_bavail * st.f_frsize


def fill(room, leave=0):
    with open(room / 'ballast', 'ab') as f:
        while free_bytes(room) > leave:
            try:
                f.write(b'x' * min(65536, max(1, free_bytes(room) - leave)))
                f.flush()
            except OSError:
                break


acknowledged, refusals = [], []


def flood(name, n=120):
    """large tasks until one is refused; what it was answered"""
    for i in range(n):
        answer = s.post('/v1/tasks', dict(name=f'{name}{i}', queue='big', data=os.urandom(300000).hex()), headers={'Idempotency-Key': f'{name}{i}'}, timeout=40)
        if answer.status != 201:
            refusals.append(f'{name}{i}')
            break
        acknowledged.append(answer.json['id'])
    return answer


def taken(name):
    answer = s.post('/v1/tasks', dict(name=name, command='true'), headers={'Idempotency-Key': name}, timeout=40)
    if answer.status == 201:
        acknowledged.append(answer.json['id'])
    return answer.status == 201


def job(name):
    script = f'echo begins; while [ ! -e {TMP}/go-{name} ]; do sleep 0.05; done; echo v=1 >> $WEIR_OUTPUT; echo ends'
    made = s.enqueue(dict(name=name, script=script, retry=dict(attempts=1)))['id']
    acknowledged.append(made)
    until(lambda: s.state(made) == 'X' and b'begins' in s.log_bytes(made))
    return made


def ends_well(task, text):
    done = s.ended(task)[0]
    same((done['state'], done['outputs'], len(done['attempts'])), ('D', {'v': '1'}, 1), f'{text}: the job that ran has ended, in one attempt, with its output')
    same(s.log_bytes(task), b'begins\nends\n', f'{text}: with its log')


pg = postgres.Postgres(settings=['max_wal_size=48MB', 'min_wal_size=32MB', 'wal_recycle=off', 'restart_after_crash=on'])
try:
    pg.data = rooms[0] / 'data'
    pg._run(postgres.BIN / 'initdb', '-D', pg.data, '-X', rooms[1] / 'wal', '-U', postgres.USER, '-A', 'trust', '-E', 'UTF8', '--locale=C', '--no-sync', '--no-instructions')
    pg.start()
    s = House('s0', '--store', pg.create('weir'), slots=2, lease='4s')

    # -- the tables have no room
    first = job('first')
    fill(rooms[0], 8 << 20)
    refusal = flood('a')
    same((refusal.status, refusal.code), (507, 'disk_full'), 'intake is refused')
    ok("PostgreSQL's disk" in refusal.json['detail'], 'and says which disk is full', refusal)
    fill(rooms[0])
    same(s.get('/healthz').status, 200, 'the server answers')
    ready = s.get('/readyz')
    ok(ready.status == 503 and 'disk is full' in ready.json['detail'], '/readyz: 503', ready)
    told = [s.cli('status'), s.cli('nodes')]
    ok(all("PostgreSQL's disk" in t.err + t.out for t in told), 'status and nodes say it', [t.err + t.out for t in told])
    (TMP / 'go-first').touch()
    until(lambda: s.log.read_text().count('reason=disk_full') == 1, 'one line in the log')
    ok("PostgreSQL's disk" in s.log.read_text(), 'which says where room is wanted')
    until(lambda: 'could not extend' in (pg.dir / 'log').read_text(), seconds=20)
    same(s.get(f'/v1/tasks/{first}').json['state'], 'X', 'a running job stays one: its end has no room')
    os.unlink(rooms[0] / 'ballast')
    until(lambda: taken('again'), 'with room it takes work again, without a restart', 30)
    until(lambda: s.get('/readyz').status == 200, 'and is ready', 20)
    ends_well(first, 'room')

    # -- the WAL has no room: PostgreSQL crashes, and can't come back before there is some
    second = job('second')
    fill(rooms[1])
    refusal = flood('b')
    ok(refusal.status == 503, 'no room for the WAL: intake is refused', refusal)
    (TMP / 'go-second').touch()
    until(lambda: s.get('/readyz').status == 503, '/readyz: 503', 20)
    until(lambda: 'store_away' in s.log.read_text(), 'the log says that the database is away')
    ok(s.cli('status').code in (0, 69, 75), 'status is answered')
    same(s.process.poll(), None, 'the server runs on')
    until(lambda: 'No space left' in (pg.dir / 'log').read_text(), seconds=20)
    until(lambda: pg.process.poll() is not None, seconds=10)
    os.unlink(rooms[1] / 'ballast')
    if pg.process.poll() is not None:
        pg.start()
    until(lambda: taken('after'), 'once PostgreSQL is back it takes work again, without a restart', 40)
    until(lambda: s.get('/readyz').status == 200, 'and is ready', 20)
    ends_well(second, 'after the crash')
    same({s.get(f'/v1/tasks/{i}').status for i in acknowledged}, {200}, f'all {len(acknowledged)} that were acknowledged are there')
    names = [t['key']['name'] for t in s.get('/v1/tasks?limit=1000').json['tasks']]
    ok(len(names) == len(set(names)) and not set(refusals[:1]) & set(names), 'none twice, and none that was refused', refusals)
    same(s.verify().code, 0, 'weir verify')
    same(s.stop(signal.SIGTERM), 0, 'the server ends')
finally:
    sweep()
    pg.stop(signal.SIGQUIT)
    until(unmount, seconds=20)
end()
