#!/usr/bin/env python3
"""Revisions of an external archive: in any order, twice, behind a gap; workflows judged before anything is recorded; shown with tasks and edges."""
import json
import os
import pathlib
import random
import sys

sys.path.insert(0, os.environ.get('WEIR_TEST_LIB') or str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
from house import House, Worker, end, ok, refused, same, until

s = House('data', slots=0)
A = '/v1/archives'
ARK = [dict(name='indexing', depends=['PREV']), dict(name='build-PDF', depends=['indexing'], cancels=['PREV'], command='make pdf')]


def post(rev, archive='docs', **more):
    return s.post(f'{A}/{archive}/revisions', dict(rev=rev, **more))


def rev(n, archive='docs'):
    return s.get(f'{A}/{archive}/revisions/{n}').json


def states(n, archive='docs'):
    return {t['key']['name']: t['state'] for t in rev(n, archive)['tasks']}


def edges(n, archive='docs'):
    return {(e['from'], e['kind'], e['to']) for e in rev(n, archive)['edges']}


s.post(A, dict(name='docs', kind='external'))

# -- one, and the same again
first = post(1, author='ann', message='begin\nand more', txn='0-1', time='2026-11-15T01:02:03.004Z', workflow=ARK)
same(first.status, 202, 'a revision: 202')
same({k: first.json[k] for k in ('archive', 'rev', 'author', 'message', 'txn', 'time', 'depth')},
     dict(archive='docs', rev=1, author='ann', message='begin\nand more', txn='0-1', time='2026-11-15T01:02:03.004Z', depth=0), 'it is told back')
seq = s.events()[-1]['seq']
again = post(1, author='ann', message='begin\nand more', txn='0-1', time='2026-11-15T01:02:03.004Z', workflow=ARK)
same((again.status, again.json), (200, first.json), 'again: 200, the same body')
same((post(1).status, post(1).json), (200, first.json), 'again, with less in it: the first one counts')
same(s.events()[-1]['seq'], seq, 'repetitions record nothing')
one = rev(1)
same([t['key']['name'] for t in one['tasks']], ['COMMIT', 'indexing', 'build-PDF'], 'COMMIT and its tasks')
same(one['tasks'][1]['key'], dict(archive='docs', rev=1, name='indexing'), 'keys as objects')
same((one['state'], one['prev'], one['author']), ('known', [], 'ann'), 'the first has no previous one')
same([(f['name'].endswith('.json'), json.loads(f['text'])) for f in one['definition']], [(True, ARK)], 'the definition as of the revision')
same(edges(1), {('docs@1:indexing', 'depends', 'docs@1:COMMIT'), ('docs@1:build-PDF', 'depends', 'docs@1:indexing')}, 'its edges')
same(states(1), dict(COMMIT='D', indexing='D', **{'build-PDF': 'P'}), 'what needs no executor is done')

# -- a key of its own
s.post(A, dict(name='keyed', kind='external'))
key = {'Idempotency-Key': 'rev 1'}
answers = [s.post(f'{A}/keyed/revisions', dict(rev=1, message='k'), headers=key) for _ in range(2)]
same((answers[1].status, answers[1].json), (answers[0].status, answers[0].json), 'with an Idempotency-Key: the first answer again')
refused(s.post(f'{A}/keyed/revisions', dict(rev=2, message='k'), headers=key), 422, 'idempotency_mismatch', text='same key, other body')
refused(s.post(f'{A}/keyed/revisions', dict(rev=2), headers={'Idempotency-Key': 'x' * 256}), 400, 'bad_request', 'Idempotency-Key', 'a key of 256 characters')

# -- 3 before 2: it waits, in Q, and why says for what
seq = s.events()[-1]['seq']
three = post(3, author='bob', message='three', workflow=ARK)
same(three.status, 202, 'one behind a gap: 202')
same((rev(3)['state'], set(states(3).values()), rev(3)['edges']), ('waiting', {'Q'}, []), 'its tasks stand in Q')
why = s.get('/v1/tasks/docs@3:indexing/why').json
gap = why['conditions'][0]
ok(why['verdict'] == 'waiting' and gap['kind'] == 'gap' and 'revision 2' in gap['detail'] and gap['holder'] == 'docs@2', 'why: a gap, which names the first missing one', why)
ok('post revision 2' in gap['remedy'] and 'weir archive skip docs 2' in gap['remedy'], 'and what would lift it', gap)
same(post(5).status, 202, 'another gap behind it')
gap = s.get('/v1/tasks/docs@5:COMMIT/why').json['conditions'][0]
ok('revision 2 of docs is missing, and so is 4:' in gap['detail'] and 'post revision 2 and the others' in gap['remedy'], 'why: all that are missing', gap)
ok('revision 2' in s.get('/v1/tasks/docs@5:COMMIT/why').json['conditions'][0]['detail'], 'the first missing one is named there too')
two = post(2, author='ann', message='two', workflow=ARK)
same(two.status, 202, 'the missing one')
same(states(2)['COMMIT'] + states(3)['COMMIT'], 'DD', 'both are initialised now')
same(states(5)['COMMIT'], 'Q', 'what is behind the next gap still waits')
same((post(3).status, post(3).json), (200, three.json), 'again after it was initialised: the same body still')
same(edges(3), {('docs@3:COMMIT', 'after', 'docs@2:COMMIT'), ('docs@3:indexing', 'depends', 'docs@3:COMMIT'), ('docs@3:indexing', 'after', 'docs@2:indexing'),
                ('docs@3:build-PDF', 'depends', 'docs@3:indexing'), ('docs@3:build-PDF', 'cancels', 'docs@2:build-PDF')}, 'edges of 3, as the document draws them')
same((states(1)['build-PDF'], states(2)['build-PDF'], states(3)['build-PDF']), ('A', 'A', 'P'), 'each build was superseded by the next')
moves = [(e['key'], e['to']) for e in s.events() if e['kind'] == 'move' and e['to'] == 'D']
ok(moves.index(('docs@2:COMMIT', 'D')) < moves.index(('docs@3:COMMIT', 'D')), 'in the order of revisions', moves)
same(post(4).status, 202, 'and 4')
same(states(5)['COMMIT'], 'D', '5 goes on')

# -- the list
page = s.get(f'{A}/docs/revisions?limit=2').json
same([r['rev'] for r in page['revisions']], [5, 4], 'newest first')
rest = s.get(f'{A}/docs/revisions?limit=2&cursor={page["next"]}').json
same([r['rev'] for r in rest['revisions']], [3, 2], 'and further')
same([r['message'] for r in rest['revisions']], ['three', 'two'], 'with messages')
last = s.get(f'{A}/docs/revisions?cursor={rest["next"]}').json
same(([r['rev'] for r in last['revisions']], last['next']), ([1], None), 'to the end')
for query in ('limit=0', 'limit=-1', 'limit=x', 'cursor=0', 'cursor=-1', 'colour=red'):
    same(s.get(f'{A}/docs/revisions?{query}').status, 400, f'revisions?{query}: 400')
for n, status in [('6', 404), ('0', 400), ('-1', 400), ('x', 400), ('99999999999999999999', 400), ('1.0', 400), ('HEAD', 400)]:
    same(s.get(f'{A}/docs/revisions/{n}').status, status, f'revision {n}: {status}')
refused(s.get(f'{A}/none/revisions'), 404, 'not_found', text='no such archive')
refused(s.get(f'{A}/none/revisions/1'), 404, 'not_found', text='nor its revisions')
refused(s.get(f'{A}/docs/revisions/1/tree'), 404, 'not_found', text='an external archive has no files')
ok('youngest is 5' in s.get(f'{A}/docs/revisions/6').json['detail'], 'which is the youngest is said')

# -- bad ones: nothing is recorded
s.post(A, dict(name='bad', kind='external'))
mark = s.events()[-1]['seq']
for body, path, text in [
        ({}, '/rev', 'no rev'), (dict(rev=0), '/rev', 'rev 0'), (dict(rev=-1), '/rev', 'rev -1'), (dict(rev='1'), '/rev', 'rev as text'), (dict(rev=1.5), '/rev', 'rev 1.5'),
        (dict(rev=None), '/rev', 'rev null'), (dict(rev=1, author=7), '/author', 'an author that is a number'), (dict(rev=1, author='x' * 1001), '/author', 'a long author'),
        (dict(rev=1, message='x' * 65537), '/message', 'a long message'), (dict(rev=1, txn='x' * 101), '/txn', 'a long txn'), (dict(rev=1, time='yesterday'), '/time', 'no time'),
        (dict(rev=2, prev=[]), '/prev', 'no prev at all'), (dict(rev=2, prev=[2]), '/prev/0', 'itself as prev'), (dict(rev=2, prev=3), '/prev', 'a later one as prev'),
        (dict(rev=2, prev=[0]), '/prev/0', 'prev 0'), (dict(rev=3, prev=[1, 1]), '/prev/1', 'the same prev twice'), (dict(rev=2, prev='1'), '/prev', 'prev as text'),
        (dict(rev=100, prev=list(range(1, 66))), '/prev', '65 of them'), (dict(rev=1, cause='not a key'), '/cause', 'a cause that is no key'), (dict(rev=1, cause='docs@1'), '/cause', 'a cause that is a revision'),
        (dict(rev=1, touched='a'), '/touched', 'touched as text'), (dict(rev=1, touched=['/a']), '/touched/0', 'a path with a slash before'), (dict(rev=1, touched=['a', 7]), '/touched/1', 'a path that is a number'),
        (dict(rev=1, touched=['a'] * 1001), '/touched', '1,001 paths'), (dict(rev=1, colour='red'), '/colour', 'an unknown field'),
        (dict(rev=1, workflow='- name: a'), '/workflow', 'YAML as text'), (dict(rev=1, workflow=7), '/workflow', 'a number'), (dict(rev=1, workflow=[7]), '/workflow/0', 'a task that is a number'),
        (dict(rev=1, workflow=[dict(command='x')]), '/workflow/0', 'a task without a name'), (dict(rev=1, workflow=[dict(name='a b')]), '/workflow/0/name', 'a bad name'),
        (dict(rev=1, workflow=[dict(name='PREV')]), '/workflow/0/name', 'a reserved name'), (dict(rev=1, workflow=[dict(name='a', comand='x')]), '/workflow/0/comand', 'an unknown key'),
        (dict(rev=1, workflow=[dict(name='a', depends=['b'])]), '/workflow/0/depends/0', 'an unknown task'), (dict(rev=1, workflow=[dict(name='a'), dict(name='a')]), '/workflow/1/name', 'the same name twice'),
        (dict(rev=1, workflow=dict(tasks=[dict(name='a', timeout='1')])), '/workflow/tasks/0/timeout', 'a duration without a unit'),
        (dict(rev=1, workflow=dict(jobs={'x/y': dict(command='a')})), '/workflow/jobs/x~1y', 'a bad name as a key'),
        (dict(rev=1, workflow=[dict(name='a', depends=[dict(task='b', on='never')]), dict(name='b')]), '/workflow/0/depends/0/on', 'a bad condition'),
        (dict(rev=1, workflow=[dict(name='a', depends=['b'], cancels=['b']), dict(name='b')]), None, 'a task that waits for what it cancels')]:
    refused(s.post(f'{A}/bad/revisions', body), 422, 'invalid', path, text)
cycle = s.post(f'{A}/bad/revisions', dict(rev=1, workflow=[dict(name='a', depends=['b']), dict(name='b', depends=['a'])]))
ok(cycle.status == 422 and 'a' in cycle.json['errors'][0]['message'] and cycle.json['errors'][0]['path'].startswith('/workflow/'), 'a cycle is printed as one', cycle)
body = '{"rev": 1,\n "workflow": [\n  {"name": "ä", "x": 1},\n  {"name": "b",\n   "dependz": ["c"]}\n ]}'
errors = s.post(f'{A}/bad/revisions', body).json['errors']
same([(e['path'], e['line'], e['column']) for e in errors], [('/workflow/0/name', 3, 12), ('/workflow/0/x', 3, 17), ('/workflow/1/dependz', 5, 4)], 'all errors, with line and column of the body')
same(errors[2].get('suggestion'), "did you mean 'depends'?", 'and suggestions')
big = [dict(name=f't{i}') for i in range(5001)]
refused(s.post(f'{A}/bad/revisions', dict(rev=1, workflow=big)), 422, 'invalid', text='5,001 tasks')
refused(s.post(f'{A}/bad/revisions', '{"rev": 1, "workflow": ' + '[' * 70 + ']' * 70 + '}'), 400, 'bad_json', text='70 levels')
refused(s.post(f'{A}/bad/revisions', '{"rev": 1, "rev": 2}'), 400, 'bad_json', text='the same field twice')
refused(s.post(f'{A}/bad/revisions', b'x' * (1 << 20) + b'x'), 413, 'body_too_large', text='over 1 MiB')
refused(s.post(f'{A}/bad/revisions', b'{"rev": 1, "author": "\xff"}'), 400, 'bad_json', text='bytes that are not UTF-8')
refused(s.post(f'{A}/bad/revisions', dict(rev=1000002)), 422, 'gap_too_large', '/rev', text='more than 1,000,000 ahead of nothing')
refused(s.post(f'{A}/bad/revisions', '{"rev": 9223372036854775806}'), 422, 'gap_too_large', '/rev', text='the largest number')
same((s.events()[-1]['seq'], s.get(f'{A}/bad').json['youngest'], s.get(f'{A}/bad/revisions').json['revisions']), (mark, None, []), 'nothing of it was recorded')
same(post(1000000, 'bad').status, 202, 'a million ahead is taken')
refused(post(2000001, 'bad'), 422, 'gap_too_large', '/rev', text='a million and one ahead of the youngest')

# -- what is valid though small
s.post(A, dict(name='small', kind='external'))
same((post(1, 'small').status, [t['key']['name'] for t in rev(1, 'small')['tasks']], rev(1, 'small')['definition']), (202, ['COMMIT'], []), 'no workflow: only COMMIT')
same((post(2, 'small', workflow=[]).status, [t['key']['name'] for t in rev(2, 'small')['tasks']]), (202, ['COMMIT']), 'an empty list')
same((post(3, 'small', workflow=dict(tasks=[])).status, list(states(3, 'small'))), (202, ['COMMIT']), 'an empty mapping')
same((post(4, 'small', workflow=None).status, list(states(4, 'small'))), (202, ['COMMIT']), 'null')
same(post(5, 'small', workflow=dict(jobs=dict(a={}, b=dict(depends=['a'])))).status, 202, 'jobs by name')
same(states(5, 'small'), dict(COMMIT='D', a='D', b='D'), 'and they are done')
post(6, 'small', workflow=[dict(name='p', paths=['docs/**', '!docs/private/**']), dict(name='q', paths=['src/*.c'])], touched=['docs/a/b.txt', 'docs/private/x'])
tasks = {t['key']['name']: t.get('outcome') for t in rev(6, 'small')['tasks']}
same(tasks, dict(COMMIT='done', p='done', q='skipped'), 'paths against what was touched')
same(post(7, 'small', workflow=[dict(name='a')], prev=[5, 6]).status, 202, 'prev given: two of them')
ok({('small@7:COMMIT', 'after', 'small@5:COMMIT'), ('small@7:COMMIT', 'after', 'small@6:COMMIT')} <= edges(7, 'small') and rev(7, 'small')['prev'] == [5, 6], 'COMMIT waits for both', edges(7, 'small'))
same(post(8, 'small', workflow=[dict(name='a', depends=['PREV']), dict(name='b', depends=['PREV:a'])], prev=5).status, 202, 'prev as one number')
same({e for e in edges(8, 'small') if e[2].startswith('small@') and not e[2].startswith('small@8')},
     {('small@8:COMMIT', 'after', 'small@5:COMMIT'), ('small@8:a', 'after', 'small@5:a'), ('small@8:b', 'after', 'small@5:a')}, 'PREV is what was given')

# -- a cause, and how deep it goes
s.post(A, dict(name='deep', kind='external'))
depths = [post(1, 'deep', workflow=[dict(name='t')]).json['depth']]
for n in range(2, 11):
    depths.append(post(n, 'deep', workflow=[dict(name='t')], cause=f'deep@{n - 1}:COMMIT').json['depth'])
same(depths, list(range(10)), 'each made by a job of the one before: depths')
same((rev(9, 'deep')['cause'], rev(9, 'deep')['depth'], list(states(9, 'deep'))), ('deep@8:COMMIT', 8, ['COMMIT', 't']), 'depth 8 is as any other')
same(list(states(10, 'deep')), ['COMMIT'], 'a deeper one gets only COMMIT')
same([(e['subject']) for e in s.events() if e['kind'] == 'cause_depth'], ['deep@10'], 'and an event says it')

# -- a job's own token posts revisions of its own archive, and the cause is known
s.post(A, dict(name='jobs', kind='external'))
post(1, 'jobs', workflow=[dict(name='t', command='x')])
w = Worker(s, 'w')
grant = [g for g in w.claim(20) if g['task'] == s.task('jobs@1:t')['id']][0]
token = grant.get('token') or grant['spec'].get('token')
ok(token, 'the grant has a token', grant)
if token:
    s.post('/v1/tokens', dict(name='admin', scopes=['admin']))
    answer = s.post(f'{A}/jobs/revisions', dict(rev=2), token=token)
    same((answer.status, answer.json.get('depth')), (202, 1), "a job's revision has depth 1")
    same(s.get(f'{A}/jobs/revisions/2', local=True).json.get('cause'), 'jobs@1:t', 'and its cause')
    same(s.get('/v1/tasks/jobs@1:t', token=token).status, 200, 'it may read its own task by key')
    for method, path, body in [('POST', f'{A}/docs/revisions', dict(rev=6)), ('GET', f'{A}/jobs', None), ('GET', f'{A}/jobs/revisions', None), ('POST', f'{A}/jobs/runs', dict(task='t')),
                               ('DELETE', f'{A}/jobs', None), ('GET', '/v1/tasks/docs@1:COMMIT', None), ('GET', f'{A}/docs/revisions/1/tree', None)]:
        same(s.ask(method, path, body, token=token).status, 403, f'but not {method} {path}')
    same(s.get(f'{A}/jobs/revisions/1/tree', token=token).status, 404, "its archive's files, if it had some")
    s.ask('DELETE', '/v1/tokens/admin', local=True)

# -- in any order, doubled
random.seed(4)
s.post(A, dict(name='mixed', kind='external'))
order = [n for n in range(1, 9)] * 3
random.shuffle(order)
answers = [post(n, 'mixed', message=f'm{n}', workflow=[dict(name='x', depends=['PREV'])]) for n in order]
ok(all(a.status in (200, 202) for a in answers) and sum(a.status == 202 for a in answers) == 8, '8 revisions, three times each, shuffled', order)
same([states(n, 'mixed') for n in range(1, 9)], [dict(COMMIT='D', x='D')] * 8, 'all are done')
done = [e['key'] for e in s.events() if e['kind'] == 'move' and e['to'] == 'D' and e['key'].startswith('mixed@') and e['key'].endswith(':COMMIT')]
same(done, [f'mixed@{n}:COMMIT' for n in range(1, 9)], 'in the order of revisions')
same(len([e for e in s.events() if e['kind'] == 'created' and e['key'].startswith('mixed@')]), 16, 'and made once')

# -- very many that wait behind a gap
s.post(A, dict(name='many', kind='external'))
for n in range(2, 206):
    post(n, 'many')
gap = s.get('/v1/tasks/many@201:COMMIT/why').json['conditions'][0]
ok(gap['detail'].startswith('revision 1 of many is missing:'), 'why looks through 200 of them', gap)
gap = s.get('/v1/tasks/many@205:COMMIT/why').json['conditions'][0]
ok(gap['detail'].startswith('revision 1 of many is missing, and perhaps more:'), 'and says where it stopped', gap)
post(1, 'many')
until(lambda: {t['state'] for t in s.get('/v1/tasks?archive=many').json['tasks']} == {'D'}, 'one closes the gap for all')

# -- locks in why
s.post(A, dict(name='locked', kind='external'))
for n in (1, 2):
    post(n, 'locked', workflow=[dict(name='x', lock='exclusive', command='true')])
why = s.get('/v1/tasks/locked@2:x/why').json
ok([(c['kind'], c['holder']) for c in why['conditions'] if c['kind'] == 'lock'] == [('lock', 'locked@1:x')], "why: the archive's lock", why)
ok([e for e in rev(2, 'locked')['edges'] if e.get('lock')] == [{'from': 'locked@2:x', 'to': 'locked@1:x', 'kind': 'after', 'lock': True}], 'the edge says that it is a lock', rev(2, 'locked')['edges'])

# -- a unique task that isn't made: whose it is instead says so
s.post(A, dict(name='single', kind='external'))
for n in (1, 2):
    post(n, 'single', workflow=[dict(name='u', unique='{archive}/{name}', command='true')])
same((states(1, 'single'), states(2, 'single')), ({'COMMIT': 'D', 'u': 'P'}, {'COMMIT': 'D'}), 'a second one with the unique key is not made')
same([(e['key'], e['reason']) for e in s.events('archive=single') if e['kind'] == 'unique'],
     [('single@1:u', "single@2:u was not made: this task has its unique key 'single/u'")], 'the history of the first one says so')

# -- filters of the task list, keys everywhere
same([t['key']['rev'] for t in s.get('/v1/tasks?archive=docs&name=indexing').json['tasks']], [2, 3, 1], 'tasks?archive=&name=: newest first')
same([t['key']['name'] for t in s.get('/v1/tasks?archive=docs&rev=3').json['tasks']], ['build-PDF', 'indexing', 'COMMIT'], 'tasks?archive=&rev=')
task = s.get('/v1/tasks/docs@3:build-PDF').json
same(s.post('/v1/tasks/locked@1:x/cancel', dict(reason='no')).json['state'], 'T', 'cancel by key')
same(s.get('/v1/tasks/locked@2:x').json['state'], 'P', 'what waited for the lock goes on')
same(s.post('/v1/tasks/locked@2:x/promote').status, 200, 'promote by key')
same(s.get(f'/v1/tasks/{task["id"]}/graph').json['edges'] != [], True, 'graph by id')
ok({'docs@3:build-PDF', 'docs@2:build-PDF', 'docs@1:build-PDF'} <= {t['key'] for t in s.get('/v1/tasks/docs@3:build-PDF/graph').json['tasks']}, 'graph by key')
answer = s.post('/v1/tasks', dict(tasks=[dict(name='x', depends=['docs@1:indexing', dict(task='mixed@2:x', on='finished')], cancels=['docs@3:build-PDF'])]))
same((answer.status, [d['key'] for d in answer.json['tasks'][0]['depends']], [d['key'] for d in answer.json['tasks'][0]['after']]), (201, ['docs@1:indexing'], ['mixed@2:x']), "a queue's task may wait for those of an archive")
refused(s.post('/v1/tasks', dict(name='x', depends=['docs@99:indexing'])), 422, 'unknown_task', '/depends/0', 'but not for one that there is not')
ok(all(e.get('key', 'mixed@').startswith('mixed@') for e in s.events('archive=mixed')), 'events of one archive')

# -- a restart loses nothing
before = (rev(3), s.get(f'{A}/docs').json, s.get(f'{A}/mixed/revisions').json)
s.stop()
s.start()
same((rev(3), s.get(f'{A}/docs').json, s.get(f'{A}/mixed/revisions').json), before, 'after a restart all is as it was')
same((post(3).status, post(3).json), (200, three.json), 'and a repetition is one')
# -- what a posted task can say, a task of a workflow can say too
s.post(A, dict(name='says', kind='external'))
SAYS = [dict(name='job', command='true', grace='2s', limits=dict(memory='64MiB', pids=50, disk='1MiB'), data=dict(n=1, list=[True, None])),
        dict(name='work', data=[1, 'two']), dict(name='later', command='true', not_before='2100-01-01T00:00:00Z')]
same(post(1, 'says', workflow=SAYS).status, 202, 'grace, limits, data and not_before in a workflow')
spec = {t['key']['name']: s.get(f'/v1/tasks/{t["id"]}').json for t in rev(1, 'says')['tasks']}
same({k: spec['job']['spec'][k] for k in ('grace_ms', 'limits', 'data')}, dict(grace_ms=2000, limits=dict(memory=64 << 20, pids=50, disk_bytes=1 << 20), data=dict(n=1, list=[True, None])),
     'the executor is told')
same((spec['work']['state'], spec['work']['spec']), ('P', dict(data=[1, 'two'])), 'a task with data alone waits for a worker')
worker = Worker(s, name='says', kinds=['data'])
same([g['key']['name'] for g in worker.poll(free=5)['grants']], ['work'], 'which gets it')
same((spec['later']['state'], spec['later']['not_before'], [c['kind'] for c in s.get(f'/v1/tasks/{spec["later"]["id"]}/why').json['conditions']]),
     ('S', '2100-01-01T00:00:00.000Z', ['not_before', 'executor']), 'one with a time waits for it')
refused(post(2, 'says', workflow=[dict(name='a', limits=dict(memory='much'))]), 422, 'invalid', '/workflow/0/limits/memory', 'a limit that is none')

end()
