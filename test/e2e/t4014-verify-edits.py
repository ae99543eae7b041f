#!/usr/bin/env python3
# store: sqlite (it starts its own PostgreSQL)
"""Every column of every table is edited, one after the other, behind the server's back, in SQLite and in PostgreSQL: which edits weir verify names is a golden list, the same for both
(test/golden/verify_edits.txt; WEIR_GOLDEN_WRITE=1 writes it anew). What it can't find is said in doc/manual.md."""
import os
import pathlib
import sqlite3
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
from house import TMP, House, Worker, database, end, ok, run, same, until  # noqa: E402

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / 'golden/verify_edits.txt'
BESIDE = ('mark', 'weir_schema', 'log', 'log_chunk', 'blob', 'blob_chunk', 'live_many')  # PostgreSQL's own; t4015 has logs and kept files


SWAP = "UPDATE task SET {0} = (SELECT {0} FROM task o WHERE o.id = (CASE task.id WHEN 2 THEN 3 ELSE 2 END)) WHERE id IN (2, 3)"  # two tasks that wait in one queue
STORIES = {  # what somebody would do who knows the tables: every number still fits, in any table that is compared with another
    'two tasks swap their names': ('task', SWAP.format('name')),
    'and what they are to run': ('task', SWAP.format('rest')),
    'a failed attempt goes': ('attempt', 'DELETE FROM attempt WHERE task = (SELECT min(task) FROM attempt)'),
    'an attempt has failed instead': ('attempt', "UPDATE attempt SET outcome = 'failed', exit_status = 1"),
    'an attempt was another executor\'s': ('attempt', 'UPDATE attempt SET executor = executor + 1'),
    'a log is shorter, and says so': ('attempt', 'UPDATE attempt SET log_bytes = 1'),
    'a script is another one': ('spec', "UPDATE spec SET body = replace(body, 'make', 'curl')"),
    'a job has put out something else': ('outputs', "UPDATE outputs SET body = replace(body, '1', '2')"),
    'an archive nobody has added': ('archive', "INSERT INTO archive (lane, kind, url, branch, added, removed, first_rev, next_rev, youngest, tip, definition, lock_users) "
                                   "SELECT lane + 1, kind, url, branch, added, removed, first_rev, next_rev, youngest, tip, definition, lock_users FROM archive"),
    'a revision by somebody else': ('revision', "UPDATE revision SET author = 'you'"),
    'a reader\'s token may do everything': ('token', 'UPDATE token SET scopes = 15'),
    'a task waits for nothing': ('edge', 'UPDATE edge SET flags = 2'),
    'a log was another one, and its hash says so': ('log_seal', "UPDATE log_seal SET bytes = 6"),
    'a log has no hash': ('log_seal', 'DELETE FROM log_seal'),
    'more may run at once': ('slot', 'UPDATE slot SET slot_limit = 1000'),
}


def filled(s):
    """rows in as many tables as a few calls make"""
    w = Worker(s, 'w', slots=4)
    s.post('/v1/archives', dict(name='a', kind='external'))
    same(s.post('/v1/archives/a/revisions', dict(rev=1, author='me', message='m', workflow=[dict(name='build', script='make', schedule=['0 3 * * *'], on=['commit', 'schedule'])])).status, 202,
         'a revision')
    s.enqueue(*[dict(name=f't{n}', queue='q', data=n) for n in range(4)])
    first = s.enqueue(dict(name='first', queue='q', data=1, unique='k', concurrency='c'))
    s.enqueue(dict(name='second', queue='q', data=2, depends=[first['id']]), dict(name='later', queue='q', data=3, not_before='2090-01-01T00:00:00Z'))
    s.post('/v1/tasks', dict(name='once', queue='q', data=9), headers={'Idempotency-Key': 'once'})
    grants = w.claim(free=2)
    w.log(grants[0], 0, b'a log')
    w.finish(grants[0], exit=0, outputs=dict(a='1'), log_bytes=8, log_offset=5, log='YWJj')
    ok(until(lambda: s.get('/v1/verify').json['logs_unnoted'] == 0, seconds=20), 'what its log was is noted')
    s.post('/v1/lanes/q/pause', dict(reason='rest'))
    same(s.post('/v1/tokens', dict(name='ci', scopes=['read'])).status, 201, 'a token')


def edits(tables, change, undo, check):
    """{table.column: named?}"""
    found = {}
    for table, columns, rows in tables:
        for column, text in columns if rows else ():
            if change(table, column, text):
                found[f'{table}.{column}'] = check()
            undo(table)
        if rows:
            change(table, None, False)
            found[f'{table}: all rows removed'] = check()
            undo(table)
    return found


def lines(found):
    return ''.join(f'{"named" if named else "-----"} {what}\n' for what, named in sorted(found.items()))


# -- SQLite
s = House('data', slots=0)
filled(s)
s.stop()
db = sqlite3.connect(s.dir / 'weir.db', isolation_level=None)
names = [r[0] for r in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%' ORDER BY name")]
tables = []
for name in names:
    columns = [(r[1], r[2] != 'BIGINT' and 'INT' not in r[2]) for r in db.execute(f'PRAGMA table_info({name})')]
    tables.append((name, columns, db.execute(f'SELECT count(*) FROM {name}').fetchone()[0]))
    db.execute(f'CREATE TEMP TABLE saved_{name} AS SELECT * FROM main.{name}')
columns_of = {name: columns for name, columns, _ in tables}


def sqlite_change(table, column, text):
    if column is None:
        db.execute(f'DELETE FROM {table}')
        return True
    try:
        db.execute(f"UPDATE {table} SET {column} = " + (f"CASE typeof({column}) WHEN 'blob' THEN CAST({column} || x'07' AS BLOB) ELSE {column} || 'x' END" if text else f'coalesce({column}, 0) + 1000001'))
        return db.execute('SELECT changes()').fetchone()[0] > 0
    except sqlite3.IntegrityError:
        return False


def sqlite_undo(table):
    names = ', '.join(column for column, _ in columns_of[table])
    db.execute('BEGIN')
    db.execute(f'DELETE FROM {table}')
    db.execute(f'INSERT INTO {table} ({names}) SELECT {names} FROM saved_{table}')
    db.execute('COMMIT')


def sqlite_check():
    return run('verify', '--data', s.dir).code == 1


same(sqlite_check(), False, 'before any edit all is well')
found = edits(tables, sqlite_change, sqlite_undo, sqlite_check)
same(sqlite_check(), False, 'and after all were undone')
for story, (table, text) in STORIES.items():
    db.execute(text)
    ok(db.execute('SELECT changes()').fetchone()[0] > 0 and sqlite_check(), f'SQLite: {story}: it is named')
    sqlite_undo(table)
manual = (GOLDEN.parents[2] / 'doc/manual.md').read_text().split("What it can't find, and why")[1].split('\n## ')[0]
unsaid = [what for what, named in found.items() if not named and f'`{what}`' not in manual and f'`{what.split(".")[0].split(":")[0]}`' not in manual]
same(unsaid, [], 'what is not named is in the manual, with the reason')
got = lines(found)
if os.environ.get('WEIR_GOLDEN_WRITE'):
    GOLDEN.write_text(got)
wanted = GOLDEN.read_text()
ok(got == wanted, f'SQLite: {sum(found.values())} of {len(found)} edits are named, as agreed', *[line for line in got.splitlines() if line not in wanted.splitlines()])

# -- PostgreSQL
pg, url = database()
s2 = House('pg', '--store', url, slots=0)
filled(s2)
s2.stop()
written = {}
rows = lambda text: [line.split('|') for line in pg.sql(text, 'weir').strip().splitlines() if line]  # noqa: E731
tables = []
for name, in rows("SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema() ORDER BY 1"):
    if name in BESIDE or name not in columns_of:
        continue
    kinds = rows(f"SELECT column_name, data_type FROM information_schema.columns WHERE table_name = '{name}' AND table_schema = current_schema() AND is_generated = 'NEVER' "
                 "ORDER BY ordinal_position")
    written[name] = ', '.join(column for column, _ in kinds)
    tables.append((name, [(column, kind) for column, kind in kinds if column in dict(columns_of[name])], int(rows(f'SELECT count(*) FROM {name}')[0][0])))
    pg.sql(f'CREATE TABLE saved_{name} AS SELECT * FROM {name}', 'weir')


def pg_change(table, column, kind):
    if column is None:
        pg.sql(f'DELETE FROM {table}', 'weir')
        return True
    new = {'bigint': f'coalesce({column}, 0) + 1000001', 'text': f"{column} || 'x'", 'bytea': f"{column} || '\\x07'::bytea"}[kind]
    try:
        pg.sql(f'UPDATE {table} SET {column} = {new}', 'weir')
        return True
    except Exception:
        return False


found2 = edits(tables, pg_change, lambda table: pg.sql(f'BEGIN; DELETE FROM {table}; INSERT INTO {table} ({written[table]}) SELECT {written[table]} FROM saved_{table}; COMMIT', 'weir'),
               lambda: run('verify', '--data', s2.dir, '--store', url).code == 1)
for story, (table, text) in STORIES.items():
    pg.sql(text, 'weir')
    same(run('verify', '--data', s2.dir, '--store', url).code, 1, f'PostgreSQL: {story}: it is named')
    pg.sql(f'BEGIN; DELETE FROM {table}; INSERT INTO {table} ({written[table]}) SELECT {written[table]} FROM saved_{table}; COMMIT', 'weir')
differ = {what: (named, found2[what]) for what, named in found.items() if what in found2 and found2[what] != named}
same(differ, {}, f'PostgreSQL: the same for the {len(found2)} edits that both have')
end()
