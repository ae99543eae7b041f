#!/usr/bin/env python3
"""RQ27 RQ35: change sets taken back over HTTP: refused at their place, planned as a tree, made once, done."""
import os
import pathlib
import sys

sys.path.insert(0, os.environ.get('WEIR_TEST_LIB') or str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
from house import House, Worker, end, ok, refused, same, until
from tarballs import tarball
from voices import Voice, voice

s = House('data', slots=0)
site = Voice(s)
dev, reader, blue = voice(s, 'default', 'read', 'enqueue', name='rb-dev'), voice(s, 'default', 'read', name='rb-reader'), voice(s, 'blue', 'admin', name='rb-blue')
C, R = '/v1/changesets', '/v1/rollbacks'
for name in ('docs', 'code'):
    site.post('/v1/archives', dict(name=name, kind='external'))
worker = Worker(site, 'applier', kinds=['apply'])


def submit(files, **sections):
    answer = dev.ask('POST', C, tarball(files={path: os.urandom(8).hex().encode() for path in files}, **sections))
    ok(answer.status == 202, f'submitted: {files}', answer)
    return answer.json['csid']


def show(csid):
    return dev.get(f'{C}/{csid}').json


def apply(csid):
    found = []
    until(lambda: found.extend(worker.claim(free=1 - len(found), wait_ms=500)) or found)
    same((found[0]['key']['name'], worker.finish(found[0], exit=0).status), (csid, 200), f'{csid} is applied')


first = submit(['a.txt'])
apply(first)
second = submit(['b.txt'], dependencies=[first])
apply(second)
waits = submit(['c.txt'], dependencies=[second])
after = submit(['a.txt'])
other = submit(['a.txt'], target='code')


# ---- refused ----
def fault(body, status, path, text):
    answer = dev.post(R, body)
    ok(answer.status == status and [e['path'] for e in answer.json.get('errors', [])] == [path], text, answer)


fault(dict(), 422, '/csids', 'csids are needed')
fault(dict(csids=[]), 422, '/csids', 'an empty list')
fault(dict(csids=['unknown']), 422, '/csids/0', 'an unknown CSID: at its place')
fault(dict(csids=[first, 'unknown']), 422, '/csids/1', 'the second one is unknown')
fault(dict(csids=[first, other]), 422, '/csids/1', 'one of another target')
fault(dict(csids=[first, first]), 422, '/csids/1', 'named twice')
fault(dict(csids=[first, 7]), 422, '/csids/1', 'no text')
fault(dict(csids=[first], more=1), 422, '/more', 'an unknown field')
ok(dev.post(R, dict(csids=[f'c{i}' for i in range(1001)])).status == 422, 'too many')
ok(dev.post(R, dict(csids=[first], message='m' * 65537)).status == 422, 'too long a message')
refused(reader.post(R, dict(csids=[first])), 403, 'forbidden', text='without the scope enqueue')
ok(blue.post(R, dict(csids=[first])).status == 422, 'another tenant\'s aren\'t there')
same([c['csid'] for c in dev.get(f'{C}?type=RB').json['changesets']], [], 'and nothing was made')

# ---- planned ----
plan = dev.post(R, dict(csids=[first], dry_run=True))
same(plan.status, 200, 'dry_run: 200')
same([(m['csid'], m['because'], m['depth'], m['state'], m['action']) for m in plan.json['members']],
     [(first, None, 0, 'D', 'undo'), (second, first, 1, 'D', 'undo'), (waits, second, 2, 'P', 'abandon')], 'RQ27: the closure, as a tree with states')
same((plan.json['exceeded'], plan.json['limit'], plan.json['target']), (False, 50, 'docs'), 'and the limit')
wide = dev.post(R, dict(csids=[first], dry_run=True, with_overlapping=True)).json['members']
ok({(m['csid'], m['because'], m['overlaps']) for m in wide} >= {(after, first, True), (second, first, False)}, 'with_overlapping: later ones on the same files too', wide)
site.post('/v1/config', dict(text='changesets: {rollback_limit: 2}'))
plan = dev.post(R, dict(csids=[first], dry_run=True)).json
same((plan['exceeded'], plan['limit']), (True, 2), 'over the limit: it says so')
site.post('/v1/config', dict(text='changesets: {rollback_limit: 50}'))
same([c['csid'] for c in dev.get(f'{C}?type=RB').json['changesets']], [], 'nothing was made, nothing is held')
same((show(waits)['state'], show(first)['rolled_back_by']), ('P', None), 'nothing has changed')

# ---- made, once ----
key = {'Idempotency-Key': 'rb-1'}
one = dev.post(R, dict(csids=[first], message='back'), headers=key)
two = dev.post(R, dict(csids=[first], message='back'), headers=key)
same((one.status, sorted(one.json), one.json['csid'] == two.json['csid']), (202, ['csid', 'name', 'state', 'task'], True), 'RQ35: a rollback; with its key the same again')
refused(dev.post(R, dict(csids=[second]), headers=key), 422, 'idempotency_mismatch', text='the key with another body')
rb = one.json['csid']
ok(one.json['name'].startswith(rb + '_4') and '_RB_' in one.json['name'], 'named as the others', one)
told = show(rb)
same((told['movetype'], told['dependencies'], told['files'], told['submitter']), ('RB', [first], [], 'token:rb-dev'), 'what it takes back')
same((dev.get(f'{C}/{rb}/deps').json['deps'], dev.get(f'{C}/{first}/supports').json['supports']), ([], [second]), 'what it lists is no dependency')
same(show(waits)['state'], 'S', 'a waiting member is held')
why = {c['kind']: c for c in dev.get(f'/v1/tasks/{waits}/why').json['conditions']}
ok(rb in why['rollback']['detail'] + why['rollback'].get('holder', ''), 'why: the rollback', why)

apply(rb)
same([(show(c)['state'], show(c)['rolled_back_by']) for c in (first, second, waits, after)], [('D', rb), ('D', rb), ('A', None), ('P', None)],
     'RQ27: done: the applied ones are rolled back, the waiting one is abandoned, others stay')
same(show(rb)['dependencies'], [second, first] if show(rb)['dependencies'][0] == second else [first, second], 'the rollback says what it has undone')

# ---- reported ----
total = dev.get('/v1/report').json['total']
same((total['rolled_back'], total['abandoned']), (2, 1), 'RQ35: in the report they count as rolled back')
end()
