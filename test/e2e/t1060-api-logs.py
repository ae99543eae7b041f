#!/usr/bin/env python3
"""Logs: chunks by offset, repeated, with gaps, with other bytes; reading whole, from an offset, the tail, an attempt; following while it grows."""
import base64
import hashlib
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'unit/api'))
from serving import WEIR, Server, Worker, end, ok, refused, same, until  # noqa: E402

s = Server()
w = Worker(s, 'w')


def begin(name='t'):
    task = s.post('/v1/tasks', dict(name=name, data=1)).json['id']
    return task, [g for g in w.claim(free=5) if g['task'] == task][0]


def log(task, query=''):
    return s.get(f'/v1/tasks/{task}/log{query}').body


task = s.post('/v1/tasks', dict(name='none', data=1, labels=dict(no='body'))).json['id']
answer = s.get(f'/v1/tasks/{task}/log')
same((answer.status, answer.body), (200, b''), 'a task that never ran has an empty log')

# -- writing
task, grant = begin()
answer = w.log(grant, 0, b'hello ')
same((answer.status, answer.json['stored']), (200, 6), 'a chunk')
ok(0 <= answer.json['durable'] <= 6, 'durable follows stored', answer)
same(w.log(grant, 6, b'world\n').json['stored'], 12, 'the next one')
same(w.log(grant, 0, b'hello world\n').json['stored'], 12, 'repeated bytes are accepted')
same(w.log(grant, 6, b'world\nmore').json['stored'], 16, 'also when they go on')
answer = w.log(grant, 20, b'x')
refused(answer, 409, 'log_gap', text='a gap')
same(answer.json['expected'], 16, 'what is expected')
refused(w.log(grant, 0, b'HELLO'), 409, 'log_mismatch', text='other bytes at a stored offset')
same(w.log(grant, 16, b'').json['stored'], 16, 'an empty chunk')
until(lambda: w.log(grant, 16, b'').json['durable'] == 16, 'it becomes durable')
same(log(task), b'hello world\nmore', 'read while it runs')
refused(s.ask('POST', f'/v1/tasks/{task}/log?fence={grant["fence"]}&offset=16', b'x' * (1024 * 1024 + 1)), 413, 'body_too_large', text='a chunk over 1 MiB')

# -- reading
same(log(task, '?offset=6'), b'world\nmore', 'from an offset')
same(log(task, '?offset=99'), b'', 'from beyond the end')
same(log(task, '?tail=4'), b'more', 'the tail')
same(log(task, '?tail=0'), b'', 'no tail')
same(log(task, '?tail=9999'), b'hello world\nmore', 'a tail longer than the log')
same(log(task, '?attempt=1'), b'hello world\nmore', 'by attempt')

# -- following
follower = s.stream(f'/v1/tasks/{task}/log?follow=1')
half = s.stream(f'/v1/tasks/{task}/log?follow=1&offset=12')
ok(follower.until(lambda d: d == b'hello world\nmore'), 'a follower gets what is there', follower.data)
w.log(grant, 16, b' and more')
ok(follower.until(lambda d: d.endswith(b' and more')), 'and what comes', follower.data)
same(w.finish(grant, exit=0, log_bytes=30, log_offset=25, log=base64.b64encode(b' end\n').decode()).status, 200, 'a finish with the last bytes')
ok(follower.until_end() and half.until_end(), 'a follower sees the end of the attempt')
same((follower.data, half.data), (b'hello world\nmore and more end\n', b'more and more end\n'), 'with the bytes of the finish')
same(log(task), b'hello world\nmore and more end\n', 'which reads the same afterwards')
same(log(task, '?tail=5'), b' end\n', 'its tail')
same(log(task, '?offset=27'), b'nd\n', 'an offset inside the last bytes')
same(s.stream(f'/v1/tasks/{task}/log?follow=1').until_end(), True, 'following an ended attempt ends at once')
same(s.task(task)['attempts'][0]['log_bytes'], 30, 'its length is on record')

# -- a log that came with the finish alone
task, grant = begin()
w.finish(grant, exit=0, log_bytes=3, log_offset=0, log=base64.b64encode(b'abc').decode())
same(log(task), b'abc', 'a log that came with the finish alone')

# -- several attempts
task, grant = begin()
w.log(grant, 0, b'first')
w.finish(grant, signal=9)
again = [g for g in w.claim(free=5) if g['task'] == task][0]
w.log(again, 0, b'second')
same((log(task), log(task, '?attempt=1'), log(task, '?attempt=2')), (b'second', b'first', b'second'), 'the last attempt by default')
refused(w.log(grant, 5, b'x'), 409, 'stale_fence', text='the log of the older attempt is closed')
w.finish(again)

# -- following a task that has not begun
task = s.post('/v1/tasks', dict(name='later', data=1)).json['id']
early = s.stream(f'/v1/tasks/{task}/log?follow=1')
grant = [g for g in w.claim(free=5) if g['task'] == task][0]
w.log(grant, 0, b'begun')
ok(early.until(lambda d: d == b'begun'), 'a follower from before the start', early.data)
s.post(f'/v1/tasks/{task}/cancel', {})
w.finish(grant, signal=15)
ok(early.until_end(), 'which ends with it')

# -- bytes that nobody has
task, grant = begin()
w.finish(grant, exit=0, log_bytes=12)
answer = s.get(f'/v1/tasks/{task}/log')
refused(answer, 404, 'not_found', text='a log of which nothing is there')
ok('12 of the 12 bytes' in answer.json['detail'] and 'byte 0' in answer.json['detail'], 'says how many bytes are missing', answer.json)
task, grant = begin()
follower = s.stream(f'/v1/tasks/{task}/log?follow=1')
w.log(grant, 0, b'hello')
w.finish(grant, exit=0, log_bytes=12)
ok(follower.until_end() and follower.data == b'hello', 'a follower gets what is there', follower.data)
answer = s.get(f'/v1/tasks/{task}/log')
same((answer.status, answer.body, answer.headers.get('Weir-Log-Missing')), (200, b'hello', '7'), 'what is there is exact, and a header counts what is not')
refused(s.get(f'/v1/tasks/{task}/log?offset=5'), 404, 'not_found', text='asked for what is missing')
refused(s.get(f'/v1/tasks/{task}/log?offset=5&follow=1'), 404, 'not_found', text='a follower, too')
same((log(task, '?offset=12'), log(task, '?tail=2')), (b'', b'lo'), 'behind its end there is nothing; the tail is that of what is there')
task, grant = begin()
w.log(grant, 0, b'hello')
w.finish(grant, exit=0, log_bytes=12, log_offset=8, log=base64.b64encode(b'last').decode())
answer = s.get(f'/v1/tasks/{task}/log')
same((answer.status, answer.body, answer.headers.get('Weir-Log-Missing')), (200, b'hello', '3'), 'a hole')
refused(s.get(f'/v1/tasks/{task}/log?offset=6'), 404, 'not_found', text='inside the hole')
same(log(task, '?offset=8'), b'last', 'and behind it')
for options in ((), ('-f',)):
    done = subprocess.run([WEIR, 'log', '--server', s.url, str(task), *options], capture_output=True)
    ok((done.returncode, done.stdout) == (66, b'hello') and b'missing' in done.stderr, f'weir log {" ".join(options)}: what is there, then an error', done)

# -- large and binary
data = os.urandom(3 * 1024 * 1024 + 17)
task, grant = begin()
follower = s.stream(f'/v1/tasks/{task}/log?follow=1')
for at in range(0, len(data), 700000):
    w.log(grant, at, data[at:at + 700000])
w.finish(grant, exit=0, log_bytes=len(data))
ok(follower.until_end(60) and hashlib.sha256(follower.data).digest() == hashlib.sha256(data).digest(), 'three megabytes followed, byte by byte', len(follower.data))
same(hashlib.sha256(log(task)).digest(), hashlib.sha256(data).digest(), 'and read whole')
same(log(task, '?tail=100000'), data[-100000:], 'and its tail')
same(log(task, f'?offset={len(data) - 5}'), data[-5:], 'and its last bytes')
s.stop()
s.start()
same(hashlib.sha256(log(task)).digest(), hashlib.sha256(data).digest(), 'the same after a restart')

if os.environ.get('WEIR_TEST_STORE') == 'postgres':  # the rest is about files: there are none
    end()

# -- a crash between the commit of an end and the sealing of its log: the next start seals what has ended, and nothing else
live, packed = s.dir / 'logs/live', s.dir / 'logs/0'
w = Worker(s, 'w')
ended, grant = begin()
w.log(grant, 0, b'ended')
w.finish(grant, exit=0, log_bytes=5)
retried, grant = begin()
w.log(grant, 0, b'older')
w.finish(grant, signal=9)
newer = [g for g in w.claim(free=5) if g['task'] == retried][0]
w.log(newer, 0, b'newer')
until(lambda: sorted(p.name for p in live.iterdir()) == [f'{retried}.2.log'], 'logs of ended attempts are packed')
s.stop()
for name, text in (f'{ended}.1', b'ended'), (f'{retried}.1', b'older'), ('999999.1', b'of nobody'):
    (packed / f'{name}.log.zst').unlink(missing_ok=True)
    (live / f'{name}.log').write_bytes(text)
    (live / f'{name}.log').chmod(0o600)
s.start()
ok(until(lambda: sorted(p.name for p in live.iterdir()) == [f'{retried}.2.log']), 'those left open by a crash, too, at the next start', list(live.iterdir()))
same((log(ended), log(retried, '?attempt=1'), log(retried)), (b'ended', b'older', b'newer'), 'and read as before')
same(w.log(newer, 5, b' bytes').json['stored'], 11, 'the log of the attempt that runs goes on')
end()
