#!/usr/bin/env python3
# time limit: 120
# store: sqlite (it starts its own PostgreSQL)
"""A second server that can't be one: each is refused at once, with what to do, and the server that runs doesn't notice. (What a first server is refused for
is in t4030.)"""
import pathlib
import shutil
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
from house import TMP, House, database, end, ok, run, same  # noqa: E402

AT_ONCE = 20  # seconds, on a busy machine
pg, url = database()
first = House('first', '--store', url, '--name', 'first', slots=0)
first.enqueue(dict(name='kept', data=1))


def second(data='second', store=url, *more):
    began = time.monotonic()
    done = run('serve', '--data', TMP / data, '--listen', '127.0.0.1:0', '--slots', '0', '--name', 'second', '--store', store, *more, timeout=60)
    done.seconds = time.monotonic() - began
    return done


def told(done, code, words, text):
    ok(done.code == code and all(word in done.err for word in words) and done.seconds < AT_ONCE and 'listening' not in done.out, text, done.code, done.seconds, done.err, done.out)


def folder(name, key=None):
    (TMP / name).mkdir(mode=0o711)
    if key:
        (TMP / name / 'verify.key').write_bytes(key)
    return name


key = (TMP / 'first/verify.key').read_bytes()
pg.sql("UPDATE meta SET value = 'elsewhere /var/lib/weir' WHERE name = 'key_place'", 'weir')  # as if the first were on another machine
told(second(folder('nokey')), 66, ['verify.key', 'copy'], 'without the key of the history')
same((TMP / 'nokey/verify.key').exists(), False, 'and none was made')
other = House('other', '--store', pg.create('another'), slots=0)
other.stop()
told(second(folder('otherkey', (TMP / 'other/verify.key').read_bytes())), 1, ['verify.key', "site's other"], 'with the key of another site')
told(second(folder('shortkey', key[:5])), 1, ['verify.key'], 'with half a key')
told(second('first'), 1, ['first'], 'with the data directory of the server that runs')
told(second(folder('nobody', key), 'postgresql://127.0.0.1:1/weir'), 69, ['is PostgreSQL running there'], 'nobody listens there')
told(second('nobody', pg.url('nothing')), 66, ['createdb'], 'no such database')
told(second('nobody', pg.url('weir', 'stranger')), 77, ['createuser'], 'no such user')
pg.sql("CREATE ROLE guest LOGIN PASSWORD 'right'; GRANT ALL ON DATABASE weir TO guest")
told(second('nobody', pg.url('weir', 'guest')), 77, [], 'a user that may not read the tables')
pg.create('customers')
pg.sql('CREATE TABLE customers (id int)', 'customers')
told(second('nobody', pg.url('customers')), 1, ['another program'], "another program's database")
version = pg.sql('SELECT version FROM weir_schema', 'weir')
pg.sql('UPDATE weir_schema SET version = 999', 'weir')
told(second('nobody'), 1, ['schema 999', 'newer one'], 'a schema of a newer weir')
pg.sql(f'UPDATE weir_schema SET version = {version}', 'weir')
pg.sql('ALTER DATABASE weir SET default_transaction_read_only = on')
told(second('nobody'), 69, ['read-only'], 'a database that was made read-only')
pg.sql('ALTER DATABASE weir RESET default_transaction_read_only')

# -- the one that runs
same(first.task(1)['key']['name'], 'kept', 'the server that runs has not noticed')
task = first.enqueue(dict(name='more', data=1))['id']
shutil.copy(TMP / 'first/verify.key', TMP / 'nobody/verify.key')
joined = House('nobody', '--store', url, '--name', 'second', slots=0)
same(joined.task(task)['key']['name'], 'more', 'with everything right the second one is one')
done = run('store', 'copy', url, f'sqlite://{TMP}/copy', '--data', first.dir)
ok(done.code == 1 and 'in use by' in done.err, 'a store that servers use is not copied', done.code, done.err)
ok(first.cli('verify').code == 0 and joined.cli('verify').code == 0, 'the history verifies through both')
for s in (first, joined):
    same(s.stop(signal.SIGINT), 0, f'{s.dir.name} ends')
pg.remove()
end()
