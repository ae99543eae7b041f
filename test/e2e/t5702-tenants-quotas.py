#!/usr/bin/env python3
# time limit: 150
"""Quotas of tenants: each one refused at its number with what to do; running tasks held back, with a reason; the counts equal the recount after a kill -9, and
nobody else feels them."""
import itertools
import json
import os
import pathlib
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
from house import TMP, House, Worker, end, ok, refused, run, same, until  # noqa: E402
from serving import STORE  # noqa: E402
from voices import Voice, voice  # noqa: E402

conf = TMP / 'weir.yaml'


def write(**quotas):
    conf.write_text(json.dumps({'tenants': {'red': {'quotas': quotas}, 'blue': None}}))


def reload(server, **quotas):
    def version():
        return Voice(server).get('/v1/tenants').json['version']
    before = version()
    write(**quotas)
    server.process.send_signal(signal.SIGHUP)
    return until(lambda: version() > before, seconds=20)


write(tasks=5, running=2, archives=1, queues=2, semaphores=2, tokens=3, executors=1, logs='100B', files='50B')
server = House('data', '--config', str(conf), slots=0, lease='60s')
site = Voice(server)
same(server.cli('token', 'create', '--name', 'x', '--scope', 'read', '--tenant', 'green').code, 65, 'a tenant that the configuration doesn\'t list is refused')
refused(site.post('/v1/tokens', dict(name='x', scopes=['read'], tenant='green')), 422, 'invalid', '/tenant', text='with what to do')
ok('weir.yaml' in site.post('/v1/tokens', dict(name='x', scopes=['read'], tenant='green')).json['errors'][0]['message'], 'it names weir.yaml')
red, blue = voice(server, 'red'), voice(server, 'blue')

# -- open tasks: 429, Retry-After, all or none
made = red.enqueue(*[dict(name=f't{i}', queue='q', data=i, semaphores=['s'] if i == 9 else []) for i in range(4)])
answer = red.post('/v1/tasks', dict(tasks=[dict(name='a', queue='q', data=1), dict(name='b', queue='q', data=1)]))
refused(answer, 429, 'quota_exceeded', text='6 of 5 open tasks')
ok(answer.headers.get('Retry-After') and 'quotas.tasks' in answer.json['detail'], 'with Retry-After and what to raise', answer)
same(red.quotas()['tasks'], (4, 5), 'a refused call has made nothing')
fifth = red.enqueue(dict(name='fifth', queue='q', data=1, unique='u'))
refused(red.post('/v1/tasks', dict(name='six', queue='q', data=1)), 429, 'quota_exceeded', text='the sixth')
same(red.post('/v1/tasks', dict(name='again', queue='q', data=1, unique='u')).json['id'], fifth['id'], 'what makes no task is not refused')
same(len(blue.enqueue(*[dict(name=f't{i}', queue='q', data=i) for i in range(20)])), 20, 'blue doesn\'t feel it')

# -- running tasks: a hold like a semaphore, first come first served
same((red.states(*[t['id'] for t in made]), red.quotas()['running'][0]), ('SSSS', 0), 'nobody can start them: nothing of the quota is used')
worker = Worker(site, 'everybody', kinds=['data'], slots=100)
same(red.states(*[t['id'] for t in made]), 'PPSS', 'two of four are pending, the others wait')
why = red.get(f'/v1/tasks/{made[2]["id"]}/why').json
same([c['kind'] for c in why['conditions'] if c['kind'] != 'executor'], ['quota'], 'why says quota')
ok('2 of 2' in why['conditions'][0]['detail'] and why['conditions'][0]['remedy'], 'with the numbers and a remedy', why)
order = []


def work(n, **end):
    for grant in worker.claim(free=n, wait_ms=3000):
        order.append(grant['task'])
        worker.finish(grant, **end)


reds = {t['id'] for t in [*made, fifth]}
until(lambda: work(3) or not reds - set(order), seconds=40)
same([t for t in order if t in reds], [*[t['id'] for t in made], fifth['id']], 'they run in the order in which they came')
same(red.quotas()['tasks'], (0, 5), 'and nothing is open')

# -- counted things: 507 and what to clear away
refused(red.post('/v1/tasks', dict(name='x', queue='third', data=1, semaphores=['s1', 's2', 's3'])), 507, 'quota_full', text='three semaphores of two')
same(red.post('/v1/tasks', dict(name='x', queue='second', data=1, semaphores=['s1', 's2'])).status, 201, 'two are taken')
refused(red.post('/v1/tasks', dict(name='x', queue='third', data=1)), 507, 'quota_full', text='a third queue')
refused(red.post('/v1/tasks', dict(name='x', queue='q', data=1, concurrency='k')), 507, 'quota_full', text='a concurrency key is one too')
same(red.post('/v1/archives', dict(name='a', kind='external')).status, 201, 'an archive')
refused(red.post('/v1/archives', dict(name='b', kind='external')), 507, 'quota_full', text='a second one')
same(red.post('/v1/archives', dict(name='a', kind='external')).status, 200, 'the same one again')
refused(red.post('/v1/archives/a/revisions', dict(rev=1, workflow={'tasks': [dict(name='n', command='true', semaphores=['new'])]})), 507, 'quota_full',
        text='a workflow with a semaphore more')
same([red.post('/v1/tokens', dict(name=f'n{i}', scopes=['read'])).status for i in range(3)], [201, 201, 507], 'three tokens')
same([red.post('/v1/executors', dict(name=n)).status for n in ('red-1', 'red-2', 'red-1')], [201, 507, 201], 'one executor, by its name')
until(lambda: work(3) or red.quotas()['tasks'][0] == 0, seconds=20)

# -- bytes of logs and files: what runs is never cut off; new tasks are refused until somebody prunes
def result(voice_, log, files=(), exit=0):
    task = voice_.enqueue(dict(name='r', queue='q', data=1))
    grant = [g for g in worker.claim(free=50) if g['task'] == task['id']][0]
    path = f'/v1/tasks/{task["id"]}/artifacts/'
    kept = []
    for name, data in files:  # what ended jobs had half sent goes a moment later, where servers share a store
        until(lambda: kept.append(site.ask('POST', f'{path}{name}?fence={grant["fence"]}&last=1', data)) or kept[-1].status == 200, seconds=20)
    kept = [answer.json for answer in kept if answer.status == 200]
    if log:
        worker.log(grant, 0, log)
    worker.finish(grant, exit=exit, log_bytes=len(log), artifacts=kept)
    return task['id']


halves = [red.enqueue(dict(name='half', queue='q', data=1)) for _ in range(2)]
grants = {g['task']: g for g in worker.claim(free=50)}


def half(n, name, bytes, offset=0):
    task = halves[n]['id']
    return site.ask('POST', f'/v1/tasks/{task}/artifacts/{name}?fence={grants[task]["fence"]}&offset={offset}', b'h' * bytes)


same([half(0, 'a', 30).status, half(1, 'b', 15).status], [200, 200], 'files that are half sent')
refused(half(1, 'b', 10, 15), 507, 'quota_full', text='count, of all jobs together')
same([half(0, 'a', 20).status, half(1, 'b', 10, 15).status], [200, 200], 'a file that gets shorter makes room')
for task in halves:
    worker.finish(grants[task['id']], exit=0)
until(lambda: red.quotas()['tasks'][0] == 0, 'their jobs end without them', 20)
result(red, b'x' * 90, [('f', b'y' * 30)])
same((red.quotas()['logs'], red.quotas()['files']), ((90, 100), (30, 50)), 'bytes are counted')
lanes = red.get('/v1/lanes').json['lanes']
same([(lane['log_bytes'], lane['file_bytes']) for lane in lanes if lane.get('log_bytes')], [(90, 30)], 'and the lane says that they are its own')
retried = result(red, b'x' * 20, [('f', b'y' * 20), ('g', b'z' * 5)], exit=1)
same((red.quotas()['logs'], red.quotas()['files']), ((110, 100), (55, 50)), 'a task that runs isn\'t cut off')
refused(red.post('/v1/tasks', dict(name='x', queue='q', data=1)), 507, 'quota_full', text='logs are full')
ok('history prune' in red.post('/v1/tasks', dict(name='x', queue='q', data=1)).json['detail'], 'it says how to clear them away')
refused(red.post(f'/v1/tasks/{retried}/retry'), 507, 'quota_full', text='a retry')
blue_bytes = result(blue, b'b' * 1000)
same(blue.quotas()['logs'][0], 1000, 'blue\'s are blue\'s')



def recount(who):
    """the same numbers, from the tasks themselves"""
    tasks = who.get('/v1/tasks?limit=1000').json['tasks']
    logs = [who.get(f'/v1/tasks/{t["id"]}/log') for t in tasks if t['attempts']]
    return (sum(t['state'] in 'QSPX' for t in tasks), sum(len(log.body) for log in logs if log.status == 200),
            sum(a['bytes'] for t in tasks for a in t.get('artifacts', [])))


def counted(who):
    quotas = who.quotas()
    return quotas['tasks'][0], quotas['logs'][0], quotas['files'][0]


# -- a kill -9, and all counts are what they were
before = red.quotas(), blue.quotas()
server.kill()
server.start()
same((red.quotas(), blue.quotas()), before, 'after kill -9 the counts are the same')
same((counted(red), counted(blue)), (recount(red), recount(blue)), 'and are what a recount gives')
refused(red.post('/v1/tasks', dict(name='x', queue='q', data=1)), 507, 'quota_full', text='and are gone by')
worker = Worker(site, 'everybody', kinds=['data'], slots=100)

# -- reload: quotas change under the lock of a turn; a limit below what is there frees nothing and refuses
ok(reload(server, tasks=3, running=1), 'a reload changes the quotas')
same((red.quotas()['logs'][1], red.quotas()['tasks'][1]), (None, 3), 'they are what the file says')
red.enqueue(*[dict(name=f'n{i}', queue='q', data=i) for i in range(3)])
same([e['subject'] for e in site.events() if e['kind'] == 'config'], ['tenants', 'tenants'], 'each change is an event')
ok(reload(server, tasks=2, running=1), 'a quota below what is there')
same(red.quotas()['tasks'], (3, 2), 'takes nothing away')
refused(red.post('/v1/tasks', dict(name='x', queue='q', data=1)), 429, 'quota_exceeded', text='and lets nothing in')
states = sorted(t['state'] for t in red.get('/v1/tasks?state=SP').json['tasks'])
same(states, ['P', 'S', 'S'], 'one is pending, as running says')
ok(reload(server), 'no quotas any more')
until(lambda: sorted(t['state'] for t in red.get('/v1/tasks?state=SP').json['tasks']) == ['P', 'P', 'P'], 'who waited for the quota goes on at once')
red.enqueue(*[dict(name=f'm{i}', queue='q', data=i) for i in range(30)])
until(lambda: work(50) or red.quotas()['tasks'][0] == 0, 'all of them run', seconds=30)
pruned = site.post('/v1/prune?tenant=blue', dict(older_than='1h', dry_run=False))
same((pruned.status, pruned.json['tasks'], red.quotas()['logs'][0]), (200, 0, 110), 'a prune of blue leaves red alone')

until(lambda: red.post('/v1/prune', dict(older_than='1s', dry_run=False)).status == 200 and counted(red) == (0, 0, 0), 'a prune of red gives its bytes back')
same((recount(red)[1:], counted(blue)), ((0, 0), recount(blue)), 'as a recount says; blue has what it had')

# -- logs count as they are stored, whatever their executor says of them, and also when it never says anything
ok(reload(server, logs='1MiB'), 'logs alone')
agent = Worker(site, 'brief', labels=dict(only='it'))
seqs = itertools.count(1)


def wrote(n, **end):
    """a log of 100 bytes; the end as it is told: bytes of logs that are counted for it"""
    before = red.quotas()['logs'][0]
    red.enqueue(dict(name=f'log{n}', queue='q', data=1, labels=dict(only='it'), retry=dict(attempts=1)))
    grant, = agent.claim(seq=next(seqs))
    same(agent.log(grant, 0, b'x' * 100).status, 200, 'a log')
    if end:
        same(agent.finish(grant, **end).status, 200, f'{end}')
    return grant, red.quotas()['logs'][0] - before


same([wrote(n, exit=0, **said)[1] for n, said in enumerate((dict(), dict(log_bytes=0), dict(log_bytes=99), dict(log_bytes=100)))], [100] * 4,
     'an end that says nothing, or less than there is')
grant, more = wrote(9)
same(more, 0, 'a job that runs isn\'t counted yet')
agent.poll(0, seq=next(seqs), renew=[dict(task=grant['task'], fence=grant['fence'])])
agent.poll(0, seq=next(seqs), renew=[])  # it had it, and has it no more
until(lambda: red.state(grant['task']) == 'F', 'it is lost', 20)
same(red.quotas()['logs'][0], 500, 'and what it had written is counted')
same(agent.log(grant, 100, b'x' * 50).status, 200, 'it comes back, with more')
same((counted(red)[1], recount(red)[1]), (550, 550), 'which is counted at once: it may never report an end')
same((agent.log(grant, 50, b'x' * 100).status, counted(red)[1]), (200, 550), 'what was sent before counts once')
same((agent.log(grant, 150, b'x' * 10).status, agent.finish(grant, exit=0, log_bytes=0).status, red.state(grant['task'])), (200, 200, 'D'), 'and its end')
same((counted(red)[1], recount(red)[1]), (560, 560), 'all of which is counted once')
grant, _ = wrote(10)
agent.poll(0, seq=next(seqs), renew=[dict(task=grant['task'], fence=grant['fence'])])
agent.poll(0, seq=next(seqs), renew=[])
until(lambda: red.state(grant['task']) == 'F', 'another one is lost', 20)
same((agent.log(grant, 100, b'y' * 40).status, counted(red)[1], recount(red)[1]), (200, 700, 700), 'goes on sending, and never ends')
same(site.get('/v1/verify', local=True).json['ok'], True, 'the history says so, too')
until(lambda: red.post('/v1/prune', dict(older_than='1s', dry_run=False)).status == 200 and counted(red) == (0, 0, 0), 'and given back by a prune')

# -- requests by the second; executors are never kept waiting by it
ok(reload(server, requests=5), 'five requests a second')
answers = [red.get('/v1/stats').status for _ in range(40)]
ok(answers.count(429) > 0 and answers.count(200) >= 5, 'more are refused', answers)
refused(until(lambda: (lambda a: a.status == 429 and a)(red.get('/v1/stats'))) or red.get('/v1/stats'), 429, 'quota_exceeded', text='with 429')
same([red.post('/v1/executors', dict(name='red-1')).status for _ in range(12)].count(429), 0, 'an executor\'s aren\'t counted')
same(blue.get('/v1/stats').status, 200, 'blue goes on')
same(server.cli('tenants').code, 0, 'weir tenants')
same(json.loads(server.cli('tenants', '--tenant', 'blue', '--json').out)[0]['name'], 'blue', 'weir tenants --tenant blue')

# -- bad configurations
for text, wanted in (('tenants: {red: {quotas: {taks: 1}}}', 'tasks'), ('tenants: {red: {quotas: {running: 0}}}', 'running'), ('tenants: [red]', 'mapping'),
                     ('tenants: {"-x": {}}', '-x'), ('tenants: {red: {quota: {}}}', 'quotas'), ('tenants: {red: {semaphores: {a: 0}}}', 'limit')):
    conf.write_text(text)


    done = subprocess.run([os.environ.get('WEIR', 'weir'), 'serve', '--config', str(conf), '--data', str(TMP / 'never'), '--show-config'], capture_output=True, text=True)
    ok(done.returncode == 65 and wanted in done.stderr and 'weir.yaml:1:' in done.stderr, f'{text}: refused at its place', done.returncode, done.stderr)
write(tasks=7)
same(server.cli('verify').code, 0, 'weir verify')

# -- a copy of the store has the same tenants, quotas and counts
if STORE == 'sqlite':
    ok(reload(server, requests=1000), 'a thousand requests a second')
    red.enqueue(*[dict(name=f'c{i}', queue='q', data=i) for i in range(5)])
    before = Voice(server).get('/v1/tenants').json['tenants']
    same(server.stop(), 0, 'the server ends')
    done = run('store', 'copy', f'sqlite://{server.dir}', f'sqlite://{TMP}/copy')
    same(done.code, 0, f'weir store copy {done.err}')
    write(requests=1000)
    copy = House('copy', '--config', str(conf), slots=0)
    same(Voice(copy).get('/v1/tenants').json['tenants'], before, 'the copy counts the same')
    same((counted(Voice(copy, red.token)), copy.cli('verify').code), (recount(Voice(copy, red.token)), 0), 'as its recount does')
end()
