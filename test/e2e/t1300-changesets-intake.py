#!/usr/bin/env python3
"""RQ1 RQ2 RQ3 RQ6 RQ7 RQ17: change sets come in over HTTP: accepted, known again, refused; what is refused leaves nothing behind."""
import hashlib
import os
import pathlib
import re
import sys
import tarfile

sys.path.insert(0, os.environ.get('WEIR_TEST_LIB') or str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
from house import House, end, ok, refused, same
from tarballs import LROOT, entry, meta, pack, tarball

s = House('data', slots=0)
C = '/v1/changesets'
s.post('/v1/archives', dict(name='docs', kind='external'))
s.post('/v1/archives', dict(name='code', kind='external'))
same(s.post('/v1/tasks', dict(queue='jobs', name='x', data=1)).status, 201, 'a queue, whose name no change set can have')


def left():
    """what there is of change sets: tasks, kept files, files in tmp/"""
    tasks = s.get('/v1/tasks?limit=1000').json['tasks']
    blobs = sorted(p.name for p in (s.dir / 'blobs').rglob('*') if p.is_file() and len(p.name) == 64) if s.dir.joinpath('blobs').exists() else []
    news = [p.name for p in (s.dir / 'blobs/new').rglob('*')] if (s.dir / 'blobs/new').exists() else []
    return [t['id'] for t in tasks], blobs, news, os.listdir(s.dir / 'tmp')


# ---- accepted ----
body = tarball(files={'a.txt': b'one\n'}, message='first')
first = s.post(C, body)
same(first.status, 202, 'RQ1: a change set is accepted: 202')
same(sorted(first.json), ['csid', 'name', 'state', 'task'], 'and its members')
name = first.json['name']
ok(re.fullmatch(r'[A-Za-z0-9.-]{1,64}_40000000[0-9a-f]{16}_\d+_[A-Za-z0-9.-]+_DC_uid-\d+', name), 'RQ2: its name: CSID, TAI64N, pid, host, move type, submitter', name)
ok(name.startswith(first.json['csid'] + '_') and not first.json['csid'].isdigit(), 'which begins with the CSID', first)
same(s.get(f'/v1/tasks/{first.json["task"]}').json['state'], first.json['state'], 'the state is that of its task')
if os.environ.get('WEIR_TEST_STORE', 'sqlite') == 'sqlite':
    same(left()[1], [hashlib.sha256(body).hexdigest()], 'the tarball is kept under its hash')
same(left()[3], [], 'tmp/ is empty')
again = s.post(C, body)
same((again.status, again.json), (200, first.json), 'RQ1: the same content again: 200, the same')
again = s.post(C + '?again=1', body)
same((again.status, again.json['csid']), (200, first.json['csid']), 'again=1 while the first is in the queue: the same')
s.post(f'/v1/tasks/{first.json["task"]}/cancel', dict(reason='over'))
same((s.post(C, body).status, s.post(C, body).json['state']), (200, 'T'), 'ended: still the same')
second = s.post(C + '?again=1', body)
same((second.status, second.json['csid'] != first.json['csid']), (202, True), 'again=1 of one that has ended: a new one')
for mode in ('w:gz', 'w:xz'):
    same(s.post(C, tarball(files={'z.txt': mode.encode()}, mode=mode)).status, 202, f'RQ3: {mode[2:]} around it')
same(s.post(C, tarball(meta(removed=['old.txt']))).status, 202, 'RQ7: only removed paths')
same(s.post(C, tarball(meta(movetype='RB', dependencies=[second.json['csid']]))).status, 202, 'RQ3: a rollback without lroot/')
named = s.post(C, tarball(files={'b.txt': b'b'}, movetype='EM', dependencies=[second.json['csid']], message=['x', 'y'], base='7'))
same((named.status, '_EM_' in named.json['name']), (202, True), 'an emergency move that depends on another')

key = {'Idempotency-Key': 'k1'}
one = s.post(C, tarball(files={'k.txt': b'k'}), headers=key)
two = s.post(C, tarball(files={'k.txt': b'k'}), headers=key)
same((one.status, two.status, one.json['csid'] == two.json['csid']), (202, 202, True), 'with a key: the first answer again')
refused(s.post(C, tarball(files={'k.txt': b'other'}), headers=key), 422, 'idempotency_mismatch', text='same key, other content')

# ---- refused: each with its answer, and nothing is left ----
before = left()


def no(what, body, status=422, code='invalid', path=None, line=None, word=None, query='', headers=None):
    answer = s.post(C + query, body, headers=headers)
    good = answer.status == status and answer.code == code
    faults = answer.json.get('errors', [])
    if path is not None:
        good = good and any(f['path'] == path for f in faults)
    if line is not None:
        good = good and any(f.get('file') == 'meta' and f.get('line') == line for f in faults)
    if word is not None:
        good = good and word in answer.body.decode()
    ok(good, f'{what}: {status}', answer)
    same(left(), before, f'{what}: nothing is left')


F = {'f.txt': b'f'}
no('an empty body', b'', 400, 'bad_request')
no('no tarball', b'hello')
no('a tarball cut in its middle', tarball(files=F)[:1200])
no('a wrong checksum', b'X' + tarball(files=F)[1:])
no('no meta', pack(entry('lroot/a', b'a')))
no('two metas', pack(entry('meta', meta(files=F).encode()), entry('meta', meta(files=F).encode()), entry('lroot/f.txt', b'f')))
no('no target', tarball(meta(target=None, files=F), F), word='target')
no('an unknown target', tarball(files=F, target='nowhere'), path='/target')
no('no move type', tarball(meta(movetype=None, files=F), F), word='movetype')
no('an unknown move type', tarball(files=F, movetype='XX'), line=2)
no('nothing to do', tarball(meta()))
no('a section twice', tarball(meta(files=F) + '##target\ncode\n', F), line=7)
no('text before the first section', tarball('hello\n' + meta(files=F), F), line=1)
no('CR', tarball(meta(files=F).replace('\n', '\r\n'), F), line=1)
no('NUL', tarball(meta(files=F, message='a\0b'), F), line=8)
no('no UTF-8', tarball(meta(files=F, message='hey').encode() + b'\xff\n', F), line=9)
no('a listed file that is absent', tarball(meta(files=['f.txt', 'g.txt']), F), path='g.txt', line=7)
no('a file that is not listed', tarball(meta(files=['f.txt']), {'f.txt': b'f', 'g.txt': b'g'}), path='g.txt')
no('a path that differs by case', tarball(meta(files=['F.txt']), F), word='capital letters count')
no('a file twice', pack(entry('meta', meta(files=F).encode()), entry('lroot/f.txt', b'1'), entry('lroot/f.txt', b'2')), path='f.txt')
no('removed and in files', tarball(meta(files=F, removed=['f.txt']), F), line=8)
no('a file and a folder', tarball(files={'a': b'', 'a/b': b''}))
no('an RB with files', tarball(files=F, movetype='RB', dependencies=[second.json['csid']]))
no('an RB without dependencies', tarball(meta(movetype='RB')))
no('an unknown dependency', tarball(files=F, dependencies=['nobody']), path='/dependencies/0')
no('an unknown precursor', tarball(files=F, precursors=['nobody']), path='/precursors/0')
no('a dependency of another target', tarball(files=F, target='code', dependencies=[second.json['csid']]), path='/dependencies/0')
no('a dependency that is no CSID', tarball(files=F, dependencies=['a b']), line=8)
for path in ('../x', '/etc/x', 'a/../b', 'a//b', './a', 'a/.', '.git/config', 'a/.SVN/x', 'a\x01b', 'tab\tin'):
    no(f'the path {path!r}', pack(entry('meta', meta(files=[path]).encode()), entry(LROOT + path, b'x')))
no('a path of 1,025 bytes', tarball(files={'a/' * 512 + 'b': b''}), 413, 'body_too_large')
no('65 folders', tarball(files={'d/' * 65 + 'f': b''}), 413, 'body_too_large')
no('a symbolic link', pack(entry('meta', meta(files=F).encode()), entry('lroot/f.txt', type=tarfile.SYMTYPE, linkname='/etc/passwd')), path='lroot/f.txt')
no('a hard link', pack(entry('meta', meta(files=F).encode()), entry('lroot/f.txt', type=tarfile.LNKTYPE, linkname='meta')), path='lroot/f.txt')
no('a FIFO', pack(entry('meta', meta(files=F).encode()), entry('lroot/f.txt', type=tarfile.FIFOTYPE)), path='lroot/f.txt')
no('a device', pack(entry('meta', meta(files=F).encode()), entry('lroot/f.txt', type=tarfile.CHRTYPE)), path='lroot/f.txt')
no('set-uid', pack(entry('meta', meta(files=F).encode()), entry('lroot/f.txt', b'f', mode=0o4755)), path='lroot/f.txt')
no('an extended attribute', pack(entry('meta', meta(files=F).encode()), entry('lroot/f.txt', b'f', pax_headers={'SCHILY.xattr.user.x': 'y'})))
no('an entry beside lroot/', pack(entry('meta', meta(files=F).encode()), entry('lroot/f.txt', b'f'), entry('else', b'x')), path='else')
no('a meta of 1 MiB and more', tarball(meta(files=F, message='x' * (1 << 20)), F), 413, 'body_too_large')
no('gzip in gzip', __import__('gzip').compress(tarball(files=F, mode='w:gz')))
no('bytes behind the end', tarball(files=F) + b'x' * 512)
no('an unknown parameter', tarball(files=F), 400, 'bad_request', query='?agian=1')
no('a flag that is none', tarball(files=F), 400, 'bad_request', query='?again=maybe')
no('a key with a control character', tarball(files=F), 400, 'bad_request', headers={'Idempotency-Key': 'a\x01b'})
no('packed by the connection', tarball(files=F), 415, 'unsupported_media', headers={'Content-Encoding': 'gzip'})
refused(s.ask('PUT', C, b'x'), 405, 'method_not_allowed', text='PUT')
many = tarball(meta(target='nowhere', dependencies=['x y'], files=['../a']), {})
ok(len(s.post(C, many).json['errors']) >= 2, 'several faults at once')
end()
