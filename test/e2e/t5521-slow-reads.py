#!/usr/bin/env python3
# time limit: 120
# store: sqlite (it starts its own PostgreSQL)
"""A read of the database that takes long: whoever asked waits for it, and nobody else does. One that takes too long is answered 503 with when to ask again, and so are those that wait for
their turn behind it; when the database is quick again all is as it was. A client that goes away meanwhile is forgotten."""
import http.client
import pathlib
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
from house import House, Worker, database, end, ok, same, until  # noqa: E402

pg, url = database()
pg.sql('CREATE ROLE little LOGIN; GRANT pg_monitor TO little; ALTER DATABASE weir OWNER TO little; GRANT ALL ON SCHEMA public TO little')
s = House('data', '--store', pg.url('weir', 'little'), slots=0, lease='5s')
same(s.post('/v1/archives', dict(name='a', kind='external')).status, 201, 'an archive')
same(s.post('/v1/archives/a/revisions', dict(rev=1)).status, 202, 'with a revision')
# reading it can be made slow: PostgreSQL asks the function for each row
pg.sql('''CREATE TABLE slowness (seconds float8); INSERT INTO slowness VALUES (0); GRANT SELECT ON slowness TO little;
CREATE FUNCTION slow() RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$ BEGIN PERFORM pg_sleep((SELECT seconds FROM slowness)); RETURN true; END $$;
ALTER TABLE revision ENABLE ROW LEVEL SECURITY; ALTER TABLE revision FORCE ROW LEVEL SECURITY;
CREATE POLICY reads ON revision FOR SELECT USING (slow()); CREATE POLICY writes ON revision FOR ALL USING (false) WITH CHECK (true)''', 'weir')
worker = Worker(s, 'w', instance='w1')
task = s.enqueue(dict(name='t', queue='q', command='x', retry=dict(attempts=1)))['id']
grant, = worker.claim()


def beside(readers, text):
    """others while these read revisions: the answers of the readers, and how long each took"""
    answers, stop, waits = [], threading.Event(), dict(healthz=0, poll=0, log=0)

    def read():
        began = time.monotonic()
        answer = s.get('/v1/archives/a/revisions')
        answers.append((answer.status, answer.headers.get('Retry-After'), time.monotonic() - began))

    def timed(name, call):
        while not stop.is_set():
            began = time.monotonic()
            call()
            waits[name] = max(waits[name], time.monotonic() - began)

    others = [threading.Thread(target=timed, args=row) for row in (
        ('healthz', lambda: s.get('/healthz')), ('poll', lambda: worker.poll(0, renew=[dict(task=task, fence=grant['fence'])])), ('log', lambda: worker.log(grant, 0, b'a line')))]
    threads = [threading.Thread(target=read) for _ in range(readers)]
    for t in others + threads:
        t.start()
    for t in threads:
        t.join()
    stop.set()
    for t in others:
        t.join()
    ok(max(waits.values()) < 0.5, f'{text}: nobody else waits: {waits}')
    return answers


pg.sql('UPDATE slowness SET seconds = 1.5', 'weir')
answers = beside(2, 'reads of 1.5 s')
ok([a[0] for a in answers] == [200, 200] and all(a[2] > 1.4 for a in answers), 'and they are answered when they are done', answers)
gone = http.client.HTTPConnection(*s.url.split('//')[1].split(':'))
gone.request('GET', '/v1/archives/a/revisions')
until(lambda: int(pg.sql("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'")) == 1)
gone.close()
pg.sql('UPDATE slowness SET seconds = 30', 'weir')
answers = beside(8, 'reads of 30 s')
same({(a[0], a[1]) for a in answers}, {(503, '1')}, 'reads that last too long are refused, with when to ask again')
ok(max(a[2] for a in answers) < 30, 'within their limits', answers)
pg.sql('UPDATE slowness SET seconds = 0', 'weir')
until(lambda: s.get('/v1/archives/a/revisions').status == 200, 'and answered when the database is quick again')
same(s.state(task), 'X', 'the job that ran meanwhile still runs')
s.stop()
end()
