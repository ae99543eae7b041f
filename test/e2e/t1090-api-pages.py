#!/usr/bin/env python3
"""Lists come in pages: queues, executors, semaphores, tokens; bad cursors. Polls by numbers that nobody has leave nothing behind."""
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
