#!/usr/bin/env python3
"""kill -9 of the executor and of shims: jobs are adopted by the next executor, which weir serve starts; what lost its shim is lost and tried again."""
import hashlib
import os
import pathlib
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
from house import NAP, TMP, House, alive, end, ok, processes, same, until  # noqa: E402

s = House('data', slots=4)


def pid_of(name):
    path = TMP / name
    until(lambda: path.exists() and path.read_text().strip(), seconds=40)
    return int(path.read_text())


def one_executor(but=()):
    found = []

    def look():
        found[:] = [p for p in s.executors() if p not in but]
        return len(found) == 1
    until(look, seconds=30)
    return found[0] if found else None


blob = os.urandom(300000)
(TMP / 'blob').write_bytes(blob)
script = ('echo $$ > {t}/pid{i}; i=0; while [ ! -e {t}/go{i} ]; do echo "line $i"; i=$((i+1)); sleep 0.03; done; echo $i > {t}/count{i}; cat {t}/blob; '
          'echo x={i} >> $WEIR_OUTPUT; exit {exit}')
jobs = s.enqueue(*[dict(name=f'j{i}', script=script.format(t=TMP, i=i, exit=code)) for i, code in enumerate((0, 7, 100))])
ids = [t['id'] for t in jobs]
pids = [pid_of(f'pid{i}') for i in range(3)]
shims = set(s.shims())
old = []
for round in range(3):
    executor = one_executor(old)
    ok(executor, f'kill {round + 1}: there is one executor', s.left())
    old.append(executor)
    os.kill(executor, signal.SIGKILL)
    if round == 1:
        (TMP / 'go1').touch()  # ends while nobody is there, or while the new one is just coming
    next_one = one_executor(old)
    ok(next_one and alive(next_one), f'kill {round + 1}: the server starts another', s.left())
    ok(all(alive(p) for i, p in enumerate(pids) if not (TMP / f'go{i}').exists()), f'kill {round + 1}: the jobs run on')
quick = s.enqueue(dict(name='quick', command='echo quick'))
same(s.ended(quick['id'])[0]['state'], 'D', 'the next executor takes new work beside')
same(len(s.get('/v1/executors').json['executors']), 1, 'the server knows it as the same executor')
ok(shims <= set(s.shims()) | {p for p in shims if not alive(p)}, 'the shims stayed')
# server and executor die together
executor = one_executor(old)
s.kill()
os.kill(executor, signal.SIGKILL)
s.start()
ok(one_executor([executor]), 'after both died the next server starts an executor')
ok(alive(pids[0]) and alive(pids[2]), 'and the jobs run on')
(TMP / 'go0').touch()
(TMP / 'go2').touch()
done = s.ended(*ids)
same([(t['state'], len(t['attempts']), t['attempts'][0]['exit'], t['outputs']) for t in done],
     [('D', 1, 0, {'x': '0'}), ('F', 1, 7, {'x': '1'}), ('F', 1, 100, {'x': '2'})], 'one attempt each, the right exit, the outputs')
same([t['attempts'][0]['outcome'] for t in done], ['done', 'failed', 'permanent'], 'and the outcome')
for i, task in enumerate(done):
    wanted = b''.join(b'line %d\n' % n for n in range(int((TMP / f'count{i}').read_text()))) + blob
    got = s.log_bytes(task['id'])
    ok(hashlib.sha256(got).digest() == hashlib.sha256(wanted).digest(), f'log {i} is byte-exact: {len(wanted)} bytes', len(got))

# a shim dies
task = s.enqueue(dict(name='orphan', script=f'echo $$ > {TMP}/orphan$WEIR_ATTEMPT; (setsid sleep {NAP} &); echo started; '
                      f'[ $WEIR_ATTEMPT -gt 1 ] || sleep {NAP}; echo second'))
pid = pid_of('orphan1')
until(lambda: b'started' in s.log_bytes(task['id']), seconds=20)
fields = open(f'/proc/{pid}/stat').read().rpartition(')')[2].split()
shim = int(fields[1])
ok(shim in s.shims(), 'a job is the child of its shim', shim, s.left())
os.kill(shim, signal.SIGKILL)
ok(until(lambda: not alive(pid), seconds=30), 'kill -9 of a shim: the job dies with it')
done = s.ended(task['id'])[0]
same((done['state'], [(a['number'], a['outcome']) for a in done['attempts']]), ('D', [(1, 'lost'), (2, 'done')]), 'the attempt is lost and the task is run again')
ok(until(lambda: not processes(NAP), seconds=20), 'nothing of either attempt is left', processes(NAP))
same(s.log_bytes(task['id'], '?attempt=1'), b'started\n', 'the log of the lost attempt is kept')
same(s.log_bytes(task['id'], '?attempt=2'), b'started\nsecond\n', 'and apart from that of the second')
same(s.stop(signal.SIGINT), 0, 'SIGINT')
ok(until(lambda: not s.left(), seconds=20), 'leaves nothing', s.left())
end()
