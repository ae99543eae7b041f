#!/usr/bin/env python3
"""Change sets of tenants, of tokens and of jobs: who may submit, whose target and whose tarball it is, and what counts in quotas."""
import os
import pathlib
import sys

sys.path.insert(0, os.environ.get('WEIR_TEST_LIB') or str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
from house import House, Worker, end, ok, refused, same
from tarballs import meta, tarball
from voices import Voice, voice

conf = pathlib.Path(os.environ.get('TEST_TMP', '/tmp')) / 'weir.yaml'
conf.write_text('tenants: {red: {quotas: {files: 60KiB}}, blue: {}}\nchangesets: {approval: [EM], limits: {files: 3}}\n')
s = House('data', '--config', str(conf), slots=0, lease='10m')
site = Voice(s)
red, blue, ask = voice(s, 'red', 'admin'), voice(s, 'blue', 'enqueue'), voice(s, 'red', 'read', name='reader')
C = '/v1/changesets'
for who in (red, site):
    same(who.post('/v1/archives', dict(name='docs', kind='external')).status, 201, 'an archive of that name')
body = tarball(files={'a': b'a'})
mine, theirs = red.ask('POST', C, body), site.ask('POST', C, body)
same((mine.status, theirs.status, mine.json['csid'] != theirs.json['csid']), (202, 202, True), 'the same content in two tenants: two change sets')
refused(blue.ask('POST', C, body), 422, 'invalid', '/target', 'another tenant\'s target')
refused(ask.ask('POST', C, body), 403, 'forbidden', text='a token that may only read')
refused(blue.ask('POST', C + '?tenant=red', body), 403, 'forbidden', text='naming another tenant')
named = site.ask('POST', C + '?tenant=red', tarball(files={'b': b'b'}))
same(named.status, 202, 'the site\'s admin for a tenant')
same(red.get(f'{C}/{named.json["csid"]}/tarball').status, 200, 'which is that tenant\'s')
refused(red.ask('POST', C, tarball(files={'c': b'c'}, dependencies=[theirs.json['csid']])), 422, 'invalid', '/dependencies/0', 'a dependency of another tenant')

# ---- the tarball ----
T = f'{C}/{mine.json["csid"]}/tarball'
got = ask.get(T)
same((got.status, got.body == body), (200, True), 'the tarball, to the byte')
got = ask.ask('GET', T, headers={'Range': 'bytes=10-19'})
same((got.status, got.body), (206, body[10:20]), 'a range of it')
same(ask.get(f'{C}/docs:{mine.json["csid"]}/tarball').body == body, True, 'by its key')
for path in (T, f'{C}/{mine.json["task"]}/tarball'):
    refused(blue.get(path), 403, 'forbidden', text='without read')
blue = voice(s, 'blue', 'read', 'enqueue', name='b2')
for path in (T, f'{C}/{mine.json["task"]}/tarball', f'{C}/nobody/tarball'):
    refused(blue.get(path), 404, 'not_found', text='another tenant\'s, or nobody\'s')
rollback = red.ask('POST', C, tarball(meta(movetype='RB', dependencies=[mine.json['csid']])))
same(rollback.status, 202, 'a rollback by tarball')

# ---- the site's keys: limits, approval ----
refused(red.ask('POST', C, tarball(files={str(i): b'' for i in range(4)})), 413, 'body_too_large', text='four files where three may be')
waits = red.ask('POST', C, tarball(files={'e': b'e'}, movetype='EM'))
same((waits.status, waits.json.get('state')), (202, 'S'), 'a move type that needs a ticket waits')
same(red.ask('POST', C, tarball(files={'f': b'f'}, movetype='EM', approval='T-1')).json['state'], 'P', 'one that brings it doesn\'t')

# ---- check=1: everything, and nothing is stored ----
def count():
    return len([t for t in red.get('/v1/tasks?limit=1000').json['tasks']])


before = count()
got = red.ask('POST', C + '?check=1', tarball(files={'a': b'other'}, removed=['b'], precursors=[waits.json['csid']]), headers={'Idempotency-Key': 'c'})
same((got.status, sorted(got.json['precursors'])), (200, sorted([mine.json['csid'], named.json['csid'], waits.json['csid']])), 'check=1: the precursors that it would get')
same(count(), before, 'nothing was made')
same(red.ask('POST', C + '?check=1', body).json['precursors'], [mine.json['csid']], 'a known content is checked like any other')
refused(red.ask('POST', C + '?check=1', tarball(files={'a': b'x'}, dependencies=['nobody'])), 422, 'invalid', '/dependencies/0', 'and refused like any other')
refused(red.ask('POST', C + '?check=1', b'x'), 422, 'invalid', text='what is no tarball')

# ---- quotas ----
used = site.quotas('red')['files']
ok(used[0] > 0 and used[1] == 60 * 1024, 'tarballs count as kept files', used)
refused(red.ask('POST', C, tarball(files={'big': os.urandom(50000)})), 507, 'quota_full', text='beyond the quota of files')
same(site.quotas('red')['files'], used, 'which hasn\'t changed')

# ---- a job's own token ----
worker = Worker(site, 'w')
site.post('/v1/tasks', dict(name='t', queue='q', command='x'))
grant = next(g for g in worker.claim(5) if g['spec'].get('command'))
job = Voice(s, grant['spec']['token'])
got = job.ask('POST', C, tarball(files={'j': b'j'}))
same(got.status, 202, 'a job may submit')
refused(job.get(f'{C}/{got.json["csid"]}/tarball'), 403, 'forbidden', text='and not read the tarballs of others')
worker.finish(grant)
refused(job.ask('POST', C, tarball(files={'k': b'k'})), 401, 'unauthorized', text='a job that has ended')
end()
