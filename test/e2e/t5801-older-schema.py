#!/usr/bin/env python3
# time limit: 180
# store: sqlite (it starts its own PostgreSQL)
"""Stores of older schemas, the first, the one before this and what lies between: made by the migrations of their time, filled with the rows of a store that has worked, and opened
by this weir, on SQLite and on PostgreSQL: led on to its own schema with nothing lost."""
import hashlib
import importlib.machinery
import importlib.util
import pathlib
import re
import shutil
import sqlite3
import struct
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / 'test/lib'))
from house import TMP, House, database, end, ok, run, same, until  # noqa: E402

loader = importlib.machinery.SourceFileLoader('embed_sql', str(ROOT / 'tools/embed_sql'))
argv, sys.argv = sys.argv, ['embed_sql', '--self-test']
try:
    embed = importlib.util.module_from_spec(importlib.util.spec_from_loader('embed_sql', loader))
    loader.exec_module(embed)
except SystemExit:
    pass  # its main has run
sys.argv = argv
STORE = ROOT / 'src/store'
FILES = sorted(STORE.glob('*/migrations/*.sql'), key=lambda path: (path.name[:4], 'postgres' in str(path)))


def steps(dialect, upto):
    """the statements of the migrations 1 .. upto"""
    folders = ('sql', dialect)
    for path in FILES:
        if path.parts[-3] in folders and int(path.name[:4]) <= upto:
            yield from embed.read_migration(str(path), dict(embed.DIALECTS[dialect]))[1]


def newest(dialect):
    return max(int(path.name[:4]) for path in FILES if path.parts[-3] in ('sql', dialect))


TAGS = 17  # since then turns tell of rows, under their hashes
HEAD = 'incarnation, turn, seq, next_task, next_spec, next_lane, next_class, next_slot, next_executor, next_token, v_now'


def linked(key, turns, head):
    """the hashes of turns (number, first event, time, events) as servers wrote them that told nothing of rows, and the head's seal"""
    def keyed(data):
        return hashlib.blake2b(data, digest_size=32, key=key).digest()
    link, hashes = bytes(32), []
    for number, first_seq, at, events in turns:
        link = keyed(link + struct.pack('<qqq', number, first_seq, at) + events)
        hashes.append((link, number))
    return hashes, link, keyed(b'head' + struct.pack('<qqq', *head[:3]) + link + struct.pack('<8q', *head[3:]))


def worked(house):
    """a store in which everything was used a little"""
    ids = [t['id'] for t in house.enqueue(dict(name='a', script='echo a'), dict(name='b', depends=['a'], script='exit 3'), dict(name='c', depends=['b'], command='true'))]
    house.ended(*ids)
    house.enqueue(dict(name='later', data=1, not_before='2099-01-01T00:00:00Z'))
    house.token = house.cli('token', 'create', '--name', 'all', '--scope', 'admin').out.strip()
    house.post('/v1/lanes/default/pause', dict(reason='test'))
    house.enqueue(dict(name='held', command='true'))
    told = picture(house)
    same(house.stop(), 0, 'it ends')
    return told, house.token


def picture(house):
    tasks = house.get('/v1/tasks?limit=100').json['tasks']
    lanes = [{k: lane[k] for k in ('name', 'tasks', 'paused') if k in lane} for lane in house.get('/v1/lanes').json['lanes']]
    kinds = [e['kind'] if 'kind' in e else e.get('event') for e in house.events('since=0')][:20]
    return tasks, lanes, kinds


def opened(name, version, told, *options):
    house = House(name, *options, slots=1)
    house.token = token
    same(picture(house), told, f'from schema {version}: tasks, queues and history are as they were')
    house.post('/v1/lanes/default/resume', dict(reason='test'))
    more = house.enqueue(dict(name='more', script='echo more'))['id']
    house.ended(more)
    ok(house.state(more) == 'D' and house.cli('verify').code == 0, 'it works on, and verifies', house.task(more))
    same(house.stop(), 0, 'it ends')


# -- SQLite
first = House('first', slots=1)
told, token = worked(first)
for version in sorted({1, newest('sqlite') - 1}):
    name = f's{version}'
    (TMP / name).mkdir(mode=0o711)
    shutil.copy(TMP / 'first/verify.key', TMP / name / 'verify.key')
    db = sqlite3.connect(TMP / name / 'weir.db')
    db.executescript('\n'.join(steps('sqlite', version)) + f'PRAGMA application_id = {embed.APPLICATION_ID}; PRAGMA user_version = {version};')
    db.execute('ATTACH ? AS full', (str(TMP / 'first/weir.db'),))
    for (table,) in db.execute("SELECT name FROM main.sqlite_master WHERE type = 'table'").fetchall():
        columns = ', '.join(row[1] for row in db.execute(f'PRAGMA main.table_info({table})'))
        db.execute(f'INSERT INTO main.{table} ({columns}) SELECT {columns} FROM full.{table}' + (" WHERE name <> 'place'" if table == 'meta' else ''))
    hashes, link, seal = linked((TMP / name / 'verify.key').read_bytes(), db.execute('SELECT turn, first_seq, at, events FROM main.turn ORDER BY first_seq').fetchall(),
                                db.execute(f'SELECT {HEAD} FROM main.head').fetchone())
    if version < TAGS:
        db.executemany('UPDATE main.turn SET hash = ? WHERE turn = ?', hashes)
        db.execute('UPDATE main.head SET hash = ?, seal = ?', (link, seal))
    db.commit()
    db.close()
    opened(name, version, told)
    db = sqlite3.connect(TMP / name / 'weir.db')
    same(db.execute('PRAGMA user_version').fetchone()[0], newest('sqlite'), f'it is {newest("sqlite")} now')
    db.close()

# -- PostgreSQL: a schema beside the full one, which it then replaces
pg, url = database('full')
first = House('pg', '--store', url, '--name', 'first', slots=1)
told, token = worked(first)
for version in sorted({3, 9, newest('postgres') - 1}):  # before there were several servers; before live_many
    name = f'p{version}'
    pg.sql(f'CREATE DATABASE {name} TEMPLATE "full"')
    (TMP / name).mkdir(mode=0o711)
    shutil.copy(TMP / 'pg/verify.key', TMP / name / 'verify.key')
    texts = [re.sub(r'\bTEXT\b', 'TEXT COLLATE "C"', text) for text in steps('postgres', version)]
    pg.sql('CREATE SCHEMA older; SET search_path = older;\n' + '\n'.join(texts) + f'\nUPDATE weir_schema SET version = {version};', name)
    for table in pg.sql("SELECT relname FROM pg_class WHERE relnamespace = 'older'::regnamespace AND relkind = 'r' AND relname <> 'weir_schema'", name).split():
        columns = ', '.join(pg.sql(f"SELECT attname FROM pg_attribute WHERE attrelid = 'older.{table}'::regclass AND attnum > 0 AND attgenerated = '' ORDER BY attnum", name).split())
        pg.sql(f'INSERT INTO older.{table} ({columns}) OVERRIDING SYSTEM VALUE SELECT {columns} FROM public.{table}', name)
    turns = [line.split('|') for line in pg.sql("SELECT turn, first_seq, at, encode(events, 'hex') FROM older.turn ORDER BY first_seq", name).split()]
    hashes, link, seal = linked((TMP / name / 'verify.key').read_bytes(), [(int(t), int(f), int(a), bytes.fromhex(e)) for t, f, a, e in turns],
                                list(map(int, pg.sql(f'SELECT {HEAD} FROM older.head', name).strip().split('|'))))
    if version < TAGS:
        pg.sql('\n'.join(f"UPDATE older.turn SET hash = '\\x{h.hex()}' WHERE turn = {n};" for h, n in hashes) +
               f"UPDATE older.head SET hash = '\\x{link.hex()}', seal = '\\x{seal.hex()}';", name)
    pg.sql('DROP SCHEMA public CASCADE; ALTER SCHEMA older RENAME TO public;', name)
    opened(name, version, told, '--store', pg.url(name), '--name', 'first')
    same(pg.sql('SELECT version FROM weir_schema', name), str(newest('postgres')), f'it is {newest("postgres")} now')
    ok(run('verify', '--data', TMP / name, '--store', pg.url(name)).code == 0, 'it verifies without a server')
until(lambda: not first.left(), 'nothing is left running')
pg.remove()
end()
