#!/usr/bin/env python3
"""Archives over HTTP: added, shown, listed, removed, added again; names, scopes, refusals; a revision given up."""
import os
import pathlib
import sys

sys.path.insert(0, os.environ.get('WEIR_TEST_LIB') or str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
from house import House, end, ok, refused, same

s = House('data', slots=0)

# ---- a server that isn't there: the words end where they end ----
gone = s.post('/v1/archives', dict(name='away', kind='svn', url='svn://127.0.0.1:1/x'))
ok(gone.status == 503 and gone.json['code'] == 'unreachable' and gone.json['detail'].endswith('Connection refused)') and gone.json['detail'].isascii(),
   'svn:// of nobody: unreachable, in plain words', gone)

A = '/v1/archives'


def mark():
    return [e['seq'] for e in s.events()][-1:]


# -- adding
answer = s.post(A, dict(name='docs', kind='external'))
same(answer.status, 201, 'added: 201')
docs = answer.json
same((docs['name'], docs['kind'], docs['next'], docs['youngest'], docs['from'], docs['schedules']), ('docs', 'external', 1, None, 1, []), 'as it is')
same(docs['counts'], {c: 0 for c in 'QSPXDFTA'}, 'counts by state')
ok('url' not in docs and 'watch' not in docs and docs['paused'] is False and docs['added'].endswith('Z'), 'an external one has no place', docs)
answer = s.post(A, dict(name='docs', kind='external'))
same((answer.status, answer.json), (200, docs), 'the same again: 200, the same')
same(s.get(f'{A}/docs').json, docs, 'GET of it')
same([a['name'] for a in s.get(A).json['archives']], ['docs'], 'the list')
same(s.get(A).json['next'], None, 'which has no more')
same(s.post(A, {'name': 'late', 'kind': 'external', 'from': 7}).json['next'], 7, 'from: the first revision')
same([(e['kind'], e['subject']) for e in s.events() if e['kind'] == 'archive'], [('archive', 'docs'), ('archive', 'late')], 'events tell of it')
key = {'Idempotency-Key': 'a1'}
first = s.post(A, dict(name='keyed', kind='external'), headers=key)
again = s.post(A, dict(name='keyed', kind='external'), headers=key)
same((first.status, again.status, again.json), (201, 201, first.json), 'with a key: the first answer again')
refused(s.post(A, dict(name='other', kind='external'), headers=key), 422, 'idempotency_mismatch', text='same key, other body')

page = s.get(f'{A}?limit=2').json
same([a['name'] for a in page['archives']], ['keyed', 'late'], 'a page, newest first')
rest = s.get(f'{A}?limit=2&cursor={page["next"]}').json
same(([a['name'] for a in rest['archives']], rest['next']), (['docs'], None), 'and the rest')
for query in ('limit=0', 'limit=x', 'cursor=x', 'cursor=0'):
    same(s.get(f'{A}?{query}').status, 400, f'archives?{query}: 400')

# -- what is refused changes nothing
before = mark()
bad = [
    (dict(kind='external'), '/name', 'no name'), (dict(name='x'), '/kind', 'no kind'), (dict(name='x', kind='cvs'), '/kind', 'a kind that there is not'),
    (dict(name='x', kind=7), '/kind', 'a kind that is a number'), (dict(name='a b', kind='external'), '/name', 'a name with a blank'),
    (dict(name='all', kind='external'), '/name', 'all'), (dict(name='42', kind='external'), '/name', 'only digits'),
    (dict(name='COMMIT', kind='external'), '/name', 'COMMIT'), (dict(name='PREV', kind='external'), '/name', 'PREV'),
    (dict(name='WORKFLOW', kind='external'), '/name', 'WORKFLOW'), (dict(name='-a', kind='external'), '/name', 'a dash before'),
    (dict(name='a' * 101, kind='external'), '/name', '101 characters'), (dict(name='a\x00b', kind='external'), '/name', 'a NUL'),
    (dict(name='a/b', kind='external'), '/name', 'a slash'), (dict(name='ä', kind='external'), '/name', 'a letter beyond ASCII'),
    (dict(name='x', kind='external', url='/srv'), '/url', 'external with a url'), (dict(name='x', kind='external', branch='b'), '/branch', 'external with a branch'),
    (dict(name='x', kind='svn'), '/url', 'svn without url'), (dict(name='x', kind='svn', url='relative/path'), '/url', 'a relative path'),
    (dict(name='x', kind='svn', url='gopher://h/x'), '/url', 'an unknown scheme'), (dict(name='x', kind='git', url='https://h/x.git'), '/url', 'git by URL'),
    (dict(name='x', kind='svn', url='/a\nb'), '/url', 'a control character'), (dict(name='x', kind='svn', url='/' + 'a' * 4000), '/url', 'a url of 4,001 bytes'),
    (dict(name='x', kind='svn', url='/srv', branch='b'), '/branch', 'svn with a branch'), (dict(name='x', kind='git', url='/srv', branch='b' * 251), '/branch', 'a long branch'),
    (dict(name='x', kind='git', url='/srv', branch='-d'), '/branch', 'a branch that is an option'), ({'name': 'x', 'kind': 'external', 'from': 0}, '/from', 'from 0'),
    ({'name': 'x', 'kind': 'external', 'from': -1}, '/from', 'from -1'), ({'name': 'x', 'kind': 'external', 'from': '1'}, '/from', 'from as text'),
    (dict(name='x', kind='external', colour='red'), '/colour', 'an unknown field'),
]
for body, path, text in bad:
    refused(s.post(A, body), 422, 'invalid', path, text)
answer = s.post(A, dict(name='', kind='cvs', urls='x'))
ok({e['path'] for e in answer.json['errors']} == {'/name', '/kind', '/urls'}, 'all faults at once', answer)
ok(any('url' in e.get('suggestion', '') for e in answer.json['errors']), 'with a suggestion', answer)
refused(s.post(A, b'{'), 400, 'bad_json', text='no JSON')
refused(s.post(A, []), 422, 'invalid', text='a list')
refused(s.post(A, {'name': 'docs', 'kind': 'git', 'url': '/nowhere/at/all'}), 422, 'invalid', '/url', 'a repository that is not there')
refused(s.get(f'{A}/nothing'), 404, 'not_found', text='one that there is not')
refused(s.ask('DELETE', f'{A}/nothing'), 404, 'not_found', text='removing it')
refused(s.ask('PUT', f'{A}/docs', {}), 405, 'method_not_allowed', text='PUT')
refused(s.get(f'{A}?colour=red'), 400, 'bad_request', 'colour', 'an unknown parameter')
same(mark(), before, 'nothing was recorded')

# -- one namespace with the queues
s.enqueue(dict(name='t', queue='builds'))
refused(s.post(A, dict(name='builds', kind='external')), 409, 'name_taken', text="a queue's name")
refused(s.post('/v1/tasks', dict(name='t', queue='docs')), 422, 'invalid', '/queue', "a task into an archive's name")
refused(s.post('/v1/tasks', dict(tasks=[dict(name='a'), dict(name='b', queue='docs')])), 422, 'invalid', '/tasks/1/queue', 'one of several')
same([t['key'] for t in s.get('/v1/tasks').json['tasks']], [dict(queue='builds', name='t')], 'none was made')
same([(lane['name'], lane['kind']) for lane in s.get('/v1/lanes').json['lanes'] if lane['name'] in ('builds', 'docs')], [('docs', 'archive'), ('builds', 'queue')], 'lanes tell which is which')

# -- a name that was paused before it was anything becomes an archive's, and stays paused
s.post('/v1/lanes/later/pause', dict(reason='not yet'))
same([lane['kind'] for lane in s.get('/v1/lanes').json['lanes'] if lane['name'] == 'later'], ['queue'], 'a name that nobody uses: a queue')
ok(any(e['kind'] == 'pause' and e.get('subject') == 'later' for e in s.events()), 'the pause is an event', s.events()[-3:])
answer = s.post(A, dict(name='later', kind='external'))
same((answer.status, answer.json['paused'], answer.json['reason']), (201, True, 'not yet'), 'an archive may be added under it')
same([lane['kind'] for lane in s.get('/v1/lanes').json['lanes'] if lane['name'] == 'later'], ['archive'], 'it is an archive then')
refused(s.post('/v1/tasks', dict(name='t', queue='later')), 422, 'invalid', '/queue', 'and no queue any more')
same(s.post(f'{A}/later/revisions', dict(rev=1, workflow=dict(tasks=[dict(name='a', command='true')]))).status, 202, 'it takes revisions')
task = s.get('/v1/tasks?archive=later&rev=1&name=a').json['tasks'][0]
same((task['key'], task['state']), (dict(archive='later', rev=1, name='a'), 'S'), 'whose tasks wait')
ok(any(e.get('key') == 'later@1:a' for e in s.events()), 'events call it by its key', s.events())
s.post('/v1/lanes/later/resume')
same(s.get('/v1/tasks?archive=later&rev=1&name=a').json['tasks'][0]['state'], 'P', 'until it is resumed')

# -- a pause
s.post('/v1/lanes/docs/pause', dict(reason='look'))
ok(s.get(f'{A}/docs').json['paused'] and s.get(f'{A}/docs').json['reason'] == 'look', 'a pause shows')
s.post('/v1/lanes/docs/resume')

# -- giving up a revision
s.post(f'{A}/docs/revisions', dict(rev=1))
s.post(f'{A}/docs/revisions', dict(rev=3))
same((s.get(f'{A}/docs').json['next'], s.get(f'{A}/docs').json['youngest'], s.get(f'{A}/docs').json['missing']), (2, 3, 2), 'revision 2 is missing')
for body, path, text in [({}, '/rev', 'without rev'), (dict(rev=2), '/reason', 'without a reason'), (dict(rev=2, reason=' '), '/reason', 'a blank reason'),
                         (dict(rev=0, reason='x'), '/rev', 'revision 0'), (dict(rev='2', reason='x'), '/rev', 'as text'),
                         (dict(rev=2, reason='x' * 1001), '/reason', 'a reason of 1,001 bytes'), (dict(rev=2, reason='x', why='y'), '/why', 'an unknown field')]:
    refused(s.post(f'{A}/docs/skip', body), 422, 'invalid', path, f'skip {text}')
refused(s.post(f'{A}/docs/skip', dict(rev=1, reason='x')), 409, 'conflict', text='skip of one that is known')
refused(s.post(f'{A}/none/skip', dict(rev=1, reason='x')), 404, 'not_found', text='skip of no archive')
answer = s.post(f'{A}/docs/skip', dict(rev=2, reason='the machine is gone'))
same((answer.status, answer.json['rev'], answer.json['state']), (200, 2, 'skipped'), 'skipped')
ok('missing' not in s.get(f'{A}/docs').json and s.get(f'{A}/docs').json['next'] == 4, 'those behind it go on', s.get(f'{A}/docs'))
same(s.get(f'{A}/docs/revisions/2').json['state'], 'skipped', 'the revision says so')
same(s.get('/v1/tasks/docs@3:COMMIT').json['state'], 'D', 'revision 3 is done')
same([e['reason'] for e in s.events() if e['kind'] == 'revision_skipped'], ['the machine is gone'], 'the event has the reason')

# -- removing; its history stays, its numbers go on
s.post(f'{A}/docs/revisions', dict(rev=4, workflow=[dict(name='long', command='sleep 100')]))
same(s.get('/v1/tasks/docs@4:long').json['state'], 'P', 'something waits in it')
answer = s.ask('DELETE', f'{A}/docs?reason=moved')
same((answer.status, answer.json), (200, dict(name='docs', removed=True)), 'removed')
task = s.get('/v1/tasks/docs@4:long').json
ok(task['state'] == 'A' and 'removed' in task['reason'], 'what had not ended is abandoned', task)
refused(s.get(f'{A}/docs'), 404, 'not_found', text='it is gone')
ok('docs' not in [a['name'] for a in s.get(A).json['archives']], 'from the list too')
same(s.get(f'{A}/docs/revisions/4').json['tasks'][1]['state'], 'A', 'its revisions stay readable')
refused(s.post(f'{A}/docs/revisions', dict(rev=5)), 404, 'not_found', text='it takes no revisions')
refused(s.post(f'{A}/docs/runs', dict(task='long')), 404, 'not_found', text='nor runs')
refused(s.ask('DELETE', f'{A}/docs'), 404, 'not_found', text='removing it twice')
refused(s.post('/v1/tasks', dict(name='t', queue='docs')), 422, 'invalid', '/queue', 'its name is no queue')
answer = s.post(A, dict(name='docs', kind='external'))
same((answer.status, answer.json['next']), (201, 5), 'added again: the numbers go on')
same(s.post(f'{A}/docs/revisions', dict(rev=5)).status, 202, 'and it takes revisions')

# -- rights
admin = s.post('/v1/tokens', dict(name='admin', scopes=['admin'])).json['token']
tokens = {scope: s.post('/v1/tokens', dict(name=scope, scopes=[scope]), token=admin).json['token'] for scope in ('read', 'enqueue', 'execute')}
calls = [('GET', A, None, 'read', 200), ('GET', f'{A}/docs', None, 'read', 200), ('GET', f'{A}/docs/revisions', None, 'read', 200), ('GET', f'{A}/docs/revisions/5', None, 'read', 200),
         ('GET', f'{A}/docs/revisions/5/tree', None, 'read', 404), ('POST', f'{A}/docs/revisions', dict(rev=5), 'enqueue', 200),
         ('POST', f'{A}/docs/runs', dict(task='none'), 'enqueue', 404), ('POST', A, dict(name='docs', kind='external'), 'admin', 200),
         ('POST', f'{A}/docs/skip', dict(rev=5, reason='x'), 'admin', 409), ('DELETE', f'{A}/none', None, 'admin', 404)]
for method, path, body, needed, status in calls:
    for scope, token in [*tokens.items(), ('admin', admin)]:
        answer = s.ask(method, path, body, token=token)
        if scope in (needed, 'admin'):
            same(answer.status, status, f'{method} {path} with {scope}: {status}')
        else:
            ok(answer.status == 403 and answer.code == 'forbidden' and needed in answer.json['detail'], f'{method} {path} with {scope}: 403, names {needed}', answer)
    same(s.ask(method, path, body).status, 401, f'{method} {path} without a token: 401')
end()
