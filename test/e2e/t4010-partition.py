#!/usr/bin/env python3
"""An executor that is not heard of for longer than its lease (stopped, as a cut network would do): jobs run on, and their results and logs arrive whole as
long as nobody else was granted the task; a job that holds a semaphore is killed before the lease ends; a second executor takes over what was lost."""
import os
import pathlib
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
from house import NAP, TMP, WEIR, House, alive, clean_env, end, ok, same, until  # noqa: E402

s = House('data', slots=2, lease='2s')
job = s.enqueue(dict(name='long', script=f'i=0; while [ ! -e {TMP}/go ]; do echo "line $i"; i=$((i+1)); sleep 0.02; done; echo $i > {TMP}/count; echo a=b >> $WEIR_OUTPUT'))
ok(until(lambda: b'line 3\n' in s.log_bytes(job['id']), seconds=30), 'a job runs and its log comes')
executor = s.executors()
same(len(executor), 1, 'one executor')
node = [n['name'] for n in s.get('/v1/nodes').json['nodes'] if n['role'] == 'executor'][0]
os.kill(executor[0], signal.SIGSTOP)
began = time.monotonic()
ok(until(lambda: s.state(job['id']) == 'P', seconds=30), 'not heard of for a lease: P again')
ok(time.monotonic() - began < 20, 'in time')
ok(until(lambda: [n for n in s.get('/v1/nodes').json['nodes'] if n['name'] == node and n['state'] == 'active'] == [], seconds=30),
   'the node is gone or marked so', s.get('/v1/nodes'))
size = len(s.log_bytes(job['id']))
os.kill(executor[0], signal.SIGCONT)
ok(until(lambda: s.state(job['id']) == 'X', seconds=20), 'it comes back and has its task again', s.task(job['id']))
ok(until(lambda: len(s.log_bytes(job['id'])) > size, seconds=20), 'and the log goes on', s.log_bytes(job['id'])[-100:])
(TMP / 'go').touch()
done = s.ended(job['id'])[0]
same((done['state'], len(done['attempts']), done['outputs']), ('D', 1, {'a': 'b'}), 'one attempt, done, with outputs')
wanted = b''.join(b'line %d\n' % i for i in range(int((TMP / 'count').read_text())))
got = s.log_bytes(job['id'])
ok(got == wanted, f'the log is whole: {len(wanted)} bytes', len(got), got[-60:])

# -- another executor is there: it takes over, and the first one's job is stopped when it is back
other = subprocess.Popen([WEIR, 'executor', '--server', s.socket, '--data', str(s.dir) + '-other', '--slots', '1', '--name', 'other', '--label', 'k=v'],
                         env=clean_env(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=open(TMP / 'other.err', 'wb'))
ok(until(lambda: 'other' in [e['name'] for e in s.get('/v1/executors').json['executors'] if e['state'] == 'active'], seconds=30), 'a second executor')
s.post('/v1/executors/other/pause', dict(reason='not yet'))
job = s.enqueue(dict(name='moved', script=f'echo $$ > {TMP}/pid$WEIR_ATTEMPT; echo attempt $WEIR_ATTEMPT; [ $WEIR_ATTEMPT -eq 2 ] || sleep {NAP}'))
ok(until(lambda: (TMP / 'pid1').exists() and (TMP / 'pid1').read_text().strip(), seconds=30), 'a job runs on the first')
pid = int((TMP / 'pid1').read_text())
os.kill(executor[0], signal.SIGSTOP)
s.post('/v1/executors/other/resume', dict(reason='now'))
done = s.ended(job['id'])[0]
same((done['state'], [(a['executor'], a['outcome']) for a in done['attempts']]), ('D', [(node, 'lost'), ('other', 'done')]), 'the second executor takes it over')
ok(alive(pid), 'the first one\'s process runs on: nobody could tell it')
os.kill(executor[0], signal.SIGCONT)
ok(until(lambda: not alive(pid), seconds=30), 'when it is back it is told, and its process is gone')
same((s.task(job['id'])['state'], s.log_bytes(job['id'])), ('D', b'attempt 2\n'), 'nothing of the zombie changed the end')
other.send_signal(signal.SIGINT)
same(other.wait(30), 0, 'the second executor ends')
ok(until(lambda: [n for n in s.get('/v1/nodes').json['nodes'] if n['name'] == 'other' and n['state'] == 'active'] == [], seconds=20), 'and isn\'t among the living')

# -- the server is gone for longer than a lease: a job that holds a semaphore is killed in time, another runs on
held, free = s.enqueue(dict(name='held', semaphores=['one'], retry=dict(attempts=1), script=f'echo $$ > {TMP}/held; sleep {NAP}'),
                       dict(name='free', script=f'echo $$ > {TMP}/free; while [ ! -e {TMP}/go2 ]; do sleep 0.05; done; echo end'))
ok(until(lambda: all((TMP / n).exists() and (TMP / n).read_text().strip() for n in ('held', 'free')), seconds=30), 'two jobs run')
pids = [int((TMP / n).read_text()) for n in ('held', 'free')]
s.kill()
ok(until(lambda: not alive(pids[0]), seconds=20), 'without a server the one with the semaphore is killed')
ok(alive(pids[1]), 'the other runs on')
(TMP / 'go2').touch()
ok(until(lambda: not alive(pids[1]), seconds=20), 'and ends')
s.start()
done = s.ended(held['id'], free['id'])
same((done[1]['state'], len(done[1]['attempts']), s.log_bytes(free['id'])), ('D', 1, b'end\n'), 'its end and log arrive at the next server')
same((done[0]['state'], done[0]['attempts'][-1]['outcome']), ('F', 'lost') if done[0]['attempts'][-1]['outcome'] == 'lost' else ('F', 'killed'), 'the killed one failed')
end()
