#!/usr/bin/env python3
# time limit: 120
# store: sqlite (it starts its own PostgreSQL)
"""Two servers on one store: tenants, quotas and semaphores are the site's: set once, stored with a version, the same through both; a server that starts with others
says so and goes by the stored ones; a reload of one is heard by the other."""
import json
import pathlib
import shutil
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
from house import TMP, House, Worker, database, end, ok, refused, same, until  # noqa: E402
from voices import Voice, voice  # noqa: E402

pg, url = database()


def write(name, licence, **quotas):
    (TMP / f'{name}.yaml').write_text(json.dumps({'semaphores': {'licence': licence}, 'tenants': {'red': {'quotas': quotas}, 'blue': {}}}))
    return TMP / f'{name}.yaml'


a = House('a', '--store', url, '--name', 'a', '--config', str(write('a', 1, tasks=6, running=2)), slots=0, lease='30s')
(TMP / 'b').mkdir(mode=0o711)
shutil.copy(TMP / 'a/verify.key', TMP / 'b/verify.key')
b = House('b', '--store', url, '--name', 'b', '--config', str(write('b', 9, tasks=99)), slots=0, lease='30s')
ok('config.differs' in b.log.read_text() and 'SIGHUP' in b.log.read_text(), 'a server that starts with other keys says so', b.log.read_text())
same(Voice(b).semaphore('licence')['limit'], 1, 'and goes by the stored ones')
red = voice(a, 'red')
token = red.token
red_b, blue = Voice(b, token), voice(b, 'blue')
refused(Voice(b).post('/v1/tokens', dict(name='x', scopes=['read'], tenant='green')), 422, 'invalid', '/tenant', text='a tenant that isn\'t listed, at the other server')

# -- a quota is one quota, whichever server is asked
for i in range(6):
    (red, red_b)[i % 2].enqueue(dict(name=f't{i}', queue='q', data=i))
same([refused(v.post('/v1/tasks', dict(name='x', queue='q', data=1)), 429, 'quota_exceeded', text='the seventh') for v in (red, red_b)], [True, True], 'through both')
wa, wb = Worker(Voice(a), 'wa', kinds=['data']), Worker(Voice(b), 'wb', kinds=['data'])
same(sorted(t['state'] for t in red_b.get('/v1/tasks').json['tasks']), ['P', 'P', 'S', 'S', 'S', 'S'], 'two may run')
same(red.quotas(), red_b.quotas(), 'both say the same')
order = []


def work(worker, n=1, wait_ms=1000):
    for grant in worker.claim(free=n, wait_ms=wait_ms):
        order.append(grant['task'])
        worker.finish(grant)


reds = sorted(t['id'] for t in red.get('/v1/tasks').json['tasks'])
until(lambda: work(wa) or work(wb) or len(order) == 6, seconds=40)
same(order, reds, 'in their order, whichever server hears of the end')
same((red.quotas()['tasks'][0], red_b.quotas()['tasks'][0]), (0, 0), 'none is left')

# -- a global semaphore between the servers, fair
ids = []
for i in range(10):
    who = (red, Voice(b, blue.token))[i % 2]
    ids.append(who.enqueue(dict(name=f's{i}', queue='s', data=i, semaphores=['licence']))['id'])
same(Voice(b).semaphore('licence'), Voice(a).semaphore('licence'), 'the same semaphore through both')
same(len(Voice(a).semaphore('licence')['waiters']), 9, 'nine wait')
order = []
until(lambda: work(wb) or work(wa) or len(order) == 10, seconds=60)
same(order, ids, 'ten of two tenants through two servers: each in its turn')

# -- a reload of one is heard by the other
write('b', 3, tasks=2)
b.process.send_signal(signal.SIGHUP)
until(lambda: Voice(a).semaphore('licence')['limit'] == 3 and red.quotas()['tasks'][1] == 2, 'a reload at b changes what a goes by', seconds=20)
red.enqueue(dict(name='n1', queue='q', data=1), dict(name='n2', queue='q', data=1))
refused(red.post('/v1/tasks', dict(name='n3', queue='q', data=1)), 429, 'quota_exceeded', text='a refuses by the new quota')
same(red.states(*[t['id'] for t in red.get('/v1/tasks?state=SP').json['tasks']]), 'PP', 'running isn\'t limited any more')

# -- one dies, the counts stay
before = red_b.quotas()
a.kill()
same(red_b.quotas(), before, 'a is dead: b counts the same')
refused(red_b.post('/v1/tasks', dict(name='n3', queue='q', data=1)), 429, 'quota_exceeded', text='and refuses')
order = []
until(lambda: work(wb, 9) or red_b.quotas()['tasks'][0] == 0, 'and goes on', seconds=40)
a.start()
ok('config.differs' in a.log.read_text(), 'a comes back with its old file, and says so')
same(Voice(a).get('/v1/tenants').body, Voice(b).get('/v1/tenants').body, 'both say the same again')

# -- whose an executor is: the same through both, also when its token is exchanged; two tenants' executors of one name are two
keys = {n: Voice(a).post('/v1/tokens', dict(name=n, scopes=['execute'], tenant=t)).json['token'] for n, t in (('k1', 'default'), ('k2', 'default'), ('k3', 'red'))}
body = dict(name='moves', slots=2, kinds=['data'], instance='a secret')
mine = a.post('/v1/executors', body, token=keys['k1']).json['id']


def polled(server, key, executor=None):
    return server.post(f'/v1/executors/{executor or mine}/poll', dict(free=0), token=keys[key]).status


same([polled(s, k) for s in (a, b) for k in ('k1', 'k2', 'k3')], [200, 403, 404] * 2, 'the token that registered it, at both servers')
same(b.post('/v1/executors', body, token=keys['k2']).json.get('id'), mine, 'it comes to the other server with another token')
same([polled(s, k) for s in (a, b) for k in ('k1', 'k2')], [403, 200] * 2, 'which both know at once')
theirs = b.post('/v1/executors', body, token=keys['k3']).json['id']
same((theirs != mine, polled(a, 'k3', theirs), polled(a, 'k2', theirs)), (True, 200, 404), 'red may have one of that name')
for voice_, executor, key in ((Voice(a), mine, 'k2'), (red, theirs, 'k3')):
    made = voice_.post('/v1/tasks', dict(name='whose', queue='whose', data=1)).json['id']
    grants = a.post(f'/v1/executors/{executor}/poll', dict(free=1, wait_ms=3000), token=keys[key]).json['grants']
    same([g['task'] for g in grants], [made], 'each is granted at one server')
    same(b.post(f'/v1/executors/{executor}/poll', dict(free=0, renew=[dict(fence=grants[0]['fence'])]), token=keys[key]).json['cancels'], [], 'and renews at the other')
    same(b.post(f'/v1/tasks/{made}/finish', dict(fence=grants[0]['fence'], exit=0), token=keys[key]).status, 200, 'where it ends')
for server in (a, b):
    same(server.stop(), 0, f'{server.dir.name} ends')
pg.stop()
end()
