#!/usr/bin/env python3
"""Results of old tasks go when somebody says so: counted by a dry run, removed by the real one; the tasks, PREV and the history stay."""
import datetime
import os
import pathlib
import sys

sys.path.insert(0, os.environ.get('WEIR_TEST_LIB') or str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
from house import TMP, House, end, ok, refused, same, until

s = House('data', slots=2)
A = '/v1/archives'
WF = [dict(name='build', script='echo "built $WEIR_REV"; echo size=$WEIR_REV >> $WEIR_OUTPUT', checkout=False, depends=['PREV'])]
s.post(A, dict(name='docs', kind='external'))
for rev in (1, 2, 3):
    s.post(f'{A}/docs/revisions', dict(rev=rev, message=f'm{rev}', workflow=WF))
task = s.enqueue(dict(name='other', script='echo other'))
until(lambda: all(s.state(f'docs@{rev}:build') == 'D' for rev in (1, 2, 3)) and s.state(task['id']) == 'D', 'all is done')


def prune(**body):
    return s.post('/v1/prune', body)


# -- refused
for body, path, text in [(dict(older_than='1d'), '/dry_run', 'without dry_run'), (dict(dry_run=True), '/older_than', 'without older_than, and history kept for ever'),
                         (dict(dry_run=True, older_than='1'), '/older_than', 'no unit'), (dict(dry_run=True, older_than=7), '/older_than', 'a number'), (dict(dry_run='yes', older_than='1d'), '/dry_run', 'a text'),
                         (dict(dry_run=True, older_than='1d', archive='docs', queue='default'), '/queue', 'archive and queue'), (dict(dry_run=True, older_than='1d', x=1), '/x', 'an unknown field')]:
    refused(s.post('/v1/prune', body), 422, 'invalid', path, text)
refused(prune(dry_run=True, older_than='1d', archive='none'), 404, 'not_found', text='of no archive')

# -- a dry run counts and changes nothing
same(prune(dry_run=True, older_than='1d').json['tasks'], 0, 'nothing is a day old')
before = s.events()[-1]['seq']
count = prune(dry_run=True, older_than='1ms').json
same((count['tasks'], count['log_bytes'], count['dry_run']), (4, len('built 1\n') * 3 + len('other\n'), True), 'a dry run counts tasks and bytes of logs')
same(prune(dry_run=True, older_than='1ms', archive='docs').json['tasks'], 3, 'of one archive')
same(prune(dry_run=True, older_than='1ms', queue='default').json['tasks'], 1, 'of one queue')
same((s.events()[-1]['seq'], s.log_bytes('docs@1:build')), (before, b'built 1\n'), 'and removes nothing')

# -- the real one
done = s.cli('history', 'prune', '--dry-run', '--older-than', '1ms', '--archive', 'docs')
ok(done.code == 0 and '3 tasks' in done.out, 'weir history prune --dry-run', done.out, done.err)
for args in ((), ('--dry-run', '--apply', '--older-than', '1d'), ('--dry-run', '--older-than', 'x'), ('--dry-run', 'KEY')):
    same(s.cli('history', 'prune', *args).code, 2, f'weir history prune {" ".join(args)}: 2')
same(s.cli('history', 'prune', '--dry-run').code, 65, 'kept for ever: nothing is too old')
same(s.cli('history', '--task', 'prune').code, 0, 'a task may be called prune')
done = s.cli('history', 'prune', '--apply', '--older-than', '1ms', '--archive', 'docs')
ok(done.code == 0 and 'removed the results of 3 tasks' in done.out, 'weir history prune --apply', done.out, done.err)
ok('prune' in s.cli('history', '--help').out and '--apply' in s.cli('history', 'prune', '--help').out, 'both say so in --help')
gone = s.get('/v1/tasks/docs@2:build/log')
ok(gone.status == 404 and 'retention' in gone.json['detail'] and 'missing' not in gone.json['detail'], 'the log is gone, and it is said why', gone)
ok('retention' in s.cli('log', 'docs@2:build').err, 'weir log says so too')
task2 = s.get('/v1/tasks/docs@2:build').json
ok(task2['state'] == 'D' and task2.get('pruned') is True and task2['outputs'] == {} and len(task2['attempts']) == 1 and task2['attempts'][0]['exit'] == 0, 'the task and its attempts stay', task2)
same(s.log_bytes(task['id']), b'other\n', 'others keep theirs')
same([e['subject'] for e in s.events() if e['kind'] == 'pruned'], ['docs'], 'an event tells of it')
same(prune(dry_run=True, older_than='1ms', archive='docs').json['tasks'], 0, 'nothing is left to go')
revision = s.get(f'{A}/docs/revisions/2').json
ok(revision['message'] == 'm2' and revision['definition'] and len(revision['edges']) == 3, 'the revision stays whole', revision)
same(len([t for t in s.get('/v1/tasks?archive=docs&state=D').json['tasks'] if t['key']['name'] == 'build']), 3, 'so does the history')

# -- PREV still finds what was pruned
s.post(f'{A}/docs/revisions', dict(rev=4, workflow=WF))
ok({'from': 'docs@4:build', 'to': 'docs@3:build', 'kind': 'after'} in s.get(f'{A}/docs/revisions/4').json['edges'], 'PREV resolves to a pruned task')
until(lambda: s.state('docs@4:build') == 'D', 'and the task runs')
same(s.post(f'{A}/docs/runs', dict(task='build', rev=3)).status, 201, 'a pruned task can be run again, as #2')
until(lambda: s.state('docs@3:build%232') == 'D', 'and it is done')
same(s.log_bytes('docs@3:build%232'), b'built 3\n', 'with a log of its own')
same(s.get('/v1/verify').json['ok'], True, 'verify: the history is whole')

# -- files that were kept
same(s.post(A, dict(name='files', kind='external')).status, 201, 'an archive whose tasks keep files')
s.post(f'{A}/files/revisions', dict(rev=1, workflow=[dict(name=name, checkout=False, script=f'echo {text} > f.txt', artifacts=['f.txt']) for name, text in (('one', 'same'), ('two', 'same'), ('three', 'other'))]))
until(lambda: all(s.state(f'files@1:{n}') == 'D' for n in ('one', 'two', 'three')), 'they ran')
same([s.get(f'/v1/tasks/files@1:{n}/artifacts/f.txt').body for n in ('one', 'two', 'three')], [b'same\n', b'same\n', b'other\n'], 'the files are there')
s.post(f'{A}/files/revisions', dict(rev=2, workflow=[dict(name='four', checkout=False, script='echo same > f.txt', artifacts=['f.txt'])]))
s.enqueue(dict(name='x', queue='waits', command='true', depends=['files@2:four'], not_before='2999-01-01T00:00:00Z'))
until(lambda: s.state('files@2:four') == 'D', 'a later one has the same file, and somebody waits for that task')
blobs = []
if os.environ.get('WEIR_TEST_STORE') != 'postgres':  # there they are in the database
    blobs = [p for p in (s.dir / 'blobs').rglob('*') if p.is_file()]
    same(len(blobs), 2, 'the same bytes are kept once')
sweeps = s.log.read_text().count('retention.swept')
same(prune(dry_run=False, older_than='1ms', archive='files').json['tasks'], 3, 'the three are pruned')
ok(until(lambda: s.log.read_text().count('retention.swept') > sweeps), 'then files are swept that nobody names', s.log.read_text())
same([p for p in blobs if not p.exists()], [], 'but none that is younger than a day: it may be on its way to be named')
same([s.get(f'/v1/tasks/files@1:{n}/artifacts/f.txt').status for n in ('one', 'two', 'three')], [404] * 3, 'with the tasks that named it')
same(s.get('/v1/tasks/files@2:four/artifacts/f.txt').body, b'same\n', 'what another task still names is there')

# -- what somebody still waits for stays
first = s.enqueue(dict(name='a', queue='kept', script='echo n=1 >> $WEIR_OUTPUT'), dict(name='b', queue='kept', command='true', depends=['a'], not_before='2999-01-01T00:00:00Z'))
until(lambda: s.state(first[0]['id']) == 'D', 'one that another waits for')
same(prune(dry_run=True, older_than='1ms', queue='kept').json['tasks'], 0, 'its outputs are still wanted')

# -- the configuration's rule is what counts when nothing else is said
(TMP / 'weir.yaml').write_text('retention: {history: 90d}\n')
s.stop()
s.options += ['--config', str(TMP / 'weir.yaml')]
s.start()
answer = s.post('/v1/prune', dict(dry_run=True))
then = datetime.datetime.fromisoformat(answer.json['before'].replace('Z', '+00:00'))
ok(answer.status == 200 and abs(datetime.datetime.now(datetime.timezone.utc) - then - datetime.timedelta(days=90)) < datetime.timedelta(hours=1), 'retention.history', answer)
ok('retention' not in s.log.read_text(), 'and nobody says that it does nothing', s.log.read_text())

# -- rights
admin = s.post('/v1/tokens', dict(name='admin', scopes=['admin'])).json['token']
token = s.post('/v1/tokens', dict(name='e', scopes=['enqueue']), token=admin).json['token']
same(s.post('/v1/prune', dict(dry_run=True, older_than='1d'), token=token).status, 403, 'it takes admin')
end()
