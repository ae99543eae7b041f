"""slow: a proxy between Weir and a Postgres of postgres.py, whose answers come late, or not at all.

    slow = Slow(pg)          # a unix socket in a folder of the database's folder
    slow.url('weir')
    slow.late(1.5)           # every answer of the database comes 1.5 s later
    slow.freeze(); slow.thaw()   # none comes; those that were held back come now

Some connections can be left as they are: Slow(pg, spare=b'...') spares those that have sent these bytes.
"""
import collections
import os
import socket
import threading
import time
import urllib.parse

import postgres


class Slow:
    def __init__(self, pg, spare=None):
        self.pg, self.spare = pg, spare
        self.seconds, self.frozen = 0, False
        self.changed = threading.Condition()
        self.dir = pg.dir / 'slow'
        self.dir.mkdir(mode=0o777, exist_ok=True)
        self.dir.chmod(0o777)
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(self.dir / f'.s.PGSQL.{pg.port}'))
        os.chmod(self.dir / f'.s.PGSQL.{pg.port}', 0o777)
        self.listener.listen(64)
        threading.Thread(target=self.serve, daemon=True).start()

    def url(self, database, user=postgres.USER):
        return f'postgresql:///{database}?host={urllib.parse.quote(str(self.dir), safe="")}&port={self.pg.port}&user={user}'

    def late(self, seconds):
        self.set(seconds, False)

    def freeze(self):
        self.set(0, True)

    def thaw(self):
        self.set(0, False)

    def set(self, seconds, frozen):
        with self.changed:
            self.seconds, self.frozen = seconds, frozen
            self.changed.notify_all()

    def serve(self):
        while True:
            client, _ = self.listener.accept()
            server = socket.socket(socket.AF_UNIX)
            try:
                server.connect(str(self.pg.dir / f'.s.PGSQL.{self.pg.port}'))
            except OSError:
                client.close()
                continue
            link = Link(self, client, server)
            for part in (link.asks, link.answers, link.tells):
                threading.Thread(target=part, daemon=True).start()


class Link:
    """one connection"""

    def __init__(self, slow, client, server):
        self.slow, self.client, self.server = slow, client, server
        self.spared, self.seen = False, b''
        self.held = collections.deque()  # (when it came, bytes); empty bytes: the end

    def asks(self):
        while data := received(self.client):
            if self.slow.spare and not self.spared:
                self.seen += data
                self.spared = self.slow.spare in self.seen
                self.seen = self.seen[-len(self.slow.spare):]
            try:
                self.server.sendall(data)
            except OSError:
                break
        shut(self.server)

    def answers(self):
        data = b'-'
        while data:
            data = received(self.server)
            with self.slow.changed:
                self.held.append((time.monotonic(), data))
                self.slow.changed.notify_all()

    def tells(self):
        while True:
            with self.slow.changed:
                while not self.held or not self.due():
                    self.slow.changed.wait(0.02 if self.held and not self.slow.frozen else None)
                _, data = self.held.popleft()
            try:
                self.client.sendall(data)
            except OSError:
                data = b''
            if not data:
                shut(self.client)
                return

    def due(self):
        return self.spared or (not self.slow.frozen and time.monotonic() >= self.held[0][0] + self.slow.seconds)


def received(sock):
    try:
        return sock.recv(65536)
    except OSError:
        return b''


def shut(sock):
    try:
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
