#!/usr/bin/env python3
# time limit: 120
"""Slots are for tasks that somebody can start: without an executor that fits, a task takes no semaphore and no concurrency key, and `why` says `executor`; when
one has come it goes on; when the last one is lost, paused, or silent after a restart, the slot is given back, and others have it."""
import os
import pathlib
import sys

sys.path.insert(0, os.environ.get('WEIR_TEST_LIB') or str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
from house import House, Worker, end, ok, same, until  # noqa: E402

s = House('data', slots=0, lease='3s')


def states(*ids):
    return ''.join(s.state(i) for i in ids)


def kinds(task):
    return [c['kind'] for c in s.get(f'/v1/tasks/{task}/why').json['conditions']]


def used(name='one'):
    return next(((x['used'], x['waiting']) for x in s.get('/v1/semaphores').json['semaphores'] if x['name'] == name), (0, 0))  # nobody in it: it isn't there


def post(name, **more):
    return s.enqueue(dict(name=name, data=1, **more))['id']


MAC = dict(labels=dict(os='mac'))

# -- nobody is there: no slot is taken
mac, mac2, plain = post('mac', semaphores=['one'], **MAC), post('mac2', concurrency='k', **MAC), post('plain', **MAC)
same(states(mac, mac2, plain), 'SSP', 'who wants a slot is staged, who wants none is pending')
same((used(), kinds(mac), kinds(mac2)), ((0, 0), ['executor'], ['executor']), 'no slot is taken, and why says executor')
ok('no executor fits' in s.cli('why', mac).out, 'so does the command', s.cli('why', mac).out)
same(s.get(f'/v1/tasks/{mac}/why').json['verdict'], 'never', 'as long as there is none')

# -- those that somebody can start go past it
w = Worker(s, 'w', kinds=['data'])
here, here2 = post('here', semaphores=['one']), post('here2', concurrency='k')
same(states(mac, here, here2), 'SPP', 'others have the slots')
first = w.claim(10)
same(sorted(g['task'] for g in first), [here, here2], 'and start')

# -- one that fits comes: it waits for the slot now, behind who has it
m = Worker(s, 'm', kinds=['data'], labels=dict(os='mac'))
same((states(mac, mac2), kinds(mac), used()), ('SS', ['semaphore'], (1, 1)), 'with an executor it waits for its slot')
for grant in first:
    w.finish(grant)
same(states(mac, mac2), 'PP', 'and has it when it is free')

# -- its last one is paused, then lost: the slot goes to others
s.post(f'/v1/executors/{m.id}/pause', dict(reason='test'))
ok(until(lambda: w.poll(0) and states(mac, mac2) == 'SS', seconds=20), 'paused: it gives its slot back', states(mac, mac2))
same(kinds(mac), ['executor'], 'and why says executor')
s.post(f'/v1/executors/{m.id}/resume')
same(states(mac, mac2, plain), 'PPP', 'resumed: it goes on at once')
waiter = post('waiter', semaphores=['one'])
same(states(mac, waiter), 'PS', 'another one waits for the slot')
ok(until(lambda: w.poll(0) and states(mac, waiter) == 'SP', seconds=30), 'm is lost: the slot is the other one\'s', states(mac, waiter))
same(states(plain), 'P', 'who has no slot stays where it is')
w.finish(w.claim(10)[0])
same(states(waiter, mac), 'DS', 'a free slot isn\'t taken')
grants = m.claim(10)
same(sorted(g['task'] for g in grants), [mac, mac2, plain], 'heard again it has all of them, in the same answer')
for grant in grants:
    m.finish(grant)

# -- a restart: nothing moves before a lease has passed; then those are lost who weren't heard
last = post('last', semaphores=['one'])
same(states(last), 'P', 'w is there')
s.kill()
s.start()
same(states(last), 'P', 'a restart gives nothing back')
ok(until(lambda: states(last) == 'S', seconds=30), 'nobody is heard: it is given back', states(last))
same([g['task'] for g in w.claim(10)], [last], 'and when w is back it starts')
end()
