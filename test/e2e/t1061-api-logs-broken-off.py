#!/usr/bin/env python3
"""A log that isn't followed and can't be sent to its end breaks off: whoever reads it never takes a part for the whole. A server that stops, a token that is revoked."""
import http.client
import os
import pathlib
import signal
import socket
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'unit/api'))
from serving import WEIR, Server, Worker, end, ok, same  # noqa: E402

MIB = 1024 * 1024
SIZE = 24 * MIB  # more than the buffers between a server and a client that doesn't read

s = Server()
w = Worker(s, 'w')
task = s.post('/v1/tasks', dict(name='t', data=1)).json['id']
grant = w.claim()[0]
line = b'0123456789abcde\n'
for at in range(0, SIZE, MIB):
    answer = w.log(grant, at, line * (MIB // len(line)))
    assert answer.status == 200, answer


class Slow:
    """asks, and reads nothing but the head of the answer until it is told to"""
    def __init__(self, path, token=None):
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        self.socket.settimeout(60)
        self.socket.connect(('127.0.0.1', s.port))
        head = f'GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{s.port}\r\n' + (f'Authorization: Bearer {token}\r\n' if token else '') + '\r\n'
        self.socket.sendall(head.encode())
        self.answer = http.client.HTTPResponse(self.socket, method='GET')
        self.answer.begin()
        assert self.answer.status == 200, self.answer.status

    def rest(self):
        """(bytes, whether the answer had its end)"""
        n = 0
        try:
            while part := self.answer.read1(MIB):
                n += len(part)
            return n, True
        except (http.client.IncompleteRead, ConnectionError):
            return n, False


same(Slow(f'/v1/tasks/{task}/log').rest(), (SIZE, True), 'a log that is sent to its end has an end')
same(Slow(f'/v1/tasks/{task}/log?offset={SIZE - 3 * MIB}').rest(), (3 * MIB, True), 'so has a part that was asked for')

# -- a token that is revoked (the local socket stays trusted)
made = s.post('/v1/tokens', dict(name='reader', scopes=['read']), local=True).json
slow = Slow(f'/v1/tasks/{task}/log', made['token'])
same(s.ask('DELETE', '/v1/tokens/reader', local=True).status, 200, 'its token is revoked in the middle')
same(s.get('/v1/tasks', token=made['token']).status, 401, 'and good for nothing any more')
n, whole = slow.rest()
ok(0 < n < SIZE and not whole, 'a log whose reader lost its token breaks off', n, whole)

# -- a server that stops
made = s.post('/v1/tokens', dict(name='other', scopes=['read']), local=True).json['token']
slow = Slow(f'/v1/tasks/{task}/log', made)
reading = os.pipe()
env = dict(os.environ, WEIR_TOKEN=made)
command = subprocess.Popen([WEIR, 'log', '--server', f'http://127.0.0.1:{s.port}', str(task)], stdout=reading[1], stderr=subprocess.PIPE, env=env)
os.close(reading[1])
first = os.read(reading[0], 100)
same(first, (line * 10)[:len(first)], 'the first bytes of a log are there')
quick = [Slow(f'/v1/tasks/{task}/log', made) for _ in range(3)]
s.process.send_signal(signal.SIGTERM)
got = [q.rest() for q in quick]  # while the server still sends what it can
ok(all(whole == (n == SIZE) for n, whole in got), 'a log that is read while the server stops has an end only if it is whole', got)
s.stop()
n, whole = slow.rest()
ok(0 < n < SIZE and not whole, 'a log that is read too slowly breaks off when the server stops', n, whole)
n = len(first)
while part := os.read(reading[0], MIB):
    n += len(part)
said = command.stderr.read().decode()
same(command.wait(60), 75, 'weir log says "try again later" by its exit')
ok(0 < n < SIZE and 'broke off' in said and 'try again' in said and 'Traceback' not in said, 'and what came of it in words', n, said)
end()
