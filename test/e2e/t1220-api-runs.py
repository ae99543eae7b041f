#!/usr/bin/env python3
"""Runs by hand: of the newest or a named revision, with parameters and a reason, numbered; schedules are listed."""
import os
import pathlib
import sys

sys.path.insert(0, os.environ.get('WEIR_TEST_LIB') or str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
from house import House, end, ok, refused, same, until

s = House('data', slots=2)
A = '/v1/archives'
SHOW = 'printf "%s|" "$WEIR_KEY" "$WEIR_PARAM_VERSION" "$WEIR_PARAM_A_B" "$WEIR_REV"'
WF = [dict(name='build', script=SHOW, checkout=False), dict(name='release', detached=True, script=SHOW, checkout=False, depends=['build']),
      dict(name='announce', depends=['release'], command='true', checkout=False), dict(name='by-hand', on=['manual'], command='true', checkout=False)]


def run(task, archive='docs', **more):
    return s.post(f'{A}/{archive}/runs', dict(task=task, **more))


def key(task):
    k = task['key']
    return f'{k["archive"]}@{k["rev"]}:{k["name"]}' + (f'#{k["run"]}' if 'run' in k else '')


s.post(A, dict(name='docs', kind='external'))
refused(run('build'), 404, 'not_found', text='an archive without a revision')
s.post(f'{A}/docs/revisions', dict(rev=1, workflow=WF))
s.post(f'{A}/docs/revisions', dict(rev=2, workflow=WF))
until(lambda: s.state('docs@2:build') == 'D', 'the build of the commit is done')
same({t['key']['name'] for t in s.get(f'{A}/docs/revisions/2').json['tasks']}, {'COMMIT', 'build'}, 'what is detached, or by hand, no commit makes')

# -- the newest revision, and what only follows
answer = run('release', params={'version': '1.4', 'a.b': 7}, reason='asked for')
same((answer.status, key(answer.json)), (201, 'docs@2:release'), 'a run: 201, the task, of the newest revision')
same(answer.json['depends'][0]['key'], 'docs@2:build', 'it depends on what is there')
until(lambda: s.state('docs@2:announce') == 'D', 'what follows from it runs too')
same(s.log_bytes('docs@2:release'), b'docs@2:release|1.4|7|2|', 'its parameters and its key')
same(answer.json['reason'], 'asked for', 'the reason is told')
same([e.get('reason') for e in s.events() if e.get('key') == 'docs@2:release' and e['kind'] == 'created'], ['asked for'], 'and kept in the events')

# -- again: numbered
again = run('release')
same(key(again.json), 'docs@2:release#2', 'again: #2')
same(key(run('release').json), 'docs@2:release#3', 'and #3')
same(key(run('build').json), 'docs@2:build#2', 'a task that a commit made: #2')
same(key(run('build', rev=1).json), 'docs@1:build#2', 'of another revision')
same(key(run('by-hand', rev=1).json), 'docs@1:by-hand', 'on: manual')
until(lambda: s.state('docs@2:release%232') == 'D', '#2 runs')
same(s.log_bytes('docs@2:release%232'), b'docs@2:release#2|||2|', 'with its own key, without parameters')
ok({'docs@2:release', 'docs@2:release#2', 'docs@2:release#3'} <= {key(t) for t in s.get(f'{A}/docs/revisions/2').json['tasks']}, 'the revision shows them all')

# -- the same key: the same run
head = {'Idempotency-Key': 'r1'}
first = s.post(f'{A}/docs/runs', dict(task='by-hand'), headers=head)
same((first.status, key(first.json)), (201, 'docs@2:by-hand'), 'with a key')
second = s.post(f'{A}/docs/runs', dict(task='by-hand'), headers=head)
same((second.status, second.json['id']), (201, first.json['id']), 'again: the same task')
refused(s.post(f'{A}/docs/runs', dict(task='build'), headers=head), 422, 'idempotency_mismatch', text='same key, other body')
s.post(A, dict(name='other', kind='external'))
s.post(f'{A}/other/revisions', dict(rev=1, workflow=WF))
same(key(s.post(f'{A}/other/runs', dict(task='by-hand'), headers=head).json), 'other@1:by-hand', 'of another archive it is another run')

# -- refused
mark = s.events()[-1]['seq']
until(lambda: not s.get('/v1/tasks?state=QSPX').json['tasks'], 'all has ended')
mark = s.events()[-1]['seq']
for body, path, text in [({}, '/task', 'no task'), (dict(task=7), '/task', 'a number'), (dict(task='a b'), '/task', 'no name'), (dict(task='x' * 101), '/task', '101 characters'),
                         (dict(task='build', rev=0), '/rev', 'rev 0'), (dict(task='build', rev='1'), '/rev', 'rev as text'), (dict(task='build', params=[]), '/params', 'params as a list'),
                         (dict(task='build', params={'a b': '1'}), '/params/a b', 'a bad name'), (dict(task='build', params={'': '1'}), '/params/', 'an empty name'),
                         (dict(task='build', params={'a': {}}), '/params/a', 'an object'), (dict(task='build', params={'a': None}), '/params/a', 'null'), (dict(task='build', params={'a': 'x\0y'}), '/params/a', 'a NUL'),
                         (dict(task='build', params={'a': 'x' * 32769}), '/params/a', 'a long value'), (dict(task='build', params={'a.b': '1', 'A_B': '2'}), '/params/A_B', 'twice the same variable'),
                         (dict(task='build', params={f'p{i}': '' for i in range(101)}), '/params', '101 of them'), (dict(task='build', params={f'p{i}': 'x' * 32768 for i in range(9)}), '/params', 'too much together'),
                         (dict(task='build', reason='x' * 1001), '/reason', 'a long reason'), (dict(task='build', colour=1), '/colour', 'an unknown field')]:
    refused(s.post(f'{A}/docs/runs', body), 422, 'invalid', path, text)
refused(run('nothing'), 404, 'not_found', text='no such task')
refused(run('COMMIT'), 404, 'not_found', text='COMMIT')
refused(run('build', rev=3), 404, 'not_found', text='no such revision')
refused(run('build', 'none'), 404, 'not_found', text='no such archive')
s.post(f'{A}/docs/revisions', dict(rev=4, workflow=WF))
mark = s.events()[-1]['seq']
refused(run('build', rev=4), 409, 'conflict', text='a revision behind a gap')
same(key(run('by-hand').json), 'docs@2:by-hand#2', 'the newest one is the newest that is initialised')
s.post(f'{A}/docs/skip', dict(rev=3, reason='x'))
refused(run('build', rev=3), 404, 'not_found', text='a skipped revision')

# -- schedules
s.post(A, dict(name='timed', kind='external'))
same(s.post(f'{A}/timed/revisions', dict(rev=1, workflow=[dict(name='nightly', schedule='H 3 * * *', command='true'),
                                                          dict(name='yearly', schedule=dict(cron='0 0 1 1 *', tz='Europe/Berlin'), command='true')])).status, 202, 'a workflow with schedules')
schedules = {x['task']: x for x in s.get(f'{A}/timed').json['schedules']}
ok(set(schedules) == {'nightly', 'yearly'} and schedules['nightly']['next'][11:13] == '03' and schedules['yearly']['next'].endswith('-12-31T23:00:00.000Z'), 'GET of the archive lists them', schedules)
same({t['key']['name'] for t in s.get(f'{A}/timed/revisions/1').json['tasks']}, {'COMMIT'}, 'no commit makes them')
same(key(run('nightly', 'timed').json), 'timed@1:nightly', 'but a hand does')
s.post(f'{A}/timed/revisions', dict(rev=2, workflow=[]))
same(s.get(f'{A}/timed').json['schedules'], [], 'a revision without them: none')
end()
