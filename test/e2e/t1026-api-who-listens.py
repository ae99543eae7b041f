#!/usr/bin/env python3
"""Who may go on listening: streams and long polls end with their token; HEAD of a stream ends with its head; guesses count by address; numbers have limits."""
import http.client
import json
import pathlib
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'unit/api'))
from serving import Server, end, ok, refused, same, until  # noqa: E402

s = Server(lease='30s')
loose = s.stream('/v1/events?follow=1')  # without a token, while there is none
admin = s.post('/v1/tokens', dict(name='admin', scopes=['admin'])).json['token']
task = s.post('/v1/tasks', dict(name='a', queue='q', data={}), token=admin).json['id']
s.token = None


def token(name, *scopes, **more):
    return s.post('/v1/tokens', dict(name=name, scopes=scopes, **more), token=admin).json['token']


def ended(stream, seconds=3):
    """how long until it ends; None: it doesn't"""
    began = time.monotonic()
    try:
        stream.until_end(seconds)
    except Exception:
        return None
    return time.monotonic() - began


class Listener(threading.Thread):
    """asks, and notes when the answer was whole"""
    def __init__(self, method, path, body, voice):
        super().__init__(daemon=True)
        self.args, self.answer, self.over = (method, path, body, voice), None, None
        self.start()

    def run(self):
        method, path, body, voice = self.args
        connection = http.client.HTTPConnection('127.0.0.1', s.port, timeout=40)
        connection.request(method, path, body and json.dumps(body), {'Authorization': f'Bearer {voice}'} if voice else {})
        try:
            self.answer = connection.getresponse()
            self.bytes = self.answer.read()
        except (OSError, http.client.HTTPException) as e:
            self.bytes = str(e).encode()
        self.over = time.monotonic()


def listeners(voice):
    executor = s.post('/v1/executors', dict(name=f'e{voice[-6:].strip("-_")}x', slots=1, kinds=['script']), token=voice).json['id']
    return {'events': Listener('GET', '/v1/events?follow=1&queue=q', None, voice), 'a log': Listener('GET', f'/v1/tasks/{task}/log?follow=1', None, voice),
            'a poll': Listener('POST', f'/v1/executors/{executor}/poll', dict(free=1, wait_ms=9000), voice)}



ok(ended(loose) is not None, 'a stream without a token ends when the first token is made')
everything, other = token('gone', 'read', 'execute'), token('stays', 'read', 'execute')
going, staying = listeners(everything), listeners(other)
until(lambda: s.get('/metrics', token=admin).body.decode().find('weir_polls_open 2') > 0, 'they listen')
began = time.monotonic()
s.ask('DELETE', '/v1/tokens/gone', token=admin)
for what, listener in going.items():
    until(lambda: listener.over, seconds=5)
    ok(listener.over and listener.over - began < 1.5, f'{what} ends within a second of the revocation', listener.over and listener.over - began)
same((going['a poll'].answer.status, json.loads(going['a poll'].bytes)['code']), (401, 'unauthorized'), 'the poll is told why')
s.post('/v1/tasks', dict(name='b', queue='q', script='true'), token=admin)
same(all(v.over is None for k, v in staying.items() if k != 'a poll'), True, 'those of another token go on')
until(lambda: staying['a poll'].over, 'whose poll gets the work', seconds=10)
short = token('short', 'read', 'execute', expires='3s')
made = time.monotonic()
going = listeners(short)
for what, listener in going.items():
    until(lambda: listener.over, seconds=10)
    ok(listener.over and 1.5 < listener.over - made < 4.9, f'{what} ends within a second of its expiry', listener.over and listener.over - made)

# -- HEAD: the head, at once
for path in ('/v1/events', '/v1/events?follow=1', f'/v1/tasks/{task}/log?follow=1'):
    answer = s.ask('HEAD', path, token=admin, timeout=5)
    same((answer.status, answer.body), (200, b''), f'HEAD {path} ends with its head')

# -- an address guesses, whatever ports it comes from
seen = [s.get('/v1/stats', token='weir_' + 'A' * 43).status for _ in range(60)]
ok(429 in seen, 'guesses of an address are counted together, a connection each', seen)

# -- a token in an address is one only when it can be one
same(s.get('/v1/tasks?queue=weir_docs', token=admin).status, 200, 'a queue may be named weir_docs')
same(s.get('/v1/tasks?name=mytoken', token=admin).status, 200, 'or a task mytoken')
refused(s.get('/v1/tasks?queue=' + admin, token=admin), 400, 'bad_request', text='but no token')
refused(s.get('/v1/tasks?access_token=x', token=admin), 400, 'bad_request', text='nor a parameter for one')

# -- numbers of an end are bounded, so that no sum overflows
worker = s.post('/v1/executors', dict(name='w', slots=9, kinds=['data']), token=admin).json['id']
grant = s.post(f'/v1/executors/{worker}/poll', dict(free=1), token=admin).json['grants'][0]
for name, body in [('/log_bytes', dict(log_bytes=2**63 - 1)), ('/log_bytes', dict(log_bytes=2**39)), ('/log_offset', dict(log='', log_offset=2**62)),
                   ('/usage/cpu_ms', dict(usage=dict(cpu_ms=2**60))), ('/usage/max_rss_bytes', dict(usage=dict(max_rss_bytes=2**63 - 1)))]:
    refused(s.post(f'/v1/tasks/{grant["task"]}/finish', dict(fence=grant['fence'], exit=0, **body), token=admin), 422, 'invalid', name, f'{name} beyond its limit')
    answer = s.post('/v1/finishes', dict(items=[dict(fence=grant['fence'], exit=0, **body)]), token=admin)
    same([r['status'] for r in answer.json['results']], [422], 'in a list too')
same(s.post(f'/v1/tasks/{grant["task"]}/finish', dict(fence=grant['fence'], exit=0, log_bytes=0), token=admin).status, 200, 'it ends')

# -- polls of executors that aren't there
same({s.post(f'/v1/executors/{100000 + i}/poll', dict(free=1), token=admin).status for i in range(20)}, {404}, 'polls of nobody are refused')
end()
