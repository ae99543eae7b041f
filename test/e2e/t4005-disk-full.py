#!/usr/bin/env python3
# store: sqlite
"""A full disk: intake is refused (507, exit 75), running work ends and is recorded, room heals it without a restart, nothing is lost."""
import os
import pathlib
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
from house import TMP, House, end, ok, refused, run, same, skip, until  # noqa: E402

room = TMP / 'room'
room.mkdir()
mounted = subprocess.run(['mount', '-t', 'tmpfs', '-o', 'size=48m,mode=0755', 'weir-test', str(room)], capture_output=True, text=True)
if mounted.returncode != 0:
    skip('a full disk', 'no tmpfs can be mounted here: ' + mounted.stderr.strip().replace('#', ''))
    end()


def unmount():
    done = subprocess.run(['umount', str(room)], capture_output=True, text=True)
    return done.returncode == 0


def free_bytes():
    st = os.statvfs(room)
    return st.f_bavail * st.f_frsize


def fill(leave):
    """a file that takes all room but `leave` bytes"""
    with open(room / 'ballast', 'ab') as f:
        while free_bytes() > leave:
            try:
                f.write(b'x' * min(65536, max(1, free_bytes() - leave)))
                f.flush()
            except OSError:
                break


try:
    s = House('room/data', slots=3)
    jobs = s.enqueue(*[dict(name=f'j{i}', script=f'echo v={i} >> $WEIR_OUTPUT; echo started; while [ ! -e {TMP}/go{i} ]; do sleep 0.05; done; echo "ends {i}"; exit {i * 7}')
                       for i in range(3)])
    follow = s.enqueue(dict(name='after', command='echo follows', depends=[jobs[0]['id']]))
    ids = [t['id'] for t in jobs]
    ok(until(lambda: all(s.state(i) == 'X' and b'started' in s.log_bytes(i) for i in ids), seconds=40), 'three jobs run')
    acknowledged = ids + [follow['id']]

    # fill it through intake: big tasks until the server says stop; a ballast takes most of the room first
    fill(14 << 20)
    answers = []
    for n in range(80):
        answer = s.post('/v1/tasks', dict(name=f'big{n}', data=os.urandom(350000).hex()), headers={'Idempotency-Key': f'big{n}'})
        answers.append(answer.status)
        if answer.status == 201:
            acknowledged.append(answer.json['id'])
        else:
            break
    refused(answer, 507, 'disk_full', text=f'intake of a full disk after {len(answers) - 1} tasks')
    ok(set(answers[:-1]) <= {201}, 'until then all was taken', answers)
    fill(0)
    refused(s.post('/v1/tasks', dict(name='small')), 507, 'disk_full', text='a small one')
    refused(s.post('/v1/tasks', dict(tasks=[dict(name='a'), dict(name='b')])), 507, 'disk_full', text='many')
    got = run('enqueue', '--server', s.socket, '-', stdin='{"name": "cli"}')
    ok(got.code == 75 and 'room' in got.err, 'weir enqueue: 75', got.code, got.err)
    same(s.get('/healthz').status, 200, 'the process answers')
    ready = s.get('/readyz')
    ok(ready.status in (503, 507), 'readyz says that it takes no work', ready)
    same(s.get(f'/v1/tasks/{ids[0]}').json['state'], 'X', 'reading works')
    told = [line for line in s.log.read_text().splitlines() if 'server.unready' in line]
    ok(len(told) == 1 and 'reason=disk_full' in told[0], 'one line in the log', told)
    node = [n for n in s.get('/v1/nodes').json['nodes'] if n['role'] == 'server'][0]
    ok(node['state'] == 'failing' and 'disk is full' in node['reason'] and str(room) in node['reason'], 'nodes: with the reason', node)
    got = [s.cli('status'), s.cli('nodes'), s.cli('top')]
    ok(all('disk is full' in g.err + g.out for g in got), 'status, nodes and top say it', [g.err + g.out for g in got])

    # running work ends and is recorded
    for i in range(2):
        (TMP / f'go{i}').touch()
    done = s.ended(*ids[:2], seconds=40)
    same([(t['state'], t['attempts'][-1]['exit'] if t['attempts'] else None) for t in done], [('D', 0), ('F', 7)], 'running work ends and is recorded')
    same([t['outputs'] for t in done], [{'v': '0'}, {'v': '1'}], 'with its outputs')
    same([len(t['attempts']) for t in done], [1, 1], 'in one attempt')
    refused(s.post('/v1/tasks', dict(name='still')), 507, 'disk_full', text='intake is still refused')
    cancelled = s.post(f'/v1/tasks/{acknowledged[-1]}/cancel', dict(reason='make room'))
    ok(cancelled.status in (200, 507), f'cancel: {cancelled.status}')

    # room: it recovers by itself
    os.unlink(room / 'ballast')
    later = []

    def taken():
        answer = s.post('/v1/tasks', dict(name='again', command='echo again'), headers={'Idempotency-Key': 'again'})
        later[:] = [answer]
        return answer.status == 201
    ok(until(taken, seconds=40), 'with room again it takes work, without a restart', later)
    acknowledged.append(later[0].json.get('id'))
    ok(until(lambda: s.get('/readyz').status == 200, seconds=20), 'and readyz says so')
    told = [line for line in s.log.read_text().splitlines() if 'server.ready' in line]
    ok(len(told) == 1 and 'after=disk_full' in told[0], 'and one line in the log', told)
    same(s.ended(later[0].json['id'])[0]['state'], 'D', 'which runs')
    (TMP / 'go2').touch()
    done = s.ended(*ids, follow['id'], seconds=40)
    same([t['state'] for t in done], ['D', 'F', 'F', 'D'], 'what waited goes on')
    same([s.log_bytes(i) for i in ids], [b'started\nends %d\n' % i for i in range(3)], 'the logs are whole')
    same([s.get(f'/v1/tasks/{i}').status for i in acknowledged], [200] * len(acknowledged), 'all that was acknowledged is there')
    same(len(s.get('/v1/tasks?limit=1000').json['tasks']), len(acknowledged), 'and nothing that was refused')
    check = s.cli('verify')
    same(check.code, 0, f'weir verify: {(check.out + check.err).strip()[:200]}')

    # full at a crash, full at the start
    fill(0)
    s.kill()
    started = True
    try:
        s.start()
    except SystemExit as e:
        started = False
        text = str(e)
    if started:
        ok(s.get(f'/v1/tasks/{ids[0]}').status == 200, 'a server starts on a full disk and can be read')
        refused(s.post('/v1/tasks', dict(name='x')), 507, 'disk_full', text='and refuses intake')
        os.unlink(room / 'ballast')
    else:
        ok('full' in text or 'space' in text, f'a server that cannot start on a full disk says why: {text.strip()[-160:]}', text)
        s.process.wait(20)
        os.unlink(room / 'ballast')
        s.start()
    ok(until(lambda: s.post('/v1/tasks', dict(name='last'), headers={'Idempotency-Key': 'last'}).status == 201, seconds=40), 'room heals that, too')
    same([s.get(f'/v1/tasks/{i}').status for i in acknowledged], [200] * len(acknowledged), 'all is still there')
    same(s.stop(signal.SIGINT, 40), 0, 'the server ends')
    check = run('verify', '--data', s.dir)
    same(check.code, 0, f'weir verify without a server: {(check.out + check.err).strip()[:200]}')
finally:
    for server in __import__('serving')._servers:
        if server.process.poll() is None:
            server.stop(signal.SIGINT, 40)
    __import__('house').sweep()
    until(unmount, seconds=20)
ok(not os.path.ismount(room), 'the room is gone')
end()
