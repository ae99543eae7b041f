#!/usr/bin/env python3
# time limit: 180
# store: sqlite (it starts its own PostgreSQL)
"""Two servers on one store, over TLS: a client reads through one what it wrote through the other (?at_least); executors turn from one that is killed, or hangs, to
the other with their jobs, which end in their first attempt."""
import pathlib
import shutil
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
from house import TMP, WEIR, clean_env, database, end, ok, same, until  # noqa: E402
from papers import TlsHouse, authority, issue  # noqa: E402

ca = authority('ca')
issue('server', 'ca')
certificate, key = issue('client', 'ca', names='')
pg, url = database()
a = TlsHouse('a', 'server', '--store', url, '--name', 'a', client_ca='ca', slots=0, lease='6s')
(TMP / 'b').mkdir(mode=0o711)
shutil.copy(TMP / 'a/verify.key', TMP / 'b/verify.key')
b = TlsHouse('b', 'server', '--store', url, '--name', 'b', client_ca='ca', slots=0, lease='6s')
pair = [a, b]


def turn(answer):
    return int(answer.headers['Weir-Turn'])


# -- read your writes
wrong, slowest = [], 0
for i in range(40):
    here, there = pair[i % 2], pair[1 - i % 2]
    made = here.post('/v1/tasks', dict(name=f't{i}', queue='w', data=i))
    began = time.monotonic()
    seen = there.get(f'/v1/tasks?limit=1&at_least={turn(made)}')
    slowest = max(slowest, time.monotonic() - began)
    if seen.status != 200 or turn(seen) < turn(made) or seen.json['tasks'][0]['id'] != made.json['id']:
        wrong.append((i, seen, seen.headers))
same(wrong, [], f'40 writes through one, each read through the other (slowest {slowest:.3f} s)')
answers = []


def waiting(want):
    answers.append(b.get(f'/v1/tasks?limit=1&at_least={want}'))


far = turn(made) + 30 # each server commits once a second by itself
thread = threading.Thread(target=waiting, args=(far,))
thread.start()
same(until(lambda: answers, seconds=0.3), [], 'a read at b waits for a commit that nobody has made')
while turn(made) < far:
    made = a.post('/v1/tasks', dict(name='last', queue='w', data=1))
began = time.monotonic()
thread.join(20)
ok(answers and answers[0].status == 200 and turn(answers[0]) >= far and answers[0].json['tasks'][0]['id'] >= made.json['id'] - 1, 'and sees what a then makes', answers)
ok(time.monotonic() - began < 9, 'soon', time.monotonic() - began)

# -- executors
gate = TMP / 'gate'
crew = []
for i in range(3): # each names another server first
    servers = [part for one in (pair if i % 2 == 0 else pair[::-1]) for part in ('--server', one.url)]
    crew.append(subprocess.Popen([WEIR, 'executor', '--data', str(TMP / f'crew{i}'), '--name', f'crew{i}', '--slots', '2', *servers, '--ca', str(ca), '--client-cert', str(certificate),
                                  '--client-key', str(key)], env=clean_env(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=(TMP / f'crew{i}.err').open('wb')))


def said():
    return '\n'.join((TMP / f'crew{i}.err').read_text() for i in range(3))


def jobs(name, server):
    return [server.enqueue(dict(name=f'{name}{i}', queue='jobs', script=f'echo begun; while [ ! -e {gate}.{name} ]; do sleep 0.05; done; echo done'))['id'] for i in range(6)]


def over(server, ids, text):
    ended = server.ended(*ids)
    same([(t['state'], len(t['attempts'])) for t in ended], [('D', 1)] * 6, text)
    same([server.log_bytes(i) for i in ids if server.get(f'/v1/tasks/{i}/log').status == 200 and server.log_bytes(i) != b'begun\ndone\n'], [], 'and no log that is there is cut')


one = jobs('one', a)
ok(until(lambda: all(a.state(i) == 'X' for i in one)), 'six jobs run on three executors', said())
a.kill()
(TMP / 'gate.one').touch()
over(b, one, 'a is killed: all six end through b, in their first attempt')
two = jobs('two', b)
ok(until(lambda: all(b.state(i) == 'X' for i in two)), 'new ones are granted by b')
old_port = a.port
a.listen = f'127.0.0.1:{old_port}'
a.start()
ok(until(lambda: a.get('/readyz').status == 200), 'a is back')
b.process.send_signal(signal.SIGSTOP)
(TMP / 'gate.two').touch()
over(a, two, 'b hangs: all six end through a, in their first attempt')
b.process.send_signal(signal.SIGCONT)
ok(until(lambda: all(b.state(i) == 'D' for i in two)), 'b wakes up and says the same')
for process in crew:
    process.send_signal(signal.SIGINT)
same([process.wait(60) for process in crew], [0, 0, 0], 'the executors have lived through all of it')
for s in pair:
    same(s.stop(signal.SIGINT), 0, 'the server ends')
pg.remove()
end()
