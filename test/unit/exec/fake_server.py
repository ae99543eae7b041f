"""fake_server: the server's half of the executor protocol, in memory, for tests of the executor alone.

A FakeServer grants tasks, keeps logs by offset as strictly as the real one, judges finishes by fence, and records everything. A test may
stop it and start it again on the same port, hold back durability, refuse things, or take a task away."""
import base64
import hashlib
import json
import secrets
import socket
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Task:
    def __init__(self, number, spec):
        self.id = number
        self.spec = spec
        self.state = 'P'
        self.grant = 0
        self.fence = None
        self.log = bytearray()
        self.durable = 0
        self.finish = None      # the item that counted
        self.finishes = []      # every item that came
        self.cancel = None      # signal
        self.executor = None
        self.started = None     # when it was granted
        self.chunks = []        # (offset, length) of log requests
        self.source = None      # of an archive's task
        self.files = {}         # artifacts by name, as they came
        self.outputs = []       # told while it ran, one dict a call


class FakeServer:
    def __init__(self, lease_ms=15000, port=0):
        self.lock = threading.Condition()
        self.lease_ms = lease_ms
        self.incarnation = 'fake' + secrets.token_hex(6)  # tests run side by side, and jobs are found by their fence
        self.port = port
        self.tasks = {}
        self.executors = {}     # id -> registration
        self.polls = []         # every body
        self.granted = {}       # executor -> (seq, [grants])
        self.newest = {}        # executor -> seq
        self.state = 'active'
        self.durable_follows = True
        self.lose_answers = 0   # so many poll answers are computed and then not sent
        self.hang_polls = 0     # so many polls are taken and never answered
        self.hung = []          # their bodies
        self.fail_finishes = 0  # so many results are 503
        self.forgets = 0        # so many finishes list files that it doesn't know
        self.loses = ()         # names of files whose pieces it loses, and keeps no more than the first
        self.full = ()          # names of files that there is no room for
        self.die_at_end = False # the next poll with ends finds a server that was just started again: what wasn't durable is gone
        self.http = None
        self.sockets = set()
        self.faults = []
        self.trees = {}         # path -> bytes of a tar
        self.outputs_status = 200  # of a running attempt: 200 keeps them
        self.start()

    # -- for tests
    @property
    def url(self):
        return f'http://127.0.0.1:{self.port}'

    def start(self):
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = 'HTTP/1.1'
            disable_nagle_algorithm = True

            def setup(self):
                super().setup()
                with fake.lock:
                    if self.server is not fake.http:  # it was stopped while this connection was taken
                        self.connection.shutdown(socket.SHUT_RDWR)
                    fake.sockets.add(self.connection)

            def finish(self):
                with fake.lock:
                    fake.sockets.discard(self.connection)
                try:
                    super().finish()
                except OSError:
                    pass

            def log_message(self, *args):
                pass

            def do_GET(self):
                body = fake.trees.get(self.path)
                self.send_response(200 if body is not None else 404)
                self.send_header('Content-Length', str(len(body or b'')))
                self.end_headers()
                self.wfile.write(body or b'')

            def do_POST(self):
                body = self.rfile.read(int(self.headers.get('Content-Length') or 0))
                try:
                    status, answer = fake.serve(self.path, body)
                except Exception as error:  # the test must see it
                    fake.faults.append(repr(error))
                    status, answer = 500, {'code': 'internal', 'detail': repr(error)}
                if status is None:
                    self.close_connection = True
                    return
                text = json.dumps(answer).encode()
                try:
                    self.send_response(status)
                    self.send_header('Content-Type', 'application/json' if status < 400 else 'application/problem+json')
                    self.send_header('Content-Length', str(len(text)))
                    self.end_headers()
                    self.wfile.write(text)
                except OSError:
                    self.close_connection = True

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

            def handle_error(self, request, client_address):
                pass

        self.http = Server(('127.0.0.1', self.port), Handler)
        self.port = self.http.server_address[1]
        threading.Thread(target=self.http.serve_forever, kwargs={'poll_interval': 0.02}, daemon=True).start()

    def stop(self):
        """As if killed: no request is answered any more."""
        gone = self.http
        if gone is None:
            return
        gone.shutdown()
        gone.server_close()
        with self.lock:
            self.http = None
            for one in list(self.sockets):
                try:
                    one.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass
            self.lock.notify_all()

    def add(self, source=None, **spec):
        with self.lock:
            number = len(self.tasks) + 1
            spec.setdefault('key', f'default:{number}')
            spec.setdefault('name', f't{number}')
            spec.setdefault('attempt', 1)
            self.tasks[number] = Task(number, spec)
            self.tasks[number].source = source
            self.lock.notify_all()
            return self.tasks[number]

    def cancel(self, task, signal='TERM'):
        with self.lock:
            task.cancel = signal
            self.lock.notify_all()

    def take_away(self, task):
        """Somebody else is granted the task: its fence is stale from now on."""
        with self.lock:
            task.grant += 1
            task.fence = f'{self.incarnation}-{task.id}-{task.grant:08d}'
            task.state = 'X'
            task.executor = 'other'
            self.lock.notify_all()

    def wait(self, condition, seconds=20, what=''):
        seconds = max(seconds, 40)  # what comes late on a busy machine isn't wrong
        until = time.monotonic() + seconds
        with self.lock:
            while not condition():
                left = until - time.monotonic()
                if left <= 0:
                    raise AssertionError(f'not within {seconds} s: {what or condition}')
                self.lock.wait(min(left, 0.05))

    def wait_ended(self, *tasks, seconds=20):
        self.wait(lambda: all(t.finish for t in tasks), seconds, 'tasks ended')

    # -- the protocol
    def serve(self, path, body):
        url = urllib.parse.urlsplit(path)
        parts = url.path.strip('/').split('/')
        query = dict(urllib.parse.parse_qsl(url.query))
        if parts == ['v1', 'executors']:
            return self.register(json.loads(body))
        if len(parts) == 4 and parts[1] == 'executors' and parts[3] == 'poll':
            return self.poll(parts[2], json.loads(body))
        if parts == ['v1', 'finishes']:
            with self.lock:
                results = self.judge_all(json.loads(body)['items'])
                self.lock.notify_all()
                return 200, {'results': results}
        if len(parts) == 4 and parts[1] == 'tasks' and parts[3] == 'log':
            return self.append(int(parts[2]), query, body)
        if len(parts) > 4 and parts[1] == 'tasks' and parts[3] == 'artifacts':
            return self.keep(int(parts[2]), urllib.parse.unquote('/'.join(parts[4:])), query, body)
        if len(parts) == 4 and parts[1] == 'tasks' and parts[3] == 'outputs':
            return self.tell(int(parts[2]), query, json.loads(body))
        return 404, {'code': 'not_found', 'detail': path}

    def tell(self, number, query, outputs):
        with self.lock:
            task = self.tasks[number]
            if query['fence'] != task.fence:
                return 409, {'code': 'stale_fence'}
            if self.outputs_status == 200:
                task.outputs.append(outputs)
            self.lock.notify_all()
            return self.outputs_status, {'task': number} if self.outputs_status == 200 else {'code': 'unavailable', 'detail': 'not now'}

    def keep(self, number, name, query, body):
        with self.lock:
            task = self.tasks.get(number)
            if not task or query['fence'] != task.fence:
                return 409, {'code': 'stale_fence'}
            if name in self.full:
                return 507, {'code': 'quota_full', 'detail': 'no more room'}
            known = task.files.setdefault(name, bytearray())
            offset = int(query.get('offset', 0))
            if name in self.loses and offset > 0:
                known.clear()
            if offset > len(known):
                return 409, {'code': 'log_gap', 'expected': len(known)}
            del known[offset:]
            known += body
            answer = {'name': name, 'bytes': len(known)}
            if query.get('last') == '1':
                answer['sha256'] = hashlib.sha256(known).hexdigest()
            return 200, answer

    def register(self, body):
        with self.lock:
            for number, known in self.executors.items():
                if known['instance'] == body['instance']:
                    self.executors[number] = body
                    return 201, {'id': number, 'lease_ms': self.lease_ms}
            number = f'e{len(self.executors) + 1}'
            self.executors[number] = body
            return 201, {'id': number, 'lease_ms': self.lease_ms}

    def append(self, number, query, body):
        with self.lock:
            task = self.tasks.get(number)
            offset = int(query['offset'])
            if not task:
                return 404, {'code': 'not_found'}
            if query['fence'] != task.fence:
                return 409, {'code': 'stale_fence'}
            task.chunks.append((offset, len(body)))
            if offset > len(task.log):
                return 409, {'code': 'log_gap', 'expected': len(task.log)}
            known = task.log[offset:offset + len(body)]
            if known != body[:len(known)]:
                return 409, {'code': 'log_mismatch'}
            task.log += body[len(known):]
            if self.durable_follows:
                task.durable = len(task.log)
            self.lock.notify_all()
            return 200, {'stored': len(task.log), 'durable': task.durable}

    def judge(self, item):
        task = self.tasks.get(item['task'])
        if not task:
            return 404, 'not_found'
        task.finishes.append(item)
        if self.forgets > 0 and item.get('artifacts'):
            self.forgets -= 1
            task.files.clear()
            return 422, 'artifact_unknown'
        if self.fail_finishes > 0:
            self.fail_finishes -= 1
            return 503, 'unavailable'
        if item['fence'] != task.fence:
            return 409, 'stale_fence'
        if task.finish:
            return (200, None) if task.finish == item else (409, 'already_finished')
        if 'log' in item:
            chunk = base64.b64decode(item['log'], validate=True)
            if item['log_offset'] != len(task.log):
                self.faults.append(f"task {task.id}: inline at {item['log_offset']}, stored {len(task.log)}")
            task.log += chunk
        if len(task.log) != item['log_bytes']:
            self.faults.append(f"task {task.id}: log_bytes {item['log_bytes']}, stored {len(task.log)}")
        task.finish = item
        task.state = 'D'
        return 200, None

    def judge_all(self, items):
        results = []
        for item in items:
            status, code = self.judge(item)
            results.append({'task': item['task'], 'status': status, **({'code': code} if code else {})})
        return results

    def poll(self, executor, body):
        with self.lock:
            self.polls.append(body)
            if self.hang_polls > 0:
                self.hang_polls -= 1
                self.hung.append(body)
                self.lock.notify_all()
                while self.http is not None:
                    self.lock.wait(1)
                return None, None
            if executor not in self.executors:
                return 404, {'code': 'not_found', 'detail': executor}
            if self.die_at_end and body.get('finishes'):
                self.die_at_end = False
                for task in self.tasks.values():
                    task.log = task.log[:task.durable]
                return 503, {'code': 'unavailable'}
            seq = body['seq']
            answer = {'grants': [], 'cancels': [], 'state': self.state}
            if seq < self.newest.get(executor, 0):
                return 200, answer  # overtaken on the way by a newer poll
            if 'finishes' in body:
                answer['results'] = self.judge_all(body['finishes'])
            held = {entry['fence'] for entry in body['renew']}
            last = self.granted.get(executor, (None, []))
            if last[0] == seq:
                answer['grants'] = last[1]
            else:
                for grant in last[1]:
                    task = self.tasks[grant['task']]
                    if task.fence == grant['fence'] and task.state == 'X' and not task.finish and grant['fence'] not in held:
                        task.state = 'P'
                self.granted[executor] = (seq, [])
            self.newest[executor] = seq
            self.lock.notify_all()
            until = time.monotonic() + body['wait_ms'] / 1000
            while True:
                self.fill(executor, seq, body, held, answer)
                if answer['grants'] or answer['cancels'] or self.newest[executor] != seq or 'finishes' in body:
                    break
                left = until - time.monotonic()
                if left <= 0:
                    break
                self.lock.wait(left)
            self.lock.notify_all()
            if self.lose_answers > 0:
                self.lose_answers -= 1
                return None, None
            return 200, answer

    def fill(self, executor, seq, body, held, answer):
        if self.newest[executor] != seq:
            return
        if not answer['grants'] and self.state == 'active':
            for task in self.tasks.values():
                if len(answer['grants']) >= body['free']:
                    break
                if task.state != 'P':
                    continue
                task.grant += 1
                task.fence = f'{self.incarnation}-{task.id}-{task.grant:08d}'
                task.state = 'X'
                task.executor = executor
                task.started = time.monotonic()
                grant = {'task': task.id, 'fence': task.fence, 'lease_ms': self.lease_ms, 'spec': task.spec}
                if task.source:
                    grant['source'] = task.source
                    grant['key'] = {'archive': task.source['archive'], 'rev': task.source['rev'], 'name': task.spec['name']}
                answer['grants'].append(grant)
            self.granted[executor] = (seq, answer['grants'])
        for task in self.tasks.values():
            if task.cancel and not task.finish and task.fence in held:
                answer['cancels'].append({'task': task.id, 'fence': task.fence, 'signal': task.cancel})
        for fence in held:
            task = self.tasks.get(int(fence.split('-')[1]))
            if not task or task.fence != fence:
                answer['cancels'].append({'task': task.id if task else 0, 'fence': fence, 'signal': 'KILL', 'reason': 'stale_fence'})
