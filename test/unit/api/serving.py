"""serving: a real server in a folder of its own, and the few lines that its tests need to talk to it.

Nothing waits for a fixed time: until() asks again until a deadline. Everything that was started is ended by end(), by pid.
"""
import atexit
import base64
import http.client
import json
import os
import pathlib
import select
import signal
import socket
import subprocess
import sys
import time
import urllib.parse

WEIR = os.environ.get('WEIR', 'build/weir')
TMP = pathlib.Path(os.environ.get('TEST_TMP') or '/tmp')
STORE = os.environ.get('WEIR_TEST_STORE', 'sqlite')
_n = _failed = 0
_servers = []
# how long a job sleeps that has to be found in /proc: a number that no other test has, nor another run of this one
NAP = f'1000.{os.getpid():08d}'


def ok(good, text, *detail):
    global _n, _failed
    _n += 1
    _failed += not good
    print('ok' if good else 'not ok', _n, '-', text.replace('\n', ' ').replace('#', ''), flush=True)
    if not good:
        for part in detail:
            for line in str(part).splitlines():
                print('#   ', line[:2000], flush=True)
    return bool(good)


def same(got, wanted, text):
    return ok(got == wanted, text, f'got    {got!r}', f'wanted {wanted!r}')


def until(question, text=None, seconds=30):
    """asks until the answer is true or time is over; gives the last answer; with a text it is a test"""
    deadline = time.monotonic() + seconds
    while True:
        answer = question()
        if answer or time.monotonic() > deadline:
            break
        time.sleep(0.02)
    if text:
        ok(answer, text, answer)
    return answer


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def code(self):
        try:
            return self.json.get('code')
        except ValueError:
            return None

    def __repr__(self):
        return f'{self.status} {self.body[:1500]!r}'


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout):
        super().__init__('localhost', timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def store_options(folder, options):
    """WEIR_TEST_STORE=postgres: every data directory has a database of its own on the server that test/run has started"""
    if STORE != 'postgres' or '--store' in options:
        return []
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / 'lib'))
    import postgres
    return ['--store', postgres.fresh(os.environ['WEIR_TEST_POSTGRES'], folder)]


class Server:
    """weir serve in DIR; slots 0 unless said: tests speak for executors themselves"""
    listen = '127.0.0.1:0'
    binary = WEIR

    def __init__(self, name='data', *options, slots=0, env=None, wait=True, lease=None):
        self.dir = TMP / name
        self.options = ['--slots', str(slots), *(['--lease', lease] if lease else []), *options]
        self.options += store_options(self.dir, self.options)
        self.env = env
        self.token = None
        self.starts = 0
        _servers.append(self)
        self.start(wait)

    def start(self, wait=True):
        self.starts += 1
        env = {k: v for k, v in os.environ.items() if k not in ('WEIR_SERVER', 'WEIR_TOKEN', 'WEIR_CONFIG')}
        env.update(self.env or {})
        self.log = TMP / f'{self.dir.name}-{self.starts}.log'
        self.process = subprocess.Popen([self.binary, 'serve', '--data', str(self.dir), '--listen', self.listen, *self.options], stdout=subprocess.PIPE,
                                        stderr=open(self.log, 'wb'), stdin=subprocess.DEVNULL, env=env, start_new_session=True)
        self.line = ''
        if wait:
            self.line = self.process.stdout.readline().decode()
            if not self.line.startswith(('listening on http://', 'listening on https://')):
                raise SystemExit(f'Bail out! no server: {self.line!r} {self.log.read_text()}')
            self.url = self.line.split()[2]
            self.port = int(self.url.rsplit(':', 1)[1])

    def stop(self, signo=signal.SIGTERM, seconds=30):
        if self.process.poll() is None:
            self.process.send_signal(signo)
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return 'killed'
        finally:
            self.rows_compare()

    def rows_compare(self):
        """WEIR_TEST_VERIFY=FILE: rows and history of every store that a script stops are compared; faults go to the end of that file"""
        told = os.environ.get('WEIR_TEST_VERIFY')
        if told and self.dir.exists():
            store = [self.options[i] for at, option in enumerate(self.options) if option == '--store' for i in (at, at + 1)]
            done = subprocess.run([self.binary, 'verify', '--quick', '--data', str(self.dir), *store], capture_output=True, text=True)
            with open(told, 'a', encoding='utf-8') as out:
                out.write(f'{done.returncode} {sys.argv[0]} {self.dir} {done.stdout.splitlines()[:1] if done.returncode == 0 else done.stdout + done.stderr}\n')

    def connection(self, local=False, timeout=60):
        if local:
            return UnixConnection(str(self.dir / 'weir.sock'), timeout)
        return http.client.HTTPConnection('127.0.0.1', self.port, timeout=timeout)

    def ask(self, method, path, body=None, headers=None, local=False, token=None, timeout=60):
        if body is not None and not isinstance(body, (bytes, str)):
            body = json.dumps(body)
        if isinstance(body, str):
            body = body.encode()
        headers = dict(headers or {})
        token = token or self.token
        if token:
            headers.setdefault('Authorization', f'Bearer {token}')
        connection = self.connection(local, timeout)
        try:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            return Answer(response.status, response.headers, response.read())
        finally:
            connection.close()

    def get(self, path, **more):
        return self.ask('GET', path, **more)

    def post(self, path, body=None, **more):
        return self.ask('POST', path, {} if body is None else body, **more)

    def patient(self, path, seconds=60, **more):
        """a read as a client does it: asked again while the server says that its store is away (503), up to a deadline"""
        deadline = time.monotonic() + seconds
        while (answer := self.get(path, **more)).status == 503 and time.monotonic() < deadline:
            time.sleep(0.05)
        return answer

    def task(self, task_id):
        return self.patient(f'/v1/tasks/{task_id}').json

    def state(self, task_id):
        return self.task(task_id)['state']

    def raw(self, data, seconds=10, close=False):
        """bytes as they are; the whole answer until the server closes, or a first whole response has come"""
        with socket.create_connection(('127.0.0.1', self.port), timeout=seconds) as s:
            s.sendall(data)
            if close:
                s.shutdown(socket.SHUT_WR)
            got = b''
            s.settimeout(seconds)
            try:
                while True:
                    part = s.recv(65536)
                    if not part:
                        break
                    got += part
                    head, _, rest = got.partition(b'\r\n\r\n')
                    for line in head.split(b'\r\n'):
                        if line.lower().startswith(b'content-length:') and len(rest) >= int(line.split(b':')[1]):
                            return got
            except (TimeoutError, ConnectionError):
                pass
            return got

    def stream(self, path, headers=None):
        return Stream(self, path, headers)


class Stream:
    """an answer that goes on: bytes as they come"""

    def __init__(self, server, path, headers=None):
        self.connection = server.connection()
        self.connection.request('GET', path, headers=headers or {})
        self.response = self.connection.getresponse()
        self.status = self.response.status
        self.data = b''
        self.ended = False

    def read(self, seconds):
        if self.ended:
            return
        self.connection.sock and self.connection.sock.settimeout(seconds)
        try:
            part = self.response.read1(65536)
        except (TimeoutError, socket.timeout):
            return
        self.data += part
        self.ended = part == b''

    def until(self, wanted, seconds=30):
        """wanted: a function of the data so far"""
        deadline = time.monotonic() + seconds
        while not wanted(self.data) and not self.ended and time.monotonic() < deadline:
            self.read(max(0.05, deadline - time.monotonic()))
        return wanted(self.data)

    def until_end(self, seconds=30):
        deadline = time.monotonic() + seconds
        while not self.ended and time.monotonic() < deadline:
            self.read(max(0.05, deadline - time.monotonic()))
        return self.ended

    def close(self):
        self.response.close()
        self.connection.close()


class Worker:
    """an executor as a program of somebody else would be one"""

    def __init__(self, server, name='w', **more):
        self.server = server
        answer = server.post('/v1/executors', dict(name=name, slots=more.pop('slots', 10), **more))
        assert answer.status == 201, answer
        self.id, self.lease_ms = answer.json['id'], answer.json['lease_ms']

    def poll(self, free=1, wait_ms=0, **more):
        """asked again while the store is away"""
        deadline = time.monotonic() + 60
        while True:
            answer = self.server.post(f'/v1/executors/{self.id}/poll', dict(free=free, wait_ms=wait_ms, **more))
            if (answer.status, answer.code) != (503, 'unavailable') or time.monotonic() > deadline:
                return answer.json
            time.sleep(0.05)

    def claim(self, free=1, wait_ms=2000, **more):
        return self.poll(free, wait_ms, **more)['grants']

    def finish(self, grant, **end):
        return self.server.post(f'/v1/tasks/{grant["task"]}/finish', dict(fence=grant['fence'], **(end or {'exit': 0})))

    def log(self, grant, offset, data):
        return self.server.ask('POST', f'/v1/tasks/{grant["task"]}/log?fence={urllib.parse.quote(grant["fence"])}&offset={offset}', data)


def refused(answer, status, code, path=None, text=''):
    """a problem as INTERFACES.md wants it, that names the field"""
    try:
        problem = answer.json
    except ValueError:
        problem = {}
    good = (answer.status == status and problem.get('code') == code and problem.get('status') == status and problem.get('title') and problem.get('type')
            and problem.get('detail') and answer.headers.get('Content-Type') == 'application/problem+json')
    if path is not None:
        good = good and path in [e['path'] for e in problem.get('errors', [])] and all(e['message'] for e in problem['errors'])
    return ok(good, f'{text}: {status} {code}' + (f' at {path}' if path else ''), answer)


def end():
    for server in _servers:
        if server.process.poll() is None:
            same(server.stop(signal.SIGINT), 0, f'{server.dir.name}: the server ends in order')
    print(f'1..{_n}', flush=True)
    sys.exit(1 if _failed else 0)


def _cleanup():
    for server in _servers:
        if server.process.poll() is None:
            server.stop(signal.SIGINT)


atexit.register(_cleanup)
