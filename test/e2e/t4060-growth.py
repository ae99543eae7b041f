#!/usr/bin/env python3
# time limit: 300
"""What a command costs: four times as many waiters cost four times as much, not sixteen times; an archive among a thousand costs what it costs among ten.

Costs are the time that the server's threads had a processor (schedstat), so other work on the machine counts for little. Nobody asks the server anything while
it works on what is measured: that it is done is seen by its threads, which neither run nor want to. Quadratic would be a ratio of 16
where at most 9 is allowed, and one that grows with what is there 100 where at most 4 is allowed."""
import json
import os
import pathlib
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
from house import TMP, House, Worker, end, ok, same  # noqa: E402

SMALL = 400  # the other size is four times this
conf = TMP / 'weir.yaml'


def write(limit):
    conf.write_text(json.dumps({'semaphores': {'one': 1, 'five': 5, 'third': 1, 'wide': limit}}))


STILL_S, STILL_MS = 0.3, 3  # in that time it does so little when it has nothing to do


def times(server):
    """Milliseconds that its threads had a processor, and that they had one or waited for one."""
    ran = wanted = 0
    for thread in os.listdir(f'/proc/{server.process.pid}/task'):
        try:
            run, wait = (pathlib.Path(f'/proc/{server.process.pid}/task') / thread / 'schedstat').read_text().split()[:2]
        except OSError:
            continue
        ran, wanted = ran + int(run) / 1e6, wanted + (int(run) + int(wait)) / 1e6
    return ran, wanted


def rest(server):
    until = time.monotonic() + 60
    while time.monotonic() < until:
        before = times(server)[1]
        time.sleep(STILL_S)
        if times(server)[1] - before < STILL_MS:
            return


def cost(server, work, over=None):
    """Milliseconds of processor time that the server takes for it; over(): has it come about? What that costs isn't counted."""
    rest(server)
    before = times(server)[0]
    work()
    until = time.monotonic() + 60
    while over:
        rest(server)
        spent = times(server)[0] - before
        if over() or time.monotonic() > until:
            return spent
        before = times(server)[0] - spent
    return times(server)[0] - before


def good(answer):
    if answer.status not in (200, 201, 202):
        ok(False, 'a call is taken', answer)


def tasks(n, **more):
    return [dict(name=f't{i}', data=i, **more) for i in range(n)]


def post(server, n, **more):
    good(server.post('/v1/tasks', {'tasks': tasks(n, **more)}))


def state(server, task):
    return server.get(f'/v1/tasks/{task}').json['state']


def counts(server, queue):
    return next(lane['counts'] for lane in server.get('/v1/lanes').json['lanes'] if lane['name'] == queue)


# -- waiters for semaphores: each step with n and with 4n of them
def waiting(n):
    write(1)
    server = House(f'waiting-{n}', '--config', str(conf), slots=0, lease='60s')
    Worker(server, kinds=['data'])  # slots are for those whom somebody can start
    found = {}
    found['a call with two semaphores'] = cost(server, lambda: post(server, n, queue='two', semaphores=['one', 'five']))
    post(server, n, queue='w', semaphores=['wide'])
    write(100000)

    def raised():
        os.kill(server.process.pid, signal.SIGHUP)
    found['a raised limit'] = cost(server, raised, lambda: counts(server, 'w')['S'] == 0)
    same(counts(server, 'w')['P'], n, 'all of them may go')
    post(server, n, queue='x', semaphores=['wide'], labels={'os': 'x'})
    same(counts(server, 'x')['S'], n, 'nobody can start these')

    def comes():
        Worker(server, name='x', kinds=['data'], labels={'os': 'x'})
    found['an executor that comes'] = cost(server, comes, lambda: counts(server, 'x')['P'] == n)
    same(counts(server, 'x')['P'], n, 'and then it has them all')
    holder = server.enqueue(dict(name='holder', queue='other', data=1, semaphores=['third']))['id']
    post(server, n, queue='paused', semaphores=['third'])
    last = server.enqueue(dict(name='last', queue='other', data=1, semaphores=['third']))['id']
    server.post('/v1/lanes/paused/pause', {'reason': 'for the test'})

    def freed():
        server.post(f'/v1/tasks/{holder}/cancel', {'reason': 'an end'})
    found['an end before a paused queue'] = cost(server, freed, lambda: state(server, last) == 'P')
    same(state(server, last), 'P', 'who waits behind a paused queue goes')
    server.stop()
    return found


small, large = waiting(SMALL), waiting(4 * SMALL)
for what, base in small.items():
    ratio = large[what] / max(base, 2)
    ok(ratio < 9, f'{what}: {base:.0f} ms, and with four times as many {large[what]:.0f} ms', ratio)


# -- what is there already
def among(n):
    server = House(f'among-{n}', slots=0)
    for i in range(n):
        server.post('/v1/archives', {'name': f'a{i}', 'kind': 'external'})
    found = {}

    def each(what, work):
        work('first')
        found[what] = cost(server, lambda: [work(f'{what.split()[0]}-{i}') for i in range(20)])
    each('add an archive', lambda name: good(server.post('/v1/archives', {'name': name, 'kind': 'external'})))
    each('list archives', lambda _: good(server.get('/v1/archives?limit=5')))
    each('pause a lane', lambda name: good(server.post(f'/v1/lanes/{name}/pause', {'reason': 'r'})))
    revisions = iter(range(1, 100))
    each('post a revision', lambda _: good(server.post('/v1/archives/a1/revisions', {'rev': next(revisions)})))
    each('post a task', lambda name: good(server.post('/v1/tasks', {'tasks': [{'name': name, 'data': 1, 'semaphores': [name]}]})))
    server.stop()
    return found


few, many = among(10), among(1000)
for what, base in few.items():
    ratio = many[what] / max(base, 4)
    ok(ratio < 4, f'{what}: 20 times among 10 {base:.0f} ms, among 1,000 {many[what]:.0f} ms', ratio)
end()
