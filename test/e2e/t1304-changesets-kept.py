#!/usr/bin/env python3
# store: sqlite
"""Tarballs of change sets are kept as files of jobs are: in backups and restores, missed by verify, and gone when their change set is pruned."""
import hashlib
import os
import pathlib
import signal
import sys

sys.path.insert(0, os.environ.get('WEIR_TEST_LIB') or str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
from house import TMP, House, end, ok, run, same
from tarballs import tarball

s = House('data', slots=0)
C = '/v1/changesets'
s.post('/v1/archives', dict(name='docs', kind='external'))
bodies = {}
for i in range(4):
    body = tarball(files={f'f{i}': os.urandom(3000) * (500 if i == 0 else 1)})
    bodies[s.post(C, body).json['csid']] = body
csids = list(bodies)


def tarballs(server):
    return {csid: server.get(f'{C}/{csid}/tarball') for csid in csids}


def path(server, csid):
    name = hashlib.sha256(bodies[csid]).hexdigest()
    return server.dir / 'blobs' / name[:2] / name


same({c: a.body for c, a in tarballs(s).items()}, bodies, 'four tarballs, as they came')

# ---- pruned ----
task = s.get(f'/v1/tasks/{csids[3]}').json['id']
s.post(f'/v1/tasks/{task}/cancel', dict(reason='over'))
lane = next(n for n in s.get('/v1/lanes').json['lanes'] if n['counts']['T'] == 1)  # the archive has another of that name
same(s.post('/v1/prune', dict(older_than='1ms', dry_run=False)).json['tasks'], 1, 'one that has ended, without a start, can be pruned')
after = next(n for n in s.get('/v1/lanes').json['lanes'] if n['counts']['T'] == 1)
same(lane['file_bytes'] - after['file_bytes'], len(bodies[csids[3]]), 'and counts no more')
answer = s.cli('verify')
ok(answer.code == 0, 'verify is content', answer.out + answer.err)
path(s, csids[3]).unlink()
ok(s.cli('verify').code == 0, 'also when its tarball is swept')
same(s.get(f'{C}/{csids[3]}/tarball').status, 404, 'whose tarball is gone')

# ---- backup and restore ----
for option in ([], ['--without-artifacts']):
    name = f'copy{len(option)}'
    same(s.cli('backup', *option, TMP / name).code, 0, 'a backup ' + ' '.join(option))
    same(run('restore', TMP / name, '--data', TMP / f'back-{name}').code, 0, 'restored')
    r = House(f'back-{name}', slots=0)
    same([r.get(f'{C}/{csid}/tarball').body == bodies[csid] for csid in csids[:3]], [True] * 3, 'tarballs of change sets that wait are in it')
    same(r.cli('verify').code, 0, 'and it is sound')
    again = r.post(C, bodies[csids[0]])
    same((again.status, again.json['csid']), (200, csids[0]), 'the same content is known there')
    r.stop(signal.SIGINT)

# ---- missing, and wrong ----
path(s, csids[1]).write_bytes(b'X' + bodies[csids[1]][1:])
answer = s.cli('verify')
ok(answer.code == 1 and 'tarball of the change set' in answer.out + answer.err and 'other bytes' in answer.out + answer.err, 'verify names one with other bytes', answer.out + answer.err)
path(s, csids[1]).write_bytes(bodies[csids[1]])
same(s.cli('verify').code, 0, 'put right')
path(s, csids[2]).unlink()
answer = s.cli('verify')
ok(answer.code == 1 and 'is missing' in answer.out + answer.err, 'and one that is missing', answer.out + answer.err)
same(s.get(f'{C}/{csids[2]}/tarball').status, 404, 'whoever asks for it is told')
answer = s.cli('backup', TMP / 'poor')
ok(answer.code == 0 and '1 artifact' in answer.err, 'a backup says what it has not', answer.err)
s.stop(signal.SIGINT)
answer = run('verify', '--data', s.dir)
ok(answer.code == 1 and 'is missing' in answer.out + answer.err, 'verify without a server, too', answer.out + answer.err)
end()
