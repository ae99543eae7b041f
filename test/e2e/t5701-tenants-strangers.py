#!/usr/bin/env python3
# time limit: 150
"""A tenant against every route there is (src/api/route.def, read here, so that a new one can't be forgotten): an admin of another tenant, with the ids, keys, names
and fences of what isn't his, gets 403 or 404, learns no name, and changes nothing."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / 'test/lib'))
from house import Worker, end, ok, refused, same, until  # noqa: E402
from house import House  # noqa: E402
from tarballs import tarball  # noqa: E402
from voices import Voice, voice  # noqa: E402

server = House(slots=0, lease='10m')
site = Voice(server)
red, blue = voice(server, 'red', 'admin', name='hush-token'), voice(server, 'blue', 'admin')
grey = voice(server, 'default', 'read', 'enqueue')
ROUTES = re.findall(r'ROUTE\("(\w+)", "([^"]+)", (SCOPE_\w+), (\w+),', (ROOT / 'src/api/route.def').read_text())
ok(len(ROUTES) > 45, f'{len(ROUTES)} routes')

# -- what red has: names begin with hush, so that one that comes out is seen
WORKFLOW = {'workflow': {'semaphores': {'hush-sem': 2}, 'tasks': [{'name': 'hush-build', 'command': 'true', 'semaphores': ['hush-sem']},
                                                                  {'name': 'hush-nightly', 'command': 'true', 'schedule': 'H 3 * * *'}]}}
same(red.post('/v1/archives', dict(name='hush-archive', kind='external')).status, 201, 'red has an archive')
ok(red.post('/v1/archives/hush-archive/revisions', dict(rev=1, author='hush', message='hush', **WORKFLOW)).status in (201, 202), 'a revision')
worker = Worker(red, 'hush-exec', slots=3)
run = red.enqueue(dict(name='hush-run', queue='hush-queue', command='sleep', env={'HUSH': 'hush'}, priority=9, concurrency='hush-key', unique='hush-unique'))
grant = [g for g in worker.claim(free=1) if g['task'] == run['id']][0]
same(worker.log(grant, 0, b'hush log').status, 200, 'a log')
wait = red.enqueue(dict(name='hush-wait', queue='hush-queue', data=1, priority=9, concurrency='hush-key'))
done = red.enqueue(dict(name='hush-done', queue='hush-queue', command='true', priority=8))
ended = worker.claim(free=1)[0]
same(red.ask('POST', f'/v1/tasks/{ended["task"]}/artifacts/hush.txt?fence={ended["fence"]}&last=1', b'hush file').status, 200, 'an artifact')
kept = red.ask('POST', f'/v1/tasks/{ended["task"]}/artifacts/hush.txt?fence={ended["fence"]}&last=1', b'hush file').json
same(worker.finish(ended, exit=1, artifacts=[kept], outputs={'hush': 'hush'}).status, 200, 'and an end')
set_made = red.ask('POST', '/v1/changesets', tarball(files={'hush.txt': b'hush'}, target='hush-archive'))
same(set_made.status, 202, 'a change set')
grey_queue = grey.enqueue(dict(name='grey', queue='greyq', data=1))


def everything():
    """what red has, as red sees it, without what time alone changes"""
    told = {}
    for path in ('/v1/tasks?limit=1000', '/v1/lanes', '/v1/archives', '/v1/archives/hush-archive/revisions', '/v1/archives/hush-archive/revisions/1', '/v1/tokens',
                 '/v1/semaphores', '/v1/events?since=0', f'/v1/tasks/{run["id"]}/log', f'/v1/tasks/{done["id"]}/artifacts/hush.txt', '/v1/tenants', '/v1/stats'):
        told[path] = re.sub(rb'"seq":\d+,"turn":\d+(?=[,}])', b'', red.get(path).body)
    return told


NAMES = {'task': [str(run['id']), str(wait['id']), str(done['id']), 'hush-archive@1:hush-build', f'hush-queue:{wait["id"]}'], 'file': ['hush.txt'],
         'executor': [str(worker.id), 'hush-exec'], 'archive': ['hush-archive'], 'rev': ['1'], 'lane': ['hush-queue', 'hush-archive'], 'name': ['hush-token'],
         'csid': [set_made.json['csid'], str(set_made.json['task']), f'hush-archive:{set_made.json["csid"]}'], 'target': ['hush-archive']}
BODIES = {'/v1/tasks': dict(name='b', data=1, queue='other'), '/v1/executors': dict(name='other'),
          '/v1/archives': dict(name='other-archive', kind='external'), '/v1/tokens': dict(name='x', scopes=['read']), '/v1/prune': dict(older_than='1h', dry_run=True),
          '/v1/executors/{executor}/poll': dict(free=9, wait_ms=0, renew=[dict(task=run['id'], fence=grant['fence'])],
                                                finishes=[dict(task=run['id'], fence=grant['fence'], exit=0)]),
          '/v1/finishes': dict(items=[dict(task=run['id'], fence=grant['fence'], exit=0)]), '/v1/tasks/{task}/finish': dict(fence=grant['fence'], exit=0),
          '/v1/archives/{archive}/revisions': dict(rev=2, workflow=[]), '/v1/archives/{archive}/runs': dict(task='hush-build'),
          '/v1/archives/{archive}/skip': dict(rev=1, reason='r'), '/v1/rollbacks': dict(csids=[set_made.json['csid']]), '/v1/changesets/{csid}/approve': dict(ticket='hush'), '/v1/lanes/{lane}/pause': dict(reason='r'), '/v1/backup': dict(file='/tmp/never')}
OWN = {'/v1/lanes/{lane}/pause', '/v1/lanes/{lane}/resume'}  # a lane of that name is made, in one's own tenant


def paths(pattern):
    found = [pattern]
    for name in re.findall(r'\{(\w+)\}', pattern):
        if name not in NAMES:
            ok(False, f'{pattern}: say in NAMES what stands for {{{name}}}')
        found = [p.replace('{' + name + '}', n, 1) for p in found for n in NAMES.get(name, ['1'])]
    return found


def hostile(who, method, pattern, path, query=''):
    fence = f'fence={grant["fence"]}&offset=8' if pattern.endswith(('/log', '/artifacts/{file}')) and method == 'POST' else ''
    body = b'hostile' if fence else BODIES.get(pattern, {}) if method == 'POST' else None
    return who.ask(method, path + ('?' if fence or query else '') + '&'.join(x for x in (fence, query) if x), body)


def attack(who, name):
    before, bad, told, n = everything(), [], [], 0
    for method, pattern, _scope, _handler in ROUTES:
        for path in paths(pattern):
            n += 1
            answer = hostile(who, method, pattern, path)
            if '{' in pattern and answer.status not in (403, 404) and pattern not in OWN:
                bad.append((method, path, answer))
            if b'hush' in answer.body.replace(b'hush-archive', b'').replace(b'hush-queue', b'') and '{' not in pattern:
                told.append((method, path, answer))
    same(bad, [], f'{name}: {n} requests with what is red\'s: 403 or 404')
    same(told, [], f'{name}: no name of red\'s comes out')
    after = everything()
    same([p for p in before if before[p] != after[p]], [], f'{name}: nothing of red\'s has changed')


attack(blue, 'the admin of another tenant')
attack(grey, 'read and enqueue in default')

# -- naming the tenant: in a query, a header, a body: only the site's admin
before, bad = everything(), []
for method, pattern, scope, _handler in ROUTES:
    if scope == 'SCOPE_OPEN':
        continue
    for who, name in ((blue, 'blue'), (grey, 'grey')):
        path = paths(pattern)[0]
        for answer in (hostile(who, method, pattern, path, 'tenant=red'), who.ask(method, path, {} if method == 'POST' else None, {'Weir-Tenant': 'red'})):
            if answer.status != 403:
                bad.append((name, method, path, answer))
same(bad, [], 'tenant=red and Weir-Tenant: red: 403 everywhere')
refused(blue.post('/v1/tokens', dict(name='y', scopes=['admin'], tenant='red')), 403, 'forbidden', text='a token of red for blue')
refused(blue.post('/v1/tokens', dict(name='y', scopes=['admin'], tenant='default')), 403, 'forbidden', text='a token of default for blue')
refused(site.get('/v1/tasks?tenant=nobody'), 404, 'not_found', text='a tenant that isn\'t there')
refused(blue.post('/v1/lanes/all/pause', dict(reason='r')), 403, 'forbidden', text='everybody\'s pause by a tenant\'s admin')
refused(blue.get('/metrics'), 403, 'forbidden', text='the site\'s metrics for a tenant')
for path in ('/v1/verify',):
    refused(blue.get(path), 403, 'forbidden', text=path)
same(everything(), before, 'and red has what it had')
ok(b'hush' not in grey.get('/metrics').body and b'tenant="red",lane="hush-queue"' in site.get('/metrics').body, 'metrics: the site\'s admin sees red\'s lanes')

for kind, url in (('git', '/'), ('svn', '/srv'), ('svn', 'http://127.0.0.1:1/')):
    refused(blue.post('/v1/archives', dict(name='r', kind=kind, url=url)), 403, 'forbidden', text=f'a {kind} repository at {url} by a tenant\'s admin')

# -- the same names in two tenants are two things; references, unique and idempotency keys don't cross
theirs = blue.enqueue(dict(name='hush-run', queue='hush-queue', data=1, unique='hush-unique', concurrency='hush-key'))
ok(theirs['id'] != run['id'] and blue.state(theirs['id']) == 'P', 'the same queue, unique and concurrency key in blue: its own task, which isn\'t held up')
refused(blue.post('/v1/tasks', dict(name='d', data=1, depends=[run['id']])), 422, 'unknown_task', text='a task that depends on red\'s')
refused(blue.post('/v1/tasks', dict(name='d', data=1, after=['hush-archive@1:hush-build'])), 422, 'unknown_task', text='by its key too')
key = {'Idempotency-Key': 'hush'}
first, second = red.post('/v1/tasks', dict(name='i', queue='x', data=1), headers=key), blue.post('/v1/tasks', dict(name='i', queue='x', data=1), headers=key)
ok(first.status == second.status == 201 and first.json['id'] != second.json['id'], 'the same idempotency key in two tenants: two tasks')
same(blue.post('/v1/archives', dict(name='hush-ark', kind='external')).status, 201, 'an archive of blue\'s')
same(red.post('/v1/archives', dict(name='hush-ark', kind='external')).status, 201, 'and one of the same name of red\'s')
red.post('/v1/archives/hush-ark/revisions', dict(rev=1, workflow=[]))
ok(blue.get('/v1/archives/hush-ark').json['next'] == 1 and red.get('/v1/archives/hush-ark').json['next'] == 2, 'with its own revisions')
cause = blue.post('/v1/archives/hush-ark/revisions', dict(rev=1, workflow=[], cause=str(run['id'])))
ok(cause.status == 202 and b'cause' not in blue.get('/v1/archives/hush-ark/revisions/1').body, 'a cause that is red\'s is none')
same(server.cli('token', 'create', '--name', 'hush-token', '--scope', 'read', '--tenant', 'blue').code, 0, 'the same token name in another tenant')

# -- executors: one of a tenant gets only that tenant's tasks, one of default serves all; names are the site's
mine = Worker(blue, 'blue-exec', kinds=['data'])
got = mine.claim(free=10)
ok(got and all(blue.get(f'/v1/tasks/{g["task"]}').status == 200 for g in got), 'blue\'s executor gets blue\'s tasks', got)
same([red.get(f'/v1/tasks/{g["task"]}').status for g in got], [404] * len(got), 'and no other')
ok(grey_queue['id'] not in [g['task'] for g in got] and site.state(grey_queue['id']) == 'P', 'not default\'s either')
same(blue.post('/v1/executors', dict(name='hush-exec')).status, 201, 'the name of red\'s executor is free for blue, who doesn\'t learn of it')
everybody = Worker(site, 'everybody', kinds=['data'])
for g in got:
    mine.finish(g)
mixed = red.enqueue(dict(name='m', queue='hush-queue', data=1)), blue.enqueue(dict(name='m', queue='q', data=1))
served = []
until(lambda: served.extend(everybody.claim(free=10, wait_ms=500)) or {m['id'] for m in mixed} <= {g['task'] for g in served}, seconds=20)
ok({m['id'] for m in mixed} | {grey_queue['id']} <= {g['task'] for g in served}, 'an executor of default serves all', served)
same([everybody.finish(g).status for g in served], [200] * len(served), 'and reports their ends')

# -- a job's token stands in its task's tenant
token = grant['spec']['token']
job = Voice(server, token)
same(job.get(f'/v1/tasks/{run["id"]}').status, 200, 'a job sees its own task')
posted = job.enqueue(dict(name='child', queue='hush-queue', data=1))
same((red.get(f'/v1/tasks/{posted["id"]}').status, blue.get(f'/v1/tasks/{posted["id"]}').status), (200, 404), 'what it posts is its tenant\'s')

# -- the site's admin, who names the tenant
same(Voice(server, None, 'red').task(run['id'])['state'], 'X', '?tenant=red: the site\'s admin sees red\'s task')
same(server.cli('show', run['id'], '--tenant', 'red', '--json').code, 0, 'weir show --tenant red')
same(site.get(f'/v1/tasks/{run["id"]}').status, 404, 'and without it doesn\'t')
ok({t['tenant'] for t in site.get('/v1/tokens').json['tokens']} == {'red', 'blue', 'default'}, 'the site\'s admin lists all tokens')
same({t['tenant'] for t in blue.get('/v1/tokens').json['tokens']}, {'blue'}, 'a tenant its own')
same([e['subject'] for e in red.events() if e['kind'] == 'token'], ['hush-token'], 'red hears of its own tokens only')
same(server.cli('token', 'revoke', 'hush-token', '--tenant', 'red').code, 0, 'weir token revoke --tenant red')
until(lambda: red.get('/v1/tasks').status == 401, 'red\'s token is worth nothing now')
same(server.cli('list', '--tenant', 'red').code, 0, 'the site\'s admin still sees what red has')
same(server.cli('verify').code, 0, 'weir verify')
end()
