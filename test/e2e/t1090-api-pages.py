#!/usr/bin/env python3
"""Lists come in pages: queues, executors, semaphores, tokens, nodes, tenants; bad cursors. Polls by numbers that nobody has leave nothing behind."""
import http.client
import json
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'unit/api'))
from serving import Server, end, ok, refused, same  # noqa: E402

s = Server()
N = 7
for i in range(N):
    s.post('/v1/tasks', dict(name='t', queue=f'queue-{i}', semaphores=[f'sem-{i}'], concurrency=f'key-{i}', data={'i': i}))
    s.post('/v1/executors', dict(name=f'executor-{i}', slots=1, kinds=['data']))
for i in range(N):
    s.post('/v1/tokens', dict(name=f'token-{i}', scopes=['read']), local=True)
s.post('/v1/archives', dict(name='docs', kind='external'), local=True)
s.post('/v1/archives', dict(name='gone', kind='external'), local=True)
s.ask('DELETE', '/v1/archives/gone', local=True)


def pages(path, name, limit):
    """All items by pages, and how many pages there were."""
    items, n, cursor = [], 0, ''
    while n < 100:
        page = s.get(f'{path}?limit={limit}{cursor}', local=True).json
        assert len(page[name]) <= limit, page
        items, n = items + page[name], n + 1
        if page['next'] is None:
            return [item['name'] for item in items], n
        cursor = f'&cursor={page["next"]}'
    return None, n


for path, name, prefix in (('/v1/lanes', 'lanes', 'queue-'), ('/v1/executors', 'executors', 'executor-'), ('/v1/semaphores', 'semaphores', 'sem-'),
                           ('/v1/tokens', 'tokens', 'token-')):
    whole = [item['name'] for item in s.get(path, local=True).json[name]]
    ok(all(f'{prefix}{i}' in whole for i in range(N)) and s.get(path, local=True).json['next'] is None, f'{path}: all of them at once', whole)
    ok(len(whole) == len(set(whole)) and not any('/' in item for item in whole) and 'gone' not in whole, f'{path}: each once', whole)
    for limit in (1, 3, len(whole), len(whole) + 1):
        items, n = pages(path, name, limit)
        same(items, whole, f'{path}: by {limit}, in the same order')
        ok(n <= -(-(len(whole) + 1) // limit), f'{path}: by {limit}, no page more than there are', n)
    same(s.get(f'{path}?limit=1000000', local=True).status, 200, f'{path}: a larger limit is the largest')
    for bad in ('cursor=', 'cursor=x', 'cursor=-1', 'cursor=1.5', 'cursor=99999999999999999999', 'limit=0', 'limit=-1', 'limit=x', 'limit='):
        refused(s.get(f'{path}?{bad}', local=True), 400, 'bad_request', text=f'{path}?{bad}')
    same(s.get(f'{path}?cursor={2 ** 63 - 1 if name != "tokens" else 0}', local=True).json, {name: [], 'next': None}, f'{path}: behind the last')

# -- nodes: servers by name, then executors; tenants by name. Their cursors are other ones
same(s.post('/v1/config', dict(text=json.dumps(dict(tenants={f'tenant-{i:04}': {} for i in range(N)}))), local=True).status, 200, 'some tenants')
for path, name, bads, behind in (
        ('/v1/nodes', 'nodes', ('cursor=', 'cursor=x', 'cursor=-1', 'cursor=1.5', 'cursor=server.', 'limit=0', 'limit=x'), str(2 ** 63 - 1)),
        ('/v1/tenants', 'tenants', ('cursor=', 'cursor=a%20b', 'cursor=%2F', 'limit=0', 'limit=x'), 'zz')):
    whole = [item['name'] for item in s.get(path, local=True).json[name]]
    ok(len(whole) == N + 1 and len(set(whole)) == N + 1 and s.get(path, local=True).json['next'] is None, f'{path}: all of them at once', whole)
    for limit in (1, 2, 3, len(whole), len(whole) + 1):
        items, n = pages(path, name, limit)
        same(items, whole, f'{path}: by {limit}, in the same order')
        ok(n <= -(-(len(whole) + 1) // limit), f'{path}: by {limit}, no page more than there are', n)
    for bad in bads:
        refused(s.get(f'{path}?{bad}', local=True), 400, 'bad_request', text=f'{path}?{bad}')
    page = s.get(f'{path}?cursor={behind}', local=True).json
    same((page[name], page['next']), ([], None), f'{path}: behind the last')
first = s.get('/v1/nodes?limit=1', local=True).json
same((first['nodes'][0]['role'], first['next']), ('server', f'server.{first["nodes"][0]["name"]}'), 'a page of nodes that ends among the servers')
same([n['role'] for n in s.get('/v1/nodes?cursor=server.zz', local=True).json['nodes']], ['executor'] * N, 'a server that is gone is led on from')
same([t['name'] for t in s.get('/v1/tenants?tenant=tenant-0003&limit=1', local=True).json['tenants']], ['tenant-0003'], 'one tenant by name')

# -- the program follows them: more than a page of executors and tenants
s.post('/v1/config', dict(text=json.dumps(dict(tenants={f'tenant-{i:04}': {} for i in range(1000)}))), local=True)
voice = http.client.HTTPConnection('127.0.0.1', s.port)
worker = s.post('/v1/tokens', dict(name='registers', scopes=['execute']), local=True).json['token']
for i in range(1100):
    voice.request('POST', '/v1/executors', json.dumps(dict(name=f'many-{i}', slots=1, kinds=['data'])), {'Authorization': f'Bearer {worker}', 'Content-Type': 'application/json'})
    answer = voice.getresponse()
    answer.read()
    assert answer.status == 201, answer.status
for command, wanted in (('nodes', [f'many-{i}' for i in range(1100)]), ('tenants', [f'tenant-{i:04}' for i in range(1000)])):
    run = subprocess.run([os.environ['WEIR'], command, '--json', '--server', f'unix:{s.dir / "weir.sock"}'], capture_output=True, text=True)
    names = [item['name'] for item in json.loads(run.stdout)]
    same([name for name in names if name in set(wanted)], wanted, f'weir {command}: all pages')
whole = s.get('/v1/nodes', local=True).json
same((len(whole['nodes']), whole['next'] is None), (1000, False), 'and a page has a thousand at most')

# -- the program follows them: more than a page of queues
same(s.post('/v1/tasks', dict(tasks=[dict(name=f't{i}', queue=f'many-{i}') for i in range(1500)]), local=True).status, 201, '1,500 queues')
run = subprocess.run([os.environ['WEIR'], 'status', '--json', '--server', f'unix:{s.dir / "weir.sock"}'], capture_output=True, text=True)
ok(all(f'many-{i}"' in run.stdout for i in (0, 999, 1000, 1499)), 'weir status: all queues', run.returncode, run.stderr[:300], run.stdout[-300:])

# -- numbers that nobody has


def known():
    return int([line for line in s.get('/metrics', local=True).body.decode().split('\n') if line.startswith('weir_polls_known ')][0].split()[1])


before, statuses = known(), set()
token = s.post('/v1/tokens', dict(name='worker', scopes=['execute']), local=True).json['token']
connection = http.client.HTTPConnection('127.0.0.1', s.port)
for i in range(2000):
    connection.request('POST', f'/v1/executors/{10 ** 6 + i}/poll', json.dumps(dict(free=1, wait_ms=0, renew=[])),
                       {'Authorization': f'Bearer {token}', 'Content-Type': 'application/json'})
    answer = connection.getresponse()
    answer.read()
    statuses.add(answer.status)
same(statuses, {404}, 'polls of executors that there are not')
same(known(), before, 'leave nothing behind')
end()
