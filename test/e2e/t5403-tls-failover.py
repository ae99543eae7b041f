#!/usr/bin/env python3
"""Several --server: the executor turns to the next address when one is dead or hangs, keeps its jobs while all are gone, and tells their ends later."""
# time limit: 240
# store: sqlite
import pathlib
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
from house import TMP, WEIR, clean_env, end, ok, same, until  # noqa: E402
from papers import TlsHouse, authority, free_port, issue  # noqa: E402

ca = authority('ca')
issue('server', 'ca')
certificate, key = issue('client', 'ca', names='')
first, second = free_port(), free_port()


class Movable(TlsHouse):
    """one data directory, at one port or the other"""

    def __init__(self, name, port):
        self.listen = f'127.0.0.1:{port}'
        super().__init__(name, 'server', client_ca='ca', slots=0, lease='6s')

    def at(self, port):
        self.listen = f'127.0.0.1:{port}'
        self.start()


def executor(name, *ports):
    servers = [part for port in ports for part in ('--server', f'https://127.0.0.1:{port}')]
    return subprocess.Popen([WEIR, 'executor', '--data', str(TMP / f'data-{name}'), '--name', name, *servers, '--slots', '4', '--ca', str(ca), '--client-cert', str(certificate),
                             '--client-key', str(key)], env=clean_env(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=(TMP / f'{name}.err').open('wb'))


def said(name):
    return (TMP / f'{name}.err').read_text()


def registrations(name, port):
    return sum('executor.registered' in line and f':{port} ' in line for line in said(name).splitlines())


s = Movable('data', first)
far = executor('far', first, second)
gate = TMP / 'gate'


def job(name):
    return s.enqueue(dict(name=name, script=f'echo begun; while [ ! -e {gate}.{name} ]; do sleep 0.05; done; echo done {name}'))['id']


# -- killed, and back under the second address
one, two = job('one'), job('two')
ok(until(lambda: s.state(one) == 'X' and s.state(two) == 'X'), 'two jobs run')
s.kill()
(TMP / 'gate.one').touch() # ends while there is no server at all
ok(until(lambda: 'server.failed' in said('far')), 'the server is missed', said('far'))
s.at(second)
began = time.monotonic()
ended = s.ended(one)[0]
same((ended['state'], len(ended['attempts'])), ('D', 1), 'what ended while all were gone is told to the second server, in its first attempt')
ok(time.monotonic() - began < 20, 'soon', time.monotonic() - began)
same(s.log_bytes(one), b'begun\ndone one\n', 'with its log')
same(s.state(two), 'X', 'the other still runs')
ok(registrations('far', second) >= 1, 'it has registered there', said('far'))

# -- it stays where it is answered, until that one is gone
(TMP / 'gate.two').touch()
same([(t['state'], len(t['attempts'])) for t in s.ended(two)], [('D', 1)], 'and ends there')
three = job('three')
ok(until(lambda: s.state(three) == 'X'), 'new work comes from the second')
s.kill()
s.at(first)
(TMP / 'gate.three').touch()
same([(t['state'], len(t['attempts'])) for t in s.ended(three)], [('D', 1)], 'the second is gone, the first is back: the same again')
same(s.log_bytes(three), b'begun\ndone three\n', 'the log is whole')

# -- one that hangs: the wait is bounded; another server (another store: the executor has no jobs now) is asked instead
other = Movable('other', second)
began = time.monotonic()
s.process.send_signal(signal.SIGSTOP)
late = other.enqueue(dict(name='late', command='true'))['id']
same(other.ended(late, seconds=60)[0]['state'], 'D', 'a server that hangs is left for the next one')
ok(time.monotonic() - began < 25, 'in bounded time', time.monotonic() - began)
s.process.send_signal(signal.SIGCONT)
same(far.poll(), None, 'the executor has lived through all of it')
far.send_signal(signal.SIGINT)
same(far.wait(60), 0, 'and ends when told')
end()
