#!/usr/bin/env python3
# time limit: 120
"""Semaphores: global ones shared by tenants, ones of a tenant, who has them and who is next; first come first served; a limit lowered below its holders."""
import json
import pathlib
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
from house import TMP, House, Worker, end, ok, same, until  # noqa: E402
from voices import Voice, voice  # noqa: E402

conf = TMP / 'weir.yaml'


def write(licence, own):
    conf.write_text(json.dumps({'semaphores': {'licence': licence}, 'tenants': {'red': {'semaphores': {'own': own}}, 'blue': {}}}))


write(2, 3)
server = House('data', '--config', str(conf), slots=0, lease='60s')
site, red, blue = Voice(server), voice(server, 'red'), voice(server, 'blue')
worker = Worker(site, 'w', kinds=['data'])


def post(who, n, name='licence', **more):
    return [who.enqueue(dict(name=f'{name}{i}', queue=name, data=i, semaphores=[name], **more))['id'] for i in range(n)]


# -- a global one, shared
a = post(red, 3)
b = post(blue, 2)
same((red.states(*a), blue.states(*b)), ('PPS', 'SS'), 'two have it, three wait')
mine, theirs, all_ = red.semaphore('licence'), blue.semaphore('licence'), site.semaphore('licence')
same((mine['scope'], mine['limit'], mine['used'], mine['waiting']), ('global', 2, 2, 3), 'a global semaphore')
same((mine['holders'], mine['waiters']), ([f'licence:{i}' for i in a[:2]], [f'licence:{a[2]}', 'another tenant', 'another tenant']), 'red sees its own tasks')
same((theirs['holders'], theirs['waiters']), (['another tenant'] * 2, ['another tenant', *[f'licence:{i}' for i in b]]), 'blue sees that others have it, not who')
same((all_['holders'], all_['waiters']), ([f'licence:{i}' for i in a[:2]], [f'licence:{i}' for i in [a[2], *b]]), 'the site\'s admin sees all')
why = blue.get(f'/v1/tasks/{b[0]}/why')
same([c['kind'] for c in why.json['conditions'] if c['kind'] == 'semaphore'], ['semaphore'], 'why')
ok(b'another tenant' in why.body and f'licence:{a[0]}'.encode() not in why.body, 'names no task of another tenant', why)
ok(f'licence:{a[0]}'.encode() in Voice(server, None, 'blue').get(f'/v1/tasks/{b[0]}/why').body, 'to the site\'s admin it does')
told = server.cli('semaphores').out
ok(f'licence:{a[0]}' in told and 'NEXT' in told, 'weir semaphores shows who has it and who is next', told)

# -- first come first served, across tenants
order, queue = [], [*a, *b]


def work(n=1):
    for grant in worker.claim(free=n, wait_ms=2000):
        order.append(grant['task'])
        worker.finish(grant)


until(lambda: work() or len(order) == 5, seconds=40)
same(order, queue, 'they get it in the order in which they came')
n = 40
order, wanted = [], []
for i in range(n):
    wanted += post((red, blue)[i % 2], 1)
until(lambda: work(1) or len(order) == n, seconds=60)
same(order, wanted, f'{n} waiters of two tenants: each in its turn')

# -- priority goes first, equal ones wait as they came
holders = post(red, 2)
low, high = post(blue, 2), post(red, 2, priority=10)
same(site.semaphore('licence')['waiters'], [f'licence:{i}' for i in [*high, *low]], 'a larger priority is next')
order = []
until(lambda: work() or len(order) == 6, seconds=40)
same([i for i in order if i not in holders], [*high, *low], 'and gets it first')


# -- limits change by a reload
def reload(licence, own):
    write(licence, own)
    server.process.send_signal(signal.SIGHUP)
    return until(lambda: site.semaphore('licence')['limit'] == licence and (Voice(server, None, 'red').semaphore('own') or {}).get('limit') == own, seconds=20)


ok(reload(3, 3), 'raised')
ids = post(red, 5)
grants = worker.claim(free=3)
same((len(grants), red.states(*ids)), (3, 'XXXSS'), 'three run')
ok(reload(1, 3), 'lowered below its holders')
same((site.semaphore('licence')['used'], red.states(*ids)), (3, 'XXXSS'), 'who has it keeps it')
for k, grant in enumerate(grants[:2]):
    worker.finish(grant)
    same(red.states(*ids[3:]), 'SS', f'no new one while {2 - k} of 1 have it')
worker.finish(grants[2])
until(lambda: red.states(*ids[3:]) == 'PS', 'one when they are below')
ok(reload(5, 3), 'raised again')
same(red.states(*ids[3:]), 'PP', 'who waited is let in by the reload itself')
order = []
until(lambda: work(5) or len(order) == 2, seconds=20)

# -- a tenant's own, of the configuration: another tenant's of that name is another one, and a workflow doesn't change it
mine, theirs = post(red, 4, 'own'), post(blue, 2, 'own')
same((red.states(*mine), blue.states(*theirs)), ('PPPS', 'PS'), 'own: 3 in red; in blue, undeclared, 1')
same((red.semaphore('own')['limit'], blue.semaphore('own')['limit']), (3, 1), 'two semaphores of one name')
red.post('/v1/archives', dict(name='ark', kind='external'))
red.post('/v1/archives/ark/revisions', dict(rev=1, workflow={'semaphores': {'own': 9, 'flow': 4, 'licence': 9}, 'tasks': [dict(name='t', command='true', semaphores=['own'])]}))
same((red.semaphore('own')['limit'], red.semaphore('flow')['limit'], site.semaphore('licence')['limit']), (3, 4, 5), 'what the site sets a workflow doesn\'t change')
same([s['name'] for s in blue.get('/v1/semaphores').json['semaphores']], ['licence', 'own'], 'blue sees the global one and its own')

# -- after a kill -9 the same have it, the same wait
before = site.semaphore('licence'), red.semaphore('own'), blue.semaphore('own')
server.kill()
server.start()
same((site.semaphore('licence'), red.semaphore('own'), blue.semaphore('own')), before, 'a kill -9 changes nothing')
worker = Worker(site, 'w', kinds=['data'])
order = []
until(lambda: work(9) or len(order) == 6, seconds=30)
same([i for i in order if i in mine], mine, 'and they go on in their order')
same((red.semaphore('own')['used'], blue.semaphore('own'), site.semaphore('licence')['used']), (0, None, 0), 'all is given back, and the archive\'s task, which nobody can start, takes none; one whose limit nobody has set is gone')
same(server.cli('verify').code, 0, 'weir verify')
end()
