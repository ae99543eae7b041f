#!/usr/bin/env python3
# store: sqlite
"""RQ17: change sets on a disk that gets full: refused with 507 and nothing left, whether the body or the kept file has no room; room heals it."""
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, os.environ.get('WEIR_TEST_LIB') or str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
from house import TMP, House, end, ok, refused, same, skip, until
from tarballs import tarball

room = TMP / 'room'
room.mkdir()
mounted = subprocess.run(['mount', '-t', 'tmpfs', '-o', 'size=48m,mode=0755', 'weir-test', str(room)], capture_output=True, text=True)
if mounted.returncode != 0:
    skip('a full disk', 'no tmpfs can be mounted here: ' + mounted.stderr.strip().replace('#', ''))
    end()


def free_bytes():
    st = os.statvfs(room)
    return st.f_bavail * st.f_frsize


def fill(leave):
    """the disk, but for so many bytes"""
    with open(room / 'filler', 'ab') as f:
        while (more := free_bytes() - leave) > 4096:
            f.write(b'x' * min(more, 1 << 20))
            f.flush()


try:
    s = House('room/data', slots=0)
    C = '/v1/changesets'
    s.post('/v1/archives', dict(name='docs', kind='external'))
    same(s.post(C, tarball(files={'a': b'a'})).status, 202, 'a change set')
    large = tarball(files={'b': os.urandom(12 << 20)})
    fill(4 << 20)
    refused(s.post(C, large), 507, 'disk_full', text='a body that has no room')
    until(lambda: free_bytes() > 3 << 20, 'its bytes are given back')
    kept = [p for p in (s.dir / 'blobs').rglob('*') if p.is_file()]
    same((len(kept), os.listdir(s.dir / 'tmp')), (1, []), 'nothing of it is left')
    small = s.post(C, tarball(files={'c': b'c'}))
    ok(small.status in (202, 507), 'a small one is taken as long as there is room', small)
    os.unlink(room / 'filler')
    until(lambda: s.post(C, large).status in (200, 202), 'with room it is taken')
    s.stop()
finally:
    ok(until(lambda: subprocess.run(['umount', str(room)], capture_output=True).returncode == 0, seconds=20), 'unmounted')
end()
