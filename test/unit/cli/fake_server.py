"""fake_server: a server of canned answers for tests of the command line. It keeps a few tasks and a list of events, so that `wait`, `top`, `events`
and `log` can be tested against a script: the test moves a task, the stream tells it. Nothing here decides anything."""
import json
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

WORDS = dict(Q='queued', S='staged', P='pending', X='executing', D='done', F='failed', T='terminated', A='abandoned')
ENDED = 'DFTA'
CREATED = '2026-11-15T06:00:00.000Z'


class Fake(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, port=0):
        self.tasks, self.events, self.edges, self.requests, self.canned = {}, [], [], [], {}
        self.logs, self.lanes_extra, self.changed, self.closing = {}, [], threading.Condition(), False
        self.streams = 0
        super().__init__(('127.0.0.1', port), Handler)
        self.url = f'http://127.0.0.1:{self.server_address[1]}'
        threading.Thread(target=self.serve_forever, kwargs=dict(poll_interval=0.02), daemon=True).start()

    def handle_error(self, request, client_address):
        pass  # a client that went away is no error here

    def add(self, name, state='P', queue='default', **more):
        number = len(self.tasks) + 1
        self.tasks[number] = dict(id=number, key=dict(queue=queue, name=name), state=state, word=WORDS[state], priority=0, created=CREATED, ready=None, started=None,
                                  finished=None, attempts=[], depends=[], after=[], cancels=[], outputs={}, **more)
        return number

    def key(self, number):
        return f"{self.tasks[number]['key']['queue']}:{number}"

    def edge(self, waiter, other, kind='depends'):
        self.edges.append({'from': self.key(waiter), 'to': self.key(other), 'kind': kind})

    def move(self, number, state, reason=None, silent=False):
        with self.changed:
            task = self.tasks[number]
            event = dict(seq=len(self.events) + 1, time='2026-11-15T06:00:01.000Z', kind='move', task=number, key=self.key(number), to=state, actor='test')
            event['from'] = task['state']
            if reason:
                event['reason'] = task['reason'] = reason
            task.update(state=state, word=WORDS[state])
            if state == 'X':
                task['started'] = '2026-11-15T06:00:01.000Z'
            if state in ENDED:
                task['finished'] = '2026-11-15T06:00:03.500Z'
            if not silent:
                self.events.append(event)
            self.changed.notify_all()

    def log_add(self, number, data, end=False):
        with self.changed:
            old, _ = self.logs.get(number, (b'', False))
            self.logs[number] = (old + data, end)
            self.changed.notify_all()

    def can(self, method, path, status, body, content_type='application/json'):
        self.canned[(method, path)] = (status, content_type, body)

    def problem(self, method, path, status, code, detail, **more):
        self.can(method, path, status, dict(type='about:blank', title=code, status=status, code=code, detail=detail, **more), 'application/problem+json')

    def lanes(self):
        lanes = {}
        for task in self.tasks.values():
            lane = lanes.setdefault(task['key']['queue'], dict(name=task['key']['queue'], kind='queue', counts={c: 0 for c in WORDS}, paused=None))
            lane['counts'][task['state']] += 1
        return list(lanes.values()) + self.lanes_extra

    def streams_wait(self, n, seconds=20):
        """until n event streams have been opened"""
        end = time.monotonic() + seconds
        with self.changed:
            while self.streams < n:
                if not self.changed.wait(end - time.monotonic()):
                    raise TimeoutError(f'{self.streams} streams, not {n}')

    def close(self):
        with self.changed:
            self.closing = True
            self.changed.notify_all()
        self.shutdown()
        self.server_close()


class Handler(BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'

    def log_message(self, *args):
        pass

    def answer(self, status, body, content_type='application/json'):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header('Content-Type', content_type)
        self.send_header('Content-Length', str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def chunk(self, data):
        self.wfile.write(b'%x\r\n%s\r\n' % (len(data), data))
        self.wfile.flush()

    def stream(self, pieces, content_type):
        self.send_response(200)
        self.send_header('Content-Type', content_type)
        self.send_header('Transfer-Encoding', 'chunked')
        self.end_headers()
        self.wfile.flush()
        for piece in pieces:
            self.chunk(piece)
        if self.server.closing:
            self.close_connection = True
            return
        self.wfile.write(b'0\r\n\r\n')

    def event_pieces(self, since, limit, follow):
        server = self.server
        while limit != 0:
            with server.changed:
                while follow and not server.closing and len(server.events) <= since:
                    server.changed.wait()
                new = server.events[since:]
            if server.closing:
                return
            for event in new:
                yield json.dumps(event).encode() + b'\n'
                since, limit = since + 1, limit - 1
                if limit == 0:
                    return
            if not follow:
                return

    def log_pieces(self, number, offset, follow):
        server = self.server
        while True:
            with server.changed:
                while follow and not server.closing and len(server.logs.get(number, (b'', 0))[0]) <= offset and not server.logs.get(number, (b'', False))[1]:
                    server.changed.wait()
                data, end = server.logs.get(number, (b'', True))
            if server.closing:
                return
            if len(data) > offset:
                yield data[offset:]
                offset = len(data)
            if end or not follow:
                return

    def task_find(self, name):
        number = int(name.rsplit(':', 1)[-1]) if name.rsplit(':', 1)[-1].isdigit() else 0
        return self.server.tasks.get(number)

    def get_task(self, parts, query):
        server, task = self.server, self.task_find(parts[0])
        if not task:
            return self.answer(404, dict(type='about:blank', title='There is no such thing', status=404, code='not_found', detail=f'there is no task {parts[0]}'), 'application/problem+json')
        what = parts[1] if len(parts) > 1 else ''
        if what == 'graph':
            tasks = [dict(id=t['id'], key=server.key(t['id']), name=t['key']['name'], state=t['state'], word=t['word']) for t in server.tasks.values()]
            return self.answer(200, dict(tasks=tasks, edges=server.edges))
        if what == 'log':
            data = server.logs.get(task['id'], (b'', True))[0]
            offset = len(data) - int(query['tail']) if 'tail' in query else int(query.get('offset', 0))
            return self.stream(self.log_pieces(task['id'], max(0, offset), 'follow' in query), 'application/octet-stream')
        return self.answer(200, task)

    def do_GET(self):
        server = self.server
        path, _, text = self.path.partition('?')
        query = dict(urllib.parse.parse_qsl(text))
        server.requests.append(('GET', self.path, self.headers, b''))
        if ('GET', path) in server.canned:
            status, kind, body = server.canned[('GET', path)]
            return self.answer(status, body, kind)
        if path == '/v1/events':
            if 'follow' in query:
                with server.changed:
                    server.streams += 1
                    server.changed.notify_all()
            return self.stream(self.event_pieces(int(query.get('since', 0)), int(query.get('limit', -1)), 'follow' in query), 'application/x-ndjson')
        if path == '/v1/stats':
            return self.answer(200, dict(seq=len(server.events)))
        if path == '/v1/lanes':
            return self.answer(200, dict(lanes=server.lanes(), next=None))
        if path == '/v1/tasks':
            tasks = [t for t in sorted(server.tasks.values(), key=lambda t: -t['id']) if t['state'] in query.get('state', 'QSPXDFTA')
                     and query.get('queue', t['key']['queue']) == t['key']['queue'] and query.get('name', t['key']['name']) == t['key']['name']
                     and t['id'] < int(query.get('cursor', 1 << 30))]
            page = tasks[:int(query.get('limit', 100))]
            return self.answer(200, dict(tasks=page, next=str(page[-1]['id']) if len(page) < len(tasks) else None))
        if path.startswith('/v1/tasks/'):
            return self.get_task([urllib.parse.unquote(p) for p in path[len('/v1/tasks/'):].split('/')], query)
        return self.answer(404, dict(type='about:blank', title='There is no such thing', status=404, code='not_found', detail=f'no route {path}'), 'application/problem+json')

    def do_other(self):
        server = self.server
        body = self.rfile.read(int(self.headers.get('Content-Length') or 0))
        server.requests.append((self.command, self.path, self.headers, body))
        status, kind, answer = server.canned.get((self.command, self.path), (404, 'application/problem+json', dict(status=404, code='not_found', detail='not canned')))
        return self.answer(status, answer, kind)

    do_POST = do_DELETE = do_other
