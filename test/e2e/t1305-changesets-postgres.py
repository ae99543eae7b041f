#!/usr/bin/env python3
# store: sqlite (it starts its own PostgreSQL)
"""Change sets on PostgreSQL, with two servers: tarballs are in the database for both; what is refused, pruned or broken off leaves no row; copied from SQLite."""
import os
import pathlib
import signal
import socket
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
from house import TMP, House, database, end, houses, ok, refused, run, same, until  # noqa: E402
from tarballs import tarball  # noqa: E402

pg, url = database()
one, two = houses(url, ['one', 'two'], slots=0)
C = '/v1/changesets'
admin = one.post('/v1/tokens', dict(name='admin', scopes=['admin']), local=True).json['token']
one.token = two.token = admin
one.post('/v1/archives', dict(name='docs', kind='external'))


def rows():
    return pg.sql('SELECT (SELECT count(*) FROM blob), (SELECT count(*) FROM blob_chunk), (SELECT count(*) FROM upload), (SELECT count(*) FROM upload_piece)', 'weir').strip()


same(rows(), '0|0|0|0', 'no kept file')
large = tarball(files={'large': os.urandom(1 << 20)})
first = one.post(C, large)
same((first.status, rows()), (202, '1|5|0|0'), 'a tarball is in the database, in pieces')
same(two.get(f'{C}/{first.json["csid"]}/tarball').body == large, True, 'the other server has it')
again = two.post(C, large)
same((again.status, again.json['csid'], rows()), (200, first.json['csid'], '1|5|0|0'), 'and knows the content')
refused(one.post(C, tarball(files={'a': b'a'}, target='nowhere')), 422, 'invalid', '/target', 'what the engine refuses')
same(rows(), '1|5|0|0', 'leaves nothing')
refused(two.post(C, tarball(files={'a': b'a'}, dependencies=['nobody'])), 422, 'invalid', '/dependencies/0', 'likewise at the other')
same(rows(), '1|5|0|0', 'nothing')
got = two.post(C + '?check=1', tarball(files={'large': b'x'}))
same((got.status, got.json['precursors'], rows()), (200, [first.json['csid']], '1|5|0|0'), 'check=1')

# ---- the same content at both servers at once ----
answers = []
many = tarball(files={'m': b'm'})
threads = [threading.Thread(target=lambda s=s: answers.append(s.post(C, many))) for s in (one, two) * 3]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
same((sorted(a.status for a in answers), len({a.json['csid'] for a in answers}), rows()), ([200] * 5 + [202], 1, '2|6|0|0'), 'six posts at two servers: one change set, one tarball')

# ---- a job's token, a token of nobody: both are asked for before the body ----
sock = socket.create_connection(('127.0.0.1', one.port), timeout=30)
sock.sendall(f'POST {C} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer weir_{"x" * 43}\r\nContent-Length: 1000000\r\n\r\n'.encode())
ok(sock.recv(1000).startswith(b'HTTP/1.1 401 '), 'a token of nobody: 401 before its body')
sock.close()
key = {'Idempotency-Key': 'k'}
keyed = one.post(C, tarball(files={'k': b'k'}), headers=key)
same(two.post(C, tarball(files={'k': b'k'}), headers=key).json['csid'], keyed.json['csid'], 'an Idempotency-Key counts at both')

# ---- killed ----
third = tarball(files={'t': os.urandom(500000)})
one.stop(signal.SIGKILL)
same(two.post(C, third).status, 202, 'one is killed, the other takes')
one.start()
same((one.post(C, third).status, one.post(C, third).json['state']), (200, 'P'), 'and the first knows it when it is back')

# ---- pruned, and swept ----
one.post(f'/v1/tasks/{first.json["task"]}/cancel', dict(reason='over'))
same(one.post('/v1/prune', dict(older_than='1ms', dry_run=False)).json['tasks'], 1, 'one is pruned')
pg.sql('UPDATE blob SET used = 0', 'weir')
extra = two.post(C, tarball(files={'x': b'x'}))
two.post(f'/v1/tasks/{extra.json["task"]}/cancel', dict(reason='over'))
same(two.post('/v1/prune', dict(older_than='1ms', dry_run=False)).json['tasks'], 1, 'and another')
until(lambda: two.get(f'{C}/{first.json["csid"]}/tarball').status == 404, 'its tarball is swept')
same([two.get(f'{C}/{csid}/tarball').status for csid in (answers[0].json['csid'], keyed.json['csid'])], [200, 200], 'those of others stay')
answer = one.cli('verify')
same(answer.code, 0, 'verify is content')
pg.sql("DELETE FROM blob_chunk WHERE hash IN (SELECT encode(hash, 'hex') FROM changeset WHERE csid = '" + keyed.json['csid'] + "')", 'weir')
answer = one.cli('verify')
ok(answer.code == 1 and 'tarball of the change set' in answer.out + answer.err, 'and misses one', answer.out + answer.err)
for server in (one, two):
    server.stop(signal.SIGINT)

# ---- from SQLite ----
small = House('small', '--store', f'sqlite://{TMP}/small', slots=0)
small.post('/v1/archives', dict(name='docs', kind='external'))
csid = small.post(C, large).json['csid']
small.stop(signal.SIGINT)
pg.create('copy')
answer = run('store', 'copy', f'sqlite://{TMP}/small', pg.url('copy'))
same(answer.code, 0, 'a store is copied')
(TMP / 'copied').mkdir(mode=0o711)
for name in ('verify.key',):
    (TMP / 'copied' / name).write_bytes((TMP / 'small' / name).read_bytes())
copied = House('copied', '--store', pg.url('copy'), slots=0)
same(copied.get(f'{C}/{csid}/tarball').body == large, True, 'with its tarballs')
end()
