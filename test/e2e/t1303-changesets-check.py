#!/usr/bin/env python3
"""POST /v1/changesets?check=1 on a real Subversion and a real git repository: the conflicts that a change set would have now; nothing is written, nothing is left."""
import os
import pathlib
import shutil
import sys

sys.path.insert(0, os.environ.get('WEIR_TEST_LIB') or str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
from house import TMP, House, end, ok, same
from repos import archive, git_make, sh, svn_make
from tarballs import tarball

s = House('data', slots=0)
C = '/v1/changesets?check=1'
for kind, make in (('svn', svn_make), ('git', git_make)):
    if not shutil.which('svnadmin' if kind == 'svn' else 'git'):
        continue
    place = make(f'{kind}repo', 2)
    same(s.post('/v1/archives', dict(name=kind, kind=kind, url=place)).status, 201, f'an archive: {kind}')
    if kind == 'svn':
        base, head = '1', lambda: sh(f'svnlook youngest {place}')
    else:
        base, head = sh(f'git -C {place} rev-parse main'), lambda: sh(f'git -C {place} rev-parse main')
    was = head()
    got = s.post(C, tarball(files={'new/file': b'x'}, target=kind))
    same((got.status, got.json['conflicts'], got.json['looked'], got.json['precursors']), (200, [], True, []), f'{kind}: nothing is in the way')
    got = s.post(C, tarball(files={'d0/file1': b'mine\n'}, target=kind))
    same((got.status, got.json['conflicts']), (200, []), f'{kind}: without a base the file is taken as it is')
    if kind == 'svn':
        sh(f'svn co -q file://{place} wc && echo theirs > wc/d0/file1 && svn ci -q -m theirs wc')
    else:
        sh(f'git clone -q {place} gwc && cd gwc && echo theirs > d0/file1 && git commit -q -am theirs && git push -q origin HEAD')
    was = head()
    got = s.post(C, tarball(files={'d0/file1': b'mine\n'}, target=kind, base=base))
    one = got.json['conflicts'][0] if got.json['conflicts'] else {}
    ok(got.status == 200 and one.get('path') == 'd0/file1' and one.get('first_line') == 1 and one.get('revision') == was and 'd0/file1' in one['message'],
       f'{kind}: changed since its base: path, lines and revision', got)
    got = s.post(C, tarball(files={'a': b'x'}, removed=['none/such'], target=kind))
    ok(len(got.json['conflicts']) == 1 and 'none/such' in got.json['conflicts'][0]['message'], f'{kind}: a path to be removed that is not there', got)
    got = s.post(C, tarball(files={'a': b'x'}, target=kind, base='nonsense'))
    ok(got.status == 200 and len(got.json['conflicts']) == 1, f'{kind}: a base that there is not', got)
    same(head(), was, f'{kind}: nothing was written')
    os.rename(place, place + '-away')
    got = s.post(C, tarball(files={'a': b'x'}, target=kind))
    ok(got.status == 200 and got.json['looked'] is False and got.json['unlooked'], f'{kind}: a repository that is away: it is said, and the rest is checked', got)
    os.rename(place + '-away', place)
same([t for t in s.get('/v1/tasks?limit=1000').json['tasks'] if 'target' in t['key']], [], 'no change set was made')
same((os.listdir(s.dir / 'tmp'), [p for p in (s.dir / 'blobs').rglob('*') if p.is_file()]), ([], []), 'and nothing is left')
end()
