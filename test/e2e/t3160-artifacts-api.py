#!/usr/bin/env python3
"""Artifacts over HTTP by a worker of one's own: pieces, gaps, fences, names, lists that are refused, restarts in the middle."""
import hashlib
import os
import pathlib
import signal
import sys

sys.path.insert(0, os.environ.get('WEIR_TEST_LIB') or str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
from house import TMP, House, Worker, end, ok, refused, same

s = House('data', slots=0)
worker = Worker(s)


def send(grant, name, data, **query):
    words = '&'.join(f'{k}={v}' for k, v in dict(fence=grant['fence'], **query).items())
    return s.ask('POST', f'/v1/tasks/{grant["task"]}/artifacts/{name}?{words}', body=data, headers={'Content-Type': 'application/octet-stream'})


def claim():
    s.enqueue(dict(name='t', command=['x'], retry=dict(attempts=3)))
    return worker.claim()[0]


def facts(name, data):
    return dict(name=name, bytes=len(data), sha256=hashlib.sha256(data).hexdigest())


grant = claim()
same(send(grant, 'a/b.txt', b'hello ', offset=0).status, 200, 'a first piece')
answer = send(grant, 'a/b.txt', b'x', offset=60)
ok(answer.status == 409 and answer.json['code'] == 'log_gap' and answer.json['expected'] == 6, 'a gap is refused, with the offset wanted', answer)
answer = send(grant, 'a/b.txt', b'world', offset=6, last=1)
same((answer.status, answer.json), (200, facts('a/b.txt', b'hello world')), 'the last piece says what it has become')
same(send(grant, 'one', b'whole', last=1).json, facts('one', b'whole'), 'a whole file at once')
same(send(grant, 'none', b'', last=1).json, facts('none', b''), 'an empty file')
for name in ('a%0Ab', 'a//b', 'x' * 1001, 'a/'):
    ok(send(grant, name, b'x', last=1).status in (400, 404, 414), f'a name that is refused: {name[:20]}')
ok(s.get(f'/v1/tasks/{grant["task"]}/artifacts/one').status == 404, 'what no finish lists isn\'t shown')
for bad in ([dict(name='../x', bytes=1, sha256='0' * 64)], [dict(name='x', bytes=-1, sha256='0' * 64)], [dict(name='x', bytes=1, sha256='zz')], [dict(name='x')], 'x',
            [dict(name='x', bytes=1, sha256='0' * 64, more=1)]):
    ok(s.post(f'/v1/tasks/{grant["task"]}/finish', dict(fence=grant['fence'], exit=0, artifacts=bad)).status == 422, f'a list that is refused: {str(bad)[:50]}')
files = [facts('a/b.txt', b'hello world'), facts('one', b'whole'), facts('none', b''), dict(name='lost', bytes=3, sha256='ab' * 32)]
same(s.post(f'/v1/tasks/{grant["task"]}/finish', dict(fence=grant['fence'], exit=0, outputs={'k': 'v'}, artifacts=files)).status, 200, 'the finish lists them')
task = s.task(grant['task'])
same((task['state'], task['outputs'], task['artifacts']), ('D', {'k': 'v'}, files), 'the task shows outputs and artifacts')
same(s.get(f'/v1/tasks/{grant["task"]}/artifacts/a/b.txt').body, b'hello world', 'the bytes')
same(s.get(f'/v1/tasks/{grant["task"]}/artifacts/none').body, b'', 'no bytes')
for header, status, body in (('bytes=0-4', 206, b'hello'), ('bytes=6-', 206, b'world'), ('bytes=-3', 206, b'rld'), ('bytes=90-', 200, b'hello world'), ('lines=1', 200, b'hello world')):
    part = s.get(f'/v1/tasks/{grant["task"]}/artifacts/a/b.txt', headers={'Range': header})
    same((part.status, part.body), (status, body), f'Range: {header}')
ok(s.get(f'/v1/tasks/{grant["task"]}/artifacts/lost').status == 404, 'one whose bytes never came: 404')
ok(s.get(f'/v1/tasks/{grant["task"]}/artifacts/other').status == 404, 'one that isn\'t listed: 404')
same(s.post(f'/v1/tasks/{grant["task"]}/finish', dict(fence=grant['fence'], exit=0, outputs={'k': 'v'}, artifacts=files)).status, 200, 'the same finish again: 200')
refused(s.post(f'/v1/tasks/{grant["task"]}/finish', dict(fence=grant['fence'], exit=0, outputs={'k': 'v'}, artifacts=files[:1])), 409, 'already_finished')

old = claim()
s.post(f'/v1/tasks/{old["task"]}/finish', dict(fence=old['fence'], exit=1))
retried = s.post(f'/v1/tasks/{old["task"]}/retry', {})
again = worker.claim()[0]
refused(send(old, 'late', b'x', last=1), 409, 'stale_fence')
ok(send(again, 'fine', b'x', last=1).status == 200, 'the newer grant may')

half = send(again, 'half', b'abc', offset=0)
s.stop(signal.SIGKILL)
s.start()
answer = send(again, 'half', b'def', offset=3, last=1)
ok(answer.status == 409 and answer.json['expected'] == 0, 'a server that was killed wants half a file again', answer)
same(send(again, 'half', b'abcdef', last=1).json, facts('half', b'abcdef'), 'and takes it')
same(s.get(f'/v1/tasks/{grant["task"]}/artifacts/a/b.txt').body, b'hello world', 'what was kept is still there')
same(sorted(p.name for p in (TMP / 'data/blobs/new').iterdir()), [], 'nothing half is left')
end()
