"""chaos: a proxy between executors and a server that cuts connections, drops answers, delivers requests twice, holds them back and lets later ones pass.

It knows HTTP just enough to tell one request from the next (Content-Length), so that what it doubles and reorders are whole messages.
"""
import random
import socket
import threading
import time


class Chaos:
    def __init__(self, port, seed=1, cut=0.05, drop=0.05, double=0.1, hold=0.1, seconds=0.5):
        self.port_to, self.rates = port, dict(cut=cut, drop=drop, double=double, hold=hold)
        self.seconds = seconds
        self.rng = random.Random(seed)
        self.counts = dict(requests=0, cut=0, drop=0, double=0, hold=0)
        self.down = False  # the link is cut: nothing passes, nobody is told
        self.calm = False  # nothing bad any more
        self.lock = threading.Lock()
        self.listener = socket.create_server(('127.0.0.1', 0))
        self.port = self.listener.getsockname()[1]
        self.pairs = set()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def dice(self, request):
        with self.lock:
            self.counts['requests'] += 1
            if self.calm:
                return None
            for name, rate in self.rates.items():
                if self.rng.random() < rate:
                    self.counts[name] += 1
                    return name
        return None

    @staticmethod
    def message(sock, buffer, answer=False):
        """one whole message and what came after it; b'' at the end"""
        while b'\r\n\r\n' not in buffer:
            part = sock.recv(65536)
            if not part:
                return b'', buffer
            buffer += part
        head, _, rest = buffer.partition(b'\r\n\r\n')
        length, chunked = 0, False
        for line in head.split(b'\r\n')[1:]:
            name, _, value = line.partition(b':')
            if name.lower() == b'content-length':
                length = int(value)
            chunked |= name.lower() == b'transfer-encoding' and b'chunked' in value.lower()
            if name.lower() == b'expect':
                sock.sendall(b'HTTP/1.1 100 Continue\r\n\r\n')
        size = len(head) + 4 + length
        if chunked:
            while not buffer.endswith(b'0\r\n\r\n'):
                part = sock.recv(65536)
                if not part:
                    return b'', buffer
                buffer += part
            return buffer, b''
        while len(buffer) < size:
            part = sock.recv(65536)
            if not part:
                return b'', buffer
            buffer += part
        return buffer[:size], buffer[size:]

    def ask(self, request, patience=40):
        """one request on a connection of its own; the answer"""
        with socket.create_connection(('127.0.0.1', self.port_to), timeout=patience) as s:
            s.sendall(request)
            return self.message(s, b'', True)[0]

    def serve(self, client):
        """each request of a client goes on a connection of its own, so that a held one doesn't hold the others"""
        buffer = b''
        try:
            client.settimeout(60)
            while True:
                request, buffer = self.message(client, buffer)
                if not request:
                    return
                what = self.dice(request)
                while self.down:
                    time.sleep(0.02)
                    what = 'cut'
                if what == 'cut':
                    return
                if what == 'hold':  # later ones overtake it: the client gives up on this connection and asks again on another
                    threading.Thread(target=self.late, args=(request,), daemon=True).start()
                    return
                answer = self.ask(request)
                if what == 'double':
                    answer = self.ask(request) or answer
                if what == 'drop' or self.down or not answer:
                    return
                client.sendall(answer)
        except OSError:
            pass
        finally:
            client.close()

    def late(self, request):
        time.sleep(self.rng.uniform(0.05, self.seconds))
        try:
            self.ask(request)
        except OSError:
            pass

    def close(self):
        self.listener.close()
