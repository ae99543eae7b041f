#!/usr/bin/env python3
"""Bad input: each gets a problem that names the field, and nothing changes."""
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'unit/api'))
from serving import Server, Worker, end, ok, refused, same  # noqa: E402

s = Server()
w = Worker(s, 'w')
base = s.post('/v1/tasks', dict(name='base', data=1)).json['id']
grant = w.claim()[0]
strange = s.post('/v1/tasks', dict(name='strange', data=1, not_before='2099-01-01T00:00:00Z')).json['id']


def picture():
    """without the number of the newest commit: on a shared store servers commit their beats"""
    stats = s.get('/v1/stats').json
    return s.get('/v1/events').body, {key: value for key, value in stats.items() if key != 'turn'}


def changed_nothing(question, text):
    before = picture()
    question()
    same(picture(), before, f'{text}: nothing changed')


def documents():
    deep = '{"name":"a","data":' + '[' * 100 + ']' * 100 + '}'
    for body, code, text in [('', 'bad_json', 'no body'), ('{"name":', 'bad_json', 'half a document'), ('{"name":"a"} x', 'bad_json', 'something behind it'),
                             ("{'name':'a'}", 'bad_json', 'single quotes'), (b'{"name":"\xff"}', 'bad_json', 'bytes that are not UTF-8'),
                             ('{"name":"a","name":"b"}', 'bad_json', 'a field twice'), (deep, 'bad_json', 'deep nesting'), ('NaN', 'bad_json', 'NaN'),
                             (b'\xfe\xff\x00{', 'bad_json', 'UTF-16')]:
        refused(s.ask('POST', '/v1/tasks', body), 400, code, text=text)
    for number in ('99999999999999999999', '1e999'):
        answer = refused(s.ask('POST', '/v1/tasks', '{"name":"a","priority":%s}' % number), 422, 'invalid', text='a number beyond all: ' + number)
    answer = s.ask('POST', '/v1/tasks', '{"name":\n  oops}').json
    same((answer['errors'][0]['line'], answer['errors'][0]['column'] > 0), (2, True), 'with line and column')


def fields():
    for task, path, text in [
            (dict(nmae='a'), '/name', 'no name'), (dict(name='a', comand='x'), '/comand', 'unknown field'), (dict(name=5), '/name', 'a number as name'),
            (dict(name='a', command=5), '/command', 'a number as command'), (dict(name='a', command='"'), '/command', 'an open quote'),
            (dict(name='a', env=[]), '/env', 'a list as env'), (dict(name='a', timeout='soon'), '/timeout', 'no duration'),
            (dict(name='a', timeout=-5), '/timeout', 'a negative duration'), (dict(name='a', priority=10 ** 15), '/priority', 'a large priority'),
            (dict(name='a', not_before=5), '/not_before', 'a number as time'), (dict(name='a', retry=dict(attempts=10 ** 9)), '/retry/attempts', 'many attempts'),
            (dict(name='a', limits=dict(memory='lots')), '/limits/memory', 'no size'), (dict(name='all'), '/name', 'a reserved name'),
            (dict(name='a', queue='123'), '/queue', 'a queue of digits'), (dict(name='a/../b'), '/name', 'a path as name'),
            (dict(name='a', matrix={}), '/matrix', 'what is not supported yet'), (dict(name='a', depends=[10 ** 9]), '/depends/0', 'an unknown id'),
            (dict(name='a', depends=['b']), '/depends/0', 'an unknown name'), (dict(name='a', cancels=['b']), '/cancels/0', 'an unknown name to cancel')]:
        answer = s.post('/v1/tasks', task)
        refused(answer, 422, answer.code if answer.code in ('invalid', 'unknown_task') else 'invalid', path, text)
    same(s.post('/v1/tasks', dict(name='a', depends=[10 ** 9])).code, 'unknown_task', 'an unknown dependency has its own code')
    answer = s.post('/v1/tasks', dict(tasks=[dict(name='a', x=1), dict(name='b'), dict(name='b', command=7)]))
    same([e['path'] for e in answer.json['errors']], ['/tasks/0/x', '/tasks/2/command', '/tasks/2/name'], 'all faults of all tasks in one answer')
    same(s.post('/v1/tasks', dict(name='a', prioritty=1)).json['errors'][0]['suggestion'], "did you mean 'priority'?", 'a suggestion')


def graphs():
    for tasks, text, words in [([dict(name='a', depends=['a'])], 'a task that waits for itself', 'a -> a'),
                               ([dict(name='a', depends=['b']), dict(name='b', after=['c']), dict(name='c', depends=['a'])], 'a circle of three', ' -> ')]:
        answer = s.post('/v1/tasks', dict(tasks=tasks))
        ok(answer.status == 422 and answer.code == 'cycle' and words in answer.json['detail'], f'{text}: 422 cycle, printed', answer)
    n = 10000
    circle = [dict(name=f't{i}', depends=[f't{(i + 1) % n}']) for i in range(n)]
    answer = s.post('/v1/tasks', dict(tasks=circle))
    ok(answer.status == 422 and answer.code == 'cycle' and len(answer.body) < 200000, 'a circle of 10,000', answer)
    refused(s.post('/v1/tasks', dict(tasks=[dict(name='c', depends=[base], cancels=[base])])), 422, 'invalid', '/tasks/0/cancels/0', 'waits for what it cancels')


def sizes():
    refused(s.post('/v1/tasks', dict(tasks=[dict(name=f't{i}') for i in range(10001)])), 422, 'invalid', '/tasks', '10,001 tasks')
    refused(s.post('/v1/tasks', dict(tasks=[])), 422, 'invalid', '/tasks', 'no task')
    refused(s.ask('POST', '/v1/tasks', b' ' * (32 * 1024 * 1024 + 1)), 413, 'body_too_large', text='32 MiB and a byte')
    refused(s.ask('POST', '/v1/executors', b' ' * (1024 * 1024 + 1)), 413, 'body_too_large', text='1 MiB and a byte elsewhere')
    head = b'POST /v1/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n'
    ok(s.raw(head).startswith(b'HTTP/1.1 413'), 'a declared length is refused without reading on')
    got = s.raw(b'POST /v1/executors HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n' + b'80000\r\n' + b'x' * 0x80000 + b'\r\n' + b'90000\r\n' + b'x' * 0x90000)
    ok(got.startswith(b'HTTP/1.1 413'), 'chunks over the limit: 413', got[:200])


def framing():
    for text, head in [('Content-Length and Transfer-Encoding', b'Content-Length: 5\r\nTransfer-Encoding: chunked\r\n'),
                       ('two Content-Lengths', b'Content-Length: 5\r\nContent-Length: 6\r\n'), ('a negative length', b'Content-Length: -5\r\n')]:
        got = s.raw(b'POST /v1/tasks HTTP/1.1\r\nHost: localhost\r\n' + head + b'\r\n0\r\n\r\n', seconds=20)
        ok(got.startswith(b'HTTP/1.1 400'), f'{text}: 400', got[:300])
    for text, data in [('HTTP/0.9', b'GET /\r\n\r\n'), ('nonsense', b'\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n'),
                       ('the HTTP/2 preface', b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'), ('no Host', b'GET /v1/tasks HTTP/1.1\r\n\r\n')]:
        got = s.raw(data, seconds=20, close=True)
        ok(got == b'' or got.split(b' ')[1][:1] in (b'4', b'5'), f'{text}: 4xx, 5xx or closed', got[:200])
    for path in ('/../../etc/passwd', '/%2e%2e/%2e%2e/etc/passwd', '/v1/tasks/%00', '/v1/%2e%2e/v1/tasks', '//v1/tasks', '/v1\\tasks', '/v1/tasks/%zz'):
        got = s.raw(b'GET ' + path.encode() + b' HTTP/1.1\r\nHost: localhost\r\n\r\n')
        ok(got.split(b' ')[1] in (b'400', b'404'), f'GET {path}: 400 or 404', got[:200])
    refused(s.ask('POST', '/v1/tasks', b'\x1f\x8b', headers={'Content-Encoding': 'gzip'}), 415, 'unsupported_media', text='a packed body')


def paths():
    refused(s.get('/v1/nothing'), 404, 'not_found', text='an unknown path')
    answer = s.ask('PUT', '/v1/tasks', '{}')
    refused(answer, 405, 'method_not_allowed', text='an unknown method')
    same(sorted(answer.headers['Allow'].split(', ')), ['GET', 'POST'], 'with Allow')
    same(s.ask('OPTIONS', '/healthz').status, 405, 'OPTIONS: no preflight is granted')
    refused(s.get('/v1/stats?x=1'), 400, 'bad_request', 'x', 'a parameter that the route does not know')
    refused(s.get('/v1/tasks?token=weir_abc'), 400, 'bad_request', text='a token in the address')


def protocol():
    task, fence = grant['task'], grant['fence']
    front, number, tag = fence.rsplit('-', 2)
    newer = f'{front}-{int(number) + 1:08d}-{tag}'
    other = ('f' if fence[0] != 'f' else 'e') + fence[1:]
    for text, body, path in [('no fence', dict(exit=0), '/fence'), ('no verdict', dict(fence=fence), '/exit'),
                             ('an exit of 300', dict(fence=fence, exit=300), '/exit'), ('an unknown outcome', dict(fence=fence, outcome='great'), '/outcome'),
                             ('an unknown field', dict(fence=fence, exit=0, exitcode=1), '/exitcode'), ('outputs of numbers', dict(fence=fence, exit=0, outputs=dict(a=1)), '/outputs/a'),
                             ('a log that is no base64', dict(fence=fence, exit=0, log='%'), '/log'), ('a log of 17 KiB', dict(fence=fence, exit=0, log='AAAA' * 5700), '/log')]:
        refused(s.post(f'/v1/tasks/{task}/finish', body), 422, 'invalid', path, f'finish with {text}')
    for text, bad in [('a fence of the future', newer), ('a fence of another store', other), ('a fence of nobody', 'x')]:
        refused(s.post(f'/v1/tasks/{task}/finish', dict(fence=bad, exit=0)), 409, 'stale_fence', text=f'finish with {text}')
        refused(s.ask('POST', f'/v1/tasks/{task}/log?fence={bad}&offset=0', b'x'), 409, 'stale_fence', text=f'log with {text}')
    refused(s.post(f'/v1/tasks/{strange}/finish', dict(fence=fence, exit=0)), 409, 'stale_fence', text="finish of another task's fence")
    refused(s.post('/v1/tasks/999999/finish', dict(fence='x', exit=0)), 404, 'not_found', text='finish of no task')
    refused(s.ask('POST', '/v1/tasks/999999/log?fence=x&offset=0', b'x'), 404, 'not_found', text='log of no task')
    refused(s.ask('POST', f'/v1/tasks/{task}/log?offset=0', b'x'), 400, 'bad_request', 'fence', 'log without a fence')
    refused(s.ask('POST', f'/v1/tasks/{task}/log?fence={fence}', b'x'), 400, 'bad_request', 'offset', 'log without an offset')
    refused(s.ask('POST', f'/v1/tasks/{task}/log?fence={fence}&offset=-1', b'x'), 400, 'bad_request', 'offset', 'log at -1')
    answer = s.ask('POST', f'/v1/tasks/{task}/log?fence={fence}&offset=5', b'x')
    refused(answer, 409, 'log_gap', text='log with a gap')
    same(answer.json['expected'], 0, 'the offset that is expected is said')
    for text, body, path in [('no name', dict(slots=1), '/name'), ('negative slots', dict(name='e', slots=-1), '/slots'), ('labels of numbers', dict(name='e', labels=dict(a=1)), '/labels/a'),
                             ('an unknown kind', dict(name='e', kinds=['java']), '/kinds/0'), ('an unknown field', dict(name='e', slot=1), '/slot'), ('a bad name', dict(name='a b'), '/name')]:
        refused(s.post('/v1/executors', body), 422, 'invalid', path, f'executor with {text}')
    poll = f'/v1/executors/{w.id}/poll'
    for text, body, path in [('free -1', dict(free=-1), '/free'), ('free of a million', dict(free=10 ** 6), '/free'), ('renew of nonsense', dict(renew=[dict(fence='x')]), '/renew/0/fence'), ('renew without a fence', dict(renew=[dict(task=1)]), '/renew/0/fence'),
                             ('renew as text', dict(renew='x'), '/renew'), ('an unknown field', dict(fre=1), '/fre'), ('finishes as text', dict(finishes='x'), '/finishes')]:
        refused(s.post(poll, body), 422, 'invalid', path, f'poll with {text}')
    cancels = s.post(poll, dict(renew=[dict(task=task, fence='x'), dict(task=task, fence=fence)], wait_ms=5000)).json['cancels']
    same(cancels, [dict(task=task, fence='x', signal='KILL', reason='stale_fence')], 'a renewal with a fence of nobody comes back as a cancel, the good one does not')
    refused(s.post('/v1/executors/999/poll', dict(free=1)), 404, 'not_found', text='poll of nobody')
    refused(s.post('/v1/finishes', dict(item=[])), 422, 'invalid', '/items', 'finishes without items')
    same(s.post('/v1/finishes', dict(items=[5, dict(exit=0), dict(fence=newer, exit=0)])).json['results'],
         [dict(task=0, status=422, code='invalid'), dict(task=0, status=422, code='invalid'), dict(task=task, status=409, code='stale_fence')], 'finishes are judged one by one')
    refused(s.get('/v1/events?since=-1'), 400, 'bad_request', 'since', 'events since -1')
    refused(s.get('/v1/events?follow=maybe'), 400, 'bad_request', 'follow', 'events follow=maybe')
    refused(s.get('/v1/events?queue=nowhere'), 404, 'not_found', text='events of an unknown queue')
    refused(s.get(f'/v1/tasks/{task}/log?attempt=9'), 404, 'not_found', text='the log of an attempt that was not')
    refused(s.get(f'/v1/tasks/{task}/log?tail=x'), 400, 'bad_request', 'tail', 'a tail that is no number')
    refused(s.post('/v1/lanes/default/pause', {}), 422, 'invalid', '/reason', 'a pause without a reason')
    refused(s.post('/v1/lanes/a%20b/pause', dict(reason='r')), 422, 'invalid', text='a pause of nonsense')
    refused(s.post('/v1/lanes/42/pause', dict(reason='r')), 422, 'invalid', text='a pause of a name that no queue can have')
    refused(s.post('/v1/lanes/nowhere/resume', {}), 404, 'not_found', text='resume of a queue that never was')
    for text, body, path in [('no name', dict(scopes=['read']), '/name'), ('no scope', dict(name='t'), '/scopes'), ('an unknown scope', dict(name='t', scopes=['root']), '/scopes/0'),
                             ('an expiry in the past', dict(name='t', scopes=['read'], expires='2020-01-01T00:00:00Z'), '/expires'),
                             ('a tenant that is no name', dict(name='t', scopes=['read'], tenant='-x'), '/tenant')]:
        refused(s.post('/v1/tokens', body), 422, 'invalid', path, f'token with {text}')
    refused(s.ask('DELETE', '/v1/tokens/nobody'), 404, 'not_found', text='revoking nobody')
    refused(s.post('/v1/backup', dict(file='relative')), 422, 'invalid', '/file', 'a backup to a relative path')
    refused(s.get('/v1/verify?witness=5'), 400, 'bad_request', 'witness', 'a witness that is none')


for part in (documents, fields, graphs, sizes, framing, paths, protocol):
    changed_nothing(part, part.__name__)
same(s.get(f'/v1/tasks/{grant["task"]}').json['state'], 'X', 'the granted task still runs')
end()
