#!/usr/bin/env python3
"""Several executors: labels and zones decide who runs what; pause, resume and drain; several servers to turn to; slots; the command line of it."""
import pathlib
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
from house import NAP, TMP, WEIR, House, alive, clean_env, end, ok, processes, run, same, until  # noqa: E402

s = House('data', slots=0)
started = []


def executor(name, *options, server=None, data=None):
    process = subprocess.Popen([WEIR, 'executor', *(server or ['--server', s.url]), '--data', str(data or TMP / f'data-{name}'), '--name', name, *options], env=clean_env(),
                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=open(TMP / f'{name}.err', 'ab'))
    started.append(process)
    return process


def nodes():
    return {n['name']: n for n in s.get('/v1/nodes').json['nodes'] if n['role'] == 'executor'}


def active(*names):
    return until(lambda: all(nodes().get(n, {}).get('state') == 'active' for n in names), seconds=30)


def ran_by(task):
    return [a['executor'] for a in s.ended(task)[0]['attempts']]


waits = s.enqueue(dict(name='early', command='true'))['id']
same(s.get(f'/v1/tasks/{waits}/why').json['verdict'], 'never', 'without an executor a command can never run')
a = executor('a', '--slots', '2', '--label', 'os=linux', '--label', 'disk=ssd', '--zone', 'eu')
b = executor('b', '--slots', '1', '--label', 'os=linux', '--label', 'gpu=1', '--zone', 'us')
ok(active('a', 'b'), 'two executors', nodes())
same(s.ended(waits)[0]['state'], 'D', 'what waited runs')
for more, name in ((dict(labels=dict(disk='ssd')), 'a'), (dict(labels=dict(gpu='1')), 'b'), (dict(zone='eu'), 'a'), (dict(zone='us'), 'b'), (dict(zone='us', labels=dict(os='linux')), 'b')):
    same(ran_by(s.enqueue(dict(name='x', command='true', **more))['id']), [name], f'{more}: {name}')
t = s.enqueue(dict(name='both', command='true', labels=dict(gpu='1'), zone='eu'))['id']
same((s.state(t), s.get(f'/v1/tasks/{t}/why').json['verdict']), ('P', 'never'), 'a label here and a zone there: never')
s.post(f'/v1/tasks/{t}/cancel', dict(reason='x'))

# -- slots
jobs = s.enqueue(*[dict(name=f'j{i}', script=f'echo $$ > {TMP}/j{i}; while [ ! -e {TMP}/go ]; do sleep 0.05; done') for i in range(5)])
ok(until(lambda: sum(s.state(t['id']) == 'X' for t in jobs) == 3, seconds=30), 'three slots, three run')
same(sorted(s.state(t['id']) for t in jobs), ['P', 'P', 'X', 'X', 'X'], 'the others wait')
why = s.get(f'/v1/tasks/{[t["id"] for t in jobs if s.state(t["id"]) == "P"][0]}/why').json
ok(why['verdict'] == 'waiting' and [c['kind'] for c in why['conditions']] == ['executor'], 'for a free slot, says why', why)
by = {e['name']: e for e in s.get('/v1/executors').json['executors']}
same({n: (e['slots'], e['running']) for n, e in by.items()}, {'a': (2, 2), 'b': (1, 1)}, '/v1/executors shows slots and running')
(TMP / 'go').touch()
same([t['state'] for t in s.ended(*[t['id'] for t in jobs])], ['D'] * 5, 'all run')
stats = s.get('/v1/stats').json['executors']
same(sum(e['processed'] for e in stats.values()), 11, 'stats per executor')

# -- pause and resume
same(run('executor', 'pause', 'a', '--server', s.socket).code, 0, 'weir executor pause')
ok(nodes()['a']['state'] == 'paused', 'nodes shows it', nodes())
held = s.enqueue(dict(name='held', command='true', labels=dict(disk='ssd')))['id']
other = s.enqueue(dict(name='other', command='true'))['id']
same(ran_by(other), ['b'], 'others take what they can')
same(s.state(held), 'P', 'what only it can run waits')
why = s.get(f'/v1/tasks/{held}/why').json
ok(why['verdict'] in ('waiting', 'never') and why['conditions'][0]['kind'] == 'executor', 'why', why)
same(run('executor', 'resume', 'a', '--server', s.socket).code, 0, 'weir executor resume')
same(ran_by(held), ['a'], 'then it runs')
same(run('executor', 'pause', 'nobody', '--server', s.socket).code, 66, 'no such executor: 66')

# -- drain: finishes what it has, takes nothing new, ends
job = s.enqueue(dict(name='last', labels=dict(gpu='1'), script=f'echo $$ > {TMP}/last; while [ ! -e {TMP}/go-last ]; do sleep 0.05; done'))['id']
ok(s.until_state(job, 'X') and until(lambda: (TMP / 'last').exists(), seconds=20), 'b has a job')
same(run('executor', 'drain', 'b', '--server', s.socket).code, 0, 'weir executor drain')
ok(until(lambda: nodes()['b']['state'] == 'draining', seconds=30), 'nodes shows it', nodes())
after = s.enqueue(dict(name='after', command='true', labels=dict(gpu='1')))['id']
same((b.poll(), s.state(job), s.state(after)), (None, 'X', 'P'), 'its job runs on, a new one waits')
(TMP / 'go-last').touch()
same(s.ended(job)[0]['state'], 'D', 'its job ends')
try:
    same(b.wait(30), 0, 'then the executor ends')
except subprocess.TimeoutExpired:
    ok(False, 'then the executor ends', nodes())
same(s.state(after), 'P', 'what it alone could run waits')
b = executor('b', '--slots', '1', '--label', 'gpu=1')
ok(until(lambda: s.state(after) == 'D', seconds=30), 'until it is back', nodes(), s.get(f'/v1/tasks/{after}/why'))

# -- a second one of the same name
began = len((TMP / 'a.err').read_text())
twin = executor('a', data=TMP / 'data-twin')
ok(until(lambda: "named 'a' is alive" in (TMP / 'a.err').read_text()[began:], seconds=30), 'a second live executor of the same name is refused, and says so', (TMP / 'a.err').read_text()[-500:])
same(len([e for e in s.get('/v1/executors').json['executors'] if e['name'] == 'a']), 1, 'it is not registered')
if twin.poll() is None:
    twin.send_signal(signal.SIGINT)
twin.wait(30)
same(nodes()['a']['state'], 'active', 'and the first lives')

# -- several servers: fails over
d = executor('d', '--slots', '1', '--label', 'far=1', server=['--server', 'http://127.0.0.1:1', '--server', s.url])
ok(active('d'), 'the first server is dead, the second is taken', (TMP / 'd.err').read_text()[-500:])
same(ran_by(s.enqueue(dict(name='far', command='true', labels=dict(far='1')))['id']), ['d'], 'and it works')

# -- SIGTERM leaves its job running, the next one with the same data adopts it; SIGINT ends it
job = s.enqueue(dict(name='kept', labels=dict(far='1'), script=f'echo $$ > {TMP}/kept; while [ ! -e {TMP}/go-kept ]; do sleep 0.05; done; echo end'))['id']
ok(until(lambda: (TMP / 'kept').exists() and (TMP / 'kept').read_text().strip(), seconds=30), 'd has a job')
pid = int((TMP / 'kept').read_text())
d.send_signal(signal.SIGTERM)
same((d.wait(30), alive(pid)), (0, True), 'SIGTERM: it ends, the job runs on')
d = executor('d', '--slots', '1', '--label', 'far=1')
(TMP / 'go-kept').touch()
got = s.ended(job)[0]
same((got['state'], len(got['attempts']), s.log_bytes(job)), ('D', 1, b'end\n'), 'the next one takes it over')
job = s.enqueue(dict(name='cut', labels=dict(far='1'), script=f'echo $$ > {TMP}/cut; sleep {NAP}'))['id']
ok(until(lambda: (TMP / 'cut').exists() and (TMP / 'cut').read_text().strip(), seconds=30), 'd has another')
d.send_signal(signal.SIGINT)
same(d.wait(40), 0, 'SIGINT: it ends')
ok(until(lambda: not processes(NAP), seconds=30), 'and its job', processes(NAP))
s.post(f'/v1/tasks/{job}/cancel', dict(reason='end'))
ok(until(lambda: nodes().get('d', {}).get('state') != 'active', seconds=60), 'a node that ended is gone or marked so', nodes())

# -- wrong ways
for args, code, text in ((['executor', '--server', 'nonsense:/'], 2, 'no address'), (['executor', '--server', s.url, '--slots', '0', '--data', TMP / 'n'], 2, 'no slots'),
                         (['executor', '--server', s.url, '--label', 'x', '--data', TMP / 'n'], 2, 'no label'), (['executor', 'drain'], 2, 'drain whom')):
    got = run(*args, timeout=30)
    ok(got.code == code, f'weir {" ".join(map(str, args[:3]))}: {code} ({text})', got.code, got.err)
for process in started:
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
same([p.wait(40) for p in (a, b)], [0, 0], 'SIGINT ends them')
end()
