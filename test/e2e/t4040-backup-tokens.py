#!/usr/bin/env python3
# store: sqlite
"""A backup file opens nothing: neither tokens made with an Idempotency-Key nor those of running jobs can be computed from it, or from verify.key."""
import base64
import hashlib
import pathlib
import signal
import sqlite3
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
from house import TMP, House, Worker, end, ok, refused, run, same  # noqa: E402

s = House('data', slots=0)
made = s.post('/v1/tokens', dict(name='root', scopes=['admin']), headers={'Idempotency-Key': 'k-1'}).json['token']
s.token = made
plain = s.post('/v1/tokens', dict(name='plain', scopes=['read'])).json['token']
w = Worker(s, 'w', slots=2)
task = s.post('/v1/tasks', dict(name='runs', data=1)).json['id']
fence = w.claim(free=1)[0]['fence']
same(s.post('/v1/backup', dict(file=str(TMP / 'copy'))).status, 200, 'a backup')


def numbers(blob):
    out, value, shift = [], 0, 0
    for byte in blob:
        value |= (byte & 127) << shift
        shift += 7
        if not byte & 128:
            out.append(value)
            value = shift = 0
    return out


def derived(key, name):
    return hashlib.blake2b(name + b'\0', key=key, digest_size=32).digest()


def keys(db):
    """Every value of the file that may be a key, and what is made of it"""
    found = [bytes.fromhex(v) for (v,) in db.execute('SELECT value FROM meta') if isinstance(v, str) and len(v) == 64 and set(v) <= set('0123456789abcdef')]
    found.append((s.dir / 'verify.key').read_bytes())
    return found


db = sqlite3.connect(TMP / 'copy')
tried = 0
for key in keys(db):
    for tenant, actor, route, text, ids in db.execute('SELECT tenant, token, route, key_text, ids FROM idempotency').fetchall():
        n = numbers(ids)
        if 'tokens' not in route or len(n) != 6:
            continue
        for base in (derived(key, b'weir tokens made with a key'), key):
            m = hashlib.blake2b(key=base, digest_size=32)
            m.update(struct.pack('<QQ', n[4], n[5]))
            for part in (tenant, actor, text):
                m.update(struct.pack('<Q', len(part.encode())) + part.encode())
            guess = 'weir_' + base64.urlsafe_b64encode(m.digest()).decode().rstrip('=')
            same((s.get('/v1/tokens', token=guess).status, guess == made), (401, False), 'a token computed from the backup is refused')
            tried += 1
    for base in (derived(key, b'weir job tokens'), key):
        mac = hashlib.blake2b(fence.encode(), key=base, digest_size=16).hexdigest()
        same(s.get(f'/v1/tasks/{task}', token=f'weirjob_{fence}_{mac}').status, 401, 'a token of a running job computed from the backup is refused')
        tried += 1
ok(tried >= 6, 'the file had what the old way needed', tried)

# -- the same caller, after a restart and after a restore
s.stop(signal.SIGTERM)
s.start()
ok((s.dir / 'token.key').stat().st_mode & 0o777 == 0o600, 'the secret is the server\'s user\'s alone')
second = s.post('/v1/tokens', dict(name='second', scopes=['read']), headers={'Idempotency-Key': 'k-2'}).json['token']
s.stop(signal.SIGTERM)
s.start()
same(s.post('/v1/tokens', dict(name='second', scopes=['read']), headers={'Idempotency-Key': 'k-2'}).json['token'], second, 'the same request after a restart: the same token')
same(s.post('/v1/backup', dict(file=str(TMP / 'copy2'))).status, 200, 'another backup')
s.stop(signal.SIGINT)
same(run('restore', TMP / 'copy2', '--data', TMP / 'again').code, 0, 'restored')
ok(not (TMP / 'again' / 'token.key').exists(), 'the secret is not in the backup')
r = House('again', slots=0)
r.token = made
same([r.get('/v1/tokens').status, r.get('/v1/tasks', token=plain).status], [200, 200], 'the restored store knows its tokens')
refused(r.post('/v1/tokens', dict(name='second', scopes=['read']), headers={'Idempotency-Key': 'k-2'}), 409, 'conflict', text='the same request there: refused, not answered with a token that opens nothing')
same(r.cli('verify', WEIR_TOKEN=made).code, 0, 'its history holds')
end()
