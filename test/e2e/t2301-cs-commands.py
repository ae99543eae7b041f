#!/usr/bin/env python3
"""RQ33, RQ35: `weir cs list, show, deps, supports, diff, approve, rollback, export-cdb`: what they ask for and how they print the answers."""
import json
import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / 'test/unit/cli'))
from fake_server import Fake
from tap import clean_env, end, has, ok, same, weir

TMP = pathlib.Path(os.environ['TEST_TMP'])
os.chdir(TMP)
fake = Fake()
S = ['--server', fake.url]


def cs(*args):
    fake.requests.clear()
    return weir('cs', args[0], *S, *args[1:])


def asked():
    return [(method, path, json.loads(body) if body else None) for method, path, _, body in fake.requests]


def changeset(csid, **more):
    return dict(csid=csid, name=csid + '_4_1_h_DC_ada', state='D', movetype='DC', target='docs', files=[], removed=[], dependencies=[], precursors=[], approval=None, submitter='ada',
                revision=None, rolled_back_by=None, reason=None, history=[]) | more


# -- list
one, two = changeset('c-1', revision='4', created='2026-11-16T00:00:00.000Z'), changeset('c-2', state='S', movetype='EM', reason='waits for approval', dependencies=['c-1'], created='2026-11-17T00:00:00.000Z')
three = changeset('c-3', rolled_back_by='c-4', dependencies=['c-1', 'c-2'], created='2026-11-18T00:00:00.000Z')
rollback = changeset('c-4', movetype='RB', dependencies=['c-3'], created='2026-11-18T01:00:00.000Z')
fake.can('GET', '/v1/changesets', 200, dict(changesets=[rollback, three, two, one], next=None))
done = cs('list')
same([' '.join(line.split()) for line in done.out.splitlines()],
     ['CSID STATE TYPE TARGET REVISION SUBMITTER REASON', 'c-4 D done RB docs ada', 'c-3 D done, rolled back DC docs ada', 'c-2 S staged EM docs ada waits for approval', 'c-1 D done DC docs 4 ada'], 'cs list')
cs('list', '--state', 'QS', '--target', 'docs', '--type', 'EM', '--limit', '7')
same(asked(), [('GET', '/v1/changesets?state=QS&target=docs&type=EM&limit=7', None)], 'its filters are the server\'s')
same(json.loads(cs('list', '--json').out)[0]['csid'], 'c-4', '--json: an array')
same(cs('list', '--type', 'XX').returncode, 2, 'an unknown move type: exit 2')
fake.can('GET', '/v1/changesets', 200, dict(changesets=[], next=None))
same(cs('list').err, 'no change sets match\n', 'none: stderr says so')

# -- show
fake.can('GET', '/v1/changesets/c-3', 200, changeset('c-3', files=['a', 'b'], removed=['gone'], dependencies=[dict(csid='c-1', state='D')], precursors=['c-2'], revision=7, rolled_back_by='c-4',
         history=[dict(time='2026-11-18T00:00:00.000Z', to='Q', actor='ada'), dict(time='2026-11-18T00:00:01.000Z', to='D', actor='executor', reason='revision 7')]))
done = cs('show', 'docs:c-3')
same(asked(), [('GET', '/v1/changesets/c-3', None)], 'cs show: TARGET:CSID is the CSID')
for text in ('depends    c-1  D done', 'after      c-2', 'files      a\n           b\n', 'removed    gone', 'revision   7', 'rolled back by c-4', '2026-11-18 00:00:01  D done       executor  revision 7'):
    has(done.out, text, f'cs show: {text[:20].strip()!r}')
fake.problem('GET', '/v1/changesets/c-99', 404, 'not_found', 'there is no change set c-99')
same(cs('show', 'c-99').returncode, 66, 'an unknown one: exit 66')

# -- deps, supports, diff
fake.can('GET', '/v1/changesets/c-3/deps', 200, dict(csid='c-3', deps=[dict(csid='c-1', state='D'), 'c-2']))
same(cs('deps', 'c-3').out, 'c-1  D done\nc-2\n', 'cs deps')
fake.can('GET', '/v1/changesets/c-1/supports', 200, dict(csid='c-1', supports=[]))
done = cs('supports', 'c-1')
same((done.out, done.err), ('', 'none\n'), 'cs supports: none')
fake.can('GET', '/v1/changesets/c-3/diff', 200, b'--- a\n+++ a\n@@ -1 +1 @@\n-1\n+\xff\n', 'text/x-diff')
same(cs('diff', 'c-3').stdout, b'--- a\n+++ a\n@@ -1 +1 @@\n-1\n+\xff\n', 'cs diff: byte by byte')

# -- approve
fake.can('POST', '/v1/changesets/c-2/approve', 200, two)
done = cs('approve', 'c-2', '--ticket', 'OPS-1')
same((done.returncode, done.out, asked()), (0, 'c-2 is approved\n', [('POST', '/v1/changesets/c-2/approve', dict(ticket='OPS-1'))]), 'cs approve')
same(cs('approve', 'c-2').returncode, 2, 'without a ticket: exit 2')
fake.problem('POST', '/v1/changesets/c-1/approve', 409, 'already_ended', 'it has ended')
same(cs('approve', 'c-1', '--ticket', 'x').returncode, 1, 'one that has ended: exit 1')
fake.problem('POST', '/v1/changesets/c-1/approve', 403, 'forbidden', 'ada has submitted it')
same(cs('approve', 'c-1', '--ticket', 'x').returncode, 77, 'not permitted: exit 77')

# -- rollback
fake.can('POST', '/v1/rollbacks', 202, dict(csid='c-5', name='n', task=9, state='P'))
done = cs('rollback', 'c-1', 'docs:c-2', '--with-overlapping', '-m', 'broke the index')
same((done.returncode, done.out), (0, 'c-5\n'), 'cs rollback prints its CSID')
same(asked(), [('POST', '/v1/rollbacks', dict(csids=['c-1', 'c-2'], with_overlapping=True, message='broke the index'))], '... and says what was asked')
cs('rollback', 'c-1', '--idempotency-key', 'k')
same(fake.requests[-1][2]['Idempotency-Key'], 'k', '--idempotency-key')
same(cs('rollback').returncode, 2, 'of nothing: exit 2')
same(cs('rollback', 'c-1', '--dry-run', '--wait').returncode, 2, '--dry-run --wait: exit 2')

# -- status, here and at `weir status`, `weir top`: the queue in the order in which it is taken, whatever the order of the answer
def waits(csid, prio, state, tai):
    return changeset(csid, name=f'{csid}_40000000672531{tai:02x}00000000_1_h_{prio}_ada', movetype=prio[:2], state=state)


queue = [waits('c-13', 'DC', 'P', 1), waits('c-14', 'BF5', 'P', 4), waits('c-15', 'BF', 'P', 3), waits('c-16', 'DC', 'X', 0), waits('c-17', 'EM', 'S', 5)]
target = dict(name='docs', kind='target', counts=dict(Q=0, S=1, P=3, X=1, D=2, F=0, T=0, A=0), paused=False)
fake.lanes_extra = [dict(target, kind='archive'), target]
fake.can('GET', '/v1/nodes', 200, dict(nodes=[], next=None))
fake.can('GET', '/v1/changesets', 200, dict(changesets=queue, next=None))
ORDER = ['1 docs c-16 X executing DC ada', '2 docs c-14 P pending BF ada', '3 docs c-15 P pending BF ada', '4 docs c-13 P pending DC ada', '5 docs c-17 S staged EM ada']
for words in (['cs', 'status'], ['cs', 'status', 'docs'], ['status', 'docs'], ['top']):
    done = weir(*words, *S)
    lines = [' '.join(line.split()) for line in done.out.splitlines()]
    same((done.returncode, [line for line in lines if ' c-1' in line]), (0, ORDER), f'weir {" ".join(words)}: the queue with positions')
    has('\n'.join(lines), 'docs target 0 1 3 1 2 0 0 0', '... and the counts')
same([one['csid'] for one in json.loads(weir('cs', 'status', *S, '--json').out)['changesets']], ['c-16', 'c-14', 'c-15', 'c-13', 'c-17'], '--json: in that order too')
fake.lanes_extra = []
fake.can('GET', '/v1/changesets', 200, dict(changesets=[], next=None))
same(cs('status', 'nowhere').err, 'no change set was submitted to nowhere\n', 'a target without one: stderr says so')

# -- report
fake.can('GET', '/v1/report', 200, dict(total=dict(submitted=4, failed=1), targets=[dict(target='docs', submitted=4, median_ms=1500)]))
done = cs('report')
same([' '.join(line.split()) for line in done.out.splitlines()], ['total', 'SUBMITTED FAILED', '4 1', '', 'targets', 'TARGET SUBMITTED MEDIAN', 'docs 4 1.5s'], 'cs report: tables')
same(json.loads(cs('report', '--format', 'json').out)['total']['failed'], 1, '--format json')
fake.can('GET', '/v1/report', 200, b'target,submitted\r\ndocs,4\r\n', 'text/csv')
same((cs('report', '--format', 'csv').stdout, fake.requests[-1][1]), (b'target,submitted\r\ndocs,4\r\n', '/v1/report?format=csv'), '--format csv: as the server writes it')

# -- export-cdb: read by the program cdb
fake.can('GET', '/v1/changesets', 200, dict(changesets=[rollback, three, two, one], next=None))
assert shutil.which('cdb'), 'tools/setup installs tinycdb'


def cdb(file, key):
    done = subprocess.run(['cdb', '-q', file, key], capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else None


done = cs('export-cdb', 'all.cdb')
same((done.returncode, done.err), (0, 'all.cdb: 4 change sets\n'), 'cs export-cdb')
same([cdb('all.cdb', key) for key in ('dc-1', 'sc-1', 'dc-2', 'sc-2', 'dc-3', 'sc-3', 'dc-4', 'sc-4', 'dc-9')], ['', 'c-3\nc-2\n', 'c-1\n', 'c-3\n', 'c-1\nc-2\n', '', '', '', None],
     'who depends on whom, and the inverse; what a rollback lists is no dependency')
same(subprocess.run(['cdb', '-s', 'all.cdb'], capture_output=True).returncode, 0, 'the file is whole')
cs('export-cdb', 'new.cdb', '--target', 'docs', '--since', '2026-11-17T12:00:00Z')
same((fake.requests[0][1], cdb('new.cdb', 'dc-3'), cdb('new.cdb', 'dc-2'), cdb('new.cdb', 'dc-1')), ('/v1/changesets?limit=1000&target=docs', 'c-1\nc-2\n', None, None), '--target and --since drop old data')
same(cs('export-cdb', 'no/where.cdb').returncode, 66, 'a folder that is not there: exit 66')
same(cs('export-cdb', 'x.cdb', '--since', 'once').returncode, 2, 'no time: exit 2')
fake.close()
end()
