#!/usr/bin/env python3
"""Tasks over HTTP: created, listed, shown, cancelled, retried, promoted, explained, drawn; the same call twice."""
import json
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'unit/api'))
from serving import Server, Worker, end, ok, refused, same, until  # noqa: E402

s = Server()
RFC3339 = re.compile(r'^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$')

# -- creating
a = s.post('/v1/tasks', dict(name='a', command='echo "hello world"'))
same(a.status, 201, 'one task: 201')
task = a.json
same({k: task[k] for k in ('key', 'state', 'word', 'priority', 'attempts', 'depends', 'after', 'cancels', 'outputs')},
     dict(key=dict(queue='default', name='a'), state='P', word='pending', priority=0, attempts=[], depends=[], after=[], cancels=[], outputs={}),
     'the answer is the task')
ok(RFC3339.match(task['created']) and task['started'] is None and task['finished'] is None, 'times are RFC 3339 with milliseconds, or null', task)
read = s.get(f'/v1/tasks/{task["id"]}')
same({k: v for k, v in read.json.items() if k != 'spec'}, task, 'what was answered is what is read')
same(read.json['spec'], dict(command=['echo', 'hello world']), 'a command line is split by shell rules')
many = s.post('/v1/tasks', dict(tasks=[
    dict(name='x', queue='q'), dict(name='y', queue='q', command=['true'], depends=['x', task['id']]),
    dict(name='z', queue='q', command='true', after=[dict(task='y')], depends=[dict(task='x', on='finished')])]))
same(many.status, 201, 'many tasks: 201')
x, y, z = many.json['tasks']
same([t['key']['name'] for t in (x, y, z)], ['x', 'y', 'z'], 'in the order sent')
ok(x['id'] < y['id'] < z['id'], 'ids grow')
same(x['state'], 'D', 'a task without anything to run is done as soon as it is ready')
same(y['depends'], [dict(id=x['id'], key=f'q:{x["id"]}', on='success'), dict(id=task['id'], key=f'default:{task["id"]}', on='success')], 'depends by name and id')
same((sorted(e['id'] for e in z['after']), z['depends']), ([x['id'], y['id']], []), 'depends on finished is an after edge')
same(s.post('/v1/tasks', dict(tasks=[dict(name='only')])).json['tasks'][0]['key']['name'], 'only', 'a list of one gives a list')
same(s.post('/v1/tasks', dict(name='d', data={'n': [1.5, None]})).json['state'], 'P', 'data for workers')

# -- reading
same(s.get(f'/v1/tasks/q:{y["id"]}').json['id'], y['id'], 'by key')
same(s.get(f'/v1/tasks/q%3A{y["id"]}').json['id'], y['id'], 'by key, percent-encoded')
refused(s.get(f'/v1/tasks/default:{y["id"]}'), 404, 'not_found', text='the right id in the wrong queue')
refused(s.get('/v1/tasks/999999'), 404, 'not_found', text='no such task')
refused(s.get('/v1/tasks/nobody'), 404, 'not_found', text='no such key')
for bad in ('-1', '99999999999999999999', "1'OR'1'='1", 'a:b:c', '@'):
    answer = s.get(f'/v1/tasks/{bad}')
    ok(answer.status == 400 and answer.code == 'bad_request', f'{bad!r} can be no key: 400', answer)

# -- listing
listed = s.get('/v1/tasks').json
ok([t['id'] for t in listed['tasks']] == sorted((t['id'] for t in listed['tasks']), reverse=True) and listed['next'] is None, 'newest first', listed)
same([t['id'] for t in s.get('/v1/tasks?queue=q').json['tasks']], [z['id'], y['id'], x['id']], 'filter queue')
same([t['id'] for t in s.get('/v1/tasks?queue=q&state=DS').json['tasks']], [z['id'], y['id'], x['id']], 'filter state, several letters')
same([t['id'] for t in s.get('/v1/tasks?queue=q&state=D').json['tasks']], [x['id']], 'filter state')
same([t['id'] for t in s.get('/v1/tasks?name=y').json['tasks']], [y['id']], 'filter name')
same(s.get('/v1/tasks?queue=none').json['tasks'], [], 'a queue that is not there is empty')
same(s.get('/v1/tasks?archive=none&rev=5').json['tasks'], [], 'archive and rev are filters')
pages, cursor = [], ''
for _ in range(20):
    page = s.get('/v1/tasks?limit=2' + cursor).json
    pages += [t['id'] for t in page['tasks']]
    if page['next'] is None:
        break
    cursor = f'&cursor={page["next"]}'
same(pages, [t['id'] for t in listed['tasks']], 'pages of two add up to the whole')
for query, path in [('limit=0', 'limit'), ('limit=-1', 'limit'), ('limit=18446744073709551616', 'limit'), ('limit=x', 'limit'), ('cursor=-5', 'cursor'),
                    ("cursor=1;drop", 'cursor'), ('state=Y', 'state'), ('rev=0', 'rev'), ('queue=a%20b', 'queue'), ('nam=x', 'nam'), ('queue=a&archive=b', 'queue')]:
    refused(s.get('/v1/tasks?' + query), 400, 'bad_request', path, query)
same(s.get('/v1/tasks?nam=x').json['errors'][0]['suggestion'], "did you mean 'name'?", 'a misspelt filter gets a suggestion')

s.post('/v1/tasks', dict(tasks=[dict(name=f'n{i}', queue='many') for i in range(1100)]))
for query in ('', '&limit=1000', '&limit=5000'):
    page = s.get('/v1/tasks?queue=many' + query).json
    same((len(page['tasks']), page['next'] is not None), (1000, True), f'a page has at most 1000{query}')
    same(len(s.get(f'/v1/tasks?queue=many{query}&cursor={page["next"]}').json['tasks']), 100, 'and the rest')

# -- cancelling, retrying, promoting
answer = s.post(f'/v1/tasks/{task["id"]}/cancel', dict(reason='not needed'))
ok(answer.status == 200 and answer.json['state'] == 'T' and answer.json['reason'] == 'not needed', 'cancel: T with the reason', answer)
same(s.state(y['id']), 'F', 'what depends on it fails')
same(s.task(y['id'])['cause'], f'default:{task["id"]}', 'with the cause')
refused(s.post(f'/v1/tasks/{task["id"]}/cancel', {}), 409, 'already_ended', text='cancel of an ended task')
refused(s.post('/v1/tasks/999999/cancel', {}), 404, 'not_found', text='cancel of nothing')
answer = s.post(f'/v1/tasks/{task["id"]}/retry')
ok(answer.status == 200 and answer.json['state'] == 'P', 'retry: P again', answer)
same(s.state(y['id']), 'S', 'and its dependents wait again')
ok(s.post(f'/v1/tasks/{task["id"]}/retry').status == 409, 'retry of a task that has not ended: 409')
refused(s.post(f'/v1/tasks/{task["id"]}/retry', dict(force=True)), 422, 'invalid', '/reason', 'force without a reason')
refused(s.post(f'/v1/tasks/{task["id"]}/cancel', dict(raeson='x')), 422, 'invalid', '/raeson', 'an unknown field')
refused(s.post(f'/v1/tasks/{task["id"]}/cancel', dict(reason=5)), 422, 'invalid', '/reason', 'a reason that is no text')
s.post('/v1/tasks', dict(tasks=[dict(name=f'p{i}', queue='prom', data=i) for i in range(3)]))
last = s.get('/v1/tasks?queue=prom&name=p2').json['tasks'][0]['id']
answer = s.post(f'/v1/tasks/{last}/promote', dict(reason='now'))
same(answer.status, 200, 'promote: 200')
w = Worker(s, 'promoter', kinds=['data'])
s.post(f'/v1/tasks/{s.get("/v1/tasks?name=d").json["tasks"][0]["id"]}/cancel', {})
same(w.claim()[0]['task'], last, 'a promoted task comes first')

# -- why and graph
same(s.get(f'/v1/tasks/{y["id"]}/why').json['verdict'], 'never', 'why: nobody here runs commands')
Worker(s, 'commands', kinds=['command'])
why = s.get(f'/v1/tasks/{y["id"]}/why').json
same((why['id'], why['key'], why['state'], why['verdict']), (y['id'], f'q:{y["id"]}', 'S', 'waiting'), 'why: who and what')
ok([c['kind'] for c in why['conditions']] == ['dependency'] and why['conditions'][0]['holder'] == f'default:{task["id"]}', 'why: the dependency is named', why)
same(s.get(f'/v1/tasks/{x["id"]}/why').json['verdict'], 'ended', 'why of an ended task')
lonely = s.post('/v1/tasks', dict(name='l', command='true', labels=dict(os='plan9'))).json
ok(s.get(f'/v1/tasks/{lonely["id"]}/why').json['verdict'] == 'never', 'why: no executor can ever run it')
late = s.post('/v1/tasks', dict(name='n', command='true', not_before='2099-01-01T00:00:00Z')).json
condition = s.get(f'/v1/tasks/{late["id"]}/why').json['conditions'][0]
same((condition['kind'], condition['until']), ('not_before', '2099-01-01T00:00:00.000Z'), 'why: not_before with its time')
graph = s.get(f'/v1/tasks/{y["id"]}/graph').json
same(sorted(t['id'] for t in graph['tasks']), sorted([task['id'], x['id'], y['id'], z['id']]), 'graph: the connected tasks')
same(sorted((e['from'], e['to'], e['kind']) for e in graph['edges']),
     sorted([(f'q:{y["id"]}', f'q:{x["id"]}', 'depends'), (f'q:{y["id"]}', f'default:{task["id"]}', 'depends'), (f'q:{z["id"]}', f'q:{y["id"]}', 'after'),
             (f'q:{z["id"]}', f'q:{x["id"]}', 'after')]), 'graph: the edges, each once')
for path in ('why', 'graph', 'log'):
    refused(s.get(f'/v1/tasks/999999/{path}'), 404, 'not_found', text=f'{path} of nothing')
chain = [dict(name='c0', data=0)] + [dict(name=f'c{i}', data=i, depends=[f'c{i - 1}']) for i in range(1, 6000)]
first = s.post('/v1/tasks', dict(tasks=chain)).json['tasks'][0]['id']
graph = s.get(f'/v1/tasks/{first}/graph').json
same((len(graph['tasks']), graph['truncated']), (5000, True), 'graph: at most 5,000 tasks, and it says so')

# -- allow_failure: what depends on it, in the same call, goes on when it fails; `on: success` still means that
loose = s.post('/v1/tasks', dict(tasks=[dict(name='loose', queue='lq', data=1, allow_failure=True), dict(name='goes', queue='lq', data=1, depends=['loose']),
                                        dict(name='strict', queue='lq', data=1, depends=[dict(task='loose', on='success')])]))
same(loose.status, 201, 'allow_failure in a posted task')
loose, goes, strict = (t['id'] for t in loose.json['tasks'])
s.post(f'/v1/tasks/{loose}/cancel', dict(reason='as good as failed'))
same((s.state(loose), s.state(goes), s.state(strict)), ('T', 'P', 'F'), 'its failure is allowed to whom it was not said otherwise')


def uniques():
    return [e for e in map(json.loads, s.get('/v1/events').body.splitlines()) if e['kind'] == 'unique']


# -- unique
u1 = s.post('/v1/tasks', dict(name='u', queue='uq', data=1, unique='{archive}/{name}'))
u2 = s.post('/v1/tasks', dict(name='u', queue='uq', data=2, unique='{archive}/{name}'))
ok(u1.json['id'] == u2.json['id'] and u2.status in (200, 201), 'a second task with the same unique key is the first one', u2)
same((u2.status, 'existing' in u1.json, u2.json.get('existing')), (200, False, True), 'and the answer says that it was there')
ok([e['reason'] for e in uniques() if e['task'] == u1.json['id']] ==
   ["u of queue uq was not made: this task has its unique key 'uq/u'"], 'so does its history', uniques())
mixed = dict(tasks=[dict(name='v', queue='uq', data=1, unique='{archive}/u'), dict(name='w', queue='uq', data=1), dict(name='v2', queue='uq', data=1, unique='{archive}/u')])
for text in ('some there, some new', 'the same call again'):
    answer = s.post('/v1/tasks', mixed, headers={'Idempotency-Key': 'mixed'})
    same((answer.status, [(t['id'] == u1.json['id'], t.get('existing')) for t in answer.json['tasks']]), (201, [(True, True), (False, None), (True, True)]), text)
same('existing' in s.task(u1.json['id']), False, 'it is said in the answer to a post only')
same(len(uniques()), 3, 'what was answered again is no event')

# -- the same call twice
body = dict(name='idem', data=1)
one = s.post('/v1/tasks', body, headers={'Idempotency-Key': 'k 1'})
two = s.post('/v1/tasks', body, headers={'Idempotency-Key': 'k 1'})
same((one.status, two.status, one.json['id']), (201, 201, two.json['id']), 'same key and body: the first answer again')
s.post(f'/v1/tasks/{one.json["id"]}/cancel', dict(reason='r'))
same(s.post('/v1/tasks', body, headers={'Idempotency-Key': 'k 1'}).json['state'], 'T', 'with the fields as they are now')
refused(s.post('/v1/tasks', dict(name='idem', data=2), headers={'Idempotency-Key': 'k 1'}), 422, 'idempotency_mismatch', text='same key, other body')
both = dict(tasks=[dict(name='i1', data=1), dict(name='i2', data=1)])
ids = [[t['id'] for t in s.post('/v1/tasks', both, headers={'Idempotency-Key': 'many'}).json['tasks']] for _ in range(2)]
same(ids[0], ids[1], 'many tasks under one key')
for bad in ('x' * 256, 'ü'.encode().decode('latin-1')):
    answer = s.post('/v1/tasks', body, headers={'Idempotency-Key': bad})
    refused(answer, 400, 'bad_request', 'Idempotency-Key', f'an idempotency key of {len(bad)} characters')
before = s.get('/v1/events').body.count(b'\n')
ok(before > 0 and s.stop() == 0, 'SIGTERM ends it with 0')
s.start()
same(s.post('/v1/tasks', both, headers={'Idempotency-Key': 'many'}).json['tasks'][0]['id'], ids[0][0], 'the key is known after a restart')
same({e['id'] for e in s.task(y['id'])['depends']}, {x['id'], task['id']}, 'so are the tasks')
until(lambda: s.get('/readyz').status == 200, 'ready')
end()
