#!/usr/bin/env python3
"""Artifacts over HTTP by a worker of one's own: pieces, gaps, fences, names, lists that are refused, restarts in the middle."""
import hashlib
import os
import pathlib
import signal
import sys
import time

sys.path.insert(0, os.environ.get('WEIR_TEST_LIB') or str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
from house import TMP, House, Worker, end, ok, refused, same, until

s = House('data', slots=0)
worker = Worker(s)

STORE = os.environ.get('WEIR_TEST_STORE', 'sqlite')


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
files = [facts('a/b.txt', b'hello world'), facts('one', b'whole'), facts('none', b'')]


def finish(grant, list, **more):
    return s.post(f'/v1/tasks/{grant["task"]}/finish', dict(fence=grant['fence'], exit=0, artifacts=list, **more))


# -- a finish lists what this attempt has uploaded, and nothing else
other = claim()
same(send(other, 'secret', b'of another task', last=1).status, 200, 'another task keeps a file')
for bad, what in ((files + [dict(name='lost', bytes=3, sha256='ab' * 32)], 'a hash that nobody sent'), (files + [dict(facts('one', b'of another task'), name='two')], 'the hash of another task\'s file'),
                  ([dict(files[0], bytes=0)], 'other bytes'), ([dict(files[0], bytes=1 << 31)], 'more bytes'), ([dict(files[0], name='one')], 'another name'),
                  ([dict(files[0], sha256=files[1]['sha256'])], 'the hash of another file of its own')):
    refused(finish(grant, bad), 422, 'artifact_unknown', text=f'refused: {what}')
refused(finish(grant, files + files[:1]), 422, 'invalid', text='refused: a name twice')
answer = s.post('/v1/finishes', dict(items=[dict(fence=grant['fence'], task=grant['task'], exit=0, artifacts=[facts('secret', b'of another task')]),
                                            dict(fence=other['fence'], task=other['task'], exit=0, artifacts=[facts('secret', b'of another task')])]))
same([(r['status'], r.get('code')) for r in answer.json['results']], [(422, 'artifact_unknown'), (200, None)], 'in bulk: the one is refused, the other counts')
answer = s.post(f'/v1/executors/{worker.id}/poll', dict(free=0, wait_ms=0, renew=[dict(task=grant['task'], fence=grant['fence'])],
                                                       finishes=[dict(fence=grant['fence'], task=grant['task'], exit=0, artifacts=[facts('secret', b'of another task')])]))
same([(r['status'], r.get('code')) for r in answer.json['results']], [(422, 'artifact_unknown')], 'in a poll, too')
s.stop(signal.SIGKILL)
s.start()
same(s.state(grant['task']), 'X', 'none of these ended it')
same(s.post(f'/v1/tasks/{grant["task"]}/finish', dict(fence=grant['fence'], exit=0, outputs={'k': 'v'}, artifacts=files)).status, 200, 'the finish lists them, after a crash of the server')
task = s.task(grant['task'])
same((task['state'], task['outputs'], task['artifacts']), ('D', {'k': 'v'}, files), 'the task shows outputs and artifacts')
same(s.get(f'/v1/tasks/{grant["task"]}/artifacts/a/b.txt').body, b'hello world', 'the bytes')
same(s.get(f'/v1/tasks/{grant["task"]}/artifacts/none').body, b'', 'no bytes')
for header, status, body in (('bytes=0-4', 206, b'hello'), ('bytes=6-', 206, b'world'), ('bytes=-3', 206, b'rld'), ('bytes=90-', 200, b'hello world'), ('lines=1', 200, b'hello world')):
    part = s.get(f'/v1/tasks/{grant["task"]}/artifacts/a/b.txt', headers={'Range': header})
    same((part.status, part.body), (status, body), f'Range: {header}')
refused(send(grant, 'after', b'x', last=1), 409, 'already_ended')
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
if STORE == 'sqlite':
    ok(answer.status == 409 and answer.json['expected'] == 0, 'a server that was killed wants half a file again', answer)
else:
    same(answer.json, facts('half', b'abcdef'), 'a server that was killed has the pieces in the database')
same(send(again, 'half', b'abcdef', last=1).json, facts('half', b'abcdef'), 'and takes it')
same(s.get(f'/v1/tasks/{grant["task"]}/artifacts/a/b.txt').body, b'hello world', 'what was kept is still there')


def halves():
    return sorted(p.name for folder in ('new', 'sealed') for p in (TMP / 'data/blobs' / folder).iterdir())


if STORE == 'sqlite':
    same(halves(), [f'{again["task"]}-2'], 'nothing half is left, and what was sealed is noted')
    kept = TMP / 'data/blobs' / files[0]['sha256'][:2] / files[0]['sha256']
    kept.rename(TMP / 'aside')
    gone = s.get(f'/v1/tasks/{grant["task"]}/artifacts/a/b.txt')
    ok(gone.status == 404 and str(TMP) not in gone.body.decode(), 'a file whose bytes are gone: 404, without a path of the server', gone)
    (TMP / 'aside').rename(kept)

# -- half uploads go with their attempt
lost = claim()
same([send(lost, f'h{i}', b'x' * 1000, offset=0).status for i in range(3)], [200] * 3, 'three files are half there')
s.post(f'/v1/tasks/{lost["task"]}/cancel', dict(reason='not needed'))
same(s.post(f'/v1/tasks/{lost["task"]}/finish', dict(fence=lost['fence'], signal=9)).status, 200, 'their job ends without them')
s.post(f'/v1/tasks/{again["task"]}/finish', dict(fence=again['fence'], exit=0))
if STORE == 'sqlite':
    until(lambda: halves() == [], 'nothing is left of them', 60)

# -- pieces that come while the file is sealed change nothing, nor another task's file of the same content
first, second = claim(), claim()
content = os.urandom(3 << 20)
same(send(first, 'f', content, last=1).status, 200, 'a file is kept')
same(finish(first, [facts('f', content)]).status, 200, 'by its finish')
spoiled = []
for round in range(60):
    line, piece = s.connection(), s.connection()
    path = f'/v1/tasks/{second["task"]}/artifacts/f?fence={second["fence"]}&offset=0'
    kind = {'Content-Type': 'application/octet-stream'}
    line.request('POST', path + '&last=1', content, kind)
    begun = time.monotonic()
    while time.monotonic() - begun < round / 3000:  # from before the seal to after it
        pass
    for _ in range(3):
        piece.request('POST', path, b'CHANGED', kind)
        piece.getresponse().read()
    line.getresponse().read()
    mine = s.get(f'/v1/tasks/{first["task"]}/artifacts/f').body
    if mine != content:
        spoiled.append((round, mine[:10]))
        break
same(spoiled, [], 'the other task\'s file has its bytes')
last = send(second, 'f', content, offset=0, last=1)
same(last.json, facts('f', content), 'and so has this one\'s')
same(finish(second, [facts('f', content)]).status, 200, 'which its finish lists')
same(s.get(f'/v1/tasks/{second["task"]}/artifacts/f').body == content, True, 'both are what was sent')
end()
