#!/usr/bin/env python3
"""RQ13 RQ18 RQ14 RQ23: directories follow states and are repaired after a kill; prequeue/ takes empty entries and job files; what is foreign goes to corrupt/."""
# store: sqlite
import os
import pathlib
import sys
import time

sys.path.insert(0, os.environ.get('WEIR_TEST_LIB') or str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
from house import TMP, House, end, ok, refused, same, until
from tarballs import meta, tarball

s = House('data', slots=0)
BASE = s.dir / 'spool'
FOLDERS = dict(Q='queue', S='staging', P='pending', X='run', D='done', F='fail', T='term', A='abandon')
PQ, DATA, CORRUPT = BASE / 'prequeue', BASE / 'data', BASE / 'corrupt'


def where(name):
    return ''.join(letter for letter, folder in FOLDERS.items() if (BASE / folder / name).exists())


def label(ns=None):
    ns = time.time_ns() if ns is None else ns
    return f'{2**62 + 10 + ns // 10**9:016x}{ns % 10**9:08x}'


def name_of(csid, kind='DC', ns=None):
    return f'{csid}_{label(ns)}_7_host_{kind}_ada'


def put(name, text=b'', body=None):
    """the tarball first, then the entry, by a rename"""
    if body is not None:
        (DATA / name).write_bytes(body)
    (TMP / 'entry').write_bytes(text.encode() if isinstance(text, str) else text)
    os.rename(TMP / 'entry', PQ / name)


def corrupt(name):
    """the reason why an entry is in corrupt/"""
    found = [p for p in os.listdir(CORRUPT) if p.startswith(name) and p.endswith('.why')]
    return (CORRUPT / found[0]).read_text() if found and (CORRUPT / found[0][:-4]).is_symlink() + (CORRUPT / found[0][:-4]).exists() else ''


s.post('/v1/archives', dict(name='docs', kind='external'))
until(lambda: BASE.exists())

# -- what comes by HTTP is shown, with its tarball
body = tarball(files={'a.txt': b'one\n', 'b.txt': b'two\n'}, message='first')
one = s.post('/v1/changesets', body).json
two = s.post('/v1/changesets', tarball(files={'b.txt': b'2\n'})).json
began = time.monotonic()
ok(until(lambda: where(one['name']) == 'P' and where(two['name']) == 'S', seconds=10), 'RQ13 each job file stands in the directory of its state', where(one['name']), where(two['name']))
text = (BASE / 'pending' / one['name']).read_text()
ok('##message\nfirst' in text and f'##csid\n{one["csid"]}\n##state\nP\n##history\n4' in text, 'RQ21 it is the meta and csid, state and history', text)
ok(f'##precursors\n{one["csid"]}\n' in (BASE / 'staging' / two['name']).read_text(), 'RQ10 precursors are in the job file')
same((DATA / one['name']).read_bytes(), body, 'data/NAME is its tarball')
s.post(f'/v1/tasks/{one["task"]}/cancel', dict(reason='not now'))
ok(until(lambda: where(one['name']) == 'T' and where(two['name']) == 'P', seconds=10), 'RQ13 a cancelled one is in term/, its waiter in pending/')
ok(until(lambda: not (DATA / one['name']).exists(), seconds=10), 'and its tarball is gone')

# -- killed after the turn, before the projection; changed by hand meanwhile
s.kill()
os.rename(BASE / 'pending' / two['name'], BASE / 'done' / two['name'])
(BASE / 'term' / one['name']).unlink()
(BASE / 'run/stranger').write_text('x')
(BASE / 'queue/link').symlink_to('/etc/passwd')
s.start()
ok(until(lambda: where(one['name']) == 'T' and where(two['name']) == 'P', seconds=15), 'RQ13 the start repairs the spool from the store')
ok(until(lambda: corrupt('stranger') and corrupt('link'), seconds=10), 'R23 what nobody knows goes to corrupt/, with its reason')
same(os.readlink(next(p for p in CORRUPT.iterdir() if p.is_symlink())), '/etc/passwd', 'a link as it is')
os.rename(BASE / 'pending' / two['name'], BASE / 'fail' / two['name'])
ok(until(lambda: where(two['name']) == 'P', seconds=10), 'changed by hand while it runs: put right')

# -- RQ18: prequeue/
empty = name_of('e1')
put(empty, body=tarball(files={'e.txt': b'e'}))
ok(until(lambda: where(empty) == 'P', seconds=15), 'RQ18 an empty entry: the tarball in data/', os.listdir(PQ), os.listdir(CORRUPT))
ok(not (PQ / empty).exists(), 'and it lies in prequeue/ no more')
job = name_of('e2', 'BF')
put(job, meta(movetype='BF', files=['f.txt'], dependencies=['e1']), tarball(files={'f.txt': b'f'}, movetype='BF'))
ok(until(lambda: where(job) == 'S', seconds=15), "RQ18 a job file: its sections count: it waits for what its tarball doesn't name", os.listdir(PQ), os.listdir(CORRUPT))
back = name_of('r1', 'RB')
put(back, meta(movetype='RB', dependencies=['e1']))
ok(until(lambda: where(back) == 'P', seconds=15), "RQ18 a rollback's job file has no tarball", os.listdir(PQ), os.listdir(CORRUPT))

# -- in the order of the sort key, dependencies first; known content; cycles
scan = s.post('/v1/spool/scan', None)
same((scan.status, scan.json), (200, dict(accepted=0, known=0, corrupt=0, waiting=0)), 'a scan of an empty prequeue/')
s.kill()
names = [name_of('k1', 'DC', time.time_ns() - 3000), name_of('k2', 'EM', time.time_ns() - 2000), name_of('m1', 'DC', time.time_ns() - 1000), name_of('m2', 'BF')]
put(names[0], body=tarball(files={'k.txt': b'1'}))
put(names[1], body=tarball(files={'k2.txt': b'1'}, movetype='EM', dependencies=['k1']))
put(names[2], body=tarball(files={'m.txt': b'1'}))
put(names[3], body=tarball(files={'m.txt': b'2'}, movetype='BF'))
put(name_of('again'), body=tarball(files={'e.txt': b'e'}))
loop = [name_of('l1'), name_of('l2')]
put(loop[0], body=tarball(files={'l1': b'1'}, dependencies=['l2']))
put(loop[1], body=tarball(files={'l2': b'2'}, dependencies=['l1']))
put(name_of('bad'), body=b'this is no tarball')
put('not a name', b'x')
(PQ / name_of('hard')).write_bytes(b'')
os.link(next(p for p in PQ.iterdir() if p.name.startswith('hard')), TMP / 'second-link')
(PQ / name_of('sym')).symlink_to(DATA / names[0])
os.mkfifo(PQ / name_of('fifo'))
(PQ / name_of('dir')).mkdir()
put(b'\xfe\xff'.decode(errors='surrogateescape'), b'x')
s.start()
ok(until(lambda: [where(n) for n in names] == ['P', 'S', 'S', 'P'], seconds=20), 'RQ12 RQ20 the start takes what lies there: BF before DC on one file, a dependency first',
   [where(n) for n in names], os.listdir(PQ))
ok(until(lambda: os.listdir(PQ) == [], seconds=20), 'nothing is left in prequeue/', os.listdir(PQ))
for word, why in dict(l1='l1', l2='circle', bad='', sym='symbolic link', hard='more than one link', fifo='not a regular file', dir='not a regular file').items():
    ok(why in corrupt(word) and corrupt(word), f'R23 {word} is in corrupt/', corrupt(word))
ok(corrupt('not a name') and len([p for p in os.listdir(os.fsencode(CORRUPT)) if p.startswith(b'\xfe\xff')]) == 2, 'and names that are none')
ok('spool.known' in s.log.read_text(), 'an entry whose content is known was removed, and the log says so')

# -- what waits, and the FIFO
late = name_of('w1')
put(late)
scan = s.post('/v1/spool/scan', None).json
same(scan, dict(accepted=0, known=0, corrupt=0, waiting=1), 'a scan answers while an entry waits for its tarball')
(DATA / late).write_bytes(tarball(files={'w.txt': b'w'}))
with open(BASE / 'ctrl/prequeue_fifo', 'wb') as f:
    f.write(b'x')
ok(until(lambda: where(late) == 'P', seconds=8), 'RQ14 taken when the tarball has come')
with open(BASE / 'ctrl/prequeue_fifo', 'wb') as f:
    f.write(b'0' * 1000000)
ok(True, 'RQ14 a writer of a million bytes goes on')
never = name_of('w2')
put(never)
ok(until(lambda: 'tarball' in corrupt('w2'), seconds=20), 'without its tarball for 10 s: corrupt/')
same(s.get('/healthz').json, dict(status='ok'), 'the server is well')
same(s.stop(), 0, 'and ends in order')
end()
