#!/usr/bin/env python3
"""Bad input, in full: each gets a problem+json with a stable code that names the field, and nothing changes. http.client and raw sockets."""
import json
import pathlib
import socket
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
from house import House, Worker, end, ok, refused, same, until  # noqa: E402

s = House('data', slots=0, lease='10m')  # nobody is lost here, so that nothing changes by itself
w = Worker(s, 'w')
base = s.enqueue(dict(name='base', data=1))['id']
grant = w.claim()[0]
w.log(grant, 0, b'0123456789')
ended = s.enqueue(dict(name='ended'))['id']
MIB = 1 << 20


def unchanged(part):
    before = s.mark()
    part()
    same(s.mark(), before, f'{part.__name__}: nothing changed')


def problem(answer, status, codes, path=None, text=''):
    """like refused, where the documents leave the choice of the code"""
    codes = [codes] if isinstance(codes, str) else codes
    return refused(answer, status, answer.code if answer.code in codes else codes[0], path, text)


def broken_json():
    rows = ['', '{', '{"name": "a"', '{"name": "a",}', "{'name': 'a'}", '{name: "a"}', '{"name": "a"}}', '{"name": "a"} {"name": "b"}', '{"name": "a" "queue": "b"}', '\x00', 'nul',
            '{"name": "a", "priority": 01}', '{"name": "a", "priority": +1}', '{"name": "a", "priority": .5}', '{"name": "a", "priority": 0x10}',
            '{"name": "a", "data": NaN}', '{"name": "a", "data": Infinity}', '{"name": "a\nb"}', '{"name": "\\x41"}', '// x\n{"name": "a"}']
    for row in rows:
        refused(s.ask('POST', '/v1/tasks', row), 400, 'bad_json', text=repr(row)[:60])
    for row in (b'{"name": "\xff\xfe"}', b'{"name": "\xc0\xaf"}', b'{"name": "\xed\xa0\x80"}', b'\xef\xbb\xbf\xff', '{"name": "a"}'.encode('utf-16'), b'\x1f\x8b\x08\x00'):
        refused(s.ask('POST', '/v1/tasks', row), 400, 'bad_json', text=f'bytes {row[:24]!r}')
    answer = s.ask('POST', '/v1/tasks', '{"tasks": [\n  {"name": "a"},\n  {"name": oops}\n]}')
    error = answer.json['errors'][0]
    ok(error['line'] == 3 and 12 <= error['column'] <= 15, 'broken JSON: line and column', answer)
    for path in ('/v1/executors', '/v1/finishes', f'/v1/executors/{w.id}/poll', f'/v1/tasks/{base}/finish', f'/v1/tasks/{base}/cancel', '/v1/tokens', '/v1/lanes/all/pause'):
        refused(s.ask('POST', path, '{"a": '), 400, 'bad_json', text=f'broken JSON to {path.split("/")[-1]}')


def duplicates_and_depth():
    for row, text in (('{"name": "a", "name": "b"}', 'a key twice'), ('{"name": "a", "env": {"A": "1", "A": "2"}}', 'a key twice, deeper'),
                      ('{"name": "a", "data": ' + '[' * 5000 + ']' * 5000 + '}', '5,000 brackets'), ('[' * 100000, '100,000 open brackets'),
                      ('{"a":' * 50000, '50,000 open braces')):
        answer = s.ask('POST', '/v1/tasks', row)
        problem(answer, answer.status if answer.status in (400, 422) else 400, ['bad_json', 'invalid'], text=text)


def huge_numbers():
    for value in ('18446744073709551616', '18446744073709551615', '9223372036854775808', '1e400', '-1e400', '1' * 400, '1e18', '-9223372036854775809', '1001', '-1001', '1.5'):
        answer = s.ask('POST', '/v1/tasks', '{"name": "a", "priority": %s}' % value)
        refused(answer, 422, 'invalid', '/priority', f'priority {value[:30]}')
    for value in ('18446744073709551616', '1e400', '-1', '0', '1.5', '9223372036854775807'):
        answer = s.ask('POST', '/v1/tasks', '{"tasks": [{"name": "b"}, {"name": "a", "depends": ["b", %s]}]}' % value)
        problem(answer, 422, ['invalid', 'unknown_task'], '/tasks/1/depends/1', f'depends on {value}')
    for value in ('-1', '0', '1e400', '18446744073709551616', '1.5', '"three"', '1000000000000'):
        refused(s.ask('POST', '/v1/tasks', '{"name": "a", "retry": {"attempts": %s}}' % value), 422, 'invalid', '/retry/attempts', f'attempts {value}')
    for value in ('-1', '1e400', '18446744073709551616', '"two"', '1.5'):
        refused(s.ask('POST', f'/v1/executors/{w.id}/poll', '{"free": %s}' % value), 422, 'invalid', '/free', f'poll free {value}')
        refused(s.ask('POST', '/v1/executors', '{"name": "x", "slots": %s}' % value), 422, 'invalid', '/slots', f'executor slots {value}')
        refused(s.ask('POST', f'/v1/executors/{w.id}/poll', '{"free": 0, "wait_ms": %s}' % value), 422, 'invalid', '/wait_ms', f'poll wait_ms {value}')
    for value in ('-1', '256', '1e400', '18446744073709551616', '"0"', '0.5'):
        refused(s.ask('POST', f'/v1/tasks/{base}/finish', '{"fence": "%s", "exit": %s}' % (grant['fence'], value)), 422, 'invalid', '/exit', f'exit {value}')
    for value in ('-9', '0', '1000', '1e400'):
        refused(s.ask('POST', f'/v1/tasks/{base}/finish', '{"fence": "%s", "signal": %s}' % (grant['fence'], value)), 422, 'invalid', '/signal', f'signal {value}')


def fields():
    rows = [
        (dict(), '/name'), (dict(name=None), '/name'), (dict(name=''), '/name'), (dict(name='a b'), '/name'), (dict(name='-a'), '/name'), (dict(name='a' * 101), '/name'),
        (dict(name='123'), '/name'), (dict(name='PREV'), '/name'), (dict(name='WORKFLOW'), '/name'), (dict(name='ä'), '/name'), (dict(name='a\n'), '/name'),
        (dict(name='a:b'), '/name'), (dict(name='a@1'), '/name'), (dict(name='../x'), '/name'), (dict(name=['a']), '/name'), (dict(name=True), '/name'),
        (dict(name='a', queue=''), '/queue'), (dict(name='a', queue='all'), '/queue'), (dict(name='a', queue='42'), '/queue'), (dict(name='a', queue={}), '/queue'),
        (dict(name='a', queue='x' * 101), '/queue'), (dict(name='a', colour='red'), '/colour'), (dict(name='a', Command='x'), '/Command'), (dict(name='a', **{'': 1}), '/'),
        (dict(name='a', **{'a/b~c': 1}), '/a~1b~0c'), (dict(name='a', command=['x', 5]), '/command/1'), (dict(name='a', command={}), '/command'), (dict(name='a', command=True), '/command'),
        (dict(name='a', command='echo "x'), '/command'), (dict(name='a', command='x\0y'), '/command'), (dict(name='a', script=['x']), '/script'), (dict(name='a', shell=5), '/shell'),
        (dict(name='a', env=dict(A=1)), '/env/A'), (dict(name='a', env=dict(A=None)), '/env/A'), (dict(name='a', env='A=1'), '/env'),
        (dict(name='a', timeout=30), '/timeout'), (dict(name='a', timeout='30'), '/timeout'), (dict(name='a', timeout='-3s'), '/timeout'), (dict(name='a', timeout='0s'), '/timeout'),
        (dict(name='a', timeout='99999999999999999999s'), '/timeout'), (dict(name='a', timeout='5 parsecs'), '/timeout'), (dict(name='a', retry=3), '/retry'),
        (dict(name='a', retry=dict(atempts=3)), '/retry/atempts'), (dict(name='a', retry=dict(backoff='x')), '/retry/backoff'), (dict(name='a', retry=dict(on='lost')), '/retry/on'),
        (dict(name='a', retry=dict(on=['bored'])), '/retry/on/0'), (dict(name='a', priority='high'), '/priority'),
        (dict(name='a', not_before='tomorrow'), '/not_before'), (dict(name='a', not_before='2026-02-30T00:00:00Z'), '/not_before'), (dict(name='a', not_before=1e9), '/not_before'),
        (dict(name='a', labels=['x']), '/labels'), (dict(name='a', labels=dict(os=1)), '/labels/os'), (dict(name='a', zone=['eu']), '/zone'), (dict(name='a', semaphores='pdf'), '/semaphores'),
        (dict(name='a', semaphores=[5]), '/semaphores/0'), (dict(name='a', unique=['x']), '/unique'), (dict(name='a', concurrency=5), '/concurrency'),
        (dict(name='a', unique='{nonsense}'), '/unique'), (dict(name='a', depends='b'), '/depends'), (dict(name='a', depends=[None]), '/depends/0'),
        (dict(name='a', depends=[dict(task='b', when='x')]), '/depends/0/when'), (dict(name='a', depends=[dict(task=base, on='sunday')]), '/depends/0/on'),
        (dict(name='a', depends=[dict(on='success')]), '/depends/0/task'), (dict(name='a', after={}), '/after'), (dict(name='a', cancels=5), '/cancels')]
    for task, path in rows:
        answer = s.post('/v1/tasks', task)
        refused(answer, 422, 'invalid', path, json.dumps(task)[:90])
        if path == '/colour':
            same((s.post('/v1/tasks', dict(tasks=[dict(name='ok'), task])).json['errors'][0]['path']), '/tasks/1/colour', 'in a list the path begins with the place')
    for body, path in ((dict(tasks={}), '/tasks'), (dict(tasks=[]), '/tasks'), (dict(tasks=[5]), '/tasks/0'), (dict(tasks=[dict(name='a')], extra=1), '/extra')):
        refused(s.post('/v1/tasks', body), 422, 'invalid', path, json.dumps(body))
    for body in ('[]', '5', 'null', '"x"', 'true'):
        refused(s.ask('POST', '/v1/tasks', body), 422, 'invalid', '', f'{body} as a task')
    answer = s.post('/v1/tasks', dict(tasks=[dict(name='x'), dict(name='y'), dict(name='x')]))
    refused(answer, 422, 'invalid', '/tasks/2/name', 'a name twice in one call')


def graphs():
    answer = s.post('/v1/tasks', dict(tasks=[dict(name='a', depends=['b']), dict(name='b', depends=['c']), dict(name='c', depends=['a']), dict(name='d')]))
    refused(answer, 422, 'cycle', text='a cycle')
    detail = json.dumps(answer.json)
    ok(all(f'{x} -> {y}' in detail for x, y in ('ab', 'bc', 'ca')), 'is printed', answer)
    refused(s.post('/v1/tasks', dict(name='a', depends=['a'])), 422, 'cycle', text='a task that depends on itself')
    refused(s.post('/v1/tasks', dict(tasks=[dict(name='a', after=['b']), dict(name='b', depends=['a'])])), 422, 'cycle', text='a cycle of after and depends')
    for kind in ('depends', 'after', 'cancels'):
        refused(s.post('/v1/tasks', {'name': 'a', kind: [987654]}), 422, 'unknown_task', f'/{kind}/0', f'{kind} an unknown id')
        refused(s.post('/v1/tasks', {'name': 'a', kind: ['nobody']}), 422, 'unknown_task', f'/{kind}/0', f'{kind} an unknown name')
        refused(s.post('/v1/tasks', {'tasks': [{'name': 'b'}, {'name': 'a', kind: ['b', 'nobody']}]}), 422, 'unknown_task', f'/tasks/1/{kind}/1', f'{kind} an unknown name in a list')
    refused(s.post('/v1/tasks', dict(tasks=[dict(name='b'), dict(name='a', depends=['b'], cancels=['b'])])), 422, 'invalid', text='depends on what it cancels')


def too_large():
    refused(s.post('/v1/tasks', dict(tasks=[dict(name=f't{i}') for i in range(10001)])), 422, 'invalid', '/tasks', '10,001 tasks')
    refused(s.ask('POST', '/v1/tasks', b'{"name": "a", "data": "' + b'x' * (33 * MIB) + b'"}'), 413, 'body_too_large', text='33 MiB to /v1/tasks')
    for path in ('/v1/executors', f'/v1/tasks/{base}/finish', '/v1/finishes', f'/v1/tasks/{base}/cancel', '/v1/tokens', f'/v1/tasks/{base}/log?fence={grant["fence"]}&offset=10'):
        refused(s.ask('POST', path, b'x' * (MIB + 1)), 413, 'body_too_large', text=f'1 MiB + 1 to {path[:24]}')
    one_problem('an address of 200,000 bytes', b'GET /' + b'x' * 200000 + b' HTTP/1.1\r\nHost: localhost\r\n\r\n', 414, 'uri_too_long')
    one_problem('20,000 headers', b'GET /healthz HTTP/1.1\r\nHost: localhost\r\n' + b''.join(b'X-%d: y\r\n' % i for i in range(20000)) + b'\r\n', 431, 'headers_too_large')
    one_problem('a header of 200,000 bytes', b'GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: ' + b'y' * 200000 + b'\r\n\r\n', 431, 'headers_too_large')
    one_problem('a header without an end', b'GET /healthz HTTP/1.1\r\nHost: localhost\r\n' + b'y' * 200000, 431, 'headers_too_large')
    one_problem('a declared body of 1 EiB', b'POST /v1/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1152921504606846976\r\n\r\n', 413, 'body_too_large')
    one_problem('a chunk of 1 GiB', CHUNKED + b'40000000\r\n', 413, 'body_too_large')


def one_problem(text, data, status, code):
    """broken HTTP: exactly one well-formed answer, a problem, then the end; nothing behind the fault is read"""
    got = b''
    with socket.create_connection(('127.0.0.1', s.port), timeout=20) as client:
        try:
            client.sendall(data + b'POST /v1/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Length: 20\r\n\r\n' + GOOD)
        except OSError:
            pass  # it was refused meanwhile
        try:
            while part := client.recv(65536):
                got += part
        except OSError as fault:
            got += repr(fault).encode()
    head, _, body = got.partition(b'\r\n\r\n')
    lines = head.split(b'\r\n')
    fields = dict(line.split(b': ', 1) for line in lines[1:] if b': ' in line)
    try:
        told = json.loads(body)
    except ValueError:
        told = {}
    good = (lines[0].startswith(b'HTTP/1.1 %d ' % status) and len(fields) == len(lines) - 1 and fields.get(b'Content-Type') == b'application/problem+json'
            and fields.get(b'Connection') == b'close' and fields.get(b'Content-Length') == b'%d' % len(body)
            and (told.get('status'), told.get('code'), told.get('type')) == (status, code, 'about:blank') and told.get('title') and told.get('detail'))
    ok(good, f'{text}: {status} {code}, once, and the end', got[:600])


GOOD = b'{"name": "smuggled"}'
POST = b'POST /v1/tasks HTTP/1.1\r\nHost: localhost\r\n'
CHUNKED = POST + b'Transfer-Encoding: chunked\r\n\r\n'


def broken_http():
    length = POST + b'Content-Length: %s\r\n\r\n' + GOOD
    chunk = CHUNKED + b'%s\r\n' + GOOD + b'\r\n0\r\n\r\n'
    field = b'GET /healthz HTTP/1.1\r\nHost: localhost\r\n%s\r\n\r\n'
    line = b'%s\r\nHost: localhost\r\n\r\n'
    for text, data in (
            ('two Content-Length', POST + b'Content-Length: 20\r\nContent-Length: 20\r\n\r\n' + GOOD),
            ('two different Content-Length', POST + b'Content-Length: 20\r\nContent-Length: 5\r\n\r\n' + GOOD),
            ('a list as Content-Length', length % b'20, 20'), ('+20', length % b'+20'), ('-20', length % b'-20'), ('0x14', length % b'0x14'), ('20 and a blank', length % b'2 0'),
            ('no digits', length % b''), ('a length of 2^64+20', length % b'18446744073709551636'), ('a NUL in the length', length % b'20\0'),
            ('Content-Length and chunked', POST + b'Content-Length: 20\r\nTransfer-Encoding: chunked\r\n\r\n14\r\n' + GOOD + b'\r\n0\r\n\r\n'),
            ('chunked and Content-Length', POST + b'Transfer-Encoding: chunked\r\nContent-Length: 20\r\n\r\n14\r\n' + GOOD + b'\r\n0\r\n\r\n'),
            ('chunked with HTTP/1.0', CHUNKED.replace(b'1.1', b'1.0') + b'14\r\n' + GOOD + b'\r\n0\r\n\r\n'),
            ('a bad chunk size', chunk % b'zz'), ('a chunk size 0x14', chunk % b'0x14'), ('a negative chunk', chunk % b'-14'), ('a chunk size with a blank', chunk % b'14 '),
            ('no chunk size', chunk % b''), ('a chunk size of 17 digits', chunk % b'00000000000000014'), ('a NUL in an extension', chunk % b'14;a\0'),
            ('a chunk that is longer', chunk % b'13'), ('a chunk that is shorter', chunk % b'16'), ('a chunk line with LF alone', CHUNKED + b'14\n' + GOOD + b'\r\n0\r\n\r\n'),
            ('a chunk extension of 100,000 bytes', chunk % (b'14;' + b'x' * 100000)), ('a broken trailer', CHUNKED + b'0\r\nno colon\r\n\r\n'),
            ('no Host', b'POST /v1/tasks HTTP/1.1\r\nContent-Length: 20\r\n\r\n' + GOOD), ('two Hosts', field % b'Host: localhost'), ('a Host with a blank', field.replace(b'localhost', b'local host') % b'A: b'),
            ('a header without a colon', field % b'no colon'), ('a blank before the colon', field % b'Foo : bar'), ('a header without a name', field % b': bar'),
            ('a folded header', field % b'Foo: a\r\n b'), ('a NUL in a value', field % b'Foo: a\0b'), ('a NUL in a name', field % b'F\0o: a'), ('a CR in a value', field % b'Foo: a\rb'),
            ('LF alone', b'GET /healthz HTTP/1.1\nHost: localhost\n\n'), ('LF alone after a header', field.replace(b'%s\r\n', b'A: b\n')), ('two CR', field % b'Foo: a\r'),
            ('a NUL in the address', line % b'GET /heal\0thz HTTP/1.1'), ('a blank in the address', line % b'GET /heal thz HTTP/1.1'), ('a tab for a blank', line % b'GET\t/healthz HTTP/1.1'),
            ('two blanks', line % b'GET  /healthz HTTP/1.1'), ('a word too many', line % b'GET /healthz HTTP/1.1 x'), ('no version', line % b'GET /healthz'), ('http/1.1', line % b'GET /healthz http/1.1'),
            ('HTTP/1', line % b'GET /healthz HTTP/1'), ('a method that is none', line % b'G(T /healthz HTTP/1.1'), ('a whole URL', line % b'GET http://evil/healthz HTTP/1.1'),
            ('garbage', bytes(range(256)) * 8 + b'\r\n\r\n'), ('zeros', b'\0' * 1000), ('TLS', b'\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03' + b'\0' * 500), ('SSH', b'SSH-2.0-OpenSSH_9.2\r\n\r\n'),
            ('one word', b'hello\r\n\r\n'), ('empty lines', b'\r\n' * 100)):
        one_problem(text, data, 400, 'bad_request')
    for text, data in (('gzip', POST + b'Transfer-Encoding: gzip\r\n\r\n' + GOOD), ('gzip, chunked', POST + b'Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n'),
                       ('chunked twice', POST + b'Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n'), ('xchunked', POST + b'Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n')):
        one_problem(f'transfer coding {text}', data, 501, 'not_implemented')
    for text, data in (('HTTP/9.9', line % b'GET /healthz HTTP/9.9'), ('HTTP/0.9', line % b'GET /healthz HTTP/0.9'), ('the preface of HTTP/2', b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')):
        one_problem(text, data, 505, 'version_not_supported')
    one_problem('a packed body', POST + b'Content-Encoding: gzip\r\nContent-Length: 20\r\n\r\n' + GOOD, 415, 'unsupported_media')
    # half a request, then nothing: the connection closes, the server serves on
    for data in (POST + b'Content-Length: 1000\r\n\r\n{"name": "half"', CHUNKED + b'14\r\n' + GOOD + b'\r\n', POST):
        got = s.raw(data, seconds=10, close=True)
        ok(got.startswith(b'HTTP/1.1 400 ') and b'"bad_request"' in got, 'half a request', got[:300])
    same(s.get('/healthz').status, 200, 'and the server serves on')
    # pipelined: the second is not swallowed by a refused first
    got = s.raw(b'GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\nGET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n')
    ok(b' 404 ' in got, 'pipelined requests', got[:100])


def addresses():
    for method, path, status, code in (
            ('GET', '/', 404, 'not_found'), ('GET', '/v1', 404, 'not_found'), ('GET', '/v2/tasks', 404, 'not_found'), ('GET', '/v1/tasks/', None, None), ('GET', '/v1//tasks', 404, 'not_found'),
            ('GET', '/v1/tasks/999999', 404, 'not_found'), ('GET', '/v1/tasks/default:999999', 404, 'not_found'),
            ('POST', '/v1/executors/999999/poll', 404, 'not_found'), ('DELETE', '/v1/tokens/nobody', 404, 'not_found'), ('PUT', '/v1/tasks', 405, 'method_not_allowed'),
            ('DELETE', f'/v1/tasks/{base}', 405, 'method_not_allowed'), ('PATCH', '/v1/tasks', 405, 'method_not_allowed'), ('GET', '/v1/finishes', 405, 'method_not_allowed'),
            ('GET', '/v1/tasks?limit=0', 400, 'bad_request'), ('GET', '/v1/tasks?limit=-1', 400, 'bad_request'), ('GET', '/v1/tasks?limit=1e3', 400, 'bad_request'),
            ('GET', '/v1/tasks?limit=99999999999999999999', 400, 'bad_request'), ('GET', '/v1/tasks?state=Z', 400, 'bad_request'), ('GET', '/v1/tasks?frob=1', 400, 'bad_request'),
            ('GET', '/v1/tasks?cursor=zzz', 400, 'bad_request'), ('GET', '/v1/tasks?rev=x', 400, 'bad_request'), ('GET', '/v1/events?since=-1', 400, 'bad_request'),
            ('GET', '/v1/events?since=x', 400, 'bad_request'), ('GET', '/v1/events?limit=0', 400, 'bad_request'), ('GET', '/v1/events?follow=maybe', 400, 'bad_request'),
            ('GET', f'/v1/tasks/{base}/log?offset=-1', 400, 'bad_request'), ('GET', f'/v1/tasks/{base}/log?attempt=0', 400, 'bad_request'), ('GET', f'/v1/tasks/{base}/log?tail=x', 400, 'bad_request'),
            ('GET', f'/v1/tasks/{base}/log?attempt=99', 404, 'not_found'), ('GET', '/v1/tasks/%00', None, None), ('GET', '/v1/tasks/%zz', None, None), ('GET', '/v1/tasks/..%2f..%2fetc', None, None),
            ('GET', '/v1/tasks/-1', None, None), ('GET', '/v1/tasks/18446744073709551617', None, None), ('GET', '/v1/tasks/1e0', None, None)):
        answer = s.ask(method, path)
        if status:
            refused(answer, status, code, text=f'{method} {path}')
        else:
            ok(answer.status in (400, 404) and answer.code in ('bad_request', 'not_found'), f'{method} {path}: {answer.status} {answer.code}', answer)
    answer = s.ask('PUT', '/v1/tasks')
    ok('POST' in answer.headers.get('Allow', ''), '405 says what is allowed', answer.headers)
    for method in ('HEAD', 'OPTIONS', 'FROB', 'CONNECT'):
        answer = s.ask(method, '/v1/tasks')
        ok(answer.status < 500 or answer.status == 501, f'{method}: {answer.status}')
    answer = s.get('/v1/tasks?frob=1')
    same(answer.json['errors'][0]['path'], 'frob', 'a bad query parameter is named')


def fences_and_logs():
    fence = grant['fence']
    url = f'/v1/tasks/{base}/log'
    same(s.ask('POST', f'{url}?fence={fence}&offset=0', b'0123456789').status, 200, 'a chunk that repeats stored bytes: 200')
    same(s.ask('POST', f'{url}?fence={fence}&offset=3', b'345').status, 200, 'a part of them: 200')
    answer = s.ask('POST', f'{url}?fence={fence}&offset=11', b'x')
    refused(answer, 409, 'log_gap', text='a gap')
    same(answer.json.get('expected'), 10, 'with expected')
    refused(s.ask('POST', f'{url}?fence={fence}&offset=0', b'0123x'), 409, 'log_mismatch', text='other bytes')
    refused(s.ask('POST', f'{url}?fence={fence}&offset=8', b'xxyyzz'), 409, 'log_mismatch', text='other bytes, half new')
    same(s.log_bytes(base), b'0123456789', 'the log is as it was')
    for query, path in ((f'fence={fence}', 'offset'), ('offset=10', 'fence'), (f'fence={fence}&offset=-1', 'offset'), (f'fence={fence}&offset=x', 'offset'),
                        (f'fence={fence}&offset=18446744073709551616', 'offset'), ('fence=&offset=10', 'fence'), ('fence=x&offset=10', 'fence')):
        answer = s.ask('POST', f'{url}?{query}', b'x')
        ok(answer.status in (400, 422, 409) and answer.headers['Content-Type'] == 'application/problem+json' and (answer.status == 409 or path in [e['path'] for e in answer.json['errors']]),
           f'log with {query.replace(fence, "FENCE")}: {answer.status} {answer.code}', answer)
    refused(s.ask('POST', f'/v1/tasks/{base}/log?fence={fence}&offset=9223372036854775807', b'x'), 409, 'log_gap', text='the largest offset')
    for body, path in ((dict(exit=0), '/fence'), (dict(fence=5, exit=0), '/fence'), (dict(fence=fence, exit='0'), '/exit'), (dict(fence=fence, exit=0, frob=1), '/frob'),
                       (dict(fence=fence, outcome='splendid'), '/outcome'), (dict(fence=fence, exit=0, outputs=[]), '/outputs'), (dict(fence=fence, exit=0, outputs=dict(a=5)), '/outputs/a'),
                       (dict(fence=fence, exit=0, usage=dict(cpu_ms='x')), '/usage/cpu_ms')):
        refused(s.post(f'/v1/tasks/{base}/finish', body), 422, 'invalid', path, f'finish {json.dumps(body).replace(fence, "FENCE")}')
    answer = s.post(f'/v1/tasks/{base}/finish', dict(fence=fence))
    problem(answer, 422, ['invalid'], text='a finish without a verdict')
    answer = s.post(f'/v1/tasks/{ended}/finish', dict(fence=fence, exit=0))
    ok(answer.status in (409, 422) and answer.headers['Content-Type'] == 'application/problem+json', f'a fence of another task: {answer.status} {answer.code}', answer)
    refused(s.post(f'/v1/tasks/{ended}/cancel', dict(reason='x')), 409, 'already_ended', text='cancel of an ended task')
    problem(s.post(f'/v1/tasks/{base}/retry'), 409, ['not_ended', 'conflict'], text='retry of a running task')
    for body, path in ((dict(items={}), '/items'), (dict(), '/items'), (dict(items=[5]), '/items/0'), (dict(items=[dict(task=base)]), None)):
        answer = s.post('/v1/finishes', body)
        if path and answer.status != 200:
            refused(answer, 422, 'invalid', path, f'finishes {json.dumps(body)}')
        else:
            ok(answer.status == 422 or answer.json['results'][0]['status'] >= 400, f'finishes {json.dumps(body)}', answer)
    for body, path in ((dict(), '/name'), (dict(name='x y', slots=1), '/name'), (dict(name='x', slots=1, labels=[]), '/labels'), (dict(name='x', slots=1, kinds=['magic']), '/kinds/0'),
                       (dict(name='x', slots=1, zone=5), '/zone'), (dict(name='x', slots=1, frob=1), '/frob')):
        refused(s.post('/v1/executors', body), 422, 'invalid', path, f'executor {json.dumps(body)}')
    for body, path in ((dict(free=1, renew={}), '/renew'), (dict(free=1, renew=[dict(task='x', fence='y')]), '/renew/0/task'), (dict(free=1, frob=1), '/frob'), (dict(free=1, seq=-1), '/seq')):
        refused(s.post(f'/v1/executors/{w.id}/poll', body), 422, 'invalid', path, f'poll {json.dumps(body)}')


def idempotency():
    key = {'Idempotency-Key': 'k1'}
    refused(s.post('/v1/tasks', dict(name='other'), headers=key), 422, 'idempotency_mismatch', text='a reused key with another body')
    refused(s.post('/v1/tasks', dict(name='first', priority=1), headers=key), 422, 'idempotency_mismatch', text='with one field more')
    again = s.post('/v1/tasks', dict(name='first'), headers=key)
    same((again.status, again.json['id']), (201, first), 'same key, same body: the first answer')
    for bad in ('', 'x' * 5000):
        answer = s.post('/v1/tasks', dict(name='first'), headers={'Idempotency-Key': bad})
        problem(answer, answer.status if answer.status in (400, 422) else 400, ['bad_request', 'invalid', 'headers_too_large'], text=f'a key of {len(bad)} bytes')
    answer = s.post('/v1/tasks', dict(nam='x'), headers={'Idempotency-Key': 'k2'})
    same(answer.status, 422, 'a refused request with a key')


first = s.post('/v1/tasks', dict(name='first'), headers={'Idempotency-Key': 'k1'}).json['id']
for part in (broken_json, duplicates_and_depth, huge_numbers, fields, graphs, too_large, broken_http, addresses, fences_and_logs, idempotency):
    unchanged(part)
same(s.post('/v1/tasks', dict(name='x'), headers={'Idempotency-Key': 'k2'}).status, 201, 'a refusal doesn\'t use up the key')


def tokens():
    rows = [(dict(scopes=['read']), '/name'), (dict(name='x', scopes=['everything']), '/scopes/0'), (dict(name='x'), '/scopes'), (dict(name='x', scopes='read'), '/scopes'),
            (dict(name='x', scopes=[]), '/scopes'), (dict(name='x', scopes=['read'], expires='yesterday'), '/expires'), (dict(name='x', scopes=['read'], frob=1), '/frob')]
    for body, path in rows:
        refused(s.post('/v1/tokens', body, local=True), 422, 'invalid', path, f'token {json.dumps(body)}')


unchanged(tokens)
made = s.post('/v1/tokens', dict(name='admin', scopes=['admin', 'read', 'enqueue', 'execute']), local=True)
same(made.status, 201, 'a token')
s.token = made.json['token']
reader = s.post('/v1/tokens', dict(name='reader', scopes=['read'])).json['token']
brief = s.post('/v1/tokens', dict(name='brief', scopes=['read', 'enqueue'], expires='1s')).json['token']
gone = s.post('/v1/tokens', dict(name='gone', scopes=['read', 'enqueue'])).json['token']
same(s.ask('DELETE', '/v1/tokens/gone').status, 200, 'revoked')
until(lambda: s.get('/v1/tasks', token=brief).status == 401, seconds=20)


def strangers():
    tasks = lambda **more: s.post('/v1/tasks', dict(name='x'), **more)  # noqa: E731
    keep, s.token = s.token, None
    refused(tasks(), 401, 'unauthorized', text='no token')
    for value in ('Bearer', 'Bearer ', 'Basic eDp5', f'bearer{keep}', f'Bearer {keep}x', f'Bearer {keep[:-1]}', f'Bearer {keep.swapcase()}', 'Bearer ' + 'x' * 4000, f'Token {keep}'):
        answer = tasks(headers={'Authorization': value})
        problem(answer, 401, ['unauthorized'], text=f'Authorization: {value[:30].replace(keep[:8], "...")}')
    for name, token in (('expired', brief), ('revoked', gone)):
        refused(tasks(token=token), 401, 'unauthorized', text=f'an {name} token')
        refused(s.get('/v1/tasks', token=token), 401, 'unauthorized', text=f'an {name} token reads')
    for method, path, body in (('POST', '/v1/tasks', dict(name='x')), ('POST', f'/v1/tasks/{base}/cancel', {}), ('POST', '/v1/executors', dict(name='x', slots=1)), ('POST', '/v1/finishes', dict(items=[])),
                               ('POST', f'/v1/executors/{w.id}/poll', dict(free=1)), ('POST', '/v1/tokens', dict(name='y', scopes=['admin'])), ('GET', '/v1/tokens', None), ('POST', '/v1/lanes/all/pause', dict(reason='x'))):
        refused(s.ask(method, path, body, token=reader), 403, 'forbidden', text=f'scope read: {method} {path}')
    for path in ('/v1/tasks', '/metrics', '/openapi.json', '/v1/events', '/v1/nodes', '/v1/stats', f'/v1/tasks/{base}/log'):
        same((s.get(path).status, s.get(path, token=reader).status), (401, 200), f'{path} needs read')
    same((s.get('/healthz').status, s.get('/readyz').status), (200, 200), '/healthz and /readyz are open')
    same(s.get('/v1/tasks', local=True).status, 200, 'the socket stays open to its own user')
    ok('Bearer' in tasks().headers.get('WWW-Authenticate', ''), '401 says how')
    s.token = keep


unchanged(strangers)

# -- and what must be accepted
many = s.post('/v1/tasks', dict(tasks=[dict(name=f't{i}', queue='many', **({'depends': [f't{i - 1}']} if i % 10 else {})) for i in range(10000)]), timeout=100)
ok(many.status == 201 and len(many.json['tasks']) == 10000, '10,000 tasks in one call', str(many)[:300])
same([t['key']['name'] for t in many.json['tasks'][::1000]], [f't{i}' for i in range(0, 10000, 1000)], 'in the order sent')
edge = s.ask('POST', '/v1/tasks', b'{"name": "edge", "data": "' + b'x' * (31 * MIB) + b'"}', timeout=100)
ok(edge.status in (201, 422, 413), f'31 MiB to /v1/tasks: {edge.status}', str(edge)[:300])
same(s.post('/v1/tasks', dict(name='n', data=dict(deep=[[[[1.5, None, True, 'ä\U0001f600']]]], big=2 ** 53))).status, 201, 'ordinary data')
same(w.finish(grant).status, 200, 'and the attempt that saw all of it ends')
end()
