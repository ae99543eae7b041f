#!/usr/bin/env python3
"""Who may do what: tokens, scopes, expiry, revocation; socket and loopback by uid; foreign hosts and pages; guessing."""
import http.client
import os
import pathlib
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'unit/api'))
from serving import Server, end, ok, refused, same, until  # noqa: E402

s = Server()

# -- no token yet: the server's own user
same(s.get('/v1/stats').status, 200, 'loopback without a token, while none exists')
same(s.get('/v1/stats', local=True).status, 200, 'the socket')
ok(s.get('/v1/events').body.count(b'uid:') >= 0, 'events')
for host, status in [('localhost', 200), ('LOCALHOST:99', 200), ('127.0.0.1:1', 200), ('[::1]:1', 200), ('evil.example', 421), ('127.0.0.1.evil.example', 421), ('localhost.evil.example:80', 421)]:
    answer = s.get('/v1/stats', headers={'Host': host})
    ok(answer.status == status, f'Host {host}: {status}', answer)
refused(s.get('/v1/stats', headers={'Host': 'evil.example'}), 421, 'misdirected', text='a foreign Host')
refused(s.post('/v1/tasks', dict(name='a'), headers={'Origin': 'http://evil.example'}), 403, 'forbidden', text="another site's page")
same(s.post('/v1/tasks', dict(name='a'), headers={'Origin': f'http://127.0.0.1:{s.port}'}).status, 201, 'our own page')
if os.geteuid() == 0:
    code = ('import os,sys,http.client,encodings.idna; os.setgid(65534); os.setuid(65534); c=http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]));'
            'c.request("GET", "/v1/stats"); print(c.getresponse().status)')
    same(subprocess.run([sys.executable, '-c', code, str(s.port)], capture_output=True, text=True).stdout.strip(), '401', 'loopback is not for other users')
else:
    ok(True, 'loopback of other users # SKIP not root')
same(oct(os.stat(s.dir / 'weir.sock').st_mode & 0o777), '0o600', 'the socket is 0600')

# -- creating
answer = s.post('/v1/tokens', dict(name='admin', scopes=['admin']))
same(answer.status, 201, 'creating: 201')
admin = answer.json['token']
ok(admin.startswith('weir_') and len(admin) == 48, 'weir_ and 43 characters', admin)
same({k: answer.json[k] for k in ('name', 'scopes', 'expires')}, dict(name='admin', scopes=['admin'], expires=None), 'name, scopes, expires')
refused(s.get('/v1/stats'), 401, 'unauthorized', text='from now on loopback needs a token')
same(s.get('/v1/stats').headers['WWW-Authenticate'], 'Bearer realm="weir"', 'WWW-Authenticate')
same(s.get('/v1/stats', local=True).status, 200, 'the socket goes on without')
same((s.get('/healthz').status, s.get('/readyz').status), (200, 200), 'health stays open')
for path in ('/metrics', '/openapi.json', '/v1/events', '/nothing'):
    same(s.get(path).status, 401, f'{path} needs a token')
same(s.get('/v1/stats', token=admin, headers={'Host': 'weir.example'}).status, 200, 'with a token the name of the host is free')
tokens = {}
for scope in ('read', 'enqueue', 'execute'):
    tokens[scope] = s.post('/v1/tokens', dict(name=scope, scopes=[scope]), token=admin).json['token']
short = s.post('/v1/tokens', dict(name='short', scopes=['read'], expires='2s'), token=admin).json
ok(short['expires'] is not None, 'a token that expires', short)
refused(s.post('/v1/tokens', dict(name='read', scopes=['read']), token=admin), 409, 'name_taken', text='a name that is taken')

# -- the same key: the same answer, token and all; nothing but its hash is stored
key = {'Idempotency-Key': 'tok 1'}
first = s.post('/v1/tokens', dict(name='keyed', scopes=['read'], expires='90d'), token=admin, headers=key)
same(first.status, 201, 'with a key')
again = s.post('/v1/tokens', dict(name='keyed', scopes=['read'], expires='90d'), token=admin, headers=key)
same((again.status, again.json), (first.status, first.json), 'the same key and body: the first answer again')
same(s.get('/v1/stats', token=again.json['token']).status, 200, 'the token is good')
refused(s.post('/v1/tokens', dict(name='keyed', scopes=['admin'], expires='90d'), token=admin, headers=key), 422, 'idempotency_mismatch', text='same key, other body')
other = s.post('/v1/tokens', dict(name='keyed2', scopes=['read']), local=True, headers=key)
ok(other.status == 201 and other.json['token'] != first.json['token'], "somebody else's key is another one", other)
held = [p.name for p in s.dir.rglob('*') if p.is_file() and first.json['token'][5:].encode() in p.read_bytes()]
same(held, [], 'no file holds the token')
s.ask('DELETE', '/v1/tokens/keyed', token=admin), s.ask('DELETE', '/v1/tokens/keyed2', token=admin)
same(s.post('/v1/tokens', dict(name='keyed', scopes=['read'], expires='90d'), token=admin, headers=key).json, first.json, 'after it was revoked: the answer, as it was')
same(s.get('/v1/stats', token=first.json['token']).status, 401, 'but it opens nothing')

# -- scopes
calls = [('GET', '/v1/stats', None, 'read'), ('GET', '/v1/tasks', None, 'read'), ('GET', '/metrics', None, 'read'), ('POST', '/v1/tasks', dict(name='x'), 'enqueue'),
         ('POST', '/v1/executors', dict(name='e'), 'execute'), ('POST', '/v1/executors/e/poll', {}, 'execute'), ('GET', '/v1/tokens', None, 'admin'),
         ('POST', '/v1/lanes/default/resume', {}, 'admin'), ('GET', '/v1/verify', None, 'admin')]
for method, path, body, needed in calls:
    for scope, token in list(tokens.items()) + [('admin', admin)]:
        answer = s.ask(method, path, body, token=token)
        if scope in (needed, 'admin'):
            ok(answer.status in (200, 201), f'{method} {path} with {scope}: yes', answer)
        else:
            ok(answer.status == 403 and answer.code == 'forbidden' and needed in answer.json['detail'], f'{method} {path} with {scope}: 403, names {needed}', answer)
answer = s.post('/v1/tasks', dict(name='y'), token=tokens['enqueue'])
events = s.get(f'/v1/events?task={answer.json["id"]}', token=tokens['read']).body
ok(b'"actor":"token:enqueue"' in events, 'the actor is the token by name', events)

# -- bad tokens
for text, header in [('nothing', 'Bearer '), ('another scheme', 'Basic abc'), ('a wrong token', 'Bearer weir_' + 'A' * 43), ('half a token', 'Bearer ' + admin[:-1]),
                     ('one letter more', 'Bearer ' + admin + 'A'), ('other case', 'Bearer ' + admin.swapcase()), ('bytes', 'Bearer \xff\xfe')]:
    answer = s.get('/v1/stats', headers={'Authorization': header})
    refused(answer, 401, 'unauthorized', text=text)
same(len({s.get('/v1/stats', headers={'Authorization': f'Bearer {t}'}).body for t in ('x', 'weir_' + 'B' * 43)}), 1, 'no hint which')
refused(s.get('/v1/stats?access_token=' + admin), 400, 'bad_request', text='a token in the address')
refused(s.get('/v1/stats?x=' + admin), 400, 'bad_request', text='wherever it stands')

# -- the list, revocation, expiry
listed = s.get('/v1/tokens', token=admin)
same(sorted(t['name'] for t in listed.json['tokens']), ['admin', 'enqueue', 'execute', 'read', 'short'], 'the list')
ok(all(t not in listed.body.decode() for t in [admin, *tokens.values()]), 'shows no token')
stored = b''.join(p.read_bytes() for p in s.dir.iterdir() if p.is_file()) + s.log.read_bytes()
ok(all(t.encode() not in stored for t in [admin, *tokens.values()]), 'nor do files and logs')
same(s.ask('DELETE', '/v1/tokens/read', token=admin).status, 200, 'revoking')
refused(s.get('/v1/stats', token=tokens['read']), 401, 'unauthorized', text='a revoked token')
until(lambda: s.get('/v1/stats', token=short['token']).status == 401, 'an expired token is refused', seconds=30)
s.stop()
s.start()
same(s.get('/v1/stats', token=admin).status, 200, 'tokens survive a restart')
refused(s.get('/v1/stats', token=tokens['read']), 401, 'unauthorized', text='so does revocation')

# -- guessing
connection = http.client.HTTPConnection('127.0.0.1', s.port)
seen = set()
deadline = time.monotonic() + 20
while 429 not in seen and time.monotonic() < deadline:
    connection.request('GET', '/v1/stats', headers={'Authorization': 'Bearer weir_guess'})
    response = connection.getresponse()
    response.read()
    seen.add(response.status)
ok(seen == {401, 429}, 'who keeps guessing gets 429', seen)
same(s.get('/v1/stats', token=admin).status, 200, 'others are not affected')
connection.close()
for name in ('admin', 'enqueue', 'execute', 'short'):
    s.ask('DELETE', f'/v1/tokens/{name}', local=True)
same(s.get('/v1/stats').status, 200, 'no token is left: loopback is open again')
end()
