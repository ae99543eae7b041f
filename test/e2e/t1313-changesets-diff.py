#!/usr/bin/env python3
"""RQ35: GET /v1/changesets/CSID/diff and `weir cs diff` on a real Subversion and a real git repository: what a change set would change, and what it did change."""
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, os.environ.get('WEIR_TEST_LIB') or str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
from house import TMP, House, end, ok, same, until
from repos import git_make, sh, svn_make
from tarballs import tarball

s = House('data', slots=1)


def diff(csid):
    return s.get(f'/v1/changesets/{csid}/diff')


def state(csid):
    return s.get(f'/v1/changesets/{csid}').json['state']


def patched(place, kind, rev, text):
    """the diff is taken by patch -p1 on the files of that revision: what d0/file1 is then"""
    out = pathlib.Path(TMP) / f'{kind}-{rev}'
    if kind == 'svn':
        sh(f'svn export -q -r {rev} file://{place} {out}')
    else:
        sh(f'mkdir {out} && git -C {place} archive {rev} | tar -x -C {out}')
    subprocess.run(['patch', '-s', '-p1', '-d', str(out)], input=text, check=True)
    return (out / 'd0/file1').read_text(), (out / 'new').exists(), os.access(out / 'run.sh', os.X_OK)


for kind, make in (('svn', svn_make), ('git', git_make)):
    place = make(f'{kind}repo', 2)
    same(s.post('/v1/archives', dict(name=kind, kind=kind, url=place)).status, 201, f'an archive: {kind}')
    head = (lambda: sh(f'svnlook youngest {place}')) if kind == 'svn' else (lambda: sh(f'git -C {place} rev-parse main'))
    before = head()
    same(s.post(f'/v1/lanes/{kind}/pause', dict(reason='look first')).status, 200, f'{kind}: nothing starts')
    one = s.post('/v1/changesets', tarball(files={'d0/file1': b'mine\n', 'new': b'n\n'}, target=kind)).json['csid']
    got = diff(one)
    ok(got.status == 200 and b'+mine' in got.body and b'+++ b/new' in got.body, f'{kind}: waiting: against the branch as it is', got)
    same(patched(place, kind, before, got.body)[:2], ('mine\n', True), f'{kind}: patch takes it')
    same(s.post(f'/v1/lanes/{kind}/resume', dict(reason='go')).status, 200, f'{kind}: it goes on')
    until(lambda: state(one) == 'D', f'{kind}: it is applied')
    two = s.post('/v1/changesets', tarball(files={'d0/file1': b'mine\nand more\n'}, target=kind)).json['csid']
    until(lambda: state(two) == 'D', f'{kind}: another follows it')
    same(diff(one).body, got.body, f'{kind}: applied: the same, against the branch as it was before it')
    got = diff(two)
    ok(b'+and more' in got.body and b'\n mine' in got.body and b'+mine' not in got.body, f'{kind}: of the second one only what it changed', got)
    cli = subprocess.run([os.environ['WEIR'], 'cs', 'diff', two, '--server', s.url], capture_output=True, env=dict(os.environ, WEIR_TOKEN=s.token or ''))
    same((cli.returncode, cli.stdout), (0, got.body), f'{kind}: weir cs diff prints it')
    back = s.post('/v1/rollbacks', dict(csids=[two])).json['csid']
    until(lambda: state(back) == 'D', f'{kind}: a rollback')
    got = diff(back)
    ok(got.status == 404 and 'rollback' in got.json['detail'], f'{kind}: a rollback brings no files', got)
    big = s.post('/v1/changesets', tarball(files={'big': (b'x' * 63 + b'\n') * (17 << 14)}, target=kind)).json['csid']
    got = diff(big)
    ok(got.status == 413 and got.json['code'] == 'body_too_large', f'{kind}: longer than 16 MiB: it is refused, not cut', got)
    until(lambda: state(big) == 'D', f'{kind}: it is applied all the same')
    os.rename(place, place + '-away')
    got = diff(one)
    ok(got.status >= 500 or got.status == 404, f'{kind}: a repository that is away is an error', got)
    os.rename(place + '-away', place)
same(diff('none').status, 404, 'an unknown change set')
same(os.listdir(s.dir / 'tmp'), [], 'nothing is left in tmp/')
end()
