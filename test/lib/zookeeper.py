#!/usr/bin/env python3
"""zookeeper: a ZooKeeper server of the test's own: Debian's jar in a temporary folder, on a port of loopback, ended by its pid.

usage: zookeeper.py COMMAND...   runs COMMAND with WEIR_TEST_ZOOKEEPER=HOST:PORT and ends the server after it

In a test: `from zookeeper import ZooKeeper`; ZooKeeper().start(), .url gives what --coordination takes, .stop() (killed), .wipe() (its data is
gone), .freeze(), .thaw(). `.expire(session)` ends a session as the server would when it hears nothing of it, `.sessions()` lists them, `.children(path)`,
`.get(path)` look into the tree: by a few words of the client protocol, so that no other client is needed.
"""
import atexit
import os
import pathlib
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

from ports import free_port

JARS = ['/usr/share/java/zookeeper.jar', '/usr/share/java/slf4j-nop.jar']
JAVA = shutil.which('java')


def available():
    return JAVA is not None and os.path.exists(JARS[0])


class ZooKeeper:
    def __init__(self, tick_ms=500):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix='weir-zk.', dir='/tmp'))
        self.port, self.process, self.tick_ms, self.more = free_port(), None, tick_ms, ''
        atexit.register(self.remove)

    @property
    def address(self):
        return f'127.0.0.1:{self.port}'

    @property
    def url(self):
        return f'zookeeper://{self.address}/weir'

    def start(self, seconds=60):
        return self.launch().ready(seconds)

    def launch(self):
        (self.dir / 'data').mkdir(exist_ok=True)
        (self.dir / 'zoo.cfg').write_text(f'tickTime={self.tick_ms}\ndataDir={self.dir}/data\nclientPort={self.port}\nclientPortAddress=127.0.0.1\n'
                                          'admin.enableServer=false\n4lw.commands.whitelist=*\nforceSync=no\n' + self.more)
        with open(self.dir / 'log', 'ab') as log:
            self.process = subprocess.Popen(['setpriv', '--pdeathsig', 'KILL', JAVA, '-Xmx128m', '-Xms32m', '-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1', '-Dzookeeper.forceSync=no',
                                             '-cp', ':'.join(j for j in JARS if os.path.exists(j)), 'org.apache.zookeeper.server.quorum.QuorumPeerMain', str(self.dir / 'zoo.cfg')],
                                            cwd=self.dir, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        return self

    def ready(self, seconds=60):
        deadline = time.monotonic() + seconds
        while b'Mode:' not in self.word('srvr'):
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError('ZooKeeper did not start: ' + (self.dir / 'log').read_text(errors='replace')[-2000:])
            time.sleep(0.05)
        return self

    def word(self, word):
        """one of its four-letter words"""
        try:
            with socket.create_connection(('127.0.0.1', self.port), timeout=5) as s:
                s.sendall(word.encode())
                parts = []
                while part := s.recv(65536):
                    parts.append(part)
                return b''.join(parts)
        except OSError:
            return b''

    def stop(self):
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
            self.process.wait()

    def wipe(self):
        """it is stopped, and has forgotten everything when it is started again"""
        self.stop()
        shutil.rmtree(self.dir / 'data', ignore_errors=True)

    def freeze(self):
        os.kill(self.process.pid, signal.SIGSTOP)

    def thaw(self):
        os.kill(self.process.pid, signal.SIGCONT)

    # ---- a client, as small as it can be

    @staticmethod
    def _frame(s):
        def exactly(n):
            got = b''
            while len(got) < n:
                part = s.recv(n - len(got))
                if not part:
                    raise OSError('closed')
                got += part
            return got
        return exactly(struct.unpack('>i', exactly(4))[0])

    def _session(self, s, session=0, password=b'\0' * 16, timeout_ms=4000):
        body = struct.pack('>iqiqi', 0, 0, timeout_ms, session, len(password)) + password
        s.sendall(struct.pack('>i', len(body)) + body)
        answer = self._frame(s)
        timeout, number, size = struct.unpack_from('>iiqi', answer)[1:4]
        return timeout, number, answer[20:20 + size]

    def _ask(self, kind, path, rest=b'\0', auth=None):
        with socket.create_connection(('127.0.0.1', self.port), timeout=5) as s:
            self._session(s)
            if auth:
                body = struct.pack('>iii', -4, 100, 0) + struct.pack('>i', 6) + b'digest' + struct.pack('>i', len(auth)) + auth.encode()
                s.sendall(struct.pack('>i', len(body)) + body)
                self._frame(s)
            name = path.encode()
            body = struct.pack('>iii', 1, kind, len(name)) + name + rest
            s.sendall(struct.pack('>i', len(body)) + body)
            answer = self._frame(s)
            s.sendall(struct.pack('>iii', 8, 2, -11))
            return struct.unpack_from('>iqi', answer)[2], answer[16:]

    def children(self, path):
        """None: it didn't answer"""
        try:
            code, body = self._ask(8, path)
        except OSError:
            return None
        if code:
            return []
        (n,), at, found = struct.unpack_from('>i', body), 4, []
        for _ in range(n):
            (size,) = struct.unpack_from('>i', body, at)
            found.append(body[at + 4:at + 4 + size].decode())
            at += 4 + size
        return sorted(found)

    def get(self, path):
        """None: there is no such node, or no answer"""
        try:
            code, body = self._ask(4, path)
        except OSError:
            return None
        (size,) = struct.unpack_from('>i', body) if not code else (0,)
        return body[4:4 + size].decode() if not code else None

    def create(self, path, auth=None):
        """a node for good, open to all; gives the code: 0, or -102 when who asks may not"""
        return self._ask(1, path, struct.pack('>i', 1) + b'x' + struct.pack('>iii', 1, 31, 5) + b'world' + struct.pack('>i', 6) + b'anyone' + struct.pack('>i', 0), auth)[0]

    def delete(self, path, auth=None):
        return self._ask(2, path, struct.pack('>i', -1), auth)[0]

    def expire(self, session):
        """ends a session from outside; its password is made from its number, as the server makes it (java.util.Random)"""
        seed, password = ((session ^ 0xB3415C00) ^ 0x5DEECE66D) & ((1 << 48) - 1), b''
        for _ in range(4):
            seed = (seed * 0x5DEECE66D + 0xB) & ((1 << 48) - 1)
            password += struct.pack('<I', seed >> 16)
        try:
            with socket.create_connection(('127.0.0.1', self.port), timeout=5) as s:
                if self._session(s, session, password)[1] != session:
                    return False
                s.sendall(struct.pack('>iii', 8, 2, -11))
                self._frame(s)
        except OSError:  # it may close before it answers
            pass
        return session not in self.sessions()

    def sessions(self):
        """numbers of the sessions that have nodes which die with them"""
        found = []
        for line in self.word('dump').decode(errors='replace').splitlines():
            if line.startswith('0x') and line.endswith(':'):
                found.append(int(line[:-1], 16))
        return found

    def remove(self):
        self.stop()
        if not os.environ.get('WEIR_TEST_KEEP'):
            shutil.rmtree(self.dir, ignore_errors=True)


class Ensemble:
    """three servers that agree among themselves; .servers are as above, .leader() is one of them"""

    def __init__(self, n=3, tick_ms=500):
        self.servers = [ZooKeeper(tick_ms) for _ in range(n)]
        ports = [(free_port(), free_port()) for _ in self.servers]
        lines = ''.join(f'server.{i}=127.0.0.1:{a}:{b}\n' for i, (a, b) in enumerate(ports, 1))
        for i, server in enumerate(self.servers, 1):
            (server.dir / 'data').mkdir()
            (server.dir / 'data/myid').write_text(str(i))
            server.more = f'initLimit=20\nsyncLimit=4\n{lines}'

    @property
    def url(self):
        return f'zookeeper://{",".join(s.address for s in self.servers)}/weir'

    def start(self, seconds=90):
        for server in self.servers:
            server.launch()
        for server in self.servers:
            server.ready(seconds)
        return self

    def leader(self):
        found = [s for s in self.servers if b'Mode: leader' in s.word('srvr')]
        return found[0] if found else None

    def remove(self):
        for server in self.servers:
            server.remove()


def main():
    if len(sys.argv) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    if not available():
        print(f'1..0 # skip there is no java, or no {JARS[0]}')
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    server = ZooKeeper().start(120)
    done = subprocess.run(sys.argv[1:], env=dict(os.environ, WEIR_TEST_ZOOKEEPER=server.address))
    server.remove()
    return done.returncode if done.returncode >= 0 else 128 - done.returncode


if __name__ == '__main__':
    sys.exit(main())
