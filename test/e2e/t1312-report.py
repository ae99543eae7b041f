#!/usr/bin/env python3
"""RQ30 RQ35: the report: counts by target, move type, submitter and day, with waiting times, as JSON and CSV."""
import csv
import io
import os
import pathlib
import sys

sys.path.insert(0, os.environ.get('WEIR_TEST_LIB') or str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
from house import House, Worker, end, ok, same, until
from tarballs import tarball
from voices import Voice, voice

s = House('data', slots=0)
site = Voice(s)
ada, bob = voice(s, 'default', 'read', 'enqueue', name='rp-ada'), voice(s, 'default', 'read', 'enqueue', name='rp-bob')
for name in ('docs', 'code'):
    site.post('/v1/archives', dict(name=name, kind='external'))
GROUPS = ('submitted', 'in_progress', 'applied', 'failed', 'terminated', 'abandoned', 'rolled_back')
R = '/v1/report'
empty = ada.get(R).json
same((empty['rows'], empty['total']['changesets'], empty['total']['waiting_median_ms']), ([], 0, None), 'nothing yet')
worker = Worker(site, 'applier', kinds=['apply'])


def submit(who, path, **sections):
    return who.ask('POST', '/v1/changesets', tarball(files={path: os.urandom(8)}, **sections)).json['csid']


def finish(exit):
    found = []
    until(lambda: found.extend(worker.claim(free=1 - len(found), wait_ms=500)) or found)
    same(worker.finish(found[0], exit=exit).status, 200, f'one ends with {exit}')


submit(ada, 'a.txt')
finish(0)
submit(ada, 'b.txt')
finish(0)
submit(bob, 'c.txt', movetype='BF')
finish(100)
submit(bob, 'd.txt', target='code')
stopped = submit(bob, 'e.txt', target='code')
site.post(f'/v1/tasks/{stopped}/cancel', dict(reason='r'))


def counts(row):
    return {g: row[g] for g in GROUPS if row[g]}


told = ada.get(R).json
same([(r['target'], r['type'], r['submitter'], counts(r)) for r in told['rows']],
     [('code', 'DC', 'token:rp-bob', dict(in_progress=1, terminated=1)), ('docs', 'BF', 'token:rp-bob', dict(failed=1)), ('docs', 'DC', 'token:rp-ada', dict(applied=2))],
     'RQ35: by target, move type and submitter')
same((told['total']['changesets'], sum(told['total'][g] for g in GROUPS), told['truncated']), (5, 5, False), 'RQ30: the groups make the whole')
rows = {r['submitter']: r for r in ada.get(f'{R}?by=submitter').json['rows']}
same((rows['token:rp-ada']['changesets'], rows['token:rp-bob']['changesets']), (2, 3), 'by submitter alone')
ok('target' not in rows['token:rp-ada'], 'without the others')
waits = rows['token:rp-ada']
ok(0 <= waits['waiting_median_ms'] <= waits['waiting_p95_ms'] < 60000, 'waiting times', waits)
same([(len(r['day']), r['changesets']) for r in ada.get(f'{R}?by=day').json['rows']][0][0], 10, 'by day')
for query, n in (('target=docs', 3), ('target=none', 0), ('type=BF', 1), ('submitter=token:rp-ada', 2), ('from=2100-01-01T00:00:00Z', 0), ('until=2001-01-01T00:00:00Z', 0),
                 ('from=2001-01-01T00:00:00Z&until=2100-01-01T00:00:00Z&target=code', 2)):
    same(ada.get(f'{R}?{query}').json['total']['changesets'], n, query)

answer = ada.get(f'{R}?format=csv')
table = list(csv.DictReader(io.StringIO(answer.body.decode())))
same(list(table[0]), ['target', 'type', 'submitter', 'changesets', *GROUPS, 'waiting_median_ms', 'waiting_p95_ms'], 'CSV: its head')
same([(r['target'], r['type'], r['submitter'], {g: int(r[g]) for g in GROUPS if int(r[g])}) for r in table],
     [(r['target'], r['type'], r['submitter'], counts(r)) for r in told['rows']], 'the same as CSV')
for query, field in (('format=xml', 'format'), ('by=shoe', 'by'), ('from=yesterday', 'from'), ('type=XX', 'type'), ('target=a/b', 'target'), ('limit=1', 'limit')):
    answer = ada.get(f'{R}?{query}')
    ok(answer.status == 400 and answer.json['errors'][0]['path'] == field, f'{query}: 400, which names it', answer)
end()
