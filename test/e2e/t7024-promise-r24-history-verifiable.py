#!/usr/bin/env python3
# time limit: 240
"""R24, history is verifiable: bytes flipped, rows removed, swapped, cut and invented in a store behind the server's back: `weir verify` finds each."""
import pathlib
import shutil
import signal
import sqlite3
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'promises'))
from promise import SCALE, Promise, rng, scaled, special_build  # noqa: E402

special_build()
from house import TMP, WEIR, House, clean_env, end, run, same  # noqa: E402

EDITS, FLIPS, SECONDS = scaled(200), scaled(200), 30 * SCALE
p = Promise('R24', 'history is verifiable')
for what in ('undetected edits', 'undetected flips', 'false alarms'):
    p.zero(what)
s = House('data', slots=2)
ids = [t['id'] for t in s.enqueue(*[dict(name=f't{i}', script=f'echo {i}; exit {i % 4}', **({'depends': [f't{i - 1}']} if i % 3 == 1 else {})) for i in range(40)])]
s.ended(*ids)
s.stop(signal.SIGINT)
same(run('verify', '--data', s.dir).code, 0, 'the store as it is verifies')
path = s.dir / 'weir.db'
db = sqlite3.connect(path, isolation_level=None)
db.execute('PRAGMA wal_checkpoint(TRUNCATE)')
db.execute('PRAGMA synchronous = OFF')
turns = [r[0] for r in db.execute('SELECT turn FROM turn ORDER BY turn')]


def faulty():
    done = subprocess.run([WEIR, 'verify', '--data', str(s.dir)], capture_output=True, env=clean_env())
    return done.returncode != 0


def history(conn):
    conn.text_factory = bytes
    return conn.execute('SELECT * FROM turn ORDER BY turn').fetchall(), conn.execute('SELECT id, state FROM task ORDER BY id').fetchall()


def edit():
    """one change, and the rows to put back"""
    kind = rng.choice(['bit', 'bit', 'bit', 'delete', 'swap', 'cut', 'state', 'number', 'task'])
    turn = rng.choice(turns)
    if kind == 'bit':
        column = rng.choice(['events', 'hash'])
        blob = bytearray(db.execute(f'SELECT {column} FROM turn WHERE turn = ?', (turn,)).fetchone()[0])
        at = rng.randrange(len(blob))
        blob[at] ^= 1 << rng.randrange(8)
        db.execute(f'UPDATE turn SET {column} = ? WHERE turn = ?', (bytes(blob), turn))
    elif kind == 'delete':
        db.execute('DELETE FROM turn WHERE turn = ?', (turn,))
    elif kind == 'swap':
        other = rng.choice([t for t in turns if t != turn])
        column = rng.choice(['events', 'hash', 'at'])
        a, b = [db.execute(f'SELECT {column} FROM turn WHERE turn = ?', (t,)).fetchone()[0] for t in (turn, other)]
        if a == b:
            return None
        db.execute(f'UPDATE turn SET {column} = ? WHERE turn = ?', (b, turn))
        db.execute(f'UPDATE turn SET {column} = ? WHERE turn = ?', (a, other))
    elif kind == 'cut':
        db.execute('DELETE FROM turn WHERE turn >= ?', (turn,))
        if rng.random() < 0.5:  # and the head made to fit
            last = db.execute('SELECT turn, hash FROM turn ORDER BY turn DESC LIMIT 1').fetchone()
            if last:
                db.execute('UPDATE head SET turn = ?, hash = ?', last)
    elif kind == 'state':
        db.execute('UPDATE task SET state = CASE state WHEN \'D\' THEN \'F\' ELSE \'D\' END WHERE id = ?', (rng.choice(ids),))
    elif kind == 'number':
        db.execute(f'UPDATE turn SET {rng.choice(["first_seq", "at"])} = {rng.choice(["first_seq", "at"])} + 1 WHERE turn = ?', (turn,))
    else:
        db.execute('DELETE FROM task WHERE id = ?', (rng.choice(ids),))
    return kind


before = history(db)
head = db.execute('SELECT * FROM head').fetchall()
db.close()
shutil.copy(path, TMP / 'pristine')
deadline = time.monotonic() + SECONDS / 2
for n in range(EDITS):
    if time.monotonic() > deadline:
        break
    db = sqlite3.connect(path, isolation_level=None)
    db.execute('PRAGMA synchronous = OFF')
    kind = edit()
    changed = history(db) != before
    db.execute('PRAGMA wal_checkpoint(TRUNCATE)')
    db.close()
    if kind and changed:
        p.did('edits')
        p.zero('undetected edits', int(not faulty()), kind)
    for extra in s.dir.glob('weir.db-*'):
        extra.unlink()
    shutil.copy(TMP / 'pristine', path)
pristine = (TMP / 'pristine').read_bytes()
deadline = time.monotonic() + SECONDS / 2
for n in range(FLIPS):
    if time.monotonic() > deadline:
        break
    data = bytearray(pristine)
    for _ in range(rng.choice([1, 1, 8])):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    path.write_bytes(data)
    try:
        db = sqlite3.connect(f'file:{path}?immutable=1', uri=True)
        changed = history(db) != before
        db.close()
    except (sqlite3.Error, UnicodeDecodeError, OverflowError):
        changed = True
    p.did('flips')
    p.did('flips that changed history', int(changed))
    if changed:
        p.zero('undetected flips', int(not faulty()))
    for extra in s.dir.glob('weir.db-*'):
        extra.unlink()
path.write_bytes(pristine)
p.zero('false alarms', int(faulty()))
p.report()
end()
