#!/usr/bin/env python3
"""RQ8 RQ9 RQ10 RQ30 RQ33 RQ34: what the server says of change sets: lists, one, dependencies both ways, approval, the queue of a target, why, graph, events."""
import os
import pathlib
import sys

sys.path.insert(0, os.environ.get('WEIR_TEST_LIB') or str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
from house import House, Worker, end, ok, refused, same, until
from tarballs import meta, tarball
from voices import Voice, voice

s = House('data', slots=0)
site = Voice(s)
dev, boss, blue = voice(s, 'default', 'read', 'enqueue', name='dev'), voice(s, 'default', 'admin', name='boss'), voice(s, 'blue', 'admin')
C = '/v1/changesets'
site.post('/v1/archives', dict(name='docs', kind='external'))
site.post('/v1/archives', dict(name='code', kind='external'))
same(site.post('/v1/config', dict(text='changesets: {approval: [EM], self_approval: false}')).status, 200, 'emergency moves need a ticket')


def submit(files, who=dev, **sections):
    """the CSID of a new change set"""
    answer = who.ask('POST', C, tarball(files={path: os.urandom(8).hex().encode() for path in files}, **sections))
    ok(answer.status == 202, f'submitted: {files}', answer)
    return answer.json['csid']


def show(csid):
    return dev.get(f'{C}/{csid}').json


def queue(target='docs', query=''):
    return dev.get(f'/v1/targets/{target}{query}').json


# ---- one ----
first = submit(['a.txt', 'b/c.txt'], removed=['old.txt'])
later = submit(['a.txt'], movetype='BF')
needs = submit(['n.txt'], dependencies=[first])
move = submit(['m.txt'], movetype='EM')
told = show(first)
same(sorted(told), sorted('csid name state movetype target files removed dependencies precursors approval submitter revision rolled_back_by reason history'.split()),
     'RQ30: a change set has the members of the interface, and no others')
same([told[k] for k in ('csid', 'state', 'movetype', 'target', 'files', 'removed', 'dependencies', 'precursors', 'approval', 'submitter', 'revision', 'rolled_back_by', 'reason')],
     [first, 'P', 'DC', 'docs', ['a.txt', 'b/c.txt'], ['old.txt'], [], [], None, 'token:dev', None, None, None], 'and says what it is')
same([(e['state'], e['kind'], e['actor']) for e in told['history']], [('Q', 'created', 'token:dev'), ('P', 'move', 'token:dev')] if len(told['history']) == 2 else
     [('Q', 'created', 'token:dev'), ('S', 'move', told['history'][1]['actor']), ('P', 'move', told['history'][2]['actor'])], 'its history, oldest first')
same((show(later)['precursors'], show(later)['state'], show(needs)['dependencies']), ([first], 'S', [first]), 'RQ8 RQ10: precursors and dependencies, as CSIDs')
task = dev.get(f'/v1/tasks/{first}').json
same((task['csid'], task['key']), (first, dict(target='docs', name=first)), 'its task names it')
same((dev.get(f'/v1/tasks/docs:{first}').json['id'], [t.get('csid') for t in dev.get('/v1/tasks?limit=1').json['tasks']]), (task['id'], [move]), 'by its key too, and in lists')

# ---- lists ----
same([c['csid'] for c in dev.get(C).json['changesets']], [move, needs, later, first], 'newest first')
same([c['csid'] for c in dev.get(f'{C}?type=BF').json['changesets']], [later], 'by move type')
same([c['csid'] for c in dev.get(f'{C}?state=S&target=docs').json['changesets']], [move, needs, later], 'by state and target')
same(dev.get(f'{C}?target=code').json, dict(changesets=[], next=None), 'a target without change sets')
page, seen = dev.get(f'{C}?limit=1').json, []
while True:
    seen += [c['csid'] for c in page['changesets']]
    if not page['next']:
        break
    page = dev.get(f'{C}?limit=1&cursor={page["next"]}').json
same(seen, [move, needs, later, first], 'page by page')
same(sorted(dev.get(C).json['changesets'][0]), sorted('csid name task state word movetype target priority approval submitter revision rolled_back_by reason created started finished'.split()),
     'an entry of a list, without its paths')
for query, field in (('type=XX', 'type'), ('state=Z', 'state'), ('target=a/b', 'target'), ('limit=0', 'limit'), ('cursor=x', 'cursor'), ('order=x', 'order')):
    answer = dev.get(f'{C}?{query}')
    ok(answer.status == 400 and answer.json['errors'][0]['path'] == field, f'{query}: 400, which names it', answer)

# ---- both ways ----
same((dev.get(f'{C}/{needs}/deps').json['deps'], dev.get(f'{C}/{first}/supports').json['supports']), ([first], [needs]), 'RQ33: what it depends on, what depends on it')
same((dev.get(f'{C}/{first}/deps').json['deps'], dev.get(f'{C}/{later}/supports').json['supports']), ([], []), 'a precursor is no dependency')
for tail in ('', '/deps', '/supports'):
    refused(dev.get(f'{C}/unknown{tail}'), 404, 'not_found', text=f'an unknown CSID{tail}')
    refused(blue.get(f'{C}/{first}{tail}'), 404, 'not_found', text=f'another tenant\'s{tail}')
same((blue.get(C).json['changesets'], blue.get('/v1/report').json['total']['changesets']), ([], 0), 'nor does its list have any')

# ---- the queue ----
refused(dev.get('/v1/targets/nothing'), 404, 'not_found', text='no such target')
refused(blue.get('/v1/targets/docs'), 404, 'not_found', text='another tenant\'s target')
same((queue('code')['queue'], queue('code')['counts']['P']), ([], 0), 'a target that nothing was submitted to')
told = queue()
same([(c.get('position'), c['csid'], c['state']) for c in told['queue']], [(1, first, 'P'), (2, move, 'S'), (3, later, 'S'), (4, needs, 'S')],
     'pending ones in the order of their starts, then staged ones in the order of the sort key')
same((told['counts']['P'], told['counts']['S'], told['truncated'], told['next']), (1, 3, False, None), 'and the counts')
pages = [queue(query=f'?limit=1&cursor={i}')['queue'] for i in range(5)]
same([[c['csid'] for c in p] for p in pages], [[first], [move], [later], [needs], []], 'page by page, whatever the state')
same(queue(query='?limit=1')['next'], '1', 'with the cursor of the next page')

# ---- why ----


def why(csid):
    return {c['kind']: c for c in dev.get(f'/v1/tasks/{csid}/why').json['conditions']}


ok(first in why(later)['precursor']['detail'] and 'a.txt' in why(later)['precursor']['detail'], 'why: the precursor, its state, the path', why(later))
ok(first in why(needs)['dependency']['detail'], 'why: the dependency', why(needs))
ok('EM' in why(move)['approval']['detail'] + why(move)['approval']['remedy'] and 'weir cs approve' in why(move)['approval']['remedy'], 'why: the approval, with the move type and the command',
   why(move))
ok('--apply' in why(first)['executor']['remedy'], 'why: no executor takes `apply`: the option that makes one', why(first))

# ---- approval ----
A = f'{C}/{move}/approve'
refused(dev.post(A, dict(ticket='T-1')), 403, 'forbidden', text='RQ34: only an admin approves')
for body, field in ((dict(), '/ticket'), (dict(ticket=' '), '/ticket'), (dict(ticket='a\nWeir-CSID: b'), '/ticket'), (dict(ticket='x' * 1001), '/ticket'), (dict(ticket='x', more=1), '/more')):
    answer = boss.post(A, body)
    ok(answer.status == 422 and answer.json['errors'][0]['path'] == field, f'{str(body)[:40]}: 422 at {field}', answer)
refused(boss.post(f'{C}/unknown/approve', dict(ticket='x')), 404, 'not_found', text='an unknown CSID')
refused(blue.post(A, dict(ticket='x')), 404, 'not_found', text='another tenant\'s')
own = submit(['own.txt'], who=boss, movetype='EM')
refused(boss.post(f'{C}/{own}/approve', dict(ticket='x')), 403, 'forbidden', text='RQ34: self_approval: false')
same((show(own)['state'], show(move)['state']), ('S', 'S'), 'nothing has changed')
told = boss.post(A, dict(ticket=' T-1 ')).json
same((told['state'], told['approval']), ('P', 'T-1'), 'RQ9: approved, it goes on')
same([(e['actor'], e['reason']) for e in told['history'] if e['kind'] == 'approved'], [('token:boss', 'T-1')], 'the history says who, with which ticket')
same(boss.post(A, dict(ticket='T-2')).json['approval'], 'T-1', 'one that has a ticket: 200, nothing changes')
same(boss.post(f'{C}/{first}/approve', dict(ticket='T-2')).json['approval'], None, 'one that needs none: likewise')

# ---- applied by an executor of kind apply ----
worker = Worker(site, 'applier', kinds=['apply'])


def grants(n=1):
    found = []
    until(lambda: found.extend(worker.claim(free=n - len(found), wait_ms=500)) or len(found) >= n)
    return found


grant, = grants()
same(grant['key'], dict(target='docs', name=move), 'RQ11: the emergency move starts first')
running = queue()['queue'][0]
same((running['csid'], running['state'], running.get('position')), (move, 'X', None), 'what is being applied heads the queue, without a position')
ok(move in why(first)['target']['detail'] if 'target' in why(first) else False, 'why: which one is being applied', why(first))
same(worker.finish(grant, exit=0).status, 200, 'its end')
same(show(move)['state'], 'D', 'it is done')
grant, = grants()
same(worker.finish(grant, exit=100).status, 200, 'the first one fails')
same([show(c)['state'] for c in (first, needs, later)], ['F', 'F', 'P'], 'RQ22: and what depends on it; what only has its file goes on')
ok(first in show(needs)['reason'], 'the reason names the dependency', show(needs))

# ---- retry: with those that failed because of it, behind what came meanwhile ----
between = submit(['b/c.txt'])
same(dev.post(f'/v1/tasks/{first}/retry', dict(reason='again')).status, 200, 'retry by CSID')
until(lambda: show(needs)['state'] == 'S', 'what failed because of it waits again')
same((show(first)['precursors'], show(first)['state']), ([later, between], 'S'), 'its precursors are computed again')

# ---- events, graph ----
events = [e for e in site.events() if e.get('csid')]
ok({e['csid'] for e in events} == {first, later, needs, move, own, between} and all(e['submitter'] == ('token:boss' if e['csid'] == own else 'token:dev') for e in events),
   'events of a change set\'s task carry csid and submitter', events[:3])
same([e['to'] for e in site.events() if e.get('csid') == needs and e.get('to') == 'F'], ['F'], 'so its submitter learns of the end')
graph = dev.get(f'/v1/tasks/{first}/graph').json
ok({(e['from'], e['to'], e['kind']) for e in graph['edges']} >= {(f'docs:{needs}', f'docs:{first}', 'depends'), (f'docs:{first}', f'docs:{between}', 'after')}, 'graph: dependencies and precursors', graph)

# ---- pause means the target too ----
same(site.post('/v1/lanes/docs/pause', dict(reason='freeze')).status, 200, 'a pause by the name of the archive')
ok(queue()['paused'] and queue()['reason'] == 'freeze' and 'pause' in why(later), 'means its target', queue())
site.post('/v1/lanes/docs/resume', {})
ok(not queue()['paused'] and 'pause' not in why(later), 'and so does its end')

# ---- the archive goes: what waits is abandoned ----
same(site.ask('DELETE', '/v1/archives/docs?reason=moved').status, 200, 'the archive is removed')
until(lambda: all(show(c)['state'] == 'A' for c in (first, later, needs, between)), 'its waiting change sets are abandoned')
ok(show(later)['reason'], 'and the reason says so', show(later))
refused(boss.post(f'{C}/{own}/approve', dict(ticket='x')), 409, 'already_ended', text='approval of one that has ended')
end()
