#!/usr/bin/env python3
"""RQ17: what comes amid trouble: strangers who may send no body, clients that go away, two with the same content at once, a killed server, 100 MiB in little memory."""
import hashlib
import os
import pathlib
import signal
import socket
import sys
import threading
import time

sys.path.insert(0, os.environ.get('WEIR_TEST_LIB') or str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
from house import House, end, ok, read, same, until
from tarballs import entry, meta, pack, tarball

s = House('data', slots=0)
FILES = os.environ.get('WEIR_TEST_STORE', 'sqlite') == 'sqlite'
C = '/v1/changesets'
s.post('/v1/archives', dict(name='docs', kind='external'))
admin = s.post('/v1/tokens', dict(name='admin', scopes=['admin'])).json['token']
reader = s.post('/v1/tokens', dict(name='reader', scopes=['read']), token=admin).json['token']
s.token = admin


def tasks():
    return [t for t in s.get('/v1/tasks?limit=1000').json['tasks'] if 'target' in t['key']]


def blobs():
    return sorted(p.name for p in (s.dir / 'blobs').rglob('*') if p.is_file() and len(p.name) == 64)


def bodies():
    """files without a name in tmp/ that the server has open"""
    folder = f'/proc/{s.process.pid}/fd'
    names = []
    for fd in os.listdir(folder):
        try:
            names.append(os.readlink(f'{folder}/{fd}'))
        except OSError:
            pass
    return [n for n in names if n.startswith(f'{s.dir}/tmp/')]


def head(length, token=admin, path=C, more=''):
    return (f'POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n' + (f'Authorization: Bearer {token}\r\n' if token else '') + more + '\r\n').encode()


def send(*parts):
    sock = socket.create_connection(('127.0.0.1', s.port), timeout=30)
    for part in parts:
        sock.sendall(part)
    return sock


def answer(sock):
    got = b''
    while b'\r\n\r\n' not in got and (more := sock.recv(65536)):
        got += more
    sock.close()
    return got


# ---- nobody sends a body who isn't let in: it is said at the head, and no file is there ----
WAITS = 'Expect: 100-continue\r\n'
for what, parts, status in (('no token', head(10 ** 8, None, more=WAITS), 401), ('a token of nobody', head(10 ** 8, 'weir_' + 'x' * 43, more=WAITS), 401),
                            ('a token that may only read', head(10 ** 8, reader, more=WAITS), 403), ('a foreign page', head(10 ** 8, more=WAITS + 'Origin: http://evil\r\n'), 403),
                            ('an unknown tenant', head(10 ** 8, more=WAITS + 'Weir-Tenant: none\r\n'), 404), ('an unknown parameter', head(10 ** 8, path=C + '?x=1', more=WAITS), 400),
                            ('beyond the limit', head(10 ** 12, more=WAITS), 413)):
    got = answer(send(parts))
    ok(got.startswith(b'HTTP/1.1 %d ' % status) and b'100 Continue' not in got, f'{what}: {status} at the head', got)
sock = send(head(10 ** 6, more=WAITS))
ok(sock.recv(100).startswith(b'HTTP/1.1 100 '), 'whoever is let in is asked for the body')
ok(bodies(), 'which has a file')

# ---- a client that goes away amid the body ----
sock.sendall(b'x' * 500000)
sock.close()
body = tarball(files={'a.txt': b'one\n'})
for part in (0, 1, 700, len(body) - 1):
    send(head(len(body)), body[:part]).close()
chunked = head(0).replace(b'Content-Length: 0', b'Transfer-Encoding: chunked')
send(chunked, b'100000\r\n', body[:300]).close()
until(lambda: not bodies(), 'a client that goes away amid its body leaves no file')
same((tasks(), blobs() if FILES else [], os.listdir(s.dir / 'tmp')), ([], [], []), 'and no change set')
got = answer(send(chunked, b'%x\r\n' % len(body), body, b'\r\n0\r\n\r\n'))
ok(got.startswith(b'HTTP/1.1 202 '), 'a body in chunks that comes to its end', got)

# ---- the same content, many times at once ----
many = tarball(files={'b.txt': b'two\n'})
answers = []
threads = [threading.Thread(target=lambda: answers.append(s.post(C, many))) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
same(sorted(a.status for a in answers), [200] * 7 + [202], 'eight posts of one content at once: one is new')
same(len({a.json['csid'] for a in answers}), 1, 'all say the same CSID')
same(len(tasks()), 2, 'one change set')
if FILES:
    same(blobs(), sorted(hashlib.sha256(b).hexdigest() for b in (body, many)), 'one kept tarball each')
wrong = tarball(files={'c.txt': b'three\n'}, target='nowhere')
answers = []
threads = [threading.Thread(target=lambda: answers.append(s.post(C, wrong))) for _ in range(6)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
same([a.status for a in answers], [422] * 6, 'six refused ones at once')
if FILES:
    same(len(blobs()), 2, 'leave nothing')

# ---- a server that is killed with bytes in tmp/ ----
third = tarball(files={'d.txt': os.urandom(300000)})
sock = send(head(len(third)), third[:200000])
until(bodies, 'bytes are in tmp/')
(s.dir / 'tmp/intake.orphan').write_bytes(b'x')
(s.dir / 'tmp/keep').write_bytes(b'x')
s.stop(signal.SIGKILL)
sock.close()
s.start()
same(os.listdir(s.dir / 'tmp'), ['keep'], 'killed: the start removes what is left in tmp/, and nothing else')
same(len(tasks()), 2, 'nothing was accepted')
key = {'Idempotency-Key': 'd'}
first = s.post(C, third, headers=key)
same((first.status, s.post(C, third, headers=key).json['csid'], s.post(C, third).json['csid']), (202, first.json['csid'], first.json['csid']), 'sent again: one change set')
s.stop(signal.SIGKILL)
s.start()
same((s.post(C, third).status, s.post(C, third).json['csid']), (200, first.json['csid']), 'killed after the answer: it is there')
same(s.get(f'{C}/{first.json["csid"]}/tarball').body == third, True, 'with its tarball')

# ---- 100 MiB, in little memory ----
def peak():
    return int(next(line.split()[1] for line in read(f'/proc/{s.process.pid}/status').decode().splitlines() if line.startswith('VmHWM')))


LARGE = 100 << 20
large = pack(entry('meta', meta(files=['large']).encode()), entry('lroot/large', bytes(LARGE)))
before = peak()
got = s.post(C, large, timeout=120)
same((got.status, peak() - before < 24 * 1024), (202, True), f'100 MiB are taken, and the server has needed {peak() - before} KiB for it')
if FILES:
    same((s.dir / f'blobs/{hashlib.sha256(large).hexdigest()[:2]}/{hashlib.sha256(large).hexdigest()}').stat().st_size, len(large), 'and kept')
until(lambda: not bodies(), 'no file is open any more')
end()
