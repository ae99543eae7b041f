"""The executor beside the real server: kills of either, restarts, cancels; everything arrives whole and nothing is left behind."""
# time limit: 180
import base64
import hashlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../unit/exec'))
from crew import TMP, WEIR, Tap, poll, processes  # noqa: E402

tap = Tap()


class Site:
    def __init__(self, *options):
        self.data = os.path.join(TMP, 'site')
        self.options = options
        self.log = open(os.path.join(TMP, 'serve.log'), 'ab')
        self.server = None
        self.start()

    def start(self):
        address = pathlib.Path(self.data, 'address')
        address.unlink(missing_ok=True)
        argv = [WEIR, 'serve', '--data', self.data, '--listen', '127.0.0.1:0', '--slots', '4', *self.options]
        self.server = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        if not poll(lambda: address.exists() and address.read_text().strip(), 30):
            raise AssertionError('the server does not come up')
        self.url = address.read_text().strip()

    def kill(self, signo=signal.SIGKILL):
        self.server.send_signal(signo)
        return self.server.wait(30)

    def call(self, path, body=None):
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(self.url + path, data=data, headers={'Content-Type': 'application/json'})
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    def bytes(self, path):
        with urllib.request.urlopen(self.url + path, timeout=60) as answer:
            return answer.read()

    def add(self, **task):
        return self.call('/v1/tasks', task)['id']

    def task(self, number):
        return self.call(f'/v1/tasks/{number}')

    def ended(self, *numbers, seconds=60):
        return poll(lambda: all(self.task(n)['state'] in 'DFTA' for n in numbers), seconds)

    def executor(self):
        try:
            pid = int(pathlib.Path(self.data, 'executor.pid').read_text().split()[0])
            return pid if pathlib.Path('/proc', str(pid), 'cmdline').read_bytes().split(b'\0')[1] == b'executor' else None
        except (OSError, ValueError, IndexError):
            return None

    def job(self, task):
        """processes of a task of this site: others run tasks of the same number beside it"""
        here = os.path.realpath(self.data).encode() + b'/'
        return [pid for pid in processes(f'WEIR_TASK_ID={task}\0') if here in environ(pid)]

    def shims(self):
        """not the shells of jobs, whose scripts are in the folders of their shims"""
        return [pid for pid in processes(os.path.join(os.path.realpath(self.data), 'executor/shims/')) if cmdline(pid).split(b'\0')[1:2] == [b'shim']]


def cmdline(pid):
    try:
        return pathlib.Path('/proc', str(pid), 'cmdline').read_bytes()
    except OSError:
        return b''


def environ(pid):
    try:
        return pathlib.Path('/proc', str(pid), 'environ').read_bytes()
    except OSError:
        return b''


def lines(n):
    return ''.join(f'line {i} of many\n' for i in range(n)).encode()


COUNT = 'i=0; while [ $i -lt %d ]; do echo "line $i of many"; i=$((i+1)); sleep 0.02; done; exit %d'


def server_killed(site):
    path = os.path.join(TMP, 'bytes')
    with open(path, 'wb') as out:
        out.write(os.urandom(5 << 20))
    big = site.add(name='big', command=['sh', '-c', f'sleep 0.5; cat {path}'])
    slow = [site.add(name='slow', script=COUNT % (100, code)) for code in (0, 3)]
    poll(lambda: site.bytes(f'/v1/tasks/{slow[0]}/log').count(b'\n') > 3, 20)
    for _ in range(4):
        site.kill()
        time.sleep(0.2)
        site.start()
    tap.ok(site.ended(big, *slow), 'tasks end through four kills of the server')
    tap.equal([site.task(n)['state'] for n in slow], ['D', 'F'], 'with their own ends')
    tap.equal([len(site.task(n)['attempts']) for n in (big, *slow)], [1, 1, 1], 'in one attempt each')
    tap.ok(all(site.bytes(f'/v1/tasks/{n}/log') == lines(100) for n in slow), 'their logs have no hole')
    tap.equal(hashlib.sha256(site.bytes(f'/v1/tasks/{big}/log')).hexdigest(), hashlib.sha256(open(path, 'rb').read()).hexdigest(),
              'nor have five random megabytes')
    tap.ok(poll(site.executor, 20), 'there is an executor')


def executor_killed(site):
    slow = [site.add(name='slow', script=COUNT % (80, code)) for code in (0, 4)]
    poll(lambda: all(site.bytes(f'/v1/tasks/{n}/log').count(b'\n') > 3 for n in slow), 20)
    for _ in range(3):
        poll(site.executor, 20)
        before = site.executor()
        os.kill(before, signal.SIGKILL)
        tap.ok(poll(lambda: site.executor() not in (None, before), 20), 'a killed executor is started again')
    tap.ok(site.ended(*slow), 'its tasks go on')
    tap.equal([(site.task(n)['state'], len(site.task(n)['attempts'])) for n in slow], [('D', 1), ('F', 1)], 'and end as they end, in one attempt')
    tap.ok(all(site.bytes(f'/v1/tasks/{n}/log') == lines(80) for n in slow), 'with whole logs')


def cancelled(site):
    task = site.add(name='deaf', script='trap "" TERM; (trap "" TERM; setsid sleep 1000) & echo up; while :; do sleep 0.1; done')
    poll(lambda: site.bytes(f'/v1/tasks/{task}/log') == b'up\n', 20)
    site.call(f'/v1/tasks/{task}/cancel', {'reason': 'test'})
    tap.ok(site.ended(task, seconds=20), 'a cancelled task that is deaf ends')
    tap.equal(site.task(task)['state'], 'T', 'as terminated')
    tap.ok(not site.job(task), 'with everything it started', site.job(task))


def shim_killed(site):
    task = site.add(name='victim', script='echo up; [ "$WEIR_ATTEMPT" -gt 1 ] && exit 0; sleep 1000')
    poll(lambda: site.bytes(f'/v1/tasks/{task}/log') == b'up\n', 20)
    job = site.job(task)
    shim = [pid for pid in site.shims() if any(parent(p) == pid for p in job)]
    os.kill(shim[0], signal.SIGKILL)
    tap.ok(site.ended(task), 'a task whose shim was killed is tried again')
    tap.equal([a['outcome'] for a in site.task(task)['attempts']], ['lost', 'done'], 'the first attempt is lost, the second done')


def parent(pid):
    try:
        return int(pathlib.Path('/proc', str(pid), 'stat').read_text().rsplit(')', 1)[1].split()[1])
    except OSError:
        return 0


def quick(site):
    answer = site.call('/v1/tasks', {'tasks': [{'name': f'q{i}', 'script': f'echo {i}; exit {i % 3}', 'retry': {'attempts': 1}} for i in range(300)]})
    ids = [t['id'] for t in answer['tasks']]
    done = poll(lambda: site.call('/v1/stats')['working'] == 0 and all(site.task(n)['state'] in 'DF' for n in ids[-20:]), 60)
    tap.ok(done and site.ended(*ids[::10]), 'three hundred quick tasks')
    rows = [site.task(n) for n in ids]
    tap.ok(all(row['state'] == ('D' if i % 3 == 0 else 'F') for i, row in enumerate(rows)), 'each with its own end')
    tap.ok(all(len(row['attempts']) == 1 for row in rows), 'each in one attempt', [len(r['attempts']) for r in rows if len(r['attempts']) != 1])
    tap.ok(all(site.bytes(f'/v1/tasks/{n}/log') == b'%d\n' % i for i, n in enumerate(ids)), 'each with its own log')


def token_masked(site):
    """a job that prints its own token: whole, in two pieces, and as the usual tools write it; its executor's log has none of it"""
    out = pathlib.Path(TMP, 'token')
    task = site.add(name='careless', script=f'''set -x; echo "$WEIR_TOKEN" >{out}; env | grep WEIR_TOKEN; set +x; half=${{WEIR_TOKEN%????????}}
        printf %s "$half"; sleep 0.3; echo "${{WEIR_TOKEN#"$half"}}"; printf %s "$WEIR_TOKEN" | base64 -w 0; echo; printf %s "$WEIR_TOKEN" | od -An -v -tx1 | tr -d " \\n"; echo
        printf %s "x$WEIR_TOKEN" | base64 -w 0; echo; printf %s "$WEIR_TOKEN" | od -An -v -tx1 | tr -d "\\n" | tr " " %; echo; echo whole''')
    site.ended(task)
    token, log = out.read_text().strip(), site.bytes(f'/v1/tasks/{task}/log').decode()
    secret = token.rpartition('_')[2]
    tap.ok(len(secret) >= 16 and log.endswith('whole\n') and log.count("***") >= 7, 'a job may print its token', log)
    forms = [secret, secret[:-8] + '\n', secret.encode().hex(), '%' + secret.encode().hex('%'), base64.b64encode(token.encode()).decode(), base64.b64encode(b'x' + token.encode()).decode()]
    tap.equal([f for f in forms if f in log], [], 'and nobody reads it in the log')


def ends(site):
    task = site.add(name='long', script='echo up; sleep 1000')
    poll(lambda: site.bytes(f'/v1/tasks/{task}/log') == b'up\n', 20)
    site.kill(signal.SIGTERM)
    tap.ok(site.job(task) != [], 'SIGTERM to the server leaves tasks running')
    site.start()
    tap.equal(site.task(task)['state'], 'X', 'which the next one finds')
    tap.equal(site.kill(signal.SIGINT), 0, 'SIGINT ends it')
    tap.ok(poll(lambda: not site.job(task) and not site.executor() and not site.shims(), 15), 'with executor, shims and tasks',
           (site.job(task), site.executor(), site.shims()))


site = Site('--lease', '5s')
try:
    for part in (server_killed, executor_killed, cancelled, shim_killed, quick, token_masked, ends):
        part(site)
finally:
    if site.server.poll() is None:
        site.kill(signal.SIGINT)
    poll(lambda: not site.executor() and not site.shims(), 15)
    if tap.bad:
        print(pathlib.Path(TMP, 'serve.log').read_text()[-3000:], file=sys.stderr)
        print(pathlib.Path(site.data, 'executor.log').read_text()[-3000:], file=sys.stderr)
tap.end()
